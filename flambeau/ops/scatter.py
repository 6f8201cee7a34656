"""Taking and putting elements along a dimension: ``gather``, ``scatter``, ``index_select``, ``index_add``, ``take`` and relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.copies import copied, copied_in_order, limits
from ..core.calls.annotations import Number, Tensor
from ..core.calls.casting import cast_array, checked_number, is_number
from ..core.calls.operation import PARTS
from ..core.calls.out import EXACT, EXACT_APART
from ..core.calls.registry import TABLES, composite, method, op
from ..core.shape import wrap_dim
from ..core.state import computed
from ..core.tensor import Tensor as TensorType, storage_of, wrap


# -- checks -----------------------------------------------------------------------------------------------------------------------
def _require_index(operation: str, index: Any, *, also_int32: bool = True) -> None:
    allowed = (dtypes.int64, dtypes.int32) if also_int32 else (dtypes.int64,)
    if index.dtype not in allowed:
        raise RuntimeError(f"{operation}(): Expected dtype int32/int64 for index")


def _require_range(operation: str, index: np.ndarray, size: int, dim: int, error: type[Exception] = RuntimeError) -> None:
    if not index.size:
        return
    low, high = limits(index)
    if low < 0 or high >= size:
        wrong = low if low < 0 else high
        raise error(f"index {wrong} is out of bounds for dimension {dim} with size {size}")


def _require_same(operation: str, input: Any, source: Any) -> None:
    if input.dtype is not source.dtype:
        raise RuntimeError(f"{operation}(): Expected self.dtype to be equal to src.dtype, but got {input.dtype} and {source.dtype}")


def _along(index: np.ndarray, dim: int) -> tuple[Any, ...]:
    """Index arrays that address, for every element of ``index``, its own place with ``index`` as the coordinate of ``dim``."""
    if not index.ndim:
        return (index.reshape(1),)
    ndim = index.ndim
    grids = [np.arange(n).reshape((1,) * i + (n,) + (1,) * (ndim - i - 1)) for i, n in enumerate(index.shape)]
    grids[dim] = index
    return tuple(grids)


def _check_gather(operation: str, input: Any, dim: int, index: Any, limit: Any, except_dim: bool) -> int:
    """Raise unless ``index`` fits inside ``input`` (in all dimensions but ``dim``) and ``limit``; the wrapped dim."""
    a, i = input._array, index._array
    dim = wrap_dim(dim, a.ndim)
    if not i.size:
        return dim
    _require_index(operation, index)
    if max(i.ndim, 1) != max(a.ndim, 1):
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {'input' if operation == 'gather' else 'self'} tensor")
    if limit is not None and max(i.ndim, 1) != max(limit._array.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    for d in range(i.ndim):
        if d != dim and a.ndim and i.shape[d] > a.shape[d]:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(i.shape)} to be no larger than self {list(a.shape)} apart from "
                f"dimension {dim}"
            )
        if limit is not None and limit._array.ndim and i.shape[d] > limit._array.shape[d]:
            raise RuntimeError(
                f"Expected index {list(i.shape)} to be no larger than self {list(a.shape)} apart from dimension {dim} and to be no larger "
                f"than src {list(limit._array.shape)}"
            )
    if operation not in _CHECKED_LATE:
        _require_range(operation, i, a.shape[dim] if a.ndim else 1, dim)
    return dim


_CHECKED_LATE = ("gather", "scatter_add")  # their native kernels check each index where they use it, the reference kernels all at first


def _check_late(operation: str, input: np.ndarray, dim: int, index: np.ndarray) -> None:
    _require_range(operation, index, input.shape[dim] if input.ndim else 1, dim)


# -- gather and scatter -------------------------------------------------------------------------------------------------------------
def _sparse_gradient(grad: Any, shape: tuple[int, ...], dim: int, index: Any) -> Any:
    """The gradient of ``gather`` as a COO tensor, one entry for each index."""
    from .sparse.construction import coo_tensor

    places = np.indices(index._array.shape).reshape(index._array.ndim, -1)
    if places.shape[0]:
        places[dim] = index._array.reshape(-1)
    return coo_tensor(wrap(places), grad.reshape(-1), shape, False)


@op(
    work="index.size",
    out=EXACT_APART,
    canonicalize=lambda input, dim, index, *rest: (input, _check_gather("gather", input, dim, index, None, True), index, *rest),
    grad={
        "input": lambda grad, input_shape, dim, index, sparse_grad: (
            _sparse_gradient(grad, input_shape, dim, index) if sparse_grad else scattered_sums(grad, dim, index, input_shape)
        )
    },
    forward="linear",
)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """``out[i][j] = input[index[i][j]][j]`` for ``dim=0``, and so on for the other dimensions.

    Args:
        input: any shape and dtype.
        dim: the dimension that the indices count along.
        index: int64 or int32 (any dtype where it is empty), as many dimensions as ``input``, nowhere larger except along ``dim``.
        sparse_grad: give ``input``'s gradient as a COO tensor.
    Returns:
        ``index``'s shape, ``input``'s dtype.
    Raises:
        RuntimeError: an index out of range, or shapes that do not fit.
        IndexError: ``dim`` out of range.
    Gradient: ``grad`` added at the indices.
    Source: torch.gather.
    Example:
        >>> x = torch.tensor([[10, 20, 30], [40, 50, 60]])
        >>> torch.gather(x, 1, torch.tensor([[2, 0], [1, 1]]))
        tensor([[30, 10],
                [50, 50]])
    """
    if not index.size:
        return np.empty(index.shape, input.dtype)
    _check_late("gather", input, dim, index)
    if not input.ndim:
        return np.full(index.shape, input)
    return np.asarray(input[_along(index, dim)], order="C").reshape(index.shape)


@composite(out=EXACT)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """``gather`` with broadcasting; over the flattened tensor when ``dim`` is None.

    Args:
        input: any shape and dtype.
        indices: int64, as many dimensions as ``input`` where there is a ``dim``, along which they count modulo its size.
        dim: the dimension that they count along; the flattened tensor when None.
    Returns:
        Both shapes broadcast, with ``indices``' size along ``dim``; 1-d without ``dim``. ``input``'s dtype.
    Raises:
        RuntimeError: another dtype or number of dimensions, or an index out of range without ``dim``.
        IndexError: ``dim`` out of range.
    Source: torch.take_along_dim.
    Example:
        >>> x = torch.tensor([[30, 10, 20], [5, 7, 6]])
        >>> torch.take_along_dim(x, x.argsort(dim=1), dim=1)
        tensor([[10, 20, 30],
                [ 5,  6,  7]])
    """
    if indices.dtype is not dtypes.int64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.legacy}")
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    if input._array.ndim != indices._array.ndim:
        raise RuntimeError(
            f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {input._array.ndim} dimensions "
            f"for input, and {indices._array.ndim} dimensions for indices"
        )
    dim = wrap_dim(dim, input._array.ndim)
    shape, other = list(input._array.shape), list(indices._array.shape)
    common = [a if b == 1 else b for a, b in zip(shape, other, strict=True)]
    input_shape, index_shape = list(common), list(common)
    input_shape[dim], index_shape[dim] = shape[dim], other[dim]
    if shape[dim]:
        indices = indices.remainder(shape[dim])
    return input.broadcast_to(input_shape).gather(dim, indices.broadcast_to(index_shape))


def _canonicalize_scatter(name: str) -> Any:
    def canonicalize(input: Any, dim: int, index: Any, src: Any, *rest: Any) -> tuple[Any, ...]:
        tensor = isinstance(src, TensorType)
        if tensor:
            _require_same(name, input, src)
        dim = _check_gather(name, input, dim, index, src if tensor else None, False)
        return (input, dim, index, src, *rest)

    return canonicalize


def _source_part(src: np.ndarray, index: np.ndarray) -> np.ndarray:
    return src[tuple(slice(n) for n in index.shape)] if src.ndim else src


@op(
    name="_scattered_sums",
    work="prod(shape)",
    opmath="native",
    grad={"src": lambda grad, dim, index: grad.gather(dim, index)},
    forward="linear",
)
def scattered_sums(src: Tensor, dim: int, index: Tensor, shape: Any) -> Tensor:
    """Zeros of ``shape`` with ``src`` added at ``index`` along ``dim``: what ``gather`` and its kin have as derivative."""
    result = np.zeros(tuple(shape), src.dtype)
    if index.size:
        target = result if result.ndim else result.reshape(1)
        np.add.at(target, _along(index, wrap_dim(dim, len(shape))), src.reshape(index.shape or (1,)))
    return result


def placed(part: Any, shape: Any) -> Any:
    """``part`` at the front corner of zeros of ``shape``; nothing for a source that was a number."""
    if tuple(part._array.shape) == tuple(shape):
        return part
    from .parts import scatter_part

    return scatter_part(part, tuple(shape), (*(slice(n) for n in part._array.shape), ...))


@op(
    name="_scatter",
    inplace=True,
    canonicalize=_canonicalize_scatter("scatter"),
    node_name="ScatterBackward0",
    out=True,
    grad={
        "input": lambda grad, dim, index: grad.scatter(dim, index, 0),
        "src": lambda grad, dim, index, src_shape: placed(grad.gather(dim, index), src_shape),
    },
    aten="scatter.src scatter.value",
    forward="linear",
)
def scatter_values(input: Tensor, dim: int, index: Tensor, src: Tensor | Number) -> Tensor:
    """``input`` with ``src`` written at ``index`` along ``dim``."""
    result = copied(input)
    if index.size:
        if not isinstance(src, np.ndarray):
            src = checked_number(src, dtypes.of_array(input))
        target = result.reshape(1) if not result.ndim else result
        values = _source_part(src, index)
        target[_along(index, dim)] = values.reshape(index.shape or (1,)) if values.ndim or not index.ndim else values
    return result


@op(
    work="index.size",
    canonicalize=_canonicalize_scatter("scatter_add"),
    inplace=True,
    grad={
        "input": lambda grad: grad,
        "src": lambda grad, dim, index, src_shape: placed(grad.gather(dim, index), src_shape),
    },
    autocast={"cuda": "widest"},
    forward="linear",
)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``input`` with ``src`` added at ``index`` along ``dim``; repeated positions add up.

    Args:
        input: any shape and dtype.
        dim: the dimension that the indices count along.
        index: int64 or int32, nowhere larger than ``src``, nor than ``input`` except along ``dim``.
        src: of ``input``'s dtype.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        RuntimeError: an index out of range, shapes that do not fit, or another dtype.
        IndexError: ``dim`` out of range.
    Gradient: ``grad``; to ``src`` its elements at the indices.
    Source: torch.scatter_add.
    Example:
        >>> torch.zeros(3).scatter_add(0, torch.tensor([0, 2, 2]), torch.tensor([1.0, 10.0, 100.0]))
        tensor([  1.,   0., 110.])
    """
    _check_late("scatter_add", input, dim, index)
    result = copied(input)
    if index.size:
        target = result.reshape(1) if not result.ndim else result
        np.add.at(target, _along(index, dim), _source_part(src, index).reshape(index.shape or (1,)))
    return result


