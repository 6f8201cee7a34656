"""Products of integers, exact, and of numbers with weights of few bits, each with a scale.

Weights of 4 bits are packed on every processor as PyTorch does it on those with AVX-512. Of 64 neighbouring rows, row ``r`` has the lower
half of byte ``r`` and row ``r + 32`` its upper half, element by element; fewer rows at the end are paired as neighbours.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.panels import PackedLinear, wrapped
from ..core.calls.annotations import Tensor
from ..core.calls.casting import opmath
from ..core.calls.out import Out
from ..core.calls.registry import op
from ..core.quantizer import chosen_parameters, step_numbers
from .sorting import complain_derivative

_FLOATS = (dtypes.float32, dtypes.bfloat16, dtypes.float16)
_BLOCK, _HALF, _ROWS = 64, 32, 16  # rows of weights that are packed together, half of them, and of what their number is a multiple
_GROUPS = (32, 64, 128, 256)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def _no_derivative(name: str, *params: str) -> dict[str, Any]:
    return dict.fromkeys(params, lambda grad: complain_derivative(name))


def _no_gradient(grad: Any) -> None:
    """PyTorch's, too, leaves the gradient None, and warns."""
    message = "quantized layers have no derivative: no gradient comes to their inputs"
    warnings.warn(message, UserWarning, stacklevel=2)


# -- exact -----------------------------------------------------------------------------------------------------------------------------
def _check_integers(input: Any, mat2: Any) -> tuple[Any, Any]:
    input.size(0), mat2.size(1)  # which raise as PyTorch's do
    word, shape, other = "int_mm_out_cpu", input.shape, mat2.shape
    _require(len(shape) == 2, f"{word}: Expected self to be of dimension 2 but got {len(shape)}")
    _require(len(other) == 2, f"{word}: Expected mat2 to be of dimension 2 but got {len(other)}")
    _require(shape[1] == other[0], f"{word}: self.size(1) needs to match mat2.size(0) but got {shape[1]} and {other[0]}")
    found, theirs = input.dtype, mat2.dtype
    allowed = found in (dtypes.int8, dtypes.uint8)
    _require(allowed, f"{word}: Expected self dtype to be int8 or uint8 but got {dtypes.cpp_name(found)}")
    _require(theirs is dtypes.int8, f"{word}: Expected mat2 dtype to be of type int8 but got {dtypes.cpp_name(theirs)}")
    return input, mat2


def _check_out(out: Any, shape: tuple[int, ...]) -> None:
    """Nothing is resized, but on the meta device."""
    if out.is_meta:
        return
    word = "int_mm_out_cpu: Expected result"
    for dim, size in enumerate(shape):
        _require(out.size(dim) == size, f"{word}.size({dim}) to be {size} but got {out.size(dim)}")
    _require(out.ndim == len(shape), f"{word} to be of dimension 2 but got {out.ndim}")
    _require(out.is_contiguous(), f"{word} to be contiguous.")


_IN_INT32 = Out(
    fits=lambda have, want: have is want,
    complain=lambda have, want: RuntimeError(f"int_mm_out_cpu: Expected result dtype to be of type kInt but got {dtypes.cpp_name(want)}"),
    check=_check_out,
)


