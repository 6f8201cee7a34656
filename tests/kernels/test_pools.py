"""The end of tensors, storages and nodes in machine code: as CPython ends objects, whatever they hold and however many end at once."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from machine_code import load_machine_code

import flambeau
from flambeau.core.calls import machine_calls
from flambeau.core.tensor import Parameter, Tensor
from flambeau.kernels.fastpath import pools
from tests.helpers.threads import in_threads, switched_often

X = flambeau.ones(3, requires_grad=True)


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    load_machine_code(machine_calls._finders)
    _ = X + 1  # whose wrapper and class are made when they are first used
    assert all(pools.POOLS[:, pools.END])


class Told:
    """Says when it ends."""

    def __init__(self, ends: list[Any], name: Any = None):
        self.ends, self.name = ends, name

    def __del__(self) -> None:
        self.ends.append(self.name)


def kinds() -> list[Any]:
    """An object of each class that has a pool."""
    made = X.exp()
    return [made, made._storage, made.grad_fn]


def in_pool(place: int) -> set[int]:
    """Addresses of a pool's objects."""
    layout = list(pools.LAYOUTS.values())[place]
    found, first = set(), int(pools.POOLS[place, pools.HEAD])
    while first:
        found.add(first)
        first = pools.word(first + layout.link)
    return found


def test_memory_of_what_ended_is_taken_again() -> None:
    for place in range(3):
        made = kinds()
        addresses = {id(each) for each in made}
        del made
        assert len(in_pool(place) & addresses) == 1
        assert {id(each) for each in kinds()} & addresses
    many = [X.exp() for _ in range(3 * pools.MOST)]
    assert not any(in_pool(place) for place in range(3))
    del many
    assert [len(in_pool(place)) for place in range(3)] == [pools.MOST] * 3 == [int(count) for count in pools.POOLS[:, pools.COUNT]]


def test_weak_references_are_told() -> None:
    for place in range(3):
        ends: list[bool] = []
        made = kinds()[place]
        references = [weakref.ref(made, lambda reference, ends=ends: ends.append(reference() is None)), weakref.ref(made)]
        keys = weakref.WeakKeyDictionary({made: 1}) if place else {}
        del made
        assert ends == [True] and references[1]() is None and not keys
        assert weakref.getweakrefcount(kinds()[place]) == 0


@pytest.mark.parametrize("place", [0, 2])
def test_dictionaries_of_objects_end_with_them(place: int) -> None:
    ends: list[Any] = []
    made = kinds()[place]
    made.note = Told(ends, "note")
    del made
    assert ends == ["note"]
    made = kinds()[place]
    made.__dict__["itself"] = made
    made.note = Told(ends, "circle")
    del made
    gc.collect()
    assert ends == ["note", "circle"]
    assert not any(kinds()[place].__dict__ for _ in range(3))


def test_circles_are_collected() -> None:
    ends: list[Any] = []
    made = X.exp()
    told = Told(ends)
    made.register_hook(lambda grad, held=(told, made): None)
    del made, told
    gc.collect()
    assert ends == [None]


class Finalized(Tensor):
    ends: list[Any] = []

    def __del__(self) -> None:
        self.ends.append(self.tolist())


class Slotted(Tensor):
    __slots__ = ("extra",)


def test_objects_of_subclasses_end_as_ever() -> None:
    made = X.detach().as_subclass(Finalized)
    more = made + 1
    del made, more
    assert sorted(Finalized.ends) == [[1, 1, 1], [2, 2, 2]]
    ends: list[Any] = []
    slotted = X.detach().as_subclass(Slotted)
    slotted.extra = Told(ends)
    del slotted
    assert ends == [None]
    for kind in (Parameter, Slotted, Finalized, *(layout.twin for layout in pools.LAYOUTS.values())):
        before = sys.getrefcount(kind)
        for _ in range(200):
            made = (X.detach() + 1).as_subclass(Slotted) if kind is Slotted else Parameter((X + 1).detach())
            del made
        assert abs(sys.getrefcount(kind) - before) < 20


def test_a_class_may_be_exchanged() -> None:
    class Other(Tensor):
        pass

    before, own = sys.getrefcount(Other), sys.getrefcount(Tensor)
    for _ in range(300):
        made = (X + 1).detach()
        made.__class__ = Other
        back = X.detach().as_subclass(Other) + 1
        assert type(back) is Other
        back.__class__ = Tensor
        del made, back
    assert sys.getrefcount(Other) == before and abs(sys.getrefcount(Tensor) - own) < 20