_REDUCE = {"add": "sum", "multiply": "prod"}


def _scattered(input: Any, dim: int, index: Any, src: Any, reduce: str | None, inplace: bool) -> Any:
    if src is None:
        raise TypeError("scatter(): expected 'src' or 'value'")
    if reduce is None:
        return input._scatter_(dim, index, src) if inplace else scatter_values(input, dim, index, src)
    if reduce not in _REDUCE:
        raise RuntimeError("reduce argument must be either add or multiply.")
    if is_number(src):
        src = wrap(np.full(index._array.shape, checked_number(src, input.dtype)))
    if inplace:
        return input._scatter_reduce_(dim, index, src, _REDUCE[reduce], True)
    return scatter_reduce_values(input, dim, index, src, _REDUCE[reduce], True)


@composite(out=True)
def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """``input`` with ``src`` written at ``index`` along ``dim``: ``out[index[i][j]][j] = src[i][j]`` for ``dim=0``.

    Args:
        input: any shape and dtype.
        dim: the dimension that the indices count along.
        index: int64 or int32, nowhere larger than ``src``, nor than ``input`` except along ``dim``.
        src: a tensor of ``input``'s dtype, or a number.
        value: another name for a number ``src``.
        reduce: 'add' or 'multiply' combines instead of overwriting.
    Returns:
        ``input``'s shape and dtype; a new tensor. Of repeated indices any one counts.
    Raises:
        RuntimeError: an index out of range, shapes that do not fit, another dtype, or another ``reduce``.
        TypeError: neither ``src`` nor ``value``.
        IndexError: ``dim`` out of range.
    Gradient: ``grad``, 0 at the indices; to ``src`` its elements there.
    Source: torch.scatter.
    Example:
        >>> torch.zeros(2, 3).scatter(1, torch.tensor([[2], [0]]), 1.0)  # one-hot rows
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
    return _scattered(input, dim, index, value if src is None else src, reduce, inplace=False)


@method()
def scatter_(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
    """Write ``src`` at ``index`` along ``dim``, in place; see :func:`torch.scatter`.

    Args:
        dim: the dimension that the indices count along.
        index: int64 or int32, nowhere larger than ``src``, nor than the tensor except along ``dim``.
        src, value, reduce: as for ``torch.scatter``.
    Returns:
        The tensor itself, of its shape and dtype.
    Raises:
        RuntimeError: an index out of range, shapes that do not fit, another dtype, or another ``reduce``.
        TypeError: neither ``src`` nor ``value``.
    Source: torch.Tensor.scatter_.
    Example:
        >>> torch.ones(4).scatter_(0, torch.tensor([1, 3]), 5.0, reduce="add")
        tensor([1., 6., 1., 6.])
    """
    return _scattered(input, dim, index, value if src is None else src, reduce, inplace=True)


_IDENTITY = {"sum": 0, "mean": 0, "prod": 1, "amax": "low", "amin": "high"}
_OTHER_REDUCE = {"max": "amax", "min": "amin"}  # undocumented names that PyTorch takes too
_COMBINE = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _identity(reduce: str, dtype: np.dtype) -> Any:
    value = _IDENTITY[reduce]
    if value not in ("low", "high"):
        return value
    if dtype.kind == "b":
        return value == "high"
    if dtypes.of_array(np.empty(0, dtype)).is_floating_point:
        return np.inf if value == "high" else -np.inf
    return np.iinfo(dtype).max if value == "high" else np.iinfo(dtype).min


def _canonicalize_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> tuple[Any, ...]:
    reduce = _OTHER_REDUCE.get(reduce, reduce)
    if reduce not in _COMBINE:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    _require_same("scatter", input, src)
    return input, _check_gather("scatter_reduce", input, dim, index, src, False), index, src, reduce, include_self


def reduce_at(target: np.ndarray, places: Any, values: np.ndarray, reduce: str, include_self: bool) -> None:
    """Combine ``values`` into ``made[places]``; repeated places combine with each other too."""
    if not include_self:
        target[places] = _identity(reduce, target.dtype)
    _COMBINE[reduce].at(target, places, values)
    if reduce == "mean":
        counts = np.zeros(target.shape, np.int64) if not include_self else np.ones(target.shape, np.int64)
        np.add.at(counts, places, 1)
        counts = np.maximum(counts, 1)
        target[...] = target // counts if target.dtype.kind in "biu" else target / counts.astype(target.dtype)


def _reduce_gradients(
    grad: Any, input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, result: Any
) -> tuple[Any, Any]:
    """Gradients of ``scatter_reduce``: the share that the old value and each source element have in the result."""

    def back(x: Any) -> Any:
        return placed(x.gather(dim, index), src.shape)

    if reduce == "sum":
        grad_input, grad_src = grad, back(grad)
    elif reduce == "mean":
        counts = grad.new_ones(grad.shape) if include_self else grad.new_zeros(grad.shape)
        counts = counts.scatter_add(dim, index, grad.new_ones(src.shape)).clamp(min=1)
        grad_input, grad_src = grad / counts, back(grad / counts)
    elif reduce == "prod":
        grad_input, grad_src = _product_gradients(grad, input, dim, index, src, include_self, result)
    else:
        held = (input == result).to(grad.dtype)
        held = held if include_self else held.scatter(dim, index, 0)
        taken = placed((src_part(src, index) == result.gather(dim, index)).to(grad.dtype), src.shape)
        count = held.scatter_add(dim, index, taken)
        even = grad / count.clamp(min=1)
        grad_input, grad_src = held * even, taken * back(even)
    if not include_self:
        grad_input = grad_input.scatter(dim, index, 0)
    return grad_input, grad_src


def src_part(src: Any, index: Any) -> Any:
    return src[tuple(slice(n) for n in index._array.shape)] if src._array.shape != index._array.shape else src


def _product_gradients(grad: Any, input: Any, dim: int, index: Any, src: Any, include_self: bool, result: Any) -> tuple[Any, Any]:
    part = src_part(src, index)
    masked = input.masked_fill(input == 0, 1)
    others = masked.scatter_reduce(dim, index, src, "prod", include_self=include_self)
    grad_input = grad * others / masked
    zeros = (part == 0).to(grad.dtype)
    count = grad.new_zeros(grad.shape).scatter_add(dim, index, placed(zeros, src.shape)).gather(dim, index)
    filled = part.masked_fill(part == 0, 1)
    without_zero = input.scatter_reduce(dim, index, placed(filled, src.shape), "prod", include_self=include_self)
    single = (grad * without_zero).gather(dim, index)
    plain = (grad * result).gather(dim, index) / filled
    zero = grad.new_zeros(())
    share = single.where((part == 0) & (count == 1), zero.where(part == 0, plain))
    return grad_input, placed(share, src.shape)


@op(
    name="_scatter_reduce",
    inplace=True,
    work="src.size",
    canonicalize=_canonicalize_reduce,
    node_name="ScatterReduceBackward0",
    out=True,
    grad={"input, src": _reduce_gradients},
    aten="scatter_reduce.two",
)
def scatter_reduce_values(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    combined = input.copy()
    if index.size:
        target = combined.reshape(1) if not combined.ndim else combined
        reduce_at(target, _along(index, dim), _source_part(src, index).reshape(index.shape or (1,)), reduce, include_self)
    return combined


@composite(out=True)
def scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """``input`` with ``src`` combined at ``index`` along ``dim``; repeated positions combine with each other too.

    Args:
        input: any shape and dtype.
        dim: the dimension that the indices count along.
        index: int64 or int32, nowhere larger than ``src``, nor than ``input`` except along ``dim``.
        src: of ``input``'s dtype.
        reduce: 'sum', 'prod', 'mean', 'amax' or 'amin'.
        include_self: whether the old values take part.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        RuntimeError: an index out of range, shapes that do not fit, another dtype, or another ``reduce``.
        IndexError: ``dim`` out of range.
    Source: torch.scatter_reduce.
    Example:
        >>> x, index, src = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([0, 0, 2]), torch.tensor([3.0, 5.0, 7.0])
        >>> x.scatter_reduce(0, index, src, "mean"), x.scatter_reduce(0, index, src, "mean", include_self=False)
        (tensor([3., 1., 4.]), tensor([4., 1., 7.]))
    """
    return scatter_reduce_values(input, dim, index, src, reduce, include_self)


@method()
def scatter_reduce_(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Combine ``src`` at ``index`` along ``dim``, in place; see :func:`torch.scatter_reduce`.

    Args:
        dim: the dimension that the indices count along.
        index: int64 or int32, nowhere larger than ``src``, nor than the tensor except along ``dim``.
        src, reduce, include_self: as for ``torch.scatter_reduce``.
    Returns:
        The tensor itself, of its shape and dtype.
    Raises:
        RuntimeError: an index out of range, shapes that do not fit, another dtype, or another ``reduce``.
    Source: torch.Tensor.scatter_reduce_.
    Example:
        >>> torch.zeros(2).scatter_reduce_(0, torch.tensor([1, 1]), torch.tensor([3.0, 5.0]), "amax")
        tensor([0., 5.])
    """
    return input._scatter_reduce_(dim, index, src, reduce, include_self)