@op(
    name="_int_mm",
    grad=None,
    out=_IN_INT32,
    canonicalize=_check_integers,
    work="input.size * mat2.shape[1] // 16",
    meta=lambda new, input, mat2: new((input.shape[0], mat2.shape[1]), np.int32),
)
def int_mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Matrix product of bytes, with exact sums in int32, which wrap.

    Args:
        input: ``(m, k)``, int8 or uint8.
        mat2: ``(k, n)``, int8.
    Returns:
        ``(m, n)``, int32.
    Raises:
        RuntimeError: other dtypes, or shapes that do not fit.
    Source: torch._int_mm.
    Example:
        >>> a = torch.tensor([[-128, 127]], dtype=torch.int8)
        >>> torch._int_mm(a, torch.full((2, 1), -128, dtype=torch.int8))
        tensor([[128]], dtype=torch.int32)
    """
    return wrapped(input.astype(np.float64) @ mat2.astype(np.float64))  # float64 has every sum


# -- weights of 8 bits -------------------------------------------------------------------------------------------------------------------
def _check_scaled(input: Any, mat2: Any, scales: Any) -> tuple[Any, Any, Any]:
    word, n = "_weight_int8pack_mm_cpu : ", mat2.size(0)
    input.size(0), input.size(1)
    _require(input.dtype in _FLOATS, f"{word}expect A to be either 32-bit or 16-bit float tensor.")
    _require(input.ndim == 2, f"{word}expect A to be 2D tensor.")
    _require(input.stride(1) == 1, f"{word}A must be contiguous on the last dimension.")
    _require(mat2.dtype is dtypes.int8, f"{word}expect B to be int8 tensor.")
    _require(mat2.is_contiguous(), f"{word}expect B to be contiguous.")
    _require(mat2.size(1) == input.shape[1] and mat2.ndim == 2, f"{word}expect B.size(1) == {input.shape[1]}")
    _require(scales.ndim == 1 and scales.shape[0] == n, f"{word}expect scales to be 1d tensor with size {n}")
    _same_floats(input, scales)
    return input, mat2, scales


def _same_floats(input: Any, scales: Any) -> None:
    wanted, found = input.dtype, scales.dtype
    _require(wanted is found, f"expected scalar type {wanted.legacy} but found {found.legacy}")


@op(
    name="_weight_int8pack_mm",
    grad=_no_derivative("aten::_weight_int8pack_mm", "input", "scales"),
    opmath="native",
    canonicalize=_check_scaled,
    work="input.shape[0] * mat2.size // 8",
    meta=lambda new, input, mat2, scales: new((input.shape[0], mat2.shape[0]), input.dtype),
)
def weight_int8pack_mm(input: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """``(input @ mat2.T) * scales``: numbers times weights of 8 bits, with a scale for each row of weights.

    Args:
        input: ``(m, k)``, float32, bfloat16 or float16, its rows contiguous.
        mat2: ``(n, k)``, int8, contiguous.
        scales: ``(n,)``, ``input``'s dtype.
    Returns:
        ``(m, n)``, ``input``'s dtype; sums are float32.
    Raises:
        RuntimeError: dtypes, shapes or strides that do not fit.
    Source: torch._weight_int8pack_mm.
    Example:
        >>> weight = torch.tensor([[1, 2], [3, -4]], dtype=torch.int8)
        >>> torch._weight_int8pack_mm(torch.tensor([[1.0, 0.5]]), weight, torch.tensor([1.0, 0.1]))
        tensor([[2.0000, 0.1000]])
    """
    products = opmath(input) @ mat2.T.astype(np.float32)
    return (products * opmath(scales)).astype(input.dtype, copy=False)


# -- weights of 4 bits -------------------------------------------------------------------------------------------------------------------
def _check_small(input: Any, innerKTiles: int) -> tuple[Any, int]:
    word = "_convert_weight_to_int4pack_cpu : "
    _require(input.ndim == 2, f"{word}expect weight to be 2D tensor.")
    _require(input.dtype is dtypes.int32, f"{word}expect weight to be kInt.")
    _require(input.shape[0] % _ROWS == 0, f"{word}expect N to be dividable by 16")
    _require(input.shape[1] % 2 == 0, "_convert_weight_to_int4pack: expect K to be dividable by 2")
    return input, innerKTiles


@op(
    name="_convert_weight_to_int4pack_for_cpu",
    grad=None,
    canonicalize=_check_small,
    meta=lambda new, input, innerKTiles: new((input.shape[0], input.shape[1] // 2), np.uint8),
)
def convert_weight_to_int4pack_for_cpu(input: Tensor, innerKTiles: int) -> Tensor:
    """Integers of 4 bits, packed for ``_weight_int4pack_mm_for_cpu``.

    Args:
        input: ``(n, k)``, int32 from 0 to 15; ``n`` is a multiple of 16, ``k`` even.
        innerKTiles: not looked at; GPUs have such tiles.
    Returns:
        ``(n, k / 2)``, uint8. What a byte has is the operation's own affair, and another one on other processors in PyTorch.
    Raises:
        RuntimeError: another dtype, or sizes that do not fit.
    Source: torch._convert_weight_to_int4pack_for_cpu.
    Example:
        >>> torch._convert_weight_to_int4pack_for_cpu(torch.arange(32, dtype=torch.int32).reshape(16, 2) % 16, 1)[0]
        tensor([32], dtype=torch.uint8)
    """
    n, k = input.shape
    whole = n // _BLOCK * _BLOCK
    blocks = input[:whole].reshape(whole // _BLOCK, 2, _HALF, k)
    low, high = blocks.transpose(1, 0, 3, 2)
    rest = input[whole:].reshape((n - whole) // 2, 2, k).transpose(1, 2, 0)
    parts = [(low | high << 4).reshape(-1), (rest[0] | rest[1] << 4).reshape(-1)]
    return np.concatenate(parts).astype(np.uint8).reshape(n, k // 2)


def unpacked(packed: np.ndarray) -> np.ndarray:
    """The integers ``(n, k)`` from 0 to 15 of packed weights, as uint8."""
    n, k = packed.shape[0], packed.shape[1] * 2
    whole, flat = n // _BLOCK * _BLOCK, packed.reshape(-1)
    blocks = flat[: whole * k // 2].reshape(whole // _BLOCK, k, _HALF).swapaxes(1, 2)
    rest = flat[whole * k // 2 :].reshape(k, (n - whole) // 2).T
    result = np.empty((n, k), np.uint8)
    places = result[:whole].reshape(whole // _BLOCK, 2, _HALF, k)
    places[:, 0], places[:, 1] = blocks & 15, blocks >> 4
    result[whole::2], result[whole + 1 :: 2] = rest & 15, rest >> 4
    return result


def _check_grouped(input: Any, mat2: Any, qGroupSize: int, qScaleAndZeros: Any) -> tuple[Any, Any, int, Any]:
    word, n, _m, k = "_weight_int4pack_mm_cpu ", mat2.size(0), input.size(0), input.size(1)
    _require(input.dtype in _FLOATS, f"{word}: expect A to be either 32-bit or 16-bit float tensor.")
    _require(input.is_contiguous(), f"{word}: expect A to be contiguous.")
    _require(input.ndim == 2, f"{word}: expect A to be 2D tensor.")
    _require(mat2.dtype is dtypes.uint8, f"{word}: expect B to be uint8 tensor.")
    _require(mat2.is_contiguous(), f"{word}: expect B to be contiguous.")
    _require(mat2.size(1) == k // 2 and mat2.ndim == 2, f"{word}: expect B.size(1) to be K/2, got {mat2.shape[-1]}")
    word = "_weight_int4pack_mm_cpu: "
    _require(qGroupSize in _GROUPS, f"{word}expect qGroupSize to be 32, 64, 128 or 256, got {qGroupSize}")
    _require(k % qGroupSize == 0, f"{word}expect K to be divisible by qGroupSize, got K:{k}, qGroupSize:{qGroupSize}")
    fits = qScaleAndZeros.ndim == 3 and qScaleAndZeros.shape[1:] == (n, 2)
    _require(fits, f"{word}expect qScaleAndZeros to be 3d tensor with sizes [:, {n}, 2]")
    _same_floats(input, qScaleAndZeros)
    if len(qScaleAndZeros) < k // qGroupSize:
        raise ValueError(f"{word}expected {k // qGroupSize} groups in qScaleAndZeros, got {len(qScaleAndZeros)}")
    return input, mat2, qGroupSize, qScaleAndZeros


@op(
    name="_weight_int4pack_mm_for_cpu",
    grad=_no_derivative("aten::_weight_int4pack_mm_for_cpu", "input", "qScaleAndZeros"),
    opmath="native",
    canonicalize=_check_grouped,
    work="input.shape[0] * mat2.size // 4",
    meta=lambda new, input, mat2, qGroupSize, qScaleAndZeros: new((input.shape[0], mat2.shape[0]), input.dtype),
)
def weight_int4pack_mm_for_cpu(input: Tensor, mat2: Tensor, qGroupSize: int, qScaleAndZeros: Tensor) -> Tensor:
    """Numbers times weights of 4 bits: a weight is ``(integer - 8) * scale + zero``, with a scale and a zero for each group of a row.

    Args:
        input: ``(m, k)``, float32, bfloat16 or float16, contiguous.
        mat2: ``(n, k / 2)``, uint8: what ``_convert_weight_to_int4pack_for_cpu`` returns.
        qGroupSize: neighbours in a row that share a scale: 32, 64, 128 or 256.
        qScaleAndZeros: ``(k / qGroupSize, n, 2)``, ``input``'s dtype.
    Returns:
        ``(m, n)``, ``input``'s dtype; sums are float32.
    Raises:
        RuntimeError: dtypes, shapes or strides that do not fit.
        ValueError: fewer groups than ``k`` has, beyond which PyTorch reads.
    Source: torch._weight_int4pack_mm_for_cpu.
    Example:
        >>> weight = torch._convert_weight_to_int4pack_for_cpu(torch.full((16, 32), 9, dtype=torch.int32), 1)
        >>> torch._weight_int4pack_mm_for_cpu(torch.ones(1, 32), weight, 32, torch.full((1, 16, 2), 0.5))[0, :2]
        tensor([32., 32.])
    """
    return (opmath(input) @ weights_of(mat2, qGroupSize, qScaleAndZeros)).astype(input.dtype, copy=False)


def weights_of(packed: np.ndarray, group: int, scales: np.ndarray) -> np.ndarray:
    """The weights ``(k, n)`` as float32."""
    numbers = unpacked(packed).T.astype(np.float32) - np.float32(8)
    (k, n), parts = numbers.shape, opmath(scales)[: len(numbers) // group]
    grouped = numbers.reshape(k // group, group, n) * parts[:, None, :, 0] + parts[:, None, :, 1]
    return grouped.reshape(k, n)


# -- quantized layers --------------------------------------------------------------------------------------------------------------------
@op(
    name="_quantized_linear_dynamic",
    grad={"input": _no_gradient},
    aten=None,
    fast=True,
    work="input.size * packed.panels.n // 16",
    meta=lambda new, input, packed, reduce_range, relu: new((*input.shape[:-1], packed.panels.n), np.float32),
)
def quantized_linear_dynamic(input: Tensor, packed: PackedLinear, reduce_range: bool, relu: bool) -> Tensor:
    """A linear layer of quantized weights, whose input is rounded to bytes by its least and greatest number.

    Args:
        input: ``(*, k)``, float32.
        packed: the layer's weights ``(n, k)`` and bias.
        reduce_range: to use 0 to 127.
        relu: whether negative results become 0.
    Returns:
        ``(*, n)``, float32.
    Raises:
        RuntimeError: numbers of which none is the least.
    Gradient: none comes to ``input``, with a warning.
    """
    panels, low, high = packed.panels, 0.0, 0.0
    if input.size:
        low, high = _extremes(input)
    if not low <= high:
        raise RuntimeError("In ChooseQuantizationParams, min should be less than or equal to max")
    scale, zero = chosen_parameters(low, high, 0, 127 if reduce_range else 255)
    with np.errstate(all="ignore"):
        steps = step_numbers(_rows(input), np.float32(1) / np.float32(scale), zero)
        rows = np.clip(np.where(np.isnan(steps), np.float32(255), steps), 0, 255).astype(np.uint8)
        result = packed.numbers(scale, relu).of(panels.sums(rows, zero), np.dtype(np.float32))
    return result.reshape(*input.shape[:-1], panels.n)


def _rows(x: np.ndarray) -> np.ndarray:
    """As a matrix, also where its rows have no elements."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _extremes(x: np.ndarray) -> tuple[float, float]:
    """The least and the greatest number that are not NaN; infinities in the wrong order where there is none."""
    return float(np.fmin.reduce(x, None, initial=np.inf)), float(np.fmax.reduce(x, None, initial=-np.inf))


@op(
    name="_quantized_linear",
    grad=None,
    aten=None,
    fast=True,
    work="input.size * packed.panels.n // 16",
    meta=lambda new, input, packed, *rest: new((*input.shape[:-1], packed.panels.n), np.uint8),
)
def quantized_linear(input: Tensor, packed: PackedLinear, scale: float, zero: int, out_scale: float, out_zero: int, relu: bool) -> Tensor:
    """A linear layer of quantized weights and inputs, with bytes as results.

    Args:
        input: ``(*, k)``, uint8; ``(input - zero) * scale`` are the numbers.
        packed: the layer's weights ``(n, k)`` and bias.
        out_scale, out_zero: the results' step and zero point.
        relu: whether results below ``out_zero`` become that.
    Returns:
        ``(*, n)``, uint8.
    """
    sums = packed.panels.sums(_rows(input), zero)
    result = packed.bytes(scale, out_scale, out_zero, relu).of(sums, np.dtype(np.uint8))
    return result.reshape(*input.shape[:-1], packed.panels.n)
