"""Magnitude and sign, the parts of complex numbers, and neighbours of a floating-point number."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from ..core import dtype as dtypes
from ..core.arrays import native
from ..core.calls import wrappers
from ..core.calls.annotations import Number, Tensor
from ..core.calls.casting import cast_array
from ..core.calls.out import EXACT, Out, same_dtype
from ..core.calls.registry import Declare, add_method, composite, op, pointwise, primitive, view
from ..core.layout import empty_as, preserve_format
from ..core.tensor import Tensor as TensorType
from .arithmetic import dtype_of, missing_derivative, order_of, reject, zeros
from .limits import keep_where


@pointwise(
    ufunc=np.absolute,
    fp_safe=True,
    aliases=("absolute",),
    promotion="complex_to_float",
    keeps_strides="c",
    fast_bool=False,
    grad={"input": lambda grad, input: grad * input.sgn()},
    keeps_zero=True,
)
def abs_(input: Tensor) -> Tensor:
    """Absolute value, element by element; the modulus of a complex number.

    Args:
        input: any shape, numbers.
    Returns:
        ``input``'s shape and dtype; the corresponding real dtype of a complex one.
    Raises:
        NotImplementedError: a bool tensor.
    Gradient: ``grad * sgn(input)``, 0 at 0.
    Source: torch.abs.
    Example:
        >>> torch.abs(torch.tensor([-2, 3])), torch.abs(torch.tensor([3 + 4j]))
        (tensor([2, 3]), tensor([5.]))
    """
    reject("abs_cpu", input, "b")
    return np.absolute(input)


add_method("__abs__", partial(wrappers.make_wrapper, primitive("abs"), "__abs__", operator=True))


def _sign(array: np.ndarray) -> np.ndarray:
    # np.sign keeps NaN, PyTorch makes it 0
    if array.dtype.kind in "bu":
        return (array != 0).astype(array.dtype)
    return np.subtract((array > 0).astype(array.dtype), (array < 0).astype(array.dtype))


@pointwise(fast=_sign, grad={"input": zeros}, keeps_zero=True)
def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign of ``input``; NaN becomes 0.

    Args:
        input: any shape, real.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: zero.
    Source: torch.sign.
    Example:
        >>> torch.sign(torch.tensor([-3.5, 0.0, 7.0, torch.nan]))
        tensor([-1.,  0.,  1.,  0.])
    """
    reject("sign", input, "c", "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.")
    return _sign(input)


def _sgn_gradient(grad: Any, input: Any, result: Any) -> Any:
    if not input.is_complex():
        return zeros(grad)
    modulus = input.abs()
    inner = (grad / (2 * modulus)) - result * result * (grad.conj() / (2 * modulus))
    return inner.masked_fill(modulus == 0, 0)


@pointwise(fast=_sign, grad={"input": _sgn_gradient}, keeps_zero=True)
def sgn(input: Tensor) -> Tensor:
    """``sign`` for real tensors; ``input / abs(input)`` for complex ones, 0 at 0.

    Args:
        input: any shape and dtype.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: zero for real input; the tangent part of ``grad / abs(input)`` for complex input.
    Source: torch.sgn.
    Example:
        >>> torch.sgn(torch.tensor([3 + 4j, 0j]))
        tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """
    if input.dtype.kind != "c":
        return _sign(input)
    modulus = np.absolute(input)
    return np.where(modulus == 0, 0, np.divide(input, modulus)).astype(input.dtype)


@pointwise(promotion="keep", inplace=False, grad=None, keeps_zero=True)
def signbit(input: Tensor) -> Tensor:
    """Whether the sign is negative, that of -0.0 and of NaN included.

    Args:
        input: any shape, real.
    Returns:
        ``input``'s shape, bool.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.signbit.
    Example:
        >>> torch.signbit(torch.tensor([-1.0, -0.0, 0.0]))
        tensor([ True,  True, False])
    """
    reject("signbit", input, "c", "signbit is not implemented for complex tensors.")
    if input.dtype.kind in "biu":
        return np.less(input, 0)
    return np.signbit(input)


@pointwise(
    ufunc=np.copysign,
    promotion="int_to_float",
    grad={
        "input": lambda grad, input, result: (grad * (result / input)).masked_fill(input == 0, 0),
        "other": lambda grad: zeros(grad),
    },
)
def copysign(input: Tensor, other: Tensor | Number) -> Tensor:
    """The magnitude of ``input`` with the sign of ``other``.

    Args:
        input: any shape, real.
        other: a tensor that broadcasts with it, or a number; only its sign counts, that of zero too.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: complex operands.
    Gradient: ``grad`` times 1 or -1, 0 at 0; none to ``other``.
    Source: torch.copysign.
    Example:
        >>> torch.copysign(torch.tensor([1.0, -2.0]), -0.0)
        tensor([-1., -2.])
    """
    reject("copysign_cpu", input, "c")
    return np.copysign(input, other)