# -- rows ---------------------------------------------------------------------------------------------------------------------------
def _row_key(dim: int, index: np.ndarray, ndim: int) -> Any:
    return (slice(None),) * dim + (index.reshape(-1),) if ndim else ...


def _canonicalize_rows(name: str) -> Any:
    def canonicalize(input: Any, dim: int, index: Any, *rest: Any) -> tuple[Any, ...]:
        if name == "index_copy" and index.dtype is not dtypes.int64:
            raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {index.dtype.legacy}")
        if name == "index_fill" and index.dtype is not dtypes.int64:
            raise IndexError("index_fill_(): Expected dtype int64 for index.")
        _require_index(name, index)
        array = input._array
        dim = wrap_dim(dim, array.ndim)
        if index._array.ndim > 1:
            raise IndexError(f"{name}(): Index is supposed to be a vector")
        size = array.shape[dim] if array.ndim else 1
        if name == "index_fill" and index._array.size and -size <= limits(index._array)[0] < 0:  # it alone counts from the end
            index = wrap(computed(lambda array: np.where(array < 0, array + size, array), index._array))
        of_nothing = name == "index_select" and array.ndim > 1 and not array.size
        _require_range(name, index._array, size, dim, RuntimeError if of_nothing else IndexError)
        if rest and isinstance(rest[0], TensorType):
            source = rest[0]
            if name in ("index_add", "index_reduce", "index_copy"):
                if source.dtype is not input.dtype:
                    raise RuntimeError(
                        f"{name}(): self and source expected to have the same dtype, but got (self) {input.dtype.legacy} and "
                        f"(source) {source.dtype.legacy}"
                    )
                _check_source(name, array.shape, dim, index._array.size, source._array.shape)
        return (input, dim, index, *rest)

    return canonicalize


