"""Optimizers that get their gradients as arguments. Source: torch.distributed.optim.utils."""

from __future__ import annotations

from typing import Any

from ... import optim
from ...core.tensor import Tensor

__all__ = ["as_functional_optim", "functional_optim_map", "register_functional_optim"]


class _Functional:
    """Steps by gradients that the caller has, not by ``.grad``.

    Args:
        params: the parameters.
        settings: of the optimizer of that name.
    """

    kind: type[optim.Optimizer]
    defaults: dict[str, Any] = {}

    def __init__(self, params: list[Tensor], *args: Any, _allow_empty_param_list: bool = False, **settings: Any) -> None:
        if not params and not _allow_empty_param_list:
            raise ValueError("optimizer got an empty parameter list")
        self._args, self._settings = args, settings if args else {**self.defaults, **settings}
        self._optimizers = [self.kind([param], *self._args, **self._settings) for param in params]
        self._of = {id(param): optimizer for param, optimizer in zip(params, self._optimizers, strict=True)}
        self.param_group = {"params": list(params)}

    @property
    def state(self) -> dict[Any, Any]:
        """The state of each parameter."""
        return {param: state for optimizer in self._optimizers for param, state in optimizer.state.items()}

    def step_param(self, param: Tensor, grad: Tensor | None) -> None:
        """A step on one parameter."""
        optimizer = self._of.get(id(param))
        if optimizer is None:
            optimizer = self._of[id(param)] = self.kind([param], *self._args, **self._settings)
            self._optimizers.append(optimizer)
        was, param.grad = param.grad, grad
        try:
            optimizer.step()
        finally:
            param.grad = was

    def step(self, gradients: list[Tensor | None]) -> None:
        """A step on all of them."""
        params = self.param_group["params"]
        if len(params) != len(gradients):
            raise ValueError(
                "the gradients passed in does not equal to the size of the parameters!"
                f"Params length: {len(params)}. Gradients length: {len(gradients)}"
            )
        for param, grad in zip(params, gradients, strict=True):
            if grad is not None:
                self.step_param(param, grad)


def _functional(name: str, **defaults: Any) -> type[_Functional]:
    kind = getattr(optim, name)
    doc = f"``torch.optim.{name}`` that gets its gradients as arguments. Source: torch.distributed.optim.utils."
    return type(f"_Functional{name}", (_Functional,), {"kind": kind, "defaults": defaults, "__doc__": doc, "__module__": __name__})


_FunctionalAdadelta = _functional("Adadelta")
_FunctionalAdagrad = _functional("Adagrad")
_FunctionalAdam = _functional("Adam")
_FunctionalAdamW = _functional("AdamW")
_FunctionalAdamax = _functional("Adamax", lr=1e-3)
_FunctionalRMSprop = _functional("RMSprop")
_FunctionalRprop = _functional("Rprop")
_FunctionalSGD = _functional("SGD", lr=0.01)

functional_optim_map: dict[type, type] = {
    kind.kind: kind
    for kind in (
        _FunctionalAdadelta, _FunctionalAdagrad, _FunctionalAdam, _FunctionalAdamW, _FunctionalAdamax, _FunctionalRMSprop, _FunctionalRprop,
        _FunctionalSGD,
    )
}  # fmt: skip


def register_functional_optim(key: Any, optim: Any) -> None:
    """Name the form of an optimizer that gets its gradients as arguments.

    Args:
        key: class of the optimizer.
        optim: the form.
    Source: torch.distributed.optim.utils.register_functional_optim.
    Example:
        >>> from flambeau.distributed.optim import utils
        >>> class Mine(torch.optim.SGD): ...
        >>> utils.register_functional_optim(Mine, utils._FunctionalSGD)
        >>> utils.functional_optim_map[Mine].__name__
        '_FunctionalSGD'
    """
    functional_optim_map.setdefault(key, optim)


def as_functional_optim(optim_cls: type, *args: Any, **kwargs: Any) -> Any:
    """The form of an optimizer that gets its gradients as arguments, without parameters yet.

    Args:
        optim_cls: class of the optimizer.
        args, kwargs: its settings.
    Returns: an object with ``step_param(param, grad)``.
    Raises:
        ValueError: there is no such form.
    Source: torch.distributed.optim.as_functional_optim.
    Example:
        >>> from flambeau.distributed.optim import as_functional_optim
        >>> weight = torch.ones(2)
        >>> as_functional_optim(torch.optim.SGD, lr=0.5).step_param(weight, torch.ones(2))
        >>> weight
        tensor([0.5000, 0.5000])
    """
    found = functional_optim_map.get(optim_cls)
    if found is None:
        raise ValueError(f"Optimizer {optim_cls} does not have a functional counterpart!")
    return _create_functional_optim(found, *args, **kwargs)


def _create_functional_optim(functional_optim_cls: type, *args: Any, **kwargs: Any) -> Any:
    """One without parameters. Source: torch.distributed.optim.utils."""
    return functional_optim_cls([], *args, **kwargs, _allow_empty_param_list=True)
