"""Calls as the operations that PyTorch's dispatcher is called with, before any is divided: ``aten.conv2d``, not ``aten.convolution``.

That is what ``torch.export`` shows. A call is the overload of its own name whose arguments it has; what has another name or other arguments
in PyTorch stands in ``WHOLE``. What PyTorch composes in Python (``nn.functional.normalize``) is none, and is divided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..core.calls.dispatch import COMPOSITE, FACTORY, IN_PLACE, IN_PLACE_VIEW, Call
from ..core.calls.registry import TABLES, resolve
from ..core.calls.tables import Rules
from ..core.dtype import int64
from ..core.layout import contiguous_format
from ..core.state import thread
from ..core.symbolic import SymbolicFloat, SymbolicInt
from ..core.tensor import Tensor
from ..ops.losses.loss import reduction_of
from .calls import NUMBERS, _as_tensors, _is_default, _of_form, _schemas, overload_named, pruned, translated, translated_factory
from .rules import steps_of

Translated = tuple[Any, tuple[Any, ...], dict[str, Any]]
WHOLE = Rules("aten whole")  # our operation -> (name, args, kwargs), None where it is divided, or NotImplemented where its name says it
_REDUCTIONS = ("none", "mean", "sum")


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
        left["reduction"] = _REDUCTIONS.index(reduction_of(left["reduction"], left.pop("size_average", None), left.pop("reduce", None)))
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in schema.arguments:
        if argument.is_out:
            continue
        name = argument.name if argument.name in left else "input" if argument.name == "self" else argument.name
        if name not in left and argument.name == "self" and left:
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
        return _list(base, value)
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


def _list(base: str, value: Any) -> Any:
    element, _, count = base.partition("[")
    number = count.rstrip("]?")
    if isinstance(value, (list, tuple)):
        if element in ("int", "SymInt") and any(not isinstance(item, int) for item in value):
            return NotImplemented
        return list(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return NotImplemented
    return [value] * int(number or 1)


# ---- what has another name, or other arguments
def _no(*values: Any) -> None:
    """Divided: PyTorch composes it in Python, or its kernel returns more."""


def _convolution(rank: int, transposed: bool) -> Callable[..., Any]:
    def rule(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, *rest: Any) -> Any:
        lists = [option if isinstance(option, str) else _list(f"int[{rank}]", option) for option in (stride, padding)]
        if transposed:
            output_padding, groups, dilation = rest
            options = (*lists, _list(f"int[{rank}]", output_padding), groups, _list(f"int[{rank}]", dilation))
            return f"conv_transpose{rank}d" + (".input" if rank > 1 else ""), (input, weight, bias, *options), {}
        dilation, groups = rest
        name = f"conv{rank}d.padding" if isinstance(padding, str) else f"conv{rank}d"
        return name, (input, weight, bias, *lists, _list(f"int[{rank}]", dilation), groups), {}

    return rule


for _rank in (1, 2, 3):
    for _space in ("", "nn.functional."):
        WHOLE[f"{_space}conv{_rank}d"] = _convolution(_rank, False)
        WHOLE[f"{_space}conv_transpose{_rank}d"] = _convolution(_rank, True)


def _pooled(rank: int, kind: str) -> Callable[..., Any]:
    def rule(input: Any, kernel_size: Any, stride: Any = None, *rest: Any) -> Any:
        lists = [_list(f"int[{rank}]", kernel_size), [] if stride is None or stride == () else _list(f"int[{rank}]", stride)]
        if kind == "max":
            padding, dilation, ceil_mode = rest[:3]
            if any(rest[3:]):
                return None
            more = (_list(f"int[{rank}]", padding), _list(f"int[{rank}]", dilation), ceil_mode)
        else:
            padding, *more_ = rest
            more = (_list(f"int[{rank}]", padding), *more_)
        return f"{kind}_pool{rank}d", (input, *lists, *more), {}

    return rule


for _rank in (1, 2, 3):
    WHOLE[f"nn.functional.max_pool{_rank}d"] = _pooled(_rank, "max")
    WHOLE[f"nn.functional.avg_pool{_rank}d"] = _pooled(_rank, "avg")


def _adaptive(rank: int, kind: str) -> Callable[..., Any]:
    def rule(input: Any, output_size: Any, *rest: Any) -> Any:
        if any(rest):
            return None
        sizes = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * rank
        sizes = [input.shape[d - rank] if size is None else size for d, size in enumerate(sizes)]
        return f"adaptive_{kind}_pool{rank}d", (input, sizes), {}

    return rule


for _rank in (1, 2, 3):
    WHOLE[f"nn.functional.adaptive_avg_pool{_rank}d"] = _adaptive(_rank, "avg")
    WHOLE[f"nn.functional.adaptive_max_pool{_rank}d"] = _no


@WHOLE("nn.functional.batch_norm")
def _batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    return "batch_norm", (input, weight, bias, running_mean, running_var, training, momentum, eps, False), {}


@WHOLE("nn.functional.instance_norm")
def _instance_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, use_input_stats: bool, momentum: float, eps: float
) -> Any:
    return "instance_norm", (input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False), {}


WHOLE["nn.functional.layer_norm"] = lambda input, normalized_shape, weight=None, bias=None, eps=1e-5: (
    "layer_norm",
    (input, list(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else [normalized_shape], weight, bias, eps, False),
    {},
)
WHOLE["nn.functional.group_norm"] = lambda input, num_groups, weight=None, bias=None, eps=1e-5: (
    "group_norm",
    (input, num_groups, weight, bias, eps, False),
    {},
)


@WHOLE("nn.functional.cross_entropy")
def _cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    word = reduction_of(reduction, size_average, reduce)
    return "cross_entropy_loss", (input, target, weight, _REDUCTIONS.index(word), ignore_index, float(label_smoothing)), {}


@WHOLE("nn.functional.nll_loss")
def _nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    word = reduction_of(reduction, size_average, reduce)
    return "nll_loss_nd", (input, target, weight, _REDUCTIONS.index(word), ignore_index), {}


def _elementwise_loss(name: str, option: int | None = None) -> Callable[..., Any]:
    """A loss whose operands are broadcast first; ``option`` is the position of its further argument."""

    def rule(input: Any, target: Any, *rest: Any) -> Any:
        if any(isinstance(value, Tensor) for value in rest):
            return None  # with weights
        word = next((value for value in rest if isinstance(value, str)), "mean")
        size_average, reduce = rest[:2] if name != "huber_loss" else (None, None)
        if thread.dispatch_modes:  # without one nobody looks, and the loss broadcasts by itself
            input, target = thread.dispatch_modes[-1].note(overload_named("broadcast_tensors"), ([input, target],), {})
        more = () if option is None else (float(rest[option]),)
        return name, (input, target, _REDUCTIONS.index(reduction_of(word, size_average, reduce)), *more), {}

    return rule


for _name, _option in {"mse_loss": None, "l1_loss": None, "smooth_l1_loss": 3, "huber_loss": 1}.items():
    WHOLE[f"nn.functional.{_name}"] = _elementwise_loss(_name, _option)


@WHOLE("nn.functional.interpolate")
def _interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    if recompute_scale_factor or mode not in _UPSAMPLED:
        return None
    rank = input.dim() - 2
    sizes = None if size is None else _list(f"int[{rank}]", size)
    scales = None if scale_factor is None else [float(scale) for scale in _list(f"float[{rank}]", scale_factor)]
    corners = () if mode.startswith("nearest") else (bool(align_corners),)
    name = _UPSAMPLED[mode].format(rank)
    name = f"_upsample_{name}_aa" if antialias else f"_upsample_{name}" if mode == "nearest-exact" else f"upsample_{name}"
    return f"{name}.vec", (input, sizes, *corners, scales), {}


_UPSAMPLED = {
    "nearest": "nearest{}d",
    "nearest-exact": "nearest_exact{}d",
    "linear": "linear1d",
    "bilinear": "bilinear2d",
    "bicubic": "bicubic2d",
    "trilinear": "trilinear3d",
}


@WHOLE("nn.functional.grid_sample")
def _grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None) -> Any:
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    if mode not in modes or padding_mode not in paddings:
        return None
    return "grid_sampler", (input, grid, modes.index(mode), paddings.index(padding_mode), bool(align_corners)), {}


def _dropout(name: str) -> Callable[..., Any]:
    def rule(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return name + ("_" if inplace else ""), (input, float(p), training), {}

    return rule


WHOLE["nn.functional.dropout"] = _dropout("dropout")
WHOLE["nn.functional.dropout1d"] = WHOLE["nn.functional.dropout2d"] = WHOLE["nn.functional.dropout3d"] = _dropout("feature_dropout")
WHOLE["nn.functional.alpha_dropout"] = _dropout("alpha_dropout")
WHOLE["nn.functional.feature_alpha_dropout"] = _dropout("feature_alpha_dropout")


def _activation(name: str, *defaults: Any) -> Callable[..., Any]:
    """An activation with a last parameter ``inplace``."""

    def rule(input: Any, *values: Any) -> Any:
        inplace = bool(values) and values[-1] is True
        options = values[:-1] if values and isinstance(values[-1], bool) else values
        return name + ("_" if inplace else ""), (input, *[value for value in options if value is not None]), {}

    return rule


for _name in ("relu", "selu", "celu", "elu", "leaky_relu", "hardtanh", "relu6", "silu", "mish", "hardswish", "hardsigmoid", "threshold"):
    try:
        WHOLE[f"nn.functional.{_name}"] = _activation(_name)
    except TypeError:  # an alias of an operation of ``torch``
        pass


def _softmax(name: str) -> Callable[..., Any]:
    return lambda input, dim=None, *rest: (
        NotImplemented if dim is None else (f"{name}.int", (input, dim, *[value for value in rest[-1:] if value is not None]), {})
    )


WHOLE["softmax"], WHOLE["log_softmax"] = _softmax("softmax"), _softmax("log_softmax")
WHOLE["nn.functional.softmax"] = WHOLE["nn.functional.log_softmax"] = _no
WHOLE["nn.functional.linear"] = lambda input, weight, bias=None: ("linear", (input, weight, bias), {})


@WHOLE("nn.functional.embedding_bag")
def _embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    if max_norm is not None:
        raise NotImplementedError("embedding_bag with max_norm, which writes to its table, is not supported while a program is traced")
    if weight.dtype is int64 and input.is_floating_point():
        input, weight = weight, input
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences.")
        offsets = resolve("torch", "arange")(0, input.numel(), input.shape[1], device=input.device)
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    number = ("sum", "mean", "max").index(mode)
    args = (weight, input, offsets, scale_grad_by_freq, number, sparse, per_sample_weights, include_last_offset, padding_idx)
    return Done(thread.dispatch_modes[-1].note(overload_named("embedding_bag.padding_idx"), args, {})[0])


# ---- shapes
def _sizes(shape: Any) -> list[Any]:
    """Sizes given one by one or as a sequence."""
    return list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)


WHOLE["Tensor.view"] = lambda input, *rest: _viewed(input, *rest)
WHOLE["narrow"] = lambda input, dim, start, length: (
    ("narrow", (input, dim, start, length), {}) if isinstance(start, int) else ("narrow.Tensor", (input, dim, start, length), {})
)
WHOLE["Tensor.narrow"] = lambda input, args, dimension=None, kwargs=None: (
    WHOLE["narrow"](input, *args) if dimension is None and not kwargs and len(args) == 3 else None
)
WHOLE["broadcast_tensors"] = lambda tensors: ("broadcast_tensors", (_tensors(tensors),), {})
WHOLE["meshgrid"] = lambda tensors, indexing=None: (
    ("meshgrid", (_tensors(tensors),), {}) if indexing is None else ("meshgrid.indexing", (_tensors(tensors),), {"indexing": indexing})
)
WHOLE["nn.functional.logsigmoid"] = lambda input: ("log_sigmoid", (input,), {})
_DISTANCES: dict[str | None, int | None] = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
    None: None,
}
WHOLE["cdist"] = lambda x1, x2, p=2.0, compute_mode=None: (
    ("cdist", (x1, x2, float(p), _DISTANCES.get(compute_mode)), {}) if compute_mode in _DISTANCES else None
)


def _tensors(given: Any) -> list[Any]:
    """Tensors given one by one or as a sequence."""
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else list(given)


@WHOLE("einsum")
def _einsum(args: Any) -> Any:
    equation, *operands = args
    return ("einsum", (equation, _tensors(operands)), {}) if isinstance(equation, str) else None


@WHOLE("tensordot")
def _tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    if isinstance(dims, int):
        return "tensordot", (a, b, list(range(-dims, 0)), list(range(dims))), {}
    if isinstance(dims, (tuple, list)) and len(dims) == 2 and all(isinstance(each, (tuple, list)) for each in dims):
        return "tensordot", (a, b, list(dims[0]), list(dims[1])), {}
    return None


def _viewed(input: Any, *rest: Any) -> Any:
    shape = rest[0] if rest and isinstance(rest[0], (tuple, list)) else ()
    if any(value is not None and not isinstance(value, (tuple, list, int)) for value in (*rest, *shape)):
        return None  # another dtype
    return "view", (input, _sizes(shape)), {}


WHOLE["Tensor.reshape"] = lambda input, *rest: ("reshape", (input, _sizes(rest[0])), {})
WHOLE["reshape"] = lambda input, shape: ("reshape", (input, list(shape)), {})
WHOLE["flatten"] = lambda input, start_dim=0, end_dim=-1: ("flatten.using_ints", (input, start_dim, end_dim), {})
WHOLE["unflatten"] = lambda input, dim, sizes: ("unflatten.int", (input, dim, list(sizes)), {}) if isinstance(dim, int) else None
WHOLE["Tensor.expand"] = lambda input, *rest: ("expand", (input, _sizes(rest[0])), {})
WHOLE["Tensor.repeat"] = lambda input, *rest: ("repeat", (input, _sizes(rest[0])), {})
WHOLE["Tensor.permute"] = lambda input, *rest: ("permute", (input, _sizes(rest[0])), {})
WHOLE["_view"] = lambda input, shape: ("view", (input, list(shape)), {})
WHOLE["Tensor.contiguous"] = lambda input, memory_format=contiguous_format: (
    None
    if input.is_contiguous(memory_format=memory_format)
    else ("contiguous", (input,), {} if memory_format is contiguous_format else {"memory_format": memory_format})
)


@WHOLE("norm")
def _norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None, *rest: Any) -> Any:
    if dtype is not None or p == "nuc" or any(value is not None for value in rest):
        return None
    order = 2.0 if p is None or p == "fro" else float(p)
    dims = None if dim is None else list(dim) if isinstance(dim, (tuple, list)) else [dim]
    return "linalg_vector_norm", (input, order, dims, keepdim), {}


def _one_part(input: Any, key: Any) -> Any:
    steps = steps_of(key, input.dim())
    if not steps:
        return "alias", (input,), {}
    return (steps[0][0], (input, *steps[0][1]), {}) if len(steps) == 1 else None


for _name in ("_select", "_slice", "_exact_select", "_exact_slice", "_index_unsqueeze"):
    WHOLE[_name] = _one_part
WHOLE["_index"] = lambda input, indices: ("index.Tensor", (input, _as_tensors(indices)), {})
WHOLE["split"] = lambda tensor, sizes, dim=0: (
    ("split.Tensor", (tensor, sizes, dim), {}) if isinstance(sizes, int) else ("split_with_sizes", (tensor, list(sizes), dim), {})
)
WHOLE["Tensor.split"] = WHOLE["split"]
WHOLE["where"] = lambda condition, input=None, other=None: (
    None
    if input is None
    else (
        "where."
        + {
            (True, True): "self",
            (True, False): "ScalarOther",
            (False, True): "ScalarSelf",
            (False, False): "Scalar",
        }[isinstance(input, Tensor), isinstance(other, Tensor)],
        (condition, input, other),
        {},
    )
)


# ---- conversions
WHOLE["_to_copy"] = lambda input, dtype, memory_format=None: (
    ("to.dtype", (input, dtype), {})
    if dtype is not None and (memory_format is None or memory_format.name == "preserve_format")
    else NotImplemented
)


# ---- recurrent layers
def _recurrent(name: str) -> Callable[..., Any]:
    def rule(*values: Any) -> Any:
        if isinstance(values[1], Tensor) and name == "lstm":
            return None  # a packed sequence
        if isinstance(values[3], (tuple, list)):
            return None
        input, hidden, parameters, *options = values
        return f"{name}.input", (input, list(hidden) if name == "lstm" else hidden, list(parameters), *options), {}

    return rule


for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    WHOLE[_name] = _recurrent(_name)
