"""PyTorch's kernels with a derivative kernel of their own, as modes and classes see them: one call forward, one backward.

Here these are composites, or primitives of another cut. Where nobody looks, nothing of this file runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.function import Function
from ..core.calls.registry import primitive, resolve
from ..core.state import grad_enabled, modes, set_grad, thread
from .aten_calls import COMPOSED, IMPLEMENTED, LEAVES, overload_named, pruned
from .aten_rules import call, is_handled, torch


def gradients_of(function: Callable[..., Any], tensors: list[Any], grads: list[Any], mask: Any) -> tuple[Any, ...]:
    """Gradients of ``function(*tensors)`` where ``mask`` says so: what a kernel's backward kernel computes."""
    from ..autograd.engine import run_backward

    leaves = [None if tensor is None else tensor.detach().requires_grad_(wanted) for tensor, wanted in zip(tensors, mask, strict=True)]
    was = thread.grad
    set_grad(True)
    try:
        results = function(*leaves)
    finally:
        if was is not True:
            set_grad(False)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
    pairs = [(result, grad) for result, grad in zip(results, grads, strict=False) if grad is not None and result.requires_grad]
    if not wanted or not pairs:
        return tuple([None] * len(tensors))
    found = iter(run_backward([r for r, _ in pairs], [g for _, g in pairs], False, grad_enabled(), wanted, accumulates=False))
    return tuple([next(found) if leaf is not None and leaf.requires_grad else None for leaf in leaves])


# -- convolution -----------------------------------------------------------------------------------------------------------------------
class Convolution(Function):
    @staticmethod
    def forward(ctx: Any, input: Any, weight: Any, bias: Any, *options: Any) -> Any:
        ctx.save_for_backward(input, weight)
        ctx.options, ctx.bias_sizes = options, None if bias is None else list(bias.shape)
        return call("convolution", input, weight, bias, *options)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        mask = list(ctx.needs_input_grad[:3])
        grads = call("convolution_backward", grad, *ctx.saved_tensors, ctx.bias_sizes, *ctx.options, mask)
        return (*grads, *[None] * len(ctx.options))


