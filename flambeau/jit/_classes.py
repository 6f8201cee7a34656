"""Classes of scripted programs that are no modules: tuples with names, enumerations, and classes with methods."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import linecache
import sys
import typing
from typing import Any

from ._annotations import UnknownType, is_enum, is_named_tuple, type_text
from ._expressions import Typed, getter_name
from ._literals import literal, type_of
from .frontend import Source


def define(program: Any, cls: type, name: str) -> None:
    """Write the definition of a class into the program's unit.

    Raises:
        UnknownType: a class of another kind.
    """
    if is_named_tuple(cls):
        _named_tuple(program, cls, name)
    elif is_enum(cls):
        _enumeration(program, cls, name)
    else:
        _methods(program, cls, name)


def _named_tuple(program: Any, cls: Any, name: str) -> None:
    annotations = typing.get_type_hints(cls) or dict.fromkeys(cls._fields)  # which may be texts
    lines, parameters = [f"class {name.rpartition('.')[2]}(NamedTuple):\n"], list[tuple[str, str, str | None]]()
    for field in cls._fields:
        annotation = annotations.get(field)
        kind = "Tensor" if annotation is None else type_text(annotation, program.class_name)
        default = cls._field_defaults.get(field, inspect.Parameter.empty)
        parameters.append((field, kind, None if default is inspect.Parameter.empty else literal(default)))
        lines.append(f"  {field} : {kind}\n")  # archives have no defaults: calls have them
    program.unit.add(name, "".join(lines))
    program.declare(f"{name}.__init__", parameters, name)


def _enumeration(program: Any, cls: Any, name: str) -> None:
    members: list[enum.Enum] = list(cls)
    kinds = {type_of(member.value) for member in members}
    if len(kinds) != 1 or not kinds <= {"int", "float", "str"}:
        raise UnknownType(cls.__name__)
    lines = [f"  {member.name} = {literal(member.value)}\n" for member in members]
    program.unit.add(name, f"class {name.rpartition('.')[2]}(Enum):\n{''.join(lines)}")


def _methods(program: Any, cls: type, name: str) -> None:
    """A class with methods: its attributes are what ``__init__`` assigns."""
    if "__init__" not in vars(cls):
        raise UnknownType(cls.__name__)
    if dataclasses.is_dataclass(cls):
        _with_source(cls)
    fields = _Fields(program, cls, name)
    texts = []
    getters = {name: value.fget for name, value in vars(cls).items() if isinstance(value, property) and value.fget is not None}
    program.properties.update([f"{name}.{attribute}" for attribute in getters])
    # __init__ first: it says which attributes there are
    functions = sorted(vars(cls).items(), key=lambda pair: pair[0] != "__init__")
    for method, function in functions:
        if inspect.isfunction(function) and not getattr(function, "_torchscript_modifier", "").startswith(("ignore", "unused")):
            if method.startswith("__") and method not in _SPECIAL:
                continue
            if dataclasses.is_dataclass(cls) and _is_generated(function):
                continue
            texts.append(fields.compile(method, function))
    texts += [fields.compile(getter_name(attribute), getter) for attribute, getter in getters.items()]
    lines = [f"  {field} : {kind}\n" for field, kind in fields.kinds.items()]
    program.unit.add(name, f"class {name.rpartition('.')[2]}:\n{''.join(lines)}{''.join(texts)}")


def _is_generated(function: Any) -> bool:
    """Whether ``dataclass`` made a method, which then has no source: comparisons, mostly."""
    return str(function.__code__.co_filename) == "<string>"


def _with_source(cls: Any) -> None:
    """Give a data class whose ``__init__`` has no source one that assigns its fields.

    Raises:
        NotImplementedError: a field with a factory, or that is no argument.
    """
    if not _is_generated(cls.__init__):
        return
    scope = dict(vars(sys.modules[cls.__module__]))
    parameters, lines = ["self"], []
    for i, field in enumerate(dataclasses.fields(cls)):
        if field.default_factory is not dataclasses.MISSING or not field.init:
            raise NotImplementedError(f"torch.jit.script: the field '{field.name}' of the data class {cls.__name__} has a factory")
        scope[f"_kind{i}"], scope[f"_default{i}"] = field.type, field.default
        default = "" if field.default is dataclasses.MISSING else f" = _default{i}"
        parameters.append(f"{field.name}: {field.type if isinstance(field.type, str) else f'_kind{i}'}{default}")
        lines.append(f"    self.{field.name} = {field.name}\n")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()\n")
    cls.__init__ = _written(cls, "__init__", f"def __init__({', '.join(parameters)}) -> None:\n{''.join(lines)}", scope)
    if "__eq__" in vars(cls) and _is_generated(cls.__eq__):
        fields = [field.name for field in dataclasses.fields(cls) if field.compare]
        equal = " and ".join([f"(self.{name} == other.{name})" for name in fields]) or "True"
        scope["_cls"] = cls
        cls.__eq__ = _written(cls, "__eq__", f"def __eq__(self, other: _cls) -> bool:\n    return {equal}\n", scope)


def _written(cls: type, name: str, text: str, scope: dict[str, Any]) -> Any:
    """A function from its text, which tracebacks and compilers find."""
    filename = f"<{name} of {cls.__module__}.{cls.__qualname__}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), scope)  # names of its own fields, as ``dataclass`` does it
    return scope[name]


_SPECIAL = frozenset(
    f"__{name}__"
    for name in (
        "init post_init call len getitem setitem contains add sub mul truediv floordiv mod pow matmul and or xor neg enter exit "
        "lt gt le ge eq ne str"
    ).split()
)


class _Fields:
    """The attributes of a class while its methods are compiled."""

    def __init__(self, program: Any, cls: type, name: str) -> None:
        self.program, self.cls, self.name = program, cls, name
        self.kinds: dict[str, str] = {}
        for field, annotation in inspect.get_annotations(cls).items():
            if isinstance(annotation, str):
                continue
            self.kinds[field] = type_text(annotation, program.class_name)

    def compile(self, method: str, function: Any) -> str:
        """The text of a method."""
        if method == "__init__":
            self._read(function)
        # what is known of the class while its methods are compiled
        fields = "".join([f"  {field} : {kind}\n" for field, kind in self.kinds.items()]) or "  pass\n"
        self.program.unit.replace(self.name, f"class {self.name.rpartition('.')[2]}:\n{fields}")
        try:
            signature, lines = self.program.compiled(function, names={"self": Typed("self", self.name)})
        finally:
            self.program.unit.replace(self.name, "")
            del self.program.unit.texts[self.name]
        if method == "__init__":
            signature.returns = "NoneType"
            lines.append("  return None")
        self.program.signatures[f"{self.name}.{method}"] = signature
        returns = f" -> {signature.returns}" if signature.returns else ""
        body = "\n".join([f"  {line}" for line in lines])
        return f"  def {method}({signature.text(self.name)}){returns}:\n{body}\n"

    def _read(self, function: Any) -> None:
        """Types of what ``__init__`` assigns: annotated, an argument, or a constant."""
        source = Source(function)
        parameters = {name: kind for name, kind, _ in self.program.parameters(function, source, skip=1)[0]}
        from ._statements import Statements

        names = {name: Typed(name, kind) for name, kind in parameters.items()}
        context = Statements(self.program, source, self.program.scope_of(function), {"self": Typed("self", None), **names}, None)
        for node in ast.walk(source.tree):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
            if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"):
                continue
            if target.attr in self.kinds:
                continue
            kind: Any = context.type_of_node(node.annotation) if isinstance(node, ast.AnnAssign) else context.value(node.value).kind  # type: ignore[attr-defined]
            if kind is None:
                raise source.error(f"the type of the attribute '{target.attr}' cannot be told; annotate it", node)
            self.kinds[target.attr] = kind
