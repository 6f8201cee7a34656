"""Parts that detectors share: matching of boxes with targets, sampling, and boxes written as offsets from others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from .... import nn, ops
from ....autograd.grad_mode import no_grad
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ....nn import functional as F
from ...ops import FrozenBatchNorm2d, complete_box_iou_loss, distance_box_iou_loss, generalized_box_iou_loss
from .._builders import initialize

__all__ = ["BalancedPositiveNegativeSampler", "BoxCoder", "BoxLinearCoder", "Matcher", "SSDMatcher", "encode_boxes", "overwrite_eps"]

Target = dict[str, Tensor]
_narrow = partial(nn.init.normal_, std=0.01)


class BalancedPositiveNegativeSampler:
    """Draws a batch of candidates from each image with a share of positive ones; negative ones make it up.

    Args:
        batch_size_per_image: candidates an image.
        positive_fraction: the largest share of positive ones.
    Source: torchvision.models.detection._utils.BalancedPositiveNegativeSampler.
    """

    def __init__(self, batch_size_per_image: int, positive_fraction: float) -> None:
        self.batch_size_per_image, self.positive_fraction = batch_size_per_image, positive_fraction

    def __call__(self, matched_idxs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """For each image two masks, uint8, of the positive and the negative candidates that were drawn.

        Args:
            matched_idxs: for each image a number for each candidate: 1 or more is positive, 0 negative, -1 neither.
        """
        drawn = [self._draw(labels) for labels in matched_idxs]
        return [positive for positive, _ in drawn], [negative for _, negative in drawn]

    def _draw(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        positive, negative = ops.where(labels >= 1)[0], ops.where(labels == 0)[0]
        positives = min(positive.numel(), int(self.batch_size_per_image * self.positive_fraction))
        negatives = min(negative.numel(), self.batch_size_per_image - positives)
        masks = []
        for places, count in ((positive, positives), (negative, negatives)):
            mask = ops.zeros_like(labels, dtype=dtypes.uint8)
            mask[places[ops.randperm(places.numel(), device=places.device)[:count]]] = 1
            masks.append(mask)
        return masks[0], masks[1]


# -- boxes as offsets from other boxes -------------------------------------------------------------------------------------------
def _centres(boxes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Widths, heights and centres of boxes ``(N, 4)``."""
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return width, height, boxes[:, 0] + 0.5 * width, boxes[:, 1] + 0.5 * height


def encode_boxes(reference_boxes: Tensor, proposals: Tensor, weights: Tensor) -> Tensor:
    """``reference_boxes``, ``(N, 4)``, as offsets from ``proposals``: of the centre in sizes, and logarithms of the ratios of sizes.

    Args:
        reference_boxes: what is written.
        proposals: from where.
        weights: ``(4,)``, factors of the four numbers.
    Source: torchvision.models.detection._utils.encode_boxes. Girshick et al. 2014, appendix C.
    """
    from_width, from_height, from_x, from_y = _centres(proposals)
    width, height, x, y = _centres(reference_boxes)
    offsets = (
        weights[0] * (x - from_x) / from_width,
        weights[1] * (y - from_y) / from_height,
        weights[2] * ops.log(width / from_width),
        weights[3] * ops.log(height / from_height),
    )
    return ops.stack(offsets, dim=1)


