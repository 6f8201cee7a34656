"""Comparisons and logic: results are bool, or the bits of integers; none of them has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import KINDS, check_same_device, kind_of, missing_values
from ..core.calls.annotations import Number, Tensor
from ..core.calls.out import EXACT
from ..core.calls.promotion import common_dtype
from ..core.calls.registry import Declare, add_method, composite, op, other_names, pointwise
from ..core.state import thread
from ..core.tensor import Tensor as TensorType, wrap
from .arithmetic import order_of, reflected, reject


# -- order --------------------------------------------------------------------------------------------------------------------
@pointwise(ufunc=np.equal, promotion="bool", fp_safe=True, operator="eq", grad=None)
def eq(input: Tensor, other: Tensor | Number) -> Tensor:
    """``input == other``, element by element; NaN equals nothing.

    Args:
        input: tensor of any dtype.
        other: tensor that broadcasts with it, or a number.
    Returns:
        bool of the broadcast shape.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Source: torch.eq.
    Example:
        >>> torch.eq(torch.tensor([1.0, 2.0, float("nan")]), torch.tensor([1.0, 3.0, float("nan")]))
        tensor([ True, False, False])
    """
    return np.equal(input, other)


@pointwise(ufunc=np.not_equal, promotion="bool", fp_safe=True, operator="ne", aliases=("not_equal",), grad=None)
def ne(input: Tensor, other: Tensor | Number) -> Tensor:
    """``input != other``, element by element; NaN differs from everything.

    Args:
        input: tensor of any dtype.
        other: tensor that broadcasts with it, or a number.
    Returns:
        bool of the broadcast shape.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Source: torch.ne.
    Example:
        >>> torch.ne(torch.tensor([[1], [2]]), torch.tensor([1, 2]))
        tensor([[False,  True],
                [ True, False]])
    """
    return np.not_equal(input, other)


@pointwise(ufunc=np.less, promotion="bool", fp_safe=True, operator="lt", aliases=("less",), grad=None)
def lt(input: Tensor, other: Tensor | Number) -> Tensor:
    """``input < other``, element by element; false where one is NaN.

    Args:
        input: real tensor.
        other: tensor that broadcasts with it, or a number.
    Returns:
        bool of the broadcast shape.
    Raises:
        NotImplementedError: complex operands.
        RuntimeError: shapes that do not broadcast.
    Source: torch.lt.
    Example:
        >>> torch.lt(torch.tensor([1.0, 2.0, 3.0]), 2)
        tensor([ True, False, False])
    """
    reject("lt_cpu", input, "c")
    return np.less(input, other)


@pointwise(ufunc=np.less_equal, promotion="bool", fp_safe=True, operator="le", aliases=("less_equal",), grad=None)
def le(input: Tensor, other: Tensor | Number) -> Tensor:
    """``input <= other``, element by element; false where one is NaN.

    Args:
        input: real tensor.
        other: tensor that broadcasts with it, or a number.
    Returns:
        bool of the broadcast shape.
    Raises:
        NotImplementedError: complex operands.
        RuntimeError: shapes that do not broadcast.
    Source: torch.le.
    Example:
        >>> torch.le(torch.tensor([1.0, 2.0, 3.0]), 2)
        tensor([ True,  True, False])
    """
    reject("le_cpu", input, "c")
    return np.less_equal(input, other)


@pointwise(ufunc=np.greater, promotion="bool", fp_safe=True, operator="gt", aliases=("greater",), grad=None)
def gt(input: Tensor, other: Tensor | Number) -> Tensor:
    """``input > other``, element by element; false where one is NaN.

    Args:
        input: real tensor.
        other: tensor that broadcasts with it, or a number.
    Returns:
        bool of the broadcast shape.
    Raises:
        NotImplementedError: complex operands.
        RuntimeError: shapes that do not broadcast.
    Source: torch.gt.
    Example:
        >>> torch.gt(torch.tensor([1, 2, 3]), torch.tensor([3, 2, 1]))
        tensor([False, False,  True])
    """
    reject("gt_cpu", input, "c")
    return np.greater(input, other)


@pointwise(ufunc=np.greater_equal, promotion="bool", fp_safe=True, operator="ge", aliases=("greater_equal",), grad=None)
def ge(input: Tensor, other: Tensor | Number) -> Tensor:
    """``input >= other``, element by element; false where one is NaN.

    Args:
        input: real tensor.
        other: tensor that broadcasts with it, or a number.
    Returns:
        bool of the broadcast shape.
    Raises:
        NotImplementedError: complex operands.
        RuntimeError: shapes that do not broadcast.
    Source: torch.ge.
    Example:
        >>> torch.ge(torch.tensor([float("nan"), 2.0, 3.0]), 2.5)
        tensor([False, False,  True])
    """
    reject("ge_cpu", input, "c")
    return np.greater_equal(input, other)


@composite()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and equal elements; NaN equals nothing.

    Args:
        input, other: tensors of any shapes, on one device.
    Returns:
        A Python bool.
    Raises:
        RuntimeError: tensors on different devices.
        NotImplementedError: tensors of the meta device.
    Source: torch.equal.
    Example:
        >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1.0, 2.0]))
        True
        >>> torch.equal(torch.tensor([1, 1]), torch.tensor([1]))
        False
    """
    a, b = input._array, other._array
    if KINDS and not (kind_of(a).has_values and kind_of(b).has_values):
        missing_values("equal")
    if thread.recorder is not None:
        return a.shape == b.shape and bool((input == other).all())
    return a.shape == b.shape and (a == b).all().item()


