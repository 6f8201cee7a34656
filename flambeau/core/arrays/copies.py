"""Copies, fills, limits and sums of arrays: parts that many operations share, each with a native kernel for large arrays.

What nearly every call comes by (copies into memory, fills, sums of gradients) writes its part's choice out, as generated wrappers do:
that spares two calls of Python functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..calls.interruption import is_busy
from ..dtype import PAIR
from ..state import ignoring_fp, run_ignoring_fp
from . import native


# -- copies ---------------------------------------------------------------------------------------------------------------------------
@native.part("_copy_into")
def _assigned(target: np.ndarray, source: np.ndarray) -> None:
    target[...] = source


_copy: native.Part = _assigned.part  # type: ignore[attr-defined]


def copy_into(target: np.ndarray, source: np.ndarray) -> None:
    """``target[...] = source``."""
    if target.size < _copy.threshold:
        target[...] = source
    else:
        _copy.large(target, source)


@native.part("_contiguous")
def copied(array: np.ndarray) -> np.ndarray:
    """``array.copy()``."""
    return array.copy()


def copied_in_order(array: np.ndarray) -> np.ndarray:
    """A copy whose dimensions lie in memory in the order of ``array``'s."""
    return copied(array) if array.flags.c_contiguous else array.copy("K")


def contiguous(array: np.ndarray) -> np.ndarray:
    """``np.ascontiguousarray(array)``."""
    if not array.flags.c_contiguous:
        return copied(array)
    return np.ascontiguousarray(array) if array.__class__ is np.ndarray else array


# -- fills ----------------------------------------------------------------------------------------------------------------------------
# NumPy fills with vector instructions: an element costs a quarter of one of an element-wise operation.
@native.part("_fill", work="array.size // 4")
def _filled(array: np.ndarray, value: Any) -> None:
    array.fill(value)


filling: native.Part = _filled.part  # type: ignore[attr-defined]


def fill(array: np.ndarray, value: Any) -> None:
    """``array.fill(value)``."""
    if array.size < filling.threshold:
        array.fill(value)
    else:
        filling.large(array, value)


@native.part("_zeros", work="prod(shape) // 4")
def zeros(shape: Any, dtype: Any) -> np.ndarray:
    """``np.zeros(shape, dtype)`` for a result that is written to at once: large ones in memory that is used again."""
    return np.zeros(shape, dtype)


zeroing: native.Part = zeros.part  # type: ignore[attr-defined]


# -- limits and sums ------------------------------------------------------------------------------------------------------------------
@native.part("_limits")
def limits(indices: np.ndarray) -> tuple[int, int]:
    """The least and the greatest of some indices."""
    return indices.min(), indices.max()


@native.part("_sum_of_two", work="a.size // 4")
def _added(a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> Any:
    return np.add(a, b, out)


adding: native.Part = _added.part  # type: ignore[attr-defined]
other_sums: list[Callable[..., Any]] = []  # what adds arrays that NumPy cannot: sparse ones


def add(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> Any:
    """Sum of two gradients of one shape and dtype; another array than ``out`` where that cannot hold it, as a sparse one a dense sum."""
    kernel = np.add if a.size < adding.threshold else adding.large
    try:
        return ignoring_fp(kernel, a, b, out)
    except TypeError:
        if a.__class__ is np.ndarray and b.__class__ is np.ndarray and a.dtype == PAIR:
            total = np.empty_like(a) if out is None else out
            for half in ("real", "imag"):
                total[half] = a[half] + b[half]
            return total
        if not other_sums or (a.__class__ is np.ndarray and b.__class__ is np.ndarray):
            raise
        return other_sums[0](a, b, out)
    except RuntimeError as error:
        if not is_busy(error):
            raise
        return run_ignoring_fp(kernel, a, b, out)
