"""Calls of kernels as nodes of a graph: what ``make_fx`` and ``torch.export`` have in common.

    Recorder    the graph, and which node has which tensor as its value
        record      a call of a kernel: nodes of its arguments, the call itself, a node for its result
        size_node   the node of a symbolic size: ``sym_size`` of the input that has it, and arithmetic

A tensor that no node has is a constant of the program; whoever records says what becomes of it (``constant``).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from ...aten.calls import overload_named
from ...aten.fake_tensor import FakeTensor
from ...core import checks
from ...core.arrays.panels import PackedLinear
from ...core.expressions import ARITHMETIC, Call, Expr, symbol
from ...core.random.generator import Generator
from ...core.symbolic import COMPARISONS, SymbolicBool, SymbolicFloat, SymbolicInt, expression_of
from ...core.tensor import Tensor
from ..graph import Graph
from ..node import Node, map_aggregate

_OPERATORS: dict[str, Callable[..., Any]] = {
    **ARITHMETIC,
    **COMPARISONS,
    "and": operator.and_,
    "or": operator.or_,
    "not": checks.sym_not,
    "Max": checks.sym_max,
    "Min": checks.sym_min,
    "ToFloat": checks.sym_float,
    "trunc": checks.sym_int,
    "sqrt": checks.sym_sqrt,
}


class Recorder:
    """The graph that is recorded, and its values.

    Attributes:
        graph: where nodes are added.
        constant: makes the node of a tensor that no node has.
        decompositions: functions that are called in place of kernels, by overload.
    """

    def __init__(self, graph: Graph, constant: Callable[[Tensor], Any], decompositions: Any = None):
        self.graph, self.constant = graph, constant
        self.decompositions = decompositions or {}
        self._nodes: dict[int, tuple[Tensor, Node]] = {}  # by id of a tensor, which is kept so that the id stays its own
        self._arrays: dict[int, Node] = {}  # by id of its array: a result that a derivative needs is another tensor around the same one
        self._sizes: dict[Any, Node] = {}  # by expression
        self._sources: dict[str, Callable[[], Node]] = {}  # what makes a symbol's node
        self.whole = False  # whether operations are recorded before they are divided
        self.notes: Callable[[Node], None] = lambda node: None

    # ---- values
    def track(self, value: Any, node: Node) -> None:
        """Have a node stand for a value; parts of a tuple or a list get nodes of their own when they are there."""
        if isinstance(value, Tensor):
            self._nodes[id(value)], self._arrays[id(value._array)] = (value, node), node
            node.meta.setdefault("val", snapshot(value))
        elif isinstance(value, (SymbolicInt, SymbolicFloat)):
            self._sizes.setdefault(value.expr, node)
            node.meta.setdefault("val", value)
        elif isinstance(value, (tuple, list)):
            node.meta.setdefault("val", type(value)(map(snapshot, value)) if type(value) in (tuple, list) else tuple(map(snapshot, value)))
            for place, part in enumerate(value):
                if part is not None:
                    self.track(part, self._noted(self.graph.call_function(operator.getitem, (node, place)), snapshot(part)))
        else:
            node.meta.setdefault("val", value)

    def node_of(self, tensor: Tensor) -> Node | None:
        """The node that has a tensor as its value."""
        found = self._nodes.get(id(tensor))
        return self._arrays.get(id(tensor._array)) if found is None else found[1]

    def argument(self, value: Any) -> Any:
        """A value as an argument of a node."""
        if isinstance(value, Tensor):
            return self.node_of(value) or self.constant(value)
        if isinstance(value, (SymbolicInt, SymbolicFloat, SymbolicBool)):
            return self.size_node(value)
        if isinstance(value, Generator):
            raise NotImplementedError("a generator of random numbers as a constant of a graph is not supported")
        if isinstance(value, PackedLinear):
            raise NotImplementedError("packed weights of a quantized layer as a constant of a graph are not supported")
        return value

    def arguments(self, structure: Any) -> Any:
        """A structure of values as arguments of a node."""
        return map_aggregate(structure, self.argument)

    def _noted(self, node: Node, value: Any) -> Node:
        node.meta["val"] = value
        self.notes(node)
        return node

    # ---- calls
    def record(self, func: Any, args: Any, kwargs: Any, run: Callable[..., Any]) -> Any:
        """Do a call of a kernel and add a node for it.

        Args:
            func: the overload. args, kwargs: its arguments. run: does the call.
        Returns:
            What ``run`` returned.
        """
        node_args, node_kwargs = self.arguments(tuple(args)), self.arguments(dict(kwargs))
        result = run(func, *args, **kwargs)
        if func.name() == "aten::sym_size.int":
            return result
        if func.name() == "aten::_local_scalar_dense" and self.whole:
            func = overload_named("item")
        node = self.graph.create_node("call_function", func, node_args, node_kwargs, func.overloadpacket.__name__)
        self.notes(node)
        if func._schema.is_mutable and args and isinstance(args[0], Tensor) and result is args[0]:
            node.meta["val"] = snapshot(result)
            self._nodes[id(result)], self._arrays[id(result._array)] = (result, node), node
            return result
        self.track(result, node)
        for part in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(part, FakeTensor) and part._sizes is not None:
                self._note_unknown(part, node if part is result else self._nodes[id(part)][1])
        return result

    def _note_unknown(self, result: Any, node: Node) -> None:
        """Say where sizes come from that depend on values."""
        for dim, size in enumerate(result._sizes):
            if isinstance(size, SymbolicInt) and size.expr == symbol(str(size.expr)) and not self.has_source(str(size.expr)):
                self.source(str(size.expr), _source(self.graph, node, dim, False))

    # ---- sizes
    def source(self, name: str, make: Callable[[], Node]) -> None:
        """Say what makes the node of a symbol, when it is first needed."""
        self._sources.setdefault(name, make)

    def find_source(self, name: str, env: Any) -> Node:
        """The node of a symbol that is no input's size."""
        raise RuntimeError(f"the symbolic size {name} is none of the graph's inputs")

    def has_source(self, name: str) -> bool:
        return name in self._sources

    def size_node(self, value: Any) -> Any:
        """The node of a symbolic number."""
        relation = value.relation if isinstance(value, SymbolicBool) else expression_of(value)
        return self._number(relation, value.env)

    def _number(self, expr: Any, env: Any) -> Any:
        if not isinstance(expr, (Expr, Call)) and not hasattr(expr, "args"):
            return expr
        if isinstance(expr, Expr) and expr.constant is not None:
            return expr.constant
        found = self._sizes.get(expr) if isinstance(expr, (Expr, Call)) else None
        if found is None:
            found = self._made(expr, env)
            if isinstance(expr, (Expr, Call)) and isinstance(found, Node):
                self._sizes[expr] = found
                found.meta.setdefault("val", env.number(expr) if isinstance(expr, Expr) else expr)
        return found

    def _made(self, expr: Any, env: Any) -> Any:
        if not isinstance(expr, Expr):
            if expr.name not in _OPERATORS:
                raise NotImplementedError(f"{expr.name} of a symbolic size is not supported in a graph")
            return self._operation(expr.name, [self._number(arg, env) for arg in expr.args])
        if len(expr.terms) == 1:
            (monomial, factor), *_ = expr.terms.items()
            parts = [self._atom(each, env) for each, power in monomial for _ in range(power)]
            product = parts[0]
            for part in parts[1:]:
                product = self._operation("*", [product, part])
            return product if factor == 1 else self._operation("*", [product, factor])
        terms = sorted(expr.terms.items(), key=lambda term: (not term[0], term[1] < 0))
        total = self._number(Expr(dict(terms[:1])), env)
        for monomial, factor in terms[1:]:
            part = self._number(Expr({monomial: abs(factor)}), env)
            total = self._operation("+" if factor > 0 else "-", [total, part])
        return total

    def _atom(self, each: Any, env: Any) -> Any:
        if each.__class__ is not str:
            return self._number(each, env)
        if symbol(each) in self._sizes:
            return self._sizes[symbol(each)]
        source = self._sources.get(each)
        return self.find_source(each, env) if source is None else source()

    def _operation(self, name: str, args: list[Any]) -> Node:
        node = self.graph.call_function(_OPERATORS[name], tuple(args))
        self.notes(node)
        return node


