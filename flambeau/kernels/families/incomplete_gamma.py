"""The regularised incomplete gamma functions of float32 numbers, computed in float64.

    x up to a + 1    P = E (1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ...)      E = x**a exp(-x) / gamma(a + 1)
    x above          Q = E a / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...))
    these, a below 1 Q = 1 - x**a / gamma(a + 1) - E' a (-x / (a + 1) + x**2 / (2 (a + 2)) - ...), where 1 - P would cancel

Each in turn for the lanes that need it, with as many terms as the slowest of them needs.  Orders above ``MOST`` would need hundreds.

Source: Press et al. 2007, "Numerical recipes", section 6.2, with Lentz's way of evaluating the continued fraction.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from ..compiler.memory import empty
from ..mathematics import vectors
from ..mathematics.special import _log_gamma_above

MOST = 64.0  # the largest order
MAX_ULP = 0.51  # bound of the errors, in units of the last place of float32: measured against SciPy in float64
_ENOUGH = 2.0**-38
_TERMS = 2000.0  # far above what any order takes
_CHUNK = 2048  # elements


def _series(k: Builder, a: Value, x: Value) -> Value:
    def add(number: Value, order: Value, term: Value, total: Value) -> tuple[Value, ...]:
        order = order + 1.0
        term = term * (x / order)
        return number + 1.0, order, term, total + term

    def more(number: Value, order: Value, term: Value, total: Value) -> Value:
        return (number < _TERMS) & k.any(term > total * _ENOUGH)

    one = k.const(1.0, "f64", a.lanes)
    return k.repeat(more, add, [k.const(0.0, "f64"), a, one, one])[3]


def _fraction(k: Builder, a: Value, x: Value) -> Value:
    def step(i: Value, b: Value, c: Value, d: Value, h: Value, _: Value) -> tuple[Value, ...]:
        i, b = i + 1.0, b + 2.0
        number = k.splat(i, a.lanes)
        upper = number * (a - number)
        d = 1.0 / k.fma(upper, d, b)
        c = b + upper / c
        change = c * d
        return i, b, c, d, h * change, k.abs(change - 1.0)

    def more(i: Value, b: Value, c: Value, d: Value, h: Value, change: Value) -> Value:
        return (i < _TERMS) & k.any(change > _ENOUGH)

    b = x + 1.0 - a
    first, one = 1.0 / b, k.const(1.0, "f64", a.lanes)
    return k.repeat(more, step, [k.const(0.0, "f64"), b, one * 1e300, first, first, one])[4]


def _alternating(k: Builder, a: Value, x: Value) -> Value:
    """The sum of ``(-x)**n / (n! (a + n))`` for n from 1 on."""

    def add(n: Value, power: Value, term: Value, total: Value) -> tuple[Value, ...]:
        n = n + 1.0
        number = k.splat(n, a.lanes)
        power = power * (-x / number)
        term = power / (a + number)
        return n, power, term, total + term

    def more(n: Value, power: Value, term: Value, total: Value) -> Value:
        return (n < _TERMS) & k.any(k.abs(term) > k.abs(total) * _ENOUGH)

    one = k.const(1.0, "f64", a.lanes)
    return k.repeat(more, add, [k.const(0.0, "f64"), one, one, k.const(0.0, "f64", a.lanes)])[3]


def _shares(k: Builder, a: Value, x: Value, upper: bool) -> Value:
    near = a < 0.5
    log_power = a * vectors.log(k, x) - _log_gamma_above(k, k.select(near, a, a + 1.0), near)
    density, below = vectors.exp(k, log_power - x), x <= a + 1.0
    nothing = k.const(0.0, "f64", a.lanes)

    def wanted(mask: Value, value: Callable[..., Value], spare: float) -> Value:
        """``value(a, x)`` where ``mask``; not computed where no lane needs it, and elsewhere of operands that end soon."""
        return k.when(k.any(mask), lambda: value(k, k.select(mask, a, 1.0), k.select(mask, x, spare)), lambda: nothing)

    if not upper:
        return k.select(below, density * wanted(below, _series, 0.0), 1.0 - density * a * wanted(~below, _fraction, 30.0))
    small = below & (a < 1.0)
    middle = below & ~small
    result = k.select(middle, 1.0 - density * wanted(middle, _series, 0.0), density * a * wanted(~below, _fraction, 30.0))
    rest = vectors.exp(k, log_power) * a * wanted(small, _alternating, 0.0)
    return k.select(small, -vectors.expm1(k, log_power) - rest, result)


@kernel
def incomplete_gamma(k: Builder, upper: bool) -> None:
    orders, points, out, n = k.array(), k.array(), k.array(), k.integer()
    lanes = k.lanes("f64")

    def step(i: Value, mask: Value | None) -> None:
        a, x = (k.cast(k.load(source, i, "f32", lanes, mask, other=1.0), "f64") for source in (orders, points))
        k.store(k.cast(_shares(k, a, x, upper), "f32"), out, i, "f32", mask)

    k.for_chunks(lambda c: k.vector_loop(c * _CHUNK, k.least((c + 1) * _CHUNK, n), lanes, step))


@native("_incomplete_gamma")
def shares(order: np.ndarray, x: np.ndarray, upper: bool) -> np.ndarray | None:
    """Of float32 orders above 0 up to ``MOST``, and finite ``x`` from 0 on; None for any others."""
    if order.__class__ is not np.ndarray or x.__class__ is not np.ndarray:  # symbols of which an expression is made
        return None
    if order.dtype != np.float32 or x.dtype != np.float32 or not (order.size and x.size):
        return None
    if not (order.min() > 0 and order.max() <= MOST and x.min() >= 0 and x.max() < np.inf):
        return None
    result = empty(np.broadcast_shapes(order.shape, x.shape), x.dtype)
    order, x = (contiguous(array) for array in np.broadcast_arrays(order, x))
    incomplete_gamma(upper)(-(-x.size // _CHUNK), id(order), id(x), id(result), x.size)
    return result
