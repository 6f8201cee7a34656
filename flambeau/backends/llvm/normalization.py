"""Normalization: layer and RMS norm in one kernel each way; batch, group and instance norm as sums, then one pass over all elements.

Batch, group and instance norm see their input as rows with one set of parameters each, ``(N * C, P)``, or where channels are innermost,
as rows ``along`` which the parameters lie, ``(N * P, C)``.  The kernels only sum and map; what is done once for each channel is NumPy's,
in float64:

    forward     moments of each row or column      ->  mean, variance  ->  (x - mean) * factor + shift
    backward    sums of g and of g * (x - mean)    ->  a, b, c         ->  a * g + b * (x - mean) + c
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.native import native
from .build import kernel
from .language import Builder, Value, register_kind
from .memory import empty
from .rows import Place, Row, float_kind, rows, rows_per_chunk, run

_TILE = 128  # elements that a row with parameters along it should have at least; shorter ones are taken several at once
_SUMMED = 1024  # rows whose sums along them go into one number: more would lose digits in float32
_TOGETHER = 4  # rows that are summed in registers before they are added to the sums along them
_PARTS = 32  # partial sums along rows at most, unless there are more than 1024 rows for each
_NOTHING = np.empty(0, np.float32)  # for an argument that the kernel does not read

Ints = tuple[int, ...]
Arrays = tuple[np.ndarray, ...]


# -- kernels ----------------------------------------------------------------------------------------------------------------------------
@kernel
def layer_rows(k: Builder, kind: str, centred: bool, weight: bool, bias: bool) -> None:
    """``(x - mean) / sqrt(variance + eps) * w + b``; not ``centred``, with 0 and the mean square instead."""
    x, w, b, y, means, variances, eps = *(k.array() for _ in range(6)), k.number(register_kind(kind))

    def body(row: Row) -> None:
        if centred:
            mean, squares = row.moments(x)
            row.put(mean, means)
        else:
            mean, squares = k.const(0, row.kind), row.total(lambda at: at.load(x) * at.load(x))
        variance = squares / row.count
        row.put(variance, variances)
        scale = 1.0 / k.sqrt(variance + eps)

        def step(at: Place) -> None:
            made = (at.load(x) - mean if centred else at.load(x)) * scale
            made = made * at.along(w) if weight else made
            at.store(made + at.along(b) if bias else made, y)

        row.map(step)

    rows(k, kind, False, body)


@kernel
def layer_slope(k: Builder, kind: str, centred: bool, weight: bool) -> None:
    """The gradient for x, and each chunk's sums of ``g * unit`` and ``g``."""
    g, x, w, means, variances, made, to_weight, to_bias, eps = *(k.array() for _ in range(8)), k.number(register_kind(kind))
    parts: list[Value] = []

    def chunk(c: Value, count: Value, n: Value) -> None:
        parts[:] = [_zeroed(k, kind, pointer, c, n) for pointer in (to_weight, to_bias)[: 1 + centred]]

    def body(row: Row) -> None:
        mean = row.take(means) if centred else k.const(0, row.kind)
        scale = 1.0 / k.sqrt(row.take(variances) + eps)

        def both(at: Place) -> tuple[Value, Value]:
            straight = at.load(g) * at.along(w) if weight else at.load(g)
            return straight, at.load(x) - mean if centred else at.load(x)

        def terms(at: Place) -> tuple[Value, Value]:
            straight, apart = both(at)
            return straight, straight * apart

        total, product = row.total(terms, 2)
        middle, slope = total / row.count, product * scale * scale / row.count

        def step(at: Place) -> None:
            straight, apart = both(at)
            sums = [at.along(part) + each for part, each in zip(parts, (at.load(g) * (apart * scale), at.load(g)), strict=False)]
            at.store(((straight - middle if centred else straight) - apart * slope) * scale, made)
            for part, each in zip(parts, sums, strict=True):
                at.put_along(each, part)

        row.map(step)

    rows(k, kind, False, body, chunk=chunk)


def _zeroed(k: Builder, kind: str, sums: Value, c: Value, n: Value) -> Value:
    """Chunk c's row of ``sums``, filled with zeros."""
    kind = register_kind(kind)
    part, lanes = k.at(sums, c * n, kind), k.lanes(kind)
    k.vector_loop(0, n, lanes, lambda j, mask: k.store(k.const(0, kind, lanes), part, j, kind, mask))
    return part


def _parameters(row: Row, along: bool, period: Value, *pointers: Value) -> Callable[[Any], list[Value]]:
    """The values at a place of parameters along the rows, or per row, ``period`` rows having different ones."""
    fixed = [] if along else [row.k.load(pointer, row.index % period, row.kind) for pointer in pointers]
    return lambda at: [at.along(pointer) for pointer in pointers] if along else fixed


