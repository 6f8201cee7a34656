"""Nodes' targets as text, and the order of nodes. Source: torch.fx.passes.tools_common."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from ...core.late import from_above
from ...core.tensor import Tensor
from ...nn import Module
from ..graph_module import GraphModule
from ..node import Node, qualified_name

__all__ = ["CALLABLE_NODE_OPS", "get_acc_ops_name", "get_node_target", "is_node_output_tensor", "legalize_graph", "stable_topological_sort"]

CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]


def get_acc_ops_name(k: str | type) -> str:
    """The name of a class with its module, as PyTorch has it.

    Args:
        k: a class; or its name, which is given back.
    Returns: the name.
    Source: torch.fx.passes.tools_common.get_acc_ops_name.
    Example:
        >>> torch.fx.passes.tools_common.get_acc_ops_name(nn.Linear)
        'torch.nn.modules.linear.Linear'
    """
    if isinstance(k, str):
        return k
    module, name = from_above("serialization.homes").spelling(k) or (k.__module__, k.__name__)
    return f"{module}.{name}" if module else name


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The target of a node as text: the class of a module, a function with its module, a method's name.

    Args:
        submodules: modules by the names that targets have. node: a node that calls something.
    Returns: the text.
    Raises:
        AssertionError: another node.
    Source: torch.fx.passes.tools_common.get_node_target.
    Example:
        >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
        >>> [torch.fx.passes.tools_common.get_node_target({}, node) for node in graph.nodes if node.op == "call_function"]
        ['torch.relu', '_operator.add']
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}")
    target: Any = node.target
    if node.op == "call_module":
        module = submodules[target]
        return get_acc_ops_name(getattr(module, "_base_class_origin", type(module)))
    return qualified_name(target) if node.op == "call_function" else str(target)


def is_node_output_tensor(node: Node) -> bool:
    """Whether a node's value is a tensor, as ``ShapeProp`` notes it.

    Args:
        node: of a graph that ``ShapeProp`` has run.
    Returns: a bool.
    Source: torch.fx.passes.tools_common.is_node_output_tensor.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: x.size(0))
        >>> _ = torch.fx.passes.shape_prop.ShapeProp(module).propagate(torch.ones(2))
        >>> [torch.fx.passes.tools_common.is_node_output_tensor(node) for node in module.graph.nodes]
        [True, False, False]
    """
    found = node.meta.get("type")
    return found is not None and issubclass(found, Tensor)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Bring the nodes of a module's graph into an order in which each comes after its inputs, as early as they allow.

    Args:
        gm: the module; its code is not made anew.
    Returns: ``gm``.
    Raises:
        RuntimeError: nodes take each other's values.
    Source: torch.fx.passes.tools_common.legalize_graph.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> torch.fx.passes.tools_common.legalize_graph(module) is module
        True
    """
    waiting = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    queue = deque(node for node, count in waiting.items() if not count)
    order: list[Node] = []
    while queue:
        node = queue.popleft()
        order.append(node)
        for user in node.users:
            waiting[user] -= 1
            if not waiting[user]:
                queue.append(user)
    return _ordered(gm, order)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Bring the nodes of a module's graph into an order in which each comes after its inputs, and otherwise stays where it is.

    Args:
        gm: the module; its code is not made anew.
    Returns: ``gm``.
    Raises:
        RuntimeError: nodes take each other's values.
    Source: torch.fx.passes.tools_common.stable_topological_sort.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> torch.fx.passes.tools_common.stable_topological_sort(module) is module
        True
    """
    return _ordered(gm, after_their_inputs(gm.graph.nodes))


def after_their_inputs(nodes: Iterable[Node]) -> list[Node]:
    """Nodes in an order in which each comes after those of its inputs that are among them; they stay where they are otherwise."""
    pending, held = list(nodes)[::-1], defaultdict(list)
    among, done = set(pending), dict[Node, None]()
    while pending:
        node = pending.pop()
        missing = [each for each in node.all_input_nodes if each in among and each not in done]
        if missing:
            held[missing[-1]].append(node)
        else:
            done[node] = None
            pending += reversed(held.pop(node, []))
    return list(done)


def _ordered(gm: GraphModule, order: list[Node]) -> GraphModule:
    """Put the nodes into an order, results last."""
    if len(order) < len(gm.graph.nodes):
        raise RuntimeError(f"Input graph has cycles, unable to add {[node for node in gm.graph.nodes if node not in set(order)]}")
    results = [node for node in order if node.op == "output"]
    last: Any = None
    for node in [node for node in order if node.op != "output"] + results:
        if last is not None:
            last.append(node)
        last = node
    return gm
