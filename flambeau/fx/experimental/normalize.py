"""Calls of a graph in one form. Source: torch.fx.experimental.normalize."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor
from .._library import library
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Node
from ..operator_schemas import get_signature_for_torch_op, normalize_function, normalize_module
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
    """Writes functions of two operands as operators, ``torch.add(x, y)`` as ``x + y``, and notes which values are tensors.

    Args:
        module: the module whose graph is transformed.
        annotate_functionals: note it of results of ``torch.nn.functional``, as the signatures say.
        annotate_modules: of results of modules of ``torch.nn``. annotate_get_attrs: of the module's own tensors.
    Source: torch.fx.experimental.normalize.NormalizeOperators.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x, y: torch.add(torch.nn.functional.relu(x), y))
        >>> made = torch.fx.experimental.normalize.NormalizeOperators(module).transform()
        >>> [node.name for node in made.graph.nodes if node.type is torch.Tensor], made(torch.ones(()), 2)
        (['relu'], tensor(3.))
    """

    def __init__(
        self, module: GraphModule, annotate_functionals: bool = True, annotate_modules: bool = True, annotate_get_attrs: bool = True
    ):
        super().__init__(module)
        self.annotate_functionals, self.annotate_modules = annotate_functionals, annotate_modules
        self.annotate_get_attrs = annotate_get_attrs
        self._operators = _operators()

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function, or its operator. Source: torch.fx.Interpreter.call_function."""
        found = self._operators.get(target)
        if found is not None and len(args) == 2 and not kwargs:
            return super().call_function(found, args, {})
        made = super().call_function(target, args, kwargs)
        is_functional = getattr(target, "__module__", None) == library.nn.functional.__name__
        return _as_tensor(made) if self.annotate_functionals and is_functional and _gives_tensor(target) else made

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a module. Source: torch.fx.Interpreter.call_module."""
        made, called = super().call_module(target, args, kwargs), self.fetch_attr(target)
        is_layer = getattr(library.nn, type(called).__name__, None) is type(called)
        return _as_tensor(made) if self.annotate_modules and is_layer and _gives_tensor(called.forward) else made

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A tensor of the module. Source: torch.fx.Interpreter.get_attr."""
        made = super().get_attr(target, args, kwargs)
        return _as_tensor(made) if self.annotate_get_attrs and isinstance(self.fetch_attr(target), Tensor) else made


def _gives_tensor(function: Callable[..., Any]) -> bool:
    """Whether a signature says that the result is a tensor."""
    found = get_signature_for_torch_op(function)
    return bool(found) and found[0].return_annotation in (Tensor, "Tensor")


def _as_tensor(made: Proxy) -> Proxy:
    made.node.type = made.node.type or Tensor
    return made
