"""Powers and roots, element by element, and the binary exponent of a number."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.calls.annotations import Number, Tensor
from ..core.calls.casting import fits_integers
from ..core.calls.out import EXACT
from ..core.calls.promotion import common_dtype
from ..core.calls.registry import add_method, composite, holomorphic, overload, pointwise, primitive
from ..core.tensor import Tensor as TensorType
from .arithmetic import conj, reject, zeros
from .exponential import log_of

# x ** n as PyTorch computes it for these n, with the accuracy of the plain operations
_BY_EXPONENT = {
    0.5: np.sqrt,
    2.0: np.square,
    3.0: lambda x: np.multiply(np.multiply(x, x), x),
    -0.5: lambda x: np.divide(x.dtype.type(1), np.sqrt(x)),
    -1.0: lambda x: np.divide(x.dtype.type(1), x),
    -2.0: lambda x: np.divide(x.dtype.type(1), np.multiply(x, x)),
}


def _fast_pow(input: np.ndarray, exponent: Any) -> np.ndarray | None:
    if exponent.__class__ is float or exponent.__class__ is int:
        kernel = _BY_EXPONENT.get(exponent)
        if kernel is not None and (input.dtype.kind == "f" or (exponent.__class__ is int and exponent in (2, 3))):
            return kernel(input)
        return None if input.dtype.kind != "f" else np.power(input, exponent)
    return np.power(input, exponent) if input.dtype.kind == "f" else None


def _pow_input_gradient(grad: Any, input: Any, exponent: Any) -> Any:
    if not isinstance(exponent, TensorType):
        if exponent == 2:
            return grad * (conj(input) * 2)
        if exponent == 0:
            return zeros(grad)
        return grad * conj(exponent * input ** (exponent - 1))
    gradient = grad * conj(exponent * input ** (exponent - 1))
    return gradient.masked_fill(exponent == 0, 0)


def _pow_exponent_gradient(grad: Any, input: Any, exponent: Any, result: Any) -> Any:
    if not isinstance(input, TensorType):
        if input == 0:
            return (grad * conj(result * -np.inf)).masked_fill(_not_negative(exponent), 0)
        if isinstance(input, complex) or (input < 0 and exponent.is_complex()):
            return grad * conj(result * cmath.log(input))
        return grad * conj(result * (math.log(input) if input > 0 else math.nan))
    gradient = grad * conj(result * log_of(input, result.dtype))
    return gradient.masked_fill((input == 0).logical_and(_not_negative(exponent)), 0)


def _not_negative(exponent: Any) -> Any:
    return exponent.real >= 0 if exponent.is_complex() else exponent >= 0


def _canonicalize_pow(input: Any, exponent: Any) -> tuple[Any, ...]:
    if not isinstance(input, TensorType) and not isinstance(exponent, TensorType):
        raise TypeError(f"pow() received an invalid combination of arguments - got ({type(input).__name__}, {type(exponent).__name__})")
    if isinstance(exponent, int) and exponent < 0 and isinstance(input, TensorType) and input.dtype.category <= dtypes.INTEGER:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if exponent.__class__ is int and isinstance(input, TensorType) and input.dtype.category == dtypes.INTEGER:
        if not fits_integers(exponent, input.dtype):
            raise RuntimeError(f"value cannot be converted to type {input.dtype.name}_t without overflow")
    return input, exponent


@pointwise(
    operator="pow",
    fast=_fast_pow,
    canonicalize=_canonicalize_pow,
    constants=_BY_EXPONENT,
    grad={"input": _pow_input_gradient, "exponent": _pow_exponent_gradient},
    autocast={"cuda": "float32"},
    forward="holomorphic",
)
def pow_(input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    """``input ** exponent``, element by element.

    Args:
        input, exponent: broadcastable tensors, or one of them a number.
    Returns:
        The broadcast shape, the common dtype.
    Raises:
        RuntimeError: integers to a negative integer number, or a number that an integer dtype cannot hold.
        NotImplementedError: bool tensors to the power of bool tensors.
    Gradient: ``grad * exponent * input**(exponent - 1)``, and ``grad * result * log(input)``.
    Source: torch.pow. Exponents 0.5, 2, 3, -0.5, -1 and -2 are computed by roots, products and quotients.
    Example:
        >>> torch.tensor([2, 3]) ** 2, 2.0 ** torch.tensor([3, -1])
        (tensor([4, 9]), tensor([8.0000, 0.5000]))
        >>> torch.pow(torch.tensor([4.0, -4.0]), 0.5)
        tensor([2., nan])
    """
    reject("pow", input, "b")
    if input.dtype.kind in "iu":
        return _integer_power(input, exponent)
    if exponent.ndim == 0 and exponent.dtype.kind == "f":
        kernel = _BY_EXPONENT.get(float(exponent))
        if kernel is not None:
            return kernel(input)
    return np.power(input, exponent)


@pointwise(name="_power_of_truth", inplace=True, out=True, grad=None)
def power_of_truth(input: Tensor, exponent: Number) -> Tensor:
    """A bool tensor to the power of a bool."""
    return np.logical_or(input, np.logical_not(exponent))


@overload("pow")
def _truth_to_a_number(op: Any, input: Any, exponent: Any) -> Any:
    is_truth = exponent.__class__ is bool and isinstance(input, TensorType) and input.dtype is dtypes.bool_
    return primitive("_power_of_truth") if is_truth else None


def _integer_power(input: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    negative = exponent < 0
    power = np.power(input, np.where(negative, 0, exponent).astype(exponent.dtype))
    odd = (exponent & 1) == 1
    inverse = np.where(input == 1, 1, np.where(input == -1, np.where(odd, -1, 1), 0)).astype(input.dtype)
    return np.where(negative, inverse, power)


@composite(out=True, inplace=False, pointwise=True)
def float_power(input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    """``input ** exponent`` computed in float64, or complex128 where an operand is complex.

    Args:
        input, exponent: tensors of broadcastable shapes, or one of them a number.
    Returns:
        The broadcast shape; float64 or complex128.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Source: torch.float_power.
    Example:
        >>> torch.float_power(torch.tensor([2, 4]), -1)
        tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    operands = (input, exponent)
    wide = dtypes.complex128 if common_dtype(operands).is_complex else dtypes.float64
    base, power = (operand.to(wide) if isinstance(operand, TensorType) else operand for operand in operands)
    return pow_(base, power)


