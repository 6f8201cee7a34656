"""Types of Python's annotations in TorchScript's words."""

from __future__ import annotations

import collections
import enum
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from ..core.device import device
from ..core.dtype import dtype
from ..core.layout import layout, memory_format
from ..core.shape import Size
from ..core.tensor import Parameter, Tensor
from ..facades.futures import Future

_PLAIN: dict[Any, str] = {
    Tensor: "Tensor", Parameter: "Tensor", int: "int", float: "float", bool: "bool", str: "str", complex: "complex", None: "NoneType",
    type(None): "NoneType", Any: "Any", device: "Device", dtype: "int", layout: "int", memory_format: "int", Size: "List[int]",
}  # fmt: skip
_GENERIC: dict[Any, str] = {
    list: "List", dict: "Dict", tuple: "Tuple", collections.OrderedDict: "Dict", collections.abc.Sequence: "List", Future: "Future",
}  # fmt: skip


class UnknownType(Exception):
    """A type that TorchScript does not have."""


def type_text(annotation: Any, class_of: Callable[[type], str] | None = None) -> str:
    """The type of an annotation.

    Args:
        class_of: gives the qualified name of a class of the program.
    Raises:
        UnknownType: there is none.
    """
    try:
        if annotation in _PLAIN:
            return _PLAIN[annotation]
    except TypeError:
        pass
    if isinstance(annotation, str):
        raise UnknownType(annotation)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated or origin is typing.Final:
        return type_text(parts[0], class_of)
    if origin is typing.Union or origin is types.UnionType:
        return _union([type_text(part, class_of) for part in parts])
    if origin in _GENERIC and parts:
        shown = [type_text(part, class_of) for part in parts if part is not Ellipsis]
        if _GENERIC[origin] == "Dict" and "[" in shown[0]:
            key = shown[0].replace("Tuple[", "(").replace("]", ")") if shown[0].startswith("Tuple[") else shown[0]
            allowed = "only int, float, complex, Tensor, device and string keys are supported"
            raise RuntimeError(f"Cannot create dict for key type '{key}', {allowed}")
        return f"{_GENERIC[origin]}[{', '.join(shown)}]"
    if hasattr(annotation, "_broadcast_of"):
        return f"List[{annotation._broadcast_of}]"
    if isinstance(annotation, type) and class_of is not None:
        return class_of(annotation)
    raise UnknownType(getattr(annotation, "__name__", repr(annotation)))


def _union(kinds: list[str]) -> str:
    others = [kind for kind in kinds if kind != "NoneType"]
    if len(others) == 1:
        return others[0] if len(kinds) == 1 else f"Optional[{others[0]}]"
    inner = f"Union[{', '.join(others)}]"
    return inner if len(others) == len(kinds) else f"Optional[{inner}]"


def hints(function: Any, scope: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a function by parameter, texts evaluated where its names are known."""
    found = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        for _ in range(2):  # a text in quotes of its own, where all annotations are texts
            if not isinstance(annotation, str):
                break
            try:
                annotation = eval(annotation, dict(scope))  # the program's own text, as typing.get_type_hints does
            except Exception:
                raise UnknownType(annotation) from None
        found[name] = annotation
    return found


def is_named_tuple(cls: Any) -> bool:
    """Whether a class is a tuple with names."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def is_enum(cls: Any) -> bool:
    """Whether a class is an enumeration."""
    return isinstance(cls, type) and issubclass(cls, enum.Enum)


def arguments_of(function: Any) -> list[inspect.Parameter]:
    """The parameters of a function."""
    return list(inspect.signature(function).parameters.values())
