"""A store that a process serves over TCP. Source: torch.distributed.TCPStore."""

from __future__ import annotations

import datetime
import os
import secrets
import socket
import time
import weakref
from collections.abc import Sequence
from typing import Any

from ..errors import DistNetworkError, DistStoreError, QueueEmptyError
from . import secret as auth
from .base import DEFAULT_TIMEOUT, Store, key_of, pairs_of, seconds_of, value_of
from .server import Server
from .wire import Request, Status, Unreadable, pack, unpack

__all__ = ["Client", "TCPStore"]

_GRACE = 15.0  # seconds that a server may be late with an answer
_AGAIN = 5.0  # seconds for further connections to a server that was there
_WORKERS = "init/workers"
_WRONG = {"ValueError": ValueError, "TypeError": TypeError}


class Client:
    """Connections to one server. A request takes one that is idle or opens another, so that none waits for another thread's.

    Args:
        host, port: the server's.
        secret: the job's.
        timeout: seconds within which the first connection stands.
    """

    def __init__(self, host: str, port: int, secret: bytes, timeout: float) -> None:
        self.host, self.port, self._secret, self._timeout = host, port, secret, timeout
        self._idle: list[socket.socket] = []
        self._owner = os.getpid()
        self._idle.append(self.connect(timeout))

    def connect(self, timeout: float) -> socket.socket:
        """A connection on which both sides have proved that they know the secret."""
        end, pause = time.monotonic() + timeout, 0.005
        while True:
            left = end - time.monotonic()
            try:
                sock = socket.create_connection((self.host, self.port), timeout=max(0.05, min(left, 30.0)))
                break
            except OSError as error:
                if time.monotonic() + pause > end:
                    raise DistNetworkError(
                        f"The client socket has timed out after {round(1000 * timeout)}ms "
                        f"while trying to connect to ({self.host}, {self.port}): {error}"
                    ) from error
                time.sleep(pause)
                pause = min(2 * pause, 0.25)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._prove(sock)
        except BaseException:
            sock.close()
            raise
        return sock

    def _prove(self, sock: socket.socket) -> None:
        where = f"({self.host}, {self.port})"
        challenge = secrets.token_bytes(auth.CHALLENGE)
        sock.settimeout(_GRACE)
        try:
            sock.sendall(auth.HELLO + challenge)
            welcome = _exactly(sock, len(auth.WELCOME))
            theirs = _exactly(sock, auth.CHALLENGE + auth.PROOF) if welcome == auth.WELCOME else b""
        except (OSError, EOFError) as error:
            raise DistNetworkError(f"What listens at {where} does not speak this store's protocol: {error}") from error
        if not theirs:
            raise DistNetworkError(f"What listens at {where} does not speak this store's protocol; it is another program's port.")
        known = theirs[: auth.CHALLENGE]
        advice = f"Processes that do not share a home directory need the same {auth.VARIABLE} in their environment."
        if not auth.proves(theirs[auth.CHALLENGE :], self._secret, b"server", challenge, known):
            raise DistNetworkError(f"The store at {where} has another secret: it is another job's. {advice}")
        try:
            sock.sendall(auth.proof(self._secret, b"client", known, challenge))
            answer = _exactly(sock, 1)
        except (OSError, EOFError) as error:
            raise DistNetworkError(f"The store at {where} closed the connection: {error}") from error
        if answer != auth.YES:
            raise DistNetworkError(f"The store at {where} does not accept this process's secret. {advice}")

    def ask(self, code: Request, fields: list[bytes], seconds: float = 0.0) -> list[bytes] | None:
        """The reply's fields; None where the time was over.

        Args:
            code, fields: the request.
            seconds: how long the server may have to wait before it answers.
        """
        if self._owner != os.getpid():  # a child that was forked opens connections of its own
            self._owner, self._idle = os.getpid(), []
        try:
            sock = self._idle.pop()
        except IndexError:
            sock = self.connect(min(self._timeout, _AGAIN))
        try:
            status, reply = exchange(sock, code, fields, seconds, f"({self.host}, {self.port})")
        except BaseException:
            sock.close()  # what may still come on it would be taken for the next answer
            raise
        self._idle.append(sock)
        if status == Status.LATE:
            return None
        if status == Status.EMPTY:
            raise QueueEmptyError("queue is empty")
        if status == Status.WRONG:
            raise _WRONG.get(reply[0].decode(), DistStoreError)(reply[1].decode())
        return reply

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


