"""The scenarios, as ``__main__`` and ``test_faults`` run them: ``run(seed, count)`` yields failures and adds to figures."""

from __future__ import annotations

import gc
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import files, forks, interrupts, programs, races, schedules, signals, threads, trials

SIGNALS_A_TRIAL, FORKS_A_TRIAL, BUSY_FORKS_A_TRIAL = 500, 5, 50
SCHEDULES_A_TRIAL = 10
THREADS_A_TRIAL = 300  # seconds
ROWS = (programs.SMALL, programs.LARGE)


class Figures(dict[str, int]):
    """What happened, counted."""

    def add(self, **counts: int) -> None:
        for name, count in counts.items():
            self[name] = self.get(name, 0) + count


def _wanted() -> dict[str, dict[str, Any]]:
    return {str(rows): programs.expected(rows) for rows in ROWS}


def _tried(figures: Figures, label: str, trial: Callable[..., Any], *arguments: Any, limit: float = trials.LIMIT) -> Any:
    """The trial's result, or a text about its failure, which is counted."""
    try:
        return trials.in_child(trial, *arguments, limit=limit)
    except AssertionError as error:
        figures.add(broken=1)
        return f"{label}: {error}"


def raised_signals(seed: int, count: int, figures: Figures) -> Iterator[str]:
    """``count`` exceptions of a signal handler, over all call sites."""
    trials.warm("flambeau")
    done = 0
    while done < count:
        number = min(SIGNALS_A_TRIAL, count - done)
        label = f"seed {seed + done}"
        outcome = _tried(figures, label, signals.trial, seed + done, number, limit=600)
        done += number
        if isinstance(outcome, str):
            yield outcome
            continue
        figures.add(raised=outcome["raised"], arrived=outcome["arrived"], lost=len(outcome["lost"]), wrong=len(outcome["wrong"]))
        figures.add(swallowed=len(outcome["unraisable"]))
        yield from [f"{label}: {failure}" for failure in (*outcome["lost"], *outcome["wrong"], *outcome["unraisable"])]


