"""Colours: what changes each pixel by itself, or by all pixels' distribution. Channels are red, green and blue, or grey alone."""

from __future__ import annotations

from typing import Any

import PIL.Image
from PIL import ImageEnhance, ImageOps

from .... import ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ....nn import functional
from ... import tv_tensors
from . import pil
from .conversion import max_value, num_value_bits, to_dtype, to_pil_image
from .pil import pil_to_tensor
from .registry import IMAGES, functional_of, register

_STILLS = (Tensor, tv_tensors.Image)
_LUMA = (0.2989, 0.587, 0.114)  # ITU-R BT.601


def _channels(image: Tensor) -> int:
    channels = image.shape[-3]
    if channels not in (1, 3):
        raise TypeError(f"Input image tensor permitted channel values are 1 or 3, but found {channels}")
    return channels


def _check_factor(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def _bounded(values: Tensor, like: Tensor) -> Tensor:
    """``values`` within the range of ``like``'s dtype and of this dtype."""
    return values.clamp(0, max_value(like.dtype)).to(like.dtype)


def _blend(image: Tensor, other: Tensor, ratio: float) -> Tensor:
    return _bounded(image.mul(float(ratio)).add_(other, alpha=1.0 - float(ratio)), image)


# -- grey --------------------------------------------------------------------------------------------------------------------------------
def _luma(image: Tensor) -> Tensor:
    """The brightness in floating point, ``(..., 1, H, W)``."""
    red, green, blue = image.unbind(-3)
    return red.mul(_LUMA[0]).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2]).unsqueeze(-3)


def _grey(image: Tensor) -> Tensor:
    """The brightness in floating point; whole numbers below it for whole numbers."""
    grey = _luma(image)
    return grey if image.is_floating_point() else grey.floor_()


def _check_outputs(num_output_channels: int) -> None:
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels must be 1 or 3, got {num_output_channels}.")


@functional_of(*_STILLS)
def rgb_to_grayscale(image: Tensor, num_output_channels: int = 1) -> Tensor:
    """The brightness that the eye sees, ``0.2989 R + 0.587 G + 0.114 B``, in one channel or three equal ones.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        num_output_channels: 1 or 3.
    Returns:
        An image of the same kind with so many channels.
    Source: torchvision.transforms.v2.functional.rgb_to_grayscale.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> rgb_to_grayscale(colours).flatten()
        tensor([0.3630])
    """
    _check_outputs(num_output_channels)
    if image.shape[-3] == 1:
        return image.clone() if num_output_channels == 1 else image.repeat_interleave(3, -3)
    grey = _luma(image).to(image.dtype)
    return grey.expand(image.shape) if num_output_channels == 3 else grey


to_grayscale = rgb_to_grayscale


@register(rgb_to_grayscale, PIL.Image.Image)
def rgb_to_grayscale_image_pil(image: Any, num_output_channels: int = 1) -> Any:
    _check_outputs(num_output_channels)
    return pil.to_grayscale(image, num_output_channels)


@functional_of(*_STILLS)
def grayscale_to_rgb(image: Tensor) -> Tensor:
    """Grey images with three equal channels; others as they are.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
    Returns:
        An image of the same kind with three channels.
    Source: torchvision.transforms.v2.functional.grayscale_to_rgb.
    Example:
        >>> grayscale_to_rgb(torch.ones(1, 2, 2)).shape
        torch.Size([3, 2, 2])
    """
    return image if image.shape[-3] >= 3 else rgb_to_grayscale.kernel(image, 3)


@register(grayscale_to_rgb, PIL.Image.Image)
def grayscale_to_rgb_image_pil(image: Any) -> Any:
    return image.convert("RGB")


# -- brightness, contrast, saturation, hue, sharpness --------------------------------------------------------------------------------------
@functional_of(*IMAGES, pillow=pil.enhanced_by(ImageEnhance.Brightness))
def adjust_brightness(image: Tensor, brightness_factor: float) -> Tensor:
    """``inpt`` mixed with black: 0 is black, 1 ``inpt`` itself.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        brightness_factor: 0 is black, 1 changes nothing.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.adjust_brightness.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> adjust_brightness(colours, 2.0).flatten()
        tensor([0.4000, 0.8000, 1.0000])
    """
    _check_factor("brightness_factor", brightness_factor)
    _channels(image)
    return _bounded(image.mul(float(brightness_factor)), image)


