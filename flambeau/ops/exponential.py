"""Exponentials and logarithms, the logistic function and its inverse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.calls.annotations import Number, Tensor
from ..core.calls.registry import holomorphic, pointwise
from ..core.layout import strided
from ..core.tensor import Tensor as TensorType
from .arithmetic import conj, order_of, reject

LN2, LN10 = math.log(2), math.log(10)


@holomorphic(ufunc=np.exp, grad={"input": lambda grad, result: grad * conj(result)}, autocast={"cuda": "float32"})
def exp(input: Tensor) -> Tensor:
    """e to the power ``input``, element by element.

    Args:
        input: any shape and dtype.
    Returns:
        A new tensor of ``input``'s shape; the default float dtype for integers and bools.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad * exp(input)``.
    Source: torch.exp.
    Example:
        >>> torch.exp(torch.tensor([0.0, 1.0, -float("inf")]))
        tensor([1.0000, 2.7183, 0.0000])
    """
    return np.exp(input)


@holomorphic(ufunc=np.exp2, grad={"input": lambda grad, result: grad * conj(result * LN2)})
def exp2(input: Tensor) -> Tensor:
    """2 to the power ``input``, element by element.

    Args:
        input: any shape and dtype.
    Returns:
        A new tensor of ``input``'s shape; the default float dtype for integers and bools.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad * exp2(input) * log(2)``.
    Source: torch.exp2.
    Example:
        >>> torch.exp2(torch.tensor([0, 3, -1]))
        tensor([1.0000, 8.0000, 0.5000])
    """
    return np.exp2(input)


@holomorphic(ufunc=np.expm1, grad={"input": lambda grad, result: grad * conj(result + 1)}, autocast={"cuda": "float32"}, keeps_zero=True)
def expm1(input: Tensor) -> Tensor:
    """``exp(input) - 1``, exact near zero.

    Args:
        input: any shape and dtype.
    Returns:
        A new tensor of ``input``'s shape; the default float dtype for integers and bools.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad * (result + 1)``.
    Source: torch.expm1.
    Example:
        >>> torch.expm1(torch.tensor([1e-10])), torch.exp(torch.tensor([1e-10])) - 1
        (tensor([1.0000e-10]), tensor([0.]))
    """
    return np.expm1(input)


@holomorphic(ufunc=np.log, grad={"input": lambda grad, input: grad / conj(input)}, autocast={"cuda": "float32"})
def log(input: Tensor) -> Tensor:
    """Natural logarithm; -inf at 0, NaN below.

    Args:
        input: any shape and dtype.
    Returns:
        A new tensor of ``input``'s shape; the default float dtype for integers and bools.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad / input``.
    Source: torch.log.
    Example:
        >>> torch.log(torch.tensor([1.0, 0.0, -1.0]))
        tensor([0., -inf, nan])
    """
    return np.log(input)


@holomorphic(ufunc=np.log2, grad={"input": lambda grad, input: grad / conj(input * LN2)}, autocast={"cuda": "float32"})
def log2(input: Tensor) -> Tensor:
    """Logarithm to base 2; -inf at 0, NaN below.

    Args:
        input: any shape and dtype.
    Returns:
        A new tensor of ``input``'s shape; the default float dtype for integers and bools.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad / (input * log(2))``.
    Source: torch.log2.
    Example:
        >>> torch.log2(torch.tensor([8, 3, 0]))
        tensor([3.0000, 1.5850,   -inf])
    """
    return np.log2(input)


@holomorphic(ufunc=np.log10, grad={"input": lambda grad, input: grad / conj(input * LN10)}, autocast={"cuda": "float32"})
def log10(input: Tensor) -> Tensor:
    """Logarithm to base 10; -inf at 0, NaN below.

    Args:
        input: any shape and dtype.
    Returns:
        A new tensor of ``input``'s shape; the default float dtype for integers and bools.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad / (input * log(10))``.
    Source: torch.log10.
    Example:
        >>> torch.log10(torch.tensor([1000.0, 2.0, 0.0]))
        tensor([3.0000, 0.3010,   -inf])
    """
    return np.log10(input)


def _log1p_gradient(grad: Any, input: Any) -> Any:
    if input.layout is not strided:
        return grad * conj(input.to_dense() + 1).reciprocal()
    return grad / conj(input + 1)


def complex_log1p(input: np.ndarray) -> np.ndarray:
    """``log(1 + z)`` in which the real part of a small ``z = x + iy`` is not rounded by the 1: half of ``log1p(x * (x + 2) + y * y)``.

    NumPy's own adds the 1 first.
    """
    x, y = input.real.astype(np.float64), input.imag.astype(np.float64)
    small = np.log1p(x * (x + 2) + y * y) / 2
    result = np.empty_like(input)
    result.real = np.where(np.hypot(x, y) < 0.5, small, np.log(np.hypot(x + 1, y)))
    result.imag = np.arctan2(y, x + 1)
    return result


@holomorphic(
    fast=lambda a: np.log1p(a) if a.dtype.kind == "f" else None,
    grad={"input": _log1p_gradient},
    autocast={"cuda": "float32"},
    keeps_zero=True,
)
def log1p(input: Tensor) -> Tensor:
    """``log(1 + input)``, exact near zero.

    Args:
        input: any shape and dtype.
    Returns:
        A new tensor of ``input``'s shape; the default float dtype for integers and bools.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad / (input + 1)``.
    Source: torch.log1p.
    Example:
        >>> torch.log1p(torch.tensor([1e-10])), torch.log(torch.tensor([1e-10]) + 1)
        (tensor([1.0000e-10]), tensor([0.]))
    """
    return complex_log1p(input) if input.dtype.kind == "c" else np.log1p(input)


# -- sums in the logarithm --------------------------------------------------------------------------------------------------------
def complex_logaddexp(input: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The one with the larger real part plus ``log1p`` of the quotient: imaginary parts add up and are not brought back to (-pi, pi].

    Of two numbers whose real parts are minus infinity it is the second, of infinite ones the logarithm of the sum as it stands; NaN
    in any part is NaN in both.
    """
    later = input.real < other.real
    low, high = np.where(later, input, other), np.where(later, other, input)
    same = np.isinf(low.real) & (low.real == high.real)
    infinite = np.where(low.real < 0, low, np.log(np.exp(low) + np.exp(high)))
    result = np.where(same, infinite, high + complex_log1p(np.exp(low - high)))
    return np.where(np.isnan(input) | np.isnan(other), result.dtype.type(complex(np.nan, np.nan)), result)


