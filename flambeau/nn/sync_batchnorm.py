"""Batch normalization over the batches of all processes.

Each rank's number of values, mean and sum of squared distances go to all ranks, which combine them (Chan, Golub and LeVeque 1979): so
batches may differ in size, and a rank's may be empty. The backward pass needs one sum of two vectors. Both are exchanged in float64.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import ops
from ..autograd.function import Function, once_differentiable
from ..autograd.grad_mode import no_grad
from ..core.dtype import float32, float64
from ..core.tensor import Tensor
from . import functional as F
from .module import Module
from .normalization import _BatchNorm

__all__ = ["SyncBatchNorm"]


def _statistics(input: Tensor, group: Any, dist: Any) -> tuple[Tensor, Tensor, float]:
    """Mean and variance of each channel over all ranks, float64, and the number of values."""
    channels = input.size(1)
    count = input.numel() // channels
    mine = ops.zeros(1 + 2 * channels, dtype=float64, device=input.device)
    if count:
        wide = input if input.element_size() > 2 else input.float()
        variance, mean = ops.var_mean(wide, _all_but_channels(input), correction=0)
        mine[0] = count
        mine[1 : 1 + channels] = mean
        mine[1 + channels :] = variance.to(float64) * count
    everyone = ops.empty((dist.get_world_size(group), 1 + 2 * channels), dtype=float64, device=input.device)
    dist.all_gather_into_tensor(everyone, mine, group=group)
    counts, means, squares = everyone[:, :1], everyone[:, 1 : 1 + channels], everyone[:, 1 + channels :]
    total = float(counts.sum())
    mean = (counts * means).sum(0) / total
    return mean, (squares + counts * (means - mean).square()).sum(0) / total, total


def _all_but_channels(input: Tensor) -> list[int]:
    return [0, *range(2, input.dim())]


class _Normalized(Function):
    """Batch norm by the statistics of all ranks; see this module's docstring."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, eps: float, total: float, group: Any
    ) -> Tensor:
        dtype = input.dtype if input.element_size() > 2 else float32
        ctx.save_for_backward(input, weight)
        ctx.statistics = mean, 1 / (variance + eps).sqrt(), total, group
        return F.batch_norm(input, mean.to(dtype), variance.to(dtype), weight, bias, False, 0.0, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from .. import distributed as dist

        input, weight = ctx.saved_tensors
        mean, scale, total, group = ctx.statistics
        dims, shape = _all_but_channels(input), [1, -1, *[1] * (input.dim() - 2)]
        wide = input.dtype if input.element_size() > 2 else float32
        grad_wide = grad.to(wide)
        centred = input.to(wide) - mean.to(wide).view(shape)
        sums = ops.stack([grad_wide.sum(dims, dtype=float64), (grad_wide * centred).sum(dims, dtype=float64)])
        grad_bias, grad_weight = sums[0].clone(), sums[1] * scale
        grad_input = None
        dist.all_reduce(sums, group=group)  # whoever needs it: others do
        if ctx.needs_input_grad[0]:
            sums /= total
            factor = scale if weight is None else scale * weight
            offset, slope = factor * sums[0], factor * scale.square() * sums[1]
            grad_input = centred.mul_(-slope.to(wide).view(shape))
            grad_input.addcmul_(grad_wide, factor.to(wide).view(shape)).sub_(offset.to(wide).view(shape))
            grad_input = grad_input.to(input.dtype)
        grad_weight = grad_weight.to(weight.dtype) if ctx.needs_input_grad[1] else None
        return grad_input, grad_weight, grad_bias.to(wide) if ctx.needs_input_grad[2] else None, *[None] * 5


class SyncBatchNorm(_BatchNorm):
    """Batch normalization whose statistics are those of the batches of all processes; of this one where there are no others.

    Args:
        num_features: channels, ``C``.
        eps: added to the variance.
        momentum: share of the new statistics in the running ones; None for the plain mean over all batches.
        affine: whether there are a weight and a bias.
        track_running_stats: whether running statistics are kept.
        process_group: the processes that share statistics; all when None.
        bias: whether there is a bias, if ``affine``.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(N, C, *)`` to the same.
    Attributes:
        weight, bias, running_mean, running_var, num_batches_tracked: as in ``BatchNorm2d``.
    Raises:
        ValueError: the input has fewer than 2 dimensions, or no channels.
    Source: torch.nn.SyncBatchNorm.
    Example:
        >>> network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
        >>> nn.SyncBatchNorm.convert_sync_batchnorm(network)[1]
        SyncBatchNorm(8, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any | None = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        dist: Any = sys.modules.get(f"{__name__.partition('.')[0]}.distributed") if self.training else None
        if dist is None or not dist.is_initialized():
            return super().forward(input)
        group = dist.group.WORLD if self.process_group is None else self.process_group
        if dist.get_world_size(group) == 1:
            return super().forward(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            momentum = 1.0 / float(self.num_batches_tracked) if self.momentum is None else momentum
        with no_grad():
            mean, variance, total = _statistics(input, group, dist)
            if self.track_running_stats and self.running_mean is not None:
                unbiased = variance * (total / max(total - 1, 1))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)
        return _Normalized.apply(input, self.weight, self.bias, mean, variance, self.eps, total, group)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        self._check_non_zero_input_channels(input)

    def _check_non_zero_input_channels(self, input: Tensor) -> None:
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any | None = None) -> Module:
        """``module`` with each batch normalization in it replaced by this one, which takes over weights and statistics.

        Args:
            module: a batch normalization, for which the new one is returned, or a module that holds some, which is changed in place.
            process_group: of the new ones.
        Source: torch.nn.SyncBatchNorm.convert_sync_batchnorm.
        """
        converted: Any = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                converted.weight = module.weight
                converted.bias = module.bias
            converted.running_mean = module.running_mean
            converted.running_var = module.running_var
            converted.num_batches_tracked = module.num_batches_tracked
            converted.training = module.training
            if hasattr(module, "qconfig"):
                converted.qconfig = module.qconfig
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
