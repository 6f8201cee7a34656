"""Tensors from values: numbers, nested sequences, arrays, buffers, other libraries' tensors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import KINDS, make_at
from ..core.calls.annotations import Tensor as TensorLike
from ..core.calls.casting import cast_array
from ..core.calls.creation import Creation, dtype_of, require_grad
from ..core.calls.interruption import pass_on
from ..core.calls.registry import composite, factory, method
from ..core.device import cpu
from ..core.state import ignoring_fp, run_ignoring_fp
from ..core.storage import TypedStorage, UntypedStorage
from ..core.tensor import Tensor, share, storage_of, wrap
from .creation import array_like, fitting

_ONLY_FLOATS = {float}
_NUMBERS = frozenset((float, int, bool, complex))
_SCALARS = (float, int, bool, complex, np.number, np.bool_)
_NESTED = frozenset((list, tuple))


# -- nested sequences of numbers ----------------------------------------------------------------------------------------------
def plain_array(data: Any) -> np.ndarray | None:
    """Array of Python numbers, or of regularly nested lists of nothing but them; None where the slow way must look."""
    kind = data.__class__
    if kind not in _NUMBERS:
        if kind not in _NESTED:
            return None
        level = data
        while True:
            kinds = set(map(type, level))
            if kinds <= _NUMBERS:
                break
            if not kinds <= _NESTED:
                return None
            level = list(chain.from_iterable(level))
    try:
        array = np.array(data)
    except (ValueError, OverflowError) as error:
        pass_on(error)
        return None
    return array if array.dtype.kind in "bifc" else None


def _default_of(array: np.ndarray) -> np.dtype:
    """The dtype that PyTorch infers for an array of Python numbers."""
    kind = array.dtype.kind
    if array.size == 0 or kind == "f":
        return dtypes._default.numpy
    if kind == "c":
        return dtypes._default.to_complex().numpy
    return array.dtype


def _is_sequence(value: Any) -> bool:
    if isinstance(value, (str, bytes, Tensor)):  # a tensor inside a list counts as one number
        return False
    if isinstance(value, np.ndarray):
        return True
    return isinstance(value, Sequence) or (hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, dict))


def _shape_of(data: Any) -> tuple[int, ...]:
    """Sizes of a nested sequence, as its first elements have them."""
    sizes: list[int] = []
    while _is_sequence(data):
        if getattr(data, "ndim", 1) == 0:
            break
        sizes.append(len(data))
        if len(sizes) > 128:
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        if not len(data):
            break
        data = data[0]
    if isinstance(data, (str, bytes)):
        raise ValueError(f"too many dimensions '{type(data).__name__}'")
    return tuple(sizes)


def _infer(value: Any) -> dtypes.dtype:
    """The dtype for one value or a nested sequence of them.

    Raises:
        RuntimeError: something that is no number. TypeError: a string.
    """
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, (np.ndarray, np.generic)):
        return dtypes.of_array(np.asarray(value))
    if isinstance(value, _SCALARS):
        return dtypes.of_number(value)
    if isinstance(value, str):
        raise TypeError(f"new(): invalid data type '{type(value).__name__}'")
    if not _is_sequence(value):
        raise RuntimeError(f"Could not infer dtype of {type(value).__name__}")
    promoted = None
    for item in value:
        kind = _infer(item)
        promoted = kind if promoted is None else dtypes.promote(promoted, kind)
    return promoted or dtypes.get_default_dtype()


def _fill(array: np.ndarray, data: Any, dim: int, dtype: dtypes.dtype) -> None:
    """Copy a nested sequence into ``array``, checking that it is regular."""
    n = array.shape[0]
    if not _is_sequence(data):
        raise TypeError("not a sequence")
    if len(data) != n:
        raise ValueError(f"expected sequence of length {n} at dim {dim + 1 - 1} (got {len(data)})")
    if array.ndim > 1:
        for i in range(n):
            _fill(array[i], data[i], dim + 1, dtype)
        return
    for i in range(n):
        array[i] = _element(data[i], dtype)


def _element(value: Any, dtype: dtypes.dtype) -> Any:
    if isinstance(value, (Tensor, np.ndarray)):
        if (value._array if isinstance(value, Tensor) else value).size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        value = value.item()
    if not isinstance(value, _SCALARS):
        raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")
    return _checked(value, dtype)


def _checked(value: Any, dtype: dtypes.dtype) -> Any:
    if isinstance(value, (complex, np.complexfloating)) and not dtype.is_complex:
        raise TypeError(f"must be real number, not {type(value).__name__}")
    if isinstance(value, int) and dtype is not dtypes.uint64 and not -(1 << 63) <= value < 1 << 63 and dtype.category < dtypes.FLOATING:
        raise ValueError("Overflow when unpacking long long")
    return fitting(value, dtype)


def nested_array(data: Any, dtype: dtypes.dtype | None) -> np.ndarray:
    """An array from numbers, sequences, tensors and arrays, nested in any way.

    Raises:
        ValueError: irregular nesting. TypeError, RuntimeError: values that are no numbers.
    """
    if isinstance(data, str):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    shape = _shape_of(data)
    if dtype is None:
        dtype = _infer(data)
    if dtype is dtypes.complex32:
        return cast_array(nested_array(data, dtypes.complex64), dtype)
    array = np.zeros(shape, dtype.numpy)
    if not shape:
        if not isinstance(data, _SCALARS):
            raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
        array[()] = _checked(data, dtype)
    elif array.size:
        run_ignoring_fp(_fill, array, data, 0, dtype)
    return array


def array_from(data: Any, dtype: dtypes.dtype | None, copy: bool) -> np.ndarray:
    """``data`` as an array, sharing memory with arrays where ``copy`` is False and the dtype agrees."""
    if isinstance(data, np.ndarray):
        checked = _native(data)
        if dtype is not None and dtype.numpy != checked.dtype:
            return cast_array(checked, dtype)
        return checked.copy(order="K") if copy else checked
    array = plain_array(data)
    if array is not None and dtype is dtypes.complex32:
        return cast_array(array_from(data, dtypes.complex64, copy), dtype)
    if array is not None:
        want = _default_of(array) if dtype is None else dtype.numpy
        if array.dtype is want:
            return array
        if array.dtype.kind in "bf" or (array.dtype.kind == "i" and want.kind in "fcb"):
            if array.dtype.kind == "f" and want.kind in "iu":
                return nested_array(data, dtype)
            return array.astype(want) if dtype is None else run_ignoring_fp(cast_array, array, dtype)
        if array.dtype.kind == "c" and want.kind == "c":
            return run_ignoring_fp(array.astype, want)
        return nested_array(data, dtype)
    if hasattr(data, "__array_interface__") and not isinstance(data, (np.generic, Tensor)):
        return array_from(np.asarray(data), dtype, copy)
    return nested_array(data, dtype)


_COPY_WARNING = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than {}."
)


def _inferred(data: Any) -> np.ndarray | None:
    """``plain_array`` in the dtype that PyTorch infers."""
    if data.__class__ is list and set(map(type, data)) == _ONLY_FLOATS and (want := dtypes._default.numpy).itemsize >= 4:
        return ignoring_fp(np.array, data, want)
    array = plain_array(data)
    if array is None or array.dtype is (want := _default_of(array)):
        return array
    return array.astype(want) if array.dtype.kind != "f" or want.itemsize > 4 or array.size < 1 else run_ignoring_fp(array.astype, want)


@factory(
    options=("dtype", "device", "requires_grad", "pin_memory"),
    follows="data",
    fast="_inferred(data) if dtype is None else None",
    asked="data, dtype, dtypes._default",
)
def tensor(new: Creation, data: Any) -> Any:
    """A tensor with a copy of ``data``; never shares memory, never has a history.

    Args:
        data: a number, nested sequences of numbers, a NumPy array, or a tensor.
        dtype: element type; inferred when None: bool, int64, the default floating type or its complex counterpart for Python
            numbers, the array's own for arrays and NumPy scalars.
        device, requires_grad, pin_memory: as for ``torch.zeros``.
    Returns:
        A new contiguous tensor; a nested sequence's lengths are its shape, a number is 0-d.
    Raises:
        ValueError: irregular nesting, or an integer beyond 64 bits.
        TypeError: strings and other values that are no numbers.
        RuntimeError: an object of unknown type, or a number that ``dtype`` cannot hold.
    Source: torch.tensor.
    Example:
        >>> torch.tensor([[1, 2], [3, 4]])
        tensor([[1, 2],
                [3, 4]])
        >>> torch.tensor([1, 2.5]), torch.tensor(7, dtype=torch.float64)
        (tensor([1.0000, 2.5000]), tensor(7., dtype=torch.float64))
    """
    return _copied(new, data, "torch.tensor(sourceTensor)")


def _copied(new: Creation, data: Any, call: str) -> Any:
    if not isinstance(data, Tensor):
        return array_from(data, new.dtype, True)
    warnings.warn(_COPY_WARNING.format(call), UserWarning, stacklevel=6)  # the caller of the public function
    copy = make_at(data.device, array_like, data._array, new.dtype_or_default().numpy)
    copy[...] = cast_array(data._array, new.dtype_or_default())
    return copy


@factory(namespace="Tensor")
def new_tensor(new: Creation, input: TensorLike, data: Any) -> Any:
    """A tensor with a copy of ``data``, of this tensor's dtype unless ``dtype`` is given.

    Args:
        input: tensor whose dtype and device are taken.
        data: as for ``torch.tensor``.
        dtype, device, requires_grad, layout, pin_memory: as for ``torch.zeros``.
    Returns:
        A new contiguous tensor of ``data``'s shape.
    Raises:
        ValueError: irregular nesting.
        TypeError: values that are no numbers.
    Source: torch.Tensor.new_tensor.
    Example:
        >>> torch.tensor([0.5]).new_tensor([[1, 2]])
        tensor([[1., 2.]])
    """
    return _copied(new, data, "tensor.new_tensor(sourceTensor)")


@factory(
    options=("dtype", "device"),
    follows="data",
    fast="_inferred(data) if dtype is None else None",
    asked="data, dtype, dtypes._default",
    keeps=True,
)
def as_tensor(new: Creation, data: Any, dtype: Any = None, device: Any = None) -> Any:
    """``data`` as a tensor, without a copy where it is a tensor or array of the wanted dtype.

    Args:
        data: as for ``torch.tensor``; a tensor keeps its history.
        dtype: element type; inferred when None.
        device: where the tensor is to lie.
    Returns:
        ``data`` itself where it is such a tensor; a tensor on an array's memory, or a new one.
    Raises:
        ValueError: irregular nesting.
        TypeError: values that are no numbers.
    Source: torch.as_tensor.
    Example:
        >>> array = np.zeros(2)
        >>> x = torch.as_tensor(array)
        >>> array[0] = 7
        >>> x
        tensor([7., 0.], dtype=torch.float64)
    """
    if data.__class__ in KINDS:  # an array of another kind
        data = wrap(data)
        return data.to(new.where, data.dtype if dtype is None else new.dtype)
    if isinstance(data, Tensor):
        return data if new.dtype is data.dtype and new.where == data.device else data.to(new.where, new.dtype)
    if isinstance(data, np.ndarray) and new.where == cpu:
        return _sharing(data, new.dtype)
    if isinstance(data, (UntypedStorage, TypedStorage)):
        return _of_storage(data, new.dtype).to(new.where, new.dtype)
    return array_from(data, new.dtype, False)


def _sharing(array: np.ndarray, dtype: dtypes.dtype | None) -> Tensor:
    """A tensor on an array's own memory; a converted copy where the dtype differs."""
    checked = _native(array)
    if dtype is not None and dtype.numpy != checked.dtype:
        return wrap(cast_array(checked, dtype))
    _warn_read_only(checked)
    return share(checked[...], UntypedStorage._of_array(checked))


