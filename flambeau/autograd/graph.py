"""Looking at and acting on the tape: nodes, saved-tensor hooks, gradient edges, hooks over several tensors."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from ..core.state import active, thread
from ..core.tape.hooks import RemovableHandle
from ..core.tape.node import Node, edge_of, graph_edge
from ..core.tensor import Tensor, storage_of

_disabled = threading.local()


class saved_tensors_hooks:
    """Context in which every tensor saved for backward goes through ``pack``, and through ``unpack`` when it is needed.

    Args:
        pack_hook: function of the tensor; what it returns is kept instead.
        unpack_hook: function of that; must return a tensor with the same content.
    Raises:
        TypeError: in backward, where ``unpack_hook`` returns no tensor.
    Source: torch.autograd.graph.saved_tensors_hooks.
    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with saved_tensors_hooks(lambda t: print("saved", t.shape) or t, lambda t: t):
        ...     y = x.exp()
        saved torch.Size([2])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        message = getattr(_disabled, "message", None)
        if message is not None:
            raise RuntimeError(message)
        thread.saved_hooks = (*thread.saved_hooks, (self.pack_hook, self.unpack_hook))
        thread.modes += 1
        active[:0] = (None,)

    def __exit__(self, *exc_info: Any) -> None:
        thread.saved_hooks = thread.saved_hooks[:-1]
        thread.modes -= 1
        del active[-1]


class save_on_cpu(saved_tensors_hooks):
    """Context in which saved tensors are kept on the CPU; on CPU tensors it only copies.

    Args:
        pin_memory: not supported without an accelerator.
        device_type: the device they come from.
    Raises:
        NotImplementedError: ``pin_memory`` without an accelerator.
    Source: torch.autograd.graph.save_on_cpu.
    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with save_on_cpu():
        ...     y = (x * x).sum()
        >>> y.backward()
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        if pin_memory:
            raise NotImplementedError("save_on_cpu: pin_memory=True needs an accelerator")
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Any:
    """Context in which entering ``saved_tensors_hooks`` raises ``error_message``.

    Args:
        error_message: text of the RuntimeError.
    Returns: the context.
    Source: torch.autograd.graph.disable_saved_tensors_hooks.
    Example:
        >>> with disable_saved_tensors_hooks("no hooks here"), saved_tensors_hooks(abs, abs):
        ...     pass
        Traceback (most recent call last):
            ...
        RuntimeError: no hooks here
    """
    was = getattr(_disabled, "message", None)
    _disabled.message = error_message
    try:
        yield
    finally:
        _disabled.message = was


class GradientEdge(NamedTuple):
    """The place where a gradient flows: a node and the index of its output.

    Attributes:
        node: of the tape.
        output_nr: which of its outputs.
    Source: torch.autograd.graph.GradientEdge.
    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> GradientEdge((x * 2).grad_fn, 0).output_nr
        0
    """

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge through which ``tensor``'s gradient flows.

    Args:
        tensor: of any shape; one that requires grad.
    Returns: a ``GradientEdge``.
    Raises:
        RuntimeError: the tensor does not require grad.
    Source: torch.autograd.graph.get_gradient_edge.
    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> hidden = x * 2
        >>> torch.autograd.grad((hidden**2).sum(), get_gradient_edge(hidden))
        (tensor([4., 4.]),)
    """
    if not tensor._requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*graph_edge(edge_of(tensor)))


def increment_version(tensor: Any) -> None:
    """Note that ``tensor`` (or each of several) was written to by means that autograd does not see.

    Args:
        tensor: a tensor, or an iterable of them.
    Source: torch.autograd.graph.increment_version.
    Example:
        >>> x = torch.ones(2)
        >>> increment_version(x)
        >>> x._version
        1
    """
    for written in (tensor,) if isinstance(tensor, Tensor) else tensor:
        storage_of(written)._bump()


class _MultiHandle(RemovableHandle):
    """Handle of a hook over several tensors."""

    def __init__(self, handles: Sequence[RemovableHandle]):
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> RemovableHandle:
    """Call ``fn`` once per backward pass for several tensors.

    Args:
        tensors: those to wait for; all require grad.
        fn: with mode 'all' it gets the list of gradients once all are computed; with 'any' the first gradient.
        mode: 'all' or 'any'.
    Returns: a handle; its ``remove()`` ends the calls.
    Raises:
        ValueError: another mode.
    Source: torch.autograd.graph.register_multi_grad_hook.
    Example:
        >>> x, y = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
        >>> handle = register_multi_grad_hook([x, y], lambda grads: print([grad.shape for grad in grads]))
        >>> (x.sum() + y.sum()).backward()
        [torch.Size([2]), torch.Size([3])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    passes: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()  # each thread's pass has its own gradients

    def finish(seen: dict[int, Any]) -> None:
        if seen:
            gradients = [seen.get(i) for i in range(len(tensors))]
            seen.clear()
            fn(gradients)

    def hook_for(index: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            running = thread.running
            seen = passes.get(running)
            is_first = seen is None
            if seen is None:
                seen = passes[running] = {}
            if mode == "any":
                if is_first:
                    fn(grad)
                return
            if is_first:
                running.at_end.append(partial(finish, seen))  # whatever is missing then takes no part in this pass
            seen[index] = grad
            if len(seen) == len(tensors):
                finish(seen)

        return hook

    if not any(tensor._requires_grad for tensor in tensors):
        warnings.warn("register_multi_grad_hook: no tensor requires grad, so the hook will never run", stacklevel=2)
    return _MultiHandle([tensor.register_hook(hook_for(i)) for i, tensor in enumerate(tensors) if tensor._requires_grad])


__all__ = [
    "GradientEdge", "Node", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version", "register_multi_grad_hook",
    "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip
