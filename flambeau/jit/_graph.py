"""Compiled code as a graph: nodes with operators' names, values with types, blocks of branches and loops. Source: torch._C.Graph.

The code is what runs and what is saved; the graph is made of it for whoever looks.

    graph(%x : Tensor, %n : int):
      %2 : int = prim::Constant[value=1]()
      %3 : bool = aten::gt(%n, %2)
      %4 : Tensor = prim::If(%3)
        block0():
          %5 : Tensor = aten::add(%x, %2)
          -> (%5)
        block1():
          -> (%x)
      return (%4)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from ..aten.schema import FunctionSchema, parse_schema
from ._expressions import parts_of, result_kind
from ._source import path_of
from ._unit import Unit

_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "remainder", ast.Pow: "pow",
    ast.MatMult: "matmul", ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__", ast.LShift: "__lshift__",
    ast.RShift: "__rshift__", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Is: "__is__", ast.IsNot: "__isnot__", ast.In: "__contains__", ast.USub: "neg", ast.Not: "__not__", ast.Invert: "bitwise_not",
}  # fmt: skip
_TRUTHS = frozenset("eq ne lt le gt ge __is__ __isnot__ __contains__ __not__".split())
_CASTS = {"int": "Int", "float": "Float", "bool": "Bool", "str": "str", "complex": "Complex"}


class Value:
    """A value of a graph. Source: torch._C.Value."""

    def __init__(self, name: str, kind: str, node: Any = None, constant: Any = None) -> None:
        self._name, self._kind, self._node, self._constant = name, kind, node, constant

    def debugName(self) -> str:
        """Its name, without the percent sign."""
        return self._name

    def type(self) -> str:
        """Text of its type."""
        return self._kind

    def node(self) -> Any:
        """The node that makes it."""
        return self._node

    def toIValue(self) -> Any:
        """The value of a constant; None of any other."""
        return self._constant

    def __repr__(self) -> str:
        return f"{self._name} defined in ({str(self._node).strip()})"


class Node:
    """A node of a graph. Source: torch._C.Node."""

    def __init__(self, kind: str, inputs: list[Value], attributes: dict[str, Any] | None = None) -> None:
        self._kind, self._inputs, self._attributes = kind, inputs, attributes or {}
        self._outputs: list[Value] = []
        self._blocks: list[Block] = []

    def kind(self) -> str:
        """``aten::add``."""
        return self._kind

    def inputs(self) -> Iterator[Value]:
        """The values that it takes."""
        return iter(self._inputs)

    def outputs(self) -> Iterator[Value]:
        """The values that it makes."""
        return iter(self._outputs)

    def blocks(self) -> Iterator[Block]:
        """The blocks of a branch or a loop."""
        return iter(self._blocks)

    def input(self) -> Value:
        """The only value that it takes."""
        (value,) = self._inputs
        return value

    def output(self) -> Value:
        """The only value that it makes."""
        (value,) = self._outputs
        return value

    def inputsAt(self, i: int) -> Value:
        """One of the values that it takes."""
        return self._inputs[i]

    def outputsAt(self, i: int) -> Value:
        """One of the values that it makes."""
        return self._outputs[i]

    def inputsSize(self) -> int:
        """Number of values that it takes."""
        return len(self._inputs)

    def outputsSize(self) -> int:
        """Number of values that it makes."""
        return len(self._outputs)

    def attributeNames(self) -> list[str]:
        """Names of its attributes."""
        return list(self._attributes)

    def hasAttribute(self, name: str) -> bool:
        """Whether it has an attribute."""
        return name in self._attributes

    def s(self, name: str) -> Any:
        """An attribute."""
        return self._attributes[name]

    i = f = t = s

    def scopeName(self) -> str:
        """Module in whose call it was recorded; not kept."""
        return ""

    def lines(self, indent: str) -> Iterator[str]:
        """Its text."""
        outs = ", ".join([f"%{value._name} : {value._kind}" for value in self._outputs])
        shown = ", ".join([f"{name}={_shown(value)}" for name, value in self._attributes.items()])
        call = f"{self._kind}{f'[{shown}]' if shown else ''}({', '.join(['%' + value._name for value in self._inputs])})"
        yield f"{indent}{outs} = {call}\n" if outs else f"{indent} = {call}\n"
        for place, block in enumerate(self._blocks):
            arguments = ", ".join([f"%{value._name} : {value._kind}" for value in block._inputs])
            yield f"{indent}  block{place}({arguments}):\n"
            for node in block._nodes:
                yield from node.lines(f"{indent}    ")
            yield f"{indent}    -> ({', '.join(['%' + value._name for value in block._outputs])})\n"

    def __str__(self) -> str:
        return "".join(self.lines(""))

    __repr__ = __str__


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f'"{value}"' if isinstance(value, str) else "annotate" if value is None else str(value)


class Block:
    """The nodes of a branch, of a loop's body, or of a whole graph. Source: torch._C.Block."""

    def __init__(self) -> None:
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._nodes: list[Node] = []

    def nodes(self) -> Iterator[Node]:
        """The nodes, in order."""
        return iter(self._nodes)

    def inputs(self) -> Iterator[Value]:
        """The values that come in."""
        return iter(self._inputs)

    def outputs(self) -> Iterator[Value]:
        """The values that go out."""
        return iter(self._outputs)

    def findNode(self, kind: str, recurse: bool = True) -> Any:
        """The first node of a kind; None without one."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """All nodes of a kind, those in blocks too."""
        found = []
        for node in self._nodes:
            if node._kind == kind:
                found.append(node)
            for block in node._blocks if recurse else ():
                found += block.findAllNodes(kind)
        return found


class Graph(Block):
    """A graph. Source: torch._C.Graph."""

    _origin: tuple[Unit, str]

    def __str__(self) -> str:
        arguments = ",\n      ".join([f"%{value._name} : {value._kind}" for value in self._inputs])
        lines = "".join(["".join(node.lines("  ")) for node in self._nodes])
        return f"graph({arguments}):\n{lines}  return ({', '.join(['%' + value._name for value in self._outputs])})\n"

    __repr__ = __str__

    def str(self, print_source_ranges: bool = True) -> str:
        """The text."""
        return Graph.__str__(self)

    def inline(self) -> None:
        """Put what is called in the place of the calls."""
        self.__dict__.update(graph_of(*self._origin, inline=True).__dict__)

    def lint(self) -> None:
        """Check the graph; it was just made."""


# -- from code ----------------------------------------------------------------------------------------------------------------------------
class _Builder:
    """Makes the graph of a function's tree."""

    def __init__(self, unit: Unit, inline: bool) -> None:
        self.unit, self.inline = unit, inline
        self.graph = Graph()
        self.block: Block = self.graph
        self.count = 0
        self.depth = 0

    def name(self) -> str:
        self.count += 1
        return str(self.count - 1)

    def node(self, kind: str, inputs: list[Value], result: str | list[str] | None = "Tensor", **attributes: Any) -> Any:
        made = Node(kind, inputs, attributes)
        self.block._nodes.append(made)
        kinds = [] if result is None else [result] if isinstance(result, str) else result
        made._outputs = [Value(self.name(), of, made, attributes.get("value")) for of in kinds]
        return made._outputs[0] if len(made._outputs) == 1 else made

    def constant(self, value: Any) -> Value:
        kind = "NoneType" if value is None else type(value).__name__
        found: Value = self.node("prim::Constant", [], kind, **({} if value is None else {"value": value}))
        return found

    # -- functions --------------------------------------------------------------------------------------------------------------
    def function(self, tree: ast.FunctionDef, names: dict[str, Value]) -> list[Value]:
        """The nodes of a body; what it returns."""
        return self.body(tree.body, names) or []

    def body(self, statements: list[ast.stmt], names: dict[str, Value]) -> list[Value] | None:
        for statement in statements:
            if isinstance(statement, ast.Return):
                return [] if statement.value is None else [self.value(statement.value, names)]
            self.statement(statement, names)
        return None

    def statement(self, node: ast.stmt, names: dict[str, Value]) -> None:
        if isinstance(node, ast.Assign):
            self.assign(node.targets[0], self.value(node.value, names), names)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, self.value(node.value, names), names)
        elif isinstance(node, ast.AugAssign):
            read = ast.BinOp(_loaded(node.target), node.op, node.value)
            self.assign(node.target, self.value(read, names), names)
        elif isinstance(node, ast.Expr):
            self.value(node.value, names)
        elif isinstance(node, ast.If):
            self.branch(node, names)
        elif isinstance(node, (ast.For, ast.While)):
            self.loop(node, names)
        elif isinstance(node, ast.FunctionDef):
            names[node.name] = Value(node.name, "Function")

    def assign(self, target: Any, value: Any, names: dict[str, Value]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            kinds = parts_of(value._kind) if value._kind.startswith("Tuple[") else ["Tensor"] * len(target.elts)
            kinds = kinds if len(kinds) == len(target.elts) else ["Tensor"] * len(target.elts)
            made = self.node("prim::TupleUnpack" if value._kind.startswith("Tuple[") else "prim::ListUnpack", [value], kinds)
            outs = made._outputs if isinstance(made, Node) else [made]
            for part, item in zip(target.elts, outs, strict=True):
                self.assign(part, item, names)
        elif isinstance(target, ast.Attribute):
            self.node("prim::SetAttr", [self.value(target.value, names), value], None, name=target.attr)
        elif isinstance(target, ast.Subscript):
            base, key = self.value(target.value, names), self.value(target.slice, names)
            self.node("aten::copy_" if base._kind == "Tensor" else "aten::_set_item", [base, key, value], None)

    def branch(self, node: ast.If, names: dict[str, Value]) -> None:
        test = self.value(node.test, names)
        made = Node("prim::If", [test])
        self.block._nodes.append(made)
        inner = [self.inside(made, statements, dict(names)) for statements in (node.body, node.orelse)]
        changed = [
            name
            for name in inner[0]
            if name in inner[1] and (inner[0][name] is not names.get(name) or inner[1][name] is not names.get(name))
        ]
        for name in changed:
            for block, known in zip(made._blocks, inner, strict=True):
                block._outputs.append(known[name])
            out = Value(self.name(), inner[0][name]._kind, made)
            made._outputs.append(out)
            names[name] = out

    def inside(self, made: Node, statements: list[ast.stmt], names: dict[str, Value]) -> dict[str, Value]:
        block, outer = Block(), self.block
        made._blocks.append(block)
        self.block = block
        result = self.body(statements, names)
        if result:
            names["return"] = result[0]
        self.block = outer
        return names

    def loop(self, node: Any, names: dict[str, Value]) -> None:
        count = self.constant(9223372036854775807) if isinstance(node, ast.While) else self.count_of(node.iter, names)
        start = self.value(node.test, names) if isinstance(node, ast.While) else self.constant(True)
        stored = {
            part.id
            for statement in node.body
            for part in ast.walk(statement)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        carried = [name for name in names if name in stored]
        made = Node("prim::Loop", [count, start, *[names[name] for name in carried]])
        self.block._nodes.append(made)
        inner = dict(names)
        block, outer = Block(), self.block
        made._blocks.append(block)
        self.block = block
        step = Value(self.name(), "int", made)
        block._inputs.append(step)
        for name in carried:
            inner[name] = Value(self.name(), names[name]._kind, made)
            block._inputs.append(inner[name])
        if isinstance(node, ast.For):
            self.assign(node.target, self.item(node.iter, step, inner), inner)
        self.body(node.body, inner)
        again = self.value(node.test, inner) if isinstance(node, ast.While) else self.constant(True)
        block._outputs = [again, *[inner[name] for name in carried]]
        self.block = outer
        for name in carried:
            names[name] = Value(self.name(), names[name]._kind, made)
            made._outputs.append(names[name])

    def count_of(self, node: Any, names: dict[str, Value]) -> Value:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range" and len(node.args) == 1:
            return self.value(node.args[0], names)
        found: Value = self.node("aten::len", [self.value(node, names)], "int")
        return found

    def item(self, node: Any, step: Value, names: dict[str, Value]) -> Value:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range" and len(node.args) == 1:
            return step
        source = self.value(node, names)
        kind = source._kind[5:-1] if source._kind.startswith("List[") else "Tensor"
        found: Value = self.node("aten::__getitem__", [source, step], kind)
        return found

    # -- expressions --------------------------------------------------------------------------------------------------------------
    def value(self, node: Any, names: dict[str, Value]) -> Any:
        if isinstance(node, ast.Constant):
            return self.constant(node.value)
        if isinstance(node, ast.Name):
            return names[node.id] if node.id in names else self.constant(node.id)
        if isinstance(node, (ast.Tuple, ast.List)):
            items = [self.value(element, names) for element in node.elts]
            kinds = [item._kind for item in items]
            if isinstance(node, ast.Tuple):
                return self.node("prim::TupleConstruct", items, f"Tuple[{', '.join(kinds)}]")
            return self.node("prim::ListConstruct", items, f"List[{kinds[0] if kinds else 'Tensor'}]")
        if isinstance(node, ast.Dict):
            items = [self.value(part, names) for pair in zip(node.keys, node.values, strict=True) for part in pair]
            kinds = [item._kind for item in items[:2]] or ["str", "Tensor"]
            return self.node("prim::DictConstruct", items, f"Dict[{kinds[0]}, {kinds[1]}]")
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp)):
            return self.operator(node, names)
        if isinstance(node, ast.Call):
            return self.call(node, names)
        if isinstance(node, ast.Attribute):
            return self.attribute(node, names)
        if isinstance(node, ast.Subscript):
            return self.subscript(node, names)
        if isinstance(node, ast.IfExp):
            return self.chosen(node, names)
        return self.constant(ast.unparse(node))

    def operator(self, node: Any, names: dict[str, Value]) -> Any:
        if isinstance(node, ast.BoolOp):
            parts = [self.value(part, names) for part in node.values]
            return self.node("aten::__and__" if isinstance(node.op, ast.And) else "aten::__or__", parts, "bool")
        if isinstance(node, ast.UnaryOp):
            operand = self.value(node.operand, names)
            word = _BINARY.get(type(node.op), "neg")
            return self.node(f"aten::{word}", [operand], "bool" if word in _TRUTHS else operand._kind)
        left, op, right = (node.left, node.op, node.right) if isinstance(node, ast.BinOp) else (node.left, node.ops[0], node.comparators[0])
        operands = [self.value(left, names), self.value(right, names)]
        word = _BINARY[type(op)]
        return self.node(f"aten::{word}", operands, _kind_of(word, operands))

    def subscript(self, node: ast.Subscript, names: dict[str, Value]) -> Any:
        base = self.value(node.value, names)
        key = self.value(node.slice, names)
        word = "aten::select" if base._kind == "Tensor" else "aten::__getitem__"
        kind = base._kind[5:-1] if base._kind.startswith("List[") else "Tensor"
        return self.node(word, [base, key], kind)

    def chosen(self, node: ast.IfExp, names: dict[str, Value]) -> Any:
        made = Node("prim::If", [self.value(node.test, names)])
        self.block._nodes.append(made)
        outer = self.block
        for part in (node.body, node.orelse):
            self.block = Block()
            made._blocks.append(self.block)
            self.block._outputs = [self.value(part, names)]
        self.block = outer
        made._outputs = [Value(self.name(), made._blocks[0]._outputs[0]._kind, made)]
        return made._outputs[0]

    def attribute(self, node: ast.Attribute, names: dict[str, Value]) -> Any:
        path = path_of(node)
        if path is not None and path[0] == "CONSTANTS":
            return self.node("prim::Constant", [], "Tensor", value=f"<{path[1]}>")
        base = self.value(node.value, names)
        return self.read(base, node.attr)

    def read(self, base: Value, name: str) -> Any:
        if base._kind.startswith("__torch__"):
            fields = self.unit.type(base._kind).fields if base._kind in self.unit.texts else {}
            return self.node("prim::GetAttr", [base], fields.get(name, "Tensor"), name=name)
        kinds = {"shape": "List[int]", "dtype": "int", "device": "Device"}
        return self.node(f"prim::{name}", [base], kinds.get(name, "Tensor"))

    def call(self, node: ast.Call, names: dict[str, Value]) -> Any:
        function, path = node.func, path_of(node.func)
        word = function.id if isinstance(function, ast.Name) else ""
        if word == "getattr":
            return self.read(self.value(node.args[0], names), node.args[1].value)  # type: ignore[attr-defined]
        if word in ("annotate", "unchecked_cast"):
            return self.value(node.args[1], names)
        if word == "uninitialized":
            return self.node("prim::Uninitialized", [], ast.unparse(node.args[0]))
        arguments = [self.value(part, names) for part in (*node.args, *[keyword.value for keyword in node.keywords])]
        if path is not None and path[0] == "torch" and len(path) == 2:
            return self.node(f"aten::{path[1]}", arguments, _kind_of(path[1], arguments))
        if path is not None and path[0] == "ops" and len(path) == 3:
            return self.node(f"{path[1]}::{path[2]}", arguments, "int" if path[2] in ("dtype", "layout") else "Tensor")
        if path is not None and path[0] == "__torch__":
            return self.called(".".join(path), arguments)
        if isinstance(function, ast.Attribute):
            return self.method(self.value(function.value, names), function.attr, arguments)
        if word in names:
            return self.node("prim::CallFunction", [names[word], *arguments], "Tensor")
        return self.node(f"aten::{_CASTS.get(word, word)}" if word else "prim::CallFunction", arguments, _CAST_KINDS.get(word, "Tensor"))

    def method(self, owner: Value, name: str, arguments: list[Value]) -> Any:
        if not owner._kind.startswith("__torch__"):
            return self.node(f"aten::{name}", [owner, *arguments], _kind_of(name, [owner]))
        tree = _method_tree(self.unit, owner._kind, name)
        if self.inline and tree is not None and self.depth < 64:
            return self.inlined(tree, [owner, *arguments])
        kind = "Tensor" if tree is None or tree.returns is None else ast.unparse(tree.returns)
        return self.node("prim::CallMethod", [owner, *arguments], kind, name=name)

    def called(self, name: str, arguments: list[Value]) -> Any:
        tree = self.unit.tree(name) if name in self.unit.texts else None
        if not isinstance(tree, ast.FunctionDef):
            return self.node("prim::CreateObject", arguments, name)
        if self.inline and self.depth < 64:
            return self.inlined(tree, arguments)
        kind = "Tensor" if tree.returns is None else ast.unparse(tree.returns)
        return self.node("prim::CallFunction", [self.constant(name.rpartition(".")[2]), *arguments], kind)

    def inlined(self, tree: Any, arguments: list[Value]) -> Any:
        names = {}
        defaults: list[Any] = [None] * (len(tree.args.args) - len(tree.args.defaults)) + tree.args.defaults
        for place, (argument, default) in enumerate(zip(tree.args.args, defaults, strict=True)):
            names[argument.arg] = arguments[place] if place < len(arguments) else self.value(default, {})
        self.depth += 1
        result = self.function(tree, names)
        self.depth -= 1
        return result[0] if result else names.get("return") or self.constant(None)


