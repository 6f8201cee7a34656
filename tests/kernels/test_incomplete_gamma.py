"""The incomplete gamma functions' kernel beside SciPy in float64, at the borders of its ways, and what it leaves to SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.compiler import build, target
from flambeau.kernels.families import incomplete_gamma

from .guard import guarded

RANGES = [(0.5, 4, 0.5, 4), (1e-6, 1, 0, 1), (0, 64, 0, 130), (0, 1e-3, 0, 3), (0, 1e-30, 0, 3), (60, 64, 40, 90), (0.1, 2, 0, 1e-6)]
EXACT = {False: special.gammainc, True: special.gammaincc}


def operands(low, high, least, most, count=3001):
    rng = np.random.default_rng(0)
    a = np.maximum(rng.uniform(low, high, count), 1e-37).astype(np.float32)
    x = rng.uniform(least, most, count).astype(np.float32)
    x[:500] = a[:500] + rng.choice([0, 0.999999, 1, 1.000001], 500)  # where one way ends and another begins
    x[500:510], x[510:520], a[520:525] = 0, 3e38, 1
    return a, x


def far(got, exact):
    """Largest error in units of the last place."""
    size = np.maximum(np.abs(exact), np.finfo(np.float32).tiny)
    return (np.abs(got - exact) / 2.0 ** (np.floor(np.log2(size)) - 23)).max()


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("within", RANGES)
def test_errors_are_within_the_bound(upper, within):
    a, x = operands(*within)
    got = incomplete_gamma.shares(a, x, upper)
    assert far(got, EXACT[upper](a.astype(np.float64), x.astype(np.float64))) <= incomplete_gamma.MAX_ULP
    np.testing.assert_array_equal(got[500:520], np.repeat(np.float32([upper, not upper]), 10))


@pytest.mark.parametrize("processor", [target.AVX2, target.PLAIN], ids=lambda t: t.name)
def test_on_lower_processors(processor):
    a, x = operands(0, 64, 0, 130)
    for upper in (False, True):
        k = build.source_of(incomplete_gamma.incomplete_gamma.generator, (upper,), processor)
        out = np.empty_like(x)
        build.Kernel(build.compiled(k.text(), k.name, processor), k)(2, id(a), id(x), id(out), x.size)
        assert far(out, EXACT[upper](a.astype(np.float64), x.astype(np.float64))) <= incomplete_gamma.MAX_ULP


@pytest.mark.parametrize("upper", [False, True])
def test_other_operands_are_scipys(upper):
    a, x = np.ones(9, np.float32), np.ones(9, np.float32)
    assert incomplete_gamma.shares(a, x, upper) is not None and incomplete_gamma.shares(a[:0], x[:0], upper) is None
    assert incomplete_gamma.shares(a.astype(np.float64), x, upper) is None
    for which, values in ((a, (0.0, -1.0, 64.01, np.nan, np.inf)), (x, (-1.0, np.nan, np.inf))):
        for value in values:
            which[3] = value
            assert incomplete_gamma.shares(a, x, upper) is None
            which[3] = 1


def test_the_operations_take_any_layout():
    a, x = (torch.from_numpy(part.copy()) for part in operands(0.5, 4, 0.5, 4, 4000))
    for operation in (torch.igamma, torch.igammac):
        for order, point in ((a.view(40, 100).t(), x.view(100, 40)), (a[:1], x), (a.view(-1, 1)[:40], x[:100]), (a[::2], x[1::2])):
            got = operation(order, point)
            with native.disabled():
                assert torch.allclose(got, operation(order, point), rtol=1e-6, atol=0)
        out = torch.empty_like(x)
        assert operation(a, x, out=out) is out and torch.equal(out, operation(a, x))
    with pytest.raises(NotImplementedError):
        torch.igamma(a.long(), x.long())


def test_numbers_without_dimensions_keep_their_shape():
    a, x = np.float32(2.5), np.float32(1.5)
    for shape in ((), (1,), (1, 1)):
        got = incomplete_gamma.shares(np.full((), a), np.full(shape, x), False)
        assert got.shape == shape and np.allclose(got, 0.300014, atol=1e-6)


def test_nothing_beside_the_operands_is_touched():
    a, x = operands(0.5, 4, 0.5, 4, 1003)
    for end in (False, True):
        np.testing.assert_array_equal(incomplete_gamma.shares(guarded(a, end), guarded(x, end), True), incomplete_gamma.shares(a, x, True))
