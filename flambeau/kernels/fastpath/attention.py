"""The form of attention: of one query a head, which models that write word after word call at each step with one more key, and of many.

The launch for many queries is one that Python has planned for the same sizes and strides.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ...core import state
from ...core.calls.registry import primitive
from ...core.layout import is_fused_attention
from ...core.settings import settings
from ..compiler.language import SIZES, Value
from ..compiler.memory import SMALL
from ..compiler.pool import LIMIT as THREADS
from . import records
from .code import Code
from .interpreter import ALIGNED, FLAGS
from .kept_launches import Entries, Looking
from .launching import KERNEL, address_of, of_kernel
from .records import DTYPES, F32, I64

_SIZE = SIZES["f32"]
_TABLE = KERNEL + 1  # in the record: launches for many queries
_SIZES = ("batch", "heads", "length", "keys", "depth")
_STRIDES = [f"{name}{dim}" for name in ("query", "key", "value") for dim in range(3)]
# The result's strides are in bytes, as those of operands are; the kernel's memory is ``room`` elements and so many ``flags``.
_KNOWN = Entries((*_SIZES, *_STRIDES, "is_causal", "scale", "threads"), ("out0", "out1", "out2", "flags", "room"))


class _Attention(Looking):
    """A form over queries, keys and values of ``(batch, heads, length, depth)``."""

    def operand(self, place: int) -> Value:
        """The float32 array of an argument, whose rows are of neighbours."""
        tensor = self.argument(place)
        self.require(self.is_plain(tensor))
        array = self.any_array_of(tensor)
        self.require(self.same(self.dtype(array), self.object(DTYPES[F32])) & self.ndim(array).eq(4))
        self.require((self.field(array, FLAGS, "i32") & ALIGNED).ne(0) & self.step(array, 3).eq(_SIZE))
        return array

    def length(self, array: Value, dim: int) -> Value:
        return self.load(self.dims(array), dim, "i64")

    def step(self, array: Value, dim: int) -> Value:
        return self.load(self.strides(array), dim, "i64")

    def apart(self, array: Value, dim: int) -> Value:
        """Elements from one matrix to the next, 0 where there is one."""
        return self.pick(self.length(array, dim) > 1, self.step(array, dim) // _SIZE, self.i64(0))

    def require_dense(self, query: Value) -> None:
        """Go on if heads lie one behind the other: then the result has the query's strides."""
        batch, heads, depth = (self.length(query, dim) for dim in (0, 1, 3))
        self.require(heads.eq(1) | self.step(query, 1).eq(depth * _SIZE))
        self.require(batch.eq(1) | self.step(query, 0).eq(heads * depth * _SIZE))

    def require_same_sizes(self, a: Value, b: Value, *dims: int) -> None:
        for dim in dims:
            self.require(self.length(a, dim).eq(self.length(b, dim)))

    def factor(self, given: Value, depth: Value) -> Value:
        """The factor of scores: a float, or the usual one for None."""

        def number() -> Value:
            self.require(self.is_exactly(given, float))
            return self.field(given, 16, "f64")

        return self.when(self.same(given, self.object(None)), lambda: 1.0 / self.sqrt(self.cast(depth, "f64")), number)

    def new_strided(self, model: Value, strides: Value) -> Value:
        """A new array with a model's sizes and these strides, which are those of a dense array."""
        self.incref(self.dtype(model))
        given = (self.object(np.ndarray), self.dtype(model), self.i32(4), self.dims(model), strides, self.null, self.i32(0))
        made = self.call_c("PyArray_NewFromDescr", "ptr", *given, self.null)
        self.check(self.exists(made))
        return self.own(made)

    def new_vector(self, dtype: int, size: Value) -> Value:
        """A new array of one dimension."""
        count = self.scratch(1, "i64")
        self.store(size, count, 0, "i64")
        return self.own(self.new_array(self.object(DTYPES[dtype]), self.i64(1), count))

    def bits_of(self, number: Value) -> Value:
        return self.emit(f"bitcast double {number.text} to i64", "i64")


