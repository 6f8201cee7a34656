"""What files, plain pickles and packages of PyTorch's call, under the name of PyTorch's module. Source: torch._utils."""

from __future__ import annotations

from ._exceptions import ExceptionWrapper, KeyErrorMessage
from .core.protocols.rebuild import (
    _rebuild_meta_tensor_no_storage,
    _rebuild_parameter,
    _rebuild_parameter_with_state,
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    _rebuild_wrapper_subclass,
)

__all__ = [
    "ExceptionWrapper",
    "KeyErrorMessage",
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_parameter",
    "_rebuild_parameter_with_state",
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
    "_rebuild_wrapper_subclass",
]
