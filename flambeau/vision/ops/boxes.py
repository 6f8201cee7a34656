"""Boxes: which to keep, where they lie, how much they overlap.

A box is ``(x1, y1, x2, y2)`` with ``0 <= x1 < x2`` and ``0 <= y1 < y2`` where no format is named.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ops
from ...autograd.grad_mode import no_grad
from ...core import dtype as dtypes
from ...core.tensor import Tensor
from ._box_convert import FORMATS, STEPS
from ._rotated import rotated_iou
from ._utils import _upcast

__all__ = ["batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou", "distance_box_iou"]
__all__ += ["generalized_box_iou", "masks_to_boxes", "nms", "remove_small_boxes"]

_ALIGNED = ("xyxy", "xywh", "cxcywh")
_ROTATED = ("cxcywhr", "xywhr", "xyxyxyxy")
_ROWS = 32  # boxes whose overlaps with all others are computed at once
_SEPARATE_FROM = 4000  # numbers in the boxes from which on a pass for each category is quicker than one over all


# -- suppression ---------------------------------------------------------------------------------------------------------------
def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Non-maximum suppression: boxes by falling score, each kept unless it overlaps one already kept.

    Args:
        boxes: ``(N, 4)``.
        scores: ``(N,)``; of equal ones the first comes first.
        iou_threshold: overlap (intersection over union) above which a box is dropped.
    Returns:
        int64, the places of the kept boxes by falling score.
    Raises:
        RuntimeError: other shapes, or two dtypes.
        NotImplementedError: integers.
    Gradient: none.
    Source: torchvision.ops.nms.
    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.8], [5.0, 5.0, 6.0, 6.0]])
        >>> nms(boxes, torch.tensor([0.8, 0.9, 0.7]), 0.5)
        tensor([1, 2])
    """
    if boxes.dim() != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {boxes.dim()}D")
    if boxes.size(1) != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {boxes.size(1)}")
    if scores.dim() != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.dim()}D")
    if boxes.size(0) != scores.size(0):
        raise RuntimeError(f"boxes and scores should have same number of elements in dimension 0, got {boxes.size(0)} and {scores.size(0)}")
    if boxes.dtype != scores.dtype:
        raise RuntimeError(f"dets should have the same type as scores, got {boxes.dtype} and {scores.dtype}")
    if not boxes.is_floating_point():
        raise NotImplementedError(f"\"nms_kernel\" not implemented for '{boxes.dtype.legacy}'")
    order = scores.detach().sort(stable=True, descending=True)[1]
    ranked = boxes.detach()[order].cpu()
    kept = _kept(ranked.float().numpy() if ranked.element_size() < 4 else ranked.numpy(), iou_threshold)
    return order[ops.as_tensor(kept, device=order.device)]


def _kept(boxes: np.ndarray, threshold: float) -> np.ndarray:
    """The places of the boxes that suppression keeps; ``boxes`` by falling score.

    The overlaps of a block of boxes with all that follow are computed at once; who is kept is then read off row by row.
    """
    limit = boxes.dtype.type(threshold)
    if float(limit) > threshold:  # the number below: no overlap of this type lies between the two
        limit = np.nextafter(limit, boxes.dtype.type(-np.inf))
    x1, y1, x2, y2 = (np.ascontiguousarray(column) for column in boxes.T)
    areas = (x2 - x1) * (y2 - y1)
    alive = np.ones(len(boxes), dtype=bool)
    for start in range(0, len(boxes), _ROWS):
        rows = start + np.flatnonzero(alive[start : start + _ROWS])
        overlapping = _overlaps(x1, y1, x2, y2, areas, rows[:, None], slice(start + 1, None)) > limit
        for row, later in zip(rows, overlapping):
            if alive[row]:  # none of the block before it has dropped it
                alive[row + 1 :][later[row - start :]] = False
    return np.flatnonzero(alive)


