"""Forks at random times while other threads import the package, find kernels and run them, or multiply, train and load all the time.

The child computes, too. Products come from all libraries that there are: NumPy's and SciPy's wheels each bring a BLAS with its own locks.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

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


def multiply(torch: Any, side: int) -> None:
    """Products and factorisations by NumPy itself, by SciPy, by the pool, and of many small ones."""
    import scipy.linalg

    a = np.eye(side, dtype=np.float32) * 2 + np.float32(0.25)
    assert np.isfinite(np.dot(a, a)).all() and np.isfinite(a.astype(np.float64) @ a).all()
    assert np.linalg.eigvalsh(a[:60, :60]).min() > 1.9
    assert np.isfinite(scipy.linalg.lu(a[:80, :80])[2]).all()
    x = torch.from_numpy(a)
    assert torch.isfinite(x @ x).all() and torch.isfinite(torch.linalg.inv(x[:90, :90])).all()
    assert torch.isfinite(torch.bmm(x[None, :30, :30], x[None, :30, :30])).all()


def _dot(torch: Any, side: int) -> None:
    a = np.ones((side, side), np.float32)
    assert np.dot(a, a)[0, 0] == side


def _train(torch: Any, side: int) -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(side, side), torch.nn.ReLU(), torch.nn.Linear(side, 10))
    optimizer = torch.optim.Adam(layers.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        layers(torch.ones(64, side)).square().mean().backward()
        optimizer.step()


def _load(torch: Any, side: int) -> None:
    data = torch.utils.data.TensorDataset(torch.ones(64, side))
    for method in ("thread", "process"):
        loader = torch.utils.data.DataLoader(data, 16, num_workers=1, worker_method=method)
        assert sum((x @ x.t()).sum().item() for (x,) in loader) == 4 * 16 * 16 * side


BUSY = (_dot, multiply, multiply, _train, _load)  # what five threads do


def beside_products(seed: int, forks: int) -> dict[str, Any]:
    """``forks`` children of a process in which five threads multiply, train and load without a pause; how long the forks waited."""
    import flambeau as torch

    rng = random.Random(seed)
    side = rng.choice((48, 130, 300))
    failures: list[str] = []
    done, waits, ending = [0] * len(BUSY), [0.0], False
    multiply(torch, side)

    def work(number: int) -> None:
        try:
            while not ending:
                BUSY[number](torch, side)
                done[number] += 1
        except BaseException:
            failures.append(traceback.format_exc())

    def child() -> None:
        multiply(torch, side)
        _train(torch, side)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(BUSY))]
    for thread in threads:
        thread.start()
    for _ in range(forks):
        time.sleep(rng.expovariate(1 / 0.02))
        waits.append(_forked(child, f"beside {done}"))
    ending = True
    for thread in threads:
        thread.join(trials.LIMIT)
    assert not failures, failures[0]
    assert not any(thread.is_alive() for thread in threads), "a thread of the parent hangs"
    return {"forks": forks, "rounds": sum(done), "milliseconds waited": int(1000 * sum(waits)), "longest": int(1000 * max(waits))}


def _is_loaded(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def _fork(plan: list[str], rows: str, wanted: dict[str, dict[str, Any]]) -> None:
    """A child that runs programs.

    Raises:
        AssertionError: it hangs, or fails.
    """

    def run() -> None:
        import flambeau as torch

        for name in plan:
            programs.check(torch, name, int(rows), wanted[rows][name])

    _forked(run, f"in {plan}")


def _forked(run: Callable[[], None], where: str) -> float:
    """Run something in a child; how many seconds the fork took.

    Raises:
        AssertionError: it hangs, or fails.
    """
    ours, theirs = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        status = 1
        try:
            run()
            status = 0
        except BaseException:
            os.write(theirs, traceback.format_exc()[-4000:].encode())
        finally:
            os._exit(status)
    took = time.monotonic() - began
    os.close(theirs)
    try:
        if not select.select([ours], [], [], ANSWER)[0]:
            os.kill(child, signal.SIGABRT)  # faulthandler shows where
            os.waitpid(child, 0)
            raise AssertionError(f"a child hangs {where}")
        text = os.read(ours, 1 << 16).decode()
        _, status = os.waitpid(child, 0)
        assert not status, f"a child ended with {status}: {text}"
    finally:
        os.close(ours)
    return took
