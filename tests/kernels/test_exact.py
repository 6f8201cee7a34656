"""Remainders, integer division, divisors, shifts and neighbours: equal to NumPy's bit by bit, on every class of processor."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.compiler import build
from flambeau.kernels.compiler.language import ELEMENTS
from flambeau.kernels.mathematics import exact

from .test_vectors import TARGETS, special_values

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.filterwarnings("ignore")
FLOATS = [np.float32, np.float64]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
COUNT = 20_000


def mapped(k, name, elements, result, lanes):
    """y = function(x, ...) over arrays."""
    sources = [k.array() for _ in elements]
    y, n = k.array(), k.integer()

    def step(i, mask):
        values = [k.load(x, i, element, lanes, mask) for x, element in zip(sources, elements, strict=True)]
        k.store(getattr(exact, name)(k, *values), y, i, result, mask)

    k.vector_loop(0, n, lanes, step)


def computed(processor, name, *x, result=None):
    result = np.dtype(result or x[0].dtype)
    elements = tuple(ELEMENTS[array.dtype] for array in x)
    lanes = processor.width // x[0].itemsize if processor.has_masks else 1
    k = build.source_of(mapped, (name, elements, ELEMENTS[result], lanes), processor)
    y = np.empty(x[0].shape, result)
    build.Kernel(build.compiled(k.text(), k.name, processor), k)(1, *[id(array) for array in x], id(y), y.size)
    return y


def same(a, b):
    """Equal bit by bit, but for which NaN it is."""
    assert a.dtype == b.dtype
    if a.dtype.kind == "f":
        assert np.array_equal(np.isnan(a), np.isnan(b))
        a, b = (np.nan_to_num(array, nan=1.0, posinf=np.inf, neginf=-np.inf) for array in (a, b))
        assert np.array_equal(np.signbit(a), np.signbit(b))
    at = np.flatnonzero(a != b)
    assert not at.size, f"at {at[:3]}: {a[at[:3]]}, expected {b[at[:3]]}"


def floats(dtype, seed):
    """Random bits, magnitudes near each other, whole numbers."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2 ** (8 * dtype().itemsize), COUNT, dtype=np.uint64).astype(f"u{dtype().itemsize}").view(dtype)
    return np.concatenate([bits, rng.normal(0, 100, COUNT), rng.integers(-1000, 1000, COUNT) / 4, rng.choice(bits, COUNT)]).astype(dtype)


def pairs_of_floats(dtype):
    special = [grid.ravel() for grid in np.meshgrid(special_values(dtype), special_values(dtype))]
    return [np.concatenate([floats(dtype, i), special[i]]) for i in range(2)]


def integers(dtype, seed, low=None):
    """All of the range, small numbers, and the ends."""
    rng, info = np.random.default_rng(seed), np.iinfo(dtype)
    low = info.min if low is None else low
    ends = rng.choice(np.array([low, max(low, -1 if info.min else 0), 0, 1, 2, info.max], dtype), 300)
    near = rng.integers(max(low, -9), 10, COUNT)
    return np.concatenate([rng.integers(low, info.max, COUNT, dtype=dtype, endpoint=True), near, ends]).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
def test_fmod_is_exact(processor, dtype):
    x, y = pairs_of_floats(dtype)
    same(computed(processor, "fmod", x, y), np.fmod(x, y))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
def test_fmod_of_short_quotients_is_exact(processor, dtype):
    """Around whole numbers, too, to which quotients are rounded up."""
    rng = np.random.default_rng(2)
    y = (rng.normal(0, 1, COUNT) * 2.0 ** rng.integers(-100, 100, COUNT)).astype(dtype)
    whole = (y * rng.integers(-(2**18), 2**18, COUNT)).astype(dtype)
    for x in (whole, np.nextafter(whole, dtype(0)), whole / 2, y * rng.normal(0, 2, COUNT).astype(dtype)):
        x = x.astype(dtype)
        same(computed(processor, "fmod", x, y), np.fmod(x, y))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
def test_nextafter(processor, dtype):
    x, y = pairs_of_floats(dtype)
    y = np.where(np.arange(x.size) % 7 == 0, x, y)
    same(computed(processor, "nextafter", x, y), np.nextafter(x, y))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
def test_frexp(processor, dtype):
    x = np.concatenate([floats(dtype, 0), special_values(dtype)])
    mantissa, exponent = np.frexp(x)
    same(computed(processor, "frexp_mantissa", x), mantissa)
    same(computed(processor, "frexp_exponent", x, result=np.int32), exponent)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
def test_quotients_and_remainders(processor, dtype):
    x, y = integers(dtype, 0), integers(dtype, 1)
    y = np.where(y == 0, dtype(3), y)
    same(computed(processor, "floor_quotient", x, y), np.floor_divide(x, y))
    same(computed(processor, "floor_remainder", x, y), np.remainder(x, y))
    same(computed(processor, "truncated_remainder", x, y), np.fmod(x, y))


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
def test_divisors_and_multiples(processor, dtype):
    x, y = integers(dtype, 0), integers(dtype, 1)
    same(computed(processor, "gcd", x, y), np.gcd(x, y))
    same(computed(processor, "lcm", x, y), np.lcm(x, y))


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
def test_powers_and_shifts(processor, dtype):
    x, y = integers(dtype, 0), integers(dtype, 1)
    same(computed(processor, "left_shift", x, y), np.left_shift(x, y))
    same(computed(processor, "right_shift", x, y), np.right_shift(x, y))
    y = integers(dtype, 1, low=0)
    same(computed(processor, "power", x, y), np.power(x, y))


@pytest.mark.parametrize("name", ["floor_divide", "fmod", "remainder"])
@pytest.mark.parametrize("where", ["array", "number", "0-d"])
def test_an_integer_divided_by_zero_is_an_error(name, where):
    x = torch.arange(40_000)
    divisor = {"array": torch.ones(40_000, dtype=torch.int64), "number": 0, "0-d": torch.tensor(0)}[where]
    operation = getattr(torch, name)
    if where == "array":
        operation(x, divisor)
        divisor[-1] = 0
    for _ in range(2):  # also when the kernel is there
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            operation(x, divisor)
    with native.disabled():
        wanted = operation(x, 7)
    assert torch.equal(operation(x, 7), wanted)


def test_frexp_has_two_results():
    x = torch.linspace(-3, 3, 40_000, dtype=torch.float64).view(200, 200).t()
    with native.disabled():
        wanted = torch.frexp(x)
    result = torch.frexp(x)
    assert result.exponent.dtype is torch.int32 and result.exponent.stride() == wanted.exponent.stride()
    assert torch.equal(result.mantissa, wanted.mantissa) and torch.equal(result.exponent, wanted.exponent)
    assert math.isclose(float(result.mantissa[0, 0]), -0.75)
