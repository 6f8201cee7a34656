"""Anchors: the boxes from which detectors predict offsets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import nn, ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from .image_list import ImageList

__all__ = ["AnchorGenerator", "DefaultBoxGenerator"]


class AnchorGenerator(nn.Module):
    """Boxes of given sizes and proportions around every pixel of every feature map.

    Args:
        sizes: for each map the sides of squares whose areas the anchors have.
        aspect_ratios: for each map their heights by their widths.
    Shape:
        An ``ImageList`` and maps ``(N, C, H_i, W_i)`` to anchors ``(sum of H_i * W_i * A_i, 4)`` for each image.
    Source: torchvision.models.detection.anchor_utils.AnchorGenerator. Ren et al. 2015, section 3.1.1.
    Example:
        >>> AnchorGenerator(((32, 64),), ((0.5, 1.0, 2.0),)).num_anchors_per_location()
        [6]
    """

    def __init__(self, sizes: Any = ((128, 256, 512),), aspect_ratios: Any = ((0.5, 1.0, 2.0),)) -> None:
        super().__init__()
        if not isinstance(sizes[0], (list, tuple)):
            sizes = tuple((size,) for size in sizes)
        if not isinstance(aspect_ratios[0], (list, tuple)):
            aspect_ratios = (aspect_ratios,) * len(sizes)
        self.sizes, self.aspect_ratios = sizes, aspect_ratios
        self.cell_anchors = [self.generate_anchors(scales, ratios) for scales, ratios in zip(sizes, aspect_ratios)]

    def generate_anchors(
        self, scales: Sequence[float], aspect_ratios: Sequence[float], dtype: Any = dtypes.float32, device: Any = "cpu"
    ) -> Tensor:
        """Anchors around the origin, one for each ratio and scale, rounded to whole pixels."""
        side = ops.as_tensor(scales, dtype=dtype, device=device)
        taller = ops.sqrt(ops.as_tensor(aspect_ratios, dtype=dtype, device=device))
        width = ((1 / taller)[:, None] * side[None, :]).view(-1)
        height = (taller[:, None] * side[None, :]).view(-1)
        return (ops.stack([-width, -height, width, height], dim=1) / 2).round()

    def set_cell_anchors(self, dtype: Any, device: Any) -> None:
        """Bring the anchors around the origin to a dtype and a device."""
        self.cell_anchors = [anchors.to(dtype=dtype, device=device) for anchors in self.cell_anchors]

    def num_anchors_per_location(self) -> list[int]:
        """Anchors around a pixel of each map."""
        return [len(sizes) * len(ratios) for sizes, ratios in zip(self.sizes, self.aspect_ratios)]

    def grid_anchors(self, grid_sizes: Sequence[Sequence[int]], strides: Sequence[Sequence[Any]]) -> list[Tensor]:
        """Anchors of each map: around pixel after pixel, in rows.

        Args:
            grid_sizes: heights and widths of the maps.
            strides: rows and columns of the image between two pixels of each map.
        Raises:
            AssertionError: as many maps as there are sizes were expected.
        """
        if not len(grid_sizes) == len(strides) == len(self.cell_anchors):
            raise AssertionError(
                "Anchors should be Tuple[Tuple[int]] because each feature map could potentially have different sizes and aspect ratios. "
                "There needs to be a match between the number of feature maps passed and the number of sizes / aspect ratios specified."
            )
        anchors = []
        for (height, width), (row, column), around in zip(grid_sizes, strides, self.cell_anchors):
            x = ops.arange(0, width, dtype=dtypes.int32, device=around.device) * column
            y = ops.arange(0, height, dtype=dtypes.int32, device=around.device) * row
            y, x = (shift.reshape(-1) for shift in ops.meshgrid(y, x, indexing="ij"))
            pixels = ops.stack((x, y, x, y), dim=1)
            anchors.append((pixels.view(-1, 1, 4) + around.view(1, -1, 4)).reshape(-1, 4))
        return anchors

    def forward(self, image_list: ImageList, feature_maps: list[Tensor]) -> list[Tensor]:
        grids = [feature.shape[-2:] for feature in feature_maps]
        height, width = image_list.tensors.shape[-2:]
        self.set_cell_anchors(feature_maps[0].dtype, feature_maps[0].device)
        anchors = ops.cat(self.grid_anchors(grids, [(height // rows, width // columns) for rows, columns in grids]))
        return [anchors.clone() for _ in image_list.image_sizes]


class DefaultBoxGenerator(nn.Module):
    """The default boxes of SSD: around every pixel of every feature map two squares, and two boxes for each ratio.

    Args:
        aspect_ratios: for each map the ratios beside 1; each stands for its inverse too.
        min_ratio: scale of the first map, as a share of the image; used without ``scales``.
        max_ratio: scale of the last one.
        scales: of the maps, and one more.
        steps: pixels of the image between two pixels of each map; from the maps' sizes when None.
        clip: whether widths and heights are limited to the image's.
    Shape:
        An ``ImageList`` and maps ``(N, C, H_i, W_i)`` to boxes ``(sum of H_i * W_i * A_i, 4)`` for each image.
    Raises:
        ValueError: another number of steps than of ratios.
    Source: torchvision.models.detection.anchor_utils.DefaultBoxGenerator. Liu et al. 2016, section 2.2.
    Example:
        >>> DefaultBoxGenerator([[2], [2, 3]]).num_anchors_per_location()
        [4, 6]
    """

    def __init__(
        self,
        aspect_ratios: list[list[int]],
        min_ratio: float = 0.15,
        max_ratio: float = 0.9,
        scales: list[float] | None = None,
        steps: list[int] | None = None,
        clip: bool = True,
    ) -> None:
        super().__init__()
        if steps is not None and len(aspect_ratios) != len(steps):
            raise ValueError("aspect_ratios and steps should have the same length")
        self.aspect_ratios, self.steps, self.clip = aspect_ratios, steps, clip
        maps = len(aspect_ratios)
        if scales is not None:
            self.scales = scales
        elif maps > 1:
            self.scales = [min_ratio + (max_ratio - min_ratio) * k / (maps - 1.0) for k in range(maps)] + [1.0]
        else:
            self.scales = [min_ratio, max_ratio]
        self._wh_pairs = self._generate_wh_pairs(maps)

    def _generate_wh_pairs(self, num_outputs: int, dtype: Any = dtypes.float32, device: Any = "cpu") -> list[Tensor]:
        """Widths and heights, ``(A, 2)``, of the boxes of each map, as shares of the image."""
        pairs = []
        for k in range(num_outputs):
            scale, between = self.scales[k], math.sqrt(self.scales[k] * self.scales[k + 1])
            sizes = [[scale, scale], [between, between]]
            for ratio in self.aspect_ratios[k]:
                wide, narrow = scale * math.sqrt(ratio), scale / math.sqrt(ratio)
                sizes.extend([[wide, narrow], [narrow, wide]])
            pairs.append(ops.as_tensor(sizes, dtype=dtype, device=device))
        return pairs

    def num_anchors_per_location(self) -> list[int]:
        """Boxes around a pixel of each map."""
        return [2 + 2 * len(ratios) for ratios in self.aspect_ratios]

    def _grid_default_boxes(self, grid_sizes: Any, image_size: Any, dtype: Any = dtypes.float32) -> Tensor:
        """Centres and sizes of all boxes, ``(*, 4)``, as shares of the image."""
        boxes = []
        for k, (height, width) in enumerate(grid_sizes):
            rows, columns = (height, width) if self.steps is None else (image_size[0] / self.steps[k], image_size[1] / self.steps[k])
            x = ((ops.arange(0, width) + 0.5) / columns).to(dtype=dtype)
            y = ((ops.arange(0, height) + 0.5) / rows).to(dtype=dtype)
            y, x = (centre.reshape(-1) for centre in ops.meshgrid(y, x, indexing="ij"))
            sizes = self._wh_pairs[k].clamp(min=0, max=1) if self.clip else self._wh_pairs[k]
            centres = ops.stack((x, y), dim=-1)[:, None].expand(-1, len(sizes), -1)
            boxes.append(ops.cat((centres.reshape(-1, 2), sizes.repeat(height * width, 1)), dim=1))
        return ops.cat(boxes, dim=0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(aspect_ratios={self.aspect_ratios}, clip={self.clip}, scales={self.scales}, steps={self.steps})"

    def forward(self, image_list: ImageList, feature_maps: list[Tensor]) -> list[Tensor]:
        height, width = image_list.tensors.shape[-2:]
        grids = [feature.shape[-2:] for feature in feature_maps]
        boxes = self._grid_default_boxes(grids, (height, width), dtype=feature_maps[0].dtype).to(feature_maps[0].device)
        size = ops.tensor([width, height], device=boxes.device)
        low, high = boxes[:, :2] - 0.5 * boxes[:, 2:], boxes[:, :2] + 0.5 * boxes[:, 2:]
        corners = ops.cat([low * size, high * size], -1)
        return [corners.clone() for _ in image_list.image_sizes]
