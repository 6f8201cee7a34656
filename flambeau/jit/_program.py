"""Calls of scripted functions and modules: other functions, methods, submodules, operators, each compiled once.

function      a function of the program -> a definition of the unit
library       a function of ``torch.nn.functional`` -> its text in ``library.txt``
operator      any other of flambeau's functions -> PyTorch's operator of that name
call          who is called, and by which of these ways
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import types
from pathlib import Path
from typing import Any

from .. import ops as _operations
from ..core.calls.registry import TABLES
from ..nn import Module
from . import _operators, _special
from ._annotations import UnknownType, arguments_of, hints, is_named_tuple, type_text
from ._expressions import Expressions, Typed, item_of, result_kind
from ._literals import literal
from ._modules import ScriptFunction
from ._statements import UNREACHED, Statements
from ._unit import PYTHON, Unit
from .frontend import Source, closure_of

SELF = "__SELF__"
_SPACES = {"torch": "", "nn.functional": "", "Tensor": "", "linalg": "linalg_", "fft": "fft_", "special": "special_"}


class Signature:
    """Parameters and result of a compiled function.

    Attributes:
        parameters: names with types and defaults' texts (None without). returns: the result's type, None where it is not known.
        named: how many parameters, the last ones, are passed by name only.
    """

    def __init__(self, parameters: list[tuple[str, str, str | None]], returns: str | None, named: int = 0) -> None:
        self.parameters, self.returns, self.named = parameters, returns, named

    def text(self, self_type: str = "") -> str:
        """As a definition writes it."""
        parts = [f"self: {self_type}"] if self_type else []
        parts += [f"{name}: {kind}" + ("" if default is None else f"={default}") for name, kind, default in self.parameters]
        if self.named:
            parts.insert(len(parts) - self.named, "*")
        return ",\n      ".join(parts)

    def shown(self) -> str:
        """The parameters as an error shows them."""
        return ", ".join([f"{kind} {name}" for name, kind, _ in self.parameters])


class Method:
    """A method of a module, with the text of the module."""

    def __init__(self, base: Typed, name: str, function: Any) -> None:
        self.base, self.name, self.function = base, name, function


class Program:
    """Compiles functions into one unit.

    Attributes:
        unit: the definitions. signatures: of functions by qualified name.
    """

    def __init__(self, unit: Unit | None = None) -> None:
        self.unit = unit or Unit()
        self.signatures: dict[str, Signature] = {}
        self._names: dict[int, str] = {}
        self._defining: list[type] = []  # classes
        self.properties: set[str] = set()  # of classes, with their qualified names
        self._kept: list[Any] = []
        self._open: list[Any] = []  # functions that are being compiled

    # -- functions ------------------------------------------------------------------------------------------------------------
    def function(self, function: Any, name: str | None = None) -> str:
        """Compile a function of the program; its qualified name."""
        function = inspect.unwrap(function)
        if id(function) in self._names:
            return self._names[id(function)]
        if function in self._open:
            raise RuntimeError(f"function '{function.__name__}' is called recursively. Recursive calls are not supported")
        self._open.append(function)
        try:
            chosen = self.unit.free_name(name or qualified_name(function))
            last = chosen.rpartition(".")[2]
            signature, lines = self.compiled(function)
        finally:
            self._open.pop()
        returns = f" -> {signature.returns}" if signature.returns else ""
        self.unit.add(chosen, f"def {last}({signature.text()}){returns}:\n" + "\n".join(lines) + "\n")
        self.signatures[chosen] = signature
        self._kept.append(function)
        return self._names.setdefault(id(function), chosen)

    def compiled(self, function: Any, owner: Any = None, names: dict[str, Typed] | None = None) -> tuple[Signature, list[str]]:
        """Signature and body of a function or method, whose ``self`` is in ``names``."""
        source = Source(function)
        modifier = getattr(function, "_torchscript_modifier", "")
        parameters, returns = self.parameters(function, source, skip=len(names or ()))
        if modifier.startswith("unused"):
            lines = ['  ops.prim.RaiseException("This Python method is annotated to be ignored and cannot be run")']
            return Signature(parameters, returns or "Tensor"), [*lines, f"  return uninitialized({returns or 'Tensor'})"]
        if not (function.__module__ or "").startswith(_PACKAGE):  # ours may have other syntax where static conditions leave it out
            source.check()
        known = {**(names or {}), **{name: Typed(name, kind) for name, kind, _ in parameters}}
        scope = self.scope_of(function)
        statements = Statements(self, source, scope, known, returns)
        statements.owner = owner  # type: ignore[attr-defined]
        statements.function = function  # type: ignore[attr-defined]
        ended = statements.body(source.tree.body)
        if not ended and (statements.found - {"NoneType"} if returns is None else returns != "NoneType"):
            raise source.error("Function was not annotated as having type None, but does not return along all paths", source.tree)
        if not ended and statements.found:
            statements.found.add("NoneType")
        if returns is None:
            kinds = list(statements.found or {"NoneType"})
            returns = kinds[0] if len(kinds) == 1 else None
        lines = _with_results(statements.lines, returns if statements.found else None)
        return Signature(parameters, returns, len(source.tree.args.kwonlyargs)), lines

    def parameters(self, function: Any, source: Source, skip: int = 0) -> tuple[list[tuple[str, str, str | None]], str | None]:
        """Names, types and defaults of a function's parameters, and the annotated type of its result."""
        scope = self.scope_of(function)
        try:
            known = hints(function, scope)
        except UnknownType as error:
            raise source.error(f"Unknown type name '{error}'", source.tree.args) from None
        commented = _type_comment(source, scope)
        ours = (function.__module__ or "").startswith(_PACKAGE)
        found = []
        for place, parameter in enumerate(arguments_of(function)[skip:]):
            annotation = known.get(parameter.name, commented[0][place] if commented and place < len(commented[0]) else None)
            # the library's own annotations leave open what its layers and models take
            is_open = annotation is None or (annotation is Any and ours)
            kind = "Tensor" if is_open else self.type_of(annotation, source, source.tree)
            if is_open and not ours and isinstance(parameter.default, (int, float, str)):
                raise RuntimeError(
                    f'Expected a default value of type Tensor (inferred) on parameter "{parameter.name}".Because "{parameter.name}" was '
                    f"not annotated with an explicit type it is assumed to be type 'Tensor'.\n{source.location(source.tree)}"
                )
            if isinstance(parameter.default, (list, dict, set)) and not ours:
                raise RuntimeError(
                    "Mutable default parameters are not supported because Python binds them to the function and they persist across "
                    "function calls.\n As a workaround, make the default None and instantiate the default parameter within the body of "
                    f"the function. Found {type(parameter.default)} on parameter {parameter.name}."
                )
            default = None if parameter.default is parameter.empty else literal(parameter.default)
            if parameter.default is not parameter.empty and default is None:
                raise source.error(f"the default of '{parameter.name}' has no place in TorchScript", source.tree)
            found.append((parameter.name, kind, default))
        result = known.get("return", inspect.Parameter.empty if "return" not in known else None)
        if commented and result is inspect.Parameter.empty:
            result = commented[1]
        is_open = result is inspect.Parameter.empty or (result is Any and ours)
        return found, None if is_open else self.type_of(result, source, source.tree)

    def scope_of(self, function: Any) -> dict[str, Any]:
        """Names that a function sees, those of classes that are being compiled among them: they are not assigned yet."""
        return {**closure_of(function), **{cls.__name__: cls for cls in self._defining}}

    def type_of(self, annotation: Any, source: Source, node: Any) -> str:
        """The type of an annotation."""
        try:
            return type_text(annotation, self.class_name)
        except UnknownType as error:
            raise source.error(f"Unknown type name '{error}'", node) from None

    # -- classes --------------------------------------------------------------------------------------------------------------
    def class_name(self, cls: type) -> str:
        """Compile a class of the program: a tuple with names, an enumeration, or a class with methods; its qualified name.

        Raises:
            UnknownType: it is none of these.
        """
        if id(cls) in self._names:
            return self._names[id(cls)]
        ours = cls.__module__.startswith(_PACKAGE) and not is_named_tuple(cls)
        if cls.__module__ == "builtins" or issubclass(cls, Module) or ours:
            raise UnknownType(cls.__name__)
        from . import _classes

        name = self.unit.free_name(qualified_name(cls))
        self._kept.append(cls)
        self._names[id(cls)] = name
        self._defining.append(cls)
        try:
            _classes.define(self, cls, name)
        except BaseException:
            del self._names[id(cls)]
            raise
        finally:
            self._defining.remove(cls)
        return name

    def declare(self, name: str, parameters: list[tuple[str, str, str | None]], returns: str) -> None:
        """Note the signature of what is called by a name."""
        self.signatures[name] = Signature(parameters, returns)

    def kind_of_field(self, kind: str | None, name: str) -> str | None:
        """The type of an attribute of an object of a class."""
        if kind is None or kind not in self.unit.texts:
            return None
        return self.unit.type(kind).fields.get(name)

    def kind_of_method(self, kind: str, name: str) -> str | None:
        """The type of what a method of a class returns."""
        signature = self.signatures.get(f"{kind}.{name}")
        return None if signature is None else signature.returns

    # -- members of modules -------------------------------------------------------------------------------------------------------
    def member(self, base: Typed, name: str, context: Expressions, node: Any) -> Typed:
        """An attribute of a module."""
        raise context.source.error("modules cannot be used in a scripted function; pass their results", node)

    def has_attribute(self, module: Any, name: str) -> bool:
        """Whether a module has an attribute that may be set."""
        return False

    def super_of(self, context: Any) -> Any:
        """The meaning of ``super()`` in a method."""
        raise context.source.error("super() is not supported here", context.source.tree)

    def call_module(self, context: Expressions, target: Typed, node: Any) -> Typed:
        """A call of a module."""
        raise context.source.error("modules cannot be called in a scripted function; pass their results", node)

    def call_method(self, context: Expressions, method: Method, node: Any) -> Typed:
        """A call of a method of a module."""
        raise context.source.error("methods of modules cannot be called in a scripted function", node)

    # -- calls ----------------------------------------------------------------------------------------------------------------
    def call(self, context: Expressions, function: Typed, node: ast.Call) -> Typed:
        """A call of something that is known while compiling."""
        target = function.static
        if isinstance(target, Module):
            return self.call_module(context, function, node)
        if isinstance(target, Method):
            return self.call_method(context, target, node)
        if isinstance(target, functools.partial):
            raise context.source.error(f"{type(target).__name__} is not supported in TorchScript", node)
        try:
            special = _special.TABLE.get(target)
        except TypeError:
            special = None
        if special is not None:
            return special(self, context, node)
        if isinstance(target, ScriptFunction):
            name = self.unit.adopt(target._script_unit, target.qualified_name)
            known = signature_of(self.unit, name)
            return Typed(f"{name}({self.arguments(context, node, known)})", known.returns)
        if isinstance(target, type):
            return self._construct(context, target, node)
        operation = operation_of(target)
        if operation is not None:
            return self.operation(context, operation, node)
        return self._user_function(context, target, node)

    def _construct(self, context: Expressions, cls: type, node: ast.Call) -> Typed:
        try:
            name = self.class_name(cls)
        except UnknownType:
            raise context.source.error(f"Python class {cls.__name__} is not supported in TorchScript", node) from None
        signature = self.signatures.get(f"{name}.__init__")
        texts = self.arguments(context, node, signature)
        if is_named_tuple(cls) and signature is not None:
            given = {keyword.arg for keyword in node.keywords} | {parameter for parameter, _, _ in signature.parameters[: len(node.args)]}
            rest = [f"{parameter}={default}" for parameter, _, default in signature.parameters if default and parameter not in given]
            texts = ", ".join([*[texts] * bool(texts), *rest])
        return Typed(f"{name}({texts})", name)

    def _user_function(self, context: Expressions, target: Any, node: ast.Call) -> Typed:
        modifier = getattr(target, "_torchscript_modifier", "")
        if modifier.startswith("ignore"):
            return self.ignored(context, target, node)
        if not isinstance(inspect.unwrap(target), types.FunctionType):
            raise context.source.error(f"Python builtin {target!r} is currently not supported in Torchscript", node)
        name = self.function(target)
        signature = self.signatures[name]
        shown = f"{name.rpartition('.')[2]}({signature.shown()}) -> {signature.returns or 'Tensor'}"
        return Typed(f"{name}({self.arguments(context, node, signature, shown)})", signature.returns)

    def ignored(self, context: Expressions, target: Any, node: ast.Call) -> Typed:
        """A call that stays Python: an archive cannot have it."""
        try:
            annotation = hints(target, closure_of(target)).get("return", inspect.Parameter.empty)
            kind = "Tensor" if annotation is inspect.Parameter.empty else type_text(annotation, self.class_name)
        except UnknownType:
            kind = None
        return Typed(f"{PYTHON}.{target.__name__}({context.arguments(node)})", kind)

    # -- operators ----------------------------------------------------------------------------------------------------------------
    def operation(self, context: Expressions, operation: Any, node: ast.Call) -> Typed:
        """A call of one of flambeau's functions."""
        name = library_name(operation)
        if name is not None:
            if self._is_asked(context, operation, node, "return_indices") and f"{name}_with_indices" in library():
                name = f"{name}_with_indices"
            name = self.add_library(name)
            signature = self.signatures[name]
            return Typed(f"{name}({self.arguments(context, node, signature)})", signature.returns)
        word = _SPACES.get(operation.namespace, "") + operation.name
        packet = getattr(_operations.aten, word, None)
        known = packet is not None and hasattr(packet, "overloads") and packet.overloads()
        if known:
            self._check_texts(context, packet, node)
        if not known and not _operators.is_method(word):
            raise context.source.error(f"Python builtin {operation.name} is currently not supported in Torchscript", node)
        texts = None
        if operation.namespace == "nn.functional" and not any(isinstance(argument, ast.Starred) for argument in node.args):
            texts = self._by_names(context, operation, packet, node)
        return Typed(f"torch.{word}({self._operands(context, packet, node) if texts is None else texts})", result_kind(word))

    def _check_texts(self, context: Expressions, packet: Any, node: ast.Call) -> None:
        """Refuse a string for an argument that is one in no overload."""
        schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
        for place, argument in enumerate(node.args):
            if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                continue
            kinds = {schema.arguments[place].real_type.text().rstrip("?") for schema in schemas if place < len(schema.arguments)}
            if kinds and all(
                kind.partition("(")[0].rstrip("[]") in ("Tensor", "Scalar", "int", "float", "SymInt", "bool") for kind in kinds
            ):
                schema = next(schema for schema in schemas if place < len(schema.arguments))
                wanted = schema.arguments[place]
                raise context.source.error(
                    f"Arguments for call are not valid.\nThe following variants are available:\n  \n  {schema}:\n  Expected a value of "
                    f"type '{wanted.real_type}' for argument '{wanted.name}' but instead found type 'str'.\n  \nThe original call is",
                    node,
                )

    def _is_asked(self, context: Expressions, operation: Any, node: ast.Call, word: str) -> bool:
        """Whether a call gives True for a parameter."""
        names = list(operation.names)
        if word not in names:
            return False
        given = [keyword.value for keyword in node.keywords if keyword.arg == word] or node.args[names.index(word) : names.index(word) + 1]
        return bool(given) and context.expression(given[0]).static is True

    def _by_names(self, context: Expressions, operation: Any, packet: Any, node: ast.Call) -> str | None:
        """The arguments of a call as an overload names them, where its parameters stand in another order; None where they do not fit."""
        names = list(operation.names)
        given = {**dict(zip(names, node.args, strict=False)), **{str(keyword.arg): keyword.value for keyword in node.keywords}}
        values = {name: context.expression(argument) for name, argument in given.items()}
        defaults = {param.name: param.default for param in operation.params}
        for overload in packet.overloads():
            texts = self._named_arguments(getattr(packet, overload)._schema, dict(values), names, defaults)
            if texts is not None:
                return texts
        return None

    def _named_arguments(self, schema: Any, values: dict[str, Typed], names: list[str], defaults: dict[str, Any]) -> str | None:
        texts, skipped = [], False
        for argument in schema.arguments:
            name = argument.name if argument.name in names else names[0] if argument.name == "self" else ""
            value = values.pop(name, None)
            if value is None:
                if not argument.has_default_value():
                    return None
                skipped = True
                continue
            if argument.name == "reduction" and argument.real_type.name == "int":
                value = self._reduction(value)
            text = _as_list(value)
            texts.append(f"{argument.name}={text}" if skipped or argument.kwarg_only else text)
        rest = [name for name, value in values.items() if not value.is_static or value.static != defaults.get(name)]
        return None if rest else ", ".join(texts)

    def _reduction(self, value: Typed) -> Typed:
        """The number of a reduction, which PyTorch's operators take."""
        if value.is_static and value.static in ("none", "mean", "sum"):
            return Typed(str(("none", "mean", "sum").index(value.static)), "int")
        name = self.add_library(f"{_F}reduction_number")
        return Typed(f"{name}({value.text})", "int")

    def _operands(self, context: Expressions, packet: Any, node: ast.Call) -> str:
        schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
        values = [context.value(argument) for argument in node.args if not isinstance(argument, ast.Starred)]
        most = max([len(schema.arguments) for schema in schemas], default=len(values))
        listed = any(schema.positional and schema.positional[0].real_type.name == "List" for schema in schemas)
        texts = [_as_list(value) for value in values]
        texts = _gathered(schemas, values, texts)
        if listed and values and all(value.kind == "int" for value in values):
            texts = [f"[{', '.join(texts)}]"]
        elif len(texts) > most and schemas:
            raise context.source.error(
                f"Arguments for call are not valid.\nThe following variants are available:\n  \n  {schemas[0]}:\n  Expected at most "
                f"{len(schemas[0].positional)} arguments but found {len(values)} positional arguments.\n\nThe original call is",
                node,
            )
        names = {argument.name for schema in schemas for argument in schema.arguments}
        for keyword in node.keywords:
            value = context.value(keyword.value)
            word = "self" if keyword.arg == "input" and "input" not in names and "self" in names else keyword.arg
            text = f"torch.device({value.text})" if word == "device" and value.kind == "str" else _as_list(value)
            if schemas and word not in (*names, "requires_grad"):
                raise context.source.error(
                    f"Arguments for call are not valid.\nThe following variants are available:\n  \n  {schemas[0]}:\n  "
                    f"Keyword argument {word} unknown.\n\nThe original call is",
                    node,
                )
            if word != "requires_grad" or word in names:
                texts.append(f"{word}={text}")
        return ", ".join(texts)

    def add_library(self, name: str) -> str:
        """Put a function of the library into the unit, with what it calls."""
        text = library()[name]
        if name not in self.unit.texts:
            self.unit.add(name, text)
            self.signatures[name] = signature_of(self.unit, name)
            for other in sorted(set(_LIBRARY_PATH.findall(text))):
                if other in library():
                    self.add_library(other)
        elif name not in self.signatures:
            self.signatures[name] = signature_of(self.unit, name)
        return name

    # -- arguments ------------------------------------------------------------------------------------------------------------------
    def arguments(self, context: Expressions, node: ast.Call, signature: Signature | None, shown: str = "") -> str:
        """The arguments of a call of what was compiled, as its parameters want them."""
        if signature is None or any(isinstance(argument, ast.Starred) for argument in node.args):
            return context.arguments(node)
        if len(node.args) > len(signature.parameters):
            raise context.source.error(
                f"\n{shown}: Expected at most {len(signature.parameters)} arguments but found {len(node.args)} positional arguments.\n",
                node,
            )
        texts, given = [], set()
        by_name = {name: kind for name, kind, _ in signature.parameters}
        for argument, (name, kind, _) in zip(node.args, signature.parameters, strict=False):
            texts.append(self.fitted(context, context.expression(argument), kind, name, shown, argument))
            given.add(name)
        for keyword in node.keywords:
            if keyword.arg not in by_name:
                raise context.source.error(f"\n{shown}: Unknown keyword argument '{keyword.arg}'.\n", node)
            value = self.fitted(context, context.expression(keyword.value), by_name[keyword.arg], keyword.arg, shown, keyword.value)
            texts.append(f"{keyword.arg}={value}")
            given.add(keyword.arg)
        missing = [name for name, _, default in signature.parameters if default is None and name not in given]
        if missing:
            raise context.source.error(f"\n{shown}: Argument {missing[0]} not provided.\n", node)
        return ", ".join(texts)

    def fitted(self, context: Expressions, value: Typed, kind: str, name: str, shown: str, node: Any) -> str:
        """The text of an argument for a parameter of a type."""
        inner = kind[9:-1] if kind.startswith("Optional[") else kind
        if inner == "float" and value.is_static and isinstance(value.static, int) and not isinstance(value.static, bool):
            return repr(float(value.static))
        if inner.startswith("List[") and value.is_static and isinstance(value.static, (tuple, list)):
            item = item_of(inner)
            values = [float(part) if item == "float" else part for part in value.static]
            text = literal(values) or value.text
            return f"annotate({inner}, {text})" if not values or inner == "List[Optional[int]]" else text
        if not value.text:
            raise context.source.error(f"Python value of type '{type(value.static).__name__}' cannot be used as a value", node)
        if inner in ("List[int]", "List[float]", "List[Optional[int]]") and value.kind in ("int", "float"):
            text = f"[{value.text if inner != 'List[float]' or value.kind == 'float' else f'float({value.text})'}]"
            return f"annotate({inner}, {text})" if "Optional" in inner else text
        plain = ("Tensor", "int", "float", "bool", "str", "NoneType")
        if value.kind in plain and kind in plain and value.kind != kind:
            wanted = "Tensor (inferred)" if kind == "Tensor" else kind
            hint = (
                f"Inferred '{name}' to be of type 'Tensor' because it was not annotated with an explicit type.\n"
                if kind == "Tensor"
                else ""
            )
            raise context.source.error(
                f"\n{shown}:\nExpected a value of type '{wanted}' for argument '{name}' but instead found type '{value.kind}'.\n{hint}",
                node,
            )
        return value.text


