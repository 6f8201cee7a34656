"""The part of a worker that calls others and is called: connections, threads, answers, and the table of what others refer to.

    caller                                      called
    pickles function and arguments   -- CALL -->  a thread of the pool runs it
    future                           <-- DONE --  pickled result, or type and text of the exception

One connection leads to each worker that this one calls; a thread reads its answers. One thread reads each connection that others opened.
What is quick (counting references) is done in that thread, what may take long in the pool.

References: the owner keeps a value as long as there are users, counted by fork: each ``RRef`` in another process is one. A fork is
entered with the owner before its ``RRef`` is sent anywhere, and taken out when that object goes.
"""

from __future__ import annotations

import itertools
import numbers
import pickle
import queue
import socket
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...facades.futures import Future
from ..autograd import _contexts as contexts
from ..errors import DistError, DistNetworkError
from ..stores import Store, secret as auth
from ..watching import Watcher
from .connection import Connection, connect, welcome
from .packing import PLAIN, dumps, loads, packed

__all__ = ["Agent", "Owned", "WorkerInfo", "agent"]

CALL, REMOTE, FETCH, ENTER, DROP, DONE, FAILED = range(7)
_NOTHING = PLAIN + pickle.dumps(None)
_STRANGERS = 1024  # connections at most that have not proved the secret
_GOODBYES = 5.0  # seconds for the others to leave the store
Key = tuple[int, int]  # a reference or a fork: the worker that made it, and its count there


@dataclass(frozen=True)
class WorkerInfo:
    """A worker's number and name.

    Args:
        id, name: the number and the name.
    Source: torch.distributed.rpc.WorkerInfo.
    Example:
        >>> WorkerInfo(id=0, name="trainer")
        WorkerInfo(id=0, name=trainer)
    """

    id: int
    name: str

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


@dataclass
class Owned:
    """A value that others refer to."""

    value: Future[Any] = field(default_factory=Future)
    forks: set[Key] = field(default_factory=set)
    local: int = 0  # RRefs in this process


