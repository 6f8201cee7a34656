"""Convolutions over 1 to 3 dimensions, and transposed ones; see ``convolution_kernels`` for how they are computed.

Large ones over 1 and 2 dimensions are left to native kernels, where there are any.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.arrays import native
from ..core.calls.annotations import Tensor
from ..core.calls.registry import functional, op
from .arithmetic import conj
from .convolution_kernels import correlate, correlate_few, correlate_pair, correlate_places, spread
from .padding import constant_pad_nd
from .patches import Ints, in_layout, ints, is_channels_last

_FEW_PLACES = 64  # of a result: below, a native kernel spends its time on laying out the weights
_LARGE_WEIGHT = 1 << 16  # elements
_LARGE_PRODUCT = 1 << 21  # multiply-adds: from here on a native kernel that adds the bias on its way is worth its start
_NAMES = {1: "conv1d", 2: "conv2d", 3: "conv3d"}


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise RuntimeError(message)


def _check_numbers(stride: Ints, padding: Ints, dilation: Ints, output_padding: Ints, groups: int) -> None:
    """Raise RuntimeError where one of a convolution's numbers is out of range."""
    _require(min(padding, default=0) >= 0, "negative padding is not supported")
    _require(min(stride, default=1) > 0, "non-positive stride is not supported")
    _require(min(dilation, default=1) > 0, "dilation should be greater than zero")
    _require(min(output_padding, default=0) >= 0, "negative output_padding is not supported")
    _require(groups > 0, "non-positive groups is not supported")


def _check_shapes(x: Ints, w: Ints, bias: Ints | None, transposed: bool, groups: int) -> None:
    """Raise RuntimeError where shapes of a convolution's operands do not fit; see ``_geometry``."""
    size = list(w)
    _require(
        len(x) == len(w),
        f"Expected {len(w)}-dimensional input for {len(w)}-dimensional weight {size}, but got "
        f"{len(x)}-dimensional input of size {list(x)} instead",
    )
    _require(
        w[0] >= groups,
        f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {size} instead",
    )
    _require(
        w[0] % groups == 0,
        f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size {size} instead",
    )
    expected = w[0] if transposed else w[1] * groups
    _require(
        x[1] == expected,
        f"Given {f'transposed={int(transposed)}' if transposed else f'groups={groups}'}, weight of size "
        f"{size}, expected input{list(x)} to have {expected} channels, but got {x[1]} channels instead",
    )
    _require(0 not in x or 0 in x[:2], f"Only zero batch or zero channel inputs are supported, but got input shape: {list(x)}")
    outputs = w[1] * groups if transposed else w[0]
    _require(
        bias is None or bias == (outputs,),
        f"Given {'transposed=1, ' if transposed else ''}weight of size {size}, expected "
        f"bias to be 1-dimensional with {outputs} elements, but got bias of size {[] if bias is None else list(bias)} instead",
    )
    _require(0 not in w[2:], f"kernel size should be greater than zero, but got weight of size {size}")


def _transposed_sizes(x: Ints, w: Ints, stride: Ints, padding: Ints, dilation: Ints, output_padding: Ints) -> Ints:
    """The spatial sizes of a transposed convolution's result."""
    _require(
        all(o < s or o < d for o, s, d in zip(output_padding, stride, dilation, strict=True)),
        f"output padding must be smaller than either stride or dilation, but got output_padding: {output_padding} stride: "
        f"{stride} dilation: {dilation}",
    )
    geometry = zip(x[2:], w[2:], stride, padding, dilation, output_padding, strict=True)
    spatial = tuple([(n - 1) * s - 2 * p + d * (k - 1) + 1 + o for n, k, s, p, d, o in geometry])
    _require(
        min(spatial, default=1) > 0 or math.prod(x) == 0,
        f"conv_transpose: calculated output size {spatial} is too small for input size {x[2:]} and padding {padding}",
    )
    return spatial


