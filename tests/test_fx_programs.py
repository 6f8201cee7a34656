"""``torch.fx``: passes and programs as people write them, in both libraries from the same source."""

from __future__ import annotations

import operator
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import flambeau


def shown(torch: Any, module: Any) -> str:
    """Generated code, with names that do not depend on the library."""
    text: str = module.code
    for theirs, ours in (("torch._C._nn.", "torch.nn.functional."), ("torch.functional.", "torch."), (", 1, dim = 0)", ", 1)")):
        text = text.replace(theirs, ours)
    return text


def part(torch: Any, name: str) -> Any:
    """A module of ``torch.fx``."""
    return import_module(f"{torch.__name__}.fx.{name}")


def told(program: Callable[[], Any]) -> Any:
    try:
        return program()
    except Exception as error:
        return [type(error).__name__, str(error)]


# -- programs ---------------------------------------------------------------------------------------------------------------------------
def net(torch: Any) -> Any:
    """A small model in evaluation, drawn the same in both libraries."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
            self.inner = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.ReLU())
            self.drop, self.last = nn.Dropout(), nn.Conv2d(2, 1, 1)

        def forward(self, x: Any) -> Any:
            x = self.inner(self.norm(self.conv(x)))
            y = self.last(self.drop(x))
            return y + x.sum()

    torch.manual_seed(0)
    model = Net()
    with torch.no_grad():
        for norm in (model.norm, model.inner[1]):
            norm.running_mean.copy_(torch.arange(2.0))
            norm.running_var.copy_(torch.arange(2.0) + 1)
    return model.eval()


def fused_norms(torch: Any) -> Any:
    model, x = net(torch), torch.arange(25.0).reshape(1, 1, 5, 5) / 25
    fused = part(torch, "experimental.optimization").fuse(model)
    assert torch.allclose(fused(x), model(x), atol=1e-5)
    whole = part(torch, "experimental.optimization").optimize_for_inference(model, {"mkldnn_layout_optimize": False})
    assert torch.allclose(whole(x), model(x), atol=1e-5)
    return shown(torch, fused), shown(torch, whole), [name for name, _ in fused.named_modules()]


def norms_fused_by_hand(torch: Any) -> Any:
    """The pass as a program writes it: pairs of modules are looked for, the first is replaced, the second is left out."""
    module = torch.fx.symbolic_trace(net(torch))
    modules = dict(module.named_modules())
    for node in list(module.graph.nodes):
        if node.op != "call_module" or not isinstance(modules[node.target], torch.nn.BatchNorm2d):
            continue
        before = node.args[0]
        if before.op == "call_module" and isinstance(modules[before.target], torch.nn.Conv2d) and len(before.users) == 1:
            parent, _, name = before.target.rpartition(".")
            setattr(modules[parent], name, torch.nn.utils.fuse_conv_bn_eval(modules[before.target], modules[node.target]))
            node.replace_all_uses_with(before)
            module.graph.erase_node(node)
    module.graph.lint()
    module.recompile()
    module.delete_all_unused_submodules()
    return shown(torch, module), [name for name, _ in module.named_modules()]


def other_activations(torch: Any) -> Any:
    """Functions, methods and modules of one activation replaced by another."""
    F = torch.nn.functional

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = torch.nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.act(torch.relu(x) + F.relu(x)).relu()

    module = torch.fx.symbolic_trace(Model())
    for node in list(module.graph.nodes):
        is_module = node.op == "call_module" and isinstance(module.get_submodule(node.target), torch.nn.ReLU)
        if is_module or node.target in (torch.relu, F.relu, "relu"):
            with module.graph.inserting_after(node):
                made = module.graph.call_function(F.hardtanh, (node.args[0],), {"min_val": 0.0})
            node.replace_all_uses_with(made)
            module.graph.erase_node(node)
    module.recompile()
    return shown(torch, module), module(torch.tensor([-1.0, 0.4, 3.0])).tolist()


def profiling_interpreter(torch: Any) -> Any:
    """An interpreter that measures each node; a report has a line for each."""

    class Profiler(torch.fx.Interpreter):
        def __init__(self, module: Any):
            super().__init__(module)
            self.whole: list[float] = []
            self.times: dict[Any, list[float]] = {}

        def run(self, *args: Any) -> Any:
            start = time.perf_counter()
            result = super().run(*args)
            self.whole.append(time.perf_counter() - start)
            return result

        def run_node(self, n: Any) -> Any:
            start = time.perf_counter()
            result = super().run_node(n)
            self.times.setdefault(n, []).append(time.perf_counter() - start)
            return result

    interpreter = Profiler(torch.fx.symbolic_trace(net(torch)))
    for _ in range(3):
        interpreter.run(torch.ones(1, 1, 5, 5))
    assert sum(map(sum, interpreter.times.values())) <= sum(interpreter.whole)
    return [(node.op, str(node.target), len(times)) for node, times in interpreter.times.items()]


def own_tracers(torch: Any) -> Any:
    """A tracer that looks into some modules and not into others, and one that notes the module of each node."""

    class Shallow(torch.fx.Tracer):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return isinstance(m, torch.nn.Sequential) or super().is_leaf_module(m, module_qualified_name)

    class Noting(torch.fx.Tracer):
        def __init__(self) -> None:
            super().__init__()
            self.path, self.found = "", {}

        def call_module(self, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
            around, self.path = self.path, self.path_of_module(m)
            try:
                return super().call_module(m, forward, args, kwargs)
            finally:
                self.path = around

        def create_proxy(self, *args: Any, **kwargs: Any) -> Any:
            proxy = super().create_proxy(*args, **kwargs)
            self.found[proxy.node.name] = self.path
            return proxy

    noting = Noting()
    noting.trace(net(torch))
    return [node.name for node in Shallow().trace(net(torch)).nodes], noting.found


def rewritten_parts(torch: Any) -> Any:
    """Patterns replaced: one that is found twice, one with arguments in other places, and with a filter."""
    rewriter = torch.fx.subgraph_rewriter

    def program(x: Any, w: Any) -> Any:
        first = torch.cat([x.sum(0), w.sum(0)]).max()
        second = torch.cat([w.sum(0), x.sum(0)]).max()
        return first + second * torch.sigmoid(x)

    def pattern(a: Any, b: Any) -> Any:
        return torch.cat([a.sum(0), b.sum(0)])

    def replacement(a: Any, b: Any) -> Any:
        return torch.stack([b, a]).sum(1)

    module = torch.fx.symbolic_trace(program)
    found = rewriter.replace_pattern(module, pattern, replacement)
    filtered = rewriter.replace_pattern_with_filters(
        module, lambda x: torch.sigmoid(x), lambda x: torch.tanh(x), [lambda match, original, graph: False]
    )
    x, w = torch.ones(2, 2), torch.arange(4.0).reshape(2, 2)
    return len(found), len(filtered), shown(torch, module), module(x, w).tolist()


def inlined(torch: Any) -> Any:
    """Nodes of one function's graph put into another's, in place of its call."""

    def outer(x: Any, y: Any) -> Any:
        return torch.add(x, y).neg() + torch.add(y, x)

    def inner(a: Any, b: Any) -> Any:
        return torch.relu(a) * b + 1

    module, body = torch.fx.symbolic_trace(outer), torch.fx.symbolic_trace(inner)
    for node in list(module.graph.nodes):
        if node.target is torch.add:
            values = dict(zip((each for each in body.graph.nodes if each.op == "placeholder"), node.args, strict=True))
            with module.graph.inserting_before(node):
                result = module.graph.graph_copy(body.graph, values)
            node.replace_all_uses_with(result)
            module.graph.erase_node(node)
    module.recompile()
    return shown(torch, module), module(torch.tensor([-1.0, 2.0]), torch.tensor([3.0, -4.0])).tolist()


def inverted(torch: Any) -> Any:
    """The inverse of a chain of functions that have one: its graph is walked back."""
    inverses = {
        torch.exp: torch.log,
        torch.neg: torch.neg,
        torch.sinh: torch.asinh,
        operator.add: operator.sub,
        operator.mul: operator.truediv,
    }

    def forward(x: Any) -> Any:
        return torch.exp(torch.sinh(torch.neg(x) * 0.5 + 1.25))

    module = torch.fx.symbolic_trace(forward)
    graph = torch.fx.Graph()
    value = graph.placeholder("y")
    for node in reversed(module.graph.nodes):
        if node.op == "call_function":
            value = graph.call_function(inverses[node.target], (value, *node.args[1:]))
    graph.output(value)
    back = torch.fx.GraphModule(torch.nn.Module(), graph)
    x = torch.tensor([0.5, -0.25])
    assert torch.allclose(back(module(x)), x, atol=1e-5)
    return shown(torch, back)


def shared_layers(torch: Any) -> Any:
    """Names of nodes that call a layer several times, where its name is a number."""
    layer, act = torch.nn.Linear(2, 2), torch.nn.ReLU()
    return [node.name for node in torch.fx.symbolic_trace(torch.nn.Sequential(layer, act, layer, act, layer)).graph.nodes]


def split_in_stages(torch: Any) -> Any:
    """A model in two parts, for two devices, and what goes from one to the other."""
    module = torch.fx.symbolic_trace(net(torch))
    names = [node.name for node in module.graph.nodes]
    parts = part(torch, "passes.split_module").split_module(module, module, lambda node: int(names.index(node.name) > 3))
    x = torch.ones(1, 1, 5, 5)
    assert torch.equal(parts(x), module(x))
    return shown(torch, parts), [shown(torch, each) for _, each in parts.named_children()]


PROGRAMS = (
    fused_norms, norms_fused_by_hand, other_activations, profiling_interpreter, own_tracers, rewritten_parts, inlined, inverted,
    shared_layers, split_in_stages,
)  # fmt: skip


# -- passes -----------------------------------------------------------------------------------------------------------------------------
def first_pass(module: Any) -> Any:
    return module


def second_pass(module: Any) -> Any:
    return module


def pass_managers(torch: Any) -> Any:
    old, new, base = (part(torch, f"passes.{name}") for name in ("pass_manager", "infra.pass_manager", "infra.pass_base"))
    module = torch.fx.symbolic_trace(lambda x: x + 1)
    seen: list[str] = []

    def changes(given: Any) -> Any:
        seen.append("changes")
        return base.PassResult(given, len(seen) < 3)

    def fails(given: Any) -> Any:
        raise ValueError("inner")

    class Class(base.PassBase):
        def requires(self, graph_module: Any) -> None:
            seen.append("requires")

        def call(self, graph_module: Any) -> Any:
            return base.PassResult(graph_module, False)

        def ensures(self, graph_module: Any) -> None:
            seen.append("ensures")

    constraint = new.this_before_that_pass_constraint(second_pass, first_pass)
    solved = new.PassManager([first_pass, second_pass], [constraint])
    solved.solve_constraints()
    circle = [constraint, new.this_before_that_pass_constraint(first_pass, second_pass)]
    manager = old.PassManager([first_pass, second_pass])
    manager.remove_pass(["first_pass"])
    manager.replace_pass(second_pass, first_pass)
    checked = new.PassManager([changes], run_checks_after_each_pass=True)
    return [
        [each.__name__ for each in solved.passes],
        [each.__name__ for each in manager.passes],
        told(lambda: old.PassManager([first_pass, second_pass], [constraint])(1))[0],
        told(new.PassManager([first_pass, second_pass], circle).solve_constraints)[0],
        told(lambda: new.PassManager([fails])(module)),
        told(lambda: new.PassManager([new.pass_result_wrapper(first_pass), fails])(module)),
        told(lambda: new.PassManager([first_pass])(module)),
        told(lambda: checked.add_checks(lambda one, two: None)),
        told(lambda: old.loop_pass(first_pass)),
        old.loop_pass(lambda n: n + 1, n_iter=3)(0),
        old.loop_pass(lambda n: n + 1, predicate=lambda n: n < 7)(0),
        old.inplace_wrapper(lambda n: None)(5),
        new.PassManager([changes], steps=10)(module).modified,
        new.PassManager([Class()])(module).modified,
        seen,
        new.pass_result_wrapper(lambda given: None)(module).modified,
        new.pass_result_wrapper(Class()).__name__,
    ]


def branches(torch: Any) -> Any:
    def program(x: Any, y: Any) -> Any:
        a = torch.relu(x)
        b = torch.relu(torch.sigmoid(a + y) * 2)
        c = torch.tanh(x) + 1
        return b + a, torch.split(c, 1)[0] + 1, c

    return torch.fx.symbolic_trace(program)


def partitions(torch: Any) -> Any:
    """Parts that a rule supports, as modules; values that go out and come back keep nodes apart."""
    support, partitioner = part(torch, "passes.operator_support"), part(torch, "passes.infra.partitioner")
    found = []
    for words in ("relu add", "relu add tanh", "relu add mul sigmoid getitem split tanh", "relu mul", "relu add mul split getitem"):
        for alone in (False, True):
            rule = support.create_op_support(
                lambda modules, node, words=words: node.op == "call_function" and getattr(node.target, "__name__", "") in words.split()
            )
            module = branches(torch)
            finder = partitioner.CapabilityBasedPartitioner(module, rule, alone, non_compute_ops=["_operator.getitem"])
            parts = finder.propose_partitions()
            found.append([[node.name for node in each.nodes] for each in parts])
            finder.remove_bookend_non_compute_ops(parts)
            fused = finder.fuse_partitions(parts)
            found.append([shown(torch, fused), [shown(torch, each) for _, each in fused.named_children()]])
            x, y = torch.tensor([0.5, 1.0]), torch.tensor([1.0, -1.0])
            assert all(torch.equal(a, b) for a, b in zip(fused(x, y), branches(torch)(x, y), strict=True))
    return found, told(lambda: partitioner.Partition(1, ["node"], []))


def supports(torch: Any) -> Any:
    """Rules by tables of targets and dtypes, and rules made of others."""
    support, propagate = part(torch, "passes.operator_support"), part(torch, "passes.shape_prop").ShapeProp
    module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    function = torch.fx.symbolic_trace(lambda x, i: torch.relu(x)[i] + 1)
    propagate(module).propagate(torch.ones(1, 2))
    propagate(function).propagate(torch.ones(2), torch.tensor(1))
    everything = support.create_op_support(lambda modules, node: True)
    rules = [
        support.OperatorSupport({"torch.nn.modules.linear.Linear": None}),
        support.OperatorSupport(
            {"torch.relu": (((torch.float32,),), {}), "_operator.getitem": (((torch.int64,),), {}), "_operator.add": ((None,), {})}
        ),
        support.chain(everything, support.OpSupports.decline_if_node_in_names({"relu"})),
        support.any_chain(support.OpSupports.decline_if_input_dtype(torch.float32), support.OperatorSupport()),
    ]  # fmt: skip
    called = part(torch, "passes.tools_common").get_node_target
    targets = [
        called(dict(each.named_modules()), node) for each in (module, function) for node in each.graph.nodes if node.op.startswith("call")
    ]
    return targets, [
        [rule.is_node_supported(dict(each.named_modules()), node) for node in each.graph.nodes]
        for rule in rules
        for each in (module, function)
    ]


def fakes(torch: Any) -> Any:
    module = torch.fx.symbolic_trace(net(torch))
    mode = import_module(f"{torch.__name__}._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)
    result = part(torch, "passes.fake_tensor_prop").FakeTensorProp(module, mode).propagate(torch.ones(1, 1, 5, 5))
    return [(node.name, list(node.meta["val"].shape)) for node in module.graph.nodes], list(result.shape)


def merged_products(torch: Any) -> Any:
    """Products by one matrix: apart, of one tensor and what is computed of it, and one of another's result."""

    class Products(torch.nn.Module):
        def __init__(self, kind: str):
            super().__init__()
            self.kind = kind

        def forward(self, x: Any, y: Any, w: Any) -> Any:
            first = torch.matmul(x, w)
            if self.kind == "chain":
                return first, torch.matmul(first, w), torch.matmul(y, y)
            return first, torch.matmul(y if self.kind == "apart" else torch.relu(x), w), torch.matmul(x, w) + y

    merged = [part(torch, "experimental.merge_matmul").merge_matmul(Products(kind)) for kind in ("apart", "together", "chain")]
    x, y, w = torch.ones(1, 2), torch.ones(2, 2) * 2, torch.ones(2, 2)
    return [[shown(torch, each).replace(each.__module__, ""), [value.tolist() for value in each(x, y, w)]] for each in merged]


