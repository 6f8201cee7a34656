"""Vector maths against references of higher precision, for every class of processor that this machine can run.

``FLAMBEAU_EXHAUSTIVE=1 pytest tests/kernels/test_vectors.py -k every`` tries all 2**32 arguments of the float32 functions (a few hours);
another number tries as many times fewer.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import special

from flambeau.kernels.compiler import build, machine_code, target
from flambeau.kernels.mathematics import vectors

pytest.importorskip("llvmlite")
EXHAUSTIVE = int(os.environ.get("FLAMBEAU_EXHAUSTIVE", "0"))
LONG = np.longdouble
OF_TWO = ("pow", "atan2", "hypot")
NAMES = [name for name in vectors.MAX_ULP if name not in OF_TWO]
DTYPES = {"f32": np.float32, "f64": np.float64}
HIGHER = {"f32": np.float64, "f64": LONG}
TARGETS = [t for t in target.ALL.values() if t.triple == target.host().triple and t.width <= target.host().width]
needs_long_double = pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="long double is no wider than double")


def sigmoid(x):
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


REFERENCES = {
    "sigmoid": sigmoid,
    "softplus": lambda x: np.logaddexp(x.dtype.type(0), x),
    "log_sigmoid": lambda x: -np.logaddexp(x.dtype.type(0), -x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": special.erf,
    "erfc": special.erfc,
    **{"a" + name[3:]: getattr(np, name) for name in ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "arctan2")},
    "pow": np.power,
}


def reference(name, *x):
    if name in ("erf", "erfc") and x[0].dtype == LONG:
        mpmath = pytest.importorskip("mpmath")
        mpmath.mp.dps = 40
        function = getattr(mpmath, name)
        values = [LONG(mpmath.nstr(function(mpmath.mpf(v)), 25)) for v in np.clip(x[0].astype(np.float64), -40, 40).tolist()]
        result = np.array(values)
        return np.copysign(result, x[0]) if name == "erf" else result
    with np.errstate(all="ignore"):
        return (REFERENCES.get(name) or getattr(np, name))(*x)


def mapped(k, name, element, lanes):
    """y = function(x, ...) over arrays."""
    sources = [k.array() for _ in range(2 if name in OF_TWO else 1)]
    y, n = k.array(), k.integer()

    def step(i, mask):
        k.store(getattr(vectors, name)(k, *(k.load(x, i, element, lanes, mask) for x in sources)), y, i, element, mask)

    k.vector_loop(0, n, lanes, step)


def computed(processor, name, *x, lanes=None):
    element = "f32" if x[0].dtype == np.float32 else "f64"
    k = build.source_of(mapped, (name, element, lanes or processor.width // x[0].itemsize), processor)
    x = [np.ascontiguousarray(v) for v in x]
    y = np.empty_like(x[0])
    build.Kernel(machine_code.compiled(k.text(), k.name, processor), k)(1, *map(id, x), id(y), y.size)
    return y


def ulps(got, exact):
    """Distance in units of the last place of ``got``'s format; infinite where NaN, an infinity or a zero's sign is wrong."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        right = exact.astype(got.dtype)
        size = np.where(np.isfinite(exact) & (exact != 0), abs(exact), 1)
        exponent = np.clip(np.frexp(size)[1], info.minexp + 1, info.maxexp) - 1 - info.nmant
        distance = abs(got.astype(exact.dtype) - exact) / np.ldexp(np.ones((), exact.dtype), exponent)
    equal = (got == right) & ((got != 0) | (np.signbit(got) == np.signbit(exact))) | (np.isnan(got) & np.isnan(right))
    special_one = ~np.isfinite(got) | ~np.isfinite(right) | ((got == 0) & (right == 0))
    return np.where(special_one, np.where(equal, 0, np.inf), distance)


def bound(name, element, processor):
    with_fma, without = vectors.MAX_ULP[name]
    return (with_fma if processor.has_fma else without)[element == "f64"]


def hold(name, element, processor, *x):
    far, what = farthest(name, element, processor, *x)
    assert far <= bound(name, element, processor), what
    return far


def farthest(name, element, processor, *x):
    """The largest error in units of the last place, and a sentence about it."""
    got = computed(processor, name, *x)
    with np.errstate(all="ignore"):
        exact = reference(name, *(v.astype(HIGHER[element]) for v in x))
    if name == "log_sigmoid":  # PyTorch's zero is 0 - 0
        exact = np.where(exact.astype(got.dtype) == 0, exact.dtype.type(0), exact)
    far = ulps(got, exact)
    at = int(np.argmax(far))
    place = tuple(v[at] for v in x)
    return far[at], f"{name}{place}: expected {exact[at]}, got {got[at]}, {far[at]:.3f} ULP off"


def special_values(dtype):
    info = np.finfo(dtype)
    one = [0.0, info.smallest_subnormal, info.tiny / 2, info.tiny, info.eps, 0.5, 1.0, 1.5, 2.0, 3.0, info.max, np.inf]
    odd = [1 + info.eps, 1 - info.epsneg, 2.0**info.nmant + 1, 2.0**info.nmant - 0.5, 2.0 ** (info.nmant + 1) - 1, np.nan]
    return np.array([*one, *odd, *(-v for v in one + odd)]).astype(dtype)