def _overlaps(x1: np.ndarray, y1: np.ndarray, x2: np.ndarray, y2: np.ndarray, areas: np.ndarray, rows: Any, rest: slice) -> np.ndarray:
    """Intersection over union of the boxes ``rows``, ``(n, 1)``, with the boxes ``rest``."""
    with np.errstate(all="ignore"):
        width = np.minimum(x2[rows], x2[rest]) - np.maximum(x1[rows], x1[rest])
        height = np.minimum(y2[rows], y2[rest]) - np.maximum(y1[rows], y1[rest])
        shared = np.maximum(width, 0, out=width) * np.maximum(height, 0, out=height)
        return shared / (areas[rows] + areas[rest] - shared)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """Non-maximum suppression in each category for itself.

    Args:
        boxes: ``(N, 4)``.
        scores: ``(N,)``.
        idxs: ``(N,)``, the category of each box.
        iou_threshold: overlap above which a box is dropped.
    Returns:
        int64, the places of the kept boxes by falling score.
    Source: torchvision.ops.batched_nms.
    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.8]])
        >>> batched_nms(boxes, torch.tensor([0.8, 0.9]), torch.tensor([0, 1]), 0.5)
        tensor([1, 0])
    """
    if boxes.numel() > _SEPARATE_FROM:
        return _batched_nms_vanilla(boxes, scores, idxs, iou_threshold)
    return _batched_nms_coordinate_trick(boxes, scores, idxs, iou_threshold)


def _batched_nms_coordinate_trick(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """One pass over all boxes, each category moved to a place of its own."""
    if boxes.numel() == 0:
        return ops.empty((0,), dtype=dtypes.int64, device=boxes.device)
    offsets = idxs.to(boxes) * (boxes.max() + ops.tensor(1).to(boxes))
    return nms(boxes + offsets[:, None], scores, iou_threshold)


def _batched_nms_vanilla(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """One pass for each category."""
    keep = ops.zeros_like(scores, dtype=dtypes.bool_)
    for category in ops.unique(idxs):
        members = ops.where(idxs == category)[0]
        keep[members[nms(boxes[members], scores[members], iou_threshold)]] = True
    kept = ops.where(keep)[0]
    return kept[scores[kept].sort(descending=True)[1]]


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The places of boxes whose sides both measure ``min_size`` or more.

    Args:
        boxes: ``(N, 4)``.
        min_size: the shortest side that stays.
    Returns:
        ``(K,)``, int64.
    Source: torchvision.ops.remove_small_boxes.
    Example:
        >>> remove_small_boxes(torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 0.5, 2.0]]), 1.0)
        tensor([0])
    """
    width, height = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
    return ops.where((width >= min_size) & (height >= min_size))[0]


# -- geometry ------------------------------------------------------------------------------------------------------------------
def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes with their corners moved into the image.

    Args:
        boxes: ``(*, 4)``.
        size: height and width.
    Returns:
        A new tensor like ``boxes``.
    Source: torchvision.ops.clip_boxes_to_image.
    Example:
        >>> clip_boxes_to_image(torch.tensor([[-1.0, 2.0, 9.0, 4.0]]), (6, 8))
        tensor([[0., 2., 8., 4.]])
    """
    height, width = size
    x, y = boxes[..., 0::2].clamp(min=0, max=width), boxes[..., 1::2].clamp(min=0, max=height)
    return ops.stack((x, y), dim=boxes.dim()).reshape(boxes.shape)


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes in another format.

    Args:
        boxes: ``(*, 4)``; rotated ones ``(*, 5)``, or ``(*, 8)`` for ``'xyxyxyxy'``.
        in_fmt: ``'xyxy'`` two corners, ``'xywh'`` corner and size, ``'cxcywh'`` centre and size; rotated: ``'xywhr'``, ``'cxcywhr'`` with
            the angle in degrees, counter-clockwise, and ``'xyxyxyxy'`` four corners from the top left clockwise.
        out_fmt: likewise.
    Returns:
        A new tensor; rotated boxes of integers are rounded.
    Raises:
        ValueError: an unknown format.
        NotImplementedError: from a rotated format to one that is not, or back.
    Source: torchvision.ops.box_convert.
    Example:
        >>> box_convert(torch.tensor([[0.0, 0.0, 4.0, 2.0]]), 'xyxy', 'cxcywh')
        tensor([[2., 1., 4., 2.]])
    """
    if in_fmt not in FORMATS or out_fmt not in FORMATS:
        raise ValueError(f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}")
    if in_fmt == out_fmt:
        return boxes.clone()
    if (in_fmt, out_fmt) not in STEPS:
        raise NotImplementedError(f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}")
    for step in STEPS[in_fmt, out_fmt]:
        boxes = step(boxes)
    return boxes


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """The area of each box.

    Args:
        boxes: ``(*, 4)``.
        fmt: ``'xyxy'``, ``'xywh'`` or ``'cxcywh'``.
    Returns:
        ``(*,)``, at least of 32 bits an element.
    Raises:
        ValueError: another format.
    Source: torchvision.ops.box_area.
    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0]])
        >>> box_area(boxes)
        tensor([4., 4.])
    """
    if fmt not in _ALIGNED:
        raise ValueError(f"Unsupported Bounding Box area for given format {fmt}")
    boxes = _upcast(boxes)
    if fmt == "xyxy":
        return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    return boxes[..., 2] * boxes[..., 3]


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The smallest box around each mask, from its first to its last pixel.

    Args:
        masks: ``(N, H, W)``; what is not zero belongs to the mask.
    Returns:
        ``(N, 4)``, float32; zeros for an empty mask. A mask of one row or column has a box without height or width.
    Source: torchvision.ops.masks_to_boxes.
    Example:
        >>> masks = torch.zeros(1, 4, 5)
        >>> masks[0, 1:3, 2:5] = 1
        >>> masks_to_boxes(masks)
        tensor([[2., 1., 4., 2.]])
    """
    if masks.numel() == 0:
        return ops.zeros((0, 4), device=masks.device, dtype=dtypes.float32)
    _, height, width = masks.shape
    filled = masks.bool()
    rows, columns = filled.any(dim=2), filled.any(dim=1)
    y, x = rows.float(), columns.float()
    corners = (
        x.argmax(dim=1),
        y.argmax(dim=1),
        (width - 1) - x.flip(dims=[1]).argmax(dim=1),
        (height - 1) - y.flip(dims=[1]).argmax(dim=1),
    )
    return ops.stack(corners, dim=1).float() * rows.any(dim=1)[:, None]


