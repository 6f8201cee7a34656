"""Processes that are killed while tensors are under way, and what is left of them."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flambeau
import flambeau.multiprocessing as mp
from flambeau.core.arrays import shared_memory

from .children import descriptors

ROOT = Path(__file__).resolve().parent.parent.parent


def soon(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Wait until a condition holds; what it says then, or when time is up."""
    end = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return answer


def named() -> set[str]:
    """Names in /dev/shm, but for those of MPI's processes, which other tests may have started."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("mpich")}


def alive(pid: int) -> bool:
    """Whether a process runs, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def shared_bytes_of_the_system() -> int:
    """Bytes of shared memory that the system has in use."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("Shmem:"))
    return int(line.split()[1]) << 10


def _echo(tasks: Any, answers: Any, progress: int) -> None:
    """Take tensors, keep the last few, send each back with another one, and tell of it."""
    kept = []
    while True:
        kept = [*kept[-3:], tasks.get()]
        os.write(progress, b"x")
        answers.put((kept[-1], flambeau.ones(kept[-1].shape)))


def child_killed(rng: random.Random, size: int) -> str | None:
    """Kill a child that has taken a part of a queue and is sending; what is left in this process, or None."""
    gc.collect()
    before, names = (descriptors(), len(shared_memory.process.memories)), named()
    context = mp.get_context("fork")
    tasks, answers = context.Queue(), context.Queue()
    reader, writer = os.pipe()
    process = context.Process(target=_echo, args=(tasks, answers, writer), daemon=True)
    process.start()
    for _ in range(12):
        tasks.put(flambeau.ones(size))
    taken = rng.randrange(1, 9)
    while taken > 0:
        taken -= len(os.read(reader, taken))
    if rng.random() < 0.5:
        answers.get()
    time.sleep(rng.random() * 0.003)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    process.close()
    os.close(reader)
    os.close(writer)
    for queue in (tasks, answers):
        queue.cancel_join_thread()
        queue.close()
    feeder = tasks._thread
    del queue, tasks, answers, process
    feeder.join(30)
    del feeder
    gc.collect()
    after = descriptors(), len(shared_memory.process.memories)
    if after != before:
        return f"descriptors, memories: {before} before, {after} after"
    return None if soon(lambda: named() <= names) else f"names: {named() - names}"  # others come and go


# A parent with children by ``start_processes`` and queues of either kind of context, which tells its children's ids and then waits.
_PARENT = """
import os, sys, time
import flambeau, flambeau.multiprocessing as mp
from tests.processes.trials import _worker
if __name__ == "__main__":
    context = mp.get_context({method!r})
    tasks, answers = context.Queue(), context.SimpleQueue()
    started = mp.start_processes(_worker, (tasks, answers), nprocs=2, join=False, start_method={method!r})
    for _ in range(8):
        tasks.put(flambeau.ones({size}))
    while answers.get() < 3:
        pass
    print(*started.pids(), flush=True)
    time.sleep(100)
"""


def _worker(rank: int, tasks: Any, answers: Any) -> None:
    kept = []
    for _ in range(3):
        kept.append(tasks.get())
        answers.put(len(kept))
    time.sleep(100)


def parent_killed(rng: random.Random, size: int, method: str = "fork", deaf: bool = False) -> str | None:
    """Kill a parent, where ``deaf`` one that ignores Ctrl-C, whose children have taken a part of a queue; what is left of them, or None."""
    before, used = named(), shared_bytes_of_the_system()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"] * deaf + [sys.executable, "-c", _PARENT.format(method=method, size=size)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # where the resource tracker of "spawn" says what it cleans up
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        time.sleep(rng.random() * 0.02)
        parent.kill()
        parent.wait()
    if len(pids) != 2:
        return f"children: {pids}"
    left = soon(lambda: not any(map(alive, pids)) and named() <= before)
    if not left:
        return f"alive: {[pid for pid in pids if alive(pid)]}, names: {named() - before}"
    tolerance = 4 * size
    if size >= 1 << 24 and not soon(lambda: shared_bytes_of_the_system() < used + tolerance):
        return f"shared memory of the system: {used} bytes before, {shared_bytes_of_the_system()} after"
    return None


SCENARIOS: dict[str, Callable[[random.Random, int], str | None]] = {
    "child": child_killed,
    "parent": parent_killed,
    "deaf-parent": lambda rng, size: parent_killed(rng, size, deaf=True),
    "spawning-parent": lambda rng, size: parent_killed(rng, size, "spawn"),
}


def failures(scenario: str, seed: int, count: int, size: int) -> Iterator[str]:
    """What was left in each of ``count`` runs in which something was."""
    rng = random.Random(seed)
    for run in range(count):
        left = SCENARIOS[scenario](rng, size)
        if left is not None:
            yield f"{scenario}, seed {seed}, run {run}: {left}"