@pointwise(
    ufunc=np.logaddexp,
    grad={
        "input": lambda grad, input, other: grad / conj(1 + (other - input).exp()),
        "other": lambda grad, input, other: grad / conj(1 + (input - other).exp()),
    },
    inplace=False,
)
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """``log(exp(input) + exp(other))`` without overflow.

    Args:
        input, other: broadcastable tensors, floating point or complex.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        NotImplementedError: integer operands.
        RuntimeError: shapes that do not broadcast.
    Gradient: ``grad`` shared in proportion to the exponentials.
    Source: torch.logaddexp.
    Example:
        >>> torch.logaddexp(torch.tensor([0.0, 1000.0]), torch.tensor([0.0, 0.0]))
        tensor([6.9315e-01, 1.0000e+03])
    """
    reject("logaddexp_cpu", input, "biu")
    if input.dtype.kind == "c":
        return complex_logaddexp(input, other)
    return np.logaddexp(input, other)


@pointwise(
    ufunc=np.logaddexp2,
    grad={
        "input": lambda grad, input, other: grad / conj(1 + (other - input).exp2()),
        "other": lambda grad, input, other: grad / conj(1 + (input - other).exp2()),
    },
    inplace=False,
)
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """``log2(2**input + 2**other)`` without overflow.

    Args:
        input, other: broadcastable tensors, floating point.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        NotImplementedError: integer or complex operands.
        RuntimeError: shapes that do not broadcast.
    Gradient: ``grad`` shared in proportion to the powers.
    Source: torch.logaddexp2.
    Example:
        >>> torch.logaddexp2(torch.tensor([0.5, 1000.0]), torch.tensor([0.5, 0.0]))
        tensor([   1.5000, 1000.0000])
    """
    reject("logaddexp2_cpu", input, "biuc")
    return np.logaddexp2(input, other)


def log_of(value: Any, dtype: Any) -> Any:
    """The logarithm of an operand of a derivative rule, in the dtype that the operands were promoted to."""
    if isinstance(value, TensorType):
        return (value if value.dtype is dtype else value.to(dtype)).log()
    return math.log(value) if value > 0 else (-math.inf if value == 0 else math.nan)


