"""Counts of objects: whether code that counts references itself loses some, or keeps what it should not, also where allocations fail."""

from __future__ import annotations

import gc
import itertools
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from flambeau.kernels.fastpath import pools

__all__ = ["Counts", "assert_counted", "collecting", "end_by_signals", "fail_everywhere", "without_pools"]

Things = Mapping[str, Any] | Sequence[Any]


class Counts:
    """References to some things, as many as there are now.

    Args:
        most: how far they may be off by accident.
    """

    def __init__(self, things: Things, most: int):
        self._named = dict(things) if isinstance(things, Mapping) else dict(enumerate(things))
        self._most = most
        gc.collect()
        self._before, self._blocks = self._now(), sys.getallocatedblocks()

    def _now(self) -> dict[Any, int]:
        return {name: sys.getrefcount(thing) for name, thing in self._named.items()}

    def changed(self) -> dict[Any, int]:
        """Differences that are no accident; objects that are immortal have none."""
        gc.collect()
        differences = {name: count - self._before[name] for name, count in self._now().items()}
        return {name: more for name, more in differences.items() if abs(more) > self._most}

    def leaked(self) -> dict[Any, int]:
        """The same, with blocks of memory."""
        changed, more = self.changed(), sys.getallocatedblocks() - self._blocks
        return {**changed, "blocks": more} if more >= 200 else changed


@contextmanager
def without_pools() -> Iterator[None]:
    """Within the block every object that machine code makes is allocated: no memory of others is taken again."""
    before = pools.POOLS[:, [pools.HEAD, pools.COUNT]].copy()
    pools.POOLS[:, pools.HEAD], pools.POOLS[:, pools.COUNT] = 0, pools.MOST
    try:
        yield
    finally:
        pools.POOLS[:, [pools.HEAD, pools.COUNT]] = before


@contextmanager
def collecting(*generations: int) -> Iterator[None]:
    """Within the block the collector starts at every allocation, or after so many."""
    before = gc.get_threshold()
    with without_pools():
        gc.set_threshold(*(generations or (1, 1, 1)))
        try:
            yield
        finally:
            gc.set_threshold(*before)


def assert_counted(call: Callable[[], Any], things: Things, most: int, times: int = 2000) -> None:
    """So many calls lose and keep no object.

    Of some rounds of calls the first makes what stays; lists of views grow in some of the others, and shrink in the next.
    """
    for round_ in range(8):
        counts = Counts(things, most)
        for _ in range(times):
            call()
        leaked = counts.leaked()
        if round_ and not leaked:
            return
    assert not leaked


def fail_everywhere(
    call: Callable[..., Any], things: Things, most: int, depth: int = 40, times: int = 4000, prepare: Callable[[], tuple[Any, ...]] = tuple
) -> int:
    """Let one allocation after the other fail, up to the one at ``depth``; objects must be counted right afterwards.

    Args:
        prepare: makes the arguments of each call.
    Returns:
        How many of the calls failed.
    """
    limits = pytest.importorskip("_testcapi", reason="this Python was built without its tests")
    counts, failed = Counts(things, most), 0
    for after in itertools.islice(itertools.cycle(range(depth)), times):
        given = prepare()
        pools.SHAPES[:, 1] = -1 % (1 << 64)  # that many sizes has no shape
        with without_pools():
            limits.set_nomemory(after, after + 1)
            try:
                call(*given)
            except MemoryError:
                failed += 1
            finally:
                limits.remove_mem_hooks()
    assert not counts.changed()
    return failed


def end_by_signals(call: Callable[[], Any], things: Things, most: int) -> None:
    """Let handlers of signals raise within calls, which ends them as it ends Python, and loses no object.

    What hypothesis has the collector of circles call is put aside: what a handler raises there, Python ignores.
    """
    signals: list[None] = []
    aside, gc.callbacks[:] = gc.callbacks[:], []

    class Ended(Exception):
        pass

    def handler(*_: Any) -> None:
        signals.append(None)
        raise Ended

    counts, old = Counts(things, most), signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(60):
            with pytest.raises(Ended):
                # once more where Python has to ignore it, as in the callback of a weak reference
                signal.setitimer(signal.ITIMER_REAL, 0.0015, 0.1)
                while True:
                    call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        gc.callbacks[:] = aside
    assert len(signals) < 66
    assert not counts.changed()
