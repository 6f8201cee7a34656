"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ._stepping import (
    GroupOptimizer,
    check_betas,
    check_capturable,
    check_lr,
    check_non_negative,
    check_steps,
    column,
    decayed,
    new_scalar,
    number,
    real_views,
    scalar,
)
from .optimizer import ParamsT

__all__ = ["NAdam", "nadam"]


class NAdam(GroupOptimizer):
    """Adam that looks one step ahead along its momentum, with a momentum that warms up.

    With gradient ``g`` (plus ``weight_decay * p``), ``mu_t = beta1 * (1 - 0.96**(t * momentum_decay) / 2)`` and ``P_t`` the
    product of all ``mu`` so far: ``d = sqrt(v / (1 - beta2**t)) + eps`` and
    ``p = p - lr * (1 - mu_t) / (1 - P_t) * g / d - lr * mu_(t+1) / (1 - P_(t+1)) * m / d``, with Adam's moments ``m``, ``v``.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        betas: decay of the first and of the second moment.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty (of the decay itself with ``decoupled_weight_decay``).
        momentum_decay: how fast the momentum warms up.
        decoupled_weight_decay: shrink the parameters by ``lr * weight_decay`` instead of changing the gradient.
        foreach: accepted; the mathematics is the same.
        maximize: climb instead of descend.
        capturable: read no counter back from the device; parameters have to be on one.
        differentiable: record the update for autograd.
    Attributes:
        state: per parameter ``step``, ``mu_product`` (0-d tensors), ``exp_avg``, ``exp_avg_sq``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.NAdam. Dozat 2016.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }
    _scalar_state = ("step", "mu_product")
    _sparse_refusal = "NAdam does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_non_negative(eps=eps)
        check_betas(betas)
        check_non_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_scalar(0.0, param, group),
            "mu_product": new_scalar(1.0, param, group),
            "exp_avg": ops.zeros_like(param),
            "exp_avg_sq": ops.zeros_like(param),
        }

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        beta1, beta2 = group["betas"]
        nadam(
            params,
            grads,
            column(states, "exp_avg"),
            column(states, "exp_avg_sq"),
            column(states, "mu_product"),
            column(states, "step"),
            decoupled_weight_decay=group["decoupled_weight_decay"],
            foreach=group["foreach"],
            capturable=group["capturable"],
            differentiable=group["differentiable"],
            maximize=group["maximize"],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            momentum_decay=group["momentum_decay"],
            eps=group["eps"],
        )


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """Update ``params``, the moments and the counters in place by one step of NAdam.

    Args: as in :class:`NAdam`; ``foreach`` and ``has_complex`` change nothing.
    Source: torch.optim.nadam.nadam.
    """
    check_steps(state_steps)
    if capturable:
        check_capturable(params, mu_products, state_steps, what="params, mu_products and state_steps")
    lr = scalar(lr)
    for i, param in enumerate(params):
        grad = -grads[i] if maximize else grads[i]
        exp_avg, exp_avg_sq, product, step = exp_avgs[i], exp_avg_sqs[i], mu_products[i], state_steps[i]
        if param.is_complex():
            param, grad, exp_avg, exp_avg_sq = real_views(param, grad, exp_avg, exp_avg_sq)
        step += 1
        count: Any = step if capturable else step.item()
        if weight_decay != 0:
            if decoupled_weight_decay:
                param.mul_(1 - lr * weight_decay)
            else:
                grad = decayed(grad, param, weight_decay)
        mu = beta1 * (1.0 - 0.5 * (0.96 ** (count * momentum_decay)))
        next_mu = beta1 * (1.0 - 0.5 * (0.96 ** ((count + 1) * momentum_decay)))
        product *= mu
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = exp_avg_sq.div(1 - beta2**count).sqrt()
        if differentiable or capturable:
            root = root.add(eps)
            param.addcdiv_(grad * (-lr * (1.0 - mu) / (1.0 - product)), root)
            param.addcdiv_(exp_avg * (-lr * next_mu / (1.0 - product * next_mu)), root)
        else:
            root.add_(eps)
            so_far = product.item()
            param.addcdiv_(grad, root, value=number(-lr * (1.0 - mu) / (1.0 - so_far)))
            param.addcdiv_(exp_avg, root, value=number((-lr * next_mu) / (1.0 - so_far * next_mu)))