def _times_log(input: np.ndarray, log: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where((input == 0) & ~np.isnan(other), input.dtype.type(0), np.multiply(input, log))


def _xlogy_input_gradient(grad: Any, input: Any, other: Any) -> Any:
    both = (input == 0).logical_and(other <= 0) if isinstance(other, TensorType) else (input == 0 if other <= 0 else None)
    gradient = xlogy(grad, other)  # 0 where nothing comes, whatever the logarithm
    return gradient if both is None else gradient.masked_fill(both, 0)


@pointwise(promotion="int_to_float", grad={"input": _xlogy_input_gradient, "other": lambda grad, input, other: grad * input / other})
def xlogy(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input * log(other)``, 0 where ``input`` is 0 and ``other`` is not NaN.

    Args:
        input, other: broadcastable real tensors, or one of them a number.
    Returns:
        The common floating-point dtype and broadcast shape.
    Raises:
        NotImplementedError: complex operands.
        RuntimeError: shapes that do not broadcast.
    Gradient: ``grad * log(other)``, and ``grad * input / other``.
    Source: torch.xlogy.
    Example:
        >>> torch.xlogy(torch.tensor([2.0, 0.0, 0.0]), torch.tensor([1.0, 0.0, float("nan")]))
        tensor([0., 0., nan])
    """
    reject("xlogy_cpu", input, "c")
    return _times_log(input, np.log(other), other)


def _xlog1py_input_gradient(grad: Any, input: Any, other: Any) -> Any:
    both = (input == 0).logical_and(other <= -1) if isinstance(other, TensorType) else (input == 0 if other <= -1 else None)
    gradient = xlog1py(grad, other)
    return gradient if both is None else gradient.masked_fill(both, 0)


@pointwise(
    promotion="int_to_float",
    namespace="special",
    inplace=False,
    grad={"input": _xlog1py_input_gradient, "other": lambda grad, input, other: grad * input / (other + 1)},
    aten="special_xlog1py",
)
def xlog1py(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input * log1p(other)``, 0 where ``input`` is 0 and ``other`` is not NaN.

    Args:
        input, other: broadcastable real tensors, or one of them a number.
    Returns:
        The common floating-point dtype and broadcast shape.
    Raises:
        NotImplementedError: complex operands.
        RuntimeError: shapes that do not broadcast.
    Gradient: ``grad * log1p(other)``, and ``grad * input / (1 + other)``.
    Source: torch.special.xlog1py.
    Example:
        >>> torch.special.xlog1py(torch.tensor([2.0, 0.0]), torch.tensor([0.0, -1.0]))
        tensor([0., 0.])
    """
    reject("xlog1py_cpu", input, "c")
    return _times_log(input, np.log1p(other), other)


# -- the logistic function ----------------------------------------------------------------------------------------------------
_ONE = np.ones((), np.float32)  # an operand that NumPy need not convert first, unlike the number 1
_SMALL = 4096  # elements: below, new buffers cost less than the ``out=`` of reused ones


def logistic(input: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-input))`` of a float32, float64 or complex array."""
    if input.size < _SMALL:
        return np.divide(_ONE, np.add(_ONE, np.exp(np.negative(input))))
    result = np.negative(input, out=np.empty_like(input, order=order_of(input)))
    np.exp(result, out=result)
    np.add(_ONE, result, out=result)
    return np.divide(_ONE, result, out=result)


@pointwise(
    name="_sigmoid_backward",
    fast=True,
    grad={
        "grad_output": lambda grad, output: grad * (1 - output) * output,
        "output": lambda grad, grad_output, output: grad * grad_output * (1 - 2 * output),
    },
    aten="sigmoid_backward",
    forward="holomorphic",
)
def sigmoid_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    """``grad_output * (1 - output) * output`` of real tensors in one step."""
    return np.multiply(np.multiply(grad_output, np.subtract(_ONE, output)), output)


@holomorphic(
    fast=lambda a: logistic(a) if a.dtype.kind == "f" else None,
    grad={"input": lambda grad, result: grad * conj((1 - result) * result) if result.is_complex() else sigmoid_backward(grad, result)},
)
def sigmoid(input: Tensor) -> Tensor:
    """The logistic function ``1 / (1 + exp(-input))``.

    Args:
        input: any shape and dtype.
    Returns:
        A new tensor of ``input``'s shape; the default float dtype for integers and bools.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad * result * (1 - result)``.
    Source: torch.sigmoid.
    Example:
        >>> torch.sigmoid(torch.tensor([-1000.0, 0.0, 1.0]))
        tensor([0.0000, 0.5000, 0.7311])
    """
    return logistic(input)


def _logit_gradient(grad: Any, input: Any, eps: float | None) -> Any:
    gradient = grad / (input * (1 - input))
    low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
    inside = (input >= low).logical_and(input <= high)
    return gradient.masked_fill(inside.logical_not(), math.nan if eps is None else 0.0)


@pointwise(promotion="int_to_float", grad={"input": _logit_gradient})
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """``log(input / (1 - input))``, the inverse of ``sigmoid``.

    Args:
        input: any shape, real.
        eps: ``input`` is first moved into [eps, 1 - eps]; NaN outside [0, 1] when None.
    Returns:
        A new tensor of ``input``'s shape; the default float dtype for integers and bools.
    Raises:
        NotImplementedError: complex input.
    Gradient: ``grad / (input * (1 - input))`` inside the limits.
    Source: torch.logit.
    Example:
        >>> torch.logit(torch.tensor([0.5, 0.9, 1.0, 1.5])), torch.logit(torch.tensor([1.5]), eps=0.1)
        (tensor([0.0000, 2.1972,    inf,    nan]), tensor([2.1972]))
    """
    reject("logit_cpu", input, "c")
    one = input.dtype.type(1)
    if eps is not None:
        low, high = input.dtype.type(eps), one - input.dtype.type(eps)
        input = np.where(input < low, low, np.where(input > high, high, input))
    return np.log(input / (one - input))
