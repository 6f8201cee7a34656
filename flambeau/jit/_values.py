"""Values of archives' code beside tensors and modules: types with fields and methods, and objects of them."""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from ._state import Error


def raised(message: str, kind: str = "") -> Error:
    """The exception of a program's ``raise``."""
    name = kind.rpartition(".")[2] or "RuntimeError"
    return Error(
        "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call last):\n"
        f"{name}: {message}"
    )


class ScriptType:
    """A class of an archive.

    Attributes:
        name: qualified, ``__torch__.M``. base: ``Module``, ``NamedTuple``, ``Enum``, ``Interface``, ``ModuleInterface`` or none.
        fields: text of the type of each attribute. constants: values of ``Final`` attributes.
        parameters, buffers: names of attributes that are.
        methods: functions by name, made when they are first called.
    """

    def __init__(self, name: str, base: str = "") -> None:
        self.name, self.base = name, base
        self.fields: dict[str, str] = {}
        self.constants: dict[str, Any] = {}
        self.parameters: list[str] = []
        self.buffers: list[str] = []
        self.methods: dict[str, Callable[..., Any]] = {}
        self.named_tuple: Any = None
        self.members: Any = None

    @property
    def short_name(self) -> str:
        """Name without modules."""
        return self.name.rpartition(".")[2]

    def close(self) -> None:
        """Make what instances of it are, after all fields are known."""
        if self.base == "NamedTuple":
            make: Any = namedtuple  # its fields are known at run time only
            self.named_tuple = make(self.short_name, list(self.fields), defaults=list(self.constants.values()))
        elif self.base == "Enum":
            self.members = enum.Enum(self.short_name, dict(self.constants))  # type: ignore[misc]

    def make(self) -> Any:
        """An instance without attributes."""
        return ScriptObject(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.named_tuple is not None:
            return self.named_tuple(*args, **kwargs)
        made = self.make()
        if "__init__" in self.methods:
            self.methods["__init__"](made, *args, **kwargs)
        return made

    def __repr__(self) -> str:
        return self.name


class ScriptObject:
    """An object of a class of an archive, which is no module. Source: torch.jit.RecursiveScriptClass.

    Args:
        script_type: its class.
    Example:
        >>> unit = torch.jit._unit.Unit()
        >>> unit.add("__torch__.Pair", "class Pair:\\n  a : int\\n  def __init__(self, a: int):\\n    self.a = a\\n")
        >>> unit.find("__torch__.Pair")(3).a
        3
    """

    def __init__(self, script_type: ScriptType) -> None:
        self.__dict__["_script_type"], self.__dict__["_values"] = script_type, {}

    def script_attribute(self, name: str) -> Any:
        """A field, a constant or a bound method.

        Raises:
            AttributeError: it has none of that name.
        """
        values, kind = self.__dict__["_values"], self.__dict__["_script_type"]
        if name in values:
            return values[name]
        if name in kind.methods:
            return kind.methods[name].__get__(self)
        if name in kind.constants:
            return kind.constants[name]
        raise AttributeError(f"'{kind.name}' object has no attribute or method '{name}'")

    def script_assign(self, name: str, value: Any) -> None:
        """Set a field."""
        self.__dict__["_values"][name] = value

    __getattr__, __setattr__ = script_attribute, script_assign

    def __repr__(self) -> str:
        return f"<torch.ScriptObject of {self.__dict__['_script_type'].name}>"

    def __str__(self) -> str:
        return str(self.script_attribute("__str__")()) if "__str__" in self.__dict__["_script_type"].methods else repr(self)

    def __eq__(self, other: object) -> Any:
        return self.script_attribute("__eq__")(other) if "__eq__" in self.__dict__["_script_type"].methods else self is other

    __hash__ = object.__hash__


def _delegate(name: str) -> Callable[..., Any]:
    def method(self: ScriptObject, *args: Any) -> Any:
        return self.script_attribute(name)(*args)

    method.__name__ = name
    return method


for _name in (
    "enter exit len getitem setitem contains call add sub mul truediv floordiv mod pow matmul and or xor neg lt gt le ge"
).split():
    setattr(ScriptObject, f"__{_name}__", _delegate(f"__{_name}__"))
