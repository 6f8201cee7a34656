"""Loaders with workers: what they give, what becomes of their memory, and what happens when something dies."""

from __future__ import annotations

import collections
import errno
import gc
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info
from flambeau.utils.data._utils import shared_memory
from flambeau.utils.data._utils.worker import WorkerInfo

LARGE = 2 * shared_memory.SMALLEST // 4  # float32 elements of a sample that goes through shared memory
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
Pair = collections.namedtuple("Pair", "x y")


class Rows(Dataset[Any]):
    """Sample i is a tensor of i's, after ``delay`` seconds."""

    def __init__(self, n: int = 12, size: int = LARGE, delay: float = 0.0) -> None:
        self.n, self.size, self.delay = n, size, delay

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        time.sleep(self.delay)
        return flambeau.full((self.size,), float(i))


class Act(Dataset[Any]):
    """Calls a function for sample 2."""

    def __init__(self, act: Any) -> None:
        self.act = act

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Any:
        return self.act() if i == 2 else i


class Count(IterableDataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.n) if info is None else range(info.id, self.n, info.num_workers))


@pytest.fixture(autouse=True)
def nothing_left():
    """No process and no memory outlives a test's loaders."""
    yield
    if multiprocessing.active_children() or "flambeau-batches" in memory_map():
        gc.collect()  # an error that was caught may refer to a loop
    assert not multiprocessing.active_children()
    assert "flambeau-batches" not in memory_map()


def memory_map() -> str:
    with open("/proc/self/maps") as file:
        return file.read()


def values(loader: Any) -> list[Any]:
    return [batch[:, 0].tolist() for batch in loader]


def expected(n: int, size: int) -> list[list[float]]:
    return [[float(i) for i in range(start, min(n, start + size))] for start in range(0, n, size)]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_every_start_method_gives_the_batches_in_order(method):
    workers = 2 if method == "fork" else 1
    assert values(DataLoader(Rows(), 5, num_workers=workers, multiprocessing_context=method)) == expected(12, 5)


def test_a_fast_worker_waits_for_its_turn_unless_told_not_to():
    class Uneven(Rows):
        def __getitem__(self, i: int) -> Any:
            time.sleep(0.2 if i == 0 else 0.0)
            return super().__getitem__(i)

    assert values(DataLoader(Uneven(4), 1, num_workers=2)) == expected(4, 1)
    out_of_order = values(DataLoader(Uneven(4), 1, num_workers=2, in_order=False))
    assert out_of_order[0] == [1.0]
    assert sorted(out_of_order) == expected(4, 1)


def test_kept_batches_never_change():
    kept = list(DataLoader(Rows(200), 4, num_workers=2))
    assert values(kept) == expected(200, 4)
    part = DataLoader(Rows(60), 4, num_workers=2, persistent_workers=True)
    views = [batch[1:2, :3].numpy() for _ in range(2) for batch in part]  # the batch itself is gone
    assert [view[0].tolist() for view in views] == [[float(i)] * 3 for i in range(1, 60, 4)] * 2


def test_memory_of_dropped_batches_is_used_again():
    addresses = set()
    for batch in DataLoader(Rows(400), 4, num_workers=1):
        addresses.add(batch.data_ptr())
        del batch
    assert len(addresses) < 10


def test_what_a_worker_keeps_is_copied():
    class Keeps(Rows):
        def __getitems__(self, indices: list[int]) -> Any:
            return [super(Keeps, self).__getitem__(i) for i in indices]

    kept: list[Any] = []

    def collate(samples: Any) -> Any:
        batch = flambeau.utils.data.default_collate(samples)
        for old in kept:
            old.fill_(-1.0)
        kept.append(batch)
        return batch

    assert values(list(DataLoader(Keeps(), 4, num_workers=1, collate_fn=collate))) == expected(12, 4)


