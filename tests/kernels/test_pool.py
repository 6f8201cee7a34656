"""The pool: every chunk runs exactly once, however many threads there are, and the threads disturb nothing."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.compiler.build import kernel
from flambeau.kernels.compiler.pool import pool
from tests.helpers.threads import in_threads


@kernel
def count_chunks(k):
    """Add one to an element per chunk."""
    x = k.array()
    k.for_chunks(lambda chunk: k.store(k.load(x, chunk, "i64") + 1, x, chunk, "i64"))


@kernel
def square_chunks(k):
    """A chunk takes some microseconds: sums of 1 to ``length``, with the chunk's number added."""
    x, length = k.array(), k.integer()

    def chunk(c):
        total = k.loop(0, length, lambda i, total: (total ^ i) * 3 + c, carried=(c,))
        k.store(total, x, c, "i64")

    k.for_chunks(chunk)


@kernel
def order_of_chunks(k):
    """Number the chunks as they come, by a count in the last place."""
    x, last = k.array(), k.integer()

    def chunk(c):
        count = k.load(x, last, "i64")
        k.store(count, x, c, "i64")
        k.store(count + 1, x, last, "i64")

    k.for_chunks(chunk)


@pytest.fixture(autouse=True)
def threads_as_before():
    before = pool.threads
    yield
    pool.set_threads(before)


def _run_program(program: str, timeout: float = 60, **environment: str) -> str:
    """Output of a Python program in a process of its own, which must end well."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- chunks -------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@given(chunks=st.integers(0, 3000))
@settings(max_examples=40)
def test_every_chunk_runs_once(threads, chunks):
    pool.set_threads(threads)
    x = np.zeros(chunks + 1, np.int64)
    count_chunks()(chunks, id(x))
    assert (x[:chunks] == 1).all() and x[chunks] == 0


def test_a_thread_alone_goes_upwards_and_downwards_in_turn():
    """So that a pass over memory begins with what the one before has left in the processor's cache."""
    pool.set_threads(1)
    run, x, single = order_of_chunks(), np.zeros((4, 101), np.int64), np.zeros(2, np.int64)
    for row in x:
        run(100, id(row), 100)
        run(1, id(single), 1)  # a single chunk is no turn
    assert (np.sort(x[:, :100]) == np.arange(100)).all()
    upwards = [(np.diff(row[:100]) == 1).all() for row in x]
    assert upwards in ([True, False, True, False], [False, True, False, True])
    assert all(row[99] < 10 and row[0] > 90 for row, up in zip(x, upwards) if not up)


@pytest.mark.parametrize(("threads", "launches"), [(1, 5000), (2, 20000), (3, 3000), (8, 1000)])
def test_many_small_launches_in_a_row(threads, launches):
    pool.set_threads(threads)
    run, rng = count_chunks(), np.random.default_rng(threads)
    x, wanted = np.zeros(24, np.int64), np.zeros(25, np.int64)
    counts = rng.integers(1, 25, launches)
    for chunks in counts.tolist():
        run(chunks, id(x))
    np.add.at(wanted, counts - 1, 1)  # chunk i ran in all launches of more than i chunks
    np.testing.assert_array_equal(x, wanted[:24][::-1].cumsum()[::-1])


def test_each_launch_has_its_own_arguments():
    pool.set_threads(2)
    run = count_chunks()
    arrays = [np.zeros(n % 7 + 2, np.int64) for n in range(3000)]
    for x in arrays:
        run(x.size, id(x))
    assert all((x == 1).all() for x in arrays)


def test_results_are_complete_when_a_launch_returns():
    pool.set_threads(2)
    run, x = square_chunks(), np.zeros(16, np.int64)
    run(1, id(x), 1000)
    wanted = None
    for _ in range(500):
        x[:] = 0
        run(16, id(x), 1000)
        wanted = x.copy() if wanted is None else wanted
        np.testing.assert_array_equal(x, wanted)


