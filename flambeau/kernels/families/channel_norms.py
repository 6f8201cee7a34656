"""Batch norm of contiguous images: each channel by itself, so that it is still in a cache when it is read again.

Sums are joined, and parameters made of them, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..compiler.arguments import Array, Integer, Number, Record
from ..compiler.build import kernel
from ..compiler.language import SIZES, Builder, Value, register_element
from ..compiler.memory import empty
from .rows import CHUNK, Row, as_parameter, wide_dtype

FEWEST = 8  # channels: with fewer, rows are shared out instead
LARGEST = 1 << 20  # bytes of a channel, which the second cache holds beside others
View = tuple[int, ...]  # images, channels, pixels


class Sizes(Record):
    images: Integer
    channels: Integer
    area: Integer
    per_chunk: Integer  # channels
    eps: Number


class ForwardArguments(Record):
    x: Array
    w: Array
    b: Array
    y: Array
    means: Array
    variances: Array
    sizes: Sizes


class BackwardArguments(Record):
    g: Array
    x: Array
    w: Array
    means: Array
    variances: Array
    result: Array
    to_weight: Array
    to_bias: Array
    sizes: Sizes


class _Channels:
    """Loops over channels and their rows, one of each image."""

    def __init__(self, k: Builder, element: str, sizes: Sizes):
        self.k, self.memory, self.element, self.sizes = k, element, register_element(element), sizes

    def each(self, body: Callable[[Value], Any]) -> None:
        k, s = self.k, self.sizes
        k.for_chunks(lambda i: k.loop(i * s.per_chunk, k.least((i + 1) * s.per_chunk, s.channels), lambda c: body(c) and None))

    def row(self, c: Value, n: Value) -> Row:
        s, index = self.sizes, n * self.sizes.channels + c
        return Row(self.k, self.memory, False, index * s.area, s.area, self.k.const(1, "i64"), index)

    def map(self, c: Value, step: Callable[[Any], Any]) -> None:
        self.k.loop(0, self.sizes.images, lambda n: self.row(c, n).map(step, again=True))

    def take(self, pointer: Value, c: Value) -> Value:
        return self.k.cast(self.k.load(pointer, c, self.element), "f64")

    def narrow(self, value: Value) -> Value:
        return self.k.cast(value, self.element)


@kernel
def channel_forwards(k: Builder, element: str, weight: bool, bias: bool) -> None:
    """Means, variances, and ``(x - mean) / sqrt(variance + eps) * w + b``."""
    a = k.arguments(ForwardArguments)
    at, count = _Channels(k, element, a.sizes), k.cast(a.sizes.area, "f64")

    def channel(c: Value) -> None:
        def row(n: Value, before: Value, mean: Value, squares: Value) -> tuple[Value, Value, Value]:
            here, inner = (k.cast(value, "f64") for value in at.row(c, n).moments(a.x))
            both, apart = before + count, here - mean
            return both, mean + apart * (count / both), squares + inner + apart * apart * (before * count / both)

        zero = k.const(0, "f64")
        total, mean, squares = k.loop(0, a.sizes.images, row, carried=[zero, zero, zero])
        variance = squares / total
        for value, pointer in ((mean, a.means), (variance, a.variances)):
            k.store(at.narrow(value), pointer, c, at.element)
        factor = at.narrow((at.take(a.w, c) if weight else 1.0) / k.sqrt(variance + a.sizes.eps))
        middle, shift = at.narrow(mean), at.narrow(at.take(a.b, c)) if bias else k.const(0, at.element)
        at.map(c, lambda place: place.store(k.fma(place.load(a.x) - middle, factor, shift), a.y))

    at.each(channel)


@kernel
def channel_backwards(k: Builder, element: str, grad_element: str, weight: bool) -> None:
    """Gradients for x, and for weight and bias, of element type ``grad_element``."""
    a = k.arguments(BackwardArguments)
    at = _Channels(k, element, a.sizes)

    def channel(c: Value) -> None:
        middle = k.load(a.means, c, at.element)
        scale = 1.0 / k.sqrt(at.take(a.variances, c) + a.sizes.eps)

        def terms(place: Any) -> tuple[Value, Value]:
            slope = place.load(a.g)
            return slope, slope * (place.load(a.x) - middle)

        def row(n: Value, ones: Value, units: Value) -> tuple[Value, Value]:
            one, unit = at.row(c, n).total(terms, 2)
            return ones + k.cast(one, "f64"), units + k.cast(unit, "f64")

        zero = k.const(0, "f64")
        ones, units = k.loop(0, a.sizes.images, row, carried=[zero, zero])
        for value, pointer in ((units * scale, a.to_weight), (ones, a.to_bias)):
            k.store(k.cast(value, grad_element), pointer, c, grad_element)
        factor = at.take(a.w, c) * scale if weight else scale
        total = k.cast(a.sizes.images * a.sizes.area, "f64")
        first, slope, shift = (at.narrow(value) for value in (factor, -factor * scale * scale * (units / total), -factor * (ones / total)))
        at.map(c, lambda p: p.store(k.fma(p.load(a.g), first, k.fma(p.load(a.x) - middle, slope, shift)), a.result))

    at.each(channel)


def fits(view: View, element: str) -> bool:
    """Whether it is the better way."""
    return view[1] >= FEWEST and view[0] * view[2] * SIZES[element] <= LARGEST


def _bound(kernel: Any, view: View, element: str, eps: float) -> Callable[..., None]:
    images, channels, area = view
    per_chunk = max(1, CHUNK // (images * area * SIZES[element]))
    sizes = Sizes(images=images, channels=channels, area=area, per_chunk=per_chunk, eps=eps)
    bound: Callable[..., None] = kernel.bind(-(-channels // per_chunk), sizes=sizes)
    return bound


@lru_cache(maxsize=1024)
def _forward(view: View, element: str, weight: bool, bias: bool, eps: float) -> Callable[..., None]:
    return _bound(channel_forwards(element, weight, bias), view, element, eps)


@lru_cache(maxsize=1024)
def _backward(view: View, element: str, grad_element: str, weight: bool, eps: float) -> Callable[..., None]:
    return _bound(channel_backwards(element, grad_element, weight), view, element, eps)


def forward(input: np.ndarray, weight: Any, bias: Any, view: View, affine: tuple[int, ...], eps: float, element: str) -> tuple[Any, ...]:
    """Result, means and variances."""
    result, dtype = empty(input.shape, input.dtype), wide_dtype(element)
    means, variances = np.empty(affine, dtype), np.empty(affine, dtype)
    w, b = as_parameter(weight, element), as_parameter(bias, element)
    _forward(view, element, weight is not None, bias is not None, float(eps))(x=input, w=w, b=b, y=result, means=means, variances=variances)
    return result, means, variances


def backward(
    grad: np.ndarray, input: np.ndarray, weight: Any, moments: tuple[Any, Any], view: View, eps: float, elements: tuple[str, str]
) -> tuple[Any, ...]:
    """Gradients for the input, weight and bias; ``elements``: of the input, and of the latter two in memory."""
    element, grad_element = elements
    result, dtype = empty(input.shape, input.dtype), wide_dtype(grad_element)
    to_weight, to_bias = np.empty(view[1], dtype), np.empty(view[1], dtype)
    means, variances = (np.ascontiguousarray(moment, wide_dtype(element)) for moment in moments)
    launch = _backward(view, element, grad_element, weight is not None, float(eps))
    launch(
        g=grad, x=input, w=as_parameter(weight, element), means=means, variances=variances, result=result, to_weight=to_weight,
        to_bias=to_bias,
    )  # fmt: skip
    return result, to_weight, to_bias
