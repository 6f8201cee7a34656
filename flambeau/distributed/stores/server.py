"""The server of a store over TCP: one thread that serves all clients.

A connection is closed as soon as it says anything that the protocol does not have, when it does not prove the job's secret, or when it
takes too long to. Until then it is read from in small pieces. Requests that must wait are kept with the keys that they lack; a change of
a key looks at those alone.

The server also knows the members of groups: processes that hold a connection on which they say every now and then that they live
(``members.py``). A connection that ends without a goodbye is a member lost, and all others of its group are told at once.
"""

from __future__ import annotations

import heapq
import itertools
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from . import secret as auth
from .members import Members
from .table import Table
from .wire import Request, Status, Unreadable, pack, unpack

__all__ = ["Server"]

_PATIENCE = 10.0  # seconds in which a connection proves the secret
_STRANGERS = 4096  # connections at most that have not
_PIECE = 1 << 18  # bytes read at once


class Connection:
    """One client."""

    __slots__ = ("challenge", "data", "deadline", "known", "member", "out", "proven", "sock", "waiting", "writing")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.data, self.out = bytearray(), bytearray()
        self.proven = False
        self.known = b""  # the client's challenge, once it came
        self.challenge = secrets.token_bytes(auth.CHALLENGE)
        self.deadline = time.monotonic() + _PATIENCE
        self.waiting: Waiter | None = None
        self.writing = False  # whether the loop looks for room to send
        self.member: tuple[str, str] | None = None  # group and name


class Waiter:
    """A request that waits for keys, for a queue, or for news of its group."""

    __slots__ = ("answer", "connection", "done", "keys")

    def __init__(self, connection: Connection, keys: set[str], answer: Callable[[bool], bytes]) -> None:
        self.connection, self.keys, self.answer, self.done = connection, keys, answer, False


