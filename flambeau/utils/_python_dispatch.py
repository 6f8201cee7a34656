"""``__torch_dispatch__`` is not supported: no tensor wraps others. Source: torch.utils._python_dispatch."""

from __future__ import annotations

from typing import Any

from .. import _unsupported

__all__ = ["is_in_torch_dispatch_mode", "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type"]


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor consists of other tensors that a compiler can see: by ``__tensor_flatten__`` and ``__tensor_unflatten__``."""
    return is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether the tensors of a class consist of others."""
    from ..core.tensor import Tensor

    return issubclass(t, Tensor) and t is not Tensor and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode sees what operations dispatch: False."""
    return False


globals().update(
    _unsupported.names(
        "utils._python_dispatch", "return_and_correct_aliasing transform_subclass", "BaseTorchDispatchMode TorchDispatchMode"
    )
)
