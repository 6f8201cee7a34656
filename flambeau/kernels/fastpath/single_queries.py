"""The form of attention of one query a head, which models that write word after word call at each step with one more key."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import state
from ...core.calls.registry import primitive
from ...core.settings import settings
from ..compiler.language import SIZES, Value
from . import records
from .code import Code
from .interpreter import ALIGNED, FLAGS
from .launching import KERNEL, Launching, address_of, of_kernel
from .records import DTYPES, F32

_SIZE = SIZES["f32"]


class _Attention(Launching):
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

    def new_alike(self, model: Value) -> Value:
        """A new array with the sizes and strides of a dense one."""
        self.incref(self.dtype(model))
        given = (self.object(np.ndarray), self.dtype(model), self.i32(4), self.dims(model), self.strides(model), self.null, self.i32(0))
        made = self.call_c("PyArray_NewFromDescr", "ptr", *given, self.null)
        self.check(self.exists(made))
        return self.own(made)


def attention(code: Code) -> str:
    """``scaled_dot_product_attention`` of one float32 query a head without a mask, not recorded: the kernel of ``single_query``."""
    from ..families.attention import TOGETHER
    from ..families.single_query import DEEPEST

    k = _Attention(code, "attention")
    _, bits = k.enter(8)
    none, false = k.object(None), k.object(False)
    mask, dropout, is_causal, scale, grouped = (k.argument(place) for place in range(3, 8))
    k.require(k.is_empty(state.autocasting) & bits.eq(0) & k.same(mask, none) & k.same(grouped, false) & k.is_exactly(dropout, float))
    k.require((k.field(dropout, 16, "i64").eq(0)) & (k.same(is_causal, false) | k.same(is_causal, k.object(True))))
    fused = k.call_c("PyDict_GetItemWithError", "ptr", k.object(settings.attention), k.object("flash"))
    k.require(k.same(fused, k.object(True)))
    query, key, value = (k.operand(place) for place in range(3))
    batch, heads, one, depth = (k.length(query, dim) for dim in range(4))
    keys, matrices, zero = k.length(key, 2), batch * heads, k.i64(0)
    k.require_same_sizes(query, key, 0, 1, 3)
    k.require_same_sizes(key, value, 0, 1, 2, 3)
    k.require(one.eq(1) & (depth <= DEEPEST) & (matrices * depth * keys >= k.word(records.LIMIT)) & (matrices > 0))
    k.require_dense(query)
    factor = k.factor(scale, depth)
    direct, kernel = k.require_launches(), k.word(KERNEL, element="ptr")

    count = k.scratch(1, "i64")
    k.store(matrices, count, 0, "i64")
    out = k.new_alike(query)
    sums = k.own(k.new_array(k.object(DTYPES[F32]), k.i64(1), count))  # which nobody wants
    apart = [k.apart(array, dim) for dim in (0, 1) for array in (query, key, value, out)]
    per_chunk = k.most(k.i64(TOGETHER) // (keys * depth * 2), k.i64(1))
    seen = k.pick(k.same(is_causal, false), keys, k.i64(1))
    rows = [k.step(array, 2) // _SIZE for array in (key, value)]
    steps = [*[zero] * 5, *apart[:4], zero, *apart[4:], zero]  # as ``SingleArguments`` has them
    numbers = [matrices, batch, heads, *steps, per_chunk, seen, depth, depth, *rows, factor]
    k.launch(direct, kernel, [query, key, value, out, sums, sums, *numbers], (matrices + per_chunk - 1) // per_chunk)
    k.drop(sums)
    k.answer_new(k.disown(out), bits)
    return k.finish()


def of_attention(op: Any) -> records.Record:
    """The record of attention.

    Raises:
        Unfit: its kernel cannot be had.
    """
    from ..families.single_query import attend_single

    return of_kernel(primitive("_attention", "nn.functional"), (0, 1, 2), address_of(attend_single, "f32", ""))
