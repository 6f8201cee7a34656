"""The names around ``torch.compile``: back ends, stances, marks, explanations, logs."""

from __future__ import annotations

import functools
import io
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler import backends, logs


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Any, factor: float = 1.0) -> Any:
        return F.relu(self.layer(x)) * factor


def test_functions_as_back_ends_get_graphs_and_examples() -> None:
    given: list[Any] = []

    def backend(gm: Any, inputs: Any) -> Any:
        given.append((gm, inputs))
        return gm.forward

    model, x = Net(), torch.randn(4, 3)
    compiled = torch.compile(model, backend=backend)
    for _ in range(2):
        assert torch.equal(compiled(x, 2.0), model(x, 2.0))
    assert len(given) == 1 and isinstance(given[0][0], torch.fx.GraphModule) and given[0][1][0] is x
    assert any(node.op == "call_module" for node in given[0][0].graph.nodes)
    function = torch.compile(lambda x: model(x) + 1, backend=backend)
    assert torch.equal(function(x), model(x) + 1) and len(given) == 2
    assert torch.equal(function(x[:2]), model(x[:2]) + 1) and len(given) == 3
    loss = compiled(x, 2.0).sum()
    loss.backward()
    assert model.layer.weight.grad is not None


def test_back_ends_that_fail_and_programs_without_a_graph() -> None:
    def failing(gm: Any, inputs: Any) -> Any:
        raise ValueError("no")

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no"):
        torch.compile(lambda x: x + 1, backend=failing)(torch.ones(1))
    counter = torch._dynamo.testing.CompileCounter()
    branching = torch.compile(lambda x: x + 1 if x.sum() > 0 else x, backend=counter)
    assert branching(torch.ones(1)).item() == 2 and counter.frame_count == 0
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda x: x + 1 if x.sum() > 0 else x, backend=counter, fullgraph=True)(torch.ones(1))


def test_names_of_back_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_registered", dict(backends._registered))
    with pytest.raises(torch._dynamo.exc.InvalidBackend):
        torch.compile(lambda x: x, backend="nothing")

    @torch._dynamo.register_backend
    def doubled_in_a_test(gm: Any, inputs: Any) -> Any:
        return lambda *args: gm(*args) * 2

    assert "doubled_in_a_test" in torch.compiler.list_backends()
    assert torch.compile(lambda x: x + 1, backend="doubled_in_a_test")(torch.ones(1)).item() == 4
    torch.compiler.set_default_backend("eager")
    try:
        assert torch.compiler.get_default_backend() == "eager"
        assert torch.compile(lambda x: x + 1)(torch.ones(1)).item() == 2
    finally:
        torch.compiler.set_default_backend("inductor")


def test_stances() -> None:
    compiled = torch.compile(lambda x: x * 2)
    x = torch.ones(2)
    with torch.compiler.set_stance("force_eager"):
        assert compiled(x).sum() == 4
    assert not compiled._call.programs
    compiled(x)
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(x)
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(torch.ones(3))
    with torch.compiler.set_stance("eager_on_recompile"):
        assert compiled(torch.ones(3)).sum() == 6 and len(compiled._call.programs) == 1

    @torch.compiler.set_stance("force_eager")
    def inside() -> Any:
        return torch.compile(lambda x: x + 1)

    fresh = inside()
    fresh(x)
    assert len(fresh._call.programs) == 1, "the stance ends with the call"


def test_is_compiling_is_true_while_a_program_is_recorded() -> None:
    def function(x: Any) -> Any:
        return x + (1 if torch.compiler.is_compiling() and torch._utils.is_compiling() else 2)

    assert not torch.compiler.is_compiling() and not torch._utils.is_compiling()
    assert torch.compile(function)(torch.zeros(1)).item() == 1


def test_explanations_and_logs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def breaking(x: Any) -> Any:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    told = torch._dynamo.explain(breaking)(torch.ones(2))
    assert told.graph_break_count == 1 and "graph_break()" in told.break_reasons[0] and "Break Reason 1" in str(told)
    told = torch._dynamo.explain(lambda x: x.sin().cos() if x.sum() > 0 else x)(torch.ones(2))
    assert told.graph_count == 2 and "looks at values" in told.break_reasons[0]
    monkeypatch.setattr(logs, "_chosen", set())
    torch._logging.set_logs(recompiles=True, graph_breaks=True, graph_code=True)
    compiled = torch.compile(lambda x: x.sin())
    compiled(torch.ones(2))
    compiled(torch.ones(3))
    torch.compile(breaking)(torch.ones(2))
    text = capsys.readouterr().err
    assert "[recompiles]" in text and "arguments differ" in text
    assert "[graph_breaks]" in text and "graph_break() is called" in text and "= sin(x)" in text