def _listed(options: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """Strides and the like as lists, one entry per dimension."""
    return tuple(
        [
            option if isinstance(option, bool) else list(option) if isinstance(option, (tuple, list)) else [option] * rank
            for option in options[:-1]
        ]
    ) + (options[-1],)


def _convolution(input: Any, weight: Any, bias: Any, *options: Any) -> Any:
    if not (grad_enabled() and any(tensor is not None and tensor._requires_grad for tensor in (input, weight, bias))):
        return NotImplemented
    return Convolution.apply(input, weight, bias, *_listed(options, weight.dim() - 2))


def _convolution_backward(grad_output: Any, input: Any, weight: Any, bias_sizes: Any, *rest: Any) -> Any:
    *options, mask = rest
    if is_handled(grad_output, input, weight):
        return _asked("convolution_backward", grad_output, input, weight, bias_sizes, *rest)
    bias = None if bias_sizes is None else weight.new_zeros(bias_sizes)
    return gradients_of(lambda x, w, b: torch("convolution", x, w, b, *options), [input, weight, bias], [grad_output], mask)


def _asked(name: str, *args: Any, **kwargs: Any) -> Any:
    found = overload_named(name)
    return modes.below.ask(found, *pruned(found, args, kwargs))


COMPOSED["convolution"] = _convolution
IMPLEMENTED["convolution_backward"] = _convolution_backward


# -- normalization ---------------------------------------------------------------------------------------------------------------------
class LayerNorm(Function):
    @staticmethod
    def forward(ctx: Any, input: Any, sizes: Any, weight: Any, bias: Any, eps: float) -> Any:
        result, mean, rstd = call("native_layer_norm", input, sizes, weight, bias, eps)
        ctx.save_for_backward(input, weight, bias, mean, rstd)
        ctx.sizes, ctx.eps = sizes, eps
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        input, weight, bias, mean, rstd = ctx.saved_tensors
        needs = ctx.needs_input_grad
        mask = [needs[0], needs[2], needs[3]]
        grads = call("native_layer_norm_backward", grad, input, ctx.sizes, mean, rstd, weight, bias, mask)
        return grads[0], None, grads[1], grads[2], None


def _moments_kernel(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that returns moments: asked about where somebody looks, else the composite."""

    def run(*args: Any) -> Any:
        return _asked(name, *args) if is_handled(*args) else plain(*args)

    return run


def _layer_norm_backward(grad: Any, input: Any, sizes: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any) -> Any:
    if is_handled(grad, input, weight):
        return _asked("native_layer_norm_backward", grad, input, sizes, mean, rstd, weight, bias, mask)
    dims = list(range(input.dim() - len(sizes), input.dim()))
    lead = list(range(input.dim() - len(sizes)))
    normalized = (input - mean) * rstd
    scaled = grad if weight is None else grad * weight
    of_input = (scaled - scaled.mean(dims, True) - normalized * (scaled * normalized).mean(dims, True)) * rstd if mask[0] else None
    of_weight = ((grad * normalized).sum(lead) if lead else grad * normalized) if mask[1] else None
    of_bias = (grad.sum(lead) if lead else grad) if mask[2] else None
    return of_input, of_weight, of_bias


def _layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    sizes = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return LayerNorm.apply(input, sizes, weight, bias, eps)


class GroupNorm(Function):
    @staticmethod
    def forward(ctx: Any, input: Any, weight: Any, bias: Any, sizes: Any, eps: float) -> Any:
        result, mean, rstd = call("native_group_norm", input, weight, bias, *sizes, eps)
        ctx.save_for_backward(input, weight, mean, rstd)
        ctx.sizes = sizes
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        input, weight, mean, rstd = ctx.saved_tensors
        grads = call("native_group_norm_backward", grad, input, mean, rstd, weight, *ctx.sizes, list(ctx.needs_input_grad[:3]))
        return (*grads, None, None)


def _group_norm_backward(grad: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: int, C: int, HxW: int, group: int, mask: Any) -> Any:
    if is_handled(grad, input, weight):
        return _asked("native_group_norm_backward", grad, input, mean, rstd, weight, N, C, HxW, group, mask)
    grouped = (N, group, C // group, HxW)
    normalized = (input.reshape(grouped) - mean.reshape(N, group, 1, 1)) * rstd.reshape(N, group, 1, 1)
    scaled = (grad.reshape(N, C, HxW) if weight is None else grad.reshape(N, C, HxW) * weight.reshape(1, C, 1)).reshape(grouped)
    of_input = None
    if mask[0]:
        rest = scaled - scaled.mean([2, 3], True) - normalized * (scaled * normalized).mean([2, 3], True)
        of_input = (rest * rstd.reshape(N, group, 1, 1)).reshape(input.shape)
    of_weight = (grad.reshape(N, C, HxW) * normalized.reshape(N, C, HxW)).sum([0, 2]) if mask[1] else None
    return of_input, of_weight, grad.reshape(N, C, HxW).sum([0, 2]) if mask[2] else None


def _group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    if input.shape[1] % num_groups:
        return NotImplemented
    space = 1
    for size in input.shape[2:]:
        space *= size
    return GroupNorm.apply(input, weight, bias, (input.shape[0], input.shape[1], space, num_groups), eps)


class BatchNorm(Function):
    @staticmethod
    def forward(ctx: Any, input: Any, weight: Any, bias: Any, running: Any, training: bool, momentum: float, eps: float) -> Any:
        result, mean, rstd = call("native_batch_norm", input, weight, bias, *running, training, momentum, eps)
        ctx.save_for_backward(input, weight, mean, rstd)
        ctx.running, ctx.training, ctx.eps = running, training, eps
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        input, weight, mean, rstd = ctx.saved_tensors
        mask = list(ctx.needs_input_grad[:3])
        grads = call("native_batch_norm_backward", grad, input, weight, *ctx.running, mean, rstd, ctx.training, ctx.eps, mask)
        return (*grads, None, None, None, None)


def _batch_norm_backward(
    grad: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, mean: Any, rstd: Any, train: bool, eps: float, mask: Any
) -> Any:
    if is_handled(grad, input, weight):
        return _asked("native_batch_norm_backward", grad, input, weight, running_mean, running_var, mean, rstd, train, eps, mask)
    shape, dims = (1, -1, *(1,) * (input.dim() - 2)), [0, *range(2, input.dim())]
    if not train:
        mean, rstd = running_mean, (running_var + eps).rsqrt()
    normalized = (input - mean.reshape(shape)) * rstd.reshape(shape)
    scaled = (grad if weight is None else grad * weight.reshape(shape)) * rstd.reshape(shape)
    of_input = None
    if mask[0]:
        of_input = scaled if not train else scaled - scaled.mean(dims, True) - normalized * (scaled * normalized).mean(dims, True)
    return of_input, (grad * normalized).sum(dims) if mask[1] else None, grad.sum(dims) if mask[2] else None


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
    if training and (input.numel() // max(input.shape[1], 1) if input.dim() > 1 else 0) <= 1:
        return NotImplemented  # the composite complains
    return BatchNorm.apply(input, weight, bias, (running_mean, running_var), training, momentum, eps)


LEAVES["nn.functional.layer_norm"] = _layer_norm
LEAVES["layer_norm"] = lambda input, normalized_shape, weight=None, bias=None, eps=1e-5, *rest: _layer_norm(
    input, normalized_shape, weight, bias, eps
)
LEAVES["nn.functional.group_norm"] = _group_norm
LEAVES["group_norm"] = lambda input, num_groups, weight=None, bias=None, eps=1e-5, *rest: _group_norm(input, num_groups, weight, bias, eps)
LEAVES["nn.functional.batch_norm"] = _batch_norm
for _name in ("native_layer_norm", "native_group_norm", "native_batch_norm"):
    IMPLEMENTED[_name] = _moments_kernel(_name, lambda *args, name=_name: torch(name, *args))
IMPLEMENTED["native_layer_norm_backward"] = _layer_norm_backward
IMPLEMENTED["native_group_norm_backward"] = _group_norm_backward
IMPLEMENTED["native_batch_norm_backward"] = _batch_norm_backward


# -- pooling ---------------------------------------------------------------------------------------------------------------------------
class MaxPool2d(Function):
    @staticmethod
    def forward(ctx: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
        result, indices = call("max_pool2d_with_indices", input, kernel_size, stride, padding, dilation, ceil_mode)
        ctx.save_for_backward(input, indices)
        ctx.options = (kernel_size, stride, padding, dilation, ceil_mode)
        ctx.mark_non_differentiable(indices)
        return result, indices

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        input, indices = ctx.saved_tensors
        return (call("max_pool2d_with_indices_backward", grad, input, *ctx.options, indices), *[None] * 5)


def _pair(value: Any) -> list[int]:
    return list(value) * (2 // len(value)) if isinstance(value, (tuple, list)) else [value, value]


def _max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    size = _pair(kernel_size)
    results = MaxPool2d.apply(
        input, size, _pair(stride) if stride not in (None, [], ()) else size, _pair(padding), _pair(dilation), bool(ceil_mode)
    )
    return results if return_indices else results[0]


_OPTIONS = ("stride", "padding", "dilation", "ceil_mode")


def _pool_with_indices(self: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    if is_handled(self):
        return _asked("max_pool2d_with_indices", self, kernel_size, stride, padding, dilation, ceil_mode)
    return resolve("nn.functional", "max_pool2d_with_indices")(self, kernel_size, stride or None, padding, dilation, ceil_mode)


def _pool_backward(grad: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Any) -> Any:
    if is_handled(grad, self, indices):
        return _asked("max_pool2d_with_indices_backward", grad, self, kernel_size, stride, padding, dilation, ceil_mode, indices)
    return resolve("ops.aten", "max_pool2d_with_indices_backward")(grad, self, kernel_size, stride, padding, dilation, ceil_mode, indices)


LEAVES["nn.functional.max_pool2d"] = _max_pool2d
LEAVES["nn.functional.max_pool2d_with_indices"] = lambda input, kernel_size, *rest: _max_pool2d(
    input, kernel_size, **dict(zip(_OPTIONS, rest, strict=False)), return_indices=True
)
IMPLEMENTED["max_pool2d_with_indices"] = _pool_with_indices
IMPLEMENTED["max_pool2d_with_indices_backward"] = _pool_backward


# -- losses ----------------------------------------------------------------------------------------------------------------------------
_REDUCTIONS = ("none", "mean", "sum")


class NllLoss(Function):
    @staticmethod
    def forward(ctx: Any, input: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
        result, total = call("nll_loss_forward", input, target, weight, reduction, ignore_index)
        ctx.save_for_backward(input, target, weight, total)
        ctx.options = (reduction, ignore_index)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        input, target, weight, total = ctx.saved_tensors
        return call("nll_loss_backward", grad, input, target, weight, *ctx.options, total), None, None, None, None


def _nll_loss(input: Any, target: Any, weight: Any, reduction: Any, ignore_index: int) -> Any:
    if input.dim() > 2:
        return NotImplemented
    return NllLoss.apply(input, target, weight, _REDUCTIONS.index(reduction), ignore_index)


def _plain_nll(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    return primitive("_nll_loss", "nn.functional").wrapper(self, target, weight, _REDUCTIONS[reduction], ignore_index)


def _nll_loss_forward(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    if is_handled(self, target):
        return _asked("nll_loss_forward", self, target, weight, reduction, ignore_index)
    counted = (target != ignore_index).to(self.dtype)
    if weight is not None:
        counted = counted * weight[target.clamp(0, weight.shape[0] - 1)]
    return _plain_nll(self, target, weight, reduction, ignore_index), counted.sum() if reduction else self.new_zeros(())


def _nll_loss_backward(grad: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total_weight: Any) -> Any:
    if is_handled(grad, self, target):
        return _asked("nll_loss_backward", grad, self, target, weight, reduction, ignore_index, total_weight)
    return gradients_of(lambda x: _plain_nll(x, target, weight, reduction, ignore_index), [self], [grad], [True])[0]


class MseLoss(Function):
    @staticmethod
    def forward(ctx: Any, input: Any, target: Any, reduction: int) -> Any:
        ctx.save_for_backward(input, target)
        ctx.reduction = reduction
        return call("mse_loss", input, target, reduction)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        input, target = ctx.saved_tensors
        of_input = call("mse_loss_backward", grad, input, target, ctx.reduction) if ctx.needs_input_grad[0] else None
        of_target = call("mse_loss_backward", grad, target, input, ctx.reduction) if ctx.needs_input_grad[1] else None
        return of_input, of_target, None


def _plain_mse(input: Any, target: Any, reduction: int) -> Any:
    return primitive("_mse_loss", "nn.functional").wrapper(input, target, _REDUCTIONS[reduction])


def _mse_loss(self: Any, target: Any, reduction: int = 1) -> Any:
    return _asked("mse_loss", self, target, reduction) if is_handled(self, target) else _plain_mse(self, target, reduction)


def _mse_loss_backward(grad: Any, self: Any, target: Any, reduction: int) -> Any:
    if is_handled(grad, self, target):
        return _asked("mse_loss_backward", grad, self, target, reduction)
    return gradients_of(lambda x: _plain_mse(x, target, reduction), [self], [grad], [True])[0]


COMPOSED["nn.functional._nll_loss"] = _nll_loss
COMPOSED["nn.functional._mse_loss"] = lambda input, target, reduction: (
    MseLoss.apply(input, target, _REDUCTIONS.index(reduction)) if tuple(input.shape) == tuple(target.shape) else NotImplemented
)
IMPLEMENTED["nll_loss_forward"] = _nll_loss_forward
IMPLEMENTED["nll_loss_backward"] = _nll_loss_backward
IMPLEMENTED["mse_loss"] = _mse_loss
IMPLEMENTED["mse_loss_backward"] = _mse_loss_backward


# -- dropout ---------------------------------------------------------------------------------------------------------------------------
def _dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """As PyTorch's CPU kernels: a mask, made in place, times the input."""
    if inplace or not training or not p or p < 0 or p >= 1 or not input.numel():
        return NotImplemented
    mask = torch("empty_like", input.detach()).bernoulli_(1 - p).div_(1 - p)
    return input * mask


def _noisy(input: Any, p: float, train: bool, feature: bool, alpha: bool) -> Any:
    """Dropout of whole channels, and that which keeps mean and variance: noise, made in place, that the input is multiplied by."""
    if not train or not 0 < p < 1 or not input.numel() or (feature and input.dim() < 2):
        return NotImplemented
    plain = input.detach()
    noise = torch("empty_like", plain) if not feature else plain.new_empty([*input.shape[:2], *[1] * (input.dim() - 2)])
    noise.bernoulli_(1 - p)
    if not alpha:
        return input * noise.div_(1 - p)
    limit = 1.7580993408473766  # -SELU(-inf)
    scale = 1 / ((limit * limit * p + 1) * (1 - p)) ** 0.5
    shift = noise.add(-1).mul_(limit * scale).add_(limit * scale * p)
    return input.mul(noise.mul_(scale)).add_(shift)


for _feature, _alpha, _name in ((True, False, "feature_dropout"), (False, True, "alpha_dropout"), (True, True, "feature_alpha_dropout")):
    LEAVES[_name] = lambda input, p, train, feature=_feature, alpha=_alpha: _noisy(input, p, train, feature, alpha)
    LEAVES[f"nn.functional.{_name}"] = lambda input, p=0.5, training=False, inplace=False, feature=_feature, alpha=_alpha: (
        NotImplemented if inplace else _noisy(input, p, training, feature, alpha)
    )
for _ndim in (3, 4, 5):
    LEAVES[f"nn.functional.dropout{_ndim - 2}d"] = lambda input, p=0.5, training=True, inplace=False, ndim=_ndim: (
        NotImplemented if inplace or input.dim() != ndim else _noisy(input, p, training, True, False)
    )
LEAVES["nn.functional.dropout"] = _dropout
LEAVES["dropout"] = lambda input, p, train: _dropout(input, p, train)