def test_launches_from_several_python_threads_at_once():
    pool.set_threads(2)
    run, failures = count_chunks(), []
    start = threading.Barrier(3)

    def work(seed):
        rng, x = np.random.default_rng(seed), np.zeros(64, np.int64)
        counts = rng.integers(1, 65, 2000)
        start.wait()
        for chunks in counts.tolist():
            run(chunks, id(x))
        wanted = (counts[:, None] > np.arange(64)).sum(0)
        if not np.array_equal(x, wanted):
            failures.append(seed)

    in_threads(3, work)
    assert not failures


def test_sleeping_workers_wake():
    pool.set_threads(3)
    run, x = count_chunks(), np.zeros(40, np.int64)
    for _ in range(20):
        time.sleep(0.005)  # longer than they spin
        run(40, id(x))
    assert (x == 20).all()


# -- the number of threads ------------------------------------------------------------------------------------------------------------
def test_number_of_threads_changes_while_running():
    before = torch.get_num_threads()
    try:
        for count in (1, 2, 1, 4, 3, 1, 2):
            torch.set_num_threads(count)
            assert torch.get_num_threads() == pool.threads == count
            for _ in range(50):
                x = np.zeros(30, np.int64)
                count_chunks()(30, id(x))
                assert (x == 1).all()
    finally:
        torch.set_num_threads(before)
    assert torch.get_num_threads() == before
    with pytest.raises(RuntimeError, match="positive"):
        torch.set_num_threads(0)


def test_no_threads_before_the_first_parallel_launch():
    program = """
import os, time
import numpy as np
def threads(): return len(os.listdir("/proc/self/task"))
one = threads()
import flambeau as torch
x = torch.ones(100)
(x + x).sum()
assert threads() == one, (threads(), one)
from flambeau.kernels.compiler.pool import pool
assert threads() == one
x = torch.ones(1000, 1000)
x.exp()
assert threads() == one + 2, threads()
pool.set_threads(1)
x.exp()
pool.set_threads(3)
x.exp()
assert threads() == one + 2, threads()
"""
    _run_program(program, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="3")


def test_first_launches_of_two_threads_share_their_workers():
    program = """
import os, threading
import numpy as np
import flambeau as torch
from flambeau.kernels.compiler.pool import pool
before = len(os.listdir("/proc/self/task"))
x, wanted, made = torch.rand(1000, 1000), None, []
start = threading.Barrier(4)
def work():
    start.wait()
    made.append(x.exp())
workers = [threading.Thread(target=work) for _ in range(4)]
for each in workers: each.start()
for each in workers: each.join()
assert len(made) == 4 and all(torch.equal(each, made[0]) for each in made)
assert pool.crew.count == 2
import ctypes, time
count = ctypes.c_int64.from_address(pool.crew.record + 8 * 48)
def threads(): return len(os.listdir("/proc/self/task")) - before
end = time.time() + 10
while (count.value, threads()) != (2, 2) and time.time() < end:  # Python's own threads take a while to go
    time.sleep(0.01)
assert (count.value, threads()) == (2, 2)  # both work for the record that is used
"""
    _run_program(program, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="3")


def test_a_limit_on_threads_means_fewer_workers():
    program = """
import flambeau as torch
from flambeau.kernels.compiler import pool as module
started, real = [], module._start_thread
def start(function, record):
    if started:
        return False
    started.append(1)
    return real(function, record)
module._start_thread = start
x = torch.rand(1000, 1000)
assert torch.equal(x.exp()[:10], x[:10].exp()) and module.pool.crew.count == 1
"""
    _run_program(program, OMP_NUM_THREADS="4")


