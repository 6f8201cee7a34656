"""Native distances against NumPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.families import distances as kernels
from flambeau.ops.linalg.contraction import distances

from .guard import guarded


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_distances_are_those_of_the_reference(p, dtype):
    rng = np.random.default_rng(2)
    for lead, rows, columns, width in (((), 1, 1, 1), ((), 4, 8, 3), ((), 7, 33, 16), ((2, 3), 5, 9, 2)):
        x1, x2 = (guarded(rng.standard_normal((*lead, n, width)).astype(dtype), n % 2 == 0) for n in (rows, columns))
        x1.reshape(-1)[0] = np.nan
        wanted = distances(x1[..., :, None, :] - x2[..., None, :, :], p)
        np.testing.assert_allclose(kernels.cdist(x1, x2, p), wanted, rtol=1e-5 if dtype is np.float32 else 1e-13)


def test_calls_that_are_left_to_numpy_and_near_points():
    x = np.ones((20, 30), np.float32)
    assert kernels.cdist(x, x, 3.0) is None and kernels.cdist(x, x[None], 2.0) is None and kernels.cdist(x[:0], x, 2.0) is None
    near = torch.full((200, 50), 1000.0)
    near[0, 0] += 2**-13
    assert torch.cdist(near, near)[0, 1] == 2**-13 and torch.cdist(near, near)[1, 2] == 0
    with native.disabled():
        wanted = torch.nn.functional.pdist(near)
    assert torch.equal(torch.nn.functional.pdist(near), wanted)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 120])
def test_pairs_of_rows_in_their_order(rows):
    points = torch.randn(rows, 3, dtype=torch.float64)
    first, second = np.triu_indices(rows, 1)
    wanted = np.linalg.norm(points.numpy()[first] - points.numpy()[second], axis=1)
    np.testing.assert_allclose(torch.nn.functional.pdist(points).numpy(), wanted, atol=1e-13)
    for is_lower, offset in ((False, 1), (True, 0), (True, -1)):
        wanted = (np.tril_indices if is_lower else np.triu_indices)(rows, offset, 200)
        got = (torch.tril_indices if is_lower else torch.triu_indices)(rows, 200, offset)
        np.testing.assert_array_equal(got.numpy(), np.stack(wanted))