def snapshot(value: Any) -> Any:
    """A value as ``meta["val"]`` keeps it: what is written to it later does not show."""
    if isinstance(value, FakeTensor):
        copy: Any = object.__new__(FakeTensor)
        copy._array, copy._storage, copy._node, copy._view_of, copy._grad = value._array, value._storage, None, None, None
        copy._requires_grad = value._requires_grad
        copy.fake_mode, copy.constant, copy._sizes, copy._worlds = value.fake_mode, value.constant, value._sizes, value._worlds
        return copy
    return value


def add_inputs(recorder: Recorder, leaves: list[Any], names: list[str], hoisted: bool) -> None:
    """Add placeholders for the inputs, and say where their symbolic sizes come from.

    Args:
        recorder: the recorder. leaves: the inputs; what is neither a tensor nor symbolic is a constant, and has a placeholder all the same.
        names: of the placeholders. hoisted: whether nodes of sizes stand behind the placeholders, or where they are first used.
    """
    graph = recorder.graph
    sources: list[tuple[str, Node, int]] = []
    for leaf, name in zip(leaves, names, strict=True):
        node = graph.placeholder(name)
        node.name = name  # an input may be called ``input``
        recorder.track(leaf, node)
        if isinstance(leaf, FakeTensor) and leaf._sizes is not None:
            for dim, size in enumerate(leaf._sizes):
                if isinstance(size, SymbolicInt) and size.expr == symbol(str(size.expr)):
                    sources.append((str(size.expr), node, dim))
        elif isinstance(leaf, SymbolicInt):
            recorder.source(str(leaf.expr), functools.partial(_itself, node))
    for name, node, dim in sources:
        recorder.source(name, _source(graph, node, dim, hoisted and not recorder.has_source(name)))


def _itself(node: Node) -> Node:
    return node


def _source(graph: Graph, node: Node, dim: int, at_once: bool) -> Callable[[], Node]:
    """A function that makes the node of an input's size, once."""
    made: list[Node] = []

    def make() -> Node:
        if not made:
            made.append(graph.create_node("call_function", overload_named("sym_size.int"), (node, dim), {}, "sym_size_int"))
            made[0].meta["val"] = node.meta["val"].shape[dim]
        return made[0]

    if at_once:
        make()
    return make