@pytest.mark.parametrize("happening", ["raise KeyboardInterrupt", "assert torch.equal(x.exp(), wanted)", "os.waitpid(forked(), 0)"])
def test_what_happens_while_the_pool_starts_does_not_matter(happening):
    program = f"""
import os
import flambeau as torch
from flambeau.kernels.compiler import pool as module
x = torch.linspace(-3, 3, 100000)
wanted = x.exp()
module.pool._forget()
started, real = [], module._start_thread
def forked():
    child = os.fork()
    if not child:
        os._exit(not torch.equal(x.exp(), wanted))
    return child
def start(function, record):
    started.append(1)
    if len(started) == 2:
        {happening}
    return real(function, record)
module._start_thread = start
try:
    made = x.exp()
except KeyboardInterrupt:
    made = x.exp()
assert torch.equal(made, wanted) and torch.equal(x.exp(), wanted)
assert module.pool.launch == module.pool.crew.launch and module.pool.crew.count == 3
"""
    _run_program(program, OMP_NUM_THREADS="4")


def test_one_thread_needs_no_workers():
    program = """
import os
import flambeau as torch
torch.set_num_threads(1)
before = len(os.listdir("/proc/self/task"))
torch.ones(1000, 1000).exp()
assert len(os.listdir("/proc/self/task")) == before
"""
    _run_program(program, OPENBLAS_NUM_THREADS="1")


def test_environment_sets_the_number_of_threads():
    program = "import flambeau as torch; print(torch.get_num_threads())"
    assert _run_program(program, OMP_NUM_THREADS="5").strip() == "5"
    assert _run_program(program, OMP_NUM_THREADS="many").strip() == str(len(os.sched_getaffinity(0)))


# -- good company -------------------------------------------------------------------------------------------------------------------
def test_idle_workers_use_no_processor_time():
    program = """
import time
import numpy as np
import flambeau as torch
torch.ones(1000, 1000).exp()
time.sleep(0.05)
before = time.process_time()
time.sleep(0.3)
used = time.process_time() - before
assert used < 0.02, used
"""
    _run_program(program, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="3")  # BLAS's own idle threads would be counted too


@pytest.mark.parametrize("asleep", [True, False])
def test_exit_is_quick_while_workers_sleep_or_spin(asleep):
    program = f"""
import atexit, time
import flambeau as torch
torch.set_num_threads(3)
torch.ones(1000, 1000).exp()
if {asleep}:
    time.sleep(0.05)
else:
    torch.ones(1000, 1000).exp()
print(time.time(), flush=True)
"""
    last = float(_run_program(program))
    assert time.time() - last < 3.0


def test_interrupts_reach_python():
    program = """
import os, signal, threading, time
import flambeau as torch
torch.set_num_threads(3)
x = torch.ones(1000, 1000)
x.exp()
caught = 0
for round in range(20):
    try:
        if round % 2:
            time.sleep(0.002)  # the workers sleep
        os.kill(os.getpid(), signal.SIGINT)
        end = time.time() + 2
        while time.time() < end:
            x.exp()
    except KeyboardInterrupt:
        caught += 1
assert caught == 20, caught
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.current_thread() is threading.main_thread()))
os.kill(os.getpid(), signal.SIGUSR1)
x.exp()
assert seen == [True]
"""
    _run_program(program)


def test_workers_leave_the_signal_mask_of_their_starter():
    pool.set_threads(2)
    x = np.zeros(4, np.int64)
    count_chunks()(4, id(x))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()


def _in_child(work) -> None:
    """Run ``work`` in a fork of this process, which must come back well within a minute."""
    child = os.fork()
    if not child:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def test_forks_have_workers_of_their_own():
    pool.set_threads(3)
    run, x = count_chunks(), np.zeros(50, np.int64)

    def rounds(count=200):
        x[:] = 0
        for _ in range(count):
            run(50, id(x))
        return bool((x == count).all())

    assert rounds()

    def child():
        alone = len(os.listdir("/proc/self/task")) == 1
        good = rounds() and len(os.listdir("/proc/self/task")) == 3
        return alone and good and _grandchild_is_well(rounds)

    _in_child(child)
    assert rounds()


