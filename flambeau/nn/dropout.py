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


_EXAMPLES = {
    "Dropout": """
        >>> nn.Dropout(0.25).eval()(torch.tensor([1.0, 2.0]))
        tensor([1., 2.])
        >>> nn.Dropout(1.0)(torch.tensor([1.0, 2.0]))
        tensor([0., 0.])
    """,
    "Dropout1d": """
        >>> nn.Dropout1d(0.5)(torch.ones(8, 16, 3)).mean(-1).unique()
        tensor([0., 2.])
    """,
    "Dropout2d": """
        >>> nn.Dropout2d(0.5)(torch.ones(4, 8, 2, 2)).mean((-2, -1)).unique()
        tensor([0., 2.])
    """,
    "Dropout3d": """
        >>> nn.Dropout3d(0.5)(torch.ones(4, 8, 2, 2, 2)).mean((-3, -2, -1)).unique()
        tensor([0., 2.])
    """,
    "AlphaDropout": """
        >>> nn.AlphaDropout(0.5)(torch.ones(100)).unique()
        tensor([-0.7792,  1.6656])
    """,
    "FeatureAlphaDropout": """
        >>> nn.FeatureAlphaDropout(0.5)(torch.ones(8, 16, 3)).std(-1).unique()
        tensor([0.])
    """,
}
_DOC = """{what}

    Args:
        p: probability of a zero.
        inplace: write the result into the input.
    Shape:
        {shape} to the same.
    Raises:
        ValueError: ``p`` outside ``[0, 1]``.
    Source: torch.nn.{name}; {paper}.
    Example:{example}"""


def _doc(what: str, shape: str, name: str, paper: str) -> str:
    return _DOC.format(what=what, shape=shape, name=name, paper=paper, example=_EXAMPLES[name])


class Dropout(_DropoutNd):
    __doc__ = _doc("Zeroes single elements and scales the others by ``1 / (1 - p)``.", "``(*)``", "Dropout", "Srivastava et al. 2014")

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    __doc__ = _doc(
        "Zeroes whole channels and scales the others by ``1 / (1 - p)``.", "``(N, C, L)`` or ``(C, L)``", "Dropout1d", "Tompson et al. 2015"
    )

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    __doc__ = _doc(
        "Zeroes whole channels and scales the others by ``1 / (1 - p)``.",
        "``(N, C, H, W)`` (``(N, C, L)`` is taken so too, with a warning)",
        "Dropout2d",
        "Tompson et al. 2015",
    )

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    __doc__ = _doc(
        "Zeroes whole channels and scales the others by ``1 / (1 - p)``.",
        "``(N, C, D, H, W)`` or ``(C, D, H, W)``",
        "Dropout3d",
        "Tompson et al. 2015",
    )

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    __doc__ = _doc(
        "Sets single elements to the value that SELU approaches, and keeps mean and variance.",
        "``(*)``",
        "AlphaDropout",
        "Klambauer et al. 2017",
    )

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    __doc__ = _doc(
        "Sets whole channels to the value that SELU approaches, and keeps mean and variance.",
        "``(N, C, *)`` or ``(C, *)``",
        "FeatureAlphaDropout",
        "Klambauer et al. 2017",
    )

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
