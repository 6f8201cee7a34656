"""Parts of graphs as modules, and equal graphs. Source: torch.fx.passes.utils.common."""

from __future__ import annotations

from typing import Any

from ....nn import Module
from ...graph import Graph
from ...graph_module import GraphModule
from .matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module that only holds others.

    Args:
        d: modules by name.
    Source: torch.fx.passes.utils.common.HolderModule.
    Example:
        >>> torch.fx.passes.utils.common.HolderModule({"part": nn.ReLU()}).part
        ReLU()
    """

    def __init__(self, d: dict[str, Module | None]):
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A module of a part of a module's graph, with what it needs of that module.

    Args:
        gm: the module. subgraph: the part, a graph of its own.
        comp_name: begins the paths in the second result. class_name: of the new module.
    Returns:
        The module, and where its modules and tensors were, by where they are.
    Source: torch.fx.passes.utils.common.lift_subgraph_as_module.
    Example:
        >>> module = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
        >>> torch.fx.passes.utils.common.lift_subgraph_as_module(module, module.graph, "part")[1]
        {'part.0': '0'}
    """
    places: dict[str, str] = {}
    holder: Any = HolderModule({})
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        *path, name = target.split(".")
        here, there = holder, gm
        for part in path:
            there = getattr(there, part)
            if not hasattr(here, part):
                here.add_module(part, HolderModule({}))
            here = getattr(here, part)
        places[f"{comp_name}.{target}" if comp_name else target] = target
        setattr(here, name, getattr(there, name))
    return GraphModule(holder, subgraph, class_name), places


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs do the same with the same inputs.

    Args:
        left, right: the graphs.
    Returns: a bool.
    Source: torch.fx.passes.utils.common.compare_graphs.
    Example:
        >>> first, second = (torch.fx.symbolic_trace(f).graph for f in (lambda x: torch.relu(x), lambda y: torch.relu(y)))
        >>> torch.fx.passes.utils.common.compare_graphs(first, second)
        True
    """
    return len(left.nodes) == len(right.nodes) and bool(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right))