def _grandchild_is_well(rounds) -> bool:
    child = os.fork()
    if not child:
        os._exit(0 if rounds() else 1)
    return os.waitpid(child, 0)[1] == 0 and rounds()


def test_forks_before_the_first_launch():
    program = """
import os
import flambeau as torch
torch.set_num_threads(2)
child = os.fork()
assert torch.ones(1000, 1000).add(1.5).mul(2).exp().sum().isfinite()
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    _run_program(program)


def test_forks_while_another_thread_launches():
    pool.set_threads(2)
    run, stop = count_chunks(), threading.Event()

    def busy():
        x = np.zeros(50, np.int64)
        while not stop.is_set():
            run(50, id(x))

    worker = threading.Thread(target=busy)
    worker.start()
    try:
        for _ in range(10):
            x = np.zeros(30, np.int64)

            def child(x=x):
                run(30, id(x))
                return bool((x == 1).all())

            _in_child(child)
    finally:
        stop.set()
        worker.join()


def test_launches_let_other_python_threads_run():
    """The GIL is free while machine code runs."""
    pool.set_threads(1)
    run, x, seen = square_chunks(), np.zeros(1, np.int64), []
    started, done = threading.Event(), threading.Event()

    def watch():
        started.set()
        while not done.is_set():
            seen.append(time.perf_counter())

    worker = threading.Thread(target=watch)
    worker.start()
    started.wait()
    before = time.perf_counter()
    run(1, id(x), 100_000_000)
    after = time.perf_counter()
    done.set()
    worker.join()
    within = [t for t in seen if before + 0.2 * (after - before) < t < after - 0.2 * (after - before)]
    assert within


def test_a_chunk_that_was_taken_is_run_by_exactly_one_of_two_pools():
    """Chunks of all launches of two processes that share memory: each process has its own pool."""
    import mmap

    pool.set_threads(2)
    run = count_chunks()
    memory = mmap.mmap(-1, 8 * 64)
    x = np.frombuffer(memory, np.int64)

    def child():
        mine = x[32:]
        for _ in range(300):
            run(32, id(mine))
        return True

    mine = x[:32]
    run(32, id(mine))
    _in_child(child)
    assert (x[:32] == 1).all() and (x[32:] == 300).all()


def test_the_pools_function_is_called_directly_after_the_first_launch():
    x = np.zeros(4, np.int64)
    count_chunks()(4, id(x))
    assert isinstance(pool.launch.func, ctypes._CFuncPtr)


def test_disabled_kernels_launch_nothing(monkeypatch):
    x = torch.ones(1000, 1000)
    x.exp()

    def refuse(*_):
        raise AssertionError("launched")

    monkeypatch.setattr(pool, "launch", refuse)
    with native.disabled():
        x.exp()
        (x + x).sum()
    with pytest.raises(AssertionError, match="launched"):
        x.exp()


# -- what is no array -------------------------------------------------------------------------------------------------------------------
class Other:
    """Something else than an array, which a kernel would read as one."""

    def __init__(self):
        self.shape, self.size, self.dtype = (64,), 64, np.dtype(np.int64)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chunks", [1, 40])
@pytest.mark.parametrize("what", [Other(), None, np.zeros(64, np.int64).view(np.matrix)], ids=["object", "None", "subclass"])
def test_a_kernel_refuses_what_is_no_array(threads, chunks, what):
    pool.set_threads(threads)
    with pytest.raises(TypeError, match=r"something else than a numpy\.ndarray"):
        count_chunks()(chunks, id(what))
    x = np.zeros(64, np.int64)
    count_chunks()(chunks, id(x))
    assert (x[:chunks] == 1).all() and not x[chunks:].any()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_writes_nothing_where_a_later_argument_is_no_array(threads):
    @kernel
    def copied(k):
        x, y = k.array(), k.array()
        k.for_chunks(lambda chunk: k.store(k.load(y, chunk, "i64"), x, chunk, "i64"))

    pool.set_threads(threads)
    x = np.zeros(64, np.int64)
    with pytest.raises(TypeError):
        copied()(40, id(x), id(Other()))
    assert not x.any()


def test_a_kernel_refuses_what_is_no_array_in_a_table():
    @kernel
    def from_table(k):
        x, table = k.array(), k.array()
        k.for_chunks(lambda chunk: k.store(k.load(k.data_of(k.load(table, 0, "i64")), chunk, "i64"), x, chunk, "i64"))

    x, y, other = np.zeros(4, np.int64), np.full(4, 7), Other()
    right, wrong = np.array([id(y)]), np.array([id(other)])
    from_table()(4, id(x), id(right))
    assert (x == 7).all()
    with pytest.raises(TypeError):
        from_table()(4, id(x), id(wrong))


def test_every_argument_of_every_kind_of_launch_is_looked_at():
    """A plan's, a call's with arguments packed beforehand, and an optimizer's tables."""
    from flambeau.kernels.families.pointwise import cast

    big = np.ones(50000, np.float32)
    assert cast(big, np.dtype(np.float64)) is not None
    with pytest.raises(TypeError, match="numpy.ndarray"):
        count_chunks().call(4)(Other())