class BoxCoder:
    """Boxes as offsets from others, and back.

    Args:
        weights: factors of the offsets of ``x``, ``y``, width and height.
        bbox_xform_clip: the largest logarithm of a ratio of sizes that ``decode`` takes.
    Source: torchvision.models.detection._utils.BoxCoder.
    """

    def __init__(self, weights: tuple[float, float, float, float], bbox_xform_clip: float = math.log(1000.0 / 16)) -> None:
        self.weights, self.bbox_xform_clip = weights, bbox_xform_clip

    def encode(self, reference_boxes: Sequence[Tensor], proposals: Sequence[Tensor]) -> Any:
        """The offsets for each image, a tuple of ``(N_i, 4)``."""
        counts = [len(boxes) for boxes in reference_boxes]
        return self.encode_single(ops.cat(list(reference_boxes)), ops.cat(list(proposals))).split(counts, 0)

    def encode_single(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        """The offsets of boxes of one image, ``(N, 4)``."""
        weights = ops.as_tensor(self.weights, dtype=reference_boxes.dtype, device=reference_boxes.device)
        return encode_boxes(reference_boxes, proposals, weights)

    def decode(self, rel_codes: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        """Boxes ``(N, K, 4)`` from offsets for ``K`` classes of the boxes of all images."""
        if not isinstance(boxes, (list, tuple)):
            raise AssertionError("This function expects boxes of type list or tuple.")
        if not isinstance(rel_codes, Tensor):
            raise AssertionError("This function expects rel_codes of type torch.Tensor.")
        count = sum(image.size(0) for image in boxes)
        if count > 0:
            rel_codes = rel_codes.reshape(count, -1)
        decoded = self.decode_single(rel_codes, ops.cat(list(boxes)))
        return decoded.reshape(count, -1, 4) if count > 0 else decoded

    def decode_single(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        """Boxes ``(N, 4 * K)`` from offsets of the same shape."""
        width, height, x, y = (values[:, None] for values in _centres(boxes.to(rel_codes.dtype)))
        dx, dy, dw, dh = (rel_codes[:, k::4] / weight for k, weight in enumerate(self.weights))
        centre_x, centre_y = dx * width + x, dy * height + y
        half_width = 0.5 * (ops.exp(dw.clamp(max=self.bbox_xform_clip)) * width)
        half_height = 0.5 * (ops.exp(dh.clamp(max=self.bbox_xform_clip)) * height)
        corners = (centre_x - half_width, centre_y - half_height, centre_x + half_width, centre_y + half_height)
        return ops.stack(corners, dim=2).flatten(1)


class BoxLinearCoder:
    """Boxes as distances of their four sides from the centre of others, and back.

    Args:
        normalize_by_size: whether distances are measured in sizes of the other boxes.
    Source: torchvision.models.detection._utils.BoxLinearCoder. Tian et al. 2019, FCOS, equation 1.
    """

    def __init__(self, normalize_by_size: bool = True) -> None:
        self.normalize_by_size = normalize_by_size

    def _centre_and_size(self, boxes: Tensor) -> tuple[Tensor, Tensor | None]:
        centre = 0.5 * (boxes[..., :2] + boxes[..., 2:])
        if not self.normalize_by_size:
            return centre, None
        size = boxes[..., 2:] - boxes[..., :2]
        return centre, ops.cat((size, size), dim=-1)

    def encode(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        """Distances ``(*, 4)`` of the sides of ``proposals`` from the centres of ``reference_boxes``: left, top, right, bottom."""
        centre, size = self._centre_and_size(reference_boxes)
        distances = ops.cat((centre - proposals[..., :2], proposals[..., 2:] - centre), dim=-1)
        return distances if size is None else distances / size

    def decode(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        """Boxes ``(*, 4)`` from distances of their sides from the centres of ``boxes``."""
        centre, size = self._centre_and_size(boxes.to(dtype=rel_codes.dtype))
        distances = rel_codes if size is None else rel_codes * size
        return ops.cat((centre - distances[..., :2], centre + distances[..., 2:]), dim=-1)


# -- matching -------------------------------------------------------------------------------------------------------------------
class Matcher:
    """Gives each candidate the target that it fits best, if it fits well enough.

    Args:
        high_threshold: quality from which on it does.
        low_threshold: quality below which the candidate is background; between the two it is neither.
        allow_low_quality_matches: whether the best candidates of each target are taken in any case.
    Source: torchvision.models.detection._utils.Matcher.
    """

    BELOW_LOW_THRESHOLD = -1
    BETWEEN_THRESHOLDS = -2

    def __init__(self, high_threshold: float, low_threshold: float, allow_low_quality_matches: bool = False) -> None:
        if low_threshold > high_threshold:
            raise AssertionError("low_threshold should be <= high_threshold")
        self.high_threshold, self.low_threshold = high_threshold, low_threshold
        self.allow_low_quality_matches = allow_low_quality_matches

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        """For each of ``N`` candidates the place of its target, or one of the two constants.

        Args:
            match_quality_matrix: ``(targets, N)``.
        Raises:
            ValueError: an empty matrix.
        """
        if match_quality_matrix.numel() == 0:
            missing = "ground-truth" if match_quality_matrix.shape[0] == 0 else "proposal"
            raise ValueError(f"No {missing} boxes available for one of the images during training")
        quality, best = match_quality_matrix.max(dim=0)
        matches = best.clone()
        matches[quality < self.low_threshold] = self.BELOW_LOW_THRESHOLD
        matches[(quality >= self.low_threshold) & (quality < self.high_threshold)] = self.BETWEEN_THRESHOLDS
        if self.allow_low_quality_matches:
            self.set_low_quality_matches_(matches, best, match_quality_matrix)
        return matches

    def set_low_quality_matches_(self, matches: Tensor, all_matches: Tensor, match_quality_matrix: Tensor) -> None:
        """Give the candidates that fit a target better than all others (ties included) their best target of ``all_matches``."""
        best = match_quality_matrix.max(dim=1)[0]
        candidates = ops.where(match_quality_matrix == best[:, None])[1]
        matches[candidates] = all_matches[candidates]


class SSDMatcher(Matcher):
    """A matcher with one threshold; the best candidate of each target is that target's.

    Args:
        threshold: quality from which on a candidate is taken.
    Source: torchvision.models.detection._utils.SSDMatcher. Liu et al. 2016, section 2.2.
    """

    def __init__(self, threshold: float) -> None:
        super().__init__(threshold, threshold, allow_low_quality_matches=False)

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        matches = super().__call__(match_quality_matrix)
        best = match_quality_matrix.max(dim=1)[1]
        matches[best] = ops.arange(best.size(0), dtype=dtypes.int64, device=best.device)
        return matches


# -- models ---------------------------------------------------------------------------------------------------------------------
def overwrite_eps(model: Any, eps: float) -> None:
    """Set ``eps`` of all frozen batch norms, as the oldest weights need it. Source: torchvision.models.detection._utils.overwrite_eps."""
    for module in model.modules():
        if isinstance(module, FrozenBatchNorm2d):
            module.eps = eps


def retrieve_out_channels(model: Any, size: tuple[int, int]) -> list[int]:
    """The channels of each map that a backbone gives for an image of ``size``, width and height; in its order."""
    training = model.training
    model.eval()
    with no_grad():
        image = ops.zeros((1, 3, size[1], size[0]), device=next(model.parameters()).device)
        features = model(image)
    if training:
        model.train()
    return [features.size(1)] if isinstance(features, Tensor) else [feature.size(1) for feature in features.values()]


def _topk_min(input: Tensor, orig_kval: int, axis: int) -> int:
    """Number of the largest to take: ``orig_kval``, or all."""
    return min(orig_kval, input.size(axis))


def _box_loss(
    type: str,
    box_coder: BoxCoder,
    anchors_per_image: Tensor,
    matched_gt_boxes_per_image: Tensor,
    bbox_regression_per_image: Tensor,
    cnf: dict[str, float] | None = None,
) -> Tensor:
    """The summed loss of predicted offsets: their own (``'l1'``, ``'smooth_l1'``), or their boxes' (``'giou'``, ``'diou'``, ``'ciou'``)."""
    overlap_losses = {"ciou": complete_box_iou_loss, "diou": distance_box_iou_loss, "giou": generalized_box_iou_loss}
    settings = cnf or {}
    if type in overlap_losses:
        boxes = box_coder.decode_single(bbox_regression_per_image, anchors_per_image)
        return overlap_losses[type](boxes, matched_gt_boxes_per_image, reduction="sum", eps=settings.get("eps", 1e-7))
    if type not in ("l1", "smooth_l1"):
        raise AssertionError(f"Unsupported loss: {type}")
    offsets = box_coder.encode_single(matched_gt_boxes_per_image, anchors_per_image)
    if type == "l1":
        return F.l1_loss(bbox_regression_per_image, offsets, reduction="sum")
    return F.smooth_l1_loss(bbox_regression_per_image, offsets, reduction="sum", beta=settings.get("beta", 1.0))


def joined_rows(maps: Iterable[Tensor], columns: int) -> Tensor:
    """Predictions ``(N, A * columns, H_i, W_i)`` as rows ``(N, sum of H_i * W_i * A, columns)``, map after map."""
    rows = []
    for predictions in maps:
        images, _, height, width = predictions.shape
        rows.append(predictions.view(images, -1, columns, height, width).permute(0, 3, 4, 1, 2).reshape(images, -1, columns))
    return ops.cat(rows, dim=1)


# -- what models are called with --------------------------------------------------------------------------------------------------
def check_targets(targets: Sequence[Target] | None) -> None:
    """AssertionError unless there are targets to train with, each with boxes ``(N, 4)``."""
    if targets is None:
        raise AssertionError("targets should not be none when in training mode")
    for target in targets:
        boxes = target["boxes"]
        if not isinstance(boxes, Tensor):
            raise AssertionError(f"Expected target boxes to be of type Tensor, got {type(boxes)}.")
        if boxes.dim() != 2 or boxes.shape[-1] != 4:
            raise AssertionError(f"Expected target boxes to be a tensor of shape [N, 4], got {boxes.shape}.")


def check_sizes_of_boxes(targets: Sequence[Target] | None) -> None:
    """AssertionError for a box without height or width."""
    for index, target in enumerate(targets or ()):
        flat = (target["boxes"][:, 2:] <= target["boxes"][:, :2]).any(dim=1)
        if flat.any():
            box = target["boxes"][ops.where(flat)[0][0]].tolist()
            raise AssertionError(
                f"All bounding boxes should have positive height and width. Found invalid box {box} for target at index {index}."
            )


def draw_convolutions(module: nn.Module, draw: Callable[[Tensor], Any] = _narrow) -> None:
    """Draw the weights of all convolutions in a module, by default from a normal distribution of 0.01; their biases are 0."""
    initialize(module, {nn.Conv2d: draw}, norms=())


def sizes_of_images(images: Sequence[Tensor]) -> list[tuple[int, int]]:
    """Height and width of each image."""
    return [(image.shape[-2], image.shape[-1]) for image in images]


class Detector(nn.Module):
    """Base class of detectors of one stage and of two: their inputs, and what they return."""

    transform: Any
    backbone: Any

    def eager_outputs(self, losses: dict[str, Tensor], detections: list[Target]) -> Any:
        """Losses when training, otherwise detections."""
        return losses if self.training else detections

    def _prepared(self, images: list[Tensor], targets: list[Target] | None) -> tuple[Any, list[Target] | None, list[tuple[int, int]]]:
        """The batch, its targets, and the images' sizes before they were transformed.

        Raises:
            AssertionError: no targets when training, boxes of another shape, or without height or width.
        """
        if self.training:
            check_targets(targets)
        original = sizes_of_images(images)
        batch, moved = self.transform(images, targets)
        check_sizes_of_boxes(moved)
        return batch, moved, original
