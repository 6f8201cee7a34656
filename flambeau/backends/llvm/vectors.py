"""Mathematical functions of vectors: ``exp(k, x)`` writes the instructions that compute exp of every lane of ``x``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from .language import Builder, Value

# Polynomials, by ``python -m tools.minimax``; lowest power first.
# (exp(r) - 1 - r) / r**2 for |r| up to log(2) / 2
_EXP = {
    "f32": (0.49999994, 0.166665167, 0.0416681021, 0.00836919248, 0.00138388702),
    "f64": (
        0.5000000000000011, 0.16666666666666438, 0.041666666666525805, 0.008333333333473749, 0.001388888894484961,
        0.00019841269561188471, 2.4801491750340198e-05, 2.7557535147338656e-06, 2.763081418849233e-07, 2.5016625343154178e-08,
    ),
}  # fmt: skip
# float32: (log(1 + f) - f + f**2 / 2) / f**3 for f from -1/4 to 1/2; float64: (2 atanh(s) / s - 2) / s**2 as a function of s**2
_LOG = {
    "f32": (
        0.333333403, -0.250001669, 0.199995637, -0.166552261, 0.142771155, -0.127296269, 0.117019065, -0.0912583768, 0.0378280878,
    ),
    "f64": (
        0.666666666666666, 0.40000000000056746, 0.2857142855580346, 0.22222224299794371, 0.1818166565707079, 0.1539111952804251,
        0.13173466315718124, 0.13843969408114384,
    ),
}  # fmt: skip
# (sin(r) / r - 1) / r**2 as a function of r**2, for |r| up to pi / 4; the tables of tan, atan, asin, tanh and sinh likewise
_SIN = {
    "f32": (-0.166666538, 0.00833209511, -0.0001950554),
    "f64": (
        -0.1666666666666662, 0.008333333333319724, -0.0001984126982763585, 2.755731293306374e-06, -2.505063862600671e-08,
        1.5889838980226767e-10,
    ),
}  # fmt: skip
# |r| up to 0.55
_TANH = {
    "f32": (-0.333333164, 0.133325458, -0.0538478009, 0.0210520402, -0.00624503195),
    "f64": (
        -0.333333333333333, 0.13333333333326577, -0.05396825396373404, 0.02186948838506058, -0.00886323258790113, 0.003592091888936398,
        -0.0014555419061757346, 0.0005884405094704352, -0.0002333711758363637, 8.330118042927429e-05, -1.94850367379173e-05,
    ),
}  # fmt: skip
# |r| up to 1
_SINH = {
    "f32": (0.166666672, 0.00833331048, 0.000198428941, 2.78223001e-06),
    "f64": (
        0.16666666666666669, 0.008333333333332912, 0.0001984126984159348, 2.755731910670343e-06, 2.5052131012635135e-08,
        1.605665764065717e-10, 7.776660288352609e-13,
    ),
}  # fmt: skip
# (cos(r) - 1 + r**2 / 2) / r**4 as a function of r**2
_COS = {
    "f32": (0.0416666456, -0.00138872908, 2.44286402e-05),
    "f64": (
        0.04166666666666658, -0.0013888888888870827, 2.4801587287364592e-05, -2.755731372652791e-07, 2.0875636613848624e-09,
        -1.1355092115085673e-11,
    ),
}  # fmt: skip
# |r| up to pi / 4
_TAN = {
    "f32": (0.333333522, 0.13332577, 0.0540695339, 0.0212333947, 0.0109606357, -6.73540708e-05, 0.0044533019),
    "f64": (
        0.33333333333332665, 0.13333333333430059, 0.05396825391931225, 0.02186948978466427, 0.008863216700021086, 0.003592311214046146,
        0.00145462407446079, 0.0005956258124758877, 0.0002207313456293138, 0.00013991096450787285, -3.1145293723349734e-05,
        9.38154201214645e-05, -4.72263715973406e-05, 2.1427085866033556e-05,
    ),
}  # fmt: skip
# |r| up to 1
_ATAN = {
    "f32": (
        -0.333332986, 0.199985296, -0.142640159, 0.109508775, -0.0839928165, 0.0578805804, -0.031095678, 0.0108676516, -0.00178250181,
    ),
    "f64": (
        -0.3333333333333307, 0.19999999999951748, -0.14285714282587883, 0.11111111007332307, -0.09090907007565648, 0.07692279885532213,
        -0.06666404390789495, 0.05880529588094921, -0.05253525697030233, 0.047223443642779576, -0.0421923235459255, 0.0366429176039678,
        -0.029905342969886863, 0.021986557137950016, -0.013902064849953462, 0.007197505351412991, -0.002885404971199705,
        0.0008314842290719535, -0.0001521941637964767, 1.3228236979375293e-05,
    ),
}  # fmt: skip
# |r| up to 1 / 2
_ASIN = {
    "f32": (0.166667521, 0.0749530867, 0.0454692729, 0.0241841245, 0.0421594344),
    "f64": (
        0.1666666666666676, 0.0749999999997086, 0.04464285717456992, 0.030381942709324723, 0.022372214953082503, 0.01735161252154087,
        0.01398081546898995, 0.011398947370134378, 0.010780084444032776, 0.0037069566966569647, 0.021706289800783454,
        -0.020997631591811644, 0.03262783730119796,
    ),
}  # fmt: skip
# erf(x) / x - 1 as a function of x**2, for |x| up to 1
_ERF = {
    "f32": (0.128379166, -0.37612626, 0.112835787, -0.0268533472, 0.0051871622, -0.000799785194, 7.80689006e-05),
    "f64": (
        0.12837916709551256, -0.3761263890318341, 0.11283791670942818, -0.026866170643264967, 0.005223977609434496,
        -0.000854832615277437, 0.00012055301501932421, -1.4924879607591628e-05, 1.6449309092071973e-06, -1.6223482256514617e-07,
        1.378627033714733e-08, -7.920525886507151e-10,
    ),
}  # fmt: skip
# -log(erfc(1 + x)), until erfc is nothing beside 1
_ERF_FAR = {
    "f32": (
        1.84960556, 2.63896489, 0.843142271, 0.0412823223, -0.00891432445, -0.000246316195, 0.00197865651, -0.00107098056,
        0.000199429545,
    ),
    "f64": (
        1.8496055099332482, 2.6389675142347855, 0.8431072563589821, 0.04156109803320462, -0.010033825261150311, 0.0019779017171511074,
        -0.00023731843516320493, -2.629085366297863e-05, 2.718835625212371e-05, -9.656452310550224e-06, 2.1165342441121295e-06,
        -1.9308149971953267e-07, -6.457316239954813e-08, 3.604793375998903e-08, -9.27446460306756e-09, 1.4619775813892427e-09,
        -1.3540836564422629e-10, 5.678730789739142e-12,
    ),
}  # fmt: skip
# erfc(x) * exp(x**2) * (x + 2) as a function of (x - 2) / (x + 2), from x = 1 / 2 on
_ERFC = {
    "f32": (
        1.02158272, -0.687160671, 0.279472113, -0.0364424549, -0.0215112884, 0.00648237159, 0.0030947614, -0.000856653322,
        -0.000671852438, 8.87476344e-05, 0.000140634205, -2.8633287e-05,
    ),
    "f64": (
        1.021582705242023, -0.6871606844138105, 0.27947209255605754, -0.036442231506899424, -0.02151066188972378, 0.006479185068858007,
        0.0030906120668841614, -0.0008372960915157083, -0.00066307362773453, 3.437186071581516e-05, 0.0001444718132115467,
        3.4145097386336584e-05, -2.170133591794491e-05, -1.6099385363792102e-05, -1.1139889570607658e-06, 3.566497602301954e-06,
        2.005022997519488e-06, 1.7130421175130653e-07, -6.515077473776765e-07, -5.277254010545727e-07, 1.6998552351145497e-07,
        2.0640751429870126e-07, -7.790048478561917e-08,
    ),
}  # fmt: skip
# (atanh(s) / s - 1 - z / 3) / z**2 as a function of z = s**2, for |s| up to 1 / 5
_POW = (
    0.1999999999999986, 0.14285714285789966, 0.1111111109539109, 0.0909091078399847, 0.07692202270721239, 0.0667060216006075,
    0.05795730616455866, 0.06288476501326097,
)  # fmt: skip
# log2((1 + s) / (1 - s)) / s as a function of s**2, to 2**-40
_POW_LOG2 = (
    2.885390081777417, 0.9617966948360928, 0.5770777532417649, 0.4122263533739721, 0.31927946030061843, 0.29089139351428445,
)  # fmt: skip
# (2**r - 1) / r for |r| up to 1 / 2, to 2**-32
_POW_EXP2 = (
    0.6931471807045165, 0.2402265106752342, 0.05550410365621465, 0.00961803799111619, 0.0013333927898184605, 0.00015466301608672405,
    1.5191551143066792e-05,
)  # fmt: skip

_INF, _NAN = math.inf, math.nan
_MANTISSA = {"f32": 23, "f64": 52}  # bits of the fraction
_BIAS = {"f32": 127, "f64": 1023}
_MAGIC = {"f32": 1.5 * 2.0**23, "f64": 1.5 * 2.0**52}  # added, it leaves a whole number in the low bits
# log(2) in two parts; the first ends in so many zeros that its product with an exponent is exact, the second is positive
_LN2 = {"f32": (0.693145751953125, 1.4286068203094173e-06), "f64": (0.6931471805598903, 5.497923018708371e-14)}

# Constants as sums, the largest first
_PI_2 = {"f32": (1.5707963705062866, -4.371138828673793e-08), "f64": (1.5707963267948966, 6.123233995736766e-17)}
_PI_2_LOW = 6.123233995736766e-17
_PI = {"f32": (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15), "f64": (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33)}
_PI_SHORT = (3.1415926534682512, 1.2154201012607932e-10, 4.044532497422333e-21, 1.69568553207378e-31)  # 33 bits each, for want of fma
_LOG2_E = {"f32": (1.4426950216293335, 1.925963033500011e-08), "f64": (1.4426950408889634, 2.0355273740931033e-17)}
_LOG10_E = {"f32": (0.4342944920063019, -1.0103049952192578e-08), "f64": (0.4342944819032518, 1.098319650216765e-17)}
_LOG10_2 = {"f32": (0.301025390625, 4.605038981195214e-06), "f64": (0.30102999566383914, 1.42050232272661e-13)}  # as _LN2
_2_LN2 = (2.8853900817779268, 4.0710547481862066e-17)
_THIRD_LOW = 1.850371707708594e-17
_ROOT_LIMIT = {"f32": 2.0**30, "f64": 2.0**60}  # above, 1 + x is x



def _half_pi(k: Builder, x: Value) -> list[float]:
    """pi / 2 as a sum whose products with whole numbers are exact, or are made exact by fma."""
    return [part / 2 for part in (_PI[x.kind] if k.target.has_fma else _PI_SHORT)]

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
    return k.const(value, like.kind, like.lanes)


def negate_where(k: Builder, mask: Value, x: Value) -> Value:
    return k.select(mask, -x, x)


def two_product(k: Builder, a: Value, b: Any) -> tuple[Value, Value]:
    """a * b as a sum of two: rounded, and what rounding left out."""
    b = k.like(b, a)
    product = a * b
    if k.target.has_fma:
        return product, k.fma(a, b, -product)
    splitter = 2.0**27 + 1.0 if a.kind == "f64" else 2.0**12 + 1.0  # Dekker 1971: halves whose products are exact

    def halves(v: Value) -> tuple[Value, Value]:
        c = v * splitter
        high = c - (c - v)
        return high, v - high

    (ah, al), (bh, bl) = halves(a), halves(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _wide(k: Builder, x: Value) -> str:
    """The ending of AVX-512's instructions for values like ``x``; empty where there are none."""
    bits = x.lanes * (32 if x.kind == "f32" else 64)
    return f"{'ps' if x.kind == 'f32' else 'pd'}.{bits}" if k.target.name == "avx512" and bits in (128, 256, 512) else ""