def exchange(sock: socket.socket, code: Request, fields: list[bytes], seconds: float, where: str) -> tuple[int, list[bytes]]:
    """One request and its reply."""
    sock.settimeout(seconds + _GRACE)
    try:
        sock.sendall(pack(code, fields))
        data = bytearray()
        while not (frame := unpack(data)):
            piece = sock.recv(1 << 18)
            if not piece:
                raise DistNetworkError(f"Connection to the store at {where} was closed. Did the remote server shutdown or crash?")
            data += piece
    except TimeoutError as error:
        raise DistNetworkError(f"The store at {where} did not answer within {seconds + _GRACE:.0f} s") from error
    except Unreadable as error:
        raise DistNetworkError(f"The store at {where} sent what is no answer: {error}") from error
    except OSError as error:
        raise DistNetworkError(f"Connection to the store at {where} broke: {error}") from error
    return frame


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise EOFError("it closed the connection")
        data += piece
    return data


def _listen(host: str, port: int, descriptor: int | None) -> socket.socket:
    """A socket that listens at that address and no other."""
    if descriptor is not None:
        return socket.socket(fileno=descriptor)
    address = os.environ.get("FLAMBEAU_STORE_BIND") or host
    try:
        family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(place[:2], family=family, backlog=2048)
    except OSError as error:
        raise DistNetworkError(
            f"The server socket has failed to listen at {address}, port {port}: {error}. "
            "If this machine has that address under another one, set FLAMBEAU_STORE_BIND to the one to listen at."
        ) from error


class _Service:
    """A server that ends with the last store that holds this."""

    __slots__ = ("__weakref__", "server")

    def __init__(self, server: Server) -> None:
        self.server = server
        weakref.finalize(self, server.close)


_shared: weakref.WeakValueDictionary[tuple[str, int], _Service] = weakref.WeakValueDictionary()  # by address


def _serve(host: str, port: int, secret: bytes, multi_tenant: bool, descriptor: int | None) -> _Service:
    service = _shared.get((host, port)) if multi_tenant and port else None
    if service is None:
        service = _Service(Server(_listen(host, port, descriptor), secret))
        if multi_tenant:
            _shared[host, service.server.port] = service
    return service


