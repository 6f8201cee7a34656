"""``torch.f`` and ``ops.prim.f`` of an archive's code: operators by their names in PyTorch's registry.

Operators of tensors are PyTorch's kernels, which ``flambeau.aten`` knows with all overloads; what follows here are those of numbers, texts,
lists and dicts, and the spellings that only archives have.
"""

from __future__ import annotations

import builtins
import functools
import math
import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from .. import ops as _operations
from ..aten.calls import IMPLEMENTED
from ..aten.overloads import OpOverloadPacket, _OpNamespace, aten_schemas
from ..aten.schema import _DTYPES
from ..autograd.api import grad as _gradients
from ..core import dtype as dtypes, layout as layouts
from ..core.calls.registry import TABLES, resolve
from ..core.device import device
from ..core.dtype import dtype
from ..core.layout import layout, memory_format
from ..core.random.generator import default_generator
from ..core.state import grad_enabled, set_grad, thread
from ..core.tensor import Tensor
from ..facades.futures import Future
from ._values import raised

# -- dtypes and the like, which are numbers in archives --------------------------------------------------------------------------------
_LAYOUTS = [layouts.strided, layouts.sparse_coo, layouts.sparse_csr, layouts._mkldnn, layouts.sparse_csc, layouts.sparse_bsr]
_LAYOUTS += [layouts.sparse_bsc, layouts.jagged]
_FORMATS = [layouts.contiguous_format, layouts.preserve_format, layouts.channels_last, layouts.channels_last_3d]


def number_of_dtype(value: dtype) -> int:
    """A dtype's number in PyTorch's list."""
    return _DTYPES.index(str(value).removeprefix("torch."))


def number_of_layout(value: layout) -> int:
    """A layout's number in PyTorch's list."""
    return _LAYOUTS.index(value)


def number_of(value: Any) -> int | None:
    """The number that stands for a dtype, a layout or a memory format in an archive; None for anything else."""
    if isinstance(value, dtype):
        return number_of_dtype(value)
    if isinstance(value, layout):
        return number_of_layout(value)
    return _FORMATS.index(value) if isinstance(value, memory_format) else None


def _listed(choices: list[Any], what: str) -> Callable[[Any], Any]:
    def find(number: Any) -> Any:
        if type(number) is not int:
            return number
        if not 0 <= number < len(choices) or choices[number] is None:
            raise raised(f"{what} {number} is not supported")
        return choices[number]

    return find


_dtype_of = _listed([dtypes.ALL.get(name) or getattr(dtypes, name, None) for name in _DTYPES], "dtype number")
_OBJECTS = {
    "ScalarType": _dtype_of,
    "Layout": _listed(_LAYOUTS, "layout number"),
    "MemoryFormat": _listed(_FORMATS, "memory format number"),
}
_KEYWORDS = {"dtype": _OBJECTS["ScalarType"], "layout": _OBJECTS["Layout"], "memory_format": _OBJECTS["MemoryFormat"]}


_REFUSED = frozenset([("aten", "from_file")])


