"""Turning, shearing, perspective and displacement: what reads an image at places of a grid.

Places are given as ``grid_sample`` has them, from -1 at the left or upper border to 1 at the other. What lies outside is ``fill``: a
channel of ones is sampled along, which says how much of a pixel lies inside.
"""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import numpy as np
import PIL.Image

from .... import ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ....linalg import lstsq
from ....nn import functional
from ... import tv_tensors
from ...tv_tensors import BoundingBoxFormat, is_rotated_bounding_format
from . import pil
from .conversion import register_by_tensors
from .meta import clamped, converted
from .modes import BILINEAR, NEAREST, PIL_MODES, InterpolationMode, checked_mode
from .registry import IMAGES, functional_of, register, register_described
from .rotated import parallelogram_to_box
from .windows import as_image

_F: Any = BoundingBoxFormat
_CORNERS = [[0, 1], [2, 1], [2, 3], [0, 3]]  # of a box XYXY


# -- sampling ------------------------------------------------------------------------------------------------------------------------
def _check_sampling(image: Tensor, mode: InterpolationMode, fill: Any) -> None:
    if fill is not None:
        if isinstance(fill, (tuple, list)):
            channels = image.shape[-3]
            if len(fill) > 1 and len(fill) != channels:
                raise ValueError(
                    "The number of elements in 'fill' cannot broadcast to match the number of channels of the image "
                    f"({len(fill)} != {channels})"
                )
        elif not isinstance(fill, (int, float)):
            raise ValueError("Argument fill should be either int, float, tuple or list")
    if mode not in (NEAREST, BILINEAR):
        raise ValueError(f"Interpolation mode '{mode.value}' is unsupported with Tensor input")


def _filled(images: Tensor, grid: Tensor, mode: str, fill: Any) -> Tensor:
    inside = images.new_ones(images.shape[0], 1, *images.shape[-2:])
    sampled = functional.grid_sample(ops.cat([images, inside], 1), grid, mode=mode, padding_mode="zeros", align_corners=False)
    result, share = sampled[:, :-1], sampled[:, -1:]
    colour = images.new_tensor(fill if isinstance(fill, (tuple, list)) else [fill]).view(1, -1, 1, 1)
    return ops.where(share < 0.5, colour, result) if mode == "nearest" else (result - colour).mul_(share).add_(colour)


def _sampled(image: Tensor, grid: Tensor, mode: InterpolationMode, fill: Any) -> Tensor:
    """``image`` read at ``grid``, ``(1, H, W, 2)``."""
    *batch, channels, height, width = image.shape
    result_shape = (*batch, channels, *grid.shape[1:3])
    if not image.numel():
        return image.reshape(result_shape)
    images = image.reshape(-1, channels, height, width).to(grid.dtype)
    grid = grid.to(image.device).expand(images.shape[0], -1, -1, -1)
    if fill is None or (mode is NEAREST and not np.any(fill)):  # what lies outside is 0 anyway
        result = functional.grid_sample(images, grid, mode=mode.value, padding_mode="zeros", align_corners=False)
    else:
        result = _filled(images, grid, mode.value, fill)
    if image.dtype != grid.dtype:
        result = result.round_().to(image.dtype)
    return result.reshape(result_shape)


def _grid_dtype(image: Tensor) -> Any:
    return image.dtype if image.is_floating_point() else dtypes.float32


# -- affine maps ---------------------------------------------------------------------------------------------------------------------
def affine_matrix(center: Any, angle: float, translate: Any, scale: float, shear: Any, inverted: bool = True) -> list[float]:
    """The six numbers of the map from an image's places to where they go, or ``inverted`` from the result's places to where they come from.

    It turns, shears and scales about ``center``, then translates: ``T C R(angle) S(shear) scale C^-1``.
    """
    turn, shear_x, shear_y = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    center_x, center_y = center
    moved_x, moved_y = center_x + translate[0], center_y + translate[1]
    a = math.cos(turn - shear_y) / math.cos(shear_y)
    b = -(a * math.tan(shear_x) + math.sin(turn))
    c = math.sin(turn - shear_y) / math.cos(shear_y)
    d = math.cos(turn) - c * math.tan(shear_x)
    if inverted:
        a, b, c, d = d / scale, -b / scale, -c / scale, a / scale
        return [a, b, center_x - a * moved_x - b * moved_y, c, d, center_y - c * moved_x - d * moved_y]
    a, b, c, d = a * scale, b * scale, c * scale, d * scale
    return [a, b, moved_x - a * center_x - b * center_y, c, d, moved_y - c * center_x - d * center_y]