def _canonicalize_heaviside(input: Any, values: Any) -> tuple[Any, ...]:
    if input.dtype.is_complex or dtype_of(values).is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return input, values


@pointwise(
    out=EXACT,
    canonicalize=_canonicalize_heaviside,
    node_name="NotImplemented",
    grad={"input": missing_derivative("heaviside", "input"), "values": missing_derivative("heaviside", "values")},
)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below zero, 1 above, ``values`` at zero.

    Args:
        input, values: real tensors of one dtype, whose shapes broadcast.
    Returns:
        The broadcast shape, the operands' dtype.
    Raises:
        RuntimeError: different dtypes, or complex ones.
    Source: torch.heaviside.
    Example:
        >>> torch.heaviside(torch.tensor([-2.0, 0.0, 3.0]), torch.tensor(0.5))
        tensor([0.0000, 0.5000, 1.0000])
    """
    return np.where(input == 0, values, (input > 0).astype(input.dtype))


def _nan_to_num_gradient(grad: Any, input: Any) -> Any:
    if not input.is_complex():
        return grad * input.isfinite()
    return complex_(grad.real * input.real.isfinite(), grad.imag * input.imag.isfinite())


def _canonicalize_nan_to_num(input: Any, nan: float | None, posinf: float | None, neginf: float | None) -> tuple[Any, ...]:
    if input.dtype.category < dtypes.FLOATING:
        return input, nan, posinf, neginf
    limits = ml_dtypes.finfo(input.dtype.to_real().numpy)
    above, below = (float(limits.max) if posinf is None else posinf), (float(limits.min) if neginf is None else neginf)
    return input, 0.0 if nan is None else nan, above, below


@pointwise(canonicalize=_canonicalize_nan_to_num, grad={"input": _nan_to_num_gradient}, keeps_zero=True)
def nan_to_num(input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """``input`` with NaN and infinities replaced by finite numbers.

    Args:
        input: any shape and dtype; integers have nothing to replace.
        nan: what replaces NaN; 0 when None.
        posinf, neginf: what replaces the infinities; the dtype's largest and smallest numbers when None.
    Returns:
        ``input``'s shape and dtype; a new tensor.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad`` where ``input`` is finite.
    Source: torch.nan_to_num.
    Example:
        >>> torch.nan_to_num(torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0]), posinf=9.0, neginf=-9.0)
        tensor([ 0.,  9., -9.,  1.])
    """
    if input.dtype.kind in "biu":
        return input.copy(order=order_of(input))
    if input.dtype.kind == "c":
        result = np.empty_like(input, order=order_of(input))
        result.real, result.imag = (_replaced(part, nan, posinf, neginf) for part in (input.real, input.imag))
        return result
    return _replaced(input, nan, posinf, neginf)


def _replaced(array: np.ndarray, nan: Any, posinf: Any, neginf: Any) -> np.ndarray:
    number = array.dtype.type
    infinite = np.where(array > 0, number(posinf), number(neginf))
    return np.where(np.isnan(array), number(nan), np.where(np.isinf(array), infinite, array))


@pointwise(
    opmath="native",
    grad={
        "input": lambda grad, input, other: keep_where(grad, input != other),
        "other": zeros,
    },
)
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next floating-point number after ``input`` in the direction of ``other``.

    Args:
        input, other: floating point, shapes that broadcast.
    Returns:
        The broadcast shape, the common dtype.
    Raises:
        NotImplementedError: integer or complex operands.
    Gradient: ``grad`` to ``input`` where it moves; none to ``other``.
    Source: torch.nextafter.
    Example:
        >>> torch.nextafter(torch.tensor([1.0]), torch.tensor([2.0])) - 1  # float32's epsilon
        tensor([1.1921e-07])
    """
    reject("nextafter_cpu", input, "biuc")
    if input.dtype.isbuiltin == 2:
        return _next_in_bits(input, other)
    return np.nextafter(input, other)


