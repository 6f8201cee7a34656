"""PyTorch's public names: each is there, or is listed with its reason in ``tools/left_out.py``."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from oracle import pytorch

import flambeau
from tools import left_out, tables

NAMESPACES = (
    "torch",
    "Tensor",
    "nn.functional",
    "linalg",
    "fft",
    "special",
    "sparse",
    "masked",
    "signal.windows",
    "return_types",
)
KNOWN = tables.oracle_names()["names"]


def missing(namespace: str) -> list[str]:
    present = tables.here(namespace, KNOWN[namespace])
    return [name for name in KNOWN[namespace] if name not in present]


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_name_is_there_or_listed(namespace: str) -> None:
    unlisted = [name for name in missing(namespace) if left_out.reason_for(namespace, name) is None]
    assert not unlisted, f"neither in torch.{namespace} nor in tools/left_out.py: {' '.join(unlisted)}"


def test_what_is_listed_is_missing() -> None:
    used = {found[1] for namespace in NAMESPACES for name in missing(namespace) if (found := left_out.reason_for(namespace, name))}
    stale = {pattern for _, patterns in left_out.REASONS for pattern in patterns.split()} - used
    assert not stale, f"no missing name matches {' '.join(sorted(stale))}"


@pytest.mark.oracle
@pytest.mark.parametrize(
    "make",
    [
        lambda torch: torch.Size([2]),
        lambda torch: torch.finfo(torch.float16),
        lambda torch: torch.iinfo(torch.int8),
        lambda torch: torch.device("cpu"),
        lambda torch: torch.float32,
        lambda torch: torch.Generator(),
    ],
    ids=["Size", "finfo", "iinfo", "device", "dtype", "Generator"],
)
def test_objects_have_pytorchs_attributes(make: Any) -> None:
    torch = pytorch()
    ours, theirs = make(flambeau), make(torch)
    for root, model in ((ours, theirs), (type(ours), type(theirs))):
        lacking = [name for name in dir(model) if not name.startswith("_") and not hasattr(root, name)]
        assert not lacking
    assert repr(ours) == repr(theirs) or "Generator" in repr(theirs)
    assert ours == make(flambeau) or "Generator" in repr(theirs)


def test_cpu_streams_and_events_are_always_ready() -> None:
    stream, start, end = flambeau.Stream(), flambeau.Event(enable_timing=True), flambeau.Event(enable_timing=True)
    with stream:
        start.record(stream)
        stream.record_event(end)
    assert stream.query() and end.query() and start.elapsed_time(end) >= 0
    with pytest.raises(ValueError, match="enable_timing"):
        flambeau.Event().elapsed_time(end)
    assert stream == flambeau.Stream("cpu") and repr(stream).startswith("torch.Stream device_type=cpu")


def test_named_results_of_out_have_classes_of_their_own() -> None:
    listed = flambeau.return_types.all_return_types
    assert flambeau.return_types.max_out in listed
    assert flambeau.return_types.max_out((1, 2)).values == 1
    assert flambeau.return_types.linalg_svd_out._fields == flambeau.return_types.linalg_svd._fields


@pytest.mark.oracle
def test_abbreviations_of_dtypes_are_pytorchs() -> None:
    torch = pytorch()
    for name, dtype in flambeau.core.dtype.ALL.items():
        assert dtype.abbr == getattr(torch, name).abbr, name


def test_packets_of_aten_are_the_operations() -> None:
    x = flambeau.arange(6.0)
    assert flambeau.ops.aten.slice.Tensor(x, 0, 1, 5, 2).tolist() == [1, 3]
    assert flambeau.ops.aten.add(x, x)[1] == 2
    assert not hasattr(flambeau.ops.aten, "no_such_operation")


def test_ranges_of_sizes_are_checked() -> None:
    flambeau.sym_constrain_range(3, min=2)
    flambeau.sym_constrain_range_for_size(3, max=5)
    with pytest.raises(RuntimeError, match="Invalid value range for 3"):
        flambeau.sym_constrain_range(3, min=4)
    with pytest.raises(RuntimeError, match="greater than 2"):
        flambeau.sym_constrain_range_for_size(3, max=2)


def test_handlers_of_tensors_around_tensors_name_operations_and_methods() -> None:
    from flambeau.core.calls.registry import import_late
    from flambeau.core.protocols import quantized
    from flambeau.core.protocols.handlers import Handlers
    from flambeau.nested import _operations as nested

    import_late()
    for key in ("summ", "linear", "Tensor.summ", "nn.functional.sum"):
        with pytest.raises(TypeError, match="which is no"):
            Handlers("a test")[key] = print
    handlers = Handlers("masked")
    handlers["Tensor.double"] = print  # no declared operation
    assert handlers.named == {"double": print} and "Tensor.double" not in handlers
    for name in (*nested._WRITING, *quantized._ANY):
        assert hasattr(flambeau.Tensor, name) or name == "alias"


def test_docstrings_begin_with_what_they_describe() -> None:
    question = re.compile(r"(What|Who|Whose|Where|When|How|Which)\b")
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    package = Path(flambeau.__file__).parent
    found = [
        f"{path.relative_to(package)}:{node.body[0].lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, described) and question.match(ast.get_docstring(node) or "")
    ]
    assert not found, f"docstrings that begin with a question's word: {' '.join(sorted(found))}"
