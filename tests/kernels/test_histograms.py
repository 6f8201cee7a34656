"""Native histograms against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.families import histograms as kernels

from .guard import guarded


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_counts_are_those_of_the_reference(dtype):
    rng = np.random.default_rng(0)
    for size, bins, low, high in ((1, 1, -1, 1), (37, 10, -1, 1), (9001, 100, 0, 0), (70_000, 7, -0.3, 0.7), (20_000, 1000, -1e6, 3e6)):
        for end in (True, False):
            values = rng.standard_normal(size) * (1e6 if high > 100 else 1)
            values[:: max(size // 9, 1)] = [np.nan, np.inf, -np.inf, low, high, 0.1][size % 6]
            if low == high:
                values = np.nan_to_num(values, posinf=2, neginf=-2)
            x = torch.from_numpy(guarded(values.astype(dtype), end))
            ends = {} if low == high else {"range": (low, high)}
            with native.disabled():
                wanted = torch.histc(x, bins, low, high), *torch.histogram(x, bins, **ends)
            low_high = (float(x.min()), float(x.max())) if low == high else (float(low), float(high))
            np.testing.assert_array_equal(kernels.equal_bins(x.numpy(), bins, *low_high, None), wanted[0].numpy())
            edges = wanted[2].numpy()
            np.testing.assert_array_equal(kernels.equal_bins(x.numpy(), bins, edges[0].item(), edges[-1].item(), edges), wanted[1].numpy())


def test_every_edge_is_in_its_own_bin_and_what_is_too_fine_is_left_to_numpy():
    edges = torch.linspace(-1.3, 2.9, 778)
    x = torch.cat([edges, torch.from_numpy(np.nextafter(edges.numpy(), np.float32(-9)))]).repeat(9)
    counts, _ = torch.histogram(x, 777, range=(-1.3, 2.9))
    assert counts[:-1].eq(18).all() and counts[-1] == 27
    fine = np.linspace(1e6, 1e6 + 1, 1001, dtype=np.float32)
    assert kernels.equal_bins(fine, 1000, 1e6, 1e6 + 1, fine) is None
    assert kernels.equal_bins(np.ones(9, np.float16), 10, 0.0, 1.0, None) is None
    weighted = torch.histogram(x, 10, weight=torch.ones(x.shape), density=True)[0]
    torch.testing.assert_close(torch.histogram(x, 10, density=True)[0], weighted)
