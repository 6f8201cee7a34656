"""Stochastic depth: residual branches that are left out at random during training."""

from __future__ import annotations

from ... import nn, ops
from ...core.tensor import Tensor
from ...core.traced import keep_whole

__all__ = ["StochasticDepth", "stochastic_depth"]


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Zeros in place of ``input``, or of some of its rows, with probability ``p``; what stays is divided by ``1 - p``.

    Args:
        input: ``(N, *)``, a row for each example.
        p: probability of zeros.
        mode: ``"batch"``, all or nothing, or ``"row"``, each row by itself.
        training: nothing is done when False.
    Returns:
        ``input``'s shape and dtype; ``input`` itself where nothing is done.
    Raises:
        ValueError: ``p`` outside of 0 to 1, or an unknown ``mode``.
    Source: torchvision.ops.stochastic_depth. Huang et al. 2016, "Deep Networks with Stochastic Depth".
    Example:
        >>> stochastic_depth(torch.ones(4, 1), p=0.5, mode='row').flatten()
        tensor([0., 0., 2., 0.])
    """
    if p < 0.0 or p > 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return input
    survival = 1.0 - p
    rows = [input.shape[0] if mode == "row" else 1] + [1] * (input.ndim - 1)
    kept = ops.empty(rows, dtype=input.dtype, device=input.device).bernoulli_(survival)
    if survival > 0.0:
        kept.div_(survival)
    return input * kept


class StochasticDepth(nn.Module):
    """:func:`stochastic_depth` as a module, which does nothing in evaluation.

    Args:
        p: probability of zeros.
        mode: ``"batch"`` or ``"row"``.
    Shape:
        ``(N, ...)`` to the same.
    Source: torchvision.ops.StochasticDepth. Huang et al. 2016.
    Example:
        >>> StochasticDepth(0.5, 'row').eval()(torch.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p}, mode={self.mode})"


keep_whole(globals(), "stochastic_depth")
