"""Arrays and numbers as other element types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .. import dtype as dtypes
from ..arrays import native
from ..state import run_ignoring_fp
from .operation import Op

_NUMBERS = (int, float, complex, np.number, np.bool_)


_PAIRS = dtypes.PAIR.num
_SINGLE = np.dtype(np.float32).num
_REDUCED = frozenset(dtype.numpy.num for dtype in dtypes.REDUCED)
_HALF, _DOUBLES = np.dtype(np.float16).num, (np.dtype(np.float64).num, np.dtype(np.complex128).num)


def widened(array: np.ndarray) -> np.ndarray:
    """complex32's pairs as complex64, in the same order in memory."""
    result = np.empty_like(array, np.complex64)
    result.real, result.imag = array["real"], array["imag"]
    return result


def _narrowed(array: np.ndarray) -> np.ndarray:
    """Numbers as complex32's pairs, in the same order in memory."""
    result = np.empty_like(array, dtypes.PAIR)
    if array.dtype.itemsize > (8 if array.dtype.kind == "c" else 4):
        array = array.astype(np.complex64)  # PyTorch rounds twice
    result["real"], result["imag"] = array.real, array.imag
    return result


def is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS)


def cast_array(array: np.ndarray, dtype: dtypes.dtype) -> np.ndarray:
    """``array`` with another element type, by C's rules: floats are truncated, integers wrap around."""
    target = dtype.numpy
    if target is None:
        raise NotImplementedError(f"dtype {dtype} is not supported yet: NumPy has no such element type")
    if array.dtype is target or array.dtype == target:
        return array
    if array.__class__ in native.foreign and hasattr(array.__class__, "parts"):  # a sparse array: its values
        return array.astype(target)  # type: ignore[attr-defined]
    source = array.dtype
    if source.num == _PAIRS or target.num == _PAIRS:
        return cast_array(widened(array), dtype) if source.num == _PAIRS else _narrowed(array)
    if target.num == _HALF and source.num in _DOUBLES:
        array = array.real.astype(np.float32)  # PyTorch rounds twice
    return _converted(array, target)


@native.part("_cast")
def _converted(array: np.ndarray, target: np.dtype) -> np.ndarray:
    source, dtype = array.dtype, dtypes.BY_NUM[target.num]
    if source.kind == "c" and target.kind != "c" and target.kind != "b":
        array = array.real
    if dtypes.BY_NUM[source.num] in dtypes.FLOAT8 and target.num != _SINGLE:  # ml_dtypes has no casts between all of them
        array = array.astype(np.float32)
    if dtype is dtypes.float8_e8m0fnu:  # a power of two, of what has a sign its size, of 0 the least
        array = array.astype(np.float32)
        np.maximum(np.abs(array, out=array), np.float32(2.0**-127), out=array)  # in place: of 0-d arrays NumPy would make numbers
    if dtype is dtypes.float8_e4m3fn:
        array = array.astype(np.float32)
        np.clip(array, -448, 448, out=array)  # has no infinity: PyTorch takes the largest number instead
    if source.kind == "f" and target.kind == "u":
        array = array.astype(np.int64)  # a negative float wraps, as C does through int64
    return array.astype(target, order="C" if 0 in array.strides else "K")


CAST: native.Part = _converted.part  # type: ignore[attr-defined]  # generated wrappers write its choice out


def opmath(array: Any) -> Any:
    """An operand in the dtype that kernels compute in: float16 and bfloat16 as float32. None is an operand that was left out."""
    return array if array is None or array.dtype.num not in _REDUCED else cast_array(array, dtypes.float32)


def require_64_bits(value: int) -> None:
    """Raises:
    OverflowError: an integer that has no place in 64 bits, with a sign or without.
    """
    if not -(1 << 63) <= value < 1 << 64:
        raise OverflowError("int too big to convert" if value > 0 else "can't convert negative int to unsigned")


def number_array(value: Any, dtype: dtypes.dtype) -> np.ndarray:
    """A Python number as a 0-d array; integers of 64 bits, with a sign or without, wrap around.

    Raises:
        OverflowError: integers of more.
    """
    if isinstance(value, int) and not isinstance(value, bool) and dtype.category == dtypes.INTEGER:
        require_64_bits(value)
        bits = 8 * dtype.itemsize
        value &= (1 << bits) - 1
        if dtype.is_signed and value >> (bits - 1):
            value -= 1 << bits
        return np.array(value, dtype.numpy)
    if isinstance(value, complex) and not dtype.is_complex:
        value = value.real
    if dtype is dtypes.complex32:
        return np.array((value.real, value.imag), dtypes.PAIR)
    if dtype is dtypes.float8_e8m0fnu:
        return cast_array(np.array(value), dtype)
    # PyTorch rounds to float16 by way of float32
    return np.array(value, np.float32 if dtype is dtypes.float16 and isinstance(value, (float, complex)) else None).astype(dtype.numpy)


def fits_integers(value: float, dtype: dtypes.dtype) -> bool:
    """Whether a real number lies within an integer ``dtype``; negative integers wrap in an unsigned one, fractions do not."""
    limits = np.iinfo(dtype.numpy)
    if isinstance(value, (float, np.floating)):
        return bool(limits.min <= value <= limits.max)
    return bool((limits.min or -int(limits.max)) <= value <= limits.max)


def checked_number(value: Any, dtype: dtypes.dtype) -> np.ndarray:
    """A number as a 0-d array of ``dtype``, which must have room for it; negative integers wrap in an unsigned dtype.

    Raises:
        RuntimeError: a number out of range, or a complex one for a real dtype.
        OverflowError: an integer of more than 64 bits.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.item()
    if isinstance(value, int):
        require_64_bits(value)
    if isinstance(value, complex) and not value.imag and not dtype.is_complex:
        value = value.real
    if dtype is dtypes.bool_:
        return np.array(bool(value))
    if dtype.category == dtypes.INTEGER:
        fits = not isinstance(value, complex) and fits_integers(value, dtype)
        if fits and not isinstance(value, bool):
            value = int(value)
    else:
        largest = float(ml_dtypes.finfo(dtype.to_real().numpy).max)
        parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
        fits = len(parts) == 1 or dtype.is_complex
        fits = fits and all((isinstance(part, float) and not math.isfinite(part)) or -largest <= part <= largest for part in parts)
    if not fits:
        name = f"{dtype.name}_t" if dtype.category == dtypes.INTEGER and dtype is not dtypes.int32 else dtypes.cpp_name(dtype)
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return number_array(value, dtype)


def filling_number(value: Any, dtype: dtypes.dtype) -> np.ndarray:
    """``checked_number`` for what fills or selects, where a number too large for float16 or bfloat16 is infinite."""
    if dtype in dtypes.REDUCED and isinstance(value, (int, float)):
        if isinstance(value, int):
            require_64_bits(value)
        return run_ignoring_fp(number_array, float(value), dtype)
    return checked_number(value, dtype)


def cast_operands(op: Op, values: Sequence[Any], compute: dtypes.dtype | None) -> list[Any]:
    """``values`` as the kernel wants them: operands as arrays of dtype ``compute``, attributes unchanged."""
    arrays = list(values)
    if compute is None:
        return arrays
    params = op.params
    for i in op.positions:
        value, kind = values[i], params[i].kind
        if kind == "list":
            arrays[i] = [cast_array(item, compute) for item in value]
        elif value is None:
            continue
        elif hasattr(value, "dtype") and hasattr(value, "shape"):
            arrays[i] = value if value.dtype is compute.numpy else cast_array(value, compute)
        elif kind == "number":
            arrays[i] = number_array(value, compute)
    return arrays
