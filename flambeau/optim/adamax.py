"""Adamax: Adam with the infinity norm."""

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

__all__ = ["Adamax", "adamax"]


class Adamax(GroupOptimizer):
    """Adam whose second moment is the decayed maximum of absolute gradients.

    With gradient ``g`` (plus ``weight_decay * p``): ``m = beta1 * m + (1 - beta1) * g``, ``u = max(beta2 * u, |g| + eps)``, and
    after ``t`` steps ``p = p - lr / (1 - beta1**t) * m / u``.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        betas: decay of the first moment and of the maximum.
        eps: added to the absolute gradient.
        weight_decay: factor of the L2 penalty.
        foreach: accepted; the mathematics is the same.
        maximize: climb instead of descend.
        differentiable: record the update for autograd.
        capturable: read no counter back from the device; parameters have to be on one.
    Attributes:
        state: per parameter ``step``, ``exp_avg``, ``exp_inf``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.Adamax. Kingma and Ba 2015, algorithm 2.
    """

    _later_options: ClassVar[dict[str, Any]] = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _sparse_refusal = "Adamax does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
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
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_scalar(0.0, param, group), "exp_avg": ops.zeros_like(param), "exp_inf": ops.zeros_like(param)}

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        beta1, beta2 = group["betas"]
        adamax(
            params,
            grads,
            column(states, "exp_avg"),
            column(states, "exp_inf"),
            column(states, "step"),
            foreach=group["foreach"],
            maximize=group["maximize"],
            differentiable=group["differentiable"],
            capturable=group["capturable"],
            eps=group["eps"],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
        )


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """Update ``params``, the moments and the counters in place by one step of Adamax.

    Args: as in :class:`Adamax`; ``foreach`` and ``has_complex`` change nothing.
    Source: torch.optim.adamax.adamax.
    """
    check_steps(state_steps)
    if capturable:
        check_capturable(params, state_steps)
    lr = scalar(lr)
    for param, grad, exp_avg, exp_inf, step in zip(params, grads, exp_avgs, exp_infs, state_steps, strict=True):
        step += 1
        if maximize:
            grad = -grad
        if weight_decay != 0:
            grad = decayed(grad, param, weight_decay)
        if param.is_complex():
            param, grad, exp_avg, exp_inf = real_views(param, grad, exp_avg, exp_inf)
        exp_avg.lerp_(grad, 1 - beta1)
        exp_inf.copy_(ops.maximum(exp_inf.mul(beta2), grad.abs().add_(eps)))
        if differentiable:
            # Autograd keeps both, and the next step changes them in place.
            exp_avg, exp_inf = exp_avg.clone(), exp_inf.clone()
        count: Any = step if capturable else step.item()
        if capturable:
            param.addcdiv_(exp_avg, exp_inf * (beta1**count - 1).div_(lr))
        else:
            param.addcdiv_(exp_avg, exp_inf, value=-number(lr / (1 - beta1**count)))