# -- overlap -------------------------------------------------------------------------------------------------------------------
def _enclosing_size(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """Width and height, ``(*, N, M)``, of the smallest box around each pair."""
    low = ops.min(boxes1[..., None, :2], boxes2[..., None, :, :2])
    high = ops.max(boxes1[..., None, 2:], boxes2[..., None, :, 2:])
    return _upcast(high - low).clamp(min=0).unbind(-1)


def _box_inter_union(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> tuple[Tensor, Tensor]:
    """Areas of intersection and union of all pairs, ``(*, N, M)``."""
    if fmt not in _ALIGNED:
        raise ValueError(f"Unsupported Box IoU Calculation for given fmt {fmt}.")
    area1, area2 = box_area(boxes1, fmt), box_area(boxes2, fmt)
    if fmt != "xyxy":
        boxes1, boxes2 = box_convert(boxes1, fmt, "xyxy"), box_convert(boxes2, fmt, "xyxy")
    low = ops.max(boxes1[..., None, :2], boxes2[..., None, :, :2])
    high = ops.min(boxes1[..., None, 2:], boxes2[..., None, :, 2:])
    width, height = _upcast(high - low).clamp(min=0).unbind(-1)
    intersection = width * height
    return intersection, area1[..., None] + area2[..., None, :] - intersection


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Intersection over union of every box of one set with every box of the other.

    Args:
        boxes1: ``(*, N, K)``.
        boxes2: ``(*, M, K)``.
        fmt: any of ``box_convert``'s.
    Returns:
        ``(*, N, M)``.
    Raises:
        ValueError: an unknown format.
    Gradient: none for rotated boxes.
    Source: torchvision.ops.box_iou. The Jaccard index.
    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0]])
        >>> box_iou(boxes, boxes)
        tensor([[1.0000, 0.1429],
                [0.1429, 1.0000]])
    """
    if fmt in _ALIGNED:
        intersection, union = _box_inter_union(boxes1, boxes2, fmt=fmt)
        return intersection / union
    if fmt in _ROTATED:
        return rotated_iou(box_convert(boxes1, fmt, "xyxyxyxy"), box_convert(boxes2, fmt, "xyxyxyxy"))
    raise ValueError(f"Unsupported format '{fmt}'. Supported axis-aligned formats: {_ALIGNED}. Supported rotated formats: {_ROTATED}.")


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union less the share of the enclosing box that neither box covers: negative for boxes far apart.

    Args:
        boxes1: ``(*, N, 4)``.
        boxes2: ``(*, M, 4)``.
    Returns:
        ``(*, N, M)``, in ``(-1, 1]``.
    Source: torchvision.ops.generalized_box_iou. Rezatofighi et al. 2019.
    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0]])
        >>> generalized_box_iou(boxes, boxes)
        tensor([[ 1.0000, -0.0794],
                [-0.0794,  1.0000]])
    """
    intersection, union = _box_inter_union(boxes1, boxes2)
    width, height = _enclosing_size(boxes1, boxes2)
    enclosing = width * height
    return intersection / union - (enclosing - union) / enclosing


