"""Normalization layers."""

from __future__ import annotations

import warnings
from typing import Any

from .. import ops
from ..core import dtype as dtypes
from ..core.tensor import Parameter, Tensor
from . import functional as F, init
from ._families import of_dims
from ._layer import layer
from .lazy import LazyModuleMixin, lazy_variant
from .module import Module
from .parameter import UninitializedBuffer, UninitializedParameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossMapLRN2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "LayerNorm", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
    "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


def _set_affine(module: Module, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
    """Give the module a weight and a bias, or None in their place."""
    for name, wanted in (("weight", weight), ("bias", bias)):
        parameter = Parameter(ops.empty(shape, device=device, dtype=dtype)) if wanted else None
        module.register_parameter(name, parameter)


def _reset_affine(module: Module) -> None:
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class _NormBase(Module):
    """Base class of batch and instance normalization: the channels' weights and running statistics."""

    _version = 2  # 2: has num_batches_tracked
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    _allowed_dims: tuple[int, ...] = ()
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        _set_affine(self, num_features, affine, affine and bias, device, dtype)
        if track_running_stats:
            self.register_buffer("running_mean", ops.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", ops.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", ops.tensor(0, dtype=dtypes.int64, device=device))
        else:
            self.register_buffer("running_mean", None)
            self.register_buffer("running_var", None)
            self.register_buffer("num_batches_tracked", None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1, and the count to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the weight to 1, the bias to 0, and the running statistics to their beginning."""
        self.reset_running_stats()
        if self.affine:
            _reset_affine(self)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._allowed_dims:
            expected = " or ".join(f"{dims}D" for dims in self._allowed_dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *args: Any) -> None:
        version = local_metadata.get("version", None)
        if (version is None or version < 2) and self.track_running_stats:
            # Older states do not have the count: keep the one that is there.
            key = f"{prefix}num_batches_tracked"
            if key not in state_dict:
                present = self.num_batches_tracked
                usable = present is not None and not present.is_meta
                state_dict[key] = present if usable else ops.tensor(0, dtype=dtypes.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


class _BatchNorm(_NormBase):
    """Normalizes each channel by its mean and variance over the batch and all positions.

    In training the statistics of the batch are used, and running averages of them are kept; in evaluation those averages are used.

    Args:
        num_features: channels, ``C``.
        eps: added to the variance.
        momentum: share of the new statistics in the running ones; None for the plain mean over all batches.
        affine: whether there are a weight and a bias.
        track_running_stats: whether running statistics are kept; without them the batch's are used in evaluation too.
        bias: whether there is a bias, if ``affine``.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        {shape} to the same.
    Attributes:
        weight, bias: ``(C,)``, 1 and 0.
        running_mean, running_var: ``(C,)``, 0 and 1; the variance is the unbiased one.
        num_batches_tracked: number of training batches seen.
    Raises:
        ValueError: the input has another number of dimensions.
    Source: torch.nn.BatchNorm{dims}d; Ioffe and Szegedy 2015.
    """

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        tracking = self.track_running_stats
        if self.training and tracking and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain mean over all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        mean, var = self.running_mean, self.running_var
        by_batch = self.training or (mean is None and var is None)
        if self.training and not tracking:
            mean = var = None
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)


@of_dims(1, shape="``(N, C)`` or ``(N, C, L)``")
class BatchNorm1d(_BatchNorm):
    """
    Example:
        >>> layer = nn.BatchNorm1d(2)
        >>> layer(torch.tensor([[1.0, 10.0], [3.0, 30.0]])).detach()
        tensor([[-1.0000, -1.0000],
                [ 1.0000,  1.0000]])
        >>> layer.running_mean
        tensor([0.2000, 2.0000])
    """

    _allowed_dims = (2, 3)


@of_dims(2, shape="``(N, C, H, W)``")
class BatchNorm2d(_BatchNorm):
    """
    Example:
        >>> layer = nn.BatchNorm2d(3)
        >>> layer(torch.full((4, 3, 8, 8), 5.0)).abs().max().item()
        0.0
        >>> layer.running_mean, layer.num_batches_tracked
        (tensor([0.5000, 0.5000, 0.5000]), tensor(1))
    """

    _allowed_dims = (4,)


@of_dims(3, shape="``(N, C, D, H, W)``")
class BatchNorm3d(_BatchNorm):
    """
    Example:
        >>> layer = nn.BatchNorm3d(3).eval()
        >>> layer(torch.ones(4, 3, 2, 8, 8)).shape
        torch.Size([4, 3, 2, 8, 8])
    """

    _allowed_dims = (5,)


class _InstanceNorm(_NormBase):
    """Normalizes each channel of each sample by its mean and variance over all positions.

    Args:
        num_features: channels, ``C``.
        eps: added to the variance.
        momentum: share of the new statistics in the running ones.
        affine: whether there are a weight and a bias.
        track_running_stats: whether running statistics are kept, and used in evaluation.
        bias: whether there is a bias, if ``affine``.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})`` to the same.
    Attributes:
        weight, bias: ``(C,)``, 1 and 0; None unless ``affine``.
        running_mean, running_var: ``(C,)``, 0 and 1; None unless tracked.
    Raises:
        ValueError: the input has another number of dimensions, or, if ``affine``, of channels.
    Source: torch.nn.InstanceNorm{dims}d; Ulyanov et al. 2016.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        without_batch = input.dim() == self._allowed_dims[0]
        channels = input.size(0 if without_batch else 1)
        if channels != self.num_features:
            self._complain_channels(0 if without_batch else 1, channels)
        if without_batch:
            return self._normalize(input.unsqueeze(0)).squeeze(0)
        return self._normalize(input)

    def _complain_channels(self, dim: int, channels: int) -> None:
        if self.affine:
            raise ValueError(f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: {channels}.")
        warnings.warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing in num_features, "
            "which is not used because affine=False",
            stacklevel=4,
        )

    def _normalize(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("version", None)
        if version is None and not self.track_running_stats:
            extra = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if extra:
                keys, kind = " and ".join(f'"{prefix}{name}"' for name in extra), self._get_name()
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {keys} for {kind} with track_running_stats=False. If state_dict is a "
                    f"checkpoint saved before 0.4.0, this may be expected because {kind} does not track running stats by default "
                    "since 0.4.0. Please remove these keys from state_dict, or make the layer with track_running_stats=True."
                )
                for name in extra:
                    state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


