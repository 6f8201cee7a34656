"""Training steps of an MLP, LeNet, ResNets, an LSTM and transformers: time, and the most memory a fresh process needs for them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import comparison, memory
from .cases import Case
from .comparison import Outcome, add_arguments
from .models import MODELS
from .report import table, write_section

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS
STEPS = 5  # before the peak is read: the optimizer's state appears in the first, the allocator settles
CASES = [Case(name, "training step", build, rehearsals=3) for name, build in MODELS.items()]


def memory_table(outcomes: Sequence[Outcome], threads: int) -> str:
    """Megabytes that the steps took above the process with its model, and the peak of the whole process, for both."""
    header = [f"memory, {STEPS} steps", "flambeau, MB", "PyTorch, MB", "ratio", "whole process, MB", "PyTorch, MB", "ratio"]
    rows = []
    for outcome in outcomes:
        both = [memory.in_a_process(package, outcome.case.name, threads, STEPS) for package in ("flambeau", "torch")]
        growth, peaks = [peak - before for before, peak in both], [peak for _, peak in both]
        cells = [[*(f"{value / 1e6:.1f}" for value in values), f"{values[0] / values[1]:.2f}"] for values in (growth, peaks)]
        rows.append([outcome.case.name, *cells[0], *cells[1]])
    return table(header, rows)


def main(options: argparse.Namespace) -> int:
    outcomes = comparison.run_cases(__name__, CASES, options)
    measured = [outcome for outcome in outcomes if outcome.seconds]
    text = f"{comparison.summary(outcomes)}\n\n{memory_table(measured, options.threads)}"
    print(text)
    if options.write:
        remark = (
            "Memory: resident, in a fresh process for each; first what the steps added to the process with its model and batch "
            "(which contains code that is paged in or generated for them)."
        )
        write_section(options.name, f"{comparison.described(options)} {remark}\n\n{text}")
    return int(len(measured) < len(outcomes))
