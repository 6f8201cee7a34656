"""Graphs of operations as JSON, and back.

A node is its operation, its name, its target and its arguments. Targets are names: of kernels (``aten::add.Tensor``), of operators that
``OPERATORS`` lists, of attributes. A value that JSON has not is a dict with one key, its type.
"""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable
from typing import Any

from ..aten.fake_tensor import FakeTensor, FakeTensorMode
from ..aten.namespaces import ops
from ..aten.overloads import OpOverload
from ..aten.symbolic_fakes import symbolize
from ..core import checks, dtype as dtypes, layout as layouts
from ..core.arrays.meta_array import empty
from ..core.device import device as Device
from ..core.expressions import FUNCTIONS, Call, Expr, as_expr, symbol
from ..core.symbolic import SymbolicInt, expression_of
from ..core.tensor import Tensor, wrap
from ..fx.control_flow import OPERATORS as HIGHER_ORDER, HigherOrderOperator
from ..fx.experimental.symbolic_shapes import ShapeEnv, ValueRanges
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn import Module
from . import graph_signature as signatures

_SYMS = ("sym_not", "sym_max", "sym_min", "sym_float", "sym_int", "sym_sqrt", "sym_ite", "sym_sum")
OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in "add sub mul floordiv truediv mod pow neg eq ne lt le gt ge and_ or_ getitem".split()},
    **{name: getattr(checks, name) for name in _SYMS},
}
_NAMES = {function: name for name, function in OPERATORS.items()}
_OPS = ("placeholder", "call_function", "get_attr", "output")


# ---- names that go into generated code
def identifier(name: Any) -> str:
    """A name that goes into generated code, which is run: nothing but an identifier may.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is no name")
    return name


def path(name: Any) -> str:
    """A dotted path of an attribute; generated code puts its parts in quotes where they are no identifiers.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(name, str) or not name.isprintable() or not all(name.split(".")) or any(sign in name for sign in "\"\\'"):
        raise ValueError(f"{name!r} is no path")
    return name


# ---- expressions
_HIGHEST_POWER = 16  # a product is computed factor by factor


def number_of(value: Any) -> Any:
    """An expression as JSON: an integer where it is one."""
    if isinstance(value, Call):
        return {"call": value.name, "args": [number_of(arg) for arg in value.args]}
    if not isinstance(value, Expr):
        return value
    if value.constant is not None:
        return value.constant
    return {
        "sum": [[factor, [[each if each.__class__ is str else number_of(each), power] for each, power in monomial]]
                for monomial, factor in value.terms.items()]
    }  # fmt: skip


def number_from(described: Any) -> Any:
    """The expression that ``number_of`` wrote."""
    if isinstance(described, (int, float)):
        return as_expr(described) if isinstance(described, int) else described
    if "call" in described:
        if described["call"] not in FUNCTIONS:
            raise ValueError(f"{described['call']!r} is no function of sizes")
        return Call(described["call"], *[number_from(arg) for arg in described["args"]])
    total = as_expr(0)
    for factor, monomial in described["sum"]:
        product = as_expr(int(factor))
        for each, power in monomial:
            if not 0 < power <= _HIGHEST_POWER:
                raise ValueError(f"{power} is no power of a size")
            product = product * symbol(identifier(each) if isinstance(each, str) else number_from(each)) ** power
        total = total + product
    return total


