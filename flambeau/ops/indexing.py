"""Indexing: ``x[...]`` read and written, and the operations that take or put elements by index.

``x[key]`` follows PyTorch's algorithm.  First every basic part of the key (ints, slices, None, Ellipsis) is applied and gives a
view; where the key has index tensors or masks, that view keeps the whole dimension.  If there were none the view is the result;
otherwise ``index`` takes the elements.  Writing uses the same split: into the view, or by ``index_put_``.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays import native
from ..core.arrays.copies import copied, copied_in_order, limits
from ..core.arrays.kinds import KINDS, device_of, is_array, kind_of
from ..core.calls import wrappers
from ..core.calls.annotations import Tensor
from ..core.calls.casting import cast_array, checked_number, filling_number
from ..core.calls.interruption import pass_on
from ..core.calls.operation import PARTS
from ..core.calls.override import call_override
from ..core.calls.questions import asks
from ..core.calls.registry import composite, op, primitive
from ..core.layout import laid_out, order_of_dims, strides_in_order
from ..core.shape import broadcast_or_none, contiguous_strides, element_strides
from ..core.state import active, as_constant, computed, grad_enabled, in_mode, interposed, interpreters, modes, thread
from ..core.tape.history import check_overlap, check_writable, overlaps_itself
from ..core.tape.node import complain_freed
from ..core.tape.saved import unpack
from ..core.tensor import Parameter, Tensor as TensorType, new_storage, storage_of, wrap
from . import (
    conversion,
    parts as taking,
    views,  # wrappers take their places in these modules when first called
)
from .inplace import writable_now

_INDEX_DTYPES = (dtypes.int64, dtypes.int32)  # of index tensors; of one number, any integer
_INT64 = np.dtype(np.int64)
_SLICE_ALL = slice(None)
_FROM_FRONT, _ONE_BY_ONE = (None, 0), (None, 1)


class Indices(list[Any]):
    """Index arrays per dimension (None for a whole one), with the caller's tensors among them, which must not change before backward."""

    __slots__ = ("tensors",)

    def __init__(self, arrays: Sequence[Any], tensors: Sequence[Any] = ()):
        super().__init__(arrays)
        self.tensors = [tensor for tensor in tensors if isinstance(tensor, TensorType)]


def _unchanged(node: Any, indices: Any) -> Any:
    """The indices that ``node`` keeps: ``Indices``, or a list of arrays that no caller can reach.

    Raises:
        RuntimeError: they were freed, or written to since.
    """
    if node.saved is None:
        complain_freed(node)
    for tensor in indices.tensors if indices.__class__ is Indices else ():
        unpack(node, tensor)
    return indices


# -- reading --------------------------------------------------------------------------------------------------------------------
def getitem(self: Any, key: Any) -> Any:
    """``self[key]``: a view for basic keys, a copy where index tensors or masks take part.

    Raises:
        IndexError: an index out of range, too many indices, or a key of another type.
    """
    if key is None:
        key = (None,)
    if key.__class__ is tuple:
        take = taking.take_slice
        for part in key:
            kind = part.__class__
            if kind is int:
                take = taking.take_select
            elif kind is not slice or part.step is not None:
                if (part is None or part is Ellipsis) and (dim := _inserted_at(key, self._array.ndim)) is not None:
                    if not (active and thread.function_modes):
                        return views.unsqueeze(self, dim)
                break
            elif part != _SLICE_ALL:
                take = taking.take_slice
        else:
            array = self._array
            if 0 < len(key) <= array.ndim and array.size and not (active and thread.function_modes):
                try:
                    result = take(self, (*key, ...))
                except IndexError as error:
                    pass_on(error)
                    # the general way below names the dimension
                else:
                    if result._array.size:
                        return result
    if (self.__class__ is not TensorType and self.__class__ is not Parameter) or (active and in_mode()):
        overridden = _overridden(TensorType.__getitem__, (self, key), key)
        if overridden is not NotImplemented:
            return overridden
    if interposed and modes.below.is_handled(key if key.__class__ is tuple else (key,), self):
        return modes.below.getitem(self, key)
    indices = _index_tensors(key, self._array.ndim)
    if indices is not None:
        return index(self, indices)
    view, indices = split_key(self, key)
    return view if indices is None else index(view, indices)


