"""Sizes of what is transformed, and formats of bounding boxes.

Formats of boxes along the axes are converted by way of ``XYXY``, those of turned boxes by way of ``XYWHR``. Whole numbers are rounded as
PyTorch's functions round them: halves of widths downwards, other results towards zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from .... import ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ... import tv_tensors
from ...tv_tensors import BoundingBoxFormat, is_rotated_bounding_format
from . import pil
from .registry import IMAGES, functional_of, is_pure_tensor, plain, register
from .rotated import clamp_rotated


# -- sizes ---------------------------------------------------------------------------------------------------------------------------
@functional_of(*IMAGES, wrap=False, pillow=pil.dimensions)
def get_dimensions(image: Tensor) -> list[int]:
    """Channels, height and width.

    Args:
        inpt: an image or video ``(..., C, H, W)``, a mask, boxes or points.
    Returns:
        Three numbers.
    Source: torchvision.transforms.v2.functional.get_dimensions.
    Example:
        >>> get_dimensions(torch.ones(3, 4, 5))
        [3, 4, 5]
    """
    dimensions = list(image.shape[-3:])
    if len(dimensions) < 2:
        raise TypeError(f"Input tensor should have at least two dimensions, but got {len(dimensions)}")
    return dimensions if len(dimensions) == 3 else [1, *dimensions]


@functional_of(*IMAGES, wrap=False, pillow=pil.num_channels)
def get_num_channels(image: Tensor) -> int:
    """Number of channels.

    Args:
        inpt: an image or video ``(..., C, H, W)``, a mask, boxes or points.
    Returns:
        A number.
    Source: torchvision.transforms.v2.functional.get_num_channels.
    Example:
        >>> get_num_channels(torch.ones(3, 4, 5))
        3
    """
    return get_dimensions.kernel(image)[0]


get_image_num_channels = get_num_channels


@functional_of(*IMAGES, tv_tensors.Mask, wrap=False, pillow=pil.size)
def get_size(image: Tensor) -> list[int]:
    """Height and width; those of the image for boxes and points.

    Args:
        inpt: an image or video ``(..., C, H, W)``, a mask, boxes or points.
    Returns:
        Two numbers.
    Source: torchvision.transforms.v2.functional.get_size.
    Example:
        >>> get_size(torch.ones(3, 4, 5))
        [4, 5]
    """
    size = list(image.shape[-2:])
    if len(size) != 2:
        raise TypeError(f"Input tensor should have at least two dimensions, but got {len(size)}")
    return size


get_size_mask = get_size.kernel


@register(get_size, tv_tensors.BoundingBoxes, tv_tensors.KeyPoints, wrap=False)
def get_size_bounding_boxes(bounding_box: Any) -> list[int]:
    """Height and width of the image in which boxes or points lie.

    Args:
        bounding_box: ``BoundingBoxes`` or ``KeyPoints``.
    Returns:
        Two numbers.
    Source: torchvision.transforms.v2.functional.get_size_bounding_boxes.
    Example:
        >>> get_size_bounding_boxes(tv_tensors.KeyPoints([[1, 2]], canvas_size=(6, 8)))
        [6, 8]
    """
    return list(bounding_box.canvas_size)


get_size_keypoints = get_size_bounding_boxes


@functional_of(Tensor, tv_tensors.Video, wrap=False)
def get_num_frames(video: Tensor) -> int:
    """Number of frames of a video.

    Args:
        inpt: a video ``(..., T, C, H, W)``.
    Returns:
        A number.
    Source: torchvision.transforms.v2.functional.get_num_frames.
    Example:
        >>> get_num_frames(torch.ones(7, 3, 4, 5))
        7
    """
    return video.shape[-4]


# -- formats of boxes --------------------------------------------------------------------------------------------------------------------
def _halved(values: Tensor) -> Tensor:
    return values.div(2, rounding_mode=None if values.is_floating_point() else "floor")


def _corner_and_size(boxes: Tensor) -> tuple[Tensor, Tensor]:
    return boxes[..., :2], boxes[..., 2:]


def _in_floating_point(boxes: Tensor) -> Tensor:
    return boxes if boxes.is_floating_point() else boxes.float()


def _xywh_to_xyxy(boxes: Tensor) -> Tensor:
    corner, size = _corner_and_size(boxes)
    return ops.cat([corner, corner + size], -1)


def _xyxy_to_xywh(boxes: Tensor) -> Tensor:
    corner, end = _corner_and_size(boxes)
    return ops.cat([corner, end - corner], -1)


def _xywh_to_cxcywh(boxes: Tensor) -> Tensor:
    corner, size = _corner_and_size(boxes)
    return ops.cat([corner + _halved(size), size], -1)


def _cxcywh_to_xyxy(boxes: Tensor) -> Tensor:
    centre, size = _corner_and_size(_in_floating_point(boxes))
    corner = centre - size / 2
    return ops.cat([corner, corner + size], -1).to(boxes.dtype)


def _cxcywh_to_xywh(boxes: Tensor) -> Tensor:
    if boxes.is_floating_point():
        centre, size = _corner_and_size(boxes)
        return ops.cat([centre - size / 2, size], -1)
    return _xyxy_to_xywh(_cxcywh_to_xyxy(boxes))


def _xyxy_to_cxcywh(boxes: Tensor) -> Tensor:
    corner, end = _corner_and_size(boxes)
    size = end - corner
    return ops.cat([_halved(corner * 2 + size), size], -1)


def _turned(boxes: Tensor) -> tuple[Tensor, ...]:
    """x, y, width, height, angle in degrees, and the cosine and sine of the angle."""
    x, y, width, height, angle = boxes.unbind(-1)
    radians = angle.mul(math.pi).div(180.0)
    return x, y, width, height, angle, radians.cos(), radians.sin()


def _with_moved_point(boxes: Tensor, share: float) -> Tensor:
    """Turned boxes whose point goes by this share of the width along the box, and by that of the height across it."""
    x, y, width, height, angle, cos, sin = _turned(boxes)
    along, across = share * width, share * height
    return ops.stack([x + along * cos + across * sin, y - along * sin + across * cos, width, height, angle], -1)


def _xywhr_to_corners(boxes: Tensor) -> Tensor:
    x, y, width, height, _, cos, sin = _turned(boxes)
    along_x, along_y = width * cos, width * sin
    across_x, across_y = height * sin, height * cos
    corners = [x, y, x + along_x, y - along_y, x + (along_x + across_x), y - (along_y - across_y), x + across_x, y + across_y]
    return ops.stack(corners, -1)


def _corners_to_xywhr(boxes: Tensor) -> Tensor:
    dtype = boxes.dtype
    x1, y1, x2, y2, x3, y3, _, _ = (boxes if dtype in (dtypes.float32, dtypes.float64) else boxes.float()).unbind(-1)
    angle = ops.atan2(y1 - y2, x2 - x1).div_(math.pi).mul_(180.0)
    width = ((x2 - x1).pow(2) + (y2 - y1).pow(2)).sqrt()
    height = ((x3 - x2).pow(2) + (y3 - y2).pow(2)).sqrt()
    return ops.stack([x1, y1, width, height, angle], -1).to(dtype)


_F: Any = BoundingBoxFormat
_DIRECTLY: dict[tuple[Any, Any], Callable[[Tensor], Tensor]] = {
    (_F.XYWH, _F.XYXY): _xywh_to_xyxy,
    (_F.XYXY, _F.XYWH): _xyxy_to_xywh,
    (_F.XYWH, _F.CXCYWH): _xywh_to_cxcywh,
    (_F.CXCYWH, _F.XYWH): _cxcywh_to_xywh,
    (_F.CXCYWH, _F.XYXY): _cxcywh_to_xyxy,
    (_F.XYXY, _F.CXCYWH): _xyxy_to_cxcywh,
    (_F.CXCYWHR, _F.XYWHR): partial(_with_moved_point, share=-0.5),
    (_F.XYWHR, _F.CXCYWHR): partial(_with_moved_point, share=0.5),
    (_F.XYWHR, _F.XYXYXYXY): _xywhr_to_corners,
    (_F.XYXYXYXY, _F.XYWHR): _corners_to_xywhr,
}


def converted(boxes: Tensor, old_format: BoundingBoxFormat, new_format: BoundingBoxFormat) -> Tensor:
    """Plain ``boxes`` in another format; themselves if it is the same."""
    if old_format == new_format:
        return boxes
    if is_rotated_bounding_format(old_format) != is_rotated_bounding_format(new_format):
        raise ValueError("Cannot convert between rotated and unrotated bounding boxes.")
    directly = _DIRECTLY.get((old_format, new_format))
    if directly is not None:
        return directly(boxes)
    between = _F.XYWHR if is_rotated_bounding_format(old_format) else _F.XYXY
    return _DIRECTLY[between, new_format](_DIRECTLY[old_format, between](boxes))


def format_of(name: Any) -> Any:
    return _F[name.upper()] if isinstance(name, str) else name


def convert_bounding_box_format(inpt: Any, old_format: Any = None, new_format: Any = None, inplace: bool = False) -> Any:
    """Boxes in another format.

    Args:
        inpt: boxes; plain ones need ``old_format``, others must not have it.
        old_format, new_format: formats or their names.
        inplace: write the result over ``inpt``, where it has as many numbers.
    Returns:
        Boxes; plain ones for plain ones.
    Raises:
        TypeError: no ``new_format``, or something else than boxes.
        ValueError: ``old_format`` missing or superfluous, or turned boxes to others.
    Source: torchvision.transforms.v2.functional.convert_bounding_box_format.
    Example:
        >>> convert_bounding_box_format(torch.tensor([[0, 0, 4, 2]]), 'XYXY', 'CXCYWH')
        tensor([[2, 1, 4, 2]])
    """
    if new_format is None:
        raise TypeError("convert_bounding_box_format() missing 1 required argument: 'new_format'")
    old_format, new_format = format_of(old_format), format_of(new_format)
    if is_pure_tensor(inpt):
        if old_format is None:
            raise ValueError("For pure tensor inputs, `old_format` has to be passed.")
    elif not isinstance(inpt, tv_tensors.BoundingBoxes):
        raise TypeError(f"Input can either be a plain tensor or a bounding box tv_tensor, but got {type(inpt)} instead.")
    elif old_format is not None:
        raise ValueError("For bounding box tv_tensor inputs, `old_format` must not be passed.")
    boxes = plain(inpt)
    result = converted(boxes, inpt.format if old_format is None else old_format, new_format)
    if inplace and result is not boxes and result.shape == boxes.shape:
        result = boxes.copy_(result)
    return result if is_pure_tensor(inpt) else tv_tensors.wrap(result, like=inpt, format=new_format)


# -- boxes and points inside the image ---------------------------------------------------------------------------------------------------
def clamped(boxes: Tensor, format: BoundingBoxFormat, canvas_size: Any, clamping_mode: str | None) -> Tensor:
    """Plain ``boxes`` cut to the image."""
    if clamping_mode is None:
        return boxes.clone()
    format = format_of(format)
    height, width = canvas_size
    if is_rotated_bounding_format(format):
        corners = clamp_rotated(converted(boxes, format, _F.XYXYXYXY).reshape(-1, 8), canvas_size, clamping_mode)
        return converted(corners, _F.XYXYXYXY, format).reshape(boxes.shape)
    x1, y1, x2, y2 = converted(_in_floating_point(boxes), format, _F.XYXY).unbind(-1)
    corners = ops.stack([x1.clamp(0, width), y1.clamp(0, height), x2.clamp(0, width), y2.clamp(0, height)], -1)
    return converted(corners, _F.XYXY, format).to(boxes.dtype)


def clamp_bounding_boxes(inpt: Any, format: Any = None, canvas_size: Any = None, clamping_mode: str | None = "auto") -> Any:
    """Boxes cut to their image.

    Args:
        inpt: boxes; plain ones need all other arguments, others ``clamping_mode`` at most.
        format, canvas_size: of plain boxes.
        clamping_mode: ``'soft'``, ``'hard'``, None for not at all, or ``'auto'``, the boxes' own.
    Returns:
        Boxes; plain ones for plain ones.
    Raises:
        TypeError: something else than boxes.
        ValueError: arguments missing or superfluous, or another mode.
    Source: torchvision.transforms.v2.functional.clamp_bounding_boxes.
    Example:
        >>> clamp_bounding_boxes(torch.tensor([[-1, 2, 9, 4]]), 'XYXY', (6, 8), 'soft')
        tensor([[0, 2, 8, 4]])
    """
    if clamping_mode not in (None, "soft", "hard", "auto"):
        raise ValueError(f"clamping_mode must be soft, hard, auto or None, got {clamping_mode}")
    if is_pure_tensor(inpt):
        if format is None or canvas_size is None or clamping_mode == "auto":
            raise ValueError("For pure tensor inputs, `format`, `canvas_size` and `clamping_mode` have to be passed.")
        return clamped(inpt, format, canvas_size, clamping_mode)
    if not isinstance(inpt, tv_tensors.BoundingBoxes):
        raise TypeError(f"Input can either be a plain tensor or a bounding box tv_tensor, but got {type(inpt)} instead.")
    if format is not None or canvas_size is not None:
        raise ValueError("For bounding box tv_tensor inputs, `format` and `canvas_size` must not be passed.")
    mode = inpt.clamping_mode if clamping_mode == "auto" else clamping_mode
    return tv_tensors.wrap(clamped(plain(inpt), inpt.format, inpt.canvas_size, mode), like=inpt)


def clamp_keypoints(inpt: Any, canvas_size: Any = None) -> Any:
    """Points moved to the nearest pixel of their image.

    Args:
        inpt: points; plain ones need ``canvas_size``, others must not have it.
        canvas_size: height and width of the image.
    Returns:
        Points; plain ones for plain ones.
    Raises:
        TypeError: something else than points.
        ValueError: ``canvas_size`` missing for plain points, or given for others.
    Source: torchvision.transforms.v2.functional.clamp_keypoints.
    Example:
        >>> clamp_keypoints(torch.tensor([[9, -1]]), canvas_size=(6, 8))
        tensor([[7, 0]])
    """
    if is_pure_tensor(inpt):
        if canvas_size is None:
            raise ValueError("For pure tensor inputs, `canvas_size` has to be passed.")
    elif not isinstance(inpt, tv_tensors.KeyPoints):
        raise TypeError(f"Input can either be a plain tensor or a keypoints tv_tensor, but got {type(inpt)} instead.")
    elif canvas_size is not None:
        raise ValueError("For keypoints tv_tensor inputs, `canvas_size` must not be passed.")
    points = plain(inpt)
    height, width = inpt.canvas_size if canvas_size is None else canvas_size
    x, y = _in_floating_point(points).unbind(-1)
    inside = ops.stack([x.clamp(0, width - 1), y.clamp(0, height - 1)], -1).to(points.dtype)
    return inside if is_pure_tensor(inpt) else tv_tensors.wrap(inside, like=inpt)


# -- boxes and points worth keeping ------------------------------------------------------------------------------------------------------
def valid_boxes(boxes: Tensor, format: Any, canvas_size: Any, min_size: float = 1.0, min_area: float = 1.0) -> Tensor:
    """For each box whether it lies in the image and is large enough."""
    height, width = canvas_size
    rotated = is_rotated_bounding_format(format)
    corners = converted(plain(boxes), format, _F.XYXYXYXY if rotated else _F.XYXY)
    x, y = corners[..., 0::2], corners[..., 1::2]
    if rotated:
        # the third pair mixes x and y as PyTorch's function does
        widths = ((x[..., 0] - x[..., 1]).pow(2) + (y[..., 0] - y[..., 1]).pow(2)).sqrt()
        heights = ((y[..., 1] - y[..., 2]).pow(2) + (x[..., 2] - x[..., 3]).pow(2)).sqrt()
    else:
        widths, heights = x[..., 1] - x[..., 0], y[..., 1] - y[..., 0]
    large = (widths >= min_size) & (heights >= min_size) & (widths * heights >= min_area)
    return large & (corners >= 0).all(dim=-1) & (x <= width).all(dim=-1) & (y <= height).all(dim=-1)


def sanitize_bounding_boxes(
    bounding_boxes: Any, format: Any = None, canvas_size: Any = None, min_size: float = 1.0, min_area: float = 1.0
) -> tuple[Any, Tensor]:
    """The boxes that lie in their image and are not too small, and for each box whether it is one of them.

    Args:
        bounding_boxes: boxes; plain ones need ``format`` and ``canvas_size``, others must not have them.
        min_size: the least width and height.
        min_area: the least area.
    Returns:
        The boxes, and ``(N,)``, bool.
    Raises:
        ValueError: no boxes, or arguments missing or superfluous.
    Source: torchvision.transforms.v2.functional.sanitize_bounding_boxes.
    Example:
        >>> sanitize_bounding_boxes(torch.tensor([[0, 0, 4, 2], [0, 0, 9, 9]]), 'XYXY', (6, 8))
        (tensor([[0, 0, 4, 2]]), tensor([ True, False]))
    """
    if is_pure_tensor(bounding_boxes):
        if format is None or canvas_size is None:
            raise ValueError(
                "format and canvas_size cannot be None if bounding_boxes is a pure tensor. "
                f"Got format={format} and canvas_size={canvas_size}."
                "Set those to appropriate values or pass bounding_boxes as a tv_tensors.BoundingBoxes object."
            )
        valid = valid_boxes(bounding_boxes, format_of(format), canvas_size, min_size, min_area)
        return bounding_boxes[valid], valid
    if not isinstance(bounding_boxes, tv_tensors.BoundingBoxes):
        raise ValueError("bounding_boxes must be a tv_tensors.BoundingBoxes instance or a pure tensor.")
    if format is not None or canvas_size is not None:
        raise ValueError(
            "format and canvas_size must be None when bounding_boxes is a tv_tensors.BoundingBoxes instance. "
            f"Got format={format} and canvas_size={canvas_size}. Leave those to None or pass bounding_boxes as a pure tensor."
        )
    valid = valid_boxes(bounding_boxes, bounding_boxes.format, bounding_boxes.canvas_size, min_size, min_area)
    return tv_tensors.wrap(plain(bounding_boxes)[valid], like=bounding_boxes), valid


def valid_keypoints(points: Tensor, canvas_size: Any) -> Tensor:
    """For each row of points whether all of them lie in the image."""
    height, width = canvas_size
    x, y = plain(points).unbind(-1)
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    return inside.flatten(1).all(dim=1) if inside.ndim > 1 else inside


def sanitize_keypoints(key_points: Any, canvas_size: Any = None) -> tuple[Any, Tensor]:
    """The rows whose points all lie in their image, and for each row whether it is one of them.

    Args:
        key_points: points; plain ones need ``canvas_size``, others must not have it.
        canvas_size: height and width of the image.
    Returns:
        The rows, and ``(N,)``, bool.
    Raises:
        ValueError: no points, or ``canvas_size`` missing or superfluous.
    Source: torchvision.transforms.v2.functional.sanitize_keypoints.
    Example:
        >>> sanitize_keypoints(torch.tensor([[1, 2], [9, 9]]), (6, 8))
        (tensor([[1, 2]]), tensor([ True, False]))
    """
    if is_pure_tensor(key_points):
        if canvas_size is None:
            raise ValueError(
                "canvas_size cannot be None if key_points is a pure tensor. "
                "Set it to an appropriate value or pass key_points as a tv_tensors.KeyPoints object."
            )
        valid = valid_keypoints(key_points, canvas_size)
        return key_points[valid], valid
    if not isinstance(key_points, tv_tensors.KeyPoints):
        raise ValueError("key_points must be a tv_tensors.KeyPoints instance or a pure tensor.")
    if canvas_size is not None:
        raise ValueError(
            f"canvas_size must be None when key_points is a tv_tensors.KeyPoints instance. Got canvas_size={canvas_size}. "
            "Leave it to None or pass key_points as a pure tensor."
        )
    valid = valid_keypoints(key_points, key_points.canvas_size)
    return tv_tensors.wrap(plain(key_points)[valid], like=key_points), valid
