"""The frame of detectors of one stage: every anchor is a detection of some score."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from .... import ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ...ops import batched_nms, boxes as box_ops
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
    proposal_matcher: Any
    compute_loss: Any
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
        return self.compute_loss(targets, outputs, anchors)

    def _detections(
        self, outputs: dict[str, Tensor], anchors: list[Tensor], shapes: list[tuple[int, int]], pixels: list[int]
    ) -> list[Target]:
        raise NotImplementedError

    def _matched(self, targets: Sequence[Target], anchors: Sequence[Tensor], pixels: Sequence[int] = ()) -> list[Tensor]:
        """For each image the places of its anchors' targets; negative numbers for anchors that have none."""
        matches = []
        for target, own in zip(targets, anchors):
            if target["boxes"].numel() == 0:
                matches.append(ops.full((own.size(0),), -1, dtype=dtypes.int64, device=own.device))
            else:
                matches.append(self._match(own, target["boxes"], pixels))
        return matches

    def _match(self, anchors: Tensor, boxes: Tensor, pixels: Sequence[int]) -> Tensor:
        return self.proposal_matcher(box_ops.box_iou(boxes, anchors))

    def _suppressed(self, parts: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Target:
        """The detections of an image, put together of boxes, scores and labels and suppressed class by class."""
        boxes, scores, labels = (ops.cat(list(values), dim=0) for values in zip(*parts))
        keep = batched_nms(boxes, scores, labels, self.nms_thresh)[: self.detections_per_img]
        return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}


class PyramidDetector(DenseDetector):
    """Base of RetinaNet and FCOS, which take the best detections of each map."""

    score_thresh: float
    topk_candidates: int

    def _scores(self, outputs: dict[str, Tensor]) -> Tensor:
        """Scores ``(anchors, classes)`` of an image's predictions on one map."""
        raise NotImplementedError

    def _boxes(self, offsets: Tensor, anchors: Tensor) -> Tensor:
        raise NotImplementedError

    def _best(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best pairs of anchor and class of a map: scores, anchors and classes."""
        classes = scores.shape[-1]
        flat = scores.flatten()
        places = ops.where(flat > self.score_thresh)[0]
        best, order = flat[places].topk(_topk_min(places, self.topk_candidates, 0))
        places = places[order]
        return best, ops.div(places, classes, rounding_mode="floor"), places % classes

    def postprocess_detections(
        self, head_outputs: dict[str, list[Tensor]], anchors: list[list[Tensor]], image_shapes: list[tuple[int, int]]
    ) -> list[Target]:
        """The detections of each image, from predictions and anchors map by map."""
        detections = []
        for index, shape in enumerate(image_shapes):
            parts = []
            for level, own in enumerate(anchors[index]):
                outputs = {name: maps[level][index] for name, maps in head_outputs.items()}
                scores, places, labels = self._best(self._scores(outputs))
                boxes = self._boxes(outputs["bbox_regression"][places], own[places])
                parts.append((box_ops.clip_boxes_to_image(boxes, shape), scores, labels))
            detections.append(self._suppressed(parts))
        return detections

    def _detections(
        self, outputs: dict[str, Tensor], anchors: list[Tensor], shapes: list[tuple[int, int]], pixels: list[int]
    ) -> list[Target]:
        per_pixel = outputs["cls_logits"].size(1) // sum(pixels)
        per_level = [count * per_pixel for count in pixels]
        by_level = {name: list(values.split(per_level, dim=1)) for name, values in outputs.items()}
        return self.postprocess_detections(by_level, [list(image.split(per_level)) for image in anchors], shapes)