# -- kernels ---------------------------------------------------------------------------------------------------------------------------
class Operator:
    """One operator of an archive's code, with all its overloads.

    Args:
        name: ``add``. namespace: ``aten``, ``prim``, or that of a library.
    """

    def __init__(self, name: str, namespace: str) -> None:
        self.name, self.namespace = name, namespace
        self._always = _PRIM.get(name) if namespace == "prim" else _ALWAYS.get(name)
        self._plain = _PLAIN.get(name) if namespace == "aten" else None
        self._chosen: dict[Any, Any] = {}  # overload by the types of the arguments

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if "self" in kwargs and not args:  # which has another name in the operation itself
            args, kwargs = (kwargs["self"],), {name: value for name, value in kwargs.items() if name != "self"}
        if self._always is not None:
            return self._always(*args, **kwargs)
        if self._plain is not None and not any(isinstance(value, Tensor) for value in args[:2]):
            return self._plain(*args, **kwargs)
        key = (*map(_kind, args), *kwargs, *map(_kind, kwargs.values()))
        chosen = self._chosen.get(key)
        if chosen is None:
            chosen = self._chosen[key] = self._choose(args, kwargs)
        overload, places, is_list = chosen
        if places:
            args = tuple([places[k](value) if k in places else value for k, value in enumerate(args)])
        if kwargs:
            kwargs = {name: places[name](value) if name in places else value for name, value in kwargs.items()}
        result = overload(*args, **kwargs)
        return list(result) if is_list else result

    def _packet(self) -> Any:
        if (self.namespace, self.name) in _REFUSED:
            raise raised(f"{self.namespace}::{self.name} is not supported in code of an archive: it reads or writes files")
        space = getattr(_operations, self.namespace, None) if self.namespace.isidentifier() else None
        packet = getattr(space, self.name, None) if isinstance(space, _OpNamespace) else None
        if not isinstance(packet, OpOverloadPacket) or not packet.overloads():
            raise raised(f"Unknown builtin op: {self.namespace}::{self.name}.")
        return packet

    def _choose(self, args: Any, kwargs: Any) -> tuple[Any, dict[Any, Any], bool]:
        """The overload for some arguments, with what makes objects of numbers among them, and whether it gives a list."""
        packet = self._packet()
        overload = packet.fitting(args, kwargs)
        places: dict[Any, Any] = {}
        for place, argument in enumerate(overload._schema.arguments):
            kind = argument.real_type
            convert = _OBJECTS.get((kind.parts[0] if kind.name == "Optional" else kind).name)
            if convert is not None:
                places[place] = places[argument.name] = convert
        return _direct(overload), places, _gives_list(overload)

    def __repr__(self) -> str:
        return f"{self.namespace}::{self.name}"


def _kind(value: Any) -> Any:
    """The part of a value that the choice of an overload looks at: a list's first element as well."""
    kind = value.__class__
    if kind is list or kind is tuple:
        return kind, value[0].__class__ if value else None, any(item is None for item in value)
    return kind


def _direct(overload: Any) -> Any:
    """The public function that an overload is, where it has the same arguments: it is called without being looked up and bound again."""
    name, schema = overload._opname, overload._schema
    if overload.namespace != "aten" or name in IMPLEMENTED or f"{name}.{overload._overloadname}" in IMPLEMENTED:
        return overload
    for table in ("torch", "nn.functional"):
        entry = TABLES[table].get(name)
        names = list(getattr(entry, "names", ()))
        wanted = [names[0] if argument.name == "self" and names else argument.name for argument in schema.positional]
        if entry is not None and names[: len(wanted)] == wanted and {argument.name for argument in schema.arguments} <= {*names, "self"}:
            return entry.wrapper
    return overload


def _gives_list(overload: Any) -> bool:
    """Whether a result is a list in TorchScript, where Python's functions give tuples and sizes."""
    returns = overload._schema.returns
    return len(returns) == 1 and returns[0].real_type.name == "List"


@functools.cache
def _gives_lists(name: str) -> bool:
    """Whether the results of an operator with all its overloads are lists."""
    packet = getattr(_operations.aten, name, None)
    overloads = packet.overloads() if isinstance(packet, OpOverloadPacket) else []
    return bool(overloads) and all(_gives_list(getattr(packet, overload)) for overload in overloads)


@functools.cache
def operator(name: str, namespace: str = "aten") -> Any:
    """The operator of a name. One that does not exist says so when it is called: an archive may have code that never runs."""
    return Operator(name, namespace)


def is_method(name: str) -> bool:
    """Whether TorchScript has an operator, or a method, of that name for tensors."""
    return name in _ALWAYS or name in _METHODS or name in aten_schemas()