@functional_of(*IMAGES, pillow=pil.enhanced_by(ImageEnhance.Color))
def adjust_saturation(image: Tensor, saturation_factor: float) -> Tensor:
    """``inpt`` mixed with its grey image.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        saturation_factor: 0 is grey, 1 changes nothing.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.adjust_saturation.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> adjust_saturation(colours, 0.0).flatten()
        tensor([0.3630, 0.3630, 0.3630])
    """
    _check_factor("saturation_factor", saturation_factor)
    return image if _channels(image) == 1 else _blend(image, _grey(image), saturation_factor)


@functional_of(*IMAGES, pillow=pil.enhanced_by(ImageEnhance.Contrast))
def adjust_contrast(image: Tensor, contrast_factor: float) -> Tensor:
    """``inpt`` mixed with its mean brightness.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        contrast_factor: 0 is the mean, 1 changes nothing.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.adjust_contrast.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> adjust_contrast(colours, 0.0).flatten()
        tensor([0.3630, 0.3630, 0.3630])
    """
    _check_factor("contrast_factor", contrast_factor)
    if _channels(image) == 3:
        grey = _grey(image)
    else:
        grey = image if image.is_floating_point() else image.float()
    return _blend(image, grey.mean(dim=(-3, -2, -1), keepdim=True), contrast_factor)


def _smoothed(images: Tensor) -> Tensor:
    """Images ``(N, C, H, W)`` without their border, each pixel mixed with its neighbours."""
    channels = images.shape[1]
    weight = ops.full((channels, 1, 3, 3), 1 / 13, dtype=images.dtype, device=images.device)
    weight[..., 1, 1] = 5 / 13
    return functional.conv2d(images, weight, groups=channels)


@functional_of(*IMAGES, pillow=pil.enhanced_by(ImageEnhance.Sharpness))
def adjust_sharpness(image: Tensor, sharpness_factor: float) -> Tensor:
    """``inpt`` mixed with a smoothed image; its border stays.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        sharpness_factor: 0 is smooth, 1 changes nothing, 2 is sharp.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.adjust_sharpness.
    Example:
        >>> img = torch.zeros(1, 3, 3)
        >>> img[0, 1, 1] = 1.0
        >>> adjust_sharpness(img, 0.0)[0, 1]
        tensor([0.0000, 0.3846, 0.0000])
    """
    channels = _channels(image)
    _check_factor("sharpness_factor", sharpness_factor)
    height, width = image.shape[-2:]
    if not image.numel() or height <= 2 or width <= 2:
        return image
    dtype = image.dtype if image.is_floating_point() else dtypes.float32
    images = image.reshape(-1, channels, height, width).to(dtype, copy=True)
    smoothed = _smoothed(images)
    if not image.is_floating_point():
        smoothed.round_()
    inside = images[..., 1:-1, 1:-1]
    inside.add_(smoothed.sub_(inside), alpha=1.0 - sharpness_factor)
    return _bounded(images, image).reshape(image.shape)


def adjust_sharpness_classically(image: Tensor, sharpness_factor: float) -> Tensor:
    """:func:`adjust_sharpness_image` with the sum rounded as the classic form has it: both images are scaled, borders too."""
    _check_factor("sharpness_factor", sharpness_factor)
    height, width = image.shape[-2:]
    if not image.numel() or height <= 2 or width <= 2:
        return image
    exact = image if image.is_floating_point() else image.float()
    other = exact.reshape(-1, *image.shape[-3:]).clone()
    smoothed = _smoothed(other)
    other[..., 1:-1, 1:-1] = smoothed if image.is_floating_point() else smoothed.round_()
    factor = float(sharpness_factor)
    return _bounded(exact.mul(factor) + other.mul_(1.0 - factor).reshape(image.shape), image)


def _wrapped(turns: Tensor) -> Tensor:
    """``turns``, a tensor of our own, without whole turns."""
    return turns.sub_(turns.floor())


