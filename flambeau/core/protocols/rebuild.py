"""Tensors taken apart for pickle and ``copy.deepcopy``, and put together again.

The functions named ``_rebuild_...`` are what files call: their names and arguments are those of PyTorch's file format. They check every
number they are given, because a file may come from anybody, and a wrong stride would reach memory outside the storage.
"""

from __future__ import annotations

import copyreg
import warnings
from collections import OrderedDict
from copy import deepcopy
from typing import Any, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np

from .. import dtype as dtypes
from ..arrays.hollow import HollowArray
from ..arrays.kinds import kind_of, make_at, moved, on_device_of, place_of, view_at
from ..device import cpu, device
from ..layout import empty_strided_array, layout, sparse_coo, strided
from ..shape import Size, contiguous_strides, element_strides
from ..storage import TypedStorage, UntypedStorage
from ..tensor import Parameter, Tensor, share, storage_of, wrap

__all__ = ["deepcopy_tensor", "reduce_parameter", "reduce_storage", "reduce_tensor"]

AnyTensor = TypeVar("AnyTensor", bound=Tensor)
Sizes = tuple[int, ...]

# Hooks are code of the running program, not part of the value.
_HOOKS = frozenset(("_backward_hooks", "_post_accumulate_grad_hooks"))

# Element types that files store as bare bytes with the dtype beside them; all others have a storage class of their own.
WITHOUT_STORAGE_CLASS = frozenset(
    dtype
    for dtype in dtypes.ALL.values()
    if (dtype.numpy is None and not dtype.name.startswith("q"))
    or dtype.name in ("uint16", "uint32", "uint64", "complex32")
    or dtype.name.startswith("float8")
)

# By storage: its conjugated and negated copies, which tensors of one file share as they share the storage.
_RESOLVED: WeakKeyDictionary[UntypedStorage, dict[Any, ReferenceType[UntypedStorage]]] = WeakKeyDictionary()


# -- taking apart ---------------------------------------------------------------------------------------------------------
def reduce_tensor(tensor: Tensor, protocol: Any) -> tuple[Any, ...]:
    """Implement ``Tensor.__reduce_ex__``: values, shape, strides, ``requires_grad``, and for subclasses type and attributes.

    A tensor computed from others comes back as a leaf; hooks are left out, with a warning.

    Source: torch.Tensor.__reduce_ex__.
    """
    warn_of_hooks(tensor)
    function, args = _parts(tensor, tensor.requires_grad)
    state = _state_of(tensor)
    if type(tensor) is Tensor and not state:
        return function, args
    return _rebuild_from_type_v2, (function, type(tensor), args, state)


def reduce_parameter(parameter: Parameter, protocol: Any) -> tuple[Any, ...]:
    """Implement ``Parameter.__reduce_ex__``; see ``reduce_tensor``.

    Source: torch.nn.Parameter.__reduce_ex__.
    """
    warn_of_hooks(parameter)
    data = share(parameter._array, storage_of(parameter))
    args: tuple[Any, ...] = (data, parameter.requires_grad, OrderedDict())
    state = _state_of(parameter)
    return (_rebuild_parameter_with_state, (*args, state)) if state else (_rebuild_parameter, args)


def _parts(tensor: Tensor, requires_grad: bool) -> tuple[Any, tuple[Any, ...]]:
    """The rebuilding function and its arguments for the tensor without its Python side."""
    if tensor._array.__class__ is not np.ndarray:
        if tensor.layout is not strided:
            return _rebuild_sparse_tensor, (tensor.layout, _sparse_parts(tensor))
        if tensor._array.__class__ is HollowArray:
            sizes = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
            return _rebuild_wrapper_subclass, (type(tensor), tensor.dtype, *sizes, tensor.layout, tensor.device, requires_grad)
        if not kind_of(tensor._array).has_values:
            return _rebuild_meta_tensor_no_storage, (tensor.dtype, tuple(tensor.shape), tensor.stride(), requires_grad)
    dtype, storage = tensor.dtype, storage_of(tensor)
    shape = tuple(tensor._array.shape)
    # NumPy gives some empty arrays strides of 0, which PyTorch would not.
    where = (tensor.storage_offset(), shape, element_strides(tensor._array) if tensor._array.size else contiguous_strides(shape))
    if dtype in WITHOUT_STORAGE_CLASS:
        return _rebuild_tensor_v3, (storage, *where, requires_grad, OrderedDict(), dtype)
    return _rebuild_tensor_v2, (TypedStorage(wrap_storage=storage, dtype=dtype), *where, requires_grad, OrderedDict())