def normal_calls(torch: Any) -> Any:
    module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    function = torch.fx.symbolic_trace(lambda x: torch.nn.functional.relu(x) * 2)
    made = part(torch, "experimental.normalize").NormalizeArgs
    operators = part(torch, "experimental.normalize").NormalizeOperators(
        torch.fx.symbolic_trace(lambda x, y: torch.add(x, y) < torch.mul(x, y))
    )
    return [
        [str(node.kwargs) for node in made(each).transform().graph.nodes] for each in (module, function)
    ], [node.target is operator.add for node in operators.transform().graph.nodes]  # fmt: skip


def noted_types(torch: Any) -> Any:
    """Which values are noted as tensors, by kind."""
    F = torch.nn.functional

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.act, self.cells = torch.nn.Parameter(torch.ones(2)), torch.nn.ReLU(), torch.nn.LSTM(2, 2)

        def forward(self, x: Any) -> Any:
            return self.act(torch.mul(F.softmax(x, 0), self.w)), self.cells(torch.relu(x)), F.max_pool1d(x, 1)

    make, module = part(torch, "experimental.normalize").NormalizeOperators, torch.fx.symbolic_trace(Model())
    options = [{}, *({f"annotate_{name}": False} for name in ("functionals", "modules", "get_attrs"))]
    made = [make(module, **given).transform() for given in options]
    return [[node.name for node in each.graph.nodes if node.type is torch.Tensor] for each in made], shown(torch, made[0])