def test_batches_are_ordinary_tensors():
    class Mixed(Dataset[Any]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> Any:
            x = flambeau.full((LARGE,), float(i))
            return {
                "pair": Pair(x, x.to(flambeau.bfloat16)),
                "text": "word",
                "array": np.full(LARGE, i),
                "number": 1.5,
                "bytes": b"ab",
                "many": ["a long list of words"] * 2000,
            }

    (one,) = DataLoader(Mixed(), 2, num_workers=1)
    (other,) = DataLoader(Mixed(), 2)
    assert one.keys() == other.keys()
    assert type(one["pair"]) is Pair
    for ours, theirs in ((one["pair"].x, other["pair"].x), (one["pair"].y, other["pair"].y), (one["array"], other["array"])):
        assert ours.equal(theirs) and ours.dtype is theirs.dtype
    assert (one["text"], one["bytes"], one["many"]) == (other["text"], other["bytes"], other["many"])
    x = one["pair"].x
    assert x.is_contiguous() and x.storage_offset() == 0 and x.untyped_storage().nbytes() == x.nbytes and not x._is_view()
    x.requires_grad_().mul(2).sum().backward()
    assert x.grad is not None and x.grad.eq(2).all()


def test_unbatched_rows_do_not_carry_their_dataset():
    table = flambeau.arange(200.0 * LARGE).view(200, LARGE)
    for i, (row,) in enumerate(DataLoader(TensorDataset(table), batch_size=None, num_workers=1)):
        assert row.equal(table[i]) and row.untyped_storage().nbytes() == row.nbytes


def test_tensors_of_one_batch_share_what_they_shared():
    def collate(samples: Any) -> Any:
        x = flambeau.zeros(LARGE)
        return x, x.view(2, -1), flambeau.nn.Parameter(flambeau.ones(2)), flambeau.zeros(2, requires_grad=True)

    ((x, view, parameter, leaf),) = DataLoader(Rows(2), 2, num_workers=1, collate_fn=collate)
    view[0, 0] = 5
    assert x[0] == 5
    assert type(parameter) is flambeau.nn.Parameter and parameter.requires_grad and leaf.requires_grad


def test_a_tensor_with_history_is_refused():
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        list(DataLoader(Act(lambda: flambeau.ones(2, requires_grad=True) * 2), None, num_workers=1))


def test_streams_are_shared_out_by_the_dataset():
    assert [batch.tolist() for batch in DataLoader(Count(7), 2, num_workers=2)] == [[0, 2], [1, 3], [4, 6], [5]]
    loader = DataLoader(Count(9), 2, num_workers=3, persistent_workers=True)
    assert [batch.tolist() for batch in loader] == [batch.tolist() for batch in loader]


def test_persistent_workers_stay_and_a_broken_off_pass_is_forgotten():
    loader = DataLoader(Rows(), 2, num_workers=2, persistent_workers=True)
    first = iter(loader)
    pids = [process.pid for process in first._workers]
    assert next(first)[:, 0].tolist() == [0, 1]
    assert values(loader) == values(loader) == expected(12, 2)
    assert [process.pid for process in iter(loader)._workers] == pids


def test_worker_info_is_shown_and_is_not_changed():
    info = WorkerInfo(id=1, num_workers=2, seed=3, dataset=4)
    assert repr(info) == "WorkerInfo(id=1, num_workers=2, seed=3, dataset=4, rng=None, worker_method='multiprocessing')"
    with pytest.raises(AttributeError, match="cannot assign to field 'id'"):
        info.id = 3  # type: ignore[misc]


def test_bad_options_are_refused():
    for options, message in (
        ({"worker_method": "fiber"}, "worker_method option should be"),
        ({"worker_method": "thread", "num_workers": 1, "multiprocessing_context": "fork"}, "no use with worker_method='thread'"),
    ):
        with pytest.raises(ValueError, match=message):
            DataLoader(Rows(), **options)
    with pytest.raises(ValueError, match="deterministic=True"):
        DataLoader(Count(3), num_workers=2, deterministic=True)
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader(Rows(), num_workers=1, prefetch_factor=0))


