"""The second stage of R-CNN: from proposals to classes, boxes, masks and key points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import nn, ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ....nn import functional as F
from ...ops import boxes as box_ops, roi_align
from ._utils import BalancedPositiveNegativeSampler, BoxCoder, Matcher, Target

__all__ = ["RoIHeads", "fastrcnn_loss", "keypointrcnn_loss", "maskrcnn_loss", "paste_masks_in_image"]

Tensors = Sequence[Tensor]


def fastrcnn_loss(class_logits: Tensor, box_regression: Tensor, labels: Tensors, regression_targets: Tensors) -> tuple[Tensor, Tensor]:
    """The losses of classes and of boxes; a box counts only for its own class, and not at all for background.

    Args:
        class_logits: ``(N, classes)``.
        box_regression: ``(N, 4 * classes)``.
        labels: for each image ``(n_i,)``; 0 is background.
        regression_targets: for each image ``(n_i, 4)``.
    Returns:
        Two numbers, 0-d: the loss of classes and that of boxes.
    Source: torchvision.models.detection.roi_heads.fastrcnn_loss. Girshick 2015, equation 1.
    Example:
        >>> labels, targets = [torch.tensor([0, 1])], [torch.zeros(2, 4)]
        >>> fastrcnn_loss(torch.zeros(2, 2), torch.zeros(2, 8), labels, targets)
        (tensor(0.6931), tensor(0.))
    """
    label, wanted = ops.cat(list(labels), dim=0), ops.cat(list(regression_targets), dim=0)
    positive = ops.where(label > 0)[0]
    offsets = box_regression.reshape(len(class_logits), -1, 4)[positive, label[positive]]
    box_loss = F.smooth_l1_loss(offsets, wanted[positive], beta=1 / 9, reduction="sum") / label.numel()
    return F.cross_entropy(class_logits, label), box_loss


# -- masks ----------------------------------------------------------------------------------------------------------------------
def maskrcnn_inference(x: Tensor, labels: Tensors) -> Any:
    """The probability mask of each box's own class, ``(n_i, 1, M, M)`` for each image, from logits ``(N, classes, M, M)``."""
    label = ops.cat(list(labels))
    masks = x.sigmoid()[ops.arange(len(x), device=label.device), label][:, None]
    return masks.split([len(image) for image in labels], dim=0)


def project_masks_on_boxes(gt_masks: Tensor, boxes: Tensor, matched_idxs: Tensor, M: int) -> Tensor:
    """Crop the masks ``(K, H, W)`` to the boxes ``(N, 4)`` that belong to them, as ``(N, M, M)``."""
    rois = ops.cat([matched_idxs.to(boxes)[:, None], boxes], dim=1)
    return roi_align(gt_masks[:, None].to(rois), rois, (M, M), 1.0)[:, 0]


def maskrcnn_loss(mask_logits: Tensor, proposals: Tensors, gt_masks: Tensors, gt_labels: Tensors, mask_matched_idxs: Tensors) -> Tensor:
    """Binary cross entropy of the masks, of each box's own class.

    Args:
        mask_logits: ``(N, classes, M, M)``.
        proposals: boxes for each image, ``(n_i, 4)``.
        gt_masks: targets for each image, ``(t_i, H, W)``.
        gt_labels: their classes, ``(t_i,)``.
        mask_matched_idxs: for each image and each of its boxes its target, ``(n_i,)``.
    Returns:
        A number, 0-d.
    Source: torchvision.models.detection.roi_heads.maskrcnn_loss. He et al. 2017, section 3.
    Example:
        >>> boxes, masks = torch.tensor([[0.0, 0.0, 4.0, 4.0]]), torch.ones(1, 4, 4)
        >>> maskrcnn_loss(torch.zeros(1, 2, 2, 2), [boxes], [masks], [torch.tensor([1])], [torch.tensor([0])])
        tensor(0.6931)
    """
    size = mask_logits.shape[-1]
    label = ops.cat([labels[matches] for labels, matches in zip(gt_labels, mask_matched_idxs)], dim=0)
    wanted = ops.cat([project_masks_on_boxes(*parts, size) for parts in zip(gt_masks, proposals, mask_matched_idxs)], dim=0)
    if wanted.numel() == 0:
        return mask_logits.sum() * 0
    own = mask_logits[ops.arange(len(label), device=label.device), label]
    return F.binary_cross_entropy_with_logits(own, wanted)


def expand_boxes(boxes: Tensor, scale: float) -> Tensor:
    """Boxes ``(N, 4)`` that became ``scale`` times as large around their centres."""
    centre = (boxes[:, :2] + boxes[:, 2:]) * 0.5
    half = (boxes[:, 2:] - boxes[:, :2]) * 0.5 * scale
    return ops.cat((centre - half, centre + half), dim=1)


