"""Expressions of scripted functions, in TorchScript.

An expression becomes text with its type as far as that is known, or stays *static*: a module, a function, a constant of the program, which
has a meaning while the program is compiled only. Conditions that are static choose what is compiled at all.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import enum
import operator
from typing import Any

from .. import ops as _operations
from ..core.dtype import dtype
from ..core.tensor import Tensor
from ..nn import Module, ParameterList
from ._annotations import UnknownType, is_enum, type_text
from ._literals import literal, quoted, type_of
from .frontend import NotSupportedError, Source, UnsupportedNodeError

DYNAMIC = object()
_PACKAGE = __name__.partition(".")[0] + "."
_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.MatMult: "@",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_CASTS = {".bool": 11, ".bfloat16": 15}  # casts that PyTorch has no method for in archives, and the dtypes' numbers
_METHODS = {  # of classes of the program
    "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "//": "__floordiv__", "%": "__mod__", "**": "__pow__",
    "@": "__matmul__", "&": "__and__", "|": "__or__", "^": "__xor__",
}  # fmt: skip
_COMPARE = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in", ast.Is: "is",
    ast.IsNot: "is not",
}  # fmt: skip
_UNARY = {ast.USub: "-", ast.Not: "not ", ast.Invert: "~", ast.UAdd: "+"}
_PROPERTIES = {
    "shape": "List[int]", "dtype": "int", "device": "Device", "ndim": "int", "requires_grad": "bool", "is_cuda": "bool",
    "is_leaf": "bool", "layout": "int", **dict.fromkeys("T mT H mH grad data real imag".split(), "Tensor"),
}  # fmt: skip
_OTHER_PROPERTIES = frozenset("is_cpu is_sparse is_quantized is_mkldnn is_meta is_mps is_nested itemsize nbytes names".split())
_OF_NUMBERS = ("int", "float", "bool", "Tensor")
_OF_TEXTS = frozenset("upper lower strip lstrip rstrip replace join format title capitalize zfill".split())


class Typed:
    """An expression that was compiled.

    Attributes:
        text: in TorchScript. kind: its type, None where it is not known. static: its value while compiling; ``DYNAMIC`` without one.
    """

    __slots__ = ("kind", "static", "text")

    def __init__(self, text: str, kind: str | None = None, static: Any = DYNAMIC) -> None:
        self.text, self.kind, self.static = text, kind, static

    @property
    def is_static(self) -> bool:
        return self.static is not DYNAMIC


def getter_name(name: str) -> str:
    """The method that a property of a class becomes."""
    return f"{name}_property"


def item_of(kind: str | None) -> str | None:
    """The type of a list's items."""
    return kind[5:-1] if kind is not None and kind.startswith("List[") else None


def items_of(module: Module) -> list[str]:
    """The names of what a loop over a module goes through: modules, or the parameters of a list of them."""
    return list(module._parameters if isinstance(module, ParameterList) else module._modules)


def parts_of(kind: str) -> list[str]:
    """The types in brackets."""
    inside, parts, depth, start = kind[kind.index("[") + 1 : -1], [], 0, 0
    for place, character in enumerate(inside):
        depth += (character == "[") - (character == "]")
        if character == "," and not depth:
            parts.append(inside[start:place].strip())
            start = place + 1
    return [*parts, inside[start:].strip()]