def affine_arguments(angle: Any, translate: Any, scale: float, shear: Any, center: Any) -> tuple[float, list[Any], list[Any], Any]:
    """Angle, translation, shear and centre in the one form that the kernels know."""
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    if not isinstance(translate, (list, tuple)):
        raise TypeError("Argument translate should be a sequence")
    if len(translate) != 2:
        raise ValueError("Argument translate should be a sequence of length 2")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    if not isinstance(shear, (Number, list, tuple)):
        raise TypeError("Shear should be either a single value or a sequence of two values")
    shears: list[Any] = [shear, 0.0] if isinstance(shear, Number) else list(shear) * (2 if len(shear) == 1 else 1)
    if len(shears) != 2:
        raise ValueError(f"Shear should be a sequence containing two values. Got {shear}")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError("Argument center should be a sequence")
    return float(angle), list(translate), shears, None if center is None else [float(place) for place in center]


def _expanded_size(matrix: list[float], width: int, height: int) -> tuple[int, int]:
    """Width and height of the smallest image that holds the whole result."""
    half = np.array([0.5 * width, 0.5 * height], np.float32)
    corners = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]], np.float32) * half
    theta = np.array(matrix, np.float32).reshape(2, 3)
    places = corners @ theta[:, :2].T + theta[:, 2]
    tolerance = np.float32(1e-4)  # a corner this close to a pixel's border does not open another pixel
    most = np.ceil(np.trunc((places.max(0) + half) * np.float32(1e4)) * tolerance)
    least = np.floor(np.trunc((places.min(0) + half) * np.float32(1e4)) * tolerance)
    return int(most[0] - least[0]), int(most[1] - least[1])


def _places(x: Tensor, y: Tensor) -> Tensor:
    """``(x, y, 1)`` for each pixel, row by row: products with it round as PyTorch's, which decides between pixels at equal distance."""
    places = ops.ones(len(y), len(x), 3, dtype=x.dtype)
    places[..., 0] = x
    places[..., 1] = y.unsqueeze(-1)
    return places.view(-1, 3)


def _affine_grid(matrix: list[float], size: tuple[int, int], output_size: tuple[int, int], dtype: Any) -> Tensor:
    """Position at which each pixel of the result is read, for sizes ``(height, width)`` and a map about the image's middle."""
    height, width = size
    rows, columns = output_size
    x = ops.linspace((1.0 - columns) * 0.5, (columns - 1.0) * 0.5, columns, dtype=dtype)
    y = ops.linspace((1.0 - rows) * 0.5, (rows - 1.0) * 0.5, rows, dtype=dtype)
    half = ops.tensor([[0.5 * width], [0.5 * height]], dtype=dtype)
    theta = ops.tensor(matrix, dtype=dtype).reshape(2, 3).div_(half)
    return ops.matmul(_places(x, y), theta.T).view(1, rows, columns, 2)


def _from_middle(center: Any, image: Tensor) -> list[float]:
    return [0.0, 0.0] if center is None else [place - size * 0.5 for place, size in zip(center, image.shape[:-3:-1])]


