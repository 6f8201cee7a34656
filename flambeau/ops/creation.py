"""Tensors from sizes: constants, uninitialised memory, ranges.  ``from_data`` has those made from values.

A factory's fast path serves plain sizes, a dtype or none, and no mode; whatever else was asked for goes to ``finish``, which
looks at devices, layouts, ``out`` and modes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays import device_of, fill_array, make_at, moved, pinned, pinning_kind, place_of
from ..core.casting import checked_number, number_array
from ..core.device import pinned_host
from ..core.dispatch import write_result
from ..core.interruption import pass_on
from ..core.layout import empty_as, empty_strided_array, format_strides
from ..core.override import call_override
from ..core.registry import composite, method, resolve
from ..core.shape import restrided
from ..core.state import active, in_mode, run_ignoring_fp, thread, unrecorded, without_grad
from ..core.tensor import Tensor, wrap

_new = object.__new__
_PYTHON_TYPES = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool_, complex: dtypes.complex128}


# -- arguments that factories share -------------------------------------------------------------------------------------------
def dtype_of(value: Any, operation: str) -> dtypes.dtype:
    """``dtype`` argument as a dtype that arrays can have; Python's number types stand for their widest dtype.

    Raises:
        TypeError: no dtype. NotImplementedError: a dtype that NumPy has no element type for.
    """
    if not isinstance(value, dtypes.dtype):
        dtype = _PYTHON_TYPES.get(value) if isinstance(value, type) else None
        if dtype is None:
            raise TypeError(f"{operation}(): argument 'dtype' must be torch.dtype, not {type(value).__name__}")
        return dtype
    if value.numpy is None:
        raise NotImplementedError(f"{operation}: dtype {value} is not supported yet: NumPy has no such element type")
    return value


def sizes_from(size: tuple[Any, ...], operation: str) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence.

    Raises:
        TypeError: not integers. RuntimeError: negative.
    """
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    elif not size:
        raise TypeError(f'{operation}() missing 1 required positional arguments: "size"')
    for value in size:
        if value.__class__ is not int or value < 0:
            break
    else:  # the usual case
        return size
    sizes = []
    for position, value in enumerate(size):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            where = (
                "(position 1) must be tuple of ints, not"
                if position == 0 and len(size) == 1
                else (f'failed to unpack the object at pos {position + 1} with error "type must be tuple of ints,but got')
            )
            raise TypeError(f"{operation}(): argument 'size' {where} {type(value).__name__}" + ('"' if "unpack" in where else ""))
        sizes.append(value.__index__())
    if sizes and min(sizes) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {sizes}")
    return tuple(sizes)


def checked_place(
    operation: str, device: Any = None, layout: Any = None, pin_memory: bool = False, like: Any = None, out: Any = None
) -> Any:
    """The device that a tensor is to be made on: the one given, else that of tensor ``like`` or ``out``, else the thread's.

    Raises:
        NotImplementedError: another layout or device. RuntimeError: pinned memory, which needs an accelerator.
    """
    model = out if like is None else like
    if device is None:
        device = model.device if isinstance(model, Tensor) else thread.creation_device
    where = place_of(device, operation)
    if layout is not None and repr(layout) != "torch.strided":
        raise NotImplementedError(f"{operation}: layout {layout!r} is not supported yet; use torch.strided")
    if pin_memory:
        pinning_kind(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on this system."
        )
        if where.type != "cpu":
            raise RuntimeError(f"Only dense CPU tensors can be pinned, got device '{where}'")
        return pinned_host
    return where


def override(operation: str, args: tuple[Any, ...], operands: tuple[Any, ...] = (), **kwargs: Any) -> Any:
    """What an active function mode or a subclass returns for this call; NotImplemented if nobody takes it."""
    if not thread.function_modes and not any(type(operand) is not Tensor for operand in operands):
        return NotImplemented
    given = {name: value for name, value in kwargs.items() if value is not None and value is not False}
    return call_override(resolve("torch", operation), operands, args, given)


def finish(array: Any, out: Any, requires_grad: bool, operation: str, where: Any) -> Tensor:
    """The factory's result: ``array`` as a tensor on device ``where``, or written into ``out``."""
    array = moved(array, where) if where is not pinned_host else pinned(array)
    if out is not None:
        if not isinstance(out, Tensor):
            raise TypeError(f"{operation}(): argument 'out' must be Tensor, not {type(out).__name__}")
        write_result(out, array)
        return out.requires_grad_() if requires_grad else out
    tensor = wrap(array)
    if requires_grad:
        require_grad(tensor)
    return tensor


