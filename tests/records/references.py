"""References of operations that take more than an expression of NumPy, by definition rather than by speed; and why some have none.

Each takes a sample's arguments as they are, arrays for tensors. The family modules hold the records.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.signal
import scipy.special
import scipy.stats

from . import convolution, loss, pooling

Array = np.ndarray
F = "nn.functional."


def _axes(dim: Any, ndim: int) -> Any:
    """Axes of a reduction: all for None and ()."""
    return None if dim is None or dim == () or not ndim else tuple(dim) if isinstance(dim, (list, tuple)) else dim


def _over(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction with PyTorch's arguments."""

    def reference(a: Array, dim: Any = None, keepdim: bool = False, *, axis: Any = None, dtype: Any = None) -> Any:
        if dtype is not None:
            a = (a.real if np.dtype(dtype).kind != "c" else a).astype(dtype)
        return function(a, axis=_axes(axis if dim is None else dim, a.ndim), keepdims=keepdim)

    return reference


def _mean(a: Array, axis: Any, keepdims: bool) -> Any:
    """NaN, without a warning, of nothing."""
    return np.sum(a, axis=axis, keepdims=keepdims) / np.sum(np.ones(a.shape), axis=axis, keepdims=keepdims)


def _truth(function: Callable[..., Any]) -> Callable[..., Any]:
    """``all`` and ``any``, which reduce nothing where ``dim`` is empty."""
    reduce = _over(function)
    return lambda a, dim=None, *rest, **named: a != 0 if dim == () else reduce(a, dim, *rest, **named)


