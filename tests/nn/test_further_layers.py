"""Shuffles, interpolation and losses of many classes as layers: results, gradients and messages are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import nn

CALLS = {
    "pixels": (lambda of: of.PixelShuffle(2), (2, 8, 3, 2)),
    "pixels back": (lambda of: of.PixelUnshuffle(2), (2, 2, 4, 6)),
    "channels": (lambda of: of.ChannelShuffle(3), (2, 6, 2, 2)),
    "nearest": (lambda of: of.Upsample(scale_factor=2), (1, 2, 3)),
    "bilinear": (lambda of: of.Upsample((5, 3), mode="bilinear"), (1, 2, 3, 4)),
    "nearest of images": (lambda of: of.UpsamplingNearest2d((5, 3)), (1, 2, 3, 4)),
    "bilinear of images": (lambda of: of.UpsamplingBilinear2d(scale_factor=2.0), (1, 2, 3, 4)),
    "normalized": (lambda of: of.SyncBatchNorm(3), (4, 3, 2)),
    "normalized in evaluation": (lambda of: of.SyncBatchNorm(3).eval(), (4, 3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_pytorchs(oracle, name):
    make, shape = CALLS[name]

    def program(torch):
        torch.manual_seed(0)
        layer, input = make(torch.nn), torch.randn(shape, requires_grad=True)
        result = layer(input)
        result.sin().sum().backward()
        return [result, input.grad, *layer.state_dict().values()]

    for got, expected in zip(program(flambeau), program(oracle), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9])
def test_normalization_across_maps(oracle, size):
    def program(torch):
        torch.manual_seed(0)
        return torch.nn.CrossMapLRN2d(size, 0.5, 0.6, 2)(torch.randn(2, 6, 2, 3))

    np.testing.assert_allclose(program(flambeau).numpy(), program(oracle).numpy(), rtol=1e-5, atol=1e-6)


def test_normalization_across_maps_has_a_derivative():
    input = flambeau.randn(1, 4, 2, 1, dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradcheck(nn.CrossMapLRN2d(3, 0.5, 0.6, 2), (input,))


@pytest.mark.parametrize("classes", [[0, 4, 5, 12, 19, 3], [1, 2, 0, 3, 4, 1], [19, 18, 17, 16, 12, 11]])
def test_adaptive_softmax(oracle, classes):
    def program(torch):
        torch.manual_seed(0)
        layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10, 15], div_value=2.0, head_bias=True)
        input, target = torch.randn(6, 8, requires_grad=True), torch.tensor(classes)
        output, loss = layer(input, target)
        single = layer(input[0], target[0])
        (loss + single.loss).backward()
        grads = [torch.zeros(1) if parameter.grad is None else parameter.grad for parameter in layer.parameters()]
        return [output, loss, *single, input.grad, *grads, layer.log_prob(input), layer.predict(input), layer.predict(input * 30)]

    for got, expected in zip(program(flambeau), program(oracle), strict=True):
        assert tuple(got.shape) == tuple(expected.shape)
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_messages(same):
    def program(torch):
        of, F = torch.nn, torch.nn.functional
        layer, input, target = of.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]), torch.ones(6, 8), torch.arange(6)
        x, weight = torch.ones(2, 3), torch.ones(4, 3)
        return [
            lambda: layer(input, target[:3]),
            lambda: layer(input[0], target),
            lambda: layer(input, target[0]),
            lambda: layer(input, target[:, None]),
            lambda: layer(input, target + 15),
            lambda: layer(input, target - 2),
            lambda: of.SyncBatchNorm(3)(torch.ones(3)),
            lambda: of.SyncBatchNorm(3)(torch.ones(2, 0)),
            lambda: of.CrossMapLRN2d(3)(torch.ones(2, 3)),
            lambda: F.linear_cross_entropy(x[None], weight, target),
            lambda: F.linear_cross_entropy(x, weight[0], target),
            lambda: F.linear_cross_entropy(x, weight[:, :2], target[:2]),
            lambda: F.linear_cross_entropy(x, weight, target[:2], linear_bias=torch.ones(3)),
            lambda: F.linear_cross_entropy(x[0], torch.ones(4, 2, 3), target[:2]),
            lambda: F.linear_cross_entropy(x, weight, torch.ones(2, 4), ignore_index=1),
            lambda: of.LinearCrossEntropyLoss(5, 3, weight=torch.ones(2)),
            *[
                (lambda kwargs=kwargs: of.LinearCrossEntropyOptions(**kwargs))
                for kwargs in ({"acc_policy": "x"}, {"chunking_method": "x"}, {"batch_chunk_size": 0}, {"acc_dtype": torch.int64}, {})
            ],
            of.SyncBatchNorm.convert_sync_batchnorm(
                of.Sequential(of.BatchNorm1d(3).eval(), of.Sequential(of.BatchNorm2d(3, affine=False), of.InstanceNorm1d(3)))
            ),
        ]

    same(program)


def test_converted_normalization_keeps_weights():
    layer = nn.BatchNorm1d(3).eval()
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(layer)
    assert converted.weight is layer.weight
    assert converted.running_var is layer.running_var
    assert not converted.training


@pytest.mark.filterwarnings("ignore:linear_cross_entropy")
@pytest.mark.parametrize("options", [None, {"batch_chunk_size": 1, "chunking_method": None}])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("kind", ["classes", "probabilities", "more dimensions", "one"])
def test_cross_entropy_of_a_linear_layer(oracle, kind, reduction, options):
    def program(torch):
        torch.manual_seed(0)
        wide = (2,) if kind == "more dimensions" else ()
        given = None if options is None else torch.nn.LinearCrossEntropyOptions(**options)
        loss = torch.nn.LinearCrossEntropyLoss(3, 4, out_features=wide, bias=True, reduction=reduction, weight=torch.rand(4), options=given)
        input = torch.randn((3,) if kind == "one" else (5, 3), requires_grad=True)
        if kind == "probabilities":
            target = torch.rand(5, 4)
        else:
            target = torch.tensor(2) if kind == "one" else torch.tensor([0, 1, -100, 3, 2]).reshape(5, *(1,) * len(wide)).repeat(1, *wide)
        result = loss(input, target)
        result.sum().backward()
        return [result, input.grad, loss.linear.weight.grad, loss.linear.bias.grad]

    for got, expected in zip(program(flambeau), program(oracle), strict=True):
        assert tuple(got.shape) == tuple(expected.shape)
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-6)
