"""Operations under the names of PyTorch's kernels: normalization with its moments, poolings' and dropout's gradients, masked indexing.

Some are public (``torch.native_layer_norm``), others are found in ``torch.ops.aten`` only, as in PyTorch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import kind_of
from ..core.calls.annotations import Tensor
from ..core.calls.registry import TABLES, composite, op
from ..core.layout import suggested_format
from ..core.shape import wrap_dim, wrap_dims
from ..core.state import grad_enabled
from ..core.tape.history import is_differentiated
from ..core.tensor import wrap
from .embedding import bags_of
from .indexing import index_put
from .joining import cat
from .linalg.norms import matrix_norm, vector_norm
from .normalization import (
    NORMS,
    check_channels,
    check_constant,
    check_float,
    check_groups,
    check_parameters,
    normalized_batch,
    of_nothing,
    sizes_of_norm,
    update_running,
)
from .padding import constant_pad_nd
from .parts import as_strided
from .patches import product
from .pooling import scatter_planes
from .resampling import bytes_plan, resample, sampling_plan
from .softmaxes import softmax
from .sorting import without_derivative
from .view_copies import part


# -- normalization -------------------------------------------------------------------------------------------------------------------------
def _inverse(variance: Any, eps: float) -> Any:
    """``1 / sqrt(variance + eps)`` of the moments that a norm returns."""
    return variance.detach().add(eps).rsqrt()


@composite(method=False, autocast={"cuda": "float32"})
def native_layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """``layer_norm`` with the moments that it used.

    Args:
        input: ``(*, *normalized_shape)``, floating point.
        normalized_shape: sizes of the dimensions that mean and variance are taken over.
        weight, bias: ``normalized_shape`` or None.
        eps: added to the variance.
    Returns:
        The result, the means and ``1 / sqrt(variance + eps)``, whose normalized dimensions have size 1.
    Raises:
        RuntimeError: shapes that do not fit.
    Source: torch.native_layer_norm.
    Example:
        >>> x = torch.tensor([[1.0, 3.0], [5.0, 9.0]])
        >>> torch.native_layer_norm(x, [2], None, None, 0.0)
        (tensor([[-1.,  1.],
                [-1.,  1.]]), tensor([[2.],
                [7.]]), tensor([[1.0000],
                [0.5000]]))
    """
    sizes = sizes_of_norm("layer_norm", input, normalized_shape)
    check_parameters(sizes, weight=weight, bias=bias)
    check_float(input, "LayerNormKernelImpl")
    lead = tuple(input.shape)[: input.ndim - len(sizes)]
    result, mean, variance = NORMS["Layer"].wrapper(input, weight, bias, (product(lead), product(sizes)), (1,), (1, product(sizes)), eps)
    shape = (*lead, *(1,) * len(sizes))
    parameter = weight if weight is not None else bias
    of_moments = input.dtype if parameter is None else parameter.dtype
    return result, mean.detach().reshape(shape).to(of_moments), _inverse(variance, eps).reshape(shape).to(of_moments)


@composite(method=False)
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    """``group_norm`` with the moments that it used.

    Args:
        input: ``(N, C, *)`` of ``N * C * HxW`` elements, floating point, contiguous.
        weight, bias: ``(C,)`` or None.
        N, C, HxW: samples, channels, and elements of a channel.
        group: number of groups that ``C`` is split into.
        eps: added to the variance.
    Returns:
        The result, and ``(N, group)`` means and ``1 / sqrt(variance + eps)``.
    Raises:
        RuntimeError: sizes that do not fit, or an input that is not contiguous.
    Source: torch.native_group_norm.
    Example:
        >>> x = torch.tensor([[[1.0], [3.0], [5.0], [9.0]]])
        >>> torch.native_group_norm(x, None, None, 1, 4, 1, 2, 0.0)[1:]
        (tensor([[2., 7.]]), tensor([[1.0000, 0.5000]]))
    """
    check_groups(input.shape, C, group, weight=weight, bias=bias)
    if input.numel() != N * C * HxW:
        raise RuntimeError(f"native_group_norm: expected input of {N} x {C} x {HxW} elements, got shape {list(input.shape)}")
    check_float(input, "GroupNormKernelImpl")
    if not input.is_contiguous(memory_format=suggested_format(input._array)):
        raise RuntimeError("Expected X.is_contiguous(memory_format) to be true, but got false.")
    size = C // group
    result, mean, variance = NORMS["Group"].wrapper(input, weight, bias, (N, group, size, HxW), (2, 3), (1, group, size, 1), eps)
    if is_differentiated(input):  # moments that can be differentiated
        variance, mean = TABLES["torch"]["var_mean"].wrapper(input.reshape(N, group, size * HxW), 2, correction=0)
        return result, mean, variance.add(eps).rsqrt()
    of_moments = input.dtype if weight is None else weight.dtype
    return result, mean.reshape(N, group).to(of_moments), _inverse(variance, eps).reshape(N, group).to(of_moments)


def _with_moments(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, Any, Any]:
    """``batch_norm``, and in training its means and ``1 / sqrt(variance + eps)``, which are empty otherwise."""
    shape = tuple(input.shape)
    channels = shape[1] if len(shape) > 1 else 0
    wide = input.dtype if weight is None else weight.dtype
    if not training:
        result = normalized_batch(input, running_mean, running_var, weight, bias, False, momentum, eps)
        return result, input.new_empty((0,), dtype=wide), input.new_empty((0,), dtype=wide)
    check_constant(running_mean=running_mean, running_var=running_var)
    if not input._array.size:
        return of_nothing(input, weight, bias), input.new_zeros((channels,)), input.new_zeros((channels,))
    check_channels(input, channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    check_float(input, "batch_norm")
    view = (shape[0], channels, product(shape[2:]))
    result, mean, variance = NORMS["Batch"].wrapper(input, weight, bias, view, (0, 2), (1, channels, 1), eps)
    update_running(running_mean, running_var, mean, variance, shape[0] * view[2], momentum)
    return result, mean.detach().reshape(-1).to(wide), _inverse(variance, eps).reshape(-1).to(wide)


@composite(method=False, out=True)
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """``batch_norm`` with the moments that it used in training.

    Args:
        input: ``(N, C, *)``, floating point.
        weight, bias, running_mean, running_var: ``(C,)`` or None.
        training, momentum, eps: as for ``nn.functional.batch_norm``.
    Returns:
        The result, and ``(C,)`` means and ``1 / sqrt(variance + eps)``; these are empty where not ``training``.
    Raises:
        RuntimeError: parameters that do not have ``C`` elements, running moments that require a gradient in training, or none in
            evaluation.
    Source: torch.native_batch_norm.
    Example:
        >>> x = torch.tensor([[1.0, 5.0], [3.0, 9.0]])
        >>> torch.native_batch_norm(x, None, None, None, None, True, 0.1, 0.0)
        (tensor([[-1., -1.],
                [ 1.,  1.]]), tensor([2., 7.]), tensor([1.0000, 0.5000]))
    """
    return _with_moments(input, weight, bias, running_mean, running_var, training, momentum, eps)


@composite(name="_native_batch_norm_legit", method=False, out=True)
def native_batch_norm_legit(input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> Any:
    """``native_batch_norm``, also without running moments.

    Args:
        rest: ``running_mean, running_var, training, momentum, eps``, or the last three of them.
    Source: torch._native_batch_norm_legit.
    """
    if len(rest) == 3:
        rest = (None, None, *rest)
    if len(rest) != 5:
        raise TypeError(f"_native_batch_norm_legit(): expected 6 or 8 arguments, got {3 + len(rest)}")
    return _with_moments(input, weight, bias, *rest)


@composite(name="_batch_norm_with_update", namespace="ops.aten", out=True)
def batch_norm_with_update(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> Any:
    """``native_batch_norm`` in training, with an empty tensor in place of what a GPU would reserve. Source: torch.ops.aten."""
    return (*_with_moments(input, weight, bias, running_mean, running_var, True, momentum, eps), input.new_empty((0,), dtype=dtypes.uint8))


@composite(method=False)
def batch_norm_update_stats(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float) -> Any:
    """Mean and variance of each channel, towards which running moments are moved in place.

    Args:
        input: ``(N, C, *)``, floating point.
        running_mean, running_var: ``(C,)`` or None.
        momentum: how far they move; the running variance takes the one divided by n - 1.
    Returns:
        ``(C,)`` means, and variances divided by n.
    Raises:
        RuntimeError: an empty input, or running moments that do not have ``C`` elements.
    Source: torch.batch_norm_update_stats.
    Example:
        >>> mean = torch.zeros(1)
        >>> torch.batch_norm_update_stats(torch.tensor([[1.0], [3.0]]), mean, torch.ones(1), 0.5)
        (tensor([2.]), tensor([1.]))
        >>> mean
        tensor([1.])
    """
    check_float(input, "batch_norm_update_stats")
    if not input.numel():
        raise RuntimeError(f"input tensor must have at least one element, but got input_sizes = {list(input.shape)}")
    x = input.detach()
    channels = x.shape[1]
    check_channels(x, channels, running_mean=running_mean, running_var=running_var)
    dims = [d for d in range(x.ndim) if d != 1]
    variance, mean = TABLES["torch"]["var_mean"].wrapper(x, dims, correction=0)
    update_running(running_mean, running_var, mean, variance, x.numel() // channels, momentum)
    if input.requires_grad and grad_enabled():
        mean, variance = (without_derivative(moment, input, "aten::batch_norm_update_stats") for moment in (mean, variance))
    return mean, variance


# -- norms ---------------------------------------------------------------------------------------------------------------------------------
@composite(method=False, out=True, autocast={"cuda": "float32"})
def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """Square root of the sum of squares over ``dim``.

    Args:
        input: any shape, floating point or complex.
        dim: one or two dimensions; all when empty.
        keepdim: keep each reduced dimension with size 1.
    Returns:
        ``input``'s shape without ``dim``; real.
    Raises:
        RuntimeError: more than two dimensions, or an integer input.
    Source: torch.frobenius_norm.
    Example:
        >>> torch.frobenius_norm(torch.tensor([[3.0, 4.0], [6.0, 8.0]]), dim=1)
        tensor([ 5., 10.])
    """
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    return vector_norm(input, 2.0, dims or None, keepdim)


@composite(method=False, out=True, autocast={"cuda": "float32"})
def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Sum of a matrix's singular values.

    Args:
        input: ``(*, m, n)``, floating point or complex.
        dim: the two dimensions of the matrix; without, ``input`` is one, and a bool in its place is ``keepdim``.
        keepdim: keep the two dimensions with size 1.
    Returns:
        ``input``'s shape without the two dimensions; real.
    Raises:
        RuntimeError: another number of dimensions, or an integer input.
    Source: torch.nuclear_norm.
    Example:
        >>> torch.nuclear_norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
        tensor(7.)
    """
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    if dim is None:
        if input.ndim != 2:
            raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
        dim = (0, 1)
    return matrix_norm(input, "nuc", tuple(dim), keepdim)


