"""Pooling of regions as a product with a sparse matrix.

A pooled value is a weighted sum of pixels, and the weights depend on the regions only. So all pooled values of all channels are

    pooled (K * PH * PW, C)  =  weights (K * PH * PW, N * H * W)  @  pixels (N * H * W, C)

and the gradient is the product with the transposed matrix. A weight is a row's weight times a column's weight: bilinear interpolation and
the bounds of the image apply to each axis separately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ... import nn, ops
from ...autograd.function import Function
from ...core import dtype as dtypes
from ...core.tensor import Tensor
from ._utils import rois_of


class _SparseProduct(Function):
    """``matrix @ dense`` for a SciPy matrix, differentiable in ``dense`` any number of times."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Any) -> Tensor:
        ctx.matrix = matrix
        return ops.as_tensor(matrix @ dense.detach().cpu().numpy(), device=dense.device)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, None]:
        return _SparseProduct.apply(grads[0].contiguous(), ctx.matrix.T), None


def pooled(pixels: Tensor, matrix: Any, bins: tuple[int, int]) -> Tensor:
    """``matrix`` times ``pixels``, ``(P, C)``, as ``(K, C, *bins)``; narrow floats are summed in float32."""
    wide = pixels if pixels.dtype in (dtypes.float32, dtypes.float64) else pixels.float()
    sums = _SparseProduct.apply(wide.contiguous(), matrix).to(pixels.dtype)
    return sums.reshape(matrix.shape[0] // (bins[0] * bins[1]), *bins, pixels.shape[1]).permute(0, 3, 1, 2).contiguous()


def regions_of(operation: str, input: Tensor, boxes: Any) -> np.ndarray:
    """The regions ``(K, 5)`` in the dtype in which ``input`` is pooled.

    Raises:
        AssertionError: ``boxes`` of another shape.
        RuntimeError: ``input`` or ``boxes`` of another number of dimensions or of different dtypes.
    """
    rois = rois_of(boxes)
    if input.dim() != 4:
        raise RuntimeError(f"{operation}: expected input of 4 dimensions (N, C, H, W), got {input.dim()}")
    if rois.dim() != 2 or rois.size(1) != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    if input.dtype != rois.dtype:
        raise RuntimeError(
            f"Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 'rois'; but type "
            f"{input.type()} does not equal {rois.type()} (while checking arguments for {operation})"
        )
    wide = np.float64 if input.dtype is dtypes.float64 else np.float32
    return rois.detach().cpu().to(dtypes.float64).numpy().astype(wide)


def interpolated(start: np.ndarray, size: np.ndarray, bins: int, grid: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights along one axis: ``grid`` points in each of ``bins`` bins, each between two pixels.

    Args:
        start: ``(K,)``, where regions begin, in pixels.
        size: ``(K,)``, their extent.
        bins: bins a region.
        grid: points a bin.
        length: pixels on the axis.
    Returns:
        Two arrays ``(K, bins, 2 * grid)``; points more than one pixel outside weigh nothing.
    """
    step = (size / bins)[:, None, None]
    inner = (np.arange(grid, dtype=start.dtype) + start.dtype.type(0.5))[None, None, :]
    point = start[:, None, None] + np.arange(bins, dtype=start.dtype)[None, :, None] * step + inner * step / start.dtype.type(grid)
    outside = ~((point >= -1) & (point <= length))
    point = np.where(outside, 0, np.maximum(point, 0))
    low = np.minimum(point.astype(np.int64), length - 1)
    high = np.minimum(low + 1, length - 1)
    upper = np.where(low >= length - 1, 0, point - low).astype(start.dtype)
    weight = np.concatenate([1 - upper, upper], axis=-1) * ~np.concatenate([outside, outside], axis=-1)
    return np.concatenate([low, high], axis=-1), weight.astype(start.dtype)


def bilinear_matrix(
    regions: np.ndarray, scale: float, bins: tuple[int, int], ratio: int, image: tuple[int, int, int], *, aligned: bool, split: bool
) -> Any:
    """The weights of averages over interpolated points.

    Args:
        regions: ``(K, 5)``, image number and two corners.
        scale: from the corners' coordinates to pixels.
        bins: bins vertically and horizontally.
        ratio: points a bin along each axis; 0 or less for one a pixel, rounded up.
        image: number of images, height and width.
        aligned: whether pixels have their values in the middle; otherwise regions are at least one pixel wide.
        split: whether each bin has pixels of its own, numbered last (position-sensitive pooling).
    Returns:
        A SciPy CSR matrix ``(K * bins, N * H * W)``, or ``(K * bins, N * H * W * bins)``.
    """
    kind = regions.dtype.type
    start, end = (corner * kind(scale) - kind(0.5 if aligned else 0.0) for corner in (regions[:, 2:0:-1], regions[:, 4:2:-1]))
    size = end - start if aligned else np.maximum(end - start, kind(1))
    count, numbers = len(regions), regions[:, 0].astype(np.int64)
    per_bin = np.asarray(bins)
    grids = np.full((count, 2), ratio) if ratio > 0 else np.ceil(size / per_bin.astype(size.dtype)).astype(np.int64)
    _, height, width = image
    number_of_bins = bins[0] * bins[1]
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for grid in np.unique(grids, axis=0) if count else ():
        if grid.min() <= 0:
            continue
        members = np.flatnonzero((grids == grid).all(axis=1))
        y, weight_y = interpolated(start[members, 0], size[members, 0], bins[0], int(grid[0]), height)
        x, weight_x = interpolated(start[members, 1], size[members, 1], bins[1], int(grid[1]), width)
        weight = weight_y[:, :, None, :, None] * weight_x[:, None, :, None, :] / size.dtype.type(grid[0] * grid[1])
        base = numbers[members, None, None, None, None] * (height * width)
        column = base + y[:, :, None, :, None] * width + x[:, None, :, None, :]
        bin_number = np.arange(number_of_bins).reshape(1, *bins, 1, 1)
        if split:
            column = column * number_of_bins + bin_number
        row = np.broadcast_to(members[:, None, None, None, None] * number_of_bins + bin_number, column.shape)
        parts.append((weight.ravel(), row.ravel(), column.ravel()))
    return _matrix(parts, count * number_of_bins, image, number_of_bins if split else 1, size.dtype)


def _matrix(parts: list[Any], rows: int, image: tuple[int, int, int], times: int, dtype: Any) -> Any:
    from scipy.sparse import coo_matrix

    shape = (rows, image[0] * image[1] * image[2] * times)
    if not parts:
        return coo_matrix(shape, dtype=dtype).tocsr()
    weight, row, column = (np.concatenate(arrays) for arrays in zip(*parts))
    return coo_matrix((weight, (row, column)), shape=shape).tocsr()


def mean_matrix(regions: np.ndarray, spans: tuple[np.ndarray, np.ndarray], bins: tuple[int, int], image: tuple[int, int, int]) -> Any:
    """The weights of averages over whole pixels, each bin with pixels of its own.

    Args:
        regions: ``(K,)``, the image each region lies in.
        spans: per axis ``(K, bins, 2)``, where a bin begins and ends.
        bins: bins vertically and horizontally.
        image: number of images, height and width.
    Returns:
        A SciPy CSR matrix ``(K * bins, N * H * W * bins)``; empty bins have no weights.
    """
    _, height, width = image
    number_of_bins = bins[0] * bins[1]
    parts = []
    for k, number in enumerate(regions):
        for b, (i, j) in enumerate(np.ndindex(*bins)):
            (top, bottom), (left, right) = spans[0][k, i], spans[1][k, j]
            if bottom <= top or right <= left:
                continue
            pixels = (number * height + np.arange(top, bottom)[:, None]) * width + np.arange(left, right)
            column = pixels.ravel() * number_of_bins + b
            parts.append((np.full(column.size, 1 / column.size), np.full(column.size, k * number_of_bins + b), column))
    return _matrix(parts, len(regions) * number_of_bins, image, number_of_bins, np.float64)


def rounded(values: np.ndarray) -> np.ndarray:
    """The nearest integers, halves away from zero, as C's ``round``."""
    return (np.sign(values) * np.floor(np.abs(values) + 0.5)).astype(np.int64)


def whole_spans(
    regions: np.ndarray, scale: float, bins: tuple[int, int], limits: tuple[int, int], last: int
) -> tuple[np.ndarray, np.ndarray]:
    """Beginnings and ends of bins of whole pixels, ``(K, bins, 2)`` vertically and horizontally; neighbours may share a pixel.

    Args:
        regions: ``(K, 5)``, image number and two corners.
        scale: from the corners' coordinates to pixels; they are then rounded.
        bins: bins vertically and horizontally.
        limits: where the pixels that may be read end, likewise.
        last: 1 if the second corner belongs to the region, else 0.
    """
    corners = rounded(regions[:, 1:] * regions.dtype.type(scale))
    sizes = np.maximum(corners[:, 2:] - corners[:, :2] + last, 1)

    def along(axis: int, bins: int, limit: int) -> np.ndarray:
        step = sizes[:, axis].astype(regions.dtype)[:, None] / np.asarray(bins, dtype=regions.dtype)
        first = np.floor(np.arange(bins, dtype=regions.dtype) * step).astype(np.int64)
        end = np.ceil(np.arange(1, bins + 1, dtype=regions.dtype) * step).astype(np.int64)
        return np.clip(np.stack([first, end], axis=-1) + corners[:, axis, None, None], 0, limit)

    return along(1, bins[0], limits[0]), along(0, bins[1], limits[1])


class RegionPool(nn.Module):
    """Base of the modules that pool regions: ``_operation`` with the attributes ``_settings`` after the image and the regions."""

    _operation: ClassVar[Callable[..., Tensor]]
    _settings: ClassVar[tuple[str, ...]] = ("output_size", "spatial_scale")

    def __init__(self, output_size: Any, spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return type(self)._operation(input, rois, *(getattr(self, name) for name in self._settings))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in self._settings)})"