# ---- writing
class Writer:
    """Writes the graphs of one program."""

    def graph(self, module: GraphModule) -> dict[str, Any]:
        inner = {name: self.graph(child) for name, child in module.named_children() if isinstance(child, GraphModule)}
        return {"nodes": [self.node(node) for node in module.graph.nodes], "graphs": inner}

    def node(self, node: Node) -> dict[str, Any]:
        described = {
            "op": node.op,
            "name": node.name,
            "target": self.target(node.target),
            "args": [self.value(arg) for arg in node.args],
            "kwargs": {name: self.value(arg) for name, arg in node.kwargs.items()},
        }
        if "val" in node.meta:
            described["val"] = self.noted(node.meta["val"])
        return described

    def target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        if isinstance(target, OpOverload):
            return f"{target._namespace}::{target._opname}.{target._overloadname}"
        if isinstance(target, HigherOrderOperator):
            return f"higher_order::{target}"
        if target in _NAMES:
            return f"operator::{_NAMES[target]}"
        raise NotImplementedError(f"torch.export.save: a call of {target} is not supported")

    def value(self, value: Any) -> Any:
        """An argument."""
        if isinstance(value, Node):
            return {"node": value.name}
        if value is None or isinstance(value, (bool, str)) or value.__class__ is int:
            return value
        if isinstance(value, float):
            return {"float": repr(value)}
        if isinstance(value, complex):
            return {"complex": repr(value)}
        if isinstance(value, SymbolicInt):
            return {"size": number_of(value.expr)}
        if isinstance(value, (list, tuple)):
            return {type(value).__name__ if type(value) in (list, tuple) else ("tuple" if isinstance(value, tuple) else "list"): [
                self.value(part) for part in value]}  # fmt: skip
        if isinstance(value, dict):
            return {"dict": [[self.value(key), self.value(part)] for key, part in value.items()]}
        if isinstance(value, dtypes.dtype):
            return {"dtype": value.name}
        if isinstance(value, Device):
            return {"device": str(value)}
        if isinstance(value, (layouts.layout, layouts.memory_format)):
            return {type(value).__name__: value.name}
        raise NotImplementedError(f"torch.export.save: a constant of type {type(value).__name__} is not supported")

    def noted(self, value: Any) -> Any:
        """The value that a node is known to give: a tensor's dtype and sizes."""
        if isinstance(value, Tensor):
            sizes = [number_of(as_expr(expression_of(size))) for size in value.shape]
            return {"tensor": [value.dtype.name, sizes, str(value.device), bool(value.requires_grad)]}
        if isinstance(value, (list, tuple)):
            return {"tuple": [self.noted(part) for part in value]}
        if isinstance(value, SymbolicInt):
            return {"size": number_of(value.expr)}
        return None

    def symbols(self, program: Any) -> list[Any]:
        """The symbols with their bounds and their sizes in the example."""
        hints: dict[str, int] = {}
        for node in program.graph.nodes:
            if isinstance(value := node.meta.get("val"), FakeTensor) and value.fake_mode.shape_env is not None:
                hints = value.fake_mode.shape_env.hints
                break
        return [[str(name), values.lower, values.upper, hints.get(str(name), 2)] for name, values in program.range_constraints.items()]


# ---- reading
class Reader:
    """Reads the graphs of one program.

    Attributes:
        ranges: bounds of the symbols.
    """

    def __init__(self, symbols: list[Any]):
        self.env = ShapeEnv()
        for name, lower, upper, hint in symbols:
            self.env.restore(identifier(name), ValueRanges(int(lower), int(upper)), int(hint))
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=self.env, static_shapes=True)
        self.ranges = {symbol(name): values for name, values in self.env.var_to_range.items()}

    def graph(self, described: dict[str, Any]) -> tuple[Any, Graph]:
        root = Module()
        for name, inner in described["graphs"].items():
            root.add_module(identifier(name), GraphModule(*self.graph(inner)))
        graph = Graph()
        nodes: dict[str, Node] = {}
        for each in described["nodes"]:
            op = each["op"]
            if op not in _OPS:
                raise ValueError(f"a node of kind {op}")
            args = tuple([self.value(arg, nodes) for arg in each["args"]])
            kwargs = {identifier(name): self.value(arg, nodes) for name, arg in each["kwargs"].items()}
            node = graph.create_node(op, self.target(op, each["target"]), args, kwargs, identifier(each["name"]))
            node.name = each["name"]
            nodes[each["name"]] = node
            if each.get("val") is not None:
                node.meta["val"] = self.noted(each["val"])
        return root, graph

    def target(self, op: str, name: str) -> Any:
        if op != "call_function":
            return identifier(name) if op == "placeholder" else path(name)
        namespace, _, rest = name.partition("::")
        if namespace == "operator":
            return OPERATORS[rest]
        if namespace == "higher_order":
            return HIGHER_ORDER[rest]
        packet, _, overload = rest.rpartition(".")
        found = getattr(getattr(getattr(ops, namespace) if namespace != "aten" else ops.namespace("aten"), packet), overload)
        if not isinstance(found, OpOverload):
            raise ValueError(f"{name} is no operation")
        return found

    def value(self, described: Any, nodes: dict[str, Node] | None = None) -> Any:
        if not isinstance(described, dict):
            return described
        ((kind, content),) = described.items()
        return _READERS[kind](self, content, nodes or {})

    def noted(self, described: Any) -> Any:
        if described is None:
            return None
        ((kind, content),) = described.items()
        if kind == "tuple":
            return tuple([self.noted(part) for part in content])
        if kind == "size":
            return self.env.number(number_from(content))
        name, sizes, where, requires_grad = content
        shape = [self.env.number(number_from(size)) for size in sizes]
        hints = tuple([int.__int__(size) for size in shape])
        fake = FakeTensor(self.mode, wrap(empty(hints, dtypes.ALL[name].numpy)), Device(where))
        fake._requires_grad = requires_grad
        return symbolize(fake, shape)


