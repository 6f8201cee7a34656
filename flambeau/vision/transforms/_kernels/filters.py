"""Normalising, smoothing, noise, erasing, lossy compression, and frames taken out of a video."""

from __future__ import annotations

import functools
import io
import math
from typing import Any

import PIL.Image

from .... import ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor, wrap
from ....nn import functional
from ... import tv_tensors
from .conversion import register_by_tensors, to_pil_image
from .pil import pil_to_tensor
from .registry import IMAGES, functional_of, kernel_of, register


@functional_of(*IMAGES)
def normalize(image: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """``(inpt - mean) / std`` for each channel.

    Args:
        inpt: floating point, ``(..., C, H, W)``.
        mean, std: a number for each channel.
        inplace: write over ``inpt``.
    Returns:
        An image of the same kind and shape.
    Raises:
        TypeError: whole numbers.
        ValueError: fewer than three dimensions, or a deviation of 0.
    Source: torchvision.transforms.v2.functional.normalize.
    Example:
        >>> normalize(torch.ones(3, 1, 1), [0.5, 0.5, 1.0], [0.5, 1.0, 1.0]).flatten()
        tensor([1.0000, 0.5000, 0.0000])
    """
    if not image.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {image.dtype}.")
    if image.ndim < 3:
        raise ValueError(f"Expected tensor to be a tensor image of size (..., C, H, W). Got {image.shape}.")
    if not isinstance(std, Tensor) and (not all(std) if isinstance(std, (tuple, list)) else std == 0):
        raise ValueError("std evaluated to zero, leading to division by zero.")
    shift, scale = [_by_channel(values, image) for values in (mean, std)]
    return (image.sub_(shift) if inplace else image.sub(shift)).div_(scale)


@functools.lru_cache(64)
def _channel_constants(values: tuple[float, ...], dtype: Any) -> Any:
    return ops.tensor(values, dtype=dtype).view(-1, 1, 1).numpy()


def _by_channel(values: Any, image: Tensor) -> Tensor:
    """``values`` to compute with ``image``, ``(..., C, H, W)``; not to be written to."""
    plain = image.device.type == "cpu" and image.dtype in (dtypes.float32, dtypes.float64)
    if plain and isinstance(values, (tuple, list)) and all(isinstance(value, (int, float)) for value in values):
        return wrap(_channel_constants(tuple(values), image.dtype))
    tensor = ops.as_tensor(values, dtype=image.dtype, device=image.device)
    return tensor.view(-1, 1, 1) if tensor.ndim == 1 else tensor


# -- linear maps -----------------------------------------------------------------------------------------------------------------------
def linearly_mapped(tensor: Tensor, matrix: Tensor, mean: Tensor) -> Tensor:
    channels, height, width = tensor.shape[-3:]
    count = channels * height * width
    if count != matrix.shape[0]:
        raise ValueError(
            f"Input tensor and transformation matrix have incompatible shape.[{channels} x {height} x {width}] != {matrix.shape[0]}"
        )
    if tensor.device.type != mean.device.type:
        raise ValueError(
            f"Input tensor should be on the same device as transformation matrix and mean vector. Got {tensor.device} vs {mean.device}"
        )
    flat = tensor.reshape(-1, count) - mean
    return ops.mm(flat, matrix.to(flat.dtype)).reshape(tensor.shape)


# -- smoothing -------------------------------------------------------------------------------------------------------------------------
def _blur_arguments(kernel_size: Any, sigma: Any) -> tuple[list[int], list[float]]:
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if len(sizes) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(sizes)}")
    if any(size % 2 == 0 or size < 0 for size in sizes):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {sizes}")
    if sigma is None:
        return sizes, [size * 0.15 + 0.35 for size in sizes]
    if not isinstance(sigma, (list, tuple, int, float)):
        raise TypeError(f"sigma should be either float or sequence of floats. Got {type(sigma)}")
    sigmas: list[Any] = list(sigma) if isinstance(sigma, (list, tuple)) else [sigma]
    if len(sigmas) == 1:
        sigmas = sigmas * 2
    if len(sigmas) != 2:
        raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(sigmas)}")
    if any(value <= 0.0 for value in sigmas):
        raise ValueError(f"sigma should have positive values. Got {sigmas}")
    return sizes, [float(value) for value in sigmas]


def _gaussian(size: int, sigma: float, dtype: Any) -> Tensor:
    reach = (size - 1) / (2.0 * math.sqrt(2.0))  # so that the square is half of that of the distance
    return ops.softmax(ops.linspace(-reach, reach, size, dtype=dtype).div_(sigma).pow_(2).neg_(), 0)