def _avx512(k: Builder, name: str, x: Value, *operands: Value) -> Value:
    """Call one of AVX-512's instructions on all lanes."""
    every = k.const(-1, f"i{max(x.lanes, 8)}")
    rounding = (k.const(4, "i32"),) if name.endswith("512") and "rsqrt" not in name else ()
    return k.call(f"llvm.x86.avx512.{name}", x.kind, x.lanes, *operands, x, every, *rounding)


def scale(k: Builder, x: Value, whole: Value, rounder: Value) -> Value:
    """``x * 2**whole`` rounded once, for x near 1; ``rounder`` is whole + _MAGIC. Underflows gradually."""
    wide = _wide(k, x)
    if wide:
        return _avx512(k, "mask.scalef." + wide, x, x, whole)
    # by two factors of about equal size, as one cannot always be written as a float
    shift = _MANTISSA[x.kind]
    steps = k.bits(rounder) << shift
    half = (steps >> 1) & -(1 << shift)
    bias = _BIAS[x.kind] << shift
    return x * k.bits(half + bias) * k.bits(steps - half + bias)


def power_of_two(k: Builder, rounder: Value) -> Value:
    """``2**n`` of a whole number n in the range of normal floats, given as n + _MAGIC."""
    shift = _MANTISSA[rounder.kind]
    return k.bits((k.bits(rounder) << shift) + (_BIAS[rounder.kind] << shift))


