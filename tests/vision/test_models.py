"""``vision.models``: names, weights and builders as torchvision has them; models of each family against it.

Every model is compared by ``python -m tests.programs.vision_models``.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib
import inspect
import pickle
import warnings
from collections import OrderedDict
from typing import Any

import pytest
import vision_models
from oracle import pytorch
from oracle_vision import torchvision

import flambeau as torch
from flambeau import nn
from flambeau.vision import models
from flambeau.vision.models import _api, _utils

ONE_OF_EACH_FAMILY = (
    "alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 maxvit_t mnasnet0_75 mobilenet_v2 "
    "mobilenet_v3_large regnet_x_16gf regnet_y_400mf resnet50 resnext50_32x4d shufflenet_v2_x1_0 squeezenet1_0 swin_t swin_v2_t "
    "vgg11_bn vit_b_16 wide_resnet50_2"
).split()
SMALL = "squeezenet1_1 mobilenet_v3_small shufflenet_v2_x0_5 mnasnet0_5 regnet_y_400mf resnet18".split()


def oracle() -> Any:
    return torchvision().models


# -- models ------------------------------------------------------------------------------------------------------------------------
@pytest.mark.oracle
@pytest.mark.parametrize("name", ONE_OF_EACH_FAMILY)
def test_a_state_has_the_oracles_keys_and_shapes(name: str) -> None:
    assert vision_models.compare(name, {"keys"}) == (f"{name}: keys and shapes equal", True)


@pytest.mark.oracle
@pytest.mark.parametrize("name", SMALL)
def test_initial_weights_and_results_are_the_oracles(name: str) -> None:
    line, good = vision_models.compare(name, {"initial", "results"})
    assert good, line


@pytest.mark.oracle
def test_names_are_the_oracles() -> None:
    theirs = oracle()
    assert models.list_models(module=models) == theirs.list_models(module=theirs)
    assert models.list_models(models, include="vgg*", exclude=["*_bn", "vgg11"]) == ["vgg13", "vgg16", "vgg19"]
    assert models.list_models(models, include=["resnet18", "alex*"]) == ["alexnet", "resnet18"]
    files = "alexnet convnext densenet efficientnet googlenet inception maxvit mnasnet mobilenet mobilenetv2 mobilenetv3 regnet resnet"
    for file in f"{files} shufflenetv2 squeezenet swin_transformer vgg vision_transformer".split():
        ours, other = (importlib.import_module(f"{package.__name__}.{file}") for package in (models, theirs))
        assert sorted(ours.__all__) == sorted(other.__all__), file
        for name in other.__all__:
            assert hasattr(models, name)


@pytest.mark.oracle
def test_arguments_are_the_oracles() -> None:
    real = pytorch()

    for name, module in ((name, getattr(oracle(), name)) for name in dir(oracle())):
        if not inspect.ismodule(module) or not hasattr(models, name) or hasattr(module, "__path__"):
            continue
        for kind, theirs in vars(module).items():
            if not inspect.isclass(theirs) or not issubclass(theirs, real.nn.Module) or theirs.__module__ != module.__name__:
                continue
            ours = getattr(getattr(models, name), kind, None)
            assert ours is not None, f"{name}.{kind}"
            if "__init__" in vars(ours):
                assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters), f"{name}.{kind}"


def test_arguments_are_checked() -> None:
    errors: list[tuple[Any, type[Exception], str]] = [
        (lambda: models.resnet.BasicBlock(4, 4, groups=2), ValueError, "only supports groups=1"),
        (lambda: models.resnet.BasicBlock(4, 4, dilation=2), NotImplementedError, "Dilation > 1"),
        (lambda: models.resnet50(replace_stride_with_dilation=[True]), ValueError, "3-element tuple"),
        (lambda: models.SqueezeNet("2"), ValueError, "Unsupported SqueezeNet version"),
        (lambda: models.MNASNet(0), ValueError, "alpha should be greater"),
        (lambda: models.MobileNetV2(inverted_residual_setting=[[1]]), ValueError, "4-element list"),
        (lambda: models.MobileNetV3([], 8), ValueError, "should not be empty"),
        (lambda: models.EfficientNet([3], 0.1), TypeError, "MBConvConfig"),
        (lambda: models.ConvNeXt([]), ValueError, "should not be empty"),
        (lambda: models.ShuffleNetV2([1], [1]), ValueError, "list of 3"),
        (lambda: models.regnet.BlockParams.from_init_params(4, 7, 1.0, 2.0, 8), ValueError, "Invalid RegNet"),
        (lambda: models.VisionTransformer(30, 16, 1, 1, 8, 8), AssertionError, "indivisible"),
        (lambda: models.resnext50_32x4d(groups=2), ValueError, "expected value 32 but got 2"),
        (lambda: models.resnet18(layers=[1, 1, 1, 1]), TypeError, "multiple values"),
    ]
    for build, kind, words in errors:
        with pytest.raises(kind, match=words):
            build()


@pytest.mark.slow
def test_dilation_takes_the_place_of_strides() -> None:
    model = models.resnet50(replace_stride_with_dilation=[False, True, True], num_classes=3)
    assert [model.layer4[i].conv2.dilation for i in range(3)] == [(2, 2), (4, 4), (4, 4)]
    assert model.layer4[0].conv2.stride == (1, 1)
    zeroed = models.resnet18(zero_init_residual=True)
    assert not zeroed.layer1[0].bn2.weight.any() and zeroed.bn1.weight.all()
    parts = importlib.import_module("flambeau.vision.models.video.resnet")
    for zero in (False, True):
        video = parts.VideoResNet(parts.Bottleneck, [parts.Conv3DSimple] * 4, [1] * 4, parts.BasicStem, 3, zero_init_residual=zero)
        assert video.layer1[0].conv3[1].weight.any() != zero and video.layer1[0].conv1[1].weight.all()


def test_a_memory_efficient_densenet_has_the_same_gradients() -> None:
    gradients = []
    for memory_efficient in (False, True):
        torch.manual_seed(0)
        model = models.DenseNet(4, (2, 2), 8, num_classes=3, memory_efficient=memory_efficient)
        model(torch.ones(2, 3, 32, 32)).sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.allclose(plain, saved) for plain, saved in zip(*gradients, strict=True))


@pytest.mark.parametrize(
    "build", [models.resnet18, models.mobilenet_v3_small, functools.partial(models.VisionTransformer, 32, 16, 2, 4, 32, 64)]
)
def test_a_model_learns(build: Any) -> None:
    torch.manual_seed(1)
    model = build(num_classes=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    images, labels = torch.randn(4, 3, 32, 32), torch.arange(4)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses


@pytest.mark.oracle
def test_embeddings_of_places_are_interpolated() -> None:
    real = pytorch()

    embedding = real.randn(1, 10, 4)
    results = []
    for library, package in ((torch, models), (real, oracle())):
        state = OrderedDict({"encoder.pos_embedding": library.tensor(embedding.tolist()), "heads.head.bias": library.zeros(2)})
        changed = package.vision_transformer.interpolate_embeddings(64, 16, state, reset_heads=True)
        results.append((list(changed), changed["encoder.pos_embedding"]))
    assert results[0][0] == results[1][0] == ["encoder.pos_embedding"]
    assert results[0][1].numpy() == pytest.approx(results[1][1].numpy(), abs=1e-5)


# -- weights -----------------------------------------------------------------------------------------------------------------------
@pytest.mark.oracle
def test_official_weights_are_the_oracles() -> None:
    for name in models.list_models(module=models):
        ours, theirs = models.get_model_weights(name), oracle().get_model_weights(name)
        assert ours.__name__ == theirs.__name__ and list(ours.__members__) == list(theirs.__members__)
        for key, weights in theirs.__members__.items():
            own = ours[key]
            assert (own.name, own.url) == (weights.name, weights.url)
            expected = {entry: value for entry, value in weights.meta.items() if entry != "_docs"}
            assert sorted(map(repr, own.meta.items())) == sorted(map(repr, expected.items()))  # some of what was measured is NaN
            assert {k: getattr(v, "value", v) for k, v in weights.transforms.keywords.items()} == own.transforms.keywords
            assert own.transforms.args == (weights.transforms.func.__name__,)
    for weights in (
        models.ResNet50_Weights.IMAGENET1K_V2,
        models.EfficientNet_B0_Weights.DEFAULT,
        models.EfficientNet_V2_L_Weights.DEFAULT,
    ):
        assert repr(weights.transforms()) == repr(oracle().get_weight(str(weights)).transforms())


def test_weights_are_found_by_name() -> None:
    weights = models.ResNet50_Weights.IMAGENET1K_V2
    assert models.get_weight("ResNet50_Weights.IMAGENET1K_V2") is weights is models.ResNet50_Weights.DEFAULT
    assert models.ResNet50_Weights.verify("IMAGENET1K_V2") is models.ResNet50_Weights.verify("ResNet50_Weights.DEFAULT") is weights
    assert repr(weights) == "ResNet50_Weights.IMAGENET1K_V2" and len(weights.meta["categories"]) == 1000
    assert copy.deepcopy(weights) is weights and pickle.loads(pickle.dumps(weights)) is weights
    assert pickle.loads(pickle.dumps(weights.value)) == weights.value != models.ResNet18_Weights.DEFAULT.value
    assert models.get_model_weights(models.resnet50) is models.ResNet50_Weights
    assert models.get_model_builder("ResNet18") is models.resnet18 and pickle.loads(pickle.dumps(models.resnet18)) is models.resnet18
    for name, kind, words in (
        ("ResNet50", ValueError, "Invalid weight name"),
        ("ResNet51_Weights.DEFAULT", ValueError, "couldn't be retrieved"),
        ("ResNet50_Weights.V9", KeyError, "V9"),
    ):
        with pytest.raises(kind, match=words):
            models.get_weight(name)
    with pytest.raises(TypeError, match="expected ResNet18_Weights but received ResNet50_Weights"):
        models.resnet18(weights=weights)
    with pytest.raises(ValueError, match="Unknown model resnet19"):
        models.get_model("ResNet19")


def test_a_model_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_api, "BUILTIN_MODELS", dict(_api.BUILTIN_MODELS))

    @_api.register_model("my_model")
    def build(**config: Any) -> Any:
        return torch.nn.Linear(**config)

    assert models.get_model("my_model", in_features=2, out_features=3).out_features == 3
    with pytest.raises(ValueError, match="missing the 'weights' argument"):
        models.get_model_weights("my_model")
    with pytest.raises(ValueError, match="already registered"):
        _api.register_model("my_model")(build)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Files of weights by their address, in place of the network's; each is given once."""
    states: dict[str, Any] = {}
    monkeypatch.setattr("flambeau.hub.load_state_dict_from_url", lambda url, progress, check_hash: states.pop(url))
    return states