def test_threads_that_launch_while_the_interpreter_ends_do_no_harm():
    program = """
import threading
import flambeau as torch
torch.set_num_threads({threads})
x = torch.ones(20000)
def work():
    while True:
        x.exp()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
x.exp()
print("end")
"""
    for threads in (1, 2) * 3:
        assert _run_program(program.format(threads=threads)) == "end\n"


# -- lists of launches ----------------------------------------------------------------------------------------------------------
def listed(*runs, binds=(), start=0):
    """The block of a list: rows (function, address of arguments, chunks), and places to bind."""
    steps, bound = np.array(runs, np.int64).reshape(-1, 3), np.array(binds, np.int64).reshape(-1, 3)
    block = np.array([len(bound), bound.ctypes.data, len(steps), steps.ctypes.data, start, 0], np.int64)
    return block, [steps, bound]


def doubled():
    """A launch ``y = 2 * x`` of 5,000 numbers as (address, packed arguments, chunks), with its arrays."""
    x, seen = torch.randn(5000), []
    with pool.watched(lambda *launch: seen.append(launch)):
        y = native.find("_cast")(x._array, np.dtype(np.float64))
    assert len(seen) == 1
    return seen[0], x._array, y


def test_a_list_of_launches_binds_arrays_and_stops_at_flags():
    (address, arguments, chunks), x, wanted = doubled()
    words, headers = np.frombuffer(arguments, np.int64).copy(), np.zeros((2, 4), np.int64)
    headers[:, 1] = id(np.ndarray)
    words[0], words[1] = headers.ctypes.data, headers.ctypes.data + 32
    flags = np.array([0, 0], np.int64)
    binds = [(headers.ctypes.data + 16, 1, 0), (headers.ctypes.data + 48, 0, 0)]
    launch, look = (address, words.ctypes.data, chunks), (0, flags.ctypes.data, 2)
    block, _kept = listed(look, launch, look, binds=binds)
    made = np.zeros(5000)
    ids = struct.pack("=2q", id(made), id(x))
    assert pool.replay(block.ctypes.data, ids) == 0
    np.testing.assert_array_equal(made, wanted)
    made.fill(0)
    flags[1] = 1
    assert pool.replay(block.ctypes.data, ids) == 1 and not made.any()
    block[4] = 1
    assert pool.replay(block.ctypes.data, ids) == 3
    np.testing.assert_array_equal(made, wanted)
    with pytest.raises(TypeError):
        pool.replay(block.ctypes.data, struct.pack("=2q", id(made), id("text")))


def test_launches_of_other_threads_are_not_shown():
    seen = []

    def other():
        native.find("_cast")(np.ones(5000, np.float32), np.dtype(np.float64))

    with pool.watched(lambda *launch: seen.append(launch)):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert not seen
        other()
    assert len(seen) == 1
