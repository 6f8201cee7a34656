"""RAdam: Adam whose adaptive step sets in when its variance is small enough."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .elementwise import ElementwiseOptimizer, functional, moment_numbers, moments
from .optimizer import ParamsT

__all__ = ["RAdam", "radam"]


class RAdam(ElementwiseOptimizer):
    """Adam with its variance rectified: momentum descent in the first steps, then Adam with a factor that grows to 1.

    With Adam's moments ``m`` and ``v`` after ``t`` steps, ``rho_inf = 2 / (1 - beta2) - 1`` and
    ``rho = rho_inf - 2 * t * beta2**t / (1 - beta2**t)``: while ``rho <= 5`` the step is ``lr * m / (1 - beta1**t)``, then it is
    that times ``r * sqrt(1 - beta2**t) / (sqrt(v) + eps)`` with the rectification ``r`` of the paper.

    Attributes:
        state: per parameter ``step`` (a 0-d tensor), ``exp_avg``, ``exp_avg_sq``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.RAdam. Liu et al. 2020.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.RAdam([weight], lr=0.1)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.8000, -1.6000])
    """

    _options = "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"
    _non_negative = "eps weight_decay"
    _moments = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False
    ) -> None:  # fmt: skip
        self._begin(params, locals())

    @staticmethod
    def _numbers(group: dict[str, Any], count: float) -> dict[str, Any]:
        beta1, beta2 = group["betas"]
        correction = 1 - beta2**count
        limit = 2 / (1 - beta2) - 1
        rho = limit - 2 * count * (beta2**count) / correction
        rectified = ((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)) ** 0.5 if rho > 5.0 else None
        return {
            **moment_numbers(beta1, beta2),
            "correction": 1 - beta1**count,
            "root_correction": correction**0.5,
            "eps": group["eps"],
            "lr": group["lr"],
            "rectified": rectified,
        }

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any) -> Any:
        exp_avg, exp_avg_sq = moments(f, n, grad, exp_avg, exp_avg_sq)
        update = exp_avg / n.correction * n.lr
        if n.rectified is not None:
            update = update * (n.root_correction / (f.sqrt(exp_avg_sq) + n.eps)) * n.rectified
        return param - update, exp_avg, exp_avg_sq


@functional(RAdam, "exp_avg exp_avg_sq step")
def radam(  # type: ignore[no-untyped-def]
    params, grads, exp_avgs, exp_avg_sqs, state_steps, decoupled_weight_decay=False, foreach=None, differentiable=False,
    capturable=False, has_complex=False, maximize=False, *, beta1, beta2, lr, weight_decay, eps
):  # fmt: skip
    """
    Example:
        >>> param, grad = torch.tensor([1.0]), torch.tensor([2.0])
        >>> mean, square, step = torch.zeros(1), torch.zeros(1), torch.zeros(())
        >>> torch.optim.radam.radam([param], [grad], [mean], [square], [step], lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0)
        >>> param
        tensor([0.8000])
    """
