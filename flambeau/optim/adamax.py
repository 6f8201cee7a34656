"""Adamax: Adam with the infinity norm."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .elementwise import ElementwiseOptimizer, functional, weight_numbers
from .optimizer import ParamsT

__all__ = ["Adamax", "adamax"]


class Adamax(ElementwiseOptimizer):
    """Adam whose second moment is the decayed maximum of absolute gradients.

    With gradient ``g`` (plus ``weight_decay * p``): ``m = beta1 * m + (1 - beta1) * g``, ``u = max(beta2 * u, |g| + eps)``, and
    after ``t`` steps ``p = p - lr / (1 - beta1**t) * m / u``.

    Args:
        betas: decay of the first moment and of the maximum.
        eps: added to the absolute gradient.
    Attributes:
        state: per parameter ``step``, ``exp_avg``, ``exp_inf``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.Adamax. Kingma and Ba 2015, algorithm 2.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.Adamax([weight], lr=0.5)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.5000, -1.5000])
    """

    _options = "lr betas eps weight_decay foreach maximize differentiable capturable"
    _non_negative = "eps weight_decay"
    _moments = ("exp_avg", "exp_inf")

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
        differentiable: bool = False, capturable: bool = False
    ) -> None:  # fmt: skip
        self._begin(params, locals())

    @staticmethod
    def _numbers(group: dict[str, Any], count: float) -> dict[str, Any]:
        beta1, beta2 = group["betas"]
        return {**weight_numbers(1 - beta1), "kept": beta2, "eps": group["eps"], "step_size": -(group["lr"] / (1 - beta1**count))}

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, exp_avg: Any, exp_inf: Any) -> Any:
        exp_avg = f.lerp(exp_avg, grad, n.weight, n.is_near)
        exp_inf = f.maximum(exp_inf * n.kept, f.abs(grad) + n.eps)
        return f.addcdiv(param, exp_avg, exp_inf, n.step_size), exp_avg, exp_inf


@functional(Adamax, "exp_avg exp_inf step")
def adamax(  # type: ignore[no-untyped-def]
    params, grads, exp_avgs, exp_infs, state_steps, foreach=None, maximize=False, differentiable=False, capturable=False,
    has_complex=False, *, eps, beta1, beta2, lr, weight_decay
):  # fmt: skip
    """
    Example:
        >>> param, grad = torch.tensor([1.0]), torch.tensor([2.0])
        >>> mean, largest, step = torch.zeros(1), torch.zeros(1), torch.zeros(())
        >>> torch.optim.adamax.adamax([param], [grad], [mean], [largest], [step],
        ...     lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0)
        >>> param
        tensor([0.9000])
    """
