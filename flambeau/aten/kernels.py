"""PyTorch's kernels of networks, as modes and classes see them: one call forward, one backward.

Here many of these are composites, or primitives of another cut. What of ours is which call stands in ``COMPOSED`` and ``LEAVES``, the
derivatives in ``RULES``; what computes a kernel that is none of our operations is declared by ``kernel``, ``slope`` and ``slopes``. Where
nobody looks, nothing of this file runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ..core.calls.registry import primitive, resolve
from ..core.state import PARTS, thread
from ..ops import resampling
from ..ops.activation import SELU_ALPHA, SELU_SCALE
from ..ops.embedding import sparse_gradient
from ..ops.losses.loss import reduction_of
from ..ops.pooling import pool_geometry
from .calls import COMPOSED, IMPLEMENTED, LEAVES
from .derivatives import RULES, call, gradients_of, kernel, slope, slopes, torch

F = "nn.functional"
_REDUCTIONS = ("none", "mean", "sum")
for _name in ("l1_loss", "multilabel_margin_loss"):
    IMPLEMENTED[_name] = lambda self, target, reduction=1, name=_name: functional(name, self, target, reduction=_REDUCTIONS[reduction])


def functional(name: str, *args: Any, **kwargs: Any) -> Any:
    """``torch.nn.functional.NAME(*args)``."""
    return resolve(F, name)(*args, **kwargs)


def ours(name: str, *args: Any) -> Any:
    """A primitive of ``nn.functional``."""
    return primitive(name, F).wrapper(*args)


# -- activations -----------------------------------------------------------------------------------------------------------------------
def _elu(self: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    if scale == input_scale == 1:
        return functional("elu", self, alpha)
    return torch("where", self > 0, self * scale, (self * input_scale).expm1() * (alpha * scale))


def _elu_backward(grad_output: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: Any) -> Any:
    if is_result:
        below = (self_or_result + alpha * scale) * input_scale
        return grad_output * torch("where", self_or_result > 0, torch("full_like", below, scale), below)
    return gradients_of(lambda x: _elu(x, alpha, scale, input_scale), [self_or_result], [grad_output], [True])[0]


kernel("elu")(_elu)
kernel("elu_backward")(_elu_backward)
COMPOSED["selu"] = lambda input: call("elu", input, SELU_ALPHA, SELU_SCALE)
COMPOSED[f"{F}.relu6"] = lambda input, inplace=False: call("hardtanh", input, 0.0, 6.0)
COMPOSED[f"{F}.logsigmoid"] = lambda input: call("log_sigmoid_forward", input)[0]
LEAVES[f"{F}.glu"] = lambda input, dim=-1, out=None: call("glu", input, dim)
RULES.update(
    {
        "elu": {"self": "elu_backward(grad, alpha, scale, input_scale, False, self)"},
        "elu_": {"self": "elu_backward(grad, alpha, scale, input_scale, True, result)"},
        "celu": {"self": "elu_backward(grad, alpha, 1, 1.0 / alpha, False, self)"},
        "celu_": {"self": "elu_backward(grad, alpha, 1, 1.0 / alpha, True, result)"},
        "leaky_relu_": {"self": "leaky_relu_backward(grad, result, negative_slope, True)"},
        "logit": {"self": "logit_backward(grad, self, eps)"},
        "log_sigmoid_forward": {"self": "log_sigmoid_backward(grad, self, result1)"},
        "_prelu_kernel": {"self, weight": "_prelu_kernel_backward(grad, self, weight)"},
        "rrelu_with_noise": {"self": "rrelu_with_noise_backward(grad, self, noise, lower, upper, training, False)"},
    }
)


# Functions whose kernel backward takes the gradient, the operand and the options.
_OPTIONS = {
    **dict.fromkeys(("silu", "mish", "hardsigmoid", "hardswish"), ""),
    "gelu": ", approximate=approximate",
    "glu": ", dim",
    "hardtanh": ", min_val, max_val",
    "softplus": ", beta, threshold",
    "softshrink": ", lambd",
    "hardshrink": ", lambd",
}


def _declare_activation(name: str, options: str) -> None:
    RULES[name] = {"self": f"{name}_backward(grad, self{options})"}
    slope(f"{name}_backward", lambda x, *rest, **named: functional(name, x, *rest, **named))


for _name, _options in _OPTIONS.items():
    _declare_activation(_name, _options)
kernel("leaky_relu_backward")(lambda grad, self, negative_slope, self_is_result: torch("where", self > 0, grad, grad * negative_slope))
slope("logit_backward", lambda x, eps=None: torch("logit", x, eps))
slope("log_sigmoid_backward", lambda x, buffer: functional("logsigmoid", x))
kernel("log_sigmoid_forward")(lambda self: (functional("logsigmoid", self), self.new_empty([0])))
RULES["leaky_relu_backward"] = {"grad_output": "leaky_relu_backward(grad, self, negative_slope, self_is_result)"}
kernel("glu")(lambda self, dim=-1: functional("glu", self, dim))


@kernel("_prelu_kernel_backward")
def _prelu_backward(grad_output: Any, self: Any, weight: Any) -> Any:
    broadcast = weight.expand(self.shape)
    return gradients_of(lambda x, w: torch("_prelu_kernel", x, w), [self, broadcast], [grad_output], [True, True])


@kernel("rrelu_with_noise_backward")
def _rrelu_backward(grad: Any, self: Any, noise: Any, lower: Any, upper: Any, training: bool, self_is_result: bool) -> Any:
    if training and upper - lower > 1e-6:
        return grad * noise
    return call("leaky_relu_backward", grad, self, (lower + upper) / 2, self_is_result)


# -- convolution -----------------------------------------------------------------------------------------------------------------------
def _listed(options: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """Strides and the like as lists, one entry per dimension."""
    return tuple(
        [
            option if isinstance(option, bool) else list(option) if isinstance(option, (tuple, list)) else [option] * rank
            for option in options[:-1]
        ]
    ) + (options[-1],)


def _convolution(input: Any, weight: Any, bias: Any, *options: Any) -> Any:
    return call("convolution", input, weight, bias, *_listed(options, weight.dim() - 2))


@kernel("convolution_backward")
def _convolution_backward(grad_output: Any, input: Any, weight: Any, bias_sizes: Any, *rest: Any) -> Any:
    *options, mask = rest
    bias = None if bias_sizes is None else weight.new_zeros(bias_sizes)
    return gradients_of(lambda x, w, b: torch("convolution", x, w, b, *options), [input, weight, bias], [grad_output], mask)


COMPOSED["convolution"] = _convolution
kernel("convolution")(lambda *args: torch("convolution", *args))
RULES["convolution"] = {
    "input, weight, bias": "convolution_backward(grad, input, weight, list(bias_shape) if bias_shape else None, "
    "stride, padding, dilation, transposed, output_padding, groups, list(needs))"
}


# -- normalization ---------------------------------------------------------------------------------------------------------------------
def _moments(input: Any, mean: Any, rstd: Any, dims: list[int]) -> tuple[Any, Any]:
    """Moments that a kernel was given; those of the input again, where they are to be differentiated too."""
    if thread.in_library is not PARTS:
        return mean, rstd
    variance = input.var(dims, correction=0, keepdim=True)
    eps = rstd.detach().reshape(variance.shape) ** -2 - variance.detach()
    return input.mean(dims, True), (variance + eps).rsqrt()


@kernel("native_layer_norm_backward")
def _layer_norm_backward(grad: Any, input: Any, sizes: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any) -> Any:
    dims = list(range(input.dim() - len(sizes), input.dim()))
    lead = list(range(input.dim() - len(sizes)))
    mean, rstd = _moments(input, mean, rstd, dims)
    normalized = (input - mean) * rstd
    scaled = grad if weight is None else grad * weight
    of_input = (scaled - scaled.mean(dims, True) - normalized * (scaled * normalized).mean(dims, True)) * rstd if mask[0] else None
    of_weight = ((grad * normalized).sum(lead) if lead else grad * normalized) if mask[1] else None
    of_bias = (grad.sum(lead) if lead else grad) if mask[2] else None
    return of_input, of_weight, of_bias


@kernel("native_group_norm_backward")
def _group_norm_backward(grad: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: int, C: int, HxW: int, group: int, mask: Any) -> Any:
    grouped = (N, group, C // group, HxW)
    mean, rstd = _moments(input.reshape(grouped), mean, rstd, [2, 3])
    normalized = (input.reshape(grouped) - mean.reshape(N, group, 1, 1)) * rstd.reshape(N, group, 1, 1)
    scaled = (grad.reshape(N, C, HxW) if weight is None else grad.reshape(N, C, HxW) * weight.reshape(1, C, 1)).reshape(grouped)
    of_input = None
    if mask[0]:
        rest = scaled - scaled.mean([2, 3], True) - normalized * (scaled * normalized).mean([2, 3], True)
        of_input = (rest * rstd.reshape(N, group, 1, 1)).reshape(input.shape)
    of_weight = (grad.reshape(N, C, HxW) * normalized.reshape(N, C, HxW)).sum([0, 2]) if mask[1] else None
    return of_input, of_weight, grad.reshape(N, C, HxW).sum([0, 2]) if mask[2] else None


@kernel("native_batch_norm_backward")
def _batch_norm_backward(
    grad: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, mean: Any, rstd: Any, train: bool, eps: float, mask: Any
) -> Any:
    shape, dims = (1, -1, *(1,) * (input.dim() - 2)), [0, *range(2, input.dim())]
    if train:
        mean, rstd = _moments(input, mean, rstd, dims)
    else:
        mean, rstd = running_mean, (running_var + eps).rsqrt()
    normalized = (input - mean.reshape(shape)) * rstd.reshape(shape)
    scaled = (grad if weight is None else grad * weight.reshape(shape)) * rstd.reshape(shape)
    of_input = None
    if mask[0]:
        of_input = scaled if not train else scaled - scaled.mean(dims, True) - normalized * (scaled * normalized).mean(dims, True)
    return of_input, (grad * normalized).sum(dims) if mask[1] else None, grad.sum(dims) if mask[2] else None


def _layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *rest: Any) -> Any:
    sizes = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return call("native_layer_norm", input, sizes, weight, bias, eps)[0]


def _group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *rest: Any) -> Any:
    if input.shape[1] % num_groups:
        return NotImplemented
    space = math.prod(input.shape[2:])
    return call("native_group_norm", input, weight, bias, input.shape[0], input.shape[1], space, num_groups, eps)[0]


def _batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    if training and (input.numel() // max(input.shape[1], 1) if input.dim() > 1 else 0) <= 1:
        return NotImplemented  # the composite complains
    torch("empty", [0], dtype=input.dtype, device=input.device)  # what a GPU would reserve
    return call("native_batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def _instance_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, use_input_stats: bool, momentum: float, eps: float
) -> Any:
    """Batch normalization with the examples as channels; what is followed is kept for each, and its mean over the batch is noted."""
    if input.dim() < 3 or (use_input_stats and math.prod(input.shape[2:]) <= 1) or not input.numel():
        return NotImplemented  # the composite complains
    N, C = input.shape[:2]
    rows = [part if part is None else part.repeat(N) for part in (weight, bias, running_mean, running_var)]
    wide = input.contiguous().view(1, N * C, *input.shape[2:])
    result = _batch_norm(wide, rows[2], rows[3], rows[0], rows[1], use_input_stats, momentum, eps)
    if use_input_stats:
        for kept, followed in ((running_mean, rows[2]), (running_var, rows[3])):
            if kept is not None and followed is not None:
                call("alias", kept).copy_(followed.view(N, C).mean(0, False))
    return result.view(input.shape)


RULES.update(
    {
        "native_layer_norm": {
            "input, weight, bias": "native_layer_norm_backward(grad, input, normalized_shape, result1, result2, weight, bias, list(needs))"
        },
        "native_group_norm": {
            "input, weight, bias": "native_group_norm_backward(grad, input, result1, result2, weight, N, C, HxW, group, list(needs))"
        },
        "native_batch_norm": {
            "input, weight, bias": "native_batch_norm_backward("
            "grad, input, weight, running_mean, running_var, result1, result2, training, eps, list(needs))"
        },
    }
)
for _namespace in ("", f"{F}."):
    LEAVES[f"{_namespace}layer_norm"], LEAVES[f"{_namespace}group_norm"] = _layer_norm, _group_norm
LEAVES[f"{F}.batch_norm"], LEAVES[f"{F}.instance_norm"] = _batch_norm, _instance_norm
for _name in ("native_layer_norm", "native_group_norm", "native_batch_norm"):
    kernel(_name)(lambda *args, name=_name: torch(name, *args))


# -- pooling ---------------------------------------------------------------------------------------------------------------------------
def _pooled(rank: int, name: str, input: Any, sizes: Sequence[Any], neutral: Sequence[int], *options: Any) -> Any:
    """The kernel ``name`` of a rank; signals are images of height 1, so each of their sizes has its neutral one in front."""
    if rank > 1:
        return call(name.format(rank), input, *sizes, *options)
    wide = [[first, *size] for first, size in zip(neutral, sizes, strict=True)]
    results = call(name.format(2), input.unsqueeze(-2), *wide, *options)
    return tuple([result.squeeze(-2) for result in results]) if isinstance(results, tuple) else results.squeeze(-2)


def _per_dimension(rank: int, kernel_size: Any, stride: Any, *rest: Any) -> list[list[int]]:
    """Sizes of windows and the like as lists; windows without a stride lie side by side."""
    steps = kernel_size if stride in (None, (), []) else stride
    return [list(size) if isinstance(size, (list, tuple)) else [size] * rank for size in (kernel_size, steps, *rest)]


def _max_pool(rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    sizes = _per_dimension(rank, kernel_size, stride, padding, dilation)
    return _pooled(rank, "max_pool{}d_with_indices", input, sizes, (1, 1, 0, 1), bool(ceil_mode))


def _average_pool(rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, *options: Any) -> Any:
    return _pooled(rank, "avg_pool{}d", input, _per_dimension(rank, kernel_size, stride, padding), (1, 1, 0), *options)


def _adaptive_average(rank: int, input: Any, size: Any) -> Any:
    if tuple(size) == (1,) and input.is_floating_point():
        return input.unsqueeze(-2).mean([-1, -2], True).squeeze(-2)
    return _pooled(rank, "_adaptive_avg_pool{}d", input, [list(size)], [1])


def _adaptive_max(rank: int, input: Any, size: Any) -> Any:
    return _pooled(rank, "adaptive_max_pool{}d", input, [list(size)], [1])


def _max_unpool(rank: int, input: Any, indices: Any, spatial: Any) -> Any:
    if rank == 1:
        return call("max_unpool2d", input.unsqueeze(-2), indices.unsqueeze(-2), [1, *spatial]).squeeze(-2)
    return call(f"max_unpool{rank}d", input, indices, list(spatial), *(([1] * 3, [0] * 3) if rank == 3 else ()))


def _of_unpooling(rank: int) -> Any:
    def rule(grad: Any, indices: Any) -> Any:
        lead = list(indices.shape[:-rank])
        places = indices.view([*lead, math.prod(indices.shape[-rank:])])
        planes = grad.reshape([*lead, math.prod(grad.shape[-rank:])])
        return planes.gather(-1, places).view(list(indices.shape))

    return {"self": rule}


for _rank in (1, 2, 3):
    COMPOSED[f"{F}._max_pool{_rank}d"] = lambda *values, rank=_rank: _max_pool(rank, *values)[0]
    COMPOSED[f"{F}._max_pool{_rank}d_with_places"] = lambda *values, rank=_rank: _max_pool(rank, *values)
    COMPOSED[f"{F}._avg_pool{_rank}d"] = lambda *values, rank=_rank: _average_pool(rank, *values)
    COMPOSED[f"{F}._adaptive_avg_pool{_rank}d"] = lambda *values, rank=_rank: _adaptive_average(rank, *values)
    COMPOSED[f"{F}._adaptive_max_pool{_rank}d"] = lambda *values, rank=_rank: _adaptive_max(rank, *values)
    COMPOSED[f"{F}._max_unpool{_rank}d"] = lambda *values, rank=_rank: _max_unpool(rank, *values)


def _declare_pooling(rank: int) -> None:
    """PyTorch's kernels of pooling of images or bodies."""
    kernel(f"max_pool{rank}d_with_indices")(
        lambda self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False: functional(
            f"max_pool{rank}d_with_indices", self, kernel_size, stride or None, padding, dilation, ceil_mode
        )
    )
    RULES[f"max_pool{rank}d_with_indices"] = {
        "self": f"max_pool{rank}d_with_indices_backward(grad, self, kernel_size, stride, padding, dilation, ceil_mode, result1)"
    }

    def places(grad: Any, self: Any, indices: Any) -> Any:
        if grad.shape != indices.shape or grad.shape[:-rank] != self.shape[:-rank]:
            raise RuntimeError(
                f"the gradient of pooling {list(self.shape)} has its channels, and the shape of the indices, {list(indices.shape)}; "
                f"got {list(grad.shape)}"
            )
        return ours("_scatter_planes", grad, indices, tuple(self.shape[-rank:]))

    def places_of_windows(grad: Any, self: Any, *rest: Any) -> Any:
        *windows, indices = rest
        size = pool_geometry(f"max_pool{rank}d", rank, tuple(self.shape), *windows)[-1]
        if tuple(grad.shape[-rank:]) != size:
            raise RuntimeError(f"max_pool{rank}d_with_indices_backward: expected a gradient of {list(size)}, got {list(grad.shape)}")
        return places(grad, self, indices)

    kernel(f"max_pool{rank}d_with_indices_backward")(places_of_windows)

    def average(self: Any, kernel_size: Any, stride: Any = (), *rest: Any) -> Any:
        return functional(f"avg_pool{rank}d", self, kernel_size, stride or None, *rest)

    kernel(f"avg_pool{rank}d")(average)
    slope(f"avg_pool{rank}d_backward", average)
    RULES[f"avg_pool{rank}d"] = {
        "self": f"avg_pool{rank}d_backward(grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)"
    }
    kernel(f"_adaptive_avg_pool{rank}d")(lambda self, size: ours(f"_adaptive_avg_pool{rank}d", self, tuple(size)))
    kernel(f"_adaptive_avg_pool{rank}d_backward")(lambda grad, self: ours("_adaptive_avg_pool_backward", grad, tuple(self.shape[-rank:])))
    RULES[f"_adaptive_avg_pool{rank}d"] = {"self": f"_adaptive_avg_pool{rank}d_backward(grad, self)"}
    kernel(f"adaptive_max_pool{rank}d")(lambda self, size: functional(f"adaptive_max_pool{rank}d_with_indices", self, size))
    kernel(f"adaptive_max_pool{rank}d_backward")(places)
    RULES[f"adaptive_max_pool{rank}d"] = {"self": f"adaptive_max_pool{rank}d_backward(grad, self, result1)"}
    kernel(f"max_unpool{rank}d")(lambda self, indices, size, *rest: ours(f"_max_unpool{rank}d", self, indices, tuple(size)))
    RULES[f"max_unpool{rank}d"] = _of_unpooling(rank)
    kernel(f"fractional_max_pool{rank}d")(
        lambda self, kernel_size, output_size, samples: functional(
            f"fractional_max_pool{rank}d_with_indices", self, kernel_size, output_size, None, True, samples
        )
    )
    kernel(f"fractional_max_pool{rank}d_backward")(lambda grad, self, kernel_size, output_size, indices: places(grad, self, indices))
    RULES[f"fractional_max_pool{rank}d"] = {"self": f"fractional_max_pool{rank}d_backward(grad, self, kernel_size, output_size, result1)"}
    COMPOSED[f"{F}._fractional_max_pool{rank}d"] = lambda input, samples, kernel_size, size: call(
        f"fractional_max_pool{rank}d", input, list(kernel_size), list(size), samples
    )


