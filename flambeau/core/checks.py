"""Conditions that programs state, and Python numbers in the place of a compiler's unknown sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import symbolic
from .calls.override import call_override
from .tensor import Tensor
from .unknown import SymBool, SymFloat, SymInt

__all__ = ["SymBool", "SymFloat", "SymInt"]

_MESSAGE = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an enhancement request to "
    "PyTorch.)"
)


def _raise(kind: type[Exception], message: Any) -> None:
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise kind(_MESSAGE if message is None else str(message()))


def _check_with(error_type: type[Exception], cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raise ``error_type`` with what ``message`` gives unless ``cond``.

    Raises:
        TypeError: ``cond`` is no bool, or ``message`` no function.
    """
    if isinstance(cond, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() "
            "to assert that all elements are True."
        )
    if isinstance(cond, SymBool):
        if symbolic.assumed(cond):
            return
        _raise(error_type, message)
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        _raise(error_type, message)


def _unless(name: str, error_type: type[Exception]) -> Callable[..., None]:
    def check(cond: bool, message: Callable[[], str] | None = None) -> None:
        _check_with(error_type, cond, message)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"{error_type.__name__} unless ``cond``. Source: torch.{name}."
    return check


_check, _check_index = _unless("_check", RuntimeError), _unless("_check_index", IndexError)
_check_value, _check_type = _unless("_check_value", ValueError), _unless("_check_type", TypeError)
_check_not_implemented = _unless("_check_not_implemented", NotImplementedError)


def _check_is_size(i: int, message: Callable[[], str] | None = None, *, max: int | None = None) -> None:
    """RuntimeError unless ``i`` is a size, and at most ``max``. Source: torch._check_is_size."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise ``error_type`` unless every element of a bool tensor is True. Source: torch._check_tensor_all_with."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype.name != "bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Callable[[], str] | None = None) -> None:
    """RuntimeError unless every element of a bool tensor is True. Source: torch._check_tensor_all."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert(condition: Any, message: str) -> Any:
    """AssertionError unless ``condition``; what stands for a tensor, as in a graph that is traced, takes the call.

    Source: torch._assert.
    """
    if type(condition) not in (bool, Tensor) and hasattr(type(condition), "__torch_function__"):
        result = call_override(_assert, (condition,), (condition, message), {})
        if result is not NotImplemented:
            return result
    if not condition:
        raise AssertionError(message)


def _assert_async(input: Any, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """RuntimeError unless a tensor's only element is not zero. Source: torch._assert_async."""
    if not bool(input):
        raise RuntimeError(assert_msg)


def sym_int(a: Any) -> int:
    """``int(a)``. Source: torch.sym_int."""
    return symbolic.integer_of(a) if isinstance(a, (SymInt, SymFloat)) else int(a)


def sym_float(a: Any) -> float:
    """``float(a)``. Source: torch.sym_float."""
    return symbolic.float_of(a) if isinstance(a, (SymInt, SymFloat)) else float(a)


def sym_not(a: Any) -> Any:
    """``not a``. Source: torch.sym_not."""
    return a.__sym_not__() if isinstance(a, SymBool) else not a


def sym_sqrt(a: Any) -> float:
    """The square root of a number. Source: torch.sym_sqrt."""
    return symbolic.square_root(a) if isinstance(a, (SymInt, SymFloat)) else math.sqrt(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers, a float if one of them is. Source: torch.sym_max."""
    return _extreme(max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers, a float if one of them is. Source: torch.sym_min."""
    return _extreme(min, a, b)


def _extreme(choose: Callable[..., Any], a: Any, b: Any) -> Any:
    for number in (a, b):
        if not isinstance(number, (int, float)) and not hasattr(number, "dtype"):
            raise AssertionError(f"expected a number, got {type(number)}")
    if isinstance(a, (SymInt, SymFloat)) or isinstance(b, (SymInt, SymFloat)):
        return symbolic.chosen("Max" if choose is max else "Min", a, b)
    chosen = choose(a, b)
    return float(chosen) if isinstance(a, float) or isinstance(b, float) else chosen


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t if b else f``, both of one type. Source: torch.sym_ite."""
    if not isinstance(b, (bool, SymBool)):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return t if b else f


def sym_sum(args: Any) -> Any:
    """The sum of numbers. Source: torch.sym_sum."""
    return sum(args)
