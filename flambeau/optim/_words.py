"""The words in which update rules are written, over tensors and over arrays.

A rule is a function of a parameter, its gradient and its state, in operators and in the words of ``f``. These are PyTorch's operations, so
that a rule rounds where PyTorch's own loop does, in half precision too: ``f.addcmul(x, a, b, value)`` is one rounding in bfloat16, three in
float32. Called with ``Tensors`` a rule is differentiable and takes any tensor; called with ``Arrays`` it runs on symbols, of which
``kernels`` makes a kernel, and ``_passes`` calls of NumPy's functions. ``value``, ``alpha`` and ``weight`` are numbers of the rule:
Python's (or tensors, where they are differentiated themselves) in the one form, symbols in the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..core.tensor import Tensor


class Tensors:
    """Words over tensors: operations that autograd can follow."""

    abs, maximum, sign, sqrt, where = ops.abs, ops.maximum, ops.sign, ops.sqrt, ops.where

    @staticmethod
    def add(x: Tensor, y: Tensor, alpha: Any) -> Tensor:
        return x.add(y * alpha) if isinstance(alpha, Tensor) else x.add(y, alpha=alpha)

    @staticmethod
    def addcmul(x: Tensor, a: Tensor, b: Tensor, value: Any) -> Tensor:
        return x.addcmul(a * value, b) if isinstance(value, Tensor) else x.addcmul(a, b, value=value)

    @staticmethod
    def addcdiv(x: Tensor, a: Tensor, b: Tensor, value: Any) -> Tensor:
        return x.addcdiv(a * value, b) if isinstance(value, Tensor) else x.addcdiv(a, b, value=value)

    @staticmethod
    def lerp(x: Tensor, end: Tensor, weight: Any, is_near: bool) -> Tensor:
        return x.lerp(end, weight.to(x.dtype) if isinstance(weight, Tensor) else weight)

    @staticmethod
    def clamp(x: Tensor, low: Any, high: Any) -> Tensor:
        return x.clamp(low, high)


class Arrays:
    """The same words over whatever has NumPy's functions; every operation rounds."""

    abs, maximum, sqrt, where, clamp = np.absolute, np.maximum, np.sqrt, np.where, np.clip

    @staticmethod
    def add(x: Any, y: Any, alpha: Any) -> Any:
        return x + y * alpha

    @staticmethod
    def addcmul(x: Any, a: Any, b: Any, value: Any) -> Any:
        return x + a * b if value.__class__ is int and value == 1 else x + (value * a) * b

    @staticmethod
    def addcdiv(x: Any, a: Any, b: Any, value: Any) -> Any:
        return x + a / b if value.__class__ is int and value == 1 else x + (value * a) / b

    @staticmethod
    def lerp(x: Any, end: Any, weight: Any, is_near: bool) -> Any:
        return x + weight * (end - x) if is_near else end - (end - x) * (1 - weight)

    @staticmethod
    def sign(x: Any) -> Any:
        return np.sign(np.where(x == x, x, 0.0))  # NumPy's own keeps NaN
