"""``torch.fx``: graphs, generated code and errors beside PyTorch's, from the same programs."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Tuple  # noqa: UP035 - generated code names them as they are written

import pytest

import flambeau
from flambeau import fx


def outcome(program: Callable[..., Any], *args: Any) -> Any:
    """The result of a program, or the type and text of its error."""
    try:
        return program(*args)
    except Exception as error:
        return type(error).__name__, str(error)


def normal(text: Any) -> Any:
    """Names that differ: PyTorch's compiled functions of ``nn.functional`` and Python ones of ``torch`` have names of their own modules."""
    if isinstance(text, str):
        return text.replace("torch._C._nn.", "torch.nn.functional.").replace("torch.functional.", "torch.")
    if isinstance(text, tuple | list):
        return type(text)(map(normal, text))
    return text


# Functions of the library, traced by each.
TRACED: dict[str, Callable[..., Any]] = {
    "operators": lambda torch: (
        lambda x, y: (x + 1, 2 - x, x * y, 2 / x, x // 2, 2**x, x % 2, x @ y, -x, ~x, +x, x >> 1, 1 << x, x ^ y, x | 1)
    ),
    "comparisons": lambda torch: lambda x, y: (x < 2, x <= y, x > 2, 3 >= x, x == y, x != 2),
    "indices": lambda torch: lambda x, i: (x[0], x[1:], x[..., i], x[None, :, 0], x[:, [0, 1]], x[i]),
    "methods": lambda torch: lambda x: x.relu().sum(dim=-1, keepdim=True).view(-1, 2).to(torch.float64),
    "attributes": lambda torch: lambda x: (x.shape[0], x.dtype, x.T, x.device, x.ndim),
    "functions": lambda torch: lambda x: (torch.relu(x), torch.exp(x), torch.add(x, x, alpha=2), torch.clamp(x, min=0, max=1.5)),
    "keywords": lambda torch: (
        lambda x: (torch.cat([x, x], dim=0), torch.sum(x, dim=(0, 1)), torch.flatten(x, start_dim=1), torch.max(x, dim=1))
    ),
    "positions": lambda torch: lambda x: (torch.cat([x, x], 0), torch.sum(x, 1, True), torch.flatten(x, 1), torch.transpose(x, 0, 1)),
    "functional": lambda torch: (
        lambda x: (
            torch.nn.functional.relu(x),
            torch.nn.functional.softmax(x, 1),
            torch.nn.functional.dropout(x),
            torch.nn.functional.cross_entropy(x, x),
            torch.nn.functional.batch_norm(x, x, x),
            torch.nn.functional.interpolate(x, scale_factor=2.0),
            torch.nn.functional.gelu(x),
            torch.nn.functional.embedding(x, x),
            torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        )
    ),
    "sizes": lambda torch: lambda x: (torch.zeros(x.shape[0]), x.new_zeros(2), x.reshape(x.size())),
    "mathematics": lambda torch: lambda x: math.sqrt(x.shape[0]),
    "unused": lambda torch: lambda x: [x.neg(), x + 1][1],
    "nothing": lambda torch: lambda x: None,
    "no arguments": lambda torch: lambda: 3,
    "constants": lambda torch: (
        lambda x: (
            torch.full_like(x, float("inf")),
            x.to(device=torch.device("cpu"), dtype=torch.float32),
            x.view(torch.Size([1, 2])),
            x.contiguous(memory_format=torch.channels_last),
            1j,
            "text",
            {"a": x, "b": (x, [1, None])},
        )
    ),
    "unpacked": lambda torch: unpacked,
    "any arguments": lambda torch: any_arguments,
    "annotations": lambda torch: annotated(torch),
    "if": lambda torch: lambda x: x if x.sum() > 0 else -x,
    "for": lambda torch: lambda x: [i for i in x],  # noqa: C416
    "len": lambda torch: lambda x: len(x),
    "int": lambda torch: lambda x: int(x),
    "a proxy in a key": lambda torch: lambda x: {x: 1},
}


def unpacked(x):
    first, second = x
    return first + second


def any_arguments(x, y=3, *args, **kwargs):
    return x + y, args, kwargs


def annotated(torch):
    def function(x: torch.Tensor, y: List[int], z: Optional[torch.Tensor] = None, d: Dict[str, int] = {}) -> Tuple[torch.Tensor, int]:  # noqa: B006, UP006, UP045
        return x, 1

    return function


@pytest.mark.parametrize("name", TRACED)
def test_code_and_listing_are_pytorchs(name: str, of_pytorch: Any) -> None:
    def program(torch: Any) -> Any:
        def run() -> Any:
            module = (fx if torch is flambeau else torch.fx).symbolic_trace(TRACED[name](torch))
            return module.code, str(module.graph)

        return normal(outcome(run))

    assert program(flambeau) == of_pytorch(program)


def network(torch: Any) -> Any:
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 4)
            self.bias = torch.nn.Parameter(torch.ones(4))
            self.register_buffer("shift", torch.zeros(4))
            self.layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 4))
            self.list = torch.nn.ModuleList([torch.nn.Linear(4, 4)])
            self.inner = torch.nn.Module()
            self.inner.weight = torch.nn.Parameter(torch.ones(2, 4))
            self.constant = torch.arange(4.0)

        def forward(self, x, scale: float = 2.0, *, flag=True):
            y = self.layers(self.linear(x) + self.bias)
            for layer in self.list:
                y = layer(y)
            y = y * scale - self.shift + self.constant + torch.ones(4)
            return torch.nn.functional.linear(y, self.inner.weight), self.training

    torch.manual_seed(0)
    return Network()