class Server:
    """Serves a table of keys to those who know the secret.

    Args:
        listener: a socket that listens.
        secret: the job's.
    """

    def __init__(self, listener: socket.socket, secret: bytes) -> None:
        self.listener, self._secret = listener, secret
        self.port: int = listener.getsockname()[1]
        self.table, self.members = Table(), Members()
        self._connections: set[Connection] = set()
        self._waiting: dict[str, list[Waiter]] = {}  # by key
        self._deadlines: list[tuple[float, int, Waiter | Connection]] = []
        self._count = itertools.count()
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True, name="store")
        self._thread.start()

    def close(self) -> None:
        """End the service; the port is free afterwards."""
        with suppress(OSError):
            self._wake.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(5.0)

    # -- the loop
    def _run(self) -> None:
        while True:
            for key, events in self._selector.select(self._pause()):
                if key.fileobj is self._woken:
                    self._end()
                    return
                if key.fileobj is self.listener:
                    self._accept()
                elif events & selectors.EVENT_WRITE and not self._flush(key.data):
                    continue
                elif events & selectors.EVENT_READ:
                    self._read(key.data)
            self._expire()

    def _end(self) -> None:
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()
        self.listener.close()
        self._woken.close()

    def _pause(self) -> float | None:
        return max(0.0, self._deadlines[0][0] - time.monotonic()) if self._deadlines else None

    def _expire(self) -> None:
        now = time.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            late = heapq.heappop(self._deadlines)[2]
            if isinstance(late, Connection):
                if not late.proven:
                    self._drop(late)
            elif not late.done:
                self._finish(late, False)

    def _accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return
        strangers = [each for each in self._connections if not each.proven] if len(self._connections) > _STRANGERS else []
        if len(strangers) > _STRANGERS:
            self._drop(min(strangers, key=lambda each: each.deadline))
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = Connection(sock)
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)
        heapq.heappush(self._deadlines, (connection.deadline, next(self._count), connection))

    def _read(self, connection: Connection) -> None:
        try:
            piece = connection.sock.recv(_PIECE if connection.proven else 256)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._drop(connection)
            return
        connection.data += piece
        try:
            if not connection.proven and not self._greet(connection):
                return
            while connection in self._connections and (frame := unpack(connection.data)):
                self._serve(connection, *frame)
        except (Unreadable, UnicodeDecodeError):
            self._drop(connection)

    def _greet(self, connection: Connection) -> bool:
        """The exchange of proofs; whether requests follow."""
        data = connection.data
        if not connection.known:
            if not auth.HELLO.startswith(bytes(data[: len(auth.HELLO)])):
                raise Unreadable("no client of ours")
            if len(data) < len(auth.HELLO) + auth.CHALLENGE:
                return False
            connection.known = bytes(data[len(auth.HELLO) : len(auth.HELLO) + auth.CHALLENGE])
            del data[: len(auth.HELLO) + auth.CHALLENGE]
            ours = auth.proof(self._secret, b"server", connection.known, connection.challenge)
            self._send(connection, auth.WELCOME + connection.challenge + ours)
        if len(data) < auth.PROOF:
            return False
        if not auth.proves(bytes(data[: auth.PROOF]), self._secret, b"client", connection.challenge, connection.known):
            self._send(connection, auth.NO)
            raise Unreadable("another secret")
        del data[: auth.PROOF]
        connection.proven = True
        self._send(connection, auth.YES)
        return True

    def _send(self, connection: Connection, data: bytes) -> None:
        connection.out += data
        self._flush(connection)

    def _flush(self, connection: Connection) -> bool:
        """Send what the socket takes; whether the connection stands."""
        try:
            while connection.out:
                del connection.out[: connection.sock.send(connection.out)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(connection)
            return False
        if connection.writing is not bool(connection.out):
            connection.writing = bool(connection.out)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.out else 0)
            self._selector.modify(connection.sock, events, connection)
        return True

    def _drop(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._selector.unregister(connection.sock)
        connection.sock.close()
        if connection.waiting is not None:
            self._forget(connection.waiting)
        if connection.member is not None and self.members.connection_ended(*connection.member):
            self._changed(_news(connection.member[0]))

    # -- requests
    def _serve(self, connection: Connection, code: int, fields: list[bytes]) -> None:
        handler = _HANDLERS.get(code)
        if handler is None or connection.waiting is not None:
            raise Unreadable(f"request {code}")
        try:
            reply = handler(self, connection, *fields)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            reply = _wrong(error)
        if reply is not None:
            self._send(connection, reply)

    def _wait(self, connection: Connection, keys: set[str], seconds: float, answer: Callable[[bool], bytes]) -> None:
        waiter = connection.waiting = Waiter(connection, keys, answer)
        for key in keys:
            self._waiting.setdefault(key, []).append(waiter)
        heapq.heappush(self._deadlines, (time.monotonic() + seconds, next(self._count), waiter))

    def _finish(self, waiter: Waiter, there: bool) -> None:
        self._forget(waiter)
        try:
            reply = waiter.answer(there)
        except ValueError as error:  # values that are too long together
            reply = _wrong(error)
        self._send(waiter.connection, reply)

    def _forget(self, waiter: Waiter) -> None:
        waiter.done, waiter.connection.waiting = True, None
        for key in waiter.keys:
            left = [each for each in self._waiting.get(key, ()) if each is not waiter]
            if left:
                self._waiting[key] = left
            else:
                self._waiting.pop(key, None)

    def _changed(self, key: str) -> None:
        """Serve who waits for a key."""
        for waiter in self._waiting.pop(key, ()):
            waiter.keys.discard(key)
            if not waiter.keys and not waiter.done:
                self._finish(waiter, True)


def _queue(key: str) -> str:
    return "queue:" + key  # keys of the table begin with "/" or "init/"


def _news(group: str) -> str:
    return "news:" + group


def _seconds(field: bytes) -> float:
    """Seconds that a client wants to wait: at most some years, which no clock minds."""
    seconds = float(field)
    if not seconds >= 0:
        raise ValueError(f"a wait of {seconds} seconds")
    return min(seconds, 1e8)


def _wrong(error: Exception) -> bytes:
    return pack(Status.WRONG, [type(error).__name__.encode(), str(error).encode()])


def _good(*fields: bytes) -> bytes:
    return pack(Status.GOOD, list(fields))


def _number(value: int) -> bytes:
    return _good(str(int(value)).encode())


def _set(server: Server, connection: Connection, *fields: bytes) -> bytes:
    """Keys and values in turn."""
    keys = [key.decode() for key in fields[::2]]
    server.table.values.update(zip(keys, fields[1::2]))
    for key in keys:
        server._changed(key)
    return _good()


def _values(server: Server, connection: Connection, seconds: bytes, *keys: bytes) -> bytes | None:
    names = [key.decode() for key in keys]

    def answer(there: bool) -> bytes:
        values = [server.table.values.get(name) for name in names]
        return pack(Status.LATE, []) if not there or None in values else _good(*[value for value in values if value is not None])

    return _when_there(server, connection, names, seconds, answer)


def _await(server: Server, connection: Connection, seconds: bytes, *keys: bytes) -> bytes | None:
    return _when_there(
        server, connection, [key.decode() for key in keys], seconds, lambda there: _good() if there else pack(Status.LATE, [])
    )


def _when_there(server: Server, connection: Connection, names: list[str], seconds: bytes, answer: Callable[[bool], bytes]) -> bytes | None:
    lacking = {name for name in names if name not in server.table.values}
    if not lacking:
        return answer(True)
    server._wait(connection, lacking, _seconds(seconds), answer)
    return None


def _add(server: Server, connection: Connection, key: bytes, amount: bytes) -> bytes:
    total = server.table.add(key.decode(), int(amount))
    server._changed(key.decode())
    return _number(total)


def _append(server: Server, connection: Connection, key: bytes, value: bytes) -> bytes:
    server.table.append(key.decode(), value)
    server._changed(key.decode())
    return _good()


def _check(server: Server, connection: Connection, *keys: bytes) -> bytes:
    return _number(server.table.has([key.decode() for key in keys]))


def _compare_set(server: Server, connection: Connection, key: bytes, expected: bytes, desired: bytes) -> bytes:
    found = server.table.compare_set(key.decode(), expected, desired)
    if key.decode() in server.table.values:
        server._changed(key.decode())
    return _good(found)


def _delete(server: Server, connection: Connection, key: bytes) -> bytes:
    return _number(server.table.delete(key.decode()))


def _keys(server: Server, connection: Connection) -> bytes:
    return _good(*[key.encode() for key in server.table.values])


def _push(server: Server, connection: Connection, key: bytes, value: bytes) -> bytes:
    name = key.decode()
    server.table.push(name, value)
    waiters = server._waiting.get(_queue(name), [])
    if waiters:  # the one that has waited longest
        server._finish(waiters[0], True)
    return _good()


def _pop(server: Server, connection: Connection, seconds: bytes, key: bytes) -> bytes | None:
    name = key.decode()

    def answer(there: bool) -> bytes:
        value = server.table.pop(name)
        return pack(Status.LATE, []) if value is None else _good(value)

    if server.table.length(name):
        return answer(True)
    if not _seconds(seconds):
        return pack(Status.EMPTY, [])
    server._wait(connection, {_queue(name)}, _seconds(seconds), answer)
    return None


def _watch(server: Server, connection: Connection, group: bytes, name: bytes, state: bytes, seconds: bytes) -> bytes | None:
    who, member = group.decode(), name.decode()
    if connection.member is None:
        connection.member = (who, member)
        server.members.join(who, member)
    server.members.beat(who, member, state)
    if server.members.has_news(who, member):
        return _good(server.members.report(who, member))
    server._wait(connection, {_news(who)}, _seconds(seconds), lambda there: _good(server.members.report(who, member)))
    return None


def _leave(server: Server, connection: Connection, group: bytes, name: bytes) -> bytes:
    connection.member = None
    server.members.leave(group.decode(), name.decode())
    server._changed(_news(group.decode()))
    return _good()


def _blame(server: Server, connection: Connection, group: bytes, name: bytes, reason: bytes) -> bytes:
    if server.members.blame(group.decode(), name.decode(), reason.decode()):
        server._changed(_news(group.decode()))
    return _good()


_HANDLERS: dict[int, Callable[..., bytes | None]] = {
    Request.SET: _set,
    Request.GET: _values,
    Request.ADD: _add,
    Request.CHECK: _check,
    Request.WAIT: _await,
    Request.COMPARE_SET: _compare_set,
    Request.DELETE: _delete,
    Request.COUNT: lambda server, connection: _number(len(server.table.values)),
    Request.LIST: _keys,
    Request.APPEND: _append,
    Request.PUSH: _push,
    Request.POP: _pop,
    Request.LENGTH: lambda server, connection, key: _number(server.table.length(key.decode())),
    Request.WATCH: _watch,
    Request.LEAVE: _leave,
    Request.BLAME: _blame,
}
