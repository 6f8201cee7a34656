"""``torch.export.save`` and ``load``: PyTorch's ``.pt2`` files, both ways; and files of anybody's, of which nothing is run."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import lzma
import pickle
import random
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from exported_programs import exported, programs_of
from oracle import pytorch

import flambeau as torch
from flambeau import nn
from flambeau.export import export, load, save
from flambeau.utils._pytree import tree_leaves, tree_structure, tree_unflatten

RECORDED = Path(__file__).parents[1] / "recorded" / "exported.tar.xz"
SIZE = 5
CASES = programs_of(torch)


def plain(leaves: list[Any]) -> list[Any]:
    """Tensors as lists, of either library."""
    return [[str(leaf.dtype).rpartition(".")[2], leaf.tolist()] if hasattr(leaf, "tolist") else leaf for leaf in leaves]


def written(program: Any) -> bytes:
    file = io.BytesIO()
    save(program, file, extra_files={"note": "here"})
    return file.getvalue()


def close(found: list[Any], wanted: list[Any]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        if isinstance(a, torch.Tensor):
            dtype = getattr(torch, b[0])
            torch.testing.assert_close(
                a.detach(), torch.tensor(b[1], dtype=dtype).reshape(a.shape), rtol=1e-4, atol=1e-5, check_stride=False
            )
        else:
            assert a == b


# ---- both ways
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_divided", [False, True])
def test_pytorch_loads_and_runs_what_is_written_here(name: str, is_divided: bool) -> None:
    theirs = pytorch()
    case = CASES[name]
    program = exported(torch, case)
    program = program.run_decompositions() if is_divided else program
    extra = {"note": ""}
    again = theirs.export.load(io.BytesIO(written(program)), extra_files=extra)
    assert extra["note"] in ("here", b"here")
    inputs = case.inputs(SIZE if case.dims else 3)
    leaves = tree_leaves((inputs, case.kwargs))
    other = [
        theirs.tensor(leaf.tolist(), dtype=getattr(theirs, leaf.dtype.name)) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ]
    args, kwargs = tree_unflatten(other, tree_structure((inputs, case.kwargs)))
    found = theirs.utils._pytree.tree_leaves(again.module()(*args, **kwargs))
    close(tree_leaves(program.module()(*inputs, **case.kwargs)), plain(found))


@functools.cache
def recorded() -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(RECORDED.read_bytes()))) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers()}  # type: ignore[union-attr]


@pytest.mark.parametrize("way", ["whole", "kernels"])
@pytest.mark.parametrize("name", CASES)
def test_files_of_pytorch_are_loaded_and_run(name: str, way: str) -> None:
    outcome = json.loads(recorded()["outcomes.json"])[name]
    program = load(io.BytesIO(recorded()[f"{name}.{way}.pt2"]))
    leaves = [torch.tensor(leaf[1], dtype=getattr(torch, leaf[0])) if isinstance(leaf, list) else leaf for leaf in outcome["inputs"]]
    args, kwargs = tree_unflatten(leaves, program.call_spec.in_spec)
    close(tree_leaves(program.module()(*args, **kwargs)), outcome["outputs"])
    assert str(load(io.BytesIO(written(program))).graph) == str(program.graph)


@pytest.mark.parametrize("name", CASES)
def test_programs_come_back_with_their_structure_and_their_sharing(name: str) -> None:
    program = exported(torch, CASES[name])
    again = load(io.BytesIO(written(program)))
    assert str(again.graph) == str(program.graph) and str(again.graph_signature) == str(program.graph_signature)
    assert again.range_constraints == program.range_constraints and again.call_spec == program.call_spec
    for key, tensor in program.state_dict.items():
        other = again.state_dict[key]
        assert type(other) is type(tensor) and other.stride() == tensor.stride() and other.requires_grad == tensor.requires_grad
        assert other.dtype is tensor.dtype and torch.equal(other, tensor)
    if name == "shared":
        assert again.state_dict["out.weight"].data_ptr() == again.state_dict["table.weight"].data_ptr()
        with pytest.raises(AssertionError, match="Guard failed"):
            again.module()(torch.zeros(11, 2, dtype=torch.int64))


# ---- anybody's files
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x, *, y):
        return {"sum": (self.linear(x) + y["z"]).relu()}


@functools.cache
def small() -> bytes:
    model = Small()
    dims = {"x": {0: torch.export.Dim("n")}, "y": {"z": None}}
    return written(export(model, (torch.ones(3, 2),), {"y": {"z": torch.ones(2)}}, dynamic_shapes=dims))


def changed(change: Callable[[str, bytes], bytes | None]) -> bytes:
    """The small program's file with other contents; a file that becomes None is left out."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(small())) as source, zipfile.ZipFile(made, "w") as archive:
        for name in source.namelist():
            content = change(name, source.read(name))
            if content is not None:
                archive.writestr(name, content)
    return made.getvalue()


