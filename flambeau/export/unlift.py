"""Exported programs as modules: parameters, buffers and constants are attributes again, arguments and results have their structure."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.tensor import Parameter, Tensor
from ..fx import _pytree as fx_pytree
from ..fx.graph import Graph, PyTreeCodeGen, _PyTreeInfo
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn import Module
from ..utils import _pytree as pytree
from .graph_signature import InputKind, OutputKind
from .inputs import Guards


class GuardsFn(Module):
    """Checks the inputs of an exported program."""

    def __init__(self, guards: Guards):
        super().__init__()
        self.guards = guards

    def forward(self, *leaves: Any) -> None:
        self.guards.check(leaves)


class _Arguments(PyTreeCodeGen):
    """Writes ``forward`` with the names and the structure of the exported module's arguments."""

    def __init__(self, positional: list[str], named: list[str], in_spec: Any, out_spec: Any):
        super().__init__(_PyTreeInfo([*positional, *named], in_spec, out_spec))
        self.positional, self.named = positional, named

    def process_inputs(self, *args: Any) -> Any:
        return args

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names = ["self", *self.positional, *self.named]
        first = f"def {self._func_name}({', '.join(names)}){maybe_return_annotation}:"
        if not free_vars:
            return first
        leaves = [leaf.partition(":")[0].partition("=")[0].strip() for leaf in free_vars]
        keywords = ", ".join(f"'{name}':{name}" for name in self.named)
        arguments = f"([{', '.join(self.positional)}], {{{keywords}}})"
        return f"{first}\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec({arguments}, self._in_spec)"

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [("fx_pytree", fx_pytree), ("pytree", pytree)]


def _refuse(self: Any, *args: Any) -> NoReturn:
    raise NotImplementedError(
        "Calling train() or eval() is not supported for exported modules: what differs between them was fixed when the module was exported."
    )


def _module_for(path: str, root: Module) -> tuple[Module, str]:
    """The module that has the attribute of a dotted path, made where there is none yet, and the attribute's name."""
    *parts, name = path.split(".")
    for part in parts:
        if part not in root._modules:
            root.add_module(part, Module())
        root = root._modules[part]
    return root, name


def _set(root: Module, path: str, value: Any, persistent: bool | None) -> None:
    owner, name = _module_for(path, root)
    if isinstance(value, Parameter):
        owner.register_parameter(name, value)
    else:
        owner.register_buffer(name, value, persistent=bool(persistent))


def unlifted(program: Any, check_guards: bool) -> GraphModule:
    """The module of a program; see ``ExportedProgram.module``."""
    root, graph, nodes = Module(), Graph(), {}
    signature, spec = program.graph_signature, program.call_spec
    inputs: list[Node] = []
    attributes: dict[str, Node] = {}
    placeholders = program.graph.find_nodes(op="placeholder")
    for node, each in zip(placeholders, signature.input_specs, strict=True):
        if each.kind is InputKind.USER_INPUT:
            nodes[node] = graph.placeholder(node.name)
            nodes[node].name = node.name
            inputs.append(nodes[node])
    for node, each in zip(placeholders, signature.input_specs, strict=True):
        if each.kind is not InputKind.USER_INPUT:
            _set(root, each.target, program.value_of(each), each.persistent)
            nodes[node] = attributes[each.target] = graph.get_attr(each.target)
        nodes[node].meta = dict(node.meta)
    if check_guards and program._guards is not None:
        root.add_module("_guards_fn", GuardsFn(program._guards))
        graph.call_module("_guards_fn", tuple(inputs))
    for node in program.graph.nodes:
        if node.op not in ("placeholder", "output"):
            if node.op == "get_attr" and node.target not in root._modules:
                root.add_module(node.target, getattr(program.graph_module, node.target))
            nodes[node] = graph.node_copy(node, nodes.__getitem__)
    results = []
    by_name = {node.name: node for node in nodes}
    for each, value in zip(signature.output_specs, program.graph.output_node().args[0], strict=True):
        if each.kind is OutputKind.USER_OUTPUT:
            results.append(nodes[value] if isinstance(value, Node) else value)
        else:
            _store(graph, each, nodes[value], attributes, by_name, nodes)
    graph.output(tuple(results))
    names = program.module_call_graph[0].signature.forward_arg_names
    args_spec, kwargs_spec = spec.in_spec.children_specs
    named = list(kwargs_spec.context or ())
    given = _positional(names[: len(names) - len(named)], len(args_spec.children_specs))
    graph.set_codegen(_Arguments(given, named, spec.in_spec, spec.out_spec))
    return _exported_module(root, graph, spec)


def _positional(names: list[str], count: int) -> list[str]:
    """Names of arguments by position; those of ``*args`` are numbered."""
    if len(names) == count or not names:
        return names[:count]
    return [*names[:-1], *[f"{names[-1]}_{k}" for k in range(count - len(names) + 1)]]


def _store(graph: Graph, spec: Any, value: Node, attributes: dict[str, Node], by_name: dict[str, Node], nodes: dict[Node, Node]) -> None:
    """Write a result to the buffer, the parameter or the input that it is the new value of."""
    from ..aten.calls import overload_named

    target = nodes[by_name[spec.target]] if spec.kind is OutputKind.USER_INPUT_MUTATION else attributes[spec.target]
    graph.call_function(overload_named("copy_"), (target, value))


class ExportedModule(GraphModule):
    """The module that ``ExportedProgram.module`` returns."""

    _in_spec: Any
    _out_spec: Any

    train = eval = _refuse  # type: ignore[assignment]


def _exported_module(root: Module, graph: Graph, spec: Any) -> GraphModule:
    made = ExportedModule(root, graph, "GraphModule")
    made._in_spec, made._out_spec = spec.in_spec, spec.out_spec
    for name, tensor in [*root.named_buffers(), *root.named_parameters()]:  # those that only results are written to as well
        owner, attribute = _module_for(name, made)
        if attribute not in owner._buffers and attribute not in owner._parameters and isinstance(tensor, Tensor):
            _set(made, name, tensor, True)
    for path, module in root.named_modules():
        for name in module._non_persistent_buffers_set:  # which a graph module makes persistent
            owner, attribute = _module_for(f"{path}.{name}" if path else name, made)
            owner._non_persistent_buffers_set.add(attribute)
    return made