def test_modules_can_be_compiled_in_place() -> None:
    model = Net()
    model.compile()
    x = torch.randn(2, 3)
    want = F.relu(model.layer(x))
    for _ in range(3):
        assert torch.allclose(model(x), want, rtol=1e-5)
    assert list(model.state_dict()) == ["layer.weight", "layer.bias"]
    call = model._compiled_call_impl
    assert len(call._call.programs) == 1


def test_copies_of_compiled_modules_are_compiled() -> None:
    import copy

    net = Net()
    with torch.no_grad():  # small integers, so that sums are exact in any order
        for param in net.parameters():
            param.copy_(torch.randint(-8, 9, param.shape))
    model, x = torch.compile(net), torch.randint(-8, 9, (2, 3)).float()
    model(x)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        model.layer.weight.zero_()
        model.layer.bias.zero_()
    for _ in range(3):
        assert not model(x).any() and torch.equal(twin(x), F.relu(twin.layer(x)))
    assert len(twin.__dict__["_call"].programs) == 1


def test_counts_and_settings() -> None:
    counters = torch._dynamo.utils.counters
    counters.clear()
    torch.compile(lambda x: x.sin().cos())(torch.ones(2))
    torch.compile(lambda x: x + len(repr(x)))(torch.ones(2))
    assert counters["frames"] == {"total": 2, "ok": 1} and counters["stats"] == {"unique_graphs": 1, "calls_captured": 2}
    assert sum(counters["graph_break"].values()) == 1
    import flambeau._inductor.config as inductor

    assert torch._inductor.config.coordinate_descent_tuning is False
    torch._inductor.config.triton.unique_kernel_names = True
    layer, graph = torch.nn.Linear(2, 1), torch.fx.symbolic_trace(lambda x: x * 2)
    assert torch._inductor.compile(graph, [torch.ones(1)])(torch.ones(1)).item() == 2
    from flambeau._inductor.compile_fx import compile_fx

    torch.compile(layer, backend=lambda graph, inputs: compile_fx(graph, inputs))(torch.ones(1, 2)).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]
    torch._inductor.cudagraph_mark_step_begin()
    inductor.fx_graph_cache = inductor.fx_graph_cache
    torch._dynamo.config.recompile_limit, before = 1, torch._dynamo.config.recompile_limit
    try:
        compiled = torch.compile(lambda x: x + 1)
        compiled(torch.ones(1)), compiled(torch.ones(2)), compiled(torch.ones(3))
        assert len(compiled._call.programs) == 1
    finally:
        torch._dynamo.config.recompile_limit = before


def test_numpy_functions_over_tensors_and_marks() -> None:
    import numpy as np

    doubled = torch.compiler.wrap_numpy(lambda a: {"out": np.multiply(a, 2)})
    assert torch.equal(doubled(torch.ones(2))["out"], torch.full((2,), 2.0))
    for mark in (torch._dynamo.disallow_in_graph, torch.compiler.nested_compile_region):
        assert mark(abs)(-1) == 1
    assert torch._dynamo.optimize("eager")(abs)(-2) == 2 and torch._dynamo.run(abs)(-3) == 3
    assert torch.compiler.substitute_in_graph(abs)(lambda x: x)(5) == 5
    run = torch._dynamo.lookup_backend("inductor")(torch.fx.symbolic_trace(lambda x: x * 3), [torch.ones(1)])
    assert run(torch.ones(1)).item() == run(torch.ones(1)).item() == 3 and torch._dynamo.lookup_backend(abs) is abs
    with pytest.raises(torch._dynamo.exc.InvalidBackend):
        torch._dynamo.lookup_backend("nothing")
    assert torch.compiler.save_cache_artifacts() is None and torch.compiler.load_cache_artifacts(b"") is None
    with pytest.raises(NotImplementedError, match="artifacts"):
        torch.compiler.load_cache_artifacts(b"machine code")
    with pytest.raises(NotImplementedError, match="shapes_spec"):
        torch.compile(shapes_spec={})


