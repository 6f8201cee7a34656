"""Views: tensors that show the same memory with another shape, other strides or another offset.

Each view op is a kernel that returns a NumPy view; the derivative puts the gradient back where the view took its elements from.
Views of parts are in ``parts``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import partial
from operator import index
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import view_at
from ..core.calls import wrappers
from ..core.calls.annotations import Tensor
from ..core.calls.override import call_override
from ..core.calls.questions import asks
from ..core.calls.registry import TABLES, composite, method, op, other_names, primitive, view
from ..core.layout import row_major
from ..core.shape import (
    dims_to_sum,
    inferred_shape,
    known_block_strides,
    one_by_one,
    restrided,
    sizes_of,
    view_strides,
    with_strides,
    wrap_dim,
    wrap_dims,
)
from ..core.state import active, interposed, modes, thread
from ..core.tensor import Tensor as TensorType
from .small import small_sum


# -- shape ------------------------------------------------------------------------------------------------------------------
def _quick_view(array: np.ndarray, shape: Any) -> np.ndarray | None:
    """Row-major memory in another shape, where a size of 1 may have any stride: it tells in the same shape, and in the last place."""
    result = array.reshape(shape)
    if result.shape != array.shape and array.shape[-1] != 1:
        return result
    strides = view_strides(array, result.shape)
    return result if strides is None or strides == result.strides else restrided(array, result.shape, strides)


def _strided_view(array: np.ndarray, shape: Any) -> np.ndarray | None:
    """Elements that do not lie one behind the other in another shape; None where that takes a copy, or there are none."""
    if not array.size or not array.ndim:
        return None
    result = array.reshape(shape)
    strides = known_block_strides(array.shape, array.strides, result.shape)
    if strides is None:
        return None
    return result if strides == result.strides else restrided(array, result.shape, strides)


@view(
    name="_view",
    fast="(a.reshape(shape) if 1 not in a.shape else _quick_view(a, shape)) if a.flags.c_contiguous else _strided_view(a, shape)",
    canonicalize=lambda input, shape: (input, inferred_shape(sizes_of(tuple(shape), "view"), input._array.size)),
    node_name="ViewBackward0",
    grad={"input": lambda grad, input_shape: grad.reshape(input_shape)},
    aten="view",
    batch="sized",
    moves=True,
)
def view_shape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """``input`` with another shape over the same memory; see ``Tensor.view``."""
    strides = view_strides(input, tuple(shape))
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
            "subspaces). Use .reshape(...) instead."
        )
    return restrided(input, tuple(shape), strides)


def _asked(name: str, input: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Result of the modes that see this call by the method's name."""
    return call_override(getattr(TensorType, name), (input,), (input, *args), kwargs)


@method(name="view", moves=True)
def view_method(input: Tensor, *shape: Any, dtype: Any = None, size: Any = None) -> Tensor:
    """The same memory with another shape, or read as another dtype.

    Args:
        shape: sizes, one of which may be -1, or a dtype; as a sequence it may be called ``size``.
        dtype: instead of sizes, what to read the memory as.
    Returns:
        The given shape. A view.
    Raises:
        RuntimeError: the number of elements differs, or the strides do not allow it.
    Gradient: ``grad`` in the tensor's shape; none of another dtype.
    Source: torch.Tensor.view.
    Example:
        >>> x = torch.arange(6)
        >>> x.view(2, -1)
        tensor([[0, 1, 2],
                [3, 4, 5]])
        >>> torch.tensor([1.0]).view(torch.int32)  # the bits
        tensor([1065353216], dtype=torch.int32)
    """
    if active and thread.function_modes:
        named = {name: value for name, value in (("dtype", dtype), ("size", size)) if value is not None}
        result = _asked("view", input, shape, named)
        if result is not NotImplemented:
            return result
    if len(shape) == 1 and shape[0].__class__ is not int:
        only = shape[0]
        if isinstance(only, dtypes.dtype):
            return _viewed_as(input, only)
        return view_shape(input, only if isinstance(only, (tuple, list)) else (only,))
    if not shape and dtype is not None:
        return _viewed_as(input, dtype)
    return view_shape(input, *one_by_one("view", shape, size)) if size is not None else view_shape(input, shape)


