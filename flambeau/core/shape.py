"""Shape algebra: ``Size``, wrapped dimensions, broadcasting, strides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .arrays.kinds import address, host, kind_of, view_at
from .calls.interruption import pass_on


class Size(tuple):
    """A tensor's shape: a tuple of ints that prints as ``torch.Size([2, 3])``.

    Source: torch.Size.
    Example:
        >>> torch.Size([2, 3]).numel(), torch.zeros(2, 3).shape[1]
        (6, 3)
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        return tuple.__new__(cls, [checked_size(size) for size in sizes])

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def numel(self) -> int:
        """Number of elements of a tensor of this shape."""
        return math.prod(self)

    def __getitem__(self, key: Any) -> Any:
        part = tuple.__getitem__(self, key)
        return tuple.__new__(Size, part) if isinstance(key, slice) else part

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
        return tuple([size.__index__() for size in sizes])
    except (AttributeError, TypeError) as error:
        pass_on(error)
        wrong = next(value for value in sizes if not hasattr(value, "__index__") or isinstance(value, (float, str)))
        raise TypeError(f"{operation}(): argument 'size' must be tuple of ints, but found element of type {type(wrong).__name__}") from None


def one_by_one(operation: str, sizes: tuple[Any, ...], named: Any, name: str = "size") -> tuple[Any, ...]:
    """The arguments of a method that takes sizes one by one, as one sequence, or as a sequence with a name.

    Raises:
        TypeError: none, or both by position and by name.
    """
    if named is None:
        if not sizes:
            raise TypeError(f'{operation}() missing 1 required positional arguments: "{name}"')
        return sizes
    if sizes:
        raise TypeError(f"{operation}() got multiple values for argument '{name}'")
    return (named,)


def index_of(value: Any, name: str = "dim") -> int:
    """An argument as an int: ints, NumPy ints and one-element integer tensors pass.

    Raises:
        TypeError: a value of another kind.
    """
    try:
        return value.__index__()
    except AttributeError as error:
        pass_on(error)
        raise TypeError(f"argument '{name}' must be int, not {type(value).__name__}") from None


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
        return (wrap_dim(index_of(dims), ndim),)
    if not dims and empty_is_all:
        return tuple(range(ndim))
    wrapped = tuple([dim if dim.__class__ is int and 0 <= dim < ndim else wrap_dim(index_of(dim), ndim) for dim in dims])
    if len(set(wrapped)) != len(wrapped):
        twice = next(d for d in wrapped if wrapped.count(d) > 1)
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


