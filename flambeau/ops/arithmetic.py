"""Arithmetic, element by element: sums, products, quotients and remainders."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.calls import wrappers
from ..core.calls.annotations import Number, Tensor
from ..core.calls.casting import checked_number
from ..core.calls.registry import TABLES, add_method, composite, old_order, overload, pointwise, primitive
from ..core.layout import row_major as row_major_array
from ..core.once import warn_once
from ..core.tensor import Tensor as TensorType

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def conj(value: Any) -> Any:
    """The conjugate of a complex tensor or number; anything real unchanged."""
    kind = value.__class__
    if kind is float or kind is int:
        return value
    array = getattr(value, "_array", None)
    if array is None:  # of another class of numbers: bool, NumPy's, an enumeration's
        return value.conjugate() if isinstance(value, complex | np.complexfloating) else value
    dtype = array.dtype
    if dtype is _F32 or dtype is _F64 or dtype.kind not in "cV" or not value.dtype.is_complex:
        return value
    return value.conj()


def scaled(grad: Any, alpha: Any) -> Any:
    """``grad * conj(alpha)``, without the product where alpha is 1."""
    return grad if alpha == 1 else grad * conj(alpha)


def zeros(grad: Any) -> Any:
    """A gradient of nothing but zeros, with the sparse dimensions of ``grad``."""
    return grad.clone().zero_() if grad.is_sparse else grad.new_zeros(grad.shape)


def missing_derivative(operation: str, operand: str) -> Any:
    """The rule of an operand for which no derivative is known."""

    def rule(grad: Any) -> Any:
        raise NotImplementedError(f"the derivative for '{operand}' of {operation} is not implemented")

    return rule


def reject(operation: str, array: np.ndarray, kinds: str, message: str | None = None) -> None:
    """Raise where ``array``'s dtype is of one of the NumPy ``kinds`` ('b' bool, 'iu' integer, 'f' float, 'c' complex).

    Raises:
        NotImplementedError: it is.
    """
    if array.dtype.kind in kinds:
        raise NotImplementedError(message or f"\"{operation}\" not implemented for '{dtypes.of_array(array).legacy}'")


def order_of(array: np.ndarray) -> Any:
    """NumPy's word for a result laid out like ``array``; of an expanded one, in which strides of 0 say nothing, row-major."""
    return "C" if 0 in array.strides else "K"


def row_major(array: Any) -> Any:
    """A result in row-major order, whatever its operands' order is."""
    if array.__class__ is np.ndarray:
        return row_major_array(array)
    return array.row_major() if hasattr(array, "row_major") else array  # what stands for an array while a kernel is made of an expression


def scipy_function(name: str) -> Any:
    """SciPy's ufunc of that name, imported when it is first called; of one with several results, the first."""

    def call(*arrays: Any) -> np.ndarray:
        for array in arrays:
            if hasattr(array, "named"):  # what stands for an array while a kernel is made of an expression
                return array.named(name, *arrays)
        from scipy import special

        result = getattr(special, name)(*arrays)
        return result[0] if isinstance(result, tuple) else result

    return call


def dtype_of(value: Any) -> dtypes.dtype:
    """The dtype of a tensor, or the one that a number stands for."""
    return value.dtype if isinstance(value, TensorType) else dtypes.of_number(value)


def factor(operation: str, word: str, value: Any, array: np.ndarray) -> Any:
    """A number such as ``alpha`` that takes the operands' dtype: a float, or a 0-d array.

    Raises:
        RuntimeError: a float for integer operands, a complex number for real ones, an integer that an integer dtype cannot hold.
    """
    if isinstance(value, TensorType):
        value = value.item()
    if isinstance(value, complex) and array.dtype.kind != "c":
        raise RuntimeError(f"{operation}: For non-complex input tensors, argument {word} must not be a complex number.")
    if isinstance(value, float) and array.dtype.kind in "biu":
        raise RuntimeError(f"{operation}: For integral input tensors, argument {word} must not be a floating point number.")
    if value.__class__ is float and array.dtype.kind == "f":
        return value
    if value.__class__ is int and array.dtype.kind in "iu":
        return checked_number(value, dtypes.of_array(array))
    return np.asarray(value).astype(array.dtype)


def warn_old_order(operation: str, right: str = "the factor as a keyword argument") -> None:
    """Say once per operation that its arguments came in the order of PyTorch's first versions."""
    text = f"This overload of {operation} is deprecated: pass {right}"
    warn_once(text, text)


