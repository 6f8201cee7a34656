"""Pruning, fusion, stateless calls and memory formats: PyTorch's results, state and messages."""

from __future__ import annotations

import importlib
import inspect
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import stateless


def _prune(torch):
    return importlib.import_module(f"{torch.__name__}.nn.utils.prune")


def test_pruning_is_pytorchs(same):
    def program(torch):
        prune, outcomes = _prune(torch), []
        for name, args in (
            ("identity", ()),
            ("random_unstructured", (0.3,)),
            ("random_unstructured", (5,)),
            ("l1_unstructured", (0.5,)),
            ("l1_unstructured", (0,)),
            ("random_structured", (2, 1)),
            ("random_structured", (0.4, 0)),
            ("ln_structured", (1, 2, 0)),
            ("ln_structured", (0.5, float("inf"), -1)),
        ):
            layer = torch.nn.Linear(5, 4)
            getattr(prune, name)(layer, "weight", *args)
            outcomes += [list(layer.state_dict()), layer.weight_mask, layer.weight, prune.is_pruned(layer)]
            layer(torch.ones(5)).sum().backward()
            outcomes += [layer.weight_orig.grad, [name for name, _ in layer.named_parameters()]]
            prune.l1_unstructured(layer, "weight", 3)
            outcomes += [layer.weight_mask]
            prune.random_structured(layer, "weight", 1, 0)
            container = next(iter(layer._forward_pre_hooks.values()))
            outcomes += [layer.weight_mask, type(container).__name__, len(container), type(container[0]).__name__]
            prune.remove(layer, "weight")
            outcomes += [layer.state_dict(), prune.is_pruned(layer), type(layer.weight).__name__]
        return outcomes

    same(program)


def test_masks_scores_and_global_pruning(same):
    def program(torch):
        prune = _prune(torch)
        first, second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
        prune.custom_from_mask(first, "bias", torch.tensor([1, 0, 1, 1]))
        prune.l1_unstructured(first, "weight", 4, importance_scores=torch.arange(12.0).reshape(4, 3))
        prune.ln_structured(second, "weight", 1, 1, 1, importance_scores=torch.arange(8.0).reshape(2, 4))
        outcomes = [first.bias, first.weight, second.weight]
        pairs = [(first, "weight"), (second, "weight"), (second, "bias")]
        prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=0.5)
        outcomes += [getattr(module, f"{name}_mask") for module, name in pairs]
        prune.global_unstructured(pairs, prune.RandomUnstructured, {(second, "bias"): torch.ones(2)}, amount=3)
        outcomes += [getattr(module, f"{name}_mask") for module, name in pairs]
        method = prune.L1Unstructured(2)
        outcomes += [method.prune(torch.arange(4.0)), method.prune(torch.arange(4.0), importance_scores=-torch.arange(4.0))]

        class Even(prune.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, t, default_mask):
                mask = default_mask.clone()
                mask.view(-1)[::2] = 0
                return mask

        layer = torch.nn.Linear(3, 2)
        Even.apply(layer, "weight")
        Even.apply(layer, "weight")
        return [*outcomes, layer.weight_mask]

    same(program)


def test_messages_of_pruning(same):
    def program(torch):
        prune = _prune(torch)

        class Unknown(prune.BasePruningMethod):
            PRUNING_TYPE = "other"

            def compute_mask(self, t, default_mask):
                return default_mask

        pruned = torch.nn.Linear(3, 2)
        prune.identity(pruned, "weight")
        layer = torch.nn.Linear(3, 2)
        container = prune.PruningContainer()
        container._tensor_name = "weight"
        return [
            lambda: prune.L1Unstructured("a"),
            lambda: prune.L1Unstructured(-1),
            lambda: prune.L1Unstructured(1.5),
            lambda: prune.l1_unstructured(layer, "weight", 7),
            list(layer.state_dict()),
            lambda: prune.random_structured(layer, "bias", 1, 0),
            lambda: prune.ln_structured(layer, "weight", 1, 2, 2),
            lambda: prune.l1_unstructured(layer, "weight", 1, importance_scores=torch.ones(2)),
            lambda: prune.L1Unstructured(1).prune(torch.ones(3), importance_scores=torch.ones(2)),
            lambda: prune.custom_from_mask(layer, "weight", torch.ones(2)),
            lambda: prune.remove(layer, "weight"),
            lambda: prune.global_unstructured(3, prune.L1Unstructured, amount=1),
            lambda: prune.global_unstructured([(layer, "weight")], prune.L1Unstructured, importance_scores=[], amount=1),
            lambda: Unknown.apply(pruned, "weight"),
            lambda: container.add_pruning_method(3),
            inspect.isabstract(prune.BasePruningMethod),  # Python's message changes with its version
        ]

    same(program)


