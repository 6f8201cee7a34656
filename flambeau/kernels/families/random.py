"""Random numbers: mt19937's words and what distributions make of them, in one call from the state to the result.

    state (624 words, NumPy's own) --twist--> next state --temper--> buffer --rule--> result
                                                                     ^ words left over from before come first

A piece of the result at a time: as many blocks of 624 words as the piece needs are made into a buffer in the first-level cache, and a
rule, of those in ``RULES``, turns them into elements.  The recurrence is serial, so all of it runs in one thread.

The roundings are those of ``core.random.samplers`` and ``core.random.box_muller``, which explain them; functions of the C library are
called there too.

Source: Matsumoto and Nishimura 1998, "Mersenne twister".  Box-Muller with Cephes' polynomials: see ``core.random.box_muller``.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.native import NoKernel, native
from ...core.calls.interruption import pass_on
from ...core.random import box_muller
from ..compiler import target as targets
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value, register_element
from ..compiler.pool import pool

BLOCK, MIDDLE = 624, 397  # words of the state, and the distance of the recurrence
PIECE = 4096  # words that a piece takes at most: with what is left over, 20 KB
SLACK = 64  # words behind the buffer's end that a vector may reach
LIBM_CHUNK, NORMALS_CHUNK = 2048, 1024  # 10 to 20 us each
_F64 = np.dtype(np.float64)


class Rule(NamedTuple):
    """Rule that makes a piece of the result from random words.

    Attributes:
        words: how many an element takes; None: one, or two where it has 8 bytes.
        numbers: element types of the rule's numbers.
        write: ``write(k, words, out, start, n, element, *numbers)`` writes elements ``start`` to ``start + n``.
        is_fused: whether it rounds ``a * b + c`` once, which not all processors can.
        calls: functions of the C library, whose addresses come before the numbers.
        pairs: 1 where elements are made two at a time.
    """

    words: int | None
    numbers: tuple[str, ...]
    write: Callable[..., None]
    is_fused: bool = False
    calls: tuple[str, ...] = ()
    pairs: int = 0


# ---- the generator


def advance(k: Builder, state: Value) -> None:
    """The next state in place of the last; a vector never reads what it has yet to write, the two being 227 words apart."""
    lanes = k.lanes("u32")

    def mix(i: Any, following: Any, distant: Any, count: int, mask: Value | None = None) -> None:
        this, after, far = (k.load(state, at, "u32", count, mask) for at in (i, following, distant))
        joined = (this & 0x80000000) | (after & 0x7FFFFFFF)
        k.store(far ^ (joined >> 1) ^ (-(after & 1) & 0x9908B0DF), state, i, "u32", mask)

    k.vector_loop(0, BLOCK - MIDDLE, lanes, lambda i, mask: mix(i, i + 1, i + MIDDLE, lanes, mask))
    k.vector_loop(BLOCK - MIDDLE, BLOCK - 1, lanes, lambda i, mask: mix(i, i + 1, i - (BLOCK - MIDDLE), lanes, mask))
    mix(BLOCK - 1, 0, MIDDLE - 1, 1)


def temper(k: Builder, state: Value, words: Value) -> None:
    """The outputs of a state; 624 is a multiple of every vector."""
    lanes = k.lanes("u32")

    def step(i: Value) -> None:
        y = k.load(state, i, "u32", lanes)
        y = y ^ (y >> 11)
        y = y ^ ((y << 7) & 0x9D2C5680)
        y = y ^ ((y << 15) & 0xEFC60000)
        k.store(y ^ (y >> 18), words, i, "u32")

    k.loop(0, BLOCK, step, step=lanes)


@kernel
def draw(k: Builder, name: str, element: str) -> None:
    """Fill ``out`` by rule ``name`` from words ``position`` to 624 of block ``old`` and the following ones; ``new`` gets the last one."""
    rule = RULES[name]
    state, old, new, position, out, count = k.pointer(), k.array(), k.array(), k.integer(), k.array(), k.integer()
    numbers = [k.pointer() for _ in rule.calls] + [
        k.array() if number_element == "array" else k.number(number_element) for number_element in rule.numbers
    ]
    width = words_of(rule, element)
    buffer = k.scratch(BLOCK * (PIECE // BLOCK + 2) + SLACK, "u32")
    lanes = k.lanes("u32")

    def copy(i: Value, mask: Value | None) -> None:
        k.store(k.load(old, position + i, "u32", lanes, mask), buffer, i, "u32", mask)

    def keep(i: Value, end: Value) -> None:  # whole vectors, upwards: what is overwritten has been read
        k.store(k.load(buffer, end + i, "u32", lanes), buffer, i, "u32")

    def piece(start: Value, left: Value) -> Value:
        n = k.least(count - start, PIECE // width)
        taken = n * width
        blocks = k.select(taken > left, (taken - left + (BLOCK - 1)) // BLOCK, 0)

        def block(b: Value) -> None:
            advance(k, state)
            temper(k, state, k.at(buffer, left + b * BLOCK, "u32"))

        k.loop(0, blocks, block)
        rule.write(k, buffer, out, start, n, element, *numbers)
        rest = left + blocks * BLOCK - taken
        k.loop(0, rest, lambda i: keep(i, taken), step=lanes)
        return rest

    left = BLOCK - position
    k.vector_loop(0, left, lanes, copy)
    k.loop(0, count, piece, step=PIECE // width, carried=[left])
    k.when(count * width > left, lambda: temper(k, state, new))


def words_of(rule: Rule, element: str) -> int:
    return rule.words or (2 if element in ("f64", "u64") else 1)


# ---- rules: what words become


def _each(lanes_of: str, value: Callable[..., Value]) -> Callable[..., None]:
    """The rule that makes elements one by one: ``value(k, words, i, lanes, element, *numbers)`` for as many as ``lanes_of`` has lanes."""

    def write(k: Builder, words: Value, out: Value, start: Value, n: Value, element: str, *numbers: Value) -> None:
        lanes = k.lanes(lanes_of or element)

        def step(i: Value, mask: Value | None) -> None:
            drawn = k.cast(value(k, words, i, lanes, element, *numbers), register_element(element))
            k.store(drawn, out, start + i, element, mask)

        k.vector_loop(0, n, lanes, step)

    return write


def _long(k: Builder, words: Value, i: Value, lanes: int) -> Value:
    """64 bits of two words, the first being the upper one."""
    pair = k.load(words, i, "u64", lanes)
    return (pair << 32) | (pair >> 32)


def _fraction(k: Builder, words: Value, i: Value, lanes: int) -> Value:
    """53 bits of two words."""
    return k.cast(_long(k, words, i, lanes) & ((1 << 53) - 1), "i64")


def _uniform(k: Builder, words: Value, i: Value, lanes: int, element: str) -> Value:
    """In [0, 1): 24 bits of a word, 53 of two."""
    if element == "f64":
        return k.cast(_fraction(k, words, i, lanes), "f64") * 2.0**-53
    return k.cast(k.cast(k.load(words, i, "u32", lanes) & ((1 << 24) - 1), "i32"), "f32") * 2.0**-24


def _between(k: Builder, words: Value, i: Value, lanes: int, element: str, high: Value, factor: Value, low: Value) -> Value:
    high, factor, low = (k.cast(number, element) for number in (high, factor, low))
    drawn = k.fma(_uniform(k, words, i, lanes, element), factor, low)
    return k.select(drawn.eq(high), low, drawn)


def _word(k: Builder, words: Value, i: Value, lanes: int, element: str) -> Value:
    return _long(k, words, i, lanes) if element == "u64" else k.load(words, i, "u32", lanes)


def _bernoulli(k: Builder, words: Value, i: Value, lanes: int, element: str, bound: Value, kept: Value) -> Value:
    """``kept`` where the uniform number of 53 bits is below ``bound``, else 0."""
    stays = _fraction(k, words, i, lanes) < bound
    return stays if element == "b8" else k.select(stays, k.cast(kept, register_element(element)), 0)


def _below(k: Builder, words: Value, i: Value, lanes: int, element: str, span: Value, low: Value) -> Value:
    """A word modulo ``span``, which is below 2**31, plus ``low``."""
    whole = k.cast(span, "f64")
    rest = _remainder(k, k.cast(k.load(words, i, "u32", lanes), "f64"), whole, 1.0 / whole)
    return k.cast(k.cast(rest, "i32"), "i64") + low


def _remainder(k: Builder, x: Value, divisor: Value, inverse: Value) -> Value:
    """``x`` modulo ``divisor``, whole numbers of 32 bits as float64: the quotient may be one off."""
    rest = x - k.trunc(x * inverse) * divisor
    rest = k.select(rest < 0.0, rest + divisor, rest)
    return k.select(rest >= k.splat(divisor, rest.lanes), rest - divisor, rest)


def _shuffle(k: Builder, words: Value, out: Value, start: Value, n: Value, element: str, size: Value) -> None:
    """Swap element i with element i + word modulo (size - i), for each i in turn."""
    lanes, ahead = k.lanes("f64"), 24

    def offsets(i: Value, mask: Value | None) -> None:
        divisor = k.splat(k.cast(size - start - i, "f64"), lanes) - k.cast(k.indices(lanes, "i32"), "f64")
        rest = _remainder(k, k.cast(k.load(words, i, "u32", lanes), "f64"), divisor, 1.0 / divisor)
        k.store(k.cast(k.cast(rest, "i32"), "u32"), words, i, "u32", mask)

    def swap(i: Value) -> None:
        k.prefetch(out, start + i + ahead + k.cast(k.load(words, i + ahead, "u32"), "i64"), element)
        here = start + i
        there = here + k.cast(k.load(words, i, "u32"), "i64")
        a, b = k.load(out, here, element), k.load(out, there, element)
        k.store(b, out, here, element)
        k.store(a, out, there, element)

    k.vector_loop(0, n, lanes, offsets)
    k.loop(0, n, swap)


def _fused(k: Builder, a: Value, b: Any, c: Any) -> Value:
    """``a * b + c`` of float32 numbers of the polynomials with one rounding, on every processor."""
    if k.target.has_fma:
        return k.fma(a, b, c)
    a, b, c = (k.cast(k.like(term, a), "f64") for term in (a, b, c))
    return k.cast(a * b + c, "f32")


def _horner(k: Builder, coefficients: list[float], x: Value) -> Value:
    y = _fused(k, x, coefficients[0], coefficients[1])
    for coefficient in coefficients[2:]:
        y = _fused(k, y, x, coefficient)
    return y


def _log(k: Builder, x: Value) -> Value:
    """``box_muller.log_float32``."""
    b = box_muller
    bits = k.bits(x)
    mantissa_bits = (bits & 0x7FFFFF) | 0x3F000000
    low = (mantissa_bits - b._SQRT_HALF_BITS) >> 31
    e = k.cast((bits >> 23) + low - 126, "f32")
    mantissa = (k.bits(mantissa_bits) - 1.0) + k.bits(mantissa_bits & low)
    z = mantissa * mantissa
    y = _fused(k, _horner(k, b._LOG_P, mantissa) * mantissa, z, e * float(b._LN2_LOW))
    return _fused(k, e, b._LN2_HIGH, (y - z * 0.5) + mantissa)


def _sine_and_cosine(k: Builder, x: Value) -> tuple[Value, Value]:
    """``box_muller.sincos_float32``."""
    b = box_muller
    octant = (k.cast(x * float(b._FOUR_OVER_PI), "i32") + 1) & -2
    turns = k.cast(octant, "f32")
    for part in b._QUARTER_PI:
        x = _fused(k, turns, part, x)
    z = x * x
    cosine = _fused(k, _horner(k, b._COS_P, z) * z, z, -(z * 0.5)) + 1.0
    sine = _fused(k, _horner(k, b._SIN_P, z) * z, x, x)
    swapped = (octant & 2).ne(0)
    sine, cosine = k.select(swapped, cosine, sine), k.select(swapped, sine, cosine)
    return k.bits(k.bits(sine) ^ ((octant & 4) << 29)), k.bits(k.bits(cosine) ^ (((octant + 2) & 4) << 29))


def _normals(k: Builder, words: Value, out: Value, start: Value, n: Value, element: str, std: Value, mean: Value) -> None:
    """float32 normals in groups of 16: radii of the first eight uniforms, angles of the others."""
    std, mean = k.cast(std, element), k.cast(mean, element)

    def group(i: Value) -> None:
        radius = k.sqrt(_log(k, 1.0 - _uniform(k, words, i, 8, element)) * -2.0)
        sine, cosine = _sine_and_cosine(k, _uniform(k, words, i + 8, 8, element) * (2.0 * math.pi))
        k.store(k.fma(radius * cosine, std, mean), out, start + i, element)
        k.store(k.fma(radius * sine, std, mean), out, start + i + 8, element)

    k.loop(0, n, group, step=16)


@kernel
def normals_of_uniforms(k: Builder) -> None:
    """Groups of 16 float64 uniforms to normals, in place, by functions of the C library; the one rule that takes more than its words."""
    out, n, log, sin, cos = k.array(), k.integer(), k.pointer(), k.pointer(), k.pointer()
    std, mean = k.number(), k.number()

    def pair(i: Value) -> None:
        radius = k.sqrt(call_library(k, log, 1.0 - k.load(out, i, "f64")) * -2.0)
        angle = k.load(out, i + 8, "f64") * (2.0 * math.pi)
        k.store(k.fma(radius * call_library(k, cos, angle), std, mean), out, i, "f64")
        k.store(k.fma(radius * call_library(k, sin, angle), std, mean), out, i + 8, "f64")

    def chunk(c: Value) -> None:
        start = c * NORMALS_CHUNK
        k.loop(start, k.least(start + NORMALS_CHUNK, n), lambda group: k.loop(group, group + 8, pair), step=16)

    k.for_chunks(chunk)


def _normal_pairs(k: Builder, words: Value, out: Value, start: Value, n: Value, element: str, *numbers: Value) -> None:
    """Pairs, computed in float64: an angle of one uniform and a radius of the next.

    Where the second of the last pair has no place among ``size`` elements, it goes into the array ``kept``, unscaled.
    """
    log1p, sin, cos, size, kept, std, mean = numbers

    def pair(i: Value) -> None:
        angle = _uniform(k, words, i, 1, "f64") * (2.0 * math.pi)
        radius = k.sqrt(call_library(k, log1p, -_uniform(k, words, i + 1, 1, "f64")) * -2.0)
        first, second = radius * call_library(k, cos, angle), radius * call_library(k, sin, angle)
        k.store(k.cast(k.fma(first, std, mean), element), out, start + i, element)
        at = start + i + 1
        scaled = k.cast(k.fma(second, std, mean), element)
        k.when(at < size, lambda: k.store(scaled, out, at, element), lambda: k.store(second, kept, 0, "f64"))

    k.loop(0, n, pair, step=2)


RULES = {
    "words": Rule(None, (), _each("", _word)),
    "uniform": Rule(None, (), _each("", _uniform)),
    "between": Rule(None, ("f64", "f64", "f64"), _each("", _between), is_fused=True),
    "below": Rule(1, ("i64", "i64"), _each("f64", _below)),
    "bernoulli": Rule(2, ("i64", "f64"), _each("f64", _bernoulli)),
    "normal": Rule(None, ("f64", "f64"), _normals, is_fused=True),
    "normal pairs": Rule(2, ("i64", "array", "f64", "f64"), _normal_pairs, is_fused=True, calls=("log1p", "sin", "cos"), pairs=1),
    "shuffle": Rule(1, ("i64",), _shuffle),
}


# ---- functions of the C library


def call_library(k: Builder, function: Value, *operands: Value) -> Value:
    return k.emit(f"call double {function.text}({', '.join(f'double {x.text}' for x in operands)})", "f64")


@cache
def library_function(name: str) -> int:
    """Address of a function of float64 numbers of the C library.

    Raises:
        NoKernel: there is none of that name.
    """
    for library in ("libm.so.6", None):
        try:
            return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0
        except (OSError, AttributeError) as error:
            pass_on(error)
            continue
    raise NoKernel(f"the C library has no function {name}")


@kernel
def apply(k: Builder) -> None:
    """``y = function(x)`` for each of ``n`` float64 numbers."""
    function, x, y, n = k.pointer(), k.array(), k.array(), k.integer()

    def chunk(c: Value) -> None:
        start = c * LIBM_CHUNK
        k.loop(start, k.least(start + LIBM_CHUNK, n), lambda i: k.store(call_library(k, function, k.load(x, i, "f64")), y, i, "f64"))

    k.for_chunks(chunk)


# ---- what the core calls
@native("random.draw")
def drawing(name: str, dtype: np.dtype) -> Callable[..., int | None] | None:
    """Function that fills an array of ``dtype`` by rule ``name``, or None.

    Returns:
        ``fill(out, state, old, new, position, *numbers)``, which returns how many words it took, or None where it did nothing. ``out`` is
        C-contiguous; ``state`` is the address of the raw state, whose outputs are ``old``; the first word is at ``position`` there.
        ``new`` gets the outputs of the last state that was needed, where ``old`` did not do.
    """
    element, rule = ELEMENTS.get(dtype), RULES[name]
    if element is None or element == "f16":  # not all processors convert float16, and few programs draw it
        return None
    if name == "normal" and element == "f64":
        return _drawing_long_normals()
    run, calls, width = draw(name, element), [library_function(call) for call in rule.calls], words_of(rule, element)
    pack, address, odd = run.pack, run.address, rule.pairs
    is_limited = rule.is_fused and not targets.current().has_fma

    def fill(out: np.ndarray, state: int, old: np.ndarray, new: np.ndarray, position: int, *numbers: Any) -> int | None:
        if not out.flags.writeable or (is_limited and numbers[-2:] != (1.0, 0.0)):
            return None
        count = out.size + (out.size & odd)
        pool.launch(address, pack(state, id(old), id(new), position, id(out), count, *calls, *numbers), 1)
        return count * width

    return fill


def _drawing_long_normals() -> Callable[..., int | None]:
    """float64 normals: the functions of the C library take longer than the words, so they run in all threads."""
    run, calls, uniforms = normals_of_uniforms(), [library_function(call) for call in ("log", "sin", "cos")], drawing("uniform", _F64)
    is_limited = not targets.current().has_fma

    def fill(out: np.ndarray, state: int, old: np.ndarray, new: np.ndarray, position: int, *numbers: Any) -> int | None:
        if not out.flags.writeable or (is_limited and numbers != (1.0, 0.0)):
            return None
        used = uniforms(out, state, old, new, position)
        run(-(-out.size // NORMALS_CHUNK), id(out), out.size, *calls, *numbers)
        return used

    return fill


@native("libm")
def libm(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """The function of the C library that has the name of ``function`` but for underscores, for each element of a float64 array."""
    x = np.ascontiguousarray(x)
    y = np.empty_like(x)
    apply()(-(-x.size // LIBM_CHUNK), library_function(function.__name__.strip("_")), id(x), id(y), x.size)
    return y
