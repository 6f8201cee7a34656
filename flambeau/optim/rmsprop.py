"""RMSprop: gradients divided by the root of their decayed mean square."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .. import ops
from ..core.state import run_quietly
from ..core.tensor import Tensor
from ._arrays import Rows, constants, effective_gradient, kernel_step, lerp, lerp_rest, note_writes, numbers_by_count
from ._stepping import (
    GroupOptimizer,
    are_numbers,
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

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(GroupOptimizer):
    """Gradient descent on gradients divided by the root of their running mean square, with momentum where wanted.

    With gradient ``g`` (plus ``weight_decay * p``): ``v = alpha * v + (1 - alpha) * g**2``, ``a = sqrt(v) + eps`` (centered:
    ``sqrt(v - mean(g)**2) + eps``), ``p = p - lr * g / a``; with momentum ``b = momentum * b + g / a`` and ``p = p - lr * b``.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        alpha: decay of the running averages.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty.
        momentum: how much of the last direction is kept.
        centered: divide by the standard deviation instead of the root mean square.
        capturable: read no counter back from the device; parameters have to be on one.
        foreach: accepted; the mathematics is the same.
        maximize: climb instead of descend.
        differentiable: record the update for autograd.
    Attributes:
        state: per parameter ``step``, ``square_avg``, and ``momentum_buffer`` and ``grad_avg`` where used.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.RMSprop. Hinton's lecture 6e; centered: Graves 2013.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    _sparse_refusal = "RMSprop does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_non_negative(eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": new_scalar(0.0, param, group), "square_avg": ops.zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = ops.zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = ops.zeros_like(param)
        return state

    def _update_arrays(self, group: dict[str, Any]) -> bool:
        options = [number(group["lr"]), *(group[name] for name in ("alpha", "eps", "weight_decay", "momentum"))]
        if group["capturable"] or group["differentiable"] or not are_numbers(*options):
            return False
        centered = ("grad_avg",) if group["centered"] else ()
        buffered = ("momentum_buffer",) if group["momentum"] > 0 else ()
        rows = self._plans.rows(self, group, ("square_avg", *centered, *buffered, "step"))
        if rows is None:
            return False
        run_quietly(_step_rows, rows, *options, group["centered"], group["maximize"])
        return True

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        rmsprop(
            params,
            grads,
            column(states, "square_avg"),
            column(states, "grad_avg") if group["centered"] else [],
            column(states, "momentum_buffer") if group["momentum"] > 0 else [],
            column(states, "step"),
            foreach=group["foreach"],
            maximize=group["maximize"],
            differentiable=group["differentiable"],
            capturable=group["capturable"],
            lr=group["lr"],
            alpha=group["alpha"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            centered=group["centered"],
        )


def _step_rows(
    rows: Rows, lr: float, alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool, maximize: bool
) -> None:
    """The passes of :func:`rmsprop` over raw arrays."""
    values = (alpha, 1 - alpha, eps, momentum, -lr, weight_decay)
    numbers = numbers_by_count(rows, lambda count: values)
    flags = {
        "maximize": maximize,
        "penalized": weight_decay != 0,
        "centered": centered,
        "momentum": momentum > 0,
        "near": abs(1 - alpha) < 0.5,
    }
    if not kernel_step("rmsprop", flags, rows, numbers):
        _pass_over(rows, values, **flags)
    note_writes(rows)


def _pass_over(rows: Rows, values: tuple[float, ...], maximize: bool, penalized: bool, centered: bool, momentum: bool, near: bool) -> None:
    dtype: Any = None
    multiply, add = np.multiply, np.add
    for plan, grad in rows:
        if plan.dtype is not dtype:
            dtype = plan.dtype
            kept, taken, floor, buffer_kept, step_size, decay, minus_one = constants(dtype, *values, -1)
            rest = lerp_rest(taken)
        for param, slope, square_avg, *averages, own, root, scratch in plan.blocks(grad):
            if maximize or penalized:
                slope = effective_gradient(param, slope, decay if penalized else None, maximize, own, scratch)
            multiply(square_avg, kept, square_avg)
            add(square_avg, multiply(multiply(taken, slope, scratch), slope, scratch), square_avg)
            if centered:
                grad_avg = averages[0]
                lerp(grad_avg, slope, taken, rest, scratch)
                add(square_avg, multiply(multiply(minus_one, grad_avg, scratch), grad_avg, scratch), root)
                np.sqrt(root, root)
            else:
                np.sqrt(square_avg, root)
            add(root, floor, root)
            if momentum:
                buffer = averages[-1]
                multiply(buffer, buffer_kept, buffer)
                add(buffer, np.divide(slope, root, scratch), buffer)
                add(param, multiply(buffer, step_size, scratch), param)
            else:
                add(param, np.divide(multiply(step_size, slope, scratch), root, scratch), param)


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """Update ``params``, the averages and the counters in place by one step of RMSprop.

    Args: as in :class:`RMSprop`; ``foreach`` and ``has_complex`` change nothing.
    Source: torch.optim.rmsprop.rmsprop.
    """
    check_steps(state_steps)
    if capturable:
        check_capturable(params, state_steps)
    lr = scalar(lr)
    for i, param in enumerate(params):
        grad = -grads[i] if maximize else grads[i]
        square_avg, step = square_avgs[i], state_steps[i]
        step += 1
        if weight_decay != 0:
            grad = decayed(grad, param, weight_decay)
        if param.is_complex():
            param, grad, square_avg = real_views(param, grad, square_avg)
        square_avg.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if centered:
            (grad_avg,) = real_views(grad_avgs[i])
            grad_avg.lerp_(grad, 1 - alpha)
            mean = grad_avg.clone() if differentiable else grad_avg  # autograd keeps it, and it changes in the next step
            root = square_avg.addcmul(mean, mean, value=-1).sqrt_()
        else:
            root = square_avg.sqrt()
        root = root.add(eps) if differentiable else root.add_(eps)
        if momentum > 0:
            (buffer,) = real_views(momentum_buffer_list[i])
            buffer.mul_(momentum).addcdiv_(grad, root)
            param.add_(buffer, alpha=-number(lr))
        else:
            param.addcdiv_(grad, root, value=-number(lr))
