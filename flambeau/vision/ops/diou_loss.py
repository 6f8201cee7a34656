"""A loss from the distance intersection over union."""

from __future__ import annotations

from ... import ops
from ...core.tensor import Tensor
from ._utils import _loss_inter_union, _upcast_non_float, reduced_loss

__all__ = ["distance_box_iou_loss"]


def distance_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 less the intersection over union, plus the squared distance of the centres by the enclosing box's squared diagonal.

    Args:
        boxes1: ``(*, 4)``, two corners each.
        boxes2: like ``boxes1``.
        reduction: 'none', 'mean' or 'sum'.
        eps: added to divisors.
    Returns:
        ``(*,)`` or a scalar.
    Raises:
        ValueError: another reduction.
    Source: torchvision.ops.distance_box_iou_loss. Zheng et al. 2020.
    Example:
        >>> distance_box_iou_loss(torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 0.0, 3.0, 2.0]]))
        tensor([0.7436])
    """
    return reduced_loss(_diou_iou_loss(_upcast_non_float(boxes1), _upcast_non_float(boxes2), eps)[0], reduction)


def _diou_iou_loss(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> tuple[Tensor, Tensor]:
    """The loss of each pair, and its intersection over union."""
    intersection, union = _loss_inter_union(boxes1, boxes2)
    iou = intersection / (union + eps)
    size = ops.max(boxes1[..., 2:], boxes2[..., 2:]) - ops.min(boxes1[..., :2], boxes2[..., :2])
    diagonal = size[..., 0] ** 2 + size[..., 1] ** 2 + eps
    offset = (boxes1[..., :2] + boxes1[..., 2:]) / 2 - (boxes2[..., :2] + boxes2[..., 2:]) / 2
    return 1 - iou + (offset[..., 0] ** 2 + offset[..., 1] ** 2) / diagonal, iou