def _float_power_in_place(self: Any, exponent: Any) -> Any:
    """In-place form of :func:`torch.float_power`, of float64 and complex128 tensors; RuntimeError for others."""
    result = float_power(self, exponent)
    if result.dtype is not self.dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype.legacy} but the operation's result requires dtype {result.dtype.legacy}"
        )
    return self.copy_(result)


@pointwise(
    ufunc=np.square,
    promotion="bool_to_long",
    grad={"input": lambda grad, input: grad * (conj(input) * 2)},
    aten=None,
    forward="holomorphic",
    keeps_zero=True,
)
def square(input: Tensor) -> Tensor:
    """``input * input``, element by element.

    Args:
        input: any shape and dtype.
    Returns:
        ``input``'s shape and dtype; int64 for bools.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``2 * grad * input``.
    Source: torch.square.
    Example:
        >>> torch.square(torch.tensor([-3, 4]))
        tensor([ 9, 16])
    """
    return np.square(input)


@holomorphic(ufunc=np.sqrt, grad={"input": lambda grad, result: grad / (2 * conj(result))}, keeps_zero=True)
def sqrt(input: Tensor) -> Tensor:
    """Square root, element by element; NaN for negative real numbers.

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad / (2 * sqrt(input))``.
    Source: torch.sqrt.
    Example:
        >>> torch.sqrt(torch.tensor([9.0, -1.0]))
        tensor([3., nan])
        >>> torch.sqrt(torch.tensor([-1 + 0j]))
        tensor([0.+1.j])
    """
    return np.sqrt(input)


def _reciprocal_root(input: np.ndarray) -> np.ndarray:
    return np.divide(input.dtype.type(1), np.sqrt(input))