@lru_cache(maxsize=4096)
def _geometry(
    x: Ints, w: Ints, bias: Ints | None, stride: Ints, padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int
) -> tuple[Ints, Callable[..., np.ndarray] | None]:
    """For operands of ``convolution`` of these shapes: the result's sizes if transposed, and the function that makes
    one product of matrices of it where that is the best way, which takes them contiguous.

    Raises:
        RuntimeError: what is wrong with them.
    """
    _check_numbers(stride, padding, dilation, output_padding, groups)
    _check_shapes(x, w, bias, transposed, groups)
    if transposed:
        return _transposed_sizes(x, w, stride, padding, dilation, output_padding), None
    have = [n + 2 * p for n, p in zip(x[2:], padding, strict=True)]
    need = [d * (k - 1) + 1 for d, k in zip(dilation, w[2:], strict=True)]
    _require(
        all(h >= n for h, n in zip(have, need, strict=True)),
        f"Calculated padded input size per channel: "
        f"({' x '.join(map(str, have))}). Kernel size: ({' x '.join(map(str, need))}). Kernel size can't be greater than actual "
        "input size",
    )
    by_product = None
    if x[0] == 1 == groups:
        places = math.prod([(h - n) // s + 1 for h, n, s in zip(have, need, stride, strict=True)])
        if max((*w[2:], *stride), default=1) == 1 and max(padding, default=0) == 0:
            if bias is None or len(w) == 5 or math.prod(x) * w[0] < _LARGE_PRODUCT:
                by_product = correlate_places
        elif places <= _FEW_PLACES and math.prod(w) >= _LARGE_WEIGHT:
            by_product = correlate_few
    return (), by_product


@lru_cache(maxsize=4096)
def _rest(spatial: Ints, positions: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Ints:
    """Number of elements behind the last window that no window sees: the output padding of the transposed convolution."""
    geometry = zip(spatial, positions, stride, padding, dilation, kernel, strict=True)
    return tuple([size + 2 * p - (n - 1) * s - d * (k - 1) - 1 for size, n, s, p, d, k in geometry])


def _derivatives(
    grad: Any,
    input: Any,
    weight: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    needs: tuple[bool, ...],
) -> tuple[Any, Any, Any]:
    """Gradients of ``convolution``: the other kind of convolution, the correlation with the input, and a sum."""
    rank = weight._array.ndim - 2
    if not (stride.__class__ is padding.__class__ is dilation.__class__ is tuple and len(stride) == len(padding) == len(dilation) == rank):
        stride, padding, dilation = (ints(given, rank, "", "") for given in (stride, padding, dilation))  # as kernels below a mode get them
    to_input = to_weight = to_bias = None
    if needs[0]:
        spatial = input.shape[2:]
        if transposed:
            to_input = convolution(grad, conj(weight), None, stride, padding, dilation, False, (0,) * rank, groups)
            if to_input.shape[2:] != spatial:  # an output padding beyond the stride makes further windows fit
                for dim, size in enumerate(spatial):
                    to_input = to_input.narrow(dim + 2, 0, size)
        else:
            rest = _rest(spatial, grad.shape[2:], weight._array.shape[2:], stride, padding, dilation)
            to_input = convolution(grad, conj(weight), None, stride, padding, dilation, True, rest, groups)
    if needs[1]:
        x, y = (grad, conj(input)) if transposed else (conj(input), grad)
        to_weight = convolution_weight(x, y, weight._array.shape[2:], stride, padding, dilation, groups)
    if needs[2]:
        to_bias = channel_sums(grad)
    return to_input, to_weight, to_bias


def _canonicalize(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int
) -> tuple[Any, ...]:
    """The geometry as tuples, which functions of ``nn.functional`` give at once: the fast path takes nothing else."""
    for name, operand in (("weight", weight), ("bias", bias)):
        if operand is not None and operand.dtype is not input.dtype:
            types = f"Input type (torch.{input.dtype.legacy}Tensor) and {name} type (torch.{operand.dtype.legacy}Tensor)"
            raise RuntimeError(f"{types} should be the same")
    rank = weight.ndim - 2
    stride, padding = ints(stride, rank, "convolution", "stride"), ints(padding, rank, "convolution", "padding")
    dilation = ints(dilation, rank, "convolution", "dilation")
    return input, weight, bias, stride, padding, dilation, transposed, ints(output_padding, rank, "convolution", "output_padding"), groups


# Their work is the number of multiply-adds, about, of which 12 take as long as an element of an element-wise operation. Zeros around the
# input, or between what is spread, are multiplied, too, and may be most of it.
_PADDED = "prod(input.shape[:2]) * prod(map(sum, zip(input.shape[2:], padding, padding)))"


@native.part("_correlate", work=f"{_PADDED} * weight.size // max(weight.shape[1] * prod(stride), 1) // 12")
def _correlated(
    input: np.ndarray, weight: np.ndarray, bias: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, last: bool
) -> np.ndarray:
    return _finished(correlate(input, weight, stride, padding, padding, dilation, groups), bias, last)


@native.part("_spread", work="max(input.size, len(input) * len(weight) * prod(spatial) // prod(stride)) * weight.size // len(weight) // 12")
def _spread(
    input: np.ndarray, weight: np.ndarray, bias: Any, spatial: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int, last: bool
) -> np.ndarray:
    return _finished(spread(input, weight, spatial, stride, padding, dilation, groups), bias, last)


def _finished(result: np.ndarray, bias: Any, last: bool) -> np.ndarray:
    if bias is not None:
        result += bias.reshape(-1, *(1,) * (result.ndim - 2))
    return in_layout(result, last)


@op(
    promotion="same",
    method=False,
    out=False,
    canonicalize=_canonicalize,
    fast=True,
    grad={"input, weight, bias": _derivatives},
    autocast={"cuda": "narrow"},
    forward="bilinear",
    in_bfloat16=True,
)
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """Convolution or transposed convolution over any number of dimensions; what :func:`torch.conv2d` and its kin call.

    Args:
        input: ``(N, C, *)``.
        weight: ``(O, C / groups, *kernel)``, or where transposed ``(C, O / groups, *kernel)``.
        bias: ``(O,)`` or None.
        stride, padding, dilation, output_padding: one int a dimension.
        transposed: whether to compute the transposed convolution.
        groups: number of groups of channels that do not see each other.
    Returns:
        ``(N, O, *positions)``; channels-last in memory if ``input`` or ``weight`` is.
    Raises:
        RuntimeError: shapes, dtypes or geometry that do not fit.
    Gradient: to ``input`` the convolution of the other kind, to ``weight`` the correlation of ``input`` with ``grad``.
    Source: torch.convolution. Chellapilla et al. 2006 for columns and matrix product.
    Example:
        >>> x, w = torch.tensor([[[1.0, 2.0, 4.0]]]), torch.tensor([[[-1.0, 1.0]]])
        >>> torch.convolution(x, w, None, [1], [0], [1], False, [0], 1)
        tensor([[[1., 2.]]])
        >>> torch.convolution(x, w, None, [1], [0], [1], True, [0], 1)
        tensor([[[-1., -1., -2.,  4.]]])
    """
    bias_shape = None if bias is None else bias.shape
    spatial, by_product = _geometry(
        input.shape, weight.shape, bias_shape, stride, padding, dilation, bool(transposed), output_padding, groups
    )
    if by_product is not None and input.flags.c_contiguous and weight.flags.c_contiguous:
        return _finished(by_product(input, weight, stride, padding, dilation), bias, False)
    last = is_channels_last(input) or is_channels_last(weight)
    if transposed:
        return _spread(input, weight, bias, spatial, stride, padding, dilation, groups, last)
    return _correlated(input, weight, bias, stride, padding, dilation, groups, last)


def _weight_input(grad: Any, other: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, input_shape: Any) -> Any:
    rest = _rest(input_shape[2:], other.shape[2:], grad.shape[2:], stride, padding, dilation)
    return convolution(conj(other), grad, None, stride, padding, dilation, True, rest, groups)


def _weight_other(grad: Any, input: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, other_shape: Any) -> Any:
    result = convolution(conj(input), grad, None, stride, padding, dilation, False, (0,) * len(stride), groups)
    for dim in range(2, len(other_shape)):
        if result.shape[dim] != other_shape[dim]:
            result = result.narrow(dim, 0, other_shape[dim])
    return result


@op(
    work="other.size * input.shape[1] * prod(kernel_size) // groups // 12",
    name="_convolution_weight",
    node_name="ConvolutionBackward0",
    promotion="same",
    fast=True,
    grad={"input": _weight_input, "other": _weight_other},
    in_bfloat16=True,
)
def convolution_weight(input: Tensor, other: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Tensor:
    """Correlation of a convolution's input with something of its output's shape: the gradient of the weight."""
    return correlate_pair(input, other, tuple(kernel_size), stride, padding, dilation, groups)


@op(
    name="_channel_sums",
    node_name="SumBackward1",
    promotion="same",
    fast=True,
    grad={"input": lambda grad, input_shape: grad.reshape(1, -1, *(1,) * (len(input_shape) - 2)).expand(input_shape)},
    forward="linear",
)
def channel_sums(input: Tensor) -> Tensor:
    """Sum of each channel of ``(N, C, *)``: the gradient of a convolution's bias."""
    return np.add.reduce(np.add.reduce(input.reshape(*input.shape[:2], -1), -1), 0) if input.size else np.zeros(input.shape[1], input.dtype)


# -- public forms -------------------------------------------------------------------------------------------------------------
def _batched(name: str, rank: int, input: Any, weight: Any) -> tuple[Any, bool]:
    """``input`` with a batch dimension, and whether it had one.

    Raises:
        RuntimeError: another number of dimensions, of ``input`` or ``weight``.
    """
    batched = input._array.ndim == rank + 2
    if not batched and input._array.ndim != rank + 1:
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: {list(input.shape)}"
        )
    x = input if batched else input.unsqueeze(0)
    ndim = getattr(weight, "ndim", rank + 2)
    if ndim < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if ndim != rank + 2:
        raise RuntimeError(
            f"Expected {ndim}-dimensional input for {ndim}-dimensional weight {list(weight.shape)}, but got {x.ndim}-dimensional input of "
            f"size {list(x.shape)} instead"
        )
    return x, batched


def _same_padding(input: Any, weight: Any, stride: Ints, dilation: Ints) -> tuple[Any, Ints]:
    """``input`` padded where the two sides differ, and the padding that both sides have."""
    if max(stride) != 1:
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(total % 2 for total in totals):
        input = constant_pad_nd(input, [side for total in reversed(totals) for side in (0, total % 2)], 0)
    return input, tuple([total // 2 for total in totals])


def _convolve(rank: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    name = _NAMES[rank]
    x, batched = _batched(name, rank, input, weight)
    stride, dilation = ints(stride, rank, name, "stride"), ints(dilation, rank, name, "dilation")
    if padding.__class__ is str:
        if padding == "same":
            x, padding = _same_padding(x, weight, stride, dilation)
        elif padding == "valid":
            padding = (0,) * rank
        else:
            raise RuntimeError(f"Invalid padding string: '{padding}'")
    else:
        padding = ints(padding, rank, name, "padding")
    result = convolution(x, weight, bias, stride, padding, dilation, False, (0,) * rank, groups)
    return result if batched else result.squeeze(0)


def _transpose(
    rank: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Any:
    name = f"conv_transpose{rank}d"
    x, batched = _batched(name, rank, input, weight)
    stride, padding = ints(stride, rank, name, "stride"), ints(padding, rank, name, "padding")
    dilation, output_padding = ints(dilation, rank, name, "dilation"), ints(output_padding, rank, name, "output_padding")
    result = convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups)
    return result if batched else result.squeeze(0)


@functional(autocast="narrow", compiled=True)
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Cross-correlation over 1 dimension; see :func:`torch.conv2d`.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``.
        weight: ``(O, C / groups, k)``.
        bias: ``(O,)``.
        stride: step between windows.
        padding: zeros on each side, or ``'valid'`` (none), or ``'same'`` (as many as keep the size; stride 1 only).
        dilation: step between the elements of a window.
        groups: number of groups that ``C`` and ``O`` are split into.
    Returns:
        ``(N, O, (L + 2 padding - dilation (k - 1) - 1) // stride + 1)``, without ``N`` if ``input`` has none.
    Raises:
        RuntimeError: shapes, dtypes or geometry that do not fit.
        TypeError: arguments of a wrong type.
    Gradient: the transposed convolution of ``grad`` to ``input``, the correlation of ``input`` with ``grad`` to ``weight``.
    Source: torch.nn.functional.conv1d.
    Example:
        >>> x, differences = torch.tensor([[[1.0, 2.0, 4.0, 8.0]]]), torch.tensor([[[-1.0, 1.0]]])
        >>> F.conv1d(x, differences)
        tensor([[[1., 2., 4.]]])
        >>> F.conv1d(x, differences, stride=2, padding=1)
        tensor([[[ 1.,  2., -8.]]])
    """
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


@functional(autocast="narrow", compiled=True)
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Cross-correlation of images with filters.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        weight: ``(O, C / groups, kh, kw)``.
        bias: ``(O,)``.
        stride: step between windows.
        padding: zeros on each side, or ``'valid'`` (none), or ``'same'`` (as many as keep the size; stride 1 only).
        dilation: step between the elements of a window.
        groups: number of groups that ``C`` and ``O`` are split into; each output group sees its input group only.
    Returns:
        ``(N, O, (H + 2 padding - dilation (kh - 1) - 1) // stride + 1, ...)``, without ``N`` if ``input`` has none.
    Raises:
        RuntimeError: shapes, dtypes or geometry that do not fit.
        TypeError: arguments of a wrong type.
    Gradient: the transposed convolution of ``grad`` to ``input``, the correlation of ``input`` with ``grad`` to ``weight``.
    Source: torch.nn.functional.conv2d.
    Example:
        >>> image = torch.arange(9.0).reshape(1, 1, 3, 3)
        >>> F.conv2d(image, torch.ones(1, 1, 2, 2), bias=torch.tensor([0.5]))
        tensor([[[[ 8.5000, 12.5000],
                  [20.5000, 24.5000]]]])
        >>> F.conv2d(image, torch.ones(4, 1, 3, 3), padding="same").shape
        torch.Size([1, 4, 3, 3])
    """
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


@functional(autocast="narrow", compiled=True)
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Cross-correlation over 3 dimensions; see :func:`torch.conv2d`.

    Args:
        input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        weight: ``(O, C / groups, kd, kh, kw)``.
        bias: ``(O,)``.
        stride: step between windows.
        padding: zeros on each side, or ``'valid'`` (none), or ``'same'`` (as many as keep the size; stride 1 only).
        dilation: step between the elements of a window.
        groups: number of groups that ``C`` and ``O`` are split into.
    Returns:
        ``(N, O, (D + 2 padding - dilation (kd - 1) - 1) // stride + 1, ...)``, without ``N`` if ``input`` has none.
    Raises:
        RuntimeError: shapes, dtypes or geometry that do not fit.
        TypeError: arguments of a wrong type.
    Gradient: the transposed convolution of ``grad`` to ``input``, the correlation of ``input`` with ``grad`` to ``weight``.
    Source: torch.nn.functional.conv3d.
    Example:
        >>> F.conv3d(torch.ones(1, 1, 2, 3, 3), torch.ones(1, 1, 2, 2, 2))
        tensor([[[[[8., 8.],
                   [8., 8.]]]]])
    """
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups)


@functional(autocast="narrow", compiled=True)
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over 1 dimension; see :func:`torch.conv_transpose2d`.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``.
        weight: ``(C, O / groups, k)``.
        bias: ``(O,)``.
        stride, padding, dilation: of the convolution that is transposed.
        output_padding: elements added at the end, less than the stride or the dilation.
        groups: number of groups of channels.
    Returns:
        ``(N, O, (L - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1)``, without ``N`` if ``input`` has none.
    Raises:
        RuntimeError: shapes, dtypes or geometry that do not fit.
    Gradient: the convolution of ``grad`` to ``input``, the correlation of ``grad`` with ``input`` to ``weight``.
    Source: torch.nn.functional.conv_transpose1d.
    Example:
        >>> x, w = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.0, 10.0]]])
        >>> F.conv_transpose1d(x, w)
        tensor([[[ 1., 12., 20.]]])
        >>> F.conv_transpose1d(x, w, stride=3)
        tensor([[[ 1., 10.,  0.,  2., 20.]]])
    """
    return _transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@functional(autocast="narrow", compiled=True)
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution: what :func:`torch.conv2d`'s derivative does to a gradient; enlarges images by ``stride``.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        weight: ``(C, O / groups, kh, kw)``.
        bias: ``(O,)``.
        stride, padding, dilation: of the convolution that is transposed.
        output_padding: elements added on one side, less than the stride or the dilation.
        groups: number of groups of channels.
    Returns:
        ``(N, O, (H - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1, ...)``, without ``N`` if ``input`` has none.
    Raises:
        RuntimeError: shapes, dtypes or geometry that do not fit.
    Gradient: the convolution of ``grad`` to ``input``, the correlation of ``grad`` with ``input`` to ``weight``.
    Source: torch.nn.functional.conv_transpose2d.
    Example:
        >>> F.conv_transpose2d(torch.tensor([[[1.0, 2.0]]]), torch.ones(1, 1, 2, 2), stride=2)
        tensor([[[1., 1., 2., 2.],
                 [1., 1., 2., 2.]]])
    """
    return _transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@functional(autocast="narrow", compiled=True)
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over 3 dimensions; see :func:`torch.conv_transpose2d`.

    Args:
        input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
        weight: ``(C, O / groups, kd, kh, kw)``.
        bias: ``(O,)``.
        stride, padding, dilation: of the convolution that is transposed.
        output_padding: elements added on one side, less than the stride or the dilation.
        groups: number of groups of channels.
    Returns:
        ``(N, O, (D - 1) stride - 2 padding + dilation (kd - 1) + output_padding + 1, ...)``, without ``N`` if ``input`` has none.
    Raises:
        RuntimeError: shapes, dtypes or geometry that do not fit.
    Gradient: the convolution of ``grad`` to ``input``, the correlation of ``grad`` with ``input`` to ``weight``.
    Source: torch.nn.functional.conv_transpose3d.
    Example:
        >>> F.conv_transpose3d(torch.ones(1, 1, 2, 2, 2), torch.ones(1, 3, 2, 2, 2), stride=2).shape
        torch.Size([1, 3, 4, 4, 4])
    """
    return _transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
