"""Tensors of numbers that follow a rule: ``arange``, ``linspace``, ``logspace``."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays import native
from ..core.arrays.kinds import kind_of
from ..core.calls.casting import cast_array, checked_number, fits_integers
from ..core.calls.creation import Creation
from ..core.calls.out import Out
from ..core.calls.registry import factory
from ..core.state import run_ignoring_fp
from ..core.tensor import Tensor

_RANGE_FORMS = (
    "arange() received an invalid combination of arguments - expected (end), (start, end) or (start, end, step), numbers, and the "
    "keywords out, dtype, layout, device, pin_memory, requires_grad"
)

_FILLED = Out(warns=False, fills=True)


def _as_number(value: Any, operation: str, argument: str) -> Any:
    """A Python number out of a number or a one-element tensor."""
    if isinstance(value, (Tensor, np.number, np.bool_)):
        value = value.item()
    if isinstance(value, complex):
        if value.imag:
            raise RuntimeError("value cannot be converted to type double without overflow")
        return value.real
    if not isinstance(value, (int, float)):
        raise TypeError(f"{operation}(): argument '{argument}' must be Number, not {type(value).__name__}")
    return value


@factory(
    out=_FILLED,
    fast="np.arange(count) if (count := bounds[0]).__class__ is int and count >= 0 and len(bounds) == 1 "
    "and start is end is step is dtype is None else None",
    asked="bounds, dtype, dtypes._default",
)
def arange(new: Creation, *bounds: Any, start: Any = None, end: Any = None, step: Any = None) -> Any:
    """Numbers from ``start`` (inclusive) to ``end`` (exclusive), ``step`` apart: ``arange(end)``, ``arange(start, end, step=1)``.

    Args:
        start, end, step: numbers, by position or keyword.
        dtype: element type; int64 when None and all three are integers, the default floating type otherwise.
        out, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        ``(ceil((end - start) / step),)``, each number computed as ``start + i * step``.
    Raises:
        RuntimeError: a step of 0 or of the wrong sign, bounds that are not finite, or beyond int64 for an integer dtype.
        TypeError: no ``end``, or more than three numbers.
        NotImplementedError: a bool or complex dtype.
    Source: torch.arange.
    Example:
        >>> torch.arange(5), torch.arange(1, 2, 0.25)
        (tensor([0, 1, 2, 3, 4]), tensor([1.0000, 1.2500, 1.5000, 1.7500]))
    """
    start, end, step = _range_bounds(bounds, {"start": start, "end": end, "step": step})
    kind = new.dtype
    if kind is None:
        whole = all(not (isinstance(e, (float, complex)) or (isinstance(e, Tensor) and e.dtype.category > 1)) for e in (start, end, step))
        kind = dtypes.int64 if whole else dtypes.get_default_dtype()
    numbers = [_as_number(bound, "arange", name) for bound, name in ((start, "start"), (end, "end"), (step, "step"))]
    return new.make(range_array, *numbers, kind)


def _range_bounds(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, Any, Any]:
    named = {name: value for name, value in keywords.items() if value is not None}
    names = ("end",) if len(args) == 1 and "end" not in named else ("start", "end", "step")
    if len(args) > 3 or set(names[: len(args)]) & named.keys():
        raise TypeError(_RANGE_FORMS)
    given = {**dict(zip(names, args, strict=False)), **named}
    if "end" not in given or ("step" in given and "start" not in given):
        raise TypeError(_RANGE_FORMS)
    return given.get("start", 0), given["end"], given.get("step", 1)


def check_range(start: Any, end: Any, step: Any) -> None:
    """Raises:
    RuntimeError: no such range.
    """
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if not ((step > 0 and end >= start) or (step < 0 and end <= start)):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def range_array(start: Any, end: Any, step: Any, dtype: dtypes.dtype) -> np.ndarray:
    """The values of ``arange``, computed in int64 or float64 and rounded once."""
    if dtype is dtypes.bool_ or dtype.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{dtype.legacy}'")
    if dtype.category == dtypes.INTEGER:
        check_range(start, end, step)
        if not all(fits_integers(bound, dtypes.int64) for bound in (start, end, step)):
            raise RuntimeError("value cannot be converted to type int64_t without overflow")
        first, by = int(start), int(step)
        if dtype is dtypes.int64:  # int64 alone is counted after truncation
            end, step, start = int(end), by, first
            if not step:
                raise ValueError("step must be nonzero")
            check_range(start, end, step)
        return cast_array(np.arange(_steps(start, end, step), dtype=np.int64) * by + first, dtype)
    check_range(start, end, step)
    count = _steps(start, end, step)
    return cast_array(progression(dtype.numpy, count, start, step, None), dtype)


@native.part("_progression", work="count")
def progression(dtype: Any, count: int, first: float, step: float, last: None = None) -> np.ndarray:
    """``first``, ``first + step``, ...: in float64, or rounded to ``dtype`` once. A ``first`` of -0.0 changes no sign of a zero."""
    return np.arange(count) * float(step) + float(first)


def _steps(start: Any, end: Any, step: Any) -> int:
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return -((start - end) // step)
    return math.ceil((end - start) / step)


@factory(out=_FILLED)
def range_(new: Creation, start: Any = 0, end: Any = None, step: Any = 1) -> Any:
    """Numbers from ``start`` to ``end``, both inclusive. Deprecated; use ``arange``, which leaves out the end.

    Args:
        start, end, step: numbers.
        dtype: element type; the default floating type when None.
        out, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        ``(floor((end - start) / step) + 1,)``.
    Raises:
        RuntimeError: a step of 0 or of the wrong sign, or bounds that are not finite.
        TypeError: no ``end``.
    Source: torch.range.
    Example:
        >>> torch.range(1, 4)
        tensor([1., 2., 3., 4.])
    """
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range "
        "builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
        stacklevel=5,  # the caller of the public function
    )
    if end is None:
        raise TypeError("range() missing required argument: end")
    first, last, by = (_as_number(bound, "range", name) for bound, name in ((start, "start"), (end, "end"), (step, "step")))
    check_range(first, last, by)
    values = np.arange(math.floor((last - first) / by) + 1) * by + first
    return cast_array(values, new.dtype_or_default())


def _spaced_dtype(new: Creation, *ends: Any) -> dtypes.dtype:
    """Result dtype of ``linspace`` and ``logspace``: complex where an end is."""
    is_complex = any(isinstance(e, complex) or (isinstance(e, Tensor) and e.dtype.is_complex) for e in ends)
    default = dtypes.get_default_dtype()
    return new.dtype or (default.to_complex() if is_complex else default)


def spaced_array(start: Any, end: Any, steps: int, dtype: dtypes.dtype) -> np.ndarray:
    """``steps`` evenly spaced numbers, counted from both ends.

    They are PyTorch's to the bit: the step is rounded to ``dtype``, its product with the place is not (a processor multiplies and adds at
    once); of 16 bits each operation is rounded.
    """
    compute: Any = np.dtype(np.float64) if dtype.category < dtypes.FLOATING else dtype.numpy
    first, last = compute.type(start), compute.type(end)
    if dtype.category < dtypes.FLOATING:
        first, last = compute.type(int(start)), compute.type(int(end))
    if steps == 1:
        return cast_array(np.full(1, first), dtype)
    step = (last - first) / compute.type(max(steps - 1, 1))
    return cast_array(_from_both_ends(compute, steps, first, step, last), dtype)


@native.part("_progression", work="count")
def _from_both_ends(dtype: np.dtype, count: int, first: Any, step: Any, last: Any) -> np.ndarray:
    half, places = count // 2, np.arange(count - count // 2)
    combined = _rounded_each if dtypes.BY_NUM[dtype.num] in dtypes.REDUCED else _rounded_once
    values = np.empty(count, dtype)
    values[:half] = combined(places[:half], step, first)
    values[half:] = combined(places[::-1], -step, last)
    return values


def _rounded_each(places: np.ndarray, step: Any, offset: Any) -> np.ndarray:
    return places.astype(step.dtype) * step + offset


def _rounded_once(places: np.ndarray, step: Any, offset: Any) -> np.ndarray:
    """``places * step + offset`` without rounding in between, for whole numbers below ``2**26``."""
    if step.dtype == np.float32 or step.dtype == np.complex64:  # products of 24 bits each are exact in 53
        wide = np.float64 if step.dtype == np.float32 else np.complex128
        return places * wide(step) + wide(offset)
    if step.dtype == np.complex128:
        return _rounded_once(places, step.real, offset.real) + 1j * _rounded_once(places, step.imag, offset.imag)
    product = places * step
    above = step * (2.0**27 + 1)
    above -= above - step  # the upper 26 bits of the step: Veltkamp 1968
    rest = (places * above - product) + places * (step - above)
    total = product + offset
    of_offset = total - product
    rest += (product - (total - of_offset)) + (offset - of_offset)  # what rounding took from the sum: Knuth
    return np.where(np.isfinite(rest), total + rest, total)


def _check_steps(steps: Any, operation: str) -> int:
    if isinstance(steps, (bool, float)) or not hasattr(steps, "__index__"):
        raise TypeError(
            f"{operation}() received an invalid combination of arguments - got 'steps' of type {type(steps).__name__}, but expected an int"
        )
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return steps.__index__()


def _end(value: Any, operation: str, argument: str) -> Any:
    if isinstance(value, Tensor):
        if value._array.ndim:
            raise RuntimeError(
                f"{operation} only supports 0-dimensional start and end tensors, but got {argument} with {value._array.ndim} dimension(s)."
            )
        return value.item() if kind_of(value._array).has_values else 0
    if not isinstance(value, (bool, int, float, complex, np.number)):
        raise TypeError(f"{operation}(): argument '{argument}' must be Number, not {type(value).__name__}")
    return value


@factory(out=_FILLED)
def linspace(new: Creation, start: Any, end: Any, steps: int = 100) -> Any:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both inclusive.

    Args:
        start, end: numbers or 0-d tensors.
        steps: how many; 100 where old programs leave it out.
        dtype: element type; the default floating type (complex for complex ends) when None.
        out, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        ``(steps,)``.
    Raises:
        RuntimeError: a negative number of steps, or an end that the dtype cannot hold.
        TypeError: ``steps`` is no integer.
    Source: torch.linspace.
    Example:
        >>> torch.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    kind, count = _spaced_dtype(new, start, end), _check_steps(steps, "linspace")
    first, last = _end(start, "linspace", "start"), _end(end, "linspace", "end")
    if kind.category < dtypes.COMPLEX and (isinstance(first, complex) or isinstance(last, complex)):
        raise RuntimeError(f"torch.linspace(): inferred dtype ComplexFloat can't be safely cast to passed dtype {kind}")
    if count == 1:
        last = first
    if count:
        checked_number(first, kind)
        checked_number(last, kind)
    return run_ignoring_fp(new.make, spaced_array, first, last, count, kind)


@factory(out=_FILLED)
def logspace(new: Creation, start: Any, end: Any, steps: int = 100, base: float = 10.0) -> Any:
    """``steps`` numbers from ``base**start`` to ``base**end`` whose logarithms are evenly spaced.

    Args:
        start, end: exponents; numbers or 0-d tensors.
        steps: how many; 100 where old programs leave it out.
        base: base of the powers.
        dtype, out, layout, device, pin_memory, requires_grad: as for ``torch.linspace``.
    Returns:
        ``(steps,)``.
    Raises:
        RuntimeError: a negative number of steps, or an integer dtype that cannot hold an exponent.
        TypeError: ``steps`` is no integer.
    Source: torch.logspace.
    Example:
        >>> torch.logspace(0, 3, 4, base=2)
        tensor([1., 2., 4., 8.])
    """
    kind, count = _spaced_dtype(new, start, end), _check_steps(steps, "logspace")
    first, last = _end(start, "logspace", "start"), _end(end, "logspace", "end")
    if kind.category < dtypes.FLOATING:
        first, last = (int(checked_number(end, kind)) if count > 1 else int(end) for end in (first, last))
    wide = dtypes.complex128 if kind.is_complex else dtypes.float64
    powers = run_ignoring_fp(lambda: np.power(wide.numpy.type(base), spaced_array(first, last, count, wide)))
    return cast_array(powers, kind)
