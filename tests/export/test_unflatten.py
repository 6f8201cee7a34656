"""Modules around nodes of exported programs, and programs as modules again."""

from __future__ import annotations

import copy
import io
import json
import re
import threading
import zipfile
from typing import Any

import pytest
from oracle import pytorch

import flambeau as torch
from flambeau import nn
from flambeau.export import FlatArgsAdapter, export, load, save, unflatten


def network(lib: Any) -> Any:
    """A module that is called several times, in several ways, and that has several names."""

    class Block(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.calls = lib.nn.Linear(4, 4), 0
            self.register_buffer("count", lib.zeros(1))

        def forward(self, pair: Any, *, scale: float = 1.0) -> Any:
            self.count.add_(1)
            self.calls += 1
            y = self.linear(pair[0]) * scale + pair[1]["a"]
            return {"y": y.sin() if self.calls % 3 == 2 else y, "count": self.count * 1}

    class Net(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()
            self.same = self.block
            self.tail = lib.nn.Sequential(lib.nn.Linear(4, 4), lib.nn.ReLU())
            self.weights = lib.ones(4)

        def forward(self, x: Any, z: Any) -> Any:
            first = self.block((x, {"a": z}), scale=2.0)
            second = self.block((first["y"], {"a": x}), scale=2.0)
            third = self.same((second["y"], {"a": x}), scale=2.0)
            return self.tail(third["y"]) * self.weights + self.block.linear(x), [first["count"], third["count"]]

    return Net()


def inputs(lib: Any, rows: int = 3) -> tuple[Any, Any]:
    return lib.arange(4.0 * rows).reshape(rows, 4) / 10, lib.ones(rows, 4)


def described(lib: Any, kept: tuple[str, ...]) -> list[str]:
    """Everything about an unflattened module but values and strings of classes."""
    batch = lib.export.Dim("batch", min=2)
    program = lib.export.export(network(lib), inputs(lib), dynamic_shapes=({0: batch}, {0: batch}), preserve_module_call_signature=kept)
    text = [f"{node.name} {list(node.meta.get('nn_module_stack', {}).items())}" for node in program.graph.nodes if "sym" not in node.name]
    module = lib.export.unflatten(program)
    graphs = [f"{name}: {getattr(part, 'graph', type(part).__name__)}" for name, part in module.named_modules()]
    text += [str(module), *[line for graph in graphs for line in graph.split("\n") if "get_attr[target=block.count" not in line]]
    text += [str(entry).replace("_export_root.", "") for entry in program.module_call_graph] + list(module.state_dict())
    return [re.sub(r"test_unflatten\.network\.<locals>", "", re.sub(r"\S*test_unflatten", "test_unflatten", line)) for line in text]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kept", [(), ("block",), ("tail", "tail.0")])
def test_graphs_of_modules_are_pytorchs(kept: tuple[str, ...]) -> None:
    assert described(torch, kept) == described(pytorch(), kept)


@pytest.mark.parametrize("kept", [(), ("block",), ("tail",)])
@pytest.mark.parametrize("is_divided", [False, True])
@pytest.mark.parametrize("is_from_file", [False, True])
def test_unflattened_modules_do_what_the_program_does(kept: tuple[str, ...], is_divided: bool, is_from_file: bool) -> None:
    batch = torch.export.Dim("batch", min=2)
    program = export(network(torch), inputs(torch), dynamic_shapes=({0: batch}, {0: batch}), preserve_module_call_signature=kept)
    if is_divided:
        program = program.run_decompositions()
    if is_from_file:
        save(program, file := io.BytesIO())
        file.seek(0)
        program = load(file)
    given = inputs(torch, 5)
    wanted = program.module()(*given)  # which writes to the buffers of the program
    count = program.state_dict["block.count"]
    module = unflatten(program)
    found = module(*given)
    assert count.tolist() == [3.0]  # the module has copies
    torch.testing.assert_close(found[0], wanted[0])
    assert module.block.count.tolist() == (count + 3).tolist() == [6.0]
    assert [each.tolist() for each in found[1]] == [[count.item() + 1], [count.item() + 3]]
    found[0].sum().backward()
    weights = [module.state_dict(keep_vars=True)[f"{name}.linear.weight"] for name in ("same", "block")]
    assert weights[0].grad is weights[1].grad is not None


def test_a_module_with_its_signature_can_be_exchanged() -> None:
    class Other(nn.Module):
        def forward(self, pair: Any, *, scale: float) -> Any:
            return {"y": pair[0] * scale, "count": torch.zeros(1)}

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = type(network(torch).block)()

        def forward(self, x: Any) -> Any:
            first = self.block((x, {"a": x}), scale=3.0)
            return self.block((first["y"], {"a": x}), scale=3.0)["y"]

    module = unflatten(export(Outer(), (torch.ones(2, 4),), preserve_module_call_signature=("block",)))
    module.block = Other()
    assert module(torch.ones(2, 4)).tolist() == [[9.0] * 4] * 2


def test_arguments_are_checked_and_adapted() -> None:
    class Swapped(FlatArgsAdapter):
        def adapt(self, target_spec: Any, input_spec: Any, input_args: Any, metadata: Any = None, obj: Any = None) -> Any:
            assert target_spec.num_leaves == 2 and input_spec.num_leaves == len(input_args) and set(metadata) >= {"unflattened_module"}
            return [input_args[1], input_args[0]]

    class Halved(nn.Module):
        def forward(self, x: Any, *, y: Any) -> Any:
            return x / y

    one, two = torch.ones(2), torch.full((2,), 2.0)
    program = export(Halved(), (one,), {"y": two})
    assert unflatten(program, Swapped())(two, one).tolist() == [0.5, 0.5]
    module = unflatten(program)
    assert module(one, y=two).tolist() == [0.5, 0.5]
    with pytest.raises(TypeError, match="There is no flat args adapter specified"):
        module(one, two)
    with pytest.raises(ValueError, match=r"Got the following keywords \['z'\] but expected \['y'\]"):
        module(one, z=two)
    with pytest.raises(RuntimeError, match=r"\*args\[0\]\.shape\[0\] to be equal to 2, but got 3"):
        module(torch.ones(3), y=two)
    with pytest.raises(RuntimeError, match="to be a tensor, but got"):
        module(1, y=two)


def test_calls_of_other_structures_cannot_be_kept() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Identity(), nn.Identity()
            self.inner = nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.inner((self.inner(x), x))[0]

    with pytest.raises(AssertionError, match="in_spec mismatch"):
        export(Twice(), (torch.ones(1),), preserve_module_call_signature=("inner",))
    with pytest.raises(AttributeError, match="nothing"):
        export(Twice(), (torch.ones(1),), preserve_module_call_signature=("nothing",))


def test_lines_of_the_program_stand_in_notes() -> None:
    program = export(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), (torch.ones(1, 2),))
    (linear, relu) = [node for node in program.graph.nodes if node.op == "call_function"]
    assert linear.meta["stack_trace"].endswith("return F.linear(input, self.weight, self.bias)")
    assert relu.meta["torch_fn"] == ("relu_1", "function.relu")
    (t, addmm, relu) = [node for node in program.run_decompositions().graph.nodes if node.op == "call_function"]
    assert t.meta["nn_module_stack"] == addmm.meta["nn_module_stack"] == linear.meta["nn_module_stack"] != relu.meta["nn_module_stack"]
    assert addmm.meta["original_aten"] is torch.ops.aten.addmm.default


def test_parts_of_results_are_within_the_modules_of_their_operations() -> None:
    layers = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.ReLU()), nn.Linear(2, 2)).eval()
    program = export(layers, (torch.ones(3, 2),)).run_decompositions()
    save(program, file := io.BytesIO())
    file.seek(0)
    module = unflatten(load(file))
    assert [name for name, _ in module.named_modules()] == [name for name, _ in layers.named_modules()]
    torch.testing.assert_close(copy.deepcopy(module)(torch.ones(3, 2)), layers(torch.ones(3, 2)))


