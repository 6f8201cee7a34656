"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .elementwise import ElementwiseOptimizer, functional, moment_numbers, moments
from .optimizer import ParamsT

__all__ = ["NAdam", "nadam"]


class NAdam(ElementwiseOptimizer):
    """Adam that looks one step ahead along its momentum, with a momentum that warms up.

    With gradient ``g`` (plus ``weight_decay * p``), ``mu_t = beta1 * (1 - 0.96**(t * momentum_decay) / 2)`` and ``P_t`` the
    product of all ``mu`` so far: ``d = sqrt(v / (1 - beta2**t)) + eps`` and
    ``p = p - lr * (1 - mu_t) / (1 - P_t) * g / d - lr * mu_(t+1) / (1 - P_(t+1)) * m / d``, with Adam's moments ``m``, ``v``.

    Args:
        momentum_decay: how fast the momentum warms up.
    Attributes:
        state: per parameter ``step``, ``mu_product`` (0-d tensors), ``exp_avg``, ``exp_avg_sq``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.NAdam. Dozat 2016.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.NAdam([weight], lr=0.1)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.8944, -1.8944])
    """

    _options = "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"
    _non_negative = "eps weight_decay momentum_decay"
    _counters = {"step": 0.0, "mu_product": 1.0}
    _moments = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False
    ) -> None:  # fmt: skip
        self._begin(params, locals())

    @staticmethod
    def _numbers(group: dict[str, Any], count: float, mu_product: Any) -> dict[str, Any]:
        lr, (beta1, beta2) = group["lr"], group["betas"]
        mu, following = (beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (count, count + 1))
        mu_product *= mu
        product = mu_product.clone() if group["differentiable"] else mu_product.item()  # PyTorch divides in float32 where it records
        return {
            **moment_numbers(beta1, beta2),
            "correction": 1 - beta2**count,
            "eps": group["eps"],
            "by_grad": -lr * (1.0 - mu) / (1.0 - product),
            "by_average": (-lr * following) / (1.0 - product * following),
        }

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any) -> Any:
        exp_avg, exp_avg_sq = moments(f, n, grad, exp_avg, exp_avg_sq)
        root = f.sqrt(exp_avg_sq / n.correction) + n.eps
        param = f.addcdiv(param, grad, root, n.by_grad)
        return f.addcdiv(param, exp_avg, root, n.by_average), exp_avg, exp_avg_sq


@functional(NAdam, "exp_avg exp_avg_sq mu_product step")
def nadam(  # type: ignore[no-untyped-def]
    params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps, decoupled_weight_decay=False, foreach=None, capturable=False,
    differentiable=False, has_complex=False, maximize=False, *, beta1, beta2, lr, weight_decay, momentum_decay, eps
):  # fmt: skip
    """
    Example:
        >>> param, grad = torch.tensor([1.0]), torch.tensor([2.0])
        >>> mean, square, step = torch.zeros(1), torch.zeros(1), torch.zeros(())
        >>> torch.optim.nadam.nadam([param], [grad], [mean], [square], [torch.ones(())], [step],
        ...     lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, momentum_decay=0.004)
        >>> param
        tensor([0.8944])
    """
