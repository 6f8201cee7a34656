"""Running totals along a dimension: sums, products, logarithms of sums of powers, extrema with their places.

An array is seen as ``(outer, n, inner)``.  Where ``inner`` is 1, a register holds neighbours of one row: they are joined in the register,
after which what came before is joined to all of them, so that only that last step waits for the register before.

      x0 x1 x2 x3   ->   x0  x0+x1  x1+x2  x2+x3   ->   x0  x0+x1  x0+x1+x2  x0+x1+x2+x3   ->   + what came before

Elsewhere a register holds as many rows, and a block of columns is what is walked down.  Sums and products of float32 are kept in
float64, of half precision in float32, as PyTorch does it, and those of integers in int64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ...core.calls.casting import cast_array
from ...core.shape import wrap_dim
from ..compiler import target as targets
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, SIZES, Builder, Value, register_element
from ..compiler.memory import empty
from ..mathematics.vectors import exp, log
from .reduction_rules import ends
from .rows import float_element, view_of

_CHUNK = 1 << 15  # elements
_REGISTERS = 4  # of a block of columns
_I8 = np.dtype(np.int64)

State = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class _Rule:
    """Scan by ``join(k, before, after)`` from ``start(element)``; ``has_place`` if the positions of the results are returned too."""

    join: Callable[[Builder, Value, Value], Value]
    start: Callable[[str], float]
    has_place: bool = False


def _log_sum(k: Builder, a: Value, b: Value) -> Value:
    """``log(exp(a) + exp(b))``; an infinity, or a NaN, as it is."""
    top = k.maximum(a, b)
    sum_of_both = top + log(k, exp(k, -k.abs(a - b)) + 1.0)
    return k.select(k.abs(top) < np.inf, sum_of_both, top)


# Extrema join by whether the later one is kept: of equal elements the last, and NaN for good.
_RULES = {
    "sum": _Rule(lambda k, a, b: a + b, lambda element: 0),
    "prod": _Rule(lambda k, a, b: a * b, lambda element: 1),
    "log": _Rule(_log_sum, lambda element: -np.inf),
    "max": _Rule(lambda k, a, b: b >= a, lambda element: ends(element)[0], True),
    "min": _Rule(lambda k, a, b: b <= a, lambda element: ends(element)[1], True),
}


def _join(k: Builder, rule: _Rule, before: State, after: State) -> State:
    if not rule.has_place:
        return (rule.join(k, before[0], after[0]),)
    later = rule.join(k, before[0], after[0])
    if after[0].is_float:
        later = later | after[0].is_nan()
    return tuple(k.select(later, b, a) for a, b in zip(before, after, strict=True))


def _within(k: Builder, rule: _Rule, state: State) -> State:
    """The running totals of a register's lanes."""
    lanes, shift = state[0].lanes, 1
    while shift < lanes:
        moved = tuple(k.shuffle(value, [max(i - shift, 0) for i in range(lanes)]) for value in state)
        beyond = k.indices(lanes, "i32") >= shift
        state = tuple(k.select(beyond, a, b) for a, b in zip(_join(k, rule, moved, state), state, strict=True))
        shift *= 2
    return state


def _total_element(name: str, element: str) -> str:
    """The element type in which totals are kept."""
    if _RULES[name].has_place:
        return register_element(element)
    if name == "log":
        return "f64"
    return {"f32": "f64", "f64": "f64", "f16": "f32", "bf16": "f32"}.get(element, "i64")


