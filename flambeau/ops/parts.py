"""Views of parts: selecting, slicing, splitting, striding, windows and diagonals.

Taking parts (``select``, ``narrow``, slices, basic indexing) is one operation with a NumPy index as its attribute, and one
derivative, ``scatter_part``; the names differ only on the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod  # noqa: F401 - in an expression
from typing import Any

import numpy as np

from ..core.arrays.kinds import kind_of
from ..core.calls.annotations import Tensor
from ..core.calls.out import SILENT
from ..core.calls.registry import composite, documented, method, op, view
from ..core.layout import contiguous_format
from ..core.shape import index_of, part_of, restrided, sizes_of, strided, with_strides, wrap_dim
from ..core.state import grad_enabled
from ..core.tape.history import check_writable, make_view, needs_grad, point_at, strided_node, take_geometry
from ..core.tensor import Tensor as TensorType, storage_of
from ..core.unknown import SymInt


# -- parts --------------------------------------------------------------------------------------------------------------------
@op(name="_scatter_part", node_name="SliceBackward0", out=True, grad={"input": lambda grad, key: take_slice(grad, key)}, forward="linear")
def scatter_part(input: Tensor, shape: Sequence[int], key: Any) -> Tensor:
    """Zeros of ``shape`` with ``input`` at the basic index ``key``: the derivative of taking a part."""
    whole = np.zeros(shape, input.dtype)
    whole[key] = input
    return whole


def _part(name: str, aten: str | None, node_name: str, fast: str = "a[key] if a.size else None") -> Any:
    """One of the operations that take a part by a basic NumPy index; they differ in the name on the tape, and in their fast paths."""

    def take(input: Tensor, key: Any) -> Tensor:
        """The part of ``input`` at basic index ``key``, which contains an Ellipsis so that the result is a view."""
        return part_of(input, key)

    take.__name__ = name
    return view(
        name=name,
        fast=fast,
        aten=aten,
        node_name=node_name,
        grad={"input": lambda grad, input_shape, key: scatter_part(grad, input_shape, key)},
    )(take)


take_select = _part("_select", "select.int", "SelectBackward0")
take_slice: Callable[..., Any] = _part("_slice", "slice.Tensor", "SliceBackward0")
# For keys that insert dimensions, and for parts that may be empty, whose strides and offset NumPy does not tell.
_EXACT = "part_of(a, key)"
exact_select = _part("_exact_select", None, "SelectBackward0", _EXACT)
exact_slice = _part("_exact_slice", None, "SliceBackward0", _EXACT)
take_unsqueezed = _part("_index_unsqueeze", None, "UnsqueezeBackward0", _EXACT)


def dim_key(dim: int, index: Any) -> tuple[Any, ...]:
    """Basic index that applies ``index`` to dimension ``dim`` (counted from the front)."""
    return (*(slice(None),) * dim, index, ...)


@composite(moves=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice of ``input`` at ``index`` of dimension ``dim``, which is dropped.

    Args:
        input: at least one dimension.
        dim: the dimension.
        index: negative values count from the end.
    Returns:
        ``input``'s shape without ``dim``. A view.
    Raises:
        IndexError: a 0-d tensor, or ``dim`` or ``index`` out of range.
    Gradient: zeros with ``grad`` at ``index``.
    Source: torch.select.
    Example:
        >>> x = torch.tensor([[1, 2], [3, 4]])
        >>> x.select(1, -1)
        tensor([2, 4])
        >>> x.select(0, 0).shape, x.select(0, 0)._base is x
        (torch.Size([2]), True)
    """
    shape = input._array.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim, index = wrap_dim(dim, len(shape)), index.__index__()
    if not -shape[dim] <= index < shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {dim}")
    return take_select(input, dim_key(dim, index))


