"""Masks of COCO's outlines, which are polygons or lengths of runs. Source: the masks of the COCO API, pixel by pixel."""

from __future__ import annotations

from typing import Any

import numpy as np

SCALE = 5  # boundaries are drawn this much finer


def mask_of(outline: Any, height: int, width: int) -> Any:
    """``(height, width)``, uint8: 1 inside of an outline.

    Args:
        outline: a list of polygons, each ``[x, y, x, y, ...]``; or a dictionary whose ``counts`` are lengths of runs of zeros and ones in
            turn, column by column, as numbers or packed into letters.
        height, width: of the mask.
    Raises:
        ValueError: something else, or runs of another total length.
    """
    if isinstance(outline, list):
        inside = np.zeros((height, width), bool)
        for polygon in outline:
            inside |= _inside(np.asarray(polygon, np.float64).reshape(-1, 2), height, width)
        return inside.astype(np.uint8)
    if not isinstance(outline, dict):
        raise ValueError(f"COCO segmentation expected to be a dict or a list, got {type(outline)}")
    counts = outline["counts"]
    runs = _unpacked(counts.encode() if isinstance(counts, str) else counts) if isinstance(counts, str | bytes) else counts
    values = np.repeat(np.arange(len(runs)) % 2, runs).astype(np.uint8)
    if values.size != height * width:
        raise ValueError(f"expected runs of {height} x {width} pixels, got {values.size} pixels")
    return values.reshape(width, height).T.copy()


def _unpacked(letters: bytes) -> list[int]:
    """Lengths of runs: five bits a letter, the lowest first, with a sixth for "more"; from the fourth on less the last but one."""
    runs: list[int] = []
    value, shift = 0, 0
    for letter in letters:
        bits = letter - 48
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:  # negative
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        value, shift = 0, 0
    return runs


def _inside(points: Any, height: int, width: int) -> Any:
    """Pixels inside of one polygon: column by column, each crossing of the boundary turns outside to inside or back."""
    corners = (points * SCALE + 0.5).astype(np.int64)
    columns, rows = (np.concatenate(parts) for parts in zip(*map(_edge, corners, np.roll(corners, -1, 0))))
    # Where the boundary goes from one fine column to the next, between two pixels' middles.
    steps = np.flatnonzero(columns[1:] != columns[:-1])
    place = (np.minimum(columns[1:], columns[:-1])[steps] + 0.5) / SCALE - 0.5
    top = np.clip((np.minimum(rows[1:], rows[:-1])[steps] + 0.5) / SCALE - 0.5, 0, height)
    is_crossing = (place == np.floor(place)) & (place >= 0) & (place <= width - 1)
    crossings = place[is_crossing].astype(np.int64) * height + np.ceil(top[is_crossing]).astype(np.int64)
    turns = np.bincount(crossings, minlength=height * width + 1)[: height * width]
    return (np.cumsum(turns) % 2).astype(bool).reshape(width, height).T


def _edge(start: Any, end: Any) -> tuple[Any, Any]:
    """Columns and rows of the points of a line, one for each step along its longer side."""
    (x, y), (x_end, y_end) = start.tolist(), end.tolist()
    is_flat = abs(x_end - x) >= abs(y_end - y)
    along, across, along_end, across_end = (x, y, x_end, y_end) if is_flat else (y, x, y_end, x_end)
    is_turned = along > along_end  # drawn from the smaller end, as rounding is not the same from both
    if is_turned:
        along, across, along_end, across_end = along_end, across_end, along, across
    count = along_end - along
    slope = (across_end - across) / count if count else 0.0
    step = np.arange(count, -1, -1) if is_turned else np.arange(count + 1)
    points = (along + step, np.trunc(across + slope * step + 0.5).astype(np.int64))
    return points if is_flat else points[::-1]
