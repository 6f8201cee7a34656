"""RoIAlign over a feature pyramid: each region reads the map of its scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import nn, ops
from ...core import dtype as dtypes
from ...core.tensor import Tensor
from ._utils import convert_boxes_to_roi_format
from .boxes import box_area
from .roi_align import roi_align

__all__ = ["LevelMapper", "MultiScaleRoIAlign", "initLevelMapper"]


class LevelMapper:
    """Chooses a map of a pyramid for each box: ``floor(canonical_level + log2(sqrt(area) / canonical_scale))``.

    Args:
        k_min: the pyramid's first level, as a power of 2 by which it is smaller than the image.
        k_max: its last one.
        canonical_scale: the side of a square that reads ``canonical_level``.
        canonical_level: see above.
        eps: added before rounding down.
    Source: torchvision.ops.poolers.LevelMapper. Lin et al. 2017, equation 1.
    Example:
        >>> LevelMapper(2, 5)([torch.tensor([[0.0, 0.0, 56.0, 56.0], [0.0, 0.0, 224.0, 224.0]])])
        tensor([0, 2])
    """

    def __init__(self, k_min: int, k_max: int, canonical_scale: int = 224, canonical_level: int = 4, eps: float = 1e-6) -> None:
        self.k_min, self.k_max = k_min, k_max
        self.s0, self.lvl0, self.eps = canonical_scale, canonical_level, eps

    def __call__(self, boxlists: Sequence[Tensor]) -> Tensor:
        """For each box of all images the place of its map in the pyramid, int64."""
        side = ops.sqrt(ops.cat([box_area(boxes) for boxes in boxlists]))
        level = ops.floor(self.lvl0 + ops.log2(side / self.s0) + ops.tensor(self.eps, dtype=side.dtype))
        return ops.clamp(level, min=self.k_min, max=self.k_max).to(dtypes.int64) - self.k_min


def initLevelMapper(k_min: int, k_max: int, canonical_scale: int = 224, canonical_level: int = 4, eps: float = 1e-6) -> LevelMapper:
    """A ``LevelMapper``.

    Args:
        k_min, k_max, canonical_scale, canonical_level, eps: see :class:`LevelMapper`.
    Returns:
        A ``LevelMapper``.
    Source: torchvision.ops.poolers.initLevelMapper.
    Example:
        >>> initLevelMapper(2, 5)([torch.tensor([[0.0, 0.0, 448.0, 448.0]])])
        tensor([3])
    """
    return LevelMapper(k_min, k_max, canonical_scale, canonical_level, eps)


def _infer_scale(feature: Tensor, original_size: Sequence[int]) -> float:
    """The power of 2 nearest to the map's height by the image's."""
    return 2.0 ** round(math.log2(feature.shape[-2] / original_size[0]))


def _setup_scales(
    features: Sequence[Tensor], image_shapes: Sequence[tuple[int, int]], canonical_scale: int, canonical_level: int
) -> tuple[list[float], LevelMapper]:
    """The scale of each map, and who chooses between them.

    Raises:
        ValueError: no images.
    """
    if not image_shapes:
        raise ValueError("images list should not be empty")
    largest = (max(shape[0] for shape in image_shapes), max(shape[1] for shape in image_shapes))
    scales = [_infer_scale(feature, largest) for feature in features]
    levels = int(-math.log2(scales[0])), int(-math.log2(scales[-1]))
    return scales, initLevelMapper(*levels, canonical_scale=canonical_scale, canonical_level=canonical_level)


class MultiScaleRoIAlign(nn.Module):
    """``roi_align`` over several maps of different scales.

    Args:
        featmap_names: the maps to read, by name.
        output_size: bins vertically and horizontally.
        sampling_ratio: points a bin along each axis.
        canonical_scale: see ``LevelMapper``.
        canonical_level: see ``LevelMapper``.
    Shape:
        A dict of maps ``(N, C, H_i, W_i)``, boxes ``(L, 4)`` for each image in its coordinates, and the images' sizes to
        ``(K, C, *output_size)``.
    Attributes:
        scales: of the maps; inferred from the first images.
        map_levels: a ``LevelMapper``, likewise.
    Source: torchvision.ops.MultiScaleRoIAlign. Lin et al. 2017, section 4.2.
    Example:
        >>> pool = MultiScaleRoIAlign(['a', 'b'], output_size=2, sampling_ratio=2)
        >>> maps = {'a': torch.rand(1, 3, 16, 16), 'b': torch.rand(1, 3, 8, 8)}
        >>> pool(maps, [torch.tensor([[0.0, 0.0, 30.0, 30.0]])], [(64, 64)]).shape
        torch.Size([1, 3, 2, 2])
    """

    def __init__(
        self, featmap_names: list[str], output_size: Any, sampling_ratio: int, *, canonical_scale: int = 224, canonical_level: int = 4
    ) -> None:
        super().__init__()
        self.featmap_names, self.sampling_ratio = featmap_names, sampling_ratio
        self.output_size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
        self.scales: list[float] | None = None
        self.map_levels: LevelMapper | None = None
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level

    def forward(self, x: dict[str, Tensor], boxes: list[Tensor], image_shapes: Sequence[tuple[int, int]]) -> Tensor:
        maps = [feature for name, feature in x.items() if name in self.featmap_names]
        if self.scales is None or self.map_levels is None:
            self.scales, self.map_levels = _setup_scales(maps, image_shapes, self.canonical_scale, self.canonical_level)
        rois = convert_boxes_to_roi_format(boxes)
        if len(maps) == 1:
            return self._aligned(maps[0], rois, self.scales[0])
        levels = self.map_levels(boxes)
        places = [ops.where(levels == level)[0] for level in range(len(maps))]
        unmapped = ops.where(levels >= len(maps))[0]  # maps that leave out levels between them: these regions stay zero
        parts = [self._aligned(feature, rois[place], scale).to(maps[0].dtype) for feature, place, scale in zip(maps, places, self.scales)]
        parts.append(maps[0].new_zeros((len(unmapped), maps[0].shape[1], *self.output_size)))
        return ops.cat(parts)[ops.argsort(ops.cat([*places, unmapped]))]

    def _aligned(self, feature: Tensor, rois: Tensor, scale: float) -> Tensor:
        return roi_align(feature, rois.to(feature.dtype), self.output_size, spatial_scale=scale, sampling_ratio=self.sampling_ratio)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(featmap_names={self.featmap_names}, output_size={self.output_size}, "
            f"sampling_ratio={self.sampling_ratio})"
        )
