"""Text of values in TorchScript, and of their types."""

from __future__ import annotations

import math
from typing import Any

from ..core.device import device
from ..core.shape import Size
from ..core.tensor import Tensor
from ..nn import Module
from . import _operators

_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
_TYPES: dict[type, str] = {bool: "bool", int: "int", float: "float", complex: "complex", str: "str", type(None): "NoneType"}


def quoted(text: str) -> str:
    """A string constant: PyTorch's lexer reads C's escapes, octal ones for what is not printable."""
    parts = []
    for character in text:
        if character in _ESCAPES:
            parts.append(_ESCAPES[character])
        elif " " <= character <= "~":
            parts.append(character)
        else:
            parts.append("".join([f"\\{byte:03o}" for byte in character.encode()]))
    return '"' + "".join(parts) + '"'


def number(value: Any) -> str:
    """A number; infinity and NaN have names."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, complex):
        return f"torch.Complex({number(value.real)}, {number(value.imag)})"
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return repr(float(value))
    return repr(int(value))


def literal(value: Any) -> str | None:
    """The text of a value that has no tensor in it; None where there is none."""
    other = _operators.number_of(value)
    if other is not None:
        return str(other)
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, (bool, int, float, complex)):
        return number(value)
    if isinstance(value, device):
        return f"torch.device({quoted(str(value))})"
    if isinstance(value, (list, tuple)):
        parts = [literal(item) for item in value]
        if None in parts:
            return None
        inside = ", ".join(str(part) for part in parts)
        if isinstance(value, list) or isinstance(value, Size):
            return f"[{inside}]"
        return f"({inside},)" if len(parts) == 1 else f"({inside})"
    if isinstance(value, dict) and value:
        pairs = [(literal(key), literal(item)) for key, item in value.items()]
        if not any(None in pair for pair in pairs):
            return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    return None


def type_of(value: Any) -> str | None:
    """The type of a value; None where TorchScript has none for it, or it cannot be told (an empty list)."""
    if value.__class__ in _TYPES:
        return _TYPES[value.__class__]
    if isinstance(value, Tensor):
        return "Tensor"
    if hasattr(value, "_script_type"):
        return str(value._script_type.name)
    if isinstance(value, Module):
        return None
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (complex, "complex"), (str, "str"), (device, "Device")):
        if isinstance(value, kind):
            return name
    if _operators.number_of(value) is not None:
        return "int"
    if isinstance(value, Size):
        return "List[int]"
    if isinstance(value, tuple):
        parts = [type_of(item) for item in value]
        return None if None in parts or not parts else f"Tuple[{', '.join(map(str, parts))}]"
    if isinstance(value, list):
        part = _common(value)
        return None if part is None else f"List[{part}]"
    if isinstance(value, dict):
        key, item = _common(list(value)), _common(list(value.values()))
        return None if key is None or item is None else f"Dict[{key}, {item}]"
    return None


def _common(values: list[Any]) -> str | None:
    """The one type of some values, perhaps optional."""
    kinds = {type_of(value) for value in values}
    if len(kinds) == 2 and "NoneType" in kinds:
        kinds.discard("NoneType")
        kind = kinds.pop()
        return None if kind is None else f"Optional[{kind}]"
    return kinds.pop() if len(kinds) == 1 else None
