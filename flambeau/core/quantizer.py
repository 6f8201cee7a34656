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
            if np.asarray(zero_point).dtype.kind == "f":
                steps = np.rint(values * inverse + np.asarray(zero_point, np.float32)).astype(np.float64)
            else:
                steps = np.rint((values * inverse).astype(np.float32)).astype(np.float64) + zero_point
        steps = np.where(np.isnan(steps), limits.max, steps)
        return np.clip(steps, limits.min, limits.max).astype(kind)

    def numbers(self, integers: np.ndarray) -> np.ndarray:
        """Numbers that integers represent, as float32."""
        scale, zero_point = (self._along_axis(part, integers.ndim) for part in (self.scale, self.zero_point))
        steps = (integers.astype(np.float64) - zero_point).astype(np.float32)
        return np.asarray(steps * np.asarray(scale).astype(np.float32), np.float32)