@kernel
def row_moments(k: Builder, kind: str) -> None:
    """Each row's mean and sum of squared differences from it."""
    x, means, squares = k.array(), k.array(), k.array()

    def body(row: Row) -> None:
        for value, array in zip(row.moments(x), (means, squares), strict=True):
            row.put(value, array)

    rows(k, kind, False, body)


@kernel
def moments_along(k: Builder, kind: str) -> None:
    """Each chunk's sums along the rows, and sums of squared differences from the chunk's means."""
    x, sums, squares = k.array(), k.array(), k.array()
    state: list[Value] = []

    def chunk(c: Value, count: Value, n: Value) -> None:
        state[:] = [*(_zeroed(k, kind, pointer, c, n) for pointer in (sums, squares)), 1.0 / k.cast(count, register_kind(kind))]

    def square(at: Place) -> None:
        middle, total = at.along(state[0]) * state[2], at.along(state[1])
        squares = [(each - middle) * (each - middle) for each in at.load_all(x)]
        at.put_along(total + _sum(squares), state[1])

    def add(at: Place) -> None:
        at.put_along(at.along(state[0]) + _sum(at.load_all(x)), state[0])

    rows(k, kind, False, lambda row: row.map(add), lambda row: row.map(square), chunk=chunk, together=_TOGETHER)


def _sum(values: list[Value]) -> Value:
    """Pairwise."""
    half = len(values) // 2
    return _sum(values[:half]) + _sum(values[half:]) if half else values[0]


@kernel
def row_products(k: Builder, kind: str, scales: bool) -> None:
    """Each row's sums of g and of ``g * (x - mean)``; with ``scales`` also ``g * factor``."""
    g, x, means, sums, products, factors, made, period = *(k.array() for _ in range(7)), k.integer()

    def body(row: Row) -> None:
        mean, factor = _parameters(row, False, period, means, factors if scales else means)(None)

        def terms(at: Place) -> tuple[Value, Value]:
            slope = at.load(g)
            terms = slope, slope * (at.load(x) - mean)
            if scales:
                at.store(slope * factor, made)
            return terms

        for value, array in zip(row.total(terms, 2), (sums, products), strict=True):
            row.put(value, array)

    rows(k, kind, False, body)


@kernel
def products_along(k: Builder, kind: str, scales: bool) -> None:
    """Each chunk's sums along the rows of g and of ``g * (x - mean)``; with ``scales`` also ``g * factor``."""
    g, x, means, sums, products, factors, made, _ = *(k.array() for _ in range(7)), k.integer()
    parts: list[Value] = []

    def chunk(c: Value, count: Value, n: Value) -> None:
        parts[:] = [_zeroed(k, kind, pointer, c, n) for pointer in (sums, products)]

    def step(at: Place) -> None:
        slope = at.load(g)
        totals = at.along(parts[0]) + slope, at.along(parts[1]) + slope * (at.load(x) - at.along(means))
        if scales:
            at.store(slope * at.along(factors), made)
        for part, each in zip(parts, totals, strict=True):
            at.put_along(each, part)

    rows(k, kind, False, lambda row: row.map(step), chunk=chunk)


_PRODUCTS = row_products, products_along


@kernel
def row_slopes(k: Builder, kind: str) -> None:
    """What ``row_products`` gives, and the gradient for x of rows that are normalized on their own."""
    g, x, means, sums, products, scales, factors, made = (k.array() for _ in range(8))

    def body(row: Row) -> None:
        mean, scale, factor = row.take(means), row.take(scales), row.take(factors)

        def terms(at: Place) -> tuple[Value, Value]:
            slope = at.load(g)
            return slope, slope * (at.load(x) - mean)

        total, product = row.total(terms, 2)
        row.put(total, sums)
        row.put(product, products)
        middle, slope = total / row.count, product * scale * scale / row.count
        row.map(lambda at: at.store((at.load(g) - middle - (at.load(x) - mean) * slope) * factor, made))

    rows(k, kind, False, body)


@kernel
def scaled(k: Builder, kind: str, along: bool) -> None:
    """``(x - mean) * factor + shift``."""
    x, means, factors, shifts, y, period = *(k.array() for _ in range(5)), k.integer()

    def body(row: Row) -> None:
        values = _parameters(row, along, period, means, factors, shifts)

        def step(at: Place) -> None:
            mean, factor, shift = values(at)
            at.store(k.fma(at.load(x) - mean, factor, shift), y)

        row.map(step)

    rows(k, kind, False, body)