_declare_pooling(2)
_declare_pooling(3)


# -- resampling and padding ------------------------------------------------------------------------------------------------------------
_UPSAMPLING = {
    "nearest": "upsample_nearest{}d",
    "nearest-exact": "_upsample_nearest_exact{}d",
    "linear": "upsample_linear1d",
    "bilinear": "upsample_bilinear2d",
    "bicubic": "upsample_bicubic2d",
    "trilinear": "upsample_trilinear3d",
}


def _interpolate(
    input: Any, size: Any, scale_factor: Any, mode: str, align_corners: Any, recompute_scale_factor: Any, antialias: bool
) -> Any:
    if mode == "area" or (mode == "lanczos"):
        return NotImplemented
    sizes, scales, align_corners = resampling.checked_sizes(
        input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )
    name = _UPSAMPLING[mode].format(len(sizes)) if not antialias else f"_{_UPSAMPLING[mode]}_aa"
    options = () if mode.startswith("nearest") else (bool(align_corners),)
    return call(name, input, list(sizes), *options, *scales)


def _declare_upsampling(mode: str, rank: int, antialias: bool = False) -> None:
    name = _UPSAMPLING[mode].format(rank) if not antialias else f"_{_UPSAMPLING[mode]}_aa"
    has_corners = not mode.startswith("nearest")
    names = ("scales_d", "scales_h", "scales_w")[-rank:] if rank > 1 else ("scales",)

    def plain(self: Any, output_size: Any, *rest: Any, **named: Any) -> Any:
        align_corners, rest = (rest[0], rest[1:]) if has_corners and rest else (named.get("align_corners", False), rest)
        scales = rest or [named.get(name) for name in names]
        return resampling.resampled(self, tuple(output_size), (*scales, *(None,) * rank)[:rank], mode, bool(align_corners), antialias)

    def by_factors(input: Any, output_size: Any = None, *rest: Any, **named: Any) -> Any:
        """The overload ``vec``: sizes or factors."""
        corners = [named.get("align_corners", rest[0] if rest else False)] if has_corners else []
        factors = named.get("scale_factors", rest[-1] if len(rest) > len(corners) else None)
        if output_size is None:
            output_size = [math.floor(n * factor) for n, factor in zip(input.shape[2:], factors or (), strict=True)]
        return call(name, input, list(output_size), *corners, *(factors or [None] * rank))

    def backward(grad_output: Any, output_size: Any, input_size: Any, *rest: Any) -> Any:
        return gradients_of(lambda x: plain(x, output_size, *rest), [grad_output.new_empty(input_size)], [grad_output], [True])[0]

    kernel(name)(plain)
    kernel(f"{name}_backward")(backward)
    exact = IMPLEMENTED[name]
    IMPLEMENTED[f"{name}.vec"] = by_factors
    IMPLEMENTED[name] = lambda *args, **kwargs: (by_factors if "scale_factors" in kwargs else exact)(*args, **kwargs)
    listed = ", ".join((*(("align_corners",) if has_corners else ()), *names))
    RULES[name] = {"self": f"{name}_backward(grad, output_size, list(self_shape), {listed})"}


