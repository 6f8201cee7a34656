"""Connections that carry memory: a message goes over a socket, and the descriptors of the memory in it go beside it.

``multiprocessing`` sends descriptors by a thread that the receiver asks for them (``resource_sharer``): the sender must live till then, and
what nobody fetches stays open. Here they lie in the socket's buffer: the sender may end, and the kernel closes them with the socket.

    length, count | message        the head of every message; descriptors go with its first byte
    .                              one byte for each further 253 descriptors, which are as many as one call takes
"""

from __future__ import annotations

import array
import errno
import io
import multiprocessing.connection
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ..core.arrays.shared_memory import SharedMemory
from .reductions import passing

__all__: list[str] = []

CARRIES_MEMORY = hasattr(socket.socket, "sendmsg") and hasattr(socket, "SCM_RIGHTS")
_HEAD = struct.Struct("!QI")
_AT_ONCE = 253  # SCM_MAX_FD of Linux
_NUMBER = array.array("i").itemsize
_TOO_MANY = "too many open files; raise the limit with `ulimit -n`, or set the sharing strategy 'file_system'"


class Parcel:
    """An object as it is now, for a queue whose thread sends it later: its pickle, and the memories in it, which it keeps."""

    __slots__ = ("memories", "payload")

    def __init__(self, value: Any):
        outer, passing.outgoing = passing.outgoing, []
        try:
            self.payload = bytes(ForkingPickler.dumps(value))
            self.memories = tuple(passing.outgoing)
        finally:
            passing.outgoing = outer

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled by ``Connection.send`` or a queue's thread, which sends next.
        passing.beside = self.memories
        return _opened, (self.payload,)


def _opened(payload: bytes) -> Any:
    """The object in a parcel that this thread has just received."""
    outer, passing.incoming, passing.received = passing.incoming, passing.received, ()
    try:
        return ForkingPickler.loads(payload)
    finally:
        passing.incoming = outer


class Connection(multiprocessing.connection.Connection):
    """One end of a pipe over a socket. Source: multiprocessing.connection.Connection."""

    def send(self, obj: Any) -> None:
        """Send an object; the memory of its tensors goes along, and is the receiver's as well as the sender's from then on."""
        super().send(Parcel(obj))

    def _send_bytes(self, buf: Any) -> None:
        memories, passing.beside = passing.beside, ()
        descriptors = [memory.descriptor for memory in memories]
        with self._socket() as stream:
            head = _HEAD.pack(len(buf), len(descriptors))
            sent = _send(stream, (head, buf), descriptors[:_AT_ONCE])
            stream.sendall(head[sent:])
            stream.sendall(memoryview(buf)[max(sent - len(head), 0) :])
            for start in range(_AT_ONCE, len(descriptors), _AT_ONCE):
                _send(stream, (b".",), descriptors[start : start + _AT_ONCE])

    def _recv_bytes(self, maxsize: int | None = None) -> Any:
        passing.received = ()
        arrived = _Arrived()
        with self._socket() as stream:
            head = arrived.read(stream, _HEAD.size)
            nbytes, count = _HEAD.unpack(head)
            if maxsize is not None and nbytes > maxsize:
                return None
            buf = self._recv(nbytes) if nbytes else io.BytesIO()  # type: ignore[attr-defined]
            for _ in range(_AT_ONCE, count, _AT_ONCE):
                arrived.read(stream, 1)
        passing.received = arrived.memories(count)
        return buf

    @contextmanager
    def _socket(self) -> Iterator[socket.socket]:
        """The descriptor as a socket; it stays this connection's."""
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=self._handle)  # type: ignore[attr-defined]
        try:
            if stream.gettimeout() is not None:  # the program's ``setdefaulttimeout`` is not meant for us
                stream.settimeout(None)
            yield stream
        finally:
            stream.detach()


class _Arrived:
    """Descriptors that came with a message; those that nobody takes are closed."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def read(self, stream: socket.socket, nbytes: int) -> bytes:
        """``nbytes`` bytes of the stream, and the descriptors beside them.

        Raises:
            EOFError: the other end is closed.
        """
        data = b""
        while len(data) < nbytes:
            part, beside, _, _ = stream.recvmsg(
                nbytes - len(data), socket.CMSG_SPACE(_AT_ONCE * _NUMBER), getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            )
            for level, kind, numbers in beside:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    self.descriptors += array.array("i", numbers[: len(numbers) // _NUMBER * _NUMBER])
            if not part:
                if data:
                    raise OSError("got end of file during message")
                raise EOFError
            data += part
        return data

    def memories(self, count: int) -> tuple[SharedMemory, ...]:
        """The memories behind the descriptors.

        Raises:
            RuntimeError: some did not arrive, as this process may have no more open, or cannot be mapped.
        """
        if len(self.descriptors) < count:
            raise RuntimeError(f"received {len(self.descriptors)} items of ancillary data, expected {count}: {_TOO_MANY}")
        found = []
        while self.descriptors:
            found.append(SharedMemory.attach(self.descriptors.pop(0)))
        return tuple(found)

    def __del__(self, close: Any = os.close) -> None:
        for descriptor in self.descriptors:
            close(descriptor)


def _send(stream: socket.socket, parts: tuple[Any, ...], descriptors: list[int]) -> int:
    """Send bytes with descriptors beside the first; how many bytes were sent.

    The kernel limits descriptors that are under way and taken by nobody, all sockets of a user together: until some are, this waits.
    """
    beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    while True:
        try:
            return stream.sendmsg(parts, beside)
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
        time.sleep(0.001)


def Pipe(duplex: bool = True) -> tuple[Any, Any]:
    """Two connected ends; where not ``duplex``, the first only receives and the second only sends.

    Source: multiprocessing.Pipe.
    """
    if not CARRIES_MEMORY:
        return multiprocessing.connection.Pipe(duplex)
    one, other = socket.socketpair()
    one.setblocking(True)
    other.setblocking(True)
    return Connection(one.detach(), writable=duplex), Connection(other.detach(), readable=duplex)


def _reduce_connection(connection: Connection) -> tuple[Any, ...]:
    """The end's own descriptor goes as ``multiprocessing`` sends descriptors."""
    from multiprocessing.reduction import DupFd

    return _rebuild_connection, (DupFd(connection.fileno()), connection.readable, connection.writable)


def _rebuild_connection(handle: Any, readable: bool, writable: bool) -> Connection:
    return Connection(handle.detach(), readable, writable)


ForkingPickler.register(Connection, _reduce_connection)
