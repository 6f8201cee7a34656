"""Page-locked memory for batches on their way to an accelerator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....core.tensor import Tensor
from .containers import is_namedtuple, rebuilt_mapping, rebuilt_sequence


def accelerator_available() -> bool:
    """Whether there is a device to which pinned memory matters."""
    from .... import cuda  # late: it looks for a driver

    return cuda.is_available()


def pin_memory(data: Any, device: Any = None) -> Any:
    """``data`` with all tensors, and objects with a ``pin_memory`` method, in page-locked memory.

    Args:
        data: anything; mappings, sequences and tuples are searched.
        device: not needed any more; the current accelerator is used.
    Returns:
        The same structure.
    Source: torch.utils.data._utils.pin_memory.pin_memory.
    Example:
        >>> pin_memory(["label", 3])
        ['label', 3]
    """
    if isinstance(data, Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return rebuilt_mapping(data, {key: pin_memory(item) for key, item in data.items()})
    if is_namedtuple(data):
        return type(data)(*(pin_memory(item) for item in data))
    if isinstance(data, tuple):
        return type(data)(pin_memory(item) for item in data)
    if isinstance(data, Sequence):
        return rebuilt_sequence(data, [pin_memory(item) for item in data])
    return data
