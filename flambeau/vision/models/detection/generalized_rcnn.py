"""The frame of R-CNN: images to features, features to proposals, proposals to detections."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from ._utils import Detector, Target

__all__ = ["GeneralizedRCNN"]


class GeneralizedRCNN(Detector):
    """A detector of two stages.

    Args:
        backbone: images to feature maps.
        rpn: maps to proposals.
        roi_heads: maps and proposals to detections.
        transform: prepares images and targets, and brings detections back to the images' coordinates.
    Shape:
        A list of images ``(3, H_i, W_i)`` and, when training, of targets: dicts with ``boxes`` ``(n, 4)``, ``labels`` ``(n,)`` and
        what else the heads need. When training to a dict of losses, otherwise to a dict of ``boxes``, ``labels``, ``scores`` for each
        image.
    Raises:
        AssertionError: no targets when training, boxes of another shape, or without height or width.
    Source: torchvision.models.detection.generalized_rcnn.GeneralizedRCNN.
    Example:
        >>> from flambeau.vision.models.detection import fasterrcnn_resnet50_fpn
        >>> with torch.device('meta'):
        ...     model = fasterrcnn_resnet50_fpn(weights_backbone=None)
        >>> [name for name, _ in model.named_children()]
        ['transform', 'backbone', 'rpn', 'roi_heads']
    """

    def __init__(self, backbone: nn.Module, rpn: nn.Module, roi_heads: nn.Module, transform: nn.Module) -> None:
        super().__init__()
        self.transform, self.backbone, self.rpn, self.roi_heads = transform, backbone, rpn, roi_heads

    def forward(self, images: list[Tensor], targets: list[Target] | None = None) -> Any:
        batch, moved, original = self._prepared(images, targets)
        features = self.backbone(batch.tensors)
        if isinstance(features, Tensor):
            features = OrderedDict([("0", features)])
        proposals, proposal_losses = self.rpn(batch, features, moved)
        detections, detector_losses = self.roi_heads(features, proposals, batch.image_sizes, moved)
        detections = self.transform.postprocess(detections, batch.image_sizes, original)
        return self.eager_outputs({**detector_losses, **proposal_losses}, detections)
