"""Attributes of values as TorchScript knows them, for code of archives: nothing else of an object can be reached by its text."""

from __future__ import annotations

import ast
import enum
import functools
import operator
from collections.abc import Callable
from typing import Any

from ..core.device import device
from ..core.dtype import dtype
from ..core.tensor import Tensor
from ..facades.futures import Future
from . import _operators
from ._values import ScriptObject, ScriptType, raised

_LIST = frozenset("append extend insert pop remove reverse sort clear copy index count".split())
_DICT = frozenset("keys values items get pop popitem setdefault update clear copy".split())
_STR = frozenset(
    "capitalize center count endswith expandtabs find index isalnum isalpha isdecimal isdigit isidentifier islower isnumeric isprintable "
    "isspace istitle isupper join ljust lower lstrip partition replace rfind rindex rjust rpartition rsplit rstrip split splitlines "
    "startswith strip swapcase title upper zfill".split()
)
_OF_TENSORS: dict[str, Callable[[Any], Any]] = {
    "shape": lambda x: list(x.shape),
    "dtype": lambda x: _operators.number_of_dtype(x.dtype),
    "layout": lambda x: _operators.number_of_layout(x.layout),
    **{
        name: operator.attrgetter(name)
        for name in "device T mT H mH ndim requires_grad grad data is_leaf is_cuda is_cpu is_sparse is_quantized is_mkldnn is_meta is_mps "
        "is_nested real imag itemsize nbytes is_xpu is_sparse_csr output_nr".split()
    },
}


def attribute(value: Any, name: str) -> Any:
    """``value.name`` in code of an archive.

    Raises:
        torch.jit.Error: TorchScript knows no such attribute.
    """
    found = _FINDERS.get(value.__class__)
    if found is not None:
        return found(value, name)
    for kind, finder in _OF_SUBCLASSES:
        if isinstance(value, kind):
            return finder(value, name)
    if hasattr(value, "script_attribute"):
        return value.script_attribute(name)
    raise _unknown(value, name)


def assign(value: Any, name: str, new: Any) -> None:
    """``value.name = new`` in code of an archive."""
    if isinstance(value, Tensor) and name in ("grad", "data", "requires_grad"):
        setattr(value, name, new)
    elif hasattr(type(value), "script_assign"):
        value.script_assign(name, new)
    else:
        raise _unknown(value, name)


def _unknown(value: Any, name: str) -> Exception:
    return raised(f"'{type(value).__name__}' object has no attribute or method '{name:.100}'")


def _of_tensor(tensor: Any, name: str) -> Any:
    if name in _OF_TENSORS:
        return _OF_TENSORS[name](tensor)
    if not _operators.is_method(name):
        raise _unknown(tensor, name)
    return functools.partial(_operators.method, name, tensor)


def _of_builtin(names: frozenset[str]) -> Callable[[Any, str], Any]:
    def find(value: Any, name: str) -> Any:
        if name in names:
            return getattr(value, name)
        raise _unknown(value, name)

    return find


def _of_text(value: str, name: str) -> Any:
    if name == "format":
        return functools.partial(_operators.formatted, value)
    return _of_builtin(_STR)(value, name)


def _of_type(value: ScriptType, name: str) -> Any:
    if name == "__new__":
        return lambda kind: kind.make()
    if value.members is not None and name in value.members.__members__:
        return value.members[name]
    if name in value.methods:
        return value.methods[name]
    raise _unknown(value, name)


def _of_tuple(value: Any, name: str) -> Any:
    if name in getattr(type(value), "_fields", ()) or name in getattr(value, "_fields", ()):
        return getattr(value, name)
    raise _unknown(value, name)


def _of_enum(value: Any, name: str) -> Any:
    return getattr(value, name) if name in ("name", "value") else _of_builtin(frozenset())(value, name)


_FINDERS: dict[type, Callable[[Any, str], Any]] = {
    Tensor: _of_tensor,
    list: _of_builtin(_LIST),
    dict: _of_builtin(_DICT),
    str: _of_text,
    ScriptType: _of_type,
    ScriptObject: ScriptObject.script_attribute,
    device: _of_builtin(frozenset(("type", "index"))),
    complex: _of_builtin(frozenset(("real", "imag"))),
    Future: _of_builtin(frozenset(("wait", "done", "value"))),
}
_OF_SUBCLASSES: tuple[tuple[type, Callable[[Any, str], Any]], ...] = (
    (Tensor, _of_tensor),
    (tuple, _of_tuple),
    (dict, _of_builtin(_DICT)),
    (enum.Enum, _of_enum),
)


# -- types -------------------------------------------------------------------------------------------------------------------------
_PLAIN: dict[str, tuple[type, ...]] = {
    "Tensor": (Tensor,),
    "int": (int,),
    "float": (float,),
    "complex": (complex,),
    "bool": (bool,),
    "str": (str,),
    "number": (int, float, complex),
    "NoneType": (type(None),),
    "None": (type(None),),
    "Device": (device,),
    "list": (list,),
    "tuple": (tuple,),
    "dict": (dict,),
    "Dtype": (dtype, int),
}


def is_a(value: Any, kind: ast.expr) -> bool:
    """Whether a value has a type, given as the tree of its text."""
    if isinstance(kind, ast.Tuple):
        return any(is_a(value, option) for option in kind.elts)
    if isinstance(kind, ast.Constant):
        return value is None
    if isinstance(kind, ast.Subscript):
        return _is_made_of(value, kind)
    name = ast.unparse(kind)
    if name == "Any":
        return True
    if name in _PLAIN:
        return isinstance(value, _PLAIN[name]) and not (name in ("int", "number", "float") and isinstance(value, bool))
    own = getattr(value, "_script_type", None)
    return (own.name if own is not None else type(value).__name__) in (name, name.rpartition(".")[2])


def _is_made_of(value: Any, kind: ast.Subscript) -> bool:
    name = ast.unparse(kind.value).rpartition(".")[2]
    parts = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
    if name in ("Optional", "Union"):
        return (name == "Optional" and value is None) or any(is_a(value, part) for part in parts)
    if name in ("List", "list"):
        return isinstance(value, list) and all(is_a(item, parts[0]) for item in value)
    if name in ("Dict", "dict"):
        return isinstance(value, dict) and all(is_a(key, parts[0]) and is_a(item, parts[1]) for key, item in value.items())
    if name in ("Tuple", "tuple"):
        return isinstance(value, tuple) and len(value) == len(parts) and all(is_a(item, part) for item, part in zip(value, parts))
    return name == "Future" and isinstance(value, Future)
