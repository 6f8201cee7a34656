"""Images of another size: interpolation, and pixels or channels put in another order.

Interpolation is linear and separable: along each dimension an output element is a weighted sum of a few input elements.  A *plan*
holds for each dimension the places and weights, ``(output size, taps)``, or None where the dimension stays as it is.  For images of bytes
the weights are whole numbers, in units of ``2**-bits``, and ``bits`` is the third of the dimension's plan.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import kind_of
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite, functional, op, resolve
from ..core.layout import contiguous_format, suggested_format
from .patches import FOLDED, Ints, in_layout, is_channels_last
from .sorting import complain_derivative

_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "lanczos": 2, "trilinear": 3}
_CUBIC = -0.75  # the free parameter of Keys' cubic convolution, as in PyTorch
_CUBIC_ANTIALIAS = -0.5


# -- the linear maps ---------------------------------------------------------------------------------------------------------------
def _apply(input: np.ndarray, plan: Any) -> np.ndarray:
    result, rank = input, len(plan)
    for k, axis_plan in enumerate(plan):
        if axis_plan is None:
            continue
        places, weights = axis_plan
        axis = input.ndim - rank + k
        if weights is None:
            result = result.take(places[:, 0], axis=axis)
            continue
        along = (-1, *(1,) * (rank - 1 - k))
        total = None
        for tap in range(places.shape[1]):
            part = result.take(places[:, tap], axis=axis)
            part = np.multiply(part, weights[:, tap].astype(part.dtype).reshape(along), out=part)
            total = part if total is None else np.add(total, part, out=total)
        result = total
    return result.copy() if result is input else np.ascontiguousarray(result)


def _apply_bytes(image: np.ndarray, plan: Any) -> np.ndarray:
    """``_apply`` to the bytes of images, rounded after each dimension, rows first, as PyTorch and Pillow do it."""
    result = image
    for axis in (-1, -2):
        axis_plan = plan[axis]
        if axis_plan is None:
            continue
        places, weights, bits = axis_plan
        total = np.int64(1 << (bits - 1))
        for tap in range(places.shape[1]):
            factor = weights[:, tap].reshape((-1,) + (1,) * (-axis - 1))
            total = total + result.take(places[:, tap], axis=axis) * factor
        result = (total >> bits).clip(0, 255).astype(np.uint8)
    return result


def _apply_transposed(grad: np.ndarray, plan: Any, spatial: Ints) -> np.ndarray:
    """The adjoint of ``_apply``: a matrix product along each dimension."""
    gradient, rank = grad, len(plan)
    for k, axis_plan in enumerate(plan):
        if axis_plan is None:
            continue
        places, weights = axis_plan
        matrix = np.zeros((places.shape[0], spatial[k]), grad.dtype)
        values = np.ones(places.shape, grad.dtype) if weights is None else weights.astype(grad.dtype)
        np.add.at(matrix, (np.arange(places.shape[0])[:, None], places), values)
        axis = grad.ndim - rank + k
        gradient = np.moveaxis(np.matmul(np.moveaxis(gradient, axis, -1), matrix), -1, axis)
    return gradient.copy() if gradient is grad else np.ascontiguousarray(gradient)


@op(
    **FOLDED,
    name="_resample",
    node_name="UpsampleBackward0",
    promotion="same",
    grad={"input": lambda grad, plan, input_shape: resample_backward(grad, plan, input_shape[-len(plan) :])},
    forward="linear",
)
def resample(input: Tensor, plan: Any) -> Tensor:
    """``input`` with its last dimensions resampled after ``plan``."""
    last = is_channels_last(input)
    if not kind_of(input).has_values:
        return in_layout(_apply(input, [axis_plan and axis_plan[:2] for axis_plan in plan]).astype(input.dtype), last)
    if input.dtype == np.uint8 and any(axis_plan is not None and axis_plan[1] is not None for axis_plan in plan):
        if any(axis_plan is not None and len(axis_plan) == 3 for axis_plan in plan):
            return in_layout(_apply_bytes(input, plan), last)
        return in_layout(np.rint(_apply(input.astype(np.float32), plan)).clip(0, 255).astype(np.uint8), last)
    return in_layout(_apply(input, plan), last)


@op(**FOLDED, name="_resample_backward", promotion="same", grad={"grad_output": lambda grad, plan: resample(grad, plan)}, forward="linear")
def resample_backward(grad_output: Tensor, plan: Any, spatial: Any) -> Tensor:
    """The adjoint of ``_resample`` for an input of size ``spatial``."""
    return in_layout(_apply_transposed(grad_output, plan, tuple(spatial)), is_channels_last(grad_output))


# -- plans ---------------------------------------------------------------------------------------------------------------------------
def _step(size: int, count: int, align_corners: bool, scale: float | None) -> float:
    """Distance in the input between neighbours of the output."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / scale if scale is not None and scale > 0 else size / count


