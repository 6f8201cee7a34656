"""Normal numbers from uniform ones, rounded as PyTorch's vectorised kernel rounds them.

PyTorch fills contiguous float32 tensors of 16 or more elements in groups of 16: eight uniforms give radii, eight give angles.  Its
kernel evaluates Cephes' single-precision ``logf``, ``sinf`` and ``cosf`` polynomials with fused multiply-adds.  To get the same bits
everywhere, the same polynomials are evaluated here with the same roundings: a float32 product is exact in float64, so

    fused(a, b, c) = float32(float64(a) * float64(b) + float64(c))

up to the rare case in which the float64 sum is itself rounded onto the middle between two float32 numbers.  Over all 2**24 radii and
all 2**24 angles that occur that case changes nothing; ``fused_float32``, which serves arbitrary factors, looks for it.

Source: Cephes mathematical library (Moshier 1992), single precision; Boldo and Melquiond 2008, "Emulation of FMA and correctly
rounded sums", for ``fused_float64``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import native
from .generator import draws

_ROWS = 512  # groups of 16 converted at a time: the temporaries stay in the first- and second-level cache

_F32, _F64 = np.float32, np.float64
_SQRT_HALF_BITS = int(_F32(0.707106781186547524).view(np.int32))
# ln(1 + x) = x - x**2 / 2 + x**3 * P(x); ln 2 in two parts
_LOG_P = [
    float(_F32(c))
    for c in (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1)
] + [float(_F32(c)) for c in (-2.4999993993e-1, 3.3333331174e-1)]
_LN2_LOW, _LN2_HIGH = _F32(-2.12194440e-4), float(_F32(0.693359375))
_FOUR_OVER_PI, _TWO_PI = _F32(1.27323954473516), _F32(2.0 * math.pi)
_QUARTER_PI = [float(_F32(c)) for c in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)]  # negated, in three parts
_SIN_P = [float(_F32(c)) for c in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)]
_COS_P = [float(_F32(c)) for c in (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)]


def _horner(coefficients: list[float], x: np.ndarray) -> np.ndarray:
    """A float32 polynomial in ``x`` (float64 holding float32 values), one fused multiply-add a step."""
    y = x * coefficients[0]
    y += coefficients[1]
    narrow = y.astype(_F32)
    for coefficient in coefficients[2:]:
        y[...] = narrow
        y *= x
        y += coefficient
        narrow[...] = y
    return narrow


def log_float32(x: np.ndarray) -> np.ndarray:
    """Natural logarithm of positive normal float32 numbers."""
    bits = x.view(np.int32)
    exponent = bits >> 23
    mantissa_bits = (bits & 0x7FFFFF) | 0x3F000000  # in [0.5, 1)
    low = (mantissa_bits - _SQRT_HALF_BITS) >> 31  # all ones below sqrt(1/2), where the mantissa is doubled
    exponent += low
    exponent -= 126
    e = exponent.astype(_F32)
    mantissa = mantissa_bits.view(_F32)
    doubled = (mantissa_bits & low).view(_F32)
    mantissa = mantissa - _F32(1)  # exact, as the next sum is
    mantissa += doubled
    x64 = mantissa.astype(_F64)
    z = mantissa * mantissa
    y = _horner(_LOG_P, x64)
    y *= mantissa
    z64 = z.astype(_F64)
    wide = y.astype(_F64)
    wide *= z64
    e *= _LN2_LOW
    wide += e
    y[...] = wide
    wide[...] = y
    z64 *= 0.5
    wide -= z64
    y[...] = wide
    y += mantissa
    wide[...] = exponent
    wide *= _LN2_HIGH
    wide += y
    return wide.astype(_F32)


def sincos_float32(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of float32 numbers in [0, 8192]."""
    octant = (x * _FOUR_OVER_PI).astype(np.int32)
    octant += 1
    octant &= -2
    turns = octant.astype(_F64)
    x = x.copy()
    for part in _QUARTER_PI:
        wide = turns * part
        wide += x
        x[...] = wide
    z = x * x
    z64 = z.astype(_F64)
    cos = _horner(_COS_P, z64)
    cos *= z
    wide[...] = cos
    wide *= z64
    wide -= z64 * 0.5
    cos[...] = wide
    cos += _F32(1)
    sin = _horner(_SIN_P, z64)
    sin *= z
    wide[...] = sin
    wide *= x
    wide += x
    sin[...] = wide
    # octant / 2 modulo 4 is the quadrant: odd ones swap sine and cosine; then come the signs
    sine, cosine = sin.view(np.int32), cos.view(np.int32)
    exchanged = (sine ^ cosine) & -((octant >> 1) & 1)
    sine ^= exchanged
    cosine ^= exchanged
    sine ^= (octant & 4) << 29
    cosine ^= ((octant + 2) & 4) << 29
    return sin, cos


