"""Rows of operations on vectors and matrices beside the plain products; equations are in ``equations``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import ROWS, row
from .indexing import _wider
from .reductions import _reduce, vector_norm
from .shapes import _END, sizes_of


@row("logdet")
def _logdet(b: Builder, x: Value) -> Value:
    return b.op("Log", b.op("Det", x, shape=b.shape))


@row("linalg_cross", "cross")
def _cross(b: Builder, x: Value, y: Value, dim: int | None = None) -> Value:
    if dim is None:
        dim = -1 if b.name == "linalg_cross" else next(d for d, size in enumerate(x.shape) if size == 3)
    axis = dim % len(b.shape)

    def turned(value: Value, order: list[int]) -> Value:
        value = b.cast(value, b.dtype)
        made: Value = b.op("Gather", value, b.ints(order), axis=axis - len(b.shape) + value.rank)
        return made

    later, earlier = [1, 2, 0], [2, 0, 1]
    products = [b.op("Mul", turned(x, first), turned(y, second), shape=b.shape) for first, second in ((later, earlier), (earlier, later))]
    return b.op("Sub", *products)


@row("inner")
def _inner(b: Builder, x: Value, y: Value) -> Value:
    if not x.rank or not y.rank:
        return b.op("Mul", x, y, shape=b.shape)
    return _tensordot(b, x, y, [-1], [-1])


@row("vdot")
def _vdot(b: Builder, x: Value, y: Value) -> Value:
    return b.op("MatMul", x, y, shape=())


# ---- sums of products
def _weighted(b: Builder, x: Value, product: Value, beta: Any, alpha: Any) -> Value:
    product = product if alpha == 1 else b.op("Mul", product, b.constant(alpha, b.dtype))
    if beta == 0:
        return product
    x = b.cast(x, b.dtype)
    return b.op("Add", product, x if beta == 1 else b.op("Mul", x, b.constant(beta, b.dtype)), shape=b.shape)


@row("addr")
def _addr(b: Builder, x: Value, left: Value, right: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    product = b.op("Mul", b.unsqueeze(b.cast(left, b.dtype), [1]), b.cast(right, b.dtype), shape=b.shape)
    return _weighted(b, x, product, beta, alpha)


@row("addbmm")
def _addbmm(b: Builder, x: Value, left: Value, right: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    products = b.op("MatMul", left, right, shape=(left.shape[0], *b.shape))
    return _weighted(b, x, b.op("ReduceSum", products, b.ints([0]), keepdims=0, shape=b.shape), beta, alpha)


@row("bilinear")
def _bilinear(b: Builder, x: Value, y: Value, weight: Value, bias: Value | None = None) -> Value:
    left = b.unsqueeze(b.unsqueeze(x, [-2]), [-2])  # (*, 1, 1, n), for every matrix of the weight
    products = b.op("MatMul", left, weight, shape=(*x.shape[:-1], weight.shape[0], 1, weight.shape[2]))
    rows = b.squeeze(products, [products.rank - 2])
    found = b.squeeze(b.op("MatMul", rows, b.unsqueeze(y, [-1]), shape=(*b.shape, 1)), [len(b.shape)])
    return found if bias is None else b.op("Add", found, bias)


# ---- distances
@row("cdist", "_cdist_forward")
def _cdist(b: Builder, x: Value, y: Value, p: float = 2.0, compute_mode: Any = None) -> Value:
    left, right = b.unsqueeze(x, [-2]), b.unsqueeze(y, [-3])
    apart = b.op("Sub", left, right, shape=(*b.shape, x.shape[-1]))
    made: Value = ROWS["linalg_vector_norm"](b, apart, p, [-1])
    return b.op("Max", made, b.constant(0, b.dtype)) if x.shape[-1] == 0 else made  # the largest of nothing


@row("pairwise_distance")
def _pairwise_distance(b: Builder, x: Value, y: Value, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Value:
    apart = b.op("Sub", b.cast(x, b.dtype), b.cast(y, b.dtype), shape=_wider(x, y))
    made: Value = ROWS["linalg_vector_norm"](b, b.op("Add", apart, b.constant(eps, b.dtype)), p, [-1], keepdim)
    return made


def _as_long(b: Builder, x: Value, other: Value, axis: int) -> Value:
    """``x`` with a dimension as long as that of another, if it is of size 1."""
    if x.size(axis) != 1:
        return x
    sizes = [1] * x.rank
    sizes[axis] = sizes_of(b, other, [axis % other.rank])[0]
    shape = list(x.shape)
    shape[axis] = other.shape[axis]
    return b.expand(x, b.sizes(sizes), shape)


@row("cosine_similarity")
def _cosine_similarity(b: Builder, x: Value, y: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    shape = _wider(x, y)
    if not shape:
        return _cosine_similarity(b, b.unsqueeze(x, [0]), b.unsqueeze(y, [0]), 0, eps)
    axis = dim % len(shape) - len(shape)

    def directed(value: Value) -> Value:
        value = b.cast(value, b.dtype)
        kept = [1 if d == value.rank + axis else size for d, size in enumerate(value.shape)]
        length = b.op("ReduceL2", value, b.ints([axis]), keepdims=1, shape=kept)
        made: Value = b.op("Div", value, b.op("Max", length, b.constant(eps, b.dtype)))
        return made

    x, y = (b.unsqueeze(each, range(len(shape) - each.rank)) if each.rank < len(shape) else each for each in (x, y))
    if x.shape[axis] != y.shape[axis]:  # one element stands for as many equal ones
        x, y = _as_long(b, x, y, axis), _as_long(b, y, x, axis)
    product = b.op("Mul", directed(x), directed(y), shape=shape)
    return b.op("ReduceSum", product, b.ints([axis]), keepdims=0, shape=b.shape)


@row("pdist", "_pdist_forward")
def _pdist(b: Builder, x: Value, p: float = 2.0) -> Value:
    count = x.size(0)
    if count is None:
        raise SymbolicValueError("pdist of a symbolic number of rows is not supported", x)
    first, second = (b.constant(places, dtypes.int64) for places in np.triu_indices(count, 1))
    left, right = (b.op("Gather", x, places, axis=0, shape=(*b.shape, x.shape[1])) for places in (first, second))
    return vector_norm(b, b.op("Sub", left, right), p, [1], shape=b.shape)


# ---- diagonals
@row("block_diag")
def _block_diag(b: Builder, tensors: list[Value]) -> Value:
    rows = []
    blocks = [b.unsqueeze(each, range(2 - each.rank)) if each.rank < 2 else each for each in tensors]
    widths = [block.size(1) for block in blocks]
    if None in widths:
        raise SymbolicValueError("block_diag of symbolic sizes is not supported", tensors)
    before, total = 0, b.shape[1]
    for block in blocks:
        pads = b.ints([before, total - before - block.shape[1]])
        number = b.cast(block, dtypes.int32 if b.dtype is dtypes.bool_ else b.dtype)
        rows.append(b.op("Pad", number, pads, b.constant(0, number.dtype), b.ints([1]), shape=(block.shape[0], total)))
        before += block.shape[1]
    return b.cast(b.op("Concat", *rows, axis=0, shape=b.shape), b.dtype)


@row("diagonal_scatter")
def _diagonal_scatter(b: Builder, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    first, second = dim1 % x.rank, dim2 % x.rank
    rows, columns = x.size(first), x.size(second)
    if rows is None or columns is None:
        raise SymbolicValueError("diagonals of symbolic sizes are not supported", x)
    order = [first, second, *[d for d in range(x.rank) if d not in (first, second)]]
    places = b.constant(np.argwhere(np.eye(rows, columns, offset, dtype=bool)), dtypes.int64)
    updates = b.transpose(b.cast(source, x.dtype), [source.rank - 1, *range(source.rank - 1)])
    moved = b.transpose(x, order)
    done = b.op("ScatterND", moved, places, updates, shape=moved.shape)
    return b.transpose(done, [order.index(d) for d in range(x.rank)])


@row("diag_embed")
def _diag_embed(b: Builder, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    size = x.size(-1)
    if size is None:
        raise SymbolicValueError("diagonals of symbolic sizes are not supported", x)
    total, rank = size + abs(offset), x.rank + 1
    row, column = np.arange(total)[:, None], np.arange(total)
    on_it = (column - row == offset) & (np.minimum(row, column) < size)
    pads = b.ints([0, abs(offset)])
    filler = b.constant(0, x.dtype)
    padded = b.op("Pad", x, pads, filler, b.ints([x.rank - 1]), shape=(*x.shape[:-1], total)) if offset else x
    across = b.unsqueeze(padded, [-1 if offset >= 0 else -2])
    wide = (*x.shape[:-1], total, total)
    square = b.op("Where", b.constant(on_it, dtypes.bool_), across, filler, dtype=x.dtype, shape=wide)
    order = list(range(rank - 2))
    for axis, place in sorted(((dim1 % rank, rank - 2), (dim2 % rank, rank - 1))):
        order.insert(axis, place)
    return b.transpose(square, order)


@row("diagonal_copy")
def _diagonal_copy(b: Builder, x: Value, *args: Any) -> Value:
    made: Value = ROWS["diagonal"](b, x, *args)
    return made


@row("rot90")
def _rot90(b: Builder, x: Value, k: int = 1, dims: Any = (0, 1)) -> Value:
    first, second = (d % x.rank for d in dims)
    order = list(range(x.rank))
    order[first], order[second] = second, first
    flipped = {1: [second], 2: [first, second], 3: [first]}.get(k % 4, [])
    count = len(flipped)
    if count:
        ones, ends = b.ints([-1] * count), b.ints([-_END] * count)
        x = b.op("Slice", x, ones, ends, b.ints(flipped), ones)
    return b.transpose(x, order) if k % 2 else x


@row("vander")
def _vander(b: Builder, x: Value, N: int | None = None, increasing: bool = False) -> Value:
    count = b.shape[-1]
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    return b.op("Pow", b.unsqueeze(b.cast(x, b.dtype), [-1]), b.constant(powers.copy(), b.dtype), shape=b.shape)


@row("kron")
def _kron(b: Builder, x: Value, y: Value) -> Value:
    rank = max(x.rank, y.rank)
    x, y = (b.unsqueeze(each, list(range(rank - each.rank))) if each.rank < rank else each for each in (x, y))
    left = b.unsqueeze(b.cast(x, b.dtype), range(1, 2 * rank, 2)) if rank else x
    right = b.unsqueeze(b.cast(y, b.dtype), range(0, 2 * rank, 2)) if rank else y
    product = b.op("Mul", left, right, shape=[size for pair in zip(x.shape, y.shape, strict=True) for size in pair])
    for axis in range(rank):
        product = _joined(b, product, axis)
    return product


def _joined(b: Builder, x: Value, axis: int) -> Value:
    from .shapes import merged

    found = merged(b, x, axis, axis + 1)
    found.shape = (*x.shape[:axis], b.shape[axis], *x.shape[axis + 2 :])
    return found


# ---- statistics
@row("trapezoid.dx", "trapz.dx")
def _trapezoid(b: Builder, y: Value, *, dx: Any = 1, dim: int = -1) -> Value:
    axis = dim % y.rank
    pairs = b.op("Add", b.slice(y, axis, 1, _END), b.slice(y, axis, 0, -1))
    total = _reduce(b, "ReduceSum", b.cast(pairs, b.dtype), [axis], False)
    return b.op("Mul", total, b.constant(dx / 2, b.dtype))


# ---- grids for sampling
def _positions(size: int, align_corners: bool) -> np.ndarray:
    """Centres of the pixels of a row, from -1 to 1; the middle for one alone."""
    if size == 1:
        return np.zeros(1)
    places = np.linspace(-1, 1, size)
    return places if align_corners else places * (size - 1) / size


@row("affine_grid_generator")
def _affine_grid(b: Builder, theta: Value, sizes: Any, align_corners: bool) -> Value:
    spatial = sizes[2:]
    if any(isinstance(size, Value) for size in spatial):
        raise SymbolicValueError("affine_grid of symbolic sizes is not supported", sizes)
    axes = np.meshgrid(*[_positions(size, align_corners) for size in spatial], indexing="ij")
    points = np.stack([*axes[::-1], np.ones_like(axes[0])], -1).reshape(-1, len(spatial) + 1)
    count = len(points)
    turned = b.transpose(theta, [0, 2, 1])
    moved = b.op("MatMul", b.constant(points, theta.dtype), turned, shape=(theta.shape[0], count, len(spatial)))
    return b.op("Reshape", moved, b.sizes([-1, *spatial, len(spatial)]), shape=b.shape)


def _strided_places(b: Builder, sizes: Any, strides: Any, offset: Any) -> np.ndarray:
    """Places of the elements of a strided view in the memory of a tensor that is in order."""
    if any(isinstance(each, Value) for each in (*sizes, *strides, offset)) or not b.is_whole(0):
        raise SymbolicValueError("as_strided is supported for whole tensors in order, and numbers", sizes)
    places = np.full((), offset or 0)
    for size, stride in zip(sizes, strides, strict=True):
        places = places[..., None] + np.arange(size) * stride
    return places


@row("as_strided_scatter")
def _as_strided_scatter(b: Builder, x: Value, source: Value, sizes: Any, strides: Any, offset: Any = None) -> Value:
    places = b.constant(_strided_places(b, sizes, strides, offset).reshape(-1), dtypes.int64)
    flat, values = (b.op("Reshape", each, b.ints([-1]), shape=(None,)) for each in (x, b.cast(source, x.dtype)))
    return b.op("Reshape", b.op("ScatterElements", flat, places, values, axis=0), b.shape_of(x), shape=x.shape)


@row("as_strided", "as_strided_copy")
def _as_strided(b: Builder, x: Value, sizes: Any, strides: Any, offset: Any = None) -> Value:
    places = _strided_places(b, sizes, strides, offset)
    flat = b.op("Reshape", x, b.ints([-1]), shape=(None,))
    return b.op("Gather", flat, b.constant(places, dtypes.int64), axis=0, shape=b.shape)


@row("tensordot")
def _tensordot(b: Builder, x: Value, y: Value, dims_self: Any, dims_other: Any) -> Value:
    left, right = [d % x.rank for d in dims_self], [d % y.rank for d in dims_other]
    kept, rest = ([d for d in range(value.rank) if d not in used] for value, used in ((x, left), (y, right)))
    for one, other in zip(left, right, strict=True):  # a dimension of size 1 stands for as many equal elements as the other has
        if y.size(other) == 1 and x.size(one) != 1:
            x = b.op("ReduceSum", x, b.ints([one]), keepdims=1, shape=[1 if d == one else size for d, size in enumerate(x.shape)])
        elif x.size(one) == 1 and y.size(other) != 1:
            y = b.op("ReduceSum", y, b.ints([other]), keepdims=1, shape=[1 if d == other else size for d, size in enumerate(y.shape)])
    inside = sizes_of(b, y, right)
    first = b.op("Reshape", b.transpose(x, [*kept, *left]), b.sizes([-1, _product(b, inside)]), shape=(None, None))
    second = b.op("Reshape", b.transpose(y, [*right, *rest]), b.sizes([_product(b, inside), -1]), shape=(None, None))
    product = b.op("MatMul", first, second, shape=(None, None))
    return b.op("Reshape", product, b.sizes([*sizes_of(b, x, kept), *sizes_of(b, y, rest)]), shape=b.shape)


def _product(b: Builder, sizes: list[Any]) -> Any:
    total: Any = 1
    for size in sizes:
        if isinstance(size, Value) or isinstance(total, Value):
            total = b.op("Mul", b.as_value(total, dtypes.int64), b.as_value(size, dtypes.int64), shape=())
        else:
            total *= size
    return total
