"""``torch._C._functorch``: questions about tensors that belong to running transforms."""

from __future__ import annotations

from typing import Any

from ...core.state import thread

__all__ = [
    "get_unwrapped", "is_batchedtensor", "is_functorch_wrapped_tensor", "is_gradtrackingtensor", "is_legacy_batchedtensor",
    "maybe_current_level", "maybe_get_bdim", "maybe_get_level",
]  # fmt: skip


def is_functorch_wrapped_tensor(tensor: Any) -> bool:
    """Whether a tensor belongs to a transform that has tensors of its own."""
    from ...func._levels import Wrapped

    return tensor.__class__ is Wrapped


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor stands for a batch within ``vmap``."""
    return maybe_get_bdim(tensor) >= 0


def is_legacy_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor is of PyTorch's first ``vmap``: False."""
    return False


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Whether a tensor has a tangent within ``jvp``; ``grad`` has no tensors of its own here."""
    return is_functorch_wrapped_tensor(tensor) and maybe_get_bdim(tensor) < 0


def maybe_get_bdim(tensor: Any) -> int:
    """The dimension of what is inside that is the batch; -1 where there is none."""
    if not is_functorch_wrapped_tensor(tensor):
        return -1
    from ...func._batch import Batch

    return 0 if isinstance(tensor._owner, Batch) else -1


def maybe_get_level(tensor: Any) -> int:
    """The level of the transform that a tensor belongs to; -1 where it belongs to none."""
    return tensor._owner.level if is_functorch_wrapped_tensor(tensor) else -1


def get_unwrapped(tensor: Any) -> Any:
    """Value inside a tensor of a transform.

    Raises:
        RuntimeError: there is none.
    """
    if not is_functorch_wrapped_tensor(tensor):
        raise RuntimeError("No wrappers present!")
    return tensor._inner


def maybe_current_level() -> int | None:
    """The innermost running transform's level; None where none runs."""
    return len(thread.levels) or None


def __getattr__(name: str) -> Any:
    if name in ("_add_batch_dim", "_remove_batch_dim"):
        from ...func import _vmap

        return getattr(_vmap, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
