"""Mirroring, resizing, padding and cutting out: what keeps rows and columns straight."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import PIL.Image
from PIL import ImageOps

from .... import ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ....nn import functional
from ... import tv_tensors
from ...tv_tensors import BoundingBoxFormat, is_rotated_bounding_format
from . import pil
from .meta import clamped, converted
from .modes import BILINEAR, NEAREST, PIL_MODES, InterpolationMode, checked_mode
from .registry import IMAGES, functional_of, register, register_described
from .rotated import parallelogram_to_box

_LINEAR = (BILINEAR, InterpolationMode.BICUBIC, InterpolationMode.LANCZOS)
_ROUNDED = (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)  # others are cut off; bool is True where not 0
_NEAREST = (NEAREST, InterpolationMode.NEAREST_EXACT)
_F: Any = BoundingBoxFormat


def as_image(kernel: Callable[..., Tensor], mask: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``kernel`` on a mask, which may lack the dimension of channels."""
    if mask.ndim >= 3:
        return kernel(mask, *args, **kwargs)
    return kernel(mask.unsqueeze(0), *args, **kwargs).squeeze(0)


def offset_for(format: BoundingBoxFormat, x: float, y: float) -> list[float]:
    """Numbers to add to those of a box that is moved by ``(x, y)``."""
    if format == _F.XYXYXYXY:
        return [x, y] * 4
    if format == _F.XYXY:
        return [x, y] * 2
    return [x, y, 0, 0, 0] if is_rotated_bounding_format(format) else [x, y, 0, 0]


# -- mirrors -----------------------------------------------------------------------------------------------------------------------------
@functional_of(*IMAGES, tv_tensors.Mask, pillow=ImageOps.mirror)
def horizontal_flip(image: Tensor) -> Tensor:
    """Left and right exchanged.

    Args:
        inpt: an image or video ``(..., C, H, W)``, a mask, boxes or points.
    Returns:
        What came in, mirrored.
    Source: torchvision.transforms.v2.functional.horizontal_flip.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> horizontal_flip(img)
        tensor([[[1., 0.],
                 [3., 2.]]])
    """
    return image.flip(-1)


@functional_of(*IMAGES, tv_tensors.Mask, pillow=ImageOps.flip)
def vertical_flip(image: Tensor) -> Tensor:
    """Top and bottom exchanged.

    Args:
        inpt: an image or video ``(..., C, H, W)``, a mask, boxes or points.
    Returns:
        What came in, mirrored.
    Source: torchvision.transforms.v2.functional.vertical_flip.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> vertical_flip(img)
        tensor([[[2., 3.],
                 [0., 1.]]])
    """
    return image.flip(-2)


hflip, vflip = horizontal_flip, vertical_flip
horizontal_flip_mask = horizontal_flip.kernel
vertical_flip_mask = vertical_flip.kernel


