"""RMSprop: gradients divided by the root of their decayed mean square."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .elementwise import ElementwiseOptimizer, functional, weight_numbers
from .optimizer import ParamsT

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(ElementwiseOptimizer):
    """Gradient descent on gradients divided by the root of their running mean square, with momentum where wanted.

    With gradient ``g`` (plus ``weight_decay * p``): ``v = alpha * v + (1 - alpha) * g**2``, ``a = sqrt(v) + eps`` (centered:
    ``sqrt(v - mean(g)**2) + eps``), ``p = p - lr * g / a``; with momentum ``b = momentum * b + g / a`` and ``p = p - lr * b``.

    Args:
        alpha: decay of the running averages.
        centered: divide by the standard deviation instead of the root mean square.
    Attributes:
        state: per parameter ``step``, ``square_avg``, and ``momentum_buffer`` and ``grad_avg`` where used.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.RMSprop. Hinton's lecture 6e; centered: Graves 2013.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.RMSprop([weight], lr=0.05)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.5000, -1.5000])
    """

    _options = "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
    _non_negative = "eps momentum weight_decay alpha"
    _moments = ("square_avg", "momentum_buffer", "grad_avg")

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False
    ) -> None:  # fmt: skip
        self._begin(params, locals())

    @classmethod
    def _kept(cls, group: dict[str, Any]) -> tuple[str, ...]:
        buffered = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return ("square_avg", *buffered, "grad_avg") if group["centered"] else ("square_avg", *buffered)

    @staticmethod
    def _numbers(group: dict[str, Any], count: float) -> dict[str, Any]:
        alpha, momentum = group["alpha"], group["momentum"]
        return {
            "kept": alpha,
            "taken": 1 - alpha,
            **weight_numbers(1 - alpha),
            "eps": group["eps"],
            "momentum": momentum if momentum > 0 else None,
            "step_size": -group["lr"],
        }

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, square_avg: Any, buffer: Any, grad_avg: Any) -> Any:
        variance = square_avg = f.addcmul(square_avg * n.kept, grad, grad, n.taken)
        if grad_avg is not None:
            grad_avg = f.lerp(grad_avg, grad, n.weight, n.is_near)
            variance = f.addcmul(square_avg, grad_avg, grad_avg, -1)
        root = f.sqrt(variance) + n.eps
        if buffer is None:
            return f.addcdiv(param, grad, root, n.step_size), square_avg, None, grad_avg
        buffer = f.addcdiv(buffer * n.momentum, grad, root, 1)
        return f.add(param, buffer, n.step_size), square_avg, buffer, grad_avg


@functional(RMSprop, "square_avg grad_avg momentum_buffer step")
def rmsprop(  # type: ignore[no-untyped-def]
    params, grads, square_avgs, grad_avgs, momentum_buffer_list, state_steps, foreach=None, maximize=False, differentiable=False,
    capturable=False, has_complex=False, *, lr, alpha, eps, weight_decay, momentum, centered
):  # fmt: skip
    """
    Example:
        >>> param, grad = torch.tensor([1.0]), torch.tensor([2.0])
        >>> square, step = torch.zeros(1), torch.zeros(())
        >>> torch.optim.rmsprop.rmsprop([param], [grad], [square], [], [], [step],
        ...     lr=0.1, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False)
        >>> param
        tensor([5.9605e-08])
    """
