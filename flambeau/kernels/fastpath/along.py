"""The frame of forms that go along a dimension of row-major memory, and what ufuncs make there."""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.language import Value
from .forms import Pointwise
from .views import MOST_DIMS

Loop = tuple[Value, Value]  # of NumPy's, with its data


class Along(Pointwise):
    """A form over ``outer * length * inner`` elements, the second of which numbers are those of a dimension."""

    length: Value
    outer: Value
    inner: Value
    remaining: Value  # number of dimensions that are left, and their sizes
    left: Value

    def along(self, a: Value, dim: Value, keepdim: Value, last: Value | None = None) -> None:
        """Take sizes in front of, at and behind a dimension, or several up to the ``last``, and write down the shape of what is left."""
        dims, last = self.dims(a), dim if last is None else last
        self.left = self.scratch(MOST_DIMS, "i64")
        gone = self.pick(keepdim, self.i64(0), last - dim + 1)

        def step(d: Value, outer: Value, length: Value, inner: Value) -> tuple[Value, Value, Value]:
            size = self.load(dims, d, "i64")

            def behind() -> tuple[Value, Value, Value]:
                self.store(size, self.left, d - gone, "i64")
                return outer, length, inner * size

            def before() -> tuple[Value, Value, Value]:
                self.store(size, self.left, d, "i64")
                return outer * size, length, inner

            def itself() -> tuple[Value, Value, Value]:
                self.when(keepdim, lambda: self.store(self.i64(1), self.left, d, "i64"))
                return outer, length * size, inner

            return self.when((d >= dim) & (d <= last), itself, lambda: self.when(d < dim, before, behind))

        self.require(self.ndim(a) < MOST_DIMS)
        one = self.i64(1)
        self.outer, self.length, self.inner = self.loop(0, self.ndim(a), step, carried=(one, one, one))
        self.remaining = self.ndim(a) - gone

    def neighbours(self, dims: Value, ndim: Value) -> tuple[Value, Value]:
        """The first and the last of what must be one dimension, or a sequence of dimensions that follow each other."""

        def several() -> tuple[Value, Value]:
            items, count = self.sequence(dims)
            self.require(count > 0)
            first = self.index(self.load(items, 0, "ptr"), ndim)

            def follows(i: Value) -> None:
                self.require(self.index(self.load(items, i, "ptr"), ndim).eq(first + i))

            self.loop(1, count, follows)
            return first, first + count - 1

        def alone() -> tuple[Value, Value]:
            dim = self.index(dims, ndim)
            return dim, dim

        return self.when(self.is_exactly(dims, int), alone, several)

    def flag(self, thing: Value) -> Value:
        """The truth of what must be True or False."""
        yes = self.same(thing, self.object(True))
        self.require(yes | self.same(thing, self.object(False)))
        return yes

    def reduce(self, loop: Loop, source: Value, size: Value, cells: Value, first: int = 1) -> None:
        """``ufunc.reduce`` along the dimension, to ``cells``: from the ``first`` element on, or with 0 from what is there already."""

        def alone(row: Value) -> None:
            begin, cell = self.at(source, row * self.length * size, "i8"), self.at(cells, row * size, "i8")
            if first:
                self.call_c("memcpy", "ptr", cell, begin, size)
            none = self.i64(0)
            self.run(*loop, self.length - first, [(cell, none), (self.at(begin, size * first, "i8"), size), (cell, none)])

        def together(row: Value) -> None:
            step = self.inner * size
            begin, cell = self.at(source, row * self.length * step, "i8"), self.at(cells, row * step, "i8")
            if first:
                self.call_c("memcpy", "ptr", cell, begin, step)

            def each(i: Value) -> None:
                self.run(*loop, self.inner, [(cell, size), (self.at(begin, i * step, "i8"), size), (cell, size)])

            self.loop(first, self.length, each)

        self._each_row(alone, together)

    def spread(self, loop: Loop, source: Value, size: Value, cells: Value, target: Value) -> None:
        """A ufunc of each element and of the cell that belongs to it, to ``target``."""

        def alone(row: Value) -> None:
            begin, cell = row * self.length * size, self.at(cells, row * size, "i8")
            self.run(*loop, self.length, [(self.at(source, begin, "i8"), size), (cell, self.i64(0)), (self.at(target, begin, "i8"), size)])

        def together(row: Value) -> None:
            step = self.inner * size
            cell = self.at(cells, row * step, "i8")

            def each(i: Value) -> None:
                begin = (row * self.length + i) * step
                self.run(*loop, self.inner, [(self.at(source, begin, "i8"), size), (cell, size), (self.at(target, begin, "i8"), size)])

            self.loop(0, self.length, each)

        self._each_row(alone, together)

    def _each_row(self, alone: Callable[[Value], None], together: Callable[[Value], None]) -> None:
        """Elements of a dimension lie one after another (``alone``), or row by row."""
        self.when(self.inner.eq(1), lambda: self.loop(0, self.outer, alone), lambda: self.loop(0, self.outer, together))