def _gathered(schemas: list[Any], values: list[Typed], texts: list[str]) -> list[str]:
    """Arguments of which the last are tensors one by one, where the operator takes a list of them."""
    for schema in schemas:
        last = len(schema.positional) - 1
        if last >= 0 and schema.positional[last].real_type.text() == "Tensor[]":
            if len(values) > last and all(value.kind == "Tensor" for value in values[last:]):
                return [*texts[:last], f"[{', '.join(texts[last:])}]"]
    return texts


def _with_results(lines: list[str], returns: str | None) -> list[str]:
    """Lines with a result of the function's type after each exception; without one where it returns nothing, or nobody knows what."""
    if returns is None or returns == "NoneType":
        return [line for line in lines if not line.endswith(UNREACHED)]
    return [line.replace(UNREACHED, f"return uninitialized({returns})") if line.endswith(UNREACHED) else line for line in lines]


def _as_list(value: Typed) -> str:
    """The text of an operand: a tuple of numbers stands for a list."""
    if value.is_static and isinstance(value.static, tuple):
        return literal(list(value.static)) or value.text
    if value.kind is not None and value.kind.startswith("Tuple[int") and value.text.startswith("("):
        return f"[{value.text[1:-1].rstrip(',')}]"
    if value.kind is not None and value.kind.startswith("Tuple[Tensor") and value.text.startswith("("):
        return f"[{value.text[1:-1].rstrip(',')}]"
    return value.text


