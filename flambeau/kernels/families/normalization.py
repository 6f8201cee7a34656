"""Normalization: layer and RMS norm in one kernel each way; batch, group and instance norm as sums, then one pass over all elements.

Batch, group and instance norm see their input as rows with one set of parameters each, ``(N * C, P)``, or where channels are innermost,
as rows ``along`` which the parameters lie, ``(N * P, C)``.  These kernels only sum and map; what is done once for each channel,
in float64, is a small kernel's for batch norm (``channel_...``) and NumPy's elsewhere:

    forward     moments of each row or column      ->  mean, variance  ->  (x - mean) * factor + shift
    backward    sums of g and of g * (x - mean)    ->  a, b, c         ->  a * g + b * (x - mean) + c
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import Builder, Value, register_element
from ..compiler.memory import empty
from . import channel_norms
from .group_norms import groups
from .reduction import reduce
from .rows import NOTHING, Place, Row, as_parameter, float_element, rows, rows_per_chunk, run, wide_dtype

_TILE = 128  # elements that a row with parameters along it should have at least; shorter ones are taken several at once
_SUMMED = 1024  # rows whose sums along them go into one number: more would lose digits in float32
_TOGETHER = 4  # rows that are summed in registers before they are added to the sums along them
_PARTS = 32  # partial sums along rows at most, unless there are more than 1024 rows for each
_MANY = 8  # groups from which on each is normalised by itself
_FOLDED = 4096  # steps of 16 channels that a chunk should have
_KEPT = 1024  # forms of inputs that are remembered


Ints = tuple[int, ...]
Arrays = tuple[np.ndarray, ...]


# -- kernels ----------------------------------------------------------------------------------------------------------------------------
@kernel
def layer_rows(k: Builder, element: str, centred: bool, weight: bool, bias: bool) -> None:
    """``(x - mean) / sqrt(variance + eps) * w + b``; not ``centred``, with 0 and the mean square instead."""
    x, w, b, y, means, variances, eps = *(k.array() for _ in range(6)), k.number(register_element(element))

    def body(row: Row) -> None:
        if centred:
            mean, squares = row.moments(x)
            row.put(mean, means)
        else:
            mean, squares = k.const(0, row.element), row.total(lambda at: at.load(x) * at.load(x))
        variance = squares / row.count
        row.put(variance, variances)
        scale = 1.0 / k.sqrt(variance + eps)

        def step(at: Place) -> None:
            value = (at.load(x) - mean if centred else at.load(x)) * scale
            value = value * at.along(w) if weight else value
            at.store(value + at.along(b) if bias else value, y)

        row.map(step)

    rows(k, element, False, body)


@kernel
def layer_slope(k: Builder, element: str, centred: bool, weight: bool) -> None:
    """The gradient for x, and each chunk's sums of ``g * unit`` and ``g``."""
    g, x, w, means, variances, result, to_weight, to_bias, eps = *(k.array() for _ in range(8)), k.number(register_element(element))
    parts: list[Value] = []

    def chunk(c: Value, count: Value, n: Value) -> None:
        parts[:] = [_zeroed(k, element, pointer, c, n) for pointer in (to_weight, to_bias)[: 1 + centred]]

    def body(row: Row) -> None:
        mean = row.take(means) if centred else k.const(0, row.element)
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
            sums = [at.along(part) + term for part, term in zip(parts, (at.load(g) * (apart * scale), at.load(g)), strict=False)]
            at.store(((straight - middle if centred else straight) - apart * slope) * scale, result)
            for part, value in zip(parts, sums, strict=True):
                at.put_along(value, part)

        row.map(step)

    rows(k, element, False, body, chunk=chunk)


def _zeroed(k: Builder, element: str, sums: Value, c: Value, n: Value) -> Value:
    """Chunk c's row of ``sums``, filled with zeros."""
    element = register_element(element)
    part, lanes = k.at(sums, c * n, element), k.lanes(element)
    k.vector_loop(0, n, lanes, lambda j, mask: k.store(k.const(0, element, lanes), part, j, element, mask))
    return part


def _parameters(row: Row, along: bool, period: Value, *pointers: Value) -> Callable[[Any], list[Value]]:
    """The values at a place of parameters along the rows, or per row, ``period`` rows having different ones."""
    fixed = [] if along else [row.k.load(pointer, row.index % period, row.element) for pointer in pointers]
    return lambda at: [at.along(pointer) for pointer in pointers] if along else fixed