def test_weights_are_loaded(files: dict[str, Any]) -> None:
    weights = models.SqueezeNet1_1_Weights.DEFAULT
    state = {key: torch.full_like(value, 0.5) for key, value in models.squeezenet1_1().state_dict().items()}
    for asked in (weights, "DEFAULT", "SqueezeNet1_1_Weights.IMAGENET1K_V1"):
        files[weights.url] = state
        assert models.squeezenet1_1(weights=asked).classifier[1].weight.min() == 0.5
    with pytest.raises(ValueError, match="'num_classes' expected value 1000 but got 10"):
        models.squeezenet1_1(weights=weights, num_classes=10)


def test_weights_of_older_models_are_renamed(files: dict[str, Any]) -> None:
    state = models.densenet121().state_dict()
    old = OrderedDict((key.replace("norm1.", "norm.1.").replace("conv2.", "conv.2."), value) for key, value in state.items())
    for key in [key for key in old if key.endswith("num_batches_tracked")]:  # younger than the files
        del old[key]
    files[models.DenseNet121_Weights.DEFAULT.url] = old
    assert old.keys() != state.keys()
    loaded = models.densenet121(weights="DEFAULT").state_dict()
    assert list(loaded) == list(state) and all(torch.equal(loaded[key], value) for key, value in state.items())


