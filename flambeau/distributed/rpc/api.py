"""Calls of functions in other processes. Source: torch.distributed.rpc.

Functions go by their names, as pickles carry them: the other process imports the module. A function, its arguments and results are
pickled, so a job's workers can run anything in each other. Nobody else can: what comes from a connection is unpickled after both sides
have proved the job's secret.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from typing import Any

from ...facades.futures import Future
from ..rendezvous import rendezvous
from ..stores import PrefixStore
from . import agent as agents
from .agent import Agent, WorkerInfo, agent
from .gathering import all_gather as _all_gather, barrier as _barrier  # noqa: F401
from .options import BackendType, RpcBackendOptions, TensorPipeRpcBackendOptions
from .rref import RRef

__all__ = [
    "get_rpc_timeout", "get_worker_info", "init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown",
]  # fmt: skip

UNSET_RPC_TIMEOUT = -1.0  # the agent's
DEFAULT_SHUTDOWN_TIMEOUT = 0.0  # none
_made = 0  # times that this process has joined, which is the same for all


def _is_current_rpc_agent_set() -> bool:
    """Whether this process has joined. Source: torch.distributed.rpc._is_current_rpc_agent_set."""
    return agents.current is not None


def _require_initialized(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which raises ``RuntimeError`` before ``init_rpc``. Source: torch.distributed.rpc.api._require_initialized."""

    @functools.wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        agent()
        return func(*args, **kwargs)

    return checked


def is_available() -> bool:
    """Whether functions can be called in other processes.

    Returns: True.
    Source: torch.distributed.rpc.is_available.
    Example:
        >>> torch.distributed.rpc.is_available()
        True
    """
    return True


def init_rpc(
    name: str,
    backend: BackendType | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Meet the other workers; from here on they can call functions here.

    Args:
        name: this worker's, which no other one has.
        backend: ``BackendType.TENSORPIPE``, the one there is.
        rank, world_size: of this worker and of all, where the environment does not tell.
        rpc_backend_options: timeout, threads, and where they meet.
    Raises:
        TypeError: options or a back end that are none.
        RuntimeError: this process has joined already, or the name is taken.
    Source: torch.distributed.rpc.init_rpc.
    Example:
        >>> import tempfile, os
        >>> rpc = torch.distributed.rpc
        >>> place = "file://" + os.path.join(tempfile.mkdtemp(), "meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=place))
        >>> rpc.rpc_sync("alone", max, args=(1, 2))
        2
        >>> rpc.shutdown()
    """
    global _made
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    if backend is not None and not isinstance(backend, BackendType):
        raise TypeError("Argument backend must be a member of BackendType")
    if not isinstance(options, RpcBackendOptions):
        raise TypeError(f"Argument rpc_backend_options must be an instance of RpcBackendOptions, got {type(options).__name__}")
    if agents.current is not None:
        raise RuntimeError("RPC is already initialized")
    if not isinstance(name, str) or not name or not all(c.isalnum() or c in "-_:" for c in name) or len(name) >= 128:
        raise RuntimeError(f"Worker name must match ^[A-Za-z0-9-_:]*$ and be non-empty and shorter than 128, but got {name}")
    timeout = datetime.timedelta(seconds=max(options.rpc_timeout, 60.0))
    size = -1 if world_size is None else int(world_size)
    store, rank, size = next(iter(rendezvous(options.init_method, rank, size, timeout=timeout)))
    store.set_timeout(timeout)
    _made += 1
    threads = getattr(options, "num_worker_threads", 16)
    here = agents.current = Agent(PrefixStore(f"rpc/{_made}", store), WorkerInfo(rank, name), size, threads, options.rpc_timeout)
    try:
        here.wait_for_all()
    except BaseException:
        agents.current = None
        here.shutdown(graceful=False, timeout=0)
        raise


def rpc_async(
    to: str | WorkerInfo | int,
    func: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Future[Any]:
    """Call a function in another process, and go on.

    Args:
        to: a worker's name, number or ``WorkerInfo``.
        func: a function that the other process can import.
        args, kwargs: its arguments, which are pickled; tensors are copied.
        timeout: seconds; 0 for no limit.
    Returns: a ``Future`` of its result, or of the exception that it raised.
    Raises:
        RuntimeError: this process has not joined, or there is no such worker.
    Source: torch.distributed.rpc.rpc_async.
    Example:
        >>> import tempfile
        >>> rpc = torch.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.rpc_async("alone", max, args=(1, 2)).wait()
        2
        >>> rpc.shutdown()
    """
    return agent().call(to, func, args, kwargs, timeout)


def rpc_sync(
    to: str | WorkerInfo | int,
    func: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Any:
    """Call a function in another process, and wait for its result.

    Args:
        to, func, args, kwargs, timeout: see ``rpc_async``.
    Returns: its result.
    Raises:
        Exception: what it raised, in its own type; the message has the worker and the traceback there.
        RuntimeError: the time was over, or the worker is lost.
    Source: torch.distributed.rpc.rpc_sync.
    Example:
        >>> import tempfile
        >>> rpc = torch.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.rpc_sync("alone", torch.add, args=(torch.ones(2), 1))
        tensor([2., 2.])
        >>> rpc.shutdown()
    """
    return rpc_async(to, func, args, kwargs, timeout).wait()


def remote(
    to: str | WorkerInfo | int,
    func: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> RRef[Any]:
    """Call a function in another process, and leave its result there.

    Args:
        to, func, args, kwargs, timeout: see ``rpc_async``.
    Returns: a reference to the result.
    Source: torch.distributed.rpc.remote.
    Example:
        >>> import tempfile
        >>> rpc = torch.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.remote("alone", list, args=("ab",)).to_here()
        ['a', 'b']
        >>> rpc.shutdown()
    """
    return RRef._remote(agent(), to, func, args, kwargs, timeout)


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """A worker's number and name.

    Args:
        worker_name: its name; this one when None.
    Returns: a ``WorkerInfo``.
    Raises:
        RuntimeError: this process has not joined, or there is no such worker.
    Source: torch.distributed.rpc.get_worker_info.
    Example:
        >>> import tempfile
        >>> rpc = torch.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.get_worker_info()
        WorkerInfo(id=0, name=alone)
        >>> rpc.shutdown()
    """
    here = agent()
    return here.me if worker_name is None else here.info(worker_name)


def get_rpc_timeout() -> float:
    """Seconds that a call may take.

    Returns: a float.
    Source: torch.distributed.rpc.get_rpc_timeout.
    Example:
        >>> import tempfile
        >>> rpc = torch.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.get_rpc_timeout()
        60.0
        >>> rpc.shutdown()
    """
    return agent().timeout


def shutdown(graceful: bool = True, timeout: float = DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """Leave.

    Args:
        graceful: wait until all workers have called this, and no call is under way.
        timeout: seconds to wait; 0 for no limit.
    Raises:
        RuntimeError: this process has not joined, a worker is lost, or the time was over.
    Source: torch.distributed.rpc.shutdown.
    Example:
        >>> import tempfile
        >>> rpc = torch.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.shutdown()
    """
    here = agent()
    try:
        here.shutdown(graceful, timeout)
    finally:
        agents.current = None