def run(content: bytes) -> None:
    load(io.BytesIO(content)).module()(torch.ones(3, 2), y={"z": torch.ones(2)})


def test_files_that_are_damaged_or_others_are_refused() -> None:
    run(small())
    whole = small()
    for damaged in (b"", whole[:50], whole[: len(whole) // 2], changed(lambda name, content: None)):
        with pytest.raises(RuntimeError):
            load(io.BytesIO(damaged))
    for name in ("models/model.json", "data/weights/weight_0", "data/weights/model_weights_config.json", "archive_format"):
        with pytest.raises(RuntimeError):
            load(io.BytesIO(changed(lambda place, content, name=name: None if place.endswith(name) else content)))  # type: ignore[misc]
    with pytest.raises(RuntimeError, match="schema"):
        run(changed(lambda name, content: content.replace(b'"major": 8', b'"major": 7')))


def test_any_damage_of_a_compressed_file_is_a_runtime_error() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(small())) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name))
    whole = made.getvalue()
    for place in (*range(40, len(whole), 61), *range(len(whole) - 60, len(whole))):
        for value in (0, 255):
            with contextlib.suppress(RuntimeError):
                load(io.BytesIO(whole[:place] + bytes([value]) + whole[place + 1 :]))
    with pytest.raises(RuntimeError, match="no text"):
        load(io.BytesIO(changed(lambda name, content: b"\xff" if name.endswith("archive_format") else content)))


def test_a_small_file_does_not_become_a_large_one() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(small())) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name) + bytes(1 << 22 if name.endswith("weight_0") else 0))
    with pytest.raises(RuntimeError, match="far more than the file"):
        load(made)


