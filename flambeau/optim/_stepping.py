"""Parts that all optimizers use: their options and the texts about them, one step over all groups, checks, scalars that may be tensors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from numpy import ndarray

from .. import ops
from ..autograd.grad_mode import enable_grad
from ..core.dtype import dtype, float32, float64, get_default_dtype
from ..core.state import set_grad, thread
from ..core.tensor import Tensor, storage_of
from ._machine import found, prepare
from .optimizer import Optimizer, ParamsT

CAPTURABLE_DEVICES = ("cuda",)
FUSED_DEVICES = ("cpu", "cuda")

# What the arguments mean that several optimizers have; a class's docstring lists those that mean something else there.
ARGUMENTS = {
    "params": "parameters or groups, see :class:`~flambeau.optim.Optimizer`.",
    "lr": "learning rate, a number or a tensor of one element.",
    "betas": "decay of the first and of the second moment.",
    "eps": "added to the denominator.",
    "weight_decay": "factor of the L2 penalty.",
    "momentum": "how much of the last direction is kept.",
    "foreach": "accepted; the mathematics is the same.",
    "maximize": "climb instead of descend.",
    "capturable": "read no counter back from the device; parameters have to be on one.",
    "differentiable": "record the update for autograd.",
    "fused": "accepted; the mathematics is the same. Parameters have to be floating point.",
    "decoupled_weight_decay": "shrink the parameters by ``lr * weight_decay`` instead of changing the gradient.",
}

# Options that checkpoints of earlier versions lack, with the value which means what those versions did.
LATER_OPTIONS = {
    "momentum": 0,
    "amsgrad": False,
    "nesterov": False,
    "centered": False,
    "foreach": None,
    "maximize": False,
    "capturable": False,
    "differentiable": False,
    "fused": None,
    "decoupled_weight_decay": False,
}


def complete_docstring(cls: type) -> None:
    """Let the section ``Args`` of a class's docstring have all arguments of ``__init__``: those it lacks get the common text."""
    text, *sections = re.split(r"^(?=[A-Z]\w+:)", inspect.cleandoc(cls.__doc__ or ""), flags=re.MULTILINE)
    own = "".join([section for section in sections if section.startswith("Args:")])
    texts = ARGUMENTS | dict(re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", own, re.MULTILINE))
    listed = [f"    {name}: {texts[name]}\n" for name in inspect.signature(cls).parameters if name in texts]
    cls.__doc__ = "".join([text, "Args:\n", *listed, *[section for section in sections if section not in own]])


def check_lr(lr: float | Tensor) -> None:
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


class GroupOptimizer(Optimizer):
    """An optimizer whose step updates the groups one after the other, each parameter from its own gradient and state.

    Attributes:
        _options: names of the options in the order in which a group has them.
        _non_negative: those that may not be negative.
    """

    _options: ClassVar[str] = ""
    _non_negative: ClassVar[str] = ""
    _counters: ClassVar[dict[str, float]] = {"step": 0.0}
    _sparse_hint: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__doc__ and "__init__" in cls.__dict__ and cls.__module__.startswith(f"{__package__}."):
            complete_docstring(cls)

    def _begin(self, params: ParamsT, given: dict[str, Any]) -> None:
        """Check and store the arguments of ``__init__``: ``given`` has the options, and may have more."""
        options = {name: given[name] for name in self._options.split()}
        self._check(options)
        super().__init__(params, options)
        if options.get("fused"):  # it promises one pass over the data, which neither autograd nor a pass per operation gives
            if options["differentiable"]:
                raise RuntimeError("`fused` does not support `differentiable`")
            if options["foreach"]:
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def _check(self, options: dict[str, Any]) -> None:
        """Raise ValueError for an option out of its range."""
        check_lr(options["lr"])
        for name in self._non_negative.split():
            if not 0.0 <= options[name]:
                raise ValueError(f"Invalid {'epsilon' if name == 'eps' else name} value: {options[name]}")
        for idx, beta in enumerate(options.get("betas", ())):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {idx}: {beta}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name in self._options.split():
                if name in LATER_OPTIONS:
                    group.setdefault(name, LATER_OPTIONS[name])
            for param in group["params"]:
                entry = self.state.get(param) or {}
                for name in self._counters:
                    if name in entry and not isinstance(entry[name], Tensor):
                        entry[name] = new_scalar(float(entry[name]), param, group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        Args:
            closure: computes the loss anew with its gradients (autograd is on inside) and returns it.
        Returns:
            What ``closure`` returned, or None.
        Raises:
            ValueError: the memory of a parameter is read-only; no parameter of its group has been updated then.
        """
        launch = self._plans.launch
        if launch is not None and closure is None and found[0](launch.words, self.state, self.param_groups):
            return None
        loss = None
        grad_mode = thread.grad_mode
        try:
            set_grad(bool(self.defaults.get("differentiable", False)))
            if closure is not None:
                with enable_grad():
                    loss = closure()
            for group in self.param_groups:
                self._update_group(group)
        finally:
            try:
                set_grad(grad_mode)
            except BaseException:  # a signal handler's, as the call began
                set_grad(grad_mode)
                raise
        if found:
            prepare(self)
        return loss

    def _update_group(self, group: dict[str, Any]) -> None:
        """Update the group's parameters."""
        raise NotImplementedError

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter before its first update."""
        raise NotImplementedError

    def _gather(self, group: dict[str, Any]) -> tuple[list[Tensor], list[Tensor], list[dict[str, Any]]]:
        """The group's parameters with a gradient, the gradients, and the parameters' states (made where missing)."""
        params, grads, states = [], [], []
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if grad._array.__class__ is not ndarray and grad.is_sparse:
                raise RuntimeError(f"{type(self).__name__} does not support sparse gradients{self._sparse_hint}")
            state = self.state.get(param)
            if not state:
                if group.get("fused"):
                    check_fused(param)
                state = self._initial_state(param, group)
                if state:
                    self.state[param] = state
            params.append(param)
            grads.append(grad)
            states.append(state)
        if not all(getattr(param._array.flags, "writeable", True) for param in params):  # other devices' arrays are
            raise ValueError("step: expected parameters that can be written to, got one whose memory is read-only")
        return params, grads, states


def add_entries_(target: Tensor, entries: Tensor, alpha: float = 1.0) -> None:
    """``target += alpha * entries`` of a COO tensor, in place, touching nothing else of ``target``."""
    entries = entries.coalesce()
    indices, values = entries._indices()._array, entries._values()._array
    key = tuple(indices) if len(indices) else ...
    target._array[key] += values if alpha == 1 else values * values.dtype.type(alpha)
    storage_of(target)._bump()


def entries_of(tensor: Tensor, places: Tensor) -> Tensor:
    """The elements of a dense tensor at the places of a COO tensor."""
    return tensor.sparse_mask(places)._values()


def with_entries(places: Tensor, values: Tensor) -> Tensor:
    """Other values at the places of a coalesced COO tensor."""
    return ops.sparse_coo_tensor(places._indices(), values, places.shape, is_coalesced=True)


def column(states: list[dict[str, Any]], name: str) -> list[Any]:
    """One entry of each state."""
    return [state[name] for state in states]


def scalar(value: Any) -> Any:
    """A hyperparameter as a number or a 0-d tensor: tensors of one element lose their dimensions."""
    return value.squeeze() if isinstance(value, Tensor) and value.dim() != 0 else value


def number(value: Any) -> Any:
    """A hyperparameter as a Python number, for ``alpha=`` and ``value=``."""
    return value.item() if isinstance(value, Tensor) else value


def scalar_dtype(fused: bool = False) -> dtype:
    """The dtype of counters: float64 under a float64 default, else float32."""
    return float64 if not fused and get_default_dtype() == float64 else float32


def new_scalar(value: float, param: Tensor, group: dict[str, Any]) -> Tensor:
    """A 0-d counter for ``param``; on the CPU, where reading it is cheap, unless the group is fused or capturable."""
    fused = bool(group.get("fused"))
    device = param.device if fused or group.get("capturable") else "cpu"
    return ops.tensor(value, dtype=scalar_dtype(fused), device=device)


def check_fused(param: Tensor) -> None:
    if not param.is_floating_point() or param.device.type not in FUSED_DEVICES:
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of "
            f"supported devices: {list(FUSED_DEVICES)} but {param.dtype} and {param.device.type}"
        )


def check_capturable(params: Sequence[Tensor], counters: Sequence[Sequence[Tensor]]) -> None:
    """With ``capturable=True`` nothing may be read back to the CPU, so everything has to be on a device."""
    for param, own in zip(params, counters, strict=True):
        kind = param.device.type
        if kind not in CAPTURABLE_DEVICES or any(counter.device.type != kind for counter in own):
            raise AssertionError(
                "If capturable=True, params and state_steps must be on supported devices: "
                f"{list(CAPTURABLE_DEVICES)}, got params on {kind}."
            )


def check_steps(state_steps: Sequence[Any]) -> None:
    if not all(isinstance(step, Tensor) for step in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")


def refuse_scaling(grad_scale: Tensor | None, found_inf: Tensor | None) -> None:
    if grad_scale is not None or found_inf is not None:
        raise NotImplementedError("optimizer step: grad_scale and found_inf are not supported; unscale the gradients before the step")
