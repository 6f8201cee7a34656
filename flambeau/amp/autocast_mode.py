"""Autocast: regions in which listed operations choose their dtype; ``core.calls.autocast`` has the casts themselves."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..core.calls import autocast as regions
from ..core.device import device
from ..core.dtype import bfloat16, dtype as DType, float16
from ..core.tensor import Tensor

__all__ = [
    "autocast", "autocast_decorator", "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "custom_bwd",
    "custom_fwd", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_available",
    "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
]  # fmt: skip


# -- settings of a thread ---------------------------------------------------------------------------------------------------------
def _type_of(device_type: Any, function: str) -> str:
    if not isinstance(device_type, str):
        raise TypeError(f"{function}(): argument 'device_type' (position 1) must be str, not {type(device_type).__name__}")
    return device(device_type).type


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for tensors of a device type.

    Args:
        device_type: its name, such as ``'cpu'``.
    Returns: a bool.
    Raises:
        RuntimeError: no device type.
    Source: torch.amp.is_autocast_available.
    Example:
        >>> is_autocast_available("cpu"), is_autocast_available("meta")
        (True, False)
    """
    return _type_of(device_type, "_is_autocast_available") in regions.DTYPES


def _listed_type(device_type: Any, function: str) -> str:
    kind = _type_of(device_type, function)
    if kind not in regions.DTYPES:
        raise RuntimeError(f"unknown device type for autocast in get_autocast_dispatch_key_from_device_type: '{kind}'")
    return kind


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether this thread autocasts for a device type, by default CUDA's.

    Args:
        device_type: its name; CUDA's when None.
    Returns: a bool.
    Raises:
        RuntimeError: no device type with autocast.
    Source: torch.is_autocast_enabled.
    Example:
        >>> with autocast("cpu"):
        ...     is_autocast_enabled("cpu"), is_autocast_enabled("cuda")
        (True, False)
    """
    return regions.is_on("cuda" if device_type is None else _listed_type(device_type, "is_autocast_enabled"))


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switches autocast in this thread, for a device type or, with one argument, for CUDA; the end of a region restores it.

    Args:
        device_type: its name; with one argument, the bool.
        enabled: on or off.
    Raises:
        RuntimeError: no device type with autocast.
    Source: torch.set_autocast_enabled.
    Example:
        >>> with autocast("cpu"):
        ...     set_autocast_enabled("cpu", False)
        ...     is_autocast_enabled("cpu")
        False
    """
    if enabled is None:
        device_type, enabled, place = "cuda", device_type, 1
    else:
        place = 2
    if not isinstance(enabled, bool):
        raise TypeError(f"set_autocast_enabled(): argument 'enabled' (position {place}) must be bool, not {type(enabled).__name__}")
    regions.adjust(_listed_type(device_type, "set_autocast_enabled"), enabled=enabled)


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype that autocast computes in on a device type.

    Args:
        device_type: its name.
    Returns: a dtype; bfloat16 on the CPU and float16 on CUDA at first.
    Raises:
        RuntimeError: no device type with autocast.
    Source: torch.get_autocast_dtype.
    Example:
        >>> get_autocast_dtype("cpu"), get_autocast_dtype("cuda")
        (torch.bfloat16, torch.float16)
    """
    checked = _type_of(device_type, "get_autocast_dtype")
    dtype = regions.current().dtypes.get(checked)
    if dtype is None:
        raise RuntimeError(f"unsupported scalarType: there is no autocast for '{checked}'")
    return dtype


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Choose the dtype that autocast computes in on a device type, in this thread.

    Args:
        device_type: its name.
        dtype: for the regions that name none.
    Raises:
        RuntimeError: no device type with autocast.
    Source: torch.set_autocast_dtype.
    Example:
        >>> with autocast("cpu", torch.float16):
        ...     set_autocast_dtype("cpu", torch.bfloat16)
        ...     torch.mm(torch.ones(1, 1), torch.ones(1, 1)).dtype
        torch.bfloat16
    """
    if not isinstance(dtype, DType):
        raise TypeError(f"set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {type(dtype).__name__}")
    regions.adjust(_type_of(device_type, "set_autocast_dtype"), dtype=dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept for the region.

    Returns: a bool; True at first.
    Source: torch.is_autocast_cache_enabled.
    Example:
        >>> is_autocast_cache_enabled()
        True
    """
    return regions.current().keeps


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Choose whether casts of parameters are kept.

    Args:
        enabled: True to keep them.
    Source: torch.set_autocast_cache_enabled.
    Example:
        >>> with autocast("cpu", cache_enabled=True):
        ...     set_autocast_cache_enabled(False)
        ...     is_autocast_cache_enabled()
        False
    """
    regions.adjust(keeps=bool(enabled))


def clear_autocast_cache() -> None:
    """Forget the casts of parameters that this thread keeps.

    Source: torch.clear_autocast_cache.
    Example:
        >>> with autocast("cpu"):
        ...     clear_autocast_cache()
    """
    regions.kept.casts = {}


def autocast_increment_nesting() -> int:
    """Counts a region more, by hand.

    Returns: how many there are then.
    Source: torch.autocast_increment_nesting.
    Example:
        >>> autocast_increment_nesting(), autocast_decrement_nesting()
        (1, 0)
    """
    return regions.add_nesting(1)


def autocast_decrement_nesting() -> int:
    """Counts a region less, by hand.

    Returns: how many are left.
    Source: torch.autocast_decrement_nesting.
    Example:
        >>> autocast_increment_nesting(), autocast_decrement_nesting()
        (1, 0)
    """
    return regions.add_nesting(-1)


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"torch.{old} is deprecated. Please use torch.{new} instead.", DeprecationWarning, stacklevel=3)


