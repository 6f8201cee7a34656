"""Views: tensors that show the same memory with another shape, other strides or another offset.

Each view op is a kernel that returns a NumPy view; the derivative puts the gradient back where the view took its elements from.
Taking parts (``select``, ``narrow``, slices, basic indexing) is one operation with a NumPy index as its attribute, and one
derivative, ``scatter_part``; the names differ only on the tape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.annotations import Tensor
from ..core.history import make_view, point_at
from ..core.layout import contiguous_format
from ..core.registry import composite, method, op, primitive, view
from ..core.shape import (
    inferred_shape,
    sizes_of,
    strided,
    wrap_dim,
    wrap_dims,
)
from ..core.state import grad_enabled
from ..core.tensor import Tensor as TensorType
from ..core.tensor import storage_of
from .small import small_sum


# -- shape ------------------------------------------------------------------------------------------------------------------
def _prepare_view(input: Any, shape: Any) -> tuple[Any, ...]:
    return input, inferred_shape(sizes_of(tuple(shape), "view"), input._array.size)


@view(
    name="_view",
    method=False,
    fast="a.reshape(shape) if a.flags.c_contiguous else None",
    prepare=_prepare_view,
    node_name="ViewBackward0",
    grad={"input": lambda grad, input_shape: grad.reshape(input_shape)},
)
def view_shape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """``input`` with another shape over the same memory; see ``Tensor.view``."""
    try:
        return input.reshape(shape, copy=False)
    except ValueError:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
            "subspaces). Use .reshape(...) instead."
        ) from None


@method(name="view")
def view_method(input: Tensor, *shape: Any, dtype: Any = None, size: Any = None) -> Tensor:
    """The same memory with another shape, or read as another dtype.

    Args:
        *shape: sizes, one of which may be -1, or a dtype.
    Returns:
        A view.
    Raises:
        RuntimeError: the number of elements differs, or the strides do not allow it.
    Source: torch.Tensor.view.
    """
    if len(shape) == 1 and shape[0].__class__ is not int:
        only = shape[0]
        if isinstance(only, dtypes.dtype):
            return view_dtype(input, only)
        return view_shape(input, only if isinstance(only, (tuple, list)) else (only,))
    if not shape:
        if dtype is not None:
            return view_dtype(input, dtype)
        if size is not None:
            return view_shape(input, size)
    return view_shape(input, shape)


def _prepare_view_dtype(input: Any, dtype: Any) -> tuple[Any, ...]:
    times = dtype.itemsize // input.dtype.itemsize
    if times > 1 and input._array.ndim and input._array.size:
        for name, value in [
            ("storage_offset()", input.storage_offset()),
            *((f"stride({d})", n) for d, n in enumerate(input.stride()[:-1])),
        ]:
            if value % times:
                raise RuntimeError(
                    f"self.{name} must be divisible by {times} to view {input.dtype} as {dtype} (different element sizes), but got {value}"
                )
    return input, dtype


@view(
    name="_view_dtype",
    method=False,
    prepare=_prepare_view_dtype,
    node_name="ViewBackward0",
    grad={"input": lambda grad, input_dtype: grad.view(input_dtype)},
)
def view_dtype(input: Tensor, dtype: Any) -> Tensor:
    """``input``'s bytes read as another dtype; the last dimension grows or shrinks where the item size differs."""
    have, want = input.dtype.itemsize, dtype.itemsize
    if have == want:
        return input.view(dtype.numpy)
    if not input.ndim:
        raise RuntimeError(f"self.dim() cannot be 0 to view {dtypes.of_array(input)} as {dtype} (different element sizes)")
    if input.strides[-1] != have:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {dtypes.of_array(input)} as {dtype} (different element sizes), but got "
            f"{input.strides[-1] // have}"
        )
    if want > have and (input.shape[-1] * have) % want:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {want // have} to view {dtypes.of_array(input)} as {dtype} (different element sizes), "
            f"but got {input.shape[-1]}"
        )
    return input.view(dtype.numpy)