def _canonicalize_view_dtype(input: Any, dtype: Any) -> tuple[Any, ...]:
    """Check what must be divisible for wider elements; the kernel checks the last dimension, whose complaints come first or second."""
    array = with_strides(input._array)
    times = dtype.itemsize // array.itemsize
    if times < 2 or not array.ndim or array.shape[-1] % times:
        return input, dtype
    places = [("storage_offset()", input.storage_offset())]
    if array.strides[-1] == array.itemsize:
        places += [(f"stride({dim})", step // array.itemsize) for dim, step in enumerate(array.strides[:-1])]
    for name, value in places:
        if value % times:
            raise RuntimeError(
                f"self.{name} must be divisible by {times} to view {input.dtype.legacy} as {dtype.legacy} (different element sizes), but "
                f"got {value}"
            )
    return input, dtype


@view(
    batch=1,
    name="_view_dtype",
    canonicalize=_canonicalize_view_dtype,
    node_name="ViewBackward0",
    method=True,
    grad={"input": lambda grad, input_dtype: grad.view(input_dtype)},
    aten="view.dtype",
)
def view_dtype(input: Tensor, dtype: Any) -> Tensor:
    """``input``'s bytes read as another dtype; the last dimension grows or shrinks where the item size differs."""
    have, want = input.dtype.itemsize, dtype.itemsize
    input = with_strides(input)
    names = f"{dtypes.of_array(input).legacy} as {dtype.legacy}"
    if have == want:
        return input.view(dtype.numpy)
    if not input.ndim:
        raise RuntimeError(f"self.dim() cannot be 0 to view {names} (different element sizes)")
    if want > have and (input.shape[-1] * have) % want:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {want // have} to view {names} (different element sizes), but got {input.shape[-1]}"
        )
    if input.strides[-1] != have:
        raise RuntimeError(f"self.stride(-1) must be 1 to view {names} (different element sizes), but got {input.strides[-1] // have}")
    return input.view(dtype.numpy)


def _viewed_as(input: Any, dtype: Any) -> Any:
    """The same memory read as another dtype, outside the graph as in PyTorch."""
    result = view_dtype(input.detach(), dtype)
    result._view_of = None
    return result


def reshape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """``input`` with another shape: a view where the strides allow it, a copy otherwise.

    Args:
        input: any shape and dtype.
        shape: sizes, one of which may be -1.
    Returns:
        The given shape. A view where the strides allow it, otherwise row-major.
    Raises:
        RuntimeError: another number of elements.
    Gradient: ``grad`` in ``input``'s shape.
    Source: torch.reshape.
    Example:
        >>> x = torch.tensor([[1, 2, 3], [4, 5, 6]])
        >>> torch.reshape(x.T, (2, -1))
        tensor([[1, 4, 2],
                [5, 3, 6]])
    """
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if interposed and (taken := modes.below.reshaped(input, sizes)) is not NotImplemented:
        return taken
    array = input._array
    if array.flags.c_contiguous:
        return view_shape(input, sizes)
    wanted = inferred_shape(sizes_of(sizes, "reshape"), array.size)
    return reshaped_copy(input, wanted) if view_strides(array, wanted) is None else view_shape(input, wanted)


@op(
    name="_reshaped_copy",
    fast=True,
    node_name="UnsafeViewBackward0",
    out=True,
    grad={"input": lambda grad, input_shape: grad.reshape(input_shape)},
    batch="sized",
    forward="linear",
)
def reshaped_copy(input: Tensor, shape: Sequence[int]) -> Tensor:
    """A copy of ``input`` with another shape, where the strides allow no view."""
    return input.copy().reshape(shape)


composite(method=False, moves=True)(reshape)


@method(name="reshape", moves=True)
def reshape_method(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The tensor with another shape: a view where the strides allow it, a copy otherwise.

    Args:
        sizes: one by one or as one sequence, which may be called ``shape``; one of them may be -1.
    Returns:
        The given shape.
    Raises:
        RuntimeError: another number of elements.
    Source: torch.Tensor.reshape.
    Example:
        >>> torch.arange(4).reshape(2, 2)
        tensor([[0, 1],
                [2, 3]])
    """
    if active and thread.function_modes:
        result = _asked("reshape", input, sizes, {} if shape is None else {"shape": shape})
        if result is not NotImplemented:
            return result
    sizes = one_by_one("reshape", sizes, shape, "shape")
    return reshape(input, sizes[0] if len(sizes) == 1 and sizes[0].__class__ is not int else sizes)


for _name in ("view", "reshape"):
    TABLES["Tensor"][_name].shorten = partial(wrappers.make_sized, primitive("_view"), _name)


@method(moves=True)
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """The same memory in another tensor's shape: ``view(other.size())``.

    Args:
        other: any tensor with as many elements.
    Returns:
        ``other``'s shape. A view.
    Raises:
        RuntimeError: another number of elements, or strides that do not allow it.
    Source: torch.Tensor.view_as.
    Example:
        >>> torch.arange(4).view_as(torch.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
    """
    return view_shape(input, other._array.shape)


@method(moves=True)
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor in another one's shape: ``reshape(other.size())``.

    Args:
        other: any tensor with as many elements.
    Returns:
        ``other``'s shape. A view where the strides allow it.
    Raises:
        RuntimeError: another number of elements.
    Source: torch.Tensor.reshape_as.
    Example:
        >>> torch.tensor([[1, 2], [3, 4]]).T.reshape_as(torch.zeros(4))
        tensor([1, 3, 2, 4])
    """
    return reshape(input, other._array.shape)


@composite(moves=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the dimensions from ``start_dim`` to ``end_dim``.

    Args:
        input: any shape; a 0-d tensor becomes 1-d.
        start_dim, end_dim: first and last of the dimensions that become one.
    Returns:
        A view where the strides allow it; the tensor itself where there is nothing to merge.
    Raises:
        RuntimeError: ``start_dim`` after ``end_dim``.
        IndexError: one of them is out of range.
    Source: torch.flatten.
    Example:
        >>> torch.flatten(torch.zeros(2, 3, 4, 5), start_dim=1, end_dim=2).shape
        torch.Size([2, 12, 5])
    """
    shape = input._array.shape
    start, end = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end and shape:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@composite(moves=True)
def ravel(input: Tensor) -> Tensor:
    """``input`` as one dimension, contiguous.

    Args:
        input: any shape and dtype.
    Returns:
        1-d. A view where ``input`` is contiguous, a copy otherwise.
    Raises:
        TypeError: no tensor.
    Source: torch.ravel.
    Example:
        >>> torch.ravel(torch.tensor([[1, 2], [3, 4]]).T)
        tensor([1, 3, 2, 4])
    """
    return reshape(input.contiguous(), (-1,) if input._array.size else (0,))


@composite(moves=True)
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Split a dimension into several.

    Args:
        input: at least one dimension.
        dim: the dimension.
        sizes: what it becomes; one of them may be -1.
    Returns:
        A view.
    Raises:
        RuntimeError: no sizes, or sizes whose product is not the dimension's.
        IndexError: ``dim`` out of range.
    Source: torch.unflatten.
    Example:
        >>> torch.unflatten(torch.zeros(2, 12), 1, (3, -1)).shape
        torch.Size([2, 3, 4])
    """
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    parts: tuple[Any, ...] = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    if not parts:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = math.prod(n for n in parts if n != -1)
    if parts.count(-1) == 1 and known and shape[dim] % known == 0:
        parts = tuple(shape[dim] // known if n == -1 else n for n in parts)
    elif math.prod(parts) != shape[dim]:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(parts)} don't multiply up to the size of dim {dim} ({shape[dim]}) in the input tensor"
        )
    return view_shape(input, (*shape[:dim], *parts, *shape[dim + 1 :]))


# -- order of dimensions ------------------------------------------------------------------------------------------------------
@view(
    fast="a.swapaxes(dim0, dim1) if a.size else None",
    canonicalize=lambda input, dim0, dim1: (input, wrap_dim(dim0, input._array.ndim), wrap_dim(dim1, input._array.ndim)),
    inplace=True,
    aliases=("swapaxes", "swapdims"),
    grad={"input": lambda grad, dim0, dim1: grad.transpose(dim0, dim1)},
    moves=True,
)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """``input`` with dimensions ``dim0`` and ``dim1`` exchanged.

    Args:
        input: any shape and dtype.
        dim0, dim1: the two dimensions.
    Returns:
        ``input``'s shape with the two sizes exchanged. A view.
    Raises:
        IndexError: a dimension out of range.
    Gradient: ``grad`` transposed back.
    Source: torch.transpose.
    Example:
        >>> torch.transpose(torch.tensor([[1, 2, 3], [4, 5, 6]]), 0, 1)
        tensor([[1, 4],
                [2, 5],
                [3, 6]])
    """
    return with_strides(input).swapaxes(dim0, dim1) if input.ndim else input[...]


other_names("transpose", axis0="dim0", axis1="dim1")


@view(
    fast="a.T if a.ndim <= 2 and a.size else None", inplace=True, node_name="TBackward0", grad={"input": lambda grad: grad.t()}, moves=True
)
def t(input: Tensor) -> Tensor:
    """Transpose of a matrix.

    Args:
        input: at most 2-d; fewer dimensions are left as they are.
    Returns:
        ``(m, n)`` for ``(n, m)``. A view.
    Raises:
        RuntimeError: more than two dimensions.
    Gradient: ``grad`` transposed.
    Source: torch.t.
    Example:
        >>> torch.tensor([[1, 2, 3], [4, 5, 6]]).t()
        tensor([[1, 4],
                [2, 5],
                [3, 6]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return with_strides(input).T


def _canonicalize_permute(input: Any, dims: Any) -> tuple[Any, ...]:
    ndim = input._array.ndim
    dims = sizes_of(tuple(dims), "permute")
    if len(dims) != ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {len(dims)}"
        )
    wrapped = tuple(wrap_dim(d, ndim) for d in dims)
    if len(set(wrapped)) != ndim:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return input, wrapped


def _inverse(dims: Sequence[int]) -> tuple[int, ...]:
    count = len(dims)
    inverse = [0] * count
    for place, d in enumerate(dims):
        inverse[d % count] = place
    return tuple(inverse)


@view(
    method=False,
    fast="a.transpose(dims) if a.ndim == len(dims) and dims and a.size else None",
    canonicalize=_canonicalize_permute,
    grad={"input": lambda grad, dims: grad.permute(_inverse(dims))},
    moves=True,
)
def permute(input: Tensor, dims: Sequence[int]) -> Tensor:
    """``input`` with its dimensions in the order ``dims``.

    Args:
        input: any shape and dtype.
        dims: for each dimension of the result, which one of ``input`` it is.
    Returns:
        ``input``'s sizes in that order. A view.
    Raises:
        RuntimeError: ``dims`` is no permutation.
        IndexError: a dimension out of range.
    Gradient: ``grad`` in the inverse order.
    Source: torch.permute.
    Example:
        >>> torch.permute(torch.zeros(2, 3, 5), (2, 0, 1)).shape
        torch.Size([5, 2, 3])
    """
    return with_strides(input).transpose(dims) if dims else input[...]


@method(name="permute", moves=True)
@asks("permuted", "input, order", "dims is None")
def permute_method(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """The tensor with its dimensions in another order; see :func:`torch.permute`.

    Args:
        order: dimensions one by one or as one sequence, which may be called ``dims``.
    Returns:
        The tensor's sizes in that order. A view.
    Raises:
        RuntimeError: no permutation.
        IndexError: a dimension out of range.
    Source: torch.Tensor.permute.
    Example:
        >>> torch.zeros(2, 3, 5).permute(1, -1, 0).shape
        torch.Size([3, 5, 2])
    """
    order = one_by_one("permute", order, dims, "dims")
    return permute(input, order[0] if len(order) == 1 and isinstance(order[0], (tuple, list)) else order)


@composite(aliases=("moveaxis",), moves=True)
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move some dimensions to other places; the others keep their order.

    Args:
        input: any shape and dtype.
        source: a dimension, or several.
        destination: where each of them goes.
    Returns:
        A view.
    Raises:
        RuntimeError: different numbers of them, or the same one twice.
        IndexError: a dimension out of range.
    Source: torch.movedim.
    Example:
        >>> torch.movedim(torch.zeros(2, 3, 5, 7), 1, -1).shape
        torch.Size([2, 5, 7, 3])
    """
    ndim = input._array.ndim
    sources = (source,) if isinstance(source, int) else tuple(source)
    targets = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should contain the same number of dims as "
            f"destination ({list(targets)} dims)"
        )
    for dims, name in ((sources, "source"), (targets, "destination")):
        if len({wrap_dim(d, ndim) for d in dims}) < len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(dims)})")
    sources, targets = wrap_dims(sources, ndim, empty_is_all=False), wrap_dims(targets, ndim, empty_is_all=False)
    if not ndim:
        from .conversion import alias

        return alias(input)
    rest = iter(d for d in range(ndim) if d not in sources)
    placed = dict(zip(targets, sources, strict=True))
    return permute(input, tuple(placed[d] if d in placed else next(rest) for d in range(ndim)))


def _warn(words: str) -> None:
    warnings.warn(words, UserWarning, stacklevel=4)


def _swapped(input: Any, name: str, advice: str) -> Any:
    """The last two dimensions exchanged; a 0-d tensor is given back with a warning."""
    ndim = input._array.ndim
    if not ndim:
        _warn(f"{name.replace('tensor.adjoint', 'adjoint').replace('tensor', 'Tensor')} is deprecated on 0-D tensors. {advice}")
        return input
    if ndim < 2:
        raise RuntimeError(f"{name} is only supported on matrices or batches of matrices. Got {ndim}-D tensor.")
    return input.transpose(-2, -1)


_IDENTITY = "This function is the identity in these cases."
_USE_CONJ = "Consider using x.conj()."


def _adjoint_of_matrix(input: Any) -> Any:
    ndim = input._array.ndim
    if ndim not in (0, 2):
        more = ". For batches of matrices, consider using tensor.mH" if ndim > 2 else ""
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor{more or '.'}")
    if not ndim:
        _warn(f"Tensor.H is deprecated on 0-D tensors. {_USE_CONJ}")
        return input.conj()
    return input.transpose(0, 1).conj()


@asks("reversed_", "input")
def _reverse_dims(input: Any) -> Any:
    ndim = input._array.ndim
    if ndim == 0:
        _warn(f"Tensor.T is deprecated on 0-D tensors. {_IDENTITY}")
    elif ndim > 2:
        _warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in a "
            "future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse "
            "the dimensions of a tensor."
        )
    return permute(input, tuple(range(ndim))[::-1])


