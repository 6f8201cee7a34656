"""Calls of our operations in the terms of PyTorch's kernels (``torch.ops.aten``), and back.

Its declaration says which kernel a primitive is (``Op.aten``), the kernel's schema which overload a call is, with which arguments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops as _operations
from ..core.calls.dispatch import COMPOSITE, FACTORY, FUNCTION, IN_PLACE, IN_PLACE_VIEW, Call, dispatch
from ..core.calls.operation import Op
from ..core.calls.registry import TABLES, entries
from ..core.calls.tables import Rules
from ..core.device import cpu, device
from ..core.dtype import dtype as Dtype
from ..core.layout import layout as Layout, memory_format as MemoryFormat
from ..core.state import thread
from ..core.tensor import Tensor, wrap
from .overloads import OpOverload, OpOverloadPacket
from .schema import Argument, FunctionSchema, parse_schema

PRIVATE: dict[Any, OpOverload] = {}  # primitives without a counterpart, as ``torch.ops.flambeau``
NUMBERS = frozenset(("add", "sub", "mul", "div", "floor_divide"))  # where a number arrives in a tensor's place
_FREE = frozenset(("inplace", "implicit", "non_blocking", "sparse_grad"))  # parameters of ours that PyTorch's kernels have not

# What ``rules`` and ``kernels`` fill.
PREPARED = Rules("aten arguments")  # our primitive -> (name, args, kwargs), or None where the table decides
COMPOSED = Rules("aten composed")  # our primitive -> what it is made of in PyTorch, recorded one by one
LEAVES = Rules("aten leaf")  # our composite -> the kernel it is in PyTorch
FROM_DATA = Rules("aten from data")  # our factory -> what makes a tensor of data
IMPLEMENTED: dict[str, Callable[..., Any]] = {}  # PyTorch's kernel, or an overload of it -> a function with its arguments


@functools.cache
def kernels() -> dict[str, list[str]]:
    """Names of PyTorch's overloads by our primitive."""
    found = {}
    for entry in entries():
        if isinstance(entry, Op) and entry.aten is not None and (names := entry.aten.split() or alike(entry)):
            found[entry.key] = names
    return found


def alike(op: Op) -> list[str]:
    """The overloads of PyTorch's kernel that has the operation's own name; none where there is no such kernel."""
    prefix = "" if op.namespace in ("torch", "nn.functional") else op.namespace.replace(".", "_") + "_"
    return [
        f"{prefix}{op.name}.{overload}".removesuffix(".default").removesuffix(".")
        for overload, schema in _schemas(f"{prefix}{op.name}").items()
        if not any(argument.is_out or "Dimname" in argument.real_type.text() for argument in schema.arguments)
    ]


@functools.cache
def primitives() -> dict[str, list[str]]:
    """The table the other way round: our primitives by the name of a packet."""
    found: dict[str, list[str]] = {}
    for key, names in kernels().items():
        for name in names:
            listed = found.setdefault(name.partition(".")[0], [])
            if key not in listed:
                listed.append(key)
    return found


# -- kernels that are called ------------------------------------------------------------------------------------------------------
@functools.cache
def _aten() -> Any:
    """``torch.ops.aten``."""
    return _operations.aten


def overload_named(name: str) -> OpOverload:
    """``'add.Tensor'`` as an object."""
    base, _, overload = name.partition(".")
    found: OpOverload = getattr(getattr(_aten(), base), overload or "default")
    return found


def _signature(schema: FunctionSchema) -> list[tuple[str, str]]:
    """Names and types of a schema's arguments, without those of ``out=`` and without what they share memory with."""
    return [(argument.name, _ALIAS.sub("", argument.real_type.text())) for argument in schema.arguments if not argument.is_out]


_ALIAS = re.compile(r"\([^)]*\)")


def _schemas(packet: str) -> dict[str, FunctionSchema]:
    """The schemas of PyTorch's kernels of a name, by overload."""
    found = getattr(_aten(), packet, None)
    return {} if found is None else {overload: schema for overload, (schema, _) in found._of_aten.items()}


