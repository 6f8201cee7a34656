"""Parts of this worker in backward passes through several workers: nodes at the gaps between graphs, and gradients.

Tensors that a message carries inside of a context end the graph here and begin one there; two nodes stand at the gap:

    worker 0     x (leaf) <--- MulBackward0 <--- SendRpcBackward (message 5)
                                                        :  gradients
    worker 1                                     RecvRpcBackward (message 5) <--- SumBackward0 <--- loss

A context has a number that is the same on all workers; each keeps its own part under it: the nodes of messages sent, and the gradients of
leaves, which do not go to ``.grad``.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...autograd.engine import accumulate
from ...core.state import grad_enabled
from ...core.tape.node import Node, Output, edge_of, new_node
from ...core.tensor import Tensor, wrap

__all__ = [
    "DistAutogradContext", "Gradients", "RecvRpcBackward", "SendRpcBackward", "connected", "create", "current", "entered", "find", "known",
    "release",
]  # fmt: skip

Key = tuple[int, int]  # of a message or a pass: the worker that made it, and its count there
_WORKER = 1 << 48  # a context's number begins with the number of the worker that made it


class _Local(threading.local):
    context: DistAutogradContext | None = None  # in which this thread calls
    crossing: Any = None  # the pass that this thread does


local = _Local()
_contexts: dict[int, DistAutogradContext] = {}
_lock = threading.RLock()
_numbers = itertools.count()


class Gradients:
    """Gradients of leaves in a context.

    A leaf with hooks after accumulation shows its gradient as ``.grad`` during a pass, where hooks look for it.
    """

    def __init__(self) -> None:
        self._holders: dict[int, tuple[Tensor, Tensor]] = {}  # by a leaf's id: it, and what has its layout and gradient
        self._shown: dict[int, tuple[Tensor, Any]] = {}  # leaves that show theirs, and what ``.grad`` was before
        self._lock = threading.RLock()

    def add(self, leaf: Tensor, entry: list[Any], record: bool) -> None:
        """As ``engine.accumulate``."""
        with self._lock:
            if id(leaf) not in self._holders:
                self._holders[id(leaf)] = leaf, wrap(leaf._array)
            holder = self._holders[id(leaf)][1]
            if leaf.__dict__.get("_post_accumulate_grad_hooks"):
                if id(leaf) not in self._shown:
                    self._shown[id(leaf)] = leaf, getattr(leaf, "_grad", None)
                    leaf._grad = getattr(holder, "_grad", None)
                holder = leaf
            accumulate(holder, entry, record)

    def take_back(self) -> None:
        """At the end of a pass: leaves have the ``.grad`` that they had before."""
        with self._lock:
            for key, (leaf, before) in self._shown.items():
                self._holders[key][1]._grad = leaf._grad
                leaf._grad = before
            self._shown.clear()

    def all(self) -> dict[Tensor, Tensor]:
        with self._lock:
            return {leaf: holder._grad for leaf, holder in self._holders.values() if holder._grad is not None}


class DistAutogradContext:
    """This worker's part of a context.

    Args:
        number: the context's.
    Attributes:
        sent: by the number of a message, the node that stands for it.
        received: numbers of messages that came.
        workers: numbers of the workers that got messages in this context.
        passes: backward passes under way.
    Source: torch.distributed.autograd.DistAutogradContext.
    Example:
        >>> torch.distributed.autograd.is_available()
        True
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.sent: dict[Key, SendRpcBackward] = {}
        self.received: set[Key] = set()
        self.workers: set[int] = set()
        self.passes: dict[Key, Any] = {}
        self.gradients = Gradients()
        self.lock = threading.RLock()

    def _context_id(self) -> int:
        return self._number

    def _send_functions(self) -> dict[int, Any]:
        return {count: node for (_, count), node in self.sent.items()}

    def _recv_functions(self) -> dict[int, Any]:
        return {count: None for _, count in self.received}

    def _known_worker_ids(self) -> list[int]:
        return sorted(self.workers)


class SendRpcBackward(Node):
    """Stands for tensors that went to another worker; its turn comes when nothing newer is left, and then it waits for their gradients."""

    __slots__ = ()
    is_multi_output = True  # of none

    def name(self) -> str:
        return "torch::distributed::autograd::SendRpcBackward"

    def apply(self, grads: Any) -> Any:
        return local.crossing.arrived(self.attrs)


class RecvRpcBackward(Node):
    """Stands for tensors that came from another worker, to which it sends their gradients."""

    __slots__ = ()
    is_multi_output = True

    def name(self) -> str:
        return "torch::distributed::autograd::RecvRpcBackward"

    def apply(self, grads: Any) -> Any:
        local.crossing.send(self.attrs, list(grads))
        return ()


# -- contexts by number
def current() -> DistAutogradContext | None:
    """The context in which this thread calls others."""
    return local.context


def create(worker: int) -> DistAutogradContext:
    """A new context, made by this worker."""
    return known(worker * _WORKER + next(_numbers))


def known(number: int) -> DistAutogradContext:
    """This worker's part of a context, made where there is none yet."""
    with _lock:
        return _contexts.setdefault(number, DistAutogradContext(number))


def find(number: int) -> DistAutogradContext:
    """This worker's part of a context.

    Raises:
        RuntimeError: there is none.
    """
    found = _contexts.get(number)
    if found is None:
        raise RuntimeError(f"Could not find autograd context with id: {number}")
    return found


def release(number: int) -> DistAutogradContext | None:
    """Forget a context; returns it."""
    with _lock:
        return _contexts.pop(number, None)


@contextmanager
def entered(context: DistAutogradContext | None) -> Iterator[None]:
    """This thread calls in that context."""
    was, local.context = local.context, context
    try:
        yield
    finally:
        local.context = was


# -- messages
def is_connected(value: Any) -> bool:
    """Whether a tensor in a message gets its gradient from where the message goes."""
    return value.__class__ is Tensor and value.requires_grad and grad_enabled()


def note_sent(context: DistAutogradContext, key: Key, tensors: list[Tensor]) -> None:
    """Enter the node of a message that carries these."""
    context.sent[key] = new_node(SendRpcBackward, tuple([edge_of(tensor) for tensor in tensors]), None, key, (), ())  # type: ignore[assignment]


def connected(number: int, key: Key, tensors: dict[int, Tensor]) -> None:
    """Have the tensors of a message that came begin a graph here, unless its context is gone."""
    context = _contexts.get(number)
    if context is None or not tensors:
        return
    parts = [tensors[i] for i in sorted(tensors)]
    shapes, dtypes = tuple([part._array.shape for part in parts]), tuple([part._array.dtype for part in parts])
    node = new_node(RecvRpcBackward, (), None, key, shapes, dtypes)
    for index, part in enumerate(parts):
        part._requires_grad, part._node = True, Output(node, index)
    context.received.add(key)
