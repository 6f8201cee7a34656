"""A backward pass through several workers.

First the worker of the roots asks which messages the pass goes back through: each worker follows its graph from what was asked for to the
nodes of messages that came, and asks those who sent them, until nobody finds anything new. Then each worker does one pass of the ordinary
engine over all of its messages. The node of a message that was sent waits in it until gradients come:

    worker 0    loss ... RecvRpcBackward -- gradients -->  worker 1    SendRpcBackward ... RecvRpcBackward -- gradients --> ...

An engine goes from new to old. Clocks of workers differ, but what waits for a message's gradients is older than the message, and what
yields them is newer. So of all messages that some engine waits for, the newest gets its gradients: no two workers wait for each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ...autograd.engine import run_backward
from ...core.tape.node import Node, Output, edge_of
from ...core.tensor import Tensor
from ...facades.futures import Future, collect_all
from . import _contexts as contexts
from ._contexts import DistAutogradContext, Key, RecvRpcBackward, entered

__all__ = ["backward", "release"]


def _agent() -> Any:
    from ..rpc.agent import agent

    return agent()


def _call(to: int, function: Any, *args: Any) -> Future[Any]:
    """A call outside of all contexts, that may take any time."""
    here = _agent()
    with entered(None):
        return here.call(here.info(to), function, args, None, 0)


def _later(function: Any) -> Any:
    """Mark a function that returns a future."""
    function._wrapped_async_rpc_function = function
    return function


class Crossing:
    """This worker's part of one pass.

    Attributes:
        messages: those that it sent and that the pass goes back through.
        came: those that came and that it goes back through: each sends gradients even if none reaches it.
    """

    def __init__(self, context: DistAutogradContext, key: Key) -> None:
        self.context, self.key = context, key
        self.messages: set[Key] = set()
        self.came: dict[int, RecvRpcBackward] = {}
        self._seen: set[int] = set()
        self._changed = threading.Condition()
        self._gradients: dict[Key, list[Any]] = {}
        self._error: RuntimeError | None = None
        self._under_way: list[Future[Any]] = []

    # -- finding the way
    def find(self, starts: Iterable[Any]) -> dict[int, list[Key]]:
        """Follow the graph from these edges; returns messages that were not known yet, by the worker that sent them."""
        found: dict[int, list[Key]] = {}
        stack = list(starts)
        with self._changed:
            while stack:
                edge = stack.pop()
                node = edge.node if edge.__class__ is Output else edge
                if not isinstance(node, Node) or id(node) in self._seen:
                    continue
                self._seen.add(id(node))
                if isinstance(node, RecvRpcBackward):
                    self.came[id(node)] = node
                    found.setdefault(node.attrs[0], []).append(node.attrs)
                stack.extend(node.edges)
        return found

    def find_from(self, keys: list[Key]) -> dict[int, list[Key]]:
        """The same from messages that this worker sent."""
        with self._changed:
            fresh = [key for key in keys if key not in self.messages]
            self.messages.update(fresh)
        return self.find([self.context.sent[key] for key in fresh])

    # -- going it
    def run(self, roots: list[Tensor], keep: bool) -> None:
        """Do this worker's part of the pass, and wait until gradients that it sent have come."""
        was, contexts.local.crossing = contexts.local.crossing, self
        nodes = [*(self.context.sent[key] for key in self.messages), *self.came.values()]
        try:
            with entered(None):
                run_backward(roots, [None] * len(roots), keep, False, nodes=nodes, add=self.context.gradients.add)
        finally:
            contexts.local.crossing = was
            self.context.gradients.take_back()
        for future in self._under_way:
            future.wait()

    def arrived(self, key: Key) -> list[Any]:
        """The gradients of a message, once they are there."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._gradients or self._error is not None)
            if key not in self._gradients:
                self.check()
            return self._gradients.pop(key)

    def send(self, key: Key, grads: list[Any]) -> None:
        """Send the gradients of a message to its sender."""
        plain = [None if grad is None else grad.detach() for grad in grads]
        self._under_way.append(_call(key[0], _deliver, self.context._number, self.key, key, plain))

    def put(self, key: Key, grads: list[Any]) -> None:
        with self._changed:
            self._gradients[key] = grads
            self._changed.notify_all()

    def check(self) -> None:
        """Raise what the pass was given up for."""
        if self._error is not None:
            raise self._error

    def abort(self, error: BaseException) -> None:
        """Have what waits raise."""
        with self._changed:
            self._error = self._error or RuntimeError(str(error))
            self._changed.notify_all()


def _crossing(number: int, key: Key) -> Crossing:
    context = contexts.find(number)
    with context.lock:
        found: Crossing = context.passes.setdefault(key, Crossing(context, key))
        return found


def _ask(number: int, key: Key, messages: dict[int, list[Key]]) -> Future[set[int]]:
    """A future of all workers that have a part in the pass behind these messages."""
    asked = collect_all([_call(to, _find, number, key, keys) for to, keys in messages.items()])
    return asked.then(lambda done: set(messages).union(*(each.value() for each in done.value())))


# -- what other workers call
@_later
def _find(number: int, key: Key, keys: list[Key]) -> Future[set[int]]:
    return _ask(number, key, _crossing(number, key).find_from(keys))


@_later
def _run(number: int, key: Key, keep: bool) -> Future[None]:
    crossing, done = _crossing(number, key), Future[None]()

    def work() -> None:
        try:
            crossing.run([], keep)
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        finally:
            crossing.context.passes.pop(key, None)

    # A thread of its own: those that serve calls bring the gradients.
    threading.Thread(target=work, daemon=True, name="rpc-backward").start()
    return done


def _deliver(number: int, key: Key, message: Key, grads: list[Any]) -> None:
    _crossing(number, key).put(message, grads)


def _abort(number: int, key: Key, text: str) -> None:
    with suppress(RuntimeError):
        context = contexts.find(number)
        if key in context.passes:
            context.passes[key].abort(RuntimeError(text))


def release(number: int) -> None:
    """Forget a context, here and on the workers that messages in it went to; passes under way are given up."""
    context = contexts.release(number)
    for crossing in list(context.passes.values()) if context is not None else ():
        crossing.abort(RuntimeError(f"autograd context {number} was released"))
    here = None
    with suppress(RuntimeError):
        here = _agent()
    if context is None or here is None:
        return
    for worker in context.workers - {here.me.id}:
        with suppress(Exception):  # one that is gone keeps nothing
            _call(worker, release, number)


def _check(roots: list[Tensor]) -> None:
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for index, root in enumerate(roots):
        if not isinstance(root, Tensor):
            raise TypeError(f"backward: roots must be tensors, got {type(root).__name__}")
        if not root.requires_grad:
            raise RuntimeError(f"requires_grad not set on root: {index}")
        if root.numel() != 1:
            raise RuntimeError(f"root: {index} is not a scalar, all roots need to be scalar")


def backward(context: DistAutogradContext, roots: list[Tensor], keep: bool) -> None:
    """See ``torch.distributed.autograd.backward``."""
    _check(roots)
    here = _agent()
    number, key = context._number, here.new_key()
    crossing = _crossing(number, key)
    try:
        others = _ask(number, key, crossing.find([edge_of(root) for root in roots])).wait() - {here.me.id}
        running = {worker: _call(worker, _run, number, key, keep) for worker in others}

        def stop(error: BaseException) -> None:
            """Have all workers give the pass up: each may wait for gradients that do not come any more."""
            crossing.abort(error)
            for worker in others:
                with suppress(Exception):
                    _call(worker, _abort, number, key, f"the pass failed: {error}")

        for future in running.values():
            future.add_done_callback(lambda done: stop(done._error) if done._error is not None else None)
        try:
            crossing.run(roots, keep)
        except BaseException as error:
            stop(error)
            raise
        collect_all(list(running.values())).wait()
        crossing.check()
    finally:
        context.passes.pop(key, None)