def _native(array: np.ndarray) -> np.ndarray:
    """``array`` checked for what tensors can show.

    Raises:
        ValueError: negative strides, or strides that are no multiple of the element size, or foreign byte order.
        TypeError: an element type without a dtype.
    """
    if array.dtype.kind in "biufcV" and not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not "
            "supported."
        )
    if dtypes.of_array(array) is dtypes.complex32:  # of structures, which NumPy's arrays may have
        raise TypeError(f"can't convert np.ndarray of type numpy.void: {array.dtype}")
    for step, n in zip(array.strides, array.shape, strict=True):
        if step < 0 and n > 1:
            raise ValueError(
                "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently "
                "supported. (You can probably work around this by making a copy of your array  with array.copy().) "
            )
        if step % array.itemsize:
            raise ValueError(
                "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory."
            )
    if array.strides and min(array.strides) < 0:
        array = np.ascontiguousarray(array).reshape(array.shape)
    return np.asarray(array)


def _warn_read_only(array: np.ndarray) -> None:
    if not array.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to this tensor "
            "will result in undefined behavior. You may want to copy the array to protect its data or make it writable before converting "
            "it to a tensor. This type of warning will be suppressed for the rest of this program.",
            UserWarning,
            stacklevel=4,
        )


@composite(method=False)
def from_numpy(ndarray: Any) -> Any:
    """A tensor on the memory of a NumPy array: a write to either shows in both.

    Args:
        ndarray: an array of a numeric element type, native byte order and no negative stride.
    Returns:
        A tensor of the array's shape, strides and element type.
    Raises:
        TypeError: no array, or an unsupported element type.
        ValueError: a negative stride; copy the array first.
    Source: torch.from_numpy.
    Example:
        >>> array = np.array([1, 2])
        >>> torch.from_numpy(array).add_(10)
        tensor([11, 12])
        >>> array
        array([11, 12])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    return _sharing(ndarray, None)


@factory(options=("dtype", "device", "requires_grad"), follows="obj")
def asarray(new: Creation, obj: Any, *, copy: bool | None = None) -> Any:
    """``obj`` as a tensor, sharing memory where that is possible and ``copy`` allows it.

    Args:
        obj: a tensor, an array, an object with DLPack or the buffer protocol, a number or nested sequences.
        dtype: element type; inferred when None.
        device: where the tensor is to lie.
        copy: True forbids sharing, False demands it, None shares where possible.
        requires_grad: whether operations on the result are recorded; False detaches.
    Returns:
        ``obj`` itself, a tensor on its memory, or a new tensor.
    Raises:
        ValueError: ``copy=False`` where memory cannot be shared.
        RuntimeError: an object of unknown type.
    Source: torch.asarray.
    Example:
        >>> array = np.array([1, 2])
        >>> shared, copied = torch.asarray(array), torch.asarray(array, copy=True)
        >>> array[0] = 7
        >>> shared, copied
        (tensor([7, 2]), tensor([1, 2]))
    """
    kind = new.dtype
    source = _shared_source(obj, kind)
    if source is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return array_from(obj, kind, True)
    if source.device != new.where:
        if copy is False:
            raise ValueError(f"can't alias tensor from device '{source.device}' to '{new.where}'.")
        source, copy = source.to(new.where), None
    converts = kind is not None and kind is not source.dtype
    if kind is not None and converts and copy is False:
        raise ValueError(f"can't alias tensor with dtype '{source.dtype.legacy}' into dtype '{kind.legacy}'.")
    result = source.to(kind) if converts else source.clone() if copy else source
    if result is obj:
        return result
    return result.detach() if result._requires_grad or new.requires_grad else result


def _shared_source(obj: Any, dtype: dtypes.dtype | None) -> Tensor | None:
    """A tensor on ``obj``'s memory, None where it has none to share."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return _sharing(obj, None)
    if isinstance(obj, (UntypedStorage, TypedStorage)):
        return _of_storage(obj, dtype)
    if isinstance(obj, (np.generic, *_SCALARS)) or isinstance(obj, (list, tuple, range, str)):
        return None
    if hasattr(obj, "__dlpack__"):
        return from_dlpack(obj)
    try:
        return frombuffer(memoryview(obj), dtype=dtype or dtypes.get_default_dtype())
    except (TypeError, BufferError) as error:
        pass_on(error)
        return None