def broadcast_or_none(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The common shape of two operands, None where there is none."""
    try:
        return broadcast_shape(a, b)
    except RuntimeError as error:
        pass_on(error)
        return None


def reduced_shape(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """``shape`` after reducing ``dims`` (already wrapped)."""
    if keepdim:
        return tuple([1 if i in dims else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in dims]) if len(dims) < len(shape) else ()


def dims_to_sum(have: tuple[int, ...], shape: Sequence[int]) -> tuple[int, ...]:
    """The dimensions over which an array of shape ``have``, broadcast from ``shape``, is summed to have that shape again."""
    lead = len(have) - len(shape)
    return tuple([i for i in range(len(have)) if i < lead or shape[i - lead] == 1 != have[i]])


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
    if known == numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(sizes)} because the unspecified dimension size -1 can be any "
            "value and is ambiguous"
        )
    if known == 0 or numel % known:
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


def with_strides(array: np.ndarray) -> np.ndarray:
    """``array`` itself, or an empty one whose strides NumPy forgot with row-major strides, which its views then derive theirs from."""
    if array.size or not array.ndim or any(array.strides):
        return array
    return restrided(array, array.shape, tuple([step * array.itemsize for step in contiguous_strides(array.shape)]))


def restrided(
    array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, dtype: np.dtype | None = None
) -> np.ndarray:
    """A view of ``array``'s memory with another shape, strides and offset from its first element (both in bytes), and maybe dtype.

    ``np.lib.stride_tricks.as_strided`` takes ten times as long.
    """
    dtype = array.dtype if dtype is None else dtype
    if kind_of(array) is not host:
        return view_at(array, shape, dtype, offset, strides)
    owner = array
    while not (owner.flags.c_contiguous and owner.size) and owner.base.__class__ is np.ndarray:
        owner = owner.base
    if not owner.flags.c_contiguous:  # dense memory in another order of dimensions serves as well
        owner = owner.transpose(sorted(range(owner.ndim), key=lambda d: -owner.strides[d]))
    if not owner.flags.c_contiguous:
        return _restrided_anywhere(array, shape, strides, offset, dtype)
    if owner is not array:
        offset += address(array) - address(owner)
    if 0 in shape:
        offset = min(max(offset, 0), owner.nbytes)
    view = view_at(owner, shape, dtype, offset, strides)
    if owner is not array and not array.flags.writeable:
        view.flags.writeable = False
    return view


def _restrided_anywhere(array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: np.dtype) -> np.ndarray:
    """As ``restrided``, of memory that belongs to no array in one piece."""
    start = array[(slice(0, 1),) * array.ndim].reshape(-1)[:1].view(np.uint8)  # the first element's bytes
    start = np.lib.stride_tricks.as_strided(start, (offset + 1,), (1,), writeable=array.flags.writeable)[offset:]
    wide = np.lib.stride_tricks.as_strided(start, (*shape, dtype.itemsize), (*strides, 1), writeable=array.flags.writeable)
    return wide.view(dtype)[..., 0]


def part_of(array: np.ndarray, key: Any) -> np.ndarray:
    """The part of ``array`` at a basic index (a slice, or a tuple of ints, slices, None, Ellipsis), with PyTorch's strides and offset.

    They are those of one step after the other. NumPy's differ where None inserts a dimension (a step past the next one here, 0 there) and
    in empty parts.
    """
    if key.__class__ is slice:
        key = (key, ...)
    if None not in key:
        view = array[key]
        if view.size:
            return view
    array = with_strides(array)
    have, steps = array.shape, array.strides
    shape: list[int] = []
    strides: list[int] = []
    offset = dim = 0
    given = sum(index is not None and index is not Ellipsis for index in key)
    for index in key:
        if index is None:
            shape.append(1)
            strides.append(steps[dim] * have[dim] if dim < len(have) else array.itemsize)
        elif index is Ellipsis:
            past = dim + len(have) - given
            shape += have[dim:past]
            strides += steps[dim:past]
            dim = past
        elif index.__class__ is slice:
            start, stop, step = index.indices(have[dim])
            shape.append(len(range(start, stop, step)))
            strides.append(steps[dim] * step)
            offset += start * steps[dim]
            dim += 1
        else:
            offset += (index + have[dim] if index < 0 else index) * steps[dim]
            dim += 1
    return restrided(array, tuple(shape), tuple(strides), offset)


def view_strides(array: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides, in bytes, that show ``array``'s elements in another shape; None where there are none.

    Dimensions that follow each other in memory form a block; each block is cut into its part of the new shape, sizes of 1 included.
    """
    have, steps, itemsize = array.shape, array.strides, array.itemsize
    if not have:
        return (itemsize,) * len(shape)
    if not array.size:
        if have == shape:
            return with_strides(array).strides
        return tuple([step * itemsize for step in contiguous_strides(shape)])
    return _block_strides(have, steps, shape)


def _block_strides(have: tuple[int, ...], steps: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    strides = [0] * len(shape)
    place = len(shape) - 1
    base, count = steps[-1], 1
    for dim in range(len(have) - 1, -1, -1):
        count *= have[dim]
        if dim and (have[dim - 1] == 1 or steps[dim - 1] == count * base):
            continue
        filled = 1
        while place >= 0 and (filled < count or shape[place] == 1):
            strides[place] = filled * base
            filled *= shape[place]
            place -= 1
        if filled != count:
            return None
        if dim:
            base, count = steps[dim - 1], 1
    return tuple(strides)


known_block_strides = lru_cache(maxsize=4096)(_block_strides)


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
    for step, n in sorted([(step, n) for step, n in zip(array.strides, array.shape, strict=True) if n > 1]):
        if step != reach:
            return False
        reach *= n
    return True


def strided(base: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], address: int, dtype: np.dtype) -> np.ndarray:
    """A view of the bytes ``base`` (1-D uint8) at byte ``address`` with strides in bytes."""
    if 0 in shape:
        address = min(address, base.nbytes)
    return view_at(base, shape, dtype, address, strides)
