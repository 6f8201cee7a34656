"""Circular and hyperbolic functions and their inverses, in radians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.calls.annotations import Number, Tensor
from ..core.calls.registry import holomorphic, pointwise
from .arithmetic import conj, reject


@holomorphic(ufunc=np.sin, grad={"input": lambda grad, input: grad * conj(input.cos())}, keeps_zero=True)
def sin(input: Tensor) -> Tensor:
    """Sine of an angle in radians.

    Args:
        input: in radians, any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad * cos(input)``.
    Source: torch.sin.
    Example:
        >>> torch.sin(torch.tensor([0.0, torch.pi / 6, torch.pi / 2]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    return np.sin(input)


@holomorphic(ufunc=np.cos, grad={"input": lambda grad, input: grad * -conj(input.sin())})
def cos(input: Tensor) -> Tensor:
    """Cosine of an angle in radians.

    Args:
        input: in radians, any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``-grad * sin(input)``.
    Source: torch.cos.
    Example:
        >>> torch.cos(torch.tensor([0.0, torch.pi / 3, torch.pi]))
        tensor([ 1.0000,  0.5000, -1.0000])
    """
    return np.cos(input)


@holomorphic(
    ufunc=np.tan,
    grad={"input": lambda grad, result: grad * conj(1 + result * result)},
    autocast={"cuda": "float32"},
    keeps_zero=True,
)
def tan(input: Tensor) -> Tensor:
    """Tangent of an angle in radians.

    Args:
        input: in radians, any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad * (1 + tan(input)**2)``.
    Source: torch.tan.
    Example:
        >>> torch.tan(torch.tensor([0.0, 1.0, -1.0]))
        tensor([ 0.0000,  1.5574, -1.5574])
    """
    return np.tan(input)


@holomorphic(
    ufunc=np.arcsin,
    aliases=("arcsin",),
    grad={"input": lambda grad, input: grad * conj((1 - input * input).rsqrt())},
    autocast={"cuda": "float32"},
    keeps_zero=True,
)
def asin(input: Tensor) -> Tensor:
    """Inverse sine: the angle in [-pi/2, pi/2] with this sine; NaN outside [-1, 1].

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, in radians, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad / sqrt(1 - input**2)``.
    Source: torch.asin.
    Example:
        >>> torch.asin(torch.tensor([0.5, 1.0, 2.0]))
        tensor([0.5236, 1.5708,    nan])
    """
    return np.arcsin(input)


@holomorphic(
    ufunc=np.arccos,
    aliases=("arccos",),
    grad={"input": lambda grad, input: grad * -conj((1 - input * input).rsqrt())},
    autocast={"cuda": "float32"},
)
def acos(input: Tensor) -> Tensor:
    """Inverse cosine: the angle in [0, pi] with this cosine; NaN outside [-1, 1].

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, in radians, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``-grad / sqrt(1 - input**2)``.
    Source: torch.acos.
    Example:
        >>> torch.acos(torch.tensor([1.0, 0.0, 2.0]))
        tensor([0.0000, 1.5708,    nan])
    """
    return np.arccos(input)


@holomorphic(ufunc=np.arctan, aliases=("arctan",), grad={"input": lambda grad, input: grad / conj(input * input + 1)}, keeps_zero=True)
def atan(input: Tensor) -> Tensor:
    """Inverse tangent: the angle in (-pi/2, pi/2) with this tangent.

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, in radians, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad / (1 + input**2)``.
    Source: torch.atan.
    Example:
        >>> torch.atan(torch.tensor([0.0, 1.0, torch.inf]))
        tensor([0.0000, 0.7854, 1.5708])
    """
    return np.arctan(input)


def _inverse_square(y: Any, x: Any) -> Any:
    """1 / distance**2 from the origin, 0 at the origin."""
    squared = x * x + y * y
    return squared.reciprocal().masked_fill(squared == 0, 0)


def _acosh_gradient(grad: Any, input: Any) -> Any:
    if input.is_complex():
        return grad * conj((input + 1).rsqrt() * (input - 1).rsqrt())
    return grad * (input * input - 1).rsqrt()


@pointwise(
    ufunc=np.arctan2,
    aliases=("arctan2",),
    promotion="int_to_float",
    grad={
        "input": lambda grad, input, other: grad * other * _inverse_square(input, other),
        "other": lambda grad, input, other: grad * -input * _inverse_square(input, other),
    },
    autocast={"cuda": "widest"},
)
def atan2(input: Tensor, other: Tensor) -> Tensor:
    """Angle in [-pi, pi] of the point (``other``, ``input``), the quadrant included.

    Args:
        input: ordinates, real.
        other: abscissas, real, with a shape that broadcasts.
    Returns:
        The broadcast shape, in radians, floating point.
    Raises:
        NotImplementedError: complex operands.
    Gradient: ``grad * other / r**2`` and ``-grad * input / r**2`` with r the distance from the origin.
    Source: torch.atan2.
    Example:
        >>> torch.atan2(torch.tensor([1.0, -1.0]), torch.tensor([-1.0, -1.0]))  # 135 degrees and -135
        tensor([ 2.3562, -2.3562])
    """
    reject("atan2_cpu", input, "c")
    return np.arctan2(input, other)


@holomorphic(ufunc=np.sinh, grad={"input": lambda grad, input: grad * conj(input.cosh())}, autocast={"cuda": "float32"}, keeps_zero=True)
def sinh(input: Tensor) -> Tensor:
    """Hyperbolic sine, ``(exp(input) - exp(-input)) / 2``.

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad * cosh(input)``.
    Source: torch.sinh.
    Example:
        >>> torch.sinh(torch.tensor([0.0, 1.0, -1.0]))
        tensor([ 0.0000,  1.1752, -1.1752])
    """
    return np.sinh(input)


@holomorphic(ufunc=np.cosh, grad={"input": lambda grad, input: grad * conj(input.sinh())}, autocast={"cuda": "float32"})
def cosh(input: Tensor) -> Tensor:
    """Hyperbolic cosine, ``(exp(input) + exp(-input)) / 2``.

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad * sinh(input)``.
    Source: torch.cosh.
    Example:
        >>> torch.cosh(torch.tensor([0.0, 1.0, -1.0]))
        tensor([1.0000, 1.5431, 1.5431])
    """
    return np.cosh(input)


_ONE = np.ones((), np.float32)


@pointwise(
    name="_tanh_backward",
    fast=True,
    grad={
        "grad_output": lambda grad, output: grad * (1 - output * output),
        "output": lambda grad, grad_output, output: grad * (output * grad_output * -2),
    },
    aten="tanh_backward",
    forward="holomorphic",
)
def tanh_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    """``grad_output * (1 - output**2)`` of real tensors in one step."""
    return np.multiply(grad_output, np.subtract(_ONE, np.square(output)))


@holomorphic(
    ufunc=np.tanh,
    grad={"input": lambda grad, result: grad * conj(1 - result * result) if result.is_complex() else tanh_backward(grad, result)},
    keeps_zero=True,
)
def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent, ``sinh(input) / cosh(input)``: from -1 to 1.

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad * (1 - tanh(input)**2)``.
    Source: torch.tanh.
    Example:
        >>> torch.tanh(torch.tensor([0.0, 1.0, -100.0]))
        tensor([ 0.0000,  0.7616, -1.0000])
    """
    return np.tanh(input)


@holomorphic(
    ufunc=np.arcsinh,
    aliases=("arcsinh",),
    grad={"input": lambda grad, input: grad * conj((input * input + 1).rsqrt())},
    keeps_zero=True,
)
def asinh(input: Tensor) -> Tensor:
    """Inverse hyperbolic sine, ``log(input + sqrt(input**2 + 1))``.

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad / sqrt(input**2 + 1)``.
    Source: torch.asinh.
    Example:
        >>> torch.asinh(torch.tensor([0.0, 1.0, -1.0]))
        tensor([ 0.0000,  0.8814, -0.8814])
    """
    return np.arcsinh(input)


@holomorphic(ufunc=np.arccosh, aliases=("arccosh",), grad={"input": _acosh_gradient})
def acosh(input: Tensor) -> Tensor:
    """Inverse hyperbolic cosine, ``log(input + sqrt(input**2 - 1))``; NaN below 1.

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex, not negative.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad / sqrt(input**2 - 1)``.
    Source: torch.acosh.
    Example:
        >>> torch.acosh(torch.tensor([1.0, 2.0, 0.5]))
        tensor([0.0000, 1.3170,    nan])
    """
    return np.arccosh(input)


@holomorphic(ufunc=np.arctanh, aliases=("arctanh",), grad={"input": lambda grad, input: grad / conj(1 - input * input)}, keeps_zero=True)
def atanh(input: Tensor) -> Tensor:
    """Inverse hyperbolic tangent, ``log((1 + input) / (1 - input)) / 2``; infinite at -1 and 1, NaN outside.

    Args:
        input: any shape; integers and bools become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad / (1 - input**2)``.
    Source: torch.atanh.
    Example:
        >>> torch.atanh(torch.tensor([0.5, 1.0, 2.0]))
        tensor([0.5493,    inf,    nan])
    """
    return np.arctanh(input)


def _scale(input: np.ndarray, number: Number) -> np.ndarray:
    return np.multiply(input, input.dtype.type(number))


@pointwise(promotion="int_to_float", grad={"input": lambda grad: grad * (math.pi / 180)}, keeps_zero=True)
def deg2rad(input: Tensor) -> Tensor:
    """Degrees to radians, element by element.

    Args:
        input: in degrees, any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, in radians, floating point.
    Raises:
        RuntimeError: complex input.
    Gradient: ``grad * pi / 180``.
    Source: torch.deg2rad.
    Example:
        >>> torch.deg2rad(torch.tensor([180, 90]))
        tensor([3.1416, 1.5708])
    """
    if input.dtype.kind == "c":
        raise RuntimeError("deg2rad is not supported for complex tensors.")
    return _scale(input, math.pi / 180)


@pointwise(promotion="int_to_float", grad={"input": lambda grad: grad * (180 / math.pi)}, keeps_zero=True)
def rad2deg(input: Tensor) -> Tensor:
    """Radians to degrees, element by element.

    Args:
        input: in radians, any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, in degrees, floating point.
    Raises:
        RuntimeError: complex input.
    Gradient: ``grad * 180 / pi``.
    Source: torch.rad2deg.
    Example:
        >>> torch.rad2deg(torch.tensor([torch.pi, 1.0]))
        tensor([180.0000,  57.2958])
    """
    if input.dtype.kind == "c":
        raise RuntimeError("rad2deg is not supported for complex tensors.")
    return _scale(input, 180 / math.pi)