CHANGES = [
    *[("torch.ops.aten.relu.default", target) for target in (
        "os.system", "torch.hub.load", "torch.ops.load_library", "torch.ops.aten.__class__.mro", "_operator.exec", "builtins.eval",
        "torch.ops.higher_order.eval", "torch.ops.aten.from_file.default", "math.__loader__.load_module",
    )],
    ('"name": "relu"', '"name": "relu = print(1); x"'),
    ('{"as_tensor": {"name": "x"}}', '{"as_tensor": {"name": "x=print(1)"}}'),
    ('"forward_arg_names": ["x", "y"]', '"forward_arg_names": ["x=print(1)", "y"]'),
    ('"parameter_name": "linear.weight"', '"parameter_name": "linear.weight\\"];print(1);x[\\""'),
    ("Symbol('s0', positive=True, integer=True)", "print(1)"),
    ("Symbol('s0', positive=True, integer=True)", "Symbol(print(1))"),
    ("Symbol('s0', positive=True, integer=True)", "().__class__"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_a_file_names_operations_and_runs_nothing_else(old: str, new: str, capsys: Any) -> None:
    def change(name: str, content: bytes) -> bytes:
        if name.endswith("model.json"):
            assert old.encode() in content
            return content.replace(old.encode(), new.encode())
        return content

    with pytest.raises(RuntimeError):
        run(changed(change))
    assert not capsys.readouterr().out and "this" not in sys.modules


SIZE_OF_X = "Symbol('s0', positive=True, integer=True)"


@pytest.mark.parametrize("text", [
    "PowByNatural(Integer(10), Integer(10000000000))", f"PowByNatural({SIZE_OF_X}, PowByNatural(Integer(99), {SIZE_OF_X}))",
    "Pow(" * 10 + "Integer(9)" + ", Integer(16))" * 10, "Pow(" * 10 + SIZE_OF_X + ", Integer(16))" * 10,
])  # fmt: skip
def test_sizes_that_would_take_forever_are_refused(text: str) -> None:
    def change(name: str, content: bytes) -> bytes:
        return content.replace(SIZE_OF_X.encode(), text.encode()) if name.endswith("model.json") else content

    with pytest.raises(RuntimeError):
        load(io.BytesIO(changed(change)))


@pytest.mark.parametrize(("function", "arguments"), [
    ("_operator.pow", [10, 10**10]), ("_operator.lshift", [1, 10**12]), ("torch.ops.aten.full.default", [10, 10**10]),
    ("_operator.truediv", [1, 0]),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["as_sym_bool", "as_sym_float"])
def test_loading_computes_no_large_numbers(function: str, arguments: list[int], kind: str) -> None:
    inputs = [{"name": name, "arg": {"as_int": value}, "kind": 1} for name, value in zip("ab", arguments, strict=True)]
    added = {"target": function, "inputs": inputs, "outputs": [{kind: {"as_name": "q"}}], "metadata": {}}

    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("model.json"):
            return content
        described = json.loads(content)
        described["graph_module"]["graph"]["nodes"].insert(0, added)
        return json.dumps(described).encode()

    with contextlib.suppress(RuntimeError):
        load(io.BytesIO(changed(change)))


class Printing:
    def __reduce__(self) -> Any:
        return print, ("unpickled",)


def test_nothing_is_unpickled_but_tensors(capsys: Any) -> None:
    evil = io.BytesIO()
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Printing(), 2))
        archive.writestr("archive/version", "3\n")
    run(changed(lambda name, content: evil.getvalue() if name.endswith("sample_inputs/model.pt") else content))
    for old, new in ((b'"use_pickle": false', b'"use_pickle": true'), (b'"path_name": "weight_0"', b'"path_name": "custom_obj_0"')):
        with pytest.raises(RuntimeError):
            run(changed(lambda name, content, old=old, new=new: content.replace(old, new)))  # type: ignore[misc]
    factory = {"default_factory_module": "this", "default_factory_name": "s", "dict_context": ["sum"]}
    member = {"__enum__": True, "fqn": "this:s", "name": "x"}
    for kind, context in (
        ("collections.defaultdict", factory),
        ("collections.OrderedDict", factory),
        ("builtins.dict", [member]),
        ("no", []),
    ):
        for text in (json.dumps(context), json.dumps(context).replace("__enum__", "\\u005f_enum__")):
            with pytest.raises(RuntimeError):
                run(changed(in_structure(kind, text)))
    assert not capsys.readouterr().out and "this" not in sys.modules


def in_structure(kind: str, context: str) -> Callable[[str, bytes], bytes]:
    """The result's structure with a container for which a module would have to be imported, or an unknown one."""

    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("model.json"):
            return content
        described = json.loads(content)
        call = described["graph_module"]["module_call_graph"][0]["signature"]
        protocol, spec = json.loads(call["out_spec"])
        spec["type"] = kind
        spec["context"] = context
        call["out_spec"] = json.dumps([protocol, spec])
        return json.dumps(described).encode()

    return change


def _paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [before] if before else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        found += _paths(part, (*before, key))
    return found


def test_programs_that_were_changed_at_random_are_refused_or_run(capsys: Any) -> None:
    chosen = random.Random(0)
    with zipfile.ZipFile(io.BytesIO(small())) as archive:
        name = next(name for name in archive.namelist() if name.endswith("model.json"))
        original = archive.read(name)
    places = _paths(json.loads(original))
    refused = 0
    for _ in range(150):
        described = json.loads(original)
        where = chosen.choice(places)
        holder = described
        for key in where[:-1]:
            holder = holder[key]
        holder[where[-1]] = chosen.choice([None, -1, 2**70, "print(1)", [], {}, {"as_int": 3}, "relu", True, 1e308])
        content = json.dumps(described).encode()
        try:
            run(changed(lambda place, before, content=content: content if place.endswith("model.json") else before))  # type: ignore[misc]
        except (RuntimeError, AssertionError, TypeError, ValueError, IndexError):
            refused += 1
    assert refused > 75 and not capsys.readouterr().out