def reshape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """``input`` with another shape: a view where the strides allow it, a copy otherwise.

    Args:
        shape: sizes, one of which may be -1.
    Source: torch.reshape.
    """
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    array = input._array
    if array.flags.c_contiguous:
        return view_shape(input, sizes)
    wanted = inferred_shape(sizes_of(sizes, "reshape"), array.size)
    try:
        array.reshape(wanted, copy=False)
    except ValueError:
        return reshaped_copy(input, wanted)
    return view_shape(input, wanted)


@op(
    name="_reshaped_copy",
    method=False,
    fast=True,
    node_name="UnsafeViewBackward0",
    grad={"input": lambda grad, input_shape: grad.reshape(input_shape)},
)
def reshaped_copy(input: Tensor, shape: Sequence[int]) -> Tensor:
    """A copy of ``input`` with another shape, where the strides allow no view."""
    return input.copy().reshape(shape)


composite(method=False)(reshape)


@method(name="reshape")
def reshape_method(input: Tensor, *shape: Any) -> Tensor:
    """See ``torch.reshape``; sizes one by one or as a sequence."""
    return reshape(input, shape[0] if len(shape) == 1 and shape[0].__class__ is not int else shape)


@method()
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.view(other.size())``. Source: torch.Tensor.view_as."""
    return view_shape(input, other._array.shape)


@method()
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.reshape(other.size())``. Source: torch.Tensor.reshape_as."""
    return reshape(input, other._array.shape)