def _of_storage(storage: UntypedStorage | TypedStorage, dtype: dtypes.dtype | None) -> Tensor:
    """A 1-d tensor of all whole elements; bytes of no dtype are taken for int64, as PyTorch does."""
    if isinstance(storage, TypedStorage):
        untyped, kind = storage._untyped_storage, storage.dtype
    else:
        untyped, kind = storage, dtype or dtypes.int64
    count = untyped.nbytes() // kind.itemsize
    return share(untyped._flat[: count * kind.itemsize].view(kind.numpy), untyped)


@factory()
def from_file(new: Creation, filename: str, shared: bool | None = None, size: int = 0) -> Any:
    """A 1-d tensor whose memory is a file.

    Args:
        filename: the file.
        shared: True writes changes to the file, which is made or grown where it is too short; otherwise it stays as it is.
        size: number of elements.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``; on the CPU only.
    Returns:
        A tensor ``(size,)`` on the file's memory.
    Raises:
        RuntimeError: the file cannot be opened, or is too short.
        NotImplementedError: another device.
    Source: torch.from_file.
    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     x = torch.from_file(file.name, shared=True, size=2, dtype=torch.int32).fill_(7)
        ...     np.fromfile(file.name, np.int32).tolist()
        [7, 7]
    """
    if new.where != cpu:
        raise NotImplementedError(f"from_file: a file is memory of the CPU, not of the device {new.where}")
    kind = new.dtype_or_default()
    return _of_storage(UntypedStorage.from_file(filename, bool(shared), size * kind.itemsize), kind)


