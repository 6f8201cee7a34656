"""Resilient propagation: only the signs of the gradients count."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ._stepping import (
    GroupOptimizer,
    check_capturable,
    check_lr,
    check_steps,
    column,
    new_scalar,
    number,
    real_views,
    scalar,
)
from .optimizer import ParamsT

__all__ = ["Rprop", "rprop"]


class Rprop(GroupOptimizer):
    """Each element moves against the sign of its gradient by a step size of its own.

    The step size grows by ``etas[1]`` while the gradient keeps its sign, shrinks by ``etas[0]`` when it changes (that
    element then rests for one step), and stays within ``step_sizes``.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: first step size, a number or a tensor of one element.
        etas: factors ``(below 1, above 1)`` of the step size.
        step_sizes: smallest and largest step size.
        capturable: read no counter back from the device; parameters have to be on one.
        foreach: accepted; the mathematics is the same.
        maximize: climb instead of descend.
        differentiable: record the update for autograd.
    Attributes:
        state: per parameter ``step``, ``prev`` (the last gradient), ``step_size``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.Rprop. Riedmiller and Braun 1993.
    """

    _later_options: ClassVar[dict[str, Any]] = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _sparse_refusal = "Rprop does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        size = number(scalar(group["lr"]))
        # The parts of a complex number are separate parameters, each with its own step size.
        size = complex(size, size) if param.is_complex() else size
        return {
            "step": new_scalar(0.0, param, group),
            "prev": ops.zeros_like(param),
            "step_size": ops.full_like(param, size),
        }

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        etaminus, etaplus = group["etas"]
        step_size_min, step_size_max = group["step_sizes"]
        rprop(
            params,
            grads,
            column(states, "prev"),
            column(states, "step_size"),
            column(states, "step"),
            foreach=group["foreach"],
            capturable=group["capturable"],
            maximize=group["maximize"],
            differentiable=group["differentiable"],
            step_size_min=step_size_min,
            step_size_max=step_size_max,
            etaminus=etaminus,
            etaplus=etaplus,
        )


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """Update ``params``, the step sizes and the counters in place by one step of Rprop.

    Args: as in :class:`Rprop`; ``foreach`` and ``has_complex`` change nothing.
    Source: torch.optim.rprop.rprop.
    """
    check_steps(state_steps)
    if capturable:
        check_capturable(params, state_steps)
    for param, grad, prev, step_size, step in zip(params, grads, prevs, step_sizes, state_steps, strict=True):
        step += 1
        if maximize:
            grad = -grad
        if param.is_complex():
            param, grad, prev, step_size = real_views(param, grad, prev, step_size)
        # Autograd keeps factors and step sizes, which change in place.
        factor = grad.mul(prev.clone() if differentiable else prev).sign()
        factor = ops.where(factor.gt(0), etaplus, factor)
        factor = ops.where(factor.lt(0), etaminus, factor)
        factor = ops.where(factor.eq(0), 1.0, factor)
        step_size.mul_(factor).clamp_(step_size_min, step_size_max)
        # Where the sign changed the last step went too far: rest, and forget the gradient, so that the next step is plain.
        grad = grad.masked_fill(factor.eq(etaminus), 0)
        param.addcmul_(grad.sign(), step_size.clone() if differentiable else step_size, value=-1)
        prev.copy_(grad)
