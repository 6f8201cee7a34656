"""Attention: PyTorch's random numbers in dropout, memory that grows with the length only, the choice of implementations."""

from __future__ import annotations

import importlib
import tracemalloc

import numpy as np
import pytest
from oracle import pytorch

import flambeau
from flambeau.nn import attention, functional as F
from flambeau.nn.attention import bias
from flambeau.ops import attention as family


def _operands(torch, dtype="float64", lead=(2, 3), width=7):
    rng = np.random.default_rng(5)
    shapes = (*lead, 9, 5), (*lead, 6, 5), (*lead, 6, width)
    return [torch.tensor(rng.standard_normal(shape)).to(getattr(torch, dtype)).requires_grad_() for shape in shapes]


CALLS = {
    "dropout": ({"dropout_p": 0.3}, False),
    "causal dropout": ({"dropout_p": 0.6, "is_causal": True}, False),
    "mask": ({}, True),
    "mask and dropout": ({"dropout_p": 0.2, "scale": 0.5}, True),
    "everything dropped": ({"dropout_p": 1.0}, False),
    "negative probability": ({"dropout_p": -0.5}, False),
}


@pytest.mark.parametrize("strip", [1 << 18, 60, 13, 5])
@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives_are_pytorchs_for_any_strip(oracle, monkeypatch, name, strip):
    monkeypatch.setattr(family, "_STRIP", strip)
    kwargs, masked = CALLS[name]

    def program(torch):
        operands = _operands(torch)
        if masked:
            operands.append(torch.linspace(-1, 1, 54, dtype=torch.float64).reshape(9, 6).requires_grad_())
        torch.manual_seed(3)
        output = torch.nn.functional.scaled_dot_product_attention(*operands, **kwargs)
        first = torch.autograd.grad(output.sin().sum(), operands, create_graph=True)
        second = torch.autograd.grad(sum((gradient * gradient).sum() for gradient in first), operands)
        return [tensor.detach().numpy() for tensor in (output, *first, *second, torch.rand(3))]

    for got, expected in zip(program(flambeau), program(oracle), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kwargs", [{}, {"dropout_p": 0.4}, {"is_causal": True, "dropout_p": 0.4}])
def test_gradcheck_to_second_order(kwargs):
    operands = [tensor.detach()[0, :2, :3].contiguous().requires_grad_() for tensor in _operands(flambeau, width=2)]
    mask = None if "is_causal" in kwargs else flambeau.randn(3, 3, dtype=flambeau.float64, requires_grad=True)

    def function(*tensors):
        flambeau.manual_seed(0)
        return F.scaled_dot_product_attention(*tensors, **kwargs)

    inputs = (*operands, mask) if mask is not None else tuple(operands)
    assert flambeau.autograd.gradcheck(function, inputs)
    assert flambeau.autograd.gradgradcheck(function, inputs, fast_mode=True)  # a random projection of each


def test_a_row_that_sees_nothing_is_zero_and_has_no_gradient():
    query, key, value = _operands(flambeau)
    mask = flambeau.ones(9, 6, dtype=flambeau.bool)
    mask[4] = False
    output = F.scaled_dot_product_attention(query, key, value, mask)
    output.sum().backward()
    assert not output[..., 4, :].any()
    assert not query.grad[..., 4, :].any()
    assert flambeau.isfinite(key.grad).all()


@pytest.mark.parametrize(("length", "width"), [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_sequences_without_places_have_gradients_of_zeros(length, width, is_causal):
    query = flambeau.ones(2, length, 4, requires_grad=True)
    key, value = [flambeau.ones(2, width, 4, requires_grad=True) for _ in range(2)]
    output = F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
    output.sum().backward()
    assert output.shape == (2, length, 4) and not output.any()
    for operand in (query, key, value):
        assert operand.grad.shape == operand.shape and not operand.grad.any()


@pytest.mark.parametrize("lead", [(2,), (2, 2)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_in_half_precision_are_those_of_float64_rounded_once(dtype, lead):
    """What is kept of the way forwards is not rounded twice: gradients may be differences of larger numbers."""
    torch, rng = flambeau, np.random.default_rng(0)
    kind = getattr(torch, dtype)
    for _ in range(20):
        numbers = [torch.tensor(2 * rng.standard_normal((*lead, 5, 4))).to(kind) for _ in range(4)]
        found = []
        for wide in (kind, torch.float64):
            *operands, cotangent = [tensor.to(wide).requires_grad_() for tensor in numbers]
            found.append(torch.autograd.grad(F.scaled_dot_product_attention(*operands), operands, cotangent))
        for got, want in zip(*found, strict=True):
            assert (got.double() - want).abs().max() <= torch.finfo(kind).eps * want.abs().max() / 1.9


def test_memory_does_not_grow_with_the_square_of_the_length():
    def peak(length):
        operand = flambeau.randn(1, 1, length, 8, requires_grad=True)
        tracemalloc.start()
        F.scaled_dot_product_attention(operand, operand, operand, dropout_p=0.1).sum().backward()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(64)
    length = 4096
    assert peak(length) < length * length  # a quarter of one float32 matrix of scores


def test_dropout_in_a_recomputed_block_is_the_same():
    from flambeau.utils.checkpoint import checkpoint

    def run(wrapped):
        operands = _operands(flambeau)
        flambeau.manual_seed(1)
        call = lambda *tensors: F.scaled_dot_product_attention(*tensors, dropout_p=0.5)  # noqa: E731
        output = checkpoint(call, *operands, use_reentrant=False) if wrapped else call(*operands)
        output.sum().backward()
        return operands[0].grad

    assert flambeau.equal(run(True), run(False))


def test_order_in_memory_is_that_of_the_query(oracle):
    def strides(torch, width):
        query = torch.ones(2, 4, 3, 5).transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(query, query, query[..., :width]).stride()

    for width in (5, 3):
        assert strides(flambeau, width) == strides(oracle, width)


def test_implementations_are_chosen_as_in_pytorch(same):
    def program(torch):
        backends, kernel = torch.nn.attention.SDPBackend, torch.nn.attention.sdpa_kernel
        query = torch.ones(1, 1, 2, 2)

        def run(*args, **kwargs):
            with kernel(*args, **kwargs):
                cuda = torch.backends.cuda
                allowed = [cuda.flash_sdp_enabled(), cuda.math_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled()]
                names = [backend.name for backend in torch.nn.attention._cur_sdpa_kernel_backends()]
                return [allowed, names, torch.nn.functional.scaled_dot_product_attention(query, query, query)]

        return [
            {name: int(backend) for name, backend in backends.__members__.items()},
            repr(backends.MATH),
            lambda: run(backends.MATH),
            lambda: run([backends.FLASH_ATTENTION, backends.EFFICIENT_ATTENTION]),
            lambda: run([backends.FLASH_ATTENTION, backends.MATH], set_priority=True),
            lambda: run(backends.EFFICIENT_ATTENTION),
            lambda: run([]),
            lambda: run(3),
            lambda: run((backends.MATH,)),
            torch.backends.cuda.math_sdp_enabled(),
        ]

    same(program)


@pytest.mark.filterwarnings("ignore:Lower right causal bias")
def test_causal_biases(same):
    def program(torch):
        of = importlib.import_module(f"{torch.__name__}.nn.attention.bias")
        outcomes = []
        for make in (of.causal_upper_left, of.causal_lower_right):
            for rows, columns in ((3, 3), (2, 4), (4, 2)):
                mask = make(rows, columns)
                query, key = torch.ones(1, 1, rows, 2), torch.arange(columns * 2.0).reshape(1, 1, columns, 2)
                attend = torch.nn.functional.scaled_dot_product_attention
                outcomes += [repr(mask), mask.variant, attend(query, key, key, mask).round(decimals=4)]
        query = torch.ones(1, 1, 2, 2)
        return [
            *outcomes,
            lambda: of.causal_upper_left(3),
            lambda: of.CausalBias(1, 2, 3),
            lambda: torch.nn.functional.scaled_dot_product_attention(query, query, query, of.causal_upper_left(2, 2), is_causal=True),
        ]

    same(program)


def test_lower_right_warns_of_rows_that_see_nothing():
    with pytest.warns(UserWarning, match="NaNs"):
        bias.causal_lower_right(3, 2)


def test_public_names(oracle):
    assert set(attention.__all__) <= set(oracle.nn.attention.__all__)
    assert set(bias.__all__) == set(pytorch("torch.nn.attention.bias").__all__)


class _Heads(flambeau.nn.Module):
    def forward(self, x):
        query, key, value = (part.view(2, 5, 3, 4).transpose(1, 2) for part in x.split(12, -1))
        return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).view(2, 5, 12)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3)])
def test_fake_tensors_lie_in_memory_as_real_ones(order):
    def strides(operands, where):
        operands = [operand.requires_grad_() for operand in operands]
        with where:
            result = F.scaled_dot_product_attention(*operands)
            return [each.stride() for each in (result, *flambeau.autograd.grad(result.sum(), operands))]

    operands = [flambeau.randn(2, 3, 3, 4).permute(order) for _ in range(3)]
    mode = flambeau._subclasses.FakeTensorMode()
    assert strides(operands, flambeau.enable_grad()) == strides([mode.from_tensor(operand) for operand in operands], mode)


def test_results_are_viewed_as_rows_in_exported_programs():
    x = flambeau.randn(2, 5, 36)
    program = flambeau.export.export(_Heads(), (x,)).module()
    np.testing.assert_allclose(program(x).numpy(), _Heads()(x).numpy(), rtol=1e-6, atol=1e-6)
