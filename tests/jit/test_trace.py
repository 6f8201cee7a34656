"""Tracing: what a trace keeps, what it warns of and refuses, and that it follows sizes."""

from __future__ import annotations

import io
import warnings
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn


def traced(function: Any, *inputs: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(function, inputs, **options)


def test_sizes_stay_variable_and_values_do_not() -> None:
    def function(x):
        n = x.shape[0] * 2 + x.size(-1) // 2 - 1
        return x.reshape(x.shape[:1] + (-1,)).sum() + torch.ones(n, x.size(0)).sum()

    compiled = traced(function, torch.ones(2, 4))
    for shape in ((2, 4), (5, 3), (1, 1)):
        assert compiled(torch.ones(shape)).item() == function(torch.ones(shape)).item()
    with pytest.warns(torch.jit.TracerWarning, match="Converting a tensor to a Python boolean"):
        branch = torch.jit.trace(lambda x: x if x.sum() > 0 else -x, torch.ones(2), check_trace=False)
    assert branch(-torch.ones(2)).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("inputs", "function"),
    [
        (lambda: ([torch.ones(2), torch.ones(2)],), lambda xs: xs[0] + xs[1]),
        (lambda: ((torch.ones(2), (torch.ones(2),)),), lambda xs: xs[0] + xs[1][0]),
        (lambda: ({"a": torch.ones(2), "b": torch.ones(2)},), lambda xs: xs["a"] - xs["b"]),
        (lambda: (torch.ones(2), torch.ones(2)), lambda x, *rest: x + rest[0]),
    ],
)
def test_inputs_of_several_forms(inputs: Any, function: Any) -> None:
    compiled = traced(function, *inputs())
    assert torch.equal(compiled(*inputs()), function(*inputs()))


def test_what_cannot_be_traced() -> None:
    with pytest.raises(RuntimeError, match="Type 'int' cannot be traced"):
        torch.jit.trace(lambda x, n: x * n, (torch.ones(1), 2))
    with pytest.raises(RuntimeError, match="Encountering a dict at the output"):
        torch.jit.trace(lambda x: {"a": x * 1}, torch.ones(1))
    assert traced(lambda x: {"a": x * 2}, torch.ones(1), strict=False)(torch.ones(1)) == {"a": torch.tensor([2.0])}
    outside = torch.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad as a constant"):
        torch.jit.trace(lambda x: x * outside, torch.ones(1))
    with pytest.raises(AttributeError, match="expected torch.nn.Module"):
        torch.jit.trace_module(3, {})
    with pytest.raises(RuntimeError, match="Only tensors, lists"):
        torch.jit.trace(lambda x: (x * 2, 3), torch.ones(1))


def test_traces_are_checked() -> None:
    counter = iter(range(100))
    with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed"):
        torch.jit.trace(lambda x: x * next(counter) if next(counter) < 2 else x + 1, torch.ones(1))
    with pytest.warns(torch.jit.TracerWarning, match="nondeterministic nodes"):
        torch.jit.trace(nn.Dropout(), torch.ones(4))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.jit.trace(lambda x: x if bool(x.sum() > 0) else -x, torch.ones(1), check_inputs=[(-torch.ones(1),)])
    assert any("does not match the corresponding output" in str(warning.message) for warning in told)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(self.act(self.linear(x)))

    def other(self, x):
        return self.linear(x) + 1


def test_a_traced_module_has_the_modules_parts() -> None:
    module = Twice()
    compiled = torch.jit.trace(module, torch.ones(1, 2))
    assert isinstance(compiled, torch.jit.TopLevelTracedModule) and isinstance(compiled.linear, torch.jit.TracedModule)
    assert compiled.linear.weight is module.linear.weight and str(compiled).startswith("Twice(\n  original_name=Twice")
    assert "def forward1" in compiled._script_unit.texts[compiled.linear._script_type.name], "one method for each call"
    x = torch.randn(3, 2)
    assert torch.equal(compiled(x), module(x)) and torch.equal(compiled.linear(x), module.linear(x))
    compiled(x).sum().backward()
    assert module.linear.weight.grad is not None
    assert [node.kind() for node in compiled.inlined_graph.nodes()].count("aten::linear") == 2
    with pytest.warns(UserWarning, match="already a ScriptModule"):
        assert torch.jit.trace(compiled, x) is compiled
    several = torch.jit.trace_module(module, {"forward": torch.ones(1, 2), "other": torch.ones(1, 2)})
    assert torch.equal(several.other(x), module.other(x))


class Signed(nn.Module):
    def forward(self, input):
        return input if input.sum() > 0 else -input


def test_arguments_by_name() -> None:
    compiled = torch.jit.trace(lambda x, y: x - y, example_kwarg_inputs={"x": torch.ones(2), "y": torch.zeros(2)})
    assert compiled(torch.ones(2), torch.ones(2)).tolist() == [0, 0]
    for program in (lambda input: input if input.sum() > 0 else -input, Signed()):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            torch.jit.trace(program, example_kwarg_inputs={"input": torch.ones(2)}, check_inputs=[{"input": -torch.ones(2)}])
        assert any("does not match the corresponding output" in str(warning.message) for warning in told)


def test_arguments_that_are_not_supported() -> None:
    for name, value in (("_force_outplace", True), ("_module_class", nn.Module), ("_compilation_unit", object())):
        with pytest.raises(NotImplementedError, match=name):
            torch.jit.trace(lambda x: x + 1, torch.ones(1), **{name: value})
        with pytest.raises(NotImplementedError, match=name):
            torch.jit.trace_module(nn.ReLU(), {"forward": torch.ones(1)}, **{name: value})
    with pytest.raises(RuntimeError, match="example_kwarg_inputs should be a dict"):
        torch.jit.trace(nn.ReLU())


def test_control_flow_of_compiled_functions_stays() -> None:
    @torch.jit.script_if_tracing
    def signed(x):
        if bool(x.sum() > 0):
            return x
        return -x

    compiled = torch.jit.trace(lambda x: signed(x) + 1, torch.ones(1))
    assert compiled(-torch.ones(1)).item() == 2 and "signed(" in compiled.code


def test_state_is_written_as_the_module_writes_it() -> None:
    norm = nn.BatchNorm1d(2)
    compiled = torch.jit.trace(norm, torch.ones(4, 2), check_trace=False)
    before = norm.num_batches_tracked.item()
    compiled(torch.randn(4, 2))
    assert norm.num_batches_tracked.item() == before + 1


def test_nothing_of_a_trace_is_left_behind() -> None:
    with pytest.raises(ZeroDivisionError):
        torch.jit.trace(lambda x: x * (1 // 0), torch.ones(1))
    assert not torch.jit.is_tracing() and not torch._C._is_tracing() and nn.Module.__call__.__name__ == "__call__"
    asked = []
    torch.jit.trace(lambda x: asked.append(torch.jit.is_tracing()) or x + 1, torch.ones(1), check_trace=False)
    assert asked == [True]


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_models_for_images(name: str) -> None:
    model = getattr(torch.vision.models, name)().eval()
    x, other = torch.randn(1, 3, 32, 32), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        for compiled in (torch.jit.trace(model, x, check_trace=False), torch.jit.script(model)):
            loaded = torch.jit.load(io.BytesIO(compiled.save_to_buffer()))
            torch.testing.assert_close(loaded(other), model(other))
