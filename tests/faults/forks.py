"""Forks at random times while other threads import the package, find kernels and run them: the child computes, too."""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import threading
import time
import traceback
from typing import Any

from . import programs, trials

ANSWER = 60.0  # seconds that a forked child may take


def trial(seed: int, forks: int, wanted: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """``forks`` children of a process in which threads do their first things; how many of them ended well."""
    rng = random.Random(seed)
    rows = rng.choice(list(wanted))
    names = list(programs.PROGRAMS)
    failures: list[str] = []

    def work(plan: list[str]) -> None:
        try:
            import flambeau as torch

            for name in plan:
                programs.check(torch, name, int(rows), wanted[rows][name])
        except BaseException:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(rng.sample(names, len(names)),), daemon=True) for _ in range(rng.randint(1, 3))]
    for thread in threads:
        thread.start()
    while not _is_loaded("flambeau.core.late"):
        time.sleep(0.0001)  # no package can know of forks before its first lines have run
    for _ in range(forks):
        time.sleep(rng.expovariate(1 / 0.05))
        _fork(rng.sample(names, 2), rows, wanted)
    for thread in threads:
        thread.join(trials.LIMIT)
    assert not failures, failures[0]
    assert not any(thread.is_alive() for thread in threads), "a thread of the parent hangs"
    return {"forks": forks}


def _is_loaded(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def _fork(plan: list[str], rows: str, wanted: dict[str, dict[str, Any]]) -> None:
    """A child that runs programs.

    Raises:
        AssertionError: it hangs, or fails.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            import flambeau as torch

            for name in plan:
                programs.check(torch, name, int(rows), wanted[rows][name])
            status = 0
        except BaseException:
            os.write(theirs, traceback.format_exc()[-4000:].encode())
        finally:
            os._exit(status)
    os.close(theirs)
    try:
        if not select.select([ours], [], [], ANSWER)[0]:
            os.kill(child, signal.SIGABRT)  # faulthandler shows where
            os.waitpid(child, 0)
            raise AssertionError(f"a child hangs in {plan}")
        text = os.read(ours, 1 << 16).decode()
        _, status = os.waitpid(child, 0)
        assert not status, f"a child ended with {status}: {text}"
    finally:
        os.close(ours)