@functional_of(*IMAGES)
def affine(
    image: Tensor,
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    interpolation: Any = NEAREST,
    fill: Any = None,
    center: Any = None,
) -> Tensor:
    """``inpt`` turned, sheared, scaled and moved.

    Args:
        inpt: an image, video, mask, boxes or points.
        angle: degrees, clockwise.
        translate: pixels to the right and down.
        scale: a factor.
        shear: degrees along x, or along x and y.
        interpolation: ``NEAREST`` or ``BILINEAR``; for PIL images ``BICUBIC``, too.
        fill: what comes in from outside.
        center: ``(x, y)`` of the fixed point; the middle unless told.
    Returns:
        What came in, moved.
    Source: torchvision.transforms.v2.functional.affine.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> affine(img, 0.0, [1, 0], 1.0, [0.0, 0.0])
        tensor([[[0., 0.],
                 [0., 2.]]])
    """
    mode = checked_mode(interpolation)
    angle, translate, shear, center = affine_arguments(angle, translate, scale, shear, center)
    _check_sampling(image, mode, fill)
    matrix = affine_matrix(_from_middle(center, image), angle, [float(step) for step in translate], scale, shear)
    size = tuple(image.shape[-2:])
    return _sampled(image, _affine_grid(matrix, size, size, _grid_dtype(image)), mode, fill)


@register(affine, PIL.Image.Image)
def affine_image_pil(
    image: Any, angle: float, translate: Any, scale: float, shear: Any, interpolation: Any = NEAREST, fill: Any = None, center: Any = None
) -> Any:
    mode = checked_mode(interpolation)
    angle, translate, shear, center = affine_arguments(angle, translate, scale, shear, center)
    middle = [image.width * 0.5, image.height * 0.5] if center is None else center
    matrix = affine_matrix(middle, angle, translate, scale, shear)
    return pil.transform(image, PIL.Image.Transform.AFFINE, matrix, PIL_MODES[mode], fill)


@register_described(affine, tv_tensors.Mask)
def affine_mask(mask: Tensor, angle: float, translate: Any, scale: float, shear: Any, fill: Any = None, center: Any = None) -> Tensor:
    return as_image(affine.kernel, mask, angle, translate, scale, shear, fill=fill, center=center)


def _mapped(points: Tensor, matrix: Tensor) -> Tensor:
    """Points ``(N, 2)`` under a map ``(2, 3)``."""
    return ops.matmul(ops.cat([points, points.new_ones(points.shape[0], 1)], -1), matrix.T.to(points.device))


class _PointMap:
    """An affine map of points, and the size and offset of the canvas that holds its whole result."""

    def __init__(self, canvas_size: Any, dtype: Any, angle: Any, translate: Any, scale: float, shear: Any, center: Any):
        angle, translate, shear, center = affine_arguments(angle, translate, scale, shear, center)
        height, width = canvas_size
        self.canvas_size = canvas_size
        self._about = ([width * 0.5, height * 0.5] if center is None else center, angle, translate, scale, shear)
        self.matrix = ops.tensor(affine_matrix(*self._about, inverted=False), dtype=dtype).reshape(2, 3)

    def __call__(self, points: Tensor) -> Tensor:
        return _mapped(points, self.matrix)

    def expanded(self) -> tuple[Tensor, tuple[int, int]]:
        height, width = self.canvas_size
        corners = [[0.0, 0.0], [0.0, float(height)], [float(width), float(height)], [float(width), 0.0]]
        offset = self(ops.tensor(corners, dtype=self.matrix.dtype)).amin(dim=0)
        columns, rows = _expanded_size(affine_matrix(*self._about), width, height)
        return offset, (rows, columns)


def _affine_keypoints(keypoints: Tensor, canvas_size: Any, expand: bool, **placed: Any) -> tuple[Tensor, Any]:
    if not keypoints.numel():
        return keypoints, canvas_size
    points = keypoints if keypoints.is_floating_point() else keypoints.float()
    run = _PointMap(canvas_size, points.dtype, **placed)
    result = run(points.reshape(-1, 2))
    if expand:
        offset, canvas_size = run.expanded()
        result = result - offset.to(result.device)
    return result.reshape(keypoints.shape).to(keypoints.dtype), canvas_size


@register_described(affine, tv_tensors.KeyPoints)
def affine_keypoints(
    keypoints: Tensor, canvas_size: tuple[int, int], angle: float, translate: Any, scale: float, shear: Any, center: Any = None
) -> Tensor:
    placed = {"angle": angle, "translate": translate, "scale": scale, "shear": shear, "center": center}
    return _affine_keypoints(keypoints, canvas_size, False, **placed)[0]


