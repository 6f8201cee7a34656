"""Muon: momentum whose matrices are made orthogonal."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ._stepping import GroupOptimizer, column, number, scalar
from .optimizer import ParamsT

__all__ = ["Muon", "muon"]

# The quintic a x + b x^3 + c x^5 takes singular values from (0, 1] to about 1 in few steps; from the method's author.
_QUINTIC = (3.4445, -4.7750, 2.0315)


class Muon(GroupOptimizer):
    """Momentum descent for matrices, along the nearest matrix with orthogonal rows or columns.

    With gradient ``g``: ``b = momentum * b + (1 - momentum) * g``, ``u`` the orthogonalised ``b`` (Nesterov: of ``g`` moved towards
    ``b`` by ``momentum``), ``p = p * (1 - lr * weight_decay) - adjusted lr * u``.

    Args:
        params: two-dimensional parameters or groups of them; give the others to another optimizer.
        weight_decay: by which part (times ``lr``) the parameters shrink in a step.
        nesterov: look ahead along the buffer.
        ns_coefficients: of the quintic in the Newton-Schulz iteration.
        eps: smallest norm to divide by.
        ns_steps: number of iterations, below 100.
        adjust_lr_fn: factor of ``lr`` by the shape ``(m, n)``: ``"original"`` or None: ``sqrt(max(1, m / n))``;
            ``"match_rms_adamw"``: ``0.2 * sqrt(max(m, n))``.
    Attributes:
        state: per parameter ``momentum_buffer``.
    Raises:
        ValueError: an option out of its range, or a parameter that is not a matrix.
        RuntimeError: complex parameters or sparse gradients.
    Source: torch.optim.Muon. Jordan et al. 2024; shape factors: Liu et al. 2025.
    Example:
        >>> weight = nn.Parameter(torch.eye(2))
        >>> optimizer = torch.optim.Muon([weight], lr=0.1)
        >>> (weight @ torch.tensor([[1.0, 2.0], [0.0, 1.0]])).sum().backward()
        >>> optimizer.step()
        >>> weight.shape
        torch.Size([2, 2])
    """

    _options = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"

    def __init__(
        self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: tuple[float, float, float] = _QUINTIC, eps: float = 1e-7,
        ns_steps: int = 5, adjust_lr_fn: str | None = None
    ) -> None:  # fmt: skip
        self._begin(params, locals())
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}")

    def _check(self, options: dict[str, Any]) -> None:
        if isinstance(options["lr"], Tensor) and options["lr"].numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, words in {"lr": "Learning rate", "momentum": "momentum", "weight_decay": "weight decay"}.items():
            if not 0.0 <= options[name]:
                raise ValueError(f"{words} should be >= 0 but is: {options[name]}")
        if options["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {options['adjust_lr_fn']} is not supported")

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        return {"momentum_buffer": ops.zeros_like(param.grad)}

    def _update_group(self, group: dict[str, Any]) -> None:
        params, grads, states = self._gather(group)
        options = {key: group[key] for key in self.defaults if key != "differentiable"}
        muon(params, grads, column(states, "momentum_buffer"), **options)


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool = False,
) -> None:
    """Update ``params`` and the buffers in place by one step of Muon.

    Args:
        params, grads: matrices ``(m, n)`` to update, and their gradients of the same shapes.
        muon_momentum_bufs: the buffers of the momentum, of the same shapes.
        lr, weight_decay, momentum, nesterov, ns_coefficients, ns_steps, eps, adjust_lr_fn: as in :class:`Muon`.
        foreach, has_complex: change nothing.
    Raises:
        ValueError: a gradient that is not a matrix.
    Source: torch.optim._muon.muon.
    Example:
        >>> param, grad, buffer = torch.zeros(2, 2), torch.eye(2), torch.zeros(2, 2)
        >>> options = torch.optim.Muon([nn.Parameter(param)], lr=0.1, momentum=0.5).defaults
        >>> torch.optim.muon.muon([param], [grad], [buffer], **{k: v for k, v in options.items() if k != "differentiable"})
        >>> buffer
        tensor([[0.5000, 0.0000],
                [0.0000, 0.5000]])
    """
    lr = scalar(lr)
    for param, grad, buffer in zip(params, grads, muon_momentum_bufs, strict=True):
        if grad.dim() != 2:
            raise ValueError("Param gradient must be a 2D matrix")
        buffer.lerp_(grad, 1 - momentum)
        update = grad.lerp(buffer, momentum) if nesterov else buffer
        update = _orthogonalised(update, ns_coefficients, ns_steps, eps)
        param.mul_(1 - lr * weight_decay)
        param.add_(update, alpha=-number(_adjusted_lr(lr, adjust_lr_fn, param.shape)))


def _orthogonalised(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """About ``U V^T`` of the singular value decomposition ``U S V^T``, by Newton-Schulz iterations in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    is_tall = matrix.size(0) > matrix.size(1)
    result = matrix.bfloat16()
    result = result.T if is_tall else result  # the Gram matrix is the small one
    result = result.div(result.norm().clamp(min=eps))  # no singular value is above the Frobenius norm
    for _ in range(steps):
        gram = result @ result.T
        result = ops.addmm(result, ops.addmm(gram, gram, gram, beta=b, alpha=c), result, beta=a)
    return result.T if is_tall else result


def _adjusted_lr(lr: Any, how: str | None, shape: Any) -> Any:
    rows, columns = shape
    if how == "match_rms_adamw":
        return lr * (0.2 * math.sqrt(max(rows, columns)))
    return lr * math.sqrt(max(1, rows / columns))
