"""The lane of a group's thread, which shares a core with the computations of the process."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .lane import Lane, as_bytes

__all__ = ["BackgroundLane"]

_LARGE = 1 << 18  # bytes from which on the ranks meet first


def _is_crowded(size: int) -> bool:
    """Whether a machine has more ranks than cores, as far as the environment tells."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(size, int(os.environ.get("LOCAL_WORLD_SIZE", size))) > cores


class BackgroundLane(Lane):
    """Waits asleep for the other ranks, and works with them without the interpreter.

    Each look at a request takes the interpreter's lock from the thread that computes, and MPI makes no progress between looks. So for
    large arrays the ranks meet first, at a barrier that each looks at now and then; what follows is one blocking call, in which nobody
    waits for a rank that is not there. Where there are more ranks than cores, a blocking call would keep the core that another rank needs:
    there they look, as for small arrays.
    """

    def __init__(self, MPI: Any, communicator: Any, timeout: float) -> None:
        super().__init__(MPI, communicator, timeout, patient=True)
        self.large = 1 << 62 if _is_crowded(self.size) else _LARGE

    def all_reduce(self, array: np.ndarray, op: Any) -> None:
        if array.nbytes < self.large:
            super().all_reduce(array, op)
        else:
            self.barrier()
            self.communicator.Allreduce(self.in_place, array, op)

    def reduce_scatter(self, send: np.ndarray, receive: np.ndarray, op: Any) -> None:
        if send.nbytes < self.large:
            super().reduce_scatter(send, receive, op)
        else:
            self.barrier()
            self.communicator.Reduce_scatter_block(send, receive, op)

    def all_gather(self, send: np.ndarray, receive: np.ndarray) -> None:
        if receive.nbytes < self.large:
            super().all_gather(send, receive)
        else:
            self.barrier()
            self.communicator.Allgather(as_bytes(send), as_bytes(receive))

    def broadcast(self, array: np.ndarray, root: int) -> None:
        if array.nbytes < self.large:
            super().broadcast(array, root)
        else:
            self.barrier()
            self.communicator.Bcast(as_bytes(array), root)