def _check_source(name: str, shape: tuple[int, ...], dim: int, count: int, have: tuple[int, ...]) -> None:
    if not have and count != 1:
        raise IndexError(f"{name}(): a source without dimensions goes with one index, and {count} came")
    if len(have) != len(shape):
        if name != "index_copy":
            raise RuntimeError(
                "source tensor shape must match self tensor shape, excluding the specified dimension. "
                f"Got self.shape = {list(shape)} source.shape = {list(have)}"
            )
        if have and shape:
            raise IndexError(
                f"{name}(): when source and destination are no scalars, their numbers of dimensions must be the same, got {len(have)} and "
                f"{len(shape)}"
            )
    if (*shape[:dim], *shape[dim + 1 :]) != (*have[:dim], *have[dim + 1 :]):
        raise RuntimeError(
            f"{name}(): Source/destination tensor must have same slice shapes except at dimension {dim}: expected source of shape "
            f"{[*shape[:dim], count, *shape[dim + 1 :]]} for {count} indices into {list(shape)}, got {list(have)}"
        )
    if have and have[dim] != count:
        error = IndexError if name == "index_copy" else RuntimeError
        raise error(f"{name}(): Number of indices ({count}) should be equal to source.size(dim) ({have[dim]}) at dim {dim}")


def _select_gradient(grad: Any, input_shape: Any, dim: int, index: Any) -> Any:
    if input_shape and index._array.ndim:  # as of ``input[..., index]``, without a zeroed tensor that is copied once more
        return TABLES["torch"]["_index_backward"](grad, input_shape, [None] * dim + [index._array])
    return grad.new_zeros(input_shape).index_add(dim, index, grad)


