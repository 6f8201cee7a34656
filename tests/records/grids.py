"""Records of grids and of what is looked up by them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from .record import Error, Maker, Record, Sample, call


def _samples(m: Maker) -> Iterable[Sample]:
    x, grid = m(2, 2, 3, 4), m(2, 1, 3, 2, low=-1.3, high=1.3)
    for mode, padding, corners in itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (True, False)):
        yield call(x, grid, mode, padding, align_corners=corners)
    solid, places = m(1, 2, 3, 2, 2), m(1, 2, 1, 2, 3, low=-1.3, high=1.3)
    for mode, padding in itertools.product(("bilinear", "nearest"), ("zeros", "border", "reflection")):
        yield call(solid, places, mode, padding, align_corners=False)


def _reflected(x: float, low: float, high: float) -> float:
    if low == high:
        return 0.0
    distance = abs(x - low)
    rest, flips = distance % (high - low), distance // (high - low)
    return low + rest if flips % 2 == 0 else high - rest


def _inside(x: float, size: int, padding: str, corners: bool) -> float:
    if padding == "zeros":
        return x
    if padding == "reflection":
        x = _reflected(x, 0, size - 1) if corners else _reflected(x, -0.5, size - 0.5)
    return min(max(x, 0), size - 1)


def _cubic(t: float) -> float:
    t = abs(t)
    return 1.25 * t**3 - 2.25 * t**2 + 1 if t <= 1 else -0.75 * (t**3 - 5 * t**2 + 8 * t - 4)


def _sampled(x: np.ndarray, grid: np.ndarray, mode: str = "bilinear", padding: str = "zeros", *, align_corners: bool) -> np.ndarray:
    """One place after the other, from the definition."""
    sizes = x.shape[2:]
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for where in np.ndindex(result.shape[:1] + result.shape[2:]):
        n, spot = where[0], where[1:]
        raw = [
            (float(g) + 1) / 2 * (size - 1) if align_corners else ((float(g) + 1) * size - 1) / 2
            for g, size in zip(grid[where][::-1], sizes, strict=True)
        ]
        lines = []  # for each dimension: places and weights
        for place, size in zip(raw, sizes, strict=True):
            if mode == "bicubic":
                near = int(np.floor(place))
                line = [(_inside(k, size, padding, align_corners), _cubic(place - k)) for k in range(near - 1, near + 3)]
            else:
                place = _inside(place, size, padding, align_corners)
                near = int(np.floor(place))
                line = [(near, near + 1 - place), (near + 1, place - near)] if mode == "bilinear" else [(np.round(place), 1.0)]
            lines.append(line)
        for corner in itertools.product(*lines):
            index = tuple(int(k) for k, _ in corner)
            if all(0 <= k < size for k, size in zip(index, sizes, strict=True)):
                result[(n, slice(None), *spot)] += x[(n, slice(None), *index)] * np.prod([weight for _, weight in corner])
    return result.astype(x.dtype)


def _numbered(m: Maker) -> Iterable[Sample]:
    return [call(m(1, 2, 3, 4), m(1, 2, 2, 2, low=-1.3, high=1.3), *modes) for modes in ((0, 0, True), (1, 1, False), (2, 2, False))]


def _numbered_solid(m: Maker) -> Iterable[Sample]:
    return [call(m(1, 2, 3, 2, 2), m(1, 2, 2, 1, 3, low=-1.3, high=1.3), *modes) for modes in ((0, 0, True), (1, 1, False), (0, 2, False))]


def _by_number(x: np.ndarray, grid: np.ndarray, mode: int, padding: int, corners: bool) -> np.ndarray:
    names = ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding]
    return _sampled(x, grid, *names, align_corners=corners)


def _affine(theta: np.ndarray, size: Any, align_corners: bool = False) -> np.ndarray:
    def line(n: int) -> np.ndarray:
        return np.zeros(1) if n == 1 else np.linspace(-1, 1, n) * (1 if align_corners else (n - 1) / n)

    axes = np.meshgrid(*[line(n) for n in size[2:]], indexing="ij")
    base = np.stack([*axes[::-1], np.ones_like(axes[0])], -1)
    return np.einsum("...k,njk->n...j", base, theta).astype(theta.dtype)


def _maps(m: Maker) -> Iterable[Sample]:
    return [call(m(2, 2, 3), (2, 1, 3, 4), align) for align in (True, False)] + [call(m(1, 3, 4), (1, 2, 2, 3, 2), False)]


FLOATING = ("float32", "float64")
RECORDS = [
    Record(
        "nn.functional.grid_sample",
        _samples,
        _sampled,
        dtypes=FLOATING,
        errors=(
            Error(lambda m: call(m(1, 1, 2, 2), m(1, 2, 2, 2), "linear"), ValueError, "expected mode to be"),
            Error(lambda m: call(m(1, 1, 2, 2), m(1, 2, 2, 2), padding_mode="same"), ValueError, "expected padding_mode to be"),
            Error(lambda m: call(m(1, 1, 2, 2), m(2, 2, 2, 2), align_corners=True), RuntimeError, "same batch size"),
            Error(lambda m: call(m(1, 1, 2, 2), m(1, 2, 2, 3), align_corners=True), RuntimeError, "size 2 in last dimension"),
            Error(lambda m: call(m(1, 1, 0, 2), m(1, 2, 2, 2), align_corners=True), RuntimeError, "non-empty spatial dimensions"),
            Error(lambda m: call(m(1, 1, 1, 2, 2), m(1, 1, 2, 2, 3), "bicubic", align_corners=True), RuntimeError, "only supports 4D"),
            Error(lambda m: call(m(1, 1, 2, 2), m(1, 2, 2, 2, dtype="float64"), align_corners=True), RuntimeError, "expected scalar type"),
        ),
    ),
    *(Record(name, _numbered, _by_number, dtypes=FLOATING) for name in ("grid_sampler", "grid_sampler_2d")),
    Record("grid_sampler_3d", _numbered_solid, _by_number, dtypes=FLOATING),
    *(Record(name, _maps, _affine, dtypes=FLOATING) for name in ("affine_grid_generator",)),
    Record(
        "nn.functional.affine_grid",
        _maps,
        _affine,
        dtypes=FLOATING,
        errors=(
            Error(lambda m: call(m(2, 2, 3), (2, 1, 3), True), NotImplementedError, "only supports 4D and 5D"),
            Error(lambda m: call(m(2, 2, 3), (2, 1, 3, 0), True), ValueError, "non-zero, positive"),
            Error(lambda m: call(m(2, 3, 4), (2, 1, 3, 3), True), ValueError, "2D affine matrices"),
            Error(lambda m: call(m(2, 2, 3), (2, 1, 3, 3), True), ValueError, "floating point type", dtype="int64"),
        ),
    ),
]
