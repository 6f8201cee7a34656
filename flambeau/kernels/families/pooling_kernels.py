"""The kernels of ``pooling``: planes whose columns lie together, planes whose channels do, gradients, and large bins."""

from __future__ import annotations

import math
from typing import Any

from ..compiler.arguments import Array, Integer, Record
from ..compiler.build import kernel
from ..compiler.language import Builder, Value, as_tuple

_NONE = {"sum": 0.0, "max": -math.inf}


class _Limits:
    """Start and stop of output ``at`` along a dimension, and the divisor of its sum; read from a table of three rows."""

    def __init__(self, k: Builder, table: Value, count: Value):
        self.k, self.table, self.count = k, table, count

    def __call__(self, at: Value) -> tuple[Value, Value]:
        return self.k.load(self.table, at, "i64"), self.k.load(self.table, at + self.count, "i64")

    def divisor(self, at: Value) -> Value:
        return self.k.load(self.table, at + self.count * 2, "i64")


class Windows(Record):
    """Windows or bins that planes of ``height`` by ``width`` are seen through."""

    down: Array  # the table of limits of rows, see ``_Limits``
    across: Array  # the same of columns
    height: Integer
    width: Integer
    high: Integer  # rows and columns of the result
    wide: Integer
    rate_y: Integer  # steps between the elements of a window
    rate_x: Integer

    def limits(self, k: Builder) -> tuple[_Limits, _Limits]:
        return _Limits(k, self.down, self.high), _Limits(k, self.across, self.wide)


class Units(Record):
    """Units of work, ``per`` of them in a chunk."""

    per: Integer
    count: Integer

    def of_chunk(self, k: Builder, c: Value) -> tuple[Value, Value]:
        return c * self.per, k.least((c + 1) * self.per, self.count)


# -- columns together ------------------------------------------------------------------------------------------------------------
class PlaneArguments(Record):
    x: Array
    y: Array
    places: Array  # in their planes
    rows: Array  # scratch memory: a row for each chunk
    windows: Windows
    inner: Integer  # the columns from ``inner`` to ``inner_stop`` have whole windows, of ``taps`` columns
    inner_stop: Integer
    taps: Integer
    step: Integer  # from window to window
    units: Units