def test_auxiliary_classifiers_go_unless_asked_for(files: dict[str, Any]) -> None:
    weights = models.GoogLeNet_Weights.DEFAULT
    state = models.GoogLeNet(init_weights=False).state_dict()
    files[weights.url] = dict(state)
    model = models.googlenet(weights=weights)
    assert model.aux1 is None and not model.aux_logits and model.transform_input
    files[weights.url] = dict(state)
    with pytest.warns(UserWarning, match="auxiliary heads .* are NOT pretrained"):
        assert models.googlenet(weights=weights, aux_logits=True).aux1 is not None


# -- old spellings -------------------------------------------------------------------------------------------------------------------
def spoken(package: Any, call: Any) -> list[Any]:
    """Warnings of a call, and its error."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        try:
            call(package)
            error = ""
        except (ValueError, TypeError) as problem:
            error = f"{type(problem).__name__}: {problem}"
    return [*((record.category, str(record.message)) for record in records), error]


OLD_CALLS = {
    "true": lambda package: package.squeezenet1_1(pretrained=True),
    "false": lambda package: package.squeezenet1_1(pretrained=False),
    "by position": lambda package: package.squeezenet1_1(True, False),
    "none by position": lambda package: package.squeezenet1_1(None),
    "legacy": lambda package: package.squeezenet1_1(weights="legacy"),
    "both": lambda package: package.squeezenet1_1(weights=None, pretrained=True),
    "no weights": lambda package: package.vit_h_14(pretrained=True),
    "default initialization": lambda package: package.GoogLeNet(aux_logits=False, blocks=[]),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", OLD_CALLS)
def test_old_arguments_are_taken_with_the_oracles_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in (models, oracle()):
        monkeypatch.setattr(package.WeightsEnum, "get_state_dict", lambda self, **options: {}, raising=True)
        monkeypatch.setattr(package.SqueezeNet, "load_state_dict", lambda self, state: None)
    assert spoken(models, OLD_CALLS[name]) == spoken(oracle(), OLD_CALLS[name])


def test_numbers_of_channels_are_rounded() -> None:
    assert [_utils._make_divisible(value, 8) for value in (3, 12, 19, 20.0, 36)] == [8, 16, 24, 24, 40]
    assert _utils._ovewrite_value_param("a", None, 3) == 3
    with pytest.raises(ValueError, match="'a' expected value 3 but got 4"):
        _utils._ovewrite_value_param("a", 4, 3)
    with pytest.raises(TypeError, match="no keyword-only parameter"):
        _utils.kwonly_to_pos_or_kw(lambda x: x)


def test_parts_of_a_model_by_name() -> None:
    model = models.squeezenet1_1()
    parts = _utils.IntermediateLayerGetter(model, {"features": "all"})
    images = torch.ones(1, 3, 32, 32)
    assert list(parts) == ["features"] and list(parts(images)) == ["all"]
    assert torch.equal(parts(images)["all"], model.features(images))
    with pytest.raises(ValueError, match="not present"):
        _utils.IntermediateLayerGetter(model, {"layer9": "x"})


# -- results of parts ---------------------------------------------------------------------------------------------------------------
@pytest.mark.oracle
def test_results_of_parts_are_the_oracles() -> None:
    real = pytorch()

    ours, theirs = (importlib.import_module(f"{package.__name__}.feature_extraction") for package in (models, oracle()))
    nodes = {"layer2.0.relu_1": "second", "avgpool": "mean", "maxpool": "pooled", "layer1": "stage"}
    model, other = (vision_models.built(library, package, "resnet18").double() for library, package in ((torch, models), (real, oracle())))
    extractor, expected = ours.create_feature_extractor(model, nodes), theirs.create_feature_extractor(other, nodes)
    image = real.randn(2, 3, 32, 32, dtype=real.float64)
    for training in (True, False):
        results, wanted = extractor.train(training)(torch.from_numpy(image.numpy())), expected.train(training)(image)
        assert list(results) == list(wanted)
        for name, value in wanted.items():
            assert results[name].detach().numpy() == pytest.approx(value.detach().numpy(), rel=1e-8)
    assert extractor.maxpool is model.maxpool and list(extractor.state_dict()) == list(expected.state_dict())
    assert model.eval()(torch.ones(1, 3, 32, 32, dtype=torch.float64)).shape == (1, 1000) and not model.layer1._forward_hooks


NODES = {  # of torchvision's models: how many nodes they have in training, in evaluation, and the digest of their names
    "resnet18": (70, 70, "58d910321e09c3873c9ec22e45e25a91"),
    "vgg11": (31, 31, "33e9414352ff1273edae73578dae347b"),
    "mobilenet_v2": (84, 84, "f6d25c1db9d4e58fe0251fbf0a8683bc"),
    "mobilenet_v3_small": (56, 56, "8301c6a07bb2afa3dffa9111f157c36d"),
    "vit_b_16": (187, 187, "55447b27a9088195d835ea3825ec8d98"),
    "swin_t": (186, 186, "b85b258cd122bead954005a5d0648da1"),
    "swin_v2_t": (258, 258, "b7dfd30153db5e09e739f001c71a8b98"),
    "googlenet": (216, 198, "a0f7e5d8ed80b8e253730415009cd1da"),
    "shufflenet_v2_x0_5": (368, 368, "01e17e325dc25c6f255ab190386320e5"),
}


@pytest.mark.parametrize("name", NODES)
def test_nodes_have_the_names_of_torchvision(name: str) -> None:
    from flambeau.vision.models import feature_extraction

    with torch.device("meta"):
        model = getattr(models, name)(**({"init_weights": False} if name == "googlenet" else {}))
    names = feature_extraction.get_graph_node_names(model, suppress_diff_warning=True)
    assert (*map(len, names), hashlib.md5(repr(names).encode()).hexdigest()) == NODES[name]
    assert model.training


class Twice(nn.Module):
    """A module that is called twice, with operations beside it that only training has."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        self.fc = nn.Linear(2, 3)
        self.drop = nn.Dropout()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.inner(self.inner(x) + 1)) + x
        return self.fc(self.drop(x) if self.training else x)


