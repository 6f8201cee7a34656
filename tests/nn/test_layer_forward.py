"""Calling a layer: results and gradients are PyTorch's, in training and in evaluation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import flambeau


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> tuple[Any, ...]:
    return "real", shape, low, high


def chance(*shape: int) -> tuple[Any, ...]:
    return real(*shape, low=0.1, high=0.9)


def fixed(*values: Any, dtype: str = "int64") -> tuple[Any, ...]:
    return "fixed", values, dtype


SIGNS = fixed(1, -1, 1, dtype="float64")
# Class, positional arguments, keyword arguments, inputs.
CALLS = [
    ("Identity", (), {}, [real(2, 3)]),
    ("Linear", (3, 2), {}, [real(4, 3)]),
    ("Linear", (3, 2), {"bias": False}, [real(3)]),
    ("Linear", (3, 2), {}, [real(2, 2, 3)]),
    ("Bilinear", (2, 3, 4), {}, [real(5, 2), real(5, 3)]),
    ("Conv1d", (2, 4, 3), {"padding": 1}, [real(2, 2, 7)]),
    ("Conv1d", (2, 4, 3), {"padding": "same", "dilation": 2}, [real(2, 7)]),
    ("Conv2d", (2, 4, 3), {"stride": 2, "groups": 2}, [real(2, 2, 7, 6)]),
    ("Conv2d", (2, 3, (3, 2)), {"padding": (1, 2), "padding_mode": "reflect", "bias": False}, [real(1, 2, 5, 5)]),
    ("Conv2d", (2, 3, 3), {"padding": "same", "padding_mode": "circular"}, [real(1, 2, 5, 5)]),
    ("Conv3d", (2, 2, 2), {}, [real(1, 2, 3, 4, 3)]),
    ("MaxPool1d", (2,), {}, [real(1, 2, 7)]),
    ("MaxPool2d", (3, 2, 1), {"ceil_mode": True}, [real(1, 2, 6, 7)]),
    ("MaxPool2d", (2,), {"return_indices": True}, [real(1, 2, 4, 6)]),
    ("MaxPool3d", (2,), {}, [real(1, 2, 4, 4, 5)]),
    ("AvgPool1d", (2, 1), {}, [real(1, 2, 7)]),
    ("AvgPool2d", (3, 2, 1), {"count_include_pad": False}, [real(1, 2, 6, 7)]),
    ("AvgPool3d", (2,), {"divisor_override": 3}, [real(1, 2, 4, 4, 5)]),
    ("AdaptiveAvgPool1d", (3,), {}, [real(1, 2, 7)]),
    ("AdaptiveAvgPool2d", ((3, None),), {}, [real(1, 2, 5, 4)]),
    ("AdaptiveAvgPool3d", (2,), {}, [real(1, 2, 3, 4, 5)]),
    ("AdaptiveMaxPool1d", (3,), {}, [real(1, 2, 7)]),
    ("AdaptiveMaxPool2d", (3,), {"return_indices": True}, [real(1, 2, 5, 4)]),
    ("AdaptiveMaxPool3d", (2,), {}, [real(1, 2, 3, 4, 5)]),
    ("LPPool1d", (2, 3), {}, [chance(1, 2, 7)]),
    ("LPPool2d", (3, 2, 1), {}, [chance(1, 2, 4, 4)]),
    ("LPPool3d", (2, 2), {}, [chance(1, 2, 4, 4, 4)]),
    ("BatchNorm1d", (3,), {}, [real(4, 3)]),
    ("BatchNorm1d", (3,), {"momentum": None, "affine": False}, [real(4, 3, 2)]),
    ("BatchNorm2d", (3,), {"track_running_stats": False}, [real(2, 3, 2, 4)]),
    ("BatchNorm3d", (2,), {"bias": False}, [real(2, 2, 2, 2, 2)]),
    ("InstanceNorm1d", (3,), {}, [real(2, 3, 4)]),
    ("InstanceNorm1d", (3,), {"affine": True}, [real(3, 4)]),
    ("InstanceNorm2d", (3,), {"affine": True, "track_running_stats": True}, [real(2, 3, 2, 4)]),
    ("InstanceNorm3d", (2,), {}, [real(2, 2, 2, 2, 2)]),
    ("LayerNorm", (3,), {}, [real(2, 4, 3)]),
    ("LayerNorm", ((4, 3),), {"bias": False}, [real(2, 4, 3)]),
    ("GroupNorm", (2, 4), {}, [real(2, 4, 3)]),
    ("RMSNorm", (3,), {}, [real(2, 4, 3)]),
    ("LocalResponseNorm", (2,), {}, [real(2, 4, 3, 3)]),
    ("Flatten", (), {}, [real(2, 3, 4)]),
    ("Unflatten", (1, (2, 3)), {}, [real(2, 6)]),
    ("Unfold", (2, 1, 1, 2), {}, [real(1, 2, 5, 4)]),
    ("Fold", ((4, 5), 2), {}, [real(1, 8, 12)]),
    ("Embedding", (5, 3), {}, [fixed([1, 2], [4, 1])]),
    ("Embedding", (5, 3), {"padding_idx": 1, "scale_grad_by_freq": True}, [fixed(1, 2, 4, 2)]),
    ("Embedding", (5, 3), {"max_norm": 0.5}, [fixed(1, 2)]),
    ("EmbeddingBag", (5, 3), {}, [fixed([1, 2], [4, 1])]),
    ("EmbeddingBag", (5, 3), {"mode": "sum"}, [fixed(1, 2, 4, 1), fixed(0, 3)]),
    ("CosineSimilarity", (), {}, [real(3, 4), real(3, 4)]),
    ("PairwiseDistance", (), {}, [real(3, 4), real(3, 4)]),
    *((f"ConstantPad{dims}d", (1, 2.5), {}, [real(1, 2, *(3,) * dims)]) for dims in (1, 2, 3)),
    *((f"ZeroPad{dims}d", (1,), {}, [real(1, 2, *(3,) * dims)]) for dims in (1, 2, 3)),
    *((f"ReflectionPad{dims}d", (2,), {}, [real(1, 2, *(3,) * dims)]) for dims in (1, 2, 3)),
    *((f"ReplicationPad{dims}d", (2,), {}, [real(1, 2, *(3,) * dims)]) for dims in (1, 2, 3)),
    *((f"CircularPad{dims}d", (2,), {}, [real(1, 2, *(3,) * dims)]) for dims in (1, 2, 3)),
    ("ReflectionPad2d", ((1, 2, 0, 1),), {}, [real(1, 2, 3, 4)]),
    *((name, (), {}, [real(3, 4)]) for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish", "ELU", "CELU")),
    *((name, (), {}, [real(3, 4)]) for name in ("LeakyReLU", "GELU", "Softplus", "Hardshrink", "Softshrink", "Sigmoid", "Tanh")),
    *((name, (), {}, [real(3, 4)]) for name in ("LogSigmoid", "Softsign", "Tanhshrink", "Hardtanh", "PReLU", "GLU")),
    *((name, (1,), {}, [real(3, 4)]) for name in ("Softmax", "Softmin", "LogSoftmax")),
    ("ELU", (2.0,), {}, [real(3, 4)]),
    ("CELU", (2.0,), {}, [real(3, 4)]),
    ("LeakyReLU", (0.2,), {}, [real(3, 4)]),
    ("GELU", ("tanh",), {}, [real(3, 4)]),
    ("Softplus", (2.0, 1.0), {}, [real(3, 4)]),
    ("PReLU", (4,), {}, [real(3, 4)]),
    ("Threshold", (0.5, -1.0), {}, [real(3, 4)]),
    ("Softmax2d", (), {}, [real(2, 3, 2, 2)]),
    ("L1Loss", (), {}, [real(3, 4), real(3, 4)]),
    ("MSELoss", (), {}, [real(3, 4), real(3, 4)]),
    ("MSELoss", (), {"reduction": "none"}, [real(3, 4), real(3, 4)]),
    ("SmoothL1Loss", (), {"beta": 0.5}, [real(3, 4), real(3, 4)]),
    ("HuberLoss", (), {"delta": 0.5, "reduction": "sum"}, [real(3, 4), real(3, 4)]),
    ("NLLLoss", (), {}, [real(3, 4), fixed(1, 0, 3)]),
    ("NLLLoss", (), {"ignore_index": 0, "reduction": "sum"}, [real(3, 4), fixed(1, 0, 3)]),
    ("CrossEntropyLoss", (), {}, [real(3, 4), fixed(1, 0, 3)]),
    ("CrossEntropyLoss", (), {"label_smoothing": 0.1}, [real(3, 4, 2), fixed([1, 0], [3, -100], [2, 2])]),
    ("CrossEntropyLoss", (), {"reduction": "none"}, [real(3, 4), chance(3, 4)]),
    ("PoissonNLLLoss", (), {"full": True}, [real(3, 4), real(3, 4, low=0.0, high=5.0)]),
    ("GaussianNLLLoss", (), {"full": True}, [real(3, 4), real(3, 4), chance(3, 4)]),
    ("KLDivLoss", (), {"reduction": "batchmean"}, [real(3, 4), chance(3, 4)]),
    ("KLDivLoss", (), {"reduction": "sum", "log_target": True}, [real(3, 4), real(3, 4)]),
    ("BCELoss", (), {}, [chance(3, 4), chance(3, 4)]),
    ("BCEWithLogitsLoss", (), {}, [real(3, 4), chance(3, 4)]),
    ("HingeEmbeddingLoss", (), {}, [real(3), SIGNS]),
    ("SoftMarginLoss", (), {}, [real(3), SIGNS]),
    ("CosineEmbeddingLoss", (), {"margin": 0.1}, [real(3, 4), real(3, 4), SIGNS]),
    ("MarginRankingLoss", (), {"margin": 0.1}, [real(3), real(3), SIGNS]),
    ("MultiMarginLoss", (), {"p": 2}, [real(3, 4), fixed(1, 0, 3)]),
    ("MultiLabelMarginLoss", (), {}, [real(2, 3), fixed([1, 0, -1], [2, -1, 0])]),
    ("MultiLabelSoftMarginLoss", (), {}, [real(2, 3), chance(2, 3)]),
    ("TripletMarginLoss", (), {"swap": True}, [real(3, 4), real(3, 4), real(3, 4)]),
    ("TripletMarginWithDistanceLoss", (), {"swap": True}, [real(3, 4), real(3, 4), real(3, 4)]),
]
IDS = [f"{name}-{number}" for number, (name, *_) in enumerate(CALLS)]

DRAWING = [
    ("Dropout", (0.3,), real(40, 5)),
    ("Dropout1d", (0.3,), real(4, 5, 3)),
    ("Dropout2d", (0.3,), real(4, 5, 3, 2)),
    ("Dropout3d", (0.3,), real(4, 5, 3, 2, 2)),
    ("AlphaDropout", (0.3,), real(40, 5)),
    ("FeatureAlphaDropout", (0.3,), real(4, 5, 3)),
    ("RReLU", (), real(40, 5)),
    ("FractionalMaxPool2d", (2, 3), real(1, 2, 7, 8)),
    ("FractionalMaxPool3d", (2, 3), real(1, 2, 7, 8, 7)),
]


def input_of(torch: Any, kind: tuple[Any, ...], dtype: Any, generator: np.random.Generator) -> Any:
    if kind[0] == "fixed":
        return torch.tensor(list(kind[1]), dtype=getattr(torch, kind[2]))
    _, shape, low, high = kind
    return torch.tensor(generator.uniform(low, high, shape).tolist(), dtype=dtype).requires_grad_()


def flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def called(torch: Any, name: str, args: Any, kwargs: Any, kinds: list[Any], dtype: str = "float64") -> list[np.ndarray]:
    """Results in training and evaluation, gradients of inputs and parameters, and the state after it."""
    torch.manual_seed(0)
    layer = getattr(torch.nn, name)(*args, **kwargs).to(getattr(torch, dtype))
    generator = np.random.default_rng(0)
    inputs = [input_of(torch, kind, getattr(torch, dtype), generator) for kind in kinds]
    results = flat(layer(*inputs))
    if results[0].requires_grad:
        (results[0] * torch.linspace(-1, 2, results[0].numel(), dtype=results[0].dtype).view(results[0].shape)).sum().backward()
    gradients = [tensor.grad for tensor in (*inputs, *layer.parameters()) if tensor.requires_grad and tensor.grad is not None]
    layer.eval()
    evaluated = flat(layer(*inputs))
    return [tensor.detach().numpy() for tensor in (*results, *gradients, *evaluated, *layer.state_dict().values())]


@pytest.mark.parametrize(("name", "args", "kwargs", "kinds"), CALLS, ids=IDS)
def test_results_and_gradients_are_pytorchs(of_pytorch, name, args, kwargs, kinds):
    got, expected = called(flambeau, name, args, kwargs, kinds), of_pytorch(called, name, args, kwargs, kinds)
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)  # PyTorch rounds 1 / 6 to float32 in Hardsigmoid


@pytest.mark.parametrize(("name", "args", "kind"), DRAWING, ids=[name for name, *_ in DRAWING])
def test_drawing_layers_follow_pytorchs_stream(of_pytorch, name, args, kind):
    got, expected = (ask(name, args, {}, [kind], dtype="float32") for ask in (partial(called, flambeau), partial(of_pytorch, called)))
    for mine, theirs in zip(got, expected):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish", "ELU", "CELU", "LeakyReLU", "Hardtanh"]
)
def test_inplace_activations_write_into_their_input(name):
    values = [-2.0, -0.5, 0.5, 2.0]
    expected = getattr(flambeau.nn, name)()(flambeau.tensor(values))
    input = flambeau.tensor(values)
    result = getattr(flambeau.nn, name)(inplace=True)(input)
    assert result is input
    assert input.tolist() == expected.tolist()


def test_wrong_dimensions_are_pytorchs_errors(same):
    def program(torch):
        nn = torch.nn
        calls = [
            (nn.BatchNorm1d(3), (2,)),
            (nn.BatchNorm2d(3), (2, 3)),
            (nn.BatchNorm3d(3), (2, 3)),
            (nn.InstanceNorm1d(3), (2,)),
            (nn.InstanceNorm2d(3, affine=True), (2, 4, 5, 5)),
            (nn.InstanceNorm3d(3), (2, 3)),
            (nn.Softmax2d(), (2,)),
        ]
        return [lambda layer=layer, shape=shape: layer(torch.ones(shape)) for layer, shape in calls]

    same(program)
