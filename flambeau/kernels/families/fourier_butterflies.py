"""Parts of Fourier transforms: those of a few elements in registers, halves of real rows, the passes that a length takes, and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ..compiler.language import Builder, Value
from .microkernel import Scratch, borrow, give_back

Complex = tuple[Value, Value]


# -- in registers -------------------------------------------------------------------------------------------------------------------------
def plus(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def minus(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _turned(a: Complex) -> Complex:
    """Times ``-i``."""
    return a[1], -a[0]


def times(k: Builder, a: Complex, factor: tuple[Any, Any]) -> Complex:
    (re, im), (c, s) = a, factor
    return k.fma(re, c, -(im * s)), k.fma(re, s, im * c)


def transform_of(k: Builder, x: Sequence[Complex]) -> list[Complex]:
    """The transform of so many elements, by the prime factors of their number."""
    if len(x) <= 2:
        return [plus(*x), minus(*x)] if len(x) == 2 else list(x)
    few = next((p for p in (2, 3, 5, 7) if len(x) % p == 0), len(x))
    if few == len(x):
        return _odd(k, x)
    many = len(x) // few
    parts = [transform_of(k, x[i::few]) for i in range(few)]
    result: list[Any] = [None] * len(x)
    for f in range(many):
        result[f::many] = transform_of(k, [_by_root(k, parts[i][f], i * f, len(x)) for i in range(few)])
    return result


def _by_root(k: Builder, a: Complex, j: int, n: int) -> Complex:
    """Times ``exp(-2 pi i j / n)``."""
    while n % 4 == 0 and j * 4 >= n:
        a, j = _turned(a), j - n // 4
    if not j:
        return a
    if j * 8 == n:
        return (a[0] + a[1]) * 0.5**0.5, (a[1] - a[0]) * 0.5**0.5
    angle = -2 * math.pi * j / n
    return times(k, a, (math.cos(angle), math.sin(angle)))


def _odd(k: Builder, x: Sequence[Complex]) -> list[Complex]:
    """Pairs of elements whose factors are each other's conjugates: their sums meet cosines, their differences sines."""
    n, half = len(x), len(x) // 2
    sums = [plus(x[j], x[n - j]) for j in range(1, half + 1)]
    differences = [minus(x[j], x[n - j]) for j in range(1, half + 1)]
    first, result = x[0], [x[0]] * n
    for j in range(half):
        result[0] = plus(result[0], sums[j])
    for f in range(1, half + 1):
        angles = [2 * math.pi * (f * j % n) / n for j in range(1, half + 1)]
        re, im = first
        for angle, total in zip(angles, sums, strict=True):
            re, im = k.fma(total[0], math.cos(angle), re), k.fma(total[1], math.cos(angle), im)
        down, up = differences[0][1] * math.sin(angles[0]), differences[0][0] * math.sin(angles[0])
        for angle, apart in zip(angles[1:], differences[1:], strict=True):
            down, up = k.fma(apart[1], math.sin(angle), down), k.fma(apart[0], math.sin(angle), up)
        result[f], result[n - f] = (re + down, im - up), (re - down, im + up)
    return result


# -- real rows as complex ones of half their length ---------------------------------------------------------------------------------------
def taken_apart(k: Builder, a: Complex, b: Complex, factor: Complex, half: Any, sign: Value) -> tuple[Complex, Complex]:
    """Elements j and ``n - j`` of the real row's spectrum from those of the complex row's, times ``2 half``; imaginary parts, ``sign``."""
    even = (a[0] + b[0]) * half, (a[1] - b[1]) * half
    odd = times(k, ((a[1] + b[1]) * half, (b[0] - a[0]) * half), factor)
    return (even[0] + odd[0], (even[1] + odd[1]) * sign), (even[0] - odd[0], (odd[1] - even[1]) * sign)


def put_together(k: Builder, a: Complex, b: Complex, factor: Complex) -> tuple[Complex, Complex]:
    """Elements j and ``n - j`` of the complex row's spectrum from those of the real row's."""
    even, odd = (a[0] + b[0], a[1] - b[1]), times(k, (a[0] - b[0], a[1] + b[1]), (factor[0], -factor[1]))
    return (even[0] - odd[1], even[1] + odd[0]), (even[0] + odd[1], odd[0] - even[1])


