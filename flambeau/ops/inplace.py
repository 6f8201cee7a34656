"""Operations that write into a tensor or change what it shows: ``copy_``, ``fill_``, ``zero_``, ``set_``, ``resize_``.

``copy``, ``fill`` and ``zero`` are declared as operations whose in-place forms users call; their derivative sends nothing back
to what was overwritten.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..core.arrays.copies import copy_into, fill as fill_array
from ..core.arrays.kinds import device_of, sent
from ..core.calls.annotations import Number, Tensor
from ..core.calls.casting import cast_array, filling_number
from ..core.calls.out import resize
from ..core.calls.questions import asks
from ..core.calls.registry import composite, method, op, primitive
from ..core.dtype import of_array
from ..core.layout import contiguous_format, empty_as, format_strides, strided as strided_layout
from ..core.shape import broadcast_or_none, broadcast_shape, contiguous_strides, one_by_one, overlaps_itself, sizes_of, strided
from ..core.state import INFERENCE, active, changes, grad_enabled, in_mode, interposed, modes, thread
from ..core.storage import TypedStorage, UntypedStorage
from ..core.tape.history import check_writable
from ..core.tensor import Parameter, Tensor as TensorType, note_order, storage_of, wrap
from .arithmetic import zeros


def _canonicalize_copy(input: Any, src: Any, non_blocking: bool) -> tuple[Any, ...]:
    shape = input._array.shape
    if isinstance(src, TensorType) and broadcast_or_none(shape, src._array.shape) != shape:
        have = list(src._array.shape)
        if len(have) <= len(shape):
            at = next(-i for i in range(1, len(have) + 1) if have[-i] not in (1, shape[-i]))
            raise RuntimeError(
                f"The size of tensor a ({shape[at]}) must match the size of tensor b ({have[at]}) at non-singleton dimension "
                f"{at + len(shape)}"
            )
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(broadcast_shape(shape, tuple(have)))}")
    return input, src, non_blocking


@op(
    name="copy",
    method=False,
    inplace=True,
    canonicalize=_canonicalize_copy,
    node_name="CopyBackwards",
    grad={"input": zeros, "src": lambda grad: grad},
)
def copy(input: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """``src`` broadcast to ``input``'s shape and cast to its dtype; ``input.copy_(src)`` writes it there.

    Args:
        input: tensor whose shape, dtype and device count.
        src: broadcastable to that shape; any dtype, on any device.
        non_blocking: let a copy between pinned memory and a device go on while the host continues.
    Returns:
        A new tensor; ``copy_`` returns ``input``.
    Raises:
        RuntimeError: ``src`` does not broadcast to ``input``'s shape.
    Gradient: ``grad`` to ``src``, nothing to what was overwritten.
    Source: torch.Tensor.copy_.
    Example:
        >>> torch.zeros(2, 3).copy_(torch.tensor([1, 2, 3]))
        tensor([[1., 2., 3.],
                [1., 2., 3.]])
    """
    result = np.empty(input.shape, input.dtype)
    result[...] = sent(src, of_array(input), device_of(input), non_blocking)
    return result


def _canonicalize_fill(input: Any, value: Any) -> tuple[Any, ...]:
    if isinstance(value, TensorType) and value._array.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value._array.ndim} dimensions.")
    return input, value


@op(method=False, inplace=True, may_overlap=True, canonicalize=_canonicalize_fill, grad={"input": zeros, "value": lambda grad: grad.sum()})
def fill(input: Tensor, value: Tensor | Number) -> Tensor:
    """A tensor like ``input`` with every element ``value``; ``fill_`` writes it into ``input``.

    Args:
        input: any shape and dtype.
        value: a number or a 0-d tensor; cast to ``input``'s dtype.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        RuntimeError: a ``value`` with dimensions, or one that the dtype cannot hold.
    Gradient: nothing to ``input``, the sum of ``grad`` to ``value``.
    Source: torch.fill.
    Example:
        >>> torch.fill(torch.tensor([1, 2]), 7.9)
        tensor([7, 7])
    """
    dtype = of_array(input)
    result = empty_as(input, None, input.shape, input.dtype)
    fill_array(result, (cast_array(value, dtype) if isinstance(value, np.ndarray) else filling_number(value, dtype))[()])
    return result


@op(batch=0, method=False, inplace=True, may_overlap=True, grad={"input": zeros})
def zero(input: Tensor) -> Tensor:
    """Zeros like ``input``; ``zero_`` writes them into ``input``.

    Args:
        input: any shape and dtype.
    Returns:
        A new tensor of ``input``'s shape and dtype; ``zero_`` returns ``input``.
    Raises:
        RuntimeError: ``zero_`` of a leaf that requires a gradient.
    Gradient: nothing to what was overwritten.
    Source: torch.Tensor.zero_.
    Example:
        >>> torch.tensor([1, 2]).zero_()
        tensor([0, 0])
    """
    result = empty_as(input, None, input.shape, input.dtype)
    fill_array(result, 0)
    return result


def writable_now(tensor: Any) -> bool:
    """Whether a write to ``tensor`` needs no check, no override and no record."""
    kind = tensor.__class__
    return (
        (kind is TensorType or kind is Parameter)
        and not (active and in_mode())
        and (
            tensor._array.flags.c_contiguous or (tensor._view_of is None and tensor._storage is None) or not overlaps_itself(tensor._array)
        )
        and not (tensor._requires_grad and grad_enabled())
        and (tensor._requires_grad is not INFERENCE or thread.inference)
    )


@asks("copied_into", "self, other")
def copy_(self: Any, other: Any, non_blocking: bool = False) -> Any:
    """Write ``other``, broadcast and cast, or a number, into this tensor.

    Args:
        other: a tensor whose shape broadcasts to this one's, of any dtype and on any device; or a number.
        non_blocking: let a copy between pinned memory and a device go on while the host continues.
    Returns:
        This tensor.
    Raises:
        RuntimeError: an ``other`` that does not broadcast, or this is a leaf that requires a gradient.
        TypeError: neither a tensor nor a number.
    Gradient: ``grad`` to ``other``, nothing to what was overwritten.
    Source: torch.Tensor.copy_.
    """
    if (other.__class__ is TensorType or other.__class__ is Parameter) and not other._requires_grad and writable_now(self):
        a, b = self._array, other._array
        alike = a.shape == b.shape and a.dtype is b.dtype and a.__class__ is b.__class__
        if (
            alike
            and (a.__class__ is np.ndarray or self.layout is strided_layout)
            and (other._storage is None or other._storage is not self._storage)
        ):
            copy_into(a, b)
            storage_of(self)._bump()
            return self
    if isinstance(other, (int, float, complex)):
        other = wrap(np.asarray(other))
    if not isinstance(other, TensorType):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    return _slow_copy(self, other, non_blocking)


@asks("overwritten", "self, value")
def fill_(self: Any, value: Any) -> Any:
    """Write ``value`` into every element.

    Args:
        value: a number or a 0-d tensor; cast to this tensor's dtype.
    Returns:
        This tensor.
    Raises:
        RuntimeError: a ``value`` with dimensions, or one that the dtype cannot hold; this is a leaf that requires a gradient.
    Gradient: the sum of ``grad`` to ``value``, nothing to what was overwritten.
    Source: torch.Tensor.fill_.
    """
    kind = value.__class__
    # no floating dtype overflows at 65504 or below; float16 is rounded to by way of float32
    exact = kind is int or (kind is float and self._array.dtype.num != _HALF)
    if exact and -65504 <= value <= 65504 and writable_now(self) and self._array.dtype.kind == "f":
        fill_array(self._array, value)
        storage_of(self)._bump()
        return self
    return _slow_fill(self, value)


@asks("overwritten", "self, 0")
def zero_(self: Any) -> Any:
    """Write zero into every element.

    Returns:
        This tensor.
    Raises:
        RuntimeError: a leaf that requires a gradient.
    Gradient: nothing to what was overwritten.
    Source: torch.Tensor.zero_.
    """
    array = self._array
    if writable_now(self) and (array.__class__ is np.ndarray or self.layout is strided_layout):
        array.fill(0)
        storage_of(self)._bump()
        return self
    return _slow_zero(self)


# The generated in-place wrappers serve whatever the fast paths above do not.
_HALF = np.dtype(np.float16).num
_slow_copy, _slow_fill, _slow_zero = (primitive(_name).inplace_wrapper for _name in ("copy", "fill", "zero"))
for _name, _function in (("copy", copy_), ("fill", fill_), ("zero", zero_)):
    primitive(_name).public_inplace = _function
    setattr(TensorType, _function.__name__, _function)


@method()
def resize_(input: Tensor, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Change the shape in place; the storage grows if needed, and new elements are uninitialised.

    Args:
        input: any shape and dtype, without gradient.
        *sizes: sizes one by one, or as one sequence; also by the keyword ``size``.
        memory_format: the order of the elements in memory; row by row when None.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: a tensor that requires grad, or a negative size.
    Source: torch.Tensor.resize_.
    Example:
        >>> x = torch.tensor([1, 2, 3, 4])
        >>> x.resize_(2, 2)
        tensor([[1, 2],
                [3, 4]])
        >>> x.resize_(3)
        tensor([1, 2, 3])
    """
    shape = sizes_of(one_by_one("resize_", sizes, size), "resize_")
    if min(shape, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    if input._requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if interposed and modes.below.is_handled((input,)):
        return modes.below.resized(input, shape, memory_format)
    if memory_format is not None:
        resize(input, shape, format_strides(shape, memory_format) if memory_format is not contiguous_format else None)
    elif input._array.shape != shape:
        resize(input, shape)
    return input


@composite()
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """``resize_`` to another tensor's shape.

    Args:
        input: any shape and dtype, without gradient.
        the_template: tensor whose shape is taken.
        memory_format: the order of the elements in memory; row by row when None.
    Returns:
        ``input`` itself; elements beyond its former number are uninitialised.
    Raises:
        RuntimeError: a tensor that requires grad.
    Source: torch.Tensor.resize_as_.
    Example:
        >>> torch.resize_as_(torch.tensor([1, 2, 3, 4]), torch.ones(2, 2))
        tensor([[1, 2],
                [3, 4]])
    """
    return input.resize_(the_template._array.shape, memory_format=memory_format)


@method()
def resize_as(input: Tensor, the_template: Tensor) -> Tensor:
    """``reshape`` to another tensor's shape. Deprecated.

    Args:
        input: any shape and dtype.
        the_template: tensor with as many elements.
    Returns:
        A view where strides allow, a copy otherwise.
    Raises:
        RuntimeError: another number of elements.
    Gradient: ``grad`` with ``input``'s shape.
    Source: torch.Tensor.resize_as.
    Example:
        >>> torch.tensor([1, 2, 3, 4]).resize_as(torch.ones(2, 2))
        tensor([[1, 2],
                [3, 4]])
    """
    warnings.warn("non-inplace resize_as is deprecated", UserWarning, stacklevel=2)
    if input._array.size != the_template._array.size:
        sizes = "x".join(map(str, the_template.shape))
        raise RuntimeError(
            f"requested resize to {sizes} ({the_template.numel()} elements in total), but the given tensor has a size of "
            f"{'x'.join(map(str, input.shape))} ({input.numel()} elements). autograd's resize can only change the shape of a given tensor, "
            "while preserving the number of elements. "
        )
    return input.reshape(the_template.shape)


@method()
def fill_diagonal_(input: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number onto the diagonal.

    Args:
        input: two dimensions, or more of equal length.
        fill_value: the number, or a 0-d tensor.
        wrap: in a matrix that is taller than wide, go on with a further diagonal after each ``width + 1`` rows.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: less than two dimensions, or more of different lengths.
    Gradient: none to what was overwritten.
    Source: torch.Tensor.fill_diagonal_.
    Example:
        >>> torch.zeros(5, 2, dtype=torch.int64).fill_diagonal_(7, wrap=True).t()
        tensor([[7, 0, 0, 7, 0],
                [0, 7, 0, 0, 7]])
    """
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    height, width = shape[:2]
    step, offset = sum(input.stride()), input.storage_offset()
    for row in range(0, height if wrap and len(shape) == 2 else min(height, 1), width + 1):
        length = min(height - row, width)
        input.as_strided((length,), (step,), offset + row * input.stride(0)).fill_(fill_value)
    return input


@method(name="resize")
def resize_method(input: Tensor, *sizes: Any) -> Tensor:
    """A contiguous tensor with another shape of as many elements. Deprecated: use ``reshape``.

    Args:
        input: any shape and dtype.
        *sizes: sizes one by one, or as one sequence.
    Returns:
        A view of ``input`` where it is contiguous, of a copy otherwise.
    Raises:
        RuntimeError: another number of elements.
    Gradient: ``grad`` with ``input``'s shape.
    Source: torch.Tensor.resize.
    Example:
        >>> torch.tensor([1, 2, 3, 4]).resize(2, 2)
        tensor([[1, 2],
                [3, 4]])
    """
    warnings.warn("non-inplace resize is deprecated", UserWarning, stacklevel=3)
    return input.contiguous().view(*sizes)


@method(name="set_")
def set_(input: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Make this tensor show another tensor's or storage's memory.

    Args:
        input: a tensor without history.
        source: a tensor, a storage, or None for an empty storage.
        storage_offset, size, stride: the geometry over a storage, in elements.
    Returns:
        ``input`` itself, on ``source``'s memory.
    Raises:
        RuntimeError: a tensor of another dtype.
        TypeError: another ``source``.
        NotImplementedError: ``input`` is a result with a history.
    Source: torch.Tensor.set_.
    Example:
        >>> x, y = torch.tensor([1, 2, 3, 4]), torch.tensor([0])
        >>> y.set_(x.untyped_storage(), 1, (2,)).fill_(9)
        tensor([9, 9])
        >>> x
        tensor([1, 9, 9, 4])
    """
    if input._requires_grad and input._node is not None and grad_enabled():
        raise NotImplementedError("set_ on a tensor with a history is not supported; detach it first")
    if isinstance(source, TensorType) and size is None:
        if source.dtype is not input.dtype:
            raise RuntimeError(f"Could not set tensor of type {source.dtype.legacy} to a tensor of type {input.dtype.legacy}")
        storage = storage_of(source)
        input._array, input._storage = source._array, storage
    else:
        if isinstance(source, TensorType):
            if not source.is_contiguous():
                raise RuntimeError("passed in tensor to be used as storage must be contiguous")
            storage = storage_of(source)
        elif source is None:
            storage = UntypedStorage(0)
        elif isinstance(source, TypedStorage | UntypedStorage):
            storage = source.untyped() if isinstance(source, TypedStorage) else source
        else:
            raise TypeError(f"set_() received an invalid combination of arguments - got ({type(source).__name__})")
        dtype = input._array.dtype
        count = storage.nbytes() // dtype.itemsize
        shape = (count - storage_offset,) if size is None else tuple(size) if isinstance(size, (tuple, list)) else (size,)
        strides = contiguous_strides(shape) if stride is None else tuple(stride) if isinstance(stride, (tuple, list)) else (stride,)
        reach = 0 if 0 in shape else storage_offset + 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if reach > count:
            storage._grow(reach * dtype.itemsize)
        input._storage = storage
        step_bytes = tuple(step * dtype.itemsize for step in strides)
        changes.count += 1
        input._array = strided(storage._flat, shape, step_bytes, storage_offset * dtype.itemsize, dtype)
    storage._add_alias(input)
    storage._bump()
    note_order(input)
    return input


@composite(method=False)
def numel(input: Tensor) -> int:
    """Number of elements of ``input``: the product of its sizes.

    Args:
        input: any shape and dtype.
    Returns:
        A Python int; 1 for a 0-d tensor.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.numel.
    Example:
        >>> torch.numel(torch.ones(2, 3)), torch.numel(torch.tensor(7)), torch.numel(torch.ones(0, 5))
        (6, 1, 0)
    """
    return math.prod(input._array.shape)


def _number(value: Any) -> Any:
    """``value`` as a Python function returned it; text and None are errors, though NumPy would convert them."""
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return value


@method()
def apply_(input: Tensor, callable: Any) -> Tensor:
    """Replace every element by what a Python function makes of it.

    Args:
        input: any shape, on the CPU; nothing happens on the meta device.
        callable: function of a Python number.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: a leaf that requires a gradient.
    Source: torch.Tensor.apply_.
    Example:
        >>> torch.tensor([1, 2, 3]).apply_(lambda value: value * value)
        tensor([1, 4, 9])
    """
    return _mapped("apply_", input, {}, callable)


@method(name="map_")
def map_(input: Tensor, other: Tensor, callable: Any) -> Tensor:
    """Replace every element by a Python function of it and the matching element of ``other``.

    Args:
        input: any shape, on the CPU; nothing happens on the meta device.
        other: of ``input``'s dtype, broadcastable to its shape.
        callable: function of two Python numbers.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: a tensor that requires a gradient, or an ``other`` that does not broadcast.
        TypeError: an ``other`` of another dtype.
    Source: torch.Tensor.map_.
    Example:
        >>> torch.tensor([1, 2, 3]).map_(torch.tensor([10, 10, 10]), lambda a, b: a * b)
        tensor([10, 20, 30])
    """
    return _mapped("map_", input, {"other": other}, callable)


@method(name="map2_")
def map2_(input: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replace every element by a Python function of it and the matching elements of ``x`` and ``y``.

    Args:
        input: any shape, on the CPU; nothing happens on the meta device.
        x, y: of ``input``'s dtype, broadcastable to its shape.
        callable: function of three Python numbers.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: a tensor that requires a gradient, or an operand that does not broadcast.
        TypeError: an operand of another dtype.
    Source: torch.Tensor.map2_.
    Example:
        >>> x, y = torch.tensor([10, 20]), torch.tensor([3, 4])
        >>> torch.tensor([1, 2]).map2_(x, y, lambda a, b, c: a + b * c)
        tensor([31, 82])
    """
    return _mapped("map2_", input, {"x": x, "y": y}, callable)


def _mapped(name: str, input: Any, others: dict[str, Any], callable: Any) -> Any:
    """``input`` with every element replaced by what a Python function makes of it and the matching ones of other tensors."""
    for word, other in others.items():
        if not isinstance(other, TensorType):
            raise TypeError(f"{name}(): argument '{word}' must be Tensor, not {type(other).__name__}")
        if other.requires_grad:
            raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
        expected, got = [f"Meta{of.dtype.legacy}Type" if of.is_meta else f"torch.{of.dtype.legacy}Tensor" for of in (input, other)]
        if expected != got:
            raise TypeError(f"{name}: expected {expected} for '{word}' (got {got})")
    check_writable(input, False, may_overlap=True)
    array = input._array
    if input.device.type == "meta":
        return input
    beside = [other.expand(array.shape)._array for other in others.values()]
    for place in np.ndindex(array.shape):
        array[place] = _number(callable(array[place].item(), *[other[place].item() for other in beside]))
    storage_of(input)._bump()
    return input