def _standard_rows(groups: np.ndarray) -> None:
    radius = log_float32(_F32(1) - groups[:, :8])  # [0, 1) becomes (0, 1]
    radius *= _F32(-2)
    np.sqrt(radius, out=radius)
    sine, cosine = sincos_float32(groups[:, 8:] * _TWO_PI)
    np.multiply(radius, cosine, out=groups[:, :8])
    np.multiply(radius, sine, out=groups[:, 8:])


def standard_normal_float32(groups: np.ndarray) -> None:
    """Turn a contiguous (n, 16) float32 array of uniforms into standard normals, in place."""
    for start in range(0, len(groups), _ROWS):
        _standard_rows(groups[start : start + _ROWS])


def standard_normal_float64(groups: np.ndarray) -> None:
    """Turn a contiguous (n, 16) float64 array of uniforms into standard normals, in place."""
    radius = np.sqrt(-2.0 * libm(math.log, 1.0 - groups[:, :8]))
    turned = np.exp(groups[:, 8:] * (2.0 * math.pi) * 1j)  # exp(i t) takes its sine and cosine from the C library
    np.multiply(radius, turned.real, out=groups[:, :8])
    np.multiply(radius, turned.imag, out=groups[:, 8:])


@native.part("libm", work="x.size", budget=draws)
def libm(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """``function`` of the C library, element by element: NumPy's vector versions round some results differently.

    Args:
        function: called like the C library's but for underscores around the name; may differ from it only where that gives no number.
    """
    return np.fromiter(map(function, x.ravel().tolist()), _F64, x.size).reshape(x.shape)


def fused_float32(a: np.ndarray, b: Any, c: Any) -> np.ndarray:
    """``a * b + c`` of float32 numbers with one rounding."""
    b, c = _F64(b), _F64(c)
    product = a.astype(_F64)
    product *= b
    total = product + c
    narrow = total.astype(_F32)
    middle = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    if middle.any():
        at = np.flatnonzero(middle)
        p, s = product.ravel()[at], total.ravel()[at]
        back = s - p
        error = (p - (s - back)) + (c - back)  # what the sum lost
        narrow.ravel()[at] = np.where(error == 0, s, np.nextafter(s, np.where(error > 0, np.inf, -np.inf))).astype(_F32)
    return narrow


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _split(a: Any) -> tuple[Any, Any]:
    scaled = a * 134217729.0  # 2**27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def fused_float64(a: np.ndarray, b: float, c: float) -> np.ndarray:
    """``a * b + c`` of float64 numbers with one rounding, for finite factors below 1e150."""
    if c == 0.0:
        return a * b + 0.0
    if b == 1.0:
        return a + c
    b = _F64(b)
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    lost = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    high, low = _two_sum(_F64(c), lost)
    total, rest = _two_sum(product, high)
    tail, error = _two_sum(low, rest)
    # rounding the tail to odd keeps the last addition from rounding twice
    even = (error != 0) & ((tail.view(np.int64) & 1) == 0)
    if even.any():
        tail = np.where(even, np.nextafter(tail, np.where(error > 0, np.inf, -np.inf)), tail)
    exact = total + tail
    return np.where(np.isfinite(exact), exact, product + c)
