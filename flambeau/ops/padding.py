"""Padding: constants, reflections, repeated edges and wrap-around around the last dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.padding import places_of, sides_of
from ..core.calls.annotations import Tensor
from ..core.calls.casting import checked_number
from ..core.calls.interruption import pass_on
from ..core.calls.registry import composite, op
from ..core.layout import empty_as, preserve_format
from ..core.tape.ties import tied
from .patches import in_layout, is_channels_last, padded

_MODES = ("reflect", "replicate", "circular")


def _amounts(pad: Any, operation: str) -> list[int]:
    """``pad`` as ints.

    Raises:
        TypeError: anything but integers.
    """
    try:
        if isinstance(pad, (int, str)):
            raise TypeError
        return [amount.__index__() for amount in pad]
    except (AttributeError, TypeError) as error:
        pass_on(error)
        raise TypeError(f"{operation}(): argument 'pad' (position 2) must be tuple of ints, not {type(pad).__name__}") from None


@op(method=False, out=False, opmath="native", grad={"input": lambda grad, pad: constant_pad_nd(grad, [-amount for amount in pad], 0)})
def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """``input`` with ``value`` before and after its last dimensions.

    Args:
        input: any shape and dtype.
        pad: amounts before and after the last dimension, then the last but one, and so on; negative amounts cut.
        value: a number.
    Returns:
        ``input``'s dtype; each padded size is greater by both amounts. A new tensor.
    Raises:
        RuntimeError: an odd number of amounts, more than ``input`` has sides, a size that would be negative, or a ``value`` that the dtype
            cannot hold.
        TypeError: amounts that are not integers.
    Gradient: ``grad`` without the padding.
    Source: torch.constant_pad_nd.
    Example:
        >>> torch.constant_pad_nd(torch.tensor([[1, 2]]), (1, 0, 0, 1), 9)
        tensor([[9, 1, 2],
                [9, 9, 9]])
    """
    amounts = _amounts(pad, "constant_pad_nd")
    if len(amounts) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(amounts)}")
    if len(amounts) > 2 * input.ndim:
        raise RuntimeError(
            f"Length of pad should be no more than twice the number of dimensions of the input. Pad length is {len(amounts)} while the "
            f"input has {input.ndim} dimensions."
        )
    before, after = sides_of(amounts, input.ndim)
    lead = input.ndim - len(before)
    for k, (low, high) in enumerate(zip(before, after, strict=True)):
        size = input.shape[lead + k]
        if size + min(low, 0) + min(high, 0) < 0 and size + low + high >= 0:
            raise RuntimeError(f"narrow(): length must be non-negative: expected padding that cuts at most {size}, got {low} and {high}")
        if size + low + high < 0:
            raise RuntimeError(
                f"The input size {size}, plus negative padding {low} and {high} resulted in a negative output size, which is invalid. "
                f"Check dimension {lead + k} of your input."
            )
    if max(amounts, default=0) <= 0:  # nothing is added: a copy, in the order of dimensions of what is left
        left = [slice(-low, input.shape[lead + k] + high) for k, (low, high) in enumerate(zip(before, after, strict=True))]
        rest = input[(..., *left)] if left else input
        result = empty_as(rest, preserve_format, rest.shape, rest.dtype)
        result[...] = rest
        return result
    if value != 0:
        value = checked_number(value, dtypes.of_array(input))
    result = padded(input, before, after, value) if lead else padded(input[None], before, after, value)[0]
    return in_layout(result, is_channels_last(input))


@op(
    batch=0,
    name="_pad_by_copy",
    namespace="nn.functional",
    opmath="native",
    grad={
        "input": lambda grad, pad, mode, node: tied(pad_by_copy_backward(grad, pad, mode), None if mode == "circular" else node.edges[0])
    },
    autocast={"cpu": "float32"},
    autocast_except=lambda input, pad, mode: mode == "circular" or (mode == "reflect" and len(pad) == 6),
    forward="linear",
)
def pad_by_copy(input: Tensor, pad: Any, mode: str) -> Tensor:
    """``input`` extended by copies of its own elements."""
    before, after = sides_of(pad, input.ndim)
    result, lead = input, input.ndim - len(before)
    last = is_channels_last(input)
    for k, (low, high) in enumerate(zip(before, after, strict=True)):
        if low or high:
            result = result.take(places_of(input.shape[lead + k], low, high, mode), axis=lead + k)
    return result.copy() if result is input else in_layout(np.ascontiguousarray(result), last)


@op(
    batch=0,
    name="_pad_by_copy_backward",
    namespace="nn.functional",
    promotion="same",
    grad={"grad_output": lambda grad, pad, mode: pad_by_copy(grad, pad, mode)},
    forward="linear",
)
def pad_by_copy_backward(grad_output: Tensor, pad: Any, mode: str) -> Tensor:
    """The adjoint of ``_pad_by_copy``: what was copied into the padding is added where it came from."""
    before, after = sides_of(pad, grad_output.ndim)
    gradient, lead = grad_output, grad_output.ndim - len(before)
    for k, (low, high) in enumerate(zip(before, after, strict=True)):
        if not low and not high:
            continue
        source = np.moveaxis(gradient, lead + k, 0)
        size = source.shape[0] - low - high
        places = places_of(size, low, high, mode)
        start = min(max(low, 0), source.shape[0])
        stop = start + size - max(-low, 0) - max(-high, 0)
        total = np.zeros((size, *source.shape[1:]), source.dtype)
        if stop > start:
            total[places[start:stop]] = source[start:stop]
        for at in (*range(start), *range(max(stop, start), source.shape[0])):
            total[places[at]] += source[at]
        gradient = np.moveaxis(total, 0, lead + k)
    return gradient.copy() if gradient is grad_output else np.ascontiguousarray(gradient)


def _check_extension(input: Any, pad: list[int], mode: str) -> None:
    """Raise where ``input`` has not enough elements to copy.

    Raises:
        NotImplementedError: a number of dimensions that is not supported.
        RuntimeError: an empty dimension, or more padding than there are elements.
    """
    count, ndim = len(pad) // 2, input.ndim
    if not (len(pad) in (2, 4, 6) and ndim in (count + 1, count + 2)):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    shape, padded = tuple(input.shape), list(input.shape)
    for k in range(count):
        dim = ndim - 1 - k
        low, high, size = pad[2 * k], pad[2 * k + 1], shape[dim]
        if mode == "circular":
            if low > size or high > size:
                raise RuntimeError("Padding value causes wrapping around more than once.")
            if low + high + size < 0:
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
        elif mode == "reflect" and (low >= size or high >= size):
            raise RuntimeError(
                f"Argument #{4 + 2 * k}: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({low}, {high}) at dimension {dim} of input {list(shape)}"
            )
        padded[dim] += low + high
    if mode != "circular" and max(padded[ndim - count :]) < 1:
        raise RuntimeError(f"input of size {list(shape[ndim - count :])} is too small. Calculated output size {padded[ndim - count :]}")
    if min(padded) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(padded)}: {padded}")
    if any(size == 0 for size in shape[ndim - count - (1 if ndim == count + 2 else 0) :]):
        raise RuntimeError(
            f"Expected {count + 1}D or {count + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )


@composite(namespace="nn.functional")
def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Put something around the last dimensions of ``input``: a value, or copies of its own elements.

    Args:
        input: any shape; for modes other than ``'constant'`` one or two dimensions more than are padded, of which there are 1 to 3.
        pad: amounts before and after the last dimension, then the last but one, and so on; negative amounts cut.
        mode: ``'constant'``, ``'reflect'`` (mirror without the edge), ``'replicate'`` (the edge again) or ``'circular'`` (the other end).
        value: what ``'constant'`` puts in; 0 when None.
    Returns:
        ``input``'s dtype; each padded size is greater by both amounts. A new tensor.
    Raises:
        RuntimeError: amounts that do not fit: an odd number, more than ``input`` has sides, or too much for the mode.
        NotImplementedError: an unknown mode, or a number of dimensions that the mode does not support.
        ValueError: a ``value`` with another mode than ``'constant'``.
    Source: torch.nn.functional.pad.
    Example:
        >>> x = torch.tensor([[[1, 2, 3]]])
        >>> F.pad(x, (2, 1)), F.pad(x, (2, 1), mode="replicate")
        (tensor([[[0, 0, 1, 2, 3, 0]]]), tensor([[[1, 1, 1, 2, 3, 3]]]))
        >>> F.pad(x, (2, 1), mode="reflect"), F.pad(x, (2, 1), mode="circular")
        (tensor([[[3, 2, 1, 2, 3, 2]]]), tensor([[[2, 3, 1, 2, 3, 1]]]))
    """
    amounts = _amounts(pad, "pad")
    if len(amounts) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, but got {len(amounts)}")
    if len(amounts) > 2 * input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length {len(amounts)} and "
            f"input of dimension {input.ndim}"
        )
    if mode == "constant":
        return constant_pad_nd(input, amounts, 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    _check_extension(input, amounts, mode)
    return pad_by_copy(input, amounts, mode)
