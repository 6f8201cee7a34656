"""Every layer: constructor arguments, attributes, printed form, state and initial weights are PyTorch's."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import flambeau
from flambeau import nn

# Class, positional arguments, keyword arguments.
LAYERS = [
    ("Identity", (1, 2), {"a": 3}),
    ("Linear", (3, 2), {}),
    ("Linear", (3, 2), {"bias": False}),
    ("Linear", (0, 2), {}),
    ("Bilinear", (2, 3, 4), {}),
    ("Bilinear", (2, 3, 4, False), {}),
    ("Conv1d", (2, 4, 3), {}),
    ("Conv2d", (2, 4, 3), {"padding": "same", "groups": 2, "bias": False, "padding_mode": "reflect", "dilation": 2}),
    ("Conv2d", (2, 4, (3, 5), 2, (1, 2), 1, 2), {}),
    ("Conv2d", (2, 4, 3), {"padding": "valid"}),
    ("Conv3d", (2, 4, 3, 1, 1), {}),
    ("MaxPool1d", (2,), {}),
    ("MaxPool2d", ((2, 3),), {"stride": 1, "ceil_mode": True}),
    ("MaxPool3d", (2, 1, 1, 2, True), {}),
    ("MaxUnpool1d", (2,), {}),
    ("MaxUnpool2d", (2, 3, 1), {}),
    ("MaxUnpool3d", ((1, 2, 3),), {}),
    ("AvgPool1d", (2,), {}),
    ("AvgPool2d", (2, 1, 1, True, False, 5), {}),
    ("AvgPool3d", ((1, 2, 3),), {}),
    ("AdaptiveAvgPool1d", (3,), {}),
    ("AdaptiveAvgPool2d", ((3, None),), {}),
    ("AdaptiveAvgPool3d", (3,), {}),
    ("AdaptiveMaxPool1d", (3,), {}),
    ("AdaptiveMaxPool2d", ((3, None), True), {}),
    ("AdaptiveMaxPool3d", (3,), {}),
    ("LPPool1d", (2, 3), {}),
    ("LPPool2d", (2, 3, 1, True), {}),
    ("LPPool3d", (1.5, (1, 2, 3)), {}),
    ("FractionalMaxPool2d", (2,), {"output_ratio": 0.5}),
    ("FractionalMaxPool3d", (2, 3), {}),
    ("BatchNorm1d", (3,), {}),
    ("BatchNorm1d", (3,), {"affine": False, "momentum": None}),
    ("BatchNorm2d", (3, 1e-3), {"track_running_stats": False}),
    ("BatchNorm3d", (3,), {"bias": False}),
    ("InstanceNorm1d", (3,), {}),
    ("InstanceNorm2d", (3,), {"affine": True, "track_running_stats": True}),
    ("InstanceNorm3d", (3,), {"affine": True, "bias": False}),
    ("LayerNorm", (3,), {}),
    ("LayerNorm", ([2, 3],), {"bias": False}),
    ("LayerNorm", ((2, 3), 1e-3, False), {}),
    ("GroupNorm", (1, 3), {}),
    ("GroupNorm", (1, 3), {"affine": False}),
    ("RMSNorm", (3,), {}),
    ("RMSNorm", ((2, 3), 1e-3, False), {}),
    ("LocalResponseNorm", (2,), {}),
    ("Dropout", (), {}),
    ("Dropout", (0.3, True), {}),
    ("Dropout1d", (), {}),
    ("Dropout2d", (0.3,), {}),
    ("Dropout3d", (), {}),
    ("AlphaDropout", (), {}),
    ("FeatureAlphaDropout", (), {}),
    ("Flatten", (), {}),
    ("Flatten", (0, 2), {}),
    ("Unflatten", (1, (2, 3)), {}),
    ("Unfold", (2,), {}),
    ("Fold", (4, (2, 1)), {}),
    ("Embedding", (4, 3), {}),
    ("Embedding", (4, 3, 1, 2.0, 3.0, True, True), {}),
    ("Embedding", (4, 3, -1), {}),
    ("EmbeddingBag", (4, 3), {}),
    ("EmbeddingBag", (4, 3, 2.0, 3.0, True, "sum", False, None, True, 1), {}),
    ("CosineSimilarity", (), {}),
    ("PairwiseDistance", (1.0, 1e-3, True), {}),
    *((f"{kind}Pad{dims}d", (1,), {}) for kind in ("Zero", "Reflection", "Replication", "Circular") for dims in (1, 2, 3)),
    *((f"ConstantPad{dims}d", (1, 2.5), {}) for dims in (1, 2, 3)),
    ("ReflectionPad2d", ((1, 2, 3, 4),), {}),
    *((name, (), {}) for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish", "ELU", "CELU", "LeakyReLU")),
    *((name, (), {}) for name in ("RReLU", "GELU", "Softplus", "Hardshrink", "Softshrink", "Sigmoid", "Tanh", "LogSigmoid")),
    *((name, (), {}) for name in ("Softsign", "Tanhshrink", "Hardtanh", "PReLU", "GLU", "Softmax", "Softmin", "LogSoftmax", "Softmax2d")),
    *((name, (True,), {}) for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish")),
    ("ELU", (2.0, True), {}),
    ("CELU", (2.0, True), {}),
    ("LeakyReLU", (0.2, True), {}),
    ("RReLU", (0.1, 0.2, True), {}),
    ("Threshold", (0.5, 2, True), {}),
    ("Hardtanh", (-2, 3.0, True), {}),
    ("Hardshrink", (0.3,), {}),
    ("GELU", ("tanh",), {}),
    ("PReLU", (3, 0.1), {}),
    ("Softmax", (1,), {}),
    *((name, (), {}) for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "NLLLoss", "CrossEntropyLoss", "PoissonNLLLoss")),
    *((name, (), {}) for name in ("GaussianNLLLoss", "KLDivLoss", "BCELoss", "BCEWithLogitsLoss", "HingeEmbeddingLoss")),
    *((name, (), {}) for name in ("SoftMarginLoss", "CosineEmbeddingLoss", "MarginRankingLoss", "MultiMarginLoss")),
    *((name, (), {}) for name in ("MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "TripletMarginLoss")),
    ("TripletMarginWithDistanceLoss", (), {"swap": True}),
    ("MSELoss", (), {"reduction": "sum"}),
    ("HuberLoss", ("sum", 2.0), {}),
    ("SmoothL1Loss", (), {"beta": 0.5}),
    ("KLDivLoss", (), {"reduction": "batchmean", "log_target": True}),
    ("CrossEntropyLoss", (), {"ignore_index": 3, "label_smoothing": 0.1}),
    ("PixelShuffle", (2,), {}),
    ("PixelUnshuffle", (3,), {}),
    ("ChannelShuffle", (2,), {}),
    ("Upsample", (), {"scale_factor": 2}),
    ("Upsample", ((3, 4),), {"mode": "bilinear", "align_corners": True}),
    ("Upsample", (), {"scale_factor": (2, 3), "recompute_scale_factor": True}),
    ("UpsamplingNearest2d", (3,), {}),
    ("UpsamplingBilinear2d", (), {"scale_factor": 2}),
    ("CrossMapLRN2d", (3,), {"k": 2.0}),
    ("SyncBatchNorm", (3,), {"momentum": None}),
    ("SyncBatchNorm", (3,), {"affine": False}),
    ("AdaptiveLogSoftmaxWithLoss", (8, 20, [5, 10, 15]), {"div_value": 2.0, "head_bias": True}),
    ("AdaptiveLogSoftmaxWithLoss", (8, 20, (5, 19)), {}),
    ("LinearCrossEntropyLoss", (5, 10), {"out_features": (4, 3), "bias": True, "label_smoothing": 0.1}),
    ("MultiheadAttention", (4, 2), {"add_bias_kv": True}),
    ("MultiheadAttention", (4, 2, 0.1, False), {"kdim": 3, "vdim": 5, "batch_first": True}),
    ("TransformerEncoderLayer", (4, 2, 8), {}),
    ("TransformerDecoderLayer", (4, 2, 8, 0.2, "relu", 1e-3, True, True, False), {}),
    ("Transformer", (4, 2, 1, 2, 8), {"batch_first": True}),
]
IDS = [f"{name}-{number}" for number, (name, _, _) in enumerate(LAYERS)]
MODULE_ATTRIBUTES = set(nn.Module().__dict__)

INVALID = [
    ("Bilinear", (0, 1, 1), {}),
    ("Conv2d", (3, 4, 3), {"groups": 0}),
    ("Conv2d", (3, 4, 3), {"groups": 2}),
    ("Conv2d", (4, 3, 3), {"groups": 2}),
    ("Conv2d", (3, 3, 3), {"padding": "same", "stride": 2}),
    ("Dropout", (2,), {}),
    ("GroupNorm", (2, 3), {}),
    ("Embedding", (3, 4, 5), {}),
    ("Embedding", (3, 4, -5), {}),
    ("EmbeddingBag", (3, 4), {"padding_idx": 7}),
    ("FractionalMaxPool2d", (2,), {}),
    ("FractionalMaxPool2d", (2, 1, 0.5), {}),
    ("FractionalMaxPool2d", (2,), {"output_ratio": 1.5}),
    ("Unflatten", (1, (2, "a")), {}),
    ("Unflatten", (1, 3), {}),
    ("Hardtanh", (1, 0), {}),
    ("MultiMarginLoss", (3,), {}),
    ("TripletMarginLoss", (-1,), {}),
    ("TripletMarginWithDistanceLoss", (), {"margin": -1}),
    ("GaussianNLLLoss", (1,), {}),
    ("MaxPool2d", (), {}),
    *(("AdaptiveLogSoftmaxWithLoss", (8, 20, cutoffs), {}) for cutoffs in ([], [5, 5], [0, 3], [-1, 4], [5, 20], [7, 5], [2.5], [5, 25])),
    ("LinearCrossEntropyLoss", (5, 3), {"label_smoothing": 2.0}),
]


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(("name", "args", "kwargs"), LAYERS, ids=IDS)
def test_layer_is_pytorchs(same, name, args, kwargs):
    def program(torch):
        layer = getattr(torch.nn, name)(*args, **kwargs)
        attributes = {key: value for key, value in vars(layer).items() if key not in MODULE_ATTRIBUTES and key[0] != "_"}
        return [
            repr(layer),
            sorted([key, type(value).__name__, value] for key, value in attributes.items()),
            list(layer._parameters.items()),
            list(layer._buffers.items()),
            layer.state_dict(),
            layer._version,
            torch.rand(1),
        ]

    same(program)


@pytest.mark.parametrize("name", sorted({name for name, _, _ in LAYERS}))
def test_constructor_takes_pytorchs_arguments(oracle, name):
    def arguments(cls):
        return [(p.name, p.kind, getattr(p.default, "__name__", p.default)) for p in inspect.signature(cls.__init__).parameters.values()]

    assert arguments(getattr(nn, name)) == arguments(getattr(oracle.nn, name))
    assert getattr(nn, name).__doc__


@pytest.mark.parametrize(("name", "args", "kwargs"), INVALID, ids=[f"{name}-{n}" for n, (name, _, _) in enumerate(INVALID)])
def test_invalid_arguments_are_pytorchs_errors(same, name, args, kwargs):
    same(lambda torch: [lambda: getattr(torch.nn, name)(*args, **kwargs)])


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(("name", "args", "kwargs"), LAYERS, ids=IDS)
def test_layer_survives_pickling_and_copying(name, args, kwargs):
    layer = getattr(nn, name)(*args, **kwargs)
    for twin in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert type(twin) is type(layer)
        assert repr(twin) == repr(layer)
        assert list(twin.state_dict()) == list(layer.state_dict())
        assert all(a.tolist() == b.tolist() for a, b in zip(twin.state_dict().values(), layer.state_dict().values()))
        assert all(a is not b for a, b in zip(twin.parameters(), layer.parameters()))


def test_dtype_reaches_the_parameters():
    for name, args in (("Linear", (2, 2)), ("Conv2d", (1, 1, 1)), ("BatchNorm1d", (2,)), ("LayerNorm", (2,)), ("Embedding", (2, 2))):
        layer = getattr(nn, name)(*args, dtype=flambeau.float64)
        assert {p.dtype for p in layer.parameters()} == {flambeau.float64}, name


def test_deprecated_arguments_of_losses_warn():
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert nn.L1Loss(reduce=False).reduction == "none"
    with pytest.warns(UserWarning, match="reduction='mean'"):
        assert nn.BCELoss(size_average=True).reduction == "mean"
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        assert isinstance(nn.NLLLoss2d(), nn.NLLLoss)


def test_old_names_of_hardtanh_warn():
    with pytest.warns(FutureWarning, match="min_value"):
        assert nn.Hardtanh(min_value=-3).min_val == -3


def test_embedding_from_a_table():
    table = flambeau.ones(3, 2)
    layer = nn.Embedding.from_pretrained(table)
    assert layer.weight.data_ptr() == table.data_ptr()
    assert not layer.weight.requires_grad
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad
    with pytest.raises(AssertionError, match="2-dimensional"):
        nn.Embedding.from_pretrained(flambeau.ones(3))
    with pytest.raises(AssertionError, match="Shape of weight"):
        nn.Embedding(3, 4, _weight=table)


def test_class_weights_are_state():
    loss = nn.CrossEntropyLoss(weight=flambeau.ones(2))
    assert list(loss.state_dict()) == ["weight"]
    assert loss.double().weight.dtype is flambeau.float64


def test_everything_public_is_pytorchs(oracle):
    for name in dir(nn):
        cls = getattr(nn, name)
        if isinstance(cls, type) and not name.startswith("_"):
            assert hasattr(oracle.nn, name), name
