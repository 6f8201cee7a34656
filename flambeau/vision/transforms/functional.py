"""Transforms as functions, in the classic form: of PIL images and plain tensors ``(..., C, H, W)``.

They check their arguments as torchvision's do and leave the work to the kernels that :mod:`.v2.functional` shows, too.
"""

from __future__ import annotations

import warnings
from typing import Any

from ...core import dtype as dtypes
from ...core.dtype import dtype as Dtype
from ...core.tensor import Tensor
from ._kernels import color, conversion, filters, meta, pil, warps, windows
from ._kernels.conversion import pil_to_tensor as pil_to_tensor, to_pil_image as to_pil_image, to_tensor as to_tensor
from ._kernels.modes import BILINEAR, NEAREST, PIL_MODES, InterpolationMode, mode_from_int

__all__ = ["InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation"]
__all__ += ["adjust_sharpness", "affine", "autocontrast", "center_crop", "convert_image_dtype", "crop", "elastic_transform", "equalize"]
__all__ += ["erase", "five_crop", "gaussian_blur", "get_dimensions", "get_image_num_channels", "get_image_size", "hflip", "invert"]
__all__ += ["normalize", "pad", "perspective", "pil_modes_mapping", "pil_to_tensor", "posterize", "resize", "resized_crop"]
__all__ += ["rgb_to_grayscale", "rotate", "solarize", "ten_crop", "to_grayscale", "to_pil_image", "to_tensor", "vflip"]

pil_modes_mapping = PIL_MODES


def _check_image(img: Any) -> None:
    if isinstance(img, Tensor):
        if img.ndim < 2:
            raise TypeError("Tensor is not a torch image.")
    else:
        pil.check(img)


def _check_colours(img: Any) -> None:
    _check_image(img)
    if isinstance(img, Tensor):
        if img.ndim < 3:
            raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
        if img.shape[-3] not in (1, 3):
            raise TypeError(f"Input image tensor permitted channel values are [1, 3], but found {img.shape[-3]}")


def _mode(interpolation: Any) -> InterpolationMode:
    if isinstance(interpolation, int):
        return mode_from_int(interpolation)
    if not isinstance(interpolation, InterpolationMode):
        raise TypeError("Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant")
    return interpolation


# -- sizes and dtypes ------------------------------------------------------------------------------------------------------------------
def get_dimensions(img: Any) -> list[int]:
    """Channels, height and width.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
    Returns:
        Three numbers.
    Source: torchvision.transforms.functional.get_dimensions.
    Example:
        >>> get_dimensions(torch.ones(3, 4, 5))
        [3, 4, 5]
    """
    if isinstance(img, Tensor):
        _check_image(img)
        return meta.get_dimensions.kernel(img)
    return pil.dimensions(img)


def get_image_size(img: Any) -> list[int]:
    """Width and height.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
    Returns:
        Two numbers.
    Source: torchvision.transforms.functional.get_image_size.
    Example:
        >>> get_image_size(torch.ones(3, 4, 5))
        [5, 4]
    """
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    """Number of channels.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
    Returns:
        A number.
    Source: torchvision.transforms.functional.get_image_num_channels.
    Example:
        >>> get_image_num_channels(torch.ones(3, 4, 5))
        3
    """
    return get_dimensions(img)[0]


def convert_image_dtype(image: Tensor, dtype: Dtype = dtypes.float32) -> Tensor:
    """``image`` as ``dtype``, such that black stays black and white white; bool counts as a number of one bit.

    Args:
        image: ``(..., C, H, W)``.
        dtype: of the result.
    Returns:
        ``image``'s shape; ``image`` itself if it is of that dtype.
    Raises:
        TypeError: no tensor.
        RuntimeError: floating point to whole numbers that have more bits than it.
    Source: torchvision.transforms.functional.convert_image_dtype.
    Example:
        >>> convert_image_dtype(torch.tensor([0, 51, 255], dtype=torch.uint8))
        tensor([0.0000, 0.2000, 1.0000])
    """
    if not isinstance(image, Tensor):
        raise TypeError("Input img should be Tensor Image")
    if image.dtype == dtype:
        return image
    if image.is_floating_point():
        conversion.check_precision(image.dtype, dtype, "cast")
        return conversion.convert_image_dtype(image, dtype)
    white = conversion.max_value(image.dtype)
    if dtype.is_floating_point:
        return image.to(dtype).div_(white)
    return conversion.shifted(image, dtype, conversion.max_value(dtype).bit_length() - white.bit_length())