@composite(method=False)
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """A 1-d tensor on the memory of an object with Python's buffer protocol.

    Args:
        buffer: bytes, bytearray, memoryview, array.array, ...
        dtype: element type of the values.
        count: how many; all when negative.
        offset: bytes to skip.
        requires_grad: whether operations on the result are recorded.
    Returns:
        A tensor ``(count,)`` on the buffer's memory.
    Raises:
        ValueError: no buffer, an empty one, or sizes that do not fit.
    Source: torch.frombuffer.
    Example:
        >>> buffer = bytearray([1, 0, 2, 0])
        >>> torch.frombuffer(buffer, dtype=torch.uint8, offset=2), torch.frombuffer(buffer, dtype=torch.int16)
        (tensor([2, 0], dtype=torch.uint8), tensor([1, 2], dtype=torch.int16))
    """
    kind = dtype_of(dtype, "frombuffer")
    try:
        view = memoryview(buffer)
    except TypeError as error:
        raise ValueError("object does not implement Python buffer protocol.") from error
    length, size = view.nbytes, kind.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1")
    if count < 0:
        if (length - offset) % size:
            raise ValueError(f"buffer length ({length} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})")
        count = (length - offset) // size
    elif count * size > length - offset:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than actual buffer "
            f"length ({length} bytes)"
        )
    if view.readonly:
        warnings.warn(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can write to the "
            "underlying (supposedly non-writable) buffer using the tensor. You may want to copy the buffer to protect its data or make "
            "it writable before converting it to a tensor.",
            UserWarning,
            stacklevel=2,
        )
    raw = np.frombuffer(view.cast("B") if view.contiguous and view.format != "B" else view, np.uint8)
    array = np.ndarray((count,), kind.numpy, raw, offset)
    result = share(array, UntypedStorage._of_array(array))
    return require_grad(result) if requires_grad else result


