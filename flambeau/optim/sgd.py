"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ._stepping import add_entries_, number
from .elementwise import ElementwiseOptimizer, functional
from .optimizer import ParamsT

__all__ = ["SGD", "sgd"]


class SGD(ElementwiseOptimizer):
    """Gradient descent, with momentum or Nesterov momentum where wanted.

    With gradient ``g`` (plus ``weight_decay * p``), buffer ``b = momentum * b + (1 - dampening) * g`` (the first ``b`` is
    ``g``) and ``d = b``, or ``g + momentum * b`` under Nesterov: ``p = p - lr * d``.

    Args:
        dampening: how much of the gradient is left out of the buffer.
        nesterov: look ahead along the buffer; needs momentum and no dampening.
    Attributes:
        state: per parameter ``momentum_buffer``; nothing without momentum.
    Raises:
        ValueError: a negative option, or Nesterov without momentum or with dampening.
        RuntimeError: ``fused`` with ``foreach`` or ``differentiable``.
    Source: torch.optim.SGD. Nesterov momentum: Sutskever et al. 2013.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.8000, -1.6000])
    """

    _options = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
    _non_negative = "momentum weight_decay"
    _counters = {}
    _moments = ("momentum_buffer",)
    _late = ("momentum_buffer",)

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float | Tensor = 0, nesterov: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None
    ) -> None:  # fmt: skip
        self._begin(params, locals())

    def _check(self, options: dict[str, Any]) -> None:
        super()._check(options)
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    @classmethod
    def _kept(cls, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    @staticmethod
    def _numbers(group: dict[str, Any]) -> dict[str, Any]:
        momentum, dampening = group["momentum"], group["dampening"]
        return {
            "step_size": -group["lr"],
            "momentum": momentum if momentum != 0 else None,
            "taken": 1 - dampening if dampening != 0 else None,
            "nesterov": group["nesterov"],
        }

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, buffer: Any) -> Any:
        direction = grad
        if n.momentum is not None:
            if buffer is None:
                buffer = grad
            else:
                buffer = buffer * n.momentum + grad if n.taken is None else f.add(buffer * n.momentum, grad, n.taken)
            direction = f.add(grad, buffer, n.momentum) if n.nesterov else buffer
        return f.add(param, direction, n.step_size), buffer

    @staticmethod
    def _update_sparse(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any]) -> None:
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])  # raises, as in PyTorch: the sum is dense
        momentum, lr = group["momentum"], number(group["lr"])
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            buffer = grad.clone() if buffer is None else buffer.mul(momentum).add(grad, alpha=1 - group["dampening"])
            state["momentum_buffer"] = buffer
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        add_entries_(param, grad, -lr)


@functional(SGD, "momentum_buffer")
def sgd(  # type: ignore[no-untyped-def]
    params, d_p_list, momentum_buffer_list, has_sparse_grad=False, foreach=None, fused=None, grad_scale=None, found_inf=None, *,
    weight_decay, momentum, lr, dampening, nesterov, maximize
):  # fmt: skip
    """
    Example:
        >>> param, grad = torch.tensor([1.0]), torch.tensor([2.0])
        >>> torch.optim.sgd.sgd([param], [grad], [None],
        ...     lr=0.1, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False)
        >>> param
        tensor([0.8000])
    """
