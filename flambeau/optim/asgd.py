"""Averaged stochastic gradient descent."""

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

__all__ = ["ASGD", "asgd"]


class ASGD(GroupOptimizer):
    """Gradient descent with a decaying step that also keeps the average of the parameters (``state[p]["ax"]``).

    With gradient ``g`` (plus ``weight_decay * p``) after ``t`` steps: ``p = p * (1 - lambd * eta) - eta * g``,
    ``ax = ax + mu * (p - ax)``, ``eta = lr / (1 + lambd * lr * t)**alpha``, ``mu = 1 / max(1, t - t0)``.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        lambd: decay of the parameters and of the step size.
        alpha: power of the decay of the step size.
        t0: step at which averaging starts.
        weight_decay: factor of the L2 penalty.
        foreach: accepted; the mathematics is the same.
        maximize: climb instead of descend.
        differentiable: record the update for autograd.
        capturable: read no counter back from the device; parameters have to be on one.
    Attributes:
        state: per parameter ``step``, ``eta``, ``mu`` (0-d tensors) and ``ax``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.ASGD. Polyak and Juditsky 1992.
    """

    _later_options: ClassVar[dict[str, Any]] = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _scalar_state = ("step", "eta", "mu")
    _sparse_refusal = "ASGD does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_non_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_scalar(0.0, param, group),
            "eta": new_scalar(number(scalar(group["lr"])), param, group),
            "mu": new_scalar(1.0, param, group),
            "ax": ops.zeros_like(param),
        }

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        asgd(
            params,
            grads,
            column(states, "ax"),
            column(states, "mu"),
            column(states, "eta"),
            column(states, "step"),
            foreach=group["foreach"],
            maximize=group["maximize"],
            differentiable=group["differentiable"],
            capturable=group["capturable"],
            lambd=group["lambd"],
            lr=group["lr"],
            t0=group["t0"],
            alpha=group["alpha"],
            weight_decay=group["weight_decay"],
        )


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float | Tensor,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """Update ``params``, the averages, step sizes and counters in place by one step of ASGD.

    Args: as in :class:`ASGD`; ``foreach``, ``differentiable`` and ``has_complex`` change nothing.
    Source: torch.optim.asgd.asgd.
    """
    check_steps(state_steps)
    if capturable:
        check_capturable(params, mus, etas, state_steps, what="params, mus, etas, and state_steps")
    lr = scalar(lr)
    for param, grad, ax, mu, eta, step in zip(params, grads, axs, mus, etas, state_steps, strict=True):
        if maximize:
            grad = -grad
        if param.is_complex():
            param, grad, ax = real_views(param, grad, ax)
        step += 1
        if weight_decay != 0:
            grad = decayed(grad, param, weight_decay)
        if capturable:
            param.mul_(1 - lambd * eta)
            param.addcmul_(grad, eta, value=-1)
            ax.add_(param.sub(ax).mul_(mu))
            eta.copy_(lr / ((1 + lambd * lr * step) ** alpha))
            mu.copy_(1 / ops.clamp(step - t0, min=1))
            continue
        step_size, count = eta.item(), step.item()
        param.mul_(1 - lambd * step_size)
        param.add_(grad, alpha=-step_size)
        if mu.item() == 1:
            ax.copy_(param)  # averaging has not begun
        else:
            ax.add_(param.sub(ax).mul_(mu))
        eta.fill_(number(lr / ((1 + lambd * lr * count) ** alpha)))
        mu.fill_(1 / max(1, count - t0))