def first_uses(seed: int, count: int, figures: Figures) -> Iterator[str]:
    """``count`` processes whose first run of an operation is interrupted at a random place; half of them compile their kernels."""
    trials.warm("flambeau")
    wanted, rng, known = _wanted(), random.Random(seed), {}
    with tempfile.TemporaryDirectory() as folder:
        kinds = [(name, rows, cache) for name in programs.PROGRAMS for rows in ROWS for cache in ("", folder)]
        kinds = rng.sample(kinds, min(len(kinds), 1 + count // 4))  # each has to be counted first
        for _ in range(count):
            name, rows, cache = rng.choice(kinds)
            action, part = "interrupt" if name in programs.SURROUNDED else rng.choice(list(interrupts.ACTIONS)), rng.random()
            os.environ["FLAMBEAU_CACHE"] = cache
            if (name, rows, cache) not in known:
                arguments = ([name], rows, "interrupt", None, wanted[str(rows)], None)
                if cache:
                    trials.in_child(interrupts.first_use, *arguments)  # fills it
                known[name, rows, cache] = trials.in_child(interrupts.first_use, *arguments)
            usual = known[name, rows, cache]
            at = int(part * usual["passed"])
            label = f"{name}, {rows} rows, {'cached' if cache else 'compiled'}, {action} at {at}"
            outcome = _tried(figures, label, interrupts.first_use, [name], rows, action, at, wanted[str(rows)], usual["state"])
            if isinstance(outcome, str):
                yield outcome
            else:
                figures.add(**{action: int(outcome["acted"])})
            figures.add(processes=1)


def imports(seed: int, count: int, figures: Figures) -> Iterator[str]:
    """``count`` processes that get a Ctrl-C while they import the package and use it for the first time."""
    trials.warm()
    wanted, rng = programs.expected(programs.SMALL), random.Random(seed)
    usual = trials.in_child(interrupts.imports, 1e6, wanted)
    began = time.monotonic()
    trials.in_child(interrupts.imports, 1e6, wanted)
    took = 0.6 * (time.monotonic() - began)  # everything runs twice in it, the second time quicker
    for _ in range(count):
        delay = rng.uniform(0.001, took)
        outcome = _tried(figures, f"after {delay:.4f} s", interrupts.imports, delay, wanted)
        figures.add(processes=1)
        if isinstance(outcome, str):
            yield outcome
            continue
        figures.add(interrupted=int(outcome["came"]))
        changed = [name for name, names in usual["contents"].items() if outcome["contents"].get(name) != names]
        if changed or outcome["modes"] not in (None, usual["modes"]):
            figures.add(broken=1)
            names = {name: sorted(set(usual["contents"][name]) ^ set(outcome["contents"].get(name, ()))) for name in changed}
            yield f"after {delay:.4f} s: other contents {names}, modes {outcome['modes']}"


def racing_threads(seed: int, count: int, figures: Figures) -> Iterator[str]:
    """``count`` processes in which 2 to 6 threads race for first uses."""
    trials.warm("flambeau")
    wanted = _wanted()
    for k in range(count):
        outcome = _tried(figures, f"seed {seed + k}", races.trial, seed + k, wanted)
        if isinstance(outcome, str):
            yield outcome
        else:
            figures.add(threads=outcome["threads"])
        figures.add(processes=1)


def forked_children(seed: int, count: int, figures: Figures) -> Iterator[str]:
    """``count`` forks of processes whose threads import the package, find kernels and run them."""
    trials.warm()
    wanted = _wanted()
    for k in range(0, count, FORKS_A_TRIAL):
        outcome = _tried(figures, f"seed {seed + k}", forks.trial, seed + k, min(FORKS_A_TRIAL, count - k), wanted, limit=300)
        if isinstance(outcome, str):
            yield outcome
        else:
            figures.add(forks=outcome["forks"])


def forks_beside_products(seed: int, count: int, figures: Figures) -> Iterator[str]:
    """``count`` forks of processes with five threads that multiply, train and load."""
    os.environ["OPENBLAS_NUM_THREADS"] = "2"  # a library with threads of its own has more locks
    trials.warm("flambeau")
    longest = 0
    for k in range(0, count, BUSY_FORKS_A_TRIAL):
        forks_here = min(BUSY_FORKS_A_TRIAL, count - k)
        outcome = _tried(figures, f"seed {seed + k}", forks.beside_products, seed + k, forks_here, limit=300 + 60 * forks_here)
        if isinstance(outcome, str):
            yield outcome
        else:
            longest = max(longest, outcome.pop("longest"))
            figures.add(**outcome)
            figures["milliseconds at most"] = longest


def busy_threads(seed: int, count: int, figures: Figures, seconds: float = 60.0, interval: float = 1e-5) -> Iterator[str]:
    """``count`` threads that compute, drop, train, load and save for some time; a new process every few minutes."""
    trials.warm("flambeau")
    while seconds > 0:
        piece = min(seconds, THREADS_A_TRIAL)
        outcome = _tried(figures, f"seed {seed}", threads.trial, seed, piece, interval, count, limit=piece + 300)
        if isinstance(outcome, str):
            yield outcome
        else:
            figures.add(**outcome)
        seed, seconds = seed + 1, seconds - piece
        figures.add(processes=1)


def stopped_threads(seed: int, count: int, figures: Figures) -> Iterator[str]:
    """``count`` schedules of two threads that change at exact places, at first uses and later ones."""
    trials.warm("flambeau")
    wanted = _wanted()
    for name, file in (("drop", "kernels/compiler/memory.py"), ("multiply", "kernels/families/blas.py"), ("views", "core/storage.py")):
        outcome = _tried(figures, f"{name}, {file}", schedules.every_place, name, file, limit=300)
        if isinstance(outcome, str):
            yield outcome
        else:
            figures.add(**outcome)
    for k in range(0, count, SCHEDULES_A_TRIAL):
        number = min(SCHEDULES_A_TRIAL, count - k)
        outcome = _tried(
            figures, f"seed {seed + k}", schedules.trial, seed + k, number, wanted, k % (2 * SCHEDULES_A_TRIAL) != 0, limit=300
        )
        if isinstance(outcome, str):
            yield outcome
        else:
            figures.add(**outcome)


def interrupted_files(seed: int, count: int, figures: Figures) -> Iterator[str]:
    """Everything that writes or reads files, each interrupted at ``count`` places."""
    trials.warm("flambeau")
    names = files.names()  # here, so that what they have in common is done once
    gc.collect()
    gc.freeze()  # each attempt collects twice
    for name in names:
        outcome = _tried(figures, name, files.trial, name, count, seed, limit=3600)
        if isinstance(outcome, str):
            yield outcome
        else:
            figures.add(**outcome)


SCENARIOS: dict[str, Callable[..., Iterator[str]]] = {
    "signals": raised_signals,
    "first-uses": first_uses,
    "imports": imports,
    "races": racing_threads,
    "schedules": stopped_threads,
    "forks": forked_children,
    "forks-beside-products": forks_beside_products,
    "threads": busy_threads,
    "files": interrupted_files,
}
