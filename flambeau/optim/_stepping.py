"""What the optimizers share: one step over all groups, checks of options, scalars that may be tensors.

Each optimizer module holds a class (options, state) and one function over lists of tensors (the mathematics). The function
is what a faster kernel replaces: it gets everything that it reads and writes as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .. import ops
from ..autograd.grad_mode import enable_grad
from ..core.dtype import dtype, float32, float64, get_default_dtype
from ..core.state import set_grad, thread
from ..core.tensor import Tensor
from .optimizer import Optimizer

CAPTURABLE_DEVICES = ("cuda",)
FUSED_DEVICES = ("cpu", "cuda")


class GroupOptimizer(Optimizer):
    """An optimizer whose step updates the groups one after the other, each parameter from its own gradient and state."""

    # Options that checkpoints of earlier versions lack, with the value which means what those versions did.
    _later_options: ClassVar[dict[str, Any]] = {}
    # State entries that are 0-d tensors and were Python numbers in checkpoints of earlier versions.
    _scalar_state: ClassVar[tuple[str, ...]] = ("step",)
    _sparse_refusal: ClassVar[str] = ""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._later_options.items():
                group.setdefault(name, value)
            for param in group["params"]:
                entry = self.state.get(param) or {}
                for name in self._scalar_state:
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
        loss = None
        grad_mode = thread.grad_mode
        set_grad(bool(self.defaults.get("differentiable", False)))
        try:
            if closure is not None:
                with enable_grad():
                    loss = closure()
            for group in self.param_groups:
                if not self._update_arrays(group):
                    _check_writable(group["params"])
                    self._update_group(group)
        finally:
            set_grad(grad_mode)
        return loss

    def _update_arrays(self, group: dict[str, Any]) -> bool:
        """Update a usual group through raw arrays (see ``_arrays``); False where nothing was done, and any tensor may come."""
        return False

    def _update_group(self, group: dict[str, Any]) -> None:
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
            if grad.is_sparse and self._sparse_refusal:
                raise RuntimeError(self._sparse_refusal)
            state = self.state[param]
            if not state:
                if group.get("fused"):
                    check_fused(param)
                state.update(self._initial_state(param, group))
            params.append(param)
            grads.append(grad)
            states.append(state)
        return params, grads, states


def _check_writable(params: Sequence[Tensor]) -> None:
    if not all(param._array.flags.writeable for param in params if param.grad is not None):
        raise ValueError("step: expected parameters that can be written to, got one whose memory is read-only")


def column(states: list[dict[str, Any]], name: str) -> list[Any]:
    """One entry of each state."""
    return [state[name] for state in states]


def scalar(value: Any) -> Any:
    """A hyperparameter as a number or a 0-d tensor: tensors of one element lose their dimensions."""
    return value.squeeze() if isinstance(value, Tensor) and value.dim() != 0 else value


def are_numbers(*values: Any) -> bool:
    """Whether all hyperparameters are real Python numbers, so that arrays can be stepped with them."""
    return all(isinstance(value, (float, int)) for value in values)


def number(value: Any) -> Any:
    """A hyperparameter as a Python number, for ``alpha=`` and ``value=``."""
    return value.item() if isinstance(value, Tensor) else value


def scalar_dtype(fused: bool = False) -> dtype:
    """The dtype of counters: float64 under a float64 default, else float32."""
    return float64 if not fused and get_default_dtype() == float64 else float32


def new_scalar(value: float, param: Tensor, group: dict[str, Any]) -> Tensor:
    """A 0-d counter for ``param``; on the CPU, where reading it is cheap, unless the group wants it on the device."""
    fused = bool(group.get("fused"))
    device = param.device if fused or group.get("capturable") else "cpu"
    return ops.tensor(value, dtype=scalar_dtype(fused), device=device)


def real_views(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Complex tensors as real ones with a last dimension of 2, sharing memory: each part is a parameter of its own."""
    return tuple(ops.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in tensors)


def check_lr(lr: float | Tensor) -> None:
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_non_negative(**options: Any) -> None:
    for name, value in options.items():
        if not 0.0 <= value:
            raise ValueError(f"Invalid {'epsilon' if name == 'eps' else name} value: {value}")


def check_betas(betas: Sequence[Any]) -> None:
    for idx in (0, 1):
        if not 0.0 <= betas[idx] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {idx}: {betas[idx]}")


def check_fused_options(options: dict[str, Any]) -> None:
    """``fused`` promises one pass over the data, which neither autograd nor a pass per operation gives."""
    if options["fused"]:
        if options["differentiable"]:
            raise RuntimeError("`fused` does not support `differentiable`")
        if options["foreach"]:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def check_fused(param: Tensor) -> None:
    if not param.is_floating_point() or param.device.type not in FUSED_DEVICES:
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of "
            f"supported devices: {list(FUSED_DEVICES)} but {param.dtype} and {param.device.type}"
        )


def check_capturable(params: Sequence[Tensor], *scalars: Sequence[Tensor], what: str = "params and state_steps") -> None:
    """With ``capturable=True`` nothing may be read back to the CPU, so everything has to be on a device."""
    for param, *counters in zip(params, *scalars, strict=True):
        kind = param.device.type
        if kind not in CAPTURABLE_DEVICES or any(counter.device.type != kind for counter in counters):
            raise AssertionError(
                f"If capturable=True, {what} must be on supported devices: {list(CAPTURABLE_DEVICES)}, got params on {kind}."
            )


def check_steps(state_steps: Sequence[Any]) -> None:
    if not all(isinstance(step, Tensor) for step in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")


def refuse_scaling(grad_scale: Tensor | None, found_inf: Tensor | None) -> None:
    if grad_scale is not None or found_inf is not None:
        raise NotImplementedError("optimizer step: grad_scale and found_inf are not supported; unscale the gradients before the step")


def decayed(grad: Tensor, param: Tensor, weight_decay: Any) -> Tensor:
    """``grad + weight_decay * param``, the gradient with an L2 penalty; differentiable in ``weight_decay`` where asked."""
    if isinstance(weight_decay, Tensor) and weight_decay.requires_grad:
        # The parameter changes in place later, so autograd needs a copy of what it was.
        return grad.addcmul(param.clone(), weight_decay)
    return grad.add(param, alpha=number(weight_decay))