def _box_around(points: Tensor, rotated: bool) -> Tensor:
    """The box around each four corners; the rectangle that they stand for if boxes are turned."""
    if rotated:
        return parallelogram_to_box(points.reshape(-1, 8))
    corners = points.reshape(-1, 4, 2)
    return ops.cat([corners.amin(dim=1), corners.amax(dim=1)], 1)


def _corners_of(boxes: Tensor, format: BoundingBoxFormat) -> Tensor:
    """Corners ``(4 N, 2)`` of boxes in any format."""
    if is_rotated_bounding_format(format):
        return converted(boxes, format, _F.XYXYXYXY).reshape(-1, 2)
    return converted(boxes, format, _F.XYXY).reshape(-1, 4)[:, _CORNERS].reshape(-1, 2)


def _affine_boxes(
    boxes: Tensor, format: BoundingBoxFormat, canvas_size: Any, expand: bool, clamping_mode: str | None, **placed: Any
) -> tuple[Tensor, Any]:
    if not boxes.numel():
        return boxes, canvas_size
    rotated = is_rotated_bounding_format(format)
    exact = boxes if boxes.is_floating_point() else boxes.float()
    run = _PointMap(canvas_size, exact.dtype, **placed)
    result = _box_around(run(_corners_of(exact, format)), rotated)
    if expand:
        offset, canvas_size = run.expanded()
        result = result - offset.repeat(4 if rotated else 2).to(result.device)
    between = _F.XYXYXYXY if rotated else _F.XYXY
    result = converted(clamped(result, between, canvas_size, clamping_mode), between, format)
    return result.reshape(boxes.shape).to(boxes.dtype), canvas_size


@register_described(affine, tv_tensors.BoundingBoxes)
def affine_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: tuple[int, int],
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    center: Any = None,
    clamping_mode: str | None = "soft",
) -> Tensor:
    placed = {"angle": angle, "translate": translate, "scale": scale, "shear": shear, "center": center}
    return _affine_boxes(bounding_boxes, format, canvas_size, False, clamping_mode, **placed)[0]


# -- turning -------------------------------------------------------------------------------------------------------------------------
def _quarter_turns(image: Tensor, angle: float, expand: bool) -> int | None:
    """Number of quarter turns in ``angle``, if these need no interpolation."""
    if angle in (0, 180):
        return int(angle) // 90
    if angle in (90, 270) and (expand or image.shape[-1] == image.shape[-2]):
        return int(angle) // 90
    return None


