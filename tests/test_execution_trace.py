"""Execution traces: nodes, arguments and results beside PyTorch's; threads, schedules and profiles at the same time; files."""

from __future__ import annotations

import gzip
import json
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import flambeau
from flambeau.core import state

OPERATION, NODE, RANGE = 0, 1, 7


def traced(torch: Any, program: Any, path: Path) -> list[dict[str, Any]]:
    """The nodes of a program's trace, with attributes by their names."""
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    try:
        program(torch)
    finally:
        observer.stop()
        observer.unregister_callback()
    return nodes_of(path)


def nodes_of(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    trace = json.loads(text)
    assert trace["schema"] == "1.1.1-chakra.0.0.4" and trace["finish_ts"] >= trace["start_ts"]
    for node in trace["nodes"]:
        node["attrs"] = {attribute["name"]: attribute["value"] for attribute in node["attrs"]}
    return sorted(trace["nodes"], key=lambda node: int(node["id"]))


def without_numbers(value: Any, kind: str) -> Any:
    """A value without the numbers of tensors, which PyTorch gives anew when an address is used again."""
    if kind.startswith("Tensor("):
        return value[2:]
    if isinstance(value, list):
        return [without_numbers(part, "Tensor(" if isinstance(part, list) and len(part) == 6 else "") for part in value]
    return round(value, 6) if isinstance(value, float) else value


def outer(nodes: list[dict[str, Any]]) -> list[Any]:
    """The nodes that are within no operation: all that is said of them, and which of their tensors are one."""
    by_number = {node["id"]: node for node in nodes}
    found = []
    for node in nodes:
        parent = by_number[node["ctrl_deps"]]
        if node["name"].startswith("[pytorch") or parent["attrs"]["op_schema"]:
            continue
        sides, identities = [], []
        for side in (node["inputs"], node["outputs"]):
            pairs = list(zip(side["values"], side["types"], strict=True))
            sides.append([[without_numbers(*pair) for pair in pairs], side["shapes"], side["types"], side["strides"]])
            identities.append([value[:2] for value, kind in pairs if kind.startswith("Tensor(")])
        same = [[(given[0] == gave[0], given[1] == gave[1]) for given in identities[0]] for gave in identities[1]]
        attributes = [node["attrs"][name] for name in ("op_schema", "scope", "tid", "fw_tid")]
        found.append([node["name"], *attributes, *sides, [[list(pair) for pair in row] for row in same], parent["name"].split("|")[-1]])
    return found


def layers(torch: Any) -> None:
    F = torch.nn.functional
    x, w, b = torch.ones(2, 3), torch.ones(4, 3), torch.ones(4)
    y = F.linear(x, w, b)
    z = torch.relu(y) + 1
    torch.cat([y, z], 1).t().mul_(2)
    F.gelu(z), F.softmax(z, 1), F.dropout(z, 0.5), F.pad(z, (1, 1)), F.silu(z), F.leaky_relu(z)
    F.avg_pool2d(torch.ones(1, 1, 4, 4), 2)


def parts(torch: Any) -> None:
    x = torch.arange(6.0)
    x = x.view(2, 3)
    x[0], x[1:], x.to(torch.float64), x.t().contiguous(), x.expand(4, 2, 3)
    x.sum().item(), torch.split(x, 1), x.max(1), x.clone(memory_format=torch.contiguous_format)
    torch.einsum("ij,kj->ik", x, x)
    torch.where(x > 2, x, 0.0), torch.add(x, x, out=torch.empty(2, 3)), x.sum(dim=(0,)), x.half()
    torch.normal(0.0, 1.0, (2,)), torch.randn(2, generator=torch.Generator()), torch.full((2,), 3.0), torch.zeros_like(x)
    x.mul(2j), torch.stack([x, x]), x.topk(2), x.masked_fill(x > 2, 0.0), x.clamp(1, 2), x.permute(1, 0), x @ x.t()


def ranges(torch: Any) -> None:
    with torch.profiler.record_function("outer", "text"), torch.profiler.record_function("inner"):
        torch.ones(2)
    torch.ones(1)


@pytest.mark.parametrize("program", [layers, parts, ranges])
def test_nodes_are_those_of_pytorch(program, of_pytorch, tmp_path):
    def run(torch: Any) -> Any:
        return outer(traced(torch, program, tmp_path / "trace.json"))

    assert run(flambeau) == of_pytorch(run)


def test_backward_passes(tmp_path):
    """Nodes of the tape say what they are given, and what is around them in the thread of their calls."""

    def program(torch: Any) -> None:
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()

    nodes = traced(flambeau, program, tmp_path / "trace.json")
    by_name = {node["name"]: node for node in reversed(nodes)}
    node = by_name["MulBackward0"]
    around = by_name["autograd::engine::evaluate_function: MulBackward0"]
    assert node["ctrl_deps"] == around["id"] == node["attrs"]["fw_parent"] and node["attrs"]["scope"] == NODE
    assert node["attrs"]["seq_id"] == by_name["aten::mul"]["attrs"]["seq_id"] > 0 and node["attrs"]["fw_tid"] == 1
    assert node["inputs"]["shapes"] == [[3]] and node["inputs"]["types"] == ["Tensor(float)"]
    assert around["inputs"]["values"] == [] and around["attrs"]["seq_id"] == -1
    assert by_name["torch::autograd::AccumulateGrad"]["inputs"]["shapes"] == [[3]]


def test_tensors_and_memory_have_numbers_of_their_own(tmp_path):
    def program(torch: Any) -> None:
        for _ in range(3):
            x = torch.ones(2)
            x.view(2, 1).sin_()

    nodes = traced(flambeau, program, tmp_path / "trace.json")
    made = [node["outputs"]["values"][0][:2] for node in nodes if node["name"] == "aten::ones"]
    seen = [node["inputs"]["values"][0][:2] for node in nodes if node["name"] == "aten::view"]
    shown = [node["outputs"]["values"][0][:2] for node in nodes if node["name"] == "aten::view"]
    assert made == seen and len({number for pair in made for number in pair}) == 6
    assert [pair[1] for pair in made] == [pair[1] for pair in shown] and not {pair[0] for pair in made} & {pair[0] for pair in shown}


def test_all_threads_are_traced_and_profiles_go_on(tmp_path):
    def other() -> None:
        flambeau.ones(1).cos()

    observer = flambeau.profiler.ExecutionTraceObserver().register_callback(str(tmp_path / "trace.json"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        observer.start()
        with flambeau.profiler.profile() as found:
            flambeau.ones(1).sin()
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        config = flambeau.profiler._ExperimentalConfig(profile_all_threads=True)
        with flambeau.autograd.profiler.profile(experimental_config=config) as of_all:
            flambeau.ones(1).tan()
        flambeau.ones(1).exp()
        observer.stop()
        flambeau.ones(1).log()
    observer.unregister_callback()
    traced_names = {(node["name"], node["attrs"]["tid"]) for node in nodes_of(tmp_path / "trace.json")}
    assert {"aten::sin", "aten::cos", "aten::tan", "aten::exp"} < {name for name, _ in traced_names}
    assert "aten::log" not in {name for name, _ in traced_names}
    assert [event.name for event in found.events()] == ["aten::ones", "aten::sin"]
    assert [event.name for event in of_all.function_events] == ["aten::ones", "aten::tan"]
    assert not state.profiling and not state.active and state.modes.profile is None and not state.thread.modes


def test_a_trace_that_starts_within_a_profile_of_all_threads(tmp_path):
    config = flambeau.profiler._ExperimentalConfig(profile_all_threads=True)
    observer = flambeau.profiler.ExecutionTraceObserver().register_callback(str(tmp_path / "trace.json"))
    with flambeau.autograd.profiler.profile(experimental_config=config) as found:
        observer.start()
        flambeau.ones(1).sin()
    flambeau.ones(1).cos()
    observer.stop()
    observer.cleanup()
    assert [event.name for event in found.function_events] == ["aten::ones", "aten::sin"]
    assert [node["name"] for node in nodes_of(tmp_path / "trace.json")][2:] == ["aten::ones", "aten::sin", "aten::ones", "aten::cos"]
    assert not state.profiling and not state.active and state.modes.profile is None


def test_the_trace_of_a_schedule(tmp_path):
    observer = flambeau.profiler.ExecutionTraceObserver().register_callback(str(tmp_path / "trace.json.gz"))
    schedule = flambeau.profiler.schedule(wait=1, warmup=1, active=2)
    with flambeau.profiler.profile(schedule=schedule, execution_trace_observer=observer) as found:
        for step in range(6):
            assert observer.is_running() is (step in (2, 3))
            flambeau.ones(step + 1)
            found.step()
        assert found.execution_trace_observer is observer and observer.is_registered
    assert not observer.is_registered and not observer.is_running()
    nodes = nodes_of(tmp_path / "trace.json.gz")
    steps = [node["name"] for node in nodes if node["name"].startswith("ProfilerStep")]
    assert steps == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#6"]
    assert [node["outputs"]["shapes"][0] for node in nodes if node["name"] == "aten::ones"] == [[3], [4]]


def test_what_raises_is_written_without_results(tmp_path):
    def program(torch: Any) -> None:
        with pytest.raises(RuntimeError):
            torch.ones(2) @ torch.ones(3)
        torch.ones(1)

    nodes = traced(flambeau, program, tmp_path / "trace.json")
    failed = next(node for node in nodes if node["name"] == "aten::matmul")
    assert failed["inputs"]["shapes"] == [[2], [3]] and failed["outputs"]["values"] == []
    assert nodes[-1]["name"] == "aten::ones" and nodes[-1]["ctrl_deps"] == failed["ctrl_deps"]


def test_observers_one_after_another(tmp_path, monkeypatch):
    observer = flambeau.profiler.ExecutionTraceObserver()
    assert (observer.is_registered, observer.is_running(), observer.get_output_file_path()) == (False, False, None)
    observer.start(), observer.stop(), observer.cleanup()  # without a file nothing happens
    path = str(tmp_path / "one.json")
    assert observer.register_callback(path) is observer and observer.get_output_file_path() == path
    observer.register_callback("another")
    assert observer.get_output_file_path() == path
    with pytest.warns(UserWarning, match="already"):
        assert not flambeau.profiler.ExecutionTraceObserver().register_callback(str(tmp_path / "two.json")).is_registered
    for _ in range(2):
        observer.start(), observer.start()
        flambeau.ones(2) * float("inf")
        observer.stop(), observer.stop()
    observer.unregister_callback()
    assert [node["name"] for node in nodes_of(tmp_path / "one.json")][2:] == ["aten::ones", "aten::mul"] * 2
    with pytest.warns(UserWarning, match="Failed to open"):
        assert not observer.register_callback(str(tmp_path / "nowhere" / "x.json")).is_registered
    assert flambeau.profiler.ExecutionTraceObserver.build_execution_trace_obs_from_env() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with flambeau.profiler.profile() as found:
        flambeau.ones(1)
    assert found.execution_trace_observer.get_resources_dir().endswith(".et_resources")
    assert [node["name"] for node in nodes_of(Path(found.execution_trace_observer.get_output_file_path()))][2:] == ["aten::ones"]


def test_tensors_of_other_kinds(tmp_path):
    """Sparse, nested, quantized and hollow tensors: what they have is told, and nothing else."""

    def program(torch: Any) -> None:
        dense = torch.eye(3)
        for sparse in (dense.to_sparse(), dense.to_sparse_csr()):
            (sparse @ dense).sum()
        torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8).dequantize()
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged) * 2
        torch.empty(2, device="meta") + 1
        torch.func.vmap(torch.sin)(dense)

    with flambeau.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = traced(flambeau, program, tmp_path / "trace.json")
    assert {"aten::sin", "aten::add"} <= {node["name"] for node in nodes} and len(found.events()) > 10
    found._memory_profile()
    found.export_chrome_trace(str(tmp_path / "chrome.json"))
    json.loads((tmp_path / "chrome.json").read_text())
