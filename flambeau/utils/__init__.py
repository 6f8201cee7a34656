"""Tools around training: data loading, checkpointing of activations, and more; each submodule is imported at its first use."""

from __future__ import annotations

import importlib
from typing import Any

from ..core import late as _late
from ..core.tensor import Tensor, swap as _swap

_SEEING = {"summary": "model_summary", "draw_graph": "model_drawing", "draw_compiled": "program_drawing"}
_BACKENDS = ("generate_methods_for_privateuse1_backend", "rename_privateuse1_backend")


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange two tensors: afterwards each object is what the other was, with its class, attributes, memory and history.

    Args:
        t1, t2: tensors of any shape, parameters among them, whose classes have the same slots. Objects that refer to them stay as they are.
    Raises:
        RuntimeError: classes with different slots.
    Example:
        >>> a, b = torch.zeros(2), torch.ones(3)
        >>> torch.utils.swap_tensors(a, b)
        >>> a
        tensor([1., 1., 1.])

    Source: torch.utils.swap_tensors.
    """
    _swap(t1, t2)


def __getattr__(name: str) -> Any:
    if name in _BACKENDS:
        from . import backend_registration

        return getattr(backend_registration, name)
    if name in _SEEING:
        return getattr(importlib.import_module(f"{__name__}.{_SEEING[name]}"), name)
    return _late.submodule(__name__, name, (name,))