# -- closeness ----------------------------------------------------------------------------------------------------------------
def _canonicalize_close(input: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> tuple[Any, ...]:
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype.legacy} did not match {other.dtype.legacy}")
    for name, bound in (("rtol", rtol), ("atol", atol)):
        if bound < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {bound}")
    return input, other, rtol, atol, equal_nan


@op(promotion="keep", broadcasts=True, out=False, canonicalize=_canonicalize_close, grad=None, aten=None)
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """``abs(input - other) <= atol + rtol * abs(other)``, element by element; equal infinities are close.

    Args:
        input, other: broadcastable tensors of one dtype.
        rtol, atol: relative and absolute tolerance, not negative.
        equal_nan: whether two NaN are close.
    Returns:
        bool of the broadcast shape.
    Raises:
        RuntimeError: different dtypes, a negative tolerance, shapes that do not broadcast.
    Source: torch.isclose.
    Example:
        >>> torch.isclose(torch.tensor([1.0, 1.0, float("inf")]), torch.tensor([1.01, 1.2, float("inf")]), rtol=0.1)
        tensor([ True, False,  True])
    """
    close = np.equal(input, other)
    if input.dtype.kind not in "fcV":
        if rtol == 0 and atol == 0:
            return close
        input, other = input.astype(np.float64), other.astype(np.float64)
    elif equal_nan:
        close = close | (np.isnan(input) & np.isnan(other))
    allowed = atol + np.abs(rtol * other)
    error = np.abs(input - other)
    return close | (np.isfinite(error) & (error <= allowed))


