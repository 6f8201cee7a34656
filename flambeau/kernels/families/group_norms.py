"""Group and instance norm of contiguous images: each group by itself, so that it is still in a cache when it is read again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compiler.build import kernel
from ..compiler.language import Builder, Value, register_element
from ..compiler.memory import empty
from .rows import Row, as_parameter, rows, run, wide_dtype


@kernel
def group_rows(k: Builder, element: str, weight: bool, bias: bool) -> None:
    """Rows of so many ``lines``, normalised, of which each has one weight and one bias; those of all ``channels`` follow each other."""
    x, w, b, y, means, variances = (k.array() for _ in range(6))
    lines, channels, eps = k.integer(), k.integer(), k.number(register_element(element))

    def body(row: Row) -> None:
        mean, squares = row.moments(x)
        variance = squares / row.count
        row.put(mean, means)
        row.put(variance, variances)
        scale, length = 1.0 / k.sqrt(variance + eps), row.n // lines

        def line(i: Value) -> None:
            channel = (row.index * lines + i) % channels
            factor = scale * k.load(w, channel, row.element) if weight else scale
            shift = k.load(b, channel, row.element) if bias else k.const(0, row.element)
            part = Row(k, element, False, row.start + i * length, length, row.stride, row.index)
            part.map(lambda at: at.store(k.fma(at.load(x) - mean, factor, shift), y), again=True)

        k.loop(0, lines, line)

    rows(k, element, False, body)


def groups(input: np.ndarray, weight: Any, bias: Any, view: Sequence[int], first: int, eps: float, element: str) -> tuple[np.ndarray, ...]:
    """Result, means and variances, where dimensions of ``view`` from ``first`` on are a group."""
    shape = (*view[:first], *(1,) * (len(view) - first))
    count, lines = math.prod(shape), math.prod(view[first:-1])
    result, mean, variance = empty(input.shape, input.dtype), np.empty(shape, wide_dtype(element)), np.empty(shape, wide_dtype(element))
    arrays = input, as_parameter(weight, element), as_parameter(bias, element), result, mean, variance
    kernel = group_rows(element, weight is not None, bias is not None)
    run(kernel, element, (count, input.size // count, 1), *arrays, lines, lines * math.prod(view[1:first]), float(eps))
    return result, mean, variance