def test_optimizers_steps_alone() -> None:
    model = Net()
    twin = Net()
    twin.load_state_dict(model.state_dict())
    optimizers = [torch.optim.AdamW(each.parameters(), lr=0.1) for each in (model, twin)]
    step = torch.compile(optimizers[0].step)
    x = torch.randn(4, 3)
    for n in range(5):
        for group in (group for optimizer in optimizers for group in optimizer.param_groups):
            group["lr"] = 0.1 / (n + 1)
        for each, optimizer, update in ((model, optimizers[0], step), (twin, optimizers[1], optimizers[1].step)):
            optimizer.zero_grad()
            each(x).sum().backward()
            update()
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_what_back_ends_made_is_for_the_same_surroundings() -> None:
    counter = torch._dynamo.testing.CompileCounter()
    scale = 2
    compiled = torch.compile(lambda x: x * scale, backend=counter)
    x = torch.ones(2)
    assert compiled(x).sum().item() == 4
    scale = 3
    assert compiled(x).sum().item() == 6 and compiled(x).sum().item() == 6 and counter.frame_count == 2
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(1.0))
    of_model = torch.compile(model, backend=counter)
    assert of_model(x).count_nonzero() == 0 and model.eval() is model and of_model(x).count_nonzero() == 2
    model[0].weight = nn.Parameter(torch.zeros(2, 2))
    assert torch.equal(of_model(x), model[0].bias)
    assert counter.frame_count == 5


def test_back_ends_get_no_tensors_of_other_classes() -> None:
    class Other(torch.Tensor):
        pass

    compiled = torch.compile(lambda x, y: x + y, backend=lambda gm, inputs: gm.forward)
    for number in (1.0, 5.0):
        assert compiled(torch.ones(1), torch.full((1,), number).as_subclass(Other)).item() == 1 + number


def test_python_state_changes_once_a_call_with_a_back_end() -> None:
    counts = [0]

    def counting(x: Any) -> Any:
        counts[0] += 1
        return x + 1

    compiled = torch.compile(counting, backend=lambda gm, inputs: gm.forward)
    for n in range(1, 4):
        assert compiled(torch.ones(1)).item() == 2 and counts == [n]
    with pytest.raises(torch._dynamo.exc.Unsupported, match="changes Python state"):
        torch.compile(counting, backend=lambda gm, inputs: gm.forward, fullgraph=True)(torch.ones(1))


def test_limits_stances_and_reset_hold_for_functions_as_back_ends() -> None:
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda x: x + 1, backend=counter, recompile_limit=2)
    with torch.compiler.set_stance("force_eager"):
        assert compiled(torch.ones(1)).item() == 2 and counter.frame_count == 0
    for n in range(1, 5):
        assert compiled(torch.ones(n)).shape == (n,)
    assert counter.frame_count == 2
    torch.compiler.reset()
    compiled(torch.ones(1))
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="fail_on_recompile"):
        compiled(torch.ones(2))
    assert counter.frame_count == 3
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        torch.compile(lambda x: x, backend=counter, fullgraph=True, recompile_limit=0)(torch.ones(1))


def test_failures_of_back_ends_can_be_suppressed() -> None:
    def failing(gm: Any, inputs: Any) -> Any:
        raise ValueError("no")

    with torch._dynamo.config.patch(suppress_errors=True):
        assert torch.compile(lambda x: x + 1, backend=failing)(torch.ones(1)).item() == 2


def test_what_is_compiled_once_more_gets_the_new_choices() -> None:
    counter = torch._dynamo.testing.CompileCounter()
    layer = nn.Linear(2, 2)
    again = torch.compile(torch.compile(layer), backend=counter)
    assert again._orig_mod is layer and again(torch.ones(2)).shape == (2,) and counter.frame_count == 1
    inner = torch.compile(lambda x: x + 1, backend=counter)
    assert torch.compile(inner, backend="eager")(torch.ones(1)).item() == 2 and counter.frame_count == 1

    @functools.wraps(inner)
    def around(x: Any) -> Any:
        return inner(x) * 3

    assert torch.compile(around)(torch.ones(1)).item() == 6


def test_older_names_of_settings_and_choices_that_there_are_not() -> None:
    config = torch._dynamo.config
    with config.patch(cache_size_limit=1):
        assert config.recompile_limit == 1
    assert config.recompile_limit == config.cache_size_limit == 8
    with pytest.raises(NotImplementedError, match="forbid_in_graph"):
        torch._dynamo.forbid_in_graph(abs)
    with pytest.raises(NotImplementedError, match="skip_code"):
        torch._dynamo.eval_frame.skip_code(None)
    with pytest.raises(TypeError):
        torch._dynamo.optimize("eager", guard_export_fn=print)
    with pytest.raises(TypeError, match="expects a tensor"):
        torch._dynamo.mark_static_address(3)
    counter = torch._dynamo.testing.CompileCounter()
    assert torch._dynamo.run(torch.compile(lambda x: x + 1, backend=counter))(torch.ones(1)).item() == 2 and counter.frame_count == 0


def test_counters_run_graphs_by_the_back_end_that_they_are_given() -> None:
    counter = torch._dynamo.testing.CompileCounterWithBackend(lambda gm, inputs: lambda *given: gm(*given) * 2)
    assert torch.compile(lambda x: x + 1, backend=counter)(torch.ones(1)).item() == 4
    assert counter.frame_count == len(counter.graphs) == 1
    counter.clear()
    assert counter.frame_count == len(counter.graphs) == 0


