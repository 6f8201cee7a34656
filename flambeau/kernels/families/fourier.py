"""Fourier transforms on the pool: which kernel does which dimension of a call.

Short rows go as many at a time as a register has lanes (``fourier_lanes.py``), and so do columns, the dimensions before the last, whose
neighbours are neighbours in memory already.  Longer rows go one after the other (``fourier_rows.py``).

Error: in the root of the mean square at most ``log2(n) * 6.7 u`` of the result's (Higham 2002, theorem 24.2, for factors rounded once);
``tests/kernels/test_fourier.py`` holds a third of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ..compiler import target as targets
from ..compiler.memory import empty
from . import fourier_lanes, fourier_mirrors, fourier_rows
from .fourier_butterflies import radices_of

_SHORT = 8  # registers of complex elements up to which rows are transformed as many at a time as a register has lanes
LONG = 1 << 16  # elements of rows that are transformed as matrices, in two steps

_KINDS = {"fftn": "complex", "ifftn": "complex", "rfftn": "from_real", "ihfftn": "from_real", "irfftn": "to_real"}
_EXPONENTS = {False: {"backward": 0.0, "ortho": 0.5, "forward": 1.0}, True: {"backward": 1.0, "ortho": 0.5, "forward": 0.0}}


class _Plans(NamedTuple):
    """The rows' transforms, then the columns' of each dimension before; shape and dtype of the result.

    Where ``mirror`` is not None, that is half of the result, from which it makes the whole one.
    """

    rows: Callable[..., None]
    columns: list[Callable[..., None]]
    shape: tuple[int, ...]
    dtype: np.dtype
    mirror: Callable[[np.ndarray, np.ndarray], None] | None


@native("_fourier")
def transformed(name: str, array: np.ndarray, size: int | None, dims: int, norm: str) -> np.ndarray | None:
    """SciPy's transform of that name over the last ``dims`` dimensions."""
    pitch = 0 if array.flags.c_contiguous else _pitch(array)
    plans = _plans(name, array.dtype, array.shape, pitch, size, dims, norm)
    if plans is None:
        return None
    rows, columns, shape, dtype, mirror = plans
    result = empty(shape, dtype)
    rows(array if pitch or array.flags.c_contiguous else contiguous(array), result)
    for plan in columns:
        plan(result, result)
    if mirror is None:
        return result
    whole = empty(array.shape, dtype)
    mirror(result, whole)
    return whole


def _pitch(array: np.ndarray) -> int:
    """Bytes from row to row where that is the same everywhere; 0 where the array has to be copied, as long rows are."""
    strides, shape = array.strides, array.shape
    if array.ndim < 2 or shape[-1] >= LONG or strides[-1] != array.itemsize or strides[-2] % array.itemsize:
        return 0
    is_even = all(strides[i] == strides[i + 1] * shape[i + 1] for i in range(array.ndim - 2))
    return strides[-2] if is_even else 0