for _rank in (1, 2, 3):
    _declare_upsampling("nearest", _rank)
    _declare_upsampling("nearest-exact", _rank)
for _mode, _rank in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)):
    _declare_upsampling(_mode, _rank)
_declare_upsampling("bilinear", 2, True)
_declare_upsampling("bicubic", 2, True)
LEAVES[f"{F}.interpolate"] = _interpolate


def _padded(input: Any, pad: Any, mode: str) -> Any:
    rank = len(pad) // 2
    if mode == "circular":
        return _wrapped(input, pad)
    return call(f"{'reflection' if mode == 'reflect' else 'replication'}_pad{rank}d", input, list(pad))


def _wrapped(input: Any, pad: Any) -> Any:
    """Circular padding: the middle, then both ends of each dimension, copied."""
    rank, ndim = len(pad) // 2, input.dim()
    sides = [(pad[2 * k], pad[2 * k + 1]) for k in range(rank)]  # the last dimension first
    shape = list(input.shape)
    for k, (low, high) in enumerate(sides):
        shape[ndim - 1 - k] += low + high
    result = input.new_empty(shape)

    def between(tensor: Any, dim: int, start: int, end: int) -> Any:
        return call("slice.Tensor", tensor, dim, start, end)

    inner, source = result, input
    for k in reversed(range(rank)):
        dim, (low, high) = ndim - 1 - k, sides[k]
        inner = between(inner, dim, max(low, 0), shape[dim] - max(high, 0))
        source = between(source, dim, max(-low, 0), input.shape[dim] - max(-high, 0))
    inner.copy_(source)
    for k in reversed(range(rank)):
        dim, (low, high) = ndim - 1 - k, sides[k]
        size = shape[dim]
        if low > 0:
            between(result, dim, 0, low).copy_(between(result, dim, size - low - max(high, 0), size - max(high, 0)))
        if high > 0:
            between(result, dim, size - high, size).copy_(between(result, dim, max(low, 0), max(low, 0) + high))
    return result


