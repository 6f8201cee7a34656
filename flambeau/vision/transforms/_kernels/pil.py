"""Transforms of PIL images, done by Pillow."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from .... import ops
from ....core.tensor import Tensor

PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


def is_pil_image(img: Any) -> bool:
    return isinstance(img, Image.Image)


def check(img: Any) -> None:
    if not is_pil_image(img):
        raise TypeError(f"img should be PIL Image. Got {type(img)}")


def image_of(array: np.ndarray, mode: str) -> Image.Image:
    """An image that shows ``array`` as ``mode``, whatever Pillow would take its shape and dtype for."""
    return Image.frombytes(mode, array.shape[1::-1], array.tobytes())


# -- sizes ---------------------------------------------------------------------------------------------------------------------------
def dimensions(img: Any) -> list[int]:
    if not is_pil_image(img):
        raise TypeError(f"Unexpected type {type(img)}")
    return [len(img.getbands()), img.height, img.width]


def size(img: Any) -> list[int]:
    return dimensions(img)[1:]


def num_channels(img: Any) -> int:
    return dimensions(img)[0]


def pil_to_tensor(pic: Any) -> Tensor:
    """A PIL image as a tensor ``(C, H, W)`` with the image's own values.

    Args:
        pic: a PIL image.
    Returns:
        ``(C, H, W)``.
    Raises:
        TypeError: no PIL image.
    Source: torchvision.transforms.functional.pil_to_tensor.
    Example:
        >>> pil_to_tensor(Image.new('RGB', (5, 4))).shape
        torch.Size([3, 4, 5])
    """
    if not is_pil_image(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    pixels = np.array(pic, copy=True).reshape(pic.height, pic.width, num_channels(pic))
    return ops.from_numpy(pixels).permute(2, 0, 1)


# -- geometry ------------------------------------------------------------------------------------------------------------------------
def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    return img.crop((left, top, left + width, top + height))


def colour_of(fill: Any, img: Any) -> Any:
    """``fill`` as Pillow wants it: a number for each band, whole ones but for mode ``F``."""
    bands = num_channels(img)
    fill = 0 if fill is None else fill
    fills = [fill] if isinstance(fill, (int, float)) else list(fill)
    if len(fills) not in (1, bands):
        raise ValueError(f"The number of elements in 'fill' does not match the number of channels of the image ({len(fills)} != {bands})")
    values = tuple(fills if img.mode == "F" else [int(value) for value in fills]) * (bands // len(fills))
    return values[0] if bands == 1 and isinstance(fill, (int, float)) else values


def check_padding_mode(padding_mode: Any) -> None:
    if padding_mode not in PADDING_MODES:
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")


def check_padding(padding: Any, fill: Any, padding_mode: Any, paddings: Any, fills: Any) -> None:
    """Arguments of ``pad``; ``paddings`` and ``fills`` are the types that the first two may be of."""
    if not isinstance(padding, paddings):
        raise TypeError("Got inappropriate padding arg")
    if fill is not None and not isinstance(fill, fills):
        raise TypeError("Got inappropriate fill arg")
    if not isinstance(padding_mode, str):
        raise TypeError("Got inappropriate padding_mode arg")
    if isinstance(padding, (tuple, list)) and len(padding) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple")
    check_padding_mode(padding_mode)


def _pad_by_edges(img: Any, padding: Any, padding_mode: str) -> Any:
    sides: list[int] = list(padding) * (4 // len(padding)) if isinstance(padding, tuple) else [padding] * 4
    left, top, right, bottom = [max(side, 0) for side in sides]
    cut_left, cut_top, cut_right, cut_bottom = [-min(side, 0) for side in sides]
    if any((cut_left, cut_top, cut_right, cut_bottom)):
        img = img.crop((cut_left, cut_top, img.width - cut_right, img.height - cut_bottom))
    pixels = np.asarray(img)
    widths = ((top, bottom), (left, right), (0, 0))[: pixels.ndim]
    padded = Image.fromarray(np.pad(pixels, widths, mode=padding_mode))
    if img.mode == "P":
        padded.putpalette(img.getpalette())
    return padded


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    check(img)
    check_padding(padding, fill, padding_mode, (Number, tuple, list), (Number, tuple, list))
    if isinstance(padding, (tuple, list)):
        padding = padding[0] if len(padding) == 1 else tuple(padding)
    if padding_mode != "constant":
        return _pad_by_edges(img, padding, padding_mode)
    padded = ImageOps.expand(img, border=padding, fill=colour_of(fill, img))
    if img.mode == "P":
        padded.putpalette(img.getpalette())
    return padded


def transform(img: Any, method: Image.Transform, numbers: Any, interpolation: int, fill: Any = None) -> Any:
    return img.transform(img.size, method, numbers, interpolation, fillcolor=colour_of(fill, img))


def rotate(img: Any, angle: float, interpolation: int, expand: bool = False, center: Any = None, fill: Any = None) -> Any:
    return img.rotate(angle, interpolation, expand, center, fillcolor=colour_of(fill, img))


# -- colour --------------------------------------------------------------------------------------------------------------------------
def enhanced_by(enhancer: Any) -> Any:
    """The kernel that mixes an image with another one, as ``enhancer`` of Pillow's does."""

    def enhance(img: Any, *factor: float, **named: float) -> Any:  # ``brightness_factor`` and so on
        return enhancer(img).enhance(*factor, *named.values())

    return enhance


def adjust_hue(img: Any, hue_factor: float) -> Any:
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if img.mode in ("L", "1", "I", "F"):
        return img
    hue, saturation, value = img.convert("HSV").split()
    turned = np.array(hue, dtype=np.uint8) + np.int32(hue_factor * 255).astype(np.uint8)
    return Image.merge("HSV", (image_of(turned, "L"), saturation, value)).convert(img.mode)


def adjust_gamma(img: Any, gamma: float, gain: float = 1.0) -> Any:
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    table = [int((255 + 1 - 1e-3) * gain * (level / 255.0) ** gamma) for level in range(256)]
    return img.convert("RGB").point(table * 3).convert(img.mode)


def to_grayscale(img: Any, num_output_channels: int) -> Any:
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    grey = img.convert("L")
    return grey if num_output_channels == 1 else Image.merge("RGB", (grey, grey, grey))
