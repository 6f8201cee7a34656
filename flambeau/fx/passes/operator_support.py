"""Rules for which nodes something supports, such as another way to run them. Source: torch.fx.passes.operator_support."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...nn import Module
from ..node import Node
from .shape_prop import TensorMetadata
from .tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

Modules = Mapping[str, Module]
Rule = Callable[[Modules, Node], bool]
Dtypes = tuple[Sequence[Any], dict[str, Any]]


class OperatorSupportBase(abc.ABC):
    """A rule for which nodes are supported.

    Source: torch.fx.passes.operator_support.OperatorSupportBase.
    Example:
        >>> class Sums(torch.fx.passes.operator_support.OperatorSupportBase):
        ...     def is_node_supported(self, submodules, node):
        ...         return "add" in node.name
        >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
        >>> [Sums().is_node_supported({}, node) for node in graph.nodes]
        [False, False, True, False]
    """

    @abc.abstractmethod
    def is_node_supported(self, submodules: Modules, node: Node) -> bool:
        """Whether a node is supported.

        Args:
            submodules: modules by the names that targets have. node: the node.
        Source: torch.fx.passes.operator_support.OperatorSupportBase.is_node_supported.
        """


class OperatorSupport(OperatorSupportBase):
    """A rule by a table of what nodes call, and of the dtypes of their arguments.

    Args:
        support_dict: for each supported target (``get_node_target``) None, or the dtypes that arguments may have: a list for each one by
            position, None where any will do, and a dictionary of lists for those by keyword.
    Source: torch.fx.passes.operator_support.OperatorSupport.
    Example:
        >>> support = torch.fx.passes.operator_support.OperatorSupport({"torch.relu": None})
        >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
        >>> [support.is_node_supported({}, node) for node in graph.nodes if node.op == "call_function"]
        [True, False]
    """

    def __init__(self, support_dict: Mapping[str, Dtypes | None] | None = None):
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Modules, node: Node) -> bool:
        """Whether a node is supported; those that call nothing are. Source: torch.fx.passes.operator_support.OperatorSupport."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        dtypes = self._support_dict[target]
        if dtypes is None:
            return True
        by_position, by_keyword = dtypes
        pairs = [
            *zip(node.args, by_position, strict=False),
            *((node.kwargs[name], kinds) for name, kinds in by_keyword.items() if name in node.kwargs),
        ]
        return all(kinds is None or not isinstance(arg, Node) or _dtype_of(arg) in kinds for arg, kinds in pairs)


def _dtype_of(arg: Node) -> Any:
    """The dtype of a value as ``ShapeProp`` notes it, or the type of one that is no tensor."""
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta["type"]


class _Rule(OperatorSupportBase):
    def __init__(self, rule: Rule):
        self._rule = rule

    def is_node_supported(self, submodules: Modules, node: Node) -> bool:
        return self._rule(submodules, node)


def create_op_support(is_node_supported: Rule) -> OperatorSupportBase:
    """A rule of a function.

    Args:
        is_node_supported: called with modules by their names, and a node.
    Returns: the rule.
    Source: torch.fx.passes.operator_support.create_op_support.
    Example:
        >>> rule = torch.fx.passes.operator_support.create_op_support(lambda submodules, node: node.op == "output")
        >>> [rule.is_node_supported({}, node) for node in torch.fx.symbolic_trace(lambda x: x).graph.nodes]
        [False, True]
    """
    return _Rule(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """The rule that all of some rules hold.

    Args:
        op_support: the rules.
    Returns: the rule.
    Source: torch.fx.passes.operator_support.chain.
    Example:
        >>> from flambeau.fx.passes.operator_support import chain, create_op_support
        >>> rule = chain(create_op_support(lambda _, node: node.op != "output"), create_op_support(lambda _, node: True))
        >>> [rule.is_node_supported({}, node) for node in torch.fx.symbolic_trace(lambda x: x).graph.nodes]
        [True, False]
    """
    return _Rule(lambda submodules, node: all(each.is_node_supported(submodules, node) for each in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """The rule that one of some rules holds.

    Args:
        op_support: the rules.
    Returns: the rule.
    Source: torch.fx.passes.operator_support.any_chain.
    Example:
        >>> from flambeau.fx.passes.operator_support import any_chain, create_op_support
        >>> rule = any_chain(create_op_support(lambda _, node: node.op == "output"), create_op_support(lambda _, node: False))
        >>> [rule.is_node_supported({}, node) for node in torch.fx.symbolic_trace(lambda x: x).graph.nodes]
        [False, True]
    """
    return _Rule(lambda submodules, node: any(each.is_node_supported(submodules, node) for each in op_support))


class OpSupports:
    """Rules that leave nodes out.

    Source: torch.fx.passes.operator_support.OpSupports.
    Example:
        >>> rule = torch.fx.passes.operator_support.OpSupports.decline_if_node_in_names({"x"})
        >>> [rule.is_node_supported({}, node) for node in torch.fx.symbolic_trace(lambda x: x).graph.nodes]
        [False, True]
    """

    @classmethod
    def decline_if_input_dtype(cls, dtype: Any) -> OperatorSupportBase:
        """Not nodes with an input of a dtype. Source: torch.fx.passes.operator_support.OpSupports.decline_if_input_dtype."""
        return _Rule(lambda submodules, node: all(_dtype_of(each) != dtype for each in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Not nodes of some names. Source: torch.fx.passes.operator_support.OpSupports.decline_if_node_in_names."""
        return _Rule(lambda submodules, node: node.name not in disallow_set)