@functional_of(*IMAGES)
def rotate(image: Tensor, angle: float, interpolation: Any = NEAREST, expand: bool = False, center: Any = None, fill: Any = None) -> Tensor:
    """``inpt`` turned by ``angle`` degrees, anticlockwise.

    Args:
        inpt: an image, video, mask, boxes or points.
        angle: degrees.
        interpolation, fill, center: as for :func:`affine`.
        expand: make the image large enough to hold all of the result.
    Returns:
        What came in, moved.
    Source: torchvision.transforms.v2.functional.rotate.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> rotate(img, 90.0)
        tensor([[[1., 3.],
                 [0., 2.]]])
    """
    angle = angle % 360
    turns = None if center is not None else _quarter_turns(image, angle, expand)
    if turns is not None:
        return ops.rot90(image, turns, (-2, -1)) if turns else image.clone()
    mode = checked_mode(interpolation)
    _check_sampling(image, mode, fill)
    matrix = affine_matrix(_from_middle(center, image), -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    height, width = image.shape[-2:]
    columns, rows = _expanded_size(matrix, width, height) if expand else (width, height)
    return _sampled(image, _affine_grid(matrix, (height, width), (rows, columns), _grid_dtype(image)), mode, fill)


@register(rotate, PIL.Image.Image)
def rotate_image_pil(
    image: Any, angle: float, interpolation: Any = NEAREST, expand: bool = False, center: Any = None, fill: Any = None
) -> Any:
    return pil.rotate(image, angle, PIL_MODES[checked_mode(interpolation)], expand, center, fill)


@register_described(rotate, tv_tensors.Mask)
def rotate_mask(mask: Tensor, angle: float, expand: bool = False, center: Any = None, fill: Any = None) -> Tensor:
    return as_image(rotate.kernel, mask, angle, expand=expand, center=center, fill=fill)


def _turning(angle: float, center: Any) -> dict[str, Any]:
    return {"angle": -angle, "translate": [0.0, 0.0], "scale": 1.0, "shear": [0.0, 0.0], "center": center}


@register_described(rotate, tv_tensors.KeyPoints)
def rotate_keypoints(
    keypoints: Tensor, canvas_size: tuple[int, int], angle: float, expand: bool = False, center: Any = None
) -> tuple[Tensor, tuple[int, int]]:
    return _affine_keypoints(keypoints, canvas_size, expand, **_turning(angle, center))


@register_described(rotate, tv_tensors.BoundingBoxes)
def rotate_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: tuple[int, int],
    angle: float,
    expand: bool = False,
    center: Any = None,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    return _affine_boxes(bounding_boxes, format, canvas_size, expand, clamping_mode, **_turning(angle, center))


# -- perspective ---------------------------------------------------------------------------------------------------------------------
def perspective_coefficients(startpoints: Any, endpoints: Any) -> list[float]:
    """The eight numbers of the perspective that takes four end points back to where they started, by least squares.

    Raises:
        LinAlgError: the points lie such that there is no single map, as the corners of an image of one row.

    With ``k = 1 / (g x + h y + 1)``, ``(x, y)`` comes from ``(k (a x + b y + c), k (d x + e y + f))``.
    """
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(f"Please provide exactly four corners, got {len(startpoints)} startpoints and {len(endpoints)} endpoints.")
    equations = []
    for (x, y), (from_x, from_y) in zip(endpoints, startpoints):
        equations.append([x, y, 1, 0, 0, 0, -from_x * x, -from_x * y])
        equations.append([0, 0, 0, x, y, 1, -from_y * x, -from_y * y])
    rows = ops.tensor(equations, dtype=dtypes.float32).double()
    wanted = ops.tensor(startpoints, dtype=dtypes.float64).view(8)
    return lstsq(rows, wanted, driver="gels").solution.float().tolist()


def _coefficients(startpoints: Any, endpoints: Any, coefficients: Any) -> Any:
    if coefficients is None:
        if startpoints is None or endpoints is None:
            raise ValueError("Either the startpoints/endpoints or the coefficients must have non `None` values.")
        return perspective_coefficients(startpoints, endpoints)
    if startpoints is not None and endpoints is not None:
        raise ValueError("The startpoints/endpoints and the coefficients shouldn't be defined concurrently.")
    if len(coefficients) != 8:
        raise ValueError("Argument coefficients should have 8 float values")
    return coefficients


def _perspective_grid(coefficients: Any, size: Any, dtype: Any) -> Tensor:
    rows, columns = size
    a, b, c, d, e, f, g, h = coefficients
    places = _places(ops.linspace(0.5, columns - 0.5, columns, dtype=dtype), ops.linspace(0.5, rows - 0.5, rows, dtype=dtype))
    half = ops.tensor([[0.5 * columns], [0.5 * rows]], dtype=dtype)
    above = ops.matmul(places, ops.tensor([[a, b, c], [d, e, f]], dtype=dtype).div_(half).T)
    below = ops.matmul(places, ops.tensor([[g, h, 1.0], [g, h, 1.0]], dtype=dtype).T)
    return above.div_(below).sub_(1.0).view(1, rows, columns, 2)


@functional_of(*IMAGES)
def perspective(
    image: Tensor, startpoints: Any, endpoints: Any, interpolation: Any = BILINEAR, fill: Any = None, coefficients: Any = None
) -> Tensor:
    """``inpt`` seen from another side.

    Args:
        inpt: an image, video, mask, boxes or points.
        startpoints, endpoints: four points ``(x, y)`` and where they go: upper left, upper right, lower right, lower left.
        interpolation, fill: as for :func:`affine`.
        coefficients: instead of points, the eight numbers of the map from the result's places to the image's.
    Returns:
        What came in, moved.
    Source: torchvision.transforms.v2.functional.perspective.
    Example:
        >>> img = torch.arange(9.0).view(1, 3, 3)
        >>> corners = [[0, 0], [2, 0], [2, 2], [0, 2]]
        >>> perspective(img, corners, corners).round()[0, 1]
        tensor([3., 4., 5.])
    """
    numbers = _coefficients(startpoints, endpoints, coefficients)
    mode = checked_mode(interpolation)
    _check_sampling(image, mode, fill)
    return _sampled(image, _perspective_grid(numbers, tuple(image.shape[-2:]), _grid_dtype(image)), mode, fill)


@register(perspective, PIL.Image.Image)
def perspective_image_pil(
    image: Any, startpoints: Any, endpoints: Any, interpolation: Any = BILINEAR, fill: Any = None, coefficients: Any = None
) -> Any:
    numbers = _coefficients(startpoints, endpoints, coefficients)
    return pil.transform(image, PIL.Image.Transform.PERSPECTIVE, numbers, PIL_MODES[checked_mode(interpolation)], fill)


@register_described(perspective, tv_tensors.Mask)
def perspective_mask(mask: Tensor, startpoints: Any, endpoints: Any, fill: Any = None, coefficients: Any = None) -> Tensor:
    return as_image(perspective.kernel, mask, startpoints, endpoints, NEAREST, fill, coefficients)


def _forwards(coefficients: Any, points: Tensor, dtype: Any) -> Tensor:
    """Images of points ``(N, 2)`` under the inverse of the map that ``coefficients`` give."""
    a, b, c, d, e, f, g, h = coefficients
    determinant = a * e - b * d
    if determinant == 0:
        raise RuntimeError(
            f"Provided perspective_coeffs {coefficients} can not be inverted to transform bounding boxes. "
            f"Denominator is zero, denom={determinant}"
        )
    above = [[e - f * h, -b + c * h, b * f - c * e], [-d + f * g, a - c * g, -a * f + c * d]]
    below = [-e * g + d * h, -a * h + b * g, determinant]
    numerator = ops.tensor([[value / determinant for value in row] for row in above], dtype=dtype)
    denominator = ops.tensor([[value / determinant for value in below]] * 2, dtype=dtype)
    return _mapped(points.to(dtype), numerator).div_(_mapped(points.to(dtype), denominator))


def _point_dtype(points: Tensor) -> Any:
    return points.dtype if points.is_floating_point() else dtypes.float32


@register_described(perspective, tv_tensors.KeyPoints)
def perspective_keypoints(
    keypoints: Tensor, canvas_size: tuple[int, int], startpoints: Any, endpoints: Any, coefficients: Any = None
) -> Tensor:
    if not keypoints.numel():
        return keypoints
    numbers = _coefficients(startpoints, endpoints, coefficients)
    result = _forwards(numbers, keypoints.reshape(-1, 2), _point_dtype(keypoints))
    return result.to(keypoints.dtype).reshape(keypoints.shape)


@register_described(perspective, tv_tensors.BoundingBoxes)
def perspective_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: tuple[int, int],
    startpoints: Any,
    endpoints: Any,
    coefficients: Any = None,
    clamping_mode: str | None = "soft",
) -> Tensor:
    if not bounding_boxes.numel():
        return bounding_boxes
    numbers = _coefficients(startpoints, endpoints, coefficients)
    corners = _forwards(numbers, _corners_of(bounding_boxes, format), _point_dtype(bounding_boxes))
    rotated = is_rotated_bounding_format(format)
    between = _F.XYXYXYXY if rotated else _F.XYXY
    result = clamped(_box_around(corners, rotated), between, canvas_size, clamping_mode)
    return converted(result, between, format).reshape(bounding_boxes.shape).to(bounding_boxes.dtype)