class Agent:
    """One worker among others.

    Args:
        store: shared by all of them.
        me: this one.
        size: their number.
        threads: that run what others call.
        timeout: seconds that calls may take, unless they say otherwise.
    """

    def __init__(self, store: Store, me: WorkerInfo, size: int, threads: int, timeout: float) -> None:
        self.store, self.me, self.size, self.timeout = store, me, size, timeout
        self._secret = auth.of_text(auth.derive(auth.job_secret(), "calls"))
        self._lock = threading.RLock()
        self._pending: dict[int, tuple[Future[Any], float, int, float]] = {}  # by number: future, deadline, worker, seconds
        self._numbers, self._counts = itertools.count(1), itertools.count()
        self._out: dict[int, Connection] = {}
        self._connecting = [threading.Lock() for _ in range(size)]
        self._strangers: dict[socket.socket, None] = {}  # the oldest first
        self._incoming: set[Connection] = set()
        self.owned: dict[Key, Owned] = {}
        self._dropped: queue.SimpleQueue[tuple[int, Key, Key]] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(threads, "rpc")
        self._busy, self._closed = 0, threading.Event()
        self._listener = self._listen()
        self._addresses = self._meet()
        self.watcher = Watcher(store, me.id, size, "rpc", lambda message: None) if size > 1 else None
        for work in (self._accept, self._watch_the_clock, self._tell_of_dropped):
            threading.Thread(target=work, daemon=True, name="rpc").start()

    # -- meeting
    def _listen(self) -> socket.socket:
        """A socket at the address by which this process reaches the store; at the loopback where there is no telling."""
        client = getattr(getattr(self.store, "_underlying_non_prefix_store", self.store), "_client", None)
        host = "127.0.0.1"
        if client is not None:
            probe = client.connect(30.0)
            host = probe.getsockname()[0]
            probe.close()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, 0), family=family, backlog=1024)

    def _meet(self) -> dict[int, tuple[str, int]]:
        host, port = self._listener.getsockname()[:2]
        if self.store.add(f"name/{self.me.name}", 1) > 1:
            raise RuntimeError(f"RPC worker name {self.me.name} is not unique. Workers {self.me.id} and another one share the same name.")
        self.store.set(f"worker/{self.me.id}", f"{host} {port} {self.me.name}")
        told = [each.decode().split(" ", 2) for each in self.store.multi_get([f"worker/{i}" for i in range(self.size)])]
        self.workers = {name: WorkerInfo(i, name) for i, (_, _, name) in enumerate(told)}
        return {i: (host, int(port)) for i, (host, port, _) in enumerate(told)}

    def wait_for_all(self) -> None:
        """Wait until all can be called."""
        if self.store.add("ready", 1) == self.size:
            self.store.set("go", "1")
        self.store.wait(["go"])

    def info(self, to: Any) -> WorkerInfo:
        """A worker by its name, number or itself."""
        if isinstance(to, WorkerInfo):
            return to
        if isinstance(to, int):
            to = next((name for name, info in self.workers.items() if info.id == to), to)
        if to not in self.workers:
            raise RuntimeError(f"name:{self.me.name},rank:{self.me.id} could not find destination name {to}")
        return self.workers[to]

    def new_key(self) -> Key:
        return self.me.id, next(self._counts)

    # -- calling
    def call(self, to: Any, function: Any, args: Any, kwargs: Any, timeout: Any) -> Future[Any]:
        """A future of what a function returns in another worker; see ``rpc_async``."""
        return self.ask(self.info(to).id, CALL, packed(function, args, kwargs), seconds(timeout))

    def ask(self, to: int, code: int, what: Any, timeout: float | None = None) -> Future[Any]:
        """A future of what a worker answers.

        Args:
            to: its number.
            code, what: the request.
            timeout: seconds; 0 for no limit, the agent's when None.
        """
        limit = self.timeout if timeout is None or timeout < 0 else timeout
        data, future, number = dumps(self, what), Future[Any](), next(self._numbers)
        if (context := contexts.current()) is not None:
            context.workers.add(to)
        with self._lock:
            self._pending[number] = (future, time.monotonic() + limit if limit else float("inf"), to, limit)
        if to == self.me.id:
            self._serve(code, bytearray(data), partial(self._answer, number))
            return future
        try:
            self._connection(to).send(number, code, data)
        except OSError as error:
            self._lose(to, error)
        except DistNetworkError:
            self._pending.pop(number, None)
            raise
        return future

    def tell(self, to: int, code: int, what: Any) -> None:
        """A request without an answer, of one that may be gone."""
        with suppress(OSError, DistError, RuntimeError):
            if to == self.me.id:
                self._serve(code, bytearray(dumps(self, what)), lambda status, answer: None)
            else:
                self._connection(to).send(0, code, dumps(self, what))

    def forget(self, owner: int, key: Key, fork: Key) -> None:
        """Have the owner of a value count a fork less, soon: finalizers run anywhere, also while this thread holds a connection's lock."""
        self._dropped.put((owner, key, fork))

    def _tell_of_dropped(self) -> None:
        while not self._closed.is_set():
            with suppress(queue.Empty):
                owner, key, fork = self._dropped.get(timeout=1.0)
                self.tell(owner, DROP, (key, fork))

    def _connection(self, to: int) -> Connection:
        with self._connecting[to]:  # not the agent's lock: calls of other workers go on meanwhile
            found = self._out.get(to)
            if found is None:
                self._refuse_if_closed()
                found = connect(*self._addresses[to], self._secret, 30.0)
                self._out[to] = found
                threading.Thread(target=self._read_answers, args=(to, found), daemon=True, name="rpc").start()
                if self._closed.is_set():
                    found.close()
                self._refuse_if_closed()
            return found

    def _refuse_if_closed(self) -> None:
        if self._closed.is_set():
            raise DistNetworkError("remote calls have been shut down")

    def _read_answers(self, to: int, connection: Connection) -> None:
        try:
            while True:
                number, status, data = connection.receive()
                self._answer(number, status, data)
        except (OSError, pickle.UnpicklingError, ValueError) as error:
            self._lose(to, error)

    def _answer(self, number: int, status: int, data: bytes | bytearray) -> None:
        """Give an answer to what waits for it, if it still does."""
        with self._lock:
            entry = self._pending.pop(number, None)
        if entry is None:
            return
        future = entry[0]
        value: Any = None
        error: Exception | None = None
        try:
            value, _ = loads(data, begins=False)
            error = _exception(*value) if status == FAILED else None
        except Exception as failure:
            error = failure
        with suppress(RuntimeError):  # the time was over meanwhile
            future.set_result(value) if error is None else future.set_exception(error)

    def _lose(self, to: int, error: Exception) -> None:
        """Fail what waits for a worker whose connection broke."""
        with self._lock:
            connection = self._out.pop(to, None)
            waiting = [number for number, entry in self._pending.items() if entry[2] == to]
            futures = [self._pending.pop(number)[0] for number in waiting]
        if connection is not None:
            connection.close()
        name = next((name for name, info in self.workers.items() if info.id == to), to)
        for future in futures:
            with suppress(RuntimeError):
                future.set_exception(RuntimeError(f"RPCErr:1:worker {name} is lost: {error}"))

    def _watch_the_clock(self) -> None:
        while not self._closed.wait(0.05):
            now = time.monotonic()
            with self._lock:
                late = [(number, entry) for number, entry in self._pending.items() if entry[1] < now]
                for number, _ in late:
                    del self._pending[number]
            for _, (future, _, _, limit) in late:
                with suppress(RuntimeError):
                    told = f"RPC ran for more than set timeout ({round(1000 * limit)} ms) and will now be marked with an error"
                    future.set_exception(RuntimeError(f"RPCErr:1:{told}"))

    # -- being called
    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._strangers[sock] = None
                if len(self._strangers) > _STRANGERS:
                    oldest = next(iter(self._strangers))
                    del self._strangers[oldest]
                    with suppress(OSError):  # wakes the thread that reads it, which closes it
                        oldest.shutdown(socket.SHUT_RDWR)
            threading.Thread(target=self._read_requests, args=(sock,), daemon=True, name="rpc").start()

    def _read_requests(self, sock: socket.socket) -> None:
        connection = welcome(sock, self._secret)
        with self._lock:
            self._strangers.pop(sock, None)
        if connection is None:
            return
        self._incoming.add(connection)
        with suppress(OSError):
            while True:
                number, code, data = connection.receive()
                self._serve(code, data, self._replier(connection, number))
        self._incoming.discard(connection)

    def _replier(self, connection: Connection, number: int) -> Callable[[int, bytes], None]:
        def reply(status: int, data: bytes) -> None:
            with suppress(OSError):  # the caller is gone
                if number:
                    connection.send(number, status, data)

        return reply

    def _serve(self, code: int, data: bytearray, reply: Callable[[int, bytes], None]) -> None:
        if code in (CALL, REMOTE, FETCH):
            with self._lock:
                self._busy += 1
            self._pool.submit(self._work, code, data, reply)
            return
        (key, fork), _ = loads(data, begins=True)
        (self.enter if code == ENTER else self.drop)(key, fork)
        reply(DONE, _NOTHING)

    def _work(self, code: int, data: bytearray, reply: Callable[[int, bytes], None]) -> None:
        served: dict[int, Callable[..., None]] = {CALL: self._call, REMOTE: self._remote, FETCH: self._fetch}
        try:
            what, context = loads(data, begins=True)
            del data
            with contexts.entered(context):
                served[code](*what, reply)
        except BaseException as error:
            reply(FAILED, self._told(error))
        finally:
            with self._lock:
                self._busy -= 1

    def _told(self, error: BaseException) -> bytes:
        text = str(error)
        if not text.startswith("On WorkerInfo("):  # else it came from another worker
            text = f"On {self.me!r}:\n{error!r}\n{traceback.format_exc()}"
        try:
            return PLAIN + pickle.dumps((type(error), text))
        except Exception:  # a class that cannot be found elsewhere
            return PLAIN + pickle.dumps((RuntimeError, text))

    def _call(self, function: Any, args: Any, kwargs: Any, reply: Callable[[int, bytes], None]) -> None:
        result = function(*args, **kwargs)
        if hasattr(function, "_wrapped_async_rpc_function"):
            self._when_done(result, reply)
        else:
            reply(DONE, dumps(self, result))

    def _when_done(self, future: Future[Any], reply: Callable[[int, bytes], None]) -> None:
        if not isinstance(future, Future):
            raise TypeError(
                f"functions decorated with @rpc.async_execution must return a torch.futures.Future, got {type(future).__name__}"
            )

        context = contexts.current()

        def done(future: Future[Any]) -> None:
            try:
                with contexts.entered(context):
                    answer = dumps(self, future.value())
                reply(DONE, answer)
            except Exception as error:
                reply(FAILED, self._told(error))

        def later(future: Future[Any]) -> None:
            # In the pool: pickling a reference asks its owner, whose answer the thread that is done may have to read.
            self._pool.submit(done, future)

        future.add_done_callback(later)

    def _remote(self, key: Key, fork: Key, function: Any, args: Any, kwargs: Any, reply: Callable[[int, bytes], None]) -> None:
        owned = self.enter(key, fork)
        reply(DONE, _NOTHING)
        try:
            result = function(*args, **kwargs)
            if hasattr(function, "_wrapped_async_rpc_function"):
                result.add_done_callback(lambda future: owned.value._finish(future._value, future._error))
            else:
                owned.value.set_result(result)
        except Exception as error:
            owned.value.set_exception(_exception(*loads(self._told(error), begins=False)[0]))

    def _fetch(self, key: Key, reply: Callable[[int, bytes], None]) -> None:
        self._when_done(self.owned[key].value, reply)

    # -- references
    def enter(self, key: Key, fork: Key | None) -> Owned:
        """Count a fork of a reference that this worker owns, or (None) an RRef of this process."""
        with self._lock:
            owned = self.owned.setdefault(key, Owned())
            if fork is None:
                owned.local += 1
            else:
                owned.forks.add(fork)
            return owned

    def drop(self, key: Key, fork: Key | None) -> None:
        """Count one less; the value goes with the last."""
        with self._lock:
            owned = self.owned.get(key)
            if owned is None:
                return
            if fork is None:
                owned.local -= 1
            else:
                owned.forks.discard(fork)
            if not owned.forks and owned.local <= 0:
                del self.owned[key]

    # -- leaving
    def shutdown(self, graceful: bool, timeout: float) -> None:
        """Leave; where graceful, when no worker has anything left to do."""
        if graceful:
            self._come_together(timeout)
        self._closed.set()
        with suppress(OSError):  # or the thread that accepts would not wake
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in [*self._out.values(), *self._incoming]:
            connection.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self.watcher is not None:
            self.watcher.close()
        if graceful and self.size > 1:
            self._leave_the_store()

    def _leave_the_store(self) -> None:
        """The last use of the store. Worker 0 may have its server, and lets the others go first."""
        self.store.add("left/count", 1)
        end = time.monotonic() + _GOODBYES
        while self.me.id == 0 and self.store.add("left/count", 0) < self.size and time.monotonic() < end:
            time.sleep(0.01)

    def _come_together(self, timeout: float) -> None:
        """Wait until nothing is under way here and all workers have come to this point."""
        end = time.monotonic() + timeout if timeout > 0 else float("inf")
        came = False
        while True:
            with self._lock:
                idle = not self._pending and not self._busy
            if idle and not came:
                came = True
                self.store.add("done/count", 1)
            if came and self.store.add("done/count", 0) >= self.size:
                return
            if self.watcher is not None and self.watcher.error:
                raise RuntimeError(self.watcher.error)
            if time.monotonic() > end:
                raise RuntimeError(f"rpc.shutdown: not all workers came within {timeout:g} s")
            time.sleep(0.01)


def seconds(timeout: Any) -> float | None:
    """Seconds that a call may take; None for the agent's."""
    if not isinstance(timeout, numbers.Real):
        raise TypeError(f"rpc: expected a number of seconds for the timeout, got {type(timeout).__name__}")
    return None if timeout < 0 else float(timeout)


current: Agent | None = None


def agent() -> Agent:
    """This worker's agent; RuntimeError where there is none."""
    if current is None:
        raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
    return current


def _exception(kind: type, text: str) -> Exception:
    """The exception that another worker told of, in its own type."""
    try:
        return kind(text)
    except Exception:  # a type with other arguments
        return RuntimeError(text)