def _layout(reader: Reader, name: str, nodes: Any) -> Any:
    return next(value for value in vars(layouts).values() if isinstance(value, layouts.layout) and value.name == name)


def _memory_format(reader: Reader, name: str, nodes: Any) -> Any:
    return next(value for value in vars(layouts).values() if isinstance(value, layouts.memory_format) and value.name == name)


_READERS: dict[str, Callable[..., Any]] = {
    "node": lambda reader, name, nodes: nodes[name],
    "float": lambda reader, text, nodes: float(text),
    "complex": lambda reader, text, nodes: complex(text),
    "size": lambda reader, content, nodes: reader.env.number(number_from(content)),
    "list": lambda reader, parts, nodes: [reader.value(part, nodes) for part in parts],
    "tuple": lambda reader, parts, nodes: tuple([reader.value(part, nodes) for part in parts]),
    "dict": lambda reader, items, nodes: {reader.value(key, nodes): reader.value(part, nodes) for key, part in items},
    "dtype": lambda reader, name, nodes: dtypes.ALL[name],
    "device": lambda reader, name, nodes: Device(name),
    "layout": _layout,
    "memory_format": _memory_format,
}


# ---- signatures
def signature_of(signature: Any) -> dict[str, Any]:
    """A signature as JSON."""
    return {
        "inputs": [[spec.kind.name, _argument(spec.arg), spec.target, spec.persistent] for spec in signature.input_specs],
        "outputs": [[spec.kind.name, _argument(spec.arg), spec.target] for spec in signature.output_specs],
    }


def _argument(argument: Any) -> list[Any]:
    value = Writer().value(argument.value) if isinstance(argument, signatures.ConstantArgument) else None
    return [type(argument).__name__, argument.name, value]


def signature_from(described: dict[str, Any]) -> Any:
    """The signature that ``signature_of`` wrote."""
    reader = Reader([])

    def argument(kind: str, name: str, value: Any) -> Any:
        if kind == "ConstantArgument":
            return signatures.ConstantArgument(name, reader.value(value))
        return {each.__name__: each for each in _ARGUMENTS}[kind](identifier(name))

    return signatures.ExportGraphSignature(
        [
            signatures.InputSpec(signatures.InputKind[kind], argument(*arg), None if target is None else path(target), persistent)
            for kind, arg, target, persistent in described["inputs"]
        ],
        [
            signatures.OutputSpec(signatures.OutputKind[kind], argument(*arg), None if target is None else path(target))
            for kind, arg, target in described["outputs"]
        ],
    )


_ARGUMENTS: tuple[Any, ...] = (
    signatures.TensorArgument,
    signatures.SymIntArgument,
    signatures.SymFloatArgument,
    signatures.SymBoolArgument,
)