def method(name: str, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """``tensor.name(...)`` in code of an archive, where numbers may stand for lists of one or several.

    Raises:
        torch.jit.Error: there is no such operator.
    """
    if name in _ALWAYS or name in ("size", "to", "stride") or name.startswith("_") or not callable(getattr(Tensor, name, None)):
        return operator(name)(tensor, *args, **kwargs)
    if not is_method(name):
        raise raised(f"Tensor has no attribute or method '{name:.100}'")
    for word in kwargs.keys() & _KEYWORDS.keys():
        kwargs[word] = _KEYWORDS[word](kwargs[word])
    result = getattr(tensor, name)(*args, **kwargs)
    return list(result) if _gives_lists(name) else result


# Methods that TorchScript makes of other operators.
_METHODS = frozenset("float double half int long short bool byte char bfloat16 cpu cuda tolist type_as nelement ndimension".split())


# -- spellings of tensors' operators that archives alone have ----------------------------------------------------------------------------
_OF_TO = ("non_blocking", "copy", "memory_format")


def _to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """``aten::to``: what the numbers and names of an archive mean depends on the first."""
    first = args[0] if args else False
    if isinstance(first, bool):
        order: tuple[str, ...] = _OF_TO
    elif isinstance(first, Tensor):
        order = ("other", *_OF_TO)
    else:
        order = ("dtype", *_OF_TO) if isinstance(first, (int, dtype)) else ("device", "dtype", *_OF_TO)
    given = {**dict(zip(order, args, strict=False)), **kwargs}
    given = {word: _KEYWORDS[word](value) if word in _KEYWORDS else value for word, value in given.items() if value is not None}
    other = [given.pop("other")] if "other" in given else []
    return tensor.to(*other, **{word: value for word, value in given.items() if word not in ("layout", "pin_memory")})


def _tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    return resolve("torch", "tensor")(data, dtype=_dtype_of(dtype), device=device, requires_grad=requires_grad)


def _size(tensor: Any, dim: Any = None) -> Any:
    return list(tensor.shape) if dim is None else tensor.shape[dim]


def _stride(tensor: Any, dim: Any = None) -> Any:
    return list(tensor.stride()) if dim is None else tensor.stride(dim)


def _convolution(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: Any, *rest: Any) -> Any:
    output_padding, groups = rest[:2]
    return _operations.aten.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _sliced(value: Any, *rest: Any, **named: Any) -> Any:
    """``aten::slice``: of a tensor along a dimension; of a list or a text."""
    order = ("dim", "start", "end", "step") if isinstance(value, Tensor) else ("start", "end", "step")
    given = {**dict(zip(order, rest, strict=False)), **named}
    if not isinstance(value, Tensor):
        return value[given.get("start") : given.get("end") : given.get("step", 1)]
    key = slice(given.get("start"), given.get("end"), given.get("step", 1))
    dim = given.get("dim", 0)
    return value[(slice(None),) * dim + (key,)] if dim >= 0 else value[(..., key, *[slice(None)] * (-dim - 1))]


def _split(value: Any, *args: Any, **kwargs: Any) -> Any:
    """``aten::split``: of a tensor or a text."""
    return list(value.split(*args, **kwargs))


# -- numbers, texts, lists and dicts ---------------------------------------------------------------------------------------------------
def formatted(text: str, *values: Any) -> str:
    """``text.format(*values)`` for plain ``{}``: fields with a name, an attribute or a width are not looked at."""
    parts = text.split("{}")
    if len(parts) - 1 > len(values):
        raise raised(f"Too few arguments for format string: {text:.200}")
    return "".join([part + (str(value) if k < len(parts) - 1 else "") for k, (part, value) in enumerate(zip(parts, [*values, ""]))])


def _raise_exception(message: str, kind: str = "", *rest: Any) -> Any:
    raise raised(message, kind)


def _changed(name: str) -> Callable[..., Any]:
    """A method of lists, dicts or texts; one that returns nothing gives the list itself."""

    def run(value: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(value, (list, dict, str, tuple)):
            raise raised(f"Unknown builtin op: aten::{name} of {type(value).__name__}")
        result = getattr(value, name)(*args, **kwargs)
        if name in ("keys", "values", "items"):
            return list(result)
        return value if result is None and isinstance(value, list) else result

    return run


def _remainder(a: Any, b: Any) -> Any:
    return a % b


def _set_item(items: Any, key: Any, value: Any) -> Any:
    items[key] = value
    return items


def _delete(items: Any, key: Any) -> None:
    del items[key]


def _unwrap(value: Any) -> Any:
    if value is None:
        raise raised("Unwrapping null optional")
    return value


def _derived(index: int, start: int, step: int) -> int:
    return start + index * step


def _range_length(low: int, high: int, step: int) -> int:
    return len(range(low, high, step))


def _sorted(items: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(items, Tensor):
        return items.sort(*args, **kwargs)
    items.sort(reverse=bool(args and args[0]) or bool(kwargs.get("reverse")))
    return None


def _popped(items: Any, *args: Any) -> Any:
    return items.pop(*args)


def _set_grad(enabled: bool) -> None:
    set_grad(enabled)


def _fork(function: Any, *args: Any, **kwargs: Any) -> Any:
    from ._async import fork

    return fork(function, *args, **kwargs)


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _infer_size(a: list[int], b: list[int]) -> list[int]:
    return list(resolve("torch", "broadcast_shapes")(a, b))


_COMPARISONS: dict[str, Callable[..., Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
# Operators that stand before the tensors' of that name: their first argument may be a tensor, too, which they do not compute with.
_ALWAYS: dict[str, Callable[..., Any]] = {
    "__is__": lambda a, b: a is b,
    "__isnot__": lambda a, b: a is not b,
    "__not__": lambda a: not a,
    "__contains__": lambda items, item: item in items,
    "__getitem__": lambda items, key: items[key],
    "_set_item": _set_item,
    "Delete": _delete,
    "_unwrap_optional": _unwrap,
    "__derive_index": _derived,
    "__range_length": _range_length,
    "len": len,
    "format": formatted,
    "percentFormat": lambda text, *values: text % (values[0] if len(values) == 1 and isinstance(values[0], tuple) else values),
    "warn": lambda message, stacklevel=2: warnings.warn(message, UserWarning, stacklevel=3),
    "append": lambda items, item: items.append(item) or items,
    "Int": int,
    "Float": float,
    "Bool": bool,
    "Complex": complex,
    "str": str,
    "IntImplicit": int,
    "FloatImplicit": float,
    "ScalarImplicit": _scalar,
    "device": lambda *where: device(*where),
    "to": _to,
    "tensor": _tensor,
    "as_tensor": lambda data, *, dtype=None, device=None: resolve("torch", "as_tensor")(data, dtype=_dtype_of(dtype), device=device),
    "size": _size,
    "stride": _stride,
    "slice": _sliced,
    "split": _split,
    "cpu": lambda tensor: tensor.cpu(),
    "_convolution": _convolution,
    "sort": _sorted,
    "wait": lambda future: future.wait() if isinstance(future, Future) else future,
    "is_scripting": lambda: True,
    "is_grad_enabled": grad_enabled,
    "is_autocast_enabled": lambda device_type="cpu": thread.autocast is not None,
    "is_autocast_cpu_enabled": lambda: thread.autocast is not None,
    "_get_tracing_state": lambda: False,
    "set_grad_enabled": _set_grad,
    "__and__": lambda a, b: a & b,
    "__or__": lambda a, b: a | b,
    "__xor__": lambda a, b: a ^ b,
    "__lshift__": lambda a, b: a << b,
    "__rshift__": lambda a, b: a >> b,
    "grad": lambda outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=False: list(
        _gradients(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused=allow_unused)
    ),
    "manual_seed": lambda seed: default_generator.manual_seed(seed) and None,
    "has_torch_function": lambda *values: False,
    "dict": dict,
    "list": list,
    "remove": _changed("remove"),
    "index": lambda value, *rest: value.index(*rest) if not isinstance(value, Tensor) else _operations.aten.index.Tensor(value, *rest),
    **{name: _changed(name) for name in "extend insert clear reverse keys values items get popitem setdefault update".split()},
    "pop": _popped,
    **{
        name: _changed(name)
        for name in "capitalize center endswith expandtabs find isalnum isalpha isdecimal isdigit isidentifier islower isnumeric "
        "isprintable isspace istitle isupper join ljust lower lstrip partition replace rfind rindex rjust rpartition rsplit rstrip "
        "splitlines startswith strip swapcase title upper zfill".split()
    },
}


def power(a: Any, b: Any) -> Any:
    """A power, which of numbers is a float, of integers too: infinity where it is too large, nan where it is complex."""
    if type(a) not in (int, float) or type(b) not in (int, float):
        return a**b
    if not a and b < 0:
        raise RuntimeError("0.0 cannot be raised to a negative power")
    with np.errstate(all="ignore"):
        return float(np.power(float(a), float(b)))


def _rounded(a: Any, *digits: int) -> Any:
    """A rounded number is a float."""
    found = builtins.round(a, *digits)
    return float(found) if type(a) in (int, float) else found


# Operators for anything but tensors.
_PLAIN: dict[str, Callable[..., Any]] = {
    **_COMPARISONS,
    "add": lambda a, b, alpha=1: a + b if alpha == 1 else a + alpha * b,
    "sub": lambda a, b, alpha=1: a - b if alpha == 1 else a - alpha * b,
    "mul": lambda a, b: a * b,
    "add_": lambda a, b: a.extend(b) or a,
    "mul_": lambda a, b: a.__imul__(b),
    "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "floor_divide": lambda a, b: a // b,
    "__round_to_zero_floordiv": lambda a, b: int(a / b),
    "remainder": _remainder,
    "fmod": math.fmod,
    "mathremainder": math.remainder,
    "pow": power,
    "neg": lambda a: -a,
    "round": _rounded,
    "floor": math.floor,
    "ceil": math.ceil,
    "abs": abs,
    "sum": sum,
    "any": any,
    "all": all,
    "sorted": sorted,
    "select": lambda items, index: items[index],
    "copy": lambda items: items.copy(),
    "count": lambda value, *rest: value.count(*rest),
    "ord": ord,
    "chr": chr,
    "hex": hex,
    "oct": oct,
    "bin": bin,
    "hash": lambda value: 0,
    "divmod": divmod,
    "modf": math.modf,
    "frexp": math.frexp,
    "fabs": math.fabs,
    "factorial": math.factorial,
    "gamma": math.gamma,
    "lgamma": math.lgamma,
    "gcd": math.gcd,
    "copysign": math.copysign,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "degrees": math.degrees,
    "radians": math.radians,
    "atan2": math.atan2,
    "ldexp": math.ldexp,
    "log": math.log,
    "broadcast_shapes": _infer_size,
    "_infer_size": _infer_size,
    **{
        name: getattr(math, name)
        for name in "acos acosh asin asinh atan atanh cos cosh erf erfc exp expm1 log10 log1p sin sinh sqrt tan tanh".split()
    },
}
_PRIM: dict[str, Callable[..., Any]] = {
    "NumToTensor": lambda value: _tensor(value),
    "RaiseException": _raise_exception,
    "TupleIndex": lambda items, index: items[index],
    "TupleUnpack": tuple,
    "rangelist": lambda count: list(range(count)),
    "min": lambda *values: min(*values),
    "max": lambda *values: max(*values),
    "abs": abs,
    "unchecked_cast": lambda value: value,
    "unchecked_unwrap_optional": _unwrap,
    "Print": print,
    "dtype": lambda tensor: number_of_dtype(tensor.dtype),
    "layout": lambda tensor: number_of_layout(tensor.layout),
    "type": lambda where: where.type,
    "index": lambda where: where.index,
    "id": lambda value: 0,
    "name": lambda tensor: None,
    "EnumName": lambda member: member.name,
    "EnumValue": lambda member: member.value,
    "StringIndex": lambda text, index: text[index],
    "ModuleContainerIndex": lambda items, index: items[index],
    "tolist": lambda tensor, *rest: tensor.tolist(),
    **{
        name: attrgetter(name)
        for name in "data device grad requires_grad itemsize nbytes is_cuda is_cpu is_sparse is_sparse_csr is_quantized is_mkldnn is_meta "
        "is_mps is_nested is_xpu is_leaf".split()
    },
}


def _enumerated(items: Any, start: int = 0) -> list[Any]:
    return list(enumerate(items, start))


# Functions of Python's that TorchScript knows by their names.
BUILTINS: dict[str, Any] = {
    **{
        function.__name__: function
        for function in (abs, all, any, bin, bool, chr, complex, dict, divmod, float, hex, int, len, list, max, min, oct, ord, print, range)
    },
    **{function.__name__: function for function in (reversed, sorted, str, sum, tuple, zip)},
    "enumerate": _enumerated,
    "round": _rounded,
    "fork": _fork,
    "wait": lambda future: future.wait(),
}
