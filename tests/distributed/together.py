"""Checks that several processes make together: all of a module in one start, as starting costs more than most checks.

A module of checks has functions ``check_*(rank, world)``, which every rank calls in one order. What each raised is written to a file; a
test for each check then looks at what its ranks wrote.
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import traceback
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import flambeau as torch

TIMEOUT = int(os.environ.get("SECONDS_OF_CHECKS", 30))  # seconds for a collective


def names_of(module: str) -> list[str]:
    return [name for name in vars(importlib.import_module(module)) if name.startswith("check_")]


def _rank(rank: int, world: int, module: str, place: str, names: list[str]) -> None:
    dist = torch.distributed
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=TIMEOUT)
    dist.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=world, timeout=limit)
    checks = importlib.import_module(module)
    raised: dict[str, str] = {}
    for name in names:
        try:
            torch.manual_seed(1)
            getattr(checks, name)(rank, world)
            dist.barrier()
        except BaseException:
            raised[name] = traceback.format_exc()
    Path(place, f"rank{rank}.json").write_text(json.dumps(raised))
    dist.destroy_process_group()


@cache
def raised_in(module: str, world: int, only: str | None = None) -> list[dict[str, str]]:
    """What each rank raised, by the checks' names; all checks run at the first call."""
    names = [name for name in names_of(module) if only in (None, name)]
    with TemporaryDirectory() as place:
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        try:
            torch.multiprocessing.spawn(_rank, (world, module, place, names), nprocs=world)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        return [json.loads(Path(place, f"rank{rank}.json").read_text()) for rank in range(world)]


def assert_passed(module: str, name: str, world: int = 2) -> None:
    failed = {rank: raised[name] for rank, raised in enumerate(raised_in(module, world)) if name in raised}
    assert not failed, "\n".join(f"rank {rank}:\n{text}" for rank, text in failed.items())


def close(a: Any, b: Any, tolerance: float) -> None:
    """Check that two tensors differ by at most this, relative to the largest element."""
    a, b = a.detach().double(), b.detach().double()
    assert a.shape == b.shape, (a.shape, b.shape)
    assert float((a - b).abs().max()) <= tolerance * max(1.0, float(b.abs().max())), (a, b)