@functional_of(*IMAGES)
def gaussian_blur(image: Tensor, kernel_size: Any, sigma: Any = None) -> Tensor:
    """``inpt`` smoothed by a Gaussian; at the border it is mirrored.

    Args:
        inpt: an image or video.
        kernel_size: odd; ``(along x, along y)`` or one for both.
        sigma: the deviation in pixels; 0.35 and 0.15 of ``kernel_size`` unless told.
    Returns:
        An image of the same kind and shape.
    Raises:
        ValueError: sizes that are even or below zero, deviations that are not above zero.
    Source: torchvision.transforms.v2.functional.gaussian_blur.
    Example:
        >>> gaussian_blur(torch.ones(3, 5, 5), [3, 3]).shape
        torch.Size([3, 5, 5])
    """
    (width, height), sigmas = _blur_arguments(kernel_size, sigma)
    if not image.numel():
        return image
    dtype = image.dtype if image.is_floating_point() else dtypes.float32
    across, down = [_gaussian(size, value, dtype).to(image.device) for size, value in zip((width, height), sigmas)]
    channels = image.shape[-3]
    images = image.reshape(-1, *image.shape[-3:]).to(dtype)
    images = functional.pad(images, [width // 2, width // 2, height // 2, height // 2], mode="reflect")
    # a Gaussian is a product: two passes of a row and a column do what one of the whole window would
    images = functional.conv2d(images, across.expand(channels, 1, 1, width), groups=channels)
    images = functional.conv2d(images, down.unsqueeze(-1).expand(channels, 1, height, 1), groups=channels)
    return (images if image.is_floating_point() else images.round_().to(image.dtype)).reshape(image.shape)


register_by_tensors(gaussian_blur)


# -- noise -----------------------------------------------------------------------------------------------------------------------------
@functional_of(*IMAGES)
def gaussian_noise(image: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Tensor:
    """``inpt`` and normally distributed noise, whose mean and deviation count 1 for white.

    Args:
        inpt: floating point or uint8.
        mean, sigma: of the noise.
        clip: keep values between black and white; bytes start again at the other end without it.
    Returns:
        An image of the same kind and shape.
    Raises:
        ValueError: a deviation below zero, another dtype, or a PIL image.
    Source: torchvision.transforms.v2.functional.gaussian_noise.
    Example:
        >>> gaussian_noise(torch.full((1, 2, 2), 0.5), sigma=0.0)
        tensor([[[0.5000, 0.5000],
                 [0.5000, 0.5000]]])
    """
    if sigma < 0:
        raise ValueError(f"sigma shouldn't be negative. Got {sigma}")
    if image.is_floating_point():
        noisy = image + (mean + ops.randn_like(image) * sigma)
        return noisy.clamp(0, 1) if clip else noisy
    if image.dtype is not dtypes.uint8:
        raise ValueError(f"Input tensor is expected to be in uint8 or float dtype, got dtype={image.dtype}")
    noise = mean * 255 + ops.randn_like(image, dtype=dtypes.float32) * (sigma * 255)
    noisy = image + noise.to(dtypes.int16)
    return (noisy.clamp(0, 255) if clip else noisy).to(dtypes.uint8)


@register(gaussian_noise, PIL.Image.Image)
def gaussian_noise_image_pil(image: Any, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Any:
    raise ValueError("Gaussian Noise is not implemented for PIL images.")


# -- erasing ---------------------------------------------------------------------------------------------------------------------------
@functional_of(*IMAGES)
def erase(image: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """``inpt`` with ``v`` in the window of size ``(h, w)`` at row ``i`` and column ``j``.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        i, j, h, w: row, column, height and width of the window.
        v: what stands there.
        inplace: write over the input.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.erase.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> erase(img, 0, 1, 1, 1, torch.tensor(9.0))
        tensor([[[0., 9.],
                 [2., 3.]]])
    """
    result = image if inplace else image.clone()
    result[..., i : i + h, j : j + w] = v.to(image.dtype)
    return result


register_by_tensors(erase)


# -- compression -----------------------------------------------------------------------------------------------------------------------
def jpeg(image: Any, quality: int) -> Any:
    """``image`` as it comes back from a JPEG file of this quality, from 1 to 100.

    Args:
        image: an image or video ``(..., C, H, W)``.
        quality: from 1 to 100.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.jpeg.
    Example:
        >>> jpeg(torch.zeros(3, 8, 8, dtype=torch.uint8), quality=50).shape
        torch.Size([3, 8, 8])
    """
    return kernel_of(jpeg, type(image))(image, quality=quality)


@register(jpeg, PIL.Image.Image)
def jpeg_image_pil(image: Any, quality: int) -> Any:
    file = io.BytesIO()
    image.save(file, format="JPEG", quality=quality)
    return PIL.Image.open(file).copy()


@register(jpeg, *IMAGES)
def jpeg_image(image: Tensor, quality: int) -> Tensor:
    if image.dtype is not dtypes.uint8:
        raise RuntimeError(f"jpeg: expected an image of dtype torch.uint8, got {image.dtype}")
    if image.shape[-3] not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, got: {image.shape[-3]}")
    images = image.reshape(-1, *image.shape[-3:])
    if not images.shape[0]:
        return image.clone()
    compressed = [pil_to_tensor(jpeg_image_pil(to_pil_image(picture), quality)) for picture in images]
    return ops.stack(compressed).view(image.shape)


# -- frames ----------------------------------------------------------------------------------------------------------------------------
@functional_of(Tensor, tv_tensors.Video)
def uniform_temporal_subsample(video: Tensor, num_samples: int) -> Tensor:
    """``num_samples`` frames at equal distances, the first and the last among them.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        num_samples: how many.
    Returns:
        A video with so many frames.
    Source: torchvision.transforms.v2.functional.uniform_temporal_subsample.
    Example:
        >>> uniform_temporal_subsample(torch.arange(5.0).view(5, 1, 1, 1), 3).flatten()
        tensor([0., 2., 4.])
    """
    return video.index_select(-4, ops.linspace(0, video.shape[-4] - 1, num_samples, device=video.device).long())