def _nearest(size: int, count: int, scale: float | None, exact: bool, kind: Any) -> Any:
    step = kind(_step(size, count, False, scale))
    at = np.arange(count).astype(kind)
    places = np.floor((at + kind(0.5)) * step if exact else at * step).astype(np.int64)
    return places.clip(None, size - 1)[:, None], None


def _sources(size: int, count: int, align_corners: bool, scale: float | None, kind: Any) -> np.ndarray:
    step = kind(_step(size, count, align_corners, scale))
    at = np.arange(count).astype(kind)
    return at * step if align_corners else step * (at + kind(0.5)) - kind(0.5)


def _linear(size: int, count: int, align_corners: bool, scale: float | None, kind: Any) -> Any:
    source = _sources(size, count, align_corners, scale, kind).clip(0, None)
    low = np.floor(source).astype(np.int64).clip(None, size - 1)
    part = (source - low).clip(0, 1)
    return np.stack([low, (low + 1).clip(None, size - 1)], 1), np.stack([1 - part, part], 1)


def _cubic_weight(x: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel at distance ``x``."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _cubic(size: int, count: int, align_corners: bool, scale: float | None, kind: Any) -> Any:
    source = _sources(size, count, align_corners, scale, kind)
    low = np.floor(source)
    part = source - low
    offsets = np.arange(-1, 3)
    places = (low[:, None].astype(np.int64) + offsets).clip(0, size - 1)
    return places, _cubic_weight(part[:, None] - offsets, _CUBIC).astype(kind)


# (half width, weight at a distance) of the filters that can be widened
_FILTERS: dict[str, Any] = {
    "bilinear": (1.0, lambda x: (1 - np.abs(x)).clip(0, None)),
    "bicubic": (2.0, lambda x: _cubic_weight(x, _CUBIC_ANTIALIAS)),
    "lanczos": (3.0, lambda x: np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)),
}


def _antialiased(size: int, count: int, align_corners: bool, scale: float | None, mode: str, kind: Any) -> Any:
    """Weights of a filter that is widened when the image shrinks, so that every input element counts."""
    step = _step(size, count, align_corners, scale)
    width = max(step, 1.0)
    reach, weight_at = _FILTERS[mode]
    support = reach * width
    centres = step * (np.arange(count) + 0.5)
    first = np.floor(centres - support + 0.5).astype(np.int64).clip(0, None)
    stop = np.floor(centres + support + 0.5).astype(np.int64).clip(None, size)
    taps = int((stop - first).max())
    places = first[:, None] + np.arange(taps)
    distance = (places + 0.5 - centres[:, None]) / width
    weights = weight_at(distance)
    weights = np.where(places < stop[:, None], weights, 0)
    weights = weights / weights.sum(1, keepdims=True)
    return places.clip(None, size - 1), weights.astype(kind)


def sampling_plan(spatial: Ints, sizes: Ints, mode: str, align_corners: bool, scales: Any, antialias: bool, kind: Any) -> tuple[Any, ...]:
    plan: list[Any] = []
    for size, count, scale in zip(spatial, sizes, scales, strict=True):
        if mode.startswith("nearest"):
            plan.append(None if size == count else _nearest(size, count, scale, mode == "nearest-exact", kind))
        elif antialias:
            plan.append(_antialiased(size, count, align_corners, scale, mode, kind))
        elif size == count and (scale is None or scale == 1):
            plan.append(None)
        else:
            plan.append((_cubic if mode == "bicubic" else _linear)(size, count, align_corners, scale, kind))
    return tuple(plan)