def _selected_size(input: np.ndarray, dim: int, index: np.ndarray) -> int:
    """Number of elements in the entries of ``dim`` at some positions."""
    return index.size * (input.size // max(input.shape[dim], 1) if input.ndim else 1)


@op(
    work="_selected_size(input, dim, index)",
    out=EXACT_APART,
    canonicalize=_canonicalize_rows("index_select"),
    grad={"input": _select_gradient},
    forward="linear",
    moves=True,
)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The entries of dimension ``dim`` at the positions ``index``; a copy.

    Args:
        input: any shape and dtype.
        dim: the dimension.
        index: 1-d, int64 or int32, not negative.
    Returns:
        ``input``'s shape with ``index``'s size along ``dim``; a copy.
    Raises:
        IndexError: a position or ``dim`` out of range, or an index that is no vector.
        RuntimeError: an index of another dtype, or a position out of range in an empty ``input`` of two dimensions or more.
    Gradient: ``grad`` added at the positions.
    Source: torch.index_select.
    Example:
        >>> torch.index_select(torch.tensor([[1, 2, 3], [4, 5, 6]]), 1, torch.tensor([2, 0, 2]))
        tensor([[3, 1, 3],
                [6, 4, 6]])
    """
    if not input.ndim:
        return np.array(input)
    return input.take(index.reshape(-1), axis=dim)


@op(
    name="_index_add",
    inplace=True,
    work="source.size",
    canonicalize=_canonicalize_rows("index_add"),
    node_name="IndexAddBackward0",
    out=True,
    grad={
        "input": lambda grad: grad,
        "source": lambda grad, dim, index, alpha, source_shape: _row_gradient(grad, dim, index, source_shape, alpha),
    },
    aten="index_add",
    forward="linear",
    meta=lambda new, input, *rest: new(input.shape, input.dtype),
)
def index_add_rows(input: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Number) -> Tensor:
    result = copied(input)
    if alpha != 1:
        source = source * np.asarray(alpha).astype(source.dtype)
    target, places = (result.reshape(1), index.reshape(-1)) if not result.ndim else (result, _row_key(dim, index, result.ndim))
    rows = index.reshape(-1)
    if rows.size and np.unique(rows).size == rows.size:
        target[places] += source
    else:
        np.add.at(target, places, source)
    return result


def _row_gradient(grad: Any, dim: int, index: Any, source_shape: Any, alpha: Any = 1) -> Any:
    gradient = grad.index_select(dim, index) if grad._array.ndim else grad.expand(source_shape)
    gradient = gradient if tuple(gradient._array.shape) == tuple(source_shape) else gradient.reshape(source_shape)
    return gradient if alpha == 1 else gradient * alpha


@composite(out=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """``input`` with ``alpha`` times the entries of ``source`` added at the positions ``index`` of ``dim``; repeated ones add up.

    Args:
        input: any shape and dtype.
        dim: the dimension.
        index: 1-d, int64 or int32, not negative.
        source: ``input``'s dtype, and its shape with ``index``'s size along ``dim``.
        alpha: a factor of ``source``.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        IndexError: a position or ``dim`` out of range, or an index that is no vector.
        RuntimeError: another dtype, or a source that does not fit.
    Gradient: ``grad``; to ``source`` its entries at the positions times ``alpha``.
    Source: torch.index_add.
    Example:
        >>> torch.zeros(3).index_add(0, torch.tensor([0, 2, 0]), torch.tensor([1.0, 2.0, 3.0]), alpha=10)
        tensor([40.,  0., 20.])
    """
    return index_add_rows(input, dim, index, source, alpha)


@method()
def index_add_(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """Add the entries of ``source`` at the positions ``index`` of ``dim``, in place; see :func:`torch.index_add`.

    Args:
        dim: the dimension.
        index: 1-d, int64 or int32, not negative.
        source: the tensor's dtype, and its shape with ``index``'s size along ``dim``.
        alpha: a factor of ``source``.
    Returns:
        The tensor itself.
    Raises:
        IndexError: a position or ``dim`` out of range, or an index that is no vector.
        RuntimeError: another dtype, or a source that does not fit.
    Source: torch.Tensor.index_add_.
    Example:
        >>> torch.zeros(2, 2).index_add_(0, torch.tensor([1]), torch.tensor([[3.0, 4.0]]))
        tensor([[0., 0.],
                [3., 4.]])
    """
    return input._index_add_(dim, index, source, alpha)


@op(
    inplace=True,
    canonicalize=_canonicalize_rows("index_copy"),
    grad={
        "input": lambda grad, dim, index: grad.index_fill(dim, index, 0),
        "source": lambda grad, dim, index, source_shape: _row_gradient(grad, dim, index, source_shape),
    },
    autocast={"cpu": "widest"},
    forward="linear",
)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``input`` with the entries of ``source`` at the positions ``index`` of ``dim``.

    Args:
        input: any shape and dtype.
        dim: the dimension.
        index: 1-d, int64, not negative.
        source: ``input``'s dtype, and its shape with ``index``'s size along ``dim``.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        IndexError: a position or ``dim`` out of range, or as many positions as ``source`` has not entries.
        RuntimeError: another dtype, or a source of another shape.
    Gradient: ``grad``, 0 at the positions; to ``source`` its entries there.
    Source: torch.index_copy.
    Example:
        >>> torch.zeros(3).index_copy(0, torch.tensor([2, 0]), torch.tensor([5.0, 6.0]))
        tensor([6., 0., 5.])
    """
    result = copied(input)
    if not result.ndim:
        result[...] = source.reshape(-1)[-1]
    else:
        result[_row_key(dim, index, result.ndim)] = source
    return result


def _canonicalize_index_fill(input: Any, dim: int, index: Any, value: Any) -> tuple[Any, ...]:
    if isinstance(value, TensorType) and value._array.ndim:
        raise RuntimeError(f"Only supports 0-dimension value tensor but got tensor with {value._array.ndim} dimensions.")
    if isinstance(value, TensorType) and value.dtype is not input.dtype and value._array.__class__ is np.ndarray:
        if value.dtype.is_complex and not input.dtype.is_complex:
            raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
        checked_number(value._array.item(), input.dtype)
    return _canonicalize_rows("index_fill")(input, dim, index, value)


@op(
    inplace=True,
    may_overlap=PARTS,
    canonicalize=_canonicalize_index_fill,
    grad={
        "input": lambda grad, dim, index: grad.index_fill(dim, index, 0),
        "value": lambda grad, dim, index: (grad if grad._array.ndim else grad.reshape(1)).index_select(dim, index.unique()).sum(),
    },
)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """``input`` with ``value`` at the positions ``index`` of ``dim``.

    Args:
        input: any shape and dtype.
        dim: the dimension.
        index: 1-d, int64; negative ones count from the end.
        value: a number or a 0-d tensor.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        IndexError: a position or ``dim`` out of range, or an index of another dtype.
        RuntimeError: a ``value`` that has dimensions, or that the dtype cannot hold.
    Gradient: ``grad``, 0 at the positions; to ``value`` the sum of its elements there.
    Source: torch.Tensor.index_fill.
    Example:
        >>> torch.ones(2, 3).index_fill(1, torch.tensor([0, -1]), 7)
        tensor([[7., 1., 7.],
                [7., 1., 7.]])
    """
    result = copied_in_order(input)
    dtype = dtypes.of_array(input)
    value = cast_array(value, dtype) if isinstance(value, np.ndarray) else checked_number(value, dtype)
    if index.size:  # a 0-d tensor is filled as a whole
        result[_row_key(dim, index, result.ndim)] = value
    return result


def _index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    _canonicalize_rows("index_reduce")(input, dim, index, source)
    if not input._array.ndim:
        return scatter_reduce_values(input.reshape(1), 0, index.reshape(-1), source.reshape(-1), reduce, include_self).reshape(())
    return index_reduce_rows(input, wrap_dim(dim, input._array.ndim), index.reshape(-1), source, reduce, include_self)


def _spread_index(index: Any, dim: int, shape: Any) -> Any:
    """A vector of positions of ``dim`` as the index of ``scatter``."""
    return index.view([-1 if d == dim else 1 for d in range(len(shape))]).expand(shape)


@op(
    name="_index_reduce",
    work="source.size",
    node_name="IndexReduceBackward0",
    grad={
        "input, source": lambda grad, input, dim, index, source, reduce, include_self, result: _reduce_gradients(
            grad, input, dim, _spread_index(index, dim, source.shape), source, reduce, include_self, result
        )
    },
    aten="index_reduce",
)
def index_reduce_rows(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    combined = input.copy()
    if index.size:
        reduce_at(combined, _row_key(dim, index, combined.ndim), source, reduce, include_self)
    return combined


@composite(out=True)
def index_reduce(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """``input`` with the entries of ``source`` combined at the positions ``index`` of ``dim``.

    Args:
        input: any shape and dtype.
        dim: the dimension.
        index: 1-d, int64 or int32, not negative.
        source: ``input``'s dtype, and its shape with ``index``'s size along ``dim``.
        reduce: 'prod', 'mean', 'amax' or 'amin'.
        include_self: whether the old values take part.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        IndexError: a position or ``dim`` out of range, or an index that is no vector.
        RuntimeError: another ``reduce`` or dtype, or a source that does not fit.
    Source: torch.index_reduce.
    Example:
        >>> torch.full((2,), 4.0).index_reduce(0, torch.tensor([1, 1]), torch.tensor([2.0, 3.0]), "prod")
        tensor([ 4., 24.])
    """
    return _index_reduce(input, dim, index, source, reduce, include_self)


@method()
def index_reduce_(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Combine the entries of ``source`` at the positions ``index`` of ``dim``, in place; see :func:`torch.index_reduce`.

    Args:
        dim: the dimension.
        index: 1-d, int64 or int32, not negative.
        source: the tensor's dtype, and its shape with ``index``'s size along ``dim``.
        reduce, include_self: as for ``torch.index_reduce``.
    Returns:
        The tensor itself.
    Raises:
        IndexError: a position or ``dim`` out of range, or an index that is no vector.
        RuntimeError: another ``reduce`` or dtype, or a source that does not fit.
    Source: torch.Tensor.index_reduce_.
    Example:
        >>> torch.zeros(2).index_reduce_(0, torch.tensor([1, 1]), torch.tensor([2.0, 3.0]), "amin", include_self=False)
        tensor([0., 2.])
    """
    return input.copy_(_index_reduce(input, dim, index, source, reduce, include_self))


# -- the tensor as one row ------------------------------------------------------------------------------------------------------------
def _canonicalize_take(input: Any, index: Any, *rest: Any) -> tuple[Any, ...]:
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.legacy}")
    count, i = input._array.size, index._array
    if i.size and not count:
        raise IndexError("take(): tried to take from an empty tensor")
    if i.size:
        low, high = limits(i)
        if low < -count or high >= count:
            raise IndexError(f"out of range: tried to access index {high if high >= count else low} on a tensor of {count} elements.")
    return (input, index, *rest)


@op(
    work="index.size",
    out=EXACT_APART,
    canonicalize=_canonicalize_take,
    grad={"input": lambda grad, input_shape, index: grad.new_zeros(input_shape).put(index, grad, accumulate=True)},
    forward="linear",
)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at positions ``index`` of the flattened tensor.

    Args:
        input: any shape and dtype.
        index: int64, any shape; negative values count from the end.
    Returns:
        ``index``'s shape, ``input``'s dtype.
    Raises:
        IndexError: an index out of range.
        RuntimeError: an index of another dtype.
    Gradient: ``grad`` added at the positions.
    Source: torch.take.
    Example:
        >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[0, 3], [-2, 0]]))
        tensor([[1, 4],
                [3, 1]])
    """
    return input.reshape(-1).take(index)


def _canonicalize_put_flat(input: Any, index: Any, source: Any, accumulate: bool) -> tuple[Any, ...]:
    _canonicalize_take(input, index)
    _require_same("put_", input, source)
    if index._array.size != source._array.size:
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = {source._array.size}, "
            f"index.numel() = {index._array.size}"
        )
    return input, index, source, accumulate


@op(
    inplace=True,
    canonicalize=_canonicalize_put_flat,
    grad={
        "input": lambda grad, index, accumulate: grad if accumulate else grad.put(index, grad.new_zeros(index.shape)),
        "source": lambda grad, index, source_shape: grad.take(index).reshape(source_shape),
    },
    forward="linear",
)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """``input`` with ``source`` at positions ``index`` of the flattened tensor.

    Args:
        input: any shape and dtype.
        index: int64, any shape; negative values count from the end.
        source: as many elements as ``index`` has, ``input``'s dtype.
        accumulate: add, so that repeated positions add up, instead of overwrite.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        IndexError: an index out of range, or another number of elements in ``source``.
        RuntimeError: another dtype.
    Gradient: ``grad``, 0 where overwritten; to ``source`` its elements at the positions.
    Source: torch.put.
    Example:
        >>> torch.zeros(2, 2).put(torch.tensor([1, 1]), torch.tensor([5.0, 6.0]), accumulate=True)
        tensor([[ 0., 11.],
                [ 0.,  0.]])
    """
    result = np.array(input, order="C")
    flat = result.reshape(-1)
    if accumulate:
        np.add.at(flat, index.reshape(-1), source.reshape(-1))
    else:
        flat[index.reshape(-1)] = source.reshape(-1)
    return result


# -- parts written into copies ----------------------------------------------------------------------------------------------------------
def _clone_with_strides(input: Any) -> Any:
    """A copy with ``input``'s strides and offset, in a copy of its whole storage where it does not fill it."""
    array = input._array
    count = storage_of(input).nbytes() // array.itemsize
    if (array.flags.c_contiguous and array.size == count) or any(
        n > 1 and not step for n, step in zip(array.shape, array.strides, strict=True)
    ):
        return input.clone()
    return input.as_strided((count,), (1,), 0).clone().as_strided(array.shape, input.stride(), input.storage_offset())


def _with_part(input: Any, src: Any, part: Any) -> Any:
    """A copy of ``input`` with ``src`` written into the view ``part(copy)``."""
    copy = _clone_with_strides(input)
    shown = part(copy)
    if tuple(shown._array.shape) != tuple(src._array.shape):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src._array.shape)}, slice size = "
            f"{list(shown._array.shape)}"
        )
    shown.copy_(src)
    return copy


