"""Arguments of PyTorch's kernels for a profile: our call's values in the order of a kernel's schema, its defaults filled in.

    arguments_of(call, "aten::add")       the schema, and a value for each of its arguments
    facts_of(values)                      shapes, strides, dtypes and values as a profile with ``record_shapes`` has them

A number in a tensor's place is shown as the tensor that PyTorch makes of it, and so is a transposed weight that is never made here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.calls.dispatch import FACTORY, Call
from ..core.calls.operation import Op
from ..core.device import device
from ..core.dtype import dtype as Dtype
from ..core.layout import layout as Layout, memory_format as MemoryFormat
from ..core.shape import contiguous_strides, element_strides
from ..core.state import thread
from ..core.tensor import Tensor
from .calls import PREPARED, bound_arguments, kernels, translated
from .overloads import aten_schemas
from .schema import _DTYPES, WRONG, Argument, FunctionSchema, parse_schema
from .whole import WHOLE
from .whole_calls import as_whole

F = "nn.functional"
LAST = 2**63 - 1  # the end of a slice that has none

# PyTorch's C++ names of dtypes.
TYPE_NAMES: dict[str, str] = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int",
    "uint16": "short unsigned int", "uint32": "unsigned int", "uint64": "long unsigned int",
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "complex32": "c10::complex<c10::Half>", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>", "bool": "bool",
}  # fmt: skip
_LAYOUTS = {"strided": 0, "sparse_coo": 1, "sparse_csr": 2, "sparse_csc": 4, "sparse_bsr": 5, "sparse_bsc": 6, "jagged": 8}
_FORMATS = {"contiguous_format": 0, "preserve_format": 1, "channels_last": 2, "channels_last_3d": 3}


class Shown:
    """A tensor that PyTorch makes on the way: an array with its memory, or sizes alone."""

    __slots__ = ("__weakref__", "array", "sizes")

    def __init__(self, array: Any = None, sizes: Sequence[int] | None = None):
        self.array, self.sizes = array, tuple(array.shape if sizes is None else sizes)


# -- facts about tensors ----------------------------------------------------------------------------------------------------------------
def type_name(value: Any) -> str:
    """PyTorch's C++ name of a tensor's dtype."""
    if not isinstance(value, Shown):
        name = str(value.dtype).rpartition(".")[2]
        return TYPE_NAMES.get(name) or f"c10::{name[0].upper()}{name[1:]}" if not name.startswith("q") else f"c10::{name}"
    return "float" if value.array is None else TYPE_NAMES.get(value.array.dtype.name, "float")


def shape_of(value: Any) -> list[int]:
    """Sizes of a tensor, or of what stands for one."""
    if isinstance(value, _Seen):
        return list(value.shape)
    return list(value._array.shape if isinstance(value, Tensor) else value.sizes)


def strides_of(value: Any) -> list[int]:
    """Strides in elements; of sizes alone, those of a contiguous tensor. A tensor without strides has none."""
    if isinstance(value, _Seen):
        return [step // value.itemsize for step in value.strides or ()]
    array = value._array if isinstance(value, Tensor) else value.array
    if array is None:
        return list(contiguous_strides(value.sizes))
    return list(element_strides(array)) if _bytes_between(array) is not None else []


def is_tensor(value: Any) -> bool:
    """Whether this is a tensor, or stands for one."""
    return isinstance(value, (Tensor, Shown, _Seen))


def are_tensors(value: Any) -> bool:
    """Whether this is a list with tensors in it."""
    return value.__class__ in (list, tuple) and any(is_tensor(part) for part in value)


class Facts(NamedTuple):
    """Facts that a profile notes of arguments, one entry each: ``shapes`` and ``strides`` are lists of lists for lists of tensors."""

    shapes: list[Any]
    strides: list[Any]
    dtypes: list[str]
    values: list[Any]


class _Seen(NamedTuple):
    """A tensor as it was when it was seen, noted as cheaply as can be."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in bytes
    itemsize: int
    dtype: Any


def seen(values: Sequence[Any]) -> list[Any]:
    """Arguments as a profile keeps them: of tensors, no more than ``facts_of`` tells."""
    return [_seen(value) if value.__class__ is Tensor else value if value.__class__ in _NUMBERS else _seen_other(value) for value in values]


_NUMBERS = frozenset((int, float, bool, type(None), str))


def _seen(tensor: Any) -> _Seen:
    array = tensor._array
    return _Seen(array.shape, _bytes_between(array), getattr(array, "itemsize", 1), tensor.dtype)


def _bytes_between(array: Any) -> tuple[int, ...] | None:
    """An array's strides; None of one that has none, such as a sparse one."""
    try:
        strides: tuple[int, ...] = array.strides
    except (AttributeError, RuntimeError):
        return None
    return tuple([step * array.itemsize for step in element_strides(array)]) if 0 in array.shape else strides