def _index_tensors(key: Any, ndim: int) -> Indices | None:
    """The index arrays of a key that has nothing but index tensors, of int64; None for any other key."""
    tensors = key if key.__class__ is tuple else (key,)
    if not tensors or len(tensors) > ndim:
        return None
    arrays = []
    for tensor in tensors:
        if tensor.__class__ is not TensorType or tensor._array.dtype is not _INT64 or not tensor._array.ndim:
            return None
        arrays.append(tensor._array)
    return Indices(arrays, tensors)


def _inserted_at(key: tuple[Any, ...], ndim: int) -> int | None:
    """Position at which the only None of a key inserts a dimension, if the rest of the key takes everything."""
    at, dim, has_ellipsis = None, 0, False
    for part in key:
        if part is None and at is None:
            at = dim
        elif part is Ellipsis and not has_ellipsis:
            has_ellipsis = True
            dim += ndim - (len(key) - 2)  # the one None and this part use up no dimension
        elif part.__class__ is slice and part == _SLICE_ALL:
            dim += 1
        else:
            return None
    return at if len(key) - 1 - has_ellipsis <= ndim else None


def _overridden(function: Any, args: tuple[Any, ...], key: Any) -> Any:
    parts = key if isinstance(key, tuple) else (key,)
    result = call_override(function, [args[0], *(p for p in parts if isinstance(p, TensorType))], args, {})
    if result is NotImplemented and interpreters:
        return modes.transforms.setitem(*args) if function is setitem else modes.transforms.getitem(*args)
    return result


def split_key(tensor: Any, key: Any, *, writes: bool = False) -> tuple[Any, Indices | None]:
    """The view that the basic part of ``key`` gives, and the index tensors per dimension of it (None if there are none).

    For writing, a key that takes everything gives the tensor itself, whose history is then simply replaced.
    """
    parts = as_parts(key)
    ndim = tensor._array.ndim
    used = sum(_consumed(part) for part in parts)
    if used > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    basic: list[Any] = []
    indices: list[Any] = []
    names = taking.exact_slice
    dim = 0
    for part in parts:
        kind = part.__class__
        if part is Ellipsis:
            skipped = ndim - used
            basic += [_SLICE_ALL] * skipped
            indices += [None] * skipped
            dim += skipped
        elif part is None:
            basic.append(None)
            indices.append(None)
            names = taking.take_unsqueezed
        elif kind is bool or (kind is np.ndarray and part.dtype.kind == "b" and not part.ndim):
            basic.append(None)
            indices.append(np.zeros(int(part), np.int64))  # the only place of the new dimension, or none
        elif kind is slice:
            part = _checked_slice(part)
            if part.start in _FROM_FRONT and part.step in _ONE_BY_ONE and (part.stop is None or part.stop >= tensor._array.shape[dim]):
                part = _SLICE_ALL
            basic.append(part)
            indices.append(None)
            if part is not _SLICE_ALL:
                names = taking.exact_slice
            dim += 1
        elif is_array(part):
            if part.dtype.kind == "b":
                try:
                    _check_mask(part, tensor._array.shape, dim)
                except IndexError as error:
                    pass_on(error)
                    if writes:
                        check_writable(tensor, False, may_overlap=True)  # which comes first
                    raise
            basic += [_SLICE_ALL] * _consumed(part) if part.ndim or part.dtype.kind != "b" else [None]
            indices.append(part)
            dim += _consumed(part)
        else:
            position = part
            size = tensor._array.shape[dim]
            if not -size <= position < size:
                raise IndexError(f"index {position} is out of bounds for dimension {dim} with size {size}")
            basic.append(position)
            names = taking.exact_select
            dim += 1
    advanced = any(array is not None for array in indices)
    plain = tuple(basic) if Ellipsis in basic else (*basic, ...)
    if all(part.__class__ is slice and part == _SLICE_ALL for part in basic):
        view = tensor if advanced or writes else conversion.view_of_all(tensor)
    else:
        view = names(tensor, plain)
    return view, (Indices(indices, key if isinstance(key, (tuple, list)) else (key,)) if advanced else None)


def _consumed(part: Any) -> int:
    """Number of the tensor's dimensions that a part of a key consumes."""
    if part is None or part is Ellipsis or part.__class__ is bool:
        return 0
    if part.__class__ is not int and is_array(part) and part.dtype.kind == "b":
        return part.ndim
    return 1