@composite()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the dimensions from ``start_dim`` to ``end_dim``; a 0-d tensor becomes 1-d.

    Raises:
        RuntimeError: ``start_dim`` after ``end_dim``.
    Source: torch.flatten.
    """
    shape = input._array.shape
    start, end = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end and shape:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@composite()
def ravel(input: Tensor) -> Tensor:
    """``input`` as one dimension, contiguous. Source: torch.ravel."""
    return reshape(input.contiguous(), (-1,) if input._array.size else (0,))


@composite()
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Split dimension ``dim`` into dimensions of ``sizes`` (one may be -1).

    Source: torch.unflatten.
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
def _prepare_dims(input: Any, dim0: int, dim1: int) -> tuple[Any, ...]:
    ndim = input._array.ndim
    return input, wrap_dim(dim0, ndim), wrap_dim(dim1, ndim)


@view(
    fast="a.swapaxes(dim0, dim1)",
    prepare=_prepare_dims,
    inplace=True,
    aliases=("swapaxes", "swapdims"),
    grad={"input": lambda grad, dim0, dim1: grad.transpose(dim0, dim1)},
)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """``input`` with dimensions ``dim0`` and ``dim1`` exchanged.

    Returns:
        A view.
    Raises:
        IndexError: a dimension out of range.
    Gradient: ``grad`` transposed back.
    Source: torch.transpose.
    """
    return input.swapaxes(dim0, dim1) if input.ndim else input[...]


@view(fast="a.T if a.ndim <= 2 else None", inplace=True, node_name="TBackward0", grad={"input": lambda grad: grad.t()})
def t(input: Tensor) -> Tensor:
    """Transpose of a matrix; vectors and 0-d tensors unchanged.

    Raises:
        RuntimeError: more than two dimensions.
    Source: torch.t.
    """
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input.T


def _prepare_permute(input: Any, dims: Any) -> tuple[Any, ...]:
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
    fast="a.transpose(dims) if a.ndim == len(dims) and dims else None",
    prepare=_prepare_permute,
    grad={"input": lambda grad, dims: grad.permute(_inverse(dims))},
)
def permute(input: Tensor, dims: Sequence[int]) -> Tensor:
    """``input`` with its dimensions in the order ``dims``.

    Returns:
        A view.
    Raises:
        RuntimeError: ``dims`` is no permutation.
    Source: torch.permute.
    """
    return input.transpose(dims) if dims else input[...]


@method(name="permute")
def permute_method(input: Tensor, *dims: Any) -> Tensor:
    """See ``torch.permute``; dimensions one by one or as a sequence."""
    return permute(input, dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims)


@composite(aliases=("moveaxis",))
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move the dimensions ``source`` to the places ``destination``; the others keep their order.

    Source: torch.movedim.
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
    rest = iter(d for d in range(ndim) if d not in sources)
    placed = dict(zip(targets, sources, strict=True))
    return permute(input, tuple(placed[d] if d in placed else next(rest) for d in range(ndim)))


def _warn(words: str) -> None:
    import warnings

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


def _matrix_transpose(input: Any) -> Any:
    return _swapped(input, "tensor.mT", _IDENTITY)


def _matrix_adjoint(input: Any) -> Any:
    return _swapped(input, "tensor.mH", _USE_CONJ).conj()


def _adjoint_of_matrix(input: Any) -> Any:
    ndim = input._array.ndim
    if ndim not in (0, 2):
        more = ". For batches of matrices, consider using tensor.mH" if ndim > 2 else ""
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor{more or '.'}")
    if not ndim:
        _warn(f"Tensor.H is deprecated on 0-D tensors. {_USE_CONJ}")
        return input.conj()
    return input.t().conj()


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
    return input.t() if ndim <= 2 else permute(input, tuple(range(ndim))[::-1])


@composite()
def adjoint(input: Tensor) -> Tensor:
    """Conjugate transpose of the last two dimensions. Source: torch.adjoint."""
    return _swapped(input, "tensor.adjoint()", _USE_CONJ).conj()


TensorType.T = property(_reverse_dims, doc="All dimensions in reverse order, a view.")  # type: ignore[attr-defined]
TensorType.mT = property(_matrix_transpose, doc="The last two dimensions exchanged, a view.")  # type: ignore[attr-defined]
TensorType.mH = property(_matrix_adjoint, doc="Conjugate transpose of the last two dimensions.")  # type: ignore[attr-defined]
TensorType.H = property(_adjoint_of_matrix, doc="Conjugate transpose of a matrix.")  # type: ignore[attr-defined]


# -- size-1 dimensions, expansion -----------------------------------------------------------------------------------------------
def _squeezed(array: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    return array.squeeze(tuple(d for d in dims if array.shape[d] == 1))


@view(
    name="squeeze",
    fast="a.squeeze() if dim is None else None",
    inplace=True,
    grad={"input": lambda grad, input_shape: grad.reshape(input_shape)},
)
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """``input`` without its size-1 dimensions, or without those of ``dim`` that have size 1.

    Returns:
        A view.
    Source: torch.squeeze.
    """
    if dim is None:
        return input.squeeze()
    return _squeezed(input, tuple(d for d in wrap_dims(dim, input.ndim, empty_is_all=False) if input.ndim))


def _prepare_unsqueeze(input: Any, dim: int) -> tuple[Any, ...]:
    return input, wrap_dim(dim, input._array.ndim + 1)


@view(
    fast="a[None] if dim == 0 and a.flags.c_contiguous else None",
    prepare=_prepare_unsqueeze,
    inplace=True,
    grad={"input": lambda grad, input_shape: grad.reshape(input_shape)},
)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """``input`` with a dimension of size 1 inserted at ``dim``.

    Returns:
        A view; its stride there is the stride times size of the following dimension.
    Source: torch.unsqueeze.
    """
    step = input.strides[dim] * input.shape[dim] if dim < input.ndim else input.itemsize
    made = np.expand_dims(input, dim)
    return np.lib.stride_tricks.as_strided(made, strides=(*input.strides[:dim], step, *input.strides[dim:])) if input.size else made


def _prepare_expand(input: Any, size: Any, implicit: bool) -> tuple[Any, ...]:
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
    method=False,
    fast=_quick_expand,
    prepare=_prepare_expand,
    node_name="ExpandBackward0",
    grad={"input": lambda grad: grad},
)
def expand_to(input: Tensor, size: Sequence[int], implicit: bool = False) -> Tensor:
    """``input`` with its size-1 dimensions repeated, without a copy; see ``Tensor.expand``."""
    lead = len(size) - input.ndim
    strides = [0] * lead
    for n, old, step in zip(size[lead:], input.shape, input.strides, strict=True):
        strides.append(step if n == old else 0)
    if 0 in size:
        return np.lib.stride_tricks.as_strided(input, size, strides)
    if input.flags.c_contiguous:
        return np.ndarray(size, input.dtype, input, 0, strides)
    return np.lib.stride_tricks.as_strided(input, size, strides)


@method(name="expand")
def expand_method(input: Tensor, *size: Any, implicit: bool = False) -> Tensor:
    """Size-1 dimensions repeated to ``size`` with stride 0; -1 keeps a size; new dimensions may be put in front.

    Returns:
        A view; no memory is allocated.
    Raises:
        RuntimeError: another existing size than 1 would change.
    Source: torch.Tensor.expand.
    """
    return expand_to(input, size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size, implicit)


@method()
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.expand(other.size())``. Source: torch.Tensor.expand_as."""
    return expand_to(input, other._array.shape)


