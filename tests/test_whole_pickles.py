"""Whole modules, optimizers and checkpoints in files: those of PyTorch load here, ours load in PyTorch, and training goes on in step.

The models are those of ``whole_models.py``, which is run once for each library: in both, files call its classes ``whole_models.GPT``.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import io
import pickle
import pickletools
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau
import flambeau.runner
from flambeau.serialization.homes import public_object, spelling

torch = pytorch()
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")]

SOURCE = Path(__file__).parent / "helpers" / "whole_models.py"
KINDS = ("mlp_with_hooks", "convolutions", "lstm", "gru", "transformer", "normed", "gpt")
FORMS = pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "legacy"])


def models_for(library: Any) -> types.ModuleType:
    """The module ``whole_models`` with ``torch`` meaning ``library``."""
    module = types.ModuleType("whole_models")
    module.__file__, module.torch = str(SOURCE), library  # PyTorch puts the source into old files
    exec(compile(SOURCE.read_text(), SOURCE, "exec"), vars(module))
    return module


MODELS = {library: models_for(library) for library in (flambeau, torch)}


def written(library: Any, value: Any, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> bytes:
    monkeypatch.setitem(sys.modules, "whole_models", MODELS[library])
    buffer = io.BytesIO()
    library.save(value, buffer, **arguments)
    return buffer.getvalue()


def read(library: Any, data: bytes, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "whole_models", MODELS[library])
    return library.load(io.BytesIO(data), weights_only=False)


def globals_of(pickled: bytes) -> set[str]:
    return {argument.replace(" ", ".") for opcode, argument, _ in pickletools.genops(pickled) if opcode.name == "GLOBAL"}


def checkpoint(library: Any, kind: str) -> dict[str, Any]:
    """A model after two steps of training, with all that a program needs to go on."""
    library.manual_seed(3)
    model, step = MODELS[library].build(kind), MODELS[library].step
    optimizer = library.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = library.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=20)
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    state["losses"] = [step(kind, state) for _ in range(2)]
    return {**state, "state_dict": optimizer.state_dict(), "rng": library.get_rng_state()}


@FORMS
@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_go_on_in_the_other_library(kind: str, is_zip: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    for here, there in ((flambeau, torch), (torch, flambeau)):
        state = checkpoint(here, kind)
        data = written(here, state, monkeypatch, _use_new_zipfile_serialization=is_zip)
        other = read(there, data, monkeypatch)
        assert type(other["model"]) is getattr(MODELS[there], type(state["model"]).__name__, type(other["model"]))
        assert list(other["model"].state_dict()) == list(state["model"].state_dict())
        # parameters and the optimizer's are one memory again, as the next losses show
        for library, value in ((here, state), (there, other)):
            library.set_rng_state(value["rng"])
            value["losses"] = [MODELS[library].step(kind, value) for _ in range(3)]
        np.testing.assert_allclose(other["losses"], state["losses"], rtol=1e-4)
        assert len(set(other["losses"])) == 3
        assert other["scheduler"].get_last_lr() == pytest.approx(state["scheduler"].get_last_lr())
        again = read(here, written(there, other, monkeypatch, _use_new_zipfile_serialization=is_zip), monkeypatch)
        further = []
        for value in (again, state):
            here.manual_seed(9)
            further.append(MODELS[here].step(kind, value))
        assert further[0] == pytest.approx(further[1], rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_names_nothing_but_pytorchs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = {}
    for library in (flambeau, torch):
        written(library, checkpoint(library, kind), monkeypatch)  # it loads the module of the models
        buffer = io.BytesIO()
        library.save(checkpoint(library, kind), buffer, _use_new_zipfile_serialization=False)
        buffer.seek(0)
        for _ in range(3):
            pickle.load(buffer)
        start = buffer.tell()
        named[library] = globals_of(buffer.getvalue()[start:])
    assert {name for name in named[flambeau] if name.startswith("flambeau")} == set()
    # PyTorch's file names a function in C++ by where it is defined; both names are known there.
    assert named[flambeau] == {name.replace("torch._C._nn", "torch.nn.functional") for name in named[torch]}


NAMESPACES = (
    "nn nn.modules nn.modules.batchnorm nn.modules.conv nn.modules.module nn.utils.parametrizations nn.utils.parametrize nn.utils.prune "
    "nn.utils.rnn nn.utils.spectral_norm nn.utils.weight_norm nn.parameter optim optim.lr_scheduler optim.swa_utils utils.data utils.hooks "
    "utils.data.dataset utils.data.sampler amp autograd autograd.function"
).split()


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_classes_are_named_where_pytorch_defines_them(namespace: str) -> None:
    ours, theirs = (importlib.import_module(f"{library}.{namespace}") for library in ("flambeau", "torch"))
    checked = 0
    for name, value in vars(theirs).items():
        other = getattr(ours, name, None)
        if not isinstance(value, type) or not isinstance(other, type) or not value.__module__.startswith("torch.") or name.startswith("__"):
            continue
        if name == "BackwardCFunction":  # one class here for the context of a function and the node
            continue
        if name in ("DeviceType", "ProfilerActivity"):  # of profiles, which no file holds; PyTorch has them in C++
            continue
        assert spelling(other) == (value.__module__, value.__qualname__)
        assert public_object(value.__module__, value.__qualname__) is other
        checked += 1
    assert checked


@pytest.mark.parametrize("namespace", ["", ".nn.functional", ".linalg", ".special", ".nn.init"])
def test_functions_are_named_so_that_pytorch_finds_them(namespace: str) -> None:
    ours, theirs = (importlib.import_module(f"{library}{namespace}") for library in ("flambeau", "torch"))
    checked = 0
    for name in dir(theirs):
        value, other = getattr(theirs, name), getattr(ours, name, None)
        if name.startswith("_") or inspect.isclass(value) or not isinstance(other, types.FunctionType) or not hasattr(value, "__module__"):
            continue
        if not (value.__module__ or "torch").startswith("torch"):
            continue
        spelled = spelling(other)
        if spelled is None or spelled[0].startswith(("torch.autograd", "torch.amp")):  # switches, which nothing that is saved holds
            continue
        found: Any = importlib.import_module(spelled[0])
        for part in spelled[1].split("."):
            found = getattr(found, part)
        assert callable(found), name
        checked += 1
    assert checked


def test_pytorchs_functions_and_results_with_names_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [torch.tanh, torch.nn.functional.relu, torch.nn.functional.gelu, torch.special.expm1, torch.linalg.norm, torch.Tensor.add]
    back = read(flambeau, written(torch, functions, monkeypatch), monkeypatch)
    assert back[:3] == [flambeau.tanh, flambeau.nn.functional.relu, flambeau.nn.functional.gelu]
    assert back[3:] == [flambeau.special.expm1, flambeau.linalg.norm, flambeau.Tensor.add]
    ours = [flambeau.tanh, flambeau.nn.functional.relu, flambeau.nn.functional.gelu, flambeau.special.expm1]
    theirs = read(torch, written(flambeau, ours, monkeypatch), monkeypatch)
    assert [function.__name__ for function in theirs] == ["tanh", "relu", "gelu", "special_expm1"] or theirs[3](torch.ones(1)).item() > 1
    for here, there in ((flambeau, torch), (torch, flambeau)):
        largest = read(there, written(here, here.max(here.tensor([[1.0, 3.0]]), 1), monkeypatch), monkeypatch)
        assert type(largest) is there.return_types.max and (largest.values.item(), largest.indices.item()) == (3.0, 1)


def test_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    for here, there in ((flambeau, torch), (torch, flambeau)):
        generator = here.Generator().manual_seed(5)
        here.rand(3, generator=generator)
        other = read(there, written(here, generator, monkeypatch), monkeypatch)
        assert there.rand(3, generator=other).tolist() == here.rand(3, generator=generator).tolist()


def test_hooks_of_state_dicts_and_lazy_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    for here, there in ((flambeau, torch), (torch, flambeau)):
        models = MODELS[here]
        linear = here.nn.Linear(2, 2)
        linear.register_load_state_dict_pre_hook(models.prefixed)
        handle = linear.register_forward_hook(models.doubled)
        other, lazy, other_handle = read(there, written(here, [linear, here.nn.LazyLinear(3), handle], monkeypatch), monkeypatch)
        other.load_state_dict({"old_weight": there.ones(2, 2), "old_bias": there.zeros(2)})
        assert other(there.ones(1, 2)).tolist() == [[4.0, 4.0]]
        other_handle.remove()
        assert other(there.ones(1, 2)).tolist() == [[2.0, 2.0]]
        assert lazy(there.ones(2, 5)).shape == (2, 3) and type(lazy) is there.nn.Linear


def two_steps(state: dict[str, Any]) -> Any:
    """The weight two steps later."""
    for _ in range(2):
        state["optimizer"].zero_grad()
        weight = state["weight"]
        (weight**2).sum().backward()
        if type(state["optimizer"]).__name__ == "SparseAdam":
            weight.grad = weight.grad.to_sparse(1)
        state["optimizer"].step()
    return state["weight"].tolist()


# PyTorch's LBFGS has lost its parameters once it is pickled.
OPTIMIZERS = sorted(name for name in flambeau.optim.__all__ if name[0].isupper() and name not in ("Optimizer", "LBFGS"))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_go_on_in_the_other_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for here, there in ((flambeau, torch), (torch, flambeau)):
        weight = here.nn.Parameter(here.arange(9.0).reshape(3, 3) / 9)
        state = {"weight": weight, "optimizer": getattr(here.optim, name)([weight], lr=0.01)}
        two_steps(state)
        other = read(there, written(here, state, monkeypatch), monkeypatch)
        np.testing.assert_allclose(two_steps(other), two_steps(state), rtol=1e-4)


# PyTorch warns so when it steps a SequentialLR that it has itself read from a file.
@pytest.mark.filterwarnings("ignore:Seems like `optimizer.step:UserWarning")
def test_schedules_and_averaged_models(monkeypatch: pytest.MonkeyPatch) -> None:
    for here, there in ((flambeau, torch), (torch, flambeau)):
        net = here.nn.Linear(2, 2)
        optimizer = here.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        schedules = here.optim.lr_scheduler
        for schedule in (
            schedules.StepLR(optimizer, 2),
            schedules.CyclicLR(optimizer, 0.1, 0.2, step_size_up=2),
            schedules.SequentialLR(optimizer, [schedules.ConstantLR(optimizer), schedules.CosineAnnealingLR(optimizer, 5)], [2]),
            schedules.LambdaLR(optimizer, MODELS[here].halved),
        ):
            optimizer.step()
            schedule.step()
            other = read(there, written(here, schedule, monkeypatch), monkeypatch)
            for _ in range(3):
                for value in (schedule, other):
                    value.optimizer.step()
                    value.step()
                assert other.get_last_lr() == pytest.approx(schedule.get_last_lr())
        plateau = read(there, written(here, schedules.ReduceLROnPlateau(optimizer, patience=0), monkeypatch), monkeypatch)
        plateau.step(1.0)
        plateau.step(1.0)
        averaged = here.optim.swa_utils.AveragedModel(net)
        other = read(there, written(here, averaged, monkeypatch), monkeypatch)
        other.update_parameters(other.module)
        assert other.n_averaged.item() == 1 and type(other) is there.optim.swa_utils.AveragedModel


def test_parametrized_modules_are_refused_and_copied_as_in_pytorch() -> None:
    for library in (flambeau, torch):
        layer = library.nn.utils.parametrizations.weight_norm(library.nn.Linear(2, 2))
        copied = copy.deepcopy(layer)
        assert copied.weight.tolist() == layer.weight.tolist()
        with pytest.raises(RuntimeError, match="Serialization of parametrized modules is only supported through state_dict"):
            library.save(layer, io.BytesIO())


def test_plain_pickle_keeps_flambeaus_names_and_reads_pytorchs_under_the_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    net = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3), flambeau.nn.BatchNorm1d(3))
    data = pickle.dumps(net, 2)
    assert any(name.startswith("flambeau.nn") for name in globals_of(data)) and not any(
        name.startswith("torch") for name in globals_of(data)
    )
    assert [type(layer) for layer in pickle.loads(data)] == [flambeau.nn.Linear, flambeau.nn.BatchNorm1d]
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.ReLU())
    data = pickle.dumps([theirs, torch.nn.utils.rnn.pack_sequence([torch.ones(2)])])
    with flambeau.runner.install():
        ours, packed = pickle.loads(data)
    assert [type(layer) for layer in ours] == [flambeau.nn.Linear, flambeau.nn.BatchNorm1d, flambeau.nn.ReLU]
    assert ours[0].weight.tolist() == theirs[0].weight.tolist() and type(packed) is flambeau.nn.utils.rnn.PackedSequence