@kernel
def row_moments(k: Builder, element: str) -> None:
    """Each row's mean and sum of squared differences from it."""
    x, means, squares = k.array(), k.array(), k.array()

    def body(row: Row) -> None:
        for value, array in zip(row.moments(x), (means, squares), strict=True):
            row.put(value, array)

    rows(k, element, False, body)


@kernel
def moments_along(k: Builder, element: str) -> None:
    """Each chunk's sums along the rows, and sums of squared differences from the chunk's means."""
    x, sums, squares = k.array(), k.array(), k.array()
    state: list[Value] = []

    def chunk(c: Value, count: Value, n: Value) -> None:
        state[:] = [*(_zeroed(k, element, pointer, c, n) for pointer in (sums, squares)), 1.0 / k.cast(count, register_element(element))]

    def square(at: Place) -> None:
        middle, total = at.along(state[0]) * state[2], at.along(state[1])
        squares = [(value - middle) * (value - middle) for value in at.load_all(x)]
        at.put_along(total + _sum(squares), state[1])

    def add(at: Place) -> None:
        at.put_along(at.along(state[0]) + _sum(at.load_all(x)), state[0])

    rows(k, element, False, lambda row: row.map(add), lambda row: row.map(square), chunk=chunk, together=_TOGETHER)


def _sum(values: list[Value]) -> Value:
    """Pairwise."""
    half = len(values) // 2
    return _sum(values[:half]) + _sum(values[half:]) if half else values[0]


@kernel
def row_products(k: Builder, element: str, scales: bool) -> None:
    """Each row's sums of g and of ``g * (x - mean)``; with ``scales`` also ``g * factor``."""
    g, x, means, sums, products, factors, result, period = *(k.array() for _ in range(7)), k.integer()

    def body(row: Row) -> None:
        mean, factor = _parameters(row, False, period, means, factors if scales else means)(None)

        def terms(at: Place) -> tuple[Value, Value]:
            slope = at.load(g)
            terms = slope, slope * (at.load(x) - mean)
            if scales:
                at.store(slope * factor, result)
            return terms

        for value, array in zip(row.total(terms, 2), (sums, products), strict=True):
            row.put(value, array)

    rows(k, element, False, body)


@kernel
def products_along(k: Builder, element: str, scales: bool) -> None:
    """Each chunk's sums along the rows of g and of ``g * (x - mean)``; with ``scales`` also ``g * factor``."""
    g, x, means, sums, products, factors, result, _ = *(k.array() for _ in range(7)), k.integer()
    parts: list[Value] = []

    def chunk(c: Value, count: Value, n: Value) -> None:
        parts[:] = [_zeroed(k, element, pointer, c, n) for pointer in (sums, products)]

    def step(at: Place) -> None:
        slope = at.load(g)
        totals = at.along(parts[0]) + slope, at.along(parts[1]) + slope * (at.load(x) - at.along(means))
        if scales:
            at.store(slope * at.along(factors), result)
        for part, total in zip(parts, totals, strict=True):
            at.put_along(total, part)

    rows(k, element, False, lambda row: row.map(step), chunk=chunk)


_MOMENTS, _PRODUCTS = (row_moments, moments_along), (row_products, products_along)


@kernel
def row_slopes(k: Builder, element: str) -> None:
    """Compute the sums that ``row_products`` does, and the gradient for x of rows that are normalized on their own."""
    g, x, means, sums, products, scales, factors, result = (k.array() for _ in range(8))

    def body(row: Row) -> None:
        mean, scale, factor = row.take(means), row.take(scales), row.take(factors)

        def terms(at: Place) -> tuple[Value, Value]:
            slope = at.load(g)
            return slope, slope * (at.load(x) - mean)

        total, product = row.total(terms, 2)
        row.put(total, sums)
        row.put(product, products)
        middle, slope = total / row.count, product * scale * scale / row.count
        row.map(lambda at: at.store((at.load(g) - middle - (at.load(x) - mean) * slope) * factor, result))

    rows(k, element, False, body)


@kernel
def scaled(k: Builder, element: str, along: bool) -> None:
    """``(x - mean) * factor + shift``."""
    x, means, factors, shifts, y, period = *(k.array() for _ in range(5)), k.integer()

    def body(row: Row) -> None:
        values = _parameters(row, along, period, means, factors, shifts)

        def step(at: Place) -> None:
            mean, factor, shift = values(at)
            at.store(k.fma(at.load(x) - mean, factor, shift), y)

        row.map(step, again=True)

    rows(k, element, False, body)