# -- DLPack -------------------------------------------------------------------------------------------------------------------
@factory(options=("device",))
def from_dlpack(new: Creation, ext_tensor: Any, *, copy: bool | None = None) -> Any:
    """A tensor on the memory of another library's tensor.

    Args:
        ext_tensor: an object with ``__dlpack__`` and ``__dlpack_device__``, or a capsule from ``to_dlpack``.
        device: where the tensor is to lie.
        copy: True copies.
    Returns:
        A tensor of the other's shape, strides and element type, on its memory unless copied.
    Raises:
        RuntimeError: an object that is neither.
        ValueError: ``copy=False`` for another device.
    Source: torch.from_dlpack.
    Example:
        >>> array = np.array([1.0, 2.0])
        >>> x = torch.from_dlpack(array)
        >>> array[0] = 7
        >>> x
        tensor([7., 2.], dtype=torch.float64)
    """
    source = ext_tensor if hasattr(ext_tensor, "__dlpack__") else _Capsule(ext_tensor)
    if source is not ext_tensor and type(ext_tensor).__name__ != "PyCapsule":
        raise RuntimeError(f"from_dlpack: expected an object with __dlpack__ or a capsule, got {type(ext_tensor).__name__}")
    array = np.from_dlpack(source)
    if new.where != cpu:
        if copy is False:
            raise ValueError("cannot move DLPack tensor from one device to another without copying")
        return array
    return array.copy() if copy else share(array, UntypedStorage._of_array(array))