@composite()
def adjoint(input: Tensor) -> Tensor:
    """Conjugate transpose of the last two dimensions.

    Args:
        input: ``(*, n, m)``.
    Returns:
        ``(*, m, n)``; a view of a real tensor, a copy of a complex one.
    Raises:
        RuntimeError: a vector.
    Source: torch.adjoint.
    Example:
        >>> torch.adjoint(torch.tensor([[1 + 2j, 3j]]))
        tensor([[1.-2.j],
                [0.-3.j]])
    """
    return _swapped(input, "tensor.adjoint()", _USE_CONJ).conj()


TensorType.T = property(_reverse_dims, doc="All dimensions in reverse order, a view.")  # type: ignore[attr-defined]
TensorType.mT = property(  # type: ignore[attr-defined]
    lambda input: _swapped(input, "tensor.mT", _IDENTITY), doc="The last two dimensions exchanged, a view."
)
TensorType.mH = property(  # type: ignore[attr-defined]
    lambda input: _swapped(input, "tensor.mH", _USE_CONJ).conj(), doc="Conjugate transpose of the last two dimensions."
)
TensorType.H = property(_adjoint_of_matrix, doc="Conjugate transpose of a matrix.")  # type: ignore[attr-defined]


# -- size-1 dimensions, expansion -----------------------------------------------------------------------------------------------
def _squeezed(array: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return with_strides(array).squeeze(tuple(d for d in dims if array.shape[d] == 1))


def _quick_squeeze(array: np.ndarray, dim: Any) -> np.ndarray | None:
    """The usual case: one dimension, which may have another size than 1."""
    if dim.__class__ is not int or not -array.ndim <= dim < array.ndim:
        return None
    return array.squeeze(dim) if array.shape[dim] == 1 else array[...]


@view(
    fast="(a.squeeze() if dim is None else _quick_squeeze(a, dim)) if a.size else None",
    inplace=True,
    grad={"input": lambda grad, input_shape: grad.reshape(input_shape)},
    moves=True,
)
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """``input`` without its size-1 dimensions, or without those of ``dim`` that have size 1.

    Args:
        input: any shape and dtype.
        dim: a dimension or several, of which those of another size than 1 stay; all when None.
    Returns:
        ``input``'s shape without those dimensions. A view.
    Raises:
        IndexError: ``dim`` out of range.
    Gradient: ``grad`` in ``input``'s shape.
    Source: torch.squeeze.
    Example:
        >>> x = torch.zeros(1, 3, 1)
        >>> x.squeeze().shape, x.squeeze(0).shape, x.squeeze(1).shape
        (torch.Size([3]), torch.Size([3, 1]), torch.Size([1, 3, 1]))
    """
    if dim is None:
        return with_strides(input).squeeze()
    return _squeezed(input, tuple(d for d in wrap_dims(dim, input.ndim, empty_is_all=False) if input.ndim))


def _unsqueezed(array: np.ndarray, dim: int) -> np.ndarray | None:
    """A dimension of size 1 put in at ``dim``; None for a ``dim`` out of range."""
    shape, strides = array.shape, array.strides
    count = len(shape)
    if dim.__class__ is not int:  # a tensor may say it
        dim = index(dim)
    if dim < 0:
        dim += count + 1
    if not 0 <= dim <= count:
        return None
    step = strides[dim] * shape[dim] if dim < count else array.itemsize
    shape, strides = (*shape[:dim], 1, *shape[dim:]), (*strides[:dim], step, *strides[dim:])
    return view_at(array, shape, array.dtype, 0, strides) if array.flags.c_contiguous else restrided(array, shape, strides)


@view(
    # NumPy gives a size of 1 that it puts before another dimension PyTorch's stride, unless others of size 1 or 0 are there
    fast="(a.reshape((1,) + s) if dim == 0 and s else a.reshape(s[:dim] + (1,) + s[dim:]) if 0 < dim < len(s) else _unsqueezed(a, dim)) "
    "if a.__class__ is ndarray and 1 not in (s := a.shape) and 0 not in s else _unsqueezed(a, dim) if a.size else None",
    canonicalize=lambda input, dim: (input, wrap_dim(index(dim), input._array.ndim + 1)),
    inplace=True,
    grad={"input": lambda grad, input_shape: grad.reshape(input_shape)},
    moves=True,
)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """``input`` with a dimension of size 1 inserted at ``dim``.

    Args:
        input: any shape and dtype.
        dim: place of the new dimension, from ``-ndim - 1`` to ``ndim``.
    Returns:
        ``input``'s shape with one size 1 more. A view, whose stride there is stride times size of the following dimension.
    Raises:
        IndexError: ``dim`` out of range.
    Gradient: ``grad`` in ``input``'s shape.
    Source: torch.unsqueeze.
    Example:
        >>> x = torch.tensor([1, 2])
        >>> x.unsqueeze(0), x.unsqueeze(-1)
        (tensor([[1, 2]]), tensor([[1],
                [2]]))
    """
    return _unsqueezed(with_strides(input), dim)


def _canonicalize_expand(input: Any, size: Any, implicit: bool) -> tuple[Any, ...]:
    have, want = input._array.shape, tuple(sizes_of(tuple(size), "expand"))
    if len(want) < len(have):
        raise RuntimeError(
            f"expand({input.type()}{{{list(have)}}}, size={list(want)}): the number of sizes provided ({len(want)}) must be greater or "
            f"equal to the number of dimensions in the tensor ({len(have)})"
        )
    lead = len(want) - len(have)
    full = []
    for i, n in enumerate(want):
        if i < lead:
            if n == -1:
                raise RuntimeError(
                    f"expand({input.type()}{{{list(have)}}}, size={list(want)}): the expanded size of the tensor (-1) isn't allowed in a "
                    f"leading, non-existing dimension {i}"
                )
            full.append(n)
        else:
            old = have[i - lead]
            n = old if n == -1 else n
            if old not in (1, n):
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) must match the existing size ({old}) at non-singleton dimension {i}.  "
                    f"Target sizes: {list(want)}.  Tensor sizes: {list(have)}"
                )
            full.append(n)
    return input, tuple(full), implicit


