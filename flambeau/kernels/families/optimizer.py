"""Optimizer steps: all parameters of a group, their gradients and states in one pass and one launch.

An update rule is a function over arrays and numbers (``optim/elementwise.py``); run on symbols it becomes a program.  The kernel around it
is the same for all: chunks of one tensor each, found through tables of 8-byte numbers, so that 300 small tensors cost one launch:

    chunks      tensor 0, element 0 | tensor 0, element 8192 | tensor 1, element 0 | ...
    tensors     size, parameter, state, state ...  (one row a tensor; arrays are given as ``id``: the kernel reads their headers)
    gradients   one array a tensor; the only table that is made anew in each step
    numbers     the rule's numbers: one row for all tensors, or one each where their counters differ

Rules round after every operation, as they do on arrays. Their numbers are arguments: a step size that changes needs no other kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import is_
from typing import Any

import numpy as np

from ...core.arrays.native import NoKernel, NotNow, native
from ..compiler.build import Kernel, kernel
from ..compiler.expression import Program, Untraceable, lower, trace
from ..compiler.language import ELEMENTS, Builder, Value

CHUNKS = 16  # as many at least, where they are within these bounds (in elements, multiples of every vector)
LEAST, MOST = 1 << 13, 1 << 17


def _data(k: Builder, table: Value, at: Value) -> Value:
    """The data of an array whose ``id`` is in a table."""
    return k.data_of(k.load(table, at, "ptr"))


@kernel
def optimizer_step(k: Builder, program: Program, element: str, states: int, count: int) -> None:
    """One step over all chunks of a table, of a program over parameter, gradient, states and ``count`` numbers."""
    chunks, tensors, gradients, numbers = k.array(), k.array(), k.array(), k.array()
    chunk_size, per_tensor = k.integer(), k.integer()
    lanes = k.lanes(element)

    def chunk(c: Value) -> None:
        tensor, start = k.load(chunks, c * 2, "i64"), k.load(chunks, c * 2 + 1, "i64")
        row = tensor * (2 + states)
        stop = k.least(start + chunk_size, k.load(tensors, row, "i64"))
        arrays = [_data(k, tensors, row + 1), _data(k, gradients, tensor), *(_data(k, tensors, row + 2 + state) for state in range(states))]
        first = tensor * per_tensor
        values = [k.splat(k.cast(k.load(numbers, first + at, "f64"), element), lanes) for at in range(count)]

        def step(i: Value, mask: Value | None) -> None:
            before = [k.load(array, i, element, lanes, mask) for array in arrays]
            after = lower(k, program, [*before, *values])
            for value, array in zip(after, [arrays[0], *arrays[2:]], strict=True):
                k.store(k.splat(value, lanes), array, i, element, mask)

        k.vector_loop(start, stop, lanes, step)

    k.for_chunks(chunk)


class Table:
    """The tables of a list of tensors; good as long as the list is the same, since its plans hold the arrays.

    Attributes:
        usable: whether a kernel may update them: one dtype, each laid out as its states, and no two overlapping.
    """

    __slots__ = ("chunk_size", "chunks", "dtype", "plans", "states", "tensors", "usable")

    def __init__(self, rows: Any, plans: list[Any]):
        self.plans = plans
        arrays = [[plan.array, *plan.entries] for plan in plans]
        self.dtype, self.states = plans[0].dtype, len(arrays[0]) - 1
        self.usable = all(plan.is_flat and plan.dtype == plans[0].dtype for plan in plans) and rows.are_apart()
        self.tensors = np.array([[row[0].size, *map(id, row)] for row in arrays], np.int64)
        self.chunks, self.chunk_size = _chunks(tuple(self.tensors[:, 0].tolist()))


@lru_cache(maxsize=16)
def _chunks(sizes: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """Tensor and first element of each chunk, and how many elements it has at most."""
    chunk_size = min(max(sum(sizes) // CHUNKS & -LEAST, LEAST), MOST)
    pairs = [(tensor, start) for tensor, size in enumerate(sizes) for start in range(0, size, chunk_size)]
    return np.array(pairs, np.int64).reshape(-1, 2), chunk_size


_kernels: dict[Any, Kernel | None] = {}


def _kernel_of(form: Any, dtype: np.dtype, states: int) -> Kernel | None:
    """The kernel of a rule for tensors of one dtype; None where the rule has no program."""
    count = len(form.names)
    length = 2 + states + count
    try:
        program = trace(
            lambda *symbols: tuple(form.on_arrays(symbols[: 2 + states], symbols[2 + states :])), [None] * length, [dtype] * length
        )
        return optimizer_step(program, ELEMENTS[dtype], states, count)
    except NotNow:
        raise
    except (NoKernel, Untraceable) as error:
        if os.environ.get("FLAMBEAU_SHOW_TRACES"):
            print(f"{form.rule.__qualname__}: {error!r}")
        return None


def prepared(form: Any, rows: Any) -> tuple[Kernel, Table] | None:
    """The kernel of a rule for the tensors of ``rows``, and their table; None where that is not for a kernel."""
    for plan, grad in rows:
        if grad.strides != plan.strides and not plan.is_laid_out_as(grad):
            return None
    plans = [plan for plan, _ in rows]
    table = rows.tables.get(id(plans[0]))
    if table is None or len(table.plans) != len(plans) or not all(map(is_, plans, table.plans)):
        table = rows.tables[id(plans[0])] = Table(rows, plans)
    if not table.usable:
        return None
    key = form, table.dtype, table.states
    if key not in _kernels:
        _kernels[key] = _kernel_of(*key)
    run = _kernels[key]
    return None if run is None else (run, table)


@native("optim.step")
def step(form: Any, rows: Any, numbers: Sequence[tuple[float, ...]]) -> bool | None:
    """Update the tensors of ``rows`` (see ``optim._arrays``) by a rule; None where that is not for a kernel.

    Args:
        form: the rule, with ``names`` of its numbers and ``on_arrays(param and gradient and states, numbers)``.
        numbers: the rule's numbers for each row; the same tuple where they are equal.
    """
    found = prepared(form, rows)
    if found is None:
        return None
    run, table = found
    first = numbers[0]
    values = np.array([first] if numbers.count(first) == len(numbers) else numbers, np.float64)
    gradients = np.array([id(grad) for _, grad in rows], np.int64)
    per_tensor = values.shape[1] if len(values) > 1 else 0
    run(len(table.chunks), id(table.chunks), id(table.tensors), id(gradients), id(values), table.chunk_size, per_tensor)
    return True


# ---- clipping


def _over_chunks(k: Builder, body: Callable[..., None]) -> None:
    """``body(chunk, pointer, start, stop)`` for the chunks of a list of arrays."""
    chunks, arrays, sizes, chunk_size = k.array(), k.array(), k.array(), k.integer()

    def chunk(c: Value) -> None:
        tensor, start = k.load(chunks, c * 2, "i64"), k.load(chunks, c * 2 + 1, "i64")
        body(c, _data(k, arrays, tensor), start, k.least(start + chunk_size, k.load(sizes, tensor, "i64")))

    k.for_chunks(chunk)


@kernel
def sums_of_squares(k: Builder, element: str) -> None:
    """The sum of the squares of each chunk, in float64 and in four sums side by side."""
    sums, lanes = k.array(), k.lanes("f64")

    def body(c: Value, pointer: Value, start: Value, stop: Value) -> None:
        def step(i: Value, mask: Value | None, first: Value, *others: Value) -> tuple[Value, ...]:
            x = k.cast(k.load(pointer, i, element, lanes, mask), "f64")
            return *others, first + x * x

        a, b, c_, d = k.vector_loop(start, stop, lanes, step, carried=[k.const(0.0, "f64", lanes)] * 4, unroll=4)
        k.store(k.sum((a + b) + (c_ + d)), sums, c, "f64")

    _over_chunks(k, body)


@kernel
def scale(k: Builder, element: str) -> None:
    """Each array times a number, in place."""
    factor, lanes = k.number(element), k.lanes(element)

    def body(c: Value, pointer: Value, start: Value, stop: Value) -> None:
        k.vector_loop(
            start, stop, lanes, lambda i, mask: k.store(k.load(pointer, i, element, lanes, mask) * factor, pointer, i, element, mask)
        )

    _over_chunks(k, body)


def _listed(arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    sizes = [array.size for array in arrays]
    chunks, chunk_size = _chunks(tuple(sizes))
    return chunks, np.array([id(array) for array in arrays], np.int64), np.array(sizes, np.int64), chunk_size


@native("optim.norms")
def norms(arrays: list[np.ndarray]) -> np.ndarray | None:
    """The 2-norm of each of several dense arrays of one dtype; None where one is not finite, whatever the reason."""
    chunks, table, sizes, chunk_size = _listed(arrays)
    sums = np.empty(len(chunks))
    sums_of_squares(ELEMENTS[arrays[0].dtype])(len(chunks), id(sums), id(chunks), id(table), id(sizes), chunk_size)
    result = np.sqrt(np.bincount(chunks[:, 0], sums, len(arrays)))
    return result.astype(arrays[0].dtype) if np.isfinite(result).all() else None


@native("optim.scale")
def scale_arrays(arrays: list[np.ndarray], factor: float) -> bool:
    """Multiply dense arrays of one dtype, no two of which overlap, by a number in place."""
    chunks, table, sizes, chunk_size = _listed(arrays)
    scale(ELEMENTS[arrays[0].dtype])(len(chunks), factor, id(chunks), id(table), id(sizes), chunk_size)
    return True