_CAST_KINDS = {"int": "int", "float": "float", "bool": "bool", "str": "str", "len": "int"}


def _loaded(node: Any) -> Any:
    return type(node)(**{**{field: getattr(node, field) for field in node._fields}, "ctx": ast.Load()})


def _kind_of(word: str, operands: list[Value]) -> str:
    kinds = [operand._kind for operand in operands]
    if "Tensor" in kinds[:2]:
        return {"size": "int" if len(kinds) > 1 else "List[int]"}.get(word) or result_kind(word) or "Tensor"
    if word in _TRUTHS:
        return "bool"
    if word in ("add", "sub", "mul", "div", "floordiv", "remainder", "pow") and kinds:
        return "float" if "float" in kinds or word == "div" else kinds[0]
    return result_kind(word) or "Tensor"


# -- what is asked for ------------------------------------------------------------------------------------------------------------------
def _method_tree(unit: Unit, kind: str, name: str) -> Any:
    if kind not in unit.texts:
        return None
    return next((part for part in unit.tree(kind).body if getattr(part, "name", "") == name), None)


def _tree(unit: Unit, name: str) -> Any:
    if name in unit.texts:
        return unit.tree(name)
    kind, _, method = name.rpartition(".")
    found = _method_tree(unit, kind, method)
    if found is None:
        raise RuntimeError(f"Method '{method}' is not defined.")
    return found