def require_grad(tensor: Tensor) -> Tensor:
    """Mark a fresh leaf.

    Raises:
        RuntimeError: an integer or bool tensor.
    """
    if tensor._array.dtype.kind in "biu":
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    if without_grad and thread.inference:
        return tensor.requires_grad_()
    tensor._requires_grad = True
    return tensor


def result_dtype(dtype: Any, out: Any, operation: str) -> dtypes.dtype:
    if dtype is None:
        return dtypes.get_default_dtype() if out is None else out.dtype
    kind = dtype_of(dtype, operation)
    if out is not None and out.dtype is not kind:
        raise RuntimeError(f"dtype {kind} does not match dtype of out parameter ({out.dtype})")
    return kind


# -- sizes -> zeros, ones, empty --------------------------------------------------------------------------------------------
def _sized(name: str, make: Callable[..., np.ndarray], value: int | None, first_line: str) -> Any:
    """The factories that take sizes only differ in how the array is made and in what fills it."""
    negative = f"{name}: Dimension size must be non-negative."

    def factory(
        *size: Any,
        out: Tensor | None = None,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **named: Any,
    ) -> Tensor:
        if out is None and device is None and layout is None and not (active and in_mode()) and not pin_memory and not named:
            try:
                kind = (dtypes._default if dtype is None else dtype).numpy
                sizes = size if size[0].__class__ is int else size[0]
                if kind is not None and (sizes.__class__ is tuple or sizes.__class__ is list) and (sizes is size or len(size) == 1):
                    array = make(sizes, kind)
                    if value is not None:
                        array.fill(value)
                    tensor = _new(Tensor)
                    tensor._array = array
                    tensor._storage = tensor._node = tensor._view_of = None
                    tensor._requires_grad = unrecorded() if without_grad else False
                    return require_grad(tensor) if requires_grad else tensor
            except (TypeError, ValueError, IndexError, AttributeError) as error:
                pass_on(error)
                # what is wrong with the arguments is said below
        return _sized_slowly(name, make, value, negative, size, out, dtype, layout, device, pin_memory, requires_grad, named)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = f"""{first_line}

    Args:
        *size: sizes one by one, or as one sequence; also by the keyword ``size``.
        out: tensor to write into, resized where needed.
        dtype: element type; the default floating type when None.
        layout: ``torch.strided``.
        device: where it is made; the thread's device when None.
        pin_memory: needs an accelerator.
        requires_grad: whether operations on the result are recorded.
    Raises:
        TypeError: sizes that are no integers. RuntimeError: a negative size, or an integer tensor that shall require grad.
    Source: torch.{name}.
    """
    return factory


def _sized_slowly(
    name: str,
    make: Any,
    value: Any,
    negative: str,
    size: Any,
    out: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: bool,
    requires_grad: bool,
    named: dict[str, Any],
) -> Tensor:
    if "size" in named and not size:
        size = (tuple(named.pop("size")),)
    memory_format = named.pop("memory_format", None) if name == "empty" else None
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
    taken = override(name, size, out=out, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, requires_grad=requires_grad)
    if taken is not NotImplemented:
        return taken
    where = checked_place(name, device, layout, pin_memory, out=out)
    kind = result_dtype(dtype, out, name)
    sizes = sizes_from(size, name) if not _has_negative(size) else None
    if sizes is None:
        shown = [int(length) for length in (size[0] if isinstance(size[0], (tuple, list)) else size)]
        raise RuntimeError(negative if name != "empty" else f"Trying to create tensor with negative dimension {min(shown)}: {shown}")
    if memory_format is not None:
        if repr(memory_format) == "torch.preserve_format":
            raise RuntimeError("unsupported memory format Preserve")
        array = make_at(where, empty_strided_array, sizes, format_strides(sizes, memory_format), kind.numpy)
        return finish(array, out, requires_grad, name, where)
    if name == "empty" and out is not None and out._array.shape == sizes:
        return out
    array = make_at(where, make, sizes, kind.numpy)
    if value is not None:
        fill_array(array, value)
    return finish(array, out, requires_grad, name, where)