def normalize(tensor: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """``(tensor - mean) / std`` for each channel of ``(..., C, H, W)``.

    Args:
        tensor: ``(..., C, H, W)``.
        mean, std: a number for each channel.
        inplace: write over the input.
    Returns:
        ``tensor``'s shape and dtype.
    Raises:
        TypeError: no tensor, or whole numbers.
        ValueError: fewer than three dimensions, or a deviation of 0.
    Source: torchvision.transforms.functional.normalize.
    Example:
        >>> normalize(torch.ones(3, 1, 1), [0.5, 0.5, 1.0], [0.5, 1.0, 1.0]).flatten()
        tensor([1.0000, 0.5000, 0.0000])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    return filters.normalize.kernel(tensor, mean, std, inplace)


# -- geometry --------------------------------------------------------------------------------------------------------------------------
def resize(img: Any, size: Any, interpolation: Any = BILINEAR, max_size: int | None = None, antialias: bool | None = True) -> Any:
    """``img`` at another size.

    Args:
        img: a PIL image or a tensor.
        size: ``(height, width)``, or the length of the shorter side.
        interpolation: an :class:`InterpolationMode` or Pillow's number.
        max_size: the most that the longer side gets.
        antialias: widen the filter when the image shrinks, ``BILINEAR`` and ``BICUBIC`` alone; always for PIL images.
    Returns:
        An image of the same kind and of that size.
    Raises:
        TypeError: another kind of mode.
        ValueError: a size that is not one or two numbers, or ``max_size`` beside two.
    Source: torchvision.transforms.functional.resize.
    Example:
        >>> resize(torch.arange(4.0).view(1, 2, 2), [2, 4])
        tensor([[[0.0000, 0.2500, 0.7500, 1.0000],
                 [2.0000, 2.2500, 2.7500, 3.0000]]])
    """
    mode = _mode(interpolation)
    _check_image(img)
    if isinstance(size, (list, tuple)):
        if len(size) not in (1, 2):
            raise ValueError(f"Size must be an int or a 1 or 2 element tuple/list, not a {len(size)} element tuple/list")
        if max_size is not None and len(size) != 1:
            raise ValueError(
                "max_size should only be passed if size specifies the length of the smaller edge, "
                "i.e. size should be an int or a sequence of length 1 in torchscript mode."
            )
    if isinstance(img, Tensor):
        smooth = bool(antialias) and mode in (BILINEAR, InterpolationMode.BICUBIC)
        if img.dtype is dtypes.uint8 and mode in (BILINEAR, InterpolationMode.BICUBIC):
            # in floating point, rounded once: the kernel of bytes rounds after the rows, too
            return windows.resize.kernel(img.float(), size, mode, max_size, smooth).round_().clamp_(0, 255).to(img.dtype)
        return windows.resize.kernel(img, size, mode, max_size, smooth)
    return windows.resize_image_pil(img, size, mode, max_size, antialias)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """``img`` with a border around it.

    Args:
        img: a PIL image or a tensor.
        padding: the border's width; ``(left and right, top and bottom)``, or ``(left, top, right, bottom)``.
        fill: a number; for PIL images one for each channel, too.
        padding_mode: ``'constant'``, ``'edge'``, ``'reflect'`` or ``'symmetric'``.
    Returns:
        A larger image of the same kind.
    Raises:
        TypeError: arguments of another class.
        ValueError: another mode, or a padding of other than 1, 2 or 4 numbers.
    Source: torchvision.transforms.functional.pad.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> pad(img, [1, 0], fill=9.0)
        tensor([[[9., 0., 1., 9.],
                 [9., 2., 3., 9.]]])
    """
    if not isinstance(img, Tensor):
        return pil.pad(img, padding, fill, padding_mode)
    _check_image(img)
    pil.check_padding(padding, fill, padding_mode, (int, tuple, list), (int, float))
    return windows.as_image(windows.pad.kernel, img, padding, fill, padding_mode)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """The window of this size whose upper left corner is at ``(top, left)``.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        top, left: the window's first row and column.
        height, width: its rows and columns.
    Returns:
        An image of the same kind with ``height`` rows and ``width`` columns.
    Source: torchvision.transforms.functional.crop.
    Example:
        >>> crop(torch.arange(9.0).view(1, 3, 3), 1, 0, 2, 2)
        tensor([[[3., 4.],
                 [6., 7.]]])
    """
    _check_image(img)
    return (windows.crop.kernel if isinstance(img, Tensor) else pil.crop)(img, top, left, height, width)


def center_crop(img: Any, output_size: Any) -> Any:
    """The window of this size in the middle.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        output_size: ``(height, width)``, or one number for both.
    Returns:
        An image of the same kind and of that size.
    Source: torchvision.transforms.functional.center_crop.
    Example:
        >>> center_crop(torch.arange(16.0).view(1, 4, 4), [2, 2])
        tensor([[[ 5.,  6.],
                 [ 9., 10.]]])
    """
    _check_image(img)
    return windows.center_crop(img, output_size)


def resized_crop(
    img: Any, top: int, left: int, height: int, width: int, size: Any, interpolation: Any = BILINEAR, antialias: bool | None = True
) -> Any:
    """``crop``, then ``resize`` to ``size``.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        top, left: the window's first row and column.
        height, width: its rows and columns.
        size: ``(height, width)`` of the result, or one number for both.
        interpolation: an ``InterpolationMode`` or Pillow's number.
        antialias: widen the filter when the image shrinks.
    Returns:
        An image of the same kind and of that size.
    Source: torchvision.transforms.functional.resized_crop.
    Example:
        >>> resized_crop(torch.arange(16.0).view(1, 4, 4), 0, 0, 2, 2, [4, 4]).shape
        torch.Size([1, 4, 4])
    """
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """Left and right exchanged.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.hflip.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> hflip(img)
        tensor([[[1., 0.],
                 [3., 2.]]])
    """
    _check_image(img)
    return windows.horizontal_flip(img)


def vflip(img: Any) -> Any:
    """Top and bottom exchanged.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.vflip.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> vflip(img)
        tensor([[[2., 3.],
                 [0., 1.]]])
    """
    _check_image(img)
    return windows.vertical_flip(img)


def five_crop(img: Any, size: Any) -> tuple[Any, ...]:
    """Windows of this size in the four corners and in the middle.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        size: ``(height, width)`` of the result, or one number for both.
    Returns:
        Five images of the same kind.
    Source: torchvision.transforms.functional.five_crop.
    Example:
        >>> [tuple(window.shape) for window in five_crop(torch.ones(3, 8, 8), [4, 6])]
        [(3, 4, 6), (3, 4, 6), (3, 4, 6), (3, 4, 6), (3, 4, 6)]
    """
    _check_image(img)
    return windows.five_crop(img, size)


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """``five_crop`` of the image and of its mirror image.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        size: ``(height, width)`` of the result, or one number for both.
        vertical_flip: mirror top and bottom, not left and right.
    Returns:
        Ten images of the same kind.
    Source: torchvision.transforms.functional.ten_crop.
    Example:
        >>> len(ten_crop(torch.ones(3, 8, 8), [4, 6]))
        10
    """
    _check_image(img)
    return windows.ten_crop(img, size, vertical_flip)


def _get_perspective_coeffs(startpoints: Any, endpoints: Any) -> list[float]:
    return warps.perspective_coefficients(startpoints, endpoints)


def perspective(img: Any, startpoints: Any, endpoints: Any, interpolation: Any = BILINEAR, fill: Any = None) -> Any:
    """``img`` seen such that four points go from where they are to ``endpoints``.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        startpoints, endpoints: four points ``(x, y)``, and where they go.
        interpolation: an ``InterpolationMode`` or Pillow's number.
        fill: what comes in from outside.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.perspective.
    Example:
        >>> img = torch.arange(9.0).view(1, 3, 3)
        >>> corners = [[0, 0], [2, 0], [2, 2], [0, 2]]
        >>> perspective(img, corners, corners).round()[0, 1]
        tensor([3., 4., 5.])
    """
    mode = _mode(interpolation)
    _check_image(img)
    return warps.perspective(img, startpoints, endpoints, mode, fill)


def rotate(img: Any, angle: float, interpolation: Any = NEAREST, expand: bool = False, center: Any = None, fill: Any = None) -> Any:
    """``img`` turned by ``angle`` degrees, anticlockwise.

    Args:
        img: a PIL image or a tensor.
        angle: degrees.
        interpolation: an :class:`InterpolationMode` or Pillow's number.
        expand: make the image large enough to hold all of the result.
        center: ``(x, y)`` of the fixed point; the middle unless told.
        fill: what comes in from outside.
    Returns:
        An image of the same kind.
    Raises:
        TypeError: ``angle`` is no number, or ``center`` no sequence.
    Source: torchvision.transforms.functional.rotate.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> rotate(img, 90.0)
        tensor([[[1., 3.],
                 [0., 2.]]])
    """
    mode = _mode(interpolation)
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError("Argument center should be a sequence")
    _check_image(img)
    return warps.rotate(img, angle, mode, expand, center, fill)


def affine(
    img: Any, angle: float, translate: Any, scale: float, shear: Any, interpolation: Any = NEAREST, fill: Any = None, center: Any = None
) -> Any:
    """``img`` turned, sheared, scaled and moved; angles in degrees.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        angle: degrees, clockwise.
        translate: pixels to the right and down.
        scale: a factor.
        shear: degrees along x, or along x and y.
        interpolation: an ``InterpolationMode`` or Pillow's number.
        fill: what comes in from outside.
        center: ``(x, y)`` of the fixed point; the middle unless told.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.affine.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> affine(img, 0.0, [1, 0], 1.0, [0.0, 0.0])
        tensor([[[0., 0.],
                 [0., 2.]]])
    """
    mode = _mode(interpolation)
    warps.affine_arguments(angle, translate, scale, shear, center)
    _check_image(img)
    return warps.affine(img, angle, translate, scale, shear, mode, fill, center)


def elastic_transform(img: Any, displacement: Tensor, interpolation: Any = BILINEAR, fill: Any = None) -> Any:
    """``img`` with each pixel read at its place and ``displacement``, ``(1, H, W, 2)``.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        displacement: ``(1, H, W, 2)``; 2 is the whole width or height.
        interpolation: an ``InterpolationMode`` or Pillow's number.
        fill: what comes in from outside.
    Returns:
        An image of the same kind and shape.
    Raises:
        TypeError: no image, or ``displacement`` is no tensor.
    Source: torchvision.transforms.functional.elastic_transform.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> elastic_transform(img, torch.zeros(1, 2, 2, 2))
        tensor([[[0., 1.],
                 [2., 3.]]])
    """
    if isinstance(interpolation, int):
        warnings.warn(
            "Argument interpolation should be of type InterpolationMode instead of int. Please, use InterpolationMode enum.", stacklevel=2
        )
    if not isinstance(displacement, Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    if not isinstance(img, Tensor) and not pil.is_pil_image(img):
        raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")
    return warps.elastic(img, displacement, _mode(interpolation), fill)


# -- colours ---------------------------------------------------------------------------------------------------------------------------
def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """``img`` mixed with black: 0 is black, 1 ``img`` itself.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        brightness_factor: 0 is black, 1 changes nothing.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.adjust_brightness.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> adjust_brightness(colours, 2.0).flatten()
        tensor([0.4000, 0.8000, 1.0000])
    """
    _check_colours(img)
    return color.adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """``img`` mixed with its mean brightness.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        contrast_factor: 0 is the mean, 1 changes nothing.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.adjust_contrast.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> adjust_contrast(colours, 0.0).flatten()
        tensor([0.3630, 0.3630, 0.3630])
    """
    _check_colours(img)
    return color.adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """``img`` mixed with its grey image.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        saturation_factor: 0 is grey, 1 changes nothing.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.adjust_saturation.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> adjust_saturation(colours, 0.0).flatten()
        tensor([0.3630, 0.3630, 0.3630])
    """
    _check_colours(img)
    return color.adjust_saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """``img`` with its hues turned, by half a circle at -0.5 and 0.5.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        hue_factor: turns of the circle of colours, from -0.5 to 0.5.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.adjust_hue.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> adjust_hue(colours, 0.5).flatten()
        tensor([0.6000, 0.4000, 0.2000])
    """
    _check_colours(img)
    return color.adjust_hue(img, hue_factor)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """``gain * value ** gamma``, values from 0 to 1.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        gamma: the exponent, not below 0.
        gain: a factor.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.adjust_gamma.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> adjust_gamma(colours, 2.0).flatten()
        tensor([0.0400, 0.1600, 0.3600])
    """
    _check_colours(img)
    result = color.adjust_gamma(img, gamma, gain)
    return result.clamp(0, 1) if isinstance(img, Tensor) and img.is_floating_point() else result


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """``img`` mixed with a smoothed image.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        sharpness_factor: 0 is smooth, 1 changes nothing, 2 is sharp.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.adjust_sharpness.
    Example:
        >>> img = torch.zeros(1, 3, 3)
        >>> img[0, 1, 1] = 1.0
        >>> adjust_sharpness(img, 0.0)[0, 1]
        tensor([0.0000, 0.3846, 0.0000])
    """
    _check_colours(img)
    return (color.adjust_sharpness_classically if isinstance(img, Tensor) else color.adjust_sharpness)(img, sharpness_factor)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """A PIL image in grey.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        num_output_channels: 1 or 3.
    Returns:
        A PIL image.
    Raises:
        TypeError: no PIL image.
    Source: torchvision.transforms.functional.to_grayscale.
    Example:
        >>> from PIL import Image
        >>> to_grayscale(Image.new('RGB', (2, 2), 'red'), 3).getpixel((0, 0))
        (76, 76, 76)
    """
    if not pil.is_pil_image(img):
        raise TypeError("Input should be PIL Image")
    return pil.to_grayscale(img, num_output_channels)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """``0.2989 R + 0.587 G + 0.114 B``, in one channel or three equal ones; a tensor of one channel keeps one.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        num_output_channels: 1 or 3.
    Returns:
        An image of the same kind with so many channels.
    Source: torchvision.transforms.functional.rgb_to_grayscale.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> rgb_to_grayscale(colours).flatten()
        tensor([0.3630])
    """
    _check_colours(img)
    grey = color.rgb_to_grayscale(img, num_output_channels)
    return grey[..., :1, :, :] if isinstance(img, Tensor) and img.shape[-3] == 1 else grey


def invert(img: Any) -> Any:
    """Black for white.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.invert.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> invert(colours).flatten()
        tensor([0.8000, 0.6000, 0.4000])
    """
    _check_colours(img)
    return color.invert(img)


def _check_bytes(img: Any) -> None:
    _check_colours(img)
    if isinstance(img, Tensor) and img.dtype is not dtypes.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")


def posterize(img: Any, bits: int) -> Any:
    """The most significant ``bits`` of each byte alone.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        bits: from 0 to 8.
    Returns:
        An image of the same kind and shape.
    Raises:
        ValueError: other ``bits``.
        TypeError: a tensor of another dtype than uint8.
    Source: torchvision.transforms.functional.posterize.
    Example:
        >>> posterize(torch.tensor([[[200, 255]]], dtype=torch.uint8), 1)
        tensor([[[128, 128]]], dtype=torch.uint8)
    """
    if not 0 <= bits <= 8:
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    _check_bytes(img)
    return color.posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """Values from ``threshold`` on inverted.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        threshold: in the values of the image.
    Returns:
        An image of the same kind and shape.
    Raises:
        TypeError: a threshold above white.
    Source: torchvision.transforms.functional.solarize.
    Example:
        >>> colours = torch.tensor([0.2, 0.4, 0.6]).view(3, 1, 1)
        >>> solarize(colours, 0.5).flatten()
        tensor([0.2000, 0.4000, 0.4000])
    """
    _check_colours(img)
    if isinstance(img, Tensor) and threshold > conversion.max_value(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")
    return color.solarize(img, threshold)


def autocontrast(img: Any) -> Any:
    """Each channel stretched from its least and most to black and white.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
    Returns:
        An image of the same kind and shape.
    Source: torchvision.transforms.functional.autocontrast.
    Example:
        >>> autocontrast(torch.tensor([[[0.2, 0.3, 0.4]]]))
        tensor([[[0.0000, 0.5000, 1.0000]]])
    """
    _check_colours(img)
    return (color.autocontrast_classically if isinstance(img, Tensor) else color.autocontrast)(img)


def equalize(img: Any) -> Any:
    """Each channel of bytes with its levels moved so that about equally many pixels have each.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
    Returns:
        An image of the same kind and shape.
    Raises:
        TypeError: a tensor of another dtype than uint8, or of more than four dimensions.
    Source: torchvision.transforms.functional.equalize.
    Example:
        >>> dark = torch.arange(1024).view(1, 32, 32).div(16).byte()
        >>> dark.max().item(), equalize(dark).max().item()
        (63, 255)
    """
    _check_bytes(img)
    if isinstance(img, Tensor) and img.ndim > 4:
        raise TypeError(f"Input image tensor should have 3 or 4 dimensions, but found {img.ndim}")
    return color.equalize(img)


# -- filters ---------------------------------------------------------------------------------------------------------------------------
def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """A tensor with ``v`` in the window of size ``(h, w)`` at row ``i`` and column ``j``.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        i, j, h, w: row, column, height and width of the window.
        v: what stands there.
        inplace: write over the input.
    Returns:
        ``img``'s shape and dtype; ``img`` itself with ``inplace``.
    Raises:
        TypeError: no tensor.
    Source: torchvision.transforms.functional.erase.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> erase(img, 0, 1, 1, 1, torch.tensor(9.0))
        tensor([[[0., 9.],
                 [2., 3.]]])
    """
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    return filters.erase.kernel(img, i, j, h, w, v, inplace)


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """``img`` smoothed by a Gaussian of odd ``kernel_size`` and deviation ``sigma``.

    Args:
        img: a PIL image or a tensor ``(..., C, H, W)``.
        kernel_size: odd; ``(along x, along y)`` or one for both.
        sigma: the deviation in pixels.
    Returns:
        An image of the same kind and shape.
    Raises:
        TypeError: no image, or a size of another class.
    Source: torchvision.transforms.functional.gaussian_blur.
    Example:
        >>> gaussian_blur(torch.ones(3, 5, 5), [3, 3]).shape
        torch.Size([3, 5, 5])
    """
    if not isinstance(kernel_size, (int, list, tuple)):
        raise TypeError(f"kernel_size should be int or a sequence of integers. Got {type(kernel_size)}")
    if not isinstance(img, Tensor) and not pil.is_pil_image(img):
        raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")
    return filters.gaussian_blur(img, kernel_size, sigma)