@kernel
def scaled_by_moments(k: Builder, element: str, weight: bool, bias: bool) -> None:
    """``scaled`` for rows whose moments are given, with the parameters that ``channel_parameters`` makes of them."""
    x, means, variances, w, b, y, eps, period = *(k.array() for _ in range(6)), k.number(), k.integer()

    def body(row: Row) -> None:
        channel = row.index % period

        def take(pointer: Value) -> Value:
            return k.load(pointer, channel, row.element)

        root = k.sqrt(k.cast(take(variances), "f64") + eps)
        factor = k.cast((k.cast(take(w), "f64") if weight else k.const(1.0, "f64")) / root, row.element)
        mean, shift = take(means), take(b) if bias else k.const(0.0, row.element)
        row.map(lambda at: at.store(k.fma(at.load(x) - mean, factor, shift), y), again=True)

    rows(k, element, False, body)


@kernel
def combined(k: Builder, element: str, along: bool) -> None:
    """``a * g + b * (x - mean) + c``."""
    g, x, means, a, b, c, result, period = *(k.array() for _ in range(7)), k.integer()

    def body(row: Row) -> None:
        values = _parameters(row, along, period, means, a, b, c)

        def step(at: Place) -> None:
            mean, factor, slope, shift = values(at)
            at.store(k.fma(at.load(g), factor, k.fma(at.load(x) - mean, slope, shift)), result)

        row.map(step, again=True)

    rows(k, element, False, body)


# -- kernels: once for each channel -------------------------------------------------------------------------------------------------------
class _Channels:
    """Some channels as a kernel sees them: one in each lane, computed in float64, from ``sums`` of ``rows`` rows or parts.

    The kernel's last arguments are those of ``_Rows.fold``.  Sums are added one after the other, as NumPy does it across rows.
    """

    def __init__(self, k: Builder, element: str):
        self.k, self.element, self.lanes = k, register_element(element), k.lanes("f64")
        self.channels, self.tile, self.width = (k.integer() for _ in range(3))
        self.j = k.const(0, "i64")
        self.mask: Value | None = None

    def each(self, body: Callable[[], None]) -> None:
        """``body()`` for all channels, ``width`` of them a chunk."""
        k, width = self.k, self.width

        def step(j: Value, mask: Value | None) -> None:
            self.j, self.mask = j, mask
            body()

        k.for_chunks(lambda c: k.vector_loop(c * width, k.least((c + 1) * width, self.channels), self.lanes, step))

    def take(self, pointer: Value, row: Any = None) -> Value:
        index = self.j if row is None else row * self.channels + self.j
        return self.k.cast(self.k.load(pointer, index, self.element, self.lanes, self.mask), "f64")

    def put(self, value: Value, pointer: Value, element: str = "") -> None:
        element = element or self.element
        self.k.store(self.k.cast(value, element), pointer, self.j, element, self.mask)

    def put_tiled(self, value: Value, pointer: Value) -> None:
        """Write the channels' numbers ``tile`` times, as ``Place.along`` reads them."""
        number = self.k.cast(value, self.element)
        self.k.loop(0, self.tile, lambda i: self.k.store(number, pointer, i * self.channels + self.j, self.element, self.mask))

    def totals(self, rows: Value, count: int, terms: Callable[[Value], Any]) -> Any:
        """The sums of ``count`` terms over the rows."""
        zeros = [self.k.const(-0.0, "f64", self.lanes)] * count
        return self.k.loop(0, rows, lambda row, *kept: tuple(a + b for a, b in zip(kept, terms(row), strict=True)), carried=zeros)


@kernel
def channel_moments(k: Builder, element: str, along: bool, weight: bool, bias: bool) -> None:
    """Mean and variance of channels from those of rows or parts, as in Chan, Golub, LeVeque 1979; with factor and shift."""
    sums, squares, w, b, means, variances, middles, factors, shifts = (k.array() for _ in range(9))
    rows, units, per, total, eps = k.integer(), k.integer(), k.integer(), k.number(), k.number()
    at = _Channels(k, element)

    def count(row: Value) -> Value:
        part = row // at.tile
        return k.cast(k.least(per, units - part * per) if along else per, "f64")

    def body() -> None:
        middle = at.totals(rows, 1, lambda row: (at.take(sums, row) if along else at.take(sums, row) * count(row),)) / total

        def terms(row: Value) -> tuple[Value, Value]:
            number = count(row)
            apart = (at.take(sums, row) / number if along else at.take(sums, row)) - middle
            return at.take(squares, row), apart * apart * number

        inner, outer = at.totals(rows, 2, terms)
        variance = (inner + outer) / total
        at.put(middle, means)
        at.put(variance, variances)
        _put_parameters(at, middle, variance, w if weight else None, b if bias else None, eps, middles, factors, shifts)

    at.each(body)


