"""Native padding by copies and its adjoint against the reference."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.core.calls.registry import primitive
from flambeau.kernels.families import padding as kernels

from .guard import guarded

PADS = [(2, 3, 1, 4), (2, -3, -1, 4), (0, 0, 2, 1), (-2, -1, 3, 3), (17, 16, 1, 1)]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int16", "complex64", "complex128"])
def test_padding_is_that_of_the_reference(mode, dtype):
    x = torch.randn(3, 4, 40, 37).mul(100).to(getattr(torch, dtype))
    for pad in PADS:
        for tensor in (
            x,
            x.mT.contiguous().mT,
            x[:, 1:3],
            x[..., ::2].expand(3, 4, 40, 19),
            x.contiguous(memory_format=torch.channels_last),
        ):
            with native.disabled():
                wanted = torch.nn.functional.pad(tensor, pad, mode)
            result = torch.nn.functional.pad(tensor, pad, mode)
            assert torch.equal(result, wanted) and result.stride() == wanted.stride()


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_nothing_outside_is_touched_in_one_to_three_dimensions(mode):
    rng = np.random.default_rng(0)
    for shape, pad in (
        ((3, 1, 5), (3, 4) if mode != "circular" else (3, 5)),
        ((2, 2, 9, 6), (2, 1, 3, 2)),
        ((2, 40, 33), (1, 1, 2, -2)),
        ((1, 2, 4, 5, 6), (1, 2, 2, 1, 3, 0)),
        ((1, 2, 4, 5, 6), (1, -2, 2, -1, 3, 3)),
        ((2, 3, 50), (1, -9)),
    ):
        for end in (True, False):
            x = guarded(rng.standard_normal(shape), end)
            with native.disabled():
                wanted = primitive("_pad_by_copy", "nn.functional").kernel(x, pad, mode)
                grad = guarded(rng.standard_normal(wanted.shape), end)
                folded = primitive("_pad_by_copy_backward", "nn.functional").kernel(grad, pad, mode)
            np.testing.assert_array_equal(kernels.pad_by_copy(x, pad, mode), wanted)
            np.testing.assert_allclose(kernels.pad_by_copy_backward(grad, pad, mode), folded, atol=1e-14)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_more_is_cut_off_than_there_is_on_one_side(mode, monkeypatch):
    monkeypatch.setattr(kernels, "empty", lambda shape, dtype: guarded(np.empty(shape, dtype), True))  # nothing is written behind a result
    for shape, pad in (((2, 3, 5), (3, -7)), ((1, 2, 5), (-7, 3)), ((2, 2, 4, 6), (5, -9, 2, -1)), ((2, 3, 5), (3, -8))):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        with native.disabled():
            wanted = primitive("_pad_by_copy", "nn.functional").kernel(x, pad, mode)
            folded = primitive("_pad_by_copy_backward", "nn.functional").kernel(wanted, pad, mode)
        result = kernels.pad_by_copy(x, pad, mode)
        assert wanted.shape[-1] == shape[-1] + pad[0] + pad[1] and np.array_equal(result, wanted)
        gradient = kernels.pad_by_copy_backward(wanted, pad, mode)
        assert gradient is None if not wanted.size else np.array_equal(gradient, folded)


def test_a_result_may_be_empty_but_not_in_all_dimensions_that_are_padded():
    x = torch.ones(1, 1, 5, 1, requires_grad=True)
    padded = torch.nn.functional.pad(x, (-1, 0, 0, 0), "replicate")
    padded.sum().backward()
    assert padded.shape == (1, 1, 5, 0) and torch.equal(x.grad, torch.zeros_like(x))
    with pytest.raises(RuntimeError, match="too small"):
        torch.nn.functional.pad(x[0], (-2, -3), "reflect")
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        torch.nn.functional.pad(x, (0, 0, -6, 0), "replicate")
