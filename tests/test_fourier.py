"""Spectra of many real rows, whose second halves are mirror images: the values of SciPy, exactly where SciPy computes."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from scipy import fft as reference

import flambeau as torch
from flambeau.core.arrays import native

SHAPES = [
    ((32768,), 0),
    ((32767,), 0),
    ((256, 128), 1),
    ((256, 128), 0),
    ((3, 101, 109), 1),
    ((40000, 1), 1),
    ((20000, 2), 1),
    ((3, 11000), 0),
]


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "reference"])
def test_spectra_of_real_rows_are_scipys(shape: tuple[int, ...], dim: int, dtype: type, kernels: bool) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    values.flat[::7] = -0.0
    steps = np.repeat(values, 2, -1)[..., ::2]
    for x in (values, np.asfortranarray(values), steps, values[::-1]):
        for norm in ("backward", "ortho", "forward"):
            with nullcontext() if kernels else native.disabled():
                found = torch.fft.fft(torch.from_numpy(x.copy() if any(s < 0 for s in x.strides) else x), dim=dim, norm=norm).numpy()
            wanted = reference.fft(x, axis=dim, norm=norm)
            assert found.dtype == wanted.dtype
            if not kernels:
                np.testing.assert_array_equal(found, wanted)
                continue
            np.testing.assert_allclose(found, wanted, rtol=0, atol=np.abs(wanted).max() * np.finfo(dtype).eps * 8)
            mirrored = np.flip(np.roll(found, -1, dim), dim).conj()
            np.testing.assert_array_equal(found, mirrored)


def test_one_nan_stays_in_its_row() -> None:
    x = torch.ones(300, 200)
    x[7, 3] = float("nan")
    spectrum = torch.fft.fft(x)
    assert spectrum[7].isnan().all() and int(spectrum.isnan().sum()) == 200
