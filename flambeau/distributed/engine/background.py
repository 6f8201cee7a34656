"""The lane of a group's thread, which shares a core with the computations of the process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..errors import DistBackendError
from .lane import Lane

__all__ = ["BackgroundLane"]


def _is_crowded(size: int) -> bool:
    """Whether a machine has more ranks than cores, as far as the environment tells."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(size, int(os.environ.get("LOCAL_WORLD_SIZE", size))) > cores


class BackgroundLane(Lane):
    """Waits on another lane's communicator, asleep, and works with the other ranks without the interpreter.

    Each look at a request takes the interpreter's lock from the thread that computes, and MPI makes no progress between looks. So for
    large arrays it looks now and then until all ranks are there, at a barrier, and then waits inside of MPI, where nobody waits for a
    rank that is not there. Where there are more ranks than cores, that would keep the core that another rank needs: there it looks, as
    for small arrays.

    Args:
        front: the lane of the threads that call.
    """

    sleepless = 0.0

    def __init__(self, front: Lane) -> None:
        self.front = front
        super().__init__(front.MPI, front.communicator, front.timeout)
        self._abandoned = front._abandoned
        self.is_crowded = _is_crowded(self.size)

    @property
    def broken(self) -> DistBackendError | None:
        return self.front.broken

    @broken.setter
    def broken(self, error: DistBackendError | None) -> None:
        self.front.broken = error

    def large(self, start: Callable[[], Any], kept: Any) -> None:
        self.barrier()
        request = start()
        if self.is_crowded:
            self.wait(request, kept)
        else:
            request.Wait()