@composite(moves=True)
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """``length`` entries of dimension ``dim`` from ``start`` on.

    Args:
        input: at least one dimension.
        dim: the dimension.
        start: an int, or a 0-d integer tensor; negative values count from the end.
        length: how many; 0 or more.
    Returns:
        ``input``'s shape with size ``length`` in ``dim``. A view.
    Raises:
        RuntimeError: a 0-d tensor, a negative length, or a range that ends beyond the dimension.
        IndexError: ``dim`` or ``start`` out of range.
    Gradient: zeros with ``grad`` in the range.
    Source: torch.narrow.
    Example:
        >>> torch.narrow(torch.arange(6).view(2, 3), 1, 1, 2)
        tensor([[1, 2],
                [4, 5]])
    """
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, TensorType) and (start._array.ndim or start._array.dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    dim, start = wrap_dim(dim, len(shape)), start.__index__()
    size = shape[dim]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start += size if start < 0 else 0
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return (take_slice if length else exact_slice)(input, dim_key(dim, slice(start, start + length)))


@method(name="narrow", moves=True)
def narrow_method(input: Tensor, *args: Any, dimension: int | None = None, **kwargs: Any) -> Tensor:
    """``length`` entries of dimension ``dim`` from ``start`` on; see :func:`torch.narrow`.

    Args:
        args, kwargs: ``dim, start, length``.
        dimension: the old spelling of ``dim``.
    Returns:
        The tensor's shape with size ``length`` in ``dim``. A view.
    Raises:
        RuntimeError: a 0-d tensor, a negative length, or a range that ends beyond the dimension.
        IndexError: ``dim`` or ``start`` out of range.
    Source: torch.Tensor.narrow.
    Example:
        >>> torch.arange(5).narrow(0, 1, 3)
        tensor([1, 2, 3])
    """
    return narrow(input, *args, **kwargs) if dimension is None else narrow(input, dimension, *args, **kwargs)


@composite(out=SILENT)
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``narrow`` as a copy: ``length`` entries of dimension ``dim`` from ``start`` on.

    Args:
        input: at least one dimension.
        dim, start, length: as for :func:`torch.narrow`.
    Returns:
        ``input``'s shape with size ``length`` in ``dim``, contiguous. Never a view.
    Raises:
        RuntimeError: a 0-d tensor, a negative length, or a range that ends beyond the dimension.
        IndexError: ``dim`` or ``start`` out of range.
    Source: torch.narrow_copy.
    Example:
        >>> x = torch.arange(4)
        >>> torch.narrow_copy(x, 0, 1, 2).zero_(); x
        tensor([0, 0])
        tensor([0, 1, 2, 3])
    """
    return narrow(input, dim, start, length).clone(memory_format=contiguous_format)


# -- several views ------------------------------------------------------------------------------------------------------------
def _key_shape(shape: Any, key: Any) -> tuple[int, ...]:
    full = (*key[:-1], *(slice(None),) * (len(shape) - len(key) + 1))
    return tuple(len(range(*k.indices(n))) for n, k in zip(shape, full, strict=True) if isinstance(k, slice))


def _placed(parts: Sequence[np.ndarray], shape: Sequence[int], keys: Any) -> np.ndarray:
    whole = np.zeros(shape, parts[0].dtype)
    for part, key in zip(parts, keys, strict=True):
        whole[key] = part
    return whole


@op(
    name="_put_parts",
    work="prod(shape)",
    fast="_placed(arrays, shape, keys) if prod(shape) < THRESHOLD or (made := large(arrays, shape, keys)) is None else made",
    node_name="SplitBackward0",
    out=True,
    grad={"parts": lambda grad, keys: [take_slice(grad, key) for key in keys]},
    forward="linear",
)
def put_parts(parts: Sequence[Tensor], shape: Sequence[int], keys: Any) -> Tensor:
    """A tensor of ``shape`` with each part at its basic index; the parts cover it."""
    return _placed(parts, shape, keys)


def _whole_gradient(grads: Any, input_shape: Any, keys: Any) -> Any:
    given = next(grad for grad in grads if grad is not None)
    parts = [given.new_zeros(_key_shape(input_shape, k)) if g is None else g for g, k in zip(grads, keys, strict=True)]
    return put_parts(parts, input_shape, keys)


def _parts(name: str, aten: str, node_name: str) -> Any:
    def take(input: Tensor, keys: Any) -> Any:
        """Several views of ``input``, one per basic index."""
        return [part_of(input, key) for key in keys]

    take.__name__ = name
    return op(
        name=name,
        view=True,
        multi_output=True,
        node_name=node_name,
        aten=aten,
        grad={"input": lambda grads, input_shape, keys: _whole_gradient(grads, input_shape, keys)},
    )(take)


take_split = _parts("_split", "split.Tensor", "SplitBackward0")
take_split_with_sizes = _parts("_split_with_sizes", "split_with_sizes", "SplitWithSizesBackward0")
take_unbind = _parts("_unbind", "unbind.int", "UnbindBackward0")


def _split_sizes(input: Any, sizes: Sequence[int], dim: int, take: Any = take_split_with_sizes) -> Any:
    keys, start = [], 0
    for n in sizes:
        keys.append(dim_key(dim, slice(start, start + n)))
        start += n
    return take(input, keys)


@composite(method=False, moves=True)
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of ``tensor`` along ``dim``.

    Args:
        tensor: at least one dimension.
        split_size_or_sections: size of each piece (the last may be smaller), or the list of sizes.
        dim: the dimension.
    Returns:
        A tuple of views, in order.
    Raises:
        RuntimeError: a negative size, sizes that do not add up, or a 0-d tensor.
        IndexError: ``dim`` out of range.
    Gradient: the pieces' gradients joined.
    Source: torch.split.
    Example:
        >>> torch.split(torch.arange(5), 2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
        >>> torch.split(torch.arange(5), [1, 4])
        (tensor([0]), tensor([1, 2, 3, 4]))
    """
    shape = tensor._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, len(shape))
    size = shape[dim]
    if isinstance(split_size_or_sections, (tuple, list)):
        sizes = [size.__index__() for size in split_size_or_sections]
        if min(sizes, default=0) < 0:
            raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}")
        if sum(sizes) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), but got "
                f"split_sizes={sizes}"
            )
        return _split_sizes(tensor, sizes, dim)
    piece = index_of(split_size_or_sections, "split_size")
    if piece < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={piece}")
    if piece == 0:
        if size:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}")
        return _split_sizes(tensor, [0], dim, take_split)
    sizes, rest = [], tensor.shape[dim]  # which a recording with symbolic sizes is asked for: how many pieces there are is a guard
    while rest > piece:
        sizes.append(piece)
        rest = rest - piece
    return _split_sizes(tensor, [*sizes, rest], dim, take_split)


