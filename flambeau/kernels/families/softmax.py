"""Softmax, its logarithm, and their gradients: three passes over each row, all but the first in cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...core.arrays.native import native
from ...core.shape import wrap_dim
from ..compiler.build import kernel
from ..compiler.language import SIZES, Builder, Value
from ..compiler.memory import empty
from ..mathematics.vectors import exp, log
from .rows import Place, Row, float_element, rows, rows_per_chunk, view_of


def exponentials(row: Row, x: Value, kept: Value | None = None) -> tuple[Value, Value]:
    """The row's maximum, and the sum of ``exp(x - maximum)``; these go to ``kept`` too."""
    k = row.k
    top = row.most(lambda at: at.load(x))  # x - max: exp overflows above 88.7 in float32

    def power(at: Place) -> Value:
        value = exp(k, at.load(x) - top)
        if kept is not None:
            at.store(value, kept)
        return value

    return top, row.total(power)


@kernel
def softmax_rows(k: Builder, element: str, across: bool) -> None:
    """``exp(x - max) / sum``; half precisions compute the power again rather than round it twice."""
    x, y = k.array(), k.array()
    keeps = SIZES[element] >= 4

    def body(row: Row) -> None:
        top, total = exponentials(row, x, y if keeps else None)
        scale = 1.0 / total
        row.map(lambda at: at.store((at.load(y) if keeps else exp(k, at.load(x) - top)) * scale, y))

    rows(k, element, across, body)


@kernel
def log_softmax_rows(k: Builder, element: str, across: bool) -> None:
    """``x - max - log(sum)``."""
    x, y = k.array(), k.array()

    def body(row: Row) -> None:
        top, total = exponentials(row, x)
        spread = log(k, total)
        row.map(lambda at: at.store(at.load(x) - top - spread, y))

    rows(k, element, across, body)


@kernel
def softmax_slope(k: Builder, element: str, across: bool) -> None:
    """``y * (g - sum(g * y))``."""
    g, y, result = k.array(), k.array(), k.array()

    def body(row: Row) -> None:
        dot = row.total(lambda at: at.load(g) * at.load(y))
        row.map(lambda at: at.store((at.load(g) - dot) * at.load(y), result))

    rows(k, element, across, body)


@kernel
def log_softmax_slope(k: Builder, element: str, across: bool) -> None:
    """``g - exp(y) * sum(g)``."""
    g, y, result = k.array(), k.array(), k.array()

    def body(row: Row) -> None:
        total = row.total(lambda at: at.load(g))
        row.map(lambda at: at.store(at.load(g) - exp(k, at.load(y)) * total, result))

    rows(k, element, across, body)


@lru_cache(maxsize=1024)
def _planned(kernel: Any, dtype: np.dtype, shape: tuple[int, ...], dim: int) -> Callable[..., None] | None:
    """A kernel over contiguous arrays of one shape and dtype; None where there is none for the dtype."""
    element = float_element(dtype)
    if element is None or not shape:
        return None
    view = view_of(shape, wrap_dim(dim, len(shape)))
    units, per = rows_per_chunk(element, view)
    return kernel(element, view[2] > 1).call(-(-units // per), view[1], view[2], units, per)


def _along(kernel: Any, dim: int, *arrays: np.ndarray) -> np.ndarray | None:
    """A kernel over arrays of one shape and dtype, into a new one."""
    first = arrays[0]
    run = _planned(kernel, first.dtype, first.shape, dim)
    if run is None:
        return None
    result = empty(first.shape, first.dtype)
    run(*[array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in arrays], result)
    return result


def _softmax(kernel: Any, input: np.ndarray, dim: int, dtype: Any = None) -> np.ndarray | None:
    return _along(kernel, dim, input) if dtype is None or dtype.numpy == input.dtype else None


def _slope(kernel: Any, grad_output: np.ndarray, output: np.ndarray, dim: int, input_dtype: Any) -> np.ndarray | None:
    dtype, shape = output.dtype, output.shape
    if grad_output.dtype != dtype or grad_output.shape != shape or (input_dtype is not None and input_dtype.numpy != dtype):
        return None
    return _along(kernel, dim, grad_output, output)


softmax = native("softmax", overwrites=1)(partial(_softmax, softmax_rows))
log_softmax = native("log_softmax", overwrites=1)(partial(_softmax, log_softmax_rows))
softmax_backward = native("_softmax_backward_data", overwrites=2)(partial(_slope, softmax_slope))
log_softmax_backward = native("_log_softmax_backward_data", overwrites=2)(partial(_slope, log_softmax_slope))
