"""Old constructors: ``torch.Tensor(...)``, ``torch.FloatTensor(...)``, ``torch.FloatStorage(...)`` and type names."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..arrays.kinds import kind_at, moved, place_of
from ..calls.interruption import pass_on
from ..calls.registry import resolve
from ..device import device, set_creation_device
from ..once import warn_once
from ..shape import Size, sizes_of
from ..state import thread
from ..storage import TypedStorage, UntypedStorage
from ..tensor import Tensor, share, wrap


def construct(cls: type, dtype: dtypes.dtype, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Tensor for ``torch.Tensor(...)``: uninitialised for sizes, values for a sequence, an alias for a tensor or storage.

    Raises:
        TypeError: another kind of argument, or a tensor or storage of another dtype.
    """
    where = place_of(kwargs.pop("device", None), cls.__name__)
    args = (*args, *(kwargs.pop(name) for name in ("size", "data") if name in kwargs))
    if kwargs:
        raise TypeError(f"new(): unexpected keyword arguments {sorted(kwargs)}")
    tensor = _constructed(dtype, args)
    if tensor.device != where:
        tensor = wrap(moved(tensor._array, where))
    return tensor if cls is Tensor or not issubclass(cls, Tensor) else tensor.as_subclass(cls)


def construct_default(cls: type, *args: Any, **kwargs: Any) -> Tensor:
    """``torch.Tensor(...)``: of the default dtype."""
    return construct(cls, dtypes.get_default_dtype(), args, kwargs)


def _constructed(dtype: dtypes.dtype, args: tuple[Any, ...]) -> Tensor:
    if not args:
        return wrap(np.empty(0, dtype.numpy))
    first = args[0]
    if len(args) == 1:
        if isinstance(first, Tensor):
            if first.dtype is not dtype:
                raise TypeError(f"expected torch.{dtype.legacy}Tensor (got torch.{first.dtype.legacy}Tensor)")
            return first.detach()
        if isinstance(first, (TypedStorage, UntypedStorage)):
            untyped = first if isinstance(first, UntypedStorage) else first.untyped()
            return share(untyped._flat.view(dtype.numpy), untyped)
        if isinstance(first, Size):
            return wrap(np.empty(tuple(first), dtype.numpy))
        if isinstance(first, (list, tuple, range)):
            return wrap(values_array(first, dtype))
        if isinstance(first, np.ndarray):
            return wrap(np.array(first, dtype.numpy))
        if not hasattr(first, "__index__"):
            raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
    sizes = sizes_of(args, "new")
    if min(sizes) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {list(sizes)}")
    return wrap(np.empty(sizes, dtype.numpy))


def values_array(values: Any, dtype: dtypes.dtype) -> np.ndarray:
    """A new array from nested sequences of numbers, arrays or tensors."""
    try:
        return np.array(values, dtype.numpy)
    except (TypeError, ValueError, OverflowError) as error:
        pass_on(error)
        return resolve("torch", "tensor")(values, dtype=dtype)._array


class _TypedMeta(type):
    """Makes ``isinstance(t, torch.FloatTensor)`` test the tensor's dtype and device."""

    dtype: dtypes.dtype
    is_cuda: bool

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, Tensor) or instance.dtype is not cls.dtype:
            return False
        return instance.device.type == ("cuda" if cls.is_cuda else "cpu")

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def _require_cuda(name: str) -> None:
    """Raise TypeError for a CUDA type where there is no CUDA device."""
    if kind_at(device("cuda")) is None:
        raise TypeError(f"type {name} not available. Torch not compiled with CUDA enabled.")


