"""``_make_wrapper_subclass`` and ``_make_subclass``: tensors of classes with ``__torch_dispatch__``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays.hollow import hollow
from ..arrays.meta_array import empty_strided, view_at
from ..calls.registry import learn
from ..device import cpu, device
from ..dtype import dtype as Dtype, get_default_dtype
from ..layout import strided
from ..shape import contiguous_strides
from ..state import dispatchers
from ..tensor import Tensor, storage_of


def make_wrapper_subclass(
    cls: type,
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None,
    storage_size: int | None = None,
) -> Any:
    """A tensor of class ``cls`` without values, whose ``__torch_dispatch__`` takes every call.

    Args:
        size, strides, storage_offset, dtype, device: what it says of itself.
        dispatch_sizes_strides_policy, dispatch_device, dispatch_layout: whether the class has such attributes of its own, as a class
            in Python simply does.
        layout, memory_format, pin_memory, storage_size: as they are by default.
    Raises:
        NotImplementedError: another layout, or one of these.
        TypeError: a class without ``__torch_dispatch__``.
    Source: torch.Tensor._make_wrapper_subclass.
    """
    if cls not in dispatchers:
        if getattr(cls, "__torch_dispatch__", None) is None:
            raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
        learn(cls)  # its handler was set after the class was made
    if layout is not strided:
        raise NotImplementedError(f"_make_wrapper_subclass: layout {layout} is not supported")
    if memory_format is not None or pin_memory or storage_size is not None:
        raise NotImplementedError("_make_wrapper_subclass: memory_format, pin_memory and storage_size are not supported")
    kind = (get_default_dtype() if dtype is None else dtype).numpy
    if not isinstance(dtype, (Dtype, type(None))):
        raise TypeError(f"_make_wrapper_subclass(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    sizes = tuple([int(n) for n in size])
    steps = contiguous_strides(sizes) if strides is None else tuple([int(n) for n in strides])
    array = empty_strided(sizes, steps, kind)
    tensor = _new_tensor(cls, hollow(array, _device(device)))
    if storage_offset:
        whole = tensor._array
        storage_of(tensor)
        tensor._array = hollow(
            view_at(whole, sizes, kind, storage_offset * kind.itemsize, [n * kind.itemsize for n in steps]), whole._where
        )
    return tensor.requires_grad_() if requires_grad else tensor


def _device(where: Any) -> device:
    return cpu if where is None else device(where)


def _new_tensor(cls: type, array: Any) -> Any:
    tensor: Any = object.__new__(cls)
    tensor._array = array
    tensor._storage = tensor._node = tensor._view_of = tensor._grad = None
    tensor._requires_grad = False
    return tensor


def make_subclass(
    cls: type,
    data: Tensor,
    require_grad: bool = False,
    *,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    device_for_backend_keys: Any = None,
) -> Any:
    """A tensor of class ``cls`` that shows the memory of ``data`` and has no history.

    Args:
        device_for_backend_keys: a device that it says it lies on; it has no values then.
    Source: torch.Tensor._make_subclass.
    """
    if device_for_backend_keys is not None:
        array = empty_strided(tuple(data.shape), data.stride(), np.dtype(data._array.dtype))
        tensor = _new_tensor(cls, hollow(array, _device(device_for_backend_keys)))
    else:
        tensor = _new_tensor(cls, data._array)
        tensor._storage = storage_of(data)
        tensor._storage._add_alias(tensor)
    return tensor.requires_grad_() if require_grad else tensor