@kernel
def scan(k: Builder, name: str, element: str, across: bool) -> None:
    """All running totals; a unit is a row, or across, a block of columns."""
    rule, total = _RULES[name], _total_element(name, element)
    x, y = k.array(), k.array()
    places = k.array() if rule.has_place else None
    n, inner, units, per = (k.integer() for _ in range(4))
    out = element if element in ("f16", "bf16") or rule.has_place or total != "i64" else "i64"
    lanes = min(k.lanes(total), k.lanes("i32"))
    first = rule.start(total)

    def start() -> State:
        return (k.const(first, total, lanes), *([k.const(0, "i32", lanes)] if rule.has_place else []))

    def load(i: Value, mask: Value | None) -> Value:
        return k.cast(k.load(x, i, element, lanes, mask, other=first), total)

    def store(state: State, i: Value, mask: Value | None) -> None:
        k.store(k.cast(state[0], register_element(out)), y, i, out, mask)
        if places is not None:
            k.store(k.cast(state[1], "i64"), places, i, "i64", mask)

    def row(u: Value) -> None:
        begin = u * n

        def step(i: Value, mask: Value | None, *before: Value) -> State:
            here = (load(begin + i, mask), *([k.indices(lanes, "i32") + k.cast(i, "i32")] if rule.has_place else []))
            here = _within(k, rule, here)
            store(_join(k, rule, before, here), begin + i, mask)
            return _join(k, rule, before, tuple(k.shuffle(value, [lanes - 1] * lanes) for value in here))

        k.vector_loop(0, n, lanes, step, carried=start())

    wide = _REGISTERS * lanes
    blocks = (inner + (wide - 1)) // wide

    def columns(begin: Value, count: int, mask: Value | None) -> None:
        width = len(start())

        def step(j: Value, *before: Value) -> State:
            after: list[Value] = []
            for register in range(count):
                at = begin + j * inner + register * lanes
                here = (load(at, mask), *([k.splat(k.cast(j, "i32"), lanes)] if rule.has_place else []))
                state = _join(k, rule, before[register * width : (register + 1) * width], here)
                store(state, at, mask)
                after += state
            return tuple(after)

        k.loop(0, n, step, carried=start() * count)

    def block(u: Value) -> None:
        outer = u // blocks
        column = (u - outer * blocks) * wide
        begin = outer * n * inner

        def rest() -> None:
            k.loop(column, inner, lambda c: columns(begin + c, 1, k.mask_below(c, inner, lanes) if lanes > 1 else None), step=lanes)

        k.when(column + wide <= inner, lambda: columns(begin + column, _REGISTERS, None), rest)

    k.for_chunks(lambda c: k.loop(c * per, k.least((c + 1) * per, units), block if across else row))


def _lanes_of(name: str, element: str) -> int:
    total = _total_element(name, element)
    return targets.current().width // max(SIZES[total], 4)


def _run(name: str, input: np.ndarray, dim: int, *results: np.ndarray) -> None:
    element = ELEMENTS[input.dtype]
    outer, n, inner = view_of(input.shape, dim)
    wide = _REGISTERS * _lanes_of(name, element)
    units, size = (outer, n) if inner == 1 else (outer * -(-inner // wide), n * min(wide, inner))
    per = max(_CHUNK // max(size, 1), 1)
    scan(name, element, inner > 1)(-(-units // per), id(input), *map(id, results), n, inner, units, per)


def _able(input: np.ndarray, floats: bool = False) -> bool:
    if not input.ndim or not input.size or input.dtype not in ELEMENTS or not input.dtype.isnative:
        return False
    return float_element(input.dtype) is not None if floats or input.dtype.kind in "fV" else True


def _accumulated(name: str, input: np.ndarray, dim: int, dtype: Any = None) -> np.ndarray | None:
    if not _able(input) or input.dtype == np.uint64:
        return None
    if dtype is not None and dtype.numpy != input.dtype:
        input = cast_array(input, dtype)
        if not _able(input):
            return None
    wanted = _I8 if input.dtype.kind in "biu" else input.dtype
    if dtype is not None and wanted != input.dtype:  # running totals of a narrow integer wrap there
        return None
    result = empty(input.shape, wanted)
    _run(name, contiguous(input), wrap_dim(dim, input.ndim), result)
    return result


cumsum = native("cumsum")(partial(_accumulated, "sum"))
cumprod = native("cumprod")(partial(_accumulated, "prod"))


@native("logcumsumexp")
def logcumsumexp(input: np.ndarray, dim: int) -> np.ndarray | None:
    return _accumulated("log", input, dim) if _able(input, floats=True) else None


def _extrema(name: str, input: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray] | None:
    if not _able(input) or input.dtype.kind == "b" or max(input.shape) >= 1 << 31:
        return None
    values, places = empty(input.shape, input.dtype), empty(input.shape, _I8)
    _run(name, contiguous(input), wrap_dim(dim, input.ndim), values, places)
    return values, places


cummax = native("cummax")(partial(_extrema, "max"))
cummin = native("cummin")(partial(_extrema, "min"))