def _checked_slice(part: slice) -> slice:
    try:
        bounds = [None if bound is None else operator.index(bound) for bound in (part.start, part.stop, part.step)]
    except TypeError as error:
        pass_on(error)
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None
    if bounds[2] is not None and bounds[2] <= 0:
        raise ValueError("step must be greater than zero")
    return slice(*bounds)


def _check_mask(mask: np.ndarray, shape: tuple[int, ...], dim: int) -> None:
    for i, n in enumerate(mask.shape):
        if dim + i < len(shape) and n != shape[dim + i]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {i} does not match the shape of the indexed tensor {list(shape)} at "
                f"index {dim + i}"
            )


def as_parts(key: Any) -> list[Any]:
    """A key as a list of None, Ellipsis, bools, ints, slices and arrays (of ints or bools).

    Raises:
        IndexError: a part of another type, or index tensors of floats.
    """
    if not isinstance(key, tuple):
        key = tuple(key) if _is_tuple_like(key) else (key,)
    parts = [_part(part) for part in key]
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    return parts


def _is_tuple_like(key: Any) -> bool:
    """PyTorch reads a short list that holds slices or tensors as a tuple."""
    if not isinstance(key, list) or len(key) >= 32:
        return False
    return any(isinstance(part, (TensorType, slice, list, tuple)) or part is None or part is Ellipsis for part in key)


def _part(part: Any) -> Any:
    if part is None or part is Ellipsis or part.__class__ in (slice, bool):
        return part
    if isinstance(part, TensorType):
        array = part._array
        kind = array.dtype.kind
        if kind == "b" or part.dtype is dtypes.uint8:
            if part.dtype is dtypes.uint8:
                text = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
                warnings.warn(text, UserWarning, stacklevel=4)
                array = array.astype(np.bool_)
            return array
        if kind not in "iu" or (array.ndim and part.dtype not in _INDEX_DTYPES):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return array if array.ndim else int(array) if thread.recorder is None else thread.recorder.position(part)
    if isinstance(part, (list, tuple, range, np.ndarray)):
        if not isinstance(part, np.ndarray) and any(isinstance(item, TensorType) for item in part):
            part = [item.tolist() if isinstance(item, TensorType) else item for item in part]
        array = np.asarray(part)
        if not array.size and array.dtype.kind == "f":
            array = array.astype(np.int64)
        if array.dtype.kind not in "iub":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return array if isinstance(part, np.ndarray) else as_constant(array)
    if isinstance(part, str):
        raise TypeError("new(): invalid data type 'str'")
    try:
        return part.__index__()
    except (AttributeError, TypeError) as error:
        pass_on(error)
        raise IndexError(
            f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {type(part).__name__})"
        ) from None


_MANY = 4096  # elements: from here on places are found row by row


@native.part("_places_of")
def places_of(array: np.ndarray) -> np.ndarray:
    """Row numbers, column numbers and so on of the elements that are not zero, ``(ndim, count)``."""
    plain = array.__class__ is np.ndarray and array.dtype.kind in "biuf" and array.flags.c_contiguous
    if not plain or array.ndim < 2 or array.size < _MANY or array.shape[-1] < 32:
        return np.stack(array.nonzero()).astype(np.int64, copy=False)
    width = array.shape[-1]
    mask = array if array.dtype == np.bool_ else array != 0
    flat = mask.reshape(-1).nonzero()[0]
    places = np.empty((array.ndim, flat.size), np.int64)
    counts = np.count_nonzero(mask.reshape(-1, width), axis=1)
    starts = np.arange(counts.size)
    for k, outer in enumerate(np.unravel_index(starts, array.shape[:-1])):
        places[k] = np.repeat(outer, counts)
    np.subtract(flat, np.repeat(starts * width, counts), out=places[-1])
    return places


def plain_indices(indices: Sequence[Any], shape: tuple[int, ...]) -> Indices:
    """Index arrays per dimension: masks become their non-zero positions, and every index is checked.

    Raises:
        IndexError: a position out of range.
    """
    plain: list[Any] = []
    inside: set[int] = set()  # dimensions whose positions come from a mask
    for array in indices:
        if array is not None and array.dtype.kind == "b":
            _check_mask(array, shape, len(plain))
            inside.update(range(len(plain), len(plain) + array.ndim))
            plain += list(computed(places_of, array, varies=True)) if array.ndim else [np.zeros(int(array), np.int64)]
        else:
            plain.append(array)
    if len(plain) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {len(plain)})")
    for dim, array in enumerate(plain):
        if array is None or not array.size or dim in inside:
            continue
        size = shape[dim]
        low, high = limits(array)
        if low < -size or high >= size:
            if size and _selects_nothing(plain, shape):  # then PyTorch does not look
                plain[dim] = np.zeros_like(array)
                continue
            wrong = low if low < -size else high
            raise IndexError(f"index {wrong} is out of bounds for dimension {dim} with size {size}")
    try:
        np.broadcast_shapes(*(array.shape for array in plain if array is not None))
    except ValueError as error:
        pass_on(error)
        shown = ", ".join(str(list(array.shape)) for array in plain if array is not None)
        raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shown}") from None
    return Indices(plain, indices.tensors if indices.__class__ is Indices else ())