def _has_negative(size: tuple[Any, ...]) -> bool:
    sizes = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    return any(isinstance(length, int) and length < 0 for length in sizes)


zeros = composite(method=False)(_sized("zeros", np.zeros, None, "A tensor of the given sizes, filled with 0."))
ones = composite(method=False)(_sized("ones", np.empty, 1, "A tensor of the given sizes, filled with 1."))
empty = composite(method=False)(_sized("empty", np.empty, None, "A tensor of the given sizes whose values are whatever the memory held."))


def fill_dtype(value: Any) -> dtypes.dtype:
    """The dtype of ``full``'s result: that of the value."""
    return value.dtype if isinstance(value, Tensor) else dtypes.of_number(value)


def filled(shape: tuple[int, ...], value: Any, dtype: dtypes.dtype) -> np.ndarray:
    """An array of ``shape`` full of ``value``.

    Raises:
        RuntimeError: a value that ``dtype`` cannot hold.
    """
    array = np.empty(shape, dtype.numpy)
    array.fill(checked_number(value.item() if isinstance(value, Tensor) else value, dtype)[()])
    return array


def fitting(value: Any, dtype: dtypes.dtype) -> Any:
    """``value`` as an array's element of ``dtype``.

    Raises:
        RuntimeError: an integer out of range, or a complex value for a real dtype.
    """
    if isinstance(value, Tensor):
        value = value.item()
    words = dtype.name
    if isinstance(value, (complex, np.complexfloating)) and not dtype.is_complex:
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {words} without overflow")
        value = value.real
    if dtype.category == dtypes.INTEGER and not isinstance(value, bool):
        if isinstance(value, (float, np.floating)) and not math.isfinite(value):
            raise RuntimeError(f"value cannot be converted to type {words} without overflow")
        whole, limits = int(value), np.iinfo(dtype.numpy)
        lowest = limits.min if dtype.is_signed else -limits.max  # a negative value wraps in an unsigned type
        if not lowest <= whole <= limits.max:
            raise RuntimeError(f"value cannot be converted to type {words} without overflow")
        return number_array(whole, dtype)[()]
    if dtype is dtypes.bool_:
        return bool(value)
    return run_ignoring_fp(number_array, value, dtype)[()]


@composite(method=False)
def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    out: Any = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A tensor of the given sizes, filled with one value.

    Args:
        size: sequence of sizes.
        fill_value: a number, or a tensor with one element.
        dtype: element type; that of ``fill_value`` when None.
        out, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Raises:
        RuntimeError: a value that ``dtype`` cannot hold, or a negative size.
    Source: torch.full.
    """
    if fill_value.__class__ is float and dtype is None and out is None and not (active and in_mode()) and device is None and layout is None:
        try:
            array = np.empty(size, dtypes._default.numpy)
            array.fill(fill_value)
            if not requires_grad and not pin_memory and (size.__class__ is tuple or size.__class__ is list):
                return wrap(array)
        except (TypeError, ValueError) as error:
            pass_on(error)
    taken = override(
        "full", (size, fill_value), out=out, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, requires_grad=requires_grad
    )
    if taken is not NotImplemented:
        return taken
    where = checked_place("full", device, layout, pin_memory, out=out)
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    if not isinstance(fill_value, (bool, int, float, complex, np.number, np.bool_, Tensor)):
        raise TypeError(f"full(): argument 'fill_value' (position 2) must be Number, not {type(fill_value).__name__}")
    kind = fill_dtype(fill_value) if dtype is None and out is None else result_dtype(dtype, out, "full")
    return finish(make_at(where, filled, sizes_from((size,), "full"), fill_value, kind), out, requires_grad, "full", where)


# -- like another tensor ------------------------------------------------------------------------------------------------------
def array_like(array: np.ndarray, dtype: np.dtype, memory_format: Any = None) -> np.ndarray:
    """Uninitialised array of ``array``'s shape, and its strides unless a memory format says otherwise."""
    return empty_as(array, memory_format, array.shape, dtype)


def like_at(where: Any, array: Any, dtype: np.dtype, memory_format: Any = None) -> Any:
    """``array_like`` on a device."""
    return make_at(where, array_like, array, dtype, memory_format)


