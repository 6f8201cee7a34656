"""Adadelta: steps in units of the parameters, from decayed squares of gradients and of steps."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ._stepping import (
    GroupOptimizer,
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

__all__ = ["Adadelta", "adadelta"]


class Adadelta(GroupOptimizer):
    """Gradient descent whose step sizes follow from the history of gradients and steps.

    With gradient ``g`` (plus ``weight_decay * p``): ``v = rho * v + (1 - rho) * g**2``,
    ``d = sqrt(u + eps) / sqrt(v + eps) * g``, ``u = rho * u + (1 - rho) * d**2``, ``p = p - lr * d``.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: factor of the step, a number or a tensor of one element.
        rho: decay of the two running averages.
        eps: added under the roots.
        weight_decay: factor of the L2 penalty.
        foreach: accepted; the mathematics is the same.
        capturable: read no counter back from the device; parameters have to be on one.
        maximize: climb instead of descend.
        differentiable: record the update for autograd.
    Attributes:
        state: per parameter ``step``, ``square_avg``, ``acc_delta``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.Adadelta. Zeiler 2012.
    """

    _later_options: ClassVar[dict[str, Any]] = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _sparse_refusal = "Adadelta does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_non_negative(eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_scalar(0.0, param, group), "square_avg": ops.zeros_like(param), "acc_delta": ops.zeros_like(param)}

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        adadelta(
            params,
            grads,
            column(states, "square_avg"),
            column(states, "acc_delta"),
            column(states, "step"),
            capturable=group["capturable"],
            foreach=group["foreach"],
            differentiable=group["differentiable"],
            lr=group["lr"],
            rho=group["rho"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Update ``params``, the averages and the counters in place by one step of Adadelta.

    Args: as in :class:`Adadelta`; ``foreach`` and ``has_complex`` change nothing.
    Source: torch.optim.adadelta.adadelta.
    """
    check_steps(state_steps)
    if capturable:
        check_capturable(params, state_steps)
    lr = scalar(lr)
    for param, grad, square_avg, acc_delta, step in zip(params, grads, square_avgs, acc_deltas, state_steps, strict=True):
        step += 1
        if maximize:
            grad = -grad
        if weight_decay != 0:
            grad = decayed(grad, param, weight_decay)
        if param.is_complex():
            param, grad, square_avg, acc_delta = real_views(param, grad, square_avg, acc_delta)
        square_avg.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        root = square_avg.add(eps).sqrt_()
        delta = acc_delta.add(eps).sqrt_()
        # Autograd keeps the root, so it may not be overwritten when the update is recorded.
        delta = delta.div(root).mul(grad) if differentiable else delta.div_(root).mul_(grad)
        acc_delta.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta, alpha=-number(lr))
