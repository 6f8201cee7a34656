"""Calls as the operations that PyTorch's dispatcher is called with, before any is divided: ``aten.conv2d``, not ``aten.convolution``.

That is what ``torch.export`` shows. A call is the overload of its own name whose arguments it has; what has another name or other arguments
in PyTorch stands in ``WHOLE``. What PyTorch composes in Python (``nn.functional.normalize``) is none, and is divided.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.calls.dispatch import COMPOSITE, FACTORY, IN_PLACE, IN_PLACE_VIEW, Call
from ..core.calls.registry import TABLES
from ..core.calls.tables import Rules
from ..core.symbolic import SymbolicFloat, SymbolicInt
from ..core.tensor import Tensor
from ..ops.losses.loss import reduction_of
from .calls import NUMBERS, _is_default, _of_form, _schemas, overload_named, pruned, translated, translated_factory

Translated = tuple[Any, tuple[Any, ...], dict[str, Any]]
WHOLE = Rules("aten whole")  # our operation -> (name, args, kwargs), None where it is divided, or NotImplemented where its name says it
REDUCTIONS = ("none", "mean", "sum")


class Done(NamedTuple):
    """The result of a call that a rule has had noted itself, as several."""

    value: Any


def as_whole(call: Call) -> Translated | Done | None:
    """A call in the terms of PyTorch's dispatcher; None where it is to be divided."""
    if call.form is FACTORY:
        return _factory(call)
    rule = WHOLE.of(call.op) if call.out is None else None
    if rule is not None:
        found = rule(*call.values)
        if found is None or isinstance(found, Done):
            return found
        if found is not NotImplemented:
            return _formed(call, *found)
    fitted = _fitted(call)
    if fitted is not None:
        return fitted
    if call.form is COMPOSITE:
        return None
    func, args, kwargs = translated(call)
    return None if func.namespace == "flambeau" else (func, args, kwargs)


def function_as_whole(function: Any, args: Any, kwargs: Any) -> Translated | None:
    """A call of a function of any number of tensors; None for all others."""
    name = getattr(function, "__name__", "")
    if name not in _OF_ANY_NUMBER or function is not TABLES["torch"][name].wrapper:
        return None
    found = WHOLE[name](args, **kwargs)
    if found is None:
        return None
    overload = overload_named(found[0])
    return overload, *pruned(overload, found[1], found[2])


_OF_NUMBERS = frozenset(("arange", "linspace", "logspace", "full"))
_OF_ANY_NUMBER = frozenset(("broadcast_tensors", "einsum", "meshgrid"))


def _factory(call: Call) -> Translated | None:
    func, args, kwargs = translated_factory(call)
    if func._opname in _OF_NUMBERS:  # a tensor among the bounds is read
        args = tuple([arg.item() if isinstance(arg, Tensor) else arg for arg in args])
    return None if func.namespace == "flambeau" else (func, args, kwargs)


def _formed(call: Call, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Translated:
    shown = _of_form(name, call.form, call.out) if call.form in (IN_PLACE, IN_PLACE_VIEW) else name
    found = overload_named(shown or name)
    return found, *pruned(found, args, kwargs)


def _fitted(call: Call) -> Translated | None:
    """The overload of the operation's name that has its arguments."""
    op = call.op
    prefix = "" if op.namespace in ("torch", "nn.functional", "Tensor", "ops.aten") else op.namespace.replace(".", "_") + "_"
    base = f"{prefix}{op.name}" + ("_" if call.form in (IN_PLACE, IN_PLACE_VIEW) else "")
    given = dict(zip(op.names, call.values, strict=True))
    schemas = _schemas(base)
    for overload in sorted(schemas, key=lambda name: name != "default"):
        schema = schemas[overload]
        outs = [argument.name for argument in schema.arguments if argument.is_out]
        if bool(outs) is not (call.out is not None):
            continue
        bound = _bound(schema, given, op)
        if bound is not None:
            args, kwargs = bound
            if outs:
                kwargs = dict(zip(outs, call.out if isinstance(call.out, (tuple, list)) else (call.out,), strict=True)) | kwargs
            found = overload_named(f"{base}.{overload}")
            return found, *pruned(found, args, kwargs)
    return None


_IGNORED = frozenset(("implicit", "non_blocking", "generator"))


def _bound(schema: Any, given: dict[str, Any], op: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Arguments of an overload, of ours by name; None where they do not fit."""
    left = dict(given)
    if left.get("reduction") == "batchmean":  # a sum and a division
        return None
    if "reduction" in left and isinstance(left["reduction"], str):
        left["reduction"] = REDUCTIONS.index(reduction_of(left["reduction"], left.pop("size_average", None), left.pop("reduce", None)))
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in schema.arguments:
        if argument.is_out:
            continue
        name = argument.name if argument.name in left else "input" if argument.name == "self" else argument.name
        if name not in left and argument.name in ("self", "x") and left:
            name = op.names[0]
        if name in left:
            value = _converted(argument, left.pop(name), op.name)
            if value is NotImplemented:
                return None
        elif argument.has_default_value():
            value = argument.default_value
        else:
            return None
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    defaults = {param.name: param.default for param in op.params}
    for name, value in left.items():
        if name not in _IGNORED and value is not defaults[name] and value != defaults[name] and value != ():
            return None
    kwargs = {name: value for name, value in kwargs.items() if not _is_left_out(schema, name, value)}
    return tuple(args), kwargs


def _is_left_out(schema: Any, name: str, value: Any) -> bool:
    argument = next(argument for argument in schema.arguments if argument.name == name)
    return value is None or _is_default(argument, value)


def _converted(argument: Any, value: Any, name: str) -> Any:
    """A value as an argument of this type; NotImplemented where it is none."""
    kind = argument.real_type.text()
    optional = kind.endswith("?")
    base = kind.removesuffix("?")
    if value is None:
        return None if optional else argument.default_value if argument.has_default_value() else NotImplemented
    if base.startswith("Tensor"):
        if "[" in base:
            return list(value) if isinstance(value, (list, tuple)) else NotImplemented
        is_number = isinstance(value, (int, float, complex)) and not isinstance(value, Tensor)
        return value if isinstance(value, Tensor) or (name in NUMBERS and argument.name == "other" and is_number) else NotImplemented
    if isinstance(value, Tensor):
        return NotImplemented
    if "[" in base:
        return listed(base, value)
    if base in ("int", "SymInt"):
        return value if isinstance(value, int) and value.__class__ is not bool else NotImplemented
    if base in ("float", "SymFloat"):
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return NotImplemented
        return value if isinstance(value, (float, SymbolicInt, SymbolicFloat)) else float(value)
    if base == "bool":
        return value if isinstance(value, bool) else NotImplemented
    if base == "Scalar":
        return value if isinstance(value, (int, float, complex)) else NotImplemented
    if base == "str":
        return value if isinstance(value, str) else NotImplemented
    return value


def listed(base: str, value: Any) -> Any:
    element, _, count = base.partition("[")
    number = count.rstrip("]?")
    if isinstance(value, (list, tuple)):
        if element in ("int", "SymInt") and any(not isinstance(item, int) for item in value):
            return NotImplemented
        return list(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return NotImplemented
    return [value] * int(number or 1)


def divided(*values: Any) -> None:
    """Divided: PyTorch composes it in Python, or its kernel returns more."""
