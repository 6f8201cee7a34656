"""Turned boxes, given by their four corners ``(N, 8)``: cutting them to the image, and the box that a parallelogram stands for.

A side of a box is a line ``y = a x + b``. A box is cut at the left border of the image by moving such lines, and at the others by turning
box and image by 90 degrees in between::

      1 ---- 2        sides: 1 from corner 1 to 2, 2 from 2 to 3, 3 from 3 to 4, 4 from 4 back to 1
      |      |
      4 ---- 3
"""

from __future__ import annotations

import math

from .... import ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor


def parallelogram_to_box(corners: Tensor) -> Tensor:
    """The rectangle around each parallelogram that shares its centre and its longer side's direction."""
    exact = corners if corners.dtype in (dtypes.float32, dtypes.float64) else corners.float()
    x1, y1, x2, y2, x3, y3, x4, y4 = exact.unbind(-1)
    centre_x, centre_y = (x1 + x3) / 2, (y1 + y3) / 2
    along = ((x2 - x1).pow(2) + (y2 - y1).pow(2)).sqrt()
    across = ((x4 - x1).pow(2) + (y4 - y1).pow(2)).sqrt()
    angle_along, angle_across = ops.atan2(y1 - y2, x2 - x1), ops.atan2(y1 - y4, x4 - x1)
    between = angle_along - angle_across
    sign = ops.where(between > math.pi / 2, -1, 1)
    cos, sin = between.cos(), between.sin()
    width = ops.where(along < across, along * sin, along + across * cos * sign)
    height = ops.where(along > across, across * sin, across + along * cos * sign)
    angle = ops.where(across > along, angle_across + math.pi / 2, angle_along)
    cos, sin = angle.cos(), angle.sin()
    corners_of_box = []
    for right, down in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
        half_width, half_height = right * width / 2, down * height / 2
        corners_of_box += [centre_x + half_width * cos + half_height * sin, centre_y + half_height * cos - half_width * sin]
    return ops.stack(corners_of_box, -1).reshape(corners.shape).to(corners.dtype)


def _order(corners: Tensor) -> Tensor:
    """Indices that put the leftmost corner first; among equals, the uppermost."""
    x, y = corners[..., 0::2], corners[..., 1::2]
    x_most, y_most = x.abs().amax(1, keepdim=True), y.abs().amax(1, keepdim=True)
    first = (y / y_most + x / x_most * 100).min(dim=1).indices
    return (first.unsqueeze(1) * 2 + ops.arange(8, device=first.device)).remainder_(8)


def _lines(corners: Tensor) -> tuple[Tensor, Tensor]:
    """Slope and intercept of each side."""
    x, y = corners[..., ::2], corners[..., 1::2]
    slope = y.diff(append=y[..., :1]) / x.diff(append=x[..., :1])
    return slope, y - slope * x


def _intersections(slope: Tensor, intercept: Tensor) -> Tensor:
    """The corners at which each side meets the one before it."""
    x = intercept.diff(prepend=intercept[..., 3:4]).neg() / slope.diff(prepend=slope[..., 3:4])
    return ops.stack([x, slope * x + intercept], -1).flatten(1)


def _cut_intercepts(corners: Tensor, original: Tensor, canvas_size: tuple[int, int], clamping_mode: str | None) -> Tensor:
    height, width = canvas_size
    slope, intercept = _lines(corners)
    a1, a2, a3, a4 = slope.unbind(-1)
    b1, b2, b3, b4 = intercept.unbind(-1)
    least1, least2, most1, most2 = _lines(original)[1].unbind(-1)
    b1 = b2.clamp(b1, b3).clamp(0, height)
    b4 = b3.clamp(b2, b4).clamp(0, height)
    if clamping_mode == "hard":
        b1 = b4 = (b1 + b4) / 2
        down = ops.stack([b1 * a2 / a1, b3 * a2 / a3, (a1 - a2) * width + b1, (a3 - a2) * width + b3], 1)
        b2 = down.max(dim=1).values.clamp(max=b2)
        up = [height * (1 - a3 / a4) + b4 * a3 / a4, height * (1 - a3 / a2) + b2 * a3 / a2, (a2 - a3) * width + b2, (a4 - a3) * width + b4]
        b3 = ops.stack(up, 1).min(dim=1).values.clamp(min=b3)
        # both are one line there, and so both bounds move it
        b1 = b4 = b1.clamp(least1, most1).clamp(least2, most2)
    else:
        b1, b4 = b1.clamp(least1, most1), b4.clamp(least2, most2)
    return ops.stack([b1, b2.clamp(least2, most2), b3.clamp(least1, most1), b4], -1)


def _cut_at_the_left(corners: Tensor, original: Tensor, canvas_size: tuple[int, int], clamping_mode: str | None) -> Tensor:
    slope, _ = _lines(corners)
    x1, y1, x2, y2, x3, y3, x4, y4 = corners.unbind(-1)
    moved = _intersections(slope, _cut_intercepts(corners, original, canvas_size, clamping_mode))
    level = ops.stack([x1.clamp(0), y1, x2, y2, x3, y3, x4.clamp(0), y4], -1)
    is_cut = (x1 < 0) & ~moved.isnan().any(-1)
    is_level = y1.isclose(y2) | y3.isclose(y4)
    is_outside = (x1 <= 0) & (x2 <= 0) & (x3 <= 0) & (x4 <= 0)
    is_gone = is_outside | y1.isclose(y4) | y2.isclose(y3) | (is_level & x1.isclose(x2))
    for condition, result in ((is_cut, moved), (is_level, level), (is_gone, ops.zeros_like(corners))):
        corners = ops.where(condition.unsqueeze(1), result, corners)
    return corners


def _quarter_turn(corners: Tensor, width: int) -> Tensor:
    x, y = corners[:, ::2], corners[:, 1::2]
    return ops.stack([y, width - x], -1).flatten(1)


def clamp_rotated(corners: Tensor, canvas_size: tuple[int, int], clamping_mode: str | None) -> Tensor:
    """Boxes cut to the image: each border in turn, with a quarter turn after each."""
    height, width = canvas_size
    original = corners
    for _ in range(4):
        order = _order(corners)
        cut = _cut_at_the_left(corners.gather(1, order), original.gather(1, order), (height, width), clamping_mode)
        # torchvision goes back by the same indices, too
        corners, original = cut.gather(1, order), original.gather(1, order).gather(1, order)
        corners, original = _quarter_turn(corners, width), _quarter_turn(original, width)
        height, width = width, height
    return corners
