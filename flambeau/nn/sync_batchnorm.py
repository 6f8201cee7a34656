"""Batch normalization over all processes; here there is one."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .module import Module
from .normalization import _BatchNorm

__all__ = ["SyncBatchNorm"]


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
