"""The kernel language: every method of Builder against NumPy, for each class of processor that this machine runs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from flambeau.kernels.compiler.language import ELEMENTS, SIZES, Builder, literal
from flambeau.kernels.compiler.target import AVX2, NEON, PLAIN

from .guard import guarded
from .tiny import BFLOAT16, DTYPES, RUNNABLE, apply, build, samples

FLOATS = ["f32", "f64"]
SIGNED, UNSIGNED = ["i8", "i16", "i32", "i64"], ["u8", "u16", "u32", "u64"]
every_target = pytest.mark.parametrize("target", RUNNABLE, ids=lambda t: t.name)
COUNT = 517  # not a multiple of any number of lanes
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def same(actual, wanted):
    """Equal dtype and bits, but for the bits of a NaN."""
    assert actual.dtype == wanted.dtype
    if actual.dtype == BFLOAT16:  # whose NaN NumPy does not know
        actual, wanted = actual.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_array_equal(actual, wanted)
    if actual.dtype.kind == "f":
        there = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(actual[there]), np.signbit(wanted[there]))


def check(makers, references, arrays, target, lanes=0):
    results = apply(lambda k, *values: [maker(k, *values) for maker in makers], *arrays, target=target, lanes=lanes)
    for result, reference in zip(results, references, strict=True):
        same(result, np.asarray(reference(*arrays)))


# -- arithmetic ---------------------------------------------------------------------------------------------------------------------
ARITHMETIC = {
    "add": (lambda k, a, b: a + b, lambda a, b: a + b),
    "subtract": (lambda k, a, b: a - b, lambda a, b: a - b),
    "multiply": (lambda k, a, b: a * b, lambda a, b: a * b),
    "add number": (lambda k, a, b: a + 3, lambda a, b: a + a.dtype.type(3)),
    "number minus": (lambda k, a, b: 3 - a, lambda a, b: a.dtype.type(3) - a),
    "number plus": (lambda k, a, b: 7 + a, lambda a, b: a.dtype.type(7) + a),
    "number times": (lambda k, a, b: 5 * a, lambda a, b: a.dtype.type(5) * a),
    "negative": (lambda k, a, b: -a, lambda a, b: np.negative(a)),
    "absolute": (lambda k, a, b: k.abs(a), lambda a, b: np.abs(a)),
    "less": (lambda k, a, b: a < b, lambda a, b: a < b),
    "less or equal": (lambda k, a, b: a <= b, lambda a, b: a <= b),
    "greater": (lambda k, a, b: a > b, lambda a, b: a > b),
    "greater or equal": (lambda k, a, b: a >= b, lambda a, b: a >= b),
    "equal": (lambda k, a, b: a.eq(b), lambda a, b: a == b),
    "not equal": (lambda k, a, b: a.ne(b), lambda a, b: a != b),
    "less than number": (lambda k, a, b: a < 1, lambda a, b: a < 1),
    "select": (lambda k, a, b: k.select(a < b, a, b), lambda a, b: np.where(a < b, a, b)),
    "select number": (lambda k, a, b: k.select(a < b, 9, b), lambda a, b: np.where(a < b, a.dtype.type(9), b)),
    "least": (lambda k, a, b: k.least(a, b), lambda a, b: np.where(a < b, a, b)),
    "most": (lambda k, a, b: k.most(a, b), lambda a, b: np.where(a > b, a, b)),
}
OF_FLOATS = {
    "divide": (lambda k, a, b: a / b, lambda a, b: a / b),
    "number by": (lambda k, a, b: 3 / a, lambda a, b: a.dtype.type(3) / a),
    "sqrt": (lambda k, a, b: k.sqrt(a), lambda a, b: np.sqrt(a)),
    "copysign": (lambda k, a, b: k.copysign(a, b), np.copysign),
    "copysign of number": (lambda k, a, b: k.copysign(2, b), lambda a, b: np.copysign(a.dtype.type(2), b)),
    "is_nan": (lambda k, a, b: a.is_nan(), lambda a, b: np.isnan(a)),
    "bits": (lambda k, a, b: k.bits(k.abs(a)), lambda a, b: np.abs(a).view(f"i{a.itemsize}")),
    "bits and back": (lambda k, a, b: k.bits(k.bits(a)), lambda a, b: a),
}
OF_INTEGERS = {
    "and": (lambda k, a, b: a & b, np.bitwise_and),
    "or": (lambda k, a, b: a | b, np.bitwise_or),
    "xor": (lambda k, a, b: a ^ b, np.bitwise_xor),
    "invert": (lambda k, a, b: ~a, lambda a, b: ~a),
    "left shift": (lambda k, a, b: a << (b & 7), lambda a, b: a << (b & b.dtype.type(7))),
    "right shift": (lambda k, a, b: a >> (b & 7), lambda a, b: a >> (b & b.dtype.type(7))),
    "right shift by number": (lambda k, a, b: a >> 3, lambda a, b: a >> 3),
    "minimum": (lambda k, a, b: k.minimum(a, b), np.minimum),
    "maximum": (lambda k, a, b: k.maximum(a, b), np.maximum),
}
OF_UNSIGNED = {
    "floor divide": (lambda k, a, b: a // (b | 1), lambda a, b: a // (b | b.dtype.type(1))),
    "remainder": (lambda k, a, b: a % (b | 1), lambda a, b: a % (b | b.dtype.type(1))),
    "floor divide by number": (lambda k, a, b: a // 7, lambda a, b: a // 7),
}


@every_target
@pytest.mark.parametrize("element", [*FLOATS, *SIGNED, *UNSIGNED])
def test_arithmetic_comparisons_and_bits(element, target):
    table = ARITHMETIC | (OF_FLOATS if element in FLOATS else OF_INTEGERS) | (OF_UNSIGNED if element in UNSIGNED else {})
    makers, references = zip(*table.values(), strict=True)
    check(makers, references, [samples(element, COUNT, 1), samples(element, COUNT, 2)], target)


@every_target
@pytest.mark.parametrize("element", FLOATS)
def test_minimum_and_maximum_pass_nan_on(element, target):
    makers = [lambda k, a, b: k.minimum(a, b), lambda k, a, b: k.maximum(a, b)]
    a, b = samples(element, COUNT, 1), samples(element, COUNT, 2)
    a[(a == 0) & (b == 0)] = 1  # which of two zeros is smaller is left open
    check(makers, [np.minimum, np.maximum], [a, b], target)


@every_target
def test_truth_values(target):
    table = [
        (lambda k, a, b: a & b, np.logical_and),
        (lambda k, a, b: a | b, np.logical_or),
        (lambda k, a, b: a ^ b, np.logical_xor),
        (lambda k, a, b: ~a, lambda a, b: ~a),
        (lambda k, a, b: a.eq(b), np.equal),
        (lambda k, a, b: a < b, np.less),
        (lambda k, a, b: k.select(a, b, True), lambda a, b: np.where(a, b, True)),
    ]
    check(*zip(*table, strict=True), [samples("b8", COUNT, 1), samples("b8", COUNT, 2)], target)


@every_target
@pytest.mark.parametrize("element", FLOATS)
def test_fma_rounds_once_where_the_processor_can(element, target):
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(COUNT).astype(DTYPES[element]) for _ in range(3))
    (result,) = apply(lambda k, *v: [k.fma(*v)], a, b, c, target=target)
    if element == "f32" and target.has_fma:  # a product of two float32 is exact in float64; the sum is rounded twice at worst
        np.testing.assert_allclose(result, a.astype(float) * b + c, rtol=2**-23.9, atol=0)
    elif not target.has_fma:
        same(result, a * b + c)
    else:
        np.testing.assert_allclose(result, a * b + c, rtol=1e-12, atol=1e-15)
    one, small = np.ones(3, DTYPES[element]), np.full(3, 1 + np.finfo(DTYPES[element]).eps, DTYPES[element])
    (exact,) = apply(lambda k, a, b: [k.fma(a, a, -(b + 2 * (a - b)))], small, one, target=target)
    assert np.all((exact != 0) == target.has_fma)  # (1 + e)**2 - (1 + 2 e) = e**2, which two roundings lose
    check([lambda k, a: k.fma(2, a, 1)], [lambda a: 2 * a + 1], [np.arange(9, dtype=DTYPES[element])], target)


# -- rounding to whole numbers ------------------------------------------------------------------------------------------------------
def _around(element):
    """Numbers around the limits between which a float still has halves, quarters and so on, and special ones."""
    dtype, digits = DTYPES[element], 23 if element == "f32" else 52
    steps = np.arange(-64, 65)
    near = [2.0**p + steps * max(2.0 ** (p - digits - 1), 2.0**-4) for p in range(digits - 4, digits + 3)]
    small = np.concatenate([steps / 4, steps / 8 + 1000, [1e-30, 0.49999997, 0.5 - 2**-54, np.finfo(dtype).max, np.finfo(dtype).tiny]])
    whole = np.concatenate([*near, small, [0.0, np.inf, np.nan]]).astype(dtype)
    return np.concatenate([whole, -whole])


@every_target
@pytest.mark.parametrize("element", FLOATS)
def test_rounding_functions(element, target):
    makers = [lambda k, a, name=name: getattr(k, name)(a) for name in ("floor", "ceil", "trunc", "rint")]
    check(makers, [np.floor, np.ceil, np.trunc, np.rint], [_around(element)], target)


@every_target
@pytest.mark.parametrize("element", FLOATS)
def test_round_even_below_its_limit(element, target):
    a = _around(element)
    a = a[np.abs(a) < (2.0**22 if element == "f32" else 2.0**51)]
    (result,) = apply(lambda k, x: [k.round_even(x)], a, target=target)
    np.testing.assert_array_equal(result, np.rint(a))  # the sign of a zero is left open


# -- casts ----------------------------------------------------------------------------------------------------------------------------
def _castable(element, wanted):
    a = samples(element, COUNT)
    if element in FLOATS and wanted not in (*FLOATS, "b1"):
        limits = np.iinfo(DTYPES[wanted])
        high = min(float(limits.max), 2.0**62)
        a = np.where(np.isfinite(a) & (a > max(float(limits.min), -(2.0**62))) & (a < high), a, np.asarray(1.75, a.dtype))
    return a


@every_target
@pytest.mark.parametrize("element", ["b1", *FLOATS, *SIGNED, *UNSIGNED])
def test_casts_follow_c(element, target):
    elements = ["b1", *FLOATS, *SIGNED, *UNSIGNED]
    sources = [_castable(element, wanted) for wanted in elements]
    results = apply(lambda k, *values: [k.cast(v, wanted) for v, wanted in zip(values, elements, strict=True)], *sources, target=target)
    for result, source, wanted in zip(results, sources, elements, strict=True):
        same(result, source.astype(DTYPES[wanted]))


@every_target
def test_float_to_narrow_unsigned_wraps_like_numpy(target):
    a = np.array([-1.0, -128.9, 255.9, 256.0, 300.5, -300.0, 65537.0], np.float32)
    check([lambda k, x: k.cast(x, "u8")], [lambda x: x.astype(np.int64).astype(np.uint8)], [a], target)


# -- memory -------------------------------------------------------------------------------------------------------------------------
def _copy(k, element, lanes, other=None):
    """y = x; with ``other``, y = the sum of all loaded lanes instead, masked ones counting ``other``."""
    x, y, start, stop = k.array(), k.array(), k.integer(), k.integer()
    if other is None:
        k.for_chunks(lambda _: k.vector_loop(start, stop, lanes, lambda i, m: k.store(k.load(x, i, element, lanes, m), y, i, element, m)))
        return

    def step(i, mask, total):
        return total + k.cast(k.load(x, i, element, lanes, mask, other=other), "f64")

    total = k.vector_loop(start, stop, lanes, step, carried=(k.const(0, "f64", lanes),))
    k.store(k.sum(total), y, 0, "f64")


_built = {}


def built(generator, *specification, target):
    key = generator, specification, target.name
    if key not in _built:
        _built[key] = build(generator, *specification, target=target)
    return _built[key]


@every_target
@pytest.mark.parametrize("element", [k for k in SIZES if k != "ptr"])
@given(count=st.integers(0, 200), start=st.integers(0, 40), end=st.booleans())
@settings(max_examples=15)
def test_masked_copies_touch_what_they_should(element, target, count, start, end):
    if element == "f16" and not target.has_halves:
        return
    lanes = 16 if element == "f64" else target.width // SIZES[element]
    x = guarded(samples(element, count + start, count), end)
    y = guarded(np.zeros_like(x), end)
    built(_copy, element, lanes, target=target)(0, 1, id(x), id(y), start, count + start)
    same(y[start:], x[start:])
    assert not y[:start].any()


@every_target
@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "f16", "i16", "u8", "i64", "b8"])
@given(count=st.integers(0, 70))
@settings(max_examples=10)
def test_masked_lanes_take_the_other_value(element, target, count):
    if element == "f16" and not target.has_halves:
        return
    lanes, other = 8, 1 if element == "b8" else 3
    x, y = guarded(np.ones(count, DTYPES[element])), np.empty(1)
    built(_copy, element, lanes, other, target=target)(0, 1, id(x), id(y), 0, count)
    assert y[0] == count + other * (-count % lanes)


@every_target
def test_all_bfloat16_load_as_float32(target):
    bits = np.arange(65536, dtype=np.uint16)
    (result,) = apply(lambda k, a: [a + 0.0], bits.view(BFLOAT16), target=target)
    np.testing.assert_array_equal(result, (bits.astype(np.uint32) << 16).view(np.float32))


@every_target
def test_all_float16_load_as_float32(target):
    if not target.has_halves:
        pytest.skip("no instructions for float16")
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    (result,) = apply(lambda k, a: [a + 0.0], halves, target=target)
    np.testing.assert_array_equal(result, halves.astype(np.float32))


def _between_halves(dtype):
    """float32 numbers that a half holds, those in the middle of two, and their neighbours; random bits; NaN with odd bits."""
    held = np.arange(65536, dtype=np.uint16).view(dtype).astype(np.float32)
    held = held[np.isfinite(held)]
    following = np.sort(held)
    with np.errstate(all="ignore"):
        middle = (following[1:].astype(np.float64) + following[:-1]) / 2
    middle = middle.astype(np.float32)
    near = np.concatenate([np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf)), middle, held])
    nan = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0x7FBFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    limits = np.array([65504, 65519.996, 65520, 3.3895314e38, 3.3961776e38, np.inf, -np.inf, 1e-45, 5.9e-8, 2.9e-8], np.float32)
    random = np.random.default_rng(0).integers(0, 2**32, 20000, np.uint32).view(np.float32)
    return np.concatenate([near, nan, limits, random])


@every_target
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_stores_of_halves_round_to_even(element, target):
    if element == "f16" and not target.has_halves:
        pytest.skip("no instructions for float16")
    a = _between_halves(DTYPES[element])
    (result,) = apply(lambda k, x: [x], a, target=target, elements=[element])
    wanted = a.astype(DTYPES[element])
    nan = np.isnan(a)
    np.testing.assert_array_equal(result.view(np.uint16)[~nan], wanted.view(np.uint16)[~nan])
    assert np.isnan(result[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(np.signbit(result[nan]), np.signbit(a[nan]))


@every_target
@pytest.mark.parametrize("element", [k for k in SIZES if k != "ptr"])
def test_gather_and_strided_loads(element, target):
    if element == "f16" and not target.has_halves:
        pytest.skip("no instructions for float16")
    lanes, register = 8, ELEMENTS[DTYPES[element]]

    def kernel(k):
        x, at, y, n, stride = k.array(), k.array(), k.array(), k.integer(), k.integer()

        def step(i, mask):
            k.store(k.gather(x, k.load(at, i, "i64", lanes, mask), element, mask), y, i, register, mask)
            k.store(k.load_strided(x, i * stride, stride, element, lanes, mask), y, i + n, register, mask)
            k.store(k.load_strided(x, i * stride, stride, element, 1), y, i + 2 * n, register)

        k.vector_loop(0, n, lanes, step)

    x, n, stride = guarded(samples(element, 301)), 61, 5
    at = np.random.default_rng(1).integers(0, 301, n)
    at[-1], at[0] = 300, 0
    y = np.zeros(3 * n, x.dtype)
    build(kernel, target=target)(0, 1, id(x), id(at), id(y), n, stride)
    wanted = x[: 5 * n : 5]
    same(y[:n], x[at])
    same(y[n : 2 * n], wanted)
    same(y[2 * n :][::lanes], wanted[::lanes])


@every_target
def test_arguments_arrive_as_their_elements(target):
    elements = ["f32", "f64", "i8", "i32", "i64", "u8", "b8", "f16", "bf16"]

    def kernel(k):
        results, numbers, whole, address = k.array(), [k.number(element) for element in elements], k.integer(), k.pointer()
        for i, number in enumerate(numbers):
            k.store(k.cast(number, "f64"), results, i, "f64")
        k.store(k.cast(whole, "f64"), results, len(elements), "f64")
        k.store(k.load(address, 1, "f64"), results, len(elements) + 1, "f64")
        k.store(k.cast(k.first + k.last, "f64"), results, len(elements) + 2, "f64")
        k.prefetch(results, 0, "f64")

    y, source = np.zeros(len(elements) + 3), np.array([1.0, 2.5])
    build(kernel, target=target)(3, 8, id(y), 0.1, 0.1, -3, -(2**31), 2**62, 200, 7, 0.1, 3.0, -5, source.ctypes.data)
    assert y.tolist() == [float(np.float32(0.1)), 0.1, -3, -(2**31), 2.0**62, 200, 1, float(np.float32(0.1)), 3, -5, 2.5, 11]


@every_target
def test_tables_and_scratch_memory(target):
    def kernel(k):
        x, y = k.array(), k.array()
        squares, again, other = k.table([0, 1, 4, 9], "i64"), k.table([0, 1, 4, 9], "i64"), k.table([0.5, -0.0, 1e300], "f64")
        assert squares.text == again.text != other.text
        place = k.scratch(64, "i64")
        k.loop(0, 64, lambda i: k.store(k.load(x, i, "i64") * 2, place, i, "i64"))
        k.loop(0, 64, lambda i: k.store(k.load(place, 63 - i, "i64") + k.load(squares, i & 3, "i64"), y, i, "i64"))
        k.store(k.load(other, 2, "f64"), y, 64, "f64")

    x, y = np.arange(64), np.zeros(65, np.int64)
    build(kernel, target=target)(0, 1, id(x), id(y))
    np.testing.assert_array_equal(y[:64], 2 * x[::-1] + np.array([0, 1, 4, 9] * 16))
    assert y[64:].view(float)[0] == 1e300


# -- lanes --------------------------------------------------------------------------------------------------------------------------
@every_target
@pytest.mark.parametrize("element", ["f32", "f64", "i8", "i16", "i32", "i64", "u8"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 16])
def test_folds(element, lanes, target):
    def kernel(k):
        x, y = k.array(), k.array()

        def chunk(c):
            a = k.load(x, c * lanes, element, lanes)
            results = [
                k.sum(a),
                k.fold(a, k.least),
                k.fold(a, k.maximum),
                k.extract(a, lanes - 1),
                k.select(k.any(a.eq(1)), k.const(1, element), k.const(0, element)),
                k.select(k.any(a < -100) if element != "u8" else k.any(a > 250), k.const(1, element), k.const(0, element)),
            ]
            for i, value in enumerate(results):
                k.store(value, y, c * len(results) + i, element)

        k.for_chunks(chunk)

    rng, chunks = np.random.default_rng(lanes), 25
    x = rng.integers(0 if element == "u8" else -128, 256 if element == "u8" else 128, (chunks, lanes)).astype(DTYPES[element])
    y = np.zeros((chunks, 6), x.dtype)
    build(kernel, target=target)(0, chunks, id(x), id(y))
    low = (x > 250) if element == "u8" else (x < -100)
    wanted = [x.sum(1, dtype=x.dtype), x.min(1), x.max(1), x[:, -1], (x == 1).any(1), low.any(1)]
    np.testing.assert_array_equal(y, np.stack(wanted, 1).astype(x.dtype))


@every_target
def test_sums_are_pairwise_in_fixed_order(target):
    a = np.array([1e8, 1.0, -1e8, 1.0], np.float32)

    def kernel(k):
        x, y = k.array(), k.array()
        k.store(k.sum(k.load(x, 0, "f32", 4)), y, 0, "f32")

    y = np.zeros(1, np.float32)
    build(kernel, target=target)(0, 1, id(a), id(y))
    assert y[0] == (a[0] + a[2]) + (a[1] + a[3]) == 2


@every_target
def test_shuffles_halves_and_indices(target):
    def kernel(k):
        x, y = k.array(), k.array()
        a, b = k.load(x, 0, "i32", 8), k.load(x, 8, "i32", 8)
        k.store(k.shuffle(a, [7, 6, 5, 4, 3, 2, 1, 0]), y, 0, "i32")
        k.store(k.shuffle(a, [0, 8, 1, 9], b), y, 8, "i32")
        low, high = k.halves(a)
        k.store(low + high, y, 12, "i32")
        k.store(k.indices(8, "i32") + k.indices(1, "i32"), y, 16, "i32")

    x, y = np.arange(16, dtype=np.int32) ** 2, np.zeros(24, np.int32)
    build(kernel, target=target)(0, 1, id(x), id(y))
    np.testing.assert_array_equal(y, [*x[7::-1], x[0], x[8], x[1], x[9], *(x[:4] + x[4:8]), *range(8)])


# -- control ------------------------------------------------------------------------------------------------------------------------
def _loops(k):
    y, start, stop, step = k.array(), k.integer(), k.integer(), k.integer()
    zero = k.const(0, "i64")

    def body(i, total, count):
        inner = k.loop(zero, i & 3, lambda j, sum_: sum_ + j, carried=(zero,))
        return total + i * 2 + inner, count + 1

    total, count = k.loop(start, stop, body, step=step, carried=(zero, zero))
    one = k.loop(start, stop, lambda i, last: i, step=step, carried=(k.const(-99, "i64"),))
    for i, value in enumerate((total, count, one)):
        k.store(value, y, i, "i64")


@every_target
@given(start=st.integers(-5, 40), stop=st.integers(-5, 60), step=st.integers(1, 7))
@settings(max_examples=40)
def test_loops_carry_values(start, stop, step, target):
    y = np.zeros(3, np.int64)
    built(_loops, target=target)(0, 1, id(y), start, stop, step)
    run = range(start, stop, step)
    assert y.tolist() == [sum(2 * i + sum(range(i & 3)) for i in run), len(run), run[-1] if run else -99]


@every_target
def test_branches_return_values(target):
    def kernel(k):
        y, c = k.array(), k.integer()
        one = k.when(c > 2, lambda: c * 10, lambda: c - 10)
        k.store(one, y, 0, "i64")

        def nested():
            return k.when(c > 5, lambda: (c, c + 1), lambda: (c + 2, c + 3))

        two = k.when(c > 2, nested, lambda: (k.const(0, "i64"), k.const(1, "i64")))
        k.store(two[0], y, 1, "i64")
        k.store(two[1], y, 2, "i64")
        assert k.when(c > 3, lambda: k.store(c, y, 3, "i64")) == ()

    run = build(kernel, target=target)
    for c, wanted in {2: [-8, 0, 1, -1], 3: [30, 5, 6, -1], 9: [90, 9, 10, 9]}.items():
        y = np.full(4, -1)
        run(0, 1, id(y), c)
        assert y.tolist() == wanted


def _covered(k, lanes, unroll):
    y, start, stop = k.array(), k.integer(), k.integer()
    ones, count = k.const(1, "i32", lanes), k.const(0, "i32")

    def step(i, mask, steps, sum_):
        k.store(k.load(y, i, "i32", lanes, mask) + ones, y, i, "i32", mask)
        return steps + 1, sum_ + k.load(y, i, "i32", lanes, mask)

    steps, sum_ = k.vector_loop(start, stop, lanes, step, carried=(count, k.const(0, "i32", lanes)), unroll=unroll)
    header = k.const(0, "i64")
    k.store(steps, y, header, "i32")
    k.store(k.sum(sum_), y, header + 1, "i32")


@every_target
@pytest.mark.parametrize(("lanes", "unroll"), [(1, 1), (4, 1), (8, 3), (4, 4)])
@given(start=st.integers(2, 20), count=st.integers(0, 120))
@settings(max_examples=15)
def test_vector_loops_visit_each_element_once(lanes, unroll, start, count, target):
    y = guarded(np.zeros(start + count, np.int32))
    built(_covered, lanes, unroll, target=target)(0, 1, id(y), start, start + count)
    assert (y[start:] == 1).all() and not y[2:start].any()
    assert y[0] == -(-count // lanes) and y[1] == count


@every_target
def test_functions_are_written_once_and_return_several_values(target):
    def both(k, a, b):
        return [a + b, k.cast(a < b, "i64")]

    def kernel(k):
        x, y = k.array(), k.array()
        a, b = k.load(x, 0, "i64", 4), k.load(x, 4, "i64", 4)
        s, less = k.function("both", both, a, b)
        s2, less2 = k.function("both", both, s, b)
        s3, _ = k.function("both", both, k.extract(a, 0), k.extract(b, 0))
        for i, value in enumerate((s, less, s2, less2, k.splat(s3, 4))):
            k.store(value, y, 4 * i, "i64")
        assert k.text().count("define internal") == 2  # for four lanes, and for one

    x, y = np.array([1, 9, 3, 4, 5, 6, 3, 8]), np.zeros((5, 4), np.int64)
    build(kernel, target=target)(0, 1, id(x), id(y))
    a, b = x[:4], x[4:]
    np.testing.assert_array_equal(y, [a + b, a < b, a + 2 * b, a + b < b, [a[0] + b[0]] * 4])


# -- constants ------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("element", [*SIGNED, *UNSIGNED])
def test_integer_literals_wrap(element):
    bits = SIZES[element] * 8
    assert literal(-1, element) == "-1"
    assert literal(2**bits - 1, element) == "-1"
    assert literal(2 ** (bits - 1), element) == str(-(2 ** (bits - 1)))
    assert literal(2 ** (bits - 1) - 1, element) == str(2 ** (bits - 1) - 1)


@every_target
@pytest.mark.parametrize("element", FLOATS)
def test_float_constants_are_exact(element, target):
    numbers = [0.1, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, np.pi]
    results = apply(lambda k, a: [k.const(v, element) for v in numbers], np.zeros(3, DTYPES[element]), target=target)
    for result, number in zip(results, numbers, strict=True):
        same(result, np.full(3, number, DTYPES[element]))


def test_lanes_fill_a_register():
    for target in (*RUNNABLE, NEON):
        k = Builder("x", target)
        for element, size in {"f32": 4, "f64": 8, "bf16": 4, "f16": 4, "b8": 1, "i8": 1, "u16": 2, "i64": 8}.items():
            assert k.lanes(element) == target.width // size


# -- errors ---------------------------------------------------------------------------------------------------------------------------
def test_mixed_elements_and_lanes_are_errors():
    k = Builder("wrong", AVX2)
    a, b = k.const(1, "f32"), k.const(1, "f64")
    with pytest.raises(TypeError, match="wrong: operands of element types f32 and f64; cast one first"):
        a + b
    with pytest.raises(TypeError, match="element types f32 and f64"):
        a < b  # noqa: B015
    with pytest.raises(TypeError, match="expected elements of type f32, got f64"):
        k.like(b, a)
    with pytest.raises(TypeError, match="cannot spread 4 lanes over 8"):
        k.splat(k.const(1, "f32", 4), 8)
    with pytest.raises(TypeError, match="cannot store elements of type f32 as i32"):
        k.store(a, k.array(), 0, "i32")
    with pytest.raises(TypeError, match="cannot store elements of type f64 as bf16"):
        k.store(b, k.array(), 0, "bf16")


def test_bodies_that_return_too_little_are_errors():
    k, zero = Builder("wrong", PLAIN), Builder("wrong", PLAIN).const(0, "i64")
    with pytest.raises(TypeError, match="a loop's body returned 0 values for 1 carried ones"):
        k.loop(0, 3, lambda i, total: None, carried=(zero,))
    with pytest.raises(TypeError, match="the sides of a branch return 1 and 0 values"):
        k.when(zero > 1, lambda: zero)


def test_ml_dtypes_bfloat16_is_what_bf16_means():
    assert ELEMENTS[np.dtype(ml_dtypes.bfloat16)] == "bf16"
