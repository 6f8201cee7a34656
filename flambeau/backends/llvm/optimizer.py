"""Optimizer steps: all parameters of a group, their gradients and states in one pass and one launch.

An update rule is written once, in ``RULES``, as an expression over the new and old values of one element.  The kernel around it is the
same for all: chunks of one tensor each, found through tables of 8-byte numbers, so that 300 small tensors cost one launch:

    chunks      tensor 0, element 0 | tensor 0, element 8192 | tensor 1, element 0 | ...
    tensors     size, parameter, state, state ...  (one row a tensor; arrays are given as ``id``: the kernel reads their headers)
    gradients   one array a tensor; the only table that is made anew in each step
    numbers     the rule's numbers: one row for all tensors, or one each where their counters differ

Rules round after every operation, in the order in which PyTorch's own loops over tensors do, and as the passes in ``optim`` do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import is_
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...core.native import native
from .build import kernel
from .language import KINDS, Builder, Value
from .target import ARRAY_DATA

CHUNKS = 16  # as many at least, where they are within these bounds (in elements, multiples of every vector)
LEAST, MOST = 1 << 13, 1 << 17


class Rule(NamedTuple):
    """An update: what its numbers are called, and ``update(k, flags, numbers, param, grad, *states)`` -> new parameter and states."""

    numbers: tuple[str, ...]
    update: Callable[..., tuple[Value, ...]]


def _slope(flags: tuple[str, ...], n: Any, param: Value, grad: Value) -> Value:
    """The gradient, negated to climb, with the penalty on the parameter's size."""
    if "maximize" in flags:
        grad = -grad
    return grad + param * n.decay if "penalized" in flags else grad


def _lerp(near: bool, average: Value, grad: Value, weight: Value) -> Value:
    """From ``average`` towards ``grad``, reckoned from the end that is nearer."""
    way = grad - average
    return average + weight * way if near else grad - way * (1.0 - weight)


def _sgd(k: Builder, flags: tuple[str, ...], n: Any, param: Value, grad: Value, *momentum: Value) -> tuple[Value, ...]:
    grad = _slope(flags, n, param, grad)
    if not momentum:
        return (param + grad * n.step_size,)
    buffer = momentum[0] * n.kept + (grad * n.taken if "dampened" in flags else grad)
    direction = grad + buffer * n.kept if "nesterov" in flags else buffer
    return param + direction * n.step_size, buffer


def _adam(k: Builder, flags: tuple[str, ...], n: Any, param: Value, grad: Value, average: Value, square: Value, *largest: Value) -> Any:
    if "shrinks" in flags:
        param = param * n.decay
    grad = _slope(flags, n, param, grad)
    average = _lerp("near" in flags, average, grad, n.weight)
    square = square * n.kept + (n.taken * grad) * grad
    largest = tuple(k.maximum(each, square) for each in largest)
    root = k.sqrt((largest or (square,))[0]) / n.correction + n.floor
    return param + (n.step_size * average) / root, average, square, *largest


def _rmsprop(k: Builder, flags: tuple[str, ...], n: Any, param: Value, grad: Value, square: Value, *others: Value) -> tuple[Value, ...]:
    grad = _slope(flags, n, param, grad)
    square = square * n.kept + (n.taken * grad) * grad
    variance, made = square, [square]
    if "centered" in flags:
        made.append(_lerp("near" in flags, others[0], grad, n.taken))
        variance = square + (-1.0 * made[-1]) * made[-1]
    root = k.sqrt(variance) + n.floor
    if "momentum" in flags:
        made.append(others[-1] * n.momentum + grad / root)
        return param + made[-1] * n.step_size, *made
    return param + (n.step_size * grad) / root, *made


def _adagrad(k: Builder, flags: tuple[str, ...], n: Any, param: Value, grad: Value, total: Value) -> tuple[Value, ...]:
    grad = _slope(flags, n, param, grad)
    total = total + grad * grad
    return param + (n.step_size * grad) / (k.sqrt(total) + n.floor), total


RULES = {
    "sgd": Rule(("step_size", "kept", "taken", "decay"), _sgd),
    "adam": Rule(("weight", "kept", "taken", "correction", "floor", "step_size", "decay"), _adam),
    "rmsprop": Rule(("kept", "taken", "floor", "momentum", "step_size", "decay"), _rmsprop),
    "adagrad": Rule(("step_size", "floor", "decay"), _adagrad),
}


def _data(k: Builder, table: Value, at: Value) -> Value:
    """The data of an array whose ``id`` is in a table."""
    return k.load(k.at(k.load(table, at, "ptr"), ARRAY_DATA, "i8"), 0, "ptr")