def _put_parameters(
    at: _Channels, mean: Value, variance: Value, w: Value | None, b: Value | None, eps: Value, middles: Value, factors: Value, shifts: Value
) -> None:
    one, nothing = (at.k.const(number, "f64", at.lanes) for number in (1.0, 0.0))
    at.put_tiled(mean, middles)
    at.put_tiled((one if w is None else at.take(w)) / at.k.sqrt(variance + eps), factors)
    at.put_tiled(nothing if b is None else at.take(b), shifts)


@kernel
def channel_parameters(k: Builder, element: str, weight: bool, bias: bool) -> None:
    """Compute the arguments of ``scaled`` from given moments."""
    means, variances, w, b, middles, factors, shifts, eps = *(k.array() for _ in range(7)), k.number()
    at = _Channels(k, element)

    def body() -> None:
        given = w if weight else None, b if bias else None
        _put_parameters(at, at.take(means), at.take(variances), *given, eps, middles, factors, shifts)

    at.each(body)


@kernel
def channel_factors(k: Builder, element: str, weight: bool) -> None:
    """Compute the arguments of ``row_products`` and ``products_along`` from given moments."""
    means, variances, w, middles, factors, eps = *(k.array() for _ in range(5)), k.number()
    at = _Channels(k, element)

    def body() -> None:
        scale = 1.0 / k.sqrt(at.take(variances) + eps)
        at.put_tiled(at.take(means), middles)
        at.put_tiled(scale * at.take(w) if weight else scale, factors)

    at.each(body)


@kernel
def channel_slopes(k: Builder, element: str, grad_element: str, along: bool, weight: bool) -> None:
    """From sums of products: coefficients of ``combined``, and gradients for weight and bias, of element type ``grad_element``."""
    sums, products, w, variances, a, b, c, to_weight, to_bias = (k.array() for _ in range(9))
    rows, total, eps = k.integer(), k.number(), k.number()
    at = _Channels(k, element)

    def body() -> None:
        scale = 1.0 / k.sqrt(at.take(variances) + eps)
        factor = at.take(w) if weight else k.const(1.0, "f64", at.lanes)

        def terms(row: Value) -> tuple[Value, ...]:
            one, unit = at.take(sums, row), at.take(products, row)
            return (one, unit) if along else (one, unit * scale, one * factor, unit * factor)

        ones, units, *more = at.totals(rows, 2 if along else 4, terms)
        of_ones, of_units = more or (ones * factor, units * factor)
        square, rest = k.two_product(scale, scale)  # so that the third power is as good as NumPy's
        at.put_tiled(scale * factor, a)
        at.put_tiled(-k.fma(square, scale, rest * scale) * (of_units / total), b)
        at.put_tiled(-scale * (of_ones / total), c)
        at.put(units * scale if along else units, to_weight, grad_element)
        at.put(ones, to_bias, grad_element)

    at.each(body)


@kernel
def channel_gradients(k: Builder, element: str, grad_element: str) -> None:
    """The gradients for weight and bias with given moments, of element type ``grad_element``."""
    sums, products, variances, to_weight, to_bias, rows, eps = *(k.array() for _ in range(5)), k.integer(), k.number()
    at = _Channels(k, element)

    def body() -> None:
        scale = 1.0 / k.sqrt(at.take(variances) + eps)
        ones, units = at.totals(rows, 2, lambda row: (at.take(sums, row), at.take(products, row) * scale))
        at.put(units, to_weight, grad_element)
        at.put(ones, to_bias, grad_element)

    at.each(body)


# -- layer and RMS norm --------------------------------------------------------------------------------------------------------------------
def _by_channels(array: np.ndarray) -> bool:
    """Whether channels are innermost in memory, so that results must follow."""
    return array.ndim > 2 and not array.flags.c_contiguous and np.moveaxis(array, 1, -1).flags.c_contiguous


def _element(input: np.ndarray, *parameters: np.ndarray | None) -> str | None:
    """The element type to compute with; None where the reference kernel is to do it, or to complain."""
    if not all(parameter is None or parameter.dtype in (input.dtype, np.float32) for parameter in parameters):
        return None
    return float_element(input.dtype)