def orders(torch: Any) -> Any:
    """Nodes out of order are brought into one, and circles are told."""
    tools, common = part(torch, "passes.tools_common"), part(torch, "passes.utils.common")
    found = []
    for sort in (tools.legalize_graph, tools.stable_topological_sort):
        module = torch.fx.symbolic_trace(lambda x, y: torch.relu(torch.sin(x) + torch.cos(y)) * x)
        nodes = list(module.graph.nodes)
        nodes[1].append(nodes[4])
        nodes[0].prepend(nodes[5])
        found.append([node.name for node in sort(module).graph.nodes])
    a, b, c = (torch.fx.symbolic_trace(f).graph for f in (lambda x: torch.relu(x), lambda y: torch.relu(y), lambda y: torch.sin(y)))
    return found, common.compare_graphs(a, b), common.compare_graphs(a, c)


def sizes_and_tags(torch: Any) -> Any:
    """Bytes of values, other targets, and parts that tags name."""
    manipulation, utils = part(torch, "passes.graph_manipulation"), part(torch, "passes.split_utils")
    sized = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()))
    manipulation.get_size_of_all_nodes(sized, [torch.ones(4, 2)])
    changed = torch.fx.symbolic_trace(lambda x: torch.relu(x) + torch.relu(x).relu())
    manipulation.replace_target_nodes_with(changed, "call_function", torch.relu, "call_function", torch.tanh)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.l = torch.nn.Parameter(torch.ones(2)), torch.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            y = self.l(x) + self.w * 2
            return y, torch.relu(y)

    module = torch.fx.symbolic_trace(Model())
    untagged = told(lambda: utils.split_by_tags(module, ["a"]))[0]
    for node in module.graph.nodes:
        node.tag = "b" if node.name in ("relu", "add") else "a"
    found = [
        [[shown(torch, whole), [shown(torch, each) for _, each in whole.named_children()]], places]
        for whole, places in (utils.split_by_tags(module, ["a", "b"], True, is_tuple) for is_tuple in (False, True))
    ]
    names = [part(torch, "node")._get_qualified_name(each) for each in (torch.add, len, operator.add, torch.ops.aten.add.Tensor)]
    return [list(node.size_bytes) for node in sized.graph.nodes if node.op != "output"], shown(torch, changed), untagged, found, names