class _Capsule:
    """A bare capsule as an object that NumPy reads."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@composite(method=False)
def to_dlpack(tensor: Any) -> Any:
    """A DLPack capsule on a tensor's memory, to be read once.

    Args:
        tensor: any shape; on the CPU or a CUDA device.
    Returns:
        A capsule for ``torch.from_dlpack`` or another library.
    Raises:
        TypeError: no tensor.
    Source: torch.utils.dlpack.to_dlpack.
    Example:
        >>> x = torch.tensor([1, 2])
        >>> torch.from_dlpack(torch.to_dlpack(x)).data_ptr() == x.data_ptr()
        True
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"to_dlpack(): argument 'tensor' (position 1) must be Tensor, not {type(tensor).__name__}")
    return tensor.__dlpack__()


@method(name="__dlpack__")
def dlpack(input: Any, *, stream: Any = -1, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
    """A DLPack capsule on this tensor's memory.

    Args:
        stream: must not name a stream: there are none on the CPU.
        max_version, dl_device, copy: as in the Python array API standard.
    Raises:
        BufferError: a tensor that requires grad, or whose element type NumPy cannot export.
    Source: torch.Tensor.__dlpack__.
    """
    if input._requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream not in (None, -1):
        raise RuntimeError("__dlpack__: stream must be None on the CPU")
    if input._array.dtype.isbuiltin == 2:
        raise BufferError(f"__dlpack__: dtype {input.dtype} cannot be exported")
    storage_of(input)  # the memory escapes
    array = input._array
    if array.__class__ is not np.ndarray:
        if not hasattr(array, "__dlpack__"):
            raise BufferError(f"__dlpack__: tensors on device '{input.device}' cannot be exported")
        return array.__dlpack__()
    if not array.flags.writeable:
        array = np.ndarray(array.shape, array.dtype, array.copy())
    return array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)


@method(name="__dlpack_device__")
def dlpack_device(input: Any) -> tuple[int, int]:
    """(1, 0): DLPack's word for the CPU. Source: torch.Tensor.__dlpack_device__."""
    return (1, 0)