def _box_diou_iou(boxes1: Tensor, boxes2: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The distance IoU of all pairs, and the plain one."""
    iou = box_iou(boxes1, boxes2)
    width, height = _enclosing_size(boxes1, boxes2)
    diagonal = width**2 + height**2 + eps
    centre1, centre2 = (boxes1[..., :2] + boxes1[..., 2:]) / 2, (boxes2[..., :2] + boxes2[..., 2:]) / 2
    dx, dy = _upcast(centre1[..., None, :] - centre2[..., None, :, :]).unbind(-1)
    return iou - (dx**2 + dy**2) / diagonal, iou


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """Intersection over union less the squared distance of the centres, as a share of the enclosing box's squared diagonal.

    Args:
        boxes1: ``(*, N, 4)``.
        boxes2: ``(*, M, 4)``.
        eps: added to the divisor.
    Returns:
        ``(*, N, M)``.
    Source: torchvision.ops.distance_box_iou. Zheng et al. 2020.
    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0]])
        >>> distance_box_iou(boxes, boxes)
        tensor([[1.0000, 0.0317],
                [0.0317, 1.0000]])
    """
    return _box_diou_iou(_upcast(boxes1), _upcast(boxes2), eps)[0]


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """The distance IoU less a term for different proportions.

    Args:
        boxes1: ``(*, N, 4)``.
        boxes2: ``(*, M, 4)``.
        eps: added to divisors.
    Returns:
        ``(*, N, M)``.
    Gradient: the weight of the term counts as a constant.
    Source: torchvision.ops.complete_box_iou. Zheng et al. 2020.
    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0]])
        >>> complete_box_iou(boxes, boxes)
        tensor([[1.0000, 0.0317],
                [0.0317, 1.0000]])
    """
    boxes1, boxes2 = _upcast(boxes1), _upcast(boxes2)
    diou, iou = _box_diou_iou(boxes1, boxes2, eps)
    size1, size2 = boxes1[..., None, 2:] - boxes1[..., None, :2], boxes2[..., None, :, 2:] - boxes2[..., None, :, :2]
    angle1, angle2 = ops.atan(size1[..., 0] / size1[..., 1]), ops.atan(size2[..., 0] / size2[..., 1])
    v = (4 / math.pi**2) * (angle1 - angle2) ** 2
    with no_grad():
        alpha = v / (1 - iou + v + eps)
    return diou - alpha * v
