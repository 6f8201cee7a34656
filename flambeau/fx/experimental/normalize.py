"""Calls of a graph in one form. Source: torch.fx.experimental.normalize."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .._library import library
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Node
from ..operator_schemas import normalize_function, normalize_module
from ..proxy import Proxy

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """Gives calls of functions and modules all their arguments, defaults filled in.

    Args:
        module: the module whose graph is transformed. normalize_to_only_use_kwargs: whether all of them are given by keyword.
    Attributes:
        node_map: for each proxy of the new graph the old node.
    Source: torch.fx.experimental.normalize.NormalizeArgs.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: torch.nn.functional.relu(x))
        >>> made = torch.fx.experimental.normalize.NormalizeArgs(module).transform()
        >>> [node.kwargs for node in made.graph.nodes if node.op == "call_function"]
        [{'input': x, 'inplace': False}]
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True):
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """The proxy of a node's new form. Source: torch.fx.Interpreter.run_node."""
        made = super().run_node(n)
        if n.op != "output" and isinstance(made, Proxy):
            self.node_map[made] = n
            made.node.meta, made.node.type = n.meta, n.type
        return made

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function with all its arguments. Source: torch.fx.Interpreter.call_function."""
        if not callable(target):
            raise AssertionError(f"Expected callable target, got {type(target)}")
        found = normalize_function(target, args, kwargs, normalize_to_only_use_kwargs=self.normalize_to_only_use_kwargs)
        return super().call_function(target, *((args, kwargs) if found is None else found))

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a module with all its arguments. Source: torch.fx.Interpreter.call_module."""
        found = normalize_module(self.module, target, args, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *((args, kwargs) if found is None else found))


def _operators() -> dict[Callable[..., Any], Callable[..., Any]]:
    pairs = "add=add mul=mul sub=sub div=truediv floor_divide=floordiv remainder=mod eq=eq ne=ne lt=lt le=le gt=gt ge=ge"
    return {getattr(library, name): getattr(operator, other) for name, other in (pair.split("=") for pair in pairs.split())}


class NormalizeOperators(Transformer):
    """Writes functions of two operands as operators: ``torch.add(x, y)`` as ``x + y``.

    Args:
        module: the module whose graph is transformed.
        annotate_functionals, annotate_modules, annotate_get_attrs: True: types of values are noted where they are known anyway.
    Raises:
        NotImplementedError: one of the last three is False.
    Source: torch.fx.experimental.normalize.NormalizeOperators.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x, y: torch.add(x, y))
        >>> torch.fx.experimental.normalize.NormalizeOperators(module).transform()(1, 2)
        3
    """

    def __init__(
        self, module: GraphModule, annotate_functionals: bool = True, annotate_modules: bool = True, annotate_get_attrs: bool = True
    ):
        if not (annotate_functionals and annotate_modules and annotate_get_attrs):
            raise NotImplementedError("NormalizeOperators: annotate_functionals, annotate_modules and annotate_get_attrs have to be True")
        super().__init__(module)
        self._operators = _operators()

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function, or its operator. Source: torch.fx.Interpreter.call_function."""
        found = self._operators.get(target)
        if found is None or len(args) != 2 or kwargs:
            return super().call_function(target, args, kwargs)
        return super().call_function(found, args, {})