def test_ranges_of_an_arena_never_overlap_and_free_memory_goes_back(monkeypatch):
    monkeypatch.setattr(shared_memory, "_SPARE_BYTES", 1 << 20)
    arena, mappings, draw, held = shared_memory.Arena(), shared_memory.Mappings(), random.Random(1), {}
    for number in range(400):
        at = arena.take(draw.randrange(1, 100_000))
        arena.bytes_of(at)[:] = number % 251
        for descriptor, size in arena.files_to_announce():
            mappings.add(os.dup(descriptor), size)
        held[at] = number % 251
        while len(held) > (5 if number % 100 < 50 else 100):
            at, value = held.popitem() if draw.random() < 0.5 else next(iter(held.items()))
            held.pop(at, None)
            array = mappings.array(at)
            assert (array == value).all()
            del array
            arena.release(mappings.freed())
    status = os.fstat(arena._files[0].descriptor)
    in_use = sum(-(-size // 4096) * 4096 for _, _, size in held)
    assert in_use <= status.st_blocks * 512 <= 2 * in_use + (2 << 20)
    assert len(arena._files) == 1
    for file in arena._files:
        os.close(file.descriptor)


def test_keeping_batches_takes_no_descriptors():
    before = len(os.listdir("/proc/self/fd"))
    kept = list(DataLoader(Rows(300), 1, num_workers=1))
    assert len(os.listdir("/proc/self/fd")) - before < 5
    assert values(kept) == expected(300, 1)


# -- threads --------------------------------------------------------------------------------------------------------------
def draws() -> tuple[float, ...]:
    """Random numbers of all three kinds, in a thread from its own generators."""
    info = get_worker_info()
    if info is None or info.rng is None:
        return flambeau.rand(1).item(), random.random(), np.random.rand()
    rng = info.rng
    return flambeau.rand(1, generator=rng.torch_generator).item(), rng.random_generator.random(), rng.numpy_generator.random_sample()


class Infos(Dataset[Any]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Any:
        info = get_worker_info()
        assert info is not None
        return info.id, info.seed, *draws()


@pytest.mark.parametrize("deterministic", [False, True])
def test_threads_have_the_order_the_seeds_and_the_numbers_of_processes(deterministic):
    def run(method: str) -> Any:
        flambeau.manual_seed(5)
        loader = DataLoader(Infos(), 2, True, num_workers=2, worker_method=method, collate_fn=list, deterministic=deterministic)
        return list(loader), flambeau.rand(1).item()

    assert run("thread") == run("process")


def test_threads_share_the_dataset_and_copy_nothing():
    x = flambeau.arange(4.0)
    batches = list(DataLoader(TensorDataset(x), None, num_workers=2, worker_method="thread"))
    assert [row.data_ptr() for (row,) in batches] == [x[i].data_ptr() for i in range(4)]
    assert get_worker_info() is None


def test_an_error_in_a_thread_is_raised_and_the_rest_still_comes():
    loop = iter(DataLoader(Act(lambda: 1 // 0), 2, num_workers=2, worker_method="thread"))
    assert next(loop).tolist() == [0, 1]
    with pytest.raises(ZeroDivisionError, match="Caught ZeroDivisionError in DataLoader worker thread 1"):
        next(loop)
    assert [batch.tolist() for batch in loop] == [[4, 5], [6, 7]]


def test_a_thread_that_exits_is_an_error():
    loop = iter(DataLoader(Act(sys.exit), None, num_workers=1, worker_method="thread"))
    assert [next(loop), next(loop)] == [0, 1]
    with pytest.raises(RuntimeError, match="in DataLoader worker thread 0(.|\n)*SystemExit"):
        next(loop)


# -- faults ---------------------------------------------------------------------------------------------------------------
def test_an_error_comes_with_its_traceback_and_the_rest_still_comes():
    loop = iter(DataLoader(Act(lambda: {}["missing"]), 2, num_workers=2))
    assert next(loop).tolist() == [0, 1]
    with pytest.raises(KeyError) as caught:
        next(loop)
    text = str(caught.value)
    assert text.startswith("Caught KeyError in DataLoader worker process 1.\nOriginal Traceback (most recent call last):\n")
    assert 'lambda: {}["missing"]' in text and text.endswith("KeyError: 'missing'\n")
    assert [batch.tolist() for batch in loop] == [[4, 5], [6, 7]]


class Demanding(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)


class Named(Exception):
    message = "its own"

    def __init__(self, message: str) -> None:
        super().__init__(message)


def raising(error: Exception) -> Any:
    def act() -> None:
        raise error

    return act


def test_errors_that_cannot_be_made_again_are_still_told():
    class Local(Exception):
        pass

    for error, kind, text in (
        (Demanding(1, 2), RuntimeError, "Caught Demanding in DataLoader worker process 0"),
        (Named("x"), Named, "Caught Named in DataLoader worker process 0"),
        (Local("x"), RuntimeError, "Local cannot be pickled"),
    ):
        with pytest.raises(kind, match=text):
            list(DataLoader(Act(raising(error)), None, num_workers=1))


def test_what_cannot_be_pickled_is_an_error_of_its_batch():
    with pytest.raises(Exception, match=r"(?s)in DataLoader worker process 0.*pickle"):
        list(DataLoader(Act(lambda: lambda: 0), None, num_workers=1))


def test_an_error_of_initialisation_comes_with_the_first_batch():
    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 0"):
        list(DataLoader(Rows(), num_workers=1, worker_init_fn=lambda number: raising(ValueError("no"))()))


@pytest.mark.parametrize("end", ["before", "while loading", "exit"])
def test_the_end_of_a_worker_is_told_at_once(end):
    acts = {"exit": lambda: os._exit(3), "while loading": lambda: os.kill(os.getpid(), signal.SIGKILL), "before": lambda: time.sleep(60)}
    loop = iter(DataLoader(Act(acts[end]), 2, num_workers=2))
    pids = [process.pid for process in loop._workers]
    assert next(loop).tolist() == [0, 1]
    if end == "before":
        os.kill(pids[1], signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid\(s\) {pids[1]}\) exited unexpectedly") as caught:
        list(loop)
    assert time.monotonic() - begin < 3
    reason = "with exit code 3" if end == "exit" else "is killed by signal: Killed"
    assert reason in str(caught.value.__cause__)
    assert list(loop) == []


def test_new_workers_are_started_after_one_was_killed():
    loader = DataLoader(Rows(), 2, num_workers=2, persistent_workers=True)
    os.kill(iter(loader)._workers[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(loader)
    assert values(loader) == expected(12, 2)


def test_a_worker_that_takes_too_long_is_ended():
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.3 seconds"):
        list(DataLoader(Act(lambda: time.sleep(60)), num_workers=1, timeout=0.3))
    assert time.monotonic() - begin < 3


def test_an_interrupt_ends_the_workers():
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        batches = iter(DataLoader(Act(lambda: time.sleep(60)), num_workers=2))  # after a fork, Python itself ignores errors of handlers
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            list(batches)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def without_files(_: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))


def with_little_memory(_: int) -> None:
    allocate, left = os.posix_fallocate, [5]

    def limited(*where: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(*where)

    os.posix_fallocate = limited


@pytest.mark.parametrize("limit", [without_files, with_little_memory])
def test_no_memory_for_a_batch_is_an_error_and_not_a_signal(limit):
    loader = DataLoader(Rows(24), 4, num_workers=1, worker_init_fn=limit)
    with pytest.raises(RuntimeError, match="no shared memory for .* bytes of a batch .*lower prefetch_factor"):
        kept = list(loader)  # six batches, of which five have a place
        del kept
    if limit is with_little_memory:
        assert [batch[0, 0].item() for batch in loader] == [0, 4, 8, 12, 16, 20]


def test_large_indices_and_large_batches_do_not_wait_for_one_another():
    indices = [list(range(i, i + 60_000)) for i in range(6)]

    def collate(samples: Any) -> Any:
        return [str(sample) for sample in samples]

    loader = DataLoader(range(100_000), batch_sampler=indices, num_workers=1, prefetch_factor=4, collate_fn=collate)
    assert [batch[0] for batch in loader] == [str(i) for i in range(6)]


PARENT = """
import time
from flambeau.utils.data import DataLoader
from tests.data.test_workers import Rows
idle, busy = iter(DataLoader(Rows(1000), 4, num_workers=1)), iter(DataLoader(Rows(delay=60), 4, num_workers=1))
next(idle)
print(*[process.pid for loop in (idle, busy) for process in loop._workers], flush=True)
time.sleep(60)
"""


def test_workers_end_with_their_parent_whatever_they_are_doing():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 5
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(pids) == 2


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# -- resuming and independence of the number of workers --------------------------------------------------------------------
class Noisy(Dataset[Any]):
    """Samples with random numbers in them."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> Any:
        return i, *draws()


class NoisyStream(IterableDataset[Any]):
    def __iter__(self):
        info = get_worker_info()
        offset = random.random()
        for i in range(0 if info is None else info.id, 20, 1 if info is None else info.num_workers):
            yield i, offset, flambeau.rand(1).item(), np.random.rand()


def seed(number: int) -> None:
    flambeau.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def test_deterministic_passes_do_not_depend_on_the_number_of_workers():
    def run(workers: int) -> Any:
        seed(3)
        options: Any = {} if workers == 0 else {"persistent_workers": workers == 2, "prefetch_factor": workers}
        loader = DataLoader(Noisy(), 3, True, num_workers=workers, collate_fn=list, deterministic=True, **options)
        passes = []
        for _ in range(2):
            passes += [(batch, flambeau.rand(1).item(), random.random(), np.random.rand()) for batch in loader]
        return passes

    alone = run(0)
    assert alone == run(1) == run(2)
    assert len({draw for batch, *_ in alone for _, draw, _, _ in batch}) == 40


def test_a_deterministic_stream_does_not_depend_on_its_worker():
    def run(workers: int) -> Any:
        seed(3)
        return list(DataLoader(NoisyStream(), 3, num_workers=workers, collate_fn=list, deterministic=True)), flambeau.rand(1).item()

    assert run(0) == run(1)


@pytest.mark.parametrize(
    ("dataset", "generator", "options"),
    [
        (Noisy, False, {"shuffle": True}),
        (Noisy, True, {"shuffle": True, "num_workers": 2}),
        (Noisy, False, {"shuffle": True, "num_workers": 2, "persistent_workers": True}),
        (Noisy, True, {"shuffle": True, "num_workers": 2, "persistent_workers": True}),
        (Noisy, False, {"shuffle": True, "num_workers": 2, "worker_method": "thread"}),
        (Noisy, False, {"shuffle": True, "num_workers": 2, "deterministic": True}),
        (Noisy, True, {"shuffle": True, "deterministic": True}),
        (NoisyStream, False, {}),
        (NoisyStream, False, {"num_workers": 2}),
        (NoisyStream, False, {"num_workers": 1, "deterministic": True}),
    ],
)
def test_a_loader_goes_on_where_another_was(dataset, generator, options):
    def loader() -> Any:
        own = {"generator": flambeau.Generator().manual_seed(1)} if generator else {}
        return DataLoader(dataset(), 3, collate_fn=list, **own, **options)

    seed(7)
    whole = loader()
    passes, states, streams = [], [], []
    for _ in range(2):
        batches: list[Any] = []
        for batch in whole:
            batches.append(batch)
            states.append(whole.state_dict())
            streams.append((flambeau.get_rng_state(), random.getstate(), np.random.get_state()))
        passes.append(batches)
    count = len(passes[0])
    for stop in (0, count + 2) if options.get("persistent_workers") else (2,):
        seed(99)
        resumed = loader()
        resumed.load_state_dict(states[stop])
        flambeau.set_rng_state(streams[stop][0])
        random.setstate(streams[stop][1])
        np.random.set_state(streams[stop][2])
        assert list(resumed) == passes[stop // count][stop % count + 1 :]
        if stop < count:
            assert list(resumed) == passes[1]


def test_a_state_survives_a_file_a_break_and_another_number_of_workers(tmp_path):
    def loader(workers: int) -> Any:
        return DataLoader(Noisy(), 3, True, num_workers=workers, collate_fn=list, deterministic=True)

    seed(1)
    first = loader(2)
    whole: list[Any] = []
    for batch in first:
        whole.append(batch)
        if len(whole) == 4:
            break
    flambeau.save(first.state_dict(), tmp_path / "loader.pt")
    seed(1)
    everything = list(loader(0))
    second = loader(1)
    second.load_state_dict(flambeau.load(tmp_path / "loader.pt"))
    assert second.state_dict()["_num_yielded"] == 4
    assert whole + list(second) == everything


def test_the_state_after_a_pass_and_before_one_begins_a_new_pass():
    def loader() -> Any:
        return DataLoader(
            Noisy(), 3, True, generator=flambeau.Generator().manual_seed(4), collate_fn=lambda samples: [i for i, *_ in samples]
        )

    whole, fresh, finished = loader(), loader(), loader()
    fresh.load_state_dict(whole.state_dict())
    first = list(whole)
    assert list(fresh) == first
    state = whole.state_dict()
    assert state["_iterator_finished"]
    finished.load_state_dict(state)
    assert list(finished) == list(whole)


class Resumable(IterableDataset[int]):
    """A stream that counts how often it was asked."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self):
        while self.at < 12:
            self.at += 1
            yield self.at

    def state_dict(self) -> Any:
        return {"at": self.at}

    def load_state_dict(self, state: Any) -> None:
        self.at = state["at"]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_with_a_state_of_its_own_is_asked_for_it(workers):
    def loader() -> Any:
        return DataLoader(Resumable(), 2, num_workers=workers, collate_fn=list)

    first, second = loader(), loader()
    loop = iter(first)
    assert next(loop) == [1, 2]
    state = first.state_dict()
    assert (state["_fetcher"] or state["_workers"][0]["fetcher"])["dataset"] == {"at": 2}
    second.load_state_dict(state)
    assert list(second) == [[3, 4], [5, 6], [7, 8], [9, 10], [11, 12]]


def test_states_of_something_else_are_refused():
    loader = DataLoader(Noisy(), num_workers=1)
    with pytest.raises(TypeError, match="expected a dict, got list"):
        loader.load_state_dict([])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'_format'"):
        loader.load_state_dict({})
    with pytest.raises(ValueError, match="num_workers=0, this one has 1"):
        loader.load_state_dict(DataLoader(Noisy()).state_dict())
    with pytest.raises(ValueError, match="deterministic=True"):
        loader.load_state_dict(DataLoader(Noisy(), num_workers=1, deterministic=True).state_dict())