_SIDES = {1: ("width", "channel", "batch"), 2: ("width", "height", "channel", "batch"), 3: ("width", "height", "depth", "channel", "batch")}


def _declare_padding(name: str, mode: str, rank: int) -> None:
    name = f"{name}_pad{rank}d"
    kernel(name)(lambda self, padding: ours("_pad_by_copy", self, list(padding), mode))

    @kernel(f"{name}_backward")
    def backward(grad_output: Any, self: Any, padding: Any) -> Any:
        if len(padding) != 2 * rank:
            raise RuntimeError(f"padding size is expected to be {2 * rank}, but got: {len(padding)}")
        if grad_output.dim() != self.dim() or self.dim() <= rank:
            raise RuntimeError(f"{name}_backward: expected a gradient of {self.dim()} dimensions, got {grad_output.dim()}")
        sizes = [n + sum(padding[2 * k : 2 * k + 2]) for k, n in zip(reversed(range(rank)), self.shape[-rank:], strict=True)]
        for word, expected, got in zip(_SIDES[rank], (*self.shape[:-rank], *sizes)[::-1], grad_output.shape[::-1], strict=False):
            if expected != got:
                raise RuntimeError(f"gradOutput {word} unexpected. Expected: {expected}, Got: {got}")
        return ours("_pad_by_copy_backward", grad_output, list(padding), mode)

    RULES[name] = {"self": f"{name}_backward(grad, self, padding)"}
    RULES[f"{name}_backward"] = {"grad_output": lambda grad, padding: call(name, grad, padding)}