def graph_of(unit: Unit, name: str, inline: bool = False) -> Graph:
    """The graph of a function, or of a method of a class."""
    tree = _tree(unit, name)
    builder = _Builder(unit, inline)
    builder.graph._origin = unit, name
    names = {}
    for argument in tree.args.args:
        kind = "Tensor" if argument.annotation is None else ast.unparse(argument.annotation)
        names[argument.arg] = Value(argument.arg, kind)
        builder.graph._inputs.append(names[argument.arg])
    result = builder.function(tree, names)
    builder.graph._outputs = result or [names["return"]] if "return" in names or result else [builder.constant(None)]
    return builder.graph


def code_of(unit: Unit, name: str) -> str:
    """The text of a method.

    Raises:
        RuntimeError: there is none.
    """
    kind, _, method = name.rpartition(".")
    text = unit.texts.get(kind, "")
    match = re.search(rf"^  def {re.escape(method)}\(.*?(?=^  def |\Z)", text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise RuntimeError(f"Method '{method}' is not defined.")
    lines = [line[2:] if line.startswith("  ") else line for line in match[0].splitlines()]
    return re.sub(r"\(self: [\w.]+", "(self", "\n".join(lines), count=1) + "\n"


def schema_of(unit: Unit, name: str) -> FunctionSchema:
    """The schema of a function."""
    tree = _tree(unit, name)
    parts = []
    defaults: list[Any] = [None] * (len(tree.args.args) - len(tree.args.defaults)) + tree.args.defaults
    for argument, default in zip(tree.args.args, defaults, strict=True):
        kind = "Tensor" if argument.annotation is None else ast.unparse(argument.annotation)
        parts.append(f"{_schema_type(kind)} {argument.arg}" + ("" if default is None else f"={ast.unparse(default)}"))
    result = "Tensor" if tree.returns is None else ast.unparse(tree.returns)
    return parse_schema(f"{name.rpartition('.')[2]}({', '.join(parts)}) -> {_schema_type(result)}")


def _schema_type(kind: str) -> str:
    """A type as schemas write it: ``int[]`` for ``List[int]``."""
    for word, form in (("List", "{}[]"), ("Optional", "{}?"), ("Dict", "Dict({}, {})"), ("Tuple", None)):
        if kind.startswith(f"{word}["):
            parts = [_schema_type(part) for part in parts_of(kind)]
            return f"({', '.join(parts)})" if form is None else form.format(*parts)
    return kind