class Expressions:
    """Compiles expressions; ``Statements`` derives from it.

    Attributes:
        source: of the function. scope: names around it. program: compiles what is called.
        names: local variables, as what they are known to be.
    """

    source: Source
    scope: dict[str, Any]
    program: Any
    names: dict[str, Typed]
    missing: dict[str, tuple[str, Any]]

    def expression(self, node: Any) -> Typed:
        """An expression."""
        handler = getattr(self, f"_{type(node).__name__}", None)
        if handler is None:
            raise UnsupportedNodeError(self.source, node)
        found: Typed = handler(node)
        return found

    def value(self, node: Any) -> Typed:
        """An expression whose value is needed: what is static must have a text."""
        found = self.expression(node)
        if not found.text:
            raise self.source.error(f"Python value of type '{type(found.static).__name__}' cannot be used as a value", node)
        return found

    def static(self, value: Any, path: str = "") -> Typed:
        """A value that is known while compiling."""
        text = literal(value)
        if text is None and isinstance(value, Tensor):
            text = self.program.unit.constant(value)
        return Typed(path or text or "", type_of(value), value)

    # -- names and constants ----------------------------------------------------------------------------------------------------
    def _Constant(self, node: ast.Constant) -> Typed:
        if node.value is Ellipsis:
            return Typed("...")
        return self.static(node.value)

    def _JoinedStr(self, node: ast.JoinedStr) -> Typed:
        text, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
            elif isinstance(part, ast.FormattedValue):
                if part.format_spec is not None or part.conversion != -1:
                    raise NotSupportedError(self.source.location(part), "Don't support conversion or format_spec in JoinedStr")
                text += "{}"
                values.append(self.value(part.value).text)
        return Typed(f"torch.format({', '.join([quoted(text), *values])})", "str")

    def _Name(self, node: ast.Name) -> Typed:
        name = node.id
        if name in self.names:
            return self.names[name]
        if name in self.missing:
            message, where = self.missing[name]
            raise RuntimeError(f"\n\n{message}:\n{self.source.location(where)}and was used here:\n{self.source.location(node)}")
        if name in self.scope:
            return self._of_scope(name, self.scope[name], node)
        if hasattr(builtins, name):
            return Typed("", None, getattr(builtins, name))
        raise self.source.error(f"undefined value {name}", node)

    def _of_scope(self, name: str, value: Any, node: Any) -> Typed:
        ours = str(self.scope.get("__name__", "")).startswith(_PACKAGE)
        data = isinstance(value, (Tensor, list, dict)) or (
            isinstance(value, (int, float, str)) and not isinstance(value, enum.Enum) and not ours
        )
        if data:
            raise self.source.error(
                f"python value of type '{type(value).__name__}' cannot be used as a value. Perhaps it is a closed over global variable? If "
                "so, please consider passing it in as an argument or use a local varible instead.",
                node,
            )
        return self.static(value)

    def _List(self, node: ast.List) -> Typed:
        items = self._items(node.elts)
        kinds = {item.kind for item in items}
        kind = kinds.pop() if len(kinds) == 1 else None
        return Typed(f"[{', '.join(item.text for item in items)}]", f"List[{kind}]" if kind else None if items else "List[Tensor]")

    def _items(self, nodes: list[Any]) -> list[Typed]:
        items: list[Typed] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                items += self._starred(node)
            else:
                items.append(self.value(node))
        return items

    def _Tuple(self, node: ast.Tuple) -> Typed:
        items: list[Typed] = []
        for element in node.elts:
            items += self._starred(element) if isinstance(element, ast.Starred) else [self.expression(element)]
        if items and all(item.is_static for item in items):
            values = tuple([item.static for item in items])
            return Typed(literal(values) or "", type_of(values), values)
        if not all(item.text for item in items):
            raise self.source.error("a Python value cannot be used as a value", node)
        kinds = [item.kind for item in items]
        text = ", ".join(item.text for item in items)
        return Typed(f"({text},)" if len(items) == 1 else f"({text})", None if None in kinds else f"Tuple[{', '.join(map(str, kinds))}]")

    def _Dict(self, node: ast.Dict) -> Typed:
        if None in node.keys:
            raise NotSupportedError(self.source.location(node), "dictionary unpacking isn't supported")
        keys, values = [self.value(key) for key in node.keys], [self.value(value) for value in node.values]
        kinds = {key.kind for key in keys}, {value.kind for value in values}
        known = all(len(kind) == 1 and None not in kind for kind in kinds)
        pairs = ", ".join([f"{key.text}: {value.text}" for key, value in zip(keys, values, strict=True)])
        return Typed(f"{{{pairs}}}", f"Dict[{kinds[0].pop()}, {kinds[1].pop()}]" if known else None)

    # -- operators ----------------------------------------------------------------------------------------------------------------
    def _BinOp(self, node: ast.BinOp) -> Typed:
        left, right = self.value(node.left), self.value(node.right)
        sign = _BINARY[type(node.op)]
        self._check_operands(left, right, sign, node)
        numbers = (int, float, str)
        if left.is_static and right.is_static and isinstance(left.static, numbers) and isinstance(right.static, numbers) and sign != "/":
            with contextlib.suppress(TypeError, ArithmeticError, ValueError):
                return self.static(_FOLDED[sign](left.static, right.static))
        kind = _kind_of_operation(left.kind, right.kind, sign)
        if left.kind is not None and left.kind.startswith("__torch__."):
            kind = self.program.kind_of_method(left.kind, _METHODS.get(sign, ""))
        return Typed(f"({left.text} {sign} {right.text})", kind)

    def _check_operands(self, left: Typed, right: Typed, sign: str, node: Any) -> None:
        plain = ("int", "float", "bool")
        if sign == "+" and "str" in (left.kind, right.kind) and (left.kind in plain or right.kind in plain):
            raise self._not_valid("add.str(str a, str b) -> str", ("b", right) if left.kind == "str" else ("a", left), "str", node)
        if sign == "*" and "str" in (left.kind, right.kind):
            raise self.source.error("Arguments for call are not valid: TorchScript does not repeat strings.\nThe original call is", node)
        for one, other, place in ((left, right, "other"), (right, left, "self")):
            optional = other.kind is not None and other.kind.startswith("Optional[")
            if (optional or (one.kind == "Tensor" and other.kind in ("str", "NoneType", "Device"))) and sign in "+-*/":
                name = {"+": "add", "-": "sub", "*": "mul", "/": "div"}[sign]
                raise self.source.error(
                    f"Arguments for call are not valid.\nThe following variants are available:\n  \n  aten::{name}.Tensor(Tensor self, "
                    f"Tensor other) -> Tensor:\n  Expected a value of type 'Tensor' for argument '{place}' but instead found type "
                    f"'{other.kind}'.\n  \nThe original call is",
                    node,
                )

    def _not_valid(self, schema: str, argument: tuple[str, Typed], wanted: str, node: Any) -> Exception:
        """The error for an argument of another type than an operator's."""
        name, value = argument
        return self.source.error(
            f"Arguments for call are not valid.\nThe following variants are available:\n  \n  aten::{schema}:\n  Expected a value of type "
            f"'{wanted}' for argument '{name}' but instead found type '{value.kind}'.\n  \nThe original call is",
            node,
        )

    def _UnaryOp(self, node: ast.UnaryOp) -> Typed:
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.Invert) and operand.kind in ("int", "bool", "float"):
            found = f"Expected a value of type 'Tensor' for argument 'self' but instead found type '{operand.kind}'"
            raise self.source.error(
                "Arguments for call are not valid.\nThe following variants are available:\n  \n  aten::bitwise_not(Tensor self) -> "
                f"Tensor:\n  {found}.\n  \nThe original call is",
                node,
            )
        if isinstance(node.op, ast.Not) and operand.is_static:
            return self.static(not operand.static)
        if operand.is_static and isinstance(operand.static, (int, float)) and isinstance(node.op, ast.USub):
            return self.static(-operand.static)
        return Typed(f"({_UNARY[type(node.op)]}{operand.text})", "bool" if isinstance(node.op, ast.Not) else operand.kind)

    def _BoolOp(self, node: ast.BoolOp) -> Typed:
        word, stops = ("and", False) if isinstance(node.op, ast.And) else ("or", True)
        parts: list[Typed] = []
        was = dict(self.names)
        for value in node.values:
            found = self.expression(value)
            if found.is_static:
                if bool(found.static) is stops:
                    if not parts:
                        self.names = was
                        return self.static(stops)
                    parts.append(self.static(stops))
                    break
                continue
            parts.append(found)
            self.narrow(value, not stops)
        self.names = was
        if not parts:
            return self.static(not stops)
        if len(parts) == 1:
            return parts[0]
        texts = [f"bool({part.text})" if part.kind in ("int", "float", "Tensor") else part.text for part in parts]
        return Typed("(" + f" {word} ".join(texts) + ")", "bool")

    def _Compare(self, node: ast.Compare) -> Typed:
        parts = []
        left = self.expression(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.expression(right_node)
            parts.append(self._comparison(left, op, right, node))
            left = right
        if all(part.is_static for part in parts):
            return self.static(all(part.static for part in parts))
        kept = [part for part in parts if not (part.is_static and part.static)]
        return kept[0] if len(kept) == 1 else Typed("(" + " and ".join([part.text for part in kept]) + ")", "bool")

    def _comparison(self, left: Typed, op: Any, right: Typed, node: Any) -> Typed:
        if left.is_static and right.is_static and not isinstance(left.static, Tensor):
            return self.static(bool(_COMPARED[type(op)](left.static, right.static)))
        if isinstance(op, (ast.Is, ast.IsNot)) and right.static is None and left.kind in ("Tensor", "int", "float", "bool", "str"):
            return self.static(isinstance(op, ast.IsNot))
        if not left.text or not right.text:
            raise self.source.error("a Python value cannot be compared", node)
        is_order = not isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot))
        if is_order and "str" in (left.kind, right.kind) and (left.kind in _OF_NUMBERS or right.kind in _OF_NUMBERS):
            raise self._not_valid("eq.str(str a, str b) -> bool", ("b", right) if left.kind == "str" else ("a", left), "str", node)
        if isinstance(op, ast.NotIn):
            return Typed(f"(not ({left.text} in {right.text}))", "bool")
        tensor = "Tensor" in (left.kind, right.kind) and not isinstance(op, (ast.In, ast.Is, ast.IsNot))
        return Typed(f"({left.text} {_COMPARE[type(op)]} {right.text})", "Tensor" if tensor else "bool")

    def narrow(self, test: Any, holds: bool) -> None:
        """Note what a condition says about local variables: ``x is not None``."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
            for part in test.values:
                self.narrow(part, holds)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.narrow(test.operand, not holds)
        elif isinstance(test, ast.Call):
            self._narrow_kind(test, holds)
        elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name) and test.left.id in self.names:
            known, right = self.names[test.left.id], test.comparators[0]
            if isinstance(right, ast.Constant) and right.value is None and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
                if known.kind is not None and known.kind.startswith("Optional[") and isinstance(test.ops[0], ast.IsNot) is holds:
                    self.names[test.left.id] = Typed(known.text, known.kind[9:-1])

    def _narrow_kind(self, test: ast.Call, holds: bool) -> None:
        """Note what ``isinstance(x, T)`` says about a variable of several types."""
        if not (
            isinstance(test.func, ast.Name) and test.func.id == "isinstance" and len(test.args) == 2 and isinstance(test.args[0], ast.Name)
        ):
            return
        known = self.names.get(test.args[0].id)
        if known is None or known.kind is None or not known.kind.startswith(("Union[", "Optional[")) or isinstance(test.args[1], ast.Tuple):
            return
        asked = self.type_of_node(test.args[1])
        kinds = parts_of(known.kind) if known.kind.startswith("Union[") else [known.kind[9:-1], "NoneType"]
        rest = [kind for kind in kinds if (kind == asked) is holds]
        if len(rest) == 1:
            self.names[test.args[0].id] = Typed(known.text, rest[0])

    def _IfExp(self, node: ast.IfExp) -> Typed:
        test = self.expression(node.test)
        if test.is_static:
            return self.expression(node.body if test.static else node.orelse)
        was = dict(self.names)
        self.narrow(node.test, True)
        body = self.value(node.body)
        self.names = dict(was)
        self.narrow(node.test, False)
        orelse = self.value(node.orelse)
        self.names = was
        kinds = {body.kind, orelse.kind}
        if (
            len(kinds) == 2
            and None not in kinds
            and "NoneType" not in kinds
            and not any(str(kind).startswith("Optional") for kind in kinds)
        ):
            raise self.source.error(f"if-expression's true branch has type {body.kind} but false branch has type {orelse.kind}", node)
        return Typed(f"({body.text} if {test.text} else {orelse.text})", body.kind if len(kinds) == 1 else None)

    # -- parts ----------------------------------------------------------------------------------------------------------------------
    def _Subscript(self, node: ast.Subscript) -> Typed:
        base = self.expression(node.value)
        if isinstance(base.static, Module):
            return self._child(base, node)
        if base.is_static and isinstance(base.static, (tuple, list, dict, str)) and not isinstance(node.slice, ast.Slice):
            key = self.expression(node.slice)
            if key.is_static:
                return self.static(base.static[key.static])
        if not base.text:
            raise self.source.error(f"'{type(base.static).__name__}' object is not subscriptable", node)
        return Typed(f"{base.text}[{self._key(node.slice)}]", self._kind_of_item(base.kind, node.slice))

    def _child(self, base: Typed, node: ast.Subscript) -> Typed:
        key = self.expression(node.slice)
        if not key.is_static:
            raise self.source.error(
                "Expected integer literal for index. ModuleList/Sequential indexing is only supported with integer literals. For example, "
                "'i = 4; self.layers[i](x)' will fail because i is not a literal. Enumeration is supported, e.g. 'for index, v in "
                "enumerate(self): out = v(inp)'",
                node,
            )
        names = items_of(base.static)
        name = key.static if isinstance(key.static, str) else names[key.static]
        return self.program.member(base, name, self, node)

    def _key(self, node: Any) -> str:
        if isinstance(node, ast.Tuple):
            return ", ".join([self._key(part) for part in node.elts])
        if isinstance(node, ast.Slice):
            ends = ["" if part is None else self.value(part).text for part in (node.lower, node.upper)]
            return ":".join([*ends, self.value(node.step).text] if node.step is not None else ends)
        return self.value(node).text

    def _kind_of_item(self, kind: str | None, key: Any) -> str | None:
        if kind in ("Tensor", "str") or kind is None:
            return kind
        if isinstance(key, ast.Slice):
            return kind
        if kind.startswith("Tuple[") and isinstance(key, ast.Constant) and isinstance(key.value, int):
            parts = parts_of(kind)
            return parts[key.value] if -len(parts) <= key.value < len(parts) else None
        return parts_of(kind)[1] if kind.startswith("Dict[") else item_of(kind)

    def _Slice(self, node: ast.Slice) -> Typed:
        return Typed(self._key(node))

    def _ListComp(self, node: ast.ListComp) -> Typed:
        if len(node.generators) != 1 or node.generators[0].is_async:
            raise NotSupportedError(self.source.location(node), "Only a single generator is currently supported")
        generator = node.generators[0]
        was = dict(self.names)
        try:
            unrolled = self.unrolled(generator.iter)
            if unrolled is not None and not generator.ifs:
                parts = []
                for item in unrolled:
                    self.bind(generator.target, item)
                    parts.append(self.value(node.elt))
                return Typed(f"[{', '.join(part.text for part in parts)}]", f"List[{parts[0].kind}]" if parts and parts[0].kind else None)
            if generator.ifs:
                raise NotSupportedError(self.source.location(node), "Comprehension ifs are not supported yet")
            source = self.value(generator.iter)
            target = self.bind(generator.target, Typed("", self.kind_of_items(generator.iter, source)))
            element = self.value(node.elt)
            target = f"({target})" if target.endswith(",") else target
            return Typed(f"[{element.text} for {target} in {source.text}]", f"List[{element.kind}]" if element.kind else None)
        finally:
            self.names = was

    def _GeneratorExp(self, node: Any) -> Typed:
        return self._ListComp(node)

    def _DictComp(self, node: ast.DictComp) -> Typed:
        generator = node.generators[0]
        if len(node.generators) != 1 or generator.ifs:
            raise NotSupportedError(self.source.location(node), "Only a single generator without conditions is currently supported")
        was = dict(self.names)
        source = self.value(generator.iter)
        target = self.bind(generator.target, Typed("", self.kind_of_items(generator.iter, source)))
        target = f"({target})" if target.endswith(",") else target
        text = f"{{{self.value(node.key).text}: {self.value(node.value).text} for {target} in {source.text}}}"
        self.names = was
        return Typed(text)

    def kind_of_items(self, node: Any, source: Typed) -> str | None:
        """The type of what a loop goes through."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            return "int"
        if source.kind in ("Tensor", "str"):
            return source.kind
        if source.kind is not None and source.kind.startswith("Dict["):
            return parts_of(source.kind)[0]
        return item_of(source.kind)

    def bind(self, target: Any, value: Typed) -> str:
        """Give names to what is assigned, and return their text."""
        if isinstance(target, ast.Name):
            self.missing.pop(target.id, None)
            self.names[target.id] = value if value.is_static else Typed(target.id, value.kind)
            return target.id
        if isinstance(target, (ast.Tuple, ast.List)):
            items = zip(target.elts, self._spread(value, len(target.elts)), strict=True)
            texts = [self.bind(part, item) for part, item in items]
            return ", ".join([f"({text})" if text.endswith(",") else text for text in texts]) + ","
        raise NotSupportedError(self.source.location(target), "unsupported assignment target")

    def _spread(self, value: Typed, count: int) -> list[Typed]:
        if value.is_static and isinstance(value.static, (tuple, list)):
            return [item if isinstance(item, Typed) else self.static(item) for item in value.static]
        if value.kind is not None and value.kind.startswith("Tuple["):
            kinds = parts_of(value.kind)
            if len(kinds) == count:
                return [Typed("", kind) for kind in kinds]
        return [Typed("", item_of(value.kind) or ("Tensor" if value.kind == "Tensor" else None))] * count

    # -- attributes -------------------------------------------------------------------------------------------------------------------
    def _Attribute(self, node: ast.Attribute) -> Typed:
        base = self.expression(node.value)
        if isinstance(base.static, Module):
            return self.program.member(base, node.attr, self, node)
        if base.is_static and base.static is not None and not isinstance(base.static, (int, float, str, Tensor, tuple)):
            return self._of_static(base.static, node)
        if base.kind == "Tensor":
            return self._of_tensor(base, node)
        if f"{base.kind}.{node.attr}" in self.program.properties:
            name = getter_name(node.attr)
            return Typed(f"({base.text}).{name}()", self.program.kind_of_method(base.kind, name))
        return Typed(f"({base.text}).{node.attr}", self.program.kind_of_field(base.kind, node.attr))

    def _of_static(self, owner: Any, node: ast.Attribute) -> Typed:
        if not hasattr(owner, node.attr):
            raise self.source.error(f"object has no attribute {node.attr}", node)
        value = getattr(owner, node.attr)
        if is_enum(owner):
            return Typed(f"{self.program.class_name(owner)}.{node.attr}", self.program.class_name(owner))
        return self.static(value)

    def _of_tensor(self, base: Typed, node: ast.Attribute) -> Typed:
        name = node.attr
        if name in _PROPERTIES or name in _OTHER_PROPERTIES:
            return Typed(f"{base.text}.{name}", _PROPERTIES.get(name))
        if not hasattr(Tensor, name):
            raise self.source.error(f"'Tensor (inferred)' object has no attribute or method '{name}'.", node)
        return Typed(f"({base.text}).{name}", None)

    # -- calls --------------------------------------------------------------------------------------------------------------------------
    def _Call(self, node: ast.Call) -> Typed:
        if any(keyword.arg is None for keyword in node.keywords):
            raise NotSupportedError(self.source.location(node), "keyword-arg expansion is not supported")
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return Typed("", None, self.program.super_of(self))
        function = self.expression(node.func)
        if function.is_static:
            return self.program.call(self, function, node)
        args = self.arguments(node)
        if isinstance(node.func, ast.Attribute):
            kind, cast = self._kind_of_method(node), f".{node.func.attr}"
            if node.keywords and self.expression(node.func.value).kind == "str":
                word = node.keywords[0].arg
                raise self.source.error(f"\naten::{node.func.attr}(str self, ...) -> str:\nKeyword argument {word} unknown.\n", node)
            if cast in _CASTS and not args and function.text.endswith(cast) and self.expression(node.func.value).kind == "Tensor":
                return Typed(f"{function.text.removesuffix(cast)}.to({_CASTS[cast]})", "Tensor")
            return Typed(f"{function.text}({args})", kind)
        return Typed(f"{function.text}({args})")

    def arguments(self, node: ast.Call) -> str:
        """The arguments of a call."""
        parts = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                parts += [item.text for item in self._starred(argument)]
            else:
                parts.append(self.value(argument).text)
        return ", ".join([*parts, *[f"{keyword.arg}={self.value(keyword.value).text}" for keyword in node.keywords]])

    def _starred(self, node: ast.Starred) -> list[Typed]:
        value = self.expression(node.value)
        if value.is_static and isinstance(value.static, (tuple, list)):
            return [self.static(item) for item in value.static]
        if value.kind is not None and value.kind.startswith("Tuple["):
            return [Typed(f"{value.text}[{k}]", kind) for k, kind in enumerate(parts_of(value.kind))]
        shown = "Tensor (inferred)" if value.kind == "Tensor" else value.kind or "value"
        raise self.source.error(f"{shown} cannot be used as a tuple", node)

    def _kind_of_method(self, node: ast.Call) -> str | None:
        assert isinstance(node.func, ast.Attribute)
        owner, name = self.expression(node.func.value), node.func.attr
        if owner.kind == "Tensor":
            if name == "size":
                return "int" if node.args else "List[int]"
            return result_kind(name, node)
        if owner.kind == "str":
            return "str" if name in _OF_TEXTS else None
        if owner.kind is not None and owner.kind.startswith("Dict["):
            key, item = parts_of(owner.kind)
            found = {"keys": f"List[{key}]", "values": f"List[{item}]", "items": f"List[Tuple[{key}, {item}]]", "pop": item}
            return found.get(name)
        if name == "append" and owner.kind is not None and owner.kind.startswith("List[") and node.args:
            self._check_append(owner.kind, node)
        if name == "pop":
            return item_of(owner.kind)
        return None if owner.kind is None else self.program.kind_of_method(owner.kind, name)

    def _check_append(self, kind: str, node: Any) -> None:
        item, wanted = self.value(node.args[0]).kind, item_of(kind)
        if item is not None and item != wanted and wanted in ("Tensor", "int", "float", "str", "bool") and "[" not in item:
            raise self.source.error(
                f"\naten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!):\nCould not match type {item} to t in argument 'el': Type "
                f"variable 't' previously matched to type {wanted} is matched to type {item}.\n",
                node,
            )

    # -- for subclasses -------------------------------------------------------------------------------------------------------------------
    def unrolled(self, node: Any) -> list[Typed] | None:
        """The items of a loop that is static."""
        raise NotImplementedError

    def type_of_node(self, node: Any) -> str:
        """The type that an expression names.

        Raises:
            RuntimeError: none that TorchScript has.
        """
        try:
            value = eval(compile(ast.Expression(node), self.source.filename, "eval"), dict(self.scope))  # as Python itself would
            return type_text(value, self.program.class_name)
        except UnknownType as error:
            raise self.source.error(f"Unknown type name '{error}'", node) from None
        except Exception:
            raise self.source.error(f"Unknown type name '{ast.unparse(node)}'", node) from None