@lru_cache(maxsize=512)
def _plans(name: str, dtype: np.dtype, shape: tuple[int, ...], pitch: int, size: int | None, dims: int, norm: str) -> _Plans | None:
    kind, inverse = _KINDS[name], name in ("ifftn", "ihfftn", "irfftn")
    if dtype.kind == "f" and kind == "complex":
        kind = "whole" if dims == 1 else "from_real"
    *outer, length = shape
    points, real = length if size is None else size, np.dtype(dtype.char.lower())
    if real.itemsize not in (4, 8) or (kind in ("complex", "to_real")) != (dtype.kind == "c"):
        return None
    if kind == "to_real" and (dims > 1 or length != points // 2 + 1):
        return None
    scale = float(math.prod([*shape[len(shape) - dims : -1], points])) ** -_EXPONENTS[inverse][norm]
    inner = last = points // 2 + 1 if kind == "from_real" else points
    rows = _rows(kind, real, math.prod(outer), pitch // real.itemsize, points, inverse, scale)
    columns = []
    for dim in range(len(outer) - 1, len(outer) - dims, -1):
        if outer[dim] > 1:
            columns.append(fourier_lanes.plan("columns", real, math.prod(outer[:dim]), outer[dim], inner, inverse, 1.0))
        inner *= outer[dim]
    if rows is None or None in columns:
        return None
    return _Plans(
        rows,
        [plan for plan in columns if plan is not None],
        (*outer, last),
        real if kind == "to_real" else np.result_type(real, np.complex64),
        fourier_mirrors.plan_of_matrices(real, shape, dims) if dtype.kind == "f" and name in ("fftn", "ifftn") and dims > 1 else None,
    )


_OF_ODD = {"from_real": "from_odd", "whole": "whole_odd", "to_real": "to_odd"}


def _rows(kind: str, real: np.dtype, rows: int, pitch: int, points: int, inverse: bool, scale: float) -> Callable[..., None] | None:
    """The transform of the last dimension; rows lie ``pitch`` real numbers apart, or side by side (0)."""
    if kind != "complex" and points % 2:
        return fourier_rows.plan(_OF_ODD[kind], real, rows, points, inverse, scale, pitch)
    length = points if kind == "complex" else points // 2
    lanes = targets.current().width // real.itemsize
    across = partial(fourier_lanes.plan, kind, real, rows, length, 1, inverse, scale, pitch)
    if length < _SHORT * lanes and rows * 2 >= lanes and (plan := across()):
        return plan
    if length >= LONG and (plan := _long(kind, real, rows, length, inverse, scale)):
        return plan
    return fourier_rows.plan(kind, real, rows, length, inverse, scale, pitch) or across()


def _long(kind: str, real: np.dtype, rows: int, n: int, inverse: bool, scale: float) -> Callable[..., None] | None:
    """Long rows of complex numbers, or of twice as many real ones."""
    if kind == "complex":
        return _in_two_steps(real, rows, n, inverse, scale)
    is_inverse = kind == "to_real"
    steps = _in_two_steps(real, rows, n, is_inverse, scale if is_inverse else 1.0)
    if steps is None:
        return None
    mirrors = fourier_mirrors.plan(kind, real, rows, n, inverse, scale)

    def run(x: np.ndarray, y: np.ndarray) -> None:
        between = empty((rows, 2 * n), real)
        if is_inverse:
            mirrors(x=x, y=between)
            steps(between, y)
        else:
            steps(x, between)
            mirrors(x=between, y=y)

    return run


@lru_cache(maxsize=256)
def _sides(n: int, lanes: int, registers: int) -> tuple[int, int] | None:
    """The matrix with ``n`` elements whose columns and rows are transformed cheapest; its rows are a multiple of the lanes."""
    found = {}
    for second in range(2, fourier_lanes.LONGEST + 1):
        first = n // second
        if n % second == 0 and first % lanes == 0 and first <= fourier_lanes.LONGEST:
            costs = [radices_of(side, registers) for side in (first, second)]
            if None not in costs:
                found[first, second] = sum(cost[0] for cost in costs if cost is not None) + (second % lanes > 0)
    return min(found, key=found.__getitem__, default=None)


def _in_two_steps(real: np.dtype, rows: int, n: int, inverse: bool, scale: float) -> Callable[..., None] | None:
    """Long rows as matrices ``n = first * second``: columns, each element turned by its place, then rows, which become columns."""
    target = targets.current()
    sides = _sides(n, target.width // real.itemsize, target.registers)
    if sides is None:
        return None
    first, second = sides
    columns = fourier_lanes.plan("turned", real, rows, first, second, inverse, 1.0)
    lines = fourier_lanes.plan("crossed", real, rows * first, second, first, inverse, scale)
    if columns is None or lines is None:
        return None

    def run(x: np.ndarray, y: np.ndarray) -> None:
        between = empty((rows, 2 * n), real)
        columns(x, between)
        lines(between, y)

    return run
