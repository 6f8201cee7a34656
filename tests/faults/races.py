"""Threads that race for first uses, with a switch interval of a microsecond: each gets the right results."""

from __future__ import annotations

import random
import threading
import traceback
from typing import Any

from tests.helpers.threads import in_threads, switched_often

from . import programs, trials


def trial(seed: int, wanted: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Several threads run programs for the first time, some the same one and some others, small and large."""
    rng = random.Random(seed)
    count = rng.randint(2, 6)
    rows = rng.choice(list(wanted))
    names = rng.sample(list(programs.PROGRAMS), rng.randint(1, 4))
    plans = [rng.sample(names, len(names)) if rng.random() < 0.5 else list(names) for _ in range(count)]
    start, failures = threading.Barrier(count), []

    def work(plan: list[str]) -> None:
        try:
            start.wait(trials.LIMIT)
            import flambeau as torch

            for name in plan:
                programs.check(torch, name, int(rows), wanted[rows][name])
        except BaseException:
            failures.append(traceback.format_exc())

    with switched_often():
        in_threads(count, lambda number: work(plans[number]))
    import flambeau as torch

    assert not failures, f"{len(failures)} of {count} threads, {names}, {rows} rows:\n{failures[0]}"
    for name in names:
        programs.check(torch, name, int(rows), wanted[rows][name])
        assert torch.add is torch.add and torch.Tensor.add is torch.add
    state = programs.state()
    return {"threads": count, "state": {key: state[key] for key in ("modes", "grad")}}