def _kind_of_operation(left: str | None, right: str | None, sign: str) -> str | None:
    if "Tensor" in (left, right):
        return "Tensor"
    numbers = ("int", "float")
    if left in numbers and right in numbers:
        return "float" if sign in ("/", "**") or "float" in (left, right) else "int"
    if left == "str" and sign in "%*+":
        return "str"
    return left if left == right or sign == "*" else None


def result_kind(name: str, node: ast.Call | None = None) -> str | None:
    """The type of an operator's result, where all of its overloads have the same."""
    packet = getattr(_operations.aten, name, None)
    if packet is None or not hasattr(packet, "overloads"):
        return None
    kinds = set()
    for overload in packet.overloads():
        schema = getattr(packet, overload)._schema
        if not any(argument.is_out for argument in schema.arguments):
            kinds.add(tuple([result.real_type.text().partition("(")[0] for result in schema.returns]))
    if len(kinds) != 1:
        return None
    found = kinds.pop()
    names = [_SCHEMA_KINDS.get(kind) for kind in found]
    if None in names or not names:
        return None
    return names[0] if len(names) == 1 else f"Tuple[{', '.join(map(str, names))}]"


_SCHEMA_KINDS = {"Tensor": "Tensor", "Tensor[]": "List[Tensor]", "int": "int", "float": "float", "bool": "bool", "str": "str"}
_COMPARED: dict[type, Any] = {
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b, ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
    ast.Is: lambda a, b: a is b or (isinstance(a, dtype) and a == b), ast.IsNot: lambda a, b: a is not b,
}  # fmt: skip
_FOLDED: dict[str, Any] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "**": operator.pow,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "@": operator.matmul,
}  # fmt: skip