@functools.cache
def sibling(name: str, packet: str, with_out: bool) -> str | None:
    """The overload of another packet, or of the same one, with the same arguments: of ``pow.Tensor_Scalar`` in ``pow_``, ``pow_.Scalar``.

    Args:
        name: an overload such as ``'sum.dim_IntList'``.
        with_out: whether the overload is to have ``out=`` besides.
    Returns:
        A name such as ``'sum.IntList_out'``, or None where there is none.
    """
    base, _, overload = name.partition(".")
    wanted = _signature(_schemas(base)[overload or "default"])
    for other, schema in _schemas(packet).items():
        if any(argument.is_out for argument in schema.arguments) is with_out and _signature(schema) == wanted:
            return f"{packet}.{other}"
    return None


def function_of(name: str) -> Callable[..., Any] | None:
    """The function behind a kernel that flambeau has under another name only."""
    if name in IMPLEMENTED:
        return IMPLEMENTED[name]
    return entry_of(primitives()[name][0]).wrapper if name in primitives() else None


def implementation(name: str, schema: FunctionSchema) -> Callable[..., Any] | None:
    """Function that does the work of an overload, with the schema's arguments; None if the packet's function does."""
    overload = f"{name}.{schema.overload_name}" if schema.overload_name else f"{name}.default"
    found = IMPLEMENTED.get(overload) or IMPLEMENTED.get(name)
    if found is not None:
        return found
    plan = _planned(name, schema)
    if plan is not None:
        return functools.partial(_run, schema, *plan)
    if name in FACTORIES:
        return functools.partial(_make, name, schema)
    return None


def _run(schema: FunctionSchema, op: Any, form: Any, places: list[tuple[str, int | None]], /, *args: Any, **kwargs: Any) -> Any:
    """A call of PyTorch's kernel as a call of ours."""
    bound = bound_arguments(schema, args, kwargs)
    out: Any = tuple([bound[argument.name] for argument in schema.arguments if argument.is_out])
    values = [param.default for param in op.params]
    for name, place in places:
        if place is not None:
            values[place] = 1 if bound[name] is None and name == "correction" else bound[name]
        elif bound[name] != _FIXED[op.name, name]:
            raise NotImplementedError(f"torch.ops.{schema.name.replace('::', '.')}: {name}={bound[name]} is not supported")
    if form is FUNCTION and not out:  # the public function has the fast path
        split = len(values) - len(op.keyword_names)
        return op.wrapper(*values[:split], **dict(zip(op.keyword_names, values[split:], strict=True)))
    return dispatch(op, tuple(values), (out if len(out) > 1 else out[0]) if out else None, form)


def _make(name: str, schema: FunctionSchema, /, *args: Any, **kwargs: Any) -> Any:
    """A call of one of PyTorch's factories."""
    bound = bound_arguments(schema, args, kwargs)
    namespace = "torch" if name in TABLES["torch"] else "Tensor"
    positional = [bound.pop(argument.name) for argument in schema.arguments if not argument.kwarg_only]
    options = {option: value for option, value in bound.items() if value is not None}
    return TABLES[namespace][name].wrapper(*positional, **options)


