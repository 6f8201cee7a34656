"""Functions without rounding errors: remainders and quotients, divisors and powers of integers, shifts, the neighbours of floats.

Floats may be float32 or float64; integers of any size wrap, as NumPy's do.  What repeats until every lane is done (``k.repeat``) leaves
finished lanes as they are.
"""

from __future__ import annotations

import math

from ..compiler.language import Builder, Value, intrinsic_suffix

_TINY, _LIFT = 2.0**-1022, 54  # the smallest normal float64, and by which power of two all subnormal ones become normal


# -- floats -----------------------------------------------------------------------------------------------------------------------------
def _exponent(k: Builder, x: Value) -> Value:
    """The biased binary exponent of a float64 above zero, that of subnormal ones below 1."""
    small = x < _TINY
    bits = k.bits(k.select(small, x * 2.0**_LIFT, x)) >> 52
    return bits - k.select(small, k.const(_LIFT, "i64"), k.const(0, "i64"))


def _times_power(k: Builder, x: Value, n: Value) -> Value:
    """``x * 2**n`` for n from 0 to 3000, where it does not overflow; one factor alone could."""
    for _ in range(3):
        part = k.least(n, 1000)
        x, n = x * k.bits((part + 1023) << 52), n - part
    return x


def fmod(k: Builder, x: Value, y: Value) -> Value:
    """``x - trunc(x / y) * y``: in one step where all quotients are short, else by long division."""
    if not k.target.has_fma:
        return _long_fmod(k, x, y)
    size, divisor = k.abs(x), k.abs(y)
    is_short = (size < divisor * (2.0**22 if x.element == "f32" else 2.0**51)) & (divisor < math.inf)

    def short() -> Value:
        left = k.fma(-k.trunc(size / divisor), divisor, size)
        return k.copysign(k.select(left < 0.0, left + divisor, left), x)  # the quotient was rounded up to the next whole number

    return k.when(k.any(~is_short), lambda: k.function("long_fmod", lambda k, x, y: [_long_fmod(k, x, y)], x, y), short)


def _long_fmod(k: Builder, x: Value, y: Value, narrow: bool = False) -> Value:
    """fmod of any numbers: some 50 bits of the quotient at a time, so that each remainder is exact.

    Without fma, digits are so short that the product with the divisor is exact: of float32 (``narrow``) 28 bits, of float64 one,
    where the difference of two numbers less than twice apart is exact (Sterbenz 1974).
    """
    if x.element == "f32":
        return k.cast(_long_fmod(k, k.cast(x, "f64"), k.cast(y, "f64"), True), "f32")
    digits = 51 if k.target.has_fma else 28 if narrow else 0
    size, divisor = k.abs(x), k.abs(y)
    regular = (size < math.inf) & (divisor > 0.0) & (divisor < math.inf)
    divisor_or_one = k.select(regular, divisor, 1.0)
    lowest = _exponent(k, divisor_or_one)

    def step(rest: Value) -> Value:
        behind = k.most(_exponent(k, rest) - lowest - digits, 0)
        shifted = _times_power(k, divisor_or_one, behind)
        if not digits:
            shifted = k.most(k.select(shifted > rest, shifted * 0.5, shifted), divisor_or_one)
        digit = k.trunc(rest / shifted)
        left = k.fma(-digit, shifted, rest)
        return k.select(left < 0.0, left + shifted, left)  # the quotient was rounded up to the next whole number

    rest = k.repeat(lambda r: k.any(r >= divisor_or_one), step, (k.select(regular, size, 0.0),))
    unchanged = (size < math.inf) & divisor.eq(math.inf)
    return k.select(regular, k.copysign(rest, x), k.select(unchanged, x, math.nan))


def nextafter(k: Builder, x: Value, y: Value) -> Value:
    bits = k.bits(x)
    outward = ~((x > 0.0) ^ (y > x))
    moved = k.bits(bits + k.select(outward, k.like(1, bits), k.like(-1, bits)))
    smallest = k.copysign(2.0**-149 if x.element == "f32" else 2.0**-1074, y)
    moved = k.select(x.eq(0.0), smallest, moved)
    return k.select(x.eq(y), y, k.select(x.is_nan() | y.is_nan(), math.nan, moved))


def frexp(k: Builder, x: Value) -> tuple[Value, Value]:
    """The fraction in [0.5, 1) and the exponent, int32; zeros, infinities and NaN are their own fractions."""
    bits, bias, smallest = (23, 126, 2.0**-126) if x.element == "f32" else (52, 1022, _TINY)
    small = k.abs(x) < smallest
    raw = k.bits(k.select(small, x * 2.0**_LIFT, x))
    exponent = (raw >> bits) & (2 * bias + 3)
    fraction = k.bits((raw & ~((2 * bias + 3) << bits)) | (bias << bits))
    lifted = k.select(small, k.like(bias + _LIFT, raw), k.like(bias, raw))
    regular = (k.abs(x) < math.inf) & x.ne(0.0)
    return k.select(regular, fraction, x), k.cast(k.select(regular, exponent - lifted, 0), "i32")


def frexp_mantissa(k: Builder, x: Value) -> Value:
    return frexp(k, x)[0]


def frexp_exponent(k: Builder, x: Value) -> Value:
    return frexp(k, x)[1]


