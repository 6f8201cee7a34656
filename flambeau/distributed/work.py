"""Operations of a process group that are under way. Source: torch.distributed.Work."""

from __future__ import annotations

import datetime
import queue
import threading
from typing import TYPE_CHECKING, Any

from .errors import DistBackendError

if TYPE_CHECKING:
    from ..facades.futures import Future

__all__ = ["CoalescedWork", "CollectiveWork", "MessageWork", "Work", "Works"]

_futures = threading.Lock()
_serving = threading.local()  # in a group's thread: the ``works`` that it does


class Work:
    """An operation that was started and may not be done.

    Args:
        tensors: what it writes.
    Source: torch.distributed.Work.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> work = torch.distributed.all_reduce(torch.ones(2), async_op=True)
        >>> work.wait(), work.is_success()
        (True, True)
        >>> work.get_future().value()
        [tensor([1., 1.])]
        >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, tensors: list[Any]) -> None:
        self._tensors = tensors
        self._error: BaseException | None = None
        self._done = False
        self._future: Future[Any] | None = None

    def is_completed(self) -> bool:
        """Whether it is done, with or without success."""
        return self._done

    def is_success(self) -> bool:
        """Whether it is done, with success."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """The error with which it ended, None while there is none."""
        return self._error

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Wait until it is done.

        Args:
            timeout: for how long at most; the group's when None or 0.
        Returns: True.
        Raises:
            DistBackendError: it is not done by then, or MPI met an error.
        """
        raise NotImplementedError(f"{type(self).__name__}.wait is not supported")

    def synchronize(self) -> None:
        """As ``wait``: results are on the host."""
        self.wait()

    def block_current_stream(self) -> None:
        """As ``wait``: results are on the host."""
        self.wait()

    def result(self) -> list[Any]:
        """The tensors that it has written, once it is done."""
        self.wait()
        return self._tensors

    def source_rank(self) -> int:
        """The rank from which a message came.

        Raises:
            RuntimeError: no message was received.
        """
        raise RuntimeError("sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call.")

    def get_future(self) -> Future[Any]:
        """A future of the list of the tensors that it writes."""
        from ..facades.futures import Future

        with _futures:
            if self._future is None:
                self._future = Future()
                self._future._before_wait = self._help
                ended = self._done
            else:
                ended = False
        if ended:
            self._tell()
        return self._future

    def _help(self) -> None:
        """Do what has to be done here before this can end: nothing, but in the thread that would have to do it."""

    def _finish(self, error: BaseException | None) -> None:
        self._error = error
        with _futures:
            self._done = True
            told = self._future is not None
        if told:
            self._tell()

    def _tell(self) -> None:
        assert self._future is not None
        if self._error is None:
            self._future.set_result(self._tensors)
        else:
            self._future.set_exception(self._error if isinstance(self._error, Exception) else RuntimeError(repr(self._error)))


def seconds(timeout: Any, default: float) -> float:
    """Seconds of a ``timedelta`` or a number; the default for none and for 0."""
    if timeout is None:
        return default
    given = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else float(timeout)
    return given or default


class Works:
    """Collectives of a group that its thread does, one after the other.

    Args:
        lane: on which it does them.
        name: the thread's.
    Attributes:
        under_way: those that were put here and are not done; a call that does not wait for this thread must find none.
        turn: held by the thread that uses the communicator.
    """

    def __init__(self, lane: Any, name: str) -> None:
        self.lane, self.name = lane, name
        self.turn = threading.RLock()  # objects that are pickled meanwhile may call collectives
        self.under_way: set[CollectiveWork] = set()
        self._queue: queue.SimpleQueue[CollectiveWork | None] = queue.SimpleQueue()
        self._starting, self._started = threading.Lock(), False

    def put(self, work: CollectiveWork) -> None:
        """Have a collective done after those before it."""
        self.under_way.add(work)
        self._queue.put(work)
        with self._starting:
            if not self._started:
                threading.Thread(target=self._serve, daemon=True, name=self.name).start()
                self._started = True

    def _serve(self) -> None:
        _serving.works = self
        while (work := self._queue.get()) is not None:
            work.run()
            del work

    def is_served_here(self) -> bool:
        """Whether this is the thread that does them."""
        return getattr(_serving, "works", None) is self

    def do_up_to(self, last: CollectiveWork) -> None:
        """Do in this thread, which serves, what is queued until that one is done, or the group is closing."""
        while not last._done:
            work = self._queue.get()
            if work is None:
                self._queue.put(None)
                return
            work.run()

    def close(self, timeout: float) -> None:
        """End the thread after what is queued."""
        try:
            if self.under_way:
                CollectiveWork("closing", lambda lane: None, [], timeout, self).wait()
        finally:
            self._queue.put(None)


