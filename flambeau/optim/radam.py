"""RAdam: Adam whose adaptive step sets in when its variance is small enough."""

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
    real_views,
    scalar,
)
from .optimizer import ParamsT

__all__ = ["RAdam", "radam"]


class RAdam(GroupOptimizer):
    """Adam with its variance rectified: momentum descent in the first steps, then Adam with a factor that grows to 1.

    With Adam's moments ``m`` and ``v`` after ``t`` steps, ``rho_inf = 2 / (1 - beta2) - 1`` and
    ``rho = rho_inf - 2 * t * beta2**t / (1 - beta2**t)``: while ``rho <= 5`` the step is ``lr * m / (1 - beta1**t)``, then it is
    that times ``r * sqrt(1 - beta2**t) / (sqrt(v) + eps)`` with the rectification ``r`` of the paper.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        betas: decay of the first and of the second moment.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty (of the decay itself with ``decoupled_weight_decay``).
        decoupled_weight_decay: shrink the parameters by ``lr * weight_decay`` instead of changing the gradient.
        foreach: accepted; the mathematics is the same.
        maximize: climb instead of descend.
        capturable: read no counter back from the device; parameters have to be on one.
        differentiable: record the update for autograd.
    Attributes:
        state: per parameter ``step`` (a 0-d tensor), ``exp_avg``, ``exp_avg_sq``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.RAdam. Liu et al. 2020.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "capturable": False,
    }
    _sparse_refusal = "RAdam does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
        check_non_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_scalar(0.0, param, group), "exp_avg": ops.zeros_like(param), "exp_avg_sq": ops.zeros_like(param)}

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        beta1, beta2 = group["betas"]
        radam(
            params,
            grads,
            column(states, "exp_avg"),
            column(states, "exp_avg_sq"),
            column(states, "step"),
            decoupled_weight_decay=group["decoupled_weight_decay"],
            foreach=group["foreach"],
            differentiable=group["differentiable"],
            capturable=group["capturable"],
            maximize=group["maximize"],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
        )


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """Update ``params``, the moments and the counters in place by one step of RAdam.

    Args: as in :class:`RAdam`; ``foreach`` and ``has_complex`` change nothing.
    Source: torch.optim.radam.radam.
    """
    check_steps(state_steps)
    if capturable:
        check_capturable(params, state_steps)
    lr = scalar(lr)
    rho_inf = 2 / (1 - beta2) - 1
    for i, param in enumerate(params):
        grad = -grads[i] if maximize else grads[i]
        exp_avg, exp_avg_sq, step = exp_avgs[i], exp_avg_sqs[i], state_steps[i]
        if param.is_complex():
            param, grad, exp_avg, exp_avg_sq = real_views(param, grad, exp_avg, exp_avg_sq)
        step += 1
        count: Any = step if capturable else step.item()
        if weight_decay != 0:
            if decoupled_weight_decay:
                param.mul_(1 - lr * weight_decay)
            else:
                grad = decayed(grad, param, weight_decay)
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)

        correction2 = 1 - beta2**count
        rho = rho_inf - 2 * count * (beta2**count) / correction2
        update = exp_avg / (1 - beta1**count) * lr
        if capturable:
            # No branch on a value that stays on the device: both branches are computed.
            factor = _rectification(rho, rho_inf) * _adaptive_factor(exp_avg_sq, correction2, eps, differentiable)
            update = update * ops.where(rho > 5.0, factor, 1.0)
        elif rho > 5.0:
            update = update * _adaptive_factor(exp_avg_sq, correction2, eps, differentiable) * _rectification(rho, rho_inf)
        param.add_(update, alpha=-1.0)


def _rectification(rho: Any, rho_inf: float) -> Any:
    return ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5


def _adaptive_factor(exp_avg_sq: Tensor, correction: Any, eps: float, differentiable: bool) -> Tensor:
    root = exp_avg_sq.sqrt()
    root = root.add(eps) if differentiable else root.add_(eps)
    return (correction**0.5) / root
