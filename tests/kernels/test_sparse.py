"""The kernel of a sparse matrix times a dense one."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels import sparse


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
    real = native.attempt
    monkeypatch.setattr(native, "attempt", lambda name, *arguments: (asked.append(name), real(name, *arguments))[1])
    dense, x = torch.eye(300) * 2, torch.ones(300, 100)
    for matrix in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((2, 2))):
        assert ((matrix @ x) == 2).all()
    assert asked.count("_csr_times_dense") == 4
