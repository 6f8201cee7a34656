"""to(), cuda(), half() and their like change the tensors of a module, not their identity."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn


def test_casts_reach_floating_tensors_only(same):
    def program(torch):
        def dtypes(convert):
            net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.BatchNorm1d(1))
            result = convert(net)
            return [result is net, [str(t.dtype) for t in net.state_dict().values()]]

        return [
            dtypes(lambda net: net.double()),
            dtypes(lambda net: net.half()),
            dtypes(lambda net: net.bfloat16()),
            dtypes(lambda net: net.double().float()),
            dtypes(lambda net: net.to(torch.float64)),
            dtypes(lambda net: net.to(dtype=torch.float16)),
            dtypes(lambda net: net.to("cpu", torch.float64)),
            dtypes(lambda net: net.to(torch.device("cpu"), torch.float64, True)),
            dtypes(lambda net: net.to(device="cpu", non_blocking=True)),
            dtypes(lambda net: net.to(torch.ones(1, dtype=torch.float64))),
            dtypes(lambda net: net.to(tensor=torch.ones(1, dtype=torch.float64))),
            dtypes(lambda net: net.to()),
            dtypes(lambda net: net.cpu()),
            dtypes(lambda net: net.type(torch.float64)),
            dtypes(lambda net: net.type("torch.DoubleTensor")),
        ]

    same(program)


def test_parameters_stay_the_same_objects_with_their_gradients():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    weight.grad = flambeau.ones(2, 2)
    layer.double()
    assert layer.weight is weight
    assert weight.dtype is flambeau.float64 and weight.grad.dtype is flambeau.float64
    assert weight.is_leaf and weight.requires_grad


def test_wrong_arguments_of_to():
    layer = nn.Linear(1, 1)
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes, but got desired dtype=torch.int32"):
        layer.to(flambeau.int32)
    for args, kwargs in (
        ((1, 2, 3, 4), {}),
        ((), {"foo": 1}),
        ((flambeau.float32,), {"dtype": flambeau.float64}),
        (("cpu",), {"dtype": 3}),
    ):
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            layer.to(*args, **kwargs)
    with pytest.raises(RuntimeError, match="copy"):
        layer.to(copy=True)


def test_complex_modules_warn():
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        assert nn.Linear(1, 1).to(flambeau.complex64).weight.dtype is flambeau.complex64


def test_memory_format_is_for_tensors_of_four_dimensions():
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Linear(2, 2)).to(memory_format=flambeau.channels_last)
    assert net[0].weight.is_contiguous(memory_format=flambeau.channels_last)
    assert net[1].weight.is_contiguous()


def test_to_empty_keeps_shapes_and_dtypes():
    layer = nn.Linear(2, 3)
    weight = layer.weight
    assert layer.to_empty(device="cpu") is layer
    assert layer.weight is weight and tuple(weight.shape) == (3, 2) and weight.dtype is flambeau.float32


def test_apply_converts_own_tensors_only_without_recursion():
    net = nn.Sequential(nn.Linear(1, 1))
    net.register_buffer("own", flambeau.ones(1))
    net._apply(lambda tensor: tensor.double(), recurse=False)
    assert net.own.dtype is flambeau.float64 and net[0].weight.dtype is flambeau.float32


def test_zero_grad():
    layer = nn.Linear(1, 1)
    layer(flambeau.ones(1, 1)).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0.0]]
    layer.zero_grad()
    assert layer.weight.grad is None