@kernel
def pool_planes(k: Builder, element: str, way: str, stride: int) -> None:
    """Planes whose columns lie together.

    ``way`` is ``"sum"``, which is divided, ``"max"``, or ``"place"``: the maximum and its place in the plane, the first of equal ones or
    the last NaN.  ``stride`` is the step between windows if it is at most 4, else 0.  Windows are whole from ``inner`` to ``inner_stop``.
    """
    a = k.arguments(PlaneArguments)
    w, lanes = a.windows, k.lanes(element)
    vertical, horizontal = w.limits(k)
    elements = [element, "i32"] if way == "place" else [element]
    combined = _MORE[way]
    span = a.inner_stop - a.inner
    span = k.select(span >= lanes // 2, span, 0)

    def unit(u: Value, row: list[Value]) -> None:
        plane, out = divmod(u, w.high)
        top, bottom = vertical(out)
        source = k.at(a.x, plane * w.height * w.width, element)

        def fold(c: Value, mask: Value | None) -> None:
            def line(r: Value) -> list[Value]:
                value = k.load(source, r * w.width + c, element, lanes, mask)
                return [value, k.splat(k.cast(r * w.width + c, "i32"), lanes) + k.indices(lanes, "i32")][: len(elements)]

            kept = k.loop(top + w.rate_y, bottom, lambda r, *kept: combined(k, kept, line(r)), step=w.rate_y, carried=line(top))
            for value, stored, to in zip(as_tuple(kept), elements, row, strict=True):
                k.store(value, to, c, stored, mask)

        k.vector_loop(0, w.width, lanes, fold)

        def finish(kept: Any, at: Value) -> None:
            value, *place = as_tuple(kept)
            if way == "sum":
                value = value / k.splat(k.cast(vertical.divisor(out) * horizontal.divisor(at), element), value.lanes)
            k.store(value, a.y, u * w.wide + at, element)
            if place:
                k.store(k.cast(place[0], "i64"), a.places, u * w.wide + at, "i64")

        def single(at: Value) -> None:
            start, stop = horizontal(at)

            def column(c: Value) -> list[Value]:
                return [k.load(from_, c, stored) for from_, stored in zip(row, elements, strict=True)]

            def short() -> tuple[Value, ...]:
                return as_tuple(
                    k.loop(start + w.rate_x, stop, lambda c, *kept: combined(k, kept, column(c)), step=w.rate_x, carried=column(start))
                )

            is_long = (stop - start >= 4 * lanes) & w.rate_x.eq(1)
            finish(
                short() if way == "place" else k.when(is_long, lambda: _of_neighbours(k, row[0], element, start, stop, combined), short), at
            )

        def unrolled(at: Value, lanes: int) -> None:
            start, _ = horizontal(at)

            def columns(i: Any) -> list[Value]:
                return [
                    _spaced(k, from_, start + i * w.rate_x, stride, a.step, stored, lanes)
                    for from_, stored in zip(row, elements, strict=True)
                ]

            first = columns(k.const(0, "i64"))
            finish(k.loop(1, a.taps, lambda i, *carried: combined(k, carried, columns(i)), carried=first), at)

        # whole windows in vectors, the last of which overlaps the one before it, the others one by one
        def vectors(lanes: int) -> None:
            k.loop(a.inner, a.inner_stop, lambda at: unrolled(k.least(at, a.inner_stop - lanes), lanes), step=lanes)

        k.when(span >= lanes, lambda: vectors(lanes), lambda: k.when(span > 0, lambda: vectors(lanes // 2)))
        k.loop(0, w.wide - span, lambda i: single(i + k.select(i >= a.inner, span, 0)))

    def chunk(c: Value) -> None:
        row = [k.at(a.rows, c * (w.width * len(elements)), element)]
        if way == "place":
            row.append(k.at(row[0], w.width, element))
        k.loop(*a.units.of_chunk(k, c), lambda u: unit(u, row))

    k.for_chunks(chunk)


def _of_neighbours(k: Builder, row: Value, element: str, start: Value, stop: Value, combined: Any) -> Value:
    """Many neighbours combined to one: a register at a time, and what remains one by one."""
    lanes = k.lanes(element)
    end = stop - ((stop - start) & (lanes - 1))

    def more(c: Value, kept: Value) -> Any:
        return combined(k, [kept], [k.load(row, c, element, kept.lanes)])

    kept = k.loop(start + lanes, end, more, step=lanes, carried=[k.load(row, start, element, lanes)])
    result: Value = k.loop(end, stop, more, carried=[k.fold(kept, lambda x, y: combined(k, [x], [y])[0])])
    return result


def _first_of_two(k: Builder, kept: Any, other: Any) -> tuple[Value, Value]:
    """The greater of two values with places; the first of equal ones, the last of NaN."""
    (best, place), (value, at) = kept, other
    before = at < place
    better = (value > best) | (value.eq(best) & before) | (value.is_nan() & ~(best.is_nan() & before))
    return k.select(better, value, best), k.select(better, at, place)


_MORE = {
    "sum": lambda k, kept, other: (kept[0] + other[0],),
    "max": lambda k, kept, other: (k.maximum(kept[0], other[0]),),
    "place": _first_of_two,
}


def _spaced(k: Builder, pointer: Value, start: Value, stride: int, step: Value, element: str, lanes: int) -> Value:
    """Every ``step``-th element from ``start`` on; nothing beyond the last of them is read."""
    if lanes == 1:
        return k.load(pointer, start, element)
    if not stride:
        return k.load_strided(pointer, start, step, element, lanes)
    vector = k.load(pointer, start, element, lanes)
    for n in range(1, stride):  # the last vector ends with the last element wanted
        first = n * lanes if n < stride - 1 else n * (lanes - 1)
        more = k.load(pointer, start + first, element, lanes)
        have = [i if n > 1 else i * stride for i in range(lanes)]  # where lane i is, if it is in ``vector``
        vector = k.shuffle(
            vector, [have[i] if i * stride < n * lanes else min(lanes + i * stride - first, 2 * lanes - 1) for i in range(lanes)], more
        )
    return vector


class SpreadPlaneArguments(Record):
    g: Array
    y: Array
    rows: Array  # scratch memory: a row for each chunk
    windows: Windows
    units: Units


@kernel
def spread_planes(k: Builder, element: str) -> None:
    """The gradient of an average: each element of ``g``, divided, is added to its window. A chunk has whole planes."""
    a = k.arguments(SpreadPlaneArguments)
    w, lanes = a.windows, k.lanes(element)
    vertical, horizontal = w.limits(k)

    def line(start: Value, stop: Value, body: Any) -> None:
        k.vector_loop(start, stop, lanes, body)

    def unit(plane: Value, row: Value) -> None:
        source, target = k.at(a.g, plane * w.high * w.wide, element), k.at(a.y, plane * w.height * w.width, element)
        none = k.const(0, element, lanes)

        def output_row(out: Value, cleared: Value) -> Value:
            top, bottom = vertical(out)
            divisor = vertical.divisor(out)
            line(k.const(0, "i64"), w.width, lambda c, mask: k.store(none, row, c, element, mask))

            def one(at: Value) -> None:
                start, stop = horizontal(at)
                share = k.load(source, out * w.wide + at, element) / k.cast(divisor * horizontal.divisor(at), element)
                k.loop(start, stop, lambda c: k.store(k.load(row, c, element) + share, row, c, element))

            k.loop(0, w.wide, one)

            def write(r: Value) -> None:  # rows from ``cleared`` on have not been written yet
                def old(c: Value, mask: Value | None) -> None:
                    added = k.load(target, r * w.width + c, element, lanes, mask) + k.load(row, c, element, lanes, mask)
                    k.store(added, target, r * w.width + c, element, mask)

                def new(c: Value, mask: Value | None) -> None:
                    k.store(k.load(row, c, element, lanes, mask), target, r * w.width + c, element, mask)

                k.when(r < cleared, lambda: line(k.const(0, "i64"), w.width, old), lambda: line(k.const(0, "i64"), w.width, new))

            clear(cleared, top)
            cleared = k.most(cleared, top)
            k.loop(top, bottom, write)
            return k.most(cleared, bottom)

        def clear(start: Value, stop: Value) -> None:
            line(start * w.width, k.most(start, stop) * w.width, lambda c, mask: k.store(none, target, c, element, mask))

        clear(k.loop(0, w.high, output_row, carried=(k.const(0, "i64"),)), w.height)

    def chunk(c: Value) -> None:
        row = k.at(a.rows, c * w.width, element)
        k.loop(*a.units.of_chunk(k, c), lambda u: unit(u, row))

    k.for_chunks(chunk)


# -- channels together -----------------------------------------------------------------------------------------------------------
class ChannelArguments(Record):
    x: Array
    y: Array
    places: Array  # in their planes, where they are wanted
    windows: Windows
    channels: Integer
    units: Units


@kernel
def pool_channels(k: Builder, element: str, way: str) -> None:
    """Pooling of ``(N, H, W, C)``, in the ways of ``pool_planes``."""
    has_places = way == "place"
    a = k.arguments(ChannelArguments, without=() if has_places else ("places",))
    w, lanes = a.windows, k.lanes(element)
    vertical, horizontal = w.limits(k)

    def unit(u: Value) -> None:
        line, at = divmod(u, w.wide)
        image, out = divmod(line, w.high)
        (top, bottom), (left, right) = vertical(out), horizontal(at)
        source, target = k.at(a.x, image * w.height * w.width * a.channels, element), k.at(a.y, u * a.channels, element)
        divisor = k.cast(vertical.divisor(out) * horizontal.divisor(at), element) if way == "sum" else None

        def some(c: Value, mask: Value | None) -> None:
            def tap(r: Value, q: Value, *kept: Value) -> tuple[Value, ...]:
                here = r * w.width + q
                value = k.load(source, here * a.channels + c, element, lanes, mask)
                if not has_places:
                    return _MORE[way](k, kept, (value,))
                best, place = kept
                better = (value > best) | value.is_nan() | (place < 0)
                return k.select(better, value, best), k.select(better, k.splat(k.cast(here, "i32"), lanes), place)

            def row(r: Value, *kept: Value) -> Any:
                return k.loop(left, right, lambda q, *kept: tap(r, q, *kept), step=w.rate_x, carried=kept)

            first = [k.const(_NONE.get(way, -math.inf), element, lanes), *([k.const(-1, "i32", lanes)] if has_places else [])]
            value, *place = as_tuple(k.loop(top, bottom, row, step=w.rate_y, carried=first))
            k.store(value if divisor is None else value / k.splat(divisor, lanes), target, c, element, mask)
            if has_places:
                k.store(k.cast(place[0], "i64"), a.places, u * a.channels + c, "i64", mask)

        k.vector_loop(0, a.channels, lanes, some)

    k.for_chunks(lambda c: k.loop(*a.units.of_chunk(k, c), unit))


# -- gradients -------------------------------------------------------------------------------------------------------------------
class ScatterArguments(Record):
    g: Array
    places: Array  # in their planes
    y: Array
    bad: Array  # set where a place lies outside of its plane
    area: Integer  # elements of a plane of the result
    count: Integer  # elements of a plane of the gradient
    channels: Integer
    block: Integer  # of channels
    blocks: Integer
    units: Units


@kernel
def add_at_places(k: Builder, element: str) -> None:
    """``y[n, places[n, i, c], c] += g[n, i, c]`` into zeros; a chunk has a block of the channels ``c`` of some ``n``."""
    a = k.arguments(ScatterArguments)
    lanes = k.lanes(element)

    def unit(u: Value, wrong: Value) -> Value:
        plane, part = divmod(u, a.blocks)
        first = part * a.block
        stop = k.least(first + a.block, a.channels)
        target = k.at(a.y, plane * a.area * a.channels, element)
        none = k.const(0, element, lanes)

        def clear(start: Value, stop: Value) -> None:
            k.vector_loop(start, stop, lanes, lambda c, mask: k.store(none, target, c, element, mask))

        def clear_blocks() -> None:
            k.loop(0, a.area, lambda i: clear(i * a.channels + first, i * a.channels + stop))

        k.when(a.blocks.eq(1), lambda: clear(k.const(0, "i64"), a.area * a.channels), clear_blocks)

        def add(i: Value, wrong: Value, c: Value | None = None) -> Value:
            """Element i of the gradient; ``c`` is its channel where there are several."""
            place = k.load(a.places, i, "i64")
            good = Value(k, place.text, "u64") < Value(k, a.area.text, "u64")
            at = k.select(good, place, 0)
            at = at if c is None else at * a.channels + c
            k.store(k.load(target, at, element) + k.load(a.g, i, element), target, at, element)
            return wrong | ~good

        def by_channels() -> Value:
            def line(i: Value, wrong: Value) -> Value:
                from_ = (plane * a.count + i) * a.channels
                return k.loop(first, stop, lambda c, wrong: add(from_ + c, wrong, c), carried=(wrong,))

            return k.loop(0, a.count, line, carried=(wrong,))

        start = plane * a.count
        return k.when(a.channels.eq(1), lambda: k.loop(start, start + a.count, add, carried=(wrong,)), by_channels)

    def chunk(c: Value) -> None:
        wrong = k.loop(*a.units.of_chunk(k, c), unit, carried=(k.const(False, "b1"),))
        k.when(wrong, lambda: k.store(k.const(1, "i64"), a.bad, 0, "i64"))

    k.for_chunks(chunk)


class SpreadChannelArguments(Record):
    g: Array
    y: Array
    windows: Windows
    channels: Integer
    block: Integer  # of channels
    blocks: Integer


@kernel
def spread_channels(k: Builder, element: str) -> None:
    """The gradient of an average over ``(N, H, W, C)``; a chunk has a block of the channels of one image."""
    a = k.arguments(SpreadChannelArguments)
    w, lanes = a.windows, k.lanes(element)
    vertical, horizontal = w.limits(k)

    def chunk(u: Value) -> None:
        image, part = divmod(u, a.blocks)
        first = part * a.block
        stop = k.least(first + a.block, a.channels)
        target = k.at(a.y, image * w.height * w.width * a.channels, element)
        none = k.const(0, element, lanes)

        def clear(at: Value) -> None:
            k.vector_loop(first, stop, lanes, lambda c, mask: k.store(none, target, at * a.channels + c, element, mask))

        def window(out: Value, at: Value) -> None:
            (top, bottom), (left, right) = vertical(out), horizontal(at)
            divisor = k.cast(vertical.divisor(out) * horizontal.divisor(at), element)
            from_ = ((image * w.high + out) * w.wide + at) * a.channels

            def some(c: Value, mask: Value | None) -> None:
                share = k.load(a.g, from_ + c, element, lanes, mask) / k.splat(divisor, lanes)

                def tap(place: Value) -> None:
                    k.store(k.load(target, place, element, lanes, mask) + share, target, place, element, mask)

                k.loop(top, bottom, lambda r: k.loop(left, right, lambda q: tap((r * w.width + q) * a.channels + c)))

            k.vector_loop(first, stop, lanes, some)

        def row(out: Value, cleared: Value) -> Value:
            _, bottom = vertical(out)
            k.loop(cleared * w.width, k.most(bottom, cleared) * w.width, clear)
            k.loop(0, w.wide, lambda at: window(out, at))
            return k.most(bottom, cleared)

        k.loop(k.loop(0, w.high, row, carried=(k.const(0, "i64"),)) * w.width, w.height * w.width, clear)

    k.for_chunks(chunk)


# -- large bins -----------------------------------------------------------------------------------------------------------------------
class BinArguments(Record):
    x: Array
    values: Array
    places: Array
    limits: Array  # where each bin begins and ends, of all three dimensions behind each other
    depth: Integer
    height: Integer
    width: Integer
    count_d: Integer  # how many bins
    count_h: Integer
    count_w: Integer
    units: Units  # planes


@kernel
def bin_places(k: Builder, element: str) -> None:
    """The largest element of each bin of a plane, and its place; a register holds neighbours of one row of the bin, a unit is a plane.

    Each lane keeps its first largest element or its last NaN; at the end the lanes are joined by the same rule.
    """
    a = k.arguments(BinArguments)
    lanes = k.lanes(element)
    area, bins = a.depth * a.height * a.width, a.count_d * a.count_h * a.count_w
    offsets = [k.const(0, "i64"), a.count_d * 2, (a.count_d + a.count_h) * 2]

    def bounds(dim: int, i: Value) -> tuple[Value, Value]:
        return k.load(a.limits, offsets[dim] + i * 2, "i64"), k.load(a.limits, offsets[dim] + i * 2 + 1, "i64")

    def unit(u: Value) -> None:
        plane = k.at(a.x, u * area, element)

        def one(o: Value) -> None:
            down = o // a.count_w
            front, back = bounds(0, down // a.count_h)
            top, bottom = bounds(1, down % a.count_h)
            left, right = bounds(2, o % a.count_w)
            first = k.cast((front * a.height + top) * a.width + left, "i32")

            def line(d: Value, h: Value, *kept: Value) -> Any:
                row = (d * a.height + h) * a.width

                def some(w: Value, mask: Value | None, best: Value, at: Value) -> tuple[Value, Value]:
                    here = k.load(plane, row + w, element, lanes, mask)
                    better = (here > best) | here.is_nan()
                    better = better if mask is None else better & mask
                    numbers = k.splat(k.cast(row + w, "i32"), lanes) + k.indices(lanes, "i32")
                    return k.select(better, here, best), k.select(better, numbers, at)

                return k.vector_loop(left, right, lanes, some, carried=kept)

            start = (k.const(float("-inf"), element, lanes), k.splat(first, lanes))
            state = k.loop(
                front, back, lambda d, *kept: k.loop(top, bottom, lambda h, *kept: line(d, h, *kept), carried=kept), carried=start
            )
            while state[0].lanes > 1:
                (low, high), (low_at, high_at) = k.halves(state[0]), k.halves(state[1])
                state = _first_of_two(k, (low, low_at), (high, high_at))
            k.store(state[0], a.values, u * bins + o, element)
            k.store(k.cast(state[1], "i64"), a.places, u * bins + o, "i64")

        k.loop(0, bins, one)

    k.for_chunks(lambda c: k.loop(*a.units.of_chunk(k, c), unit))
