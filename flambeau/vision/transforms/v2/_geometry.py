"""Transforms that move pixels, and boxes, points and masks with them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import PIL.Image

from .... import ops
from ....core.tensor import Tensor
from ... import tv_tensors
from ..._signatures import taking
from .. import transforms as classic
from .._kernels import arguments, draws, meta, warps, windows
from .._kernels.pil import check_padding_mode
from .._kernels.registry import is_pure_tensor
from ._transform import RandomApplyTransform, Transform
from ._utils import check_padding, fill_for, get_bounding_boxes, has_all, has_any, query_size, setup_fill, setup_number_or_seq

__all__ = ["CenterCrop", "ElasticTransform", "FiveCrop", "Pad", "RandomAffine", "RandomCrop", "RandomHorizontalFlip", "RandomIoUCrop"]
__all__ += ["RandomPerspective", "RandomResize", "RandomResizedCrop", "RandomRotation", "RandomShortestSize", "RandomVerticalFlip"]
__all__ += ["RandomZoomOut", "Resize", "ScaleJitter", "TenCrop"]

_TWO_SIZES = "Please provide only two dimensions (h, w) for size."


class RandomHorizontalFlip(RandomApplyTransform, functional=windows.horizontal_flip):
    """Left and right exchanged with probability ``p``.

    Args:
        p: the probability.
    Raises:
        ValueError: a probability outside of 0 to 1.
    Source: torchvision.transforms.v2.RandomHorizontalFlip.
    Example:
        >>> RandomHorizontalFlip(1.0)(torch.tensor([[[1, 2]]]))
        tensor([[[2, 1]]])
    """


class RandomVerticalFlip(RandomApplyTransform, functional=windows.vertical_flip):
    """Top and bottom exchanged with probability ``p``.

    Args:
        p: the probability.
    Raises:
        ValueError: a probability outside of 0 to 1.
    Source: torchvision.transforms.v2.RandomVerticalFlip.
    Example:
        >>> RandomVerticalFlip(1.0)(torch.tensor([[[1], [2]]]))
        tensor([[[2],
                 [1]]])
    """


# -- sizes -------------------------------------------------------------------------------------------------------------------------------
class _Resizing(Transform):
    """The base of what resizes to a size that is drawn, or the same each time."""

    interpolation: Any
    antialias: bool | None

    def _resized(self, inpt: Any, size: Any, max_size: int | None = None) -> Any:
        options = {"interpolation": self.interpolation, "max_size": max_size, "antialias": self.antialias}
        return self._call_kernel(windows.resize, inpt, size=size, **options)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._resized(inpt, params["size"])


class Resize(_Resizing):
    """Inputs at another size.

    Args:
        size: ``(height, width)``, or the length of the shorter side; None with ``max_size``, which is the longer side's length then.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        max_size: the most that the longer side gets.
        antialias: widen the filter when the image shrinks; always for PIL images.
    Raises:
        ValueError: another size.
    Source: torchvision.transforms.v2.Resize.
    Example:
        >>> boxes = tv_tensors.BoundingBoxes([[0, 0, 4, 2]], format='XYXY', canvas_size=(8, 6))
        >>> Resize((4, 3))(boxes).canvas_size
        (4, 3)
    """

    def __init__(self, size: Any, interpolation: Any = "bilinear", max_size: int | None = None, antialias: bool | None = True):
        super().__init__()
        if size is None:
            if not isinstance(max_size, int):
                raise ValueError(f"max_size must be an integer when size is None, but got {max_size} instead.")
        elif not isinstance(size, int) and not (isinstance(size, Sequence) and len(size) in (1, 2)):
            raise ValueError(f"size can be an integer, a sequence of one or two integers, or None, but got {size} instead.")
        self.size = size if size is None else [size] if isinstance(size, int) else list(size)
        self.interpolation, self.max_size, self.antialias = interpolation, max_size, antialias

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._resized(inpt, self.size, self.max_size)


class ScaleJitter(_Resizing):
    """Resized to fit ``target_size``, times a random factor.

    Args:
        target_size: ``(height, width)``.
        scale_range: bounds of the factor.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        antialias: widen the filter when images shrink.
    Source: torchvision.transforms.v2.ScaleJitter. Ghiasi et al. 2020, "Simple Copy-Paste".
    Example:
        >>> ScaleJitter((16, 16), scale_range=(1.0, 1.0))(torch.ones(3, 8, 6)).shape
        torch.Size([3, 16, 12])
    """

    def __init__(self, target_size: Any, scale_range: Any = (0.1, 2.0), interpolation: Any = "bilinear", antialias: bool | None = True):
        super().__init__()
        self.target_size, self.scale_range = target_size, scale_range
        self.interpolation, self.antialias = interpolation, antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        low, high = self.scale_range
        ratio = min(self.target_size[1] / height, self.target_size[0] / width) * (low + ops.rand(1) * (high - low))
        return {"size": (int(height * ratio), int(width * ratio))}


class RandomShortestSize(_Resizing):
    """Resized such that the shorter side has one of the lengths ``min_size``, and the longer at most ``max_size``.

    Args:
        min_size: a length or several.
        max_size: the most that the longer side gets.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        antialias: widen the filter when images shrink.
    Source: torchvision.transforms.v2.RandomShortestSize.
    Example:
        >>> RandomShortestSize(3)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 4, 3])
    """

    def __init__(self, min_size: Any, max_size: int | None = None, interpolation: Any = "bilinear", antialias: bool | None = True):
        super().__init__()
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size, self.interpolation, self.antialias = max_size, interpolation, antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        ratio = self.min_size[int(ops.randint(len(self.min_size), ()))] / min(height, width)
        if self.max_size is not None:
            ratio = min(ratio, self.max_size / max(height, width))
        return {"size": (int(height * ratio), int(width * ratio))}


class RandomResize(_Resizing):
    """Resized such that the shorter side has a length from ``min_size`` to below ``max_size``.

    Args:
        min_size, max_size: the least length, and that which it stays below.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        antialias: widen the filter when images shrink.
    Source: torchvision.transforms.v2.RandomResize.
    Example:
        >>> RandomResize(3, 4)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 4, 3])
    """

    def __init__(self, min_size: int, max_size: int, interpolation: Any = "bilinear", antialias: bool | None = True):
        super().__init__()
        self.min_size, self.max_size = min_size, max_size
        self.interpolation, self.antialias = interpolation, antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"size": [int(ops.randint(self.min_size, self.max_size, ()))]}


# -- windows -----------------------------------------------------------------------------------------------------------------------------
class CenterCrop(Transform):
    """The window of this size in the middle; zeros around smaller images.

    Args:
        size: ``(height, width)``, or one number for both.
    Source: torchvision.transforms.v2.CenterCrop.
    Example:
        >>> boxes = tv_tensors.BoundingBoxes([[0, 0, 4, 2]], format='XYXY', canvas_size=(8, 6))
        >>> CenterCrop(4)(boxes).tolist()
        [[0, 0, 3, 0]]
    """

    def __init__(self, size: Any):
        super().__init__()
        self.size = arguments.setup_size(size, _TWO_SIZES)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(windows.center_crop, inpt, output_size=self.size)


class RandomResizedCrop(Transform, functional=windows.resized_crop, passing=("size", "interpolation", "antialias")):
    """A window of random area and shape, resized.

    Args:
        size: ``(height, width)`` of the result, or one number for both.
        scale: bounds of the window's share of the area.
        ratio: bounds of its width divided by its height.
        interpolation, antialias: as for :class:`Resize`.
    Raises:
        TypeError: bounds that are no pair.
    Source: torchvision.transforms.v2.RandomResizedCrop.
    Example:
        >>> RandomResizedCrop(4)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 4, 4])
    """

    @taking(classic.RandomResizedCrop.__init__, interpolation="bilinear")
    def __init__(self, size: Any, scale: Any, ratio: Any, interpolation: Any, antialias: bool | None):
        super().__init__()
        self.size = arguments.setup_size(size, _TWO_SIZES)
        for name, bounds in (("Scale", scale), ("Ratio", ratio)):
            if not isinstance(bounds, Sequence) or len(bounds) != 2:
                raise TypeError(f"{name} should be a sequence of two floats.")
        arguments.check_bounds(scale, ratio)
        self.scale, self.ratio = scale, ratio
        self.interpolation, self.antialias = interpolation, antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        window = draws.resized_window(*query_size(flat_inputs), self.scale, self.ratio)
        return dict(zip(("top", "left", "height", "width"), window))


class PassingBoxes(Transform):
    """The base of what leaves boxes, points and masks as they are, and warns of it."""

    def _call_kernel(self, functional: Any, inpt: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(inpt, (tv_tensors.BoundingBoxes, tv_tensors.KeyPoints, tv_tensors.Mask)):
            warnings.warn(
                f"{type(self).__name__}() is currently passing through inputs of type tv_tensors.{type(inpt).__name__}. "
                "This will likely change in the future.",
                stacklevel=2,
            )
        return super()._call_kernel(functional, inpt, *args, **kwargs)


class _Crops(PassingBoxes):
    def check_inputs(self, flat_inputs: list[Any]) -> None:
        if has_any(flat_inputs, tv_tensors.BoundingBoxes, tv_tensors.Mask):
            raise TypeError(f"BoundingBoxes'es and Mask's are not supported by {type(self).__name__}()")


class FiveCrop(_Crops, functional=windows.five_crop, passing=("size",)):
    """A tuple of the windows in the four corners and in the middle.

    Args:
        size: ``(height, width)``, or one number for both.
    Source: torchvision.transforms.v2.FiveCrop.
    Example:
        >>> len(FiveCrop(4)(torch.ones(3, 8, 6)))
        5
    """

    def __init__(self, size: Any):
        super().__init__()
        self.size = arguments.setup_size(size, _TWO_SIZES)


class TenCrop(_Crops, functional=windows.ten_crop, passing=("size", "vertical_flip")):
    """A tuple of :class:`FiveCrop` of the image and of its mirror image.

    Args:
        size: ``(height, width)``, or one number for both.
        vertical_flip: mirror top and bottom, not left and right.
    Source: torchvision.transforms.v2.TenCrop.
    Example:
        >>> len(TenCrop(4)(torch.ones(3, 8, 6)))
        10
    """

    def __init__(self, size: Any, vertical_flip: bool = False):
        super().__init__()
        self.size = arguments.setup_size(size, _TWO_SIZES)
        self.vertical_flip = vertical_flip


class Pad(Transform, functional=windows.pad, passing=("padding", "fill", "padding_mode")):
    """A border around inputs; ``functional.pad`` has the arguments, and ``fill`` may be a dictionary from types of input.

    Args:
        padding: the border's width; ``(left and right, top and bottom)``, or ``(left, top, right, bottom)``.
        fill: what comes in from outside.
        padding_mode: ``'constant'``, ``'edge'``, ``'reflect'`` or ``'symmetric'``.
    Source: torchvision.transforms.v2.Pad.
    Example:
        >>> boxes = tv_tensors.BoundingBoxes([[0, 0, 4, 2]], format='XYXY', canvas_size=(8, 6))
        >>> padded = Pad(1)(boxes)
        >>> padded.tolist(), padded.canvas_size
        ([[1, 1, 5, 3]], (10, 8))
    """

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant"):
        super().__init__()
        check_padding(padding)
        check_padding_mode(padding_mode)
        self.padding = padding if isinstance(padding, int) else list(padding)
        self.fill = fill
        self._fill = setup_fill(fill)
        self.padding_mode = padding_mode


class RandomZoomOut(RandomApplyTransform, functional=windows.pad, passing=("fill",)):
    """With probability ``p`` at a random place of a canvas that is larger by a factor within ``side_range``.

    Args:
        fill: what comes in from outside.
        side_range: bounds of the factor.
        p: the probability.
    Raises:
        ValueError: bounds below 1, or falling.
    Source: torchvision.transforms.v2.RandomZoomOut. Liu et al. 2016, "SSD".
    Example:
        >>> RandomZoomOut(side_range=(2.0, 2.0), p=1.0)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 16, 12])
    """

    def __init__(self, fill: Any = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5):
        super().__init__(p=p)
        self.fill = fill
        self._fill = setup_fill(fill)
        arguments.check_sequence(side_range, "side_range", (2,))
        self.side_range = side_range
        if side_range[0] < 1.0 or side_range[0] > side_range[1]:
            raise ValueError(f"Invalid side range provided {side_range}.")

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        low, high = self.side_range
        factor = low + ops.rand(1) * (high - low)
        more_across, more_down = int(width * factor) - width, int(height * factor) - height
        place = ops.rand(2)
        left, top = int(more_across * place[0]), int(more_down * place[1])
        return {"padding": [left, top, more_across - left, more_down - top]}


class RandomCrop(Transform):
    """A window of this size at a random place.

    Args:
        size: ``(height, width)``, or one number for both.
        padding: a border that is put around inputs first.
        pad_if_needed: put one around inputs that are too small.
        fill, padding_mode: what it consists of, as for :class:`Pad`.
    Raises:
        ValueError: when called with inputs that are too small.
    Source: torchvision.transforms.v2.RandomCrop.
    Example:
        >>> RandomCrop(4, padding=1)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 4, 4])
    """

    def __init__(self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: Any = 0, padding_mode: str = "constant"):
        super().__init__()
        self.size = arguments.setup_size(size, _TWO_SIZES)
        if padding is not None:
            check_padding(padding)
        if pad_if_needed or padding is not None:
            check_padding_mode(padding_mode)
        self.padding = windows.padding_sides(padding) if padding else None
        self.pad_if_needed, self.fill = pad_if_needed, fill
        self._fill = setup_fill(fill)
        self.padding_mode = padding_mode

    def _sides(self, size: tuple[int, int]) -> list[int]:
        """Left, right, top and bottom of all padding."""
        left, right, top, bottom = self.padding or [0, 0, 0, 0]
        if self.pad_if_needed:
            down, across = self.size[0] - (size[0] + top + bottom), self.size[1] - (size[1] + left + right)
            top, bottom = top + max(down, 0), bottom + max(down, 0)
            left, right = left + max(across, 0), right + max(across, 0)
        return [left, right, top, bottom]

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        size = query_size(flat_inputs)
        left, right, top, bottom = self._sides(size)
        height, width = size[0] + top + bottom, size[1] + left + right
        more_down, more_across = height - self.size[0], width - self.size[1]
        if more_down < 0 or more_across < 0:
            padded = "padded " if self.padding is not None else ""
            raise ValueError(f"Required crop size {tuple(self.size)} is larger than {padded}input image size {(height, width)}.")
        first_row = draws.whole(0, more_down + 1) if more_down else 0
        first_column = draws.whole(0, more_across + 1) if more_across else 0
        return {
            "needs_crop": bool(more_down or more_across),
            "top": first_row,
            "left": first_column,
            "height": self.size[0],
            "width": self.size[1],
            "needs_pad": any((left, right, top, bottom)),
            "padding": [left, top, right, bottom],
        }

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if params["needs_pad"]:
            fill = fill_for(self._fill, type(inpt))
            inpt = self._call_kernel(windows.pad, inpt, padding=params["padding"], fill=fill, padding_mode=self.padding_mode)
        if params["needs_crop"]:
            window = {name: params[name] for name in ("top", "left", "height", "width")}
            inpt = self._call_kernel(windows.crop, inpt, **window)
        return inpt


class RandomIoUCrop(Transform):
    """A window with at least a drawn overlap with one of the boxes, and with the middle of one of them.

    Boxes whose middle lies outside become empty; :class:`SanitizeBoundingBoxes` removes them.

    Args:
        min_scale, max_scale: bounds of the window's share of the height and of the width.
        min_aspect_ratio, max_aspect_ratio: bounds of its width divided by its height.
        sampler_options: the overlaps to choose from; 1 or more keeps the whole image.
        trials: windows that are tried before another overlap is drawn.
    Source: torchvision.transforms.v2.RandomIoUCrop. Liu et al. 2016, "SSD".
    Example:
        >>> boxes = tv_tensors.BoundingBoxes([[0, 0, 4, 2]], format='XYXY', canvas_size=(8, 6))
        >>> image, boxes = RandomIoUCrop()(torch.ones(3, 8, 6), boxes)
        >>> boxes.canvas_size == tuple(image.shape[-2:])
        True
    """

    def __init__(
        self,
        min_scale: float = 0.3,
        max_scale: float = 1.0,
        min_aspect_ratio: float = 0.5,
        max_aspect_ratio: float = 2.0,
        sampler_options: list[float] | None = None,
        trials: int = 40,
    ):
        super().__init__()
        self.min_scale, self.max_scale = min_scale, max_scale
        self.min_aspect_ratio, self.max_aspect_ratio = min_aspect_ratio, max_aspect_ratio
        self.options = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0] if sampler_options is None else sampler_options
        self.trials = trials

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        if not (has_all(flat_inputs, tv_tensors.BoundingBoxes) and has_any(flat_inputs, PIL.Image.Image, tv_tensors.Image, is_pure_tensor)):
            raise TypeError(
                f"{type(self).__name__}() requires input sample to contain tensor or PIL images "
                "and bounding boxes. Sample can also contain masks."
            )

    def _window(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        """Top, left, height and width; None for one of another shape."""
        wide, high = self.min_scale + (self.max_scale - self.min_scale) * ops.rand(2)
        new_width, new_height = int(width * wide), int(height * high)
        if not self.min_aspect_ratio <= new_width / new_height <= self.max_aspect_ratio:
            return None
        across, down = ops.rand(2)
        left, top = int((width - new_width) * across), int((height - new_height) * down)
        return (top, left, new_height, new_width) if new_width and new_height else None

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        from ...ops.boxes import box_iou  # late: other transforms need none of these operations

        height, width = query_size(flat_inputs)
        described = get_bounding_boxes(flat_inputs)
        boxes = meta.converted(described.as_subclass(Tensor), described.format, tv_tensors.BoundingBoxFormat.XYXY)
        while True:
            overlap = self.options[draws.whole(0, len(self.options))]
            if overlap >= 1.0:
                return {}
            for _ in range(self.trials):
                window = self._window(height, width)
                if window is None:
                    continue
                top, left, window_height, window_width = window
                corners = boxes.new_tensor([[left, top, left + window_width, top + window_height]])
                is_inside = _has_middle_inside(boxes, window)
                if is_inside.any() and box_iou(boxes[is_inside], corners).max() >= overlap:
                    return {**dict(zip(("top", "left", "height", "width"), window)), "is_within_crop_area": is_inside}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if not params:
            return inpt
        window = {name: params[name] for name in ("top", "left", "height", "width")}
        output = self._call_kernel(windows.crop, inpt, **window)
        if isinstance(output, tv_tensors.BoundingBoxes):
            output[~params["is_within_crop_area"]] = 0
        return output


def _has_middle_inside(boxes: Tensor, window: tuple[int, int, int, int]) -> Tensor:
    top, left, height, width = window
    x, y = 0.5 * (boxes[:, 0] + boxes[:, 2]), 0.5 * (boxes[:, 1] + boxes[:, 3])
    return (left < x) & (x < left + width) & (top < y) & (y < top + height)


# -- maps --------------------------------------------------------------------------------------------------------------------------------
class RandomRotation(Transform, functional=warps.rotate, passing=("interpolation", "expand", "center", "fill")):
    """Inputs turned by a random angle; the arguments are those of the classic form, and ``fill`` may be a dictionary from types of input.

    Args:
        degrees: bounds of the angle, or its largest distance from 0.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        expand: make images large enough to hold all of the result.
        center: ``(x, y)`` of the fixed point; the middle unless told.
        fill: what comes in from outside.
    Source: torchvision.transforms.v2.RandomRotation.
    Example:
        >>> RandomRotation(10)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, degrees: Any, interpolation: Any = "nearest", expand: bool = False, center: Any = None, fill: Any = 0):
        super().__init__()
        self.degrees = arguments.setup_angle(degrees, "degrees")
        self.interpolation, self.expand, self.fill = interpolation, expand, fill
        self._fill = setup_fill(fill)
        if center is not None:
            arguments.check_sequence(center, "center", (2,))
        self.center = center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"angle": draws.uniform(self.degrees[0], self.degrees[1])}


