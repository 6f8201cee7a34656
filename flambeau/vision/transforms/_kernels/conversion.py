"""PIL images, arrays and tensors turned into one another, and values between the ranges of their dtypes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import PIL.Image

from .... import ops
from ....core import dtype as dtypes
from ....core.dtype import dtype as Dtype, get_default_dtype
from ....core.tensor import Tensor, wrap
from ... import tv_tensors
from . import pil
from .pil import pil_to_tensor
from .registry import IMAGES, functional_of, register

_SHORT = "I;16" if sys.byteorder == "little" else "I;16B"
_ARRAY_OF_MODE = {"I": np.int32, _SHORT: np.int16, "F": np.float32}
_MODE_OF_ARRAY = {"uint8": "L", "int16": _SHORT, "int32": "I", "float32": "F"}
_MODES = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}
_VALUE_BITS = {dtypes.uint8: 8, dtypes.int8: 7, dtypes.int16: 15, dtypes.uint16: 16, dtypes.int32: 31, dtypes.int64: 63}


# -- images ----------------------------------------------------------------------------------------------------------------------------
def to_tensor(pic: Any) -> Tensor:
    """A PIL image or an array ``(H, W, C)`` or ``(H, W)`` as a tensor ``(C, H, W)``; bytes become numbers from 0 to 1.

    Args:
        pic: an image of any mode, or an array.
    Returns:
        Of the default dtype if ``pic`` has bytes, otherwise of its own; a new tensor.
    Raises:
        TypeError: neither an image nor an array.
        ValueError: an array of another number of dimensions.
    Source: torchvision.transforms.functional.to_tensor.
    Example:
        >>> to_tensor(np.array([[0, 51], [102, 255]], dtype=np.uint8))
        tensor([[[0.0000, 0.2000],
                 [0.4000, 1.0000]]])
    """
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        pixels = pic[:, :, None] if pic.ndim == 2 else pic
    elif pil.is_pil_image(pic):
        pixels = np.asarray(pic, _ARRAY_OF_MODE.get(pic.mode, np.uint8))
        if pic.mode == "1":
            pixels = pixels * np.uint8(255)
        pixels = pixels.reshape(pic.height, pic.width, pil.num_channels(pic))
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    if pixels.dtype != np.uint8:
        return ops.from_numpy(np.array(pixels.transpose(2, 0, 1), order="C"))
    planes = wrap(np.ascontiguousarray(pixels)).permute(2, 0, 1).contiguous()  # not to be written to: it may be Pillow's memory
    return planes.to(get_default_dtype()).div_(255)


def _mode_for(pixels: np.ndarray, mode: str | None) -> str:
    channels = pixels.shape[2]
    if channels == 1:
        expected = _MODE_OF_ARRAY.get(pixels.dtype.name)
        if mode is not None and mode != expected:
            raise ValueError(f"Incorrect mode ({mode}) supplied for input type {np.dtype}. Should be {expected}")
        mode = expected
    else:
        permitted = _MODES[channels]
        if mode is not None and mode not in permitted:
            raise ValueError(f"Only modes {list(permitted)} are supported for {channels}D inputs")
        if mode is None and pixels.dtype == np.uint8:
            mode = permitted[0]
    if mode is None:
        raise TypeError(f"Input type {pixels.dtype} is not supported")
    return mode


def to_pil_image(pic: Any, mode: str | None = None) -> PIL.Image.Image:
    """A tensor ``(C, H, W)`` or an array ``(H, W, C)`` as a PIL image; floating point numbers from 0 to 1 become bytes.

    Args:
        pic: with 1 to 4 channels, or ``(H, W)``.
        mode: the image's mode; unless told, that which has as many channels.
    Returns:
        A PIL image.
    Raises:
        TypeError: neither a tensor nor an array, or a dtype that no mode has.
        ValueError: other dimensions, too many channels, or a mode that does not fit.
    Source: torchvision.transforms.functional.to_pil_image.
    Example:
        >>> picture = to_pil_image(torch.ones(3, 4, 5))
        >>> picture.size, picture.mode
        ((5, 4), 'RGB')
    """
    if isinstance(pic, Tensor):
        pixels = (pic.permute(1, 2, 0) if pic.ndim == 3 else pic).numpy(force=True)
    elif isinstance(pic, np.ndarray):
        pixels = pic
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3:
        raise ValueError(f"pic should be 2/3 dimensional. Got {pixels.ndim} dimensions.")
    if pixels.shape[-1] > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {pixels.shape[-1]} channels.")
    if np.issubdtype(pixels.dtype, np.floating) and mode != "F":
        pixels = (pixels * 255).astype(np.uint8)
    return pil.image_of(pixels, _mode_for(pixels, mode))


def to_image(inpt: Any) -> tv_tensors.Image:
    """A tensor, array or PIL image as an :class:`~flambeau.vision.tv_tensors.Image`, with the values it has.

    Args:
        inpt: an image.
    Returns:
        ``(C, H, W)``.
    Raises:
        TypeError: none of these.
    Source: torchvision.transforms.v2.functional.to_image.
    Example:
        >>> type(to_image(torch.ones(3, 4, 5))).__name__
        'Image'
    """
    if isinstance(inpt, np.ndarray):
        inpt = ops.from_numpy(np.ascontiguousarray(np.atleast_3d(inpt).transpose(2, 0, 1)))
    elif pil.is_pil_image(inpt):
        inpt = pil_to_tensor(inpt)
    elif not isinstance(inpt, Tensor):
        raise TypeError(f"Input can either be a pure Tensor, a numpy array, or a PIL image, but got {type(inpt)} instead.")
    return tv_tensors.Image(inpt)


def register_by_tensors(functional: Any) -> None:
    """PIL images are transformed as tensors."""

    def kernel(image: Any, *args: Any, **kwargs: Any) -> PIL.Image.Image:
        return to_pil_image(functional.kernel(pil_to_tensor(image), *args, **kwargs), mode=image.mode)

    register(functional, PIL.Image.Image)(kernel)


# -- dtypes ----------------------------------------------------------------------------------------------------------------------------
def num_value_bits(dtype: Dtype) -> int:
    """Bits of a whole number that are no sign."""
    if dtype not in _VALUE_BITS:
        raise TypeError(f"Number of value bits is only defined for integer dtypes, but got {dtype}.")
    return _VALUE_BITS[dtype]


def max_value(dtype: Dtype) -> int:
    """Value of white in a dtype: 1 for floating point, the largest value for whole numbers."""
    return (1 << _VALUE_BITS[dtype]) - 1 if dtype in _VALUE_BITS else 1


def shifted(image: Tensor, dtype: Dtype, more: int) -> Tensor:
    """Whole numbers with ``more`` bits than they have, fewer where that is below 0."""
    if dtypes.uint16 in (image.dtype, dtype):  # has no shifts
        return (image / 2**-more).to(dtype) if more < 0 else image.to(dtype) * 2**more
    return image.bitwise_right_shift(-more).to(dtype) if more < 0 else image.to(dtype).bitwise_left_shift_(more)


@functional_of(*IMAGES)
def to_dtype(image: Tensor, dtype: Dtype = dtypes.float32, scale: bool = False) -> Tensor:
    """``inpt`` as ``dtype``, with ``scale`` such that black stays black and white white.

    Args:
        inpt: an image or video; boxes, points and masks are never scaled.
        dtype: the dtype of the result.
        scale: whole numbers from 0 to their largest value stand for 0 to 1.
    Returns:
        What came in; itself if it is of that dtype.
    Raises:
        RuntimeError: floating point to whole numbers that have more bits than it.
    Source: torchvision.transforms.v2.functional.to_dtype.
    Example:
        >>> to_dtype(torch.tensor([0, 51, 255], dtype=torch.uint8), torch.float32, scale=True)
        tensor([0.0000, 0.2000, 1.0000])
    """
    if image.dtype == dtype:
        return image
    if not scale:
        return image.to(dtype)
    if not image.is_floating_point():
        if dtype.is_floating_point:
            return image.to(dtype).mul_(1.0 / max_value(image.dtype))
        return shifted(image, dtype, num_value_bits(dtype) - num_value_bits(image.dtype))
    if dtype.is_floating_point:
        return image.to(dtype)
    check_precision(image.dtype, dtype, "conversion")
    # the largest number below the next one, so that each whole number gets an equal share of 0 to 1
    return image.mul(max_value(dtype) + 1.0 - 1e-3).to(dtype)


@register(to_dtype, tv_tensors.BoundingBoxes, tv_tensors.KeyPoints, tv_tensors.Mask, wrap=False)
def _to_dtype_unscaled(inpt: Any, dtype: Dtype, scale: bool = False) -> Any:
    return inpt.to(dtype)


def check_precision(source: Dtype, dtype: Dtype, word: str) -> None:
    too_wide = {dtypes.float32: (dtypes.int32, dtypes.int64), dtypes.float64: (dtypes.int64,)}
    if dtype in too_wide.get(source, ()):
        raise RuntimeError(f"The {word} from {source} to {dtype} cannot be performed safely.")


def convert_image_dtype(image: Tensor, dtype: Dtype = dtypes.float32) -> Tensor:
    """``to_dtype`` with ``scale=True``.

    Args:
        image: an image or video ``(..., C, H, W)``.
        dtype: of the result.
    Returns:
        ``image``'s shape.
    Source: torchvision.transforms.v2.functional.convert_image_dtype.
    Example:
        >>> convert_image_dtype(torch.tensor([0, 51, 255], dtype=torch.uint8))
        tensor([0.0000, 0.2000, 1.0000])
    """
    return to_dtype.kernel(image, dtype=dtype, scale=True)
