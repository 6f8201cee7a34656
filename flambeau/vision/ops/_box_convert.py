"""Formats of boxes, each as steps between neighbours; ``boxes.box_convert`` is the public function.

    xywh --- xyxy --- cxcywh          cxcywhr --- xywhr --- xyxyxyxy

Rotated boxes turn around their centre, counter-clockwise on the screen by ``r`` degrees; ``x1, y1`` is the corner that was top left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

from ... import ops
from ...core.tensor import Tensor

Conversion = Callable[[Tensor], Tensor]


def _rounded(convert: Conversion) -> Conversion:
    """A conversion that rounds where its input has integers."""

    @wraps(convert)
    def converted(boxes: Tensor) -> Tensor:
        result = convert(boxes)
        return result if boxes.is_floating_point() else result.round().to(boxes.dtype)

    return converted


def _box_cxcywh_to_xyxy(boxes: Tensor) -> Tensor:
    cx, cy, w, h = boxes.unbind(-1)
    return ops.stack((cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h), dim=-1)


def _box_xyxy_to_cxcywh(boxes: Tensor) -> Tensor:
    x1, y1, x2, y2 = boxes.unbind(-1)
    return ops.stack(((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1), dim=-1)


def _box_xywh_to_xyxy(boxes: Tensor) -> Tensor:
    x, y, w, h = boxes.unbind(-1)
    return ops.stack((x, y, x + w, y + h), dim=-1)


def _box_xyxy_to_xywh(boxes: Tensor) -> Tensor:
    x1, y1, x2, y2 = boxes.unbind(-1)
    return ops.stack((x1, y1, x2 - x1, y2 - y1), dim=-1)


def _turn(r: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of an angle in degrees."""
    radians = r * math.pi / 180.0
    return radians.cos(), radians.sin()


@_rounded
def _box_cxcywhr_to_xywhr(boxes: Tensor) -> Tensor:
    cx, cy, w, h, r = boxes.unbind(-1)
    cos, sin = _turn(r)
    return ops.stack((cx - w / 2 * cos - h / 2 * sin, cy - h / 2 * cos + w / 2 * sin, w, h, r), dim=-1)


@_rounded
def _box_xywhr_to_cxcywhr(boxes: Tensor) -> Tensor:
    x1, y1, w, h, r = boxes.unbind(-1)
    cos, sin = _turn(r)
    return ops.stack((x1 + w / 2 * cos + h / 2 * sin, y1 - w / 2 * sin + h / 2 * cos, w, h, r), dim=-1)


@_rounded
def _box_xywhr_to_xyxyxyxy(boxes: Tensor) -> Tensor:
    x1, y1, w, h, r = boxes.unbind(-1)
    cos, sin = _turn(r)
    x2, y2 = x1 + w * cos, y1 - w * sin
    return ops.stack((x1, y1, x2, y2, x2 + h * sin, y2 + h * cos, x1 + h * sin, y1 + h * cos), dim=-1)


@_rounded
def _box_xyxyxyxy_to_xywhr(boxes: Tensor) -> Tensor:
    x1, y1, x2, y2, x3, y3, _, _ = boxes.unbind(-1)
    angle = ops.atan2(y1 - y2, x2 - x1) * 180 / math.pi
    width = ((x2 - x1) ** 2 + (y1 - y2) ** 2).sqrt()
    height = ((x3 - x2) ** 2 + (y3 - y2) ** 2).sqrt()
    return ops.stack((x1, y1, width, height, angle), dim=-1)


FORMATS = ("xyxy", "xywh", "cxcywh", "xywhr", "cxcywhr", "xyxyxyxy")
STEPS: dict[tuple[str, str], tuple[Conversion, ...]] = {
    ("xywh", "xyxy"): (_box_xywh_to_xyxy,),
    ("cxcywh", "xyxy"): (_box_cxcywh_to_xyxy,),
    ("xyxy", "xywh"): (_box_xyxy_to_xywh,),
    ("xyxy", "cxcywh"): (_box_xyxy_to_cxcywh,),
    ("xywh", "cxcywh"): (_box_xywh_to_xyxy, _box_xyxy_to_cxcywh),
    ("cxcywh", "xywh"): (_box_cxcywh_to_xyxy, _box_xyxy_to_xywh),
    ("cxcywhr", "xywhr"): (_box_cxcywhr_to_xywhr,),
    ("xywhr", "cxcywhr"): (_box_xywhr_to_cxcywhr,),
    ("cxcywhr", "xyxyxyxy"): (_box_cxcywhr_to_xywhr, _box_xywhr_to_xyxyxyxy),
    ("xyxyxyxy", "cxcywhr"): (_box_xyxyxyxy_to_xywhr, _box_xywhr_to_cxcywhr),
    ("xywhr", "xyxyxyxy"): (_box_xywhr_to_xyxyxyxy,),
    ("xyxyxyxy", "xywhr"): (_box_xyxyxyxy_to_xywhr,),
}
