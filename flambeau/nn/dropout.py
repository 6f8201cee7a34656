"""Dropout layers: random zeros in training, nothing in evaluation."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    __constants__ = ["p", "inplace"]
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes single elements and scales the others by ``1 / (1 - p)``.

    Args:
        p: probability of a zero.
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Raises:
        ValueError: ``p`` outside ``[0, 1]``.
    Source: torch.nn.Dropout; Srivastava et al. 2014.
    Example:
        >>> nn.Dropout(0.25).eval()(torch.tensor([1.0, 2.0]))
        tensor([1., 2.])
        >>> nn.Dropout(1.0)(torch.tensor([1.0, 2.0]))
        tensor([0., 0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels and scales the others by ``1 / (1 - p)``.

    Args:
        p: probability of a zero.
        inplace: write the result into the input.
    Shape:
        ``(N, C, L)`` or ``(C, L)`` to the same.
    Raises:
        ValueError: ``p`` outside ``[0, 1]``.
    Source: torch.nn.Dropout1d; Tompson et al. 2015.
    Example:
        >>> nn.Dropout1d(0.5)(torch.ones(8, 16, 3)).mean(-1).unique()
        tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels and scales the others by ``1 / (1 - p)``.

    Args:
        p: probability of a zero.
        inplace: write the result into the input.
    Shape:
        ``(N, C, H, W)`` (``(N, C, L)`` is taken so too, with a warning) to the same.
    Raises:
        ValueError: ``p`` outside ``[0, 1]``.
    Source: torch.nn.Dropout2d; Tompson et al. 2015.
    Example:
        >>> nn.Dropout2d(0.5)(torch.ones(4, 8, 2, 2)).mean((-2, -1)).unique()
        tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels and scales the others by ``1 / (1 - p)``.

    Args:
        p: probability of a zero.
        inplace: write the result into the input.
    Shape:
        ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same.
    Raises:
        ValueError: ``p`` outside ``[0, 1]``.
    Source: torch.nn.Dropout3d; Tompson et al. 2015.
    Example:
        >>> nn.Dropout3d(0.5)(torch.ones(4, 8, 2, 2, 2)).mean((-3, -2, -1)).unique()
        tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Sets single elements to the value that SELU approaches, and keeps mean and variance.

    Args:
        p: probability of a zero.
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Raises:
        ValueError: ``p`` outside ``[0, 1]``.
    Source: torch.nn.AlphaDropout; Klambauer et al. 2017.
    Example:
        >>> nn.AlphaDropout(0.5)(torch.ones(100)).unique()
        tensor([-0.7792,  1.6656])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """Sets whole channels to the value that SELU approaches, and keeps mean and variance.

    Args:
        p: probability of a zero.
        inplace: write the result into the input.
    Shape:
        ``(N, C, *)`` or ``(C, *)`` to the same.
    Raises:
        ValueError: ``p`` outside ``[0, 1]``.
    Source: torch.nn.FeatureAlphaDropout; Klambauer et al. 2017.
    Example:
        >>> nn.FeatureAlphaDropout(0.5)(torch.ones(8, 16, 3)).std(-1).unique()
        tensor([0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
