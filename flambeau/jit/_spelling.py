"""Calls of flambeau's operations as calls of PyTorch's operators: what a trace writes for each.

An operation whose arguments are those of an overload of PyTorch's operator of that name needs nothing here: the schema says it. What
PyTorch writes in Python around its operators has a row in ``SPELLINGS``. What has neither is divided into what it calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from .. import ops as _operations
from ..aten.calls import _FREE, _as_argument, _fits, _is_default, translated, translated_factory
from ..core.calls.dispatch import FACTORY, IN_PLACE, Call
from ..core.calls.operation import Op
from ..core.dtype import dtype
from ..core.tensor import Tensor

Spelled = tuple[Any, tuple[Any, ...], dict[str, Any]]  # an overload with its arguments

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def spelled(call: Call) -> Spelled | None:
    """The operator that a call is, with its arguments; None where it is several."""
    op = call.op
    if call.out is not None:
        return None
    row = SPELLINGS.get(op.key)
    if row is not None:
        found = row(*call.values)
        return found if found is None else _overload(*found)
    if call.form is FACTORY:
        overload, args, kwargs = translated_factory(call)
        sizes = [_flat(value) for value in call.values if isinstance(value, (list, tuple))]
        args = tuple([next((size for size in sizes if size == arg), arg) if isinstance(arg, list) else arg for arg in args])
        kwargs.pop("pin_memory", None)
        return (overload, args, kwargs) if overload.namespace == "aten" else None
    if isinstance(op, Op):
        overload, args, kwargs = translated(call)
        if overload.namespace == "aten":
            return overload, args, kwargs
    return _of_same_name(call)


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


def _names(op: Any) -> Iterator[str]:
    space = op.namespace
    if space in ("linalg", "fft", "special"):
        yield f"{space}_{op.name}"
    yield op.name


def _of_same_name(call: Call) -> Spelled | None:
    """The overload that has the operation's name, and arguments for all of its parameters."""
    op, values = call.op, call.values
    ending = "_" if call.form is IN_PLACE or _flag(op, values, "inplace") else ""
    for name in _names(op):
        packet = getattr(_operations.aten, name + ending, None)
        for overload in packet.overloads() if packet is not None and hasattr(packet, "overloads") else ():
            found = getattr(packet, overload)
            if any(argument.is_out for argument in found._schema.arguments):
                continue
            fitted = _fitted(op, found._schema, values)
            if fitted is not None and _accepted(found, *fitted):
                return found, *fitted
    return None


