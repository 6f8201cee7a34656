"""The frameworks, each in a process of its own that stays for the whole benchmark; they build cases and time them when it is their turn.

In one process the two would share the C library's allocator, where large blocks of one decide whether the other's go back to the system
after each call: PyTorch's 1x1 convolution took 5 ms alone and 18 ms beside flambeau.
"""

from __future__ import annotations

import importlib
import math
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from .cases import Case
from .measuring import Timed, busy_seconds, one_turn, plan, rest, settle


def _specified(tensor: Any) -> Any:
    if str(tensor.layout) == "torch.strided":
        return tensor
    return tensor.detach().coalesce().values() if tensor.is_sparse else tensor.detach().values()


def as_arrays(result: Any) -> list[Any]:
    """The values of a tensor or a tuple of tensors (of sparse ones what is specified), in NumPy; bfloat16, which it lacks, as float32."""
    tensors = [_specified(t) for t in (result if isinstance(result, tuple) else (result,))]
    return [(t.float() if str(t.dtype) == "torch.bfloat16" else t).detach().resolve_conj().numpy() for t in tensors]


class Bench:
    """What a process has built, by key. Its methods are the requests that it answers."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.functions: dict[str, Timed] = {}
        self.plans: dict[str, tuple[int, int]] = {}

    def build(self, module: str, key: str) -> list[Any]:
        """Build the case with this key of a benchmark; the values of its last rehearsal."""
        case: Case = next(case for case in importlib.import_module(module).CASES if case.key == key)
        function = self.functions[key] = case.build(self.torch)
        self.torch.manual_seed(0)
        for _ in range(case.rehearsals - 1):
            function()
        return as_arrays(function())

    def plan(self, key: str, seconds: float) -> None:
        self.plans[key] = plan(self.functions[key], seconds)

    def turn(self, key: str) -> float:
        return one_turn(self.functions[key], *self.plans[key])

    def used(self) -> float:
        """Seconds of all processors that this process has taken."""
        return time.process_time()

    def clear(self) -> None:
        self.functions.clear()


def serve(pipe: Connection, package: str, threads: int) -> None:
    """Answer requests until the pipe is closed. The number of threads is in the environment too, see ``set_threads``."""
    torch = importlib.import_module(package)
    torch.set_num_threads(threads)
    settle()
    bench = Bench(torch)
    while True:
        try:
            name, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer, problem = getattr(bench, name)(*arguments), ""
        except Exception as error:  # whatever a framework lacks is a line of the report, not the end of it
            answer, problem = None, f"{package}: {type(error).__name__}: {error}"
        rest()
        pipe.send((answer, problem))


class Side:
    """The other end of the pipe to a framework's process."""

    def __init__(self, package: str, threads: int) -> None:
        self._arguments = (package, threads)
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()  # so that the end of the process is the end of the pipe

    def ask(self, request: str, *arguments: Any) -> Any:
        """The answer to a request.

        Raises:
            RuntimeError: the framework raised, with its words; or its process died, and there is a new one that has built nothing.
        """
        try:
            self._pipe.send((request, *arguments))
            answer, problem = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join()
            code = self._process.exitcode
            self._start()
            raise RuntimeError(f"{self._arguments[0]}: the process ended with exit code {code}") from error
        if problem:
            raise RuntimeError(problem)
        return answer

    def close(self) -> None:
        self._pipe.close()
        self._process.join()


@contextmanager
def both(threads: int) -> Iterator[list[Side]]:
    """flambeau and PyTorch, on ``threads`` threads."""
    sides: list[Side] = []
    try:
        for package in ("flambeau", "torch"):
            sides.append(Side(package, threads))
        yield sides
    finally:
        for side in sides:
            side.close()


def in_turn(entries: Sequence[tuple[Side, str]], rounds: int, seconds: float) -> list[float]:
    """Seconds of a call of what each side built under a key: the best of its turns of about ``seconds``; the order is reversed each round.

    The median within a turn keeps what every so often belongs to the work (fresh memory, the collector); the best turn leaves out
    what other programs on the machine took.
    """
    for side, key in entries:
        side.ask("plan", key, seconds)
    order = list(range(len(entries)))
    fewest = [math.inf] * len(entries)
    for _ in range(rounds):
        for i in order:
            side, key = entries[i]
            fewest[i] = min(fewest[i], side.ask("turn", key))
        order.reverse()
    return fewest


@contextmanager
def foreign(sides: Sequence[Side]) -> Iterator[list[float]]:
    """A list that gets, at the end, how many processors other programs kept busy meanwhile (from /proc/stat, to about 20 ms).

    They cost the frameworks unequally: one program that computes makes PyTorch's two threads wait for each other, 8 ms for an ``exp`` of
    1000 numbers, and leaves a framework alone that uses one thread.
    """

    def others() -> float:
        return busy_seconds() - time.process_time() - sum(side.ask("used") for side in sides)

    share: list[float] = []
    begin, before = time.perf_counter(), others()
    yield share
    taken = others() - before
    share.append(taken / (time.perf_counter() - begin) if taken > 0.04 else 0.0)