def expand_masks(mask: Tensor, padding: int) -> tuple[Tensor, float]:
    """Masks with zeros around them, and by how much they grew."""
    size = mask.shape[-1]
    return F.pad(mask, (padding,) * 4), float(size + 2 * padding) / size


def paste_mask_in_image(mask: Tensor, box: Tensor, im_h: int, im_w: int) -> Tensor:
    """A mask ``(M, M)`` at its box of whole pixels, last ones included, in an image of zeros."""
    left, top, right, bottom = (int(side) for side in box)
    size = (max(bottom - top + 1, 1), max(right - left + 1, 1))
    resized = F.interpolate(mask[None, None], size=size, mode="bilinear", align_corners=False)[0, 0]
    image = ops.zeros((im_h, im_w), dtype=mask.dtype, device=mask.device)
    x, y = slice(max(left, 0), min(right + 1, im_w)), slice(max(top, 0), min(bottom + 1, im_h))
    image[y, x] = resized[y.start - top : y.stop - top, x.start - left : x.stop - left]
    return image


def paste_masks_in_image(masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int = 1) -> Tensor:
    """Masks ``(N, 1, M, M)`` of boxes ``(N, 4)`` as whole images ``(N, 1, H, W)``.

    Args:
        masks: ``(N, 1, M, M)``.
        boxes: ``(N, 4)``, in pixels.
        img_shape: height and width of the images.
        padding: zeros around masks before they are resized.
    Returns:
        ``(N, 1, H, W)``.
    Source: torchvision.models.detection.roi_heads.paste_masks_in_image.
    Example:
        >>> boxes = torch.tensor([[1.0, 1.0, 3.0, 3.0]])
        >>> paste_masks_in_image(torch.ones(1, 1, 2, 2), boxes, (4, 6)).shape
        torch.Size([1, 1, 4, 6])
    """
    padded, scale = expand_masks(masks, padding=padding)
    whole = expand_boxes(boxes, scale).to(dtype=dtypes.int64)
    pasted = [paste_mask_in_image(mask[0], box, *img_shape) for mask, box in zip(padded, whole)]
    return ops.stack(pasted, dim=0)[:, None] if pasted else masks.new_empty((0, 1, *img_shape))


# -- key points ------------------------------------------------------------------------------------------------------------------
def keypoints_to_heatmap(keypoints: Tensor, rois: Tensor, heatmap_size: int) -> tuple[Tensor, Tensor]:
    """The cells of boxes' heat maps in which key points lie, ``(N, K)``, and which of them are visible and inside.

    Args:
        keypoints: ``(N, K, 3)``, x, y and visibility.
        rois: ``(N, 4)``, the boxes.
        heatmap_size: cells along each side.
    """
    low, high = rois[:, None, :2], rois[:, None, 2:]
    place = keypoints[..., :2]
    cell = ((place - low) * (heatmap_size / (high - low))).floor().long()
    cell[place == high.expand_as(place)] = heatmap_size - 1  # what lies on the last edge is inside
    inside = ((cell >= 0) & (cell < heatmap_size)).all(dim=-1)
    valid = (inside & (keypoints[..., 2] > 0)).long()
    return (cell[..., 1] * heatmap_size + cell[..., 0]) * valid, valid