def _fitted(op: Any, schema: Any, values: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of an overload, None where it does not have all of the operation's, or wants more."""
    left = dict(zip(op.names, values, strict=True))
    args, kwargs, skipped = [], {}, False
    for argument in schema.arguments:
        name = argument.name if argument.name in left else next(iter(op.names)) if argument.name == "self" else ""
        if name not in left:
            if not argument.has_default_value():
                return None
            skipped = True
            continue
        value = left.pop(name)
        if not _fits(argument, value, op.name):
            return None
        value = _as_argument(argument, value)
        if argument.kwarg_only or skipped:
            if not _is_default(argument, value):
                kwargs[argument.name] = value
        else:
            args.append(value)
    defaults = {param.name: param.default for param in op.params}
    rest = [name for name, value in left.items() if value is not defaults[name] and value != defaults[name] and name not in _FREE]
    while args and _is_default(schema.positional[len(args) - 1], args[-1]):
        args.pop()
    return None if rest else (tuple(args), kwargs)


def _flag(op: Any, values: Any, name: str) -> bool:
    return name in op.names and name in _FREE and values[op.names.index(name)] is True


def _accepted(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        overload._schema.bind(args, kwargs)
    except RuntimeError:
        return False
    return True


# -- what PyTorch writes in Python ------------------------------------------------------------------------------------------------------
def _loss(name: str, *order: int) -> Callable[..., Any]:
    """A loss whose ``reduction`` is the last parameter, and ``size_average`` and ``reduce`` stand before it."""

    def row(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", *rest: Any) -> Any:
        if size_average is not None or reduce is not None or any(value is not None for value in rest[len(order) :]):
            return None
        return (name, input, target, _REDUCTIONS[reduction], *[rest[k] for k in order])

    return row


def _cross_entropy(
    input: Any, target: Any, weight: Any, size_average: Any, ignore_index: int, reduce: Any, reduction: str, label_smoothing: float
) -> Any:
    if size_average is not None or reduce is not None:
        return None
    return "cross_entropy_loss", input, target, weight, _REDUCTIONS[reduction], ignore_index, label_smoothing


def _nll(input: Any, target: Any, weight: Any, size_average: Any, ignore_index: int, reduce: Any, reduction: str) -> Any:
    if size_average is not None or reduce is not None:
        return None
    return "nll_loss_nd", input, target, weight, _REDUCTIONS[reduction], ignore_index


def _binary(
    input: Any, target: Any, weight: Any, size_average: Any, reduce: Any, reduction: str = "mean", pos_weight: Any = NotImplemented
) -> Any:
    if size_average is not None or reduce is not None:
        return None
    if pos_weight is NotImplemented:
        return "binary_cross_entropy", input, target, weight, _REDUCTIONS[reduction]
    return "binary_cross_entropy_with_logits", input, target, weight, pos_weight, _REDUCTIONS[reduction]


def _divergence(input: Any, target: Any, size_average: Any, reduce: Any, reduction: str, log_target: bool) -> Any:
    if size_average is not None or reduce is not None or reduction not in _REDUCTIONS:
        return None
    return functools.partial(_overload, log_target=log_target), "kl_div", input, target, _REDUCTIONS[reduction]


def _batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    return "batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps, False


def _instance_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, use_input_stats: bool, momentum: float, eps: float
) -> Any:
    return "instance_norm", input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False


def _embedding(input: Any, weight: Any, padding_idx: Any, max_norm: Any, norm_type: float, scale_grad_by_freq: bool, sparse: bool) -> Any:
    if max_norm is not None:
        return None
    place = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx
    return "embedding", weight, input, place, scale_grad_by_freq, sparse


def _dropout(name: str) -> Callable[..., Any]:
    def row(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return name + "_" * inplace, input, float(p), training

    return row


def _pool(name: str, count: int) -> Callable[..., Any]:
    def row(input: Any, *rest: Any) -> Any:
        given: Any = (*rest, *(None, 0, 1, False, False)[len(rest) - 1 :])
        kernel, stride, padding, dilation, ceil_mode, with_indices = given
        listed = [_listed(value, count) for value in (kernel, [] if stride is None else stride, padding, dilation)]
        return None if with_indices else (name, input, *listed, ceil_mode)

    return row


def _listed(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * count


def _average(name: str, count: int) -> Callable[..., Any]:
    def row(input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool, *divisor: Any) -> Any:
        listed = [_listed(value, count) for value in (kernel_size, [] if stride is None else stride, padding)]
        return (name, input, *listed, ceil_mode, include, *divisor)

    return row


def _adaptive(name: str, count: int) -> Callable[..., Any]:
    def row(input: Any, output_size: Any, *rest: Any) -> Any:
        sizes = _listed(output_size, count)
        if any(rest):
            return None
        sizes = [input.shape[k - count] if size is None else size for k, size in enumerate(sizes)]
        return name, input, sizes

    return row


def _adaptive_with_places(name: str, count: int) -> Callable[..., Any]:
    sizes_of = _adaptive(name, count)
    return lambda input, output_size, return_indices=False: sizes_of(input, output_size) if return_indices else None


def _softmax(name: str) -> Callable[..., Any]:
    def row(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
        return None if dim is None else (f"{name}.int", input, dim, dtype)

    return row


def _pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    return "pad", input, list(pad), mode, None if value is None else float(value)


def _scaled_attention(query: Any, key: Any, value: Any, mask: Any, p: float, causal: bool, scale: Any, enable_gqa: bool) -> Any:
    named = {"scale": scale, "enable_gqa": enable_gqa}
    return functools.partial(_overload, **named), "scaled_dot_product_attention", query, key, value, mask, float(p), causal


def _where(condition: Any, input: Any = None, other: Any = None, out: Any = None) -> Any:
    return None if input is None else ("where", condition, input, other)


def _type(input: Any, dtype_: Any = None, *rest: Any) -> Any:
    return ("to", input, dtype_) if isinstance(dtype_, dtype) else None


def _interpolate(
    input: Any, size: Any, scale_factor: Any, mode: str, align_corners: Any, recompute_scale_factor: Any, antialias: bool
) -> Any:
    count = input.dim() - 2
    if recompute_scale_factor or mode == "area" or (antialias and mode not in ("bilinear", "bicubic")):
        return None
    sizes = None if size is None else _listed(size, count)
    scales = None if scale_factor is None else [float(value) for value in _listed(scale_factor, count)]
    if mode in ("nearest", "nearest-exact"):
        name = f"{'upsample_nearest' if mode == 'nearest' else '_upsample_nearest_exact'}{count}d"
        return f"{name}.vec", input, sizes, scales
    name = f"{'_' if antialias else ''}upsample_{mode}{'2d' if mode == 'bicubic' else f'{count}d'}{'_aa' if antialias else ''}"
    return f"{name}.vec", input, sizes, bool(align_corners), scales


_F = "nn.functional."
SPELLINGS: dict[str, Callable[..., Any]] = {
    _F + "cross_entropy": _cross_entropy,
    _F + "nll_loss": _nll,
    _F + "mse_loss": _loss("mse_loss"),
    _F + "l1_loss": _loss("l1_loss"),
    _F + "smooth_l1_loss": _loss("smooth_l1_loss", 0),
    _F + "binary_cross_entropy": _binary,
    _F + "binary_cross_entropy_with_logits": _binary,
    _F + "kl_div": _divergence,
    _F + "logsigmoid": lambda input: ("log_sigmoid", input),
    _F + "batch_norm": _batch_norm,
    _F + "instance_norm": _instance_norm,
    _F + "embedding": _embedding,
    _F + "dropout": _dropout("dropout"),
    _F + "alpha_dropout": _dropout("alpha_dropout"),
    _F + "feature_alpha_dropout": _dropout("feature_alpha_dropout"),
    _F + "dropout1d": _dropout("feature_dropout"),
    _F + "dropout2d": _dropout("feature_dropout"),
    _F + "dropout3d": _dropout("feature_dropout"),
    **{f"{_F}max_pool{d}d": _pool(f"max_pool{d}d", d) for d in (1, 2, 3)},
    **{f"{_F}avg_pool{d}d": _average(f"avg_pool{d}d", d) for d in (1, 2, 3)},
    **{f"{_F}adaptive_avg_pool{d}d": _adaptive(f"adaptive_avg_pool{d}d", d) for d in (1, 2, 3)},
    _F + "softmax": _softmax("softmax"),
    _F + "log_softmax": _softmax("log_softmax"),
    _F + "pad": _pad,
    _F + "interpolate": _interpolate,
    _F + "scaled_dot_product_attention": _scaled_attention,
    **{f"{_F}adaptive_max_pool{d}d": _adaptive_with_places(f"adaptive_max_pool{d}d", d) for d in (1, 2, 3)},
    **{f"{_F}huber_loss": lambda input, target, reduction="mean", delta=1.0, weight=None: (
        None if weight is not None else ("huber_loss", input, target, _REDUCTIONS[reduction], float(delta))
    )},
    f"{_F}ctc_loss": lambda log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity: (
        "ctc_loss", log_probs, targets, input_lengths, target_lengths, blank, _REDUCTIONS[reduction], zero_infinity
    ),
    _F + "unfold": lambda input, *sizes: ("im2col", input, *[_listed(value, 2) for value in sizes]),
    _F + "fold": lambda input, output_size, *sizes: ("col2im", input, _listed(output_size, 2), *[_listed(value, 2) for value in sizes]),
    "where": _where,
    "Tensor.type": _type,
}


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


METHODS: dict[str, Callable[..., Any]] = {
    **{name: _varargs(name) for name in "view reshape expand repeat permute flip tile".split()},
    **{name: _cast(name) for name in "bfloat16 bool byte cdouble cfloat char double float half int long short".split()},
    "to": _to,
    "detach": lambda tensor: ("detach", tensor),
    "einsum": _einsum,
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
