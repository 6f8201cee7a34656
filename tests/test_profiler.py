"""Profiles: which ranges there are, what they say, tables and traces, schedules; and that nothing is left of one that has ended."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import flambeau
from flambeau import nn
from flambeau.core import state

autograd = flambeau.autograd.profiler
ROOT = Path(__file__).resolve().parent.parent


def names(events: Any) -> list[str]:
    return [event.name for event in events]


def tree(events: Any, parent: Any = None) -> list[Any]:
    """Names of events, each with those within it."""
    return [(event.name, tree(events, event)) for event in events if event.cpu_parent is parent]


# -- events, beside PyTorch -----------------------------------------------------------------------------------------------------------
def library_of(torch: Any) -> Any:
    __import__(f"{torch.__name__}.autograd.profiler_util")
    return torch.autograd.profiler_util


def made_events(torch: Any, **options: Any) -> Any:
    """Events whose times and other facts are chosen."""
    util = library_of(torch)
    facts: list[tuple[Any, ...]] = [
        ("aten::linear", 0, 100, 1, [[2, 3], [4, 3], [4]], 4096, 0, ["b.py(3): g", "c.py(1): h"]),
        ("aten::addmm", 10, 60, 1, [[4], [2, 3], [3, 4], [], []], 4096, 24000000, ["b.py(3): g", "c.py(1): h"]),
        ("aten::relu", 120, 2500, 1, [[2, 3]], -100, 2500, []),
        ("aten::relu", 120, 4500, 2, [[2, 7]], 3 * 2**20, 0, ["d.py(2): k"]),
        ("a very long name " * 6, 5000, 5001, 1, [[1, 2, 3, 4, 5, 6, 7, 8, 9]] * 6, 0, 0, []),
    ]
    stacks, shapes = options.pop("stacks", True), options.pop("shapes", True)
    events = util.EventList(
        [
            util.FunctionEvent(
                id=number, name=name, thread=thread, start_us=start, end_us=end, input_shapes=sizes if shapes else None,
                cpu_memory_usage=size, flops=flops, stack=stack if stacks else [],
            )
            for number, (name, start, end, thread, sizes, size, flops, stack) in enumerate(facts)
        ],
        **options,
    )  # fmt: skip
    events._build_tree()
    return events


TABLES: dict[str, Any] = {
    "as they are": lambda torch: made_events(torch).table(),
    "printed": lambda torch: str(made_events(torch, shapes=False, stacks=False)),
    "top level": lambda torch: made_events(torch).table(top_level_events_only=True, row_limit=2),
    "sorted": lambda torch: made_events(torch, stacks=False).table(sort_by="self_cpu_time_total", row_limit=2, header="the header"),
    "averages": lambda torch: made_events(torch, profile_memory=True, with_flops=True).key_averages().table(sort_by="cpu_memory_usage"),
    "sorted by a device's": lambda torch: made_events(torch, stacks=False).table(sort_by="self_xpu_time_total"),
    "by shape": lambda torch: made_events(torch).key_averages(True).table(sort_by="count", max_shapes_column_width=20),
    "by stack": lambda torch: made_events(torch).key_averages(group_by_stack_n=1).table(max_src_column_width=9, max_name_column_width=12),
    "seconds": lambda torch: made_events(torch).table(time_unit="s", row_limit=-1),
    "nothing": lambda torch: library_of(torch).EventList([]).table(),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_pytorch(name, of_pytorch):
    assert TABLES[name](flambeau) == of_pytorch(TABLES[name])


def told(program: Any) -> Any:
    """What a program gives for the library, or the type of its error with the message."""

    def tell(torch: Any) -> Any:
        try:
            return program(torch)
        except Exception as error:
            return [type(error).__name__, str(error)]

    return tell


def facts(torch: Any) -> Any:
    events = made_events(torch)
    first, average = events[0], events.key_averages()[2]
    return [
        repr(first), repr(average), repr(events.total_average()), events.self_cpu_time_total, first.self_cpu_time_total, first.cpu_time,
        first.self_cpu_memory_usage, [len(event.cpu_children) for event in events], average.count, average.cpu_time, average.cpu_time_str,
        [event.key for event in events.key_averages(group_by_stack_n=5)], events.supported_export_stacks_metrics(),
    ]  # fmt: skip


FACTS = {
    "facts": facts,
    "sorting by nothing": lambda torch: made_events(torch).table(sort_by="nothing"),
    "an average before the tree": lambda torch: library_of(torch).EventList([]).key_averages(),
    "another key": lambda torch: library_of(torch).FunctionEventAvg().add(made_events(torch)[0]).add(made_events(torch)[1]),
    "no event": lambda torch: library_of(torch).FunctionEventAvg().add(made_events(torch)[0]).add(3),
    "a metric": lambda torch: made_events(torch).export_stacks("unused", "time"),
    "no activity": lambda torch: torch.profiler.profile(activities=[]),
    "averages of nothing": lambda torch: torch.profiler.profile().key_averages(),
    "a trace of nothing": lambda torch: torch.profiler.profile().export_chrome_trace("unused"),
    "events of nothing": lambda torch: torch.profiler.profile().events(),
    "stopping nothing": lambda torch: torch.profiler.profile().stop(),
    "stacks without": lambda torch: recorded(torch).export_stacks("unused"),
    "unfinished": lambda torch: [repr(torch.autograd.profiler.profile()), len(torch.autograd.profiler.profile().function_events)],
    "device only": lambda torch: torch.autograd.profiler.profile(use_cpu=False),
    "numbers": lambda torch: [numbers(getattr(torch.profiler, name)) for name in ("ProfilerActivity", "ProfilerAction", "DeviceType")],
    "less than no time": lambda torch: torch.autograd.profiler.profile(use_kineto=True, post_processing_timeout_s=-1.0),
    "twice": lambda torch: entered_twice(torch),
}


def recorded(torch: Any) -> Any:
    with torch.autograd.profiler.profile() as found:
        torch.ones(2)
    return found


def numbers(kind: Any) -> Any:
    """Names of an enumeration, by their numbers."""
    return sorted((int(getattr(member, "value", member)), name) for name, member in kind.__members__.items())


def entered_twice(torch: Any) -> Any:
    with (found := torch.autograd.profiler.profile()):
        pass
    with found:
        pass


@pytest.mark.parametrize("name", FACTS)
def test_events_are_those_of_pytorch(name, of_pytorch):
    assert told(FACTS[name])(flambeau) == of_pytorch(told(FACTS[name]))


def test_stacks_are_written_as_pytorch_writes_them(of_pytorch, tmp_path):
    def written(torch: Any) -> str:
        made_events(torch).export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
        return (tmp_path / "stacks").read_text()

    assert written(flambeau) == of_pytorch(written)


# -- what is recorded, beside PyTorch -----------------------------------------------------------------------------------------------------
def forward(torch: Any) -> Any:
    F = torch.nn.functional
    x, w, indices, offsets = torch.ones(2, 3), torch.ones(4, 3), torch.tensor([0, 2, 1]), torch.tensor([0, 2])
    with torch.autograd.profiler.profile(record_shapes=True, with_flops=True) as found:
        F.embedding(indices, w)
        F.embedding_bag(indices, w, offsets)
        y = F.relu(F.linear(x, w, torch.ones(4))) + 1
        z = torch.cat([y, y], 1).t().mul_(2)
        torch.mm(z, y.exp())
        F.conv2d(torch.ones(1, 2, 5, 5), torch.ones(3, 2, 3, 3))
        torch.softmax(y, 1).sum(0)
        F.layer_norm(y, (4,))
        F.dropout(y, 0.5)
        F.gelu(y)
        y[0], y[1:], y.to(torch.float64), y.t().reshape(-1)
        torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, 3))
    return [[event.name, event.input_shapes, event.flops] for event in found.function_events if event.cpu_parent is None]


def test_operations_have_the_names_shapes_and_work_of_pytorch(of_pytorch):
    ours, theirs = forward(flambeau), of_pytorch(forward)
    assert [event for event in ours if event[0] != "aten::dropout"] == [event for event in theirs if event[0] != "aten::dropout"]


def training(torch: Any) -> Any:
    layers = torch.nn
    torch.manual_seed(0)
    model = layers.Sequential(layers.Linear(4, 8), layers.Tanh(), layers.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, target = torch.ones(2, 4), torch.zeros(2, 3)
    with torch.autograd.profiler.profile() as found, torch.profiler.record_function("a step"):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), target).backward()
        optimizer.step()
    events = found.function_events
    chosen = [event for event in events if not event.name.startswith("aten::")]
    nodes = [event for event in events if event.name == "AddmmBackward0"]
    calls = {event.sequence_nr for event in events if event.name == "aten::addmm"}
    inner = sorted({child.name for event in nodes for child in event.cpu_children})
    return [sorted({event.name for event in chosen if "TBackward" not in event.name and not event.name.startswith("detach")}),
            {event.sequence_nr for event in nodes} == calls, [event.scope for event in nodes], "aten::mm" in inner]  # fmt: skip


def test_a_training_step_has_the_ranges_of_pytorch(of_pytorch):
    assert training(flambeau) == of_pytorch(training)


# -- what is recorded ---------------------------------------------------------------------------------------------------------------------
def test_calls_are_within_calls():
    x, w, b = flambeau.ones(2, 3), flambeau.ones(4, 3), flambeau.ones(4)
    with autograd.profile() as found:
        nn.functional.linear(x, w, b)
        nn.functional.linear(x, w)
        x.sin_()
    assert tree(found.function_events) == [
        ("aten::linear", [("aten::addmm", [])]),
        ("aten::linear", [("aten::matmul", [("aten::mm", [])])]),
        ("aten::sin_", []),
    ]


def test_backward_passes_within_each_other_and_hooks():
    x = flambeau.ones(2, requires_grad=True)

    def hook(grad: Any) -> None:
        y = flambeau.ones(1, requires_grad=True)
        with flambeau.enable_grad():
            y.exp().backward()

    y = x.sin()
    y.register_hook(hook)
    with autograd.profile() as found:
        y.sum().backward()
    roots = [event.name for event in found.function_events if event.cpu_parent is None]
    evaluated = {name: f"autograd::engine::evaluate_function: {name}Backward0" for name in ("Sum", "Exp", "Sin")}
    assert [name for name in roots if name.endswith("Backward0")] == [evaluated["Sum"], evaluated["Sin"]]
    inner = next(event for event in found.function_events if event.name == evaluated["Exp"])
    assert inner.cpu_parent.name == evaluated["Sin"]  # whose gradient the hook saw
    assert names(found.function_events).count("torch::autograd::AccumulateGrad") == 2


def test_hooks_are_within_their_node():
    x = flambeau.ones(2, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda grad: grad.cos())
    y.grad_fn.register_prehook(lambda grads: (grads[0].sin(),))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0].tan(),))
    x.register_post_accumulate_grad_hook(lambda leaf: None)
    with autograd.profile() as found:
        y.sum().backward()
    parents = {event.name: event.cpu_parent.name.rpartition(" ")[2] for event in found.function_events if event.cpu_parent is not None}
    assert {parents[f"aten::{name}"] for name in ("cos", "sin", "tan")} == {"ExpBackward0"}
    assert not any("AccumulateGrad" in parent for name, parent in parents.items() if name == "aten::exp")
    assert not any(thread.passes or thread.stack for thread in found._recorder._threads.values())


def test_functions_of_programs_and_what_raises():
    class Twice(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise ValueError("in backward")

    assert not autograd._is_profiler_enabled and not flambeau.autograd._profiler_enabled()
    with autograd.profile() as found:
        assert autograd._is_profiler_enabled and flambeau.autograd._profiler_enabled()
        y = Twice.apply(flambeau.ones(2, requires_grad=True))
        with pytest.raises(ValueError, match="in backward"):
            y.sum().backward()
        flambeau.ones(1)
    roots = [event.name for event in found.function_events if event.cpu_parent is None]
    evaluated = [f"autograd::engine::evaluate_function: {name}" for name in ("SumBackward0", "TwiceBackward")]
    assert roots == ["aten::ones", "Twice", "aten::sum", *evaluated, "aten::ones"]
    assert state.thread.profile is None and not state.profiling


def test_memory_of_results():
    with autograd.profile(profile_memory=True) as found:
        x = flambeau.ones(256)
        with autograd.record_function("freed"):
            y = x + 1
            del y
        with autograd.record_function("kept"):
            z = x.view(2, 128)[0] * 2
    used = {event.name: event.cpu_memory_usage for event in found.function_events}
    assert used["aten::ones"] == 1024 and used["freed"] == 0 and used["kept"] == z.nbytes and used["aten::view"] == 0
    average = {event.key: event for event in found.key_averages()}
    assert average["kept"].self_cpu_memory_usage == 0 and average["aten::mul"].self_cpu_memory_usage == 512
    assert "CPU Mem" in str(found)


def test_stacks_are_of_the_program(tmp_path):
    x = flambeau.ones(3, requires_grad=True)
    with autograd.profile(with_stack=True) as found:
        y = x.sin()
        y.sum().backward()
    by_name = {event.name: event for event in found.function_events}
    assert "test_profiler.py" in by_name["aten::sin"].stack[0] and by_name["aten::sin"].stack[0].endswith("test_stacks_are_of_the_program")
    assert by_name["SinBackward0"].stack == by_name["aten::sin"].stack
    assert "Source Location" in found.key_averages(group_by_stack_n=2).table(row_limit=3)
    found.export_stacks(str(tmp_path / "stacks"))
    assert ";" in (tmp_path / "stacks").read_text()


def test_ranges_of_programs():
    @autograd.record_function("again")
    def again(n: int) -> None:
        if n:
            again(n - 1)

    with autograd.profile() as found:
        again(2)
        with autograd.record_function("outer", "text"), autograd.record_function("inner"):
            pass
    assert tree(found.function_events) == [("again", [("again", [("again", [])])]), ("outer", [("inner", [])])]
    again(1)  # outside of a profile
    for wrong in ((3,), ("name", 3)):
        with pytest.raises(RuntimeError, match="record_function: expected"), autograd.record_function(*wrong):
            pass


def test_loading_data_and_optimizers():
    loader = flambeau.utils.data.DataLoader(flambeau.arange(4), batch_size=2)
    weight = nn.Parameter(flambeau.ones(2))
    optimizer = flambeau.optim.Adam([weight])
    with autograd.profile() as found:
        for batch in loader:
            optimizer.zero_grad()
            (weight * batch).sum().backward()
            optimizer.step()
    counts = {event.key: event.count for event in found.key_averages()}
    assert counts["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] == 3
    assert counts["Optimizer.step#Adam.step"] == counts["Optimizer.zero_grad#Adam.zero_grad"] == 2


def test_a_profile_is_of_its_thread_or_of_all():
    def other() -> None:
        flambeau.ones(2).cos()

    config = flambeau.profiler._ExperimentalConfig(profile_all_threads=True)
    seen = []
    for options in ({}, {"experimental_config": config}):
        with autograd.profile(**options) as found:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            flambeau.ones(2).sin()
        seen.append(sorted((event.name, event.thread) for event in found.function_events))
    assert [name for name, _ in seen[0]] == ["aten::ones", "aten::sin"]
    assert {name for name, _ in seen[1]} == {"aten::cos", "aten::ones", "aten::sin"} and len({thread for _, thread in seen[1]}) == 2
    assert not state.profiling and not state.active and state.modes.profile is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_no_profile_is_taken_of_a_child():
    with autograd.profile() as found:
        flambeau.ones(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads
            child = os.fork()
        if not child:
            calm = not (state.profiling or state.active or state.thread.modes or state.thread.profile)
            os._exit(0 if calm else 1)
        assert os.waitpid(child, 0)[1] == 0
        flambeau.ones(1).sin()
    assert names(found.function_events) == ["aten::ones", "aten::ones", "aten::sin"]


def test_profiles_within_profiles():
    with autograd.profile() as outer:
        flambeau.ones(1)
        with pytest.warns(UserWarning, match="already"), autograd.profile() as inner:
            flambeau.ones(1).sin()
        flambeau.ones(1).cos()
    assert names(inner.function_events) == ["aten::ones", "aten::sin"]
    assert names(outer.function_events) == ["aten::ones", "aten::ones", "aten::cos"]
    assert not state.profiling and not state.active and not state.thread.modes


def test_profiles_that_end_in_another_order_or_begin_twice():
    first, second = flambeau.profiler.profile(), flambeau.profiler.profile()
    first.start()
    flambeau.ones(1)
    with pytest.warns(UserWarning, match="already"):
        second.start()
    flambeau.ones(1).sin()
    first.stop()
    flambeau.ones(1).cos()
    second.stop()
    flambeau.ones(1).tan()
    assert names(first.events()) == ["aten::ones"]
    assert names(second.events()) == ["aten::ones", "aten::sin", "aten::ones", "aten::cos"]
    first.start()
    first.start()
    flambeau.ones(1)
    first.stop()
    assert names(first.events()) == ["aten::ones"]
    assert not state.profiling and not state.active and not state.thread.modes and state.thread.profile is None


def test_values_and_fast_ways_are_the_same_under_a_profile():
    def losses(profiled: bool) -> list[float]:
        flambeau.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = flambeau.optim.Adam(model.parameters())
        x = flambeau.randn(16, 4)
        found = []
        with autograd.profile(enabled=profiled, record_shapes=True, profile_memory=True):
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                found.append(loss.item())
        return found

    assert losses(True) == pytest.approx(losses(False), rel=1e-5)  # the general way may have another kernel


def test_modes_and_transforms_under_a_profile():
    with autograd.profile() as found:
        flambeau.func.grad(lambda x: x.sin().sum())(flambeau.ones(3))
        flambeau.func.vmap(lambda x: x.cos())(flambeau.ones(2, 3))
        with flambeau.autocast("cpu"):
            nn.functional.linear(flambeau.ones(2, 3), flambeau.ones(4, 3))
    assert {"aten::sin", "SinBackward0", "aten::cos", "aten::linear"} <= set(names(found.function_events))


def test_compiled_programs_are_one_range():
    @flambeau.compile(backend="aot_eager")
    def step(x: Any) -> Any:
        return (x.sin() * 2 + x.exp()).sum()

    x = flambeau.ones(3, requires_grad=True)
    for _ in range(3):
        step(x)
    with autograd.profile() as found:
        step(x).backward()
    roots = [event.name for event in found.function_events if event.cpu_parent is None]
    assert roots[0].startswith("Torch-Compiled Region: ") and roots[0].endswith("step")
    assert roots[1:2] == ["autograd::engine::evaluate_function: CompiledFunctionBackward"]


def test_errors_are_those_without_a_profile():
    F = nn.functional
    programs = (
        lambda: F.conv2d(flambeau.ones(1, 2, 5, 5), flambeau.ones(3, 2, 3, 3), stride=0),
        lambda: F.conv2d(flambeau.ones(1, 2, 5, 5), flambeau.ones(3, 2, 3, 3), stride=(1, 1, 1)),
        lambda: flambeau.ones(()) @ flambeau.ones(2),
        lambda: F.linear(flambeau.ones(()), flambeau.ones(2, 3), flambeau.ones(2)),
        lambda: flambeau.ones(2)[3],
    )
    for program in programs:
        with pytest.raises(Exception) as plain:
            program()
        with autograd.profile(record_shapes=True, with_flops=True), pytest.raises(type(plain.value)) as profiled:
            program()
        assert str(profiled.value) == str(plain.value)


def test_sums_of_sparse_and_dense_gradients():
    weight = flambeau.ones(3, 2, requires_grad=True)
    with autograd.profile():
        rows = nn.functional.embedding(flambeau.tensor([0, 2]), weight, sparse=True)
        (rows.sum() + weight.sum()).backward()
    assert weight.grad.to_dense().tolist() == [[2, 2], [1, 1], [2, 2]]


def test_the_disabled_profile():
    with autograd.profile(enabled=False) as found:
        assert not state.profiling
    assert found is None


@pytest.mark.parametrize("device", ["cuda", "xpu", "nothing"])
def test_times_of_devices_are_not_measured(device):
    with pytest.warns(UserWarning, match="valid|available|not measured"):
        autograd.profile(use_device=device)


# -- schedules and traces -----------------------------------------------------------------------------------------------------------------
def test_schedules_and_handlers():
    ready = []
    schedule = flambeau.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with flambeau.profiler.profile(schedule=schedule, on_trace_ready=lambda p: ready.append((p.step_num, names(p.events())))) as found:
        for step in range(9):
            flambeau.ones(1).sin() if step % 2 else flambeau.ones(1).cos()
            found.step()
    each = ["ProfilerStep*", "aten::ones", "aten::cos", "ProfilerStep*", "aten::ones", "aten::sin"]
    assert ready == [(4, each), (8, each)]
    action = flambeau.profiler.ProfilerAction
    with (
        pytest.warns(UserWarning, match="Incorrect schedule: RECORD followed by NONE"),
        flambeau.profiler.profile(schedule=lambda step: action.NONE if step else action.RECORD) as found,
    ):
        found.step()


def scripted(torch: Any) -> Any:
    model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2))))
    x = torch.ones(1, 2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_modules=True) as found:
        model(x)
        torch.nn.Linear(2, 2)(x)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        found.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    chosen = [[event["name"], event["args"].get("Module Hierarchy")] for event in events if event["name"] in ("forward", "aten::linear")]
    return chosen, [event.scope for event in found.events() if event.name == "forward"]


def test_modules_of_scripted_models_are_those_of_pytorch(of_pytorch):
    assert list(scripted(flambeau)) == list(of_pytorch(scripted))


def test_modules_of_archives_and_of_what_raises(tmp_path):
    flambeau.jit.script(nn.Sequential(nn.Linear(2, 2))).save(str(tmp_path / "model.pt"))
    model = flambeau.jit.load(str(tmp_path / "model.pt"))
    with flambeau.profiler.profile(with_modules=True) as found:
        with pytest.raises(RuntimeError):
            model(flambeau.ones(3))
        model(flambeau.ones(1, 2))
    modules = {opened.name: opened.modules for opened in found.profiler._recorder.ranges if opened.modules}
    assert modules["aten::linear"] == "TOP(Sequential)::forward."  # code of an archive calls methods, not modules
    assert names(found.events()).count("forward") == 2
    with flambeau.profiler.profile() as found:
        model(flambeau.ones(1, 2))
    assert not any(opened.modules for opened in found.profiler._recorder.ranges)


def test_a_profile_may_pause():
    cpu, cuda = [flambeau.profiler.ProfilerActivity.CPU], [flambeau.profiler.ProfilerActivity.CUDA]
    idle = flambeau.profiler.profile()
    idle.toggle_collection_dynamic(False, cpu)
    with flambeau.profiler.profile(profile_memory=True) as found:
        flambeau.ones(1)
        found.toggle_collection_dynamic(False, cuda)
        flambeau.ones(1).cos()
        found.toggle_collection_dynamic(False, cpu)
        with flambeau.profiler.record_function("unseen"):
            flambeau.ones(1).sin()
        found.toggle_collection_dynamic(True, cpu)
        flambeau.ones(1).tan()
    assert names(found.events()) == ["aten::ones", "aten::ones", "aten::cos", "aten::ones", "aten::tan"]


def test_overloads_and_traces_without_events(tmp_path):
    config = flambeau.profiler._ExperimentalConfig(capture_overload_names=True)
    with flambeau.profiler.profile(experimental_config=config) as found:
        x = flambeau.ones(2) + 1
        x.sum(0)
        x.sum()
    overloads = [(event.name, event.overload_name) for event in found.events()]
    assert overloads == [("aten::ones", ""), ("aten::add", "Tensor"), ("aten::sum", "dim_IntList"), ("aten::sum", "")]
    assert len(found.key_averages()) == 3 and len(found.key_averages(group_by_overload_name=True)) == 4
    with flambeau.profiler.profile(experimental_config=flambeau.profiler._ExperimentalConfig(trace_only=True)) as found:
        flambeau.ones(2)
    for read in (found.events, found.key_averages):
        with pytest.raises(RuntimeError, match="trace_only"):
            read()
    found.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "aten::ones" in (tmp_path / "trace.json").read_text()


def test_arguments_that_are_given_choose_overloads_in_whatever_order():
    config = flambeau.profiler._ExperimentalConfig(capture_overload_names=True)
    x = flambeau.zeros(2, 3)
    with flambeau.profiler.profile(record_shapes=True, experimental_config=config) as found:
        x.sum(), x.sum(None, True), flambeau.sort(x), flambeau.sort(x, stable=True), x / 6, x.mean(None, True)
        x.round(decimals=1), x.round(), x.round(decimals=2)
    assert [(event.overload_name, event.concrete_inputs[1:]) for event in found.events()] == [
        ("", [None]),
        ("dim_IntList", [None, True, None]),
        ("", [-1, False]),
        ("stable", [True, -1, False]),
        ("Tensor", [None]),
        ("dim", [None, True, None]),
        ("decimals", [1]),
        ("", []),
        ("decimals", [2]),
    ]


def test_the_inner_kernel_of_a_loss_has_the_number_of_its_reduction():
    with flambeau.profiler.profile(record_shapes=True) as found:
        flambeau.nn.functional.nll_loss(flambeau.ones(2, 3), flambeau.tensor([0, 1]), reduction="sum")
    noted = {event.name: event.concrete_inputs[2:] for event in found.events()}
    assert noted["aten::nll_loss_nd"] == noted["aten::nll_loss"] == [None, 2, -100]


def test_strides_of_tensors_without_elements():
    with flambeau.profiler.profile(record_shapes=True) as found:
        flambeau.zeros(0, 3) + 1, flambeau.zeros(2, 0, 3).transpose(0, 2)
    strides = {event.name: event.structured_input_strides[0] for event in found.events()}
    assert strides == {"aten::zeros": [], "aten::add": [3, 1], "aten::transpose": [3, 3, 1]}


def test_events_of_several_cycles_may_be_kept():
    schedule = flambeau.profiler.schedule(wait=0, warmup=1, active=1)
    with flambeau.profiler.profile(schedule=schedule, acc_events=True) as found:
        for _ in range(4):
            flambeau.ones(1)
            found.step()
    assert [event.count for event in found.key_averages()] == [2, 2]


def test_traces(tmp_path):
    handler = flambeau.profiler.tensorboard_trace_handler(str(tmp_path / "runs"), "worker", use_gzip=True)
    x = flambeau.ones(2, 2, requires_grad=True)
    with flambeau.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True, on_trace_ready=handler) as found:
        found.add_metadata("who", 'a "name"')
        found.add_metadata_json("sizes", "[1, 2]")
        (x @ x).sum().backward()
    (path,) = (tmp_path / "runs").iterdir()
    assert path.name.startswith("worker.") and path.name.endswith(".pt.trace.json.gz")
    trace = json.loads(gzip.decompress(path.read_bytes()))
    assert trace["who"] == 'a "name"' and trace["sizes"] == [1, 2] and trace["trace_id"] == found.get_trace_id()
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    by_name = {event["name"]: event for event in events}
    assert by_name["aten::mm"]["args"]["Input Dims"] == [[2, 2], [2, 2]] and "Call stack" in by_name["aten::mm"]["args"]
    assert all(event["dur"] >= 0 and event["cat"] == "cpu_op" for event in events)
    kinds = {(event["ph"], event.get("cat")) for event in trace["traceEvents"]}
    assert {("s", "fwdbwd"), ("f", "fwdbwd"), ("i", "cpu_instant_event"), ("M", None)} <= kinds


def test_what_needs_other_devices_or_is_not_there_says_so():
    for emit, error in ((autograd.emit_nvtx, AssertionError), (autograd.emit_itt, RuntimeError)):
        with pytest.raises(error, match=r"not compiled with CUDA|ITT"), emit():
            pass
        with emit(enabled=False):
            pass
    for mark in (flambeau.profiler.itt.range_push, flambeau.cuda.nvtx.range_push):
        with pytest.raises(RuntimeError, match="not installed"):
            mark("here")
    activity, action = flambeau.profiler.ProfilerActivity, flambeau.profiler.ProfilerAction
    with (
        pytest.warns(UserWarning, match="XPU is not available"),
        pytest.raises(AssertionError, match="No activities specified"),
        flambeau.profiler.profile(activities=[activity.XPU]),
    ):
        pass
    with pytest.raises(ValueError, match="DEVICE_STOPPED"):
        flambeau.profiler.profile(schedule=lambda step: action.DEVICE_STOPPED)
    named = {flambeau.profiler.ProfilerActivity.CPU: ["aten::add"]}
    for begin in (lambda: flambeau.profiler.profile(activities=[named]), lambda: autograd.profile(activity_filters=named)):
        with pytest.raises(NotImplementedError, match="activit"):
            begin()
    with pytest.raises(TypeError, match="verboose"):
        flambeau.profiler._ExperimentalConfig(verboose=True)
    with pytest.raises(NotImplementedError, match="record_python_gc_info"):
        flambeau.profiler._ExperimentalConfig(record_python_gc_info=True)


# -- the command --------------------------------------------------------------------------------------------------------------------------
def test_bottleneck_of_what_is_not_there():
    command = [sys.executable, "-m", "flambeau.utils.bottleneck", "there is no such script.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)
    assert done.returncode == 2 and "no such script" in done.stderr


def test_numbers_that_are_read_and_contractions_have_ranges() -> None:
    x = flambeau.arange(6.0).reshape(2, 3)
    with flambeau.profiler.profile(activities=[flambeau.profiler.ProfilerActivity.CPU]) as found:
        x.sum().item(), flambeau.einsum("ij,kj->ik", x, x)
    counts = {event.key: event.count for event in found.key_averages()}
    assert counts["aten::item"] == counts["aten::_local_scalar_dense"] == counts["aten::einsum"] == 1
    assert x.sum().item() == 15
