"""Adam and AdamW: one implementation, which differ in where the weight decay goes."""

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
    check_betas,
    check_capturable,
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

__all__ = ["Adam", "AdamW", "adam"]


class Adam(GroupOptimizer):
    """Adaptive moment estimation.

    With gradient ``g`` (plus ``weight_decay * p``): ``m = beta1 * m + (1 - beta1) * g``, ``v = beta2 * v + (1 - beta2) * g**2``,
    and after ``t`` steps ``p = p - lr * (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + eps)``.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        betas: decay of the first and of the second moment; two floats or two tensors of one element.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty (of the decay itself with ``decoupled_weight_decay``).
        amsgrad: divide by the largest second moment so far.
        foreach: accepted; the mathematics is the same, but ``lr`` and ``betas`` have to be numbers.
        maximize: climb instead of descend.
        capturable: read no counter back from the device; parameters have to be on one.
        differentiable: record the update for autograd.
        fused: accepted; the mathematics is the same. Parameters have to be floating point.
        decoupled_weight_decay: shrink the parameters by ``lr * weight_decay`` instead of changing the gradient: AdamW.
    Attributes:
        state: per parameter ``step`` (a 0-d tensor), ``exp_avg``, ``exp_avg_sq``, with ``amsgrad`` also ``max_exp_avg_sq``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients, or ``fused`` with ``foreach`` or ``differentiable``.
    Source: torch.optim.Adam. Kingma and Ba 2015, algorithm 1; AMSGrad: Reddi et al. 2018.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }
    _sparse_refusal = "Adam does not support sparse gradients, please consider SparseAdam instead"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        wants_numbers = bool(foreach) and not capturable
        if isinstance(lr, Tensor) and wants_numbers:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_lr(lr)
        check_non_negative(eps=eps)
        check_betas(betas)
        check_non_negative(weight_decay=weight_decay)
        _check_beta_types(betas, wants_numbers)
        defaults = {
            "lr": lr,
            "betas": tuple(scalar(beta) for beta in betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_fused_options(defaults)

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": new_scalar(0.0, param, group), "exp_avg": ops.zeros_like(param), "exp_avg_sq": ops.zeros_like(param)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = ops.zeros_like(param)
        return state

    def _update_arrays(self, group: dict[str, Any]) -> bool:
        lr, (beta1, beta2), eps, weight_decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
        if group["capturable"] or group["differentiable"] or not are_numbers(beta1, beta2, eps, weight_decay):
            return False
        if isinstance(lr, Tensor) and group["foreach"]:
            return False
        rows = self._plans.rows(self, group, _STATE_WITH_LARGEST if group["amsgrad"] else _STATE)
        if rows is None:
            return False
        decoupled = group["decoupled_weight_decay"]
        run_quietly(_step_rows, rows, scalar(lr), beta1, beta2, eps, weight_decay, decoupled, group["maximize"])
        return True

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        steps = column(states, "step")
        if group["differentiable"] and any(step.requires_grad for step in steps):
            raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
        if group["foreach"] and isinstance(group["lr"], Tensor) and not group["capturable"]:
            raise RuntimeError("lr as a Tensor is not supported for capturable=False and foreach=True")
        beta1, beta2 = group["betas"]
        adam(
            params,
            grads,
            column(states, "exp_avg"),
            column(states, "exp_avg_sq"),
            column(states, "max_exp_avg_sq") if group["amsgrad"] else [],
            steps,
            foreach=group["foreach"],
            capturable=group["capturable"],
            differentiable=group["differentiable"],
            fused=group["fused"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
            amsgrad=group["amsgrad"],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
        )


class AdamW(Adam):
    """Adam with decoupled weight decay: ``p = p * (1 - lr * weight_decay)`` before the update, the gradient stays as it is.

    Args:
        params: parameters or groups, see :class:`~flambeau.optim.Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        betas: decay of the first and of the second moment.
        eps: added to the denominator.
        weight_decay: by which part (times ``lr``) the parameters shrink in a step.
        amsgrad, maximize, foreach, capturable, differentiable, fused: as in :class:`Adam`.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients, or ``fused`` with ``foreach`` or ``differentiable``.
    Source: torch.optim.AdamW. Loshchilov and Hutter 2019.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


_STATE = ("exp_avg", "exp_avg_sq", "step")
_STATE_WITH_LARGEST = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")


def _step_rows(rows: Rows, lr: Any, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool, maximize: bool) -> None:
    """The passes of :func:`adam` over raw arrays."""
    decay = number(1 - lr * weight_decay) if decoupled else weight_decay

    def numbers_of(count: float) -> tuple[float, ...]:
        step_size = -number(lr / (1 - beta1**count))
        return 1 - beta1, beta2, 1 - beta2, (1 - beta2**count) ** 0.5, eps, step_size, decay

    numbers = numbers_by_count(rows, numbers_of)
    flags = {
        "shrinks": weight_decay != 0 and decoupled,
        "penalized": weight_decay != 0 and not decoupled,
        "maximize": maximize,
        "near": abs(1 - beta1) < 0.5,
    }
    if not kernel_step("adam", flags, rows, numbers):
        _pass_over(rows, numbers, **flags)
    note_writes(rows)


def _pass_over(rows: Rows, numbers: list[tuple[float, ...]], shrinks: bool, penalized: bool, maximize: bool, near: bool) -> None:
    seen: Any = None
    multiply, add, divide = np.multiply, np.add, np.divide
    for (plan, grad), values in zip(rows, numbers, strict=True):
        if seen != (plan.dtype, values):
            seen = plan.dtype, values
            weight, kept, taken, correction, floor, step_size, decay = constants(plan.dtype, *values)
            rest = lerp_rest(weight)
        for param, slope, exp_avg, exp_avg_sq, *largest, own, scratch, direction in plan.blocks(grad):
            if shrinks:
                multiply(param, decay, param)
            if penalized or maximize:
                slope = effective_gradient(param, slope, decay if penalized else None, maximize, own, scratch)
            lerp(exp_avg, slope, weight, rest, scratch)
            multiply(exp_avg_sq, kept, exp_avg_sq)
            multiply(taken, slope, scratch)
            multiply(scratch, slope, scratch)
            add(exp_avg_sq, scratch, exp_avg_sq)
            if largest:
                exp_avg_sq = np.maximum(largest[0], exp_avg_sq, out=largest[0])
            np.sqrt(exp_avg_sq, scratch)
            divide(scratch, correction, scratch)
            add(scratch, floor, scratch)
            multiply(step_size, exp_avg, direction)
            divide(direction, scratch, direction)
            add(param, direction, param)


def _check_beta_types(betas: tuple[Any, Any], wants_numbers: bool) -> None:
    are_tensors = [isinstance(beta, Tensor) for beta in betas]
    if not (all(are_tensors) or all(isinstance(beta, float) for beta in betas)):
        raise ValueError("betas must be either both floats or both Tensors")
    for idx, beta in enumerate(betas):
        if are_tensors[idx] and wants_numbers:
            raise ValueError(f"betas[{idx}] as a Tensor is not supported for capturable=False and foreach=True")
        if are_tensors[idx] and beta.numel() != 1:
            raise ValueError(f"Tensor betas[{idx}] must be 1-element")


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Update ``params``, the moments and the counters in place by one step of Adam.

    Args: as in :class:`Adam`; ``foreach``, ``fused`` and ``has_complex`` change nothing.
    Raises:
        NotImplementedError: ``grad_scale`` or ``found_inf`` given.
        RuntimeError: counters that are not tensors.
    Source: torch.optim.adam.adam.
    """
    refuse_scaling(grad_scale, found_inf)
    check_steps(state_steps)
    if capturable:
        check_capturable(params, state_steps)
    lr, beta1, beta2 = scalar(lr), scalar(beta1), scalar(beta2)
    apply = _apply_recorded if capturable or differentiable else _apply
    for i, param in enumerate(params):
        grad = -grads[i] if maximize else grads[i]
        exp_avg, exp_avg_sq, step = exp_avgs[i], exp_avg_sqs[i], state_steps[i]
        largest = max_exp_avg_sqs[i] if amsgrad else None
        step += 1
        if weight_decay != 0:
            if decoupled_weight_decay:
                param.mul_(1 - lr * weight_decay)
            else:
                grad = decayed(grad, param, weight_decay)
        if param.is_complex():
            param, grad, exp_avg, exp_avg_sq = real_views(param, grad, exp_avg, exp_avg_sq)
            largest = real_views(largest)[0] if largest is not None else None
        exp_avg.lerp_(grad, 1 - (beta1.to(param.dtype) if isinstance(beta1, Tensor) else beta1))
        if differentiable and isinstance(beta2, Tensor) and beta2.requires_grad:
            exp_avg_sq.lerp_(ops.square(grad), 1 - beta2)  # addcmul's value takes no tensor
        else:
            exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=number(1 - beta2))
        apply(param, exp_avg, exp_avg_sq, largest, step, lr, beta1, beta2, eps)


def _apply(
    param: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    largest: Tensor | None,
    step: Tensor,
    lr: Any,
    beta1: Any,
    beta2: Any,
    eps: float,
) -> None:
    """Move ``param`` along the corrected moments, with scalars as Python numbers."""
    count = step.item()
    step_size = lr / (1 - beta1**count)
    root_correction = (1 - beta2**count) ** 0.5
    if largest is not None:
        largest.copy_(ops.maximum(largest, exp_avg_sq))
        exp_avg_sq = largest
    param.addcdiv_(exp_avg, exp_avg_sq.sqrt().div_(root_correction).add_(eps), value=-number(step_size))


def _apply_recorded(
    param: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    largest: Tensor | None,
    step: Tensor,
    lr: Any,
    beta1: Any,
    beta2: Any,
    eps: float,
) -> None:
    """Move ``param`` along the corrected moments, with scalars as tensors: autograd or a capture follows them."""
    # The counter goes on counting in place, and what autograd saved of it must stay: hence the copy.
    count = step.clone()
    negative_step_size = (lr / (1 - beta1**count)).neg()
    root_correction = (1 - beta2**count).sqrt()
    if largest is not None:
        # Autograd keeps both operands, and both change in place in the next step.
        largest.copy_(ops.maximum(largest.clone(), exp_avg_sq.clone()))
        exp_avg_sq = largest
    # The step size is folded into the denominator: addcdiv's value takes no tensor.
    denominator = (exp_avg_sq.sqrt() / (root_correction * negative_step_size)).add(eps / negative_step_size)
    param.addcdiv_(exp_avg.clone(), denominator)
