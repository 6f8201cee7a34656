"""The inverse of max pooling, and max pooling over windows of random size."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.calls.annotations import Tensor
from ..core.calls.casting import opmath
from ..core.calls.registry import composite, documented, op
from .patches import FOLDED, Ints, in_layout, ints, is_channels_last, product
from .pooling import gather_planes, to_places


# -- unpooling -----------------------------------------------------------------------------------------------------------------
def max_unpool(input: Tensor, indices: Tensor, spatial: Any) -> Tensor:
    """``(*, *spatial)`` zeros with ``input`` written at ``indices``, which count through one plane."""
    rank = len(spatial)
    if indices.dtype != np.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {dtypes.of_array(indices).legacy}")
    if input.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices tensor with shape: "
            f"{list(indices.shape)}"
        )
    if input.ndim not in (rank + 1, rank + 2) or 0 in input.shape[1:]:
        raise RuntimeError(
            f"max_unpooling{max(rank, 2)}d: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got: {list(input.shape)}"
        )
    planes, area = product(input.shape[:-rank]), product(spatial)
    flat = indices.reshape(planes, product(input.shape[-rank:]))
    if flat.size and (flat.min() < 0 or flat.max() >= area):
        wrong = flat[(flat < 0) | (flat >= area)][0]
        raise RuntimeError(f"Found an invalid max index: {wrong} (output volumes are of size {'x'.join(map(str, spatial))}")
    result = np.zeros((planes, area), input.dtype)
    np.put_along_axis(result, flat, input.reshape(flat.shape), 1)
    return in_layout(result.reshape(*input.shape[:-rank], *spatial), rank == 2 and is_channels_last(input))


_UNPOOLS: dict[int, Any] = {
    rank: op(
        name=f"_max_unpool{rank}d",
        **FOLDED,
        node_name=f"MaxUnpool{max(rank, 2)}DBackward0",
        forward="linear",
        grad={"input": lambda grad, indices, spatial: gather_planes(grad, indices, len(spatial))},
    )(max_unpool)
    for rank in (1, 2, 3)
}


def _unpooled_size(shape: Ints, kernel_size: Ints, stride: Ints, padding: Ints, output_size: Any) -> Ints:
    """Spatial size before pooling: the least possible one, or ``output_size`` if that is possible.

    Raises:
        ValueError: an impossible ``output_size``.
    """
    rank = len(kernel_size)
    least = tuple([(n - 1) * s + k - 2 * p for n, s, k, p in zip(shape[-rank:], stride, kernel_size, padding, strict=True)])
    if output_size is None:
        return least
    sizes = tuple([size.__index__() for size in output_size])
    if len(sizes) == rank + 2:
        sizes = sizes[2:]
    if len(sizes) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of '{len(sizes)}'"
        )
    for d, (size, expected, s) in enumerate(zip(sizes, least, stride, strict=True)):
        if not expected - s < size < expected + s:
            raise ValueError(f"invalid output_size {list(sizes)} (dim {d} must be between {expected - s} and {expected + s})")
    return sizes


def _declare_unpool(rank: int, shape: str, printed: str) -> None:
    @composite(name=f"max_unpool{rank}d", namespace="nn.functional", autocast={"cpu": "float32"})
    @documented(rank=rank, shape=shape, printed=printed, one=f"(1{rank * ', 1'})", place=rank % 2 + 1, size=4 if rank == 1 else 2)
    def max_unpool_nd(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:
        """Zeros with the maxima of ``max_pool{rank}d`` where they came from.

        Args:
            input: ``(N, C, {shape})`` or ``(C, {shape})``, the maxima.
            indices: ``input``'s shape, int64: their places, from ``return_indices=True``.
            kernel_size, stride, padding: of the pooling.
            output_size: size before the pooling, where several are possible.
        Returns:
            ``(N, C, *)`` of the size before the pooling, ``input``'s dtype.
        Raises:
            ValueError: an impossible ``output_size``.
            RuntimeError: indices of another shape or beyond the output.
        Gradient: ``grad`` at the indices.
        Source: torch.nn.functional.max_unpool{rank}d.
        Example:
            >>> maxima, places = torch.full({one}, 5.0), torch.full({one}, {place})
            >>> F.max_unpool{rank}d(maxima, places, {size}).flatten()
            {printed}
        """
        name = f"max_unpool{rank}d"
        kernel_size = ints(kernel_size, rank, name, "kernel_size", what="pooling")
        steps = kernel_size if stride is None else ints(stride, rank, name, "stride", what="pooling")
        if min(steps) <= 0:
            raise RuntimeError(f"strides should be greater than zero, but got stride: {list(steps)}")
        sizes = _unpooled_size(tuple(input.shape), kernel_size, steps, ints(padding, rank, name, "padding", what="pooling"), output_size)
        return _UNPOOLS[rank].wrapper(input, indices, sizes)


for _rank, _shape, _printed in (
    (1, "L", "tensor([0., 0., 5., 0.])"),
    (2, "H, W", "tensor([0., 5., 0., 0.])"),
    (3, "D, H, W", "tensor([0., 0., 5., 0., 0., 0., 0., 0.])"),
):
    _declare_unpool(_rank, _shape, _printed)


# -- fractional ------------------------------------------------------------------------------------------------------------------
def _starts(samples: np.ndarray, size: int, count: int, kernel_size: int) -> np.ndarray:
    """Starts of ``count`` windows for every sample in [0, 1): pseudo-random steps, the last window at the end."""
    starts = np.full((*samples.shape, count), size - kernel_size, np.int64)
    if count > 1:
        alpha = samples.dtype.type((size - kernel_size) / (count - 1))
        steps = np.arange(count - 1, dtype=samples.dtype)
        starts[..., :-1] = ((samples[..., None] + steps) * alpha).astype(np.int64) - (samples * alpha).astype(np.int64)[..., None]
    return starts


def fractional_pool(input: Tensor, samples: Tensor, kernel_size: Any, size: Any) -> Tensor:
    """Maxima of windows that start at random places, and where they are."""
    wide, samples, rank = opmath(input), opmath(samples), len(kernel_size)
    batched = input.ndim == rank + 2
    x = wide if batched else wide[None]
    spatial = x.shape[2:]
    # PyTorch's 2-d pooling takes the width's sample first, its 3-d pooling the depth's
    order = range(rank) if rank == 3 else range(rank - 1, -1, -1)
    starts = [_starts(samples[..., k], spatial[d], size[d], kernel_size[d]) for d, k in zip(range(rank), order, strict=True)]
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * rank) * product(spatial)
    corners: Any = planes
    steps = [product(spatial[d + 1 :]) for d in range(rank)]
    for d, s in enumerate(starts):
        corners = corners + s.reshape(*s.shape[:2], *[size[k] if k == d else 1 for k in range(rank)]) * steps[d]
    offsets = [sum([at * step for at, step in zip(inner, steps)]) for inner in itertools.product(*[range(n) for n in kernel_size])]
    flat, chosen = x.reshape(-1), np.zeros(corners.shape, np.int32)
    largest = flat.take(corners)
    for number, offset in enumerate(offsets[1:], 1):
        other = flat[offset:].take(corners)
        better = (other > largest) | (other != other)  # the last NaN, but the first of equal numbers
        np.maximum(chosen, np.multiply(better, number, dtype=np.int32), out=chosen)  # no branch for each element
        largest = np.maximum(largest, other)
    places = corners + np.array(offsets).take(chosen)
    values, indices = flat.take(places).astype(input.dtype, copy=False), places - planes
    return (values, indices) if batched else (values[0], indices[0])


_FRACTIONAL: dict[int, Any] = {
    rank: op(
        name=f"_fractional_max_pool{rank}d",
        **FOLDED,
        node_name=f"FractionalMaxPool{rank}DBackward0",
        multi_output=True,
        grad={"input": lambda grad, result1, kernel_size, input_shape, node: to_places(grad, result1, len(kernel_size), input_shape, node)},
        meta=lambda new, input, samples, kernel_size, size: [
            new((*input.shape[: input.ndim - len(size)], *size), kind) for kind in (input.dtype, np.int64)
        ],
    )(fractional_pool)
    for rank in (2, 3)
}


def _fractional_call(
    rank: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool, samples: Any
) -> Any:
    from .. import ops

    name = f"fractional_max_pool{rank}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    shape = tuple(input.shape)
    if len(shape) not in (rank + 1, rank + 2) or 0 in shape[-rank - 1 :]:
        raise RuntimeError(f"{name}: Expected {rank + 1}D or {rank + 2}D tensor with non-zero size, but got: {list(shape)}")
    spatial = shape[-rank:]
    kernel_size = ints(kernel_size, rank, name, "kernel_size", what="pooling")
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
        if len(ratios) == 1:
            ratios = tuple(ratios) * rank
        size = tuple([int(n * ratio) for n, ratio in zip(spatial, ratios, strict=True)])
    else:
        size = ints(output_size, rank, name, "output_size", what="pooling")
    for n, k, out in zip(spatial, kernel_size, size, strict=True):
        if k <= 0 or out <= 0 or out + k - 1 > n:
            raise RuntimeError(f"{name}: pool size {k} is too large relative to input size {n} and output size {out}")
    if samples is None:
        samples = ops.rand(shape[0] if len(shape) == rank + 2 else 1, shape[-rank - 1], rank, dtype=input.dtype, device=input.device)
    elif samples._requires_grad:
        raise RuntimeError(
            f"The function '{name}' is not differentiable with respect to argument '_random_samples'. This input cannot have "
            "requires_grad True."
        )
    elif samples.dtype is not input.dtype:
        raise RuntimeError(f"Expect _random_samples to have the same dtype as input, got {samples.dtype} and {input.dtype}")
    expected = (shape[0] if len(shape) == rank + 2 else 1, shape[-rank - 1], rank)
    if samples.dim() != 3 or samples.shape[0] < expected[0] or samples.shape[1:] != expected[1:]:
        raise RuntimeError(f"Expect _random_samples to have shape {list(expected)}, got {list(samples.shape)}")
    used = samples if samples.shape[0] == expected[0] else samples[: expected[0]]
    values, indices = _FRACTIONAL[rank].wrapper(input, used, kernel_size, size)
    return (values, indices) if return_indices else values


def _declare_fractional(rank: int, with_words: Any) -> None:
    @composite(name=f"fractional_max_pool{rank}d", namespace="nn.functional", autocast={"cpu": "float32"})
    @with_words
    def fractional(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        """Largest element of windows whose distances vary at random, so that any output size is possible.

        Args:
            input: ``(N, C, {shape})`` or ``(C, {shape})``.
            kernel_size: size of the windows.
            output_size: number of windows per dimension.
            output_ratio: instead of it, a fraction of the input size.
            return_indices: also return the maxima's places, counted through the plane.
            _random_samples: numbers in [0, 1), ``(N, C, {rank})``, that choose the windows; drawn when None.
        Returns:
            ``(N, C, *output_size)``, ``input``'s dtype; or a tuple of it and int64 indices of that shape.
        Raises:
            ValueError: neither size nor ratio given.
            RuntimeError: windows that do not fit.
        Source: torch.nn.functional.fractional_max_pool{rank}d. Graham 2014, "Fractional max-pooling".
        Example:
            >>> F.fractional_max_pool{rank}d({example}).flatten().tolist()
            {values}
        """
        return _fractional_call(rank, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def _declare_fractional_with_indices(rank: int, with_words: Any) -> None:
    @composite(name=f"fractional_max_pool{rank}d_with_indices", namespace="nn.functional")
    @with_words
    def indexed(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        """Largest elements and their places: ``fractional_max_pool{rank}d`` with ``return_indices=True``.

        Args:
            input: ``(N, C, {shape})`` or ``(C, {shape})``.
            kernel_size, output_size, output_ratio, _random_samples: as for ``fractional_max_pool{rank}d``.
            return_indices: without effect.
        Returns:
            ``(N, C, *output_size)`` in ``input``'s dtype, and int64 indices of that shape.
        Raises:
            ValueError: neither size nor ratio given.
            RuntimeError: windows that do not fit.
        Source: torch.nn.functional.fractional_max_pool{rank}d_with_indices.
        Example:
            >>> F.fractional_max_pool{rank}d_with_indices({example})[1].flatten().tolist()
            {places}
        """
        return _fractional_call(rank, input, kernel_size, output_size, output_ratio, True, _random_samples)


for _rank, _shape, _places in ((2, "H, W", [4, 5, 7, 8]), (3, "D, H, W", [13, 14, 16, 17, 22, 23, 25, 26])):
    _example = f"torch.arange({3**_rank}.0).view(1{_rank * ', 3'}), kernel_size=2, output_size=2"
    _words = documented(rank=_rank, shape=_shape, example=_example, places=_places, values=[float(_place) for _place in _places])
    _declare_fractional(_rank, _words)
    _declare_fractional_with_indices(_rank, _words)