def is_autocast_cpu_enabled() -> bool:
    """``is_autocast_enabled('cpu')``, which it is deprecated for.

    Returns: a bool.
    Source: torch.is_autocast_cpu_enabled.
    Example:
        >>> is_autocast_cpu_enabled()
        False
    """
    _deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """``set_autocast_enabled('cpu', enabled)``, which it is deprecated for.

    Args:
        enabled: on or off.
    Source: torch.set_autocast_cpu_enabled.
    Example:
        >>> with autocast("cpu"):
        ...     set_autocast_cpu_enabled(False)
    """
    _deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """``get_autocast_dtype('cpu')``, which it is deprecated for.

    Returns: a dtype.
    Source: torch.get_autocast_cpu_dtype.
    Example:
        >>> get_autocast_cpu_dtype()
        torch.bfloat16
    """
    _deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """``set_autocast_dtype('cpu', dtype)``, which it is deprecated for.

    Args:
        dtype: for the regions that name none.
    Source: torch.set_autocast_cpu_dtype.
    Example:
        >>> set_autocast_cpu_dtype(torch.bfloat16)
    """
    _deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> DType:
    """``get_autocast_dtype('cuda')``, which it is deprecated for.

    Returns: a dtype.
    Source: torch.get_autocast_gpu_dtype.
    Example:
        >>> get_autocast_gpu_dtype()
        torch.float16
    """
    _deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """``set_autocast_dtype('cuda', dtype)``, which it is deprecated for.

    Args:
        dtype: for the regions that name none.
    Source: torch.set_autocast_gpu_dtype.
    Example:
        >>> set_autocast_gpu_dtype(torch.float16)
    """
    _deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)


