"""Native running totals against the reference kernels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.families import scan

from .guard import guarded

SHAPES = [(1,), (7,), (8,), (9,), (67,), (3, 33), (33, 5), (2, 17, 37), (4, 1, 3)]
DTYPES = {
    "cumsum": (np.float32, np.float64, ml_dtypes.bfloat16, np.int64, np.uint8, np.bool_),
    "cumprod": (np.float32, np.int32),
    "logcumsumexp": (np.float32,),
    "cummax": (np.float32, np.int64, np.uint8),
    "cummin": (np.float64, np.int16),
}
CASES = [(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes]


def reference(name, x, dim):
    """Totals as PyTorch keeps them, float32 in float64."""
    if name in ("cummax", "cummin"):
        return through(name, x, dim)
    wide = x.astype(np.float64) if x.dtype.kind in "fV" else x
    (result,) = through(name, wide, dim)
    return (result.astype(x.dtype) if x.dtype.kind in "fV" else result,)


def through(name, x, dim):
    with native.disabled():
        result = getattr(torch, name)(torch.from_numpy(x), dim)
    return tuple(t.numpy() for t in (result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda case: case if isinstance(case, str) else np.dtype(case).name)
def test_totals_are_those_of_the_reference(name, dtype):
    rng = np.random.default_rng(3)
    for number, shape in enumerate(SHAPES):
        x = guarded((rng.integers(-3, 4, shape) * 0.5 + (name == "cumprod")).astype(dtype), end=number % 2 == 0)
        for dim in range(x.ndim):
            results = getattr(scan, name)(x, dim)
            results = results if isinstance(results, tuple) else (results,)
            for got, wanted in zip(results, reference(name, np.array(x), dim), strict=True):
                assert got.dtype == wanted.dtype and got.flags.c_contiguous
                if name == "logcumsumexp":
                    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
                else:
                    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["cumsum", "logcumsumexp", "cummax", "cummin"])
@pytest.mark.parametrize("shape", [(200,), (40, 9)])
def test_infinities_and_nan_are_as_in_the_reference(name, shape):
    rng = np.random.default_rng(1)
    for values in ([0.0, -np.inf], [0.0, 1.0, -0.0, np.inf, -np.inf], [0.0, 2.0, 2.0, 3.0, -np.inf]):
        x = rng.choice(values, shape).astype(np.float32)
        x[:2] = -np.inf if values[-1] < 0 else 1
        x[(len(x) * 2) // 3] = np.nan
        results = getattr(scan, name)(x, 0)
        for got, wanted in zip(results if isinstance(results, tuple) else (results,), through(name, x, 0), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_long_rows_keep_their_precision():
    x = np.full(1_000_000, 0.1, np.float32)
    assert abs(scan.cumsum(x, 0)[-1] - np.float64(x[0]) * len(x)) < 0.01


def test_other_layouts_dtypes_and_forms_reach_the_kernel_or_the_reference():
    x = torch.randn(150, 200)
    with native.disabled():
        wanted = x.t().double().cumsum(1)
    torch.testing.assert_close(x.t().cumsum(1), wanted.float())
    torch.testing.assert_close(x.cumsum(0, dtype=torch.float64), wanted.t())
    torch.testing.assert_close(x.clone().t().cumsum_(1), wanted.float())
    assert scan.cumsum(x.numpy(), 0, torch.int32) is None and scan.cummax(x.numpy() > 0, 0) is None
    assert scan.cumsum(np.zeros((0, 3), np.float32), 0) is None and scan.logcumsumexp(np.zeros(5, np.int64), 0) is None
    narrow = torch.full((100, 100), 100, dtype=torch.uint8)
    assert narrow.cumsum(0)[-1, 0] == 10_000 and narrow.cumsum(0, dtype=torch.uint8)[-1, 0] == 10_000 % 256
