"""Recycled memory: never two arrays on the same bytes, and not much more of it than a program had in use at once."""

from __future__ import annotations

import ast
import dis
import gc
import inspect
import mmap
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
from flambeau.kernels.compiler import memory
from flambeau.kernels.compiler.memory import SMALL, empty, release, size_class
from tests.faults.injection import places
from tests.helpers.threads import in_threads

COUNT = SMALL // 4 + 1000  # float32 elements, recycled


@pytest.fixture(autouse=True)
def nothing_waits():
    gc.collect()
    release()
    yield
    release()


def address(array):
    return array.ctypes.data


def waiting_bytes(recycler):
    """What the recycler's own lists come to."""
    total = 0
    for size, block in recycler.waiting.items():
        while block is not None:
            total, block = total + size, block.below
    return total


def test_shape_dtype_order_and_alignment():
    for shape in [(COUNT,), (3, COUNT), (7, 11, COUNT // 50), (0, COUNT), (), (5,)]:
        for dtype in (np.float32, np.float64, np.int64, np.bool_, np.dtype(np.complex64)):
            array = empty(shape, dtype)
            assert array.shape == shape and array.dtype == dtype and array.flags.c_contiguous and array.flags.writeable
            if array.nbytes >= SMALL:
                assert address(array) % mmap.PAGESIZE == 0


def test_memory_comes_back_when_the_array_is_gone():
    first = empty((COUNT,), np.float32)
    place = address(first)
    second = empty((COUNT,), np.float32)
    assert address(second) != place
    del first
    third = empty((COUNT,), np.float32)
    assert address(third) == place


def test_memory_stays_while_a_view_lives():
    first = empty((COUNT,), np.float32)
    place, view = address(first), first.reshape(-1, 1)[5:100].T
    other, buffer = first.view(np.int32), memoryview(first)
    for last in ("view", "other", "buffer"):
        first = None
        assert address(empty((COUNT,), np.float32)) != place
        if last == "view":
            view = None
        elif last == "other":
            other = None
        else:
            buffer = None
    assert (view, other, buffer) == (None, None, None)
    del first
    gc.collect()
    assert address(empty((COUNT,), np.float32)) == place


def test_tensors_and_their_views_keep_their_memory():
    x = torch.rand(400, 400)
    result = x.exp()
    assert isinstance(result._array, np.ndarray)
    place, row, wanted = result.data_ptr(), result[7], result[7].clone()
    del result
    others = [x.exp() for _ in range(3)]
    assert place not in [tensor.data_ptr() for tensor in others]
    assert torch.equal(row, wanted)


def test_small_arrays_are_left_to_numpy():
    before = memory._recycler.used
    array = empty((100, 100), np.float32)
    assert memory._recycler.used == before and array.base is None


def test_sizes_of_one_class_share_buffers():
    first = empty((COUNT,), np.float32)
    place = address(first)
    del first
    assert address(empty((COUNT - 1,), np.float32)) == place
    assert address(empty((3 * COUNT,), np.float32)) != place


def test_much_larger_buffers_are_not_wasted_on_small_arrays():
    first = empty((2 * COUNT,), np.float32)
    place = address(first)
    del first
    assert address(empty((COUNT,), np.float32)) != place


def test_results_of_shrinking_layers_are_used_again(monkeypatch):
    recycler = memory._Recycler()
    monkeypatch.setattr(memory, "_recycler", recycler)
    original, sizes = recycler._new, []
    monkeypatch.setattr(recycler, "_new", lambda size: sizes.append(size) or original(size))
    for attempt in range(3):  # two results at a time, smaller and smaller ones, as in a network for images
        for count in (3_200_000, 1_600_000, 800_000):
            result = None
            for _ in range(3):
                result = empty((count,), np.uint8)  # the one before goes when this one is there
        assert attempt == 0 or not sizes
        sizes.clear()
    assert result.size == count


def test_too_much_is_a_memory_error():
    waiting = empty((COUNT,), np.float32)
    del waiting
    with pytest.raises(MemoryError, match="bytes"):
        empty((1 << 50,), np.float32)
    assert memory._recycler.kept == memory._recycler.used == 0  # what waited was given back to make room
    assert empty((COUNT,), np.float32).size == COUNT


@given(st.integers(SMALL, 1 << 40))
def test_size_classes_are_whole_pages_and_waste_an_eighth_at_most(size):
    rounded = size_class(size)
    assert rounded % mmap.PAGESIZE == 0 and size <= rounded <= size * 1.125 + mmap.PAGESIZE
    assert size_class(rounded) == rounded


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), max_size=60))
@settings(max_examples=60)
def test_what_is_kept_is_bounded_by_what_was_in_use(steps):
    recycler = memory._Recycler()
    peak = 0
    held, before = {}, memory._recycler
    memory._recycler = recycler
    try:
        for place, times in steps:  # arrays of several sizes come and go
            held.pop(place, None)
            held[place] = empty((COUNT * times,), np.float32)
            held[place][:: 1 << 20] = place
            needed = sum(size_class(array.nbytes) for array in held.values())
            assert needed <= recycler.used == sum(use.block.size for use in recycler.lent.values()) <= 1.3 * needed
            assert recycler.kept == waiting_bytes(recycler)
            peak = max(peak, recycler.used)
            assert recycler.peak == peak and recycler.used + recycler.kept <= peak + min(max(peak // 2, memory.LEAST), memory.SLACK)
        addresses = [address(array) for array in held.values()]
        assert len(set(addresses)) == len(addresses)
        assert all((array[:: 1 << 20] == place).all() for place, array in held.items())
        held.clear()
        recycler.collect()
        assert recycler.used == 0
        kept = recycler.kept
        assert recycler.release() == kept and recycler.kept == 0 and recycler.release() == 0
    finally:
        held.clear()
        memory._recycler = before


def test_release_gives_back_what_waits_and_only_that():
    first, second = empty((COUNT,), np.float32), empty((COUNT,), np.float32)
    first[:], size = 3, size_class(first.nbytes)
    del second
    assert release() == size
    assert release() == 0
    assert (first == 3).all()
    del first
    assert release() == size


def test_memory_of_a_process_shrinks_after_release():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE

    big = empty((32 << 20,), np.uint8)
    big[:] = 1
    del big
    before = resident()
    assert release() >= 32 << 20
    assert resident() < before - (30 << 20)


def test_nothing_runs_in_the_midst_of_the_books():
    """Under the lock there is no instruction at which a signal handler or a finaliser runs, nor one that makes a container."""
    found = 0
    for function in vars(memory._Recycler).values():
        if not hasattr(function, "__code__"):
            continue
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        for block in ast.walk(tree):
            if not isinstance(block, ast.With):
                continue
            found += 1
            inside = range(first + block.body[0].lineno - 1, first + block.end_lineno)
            offsets = places(function.__code__)
            for op in dis.get_instructions(function):
                if op.positions.lineno in inside:
                    assert op.offset not in offsets and not op.opname.startswith(("BUILD_", "CALL")), (function.__name__, op)
    assert found >= 4


def test_threads_get_different_memory():
    failures = []

    def work(number):
        for i in range(300):
            array = empty((COUNT,), np.float32)
            array[::1000] = number * 1000 + i
            view = array[1000:]
            del array
            if not (view[::1000] == number * 1000 + i).all():
                failures.append(number)

    in_threads(4, work)
    assert not failures
    gc.collect()
    recycler = memory._recycler
    recycler.collect()
    assert recycler.kept == waiting_bytes(recycler)


def test_a_child_has_a_copy():
    waiting = empty((COUNT,), np.float32)
    held, place = empty((COUNT,), np.float32), address(waiting)
    held[:] = 1
    del waiting
    child = os.fork()
    if not child:
        held[:] = 2
        again = empty((COUNT,), np.float32)
        again[:] = 3
        os._exit(0 if address(again) == place else 1)
    assert os.waitpid(child, 0)[1] == 0
    again = empty((COUNT,), np.float32)
    assert address(again) == place and not (again == 3).any() and (held == 1).all()


def test_arrays_that_die_in_a_cycle_come_back():
    class Node:
        pass

    node = Node()
    node.me, node.array = node, empty((COUNT,), np.float32)
    place = address(node.array)
    del node
    gc.collect()
    assert address(empty((COUNT,), np.float32)) == place


ROUNDS = """
import resource
import numpy as np
from flambeau.kernels.compiler.memory import SMALL, empty

def one_round():
    arrays = [empty((SMALL // 2,), np.uint8) for _ in range(12)]
    for array in arrays:
        array.fill(1)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

one_round()
before = faults()
for _ in range(10):
    one_round()
print(faults() - before)
"""


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="about the GNU C library")
def test_small_buffers_are_not_given_back_to_the_system():
    """In a fresh process, where the C library has not learnt yet; each round touches 768 pages."""
    run = subprocess.run([sys.executable, "-c", ROUNDS], stdout=subprocess.PIPE, text=True, check=True)
    assert int(run.stdout) < 768