def _like(name: str, value: int | None, first_line: str) -> Any:
    def factory(
        input: Tensor,
        *,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        if input.__class__ is Tensor and dtype is None and device is None and not (active and in_mode()) and not pin_memory:
            array = input._array
            if array.__class__ is np.ndarray and array.flags.c_contiguous and memory_format is None and layout is None:
                result = np.zeros(array.shape, array.dtype) if value == 0 else np.empty(array.shape, array.dtype)
                if 1 in array.shape and result.strides != array.strides:
                    result = restrided(result, array.shape, array.strides)
                if value:
                    result.fill(value)
                tensor = _new(Tensor)
                tensor._array = result
                tensor._storage = tensor._node = tensor._view_of = None
                tensor._requires_grad = unrecorded() if without_grad else False
                return require_grad(tensor) if requires_grad else tensor
        array = _array_like(name, input, (), dtype, layout, device, pin_memory, requires_grad, memory_format)
        if isinstance(array, Tensor):
            return array
        if value is not None:
            fill_array(array, value)
        return finish(array, None, requires_grad, name, device_of(array))

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = f"""{first_line}

    Args:
        input: tensor whose shape, and dtype and strides unless told otherwise, are taken.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
        memory_format: ``torch.preserve_format`` (the default) keeps the strides of a dense input.
    Raises:
        TypeError: ``input`` is no tensor.
    Source: torch.{name}.
    """
    return factory


def _array_like(
    name: str,
    input: Any,
    args: tuple[Any, ...],
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: bool,
    requires_grad: bool,
    memory_format: Any,
) -> Any:
    """Uninitialised array like ``input``, or the result of an override."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if (active and in_mode()) or type(input) is not Tensor:
        taken = override(
            name,
            (input, *args),
            (input,),
            dtype=dtype,
            layout=layout,
            device=device,
            pin_memory=pin_memory,
            requires_grad=requires_grad,
            memory_format=memory_format,
        )
        if taken is not NotImplemented:
            return taken
    where = checked_place(name, device, layout, pin_memory, like=input)
    return like_at(where, input._array, input._array.dtype if dtype is None else dtype_of(dtype, name).numpy, memory_format)


zeros_like = composite(method=False)(_like("zeros_like", 0, "A tensor filled with 0, of another tensor's shape and dtype."))
ones_like = composite(method=False)(_like("ones_like", 1, "A tensor filled with 1, of another tensor's shape and dtype."))
empty_like = composite(method=False)(_like("empty_like", None, "An uninitialised tensor of another tensor's shape and dtype."))


@composite(method=False)
def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor filled with one value, of another tensor's shape and dtype.

    Args:
        input: tensor whose shape, and dtype and strides unless told otherwise, are taken.
        fill_value: a number, or a tensor with one element.
        dtype, layout, device, pin_memory, requires_grad, memory_format: as for ``torch.zeros_like``.
    Raises:
        RuntimeError: a value that the dtype cannot hold.
    Source: torch.full_like.
    """
    array = _array_like("full_like", input, (fill_value,), dtype, layout, device, pin_memory, requires_grad, memory_format)
    if isinstance(array, Tensor):
        return array
    fill_array(array, checked_number(fill_value.item() if isinstance(fill_value, Tensor) else fill_value, dtypes.of_array(array))[()])
    return finish(array, None, requires_grad, "full_like", device_of(array))


@composite(method=False)
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """An uninitialised tensor of given sizes and strides.

    Args:
        size: sizes.
        stride: elements between neighbours along each dimension, not negative.
        dtype, layout, device, requires_grad, pin_memory: as for ``torch.zeros``.
    Raises:
        RuntimeError: another number of strides than of sizes, or a negative one.
    Source: torch.empty_strided.
    """
    taken = override("empty_strided", (size, stride), dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    if taken is not NotImplemented:
        return taken
    where = checked_place("empty_strided", device, layout, pin_memory)
    kind = result_dtype(dtype, None, "empty_strided")
    return finish(make_at(where, checked_strided, "empty_strided", size, stride, kind), None, requires_grad, "empty_strided", where)


def checked_strided(operation: str, size: Any, stride: Any, dtype: dtypes.dtype) -> np.ndarray:
    """An uninitialised array of sizes and strides that a user gave."""
    sizes, strides = sizes_from((size,), operation), tuple(step.__index__() for step in stride)
    if len(sizes) != len(strides):
        raise RuntimeError(f"dimensionality of sizes ({len(sizes)}) must match dimensionality of strides ({len(strides)})")
    if strides and min(strides) < 0:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)} and strides={list(strides)}")
    return empty_strided_array(sizes, strides, dtype.numpy)