for _rank in (1, 2, 3):
    _declare_padding("reflection", "reflect", _rank)
    _declare_padding("replication", "replicate", _rank)
COMPOSED[f"{F}._pad_by_copy"] = _padded


# -- losses ----------------------------------------------------------------------------------------------------------------------------
def _numbered(reduction: str) -> int:
    return _REDUCTIONS.index(reduction)


def _nll_loss(input: Any, target: Any, weight: Any, reduction: Any, ignore_index: int) -> Any:
    if input.dim() > 2 and input.dim() != 4:
        return _nll_of_bodies(input, target, weight, reduction, ignore_index)
    kind = "nll_loss2d_forward" if input.dim() == 4 else "nll_loss_forward"
    return call(kind, input, target, weight, _numbered(reduction), ignore_index)[0]


def _nll_of_bodies(input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    """Other numbers of dimensions than PyTorch's kernels take, as images."""
    n, c = input.shape[:2]
    images, labels = input.contiguous(), target.contiguous()
    images = images.view([n, c, 0, 0]) if not images.numel() else images.view([n, c, 1, -1])
    labels = labels.view([n, 0, 0]) if not labels.numel() else labels.view([n, 1, -1])
    result = call("nll_loss2d_forward", images, labels, weight, _numbered(reduction), ignore_index)[0]
    return result.view([n, *input.shape[2:]]) if reduction == "none" else result


def _plain_nll(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    return primitive("_nll_loss", F).wrapper(self, target, weight, _REDUCTIONS[reduction], ignore_index)


def _nll_loss_forward(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    counted = (target != ignore_index).to(self.dtype)
    if weight is not None:
        counted = counted * weight.index_select(0, target.clamp(0, weight.shape[0] - 1).reshape(-1)).reshape(target.shape)
    return _plain_nll(self, target, weight, reduction, ignore_index), counted.sum() if reduction else self.new_zeros(())


for _name in ("nll_loss", "nll_loss2d"):
    kernel(f"{_name}_forward")(_nll_loss_forward)
    slope(
        f"{_name}_backward",
        lambda x, target, weight, reduction, ignore_index, total: _plain_nll(x, target, weight, reduction, ignore_index),
    )
    RULES[f"{_name}_forward"] = {"self": f"{_name}_backward(grad, self, target, weight, reduction, ignore_index, result1)"}
COMPOSED[f"{F}._nll_loss"] = _nll_loss


def _declare_loss(name: str, plain: Any) -> None:
    """A loss whose kernel backward has the gradient of its first argument."""
    kernel(name)(plain)
    slope(f"{name}_backward", plain)


def _declare_distance(name: str, plain: Any, options: str = "") -> None:
    """A loss of two tensors that are alike: each is the other's target."""
    _declare_loss(name, plain)
    RULES[name] = {
        "self": f"{name}_backward(grad, self, target, reduction{options})",
        "target": f"{name}_backward(grad, target, self, reduction{options})",
    }

    def composed(input: Any, target: Any, reduction: str, *bounds: Any) -> Any:
        if tuple(input.shape) != tuple(target.shape):
            return NotImplemented
        return call(name, input, target, _numbered(reduction), *map(float, bounds[:1]))

    COMPOSED[f"{F}._{name}"] = composed


_declare_distance("mse_loss", lambda self, target, reduction=1: ours("_mse_loss", self, target, _REDUCTIONS[reduction]))
_declare_distance(
    "smooth_l1_loss",
    lambda self, target, reduction=1, beta=1.0: functional("smooth_l1_loss", self, target, reduction=_REDUCTIONS[reduction], beta=beta),
    ", beta",
)
_declare_distance(
    "huber_loss",
    lambda self, target, reduction=1, delta=1.0: functional("huber_loss", self, target, _REDUCTIONS[reduction], delta),
    ", delta",
)
_declare_loss(
    "binary_cross_entropy",
    lambda self, target, weight=None, reduction=1: functional(
        "binary_cross_entropy", self, target, weight, reduction=_REDUCTIONS[reduction]
    ),
)
_declare_loss(
    "soft_margin_loss",
    lambda self, target, reduction=1: functional("soft_margin_loss", self, target, reduction=_REDUCTIONS[reduction]),
)
_declare_loss(
    "multi_margin_loss",
    lambda self, target, p=1, margin=1, weight=None, reduction=1: functional(
        "multi_margin_loss", self, target, p, margin, weight, reduction=_REDUCTIONS[reduction]
    ),
)
kernel("binary_cross_entropy_with_logits")(
    lambda self, target, weight=None, pos_weight=None, reduction=1: torch(
        "binary_cross_entropy_with_logits", self, target, weight, pos_weight, reduction
    )
)


def _plain_multilabel(self: Any, target: Any, reduction: int, is_target: Any = None) -> Any:
    return functional("multilabel_margin_loss", self, target, reduction=_REDUCTIONS[reduction])


@kernel("multilabel_margin_loss_forward")
def _multilabel_forward(self: Any, target: Any, reduction: int) -> Any:
    labels = target.reshape(1, -1) if target.dim() < 2 else target
    counted = (labels >= 0).cumprod(1)  # up to the first -1
    places = self.new_zeros((labels.shape[0], labels.shape[1])).scatter_add(1, labels.clamp(min=0), counted.to(self.dtype))
    return _plain_multilabel(self, target, reduction), (places > 0).to(self.dtype).reshape(target.shape)


slope("multilabel_margin_loss_backward", _plain_multilabel)


def _of_logits(grad: Any, self: Any, target: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    if pos_weight is not None:
        factor = pos_weight * target
        slope = (factor + 1 - target) * self.sigmoid() - factor
    else:
        slope = self.sigmoid() - target
    slope = slope * grad
    if weight is not None:
        slope = slope * weight
    return slope.div_(self.numel()) if reduction == 1 else slope


def _of_labels(grad: Any, self: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    if pos_weight is not None:
        slope = (functional("logsigmoid", -self) - pos_weight * functional("logsigmoid", self)) * grad
    else:
        slope = -self * grad
    if weight is not None:
        slope = slope * weight
    return slope.div_(self.numel()) if reduction == 1 else slope


def _of_probabilities(grad: Any, self: Any, weight: Any, reduction: int) -> Any:
    slope = self.logit().neg_() * grad
    if weight is not None:
        slope = slope * weight
    return slope.div_(self.numel()) if reduction == 1 else slope


RULES.update(
    {
        "binary_cross_entropy": {
            "self": "binary_cross_entropy_backward(grad, self, target, weight, reduction)",
            "target": _of_probabilities,
        },
        "binary_cross_entropy_with_logits": {"self": _of_logits, "target": _of_labels},
        "soft_margin_loss": {"self": "soft_margin_loss_backward(grad, self, target, reduction)"},
        "multi_margin_loss": {"self": "multi_margin_loss_backward(grad, self, target, p, margin, weight, reduction)"},
        "multilabel_margin_loss_forward": {"self": "multilabel_margin_loss_backward(grad, self, target, reduction, result1)"},
    }
)
for _name in ("binary_cross_entropy", "binary_cross_entropy_with_logits"):
    COMPOSED[f"{F}._{_name}"] = lambda *values, name=_name: call(name, *values[:-1], _numbered(values[-1]))


def _reduction(size_average: Any, reduce: Any, reduction: Any) -> int:
    return _numbered(reduction_of(reduction, size_average, reduce))


def _loss(name: str, *values: Any) -> Any:
    """A loss whose last three arguments say how it is reduced."""
    return call(name, *values[:-3], _reduction(*values[-3:]))


for _name in ("soft_margin_loss", "multi_margin_loss"):
    LEAVES[f"{F}.{_name}"] = functools.partial(_loss, _name)
LEAVES[f"{F}.multilabel_margin_loss"] = lambda *values: _loss("multilabel_margin_loss_forward", *values)[0]


# -- images, patches and tables --------------------------------------------------------------------------------------------------------
for _rank in (2, 3):
    kernel(f"grid_sampler_{_rank}d")(lambda *args, rank=_rank: torch(f"grid_sampler_{rank}d", *args))
    slopes(f"grid_sampler_{_rank}d_backward", lambda *args, rank=_rank: torch(f"grid_sampler_{rank}d", *args), 2)
    RULES[f"grid_sampler_{_rank}d"] = {
        "input, grid": f"grid_sampler_{_rank}d_backward(grad, input, grid, interpolation_mode, padding_mode, align_corners, list(needs))"
    }


def _grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    if input.dim() not in (4, 5) or grid.dim() != input.dim() or input.dtype is not grid.dtype:
        return NotImplemented  # the composite complains
    return call(f"grid_sampler_{input.dim() - 2}d", input, grid, interpolation_mode, padding_mode, bool(align_corners))


def _grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Any = None) -> Any:
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    if mode not in modes or padding_mode not in paddings or align_corners is None:
        return NotImplemented  # the composite complains, or warns
    return _grid_sampler(input, grid, modes.index(mode), paddings.index(padding_mode), align_corners)


LEAVES[f"{F}.grid_sample"] = _grid_sample
LEAVES[f"{F}.affine_grid"] = lambda theta, size, align_corners=None: (
    NotImplemented
    if align_corners is None or not theta.is_floating_point()
    else call("affine_grid_generator", theta, list(size), bool(align_corners))
)
LEAVES["grid_sampler"] = LEAVES["grid_sampler_2d"] = LEAVES["grid_sampler_3d"] = _grid_sampler
LEAVES["affine_grid_generator"] = lambda theta, size, align_corners: call("affine_grid_generator", theta, list(size), bool(align_corners))
kernel("affine_grid_generator")(lambda theta, size, align_corners: torch("affine_grid_generator", theta, size, align_corners))
kernel("im2col")(lambda self, *sizes: ours("_im2col", self, *map(tuple, sizes)))
kernel("col2im")(lambda self, *sizes: ours("_col2im", self, *map(tuple, sizes)))
COMPOSED[f"{F}._im2col"] = lambda input, *sizes: call("im2col", input, *map(list, sizes))
COMPOSED[f"{F}._col2im"] = lambda input, *sizes: call("col2im", input, *map(list, sizes))
RULES["im2col"] = {"self": "col2im(grad, list(self_shape[-2:]), kernel_size, dilation, padding, stride)"}
RULES["col2im"] = {"self": "im2col(grad, kernel_size, dilation, padding, stride)"}
for _name, _back in (("pixel_shuffle", "pixel_unshuffle"), ("pixel_unshuffle", "pixel_shuffle")):
    kernel(_name)(lambda self, factor, name=_name: torch(name, self, factor))
    LEAVES[_name] = LEAVES[f"{F}.{_name}"] = lambda input, factor, name=_name: call(name, input, factor)
RULES["pixel_shuffle"] = {"self": "pixel_unshuffle(grad, upscale_factor)"}
RULES["pixel_unshuffle"] = {"self": "pixel_shuffle(grad, downscale_factor)"}
kernel("channel_shuffle")(lambda self, groups: torch("channel_shuffle", self, groups))
LEAVES["channel_shuffle"] = LEAVES[f"{F}.channel_shuffle"] = lambda input, groups: call("channel_shuffle", input, groups)
RULES["channel_shuffle"] = {"self": "channel_shuffle(grad, self_shape[1] // groups)"}
kernel("embedding_dense_backward")(
    lambda grad, indices, num_weights, padding_idx, scale_grad_by_freq: primitive("_embedding_backward").wrapper(
        grad, indices, num_weights, padding_idx, scale_grad_by_freq
    )
)
kernel("embedding_sparse_backward")(
    lambda grad, indices, num_weights, padding_idx, scale_grad_by_freq: sparse_gradient(
        grad, indices, (num_weights, grad.shape[-1]), padding_idx, scale_grad_by_freq
    )
)
RULES["embedding"] = {
    "weight": lambda grad, weight_shape, indices, padding_idx, scale_grad_by_freq, sparse: call(
        f"embedding_{'sparse' if sparse else 'dense'}_backward", grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq
    )
}


# -- dropout ---------------------------------------------------------------------------------------------------------------------------
def in_library(function: Any) -> Any:
    """A function whose calls are the library's own: numbers stay numbers."""

    def run(*args: Any, **kwargs: Any) -> Any:
        was, thread.in_library = thread.in_library, True
        try:
            return function(*args, **kwargs)
        finally:
            thread.in_library = was

    return run


@in_library
def _dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """As PyTorch's CPU kernels: a mask, made in place, times the input."""
    if not training or not p or p < 0 or p >= 1 or not input.numel():
        return NotImplemented
    mask = torch("empty_like", input).bernoulli_(1 - p).div_(1 - p)
    return input.mul_(mask) if inplace else input * mask


@in_library
def _noisy(input: Any, p: float, train: bool, feature: bool, alpha: bool) -> Any:
    """Dropout of whole channels, and that which keeps mean and variance: noise, made in place, that the input is multiplied by."""
    if not train or not 0 < p < 1 or not input.numel() or (feature and input.dim() < 2):
        return NotImplemented
    noise = torch("empty_like", input) if not feature else input.new_empty([*input.shape[:2], *[1] * (input.dim() - 2)])
    noise.bernoulli_(1 - p)
    if not alpha:
        return input * noise.div_(1 - p)
    limit = 1.7580993408473766  # -SELU(-inf)
    scale = 1 / ((limit * limit * p + 1) * (1 - p)) ** 0.5
    shift = (noise + -1).mul_(limit * scale).add_(limit * scale * p)
    return input.mul(noise.mul_(scale)).add_(shift)


for _feature, _alpha, _name in ((True, False, "feature_dropout"), (False, True, "alpha_dropout"), (True, True, "feature_alpha_dropout")):
    LEAVES[_name] = lambda input, p, train, feature=_feature, alpha=_alpha: _noisy(input, p, train, feature, alpha)
    if _name != "feature_dropout":  # which ``nn.functional`` has as ``dropout2d`` and the like
        LEAVES[f"{F}.{_name}"] = lambda input, p=0.5, training=False, inplace=False, feature=_feature, alpha=_alpha: (
            NotImplemented if inplace else _noisy(input, p, training, feature, alpha)
        )
for _ndim in (3, 4, 5):
    LEAVES[f"{F}.dropout{_ndim - 2}d"] = lambda input, p=0.5, training=True, inplace=False, ndim=_ndim: (
        NotImplemented if inplace or input.dim() != ndim else _noisy(input, p, training, True, False)
    )
LEAVES[f"{F}.dropout"] = _dropout
LEAVES["dropout"] = lambda input, p, train: _dropout(input, p, train)