# -- regions -----------------------------------------------------------------------------------------------------------------------
class autocast:
    """A region, or a function, inside which listed operations choose their dtype: products a narrow one, losses and the like float32.

    Which operations those are, [operations.md] lists; all others take their operands as they come. Gradients come back
    through the casts, so that a parameter's gradient has the parameter's dtype. A backward pass does not belong inside.

    Args:
        device_type: type of the tensors' device. Where the device is unavailable (``'cuda'`` without a GPU), the region is switched
            off with a warning.
        dtype: dtype to compute in, bfloat16 or float16; the device type's own when None. Another one switches the region off, with a
            warning.
        enabled: whether operations choose their dtype. False makes a region without autocast, usually inside another region.
        cache_enabled: whether casts of parameters are kept until the outermost region ends. A parameter that is changed meanwhile
            then keeps its old cast. None takes the setting of the surrounding region.
    Raises:
        ValueError: ``device_type`` is no string.
        RuntimeError: no such device type, or none with autocast.
    Example:
        >>> import flambeau as torch
        >>> layer = torch.nn.Linear(4, 2)
        >>> with torch.autocast("cpu", torch.bfloat16):
        ...     y = layer(torch.ones(3, 4))
        >>> y.float().sum().backward()
        >>> y.dtype, layer.weight.grad.dtype
        (torch.bfloat16, torch.float32)

    Source: torch.autocast.
    """

    def __init__(self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self._type = device_type if device_type in ("cpu", "cuda") else device(device_type).type
        if self._type not in regions.DTYPES:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.fast_dtype = regions.current().dtypes[self._type] if dtype is None else dtype
        if enabled and self._type == "cuda" and not _has_cuda():
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", UserWarning, stacklevel=_level(self))
            enabled = False
        if enabled and self.fast_dtype not in self._allowed():
            name = device_type.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {', '.join(map(str, self._allowed()))} currently.",
                UserWarning,
                stacklevel=_level(self),
            )
            enabled = False
        self._enabled = enabled
        self._cache_enabled = regions.current().keeps if cache_enabled is None else cache_enabled

    def _allowed(self) -> list[DType]:
        if self._type != "privateuseone":
            return [bfloat16, float16]
        from ..accelerator import get_device_module

        try:
            return list(get_device_module("privateuseone").get_amp_supported_dtype())
        except (RuntimeError, AttributeError):
            raise AssertionError(
                "Tried to use AMP with the `privateuseone` backend, but the backend has not registered a module or the module misses "
                "some necessary functions. The backend should register a module by `torch._register_device_module`, and the module must "
                "have these funcs: \n`get_amp_supported_dtype() -> List[torch.dtype]`. \n"
            ) from None

    def __enter__(self) -> autocast:
        outside = regions.current()
        try:
            regions.enter(self._type, self.fast_dtype, self._enabled, self._cache_enabled, self)
        except BaseException:  # an interrupt, before or after it: __exit__ is not called then
            if regions.current() is not outside:
                regions.leave(self)
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        inside = None
        try:
            inside = regions.current()
            regions.leave(self)
        except BaseException:
            if inside is None or regions.current() is inside:
                regions.leave(self)
            raise

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """``func``, inside the region whenever it is called."""
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Callable[..., Any]:
    """``func``, inside the region whenever it is called.

    Args:
        autocast_instance: the region.
        func: any function.
    Returns: the function around it.
    Source: torch.amp.autocast_mode.autocast_decorator.
    Example:
        >>> product = autocast_decorator(autocast("cpu"), torch.mm)
        >>> product(torch.ones(1, 1), torch.ones(1, 1)).dtype
        torch.bfloat16
    """

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    inside.__script_unsupported = "@autocast() decorator is not supported in script mode"  # type: ignore[attr-defined]
    return inside


def _level(instance: autocast) -> int:
    """Number of frames between the constructor and its caller: the older spellings' lie between."""
    return 3 if type(instance) is autocast else 4


def _has_cuda() -> bool:
    from .. import cuda

    return cuda.is_available()


def _enter_autocast(*args: Any) -> autocast:
    """Begin a region by hand. Source: torch.amp.autocast_mode._enter_autocast."""
    return autocast(*args).__enter__()


def _exit_autocast(mode: autocast) -> None:
    """End it. Source: torch.amp.autocast_mode._exit_autocast."""
    mode.__exit__(None, None, None)


# -- functions with a derivative of their own -----------------------------------------------------------------------------------------
def _cast(value: Any, device_type: str, dtype: DType) -> Any:
    """``value`` with the floating point tensors on a type of device, at any depth, as ``dtype``."""
    if isinstance(value, Tensor):
        return value.to(dtype) if regions.is_eligible(value, device_type) else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        return {_cast(key, device_type, dtype): _cast(item, device_type, dtype) for key, item in value.items()}
    if isinstance(value, Iterable):
        items = [_cast(item, device_type, dtype) for item in value]
        return type(value)(items) if isinstance(value, (list, tuple)) else items
    return value


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: DType | None = None) -> Any:
    """Decorator of ``forward`` of an ``autograd.Function``: how it behaves where autocast is on. Elsewhere it changes nothing.

    Args:
        fwd: the static method; when None, a decorator is returned.
        device_type: type of the tensors' device.
        cast_inputs: dtype to which floating point inputs on that device are cast where autocast is on, which is off inside then. When
            None, ``forward`` sees autocast as it is around.
    Returns: the method, or the decorator.
    Raises:
        ValueError: ``device_type`` is no string.
    Source: torch.amp.custom_fwd.
    Example:
        >>> class Exp(torch.autograd.Function):
        ...     forward = staticmethod(custom_fwd(lambda ctx, x: x.exp(), device_type="cpu", cast_inputs=torch.float32))
        >>> with autocast("cpu"):
        ...     Exp.apply(torch.ones(1, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        is_on = is_autocast_enabled(device_type)
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = is_on and cast_inputs is None
        if not is_on or cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorator of ``backward`` of an ``autograd.Function``: autocast as it was in ``forward``.

    Args:
        bwd: the static method; when None, a decorator is returned.
        device_type: type of the tensors' device.
    Returns: the method, or the decorator.
    Raises:
        ValueError: ``device_type`` is no string.
    Source: torch.amp.custom_bwd.
    Example:
        >>> backward = custom_bwd(lambda ctx, grad: 2 * grad, device_type="cpu")
        >>> callable(backward)
        True
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, args[0]._dtype, args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return backward
