"""Native resampling against the reference kernels, and against its own adjoint."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.families import resampling as kernels
from flambeau.ops.resampling import bytes_plan, sampling_plan

from .guard import guarded

CASES = [
    ("nearest", (2, 3, 50), (77,)),
    ("linear", (1, 2, 9), (4200,)),
    ("linear", (3, 2, 40), (7,)),
    ("nearest-exact", (2, 2, 9, 17), (18, 5)),
    ("bilinear", (2, 2, 9, 17), (9, 40)),
    ("bilinear", (1, 3, 12, 1), (5, 8)),
    ("bicubic", (1, 2, 11, 13), (30, 6)),
    ("trilinear", (1, 2, 3, 4, 5), (5, 4, 11)),
]


@pytest.mark.parametrize(("mode", "shape", "sizes"), CASES, ids=lambda case: case if isinstance(case, str) else "x".join(map(str, case)))
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_values_and_gradients_are_those_of_the_reference(mode, shape, sizes, dtype):
    rng = np.random.default_rng(1)
    spatial = shape[2:]
    plan = sampling_plan(spatial, sizes, mode, False, [None] * len(sizes), False, dtype)
    x, g = (guarded(rng.standard_normal(s).astype(dtype), end) for s, end in ((shape, True), ((*shape[:2], *sizes), False)))
    y, slope = kernels.resample(x, plan), kernels.resample_backward(g, plan, spatial)
    with native.disabled():
        wanted = torch.nn.functional._resample(torch.from_numpy(x), plan).numpy()
        back = torch.nn.functional._resample_backward(torch.from_numpy(g), plan, spatial).numpy()
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_allclose(slope, back, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-5 if dtype is np.float32 else 1e-12)
    np.testing.assert_allclose((y * g.astype(np.float64)).sum(), (x * slope.astype(np.float64)).sum(), rtol=1e-4)


def test_infinities_stay_where_they_are():
    x = torch.zeros(1, 1, 100, 100)
    x[0, 0, 50, 50] = float("inf")
    y = torch.nn.functional.interpolate(x, scale_factor=2)
    assert int(y.isinf().sum()) == 4 and not y.isnan().any()
    grad = torch.zeros(1, 1, 200, 200)
    grad[0, 0, 0, 0] = float("inf")
    x.requires_grad_()
    (slope,) = torch.autograd.grad(torch.nn.functional.interpolate(x, scale_factor=2), x, grad)
    assert int(slope.isinf().sum()) == 1 and not slope.isnan().any()


def test_other_layouts_are_the_same():
    x = torch.randn(2, 3, 40, 60)
    wanted = torch.nn.functional.interpolate(x, scale_factor=1.5, mode="bilinear")
    last = torch.nn.functional.interpolate(x.contiguous(memory_format=torch.channels_last), scale_factor=1.5, mode="bilinear")
    turned = torch.nn.functional.interpolate(x.transpose(2, 3).contiguous().transpose(2, 3), scale_factor=1.5, mode="bilinear")
    assert last.is_contiguous(memory_format=torch.channels_last) and turned.is_contiguous()
    torch.testing.assert_close(last, wanted)
    torch.testing.assert_close(turned, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("channels_last", [False, True], ids=["rows", "pixels"])
@pytest.mark.parametrize(
    ("mode", "shape", "sizes", "antialias"),
    [
        ("bilinear", (2, 3, 33, 45), (70, 11), True),
        ("bicubic", (1, 3, 40, 21), (9, 77), True),
        ("bicubic", (2, 1, 5, 4), (7, 9), False),
        ("bilinear", (1, 2, 3, 9000), (2, 4500), False),
        ("bicubic", (2, 4, 9, 30), (5, 13), True),
        ("bicubic", (1, 5, 3, 8), (4, 19), False),
        ("bilinear", (1, 7, 6, 40), (9, 21), True),
        ("bicubic", (1, 1, 2, 3), (3, 40), True),
        ("bilinear", (2, 3, 1, 2), (2, 1), True),
    ],
    ids=lambda case: str(case),
)
def test_bytes_are_those_of_the_reference(mode, shape, sizes, antialias, channels_last):
    pixels = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    plan = bytes_plan(shape[2:], sizes, mode, False, (None, None), antialias)
    for end in (True, False):
        x = guarded(pixels.transpose(0, 2, 3, 1), end).transpose(0, 3, 1, 2) if channels_last else guarded(pixels, end)
        y = kernels.resample(x, plan)
        with native.disabled():
            wanted = torch.nn.functional._resample(torch.from_numpy(x), plan).numpy()
        np.testing.assert_array_equal(y, wanted)
        assert y.strides == wanted.strides
