"""Layers that join or split dimensions."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ._layer import _Printed, layer

__all__ = ["Flatten", "Unflatten"]


@layer("input.flatten(self.start_dim, self.end_dim)")
class Flatten(_Printed):
    """Joins the dimensions from ``start_dim`` to ``end_dim``, both included.

    Args:
        start_dim: the first; 1 keeps the batch.
        end_dim: the last.
    Shape:
        ``(*, S_start, ..., S_end, *)`` to ``(*, S_start * ... * S_end, *)``.
    Source: torch.nn.Flatten.
    Example:
        >>> nn.Flatten()(torch.zeros(8, 3, 4, 5)).shape
        torch.Size([8, 60])
    """

    start_dim: int = 1
    end_dim: int = -1


class Unflatten(_Printed):
    """Splits a dimension into several.

    Args:
        dim: the dimension.
        unflattened_size: the sizes it becomes; one may be -1.
    Shape:
        ``(*, S, *)`` to ``(*, *unflattened_size, *)``.
    Raises:
        TypeError: a size is not an int, or ``dim`` not a number.
        NotImplementedError: named dimensions.
    Source: torch.nn.Unflatten.
    Example:
        >>> nn.Unflatten(1, (3, -1))(torch.zeros(8, 60)).shape
        torch.Size([8, 3, 20])
    """

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if isinstance(dim, str):
            raise NotImplementedError("Unflatten: named dimensions are not supported; give the dimension's number")
        if not isinstance(dim, int):
            raise TypeError("invalid argument type for dim parameter")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}")
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)