def _spread(function: Callable[..., Any], with_mean: bool) -> Callable[..., Any]:
    def reference(a: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
        axes = _axes(dim, a.ndim)
        deviation = (
            function(a, axis=axes, ddof=less, keepdims=keepdim)
            if a.size > less
            else np.full(np.sum(a, axes, keepdims=keepdim).shape, np.nan)
        )
        return (deviation, np.mean(a, axis=axes, keepdims=keepdim)) if with_mean else deviation

    return reference


def _extremum(which: str) -> Callable[..., Any]:
    """``max``/``min`` and ``cummax``/``cummin``'s kin: values, and places where there is a dimension."""
    value, place = getattr(np, which), getattr(np, f"arg{which}")

    def reference(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, np.ndarray):
            return getattr(np, f"{which}imum")(a, dim)
        if dim is None:
            return value(a)
        axis = dim if a.ndim else None
        return value(a, axis=axis, keepdims=keepdim and a.ndim > 0), place(a, axis=axis, keepdims=keepdim and a.ndim > 0)

    return reference


def _place(which: str) -> Callable[..., Any]:
    def reference(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
        return getattr(np, f"arg{which}")(a, axis=dim if a.ndim else None, keepdims=keepdim)

    return reference


def _running(which: str) -> Callable[..., Any]:
    def reference(a: Array, dim: int) -> Any:
        if not a.ndim:
            return a, np.array(0)
        values = getattr(np, f"{which}imum").accumulate(a, axis=dim)
        places = np.empty(a.shape, np.int64)
        moved, wanted, of = np.moveaxis(places, dim, -1), np.moveaxis(values, dim, -1), np.moveaxis(a, dim, -1)
        for at in np.ndindex(*of.shape[:-1]):
            for k in range(of.shape[-1]):
                moved[(*at, k)] = max(j for j in range(k + 1) if of[(*at, j)] == wanted[(*at, k)])
        return values, places

    return reference


def _norm(a: Array, ord: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    order = 2 if ord in ("fro", None) else ord
    axes, size = _axes(dim, a.ndim), np.abs(a)
    if order == 0:
        return np.sum(size != 0, axis=axes, keepdims=keepdim)
    if np.isinf(order):
        return (np.max if order > 0 else np.min)(size, axis=axes, keepdims=keepdim)
    return np.sum(size**order, axis=axes, keepdims=keepdim) ** (1 / order)


def _matrix_norm(a: Array, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    return np.linalg.norm(a, ord, axis=tuple(dim), keepdims=keepdim)


def _linalg_norm(a: Array, ord: Any = None, dim: Any = None) -> Any:
    return _norm(a, ord, dim)


def _middle(ignore_nan: bool) -> Callable[..., Any]:
    """The lower median, and where it stands."""

    def reference(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
        def of_row(row: Array) -> tuple[Any, int]:
            nan = np.isnan(row) if row.dtype.kind == "f" else np.zeros(row.shape, bool)
            if nan.any() and (not ignore_nan or nan.all()):
                return np.nan, int(np.argmax(nan))
            order = [k for k in np.argsort(row, kind="stable") if not nan[k]]
            k = int(order[(len(order) - 1) // 2])
            return row[k], k

        if dim is None:
            return of_row(a.reshape(-1))[0]
        pairs = [of_row(row) for row in np.moveaxis(a, dim, -1).reshape(-1, a.shape[dim])]
        shape = tuple(n for k, n in enumerate(a.shape) if k != dim % a.ndim)
        middles = [np.array([pair[k] for pair in pairs]).reshape(shape) for k in (0, 1)]
        return tuple(np.expand_dims(middle, dim) for middle in middles) if keepdim else tuple(middles)

    return reference


def _mode(a: Array, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent value of each row, the least where there are several, and the last place where it stands."""
    rows = np.moveaxis(a, dim, -1)
    values, places = np.empty(rows.shape[:-1], a.dtype), np.empty(rows.shape[:-1], np.int64)
    for at in np.ndindex(*rows.shape[:-1]):
        distinct, counts = np.unique(rows[at], return_counts=True)
        values[at] = distinct[counts.argmax()]
        places[at] = np.flatnonzero(rows[at] == values[at])[-1]
    return values, places


def _quantile(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(a: Array, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
        return function(a, q, axis=dim, keepdims=keepdim, method=interpolation)

    return reference


def _histc(a: Array, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    low, high = (min, max) if min != max else (a.min(), a.max())
    return np.histogram(a[(a >= low) & (a <= high)], bins, (low, high))[0]


def _histogram(a: Array, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    return np.histogram(a, bins, range, density, weight)


def _cov(a: Array, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    return np.cov(a, ddof=correction, fweights=fweights, aweights=aweights)


def _diff(a: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    parts = [part for part in (prepend, a, append) if part is not None]
    whole = np.concatenate(parts, axis=dim) if len(parts) > 1 else a
    return np.diff(whole.astype(np.int8), n, dim) % 2 == 1 if whole.dtype == bool else np.diff(whole, n, dim)


def _trapezoid(a: Array, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    return np.trapezoid(a, x, dx, dim)


def _cumulative_trapezoid(a: Array, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    a = np.moveaxis(a, dim, -1)
    step = dx if x is None else np.diff(x)
    return np.moveaxis(np.cumsum((a[..., 1:] + a[..., :-1]) / 2 * step, -1), -1, dim)


# -- order ----------------------------------------------------------------------------------------------------------------------
def _sort(a: Array, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    if not a.ndim:
        return a, np.array(0)
    order = _argsort(a, dim, descending)
    return np.take_along_axis(a, order, dim), order


def _argsort(a: Array, dim: int = -1, descending: bool = False) -> Any:
    return np.argsort(-a.astype(np.float64) if descending else a, axis=dim, kind="stable") if a.ndim else np.array(0)


def _topk(a: Array, k: int, dim: int = -1, largest: bool = True) -> Any:
    if not a.ndim:
        return a, np.array(0)
    order = np.take(_argsort(a, dim, largest), range(k), dim)
    return np.take_along_axis(a, order, dim), order


def _kth(a: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not a.ndim:
        return a, np.array(0)
    kth = tuple(np.take(array, [k - 1], dim) for array in _sort(a, dim))
    return kth if keepdim else tuple(result.squeeze(dim) for result in kth)


def _several(values: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


def _unique(a: Array, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    values, inverse, counts = np.unique(a, return_inverse=True, return_counts=True, axis=dim)
    return _several(values, inverse.reshape(a.shape) if dim is None else inverse.reshape(-1), counts, return_inverse, return_counts)


def _unique_consecutive(a: Array, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    rows = a.reshape(-1) if dim is None else np.moveaxis(a, dim, 0)
    groups = [(k, len(list(group))) for k, group in itertools.groupby(range(len(rows)), lambda i: rows[i].tolist())]
    starts = np.cumsum([0, *[count for _, count in groups]])[:-1]
    values = rows[starts] if dim is None else np.moveaxis(rows[starts], 0, dim)
    inverse = np.repeat(np.arange(len(groups)), [count for _, count in groups])
    return _several(values, inverse, np.array([count for _, count in groups]), return_inverse, return_counts)


def _searchsorted(ranked: Array, values: Any, *, right: bool = False, side: str = "left", out_int32: bool = False) -> Any:
    side = "right" if right else side
    if ranked.ndim == 1:
        return np.searchsorted(ranked, values, side)
    return np.stack([np.searchsorted(row, wanted, side) for row, wanted in zip(ranked, values, strict=True)])


# -- products -------------------------------------------------------------------------------------------------------------------
def _added(product: Callable[[Array, Array], Any]) -> Callable[..., Any]:
    """``beta * input + alpha * product``; with a ``beta`` of 0, nothing of ``input`` counts."""

    def reference(input: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1) -> Any:
        result = alpha * product(a, b)
        return result + (beta * input if beta else np.zeros_like(input))

    return reference


def _linear(x: Array, w: Array, b: Any = None) -> Any:
    return x @ w.T + (0 if b is None else b)


def _bilinear(a: Array, b: Array, w: Array, bias: Any = None) -> Any:
    return np.einsum("...i,oij,...j->...o", a, w, b) + (0 if bias is None else bias)


def _tensordot(a: Array, b: Array, dims: Any = 2) -> Any:
    return np.tensordot(a, b, dims)


def _einsum(*args: Any) -> Any:
    if isinstance(args[0], str):
        return np.einsum(args[0], *args[1:])
    return np.einsum(*args)


def _cdist(a: Array, b: Array, p: float = 2.0) -> Any:
    return _norm(a[..., :, None, :] - b[..., None, :, :], p, -1)


def _pdist(a: Array, p: float = 2.0) -> Any:
    return np.array([_norm(a[i] - a[j], p) for i, j in itertools.combinations(range(len(a)), 2)])


def _cosine(a: Array, b: Array, dim: int = 1, eps: float = 1e-8) -> Any:
    a, b = np.broadcast_arrays(a, b)
    return np.sum(a * b, dim) / np.maximum(_norm(a, 2, dim), eps) / np.maximum(_norm(b, 2, dim), eps)


def _diag_embed(a: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    stack = np.stack([np.diag(row, offset) for row in a.reshape(-1, a.shape[-1])]).reshape(*a.shape[:-1], *2 * (a.shape[-1] + abs(offset),))
    first, second = dim1 % stack.ndim, dim2 % stack.ndim
    return np.moveaxis(stack if first < second else stack.swapaxes(-1, -2), (-2, -1), sorted((first, second)))


def _cross(a: Array, b: Array, dim: Any = None) -> Any:
    axis = next(k for k, n in enumerate(a.shape) if n == 3) if dim is None else dim
    return np.cross(*np.broadcast_arrays(a, b), axis=axis)


def _vander(x: Array, N: Any = None, increasing: bool = False) -> Any:
    return np.vander(x, N, increasing)


def _linalg_vander(x: Array, *, N: Any = None) -> Any:
    return x[..., None] ** np.arange(x.shape[-1] if N is None else N)


def _embedding_bag(
    indices: Array, table: Array, offsets: Any = None, *, mode: str = "mean", per_sample_weights: Any = None, padding_idx: Any = None
) -> Any:
    if indices.ndim == 2:
        bags = [(row, np.ones(len(row), table.dtype)) for row in indices]
    else:
        weights = np.ones(len(indices), table.dtype) if per_sample_weights is None else per_sample_weights
        bags = list(zip(np.split(indices, offsets[1:]), np.split(weights, offsets[1:]), strict=True))
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    reduced = []
    for rows, weights in bags:
        kept = rows != padding_idx if padding_idx is not None else np.ones(len(rows), bool)
        reduced.append(reduce(table[rows[kept]] * weights[kept, None], axis=0) if kept.any() else np.zeros(table.shape[1]))
    return np.stack(reduced)


def _embedding_renorm(table: Array, indices: Array, max_norm: float, norm_type: float) -> Any:
    result = table.copy()
    for row in np.unique(indices):
        length = _norm(table[row], norm_type)
        if length > max_norm:
            result[row] = table[row] * (max_norm / (length + 1e-7))
    return result


# -- factories ------------------------------------------------------------------------------------------------------------------
def _filled(value: Any) -> Callable[..., Any]:
    def reference(*sizes: Any, size: Any = None, dtype: Any = np.float32, requires_grad: bool = False) -> Any:
        sizes = sizes if size is None else (size,)
        shape = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        return np.full(shape, value, dtype)

    return reference


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A factory that takes only the dtype from its tensor."""
    return lambda tensor, *args, dtype=None: function(*args, dtype=tensor.dtype if dtype is None else dtype)


def _full(size: Any, value: Any, dtype: Any = None) -> Any:
    return np.full(size, np.array(value).astype(dtype) if dtype is not None else value, dtype)


def _like(value: Any) -> Callable[..., Any]:
    return lambda x, *given, dtype=None: np.full(x.shape, given[0] if given else value, x.dtype if dtype is None else dtype)


def _arange(*given: Any, start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    if len(given) == 1:
        end = given[0]
    elif given:
        start, end, step = (*given, 1)[:3]
    if dtype is not None and dtype.kind == "i":
        start, end, step = int(start), int(end), int(step)
    return np.array([start + k * step for k in range(int(np.ceil((end - start) / step)))], dtype)


def _range(start: Any, end: Any, step: Any = 1, dtype: Any = None) -> Any:
    return np.array([start + k * step for k in range(int((end - start) / step) + 1)], dtype)


def _linspace(start: Any, end: Any, steps: int, dtype: Any = None) -> Any:
    return np.linspace(start, end, steps).astype(dtype) if dtype is not None else np.linspace(start, end, steps)


def _logspace(start: Any, end: Any, steps: int, base: float = 10.0, dtype: Any = None) -> Any:
    result = np.power(float(base), np.linspace(start, end, steps))
    return result if dtype is None else result.astype(dtype)


def _eye(n: int, m: Any = None, dtype: Any = np.float32) -> Any:
    return np.eye(n, m, dtype=dtype)


def _data(value: Any, dtype: Any = None, **_: Any) -> Any:
    array = np.array([item.tolist() if isinstance(item, np.ndarray) else item for item in value] if isinstance(value, list) else value)
    if dtype is None and not isinstance(value, np.ndarray) and array.dtype == np.float64:
        dtype = np.float32
    with np.errstate(over="ignore"):
        array = array.real if np.dtype(dtype or array.dtype).kind != "c" else array
        return array if dtype is None else array.astype(dtype)


def _indices(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda rows, columns, offset=0, dtype=None: np.stack(function(rows, offset, columns))


def _window(name: str) -> Callable[..., Any]:
    """A window of SciPy's, periodic unless told otherwise; ``hamming`` with coefficients is a sum of cosines."""

    def reference(length: int, periodic: bool = True, *coefficients: float, dtype: Any = None, beta: float = 12.0) -> Any:
        if coefficients:
            alpha, less = coefficients
            return alpha - less * np.cos(2 * np.pi * np.arange(length) / (length if periodic else length - 1))
        kind: Any = (name, beta) if name == "kaiser" else name
        if length < 2:
            return np.ones(length)
        return scipy.signal.get_window(kind, length, fftbins=periodic)

    return reference


# -- joining, casts -------------------------------------------------------------------------------------------------------------
def _block_diag(*arrays: Array) -> Any:
    blocks = [np.atleast_2d(array) for array in arrays]
    result = np.zeros(np.sum([block.shape for block in blocks], axis=0), np.result_type(*blocks))
    row = column = 0
    for block in blocks:
        result[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return result


def _meshgrid(*arrays: Any, indexing: str) -> Any:
    arrays = tuple(arrays[0]) if isinstance(arrays[0], list) else arrays
    return np.meshgrid(*arrays, indexing=indexing)


def _cartesian(*arrays: Array) -> Any:
    return np.array(list(itertools.product(*arrays)))


def _combinations(a: Array, r: int = 2, with_replacement: bool = False) -> Any:
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array(list(choose(a.tolist(), r)), a.dtype).reshape(-1, r)


def _broadcast_shapes(*shapes: Any) -> Any:
    return np.broadcast_shapes(*shapes)


_TYPES = {"torch.DoubleTensor": np.float64, "torch.IntTensor": np.int32, "torch.BoolTensor": np.bool_}


def _type(x: Array, dtype: Any = None) -> Any:
    if dtype is None:
        words = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long"}
        return f"torch.{words[x.dtype.name]}Tensor"
    return x.astype(_TYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype)


def _to(x: Array, dtype: Any = None, *_: Any, **__: Any) -> Any:
    if isinstance(dtype, np.dtype) and dtype.kind == "u" and x.dtype.kind == "f":
        return x.astype(np.int64).astype(dtype)
    return x.astype(dtype) if isinstance(dtype, np.dtype) else x.astype(dtype.dtype) if isinstance(dtype, np.ndarray) else x


def _nan_to_num(x: Array, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


# -- windows over images --------------------------------------------------------------------------------------------------------
def _unfold(x: Array, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    batched = x if x.ndim == 4 else x[None]
    k, s = np.broadcast_to(kernel, 2), tuple(np.broadcast_to(stride, 2))
    seen = pooling._windows(batched, k, s, padding, dilation, False, 2, 0)  # (N, C, rows, columns, kernel)
    result = np.moveaxis(seen, -1, 2).reshape(len(batched), batched.shape[1] * int(np.prod(k)), -1)
    return result if x.ndim == 4 else result[0]


def _fold(x: Array, output_size: Any, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The transpose of unfolding: each column's entries are added where they came from."""
    batched = x if x.ndim == 3 else x[None]
    k = np.broadcast_to(kernel, 2)
    channels = batched.shape[1] // int(np.prod(k))
    places = _unfold(np.arange(1, 1 + np.prod(output_size)).reshape(1, 1, *output_size), kernel, dilation, padding, stride)[0]
    result = np.zeros((len(batched), channels, 1 + int(np.prod(output_size))), x.dtype)
    for n, c in np.ndindex(len(batched), channels):
        np.add.at(result[n, c], places.reshape(-1), batched[n].reshape(channels, -1)[c])
    result = result[:, :, 1:].reshape(len(batched), channels, *output_size)
    return result if x.ndim == 3 else result[0]


def _cubic(x: Array, a: float) -> Array:
    """Keys' kernel."""
    x = np.abs(x)
    near, far = (a + 2) * x**3 - (a + 3) * x**2 + 1, a * (x**3 - 5 * x**2 + 8 * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _kernel(mode: str, antialias: bool) -> tuple[int, Callable[[Array], Array]]:
    """How far a kernel reaches, and the kernel."""
    if "cubic" in mode:
        return 2, lambda x: _cubic(x, -0.5 if antialias else -0.75)
    if mode == "lanczos":
        return 3, lambda x: np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)
    return 1, lambda x: np.maximum(1 - np.abs(x), 0)


def _resizing(n: int, size: int, scale: float, mode: str, align_corners: bool, antialias: bool) -> Array:
    """The matrix that makes ``size`` points of ``n``."""
    matrix, at = np.zeros((size, n)), np.arange(size)
    if mode == "area":
        for k in at:
            matrix[k, k * n // size : -(-(k + 1) * n // size)] = 1
        return matrix / matrix.sum(1, keepdims=True)
    if mode.startswith("nearest"):
        places = np.floor((at + 0.5) * scale if mode == "nearest-exact" else at * scale).astype(int)
        matrix[at, places.clip(0, n - 1)] = 1
        return matrix
    reach, kernel = _kernel(mode, antialias)
    if antialias:
        wide = max(scale, 1.0)
        matrix = kernel((np.arange(n) + 0.5 - ((at + 0.5) * scale)[:, None]) / wide)
        return matrix / matrix.sum(1, keepdims=True)
    x = at * ((n - 1) / (size - 1)) if align_corners and size > 1 else (at + 0.5) * scale - 0.5 if not align_corners else at * 0.0
    if reach == 1:
        x = np.maximum(x, 0)
    for k in range(-reach, reach + 2):
        place = np.floor(x).astype(int) + k
        np.add.at(matrix, (at, place.clip(0, n - 1)), kernel(x - place))
    return matrix


def _interpolate(
    x: Array,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Any:
    spatial = x.shape[2:]
    factors = None if scale_factor is None else scale_factor if isinstance(scale_factor, tuple) else (scale_factor,) * len(spatial)
    sizes = (
        (size if isinstance(size, tuple) else (size,) * len(spatial)) if factors is None else [int(n * f) for n, f in zip(spatial, factors)]
    )
    for axis, (n, count) in enumerate(zip(spatial, sizes, strict=True)):
        scale = n / count if factors is None or recompute_scale_factor else 1 / factors[axis]
        matrix = _resizing(n, count, scale, mode, bool(align_corners), antialias)
        x = np.moveaxis(np.moveaxis(x, 2 + axis, -1) @ matrix.T, -1, 2 + axis)
    return x


def _convolution(
    x: Array, w: Array, b: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int
) -> Any:
    if transposed:
        return convolution._transposed(x, w, b, stride, padding, output_padding, groups, dilation)
    return convolution._correlation(x, w, b, stride, padding, dilation, groups)


def _places_max(rank: int) -> Callable[..., Any]:
    """Maxima of windows, and their places in the plane."""

    def reference(x: Array, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        spatial = x.shape[-rank:]
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        candidates = pooling._windows(x, kernel, stride, padding, dilation, ceil_mode, rank, least)
        places = np.broadcast_to(np.arange(np.prod(spatial)).reshape(spatial), x.shape)
        seen = pooling._windows(places, kernel, stride, padding, dilation, ceil_mode, rank, -1)
        best = candidates.argmax(-1)[..., None]
        return np.take_along_axis(candidates, best, -1)[..., 0], np.take_along_axis(seen, best, -1)[..., 0]

    return reference


def _adaptive_max(rank: int) -> Callable[..., Any]:
    def reference(x: Array, output_size: Any) -> Any:
        spatial = x.shape[-rank:]
        wanted = output_size if isinstance(output_size, tuple) else (output_size,) * rank
        sizes = [n if size is None else size for size, n in zip(wanted, spatial, strict=True)]
        values, places = np.empty((*x.shape[:-rank], *sizes), x.dtype), np.empty((*x.shape[:-rank], *sizes), np.int64)
        index = np.arange(np.prod(spatial)).reshape(spatial)
        for at in np.ndindex(*sizes):
            box = tuple(slice(k * n // size, -(-(k + 1) * n // size)) for k, n, size in zip(at, spatial, sizes, strict=True))
            part = x[(..., *box)].reshape(*x.shape[:-rank], -1)
            values[(..., *at)], places[(..., *at)] = part.max(-1), index[box].reshape(-1)[part.argmax(-1)]
        return values, places

    return reference


def _unpool(rank: int) -> Callable[..., Any]:
    def reference(x: Array, indices: Array, kernel: int, stride: Any = None, padding: int = 0, output_size: Any = None) -> Any:
        step = kernel if stride is None else stride
        spatial = output_size or [(n - 1) * step + kernel for n in x.shape[-rank:]]
        planes = int(np.prod(x.shape[:-rank]))
        result = np.zeros((planes, int(np.prod(spatial))), x.dtype)
        for plane, values, places in zip(result, x.reshape(planes, -1), indices.reshape(planes, -1), strict=True):
            plane[places] = values
        return result.reshape(*x.shape[:-rank], *spatial)

    return reference


def _reordered_batch_norm(
    x: Array, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float, cudnn: bool
) -> Any:
    return pooling._batch_norm(x, mean, var, weight, bias, training, momentum, eps)


def _reordered_instance_norm(
    x: Array, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: bool, momentum: float, eps: float, cudnn: bool
) -> Any:
    return pooling._instance_norm(x, mean, var, weight, bias)


# -- losses ---------------------------------------------------------------------------------------------------------------------
def _kl(x: Array, t: Array, reduction: str = "mean", log_target: bool = False) -> Any:
    losses = np.exp(t) * (t - x) if log_target else scipy.special.xlogy(t, t) - t * x
    return losses.sum() / len(x) if reduction == "batchmean" else loss._reduced(losses, reduction)


def _multilabel_margin(x: Array, t: Array, reduction: str = "mean") -> Any:
    rows, labels = np.atleast_2d(x), np.atleast_2d(t)
    losses = []
    for row, targets in zip(rows, labels, strict=True):
        wanted = list(itertools.takewhile(lambda label: label >= 0, targets))
        others = [k for k in range(len(row)) if k not in wanted]
        losses.append(sum(max(0.0, 1 - (row[i] - row[j])) for i in wanted for j in others) / len(row))
    return loss._reduced(np.array(losses) if x.ndim == 2 else np.array(losses[0]), reduction)


def _triplet_distance(a: Array, p: Array, n: Array, margin: float = 1.0, swap: bool = False) -> Any:
    def apart(x: Array, y: Array) -> Any:
        return _norm(x - y + 1e-6, 2, -1)

    far = np.minimum(apart(a, n), apart(p, n)) if swap else apart(a, n)
    return np.maximum(apart(a, p) - far + margin, 0).mean()


REFERENCES: dict[str, Callable[..., Any]] = {
    "nansum": _over(np.nansum),
    "sum": _over(np.sum),
    "mean": _over(_mean),
    "nanmean": _over(np.nanmean),
    "prod": _over(np.prod),
    "all": _truth(np.all),
    "any": _truth(np.any),
    "count_nonzero": _over(np.count_nonzero),
    "logsumexp": _over(scipy.special.logsumexp),
    "amax": _over(np.max),
    "amin": _over(np.min),
    "var": _spread(np.var, False),
    "std": _spread(np.std, False),
    "var_mean": _spread(np.var, True),
    "std_mean": _spread(np.std, True),
    "max": _extremum("max"),
    "min": _extremum("min"),
    "aminmax": lambda a, dim=None, keepdim=False: (np.min(a, dim, keepdims=keepdim), np.max(a, dim, keepdims=keepdim)),
    "argmax": _place("max"),
    "argmin": _place("min"),
    "cumprod": lambda a, dim: np.cumprod(a, dim if a.ndim else None).reshape(a.shape),
    "cummax": _running("max"),
    "cummin": _running("min"),
    "logcumsumexp": lambda a, dim: np.logaddexp.accumulate(a, dim) if a.ndim else a,
    "diff": _diff,
    "trapezoid": _trapezoid,
    "cumulative_trapezoid": _cumulative_trapezoid,
    "norm": _norm,
    "dist": lambda a, b, p=2: _norm(a - b, p),
    "linalg.vector_norm": _norm,
    "linalg.matrix_norm": _matrix_norm,
    "linalg.norm": _linalg_norm,
    "median": _middle(False),
    "nanmedian": _middle(True),
    "mode": _mode,
    "quantile": _quantile(np.quantile),
    "nanquantile": _quantile(np.nanquantile),
    "histc": _histc,
    "histogram": _histogram,
    "bincount": lambda x, weights=None, minlength=0: np.bincount(x, weights, minlength),
    "cov": _cov,
    "corrcoef": np.corrcoef,
    "nan_to_num": _nan_to_num,
    "sort": _sort,
    "argsort": _argsort,
    "msort": lambda a: np.sort(a, 0),
    "topk": _topk,
    "kthvalue": _kth,
    "unique": _unique,
    "unique_consecutive": _unique_consecutive,
    "searchsorted": _searchsorted,
    "bucketize": lambda values, ranked, *, right=False: np.searchsorted(ranked, values, "right" if right else "left"),
    "inner": np.inner,
    "addmm": _added(np.matmul),
    "addmv": _added(np.matmul),
    "addbmm": _added(lambda a, b: np.matmul(a, b).sum(0)),
    "baddbmm": _added(np.matmul),
    "addr": _added(np.outer),
    "chain_matmul": lambda *matrices: np.linalg.multi_dot(matrices),
    "linalg.multi_dot": np.linalg.multi_dot,
    f"{F}linear": _linear,
    "bilinear": _bilinear,
    "tensordot": _tensordot,
    "einsum": _einsum,
    "cdist": _cdist,
    "pdist": _pdist,
    "pairwise_distance": lambda a, b, p=2.0, eps=1e-6, keepdim=False: _norm(a - b + eps, p, -1, keepdim),
    "cosine_similarity": _cosine,
    "linalg.vecdot": lambda a, b, *, dim=-1: np.sum(np.conj(a) * b, dim),
    "diag_embed": _diag_embed,
    "diag": np.diag,
    "diagflat": np.diagflat,
    "cross": _cross,
    "linalg.cross": lambda a, b, *, dim=-1: _cross(a, b, dim),
    "matrix_power": np.linalg.matrix_power,
    "linalg.matrix_power": np.linalg.matrix_power,
    "vander": _vander,
    "linalg.vander": _linalg_vander,
    f"{F}embedding_bag": _embedding_bag,
    "embedding_renorm_": _embedding_renorm,
    "zeros": _filled(0),
    "ones": _filled(1),
    "empty": _filled(0),
    "empty_strided": lambda size, stride: np.empty(size),
    "full": _full,
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "full_like": _like(None),
    "empty_like": _like(0),
    "arange": _arange,
    "range": _range,
    "linspace": _linspace,
    "logspace": _logspace,
    "eye": _eye,
    "scalar_tensor": _data,
    "Tensor.new_zeros": _method(_filled(0)),
    "Tensor.new_ones": _method(_filled(1)),
    "Tensor.new_empty": _method(_filled(0)),
    "Tensor.new_full": _method(_full),
    "Tensor.new_empty_strided": lambda tensor, size, stride: np.empty(size),
    "tensor": _data,
    "Tensor.new_tensor": _method(_data),
    "as_tensor": _data,
    "asarray": _data,
    "from_dlpack": _data,
    "from_file": lambda filename, shared=False, size=0, *, dtype: np.fromfile(filename, dtype, size),
    "frombuffer": lambda buffer, *, dtype: np.frombuffer(buffer, dtype, len(buffer) // dtype.itemsize),
    "tril_indices": _indices(np.tril_indices),
    "triu_indices": _indices(np.triu_indices),
    **{f"{name}_window": _window("hann" if name == "hann" else name) for name in ("bartlett", "blackman", "hann", "hamming", "kaiser")},
    "block_diag": _block_diag,
    "broadcast_shapes": _broadcast_shapes,
    "meshgrid": _meshgrid,
    "cartesian_prod": _cartesian,
    "combinations": _combinations,
    "Tensor.to": _to,
    "Tensor.type": _type,
    "Tensor.is_set_to": lambda a, b: False,
    f"{F}unfold": _unfold,
    f"{F}fold": _fold,
    f"{F}interpolate": _interpolate,
    f"{F}upsample": _interpolate,
    f"{F}upsample_nearest": _interpolate,
    f"{F}upsample_bilinear": lambda x, size=None, scale_factor=None: _interpolate(x, size, scale_factor, "bilinear", True),
    "convolution": _convolution,
    **{f"{F}max_pool{rank}d_with_indices": _places_max(rank) for rank in (1, 2, 3)},
    **{f"{F}adaptive_max_pool{rank}d_with_indices": _adaptive_max(rank) for rank in (1, 2, 3)},
    "adaptive_max_pool1d": _adaptive_max(1),
    **{f"{F}max_unpool{rank}d": _unpool(rank) for rank in (1, 2, 3)},
    "batch_norm": _reordered_batch_norm,
    "instance_norm": _reordered_instance_norm,
    f"{F}kl_div": _kl,
    f"{F}multilabel_margin_loss": _multilabel_margin,
    f"{F}triplet_margin_with_distance_loss": _triplet_distance,
}


_DRAWS = "draws from the generator: the same seed must draw the same again, and tests/test_random_streams.py holds what some seeds draw"
_REFUSES = "there is nothing to compute with: it must refuse its samples"

# Operations without a reference: why, and what is tested instead.
UNREFERENCED: dict[str, str] = {
    **dict.fromkeys(
        (
            *("rrelu", f"{F}rrelu", "rrelu_", f"{F}gumbel_softmax", "native_dropout"),
            *(f"{kind}dropout{end}" for kind in ("", "alpha_", "feature_", "feature_alpha_") for end in ("", "_")),
            *(f"{F}{kind}dropout" for kind in ("", "alpha_", "feature_alpha_")),
            *(f"{F}dropout{rank}d" for rank in (1, 2, 3)),
            *(f"{F}fractional_max_pool{rank}d{end}" for rank in (2, 3) for end in ("", "_with_indices")),
            *("rand", "randn", "rand_like", "randn_like", "normal", "randint", "randint_like", "randperm"),
            *("bernoulli", "multinomial", "poisson", "binomial", "initial_seed", "get_rng_state"),
            *(
                f"Tensor.{name}_"
                for name in ("uniform", "normal", "random", "bernoulli", "exponential", "geometric", "log_normal", "cauchy")
            ),
        ),
        _DRAWS,
    ),
    **dict.fromkeys(("Tensor.cuda", "Tensor.pin_memory", "Tensor.record_stream"), f"{_REFUSES}, as there is no such device"),
    **dict.fromkeys(
        ("from_numpy", "to_dlpack"), f"{_REFUSES}, as samples turn arrays into tensors; tests/test_from_data.py has the others"
    ),
    **dict.fromkeys(
        [f"{word}_num_{kind}threads" for word in ("get", "set") for kind in ("", "interop_")],
        f"{_REFUSES}, as a number of threads is this machine's, and a change would outlast the test",
    ),
    **dict.fromkeys(("manual_seed", "seed", "set_rng_state"), f"{_REFUSES}; tests/test_random_streams.py has the others"),
    "result_type": "a dtype: tests/test_dtypes.py holds the table of all pairs",
}
