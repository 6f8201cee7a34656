"""Adafactor: second moments kept as one row and one column per matrix."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..ops.inspection import finfo
from ._stepping import GroupOptimizer, check_steps, column, new_scalar, number, refuse_scaling, scalar
from .optimizer import ParamsT

__all__ = ["Adafactor", "adafactor"]


class Adafactor(GroupOptimizer):
    """Adaptive steps with memory of the order of rows plus columns, scaled by the size of the parameters, without momentum.

    After ``t`` steps with ``b = t**beta2_decay``: the running mean of ``g**2`` moves by ``b``, for matrices only in its row means
    ``r`` and column means ``c``, from which ``v = r c / mean(r)``. The update ``g / sqrt(v)`` is divided by its root mean square
    over ``d`` where that is above 1, and scaled by ``min(lr, 1 / sqrt(t)) * max(eps[1], rms(p))``.

    Args:
        lr: largest relative step, a number or a tensor of one element.
        beta2_decay: power by which the second moment slows down, at most 0.
        eps: smallest root of the second moment (the dtype's resolution when None) and smallest scale of the parameters.
        d: clipping threshold of the update, at least 1.
        weight_decay: by which part (times ``lr``) the parameters shrink in a step.
    Attributes:
        state: per parameter ``step`` and ``row_var``, ``col_var`` (matrices and higher) or ``variance``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: complex parameters or sparse gradients.
    Source: torch.optim.Adafactor. Shazeer and Stern 2018.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.Adafactor([weight], lr=0.1)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.8419, -1.8419])
    """

    _options = "lr beta2_decay eps d weight_decay foreach maximize"

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
        foreach: bool | None = None, maximize: bool = False
    ) -> None:  # fmt: skip
        self._begin(params, locals())

    def _check(self, options: dict[str, Any]) -> None:
        lr, (eps1, eps2) = options["lr"], options["eps"]
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        limits = {"Learning rate": lr, "epsilon1": eps1, "epsilon2": eps2, "weight_decay": options["weight_decay"]}
        for name, value in limits.items():
            if value is not None and not 0.0 <= value:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if not options["beta2_decay"] <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {options['beta2_decay']}")
        if not 1.0 <= options["d"]:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {options['d']}")

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        state = {"step": new_scalar(0.0, param, group)}
        if param.dim() > 1:
            *rest, rows, columns = param.shape
            state["row_var"] = param.new_zeros([*rest, rows, 1])
            state["col_var"] = param.new_zeros([*rest, 1, columns])
        else:
            state["variance"] = ops.zeros_like(param)
        return state

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        eps1, eps2 = group["eps"]
        adafactor(
            params,
            grads,
            [state.get("row_var") for state in states],
            [state.get("col_var") for state in states],
            [state.get("variance") for state in states],
            column(states, "step"),
            foreach=group["foreach"],
            d=group["d"],
            lr=group["lr"],
            beta2_decay=group["beta2_decay"],
            weight_decay=group["weight_decay"],
            eps1=eps1,
            eps2=eps2,
            maximize=group["maximize"],
        )


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """Update ``params``, the second moments and the counters in place by one step of Adafactor.

    Args:
        params, grads: the tensors to update, and their gradients of the same shapes.
        row_vars, col_vars: second moments ``(*, m, 1)`` and ``(*, 1, n)`` of parameters ``(*, m, n)``; None for others.
        variances: second moments of parameters of fewer dimensions, of their shape; None for others.
        state_steps: counters, 0-d tensors.
        d, lr, beta2_decay, weight_decay, maximize: as in :class:`Adafactor`.
        eps1, eps2: the two entries of its ``eps``.
        foreach, has_complex: change nothing.
        grad_scale, found_inf: None: not supported.
    Raises:
        NotImplementedError: ``grad_scale`` or ``found_inf`` given.
        RuntimeError: counters that are not tensors.
    Source: torch.optim._adafactor.adafactor.
    Example:
        >>> param, grad, variance, step = torch.ones(2), torch.ones(2), torch.zeros(2), torch.zeros(())
        >>> torch.optim.adafactor.adafactor([param], [grad], [None], [None], [variance], [step],
        ...     d=1.0, lr=0.1, beta2_decay=-0.8, weight_decay=0.0, eps1=None, eps2=1e-3, maximize=False)
        >>> param, step
        (tensor([0.9000, 0.9000]), tensor(1.))
    """
    refuse_scaling(grad_scale, found_inf)
    check_steps(state_steps)
    lr = scalar(lr)
    for i, param in enumerate(params):
        grad = -grads[i] if maximize else grads[i]
        floor = finfo(param.dtype).eps if eps1 is None else eps1
        state_steps[i] += 1
        count = state_steps[i].item()
        weight = count**beta2_decay
        size = param.norm(2).item() / (param.numel() ** 0.5)
        step_size = max(eps2, size) * min(lr, 1 / (count**0.5))
        if weight_decay != 0:
            param.mul_(1 - lr * weight_decay)
        row_var, col_var, variance = row_vars[i], col_vars[i], variances[i]
        if row_var is not None and col_var is not None:
            estimate = _factored_estimate(grad, row_var, col_var, weight, floor)
        else:
            variance.lerp_(grad * grad, weight)  # type: ignore[union-attr]
            estimate = variance.clone()  # type: ignore[union-attr]
        update = estimate.clamp_(min=floor * floor).rsqrt_().mul_(grad)
        clipped = max(1.0, update.norm(2).item() / ((update.numel() ** 0.5) * d))
        param.add_(update, alpha=number(-step_size / clipped))


def _factored_estimate(grad: Tensor, row_var: Tensor, col_var: Tensor, weight: float, floor: float) -> Tensor:
    """The second moments as a product of row and column means, after moving these towards the squared gradient."""
    for dim, mean_square in ((-1, row_var), (-2, col_var)):
        # The norm takes one pass without a squared copy of the gradient.
        mean_square.lerp_(ops.norm(grad, dim=dim, keepdim=True).square_().div_(grad.size(dim)), weight)
    return (row_var @ col_var).div_(row_var.mean(dim=-2, keepdim=True).clamp_(min=floor))