@composite()
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether :func:`torch.isclose` holds for every element.

    Args:
        input, other: broadcastable tensors of one dtype.
        rtol, atol: relative and absolute tolerance, not negative.
        equal_nan: whether two NaN are close.
    Returns:
        A Python bool.
    Raises:
        RuntimeError: different dtypes, a negative tolerance, shapes that do not broadcast.
    Source: torch.allclose.
    Example:
        >>> torch.allclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), atol=0.2)
        True
        >>> torch.allclose(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
        False
    """
    close = isclose(input, other, rtol, atol, equal_nan)
    return bool(close._array.all().item()) if thread.recorder is None else bool(close.all())


# -- kinds of numbers -----------------------------------------------------------------------------------------------------------
def _kind_of_number(**options: Any) -> Declare:
    """Declare a question about each number."""
    return op(broadcasts=True, elementwise=False, pointwise=True, out=False, grad=None, **options)


@_kind_of_number(fast=lambda a: np.isnan(a) if a.dtype.kind == "f" else None, keeps_zero=True)
def isnan(input: Tensor) -> Tensor:
    """Whether each element is NaN; of a complex number, whether a part is.

    Args:
        input: any shape and dtype.
    Returns:
        bool of ``input``'s shape.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.isnan.
    Example:
        >>> torch.isnan(torch.tensor([1.0, float("nan"), float("inf")]))
        tensor([False,  True, False])
    """
    return np.isnan(input) if input.dtype.kind not in "biu" else np.zeros_like(input, bool, order=order_of(input))


@_kind_of_number(fast=lambda a: np.isinf(a) if a.dtype.kind == "f" else None, keeps_zero=True)
def isinf(input: Tensor) -> Tensor:
    """Whether each element is infinite; of a complex number, whether a part is.

    Args:
        input: any shape and dtype.
    Returns:
        bool of ``input``'s shape.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.isinf.
    Example:
        >>> torch.isinf(torch.tensor([1.0, float("nan"), -float("inf")]))
        tensor([False, False,  True])
    """
    return np.isinf(input) if input.dtype.kind not in "biu" else np.zeros_like(input, bool, order=order_of(input))


@_kind_of_number(fast=lambda a: np.isfinite(a) if a.dtype.kind == "f" else None, aten=None)
def isfinite(input: Tensor) -> Tensor:
    """Whether each element is neither infinite nor NaN.

    Args:
        input: any shape and dtype.
    Returns:
        bool of ``input``'s shape.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.isfinite.
    Example:
        >>> torch.isfinite(torch.tensor([1.0, float("nan"), float("inf")]))
        tensor([ True, False, False])
    """
    return np.isfinite(input) if input.dtype.kind not in "biu" else np.ones_like(input, bool, order=order_of(input))


def _signed_infinity(name: str, input: np.ndarray, sign: int) -> np.ndarray:
    if input.dtype.kind == "c":
        raise RuntimeError(f"{name} does not support complex inputs.")
    if input.dtype.kind in "biu":
        return np.zeros_like(input, bool, order=order_of(input))
    return np.equal(input, np.array(sign * np.inf, input.dtype))


@op(batch=0, grad=None, pointwise=True, keeps_zero=True)
def isposinf(input: Tensor) -> Tensor:
    """Whether each element is positive infinity.

    Args:
        input: any shape, real.
    Returns:
        bool of ``input``'s shape.
    Raises:
        RuntimeError: complex input.
    Source: torch.isposinf.
    Example:
        >>> torch.isposinf(torch.tensor([-float("inf"), 1.0, float("inf")]))
        tensor([False, False,  True])
    """
    return _signed_infinity("isposinf", input, 1)


@op(batch=0, grad=None, pointwise=True, keeps_zero=True)
def isneginf(input: Tensor) -> Tensor:
    """Whether each element is negative infinity.

    Args:
        input: any shape, real.
    Returns:
        bool of ``input``'s shape.
    Raises:
        RuntimeError: complex input.
    Source: torch.isneginf.
    Example:
        >>> torch.isneginf(torch.tensor([-float("inf"), 1.0, float("inf")]))
        tensor([ True, False, False])
    """
    return _signed_infinity("isneginf", input, -1)


@op(batch=0, out=False, grad=None, aten=None)
def isreal(input: Tensor) -> Tensor:
    """Whether each element is real; of a complex number, whether the imaginary part is zero.

    Args:
        input: any shape and dtype.
    Returns:
        bool of ``input``'s shape.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.isreal.
    Example:
        >>> torch.isreal(torch.tensor([1 + 0j, 1 + 2j]))
        tensor([ True, False])
    """
    return np.equal(input.imag, 0) if input.dtype.kind == "c" else np.ones_like(input, bool, order=order_of(input))


# -- logic ----------------------------------------------------------------------------------------------------------------------
_logical = {"promotion": "keep", "grad": None}


@pointwise(ufunc=np.logical_and, **_logical)
def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """Whether both elements are nonzero; NaN counts as nonzero.

    Args:
        input, other: broadcastable tensors of any dtypes.
    Returns:
        bool of the broadcast shape; in place, ``input``'s dtype.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Source: torch.logical_and.
    Example:
        >>> torch.logical_and(torch.tensor([0, 1, 2]), torch.tensor([1.0, 0.0, 0.5]))
        tensor([False, False,  True])
    """
    return np.logical_and(input, other)


@pointwise(ufunc=np.logical_or, **_logical)
def logical_or(input: Tensor, other: Tensor) -> Tensor:
    """Whether at least one of two elements is nonzero; NaN counts as nonzero.

    Args:
        input, other: broadcastable tensors of any dtypes.
    Returns:
        bool of the broadcast shape; in place, ``input``'s dtype.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Source: torch.logical_or.
    Example:
        >>> torch.logical_or(torch.tensor([0, 0, 2]), torch.tensor([0.0, 0.5, 0.0]))
        tensor([False,  True,  True])
    """
    return np.logical_or(input, other)


@pointwise(ufunc=np.logical_xor, **_logical)
def logical_xor(input: Tensor, other: Tensor) -> Tensor:
    """Whether exactly one of two elements is nonzero.

    Args:
        input, other: broadcastable tensors of any dtypes.
    Returns:
        bool of the broadcast shape; in place, ``input``'s dtype.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Source: torch.logical_xor.
    Example:
        >>> torch.logical_xor(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 1]))
        tensor([False,  True, False])
    """
    return np.logical_xor(input, other)


@pointwise(ufunc=np.logical_not, **_logical)
def logical_not(input: Tensor) -> Tensor:
    """Whether each element is zero.

    Args:
        input: any shape and dtype.
    Returns:
        bool of ``input``'s shape; in place, ``input``'s dtype.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.logical_not.
    Example:
        >>> torch.logical_not(torch.tensor([0.0, 0.5, float("nan")]))
        tensor([ True, False, False])
    """
    return np.logical_not(input)


# -- bits ---------------------------------------------------------------------------------------------------------------------
@pointwise(ufunc=np.bitwise_and, operator="and", grad=None, aten="bitwise_and.Tensor bitwise_and.Scalar")
def bitwise_and(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input & other``: bit by bit for integers, the logical and for bools.

    Args:
        input, other: broadcastable tensors of integers or bools, or one of them a number.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        NotImplementedError: operands that are not integers or bools.
        RuntimeError: shapes that do not broadcast.
    Source: torch.bitwise_and.
    Example:
        >>> torch.bitwise_and(torch.tensor([0b1100, -1]), 0b1010)
        tensor([ 8, 10])
    """
    reject("bitwise_and_cpu", input, "fc")
    return np.bitwise_and(input, other)


