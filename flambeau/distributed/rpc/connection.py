"""Connections between workers: nothing is read from one beyond a few bytes before both sides have proved the job's secret.

After that a connection carries messages: a number that an answer repeats, a code, and bytes.
"""

from __future__ import annotations

import secrets
import socket
import struct
import threading
import time
from contextlib import suppress

from ..errors import DistNetworkError
from ..stores import secret as auth

__all__ = ["Connection", "connect", "welcome"]

_HEAD = struct.Struct("!QQB")  # bytes of the message, number, code
_LONGEST = 1 << 36
_PATIENCE = 10.0  # seconds for the proofs
_HELLO, _WELCOME = b"flambeau-calls-1", b"flambeau-called1"


def _exactly(sock: socket.socket, size: int, end: float | None = None) -> bytearray:
    """So many bytes; until ``end``, where there is one, however slowly they come."""
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        if end is not None:
            sock.settimeout(max(0.001, end - time.monotonic()))
        count = sock.recv_into(view[got:], min(size - got, 1 << 22))
        if not count:
            raise ConnectionError("the other side closed the connection")
        got += count
    return data


class Connection:
    """A connection whose other side has proved that it belongs to this job."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._lock = sock, threading.Lock()
        sock.settimeout(None)
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def send(self, number: int, code: int, data: bytes) -> None:
        with self._lock:
            self._sock.sendall(_HEAD.pack(len(data), number, code))
            self._sock.sendall(data)

    def receive(self) -> tuple[int, int, bytearray]:
        size, number, code = _HEAD.unpack(_exactly(self._sock, _HEAD.size))
        if size > _LONGEST:
            raise ConnectionError(f"a message of {size} bytes")
        return number, code, _exactly(self._sock, size)

    def close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


def connect(host: str, port: int, secret: bytes, timeout: float) -> Connection:
    """A connection to a worker that listens there.

    Raises:
        DistNetworkError: nobody does, or nobody of this job.
    """
    try:
        sock = socket.create_connection((host, port), timeout)
    except OSError as error:
        raise DistNetworkError(f"no worker answers at {host}:{port}: {error}") from error
    challenge = secrets.token_bytes(auth.CHALLENGE)
    try:
        sock.settimeout(_PATIENCE)
        sock.sendall(_HELLO + challenge)
        if _exactly(sock, len(_WELCOME)) != _WELCOME:
            raise DistNetworkError(f"what listens at {host}:{port} is no worker")
        known, proof = bytes(_exactly(sock, auth.CHALLENGE)), bytes(_exactly(sock, auth.PROOF))
        if not auth.proves(proof, secret, b"called", challenge, known):
            raise DistNetworkError(f"the worker at {host}:{port} has another secret: it is another job's")
        sock.sendall(auth.proof(secret, b"caller", known, challenge))
        if _exactly(sock, 1) != auth.YES:
            raise DistNetworkError(f"the worker at {host}:{port} does not accept this process's secret")
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            raise DistNetworkError(f"what listens at {host}:{port} is no worker of this job: {error}") from error
        raise
    return Connection(sock)


def welcome(sock: socket.socket, secret: bytes) -> Connection | None:
    """The connection that somebody asks for; None where it does not prove the secret."""
    challenge, end = secrets.token_bytes(auth.CHALLENGE), time.monotonic() + _PATIENCE
    try:
        if _exactly(sock, len(_HELLO), end) != _HELLO:
            raise ConnectionError("no worker")
        known = bytes(_exactly(sock, auth.CHALLENGE, end))
        sock.sendall(_WELCOME + challenge + auth.proof(secret, b"called", known, challenge))
        if not auth.proves(bytes(_exactly(sock, auth.PROOF, end)), secret, b"caller", challenge, known):
            sock.sendall(auth.NO)
            raise ConnectionError("another secret")
        sock.sendall(auth.YES)
    except OSError:
        sock.close()
        return None
    return Connection(sock)