@kernel
def combined(k: Builder, kind: str, along: bool) -> None:
    """``a * g + b * (x - mean) + c``."""
    g, x, means, a, b, c, made, period = *(k.array() for _ in range(7)), k.integer()

    def body(row: Row) -> None:
        values = _parameters(row, along, period, means, a, b, c)

        def step(at: Place) -> None:
            mean, factor, slope, shift = values(at)
            at.store(k.fma(at.load(g), factor, k.fma(at.load(x) - mean, slope, shift)), made)

        row.map(step)

    rows(k, kind, False, body)


# -- layer and RMS norm --------------------------------------------------------------------------------------------------------------------
def _wide(kind: str) -> type:
    """The dtype of statistics and parameters in kernels."""
    return np.float64 if kind == "f64" else np.float32


def _parameter(array: np.ndarray | None, kind: str) -> np.ndarray:
    return _NOTHING if array is None else np.ascontiguousarray(array, _wide(kind))


def _by_channels(array: np.ndarray) -> bool:
    """Whether channels are innermost in memory, so that results must follow."""
    return array.ndim > 2 and not array.flags.c_contiguous and np.moveaxis(array, 1, -1).flags.c_contiguous


def _kind(input: np.ndarray, *parameters: np.ndarray | None) -> str | None:
    """The kind to compute with; None where the reference kernel is to do it, or to complain."""
    if not all(each is None or each.dtype in (input.dtype, np.float32) for each in parameters):
        return None
    return float_kind(input)


def _layer(input: np.ndarray, weight: Any, bias: Any, width: int, eps: float, centred: bool) -> Arrays | None:
    kind = _kind(input, weight, bias)
    if kind is None or (input.ndim > 3 and not input.flags.c_contiguous):  # which may be channels-last
        return None
    made, count = empty(input.shape, input.dtype), input.size // width
    mean, variance = np.empty((count, 1), _wide(kind)), np.empty((count, 1), _wide(kind))
    get = layer_rows(kind, centred, weight is not None, bias is not None)
    given = np.ascontiguousarray(input), _parameter(weight, kind), _parameter(bias, kind)
    run(get, kind, (count, width, 1), *given, made, mean, variance, float(eps))
    return made, mean, variance