@of_dims(1)
class InstanceNorm1d(_InstanceNorm):
    """
    Example:
        >>> nn.InstanceNorm1d(2)(torch.tensor([[[1.0, 3.0], [10.0, 30.0]]]))
        tensor([[[-1.0000,  1.0000],
                 [-1.0000,  1.0000]]])
    """

    _allowed_dims = (2, 3)


@of_dims(2)
class InstanceNorm2d(_InstanceNorm):
    """
    Example:
        >>> nn.InstanceNorm2d(1)(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[-1.3416, -0.4472],
                  [ 0.4472,  1.3416]]]])
    """

    _allowed_dims = (3, 4)


@of_dims(3)
class InstanceNorm3d(_InstanceNorm):
    """
    Example:
        >>> layer = nn.InstanceNorm3d(3, affine=True)
        >>> layer(torch.ones(4, 3, 2, 8, 8)).shape, layer.weight.shape
        (torch.Size([4, 3, 2, 8, 8]), torch.Size([3]))
    """

    _allowed_dims = (4, 5)


class LayerNorm(Module):
    """Normalizes each sample by its mean and variance over the last dimensions.

    Args:
        normalized_shape: sizes of those dimensions; one number for the last dimension.
        eps: added to the variance.
        elementwise_affine: whether there are a weight and a bias.
        bias: whether there is a bias, if ``elementwise_affine``.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(*, *normalized_shape)`` to the same.
    Attributes:
        weight, bias: ``normalized_shape``, 1 and 0.
    Source: torch.nn.LayerNorm; Ba et al. 2016.
    Example:
        >>> nn.LayerNorm(4)(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
        tensor([[-1.3416, -0.4472,  0.4472,  1.3416]],
               grad_fn=<NativeLayerNormBackward0>)
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        _set_affine(self, self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class GroupNorm(Module):
    """Normalizes each group of channels of each sample by its mean and variance.

    Args:
        num_groups: groups of channels.
        num_channels: channels, ``C``.
        eps: added to the variance.
        affine: whether there are a weight and a bias.
        bias: whether there is a bias, if ``affine``.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(N, C, *)`` to the same.
    Attributes:
        weight, bias: ``(C,)``, 1 and 0.
    Raises:
        ValueError: ``num_channels`` is not a multiple of ``num_groups``.
    Source: torch.nn.GroupNorm; Wu and He 2018.
    Example:
        >>> nn.GroupNorm(2, 4)(torch.tensor([[1.0, 3.0, 10.0, 30.0]]))
        tensor([[-1.0000,  1.0000, -1.0000,  1.0000]],
               grad_fn=<NativeGroupNormBackward0>)
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.affine = affine
        _set_affine(self, num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divides each sample by its root mean square over the last dimensions.

    Args:
        normalized_shape: sizes of those dimensions; one number for the last dimension.
        eps: added to the mean square; the dtype's machine epsilon when None.
        elementwise_affine: whether there is a weight.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(*, *normalized_shape)`` to the same.
    Attributes:
        weight: ``normalized_shape``, 1.
    Source: torch.nn.RMSNorm; Zhang and Sennrich 2019.
    Example:
        >>> nn.RMSNorm(2)(torch.tensor([[3.0, 4.0]]))
        tensor([[0.8485, 1.1314]], grad_fn=<MulBackward0>)
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


@layer("F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)")
class LocalResponseNorm(Module):
    """Divides each element by a power of the mean square over neighbouring channels.

    Args:
        size: channels that are averaged over.
        alpha, beta, k: of ``input / (k + alpha * mean_square) ** beta``.
    Shape:
        ``(N, C, *)`` to the same.
    Source: torch.nn.LocalResponseNorm; Krizhevsky et al. 2012.
    Example:
        >>> nn.LocalResponseNorm(size=2, alpha=1.0)(torch.ones(1, 3, 1)).flatten()
        tensor([0.7378, 0.5946, 0.5946])
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


# -- layers that take their channels from the first input -------------------------------------------------------------------------
class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Base class of the lazy normalization layers."""

    weight: Any
    bias: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        # without parameters and statistics at first: they would be made for no channels
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = ops.tensor(0, dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        """Set parameters and statistics to their beginning, once there are any."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take ``num_features`` from an input."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            affine = (self.weight, self.bias) if self.affine else ()
            for tensor in (*affine, self.running_mean, self.running_var):
                if tensor is not None:
                    tensor.materialize((self.num_features,))
            self.reset_parameters()


def _lazy(kind: type[_NormBase], base: type[_NormBase]) -> Any:
    return lazy_variant(kind, (_LazyNormBase, base), "num_features", _allowed_dims=kind._allowed_dims)


LazyBatchNorm1d = _lazy(BatchNorm1d, _BatchNorm)
LazyBatchNorm2d = _lazy(BatchNorm2d, _BatchNorm)
LazyBatchNorm3d = _lazy(BatchNorm3d, _BatchNorm)
LazyInstanceNorm1d = _lazy(InstanceNorm1d, _InstanceNorm)
LazyInstanceNorm2d = _lazy(InstanceNorm2d, _InstanceNorm)
LazyInstanceNorm3d = _lazy(InstanceNorm3d, _InstanceNorm)


class CrossMapLRN2d(Module):
    """``LocalResponseNorm`` of images as Torch 7 had it: the sum of squares begins with the channels at hand, and the first one stays
    in it.

    Args:
        size: channels that are averaged over.
        alpha, beta, k: of ``input / (k + alpha / size * sum) ** beta``.
    Shape:
        ``(N, C, H, W)`` to the same.
    Raises:
        ValueError: the input does not have 4 dimensions.
    Source: torch.nn.CrossMapLRN2d; Krizhevsky et al. 2012.
    Example:
        >>> nn.CrossMapLRN2d(size=2, alpha=1.0)(torch.ones(1, 3, 1, 1)).flatten()
        tensor([0.7378, 0.5946, 0.5946])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha, self.beta, self.k = alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = int((self.size - 1) / 2) + 1
        channel = ops.arange(input.size(1), device=input.device)
        distance = channel - channel.unsqueeze(1)  # of the summed channel from the channel of the result
        near = (distance < reach) & ((distance > -reach) | (channel == 0))
        total = ops.tensordot(near.to(input.dtype), input * input, ([1], [1])).transpose(0, 1)
        return input * (self.k + self.alpha / self.size * total).pow(-self.beta)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