def arguments(name, element, count):
    """Special values, random bits, and values where reductions and branches of the functions change."""
    dtype, rng = DTYPES[element], np.random.default_rng(1)
    info = np.finfo(dtype)
    bits = np.uint32 if element == "f32" else np.uint64
    whole = rng.integers(-1200, 1200, count)
    steps = rng.choice([0, 1, -1, 3, -3, 40, -40], count)
    bends = [0.5, 0.55, 0.75, 1.0, 1.5, 2.0, 9.5, 18.0, 20.0, 28.0, 38.0, 88.72, 89.4, 103.9, 709.78, 710.47, 745.1, 2.0**17, 2.0**20]
    edges = rng.choice(bends, count)
    parts = [
        special_values(dtype),
        rng.integers(0, 2 ** (8 * dtype().itemsize), 2 * count, dtype=np.uint64).astype(bits).view(dtype),
        rng.choice([-1, 1], count) * np.exp2(rng.uniform(-30, 10, count)),
        rng.choice([-1, 1], count) * edges * (1 + steps * info.eps),
        whole * np.log(2) / 2 * (1 + steps * info.eps),
        whole * np.pi / 2 * (1 + steps * info.eps),
        np.exp2(whole / 2) * (1 + steps * info.eps),
        1 + rng.choice([-1, 1], count) * np.exp2(rng.uniform(-info.nmant, 0, count)),
        rng.uniform(-1.1, 1.1, count),
        rng.uniform(-30, 30, count),
        rng.uniform(-1e5, 1e5, count),
    ]
    with np.errstate(all="ignore"):
        return np.concatenate([part.astype(dtype) for part in parts])


@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", NAMES)
def test_float32_is_within_its_bound(name, processor):
    hold(name, "f32", processor, arguments(name, "f32", 20000))


@needs_long_double
@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", NAMES)
def test_float64_is_within_its_bound(name, processor):
    hold(name, "f64", processor, arguments(name, "f64", 60 if name.startswith("erf") else 8000))


@needs_long_double
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_are_within_their_bounds(name, processor, element):
    dtype, n, rng = DTYPES[element], 20000, np.random.default_rng(2)
    pairs = np.meshgrid(special_values(dtype), special_values(dtype))
    both = [arguments(name, element, 3000), arguments(name, element, 3000)]
    rng.shuffle(both[1])
    x = [pairs[0].ravel(), both[0], np.exp2(rng.uniform(-130, 130, n)), 1 + rng.uniform(-1, 1, n) * np.exp2(-rng.uniform(1, 25, n))]
    y = [pairs[1].ravel(), both[1], rng.uniform(-2, 2, n), rng.uniform(-1, 1, n) * np.exp2(rng.uniform(0, 30, n))]
    x, y = [*x, rng.uniform(-9, 9, n)], [*y, np.round(rng.uniform(-9, 9, n))]
    with np.errstate(over="ignore"):
        x, y = (np.concatenate([part.astype(dtype) for part in parts]) for parts in (x, y))
    hold(name, element, processor, x, y)


@pytest.mark.parametrize("lanes", [1, 2, 8, 32])
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "erfc", "rsqrt", "log1p"])
def test_any_number_of_lanes(name, lanes):
    for element, dtype in DTYPES.items():
        x = arguments(name, element, 50)
        got, usual = (computed(target.current(), name, x, lanes=n) for n in (lanes, None))
        both_nan = np.isnan(got) & np.isnan(usual)
        if name == "rsqrt":  # another way to the result, of the same accuracy
            np.testing.assert_allclose(got, usual, rtol=2 * np.finfo(dtype).eps)
        else:
            assert np.array_equal(got[~both_nan], usual[~both_nan]) and not np.isnan(got[~both_nan]).any()


@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
def test_normal_area(processor):
    x = np.concatenate([np.linspace(-8, 8, 100_001), [-np.inf, np.inf]])
    single = computed(processor, "normal_area", x.astype(np.float32))
    assert abs(single - special.ndtr(x.astype(np.float32).astype(np.float64))).max() < 1.3e-7
    assert abs(computed(processor, "normal_area", x) - special.ndtr(x)).max() < 2.3e-16
    assert [single[0], *single[-2:]] == [0, 0, 1]
    assert np.isnan(computed(processor, "normal_area", np.full(3, np.nan, np.float32))).all()


def test_exponentials_underflow_gradually():
    x = np.linspace(-104.5, -87, 5000, dtype=np.float32)
    y = computed(target.current(), "exp", x)
    subnormal = (y > 0) & (y < np.finfo(np.float32).tiny)
    assert subnormal.sum() > 4000
    assert (np.diff(y) >= 0).all()


def test_exact_results_are_exact():
    k = np.arange(-149, 128)
    powers = np.exp2(k.astype(np.float64)).astype(np.float32)
    for processor in TARGETS:
        assert np.array_equal(computed(processor, "exp2", k.astype(np.float32)), powers)
        assert np.array_equal(computed(processor, "log2", powers), k.astype(np.float32))
        whole = np.arange(1, 30, dtype=np.float64)
        assert np.array_equal(computed(processor, "pow", whole, np.full_like(whole, 3)), whole**3)
        assert np.array_equal(computed(processor, "cos", np.zeros(3)), np.ones(3))


@pytest.mark.skipif(not EXHAUSTIVE, reason="takes hours; FLAMBEAU_EXHAUSTIVE=1 runs it")
@pytest.mark.parametrize("name", NAMES)
def test_every_float32(name):
    block = 1 << 18
    worst = 0.0, ""
    for start in range(0, 1 << 32, block * EXHAUSTIVE):
        x = np.arange(start, min(start + block * EXHAUSTIVE, 1 << 32), EXHAUSTIVE, dtype=np.uint64).astype(np.uint32).view(np.float32)
        worst = max(worst, farthest(name, "f32", target.current(), x))
    print(worst[1])
    assert worst[0] <= bound(name, "f32", target.current()), worst[1]
