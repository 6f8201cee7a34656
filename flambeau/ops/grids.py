"""Images looked up at places that a grid names: ``grid_sample``, and the grids of affine maps.

Places are coordinates between -1 and 1 along each spatial dimension, the last dimension first.  Everything is made of differentiable
operations, so that derivatives of every order are there; what is large goes through an operation with a kernel, whose derivative is a
kernel, and whose second derivative is that of the composition.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd.api import grad as gradients_of
from ..autograd.grad_mode import enable_grad, no_grad
from ..core.arrays import native
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite, documented, op
from ..core.state import grad_enabled, in_mode
from ..core.tensor import Tensor as TensorType, wrap
from .creation import ones, zeros
from .masks import where
from .ranges import linspace

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_KERNELS_OF = (np.float32, np.float64)
_CUBIC = -0.75  # the free parameter of Keys' cubic convolution, as in PyTorch
_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify align_corners=True if the "
    "old behavior is desired. See the documentation of grid_sample for details."
)


# -- coordinates ------------------------------------------------------------------------------------------------------------------------
def _in_pixels(coordinate: Any, size: int, align_corners: bool) -> Any:
    """-1 and 1 are the middles of the outermost pixels, or their outer edges."""
    return (coordinate + 1) / 2 * (size - 1) if align_corners else ((coordinate + 1) * size - 1) / 2


def _clipped(place: Any, size: int) -> Any:
    """Within the image; NaN is 0. Nothing flows back where a limit was met."""
    return where(place > 0, where(place < size - 1, place, size - 1), 0)


def _reflected(place: Any, twice_low: int, twice_high: int) -> Any:
    """Mirrored at both limits as often as it takes."""
    if twice_low == twice_high:
        return place * 0
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    distance = place - low
    distance = where(distance < 0, -distance, distance)
    rest = distance.fmod(span)
    return where((distance / span).floor() % 2 == 0, rest + low, span - rest + low)


def _padded(place: Any, size: int, padding: str, align_corners: bool) -> Any:
    """Place within the image that one outside stands for."""
    if padding == "zeros":
        return place
    if padding == "reflection":
        place = _reflected(place, *((0, 2 * (size - 1)) if align_corners else (-1, 2 * size - 1)))
    return _clipped(place, size)


# -- looking up -------------------------------------------------------------------------------------------------------------------------
def _looked_up(flat: Any, spatial: Sequence[int], places: Sequence[Any]) -> Any:
    """The pixels ``(N, C, P)`` at whole places, ``(N, P)`` for each dimension; 0 outside of the image."""
    inside: Any = True
    index: Any = 0
    for place, size in zip(places, spatial, strict=True):
        is_valid = (place >= 0) & (place <= size - 1)
        inside = is_valid & inside
        index = index * size + where(is_valid, place, 0).long()
    pixels = flat.gather(2, index.unsqueeze(1).expand(-1, flat.shape[1], -1))
    return where(inside.unsqueeze(1), pixels, 0)


def _nearest(flat: Any, spatial: Sequence[int], places: Sequence[Any]) -> Any:
    """The nearest pixels, times 1: the grid has a gradient, of zeros."""
    return _looked_up(flat, spatial, places) * places[0].pow(0).unsqueeze(1)


def _linear(flat: Any, spatial: Sequence[int], places: Sequence[Any]) -> Any:
    """The sum over the corners around each place, each weighted by how near it is."""
    floors = [place.detach().floor() for place in places]
    shares = [place - floor for place, floor in zip(places, floors, strict=True)]
    total: Any = 0
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight: Any = 1
        for share, upper in zip(reversed(shares), reversed(corner), strict=True):  # in PyTorch's order: float16 shows it
            weight = (share if upper else 1 - share) * weight
        total = (
            _looked_up(flat, spatial, [floor + upper for floor, upper in zip(floors, corner, strict=True)]) * weight.unsqueeze(1) + total
        )
    return total


def _cubic_weights(share: Any) -> list[Any]:
    """Of the four pixels around a place that is ``share`` beyond the second."""

    def near(x: Any) -> Any:
        return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((_CUBIC * x - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC

    return [far(share + 1), near(share), near(1 - share), far(2 - share)]


def _cubic(flat: Any, spatial: Sequence[int], places: Sequence[Any], padding: str, align_corners: bool) -> Any:
    floors = [place.detach().floor() for place in places]
    weights = [_cubic_weights(place - floor) for place, floor in zip(places, floors, strict=True)]
    lines = [
        [_padded(floor + offset, size, padding, align_corners) for offset in (-1, 0, 1, 2)]
        for floor, size in zip(floors, spatial, strict=True)
    ]
    total: Any = 0
    for down in range(4):
        row: Any = 0
        for across in range(4):
            row = _looked_up(flat, spatial, [lines[0][down], lines[1][across]]) * weights[1][across].unsqueeze(1) + row
        total = row * weights[0][down].unsqueeze(1) + total
    return total


def _composed(input: Any, grid: Any, mode: str, padding: str, align_corners: bool) -> Any:
    """The whole in differentiable operations."""
    spatial = tuple(input.shape[2:])
    flat = input.flatten(2)
    coordinates = grid.flatten(1, -2).unbind(2)[::-1]
    places = [_in_pixels(coordinate, size, align_corners) for coordinate, size in zip(coordinates, spatial, strict=True)]
    if mode == "bicubic":
        result = _cubic(flat, spatial, places, padding, align_corners)
    else:
        places = [_padded(place, size, padding, align_corners) for place, size in zip(places, spatial, strict=True)]
        result = _linear(flat, spatial, places) if mode == "bilinear" else _nearest(flat, spatial, [place.round() for place in places])
    return result.reshape(*input.shape[:2], *grid.shape[1:-1])


def _gradients(grad: Any, input: Any, grid: Any, mode: str, padding: str, align_corners: bool, needs: Sequence[bool]) -> tuple[Any, ...]:
    """Of a sampling that a kernel did: by a kernel too, or where they are recorded, or there is none, by the composition."""
    is_recorded = grad_enabled()
    if not is_recorded:
        arrays = grad._array, input._array, grid._array
        made = _gradients_of_arrays(*arrays, mode, padding, align_corners, *map(bool, needs))
        if made is not None:
            return tuple([wrap(array) if need else None for array, need in zip(made, needs, strict=True)])
    with enable_grad():
        # Aliases: a gradient at an operand must not pass through it to another one that it was computed from.
        own, lines = [
            operand.view_as(operand) if is_recorded else operand.detach().requires_grad_(need)
            for operand, need in zip((input, grid), needs, strict=True)
        ]
        result = _composed(own, lines, mode, padding, align_corners)
    wanted = [alias for alias, need in zip((own, lines), needs, strict=True) if need]
    given = iter(gradients_of(result, wanted, grad, create_graph=is_recorded, allow_unused=True))
    return tuple([next(given) if need else None for need in needs])


@native.part("_grid_sample_backward", work="grid.size")
def _gradients_of_arrays(
    grad: np.ndarray, input: np.ndarray, grid: np.ndarray, mode: str, padding: str, align_corners: bool, to_input: bool, to_grid: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """None where the composition gives them."""
    return None


def _of_kernel(rank: int) -> Any:
    @op(
        name=f"_grid_sample{rank}d",
        batch="folded",
        work="grid.size",
        node_name=f"GridSampler{rank}DBackward0",
        grad={"input, grid": _gradients},
    )
    def sampled(input: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool) -> Tensor:
        with no_grad():
            return _composed(wrap(input), wrap(grid), mode, padding, align_corners)._array

    return sampled


_SAMPLED = {rank: _of_kernel(rank) for rank in (2, 3)}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(f"grid_sampler(): {message}")


@composite(method=False, autocast={"cpu": "float32", "cuda": "widest"})
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """``nn.functional.grid_sample`` with numbers for its modes.

    Args:
        input: ``(N, C, H, W)`` or ``(N, C, D, H, W)``, floating point.
        grid: ``(N, *out, 2)`` or ``(N, *out, 3)``.
        interpolation_mode: 0 for 'bilinear', 1 for 'nearest', 2 for 'bicubic'.
        padding_mode: 0 for 'zeros', 1 for 'border', 2 for 'reflection'.
        align_corners: as for ``grid_sample``.
    Returns:
        ``(N, C, *out)``, ``input``'s dtype.
    Raises:
        RuntimeError: shapes or dtypes that do not fit together.
        NotImplementedError: an integer dtype.
    Gradient: as of ``grid_sample``.
    Source: torch.grid_sampler.
    Example:
        >>> image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> torch.grid_sampler(image, torch.zeros(1, 1, 1, 2), 0, 0, False)
        tensor([[[[2.5000]]]])
    """
    rank = input.ndim - 2
    sizes = f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    _require(input.shape[:1] == grid.shape[:1], f"expected grid and input to have same batch size, but got {sizes}")
    _require(grid.shape[-1] == rank, f"expected grid to have size {rank} in last dimension, but got grid with sizes {list(grid.shape)}")
    _require(
        rank in (2, 3) and grid.ndim == input.ndim, f"expected 4D or 5D input and grid with same number of dimensions, but got {sizes}"
    )
    mode, padding = _MODES[interpolation_mode], _PADDINGS[padding_mode]
    _require(rank == 2 or mode != "bicubic", "bicubic interpolation only supports 4D input")
    spatial = tuple(input.shape[2:])
    for dim, size in enumerate(spatial, 2):
        _require(
            size > 0,
            f"expected input to have non-empty spatial dimensions, but input has sizes {list(input.shape)} with dimension {dim} being "
            "empty",
        )
    if input.dtype is not grid.dtype:
        raise RuntimeError(f"expected scalar type {input.dtype.legacy} but found {grid.dtype.legacy}")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"grid_sampler_{rank}d_cpu_kernel_impl\" not implemented for '{input.dtype.legacy}'")
    align_corners = bool(align_corners)
    plain = input.__class__ is TensorType and grid.__class__ is TensorType and input._array.__class__ is np.ndarray and not in_mode()
    given = mode, padding, align_corners
    if plain and input.dtype.numpy in _KERNELS_OF and input._array.size and native.runs(_SAMPLED[rank], input._array, grid._array, *given):
        return _SAMPLED[rank].wrapper(input, grid, *given)
    return _composed(input, grid, mode, padding, align_corners)


def _of_rank(rank: int, shape: str) -> Any:
    @composite(name=f"grid_sampler_{rank}d", method=False, autocast={"cpu": "float32"})
    @documented(
        rank=rank, shape=shape, count=2.0**rank, image=(1, 1, *(2,) * rank), middle=(*(1,) * (rank + 1), rank), value=(2**rank - 1) / 2
    )
    def sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
        """:func:`torch.grid_sampler` of ``{rank}`` dimensions.

        Args:
            input: ``{shape}``, floating point.
            grid: ``(N, *out, {rank})``, of ``input``'s dtype.
            interpolation_mode, padding_mode, align_corners: as for ``grid_sampler``.
        Returns:
            ``(N, C, *out)``, ``input``'s dtype.
        Raises:
            RuntimeError: another number of dimensions; shapes or dtypes that do not fit together.
            NotImplementedError: an integer dtype.
        Gradient: as of ``grid_sample``.
        Source: torch.grid_sampler_{rank}d.
        Example:
            >>> image = torch.arange({count}).reshape({image})
            >>> torch.grid_sampler_{rank}d(image, torch.zeros({middle}), 0, 0, False).item()
            {value}
        """
        _require(input.ndim == rank + 2, f"expected {rank + 2}D input, but got input with sizes {list(input.shape)}")
        return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)

    return sampler


grid_sampler_2d, grid_sampler_3d = _of_rank(2, "(N, C, H, W)"), _of_rank(3, "(N, C, D, H, W)")


@composite(namespace="nn.functional", method=False, autocast={"cpu": "float32", "cuda": "widest"})
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """The pixels of ``input`` at the places of ``grid``, interpolated.

    Args:
        input: ``(N, C, H, W)`` or ``(N, C, D, H, W)``, floating point.
        grid: ``(N, *out, 2)`` or ``(N, *out, 3)``: x, y (and z) between -1 and 1.
        mode: 'bilinear' (trilinear in three dimensions), 'nearest' or, in two dimensions, 'bicubic'.
        padding_mode: what stands outside: 'zeros', the nearest pixel ('border') or the mirrored image ('reflection').
        align_corners: whether -1 and 1 are the middles of the outermost pixels instead of their edges; by default not, with a warning.
    Returns:
        ``(N, C, *out)``, ``input``'s dtype.
    Raises:
        ValueError: another mode.
        RuntimeError: shapes or dtypes that do not fit together.
        NotImplementedError: an integer dtype.
    Gradient: to the pixels by their weights, to ``grid`` the slope of the interpolation; 0 to it for 'nearest'.
    Source: torch.nn.functional.grid_sample; Jaderberg et al. 2015.
    Example:
        >>> image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> places = torch.tensor([[[[0.0, 0.0], [1.0, -1.0]]]])  # the middle, and top right
        >>> F.grid_sample(image, places, align_corners=True)
        tensor([[[[2.5000, 2.0000]]]])
    """
    if mode not in _MODES:
        raise ValueError(f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in _PADDINGS:
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(_CHANGED, stacklevel=2)
    return grid_sampler(input, grid, _MODES.index(mode), _PADDINGS.index(padding_mode), bool(align_corners))


# -- affine maps ------------------------------------------------------------------------------------------------------------------------
def _line(theta: Any, count: int, align_corners: bool) -> Any:
    """The coordinates of ``count`` pixels."""
    if count <= 1:
        return zeros(count, dtype=theta.dtype, device=theta.device)
    line = linspace(-1, 1, count, dtype=theta.dtype, device=theta.device)
    return line if align_corners else line * (count - 1) / count


@composite(method=False)
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """``nn.functional.affine_grid`` without its checks.

    Args:
        theta: ``(N, 2, 3)`` or ``(N, 3, 4)``, floating point.
        size: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: as for ``grid_sample``.
    Returns:
        ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``, ``theta``'s dtype.
    Raises:
        RuntimeError: a ``theta`` of another shape.
    Gradient: ``grad`` times the grid's coordinates, summed.
    Source: torch.affine_grid_generator.
    Example:
        >>> mirror = torch.tensor([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> torch.affine_grid_generator(mirror, [1, 1, 1, 3], True)[0, 0, :, 0]
        tensor([ 1.,  0., -1.])
    """
    batch, spatial = size[0], tuple(size[2:])
    rank = len(spatial)
    base = ones(*spatial, rank + 1, dtype=theta.dtype, device=theta.device)
    for k, count in enumerate(spatial):
        base[..., rank - 1 - k] = _line(theta, count, align_corners).reshape(-1, *(1,) * (rank - 1 - k))
    flat = base.reshape(1, -1, rank + 1).expand(batch, -1, -1)
    return flat.bmm(theta.transpose(1, 2)).reshape(batch, *spatial, rank)


@composite(namespace="nn.functional", method=False)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid for ``grid_sample`` that maps each pixel of an image of ``size`` by an affine map.

    Args:
        theta: ``(N, 2, 3)`` or ``(N, 3, 4)``, floating point: the matrix and, in the last column, the shift.
        size: ``(N, C, H, W)`` or ``(N, C, D, H, W)``, of the image that is to come out.
        align_corners: as for ``grid_sample``; by default not, with a warning.
    Returns:
        ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``, ``theta``'s dtype.
    Raises:
        ValueError: another dtype or shape of ``theta``, or an empty size.
        NotImplementedError: a size of another rank.
    Gradient: ``grad`` times the grid's coordinates, summed.
    Source: torch.nn.functional.affine_grid.
    Example:
        >>> mirror = torch.tensor([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> grid = F.affine_grid(mirror, (1, 1, 1, 3), align_corners=True)
        >>> F.grid_sample(torch.tensor([[[[1.0, 2.0, 3.0]]]]), grid, align_corners=True)
        tensor([[[[3., 2., 1.]]]])
    """
    if align_corners is None:
        warnings.warn(_CHANGED, stacklevel=2)
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    size = tuple(size)
    if len(size) not in (4, 5):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {size}."
        )
    rank = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (rank, rank + 1):
        raise ValueError(f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {size}. Got {theta.shape!r}.")
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This is not an intended "
            "use case of affine_grid. See the documentation of affine_grid for details.",
            stacklevel=2,
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, bool(align_corners))
