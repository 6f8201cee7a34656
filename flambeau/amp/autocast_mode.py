"""Autocast, as far as it is off: regions with ``enabled=False``, and those of devices that are not there."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from ..core import dtype as dtypes
from ..core.device import device
from ..core.dtype import dtype as DType

__all__ = [
    "autocast",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]

_CPU_DTYPES = (dtypes.bfloat16, dtypes.float16)
_dtypes: dict[str, DType] = {
    "cpu": dtypes.bfloat16,
    "cuda": dtypes.float16,
    "xpu": dtypes.float16,
    "mps": dtypes.float16,
    "hpu": dtypes.bfloat16,
}
_cache_enabled = True


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for tensors of a device type: not yet.

    Raises:
        RuntimeError: no device type.
    Source: torch.amp.is_autocast_available.
    """
    device(device_type)
    return False


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on for a device type, by default CUDA's: False. Source: torch.is_autocast_enabled."""
    device("cuda" if device_type is None else device_type)
    return False


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU: False. Source: torch.is_autocast_cpu_enabled."""
    return False


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch autocast.

    Raises:
        NotImplementedError: on.
    Source: torch.set_autocast_enabled.
    """
    if device_type is True or enabled:
        _complain()


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype that autocast would compute in. Source: torch.get_autocast_dtype."""
    kind = device(device_type).type
    if kind not in _dtypes:
        raise RuntimeError(f"get_autocast_dtype: expected a device type with autocast, got '{device_type}'")
    return _dtypes[kind]


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Choose the dtype that autocast would compute in. Source: torch.set_autocast_dtype."""
    get_autocast_dtype(device_type)
    _dtypes[device(device_type).type] = dtype


def get_autocast_cpu_dtype() -> DType:
    """``get_autocast_dtype('cpu')``. Source: torch.get_autocast_cpu_dtype."""
    return _dtypes["cpu"]


def get_autocast_gpu_dtype() -> DType:
    """``get_autocast_dtype('cuda')``. Source: torch.get_autocast_gpu_dtype."""
    return _dtypes["cuda"]


def is_autocast_cache_enabled() -> bool:
    """Whether autocast would keep weights that it cast. Source: torch.is_autocast_cache_enabled."""
    return _cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Choose whether autocast would keep weights that it cast. Source: torch.set_autocast_cache_enabled."""
    global _cache_enabled
    _cache_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget weights that autocast cast, of which there are none. Source: torch.clear_autocast_cache."""


def _complain() -> NoReturn:
    raise NotImplementedError("autocast: computing in narrower dtypes is not supported yet; use enabled=False, or cast by hand")


class autocast:
    """A region, or a function, inside which operations would choose narrower dtypes; with ``enabled=False`` one where they do not.

    Args:
        device_type: type of the tensors' device. Where it is one that is not there (``'cuda'`` without a GPU), the region is switched
            off with a warning, as in PyTorch.
        dtype: dtype to compute in; the device type's own when None.
        enabled: whether operations choose.
        cache_enabled: whether weights that were cast are kept for the region.
    Raises:
        ValueError: ``device_type`` is no string.
        RuntimeError: no such device type.
        NotImplementedError: a region that is on.
    Source: torch.autocast.
    """

    def __init__(self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device(device_type).type
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        if enabled and self.device == "cuda" and not _has_cuda():
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", UserWarning, stacklevel=2)
            enabled = False
        if enabled and self.device == "cpu" and self.fast_dtype not in _CPU_DTYPES:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        if enabled:
            _complain()
        self._enabled = False
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """``func``, inside the region whenever it is called."""

        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return inside


def _has_cuda() -> bool:
    from .. import cuda

    return cuda.is_available()


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: DType | None = None) -> Any:
    """Decorator of ``forward`` of an ``autograd.Function``: how it behaves where autocast is on. Elsewhere it changes nothing.

    Args:
        device_type: type of the tensors' device.
        cast_inputs: dtype to which floating point inputs on that device are cast where autocast is on.
    Source: torch.amp.custom_fwd.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = False
        return fwd(*args, **kwargs)

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorator of ``backward`` of an ``autograd.Function``: autocast as it was in ``forward``, which is off.

    Args:
        device_type: type of the tensors' device.
    Source: torch.amp.custom_bwd.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        return bwd(*args, **kwargs)

    return backward
