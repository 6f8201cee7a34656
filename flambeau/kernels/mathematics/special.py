"""Special functions of vectors: gamma and its kin, Bessel's and Airy's functions, inverses and scaled forms of the error function.

All are computed in float64, float32 operands included, whose results are rounded once at the end.  Most of them work alike: near zero the
function, freed of what makes it singular there, is a piecewise polynomial (``piecewise``, tables in ``piecewise.json``); far away
a piecewise polynomial in 1 / x corrects its asymptotic form (Abramowitz and Stegun 1964, chapters 6, 9 and 10; NIST's handbook, 2010).
``vectors.MAX_ULP`` states how exact they are, oscillating ones apart, whose errors are measured beside their amplitudes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from ..compiler.language import Builder, Value
from . import vectors
from .coefficients import Pieces, entries, pieces

_INF, _NAN = math.inf, math.nan
_PI, _PI_LOW = math.pi, 1.2246467991473532e-16
_ROOT_HALF, _ROOT_HALF_LOW = 0.7071067811865476, -4.833646656726457e-17
_DIGAMMA_ROOT, _DIGAMMA_ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17
Function = Callable[..., Value]

FUNCTIONS: dict[str, Function] = {}  # by SciPy's names for them

# Bounds of the errors in units of the last place of float64, on any processor; float32 results are correctly rounded but for one in some
# thousands (0.51). Measured, then rounded up, at some thousand arguments each against mpmath: relative to the value, or to the amplitude of
# what oscillates, or for the gamma functions below zero and zeta below zero to 1 where the value is smaller.
MAX_ULP: dict[str, float] = entries("max_ulp.json")["special"]

# The same for float32, where it is not 0.51.
MAX_ULP_SINGLE: dict[str, float] = {"erfinv": 1.25}


def _function(name: str) -> Callable[[Function], Function]:
    """Decorator: a function of float64 values, as SciPy's of this name for values of any element type."""

    def declare(function: Function) -> Function:
        def of_any(k: Builder, *values: Value) -> Value:
            element, lanes = values[0].element, max(value.lanes for value in values)
            wide = [k.cast(k.splat(value, lanes), "f64") for value in values]

            def body(inner: Builder, *arguments: Value) -> tuple[Value]:
                inner.is_single = element == "f32"
                return (function(inner, *arguments),)

            return k.cast(k.function(f"{name}_{element}", body, *wide)[0], element)

        FUNCTIONS[name] = of_any
        return function

    return declare


# -- parts ------------------------------------------------------------------------------------------------------------------------------
def piecewise(k: Builder, x: Value, name: str, single: bool | None = None) -> Value:
    """The tabulated function at x from 0 to the table's end; beyond and for NaN at some place in it.

    A piece's number and the variable in it are read from the bits of x: both are exact. Where the result is to be float32 (``single``, or
    what the builder says), the polynomials have as many terms as that needs.
    """
    table = pieces(name, k.is_single if single is None else single)
    steps = table.parts.bit_length() - 1
    count, shift = len(table.rows[0]), 52 - steps
    below = math.nextafter(table.high, 0)
    x = k.least(k.most(x, 0.0), below)
    bits = k.bits(x)
    piece = (bits >> shift) - ((round(math.log2(table.low)) + 1023 << steps) - 1)
    inside = k.bits((bits & ((1 << shift) - 1)) | (1023 << 52)) - 1.0
    first = x < table.low
    piece = k.select(first, 0, piece)
    u = k.select(first, x * (1 / table.low), inside * float(table.parts)) - 0.5
    if count == 1:
        *rest, result = [k.const(row[0], "f64", x.lanes) for row in table.rows]
    elif k.target.has_masks and x.lanes % _ENTRIES == 0:
        *rest, result = _permuted(k, table, piece)
    else:
        values = k.table([c for row in table.rows for c in row], "f64")
        *rest, result = [k.gather(values, piece + j * count, "f64") for j in range(len(table.rows))]
    for c in reversed(rest):
        result = k.fma(result, u, c)
    return result


