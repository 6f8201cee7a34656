"""Random numbers by native kernels: the reference streams' bits, and the same state afterwards."""

from __future__ import annotations

from importlib import import_module

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.core.random import box_muller, generator as generators, rejection, samplers
from flambeau.core.random.generator import BLOCK, Generator

from .guard import guarded

dropout = import_module("flambeau.ops.dropout")

FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
INTEGERS = [np.uint8, np.int8, np.int16, np.int32, np.int64]
FILLS = {
    "uniform": lambda g, out: samplers.fill_uniform(g, out),
    "between": lambda g, out: samplers.fill_uniform(g, out, -2.5, 3.7),
    "normal": lambda g, out: samplers.fill_normal(g, out),
    "moved": lambda g, out: samplers.fill_normal(g, out, 0.3, 1.0),
    "scaled": lambda g, out: samplers.fill_normal(g, out, 0.3, 1.7),
    "bernoulli": lambda g, out: samplers.fill_bernoulli(g, out, 0.3),
    "kept": lambda g, out: samplers.fill_bernoulli(g, out, 0.3, 2.5),
    "exponential": lambda g, out: samplers.fill_exponential(g, out, 2.0),
    "cauchy": lambda g, out: samplers.fill_cauchy(g, out, 0.5, 2.0),
    "log_normal": lambda g, out: samplers.fill_log_normal(g, out),
    "geometric": lambda g, out: samplers.fill_geometric(g, out, 0.2),
    "random": lambda g, out: samplers.fill_random(g, out),
    "range": lambda g, out: samplers.fill_random_range(g, out, -3, 100),
}
SIZES = [1, 2, 5, 15, 16, 17, 31, 100, BLOCK - 1, BLOCK, BLOCK + 1, 4095, 4097, 20003]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Kernels from the first number on."""
    monkeypatch.setattr(generators.draws, "worked", 1 << 40)


@pytest.fixture
def launches(monkeypatch):
    """The rules that kernels have run."""
    taken = []
    usual = Generator.drawn

    def drawn(self, rule, out, *numbers, **options):
        done = usual(self, rule, out, *numbers, **options)
        if done:
            taken.append(rule)
        return done

    monkeypatch.setattr(Generator, "drawn", drawn)
    return taken


def assert_same(draw, times=3):
    """``draw(generator)`` gives the same bits, and leaves the same state, with kernels and without."""
    one, other = Generator().manual_seed(5), Generator().manual_seed(5)
    for _ in range(times):
        with np.errstate(all="ignore"):
            mine = np.asarray(draw(one))
            with native.disabled():
                reference = np.asarray(draw(other))
        assert mine.dtype == reference.dtype and mine.strides == reference.strides
        np.testing.assert_array_equal(mine.view("u1") if mine.ndim == 1 else mine, reference.view("u1") if mine.ndim == 1 else reference)
        np.testing.assert_array_equal(one.state_bytes(), other.state_bytes())
        assert one.word() == other.word()  # and from here on the position is odd every other time


def filler(name, shape, dtype, order="C"):
    def draw(generator):
        out = np.zeros(shape, dtype, order)
        FILLS[name](generator, out)
        return out

    return draw


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("draw", ["words", "floats", "doubles", "long_words"])
def test_words_and_uniforms_equal_the_reference(draw, size, launches):
    assert_same(lambda generator: getattr(generator, draw)(size))
    assert launches or size < 3


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FILLS)
def test_floating_point_fills_equal_the_reference(name, dtype, launches):
    for size in SIZES:
        assert_same(filler(name, size, dtype), times=2)
    assert launches


@pytest.mark.parametrize("dtype", [*INTEGERS, np.bool_])
def test_integer_fills_equal_the_reference(dtype, launches):
    least, most = (0, 1) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    bounds = [(0, 1), (0, 2), (1, 2), (-1, 7), (0, 100), (-100, 120), (5, 1 << 20), (-7, (1 << 28) - 8), (-7, (1 << 28) - 7), (least, most)]
    for low, high in bounds:
        if least <= low < high <= most + 1:
            for size in (1, 17, 5000):
                assert_same(lambda g, size=size, low=low, high=high: _range(g, size, dtype, low, high))
    assert_same(filler("random", 5000, dtype))
    assert_same(filler("bernoulli", 5000, dtype))
    assert {"below", "bernoulli"} <= set(launches)


def _range(generator, size, dtype, low, high):
    out = np.zeros(size, dtype)
    samplers.fill_random_range(generator, out, low, high)
    return out


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(FILLS)),
    shape=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    dtype=st.sampled_from(FLOATS),
    order=st.sampled_from("CF"),
)
def test_any_shape_and_order(name, shape, dtype, order):
    assert_same(filler(name, tuple(shape), dtype, order))


@pytest.mark.parametrize("size", [2, 3, 17, 625, 4096, 4097, 4098, 30000])
def test_permutation_equals_the_reference(size, launches):
    assert_same(lambda generator: samplers.randperm(generator, size))
    assert set(launches) == {"shuffle"}


def _spread(low, high):
    return lambda size, dtype: np.random.default_rng(size).uniform(low, high, size).astype(dtype)


EACH = {
    "poisson": (lambda g, x: rejection.poisson(g, x), _spread(0, 3)),
    "poisson, large": (lambda g, x: rejection.poisson(g, x), _spread(5, 300)),
    "gamma": (lambda g, x: rejection.standard_gamma(g, x), _spread(0, 3)),
    "gamma, tiny": (lambda g, x: rejection.standard_gamma(g, x), _spread(0, 1e-3)),
    "dirichlet": (lambda g, x: rejection.dirichlet(g, x.reshape(-1, 1)), _spread(0, 3)),
    "binomial": (lambda g, x: rejection.binomial(g, np.full_like(x, 30), x), _spread(-0.1, 1.1)),
    "binomial, many": (lambda g, x: rejection.binomial(g, np.full_like(x, 1e4), x), _spread(0, 1)),
    "binomial, parts": (lambda g, x: rejection.binomial(g, x, np.full_like(x, 0.7)), _spread(-2, 60)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EACH)
def test_numbers_of_many_words_equal_the_reference(name, dtype, launches):
    draw, operand = EACH[name]
    if np.dtype(dtype).itemsize < 4 and not name.startswith("poisson"):
        return
    for size in (1, 2, 7, 311, 312, 313, 3001):
        x = operand(size, dtype)
        assert_same(lambda g, x=x: draw(g, x), times=2)
    assert launches and not native.call_native("random.draw_each", "gamma", np.dtype(np.int64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_normal_number_is_kept_between_draws_of_gammas(dtype):
    """Odd numbers of normals: the second of a pair comes next, from whichever kernel."""

    def draw(generator):
        gammas = rejection.standard_gamma(generator, np.full(3, 2, dtype))
        return np.concatenate([gammas, samplers.scalar_normals(generator, 2), rejection.standard_gamma(generator, np.full(2, 0.5, dtype))])

    assert_same(draw, times=6)


def test_numbers_that_need_no_words_take_none(launches):
    for draw in (
        lambda g: rejection.poisson(g, np.zeros(50, np.float32)),
        lambda g: rejection.standard_gamma(g, np.zeros(50)),
        lambda g: rejection.binomial(g, np.zeros(50), np.full(50, 0.5)),
        lambda g: rejection.binomial(g, np.full(50, 9.0), np.repeat([0.0, 1.0], 25)),
    ):
        assert_same(draw)
    assert launches.count("binomial") == 6
    fresh, drawn = Generator().manual_seed(5), Generator().manual_seed(5)
    rejection.poisson(drawn, np.zeros(50, np.float32))
    np.testing.assert_array_equal(fresh.state_bytes(), drawn.state_bytes())


def test_numbers_of_many_words_in_logical_order(launches):
    rates = np.arange(1200, dtype=np.float32).reshape(30, 40) / 60
    for x in (rates.T, rates[::2, ::3], np.broadcast_to(rates[:1], (9, 40)), rates[:, :0]):
        assert_same(lambda g, x=x: rejection.poisson(g, x), times=2)
        assert_same(lambda g, x=x: rejection.binomial(g, x, np.broadcast_to(np.float32(0.4), x.shape)), times=2)
    assert launches


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_goes_to_python(value, launches):
    x = np.full(40, value, np.float32)
    assert_same(lambda g: rejection.binomial(g, np.full_like(x, 20), x))
    if value == np.inf:
        assert_same(lambda g: rejection.standard_gamma(g, x))
        with pytest.raises((OverflowError, ValueError)):
            rejection.poisson(Generator(), x)
    assert not {"poisson", "gamma", "binomial"} & set(launches)


def test_samplers_stay_within_their_arrays():
    for draw, x in ((rejection.poisson, np.full(37, 3.0)), (rejection.standard_gamma, np.full(37, 0.5, np.float32))):
        assert_same(lambda g, draw=draw, x=x: draw(g, guarded(x)))
        assert_same(lambda g, draw=draw, x=x: draw(g, guarded(x, end=False)))


@pytest.mark.parametrize("p", [0.0, 1e-300, 2.0**-53, 0.5, 1 - 2.0**-53, 1.0])
def test_extreme_probabilities(p):
    def draw(generator):
        out = np.zeros(3000, np.float32)
        samplers.fill_bernoulli(generator, out, p)
        return out

    assert_same(draw)


def test_millions_of_normals_equal_the_reference():
    normals = samplers.randn(Generator().manual_seed(1), (1 << 22,))
    with native.disabled():
        expected = samplers.randn(Generator().manual_seed(1), (1 << 22,))
    np.testing.assert_array_equal(normals, expected)


@pytest.mark.parametrize("name", ["log1p", "log", "exp", "tan", "sin", "cos"])
def test_library_functions_equal_pythons(name):
    x = np.linspace(0.001, 0.999, 5001)
    function = getattr(__import__("math"), name)
    np.testing.assert_array_equal(box_muller.libm(function, x), [function(value) for value in x.tolist()])


def test_kept_normal_comes_first():
    assert_same(lambda generator: np.concatenate([samplers.randn(generator, (n,)) for n in (3, 6, 1, 1, 5)]))
    assert_same(lambda generator: np.concatenate([samplers.scalar_normals(generator, n, 0.5, 2.0) for n in (3, 1, 50, 7)]))


@pytest.mark.parametrize("name", ["uniform", "between", "normal", "scaled", "bernoulli", "range"])
@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_access_outside(name, end, dtype):
    for size in (1, 7, 16, 37, 4099):
        out = guarded(np.zeros(size, dtype), end=end)
        FILLS[name](Generator().manual_seed(2), out)
        expected = np.zeros(size, dtype)
        FILLS[name](Generator().manual_seed(2), expected)
        np.testing.assert_array_equal(out, expected)


def test_states_move_between_kernels_and_reference():
    one, other = Generator().manual_seed(9), Generator().manual_seed(9)
    first = [one.floats(1000), one.doubles(701), one.words(3)]
    state = one.state_bytes()
    with native.disabled():
        second = [other.floats(1000), other.doubles(701), other.words(3)]
        other.load_state_bytes(state)
        after = other.floats(2000)
    for mine, reference in zip(first, second, strict=True):
        np.testing.assert_array_equal(mine, reference)
    np.testing.assert_array_equal(one.floats(2000), after)


def test_words_that_were_handed_out_stay():
    generator = Generator().manual_seed(0)
    generator.words(5)
    held = generator.words(10)
    before = held.copy()
    for _ in range(5):
        generator.floats(3000)
    np.testing.assert_array_equal(held, before)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["dropout", "feature_dropout", "alpha_dropout"])
def test_dropout_equals_the_reference(name, dtype):
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((20, 30, 17)).astype(np.float32)).to(getattr(torch, np.dtype(dtype).name))
    for tensor in (x, x.transpose(0, 2)):
        torch.manual_seed(4)
        result = getattr(torch, name)(tensor, 0.3, True)
        with native.disabled():
            torch.manual_seed(4)
            expected = getattr(torch, name)(tensor, 0.3, True)
        assert result.stride() == expected.stride()
        assert torch.equal(result, expected)


def test_dropout_gradient_has_the_same_zeros():
    x = torch.ones(300, 100, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.25)
    y.backward(torch.ones(300, 100))
    assert torch.equal(x.grad, y.detach())
    assert set(y.detach().unique().tolist()) == {0.0, np.float32(1) / np.float32(0.75)}


@pytest.mark.parametrize("dtype", FLOATS)
def test_categories_equal_the_reference(dtype):
    rng = np.random.default_rng(0)
    for rows, categories, count in ((1, 1, 3), (1, 9000, 5), (3, 7, 2), (4, 2, 9000), (5, 1025, 300), (33, 1000, 10)):
        probs = rng.random((rows, categories)).astype(dtype)
        probs[:, ::3] = 0
        probs[:, -1] += 1 if categories < 3 else 0
        for laid_out in (probs, np.asfortranarray(probs), probs[0]):
            assert_same(lambda g, x=laid_out, n=count: samplers.multinomial(g, x, n, True), times=2)


@pytest.mark.parametrize("wrong", [-1.0, np.inf, np.nan])
def test_wrong_probabilities_draw_nothing(wrong):
    for where in (0, 4999, -1):
        probs = np.ones((2, 5000), np.float32)
        probs[1, where] = wrong
        generator = Generator().manual_seed(1)
        with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
            samplers.multinomial(generator, probs, 10, True)
        with pytest.raises(RuntimeError, match="sum of probabilities <= 0"):
            samplers.multinomial(generator, np.repeat([[1.0], [0.0]], 5000, 1), 10, True)
        np.testing.assert_array_equal(generator.state_bytes(), Generator().manual_seed(1).state_bytes())
