"""Mathematical functions of vectors: ``exp(k, x)`` writes the instructions that compute exp of every lane of ``x``.

For float32 and float64 and 1, 2, 4, ... lanes, with C's results for NaN, infinities and zeros, signs of zeros included, and for
subnormal arguments and results.  ``MAX_ULP`` states how exact they are; ``tests/kernels/test_vectors.py`` holds that.

All work alike.  The argument is reduced to a short interval by subtracting a multiple of a constant, which is kept as a sum of parts whose
products with small whole numbers are exact (Cody and Waite 1980); there a polynomial (``minimax.json``) takes over; the result is
put together with its largest part added last, so that earlier roundings matter little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..compiler.language import Builder, Value
from .angles import reduced_huge
from .coefficients import entries, minimax

# Bounds of the errors in units of the last place, for float32 and float64 with fma, and without. Measured, then rounded up: float32 at one
# in 17 of all arguments (without fma one in 257), float64 and the functions of two at some million each (erf and erfc at thousands). With
# fma exp, expm1, log, log1p, tanh, sigmoid, softplus, log_sigmoid, erf, rsqrt, sin, cos, asin, acos, atan, atanh at all of them.
MAX_ULP: dict[str, tuple[tuple[float, float], tuple[float, float]]] = entries("max_ulp.json")["vectors"]

_INF, _NAN = math.inf, math.nan
_MANTISSA = {"f32": 23, "f64": 52}  # bits of the fraction
_BIAS = {"f32": 127, "f64": 1023}
_MAGIC = {"f32": 1.5 * 2.0**23, "f64": 1.5 * 2.0**52}  # added, it leaves a whole number in the low bits
# log(2) in two parts; the first ends in so many zeros that its product with an exponent is exact, the second is positive
_LN2 = {"f32": (0.693145751953125, 1.4286068203094173e-06), "f64": (0.6931471805598903, 5.497923018708371e-14)}

# Constants as sums, the largest first
_PI_2 = {"f32": (1.5707963705062866, -4.371138828673793e-08), "f64": (1.5707963267948966, 6.123233995736766e-17)}
_PI = {
    "f32": (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
    "f64": (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
}
_PI_SHORT = (3.1415926534682512, 1.2154201012607932e-10, 4.044532497422333e-21, 1.69568553207378e-31)  # 33 bits each, for want of fma
_LOG2_E = {"f32": (1.4426950216293335, 1.925963033500011e-08), "f64": (1.4426950408889634, 2.0355273740931033e-17)}
_LOG10_E = {"f32": (0.4342944920063019, -1.0103049952192578e-08), "f64": (0.4342944819032518, 1.098319650216765e-17)}
_LOG10_2 = {"f32": (0.301025390625, 4.605038981195214e-06), "f64": (0.30102999566383914, 1.42050232272661e-13)}  # as _LN2
_2_LN2 = (2.8853900817779268, 4.0710547481862066e-17)
_THIRD_LOW = 1.850371707708594e-17
_ROOT_LIMIT = {"f32": 2.0**30, "f64": 2.0**60}  # above, 1 + x is x


def _half_pi(k: Builder, x: Value) -> list[float]:
    """pi / 2 as a sum whose products with whole numbers are exact, or are made exact by fma."""
    return [part / 2 for part in (_PI[x.element] if k.target.has_fma else _PI_SHORT)]


# -- parts ----------------------------------------------------------------------------------------------------------------------------
def polynomial(k: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with these coefficients, lowest power first: Horner's rule, in two interleaved halves where it is long."""
    if len(coefficients) < 7:
        result = k.like(coefficients[-1], x)
        for c in coefficients[-2::-1]:
            result = k.fma(result, x, c)
        return result
    square, later = x * x, coefficients[2:]  # the first two apart: the halves alone can be much larger than their sum
    rest = k.fma(polynomial(k, square, later[1::2]), x, polynomial(k, square, later[0::2]))
    return k.fma(k.fma(rest, x, coefficients[1]), x, coefficients[0])


