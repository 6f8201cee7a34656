"""Native exclusive or, conjugates, triangles and outer products: bit by bit as by the reference."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.families import bits, matrices

from .guard import guarded


def by_reference(call):
    with native.disabled():
        return call().numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_exclusive_or_of_all_bits(dtype):
    rng = np.random.default_rng(0)
    for shape in ((1,), (13,), (3, 11), (260, 270)):
        for end in (True, False):
            numbers = guarded((50 * rng.random(shape)).astype(dtype), end)
            if numbers.dtype.kind == "f":
                numbers.reshape(-1)[-1:] = -0.0
            dims = tuple(range(numbers.ndim))
            total = bits.hash_tensor(numbers, dims, True, 0)
            assert total.shape == (1,) * numbers.ndim and bits.hash_tensor(numbers, dims, False, 0) == total
            assert total.item() == by_reference(partial(torch.hash_tensor, torch.from_numpy(numbers))).item()
    assert bits.hash_tensor(numbers, (0,), False, 0) is None and bits.hash_tensor(numbers.T, dims, False, 0) is None


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_conjugates(dtype):
    rng = np.random.default_rng(0)
    for shape in ((1,), (13,), (3, 11), (260, 270)):
        for end in (True, False):
            parts = rng.standard_normal((2, *shape))
            numbers = guarded((parts[0] + 1j * parts[1]).astype(dtype), end)
            numbers.reshape(-1)[-1] = complex(-0.0, 0.0)
            assert bits.conj(numbers).tobytes() == np.conjugate(numbers).tobytes()
    assert bits.conj(numbers.T) is None


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.float32, torch.complex64])
def test_triangles(dtype):
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (3, 70), (70, 3), (2, 33, 35), (300, 310)):
        for end in (True, False):
            numbers = guarded((3 * rng.standard_normal(shape)).astype(dtype.numpy), end)
            for diagonal in (0, 2, -2, 1000, -1000):
                for name in ("tril", "triu"):
                    wanted = by_reference(partial(getattr(torch, name), torch.from_numpy(numbers), diagonal))
                    np.testing.assert_array_equal(getattr(matrices, name)(numbers, diagonal), wanted)
    assert matrices.triu(numbers[:0], 0) is None and matrices.triu(numbers, 1 << 40) is None


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_outer_products(dtype):
    for n, m in ((1, 1), (3, 70), (70, 3), (130, 1100)):
        left, right = (guarded(np.arange(size).astype(dtype), True) for size in (n, m))
        product = matrices.outer(left, right)
        if product is not None:  # rows below a length are NumPy's
            np.testing.assert_array_equal(product, left[:, None] * right)
    assert product is not None and matrices.outer(left, right[None]) is None
