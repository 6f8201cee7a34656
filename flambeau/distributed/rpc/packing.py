"""Calls and answers as bytes: pickles in which references, and tensors with a graph, go in forms of their own."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.state import grad_enabled
from ...core.tensor import Parameter, Tensor
from ..autograd import _contexts as contexts

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["PLAIN", "Reference", "dumps", "loads", "packed"]

_HEAD = struct.Struct("!BQQQ")  # whether there is a context, its number, and the message's
PLAIN = _HEAD.pack(0, 0, 0, 0)  # begins a message outside of all contexts


class Reference:
    """An object that is sent to another worker in a form of its own."""

    def _sent(self, agent: Agent) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A function that makes it there, and its arguments."""
        raise NotImplementedError


class _Tie:
    """Gathers the tensors of a message that came whose graph lies where it came from."""

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}


class _Pickler(pickle.Pickler):
    """Pickles what a message carries; ``tied`` gets the tensors whose gradients will come back, None outside of a context."""

    def __init__(self, file: io.BytesIO, agent: Agent, tied: list[Tensor] | None) -> None:
        super().__init__(file, protocol=5)
        self._agent, self._tied = agent, tied

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Reference):
            return obj._sent(self._agent)
        if self._tied is not None and contexts.is_connected(obj):
            self._tied.append(obj)
            return _received, (obj.detach(), len(self._tied) - 1)
        return NotImplemented


def _received(tensor: Tensor, index: int) -> Tensor:
    """A tensor as it came; ``loads`` gives it a graph."""
    contexts.local.crossing.tensors[index] = tensor
    return tensor


def dumps(agent: Agent, what: Any) -> bytes:
    """Bytes of a message; inside of a context the message belongs to it."""
    context, file = contexts.current(), io.BytesIO()
    key = agent.new_key() if context is not None else None
    file.write(PLAIN if context is None or key is None else _HEAD.pack(1, context._number, *key))
    tied: list[Tensor] | None = None if context is None else []
    _Pickler(file, agent, tied).dump(what)
    if context is not None and key is not None and tied:
        contexts.note_sent(context, key, tied)
    return file.getvalue()


def loads(data: Any, begins: bool) -> tuple[Any, contexts.DistAutogradContext | None]:
    """The content of a message, and its context.

    Args:
        data: the bytes.
        begins: whether the context is made where there is none yet: it may have been released while an answer was under way.
    """
    has_context, number, *key = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if not has_context:
        return pickle.loads(body), None
    context = contexts.known(number) if begins else None
    was, contexts.local.crossing = contexts.local.crossing, _Tie()
    try:
        value = pickle.loads(body)
        contexts.connected(number, tuple(key), contexts.local.crossing.tensors)
    finally:
        contexts.local.crossing = was
    return value, context


def packed(function: Any, args: Any, kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A call as it is sent."""
    if not callable(function):
        raise TypeError("function should be callable.")
    args, kwargs = tuple(args or ()), dict(kwargs or {})
    if contexts.current() is not None and grad_enabled():  # parameters among the arguments; those of modules stay parameters
        args = tuple([_as_tensor(each) for each in args])
        kwargs = {name: _as_tensor(each) for name, each in kwargs.items()}
    return function, args, kwargs


def _as_tensor(value: Any) -> Any:
    return value.view_as(value) if isinstance(value, Parameter) else value
