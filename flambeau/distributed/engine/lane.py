"""Collectives over arrays on one communicator: started without blocking, then looked at until they are done.

A loop of looks takes no longer than MPI's own blocking calls, and can do what they cannot: end at a timeout, let signals through, and give
way. A rank that waits yields its core between any two looks (``sched_yield``), so that more ranks than cores run well, and sleeps when the
wait is long.

What is called on MPI depends on the operation and its size alone, not on who waits and how: so ranks meet of which one waits and another
has its group's thread wait (``background.py``).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import watching
from ..errors import DistBackendError

__all__ = ["LARGE", "Alone", "Lane"]

LARGE = 1 << 18  # bytes from which on a barrier goes before an operation

_yield = getattr(os, "sched_yield", lambda: time.sleep(0))
_LOOKS = 64  # between two looks at the clock
_LAST_LOOKS = 200  # when another rank is lost: what that one sent before may be here
_SLEEPLESS = 0.002  # seconds of waiting before it sleeps between looks


def as_bytes(array: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


class _Both:
    """Two requests as one."""

    __slots__ = ("first", "second")

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second

    def Test(self) -> bool:
        return self.second.Test() and self.first.Test()


class Lane:
    """A communicator with waiting.

    Args:
        communicator: the group's.
        timeout: seconds that an operation may take.
    """

    sleepless = _SLEEPLESS

    def __init__(self, MPI: Any, communicator: Any, timeout: float) -> None:
        self.MPI, self.communicator, self.timeout = MPI, communicator, timeout
        self.rank, self.size = communicator.rank, communicator.size
        self.doing, self.count = "", 0
        self.members: Sequence[int] = ()  # ranks among all, of which the watcher tells
        self.broken: DistBackendError | None = None
        self._abandoned: list[Any] = []
        self.in_place = MPI.IN_PLACE

    # -- waiting ----------------------------------------------------------------------------------------------------------
    def wait(self, request: Any, kept: Any = None, timeout: float | None = None, name: str | None = None) -> None:
        """Look at a request until it is done.

        Args:
            request: MPI's.
            kept: the arrays that it uses, which stay where they are even when it never ends.
            timeout: seconds; the lane's when None.
            name: of the operation, for errors.
        """
        look = request.Test
        for _ in range(_LOOKS):
            if look():
                return
            _yield()
        limit = self.timeout if timeout is None else timeout
        watcher = watching.current()
        if watcher is not None:
            watcher.enter(name or self.doing, self.count, limit, () if name else self.members)
        begin, pause, last_looks = time.monotonic(), 2e-5, _LAST_LOOKS
        try:
            while not look():
                waited = time.monotonic() - begin
                if watcher is not None and watcher.error:
                    last_looks -= 1
                    if not last_looks:
                        self.broken = DistBackendError(watcher.error)
                        raise self.broken
                    continue
                if waited > limit:
                    late = self._late(name or self.doing, limit)
                    self.broken = self.broken if name else late  # the ranks no longer agree about which collective is next
                    raise late
                if waited > self.sleepless:
                    time.sleep(pause)
                    pause = min(1.1 * pause, 1e-3)
                else:
                    _yield()
        except BaseException:
            self._abandoned.append((request, kept))  # MPI may still write there
            raise
        finally:
            if watcher is not None:
                watcher.leave()

    def _late(self, name: str, limit: float) -> DistBackendError:
        return DistBackendError(
            f"rank {self.rank} of {self.size} on {socket.gethostname()}: {name} did not finish within {limit:g} s. "
            "Another rank has not come to it, has come to something else, or has ended" + self._others()
        )

    def _others(self) -> str:
        watcher = watching.current()
        told = "" if watcher is None else watcher.others(self.members)
        return f". {told}" if told else ""

    # -- collectives ------------------------------------------------------------------------------------------------------
    def barrier(self, timeout: float | None = None) -> None:
        self.wait(self.communicator.Ibarrier(), None, timeout)

    def large(self, start: Callable[[], Any], kept: Any) -> None:
        """A large operation, which follows a barrier."""
        self.wait(_Both(self.communicator.Ibarrier(), start()), kept)

    def all_reduce(self, array: np.ndarray, op: Any) -> None:
        if array.nbytes < LARGE:
            self.wait(self.communicator.Iallreduce(self.in_place, array, op), array)
        else:
            self.large(lambda: self.communicator.Iallreduce(self.in_place, array, op), array)

    def reduce(self, array: np.ndarray, op: Any, root: int) -> None:
        send, receive = (self.in_place, array) if self.rank == root else (array, None)
        self.wait(self.communicator.Ireduce(send, receive, op, root), array)

    def reduce_scatter(self, send: np.ndarray, receive: np.ndarray, op: Any) -> None:
        """Equal parts of ``send``, one for each rank, reduced."""
        if send.nbytes < LARGE:
            self.wait(self.communicator.Ireduce_scatter_block(send, receive, op), (send, receive))
        else:
            self.large(lambda: self.communicator.Ireduce_scatter_block(send, receive, op), (send, receive))

    def reduce_scatter_uneven(self, send: np.ndarray, receive: np.ndarray, counts: Sequence[int], op: Any) -> None:
        """Parts of ``send`` of so many elements, one for each rank, reduced."""
        self.wait(self.communicator.Ireduce_scatter(send, receive, list(counts), op), (send, receive))

    def broadcast(self, array: np.ndarray, root: int) -> None:
        if array.nbytes < LARGE:
            self.wait(self.communicator.Ibcast(as_bytes(array), root), array)
        else:
            self.large(lambda: self.communicator.Ibcast(as_bytes(array), root), array)

    def all_gather(self, send: np.ndarray, receive: np.ndarray) -> None:
        if receive.nbytes < LARGE:
            self.wait(self.communicator.Iallgather(as_bytes(send), as_bytes(receive)), (send, receive))
        else:
            self.large(lambda: self.communicator.Iallgather(as_bytes(send), as_bytes(receive)), (send, receive))

    def gather(self, send: np.ndarray, receive: np.ndarray | None, root: int) -> None:
        into = None if receive is None else as_bytes(receive)
        self.wait(self.communicator.Igather(as_bytes(send), into, root), (send, receive))

    def scatter(self, send: np.ndarray | None, receive: np.ndarray, root: int) -> None:
        parts = None if send is None else as_bytes(send)
        self.wait(self.communicator.Iscatter(parts, as_bytes(receive), root), (send, receive))

    def all_to_all(self, send: np.ndarray, receive: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> None:
        """Parts of ``send`` to the ranks, of so many bytes each; what they send comes into ``receive``."""
        parts = [as_bytes(send), list(sent), self.MPI.BYTE], [as_bytes(receive), list(received), self.MPI.BYTE]
        self.wait(self.communicator.Ialltoallv(*parts), (send, receive))

    def all_gather_uneven(self, send: np.ndarray, receive: np.ndarray, counts: Sequence[int]) -> None:
        """``send`` of each rank, of so many bytes, one after the other."""
        self.wait(self.communicator.Iallgatherv(as_bytes(send), [as_bytes(receive), list(counts), self.MPI.BYTE]), (send, receive))

    def gather_uneven(self, send: np.ndarray, receive: np.ndarray | None, counts: Sequence[int], root: int) -> None:
        into = None if receive is None else [as_bytes(receive), list(counts), self.MPI.BYTE]
        self.wait(self.communicator.Igatherv(as_bytes(send), into, root), (send, receive))

    def scatter_uneven(self, send: np.ndarray | None, receive: np.ndarray, counts: Sequence[int], root: int) -> None:
        parts = None if send is None else [as_bytes(send), list(counts), self.MPI.BYTE]
        self.wait(self.communicator.Iscatterv(parts, as_bytes(receive), root), (send, receive))

    def close(self) -> None:
        """Give the communicator back, unless something is still under way on it."""
        if not self._abandoned and self.broken is None:
            self.communicator.Free()


class Alone:
    """The lane of a group of one, without MPI: what is sent is received."""

    rank, size, in_place = 0, 1, None
    broken = None
    MPI = None

    def __init__(self, timeout: float) -> None:
        self.timeout, self.doing, self.count = timeout, "", 0
        self.members: Sequence[int] = ()

    def barrier(self, timeout: float | None = None) -> None:
        pass

    def all_reduce(self, array: np.ndarray, op: Any) -> None:
        pass

    def reduce(self, array: np.ndarray, op: Any, root: int) -> None:
        pass

    def broadcast(self, array: np.ndarray, root: int) -> None:
        pass

    def reduce_scatter(self, send: np.ndarray, receive: np.ndarray, op: Any) -> None:
        _copy(send, receive)

    def reduce_scatter_uneven(self, send: np.ndarray, receive: np.ndarray, counts: Sequence[int], op: Any) -> None:
        _copy(send, receive)

    def all_gather(self, send: np.ndarray, receive: np.ndarray) -> None:
        _copy(send, receive)

    def gather(self, send: np.ndarray, receive: np.ndarray | None, root: int) -> None:
        _copy(send, receive)

    def scatter(self, send: np.ndarray | None, receive: np.ndarray, root: int) -> None:
        _copy(send, receive)

    def all_to_all(self, send: np.ndarray, receive: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> None:
        _copy(send, receive)

    def all_gather_uneven(self, send: np.ndarray, receive: np.ndarray, counts: Sequence[int]) -> None:
        _copy(send, receive)

    def gather_uneven(self, send: np.ndarray, receive: np.ndarray | None, counts: Sequence[int], root: int) -> None:
        _copy(send, receive)

    def scatter_uneven(self, send: np.ndarray | None, receive: np.ndarray, counts: Sequence[int], root: int) -> None:
        _copy(send, receive)

    def close(self) -> None:
        pass


def _copy(send: np.ndarray | None, receive: np.ndarray | None) -> None:
    if send is not None and receive is not None:
        as_bytes(receive)[:] = as_bytes(send)
