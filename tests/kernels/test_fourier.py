"""Fourier transforms of many rows on the pool against SciPy's in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
from hypothesis import given, settings, strategies as st

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import fourier

from .guard import guarded

WIDE = {"c": np.clongdouble, "f": np.longdouble}
NAMES = ("fftn", "ifftn", "rfftn", "ihfftn", "irfftn", "fftn of real numbers", "ifftn of real numbers")


def operand(rng, name, shape, dtype, end=True):
    """Random numbers that a transform takes, and how many points it has to be told."""
    values, points = rng.standard_normal(shape), None
    if name == "irfftn":
        points = shape[-1]
        values = rng.standard_normal((*shape[:-1], points // 2 + 1)) + 1j * rng.standard_normal((*shape[:-1], points // 2 + 1))
    elif name in ("fftn", "ifftn"):
        values = values + 1j * rng.standard_normal(shape)
    return guarded(values.astype(np.result_type(dtype, np.complex64) if np.iscomplexobj(values) else dtype), end), points


def exact(name, array, points, dims, norm="backward"):
    sizes = None if points is None else (*array.shape[-dims:-1], points)
    return getattr(scipy.fft, name.split()[0])(array.astype(WIDE[array.dtype.kind]), sizes, tuple(range(-dims, 0)), norm=norm)


def error(got, wanted):
    """In the root of the mean square, in units of the rounding error of one number."""
    unit = np.finfo(got.dtype).eps / 2
    return np.sqrt((np.abs(got - wanted) ** 2).mean() / max((np.abs(wanted) ** 2).mean(), 1e-300)) / unit


@given(
    name=st.sampled_from(NAMES),
    points=st.sampled_from([2, 3, 4, 6, 8, 14, 15, 16, 30, 32, 49, 64, 90, 100, 128, 130, 143, 210, 243, 256, 512, 600, 1000]),
    rows=st.integers(8, 40),
    dtype=st.sampled_from([np.float32, np.float64]),
    norm=st.sampled_from(["backward", "ortho", "forward"]),
    end=st.booleans(),
)
@settings(max_examples=100)
def test_transforms_of_rows_stay_within_their_bound(name, points, rows, dtype, norm, end):
    rng = np.random.default_rng(points)
    array, size = operand(rng, name, (rows, points), dtype, end)
    got = fourier.transformed(name.split()[0], array, size, 1, norm)
    if got is None:
        is_real = name == "irfftn" or not np.iscomplexobj(array)
        assert points < 3 or (is_real and points % 2 and points < 32)
        return
    wanted = exact(name, array, size, 1, norm)
    assert got.shape == wanted.shape and got.dtype.kind == wanted.dtype.kind and got.real.dtype == dtype
    assert error(got, wanted) <= 2.2 * max(np.log2(points), 1)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "fftn of real numbers"])
@pytest.mark.parametrize("shape", [(3, 20, 18), (16, 6, 10, 32), (40, 24)], ids=str)
def test_transforms_of_several_dimensions(name, shape):
    array, size = operand(np.random.default_rng(0), name, shape, np.float32)
    for dims in range(1, len(shape) + 1):
        got = fourier.transformed(name.split()[0], array, size, dims, "ortho")
        assert got is not None and error(got, exact(name, array, size, dims, "ortho")) <= 25


@pytest.mark.parametrize("points", [512, 729, 1001, 1018, 1019, 1024, 4096])
@pytest.mark.parametrize("name", NAMES)
def test_rows_one_after_the_other(name, points):
    """Lengths of all passes, and of those with a large prime factor, which are convolutions."""
    bound = 2.2 * np.log2(points) * (1 if max(_primes(points)) <= 13 else 1.5)
    for dtype, rows in ((np.float32, 1), (np.float64, 3)):
        array, size = operand(np.random.default_rng(points), name, (rows, points), dtype)
        got = fourier.transformed(name.split()[0], array, size, 1, "ortho")
        assert got is not None and error(got, exact(name, array, size, 1, "ortho")) <= bound


def _primes(n):
    p = next((p for p in range(2, n) if n % p == 0), n)
    return [p, *(_primes(n // p) if p < n else [])]


@pytest.mark.parametrize("points", [1 << 16, 65600, 80000])
@pytest.mark.parametrize("name", NAMES)
def test_long_rows_are_transformed_in_two_steps(name, points):
    """80,000 elements are a matrix whose rows are no multiple of the lanes."""
    if name not in ("fftn", "ifftn"):
        points *= 2
    dtype, rows = (np.float64, 1) if name.startswith("ifftn") else (np.float32, 2)
    array, size = operand(np.random.default_rng(0), name, (rows, points), dtype)
    got = fourier.transformed(name.split()[0], array, size, 1, "ortho")
    assert error(got, exact(name, array, size, 1, "ortho")) <= 2.2 * np.log2(points)


def test_what_is_left_to_scipy():
    rng = np.random.default_rng(0)
    declined = [
        ("rfftn", (32, 3), np.float32),
        ("fftn", (1, 3), np.float32),
        ("fftn", (1, 1 << 18 | 1), np.float32),
    ]
    for name, shape, dtype in declined:
        array, size = operand(rng, name, shape, dtype)
        assert fourier.transformed(name, array, size, 1, "backward") is None


def test_a_row_that_is_no_number_leaves_its_neighbours_alone():
    x = np.random.default_rng(0).standard_normal((40, 64)).astype(np.float32)
    x[3, 5], x[7, 1] = np.nan, np.inf
    for name, points in (("rfftn", 64), ("fftn", 64), ("rfftn", 1024), ("fftn", 1019)):
        got = fourier.transformed(name, np.concatenate([x, np.zeros((40, points - 64), np.float32)], 1), None, 1, "backward")
        assert not np.isfinite(got[[3, 7]]).any() and np.isfinite(np.delete(got, [3, 7], 0)).all()


def test_imaginary_parts_of_both_ends_are_not_used():
    half = np.random.default_rng(0).standard_normal((20, 2 * 33)).astype(np.float32).view(np.complex64)
    other = half.copy()
    other.imag[:, [0, -1]] = np.nan
    first, second = (fourier.transformed("irfftn", array, 64, 1, "backward") for array in (half, other))
    assert np.array_equal(first, second)


def test_the_number_of_threads_does_not_change_a_bit():
    z = np.random.default_rng(0).standard_normal((100, 2 * 600)).astype(np.float32).view(np.complex64)
    before = pool.threads
    try:
        results = []
        for count in (1, 2, 3):
            pool.set_threads(count)
            results.append(fourier.transformed("fftn", z, None, 1, "backward"))
    finally:
        pool.set_threads(before)
    assert all(np.array_equal(results[0], result) for result in results[1:])


@pytest.mark.parametrize("points", [40, 512, 65536])
def test_rows_of_wider_matrices_are_read_in_place(points):
    rng = np.random.default_rng(0)
    for name in ("fftn", "rfftn", "irfftn"):
        array, size = operand(rng, name, (2, 20 if points < 1000 else 1, points), np.float32)
        wide = guarded(np.concatenate([array, array], -1), True)[..., array.shape[-1] :]
        got, wanted = (fourier.transformed(name, x, size, 1, "backward") for x in (wide, array))
        assert np.array_equal(got, wanted)


PROGRAMS = {
    "fft": lambda x: torch.fft.fft(x),
    "of columns": lambda x: torch.fft.fft(x, dim=0),
    "of a transposed matrix": lambda x: torch.fft.rfft(x.t()),
    "fft2": lambda x: torch.fft.fft2(x, norm="ortho"),
    "rfft2": lambda x: torch.fft.rfft2(x),
    "there and back": lambda x: torch.fft.irfft2(torch.fft.rfft2(x), x.shape) * x,
    "hfft": lambda x: torch.fft.hfft(torch.fft.rfft(x)),
    "ihfft": lambda x: torch.fft.ihfft(x, n=60),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_programs_with_and_without_kernels_agree(name):
    x = torch.randn(48, 64, dtype=torch.float64)

    def run():
        leaf = x.clone().requires_grad_()
        result = PROGRAMS[name](leaf)
        return result.detach(), torch.autograd.grad(result.abs().square().sum(), leaf)[0]

    got = run()
    with native.disabled():
        wanted = run()
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape and a.dtype is b.dtype and a.stride() == b.stride()
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-10)