@functools.lru_cache(64)  # data sets are resized from few sizes to one
def bytes_plan(spatial: Ints, sizes: Ints, mode: str, align_corners: bool, scales: Any, antialias: bool) -> tuple[Any, ...]:
    """A plan for images of bytes, with weights of 16 bits.

    They are in units of ``2**-bits``, where ``bits`` is the largest number for which the largest weight has room in 16 bits. The places of
    an element follow each other, or lie at the border with a weight of zero.
    """

    def quantized(axis_plan: Any, size: int) -> Any:
        if axis_plan is None or axis_plan[1] is None:
            return axis_plan
        begins, taps = axis_plan[0][:, :1], np.arange(axis_plan[0].shape[1])
        weights = np.zeros_like(axis_plan[1])
        np.add.at(weights, (np.arange(len(begins))[:, None], axis_plan[0] - begins), axis_plan[1])  # beyond the border is at it
        places = (begins + taps).clip(None, size - 1)
        bits = next((k for k in range(22) if int(0.5 + weights.max() * 2.0 ** (k + 1)) >= 1 << 15), 22)
        return places, np.trunc(weights * 2.0**bits + np.copysign(0.5, weights)).astype(np.int64), bits

    plan = sampling_plan(spatial, sizes, mode, align_corners, scales, antialias, np.float64)
    return tuple([quantized(axis_plan, size) for axis_plan, size in zip(plan, spatial, strict=True)])


# -- interpolation -------------------------------------------------------------------------------------------------------------------
def _sizes(input: Any, size: Any, scale_factor: Any, recompute: bool | None) -> tuple[Ints, list[Any]]:
    """Output sizes, and the scale factors that sampling positions follow (None: the ratio of the sizes).

    Raises:
        ValueError: none or both of size and scale factor, or a wrong number of them.
    """
    rank = input.dim() - 2
    spatial = tuple(input.shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    given, word = (size, "output") if size is not None else (scale_factor, "scale_factor")
    if isinstance(given, (list, tuple)):
        if len(given) != rank:
            raise ValueError(
                f"Input and {'output' if size is not None else 'scale_factor'} must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {list(spatial)} and {word} {'size' if size is not None else 'of shape'} {given}. Please "
                "provide input tensor in (N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."
            )
        values = list(given)
    else:
        values = [given] * rank
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        if not all(hasattr(value, "__index__") for value in values):
            raise TypeError(f"interpolate: expected size to be one of int or tuple of ints, but got {size}")
        return tuple([value.__index__() for value in values]), [None] * rank
    sizes = tuple([math.floor(n * float(scale)) for n, scale in zip(spatial, values, strict=True)])
    return sizes, [None] * rank if recompute else [float(value) for value in values]


def checked_sizes(
    input: Any, size: Any, scale_factor: Any, mode: str, align_corners: bool | None, recompute_scale_factor: bool | None, antialias: bool
) -> tuple[Ints, list[Any], bool]:
    """``_sizes`` and ``align_corners`` for arguments of ``interpolate``, all of which are checked.

    Raises:
        ValueError, NotImplementedError, RuntimeError: see ``interpolate``.
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    elif align_corners is None:
        align_corners = False
    sizes, scales = _sizes(input, size, scale_factor, recompute_scale_factor)
    rank = input.dim() - 2
    if antialias and not (mode in _FILTERS and rank == 2):
        raise ValueError("Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input")
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    if mode == "area" and rank in (1, 2, 3):
        return sizes, scales, False
    fits = (mode in ("nearest", "nearest-exact") and rank in (1, 2, 3)) or _RANKS.get(mode) == rank
    if not fits:
        if mode in _RANKS and rank in (1, 2, 3):
            raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {_RANKS[mode] + 2}D input")
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
            f"{input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact "
            f"(got {mode})"
        )
    if min(sizes) <= 0 or 0 in tuple(input.shape[1:]):
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input (H: {tuple(input.shape[2:])}) output (H: {sizes})"
        )
    if input.dtype.category < dtypes.FLOATING and input.dtype is not dtypes.uint8:
        word = "upsample_nearest2d_out_frame" if mode.startswith("nearest") else f"compute_indices_weights_{mode}"
        raise NotImplementedError(f"\"{word}\" not implemented for '{input.dtype.legacy}'")
    if antialias and input.dtype in dtypes.REDUCED:
        raise NotImplementedError(f"\"compute_index_ranges_weights\" not implemented for '{input.dtype.legacy}'")
    return sizes, scales, bool(align_corners)


def resampled(input: Any, sizes: Ints, scales: Any, mode: str, align_corners: bool, antialias: bool) -> Any:
    """``input`` at other sizes, by a plan made for it."""
    kind = np.float64 if input.dtype in (dtypes.float64, dtypes.complex128, dtypes.uint8) else np.float32
    asked = (tuple(input.shape[2:]), sizes, mode, bool(align_corners), tuple(scales), antialias)
    if input.dtype is dtypes.uint8 and len(sizes) == 2 and kind_of(input._array).has_values:
        return resample(input, bytes_plan(*asked))
    return resample(input, sampling_plan(*asked, kind))


@composite(namespace="nn.functional", autocast={"cuda": "float32"}, autocast_except=lambda *values: "area" in values)
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """``input`` with its spatial dimensions at another size.

    Args:
        input: ``(N, C, *)`` with 1 to 3 spatial dimensions, floating point or uint8.
        size: their new size.
        scale_factor: instead of it, factors of their size.
        mode: ``'nearest'``, ``'nearest-exact'``, ``'area'``, ``'linear'`` (1 dimension), ``'bilinear'``, ``'bicubic'``, ``'lanczos'`` (2)
            or ``'trilinear'`` (3).
        align_corners: whether the corner elements' centres coincide, or the corners of the corner elements; for the linear and cubic modes
            only.
        recompute_scale_factor: sample by the ratio of the sizes and not by ``scale_factor``.
        antialias: widen the filter when the image shrinks; bilinear and bicubic only, and always for Lanczos.
    Returns:
        ``(N, C, *size)``, ``input``'s dtype.
    Raises:
        ValueError: sizes, factors or arguments that do not fit each other.
        NotImplementedError: a mode that is unknown, or not for this number of dimensions.
        RuntimeError: an empty input or output.
    Gradient: the transposed linear map.
    Source: torch.nn.functional.interpolate. Keys 1981 for bicubic, Duchon 1979 for Lanczos.
    Example:
        >>> row = torch.tensor([[[0.0, 4.0]]])
        >>> F.interpolate(row, scale_factor=2)
        tensor([[[0., 0., 4., 4.]]])
        >>> F.interpolate(row, size=5, mode="linear", align_corners=True)
        tensor([[[0., 1., 2., 3., 4.]]])
    """
    sizes, scales, align_corners = checked_sizes(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    if mode == "area":
        return resolve("nn.functional", f"adaptive_avg_pool{input.dim() - 2}d")(input, sizes)
    return resampled(input, sizes, scales, mode, align_corners, antialias)


def _deprecated(name: str) -> None:
    warnings.warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", UserWarning, stacklevel=4)


@composite(namespace="nn.functional")
def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None) -> Tensor:
    """Deprecated name of :func:`torch.nn.functional.interpolate`.

    Args:
        input: ``(N, C, *)`` with 1 to 3 spatial dimensions.
        size, scale_factor, mode, align_corners: as there.
    Returns:
        ``(N, C, *size)``, ``input``'s dtype.
    Raises:
        ValueError: sizes or factors that do not fit.
        NotImplementedError: a mode that is unknown, or not for this number of dimensions.
    Source: torch.nn.functional.upsample.
    Example:
        >>> F.upsample(torch.tensor([[[1, 2]]], dtype=torch.float32), scale_factor=2)
        tensor([[[1., 1., 2., 2.]]])
    """
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(namespace="nn.functional")
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated form of ``interpolate(mode='nearest')``.

    Args:
        input: ``(N, C, *)`` with 1 to 3 spatial dimensions.
        size, scale_factor: as for ``interpolate``.
    Returns:
        ``(N, C, *size)``, ``input``'s dtype.
    Raises:
        ValueError: sizes or factors that do not fit.
    Source: torch.nn.functional.upsample_nearest.
    Example:
        >>> F.upsample_nearest(torch.tensor([[[1.0, 2.0]]]), size=3)
        tensor([[[1., 1., 2.]]])
    """
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, "nearest")


