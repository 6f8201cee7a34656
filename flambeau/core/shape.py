"""Shape algebra: ``Size``, wrapped dimensions, broadcasting, strides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .arrays import device_of, make_at, view_at
from .interruption import pass_on


class Size(tuple):
    """Shape of a tensor: a tuple of ints that prints as ``torch.Size([2, 3])``.

    Source: torch.Size.
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        return tuple.__new__(cls, [checked_size(each) for each in sizes])

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def numel(self) -> int:
        """Number of elements of a tensor of this shape."""
        return math.prod(self)

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return tuple.__new__(Size, found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Any:
        return tuple.__new__(Size, tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))


def checked_size(value: Any) -> int:
    """``value`` as a Python int: ints, NumPy ints and one-element integer tensors pass."""
    try:
        return value.__index__()
    except (AttributeError, TypeError) as error:
        pass_on(error)
        raise TypeError(f"torch.Size() takes an iterable of 'int' (got '{type(value).__name__}')") from None


def sizes_of(sizes: tuple[Any, ...], operation: str = "size") -> tuple[int, ...]:
    """Sizes given either one by one or as one sequence: ``f(2, 3)`` and ``f((2, 3))``."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    try:
        return tuple([each.__index__() for each in sizes])
    except (AttributeError, TypeError) as error:
        pass_on(error)
        wrong = next(each for each in sizes if not hasattr(each, "__index__") or isinstance(each, (float, str)))
        raise TypeError(f"{operation}(): argument 'size' must be tuple of ints, but found element of type {type(wrong).__name__}") from None


def wrap_dim(dim: int, ndim: int) -> int:
    """``dim`` counted from the front.

    Raises:
        IndexError: ``dim`` outside ``[-ndim, ndim - 1]`` (a 0-d tensor counts as one dimension).
    """
    count = ndim or 1
    if -count <= dim < count:
        return dim + count if dim < 0 else dim
    raise IndexError(f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})")


def wrap_dims(dims: int | Sequence[int] | None, ndim: int, *, empty_is_all: bool = True) -> tuple[int, ...]:
    """Dimensions counted from the front, in the given order; all of them for None (and for an empty sequence unless told)."""
    if dims is None:
        return tuple(range(ndim))
    if not isinstance(dims, (tuple, list)):
        single: Any = dims  # whatever has an index
        return (wrap_dim(single.__index__(), ndim),)
    if not dims and empty_is_all:
        return tuple(range(ndim))
    wrapped = tuple(wrap_dim(each.__index__(), ndim) for each in dims)
    if len(set(wrapped)) != len(wrapped):
        twice = next(each for each in wrapped if wrapped.count(each) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return wrapped


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of operands, compared from the right.

    Raises:
        RuntimeError: two sizes differ and neither is 1.
    """
    result = shapes[0] if shapes else ()
    for other in shapes[1:]:
        if other == result:
            continue
        merged = list(result if len(result) >= len(other) else other)
        for back in range(1, min(len(result), len(other)) + 1):
            a, b = result[-back], other[-back]
            if a != b and a != 1 and b != 1:
                raise RuntimeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {len(merged) - back}"
                )
            merged[-back] = b if a == 1 else a
        result = tuple(merged)
    return result


def reduced_shape(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """``shape`` after reducing ``dims`` (already wrapped)."""
    if keepdim:
        return tuple(1 if i in dims else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in dims)


def inferred_shape(sizes: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """``sizes`` with the one -1 replaced so that the product is ``numel``.

    Raises:
        RuntimeError: two -1, a negative size, or a product that does not fit.
    """
    if -1 not in sizes:
        if math.prod(sizes) != numel or (numel == 0 and min(sizes, default=0) < 0):
            raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {numel}")
        return sizes
    if sizes.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    known = -math.prod(sizes)
    if min(sizes) < -1:
        raise RuntimeError(f"invalid shape dimension {min(sizes)}")
    if known == 0:
        if numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(sizes)} because the unspecified dimension size -1 can be any "
                "value and is ambiguous"
            )
        raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {numel}")
    if numel % known:
        raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {numel}")
    return tuple(numel // known if n == -1 else n for n in sizes)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a row-major tensor; a size of 0 counts as 1."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def element_strides(array: np.ndarray) -> tuple[int, ...]:
    """An array's strides in elements; NumPy forgets those of an empty array, which then counts as row-major."""
    size = array.itemsize
    if not array.size and not any(array.strides):
        return contiguous_strides(array.shape)
    return tuple([step // size for step in array.strides])


def overlaps_itself(array: np.ndarray) -> bool:
    """Whether two indices may lie at one address, as in an expanded tensor; such a tensor must not be written to."""
    if array.size <= 1 or array.flags.c_contiguous or array.flags.f_contiguous:
        return False
    steps = sorted((step, n) for step, n in zip(array.strides, array.shape, strict=True) if n != 1)
    reach = array.itemsize
    for step, n in steps:
        if step < reach:
            return True
        reach = step * (n - 1) + reach
    return False


def is_dense(array: np.ndarray) -> bool:
    """Whether the elements fill their memory without gaps or repeats, in any order of dimensions."""
    reach = array.itemsize
    for step, n in sorted((step, n) for step, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if step != reach:
            return False
        reach *= n
    return True


def strided(base: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], address: int, dtype: np.dtype) -> np.ndarray:
    """A view of the bytes ``base`` (1-D uint8) at byte ``address`` with strides in bytes."""
    if 0 in shape:
        return (
            view_at(base, shape, dtype, min(address, max(base.nbytes - dtype.itemsize, 0)) if base.nbytes else 0, strides)
            if (base.nbytes >= dtype.itemsize)
            else make_at(device_of(base), np.empty, shape, dtype)
        )
    return view_at(base, shape, dtype, address, strides)