def types_of_tensors(torch: Any) -> Any:
    """Sizes that are known and unknown, as annotations; and types that a program notes."""
    types, annotate = part(torch, "tensor_type"), part(torch, "annotate").annotate
    Dyn, T = types.Dyn, types.TensorType
    pairs = [(T((1, 2)), T((1, Dyn))), (T((1,)), T((2,))), (T((1,)), T((1, 2))), (Dyn, 3), (1, Dyn), (1, 1), (Dyn, Dyn), (T([1]), T((1,)))]

    def program(x: Any) -> Any:
        return annotate(x + 1, int)

    program.__annotations__["x"] = T((1, 2, Dyn))
    module = torch.fx.symbolic_trace(program)
    return [
        [[types.is_consistent(a, b), types.is_more_precise(a, b), a == b] for a, b in pairs],
        [repr(T((1, Dyn))), repr(T[1, 2]), repr(Dyn), annotate(5, int)],
        [str(node.type) for node in module.graph.nodes][:2],
        shown(torch, module).partition("->")[0],
        told(lambda: torch.fx.symbolic_trace(lambda x: annotate(annotate(x, int), float)))[0],
    ]


def folded_constants(torch: Any) -> Any:
    """What follows from parameters alone is computed once: several values, one, none, and none that may be."""

    def fold(*args: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's of its own get_attr
            return part(torch, "experimental.const_fold").split_const_subgraphs(*args)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b, self.act = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2) * 3), torch.nn.ReLU()

        def forward(self, x: Any) -> Any:
            a = self.act(self.w + self.b)
            y = x + a * 2
            return y * 3, torch.relu(y) + self.w, a

    def facts(module: Any) -> Any:
        before = [[node.op for node in module.graph.nodes], module.has_folding_been_run, module.const_subgraph_module is None]
        results = module(torch.ones(2))
        values = [each.tolist() for each in (results if isinstance(results, tuple) else [results])]
        return [*before, values, sorted(name for name, _ in module.named_parameters()), told(module.run_folding)]

    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))

        def forward(self, x: Any) -> Any:
            return x * (self.w + 1)

    return [
        facts(fold(Model())), facts(fold(Product())), facts(fold(torch.fx.symbolic_trace(lambda x: x + 1))),
        facts(fold(Model(), lambda node: node.name == "mul")), facts(fold(Product(), lambda node: True)),
    ]  # fmt: skip