@holomorphic(
    fast=lambda a: _reciprocal_root(a) if a.dtype.kind == "f" else None,
    grad={"input": lambda grad, result: grad * (-0.5 * conj(result) ** 3)},
    autocast={"cuda": "float32"},
)
def rsqrt(input: Tensor) -> Tensor:
    """``1 / sqrt(input)``, element by element.

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex; infinite at 0, NaN for negative real numbers.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``-grad * result**3 / 2``.
    Source: torch.rsqrt.
    Example:
        >>> torch.rsqrt(torch.tensor([4.0, 0.0, -1.0]))
        tensor([0.5000,    inf,    nan])
    """
    return _reciprocal_root(input)


@holomorphic(
    fast=lambda a: np.divide(a.dtype.type(1), a) if a.dtype.kind == "f" else None,
    grad={"input": lambda grad, result: -grad * conj(result * result)},
    autocast={"cuda": "float32"},
)
def reciprocal(input: Tensor) -> Tensor:
    """``1 / input``, element by element.

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex; infinite at 0.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``-grad * result**2``.
    Source: torch.reciprocal.
    Example:
        >>> torch.reciprocal(torch.tensor([4, -2, 0]))
        tensor([ 0.2500, -0.5000,     inf])
    """
    return np.divide(input.dtype.type(1), input)


@pointwise(
    ufunc=np.hypot,
    grad={"input": lambda grad, input, result: grad * (input / result), "other": lambda grad, other, result: grad * (other / result)},
)
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """``sqrt(input**2 + other**2)``, element by element, without overflow in between.

    Args:
        input, other: floating point, broadcastable shapes.
    Returns:
        The broadcast shape, the common dtype.
    Raises:
        NotImplementedError: integer, bool or complex operands.
        RuntimeError: shapes that do not broadcast.
    Gradient: ``grad * input / result`` and ``grad * other / result``.
    Source: torch.hypot.
    Example:
        >>> torch.hypot(torch.tensor([3.0, 3e30]), torch.tensor([4.0, 4e30]))
        tensor([5.0000e+00, 5.0000e+30])
    """
    reject("hypot_cpu", input, "biuc")
    return np.hypot(input, other)


@composite(inplace=True, out=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """``input * 2**other``, element by element.

    Args:
        input: any shape and dtype.
        other: exponents, broadcastable; integers among them do not change a floating-point dtype.
    Returns:
        The broadcast shape; floating point or complex.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Gradient: that of the product and the power.
    Source: torch.ldexp.
    Example:
        >>> torch.ldexp(torch.tensor([3.0, 3.0]), torch.tensor([2, -1]))
        tensor([12.0000,  1.5000])
    """
    # 2 has the dtype of the input: where neither has dimensions, the power is taken in the wider of both
    both = input.dtype.category >= dtypes.FLOATING and other.dtype.category >= dtypes.FLOATING
    result = input * pow_(input.new_full((), 2.0) if both and input.dtype is not other.dtype else 2.0, other)
    keeps = input.dtype.category >= dtypes.FLOATING and other.dtype.category < dtypes.FLOATING
    return result.to(input.dtype) if keeps else result


@pointwise(
    promotion="keep",
    inplace=False,
    out=EXACT,
    returns=("mantissa", "exponent"),
    grad={"input": lambda grad, result1: grad / pow_(2.0, result1)},
)
def frexp(input: Tensor) -> Any:
    """Mantissa in [0.5, 1) and binary exponent of every element: ``input == mantissa * 2**exponent``.

    Args:
        input: any shape, floating point.
    Returns:
        Named tuple (mantissa, exponent) of ``input``'s shape; the exponent is int32.
    Raises:
        RuntimeError: an integer or complex tensor.
    Gradient: ``grad / 2**exponent`` from the mantissa.
    Source: torch.frexp.
    Example:
        >>> mantissa, exponent = torch.frexp(torch.tensor([6.0, 0.25]))
        >>> mantissa, exponent
        (tensor([0.7500, 0.5000]), tensor([ 3, -1], dtype=torch.int32))
    """
    if input.dtype.kind in "biuc":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    wide = input if input.dtype.isbuiltin != 2 else input.astype(np.float32)
    mantissa, exponent = np.frexp(wide)
    return mantissa.astype(input.dtype), exponent.astype(np.int32)


add_method("float_power_", lambda: _float_power_in_place)
