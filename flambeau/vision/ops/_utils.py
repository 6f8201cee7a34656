"""Helpers of several operations on boxes: promotion, reductions of losses, boxes as one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import nn, ops
from ...core import dtype as dtypes
from ...core.tensor import Tensor
from ...nn.normalization import _BatchNorm, _InstanceNorm

__all__ = ["check_roi_boxes_shape", "convert_boxes_to_roi_format", "split_normalization_params"]


def _cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors joined; a single one as it is."""
    return tensors[0] if len(tensors) == 1 else ops.cat(tensors, dim)


def _upcast(t: Tensor) -> Tensor:
    """``t`` in a type in which products of coordinates do not overflow: float32 or float64, int32 or int64."""
    if t.is_floating_point():
        return t if t.dtype in (dtypes.float32, dtypes.float64) else t.float()
    return t if t.dtype in (dtypes.int32, dtypes.int64) else t.int()


def _upcast_non_float(t: Tensor) -> Tensor:
    """``t`` in float32 or float64."""
    return t if t.dtype in (dtypes.float32, dtypes.float64) else t.float()


def _loss_inter_union(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """Areas of intersection and union of boxes that belong together one by one, ``(*, 4)`` each."""
    x1, y1, x2, y2 = boxes1.unbind(-1)
    other_x1, other_y1, other_x2, other_y2 = boxes2.unbind(-1)
    width = ops.min(x2, other_x2) - ops.max(x1, other_x1)
    height = ops.min(y2, other_y2) - ops.max(y1, other_y1)
    intersection = ops.where((width > 0) & (height > 0), width * height, ops.zeros_like(width))
    union = (x2 - x1) * (y2 - y1) + (other_x2 - other_x1) * (other_y2 - other_y1) - intersection
    return intersection, union


def reduced_loss(loss: Tensor, reduction: str) -> Tensor:
    """A loss of boxes reduced; the mean of none is 0, not NaN.

    Raises:
        ValueError: another word than 'none', 'mean' and 'sum'.
    """
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if reduction == "mean":
        return loss.mean() if loss.numel() > 0 else 0.0 * loss.sum()
    raise ValueError(f"Invalid Value for arg 'reduction': '{reduction} \n Supported reduction modes: 'none', 'mean', 'sum'")


def convert_boxes_to_roi_format(boxes: Sequence[Tensor]) -> Tensor:
    """Boxes ``(n_i, 4)`` of each image as one tensor ``(K, 5)`` whose first column is the image's number."""
    numbers = [ops.full_like(image[:, :1], index) for index, image in enumerate(boxes)]
    return ops.cat([_cat(numbers), _cat(list(boxes))], dim=1)


def check_roi_boxes_shape(boxes: Any) -> None:
    """AssertionError unless ``boxes`` is a tensor ``(K, 5)`` or a list of tensors ``(L, 4)``."""
    if isinstance(boxes, (list, tuple)):
        if any(image.size(1) != 4 for image in boxes):
            raise AssertionError("The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]")
    elif isinstance(boxes, Tensor):
        if boxes.size(1) != 5:
            raise AssertionError("The boxes tensor shape is not correct as Tensor[K, 5]")
    else:
        raise AssertionError("boxes is expected to be a Tensor[L, 5] or a List[Tensor[K, 4]]")


def rois_of(boxes: Any) -> Tensor:
    """``boxes``, checked, as one tensor ``(K, 5)``."""
    check_roi_boxes_shape(boxes)
    return boxes if isinstance(boxes, Tensor) else convert_boxes_to_roi_format(boxes)


def split_normalization_params(model: Any, norm_classes: Sequence[type] | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """A model's trainable parameters: those of normalisation layers, and the others (to leave weight decay off the first).

    Args:
        model: any module.
        norm_classes: classes of layers that count as normalisation; batch, layer, group, instance and local response norms when None.
    Raises:
        ValueError: a class that is no module's.
    Source: torchvision.ops._utils.split_normalization_params.
    """
    if not norm_classes:
        norm_classes = (_BatchNorm, nn.LayerNorm, nn.GroupNorm, _InstanceNorm, nn.LocalResponseNorm)
    for cls in norm_classes:
        if not issubclass(cls, nn.Module):
            raise ValueError(f"Class {cls} is not a subclass of nn.Module.")
    norms: list[Tensor] = []
    others: list[Tensor] = []
    for module in model.modules():
        inner = next(module.children(), None) is not None
        target = norms if isinstance(module, tuple(norm_classes)) and not inner else others
        target.extend(p for p in module.parameters(recurse=not inner) if p.requires_grad)
    return norms, others