def odd_polynomial(k: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """x + x**3 * P(x**2)"""
    z = x * x
    return k.fma(x * z, polynomial(k, z, coefficients), x)


def constant(k: Builder, value: float, like: Value) -> Value:
    return k.const(value, like.element, like.lanes)


def _wide(k: Builder, x: Value) -> str:
    """The ending of AVX-512's instructions for values like ``x``, or each half of them; empty where there are none."""
    bits = x.lanes * (32 if x.element == "f32" else 64)
    known = k.target.name == "avx512" and bits in (128, 256, 512, 1024)
    return f"{'ps' if x.element == 'f32' else 'pd'}.{min(bits, 512)}" if known else ""


def _avx512(k: Builder, name: str, x: Value, *operands: Value) -> Value:
    """Call one of AVX-512's instructions on all lanes."""
    if x.lanes * (32 if x.element == "f32" else 64) > 512:
        half = x.lanes // 2
        sides = [range(half), range(half, x.lanes)]
        low, high = ([k.shuffle(v, side) if v.lanes > 1 else v for v in (x, *operands)] for side in sides)
        return k.shuffle(_avx512(k, name, *low), range(x.lanes), _avx512(k, name, *high))
    every = k.const(-1, f"i{max(x.lanes, 8)}")
    rounding = (k.const(4, "i32"),) if name.endswith("512") and "rsqrt" not in name else ()
    return k.call(f"llvm.x86.avx512.{name}", x.element, x.lanes, *operands, x, every, *rounding)


def scale(k: Builder, x: Value, whole: Value, rounder: Value) -> Value:
    """``x * 2**whole`` rounded once, for x near 1; ``rounder`` is whole + _MAGIC. Underflows gradually."""
    wide = _wide(k, x)
    if wide:
        return _avx512(k, "mask.scalef." + wide, x, x, whole)
    # by two factors of about equal size, as one cannot always be written as a float
    shift = _MANTISSA[x.element]
    steps = k.bits(rounder) << shift
    half = (steps >> 1) & -(1 << shift)
    bias = _BIAS[x.element] << shift
    return x * k.bits(half + bias) * k.bits(steps - half + bias)


def power_of_two(k: Builder, rounder: Value) -> Value:
    """``2**n`` of a whole number n in the range of normal floats, given as n + _MAGIC."""
    shift = _MANTISSA[rounder.element]
    return k.bits((k.bits(rounder) << shift) + (_BIAS[rounder.element] << shift))


def _whole(k: Builder, x: Value, factor: float) -> tuple[Value, Value]:
    """``x * factor`` rounded to a whole number, and the same + _MAGIC."""
    rounder = k.fma(x, factor, _MAGIC[x.element])
    return rounder - _MAGIC[x.element], rounder


# -- exponentials -----------------------------------------------------------------------------------------------------------------------
# Beyond these, results are 0 and infinity; clamped, arguments stay where the reductions are right.
_EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
_EXP2_RANGE = {"f32": (-151.0, 129.0), "f64": (-1076.0, 1025.0)}
_EXPM1_LOW = {"f32": -18.0, "f64": -38.0}  # from here on the result is -1
_TINY = {"f32": 2.0**-30, "f64": 2.0**-60}  # up to here an odd function with slope 1 returns its argument


def _clamp(k: Builder, x: Value, low: float, high: float) -> Value:
    """NaN stays NaN."""
    return k.least(high, k.most(low, x))


def _exp_reduced(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """r, n and n + _MAGIC with x = r + n * log(2)."""
    n, rounder = _whole(k, x, 1 / math.log(2))
    high, low = _LN2[x.element]
    return k.fma(n, -low, k.fma(n, -high, x)), n, rounder


def _exp_small(k: Builder, r: Value) -> Value:
    """exp(r) for |r| up to log(2) / 2."""
    return k.fma(k.fma(r, polynomial(k, r, minimax("EXP", r.element)), 1.0), r, 1.0)


def _expm1_small(k: Builder, r: Value) -> Value:
    """exp(r) - 1 for |r| up to log(2) / 2."""
    return k.fma(r * r, polynomial(k, r, minimax("EXP", r.element)), r)


def _expm1_part(k: Builder, x: Value, fewer: int) -> Value:
    """(exp(x) - 1) / 2**fewer for x in the reduced range of both ends."""
    r, _, rounder = _exp_reduced(k, x)
    power = power_of_two(k, rounder - float(fewer) if fewer else rounder)
    return k.fma(power, _expm1_small(k, r), power - 2.0**-fewer)


def _exp_of_negative(k: Builder, x: Value) -> Value:
    """exp(-|x|)"""
    r, n, rounder = _exp_reduced(k, k.most(_EXP_RANGE[x.element][0], -k.abs(x)))
    return scale(k, _exp_small(k, r), n, rounder)


def exp(k: Builder, x: Value) -> Value:
    low, high = _EXP_RANGE[x.element]
    vanishes = x < low  # as of masked scores, minus infinity: processors take 150 cycles to find that 0 is below the least number
    r, n, rounder = _exp_reduced(k, k.least(high, k.select(vanishes, 0.0, x)))
    return k.select(vanishes, 0.0, scale(k, _exp_small(k, r), n, rounder))


def exp2(k: Builder, x: Value) -> Value:
    x = _clamp(k, x, *_EXP2_RANGE[x.element])
    n, rounder = _whole(k, x, 1.0)
    return scale(k, _exp_small(k, (x - n) * math.log(2)), n, rounder)


def expm1(k: Builder, x: Value) -> Value:
    half = _expm1_part(k, _clamp(k, x, _EXPM1_LOW[x.element], _EXP_RANGE[x.element][1]), 1)
    return k.select(k.abs(x) < _TINY[x.element], x, half + half)


def tanh(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    bounded = k.least(9.5 if x.element == "f32" else 20.0, size)
    e = _expm1_part(k, bounded + bounded, 0)
    return k.copysign(k.select(size < 0.55, odd_polynomial(k, size, minimax("TANH", x.element)), e / (e + 2.0)), x)


def sinh(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    quarter = _expm1_part(k, k.least(_EXP_RANGE[x.element][1] + 0.5, size), 2)
    half = quarter + quarter
    return k.select(size < 1.0, odd_polynomial(k, x, minimax("SINH", x.element)), k.copysign(half + quarter / (half + 0.5), x))


def cosh(k: Builder, x: Value) -> Value:
    r, n, rounder = _exp_reduced(k, k.least(_EXP_RANGE[x.element][1] + 0.5, k.abs(x)))
    half = scale(k, _exp_small(k, r), n - 1.0, rounder - 1.0)
    return half + 0.25 / half


def sigmoid(k: Builder, x: Value) -> Value:
    e = _exp_of_negative(k, x)
    negative = x < 0.0
    d = e + 1.0
    s = k.select(negative, e, 1.0) / d
    lost = e - (d - 1.0)  # s less s / d * lost, where 1 / d is s or 1 - s
    return k.fma(-(s * lost), k.select(negative, 1.0 - s, s), s)


# -- logarithms -------------------------------------------------------------------------------------------------------------------------
def _split(k: Builder, x: Value) -> tuple[Value, Value]:
    """m and e with x = m * 2**e and m from 3/4 to 3/2, e as a float, for x > 0; others see ``_log_edges``."""
    wide = _wide(k, x)
    if wide:  # interval 3/4 to 3/2 (3), NaN of negative ones (8); the exponent of zero is -inf, that of infinity is infinity
        x = x + 0.0  # not -0
        m = _avx512(k, "mask.getmant." + wide, x, x, k.const(11, "i32"))
        return m, _avx512(k, "mask.getexp." + wide, x, x) - _avx512(k, "mask.getexp." + wide, m, m)
    shift, element = _MANTISSA[x.element], x.element
    small = x < (2.0**-126 if element == "f32" else 2.0**-1022)
    bits = k.bits(k.select(small, x * 2.0**60, x))
    e = (bits - ((_BIAS[element] << shift) - (1 << (shift - 1)))) >> shift
    m = k.bits(bits - (e << shift))
    return m, k.cast(e, element) - k.select(small, constant(k, 60.0, x), 0.0)


def _log_edges(k: Builder, x: Value, result: Value) -> Value:
    """Logarithms of zero, infinity, NaN and negative numbers, where ``_split`` does not bring them about."""
    if _wide(k, x):
        return result
    edge = k.select(x.eq(0.0), constant(k, -_INF, x), _NAN)
    return k.select(x > 0.0, k.select(x < _INF, result, x), edge)


def _log_tail(k: Builder, f: Value) -> Value:
    """log(1 + f) - f for f from -1/4 to 1/2."""
    if f.element == "f32":
        return (f * f) * k.fma(polynomial(k, f, minimax("LOG", "f32")), f, -0.5)
    s = f / (f + 2.0)
    z = s * s
    return s * k.fma(z, polynomial(k, z, minimax("LOG", "f64")), -f)


def _log_joined(k: Builder, f: Value, e: Value) -> Value:
    """log(1 + f) + e * log(2)"""
    high, low = _LN2[f.element]
    return k.fma(e, high, f + k.fma(e, low, _log_tail(k, f)))


def _log_based(k: Builder, x: Value, factor: tuple[float, float], unit: tuple[float, float]) -> Value:
    """log(x) * factor, with ``unit`` = log(2) * factor."""
    m, e = _split(k, x)
    f = m - 1.0
    tail = _log_tail(k, f)
    y = f + tail
    rest = tail - (y - f)
    low = k.fma(rest, factor[0], y * factor[1])
    if unit[1]:
        low = k.fma(e, unit[1], low)
    # the product of y is the larger part of the rounding error, unless it is split as well
    product, left = k.two_product(y, factor[0])
    return _log_edges(k, x, k.fma(e, unit[0], product + (left + low)))


def log(k: Builder, x: Value) -> Value:
    m, e = _split(k, x)
    return _log_edges(k, x, _log_joined(k, m - 1.0, e))


def log2(k: Builder, x: Value) -> Value:
    return _log_based(k, x, _LOG2_E[x.element], (1.0, 0.0))


def log10(k: Builder, x: Value) -> Value:
    return _log_based(k, x, _LOG10_E[x.element], _LOG10_2[x.element])


def _log1p(k: Builder, x: Value, doublings: Value | None = None, low: Any = 0.0) -> Value:
    """log(1 + x + low) + doublings * log(2), but for the sign of zero."""
    u = x + 1.0
    part = u - 1.0
    c = k.select(u < 2.0**60, (1.0 - (u - part)) + (x - part) + low, 0.0)  # what u lacks of 1 + x
    m, e = _split(k, u)
    f = k.fma(c, power_of_two(k, _MAGIC[x.element] - _clamp(k, e, -60.0, 60.0)), m - 1.0)
    return _log_edges(k, u, _log_joined(k, f, e if doublings is None else e + doublings))


def log1p(k: Builder, x: Value) -> Value:
    return k.select(x.eq(0.0), x, _log1p(k, x))


def softplus(k: Builder, x: Value) -> Value:
    """log(1 + exp(x))"""
    return k.maximum(x, 0.0) + _log1p(k, _exp_of_negative(k, x))


def log_sigmoid(k: Builder, x: Value) -> Value:
    """log(1 / (1 + exp(-x)))"""
    return k.minimum(x, 0.0) - _log1p(k, _exp_of_negative(k, x))


def asinh(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    large = size > _ROOT_LIMIT[x.element]
    square = size * size
    inner = k.select(large, size, size + square / (k.sqrt(square + 1.0) + 1.0))
    result = _log1p(k, inner, k.select(large, constant(k, 1.0, x), 0.0))
    return k.copysign(result, x)


def acosh(k: Builder, x: Value) -> Value:
    large = x > _ROOT_LIMIT[x.element]
    t = x - 1.0
    root = k.sqrt(k.select(t < 0.0, t, k.fma(t, t, t + t)))
    total = t + root
    inner = k.select(large, x, total)
    return _log1p(k, inner, k.select(large, constant(k, 1.0, x), 0.0), t - (total - root))


def atanh(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    twice, rest = size + size, 1.0 - size
    inverse = 1.0 / rest
    ratio = twice * inverse if k.target.has_fma else twice / rest
    lost = k.fma(-ratio, rest, twice) if k.target.has_fma else constant(k, 0.0, x)
    half = _log1p(k, ratio, low=(lost - ratio * ((1.0 - rest) - size)) * inverse) * 0.5
    return k.select(size < _TINY[x.element], x, k.copysign(half, x))


# -- trigonometry -----------------------------------------------------------------------------------------------------------------------
def _reduced(k: Builder, x: Value, q: Value) -> tuple[Value, Value]:
    """x - q * pi / 2 as a sum of two."""
    first, *more, last = _half_pi(k, x)
    r, low = k.fma(q, -first, x), constant(k, 0.0, x)
    for part in more:
        product, error = k.two_product(q, part) if k.target.has_fma else (q * part, None)
        following = r - product
        lost = (r - following) - product
        low = low + (lost if error is None else lost - error)
        r = following
    low = k.fma(q, -last, low)
    total = r + low
    return total, low - (total - r)


def _quadrant(k: Builder, x: Value, precise: bool = False) -> tuple[Value, Value, Value]:
    """r, |r| up to pi / 4, with x = r + q * pi / 2, what r lacks (zero unless ``precise``), and q in its low bits."""
    if x.element == "f32" and not k.target.has_fma:
        wide, _, turns = _quadrant(k, k.cast(x, "f64"))
        r = k.cast(wide, "f32")
        return r, k.cast(wide - k.cast(r, "f64"), "f32"), k.cast(turns, "i32")
    whole = "i32" if x.element == "f32" else "i64"
    q, rounder = _whole(k, x, 2 / math.pi)
    if precise:
        r, low = _reduced(k, x, q)
    else:
        r, low = x, constant(k, 0.0, x)
        for part in _half_pi(k, x):
            r = k.fma(q, -part, r)
    turns = k.bits(rounder)
    # further off, products with parts of pi are not exact (float64), or q is too far from the nearest one (float32)
    large = k.abs(x) > (2.0**17 if x.element == "f32" else 2.0**30 if k.target.has_fma else 2.0**20)

    def slow() -> tuple[Value, ...]:
        new_turns, exact, lost = reduced_huge(k, k.cast(k.select(large, x, 2.0**32), "f64"))
        near = k.cast(exact, x.element)
        lost = k.cast(exact - k.cast(near, "f64"), x.element) if x.element == "f32" else lost
        near = k.select(k.abs(x) < _INF, near, _NAN)
        negative = x < 0.0
        new_turns = k.cast(k.cast(new_turns, "i64"), whole)
        return (
            k.select(large, k.select(negative, -near, near), r),
            k.select(large, k.select(negative, -lost, lost), low),
            k.select(large, k.select(negative, -new_turns, new_turns), turns),
        )

    return k.when(k.any(large), slow, lambda: (r, low, turns))


def _sine(k: Builder, x: Value, ahead: int) -> Value:
    """sin(x + ahead * pi / 2)"""
    element = x.element
    r, _, turns = _quadrant(k, x)
    turns = turns + ahead if ahead else turns
    z = r * r
    sine = k.fma(r * z, polynomial(k, z, minimax("SIN", element)), r)
    cosine = k.fma(z * z, polynomial(k, z, minimax("COS", element)), k.fma(z, -0.5, 1.0))
    top = 31 if element == "f32" else 63
    chosen = k.bits(k.select((turns << top) < 0, cosine, sine))
    return k.bits(chosen ^ ((turns << (top - 1)) & -(1 << top)))


def sin(k: Builder, x: Value) -> Value:
    return k.select(x.eq(0.0), x, _sine(k, x, 0))


def cos(k: Builder, x: Value) -> Value:
    return _sine(k, x, 1)


def tan(k: Builder, x: Value) -> Value:
    r, low, turns = _quadrant(k, x, precise=True)
    z = r * r
    more = r * z * polynomial(k, z, minimax("TAN", x.element))
    t = r + more
    more = k.fma(k.fma(t, t, 1.0), low, more)
    t = r + more
    lost = more - (t - r)
    odd = (turns & 1).ne(0)
    inverse = -1.0 / t
    result = k.select(odd, k.fma(inverse * inverse, lost, inverse), t)
    return k.select(x.eq(0.0), x, result)


def _arctangent(k: Builder, t: Value, complement: Value) -> Value:
    """atan(t) for t from 0 to 1, and pi / 2 - atan(t) where ``complement``."""
    z = t * t
    w = t * z * polynomial(k, z, minimax("ATAN", t.element))
    high, low = _PI_2[t.element]
    return k.select(complement, (high - t) - (w - low), t + w)


def atan(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    steep = size > 1.0
    return k.copysign(_arctangent(k, k.select(steep, 1.0 / size, size), steep), x)


def atan2(k: Builder, y: Value, x: Value) -> Value:
    rise, run = k.abs(y), k.abs(x)
    steep = rise > run
    small, large = k.select(steep, run, rise), k.select(steep, rise, run)
    equal = k.select(small.eq(0.0), constant(k, 0.0, small), 1.0)  # also of two infinities
    r = _arctangent(k, k.select(small.eq(large), equal, small / large), steep)
    high, low = _PI_2[x.element]
    r = k.select(k.bits(x) < 0, 2 * high - (r - 2 * low), r)
    return k.copysign(r, y)


def _arcsine(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Mask of |x| above 1/2, and s and w: asin(|x|) is s + w, where the mask is set pi / 2 - 2 * (s + w)."""
    size = k.abs(x)
    large = size > 0.5
    z = k.select(large, (1.0 - size) * 0.5, size * size)
    s = k.select(large, k.sqrt(z), size)
    return large, s, s * z * polynomial(k, z, minimax("ASIN", x.element))


def asin(k: Builder, x: Value) -> Value:
    large, s, w = _arcsine(k, x)
    high, low = _PI_2[x.element]
    rest = high - (s + s)
    lost = (high - rest) - (s + s)  # just above 1 rounding takes as much as a unit of results below it
    return k.copysign(k.select(large, rest - (w + w - (lost + low)), s + w), x)


def acos(k: Builder, x: Value) -> Value:
    large, s, w = _arcsine(k, x)
    high, low = _PI_2[x.element]
    twice, r = (s + w) + (s + w), k.copysign(s + w, x)
    far = k.select(x < 0.0, 2 * high - (twice - 2 * low), twice)
    return k.select(large, far, high - (r - low))


# -- the normal distribution's integral ---------------------------------------------------------------------------------------------------
def _erf_single(k: Builder, x: Value, factor: float = 1.0, height: float = 1.0) -> Value:
    """height * erf(factor * x) of float32: two polynomials of equal length, so that both parts of the range take the same steps."""
    size = k.least(3.9 / factor, k.abs(x))  # where the polynomial is 1, as erf is from 3.92 on
    near = size < 2.06 / factor
    t = k.select(near, k.fma(size, size, -2.0 / factor**2), size - 3.0 / factor)
    inner = [c * height * factor ** (2 * i + 1) for i, c in enumerate(minimax("ERF_NEAR", "f32"))]
    outer = [c * height * factor**i for i, c in enumerate(minimax("ERF_FAR", "f32"))]
    *rest, y = [k.select(near, constant(k, a, x), b) for a, b in zip(inner, outer, strict=True)]
    for c in reversed(rest):
        y = k.fma(y, t, c)
    return k.copysign(k.select(near, size * y, y), x)


def erf(k: Builder, x: Value) -> Value:
    if x.element == "f32":
        return _erf_single(k, x)
    size = k.abs(x)
    near = k.fma(x, polynomial(k, x * x, minimax("ERF", "f64")), x)
    far = k.least(6.0, size) - 1.0
    r, _, rounder = _exp_reduced(k, -polynomial(k, far, minimax("ERF_FAR", "f64")))
    far = 1.0 - _exp_small(k, r) * power_of_two(k, rounder)
    return k.select(size < 1.0, near, k.copysign(far, x))


def normal_area(k: Builder, x: Value) -> Value:
    """(1 + erf(x / sqrt(2))) / 2, as exact as a number near 1/2 is."""
    half = _erf_single(k, x, math.sqrt(0.5), 0.5) if x.element == "f32" else erf(k, x * math.sqrt(0.5)) * 0.5
    return half + 0.5


def erfc(k: Builder, x: Value) -> Value:
    size = k.least(11.0 if x.element == "f32" else 28.0, k.abs(x))
    beyond = size + 2.0
    t = (size - 2.0) / beyond
    inverse = k.fma(t, -0.25, 0.25)
    lost = (size - (beyond - 2.0)) * inverse  # quotients by beyond are too large by this part of them
    p = polynomial(k, k.fma(-t, lost, t), minimax("ERFC", x.element))
    smooth = p / beyond
    rest = k.fma(-smooth, beyond, p) * inverse if k.target.has_fma else constant(k, 0.0, x)
    rest = k.fma(-smooth, lost, rest)
    square, left = k.two_product(size, size)
    r, n, rounder = _exp_reduced(k, -square)
    e = _expm1_small(k, r - left)
    far = scale(k, smooth + k.fma(smooth, e, k.fma(rest, e, rest)), n, rounder)
    near = k.fma(x, polynomial(k, x * x, minimax("ERF", x.element)), x)
    return k.select(size < 0.5, 1.0 - near, k.select(x < 0.0, 2.0 - far, far))


# -- roots ------------------------------------------------------------------------------------------------------------------------------
def hypot(k: Builder, x: Value, y: Value) -> Value:
    """sqrt(x**2 + y**2), with the squares kept in the range of numbers."""
    if x.element == "f32":
        a, b = k.cast(x, "f64"), k.cast(y, "f64")
        return k.select(k.abs(x).eq(_INF) | k.abs(y).eq(_INF), _INF, k.cast(k.sqrt(a * a + b * b), "f32"))
    a, b = k.most(k.abs(x), k.abs(y)), k.least(k.abs(x), k.abs(y))
    huge, tiny = a > 2.0**500, a < 2.0**-500
    factor = k.select(huge, constant(k, 2.0**-600, x), k.select(tiny, constant(k, 2.0**600, x), 1.0))
    back = k.select(huge, constant(k, 2.0**600, x), k.select(tiny, constant(k, 2.0**-600, x), 1.0))
    a, b = a * factor, b * factor
    square, rest = k.two_product(a, a)
    root = k.sqrt(square + k.fma(b, b, rest)) * back
    infinite = k.abs(x).eq(_INF) | k.abs(y).eq(_INF)
    return k.select(infinite, _INF, k.select(x.is_nan() | y.is_nan(), _NAN, root))


# -- powers -------------------------------------------------------------------------------------------------------------------------------
def rsqrt(k: Builder, x: Value) -> Value:
    wide = _wide(k, x)
    if x.element == "f64" or not k.target.has_fma:
        return 1.0 / k.sqrt(x)
    near = _avx512(k, "rsqrt14." + wide, x, x) if wide else 1.0 / k.sqrt(x)
    error = k.fma(x * near, -near, 1.0)  # NaN for zero and infinity, where ``near`` is exact
    return k.select(error.is_nan(), near, k.fma(near * error, k.fma(error, 0.375, 0.5), near))


def _log2_double(k: Builder, x: Value) -> tuple[Value, Value]:
    """log2(x) as a sum of two, for x > 0."""
    m, e = _split(k, x)
    f = m - 1.0
    d = f + 2.0
    inverse = 1.0 / d
    s = f * inverse
    product, rest = k.two_product(s, d)
    s_low = (((f - product) - rest) - s * (f - (d - 2.0))) * inverse
    # atanh(s) = s + s * (z / 3 + z**2 * P(z))
    z, z_low = k.two_product(s, s)
    z_low = k.fma(s + s, s_low, z_low)
    third, third_low = k.two_product(z, 1 / 3)
    more = z * z * polynomial(k, z, minimax("POW", "f64"))
    u = third + more
    u_low = ((third - u) + more) + (third_low + (z_low * (1 / 3) + z * _THIRD_LOW))
    v, v_low = k.two_product(s, u)
    v_low = v_low + (s * u_low + s_low * u)
    a = s + v
    a_low = ((s - a) + v) + (v_low + s_low)
    b, b_low = k.two_product(a, _2_LN2[0])
    b_low = b_low + (a * _2_LN2[1] + a_low * _2_LN2[0])
    high = e + b
    return high, ((e - high) + b) + b_low


def _power_of_positive(k: Builder, x: Value, y: Value) -> Value:
    """x**y for finite x > 0."""
    if x.element == "f32":  # all in float64, where there is room for the logarithm's further bits and for any exponent
        wide = k.cast(x, "f64")
        bits = k.bits(wide)
        e = (bits - ((1023 << 52) - (1 << 51))) >> 52
        m = k.bits(bits - (e << 52))
        s = (m - 1.0) / (m + 1.0)
        exponent = k.cast(y, "f64") * k.fma(s, polynomial(k, s * s, minimax("POW_LOG2", "f64")), k.cast(e, "f64"))
        exponent = _clamp(k, exponent, -160.0, 140.0)
        n, rounder = _whole(k, exponent, 1.0)
        r = exponent - n
        return k.cast(k.fma(r, polynomial(k, r, minimax("POW_EXP2", "f64")), 1.0) * power_of_two(k, rounder), "f32")
    high, low = _log2_double(k, x)
    if not k.target.has_fma:  # beyond, only 1 has a finite power that is not zero; exact products would overflow
        y = _clamp(k, y, -(2.0**80), 2.0**80)
    product, rest = k.two_product(y, high)
    rest = k.select(k.abs(product) < 2000.0, k.fma(y, low, rest), 0.0)
    exponent = _clamp(k, product, -1100.0, 1100.0)
    n, rounder = _whole(k, exponent, 1.0)
    return scale(k, _exp_small(k, ((exponent - n) + rest) * math.log(2)), n, rounder)


def pow(k: Builder, x: Value, y: Value) -> Value:
    """x**y with C's results for zeros, infinities, NaN and negative x."""
    size = k.abs(x)
    result = _power_of_positive(k, size, y)
    plain = (x > 0.0) & (x < _INF) & (k.abs(y) < _INF)

    def special() -> Value:
        edge = size.eq(0.0) | size.eq(_INF)
        large = k.select(size.eq(0.0) ^ (y < 0.0), constant(k, 0.0, x), _INF)
        magnitude = k.select(size.eq(1.0), constant(k, 1.0, x), k.select(edge, large, result))
        whole, half = k.rint(y).eq(y), y * 0.5
        odd = whole & k.rint(half).ne(half)
        signed = k.select(odd, k.copysign(magnitude, x), magnitude)
        undefined = ((x < 0.0) & (size < _INF) & ~whole) | x.is_nan() | y.is_nan()
        one = y.eq(0.0) | x.eq(1.0)
        return k.select(one, constant(k, 1.0, x), k.select(undefined, constant(k, _NAN, x), signed))

    return k.when(k.any(~plain), special, lambda: result)
