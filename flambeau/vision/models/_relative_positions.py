"""Biases of attention by the difference of two places in a window, of Swin and MaxViT."""

from __future__ import annotations

from ... import ops
from ...core.tensor import Tensor


def relative_position_index(height: int, width: int) -> Tensor:
    """For each two places of a window the row of the table of biases that belongs to their difference: ``(places, places)``."""
    rows, columns = ops.meshgrid(ops.arange(height), ops.arange(width), indexing="ij")
    rows, columns = rows.flatten(), columns.flatten()
    down = rows[:, None] - rows[None, :] + (height - 1)  # 0 and up
    right = columns[:, None] - columns[None, :] + (width - 1)
    return down * (2 * width - 1) + right


def relative_position_bias(table: Tensor, index: Tensor, places: int) -> Tensor:
    """``(1, heads, places, places)`` of a table of shape ``(differences, heads)``."""
    return table[index.view(-1)].view(places, places, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
