"""Values that follow from a module's own tensors alone, computed once. Source: torch.fx.experimental.const_fold."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...core.tensor import Parameter, Tensor
from ...nn import Module, ParameterList
from .._library import library
from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node
from ..passes.split_utils import getattr_recursive

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A module that computes what depends on its own tensors alone before its first call.

    Args:
        root, graph: as of ``GraphModule``.
        const_subgraph: computes the constants, of what ``root`` has; None where there is nothing to fold.
        fx_const_folded_attrs_name: the attribute that has them.
        device_for_folded_attrs: where they lie.
    Attributes:
        const_subgraph_module: the module of ``const_subgraph``. has_folding_been_run: whether the constants are there.
    Source: torch.fx.experimental.const_fold.FoldedGraphModule.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: x + 1)
        >>> torch.fx.experimental.const_fold.FoldedGraphModule(module, module.graph)(1)
        2
    """

    def __init__(
        self,
        root: Any,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cpu",
    ):
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.fx_const_folded_attrs_name, self.device_for_folded_attrs = fx_const_folded_attrs_name, device_for_folded_attrs
        self.has_folding_been_run = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constants.

        Raises:
            AssertionError: they are there already.
        Source: torch.fx.experimental.const_fold.FoldedGraphModule.run_folding.
        """
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        found = self.const_subgraph_module()
        made = ParameterList(map(self._kept, found)) if isinstance(found, tuple) else self._kept(found)
        delattr(self, self.fx_const_folded_attrs_name)  # the empty parameter in its place
        setattr(self, self.fx_const_folded_attrs_name, made)

    def _kept(self, value: Any) -> Parameter:
        tensor = value.detach().clone() if isinstance(value, Tensor) else library.Tensor([value]).to(self.device_for_folded_attrs)
        return Parameter(tensor, requires_grad=isinstance(value, Tensor) and value.requires_grad)


def get_unique_attr_name_in_module(mod_traced: GraphModule, name: str) -> str:
    """A name that a module has no attribute of.

    Args:
        mod_traced: the module. name: what it begins with.
    Returns: the name, with a number if need be.
    Source: torch.fx.experimental.const_fold.get_unique_attr_name_in_module.
    Example:
        >>> module = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
        >>> torch.fx.experimental.const_fold.get_unique_attr_name_in_module(module, "folded")
        'folded'
    """
    name = "".join(character if character.isalnum() else "_" for character in name)
    name = f"_{name}" if name[0].isdigit() else name
    number = 1
    while hasattr(mod_traced, name):
        name = f"{name.rpartition('_')[0] if number > 1 else name}_{number}"
        number += 1
    return name


def split_const_subgraphs(
    module: Module, skip_folding_node_fn: Callable[[Node], bool] | None = None, device_for_folded_attrs: str = "cpu"
) -> FoldedGraphModule:
    """A module that computes once what depends on its own tensors alone.

    Args:
        module: the module; it is traced, unless it is a ``GraphModule``.
        skip_folding_node_fn: which nodes are not folded. device_for_folded_attrs: where the constants lie.
    Returns: the new module.
    Source: torch.fx.experimental.const_fold.split_const_subgraphs.
    Example:
        >>> class Scaled(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.w = nn.Parameter(torch.ones(2))
        ...     def forward(self, x):
        ...         return x * (self.w * 2 + 1)
        >>> folded = torch.fx.experimental.const_fold.split_const_subgraphs(Scaled())
        >>> [node.name for node in folded.graph.nodes]
        ['x', '_fx_const_folded_attrs', 'mul_1', 'output']
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant: dict[Node, None] = {}
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output") or (skip_folding_node_fn is not None and skip_folding_node_fn(node)):
            continue
        if (node.op == "get_attr" or all(each in constant for each in node.all_input_nodes)) and not node.is_impure():
            constant[node] = None
    rest = [node for node in traced.graph.nodes if node not in constant]
    used = dict.fromkeys(each for node in rest for each in node.all_input_nodes if each in constant)
    wanted = [node for node in used if node.op != "get_attr"]
    if not wanted:
        return FoldedGraphModule(traced, traced.graph)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    constants = _constants(wanted, list(constant))
    main = _main([node for node in constant if node in used and node.op == "get_attr"], rest, wanted, name)
    targets = {str(node.target) for graph in (constants, main) for node in graph.nodes if node.op in ("get_attr", "call_module")}
    members = {target: getattr_recursive(traced, target) for target in sorted(targets - {name})}
    folded = FoldedGraphModule({**members, name: Parameter(library.empty(0))}, main, constants, name, device_for_folded_attrs)
    return folded.train(traced.training)


def _constants(wanted: list[Node], constant: list[Node]) -> Graph:
    """The graph of what is computed once."""
    needed = set(wanted)
    for node in reversed(constant):
        if node in needed:
            needed.update(node.all_input_nodes)
    graph = Graph()
    made: dict[Node, Node] = {}
    for node in constant:
        if node in needed:
            made[node] = graph.node_copy(node, made.__getitem__)
    results = tuple([made[node] for node in wanted])
    graph.output(results if len(results) > 1 else results[0])
    return graph


def _main(attributes: list[Node], rest: list[Node], wanted: list[Node], name: str) -> Graph:
    """The graph of what is computed at each call: inputs, tensors, what is folded, and the nodes that are left."""
    graph = Graph()
    made: dict[Node, Node] = {}
    for node in [each for each in rest if each.op == "placeholder"] + attributes:
        made[node] = graph.node_copy(node)
    folded = graph.get_attr(name)
    for place, node in enumerate(wanted):
        made[node] = folded if len(wanted) == 1 else graph.call_function(operator.getitem, (folded, place))
    for node in rest:
        if node.op != "placeholder":
            made[node] = graph.node_copy(node, made.__getitem__)
    return graph