@kernel
def optimizer_step(k: Builder, name: str, flags: tuple[str, ...], kind: str, states: int) -> None:
    """One step of rule ``name`` over all chunks of a table; see the module's docstring."""
    rule = RULES[name]
    chunks, tensors, gradients, numbers = k.array(), k.array(), k.array(), k.array()
    chunk_size, per_tensor = k.integer(), k.integer()
    lanes = k.lanes(kind)

    def chunk(c: Value) -> None:
        tensor, start = k.load(chunks, c * 2, "i64"), k.load(chunks, c * 2 + 1, "i64")
        row = tensor * (2 + states)
        stop = k.least(start + chunk_size, k.load(tensors, row, "i64"))
        arrays = [_data(k, tensors, row + 1), _data(k, gradients, tensor), *(_data(k, tensors, row + 2 + each) for each in range(states))]
        first = tensor * per_tensor
        n = {each: k.splat(k.cast(k.load(numbers, first + at, "f64"), kind), lanes) for at, each in enumerate(rule.numbers)}

        def step(i: Value, mask: Value | None) -> None:
            before = [k.load(array, i, kind, lanes, mask) for array in arrays]
            after = rule.update(k, flags, SimpleNamespace(**n), *before)
            for value, array in zip(after, [arrays[0], *arrays[2:]], strict=True):
                k.store(value, array, i, kind, mask)

        k.vector_loop(start, stop, lanes, step)

    k.for_chunks(chunk)


class Table:
    """The tables of a list of tensors; good as long as the list is the same, since its plans hold the arrays.

    Attributes:
        usable: whether a kernel may update them: one dtype, each laid out as its states, and no two overlapping.
    """

    __slots__ = ("chunk_size", "chunks", "kind", "plans", "states", "tensors", "usable")

    def __init__(self, plans: list[Any]):
        self.plans = plans
        arrays = [[plan.array, *plan.entries] for plan in plans]
        self.kind, self.states = KINDS[plans[0].dtype], len(arrays[0]) - 1
        self.usable = all(plan.is_flat and plan.dtype == plans[0].dtype for plan in plans) and _are_apart(
            [array for row in arrays for array in row]
        )
        self.tensors = np.array([[row[0].size, *map(id, row)] for row in arrays], np.int64)
        self.chunks, self.chunk_size = _chunks(tuple(self.tensors[:, 0].tolist()))


@lru_cache(maxsize=16)
def _chunks(sizes: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """Tensor and first element of each chunk, and how many elements it has at most."""
    chunk_size = min(max(sum(sizes) // CHUNKS & -LEAST, LEAST), MOST)
    found = [(tensor, start) for tensor, size in enumerate(sizes) for start in range(0, size, chunk_size)]
    return np.array(found, np.int64).reshape(-1, 2), chunk_size


def _are_apart(arrays: list[np.ndarray]) -> bool:
    """Whether no two of dense arrays overlap in memory: chunks are updated in any order."""
    begins = np.array([array.__array_interface__["data"][0] for array in arrays if array.size])
    ends = begins + np.array([array.nbytes for array in arrays if array.size])
    order = begins.argsort()
    return bool((ends[order][:-1] <= begins[order][1:]).all())


@native("optim.step")
def step(name: str, flags: tuple[str, ...], rows: Any, numbers: Sequence[tuple[float, ...]]) -> bool | None:
    """Update the tensors of ``rows`` (see ``optim._arrays``) by rule ``name``; None where that is not for a kernel.

    Args:
        flags: which terms the rule has.
        numbers: the rule's numbers for each row; the same tuple where they are equal.
    """
    plans = [plan for plan, _ in rows]
    table = rows.tables.get(id(plans[0]))
    if table is None or len(table.plans) != len(plans) or not all(map(is_, plans, table.plans)):
        table = rows.tables[id(plans[0])] = Table(plans)
    if not table.usable:
        return None
    first = numbers[0]
    values = np.array(numbers if any(each is not first for each in numbers) else [first], np.float64)
    gradients = np.array([id(grad) for _, grad in rows], np.int64)
    run = optimizer_step(name, flags, table.kind, table.states)
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
def sums_of_squares(k: Builder, kind: str) -> None:
    """The sum of the squares of each chunk, in float64 and in four sums side by side."""
    sums, lanes = k.array(), k.lanes("f64")

    def body(c: Value, pointer: Value, start: Value, stop: Value) -> None:
        def step(i: Value, mask: Value | None, first: Value, *others: Value) -> tuple[Value, ...]:
            x = k.cast(k.load(pointer, i, kind, lanes, mask), "f64")
            return *others, first + x * x

        a, b, c_, d = k.vector_loop(start, stop, lanes, step, carried=[k.const(0.0, "f64", lanes)] * 4, unroll=4)
        k.store(k.sum((a + b) + (c_ + d)), sums, c, "f64")

    _over_chunks(k, body)


@kernel
def scale(k: Builder, kind: str) -> None:
    """Each array times a number, in place."""
    factor, lanes = k.number(kind), k.lanes(kind)

    def body(c: Value, pointer: Value, start: Value, stop: Value) -> None:
        k.vector_loop(start, stop, lanes, lambda i, mask: k.store(k.load(pointer, i, kind, lanes, mask) * factor, pointer, i, kind, mask))

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
    sums_of_squares(KINDS[arrays[0].dtype])(len(chunks), id(sums), id(chunks), id(table), id(sizes), chunk_size)
    found = np.sqrt(np.bincount(chunks[:, 0], sums, len(arrays)))
    return found.astype(arrays[0].dtype) if np.isfinite(found).all() else None


@native("optim.scale")
def scale_arrays(arrays: list[np.ndarray], factor: float) -> bool:
    """Multiply dense arrays of one dtype, no two of which overlap, by a number in place."""
    chunks, table, sizes, chunk_size = _listed(arrays)
    scale(KINDS[arrays[0].dtype])(len(chunks), factor, id(chunks), id(table), id(sizes), chunk_size)
    return True
