"""flambeau: PyTorch's programming model in pure Python. ``import flambeau as torch`` and a PyTorch program runs.

The namespace is filled from the registry of operations; functions are generated, and sub-packages imported, when first used.
"""

from __future__ import annotations

import importlib
import sys
from math import e, inf, nan, pi
from typing import Any

if "ops" not in globals():  # not a reload: what an interrupted import left would mix with what is made now
    for _name in list(sys.modules):
        if _name.startswith(f"{__name__}."):
            del sys.modules[_name]
    importlib.import_module(".core.late", __name__)  # first of all: from here on a fork waits for imports

from . import ops
from .autograd import enable_grad, inference_mode, no_grad, set_grad_enabled
from .autograd.anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled
from .autograd.grad_mode import is_grad_enabled, is_inference_mode_enabled
from .core import dtype as _dtypes, layout as _layouts
from .core.arrays import shared_memory as _shared_memory
from .core.device import device
from .core.dtype import can_cast, dtype, get_default_dtype, promote_types, set_default_dtype
from .core.layout import layout, memory_format
from .core.protocols import methods as _methods
from .core.protocols.legacy import CONSTRUCTORS as _CONSTRUCTORS, STORAGES as _STORAGES, set_default_tensor_type
from .core.random.generator import Generator, default_generator
from .core.shape import Size
from .core.state import modes as _modes
from .core.storage import TypedStorage, UntypedStorage
from .core.tensor import Tensor
from .facades import modules as _facades
from .ops.inspection import finfo, iinfo
from .version import __version__

_facades.install()
_FACADES = frozenset(name for name in (*_facades.ELSEWHERE, *_facades.NAMES) if "." not in name)
_SUBMODULES = frozenset(
    "accelerator amp autograd backends compiler cuda distributed distributions export fft func fx hub jit library linalg masked "
    "multiprocessing nested nn onnx optim overrides profiler random serialization signal sparse special storage testing types "
    "utils version vision".split()
)
# Names that are looked up when they are first used, by the module that has them.
_NAMES_OF_MODULES = {
    "accelerator": "_register_device_module get_device_module",
    "amp.autocast_mode": (
        "autocast autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache get_autocast_cpu_dtype get_autocast_dtype "
        "get_autocast_gpu_dtype is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled set_autocast_cache_enabled "
        "set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype"
    ),
    "amp.grad_scaler": "GradScaler",
    "aten.quantized": "ScriptObject",
    "aten.tags": "Tag",
    "compiler": "compile",
    "jit": "fork wait",
    "core.calls.override": "DisableTorchFunction",
    "core.checks": (
        "SymBool SymFloat SymInt _assert _assert_async _check _check_index _check_is_size _check_not_implemented _check_tensor_all "
        "_check_tensor_all_with _check_type _check_value _check_with sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum"
    ),
    "core.protocols.printing": "set_printoptions",
    "core.protocols.quantized": (
        "_empty_affine_quantized _make_per_channel_quantized_tensor _make_per_tensor_quantized_tensor empty_quantized quantize_per_channel "
        "quantize_per_tensor quantize_per_tensor_dynamic"
    ),
    "core.quantizer": (
        "per_channel_affine per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine per_tensor_symmetric qscheme"
    ),
    "core.switches": (
        "AcceleratorError OutOfMemoryError are_deterministic_algorithms_enabled get_default_device get_deterministic_debug_mode "
        "get_float32_matmul_precision is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled set_default_device "
        "set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_warn_always use_deterministic_algorithms"
    ),
    "facades._C": "DisableTorchFunctionSubclass Future PyTorchFileReader PyTorchFileWriter ScriptFunction ScriptModule",
    "facades.more_names": (
        "Event FatalError JITException StorageBase Stream _segment_reduce compiled_with_cxx11_abi get_file_path has_lapack has_mkl "
        "has_openmp has_spectral init_num_threads is_vulkan_available legacy_contiguous_format prepare_multiprocessing_environment "
        "set_anomaly_enabled sym_constrain_range sym_constrain_range_for_size sym_fresh_size thread_safe_generator"
    ),
    "func": "vmap",
    "fx.control_flow": "cond while_loop",
    "serialization": "load save",
}
_MODULE_OF = {_name: _module for _module, _listed in _NAMES_OF_MODULES.items() for _name in _listed.split()}
Storage = TypedStorage
newaxis = None
_PACKAGE: Any = __package__  # ``__name__`` is "torch" where flambeau stands in for PyTorch