def _seen_other(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _seen(value)
    if isinstance(value, Shown):  # whose array may be a parameter's
        name = "float32" if value.array is None else value.array.dtype.name
        return _Seen(value.sizes, tuple(strides_of(value)), 1, name if name in TYPE_NAMES else "float32")
    return [_seen_other(part) for part in value] if isinstance(value, (list, tuple)) else value


def facts_of(values: Sequence[Any]) -> Facts:
    """Shapes, strides and dtypes of tensors, and values of all else.

    Args:
        values: as ``seen`` gave them.
    """
    found = Facts([], [], [], [])
    for value in values:
        several = not isinstance(value, _Seen) and are_tensors(value)
        parts = [part for part in value if is_tensor(part)] if several else [value] if is_tensor(value) else []
        shapes, strides = [shape_of(part) for part in parts], [strides_of(part) for part in parts]
        found.shapes.append(shapes if several else shapes[0] if parts else [])
        found.strides.append(strides if several else strides[0] if parts else [])
        found.dtypes.append("TensorList" if several else type_name(value) if parts else _kind_name(value))
        found.values.append(None if parts or isinstance(value, device) else value)
    return found


def _kind_name(value: Any) -> str:
    if isinstance(value, (bool, int, float, complex)):
        return "Scalar"
    return "ScalarList" if isinstance(value, (list, tuple)) and (not value or isinstance(value[0], (bool, int, float, complex))) else ""


# -- arguments --------------------------------------------------------------------------------------------------------------------------
_Plan = tuple[FunctionSchema, tuple[Any, ...]]  # a schema, and for each argument itself, the place of our value or None, and a constant
# By operation, form, kernel, and what an overload is chosen by: whether the library itself calls, types of values, which of these are
# defaults. None where a call has to be translated each time.
_plans: dict[Any, _Plan | None] = {}


def arguments_of(call: Call, name: str) -> tuple[FunctionSchema | None, list[Any]]:
    """The schema of a kernel, and its arguments as a call of ours gives them; None and our own values where PyTorch has no such kernel."""
    arrange = _ARRANGED.get((call.op.key, name))
    if arrange is not None:
        values = arrange(*call.values)
        return _with_count(name.partition("::")[2], len(values)), values
    if call.out is not None or call.form is FACTORY:
        return _found(call, name)
    given = call.values
    kinds = [None if value is default else value.__class__ for value, default in zip(given, _defaults(call.op), strict=True)]
    key = (call.op, call.form, name, bool(thread.in_library), *kinds)
    plan = _plans.get(key, ...)
    if plan is ...:
        schema, values = _found(call, name)
        _plans[key] = None if schema is None else _planned(call, schema, values)
        return schema, values
    if plan is None:
        return _found(call, name)
    schema, steps = plan
    return schema, [
        constant if place is None else value if (value := given[place]).__class__ is Tensor else shown(argument, value)
        for argument, place, constant in steps
    ]


@functools.cache
def _defaults(op: Any) -> tuple[Any, ...]:
    return tuple([parameter.default for parameter in op.params])


def _planned(call: Call, schema: FunctionSchema, values: list[Any]) -> _Plan | None:
    """A plan by names, where it gives these arguments and no rule looks at the values."""
    if call.op.key in PREPARED or call.op.key in WHOLE:
        return None
    names, steps = list(call.op.names), []
    for argument, value in zip(schema.arguments, values, strict=True):
        wanted = argument.name if argument.name in names else "input" if argument.name == "self" else ""
        place = names.index(wanted) if wanted in names else None
        if place is None and (is_tensor(value) or are_tensors(value)):
            return None
        if place is not None and not _is_same(shown(argument, call.values[place]), value):
            return None
        steps.append((argument, place, value if place is None else None))  # plans outlive the call's tensors
    return schema, tuple(steps)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, Shown) and isinstance(other, Shown):
        return True
    if is_tensor(one) or is_tensor(other):
        return one is other
    if are_tensors(one) or are_tensors(other):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _found(call: Call, name: str) -> tuple[FunctionSchema | None, list[Any]]:
    packet = name.partition("::")[2]
    for translate in (_divided, as_whole):
        try:
            found: Any = translate(call)
            if not isinstance(found, tuple) or len(found) != 3 or found[0]._opname != packet or found[0].namespace != "aten":
                continue
            schema = found[0]._schema
            bound = bound_arguments(schema, *found[1:])
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError):
            continue  # the call itself says what is wrong
        if call.form is FACTORY and "pin_memory" in bound and bound["pin_memory"] is None:
            bound["pin_memory"] = False
        return schema, [shown(argument, bound[argument.name]) for argument in schema.arguments]
    return None, list(call.values)


def _divided(call: Call) -> Any:
    """A call as one of PyTorch's inner kernels; None of what is no primitive."""
    is_known = isinstance(call.op, Op) and call.form is not FACTORY and (call.op.key in kernels() or call.op.key in PREPARED)
    return translated(call) if is_known else None