def heatmaps_to_keypoints(maps: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the maxima of heat maps, after these were resized to their boxes by bicubic interpolation.

    Args:
        maps: ``(N, K, M, M)``.
        rois: ``(N, 4)``, the boxes.
    Returns:
        Key points ``(N, K, 3)``, x, y and 1, and the maps' values there, ``(N, K)``.
    """
    sizes = (rois[:, 2:] - rois[:, :2]).clamp(min=1)
    whole = sizes.ceil()
    count = maps.shape[1]
    points = ops.zeros((len(rois), count, 3), dtype=dtypes.float32, device=maps.device)
    scores = ops.zeros((len(rois), count), dtype=dtypes.float32, device=maps.device)
    for k in range(len(rois)):
        width, height = (int(side) for side in whole[k])
        resized = F.interpolate(maps[k][:, None], size=(height, width), mode="bicubic", align_corners=False)[:, 0]
        flat = resized.reshape(count, -1)
        best = flat.argmax(dim=1)
        cell = ops.stack((best % width, ops.div(best, width, rounding_mode="floor")), dim=1)
        points[k, :, :2] = (cell.float() + 0.5) * (sizes[k] / whole[k]) + rois[k, :2]
        points[k, :, 2] = 1
        scores[k] = flat.gather(1, best[:, None])[:, 0]
    return points, scores


def keypointrcnn_loss(keypoint_logits: Tensor, proposals: Tensors, gt_keypoints: Tensors, keypoint_matched_idxs: Tensors) -> Tensor:
    """Cross entropy over the cells of each visible key point's heat map.

    Args:
        keypoint_logits: ``(N, K, M, M)``.
        proposals: boxes for each image, ``(n_i, 4)``.
        gt_keypoints: targets for each image, ``(t_i, K, 3)``, x, y and visibility.
        keypoint_matched_idxs: for each image and each of its boxes its target, ``(n_i,)``.
    Returns:
        A number, 0-d.
    Raises:
        ValueError: heat maps that are not square.
    Source: torchvision.models.detection.roi_heads.keypointrcnn_loss. He et al. 2017, section 5.
    Example:
        >>> boxes, points = torch.tensor([[0.0, 0.0, 4.0, 4.0]]), torch.tensor([[[1.0, 1.0, 1.0]]])
        >>> keypointrcnn_loss(torch.zeros(1, 1, 2, 2), [boxes], [points], [torch.tensor([0])])
        tensor(1.3863)
    """
    boxes, points, height, width = keypoint_logits.shape
    if height != width:
        raise ValueError(
            f"keypoint_logits height and width (last two elements of shape) should be equal. Instead got H = {height} and W = {width}"
        )
    pairs = [keypoints_to_heatmap(own[matches], rois, height) for rois, own, matches in zip(proposals, gt_keypoints, keypoint_matched_idxs)]
    wanted = ops.cat([cells.reshape(-1) for cells, _ in pairs], dim=0)
    valid = ops.where(ops.cat([visible.reshape(-1) for _, visible in pairs], dim=0))[0]
    if wanted.numel() == 0 or len(valid) == 0:
        return keypoint_logits.sum() * 0
    return F.cross_entropy(keypoint_logits.view(boxes * points, height * width)[valid], wanted[valid])


def keypointrcnn_inference(x: Tensor, boxes: Tensors) -> tuple[list[Tensor], list[Tensor]]:
    """Key points and their scores for each image, from heat maps of all boxes."""
    parts = x.split([image.size(0) for image in boxes], dim=0)
    pairs = [heatmaps_to_keypoints(maps, rois) for maps, rois in zip(parts, boxes)]
    return [points for points, _ in pairs], [scores for _, scores in pairs]


# -- the module ------------------------------------------------------------------------------------------------------------------
class RoIHeads(nn.Module):
    """Pools the features of each proposal and predicts its class, its box and, with the heads for it, its mask and key points.

    Args:
        box_roi_pool: features of boxes.
        box_head: features to a vector.
        box_predictor: the vector to logits of classes and offsets of boxes.
        fg_iou_thresh: overlap with a target from which on a proposal is of its class.
        bg_iou_thresh: overlap below which it is background.
        batch_size_per_image: proposals an image that training uses.
        positive_fraction: the largest share of positive ones.
        bbox_reg_weights: factors of offsets; ``(10, 10, 5, 5)`` when None.
        score_thresh: least score of a detection.
        nms_thresh: overlap above which a detection of the same class is suppressed.
        detections_per_img: most detections.
        mask_roi_pool, mask_head, mask_predictor: likewise for masks; none where one is None.
        keypoint_roi_pool, keypoint_head, keypoint_predictor: likewise for key points.
    Shape:
        A dict of maps, proposals, the images' sizes and, when training, targets, to detections for each image, and losses.
    Source: torchvision.models.detection.roi_heads.RoIHeads. Girshick 2015; He et al. 2017.
    Example:
        >>> pool = lambda maps, proposals, sizes: torch.ones(2, 3)
        >>> heads = RoIHeads(pool, nn.Identity(), lambda x: (x, x.repeat(1, 4)), 0.5, 0.5, 8, 0.25, None, 0.05, 0.5, 9)
        >>> detections, _ = heads.eval()({}, [torch.tensor([[0.0, 0.0, 4.0, 4.0], [4.0, 4.0, 8.0, 8.0]])], [(8, 8)])
        >>> sorted(detections[0])
        ['boxes', 'labels', 'scores']
    """

    def __init__(
        self,
        box_roi_pool: Any,
        box_head: Any,
        box_predictor: Any,
        fg_iou_thresh: float,
        bg_iou_thresh: float,
        batch_size_per_image: int,
        positive_fraction: float,
        bbox_reg_weights: Any,
        score_thresh: float,
        nms_thresh: float,
        detections_per_img: int,
        mask_roi_pool: Any = None,
        mask_head: Any = None,
        mask_predictor: Any = None,
        keypoint_roi_pool: Any = None,
        keypoint_head: Any = None,
        keypoint_predictor: Any = None,
    ) -> None:
        super().__init__()
        self.box_similarity = box_ops.box_iou
        self.proposal_matcher = Matcher(fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=False)
        self.fg_bg_sampler = BalancedPositiveNegativeSampler(batch_size_per_image, positive_fraction)
        self.box_coder = BoxCoder((10.0, 10.0, 5.0, 5.0) if bbox_reg_weights is None else bbox_reg_weights)
        self.box_roi_pool, self.box_head, self.box_predictor = box_roi_pool, box_head, box_predictor
        self.score_thresh, self.nms_thresh, self.detections_per_img = score_thresh, nms_thresh, detections_per_img
        self.mask_roi_pool, self.mask_head, self.mask_predictor = mask_roi_pool, mask_head, mask_predictor
        self.keypoint_roi_pool, self.keypoint_head, self.keypoint_predictor = keypoint_roi_pool, keypoint_head, keypoint_predictor

    def has_mask(self) -> bool:
        """Whether all parts for masks are there."""
        return None not in (self.mask_roi_pool, self.mask_head, self.mask_predictor)

    def has_keypoint(self) -> bool:
        """Whether all parts for key points are there."""
        return None not in (self.keypoint_roi_pool, self.keypoint_head, self.keypoint_predictor)

    # training samples
    def assign_targets_to_proposals(self, proposals: Tensors, gt_boxes: Tensors, gt_labels: Tensors) -> tuple[list[Tensor], list[Tensor]]:
        """For each image the proposals' targets, and their labels: 0 is background, -1 not to be used."""
        places, labels = [], []
        for candidates, boxes, label in zip(proposals, gt_boxes, gt_labels):
            if boxes.numel() == 0:
                places.append(ops.zeros((len(candidates),), dtype=dtypes.int64, device=candidates.device))
                labels.append(places[-1].clone())
                continue
            matches = self.proposal_matcher(self.box_similarity(boxes, candidates))
            place = matches.clamp(min=0)
            own = label[place].to(dtype=dtypes.int64)
            own[matches == self.proposal_matcher.BELOW_LOW_THRESHOLD] = 0
            own[matches == self.proposal_matcher.BETWEEN_THRESHOLDS] = -1
            places.append(place)
            labels.append(own)
        return places, labels

    def subsample(self, labels: Tensors) -> list[Tensor]:
        """Places of the proposals of each image that are used."""
        return [ops.where(positive | negative)[0] for positive, negative in zip(*self.fg_bg_sampler(labels))]

    def add_gt_proposals(self, proposals: Tensors, gt_boxes: Tensors) -> list[Tensor]:
        """Proposals with the targets' own boxes behind them."""
        return [ops.cat(pair) for pair in zip(proposals, gt_boxes)]

    def check_targets(self, targets: Sequence[Target] | None) -> None:
        """ValueError unless every target has what the heads need."""
        if targets is None:
            raise ValueError("targets should not be None")
        for key in ("boxes", "labels", *(("masks",) if self.has_mask() else ())):
            if not all(key in target for target in targets):
                raise ValueError(f"Every element of targets should have a {key} key")

    def _check_dtypes(self, targets: Sequence[Target]) -> None:
        for target in targets:
            if target["boxes"].dtype not in (dtypes.float32, dtypes.float64, dtypes.float16):
                raise TypeError(f"target boxes must of float type, instead got {target['boxes'].dtype}")
            if target["labels"].dtype is not dtypes.int64:
                raise TypeError(f"target labels must of int64 type, instead got {target['labels'].dtype}")
            if self.has_keypoint() and target["keypoints"].dtype is not dtypes.float32:
                raise TypeError(f"target keypoints must of float type, instead got {target['keypoints'].dtype}")

    def select_training_samples(
        self, proposals: Tensors, targets: Sequence[Target] | None
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor], Any]:
        """Proposals to train with: boxes, targets' places, labels and wanted offsets, for each image."""
        self.check_targets(targets)
        assert targets is not None
        boxes = [target["boxes"].to(proposals[0].dtype) for target in targets]
        candidates = self.add_gt_proposals(proposals, boxes)
        places, labels = self.assign_targets_to_proposals(candidates, boxes, [target["labels"] for target in targets])
        used = self.subsample(labels)
        candidates, places, labels = ([values[k] for values, k in zip(lists, used)] for lists in (candidates, places, labels))
        matched = [(own if own.numel() > 0 else own.new_zeros((1, 4)))[place] for own, place in zip(boxes, places)]
        return candidates, places, labels, self.box_coder.encode(matched, candidates)

    # detections
    def postprocess_detections(
        self, class_logits: Tensor, box_regression: Tensor, proposals: Tensors, image_shapes: Sequence[tuple[int, int]]
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Boxes, scores and labels of each image's detections, by falling score."""
        counts = [len(boxes) for boxes in proposals]
        boxes = self.box_coder.decode(box_regression, proposals).split(counts, 0)
        scores = F.softmax(class_logits, -1).split(counts, 0)
        detections = [self._detected(*parts) for parts in zip(boxes, scores, image_shapes)]
        all_boxes, all_scores, all_labels = ([parts[k] for parts in detections] for k in range(3))
        return all_boxes, all_scores, all_labels

    def _detected(self, boxes: Tensor, scores: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
        classes = scores.shape[-1]
        boxes = box_ops.clip_boxes_to_image(boxes, shape)[:, 1:].reshape(-1, 4)  # class 0 is background
        labels = ops.arange(classes, device=scores.device).view(1, -1).expand_as(scores)[:, 1:].reshape(-1)
        scores = scores[:, 1:].reshape(-1)
        keep = ops.where(scores > self.score_thresh)[0]
        boxes, scores, labels = boxes[keep], scores[keep], labels[keep]
        keep = box_ops.remove_small_boxes(boxes, min_size=1e-2)
        boxes, scores, labels = boxes[keep], scores[keep], labels[keep]
        keep = box_ops.batched_nms(boxes, scores, labels, self.nms_thresh)[: self.detections_per_img]
        return boxes[keep], scores[keep], labels[keep]

    # the whole
    def forward(
        self, features: dict[str, Tensor], proposals: list[Tensor], image_shapes: list[tuple[int, int]], targets: list[Target] | None = None
    ) -> tuple[list[Target], dict[str, Tensor]]:
        if targets is not None:
            self._check_dtypes(targets)
        if self.training:
            return [], self._losses(features, proposals, image_shapes, targets)
        logits, offsets = self._predicted("box", features, proposals, image_shapes)
        detections = zip(*self.postprocess_detections(logits, offsets, proposals, image_shapes))
        result = [{"boxes": boxes, "labels": labels, "scores": scores} for boxes, scores, labels in detections]
        boxes = [detection["boxes"] for detection in result]
        if self.has_mask():
            masks = maskrcnn_inference(
                self._predicted("mask", features, boxes, image_shapes), [detection["labels"] for detection in result]
            )
            for detection, mask in zip(result, masks):
                detection["masks"] = mask
        if self.has_keypoint():
            points = keypointrcnn_inference(self._predicted("keypoint", features, boxes, image_shapes), boxes)
            for detection, point, score in zip(result, *points):
                detection["keypoints"], detection["keypoints_scores"] = point, score
        return result, {}

    def _predicted(self, part: str, features: dict[str, Tensor], boxes: list[Tensor], shapes: list[tuple[int, int]]) -> Any:
        """Predictions for boxes by the heads of one type."""
        pool, head, predictor = (getattr(self, f"{part}_{name}") for name in ("roi_pool", "head", "predictor"))
        return predictor(head(pool(features, boxes, shapes)))

    def _losses(
        self, features: dict[str, Tensor], proposals: list[Tensor], shapes: list[tuple[int, int]], targets: list[Target] | None
    ) -> dict[str, Tensor]:
        proposals, places, labels, wanted = self.select_training_samples(proposals, targets)
        assert targets is not None
        logits, offsets = self._predicted("box", features, proposals, shapes)
        loss_classifier, loss_box = fastrcnn_loss(logits, offsets, labels, wanted)
        losses = {"loss_classifier": loss_classifier, "loss_box_reg": loss_box}
        if not self.has_mask() and not self.has_keypoint():
            return losses
        positive = [ops.where(label > 0)[0] for label in labels]
        boxes = [own[place] for own, place in zip(proposals, positive)]
        matches = [own[place] for own, place in zip(places, positive)]
        if self.has_mask():
            predicted = self._predicted("mask", features, boxes, shapes)
            own_masks, own_labels = ([target[key] for target in targets] for key in ("masks", "labels"))
            losses["loss_mask"] = maskrcnn_loss(predicted, boxes, own_masks, own_labels, matches)
        if self.has_keypoint():
            predicted = self._predicted("keypoint", features, boxes, shapes)
            losses["loss_keypoint"] = keypointrcnn_loss(predicted, boxes, [target["keypoints"] for target in targets], matches)
        return losses