@pytest.fixture
def finalizer() -> Iterator[list[Any]]:
    kept: list[Any] = []
    Tensor.__del__ = lambda self: kept.append(self) if self.dim() == 1 else None  # type: ignore[attr-defined]
    yield kept
    del Tensor.__del__  # type: ignore[attr-defined]


def test_a_finalizer_that_a_program_gives_to_the_class_is_called(finalizer: list[Any]) -> None:
    made = X * 2
    address = id(made)
    del made
    assert [id(each) for each in finalizer] == [address] and finalizer[0].tolist() == [2, 2, 2]
    finalizer.clear()  # once for each object
    assert not finalizer


def chains() -> None:
    """What ends at once, one within the other, if nobody takes care."""
    y = X
    for k in range(60_000):
        y = y.exp() if k % 3 else y.view(3)
    del y
    y = X
    for _ in range(20_000):
        first, _ = flambeau.stack([y, y]).unbind()
        y = first
    del first, y
    grad = flambeau.zeros(1)
    for _ in range(60_000):
        made = flambeau.zeros(1) + 0
        made.grad, grad = grad, made
    del made, grad


def test_long_chains_need_little_of_the_stack() -> None:
    before = threading.stack_size(1 << 20)
    try:
        in_threads(1, lambda _: chains())
    finally:
        threading.stack_size(before)
    assert not pools.ENDING.any()


def test_what_ends_may_run_programs() -> None:
    """A weak reference's callback that makes and ends graphs, in the midst of the end of one."""
    seen: list[float] = []

    def callback(_: Any) -> None:
        y = X
        for _ in range(200):
            y = y * 1
        seen.append(y.sum().item())

    y = X
    references = []
    for _ in range(300):
        y = y.exp() * 0 + 1
        references.append(weakref.ref(y.grad_fn, callback))
    del y
    assert seen == [3.0] * 300 and not pools.ENDING.any()


def test_a_thread_that_stops_in_the_midst_keeps_nobody_from_ending_objects() -> None:
    inside, go_on, ends = threading.Event(), threading.Event(), []

    def stop(_: Any) -> None:
        inside.set()
        go_on.wait(20)

    def work(_: int) -> None:
        y = X
        for k in range(100):
            y = y.exp() * 0 + 1
            if k == 90:
                reference = weakref.ref(y.grad_fn, stop)
        del y
        assert reference() is None

    thread = threading.Thread(target=work, args=(0,))
    thread.start()
    assert inside.wait(20)
    y = (X * 1).exp()
    told = Told(ends)
    y.register_hook(lambda grad, told=told: None)
    for _ in range(300):
        y = y.exp() * 0 + 1
    del y, told
    ended = len(ends)
    go_on.set()
    thread.join()
    assert ended == 1 and not pools.ENDING.any()


def test_threads_end_objects_at_once() -> None:
    def work(_: int) -> None:
        for k in range(150):
            y = X
            for _ in range(k % 120):
                y = y.exp() * 0 + 1
            if k % 3:
                made = [y.view(3), y.detach(), weakref.ref(y)]
                assert made[2]() is y
                del made
            assert y.tolist() == [1, 1, 1]

    with switched_often():
        in_threads(4, work)
    assert not pools.ENDING.any()


def test_shapes_are_those_of_the_results() -> None:
    """More than are kept, of any number of dimensions; the tuples are nobody else's to change."""
    for _ in range(2):
        for k in range(200):
            shape = (k % 7 + 1, *(k >> bit & 1 for bit in range(k % 9)))
            node = flambeau.zeros(shape, requires_grad=True).exp().grad_fn
            assert node.shape == shape and type(node.shape) is tuple and all(type(size) is int for size in node.shape)
    large = flambeau.zeros(1, requires_grad=True).expand(1 << 40, 3)
    assert large.grad_fn.shape == (1 << 40, 3)


def test_machine_code_may_be_loaded_again() -> None:
    before = pools.POOLS[:, pools.END].tolist()
    pools.take_over(dict.fromkeys(pools.LAYOUTS, 1))
    assert pools.POOLS[:, pools.END].tolist() == before


def test_classes_that_lie_otherwise_keep_their_ends() -> None:
    class More(type(X.exp().grad_fn)):  # type: ignore[misc]
        __slots__ = ("more",)

    before = pools.word(id(More) + pools.DEALLOC)
    pools.adopt(More)
    assert pools.word(id(More) + pools.DEALLOC) == before
    pools.adopt(int)
