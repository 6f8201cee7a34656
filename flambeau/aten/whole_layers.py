"""Operations of networks as PyTorch's dispatcher is called with them; see ``whole``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.calls.registry import resolve
from ..core.dtype import int64
from ..core.state import thread
from ..core.tensor import Tensor
from ..ops.losses.loss import reduction_of
from .calls import overload_named
from .whole import REDUCTIONS, WHOLE, Done, divided, listed


# ---- convolutions and pooling
def _convolution(rank: int, transposed: bool) -> Callable[..., Any]:
    def rule(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, *rest: Any) -> Any:
        lists = [option if isinstance(option, str) else listed(f"int[{rank}]", option) for option in (stride, padding)]
        if transposed:
            output_padding, groups, dilation = rest
            options = (*lists, listed(f"int[{rank}]", output_padding), groups, listed(f"int[{rank}]", dilation))
            return f"conv_transpose{rank}d" + (".input" if rank > 1 else ""), (input, weight, bias, *options), {}
        dilation, groups = rest
        name = f"conv{rank}d.padding" if isinstance(padding, str) else f"conv{rank}d"
        return name, (input, weight, bias, *lists, listed(f"int[{rank}]", dilation), groups), {}

    return rule


for _rank in (1, 2, 3):
    for _space in ("", "nn.functional."):
        WHOLE[f"{_space}conv{_rank}d"] = _convolution(_rank, False)
        WHOLE[f"{_space}conv_transpose{_rank}d"] = _convolution(_rank, True)


def _pooled(rank: int, kind: str) -> Callable[..., Any]:
    def rule(input: Any, kernel_size: Any, stride: Any = None, *rest: Any) -> Any:
        lists = [listed(f"int[{rank}]", kernel_size), [] if stride is None or stride == () else listed(f"int[{rank}]", stride)]
        if kind == "max":
            padding, dilation, ceil_mode = rest[:3]
            if any(rest[3:]):
                return None
            more = (listed(f"int[{rank}]", padding), listed(f"int[{rank}]", dilation), ceil_mode)
        else:
            padding, *more_ = rest
            more = (listed(f"int[{rank}]", padding), *more_)
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
    WHOLE[f"nn.functional.adaptive_max_pool{_rank}d"] = divided


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
    return "cross_entropy_loss", (input, target, weight, REDUCTIONS.index(word), ignore_index, float(label_smoothing)), {}


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
    return "nll_loss_nd", (input, target, weight, REDUCTIONS.index(word), ignore_index), {}


def _tracer() -> Any:
    """The mode that notes operations, for rules that have several noted; None where another reader asks for the call."""
    mode = thread.dispatch_modes[-1] if thread.dispatch_modes else None
    return mode if hasattr(mode, "note") else None


def _elementwise_loss(name: str, option: int | None = None) -> Callable[..., Any]:
    """A loss whose operands are broadcast first; ``option`` is the position of its further argument."""

    def rule(input: Any, target: Any, *rest: Any) -> Any:
        if any(isinstance(value, Tensor) for value in rest):
            return None  # with weights
        word = next((value for value in rest if isinstance(value, str)), "mean")
        size_average, reduce = rest[:2] if name != "huber_loss" else (None, None)
        tracer = _tracer()
        if tracer is not None:  # otherwise nobody looks, and the loss broadcasts by itself
            input, target = tracer.note(overload_named("broadcast_tensors"), ([input, target],), {})
        more = () if option is None else (float(rest[option]),)
        return name, (input, target, REDUCTIONS.index(reduction_of(word, size_average, reduce)), *more), {}

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
    sizes = None if size is None else listed(f"int[{rank}]", size)
    scales = None if scale_factor is None else [float(scale) for scale in listed(f"float[{rank}]", scale_factor)]
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


WHOLE["nn.functional.upsample"] = lambda input, size=None, scale_factor=None, mode="nearest", align_corners=None: _interpolate(
    input, size, scale_factor, mode, align_corners
)
WHOLE["nn.functional.upsample_nearest"] = lambda input, size=None, scale_factor=None: _interpolate(input, size, scale_factor)
WHOLE["nn.functional.upsample_bilinear"] = lambda input, size=None, scale_factor=None: _interpolate(
    input, size, scale_factor, "bilinear", True
)


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


def _activation(name: str) -> Callable[..., Any]:
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
WHOLE["nn.functional.softmax"] = WHOLE["nn.functional.log_softmax"] = divided
WHOLE["nn.functional.linear"] = lambda input, weight, bias=None: ("linear", (input, weight, bias), {})


@WHOLE("nn.functional.embedding")
def _embedding(input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, *options: Any) -> Any:
    if max_norm is not None and _tracer() is not None:
        raise NotImplementedError("embedding with max_norm, which writes to its table, is not supported while a program is traced")
    return NotImplemented


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
    tracer = _tracer()
    if tracer is None:
        return None
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
    return Done(tracer.note(overload_named("embedding_bag.padding_idx"), args, {})[0])


# ---- recurrent layers
def _recurrent(name: str) -> Callable[..., Any]:
    def rule(*values: Any) -> Any:
        if isinstance(values[3], (tuple, list)):  # a packed sequence, whose number of sequences at each step comes second
            data, batch_sizes, hidden, parameters, *options = values
            return f"{name}.data", (data, batch_sizes, list(hidden) if name == "lstm" else hidden, list(parameters), *options), {}
        input, hidden, parameters, *options = values
        return f"{name}.input", (input, list(hidden) if name == "lstm" else hidden, list(parameters), *options), {}

    return rule


for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    WHOLE[_name] = _recurrent(_name)
