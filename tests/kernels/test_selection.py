"""What masks choose, runs of equal elements, elements at several index arrays, and triples of elements, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.kernels.families import histograms, matrices, places, selection

from .guard import guarded

SHAPES = [(1,), (65_600,), (33, 67), (1, 40_000), (40_000, 1), (700, 64), (3, 5, 700)]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elements_and_places_that_a_mask_chooses(shape, share):
    rng = np.random.default_rng(0)
    mask = guarded(rng.random(shape) < share, shape[0] % 2 == 1)
    for dtype in (np.float32, np.int8, np.bool_, np.complex64, np.float16):
        values = guarded((rng.standard_normal(shape) * 10).astype(dtype), shape[0] % 2 == 0)
        np.testing.assert_array_equal(selection.masked_select(values, mask), values[mask])
        source, wanted = guarded(values.reshape(-1)[: mask.sum()]), values.copy()
        wanted[mask] = source
        np.testing.assert_array_equal(selection.masked_scatter(values, mask, source), wanted)
    if len(shape) < 3:
        np.testing.assert_array_equal(selection.places_of(mask), np.stack(mask.nonzero()))
        np.testing.assert_array_equal(selection.places_of(mask * np.float32(0.1)), np.stack(mask.nonzero()))


def test_fewer_elements_than_places_are_an_error_of_the_reference():
    assert selection.masked_scatter(np.zeros(9), np.ones(9, np.bool_), np.zeros(8)) is None
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        torch.zeros(20_000).masked_scatter(torch.ones(20_000, dtype=torch.bool), torch.zeros(19_999))


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float32, np.float64])
def test_runs_of_equal_elements(dtype):
    rng = np.random.default_rng(1)
    for size, different in ((1, 1), (40_000, 30), (70_001, 50_000)):
        x = guarded(np.sort(rng.integers(0, different, size) % 100 if dtype == np.int8 else rng.integers(0, different, size)).astype(dtype))
        if x.dtype.kind == "f":
            x[-2:] = np.nan  # each is another one
        begins = np.append(True, x[1:] != x[:-1])
        np.testing.assert_array_equal(selection.begins(x), begins)
        np.testing.assert_array_equal(selection.numbered(guarded(begins)), begins.cumsum() - 1)


def test_elements_at_several_index_arrays():
    rng = np.random.default_rng(2)
    x = guarded(rng.standard_normal((7, 11, 13)))
    for shape in ((2,), (999,), (30, 41)):
        first, second, third = (guarded(rng.integers(-n, n, shape)) for n in x.shape)
        np.testing.assert_array_equal(places.index(x, (first, second)), x[first, second])
        np.testing.assert_array_equal(places.elements_at(x, (first, second, third)), x[first, second, third])
        flat = guarded(rng.integers(-x.size, x.size, shape))
        np.testing.assert_array_equal(places.take(x, flat), x.reshape(-1).take(flat))
        for wrong in (11, -12):
            second[...] = wrong
            assert places.index(x, (first, second)) is None
    assert places.index(x, (first, None, third)) is None and places.index(x, (first, second.astype(np.int32))) is None


def test_elements_that_are_added_at_places_that_repeat():
    rng = np.random.default_rng(3)
    x, rows, columns, values = torch.zeros(60, 50), rng.integers(-60, 60, 9000), rng.integers(-50, 50, 9000), rng.standard_normal(9000)
    wanted = np.zeros((60, 50))
    np.add.at(wanted, (rows, columns), values)
    at = torch.from_numpy(rows), torch.from_numpy(columns)
    got = torch.index_put(x.double(), at, torch.from_numpy(values), accumulate=True)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12, atol=1e-12)
    leaf = x.clone().requires_grad_()
    leaf[at].sum().backward()
    assert leaf.grad.sum() == 9000


@pytest.mark.parametrize("weights", [None, np.float32, np.float64])
def test_counts_of_places(weights):
    rng = np.random.default_rng(4)
    for size, most in ((1, 1), (100, 7), (200_001, 1000)):
        at = guarded(rng.integers(0, most, size))
        if weights is None:
            np.testing.assert_array_equal(histograms.counts(at, most + 2), np.bincount(at, minlength=most + 2))
        else:
            given = guarded(rng.standard_normal(size).astype(weights))
            wanted = np.bincount(at, given.astype(np.float64), most)
            np.testing.assert_allclose(histograms.weighted_counts(at, given, most), wanted, rtol=1e-12, atol=1e-12)
    assert histograms.counts(at, 1 << 20) is None


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
def test_entries_that_are_put_at_indices(dtype):
    rng = np.random.default_rng(5)
    x = guarded((rng.standard_normal((5, 40, 83)) * 9).astype(dtype))
    for dim in (0, 1):
        at = guarded(rng.integers(0, x.shape[dim], 30))
        source = guarded((rng.standard_normal((*x.shape[:dim], 30, *x.shape[dim + 1 :])) * 9).astype(dtype))
        wanted = x.copy()
        for i, place in enumerate(at):  # of those that repeat the last one counts
            wanted[(slice(None),) * dim + (place,)] = source[(slice(None),) * dim + (i,)]
        np.testing.assert_array_equal(places.index_copy(x, dim, at, source), wanted)
        wanted[(slice(None),) * dim + (at,)] = 7
        np.testing.assert_array_equal(places.index_fill(wanted, dim, at - x.shape[dim], 7), wanted)
        np.testing.assert_array_equal(places.index_fill(x, dim, at, np.array(7, dtype))[(slice(None),) * dim + (at,)] == 7, True)
    assert places.index_copy(x, 2, at, np.zeros((5, 40, 30), dtype)) is None  # rows of one element


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vector_products_of_triples(dtype):
    rng = np.random.default_rng(6)
    for count in (1, 15, 16, 17, 9001):
        a, b = (guarded(rng.standard_normal((count, 3)).astype(dtype), count % 2 == 0) for _ in range(2))
        (ax, ay, az), (bx, by, bz) = a.T, b.T
        wanted = np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], 1)
        np.testing.assert_array_equal(matrices.cross(a, b), wanted)  # each product is rounded
    assert matrices.cross(a, b, 0) is None and matrices.cross(a, b[:1]) is None