def bound_arguments(schema: FunctionSchema, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, as they were given: neither numbers nor lists are converted."""
    positional = schema.positional
    if len(args) > len(positional):
        schema.bind(args, kwargs)  # complains
    bound = {argument.name: value for argument, value in zip(positional, args, strict=False)}
    bound.update(kwargs)
    for argument in schema.arguments:
        if argument.name not in bound:
            if not argument.has_default_value():
                schema.bind(args, kwargs)  # complains
            bound[argument.name] = default_of(argument)
    if len(bound) > len(schema.arguments):
        schema.bind(args, kwargs)  # complains
    return bound


def default_of(argument: Argument) -> Any:
    """Value of an argument that is left out."""
    value = argument.default_value
    if value.__class__ is int and "ScalarType" in argument.real_type.text():
        return None  # a dtype by its number in PyTorch's list, the one that the factory chooses itself
    return list(value) if value.__class__ is list else value


def _planned(name: str, schema: FunctionSchema) -> Any:
    """The primitive behind a kernel, its form and the places of the arguments."""
    with_out = any(argument.is_out for argument in schema.arguments)
    for base, form in ((name, FUNCTION), (name.removesuffix("_"), IN_PLACE)):
        for key in primitives().get(base, ()):
            if (key in PREPARED and key not in _PREPARED_ALIKE) or (form is IN_PLACE and base == name):
                continue
            names = [known for known in kernels()[key] if known.partition(".")[0] == base]
            if f"{name}.{schema.overload_name or 'default'}" not in [sibling(known, name, with_out) for known in names]:
                continue
            entry = entry_of(key)
            places = _places(entry, schema)
            if places is not None:
                return entry, IN_PLACE_VIEW if form is IN_PLACE and entry.is_view else form, places
    return None


_PREPARED_ALIKE = frozenset(("add", "mul", "sub"))  # whose usual order of operands is the kernel's


def entry_of(key: str) -> Any:
    """The declaration of a primitive by its key, such as ``'nn.functional.elu'``."""
    namespace, _, name = key.rpartition(".")
    return TABLES[namespace or "torch"][name]


def _places(op: Any, schema: FunctionSchema) -> list[tuple[str, int | None]] | None:
    """Names of a signature's arguments and the places of our parameters, None for what has one value only; None where one is not there."""
    places: list[tuple[str, int | None]] = []
    names = list(op.names)
    for argument in schema.arguments:
        if argument.is_out:
            continue
        name = argument.name
        if name not in names:
            name = _OTHER_NAMES.get((op.name, name)) or (
                "input" if name == "self" and "input" in names else names[0] if name == "self" else ""
            )
        if name in names:
            places.append((argument.name, names.index(name)))
        elif (op.name, argument.name) in _FIXED:
            places.append((argument.name, None))
        else:
            return None
    return places


_OTHER_NAMES = {("_view", "size"): "shape", ("dot", "tensor"): "other", ("_scatter", "value"): "src"}
_OTHER_NAMES.update(
    {(name, "x"): "input" for name in ("airy_ai", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0")}
)
_FIXED = {("elu", "scale"): 1, ("elu", "input_scale"): 1, ("_leaky_relu_backward", "self_is_result"): False}


# -- calls of ours ---------------------------------------------------------------------------------------------------------------------
def translated(call: Call) -> tuple[OpOverload, tuple[Any, ...], dict[str, Any]]:
    """A call of a primitive in PyTorch's terms: the overload, its arguments, trailing defaults left out."""
    op, values, form = call.op, call.values, call.form
    key = op.key
    if key in _WITH_NUMBERS and thread.in_library and call.out is None and _is_number(values[1]):
        found = overload_named(f"{key}{'' if form is FUNCTION else '_'}.Scalar")
        return found, *pruned(found, values if key in ("add", "sub") else values[:2], {})
    prepare = PREPARED.of(op)
    prepared = None if prepare is None else prepare(*values)
    if prepared is not None:
        name, args, kwargs = prepared
        shown = _of_form(name, form, call.out)
        if shown is not None:
            found = overload_named(shown)
            return found, *_with_result(pruned(found, args, kwargs), found, call.out)
    for name in kernels().get(key, ()):
        found = overload_named(name)
        arguments = _fitting(op, found._schema, values)
        if arguments is not None:
            shown = _of_form(name, form, call.out)
            if shown is not None:
                found = overload_named(shown)
                return found, *_with_result(arguments, found, call.out)
    return private(op, form), values, {} if call.out is None else {"out": call.out}


_WITH_NUMBERS = frozenset(("add", "sub", "mul", "div"))  # which PyTorch's own code calls with numbers as they are


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, Tensor)


def _with_result(arguments: Any, found: OpOverload, out: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, kwargs = arguments
    if out is not None:
        outs = [argument.name for argument in found._schema.arguments if argument.is_out]
        kwargs = {**kwargs, **dict(zip(outs, out if isinstance(out, (tuple, list)) else (out,), strict=True))}
    return args, kwargs


def pruned(found: OpOverload, args: Any, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as ``__torch_dispatch__`` is shown them: without those that are at their defaults, by position from the end on."""
    placed = found._schema.positional
    by_name = {argument.name: argument for argument in found._schema.arguments}
    left = list(args)
    while left and len(left) <= len(placed) and _is_default(placed[len(left) - 1], left[-1]):
        left.pop()
    return tuple(left), {name: value for name, value in kwargs.items() if name not in by_name or not _is_default(by_name[name], value)}


def _of_form(name: str, form: Any, out: Any) -> str | None:
    """The overload that a call in this form is; None where PyTorch has none."""
    base = name.partition(".")[0]
    if form is IN_PLACE or form is IN_PLACE_VIEW:
        return sibling(name, f"{base}_", False)
    return name if out is None else sibling(name, base, True)


_FITTED: dict[Any, Any] = {}


def _fitting(op: Any, schema: FunctionSchema, values: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of an overload, or None where the call is not one of it."""
    key = (op, schema.name, schema.overload_name)
    if key not in _FITTED:
        places = _places(op, schema)
        used = {place for _, place in places or ()}
        rest = [(k, p.default) for k, p in enumerate(op.params) if k not in used and p.name not in _FREE]
        _FITTED[key] = (None if places is None else [place for _, place in places], rest)
    places, rest = _FITTED[key]
    if places is None:
        return None
    for place, default in rest:
        if values[place] is not default and values[place] != default:
            return None
    args, kwargs = [], {}
    for argument, place in zip([argument for argument in schema.arguments if not argument.is_out], places, strict=True):
        value = values[place] if place is not None else _FIXED[op.name, argument.name]
        if not _fits(argument, value, op.name):
            return None
        value = _as_argument(argument, value)
        if not argument.kwarg_only:
            args.append(value)
        elif not _is_default(argument, value):
            kwargs[argument.name] = value
    while args and _is_default(schema.positional[len(args) - 1], args[-1]):
        args.pop()
    return tuple(args), kwargs


def _fits(argument: Argument, value: Any, name: str) -> bool:
    kind = argument.real_type.text()
    if argument.real_type.name == "Tensor":
        return isinstance(value, Tensor) or (name in NUMBERS and argument.name == "other" and isinstance(value, (int, float, complex)))
    if kind.startswith("Tensor"):
        return (value is None and kind.endswith("?")) or isinstance(value, (list, tuple) if "[" in kind else Tensor)
    if isinstance(value, Tensor):
        return False
    if value is None:
        return kind.endswith("?") or argument.default_value == []
    return not (kind in ("int", "int?", "SymInt", "SymInt?") and isinstance(value, (list, tuple)))


def _as_tensors(indices: Any) -> list[Any]:
    """Indices by dimension as tensors, the caller's own where they are known."""
    known = {id(tensor._array): tensor for tensor in getattr(indices, "tensors", ())}
    return [
        index if index is None or isinstance(index, Tensor) else known.get(id(index)) if id(index) in known else wrap(np.asarray(index))
        for index in indices
    ]


def _as_argument(argument: Argument, value: Any) -> Any:
    kind = argument.real_type.text()
    if kind == "Tensor?[]":
        return _as_tensors(value)
    if "[" in kind and value is not None:
        return list(value) if isinstance(value, (list, tuple)) else [value]
    if value is None and argument.default_value == []:
        return []
    return float(value) if kind == "float" and value.__class__ is int else value


def _is_default(argument: Argument, value: Any) -> bool:
    if not argument.has_default_value() or isinstance(value, Tensor) or isinstance(value, (Dtype, Layout, MemoryFormat)):
        return False
    default = argument.default_value
    if value.__class__ is list and default.__class__ is int:
        return all(item == default for item in value)
    return value is default or (value.__class__ in (int, float, bool, str, list) and value == default)


def private(op: Any, form: Any) -> OpOverload:
    """Overload ``torch.ops.flambeau.NAME`` for an operation without a counterpart in PyTorch."""
    key = (op, form)
    if key not in PRIVATE:
        ending = "_" if form is IN_PLACE or form is IN_PLACE_VIEW else ""

        def run(*values: Any, out: Any = None) -> Any:
            return dispatch(op, values, out, form)

        words = ", ".join([f"Any {'self' if p.name == 'input' else p.name}" for p in op.params])
        if ending:
            words = words.replace("Any self", "Tensor(a!) self", 1)
        packet = OpOverloadPacket("flambeau", op.name + ending)
        schema = parse_schema(f"flambeau::{op.name}{ending}({words}) -> {'Tensor(a!)' if ending else 'Any'}")
        packet.define(overload := OpOverload(packet, run, schema, []))
        PRIVATE.setdefault(key, overload)
    return PRIVATE[key]


def whole(call: Call) -> tuple[OpOverload, tuple[Any, ...], dict[str, Any]]:
    """A call of a composite as one kernel, PyTorch's where it has the same arguments."""
    entry, values = call.op, call.values
    kwargs = {} if call.out is None else {"out": call.out}
    found = getattr(getattr(_aten(), entry.name, None), "default", None)
    if found is None or call.out is not None or len(found._schema.positional) != len(values):
        return private(entry, COMPOSITE), values, kwargs
    return found, *pruned(found, values, {})


def translated_factory(call: Call) -> tuple[OpOverload, tuple[Any, ...], dict[str, Any]]:
    """A call of a factory in PyTorch's terms."""
    entry = call.op
    named = dict(zip(entry.names, call.values, strict=True))
    named.pop("requires_grad", None)
    options = {name: named.pop(name) for name in ("dtype", "layout", "device", "pin_memory") if name in named}
    kwargs = {name: value for name, value in options.items() if value is not None and name != "pin_memory"}
    model = call.values[entry.model] if entry.model is not None else None
    if "device" in options and not isinstance(model, Tensor):
        where = options["device"] if options["device"] is not None else thread.creation_device
        kwargs["device"] = cpu if where is None else device(where)
    elif "device" in kwargs:
        kwargs["device"] = device(kwargs["device"])
    kwargs["pin_memory"] = bool(options.get("pin_memory"))
    if named.get("generator", 0) is None:
        named.pop("generator")
    if named.get("memory_format", 0) is None:
        named.pop("memory_format")
    for name in ("memory_format", "generator"):
        if name in named:
            kwargs[name] = named.pop(name)
    if call.out is not None:
        kwargs["out"] = call.out
    arguments = FACTORIES.get(entry.name)
    if arguments is None:
        return private(entry, FACTORY), tuple(call.values), {} if call.out is None else {"out": call.out}
    overload, args = arguments(named)
    found = overload_named(overload)
    taken = {argument.name for argument in found._schema.arguments}
    if "generator" in kwargs and "generator" not in taken:
        overload = f"{overload.removesuffix('default')}generator".replace("low", "low_")
        found = overload_named(overload)
    if call.out is None:
        return found, tuple(args), {name: value for name, value in kwargs.items() if name in taken or name not in _OPTIONS}
    options = {name: value for name, value in kwargs.items() if name in ("out", "generator")}
    with_out = sibling_factory(overload)
    if with_out is None:
        return private(entry, FACTORY), tuple(call.values), {"out": call.out}
    return overload_named(with_out), tuple(args), options


@functools.cache
def sibling_factory(name: str) -> str | None:
    """The overload with ``out=`` of a factory, which has no dtype and device of its own; further arguments have defaults."""
    base, _, overload = name.partition(".")
    wanted = [word for word in _signature(_schemas(base)[overload or "default"]) if word[0] not in _OPTIONS]
    for other, schema in _schemas(base).items():
        found = [word for word in _signature(schema) if word[0] not in _OPTIONS]
        if any(argument.is_out for argument in schema.arguments) and found[: len(wanted)] == wanted:
            if all(argument.has_default_value() for argument in schema.positional[len(wanted) :]):
                return f"{base}.{other}"
    return None


_OPTIONS = frozenset(("dtype", "layout", "device", "pin_memory", "memory_format"))


def _sizes(named: dict[str, Any], name: str = "sizes") -> list[int]:
    given: Any = named.get(name) or ()
    if not given and named.get("size") is not None:
        given = named["size"]
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = given[0]
    return [n.__index__() for n in ((given,) if isinstance(given, int) else given)]


def _bounded(name: str) -> Callable[[dict[str, Any]], tuple[str, list[Any]]]:
    """``arange``: one to three bounds, by position or by name."""

    def arguments(named: dict[str, Any]) -> tuple[str, list[Any]]:
        bounds = list(named.get("bounds") or ())
        if named.get("end") is not None:
            bounds = [*([named["start"]] if named.get("start") is not None else []), *bounds, named["end"]]
        if named.get("step") is not None:
            bounds = [*([0] if len(bounds) == 1 else []), *bounds, named["step"]]
        overload = ("default", "start", "start_step")[len(bounds) - 1]
        if overload == "start_step" and bounds[2] == 1:
            bounds.pop()
        return f"{name}.{overload}", bounds

    return arguments


def _randint(name: str, low_name: str, with_size: bool) -> Callable[[dict[str, Any]], tuple[str, list[Any]]]:
    def arguments(named: dict[str, Any]) -> tuple[str, list[Any]]:
        bounds = list(named.get("bounds") or ())
        size: Any = named.get("size")
        if with_size and size is None:
            size = bounds.pop()
        high, low = named.get("high"), named.get("low")
        if high is None:
            *first, high = bounds
            low = first[0] if first else low
        elif bounds:
            low = bounds[0]
        model = [] if with_size else [named["input"]]
        sizes = [list(size)] if with_size else []
        return (
            (f"{name}.default", [*model, high, *sizes])
            if low is None or (not with_size and not low)
            else (f"{name}.{low_name}", [*model, low, high, *sizes])
        )

    return arguments


def _normal(named: dict[str, Any]) -> tuple[str, list[Any]]:
    mean = named["means"] if named["mean"] is None else named["mean"]
    std = 1.0 if named["std"] is None else named["std"]
    kinds = ["Tensor" if isinstance(value, Tensor) else "float" for value in (mean, std)]
    return f"normal.{'_'.join(kinds)}", [mean, std, *([_sizes(named)] if "Tensor" not in kinds else [])]


def _named(overload: str, words: str) -> Callable[[dict[str, Any]], tuple[str, list[Any]]]:
    """A factory whose arguments have the same names here; ``sizes`` may have been given one by one."""

    def arguments(named: dict[str, Any]) -> tuple[str, list[Any]]:
        values = [_sizes(named) if word == "sizes" else named[word] for word in words.split()]
        return overload, [list(value) if isinstance(value, tuple) else value for value in values]

    return arguments


def _window(name: str) -> Callable[[dict[str, Any]], tuple[str, list[Any]]]:
    def arguments(named: dict[str, Any]) -> tuple[str, list[Any]]:
        length, periodic, *rest = [named[key] for key in named if key not in _OPTIONS]
        if any(value is not None and value != 0.54 and value != 0.46 for value in rest):
            return f"{name}.periodic_alpha_beta", [length, periodic, *rest]
        return (f"{name}.default", [length]) if periodic is True else (f"{name}.periodic", [length, periodic])

    return arguments


FACTORIES: dict[str, Callable[[dict[str, Any]], tuple[str, list[Any]]]] = {
    **{name: _named(f"{name}.default", "sizes") for name in ("zeros", "ones", "rand", "randn")},
    **{name: _named(f"{name}.default", "input") for name in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")},
    **{name: _named(f"{name}.default", "input sizes") for name in ("new_zeros", "new_ones", "new_empty")},
    **{name: _named(f"{name}.default", "row col offset") for name in ("tril_indices", "triu_indices")},
    **{name: _window(name) for name in ("hann_window", "hamming_window", "bartlett_window", "blackman_window")},
    "arange": _bounded("arange"),
    "empty": _named("empty.memory_format", "sizes"),
    "empty_strided": _named("empty_strided.default", "size stride"),
    "eye": lambda named: ("eye.default", [named["n"]]) if named.get("m") is None else ("eye.m", [named["n"], named["m"]]),
    "full": _named("full.default", "size fill_value"),
    "full_like": _named("full_like.default", "input fill_value"),
    "linspace": _named("linspace.default", "start end steps"),
    "logspace": _named("logspace.default", "start end steps base"),
    "new_empty_strided": _named("new_empty_strided.default", "input size stride"),
    "new_full": _named("new_full.default", "input size fill_value"),
    "normal": _normal,
    "randint": _randint("randint", "low", True),
    "randint_like": _randint("randint_like", "low_dtype", False),
    "randperm": _named("randperm.default", "n"),
    "scalar_tensor": _named("scalar_tensor.default", "s"),
}