# -- names -------------------------------------------------------------------------------------------------------------------------------
_PACKAGE = __name__.partition(".")[0] + "."


def qualified_name(value: Any) -> str:
    """Name of a function or class in an archive."""
    module = value.__module__ or "__main__"
    parts = [] if module == "__main__" else [part for part in module.split(".") if part.isidentifier()]
    if parts and parts[0] + "." == _PACKAGE:
        parts[0] = "torch"
    return ".".join(["__torch__", *parts, value.__name__.replace("<", "_").replace(">", "_")])


def operation_of(function: Any) -> Any:
    """The declaration of one of flambeau's functions; None for any other."""
    name = getattr(function, "__name__", None)
    if name is None or isinstance(function, type):
        return None
    for table in TABLES.values():
        if table.declared(name) or (function.__module__ or "").startswith(_PACKAGE):
            entry = table.get(name)
            if entry is not None and function in (entry.wrapper, getattr(entry, "public", None), getattr(entry, "inplace_wrapper", None)):
                return entry
    return None


def _type_comment(source: Source, scope: dict[str, Any]) -> tuple[list[Any], Any] | None:
    """Types in a comment of the first lines: ``# type: (Tensor, int) -> Tensor``."""
    match = re.search(r"#\s*type:\s*\((.*)\)\s*->\s*(.+?)\s*(?:#.*)?$", source.text, re.MULTILINE)
    if match is None:
        return None
    import typing

    from ..core.tensor import Tensor

    names = {**vars(typing), "Tensor": Tensor, **scope}
    parts, result = (eval(text, names) for text in (f"({match[1]},)" if match[1].strip() else "()", match[2]))  # as the program's own
    return list(parts), result