# -- sums over bags, with what the derivative needs ----------------------------------------------------------------------------------------
@composite(name="embedding_bag", method=False)
def torch_embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sum, mean or maximum of bags of a table's rows, and where they come from; see :func:`torch.nn.functional.embedding_bag`.

    Args:
        weight: the table, ``(rows, D)``.
        indices: ``(N,)``, int64 or int32.
        offsets: ``(B,)`` where each bag starts, beginning with 0.
        scale_grad_by_freq, sparse, per_sample_weights, include_last_offset, padding_idx: as there.
        mode: 0 for the sum, 1 for the mean, 2 for the maximum.
        scale_grad_by_freq, sparse, per_sample_weights, include_last_offset, padding_idx: as for ``nn.functional.embedding_bag``.
    Returns:
        ``(B, D)``; the bag of each index (empty for plain sums); sizes of the bags, zeros for sums; for maxima ``(B, D)`` rows where they
        are, otherwise the sizes again.
    Raises:
        RuntimeError: another mode, or an index that is no row.
    Source: torch.embedding_bag.
    Example:
        >>> table = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
        >>> sums, bags, sizes, _ = torch.embedding_bag(table, torch.tensor([0, 1, 2]), torch.tensor([0, 1]), mode=1)
        >>> sums, bags, sizes
        (tensor([[1.0000, 1.0000],
                [2.5000, 2.5000]]), tensor([0, 1, 1]), tensor([1, 2]))
    """
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    word = ("sum", "mean", "max")[mode]
    result = TABLES["nn.functional"]["embedding_bag"].wrapper(
        indices, weight, offsets, None, 2, scale_grad_by_freq, word, sparse, per_sample_weights, include_last_offset, padding_idx
    )
    if not kind_of(indices._array).has_values:
        sizes = indices.new_empty((result.shape[0],))
        return result, indices.new_empty((indices.shape[0] if mode else 0,)), sizes, result.to(indices.dtype) if mode == 2 else sizes
    flat, bounds = bags_of(indices._array, offsets, include_last_offset)
    lengths = np.diff(bounds)
    bag = np.arange(lengths.size).repeat(lengths).astype(flat.dtype)
    if mode == 0:
        none = np.zeros(offsets.shape, flat.dtype)
        plain = padding_idx is None and weight.dtype is not dtypes.float64 and weight.stride(1) == 1
        plain = plain and (per_sample_weights is None or per_sample_weights.stride(0) == 1)
        return result, wrap(bag[:0] if plain else bag), wrap(none), wrap(none.copy())
    counted = np.ones(flat.shape, bool) if padding_idx is None else flat != padding_idx % weight.shape[0]
    sizes = np.bincount(bag[counted], minlength=lengths.size).astype(flat.dtype)
    if mode == 1:
        return result, wrap(bag), wrap(sizes), wrap(sizes.copy())
    rows = np.zeros(result.shape, flat.dtype)
    table = weight.detach()._array
    for k, (start, stop) in enumerate(itertools.pairwise(bounds)):
        chosen = flat[start:stop][counted[start:stop]]
        if chosen.size:
            rows[k] = chosen[table[chosen].argmax(0)]
    return result, wrap(bag), wrap(sizes), wrap(rows)


# -- hashes --------------------------------------------------------------------------------------------------------------------------------
def _canonicalize_hash(input: Any, dim: Any, keepdim: bool, mode: int) -> tuple[Any, ...]:
    array = input._array
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if input.dtype.is_complex:
        raise NotImplementedError(f"\"xor_sum_cpu\" not implemented for '{input.dtype.legacy}'")
    dims = wrap_dims(dim, array.ndim)
    if not array.size:
        if dim in ((), [], None):
            raise RuntimeError(
                "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
                "argument."
            )
        for axis in dims:
            if array.shape[axis] == 0:
                raise IndexError(f"hash_tensor: Expected reduction dim {axis} to have non-zero size.")
    return input, dims if array.ndim else (), keepdim, mode


def _folded(words: np.ndarray, axis: int) -> np.ndarray:
    """Exclusive or along ``axis``, halves on halves: CuPy's has no ``reduce``."""
    words = words.swapaxes(0, axis)
    while len(words) > 1:
        half = len(words) // 2
        words = np.concatenate([words[:half] ^ words[half : 2 * half], words[2 * half :]])
    return words.swapaxes(0, axis)