def reflected(name: str, word: str) -> None:
    """Register ``__rword__`` of a commutative operation: its operator with the operands as they come."""
    entry = TABLES["torch"][name]
    add_method(f"__r{word}__", lambda: wrappers.make_wrapper(entry, f"__r{word}__", operator=True))


# -- sums and products ------------------------------------------------------------------------------------------------------
@pointwise(
    ufunc=np.add,
    operator="add",
    grad={"input": lambda grad: grad, "other": lambda grad, alpha: scaled(grad, alpha)},
    aten="add.Tensor",
    forward="holomorphic",
)
def add(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """``input + alpha * other``, element by element.

    The order ``add(input, alpha, other)`` of PyTorch's first versions is understood.

    Args:
        input, other: broadcastable tensors, or one of them a number.
        alpha: factor of ``other``; an integer for integer operands.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        RuntimeError: shapes that do not broadcast; a float ``alpha`` for integers, a complex one for real operands.
    Gradient: ``grad`` to ``input``, ``grad * alpha`` to ``other``.
    Source: torch.add.
    Example:
        >>> torch.add(torch.tensor([[1], [2]]), torch.tensor([10, 20]), alpha=3)
        tensor([[31, 61],
                [32, 62]])
    """
    if alpha.__class__ is int and alpha == 1:
        return np.add(input, other)
    return np.add(input, np.multiply(other, factor("add", "alpha", alpha, input)))


reflected("add", "add")


def _canonicalize_sub(input: Any, other: Any, *rest: Any) -> tuple[Any, ...]:
    are_bool = [dtype_of(operand) is dtypes.bool_ for operand in (input, other)]
    if all(are_bool):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
        )
    if any(are_bool):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
            "`logical_not()` operator instead."
        )
    return (input, other, *rest)


