"""Products with the same right factor as one product. Source: torch.fx.experimental.merge_matmul."""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from typing import Any

from ...core.tensor import Tensor
from ...nn import Module
from .._library import library
from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..node import Node
from ..passes.tools_common import legalize_graph
from ..proxy import Proxy

__all__ = ["are_nodes_independent", "may_depend_on", "merge_matmul", "split_result_tensors"]


def split_result_tensors(result: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """The rows of a product that belong to each of the factors that were put on top of each other.

    Args:
        result: the product. inputs: the factors.
    Returns: views of ``result``.
    Source: torch.fx.experimental.merge_matmul.split_result_tensors.
    Example:
        >>> from flambeau.fx.experimental.merge_matmul import split_result_tensors
        >>> [tuple(part.shape) for part in split_result_tensors(torch.ones(3, 2), [torch.ones(1, 4), torch.ones(2, 4)])]
        [(1, 2), (2, 2)]
    """
    if isinstance(result, Proxy):  # while a module with this call is traced
        return library.split(result, [0] * len(inputs))
    return library.split(result, [each.shape[0] for each in inputs])


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Whether a node needs another, as far as is known from so many steps back.

    Args:
        a: the node that may need ``b``. search_depth: how far; where that does not reach the beginning, the answer is yes.
    Returns: a bool.
    Source: torch.fx.experimental.merge_matmul.may_depend_on.
    Example:
        >>> x, relu, add, _ = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph.nodes
        >>> from flambeau.fx.experimental.merge_matmul import may_depend_on
        >>> may_depend_on(add, x), may_depend_on(relu, add)
        (True, False)
    """
    if a == b:
        return True
    if not a.all_input_nodes:
        return False
    return search_depth == 0 or any(may_depend_on(each, b, search_depth - 1) for each in a.all_input_nodes)


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Whether none of some nodes needs another.

    Args:
        nodes: of one graph.
    Returns: a bool.
    Source: torch.fx.experimental.merge_matmul.are_nodes_independent.
    Example:
        >>> x, relu, sin, add, _ = torch.fx.symbolic_trace(lambda x: torch.relu(x) + torch.sin(x)).graph.nodes
        >>> from flambeau.fx.experimental.merge_matmul import are_nodes_independent
        >>> are_nodes_independent([relu, sin]), are_nodes_independent([relu, add])
        (True, False)
    """
    return not any(may_depend_on(i, j) or may_depend_on(j, i) for i, j in itertools.combinations(nodes, 2))


def merge_matmul(in_mod: Module) -> GraphModule:
    """A module in which products by one matrix are one product of the left factors on top of each other.

    Args:
        in_mod: the module; it is traced.
    Returns: the new module.
    Source: torch.fx.experimental.merge_matmul.merge_matmul.
    Example:
        >>> class Two(nn.Module):
        ...     def forward(self, x, y, w):
        ...         return torch.matmul(x, w), torch.matmul(y, w)
        >>> merged = torch.fx.experimental.merge_matmul.merge_matmul(Two())
        >>> [node.name for node in merged.graph.nodes if node.op == "call_function"]
        ['cat', 'matmul_2', 'split_result_tensors', 'getitem', 'getitem_1']
    """
    module = symbolic_trace(in_mod)
    by_right: dict[Any, list[Node]] = defaultdict(list)
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is library.matmul:
            by_right[node.args[1]].append(node)
    for right, products in by_right.items():
        lefts: list[Any] = [product.args[0] for product in products]
        if len(products) < 2 or not are_nodes_independent(products):
            continue
        with module.graph.inserting_before(products[0]):
            joined = module.graph.call_function(library.cat, (lefts,), {})
            product = module.graph.call_function(library.matmul, (joined, right), {})
            parts = module.graph.call_function(split_result_tensors, (product, lefts), {})
            items = [module.graph.call_function(operator.getitem, (parts, place)) for place in range(len(lefts))]
        for old, item in zip(products, items, strict=True):
            old.replace_all_uses_with(item)
            module.graph.erase_node(old)
        legalize_graph(module)
    module.recompile()
    module.graph.lint()
    return module
