"""Sources of the elements of a padded dimension."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def sides_of(pad: Sequence[int], ndim: int) -> tuple[list[int], list[int]]:
    """Amounts before and after each of the last ``len(pad) / 2`` dimensions, in dimension order (``pad`` starts with the last one)."""
    return list(pad[::2])[::-1], list(pad[1::2])[::-1]


def places_of(size: int, low: int, high: int, mode: str, at: np.ndarray | None = None) -> np.ndarray:
    """Index, among ``size`` elements, of the one at each place of the padded dimension.

    Args:
        at: the places that are asked for, counted from the first of the elements; all by default.
    Raises:
        IndexError: places to be filled with elements of which none is kept.
    """
    at = np.arange(-low, size + high) if at is None else at
    if mode == "replicate":
        return at.clip(0, size - 1)
    if mode == "circular":  # what is cut off on one side does not come back on the other
        first, last = max(-low, 0), size - max(-high, 0)
        if at.size and first >= last:
            raise IndexError(f"circular padding of {low} and {high} keeps none of {size} elements to fill with")
        return first + (at - first) % max(last - first, 1)
    at = np.abs(at)
    return np.where(at >= size, 2 * (size - 1) - at, at)