def test_modules_within_many_others() -> None:
    class Around(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(self.inner(x))

    layers: nn.Module = nn.ReLU()
    for _ in range(5):
        layers = Around(layers)
    module = unflatten(export(layers, (torch.ones(1),)))
    assert len(list(module.modules())) == 6  # calls of equal graphs share one
    layers = nn.Sequential(nn.ReLU())
    for _ in range(40):
        layers = nn.Sequential(layers)
    assert unflatten(export(layers, (torch.ones(1),)))(torch.tensor([-1.0])).tolist() == [0.0]


@pytest.mark.parametrize("path", ['x"+print(1)+"', 'x") or print(1) or ("', "x\\", "x\nprint(1)\n", "x' + print(1) + '"])
def test_paths_of_modules_in_a_file_do_not_run(path: str, capsys: Any) -> None:
    save(export(nn.Sequential(nn.ReLU()), (torch.ones(1),)), file := io.BytesIO())
    made = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(made, "w") as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name).replace(b"L__self__0,0,", f"L__self__0,{json.dumps(path)[1:-1]},".encode()))
    assert json.dumps(path)[1:-1].encode() in made.getvalue()
    module = unflatten(load(made))
    assert module(torch.tensor([-1.0])).tolist() == [0.0] and path in module._modules
    assert not capsys.readouterr().out


def test_programs_may_be_exported_in_several_threads() -> None:
    call, started, ready = nn.Module.__call__, threading.Barrier(2, timeout=20), threading.Event()

    class Waiting(nn.Module):
        def __init__(self, last: bool) -> None:
            super().__init__()
            self.last = last

        def forward(self, x: Any) -> Any:
            if not ready.is_set():  # a program is run several times
                started.wait()
                if self.last:
                    assert ready.wait(20)
            return x.relu()

    def exported(last: bool) -> None:
        found[last] = export(nn.Sequential(nn.Sequential(Waiting(last)), nn.Tanh()), (torch.ones(2),))
        ready.set()

    found: dict[bool, Any] = {}
    threads = [threading.Thread(target=exported, args=(last,)) for last in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert nn.Module.__call__ is call
    for last in (False, True):
        (relu, tanh) = [list(node.meta["nn_module_stack"]) for node in found[last].graph.nodes if node.op == "call_function"]
        assert relu == ["L__self__", "L__self__0", "L__self__0.0"] and tanh == ["L__self__", "L__self__1"]


def test_modules_that_forward_sets_stay() -> None:
    class Set(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.ReLU()
            self.same = self.one

        def forward(self, x: Any) -> Any:
            if not hasattr(self, "late"):
                self.late = nn.Tanh()
            return self.late(self.one(x) + self.same(x))

    module = Set()
    export(module, (torch.ones(2),))
    assert list(module._modules) == ["one", "same", "late"] and type(module._modules) is dict
