"""Native copies against NumPy: any strides, item sizes, joining, and nothing written or read outside."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.core.arrays.copies import fill
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import copies

from .guard import guarded

TYPES = ["u1", "i2", "f4", "f8", "c8", "c16"]
seeds = st.integers(0, 2**32 - 1)


def numbers(rng: np.random.Generator, shape, dtype) -> np.ndarray:
    return rng.integers(0, 100, shape).astype(dtype)


def walked(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """A view in another order, with steps, and possibly with a dimension that repeats one entry."""
    seen = array.transpose(rng.permutation(array.ndim))
    seen = seen[tuple(slice(None, None, int(step)) for step in rng.choice([1, 1, 1, 2, -1], array.ndim))]
    return np.broadcast_to(seen[..., :1], seen.shape) if rng.random() < 0.2 else seen


@given(seed=seeds, ndim=st.integers(1, 5), dtype=st.sampled_from(TYPES), end=st.booleans())
@settings(max_examples=250, deadline=None)
def test_a_copy_has_every_element_and_leaves_the_rest_alone(seed, ndim, dtype, end):
    rng = np.random.default_rng(seed)
    shape = rng.choice([1, 2, 3, 5, 8, 17, 33, 70], ndim)
    shape[0 if shape.prod() < 40_000 else slice(None)] = rng.integers(1, 9)
    source = walked(rng, guarded(numbers(rng, shape, dtype), end))
    order = rng.permutation(ndim)
    steps = rng.choice([1, 1, 1, 2], ndim)
    whole = guarded(np.full([source.shape[d] * n for d, n in zip(order, steps, strict=True)], 101, dtype), end)
    part = whole[tuple(slice(None, None, n) for n in steps)]
    target = part.transpose(np.argsort(order))
    copies.copy(source, target)
    np.testing.assert_array_equal(target, source)
    assert (whole == 101).sum() == whole.size - target.size


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(200, 333), (64, 64), (16, 17), (3, 5000), (5000, 3)])
def test_transpositions(dtype, shape):
    x = guarded(numbers(np.random.default_rng(0), shape, dtype))
    np.testing.assert_array_equal(copies.contiguous(x.T), x.T)


@given(seed=seeds, dtype=st.sampled_from(TYPES), ndim=st.integers(1, 4), count=st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_joining_is_that_of_numpy(seed, dtype, ndim, count):
    rng = np.random.default_rng(seed)
    shape, dim = rng.integers(1, 20, ndim).tolist(), int(rng.integers(0, ndim))
    long = 400_000 // max(np.prod(shape), 1) if rng.random() < 0.2 else 100
    parts = [guarded(numbers(rng, [*shape[:dim], int(rng.integers(0, long)), *shape[dim + 1 :]], dtype)) for _ in range(count)]
    joined = copies.cat(parts, dim - ndim * int(rng.integers(0, 2)))
    assert joined is None or np.array_equal(joined, np.concatenate(parts, dim))
    equal = [guarded(numbers(rng, shape, dtype)) for _ in range(count)]
    for dim in range(ndim + 1):
        joined = copies.stack(equal, dim)
        assert joined is None or np.array_equal(joined, np.stack(equal, dim))
    times = rng.integers(0, 4, ndim + 1).tolist()
    np.testing.assert_array_equal(copies.repeat(equal[0], times), np.tile(equal[0], times))


def test_threads_do_not_change_a_copy():
    x = np.random.default_rng(0).standard_normal((300, 70, 50)).transpose(2, 0, 1)
    threads = pool.threads
    results = []
    for count in (1, 2):
        pool.set_threads(count)
        results.append(copies.contiguous(x))
    pool.set_threads(threads)
    assert np.array_equal(*results)


LARGE = {
    "clone": lambda x: x.clone(),
    "clone of a transposed tensor": lambda x: x.transpose(1, 3).clone(),
    "contiguous": lambda x: x.permute(0, 3, 1, 2).contiguous(),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "channels last to itself": lambda x: x.contiguous(memory_format=torch.channels_last).clone(),
    "to contiguous format": lambda x: x.transpose(1, 3).clone(memory_format=torch.contiguous_format),
    "expand": lambda x: x[:, :1].expand(-1, 5, -1, -1).contiguous(),
    "reshape": lambda x: x.transpose(1, 2).reshape(-1, 6),
    "copy_": lambda x: torch.empty(24, 20, 6, 8).permute(3, 2, 1, 0).copy_(x),
    "copy_ that broadcasts": lambda x: torch.empty(8, 6, 20, 24).copy_(x[:1]),
    "cat": lambda x: torch.cat([x, x + 1, x], 2),
    "cat of channels last": lambda x: torch.cat([x.contiguous(memory_format=torch.channels_last)] * 2, 1),
    "cat of transposed": lambda x: torch.cat([x.transpose(2, 3), x.transpose(2, 3)], -1),
    "stack": lambda x: torch.stack([x, x + 1], -1),
    "repeat": lambda x: x.repeat(2, 1, 3, 1),
    "flip": lambda x: x.flip(1, 3),
    "flip of channels last": lambda x: x.contiguous(memory_format=torch.channels_last).flip(2),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 2, 0, 3)),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex128])
def test_operations_on_large_tensors_are_those_of_the_reference(name, dtype):
    x = (torch.arange(8 * 6 * 20 * 24).reshape(8, 6, 20, 24) % 97).to(dtype)
    result = LARGE[name](x)
    with native.disabled():
        wanted = LARGE[name](x)
    assert result.stride() == wanted.stride() and result.dtype is wanted.dtype and torch.equal(result, wanted)


def test_overlapping_memory_is_left_to_the_reference():
    x = np.arange(40_000.0)
    assert copies.copy_into(x[1:], x[:-1]) is None and x[1] == 1
    assert copies.copy_into(np.broadcast_to(x[:1], 20_000), x[:20_000]) is None


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float16, ml_dtypes.bfloat16, np.float32, np.int64, np.complex64, np.complex128])
def test_filling_writes_every_element_and_nothing_else(dtype):
    dtype = np.dtype(dtype)
    for shape in ((), (0, 3), (1,), (17,), (3, 5), (1000,), (40_000,), (2, 150, 131)):
        for end in (True, False):
            target = guarded(np.zeros(shape, dtype), end)
            fill(target, 1)
            assert target.tobytes() == np.ones(shape, dtype).tobytes()
    whole, touched = np.zeros((200, 300), dtype), np.zeros((200, 300), np.bool_)
    for part in (lambda a: a[:, 1:299], lambda a: a.T[3:200:2], lambda a: a[::3, ::2]):
        fill(part(whole), 1)
        part(touched)[...] = True
        assert (whole == touched.astype(dtype)).all()
        whole[...], touched[...] = 0, False


def test_filling_refuses_what_numpy_refuses():
    frozen = np.zeros(100_000, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fill(frozen, 1)
    with pytest.raises(OverflowError):
        fill(np.zeros(100_000, np.uint8), 300)


@pytest.mark.parametrize("size", [100, 40_000])
def test_factories_fill_beyond_the_threshold(size):
    for made, value in (
        (torch.ones(size), 1),
        (torch.full((size,), 2.5), 2.5),
        (torch.full((size,), 3), 3),
        (torch.zeros_like(torch.ones(size)), 0),
        (torch.ones_like(torch.zeros(size, 2)), 1),
        (torch.full_like(torch.zeros(size), -0.0), -0.0),
        (torch.fill(torch.zeros(size), torch.tensor(4.0)), 4),
        (torch.zeros(2, size).t().fill_(5), 5),
        (torch.ones(size).zero_(), 0),
        (torch.ones(size, dtype=torch.complex128), 1),
    ):
        assert bool((made == value).all()) and made.numpy().shape[0] in (2, size)
    assert np.signbit(torch.full_like(torch.zeros(size), -0.0).numpy()).all()
    expanded = torch.zeros(1, 3).expand(size, 3)
    assert bool((expanded.fill_(1) == 1).all())