def _next_in_bits(input: np.ndarray, other: np.ndarray) -> np.ndarray:
    """``nextafter`` of bfloat16, by a step of the bit pattern."""
    input, other = np.broadcast_arrays(input, other)
    bits = np.array(input).view(np.int16)
    wide, target = input.astype(np.float32), other.astype(np.float32)
    away = (wide > 0) == (target > wide)
    step = np.where(away, 1, -1).astype(np.int16)
    smallest = np.where(target > 0, np.int16(1), np.int16(-0x7FFF)).astype(np.int16)
    moved = np.where(wide == 0, smallest, bits + step).astype(np.int16).view(input.dtype)
    moved = np.where(wide == target, other, moved)
    np.copyto(moved, math.nan, where=np.isnan(wide) | np.isnan(target))
    return moved


# -- complex numbers ------------------------------------------------------------------------------------------------------------
@op(batch=0, name="_conj", node_name="ConjBackward0", grad={"input": lambda grad: grad.conj()}, aten="conj_physical", forward="linear")
def conjugated(input: Tensor) -> Tensor:
    """The complex conjugate, computed at once."""
    return np.conjugate(input, out=empty_as(input, preserve_format, input.shape, input.dtype))


@composite()
def conj(input: Tensor) -> Tensor:
    """The complex conjugate, computed at once: nothing is lazy here.

    Args:
        input: any shape and dtype.
    Returns:
        ``input``'s shape and dtype; a real tensor itself.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``conj(grad)``.
    Source: torch.conj.
    Example:
        >>> torch.conj(torch.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    return conjugated(input) if input._array.dtype.kind in "cV" and input.dtype.is_complex else input


@composite(inplace=True, out=True, pointwise=True)
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate as a new tensor.

    Args:
        input: any shape and dtype.
    Returns:
        ``input``'s shape and dtype; a real tensor itself.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``conj(grad)``.
    Source: torch.conj_physical.
    Example:
        >>> torch.conj_physical(torch.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    return conjugated(input) if input._array.dtype.kind in "cV" and input.dtype.is_complex else input


@composite()
def resolve_conj(input: Tensor) -> Tensor:
    """``input`` itself: conjugation is never lazy here.

    Args:
        input: any shape and dtype.
    Returns:
        The tensor itself.
    Raises:
        TypeError: no tensor.
    Source: torch.resolve_conj.
    Example:
        >>> x = torch.tensor([1 + 2j])
        >>> torch.resolve_conj(x) is x
        True
    """
    return input


@composite()
def resolve_neg(input: Tensor) -> Tensor:
    """``input`` itself: negation is never lazy here.

    Args:
        input: any shape and dtype.
    Returns:
        The tensor itself.
    Raises:
        TypeError: no tensor.
    Source: torch.resolve_neg.
    Example:
        >>> x = torch.tensor([1.0])
        >>> torch.resolve_neg(x) is x
        True
    """
    return input


def _embedded_real(grad: Any) -> Any:
    return grad.to(grad.dtype.to_complex())


@view(batch=0, name="_real", node_name="SelectBackward0", grad={"input": lambda grad: _embedded_real(grad)})
def real_part(input: Tensor) -> Tensor:
    """View of the real parts."""
    return input.real if input.dtype.kind == "c" else input["real"]


@view(batch=0, name="_imag", node_name="SelectBackward0", grad={"input": lambda grad: _embedded_real(grad) * 1j})
def imag_part(input: Tensor) -> Tensor:
    """View of the imaginary parts."""
    return input.imag if input.dtype.kind == "c" else input["imag"]


@composite(method=False)
def real(input: Tensor) -> Tensor:
    """The real part of a complex tensor; a real tensor as it is.

    Args:
        input: any shape and dtype.
    Returns:
        ``input``'s shape; a view of its memory.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: ``grad`` as the real part.
    Source: torch.real.
    Example:
        >>> x = torch.tensor([1 + 2j])
        >>> _ = torch.real(x).fill_(5)
        >>> x
        tensor([5.+2.j])
    """
    return real_part(input) if input._array.dtype.kind in "cV" and input.dtype.is_complex else input


@composite(method=False)
def imag(input: Tensor) -> Tensor:
    """The imaginary part of a complex tensor.

    Args:
        input: any shape, complex.
    Returns:
        ``input``'s shape; a view of its memory.
    Raises:
        RuntimeError: a real tensor.
    Gradient: ``grad`` as the imaginary part.
    Source: torch.imag.
    Example:
        >>> torch.imag(torch.tensor([1 + 2j, 3 - 4j]))
        tensor([ 2., -4.])
    """
    if not input.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return imag_part(input)


def _angle_gradient(grad: Any, input: Any) -> Any:
    if not input.is_complex():
        return zeros(grad)
    squared = input.real * input.real + input.imag * input.imag
    return ((input * 1j) * (grad / squared)).masked_fill(squared == 0, 0)


@pointwise(promotion="keep", inplace=False, grad={"input": _angle_gradient}, keeps_zero=True)
def angle(input: Tensor) -> Tensor:
    """The argument of a complex number in radians; for real input 0, or pi where it is negative.

    Args:
        input: any shape and dtype; NaN stays.
    Returns:
        ``input``'s shape; its real dtype, the default floating type for integers.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: zero for real input; ``grad * i * input / abs(input)**2`` for complex input.
    Source: torch.angle.
    Example:
        >>> torch.angle(torch.tensor([1j, -1 + 0j, 5 + 0j]))
        tensor([1.5708, 3.1416, 0.0000])
    """
    if input.dtype.kind == "c":
        return np.angle(input)
    dtype = input.dtype if input.dtype.kind not in "biu" else dtypes.get_default_dtype().numpy
    angles = np.where(input < 0, np.pi, 0.0).astype(dtype)
    return angles if input.dtype.kind in "biu" else np.where(np.isnan(input), input, angles)


_PARTS_OUT = Out(
    fits=same_dtype,
    complain=lambda have, want: RuntimeError(
        f"Expected object of scalar type {have.legacy} but got scalar type {want.legacy} for argument 'out'"
    ),
)


def _of_parts(name: str, **options: Any) -> Declare:
    """Declare a function of two real tensors of one dtype that makes complex numbers."""

    def canonicalize(first: Any, second: Any) -> tuple[Any, ...]:
        allowed = (dtypes.float16, dtypes.float32, dtypes.float64)
        if first.dtype not in allowed or second.dtype not in allowed:
            raise RuntimeError(
                f"Expected both inputs to be Half, Float or Double tensors but got {first.dtype.legacy} and {second.dtype.legacy}"
            )
        if first.dtype is not second.dtype:
            raise RuntimeError(
                f"{name}: Expected object of scalar type {first.dtype.legacy} but got scalar type {second.dtype.legacy} for second argument"
            )
        return first, second

    return pointwise(promotion="keep", inplace=False, method=False, out=_PARTS_OUT, canonicalize=canonicalize, **options)


@_of_parts("complex", grad={"real": lambda grad: grad.real, "imag": lambda grad: grad.imag})
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """The complex tensor with these parts.

    Args:
        real, imag: floating-point tensors of one dtype, whose shapes broadcast.
    Returns:
        The broadcast shape; complex64 for float32, complex128 for float64.
    Raises:
        RuntimeError: integer or different dtypes.
    Gradient: the parts of ``grad``.
    Source: torch.complex.
    Example:
        >>> torch.complex(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor([1.+3.j, 2.+4.j])
    """
    return _joined(real, imag, False)


@native.part("_joined_parts")
def _joined(first: np.ndarray, second: np.ndarray, is_polar: bool) -> np.ndarray:
    """The complex array with these real and imaginary parts, or with these moduli and arguments."""
    made = dtypes.of_array(first).to_complex()
    result = np.empty_like(np.add(first, second), dtypes.WIDENED.get(made, made).numpy)
    if is_polar:
        result.real, result.imag = np.multiply(first, np.cos(second)), np.multiply(first, np.sin(second))
    else:
        result.real, result.imag = first, second
    return cast_array(result, made)


@_of_parts(
    "polar",
    grad={
        "abs": lambda grad, result: (grad.conj() * result.sgn()).real,
        "angle": lambda grad, result: (grad.conj() * (result * 1j)).real,
    },
    autocast={"cpu": "float32"},
)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """The complex tensor ``abs * exp(i * angle)``.

    Args:
        abs: the modulus; floating point.
        angle: in radians, of the same dtype, with a shape that broadcasts.
    Returns:
        The broadcast shape; complex64 for float32, complex128 for float64.
    Raises:
        RuntimeError: integer or different dtypes.
    Gradient: the parts of ``grad`` along the modulus and the argument.
    Source: torch.polar.
    Example:
        >>> torch.polar(torch.tensor([2.0]), torch.tensor([0.5]))  # 2 cos 0.5, 2 sin 0.5
        tensor([1.7552+0.9589j])
    """
    return _joined(abs, angle, True)


def _property_of(part: Any) -> Any:
    def write(self: Any, value: Any) -> None:
        part(self).copy_(value)

    return property(lambda self: part(self), write, doc=part.__doc__)


TensorType.real, TensorType.imag = _property_of(real), _property_of(imag)  # type: ignore[attr-defined]