@functools.cache
def _with_count(packet: str, count: int) -> FunctionSchema | None:
    """The first schema of a kernel that has so many arguments."""
    schemas = (parse_schema(f"aten::{text}") for text, _ in aten_schemas().get(packet, ()))
    return next((schema for schema in schemas if len(schema.arguments) == count), None)


def schema_of(packet: str, values: Sequence[Any]) -> FunctionSchema | None:
    """The schema of a range that is no call of an operation, with these arguments."""
    return _with_count(packet.partition("::")[2], len(values))


_WORDS = {"none": 0, "mean": 1, "sum": 2}  # of reductions, which kernels have by number


def shown(argument: Argument, value: Any) -> Any:
    """A value as a kernel with this argument has it: lists for single numbers, numbers for words of PyTorch's, floats for integers."""
    kind = argument.real_type
    if value is None and argument.name == "end":
        return LAST
    if kind.name == "Tensor" and isinstance(value, (bool, int, float, complex)):
        return Shown(np.asarray(value))
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Dtype):
        name = str(value).rpartition(".")[2]
        return _DTYPES.index(name) if name in _DTYPES else value
    if isinstance(value, Layout):
        return _LAYOUTS.get(str(value).rpartition(".")[2], value)
    if isinstance(value, MemoryFormat):
        return _FORMATS.get(str(value).rpartition(".")[2], value)
    inner = kind.parts[0] if kind.name == "Optional" else kind
    if inner.name == "int" and value in _WORDS:
        return _WORDS[value]
    if inner.name == "List" and isinstance(value, int):
        return [value] * (inner.size or 1)
    converted = argument.convert(value)
    return value if converted is WRONG else converted


# -- what is arranged otherwise ---------------------------------------------------------------------------------------------------------
def _turned(weight: Any) -> Any:
    return Shown(weight._array.T) if weight.dim() == 2 and isinstance(weight._array, np.ndarray) else Shown(sizes=weight._array.shape[::-1])


def _flat(input: Any) -> Any:
    array = input._array
    sizes = (math.prod(array.shape[:-1]), *array.shape[-1:])
    if array.ndim == 2:
        return input
    return Shown(array.reshape(sizes)) if isinstance(array, np.ndarray) and array.flags.c_contiguous else Shown(sizes=sizes)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}
_SOFTMAX = ("softmax", "log_softmax")
_ARRANGED: dict[tuple[str, str], Callable[..., list[Any]]] = {
    ("_to_copy", "aten::to"): lambda input, dtype=None, *rest: [input, _numbered(dtype), False, False, None],
    (f"{F}.linear", "aten::linear"): lambda input, weight, bias=None, *rest: [input, weight, bias],
    (f"{F}.linear", "aten::addmm"): lambda input, weight, bias, *rest: [bias, _flat(input), _turned(weight), 1, 1],
    (f"{F}.linear", "aten::matmul"): lambda input, weight, *rest: [input, _turned(weight)],
    (f"{F}.linear", "aten::mm"): lambda input, weight, *rest: [_flat(input), _turned(weight)],
    (f"{F}.embedding", "aten::embedding"): lambda input, weight, padding_idx, max_norm, norm_type, by_frequency, sparse: [
        weight, input, -1 if padding_idx is None else padding_idx, by_frequency, sparse,
    ],
    (f"{F}.embedding_bag", "aten::embedding_bag"): lambda input, weight, offsets, max_norm, norm_type, by_frequency, mode, sparse, *rest: [
        weight, input, offsets, by_frequency, _BAG_MODES.get(mode, mode), sparse, *rest,
    ],
    (f"{F}._nll_loss", "aten::nll_loss"): lambda input, target, weight, reduction, ignore_index: [
        input, target, weight, _WORDS.get(reduction, reduction), ignore_index,
    ],
    ("Tensor.type", "aten::to"): lambda input, dtype=None, *rest: [input, _numbered(dtype), False, False, None],
    (f"{F}.unfold", "aten::im2col"): lambda input, *sizes: [input, *[_pair(sizes[place]) for place in (0, 1, 2, 3)]],
    **{(f"{F}.{name}", f"aten::{name}"): lambda input, dim, level, dtype: [input, dim, _numbered(dtype)] for name in _SOFTMAX},
    **{(f"{F}.{name}", f"aten::_{name}"): lambda input, dim, *rest: [input, dim, False] for name in _SOFTMAX},
    (f"{F}.dropout", "aten::dropout"): lambda input, p, training, *rest: [input, float(p), training],
    **{("matmul", f"aten::{name}"): lambda input, other: [input, other] for name in ("mm", "bmm", "mv", "dot")},
}  # fmt: skip


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def _numbered(dtype: Any) -> Any:
    if dtype is None:
        return None
    name = str(dtype).rpartition(".")[2]
    return _DTYPES.index(name) if name in _DTYPES else dtype
