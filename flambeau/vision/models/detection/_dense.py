"""The frame of detectors of one stage: every anchor is a detection of some score."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from .... import ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ...ops import batched_nms
from ._utils import Detector, Target, _topk_min


class DenseDetector(Detector):
    """Base of RetinaNet, FCOS and SSD.

    Shape:
        A list of images ``(3, H_i, W_i)`` and, when training, of targets: dicts with ``boxes`` ``(n, 4)`` and ``labels`` ``(n,)``. When
        training to a dict of losses, otherwise to a dict of ``boxes``, ``labels``, ``scores`` for each image, by falling score.
    Raises:
        AssertionError: no targets when training, boxes of another shape, or without height or width.
    """

    anchor_generator: Any
    head: Any
    nms_thresh: float
    detections_per_img: int

    def forward(self, images: list[Tensor], targets: list[Target] | None = None) -> Any:
        batch, moved, original = self._prepared(images, targets)
        features = self.backbone(batch.tensors)
        maps = [features] if isinstance(features, Tensor) else list(OrderedDict(features).values())
        outputs = self.head(maps)
        anchors = self.anchor_generator(batch, maps)
        pixels = [feature.size(2) * feature.size(3) for feature in maps]
        if self.training:
            assert moved is not None
            return self.eager_outputs(self._losses(moved, outputs, anchors, pixels), [])
        detections = self._detections(outputs, anchors, batch.image_sizes, pixels)
        return self.eager_outputs({}, self.transform.postprocess(detections, batch.image_sizes, original))

    def _losses(self, targets: list[Target], outputs: dict[str, Tensor], anchors: list[Tensor], pixels: list[int]) -> dict[str, Tensor]:
        raise NotImplementedError

    def _detections(
        self, outputs: dict[str, Tensor], anchors: list[Tensor], shapes: list[tuple[int, int]], pixels: list[int]
    ) -> list[Target]:
        raise NotImplementedError

    def _suppressed(self, parts: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Target:
        """The detections of an image, put together of boxes, scores and labels and suppressed class by class."""
        boxes, scores, labels = (ops.cat(list(values), dim=0) for values in zip(*parts))
        keep = batched_nms(boxes, scores, labels, self.nms_thresh)[: self.detections_per_img]
        return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}


def unmatched(anchors: Tensor) -> Tensor:
    """That no anchor of an image without targets belongs to one."""
    return ops.full((anchors.size(0),), -1, dtype=dtypes.int64, device=anchors.device)


def split_by_level(
    outputs: dict[str, Tensor], anchors: list[Tensor], per_level: list[int]
) -> tuple[dict[str, list[Tensor]], list[list[Tensor]]]:
    """Predictions and anchors, map by map."""
    return {name: list(values.split(per_level, dim=1)) for name, values in outputs.items()}, [
        list(image.split(per_level)) for image in anchors
    ]


def best_of_level(scores: Tensor, threshold: float, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best pairs of anchor and class, ``(anchors, classes)``: scores, anchors and classes."""
    classes = scores.shape[-1]
    flat = scores.flatten()
    places = ops.where(flat > threshold)[0]
    best, order = flat[places].topk(_topk_min(places, most, 0))
    places = places[order]
    return best, ops.div(places, classes, rounding_mode="floor"), places % classes
