"""``make_fx`` and ``torch.export`` make PyTorch's graphs: the same operations in the same order."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import exported_operations
import pytest

import flambeau
from flambeau.utils._pytree import tree_leaves

PROGRAMS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "arithmetic": lambda t: (lambda x: (x * 2 + 1).sin() / x.abs().clamp(min=0.5) - x.exp(), (t.ones(3, 2),)),
    "linear and softmax": lambda t: (lambda x, w, b: t.nn.functional.linear(x, w, b).softmax(-1), (t.ones(2, 3), t.ones(4, 3), t.ones(4))),
    "reductions": lambda t: (lambda x: (x.sum(), x.mean(1), x.amax(0), x.var(1), x.argmax(1)), (t.ones(3, 4),)),
    "views": lambda t: (lambda x: x.view(-1).unsqueeze(0).expand(2, -1).t()[1:3], (t.ones(2, 3),)),
    "writes": lambda t: (_writes(t), (t.ones(3),)),
    "factories": lambda t: (lambda x: x + t.zeros(2) + t.arange(2) + t.full((2,), 3.0) + t.ones_like(x), (t.ones(2),)),
    "indexing": lambda t: (lambda x, i: (x[i], x.index_select(0, i), x.gather(1, i[:, None])), (t.ones(3, 2), t.tensor([0, 1, 0]))),
    "a gradient": lambda t: (_gradient(t), (t.ones(2, 3), t.ones(4, 3))),
    "joining": lambda t: (lambda x: t.cat([x, t.stack([x, x]).sum(0)]).chunk(2), (t.ones(2, 2),)),
    "a convolution": lambda t: (lambda x, w: t.nn.functional.conv2d(x, w, padding=1).relu(), (t.ones(1, 2, 4, 4), t.ones(3, 2, 3, 3))),
    "a layer norm": lambda t: (lambda x: t.nn.functional.gelu(t.nn.functional.layer_norm(x, (3,))), (t.ones(2, 3),)),
    "a constant": lambda t: (lambda x: x * t.tensor([1.0, 2.0]), (t.ones(2),)),
}


def _writes(torch: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        y = x.clone()
        y.add_(1).mul_(x)
        return y.relu_()

    return f


def _gradient(torch: Any) -> Callable[..., Any]:
    def f(x: Any, w: Any) -> Any:
        w = w.detach().requires_grad_()
        return torch.autograd.grad(torch.tanh(x @ w.t()).sum(), w)

    return f


def module_of(torch: Any, name: str) -> Any:
    return importlib.import_module(f"{torch.__name__}.{name}")


def operations(graph: Any) -> list[str]:
    return [str(node.target) for node in graph.nodes if node.op == "call_function" and "getitem" not in str(node.target)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", ["real", "fake"])
def test_the_kernels_of_a_function_are_pytorchs(name: str, mode: str, of_pytorch: Any) -> None:
    def program(torch: Any) -> list[str]:
        function, inputs = PROGRAMS[name](torch)
        make_fx = module_of(torch, "fx.experimental.proxy_tensor").make_fx
        return operations(make_fx(function, tracing_mode=mode)(*inputs).graph)

    wanted, found = of_pytorch(program), program(flambeau)
    kept = [target for target in wanted if "detach" not in target]  # PyTorch shows that it lays results aside for derivatives
    assert [target for target in found if "detach" not in target] == kept


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_graphs_give_what_the_functions_give(name: str, mode: str) -> None:
    from flambeau.fx.experimental.proxy_tensor import make_fx

    function, inputs = PROGRAMS[name](flambeau)
    graph = make_fx(function, tracing_mode=mode)(*inputs)
    other = [x + 0.25 if x.dtype.is_floating_point else x for x in inputs]
    for a, b in zip(tree_leaves(graph(*other)), tree_leaves(function(*other)), strict=True):
        flambeau.testing.assert_close(a, b)


def test_a_symbolic_graph_takes_other_sizes() -> None:
    from flambeau.fx.experimental.proxy_tensor import make_fx

    def f(x: Any) -> Any:
        return flambeau.cat([x, x]).flatten(0, 1) + x.shape[0]

    graph = make_fx(f, tracing_mode="symbolic")(flambeau.ones(3, 4, 5))
    assert "sym_size" in graph.code and len(graph.shape_env.var_to_range) == 3
    x = flambeau.randn(2, 6, 3)
    assert flambeau.equal(graph(x), f(x))


def test_decompositions_replace_kernels() -> None:
    from flambeau.fx.experimental.proxy_tensor import make_fx

    table = {flambeau.ops.aten.silu.default: lambda x: x * x.sigmoid()}
    graph = make_fx(flambeau.nn.functional.silu, decomposition_table=table)(flambeau.ones(2))
    assert operations(graph.graph) == ["aten.sigmoid.default", "aten.mul.Tensor"]


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_tensors_of_the_function_itself_have_to_be_allowed(mode: str) -> None:
    from flambeau.fx.experimental.proxy_tensor import make_fx

    model, x = flambeau.nn.Linear(3, 2), flambeau.ones(4, 3)
    with pytest.raises(AssertionError, match="allow_non_fake_inputs"):
        make_fx(model, tracing_mode=mode)(x)
    graph = make_fx(model, tracing_mode=mode, _allow_non_fake_inputs=True)(x)
    assert flambeau.equal(graph(x), model(x))


def test_random_numbers_are_drawn_although_nothing_uses_them() -> None:
    from flambeau.fx.experimental.proxy_tensor import make_fx

    class Draws(flambeau.nn.Module):
        def forward(self, x: Any) -> Any:
            flambeau.rand(2)
            return x + flambeau.rand(2)

    graphs = [make_fx(Draws())(flambeau.ones(2)), flambeau.export.export(Draws(), (flambeau.ones(2),)).module()]
    for run in graphs:
        found = []
        for model in (Draws(), run):
            flambeau.manual_seed(0)
            found.append(model(flambeau.ones(2)))
        assert flambeau.equal(*found) and operations(run.graph).count("aten.rand.default") == 2


def test_options_that_are_not_supported_are_named() -> None:
    from flambeau.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer, make_fx

    for name in ("record_module_stack", "record_stack_traces", "proxy_module_inputs", "_disable_torch_fn_metadata_mode"):
        with pytest.raises(NotImplementedError, match=name):
            make_fx(flambeau.sin, **{name: True})  # type: ignore[arg-type]
    for given in ({"_allow_fake_constant": True}, {"_error_on_data_dependent_ops": False}):
        with pytest.raises(NotImplementedError, match=next(iter(given))):
            make_fx(flambeau.sin, **given)
        with pytest.raises(NotImplementedError, match=next(iter(given))):
            ProxyTorchDispatchMode(PythonKeyTracer(), "real", **given)


MODELS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "mlp": lambda t: (t.nn.Sequential(t.nn.Linear(4, 8), t.nn.ReLU(), t.nn.Dropout(), t.nn.Linear(8, 3)), (t.ones(2, 4),)),
    "cnn": lambda t: (
        t.nn.Sequential(
            t.nn.Conv2d(1, 4, 3), t.nn.BatchNorm2d(4), t.nn.LeakyReLU(0.2, inplace=True), t.nn.MaxPool2d(2), t.nn.ConvTranspose2d(4, 2, 2),
            t.nn.Upsample(scale_factor=2, mode="bilinear"), t.nn.AdaptiveAvgPool2d(1), t.nn.Flatten(), t.nn.GroupNorm(1, 2),
            t.nn.Softmax(1),
        ),
        (t.ones(2, 1, 8, 8),),
    ),
    "lstm": lambda t: (t.nn.LSTM(4, 6, 2, batch_first=True), (t.ones(2, 5, 4),)),
    "gru": lambda t: (t.nn.GRU(4, 6), (t.ones(5, 2, 4),)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_operations_of_an_exported_model_are_pytorchs(name: str, of_pytorch: Any) -> None:
    def program(torch: Any) -> list[Any]:
        model, inputs = MODELS[name](torch)
        export = module_of(torch, "export")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = export.export(model, inputs, dynamic_shapes=({1 if name == "gru" else 0: export.Dim("batch")},))
        return [operations(made.graph), [f"{spec.arg.name} {spec.kind.name} {spec.target}" for spec in made.graph_signature.input_specs]]

    assert program(flambeau) == of_pytorch(program)


@pytest.mark.oracle
@pytest.mark.slow
def test_the_operations_of_programs_are_pytorchs(oracle: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = exported_operations.compare()
    assert found["equal"] >= 0.95 * (found["equal"] + found["different"]) and found["not traced"] <= 5