def _selects_nothing(indices: Sequence[Any], shape: tuple[int, ...]) -> bool:
    """Whether index arrays of a shape's first dimensions select no element."""
    rest = shape[len(indices) :]
    return 0 in rest or any(n == 0 if array is None else array.size == 0 for array, n in zip(indices, shape))


def numpy_key(indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_SLICE_ALL if array is None else array for array in indices)


def _check_places(input: Any, indices: Any) -> None:
    where = input.device
    for entry in indices:
        array = entry._array if isinstance(entry, TensorType) else entry
        if array.__class__ in KINDS and device_of(array) != where:
            raise RuntimeError(f"indices should be either on cpu or on the same device as the indexed tensor ({where})")


def _taken_size(input: np.ndarray, indices: Sequence[Any]) -> int:
    """Number of elements that index arrays take."""
    given = [(array.size, n) for array, n in zip(indices, input.shape) if array is not None]
    return max([count for count, _ in given], default=1) * (input.size // max(math.prod([n for _, n in given]), 1))


def _canonicalize_index(input: Any, indices: Any) -> tuple[Any, ...]:
    if KINDS:
        _check_places(input, indices)
    return input, plain_indices(indices, input._array.shape)


def _quick_index(input: np.ndarray, indices: Any, limit: int) -> np.ndarray | None:
    """Fewer than ``limit`` elements at index arrays, which NumPy checks; the general way explains what it refuses."""
    if not input.flags.c_contiguous:
        return None
    for array in indices:
        if array is None or array.dtype is not _INT64 or not array.ndim or array.__class__ is not np.ndarray:
            return None
    if _taken_size(input, indices) >= limit:
        return None
    result = input[tuple(indices)]
    return result if result.ndim < 2 or (result.flags.c_contiguous and 1 not in result.shape and 1 not in input.shape) else None


@op(
    name="_index",
    out=True,
    fast="_quick_index(a, indices, THRESHOLD)",
    canonicalize=_canonicalize_index,
    work="_taken_size(input, indices)",
    grad={"input": lambda grad, node, input_shape, indices: index_gradient(grad, input_shape, _unchanged(node, indices))},
    aten="index.Tensor",
    forward="linear",
)
def index(input: Tensor, indices: Sequence[Any]) -> Tensor:
    """The elements of ``input`` at index arrays (one per dimension, None for a whole dimension); a copy."""
    result = np.array(input[numpy_key(indices)], order="C")
    if result.ndim < 2 or (result.size and input.flags.c_contiguous and 1 not in result.shape and 1 not in input.shape):
        return result
    return laid_out(result, _indexed_strides(input, indices, result.shape))


def _indexed_strides(input: np.ndarray, indices: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of the elements at index arrays: PyTorch's loop goes over ``input`` with the indexed dimensions repeated."""
    indexed = [dim for dim, array in enumerate(indices) if array is not None]
    rest = [dim for dim in range(input.ndim) if dim not in indexed]
    together = indexed == list(range(indexed[0], indexed[-1] + 1))
    lead = indexed[0] if together else 0
    strides = element_strides(input)
    common = np.broadcast_shapes(*(indices[dim].shape for dim in indexed))
    if 0 in shape and not any(n != 1 for n in (*shape[:lead], *shape[lead + len(common) :])):
        return contiguous_strides(shape)  # operands of one shape, all of them contiguous for having no elements
    places = [strides[dim] for dim in rest]
    source = [*places[:lead], *(0,) * len(common), *places[lead:]]
    operands: list[Sequence[int]] = [source]
    for dim in indexed:
        # one array stays as it is, several are broadcast first
        after = len(shape) - lead - len(common)
        inner: Sequence[int]
        if indices[dim].shape == common:
            inner = contiguous_strides((*(1,) * lead, *common, *(1,) * after))[lead : lead + len(common)]
        else:
            own = zip(indices[dim].shape, element_strides(indices[dim]), common[len(common) - indices[dim].ndim :])
            inner = [*(0,) * (len(common) - indices[dim].ndim), *(0 if n < size else step for n, step, size in own)]
        outer = inner[0] * common[0] if common else 1
        operands.append(
            [*(outer if shape[i] == 1 else 0 for i in range(lead)), *inner, *(1 if n == 1 else 0 for n in shape[lead + len(common) :])]
        )
    return strides_in_order(shape, order_of_dims(shape, operands))


@op(
    name="_index_backward",
    node_name="IndexPutBackward0",
    grad={"input": lambda grad, node, indices: index(grad, _unchanged(node, indices))},
    forward="linear",
    lowered=lambda input, shape, indices: put_at(input.new_zeros(list(shape)), indices, input, True),
    meta=lambda new, grad, shape, *rest: new(shape, grad.dtype),
)
def index_gradient(input: Tensor, shape: Sequence[int], indices: Any) -> Tensor:
    """Zeros of ``shape`` with ``input`` added at index arrays; repeated positions add up."""
    whole = np.zeros(shape, input.dtype)
    add_at(whole, numpy_key(indices), input)
    return whole


def add_at(whole: np.ndarray, key: Any, values: np.ndarray) -> None:
    """``whole[key] += values`` where repeated positions add up."""
    if isinstance(key, tuple) and len(key) == 1 and isinstance(key[0], np.ndarray) and whole.ndim >= 1:
        rows = key[0].reshape(-1)
        if rows.size <= 1 or np.bincount(rows % max(len(whole), 1), minlength=1).max() <= 1:
            whole[key] += values
            return
    if isinstance(key, tuple) and len(key) == whole.ndim > 1 and whole.flags.c_contiguous and all(entry is not _SLICE_ALL for entry in key):
        whole, (key, values) = whole.reshape(-1), np.broadcast_arrays(_in_order(whole.shape, key), values)  # NumPy's quicker way
    np.add.at(whole, key, values)


def _in_order(shape: Sequence[int], key: Sequence[np.ndarray]) -> np.ndarray:
    """Index arrays of all dimensions as places in row-major order."""
    places: Any = 0
    for array, size in zip(key, shape, strict=True):
        places = places * size + np.where(array < 0, array + size, array)
    return places


# -- writing --------------------------------------------------------------------------------------------------------------------
@asks("put", "self, key, value", answer="None")
def setitem(self: Any, key: Any, value: Any) -> None:
    """``self[key] = value``: the value is broadcast and cast.

    Raises:
        IndexError: as for reading.
        RuntimeError: a value whose shape does not fit, and what an in-place write may raise.
    """
    if (self.__class__ is not TensorType and self.__class__ is not Parameter) or (active and in_mode()):
        overridden = _overridden(setitem, (self, key, value), (key, value))
        if overridden is not NotImplemented:
            return
    if interposed and modes.below.is_handled(key if key.__class__ is tuple else (key,), self, value):
        return modes.below.setitem(self, key, value)
    if writable_now(self) and _written_quickly(self, key, value):
        return
    if key.__class__ is bool:  # a view in which there is all, or nothing to write
        if key:
            _assign(self.unsqueeze(0), value)
        return
    view, indices = split_key(self, key, writes=True)
    if indices is None:
        _assign(view, value)
        return
    if not isinstance(value, TensorType):
        if not isinstance(value, (int, float, complex, np.integer)):
            raise _cannot_assign(value, self.dtype)
        value = wrap(filling_number(value, self.dtype))
    if len(indices) == 1 and indices[0].dtype.kind == "b" and not value._array.ndim and not value._requires_grad:
        mask = next((tensor for tensor in indices.tensors if tensor._array is indices[0]), wrap(indices[0]))
        trailing = view._array.ndim - mask._array.ndim  # dimensions that the mask leaves whole
        view.masked_fill_(mask.reshape(*mask._array.shape, *(1,) * trailing) if trailing else mask, value)
        return
    _put_into(view, indices, _checked_values(view, value, indices, False, writes=True), False)


def _put_into(target: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    """``target``, with ``values`` put at index arrays."""
    check_overlap(target, (values,), same_allowed=False)
    if not overlaps_itself(target._array) or (grad_enabled() and (target._requires_grad or values._requires_grad)):
        return target._index_put_(indices, values, accumulate)
    warnings.warn(
        "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also "
        "applies to advanced indexing e.g. tensor[indices] = tensor",
        UserWarning,
        stacklevel=4,
    )
    check_writable(target, False, may_overlap=True)
    _, indices, values, _ = _canonicalize_put(target, indices, values, accumulate)
    _put(target._array, indices, values._array, accumulate)
    storage_of(target)._bump()
    return target


def _written_quickly(tensor: Any, key: Any, value: Any) -> bool:
    """Write a float or a tensor of the same dtype to a basic key, where nothing has to be recorded; False if that is not the case."""
    array = tensor._array
    for part in key if key.__class__ is tuple else (key,):
        if part.__class__ is not int and part is not ... and (part.__class__ is not slice or part.step is not None):
            return False
    kind = value.__class__
    if kind is TensorType or kind is Parameter:
        source = value._array
        if (
            source.dtype is not array.dtype
            or source.__class__ is not array.__class__
            or value._requires_grad
            or (value._storage is not None and value._storage is tensor._storage)
        ):
            return False
    elif (kind is float or kind is int) and array.dtype.kind == "f" and -65504 <= value <= 65504:  # no floating dtype overflows
        source = value
    else:
        return False
    try:
        array[key] = source
    except (IndexError, TypeError, ValueError) as error:
        pass_on(error)
        return False  # the general way names the dimension or the shapes
    new_storage(tensor)._bump()
    return True


def _cannot_assign(value: Any, dtype: Any) -> TypeError:
    kind = type(value)
    name = f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
    return TypeError(f"can't assign a {name} to a torch.{dtype.legacy}Tensor")


def _assign(view: Any, value: Any) -> None:
    if isinstance(value, TensorType):
        shape, have = view._array.shape, value._array.shape
        extra = len(have) - len(shape)
        if extra > 0 and all(n == 1 for n in have[:extra]):
            value = value.reshape(have[extra:])
        view.copy_(value if value._array.shape == shape else value.expand(shape))
    elif isinstance(value, (int, float, complex, np.integer)):
        check_writable(view, False)  # unlike fill_, which may write to repeated elements
        view.fill_(value)
    else:
        raise _cannot_assign(value, view.dtype)


getitem.__name__, setitem.__name__ = "__getitem__", "__setitem__"  # as seen by __torch_function__
TensorType.__getitem__ = wrappers.make_getitem(primitive("_select"), primitive("_slice"), getitem)  # type: ignore[method-assign]
TensorType.__setitem__ = setitem  # type: ignore[method-assign]


def _canonicalize_put(input: Any, indices: Any, values: Any, accumulate: bool) -> tuple[Any, ...]:
    if KINDS:
        _check_places(input, indices)
        if any(getattr(array, "dtype", None) == np.bool_ and not kind_of(array).has_values for array in indices):
            return input, indices, values, accumulate  # how many values there have to be is not known
    shape = input._array.shape
    indices = plain_indices(indices, shape)
    arrays = [array for array in indices if array is not None]
    if arrays:
        empty = np.empty(shape, np.bool_) if 0 in shape else np.broadcast_to(np.empty((), np.bool_), shape)  # of one byte
        target = empty[numpy_key(indices)].shape
        have = values._array.shape
        while len(have) > len(target) and have[0] == 1:
            values = values.reshape(have[1:])
            have = have[1:]
        if broadcast_or_none(target, have) != target:
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing result of shape {list(target)}"
            )
    return input, indices, values, accumulate


def _put_value_gradient(grad: Any, indices: Any, values_shape: Any) -> Any:
    gradient = index(grad, indices)
    lead = len(values_shape) - gradient._array.ndim
    return gradient.reshape((1,) * lead + tuple(gradient._array.shape)) if lead > 0 else gradient


@op(
    name="_index_put",
    method=True,
    out=True,
    inplace=True,
    may_overlap=PARTS,
    canonicalize=_canonicalize_put,
    grad={
        "input": lambda grad, node, indices, accumulate: grad if accumulate else zero_at(grad, _unchanged(node, indices)),
        "values": lambda grad, node, indices, values_shape: _put_value_gradient(grad, _unchanged(node, indices), values_shape),
    },
    aten="index_put",
    forward="linear",
    meta=lambda new, input, *rest: new.like(input),
)
def put_at(input: Tensor, indices: Any, values: Tensor, accumulate: bool) -> Tensor:
    """``input`` with ``values`` put, or added, at index arrays."""
    result = copied_in_order(input)
    _put(result, indices, values, accumulate)
    return result


def _put(target: np.ndarray, indices: Any, values: np.ndarray, accumulate: bool) -> None:
    values = cast_array(values, dtypes.of_array(target))
    if accumulate:
        add_at(target, numpy_key(indices), values)
    else:
        target[numpy_key(indices)] = values


@op(
    name="_zero_at",
    grad={"input": lambda grad, node, indices: zero_at(grad, _unchanged(node, indices))},
    forward="linear",
    meta=lambda new, input, *rest: new.like(input),
)
def zero_at(input: Tensor, indices: Any) -> Tensor:
    """``input`` with zeros at index arrays."""
    result = copied(input)
    result[numpy_key(plain_indices(indices, input.shape))] = 0
    return result


def _index_arrays(indices: Any) -> Indices:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"index_put(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}")
    for place, entry in enumerate(indices):
        if entry is not None and not isinstance(entry, TensorType):
            raise TypeError(f"index_put(): expected Tensor as element {place} of 'indices', but got {type(entry).__name__}")
    arrays = [None if entry is None else _part(entry) if entry._array.ndim else np.asarray(_part(entry)) for entry in indices]
    return Indices(arrays, indices)


def _checked_values(input: Any, values: Any, indices: Any, accumulate: bool, writes: bool = False) -> Any:
    """``values``, which must have ``input``'s dtype: all but one value that fills a single mask.

    Whether ``input`` may be written to and indices and values fit is looked at before the dtypes, as in PyTorch.
    """
    if not isinstance(values, TensorType):
        raise TypeError(f"index_put(): argument 'values' (position 2) must be Tensor, not {type(values).__name__}")
    if values.dtype is not input.dtype:
        arrays = [array for array in indices if array is not None]
        if not accumulate and values.numel() == 1 and len(arrays) == 1 and arrays[0].dtype.kind == "b":
            if values._array.__class__ is np.ndarray:
                checked_number(values._array.item(), input.dtype)  # as masked_fill refuses what the dtype cannot hold
            return values.to(input.dtype)
        if writes:
            check_writable(input, values.requires_grad, may_overlap=True)
        _canonicalize_put(input, indices, values, accumulate)
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {input.dtype.legacy} for the destination and "
            f"{values.dtype.legacy} for the source."
        )
    return values


