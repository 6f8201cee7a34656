"""Arrays of the meta device: shape, strides and element type without values.

A ``MetaArray`` holds a NumPy array of the right shape and strides over a buffer of one element, its frame, which must not be read.

    frame          as_strided(one element, (200000, 200000), (800000, 4))       160 GB that are not there
    x.T, x[2:5]    made by NumPy on the frame: exact, and free

Kernels read values in their checks only.  The result is such that the check passes: ``np.all`` is true, everything else is
not.  What cannot be answered, a number or how many elements a mask takes, raises as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ..layout import elementwise_strides
from ..shape import contiguous_strides, view_strides
from .kinds import MissingValue, missing_values

_new = object.__new__


def _as_strided(array: np.ndarray, shape: Any, strides: Any) -> np.ndarray:
    """``as_strided`` for every element type: NumPy reads the names of some of them wrongly."""
    try:
        return np.lib.stride_tricks.as_strided(array, shape, strides)
    except TypeError:
        plain = np.lib.stride_tricks.as_strided(array.view(f"V{array.itemsize}"), shape, strides)
        return plain.view(array.dtype)


class MetaArray:
    """An array without values; see this module's docstring. ``meta_numpy`` puts operators and NumPy's protocols on it."""

    __slots__ = ("__weakref__", "_frame", "_truth")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]
    _frame: np.ndarray
    _truth: bool  # what a kernel's check is told

    def __new__(cls, shape: Any, dtype: Any = np.float64, buffer: Any = None, offset: int = 0, strides: Any = None) -> MetaArray:
        """As ``np.ndarray``: a new array, or a view of another one's memory."""
        if buffer is None:
            return empty(shape, dtype)
        kind = np.dtype(dtype)
        sizes = (int(shape),) if hasattr(shape, "__index__") else tuple(shape)
        steps = [step * kind.itemsize for step in contiguous_strides(sizes)] if strides is None else strides
        return view_at(buffer, sizes, kind, offset, steps)

    # -- what it is -----------------------------------------------------------------------------------------------------------------
    dtype = property(lambda self: self._frame.dtype)
    shape = property(lambda self: self._frame.shape)
    strides = property(lambda self: self._frame.strides)
    ndim = property(lambda self: self._frame.ndim)
    size = property(lambda self: self._frame.size)
    itemsize = property(lambda self: self._frame.itemsize)
    nbytes = property(lambda self: self._frame.nbytes)
    flags = property(lambda self: self._frame.flags)
    base = None

    def __len__(self) -> int:
        return len(self._frame)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"MetaArray(shape={self.shape}, strides={self.strides}, dtype={self._frame.dtype})"

    # -- values, which it has not ---------------------------------------------------------------------------------------------------
    def item(self, *place: Any) -> NoReturn:
        raise MissingValue("Tensor.item() cannot be called on meta tensors")

    __int__ = __float__ = __complex__ = __index__ = item

    def tolist(self) -> NoReturn:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    def __bool__(self) -> bool:
        if self._frame.size != 1 or self._frame.dtype.kind != "b":
            self.item()
        return self._truth

    # -- parts and views ------------------------------------------------------------------------------------------------------------
    def __getitem__(self, key: Any) -> Any:
        parts = key if key.__class__ is tuple else (key,)
        if not any(part.__class__ is MetaArray or part.__class__ in (np.ndarray, list, bool) for part in parts):
            selected = self._frame[key]
            return framed(selected) if selected.__class__ is np.ndarray else empty((), self._frame.dtype)
        if any(part.__class__ is MetaArray and part.dtype.kind == "b" and part.ndim for part in parts):
            missing_values("index.Tensor")
        return empty(_indexed_shape(self._frame.shape, parts), self._frame.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing to write."""

    def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> MetaArray:
        sizes: Any = shape[0] if len(shape) == 1 and shape[0].__class__ in (tuple, list) else shape
        if self._frame.flags.c_contiguous and order == "C":
            return framed(self._frame.reshape(sizes))
        reached = _as_strided(np.empty(1, np.bool_), self._frame.shape, [0] * self._frame.ndim).reshape(sizes, order=order).shape
        view = self._viewed(reached, order)
        if view is None and copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
        return empty(reached, self._frame.dtype, order) if view is None else view

    def _viewed(self, shape: tuple[int, ...], order: Any) -> MetaArray | None:
        """Another shape of the same elements; None where it needs a copy. NumPy would make the copy to find that out."""
        strides = view_strides(self._frame, shape) if order == "C" else None
        return None if strides is None else framed(_as_strided(self._frame, shape, strides))

    def ravel(self, order: str = "C") -> MetaArray:
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> MetaArray:
        return empty((self._frame.size,), self._frame.dtype)

    def transpose(self, *axes: Any) -> MetaArray:
        return framed(self._frame.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> MetaArray:
        return framed(self._frame.swapaxes(a, b))

    def squeeze(self, axis: Any = None) -> MetaArray:
        return framed(self._frame.squeeze(axis))

    def diagonal(self, *args: Any, **kwargs: Any) -> MetaArray:
        return framed(self._frame.diagonal(*args, **kwargs))

    def view(self, kind: Any = None) -> MetaArray:
        return framed(self._frame.view() if kind is None else self._frame.view(kind))

    @property
    def T(self) -> MetaArray:  # NumPy's name
        return framed(self._frame.T)

    @property
    def real(self) -> MetaArray:
        return framed(self._frame.real) if self._frame.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        """Nothing to write."""

    @property
    def imag(self) -> MetaArray:
        return framed(self._frame.imag) if self._frame.dtype.kind == "c" else empty_like(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        """Nothing to write."""

    # -- copies ---------------------------------------------------------------------------------------------------------------------
    def astype(self, kind: Any, order: Any = "K", copy: bool = True, **casting: Any) -> MetaArray:
        return self if not copy and self._frame.dtype == kind else empty_like(self, kind, order)

    def copy(self, order: Any = "C") -> MetaArray:
        return empty_like(self, order=order)

    def conj(self) -> MetaArray:
        return empty_like(self)

    conjugate = conj

    def fill(self, value: Any) -> None:
        """Nothing to write."""

    def sort(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to write."""


def _indexed_shape(shape: tuple[int, ...], parts: tuple[Any, ...]) -> tuple[int, ...]:
    """Shape of what index arrays, lists, numbers, slices and None select: dimensions of the arrays come first unless they are adjacent."""
    known: list[Any] = []
    for part in parts:
        array = np.asarray(part) if part.__class__ in (list, bool) else part
        known += array.nonzero() if array.__class__ is np.ndarray and array.dtype.kind == "b" else [array]
    used = sum(entry is not None and entry is not Ellipsis for entry in known)
    place = next((k for k, entry in enumerate(known) if entry is Ellipsis), len(known))
    known[place : place + 1] = [slice(None)] * (len(shape) - used)
    kept: list[int] = []
    arrays, places, dim = [], [], 0
    for k, entry in enumerate(known):
        if entry is None:
            kept.append(1)
            continue
        if entry.__class__ is slice:
            kept.append(len(range(*entry.indices(shape[dim]))))
        else:
            arrays.append(getattr(entry, "shape", ()))
            places.append((k, len(kept)))
        dim += 1
    adjacent = places[-1][0] - places[0][0] == len(places) - 1
    front = places[0][1] if adjacent else 0
    return (*kept[:front], *np.broadcast_shapes(*arrays), *kept[front:])


# -- making them ------------------------------------------------------------------------------------------------------------------------
def framed(frame: np.ndarray) -> MetaArray:
    """An array around a frame."""
    array = _new(MetaArray)
    array._frame, array._truth = frame, False
    return array


def empty(shape: Any, kind: Any = np.float64, order: Any = "C") -> MetaArray:
    """A dense array, row-major (``order`` 'F': column-major)."""
    sizes = (int(shape),) if hasattr(shape, "__index__") else tuple([int(size) for size in shape])
    kind = np.dtype(kind)
    strides = contiguous_strides(sizes[::-1])[::-1] if order == "F" else contiguous_strides(sizes)
    return empty_strided(sizes, strides, kind)


def empty_strided(shape: Sequence[int], strides: Sequence[int], kind: np.dtype) -> MetaArray:
    """An array with the given strides in elements."""
    return framed(_as_strided(np.empty(1, kind), shape, [step * kind.itemsize for step in strides]))


def empty_like(array: Any, kind: Any = None, order: Any = "K", shape: Any = None) -> MetaArray:
    """Array as ``np.empty_like`` makes it: dense, dimensions in the order of ``array``'s strides."""
    kind, sizes = np.dtype(array.dtype if kind is None else kind), tuple(array.shape if shape is None else shape)
    is_column_major = array.flags.f_contiguous and not array.flags.c_contiguous
    if order == "F" or (order == "A" and is_column_major):
        return empty(sizes, kind, "F")
    if order != "K" or len(sizes) < 2 or len(sizes) != array.ndim or array.flags.c_contiguous:
        return empty(sizes, kind)
    by_stride = sorted(range(len(sizes)), key=lambda d: (-abs(array.strides[d]), d))
    return empty_ordered(sizes, kind, by_stride)


def empty_ordered(shape: tuple[int, ...], kind: np.dtype, order: Sequence[int]) -> MetaArray:
    """A dense array whose dimensions lie in memory in the given order, the last one with the smallest step."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return empty_strided(shape, strides, kind)


def view_at(base: Any, shape: Sequence[int], kind: np.dtype, offset: int, strides: Sequence[int]) -> MetaArray:
    """A view of the memory of ``base``, ``offset`` bytes on; strides in bytes."""
    start = _as_strided(base._frame, (1,), (1,)) if base.size else np.empty(1, base.dtype)
    first = _as_strided(start.view(np.uint8), (offset + kind.itemsize,), (1,))[offset:].view(kind)
    return framed(_as_strided(first, shape, strides))


def empty_elementwise(shape: tuple[int, ...], kind: np.dtype, operands: Sequence[Any]) -> MetaArray:
    """Array as an element-wise operation on ``operands`` returns it."""
    return empty_strided(shape, elementwise_strides(shape, operands, False), kind)
