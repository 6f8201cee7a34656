"""Weights of bytes as panels, which products of integers read; and what is made of their sums.

A panel has 16 columns. Four neighbours of a column lie side by side, then those of the next one: a drawing stands in the module
``kernels/families/integer_products.py``. Zeros fill up the last panel, pairs of panels, and columns to 64 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .native import part

COLUMNS, TOGETHER, DEPTH = 16, 4, 64
_FAR = 1 << 30  # beyond all bytes, and far from where int32 wraps


def shape_of(n: int, inner: int) -> tuple[int, int, int, int]:
    """Of the panels of weights ``(n, inner)``."""
    return -(-n // (2 * COLUMNS)) * 2, -(-inner // DEPTH) * (DEPTH // TOGETHER), COLUMNS, TOGETHER


@part("_pack_panels")
def _packed(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The panels of weights ``(n, k)``, and the sum of each row and of as many more as there are in panels."""
    panels, lines = shape_of(*weight.shape)[:2]
    filled = np.zeros((panels * COLUMNS, lines * TOGETHER), np.int8)
    filled[: weight.shape[0], : weight.shape[1]] = weight
    data = filled.reshape(panels, COLUMNS, lines, TOGETHER).swapaxes(1, 2)
    return np.ascontiguousarray(data), filled.sum(1, dtype=np.int32)


class Panels:
    """Weights ``(n, k)`` of int8, a row for each column of a result.

    Attributes:
        data: ``(panels, lines, 16, 4)``.
        columns: of each row its sum, int32.
        points: zero points of the rows, int32; None where all are 0.
        n, inner: the weights' sizes.
    """

    __slots__ = ("columns", "data", "inner", "n", "points")

    def __init__(self, weight: np.ndarray, points: np.ndarray | None = None) -> None:
        self.n, self.inner = weight.shape
        self.data, self.columns = _packed(weight)
        self.points = None if points is None or not points.any() else padded(points.astype(np.int32))

    def rows(self) -> np.ndarray:
        """The weights again, ``(n, k)``."""
        panels, lines = self.data.shape[:2]
        return self.data.swapaxes(1, 2).reshape(panels * COLUMNS, lines * TOGETHER)[: self.n, : self.inner]

    def sums(self, a: np.ndarray, zero: int) -> np.ndarray:
        """``(a - zero) @ (weights - points).T`` for ``(m, k)`` bytes, as int32, exactly up to wrapping: float64 holds every sum."""
        weight = self.rows().astype(np.float64)
        if self.points is not None:
            weight -= self.points[: self.n, None]
        return wrapped((a.astype(np.float64) - zero) @ weight.T)


@dataclass(frozen=True, slots=True)
class Finishing:
    """Results made of sums: ``sums * scale + bias``; or bytes, ``rint((sums + bias * step) * scale) + zero``, ``least`` at least.

    Products and sums of the bias are rounded once.

    Attributes:
        scale, bias: float32 for each column and as many more as there are in panels.
        relu: whether what is negative becomes 0.
    """

    scale: np.ndarray
    bias: np.ndarray | None
    relu: bool = False
    zero: int = 0
    least: int = 0
    step: float = 1.0

    def of(self, sums: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """The result of sums, as ``dtype``: float32, or a type of bytes."""
        n, values = sums.shape[-1], sums.astype(np.float32)
        scale, bias = self.scale[:n], np.zeros(n) if self.bias is None else self.bias[:n].astype(np.float64)
        if dtype.kind == "f":
            result = (values * scale.astype(np.float64) + bias).astype(np.float32)  # a product of two float32 numbers is exact
            return np.maximum(result, np.float32(0)) if self.relu else result
        rounded = np.clip(np.rint((values + bias * self.step).astype(np.float32) * scale), -(2.0**24), 2.0**24)
        return np.clip(rounded.astype(np.int64) + self.zero, self.least, np.iinfo(dtype).max).astype(dtype)


class PackedLinear:
    """The weights of a quantized linear layer.

    Args:
        weight: ``(n, k)``, int8.
        scales, points: steps and zero points of rows, or 0-d of the whole.
        bias: ``(n,)`` float32, or None; what is written to it later holds.
    Attributes:
        panels: the weights. scales: float32, as long as panels have columns. scale: the whole's, or None.
    """

    __slots__ = ("bias", "panels", "scale", "scales")

    def __init__(self, weight: np.ndarray, scales: np.ndarray, points: np.ndarray, bias: np.ndarray | None) -> None:
        n = len(weight)
        self.panels = Panels(weight, np.broadcast_to(points, (n,)))
        self.scales = padded(np.broadcast_to(scales, (n,)).astype(np.float32))
        self.scale = None if scales.ndim else np.float32(scales)
        self.bias = bias

    def numbers(self, scale: float, relu: bool) -> Finishing:
        """To float32, of inputs whose step is ``scale``."""
        return Finishing(self.scales * np.float32(scale), self._added(), relu)

    def bytes(self, scale: float, out_scale: float, out_zero: int, relu: bool) -> Finishing:
        """To bytes whose step is ``out_scale``, and zero point ``out_zero``."""
        with np.errstate(all="ignore"):  # behind the last column there are zeros
            both = self.scales * np.float32(scale)
            bias, step, zero = self._added(), 1.0, min(max(out_zero, -_FAR), _FAR)
            if self.scale is not None:  # as PyTorch rounds: a quotient of each row, but a product with the whole's reciprocal
                step = float(np.float32(1) / (self.scale * np.float32(scale)))
            elif bias is not None:
                bias = bias / both
            return Finishing(both / np.float32(out_scale), bias, zero=zero, least=max(zero, 0) if relu else 0, step=step)

    def _added(self) -> np.ndarray | None:
        return None if self.bias is None else padded(self.bias)


def padded(values: np.ndarray) -> np.ndarray:
    """A vector, with zeros up to a multiple of two panels' columns; itself where it has as many and lies together."""
    if len(values) % (2 * COLUMNS) == 0 and values.flags.c_contiguous:
        return values
    filled = np.zeros(-(-len(values) // (2 * COLUMNS)) * 2 * COLUMNS, values.dtype)
    filled[: len(values)] = values
    return filled


def wrapped(sums: np.ndarray) -> np.ndarray:
    """Whole float64 numbers as int32, which wraps."""
    return sums.astype(np.int64).astype(np.int32)
