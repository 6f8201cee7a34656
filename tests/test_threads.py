"""What threads share: gradients of one leaf, storages, lists of views, sizes, and forks beside native code."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.core import native_threads
from flambeau.kernels.families import blas
from tests.faults.schedules import _Meeting, passed
from tests.helpers.threads import in_threads, switched_often


@pytest.fixture
def short_interval():
    with switched_often(1e-5):
        yield


@pytest.mark.parametrize(("size", "passes"), [(3, 100), (200_000, 20)])
def test_gradients_of_all_threads_are_added_to_a_leaf(short_interval, size, passes):
    leaf = torch.zeros(size, requires_grad=True)

    def work(_):
        for _ in range(passes):
            (leaf * 1.0).sum().backward()

    in_threads(6, work)
    assert leaf.grad.amin().item() == leaf.grad.amax().item() == 6 * passes


def test_hooks_over_several_tensors_keep_the_passes_of_threads_apart():
    x = torch.ones(2, requires_grad=True)
    y, z = x * 2, x * 3
    meet, seen = threading.Barrier(2), []

    def together(grad):
        meet.wait(10)

    torch.autograd.graph.register_multi_grad_hook((y, z), lambda grads: seen.append([grad.tolist() for grad in grads]))
    y.register_hook(together)
    z.register_hook(together)  # both threads are between the first gradient and the second one
    in_threads(2, lambda number: torch.autograd.backward([y, z], [torch.full((2,), float(number)), torch.ones(2)], retain_graph=True))
    assert sorted(seen) == [[[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]


def every_place(first, second, check):
    """Let ``first`` stop at each place of the package's code, while another thread runs ``second``; ``first`` begins with what both use."""

    def once(at):
        shared = {}
        meeting = _Meeting(lambda: first(shared), lambda: second(shared), at, None)
        meeting.run()
        check(shared)

    first({})
    for at in range(passed(lambda: first({}))):
        once(at)


def test_first_views_of_several_threads_share_a_storage():
    def first(shared):
        shared["x"] = torch.ones(3, 4)
        shared["view"] = shared["x"].view(-1)

    def second(shared):
        if "x" in shared:
            shared["other"] = shared["x"].t()

    def check(shared):
        if "other" in shared:
            assert shared["view"]._storage is shared["other"]._storage is shared["x"]._storage
            shared["other"].zero_()
            assert shared["x"]._version == shared["view"]._version == 1

    every_place(first, second, check)


def test_views_that_are_made_while_a_list_is_pruned_stay_in_it():
    x = torch.ones(3, 4)
    kept = [x.view(-1)]
    storage = x._storage
    for _ in range(5):
        storage._add_alias(torch.ones(3))  # gone at once
    added = []

    def is_gone(tensor):
        if not added:
            added.append(x.t())  # as another thread may
        return tensor is None

    storage._forget(is_gone)
    shown = list(storage._live_aliases())
    assert [any(each is tensor for each in shown) for tensor in (x, *kept, *added)] == [True] * 3
    assert all(reference() is not None for reference in storage._aliases)


def test_threads_that_ask_at_once_get_the_same_ragged_size():
    from flambeau.nested._sizes import ragged_size

    def first(shared):
        shared["lengths"] = torch.tensor([0, 2, 5])
        shared["size"] = ragged_size(shared["lengths"])

    def second(shared):
        if "lengths" in shared:
            shared["other"] = ragged_size(shared["lengths"])

    def check(shared):
        assert shared.get("other", shared["size"]) == shared["size"]

    every_place(first, second, check)


DRAWS = {
    "floats": (lambda generator, n: torch.rand(n, generator=generator), 7),
    "many": (lambda generator, n: torch.rand(n, generator=generator), 5000),
    "doubles": (lambda generator, n: torch.rand(n, generator=generator, dtype=torch.float64), 6),
    "words": (lambda generator, n: torch.randint(0, 1 << 32, (n,), generator=generator), 5),
    "each double": (lambda generator, n: torch.poisson(torch.full((n,), 2.0), generator=generator), 8),
}


@pytest.mark.parametrize("name", ["floats", "many", "doubles", "words"])
def test_threads_that_draw_from_one_generator_get_different_numbers(short_interval, name):
    draw, count = DRAWS[name]
    rounds = 30 if name == "many" else 400
    generator, alone, found = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3), []
    in_threads(5, lambda _: found.extend(draw(generator, count) for _ in range(rounds)))
    wanted = torch.cat([draw(alone, count) for _ in range(5 * rounds)])
    assert torch.equal(torch.cat(found).sort().values, wanted.sort().values)
    assert torch.equal(draw(generator, 3), draw(alone, 3))