def _layer_backward(
    grad: np.ndarray, input: np.ndarray, weight: Any, mean: np.ndarray, variance: np.ndarray, width: int, eps: float, centred: bool
) -> Arrays | None:
    kind = _kind(input, weight)
    if kind is None or grad.dtype != input.dtype or (input.ndim > 3 and not input.flags.c_contiguous):
        return None
    made, view = empty(input.shape, input.dtype), (input.size // width, width, 1)
    units, per = rows_per_chunk(kind, view, _PARTS)
    sums = [np.empty((-(-units // per), width), _wide(kind)) for _ in range(1 + centred)]
    given = np.ascontiguousarray(grad), np.ascontiguousarray(input), _parameter(weight, kind), mean, variance
    run(layer_slope(kind, centred, weight is not None), kind, view, *given, made, sums[0], sums[-1], float(eps), chunks=_PARTS)
    dtype = input.dtype if weight is None else weight.dtype
    return made, *(np.add.reduce(each, 0).astype(dtype, copy=False) for each in sums)


@native("nn.functional._layer_norm")
def layer_norm(input: np.ndarray, weight: Any, bias: Any, view: Ints, axes: Ints, affine: Ints, eps: float) -> Arrays | None:
    return _layer(input, weight, bias, view[1], eps, True)


@native("nn.functional._rms_norm")
def rms_norm(input: np.ndarray, weight: Any, width: int, eps: float) -> Arrays | None:
    made = _layer(input, weight, None, width, eps, False)
    return None if made is None else (made[0], made[2])


@native("nn.functional._rms_norm_backward")
def rms_norm_backward(grad_output: np.ndarray, input: np.ndarray, weight: Any, square: np.ndarray, width: int, eps: float) -> Arrays | None:
    return _layer_backward(grad_output, input, weight, square, square, width, eps, False)


# -- batch, group and instance norm --------------------------------------------------------------------------------------------------------
class _Rows:
    """How batch, group or instance norm sees an input of shape ``view``, whose ``axes`` are averaged over.

    Attributes:
        along: whether parameters lie along the rows, of which then ``tile`` are taken as one; ``moved``: whether channels are innermost.
        seen: what ``run`` takes.
        lead: shape of an array with one element for each row (not along), which are ``shared`` by samples or not.
        axes: those that numbers of rows are averaged over; ``count``: elements of each average.
    """

    def __init__(self, input: np.ndarray, view: Ints, axes: Ints, kind: str):
        last = len(view) - 1
        self.kind, self.dtype, self.moved = kind, _wide(kind), _by_channels(input)
        self.along = self.moved or (view[-1] == 1 and axes == (0, 2))
        self.count = math.prod([view[axis] for axis in axes])
        self.axes = tuple([axis for axis in axes if axis != last])
        self.lead, self.shared, self.tile, self.channels = (*view[:-1], 1), 0 in axes, 1, view[1]
        self.seen = math.prod(view[:-1]), view[-1], 1
        if self.along:
            count = input.size // self.channels
            while self.tile * self.channels < _TILE and count % (2 * self.tile) == 0:
                self.tile *= 2
            self.seen = count // self.tile, self.channels * self.tile, 1

    def flat(self, array: np.ndarray) -> np.ndarray:
        """``array`` as the kernels read it."""
        return np.ascontiguousarray(np.moveaxis(array, 1, -1) if self.moved else array)

    def parameter(self, value: np.ndarray) -> np.ndarray:
        """Numbers that broadcast to ``lead``, as the kernels read them."""
        value = value.astype(self.dtype)
        if self.along:
            return np.tile(np.broadcast_to(value, (1, self.channels, 1)).reshape(-1), self.tile)
        return np.ascontiguousarray(np.broadcast_to(value, (1, *self.lead[1:]) if self.shared else self.lead))

    def map(self, kernel: Any, like: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
        """Run a kernel whose last array is its result; the result, of the shape and memory layout of ``like``."""
        flat, made = self.result(like)
        run(kernel(self.kind, self.along), self.kind, self.seen, *arguments, flat, arguments[-1].size)
        return made

    def result(self, like: np.ndarray) -> Arrays:
        """A new array as the kernels write it, and as it is seen: in shape and memory layout as ``like``."""
        flat = empty((like.shape[0], *like.shape[2:], like.shape[1]) if self.moved else like.shape, like.dtype)
        return flat, np.moveaxis(flat, -1, 1) if self.moved else flat

    def sums(self, kernels: tuple[Any, Any], flags: Any, arrays: Any, more: Any = ()) -> tuple[np.ndarray, np.ndarray, Any]:
        """The two sums of a kernel in float64, in shape ``lead`` or ``(parts, channels, 1)``, and how many elements each is over.

        Args:
            kernels: that for sums of rows, and that for sums along them; ``flags``: their specification.
            arrays, more: arguments before and after the sums.
        """
        get = kernels[self.along](self.kind, *flags)
        if not self.along:
            made = [np.empty(self.lead, self.dtype) for _ in range(2)]
            run(get, self.kind, self.seen, *arrays, *made, *more)
            return made[0].astype(np.float64), made[1].astype(np.float64), self.seen[1]
        units, per = rows_per_chunk(self.kind, self.seen, _PARTS)
        per = min(per, _SUMMED)
        parts = -(-units // per)
        made = [np.empty((parts, self.seen[1]), self.dtype) for _ in range(2)]
        given = [id(each) if isinstance(each, np.ndarray) else each for each in (*arrays, *made, *more)]
        get(parts, *given, self.seen[1], 1, units, per)
        counts = np.minimum(per, units - per * np.arange(parts))
        first, second = (each.astype(np.float64).reshape(-1, self.channels, 1) for each in made)
        return first, second, np.repeat(counts, self.tile)[:, None, None]

    def total(self, sums: np.ndarray) -> np.ndarray:
        """Sums of sums, one for each average."""
        return sums.sum(0 if self.along else self.axes, keepdims=True)

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance, from those of rows or parts as in Chan, Golub, LeVeque 1979."""
        sums, squares, count = self.sums((row_moments, moments_along), (), (x,))
        mean = sums / count if self.along else sums
        middle = self.total(sums if self.along else sums * count) / self.count
        mean -= middle
        mean *= mean
        mean *= count
        return middle, (self.total(squares) + self.total(mean)) / self.count


def _rows_of(input: np.ndarray, view: Ints, axes: Ints, *parameters: np.ndarray | None) -> _Rows | None:
    """None where the reference kernel is the better way, or has to complain."""
    kind = _kind(input, *parameters)
    if kind is None or (axes != (0, 2) and (view[-1] < 8 or _by_channels(input))):
        return None
    if input.ndim > 3 and not input.flags.c_contiguous and not _by_channels(input):
        return None
    return _Rows(input, view, axes, kind)


def _in_shape(array: np.ndarray | None, shape: Ints, missing: float) -> np.ndarray:
    return np.full((1,) * len(shape), missing) if array is None else array.astype(np.float64).reshape(shape)


@native("nn.functional._batch_norm", "nn.functional._group_norm")
def normalized(input: np.ndarray, weight: Any, bias: Any, view: Ints, axes: Ints, affine: Ints, eps: float) -> Arrays | None:
    rows = _rows_of(input, view, axes, weight, bias)
    if rows is None:
        return None
    x = rows.flat(input)
    mean, variance = rows.moments(x)
    factor = _in_shape(weight, affine, 1.0) / np.sqrt(variance + eps)
    parameters = [rows.parameter(each) for each in (mean, factor, _in_shape(bias, affine, 0.0))]
    return rows.map(scaled, input, x, *parameters), mean.astype(rows.dtype), variance.astype(rows.dtype)


@native("nn.functional._normalized_backward")
def normalized_backward(
    grad_output: np.ndarray, input: np.ndarray, weight: Any, mean: Any, variance: Any, view: Ints, axes: Ints, affine: Ints, eps: float
) -> Arrays | None:
    if len(view) == 2:
        return _layer_backward(grad_output, input, weight, mean, variance, view[1], eps, True)
    rows = _rows_of(input, view, axes, weight)
    if rows is None or grad_output.dtype != input.dtype:
        return None
    g, x, middle = rows.flat(grad_output), rows.flat(input), rows.parameter(mean)
    scale, factors = 1 / np.sqrt(variance.astype(np.float64) + eps), _in_shape(weight, affine, 1.0)
    if not rows.axes:
        flat, made = rows.result(input)
        more = rows.parameter(scale), rows.parameter(scale * factors), flat
        ones, units, _ = rows.sums((row_slopes, None), (), (g, x, middle), more)
    else:
        ones, units, _ = rows.sums(_PRODUCTS, (False,), (g, x, middle), (_NOTHING, _NOTHING, middle.size))
        if rows.along:
            ones, units = rows.total(ones), rows.total(units)
        of_ones, of_units = ((each * factors).sum(rows.axes, keepdims=True) / rows.count for each in (ones, units))
        coefficients = scale * factors, -(scale**3) * of_units, -scale * of_ones
        made = rows.map(combined, input, g, x, middle, *[rows.parameter(each) for each in coefficients])
    summed = tuple([axis for axis, size in enumerate(affine) if size == 1])
    dtype = input.dtype if weight is None else weight.dtype
    return made, (units * scale).sum(summed, keepdims=True).astype(dtype), ones.sum(summed, keepdims=True).astype(dtype)


def _fixed_rows(input: np.ndarray, *parameters: np.ndarray | None) -> _Rows | None:
    if input.ndim < 2 or not (input.flags.c_contiguous or _by_channels(input)):
        return None
    return _rows_of(input, (input.shape[0], input.shape[1], math.prod(input.shape[2:])), (0, 2), *parameters)


@native("nn.functional._batch_norm_fixed")
def batch_norm_fixed(input: np.ndarray, mean: np.ndarray, variance: np.ndarray, weight: Any, bias: Any, eps: float) -> np.ndarray | None:
    rows = _fixed_rows(input, mean, variance, weight, bias)
    if rows is None:
        return None
    affine = (1, -1, 1)
    factor = _in_shape(weight, affine, 1.0) / np.sqrt(_in_shape(variance, affine, 1.0) + eps)
    parameters = [rows.parameter(each) for each in (mean.reshape(affine), factor, _in_shape(bias, affine, 0.0))]
    return rows.map(scaled, input, rows.flat(input), *parameters)


@native("nn.functional._batch_norm_fixed_backward")
def batch_norm_fixed_backward(
    grad_output: np.ndarray, input: np.ndarray, mean: np.ndarray, variance: np.ndarray, weight: Any, eps: float
) -> Arrays | None:
    rows = _fixed_rows(input, mean, variance, weight)
    if rows is None or grad_output.dtype != input.dtype:
        return None
    affine = (1, -1, 1)
    g, middle, scale = rows.flat(grad_output), rows.parameter(mean.reshape(affine)), 1 / np.sqrt(_in_shape(variance, affine, 1.0) + eps)
    factor, (flat, made) = rows.parameter(scale * _in_shape(weight, affine, 1.0)), rows.result(input)
    ones, units, _ = rows.sums(_PRODUCTS, (True,), (g, rows.flat(input), middle), (factor, flat, middle.size))
    dtype = input.dtype if weight is None else weight.dtype
    to_weight, to_bias = ((each * by).sum((0, 2)).astype(dtype) for each, by in ((units, scale), (ones, 1.0)))
    return made, to_weight, to_bias
