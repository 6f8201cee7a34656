"""What one small operation costs, beside PyTorch in the same process.

The two are measured in turn, round by round, so that a change of the processor's clock meets both; the best round counts.
Every figure contains the call of one Python function, about 0.03 us.
"""

from __future__ import annotations

import argparse
import importlib
import time
from types import ModuleType

from .cases import CASES, Case
from .measuring import best, geometric_mean, settle
from .report import machine, table, write_section

THREADS = 1
GROUPS = {"plain": "without gradients", "recorded": "recorded for backward", "whole": "passes and steps"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=15, help="how often each case is measured")
    parser.add_argument("--milliseconds", type=float, default=2.0, help="length of one measurement")
    parser.add_argument("--only", default="", help="only cases whose group or name contains this")
    parser.add_argument("--package", default="flambeau", help="the module to hold against torch")
    parser.add_argument("--alone", action="store_true", help="measure the package without PyTorch")
    parser.add_argument("--quick", action="store_true", help="three short rounds")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")


def run(cases: list[Case], modules: list[ModuleType], rounds: int, seconds: float) -> list[list[float]]:
    """Seconds of every case on every module."""
    results = []
    for case in cases:
        functions = [case.build(module) for module in modules]
        results.append(best(functions, rounds, seconds))
    return results


def warm_up(modules: list[ModuleType]) -> None:
    """Let what starts late in a process do so: figures are those of a program that has run for a second."""
    for module in modules:
        x = module.ones(1)
        for _ in range(200_000):
            x + x
    time.sleep(0.5)


def main(options: argparse.Namespace) -> int:
    modules = [importlib.import_module(name) for name in ([options.package] if options.alone else [options.package, "torch"])]
    for module in modules:
        module.set_num_threads(options.threads)
    if options.quick:
        options.rounds, options.milliseconds = 3, 0.5
    cases = [case for case in CASES if options.only in case.group or options.only in case.name]
    if not cases:
        raise SystemExit(f"no case contains {options.only!r}")
    warm_up(modules)
    settle()
    results = run(cases, modules, options.rounds, options.milliseconds / 1e3)

    parts = []
    for group, title in GROUPS.items():
        chosen = [(case, seconds) for case, seconds in zip(cases, results) if case.group == group]
        if not chosen:
            continue
        header = [title, "flambeau, us", *([] if options.alone else ["PyTorch, us", "ratio"])]
        rows = []
        for case, seconds in chosen:
            ratio = [] if options.alone else [f"{seconds[0] / seconds[1]:.2f}"]
            rows.append([case.name, *(f"{value * 1e6:.2f}" for value in seconds), *ratio])
        if not options.alone:
            rows.append(["geometric mean", "", "", f"{geometric_mean([s[0] / s[1] for _, s in chosen]):.2f}"])
        parts.append(table(header, rows))
    if not options.alone:
        ratios = [seconds[0] / seconds[1] for seconds in results]
        worst = cases[ratios.index(max(ratios))]
        parts.append(
            f"All {len(cases)} cases: geometric mean {geometric_mean(ratios):.2f}, largest {max(ratios):.2f} ({worst.name}, {worst.group})."
        )
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        settings = f"{options.threads} thread(s), best of {options.rounds} rounds in turn"
        write_section(
            "overhead", f"`python -m benchmarks overhead`; {machine()}; {settings}. Ratios below 1: flambeau is faster.\n\n{text}"
        )
    return 0