def _quick_expand(array: np.ndarray, size: Sequence[int], implicit: bool) -> np.ndarray | None:
    """The usual case: a contiguous array, no -1, sizes that are given as ints."""
    have = array.shape
    if not have:
        return np.ndarray(size, array.dtype, array, 0, (0,) * len(size)) if 0 not in size and -1 not in size else None
    lead = len(size) - len(have)
    if lead < 0 or not array.flags.c_contiguous or not array.size:
        return None
    if lead and 1 in size[:lead]:
        return None  # PyTorch's stride there is not 0
    strides = [0] * lead
    for n, old, step in zip(size[lead:] if lead else size, have, array.strides, strict=True):
        if n == old:
            strides.append(step)
        elif old == 1 and n > 0:
            strides.append(0)
        else:
            return None
    return np.ndarray(size, array.dtype, array, 0, strides)


@view(
    name="_expand",
    fast=_quick_expand,
    canonicalize=_canonicalize_expand,
    node_name="ExpandBackward0",
    grad={"input": lambda grad: grad},
    aten="expand",
)
def expand_to(input: Tensor, size: Sequence[int], implicit: bool = False) -> Tensor:
    """``input`` with its size-1 dimensions repeated, without a copy; see ``Tensor.expand``."""
    if not input.ndim:
        return restrided(input, tuple(size), (0,) * len(size))
    input = with_strides(input)
    lead = len(size) - input.ndim
    strides = [step if n == old else 0 for n, old, step in zip(size[lead:], input.shape, input.strides, strict=True)]
    for i in range(lead - 1, -1, -1):  # a dimension of size 1 is put in as ``unsqueeze`` does
        strides.insert(0, 0 if size[i] != 1 else strides[0] * size[i + 1])
    return restrided(input, tuple(size), tuple(strides))


