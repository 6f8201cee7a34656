"""Lazy modules and uninitialized parameters: what can be done before the first call, and what the first call does."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import flambeau
from flambeau import nn

# Class, arguments, keyword arguments, shape of an input.
LAZY = [
    ("Linear", (4,), {}, (2, 3)),
    ("Linear", (4, False), {}, (3,)),
    *((f"Conv{dims}d", (4, 3), {"groups": 2}, (2, 6, *(5,) * dims)) for dims in (1, 2, 3)),
    *((f"ConvTranspose{dims}d", (4, 3), {"bias": False, "groups": 2}, (2, 6, *(5,) * dims)) for dims in (1, 2, 3)),
    ("Conv2d", (4, 3), {"padding": "same", "padding_mode": "reflect"}, (3, 6, 6)),
    *((f"{kind}Norm{dims}d", (), {}, (2, 3, *(5,) * dims)) for kind in ("Batch", "Instance") for dims in (1, 2, 3)),
    ("BatchNorm2d", (1e-3, 0.2), {"bias": False}, (2, 3, 4, 4)),
    ("BatchNorm1d", (), {"affine": False, "track_running_stats": False}, (2, 3, 4)),
    ("InstanceNorm1d", (), {"track_running_stats": False}, (2, 3, 4)),
]
IDS = [f"{name}-{number}" for number, (name, *_) in enumerate(LAZY)]


@pytest.mark.parametrize(("name", "args", "kwargs", "shape"), LAZY, ids=IDS)
def test_the_first_call(same, name, args, kwargs, shape):
    def program(torch):
        layer = getattr(torch.nn, "Lazy" + name)(*args, **kwargs)
        before = [repr(layer), [repr(value) for value in layer.state_dict().values()], layer.has_uninitialized_params()]
        torch.manual_seed(1)
        out = layer(torch.ones(shape))
        same_class = type(layer) is getattr(torch.nn, name)
        members = sorted(name for name in vars(layer) if name not in ("_reversed_padding_repeated_twice",))
        return [before, list(out.shape), repr(layer), layer.state_dict(), same_class, members, len(layer._forward_pre_hooks)]

    same(program)


@pytest.mark.parametrize("name", ["Linear", "Conv1d", "ConvTranspose2d", "BatchNorm1d", "InstanceNorm2d"])
def test_states(same, name):
    def program(torch):
        shape = (2, 3, 5, 5) if "2d" in name else (2, 3) if name == "Linear" else (2, 3, 5)
        args = {"Linear": (4,), "Conv1d": (4, 3), "ConvTranspose2d": (4, 3)}.get(name, ())
        kwargs = {"affine": True, "track_running_stats": True} if "Norm" in name else {}
        usual = getattr(torch.nn, name)(3, *args, **kwargs)
        lazy, other = (getattr(torch.nn, "Lazy" + name)(*args) for _ in range(2))
        return [
            repr(other.load_state_dict(lazy.state_dict())),
            other.has_uninitialized_params(),
            lambda: usual.load_state_dict(lazy.state_dict()),
            repr(lazy.load_state_dict(usual.state_dict())),
            lazy.has_uninitialized_params(),
            repr(lazy),
            lazy.state_dict(),
            lambda: lazy(torch.ones(shape)).shape,
            repr(lazy),
            lambda: other.share_memory(),
        ]

    same(program)


def test_conversion_and_copies(same):
    def program(torch):
        layer = torch.nn.LazyLinear(2).double()
        dtypes = [str(parameter.dtype) for parameter in layer.parameters()]
        copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(torch.nn.LazyLinear(2)))]
        parameter = torch.nn.UninitializedParameter(requires_grad=False, dtype=torch.float16)
        copied = copy.deepcopy(parameter)
        whole = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.ReLU(), torch.nn.LazyLinear(2))
        outcome = [dtypes, repr(layer.to("cpu")), list(layer(torch.ones(1, 3, dtype=torch.float64)).shape)]
        outcome += [[repr(one), list(one(torch.ones(1, 3, dtype=one.weight.dtype)).shape), repr(one)] for one in copies]
        return [*outcome, repr(copied), copied.requires_grad, str(copied.dtype), list(whole(torch.ones(1, 5)).shape), repr(whole)]

    same(program)


def test_a_whole_lazy_module_in_a_file():
    file = io.BytesIO()
    flambeau.save(nn.LazyLinear(4), file)
    file.seek(0)
    loaded = flambeau.load(file, weights_only=False)
    assert loaded(flambeau.ones(2, 3)).shape == (2, 4)
    assert type(loaded) is nn.Linear


def test_uninitialized_tensors(same):
    def program(torch):
        parameter, buffer = torch.nn.UninitializedParameter(), torch.nn.UninitializedBuffer(persistent=False)
        facts = [
            repr(parameter),
            repr(buffer),
            isinstance(parameter, torch.nn.Parameter),
            isinstance(buffer, torch.nn.Buffer),
            (parameter.requires_grad, buffer.requires_grad, buffer.persistent, parameter.is_leaf, str(parameter.device)),
            lambda: torch.nn.UninitializedParameter().shape,
            lambda: torch.nn.UninitializedBuffer().share_memory_(),
            torch.nn.parameter.is_lazy(parameter),
            str(parameter.double().dtype),
        ]
        parameter.materialize((2, 3))
        buffer.materialize((2,), dtype=torch.float64)
        types = [type(parameter) is torch.nn.Parameter, type(buffer) is torch.Tensor, str(buffer.dtype), list(parameter.shape)]
        return [facts, types, parameter.requires_grad, buffer.persistent, (parameter * 0).sum().grad_fn is not None]

    same(program)


USES = {
    "an operation": lambda p: p + 1,
    "a function": lambda p: flambeau.add(p, 1),
    "an operation on the right": lambda p: 1 * p,
    "an in-place operation": lambda p: p.zero_(),
    "numel": lambda p: p.numel(),
    "dim": lambda p: p.dim(),
    "len": len,
    "an index": lambda p: p[0],
    "detach": lambda p: p.detach(),
    "requires_grad_": lambda p: p.requires_grad_(False),
    "tolist": lambda p: p.tolist(),
    "backward": lambda p: p.backward(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_uninitialized_tensors_cannot_be_used(use):
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
        use(nn.UninitializedParameter())


def test_a_layer_with_a_loaded_weight_looks_at_its_first_input(of_pytorch):
    """The sizes that a state gives may be none that the input has."""

    def program(torch):
        outcomes = []
        for sizes in (((3, 4), (3,)), ((1,), (1,)), ((3, 5), (3,)), ((0, 4), (0,))):
            layer = torch.nn.LazyLinear(3)
            layer.load_state_dict({name: torch.ones(size) for name, size in zip(("weight", "bias"), sizes, strict=True)})
            try:
                outcomes.append([list(layer(torch.ones(2, 4)).shape), repr(layer)])
            except Exception as error:
                outcomes.append(type(error).__name__)
        return outcomes

    assert program(flambeau) == of_pytorch(program)


def test_errors(same):
    def program(torch):
        class Unfinished(torch.nn.modules.lazy.LazyModuleMixin, torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.UninitializedParameter()

            def forward(self, x):
                return x * self.weight

        class Forgetful(Unfinished):
            def initialize_parameters(self, x):
                pass

        class Whole(Unfinished):
            def initialize_parameters(self, x):
                if self.has_uninitialized_params():
                    self.weight.materialize(x.shape)
                    torch.nn.init.ones_(self.weight)

        whole = Whole()
        return [
            lambda: Unfinished()(torch.ones(2)),
            lambda: Forgetful()(torch.ones(2)),
            whole(torch.ones(2)),
            type(whole) is Whole,
            lambda: torch.nn.LazyConv2d(4, 3)(torch.ones(8, 8)),
            lambda: torch.nn.LazyConv1d(4, 3, groups=2)(torch.ones(1, 3, 8)),
            lambda: torch.nn.LazyConvTranspose3d(4, 3)(torch.ones(3, 8, 8)),
            lambda: torch.nn.LazyConv2d(4, 3, groups=0),
            lambda: torch.nn.LazyBatchNorm2d()(torch.ones(3, 8, 8)),
        ]

    same(program)