# -- integers ---------------------------------------------------------------------------------------------------------------------------
def _is_signed(x: Value) -> bool:
    return x.element[0] == "i"


def truncated_quotient(k: Builder, a: Value, b: Value) -> Value:
    """``a / b`` without its fraction; of a divisor that is zero, which no caller looks at, ``a``."""
    minus_one = b.eq(-1) if _is_signed(b) else k.const(False, "b1")  # the machine traps on the most negative number over -1
    divisor = k.select(b.eq(0) | minus_one, 1, b)
    quotient = _quotient_of_long(k, a, divisor) if a.element in ("i64", "u64") else _quotient_by_floats(k, a, divisor)
    return k.select(minus_one, -a, quotient) if _is_signed(a) else quotient


def _quotient_by_floats(k: Builder, a: Value, b: Value) -> Value:
    """By float64, which holds both and their quotient well enough to be cut at the point, and is divided by vector instructions."""
    return k.cast(k.trunc(k.cast(a, "f64") / k.cast(b, "f64")), a.element)


def _quotient_of_long(k: Builder, a: Value, b: Value) -> Value:
    """Of 64 bits: by float64 where all of ``a`` have at most 51, so that a quotient is ``1 / b`` from the next whole number or more."""
    a, b = k.pair(a, b)
    divide = "sdiv" if _is_signed(a) else "udiv"

    def long(k: Builder, a: Value, b: Value) -> list[Value]:
        return [k.binary(divide, a, b)]

    is_long = k.cast(a + (1 << 51), "u64") >= 1 << 52 if _is_signed(a) else a >= 1 << 51
    return k.when(k.any(is_long), lambda: k.function(f"long_{divide}", long, a, b), lambda: _quotient_by_floats(k, a, b))


def _signs_differ(a: Value, b: Value) -> Value:
    return (a ^ b) < 0


def floor_quotient(k: Builder, a: Value, b: Value) -> Value:
    quotient = truncated_quotient(k, a, b)
    if not _is_signed(a):
        return quotient
    return k.select((quotient * b).ne(a) & _signs_differ(a, b), quotient - 1, quotient)


def truncated_remainder(k: Builder, a: Value, b: Value) -> Value:
    return a - truncated_quotient(k, a, b) * b


def floor_remainder(k: Builder, a: Value, b: Value) -> Value:
    rest = truncated_remainder(k, a, b)
    return k.select(rest.ne(0) & _signs_differ(rest, b), rest + b, rest) if _is_signed(a) else rest


def _trailing_zeros(k: Builder, x: Value) -> Value:
    return k.call(f"llvm.cttz.{intrinsic_suffix(x.element, x.lanes)}", x.element, x.lanes, x, more="i1 false")


def _divisor_of_sizes(k: Builder, a: Value, b: Value) -> Value:
    """Greatest common divisor of unsigned integers, by differences of odd ones (Stein 1967)."""
    a, b = k.select(a.eq(0), b, a), k.select(b.eq(0), a, b)
    nothing = a.eq(0)
    a, b = k.select(nothing, 1, a), k.select(nothing, 1, b)
    twos = _trailing_zeros(k, a | b)
    a = a >> _trailing_zeros(k, a)

    def step(a: Value, b: Value) -> tuple[Value, Value]:
        b = k.select(b.eq(0), a, b)  # a lane that is done gets its result again
        b = b >> _trailing_zeros(k, b)
        least = k.least(a, b)
        return least, k.most(a, b) - least

    odd, _ = k.repeat(lambda a, b: k.any(b.ne(0)), step, (a, b))
    return k.select(nothing, 0, odd << twos)


def _size(k: Builder, x: Value) -> Value:
    return k.cast(k.abs(x), "u" + x.element[1:])


def gcd(k: Builder, a: Value, b: Value) -> Value:
    return k.cast(_divisor_of_sizes(k, _size(k, a), _size(k, b)), a.element)


def lcm(k: Builder, a: Value, b: Value) -> Value:
    first, second = _size(k, a), _size(k, b)
    return k.cast(truncated_quotient(k, first, _divisor_of_sizes(k, first, second)) * second, a.element)


def power(k: Builder, base: Value, exponent: Value) -> Value:
    """``base ** exponent`` by squares, for exponents that are not negative."""
    left = k.cast(exponent, "u" + exponent.element[1:])

    def step(result: Value, square: Value, left: Value) -> tuple[Value, ...]:
        return k.select((left & 1).ne(0), result * square, result), square * square, left >> 1

    result, _, _ = k.repeat(lambda result, square, left: k.any(left.ne(0)), step, (k.like(1, base), base, left))
    return result


def left_shift(k: Builder, x: Value, count: Value) -> Value:
    """``x << count``; 0 where the count is negative or not below the number of bits."""
    inside = k.cast(count, "u" + count.element[1:]) < int(x.element[1:])
    return k.select(inside, x << k.select(inside, count, 0), 0)


def right_shift(k: Builder, x: Value, count: Value) -> Value:
    """``x >> count``; the sign alone where the count is negative or not below the number of bits."""
    bits = int(x.element[1:])
    inside = k.cast(count, "u" + count.element[1:]) < bits
    beyond = k.select(x < 0, k.like(-1, x), k.like(0, x)) if _is_signed(x) else k.like(0, x)
    return k.select(inside, x >> k.select(inside, count, 0), beyond)
