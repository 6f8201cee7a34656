"""Large angles less multiples of pi / 2, for ``vectors.py``."""

from __future__ import annotations

import math
from functools import cache

from ..compiler.language import Builder, Value

_HALF_PI_LOW = 6.123233995736766e-17  # pi / 2 less math.pi / 2


@cache
def _two_over_pi() -> tuple[int, ...]:
    """2 / pi in words of 32 bits, behind two words of zeros; pi by Machin's formula."""
    bits = 32 * 40

    def arctangent(x: int) -> int:  # of 1 / x
        total, term, n = 0, (1 << (bits + 64)) // x, 1
        while term:
            total, term, n = total + term // n, -(term // (x * x)) if term > 0 else (-term) // (x * x), n + 2
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    digits = (2 << (2 * bits + 64)) // pi
    return (0, 0, *((digits >> (bits - 32 * i)) & 0xFFFFFFFF for i in range(1, 41)))


def reduced_huge(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """q, r and its error, |r| up to pi / 4, with |x| = r + q * pi / 2, q modulo 4, for float64 from 2**20 on (Payne and Hanek 1983).

    |x| = m * 2**e with a whole m of 53 bits. Of m * 2**e * 2 / pi only the value modulo 4 counts, so that of the bits of 2 / pi just a
    window of 192 matters, at a distance given by e: those before it contribute multiples of 4, those behind it too little.
    """
    most = max(k.target.width // 8, 1)
    if x.lanes > most:
        half = x.lanes // 2
        sides = [reduced_huge(k, k.shuffle(x, range(start, start + half))) for start in (0, half)]
        q, r, low = (k.shuffle(a, range(x.lanes), b) for a, b in zip(*sides, strict=True))
        return q, r, low
    q, r, low = k.function("reduced_huge", _huge_part, x)
    return q, r, low


def _huge_part(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """``reduced_huge`` for one register."""
    bits = k.cast(k.bits(x), "u64") & ((1 << 63) - 1)
    place = (bits >> 52) - (1075 - 62)  # where the window begins in the table
    word, shift = place >> 5, place & 31
    table = k.table(_two_over_pi(), "u64")
    words = [k.gather(table, word + i, "u64") for i in range(7)]
    low32 = 0xFFFFFFFF
    window = [(((words[i] << 32) | words[i + 1]) << shift) >> 32 for i in range(6)]
    m = (bits & ((1 << 52) - 1)) | (1 << 52)
    m0, m1 = m & low32, m >> 32
    columns: list[list[Value]] = [[] for _ in range(6)]
    for i, a in enumerate(window):
        for factor, column in ((m0, i), (m1, i - 1)):
            product = a * factor
            if column >= 0:
                columns[column].append(product & low32)
            if column >= 1:
                columns[column - 1].append(product >> 32)
    result: list[Value] = []
    carry: Value | None = None
    for parts in reversed(columns):
        total = parts[0]
        for part in parts[1:] + ([carry] if carry is not None else []):
            total = total + part
        result.insert(0, total & low32)
        carry = total >> 32
    high, low = (result[0] << 32) | result[1], (result[2] << 32) | result[3]
    q = (high + (1 << 61)) >> 62
    left = k.cast(high - (q << 62), "i64")
    # the fraction as a sum of two, times pi / 2 as a sum of two
    first = k.cast(left & -2048, "f64") * 2.0**-62
    second = k.fma(k.cast(low >> 12, "f64"), 2.0**-114, k.cast(left & 2047, "f64") * 2.0**-62)
    total = first + second
    second = second - (total - first)
    product, rest = k.two_product(total, math.pi / 2)
    rest = rest + (second * (math.pi / 2) + total * _HALF_PI_LOW)
    r = product + rest
    return q, r, rest - (r - product)