@method(name="expand", moves=True)
@asks("expanded", "input, sizes", "size is None and not implicit")
def expand_method(input: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """The tensor with its dimensions of size 1 repeated to other sizes, without a copy.

    Args:
        sizes: one by one, or as a sequence, which may be called ``size``; -1 keeps a size.
        implicit: PyTorch's mark of expansions by broadcasting; without effect.
    Returns:
        The given shape. A view with stride 0 where something is repeated.
    Raises:
        RuntimeError: another existing size than 1 would change, or there are fewer sizes than dimensions.
    Gradient: ``grad`` summed over what was repeated.
    Source: torch.Tensor.expand.
    Example:
        >>> x = torch.tensor([[1], [2]])
        >>> x.expand(3, -1, 2).shape, x.expand(2, 3)
        (torch.Size([3, 2, 2]), tensor([[1, 1, 1],
                [2, 2, 2]]))
    """
    if active and thread.function_modes:
        named = {"implicit": True} if implicit else {}
        result = _asked("expand", input, sizes, named if size is None else {"size": size, **named})
        if result is not NotImplemented:
            return result
    sizes = one_by_one("expand", sizes, size)
    return expand_to(input, sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes, implicit)


@method(moves=True)
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor expanded to another one's shape: ``expand(other.size())``.

    Args:
        other: any tensor.
    Returns:
        ``other``'s shape. A view.
    Raises:
        RuntimeError: another existing size than 1 would change.
    Source: torch.Tensor.expand_as.
    Example:
        >>> torch.tensor([1, 2]).expand_as(torch.zeros(2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
    return expand_to(input, other._array.shape)


@composite(moves=True)
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """``input`` expanded to a shape.

    Args:
        input: a shape that broadcasts to ``size``.
        size: the shape; -1 keeps a size.
    Returns:
        Shape ``size``. A view with stride 0 where something is repeated.
    Raises:
        RuntimeError: another existing size than 1 would change.
    Source: torch.broadcast_to.
    Example:
        >>> torch.broadcast_to(torch.tensor([1, 2]), (3, 2)).stride()
        (0, 1)
    """
    return expand_to(input, size)


def _quick_sum_to(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The usual case, a bias under a matrix, without NumPy's machinery for reductions."""
    if array.ndim == 2 and len(shape) == 1 and shape[0] == array.shape[1]:
        result = small_sum(array, 0)
        if result is not None:
            return result
    return sum_to_shape_array(array, shape)


def sum_to_shape_array(input: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    dims = dims_to_sum(input.shape, shape)
    return row_major(np.add.reduce(input, axis=dims, keepdims=True).reshape(shape)) if dims else input.copy()


def _summed(input: Any, shape: Sequence[int]) -> Any:
    dims = dims_to_sum(tuple(input.shape), shape)
    result = input.sum(list(dims), True) if dims else input
    return result.view(list(shape)) if input.dim() > len(shape) or not dims else result


@op(
    name="_sum_to_size",
    promotion="bool_to_long",
    fast=_quick_sum_to,
    out=True,
    method=True,
    grad={"input": lambda grad, input_shape: grad.expand(input_shape)},
    node_name="SumBackward1",
    forward="linear",
    lowered=_summed,
)
def sum_to_shape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """Sum over the dimensions in which ``shape`` is 1 or missing."""
    return sum_to_shape_array(input, shape)


@method()
def sum_to_size(input: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Sum over the dimensions in which a shape is 1 or missing: the reverse of broadcasting.

    Args:
        sizes: the shape, one by one or as one sequence, which may be called ``size``.
    Returns:
        The given shape; int64 for integers. The tensor itself where it has that shape.
    Raises:
        RuntimeError: a shape that does not broadcast to the tensor's.
    Source: torch.Tensor.sum_to_size.
    Example:
        >>> torch.ones(2, 3).sum_to_size(1, 3)
        tensor([[2., 2., 2.]])
    """
    shape = sizes_of(one_by_one("sum_to_size", sizes, size), "sum_to_size")
    have = input._array.shape
    lead = len(have) - len(shape)
    if lead < 0 or any(n not in (1, old) for n, old in zip(shape, have[max(lead, 0) :], strict=False)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(have)}}}.")
    if not shape:
        return input.sum()
    if have == shape:
        return input
    return sum_to_shape(input if input.is_floating_point() or input.is_complex() else input.long(), shape)


# -- complex numbers as pairs ---------------------------------------------------------------------------------------------------
def _as_complex(pairs: Any) -> Any:
    """``pairs`` as complex numbers, copied where they do not lie at even places."""
    pairs = pairs.contiguous()
    return view_as_complex(pairs.clone() if pairs.storage_offset() % 2 else pairs)


@view(batch=0, grad={"input": lambda grad: _as_complex(grad)})
def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor as a real one with a last dimension of 2 (real and imaginary part).

    Args:
        input: any shape, complex.
    Returns:
        ``(*, 2)``, the corresponding real dtype. A view.
    Raises:
        RuntimeError: a real tensor.
    Gradient: ``grad``'s pairs as complex numbers.
    Source: torch.view_as_real.
    Example:
        >>> torch.view_as_real(torch.tensor([1 + 2j, 3 - 4j]))
        tensor([[ 1.,  2.],
                [ 3., -4.]])
    """
    kind = dtypes.of_array(input)
    if not kind.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    input, real = with_strides(input), kind.to_real().numpy
    return restrided(input, (*input.shape, 2), (*input.strides, real.itemsize), 0, real)


def _check_pairs(input: Any) -> tuple[Any, ...]:
    """Check where pairs begin; the kernel checks the rest, of which it has the array alone."""
    array = input._array
    if array.dtype.kind == "f" and array.shape[-1:] == (2,) and input.storage_offset() % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return (input,)


@view(batch=1, canonicalize=_check_pairs, grad={"input": lambda grad: view_as_real(grad)}, autocast={"cpu": "float32"})
def view_as_complex(input: Tensor) -> Tensor:
    """A real tensor with a last dimension of 2 as a complex one.

    Args:
        input: ``(*, 2)``, float16, float32 or float64.
    Returns:
        ``(*)``, the corresponding complex dtype. A view.
    Raises:
        RuntimeError: another dtype or last size, or strides or a storage offset that do not allow it.
    Gradient: ``grad``'s parts.
    Source: torch.view_as_complex.
    Example:
        >>> torch.view_as_complex(torch.tensor([[1.0, 2.0], [3.0, -4.0]]))
        tensor([1.+2.j, 3.-4.j])
    """
    if input.dtype.kind != "f":
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{dtypes.of_array(input).legacy}"
        )
    input = with_strides(input)
    if not input.ndim or input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    itemsize = input.itemsize
    if input.strides[-1] != itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(n != 1 and step % (2 * itemsize) for n, step in zip(input.shape[:-1], input.strides, strict=False)):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    target = dtypes.of_array(input).to_complex()
    strides = tuple([step // (2 * itemsize) * 2 * itemsize for step in input.strides[:-1]])
    return restrided(input, input.shape[:-1], strides, 0, target.numpy)


@composite(method=False, moves=True)
def atleast_1d(*tensors: Tensor) -> Any:
    """Each tensor with at least one dimension.

    Args:
        tensors: of any shape, one by one or as one sequence.
    Returns:
        One view for one tensor, a tuple for several.
    Raises:
        TypeError: what is no tensor.
    Source: torch.atleast_1d.
    Example:
        >>> torch.atleast_1d(torch.tensor(5), torch.tensor([1, 2]))
        (tensor([5]), tensor([1, 2]))
    """
    return _at_least(tensors, lambda x: x.reshape(1) if not x._array.ndim else x)


@composite(method=False, moves=True)
def atleast_2d(*tensors: Tensor) -> Any:
    """Each tensor with at least two dimensions; a vector becomes a row.

    Args:
        tensors: of any shape, one by one or as one sequence.
    Returns:
        One view for one tensor, a tuple for several.
    Raises:
        TypeError: what is no tensor.
    Source: torch.atleast_2d.
    Example:
        >>> torch.atleast_2d(torch.tensor([1, 2]))
        tensor([[1, 2]])
    """
    return _at_least(tensors, lambda x: x.reshape(1, 1) if not x._array.ndim else x.unsqueeze(0) if x._array.ndim == 1 else x)


@composite(method=False, moves=True)
def atleast_3d(*tensors: Tensor) -> Any:
    """Each tensor with at least three dimensions; a vector becomes the middle one.

    Args:
        tensors: of any shape, one by one or as one sequence.
    Returns:
        One view for one tensor, a tuple for several.
    Raises:
        TypeError: what is no tensor.
    Source: torch.atleast_3d.
    Example:
        >>> torch.atleast_3d(torch.zeros(2)).shape, torch.atleast_3d(torch.zeros(2, 5)).shape
        (torch.Size([1, 2, 1]), torch.Size([2, 5, 1]))
    """

    def lift(x: Any) -> Any:
        ndim = x._array.ndim
        if ndim == 0:
            return x.reshape(1, 1, 1)
        if ndim == 1:
            return x.unsqueeze(0).unsqueeze(-1)
        return x.unsqueeze(-1) if ndim == 2 else x

    return _at_least(tensors, lift)


def _at_least(tensors: Any, lift: Any) -> Any:
    if len(tensors) == 1:
        only = tensors[0]
        return tuple(lift(tensor) for tensor in only) if isinstance(only, (tuple, list)) else lift(only)
    return tuple(lift(tensor) for tensor in tensors)
