"""Layouts and memory formats."""

from __future__ import annotations

import numpy as np

from .arrays import view_at
from .shape import contiguous_strides, element_strides


class layout:
    """How a tensor's values are laid out; ``torch.strided`` is what this package computes with. Source: torch.layout."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format:
    """Order of dimensions in memory. Source: torch.memory_format."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided, sparse_coo, sparse_csr, sparse_csc = layout("strided"), layout("sparse_coo"), layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc, jagged, _mkldnn = layout("sparse_bsr"), layout("sparse_bsc"), layout("jagged"), layout("_mkldnn")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")

_CHANNELS = {channels_last: 4, channels_last_3d: 5}


def require_strided(given: layout | None, operation: str) -> None:
    """Raise for layouts that are not supported yet.

    Raises:
        NotImplementedError: a sparse layout.
        TypeError: no layout.
    """
    if given is None or given is strided:
        return
    if not isinstance(given, layout):
        raise TypeError(f"{operation}(): argument 'layout' must be torch.layout, not {type(given).__name__}")
    raise NotImplementedError(f"{operation}: layout {given} is not supported yet; only torch.strided is")


def format_strides(shape: tuple[int, ...], form: memory_format) -> tuple[int, ...]:
    """Strides, in elements, of a dense tensor in a memory format.

    Raises:
        RuntimeError: a number of dimensions that the format does not have.
    """
    if form is contiguous_format:
        return contiguous_strides(shape)
    count = _CHANNELS.get(form)
    if count is None:
        raise RuntimeError(f"unsupported memory format option {form}")
    if len(shape) != count:
        raise RuntimeError(f"required rank {count} tensor to use {form.name} format")
    last = contiguous_strides((shape[0], *shape[2:], shape[1]))
    return (last[0], last[-1], *last[1:-1])


def is_contiguous_as(array: np.ndarray, form: memory_format) -> bool:
    """Whether an array is dense in that format; sizes of 1 fit any stride."""
    shape = array.shape
    if form is not contiguous_format and len(shape) != _CHANNELS.get(form):
        return False
    wanted = format_strides(shape, form)
    return 0 in shape or all(n == 1 or a == b for n, a, b in zip(shape, element_strides(array), wanted, strict=True))


def is_dense(array: np.ndarray) -> bool:
    """Whether the elements fill their memory without gaps or overlaps, in whatever order."""
    expected = array.itemsize
    for step, n in sorted((step, n) for step, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if step != expected:
            return False
        expected *= n
    return True


def empty_as(array: np.ndarray, form: memory_format | None, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array of ``shape``: ``preserve_format`` (or None) keeps the strides of a dense ``array`` of that shape."""
    if form is None or form is preserve_format:
        if shape != array.shape or array.flags.c_contiguous:
            return np.empty(shape, dtype)
        if is_dense(array):
            return empty_strided_array(shape, element_strides(array), dtype)
        order = sorted(range(array.ndim), key=lambda d: (-array.strides[d], d))
        if any(array.strides[d] == 0 and shape[d] != 1 for d in order):
            return np.empty(shape, dtype)
        made = np.empty([shape[d] for d in order], dtype)
        return made.transpose(np.argsort(order))
    if form is contiguous_format:
        return np.empty(shape, dtype)
    return empty_strided_array(shape, format_strides(shape, form), dtype)


def empty_strided_array(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array with the given strides in elements."""
    if 0 in shape:
        return view_at(np.empty(max(dtype.itemsize, 1), np.uint8), shape, dtype, 0, [step * dtype.itemsize for step in strides])
    extent = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return view_at(np.empty(extent, dtype), shape, dtype, 0, [step * dtype.itemsize for step in strides])