def _whole(k: Builder, x: Value, factor: float) -> tuple[Value, Value]:
    """``x * factor`` rounded to a whole number, and the same + _MAGIC."""
    rounder = k.fma(x, factor, _MAGIC[x.kind])
    return rounder - _MAGIC[x.kind], rounder


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
    high, low = _LN2[x.kind]
    return k.fma(n, -low, k.fma(n, -high, x)), n, rounder


def _exp_small(k: Builder, r: Value) -> Value:
    """exp(r) for |r| up to log(2) / 2."""
    return k.fma(k.fma(r, polynomial(k, r, _EXP[r.kind]), 1.0), r, 1.0)


def _expm1_small(k: Builder, r: Value) -> Value:
    """exp(r) - 1 for |r| up to log(2) / 2."""
    return k.fma(r * r, polynomial(k, r, _EXP[r.kind]), r)


def _expm1_part(k: Builder, x: Value, fewer: int) -> Value:
    """(exp(x) - 1) / 2**fewer for x in the reduced range of both ends."""
    r, _, rounder = _exp_reduced(k, x)
    power = power_of_two(k, rounder - float(fewer) if fewer else rounder)
    return k.fma(power, _expm1_small(k, r), power - 2.0**-fewer)


def _exp_of_negative(k: Builder, x: Value) -> Value:
    """exp(-|x|)"""
    r, n, rounder = _exp_reduced(k, k.most(_EXP_RANGE[x.kind][0], -k.abs(x)))
    return scale(k, _exp_small(k, r), n, rounder)


