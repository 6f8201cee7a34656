"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..core.state import run_quietly
from ..core.tensor import Tensor
from ._arrays import Rows, constants, effective_gradient, kernel_step, note_writes
from ._stepping import (
    GroupOptimizer,
    are_numbers,
    check_fused,
    check_fused_options,
    decayed,
    number,
    refuse_scaling,
    scalar,
)
from .optimizer import ParamsT

__all__ = ["SGD", "sgd"]


class SGD(GroupOptimizer):
    """Gradient descent, with momentum or Nesterov momentum where wanted.

    With gradient ``g`` (plus ``weight_decay * p``), buffer ``b = momentum * b + (1 - dampening) * g`` (the first ``b`` is
    ``g``) and ``d = b``, or ``g + momentum * b`` under Nesterov: ``p = p - lr * d``.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        momentum: how much of the last direction is kept.
        dampening: how much of the gradient is left out of the buffer.
        weight_decay: factor of the L2 penalty.
        nesterov: look ahead along the buffer; needs momentum and no dampening.
        maximize: climb instead of descend.
        foreach: accepted; the mathematics is the same.
        differentiable: record the update for autograd.
        fused: accepted; the mathematics is the same. Parameters have to be floating point.
    Raises:
        ValueError: a negative option, or Nesterov without momentum or with dampening.
        RuntimeError: ``fused`` with ``foreach`` or ``differentiable``.
    Source: torch.optim.SGD. Nesterov momentum: Sutskever et al. 2013.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused_options(defaults)

    def _update_arrays(self, group: dict[str, Any]) -> bool:
        lr, momentum, dampening, weight_decay = group["lr"], group["momentum"], group["dampening"], group["weight_decay"]
        if isinstance(lr, Tensor):
            lr = lr if lr.requires_grad else lr.item()
        if group["differentiable"] or not are_numbers(lr, momentum, dampening, weight_decay):
            return False
        rows = self._plans.rows(self, group, ("momentum_buffer",) if momentum != 0 else ())
        if rows is None:
            return False
        run_quietly(_step_rows, rows, lr, momentum, dampening, weight_decay, group["nesterov"], group["maximize"])
        return True

    def _update_group(self, group: dict[str, Any]) -> None:
        params = [param for param in group["params"] if param.grad is not None]
        if group["fused"]:
            for param in params:
                check_fused(param)
        momentum = group["momentum"]
        # Without momentum there is no state at all, so that such checkpoints stay empty.
        states = [self.state[param] for param in params] if momentum != 0 else []
        buffers = [state.get("momentum_buffer") for state in states]
        sgd(
            params,
            [param.grad for param in params],
            buffers,
            foreach=group["foreach"],
            fused=group["fused"],
            weight_decay=group["weight_decay"],
            momentum=momentum,
            lr=group["lr"],
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
        )
        for state, buffer in zip(states, buffers, strict=True):
            state["momentum_buffer"] = buffer


def _step_rows(rows: Rows, lr: float, momentum: float, dampening: float, weight_decay: float, nesterov: bool, maximize: bool) -> None:
    """The passes of :func:`sgd` over raw arrays."""
    numbers = (-lr, momentum, 1 - dampening, weight_decay)
    flags: dict[str, Any] = {"maximize": maximize, "penalized": weight_decay != 0, "dampened": dampening, "nesterov": nesterov}
    if not kernel_step("sgd", flags, rows, [numbers] * len(rows)):
        _pass_over(rows, numbers, **flags)
    note_writes(rows)


def _pass_over(rows: Rows, numbers: Any, maximize: bool, penalized: bool, dampened: Any, nesterov: bool) -> None:
    dtype: Any = None
    multiply, add = np.multiply, np.add
    for plan, grad in rows:
        if plan.dtype is not dtype:
            dtype = plan.dtype
            step_size, kept, taken, decay = constants(dtype, *numbers)
        for param, slope, *buffers, own, scratch, _ in plan.blocks(grad):
            if maximize or penalized:
                slope = effective_gradient(param, slope, decay if penalized else None, maximize, own, scratch)
            if buffers:
                (buffer,) = buffers
                multiply(buffer, kept, buffer)
                add(buffer, multiply(slope, taken, scratch) if dampened else slope, buffer)
                slope = add(slope, multiply(buffer, kept, scratch), own) if nesterov else buffer
            add(param, multiply(slope, step_size, scratch), param)


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float | Tensor,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Update ``params`` in place by gradient descent; a ``momentum_buffer_list`` entry that is None is filled.

    Args: as in :class:`SGD`; ``d_p_list`` are the gradients. ``has_sparse_grad``, ``foreach`` and ``fused`` change nothing.
    Raises:
        NotImplementedError: ``grad_scale`` or ``found_inf`` given.
    Source: torch.optim.sgd.sgd.
    """
    refuse_scaling(grad_scale, found_inf)
    lr = scalar(lr)
    lr_is_learnt = isinstance(lr, Tensor) and lr.requires_grad
    for i, param in enumerate(params):
        grad = -d_p_list[i] if maximize else d_p_list[i]
        if weight_decay != 0:
            grad = decayed(grad, param, weight_decay)
        if momentum != 0:
            buffer = momentum_buffer_list[i]
            if buffer is None:
                buffer = momentum_buffer_list[i] = grad.clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
            grad = grad.add(buffer, alpha=momentum) if nesterov else buffer
        if lr_is_learnt:
            param.addcmul_(grad, lr, value=-1)
        else:
            param.add_(grad, alpha=-number(lr))
