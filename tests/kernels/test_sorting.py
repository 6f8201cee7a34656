"""Native sorting, the first few and searching against NumPy's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.families import sorting

from .guard import guarded

DTYPES = (np.float32, np.float64, ml_dtypes.bfloat16, np.int64, np.int16, np.uint8)


def drawn(dtype, *shape):
    """Few different values, so that many are equal; infinities, NaN, both zeros and the largest numbers among them."""
    rng = np.random.default_rng(shape[-1])
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.choice(np.array([info.min, info.max, 0, 1, 77], dtype), shape)
    return rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 1e30, -1e-30]), shape).astype(dtype)


def by_numpy(x, descending):
    """Stable order of rows by NumPy."""
    comparable = x.astype(np.float64) if x.dtype.kind == "V" else x
    if not descending:
        return comparable.argsort(-1, kind="stable")
    return x.shape[-1] - 1 - comparable[..., ::-1].argsort(-1, kind="stable")[..., ::-1]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_the_order_is_numpys_and_stable(dtype):
    for shape in ((64,), (1000,), (70, 65), (3, 2, 300)):
        x = guarded(drawn(dtype, *shape), end=shape[-1] % 2 == 0)
        for descending in (False, True):
            values, places = sorting.sort(x, -1, descending)
            order = by_numpy(x, descending)
            np.testing.assert_array_equal(places, order)
            assert values.dtype == x.dtype and values.tobytes() == np.take_along_axis(x, order, -1).tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_the_first_few_are_those_of_the_order(dtype):
    for shape in ((9,), (100,), (33, 70)):
        x = guarded(drawn(dtype, *shape), end=shape[-1] % 2 == 0)
        for count in (1, 5, 9):
            for largest in (False, True):
                values, places = sorting.topk(x, count, -1, largest)
                order = by_numpy(x, largest)[..., :count]
                np.testing.assert_array_equal(places, order)
                assert values.tobytes() == np.take_along_axis(x, order, -1).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8], ids=lambda dtype: np.dtype(dtype).name)
def test_places_in_what_is_sorted_are_numpys(dtype):
    for n in (1, 2, 7, 8, 100):
        ranked = guarded(np.sort(drawn(dtype, n)), end=True)
        rows = np.sort(drawn(dtype, 3, n))
        for count in (1, 9, 2500):
            wanted = guarded(drawn(dtype, count + 1)[:count], end=False)
            for side in ("left", "right"):
                np.testing.assert_array_equal(sorting.positions(ranked, wanted, side == "right"), ranked.searchsorted(wanted, side))
                several = np.stack([wanted, wanted[::-1], wanted])
                by_row = [row.searchsorted(values, side) for row, values in zip(rows, several)]
                np.testing.assert_array_equal(sorting.positions(rows, several, side == "right"), by_row)


def test_other_dimensions_and_layouts():
    x = torch.randn(80, 3, 90)
    for dim in range(3):
        for view in (x, x.transpose(0, 2), x[::2]):
            with native.disabled():
                wanted = view.sort(dim), view.topk(2, dim)
            for got, expected in zip((view.sort(dim), view.topk(2, dim)), wanted):
                assert torch.equal(got[0], expected[0]) and torch.equal(got[1], expected[1])
                assert got[0].stride() == expected[0].stride() and got[1].stride() == expected[1].stride()


def test_calls_that_are_left_to_numpy():
    x = np.zeros((100, 100), np.float32)
    short = native.at_most(64) == 64
    assert not short or sorting.sort(x[:, :63], -1) is None
    assert (
        sorting.sort(np.zeros((), np.float32)) is None and sorting.sort(x[:0], 0) is None and sorting.sort(x.astype(np.complex64)) is None
    )
    assert sorting.topk(x, 65) is None and sorting.topk(x, 0) is None and sorting.positions(x[0, :0], x, False) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_what_stands_on_order(dtype):
    """Ranks, medians, distinct elements: the same with and without kernels, NaN among the elements."""
    x = torch.from_numpy(drawn(np.float32, 100, 101)).nan_to_num(3.0, 4.0, -4.0).to(dtype)
    holed = x.masked_fill(x == 1.5, float("nan")) if dtype.is_floating_point else x
    for call in (
        lambda: x.kthvalue(30, 1),
        lambda: x.median(0),
        lambda: holed.median(1),
        lambda: holed.nanmedian(1),
        lambda: x.mode(1),
        lambda: torch.unique(x, return_inverse=True, return_counts=True),
        lambda: torch.unique(holed, return_counts=True),
        lambda: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    ):
        with native.disabled():
            wanted = call()
        for got, expected in zip(call(), wanted, strict=True):
            np.testing.assert_array_equal(got.numpy(), expected.numpy())


LONG_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8)


def long_rows(dtype, kind):
    """Rows beyond the length from which on a sample tells where a rank lies."""
    generator = torch.Generator().manual_seed(5)
    shape = (2, 40_000)
    if not dtype.is_floating_point:
        return torch.randint(0, 200 if dtype is torch.uint8 else 1 << 30, shape, generator=generator, dtype=dtype)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "missing":
        x = x.masked_fill(torch.rand(shape, generator=generator) < 0.4, float("nan"))
    elif kind == "equal":
        x = x.round()
    elif kind == "misleading":  # the sample sees zeros only
        x[:, ::2] = 0
    elif kind == "infinite":
        x = x.masked_fill(x > 1, float("inf")).masked_fill(x < -1, float("-inf"))
    return x.to(dtype)


@pytest.mark.parametrize("kind", ["plain", "missing", "equal", "misleading", "infinite"])
@pytest.mark.parametrize("dtype", LONG_DTYPES, ids=str)
def test_ranks_of_long_rows_are_those_of_the_order(dtype, kind):
    x = long_rows(dtype, kind)
    for descending in (False, True):
        places = x.sort(1, descending, stable=True)[1]
        for rows in (x[0], x[:1]):
            for k in (1, 100, 3000):
                top = rows.topk(k, largest=descending)
                assert torch.equal(top.indices.reshape(-1), places[0, :k])
                assert top.values.shape == (*rows.shape[:-1], k)
    ascending = x.sort(1, stable=True)[0]
    for rank in (0, 7, 20_000, 39_999):
        for dim, rows in ((1, x), (0, x.t())):
            found, place = rows.kthvalue(rank + 1, dim)
            torch.testing.assert_close(found, ascending[:, rank], rtol=0, atol=0, equal_nan=True)
            same = (x == found[:, None]) | ((x != x) & (found != found)[:, None])
            assert torch.equal(place, same.to(torch.uint8).argmax(1))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "uint64"])
def test_counted_whole_numbers_are_numpys_unique_ones(dtype):
    rng = np.random.default_rng(3)
    info = np.iinfo(dtype) if dtype != "bool" else None
    for size in (0, 1, 255, 256, 5000):
        for low in (0,) if info is None else (info.min, 0, info.max - 120):
            drawn = rng.integers(0, 2 if info is None else 121, size)
            x = drawn.astype(dtype) if info is None else (drawn.astype(object) + low).astype(dtype)
            values, inverse, counts = torch.unique(torch.from_numpy(x), return_inverse=True, return_counts=True)
            expected = np.unique(x, return_inverse=True, return_counts=True)
            for ours, theirs in zip((values, inverse, counts), expected, strict=True):
                np.testing.assert_array_equal(ours.numpy(), theirs)
            assert values.dtype == torch.from_numpy(x).dtype
            assert torch.equal(torch.unique(torch.from_numpy(x)), values)
