"""Images on a grid and in files; boxes, masks, key points and flows drawn. Source: torchvision.utils."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

from .. import ops
from ..autograd.grad_mode import no_grad
from ..core.dtype import bool_ as boolean, dtype as DType, float32, uint8
from ..core.tensor import Tensor
from ..ops.inspection import finfo

__all__ = ["draw_bounding_boxes", "draw_keypoints", "draw_segmentation_masks", "flow_to_image", "make_grid", "save_image"]

Color = str | tuple[int, int, int]

# From float to uint8, each grey level has the same share of [0, 1].
LEVELS = 256 - 1e-3
# The palette of objects without a color of their own: the i-th has i times these, modulo 255.
PALETTE = (2**25 - 1, 2**15 - 1, 2**21 - 1)
# Arcs of the color wheel: number of colors, channel that is 255, channel that rises or falls, whether it rises (Baker et al. 2007).
ARCS = ((15, 0, 1, True), (6, 1, 0, False), (4, 1, 2, True), (11, 2, 1, False), (13, 2, 0, True), (6, 0, 2, False))


# -- grids and files ------------------------------------------------------------------------------------------------------
@no_grad()
def make_grid(
    tensor: Tensor | list[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
    *,
    range: tuple[float, float] | None = None,
) -> Tensor:
    """One image with all images of a batch, ``nrow`` in a row.

    Args:
        tensor: ``(B, C, H, W)``, or a list of B images of one size; one image ``(C, H, W)`` or ``(H, W)`` is a batch of one. A single
            channel becomes three.
        nrow: images in a row.
        padding: pixels between images and around them.
        normalize: bring values to [0, 1].
        value_range: what becomes 0 and 1; what lies outside is clamped. The smallest and the largest value when None.
        scale_each: with ``normalize``, look for those in each image rather than in all.
        pad_value: value of the pixels between.
        range: older name of ``value_range``.
    Returns:
        ``(C, H', W')``; a batch of one comes back as it is, without padding.
    Raises:
        TypeError: no tensor, or a list with something else in it, or a ``value_range`` that is no tuple.
    Source: torchvision.utils.make_grid.
    Example:
        >>> make_grid(torch.ones(4, 3, 2, 2), nrow=2).shape
        torch.Size([3, 10, 10])
    """
    if range is not None:
        warnings.warn("The parameter 'range' is deprecated, please use 'value_range' instead.", stacklevel=3)
        value_range = range
    batch = _batch_of_images(tensor)
    if normalize:
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
        batch = batch.clone()
        for part in batch if scale_each else [batch]:
            low, high = value_range if value_range is not None else (float(part.min()), float(part.max()))
            part.clamp_(min=low, max=high).sub_(low).div_(max(high - low, 1e-5))
    count, channels, height, width = batch.shape
    if count == 1:
        return batch.squeeze(0)
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    height, width = height + padding, width + padding
    grid = batch.new_full((channels, height * rows + padding, width * columns + padding), pad_value)
    for place, image in enumerate(batch):
        top, left = place // columns * height + padding, place % columns * width + padding
        grid[:, top : top + height - padding, left : left + width - padding] = image
    return grid


def _batch_of_images(tensor: Tensor | list[Tensor]) -> Tensor:
    """``(B, C, H, W)`` with at least three channels."""
    if isinstance(tensor, list):
        for image in tensor:
            if not isinstance(image, Tensor):
                raise TypeError(f"tensor or list of tensors expected, got a list containing {type(image)}")
        batch: Tensor = ops.stack(tensor, dim=0)
    elif isinstance(tensor, Tensor):
        batch = tensor
    else:
        raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
    if batch.dim() == 2:
        batch = batch.unsqueeze(0)
    if batch.dim() == 3:
        batch = batch.unsqueeze(0)
    return ops.cat((batch, batch, batch), 1) if batch.dim() == 4 and batch.size(1) == 1 else batch


@no_grad()
def save_image(tensor: Tensor | list[Tensor], fp: str | os.PathLike[str] | IO[bytes], format: str | None = None, **kwargs: Any) -> None:
    """Write an image, or a batch as a grid, to a file. Values lie in [0, 1].

    Args:
        tensor: ``(C, H, W)``, ``(N, C, H, W)`` or a list, as for :func:`make_grid`.
        fp: name of the file, or an open one.
        format: of the file; by the name's ending when None.
        kwargs: further arguments of :func:`make_grid`.
    Raises:
        ValueError: a format that Pillow cannot infer or does not support.
    Source: torchvision.utils.save_image.
    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> save_image(torch.zeros(3, 4, 6), file, format="PNG")
        >>> Image.open(file).size
        (6, 4)
    """
    grid = make_grid(tensor, **kwargs)
    pixels = grid.mul(255).add_(0.5).clamp_(0, 255).permute(1, 2, 0).to("cpu", uint8).numpy()
    Image.fromarray(np.ascontiguousarray(pixels)).save(fp, format=format)


# -- drawing --------------------------------------------------------------------------------------------------------------
class _BoxDraw(ImageDraw.ImageDraw):
    """Draws boxes, upright ones from two corners and others from four."""

    def box(self, corners: list[int], fill: tuple[int, ...] | None, outline: tuple[int, ...], width: int) -> None:
        """Two corners: a rectangle. Four: a quadrilateral whose first side, the top of the object, is dashed."""
        if len(corners) <= 4:
            self.rectangle(corners, width=width, outline=outline, fill=fill)
            return
        points = [(corners[idx], corners[idx + 1]) for idx in range(0, len(corners), 2)]
        self.dashed(points[0], points[1], outline, width)
        for start, end in zip(points[1:], points[2:] + points[:1]):
            self.line((start, end), width=width, fill=outline)
        self.polygon(corners, fill=fill, outline=None, width=0)

    def dashed(self, start: tuple[float, float], end: tuple[float, float], fill: tuple[int, ...], width: int, dash: int = 5) -> None:
        """A line of dashes with spaces between them that are as long."""
        (x, y), left, draws = start, math.dist(start, end), True
        while left > 0:
            step = min(left, dash)
            angle = math.atan2(end[1] - y, end[0] - x)
            x_end, y_end = x + math.cos(angle) * step, y + math.sin(angle) * step
            if draws:
                self.line([(x, y), (x_end, y_end)], fill, width)
            x, y, left, draws = x_end, y_end, left - step, not draws


@no_grad()
def draw_bounding_boxes(
    image: Tensor,
    boxes: Tensor,
    labels: list[str] | None = None,
    colors: list[Color] | Color | None = None,
    fill: bool | None = False,
    width: int = 1,
    font: str | None = None,
    font_size: int | None = None,
    label_colors: list[Color] | Color | None = None,
    label_background_colors: list[Color] | Color | None = None,
    fill_labels: bool = False,
) -> Tensor:
    """An image with boxes drawn on it.

    Args:
        image: ``(3, H, W)`` or ``(1, H, W)``, uint8, or floating point in [0, 1].
        boxes: ``(N, 4)``, x and y of the upper left and the lower right corner, or ``(N, 8)``, x and y of four corners; in pixels.
        labels: a text for each box.
        colors: of the boxes: a list, or one for all; names that Pillow supports, ``"#FF00FF"``, or red, green and blue from 0 to 255.
        fill: fill the boxes, translucently.
        width: of the lines.
        font: file of a TrueType font; Pillow's own when None.
        font_size: in points, 10 when None; only with ``font``.
        label_colors: of the texts; the boxes' when None, or black with ``fill_labels``.
        label_background_colors: behind the texts, with ``fill_labels``; the boxes' when None.
        fill_labels: fill the ground behind the texts.
    Returns:
        ``(3, H, W)``, ``image``'s dtype. ``image`` itself, with a warning, where there is no box.
    Raises:
        TypeError: ``image`` is no tensor.
        ValueError: another dtype, shape or order of corners, too few colors, not one label for each box.
    Source: torchvision.utils.draw_bounding_boxes.
    Example:
        >>> image = torch.zeros(3, 8, 8, dtype=torch.uint8)
        >>> draw_bounding_boxes(image, torch.tensor([[1, 1, 5, 5]]), colors='white')[0, 1]
        tensor([  0, 255, 255, 255, 255, 255,   0,   0], dtype=torch.uint8)
    """
    if not isinstance(image, Tensor):
        raise TypeError(f"Tensor expected, got {type(image)}")
    _check_image(image)
    if image.size(0) not in (1, 3):
        raise ValueError("Only grayscale and RGB images are supported")
    corners = boxes.to("cpu").numpy()
    if corners.shape[-1] == 4 and bool((corners[:, :2] > corners[:, 2:]).any()):
        raise ValueError("Boxes need to be in (xmin, ymin, xmax, ymax) format. Use torchvision.ops.box_convert to convert them")
    count = corners.shape[0]
    if count == 0:
        warnings.warn("boxes doesn't contain any box. No box was drawn", stacklevel=3)
        return image
    if labels is not None and len(labels) != count:
        raise ValueError(f"Number of boxes ({count}) and labels ({len(labels)}) mismatch. Please specify labels for each box.")
    box_colors = _parse_colors(colors, num_objects=count)
    text_colors = _parse_colors(label_colors or "black", num_objects=count) if label_colors or fill_labels else box_colors
    has_grounds = fill_labels and label_background_colors
    ground_colors = _parse_colors(label_background_colors, num_objects=count) if has_grounds else box_colors
    text_font = _font(font, font_size)

    canvas = _to_pillow(image)
    draw = _BoxDraw(canvas, "RGBA" if fill else None)
    # A box, then its label, in the boxes' order: later boxes lie above earlier labels.
    for idx, box in enumerate(corners.astype(np.int64).tolist()):
        color = box_colors[idx]
        draw.box(box, width=width, outline=color, fill=(*color, 100) if fill else None)
        if labels is None or labels[idx] is None:
            continue
        place = (box[0] + width + 1, box[1] + width + 1)
        if fill_labels:
            left, top, right, bottom = draw.textbbox(place, labels[idx], font=text_font)
            draw.rectangle((left - 1, top - 1, right + 1, bottom + 1), fill=ground_colors[idx])
        draw.text(place, labels[idx], fill=text_colors[idx], font=text_font)
    return _from_pillow(canvas, image.dtype)


def _font(font: str | None, font_size: int | None) -> Any:
    if font is not None:
        return ImageFont.truetype(font=font, size=font_size or 10)
    if font_size is not None:
        warnings.warn("Argument 'font_size' will be ignored since 'font' is not set.", stacklevel=4)
    return ImageFont.load_default()


@no_grad()
def draw_segmentation_masks(image: Tensor, masks: Tensor, alpha: float = 0.8, colors: list[Color] | Color | None = None) -> Tensor:
    """An image with masks laid over it; where masks overlap, black.

    Args:
        image: ``(3, H, W)``, uint8, or floating point in [0, 1].
        masks: ``(N, H, W)`` or ``(H, W)``, bool.
        alpha: weight of the masks, from 0 (invisible) to 1 (opaque).
        colors: as for :func:`draw_bounding_boxes`.
    Returns:
        ``(3, H, W)``, ``image``'s dtype. ``image`` itself, with a warning, where there is no mask.
    Raises:
        TypeError: ``image`` is no tensor.
        ValueError: another dtype or shape, too few colors.
    Source: torchvision.utils.draw_segmentation_masks.
    Example:
        >>> image, mask = torch.zeros(3, 2, 2, dtype=torch.uint8), torch.eye(2, dtype=torch.bool)
        >>> draw_segmentation_masks(image, mask, alpha=1.0, colors='red')[0]
        tensor([[255,   0],
                [  0, 255]], dtype=torch.uint8)
    """
    _check_rgb(image)
    if masks.ndim == 2:
        masks = masks[None]
    if masks.ndim != 3:
        raise ValueError("masks must be of shape (H, W) or (batch_size, H, W)")
    if masks.dtype != boolean:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError("The image and the masks must have the same height and width")
    if masks.shape[0] == 0:
        warnings.warn("masks doesn't contain any mask. No mask was drawn", stacklevel=3)
        return image
    painted = image.detach().clone()
    for mask, color in zip(masks, _parse_colors(colors, num_objects=masks.shape[0], dtype=image.dtype)):
        for channel, value in zip(painted, color):
            channel.masked_fill_(mask, value)
    painted.masked_fill_(masks.sum(dim=0) > 1, 0)
    return (image * (1 - alpha) + painted * alpha).to(image.dtype)


@no_grad()
def draw_keypoints(
    image: Tensor,
    keypoints: Tensor,
    connectivity: list[tuple[int, int]] | None = None,
    colors: Color | None = None,
    radius: int = 2,
    width: int = 3,
    visibility: Tensor | None = None,
) -> Tensor:
    """An image with key points drawn on it.

    Args:
        image: ``(3, H, W)``, uint8, or floating point in [0, 1].
        keypoints: ``(N, K, 2)``, x and y of the K points of each of N instances, in pixels.
        connectivity: pairs of points that a line joins.
        colors: of the points.
        radius: of the points.
        width: of the lines.
        visibility: ``(N, K)``, which points, with their lines, are drawn; all when None.
    Returns:
        ``(3, H, W)``, ``image``'s dtype.
    Raises:
        TypeError: ``image`` is no tensor.
        ValueError: another dtype or shape.
    Source: torchvision.utils.draw_keypoints.
    Example:
        >>> image = torch.zeros(3, 16, 16, dtype=torch.uint8)
        >>> draw_keypoints(image, torch.tensor([[[4, 4]]]), colors='white').count_nonzero() > 0
        tensor(True)
    """
    _check_rgb(image)
    if keypoints.ndim != 3:
        raise ValueError("keypoints must be of shape (num_instances, K, 2)")
    if visibility is None:
        visibility = ops.ones(keypoints.shape[:-1], dtype=boolean)
    if visibility.ndim == 3:  # (N, K, 1), as a split of (N, K, 3) gives it
        visibility = visibility.squeeze(-1)
    if visibility.ndim != 2:
        raise ValueError(f"visibility must be of shape (num_instances, K). Got ndim={visibility.ndim}")
    if visibility.shape != keypoints.shape[:-1]:
        raise ValueError(
            "keypoints and visibility must have the same dimensionality for num_instances and K. "
            f"Got {visibility.shape=} and {keypoints.shape=}"
        )
    canvas = _to_pillow(image)
    draw = ImageDraw.Draw(canvas)
    instances = keypoints.to("cpu").numpy().astype(np.int64).tolist()
    for points, is_visible in zip(instances, visibility.to("cpu").numpy().astype(bool).tolist()):
        for (x, y), is_drawn in zip(points, is_visible):
            if is_drawn:
                draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colors, outline=None, width=0)
        for start, end in connectivity or ():
            if is_visible[start] and is_visible[end]:
                draw.line((tuple(points[start]), tuple(points[end])), width=width)
    return _from_pillow(canvas, image.dtype)


@no_grad()
def flow_to_image(flow: Tensor) -> Tensor:
    """A flow as colors: the hue is the direction, the saturation the length, in units of the longest.

    Args:
        flow: ``(N, 2, H, W)`` or ``(2, H, W)``, float32.
    Returns:
        ``(N, 3, H, W)`` or ``(3, H, W)``, uint8.
    Raises:
        ValueError: another dtype or shape.
    Source: torchvision.utils.flow_to_image; the color wheel: Baker et al. 2007.
    Example:
        >>> flow_to_image(torch.zeros(2, 1, 1)).flatten()
        tensor([255, 255, 255], dtype=torch.uint8)
    """
    if flow.dtype != float32:
        raise ValueError(f"Flow should be of dtype torch.float, got {flow.dtype}.")
    batch = flow[None] if flow.ndim == 3 else flow
    if batch.ndim != 4 or batch.shape[1] != 2:
        raise ValueError(f"Input flow should have shape (2, H, W) or (N, 2, H, W), got {flow.shape}.")
    longest = batch.pow(2).sum(dim=1).sqrt().max()
    batch = batch / (longest + finfo(float32).eps)
    length = batch.pow(2).sum(dim=1).sqrt()[:, None]
    wheel = ops.from_numpy(_color_wheel())
    # Angles from -pi to pi are places from 0 to the wheel's last; a place between two colors mixes them.
    place = (ops.atan2(-batch[:, 1], -batch[:, 0]) / math.pi + 1) / 2 * (len(wheel) - 1)
    lower = place.floor().long()
    upper = (lower + 1) % len(wheel)
    share = (place - lower)[:, None]
    color = (1 - share) * (wheel[lower].movedim(-1, 1) / 255.0) + share * (wheel[upper].movedim(-1, 1) / 255.0)
    image = (255 * (1 - length * (1 - color))).floor().to(uint8)
    return image[0] if flow.ndim == 3 else image


def _color_wheel() -> Any:
    """``(55, 3)``: red to yellow to green to cyan to blue to magenta to red."""
    wheel = np.zeros((sum(arc[0] for arc in ARCS), 3), np.float32)
    start = 0
    for count, full, moving, rises in ARCS:
        ramp = np.floor(255 * np.arange(count) / count)
        wheel[start : start + count, full] = 255
        wheel[start : start + count, moving] = ramp if rises else 255 - ramp
        start += count
    return wheel


# -- what the drawing functions share -------------------------------------------------------------------------------------
def _check_image(image: Tensor) -> None:
    if image.dtype != uint8 and not image.is_floating_point():
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.dim() != 3:
        raise ValueError("Pass individual images, not batches")


def _check_rgb(image: Tensor) -> None:
    if not isinstance(image, Tensor):
        raise TypeError(f"The image must be a tensor, got {type(image)}")
    _check_image(image)
    if image.size(0) != 3:
        raise ValueError("Pass an RGB image. Other Image formats are not supported")


def _to_pillow(image: Tensor) -> Any:
    """A picture in red, green and blue."""
    image = image.to("cpu")
    levels = (image.mul(LEVELS).to(uint8) if image.is_floating_point() else image).numpy()
    return Image.fromarray(np.ascontiguousarray(np.broadcast_to(levels, (3, *levels.shape[1:])).transpose(1, 2, 0)))


def _from_pillow(picture: Any, dtype: DType) -> Tensor:
    levels = ops.from_numpy(np.array(picture)).permute(2, 0, 1)
    return levels.to(dtype).mul_(1 / 255) if dtype.is_floating_point else levels


def _parse_colors(colors: Sequence[Color] | Color | None, *, num_objects: int, dtype: DType = uint8) -> list[tuple[Any, ...]]:
    """A color for each object: red, green and blue, from 0 to 255, or to 1 for floating point.

    Raises:
        ValueError: too few colors, or something else.
    """
    if colors is None:
        colors = [(i * PALETTE[0] % 255, i * PALETTE[1] % 255, i * PALETTE[2] % 255) for i in range(num_objects)]
    elif isinstance(colors, list):
        if len(colors) < num_objects:
            raise ValueError(f"Number of colors must be equal or larger than the number of objects, but got {len(colors)} < {num_objects}.")
    elif not isinstance(colors, tuple | str):
        raise ValueError(f"colors must be a tuple or a string, or a list thereof, but got {colors}.")
    elif isinstance(colors, tuple) and len(colors) != 3:
        raise ValueError(f"If passed as tuple, colors should be an RGB triplet, but got {colors}.")
    else:
        colors = [colors] * num_objects  # type: ignore[list-item]
    levels = [ImageColor.getrgb(color) if isinstance(color, str) else tuple(color) for color in colors]
    return [tuple(level / 255 for level in color) for color in levels] if dtype.is_floating_point else levels
