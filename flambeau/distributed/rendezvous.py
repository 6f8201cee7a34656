"""Meetings of processes: handlers by the scheme of an address. Source: torch.distributed.rendezvous."""

from __future__ import annotations

import datetime
import numbers
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlparse

from .stores import FileStore, Store, TCPStore

__all__ = ["DEFAULT_TIMEOUT", "register_rendezvous_handler", "rendezvous"]

Meeting = Iterator[tuple[Store, int, int]]
DEFAULT_TIMEOUT = datetime.timedelta(minutes=30)
_handlers: dict[str, Callable[..., Meeting]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Meeting]) -> None:
    """Have a function serve addresses of a scheme.

    Args:
        scheme: what stands before ``://``.
        handler: a generator function of the address and the keyword arguments, which yields a store, the rank and the world's size.
    Raises:
        RuntimeError: the scheme has a handler.
    Source: torch.distributed.rendezvous.register_rendezvous_handler.
    Example:
        >>> def alone(url, **options):
        ...     yield torch.distributed.HashStore(), 0, 1
        >>> register_rendezvous_handler("alone", alone)
        >>> next(rendezvous("alone://"))[1:]
        (0, 1)
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Meeting:
    """Meet the other processes of a job.

    Args:
        url: ``env://``, ``tcp://HOST:PORT``, ``file:///PATH`` or one with a registered scheme; ``?rank=0&world_size=2`` may follow.
        rank, world_size: of this process and of all; -1 where the address or the environment has them.
        kwargs: for the handler: ``timeout``, a ``timedelta``.
    Returns:
        an iterator over a store, the rank and the world's size.
    Raises:
        RuntimeError: no address, or one of a scheme that is not known.
        ValueError: the rank, the size or the address is missing.
    Source: torch.distributed.rendezvous.rendezvous.
    Example:
        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "meeting")
        >>> store, rank, size = next(rendezvous(f"file://{path}", rank=0, world_size=1))
        >>> rank, size
        (0, 1)
    """
    if not isinstance(url, str | bytes):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url!r}")
    if not isinstance(rank, numbers.Integral):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, numbers.Integral):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    address = url.decode() if isinstance(url, bytes) else url
    parts = urlparse(address)
    if rank != -1 or world_size != -1:
        query = dict(parse_qsl(parts.query))
        if "rank" in query or "world_size" in query:
            raise AssertionError(f"The url: {address} has node-specific arguments(rank, world_size) already.")
        query |= {"rank": str(rank)} if rank != -1 else {}
        query |= {"world_size": str(world_size)} if world_size != -1 else {}
        address = parts._replace(query=urlencode(query)).geturl()
        if parts.scheme == "file":  # geturl writes an empty place of a file as one slash
            address = f"file://{parts.netloc}{parts.path}?{urlencode(query)}"
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    return _handlers[parts.scheme](address, **kwargs)


def _error(scheme: str, message: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {message}")


def _place(scheme: str, query: dict[str, str]) -> tuple[int, int]:
    """Rank and size from an address."""
    if "rank" not in query:
        raise _error(scheme, "rank parameter missing")
    if "world_size" not in query:
        raise _error(scheme, "world size parameter missing")
    return int(query["rank"]), int(query["world_size"])


def _file(url: str, **kwargs: Any) -> Meeting:
    parts = urlparse(url)
    if not parts.path:
        raise _error("file", "path missing")
    rank, size = _place("file", dict(parse_qsl(parts.query)))
    yield FileStore(parts.path, size), rank, size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


def _tcp(url: str, timeout: datetime.timedelta = DEFAULT_TIMEOUT, **kwargs: Any) -> Meeting:
    parts = urlparse(url)
    if parts.port is None or parts.hostname is None:
        raise _error("tcp", "port number missing")
    rank, size = _place("tcp", dict(parse_qsl(parts.query)))
    yield _store(parts.hostname, parts.port, rank, size, timeout), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _env(url: str, timeout: datetime.timedelta = DEFAULT_TIMEOUT, **kwargs: Any) -> Meeting:
    def of_environment(name: str) -> str:
        value = os.environ.get(name)
        if not value:
            raise _error("env", f"environment variable {name} expected, but not set")
        return value

    query = dict(parse_qsl(urlparse(url).query))
    rank = int(query["rank"] if "rank" in query else of_environment("RANK"))
    size = int(query["world_size"] if "world_size" in query else of_environment("WORLD_SIZE"))
    store = _store(of_environment("MASTER_ADDR"), int(of_environment("MASTER_PORT")), rank, size, timeout)
    yield store, rank, size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


def _store(host: str, port: int, rank: int, size: int, timeout: datetime.timedelta) -> Store:
    """The store at that address: the launcher's where there is one, else one that rank 0 serves."""
    if not 0 <= port < 1 << 16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return TCPStore(host, port, size, rank == 0, timeout, multi_tenant=True)
    if os.environ.get("FLAMBEAU_LAUNCHER"):
        return TCPStore(host, port, size, False, timeout)
    from .stores.foreign import meet  # late: only under PyTorch's own launcher

    return meet(host, port, rank, size, timeout)


register_rendezvous_handler("file", _file)
register_rendezvous_handler("tcp", _tcp)
register_rendezvous_handler("env", _env)


class _Callable(ModuleType):
    """PyTorch has a module and a function of this name in one package: this module is both."""

    __call__ = staticmethod(rendezvous)


sys.modules[__name__].__class__ = _Callable