def _hue_saturation_value(image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In floating point from 0 to 1, hue in turns; grey has hue and saturation 0."""
    red, green, _ = image.unbind(-3)
    least, most = ops.aminmax(image, dim=-3)
    span = most - least
    is_grey = span == 0
    saturation = span / ops.where(is_grey, 1.0, most)
    below = (most.unsqueeze(-3) - image) / ops.where(is_grey, 1.0, span).unsqueeze(-3)
    red_below, green_below, blue_below = below.unbind(-3)
    of_green_or_blue = ops.where(most == green, 2.0 + red_below - blue_below, 4.0 + green_below - red_below)
    sixths = ops.where(most == red, blue_below - green_below, of_green_or_blue)
    return _wrapped(sixths.mul_(1.0 / 6.0).add_(1.0)), saturation, most


# For each sixth of the circle, and the first again at its end, where red, green and blue come from: the value, the least, falling, rising.
_SECTORS = [[0, 2, 1, 1, 3, 0, 0], [3, 0, 0, 2, 1, 1, 3], [1, 1, 3, 0, 0, 2, 1]]


def _from_hue_saturation_value(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    sixths = hue * 6
    sector = ops.floor(sixths)
    part = sixths.sub_(sector)
    colourful = saturation * part
    least = (1.0 - saturation).mul_(value).clamp_(0.0, 1.0)
    falling = (1.0 - colourful).mul_(value).clamp_(0.0, 1.0)
    rising = (colourful + (1.0 - saturation)).mul_(value).clamp_(0.0, 1.0)
    choices = ops.stack([value, least, falling, rising], -3)
    chosen = ops.tensor(_SECTORS, device=sector.device)[:, sector.long()]
    return choices.gather(-3, chosen.moveaxis(0, -3))


@functional_of(*IMAGES, pillow=pil.adjust_hue)
def adjust_hue(image: Tensor, hue_factor: float) -> Tensor:
    """``inpt`` with its hues turned, by half a circle at -0.5 and 0.5.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        hue_factor: turns of the circle of colours, from -0.5 to 0.5.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.adjust_hue.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> adjust_hue(colours, 0.5).flatten()
        tensor([0.6000, 0.4000, 0.2000])
    """
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if _channels(image) == 1 or not image.numel():
        return image
    hue, saturation, value = _hue_saturation_value(to_dtype.kernel(image, dtypes.float32, scale=True))
    turned = _from_hue_saturation_value(_wrapped(hue.add_(hue_factor)), saturation, value)
    return to_dtype.kernel(turned, image.dtype, scale=True)


# -- curves ----------------------------------------------------------------------------------------------------------------------------
@functional_of(*IMAGES, pillow=pil.adjust_gamma)
def adjust_gamma(image: Tensor, gamma: float, gain: float = 1) -> Tensor:
    """``gain * value ** gamma``, values from 0 to 1.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        gamma: the exponent, not below 0.
        gain: a factor.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.adjust_gamma.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> adjust_gamma(colours, 2.0).flatten()
        tensor([0.0400, 0.1600, 0.3600])
    """
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    exact = image if image.is_floating_point() else to_dtype.kernel(image, dtypes.float32, scale=True)
    curved = exact.pow(gamma)
    if gain != 1.0:
        curved = curved.mul_(gain).clamp_(0.0, 1.0)
    return to_dtype.kernel(curved, image.dtype, scale=True)


@functional_of(*IMAGES, pillow=ImageOps.posterize)
def posterize(image: Tensor, bits: int) -> Tensor:
    """The most significant ``bits`` of each value alone.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        bits: from 0 to 8.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.posterize.
    Example:
        >>> posterize(torch.tensor([[[200, 255]]], dtype=torch.uint8), 1)
        tensor([[[128, 128]]], dtype=torch.uint8)
    """
    if not isinstance(bits, int) or not 0 <= bits <= 8:
        raise TypeError(f"bits must be a positive integer in the range [0, 8], got {bits} instead.")
    if image.is_floating_point():
        levels = 1 << bits
        return image.mul(levels).floor_().clamp_(0, levels - 1).mul_(1.0 / levels)
    dropped = num_value_bits(image.dtype) - bits
    return image if dropped <= 0 else image & (((1 << bits) - 1) << dropped)


@functional_of(*IMAGES, pillow=ImageOps.solarize)
def solarize(image: Tensor, threshold: float) -> Tensor:
    """Values from ``threshold`` on inverted.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        threshold: in the values of the image.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.solarize.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> solarize(colours, 0.5).flatten()
        tensor([0.2000, 0.4000, 0.4000])
    """
    if threshold > max_value(image.dtype):
        raise TypeError(f"Threshold should be less or equal the maximum value of the dtype, but got {threshold}")
    return ops.where(image >= threshold, invert.kernel(image), image)


@functional_of(*IMAGES, pillow=ImageOps.invert)
def invert(image: Tensor) -> Tensor:
    """Black for white.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.invert.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> invert(colours).flatten()
        tensor([0.8000, 0.6000, 0.4000])
    """
    if image.is_floating_point():
        return 1.0 - image
    return image.bitwise_not() if image.dtype is dtypes.uint8 else image.bitwise_xor((1 << num_value_bits(image.dtype)) - 1)


# -- by all pixels ---------------------------------------------------------------------------------------------------------------------
@functional_of(*IMAGES, pillow=ImageOps.autocontrast)
def autocontrast(image: Tensor) -> Tensor:
    """Each channel stretched from its least and most to black and white.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.autocontrast.
    Example:
        >>> autocontrast(torch.tensor([[[0.2, 0.3, 0.4]]]))
        tensor([[[0.0000, 0.5000, 1.0000]]])
    """
    _channels(image)
    if not image.numel():
        return image
    exact = image if image.is_floating_point() else image.float()
    least, most = [extreme(dim=(-2, -1), keepdim=True).to(exact.dtype) for extreme in (image.amin, image.amax)]
    is_flat = least == most
    span = (most - least).mul_(1.0 / max_value(image.dtype))
    stretched = exact.sub(ops.where(is_flat, 0.0, least)).div_(ops.where(is_flat, 1.0, span))
    return _bounded(stretched, image)


def autocontrast_classically(image: Tensor) -> Tensor:
    """:func:`autocontrast_image` with the product rounded as the classic form has it."""
    if not image.numel():
        return image
    exact = image if image.is_floating_point() else image.float()
    least, most = [extreme(dim=(-2, -1), keepdim=True).to(exact.dtype) for extreme in (image.amin, image.amax)]
    scale = max_value(image.dtype) / (most - least)
    is_flat = scale.isfinite().logical_not_()
    stretched = exact.sub(least.masked_fill(is_flat, 0.0)).mul_(scale.masked_fill_(is_flat, 1.0))
    return _bounded(stretched, image)


@functional_of(*IMAGES, pillow=ImageOps.equalize)
def equalize(image: Tensor) -> Tensor:
    """Each channel with its 256 levels moved so that about equally many pixels have each.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.equalize.
    Example:
        >>> dark = torch.arange(1024).view(1, 32, 32).div(16).byte()
        >>> dark.max().item(), equalize(dark).max().item()
        (63, 255)
    """
    if not image.numel():
        return image
    levels = to_dtype.kernel(image, dtypes.uint8, scale=True)
    flat = levels.flatten(0, -3).flatten(1).long() if levels.ndim > 2 else levels.reshape(1, -1).long()
    offsets = 256 * ops.arange(flat.shape[0], device=flat.device).unsqueeze(1)
    counts = ops.bincount((flat + offsets).reshape(-1), minlength=256 * flat.shape[0]).view(-1, 256)
    up_to = counts.cumsum(1)
    # the brightest level that occurs does not count, as in Pillow
    brightest = counts.gather(1, up_to.argmax(1, keepdim=True))
    step = (flat.shape[1] - brightest).div_(255, rounding_mode="floor")
    moved = (up_to[:, :-1] + step // 2).div_(step.clamp(min=1), rounding_mode="floor").clamp_(0, 255)
    table = functional.pad(moved, [1, 0])
    equalized = table.gather(1, flat).to(dtypes.uint8)
    if not step.all():  # a channel with one level, or nearly
        equalized = ops.where(step != 0, equalized, levels.reshape(flat.shape))
    return to_dtype.kernel(equalized.reshape(image.shape), image.dtype, scale=True)


# -- channels --------------------------------------------------------------------------------------------------------------------------
@functional_of(*IMAGES)
def permute_channels(image: Tensor, permutation: Any) -> Tensor:
    """Channels in another order: the first is channel ``permutation[0]``.

    Args:
        inpt: an image or video ``(..., C, H, W)``.
        permutation: the number of a channel for each one of the result.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.v2.functional.permute_channels.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> permute_channels(colours, [2, 1, 0]).flatten()
        tensor([0.6000, 0.4000, 0.2000])
    """
    channels = image.shape[-3]
    if len(permutation) != channels:
        raise ValueError(f"Length of permutation does not match number of channels: {len(permutation)} != {channels}")
    return image.index_select(-3, ops.as_tensor(permutation, device=image.device)) if image.numel() else image


@register(permute_channels, PIL.Image.Image)
def permute_channels_image_pil(image: Any, permutation: Any) -> Any:
    return to_pil_image(permute_channels.kernel(pil_to_tensor(image), permutation))
