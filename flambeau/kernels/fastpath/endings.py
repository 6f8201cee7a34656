"""The end of tensors, storages and nodes, and how their memory gets into its pool."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...core.tape.node import Node
from ...core.tensor import Tensor
from ..compiler.language import Value
from .code import Code
from .interpreter import DATA
from .objects import GOLDEN, Function
from .pools import COUNT, DEALLOC, DEEPEST, DEPTH, END, ENDING, FINALIZE, HEAD, LAYOUTS, MOST, WAITING, Layout


class _Ending(Function):
    """``tp_dealloc(thing)`` of classes of one layout; ``subtype_dealloc`` calls it for objects of subclasses, too."""

    def __init__(self, code: Code, layout: Layout):
        super().__init__(code, NAMES[layout.owner], "thing")
        self.layout, self.thing = layout, self.operands[0]
        self.pool = self.pool_of(layout)

    def is_of_pool(self) -> Value:
        """Whether the object is of a class that has this function, and none of its own."""
        kind = self.type_of(self.thing)
        return self.field(kind, DEALLOC, "i64").eq(self.load(self.pool, END, "i64")) & ~self.exists(self.field(kind, FINALIZE))

    def require_usual(self) -> None:
        self.require(self.is_of_pool())
        for place in self.layout.dictionary:
            self.require(~self.exists(self.field(self.thing, place)))

    def tell(self) -> None:
        """Let weak references know."""
        weak = self.field(self.thing, self.layout.owner.__weakrefoffset__)
        self.when(self.exists(weak), lambda: self.call_c("PyObject_ClearWeakRefs", None, self.thing))

    def within(self, end: Callable[[], None]) -> None:
        """``end()``, unless too many objects are ending within each other: a graph may be longer than the stack.

        Then the object waits for one of those further out, linked by the word of its count, which nobody reads any more.
        """
        words = self._words_of_thread()
        depth = self.load(words, DEPTH, "i64")

        def wait() -> None:
            self.put(self.load(words, WAITING, "ptr"), self.thing, 0)
            self.store(self.thing, words, WAITING, "ptr")
            self.give(self.null)

        self.case(depth >= DEEPEST, wait)
        self.store(depth + 1, words, DEPTH, "i64")
        end()
        self.store(self.load(words, DEPTH, "i64") - 1, words, DEPTH, "i64")

        def first() -> Value:
            return self.load(words, WAITING, "ptr")

        def next_one(thing: Value) -> Value:
            self.store(self.field(thing, 0), words, WAITING, "ptr")
            self.put(self.i64(0), thing, 0, "i64")
            self.call_c("_Py_Dealloc", None, thing)
            return first()

        self.when(depth < DEEPEST // 2, lambda: self.repeat(self.exists, next_one, (first(),)) and None)

    def _words_of_thread(self) -> Value:
        state = self.call_c("PyThreadState_Get", "ptr")
        mixed = self.emit(f"ptrtoint ptr {state.text} to i64", "i64") * GOLDEN
        return self.at(self.field(self.object(ENDING), DATA), ((mixed >> 32) & (ENDING.shape[0] - 1)) * ENDING.shape[1], "i64")

    def give_back(self) -> None:
        """Give back what the slots hold; they are empty afterwards."""
        for name in self.layout.slots:
            held = self.slot(self.thing, self.layout.owner, name)
            self.fill(self.thing, self.layout.owner, **{name: self.null})
            self.when(self.exists(held), partial(self.let_go, held))

    def put_away(self) -> None:
        """Put the memory into the pool, if there is room."""
        count = self.load(self.pool, COUNT, "i64")

        def keep() -> None:
            self.put(self.load(self.pool, HEAD, "ptr"), self.thing, self.layout.link)
            self.store(self.thing, self.pool, HEAD, "ptr")
            self.store(count + 1, self.pool, COUNT, "i64")

        self.when(count < MOST, keep, lambda: self.call_c("PyObject_GC_Del", None, self.thing))

    def end_as_twin(self) -> Value:
        """Have the object, which is unusual, end as one of the twin."""
        kind, twin = self.type_of(self.thing), self.object(self.layout.twin)

        def finalize() -> None:
            self.call_c("PyObject_GC_Track", None, self.thing)
            alive = self.call_c("PyObject_CallFinalizerFromDealloc", "i32", self.thing) < 0
            self.case(alive, lambda: self.give(self.null))
            self.call_c("PyObject_GC_UnTrack", None, self.thing)

        has_own = self.field(kind, DEALLOC, "i64").eq(self.load(self.pool, END, "i64")) & self.exists(self.field(kind, FINALIZE))
        self.when(has_own, finalize)
        self.tell()

        def end() -> None:
            self.put(self.incref(twin), self.thing, 8)
            self.call_c(self.dealloc_of(self.layout.twin), None, self.thing)
            self.let_go(kind)

        self.within(end)
        return self.null


def _ending(layout: Layout, code: Code) -> str:
    k = _Ending(code, layout)
    k.call_c("PyObject_GC_UnTrack", None, k.thing)
    kind = k.type_of(k.thing)
    k.require_usual()
    k.tell()

    def end() -> None:
        k.give_back()
        k.put_away()
        k.let_go(kind)

    if layout.owner is Node:
        k.within(end)
    elif layout.owner is Tensor:  # gradients may have gradients
        grad = k.slot(k.thing, Tensor, "_grad")
        k.when(k.exists(grad) & ~k.same(grad, k.object(None)), lambda: k.within(end), end)
    else:
        end()
    k.give(k.null)
    return k.finish(k.end_as_twin)


NAMES = {owner: f"end_of_{owner.__name__}" for owner in LAYOUTS}
ENDINGS: list[Callable[[Code], str]] = [partial(_ending, layout) for layout in LAYOUTS.values()]