@op(canonicalize=_canonicalize_hash, opmath="native", grad=None, aten=None)
def hash_tensor(input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """Exclusive or of the bits of the elements over ``dim``, as 64-bit integers.

    Args:
        input: any shape, real; floating-point numbers count as float64, integers as int64.
        dim: dimension or dimensions; all when empty.
        keepdim: keep each reduced dimension with size 1.
        mode: 0, the only one.
    Returns:
        uint64, ``input``'s shape without ``dim``.
    Raises:
        RuntimeError: another mode, or an empty tensor without ``dim``.
        IndexError: an empty dimension.
        NotImplementedError: a complex tensor.
    Source: torch.hash_tensor.
    Example:
        >>> torch.hash_tensor(torch.tensor([[1, 2], [4, 7]]), dim=1)
        tensor([3, 3], dtype=torch.uint64)
    """
    words = input.astype(np.int64 if input.dtype.kind in "biu" else np.float64).view(np.uint64)
    for axis in dim:
        words = _folded(words, axis)
    return words if keepdim else words.reshape([size for axis, size in enumerate(words.shape) if axis not in dim])


# -- convolution over time -----------------------------------------------------------------------------------------------------------------
@composite(method=False, autocast="narrow")
@composite(namespace="nn.functional", autocast="narrow", compiled=True)
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution over the first dimension, time, of sequences whose batch is the second.

    Args:
        input: ``(T, B, in)``, floating point.
        weight: ``(width, in, out)``.
        bias: ``(out,)``.
        pad: zeros at either end.
    Returns:
        ``(T + 2 * pad - width + 1, B, out)``, contiguous.
    Raises:
        RuntimeError: shapes that do not fit.
    Source: torch.nn.functional.conv_tbc.
    Example:
        >>> steps = torch.tensor([[[1.0]], [[2.0]], [[4.0]]])  # 3 steps of 1 sequence with 1 channel
        >>> F.conv_tbc(steps, torch.ones(2, 1, 1), torch.zeros(1)).flatten()
        tensor([3., 6.])
    """
    if input.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    input.view(-1, input.shape[2])  # PyTorch's kernel needs the input's dimensions in this order, and refuses others
    convolve = TABLES["nn.functional"]["conv1d"].wrapper
    return convolve(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1).contiguous()


# -- pooling -------------------------------------------------------------------------------------------------------------------------------
@composite(method=False)
def max_pool1d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """Largest element of each window and its place: ``max_pool1d`` with ``return_indices=True``.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``.
        kernel_size, stride, padding, dilation, ceil_mode: as for ``nn.functional.max_pool1d``.
    Returns:
        ``(N, C, L')`` in ``input``'s dtype, and int64 indices of that shape.
    Raises:
        RuntimeError: geometry that does not fit.
    Source: torch.max_pool1d_with_indices.
    Example:
        >>> torch.max_pool1d_with_indices(torch.tensor([[1.0, 4.0, 3.0, 2.0]]), 2)
        (tensor([[4., 3.]]), tensor([[1, 2]]))
    """
    return TABLES["nn.functional"]["max_pool1d_with_indices"].wrapper(input, kernel_size, stride or None, padding, dilation, ceil_mode)


@composite(namespace="ops.aten")
def max_pool2d_with_indices_backward(
    grad_output: Tensor, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Tensor
) -> Tensor:
    """The gradient of ``max_pool2d``'s input: ``grad_output`` added at ``indices``.

    Args:
        grad_output, indices: ``(N, C, H', W')``, the gradient of the maxima and their places.
        input: ``(N, C, H, W)``, of which only the shape counts.
        kernel_size, stride, padding, dilation, ceil_mode: the pooling's; they are not looked at.
    Returns:
        ``input``'s shape, ``grad_output``'s dtype.
    Raises:
        RuntimeError: ``grad_output`` and ``indices`` differ in shape.
    Source: torch.ops.aten.
    Example:
        >>> grad, at = torch.tensor([[[5.0]]]), torch.tensor([[[2]]])
        >>> torch.ops.aten.max_pool2d_with_indices_backward(grad, torch.zeros(1, 2, 2), 2, 2, 0, 1, False, at)
        tensor([[[0., 0.],
                 [5., 0.]]])
    """
    if grad_output.shape != indices.shape:
        raise RuntimeError(
            f"max_pool2d_with_indices_backward: expected grad_output of shape {list(indices.shape)}, got {list(grad_output.shape)}"
        )
    return scatter_planes(grad_output, indices, tuple(input.shape)[-2:])


# -- dropout, softmax, resampling ----------------------------------------------------------------------------------------------------------
@composite(namespace="ops.aten")
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """``grad_output`` where ``mask`` is true, times ``scale``; 0 elsewhere.

    Args:
        grad_output: the gradient of the result, any shape.
        mask: bool, which elements were kept.
        scale: ``1 / (1 - p)`` for the probability ``p`` of zeroing.
    Returns:
        ``grad_output``'s shape and dtype.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Source: torch.ops.aten.
    Example:
        >>> torch.ops.aten.native_dropout_backward(torch.ones(3), torch.tensor([True, False, True]), 2.0)
        tensor([2., 0., 2.])
    """
    return grad_output * mask * scale


@composite(namespace="ops.aten", name="_safe_softmax")
def safe_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """``softmax`` that gives zeros where all of a row is minus infinity. Source: torch.ops.aten."""
    empty = (input == -math.inf).all(dim, keepdim=True)
    return softmax(input.masked_fill(empty, 0), dim, dtype).masked_fill(empty, 0)


@composite(namespace="ops.aten", name="_upsample_bilinear2d_aa")
def upsample_bilinear2d_aa(
    input: Tensor,
    output_size: Any,
    align_corners: bool,
    scale_factors: Any = None,
    *,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    """Images resampled by a triangle filter that is widened where they shrink. Source: torch.ops.aten."""
    spatial = tuple(input.shape)[2:]
    scales: Sequence[Any] = (scales_h, scales_w) if scale_factors is None else scale_factors
    if output_size is None:
        if scale_factors is None:
            raise RuntimeError("Must specify exactly one of output_size and scale_factors")
        output_size = [int(size * scale) for size, scale in zip(spatial, scale_factors, strict=True)]
    asked = (spatial, tuple(output_size), "bilinear", align_corners, tuple(scales), True)
    if input.dtype is dtypes.uint8:
        return resample(input, bytes_plan(*asked))
    kind = input.dtype.numpy if input.dtype in (dtypes.float32, dtypes.float64) else np.float32
    return resample(input, sampling_plan(*asked, kind))


# -- indices under a mask ------------------------------------------------------------------------------------------------------------------
def _clamped(input: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([None if index is None else index.clamp(-size, size - 1) for index, size in zip(indices, input.shape, strict=False)])


@composite(name="_unsafe_masked_index", method=False)
def unsafe_masked_index(input: Tensor, mask: Tensor, indices: Any, fill: Any) -> Tensor:
    """``input`` at index tensors where ``mask`` is true, ``fill`` elsewhere; indices beyond the ends are the ends'.

    Source: torch._unsafe_masked_index.
    """
    if not input.numel():
        return input.new_full(mask.shape, fill)
    taken = input[tuple([slice(None) if index is None else index for index in _clamped(input, indices)])]
    return taken.masked_fill(~mask, fill)


@composite(name="_unsafe_masked_index_put_accumulate", method=False)
def unsafe_masked_index_put_accumulate(input: Tensor, mask: Tensor, indices: Any, values: Tensor) -> Tensor:
    """``input`` with ``values`` added at index tensors where ``mask`` is true. Source: torch._unsafe_masked_index_put_accumulate."""
    if not input.numel():
        return input.clone()
    return index_put(input, _clamped(input, indices), values.masked_fill(~mask, 0), True)


# -- parts ---------------------------------------------------------------------------------------------------------------------------------
@composite(namespace="ops.aten", name="slice")
def slice_of(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """Elements ``start`` to ``end`` along ``dim``, ``step`` apart.

    Args:
        input: at least one dimension.
        dim: the dimension.
        start, end: as in a Python slice; the dimension's ends when None.
        step: above 0.
    Returns:
        ``input``'s shape but along ``dim``; a view.
    Raises:
        IndexError: ``dim`` out of range, or no dimensions.
        RuntimeError: a ``step`` of 0 or less.
    Source: torch.ops.aten.
    Example:
        >>> torch.ops.aten.slice(torch.arange(10), 0, 1, 8, 3)
        tensor([1, 4, 7])
    """
    return part(input, dim, start, end, step)


@composite()
def slice_inverse(input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """A view of ``input``'s memory with ``src``'s sizes, strides and offset; ``input`` is what slicing a tensor like ``src`` gave.

    Args:
        input: a slice of a tensor with ``src``'s geometry.
        src: any shape; sizes, strides and offset of the result.
        dim, start, end, step: the slice; they are not looked at.
    Returns:
        ``src``'s shape; a view.
    Raises:
        RuntimeError: ``input``'s memory is too small for it.
    Source: torch.slice_inverse.
    Example:
        >>> whole = torch.arange(6)
        >>> torch.slice_inverse(whole[2:4], whole, 0, 2, 4)
        tensor([0, 1, 2, 3, 4, 5])
    """
    return as_strided(input, tuple(src.shape), src.stride(), src.storage_offset())


@composite(name="_chunk_cat", method=False, out=True)
def chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """Each tensor cut into ``num_chunks`` along ``dim``, zeros filling the last one, and all that belongs to one chunk in a row.

    Args:
        tensors: of one dtype and of equal sizes before ``dim``.
        dim: where they are cut.
    Returns:
        ``(*, num_chunks, n)``, ``n`` being the sum of the chunks' sizes.
    Raises:
        RuntimeError: no tensors, an empty one, or sizes that do not fit.
    Source: torch._chunk_cat.
    """
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    axis = wrap_dim(dim, tensors[0].ndim)
    lead = tuple(tensors[0].shape)[:axis]
    rows = []
    for tensor in tensors:
        if not tensor.numel():
            raise RuntimeError("_chunk_cat expects non-empty tensor")
        if tensor.dtype is not tensors[0].dtype:
            raise RuntimeError("_chunk_cat expects all input tensors with the same dtype")
        if tensor.ndim <= axis or tuple(tensor.shape)[:axis] != lead:
            raise RuntimeError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors")
        missing = -tensor.shape[axis] % num_chunks
        padded = constant_pad_nd(tensor, (0, 0) * (tensor.ndim - 1 - axis) + (0, missing), 0) if missing else tensor
        rows.append(padded.reshape(*lead, num_chunks, -1))
    result = cat(rows, axis + 1)
    if not grad_enabled():
        return result
    source = next((tensor for tensor in tensors if tensor.requires_grad), None)
    return result if source is None else without_derivative(result.detach(), source, "aten::_chunk_cat")