@pointwise(
    ufunc=np.subtract,
    operator="sub",
    aliases=("subtract",),
    canonicalize=_canonicalize_sub,
    grad={"input": lambda grad: grad, "other": lambda grad, alpha: scaled(-grad, alpha)},
    aten="sub.Tensor",
    forward="holomorphic",
)
def sub(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """``input - alpha * other``, element by element.

    Args:
        input, other: broadcastable tensors, or one of them a number; not bool.
        alpha: factor of ``other``; an integer for integer operands.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        RuntimeError: bool operands; shapes that do not broadcast; a float ``alpha`` for integers.
    Gradient: ``grad`` to ``input``, ``-grad * alpha`` to ``other``.
    Source: torch.sub.
    Example:
        >>> torch.sub(torch.tensor([10.0, 20.0]), torch.tensor([1.0, 2.0]), alpha=2)
        tensor([ 8., 16.])
    """
    if alpha.__class__ is int and alpha == 1:
        return np.subtract(input, other)
    return np.subtract(input, np.multiply(other, factor("sub", "alpha", alpha, input)))


def subtract_reversed(input: np.ndarray, other: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    return np.subtract(other, input, out)


@pointwise(
    ufunc=subtract_reversed,
    inplace=False,
    canonicalize=_canonicalize_sub,
    grad={"input": lambda grad, alpha: scaled(-grad, alpha), "other": lambda grad: grad},
    forward="holomorphic",
)
def rsub(input: Tensor, other: Tensor | Number, alpha: Number = 1) -> Tensor:
    """``other - alpha * input``: subtraction with its operands exchanged.

    Args:
        input: tensor; not bool.
        other: tensor that broadcasts with it, or a number.
        alpha: factor of ``input``.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        RuntimeError: bool operands; shapes that do not broadcast.
    Gradient: ``-grad * alpha`` to ``input``, ``grad`` to ``other``.
    Source: torch.rsub.
    Example:
        >>> torch.rsub(torch.tensor([1, 2]), 10)
        tensor([9, 8])
    """
    if alpha.__class__ is int and alpha == 1:
        return np.subtract(other, input)
    return np.subtract(other, np.multiply(input, factor("rsub", "alpha", alpha, input)))


add_method("__rsub__", partial(wrappers.make_wrapper, primitive("rsub"), "__rsub__", operator=True))


@pointwise(
    ufunc=np.multiply,
    operator="mul",
    exact_scalar=True,
    aliases=("multiply",),
    grad={"input": lambda grad, other: grad * conj(other), "other": lambda grad, input: grad * conj(input)},
    aten="mul.Tensor",
    forward="holomorphic",
)
def mul(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input * other``, element by element.

    Args:
        input, other: broadcastable tensors, or one of them a number.
    Returns:
        The common dtype and broadcast shape; of two bools their conjunction.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Gradient: ``grad * conj(other)`` and ``grad * conj(input)``.
    Source: torch.mul.
    Example:
        >>> torch.mul(torch.tensor([[2], [3]]), torch.tensor([1, 10]))
        tensor([[ 2, 20],
                [ 3, 30]])
    """
    return np.multiply(input, other)


reflected("mul", "mul")


@pointwise(
    fast=lambda a, b, c, value: np.add(a, np.multiply(np.multiply(value, b), c)),
    grad={
        "input": lambda grad: grad,
        "tensor1": lambda grad, tensor2, value: grad * scaled(conj(tensor2), value),
        "tensor2": lambda grad, tensor1, value: grad * scaled(conj(tensor1), value),
    },
    autocast={"cuda": "widest"},
    forward="holomorphic",
)
def addcmul(input: Tensor, tensor1: Tensor | Number, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """``input + value * tensor1 * tensor2``, element by element.

    The order ``addcmul(input, value, tensor1, tensor2)`` of PyTorch's first versions is understood.

    Args:
        input, tensor1, tensor2: broadcastable tensors.
        value: factor of the product; of integers its whole part.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        NotImplementedError: bool operands.
        RuntimeError: shapes that do not broadcast.
    Gradient: ``grad``, ``grad * value * tensor2``, ``grad * value * tensor1``.
    Source: torch.addcmul.
    Example:
        >>> torch.addcmul(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 3.0]), torch.tensor([4.0, 5.0]), value=10)
        tensor([ 81., 151.])
    """
    reject("addcmul_cpu_out", input, "b")
    if value.__class__ is float and input.dtype.kind in "iu" and math.isfinite(value):
        value = int(value)
    number = factor("addcmul", "value", value, input)
    return np.add(input, np.multiply(np.multiply(number, tensor1), tensor2))


def _canonicalize_addcdiv(input: Any, tensor1: Any, tensor2: Any, *rest: Any) -> tuple[Any, ...]:
    if dtype_of(tensor1).category < dtypes.FLOATING and dtype_of(tensor2).category < dtypes.FLOATING:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported: expected a floating-point tensor1 or tensor2; for the truncated "
            "quotient write input + value * torch.div(tensor1, tensor2, rounding_mode='trunc')"
        )
    return (input, tensor1, tensor2, *rest)


@pointwise(
    canonicalize=_canonicalize_addcdiv,
    fast=lambda a, b, c, value: np.add(a, np.divide(np.multiply(value, b), c)),
    grad={
        "input": lambda grad: grad,
        "tensor1": lambda grad, tensor2, value: grad * conj(value / tensor2),
        "tensor2": lambda grad, tensor1, tensor2, value: -grad * conj((value * tensor1) / (tensor2 * tensor2)),
    },
    autocast={"cuda": "widest"},
    forward="holomorphic",
)
def addcdiv(input: Tensor, tensor1: Tensor | Number, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """``input + value * tensor1 / tensor2``, element by element.

    The order ``addcdiv(input, value, tensor1, tensor2)`` of PyTorch's first versions is understood.

    Args:
        input, tensor1, tensor2: broadcastable tensors, floating point or complex.
        value: factor of the quotient.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        RuntimeError: integers divided by integers; shapes that do not broadcast.
    Gradient: ``grad``, ``grad * value / tensor2``, ``-grad * value * tensor1 / tensor2**2``.
    Source: torch.addcdiv.
    Example:
        >>> torch.addcdiv(torch.tensor([1.0, 1.0]), torch.tensor([6.0, 9.0]), torch.tensor([2.0, 3.0]), value=0.5)
        tensor([2.5000, 2.5000])
    """
    number = factor("addcdiv", "value", value, input)
    return np.add(input, np.divide(np.multiply(number, tensor1), tensor2))


def _lerp(input: np.ndarray, end: np.ndarray, weight: Any) -> np.ndarray:
    """From the nearer end, so that weight 1 gives ``end`` itself."""
    span = np.subtract(end, input)
    if weight.__class__ is float or weight.__class__ is int:
        if abs(weight) < 0.5:
            return np.add(input, np.multiply(weight, span))
        return np.subtract(end, np.multiply(span, span.dtype.type(1) - span.dtype.type(weight)))
    near = np.add(input, np.multiply(weight, span))
    far = np.subtract(end, np.multiply(span, np.subtract(input.dtype.type(1), weight)))
    return np.where(np.abs(weight) < 0.5, near, far)


@pointwise(
    promotion="same",
    exact_scalar=True,
    fast=lambda a, b, w: _lerp(a, b, w) if a.dtype.kind == "f" and a.dtype is b.dtype else None,
    grad={
        "input": lambda grad, weight: grad * conj(1 - weight),
        "end": lambda grad, weight: grad * conj(weight),
        "weight": lambda grad, input, end: grad * conj(end - input),
    },
    forward="holomorphic",
)
def lerp(input: Tensor, end: Tensor, weight: Tensor | Number) -> Tensor:
    """``input + weight * (end - input)``: the way from ``input`` to ``end``, exact at both ends.

    Args:
        input, end: broadcastable floating-point or complex tensors of one dtype.
        weight: number, or tensor of that dtype; 0 is ``input``, 1 is ``end``.
    Returns:
        The operands' dtype and broadcast shape.
    Raises:
        RuntimeError: different dtypes, or shapes that do not broadcast.
        NotImplementedError: integer operands.
    Gradient: ``grad * (1 - weight)``, ``grad * weight``, ``grad * (end - input)``.
    Source: torch.lerp.
    Example:
        >>> torch.lerp(torch.tensor([0.0, 10.0]), torch.tensor([4.0, 20.0]), 0.25)
        tensor([ 1.0000, 12.5000])
    """
    reject("lerp_kernel_scalar", input, "biu")
    return _lerp(input, end, weight)


# -- PyTorch's first orders of arguments -------------------------------------------------------------------------------------------
@old_order("add", "sub")
def _factor_second(op: Any, input: Any, alpha: Any, other: Any) -> Any:
    if isinstance(alpha, TensorType):
        if not isinstance(other, TensorType):
            return None
        warn_old_order(op.name, "the result as out=")
        return (input, alpha), {"out": other}
    warn_old_order(op.name)
    return (input, other), {"alpha": alpha}


@old_order("addcmul", "addcdiv")
def _value_second(op: Any, input: Any, value: Any, tensor1: Any, tensor2: Any) -> Any:
    if isinstance(value, TensorType):
        return None
    warn_old_order(op.name)
    return (input, tensor1, tensor2), {"value": value}


# -- quotients ----------------------------------------------------------------------------------------------------------------
@pointwise(
    ufunc=np.true_divide,
    operator="truediv",
    exact_scalar=True,
    aliases=("divide",),
    promotion="int_to_float",
    grad={
        "input": lambda grad, other: grad / conj(other),
        "other": lambda grad, input, other: -grad * conj(input / other / other),
    },
    aten="div.Tensor div.Tensor_mode",
    forward="holomorphic",
)
def div(input: Tensor | Number, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """``input / other``, element by element.

    Args:
        input, other: broadcastable tensors, or one of them a number.
        rounding_mode: None for the true quotient (of integers: the default float type); 'trunc' rounds toward zero, 'floor' down.
    Returns:
        The common dtype and broadcast shape; the default float dtype for integers that are not rounded.
    Raises:
        RuntimeError: an unknown ``rounding_mode``; an integer divided by zero and rounded; shapes that do not broadcast.
    Gradient: ``grad / other`` and ``-grad * input / other**2``; zero where the quotient is rounded.
    Source: torch.div.
    Example:
        >>> torch.div(torch.tensor([7, -7]), 2)
        tensor([ 3.5000, -3.5000])
        >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor")
        tensor([ 3, -4])
    """
    return np.true_divide(input, other)


@overload("div")
def _rounded_quotient(op: Any, input: Any, other: Any, rounding_mode: Any) -> Any:
    if rounding_mode is None:
        return None
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")
    return primitive("_divide_rounded")


def _rdiv(self: Any, other: Any) -> Any:
    """``other / self``, computed as PyTorch does: the reciprocal times ``other``."""
    if not isinstance(other, (int, float, complex, np.number, np.bool_, np.ndarray, TensorType)):
        return NotImplemented
    return self.reciprocal() * other


add_method("__rtruediv__", lambda: _rdiv)
add_method("__rdiv__", lambda: _rdiv)
add_method("__div__", partial(wrappers.make_wrapper, primitive("div"), "__div__", operator=True))
add_method("__idiv__", partial(wrappers.make_inplace, primitive("div"), "__idiv__", operator=True))


@composite(inplace=True, out=True, pointwise=True)
def true_divide(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input / other`` without rounding; see :func:`torch.div`.

    Args:
        input, other: broadcastable tensors, or one of them a number.
    Returns:
        The broadcast shape; the common dtype, or the default float dtype for integers.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Gradient: ``grad / other`` and ``-grad * input / other**2``.
    Source: torch.true_divide.
    Example:
        >>> torch.true_divide(torch.tensor([1, 2, 0]), torch.tensor([2, 0, 0]))
        tensor([0.5000,    inf,    nan])
    """
    return div(input, other)


def _check_division(operation: str, input: np.ndarray, other: np.ndarray) -> None:
    reject(operation, input, "bc")
    if other.dtype.kind not in "iu" or not input.size:
        return
    if not (other if isinstance(other, np.generic) else np.all(other)):  # CuPy's function refuses NumPy's numbers
        raise RuntimeError("ZeroDivisionError")


def _floor_quotient(input: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The largest whole number not above ``input / other``, from the exact remainder; infinite or NaN as ``input / other`` is."""
    if input.dtype.kind in "iu":
        return np.floor_divide(input, other)
    remainder = np.fmod(input, other)
    quotient = np.divide(np.subtract(input, remainder), other)
    quotient = np.where((remainder != 0) & ((other < 0) != (remainder < 0)), quotient - 1, quotient)
    floored = np.floor(quotient)
    floored = np.where(quotient - floored > 0.5, floored + 1, floored)
    true = np.divide(input, other)
    floored = np.where(quotient == 0, np.copysign(np.zeros_like(true), true), floored)
    return np.where(other == 0, true, floored)


def _trunc_quotient(input: np.ndarray, other: np.ndarray) -> np.ndarray:
    if input.dtype.kind in "iu":
        quotient = np.floor_divide(input, other)
        inexact = (np.multiply(quotient, other) != input) & ((input < 0) != (other < 0))
        return np.add(quotient, inexact.astype(quotient.dtype))
    return np.trunc(np.divide(input, other))


@pointwise(
    name="_divide_rounded", inplace=True, out=True, exact_scalar=True, node_name="DivBackward1", grad={"input": zeros, "other": zeros}
)
def divide_rounded(input: Tensor | Number, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """``div`` with a rounding mode: promotes as other arithmetic does, so integers stay integers."""
    _check_division(f"div_{rounding_mode}_cpu", input, other)
    return _floor_quotient(input, other) if rounding_mode == "floor" else _trunc_quotient(input, other)


@pointwise(
    operator="floordiv",
    exact_scalar=True,
    node_name="NotImplemented",
    grad={"input": missing_derivative("floor_divide", "input"), "other": missing_derivative("floor_divide", "other")},
    aten="floor_divide",
)
def floor_divide(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input / other`` rounded down, element by element.

    Args:
        input, other: broadcastable tensors, or one of them a number; not bool, not complex.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        RuntimeError: an integer divided by zero; shapes that do not broadcast.
        NotImplementedError: bool or complex operands.
    Source: torch.floor_divide.
    Example:
        >>> torch.floor_divide(torch.tensor([7, -7]), torch.tensor([2, 2]))
        tensor([ 3, -4])
    """
    _check_division("div_floor_cpu", input, other)
    return _floor_quotient(input, other)


def _of_floats(ufunc: Any) -> Any:
    """A fast path for floats only: integers have divisors to check."""
    return lambda input, other: ufunc(input, other) if input.dtype.kind == "f" else None


@pointwise(
    fast=_of_floats(np.fmod),
    grad={"input": lambda grad: grad, "other": lambda grad, input, other: -grad * divide_rounded(input, other, rounding_mode="trunc")},
)
def fmod(input: Tensor, other: Tensor | Number) -> Tensor:
    """Remainder of ``input / other`` with the sign of ``input``, as C's ``fmod``.

    Args:
        input: tensor; not bool, not complex.
        other: tensor that broadcasts with it, or a number.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        RuntimeError: an integer divided by zero; shapes that do not broadcast.
        NotImplementedError: bool or complex operands.
    Gradient: ``grad``, and ``-grad * trunc(input / other)``.
    Source: torch.fmod.
    Example:
        >>> torch.fmod(torch.tensor([7.0, -7.0]), 3)
        tensor([ 1., -1.])
    """
    _check_division("fmod_cpu", input, other)
    return np.fmod(input, other)


def _remainder(input: np.ndarray, other: np.ndarray) -> np.ndarray:
    """C's fmod, moved to the divisor's sign: an infinite divisor leaves NumPy's and PyTorch's rules apart."""
    if input.dtype.kind != "f":
        return np.remainder(input, other)
    rest = np.fmod(input, other)
    return np.where((rest != 0) & ((other < 0) != (rest < 0)), rest + other, rest)


@pointwise(
    operator="mod",
    fast=_of_floats(_remainder),
    grad={"input": lambda grad: grad, "other": lambda grad, input, other: -grad * divide_rounded(input, other, rounding_mode="floor")},
)
def remainder(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """Remainder of ``input / other`` with the sign of ``other``, as Python's ``%``.

    Args:
        input, other: broadcastable tensors, or one of them a number; not bool, not complex.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        RuntimeError: an integer divided by zero; shapes that do not broadcast.
        NotImplementedError: bool or complex operands.
    Gradient: ``grad``, and ``-grad * floor(input / other)``.
    Source: torch.remainder.
    Example:
        >>> torch.remainder(torch.tensor([7.0, -7.0]), 3)
        tensor([1., 2.])
    """
    _check_division("remainder_cpu", input, other)
    return _remainder(input, other)


@pointwise(fast=None, grad=None)
def gcd(input: Tensor, other: Tensor) -> Tensor:
    """Greatest common divisor, never negative; ``gcd(0, 0)`` is 0.

    Args:
        input, other: broadcastable integer tensors.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        NotImplementedError: other dtypes.
        RuntimeError: shapes that do not broadcast.
    Source: torch.gcd.
    Example:
        >>> torch.gcd(torch.tensor([12, -9, 0]), torch.tensor([18, 6, 5]))
        tensor([6, 3, 5])
    """
    reject("gcd_cpu", input, "bfc")
    return np.gcd(input, other)


@pointwise(grad=None)
def lcm(input: Tensor, other: Tensor) -> Tensor:
    """Least common multiple, never negative; 0 where an operand is 0.

    Args:
        input, other: broadcastable integer tensors.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        NotImplementedError: other dtypes.
        RuntimeError: shapes that do not broadcast.
    Source: torch.lcm.
    Example:
        >>> torch.lcm(torch.tensor([4, -6, 0]), torch.tensor([6, 9, 5]))
        tensor([12, 18,  0])
    """
    reject("lcm_cpu", input, "bfc")
    wide = np.int32 if input.dtype.itemsize < 4 else input.dtype  # C's int
    # the multiple may have wrapped around
    return np.abs(np.lcm(input.astype(wide), other.astype(wide))).astype(input.dtype)


# -- signs --------------------------------------------------------------------------------------------------------------------
@pointwise(
    ufunc=np.negative, fp_safe=True, operator="neg", aliases=("negative",), grad={"input": lambda grad: -grad}, forward="holomorphic"
)
def neg(input: Tensor) -> Tensor:
    """``-input``, element by element; unsigned integers wrap around.

    Args:
        input: any shape, any dtype but bool.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        RuntimeError: a bool tensor.
    Gradient: ``-grad``.
    Source: torch.neg.
    Example:
        >>> torch.neg(torch.tensor([1, 0, 255], dtype=torch.uint8))
        tensor([255,   0,   1], dtype=torch.uint8)
    """
    if input.dtype.kind == "b":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
            "`logical_not()` operator instead."
        )
    return np.negative(input)


@composite(pointwise=True)
def positive(input: Tensor) -> Tensor:
    """``input`` itself, as ``+input``.

    Args:
        input: any shape, any dtype but bool.
    Returns:
        The same tensor object, no copy.
    Raises:
        RuntimeError: a bool tensor.
    Gradient: ``grad``.
    Source: torch.positive.
    Example:
        >>> x = torch.tensor([-1, 2])
        >>> torch.positive(x) is x
        True
    """
    if input.dtype is dtypes.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


add_method("__pos__", lambda: positive)