@composite(namespace="nn.functional")
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated form of ``interpolate(mode='bilinear', align_corners=True)``.

    Args:
        input: ``(N, C, H, W)``.
        size, scale_factor: as for ``interpolate``.
    Returns:
        ``(N, C, *size)``, ``input``'s dtype.
    Raises:
        ValueError: sizes or factors that do not fit.
        NotImplementedError: another number of dimensions.
    Source: torch.nn.functional.upsample_bilinear.
    Example:
        >>> F.upsample_bilinear(torch.tensor([[[[0.0, 2.0], [4.0, 6.0]]]]), size=3)
        tensor([[[[0., 1., 2.],
                  [2., 3., 4.],
                  [4., 5., 6.]]]])
    """
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)


# -- shuffles ------------------------------------------------------------------------------------------------------------------------
def _check_shuffle(name: str, input: Any, factor: int, word: str) -> None:
    if input.dim() < 3:
        raise RuntimeError(f"{name} expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)")
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {word}, but got {factor}")


def _rearranged(parts: Any, shape: Ints, input: Any) -> Any:
    """A copy of ``parts`` in ``shape`` that lies in memory as ``input`` does: row-major, or with its channels innermost."""
    form = suggested_format(input._array)
    if form is contiguous_format:
        return parts.clone(memory_format=contiguous_format).view(shape)
    return parts.reshape(shape).clone(memory_format=form)


@functional(compiled=True)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels turned into space: r squared channels become one that is r times as high and as wide.

    Args:
        input: ``(*, C * r**2, H, W)``.
        upscale_factor: r, how often a side becomes as long.
    Returns:
        ``(*, C, H * r, W * r)``, ``input``'s dtype. A new tensor.
    Raises:
        RuntimeError: channels that are not divisible by r squared, fewer than 3 dimensions, or an r that is not positive.
    Source: torch.nn.functional.pixel_shuffle. Shi et al. 2016.
    Example:
        >>> torch.pixel_shuffle(torch.arange(4).view(4, 1, 1), 2)
        tensor([[[0, 1],
                 [2, 3]]])
    """
    r = upscale_factor
    _check_shuffle("pixel_shuffle", input, r, "upscale_factor")
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={channels} is not divisible by {r * r}"
        )
    count = len(lead)
    parts = input.reshape(*lead, channels // (r * r), r, r, height, width)
    order = (*range(count), count, count + 3, count + 1, count + 4, count + 2)
    return _rearranged(parts.permute(order), (*lead, channels // (r * r), height * r, width * r), input)


@functional(compiled=True)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Space turned into channels, the inverse of ``pixel_shuffle``.

    Args:
        input: ``(*, C, H * r, W * r)``.
        downscale_factor: r, how often a side becomes as short.
    Returns:
        ``(*, C * r**2, H, W)``, ``input``'s dtype. A new tensor.
    Raises:
        RuntimeError: a height or width that is not divisible by r, fewer than 3 dimensions, or an r that is not positive.
    Source: torch.nn.functional.pixel_unshuffle.
    Example:
        >>> torch.pixel_unshuffle(torch.tensor([[[0, 1], [2, 3]]]), 2).flatten()
        tensor([0, 1, 2, 3])
    """
    r = downscale_factor
    _check_shuffle("pixel_unshuffle", input, r, "downscale_factor")
    *lead, channels, height, width = input.shape
    for word, size in (("height", height), ("width", width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {word} to be divisible by downscale_factor, but {word}={size} is not divisible by {r}"
            )
    count = len(lead)
    parts = input.reshape(*lead, channels, height // r, r, width // r, r)
    order = (*range(count), count, count + 2, count + 4, count + 1, count + 3)
    return _rearranged(parts.permute(order), (*lead, channels * r * r, height // r, width // r), input)


def _check_channels(shape: Any, groups: int) -> None:
    if len(shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if shape[1] % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} groups.")


@functional(compiled=True)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels dealt out anew: those of ``groups`` groups in turns.

    Args:
        input: ``(N, C, *)`` of at least 3 dimensions.
        groups: number of groups that ``C`` is split into.
    Returns:
        ``input``'s shape and dtype. A new tensor.
    Raises:
        RuntimeError: ``C`` not divisible by ``groups``, fewer than 3 dimensions, or ``groups`` not positive.
    Source: torch.nn.functional.channel_shuffle. Zhang et al. 2018, "ShuffleNet".
    Example:
        >>> torch.channel_shuffle(torch.arange(6).view(1, 6, 1), 2).flatten()
        tensor([0, 3, 1, 4, 2, 5])
    """
    _check_channels(input.shape, groups)
    n, channels, *rest = input.shape
    if input.numel() == 0:
        return input.clone()
    return _rearranged(input.reshape(n, groups, channels // groups, *rest).transpose(1, 2), (n, channels, *rest), input)


@op(
    batch="folded",
    method=False,
    out=False,
    grad={"input": lambda grad: complain_derivative("aten::native_channel_shuffle")},
    forward="linear",
)
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """``channel_shuffle`` as PyTorch's kernel, which has no derivative.

    Args:
        input: ``(N, C, *)`` of at least 3 dimensions.
        groups: number of groups that ``C`` is split into.
    Returns:
        ``input``'s shape and dtype. A new tensor.
    Raises:
        RuntimeError: ``C`` not divisible by ``groups``, or fewer than 3 dimensions; in the backward pass, always.
    Source: torch.native_channel_shuffle.
    Example:
        >>> torch.native_channel_shuffle(torch.arange(4).view(1, 4, 1), 2).flatten()
        tensor([0, 2, 1, 3])
    """
    _check_channels(input.shape, groups)
    n, channels, *rest = input.shape
    return np.ascontiguousarray(input.reshape(n, groups, channels // groups, *rest).swapaxes(1, 2)).reshape(n, channels, *rest)
