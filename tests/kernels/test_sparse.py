"""The kernel of a sparse matrix times a dense one."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.families import sparse

from .guard import guarded


@pytest.mark.parametrize("width", [1, 3, 16, 63, 64, 65, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_equal_dense_ones(dtype: type, width: int) -> None:
    generator = np.random.default_rng(width)
    left = np.where(generator.random((301, 205)) < 0.05, generator.integers(-4, 5, (301, 205)), 0).astype(dtype)
    left[[0, 7, 300]] = 0  # rows without entries
    right = generator.integers(-4, 5, (205, width)).astype(dtype)
    matrix = torch.from_numpy(left).to_sparse_csr()
    for index in (np.int64, np.int32):
        parts = [part._array.astype(index) for part in (matrix.crow_indices(), matrix.col_indices())]
        result = sparse.csr_times_dense(*parts, matrix.values()._array, right)
        assert result is not None and result.dtype == dtype and (result == left @ right).all()
    assert sparse.csr_times_dense(*parts, matrix.values()._array, right[:, ::-1]) is None or width == 1


def test_large_products_of_every_layout_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = native.find("_csr_times_dense")
    assert real is not None
    monkeypatch.setitem(native._found, "_csr_times_dense", lambda *arguments: asked.append(1) or real(*arguments))
    dense, x = torch.eye(300) * 2, torch.ones(300, 100)
    for matrix in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((2, 2))):
        assert ((matrix @ x) == 2).all()
    assert len(asked) == 4


@pytest.mark.parametrize("width", [1, 3, 16, 63, 64, 65, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_elements_of_products_are_those_of_the_whole_one(dtype: type, width: int) -> None:
    generator = np.random.default_rng(width)
    for order in ("C", "F"):
        left, right = (
            np.asarray(guarded(generator.integers(-4, 5, (n, width)).astype(dtype), width % 2 == 0), order=order) for n in (50, 70)
        )
        for index in (np.int64, np.int32):
            rows, columns = (generator.integers(0, n, 333).astype(index) for n in (50, 70))
            found = sparse.elements_of_product(left, right, rows, columns)
            assert found is not None and found.dtype == dtype and (found == (left @ right.T)[rows, columns]).all()
    assert sparse.elements_of_product(left, right.astype(np.float16), rows, columns) is None
    assert sparse.elements_of_product(left, right, rows[:0], columns[:0]) is None


@pytest.mark.parametrize("size", [40, 300])
def test_gradients_of_products_are_those_of_dense_ones(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    dense = torch.randn(size, size + 5, generator=generator) * (torch.rand(size, size + 5, generator=generator) < 0.2)
    x, grad = (torch.randn(n, 70, generator=generator, dtype=torch.float64) for n in (size + 5, size))
    right = dense.double().mT.matmul(grad)
    left = grad.matmul(x.mT) * (dense != 0)
    for make in (torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse_csc):
        for dtype in (torch.float32, torch.float64):
            matrix = make(dense.to(dtype)).requires_grad_()
            factor = x.to(dtype).requires_grad_()
            found = torch.autograd.grad(torch.sparse.mm(matrix, factor), (matrix, factor), grad.to(dtype))
            assert found[0].layout is matrix.layout
            torch.testing.assert_close(found[0].to_dense().double(), left, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(found[1].double(), right, rtol=1e-4, atol=1e-4)


def test_unordered_entries_are_taken_in_their_order() -> None:
    generator = np.random.default_rng(0)
    indices = generator.integers(0, 60, (2, 10_000))
    values = generator.integers(-4, 5, 10_000).astype(np.float32)
    dense = np.zeros((60, 60), np.float32)
    np.add.at(dense, tuple(indices), values)
    x = generator.integers(-4, 5, (60, 40)).astype(np.float32)
    matrix = torch.sparse_coo_tensor(torch.from_numpy(indices), torch.from_numpy(values), (60, 60))
    assert ((matrix @ torch.from_numpy(x)).numpy() == dense @ x).all()
    assert ((matrix.t() @ torch.from_numpy(x)).numpy() == dense.T @ x).all()
    assert (matrix.coalesce().to_dense().numpy() == dense).all()