@register_described(horizontal_flip, tv_tensors.KeyPoints)
def horizontal_flip_keypoints(keypoints: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    x, y = keypoints.unbind(-1)
    return ops.stack([canvas_size[1] - 1 - x, y], -1)


@register_described(vertical_flip, tv_tensors.KeyPoints)
def vertical_flip_keypoints(keypoints: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    x, y = keypoints.unbind(-1)
    return ops.stack([x, canvas_size[0] - 1 - y], -1)


def _mirrored_boxes(boxes: Tensor, format: BoundingBoxFormat, axis: int, length: int) -> Tensor:
    """Boxes of any format, mirrored along ``axis``, 0 for x and 1 for y, in an image of that ``length``."""
    numbers = list(boxes.unbind(-1))
    if format == _F.XYWH:  # the corner that was the lower right one comes first
        numbers[axis] = numbers[axis] + numbers[2 + axis]
    elif format == _F.XYWHR:  # the next corner comes first
        radians = numbers[4].mul(math.pi).div(180)
        numbers[0] = numbers[0] + numbers[2] * radians.cos()
        numbers[1] = numbers[1] - numbers[2] * radians.sin()
    elif format == _F.XYXY:
        numbers[axis], numbers[2 + axis] = numbers[2 + axis], numbers[axis]
    elif format == _F.XYXYXYXY:
        numbers = [numbers[place] for place in (2, 3, 0, 1, 6, 7, 4, 5)]
    coordinates = range(axis, len(numbers), 2) if format in (_F.XYXY, _F.XYXYXYXY) else [axis]
    for place in coordinates:
        numbers[place] = length - numbers[place]
    if format in (_F.XYWHR, _F.CXCYWHR):
        numbers[4] = 180 - numbers[4] if axis else -numbers[4]
    return ops.stack(numbers, -1)


@register_described(horizontal_flip, tv_tensors.BoundingBoxes)
def horizontal_flip_bounding_boxes(bounding_boxes: Tensor, format: BoundingBoxFormat, canvas_size: tuple[int, int]) -> Tensor:
    return _mirrored_boxes(bounding_boxes, format, 0, canvas_size[1])


@register_described(vertical_flip, tv_tensors.BoundingBoxes)
def vertical_flip_bounding_boxes(bounding_boxes: Tensor, format: BoundingBoxFormat, canvas_size: tuple[int, int]) -> Tensor:
    return _mirrored_boxes(bounding_boxes, format, 1, canvas_size[0])


# -- resizing ----------------------------------------------------------------------------------------------------------------------------
def resized_size(canvas_size: Sequence[int], size: Any, max_size: int | None = None) -> tuple[int, int]:
    """Height and width that are asked for by the shorter side alone, by both, or by the longer side at most.

    Raises:
        ValueError: ``max_size`` beside two sizes, below the shorter side, or missing without a size.
    """
    height, width = canvas_size
    short, long = min(height, width), max(height, width)
    sizes = [size] if isinstance(size, int) else size
    if sizes is None:
        if not isinstance(max_size, int):
            raise ValueError(f"max_size must be an integer when size is None, but got {max_size} instead.")
        new_short, new_long = int(max_size * short / long), max_size
    elif len(sizes) == 1:
        new_short, new_long = sizes[0], int(sizes[0] * long / short)
        if max_size is not None:
            if max_size <= new_short:
                raise ValueError(
                    f"max_size = {max_size} must be strictly greater than the requested size for the smaller edge size = {size}"
                )
            if new_long > max_size:
                new_short, new_long = int(max_size * new_short / new_long), max_size
    else:
        if max_size is not None:
            raise ValueError(
                "max_size should only be passed if size is None or specifies the length of the smaller edge, "
                "i.e. size should be an int or a sequence of length 1 in torchscript mode."
            )
        return sizes[0], sizes[1]
    return (new_long, new_short) if width <= height else (new_short, new_long)


def _interpolated(image: Tensor, sizes: tuple[int, int], mode: InterpolationMode, antialias: bool) -> Tensor:
    align_corners = False if mode in _LINEAR else None
    return functional.interpolate(image, size=list(sizes), mode=mode.value, align_corners=align_corners, antialias=antialias)


@functional_of(*IMAGES)
def resize(image: Tensor, size: Any, interpolation: Any = BILINEAR, max_size: int | None = None, antialias: bool | None = True) -> Tensor:
    """``inpt`` at another size.

    Args:
        inpt: an image, video, mask, boxes or points.
        size: ``(height, width)``, or the length of the shorter side; None with ``max_size``, which is the longer side's length then.
        interpolation: an :class:`InterpolationMode`, its name, or Pillow's number; masks take the nearest pixel in any case.
        max_size: the most that the longer side gets.
        antialias: widen the filter when the image shrinks; always for PIL images.
    Returns:
        What came in, of another size.
    Source: torchvision.transforms.v2.functional.resize.
    Example:
        >>> resize(torch.arange(4.0).view(1, 2, 2), [2, 4])
        tensor([[[0.0000, 0.2500, 0.7500, 1.0000],
                 [2.0000, 2.2500, 2.7500, 3.0000]]])
    """
    mode = checked_mode(interpolation)
    antialias = bool(antialias) and mode in _LINEAR
    if mode is InterpolationMode.LANCZOS and not antialias:
        raise ValueError("InterpolationMode.LANCZOS requires antialias=True")
    *batch, channels, height, width = image.shape
    sizes = resized_size((height, width), size, max_size)
    if sizes == (height, width):
        return image
    result_shape = (*batch, channels, *sizes)
    if not image.numel():
        return image.reshape(result_shape)
    dtype = image.dtype
    images = image.reshape(-1, channels, height, width)
    if dtype in (dtypes.float32, dtypes.float64, dtypes.uint8):
        return _interpolated(images, sizes, mode, antialias).reshape(result_shape)
    result = _interpolated(images.float(), sizes, mode, antialias)
    return (result.round_() if dtype in _ROUNDED else result).to(dtype).reshape(result_shape)


@register(resize, PIL.Image.Image)
def resize_image_pil(
    image: Any, size: Any, interpolation: Any = BILINEAR, max_size: int | None = None, antialias: bool | None = True
) -> Any:
    if antialias is False:
        warnings.warn("Anti-alias option is always applied for PIL Image input. Argument antialias is ignored.", stacklevel=4)
    height, width = resized_size((image.height, image.width), size, max_size)
    mode = checked_mode(interpolation)
    return image if (height, width) == (image.height, image.width) else image.resize((width, height), PIL_MODES[mode])


@register_described(resize, tv_tensors.Mask)
def resize_mask(mask: Tensor, size: Any, interpolation: Any = BILINEAR, max_size: int | None = None) -> Tensor:
    """``resize`` of masks, on plain tensors; each pixel keeps one of the mask's values.

    Args:
        mask: ``(..., H, W)``.
        size, max_size: as for ``resize``.
        interpolation: a way to choose the nearest pixel; ``NEAREST`` in place of all others.
    Returns:
        ``(..., H', W')``.
    Raises:
        What ``resize`` raises.
    Source: torchvision.transforms.v2.functional.resize_mask.
    Example:
        >>> resize_mask(torch.tensor([[[0, 7]]]), [1, 4])
        tensor([[[0, 0, 7, 7]]])
    """
    mode = checked_mode(interpolation)
    mode = mode if mode in _NEAREST else NEAREST
    return as_image(resize.kernel, mask, size, mode, max_size)


@register_described(resize, tv_tensors.KeyPoints)
def resize_keypoints(keypoints: Tensor, size: Any, canvas_size: tuple[int, int], max_size: int | None = None) -> tuple[Tensor, Any]:
    height, width = resized_size(canvas_size, size, max_size)
    ratios = ops.tensor([width / canvas_size[1], height / canvas_size[0]], device=keypoints.device)
    return keypoints.mul(ratios).to(keypoints.dtype), (height, width)


@register_described(resize, tv_tensors.BoundingBoxes)
def resize_bounding_boxes(
    bounding_boxes: Tensor,
    canvas_size: tuple[int, int],
    size: Any,
    max_size: int | None = None,
    format: BoundingBoxFormat = BoundingBoxFormat.XYXY,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, Any]:
    sizes = resized_size(canvas_size, size, max_size)
    if sizes == tuple(canvas_size):
        return bounding_boxes, canvas_size
    ratios = [sizes[1] / canvas_size[1], sizes[0] / canvas_size[0]]
    if not is_rotated_bounding_format(format):
        return bounding_boxes.mul(ops.tensor(ratios * 2, device=bounding_boxes.device)).to(bounding_boxes.dtype), sizes
    corners = converted(bounding_boxes, format, _F.XYXYXYXY).reshape(-1, 8)
    corners = corners.mul(ops.tensor(ratios * 4, device=corners.device))
    boxes = clamped(parallelogram_to_box(corners), _F.XYXYXYXY, sizes, clamping_mode)
    return converted(boxes, _F.XYXYXYXY, format).to(bounding_boxes.dtype).reshape(bounding_boxes.shape), sizes


# -- padding -----------------------------------------------------------------------------------------------------------------------------
def padding_sides(padding: Any) -> list[int]:
    """Left, right, top and bottom of a padding in any of its forms.

    Raises:
        ValueError: a sequence of another length than 1, 2 and 4.
        TypeError: neither an integer nor a sequence.
    """
    if isinstance(padding, int):
        return [padding] * 4
    if not isinstance(padding, (tuple, list)):
        raise TypeError(f"`padding` should be an integer or tuple or list of integers, but got {padding}")
    if len(padding) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple or list. Found {len(padding)}")
    left, top, right, bottom = list(padding) * (4 // len(padding))
    return [left, right, top, bottom]


def _mirrored(size: int, before: int, after: int) -> Tensor:
    """The places that a row of ``size`` pixels is read at to be mirrored at both ends, or cut."""
    inside = list(range(max(-before, 0), size - max(-after, 0)))
    return ops.tensor([*inside[: max(before, 0)][::-1], *inside, *inside[::-1][: max(after, 0)]])


def _padded(images: Tensor, sides: list[int], fill: float, padding_mode: str) -> Tensor:
    if padding_mode == "constant":
        return functional.pad(images, sides, mode="constant", value=float(fill))
    if padding_mode == "symmetric":
        left, right, top, bottom = sides
        rows, columns = _mirrored(images.shape[-2], top, bottom), _mirrored(images.shape[-1], left, right)
        return images[..., rows[:, None].to(images.device), columns.to(images.device)]
    mode = "replicate" if padding_mode == "edge" else padding_mode
    exact = images if images.is_floating_point() else images.float()
    return functional.pad(exact, sides, mode=mode).to(images.dtype)


@functional_of(*IMAGES, pillow=pil.pad)
def pad(image: Tensor, padding: Any, fill: Any = None, padding_mode: str = "constant") -> Tensor:
    """``inpt`` with a border around it.

    Args:
        inpt: an image, video, mask, boxes or points.
        padding: the border's width; ``(left and right, top and bottom)``, or ``(left, top, right, bottom)``. Below zero it cuts off.
        fill: what the border consists of: a number, or one for each channel.
        padding_mode: ``'constant'``; ``'edge'``, the outermost pixels again; ``'reflect'`` and ``'symmetric'``, the image mirrored without
            its outermost pixels and with them. For boxes and points ``'constant'`` alone.
    Returns:
        What came in, of another size.
    Source: torchvision.transforms.v2.functional.pad.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> pad(img, [1, 0], fill=9.0)
        tensor([[[9., 0., 1., 9.],
                 [9., 2., 3., 9.]]])
    """
    sides = padding_sides(padding)
    if padding_mode not in pil.PADDING_MODES:
        raise ValueError(
            f"`padding_mode` should be either `'constant'`, `'edge'`, `'reflect'` or `'symmetric'`, but got `'{padding_mode}'`."
        )
    fills = [0] if fill is None else [fill] if isinstance(fill, (int, float)) else list(fill)
    *batch, channels, height, width = image.shape
    images = image.reshape(math.prod(batch), channels, height, width)
    if len(fills) == 1:
        result = _padded(images, sides, fills[0], padding_mode)
    elif padding_mode != "constant":
        raise ValueError(f"Padding mode '{padding_mode}' is not supported if fill is not scalar")
    else:
        result = _padded(images, sides, 0, padding_mode)
        left, right, top, bottom = [max(side, 0) for side in sides]
        colour = ops.tensor(fills).to(image.device, image.dtype).reshape(-1, 1, 1)
        for border in (
            result[..., :top, :],
            result[..., :left],
            result[..., result.shape[-2] - bottom :, :],
            result[..., result.shape[-1] - right :],
        ):
            if border.numel():
                border.copy_(colour)
    return result.reshape(*batch, *result.shape[1:])


@register_described(pad, tv_tensors.Mask)
def pad_mask(mask: Tensor, padding: Any, fill: Any = None, padding_mode: str = "constant") -> Tensor:
    if isinstance(fill, (tuple, list)):
        raise ValueError("Non-scalar fill value is not supported")
    return as_image(pad.kernel, mask, padding, fill, padding_mode)


@register_described(pad, tv_tensors.KeyPoints)
def pad_keypoints(
    keypoints: Tensor, canvas_size: tuple[int, int], padding: Any, padding_mode: str = "constant"
) -> tuple[Tensor, tuple[int, int]]:
    if padding_mode != "constant":
        raise ValueError(f"Padding mode '{padding_mode}' is not supported with KeyPoints (supported modes are constant)")
    left, right, top, bottom = padding_sides(padding)
    size = (canvas_size[0] + top + bottom, canvas_size[1] + left + right)
    return keypoints + keypoints.new_tensor([left, top]), size


@register_described(pad, tv_tensors.BoundingBoxes)
def pad_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: tuple[int, int],
    padding: Any,
    padding_mode: str = "constant",
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    if padding_mode != "constant":
        raise ValueError(f"Padding mode '{padding_mode}' is not supported with bounding boxes")
    left, right, top, bottom = padding_sides(padding)
    size = (canvas_size[0] + top + bottom, canvas_size[1] + left + right)
    boxes = bounding_boxes + bounding_boxes.new_tensor(offset_for(format, left, top))
    return clamped(boxes, format, size, clamping_mode), size


# -- cutting out -------------------------------------------------------------------------------------------------------------------------
@functional_of(*IMAGES, pillow=pil.crop)
def crop(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """The window of this size whose upper left corner is at ``(top, left)``; zeros where it leaves the image.

    Args:
        inpt: an image or video ``(..., C, H, W)``, a mask, boxes or points.
        top, left: the window's first row and column.
        height, width: its rows and columns.
    Returns:
        What came in, of another size.
    Source: torchvision.transforms.v2.functional.crop.
    Example:
        >>> crop(torch.arange(9.0).view(1, 3, 3), 1, 0, 2, 2)
        tensor([[[3., 4.],
                 [6., 7.]]])
    """
    rows, columns = image.shape[-2:]
    bottom, right = top + height, left + width
    if top >= 0 and left >= 0 and bottom <= rows and right <= columns:
        return image[..., top:bottom, left:right]
    sides = [
        max(min(right, 0) - left, 0),
        max(right - max(columns, left), 0),
        max(min(bottom, 0) - top, 0),
        max(bottom - max(rows, top), 0),
    ]
    inside = image[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    return functional.pad(inside, sides)


@register_described(crop, tv_tensors.Mask)
def crop_mask(mask: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    return as_image(crop.kernel, mask, top, left, height, width)


@register_described(crop, tv_tensors.KeyPoints)
def crop_keypoints(keypoints: Tensor, top: int, left: int, height: int, width: int) -> tuple[Tensor, tuple[int, int]]:
    return keypoints - keypoints.new_tensor([left, top]), (height, width)


@register_described(crop, tv_tensors.BoundingBoxes)
def crop_bounding_boxes(
    bounding_boxes: Tensor, format: BoundingBoxFormat, top: int, left: int, height: int, width: int, clamping_mode: str | None = "soft"
) -> tuple[Tensor, tuple[int, int]]:
    boxes = bounding_boxes - bounding_boxes.new_tensor(offset_for(format, left, top))
    if format == _F.XYXYXYXY:
        boxes = parallelogram_to_box(boxes)
    return clamped(boxes, format, (height, width), clamping_mode), (height, width)


def two_sizes(size: Any) -> list[int]:
    """Height and width of a size in any of its forms; of a sequence, whatever it has."""
    if isinstance(size, Number):
        return [int(size)] * 2  # type: ignore[call-overload]
    return [size[0]] * 2 if len(size) == 1 else list(size)


def _missing(size: Sequence[int], image_size: Sequence[int]) -> list[int]:
    """Left, top, right and bottom borders that bring an image to at least ``size``."""
    down, across = [max(wanted - there, 0) for wanted, there in zip(size, image_size)]
    return [across // 2, down // 2, (across + 1) // 2, (down + 1) // 2]


def _centre(size: Sequence[int], image_size: Sequence[int]) -> tuple[int, int]:
    top, left = [round((there - wanted) / 2.0) for wanted, there in zip(size, image_size)]
    return top, left


@functional_of(*IMAGES)
def center_crop(image: Tensor, output_size: Any) -> Tensor:
    """The window of this size in the middle; zeros around images that are smaller.

    Args:
        inpt: an image or video ``(..., C, H, W)``, a mask, boxes or points.
        output_size: ``(height, width)``, or one number for both.
    Returns:
        What came in, of another size.
    Source: torchvision.transforms.v2.functional.center_crop.
    Example:
        >>> center_crop(torch.arange(16.0).view(1, 4, 4), [2, 2])
        tensor([[[ 5.,  6.],
                 [ 9., 10.]]])
    """
    size = two_sizes(output_size)
    if not image.numel():
        return image.reshape(*image.shape[:-2], *size)
    borders = _missing(size, image.shape[-2:])
    if any(borders):
        left, top, right, bottom = borders
        image = functional.pad(image, [left, right, top, bottom])
    return crop.kernel(image, *_centre(size, image.shape[-2:]), *size)


@register(center_crop, PIL.Image.Image)
def center_crop_image_pil(image: Any, output_size: Any) -> Any:
    size = two_sizes(output_size)
    borders = _missing(size, pil.size(image))
    if any(borders):
        image = pil.pad(image, borders)
    return image if pil.size(image) == size else pil.crop(image, *_centre(size, pil.size(image)), *size)


@register_described(center_crop, tv_tensors.Mask)
def center_crop_mask(mask: Tensor, output_size: Any) -> Tensor:
    return as_image(center_crop.kernel, mask, output_size)


@register_described(center_crop, tv_tensors.KeyPoints)
def center_crop_keypoints(inpt: Tensor, canvas_size: tuple[int, int], output_size: Any) -> tuple[Tensor, tuple[int, int]]:
    size = two_sizes(output_size)
    return crop_keypoints(inpt, *_centre(size, canvas_size), *size)


@register_described(center_crop, tv_tensors.BoundingBoxes)
def center_crop_bounding_boxes(
    bounding_boxes: Tensor, format: BoundingBoxFormat, canvas_size: tuple[int, int], output_size: Any, clamping_mode: str | None = "soft"
) -> tuple[Tensor, tuple[int, int]]:
    size = two_sizes(output_size)
    return crop_bounding_boxes(bounding_boxes, format, *_centre(size, canvas_size), *size, clamping_mode=clamping_mode)


@functional_of(*IMAGES, PIL.Image.Image)
def resized_crop(
    image: Tensor, top: int, left: int, height: int, width: int, size: Any, interpolation: Any = BILINEAR, antialias: bool | None = True
) -> Tensor:
    """``crop``, then ``resize`` to ``size``.

    Args:
        inpt: an image or video ``(..., C, H, W)``, a mask, boxes or points.
        top, left: the window's first row and column.
        height, width: its rows and columns.
        size: ``(height, width)`` of the result, or one number for both.
        interpolation: an ``InterpolationMode`` or Pillow's number.
        antialias: widen the filter when the image shrinks.
    Returns:
        What came in, of another size.
    Source: torchvision.transforms.v2.functional.resized_crop.
    Example:
        >>> resized_crop(torch.arange(16.0).view(1, 4, 4), 0, 0, 2, 2, [4, 4]).shape
        torch.Size([1, 4, 4])
    """
    resized = resize.kernel if isinstance(image, Tensor) else resize_image_pil
    return resized(crop(image, top, left, height, width), size, interpolation, antialias=antialias)


@register_described(resized_crop, tv_tensors.Mask)
def resized_crop_mask(mask: Tensor, top: int, left: int, height: int, width: int, size: Any) -> Tensor:
    return resize_mask(crop_mask(mask, top, left, height, width), size)


@register_described(resized_crop, tv_tensors.KeyPoints)
def resized_crop_keypoints(keypoints: Tensor, top: int, left: int, height: int, width: int, size: Any) -> tuple[Tensor, tuple[int, int]]:
    points, canvas_size = crop_keypoints(keypoints, top, left, height, width)
    return resize_keypoints(points, size, canvas_size)


@register_described(resized_crop, tv_tensors.BoundingBoxes)
def resized_crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    boxes, canvas_size = crop_bounding_boxes(bounding_boxes, format, top, left, height, width, clamping_mode)
    return resize_bounding_boxes(boxes, canvas_size, size, format=format, clamping_mode=clamping_mode)


# -- five and ten windows ----------------------------------------------------------------------------------------------------------------
@functional_of(*IMAGES, PIL.Image.Image)
def five_crop(image: Tensor, size: Any) -> tuple[Tensor, ...]:
    """Windows of this size in the four corners and in the middle.

    Args:
        inpt: an image or video ``(..., C, H, W)``, a mask, boxes or points.
        size: ``(height, width)`` of the result, or one number for both.
    Returns:
        Five images of the same kind.
    Raises:
        ValueError: a size that is not two numbers, or larger than the image.
    Source: torchvision.transforms.v2.functional.five_crop.
    Example:
        >>> [tuple(window.shape) for window in five_crop(torch.ones(3, 8, 8), [4, 6])]
        [(3, 4, 6), (3, 4, 6), (3, 4, 6), (3, 4, 6), (3, 4, 6)]
    """
    if isinstance(image, Tensor):
        image_size, cut, cut_middle = list(image.shape[-2:]), crop.kernel, center_crop.kernel
    else:
        image_size, cut, cut_middle = pil.size(image), pil.crop, center_crop_image_pil
    sizes = two_sizes(size)
    if len(sizes) != 2:
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    bottom, right = [there - wanted for wanted, there in zip(sizes, image_size)]
    if bottom < 0 or right < 0:
        raise ValueError(f"Requested crop size {size} is bigger than input size {tuple(image_size)}")
    corners = [(0, 0), (0, right), (bottom, 0), (bottom, right)]
    return (*[cut(image, top, left, *sizes) for top, left in corners], cut_middle(image, sizes))


@functional_of(*IMAGES, PIL.Image.Image)
def ten_crop(image: Tensor, size: Any, vertical_flip: bool = False) -> tuple[Tensor, ...]:
    """``five_crop`` of the image and of its mirror image.

    Args:
        inpt: an image or video ``(..., C, H, W)``, a mask, boxes or points.
        size: ``(height, width)`` of the result, or one number for both.
        vertical_flip: mirror top and bottom, not left and right.
    Returns:
        Ten images of the same kind.
    Source: torchvision.transforms.v2.functional.ten_crop.
    Example:
        >>> len(ten_crop(torch.ones(3, 8, 8), [4, 6]))
        10
    """
    mirrored = (vflip if vertical_flip else hflip)(image)
    return five_crop(image, size) + five_crop(mirrored, size)