@composite(autocast={"cuda": "widest"})
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """``input`` with ``values`` at a tuple of index tensors.

    Args:
        input: any shape and dtype.
        indices: one index tensor (or mask, or None) per dimension; they broadcast with each other.
        values: of ``input``'s dtype, broadcastable to the shape that the indices select.
        accumulate: add, so that repeated positions add up, instead of overwrite.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        RuntimeError: another dtype, or values that do not broadcast.
        IndexError: an index out of range.
        TypeError: ``indices`` that are no tuple or list of tensors.
    Gradient: ``grad`` to ``input``, 0 where it was overwritten; ``grad`` at the positions to ``values``.
    Source: torch.index_put.
    Example:
        >>> at = (torch.tensor([0, 0, 2]),)
        >>> torch.index_put(torch.zeros(3), at, torch.tensor(1.0), accumulate=True)
        tensor([2., 0., 1.])
    """
    arrays = _index_arrays(indices)
    return put_at(input, arrays, _checked_values(input, values, arrays, accumulate), accumulate)


@composite()
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """:func:`torch.index_put` that writes into ``input``, as ``input[indices] = values`` does.

    Args:
        input: any shape and dtype.
        indices, values, accumulate: as for ``torch.index_put``.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: another dtype, values that do not broadcast, or a leaf that requires a gradient.
        IndexError: an index out of range.
    Gradient: ``grad`` at the positions to ``values``.
    Source: torch.Tensor.index_put_.
    Example:
        >>> x = torch.zeros(2, 2)
        >>> torch.index_put_(x, (torch.tensor([0, 1]), torch.tensor([1, 0])), torch.tensor([5.0, 7.0]))
        tensor([[0., 5.],
                [7., 0.]])
    """
    arrays = _index_arrays(indices)
    return _put_into(input, arrays, _checked_values(input, values, arrays, accumulate, writes=True), accumulate)
