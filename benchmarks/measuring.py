"""Time and memory: how long calls take in a turn, and how much memory a piece of work needed at most.

What one function leaves running must not be charged to the next: pools of threads go on spinning after their last piece of work
(OpenBLAS about 100 ms, OpenMP 5). So a process rests after its turn until it is quiet, and a turn begins with calls that are not counted.
"""

from __future__ import annotations

import gc
import itertools
import math
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Timed = Callable[[], object]

SAMPLE = 2e-4  # seconds that one reading of the clock covers at least
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def set_threads(count: int) -> None:
    """Let NumPy's BLAS and PyTorch use ``count`` threads; they read this when they are loaded, so it comes before."""
    if "numpy" in sys.modules:
        raise RuntimeError("set_threads: expected to be called before NumPy is imported, which has read its number of threads already")
    os.environ.update(dict.fromkeys(VARIABLES, str(count)))


def measure(function: Timed, count: int) -> float:
    """Seconds that one of ``count`` calls takes."""
    repeat = itertools.repeat(None, count)
    begin = time.perf_counter()
    for _ in repeat:
        function()
    return (time.perf_counter() - begin) / count


def calls_in(function: Timed, seconds: float) -> int:
    """How many calls take about ``seconds``, after three that are not counted: a first call may compile something."""
    for _ in range(3):
        function()
    count = 1
    while True:
        taken = measure(function, count) * count
        if taken > seconds / 4:
            return max(1, round(count * seconds / taken))
        count *= 2


def best(functions: Sequence[Timed], rounds: int, seconds: float) -> list[float]:
    """The fewest seconds a call of each function took, over rounds in which all take their turn."""
    counts = [calls_in(function, seconds) for function in functions]
    order = list(range(len(functions)))
    fewest = [math.inf] * len(functions)
    for _ in range(rounds):
        for i in order:
            fewest[i] = min(fewest[i], measure(functions[i], counts[i]))
        order.reverse()
    return fewest


def consume(result: Any) -> None:
    """Ask for the addresses of what was computed, so that nobody can put the work off."""
    for value in result if isinstance(result, tuple) else (result,):
        if str(value.layout) == "torch.strided":
            value.data_ptr()
        else:  # what is sparse has several pieces of memory
            (value._indices() if value.is_sparse else value.values()).data_ptr()


def one_turn(function: Timed, calls: int, samples: int) -> float:
    """Seconds of a call: the median over ``samples`` readings of ``calls`` calls each, after a fifth of that uncounted."""
    readings = []
    for number in range(-math.ceil(samples / 5), samples):
        begin = time.perf_counter()
        for _ in itertools.repeat(None, calls - 1):
            function()
        consume(function())
        if number >= 0:
            readings.append((time.perf_counter() - begin) / calls)
    return statistics.median(readings)


def plan(function: Timed, seconds: float) -> tuple[int, int]:
    """Calls in a reading of the clock, and readings in a turn of about ``seconds``."""
    calls = calls_in(function, min(SAMPLE, seconds))
    return calls, max(1, round(seconds / (measure(function, calls) * calls)))


def rest(longest: float = 1.0) -> None:
    """Sleep until no thread of this process computes any more, at most ``longest`` seconds."""
    end, step = time.perf_counter() + longest, 0.005
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(step)
        if time.process_time() - used < step / 5:
            return


def busy_seconds() -> float:
    """Seconds that all processors together have been busy since the start of the machine; Linux alone tells, elsewhere 0."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, *others = map(int, stat.read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def settle() -> None:
    """What imports left behind is not scanned again during a measurement."""
    gc.collect()
    gc.freeze()


def resident_bytes() -> int:
    """Memory of this process that is in use now; where the system does not tell, the most that ever was."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory this process had in use while ``work`` ran. Linux alone can forget earlier peaks; elsewhere they count too."""
    forget, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not forget.exists():
        work()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    forget.write_text("5")  # resets VmHWM, see proc(5)
    work()
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