class TCPStore(Store):
    """A store that one process, the master, serves over TCP, and all others connect to.

    The server listens at ``host_name`` and no other address (``FLAMBEAU_STORE_BIND`` names another one), and serves those who prove that
    they know the job's secret: ``FLAMBEAU_STORE_SECRET``, which the launcher sets, or else one that this user's processes share through a
    file.

    Args:
        host_name: the master's name or address.
        port: the port; for the master 0 takes a free one.
        world_size: how many processes use the store, the master among them; None when it is not known.
        is_master: whether this process serves it.
        timeout: for how long to wait for the server, for the others and for keys.
        wait_for_workers: whether the master waits for all ``world_size`` processes.
        multi_tenant: whether stores of this process with the same address share a server.
        master_listen_fd: a socket's descriptor for the master to listen at.
        use_libuv: which of PyTorch's servers; there is one here.
    Attributes:
        host, port: the server's.
    Raises:
        DistNetworkError: the address cannot be listened at, or nothing of this job's listens there.
        DistStoreError: the others did not come in time.
    Source: torch.distributed.TCPStore.
    Example:
        >>> import datetime
        >>> store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, timeout=datetime.timedelta(seconds=30))
        >>> other = torch.distributed.TCPStore("127.0.0.1", store.port)
        >>> other.set("key", "value")
        >>> store.get("key")
        b'value'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: datetime.timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if not 0 <= port < 1 << 16:
            raise TypeError(f"TCPStore: expected a port from 0 to 65535, got {port}")
        self.set_timeout(timeout)
        self._secret = self._choose_secret()
        self._start(host_name, port, is_master, multi_tenant, master_listen_fd)
        workers = -1 if world_size is None else world_size
        if workers > 0:
            self._join(workers, wait_for_workers and is_master)

    def _start(self, host: str, port: int, is_master: bool, multi_tenant: bool, descriptor: int | None) -> None:
        self._service = _serve(host, port, self._secret, multi_tenant, descriptor) if is_master else None
        server = None if self._service is None else self._service.server
        bound = os.environ.get("FLAMBEAU_STORE_BIND")
        # The master asks itself where it listens: its own name may lead elsewhere from here.
        near = server.listener.getsockname()[0] if server is not None and (bound or descriptor is not None) else host
        near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(near, near)
        self._client = Client(near, port if server is None else server.port, self._secret, seconds_of(self._timeout))
        self._host = host
        weakref.finalize(self, self._client.close)

    def _join(self, workers: int, wait: bool) -> None:
        """Count this process, and wait for all."""
        self._client.ask(Request.ADD, [_WORKERS.encode(), b"1"])
        end = time.monotonic() + seconds_of(self._timeout)
        while wait:
            came = int(self._number(Request.ADD, [_WORKERS.encode(), b"0"]))
            if came >= workers:
                return
            if time.monotonic() > end:
                seconds = round(seconds_of(self._timeout))
                raise DistStoreError(f"Timed out after {seconds} seconds waiting for clients. {came}/{workers} clients joined.")
            time.sleep(0.01)

    def _choose_secret(self) -> bytes:
        return auth.job_secret()

    def __repr__(self) -> str:
        server = "<nullptr>" if self._service is None else f"TCPServer(port={self.port})"
        return f"TCPStore(client=TCPClient({self._client.host}:{self.port}), server={server})"

    @property
    def host(self) -> str:
        return self._host

    @property
    def port(self) -> int:
        return self._client.port

    @property
    def libuvBackend(self) -> bool:
        return False

    def _number(self, code: Request, fields: list[bytes]) -> int:
        reply = self._client.ask(code, fields)
        return int(reply[0]) if reply else 0

    def _await(self, code: Request, keys: Sequence[str], timeout: Any) -> list[bytes]:
        names, seconds = _names(keys), seconds_of(timeout)
        reply = self._client.ask(code, [repr(seconds).encode(), *names], seconds)
        if reply is None:
            keys = ", ".join(name.decode() for name in names)
            raise DistStoreError(f"wait timeout after {round(1000 * seconds)}ms, keys: {keys}")
        return reply

    def set(self, key: str, value: str | bytes) -> None:
        self._client.ask(Request.SET, [*_names([key]), value_of(value)])

    def get(self, key: str) -> bytes:
        return self._await(Request.GET, [key], self._timeout)[0]

    def add(self, key: str, amount: int) -> int:
        return self._number(Request.ADD, [*_names([key]), str(int(amount)).encode()])

    def append(self, key: str, value: str | bytes) -> None:
        self._client.ask(Request.APPEND, [*_names([key]), value_of(value)])

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self._number(Request.CHECK, _names(keys)))

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        self._await(Request.WAIT, keys, self._timeout if timeout is None else timeout)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        reply = self._client.ask(Request.COMPARE_SET, [*_names([key]), value_of(expected_value), value_of(desired_value)])
        return reply[0] if reply else b""

    def delete_key(self, key: str) -> bool:
        return bool(self._number(Request.DELETE, _names([key])))

    def num_keys(self) -> int:
        return self._number(Request.COUNT, [])

    def list_keys(self) -> list[str]:
        return [key.decode()[1:] for key in self._client.ask(Request.LIST, []) or [] if key.startswith(b"/")]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._await(Request.GET, keys, self._timeout)

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        pairs = pairs_of(keys, values)
        self._client.ask(Request.SET, [part for key, value in pairs for part in (*_names([key]), value)])

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._client.ask(Request.PUSH, [*_names([key]), value_of(value)])

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        if block:
            seconds = seconds_of(self._timeout)
            reply = self._client.ask(Request.POP, [repr(seconds).encode(), *_names([key])], seconds)
            if reply is None:
                raise DistStoreError(f"wait timeout after {round(1000 * seconds)}ms, keys: /{key}")
            return reply[0]
        return (self._client.ask(Request.POP, [b"0", *_names([key])]) or [b""])[0]

    def queue_len(self, key: str) -> int:
        return self._number(Request.LENGTH, _names([key]))

    def has_extended_api(self) -> bool:
        return True

    def clone(self) -> TCPStore:
        other = TCPStore.__new__(TCPStore)
        Store.__init__(other)
        other._timeout, other._secret, other._service, other._host = self._timeout, self._secret, self._service, self._host
        other._client = Client(self._client.host, self.port, self._secret, seconds_of(self._timeout))
        weakref.finalize(other, other._client.close)
        return other

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'TCPStore' object")


def _names(keys: Sequence[str]) -> list[bytes]:
    """Keys as the server has them: apart from its own."""
    return [("/" + key_of(key)).encode() for key in keys]
