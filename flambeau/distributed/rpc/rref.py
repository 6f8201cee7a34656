"""References to values of other workers. Source: torch.distributed.rpc.RRef."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ...core.tensor import Tensor
from ...facades.futures import Future
from .. import autograd
from .agent import ENTER, FETCH, REMOTE, Agent, Key, WorkerInfo, agent, seconds
from .packing import Reference, packed

__all__ = ["RRef", "received"]

T = TypeVar("T")


class RRef(Reference, Generic[T]):
    """A reference to a value that stays with the worker that owns it.

    Args:
        value: a value of this worker's, which owns it.
        type_hint: its type, for type checkers of PyTorch's scripts.
    Source: torch.distributed.rpc.RRef.
    Example:
        >>> import tempfile
        >>> rpc = torch.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rref = rpc.RRef("abc")
        >>> rref.to_here(), rref.rpc_sync().upper()
        ('abc', 'ABC')
        >>> rpc.shutdown()
    """

    def __init__(self, value: T, type_hint: Any = None) -> None:
        here = agent()
        self._bind(here, here.me, here.new_key(), None)
        here.owned[self._key].value.set_result(value)

    def _bind(self, agent: Agent, owner: WorkerInfo, key: Key, fork: Key | None) -> None:
        """Refer to a value: ``fork`` is None at its owner."""
        self._agent, self._owner, self._key, self._fork = agent, owner, key, fork
        self._made: Future[Any] | None = None
        if fork is None:
            agent.enter(key, None)
            weakref.finalize(self, agent.drop, key, None).atexit = False
        else:
            weakref.finalize(self, agent.forget, owner.id, key, fork).atexit = False

    @classmethod
    def _of(cls, agent: Agent, owner: WorkerInfo, key: Key, fork: Key | None) -> RRef[Any]:
        made: RRef[Any] = cls.__new__(cls)
        made._bind(agent, owner, key, fork)
        return made

    @classmethod
    def _remote(cls, agent: Agent, to: Any, function: Any, args: Any, kwargs: Any, timeout: Any) -> RRef[Any]:
        """A reference to what a function returns in another worker; see ``remote``."""
        owner, key = agent.info(to), agent.new_key()
        fork = None if owner.id == agent.me.id else agent.new_key()
        made = cls._of(agent, owner, key, fork)
        made._made = agent.ask(owner.id, REMOTE, (key, fork, *packed(function, args, kwargs)), seconds(timeout))
        if fork is None:
            made._made.add_done_callback(lambda _: agent.drop(key, None))  # the request's own count
        return made

    def _sent(self, agent: Agent) -> tuple[Any, ...]:
        """The reference as another worker gets it: as a fork, which the owner knows of before it is sent."""
        self._check()
        fork = agent.new_key()
        if self.is_owner():
            agent.enter(self._key, fork)
        else:
            agent.ask(self._owner.id, ENTER, (self._key, fork)).wait()
        return received, (self._owner, self._key, fork)

    def __reduce__(self) -> Any:
        raise RuntimeError("Can not pickle rref in python pickler, rref can only be pickled when using RPC")

    def _check(self) -> None:
        """Raise what went wrong when the value was made, as far as it is known here."""
        if self._made is not None and self._made.done():
            self._made.value()

    def is_owner(self) -> bool:
        """Whether this worker owns the value."""
        return self._fork is None

    def owner(self) -> WorkerInfo:
        """The worker that owns it."""
        return self._owner

    def owner_name(self) -> str:
        """That worker's name."""
        return self._owner.name

    def confirmed_by_owner(self) -> bool:
        """Whether the owner knows of this reference."""
        return self._made is None or self._made.done()

    def to_here(self, timeout: float = -1.0) -> T:
        """A copy of the value, once it is there; the value itself at its owner.

        Args:
            timeout: seconds; 0 for no limit.
        Raises:
            Exception: what making it raised.
            RuntimeError: the time was over, or the owner is lost.
        """
        if self._fork is None:
            return self.local_value()
        self._check()
        if self._made is not None:
            self._made.wait()
        return self._agent.ask(self._owner.id, FETCH, (self._key,), timeout).wait()

    def local_value(self) -> T:
        """The value, at its owner.

        Raises:
            RuntimeError: this worker does not own it.
        """
        if self._fork is not None:
            raise RuntimeError(f"For {self!r}, can't call localValue() on user {self._agent.me!r}. Call it on owner {self._owner!r}")
        return self._agent.owned[self._key].value.wait()

    def rpc_sync(self, timeout: float = -1.0) -> Any:
        """An object whose methods call the value's at its owner, and wait for the result."""
        return _Proxy(self, "rpc_sync", timeout)

    def rpc_async(self, timeout: float = -1.0) -> Any:
        """An object whose methods call the value's at its owner, and return futures."""
        return _Proxy(self, "rpc_async", timeout)

    def remote(self, timeout: float = -1.0) -> Any:
        """An object whose methods call the value's at its owner, and return references."""
        return _Proxy(self, "remote", timeout)

    def _get_type(self, timeout: float = -1.0, blocking: bool = True) -> Any:
        """The value's type, or a future of it."""
        future = self._agent.call(self._owner, _type_of, (self,), None, timeout)
        return future.wait() if blocking else future

    def _get_future(self) -> Any:
        """A future that is done when the owner knows of this reference."""
        future: Future[Any] = Future()
        if self._made is None:
            future.set_result(None)
        return self._made or future

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """A backward pass from the value, at its owner.

        Args:
            dist_autograd_ctx_id: the context of a pass through several workers; -1 for a pass of the owner's alone, into ``.grad``.
            retain_graph: keep what the graph saved.
        Raises:
            RuntimeError: the value is no tensor with one element and a history.
        """
        if self._fork is None:
            _backward(self, dist_autograd_ctx_id, retain_graph)
        else:
            self._agent.call(self._owner, _backward, (self, dist_autograd_ctx_id, retain_graph), None, -1.0).wait()

    def __repr__(self) -> str:
        kind = "OwnerRRef" if self._fork is None else "UserRRef"
        return f"{kind}(RRefId = GloballyUniqueId(created_on={self._key[0]}, local_id={self._key[1]}))"


