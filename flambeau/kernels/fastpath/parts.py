"""Forms of calls that give several views of a tensor, which nobody records."""

from __future__ import annotations

from typing import Any

from ..compiler.language import Value
from . import records
from .code import Code
from .views import INFERENCE_WORD, View, meta_word, view_around

_UNBOUND, _SPLIT, _CHUNKS = range(3)  # how parts are counted, in ``records.EXTRA``
_MOST_PARTS = 1024
_PARTS = {"unbind": _UNBOUND, "split": _SPLIT, "Tensor.split": _SPLIT, "chunk": _CHUNKS}


def parted(code: Code) -> str:
    """``unbind(x, dim)``, ``split(x, size, dim)`` and ``chunk(x, count, dim)``."""
    k = View(code, "parted")
    how = k.word(records.EXTRA)
    is_unbound = how.eq(_UNBOUND)
    x, a, _ = k.enter_view(k.pick(is_unbound, k.i64(2), k.i64(3)))
    k.require(~k.requires_grad(x, may_be_inference=True))
    n, dims, strides = k.ndim(a), k.dims(a), k.strides(a)
    dim = k.index(k.when(is_unbound, lambda: k.argument(1), lambda: k.argument(2)), n)
    length, step = k.load(dims, dim, "i64"), k.load(strides, dim, "i64")
    given = k.when(is_unbound, lambda: k.i64(1), lambda: k.integer_of(k.argument(1)))
    k.require((given > 0) & (length > 0))
    size = k.pick(how.eq(_CHUNKS), (length + given - 1) // given, given)
    count = (length + size - 1) // size
    k.require(count <= _MOST_PARTS)
    k.copy_dims(a, 1, lambda i: i - k.cast(is_unbound & (i > dim), "i64"))
    ndim = n - k.cast(is_unbound, "i64")
    k.require(~k.records | ~k.same(meta_word(k, x), k.object(INFERENCE_WORD)))  # which stays
    word = k.pick(k.records, k.object("multi_output"), k.mark)
    k.own(k.incref(a))
    parts = k.own(k.call_c("PyTuple_New", "ptr", count))
    k.check(k.exists(parts))
    items = k.at(parts, k.interpreter.tuple_items, "i8")

    def part(i: Value) -> None:
        begin = i * size
        rest = length - begin

        def shorten() -> None:
            k.put_dim(dim, k.pick(rest < size, rest, size), step)

        k.when(~is_unbound, shorten)
        made = view_around(k, k.shown(a, ndim, begin * step), x, word)
        k.fill_unrecorded(made, k.is_inference(x))
        k.store(k.disown(made), items, i, "ptr")

    k.loop(0, count, part)
    k.drop(a)
    k.give(k.disown(parts))
    return k.finish()


def of_parts(op: Any) -> records.Record:
    """The record of ``unbind`` and the like."""
    record = records.Record()
    record.put(records.EXTRA, _PARTS[op.key])
    return record
