"""Entries measured by several processes."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import time
from collections.abc import Iterator
from typing import Any

import torch

from .columns import Comparison, Mismatch, Outcome
from .report import summary


def measure(name: str, columns: list[str], count: int | None) -> tuple[str, dict[str, Any], float]:
    """The outcomes of one entry as JSON has them, and the seconds it took."""
    start = time.perf_counter()
    comparison = Comparison(name, count)
    outcomes = {}
    for column in columns:
        try:
            outcome = comparison.column(column)
        except Exception as problem:  # a sample that the comparison itself cannot digest
            outcome = Outcome(mismatches=[Mismatch(name, f"the comparison failed: {type(problem).__name__}: {problem}"[:300])])
        outcomes[column] = summary(outcome)
    return name, outcomes, time.perf_counter() - start


def one_thread() -> None:
    """PyTorch on one thread: each process has a core of its own."""
    torch.set_num_threads(1)


def measure_all(names: list[str], columns: list[str], count: int | None, jobs: int) -> Iterator[tuple[str, dict[str, Any], float]]:
    """``measure`` of each entry, as they come."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(jobs, len(names)), context, one_thread) as pool:
        for task in concurrent.futures.as_completed([pool.submit(measure, name, columns, count) for name in names]):
            yield task.result()