def received(owner: WorkerInfo, key: Key, fork: Key) -> RRef[Any]:
    """A reference as it came from another worker."""
    here = agent()
    if owner.id != here.me.id:
        return RRef._of(here, owner, key, fork)
    made = RRef._of(here, owner, key, None)
    here.drop(key, fork)
    return made


def _backward(rref: RRef[Any], context_id: int, retain_graph: bool) -> None:
    value = rref.local_value()
    if not isinstance(value, Tensor):
        raise RuntimeError(f"RRef should contain a tensor for .backward(), but it has {type(value).__name__}")
    if context_id == -1:
        value.backward(retain_graph=retain_graph)
    else:
        autograd.backward(context_id, [value], retain_graph)


def _type_of(rref: RRef[Any]) -> type:
    return type(rref.local_value())


def _method(rref: RRef[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(rref.local_value(), name)(*args, **kwargs)


def _later_method(rref: RRef[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same for a method that returns a future."""
    return _method(rref, name, args, kwargs)


_later_method._wrapped_async_rpc_function = _method  # type: ignore[attr-defined]


_WAYS: dict[str, Callable[..., Any]] = {
    "rpc_sync": lambda agent, *call: agent.call(*call).wait(),
    "rpc_async": Agent.call,
    "remote": RRef._remote,
}


class _Proxy:
    """Calls methods of a value at its owner."""

    def __init__(self, rref: RRef[Any], way: str, timeout: float) -> None:
        self._rref, self._way, self._timeout = rref, way, timeout

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._invoke, name)

    def _invoke(self, name: str, *args: Any, **kwargs: Any) -> Any:
        method = getattr(self._rref._get_type(), name)
        function = _later_method if hasattr(method, "_wrapped_async_rpc_function") else _method
        return _WAYS[self._way](self._rref._agent, self._rref.owner(), function, (self._rref, name, args, kwargs), None, self._timeout)