@lru_cache(maxsize=1024)
def _layer_plan(element: str, centred: bool, has_weight: bool, has_bias: bool, count: int, width: int, eps: float) -> Callable[..., None]:
    """Function of the arrays that ``layer_rows`` takes, for so many rows."""
    units, per = rows_per_chunk(element, (count, width, 1))
    launch: Callable[..., None] = layer_rows(element, centred, has_weight, has_bias).call(-(-units // per), eps, width, 1, units, per)
    return launch


def _layer(input: np.ndarray, weight: Any, bias: Any, width: int, eps: float, centred: bool) -> Arrays | None:
    element = _element(input, weight, bias)
    is_row_major = input.flags.c_contiguous
    if element is None or (input.ndim > 3 and not is_row_major):  # which may be channels-last
        return None
    count, wide = input.size // width, wide_dtype(element)
    result, mean, variance = empty(input.shape, input.dtype), np.empty((count, 1), wide), np.empty((count, 1), wide)
    run = _layer_plan(element, centred, weight is not None, bias is not None, count, width, float(eps))
    x = input if is_row_major else np.ascontiguousarray(input)
    run(x, as_parameter(weight, element), as_parameter(bias, element), result, mean, variance)
    return result, mean, variance


def _layer_backward(
    grad: np.ndarray, input: np.ndarray, weight: Any, mean: np.ndarray, variance: np.ndarray, width: int, eps: float, centred: bool
) -> Arrays | None:
    element = _element(input, weight)
    if element is None or grad.dtype != input.dtype or (input.ndim > 3 and not input.flags.c_contiguous):
        return None
    result, view = empty(input.shape, input.dtype), (input.size // width, width, 1)
    units, per = rows_per_chunk(element, view, _PARTS)
    sums = [np.empty((-(-units // per), width), wide_dtype(element)) for _ in range(1 + centred)]
    given = np.ascontiguousarray(grad), np.ascontiguousarray(input), as_parameter(weight, element), mean, variance
    run(layer_slope(element, centred, weight is not None), element, view, *given, result, sums[0], sums[-1], float(eps), chunks=_PARTS)
    dtype, shape = (input.dtype, (width,)) if weight is None else (weight.dtype, weight.shape)
    totals = [reduce("sum", partial, 0) if partial.size else np.add.reduce(partial, 0) for partial in sums]
    totals = [total.astype(dtype, copy=False) for total in totals]
    # a view would be copied on its way to ``.grad``
    return result, *[total if total.shape == shape else total.reshape(shape) for total in totals]


@native("nn.functional._layer_norm", overwrites=1)
def layer_norm(input: np.ndarray, weight: Any, bias: Any, view: Ints, axes: Ints, affine: Ints, eps: float) -> Arrays | None:
    return _layer(input, weight, bias, view[1], eps, True)


@native("nn.functional._rms_norm")
def rms_norm(input: np.ndarray, weight: Any, width: int, eps: float) -> Arrays | None:
    results = _layer(input, weight, None, width, eps, False)
    return None if results is None else (results[0], results[2])


@native("nn.functional._rms_norm_backward")
def rms_norm_backward(grad_output: np.ndarray, input: np.ndarray, weight: Any, square: np.ndarray, width: int, eps: float) -> Arrays | None:
    return _layer_backward(grad_output, input, weight, square, square, width, eps, False)


# -- batch, group and instance norm --------------------------------------------------------------------------------------------------------
class _Rows:
    """View of an input of batch, group or instance norm: shape ``view``, averaged over ``axes``; the same for all inputs alike.

    Attributes:
        along: whether parameters lie along the rows, of which then ``tile`` are taken as one; ``moved``: whether channels are innermost.
        lead: shape of an array with one element for each row (not along).
        axes: those that numbers of rows are averaged over; ``count``: elements of each average.
        by_channel: whether it is batch norm, where each channel has one mean.
        mapping, summing: chunks, and the last arguments of kernels that map or sum rows.
        partial: shape of sums; ``units``, ``per``: rows (of which ``tile`` are one) in all and for each part (along).
        folding: chunks, and the last arguments of kernels with one step for each channel.
    """

    def __init__(self, input: np.ndarray, view: Ints, axes: Ints, element: str):
        last = len(view) - 1
        self.element, self.dtype, self.moved = element, wide_dtype(element), _by_channels(input)
        self.along = self.moved or (view[-1] == 1 and axes == (0, 2))
        self.count = math.prod([view[axis] for axis in axes])
        self.axes = tuple([axis for axis in axes if axis != last])
        self.lead, self.tile, self.channels = (*view[:-1], 1), 1, view[1]
        self.by_channel = axes == (0, 2)
        self.channel_by_channel = self.by_channel and not self.along and channel_norms.fits(view, element)
        self.to_rows = (0, *range(2, input.ndim), 1)
        self.from_rows = (0, input.ndim - 1, *range(1, input.ndim - 1))
        seen = math.prod(view[:-1]), view[-1], 1
        if self.along:
            count = input.size // self.channels
            while self.tile * self.channels < _TILE and count % (2 * self.tile) == 0:
                self.tile *= 2
            seen = count // self.tile, self.channels * self.tile, 1
        units, per = rows_per_chunk(element, seen)
        self.mapping = self.summing = -(-units // per), (*seen[1:], units, per)
        self.partial, self.units, self.per, rows = self.lead, units, seen[1], view[0]
        if self.along:
            self.per = per = min(rows_per_chunk(element, seen, _PARTS)[1], _SUMMED)
            parts = -(-units // per)
            self.summing, self.partial, rows = (parts, (*seen[1:], units, per)), (parts, seen[1]), parts * self.tile
        width = max(_FOLDED // max(rows, 1), 1) * 16
        self.rows, self.folding = rows, (-(-self.channels // width), (self.channels, self.tile, width))

    def flat(self, array: np.ndarray) -> np.ndarray:
        """``array`` as the kernels read it."""
        return np.ascontiguousarray(array.transpose(self.to_rows) if self.moved else array)

    def parameter(self, value: np.ndarray) -> np.ndarray:
        """Numbers that broadcast to ``lead``, as the kernels read them; not along."""
        array = np.empty(self.lead, self.dtype)
        array[...] = value
        return array

    def tiled(self, value: np.ndarray) -> np.ndarray:
        """One number for each channel, as the kernels read them."""
        value = np.ascontiguousarray(value, self.dtype)
        return value if self.tile == 1 else np.concatenate([value.reshape(-1)] * self.tile)

    def map(self, kernel: Any, like: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
        """Run a kernel whose last array is its result; the result, of the shape and memory layout of ``like``."""
        flat, result = self.result(like)
        chunks, more = self.mapping
        kernel(self.element, self.along)(chunks, *map(id, arguments), id(flat), arguments[-1].size, *more)
        return result

    def result(self, like: np.ndarray) -> Arrays:
        """A new array as the kernels write it, and as it is seen: in shape and memory layout as ``like``."""
        if not self.moved:
            flat = empty(like.shape, like.dtype)
            return flat, flat
        flat = empty((like.shape[0], *like.shape[2:], like.shape[1]), like.dtype)
        return flat, flat.transpose(self.from_rows)

    def partial_sums(self, kernels: tuple[Any, Any], flags: Any, arrays: Any, more: Any = (), period: Any = ()) -> Arrays:
        """The two sums of a kernel, of rows or parts.

        Args:
            kernels: that for sums of rows, and that for sums along them; ``flags``: their specification.
            arrays, more: arguments before and after the sums; ``period``: an integer that follows.
        """
        first, second = np.empty(self.partial, self.dtype), np.empty(self.partial, self.dtype)
        chunks, last = self.summing
        kernels[self.along](self.element, *flags)(chunks, *map(id, (*arrays, first, second, *more)), *period, *last)
        return first, second

    def sums(self, kernels: tuple[Any, Any], flags: Any, arrays: Any, more: Any = (), period: Any = ()) -> tuple[np.ndarray, np.ndarray]:
        """``partial_sums`` in float64, not along."""
        first, second = self.partial_sums(kernels, flags, arrays, more, period)
        return first.astype(np.float64), second.astype(np.float64)

    def fold(self, kernel: Any, arrays: Any, *numbers: Any) -> None:
        """Run a kernel with one step for each channel."""
        chunks, more = self.folding
        kernel(chunks, *map(id, arrays), *numbers, *more)

    def by_channels(self, count: int) -> list[np.ndarray]:
        """New arrays with one number for each channel, as ``scaled`` and ``combined`` take them."""
        return [np.empty(self.channels * self.tile, self.dtype) for _ in range(count)]

    def total(self, sums: np.ndarray) -> np.ndarray:
        """Sums of sums, one for each average."""
        return np.add.reduce(sums, self.axes, keepdims=True)

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance, from those of rows as in Chan, Golub, LeVeque 1979; not along."""
        mean, squares = self.sums(_MOMENTS, (), (x,))
        count = x.size // mean.size
        middle = self.total(mean * count) / self.count
        mean -= middle
        mean *= mean
        mean *= count
        return middle, (self.total(squares) + self.total(mean)) / self.count


_seen: dict[Any, _Rows | None] = {}  # by shapes, strides and dtypes


def _rows_of(input: np.ndarray, view: Ints, axes: Ints, *parameters: np.ndarray | None) -> _Rows | None:
    """None where the reference kernel is the better way, or has to complain."""
    key = input.shape, input.strides, input.dtype, view, axes, *[None if parameter is None else parameter.dtype for parameter in parameters]
    try:
        return _seen[key]
    except KeyError:
        if len(_seen) >= _KEPT:
            _seen.clear()
        rows = _seen[key] = _new_rows(input, view, axes, *parameters)
        return rows


def _new_rows(input: np.ndarray, view: Ints, axes: Ints, *parameters: np.ndarray | None) -> _Rows | None:
    element = _element(input, *parameters)
    if element is None or (axes != (0, 2) and (view[-1] < 8 or _by_channels(input))):
        return None
    if input.ndim > 3 and not input.flags.c_contiguous and not _by_channels(input):
        return None
    return _Rows(input, view, axes, element)


def _in_shape(array: np.ndarray | None, shape: Ints, missing: float) -> np.ndarray:
    return np.full((1,) * len(shape), missing) if array is None else array.astype(np.float64).reshape(shape)


@native("nn.functional._batch_norm", overwrites=1)
@native("nn.functional._group_norm")
def normalized(input: np.ndarray, weight: Any, bias: Any, view: Ints, axes: Ints, affine: Ints, eps: float) -> Arrays | None:
    rows = _rows_of(input, view, axes, weight, bias)
    if rows is None:
        return None
    if not (rows.by_channel or rows.moved) and input.flags.c_contiguous and math.prod(view[: axes[0]]) >= _MANY:
        return groups(input, weight, bias, view, axes[0], eps, rows.element)
    x = rows.flat(input)
    if rows.channel_by_channel:
        return channel_norms.forward(x, weight, bias, view, affine, eps, rows.element)
    if rows.by_channel:
        sums = rows.partial_sums(_MOMENTS, (), (x,))
        mean, variance, (factor, shift) = np.empty(affine, rows.dtype), np.empty(affine, rows.dtype), rows.by_channels(2)
        middle = mean if rows.tile == 1 else rows.by_channels(1)[0]
        arrays = *sums, as_parameter(weight, rows.element), as_parameter(bias, rows.element), mean, variance, middle, factor, shift
        kernel = channel_moments(rows.element, rows.along, weight is not None, bias is not None)
        rows.fold(kernel, arrays, rows.rows, rows.units, rows.per, rows.count, float(eps))
        return rows.map(scaled, input, x, middle, factor, shift), mean, variance
    mean, variance = rows.moments(x)
    scale = _in_shape(weight, affine, 1.0) / np.sqrt(variance + eps)
    parameters = [rows.parameter(parameter) for parameter in (mean, scale, _in_shape(bias, affine, 0.0))]
    return rows.map(scaled, input, x, *parameters), mean.astype(rows.dtype), variance.astype(rows.dtype)


@native("nn.functional._normalized_backward", overwrites=2)
def normalized_backward(
    grad_output: np.ndarray, input: np.ndarray, weight: Any, mean: Any, variance: Any, view: Ints, axes: Ints, affine: Ints, eps: float
) -> Arrays | None:
    if len(view) == 2:
        return _layer_backward(grad_output, input, weight, mean, variance, view[1], eps, True)
    rows = _rows_of(input, view, axes, weight)
    if rows is None or grad_output.dtype != input.dtype:
        return None
    dtype, shape = (input.dtype, (math.prod(affine),)) if weight is None else (weight.dtype, weight.shape)
    g, x = rows.flat(grad_output), rows.flat(input)
    if rows.channel_by_channel:
        elements = rows.element, "f32" if dtype == np.float32 else "f64"
        result, to_weight, to_bias = channel_norms.backward(g, x, weight, (mean, variance), view, eps, elements)
        return result, to_weight.astype(dtype, copy=False), to_bias.astype(dtype, copy=False)
    if rows.by_channel:
        middle = rows.tiled(mean)
        sums = rows.partial_sums(_PRODUCTS, (False,), (g, x, middle), (NOTHING, NOTHING), (middle.size,))
        element, (to_weight, to_bias) = _gradients(dtype, shape)
        coefficients = rows.by_channels(3)
        arrays = *sums, as_parameter(weight, rows.element), np.ascontiguousarray(variance, rows.dtype), *coefficients, to_weight, to_bias
        kernel = channel_slopes(rows.element, element, rows.along, weight is not None)
        rows.fold(kernel, arrays, rows.rows, rows.count, float(eps))
        result = rows.map(combined, input, g, x, middle, *coefficients)
        return result, to_weight.astype(dtype, copy=False), to_bias.astype(dtype, copy=False)
    middle, scale, factors = rows.parameter(mean), 1 / np.sqrt(variance.astype(np.float64) + eps), _in_shape(weight, affine, 1.0)
    if not rows.axes:
        flat, result = rows.result(input)
        more = rows.parameter(scale), rows.parameter(scale * factors), flat
        ones, units = rows.sums((row_slopes, None), (), (g, x, middle), more)
    else:
        ones, units = rows.sums(_PRODUCTS, (False,), (g, x, middle), (NOTHING, NOTHING), (middle.size,))
        of_ones, of_units = (rows.total(term * factors) / rows.count for term in (ones, units))
        slopes = scale * factors, -(scale**3) * of_units, -scale * of_ones
        result = rows.map(combined, input, g, x, middle, *[rows.parameter(slope) for slope in slopes])
    summed = tuple([axis for axis, size in enumerate(affine) if size == 1])
    to_weight, to_bias = (np.add.reduce(gradient, summed).astype(dtype).reshape(shape) for gradient in (units * scale, ones))
    return result, to_weight, to_bias


def _gradients(dtype: np.dtype, shape: Ints) -> tuple[str, Arrays]:
    """Arrays for gradients that shall have ``dtype``, and their element type: float64 where they are not float32, to be rounded once."""
    element = "f32" if dtype == np.float32 else "f64"
    return element, (np.empty(shape, wide_dtype(element)), np.empty(shape, wide_dtype(element)))


def _fixed_rows(input: np.ndarray, *parameters: np.ndarray | None) -> _Rows | None:
    shape = input.shape
    if len(shape) < 2 or not (input.flags.c_contiguous or _by_channels(input)):
        return None
    return _rows_of(input, (shape[0], shape[1], math.prod(shape[2:])), (0, 2), *parameters)


@native("nn.functional._batch_norm_fixed")
def batch_norm_fixed(input: np.ndarray, mean: np.ndarray, variance: np.ndarray, weight: Any, bias: Any, eps: float) -> np.ndarray | None:
    rows = _fixed_rows(input, mean, variance, weight, bias)
    if rows is None:
        return None
    given = [as_parameter(parameter, rows.element) for parameter in (mean, variance, weight, bias)]
    if not rows.along:
        made, (chunks, more) = empty(input.shape, input.dtype), rows.mapping
        kernel = scaled_by_moments(rows.element, weight is not None, bias is not None)
        kernel(chunks, id(input), *map(id, given), id(made), float(eps), rows.channels, *more)
        return made
    parameters = rows.by_channels(3)
    rows.fold(channel_parameters(rows.element, weight is not None, bias is not None), (*given, *parameters), float(eps))
    return rows.map(scaled, input, rows.flat(input), *parameters)


@native("nn.functional._batch_norm_fixed_backward")
def batch_norm_fixed_backward(
    grad_output: np.ndarray, input: np.ndarray, mean: np.ndarray, variance: np.ndarray, weight: Any, eps: float
) -> Arrays | None:
    rows = _fixed_rows(input, mean, variance, weight)
    if rows is None or grad_output.dtype != input.dtype:
        return None
    dtype = input.dtype if weight is None else weight.dtype
    middle, factor = rows.by_channels(2)
    means, variances, weights = (as_parameter(parameter, rows.element) for parameter in (mean, variance, weight))
    rows.fold(channel_factors(rows.element, weight is not None), (means, variances, weights, middle, factor), float(eps))
    flat, result = rows.result(input)
    arrays = rows.flat(grad_output), rows.flat(input), middle
    sums = rows.partial_sums(_PRODUCTS, (True,), arrays, (factor, flat), (middle.size,))
    element, (to_weight, to_bias) = _gradients(dtype, variance.shape)
    rows.fold(channel_gradients(rows.element, element), (*sums, variances, to_weight, to_bias), rows.rows, float(eps))
    return result, to_weight.astype(dtype, copy=False), to_bias.astype(dtype, copy=False)