def test_nodes_of_programs_and_their_results() -> None:
    from flambeau.vision.models import feature_extraction

    extract, names_of = feature_extraction.create_feature_extractor, feature_extraction.get_graph_node_names
    model = Twice()
    with pytest.warns(UserWarning, match="in eval mode are a subsequence of those obtained in train mode"):
        training, evaluating = names_of(model)
    assert training == ["x", "inner.0", "inner.1", "add", "inner.0_1", "inner.1_1", "relu", "add_1", "drop", "fc"]
    assert evaluating == [name for name in training if name != "drop"]
    whole = names_of(model, tracer_kwargs={"leaf_modules": [nn.Sequential]}, suppress_diff_warning=True)
    assert whole[1] == ["x", "inner", "add", "inner_1", "relu", "add_1", "fc"]
    x = torch.randn(3, 2)
    parts = extract(model, {"inner": "last", "add": "sum"}, suppress_diff_warning=True)
    results = parts.eval()(x)
    assert list(results) == ["sum", "last"] and torch.equal(results["last"], model.inner(model.inner(x) + 1))
    assert list(dict(parts.named_children())) == ["inner"] and type(parts).__name__ == "Twice"
    assert torch.equal(copy.deepcopy(parts)(x)["last"], results["last"]) and torch.equal(copy.copy(parts)(x)["sum"], results["sum"])
    both = extract(model, train_return_nodes=["drop"], eval_return_nodes=["relu"], suppress_diff_warning=True)
    assert list(both.train()(x)) == ["drop"] and list(both.eval()(x)) == ["relu"] and model.training
    assert extract(model, [], suppress_diff_warning=True)(x) == {}
    results["last"].sum().backward()
    assert model.inner[0].weight.grad is not None