@composite()
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """``input`` expanded to ``size``. Source: torch.broadcast_to."""
    return expand_to(input, size)


def _quick_sum_to(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The usual case, a bias under a matrix, without NumPy's machinery for reductions."""
    if array.ndim == 2 and len(shape) == 1 and shape[0] == array.shape[1]:
        made = small_sum(array, 0)
        if made is not None:
            return made
    return sum_to_shape_array(array, shape)


def sum_to_shape_array(input: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    lead = input.ndim - len(shape)
    dims = tuple(range(lead)) + tuple(i for i in range(lead, input.ndim) if shape[i - lead] == 1 != input.shape[i])
    return np.add.reduce(input, axis=dims, keepdims=True).reshape(shape) if dims else input.copy()


@op(
    name="_sum_to_size",
    promotion="bool_to_long",
    fast=_quick_sum_to,
    grad={"input": lambda grad, input_shape: grad.expand(input_shape)},
    node_name="SumBackward1",
)
def sum_to_shape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """Sum over the dimensions in which ``shape`` is 1 or missing."""
    return sum_to_shape_array(input, shape)


@method()
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sum so that the result has shape ``size``, to which ``input``'s shape must be a broadcast.

    Source: torch.Tensor.sum_to_size.
    """
    shape = sizes_of(size, "sum_to_size")
    have = input._array.shape
    lead = len(have) - len(shape)
    if lead < 0 or any(n not in (1, old) for n, old in zip(shape, have[max(lead, 0) :], strict=False)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(have)}}}.")
    if not shape:
        return input.sum()
    return input if have == shape else sum_to_shape(input, shape)


# -- parts --------------------------------------------------------------------------------------------------------------------
@op(name="_scatter_part", method=False, node_name="SliceBackward0", grad={"input": lambda grad, key: take_slice(grad, key)})
def scatter_part(input: Tensor, shape: Sequence[int], key: Any) -> Tensor:
    """Zeros of ``shape`` with ``input`` at the basic index ``key``: the derivative of taking a part."""
    whole = np.zeros(shape, input.dtype)
    whole[key] = input
    return whole


def _part(name: str, node_name: str) -> Any:
    """One of the operations that take a part by a basic NumPy index; they differ in the name on the tape only."""

    def take(input: Tensor, key: Any) -> Tensor:
        """The part of ``input`` at basic index ``key``, which contains an Ellipsis so that the result is a view."""
        return input[key]

    take.__name__ = name
    return view(
        name=name,
        method=False,
        fast="a[key]",
        node_name=node_name,
        grad={"input": lambda grad, input_shape, key: scatter_part(grad, input_shape, key)},
    )(take)


take_select = _part("_select", "SelectBackward0")
take_slice: Callable[..., Any] = _part("_slice", "SliceBackward0")
take_unsqueezed = _part("_index_unsqueeze", "UnsqueezeBackward0")


def dim_key(dim: int, index: Any) -> tuple[Any, ...]:
    """Basic index that applies ``index`` to dimension ``dim`` (counted from the front)."""
    return (*(slice(None),) * dim, index, ...)


@composite()
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice of ``input`` at ``index`` of dimension ``dim``, which is dropped.

    Returns:
        A view.
    Raises:
        IndexError: a 0-d tensor, or ``dim`` or ``index`` out of range.
    Source: torch.select.
    """
    shape = input._array.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim, index = wrap_dim(dim, len(shape)), index.__index__()
    if not -shape[dim] <= index < shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {dim}")
    return take_select(input, dim_key(dim, index))


@composite()
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """``length`` entries of dimension ``dim`` from ``start`` on.

    Args:
        start: an int, or a 0-d integer tensor; negative values count from the end.
    Returns:
        A view.
    Raises:
        RuntimeError: a 0-d tensor, or a range that does not fit.
    Source: torch.narrow.
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
        raise IndexError(f"Dimension out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start += size if start < 0 else 0
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return take_slice(input, dim_key(dim, slice(start, start + length)))


@method(name="narrow")
def narrow_method(input: Tensor, *args: Any, dimension: int | None = None, **kwargs: Any) -> Tensor:
    """See ``torch.narrow``; ``dimension`` is the old spelling of ``dim``."""
    return narrow(input, *args, **kwargs) if dimension is None else narrow(input, dimension, *args, **kwargs)


@composite()
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``narrow`` as a copy. Source: torch.narrow_copy."""
    return narrow(input, dim, start, length).clone(memory_format=contiguous_format)


# -- several views ------------------------------------------------------------------------------------------------------------
def _key_shape(shape: Any, key: Any) -> tuple[int, ...]:
    full = (*key[:-1], *(slice(None),) * (len(shape) - len(key) + 1))
    return tuple(len(range(*k.indices(n))) for n, k in zip(shape, full, strict=True) if isinstance(k, slice))


@op(name="_put_parts", method=False, node_name="SplitBackward0", grad={"parts": lambda grad, keys: [take_slice(grad, key) for key in keys]})
def put_parts(parts: Sequence[Tensor], shape: Sequence[int], keys: Any) -> Tensor:
    """A tensor of ``shape`` with each part at its basic index; the parts cover it."""
    whole = np.zeros(shape, parts[0].dtype)
    for part, key in zip(parts, keys, strict=True):
        whole[key] = part
    return whole


def _whole_gradient(grads: Any, input_shape: Any, keys: Any) -> Any:
    given = next(each for each in grads if each is not None)
    parts = [given.new_zeros(_key_shape(input_shape, k)) if g is None else g for g, k in zip(grads, keys, strict=True)]
    return put_parts(parts, input_shape, keys)


def _parts(name: str, node_name: str) -> Any:
    def take(input: Tensor, keys: Any) -> Any:
        """Several views of ``input``, one per basic index."""
        return [input[key] for key in keys]

    take.__name__ = name
    return op(
        name=name,
        method=False,
        view=True,
        multi_view=True,
        node_name=node_name,
        grad={"input": lambda grads, input_shape, keys: _whole_gradient(grads, input_shape, keys)},
    )(take)


take_split = _parts("_split", "SplitBackward0")
take_unbind = _parts("_unbind", "UnbindBackward0")


def _split_sizes(input: Any, sizes: Sequence[int], dim: int) -> Any:
    keys, start = [], 0
    for n in sizes:
        keys.append(dim_key(dim, slice(start, start + n)))
        start += n
    return take_split(input, keys)


@composite(method=False)
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of ``tensor`` along ``dim``.

    Args:
        split_size_or_sections: size of each piece (the last may be smaller), or the list of sizes.
    Returns:
        A tuple of views.
    Raises:
        RuntimeError: a negative size, or sizes that do not add up.
    Source: torch.split.
    """
    shape = tensor._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, len(shape))
    size = shape[dim]
    if isinstance(split_size_or_sections, (tuple, list)):
        sizes = [each.__index__() for each in split_size_or_sections]
        if min(sizes, default=0) < 0:
            raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}")
        if sum(sizes) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), but got "
                f"split_sizes={sizes}"
            )
        return _split_sizes(tensor, sizes, dim)
    piece = split_size_or_sections.__index__()
    if piece < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={piece}")
    if piece == 0:
        if size:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}")
        return _split_sizes(tensor, [0], dim)
    return _split_sizes(tensor, [min(piece, size - at) for at in range(0, size, piece)] or [0], dim)


@method(name="split")
def split_method(input: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """See ``torch.split``."""
    return split(input, split_size, dim)


@composite()
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of the given sizes along ``dim``; see ``torch.split``."""
    return split(input, list(split_sizes), dim)


@composite()
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal size along ``dim``; the last may be smaller.

    Returns:
        A tuple of views.
    Source: torch.chunk.
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


@composite()
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces along ``dim``: a number of nearly equal ones, or cut at the given indices.

    Returns:
        A tuple of views.
    Source: torch.tensor_split.
    """
    if isinstance(indices_or_sections, TensorType):
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
        return _split_sizes(input, [small + 1] * extra + [small] * (count - extra), dim)
    cuts = [slice(None, each).indices(size)[1] for each in indices_or_sections]
    keys = [dim_key(dim, slice(a, max(a, b))) for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    return tuple(take_slice(input, key) for key in keys)


def _axis_split(name: str, least: int, dim_of: Any) -> Any:
    def split_along(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        ndim = input._array.ndim
        if ndim < least:
            raise RuntimeError(f"torch.{name} requires a tensor with at least {least} dimension but got a tensor with {ndim} dimensions!")
        dim = dim_of(ndim)
        size = input._array.shape[dim]
        if isinstance(indices_or_sections, int) and (indices_or_sections <= 0 or size % indices_or_sections):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not divisible by the "
                f"split_size {indices_or_sections}!"
            )
        return tensor_split(input, indices_or_sections, dim)

    split_along.__name__ = name
    split_along.__doc__ = f"``tensor_split`` along the dimension that NumPy's ``{name}`` uses. Source: torch.{name}."
    return composite()(split_along)


hsplit = _axis_split("hsplit", 1, lambda ndim: 0 if ndim == 1 else 1)
vsplit = _axis_split("vsplit", 2, lambda ndim: 0)
dsplit = _axis_split("dsplit", 3, lambda ndim: 2)


@composite()
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices of ``input`` along ``dim``, which is removed.

    Returns:
        A tuple of views.
    Source: torch.unbind.
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
        storage_offset: from the storage's start; ``input``'s own when None.
    Raises:
        RuntimeError: negative strides, or a view that reaches past the storage.
    Source: torch.as_strided.
    """
    array = _strided_array(input, size, stride, storage_offset)
    made = make_view(array, input)
    if input._requires_grad and grad_enabled():
        point_at(made, input)
    return made


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
    if reach * itemsize > flat.nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, and itemsize {itemsize} requiring a storage "
            f"size of {reach * itemsize} are out of bounds for storage of size {flat.nbytes}"
        )
    return strided(flat, size, tuple(step * itemsize for step in stride), start * itemsize, input._array.dtype)


@method()
def as_strided_(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Give this tensor another size, strides and offset in its storage. Source: torch.Tensor.as_strided_."""
    if input._requires_grad and grad_enabled():
        raise NotImplementedError("as_strided_ on a tensor that requires grad is not supported yet; use as_strided")
    input._array = _strided_array(input, size, stride, storage_offset)
    storage_of(input)._bump()
    return input


def _prepare_unfold(input: Any, dimension: int, size: int, step: int) -> tuple[Any, ...]:
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
    prepare=_prepare_unfold,
    grad={"input": lambda grad, input_shape, dimension, size, step: unfold_gradient(grad, input_shape, dimension, size, step)},
)
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of ``size`` entries of a dimension, ``step`` apart, as a new last dimension.

    Returns:
        A view; windows may share elements.
    Source: torch.Tensor.unfold.
    """
    if not input.ndim:
        return np.lib.stride_tricks.as_strided(input, (size,), (input.itemsize,))
    length, unit = input.shape[dimension], input.strides[dimension]
    shape = (*input.shape[:dimension], (length - size) // step + 1, *input.shape[dimension + 1 :], size)
    strides = (*input.strides[:dimension], unit * step, *input.strides[dimension + 1 :], unit)
    return np.lib.stride_tricks.as_strided(input, shape, strides)


@op(name="_unfold_backward", method=False, grad={"input": lambda grad, dim, size, step: grad.unfold(dim, size, step)})
def unfold_gradient(input: Tensor, shape: Sequence[int], dim: int, size: int, step: int) -> Tensor:
    """Windows added back to the places they were taken from."""
    whole = np.zeros(shape, input.dtype)
    if not shape:
        return whole + input.sum()
    moved, windows = np.moveaxis(whole, dim, -1), np.moveaxis(input, dim, -2)
    for i in range(windows.shape[-2]):
        moved[..., i * step : i * step + size] += windows[..., i, :]
    return whole


def _prepare_diagonal(input: Any, offset: int, dim1: int, dim2: int) -> tuple[Any, ...]:
    ndim = input._array.ndim
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return input, offset, a, b


@view(
    prepare=_prepare_diagonal,
    grad={"input": lambda grad, input_shape, offset, dim1, dim2: diagonal_gradient(grad, input_shape, offset, dim1, dim2)},
)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions as a new last dimension.

    Args:
        offset: 0 for the main diagonal, positive above it, negative below.
    Returns:
        A view.
    Source: torch.diagonal.
    """
    shape, strides = input.shape, input.strides
    rows, columns = (shape[dim1], shape[dim2] - offset) if offset >= 0 else (shape[dim1] + offset, shape[dim2])
    length = max(min(rows, columns), 0)
    keep = [d for d in range(input.ndim) if d not in (dim1, dim2)]
    begin = [slice(None)] * input.ndim
    begin[dim2 if offset >= 0 else dim1] = slice(min(abs(offset), shape[dim2 if offset >= 0 else dim1]), None)
    return np.lib.stride_tricks.as_strided(
        input[tuple(begin)],
        (*(shape[d] for d in keep), length),
        (*(strides[d] for d in keep), strides[dim1] + strides[dim2]),
    )


@op(
    name="_diagonal_backward",
    method=False,
    node_name="DiagonalBackwardBackward0",
    grad={"input": lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2)},
)
def diagonal_gradient(input: Tensor, shape: Sequence[int], offset: int, dim1: int, dim2: int) -> Tensor:
    """Zeros of ``shape`` with ``input`` on the diagonal."""
    whole = np.zeros(shape, input.dtype)
    ndim = len(shape)
    primitive("diagonal").kernel(whole, offset, dim1 % ndim, dim2 % ndim)[...] = input
    return whole


# -- complex numbers as pairs ---------------------------------------------------------------------------------------------------
@view(grad={"input": lambda grad: view_as_complex(grad.contiguous())})
def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor as a real one with a last dimension of 2 (real and imaginary part).

    Raises:
        RuntimeError: a real tensor.
    Source: torch.view_as_real.
    """
    if input.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    real = input.real
    return np.lib.stride_tricks.as_strided(real, (*input.shape, 2), (*input.strides, real.itemsize))


@view(grad={"input": lambda grad: view_as_real(grad)})
def view_as_complex(input: Tensor) -> Tensor:
    """A real tensor with a last dimension of 2 as a complex one.

    Raises:
        RuntimeError: another last size, or strides that do not allow it.
    Source: torch.view_as_complex.
    """
    if input.dtype.kind != "f":
        raise RuntimeError(
            f"view_as_complex is only supported for floating point tensors, but got a tensor of scalar type: {dtypes.of_array(input)}"
        )
    if not input.ndim or input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    itemsize = input.itemsize
    if input.strides[-1] != itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(step % (2 * itemsize) for step in input.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    target = dtypes.of_array(input).to_complex()
    if target.numpy is None:
        raise NotImplementedError(f"view_as_complex: dtype {target} is not supported yet")
    return input.view(target.numpy)[..., 0]


@composite()
def atleast_1d(*tensors: Tensor) -> Any:
    """Each tensor with at least one dimension. Source: torch.atleast_1d."""
    return _at_least(tensors, lambda x: x.reshape(1) if not x._array.ndim else x)


@composite()
def atleast_2d(*tensors: Tensor) -> Any:
    """Each tensor with at least two dimensions. Source: torch.atleast_2d."""
    return _at_least(tensors, lambda x: x.reshape(1, 1) if not x._array.ndim else x.unsqueeze(0) if x._array.ndim == 1 else x)


@composite()
def atleast_3d(*tensors: Tensor) -> Any:
    """Each tensor with at least three dimensions. Source: torch.atleast_3d."""

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
        return tuple(lift(each) for each in only) if isinstance(only, (tuple, list)) else lift(only)
    return tuple(lift(each) for each in tensors)
