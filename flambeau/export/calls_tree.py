"""The calls of modules in an exported program, as a tree: of the notes ``nn_module_stack`` of its nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..aten.overloads import OpOverload
from ..core.tensor import Tensor
from ..fx.experimental.impure import is_impure
from ..fx.node import Node
from .graph_signature import InputKind, OutputKind
from .module_calls import NO_MODULE


class Write(NamedTuple):
    """A result that is the new value of an input, a parameter or a buffer."""

    target: Node
    value: Node

    @property
    def all_input_nodes(self) -> list[Node]:
        return [self.target, self.value]


class Call:
    """One call of a module.

    Attributes:
        path: of the module. number: how often it was called before. kind: its class. outer: the call that it is in.
        items: its nodes, the calls in it, and what it writes. operands, results: nodes of the outside, and those that are used there.
        inputs, state, by_name: of the program's call only: the nodes of the arguments, paths of what other placeholders are, nodes by name.
        same: of the program's call only: by node that writes to a parameter or a buffer and returns it, the placeholder of that.
        calls: of the program's call only: all others.
    """

    __slots__ = ("by_name", "calls", "inputs", "items", "kind", "number", "operands", "outer", "path", "results", "same", "state")

    def __init__(self, path: str, kind: str | None, number: int, outer: Call | None):
        self.path, self.kind, self.number, self.outer = path, kind, number, outer
        self.items: list[Any] = []
        self.operands: list[Node] = []
        self.results: list[Any] = []
        self.same: dict[Node, Node] = {}
        self.calls: list[Call] = []
        self.inputs: list[Node] = []
        self.state: dict[Node, list[str]] = {}
        self.by_name: dict[str, Node] = {}

    @property
    def name(self) -> str:
        """The path, and the number of the call if it is not the first."""
        return f"{self.path}@{self.number}" if self.number else self.path

    def chain(self) -> list[Call]:
        """This call and those around it."""
        return [self] if self.outer is None else [self, *self.outer.chain()]


def modules_of(node: Node) -> dict[str, Any] | None:
    """The modules around a node below the program's own, by key; None where nothing is noted."""
    stack = node.meta.get("nn_module_stack")
    if not stack or set(stack) <= set(NO_MODULE):
        return None
    return {key: tuple(entry) for key, entry in stack.items() if key not in NO_MODULE and entry[0]}


def call_tree(program: Any) -> Call:
    """The calls of a program."""
    first = next((node for node in program.graph.nodes if node.meta.get("nn_module_stack")), None)
    entry = next(iter(first.meta["nn_module_stack"].values())) if first is not None else ("", None)
    root = Call("", None if entry[0] else _class_name(entry[1]), 0, None)
    nodes = [node for node in live_nodes(program.graph) if node.op not in ("placeholder", "output")]
    _note_inputs(root, program)
    written = _writes(root, program, set(nodes))
    counts: dict[str, int] = {}
    open_calls: list[tuple[str, Call]] = []
    owners: dict[Any, Call] = {}
    for node in nodes:
        stack = modules_of(node)
        if stack is None:  # of a size: wherever it is computed
            stack = {key: (call.path, call.kind) for key, call in open_calls}
        depth = 0
        while depth < min(len(open_calls), len(stack)) and open_calls[depth][0] == list(stack)[depth]:
            depth += 1
        del open_calls[depth:]
        for key, (path, kind) in list(stack.items())[depth:]:
            outer = open_calls[-1][1] if open_calls else root
            call = Call(path, _class_name(kind), counts.get(path, 0), outer)
            counts[path] = call.number + 1
            outer.items.append(call)
            root.calls.append(call)
            open_calls.append((key, call))
        owners[node] = open_calls[-1][1] if open_calls else root
        owners[node].items.append(node)
        for extra in written.get(node, ()):
            owners[node].items.append(extra)
            owners[extra] = owners[node]
    for extra in written.get(None, ()):
        root.items.append(extra)
        owners[extra] = root
    _note_results(root, owners)
    return root


def live_nodes(graph: Any) -> list[Node]:
    """The nodes that results come from, and those that write."""
    live: set[Node] = set()
    for node in reversed(list(graph.nodes)):
        if node in live or node.op == "output" or is_impure(node):
            live.add(node)
            live.update(node.all_input_nodes)
    return [node for node in graph.nodes if node in live]


def _class_name(kind: Any) -> str | None:
    return kind if isinstance(kind, str) or kind is None else f"{kind.__module__}.{kind.__qualname__}"


def identity(tensor: Any) -> Any:
    """The same key for parameters and buffers that are one, also those from files."""
    if not isinstance(tensor, Tensor) or not tensor.numel() or tensor.device.type == "meta":
        return id(tensor)
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _note_inputs(root: Call, program: Any) -> None:
    targets: dict[Any, list[str]] = {}
    for node, spec in zip(program.graph.find_nodes(op="placeholder"), program.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            root.inputs.append(node)
        else:
            root.state[node] = targets.setdefault(identity(program.value_of(spec)), [])
            root.state[node].append(str(spec.target))
    root.by_name = {node.name: node for node in program.graph.nodes if node.op != "output"}


def _writes(root: Call, program: Any, nodes: set[Node]) -> dict[Any, list[Write]]:
    """Results that are new values, by the node behind which it is written; None: behind all."""
    found: dict[Any, list[Write]] = {}
    by_target = {path: node for node, paths in root.state.items() for path in paths}
    places = {node: k for k, node in enumerate(program.graph.nodes)}
    results = program.graph.output_node().args[0]
    for value, spec in zip(results, program.graph_signature.output_specs, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            root.results.append(value)
            continue
        target = root.by_name[spec.target] if spec.kind is OutputKind.USER_INPUT_MUTATION else by_target[spec.target]
        read_later = any(places[user] > places[value] for user in target.users if user in places)
        found.setdefault(None if read_later or value not in nodes else value, []).append(Write(target, value))
    return found


def _note_results(root: Call, owners: dict[Any, Call]) -> None:
    """Note what calls use of the outside, and what is used there of them."""
    for node, owner in owners.items():
        around = set(owner.chain())
        for operand in node.all_input_nodes:
            home = owners[operand].chain() if operand in owners else [root]
            for call in around.difference(home):
                call.operands.append(operand)
            for call in set(home) - around:
                call.results.append(operand)
        if isinstance(node, Node) and isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            first = root.same.get(node.args[0], node.args[0])
            if first in root.state:
                root.same[node] = first
    for node in {node for node in root.results if isinstance(node, Node)}:
        for call in owners[node].chain() if node in owners else ():
            if call is not root:
                call.results.append(node)
    order = {node: k for k, node in enumerate(owners)}
    for call in root.calls:
        call.results = sorted(set(call.results), key=order.__getitem__)


def fits(root: Call, call: Call, signature: Any) -> bool:
    """Whether a call uses nothing but the arguments of a signature, and nothing is used of it but the results there."""
    given = {each.name for each in signature.inputs}
    returned = {each.name for each in signature.outputs}
    operands = [node for node in call.operands if node not in root.state and node not in root.same]
    return all(node.name in given for node in operands) and all(node.name in returned or node in root.same for node in call.results)
