"""Calls of flambeau's operations as calls of PyTorch's operators: the text of a trace.

``aten.whole`` says which operator a call is, and what has neither a row there nor an operator of its own name and arguments is divided.
Methods that are no operations here stand in ``METHODS``, and operators that give more than the operation in ``PARTLY``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import ops as _operations
from ..aten.whole_calls import Done, as_whole
from ..core.calls.dispatch import FACTORY, Call
from ..core.calls.registry import resolve
from ..core.tensor import Tensor

Spelled = tuple[Any, tuple[Any, ...], dict[str, Any]]  # an overload with its arguments


def spelled(call: Call) -> Spelled | None:
    """The operator that a call is, with its arguments; None where it is several."""
    whole = as_whole(call)
    if whole is None or isinstance(whole, Done) or whole[0].namespace != "aten":
        return None
    overload, args, kwargs = whole
    if call.form is FACTORY:
        sizes = [_flat(value) for value in call.values if isinstance(value, (list, tuple))]
        args = tuple([next((size for size in sizes if size == arg), arg) if isinstance(arg, list) else arg for arg in args])
        kwargs = {name: value for name, value in kwargs.items() if name != "pin_memory"}
    return overload, args, kwargs


def _flat(value: Any) -> list[Any]:
    """Sizes as they were given: the trace may follow them, where their copies are plain numbers."""
    return list(value[0]) if len(value) == 1 and isinstance(value[0], (list, tuple)) else list(value)


def _overload(name: Any, *args: Any, **kwargs: Any) -> Spelled:
    """The overload that arguments fit, named ``add`` or ``add.Tensor``; a function first gets the rest, to add keywords."""
    if callable(name):
        found: Spelled = name(*args)
        return found
    base, _, overload = name.partition(".")
    packet = getattr(_operations.aten, base)
    return (getattr(packet, overload) if overload else packet.fitting(args, kwargs)), args, kwargs


# -- methods that are no operations here ---------------------------------------------------------------------------------------------------
def _varargs(name: str) -> Callable[..., Any]:
    """A method that takes sizes one by one as well."""

    def row(tensor: Any, *sizes: Any, **kwargs: Any) -> Any:
        if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)):
            sizes = tuple(sizes[0])
        if not sizes and len(kwargs) == 1:
            sizes, kwargs = tuple(next(iter(kwargs.values()))), {}
        if any(not isinstance(size, int) for size in sizes) or kwargs:
            return ("to", tensor, *sizes) if name == "view" and isinstance(sizes[0], Tensor) else None
        return name, tensor, list(sizes)

    return row


def _to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    result = tensor.to(*args, **kwargs)
    copy = bool(kwargs.get("copy"))
    return "to.device", tensor, result.device, result.dtype, False, copy


def _cast(name: str) -> Callable[..., Any]:
    return lambda tensor, *args, **kwargs: ("to.dtype", tensor, getattr(tensor, name)().dtype)


def _einsum(equation: Any, *operands: Any) -> Any:
    tensors = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    return ("einsum", equation, tensors) if isinstance(equation, str) else None


def _several(tensors: Any) -> list[Any]:
    """Tensors one by one, or in a list."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def _of_several(name: str) -> Callable[..., Any]:
    return lambda *tensors: (name, _several(tensors))


METHODS: dict[str, Callable[..., Any]] = {
    **{name: _varargs(name) for name in "view reshape expand repeat permute flip tile".split()},
    **{name: _cast(name) for name in "bfloat16 bool byte cdouble cfloat char double float half int long short".split()},
    "to": _to,
    "detach": lambda tensor: ("detach", tensor),
    "einsum": _einsum,
    "meshgrid": lambda *tensors, indexing=None: (functools.partial(_overload, indexing=indexing or "ij"), "meshgrid", _several(tensors)),
    **{name: _of_several(name) for name in "broadcast_tensors block_diag cartesian_prod".split()},
}


PROPERTIES = {"T": "numpy_T", "mT": "mT", "H": "matrix_H", "mH": "mH", "real": "real", "imag": "imag", "data": "detach"}
_PROPERTY_NAMES = {id(value): name for name, value in vars(Tensor).items() if name in PROPERTIES}


def spelled_method(name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Spelled | None:
    """The operator that a method or a property is which is no operation here; None where its result is no tensor."""
    if name == "__get__":
        found = PROPERTIES.get(_PROPERTY_NAMES.get(id(func.__self__), ""))
        return None if found is None else _overload(found, *args)
    row = METHODS.get(name)
    spelling = None if row is None else row(*args, **kwargs)
    if spelling is not None:
        return _overload(*spelling)
    packet = getattr(_operations.aten, name, None) if not name.startswith("__") and name not in _VALUES else None
    if packet is not None and packet.overloads():
        try:
            return packet.fitting(args, kwargs), args, kwargs
        except RuntimeError:
            return None
    return None


_VALUES = frozenset("item dim size numel is_floating_point is_complex is_contiguous stride storage_offset tolist".split())


# -- operators that give more than the operation -----------------------------------------------------------------------------------------
def _bags(
    input: Any, weight: Any, offsets: Any, max_norm: Any, norm_type: Any, by_freq: bool, mode: str, sparse: bool, factors: Any, *rest: Any
) -> Any:
    if max_norm is not None or mode == "max":
        return NotImplemented
    if input.dim() == 2:
        offsets = resolve("torch", "arange")(0, input.numel(), input.shape[1], dtype=input.dtype, device=input.device)
        input, factors = input.reshape(-1), None if factors is None else factors.reshape(-1)
    includes_last, padding = rest
    number = ("sum", "mean").index(mode)
    return _operations.aten._embedding_bag(
        weight, input, offsets, by_freq, number, sparse, factors, includes_last, -1 if padding is None else padding
    )[0]


PARTLY: dict[str, Callable[..., Any]] = {"nn.functional.embedding_bag": _bags}
