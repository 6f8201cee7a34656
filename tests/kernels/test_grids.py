"""Native grid sampling against the composition of operations."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.families import grids as kernels
from flambeau.ops import grids

from .guard import guarded

F = torch.nn.functional


CASES = (
    (np.float32, (2, 3, 9, 7), (5, 11)),
    (np.float32, (1, 2, 1, 8), (1, 1300)),
    (np.float64, (1, 2, 4, 1, 5), (2, 3, 7)),
    (np.float64, (2, 2, 3, 4, 6), (1, 5, 9)),
)


@pytest.mark.parametrize(
    ("mode", "padding", "align_corners"),
    [
        ("nearest", "zeros", False),
        ("nearest", "reflection", True),
        ("bilinear", "zeros", False),
        ("bilinear", "border", True),
        ("bilinear", "reflection", False),
        ("bicubic", "zeros", True),
        ("bicubic", "reflection", False),
    ],
)
def test_values_and_gradients_are_those_of_the_composition(mode, padding, align_corners):
    rng = np.random.default_rng(5)
    for dtype, shape, out in CASES[: 2 if mode == "bicubic" else 4]:
        rank = len(out)
        x = guarded(rng.standard_normal(shape).astype(dtype), True)
        grid = guarded(rng.uniform(-2.6, 2.6, (shape[0], *out, rank)).astype(dtype), False)
        grid.reshape(-1, rank)[-1] = 0.99
        grid.reshape(-1, rank)[0, :2] = -0.9
        tensors = [torch.from_numpy(array).requires_grad_() for array in (x, grid)]
        wanted = grids._composed(*tensors, mode, padding, align_corners)
        result = kernels.grid_sample(x, grid, mode, padding, align_corners)
        assert result.shape == tuple(wanted.shape) and result.dtype == dtype
        close = {"rtol": 2e-4, "atol": 2e-4} if dtype is np.float32 else {"rtol": 1e-11, "atol": 1e-11}
        np.testing.assert_allclose(result, wanted.detach().numpy(), **close)
        arrived = guarded(rng.standard_normal(result.shape).astype(dtype), True)
        gradients = torch.autograd.grad(wanted, tensors, torch.from_numpy(arrived))
        for needs in ((True, True), (True, False), (False, True)) if mode == "bilinear" and padding == "border" else ((True, True),):
            got = kernels.grid_sample_backward(arrived, x, grid, mode, padding, align_corners, *needs)
            for array, gradient, need in zip(got, gradients, needs, strict=True):
                if need:
                    np.testing.assert_allclose(array, gradient.numpy(), **close)


def test_places_that_are_no_numbers():
    x, grid = torch.randn(1, 2, 5, 6), torch.zeros(1, 3, 3, 2)
    grid[0, 0, :, 0] = torch.tensor([float("inf"), float("-inf"), float("nan")])
    grid[0, 1] = 1e30
    for padding in ("zeros", "border", "reflection"):
        for mode, align_corners in (("nearest", False), ("bilinear", True)):
            got = kernels.grid_sample(x.numpy(), grid.numpy(), mode, padding, align_corners)
            wanted = grids._composed(x, grid, mode, padding, align_corners)
            np.testing.assert_allclose(got[:, :, [0, 2]], wanted.numpy()[:, :, [0, 2]], atol=1e-5)
            assert np.isfinite(got[:, :, 1]).all()


def test_what_is_recorded_has_a_kernel_and_second_derivatives():
    x, grid = torch.randn(2, 4, 50, 60, requires_grad=True), (torch.rand(2, 80, 60, 2) * 2 - 1).requires_grad_()
    result = F.grid_sample(x, grid, align_corners=False)
    assert result.grad_fn.name() == "GridSampler2DBackward0"
    with native.disabled():
        wanted = F.grid_sample(x, grid, align_corners=False)
    torch.testing.assert_close(result, wanted)
    weight = torch.randn(result.shape)
    first, second = [
        torch.autograd.grad((torch.autograd.grad((y * weight).sum(), (x, grid), create_graph=True)[1] ** 2).sum(), (x, grid))
        for y in (result, wanted)
    ]
    for one, two in zip(first, second, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3)
    (only,) = torch.autograd.grad(F.grid_sample(x, grid.detach(), align_corners=False).sum(), x)
    assert only.shape == x.shape
    turned = F.grid_sample(x.detach().transpose(2, 3), grid.detach().flip(-1), align_corners=False)
    torch.testing.assert_close(turned, result.detach())