PASSES = (
    pass_managers,
    partitions,
    supports,
    fakes,
    merged_products,
    normal_calls,
    noted_types,
    orders,
    sizes_and_tags,
    types_of_tensors,
    folded_constants,
)


@pytest.mark.parametrize("program", [*PROGRAMS, *PASSES], ids=lambda program: program.__name__)
def test_programs_do_what_they_do_with_pytorch(program, of_pytorch):
    def plain(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [plain(each) for each in value]
        return {str(key): plain(each) for key, each in value.items()} if isinstance(value, dict) else value

    ours, theirs = plain(program(flambeau)), plain(of_pytorch(lambda torch: plain(program(torch))))
    assert ours == theirs


def test_layers_of_the_oldest_names_are_not_there():
    assert not hasattr(part(flambeau, "experimental.optimization"), "modules_to_mkldnn")
    with pytest.raises(RuntimeError, match="unknown passes"):
        part(flambeau, "experimental.optimization").optimize_for_inference(net(flambeau), {"typo": True})
    with pytest.raises(AssertionError, match="eval"):
        part(flambeau, "experimental.optimization").fuse(net(flambeau).train())


def test_a_convolution_of_two_calls_has_no_norm_fused():
    nn = flambeau.nn
    convolution, first, second = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.BatchNorm2d(1)
    first.running_mean.fill_(2.0)
    x = flambeau.ones(1, 1, 2, 2)
    for model in (nn.Sequential(convolution, first, convolution, second), nn.Sequential(convolution, first, nn.ReLU(), convolution)):
        fused = part(flambeau, "experimental.optimization").fuse(model.eval())
        assert flambeau.allclose(fused(x), model(x), atol=1e-5)