def typed_constructor(dtype: dtypes.dtype, is_cuda: bool = False) -> Any:
    """The class ``torch.FloatTensor`` for a dtype; calling it makes a plain tensor."""

    def make(cls: Any, *args: Any, **kwargs: Any) -> Tensor:
        if is_cuda:
            _require_cuda(f"{cls.__module__}.{cls.__name__}")
            kwargs.setdefault("device", "cuda")
        return construct(Tensor, dtype, args, kwargs)

    body = {"__new__": make, "dtype": dtype, "is_cuda": is_cuda, "__module__": "torch.cuda" if is_cuda else "torch"}
    module, name = body["__module__"], f"{dtype.legacy}Tensor"
    made = f"assert {module}.{name}(2, 3).shape == (2, 3)"
    body["__doc__"] = (
        f"Old constructor of {dtype} tensors: sizes, or a sequence of values.\n\n"
        "Args:\n    *args: sizes, of elements that nothing was written to; or one sequence, array or tensor of values.\n"
        f"    device: where; of type ``'{'cuda' if is_cuda else 'cpu'}'``.\n"
        f"Source: {module}.{name}.\n"
        "Example:\n    >>> " + (f"if torch.cuda.is_available():\n    ...     {made}" if is_cuda else made)
    )
    return _TypedMeta(f"{dtype.legacy}Tensor", (), body)


CONSTRUCTORS = {
    f"{d.legacy}Tensor": typed_constructor(d)
    for d in dtypes.ALL.values()
    if d.legacy in {"Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double"}
}


def parse_type(given: Any) -> tuple[dtypes.dtype, str | None]:
    """The dtype and the device type that ``'torch.DoubleTensor'``, ``torch.DoubleTensor`` or ``torch.Tensor`` stands for.

    Returns:
        None in place of the device type for a dtype, which stands for none.
    Raises:
        ValueError: an unknown name.
        TypeError: a CUDA type where there is no CUDA device, or something else.
    """
    if given is Tensor:
        return dtypes.get_default_dtype(), "cpu"
    if isinstance(given, _TypedMeta):
        if given.is_cuda:
            _require_cuda(f"torch.cuda.{given.__name__}")
        return given.dtype, "cuda" if given.is_cuda else "cpu"
    if isinstance(given, str):
        module, _, name = given.rpartition(".")
        constructor = CONSTRUCTORS.get(name)
        if given == "torch.Tensor":
            return dtypes.get_default_dtype(), "cpu"
        if constructor is None or module not in ("torch", "torch.cuda"):
            raise ValueError(f"invalid type: '{given}'")
        if module == "torch.cuda":
            _require_cuda(given)
        return constructor.dtype, "cuda" if module == "torch.cuda" else "cpu"
    if isinstance(given, dtypes.dtype):
        return given, None
    raise TypeError(f"dtype must be a type, str, or dtype object, got {type(given).__name__}")


class _StorageMeta(type):
    dtype: dtypes.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype


def _storage_class(dtype: dtypes.dtype) -> Any:
    def make(cls: Any, *args: Any, **kwargs: Any) -> TypedStorage:
        return TypedStorage(*args, dtype=dtype, **kwargs)

    def from_file(filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        return TypedStorage(wrap_storage=UntypedStorage.from_file(filename, shared, size * dtype.itemsize), dtype=dtype)

    name = f"{dtype.legacy}Storage"
    body = {"__new__": make, "from_file": staticmethod(from_file), "dtype": dtype, "__module__": "torch"}
    body["__doc__"] = (
        f"Storage of {dtype} elements.\n\n"
        "Args:\n    *args: a number of elements, or a sequence of values.\n"
        f"Source: torch.{name}.\n"
        f"Example:\n    >>> torch.{name}(3).size()\n    3"
    )
    return _StorageMeta(name, (), body)


STORAGES = {f"{d.legacy}Storage": _storage_class(d) for d in dtypes.ALL.values() if d.numpy is not None}


def storage_class_of(tensor: Tensor) -> Any:
    return STORAGES[f"{tensor.dtype.legacy}Storage"]


def set_default_tensor_type(t: Any) -> None:
    """Set the default float dtype and device by a legacy type. Deprecated: use ``set_default_dtype`` and ``set_default_device``.

    Args:
        t: ``torch.DoubleTensor``, ``'torch.cuda.FloatTensor'`` and the like.
    Source: torch.set_default_tensor_type.
    Example:
        >>> torch.set_default_tensor_type(torch.DoubleTensor)
        >>> torch.tensor(1.5).dtype
        torch.float64
        >>> torch.set_default_tensor_type(torch.FloatTensor)
    """
    dtype, where = parse_type(t)
    text = (
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives."
    )
    warn_once(text, text)
    dtypes.set_default_dtype(dtype)
    if where == "cuda":
        set_creation_device(device("cuda"))
    elif thread.creation_device == device("cuda"):
        set_creation_device(None)
