"""Biases of attention by the difference of two places in a window, of Swin, in images and videos, and MaxViT."""

from __future__ import annotations

from ... import ops
from ...core.dtype import int64
from ...core.tensor import Tensor


def relative_position_index(*sides: int) -> Tensor:
    """For each two places of a window the row of the table of biases that belongs to their difference: ``(places, places)``."""
    index = ops.zeros((), dtype=int64)
    for axis, side in zip(ops.meshgrid(*map(ops.arange, sides), indexing="ij"), sides):
        place = axis.flatten()
        difference = place[:, None] - place[None, :] + (side - 1)  # 0 and up
        index = index * (2 * side - 1) + difference
    return index


def relative_position_bias(table: Tensor, index: Tensor, places: int) -> Tensor:
    """``(1, heads, places, places)`` of a table of shape ``(differences, heads)``."""
    return table[index.view(-1)].view(places, places, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
