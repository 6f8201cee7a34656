"""The region proposal network: boxes in an image that may contain an object."""

from __future__ import annotations

from collections.abc import Sequence

from .... import nn, ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ....nn import functional as F
from ...ops import Conv2dNormActivation, boxes as box_ops
from .._utils import RenamedLayers
from ._utils import BalancedPositiveNegativeSampler, BoxCoder, Matcher, Target, _topk_min, draw_convolutions, joined_rows
from .anchor_utils import AnchorGenerator
from .image_list import ImageList

__all__ = ["RPNHead", "RegionProposalNetwork", "concat_box_prediction_layers", "permute_and_flatten"]


class RPNHead(RenamedLayers):
    """For every anchor a score of there being something, and offsets of its box.

    Args:
        in_channels: channels of the feature maps.
        num_anchors: anchors a pixel.
        conv_depth: convolutions before the predictions.
    Shape:
        A list of ``(N, in_channels, H_i, W_i)`` to lists of ``(N, num_anchors, H_i, W_i)`` and ``(N, num_anchors * 4, H_i, W_i)``.
    Attributes:
        conv, cls_logits, bbox_pred: convolutions; weights from a normal distribution of standard deviation 0.01, biases 0.
    Source: torchvision.models.detection.rpn.RPNHead. Ren et al. 2015, section 3.1.
    Example:
        >>> scores, offsets = RPNHead(8, 3)([torch.rand(1, 8, 4, 4)])
        >>> scores[0].shape, offsets[0].shape
        (torch.Size([1, 3, 4, 4]), torch.Size([1, 12, 4, 4]))
    """

    def __init__(self, in_channels: int, num_anchors: int, conv_depth: int = 1) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            *(Conv2dNormActivation(in_channels, in_channels, kernel_size=3, norm_layer=None) for _ in range(conv_depth))
        )
        self.cls_logits = nn.Conv2d(in_channels, num_anchors, kernel_size=1, stride=1)
        self.bbox_pred = nn.Conv2d(in_channels, num_anchors * 4, kernel_size=1, stride=1)
        draw_convolutions(self)

    def _old_names(self) -> dict[str, str]:
        return {"conv": "conv.0.0"}

    def forward(self, x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        hidden = [self.conv(feature) for feature in x]
        return [self.cls_logits(feature) for feature in hidden], [self.bbox_pred(feature) for feature in hidden]


def permute_and_flatten(layer: Tensor, N: int, A: int, C: int, H: int, W: int) -> Tensor:
    """Predictions ``(N, A * C, H, W)`` as ``(N, H * W * A, C)``.

    Args:
        layer: ``(N, A * C, H, W)``.
        N, A, C, H, W: images, anchors a pixel, numbers an anchor, height and width.
    Returns:
        ``(N, H * W * A, C)``.
    Source: torchvision.models.detection.rpn.permute_and_flatten.
    Example:
        >>> permute_and_flatten(torch.zeros(2, 12, 4, 4), 2, 3, 4, 4, 4).shape
        torch.Size([2, 48, 4])
    """
    return layer.view(N, A, C, H, W).permute(0, 3, 4, 1, 2).reshape(N, -1, C)


def concat_box_prediction_layers(box_cls: Sequence[Tensor], box_regression: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Scores ``(*, C)`` and offsets ``(*, 4)`` of all images and maps: image after image, in each map after map.

    Args:
        box_cls: scores of each map, ``(N, A * C, H_i, W_i)``.
        box_regression: offsets of each map, ``(N, A * 4, H_i, W_i)``.
    Returns:
        Scores and offsets.
    Source: torchvision.models.detection.rpn.concat_box_prediction_layers.
    Example:
        >>> scores, offsets = concat_box_prediction_layers([torch.ones(1, 3, 2, 2)], [torch.ones(1, 12, 2, 2)])
        >>> scores.shape, offsets.shape
        (torch.Size([12, 1]), torch.Size([12, 4]))
    """
    anchors = box_regression[0].shape[1] // 4
    return joined_rows(box_cls, box_cls[0].shape[1] // anchors).flatten(0, -2), joined_rows(box_regression, 4).reshape(-1, 4)


class RegionProposalNetwork(nn.Module):
    """Proposes boxes from anchors, and is trained to.

    Args:
        anchor_generator: makes anchors.
        head: predicts scores and offsets for them.
        fg_iou_thresh: overlap with a target from which on an anchor counts as positive.
        bg_iou_thresh: overlap below which it counts as negative.
        batch_size_per_image: anchors an image that the loss is computed of.
        positive_fraction: the largest share of positive ones among them.
        pre_nms_top_n: under "training" and "testing", boxes of each map that go into suppression.
        post_nms_top_n: likewise, boxes that are proposed.
        nms_thresh: overlap above which a box is suppressed.
        score_thresh: least score of a proposal.
    Shape:
        An ``ImageList``, a dict of feature maps, and targets when training, to proposals ``(n_i, 4)`` for each image, and losses.
    Raises:
        ValueError: no targets while training.
    Source: torchvision.models.detection.rpn.RegionProposalNetwork. Ren et al. 2015.
    Example:
        >>> from flambeau.vision.models.detection.image_list import ImageList
        >>> counts = {"training": 5, "testing": 5}
        >>> rpn = RegionProposalNetwork(AnchorGenerator(((4,),), ((1.0,),)), RPNHead(2, 1), 0.7, 0.3, 8, 0.5, counts, counts, 1.0)
        >>> proposals, _ = rpn.eval()(ImageList(torch.ones(1, 3, 16, 16), [(16, 16)]), {"0": torch.ones(1, 2, 4, 4)})
        >>> proposals[0].shape
        torch.Size([5, 4])
    """

    def __init__(
        self,
        anchor_generator: AnchorGenerator,
        head: nn.Module,
        fg_iou_thresh: float,
        bg_iou_thresh: float,
        batch_size_per_image: int,
        positive_fraction: float,
        pre_nms_top_n: dict[str, int],
        post_nms_top_n: dict[str, int],
        nms_thresh: float,
        score_thresh: float = 0.0,
    ) -> None:
        super().__init__()
        self.anchor_generator, self.head = anchor_generator, head
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self.box_similarity = box_ops.box_iou
        self.proposal_matcher = Matcher(fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=True)
        self.fg_bg_sampler = BalancedPositiveNegativeSampler(batch_size_per_image, positive_fraction)
        self._pre_nms_top_n, self._post_nms_top_n = pre_nms_top_n, post_nms_top_n
        self.nms_thresh, self.score_thresh = nms_thresh, score_thresh
        self.min_size = 1e-3

    def pre_nms_top_n(self) -> int:
        """Boxes of each map that go into suppression."""
        return self._pre_nms_top_n["training" if self.training else "testing"]

    def post_nms_top_n(self) -> int:
        """Boxes of an image that are proposed."""
        return self._post_nms_top_n["training" if self.training else "testing"]

    def assign_targets_to_anchors(self, anchors: Sequence[Tensor], targets: Sequence[Target]) -> tuple[list[Tensor], list[Tensor]]:
        """For each image the anchors' labels (1 object, 0 background, -1 ignored) and the boxes that they should predict."""
        labels, boxes = [], []
        for candidates, target in zip(anchors, targets):
            wanted = target["boxes"]
            if wanted.numel() == 0:
                labels.append(ops.zeros((candidates.shape[0],), dtype=dtypes.float32, device=candidates.device))
                boxes.append(ops.zeros(candidates.shape, dtype=dtypes.float32, device=candidates.device))
                continue
            matches = self.proposal_matcher(self.box_similarity(wanted, candidates))
            label = (matches >= 0).to(dtype=dtypes.float32)
            label[matches == self.proposal_matcher.BETWEEN_THRESHOLDS] = -1.0
            labels.append(label)
            boxes.append(wanted[matches.clamp(min=0)])
        return labels, boxes

    def _get_top_n_idx(self, objectness: Tensor, num_anchors_per_level: Sequence[int]) -> Tensor:
        """Places of the best-scored anchors of each map, ``(images, *)``."""
        places, start = [], 0
        for scores in objectness.split(list(num_anchors_per_level), 1):
            places.append(scores.topk(_topk_min(scores, self.pre_nms_top_n(), 1), dim=1)[1] + start)
            start += scores.shape[1]
        return ops.cat(places, dim=1)

    def filter_proposals(
        self, proposals: Tensor, objectness: Tensor, image_shapes: Sequence[tuple[int, int]], num_anchors_per_level: Sequence[int]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The best boxes of each image, suppressed map by map, and their scores.

        Args:
            proposals: ``(images, anchors, 4)``.
            objectness: logits of all anchors.
            image_shapes: heights and widths.
            num_anchors_per_level: anchors of each map.
        """
        images = proposals.shape[0]
        objectness = objectness.detach().reshape(images, -1)
        levels = ops.cat([ops.full((count,), k, dtype=dtypes.int64) for k, count in enumerate(num_anchors_per_level)])
        levels = levels.to(proposals.device)
        best = self._get_top_n_idx(objectness, num_anchors_per_level)
        rows = ops.arange(images, device=proposals.device)[:, None]
        scored = ops.sigmoid(objectness[rows, best])
        chosen = [
            self._filtered(boxes, scores, level, shape)
            for boxes, scores, level, shape in zip(proposals[rows, best], scored, levels[best], image_shapes)
        ]
        return [boxes for boxes, _ in chosen], [scores for _, scores in chosen]

    def _filtered(self, boxes: Tensor, scores: Tensor, levels: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        boxes = box_ops.clip_boxes_to_image(boxes, shape)
        keep = box_ops.remove_small_boxes(boxes, self.min_size)
        boxes, scores, levels = boxes[keep], scores[keep], levels[keep]
        keep = ops.where(scores >= self.score_thresh)[0]
        boxes, scores, levels = boxes[keep], scores[keep], levels[keep]
        keep = box_ops.batched_nms(boxes, scores, levels, self.nms_thresh)[: self.post_nms_top_n()]
        return boxes[keep], scores[keep]

    def compute_loss(
        self, objectness: Tensor, pred_bbox_deltas: Tensor, labels: Sequence[Tensor], regression_targets: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The losses of scores and of offsets, over anchors drawn at random."""
        drawn = [ops.where(ops.cat(masks, dim=0))[0] for masks in self.fg_bg_sampler(labels)]
        positive, both = drawn[0], ops.cat(drawn, dim=0)
        wanted = ops.cat(list(regression_targets), dim=0)
        box_loss = F.smooth_l1_loss(pred_bbox_deltas[positive], wanted[positive], beta=1 / 9, reduction="sum") / both.numel()
        wanted_labels = ops.cat(list(labels), dim=0)
        return F.binary_cross_entropy_with_logits(objectness.flatten()[both], wanted_labels[both]), box_loss

    def forward(
        self, images: ImageList, features: dict[str, Tensor], targets: Sequence[Target] | None = None
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        maps = list(features.values())
        objectness, offsets = self.head(maps)
        anchors = self.anchor_generator(images, maps)
        per_level = [logits[0].numel() for logits in objectness]
        objectness, offsets = concat_box_prediction_layers(objectness, offsets)
        proposals = self.box_coder.decode(offsets.detach(), anchors).view(len(anchors), -1, 4)  # no gradient through proposals
        boxes, _ = self.filter_proposals(proposals, objectness, images.image_sizes, per_level)
        if not self.training:
            return boxes, {}
        if targets is None:
            raise ValueError("targets should not be None")
        labels, matched = self.assign_targets_to_anchors(anchors, targets)
        wanted = self.box_coder.encode(matched, anchors)
        loss_objectness, loss_box = self.compute_loss(objectness, offsets, labels, wanted)
        return boxes, {"loss_objectness": loss_objectness, "loss_rpn_box_reg": loss_box}