@pytest.mark.parametrize("name", DRAWS)
def test_draws_that_meet_anywhere_take_different_numbers(name):
    draw, count = DRAWS[name]
    before = 624 - 9  # words, so that a block ends in the midst
    generator = torch.Generator().manual_seed(3)
    generator.words(before)
    wanted = torch.cat([draw(generator, count) for _ in range(4)]).sort().values

    def first(shared):
        shared["generator"] = torch.Generator().manual_seed(3)
        shared["generator"].words(before)
        shared["ready"] = True
        shared["first"] = [draw(shared["generator"], count) for _ in range(2)]

    def second(shared):
        if "ready" in shared:
            shared["second"] = [draw(shared["generator"], count) for _ in range(2)]

    def check(shared):
        if "second" in shared and name != "each double":
            assert torch.equal(torch.cat(shared["first"] + shared["second"]).sort().values, wanted)

    every_place(first, second, check)


needs_states = pytest.mark.skipif(not os.path.exists("/proc/thread-self/status"), reason="the system does not say what threads do")


@needs_states
def test_a_fork_waits_for_a_product_of_another_thread():
    a = np.ones((1800, 1800))
    begun, times = threading.Event(), []

    def work():
        begun.set()
        np.dot(a, a)
        times.append(time.monotonic())

    thread = threading.Thread(target=work)
    began = time.monotonic()
    thread.start()
    begun.wait()
    time.sleep(0.01)
    child = os.fork()
    forked = time.monotonic()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    thread.join()
    took = times[0] - began
    assert forked - began > 0.5 * took  # the thread notes its end once it has the interpreter, after the fork


@needs_states
def test_a_child_has_the_number_of_threads_that_the_library_had():
    library = blas.library()
    if library is None:
        pytest.skip("NumPy uses another library")
    before = library.threads()
    library.set_threads(2)
    inside, ending = threading.Event(), threading.Event()
    thread = threading.Thread(target=blas.alone, args=(lambda: (inside.set(), ending.wait(10)),))
    try:
        thread.start()
        assert inside.wait(10) and library.threads() == 1
        child = os.fork()
        if not child:
            os._exit(library.threads())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    finally:
        ending.set()
        thread.join()
        assert library.threads() == 2
        library.set_threads(before)


@needs_states
def test_a_fork_does_not_wait_for_a_thread_that_sleeps():
    ending = threading.Event()
    threads = [threading.Thread(target=ending.wait), threading.Thread(target=time.sleep, args=(3,))]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    child = os.fork()
    if not child:
        os._exit(0)
    took = time.monotonic() - began
    ending.set()
    os.waitpid(child, 0)
    for thread in threads:
        thread.join()
    assert took < 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_draws_though_another_thread_held_numpys_own_lock():
    """Which is a lock or a reentrant one, by NumPy's version; what happens in hooks of forks is told to ``unraisablehook`` alone."""
    generator = torch.Generator().manual_seed(3)
    wanted = generator.words(5).tolist()
    generator.manual_seed(3).words(1)
    locked, ending = threading.Event(), threading.Event()

    def hold():
        with generator._bits.lock:
            locked.set()
            ending.wait(20)

    thread = threading.Thread(target=hold)
    before, told = sys.unraisablehook, []
    try:
        thread.start()
        assert locked.wait(10)
        sys.unraisablehook = told.append
        child = os.fork()
        if not child:
            signal.alarm(10)
            os._exit(0 if not told and generator._bits.lock.acquire(blocking=False) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        sys.unraisablehook = before
        ending.set()
        thread.join()
    assert generator.words(4).tolist() == wanted[1:]


@needs_states
def test_who_runs_and_who_sleeps():
    ending, a = [], np.ones((900, 900))

    def multiply():
        while not ending:
            np.dot(a, a)

    sleeper, worker = threading.Thread(target=time.sleep, args=(1.5,)), threading.Thread(target=multiply)
    sleeper.start()
    worker.start()
    seen = []
    for _ in range(50):
        seen.append(native_threads.at_rest([worker.native_id]))
        time.sleep(0.01)
    assert native_threads.at_rest([sleeper.native_id])
    assert set(native_threads.others()) >= {sleeper.native_id, worker.native_id}
    assert not all(seen)
    ending.append(True)
    worker.join()
    sleeper.join()
    assert native_threads.at_rest([1 << 22])  # one that has ended
