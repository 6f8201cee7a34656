"""Arithmetic, element by element: sums, products, quotients, powers, signs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.annotations import Number, Tensor
from ..core.registry import pointwise


def conj(value: Any) -> Any:
    """The conjugate of a complex tensor; anything real unchanged."""
    if getattr(value, "_array", None) is not None:
        return value.conj() if value._array.dtype.kind == "c" else value
    return value.conjugate()


def scaled(grad: Any, alpha: Any) -> Any:
    """``grad * conj(alpha)``, without the product where alpha is 1."""
    return grad if alpha == 1 else grad * conj(alpha)


@pointwise(
    ufunc=np.add,
    operator="add",
    grad={"input": lambda grad: grad, "other": lambda grad, alpha: scaled(grad, alpha)},
)
def add(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """``input + alpha * other``, element by element.

    Args:
        input, other: broadcastable tensors, or one of them a number.
        alpha: factor of ``other``; an integer for integer operands.
    Returns:
        The common dtype and broadcast shape.
    Gradient: ``grad`` to ``input``, ``grad * alpha`` to ``other``.
    Source: torch.add.
    """
    if alpha == 1:
        return np.add(input, other)
    return np.add(input, np.multiply(other, np.asarray(alpha).astype(other.dtype)))


@pointwise(
    ufunc=np.subtract,
    operator="sub",
    aliases=("subtract",),
    grad={"input": lambda grad: grad, "other": lambda grad, alpha: scaled(-grad, alpha)},
)
def sub(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """``input - alpha * other``, element by element.

    Args:
        input, other: broadcastable tensors, or one of them a number; not bool.
        alpha: factor of ``other``.
    Raises:
        RuntimeError: bool operands.
    Gradient: ``grad`` to ``input``, ``-grad * alpha`` to ``other``.
    Source: torch.sub.
    """
    if input.dtype.kind == "b":
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported, use the `^` or `logical_xor()` operator instead."
        )
    if alpha == 1:
        return np.subtract(input, other)
    return np.subtract(input, np.multiply(other, np.asarray(alpha).astype(other.dtype)))


@pointwise(
    ufunc=np.multiply,
    operator="mul",
    aliases=("multiply",),
    grad={"input": lambda grad, other: grad * conj(other), "other": lambda grad, input: grad * conj(input)},
)
def mul(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input * other``, element by element.

    Args:
        input, other: broadcastable tensors, or one of them a number.
    Gradient: ``grad * conj(other)`` and ``grad * conj(input)``.
    Source: torch.mul.
    """
    return np.multiply(input, other)


@pointwise(ufunc=np.negative, operator="neg", aliases=("negative",), grad={"input": lambda grad: -grad})
def neg(input: Tensor) -> Tensor:
    """``-input``.

    Args:
        input: any dtype but bool.
    Raises:
        RuntimeError: a bool tensor.
    Gradient: ``-grad``.
    Source: torch.neg.
    """
    if input.dtype.kind == "b":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
            "`logical_not()` operator instead."
        )
    return np.negative(input)


@pointwise(ufunc=np.tanh, promotion="int_to_float", grad={"input": lambda grad, result: grad * (1 - result * result)})
def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent.

    Gradient: ``grad * (1 - tanh(input)**2)``.
    Source: torch.tanh.
    """
    return np.tanh(input)
