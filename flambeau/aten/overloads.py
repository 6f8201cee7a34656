"""``torch.ops``: operations as objects, by namespace, name and overload. Source: torch._ops.

torch.ops.aten                 a namespace: every operation of flambeau by the name of PyTorch's kernel
torch.ops.aten.add             a packet: all overloads; a call looks for the one that its arguments fit
torch.ops.aten.add.Tensor      an overload: one schema
torch.ops.mine.twice.default   the only overload of an operation that a program defined (torch.library)
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .. import ops as _operations
from ..core.calls.override import call_override
from ..core.calls.registry import TABLES
from ..core.late import made_once
from ..core.state import thread
from ..core.tensor import Parameter, Tensor, wrap
from .schema import FunctionSchema, parse_schema
from .tags import DispatchKey, Tag

__all__ = ["DispatchKey", "OpOverload", "OpOverloadPacket", "OperatorBase"]

# Operations of PyTorch that take a number where their schema has a tensor.
_TAKE_NUMBERS = frozenset("add sub mul div divide multiply subtract true_divide floor_divide remainder fmod copy _to_copy to".split())


def tensors_in(values: Sequence[Any]) -> list[Any]:
    """The tensors, and what may take a call over as they do, among arguments and in lists of them."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif value.__class__ is list or value.__class__ is tuple:
            found += tensors_in(value)
        elif hasattr(type(value), "__torch_function__"):
            found.append(value)
    return found


def overridden(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Result of a mode or a subclass for a call; NotImplemented if none takes it."""
    operands = tensors_in((*args, *kwargs.values()))
    if not thread.function_modes:
        for operand in operands:
            if operand.__class__ is not Tensor and operand.__class__ is not Parameter:
                break
        else:
            return NotImplemented
    return call_override(operation, operands, args, kwargs)


class OperatorBase:
    """Base class of overloads and other operators. Source: torch._ops.OperatorBase."""


class OpOverload(OperatorBase):
    """One overload of an operation. Source: torch._ops.OpOverload.

    Attributes:
        _schema: its arguments and results. tags: its properties for compilers.
        overloadpacket: all overloads of the operation. namespace: where the operation lies.
    """

    def __init__(self, packet: OpOverloadPacket, op: Callable[..., Any], schema: FunctionSchema, tags: Sequence[Tag]):
        self._overloadpacket, self._op, self._schema, self._tags = packet, op, schema, list(tags)
        self._namespace, _, self._opname = schema.name.partition("::")
        self._overloadname = schema.overload_name or "default"
        self._defined_in_python = self._namespace != "aten"
        self._name = schema.full_name
        self.__name__ = f"{self._opname}.{self._overloadname}"
        self.__qualname__ = self._name
        self.__module__ = packet.__module__
        self.__doc__ = packet.__doc__
        self.py_kernels: dict[Any, Any] = {}
        self.is_view = any(alias is not None and not alias.is_write for alias in [argument.alias_info for argument in schema.arguments])

    @property
    def namespace(self) -> str:
        """The namespace: ``'aten'``."""
        return self._namespace

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of the operation."""
        return self._overloadpacket

    @property
    def op(self) -> Callable[..., Any]:
        """Function that a call runs."""
        return self._op

    @property
    def tags(self) -> list[Tag]:
        """Properties of the operation for compilers."""
        return self._tags

    def name(self) -> str:
        """The qualified name: ``'aten::add.Tensor'``."""
        return self._name

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        """Whether a kernel was registered for just this dispatch key."""
        kernels = getattr(self._op, "kernels", None)
        wanted = getattr(key, "name", key)
        return wanted == "CompositeImplicitAutograd" if kernels is None else wanted in kernels

    def has_kernel_for_any_dispatch_key(self, keys: Any) -> bool:
        """Whether a kernel was registered for one of these dispatch keys."""
        return any(self.has_kernel_for_dispatch_key(key) for key in keys)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._defined_in_python:
            return self._op(*args, **kwargs)
        result = overridden(self, args, kwargs)
        return self._op(*args, **kwargs) if result is NotImplemented else result

    def redispatch(self, /, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """The call from some dispatch keys on. There are none here: it begins anew, without autograd.

        Raises:
            NotImplementedError: an operation of flambeau.
        """
        if not hasattr(self._op, "below_autograd"):
            raise NotImplementedError(f"{self._name}: redispatch is supported for operations that a program defined")
        return self._op.below_autograd(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self._opname}.{self._overloadname}"

    def __deepcopy__(self, memo: Any = None) -> OpOverload:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self._namespace, self._opname, self._overloadname)


class OpOverloadPacket:
    """All overloads of an operation; calling it finds the one that the arguments fit. Source: torch._ops.OpOverloadPacket."""

    def __init__(self, namespace: str, name: str, op: Callable[..., Any] | None = None, implementation: Any = None):
        self._qualified_op_name, self.__name__ = f"{namespace}::{name}", name
        self.__module__ = f"{_operations.__name__}.{namespace}"
        self.__doc__ = op.__doc__ if op is not None else None
        self._namespace, self._op = namespace, op
        self._implementation = implementation  # what finds a function for one overload, by the name and the schema
        self._defined: dict[str, OpOverload] = {}

    def define(self, overload: OpOverload) -> None:
        """Add an overload that a program defined."""
        self._defined[overload._overloadname] = overload
        self.__dict__[overload._overloadname] = overload

    def undefine(self, name: str) -> None:
        """Take away an overload that a program defined."""
        self._defined.pop(name, None)
        self.__dict__.pop(name, None)

    @made_once
    def _of_aten(self) -> dict[str, tuple[FunctionSchema, list[Tag]]]:
        """The schemas of an operation of flambeau by overload."""
        parsed = [
            (parse_schema(f"aten::{text}"), [Tag[tag] for tag in tags.split()]) for text, tags in aten_schemas().get(self.__name__, ())
        ]
        return {schema.overload_name or "default": (schema, tags) for schema, tags in parsed}

    @property
    def op(self) -> Callable[..., Any] | None:
        """Function that a call runs."""
        return self._op

    def overloads(self) -> list[str]:
        """The overloads' names, in the order in which a call looks for one."""
        return list(self._defined) if self._op is None else list(self._of_aten)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'{self}' can't have an overload name beginning with '__' and the underlying op has no attribute {name}")
        if self._op is not None and name in self._of_aten:
            schema, tags = self._of_aten[name]
            op = (self._implementation and self._implementation(self.__name__, schema)) or self._op
            return self.__dict__.setdefault(name, OpOverload(self, op, schema, [*tags, Tag.pt2_compliant_tag]))
        raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")

    def fitting(self, args: Sequence[Any], kwargs: dict[str, Any]) -> OpOverload:
        """The overload of a call with these arguments.

        Raises:
            RuntimeError: they fit none; the message says why for each of them.
        """
        reasons = []
        takes_numbers = self.__name__.rstrip("_") in _TAKE_NUMBERS
        for name in self.overloads():
            overload = getattr(self, name)
            try:
                overload._schema.bind(_with_tensors(overload._schema, args) if takes_numbers else args, kwargs)
            except RuntimeError as error:
                reasons.append(str(error))
            else:
                return overload
        if len(reasons) == 1:
            raise RuntimeError(reasons[0])
        listed = "\n\n".join(reasons)
        raise RuntimeError(f"Overloaded torch operator invoked from Python failed to match any schema:\n{listed}\n\n")

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        result = overridden(self, args, kwargs)
        if result is not NotImplemented:
            return result
        if self._op is not None:
            return self._op(*args, **kwargs)
        if len(self._defined) == 1:
            return next(iter(self._defined.values()))._op(*args, **kwargs)
        return self.fitting(args, kwargs)._op(*args, **kwargs)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.overloads()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    def __deepcopy__(self, memo: Any = None) -> OpOverloadPacket:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self._namespace, self.__name__)


