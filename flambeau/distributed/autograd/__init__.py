"""``torch.distributed.autograd``: backward passes through several workers that call each other.

``_contexts.py`` says what is kept for a pass, ``_passes.py`` how one goes.
"""

from __future__ import annotations

from ...core import late as _late
from ...core.tensor import Tensor
from . import _contexts
from ._contexts import DistAutogradContext

_late.adopt(__name__)

__all__ = [
    "DistAutogradContext", "backward", "context", "get_gradients", "is_available",
]  # fmt: skip


def is_available() -> bool:
    """Whether backward passes go through other processes.

    Returns: True.
    Source: torch.distributed.autograd.is_available.
    Example:
        >>> torch.distributed.autograd.is_available()
        True
    """
    return True


class context:
    """A ``with`` block whose remote calls are recorded, so that ``backward`` finds its way back through them.

    Returns: the context's number, which ``backward``, ``get_gradients`` and ``DistributedOptimizer.step`` take.
    Source: torch.distributed.autograd.context.
    Example:
        >>> import tempfile
        >>> rpc = torch.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.distributed.autograd.context() as context_id:
        ...     y = rpc.rpc_sync("alone", torch.mul, args=(x, 3))
        ...     torch.distributed.autograd.backward(context_id, [y.sum()])
        ...     torch.distributed.autograd.get_gradients(context_id)[x]
        tensor([3., 3.])
        >>> rpc.shutdown()
    """

    def __enter__(self) -> int:
        from ..rpc.agent import agent

        if _contexts.current() is not None:
            raise RuntimeError("Already have an autograd context id for this thread")
        self._context = _contexts.create(agent().me.id)
        _contexts.local.context = self._context
        return self._context._context_id()

    def __exit__(self, *raised: object) -> None:
        _contexts.local.context = None
        _release_context(self._context._context_id())


def backward(context_id: int, roots: list[Tensor], retain_graph: bool = False) -> None:
    """Add the gradients of ``roots`` to those of a context, on all workers that took part.

    Args:
        context_id: what ``context`` gave.
        roots: tensors with one element each, of this worker.
        retain_graph: keep what the graph saved, on all workers.
    Raises:
        RuntimeError: no such context, no root, a root of several elements or without history, or what a worker raised.
        TypeError: ``roots`` are no list of tensors.
    Source: torch.distributed.autograd.backward.
    Example: see :class:`context`.
        >>> torch.distributed.autograd.is_available()
        True
    """
    from . import _passes

    if isinstance(roots, Tensor):
        raise TypeError("backward: roots must be a list of tensors, got a tensor")
    _passes.backward(_contexts.find(context_id), list(roots), bool(retain_graph))


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """The gradients of this worker's leaves in a context.

    Args:
        context_id: what ``context`` gave.
    Returns: a dictionary from leaves to gradients, each of its leaf's shape.
    Raises:
        RuntimeError: no such context.
    Source: torch.distributed.autograd.get_gradients.
    Example: see :class:`context`.
        >>> torch.distributed.autograd.is_available()
        True
    """
    return _contexts.find(context_id).gradients.all()


def _new_context() -> DistAutogradContext:
    """A new context, which this thread enters. Source: torch.distributed.autograd."""
    block = context()
    block.__enter__()
    return block._context


def _current_context() -> DistAutogradContext:
    """This thread's context. Source: torch.distributed.autograd."""
    found = _contexts.current()
    if found is None:
        raise RuntimeError(
            "Current thread doesn't have a valid autograd context. Please wrap your code using: `with torch.distributed.autograd.context() "
            "as context_id` to generate a valid context"
        )
    return found


def _retrieve_context(context_id: int) -> DistAutogradContext:
    """This worker's part of a context. Source: torch.distributed.autograd."""
    return _contexts.find(context_id)


def _is_valid_context(worker_id: int) -> None:
    """Raise where there is no such context. Source: torch.distributed.autograd."""
    _contexts.find(worker_id)


def _release_context(context_id: int) -> None:
    """Forget a context on all workers. Source: torch.distributed.autograd."""
    from . import _passes

    _passes.release(context_id)


def _get_debug_info() -> dict[str, int]:
    """Counts, as PyTorch names them. Source: torch.distributed.autograd."""
    passes = sum(len(each.passes) for each in _contexts._contexts.values())
    return {"num_autograd_contexts": len(_contexts._contexts), "num_current_backward_passes": passes}
