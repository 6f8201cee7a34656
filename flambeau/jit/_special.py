"""Functions with a meaning of their own in scripted programs: Python's, those of ``torch.jit``, and of ``math``."""

from __future__ import annotations

import ast
import builtins
import collections
import math
import typing
import warnings
from collections.abc import Callable
from typing import Any

from ..autograd.api import grad
from ..core.checks import _assert
from ..core.device import device
from ..core.tensor import Tensor
from ..nn import Module
from . import _async, _state
from ._expressions import Expressions, Typed, item_of, parts_of

TABLE: dict[Any, Callable[[Any, Expressions, ast.Call], Typed]] = {}  # by the function


def special(*functions: Any) -> Callable[[Any], Any]:
    """Decorator for how calls of some functions are compiled."""

    def register(handler: Any) -> Any:
        TABLE.update(dict.fromkeys(functions, handler))
        return handler

    return register


# -- Python's --------------------------------------------------------------------------------------------------------------------------
_RESULTS = {
    "len": "int",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "ord": "int",
    "chr": "str",
    "hex": "str",
    "print": "NoneType",
}


def _builtin(name: str) -> Callable[[Any, Expressions, ast.Call], Typed]:
    def handler(program: Any, context: Expressions, node: ast.Call) -> Typed:
        values = [context.expression(argument) for argument in node.args if not isinstance(argument, ast.Starred)]
        _check_builtin(context, name, node)
        if name == "len" and values and values[0].is_static and isinstance(values[0].static, (tuple, list, dict, str, Module)):
            return context.static(len(values[0].static))
        if name in ("int", "float", "bool", "str") and values and values[0].is_static and isinstance(values[0].static, (int, float, str)):
            return context.static(getattr(builtins, name)(values[0].static))
        kind = _RESULTS.get(name) or _kind_of_builtin(name, values)
        return Typed(f"{name}({context.arguments(node)})", kind)

    return handler


def _check_builtin(context: Expressions, name: str, node: ast.Call) -> None:
    """Refuse what an archive's compiler has no counterpart for."""
    if name == "print" and node.keywords:
        raise context.source.error("print doesn't accept any keyword arguments", node)
    if name == "reversed":
        raise context.source.error(f"Python builtin {reversed!r} is currently not supported in Torchscript", node)
    if name == "round" and len(node.args) + len(node.keywords) > 1:
        raise context.source.error(
            "Arguments for call are not valid.\nThe following variants are available:\n  \n  aten::round.float(float a) -> float:\n  "
            "Expected at most 1 arguments but found 2 positional arguments.\n  \nThe original call is",
            node,
        )


def _kind_of_builtin(name: str, values: list[Typed]) -> str | None:
    kinds = {value.kind for value in values}
    if name == "range":
        return "List[int]"
    if name in ("abs", "max", "min", "sorted", "list") and len(kinds) == 1:
        kind = kinds.pop()
        return item_of(kind) if name in ("max", "min") and len(values) == 1 and kind is not None and kind.startswith("List[") else kind
    return None


for _name in (
    "abs all any bin bool chr complex divmod enumerate float hex int len list max min oct ord print range reversed round sorted str "
    "sum tuple zip"
).split():
    TABLE[getattr(builtins, _name)] = _builtin(_name)


@special(builtins.dict, collections.OrderedDict)
def _dict(program: Any, context: Expressions, node: ast.Call) -> Typed:
    """Keywords are the keys; nothing at all is a dict of tensors, as an empty literal is."""
    if not node.args and all(keyword.arg is not None for keyword in node.keywords):
        if not node.keywords:
            return Typed("{}", "Dict[str, Tensor]")
        keys: list[Any] = [ast.copy_location(ast.Constant(keyword.arg), node) for keyword in node.keywords]
        return context.expression(ast.copy_location(ast.Dict(keys, [keyword.value for keyword in node.keywords]), node))
    kind = context.value(node.args[0]).kind if node.args else None
    if kind is not None and kind.startswith("List[Tuple["):
        kind = f"Dict[{', '.join(parts_of(kind[5:-1]))}]"
    return Typed(f"dict({context.arguments(node)})", kind)


@special(grad)
def _grad(program: Any, context: Expressions, node: ast.Call) -> Typed:
    return Typed(f"torch.grad({context.arguments(node)})", "List[Optional[Tensor]]")


@special(builtins.isinstance)
def _isinstance(program: Any, context: Expressions, node: ast.Call) -> Typed:
    value = context.expression(node.args[0])
    if value.is_static and not isinstance(value.static, Tensor):
        kinds = context.expression(node.args[1]).static
        kinds = tuple([kind.static if isinstance(kind, Typed) else kind for kind in kinds]) if isinstance(kinds, tuple) else kinds
        return context.static(isinstance(value.static, kinds))
    kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
    bare = {"list": "list", "tuple": "tuple", "dict": "dict"}
    texts = [bare.get(ast.unparse(kind)) or context.type_of_node(kind) for kind in kinds]
    if value.kind in ("Tensor", "int", "float", "bool", "str") and all("[" not in text for text in texts):
        return context.static(value.kind in texts)
    return Typed(f"isinstance({value.text}, {texts[0] if len(texts) == 1 else '(' + ', '.join(texts) + ')'})", "bool")


