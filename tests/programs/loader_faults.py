"""Loaders whose workers or programs die at random moments: ``python -m tests.programs.loader_faults --count N [--seed S]``.

Each trial is a program of its own. It has to end in time, with the error that belongs to its fault, and leave no process and no file.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

PATIENCE = 15.0  # seconds within which a fault must be told and everything gone, on a busy machine
FAULTS = ("kill a worker", "kill the program", "interrupt", "raise", "no memory", "break", "none")
EXPECTED = {
    "kill a worker": "RuntimeError: DataLoader worker (pid(s)",
    "interrupt": "KeyboardInterrupt",
    "raise": "ZeroDivisionError: Caught ZeroDivisionError in DataLoader worker process",
    "no memory": "RuntimeError: Caught RuntimeError in DataLoader worker process",
    "break": "done",
    "none": "done",
}


def without_memory(_: int) -> None:
    """Let the fifth range that a worker takes be one too many."""
    allocate, left = os.posix_fallocate, [5]

    def limited(*where: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(*where)

    os.posix_fallocate = limited


class Samples:
    """Tensors of random size, some of which take a while."""

    def __init__(self, draw: random.Random, fails_at: int) -> None:
        self.size, self.delay, self.fails_at = draw.choice((1, 5_000, 200_000)), draw.choice((0.0, 0.0, 0.01)), fails_at

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, i: int) -> Any:
        import flambeau

        if i == self.fails_at:
            raise ZeroDivisionError
        time.sleep(self.delay)
        return flambeau.full((self.size,), float(i))


def program(seed: int, fault: str) -> None:
    """The program of one trial: says the numbers of its workers, and then what became of its loop."""
    from flambeau.utils.data import DataLoader

    draw = random.Random(seed)
    samples = Samples(draw, draw.randrange(200) if fault == "raise" else -1)
    if fault == "no memory":
        samples.size = 200_000
    loader = DataLoader(
        samples,  # type: ignore[arg-type]
        draw.choice((1, 4)),
        num_workers=draw.choice((1, 2, 3)),
        multiprocessing_context=draw.choice(("fork", "fork", "fork", "forkserver", "spawn")),
        persistent_workers=draw.random() < 0.3,
        prefetch_factor=draw.choice((1, 2, 8)),
        in_order=draw.random() < 0.7,
        worker_init_fn=without_memory if fault == "no memory" else None,
    )
    kept = []
    try:
        loop = iter(loader)
        print(*[process.pid for process in loop._workers], flush=True)
        end = time.monotonic() + (0.3 if fault in ("none", "break") else 2 * PATIENCE)
        for number, batch in enumerate(loop):
            if loader.in_order and batch[0, 0].item() != number * loader.batch_size:
                raise AssertionError(f"batch {number} is {batch[0, 0].item()}")
            if fault == "no memory":
                kept.append(batch)
            if time.monotonic() > end:
                break
        print("done", flush=True)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0], flush=True)
    if fault == "none":
        loop._shutdown_workers()


def running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def trial(seed: int) -> str:
    """What went wrong, or nothing."""
    draw = random.Random(seed)
    fault = draw.choice(FAULTS)
    before = set(os.listdir("/dev/shm"))
    command = [sys.executable, "-W", "ignore", "-m", "tests.programs.loader_faults", "--program", fault, "--seed", str(seed)]
    complaints = tempfile.TemporaryFile("w+")
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True, start_new_session=True)
    try:
        assert child.stdout is not None
        pids = [int(word) for word in child.stdout.readline().split()]
        time.sleep(draw.choice((0.0, 0.05, 0.5)))
        if fault == "kill a worker":
            os.kill(draw.choice(pids), signal.SIGKILL)
        elif fault == "kill the program":
            child.kill()
        elif fault == "interrupt":
            os.killpg(child.pid, signal.SIGINT)
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return f"{fault}: hangs"
        told = child.stdout.read()
        complaints.seek(0)
        if fault != "kill the program" and not told.startswith(EXPECTED[fault]):
            return f"{fault}: told {told!r} and ended with {child.returncode} {complaints.read()}"
        end = time.monotonic() + PATIENCE
        while any(running(pid) for pid in pids):
            if time.monotonic() > end:
                return f"{fault}: left a worker"
            time.sleep(0.01)
        files = {name for name in set(os.listdir("/dev/shm")) - before if name.startswith(("flambeau", "torch", "psm"))}
        return f"{fault}: left {files}" if files else ""
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        complaints.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--program", choices=FAULTS)
    options = parser.parse_args()
    if options.program:
        program(options.seed, options.program)
        return 0
    failures = 0
    for seed in range(options.seed, options.seed + options.count):
        problem = trial(seed)
        if problem:
            failures += 1
            print(f"--seed {seed} --count 1: {problem}", flush=True)
    print(f"{options.count} trials, {failures} not in order")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