_ENTRIES = 8  # of a register of AVX-512


def _permuted(k: Builder, table: Pieces, piece: Value) -> list[Value]:
    """Each row of a table at the numbers ``piece``, by permutations of registers: some cycles where a gather takes a dozen."""
    blocks = -(-len(table.rows[0]) // _ENTRIES)
    padding = (0.0,) * (blocks * _ENTRIES - len(table.rows[0]))
    values = k.table([c for row in table.rows for c in (*row, *padding)], "f64")
    parts = [k.shuffle(piece, range(start, start + _ENTRIES)) for start in range(0, piece.lanes, _ENTRIES)]

    def among(first: int, count: int, part: Value) -> Value:
        """The entries of one or two registers, by the lowest bits of their numbers."""
        held = [k.load(values, (first + i) * _ENTRIES, "f64", _ENTRIES) for i in range(count)]
        if count == 1:
            return k.call("llvm.x86.avx512.permvar.df.512", "f64", _ENTRIES, held[0], part)
        return k.call("llvm.x86.avx512.vpermi2var.pd.512", "f64", _ENTRIES, held[0], part, held[1])

    def of_row(j: int, part: Value) -> Value:
        result = among(j * blocks, min(blocks, 2), part)
        for start in range(2, blocks, 2):
            result = k.select(part < start * _ENTRIES, result, among(j * blocks + start, min(blocks - start, 2), part))
        return result

    rows = []
    for j in range(len(table.rows)):
        joined = of_row(j, parts[0])
        for part in parts[1:]:
            joined = k.shuffle(joined, range(joined.lanes + _ENTRIES), _widened(k, of_row(j, part), joined.lanes))
        rows.append(joined)
    return rows


def _widened(k: Builder, a: Value, lanes: int) -> Value:
    """As many lanes, of which the further ones do not matter."""
    return a if a.lanes == lanes else k.shuffle(a, [min(i, a.lanes - 1) for i in range(lanes)])


def _by_range(k: Builder, is_near: Value, near: Callable[[], Value], far: Callable[[], Value]) -> Value:
    """``near()`` where ``is_near``, else ``far()``; neither is computed where no lane needs it."""
    nothing = k.const(0.0, "f64", is_near.lanes)
    return k.select(is_near, k.when(k.any(is_near), near, lambda: nothing), k.when(k.any(~is_near), far, lambda: nothing))


def _exp_of_square(k: Builder, x: Value, factor: float) -> Value:
    """exp(factor * x**2) with the square's own rounding error taken into account; ``factor`` is 1, 1/2 or the negative of one."""
    square, rest = k.two_product(x, x)
    power = vectors.exp(k, square * factor)
    return k.select((power > 0.0) & (power < _INF), k.fma(power, rest * factor, power), power)


# -- error function ---------------------------------------------------------------------------------------------------------------------
def _erfcx_above_zero(k: Builder, x: Value) -> Value:
    z = 1.0 / (x * x)
    series = k.fma(z, k.fma(z, k.fma(z, k.fma(z, 105 / 16, -15 / 8), 3 / 4), -1 / 2), 1.0)
    return k.select(x < 64.0, piecewise(k, x, "ERFCX"), series / x * (1 / math.sqrt(math.pi)))


@_function("erfcx")
def erfcx(k: Builder, x: Value) -> Value:
    above = _erfcx_above_zero(k, k.abs(x))
    power = _exp_of_square(k, x, 1.0)
    result = k.select(x < 0.0, power + power - above, above)
    return k.select(x.is_nan(), x, result)


@_function("log_ndtr")
def log_ndtr(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    scaled = _erfcx_above_zero(k, size * _ROOT_HALF) * 0.5
    lower = vectors.log(k, scaled) - size * size * 0.5
    upper = vectors.log1p(k, -(scaled * _exp_of_square(k, size, -0.5)))
    return k.select(x.is_nan(), x, k.select(x < 0.0, lower, upper))


def _inverse(k: Builder, x: Value, product: Value) -> Value:
    """erfinv(x), ``product`` being 1 - x**2."""
    return x * piecewise(k, -vectors.log(k, product), "ERFINV")


@_function("erfinv")
def erfinv(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    result = _inverse(k, x, (1.0 - size) * (1.0 + size))
    return k.select(size < 1.0, result, k.select(size.eq(1.0), k.copysign(_INF, x), _NAN))


def _single_erfinv(k: Builder, x: Value) -> Value:
    """For float32: the logarithm in float32 too, and as much of the table as these arguments reach, to the digits that are kept."""
    size = k.abs(x)
    power = k.cast(-vectors.log(k, (1.0 - size) * (size + 1.0)), "f64")
    if k.target.has_masks:
        ratio = piecewise(k, power, "ERFINV_SHORT", single=True)
    else:  # gathers cost more than longer polynomials
        ratio = _by_range(
            k, power < _ERFINV_NEAR, lambda: _fitted(k, power, "ERFINV_NEAR"), lambda: _fitted(k, k.sqrt(power), "ERFINV_FAR")
        )
    result = k.cast(k.cast(x, "f64") * ratio, "f32")
    return k.select(size < 1.0, result, k.select(size.eq(1.0), k.copysign(_INF, x), _NAN))


_ERFINV_NEAR = 5.0  # of -log(1 - x**2), which is below 16 for float32


def _fitted(k: Builder, x: Value, name: str) -> Value:
    """A polynomial of ``single.json``, whose variable is -1 and 1 at its bounds."""
    low, high, (first, *rest) = entries("single.json")[name].values()
    u = x * (2 / (high - low)) - (high + low) / (high - low)
    result = vectors.constant(k, first, x)
    for c in rest:
        result = k.fma(result, u, c)
    return result


_of_double_erfinv = FUNCTIONS["erfinv"]
FUNCTIONS["erfinv"] = lambda k, x: _single_erfinv(k, x) if x.element == "f32" else _of_double_erfinv(k, x)


@_function("ndtri")
def ndtri(k: Builder, p: Value) -> Value:
    result = _inverse(k, k.fma(p, 2.0, -1.0), (p + p) * ((1.0 - p) + (1.0 - p))) * math.sqrt(2)
    result = k.select((p > 0.0) & (p < 1.0), result, _NAN)
    return k.select(p.eq(0.0), -_INF, k.select(p.eq(1.0), _INF, result))


# -- gamma function ---------------------------------------------------------------------------------------------------------------------
def _log_gamma_above(k: Builder, x: Value, near: Value) -> Value:
    """log(gamma(x)) for x from 1/2 on, or of x from -1/2 to 1/2 where it is ``near`` zero, log(abs(x)) being left away."""
    argument = k.select(near, x + 1.0, x)
    factor = k.select(near, x * (x - 1.0), (x - 1.0) * (x - 2.0))
    z = 8.0 / argument
    correction = k.fma(piecewise(k, z * z, "STIRLING"), 1.0 / argument, 0.5 * math.log(2 * math.pi) - 0.5)
    far = k.fma(argument - 0.5, vectors.log(k, argument) - 1.0, correction)
    close = factor * piecewise(k, argument, "LOG_GAMMA") + 0.0  # at 1 and 2, zero without a sign
    return k.select(argument < 8.0, close, far)


@_function("gammaln")
def log_gamma(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    near = size < 0.5
    above = _log_gamma_above(k, k.select(near, x, size), near)
    above = k.select(near, above - vectors.log(k, size), above)
    reflected = (x < 0.0) & ~near

    def below() -> Value:  # gamma(-y) * gamma(y) = -pi / (y * sin(pi * y))
        sine = k.abs(vectors.sin(k, (size - k.rint(size)) * _PI))
        return k.select(reflected, vectors.log(k, _PI / (sine * size)) - above, above)

    result = k.when(k.any(reflected), below, lambda: above)
    return k.select(x.is_nan(), x, k.select(size.eq(_INF), _INF, result))


@_function("psi")
def digamma(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    near = size < 0.5
    reflected = (x < 0.0) & ~near
    argument = k.select(near, x + 1.0, k.select(reflected, size + 1.0, x))
    close = ((argument - _DIGAMMA_ROOT) - _DIGAMMA_ROOT_LOW) * piecewise(k, argument, "DIGAMMA")
    inverse = 1.0 / argument
    z = inverse * 8.0
    tail = k.fma(piecewise(k, z * z, "DIGAMMA_TAIL"), inverse * inverse, inverse * 0.5)
    above = k.select(argument < 8.0, close, vectors.log(k, argument) - tail)
    above = k.select(near, above - 1.0 / x, above)

    def below() -> Value:  # digamma(-y) = digamma(1 + y) + pi / tan(pi * y)
        angle = (size - k.rint(size)) * _PI
        slope = k.select(angle.eq(0.0), _NAN, _PI / vectors.tan(k, angle))
        return k.select(reflected, above + slope, above)

    return k.when(k.any(reflected), below, lambda: above)


# B(2j) / (2j)!, of Euler's and Maclaurin's sum
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600, -3617 / 10670622842880000,
    43867 / 5109094217170944000, -174611 / 802857662698291200000,
)  # fmt: skip
_TERMS = 10


def _zeta_above(k: Builder, s: Value, q: Value) -> Value:
    """The sum of (q + i)**-s over i from 0, for s > 1 and q > 0: its first terms, and an integral with corrections for the others."""

    def term(i: Value, total: Value) -> Value:
        return total + vectors.pow(k, q + k.splat(k.cast(i, "f64"), q.lanes), -s)

    total = k.loop(0, _TERMS, term, carried=(vectors.constant(k, 0.0, q),))
    start = q + float(_TERMS)
    inverse = 1.0 / start
    whole = vectors.pow(k, start, 1.0 - s)
    power = whole * inverse
    rest, factor = whole / (s - 1.0) + power * 0.5, s * power * inverse
    for j, number in enumerate(_BERNOULLI):
        rest = k.fma(factor, number, rest)
        factor = factor * (s + (2.0 * j + 1.0)) * (s + (2.0 * j + 2.0)) * inverse * inverse
    return total + k.select(whole > 0.0, rest, 0.0)  # where the powers underflow, their products with s may be NaN


@_function("zeta")
def zeta(k: Builder, s: Value, q: Value) -> Value:
    def above(s: Value, q: Value) -> Value:
        return k.function("zeta_above", lambda inner, *a: (_zeta_above(inner, *a),), s, q)[0]

    whole = k.floor(q)
    below = q < 0.0
    first = above(s, k.select(below, q - whole, q))

    def mirrored() -> Value:  # the terms below zero are those above it, seen from the other side
        sign = k.select(k.rint(s * 0.5).ne(s * 0.5), vectors.constant(k, -1.0, s), 1.0)
        others = above(s, (whole + 1.0) - q) - above(s, 1.0 - q)
        return k.select(below, k.fma(sign, others, first), first)

    result = k.when(k.any(below), mirrored, lambda: first)
    # the edges in SciPy's order, whose sum for an infinite s is 0 / 0
    undefined = s.is_nan() | q.is_nan() | (below & k.floor(s).ne(s)) | (s.eq(_INF) & (q > 1.0))
    pole = (q <= 0.0) & whole.eq(q)
    result = k.select(pole, _INF, k.select(undefined, _NAN, result))
    return k.select(s.eq(1.0), _INF, k.select(s < 1.0, _NAN, result))


# -- Bessel functions -------------------------------------------------------------------------------------------------------------------
def _waves(k: Builder, x: Value, order: int) -> tuple[Value, Value]:
    """J and Y of an order, 0 or 1, for x from 8 on."""
    z = 8.0 / x
    p = piecewise(k, z, f"WAVE_P{order}")
    q = piecewise(k, z, f"WAVE_Q{order}") * z
    # sine and cosine of x - pi / 4, or of x - 3 pi / 4, each times the square root of 2
    sine, cosine = vectors.sin(k, x), vectors.cos(k, x)
    first, second = sine + cosine, sine - cosine
    cosine, sine = (first, second) if order == 0 else (second, -first)
    scale = 1.0 / k.sqrt(x * _PI)
    return (p * cosine - q * sine) * scale, (p * sine + q * cosine) * scale


def _bounded(k: Builder, x: Value) -> Value:
    """x where the waves are computed: what they are elsewhere is not looked at."""
    return k.select((x >= 8.0) & (x < _INF), x, 8.0)


@_function("j0")
def j0(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    result = _by_range(k, size < 8.0, lambda: piecewise(k, size, "J0"), lambda: _waves(k, _bounded(k, size), 0)[0])
    return k.select(size < _INF, result, k.select(x.is_nan(), x, 0.0))


@_function("j1")
def j1(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    result = _by_range(k, size < 8.0, lambda: piecewise(k, size, "J1") * size, lambda: _waves(k, _bounded(k, size), 1)[0])
    result = k.select(x < 0.0, -result, result)
    return k.select(x.eq(0.0), x, k.select(size < _INF, result, k.select(x.is_nan(), x, 0.0)))


def _second_kind(k: Builder, x: Value, order: int, near: Callable[[], Value]) -> Value:
    result = _by_range(k, x < 8.0, near, lambda: _waves(k, _bounded(k, x), order)[1])
    edge = k.select(x.eq(0.0), vectors.constant(k, -_INF, x), _NAN)
    return k.select((x > 0.0) & (x < _INF), result, edge)


@_function("y0")
def y0(k: Builder, x: Value) -> Value:
    def near() -> Value:
        return k.fma(vectors.log(k, x) * (2 / math.pi), piecewise(k, x, "J0"), piecewise(k, x, "Y0"))

    return _second_kind(k, x, 0, near)


@_function("y1")
def y1(k: Builder, x: Value) -> Value:
    def near() -> Value:
        logarithm = vectors.log(k, x) * (2 / math.pi)
        return k.fma(logarithm, piecewise(k, x, "J1"), piecewise(k, x, "Y1")) * x - (2 / math.pi) / x

    return _second_kind(k, x, 1, near)


def _scaled_i(k: Builder, x: Value, order: int) -> Value:
    """exp(-x) * I(x) for x from 0 on."""

    def near() -> Value:
        return piecewise(k, x, "I0E") if order == 0 else piecewise(k, x, "I1E") * x

    def far() -> Value:
        return piecewise(k, 8.0 / x, f"I{order}E_TAIL") / k.sqrt(x)

    return k.select(x.is_nan(), x, _by_range(k, x < 8.0, near, far))


def _unscaled(k: Builder, x: Value, scaled: Value) -> Value:
    """``scaled * exp(x)``, in two steps where exp alone would overflow; NaN for infinity, as SciPy and PyTorch have it."""
    power = vectors.exp(k, k.select(x > 700.0, x - 64.0, x))
    result = k.select(x > 700.0, power * (scaled * math.exp(64.0)), power * scaled)
    return k.select(x < _INF, result, _NAN)


def _modified(k: Builder, x: Value, order: int, scaled: bool) -> Value:
    """I of an order, 0 or 1, or exp(-abs(x)) times it."""
    size = k.abs(x)
    result = _scaled_i(k, size, order)
    result = result if scaled else _unscaled(k, size, result)
    return k.select(x.eq(0.0), x, k.copysign(result, x)) if order else result


def _third_kind(k: Builder, x: Value, order: int, scaled: bool) -> Value:
    """K of an order, 0 or 1, or exp(x) times it: by logarithms up to 1/4, from there on the scaled function."""
    z = x * x
    logarithm = vectors.log(k, x)
    if order == 0:
        near = k.fma(-logarithm, piecewise(k, z, "I0_NEAR"), piecewise(k, z, "K0_NEAR"))
    else:
        near = k.fma(k.fma(logarithm, piecewise(k, z, "I1_NEAR"), piecewise(k, z, "K1_NEAR")), x, 1.0 / x)

    def middle() -> Value:
        return piecewise(k, x, f"K{order}E")

    def tail() -> Value:
        return piecewise(k, 8.0 / x, f"K{order}E_TAIL") / k.sqrt(x)

    above = _by_range(k, x < 8.0, middle, tail)
    power = vectors.exp(k, k.select(x < 0.25, x, -x) if scaled else -x)
    near, above = (near * power, above) if scaled else (near, above * power)
    result = k.select(x < 0.25, near, above)
    edge = k.select(x.eq(0.0), vectors.constant(k, _INF, x), _NAN)
    return k.select(x > 0.0, k.select(x < _INF, result, 0.0), edge)


for _order in 0, 1:
    for _ending in "", "e":
        _function(f"i{_order}{_ending}")(partial(_modified, order=_order, scaled=bool(_ending)))
        _function(f"k{_order}{_ending}")(partial(_third_kind, order=_order, scaled=bool(_ending)))


# -- Airy's function --------------------------------------------------------------------------------------------------------------------
@_function("airy")
def airy_ai(k: Builder, x: Value) -> Value:
    size = k.abs(x)
    size = k.select(size < 2.0**200, size, 2.0**200)
    # 2/3 * size**(3/2) as a sum of two, since its absolute error counts
    root = k.sqrt(size)
    square, rest = k.two_product(root, root)
    root_low = k.select(size > 0.0, ((size - square) - rest) / (root + root), 0.0)
    power, power_low = k.two_product(size, root)
    power_low = k.fma(size, root_low, power_low)
    angle, angle_low = k.two_product(power, 2 / 3)
    angle_low = k.fma(power_low, 2 / 3, k.fma(power, 3.700743415417188e-17, angle_low))
    z = _TAIL_UNIT / power
    quarter = k.sqrt(root)

    def above() -> Value:
        decay = k.select(size < 8.0, piecewise(k, size, "AIRY_DECAY"), piecewise(k, z, "AIRY_TAIL") / quarter)
        e = vectors.exp(k, -angle)
        decay = decay * k.fma(-e, k.select(angle < 1000.0, angle_low, 0.0), e)
        return k.select(size < 1.0, piecewise(k, size, "AIRY_NEAR"), decay)

    def below(positive: Value) -> Value:
        sine, cosine = vectors.sin(k, angle), vectors.cos(k, angle)
        lost = k.select(angle < 2.0**50, angle_low, 0.0)  # beyond, no digit of the phase is known
        sine, cosine = k.fma(cosine, lost, sine), k.fma(-sine, lost, cosine)
        # of the angle less pi / 4, times the square root of 2
        first, second = cosine + sine, sine - cosine
        wave = piecewise(k, z, "AIRY_P") * first + piecewise(k, z, "AIRY_Q") * z * second
        far = wave / quarter * (1 / math.sqrt(2 * math.pi))
        return k.select(x < 0.0, k.select(size < 8.0, piecewise(k, size, "AIRY_BELOW"), far), positive)

    positive = above()
    result = k.when(k.any(x < 0.0), lambda: below(positive), lambda: positive)
    return k.select(k.abs(x) < _INF, result, _NAN)


_TAIL_UNIT = 8.0**1.5