@method(name="split", moves=True)
def split_method(input: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces along ``dim``; see :func:`torch.split`.

    Args:
        split_size: size of each piece (the last may be smaller), or the list of sizes.
        dim: the dimension.
    Returns:
        A tuple of views.
    Raises:
        RuntimeError: a negative size, sizes that do not add up, or a 0-d tensor.
        IndexError: ``dim`` out of range.
    Source: torch.Tensor.split.
    Example:
        >>> [part.shape for part in torch.ones(2, 5).split(2, dim=1)]
        [torch.Size([2, 2]), torch.Size([2, 2]), torch.Size([2, 1])]
    """
    return split(input, split_size, dim)


@composite(moves=True)
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of the given sizes along ``dim``.

    Args:
        input: at least one dimension.
        split_sizes: sizes that add up to the dimension's.
        dim: the dimension.
    Returns:
        A tuple of views.
    Raises:
        RuntimeError: a negative size, sizes that do not add up, or a 0-d tensor.
        IndexError: ``dim`` out of range.
    Source: torch.split_with_sizes.
    Example:
        >>> torch.split_with_sizes(torch.arange(6), [3, 1, 2])
        (tensor([0, 1, 2]), tensor([3]), tensor([4, 5]))
    """
    return split(input, list(split_sizes), dim)


@composite(moves=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal size along ``dim``; the last may be smaller.

    Args:
        input: at least one dimension.
        chunks: how many; there are fewer where the size rounded up needs no more.
        dim: the dimension.
    Returns:
        A tuple of views.
    Raises:
        RuntimeError: ``chunks`` not positive, or a 0-d tensor.
        IndexError: ``dim`` out of range.
    Source: torch.chunk.
    Example:
        >>> torch.chunk(torch.arange(6), 4)  # of size 2, so that 3 are enough
        (tensor([0, 1]), tensor([2, 3]), tensor([4, 5]))
    """
    shape = input._array.shape
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = shape[wrap_dim(dim, len(shape))]
    if not size:
        return _split_sizes(input, [0] * chunks, wrap_dim(dim, len(shape)))
    return split(input, -(-size // chunks), dim)


@composite(moves=True)
def tensor_split(
    input: Tensor,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    indices: Any = None,
    sections: int | None = None,
    tensor_indices_or_sections: Any = None,
) -> tuple[Tensor, ...]:
    """Pieces along ``dim``: a number of nearly equal ones, or cut at the given indices.

    Args:
        input: at least one dimension.
        indices_or_sections: a number of pieces, or the indices where to cut, also as a tensor. By keyword it may be called after what it
            is: ``indices``, ``sections`` or ``tensor_indices_or_sections``.
        dim: the dimension.
    Returns:
        A tuple of views.
    Raises:
        TypeError: none of them, or several.
        RuntimeError: a number of pieces that is not positive, or a 0-d tensor.
        IndexError: ``dim`` out of range.
    Source: torch.tensor_split.
    Example:
        >>> torch.tensor_split(torch.arange(5), 3)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
        >>> torch.tensor_split(torch.arange(5), (1, 3))
        (tensor([0]), tensor([1, 2]), tensor([3, 4]))
    """
    indices_or_sections = _places_of_cuts("tensor_split", indices_or_sections, indices, sections, tensor_indices_or_sections)
    if isinstance(indices_or_sections, TensorType):
        if indices_or_sections.device.type != "cpu":
            raise RuntimeError(f"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {indices_or_sections.device}")
        indices_or_sections = indices_or_sections.tolist()
    shape = input._array.shape
    if not shape:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = wrap_dim(dim, len(shape))
    size = shape[dim]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {count}")
        small, extra = divmod(size, count)
        return _cut(input, dim, [i * small + min(i, extra) for i in range(count + 1)])
    if any(isinstance(cut, SymInt) for cut in indices_or_sections):
        return tuple([input[dim_key(dim, slice(a, b))] for a, b in pairwise([0, *indices_or_sections, size])])
    cuts = [slice(None, cut).indices(size)[1] for cut in indices_or_sections]
    return _cut(input, dim, [0, *cuts, size])


def _places_of_cuts(name: str, either: Any, indices: Any, sections: Any, of_tensor: Any = None) -> Any:
    """The one of them that is given.

    Raises:
        TypeError: none, several, or one of another type.
    """
    kinds = {
        "indices": (tuple, list),
        "sections": (int, TensorType),
        "tensor_indices_or_sections": TensorType,
        "indices_or_sections": object,
    }
    given = dict(zip(kinds, (indices, sections, of_tensor, either), strict=True))
    named = [(key, value) for key, value in given.items() if value is not None]
    if len(named) != 1 or not isinstance(named[0][1], kinds[named[0][0]]):  # type: ignore[arg-type]
        got = ", ".join(f"{key}={type(value).__name__}" for key, value in named) or "none"
        raise TypeError(f"{name}(): expected one of {', '.join(kinds)}, of its type, got {got}")
    return named[0][1]


def _cut(input: Any, dim: int, bounds: Sequence[int]) -> tuple[Tensor, ...]:
    """The slices between neighbouring bounds, each a view of its own."""
    return tuple(exact_slice(input, dim_key(dim, slice(a, max(a, b)))) for a, b in pairwise(bounds))


def _declare_axis_split(name: str, least: int, dim_of: Any, **words: str) -> Any:
    """Declare one of the functions that split along a certain dimension; ``words`` are those of its documentation."""

    @composite(name=name, moves=True)
    @documented(name=name, least=least, **words)
    def split_along(input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
        """Pieces along {which}: a number of equal ones, or cut at the given indices.

        Args:
            input: at least {least}-d.
            indices_or_sections: a number of pieces, or the indices where to cut; by keyword also ``sections`` or ``indices``.
        Returns:
            A tuple of views.
        Raises:
            RuntimeError: fewer dimensions, or a number of pieces that does not divide the size.
            TypeError: no pieces are named, or in two ways.
        Source: torch.{name}.
        Example:
            >>> torch.{name}({example})
            {printed}
        """
        indices_or_sections = _places_of_cuts(name, indices_or_sections, indices, sections)
        ndim = input._array.ndim
        if ndim < least:
            raise RuntimeError(f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {ndim} dimensions!")
        if isinstance(indices_or_sections, str):
            raise TypeError(f"{name}() received an invalid combination of arguments - got (Tensor, str), but expected an int or ints")
        if isinstance(indices_or_sections, TensorType):
            indices_or_sections = indices_or_sections.tolist()
        dim = dim_of(ndim)
        size = input._array.shape[dim]
        if isinstance(indices_or_sections, int) and (indices_or_sections <= 0 or size % indices_or_sections):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not divisible by the "
                f"split_size {indices_or_sections}!"
            )
        return tensor_split(input, indices_or_sections, dim)

    return split_along


hsplit = _declare_axis_split(
    "hsplit",
    1,
    lambda ndim: 0 if ndim == 1 else 1,
    which="dimension 1, or the only one of a vector",
    example="torch.tensor([[1, 2, 3]]), (1,)",
    printed="(tensor([[1]]), tensor([[2, 3]]))",
)
vsplit = _declare_axis_split(
    "vsplit",
    2,
    lambda ndim: 0,
    which="dimension 0",
    example="torch.tensor([[1, 2], [3, 4]]), 2",
    printed="(tensor([[1, 2]]), tensor([[3, 4]]))",
)
dsplit = _declare_axis_split(
    "dsplit",
    3,
    lambda ndim: 2,
    which="dimension 2",
    example="torch.tensor([[[1, 2, 3]]]), 3",
    printed="(tensor([[[1]]]), tensor([[[2]]]), tensor([[[3]]]))",
)


@composite(moves=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices of ``input`` along ``dim``, which is removed.

    Args:
        input: at least one dimension.
        dim: the dimension.
    Returns:
        A tuple of as many views as the dimension has entries.
    Raises:
        IndexError: a 0-d tensor, or ``dim`` out of range.
    Gradient: the views' gradients stacked.
    Source: torch.unbind.
    Example:
        >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]), dim=1)
        (tensor([1, 3]), tensor([2, 4]))
    """
    shape = input._array.shape
    if not shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, len(shape))
    return take_unbind(input, [dim_key(dim, i) for i in range(shape[dim])])


# -- strides ------------------------------------------------------------------------------------------------------------------
@composite(inplace=False)
def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view of ``input``'s storage with the given size, strides and offset, in elements.

    Args:
        input: any shape; the tensor whose storage is looked at.
        size, stride: of the result, equally many; a stride is the number of elements from one entry to the next.
        storage_offset: from the storage's start; ``input``'s own when None.
    Returns:
        Shape ``size``, ``input``'s dtype. A view, whose elements may share memory.
    Raises:
        RuntimeError: negative strides, a view that reaches past the storage, or as many strides as there are not sizes.
    Source: torch.as_strided.
    Example:
        >>> torch.as_strided(torch.arange(5), (3, 3), (1, 1))  # windows of 3
        tensor([[0, 1, 2],
                [1, 2, 3],
                [2, 3, 4]])
    """
    array = _strided_array(input, size, stride, storage_offset)
    result = make_view(array, input)
    if input._requires_grad and grad_enabled():
        point_at(result, input)
    return result


def _strided_array(input: Any, size: Any, stride: Any, storage_offset: int | None) -> np.ndarray:
    size, stride = sizes_of(tuple(size), "as_strided"), sizes_of(tuple(stride), "as_strided")
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(size)} and {len(stride)}")
    if min(stride, default=0) < 0:
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    start = input.storage_offset() if storage_offset is None else storage_offset
    if start < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {start}")
    if min(size, default=0) < 0:
        raise RuntimeError(f"as_strided: expected sizes of at least 0, got {list(size)}")
    reach = 0 if 0 in size else 1 + start + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    itemsize, flat = input._array.itemsize, storage_of(input)._flat
    if reach * itemsize > flat.nbytes and kind_of(flat).has_values:  # what is not there may be anywhere
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, and itemsize {itemsize} requiring a storage "
            f"size of {reach * itemsize} are out of bounds for storage of size {flat.nbytes}"
        )
    return strided(flat, size, tuple(step * itemsize for step in stride), start * itemsize, input._array.dtype)


@composite()
def as_strided_(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Give this tensor another size, strides and offset in its storage.

    Args:
        input: any shape and dtype.
        size, stride: its new geometry, equally many numbers of elements.
        storage_offset: from the storage's start; its own when None.
        input: any shape; the tensor that is changed.
    Returns:
        The tensor itself, of shape ``size``.
    Raises:
        RuntimeError: negative strides, or a geometry that reaches past the storage.
    Source: torch.Tensor.as_strided_.
    Example:
        >>> x = torch.arange(6).view(2, 3)
        >>> x.as_strided_((3, 2), (1, 3)); x.is_contiguous()
        tensor([[0, 3],
                [1, 4],
                [2, 5]])
        False
    """
    recorded = needs_grad(input) and grad_enabled()
    check_writable(input, recorded, may_overlap=True)
    array = _strided_array(input, size, stride, storage_offset)
    take_geometry(input, array, strided_node(input, array, input.dtype) if recorded else None)
    return input


def _canonicalize_unfold(input: Any, dimension: int, size: int, step: int) -> tuple[Any, ...]:
    shape = input._array.shape
    dim = wrap_dim(dimension, len(shape))
    length = shape[dim] if shape else 1
    if not 0 <= size <= length:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return input, dim, size, step


@view(
    namespace="Tensor",
    canonicalize=_canonicalize_unfold,
    grad={"input": lambda grad, input_shape, dimension, size, step: unfold_gradient(grad, input_shape, dimension, size, step)},
    aten="unfold",
    moves=True,
)
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of ``size`` entries of a dimension, ``step`` apart, as a new last dimension.

    Args:
        dimension: the dimension; a 0-d tensor counts as one of size 1.
        size: entries of a window.
        step: entries from one window's start to the next one's; above 0.
    Returns:
        ``input``'s shape with the number of windows in ``dimension``, and ``size`` added at the end. A view; windows may share elements.
    Raises:
        RuntimeError: ``size`` greater than the dimension, or ``step`` not positive.
        IndexError: ``dimension`` out of range.
    Gradient: windows added to the places they were taken from.
    Source: torch.Tensor.unfold.
    Example:
        >>> torch.arange(6).unfold(0, 3, 2)
        tensor([[0, 1, 2],
                [2, 3, 4]])
    """
    if not input.ndim:
        return restrided(input, (size,), (input.itemsize,))
    input = with_strides(input)
    length, unit = input.shape[dimension], input.strides[dimension]
    shape = (*input.shape[:dimension], (length - size) // step + 1, *input.shape[dimension + 1 :], size)
    strides = (*input.strides[:dimension], unit * step, *input.strides[dimension + 1 :], unit)
    return restrided(input, shape, strides)


@op(name="_unfold_backward", out=True, grad={"input": lambda grad, dim, size, step: grad.unfold(dim, size, step)}, forward="linear")
def unfold_gradient(input: Tensor, shape: Sequence[int], dim: int, size: int, step: int) -> Tensor:
    """Windows added back to the places they were taken from."""
    whole = np.zeros(shape, input.dtype)
    if not shape:
        return whole + input.sum()
    moved, windows = np.moveaxis(whole, dim, -1), np.moveaxis(input, dim, -2)
    for i in range(windows.shape[-2]):
        moved[..., i * step : i * step + size] += windows[..., i, :]
    return whole


def _canonicalize_diagonal(input: Any, offset: int, dim1: int, dim2: int) -> tuple[Any, ...]:
    ndim = input._array.ndim
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return input, offset, a, b


_ROWS, _COLUMNS = (0, -2), (1, -1)  # of a matrix


def _quick_diagonal(input: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The main diagonal of a row-major matrix."""
    if input.ndim != 2 or offset or dim1 not in _ROWS or dim2 not in _COLUMNS or not input.size or not input.flags.c_contiguous:
        return None
    if 1 in input.shape:
        return None  # whose strides may be any
    rows, columns = input.shape
    return input.reshape(-1)[: min(rows, columns) * columns : columns + 1]


@view(
    fast=_quick_diagonal,
    canonicalize=_canonicalize_diagonal,
    grad={"input": lambda grad, input_shape, offset, dim1, dim2: diagonal_gradient(grad, input_shape, offset, dim1, dim2)},
    moves=True,
)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions as a new last dimension.

    Args:
        input: ``(*, n, *, m, *)``.
        offset: 0 for the main diagonal, positive above it, negative below.
        dim1, dim2: the two dimensions.
    Returns:
        The other dimensions' shape, then the diagonal's length. A view.
    Raises:
        RuntimeError: ``dim1`` and ``dim2`` are the same dimension.
        IndexError: one of them is out of range.
    Gradient: zeros with ``grad`` on the diagonal.
    Source: torch.diagonal.
    Example:
        >>> x = torch.zeros(3, 3)
        >>> x.diagonal(1).copy_(torch.tensor([1.0, 2.0])); x
        tensor([1., 2.])
        tensor([[0., 1., 0.],
                [0., 0., 2.],
                [0., 0., 0.]])
    """
    return _diagonal_of(input, offset, dim1, dim2)


def _diagonal_of(input: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    input = with_strides(input)
    shape, strides = input.shape, input.strides
    rows, columns = (shape[dim1], shape[dim2] - offset) if offset >= 0 else (shape[dim1] + offset, shape[dim2])
    length = max(min(rows, columns), 0)
    keep = [d for d in range(input.ndim) if d not in (dim1, dim2)]
    start = (offset * strides[dim2] if offset >= 0 else -offset * strides[dim1]) if length else 0
    sizes, steps = (*(shape[d] for d in keep), length), (*(strides[d] for d in keep), strides[dim1] + strides[dim2])
    return restrided(input, sizes, steps, start)


@op(
    name="_diagonal_backward",
    node_name="DiagonalBackwardBackward0",
    out=True,
    grad={"input": lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2)},
    forward="linear",
    meta=lambda new, grad, shape, *rest: new(shape, grad.dtype),
)
def diagonal_gradient(input: Tensor, shape: Sequence[int], offset: int, dim1: int, dim2: int) -> Tensor:
    """Zeros of ``shape`` with ``input`` on the diagonal."""
    whole = np.zeros(shape, input.dtype)
    ndim = len(shape)
    _diagonal_of(whole, offset, dim1 % ndim, dim2 % ndim)[...] = input
    return whole
