"""Weights of convolutions in another order in memory."""

from __future__ import annotations

from typing import Any

from ..conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Any, kinds: Any, memory_format: Any) -> Any:
    for layer in module.modules():
        if isinstance(layer, kinds):
            layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Bring the weights of all convolutions of images in ``module`` to ``memory_format``, in place.

    Args:
        module: a convolution, transposed or not, or a module that holds some.
        memory_format: ``torch.channels_last`` or ``torch.contiguous_format``.
    Returns:
        ``module``.
    Source: torch.nn.utils.convert_conv2d_weight_memory_format.
    Example:
        >>> layer = nn.utils.convert_conv2d_weight_memory_format(nn.Conv2d(4, 8, 3), torch.channels_last)
        >>> layer.weight.shape, layer.weight.stride()
        (torch.Size([8, 4, 3, 3]), (36, 1, 12, 4))
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Bring the weights of all convolutions of volumes in ``module`` to ``memory_format``, in place.

    Args:
        module: a convolution, transposed or not, or a module that holds some.
        memory_format: ``torch.channels_last_3d`` or ``torch.contiguous_format``.
    Returns:
        ``module``.
    Source: torch.nn.utils.convert_conv3d_weight_memory_format.
    Example:
        >>> layer = nn.utils.convert_conv3d_weight_memory_format(nn.Conv3d(4, 8, 3), torch.channels_last_3d)
        >>> layer.weight.shape, layer.weight.stride()
        (torch.Size([8, 4, 3, 3, 3]), (108, 1, 36, 12, 4))
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
