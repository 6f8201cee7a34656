"""Poisson, binomial and gamma numbers: each element draws until it accepts, so that all run in one loop over the stream's words.

    state --advance, temper--> buffer: one word left over from the last block, or none | 624 words
                                       ^ every uniform number takes two from here; where there is but one, the next block is made

The formulas, their roundings and the order of drawing are those of ``core.random.rejection``, which explains them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.native import native
from ...core.random.rejection import SQUEEZE, STIRLING_TAIL, THIRD
from ..compiler.build import kernel
from ..compiler.language import FLOATS, Builder, Value
from ..compiler.pool import pool
from .random import BLOCK, advance, call_library, library_function, temper

_AT, _END, _BLOCKS = 0, 1, 2  # of the next word in the buffer, of the buffer's words, and blocks that were made


class Stream:
    """The uniform numbers of 53 bits, one after another, and functions of the C library by name."""

    def __init__(self, k: Builder, state: Value, words: Value, place: Value, functions: dict[str, Value]):
        self.k, self._state, self._words, self._place, self._functions = k, state, words, place, functions

    def next(self) -> Value:
        k, words, place = self.k, self._words, self._place
        at = k.load(place, _AT, "i64")
        here = at + 2 <= k.load(place, _END, "i64")

        def make() -> Value:
            k.function("more_words", more_words, self._state, words, place)
            return k.const(0, "i64")

        at = k.when(here, lambda: at, make)
        k.store(at + 2, place, _AT, "i64")
        upper, lower = (k.cast(k.load(words, at + i, "u32"), "i64") for i in range(2))
        return k.cast(((upper & 0x1FFFFF) << 32) | lower, "f64") * 2.0**-53

    def call(self, name: str, *operands: Value) -> Value:
        return call_library(self.k, self._functions[name], *operands)


def more_words(k: Builder, state: Value, words: Value, place: Value) -> tuple[Value]:
    """The next block behind what is left in the buffer, a word at most, and both from its beginning on."""
    at, end = k.load(place, _AT, "i64"), k.load(place, _END, "i64")
    k.store(k.load(words, at, "u32"), words, 0, "u32")
    advance(k, state)
    temper(k, state, k.at(words, end - at, "u32"))
    k.store(end - at + BLOCK, place, _END, "i64")
    k.store(k.load(place, _BLOCKS, "i64") + 1, place, _BLOCKS, "i64")
    return (end,)


class Rule(NamedTuple):
    """Rule that makes an element from the stream of random numbers.

    Attributes:
        arrays: how many operands there are, arrays of the result's size and dtype.
        calls: functions of the C library.
        draw: ``draw(k, stream, element, kept, *operands)`` gives a random number of type ``element``; ``kept`` points to a number that is
            kept from one to the next, and between calls.
    """

    arrays: int
    calls: tuple[str, ...]
    draw: Callable[..., Value]


@kernel
def draw_each(k: Builder, name: str, element: str) -> None:
    """Fill ``out`` by rule ``name`` from words ``position`` to 624 of block ``old`` and the following ones; ``new`` gets the last one.

    ``used`` gets how many words were taken.
    """
    rule = RULES[name]
    state, old, new, position, out, count = k.pointer(), k.array(), k.array(), k.integer(), k.array(), k.integer()
    functions = {call: k.pointer() for call in rule.calls}
    used, kept, operands = k.array(), k.array(), [k.array() for _ in range(rule.arrays)]
    words, place = k.scratch(BLOCK + 2, "u32"), k.scratch(3, "i64")
    left = BLOCK - position
    k.loop(0, left, lambda i: k.store(k.load(old, position + i, "u32"), words, i, "u32"))
    for index, value in ((_AT, k.const(0, "i64")), (_END, left), (_BLOCKS, k.const(0, "i64"))):
        k.store(value, place, index, "i64")
    stream = Stream(k, state, words, place, functions)

    def one(i: Value) -> None:
        k.store(rule.draw(k, stream, element, kept, *(k.load(operand, i, element) for operand in operands)), out, i, element)

    k.loop(0, count, one)
    blocks = k.load(place, _BLOCKS, "i64")
    k.store(left + blocks * BLOCK - k.load(place, _END, "i64") + k.load(place, _AT, "i64"), used, 0, "i64")
    k.when(blocks > 0, lambda: temper(k, state, new))


def _accepted(k: Builder, draw: Callable[[], tuple[Value, Value]]) -> Value:
    """The first number that is accepted; ``draw`` gives whether one is, and the number."""
    rejected, nothing = k.const(True, "b1"), k.const(0, "f64")

    def again(*_: Value) -> tuple[Value, Value]:
        accepted, number = draw()
        return ~accepted, number

    return k.repeat(lambda is_rejected, _: is_rejected, again, [rejected, nothing])[1]


def _any_of(k: Builder, first: Value, second: Callable[[], Value]) -> Value:
    """``first or second()``: what is not looked at is not computed, and draws nothing."""
    return k.when(first, lambda: k.const(True, "b1"), second)


def _both(k: Builder, first: Value, second: Callable[[], Value]) -> Value:
    return k.when(first, second, lambda: k.const(False, "b1"))


# ---- Poisson
def _poisson(k: Builder, stream: Stream, element: str, kept: Value, rate: Value) -> Value:
    rate = k.cast(rate, "f64")
    count = k.when(rate >= 10.0, lambda: _poisson_large(k, stream, rate), lambda: _poisson_small(k, stream, rate))
    return k.cast(count, element)


def _poisson_small(k: Builder, stream: Stream, rate: Value) -> Value:
    """The number of factors until a product of uniform numbers is small enough."""

    def multiply(count: Value, product: Value) -> tuple[Value, Value]:
        return count + 1.0, product * stream.next()

    def count_factors() -> Value:
        bound = stream.call("exp", -rate)
        start = [k.const(-1.0, "f64"), k.const(1.0, "f64")]
        first = multiply(*start)
        return k.repeat(lambda _, product: product > bound, multiply, first)[0]

    return k.when(rate.eq(0.0), lambda: k.const(0.0, "f64"), count_factors)


def _poisson_large(k: Builder, stream: Stream, rate: Value) -> Value:
    root, log_rate = k.sqrt(rate), stream.call("log", rate)
    b = root * 2.53 + 0.931
    a = b * 0.02483 + -0.059
    inverse_alpha = 1.1328 / (b - 3.4) + 1.1239
    v_r = 0.9277 - 3.6224 / (b - 2.0)
    log_inverse_alpha = stream.call("log", inverse_alpha)

    def draw() -> tuple[Value, Value]:
        u = stream.next() - 0.5
        v = stream.next()
        us = 0.5 - k.abs(u)
        number = k.floor((a * 2.0 / us + b) * u + rate + 0.43)

        def by_density() -> Value:
            left = stream.call("log", v) + log_inverse_alpha - stream.call("log", a / (us * us) + b)
            return left <= number * log_rate - rate - stream.call("lgamma", number + 1.0)

        outside = (number < 0.0) | ((us < 0.013) & (v > us))
        return _any_of(k, (us >= 0.07) & (v <= v_r), lambda: _both(k, ~outside, by_density)), number

    return _accepted(k, draw)


# ---- binomial
def _binomial(k: Builder, stream: Stream, element: str, kept: Value, count: Value, prob: Value) -> Value:
    p = k.cast(prob, "f64")
    folded = k.select(prob <= 0.5, prob, k.cast(1.0 - p, element))
    n = k.cast(count, "f64")

    def draw() -> Value:
        many = count * folded >= 10.0
        number = k.when(many, lambda: _rejected_trials(k, stream, count, folded), lambda: _waiting_times(k, stream, n, folded))
        return k.select(prob <= 0.5, number, n - number)

    def certain() -> Value:
        return k.when(prob >= 1.0, lambda: n, lambda: k.when(prob.is_nan(), lambda: p, draw))

    return k.cast(k.when((count <= 0.0) | (prob <= 0.0), lambda: k.const(0.0, "f64"), certain), element)


def _waiting_times(k: Builder, stream: Stream, count: Value, prob: Value) -> Value:
    failure = stream.call("log1p", -k.cast(prob, "f64"))
    log_failure = k.cast(k.cast(failure, prob.element), "f64")

    def wait(successes: Value, total: Value) -> tuple[Value, Value]:
        return successes + 1.0, total + k.ceil(stream.call("log", stream.next()) / log_failure)

    first = wait(k.const(-1.0, "f64"), k.const(0.0, "f64"))
    return k.repeat(lambda _, total: total <= count, wait, first)[0]


def _rejected_trials(k: Builder, stream: Stream, count: Value, prob: Value) -> Value:
    n, p = k.cast(count, "f64"), k.cast(prob, "f64")
    spread = k.cast(k.sqrt(count * prob * (1.0 - prob)), "f64")
    b = spread * 2.53 + 1.15
    a = b * 0.0248 + -0.0873 + p * 0.01
    center = k.cast(count * prob, "f64") + 0.5
    v_r = 0.92 - 4.2 / b
    odds = k.cast(prob / (1.0 - prob), "f64")
    alpha = (5.1 / b + 2.83) * spread
    mode = k.cast(k.floor((count + 1.0) * prob), "f64")
    table = k.table(STIRLING_TAIL, "f64")

    def tail(number: Value) -> Value:
        square = (number + 1.0) * (number + 1.0)
        far = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (number + 1.0)
        return k.select(number < 10.0, k.load(table, k.cast(k.least(number, 9.0), "i64"), "f64"), far)

    def log(x: Value) -> Value:
        return stream.call("log", x)

    def draw() -> tuple[Value, Value]:
        u = stream.next() - 0.5
        v = stream.next()
        us = 0.5 - k.abs(u)
        number = k.floor((a * 2.0 / us + b) * u + center)

        def by_density() -> Value:
            bound = (
                (mode + 0.5) * log((mode + 1.0) / (odds * (n - mode + 1.0)))
                + (n + 1.0) * log((n - mode + 1.0) / (n - number + 1.0))
                + (number + 0.5) * log(odds * (n - number + 1.0) / (number + 1.0))
                + tail(mode)
                + tail(n - mode)
                - tail(number)
                - tail(n - number)
            )
            return log(v * alpha / (a / (us * us) + b)) <= bound

        inside = (number >= 0.0) & (number <= n)
        return _both(k, inside, lambda: _any_of(k, (us >= 0.07) & (v <= v_r), by_density)), number

    return _accepted(k, draw)


# ---- gamma
def _gamma(k: Builder, stream: Stream, element: str, kept: Value, alpha: Value) -> Value:
    """``kept`` is the second normal number of a pair, NaN where there is none."""
    small = alpha < 1.0
    d = k.cast(k.select(small, alpha + 1.0, alpha) - THIRD, "f64")
    power = k.cast(k.select(small, 1.0 / alpha, 0.0), "f64")
    width = 1.0 / k.sqrt(d * 9.0)

    def normal() -> Value:
        before = k.load(kept, 0, "f64")

        def pair() -> Value:
            angle = stream.next() * (2.0 * math.pi)
            radius = k.sqrt(stream.call("log1p", -stream.next()) * -2.0)
            k.store(radius * stream.call("sin", angle), kept, 0, "f64")
            return radius * stream.call("cos", angle)

        def second() -> Value:
            k.store(k.const(math.nan, "f64"), kept, 0, "f64")
            return before

        return k.when(before.is_nan(), pair, second)

    def draw() -> tuple[Value, Value]:
        x = normal()
        y = width * x + 1.0
        v = y * y * y

        def accept() -> Value:
            u = 1.0 - stream.next()
            square = x * x

            def by_density() -> Value:
                return stream.call("log", u) < square * 0.5 + d * (1.0 - v + stream.call("log", v))

            return _any_of(k, u < 1.0 - SQUEEZE * square * square, by_density)

        return _both(k, y > 0.0, accept), v

    def number() -> Value:
        scale = k.when(power.ne(0.0), lambda: d * stream.call("pow", 1.0 - stream.next(), power), lambda: d)
        return scale * _accepted(k, draw)

    drawn = k.when(power.eq(math.inf), lambda: k.const(0.0, "f64"), number)
    return k.most(k.cast(drawn, element), float(np.finfo(np.float32 if element == "f32" else np.float64).tiny))


RULES = {
    "poisson": Rule(1, ("exp", "log", "lgamma"), _poisson),
    "binomial": Rule(2, ("log", "log1p"), _binomial),
    "gamma": Rule(1, ("log", "log1p", "sin", "cos", "pow"), _gamma),
}


@native("random.draw_each")
def drawing(name: str, dtype: np.dtype) -> Callable[..., int | None] | None:
    """Function that fills an array of ``dtype`` by rule ``name``, or None; like ``random.draw``, with the saved number and the operands."""
    element = FLOATS.get(dtype)
    if element is None:
        return None
    calls = [library_function(call) for call in RULES[name].calls]
    run = draw_each(name, element)
    pack, address = run.pack, run.address

    def fill(out: np.ndarray, state: int, old: np.ndarray, new: np.ndarray, position: int, kept: np.ndarray, *operands: Any) -> int | None:
        used = np.zeros(1, np.int64)
        arguments = (state, id(old), id(new), position, id(out), out.size, *calls, id(used), id(kept), *map(id, operands))
        pool.launch(address, pack(*arguments), 1)
        return used.item()

    return fill
