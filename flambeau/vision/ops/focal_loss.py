"""The focal loss of dense detectors."""

from __future__ import annotations

from ... import ops
from ...core.tensor import Tensor
from ...nn import functional as F

__all__ = ["sigmoid_focal_loss"]


def sigmoid_focal_loss(inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none") -> Tensor:
    """Binary cross entropy, weighted by ``(1 - p)**gamma`` so that what is predicted well counts little.

    Args:
        inputs: ``(*)``, logits.
        targets: ``(*)``, 0 or 1 in ``inputs``'s dtype.
        alpha: weight of the positive class, ``1 - alpha`` that of the negative one; -1 for none.
        gamma: how strongly easy examples are discounted.
        reduction: 'none', 'mean' or 'sum'.
    Returns:
        ``(*)`` or a scalar.
    Raises:
        ValueError: ``alpha`` outside of [0, 1] and not -1, or another reduction.
    Source: torchvision.ops.sigmoid_focal_loss. Lin et al. 2017.
    Example:
        >>> sigmoid_focal_loss(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0]), reduction='mean')
        tensor(0.0087)
    """
    if not 0 <= alpha <= 1 and alpha != -1:
        raise ValueError(f"Invalid alpha value: {alpha}. alpha must be in the range [0,1] or -1 for ignore.")
    p = ops.sigmoid(inputs)
    right = p * targets + (1 - p) * (1 - targets)
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none") * (1 - right) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    if reduction == "none":
        return loss
    if reduction in ("mean", "sum"):
        return loss.mean() if reduction == "mean" else loss.sum()
    raise ValueError(f"Invalid Value for arg 'reduction': '{reduction} \n Supported reduction modes: 'none', 'mean', 'sum'")