def exp(k: Builder, x: Value) -> Value:
    r, n, rounder = _exp_reduced(k, _clamp(k, x, *_EXP_RANGE[x.kind]))
    return scale(k, _exp_small(k, r), n, rounder)


def exp2(k: Builder, x: Value) -> Value:
    x = _clamp(k, x, *_EXP2_RANGE[x.kind])
    n, rounder = _whole(k, x, 1.0)
    return scale(k, _exp_small(k, (x - n) * math.log(2)), n, rounder)


def expm1(k: Builder, x: Value) -> Value:
    half = _expm1_part(k, _clamp(k, x, _EXPM1_LOW[x.kind], _EXP_RANGE[x.kind][1]), 1)
    return k.select(k.abs(x) < _TINY[x.kind], x, half + half)


def tanh(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    bounded = k.least(9.5 if x.kind == "f32" else 20.0, size)
    e = _expm1_part(k, bounded + bounded, 0)
    return k.copysign(k.select(size < 0.55, odd_polynomial(k, size, _TANH[x.kind]), e / (e + 2.0)), x)


def sinh(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    quarter = _expm1_part(k, k.least(_EXP_RANGE[x.kind][1] + 0.5, size), 2)
    half = quarter + quarter
    return k.select(size < 1.0, odd_polynomial(k, x, _SINH[x.kind]), k.copysign(half + quarter / (half + 0.5), x))


def cosh(k: Builder, x: Value) -> Value:
    r, n, rounder = _exp_reduced(k, k.least(_EXP_RANGE[x.kind][1] + 0.5, k.abs(x)))
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
    shift, kind = _MANTISSA[x.kind], x.kind
    small = x < (2.0**-126 if kind == "f32" else 2.0**-1022)
    bits = k.bits(k.select(small, x * 2.0**60, x))
    e = (bits - ((_BIAS[kind] << shift) - (1 << (shift - 1)))) >> shift
    m = k.bits(bits - (e << shift))
    return m, k.cast(e, kind) - k.select(small, constant(k, 60.0, x), 0.0)


def _log_edges(k: Builder, x: Value, result: Value) -> Value:
    """Logarithms of zero, infinity, NaN and negative numbers, where ``_split`` does not bring them about."""
    if _wide(k, x):
        return result
    edge = k.select(x.eq(0.0), constant(k, -_INF, x), _NAN)
    return k.select(x > 0.0, k.select(x < _INF, result, x), edge)


def _log_tail(k: Builder, f: Value) -> Value:
    """log(1 + f) - f for f from -1/4 to 1/2."""
    if f.kind == "f32":
        return (f * f) * k.fma(polynomial(k, f, _LOG["f32"]), f, -0.5)
    s = f / (f + 2.0)
    z = s * s
    return s * k.fma(z, polynomial(k, z, _LOG["f64"]), -f)


def _log_joined(k: Builder, f: Value, e: Value) -> Value:
    """log(1 + f) + e * log(2)"""
    high, low = _LN2[f.kind]
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
    product, left = two_product(k, y, factor[0])
    return _log_edges(k, x, k.fma(e, unit[0], product + (left + low)))


def log(k: Builder, x: Value) -> Value:
    m, e = _split(k, x)
    return _log_edges(k, x, _log_joined(k, m - 1.0, e))


def log2(k: Builder, x: Value) -> Value:
    return _log_based(k, x, _LOG2_E[x.kind], (1.0, 0.0))


def log10(k: Builder, x: Value) -> Value:
    return _log_based(k, x, _LOG10_E[x.kind], _LOG10_2[x.kind])


def _log1p(k: Builder, x: Value, doublings: Value | None = None, low: Any = 0.0) -> Value:
    """log(1 + x + low) + doublings * log(2), but for the sign of zero."""
    u = x + 1.0
    part = u - 1.0
    c = k.select(u < 2.0**60, (1.0 - (u - part)) + (x - part) + low, 0.0)  # what u lacks of 1 + x
    m, e = _split(k, u)
    f = k.fma(c, power_of_two(k, _MAGIC[x.kind] - _clamp(k, e, -60.0, 60.0)), m - 1.0)
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
    large = size > _ROOT_LIMIT[x.kind]
    square = size * size
    inner = k.select(large, size, size + square / (k.sqrt(square + 1.0) + 1.0))
    result = _log1p(k, inner, k.select(large, constant(k, 1.0, x), 0.0))
    return k.copysign(result, x)


def acosh(k: Builder, x: Value) -> Value:
    large = x > _ROOT_LIMIT[x.kind]
    t = x - 1.0
    root = k.sqrt(k.select(t < 0.0, t, k.fma(t, t, t + t)))
    total = t + root
    inner = k.select(large, x, total)
    return _log1p(k, inner, k.select(large, constant(k, 1.0, x), 0.0), t - (total - root))


def atanh(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    half = _log1p(k, (size + size) / (1.0 - size)) * 0.5
    return k.select(size < _TINY[x.kind], x, k.copysign(half, x))


# -- trigonometry -----------------------------------------------------------------------------------------------------------------------
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


def _reduced_huge(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """q, r and its error, |r| up to pi / 4, with |x| = r + q * pi / 2, q modulo 4, for float64 from 2**20 on (Payne and Hanek 1983).

    |x| = m * 2**e with a whole m of 53 bits. Of m * 2**e * 2 / pi only the value modulo 4 counts, so that of the bits of 2 / pi just a
    window of 192 matters, at a distance given by e: those before it contribute multiples of 4, those behind it too little.
    """
    most = max(k.target.width // 8, 1)
    if x.lanes > most:
        half = x.lanes // 2
        sides = [_reduced_huge(k, k.shuffle(x, range(start, start + half))) for start in (0, half)]
        q, r, low = (k.shuffle(a, range(x.lanes), b) for a, b in zip(*sides, strict=True))
        return q, r, low
    q, r, low = k.function("reduced_huge", _huge_part, x)
    return q, r, low


def _huge_part(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """``_reduced_huge`` for one register."""
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
    carry = None
    for column in reversed(columns):
        total = column[0]
        for part in column[1:] + ([carry] if carry is not None else []):
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
    product, rest = two_product(k, total, math.pi / 2)
    rest = rest + (second * (math.pi / 2) + total * _PI_2_LOW)
    r = product + rest
    return q, r, rest - (r - product)


def _reduced(k: Builder, x: Value, q: Value) -> tuple[Value, Value]:
    """x - q * pi / 2 as a sum of two."""
    first, *more, last = _half_pi(k, x)
    r, low = k.fma(q, -first, x), constant(k, 0.0, x)
    for part in more:
        product, error = two_product(k, q, part) if k.target.has_fma else (q * part, None)
        following = r - product
        lost = (r - following) - product
        low = low + (lost if error is None else lost - error)
        r = following
    low = k.fma(q, -last, low)
    total = r + low
    return total, low - (total - r)


def _quadrant(k: Builder, x: Value, precise: bool = False) -> tuple[Value, Value, Value]:
    """r, |r| up to pi / 4, with x = r + q * pi / 2, what r lacks (zero unless ``precise``), and q in its low bits."""
    if x.kind == "f32" and not k.target.has_fma:
        wide, _, turns = _quadrant(k, k.cast(x, "f64"))
        r = k.cast(wide, "f32")
        return r, k.cast(wide - k.cast(r, "f64"), "f32"), k.cast(turns, "i32")
    whole = "i32" if x.kind == "f32" else "i64"
    q, rounder = _whole(k, x, 2 / math.pi)
    if precise:
        r, low = _reduced(k, x, q)
    else:
        r, low = x, constant(k, 0.0, x)
        for part in _half_pi(k, x):
            r = k.fma(q, -part, r)
    turns = k.bits(rounder)
    # further off, products with parts of pi are not exact (float64), or q is too far from the nearest one (float32)
    large = k.abs(x) > (2.0**17 if x.kind == "f32" else 2.0**30 if k.target.has_fma else 2.0**20)

    def slow() -> tuple[Value, ...]:
        new_turns, exact, lost = _reduced_huge(k, k.cast(k.select(large, x, 2.0**32), "f64"))
        near = k.cast(exact, x.kind)
        lost = k.cast(exact - k.cast(near, "f64"), x.kind) if x.kind == "f32" else lost
        near = k.select(k.abs(x) < _INF, near, _NAN)
        negative = x < 0.0
        new_turns = k.cast(k.cast(new_turns, "i64"), whole)
        return (
            k.select(large, negate_where(k, negative, near), r),
            k.select(large, negate_where(k, negative, lost), low),
            k.select(large, negate_where(k, negative, new_turns), turns),
        )

    return k.when(k.any(large), slow, lambda: (r, low, turns))


def _sine(k: Builder, x: Value, ahead: int) -> Value:
    """sin(x + ahead * pi / 2)"""
    kind = x.kind
    r, _, turns = _quadrant(k, x)
    turns = turns + ahead if ahead else turns
    z = r * r
    sine = k.fma(r * z, polynomial(k, z, _SIN[kind]), r)
    cosine = k.fma(z * z, polynomial(k, z, _COS[kind]), k.fma(z, -0.5, 1.0))
    top = 31 if kind == "f32" else 63
    chosen = k.bits(k.select((turns << top) < 0, cosine, sine))
    return k.bits(chosen ^ ((turns << (top - 1)) & -(1 << top)))


def sin(k: Builder, x: Value) -> Value:
    return k.select(x.eq(0.0), x, _sine(k, x, 0))


def cos(k: Builder, x: Value) -> Value:
    return _sine(k, x, 1)


def tan(k: Builder, x: Value) -> Value:
    r, low, turns = _quadrant(k, x, precise=True)
    z = r * r
    more = r * z * polynomial(k, z, _TAN[x.kind])
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
    w = t * z * polynomial(k, z, _ATAN[t.kind])
    high, low = _PI_2[t.kind]
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
    high, low = _PI_2[x.kind]
    r = k.select(k.bits(x) < 0, 2 * high - (r - 2 * low), r)
    return k.copysign(r, y)


def _arcsine(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Where |x| is above 1/2, and s and w: asin(|x|) is s + w, there pi / 2 - 2 * (s + w)."""
    size = k.abs(x)
    large = size > 0.5
    z = k.select(large, (1.0 - size) * 0.5, size * size)
    s = k.select(large, k.sqrt(z), size)
    return large, s, s * z * polynomial(k, z, _ASIN[x.kind])


def asin(k: Builder, x: Value) -> Value:
    large, s, w = _arcsine(k, x)
    high, low = _PI_2[x.kind]
    return k.copysign(k.select(large, (high - (s + s)) - (w + w - low), s + w), x)


def acos(k: Builder, x: Value) -> Value:
    large, s, w = _arcsine(k, x)
    high, low = _PI_2[x.kind]
    twice, r = (s + w) + (s + w), k.copysign(s + w, x)
    far = k.select(x < 0.0, 2 * high - (twice - 2 * low), twice)
    return k.select(large, far, high - (r - low))


# -- the normal distribution's integral ---------------------------------------------------------------------------------------------------
def erf(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    near = k.fma(x, polynomial(k, x * x, _ERF[x.kind]), x)
    far = k.least(4.0 if x.kind == "f32" else 6.0, size) - 1.0
    r, _, rounder = _exp_reduced(k, -polynomial(k, far, _ERF_FAR[x.kind]))
    far = 1.0 - _exp_small(k, r) * power_of_two(k, rounder)
    return k.select(size < 1.0, near, k.copysign(far, x))


def erfc(k: Builder, x: Value) -> Value:
    size = k.least(11.0 if x.kind == "f32" else 28.0, k.abs(x))
    beyond = size + 2.0
    t = (size - 2.0) / beyond
    inverse = k.fma(t, -0.25, 0.25)
    lost = (size - (beyond - 2.0)) * inverse  # quotients by beyond are too large by this part of them
    p = polynomial(k, k.fma(-t, lost, t), _ERFC[x.kind])
    smooth = p / beyond
    rest = k.fma(-smooth, beyond, p) * inverse if k.target.has_fma else constant(k, 0.0, x)
    rest = k.fma(-smooth, lost, rest)
    square, left = two_product(k, size, size)
    r, n, rounder = _exp_reduced(k, -square)
    e = _expm1_small(k, r - left)
    far = scale(k, smooth + k.fma(smooth, e, k.fma(rest, e, rest)), n, rounder)
    near = k.fma(x, polynomial(k, x * x, _ERF[x.kind]), x)
    return k.select(size < 0.5, 1.0 - near, k.select(x < 0.0, 2.0 - far, far))


# -- powers -------------------------------------------------------------------------------------------------------------------------------
def rsqrt(k: Builder, x: Value) -> Value:
    wide = _wide(k, x)
    if x.kind == "f64" or not k.target.has_fma:
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
    product, rest = two_product(k, s, d)
    s_low = (((f - product) - rest) - s * (f - (d - 2.0))) * inverse
    # atanh(s) = s + s * (z / 3 + z**2 * P(z))
    z, z_low = two_product(k, s, s)
    z_low = k.fma(s + s, s_low, z_low)
    third, third_low = two_product(k, z, 1 / 3)
    more = z * z * polynomial(k, z, _POW)
    u = third + more
    u_low = ((third - u) + more) + (third_low + (z_low * (1 / 3) + z * _THIRD_LOW))
    v, v_low = two_product(k, s, u)
    v_low = v_low + (s * u_low + s_low * u)
    a = s + v
    a_low = ((s - a) + v) + (v_low + s_low)
    b, b_low = two_product(k, a, _2_LN2[0])
    b_low = b_low + (a * _2_LN2[1] + a_low * _2_LN2[0])
    high = e + b
    return high, ((e - high) + b) + b_low


def _power_of_positive(k: Builder, x: Value, y: Value) -> Value:
    """x**y for finite x > 0."""
    if x.kind == "f32":  # all in float64, where there is room for the logarithm's further bits and for any exponent
        wide = k.cast(x, "f64")
        bits = k.bits(wide)
        e = (bits - ((1023 << 52) - (1 << 51))) >> 52
        m = k.bits(bits - (e << 52))
        s = (m - 1.0) / (m + 1.0)
        exponent = k.cast(y, "f64") * k.fma(s, polynomial(k, s * s, _POW_LOG2), k.cast(e, "f64"))
        exponent = _clamp(k, exponent, -160.0, 140.0)
        n, rounder = _whole(k, exponent, 1.0)
        r = exponent - n
        return k.cast(k.fma(r, polynomial(k, r, _POW_EXP2), 1.0) * power_of_two(k, rounder), "f32")
    high, low = _log2_double(k, x)
    product, rest = two_product(k, y, high)
    rest = k.select(k.abs(product) < 2000.0, k.fma(y, low, rest), 0.0)
    exponent = _clamp(k, product, -1100.0, 1100.0)
    n, rounder = _whole(k, exponent, 1.0)
    return scale(k, _exp_small(k, ((exponent - n) + rest) * math.log(2)), n, rounder)


def pow(k: Builder, x: Value, y: Value) -> Value:  # noqa: A001
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