def _sparse_parts(tensor: Tensor) -> tuple[Any, ...]:
    """Parts of a sparse tensor in files, in PyTorch's order."""
    array: Any = tensor._array
    tensors = [wrap(part) for part in (*array.parts, array.values)]
    return (*tensors, Size(array.shape), *([array.coalesced] if tensor.layout is sparse_coo else []))


def _state_of(tensor: Tensor) -> Any:
    """Attributes set on the tensor: a dict, a pair (dict, dict of slots), what its own ``__getstate__`` gives, or None."""
    cls = type(tensor)
    if cls.__getstate__ is not object.__getstate__:
        return cls.__getstate__(tensor)
    if cls in (Tensor, Parameter) and not tensor.__dict__:
        return None
    attributes = {name: value for name, value in tensor.__dict__.items() if name not in _HOOKS}
    slots = {name: getattr(tensor, name) for name in _own_slots(cls) if hasattr(tensor, name)}
    return (attributes, slots) if slots else attributes or None


def _own_slots(cls: type) -> list[str]:
    """Slots that a subclass adds to Tensor's."""
    return [name for name in copyreg._slotnames(cls) if name not in Tensor.__slots__]  # type: ignore[attr-defined]


def warn_of_hooks(tensor: Tensor) -> None:
    for hook in tensor.__dict__.get("_backward_hooks", {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can decorate the function with "
                "@torch.utils.hooks.unserializable_hook to suppress this warning",
                UserWarning,
                stacklevel=4,
            )


# -- putting together -----------------------------------------------------------------------------------------------------
def shown(value: Any) -> str:
    """A value from a file as messages show it: the ``repr`` of a file's object may take for ever, so of most only the type is named."""
    if type(value) in (tuple, list) and len(value) <= 8:
        inner = ", ".join(_shown_alone(item) for item in value)
        return f"[{inner}]" if type(value) is list else f"({inner})"
    return _shown_alone(value)


def _shown_alone(value: Any) -> str:
    if value is None or type(value) in (bool, float, complex) or isinstance(value, (type, dtypes.dtype)):
        return repr(value)
    if type(value) is int:
        return repr(value) if abs(value) < 10**30 else "a very large int"
    if type(value) in (str, bytes):
        return repr(value) if len(value) <= 80 else f"{value[:80]!r}..."
    return f"an object of type {type(value).__name__}"


def _unexpected(expected: str, got: Any) -> RuntimeError:
    return RuntimeError(f"rebuild_tensor: expected {expected}, got {shown(got)}")


def _require(holds: bool, expected: str, got: Any) -> None:
    if not holds:
        raise _unexpected(expected, got)


def _are_counts(values: Any) -> bool:
    return isinstance(values, (tuple, list)) and {*map(type, values)} <= {int} and min(values, default=0) >= 0


def strided_view(storage: UntypedStorage, offset: int, size: tuple[int, ...], stride: tuple[int, ...], dtype: dtypes.dtype) -> np.ndarray:
    """The array of a tensor in a storage.

    Args:
        offset: of the first element, in elements, as ``stride``.
    Raises:
        RuntimeError: an element would lie outside the storage, or a number is negative.
        NotImplementedError: a dtype without arrays.
    """
    if type(offset) is not int or offset < 0:
        raise _unexpected("a storage offset of 0 or more", offset)
    if not _are_counts(size):
        raise _unexpected("sizes of 0 or more", size)
    if not _are_counts(stride) or len(stride) != len(size):
        raise _unexpected(f"{len(size)} strides of 0 or more", stride)
    if dtype.numpy is None:
        raise NotImplementedError(f"rebuild_tensor: tensors of {dtype} are not supported")
    itemsize, available = dtype.itemsize, storage._flat
    if 0 in size:
        # NumPy demands a byte to point at even where there is no element.
        if available.nbytes < itemsize:
            available = make_at(storage.device, np.empty, itemsize, np.uint8)
        return view_at(available, size, dtype.numpy, 0, [step * itemsize for step in contiguous_strides(tuple(size))])
    reach = (offset + sum([(n - 1) * step for n, step in zip(size, stride, strict=True)]) + 1) * itemsize
    if reach > available.nbytes:
        raise RuntimeError(
            f"rebuild_tensor: expected a storage of at least {reach} bytes for size {tuple(size)}, stride {tuple(stride)}, storage offset "
            f"{offset} and {dtype}, got {available.nbytes} bytes"
        )
    return view_at(available, size, dtype.numpy, offset * itemsize, [step * itemsize for step in stride])


def _with_hooks(tensor: AnyTensor, backward_hooks: Any) -> AnyTensor:
    # Files of today hold an empty dictionary here; old ones may hold hooks.
    if backward_hooks:
        _require(isinstance(backward_hooks, dict), "backward hooks in a dict", backward_hooks)
        tensor.__dict__["_backward_hooks"] = backward_hooks
    return tensor


def _rebuild_tensor(storage: TypedStorage, storage_offset: int, size: Sizes, stride: Sizes, metadata: Any = None) -> Tensor:
    """A tensor in a storage whose dtype it takes."""
    _require(isinstance(storage, TypedStorage), "a typed storage", type(storage).__name__)
    untyped = _resolved(storage._untyped_storage, storage.dtype, metadata)
    return share(strided_view(untyped, storage_offset, size, stride, storage.dtype), untyped)


def _rebuild_tensor_v2(
    storage: TypedStorage, storage_offset: int, size: Sizes, stride: Sizes, requires_grad: bool, backward_hooks: Any, metadata: Any = None
) -> Tensor:
    """The usual form; ``metadata`` says whether the values are to be conjugated or negated."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride, metadata)
    return _with_hooks(tensor.requires_grad_(bool(requires_grad)), backward_hooks)


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: int,
    size: Sizes,
    stride: Sizes,
    requires_grad: bool,
    backward_hooks: Any,
    dtype: dtypes.dtype,
    metadata: Any = None,
) -> Tensor:
    """The form for dtypes without a storage class: bare bytes and the dtype."""
    untyped = storage._untyped_storage if isinstance(storage, TypedStorage) else storage
    _require(isinstance(untyped, UntypedStorage), "a storage", type(storage).__name__)
    _require(isinstance(dtype, dtypes.dtype), "a dtype", dtype)
    untyped = _resolved(untyped, dtype, metadata)
    tensor = share(strided_view(untyped, storage_offset, size, stride, dtype), untyped)
    return _with_hooks(tensor.requires_grad_(bool(requires_grad)), backward_hooks)


def _rebuild_meta_tensor_no_storage(dtype: dtypes.dtype, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool) -> Tensor:
    """The form for tensors without values."""
    _require(isinstance(dtype, dtypes.dtype), "a dtype", dtype)
    array = make_at(place_of("meta"), empty_strided_array, tuple(size), tuple(stride), dtype.numpy)
    return wrap(array).requires_grad_(bool(requires_grad))


def _rebuild_wrapper_subclass(
    cls: type, dtype: dtypes.dtype, size: Sizes, stride: Sizes, storage_offset: int, form: layout, where: device, requires_grad: bool
) -> Any:
    """The form for tensors around others, which are among its attributes."""
    _require(isinstance(cls, type) and issubclass(cls, Tensor), "a subclass of Tensor", cls)
    _require(isinstance(dtype, dtypes.dtype), "a dtype", dtype)
    _require(isinstance(where, device), "a device", where)
    made: Any = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        cls, tuple(size), tuple(stride), storage_offset, dtype=dtype, layout=form, device=where, requires_grad=bool(requires_grad)
    )
    return made


def _rebuild_sparse_tensor(form: layout, data: tuple[Any, ...]) -> Tensor:
    """The form for sparse tensors: indices, values, size and, for COO, whether it is coalesced (unknown in old files).

    Raises:
        RuntimeError: indices outside of the size, or parts that do not fit.
    """
    from ..arrays.sparse_checks import checked_array

    count = 2 if form is sparse_coo else 3
    _require(isinstance(form, layout) and form is not strided, "a sparse layout", form)
    _require(isinstance(data, tuple) and count < len(data) <= 4, "the parts of a sparse tensor", data)
    _require(all(isinstance(part, Tensor) and part.layout is strided for part in data[:count]), "dense tensors as parts", data[:count])
    _require(isinstance(data[count], tuple) and _are_counts(data[count]), "sizes of 0 or more", data[count])
    is_coalesced = len(data) == 4 and form is sparse_coo and data[3] is True
    *parts, values = [part._array for part in data[:count]]
    if data[0].is_meta:
        raise NotImplementedError("load: sparse tensors on meta are not supported")
    return wrap(checked_array(form, tuple(parts), values, tuple(data[count]), is_coalesced))


def _resolved(storage: UntypedStorage, dtype: dtypes.dtype, metadata: Any) -> UntypedStorage:
    """The storage, or its copy with what PyTorch may only note on a tensor done: all elements conjugated or negated."""
    if not metadata:
        return storage
    _require(isinstance(metadata, dict) and set(metadata) <= {"conj", "neg"}, "metadata of 'conj' and 'neg'", type(metadata).__name__)
    conjugates, negates = bool(metadata.get("conj")), bool(metadata.get("neg"))
    _require(dtype.is_complex or not conjugates, "a complex tensor to conjugate", dtype)
    _require(dtype is not dtypes.bool_ or not negates, "a tensor of numbers to negate", dtype)
    known, key = _RESOLVED.setdefault(storage, {}), (dtype, conjugates, negates)
    cached = known[key]() if key in known else None
    if cached is not None:
        return cached
    elements = strided_view(storage, 0, (storage.nbytes() // dtype.itemsize,), (1,), dtype)
    resolved = np.empty_like(elements)
    with on_device_of(resolved):
        resolved[...] = np.conjugate(elements) if conjugates else elements
        if negates:
            np.negative(resolved, out=resolved)
    copied = UntypedStorage._of_array(resolved)
    known[key] = ref(copied)
    return copied


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """A parameter around rebuilt values."""
    _require(isinstance(data, Tensor), "a tensor", type(data).__name__)
    return _with_hooks(Parameter(data, bool(requires_grad)), backward_hooks)


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Parameter:
    """A parameter with attributes of its own."""
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    _set_state(parameter, state)
    return parameter


# What may stand behind a subclass: a file must not get any other callable called through _rebuild_from_type_v2.
def _base_functions() -> tuple[Any, ...]:
    plain = (_rebuild_tensor, _rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_meta_tensor_no_storage, _rebuild_sparse_tensor)
    return (*plain, _rebuild_parameter, _rebuild_parameter_with_state, _rebuild_wrapper_subclass)


def _rebuild_from_type_v2(function: Any, cls: type, args: tuple[Any, ...], state: Any) -> Any:
    """A tensor of a subclass, or with attributes. It comes back as a leaf that requires grad where it required grad."""
    _require(function in _base_functions(), "a function that rebuilds tensors", function)
    _require(isinstance(cls, type) and issubclass(cls, Tensor), "a subclass of Tensor", cls)
    tensor = function(*args)
    if type(tensor) is not cls:
        requires_grad = tensor._requires_grad
        tensor = tensor.requires_grad_(False).as_subclass(cls).requires_grad_(requires_grad)
    if hasattr(cls, "__setstate__"):
        tensor.__setstate__(state)
    else:
        _set_state(tensor, state)
    return tensor


def _set_state(tensor: Tensor, state: Any) -> None:
    """Set attributes and slots. Dunder names are refused: ``__class__`` is no state."""
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for part in (attributes, slots):
        if part is None:
            continue
        _require(isinstance(part, dict), "a tensor's state as a dict", type(part).__name__)
        for name in part:
            _require(isinstance(name, str) and not name.startswith("__"), "attribute names without leading '__'", name)
    tensor.__dict__.update(attributes or {})
    allowed = _own_slots(type(tensor))
    for name, value in (slots or {}).items():
        _require(name in allowed, f"slots of {type(tensor).__name__} ({', '.join(allowed)})", name)
        setattr(tensor, name, value)


# -- storages -------------------------------------------------------------------------------------------------------------
def _rebuild_storage(data: bytes, device: str = "cpu") -> UntypedStorage:
    """A storage with a copy of the bytes."""
    return UntypedStorage._of_array(moved(np.frombuffer(bytearray(data), np.uint8), place_of(device, "load")))


def reduce_storage(storage: UntypedStorage, protocol: Any) -> tuple[Any, ...]:
    """Pickle a storage by its bytes. Pickled once, it is shared by all tensors in the same pickle."""
    where = storage.device
    return _rebuild_storage, (storage._host_bytes.tobytes(), *(() if where == cpu else (str(where),)))


# -- deepcopy -------------------------------------------------------------------------------------------------------------
def _copied_storage(storage: UntypedStorage, memo: dict[Any, Any]) -> UntypedStorage:
    """The storage's copy; the same one for everything that shows the same memory, ``x`` and ``x.data`` included."""
    key = ("flambeau.storage", storage.data_ptr(), storage.nbytes()) if storage.nbytes() else id(storage)
    if key not in memo:
        memo[key] = storage.clone()
    return memo[key]


def deepcopy_tensor(tensor: Tensor, memo: dict[Any, Any]) -> Any:
    """Implement ``Tensor.__deepcopy__``: copies storage (once for all views in the same deepcopy), gradient and attributes.

    Raises:
        RuntimeError: the tensor was computed from others that require grad.
    Source: torch.Tensor.__deepcopy__.
    """
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment: expected a leaf, got "
            f"a tensor with grad_fn=<{type(tensor.grad_fn).__name__}>. Copy tensor.detach() instead"
        )
    if id(tensor) in memo:
        return memo[id(tensor)]
    if tensor.layout is not strided:
        copied = wrap(tensor._array.copy())
    elif tensor._array.__class__ is HollowArray:
        copied = tensor.detach().clone()
        if type(copied) is not type(tensor):
            raise RuntimeError(
                "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types that properly "
                f"implement clone(): that of {type(tensor).__name__} returns {type(copied).__name__}"
            )
    else:
        storage = _copied_storage(storage_of(tensor), memo)
        array = strided_view(storage, tensor.storage_offset(), tensor._array.shape, element_strides(tensor._array), tensor.dtype)
        copied = share(array, storage)
    if type(copied) is not type(tensor):
        copied = copied.as_subclass(type(tensor))
    memo[id(tensor)] = copied.requires_grad_(tensor.requires_grad)
    if tensor.grad is not None:
        copied.grad = deepcopy(tensor.grad, memo)
    for name in _own_slots(type(tensor)):
        if hasattr(tensor, name):
            setattr(copied, name, deepcopy(getattr(tensor, name), memo))
    copied.__dict__.update({name: deepcopy(value, memo) for name, value in tensor.__dict__.items() if name not in _HOOKS})
    return copied


def module_load(input: Any, other: Any, assign: bool = False) -> Any:
    """Tensor that ``Module.load_state_dict`` exchanges ``input`` for when modules swap their tensors (``torch.__future__``).

    A subclass may define it otherwise; it returns a new tensor.

    Args:
        input: a parameter or buffer.
        other: what was saved for it.
        assign: that of ``load_state_dict``.
    Returns:
        ``input`` after ``other`` was copied into it, or ``other`` itself where ``assign``; as a new tensor without history.
    Source: torch.Tensor.module_load.
    """
    return other.detach() if assign else input.copy_(other).detach()
