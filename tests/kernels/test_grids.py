"""Native grid sampling against the composition of operations."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels import grids as kernels

from .guard import guarded

F = torch.nn.functional


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize(("padding", "align_corners"), [("zeros", False), ("border", True)])
def test_values_are_those_of_the_composition(mode, padding, align_corners):
    rng = np.random.default_rng(5)
    for dtype, shape, out in (
        (np.float32, (2, 3, 9, 7), (5, 11)),
        (np.float32, (1, 2, 1, 8), (1, 1300)),
        (np.float64, (2, 1, 6, 5), (3, 3)),
    ):
        x = guarded(rng.standard_normal(shape).astype(dtype), True)
        grid = guarded(rng.uniform(-1.6, 1.6, (shape[0], *out, 2)).astype(dtype), False)
        grid[0, 0, 0] = 1e30, -np.inf
        grid[0, 0, -1] = -1, 1
        with native.disabled():
            arguments = torch.from_numpy(x), torch.from_numpy(grid), mode, padding, align_corners
            wanted = F.grid_sample(*arguments).numpy()
        got = kernels.grid_sample(x, grid, mode, padding, align_corners)
        assert got.shape == wanted.shape and got.dtype == dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_what_is_recorded_or_mirrored_is_composed():
    x, grid = torch.randn(2, 4, 50, 60), torch.rand(2, 30, 40, 2) * 2 - 1
    plain = F.grid_sample(x, grid, align_corners=False)
    recorded = F.grid_sample(x.clone().requires_grad_(), grid, align_corners=False)
    assert not plain.requires_grad and recorded.requires_grad
    torch.testing.assert_close(recorded.detach(), plain)
    with torch.no_grad():
        torch.testing.assert_close(F.grid_sample(x.clone().requires_grad_(), grid, align_corners=False), plain, rtol=0, atol=0)
    assert kernels.grid_sample(x.numpy(), grid.numpy(), "bilinear", "reflection", False) is None
    turned = F.grid_sample(x.transpose(2, 3), grid.flip(-1), align_corners=False)
    torch.testing.assert_close(turned, plain)
