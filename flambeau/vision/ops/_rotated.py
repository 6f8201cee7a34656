"""Overlap of rotated boxes: the area in which two rectangles meet, for all pairs at once.

The corners of the common part are the corners of one rectangle inside the other and the points where edges cross: 24 candidates at
most. They are ordered by their angle around their mean, and the shoelace formula gives the area.
"""

from __future__ import annotations

import numpy as np

from ... import ops
from ...core.tensor import Tensor

_SLACK = 1e-9  # of coordinates that are compared, relative to the pair's size: points on an edge count as inside


def rotated_iou(corners1: Tensor, corners2: Tensor) -> Tensor:
    """Intersection over union of all pairs of rectangles.

    Args:
        corners1: ``(*, N, 8)``, four corners around the rectangle.
        corners2: ``(*, M, 8)``.
    Returns:
        ``(*, N, M)``, computed in float64, in ``corners1``'s dtype (float32 for integers). No gradient.
    """
    first = corners1.detach().cpu().double().numpy().reshape(*corners1.shape[:-1], 4, 2)[..., :, None, :, :]
    second = corners2.detach().cpu().double().numpy().reshape(*corners2.shape[:-1], 4, 2)[..., None, :, :, :]
    first, second = np.broadcast_arrays(first, second)
    shared = _shared_area(first, second)
    union = _area(first) + _area(second) - shared
    with np.errstate(all="ignore"):
        iou = np.where(union > 0, shared / union, 0.0)
    dtype = corners1.dtype if corners1.is_floating_point() else None
    return ops.as_tensor(iou, dtype=dtype or corners1.float().dtype, device=corners1.device)


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _area(corners: np.ndarray) -> np.ndarray:
    """Areas of polygons ``(*, n, 2)``, by the shoelace formula."""
    return np.abs(_cross(corners, np.roll(corners, -1, axis=-2)).sum(-1)) / 2


def _inside(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Mask of the ``points``, ``(*, 4, 2)``, that lie in the rectangle ``corners``, ``(*, 4, 2)``."""
    origin = corners[..., :1, :]
    sides = corners[..., 1:2, :] - origin, corners[..., 3:4, :] - origin
    result = np.ones(points.shape[:-1], dtype=bool)
    for side in sides:
        along, length = ((points - origin) * side).sum(-1), (side * side).sum(-1)
        result &= (along >= -_SLACK * length) & (along <= (1 + _SLACK) * length) & (length > 0)
    return result


def _crossings(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 16 points ``(*, 16, 2)`` where edges' lines meet, and which of them lie on both edges."""
    start1, start2 = first[..., :, None, :], second[..., None, :, :]
    edge1 = np.roll(first, -1, axis=-2)[..., :, None, :] - start1
    edge2 = np.roll(second, -1, axis=-2)[..., None, :, :] - start2
    turn = _cross(edge1, edge2)
    parallel = np.abs(turn) <= 1e-14
    divisor = np.where(parallel, 1.0, turn)
    at1, at2 = _cross(start2 - start1, edge2) / divisor, _cross(start2 - start1, edge1) / divisor
    on_both = ~parallel & (at1 >= 0) & (at1 <= 1) & (at2 >= 0) & (at2 <= 1)
    points = start1 + at1[..., None] * edge1
    return points.reshape(*points.shape[:-3], 16, 2), on_both.reshape(*on_both.shape[:-2], 16)


def _shared_area(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    points, on_both = _crossings(first, second)
    candidates = np.concatenate([points, first, second], axis=-2)
    valid = np.concatenate([on_both, _inside(first, second), _inside(second, first)], axis=-1)
    count = valid.sum(-1)
    centre = np.where(valid[..., None], candidates, 0).sum(-2) / np.maximum(count, 1)[..., None]
    around = candidates - centre[..., None, :]
    angle = np.where(valid, np.arctan2(around[..., 1], around[..., 0]), np.inf)
    order = np.argsort(angle, axis=-1)
    ordered = np.take_along_axis(around, order[..., None], axis=-2)
    last = np.take_along_axis(ordered, np.maximum(count - 1, 0)[..., None, None], axis=-2)
    ordered = np.where(np.take_along_axis(valid, order, axis=-1)[..., None], ordered, last)  # repeated corners add no area
    return np.where(count > 2, _area(ordered), 0.0)