def _share_in_pickles() -> None:
    """Have ``multiprocessing`` pass tensors on by handle, by whatever name the program knows it."""
    importlib.import_module(".multiprocessing.reductions", _PACKAGE)


_shared_memory.process.when_made = _share_in_pickles
_modes.find_below = lambda: importlib.import_module(".aten.below", _PACKAGE)
ops.custom.find = lambda name: importlib.import_module(".aten.namespaces", _PACKAGE).ops.find(name)
if "multiprocessing.reduction" in sys.modules:
    _share_in_pickles()

_names = globals()
_names.update(_dtypes.ALL)
_names.update(_CONSTRUCTORS)
_names.update(_STORAGES)
_names.update({value.name: value for value in vars(_layouts).values() if isinstance(value, (layout, memory_format))})


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor.

    Args:
        obj: anything.
    Returns: a bool.
    Source: torch.is_tensor.
    Example:
        >>> torch.is_tensor(torch.ones(1)), torch.is_tensor([1.0])
        (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is a storage.

    Args:
        obj: anything.
    Returns: a bool.
    Source: torch.is_storage.
    Example:
        >>> torch.is_storage(torch.ones(1).untyped_storage()), torch.is_storage(torch.ones(1))
        (True, False)
    """
    return isinstance(obj, (UntypedStorage, TypedStorage))


def typename(obj: Any) -> str:
    """Dotted name of an object's type; a tensor's legacy type name.

    Args:
        obj: anything.
    Returns: a string.
    Source: torch.typename.
    Example:
        >>> torch.typename(torch.ones(1)), torch.typename(3)
        ('torch.FloatTensor', 'int')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    module = getattr(obj, "__module__", None) or kind.__module__
    name = getattr(obj, "__qualname__", None) or kind.__qualname__
    return name if module in (None, "builtins") else f"{module}.{name}"


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f".{name}", _PACKAGE)
        except ModuleNotFoundError as error:
            if error.name != f"{_PACKAGE}.{name}":
                raise
            raise AttributeError(f"module 'torch' has no attribute '{name}'") from None
    if name in _FACADES:
        attribute = _facades.module(name)
    elif name in _MODULE_OF:
        attribute = getattr(importlib.import_module(f".{_MODULE_OF[name]}", _PACKAGE), name)
    elif name == "torch":  # packages write torch.torch
        attribute = sys.modules[_PACKAGE]
    elif name.startswith("_foreach_"):
        attribute = importlib.import_module(".ops.foreach", _PACKAGE).function(name)
    elif name.startswith("_") and not name.startswith("__"):
        attribute = _private(name)
    else:
        attribute = ops.resolve("torch", name)
    _names[name] = attribute
    return attribute


def _private(name: str) -> Any:
    """An operation that users do not call by name, or one of PyTorch's kernels.

    Raises:
        AttributeError: there is none.
    """
    try:
        return ops.resolve("torch", name)
    except AttributeError as error:
        aten = importlib.import_module(".aten.namespaces", _PACKAGE).ops.aten
        packet = getattr(aten, name, None)
        if packet is None:
            raise error
        return packet


def __dir__() -> list[str]:
    return sorted({"torch", *_SUBMODULES, *_FACADES, *_MODULE_OF, *_names, *ops.names("torch")})


__all__ = [
    "Size", "Tensor", "__version__", "can_cast", "device", "dtype", "e", "enable_grad", "finfo", "get_default_dtype", "iinfo", "inf",
    "inference_mode", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_grad_enabled", "is_inference_mode_enabled", "is_storage",
    "is_tensor", "nan", "newaxis", "no_grad", "pi", "promote_types", "set_default_dtype", "set_default_tensor_type", "set_grad_enabled",
    "typename",
]  # fmt: skip