@composite()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of ``input`` with ``src`` at ``select(dim, index)``.

    Args:
        input: at least one dimension.
        src: ``input``'s shape without ``dim``.
        dim, index: the slice.
    Returns:
        ``input``'s shape, dtype and strides.
    Raises:
        IndexError: ``dim`` or ``index`` out of range.
        RuntimeError: ``src`` of another shape.
    Source: torch.select_scatter.
    Example:
        >>> torch.select_scatter(torch.zeros(2, 3), torch.ones(2), 1, 0)
        tensor([[1., 0., 0.],
                [1., 0., 0.]])
    """
    return _with_part(input, src, lambda x: x.select(dim, index))


@composite(out=True)
def slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """A copy of ``input`` with ``src`` at a slice of ``dim``.

    Args:
        input: at least one dimension.
        src: the slice's shape.
        dim: the dimension.
        start, end, step: as in a Python slice; ``step`` above 0.
    Returns:
        ``input``'s shape, dtype and strides.
    Raises:
        IndexError: ``dim`` out of range.
        RuntimeError: ``src`` of another shape, or a ``step`` of 0 or less.
    Source: torch.slice_scatter.
    Example:
        >>> torch.slice_scatter(torch.zeros(6), torch.ones(2), start=1, end=5, step=2)
        tensor([0., 1., 0., 1., 0., 0.])
    """
    wrapped = wrap_dim(dim, input._array.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return _with_part(input, src, lambda x: x[(slice(None),) * wrapped + (slice(start, end, step),)])


@composite()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of ``input`` with ``src`` on a diagonal.

    Args:
        input: at least two dimensions.
        src: the shape of ``input.diagonal(offset, dim1, dim2)``.
        offset: 0 for the main diagonal, positive above it, negative below.
        dim1, dim2: the two dimensions.
    Returns:
        ``input``'s shape, dtype and strides.
    Raises:
        RuntimeError: ``src`` of another shape, or the same dimension twice.
        IndexError: a dimension out of range.
    Source: torch.diagonal_scatter.
    Example:
        >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.tensor([1.0, 2.0]))
        tensor([[1., 0.],
                [0., 2.]])
    """
    return _with_part(input, src, lambda x: x.diagonal(offset, dim1, dim2))


@composite()
def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A copy of ``input`` with ``src`` at an ``as_strided`` view.

    Args:
        input: any shape and dtype.
        src: shape ``size``.
        size, stride, storage_offset: as for ``torch.as_strided``, in elements.
    Returns:
        ``input``'s shape, dtype and strides.
    Raises:
        RuntimeError: ``src`` of another shape, or a view that reaches past the storage.
    Source: torch.as_strided_scatter.
    Example:
        >>> torch.as_strided_scatter(torch.zeros(4), torch.ones(2), (2,), (3,))
        tensor([1., 0., 0., 1.])
    """
    return _with_part(input, src, lambda x: x.as_strided(size, stride, storage_offset))
