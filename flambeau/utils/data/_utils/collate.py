"""Collating: how a loader makes a batch of samples, unless it is given a ``collate_fn``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .... import ops
from ....core.dtype import float64
from ....core.tensor import Tensor, wrap
from . import shared_memory
from .containers import is_namedtuple, rebuilt_mapping, rebuilt_sequence

CollateMap: TypeAlias = dict[type | tuple[type, ...], Callable[..., Any]]

default_collate_err_msg_format = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
np_str_obj_array_pattern = re.compile("[SaUO]")  # kinds of arrays of which no tensor can be made


def _is_text(array: np.ndarray) -> bool:
    """Whether an array holds strings, bytes or objects."""
    return np_str_obj_array_pattern.search(array.dtype.kind) is not None


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers in ``data`` as tensors; the loader does this to samples that it does not batch.

    Args:
        data: anything; mappings, sequences and named tuples are searched.
    Returns:
        ``data`` with arrays and NumPy numbers replaced by tensors; a plain tuple becomes a list. Strings stay.
    Source: torch.utils.data.default_convert.
    Example:
        >>> default_convert({"name": "cat", "pixels": np.array([1, 2])})
        {'name': 'cat', 'pixels': tensor([1, 2])}
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray):
        return data if _is_text(data) else ops.as_tensor(data)
    if isinstance(data, np.generic):
        return data if isinstance(data, np.character) else ops.as_tensor(data)
    if isinstance(data, Mapping):
        return rebuilt_mapping(data, {key: default_convert(data[key]) for key in data})
    if is_namedtuple(data):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return rebuilt_sequence(data, [default_convert(item) for item in data])
    return data


def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Join samples into one batch by the type of the first: by a function of ``collate_fn_map``, or item by item.

    Args:
        batch: the samples; all have the structure of the first.
        collate_fn_map: type, or tuple of types, to function ``f(batch, *, collate_fn_map)``; the first match counts.
    Returns:
        What the function returns, or a container like the sample with each item collated (a list for plain tuples).
    Raises:
        TypeError: samples of another type.
        RuntimeError: sequences of different lengths.
    Source: torch.utils.data._utils.collate.collate.
    Example:
        >>> def longest(batch, *, collate_fn_map):
        ...     return max(batch, key=len)
        >>> collate([("ab", 1), ("abc", 2)], collate_fn_map={str: longest, int: collate_int_fn})
        ['abc', tensor([1, 2])]
    """
    sample = batch[0]
    kind = type(sample)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for types, function in collate_fn_map.items():
            if isinstance(sample, types):
                return function(batch, collate_fn_map=collate_fn_map)

    if isinstance(sample, Mapping):
        items = {key: collate([other[key] for other in batch], collate_fn_map=collate_fn_map) for key in sample}
        return rebuilt_mapping(sample, items)
    if is_namedtuple(sample):
        return kind(*(collate(items, collate_fn_map=collate_fn_map) for items in zip(*batch, strict=False)))
    if isinstance(sample, Sequence):
        if any(len(other) != len(sample) for other in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        joined = [collate(items, collate_fn_map=collate_fn_map) for items in zip(*batch, strict=True)]
        return joined if isinstance(sample, tuple) else rebuilt_sequence(sample, joined)
    raise TypeError(default_collate_err_msg_format.format(kind))


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Tensors of one shape, stacked along a new first dimension."""
    if batch[0].is_sparse:
        raise RuntimeError(
            "Batches of sparse tensors are not currently supported by the default collate_fn; "
            "please provide a custom collate_fn to handle them appropriately."
        )
    joined = _joined_in_shared_memory(batch)
    return ops.stack(list(batch), 0) if joined is None else joined


def _joined_in_shared_memory(batch: Sequence[Tensor]) -> Tensor | None:
    """The tensors stacked where the loader's process can see them; None outside workers, and for what is small or unusual."""
    arena = shared_memory.current
    if arena is None:
        return None
    first = batch[0]._array
    nbytes = len(batch) * first.nbytes
    if nbytes < shared_memory.SMALLEST:
        return None
    for tensor in batch:
        array = tensor._array
        plain = tensor.__class__ is Tensor and array.__class__ is np.ndarray and not tensor.requires_grad
        if not (plain and array.dtype == first.dtype and array.shape == first.shape and array.flags.c_contiguous):
            return None
    shape = (len(batch), *first.shape)
    joined = np.ndarray(shape, first.dtype, arena.lease(nbytes))
    np.concatenate([tensor._array.reshape(1, *first.shape) for tensor in batch], out=joined)
    return wrap(joined)


def collate_numpy_array_fn(batch: Sequence[np.ndarray], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Arrays, as the tensors that share their memory."""
    if _is_text(batch[0]):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([ops.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[np.generic], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """NumPy numbers, in their own dtype."""
    return ops.as_tensor(batch)


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Python floats, in their own precision."""
    return ops.tensor(batch, dtype=float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Python ints (int64) or bools."""
    return ops.tensor(batch)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Sequence[Any]:
    """Strings and bytes, as they are."""
    return batch


# NumPy's float64 is also a Python float, so NumPy's numbers come first.
default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples into one batch: tensors and arrays are stacked, numbers become tensors, containers keep their structure.

    Args:
        batch: the samples; all have the structure of the first.
    Returns:
        Tensors with a first dimension of ``len(batch)`` in the samples' structure; plain tuples become lists; strings stay.
    Raises:
        TypeError: samples of which no tensor can be made.
        RuntimeError: sequences of different lengths, or tensors of different shapes.
    Source: torch.utils.data.default_collate.
    Example:
        >>> default_collate([{"x": 1.5, "name": "a"}, {"x": 2.5, "name": "b"}])
        {'x': tensor([1.5000, 2.5000], dtype=torch.float64), 'name': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
