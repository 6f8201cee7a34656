"""Meeting through a store of PyTorch's own launcher, which speaks another protocol than ours.

Real ``torchrun`` serves a store for its workers. They set and get two keys in it, no more: rank 0 opens a store of ours at a free port
and puts its address and a fresh secret there. PyTorch's store knows no secrets, so who reaches it can read that: a job under its launcher
is as closed as its launcher.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import socket
import struct

from ..errors import DistNetworkError
from . import secret as auth
from .base import seconds_of
from .tcp import TCPStore

__all__ = ["AgentStore", "meet"]

# Requests of the protocol of PyTorch's TCPStore: a byte, then strings and byte vectors behind lengths of 64 bits.
_VALIDATE, _SET, _GET, _WAIT, _PING = 0, 1, 3, 6, 13
_MAGIC = struct.pack("<I", 0x3C85F7CE)
_STOP_WAITING = 0
_LONGEST = 1 << 16


class AgentStore:
    """A connection to a store of PyTorch's: as much as two processes need to meet.

    Args:
        host, port: the store's.
        timeout: for the connection and for keys.
    """

    def __init__(self, host: str, port: int, timeout: datetime.timedelta) -> None:
        self._where = f"({host}, {port})"
        try:
            self._sock = socket.create_connection((host, port), timeout=seconds_of(timeout))
            nonce = struct.pack("<I", os.getpid())
            self._sock.sendall(bytes([_VALIDATE]) + _MAGIC + bytes([_PING]) + nonce)
            if self._exactly(4) != nonce:
                raise OSError("it does not answer as PyTorch's store does")
        except OSError as error:
            raise DistNetworkError(f"The launcher's store at {self._where} cannot be reached: {error}") from error

    @property
    def address(self) -> str:
        """This machine's, as it is seen from the store's."""
        return self._sock.getsockname()[0]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._sock.recv(size - len(data))
            if not piece:
                raise OSError("the connection was closed")
            data += piece
        return data

    def set(self, key: str, value: bytes) -> None:
        self._sock.sendall(bytes([_SET]) + _sized(b"/" + key.encode()) + _sized(value))

    def get(self, key: str) -> bytes:
        """The value under a key, for which it waits."""
        name = _sized(b"/" + key.encode())
        self._sock.sendall(bytes([_WAIT]) + struct.pack("<Q", 1) + name)
        try:
            if self._exactly(1)[0] != _STOP_WAITING:
                raise OSError("it answered with what is no answer")
            self._sock.sendall(bytes([_GET]) + name)
            (size,) = struct.unpack("<Q", self._exactly(8))
            if size > _LONGEST:
                raise OSError(f"a value of {size} bytes")
            return self._exactly(size)
        except OSError as error:
            raise DistNetworkError(f"The launcher's store at {self._where} has no {key}: {error}") from error

    def close(self) -> None:
        self._sock.close()


def _sized(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def meet(host: str, port: int, rank: int, size: int, timeout: datetime.timedelta) -> TCPStore:
    """A store of ours whose address the processes tell each other through the launcher's."""
    agent = AgentStore(host, port, timeout)
    key = f"flambeau/{os.environ.get('TORCHELASTIC_RUN_ID', '')}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if rank == 0:
        os.environ[auth.VARIABLE] = secrets.token_hex(32)
        store = TCPStore(agent.address, 0, size, True, timeout, wait_for_workers=False)
        told = {"host": agent.address, "port": store.port, "secret": os.environ[auth.VARIABLE]}
        agent.set(key, json.dumps(told).encode())
        agent.get(key)  # the request before has been served when this one is answered
    else:
        told = json.loads(agent.get(key))
        os.environ[auth.VARIABLE] = told["secret"]
        store = TCPStore(told["host"], told["port"], size, False, timeout)
    agent.close()
    return store
