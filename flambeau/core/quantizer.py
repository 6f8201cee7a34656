"""Schemes of quantization, and the facts of a quantized tensor beside its integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .layout import Constant


class qscheme(Constant):
    """Scheme that maps integers of a quantized tensor to numbers. Source: torch.qscheme."""

    __slots__ = ()


per_tensor_affine, per_channel_affine = qscheme("per_tensor_affine"), qscheme("per_channel_affine")
per_tensor_symmetric, per_channel_symmetric = qscheme("per_tensor_symmetric"), qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")
SCHEMES = (per_tensor_affine, per_channel_affine, per_tensor_symmetric, per_channel_symmetric, per_channel_affine_float_qparams)


@dataclass(frozen=True, slots=True)
class Quantizer:
    """``number = (integer - zero_point) * scale``, for a whole tensor or for each channel along an axis.

    Attributes:
        scheme: which of the two.
        dtype: of the quantized tensor.
        scale, zero_point: numbers, or one-dimensional arrays.
        axis: of the channels; None for a whole tensor.
    """

    scheme: qscheme
    dtype: Any
    scale: Any
    zero_point: Any
    axis: int | None = None

    def _along_axis(self, value: Any, ndim: int) -> Any:
        return value if self.axis is None else value.reshape([-1 if dim == self.axis else 1 for dim in range(ndim)])

    def integers(self, values: np.ndarray, kind: np.dtype) -> np.ndarray:
        """The nearest integers (halves to even) that ``kind`` has; for NaN the smallest of 32 bits' ``long``, which ``kind`` may clamp."""
        scale, zero_point = (self._along_axis(part, values.ndim) for part in (self.scale, self.zero_point))
        limits = np.iinfo(kind)
        inverse = (np.float32(1) / np.asarray(scale).astype(np.float32)).astype(np.float32)
        with np.errstate(all="ignore"):
            if self.axis is None and kind.itemsize == 1:
                steps = step_numbers(values, inverse, zero_point).astype(np.float64)
            else:
                steps = np.rint(values * inverse + np.asarray(zero_point, np.float32)).astype(np.float64)
        steps = np.where(np.isnan(steps), limits.max, steps)
        return np.clip(steps, limits.min, limits.max).astype(kind)

    def numbers(self, integers: np.ndarray) -> np.ndarray:
        """Numbers that integers represent, as float32."""
        scale, zero_point = (self._along_axis(part, integers.ndim) for part in (self.scale, self.zero_point))
        steps = (integers.astype(np.float64) - zero_point).astype(np.float32)
        return np.asarray(steps * np.asarray(scale).astype(np.float32), np.float32)


def step_numbers(values: np.ndarray, inverse: Any, zero_point: Any) -> np.ndarray:
    """``rint(values * inverse + zero_point)``, float32, where product and sum are rounded once; halves to even."""
    return np.rint((np.multiply(values, inverse, dtype=np.float64) + zero_point).astype(np.float32))


_SMALLEST = float(np.float32(6.1e-5))  # steps are not finer: their inverses would be too large for float16


def chosen_parameters(least: float, greatest: float, low: int, high: int) -> tuple[float, int]:
    """The scale and the zero point with which ``low`` to ``high`` stand for ``least`` to ``greatest`` and 0."""
    least, greatest = min(least, 0.0), max(greatest, 0.0)
    scale = (greatest - least) / (high - low)
    if _is_none(scale):
        scale = 0.1
    if scale < _SMALLEST:
        wider, alone = _SMALLEST / float(np.float32(scale)), float(np.float32(_SMALLEST * (high - low)))
        scale = _SMALLEST
        if least == 0 or greatest == 0:
            least, greatest = (0.0, alone) if least == 0 else (-alone, 0.0)
        else:
            least, greatest = (float(np.float32(end * float(np.float32(wider)))) for end in (least, greatest))
    from_least, from_greatest = low - least / scale, high - greatest / scale
    error_of_least, error_of_greatest = abs(low) - abs(least / scale), abs(high) - abs(greatest / scale)
    zero_point = from_least if error_of_least < error_of_greatest else from_greatest
    if zero_point != zero_point:  # of infinities: what C's conversion makes of NaN
        return scale, -(1 << 31)
    return scale, low if zero_point < low else high if zero_point > high else round(zero_point)


def _is_none(scale: float) -> bool:
    """Whether a scale, or its inverse, is none of float32's numbers."""
    return scale < 2.0**-126 and (np.float32(scale) == 0 or bool(np.isinf(np.float32(1) / np.float32(scale))))