def _of_single(k: _Attention, operands: list[Value], is_causal: Value, factor: Value, bits: Value) -> None:
    """Answer with the attention of one query a head, by the kernel of ``single_query``."""
    from ..families.attention import TOGETHER
    from ..families.single_query import DEEPEST

    query, key, value = operands
    batch, heads, depth, keys, zero = *(k.length(query, dim) for dim in (0, 1, 3)), k.length(key, 2), k.i64(0)
    matrices = batch * heads
    k.require(depth <= DEEPEST)
    k.require_dense(query)
    direct, kernel = k.require_launches(), k.word(KERNEL, element="ptr")
    out, sums = k.new_strided(query, k.strides(query)), k.new_vector(F32, matrices)  # sums, which nobody wants
    apart = [k.apart(array, dim) for dim in (0, 1) for array in (query, key, value, out)]
    per_chunk = k.most(k.i64(TOGETHER) // (keys * depth * 2), k.i64(1))
    seen = k.pick(is_causal, k.i64(1), keys)
    rows = [k.step(array, 2) // _SIZE for array in (key, value)]
    steps = [*[zero] * 5, *apart[:4], zero, *apart[4:], zero]  # as ``SingleArguments`` has them
    numbers = [matrices, batch, heads, *steps, per_chunk, seen, depth, depth, *rows, factor]
    k.launch(direct, kernel, [query, key, value, out, sums, sums, *numbers], (matrices + per_chunk - 1) // per_chunk)
    k.drop(sums)
    k.answer_new(k.disown(out), bits)


def _of_many(k: _Attention, operands: list[Value], is_causal: Value, factor: Value, bits: Value) -> None:
    """Answer with the attention of several queries a head, by the launch that is known for it."""
    query, key, _ = operands
    sizes = [*(k.length(query, dim) for dim in range(3)), k.length(key, 2), k.length(query, 3)]
    rows, count = sizes[0] * sizes[1] * sizes[2], k.size(query)
    k.require(count < SMALL // _SIZE)
    direct = k.require_launches()
    strides = [k.step(array, dim) for array in operands for dim in range(3)]
    asked = (*sizes, *strides, k.cast(is_causal, "i64"), k.bits_of(factor), k.load(direct[1], THREADS, "i64"))
    entry = k.require_entry(_KNOWN, k.word(_TABLE, element="ptr"), asked)
    steps = k.scratch(4, "i64")
    for dim, step in enumerate([*(k.noted(_KNOWN, entry, f"out{dim}") for dim in range(3)), k.i64(_SIZE)]):
        k.store(step, steps, dim, "i64")
    out, sums = k.new_strided(query, steps), k.new_vector(F32, rows)
    flags, room = (k.new_vector(dtype, k.noted(_KNOWN, entry, name)) for dtype, name in ((I64, "flags"), (F32, "room")))
    k.loop(0, k.noted(_KNOWN, entry, "flags"), lambda i: k.store(k.i64(0), k.data(flags), i, "i64"))
    k.launch_entry(_KNOWN, direct, entry, [*operands, out, sums, flags, room])
    k.drop(room, flags, sums)
    k.answer_new(k.disown(out), bits)


def attention(code: Code) -> str:
    """``scaled_dot_product_attention`` of float32 without a mask, not recorded."""
    k = _Attention(code, "attention")
    _, bits = k.enter(8)
    none, false = k.object(None), k.object(False)
    mask, dropout, is_causal, scale, grouped = (k.argument(place) for place in range(3, 8))
    k.require(k.is_empty(state.autocasting) & bits.eq(0) & k.same(mask, none) & k.same(grouped, false) & k.is_exactly(dropout, float))
    k.require((k.field(dropout, 16, "i64").eq(0)) & (k.same(is_causal, false) | k.same(is_causal, k.object(True))))
    fused = k.call_c("PyDict_GetItemWithError", "ptr", k.object(settings.attention), k.object("flash"))
    k.require(k.same(fused, k.object(True)))
    query, key, value = operands = [k.operand(place) for place in range(3)]
    k.require_same_sizes(query, key, 0, 1, 3)
    k.require_same_sizes(key, value, 0, 1, 2, 3)
    count, length = k.size(query), k.length(query, 2)
    k.require((count > 0) & (count * k.length(key, 2) >= k.word(records.LIMIT)))
    causal, factor = k.same(is_causal, k.object(True)), k.factor(scale, k.length(query, 3))
    k.case(length.eq(1), lambda: _of_single(k, operands, causal, factor, bits))
    _of_many(k, operands, causal, factor, bits)
    return k.finish()


def _note(arrays: tuple[np.ndarray, ...], is_causal: bool, scale: float, plan: Any) -> None:
    """Let machine code launch a plan for operands like the first three ``arrays``, the last of which is the result."""
    query, key, *_ = arrays
    if is_fused_attention(*arrays[:3]) and query.dtype == DTYPES[F32] and arrays[3].strides[3] == _SIZE:
        strides = [step for array in arrays for step in array.strides[:3]]
        factor, scratch = struct.unpack("=q", struct.pack("=d", scale))[0], plan.scratch
        asked = (*query.shape[:3], key.shape[2], query.shape[3], *strides[:9], is_causal, factor, scratch.pieces)
        _KNOWN.note(asked, 7, plan.run, (*strides[9:], scratch.flags, scratch.pieces * scratch.size))


def of_attention(op: Any) -> records.Record:
    """The record of attention.

    Raises:
        Unfit: its kernel cannot be had.
    """
    from ..families import attention
    from ..families.single_query import attend_single

    record = of_kernel(primitive("_attention", "nn.functional"), (0, 1, 2), address_of(attend_single, "f32", ""))
    record.put(_TABLE, _KNOWN.address)
    attention.tell(_note)
    return record