@pointwise(ufunc=np.bitwise_or, operator="or", grad=None, aten="bitwise_or.Tensor bitwise_or.Scalar")
def bitwise_or(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input | other``: bit by bit for integers, the logical or for bools.

    Args:
        input, other: broadcastable tensors of integers or bools, or one of them a number.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        NotImplementedError: operands that are not integers or bools.
        RuntimeError: shapes that do not broadcast.
    Source: torch.bitwise_or.
    Example:
        >>> torch.bitwise_or(torch.tensor([0b1100, 0]), 0b1010)
        tensor([14, 10])
    """
    reject("bitwise_or_cpu", input, "fc")
    return np.bitwise_or(input, other)


@pointwise(ufunc=np.bitwise_xor, operator="xor", grad=None, aten="bitwise_xor.Tensor bitwise_xor.Scalar")
def bitwise_xor(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input ^ other``: bit by bit for integers, the exclusive or for bools.

    Args:
        input, other: broadcastable tensors of integers or bools, or one of them a number.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        NotImplementedError: operands that are not integers or bools.
        RuntimeError: shapes that do not broadcast.
    Source: torch.bitwise_xor.
    Example:
        >>> torch.bitwise_xor(torch.tensor([0b1100, 0b1010]), 0b1010)
        tensor([6, 0])
    """
    reject("bitwise_xor_cpu", input, "fc")
    return np.bitwise_xor(input, other)


@pointwise(ufunc=np.invert, grad=None)
def bitwise_not(input: Tensor) -> Tensor:
    """``~input``: every bit of an integer inverted, the logical not of a bool.

    Args:
        input: any shape, integers or bools.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        NotImplementedError: input that is neither integer nor bool.
    Source: torch.bitwise_not.
    Example:
        >>> torch.bitwise_not(torch.tensor([0, 5])), torch.bitwise_not(torch.tensor([True]))
        (tensor([-1, -6]), tensor([False]))
    """
    reject("bitwise_not_cpu", input, "fc")
    return np.invert(input)


def _invert(self: Any) -> Any:
    if self.dtype.category > dtypes.INTEGER:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(self)


add_method("__invert__", lambda: _invert)


@pointwise(operator="lshift", grad=None, aten="bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar")
def bitwise_left_shift(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input << other``; 0 where ``other`` is negative or not below the number of bits.

    Args:
        input, other: broadcastable integer tensors, or one of them a number.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        NotImplementedError: operands that are not integers.
        RuntimeError: shapes that do not broadcast.
    Source: torch.bitwise_left_shift.
    Example:
        >>> torch.bitwise_left_shift(torch.tensor([1, 3, 1]), torch.tensor([4, 1, 64]))
        tensor([16,  6,  0])
    """
    reject("lshift_cpu", input, "bfc")
    outside = (other < 0) | (other >= 8 * input.dtype.itemsize)
    return np.where(outside, 0, np.left_shift(input, np.where(outside, 0, other).astype(other.dtype))).astype(input.dtype)


@pointwise(operator="rshift", grad=None, aten="bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar")
def bitwise_right_shift(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """``input >> other``, keeping the sign; 0 or -1, by the sign, where ``other`` is negative or not below the number of bits.

    Args:
        input, other: broadcastable integer tensors, or one of them a number.
    Returns:
        The common dtype and broadcast shape.
    Raises:
        NotImplementedError: operands that are not integers.
        RuntimeError: shapes that do not broadcast.
    Source: torch.bitwise_right_shift.
    Example:
        >>> torch.bitwise_right_shift(torch.tensor([40, -5, -5]), torch.tensor([3, 1, 64]))
        tensor([ 5, -3, -1])
    """
    reject("rshift_cpu", input, "bfc")
    most = 8 * input.dtype.itemsize - 1
    outside = (other < 0) | (other > most)
    shifted = np.right_shift(input, np.where(outside, most, other).astype(other.dtype))
    # of a signed number, the last bit that is left is the sign already
    return np.where(outside, 0, shifted).astype(input.dtype) if input.dtype.kind == "u" else shifted


# -- membership -----------------------------------------------------------------------------------------------------------------
@composite(method=False, out=EXACT)
def isin(elements: Tensor | Number, test_elements: Tensor | Number, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each of ``elements`` is among ``test_elements``.

    Args:
        elements, test_elements: tensors of any shapes, or one of them a number.
        assume_unique: both hold no element twice; only a hint.
        invert: say whether each is missing instead.
    Returns:
        bool of ``elements``' shape.
    Raises:
        TypeError: two numbers.
        RuntimeError: bool or complex elements.
    Source: torch.isin.
    Example:
        >>> torch.isin(torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 3, 9]))
        tensor([[False,  True],
                [ True, False]])
    """
    operands = (elements, test_elements)
    if not any(isinstance(item, TensorType) for item in operands):
        raise TypeError("isin(): expected a tensor among elements and test_elements, got two numbers")
    common = common_dtype(operands)
    if common.is_complex or common is dtypes.bool_:
        raise RuntimeError(f"Unsupported input type encountered for isin(): {common.legacy}")
    arrays = [item._array if isinstance(item, TensorType) else np.asarray(item, common.numpy) for item in operands]
    arrays = [array.astype(np.float32) if array.dtype.kind == "V" else array for array in arrays]  # sorting bfloat16 does not put NaN last
    if all(isinstance(item, TensorType) for item in operands):
        check_same_device(*arrays)
    mask = np.isin(*arrays, invert=invert)
    return wrap(np.asarray(mask))


for _word in ("and", "or", "xor"):
    reflected(f"bitwise_{_word}", _word)

other_names("isin", element="elements", test_element="test_elements")

__all__ = ["allclose", "eq", "equal", "ge", "gt", "isclose", "isfinite", "isin", "isinf", "isnan", "le", "lt", "ne"]
