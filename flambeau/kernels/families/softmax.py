"""Softmax, its logarithm, and their gradients: three passes over each row, all but the first in cache.

Rows of a few elements would leave most of a register's work to joining its lanes. As many of them as there are lanes are transposed to a
panel of their own, and each lane has a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from .tiles import Tiles, below

FEW = 32  # elements of a row below which each lane has one


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


def _softmax(row: Row, x: Value, y: Value) -> None:
    """``exp(x - max) / sum``; half precisions compute the power again rather than round it twice."""
    k = row.k
    keeps = SIZES[row.memory] >= 4
    top, total = exponentials(row, x, y if keeps else None)
    scale = 1.0 / total
    row.map(lambda at: at.store((at.load(y) if keeps else exp(k, at.load(x) - top)) * scale, y))


def _log_softmax(row: Row, x: Value, y: Value) -> None:
    """``x - max - log(sum)``."""
    k = row.k
    top, total = exponentials(row, x)
    spread = log(k, total)
    row.map(lambda at: at.store(at.load(x) - top - spread, y))


def _softmax_slope(row: Row, g: Value, y: Value, result: Value) -> None:
    """``y * (g - sum(g * y))``."""
    dot = row.total(lambda at: at.load(g) * at.load(y))
    row.map(lambda at: at.store((at.load(g) - dot) * at.load(y), result))


def _log_softmax_slope(row: Row, g: Value, y: Value, result: Value) -> None:
    """``g - exp(y) * sum(g)``."""
    k = row.k
    total = row.total(lambda at: at.load(g))
    row.map(lambda at: at.store(at.load(g) - exp(k, at.load(y)) * total, result))


def few_rows(
    k: Builder, element: str, read: Sequence[Value], written: Value | None, numbers: Sequence[Value], body: Callable[..., None]
) -> None:
    """``body(rows, *panels)`` for as many rows of less than ``FEW`` elements as there are lanes, in panels of what is read and written."""
    n, _, count, per = numbers
    lanes, tiles = k.lanes(element), Tiles(k, element, 1)
    panels = [k.scratch(FEW * lanes, element) for _ in range(len(read) + (written is not None))]

    def group(first: Value, stop: Value) -> None:
        left = k.least(stop - first, lanes)
        for pointer, panel in zip(read, panels, strict=False):
            tiles.pack(k.at(pointer, first * n, element), n, (left, n), panel, lambda value: value)
        body(Row(k, element, True, k.const(0, "i64"), n, k.const(lanes, "i64"), first, below(k, left, lanes)), *panels)
        if written is not None:
            tiles.unpack(panels[-1], k.at(written, first * n, element), n, (left, n), lambda value, _: value)

    def chunk(c: Value) -> None:
        stop = k.least((c + 1) * per, count)
        k.loop(c * per, stop, lambda first: group(first, stop), step=lanes)

    k.for_chunks(chunk)


FORMS: dict[str, Callable[..., None]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "softmax_slope": _softmax_slope,
    "log_softmax_slope": _log_softmax_slope,
}


@kernel
def softmaxes(k: Builder, element: str, form: str, arrays: int, across: bool) -> None:
    """Rows of a form that reads and writes so many arrays, the last of which is its result."""
    pointers = [k.array() for _ in range(arrays)]
    rows(k, element, across, lambda row: FORMS[form](row, *pointers))


@kernel
def softmaxes_of_few(k: Builder, element: str, form: str, arrays: int) -> None:
    """The same of rows of a few elements, each lane having one."""
    *read, written = [k.array() for _ in range(arrays)]
    few_rows(k, element, read, written, [k.integer() for _ in range(4)], FORMS[form])


@lru_cache(maxsize=1024)
def _planned(form: str, arrays: int, dtype: np.dtype, shape: tuple[int, ...], dim: int) -> Callable[..., None] | None:
    """A kernel over contiguous arrays of one shape and dtype; None where there is none for the dtype."""
    element = float_element(dtype)
    if element is None or not shape:
        return None
    view = view_of(shape, wrap_dim(dim, len(shape)))
    units, per = rows_per_chunk(element, view)
    if view[2] == 1 and 1 < view[1] < FEW and element in ("f32", "f64"):
        made = softmaxes_of_few(element, form, arrays)
    else:
        made = softmaxes(element, form, arrays, view[2] > 1)
    return made.call(-(-units // per), view[1], view[2], units, per)


def _along(form: str, dim: int, *arrays: np.ndarray) -> np.ndarray | None:
    """A kernel over arrays of one shape and dtype, into a new one."""
    first = arrays[0]
    run = _planned(form, len(arrays) + 1, first.dtype, first.shape, dim)
    if run is None:
        return None
    result = empty(first.shape, first.dtype)
    run(*[array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in arrays], result)
    return result


def _forward(form: str, input: np.ndarray, dim: int, dtype: Any = None) -> np.ndarray | None:
    return _along(form, dim, input) if dtype is None or dtype.numpy == input.dtype else None


def _slope(form: str, grad_output: np.ndarray, output: np.ndarray, dim: int, input_dtype: Any) -> np.ndarray | None:
    dtype, shape = output.dtype, output.shape
    if grad_output.dtype != dtype or grad_output.shape != shape or (input_dtype is not None and input_dtype.numpy != dtype):
        return None
    return _along(form, dim, grad_output, output)


softmax = native("softmax", overwrites=1)(partial(_forward, "softmax"))
log_softmax = native("log_softmax", overwrites=1)(partial(_forward, "log_softmax"))
softmax_backward = native("_softmax_backward_data", overwrites=2)(partial(_slope, "softmax_slope"))
log_softmax_backward = native("_log_softmax_backward_data", overwrites=2)(partial(_slope, "log_softmax_slope"))
