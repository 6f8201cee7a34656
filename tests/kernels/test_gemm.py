"""Products of matrices on the pool against NumPy's."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import gemm
from flambeau.kernels.families.blas import library

from .guard import guarded

pytestmark = pytest.mark.skipif(library() is None, reason="NumPy's BLAS cannot be called")
CLOSE = {np.float32: 1e-4, np.float64: 1e-12}
dtypes = st.sampled_from([np.float32, np.float64])
sizes = st.one_of(st.integers(2, 40), st.integers(40, 260))


def strided(rng, shape, dtype, how, end=True):
    """Random numbers of a shape, lying in memory in one of several ways."""
    *batch, rows, columns = shape
    if how == "transposed":
        array = guarded(rng.standard_normal((*batch, columns, rows)).astype(dtype), end).swapaxes(-1, -2)
    elif how == "batch inside" and batch:
        array = np.moveaxis(guarded(rng.standard_normal((rows, *batch, columns)).astype(dtype), end), 0, -2)
    elif how == "rows apart":
        array = guarded(rng.standard_normal((*batch, rows, columns + 3)).astype(dtype), end)[..., 1 : columns + 1]
    elif how == "every other":
        array = guarded(rng.standard_normal((*batch, 2 * rows, 2 * columns)).astype(dtype), end)[..., ::2, ::2]
    elif how == "one row":
        array = np.broadcast_to(guarded(rng.standard_normal((*batch, 1, columns)).astype(dtype), end), shape)
    elif how == "one matrix" and batch:
        array = np.broadcast_to(guarded(rng.standard_normal((rows, columns)).astype(dtype), end), shape)
    else:
        array = guarded(rng.standard_normal(shape).astype(dtype), end)
    assert array.shape == shape
    return array


layouts = st.sampled_from(["plain", "transposed", "batch inside", "rows apart", "every other", "one row", "one matrix"])


@given(
    batch=st.sampled_from([(), (3,), (2, 3), (1, 4), (40,)]),
    shape=st.tuples(sizes, sizes, sizes),
    shared=st.booleans(),
    dtype=dtypes,
    how=st.tuples(layouts, layouts),
    biased=st.booleans(),
    end=st.booleans(),
    least=st.sampled_from([0, gemm.SMALL]),
)
@settings(max_examples=120)
def test_products(batch, shape, shared, dtype, how, biased, end, least):
    m, n, inner = (min(size, 90) if batch else size for size in shape)
    rng = np.random.default_rng(m)
    a = strided(rng, (*batch, m, inner), dtype, how[0], end)
    b = strided(rng, (inner, n) if shared else (*batch, inner, n), dtype, how[1], end)
    bias = guarded(rng.standard_normal(n).astype(dtype), end) if biased else None
    product = gemm.multiply(a, b, bias, least)
    if product is None:
        assert a.size * n < least or "every other" in how or (least and a.size * n <= gemm.QUICK)
        return
    wanted = a @ b + (0 if bias is None else bias)
    assert product.dtype == dtype and product.shape == wanted.shape and product.flags.c_contiguous
    np.testing.assert_allclose(product, wanted, rtol=CLOSE[dtype], atol=CLOSE[dtype] * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", [(9, 5, 1), (5, 70, 900), (40, 70, 900), (70, 40, 900), (300, 33, 641)], ids=str)
def test_products_stay_within_their_bound(sizes, dtype):
    m, n, inner = sizes
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, inner)).astype(dtype), rng.standard_normal((n, inner)).astype(dtype)
    exact, unit = a.astype(np.longdouble) @ b.T.astype(np.longdouble), np.finfo(dtype).eps / 2
    bound = inner * unit / (1 - inner * unit) * (np.abs(a).astype(np.longdouble) @ np.abs(b.T))
    for left in (a, np.asfortranarray(a)):
        for right in (b.T, np.ascontiguousarray(b.T)):
            assert (np.abs(gemm.multiply(left, right, None, 0) - exact) <= bound).all()


def _same(operation, *operands, **named):
    """With and without kernels: values, dtype and strides, and gradients."""

    def run():
        leaves = [operand.detach().requires_grad_() for operand in operands]
        result = operation(*leaves, **named)
        slopes = torch.autograd.grad((result * result).sum(), leaves)
        return [result.detach(), *slopes]

    results = run()
    with native.disabled():
        wanted = run()
    for a, b in zip(results, wanted, strict=True):
        assert a.shape == b.shape and a.dtype is b.dtype and a.stride() == b.stride()
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-4 * b.abs().max().item())


CALLS = {
    "mm": (torch.mm, (150, 80), (80, 130)),
    "matmul": (torch.matmul, (150, 80), (80, 130)),
    "matmul of a batch and a matrix": (torch.matmul, (4, 3, 50, 80), (80, 130)),
    "matmul of batches": (torch.matmul, (2, 3, 60, 80), (2, 3, 80, 70)),
    "matmul of a matrix and a batch": (torch.matmul, (60, 80), (5, 80, 70)),
    "matmul of batches that broadcast": (torch.matmul, (4, 1, 60, 80), (3, 80, 70)),
    "matmul of five dimensions": (torch.matmul, (2, 2, 2, 40, 80), (2, 2, 2, 80, 70)),
    "matmul with a vector": (torch.matmul, (600, 800), (800,)),
    "matmul of a vector": (torch.matmul, (800,), (800, 600)),
    "matmul to one column": (torch.matmul, (600, 800), (800, 1)),
    "matmul of one row": (torch.matmul, (1, 800), (800, 600)),
    "bmm": (torch.bmm, (20, 60, 80), (20, 80, 70)),
    "linear": (F.linear, (200, 80), (130, 80), (130,)),
    "linear without bias": (F.linear, (200, 80), (130, 80)),
    "linear of a sequence": (F.linear, (5, 40, 80), (130, 80), (130,)),
    "linear of a vector": (F.linear, (800,), (600, 800), (600,)),
    "linear of one row": (F.linear, (1, 803), (603, 803), (603,)),
    "linear of one row without bias": (F.linear, (1, 1, 800), (600, 800)),
    "baddbmm": (torch.baddbmm, (20, 60, 70), (20, 60, 80), (20, 80, 70)),
    "addmm": (torch.addmm, (130,), (150, 80), (80, 130)),
    "einsum": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), (9, 60, 80), (9, 80, 70)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", list(CALLS))
def test_programs_with_and_without_kernels_agree(name, dtype):
    operation, *shapes = CALLS[name]
    _same(operation, *[torch.randn(shape, dtype=dtype) for shape in shapes])


@pytest.mark.parametrize("size", [3, 80])
@pytest.mark.parametrize("name", ["addmm", "addmv", "addbmm", "baddbmm"])
def test_what_has_a_factor_of_zero_does_not_show(name, size):
    shapes = {"addmm": ((), (), ()), "addmv": ((), (), None), "addbmm": ((), (4,), (4,)), "baddbmm": ((4,), (4,), (4,))}[name]
    input, a, b = (torch.ones(size) if lead is None else torch.ones(*lead, size, size) for lead in shapes)
    input = input[0] if name == "addmv" else input
    operation, nan = getattr(torch, name), float("nan")
    assert torch.equal(operation(input, a * nan, b, alpha=0), input)
    assert torch.equal(operation(input * nan, a, b, beta=0), torch.full_like(input, 4.0 * size if name == "addbmm" else size))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 7, 8, 64, 1001])
def test_a_matrix_and_a_vector_read_nothing_else(columns, dtype):
    rng = np.random.default_rng(0)
    rows = -(-gemm.LONG // columns) + 3
    whole = rng.standard_normal((rows, columns + 2)).astype(dtype)
    vector, bias = rng.standard_normal(columns).astype(dtype), rng.standard_normal(rows).astype(dtype)
    for end in (True, False):
        exact, parted = guarded(whole[:, :columns], end), guarded(whole, end)[:, 2:]
        x, plus = guarded(vector, end), guarded(bias, end)
        for matrix in (exact, parted):
            want = matrix.astype(np.float64) @ vector
            near = {"rtol": 1e-5, "atol": 1e-4 if dtype is np.float32 else 1e-12}
            np.testing.assert_allclose(gemm.multiply(matrix, x[:, None])[:, 0], want, **near)
            np.testing.assert_allclose(gemm.multiply(x[None], matrix.T, plus)[0], want + bias, **near)


def test_large_products_of_one_sample_leave_the_librarys_threads_asleep(monkeypatch):
    def fail(*_):
        raise AssertionError("NumPy's product")

    x, few, row = torch.randn(1, 96, 14, 14), torch.randn(1, 64, 7, 7), torch.randn(1, 512)
    weights = torch.randn(200, 96, 1, 1), torch.randn(256, 64, 3, 3), torch.randn(1000, 512)
    want = [F.conv2d(x, weights[0]), F.conv2d(few, weights[1]), F.linear(row, weights[2])]
    monkeypatch.setattr(np, "matmul", fail)
    got = [F.conv2d(x, weights[0]), F.conv2d(few, weights[1]), F.linear(row, weights[2])]
    assert all(torch.equal(a, b) for a, b in zip(want, got, strict=True))


@pytest.mark.parametrize("how", ["t", "columns", "rows", "expanded"])
def test_strided_operands(how):
    a, b = torch.randn(200, 200), torch.randn(200, 200)
    change = {
        "t": lambda x: x.t(),
        "columns": lambda x: x[:, 10:150].t()[:, :140],
        "rows": lambda x: x[::2, :100],
        "expanded": lambda x: x[:1].expand(200, 200),
    }[how]
    for left, right in [(change(a), b), (a, change(b)), (change(a), change(b))]:
        if left.shape[1] == right.shape[0]:
            _same(torch.matmul, left, right)
    _same(torch.matmul, torch.randn(8, 60, 60).transpose(0, 1), torch.randn(60, 60, 8).permute(0, 2, 1)[:, :, :60].transpose(1, 2))


def test_mixed_and_other_dtypes_are_left_alone():
    _, doubled = torch.randn(200, 200), torch.randn(200, 200, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        torch.randn(200, 200) @ doubled
    whole = torch.arange(40000).reshape(200, 200)
    assert torch.equal(whole @ whole, torch.from_numpy(whole.numpy() @ whole.numpy()))
    halves = torch.randn(200, 200).to(torch.bfloat16)
    assert torch.allclose((halves @ halves).float(), halves.float() @ halves.float(), rtol=1e-2, atol=0.2)


BAD = {
    "mm": [((300, 200), (300, 200)), ((300, 200), (5, 200, 300)), ((300, 200), (200,))],
    "matmul": [((300, 200), (300, 200)), ((3, 100, 200), (4, 200, 100)), ((300, 200), (300,)), ((3, 100, 200), (100, 200))],
    "bmm": [((3, 100, 200), (4, 200, 100)), ((3, 100, 200), (3, 100, 200)), ((300, 200), (200, 300))],
    "nn.functional.linear": [((300, 200), (200, 300)), ((300, 200), (100, 200), (200,)), ((300, 200), (3, 100, 200))],
}


@pytest.mark.parametrize("name", list(BAD))
def test_mismatching_shapes_are_the_same_errors(name):
    operation = F.linear if name.endswith("linear") else getattr(torch, name)
    for shapes in BAD[name]:
        operands = [torch.randn(shape) for shape in shapes]
        with native.disabled(), pytest.raises((RuntimeError, ValueError)) as wanted:
            operation(*operands)
        with pytest.raises(type(wanted.value)) as error:
            operation(*operands)
        assert str(error.value) == str(wanted.value)


def test_the_number_of_threads_does_not_change_a_bit():
    rng = np.random.default_rng(0)
    cases = [
        ((1, 700), (700, 431)),
        ((700, 300), (300, 150)),
        ((150, 300), (300, 1111)),
        ((30, 60, 64), (30, 64, 60)),
        ((2, 5, 200, 64), (2, 5, 64, 200)),
    ]
    before = pool.threads
    try:
        for shapes in cases:
            a, b = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
            bias, products = rng.standard_normal(b.shape[-1]).astype(np.float32), []
            for count in (1, 2, 3):
                pool.set_threads(count)
                products.append(gemm.multiply(a, b, bias))
            assert all(np.array_equal(products[0], product) for product in products[1:])
    finally:
        pool.set_threads(before)


def test_special_values_go_through():
    a, b = np.ones((200, 200), np.float32), np.ones((200, 200), np.float32)
    a[3, 5], a[7, 9], b[:, 11] = np.nan, np.inf, 0
    product = gemm.multiply(a, b)
    assert np.isnan(product[3]).all() and np.isnan(product[7, 11]) and np.isinf(np.delete(product[7], 11)).all()
    assert np.isfinite(np.delete(product, [3, 7], 0)).all()


def test_results_do_not_depend_on_what_was_in_their_memory():
    a, b = np.zeros((600, 600), np.float32), np.zeros((600, 600), np.float32)
    for _ in range(3):
        product = gemm.multiply(a, b)
        assert not product.any()
        product[:] = np.nan
        del product


@pytest.fixture
def threads_of_blas():
    blas = library()
    before = blas.threads()
    yield blas
    blas.set_threads(before)


@pytest.mark.parametrize("count", [1, 2])
def test_the_librarys_own_number_of_threads_is_put_back(count, threads_of_blas):
    threads_of_blas.set_threads(count)
    a = torch.randn(300, 300)
    a @ a
    assert threads_of_blas.threads() == count


def test_it_is_put_back_after_products_in_several_threads(threads_of_blas):
    threads_of_blas.set_threads(2)
    a = torch.randn(150, 150)
    wanted, failures, start = a @ a, [], threading.Barrier(3)

    def work():
        start.wait()
        for _ in range(300):
            if not torch.equal(a @ a, wanted):
                failures.append(1)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    assert threads_of_blas.threads() == 2 and not failures


def test_it_is_put_back_after_an_error(threads_of_blas, monkeypatch):
    threads_of_blas.set_threads(2)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(gemm, "_plan", lambda *_: fail)
    with pytest.raises(MemoryError):
        gemm.multiply(np.ones((200, 200)), np.ones((200, 200)))
    assert threads_of_blas.threads() == 2


def test_blocks_cover_a_product():
    for count, m, n, inner in [(1, 2000, 30, 300), (7, 64, 64, 64), (1, 33, 5000, 200), (1, 2, 70000, 900), (500, 4, 4, 4)]:
        parts, rows, columns, per_chunk = gemm._cut(count, m, n, inner)
        assert per_chunk >= 1 and parts >= 1 and not (rows and columns)
        if rows or columns:
            size, whole = (rows, m) if rows else (columns, n)
            assert (parts - 1) * size < whole <= parts * size
        else:
            assert parts == 1