@special(builtins.getattr)
def _getattr(program: Any, context: Expressions, node: ast.Call) -> Typed:
    name = context.expression(node.args[1])
    if not isinstance(name.static, str):
        raise context.source.error("getattr's second argument must be a string literal", node)
    read = ast.copy_location(ast.Attribute(node.args[0], name.static, ast.Load()), node)
    if len(node.args) == 3 and not _has(context, node.args[0], name.static):
        return context.expression(node.args[2])
    return context.expression(read)


def _has(context: Expressions, owner: Any, name: str) -> bool:
    value = context.expression(owner)
    if value.is_static:
        return hasattr(value.static, name)
    return value.kind == "Tensor" and hasattr(Tensor, name)


@special(builtins.hasattr)
def _hasattr(program: Any, context: Expressions, node: ast.Call) -> Typed:
    name = context.expression(node.args[1])
    return context.static(_has(context, node.args[0], name.static))


@special(typing.cast)
def _cast(program: Any, context: Expressions, node: ast.Call) -> Typed:
    value = context.value(node.args[1])
    return Typed(value.text, context.type_of_node(node.args[0]))


@special(warnings.warn)
def _warn(program: Any, context: Expressions, node: ast.Call) -> Typed:
    return Typed(f"torch.warn({context.value(node.args[0]).text}, 2)", "NoneType")


@special(_assert)
def _asserted(program: Any, context: Expressions, node: ast.Call) -> Typed:
    message = node.args[1] if len(node.args) > 1 else None
    context.statement(ast.copy_location(ast.Assert(node.args[0], message), node))  # type: ignore[attr-defined]
    return Typed("None", "NoneType", None)


# -- torch.jit's ----------------------------------------------------------------------------------------------------------------------
@special(_state.is_scripting)
def _is_scripting(program: Any, context: Expressions, node: ast.Call) -> Typed:
    return context.static(True)


@special(_state.is_tracing)
def _is_tracing(program: Any, context: Expressions, node: ast.Call) -> Typed:
    return context.static(False)


@special(_async.fork)
def _fork(program: Any, context: Expressions, node: ast.Call) -> Typed:
    inner = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
    called = context.expression(inner)
    name = f"forked_{len(context.lines)}"  # type: ignore[attr-defined]
    context.emit(f"def {name}():")  # type: ignore[attr-defined]
    context.emit(f"  return {called.text}")  # type: ignore[attr-defined]
    return Typed(f"fork({name})", f"Future[{called.kind}]" if called.kind else None)


@special(_async.wait)
def _wait(program: Any, context: Expressions, node: ast.Call) -> Typed:
    future = context.value(node.args[0])
    kind = parts_of(future.kind)[0] if future.kind is not None and future.kind.startswith("Future[") else None
    return Typed(f"torch.wait({future.text})", kind)


# -- others ---------------------------------------------------------------------------------------------------------------------------
@special(device)
def _device(program: Any, context: Expressions, node: ast.Call) -> Typed:
    return Typed(f"torch.device({context.arguments(node)})", "Device")


def _always(value: bool) -> Callable[[Any, Expressions, ast.Call], Typed]:
    return lambda program, context, node: context.static(value)


def _mathematical(name: str, kind: str) -> Callable[[Any, Expressions, ast.Call], Typed]:
    def handler(program: Any, context: Expressions, node: ast.Call) -> Typed:
        values = [context.value(argument) for argument in node.args]
        if all(value.is_static for value in values):
            return context.static(getattr(math, name)(*[value.static for value in values]))
        return Typed(f"torch.{name}({', '.join([value.text for value in values])})", kind)

    return handler


for _name in (
    "acos acosh asin asinh atan atan2 atanh copysign cos cosh degrees erf erfc exp expm1 fabs fmod gamma ldexp lgamma log log10 log1p pow "
    "radians sin sinh sqrt tan tanh"
).split():
    TABLE[getattr(math, _name)] = _mathematical(_name, "float")
for _name, _kind in (
    ("ceil", "int"),
    ("floor", "int"),
    ("factorial", "int"),
    ("gcd", "int"),
    ("isnan", "bool"),
    ("isinf", "bool"),
    ("isfinite", "bool"),
):
    TABLE[getattr(math, _name)] = _mathematical(_name, _kind)


def add_jit_functions(annotate: Any, isinstance_of: Any, unwrap: Any, is_tensor: Any, has_function: list[Any]) -> None:
    """Add functions of ``torch.jit`` and ``torch`` that modules define which import this one."""

    @special(annotate)
    def _annotate(program: Any, context: Expressions, node: ast.Call) -> Typed:
        kind = context.type_of_node(node.args[0])
        return Typed(f"annotate({kind}, {context.value(node.args[1]).text})", kind)

    @special(isinstance_of)
    def _isinstance_of(program: Any, context: Expressions, node: ast.Call) -> Typed:
        return _isinstance(program, context, node)

    @special(unwrap)
    def _unwrap(program: Any, context: Expressions, node: ast.Call) -> Typed:
        value = context.value(node.args[0])
        kind = value.kind[9:-1] if value.kind is not None and value.kind.startswith("Optional[") else value.kind
        return Typed(f"torch._unwrap_optional({value.text})", kind)

    @special(is_tensor)
    def _is_tensor(program: Any, context: Expressions, node: ast.Call) -> Typed:
        value = context.value(node.args[0])
        return context.static(True) if value.kind == "Tensor" else Typed(f"isinstance({value.text}, Tensor)", "bool")

    for function in has_function:
        TABLE[function] = _always(False)
