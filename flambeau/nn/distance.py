"""Distances between rows."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from ._layer import layer
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of ``x1 - x2 + eps`` over the last dimension.

    Args:
        p: of the norm.
        eps: keeps the derivative finite at zero.
        keepdim: keep the last dimension with size 1.
    Shape:
        ``(N, D)`` or ``(D,)``, twice, to ``(N,)`` or ``()``.
    Source: torch.nn.PairwiseDistance.
    Example:
        >>> nn.PairwiseDistance()(torch.tensor([[0.0, 3.0]]), torch.tensor([[4.0, 0.0]]))
        tensor([5.])
    """

    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


@layer("F.cosine_similarity(x1, x2, self.dim, self.eps)", inputs="x1: Tensor, x2: Tensor")
class CosineSimilarity(Module):
    """The cosine of the angle between ``x1`` and ``x2`` along a dimension.

    Args:
        dim: the dimension.
        eps: least product of the norms by which is divided.
    Shape:
        ``(*, D, *)``, twice, to ``(*, *)``.
    Source: torch.nn.CosineSimilarity.
    Example:
        >>> nn.CosineSimilarity(dim=0)(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]))
        tensor(0.7071)
    """

    dim: int = 1
    eps: float = 1e-8
