"""Adagrad: steps shrink with the sum of squared gradients."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .. import ops
from ..core.state import run_quietly
from ..core.tensor import Tensor
from ._arrays import Rows, constants, effective_gradient, kernel_step, note_writes, numbers_by_count
from ._stepping import (
    GroupOptimizer,
    are_numbers,
    check_fused_options,
    check_lr,
    check_non_negative,
    check_steps,
    column,
    decayed,
    new_scalar,
    number,
    real_views,
    refuse_scaling,
    scalar,
)
from .optimizer import ParamsT

__all__ = ["Adagrad", "adagrad"]


class Adagrad(GroupOptimizer):
    """Gradient descent whose step per element is divided by the root of all its squared gradients.

    With gradient ``g`` (plus ``weight_decay * p``) and ``t`` steps so far: ``s = s + g**2``,
    ``p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)``.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        lr_decay: decay of the learning rate per step.
        weight_decay: factor of the L2 penalty; not with sparse gradients.
        initial_accumulator_value: what the sums start from.
        eps: added to the denominator.
        foreach: accepted; the mathematics is the same.
        maximize: climb instead of descend.
        differentiable: record the update for autograd.
        fused: accepted; the mathematics is the same. Parameters have to be floating point.
    Attributes:
        state: per parameter ``step`` and ``sum``, there from the start.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: ``fused`` with ``foreach`` or ``differentiable``; ``weight_decay`` with sparse gradients.
    Source: torch.optim.Adagrad. Duchi et al. 2011.
    """

    _later_options: ClassVar[dict[str, Any]] = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_non_negative(lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused_options(defaults)
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param].update(self._initial_state(param, group))

    def share_memory(self) -> None:
        """Move the sums to shared memory, so that several processes can train one model."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = self.defaults["initial_accumulator_value"]
        # The parts of a complex number are separate parameters, and both sums start alike.
        value = complex(start, start) if param.is_complex() else start
        return {"step": new_scalar(0.0, param, group), "sum": ops.full_like(param, value)}

    def _update_arrays(self, group: dict[str, Any]) -> bool:
        lr, options = group["lr"], [group[name] for name in ("lr_decay", "eps", "weight_decay")]
        if group["differentiable"] or not are_numbers(number(lr), *options):
            return False
        rows = self._plans.rows(self, group, ("sum", "step"))
        if rows is None:
            return False
        run_quietly(_step_rows, rows, scalar(lr), *options, group["maximize"])
        return True

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        adagrad(
            params,
            grads,
            column(states, "sum"),
            column(states, "step"),
            fused=group["fused"],
            foreach=group["foreach"],
            differentiable=group["differentiable"],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            lr_decay=group["lr_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
        )


def _step_rows(rows: Rows, lr: Any, lr_decay: float, eps: float, weight_decay: float, maximize: bool) -> None:
    """The passes of :func:`adagrad` over raw arrays."""
    numbers = numbers_by_count(rows, lambda count: (-number(lr / (1 + (count - 1) * lr_decay)), eps, weight_decay))
    flags = {"maximize": maximize, "penalized": weight_decay != 0}
    if not kernel_step("adagrad", flags, rows, numbers):
        _pass_over(rows, numbers, **flags)
    note_writes(rows)


def _pass_over(rows: Rows, numbers: list[tuple[float, ...]], maximize: bool, penalized: bool) -> None:
    seen: Any = None
    multiply, add = np.multiply, np.add
    for (plan, grad), values in zip(rows, numbers, strict=True):
        if seen != (plan.dtype, values):
            seen = plan.dtype, values
            step_size, floor, decay = constants(plan.dtype, *values)
        for param, slope, state_sum, own, root, scratch in plan.blocks(grad):
            if maximize or penalized:
                slope = effective_gradient(param, slope, decay if penalized else None, maximize, own, scratch)
            add(state_sum, multiply(slope, slope, scratch), state_sum)
            add(np.sqrt(state_sum, root), floor, root)
            add(param, np.divide(multiply(step_size, slope, scratch), root, scratch), param)


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Update ``params``, the sums and the counters in place by one step of Adagrad.

    Args: as in :class:`Adagrad`; ``fused``, ``foreach``, ``has_sparse_grad`` and ``has_complex`` change nothing.
    Raises:
        NotImplementedError: ``grad_scale`` or ``found_inf`` given.
        RuntimeError: ``weight_decay`` with sparse gradients.
    Source: torch.optim.adagrad.adagrad.
    """
    refuse_scaling(grad_scale, found_inf)
    check_steps(state_steps)
    lr = scalar(lr)
    for param, grad, state_sum, step in zip(params, grads, state_sums, state_steps, strict=True):
        step += 1
        if maximize:
            grad = -grad
        if weight_decay != 0:
            if grad.is_sparse:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            grad = decayed(grad, param, weight_decay)
        decayed_lr = number(lr / (1 + (step.item() - 1) * lr_decay))
        if grad.is_sparse:
            _update_rows(param, grad, state_sum, decayed_lr, eps)
            continue
        if param.is_complex():
            param, grad, state_sum = real_views(param, grad, state_sum)
        state_sum.addcmul_(grad, grad, value=1)
        root = state_sum.sqrt()
        root = root.add(eps) if differentiable else root.add_(eps)
        param.addcdiv_(grad, root, value=-decayed_lr)


def _update_rows(param: Tensor, grad: Tensor, state_sum: Tensor, lr: float, eps: float) -> None:
    """The update where only the entries stored in a sparse ``grad`` change."""
    grad = grad.coalesce()  # the square of a sum is not the sum of squares
    where = tuple(grad.indices())
    values = grad.values()
    sums = state_sum[where] + values.pow(2)
    state_sum[where] = sums
    param[where] = param[where].add(values / sums.sqrt_().add_(eps), alpha=-lr)