# Real numbers in a row, and in its result, by the complex elements that are transformed.
LENGTHS: dict[str, Callable[[int], tuple[int, int]]] = {
    "complex": lambda n: (2 * n, 2 * n),
    "crossed": lambda n: (2 * n, 2 * n),
    "from_real": lambda n: (2 * n, 2 * n + 2),
    "whole": lambda n: (2 * n, 4 * n),
    "to_real": lambda n: (2 * n + 2, 2 * n),
    "from_odd": lambda n: (n, n + 1),
    "whole_odd": lambda n: (n, 2 * n),
    "to_odd": lambda n: (n + 1, n),
}


# -- which passes -------------------------------------------------------------------------------------------------------------------------
def roots(count: int, n: int) -> np.ndarray:
    """``exp(-2 pi i j / n)`` as pairs of numbers, for the first ``count`` j; in extended precision, where there is one."""
    angles = np.arange(count, dtype=np.longdouble) * (-8 * np.arctan(np.longdouble(1)) / n)
    return np.stack([np.cos(angles), np.sin(angles)], -1)


_PASS = 7.0  # what a pass costs for each element beside its butterfly's arithmetic
_ARITHMETIC = {2: 1.5, 3: 2.8, 5: 4.5, 7: 6.5, 11: 11.0, 13: 13.0}  # of a butterfly, by prime factors


def _cost(radix: int) -> float | None:
    """The cost of a pass for each element; None where it has too large a factor."""
    cost, whole = _PASS, radix
    for prime, arithmetic in _ARITHMETIC.items():
        while radix % prime == 0:
            radix //= prime
            cost += arithmetic
    return cost + 0.2 * max(0, whole - 8) if radix == 1 else None  # registers are short


@lru_cache(maxsize=1024)
def radices_of(n: int, registers: int, lanes: int = 1) -> tuple[float, tuple[int, ...]] | None:
    """The cheapest passes, and what they cost for each element; None where a prime factor is too large.

    Of a row whose ``lanes`` are neighbours in it, the first and the last pass, which are two, go through ``n / radix`` neighbours, which
    must be as many as there are lanes; a pass between goes through as many as the radices before it multiply to.
    """
    radices = range(2, 17) if registers > 16 else (*range(2, 12), 13)
    allowed = {r: cost for r in radices if (cost := _cost(r)) is not None}

    @cache
    def rest(s: int) -> tuple[float, tuple[int, ...]] | None:
        found = None
        for radix, cost in allowed.items():
            left, odd = divmod(n // s, radix)
            along = left if s == 1 else s
            if odd or ((s == 1 or left == 1) and along < lanes):
                continue
            more = (0.0, ()) if left == 1 else rest(s * radix)
            if more is not None:
                last = 0.1 * max(0, radix - 8) if left == 1 else 0.0
                total = cost * (-(-along // lanes) * lanes / along) + more[0] + last
                if found is None or total < found[0]:
                    found = total, (radix, *more[1])
        return found

    return rest(1)


# -- memory of a thread -------------------------------------------------------------------------------------------------------------------
def chunks_in_memory(k: Builder, element: str, o: Any, stack: Value | None, body: Callable[[Value, Value], None]) -> None:
    """``body(chunk, memory)`` for each chunk, in ``stack``; where that is None, in a piece of the memory that the arguments ``o`` have."""

    def chunk(c: Value) -> None:
        if stack is not None:
            body(c, stack)
            return
        piece = borrow(k, o.flags, o.pieces)
        body(c, k.at(o.memory, piece * o.size, element))
        give_back(k, o.flags, piece)

    k.for_chunks(chunk)


def with_memory(launch: Callable[..., None], scratch: Scratch | None) -> Callable[..., None]:
    """Function ``launch(x, y)`` that takes such pieces first, where there are any."""
    if scratch is None:
        return lambda x, y: launch(x=x, y=y)

    def run(x: np.ndarray, y: np.ndarray) -> None:
        flags, memory = scratch.take()
        launch(x=x, y=y, flags=flags, memory=memory)

    return run