# -- the library ------------------------------------------------------------------------------------------------------------------------
_LIBRARY_PATH = re.compile(r"__torch__\.torch\.nn\.functional\.\w+")
_F = "__torch__.torch.nn.functional."


@functools.cache
def _library_text() -> dict[str, dict[str, str]]:
    """The parts of ``library.txt``: functions, and methods by class."""
    parts: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    name = ""
    for line in Path(__file__).with_name("library.txt").read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("# "):
            section, name = {}, ""
            parts.update(dict.fromkeys(line[2:].split(), section))
        elif line.startswith("def "):
            name = line[4:].partition("(")[0]
            section[name] = line
        elif name and line.strip():
            section[name] += line
    return parts


@functools.cache
def library() -> dict[str, str]:
    """The functions of the library, by qualified name."""
    return {_F + name: text for name, text in _library_text()["torch.nn.functional"].items()}


def library_methods(cls: type) -> dict[str, str]:
    """The methods of one of flambeau's layers that the library has; ``{name}`` stands for an attribute of the module."""
    return _library_text().get(cls.__name__, {}) if cls.__module__.startswith(_PACKAGE) else {}


def library_name(operation: Any) -> str | None:
    """The library's name of an operation."""
    name = _F + operation.name
    return name if operation.namespace in ("nn.functional", "torch") and name in library() else None


@functools.cache
def _parsed(text: str) -> Any:
    return ast.parse(text).body[0]


def signature_of(unit: Unit, name: str) -> Signature:
    """The signature of a definition of a unit."""
    return read_signature(unit.tree(name))


def read_signature(tree: Any, skip: int = 0) -> Signature:
    """The signature of a tree in TorchScript."""
    arguments = tree.args.args[skip:]
    defaults: list[Any] = [None] * (len(arguments) - len(tree.args.defaults)) + list(tree.args.defaults)
    parameters = [
        (argument.arg, "Tensor" if argument.annotation is None else ast.unparse(argument.annotation), default and ast.unparse(default))
        for argument, default in zip(arguments, defaults, strict=True)
    ]
    return Signature(parameters, None if tree.returns is None else ast.unparse(tree.returns))