class CollectiveWork(Work):
    """A collective that the group's thread does. Source: torch.distributed.Work."""

    def __init__(self, name: str, call: Any, tensors: list[Any], timeout: float, works: Works, number: int = 0) -> None:
        super().__init__(tensors)
        self.name, self.call, self._timeout, self.works, self.number = name, call, timeout, works, number
        self._ended = threading.Lock()
        self._ended.acquire()
        works.put(self)

    def limit(self, seconds: float) -> None:
        """Wait that long for it where ``wait`` is not told."""
        self._timeout = seconds

    def run(self) -> None:
        """Do it, in the group's thread."""
        error: BaseException | None = None
        lane = self.works.lane
        try:
            with self.works.turn:
                if lane.broken is not None:
                    raise lane.broken
                lane.doing, lane.count = self.name, self.number
                self.call(lane)
        except BaseException as raised:
            error = raised
        self.call = None
        self.works.under_way.discard(self)  # before callbacks, which may call what does not wait for this thread
        self._finish(error)
        self._ended.release()

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Wait until it is done.

        Args:
            timeout: for how long at most; the group's when None or 0.
        Returns: True.
        Raises:
            DistBackendError: it is not done by then, or MPI met an error.
        """
        self._help()
        if not (self._done and self.works.is_served_here()):  # else a callback of its own waits for it
            # The thread raises at the group's timeout; a second later it is known that it cannot.
            limit = seconds(timeout, self._timeout + 1.0)
            if not self._ended.acquire(timeout=min(limit, threading.TIMEOUT_MAX)):
                raise DistBackendError(f"{self.name} did not finish within {limit:g} s: another rank has not come to it, or has ended")
            self._ended.release()
        if self._error is not None:
            raise self._error
        return True

    def _help(self) -> None:
        """A future's callback that waits in the group's thread would wait for itself: it does what is queued, up to this work."""
        if self.works.is_served_here():
            self.works.do_up_to(self)


class MessageWork(Work):
    """A message that is sent or received.

    Args:
        request: MPI's.
        lane: the lane on which it is.
        name: for errors.
        arrays: what it uses.
        arrived: called with MPI's status when it is done.
    Source: torch.distributed.Work.
    """

    def __init__(self, request: Any, lane: Any, name: str, tensors: list[Any], arrays: Any, arrived: Any = None) -> None:
        super().__init__(tensors)
        self.request, self.lane, self.name, self.arrays, self.arrived = request, lane, name, arrays, arrived
        self._source = -1
        self._once = threading.RLock()

    def is_completed(self) -> bool:
        """Whether it is done, with or without success."""
        if not self._done:
            with self._once:
                status = self.lane.MPI.Status()
                if not self._done and self._attempt(lambda: self.request.Test(status)):
                    self._end(status)
        return self._done

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Wait until it is done.

        Args:
            timeout: for how long at most; the group's when None or 0.
        Returns: True.
        Raises:
            DistBackendError: it is not done by then, or MPI met an error.
        """
        with self._once:
            if not self._done:
                looked = _Looked(self.request, self.lane.MPI.Status())
                self._attempt(lambda: self.lane.wait(looked, self.arrays, seconds(timeout, self.lane.timeout), self.name))
                if not self._done:
                    self._end(looked.status)
        if self._error is not None:
            raise self._error
        return True

    def source_rank(self) -> int:
        """The rank from which the message came, in the group.

        Raises:
            RuntimeError: no message was received.
        """
        if self.arrived is None:
            return super().source_rank()
        return self._source

    def get_future(self) -> Future[Any]:
        """A future of the list of the tensors, for which a thread waits from now on."""
        if self._future is None and not self._done:
            threading.Thread(target=self._wait_quietly, daemon=True, name=self.name).start()
        return super().get_future()

    def _wait_quietly(self) -> None:
        try:
            self.wait()
        except Exception as error:
            if not self._done:
                self._finish(error)

    def _attempt(self, look: Any) -> Any:
        try:
            return look()
        except self.lane.MPI.Exception as error:
            self._finish(RuntimeError(f"{self.name}: {error}"))
            return None

    def _end(self, status: Any) -> None:
        error = None
        if self.arrived is not None:
            self._source = status.Get_source()
            try:
                self.arrived(status)
            except RuntimeError as raised:
                error = raised
        self._finish(error)


class _Looked:
    """A request whose looks fill a status."""

    def __init__(self, request: Any, status: Any) -> None:
        self.request, self.status = request, status

    def Test(self) -> bool:
        return self.request.Test(self.status)


class CoalescedWork(Work):
    """Several operations as one. Source: torch.distributed.Work."""

    def __init__(self, works: list[Work]) -> None:
        super().__init__([tensor for work in works for tensor in work._tensors])
        self.works = works

    def limit(self, seconds: float) -> None:
        """Wait that long for each where ``wait`` is not told."""
        for work in self.works:
            if isinstance(work, CollectiveWork | CoalescedWork):
                work.limit(seconds)

    def is_completed(self) -> bool:
        """Whether all are done."""
        return all(work.is_completed() for work in self.works)

    def exception(self) -> BaseException | None:
        """The first error of any."""
        return next((error for work in self.works if (error := work.exception()) is not None), None)

    def get_future(self) -> Future[Any]:
        """A future of the list of all tensors."""
        from ..facades.futures import collect_all

        return collect_all([work.get_future() for work in self.works]).then(self._tensors_of)

    def _tensors_of(self, done: Future[list[Future[Any]]]) -> list[Any]:
        for each in done.value():
            each.value()  # raises what went wrong
        return self._tensors

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Wait until all are done.

        Args:
            timeout: for how long at most for each; the group's when None or 0.
        Returns: True.
        """
        for work in self.works:
            work.wait(timeout)
        if not self._done:
            self._finish(None)
        return True