# -- displacement --------------------------------------------------------------------------------------------------------------------
def _check_displacement(displacement: Any, size: Any) -> None:
    if not isinstance(displacement, Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    expected = (1, *size, 2)
    if tuple(displacement.shape) != expected:
        raise ValueError(f"Argument displacement shape should be {expected}, but given {displacement.shape}")


def _identity_grid(size: Any, dtype: Any) -> Tensor:
    rows, columns = size
    x = ops.linspace((-columns + 1) / columns, (columns - 1) / columns, columns, dtype=dtype)
    y = ops.linspace((-rows + 1) / rows, (rows - 1) / rows, rows, dtype=dtype).unsqueeze(-1)
    return ops.stack([x.expand(rows, columns), y.expand(rows, columns)], -1).unsqueeze(0)


@functional_of(*IMAGES)
def elastic(image: Tensor, displacement: Tensor, interpolation: Any = BILINEAR, fill: Any = None) -> Tensor:
    """``inpt`` with each pixel read at its place and a displacement.

    Args:
        inpt: an image, video, mask, boxes or points.
        displacement: ``(1, H, W, 2)``; 2 is the whole width or height.
        interpolation, fill: as for :func:`affine`.
    Returns:
        What came in, moved.
    Source: torchvision.transforms.v2.functional.elastic.
    Example:
        >>> img = torch.arange(4.0).view(1, 2, 2)
        >>> elastic(img, torch.zeros(1, 2, 2, 2))
        tensor([[[0., 1.],
                 [2., 3.]]])
    """
    size = tuple(image.shape[-2:])
    _check_displacement(displacement, size)
    dtype = dtypes.float32 if image.dtype is dtypes.float16 else _grid_dtype(image)
    grid = _identity_grid(size, dtype).to(image.device).add_(displacement.to(image.device, dtype))
    exact = image.to(dtype) if image.is_floating_point() else image
    return _sampled(exact, grid, checked_mode(interpolation), fill).to(image.dtype)


elastic_transform = elastic
register_by_tensors(elastic)


@register_described(elastic, tv_tensors.Mask)
def elastic_mask(mask: Tensor, displacement: Tensor, fill: Any = None) -> Tensor:
    return as_image(elastic.kernel, mask, displacement, NEAREST, fill)


def _displaced(points: Tensor, displacement: Tensor, canvas_size: Any) -> Tensor:
    """Points ``(N, 2)`` after the displacement, to the nearest pixel and to first order: they move against it."""
    rows, columns = canvas_size
    inverse = _identity_grid(canvas_size, displacement.dtype).to(points.device).sub_(displacement.to(points.device))
    x, y = points.long().unbind(-1)
    places = inverse[0, y.clamp(0, rows - 1), x.clamp(0, columns - 1)]
    return places.add_(1).mul_(0.5 * inverse.new_tensor([columns, rows])).sub_(0.5)


@register_described(elastic, tv_tensors.KeyPoints)
def elastic_keypoints(keypoints: Tensor, canvas_size: tuple[int, int], displacement: Tensor) -> Tensor:
    _check_displacement(displacement, canvas_size)
    if not keypoints.numel():
        return keypoints
    result = _displaced(keypoints.reshape(-1, 2), displacement.to(_point_dtype(keypoints)), canvas_size)
    return result.to(keypoints.dtype).reshape(keypoints.shape)


@register_described(elastic, tv_tensors.BoundingBoxes)
def elastic_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: tuple[int, int],
    displacement: Tensor,
    clamping_mode: str | None = "soft",
) -> Tensor:
    _check_displacement(displacement, canvas_size)
    if not bounding_boxes.numel():
        return bounding_boxes
    displacement = displacement.to(_point_dtype(bounding_boxes))
    if is_rotated_bounding_format(format):  # the centre moves
        between = _F.CXCYWHR
        boxes = converted(bounding_boxes, format, between).reshape(-1, 5)
        result = ops.cat([_displaced(boxes[:, :2].ceil(), displacement, canvas_size), boxes[:, 2:]], 1)
    else:
        between = _F.XYXY
        corners = _corners_of(bounding_boxes, format)
        corners = corners.ceil() if corners.is_floating_point() else corners
        result = _box_around(_displaced(corners, displacement, canvas_size), False)
    result = clamped(result.to(bounding_boxes.dtype), between, canvas_size, clamping_mode)
    return converted(result, between, format).reshape(bounding_boxes.shape)
