"""Max pooling: windows, adaptive bins, and with the places of the maxima.

Pooling without indices keeps its input alone: its derivative takes the maxima again and looks where they are, which in NumPy costs less
than noting the places in the forward pass. The result is free to be written to, as PyTorch's is. With indices, and where native kernels
note them, the derivative scatters to them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays import native
from ..core.arrays.kinds import kind_of
from ..core.calls.annotations import Tensor
from ..core.calls.casting import opmath
from ..core.calls.registry import composite, documented, op
from ..core.state import grad_enabled, interpreters
from ..core.tape.ties import tied
from .arithmetic import reject
from .patches import FOLDED, Ints, in_layout, ints, is_channels_last, new_like, padded, product, taps


def pooled_size(size: int, kernel_size: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Number of windows along a dimension; with ``ceil_mode`` the last one may begin inside and end outside."""
    span = size + 2 * padding - dilation * (kernel_size - 1) - 1
    if not ceil_mode:
        return span // stride + 1
    count = -(-span // stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count


def pool_geometry(
    name: str, rank: int, shape: Ints, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Kernel, stride, padding, dilation and output size per dimension, checked.

    Raises:
        RuntimeError: geometry that does not fit ``shape``.
    """
    kernel_size = ints(kernel_size, rank, name, "kernel_size", what="pooling")
    stride = kernel_size if stride is None or stride == () or stride == [] else ints(stride, rank, name, "stride", what="pooling")
    padding, dilation = ints(padding, rank, name, "padding", what="pooling"), ints(dilation, rank, name, "dilation", what="pooling")
    if name == "max_pool1d":
        for word, value in (("kernel_size", kernel_size[0]), ("stride", stride[0]), ("dilation", dilation[0])):
            if value <= 0:
                raise RuntimeError(f"max_pool1d() {word} must be greater than zero, but got {value}")
    if min(kernel_size) <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got {name} kernel_size={kernel_size}")
    if min(stride) <= 0:
        raise RuntimeError(f"stride should not be zero, but got {name} stride={stride}")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {name} dilation={dilation}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: pad must be non-negative, but got pad: {min(padding)}")
    for p, k, d in zip(padding, kernel_size, dilation, strict=True):
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}")
    if len(shape) not in (rank + 1, rank + 2) and rank > 1 and name.startswith("max_pool"):
        raise RuntimeError(f"non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for input")
    if len(shape) not in (rank + 1, rank + 2) or 0 in shape[-rank - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for input, but "
            f"got:{list(shape)}"
        )
    spatial = shape[-rank:]
    size = tuple([pooled_size(*window, ceil_mode) for window in zip(spatial, kernel_size, stride, padding, dilation, strict=True)])
    if min(size) < 1:
        channels = shape[-rank - 1]
        if name == "max_pool1d":
            raise RuntimeError(f"max_pool1d() Invalid computed output size: {size[0]}")
        raise RuntimeError(
            f"Given input size: ({'x'.join(map(str, (channels, *spatial)))}). Calculated output size: "
            f"({'x'.join(map(str, (channels, *size)))}). Output size is too small"
        )
    return kernel_size, stride, padding, dilation, size


def lowest(dtype: np.dtype) -> Any:
    """A value that no element is below."""
    return -math.inf if dtypes.BY_NUM[dtype.num].is_floating_point else np.iinfo(dtype).min


def _framed(array: np.ndarray, geometry: tuple[Ints, ...], value: Any) -> np.ndarray:
    """``array`` with ``value`` around it, as far as the windows reach."""
    kernel_size, stride, padding, dilation, size = geometry
    spatial = array.shape[-len(kernel_size) :]
    after = [
        max(0, (n - 1) * s + d * (k - 1) + 1 - length - p)
        for n, s, d, k, length, p in zip(size, stride, dilation, kernel_size, spatial, padding, strict=True)
    ]
    return padded(array, padding, after, value)


def _check_max(array: np.ndarray, kernel: str = "max_pool2d") -> None:
    if array.dtype.kind in ("cb" if kernel == "max_pool2d" else "cbiu"):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtypes.of_array(array).legacy}'")


def _maxima(input: np.ndarray, geometry: tuple[Ints, ...]) -> np.ndarray:
    framed = _framed(input, geometry, lowest(input.dtype))
    kernel_size, stride, _, dilation, size = geometry
    parts = [framed[(..., *where)] for _, where in taps(kernel_size, stride, dilation, size)]
    result = np.maximum(parts[0], parts[1]) if len(parts) > 1 else parts[0].copy(order="K")
    for part in parts[2:]:
        np.maximum(result, part, out=result)
    return result


def _shares(input: np.ndarray, geometry: tuple[Ints, ...]) -> Any:
    """For each place in the window, where it is, and which windows have their maximum there: the first one, or the last NaN."""
    values = _maxima(input, geometry)
    kernel_size, stride, _, dilation, size = geometry
    framed = _framed(input, geometry, math.nan)  # equal to no maximum
    count, left = product(kernel_size), None
    nans = _last_nans(input, values, geometry) if np.isnan(values).any() else None
    for k, (_, where) in enumerate(taps(kernel_size, stride, dilation, size)):
        chosen = np.equal(framed[(..., *where)], values)
        if left is None:
            left = ~chosen
        else:
            chosen &= left
            if k < count - 1:
                left &= ~chosen
        if nans is not None:
            chosen |= nans == k
        yield where, chosen


def _last_nans(input: np.ndarray, values: np.ndarray, geometry: tuple[Ints, ...]) -> np.ndarray:
    """Number of the last place in each window that is NaN; -1 where none is."""
    kernel_size, stride, _, dilation, size = geometry
    framed = _framed(np.isnan(input).astype(np.int8), geometry, 0)
    last = np.full(values.shape, -1)
    for k, (_, where) in enumerate(taps(kernel_size, stride, dilation, size)):
        last[framed[(..., *where)] != 0] = k
    return last


@op(
    **FOLDED,
    name="_max_pool_backward",
    promotion="same",
    fast=True,
    grad={
        "grad_output": lambda grad, input, kernel_size, stride, padding, dilation, ceil_mode: max_pool_pick(
            grad, input, kernel_size, stride, padding, dilation, ceil_mode
        ),
        "input": lambda grad: grad.new_zeros(grad.shape),
    },
)
def max_pool_backward(
    grad_output: Tensor, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Tensor:
    """``grad_output`` at the place of each window's maximum."""
    rank = len(kernel_size)
    geometry = pool_geometry("max_pool", rank, input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    kernel_size, stride, padding, dilation, size = geometry
    spatial = input.shape[-rank:]
    reach = [
        max(length + p, (n - 1) * s + d * (k - 1) + 1)
        for length, p, n, s, d, k in zip(
            [p + length for p, length in zip(padding, spatial, strict=True)], padding, size, stride, dilation, kernel_size, strict=True
        )
    ]
    apart = all(s >= d * (k - 1) + 1 for s, d, k in zip(stride, dilation, kernel_size, strict=True))
    gradient = new_like(input, (*input.shape[:-rank], *reach), zeros=True)
    for where, chosen in _shares(input, geometry):
        if apart:  # windows do not overlap: each element is written once
            np.multiply(grad_output, chosen, out=gradient[(..., *where)])
        else:
            gradient[(..., *where)] += grad_output * chosen
    if gradient.shape != input.shape:
        gradient = gradient[(..., *[slice(p, p + length) for p, length in zip(padding, spatial, strict=True)])]
    return in_layout(gradient, is_channels_last(input))


@op(
    **FOLDED,
    name="_max_pool_pick",
    promotion="same",
    grad={
        "source": lambda grad, input, kernel_size, stride, padding, dilation, ceil_mode: max_pool_backward(
            grad, input, kernel_size, stride, padding, dilation, ceil_mode
        )
    },
    forward="linear",
)
def max_pool_pick(source: Tensor, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Tensor:
    """Elements of ``source`` at the position of each window's maximum of ``input``."""
    geometry = pool_geometry("max_pool", len(kernel_size), input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    framed = _framed(source, geometry, 0)
    result = np.zeros((*input.shape[: -len(kernel_size)], *geometry[4]), source.dtype)
    for where, chosen in _shares(input, geometry):
        np.copyto(result, framed[(..., *where)], where=chosen)
    return result


def max_pool(input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Tensor:
    """The largest element of each window; ``kernel_size`` is a tuple."""
    rank = len(kernel_size)
    _check_max(input, "max_pool1d_impl" if rank == 1 else "max_pool2d")
    geometry = pool_geometry(f"max_pool{rank}d", rank, input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    return in_layout(_maxima(input, geometry), is_channels_last(input))


_MAX_POOLS: dict[int, Any] = {
    rank: op(
        name=f"_max_pool{rank}d",
        **FOLDED,
        node_name=f"MaxPool{max(rank, 2)}DWithIndicesBackward0",
        promotion="same",
        fast=True,
        grad={
            "input": lambda grad, input, kernel_size, stride, padding, dilation, ceil_mode: max_pool_backward(
                grad, input, kernel_size, stride, padding, dilation, ceil_mode
            )
        },
        forward=lambda tangent, input, kernel_size, stride, padding, dilation, ceil_mode: max_pool_pick(
            tangent, input, kernel_size, stride, padding, dilation, ceil_mode
        ),
    )(max_pool)
    for rank in (1, 2, 3)
}


# -- with indices --------------------------------------------------------------------------------------------------------------
@op(
    **FOLDED,
    name="_scatter_planes",
    work="prod(source.shape[: source.ndim - len(spatial)]) * prod(spatial)",
    grad={"source": lambda grad, indices, spatial: gather_planes(grad, indices, len(spatial))},
    forward="linear",
)
def scatter_planes(source: Tensor, indices: Tensor, spatial: Any) -> Tensor:
    """``(*, *spatial)`` zeros with ``source`` added at ``indices``, which count through the last dimensions of one plane.

    The result's layout is that of ``indices``.
    """
    lead = source.shape[: source.ndim - len(spatial)]
    planes, area = product(lead), product(spatial)
    result = np.zeros(planes * area, source.dtype)
    np.add.at(result, _flat(indices, planes, area), source.reshape(-1))
    return in_layout(result.reshape(*lead, *spatial), is_channels_last(indices))


@op(
    **FOLDED,
    name="_gather_planes",
    grad={"source": lambda grad, indices, rank, source_shape: scatter_planes(grad, indices, source_shape[-rank:])},
    forward="linear",
)
def gather_planes(source: Tensor, indices: Tensor, rank: int) -> Tensor:
    """Elements of ``source`` at ``indices``, which count through the last ``rank`` dimensions: one plane."""
    planes, area = product(source.shape[:-rank]), product(source.shape[-rank:])
    return source.reshape(-1).take(_flat(indices, planes, area)).reshape(indices.shape)


def to_places(grad: Any, places: Any, rank: int, input_shape: Any, node: Any) -> Any:
    """The gradient of elements that were chosen as the largest: ``grad`` at their places."""
    return tied(scatter_planes(grad, places, input_shape[-rank:]), node.edges[0])


def _flat(indices: np.ndarray, planes: int, area: int) -> np.ndarray:
    return (indices.reshape(planes, indices.size // max(planes, 1)) + np.arange(planes)[:, None] * area).reshape(-1)


def _max_places(framed: np.ndarray, source_at: tuple[np.ndarray, ...], spatial: Ints, geometry: tuple[Ints, ...]) -> Any:
    """Maxima and their places; an element counts if it is larger than all before it, or NaN, as in PyTorch's loop."""
    kernel_size, stride, _, dilation, size = geometry
    best: Any = None
    for at, where in taps(kernel_size, stride, dilation, size):
        part = framed[(..., *where)]
        place: Any = 0
        inside: Any = True
        for dim, (starts, k, d, length) in enumerate(zip(source_at, at, dilation, spatial, strict=True)):
            along = (starts + k * d).reshape(-1, *(1,) * (len(spatial) - 1 - dim))
            inside = inside & (along >= 0) & (along < length)
            place = place * length + along
        inside, place = np.broadcast_to(inside, size), np.broadcast_to(place, size)
        if best is None:
            best, places = np.full(part.shape, lowest(part.dtype), part.dtype), np.full(part.shape, -1, np.int64)
        better = (part > best) | (places < 0)
        if part.dtype.kind == "f":
            better |= np.isnan(part)
        better &= inside
        np.copyto(best, part, where=better)
        np.copyto(places, place, where=better)
    return best, places


def max_pool_with_places(input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Tensor:
    """The largest element of each window, and its place in the plane."""
    wide, rank, last = opmath(input), len(kernel_size), is_channels_last(input)
    _check_max(wide)
    geometry = pool_geometry(f"max_pool{rank}d", rank, input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    framed = _framed(wide, geometry, lowest(wide.dtype))
    starts = tuple([np.arange(n) * s - p for n, s, p in zip(geometry[4], geometry[1], geometry[2], strict=True)])
    values, indices = _max_places(framed, starts, input.shape[-rank:], geometry)
    return in_layout(values, last).astype(input.dtype, copy=False), in_layout(indices, last)


_MAX_POOLS_WITH_INDICES: dict[int, Any] = {
    rank: op(
        name=f"_max_pool{rank}d_with_places",
        **FOLDED,
        node_name=f"MaxPool{max(rank, 2)}DWithIndicesBackward0",
        multi_output=True,
        fast=True,
        grad={"input": lambda grad, result1, kernel_size, input_shape, node: to_places(grad, result1, len(kernel_size), input_shape, node)},
    )(max_pool_with_places)
    for rank in (1, 2, 3)
}


_NOTED = (np.dtype(np.float32), np.dtype(np.float64))


def _pool(rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, return_indices: bool) -> Any:
    name = f"max_pool{rank}d"
    kernel_size = ints(kernel_size, rank, name, "kernel_size", what="pooling")
    if return_indices or _notes_places(rank, input):
        result = _MAX_POOLS_WITH_INDICES[rank].wrapper(input, kernel_size, stride, padding, dilation, ceil_mode)
        return result if return_indices else result[0]
    return _MAX_POOLS[rank].wrapper(input, kernel_size, stride, padding, dilation, ceil_mode)


def _notes_places(rank: int, input: Any) -> bool:
    """Whether a gradient will be wanted of a large input for which the native kernels are there: they note places at little cost."""
    array = getattr(input, "_array", None)
    return (
        array is not None
        and rank < 3
        and input._requires_grad
        and grad_enabled()
        and array.dtype in _NOTED
        and native.runs(_MAX_POOLS_WITH_INDICES[rank], _array_inside(input))
    )


def _array_inside(input: Any) -> Any:
    """The array of a tensor; of all examples, where it stands for a batch of them."""
    while interpreters and hasattr(input, "_inner"):
        input = input._inner
    return input._array


@composite(namespace="nn.functional")
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest element of each window of a row.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``, numbers.
        kernel_size, stride, padding, dilation, ceil_mode: as for ``max_pool2d``; numbers of elements.
        return_indices: also return the maxima's places in the row.
    Returns:
        ``(N, C, L')``, ``input``'s dtype; or a tuple of it and int64 indices of that shape.
    Raises:
        RuntimeError: a window or a padding that does not fit.
        NotImplementedError: bool or complex input.
    Source: torch.nn.functional.max_pool1d.
    Example:
        >>> F.max_pool1d(torch.tensor([[1.0, 4.0, 3.0, 2.0, 0.0]]), 3, stride=1, return_indices=True)
        (tensor([[4., 4., 3.]]), tensor([[1, 1, 2]]))
    """
    return _pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite(namespace="nn.functional")
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest element of each window of an image.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``, numbers.
        kernel_size: size of the windows, an int or one per dimension.
        stride: step between windows; ``kernel_size`` when None.
        padding: elements of minus infinity on each side, at most half of the kernel.
        dilation: step between the elements of a window.
        ceil_mode: round the number of windows up, so that the last one may end outside.
        return_indices: also return the maxima's places, counted through the plane.
    Returns:
        ``(N, C, H', W')``, ``input``'s dtype; or a tuple of it and int64 indices of that shape.
    Raises:
        RuntimeError: a window or a padding that does not fit, or another number of dimensions.
        NotImplementedError: bool or complex input.
    Gradient: ``grad`` to the first maximum of each window.
    Source: torch.nn.functional.max_pool2d.
    Example:
        >>> image = torch.arange(16.0).view(1, 4, 4)
        >>> F.max_pool2d(image, 2)
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
        >>> F.max_pool2d(image, 3, stride=1, padding=1).shape
        torch.Size([1, 4, 4])
    """
    return _pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite(namespace="nn.functional", autocast={"cpu": "float32"}, autocast_except=lambda *values: values[-1] is True)  # return_indices
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest element of each window of a volume.

    Args:
        input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``, numbers.
        kernel_size, stride, padding, dilation, ceil_mode: as for ``max_pool2d``; numbers of elements.
        return_indices: also return the maxima's places, counted through the volume.
    Returns:
        ``(N, C, D', H', W')``, ``input``'s dtype; or a tuple of it and int64 indices of that shape.
    Raises:
        RuntimeError: a window or a padding that does not fit, or another number of dimensions.
        NotImplementedError: bool or complex input.
    Source: torch.nn.functional.max_pool3d.
    Example:
        >>> F.max_pool3d(torch.arange(64.0).view(1, 4, 4, 4), (4, 2, 2))
        tensor([[[[53., 55.],
                  [61., 63.]]]])
    """
    return _pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _declare_forms(rank: int, shape: str, places: list[int]) -> None:
    """``torch.max_pool2d`` (no indices) and ``max_pool2d_with_indices`` (always)."""
    example = f"torch.arange({4**rank}.0).view(1{rank * ', 4'})"
    with_words = documented(rank=rank, shape=shape, example=example, places=places, values=[float(place) for place in places])

    @composite(name=f"max_pool{rank}d", method=False, autocast={"cpu": "float32"} if rank == 3 else None)
    @with_words
    def plain(input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        """Largest element of each window: ``nn.functional.max_pool{rank}d`` without indices.

        Args:
            input: ``(N, C, {shape})`` or ``(C, {shape})``, numbers.
            kernel_size, stride, padding, dilation, ceil_mode: as for ``nn.functional.max_pool2d``.
        Returns:
            ``(N, C, *)``, ``input``'s dtype.
        Raises:
            RuntimeError: a window or a padding that does not fit.
            NotImplementedError: bool or complex input.
        Source: torch.max_pool{rank}d.
        Example:
            >>> torch.max_pool{rank}d({example}, 2).flatten().tolist()
            {values}
        """
        return _pool(rank, input, kernel_size, stride, padding, dilation, ceil_mode, False)

    @composite(name=f"max_pool{rank}d_with_indices", namespace="nn.functional")
    @with_words
    def indexed(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """Largest element of each window, and its place: ``max_pool{rank}d`` with ``return_indices=True``.

        Args:
            input: ``(N, C, {shape})`` or ``(C, {shape})``, numbers.
            kernel_size, stride, padding, dilation, ceil_mode: as for ``nn.functional.max_pool2d``.
            return_indices: without effect.
        Returns:
            ``(N, C, *)`` in ``input``'s dtype, and int64 indices of that shape.
        Raises:
            RuntimeError: a window or a padding that does not fit.
            NotImplementedError: bool or complex input.
        Source: torch.nn.functional.max_pool{rank}d_with_indices.
        Example:
            >>> F.max_pool{rank}d_with_indices({example}, 2)[1].flatten().tolist()
            {places}
        """
        return _pool(rank, input, kernel_size, stride, padding, dilation, ceil_mode, True)


for _rank, _shape, _places in (
    (1, "L", [1, 3]),
    (2, "H, W", [5, 7, 13, 15]),
    (3, "D, H, W", [21, 23, 29, 31, 53, 55, 61, 63]),
):
    _declare_forms(_rank, _shape, _places)


# -- adaptive ------------------------------------------------------------------------------------------------------------------
def bins(size: int, count: int) -> list[tuple[int, int]]:
    """Start and stop of each of ``count`` bins that cover ``size`` elements; neighbours may share an element."""
    return [(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]


def adaptive_size(name: str, rank: int, output_size: Any, shape: Ints) -> Ints:
    """Output size per dimension; None keeps the input's.

    Raises:
        RuntimeError: a wrong number of sizes, negative ones, or an input that has no elements to pool.
    """
    if isinstance(output_size, (tuple, list)):
        if rank > 1 and len(shape) <= len(output_size):
            raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
        sizes = [s if s is None else s.__index__() for s in output_size]
        if len(sizes) == 1 and rank == 1:
            pass
        elif len(sizes) != rank:
            if rank == 1:
                raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(sizes)})")
            if "avg" in name:
                raise RuntimeError(f"{name}: output_size must be {rank}")
            raise RuntimeError(f"{name}(): internal error: output_size.size() must be {rank}")
    else:
        sizes = [output_size if output_size is None else output_size.__index__()] * rank
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got {list(shape)}")
    first = 1 if len(shape) == rank + 2 and ("max" in name or rank == 3) else len(shape) - rank  # whether channels count
    for dim in range(first, len(shape)):
        if shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {list(shape)} with "
                f"dimension {dim} being empty"
            )
    lengths = tuple([length if s is None else s for s, length in zip(sizes, shape[-rank:], strict=True)])
    if min(lengths) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(lengths)}; "
            f"Trying to create tensor with negative dimension {min(lengths)}"
        )
    return lengths


def _adaptive_max(input: np.ndarray, size: Ints) -> tuple[np.ndarray, np.ndarray]:
    """Maxima of the bins and their places."""
    if input.dtype.kind in "biuc" and kind_of(input).has_values:
        reject("adaptive_max_pool2d", input, "biuc")
    rank = len(size)
    spatial = input.shape[-rank:]
    lead = input.shape[:-rank]
    values, indices = np.empty((*lead, *size), input.dtype), np.empty((*lead, *size), np.int64)
    limits = [bins(length, count) for length, count in zip(spatial, size, strict=True)]
    for at in np.ndindex(*size):
        box = [limit[k] for limit, k in zip(limits, at, strict=True)]
        part = input[(..., *[slice(*bounds) for bounds in box])]
        flat = part.reshape(*lead, product(part.shape[len(lead) :]))
        place = flat.argmax(-1) if input.dtype.kind != "f" else _argmax_last_nan(flat)
        values[(..., *at)] = np.take_along_axis(flat, place[..., None], -1)[..., 0]
        inner = np.unravel_index(place, part.shape[-rank:])
        flat_place: Any = 0
        for offset, (start, _), length in zip(inner, box, spatial, strict=True):
            flat_place = flat_place * length + offset + start
        indices[(..., *at)] = flat_place
    return values, indices


def _argmax_last_nan(flat: np.ndarray) -> np.ndarray:
    """Place of the first maximum, or of the last NaN where there is one."""
    place = flat.argmax(-1)
    nan = np.isnan(flat)
    if nan.any():
        last = flat.shape[-1] - 1 - nan[..., ::-1].argmax(-1)
        place = np.where(nan.any(-1), last, place)
    return place


def adaptive_max_pool(input: Tensor, size: Any) -> Tensor:
    """Maxima over bins, and their places."""
    size = tuple(size)
    last = is_channels_last(input)
    values, indices = _adaptive_max(opmath(input), size)
    return in_layout(values.astype(input.dtype, copy=False), last), in_layout(indices, last)


_ADAPTIVE_MAX: dict[int, Any] = {
    rank: op(
        name=f"_adaptive_max_pool{rank}d",
        **FOLDED,
        node_name=f"AdaptiveMaxPool{max(rank, 2)}DBackward0",
        multi_output=True,
        fast=True,
        grad={"input": lambda grad, result1, size, input_shape, node: to_places(grad, result1, len(size), input_shape, node)},
    )(adaptive_max_pool)
    for rank in (1, 2, 3)
}


def _adaptive(rank: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    size = adaptive_size(f"adaptive_max_pool{rank}d", rank, output_size, tuple(input.shape))
    values, indices = _ADAPTIVE_MAX[rank].wrapper(input, size)
    return (values, indices) if return_indices else values


def _declare_adaptive(rank: int, shape: str, places: list[int]) -> None:
    example = f"torch.arange({5**rank}.0).view(1{rank * ', 5'})"
    with_words = documented(rank=rank, shape=shape, example=example, places=places, values=[float(place) for place in places])

    @composite(name=f"adaptive_max_pool{rank}d", namespace="nn.functional", autocast={"cpu": "float32"} if rank == 3 else None)
    @with_words
    def adaptive(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """Largest element of each of a given number of bins along each dimension; neighbours may share an element.

        Args:
            input: ``(N, C, {shape})`` or ``(C, {shape})``, real.
            output_size: number of bins, an int or one per dimension; None keeps a dimension's size.
            return_indices: also return the maxima's places, counted through the plane.
        Returns:
            ``(N, C, *output_size)``, ``input``'s dtype; or a tuple of it and int64 indices of that shape.
        Raises:
            RuntimeError: an empty or misshapen input, or a wrong number of sizes.
            NotImplementedError: bool or complex input.
        Source: torch.nn.functional.adaptive_max_pool{rank}d.
        Example:
            >>> F.adaptive_max_pool{rank}d({example}, 2).flatten().tolist()
            {values}
        """
        return _adaptive(rank, input, output_size, return_indices)

    @composite(name=f"adaptive_max_pool{rank}d_with_indices", namespace="nn.functional")
    @with_words
    def indexed(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """Largest element of each bin, and its place: ``adaptive_max_pool{rank}d`` with ``return_indices=True``.

        Args:
            input: ``(N, C, {shape})`` or ``(C, {shape})``, real.
            output_size: number of bins, an int or one per dimension; None keeps a dimension's size.
            return_indices: without effect.
        Returns:
            ``(N, C, *output_size)`` in ``input``'s dtype, and int64 indices of that shape.
        Raises:
            RuntimeError: an empty or misshapen input, or a wrong number of sizes.
            NotImplementedError: bool or complex input.
        Source: torch.nn.functional.adaptive_max_pool{rank}d_with_indices.
        Example:
            >>> F.adaptive_max_pool{rank}d_with_indices({example}, 2)[1].flatten().tolist()
            {places}
        """
        return _adaptive(rank, input, output_size, True)


for _rank, _shape, _places in (
    (1, "L", [2, 4]),
    (2, "H, W", [12, 14, 22, 24]),
    (3, "D, H, W", [62, 64, 72, 74, 112, 114, 122, 124]),
):
    _declare_adaptive(_rank, _shape, _places)


@composite(name="adaptive_max_pool1d", method=False)
def torch_adaptive_max_pool1d(input: Tensor, output_size: Any) -> Any:
    """Largest element of each of a given number of bins along a row, and its place.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``, real.
        output_size: number of bins.
    Returns:
        ``(N, C, output_size)`` in ``input``'s dtype, and int64 indices of that shape.
    Raises:
        RuntimeError: an empty or misshapen input, or several sizes.
        NotImplementedError: bool or complex input.
    Source: torch.adaptive_max_pool1d.
    Example:
        >>> torch.adaptive_max_pool1d(torch.tensor([[1.0, 4.0, 3.0, 2.0, 0.0]]), 2)
        (tensor([[4., 3.]]), tensor([[1, 2]]))
    """
    return _adaptive(1, input, output_size, True)
