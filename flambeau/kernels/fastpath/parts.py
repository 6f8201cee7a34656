"""Forms of calls that give several views of a tensor, or copies of its rows, which nobody records."""

from __future__ import annotations

from typing import Any

from ..compiler.language import Value
from . import records
from .code import Code
from .forms import Pointwise
from .records import DTYPES, I64
from .views import INFERENCE_WORD, MOST_DIMS, View, meta_word, view_around

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


# -- rows -------------------------------------------------------------------------------------------------------------------------------
_TABLE, _INDICES, _COUNT, _WRAPS = (
    records.EXTRA + k for k in range(4)
)  # places of both, number of arguments, and whether -1 is the last row


def rows(code: Code) -> str:
    """Rows of a row-major tensor at the places that another one has: of ``embedding`` and of ``x[indices]``."""
    k = Pointwise(code, "rows")
    k.require_count(k.word(_COUNT))
    x, y = k.argument(k.word(_TABLE)), k.argument(k.word(_INDICES))
    k.require(k.is_plain(x) & k.is_plain(y))
    k.require_no_mode()
    bits = k.needed()
    k.require(k.word(records.NODE).ne(0) | ~k.recording(k.requires_grad(x, may_be_inference=True)))
    table, places = k.array_of(x), k.array_of(y)
    k.require(k.same(k.dtype(places), k.object(DTYPES[I64])))
    size, n, count = k.size_of(k.dtype(table)), k.ndim(table), k.size(places)
    k.require((n > 0) & (k.ndim(places) > 0) & (count > 0) & (n + k.ndim(places) <= MOST_DIMS))
    is_usual = k.measured(table)[1] & k.measured(places)[1]
    k.require(is_usual | (k.owns_its_memory(table) & k.owns_its_memory(places)))  # else sizes of 1 may have any strides
    length, bytes_ = k.load(k.dims(table), 0, "i64"), k.size(table) * size
    k.require(bytes_ > 0)
    bytes_ = bytes_ // length
    k.require(count * bytes_ < 1 << 16)
    wraps = k.word(_WRAPS).ne(0)

    def is_place(i: Value, fits: Value) -> Value:
        place = k.load(k.data(places), i, "i64")
        return fits & k.cast((place < length) & ((place >= 0) | (wraps & (place >= -length))), "i64")

    k.require(k.loop(0, count, is_place, carried=(k.i64(1),)).ne(0))
    dims = k.scratch(MOST_DIMS, "i64")
    m = k.ndim(places)
    k.loop(0, m, lambda d: k.store(k.load(k.dims(places), d, "i64"), dims, d, "i64"))
    k.loop(1, n, lambda d: k.store(k.load(k.dims(table), d, "i64"), dims, m + d - 1, "i64"))
    r = k.new_array(k.dtype(table), m + n - 1, dims)
    source, target = k.data(table), k.data(r)

    def copy(i: Value) -> None:
        place = k.load(k.data(places), i, "i64")
        place = k.pick(place < 0, place + length, place)
        k.call_c("memcpy", "ptr", k.at(target, i * bytes_, "i8"), k.at(source, place * bytes_, "i8"), bytes_)

    k.loop(0, count, copy)
    k.answer_new(r, bits)
    return k.finish()


def of_embedding(op: Any) -> records.Record:
    """The record of ``embedding``."""
    record = records.of_views(op)
    return _of_rows(record, op.names.index("weight"), op.names.index("indices"), len(op.names), False)


def of_taking(op: Any) -> records.Record:
    """The record of ``x[indices]``."""
    return _of_rows(records.Record(), 0, 1, 2, True)


def _of_rows(record: records.Record, table: int, indices: int, count: int, wraps: bool) -> records.Record:
    for place, value in ((_TABLE, table), (_INDICES, indices), (_COUNT, count), (_WRAPS, wraps)):
        record.put(place, int(value))
    return record