FACTOR = 2


def test_guards_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    layer = nn.Linear(2, 2)

    def scaled(x: Any) -> Any:
        return layer(x) * FACTOR

    def compiled(choose: Any, **options: Any) -> Any:
        return torch.compile(scaled, options={"guard_filter_fn": choose}, **options)

    def watching(entries: Any) -> list[bool]:
        seen.extend(entries)
        return [True] * len(entries)

    x, counter = torch.ones(2), torch._dynamo.testing.CompileCounter()
    unsafe = torch.compiler.skip_guard_on_globals_unsafe, torch.compiler.skip_all_guards_unsafe
    bold = [compiled(choose) for choose in unsafe] + [compiled(unsafe[1], backend=counter)]
    careful = [compiled(watching), compiled(torch.compiler.skip_guard_on_all_nn_modules_unsafe), torch.compile(scaled)]
    once = scaled(x)
    for each in (*bold, *careful):
        assert torch.equal(each(x), once)
    assert {entry.guard_type for entry in seen} == {"TENSOR_MATCH", "EQUALS_MATCH", "NN_MODULE"}
    assert [entry.value for entry in seen if entry.is_global and entry.name == "global FACTOR"] == [2]
    kept = torch.compiler.keep_tensor_guards_unsafe(seen, keep_parameters=True)
    assert (
        sum(kept) == sum(entry.guard_type == "TENSOR_MATCH" for entry in seen) and sum(torch.compiler.keep_tensor_guards_unsafe(seen)) == 0
    )
    assert 0 < sum(torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe(seen)) < len(seen)
    monkeypatch.setitem(globals(), "FACTOR", 3)
    for each in bold:
        assert torch.equal(each(x), once)
    for each in careful:
        assert torch.equal(each(x), scaled(x))
    with pytest.raises(ValueError, match="values for"):
        compiled(lambda entries: [True])(x)


def test_smaller_names() -> None:
    info = torch.compiler.CacheInfo()
    info.artifacts["inductor"].append("k")
    assert info.inductor_artifacts == ["k"] and not info.empty()
    info.clear()
    assert info.empty() and torch.compiler.set_enable_guard_collectives(False) is False
    with pytest.raises(NotImplementedError, match="guard_collectives"):
        torch.compiler.set_enable_guard_collectives(True)
    with pytest.raises(NotImplementedError, match="options of regions"):
        torch.compiler.nested_compile_region(abs, options=torch.compiler.NestedCompileRegionOptions(fw_compiler=print))
    assert torch._dynamo.is_dynamo_disable_recursive(torch.compiler.disable(abs, recursive=False)) is False
    assert torch._dynamo.is_dynamo_disable_recursive(abs) is None
    with torch._dynamo.patch_dynamo_config(recompile_limit=3):
        assert torch._dynamo.config.recompile_limit == 3
    with pytest.raises(ValueError, match="recursion limit"):
        torch._dynamo.set_recursion_limit(0)

    @torch._dynamo.dont_skip_tracing()
    def skipped(x: Any) -> Any:
        torch._dynamo.skip_frame("here")
        return x + 1

    compiled = torch.compile(skipped)
    assert compiled(torch.ones(1)).item() == 2 and "here" in compiled._call.breaks[0]
    assert torch.wait(torch.fork(lambda x: x + 1, torch.ones(1))).item() == 2


def test_settings_have_a_module_of_their_own_name() -> None:
    import flambeau.compiler.config as config

    assert torch.compiler.config.recompile_limit == torch._dynamo.config.recompile_limit
    compiled = torch.compile(lambda x, word: x * 2 if word == "a" else x * 3, recompile_limit=1)
    with config.patch(fail_on_recompile_limit_hit=True):
        compiled(torch.ones(2), "a")
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit, match="fail_on_recompile_limit_hit=True"):
            compiled(torch.ones(2), "b")


def test_functions_cannot_be_compiled_into_files_yet() -> None:
    with pytest.raises(NotImplementedError, match="aot_compile is not supported"):
        torch.compile(lambda x: x, fullgraph=True).aot_compile(((torch.ones(1),), {}))
    with pytest.raises(NotImplementedError, match="load_compiled_function is not supported"):
        torch.compiler.load_compiled_function(io.BytesIO())
    file = io.BytesIO()  # what the message says instead
    torch.export.save(torch.export.export(torch.nn.Tanh(), (torch.ones(2),)), file)
    file.seek(0)
    assert torch.compile(torch.export.load(file).module())(torch.ones(2)).allclose(torch.ones(2).tanh())
