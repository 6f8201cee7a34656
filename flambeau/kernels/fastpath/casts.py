"""Forms of calls that give a tensor another dtype, or itself where there is nothing to do."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...core.device import cpu
from ...core.layout import contiguous_format, preserve_format
from ..compiler.language import Value
from . import records
from .code import Code
from .forms import Pointwise
from .interpreter import ALIGNED, C_CONTIGUOUS, FLAGS
from .numbers import Creation
from .records import ELEMENTS, F32, F64, I64

_WHOLE = 2.0**63


def converted(code: Code) -> str:
    """``x.to(dtype)``, the dtype as it is or alone in a tuple; or of the CPU."""
    k = Creation(code, "converted")
    x, bits = k.enter(2)
    a, given = k.any_array_of(x), k.argument(1)

    def only() -> Value:
        k.require(k.field(given, 16, "i64").eq(1))
        return k.field(given, k.interpreter.tuple_items)

    wanted = k.when(k.is_exactly(given, tuple), only, lambda: given)
    for where in (cpu, "cpu"):
        k.case(k.same(wanted, k.object(where)), lambda: k.give(k.incref(x)))
    have, want = k.place_of(k.dtype(a)), k.dtype_at(wanted)
    k.case(have.eq(want), lambda: k.give(k.incref(x)))
    a = k.array_of(x)
    n, no_short = k.small(a)
    k.require(n > 0)
    k.require_usual_strides([x], no_short)
    k.require(no_short | k.owns_its_memory(a))
    source = k.data(a)
    for place in (F32, F64):
        k.when(want.eq(I64) & have.eq(place), partial(_require_whole, k, source, n, ELEMENTS[place]))
    r = k.new_array(k.array_dtype(want), k.ndim(a), k.dims(a))
    at = k.data(r)
    for i, element in enumerate(ELEMENTS):
        for j, other in enumerate(ELEMENTS):

            def convert(element: str = element, other: str = other) -> None:
                register = "b1" if other == "b8" else other
                k.loop(0, n, lambda place: k.store(k.cast(k.load(source, place, element), register), at, place, other))

            if i != j:
                k.when(have.eq(i) & want.eq(j), convert)
    k.answer_new(r, k.pick(want < I64, bits, k.i64(0)))
    return k.finish()


def _require_whole(k: Pointwise, source: Value, n: Value, element: str) -> None:
    """Go on if all numbers fit into 64 bits: what becomes of others depends on the processor."""

    def step(i: Value, fits: Value) -> Value:
        value = k.load(source, i, element)
        return fits & k.cast((value > -_WHOLE) & (value < _WHOLE), "i64")

    k.require(k.loop(0, n, step, carried=(k.i64(1),)).ne(0))


def of_casts(op: Any) -> records.Record:
    """The record of ``_to_copy``."""
    record = records.Record()
    record.put_history(op, {name: k for k, name in enumerate(op.names)})
    record.put_limit(op)
    return record


def contiguous(code: Code) -> str:
    """``contiguous(x, memory_format)``: what lies row by row already, or a copy."""
    k = Pointwise(code, "contiguous")
    x, bits = k.enter(2)
    k.require(k.same(k.argument(1), k.object(contiguous_format)))
    a = k.any_array_of(x)
    k.case(k.is_row_major(a), lambda: k.give(k.incref(x)))
    size = k.size_of(k.dtype(a))
    n, _ = k.small(a)
    k.require((n > 0) & (k.field(a, FLAGS, "i32") & (ALIGNED | C_CONTIGUOUS)).eq(ALIGNED))
    r = k.new_array(k.dtype(a), k.ndim(a), k.dims(a))
    k.copy_elements(a, k.data(r), size)
    k.answer_new(r, bits)
    return k.finish()


def here(code: Code) -> str:
    """``cpu(x, memory_format)`` of what is there already."""
    k = Pointwise(code, "here")
    k.require_count(2)
    x = k.argument(0)
    k.require(k.is_plain(x) & k.same(k.argument(1), k.object(preserve_format)))
    k.require_no_mode()
    k.any_array_of(x)
    k.give(k.incref(x))
    return k.finish()
