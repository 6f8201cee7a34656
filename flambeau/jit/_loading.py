"""The guard of ``__setstate__``, which runs while an archive is loaded: it hands values on, and neither loops, computes nor calls.

What it may write is less than what ends in time and memory by itself: lists that hold each other grow with each line, and so would the time
to compare, show or hash them; a tensor of few bytes may have any shape.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from ..core.device import device
from ..core.tensor import Tensor
from . import _members
from ._source import Guard, annotated, damaged, path_of
from ._values import raised

_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.If, ast.Return, ast.Expr, ast.Pass, ast.Assert, ast.Raise)
_EXPRESSIONS = (
    ast.Constant, ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.Tuple, ast.Dict, ast.IfExp, ast.BoolOp,
)  # fmt: skip
_PLAIN = (int, float, str, type(None))


def _of_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers and texts alone."""

    def run(*values: Any) -> Any:
        if not all(type(value) is bool or type(value) in _PLAIN for value in values):
            raise RuntimeError("torch.jit.load: a value that is neither a number nor a text is computed with while the archive is loaded")
        return function(*values)

    return run


def _raise(message: str, *rest: Any) -> Any:
    raise raised(message, *rest[:1])


def _item(items: Any, key: Any) -> Any:
    if not isinstance(items, (list, tuple, dict, str)) or type(key) not in _PLAIN:
        raise RuntimeError("torch.jit.load: an item of no list, tuple, dict or text is asked for while the archive is loaded")
    return items[key]


def _listed(items: Any) -> Any:
    if not isinstance(items, (list, tuple)):
        raise RuntimeError("torch.jit.load: something other than a list or tuple is unpacked while the archive is loaded")
    return items


def _attribute(value: Any, name: str) -> Any:
    if isinstance(value, Tensor):
        raise RuntimeError("torch.jit.load: a tensor's attribute is asked for while the archive is loaded")
    return _members.attribute(value, name)


_OPERATORS: dict[tuple[str, str], Callable[..., Any]] = {
    **{("aten", name): _of_plain(getattr(operator, name)) for name in "eq ne lt gt le ge".split()},
    ("aten", "Int"): _of_plain(int),
    ("aten", "device"): _of_plain(device),
    ("aten", "__getitem__"): _item,
    ("prim", "TupleIndex"): _item,
    ("aten", "__is__"): operator.is_,
    ("aten", "__isnot__"): operator.is_not,
    ("aten", "__not__"): operator.not_,
    ("aten", "len"): len,
    ("prim", "RaiseException"): _of_plain(_raise),
    ("prim", "unchecked_cast"): lambda value: value,
}


class LoadingGuard(Guard):
    """Builds the guarded tree of a ``__setstate__``.

    Args:
        name, find, constants: as of ``Guard``.
    """

    def __init__(self, name: str, find: Any, constants: list[Any]) -> None:
        super().__init__(name, find, constants)
        self.scope.update({"@attribute": _attribute, "@item": _item, "@listed": _listed})

    def _refused(self, what: str) -> RuntimeError:
        return damaged(self.name, f"{what} in a function that runs while the archive is loaded")

    def statement(self, node: ast.stmt) -> ast.stmt:
        """A statement, guarded."""
        if not isinstance(node, _STATEMENTS):
            raise self._refused(f"a statement of type {type(node).__name__}")
        return super().statement(node)

    def _assignment(self, target: ast.expr, value: ast.expr) -> ast.stmt:
        if isinstance(target, (ast.Tuple, ast.List)):
            if not all(isinstance(part, ast.Name) for part in target.elts):
                raise self._refused("an assignment to anything but names")
            value = ast.Call(ast.Name("@listed", ast.Load()), [value], [])
        elif not isinstance(target, (ast.Name, ast.Attribute)):
            raise self._refused("an assignment to anything but names")
        return super()._assignment(target, value)

    def expression(self, node: ast.expr) -> Any:
        """An expression, guarded."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return super().expression(node)
        if not isinstance(node, _EXPRESSIONS):
            raise self._refused(f"an expression of type {type(node).__name__}")
        if isinstance(node, ast.Subscript):
            return ast.Call(ast.Name("@item", ast.Load()), [self.expression(node.value), self.expression(node.slice)], [])
        if isinstance(node, ast.Dict) and not all(isinstance(key, ast.Constant) for key in node.keys):
            raise self._refused("a dict whose keys are no constants")
        return super().expression(node)

    def _name(self, name: str) -> ast.expr:
        if self._is_local(name) or name in ("inf", "nan", "infj", "nanj"):
            return super()._name(name)
        raise self._refused(f"the name {name:.100}")

    def _called(self, node: ast.expr) -> Any:
        path = path_of(node)
        if path is None or path[0] not in ("torch", "ops") or self._is_local(path[0]):
            raise self._refused("a call of anything but an operator")
        return super()._called(node)

    def _operator(self, namespace: str, name: str) -> ast.expr:
        function = _OPERATORS.get((namespace, name))
        if function is None:
            raise self._refused(f"{namespace:.100}::{name:.100}")
        return self._known(f"{namespace}.{name}", function)

    def _special(self, word: str, node: ast.Call) -> ast.expr | None:
        if word == "isinstance" and len(node.args) == 2:
            annotated(node.args[1], self.name)
            if any(isinstance(part, ast.Subscript) for part in ast.walk(node.args[1])):
                raise self._refused("isinstance with a type that has parameters")
        return super()._special(word, node)
