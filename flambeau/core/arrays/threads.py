"""Number of threads that run inside operations."""

from __future__ import annotations

import importlib
import os
import sys

_BACKEND = f"{__package__.partition('.')[0]}.kernels"


def _default() -> int:
    """One per core that this process may use, or what ``OMP_NUM_THREADS`` says."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    if chosen.isdigit() and int(chosen):
        return int(chosen)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """The number of threads inside operations, the caller's included."""

    count = _default()


def set_threads(count: int) -> None:
    """Have the pool of native threads, and NumPy's BLAS if it can be told, use ``count`` threads."""
    Threads.count = count
    pool = getattr(sys.modules.get(f"{_BACKEND}.compiler.pool"), "pool", None)
    if pool is not None:
        pool.set_threads(count)
    blas = importlib.import_module(f"{_BACKEND}.families.blas").library()
    if blas is not None:
        blas.set_threads(count)
