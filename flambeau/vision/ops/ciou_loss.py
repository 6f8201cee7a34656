"""A loss from the complete intersection over union."""

from __future__ import annotations

import math

from ... import ops
from ...autograd.grad_mode import no_grad
from ...core.tensor import Tensor
from ._utils import _upcast_non_float, reduced_loss
from .diou_loss import _diou_iou_loss

__all__ = ["complete_box_iou_loss"]


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """The distance IoU's loss with a term for different proportions.

    Args:
        boxes1: ``(*, 4)``, two corners each.
        boxes2: like ``boxes1``.
        reduction: 'none', 'mean' or 'sum'.
        eps: added to the divisor of the term's weight.
    Returns:
        ``(*,)`` or a scalar.
    Raises:
        ValueError: another reduction.
    Gradient: the weight of the term counts as a constant.
    Source: torchvision.ops.complete_box_iou_loss. Zheng et al. 2020.
    Example:
        >>> complete_box_iou_loss(torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 0.0, 3.0, 2.0]]))
        tensor([0.7436])
    """
    boxes1, boxes2 = _upcast_non_float(boxes1), _upcast_non_float(boxes2)
    loss, iou = _diou_iou_loss(boxes1, boxes2)
    size1, size2 = boxes1[..., 2:] - boxes1[..., :2], boxes2[..., 2:] - boxes2[..., :2]
    v = (4 / math.pi**2) * (ops.atan(size2[..., 0] / size2[..., 1]) - ops.atan(size1[..., 0] / size1[..., 1])) ** 2
    with no_grad():
        alpha = v / (1 - iou + v + eps)
    return reduced_loss(loss + alpha * v, reduction)