class RandomAffine(Transform, functional=warps.affine, passing=("interpolation", "center", "fill")):
    """Inputs turned, moved, scaled and sheared; the arguments are those of the classic form.

    Args:
        degrees: bounds of the angle, or its largest distance from 0.
        translate: largest shares of the width and the height.
        scale: bounds of the factor.
        shear: bounds of angles in degrees.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        fill: what comes in from outside.
        center: ``(x, y)`` of the fixed point; the middle unless told.
    Source: torchvision.transforms.v2.RandomAffine.
    Example:
        >>> RandomAffine(10, translate=(0.1, 0.1))(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    @taking(classic.RandomAffine.__init__, interpolation="nearest")
    def __init__(self, degrees: Any, translate: Any, scale: Any, shear: Any, interpolation: Any, fill: Any, center: Any):
        super().__init__()
        self.degrees, angles_of_shear = arguments.setup_affine(degrees, translate, scale, shear, center)
        self.translate, self.scale = translate, scale
        self.shear = angles_of_shear
        self.interpolation, self.fill = interpolation, fill
        self._fill = setup_fill(fill)
        self.center = center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        drawn = draws.affine(self.degrees, self.translate, self.scale, self.shear, *query_size(flat_inputs))
        return dict(zip(("angle", "translate", "scale", "shear"), drawn))


class RandomPerspective(RandomApplyTransform):
    """With probability ``p`` inputs whose corners are moved inwards by up to ``distortion_scale`` halves of the size.

    Args:
        distortion_scale: from 0 to 1.
        p: the probability.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        fill: what comes in from outside.
    Raises:
        ValueError: ``distortion_scale`` out of range.
    Source: torchvision.transforms.v2.RandomPerspective.
    Example:
        >>> RandomPerspective(p=1.0)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, distortion_scale: float = 0.5, p: float = 0.5, interpolation: Any = "bilinear", fill: Any = 0):
        super().__init__(p=p)
        if not 0 <= distortion_scale <= 1:
            raise ValueError("Argument distortion_scale value should be between 0 and 1")
        self.distortion_scale, self.interpolation, self.fill = distortion_scale, interpolation, fill
        self._fill = setup_fill(fill)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        return {"coefficients": warps.perspective_coefficients(*draws.perspective(width, height, self.distortion_scale))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "fill": fill_for(self._fill, type(inpt))}
        return self._call_kernel(warps.perspective, inpt, startpoints=None, endpoints=None, **params, **options)


class ElasticTransform(Transform, functional=warps.elastic, passing=("interpolation", "fill")):
    """Inputs with each pixel displaced at random, and smoothly.

    Args:
        alpha: the strength of displacements, in pixels.
        sigma: the deviation of the Gaussian that smooths them, in pixels.
        interpolation, fill: as for ``functional.elastic``.
    Source: torchvision.transforms.v2.ElasticTransform. Simard et al. 2003.
    Example:
        >>> ElasticTransform(alpha=10.0)(torch.ones(3, 32, 32)).shape
        torch.Size([3, 32, 32])
    """

    def __init__(self, alpha: Any = 50.0, sigma: Any = 5.0, interpolation: Any = "bilinear", fill: Any = 0):
        super().__init__()
        self.alpha = setup_number_or_seq(alpha, "alpha")
        self.sigma = setup_number_or_seq(sigma, "sigma")
        self.interpolation, self.fill = interpolation, fill
        self._fill = setup_fill(fill)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"displacement": draws.displacement(self.alpha, self.sigma, *query_size(flat_inputs))}