# -- methods that take dtype and device from a tensor --------------------------------------------------------------------------
def _new_sized(name: str, value: int | None, first_line: str) -> Any:
    def factory(
        input: Any,
        *size: Any,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **named: Any,
    ) -> Any:
        if "size" in named and not size:
            size = (tuple(named.pop("size")),)
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        where = checked_place(name, device, layout, pin_memory, like=input)
        kind = input._array.dtype if dtype is None else dtype_of(dtype, name).numpy
        sizes = sizes_from(size, name)
        array = make_at(where, np.zeros if value == 0 else np.empty, sizes, kind)
        if value:
            fill_array(array, value)
        return finish(array, None, requires_grad, name, where)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = f"""{first_line}

    Args:
        *size: sizes one by one, or as one sequence.
        dtype: element type; this tensor's when None.
        layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Source: torch.Tensor.{name}.
    """
    return factory


new_zeros = method()(_new_sized("new_zeros", 0, "A tensor filled with 0, of this tensor's dtype."))
new_ones = method()(_new_sized("new_ones", 1, "A tensor filled with 1, of this tensor's dtype."))
new_empty = method()(_new_sized("new_empty", None, "An uninitialised tensor of this tensor's dtype."))


@method()
def new_full(
    input: Any,
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A tensor filled with one value, of this tensor's dtype unless ``dtype`` is given.

    Args:
        size: sizes. fill_value: a number.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Source: torch.Tensor.new_full.
    """
    where = checked_place("new_full", device, layout, pin_memory, like=input)
    kind = input.dtype if dtype is None else dtype_of(dtype, "new_full")
    return finish(make_at(where, filled, sizes_from((size,), "new_full"), fill_value, kind), None, requires_grad, "new_full", where)


@method()
def new_empty_strided(
    input: Any,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """An uninitialised tensor of given sizes and strides, of this tensor's dtype unless ``dtype`` is given.

    Args:
        size, stride: as for ``torch.empty_strided``.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Source: torch.Tensor.new_empty_strided.
    """
    where = checked_place("new_empty_strided", device, layout, pin_memory, like=input)
    kind = input.dtype if dtype is None else dtype_of(dtype, "new_empty_strided")
    array = make_at(where, checked_strided, "new_empty_strided", size, stride, kind)
    return finish(array, None, requires_grad, "new_empty_strided", where)


@composite(method=False)
def eye(
    n: int,
    m: int | None = None,
    *,
    out: Any = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A matrix with 1 on its main diagonal and 0 elsewhere.

    Args:
        n: rows.
        m: columns; ``n`` when None.
        out, dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Raises:
        RuntimeError: a negative size.
    Source: torch.eye.
    """
    taken = override(
        "eye",
        (n,) if m is None else (n, m),
        out=out,
        dtype=dtype,
        layout=layout,
        device=device,
        pin_memory=pin_memory,
        requires_grad=requires_grad,
    )
    if taken is not NotImplemented:
        return taken
    where = checked_place("eye", device, layout, pin_memory, out=out)
    for name, size in (("n", n), ("m", m)):
        if size is not None and not hasattr(size, "__index__"):
            raise TypeError(f"eye(): argument '{name}' must be int, not {type(size).__name__}")
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    rows, kind = n.__index__(), result_dtype(dtype, out, "eye")
    columns = rows if m is None else m.__index__()
    array = make_at(where, np.zeros, (rows, columns), kind.numpy)
    array.reshape(-1)[: min(rows, columns) * columns : columns + 1] = 1
    return finish(array, out, requires_grad, "eye", where)


@composite(method=False)
def scalar_tensor(
    s: Any,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A 0-d tensor holding a number, of the default floating type unless ``dtype`` is given.

    Args:
        s: a number.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Source: torch.scalar_tensor.
    """
    where = checked_place("scalar_tensor", device, layout, pin_memory)
    return finish(filled((), s, result_dtype(dtype, None, "scalar_tensor")), None, requires_grad, "scalar_tensor", where)