def test_nodes_that_are_not_there() -> None:
    from flambeau.vision.models import feature_extraction

    model = Twice()
    for arguments, words in (
        ({"return_nodes": ["flatten"]}, "node: 'flatten' is not present in model. Hint"),
        ({"return_nodes": ["drop"]}, "node: 'drop' is not present"),
        ({}, "Either `return_nodes`"),
        ({"train_return_nodes": ["inner"]}, "both should be specified"),
        ({"return_nodes": ["inner"], "train_return_nodes": ["inner"], "eval_return_nodes": ["inner"]}, "both should be specified"),
    ):
        with pytest.raises(ValueError, match=words):
            feature_extraction.create_feature_extractor(model, **arguments)
    assert model.training


def test_quantized_models_are_not_supported() -> None:
    with pytest.raises(NotImplementedError, match="quantization.resnet18 is not supported"):
        from flambeau.vision.models.quantization import resnet18  # noqa: F401


def test_arguments_taken_from_another_class_come_by_position_and_name() -> None:
    kind = models.swin_transformer.ShiftedWindowAttentionV2
    names = list(inspect.signature(kind).parameters)
    assert names == list(inspect.signature(models.swin_transformer.ShiftedWindowAttention).parameters)
    by_position, by_name = kind(8, [2, 2], [0, 1], 2, False), kind(8, shift_size=[0, 1], window_size=[2, 2], num_heads=2, qkv_bias=False)
    assert [(name, value.shape) for name, value in by_position.state_dict().items()] == [
        (name, value.shape) for name, value in by_name.state_dict().items()
    ]
    assert by_position.shift_size == by_name.shift_size == [0, 1] and by_position.qkv.bias is None
    for arguments, keywords in (
        ((8, [2, 2], [0, 1]), {}),
        ((8, [2, 2], [0, 1], 2), {"dim": 8}),
        ((1,) * 9, {}),
        ((8, [2], [1], 2), {"dims": 8}),
    ):
        with pytest.raises(TypeError):
            kind(*arguments, **keywords)
    block = models.swin_transformer.SwinTransformerBlockV2(8, 2, [2, 2], [0, 0])
    assert isinstance(block.attn, kind)
    plain = models.swin_transformer.ShiftedWindowAttention
    assert type(models.swin_transformer.SwinTransformerBlockV2(8, 2, [2, 2], [0, 0], attn_layer=plain).attn) is plain