@functools.cache
def _any_tensor() -> Tensor:
    """Stands for a number where schemas are compared."""
    return wrap(np.zeros(()))


def _with_tensors(schema: FunctionSchema, args: Sequence[Any]) -> list[Any]:
    """Arguments with tensors in place of numbers, where the schema wants tensors behind the first argument."""
    wanted = [argument.real_type.name == "Tensor" for argument in schema.arguments[: len(args)]]
    given = list(args)
    for place, wants in enumerate(wanted):
        if place and wants and isinstance(args[place], (int, float, complex)):
            given[place] = _any_tensor()
    return given


def _named(namespace: str, *names: str) -> Any:
    """An operation or an overload, by its name; for pickle."""
    found: Any = getattr(_operations, namespace)
    for name in names:
        found = getattr(found, name)
    return found


# -- namespaces -------------------------------------------------------------------------------------------------------------------
class _OpNamespace(ModuleType):
    """The operations of one namespace, ``torch.ops.NAMESPACE``."""

    def __init__(self, name: str):
        super().__init__(f"torch.ops.{name}")
        self.name = name
        self._packets: dict[str, OpOverloadPacket] = {}
        self.__file__ = "torch.ops"

    def packet(self, name: str) -> OpOverloadPacket:
        """The packet of a name, made where there is none yet."""
        return self._packets.setdefault(name, OpOverloadPacket(self.name, name))

    def forget(self, name: str) -> None:
        """Take an operation away that a program defined."""
        self._packets.pop(name, None)

    def _behind(self) -> Any:
        """Attribute of this name of the package of operations itself."""
        own = vars(self).get("name", "")
        module = sys.modules.get(f"{_operations.__name__}.{own}")
        return module or (TABLES["torch"][own].wrapper if own in TABLES["torch"] else None)

    def __getattr__(self, name: str) -> Any:
        if name in ("__origin__", "__self__"):
            raise AttributeError(f"Invalid attribute '{name}' for '_OpNamespace' '{self.name}'")
        packets = vars(self).get("_packets", {})
        if name in packets:
            return packets[name]
        behind = None if name.startswith("__") else self._behind()
        if behind is not None and hasattr(behind, name):
            return getattr(behind, name)
        raise AttributeError(f"'_OpNamespace' '{vars(self).get('name')}' object has no attribute '{name}'")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A call of the operation of flambeau that has the namespace's name."""
        return self._behind()(*args, **kwargs)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._packets})

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dir__())

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self.name}' from 'torch.ops'>"


_aten_lines: dict[str, list[tuple[str, str]]] = {}


def aten_schemas() -> dict[str, list[tuple[str, str]]]:
    """The schemas of PyTorch's operations that flambeau has, as text with tags, by the operation's name."""
    global _aten_lines
    if not _aten_lines:
        found: dict[str, list[tuple[str, str]]] = {}
        for line in Path(__file__).with_name("schemas.txt").read_text(encoding="utf-8").splitlines():
            text, _, tags = line.partition(" | ")
            found.setdefault(text.partition("(")[0].partition(".")[0], []).append((text, tags))
        _aten_lines = found
    return _aten_lines
