"""Native look-ups and sums at indices against NumPy, and their errors."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import embedding as kernels, places as index_arrays
from flambeau.ops.scatter import reduce_at

from .guard import guarded

F = torch.nn.functional
seeds = st.integers(0, 2**32 - 1)
floats, indices = st.sampled_from(["f4", "f8"]), st.sampled_from(["i4", "i8"])
CLOSE = {"f4": {"rtol": 1e-5, "atol": 1e-5}, "f8": {"rtol": 1e-13, "atol": 1e-13}}


@given(seed=seeds, dtype=floats, index=indices, end=st.booleans())
@settings(max_examples=100, deadline=None)
def test_embeddings_and_their_gradients(seed, dtype, index, end):
    rng = np.random.default_rng(seed)
    rows, width = int(rng.integers(1, 300)), int(rng.integers(1, 700 if rng.random() < 0.1 else 90))
    table = guarded(rng.standard_normal((rows, width)).astype(dtype), end)
    at = guarded(rng.integers(0, rows, rng.integers(1, 40, rng.integers(1, 3))).astype(index), end)
    np.testing.assert_array_equal(kernels.embedding(table, at), table[at])
    grad = guarded(rng.standard_normal((*at.shape, width)).astype(dtype), end)
    padding = int(rng.integers(-1, rows))
    kept = at.reshape(-1) != padding
    wanted = np.zeros_like(table)
    np.add.at(wanted, at.reshape(-1)[kept], grad.reshape(-1, width)[kept])
    np.testing.assert_allclose(kernels.embedding_backward(grad, at, rows, padding, False), wanted, **CLOSE[dtype])


@given(seed=seeds, dtype=floats, index=indices, end=st.booleans())
@settings(max_examples=60, deadline=None)
def test_taking_and_adding_along_any_dimension(seed, dtype, index, end):
    rng = np.random.default_rng(seed)
    x = guarded(rng.standard_normal(rng.integers(1, 25, 3)).astype(dtype), end)
    for dim in range(3):
        size = x.shape[dim]
        at = guarded(rng.integers(0, size, int(rng.integers(1, 50))).astype(index), end)
        np.testing.assert_array_equal(kernels.index_select(x, dim, at), np.take(x, at, dim))
        both = guarded((at - size * (rng.random(at.size) < 0.4)).astype(index), end)
        np.testing.assert_array_equal(index_arrays.index(x, [None] * dim + [both]), np.take(x, both, dim))
        shape = [*x.shape[:dim], int(rng.integers(1, 50)), *x.shape[dim + 1 :]]
        places = guarded(rng.integers(0, size, shape).astype(index), end)
        np.testing.assert_array_equal(kernels.gather(x, dim, places), np.take_along_axis(x, places, dim))
        source = guarded(rng.standard_normal(shape).astype(dtype), end)
        grids = list(np.ogrid[tuple(slice(n) for n in shape)])
        grids[dim] = places
        wanted = x.copy()
        np.add.at(wanted, tuple(grids), source)
        np.testing.assert_array_equal(kernels.scatter_add(x, dim, places, source), wanted)
    rows = guarded(rng.integers(-len(x), len(x), 30).astype(index), end)
    source = guarded(rng.standard_normal((30, *x.shape[1:])).astype(dtype), end)
    wanted = np.zeros_like(x)
    np.add.at(wanted, rows, source)
    np.testing.assert_allclose(kernels.index_backward(source, x.shape, [rows]), wanted, **CLOSE[dtype])
    np.add.at(wanted := x.copy(), rows % len(x), 3 * source)
    np.testing.assert_allclose(kernels.index_add(x, 0, rows % len(x), source, 3), wanted, **CLOSE[dtype])
    assert kernels.limits(rows) == (rows.min(), rows.max())


@pytest.mark.parametrize("wrong", [-1, 500, 2**40, -(2**40)])
@pytest.mark.parametrize("place", [0, 4321, 9999])
def test_an_index_out_of_range_is_declined(wrong, place):
    rng = np.random.default_rng(0)
    x, at = guarded(rng.standard_normal((500, 8))), rng.integers(0, 500, 10_000)
    at[place] = wrong
    grad = np.ones((10_000, 8))
    assert kernels.embedding(x, at) is None and kernels.index_select(x, 0, at) is None
    assert kernels.embedding_backward(grad, at, 500, -1, False) is None and kernels.index_add(x, 0, at, grad, 1) is None
    columns = np.repeat(at[:, None], 8, 1)
    assert kernels.gather(x, 0, columns) is None and kernels.scatter_add(x, 0, columns, grad) is None
    assert kernels.gather(x[:, 0].copy(), 0, at) is None and kernels.scatter_add(x[:, 0].copy(), 0, at, grad[:, 0].copy()) is None
    assert (index_arrays.index(x, [at]) is None) == (wrong != -1)


def test_errors_are_those_of_the_reference():
    table, at = torch.zeros(500, 20), torch.zeros(9000, dtype=torch.int64)
    at[77] = 500
    for call in (
        lambda: F.embedding(at, table),
        lambda: table[at],
        lambda: table.index_select(0, at),
        lambda: table.gather(0, at[:, None].expand(-1, 20)),
        lambda: table.index_add(0, at, torch.ones(9000, 20)),
        lambda: table.scatter_add(0, at[:, None].expand(-1, 20)[:400], torch.ones(400, 20)),
        lambda: table.scatter_add_(0, at[:, None].expand(-1, 20)[:500].to(torch.int32), torch.ones(500, 20)),
        lambda: table.gather(0, at[:, None].expand(-1, 20) - 501),
    ):
        with native.disabled(), pytest.raises(Exception) as wanted:
            call()
        with pytest.raises(wanted.type) as error:
            call()
        assert str(error.value) == str(wanted.value)


def test_threads_do_not_change_sums():
    rng = np.random.default_rng(0)
    at, grad = rng.integers(0, 50, 20_000), rng.standard_normal((20_000, 40)).astype(np.float32)
    x, places = np.zeros((60, 40), np.float32), rng.integers(0, 60, (20_000, 40))
    threads, runs = pool.threads, []
    for count in (1, 2):
        pool.set_threads(count)
        runs.append((kernels.embedding_backward(grad, at, 3000, -1, False), kernels.scatter_add(x, 0, places, grad)))
    pool.set_threads(threads)
    for one, two in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_training_an_embedding_is_as_with_the_reference(dtype):
    torch.manual_seed(0)
    weight, at = torch.randn(700, 24).to(dtype).requires_grad_(), torch.randint(0, 700, (40, 30))

    def gradient():
        torch.manual_seed(1)
        output = F.embedding(at, weight, padding_idx=3)
        return output, *torch.autograd.grad(output, weight, torch.randn(output.shape).to(dtype))

    results = gradient()
    with native.disabled():
        wanted = gradient()
    assert torch.equal(results[0], wanted[0])
    torch.testing.assert_close(results[1], wanted[1])


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64], ids=["float32", "int32", "int64"])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_elements_are_combined_as_by_numpy(reduce, dtype):
    rng = np.random.default_rng(4)
    for shape, size, dim in (((90, 7), 5, 0), ((3, 120), 40, 1), ((2, 31, 9), 11, 1)):
        x = rng.integers(-3, 4, tuple(size if d == dim else n for d, n in enumerate(shape))).astype(dtype)
        source, index = rng.integers(-3, 4, shape).astype(dtype), rng.integers(0, size - 1, shape)
        if dtype is np.float32:
            source.reshape(-1)[3] = np.nan
        for include_self in (True, False):
            with native.disabled():
                wanted = torch.from_numpy(x).scatter_reduce(
                    dim, torch.from_numpy(index), torch.from_numpy(source), reduce, include_self=include_self
                )
            got = kernels.scatter_reduce(x, dim, index, source, reduce, include_self)
            np.testing.assert_array_equal(got, wanted.numpy())
            assert got.dtype == dtype
    index[0] = size
    assert kernels.scatter_reduce(x, dim, index, source, reduce, True) is None


def test_rows_of_other_dimensions_are_added():
    x, y, rows = torch.randn(40, 300), torch.randn(40, 500), torch.arange(500) % 290
    with native.disabled():
        wanted = x.index_add(1, rows, y, alpha=0.5), torch.autograd.functional.vjp(lambda x: x[:, rows - 300], x, y)[1]
    torch.testing.assert_close(x.index_add(1, rows, y, alpha=0.5), wanted[0])
    torch.testing.assert_close(torch.autograd.functional.vjp(lambda x: x[:, rows - 300], x, y)[1], wanted[1])


@pytest.mark.parametrize("dtype", [np.float32, np.int64], ids=["float32", "int64"])
@pytest.mark.parametrize("reduce", ["mean", "prod", "amax", "amin"])
def test_rows_are_combined_as_by_numpy(reduce, dtype):
    rng = np.random.default_rng(6)
    for shape, dim in (((9, 700), 0), ((7, 9), 1), ((3, 9, 37), 1), ((2, 3, 9), 2), ((20, 9, 3), 1)):
        for end in (True, False):
            index = guarded(rng.integers(0, shape[dim] - 1, 30), end)
            x = guarded(rng.integers(-3, 4, shape).astype(dtype), end)
            source = guarded(rng.integers(-3, 4, (*shape[:dim], 30, *shape[dim + 1 :])).astype(dtype), end)
            if dtype is np.float32:
                source.reshape(-1)[5] = np.nan
            for include_self in (True, False):
                wanted = x.copy()
                reduce_at(wanted, (slice(None),) * dim + (index,), source, reduce, include_self)
                got = kernels.index_reduce(x, dim, index, source, reduce, include_self)
                if reduce == "mean" and dtype is np.int64:
                    assert got is None
                else:
                    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    index[3] = shape[dim]
    assert (
        kernels.index_reduce(x, dim, index, source, reduce, True) is None
        and kernels.index_reduce(x, dim, index[:0], source, reduce, True) is None
    )


def test_gradients_of_selected_and_reduced_entries():
    x, at = torch.randn(3, 40, 100, requires_grad=True), torch.randint(0, 40, (90,))
    y, grad = torch.randn(3, 90, 100, requires_grad=True), torch.randn(3, 90, 100)
    gradients = []
    for context in (native.disabled(), nullcontext()):
        with context:
            selected = torch.autograd.grad(x.index_select(1, at), x, grad)
            reduced = torch.autograd.grad(x.index_reduce(1, at, y, "mean"), (x, y), x.detach())
            gradients.append([*selected, *reduced])
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_are_summed_without_their_rows(mode):
    weight = torch.randn(50, 40, dtype=torch.float64, requires_grad=True)
    tokens, offsets = torch.randint(0, 50, (700,)), torch.tensor([0, 3, 3, 250, 699])
    for padding in (None, 7):
        results = []
        for context in (native.disabled(), nullcontext()):
            with context:
                y = F.embedding_bag(tokens, weight, offsets, mode=mode, padding_idx=padding)
                results.append((y, *torch.autograd.grad(y.square().sum(), weight)))
        for one, two in zip(*results, strict=True):
            torch.testing.assert_close(one, two)
        kept = [[t for t in bag.tolist() if t != padding] for bag in tokens.tensor_split(offsets[1:])]
        wanted = torch.stack([weight[bag].sum(0) / (max(len(bag), 1) if mode == "mean" else 1) for bag in kept])
        torch.testing.assert_close(results[0][0], wanted)


def test_gradients_at_places_along_a_dimension():
    x, index = torch.randn(30, 400, requires_grad=True), torch.randint(0, 400, (20, 500))
    gradients = []
    for context in (native.disabled(), nullcontext()):
        with context:
            taken = x.gather(1, index)
            gradients.append([*torch.autograd.grad((taken * taken).sum(), x), *torch.autograd.grad(x.topk(3, 0)[0].sum(), x)])
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two)