def test_a_module_is_pytorchs(of_pytorch: Any) -> None:
    def program(torch: Any) -> Any:
        module = torch.fx.symbolic_trace(network(torch))
        x = torch.ones(2, 3)
        nodes = [
            (node.op, node.name, str(node.target), [str(user) for user in node.users])
            for node in module.graph.nodes
            if node.op != "call_function"
        ]
        return normal((module.code, str(module.graph), repr(module), list(module.state_dict()), nodes, module(x)[0].tolist()))

    theirs, ours = of_pytorch(program), program(flambeau)
    assert ours[:-1] == theirs[:-1]
    assert ours[-1] == [pytest.approx(row, rel=1e-6) for row in theirs[-1]]


def edited(torch: Any) -> Any:
    """A graph made by hand, and what its methods give."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    a = graph.call_function(torch.add, (x, 1))
    names = [
        graph.create_node("call_function", torch.relu, (x,), name=name).name
        for name in "if sum x x_1 1x foo_3 foo_3 foo torch a.b *c".split()
    ]
    with graph.inserting_before(a):
        b = graph.call_method("neg", (x,))
    a.replace_input_with(x, b)
    result = [names, a.format_node(), repr(x), [str(n) for n in x.users][:2], a.all_input_nodes == [b], outcome(graph.erase_node, x)]
    graph.output(a)
    with graph.inserting_after(a):
        c = graph.call_function(torch.sub, (a, x))
    result += [[n.name for n in a.replace_all_uses_with(c, lambda user: user is not c)], str(graph), len(graph.nodes), a < c, b.next is a]
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
    result += [
        str(graph),
        outcome(graph.lint),
        [n.name for n in reversed(graph.nodes)],
        [n.name for n in graph.find_nodes(op="call_method")],
    ]
    module = torch.fx.GraphModule(torch.nn.Module(), copy.deepcopy(graph))
    result += [module.code, type(module).__name__, module(torch.ones(2)).tolist(), outcome(setattr, a.args, "x", 1)[0]]
    b.prepend(a)
    result += [outcome(graph.lint), outcome(graph.create_node, "unknown", "x"), outcome(a.kwargs.update, {})[0]]
    return result


def test_graphs_made_by_hand_are_pytorchs(of_pytorch: Any) -> None:
    assert edited(flambeau) == of_pytorch(edited)


def passes(torch: Any) -> Any:
    """What interpreters, transformers, rewriting and passes make."""

    class Swapped(torch.fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.sigmoid if target is torch.relu else target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method("abs" if target == "neg" else target, args, kwargs)

    class Noted(torch.fx.Interpreter):
        def run_node(self, node):
            noted.append((node.op, node.name))
            return super().run_node(node)

    noted: list[Any] = []
    module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + x.neg())
    result = [Swapped(module).transform().code, Noted(module).run(torch.ones(2)).tolist(), noted]
    result.append(outcome(torch.fx.Interpreter(module).run)[0])
    sums = torch.fx.symbolic_trace(lambda x, w, v: x + torch.max(torch.cat([w, v]).sum()) + torch.max(torch.cat([w, v]).sum()))
    found = torch.fx.replace_pattern(sums, lambda a, b: torch.cat([a, b]).sum(), lambda a, b: torch.stack([a, b]))
    result += [len(found), sums.code]
    other = torch.fx.symbolic_trace(lambda x: torch.relu(x * 2) + torch.relu(x + 3))
    found = torch.fx.replace_pattern(other, lambda x: torch.relu(x + 3), lambda x: x * 5)
    result += [len(found), other.code]
    from importlib import import_module

    rewriter = import_module(f"{torch.__name__}.fx.subgraph_rewriter")
    for options in ({"match_filters": [lambda match, whole, pattern: False]}, {"ignore_literals": True}):
        filtered = torch.fx.symbolic_trace(lambda x: torch.relu(x + 1) + torch.relu(x + 2))
        found = rewriter.replace_pattern_with_filters(filtered, lambda x: torch.relu(x + 1), lambda x: x.tanh(), **options)
        result += [[len(each.replacements) for each in found], filtered.code]
    made = torch.fx.symbolic_trace(lambda x: torch.relu(x) * 2)
    tanh = torch.fx.symbolic_trace(lambda x: x.tanh()).graph
    rewriter.replace_pattern_with_filters(made, lambda x: torch.relu(x), replacement_callback=lambda *place: tanh)
    layer = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    with_layer = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    torch.fx.replace_pattern(with_layer, torch.fx.symbolic_trace(lambda x: torch.relu(x)), layer)
    nested = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.ReLU())))
    changed = nested.add_submodule("x.y", torch.nn.ReLU()), nested.delete_submodule("1"), nested.delete_submodule("q")
    nested.delete_all_unused_submodules()
    names = [[name for name, _ in module.named_modules()] for module in (with_layer, nested)]
    return [*result, made.code, with_layer.code, changed, names]


def test_passes_are_pytorchs(of_pytorch: Any) -> None:
    assert normal(passes(flambeau)) == normal(of_pytorch(passes))


def concrete(torch: Any) -> Any:
    def chosen(x, flag, s, n=None):
        return x * 2 if flag else x + s

    trace, place = torch.fx.symbolic_trace, torch.fx.PH
    structured = trace(lambda x: x["a"] + x["b"], concrete_args={"x": {"a": place, "b": place}})
    return [
        trace(chosen, concrete_args={"flag": True}).code,
        trace(chosen, concrete_args={"flag": False, "s": 3, "n": None}).code,
        outcome(trace(chosen, concrete_args={"flag": True}), torch.ones(1), False, 3)[0],
        structured.code,
        structured({"a": 1, "b": 2}),
    ]


def test_concrete_arguments_are_pytorchs(of_pytorch: Any) -> None:
    assert concrete(flambeau) == of_pytorch(concrete)


@fx.wrap
def counted(x: Any, times: int) -> Any:
    return x * times if times > 1 else x


fx.wrap("sum")


def test_wrapped_functions_are_calls() -> None:
    module = fx.symbolic_trace(lambda x: counted(x, 3) + sum(x))
    targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
    assert targets == [counted_as_it_is(), sum, operator.add] and f'wrap("{__name__.replace(".", "_")}_counted")' in module.code
    assert module(flambeau.ones(2)).tolist() == [5.0, 5.0]
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("len")


def counted_as_it_is() -> Any:
    return globals()["counted"]


def kept_whole(torch: Any) -> Any:
    """What is called without looking inside, what cannot be an argument, and reads of buffers."""

    class Buffers(torch.fx.Tracer):
        proxy_buffer_attributes = True

    def code(tracer: Any, root: Any) -> str:
        return torch.fx.GraphModule(root if isinstance(root, torch.nn.Module) else torch.nn.Module(), tracer.trace(root)).code

    values = [abs, int, {1}, torch.nn.ReLU(), object()]
    refused = [outcome(lambda value=value: torch.fx.symbolic_trace(lambda x: x.clamp(value)))[0] for value in values]
    wrapped = code(torch.fx.Tracer(autowrap_functions=(doubled,)), lambda x: doubled(x, 3))
    return [refused, wrapped, code(Buffers(), network(torch)), code(torch.fx.Tracer(), network(torch))]


def doubled(x: Any, times: int) -> Any:
    return x * times if times > 1 else x


def test_what_is_kept_whole_or_refused_is_pytorchs(of_pytorch: Any) -> None:
    assert normal(kept_whole(flambeau)) == normal(of_pytorch(kept_whole))


def test_tracing_leaves_modules_and_mathematics_as_they_were() -> None:
    before = flambeau.nn.Module.__call__, "__getattribute__" in vars(flambeau.nn.Module), math.sqrt
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: math.sqrt(2) if x else 1)
    assert before == (flambeau.nn.Module.__call__, "__getattribute__" in vars(flambeau.nn.Module), math.sqrt)


def test_pickles_and_copies_compute_the_same() -> None:
    module = fx.symbolic_trace(network(flambeau))
    x = flambeau.randn(2, 3)
    want, _ = module(x)
    for other in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module), copy.copy(module)):
        assert flambeau.equal(other(x)[0], want) and other.graph.owning_module is not None
        assert list(other.state_dict()) == list(module.state_dict())
    copied = copy.deepcopy(module)
    with flambeau.no_grad():
        copied.bias.add_(1)
    assert not flambeau.equal(copied(x)[0], want) and flambeau.equal(module(x)[0], want)


def test_pickles_keep_the_structures_of_arguments() -> None:
    module = fx.symbolic_trace(lambda x: {"sum": x["a"] + x["b"]}, concrete_args={"x": {"a": fx.PH, "b": fx.PH}})
    assert pickle.loads(pickle.dumps(module))({"a": 1, "b": 2}) == module({"a": 1, "b": 2}) == {"sum": 3}


def test_a_folder_is_a_package_with_the_module(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = fx.symbolic_trace(flambeau.nn.Sequential(flambeau.nn.Linear(3, 2), flambeau.nn.ReLU()))
    module.to_folder(tmp_path / "written_module", "Written")
    monkeypatch.syspath_prepend(str(tmp_path))
    x = flambeau.randn(2, 3)
    import written_module

    assert flambeau.equal(written_module.Written()(x), module(x))
    sys.modules.pop("written_module"), sys.modules.pop("written_module.module")


def test_asserts_of_proxies_become_nodes() -> None:
    class Asserting(fx.Tracer):
        trace_asserts = True

    scope: dict[str, Any] = {}  # from text, since the test runner rewrites assertions
    exec("def function(x):\n    assert x.sum() > 0, 'positive'\n    assert x.ndim == 2\n    return x\n", scope)
    module = fx.GraphModule(flambeau.nn.Module(), Asserting().trace(scope["function"]))
    assert module(flambeau.ones(1, 1)).tolist() == [[1.0]]
    with pytest.raises(AssertionError, match="positive"):
        module(-flambeau.ones(1, 1))
    with pytest.raises(AssertionError):
        module(flambeau.ones(1))


def test_errors_name_the_node_and_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    module = fx.symbolic_trace(lambda x: (x + 1) @ x)
    with pytest.raises(RuntimeError):
        module(flambeau.ones(2, 3))
    assert "line 6 of the traced Module's generated forward function" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="While executing %matmul"):
        fx.Interpreter(module).run(flambeau.ones(2, 3))


def test_shapes_are_noted_also_of_fakes() -> None:
    from flambeau._subclasses.fake_tensor import FakeTensorMode
    from flambeau.fx.passes.shape_prop import ShapeProp

    module = fx.symbolic_trace(network(flambeau))
    for fake_mode in (None, FakeTensorMode()):
        ShapeProp(module, fake_mode).propagate(flambeau.ones(2, 3))
        metas = {node.name: node.meta.get("tensor_meta") for node in module.graph.nodes}
        assert tuple(metas["linear"].shape) == (2, 4) and metas["linear"].stride == (4, 1) and metas["linear"].requires_grad
    assert 'linear: "f32[2, 4]"' in module.print_readable(print_output=False)


def test_functions_that_write_are_refused_on_demand() -> None:
    class Checking(fx.Tracer):
        check_mutable_operations = True

    assert Checking().trace(lambda x: flambeau.relu(x)) and fx.Tracer().trace(lambda x: flambeau.relu_(x))
    for function in (lambda x: flambeau.relu_(x), lambda x: flambeau.add(x, x, out=x)):
        with pytest.raises(RuntimeError, match="Tried to trace mutable operation (relu_|add)"):
            Checking().trace(function)


class Drawn:
    """The part of ``pydot`` that drawings are made by."""

    def __init__(self, *names: str, **options: str):
        self.names, self.options, self.nodes, self.edges = names, options, [], []

    def add_node(self, node: Any) -> None:
        self.nodes.append((node.names[0].strip('"'), node.options["label"]))

    def add_edge(self, edge: Any) -> None:
        self.edges.append(tuple(name.strip('"') for name in edge.names))


def test_drawings_show_nodes_members_and_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    from flambeau.fx.passes.graph_drawer import FxGraphDrawer

    monkeypatch.setitem(sys.modules, "pydot", SimpleNamespace(Dot=Drawn, Node=Drawn, Edge=Drawn))
    module = fx.symbolic_trace(network(flambeau))
    whole = FxGraphDrawer(module, "whole").get_dot_graph()
    names = [name for name, _ in whole.nodes]
    assert {node.name for node in module.graph.nodes} < {*names} and "linear.weight" in names
    assert ("linear.weight", "linear") in whole.edges and ("x", "linear") in whole.edges
    labels = dict(whole.nodes)
    assert labels["linear.bias"] == r"{linear.bias|op_code=get_parameter|torch.float32[4]\n}"
    assert "in_features: 3" in labels["linear"] and "target=_operator.add" in labels["add"]
    plain = FxGraphDrawer(module, "plain", ignore_getattr=True, ignore_parameters_and_buffers=True).get_main_dot_graph()
    kept = {node.name for node in module.graph.nodes if node.op != "get_attr"}
    assert {name for name, _ in plain.nodes} == kept and {name for edge in plain.edges for name in edge} <= kept


def split(torch: Any) -> Any:
    from importlib import import_module

    split_module = import_module(f"{torch.__name__}.fx.passes.split_module").split_module

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.p = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.Parameter(torch.ones(3))

        def forward(self, x, y):
            z = (self.a(x) + self.p).relu()
            return self.b(z) + y, z

    traced = torch.fx.symbolic_trace(Two())
    parts = split_module(traced, traced, lambda node: 0 if node.name in ("a", "add", "relu") else 1)
    x = torch.ones(2, 3)
    return parts.code, parts.submod_0.code, parts.submod_1.code, torch.equal(parts(x, x)[0], traced(x, x)[0])


def test_split_modules_are_pytorchs(of_pytorch: Any) -> None:
    assert split(flambeau) == of_pytorch(split)


@pytest.mark.parametrize("name", ["resnet18", "shufflenet_v2_x0_5", "mobilenet_v3_small", "squeezenet1_1", "swin_t"])
def test_models_of_vision_compute_the_same(name: str) -> None:
    from flambeau.vision import models

    model = models.get_model(name, weights=None, num_classes=3).eval()
    traced = fx.symbolic_trace(model)
    traced.graph.lint()
    x = flambeau.randn(1, 3, 64, 64)
    with flambeau.no_grad():
        assert flambeau.equal(traced(x), model(x))
