"""Names that packages read from ``torch._C``, PyTorch's compiled part: those of them that mean something here."""

from __future__ import annotations

from typing import Any

from ...aten.library.depth import below_autograd
from ...aten.schema import Argument, FunctionSchema, parse_schema
from ...aten.tags import DispatchKey, Tag
from ...core import late as _late
from ...core.calls.override import DisableTorchFunction, DisableTorchFunctionSubclass
from ...core.device import device
from ...core.dtype import dtype
from ...core.layout import layout, memory_format
from ...core.random.generator import Generator, default_generator
from ...core.shape import Size
from ...core.state import thread
from ...core.tensor import Tensor
from .. import unsupported
from ..futures import Future
from . import _functorch as _functorch, _nn as _nn

_late.adopt(__name__)

__all__ = [
    "Argument", "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "FunctionSchema", "Future", "Generator", "Size",
    "Tag", "default_generator", "device", "dtype", "layout", "memory_format", "parse_schema",
]  # fmt: skip

TensorBase = Tensor
_TensorBase = Tensor
_TensorMeta = type(Tensor)
_AutoDispatchBelowAutograd = _AutoDispatchBelowADInplaceOrView = below_autograd


def _log_api_usage_once(event: str) -> None:
    """Count the use of an interface; nothing is counted."""


def _get_tracing_state() -> Any:
    """The recorder of the trace that is being made; None without one."""
    return _late.from_above("jit._state").thread.tracer


def _is_tracing() -> bool:
    """Whether operations are being traced."""
    return _get_tracing_state() is not None


def _jit_pass_inline(graph: Any) -> None:
    """Put what a graph calls in the place of the calls."""
    graph.inline()


def _disabled_torch_function_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """``__torch_function__`` of a subclass that overrides nothing: call ``func`` as if its arguments were plain tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _is_torch_function_enabled() -> bool:
    """Whether ``__torch_function__`` of subclasses is called."""
    return thread.function_override


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode sees the calls of operations."""
    return bool(thread.function_modes)


def _len_torch_function_stack() -> int:
    """Number of modes that see the calls of operations."""
    return len(thread.function_modes)


def _are_functorch_transforms_active() -> bool:
    """Whether a function is being transformed."""
    return bool(thread.levels or thread.variables)


def _is_alias_of(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors show the same storage."""
    return tensor.untyped_storage() is other.untyped_storage()


def _get_default_device() -> str:
    """The kind of device on which tensors are made where nothing is said."""
    from ...core.switches import get_default_device

    return get_default_device().type


_COMPILED = {
    **dict.fromkeys(("Block", "Graph", "Node", "Value"), "jit._graph"),
    **dict.fromkeys(("ScriptFunction", "ScriptModule"), "jit._modules"),
    "ScriptObject": "aten.quantized",
    "Type": "aten.schema",
}

globals().update(unsupported.names("_C", "", "PyTorchFileReader PyTorchFileWriter"))


def __getattr__(name: str) -> Any:
    if name in _COMPILED:
        return globals().setdefault(name, getattr(_late.from_above(_COMPILED[name]), name))
    return _late.submodule(__name__, name, ("_profiler",))
