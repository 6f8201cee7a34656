"""A loss from the generalised intersection over union."""

from __future__ import annotations

from ... import ops
from ...core.tensor import Tensor
from ._utils import _loss_inter_union, _upcast_non_float, reduced_loss

__all__ = ["generalized_box_iou_loss"]


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 less the generalised intersection over union of boxes that belong together: it pulls even where they do not overlap.

    Args:
        boxes1: ``(*, 4)``, two corners each.
        boxes2: like ``boxes1``.
        reduction: 'none', 'mean' or 'sum'.
        eps: added to divisors.
    Returns:
        ``(*,)`` or a scalar.
    Raises:
        ValueError: another reduction.
    Source: torchvision.ops.generalized_box_iou_loss. Rezatofighi et al. 2019.
    Example:
        >>> generalized_box_iou_loss(torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 0.0, 3.0, 2.0]]))
        tensor([0.6667])
    """
    boxes1, boxes2 = _upcast_non_float(boxes1), _upcast_non_float(boxes2)
    intersection, union = _loss_inter_union(boxes1, boxes2)
    size = ops.max(boxes1[..., 2:], boxes2[..., 2:]) - ops.min(boxes1[..., :2], boxes2[..., :2])
    enclosing = size[..., 0] * size[..., 1]
    iou = intersection / (union + eps)
    return reduced_loss(1 - (iou - (enclosing - union) / (enclosing + eps)), reduction)