FUSED = {
    "conv": (lambda of: of.Conv2d(2, 3, 2), lambda of: of.BatchNorm2d(3), (2, 2, 4, 4), "conv", ()),
    "conv without bias": (lambda of: of.Conv1d(2, 3, 2, bias=False), lambda of: of.BatchNorm1d(3, affine=False), (2, 2, 4), "conv", ()),
    "transposed": (lambda of: of.ConvTranspose2d(2, 3, 2), lambda of: of.BatchNorm2d(3), (2, 2, 4, 4), "conv", (True,)),
    "linear": (lambda of: of.Linear(2, 3, bias=False), lambda of: of.BatchNorm1d(3), (4, 2), "linear", ()),
    "one feature": (lambda of: of.Linear(2, 1), lambda of: of.BatchNorm1d(1), (4, 2), "linear", ()),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_layers_are_pytorchs_and_do_the_same(oracle, name):
    make, normalize, shape, kind, args = FUSED[name]

    def program(torch):
        torch.manual_seed(0)
        layer, norm, input = make(torch.nn), normalize(torch.nn), torch.randn(shape)
        norm(layer(input))
        layer.eval(), norm.eval()
        fused = getattr(torch.nn.utils, f"fuse_{kind}_bn_eval")(layer, norm, *args)
        np.testing.assert_allclose(fused(input).detach().numpy(), norm(layer(input)).detach().numpy(), rtol=1e-4, atol=1e-5)
        return [fused.weight, fused.bias], [fused.weight.requires_grad, fused.bias.requires_grad]

    (mine, flags), (theirs, their_flags) = program(flambeau), program(oracle)
    assert flags == their_flags
    for got, expected in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_fusion_is_for_evaluation(same):
    def program(torch):
        of, utils = torch.nn, torch.nn.utils
        return [
            lambda: utils.fuse_conv_bn_eval(of.Conv2d(1, 1, 1), of.BatchNorm2d(1)),
            lambda: utils.fuse_linear_bn_eval(of.Linear(1, 3).eval(), of.BatchNorm1d(2).eval()),
            lambda: utils.fuse_conv_bn_eval(of.Conv2d(1, 1, 1).eval(), of.BatchNorm2d(1, track_running_stats=False).eval()),
        ]

    same(program)


@pytest.mark.filterwarnings("ignore:.*functional_call")
def test_calls_with_other_parameters(same):
    def program(torch):
        call = importlib.import_module(f"{torch.__name__}.nn.utils.stateless").functional_call
        layer = torch.nn.Linear(2, 2)
        weight = torch.ones(2, 2, requires_grad=True)
        outcomes = [call(layer, {"weight": weight}, torch.ones(2)), layer.weight, layer.state_dict()]
        outcomes[0].sum().backward()
        norm, statistics = torch.nn.BatchNorm1d(2), {"running_mean": torch.zeros(2), "weight": torch.ones(2)}
        call(norm, statistics, (torch.arange(4.0).reshape(2, 2),))
        outcomes += [weight.grad, statistics, norm.running_mean, norm.num_batches_tracked]
        tied = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False))
        tied[1].weight = tied[0].weight
        outcomes += [
            call(tied, {"0.weight": weight}, torch.ones(2)),
            call(tied, {"0.weight": weight}, torch.ones(2), tie_weights=False),
            lambda: call(tied, {"0.weight": weight, "1.weight": torch.zeros(2, 2)}, torch.ones(2)),
            lambda: call(layer, {"other": weight, "bias": weight[0]}, torch.ones(2), strict=True),
            call(layer, {"weight": weight, "bias": weight[0]}, kwargs={"input": torch.ones(2)}, strict=True),
            tied[0].weight is tied[1].weight,
        ]
        return outcomes

    same(program)


def test_a_stateless_call_that_fails_leaves_the_module_as_it_is():
    layer = nn.Linear(2, 2)
    before = layer.weight
    with pytest.warns(FutureWarning, match="torch.func.functional_call"), pytest.raises(RuntimeError):
        stateless.functional_call(layer, {"weight": flambeau.ones(2, 3)}, flambeau.ones(2))
    assert layer.weight is before


def test_memory_formats_of_convolutions(oracle):
    def program(torch):
        of = torch.nn
        model = of.Sequential(of.Conv2d(2, 3, 2), of.ConvTranspose2d(3, 2, 2), of.Conv3d(2, 2, 2), of.Linear(2, 2))
        of.utils.convert_conv2d_weight_memory_format(model, torch.channels_last)
        of.utils.convert_conv3d_weight_memory_format(model, torch.channels_last_3d)
        return [parameter.stride() for parameter in model.parameters()]

    assert program(flambeau) == program(oracle)


def test_public_names(oracle):
    assert set(nn.utils.__all__) >= set(oracle.nn.utils.__all__)
    for name in ("parametrize", "parametrizations", "fusion", "stateless", "memory_format", "weight_norm", "spectral_norm"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mine, theirs = (importlib.import_module(f"{package}.nn.utils.{name}") for package in ("flambeau", "torch"))
        assert set(mine.__all__) == set(theirs.__all__), name
