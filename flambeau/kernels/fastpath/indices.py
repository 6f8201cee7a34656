"""The form of ``x[key]``: the part of a tensor's memory that ints, slices, None and an ellipsis take."""

from __future__ import annotations

from ..compiler.language import Value
from . import records
from .code import Code
from .forms import Form
from .views import MOST_DIMS, View

# Which class of node records an index; the second and third stand in ``records.EXTRA``, and what else there is is not recorded.
_SELECTED, _PARTED, _WHOLE, _OTHER = range(4)


class Indexed(View):
    """Of the three classes of nodes, which one follows from the index."""

    kind: Value

    def node_class(self) -> Value:
        parted, whole = (self.word(records.EXTRA + place, element="ptr") for place in (0, 1))
        selected = super().node_class()
        return self.pick(self.kind.eq(_SELECTED), selected, self.pick(self.kind.eq(_PARTED), parted, whole))

    def read_key(self, a: Value, key: Value) -> tuple[Value, Value, Value, Value]:
        """Write down the view that an index makes: number of its dimensions, where it begins, and the index's items and their number."""
        several = self.is_exactly(key, tuple)
        count = self.when(several, lambda: self.field(key, 16, "i64"), lambda: self.i64(1))
        items = self.pick(several, self.at(key, self.interpreter.tuple_items, "i8"), self.at(self.given, 1, "ptr"))
        least = self.pick(several, self.i64(_WHOLE), self.i64(_PARTED))
        ndim, offset, self.kind = locate(self, a, items, count, least)
        return ndim, offset, items, count

    def keep_key(self, x: Value, key: Value, items: Value, count: Value) -> None:
        """Put the index (owned) as nodes keep it in the arguments' place: a slice, or what else it is with an ellipsis behind it."""

        def several() -> Value:
            made = self.own(self.call_c("PyTuple_New", "ptr", count + 1))
            self.check(self.exists(made))
            places = self.at(made, self.interpreter.tuple_items, "i8")
            self.loop(0, count, lambda i: self.store(self.incref(self.load(items, i, "ptr")), places, i, "ptr"))
            self.store(self.incref(self.object(...)), places, count, "ptr")
            return self.disown(made)

        made = self.own(self.when(self.is_exactly(key, slice), lambda: self.incref(key), several))
        given = self.scratch(2, "ptr")
        for place, thing in enumerate((x, made)):
            self.store(thing, given, place, "ptr")
        self.given = given


def locate(k: View, a: Value, items: Value, count: Value, least: Value) -> tuple[Value, Value, Value]:
    """Write down the part of an array that an index takes: the number of its dimensions, where it begins, and what takes it.

    Args:
        least: what takes it if all are slices of everything.
    """
    dims, strides, ndim, dots = k.dims(a), k.strides(a), k.ndim(a), k.object(...)
    none = k.object(None)

    def consume(i: Value, taken: Value, skips: Value) -> tuple[Value, Value]:
        item = k.load(items, i, "ptr")
        is_skip = k.same(item, dots)
        return taken + k.cast(~(is_skip | k.same(item, none)), "i64"), skips + k.cast(is_skip, "i64")

    taken, skips = k.loop(0, count, consume, carried=(k.i64(0), k.i64(0)))
    k.require((count > 0) & (taken <= ndim) & (skips < 2) & (ndim + count < MOST_DIMS))

    def step(i: Value, out: Value, dim: Value, offset: Value, kind: Value) -> tuple[Value, Value, Value, Value]:
        item = k.load(items, i, "ptr")

        def number() -> tuple[Value, Value, Value, Value]:
            place = k.index(item, k.load(dims, dim, "i64"))
            return out, dim + 1, offset + place * k.load(strides, dim, "i64"), k.pick(kind.eq(_OTHER), kind, k.i64(_SELECTED))

        def part() -> tuple[Value, Value, Value, Value]:
            size, stride = k.load(dims, dim, "i64"), k.load(strides, dim, "i64")
            first, length, by, is_whole = _part(k, item, size)
            k.put_dim(out, length, stride * by)
            taking = k.pick(is_whole, kind, k.i64(_PARTED))
            return out + 1, dim + 1, offset + first * stride, k.pick(by.ne(1) | kind.eq(_OTHER), k.i64(_OTHER), taking)

        def inserted() -> tuple[Value, Value, Value, Value]:
            def ahead() -> Value:
                return k.load(dims, dim, "i64") * k.load(strides, dim, "i64")

            k.put_dim(out, k.i64(1), k.when(dim < ndim, ahead, lambda: item_bytes(k, a)))
            return out + 1, dim, offset, k.i64(_OTHER)

        def skipped() -> tuple[Value, Value, Value, Value]:
            many = ndim - taken

            def copy(d: Value) -> None:
                k.require(k.load(dims, dim + d, "i64") > 0)
                k.put_dim(out + d, k.load(dims, dim + d, "i64"), k.load(strides, dim + d, "i64"))

            k.loop(0, many, copy)
            return out + many, dim + many, offset, k.i64(_OTHER)

        def rest() -> tuple[Value, ...]:
            return k.when(k.same(item, none), inserted, lambda: k.when(k.same(item, dots), skipped, part))

        return k.when(k.is_exactly(item, int), number, rest)

    out, dim, offset, kind = k.loop(0, count, step, carried=(k.i64(0), k.i64(0), k.i64(0), least))
    k.copy_dims(a, 1, lambda i: out + (i - dim), dim)
    return out + (ndim - dim), offset, kind


def _part(k: View, item: Value, size: Value) -> tuple[Value, Value, Value, Value]:
    """The first place of what must be a slice, its length and step, and whether it has no bounds."""
    k.require(k.is_exactly(item, slice))
    start, stop, by = (k.field(item, place) for place in (16, 24, 32))
    none = k.object(None)
    step = k.when(k.same(by, none), lambda: k.i64(1), lambda: k.integer_of(by))
    k.require((step > 0) & (step < 1 << 31))
    first, last = _bound(k, start, size, k.i64(0)), _bound(k, stop, size, size)
    k.require(first < last)
    return first, (last - first + step - 1) // step, step, k.same(start, none) & k.same(stop, none)


def item_bytes(k: Form, a: Value) -> Value:
    """Bytes of an element of what must be one of ``DTYPES``."""
    size = k.i64(0)
    for each in records.DTYPES:
        size = k.pick(k.same(k.dtype(a), k.object(each)), k.i64(each.itemsize), size)
    k.require(size > 0)
    return size


def indexed(code: Code) -> str:
    """``x[key]`` for an int, a slice, None, an ellipsis, or a tuple of these; those that are recorded are ints and slices without step."""
    k = Indexed(code, "indexed")
    x, a, bits = k.enter_view(2)
    key = k.argument(1)
    ndim, offset, items, count = k.read_key(a, key)
    k.require(bits.eq(0) | k.kind.ne(_OTHER))

    def recorded() -> None:
        k.own(k.incref(a))
        k.keep_key(x, key, items, count)
        k.show(x, a, bits, ndim, offset)

    k.case(bits.ne(0), recorded)
    k.given = k.operands[1]
    k.show(x, a, k.i64(0), ndim, offset)
    return k.finish()


def _bound(k: Form, thing: Value, size: Value, otherwise: Value) -> Value:
    """A bound of a slice, counted from the front and put into the dimension."""

    def given() -> Value:
        number = k.integer_of(thing)
        number = k.pick(number < 0, number + size, number)
        return k.pick(number < 0, k.i64(0), k.pick(number > size, size, number))

    return k.when(k.same(thing, k.object(None)), lambda: otherwise, given)
