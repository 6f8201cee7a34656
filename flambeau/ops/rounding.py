"""Rounding to whole numbers, and what rounding leaves over."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.calls.annotations import Tensor
from ..core.calls.registry import pointwise
from .arithmetic import reject, zeros


def _checked(name: str, input: np.ndarray) -> None:
    reject(name, input, "c", f"{name} is not supported for complex inputs")
    reject(f"{name}_vml_cpu", input, "b")


@pointwise(ufunc=np.floor, fast_bool=False, grad={"input": zeros}, keeps_zero=True)
def floor(input: Tensor) -> Tensor:
    """The largest whole number not above each element; integers unchanged.

    Args:
        input: any shape, floating point or integer.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        NotImplementedError: bool or complex input.
    Gradient: zero.
    Source: torch.floor.
    Example:
        >>> torch.floor(torch.tensor([1.7, -1.2]))
        tensor([ 1., -2.])
    """
    _checked("floor", input)
    return np.floor(input)


@pointwise(ufunc=np.ceil, fast_bool=False, grad={"input": zeros}, keeps_zero=True)
def ceil(input: Tensor) -> Tensor:
    """The smallest whole number not below each element; integers unchanged.

    Args:
        input: any shape, floating point or integer.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        NotImplementedError: bool or complex input.
    Gradient: zero.
    Source: torch.ceil.
    Example:
        >>> torch.ceil(torch.tensor([1.2, -1.7]))
        tensor([ 2., -1.])
    """
    _checked("ceil", input)
    return np.ceil(input)


@pointwise(ufunc=np.trunc, aliases=("fix",), fast_bool=False, grad={"input": zeros}, keeps_zero=True)
def trunc(input: Tensor) -> Tensor:
    """Each element without its fraction; integers unchanged.

    Args:
        input: any shape, floating point or integer.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        NotImplementedError: bool or complex input.
    Gradient: zero.
    Source: torch.trunc.
    Example:
        >>> torch.trunc(torch.tensor([1.7, -1.7]))
        tensor([ 1., -1.])
    """
    _checked("trunc", input)
    return np.trunc(input)


@pointwise(
    fast_bool=False,
    fast=lambda a, decimals: np.rint(a) if decimals == 0 and a.dtype.kind == "f" else None,
    grad={"input": zeros},
    keeps_zero=True,
)
def round_(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest whole number, the even one of two that are equally near.

    Args:
        input: any shape, floating point or integer.
        decimals: digits after the point to keep; before the point where negative.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        NotImplementedError: bool or complex input, or integers with ``decimals``.
    Gradient: zero.
    Source: torch.round.
    Example:
        >>> torch.round(torch.tensor([0.5, 1.5, 2.5]))
        tensor([0., 2., 2.])
        >>> torch.round(torch.tensor([1234.567]), decimals=-2)
        tensor([1200.])
    """
    _checked("round", input)
    if input.dtype.kind in "iu":
        if decimals:
            reject("round_cpu", input, "iu")
        return input.copy(order="K")
    if not decimals:
        return np.rint(input)
    ten = input.dtype.type(10.0 ** abs(decimals))
    return np.rint(input * ten) / ten if decimals > 0 else np.rint(input / ten) * ten


def _fraction(input: np.ndarray) -> np.ndarray:
    return np.subtract(input, np.trunc(input))


@pointwise(fast=lambda a: _fraction(a) if a.dtype.kind == "f" else None, grad={"input": lambda grad: grad}, keeps_zero=True)
def frac(input: Tensor) -> Tensor:
    """The fraction that ``trunc`` drops, with the sign of ``input``.

    Args:
        input: any shape, floating point.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: ``grad``.
    Source: torch.frac.
    Example:
        >>> torch.frac(torch.tensor([1.75, -1.75]))
        tensor([ 0.7500, -0.7500])
    """
    reject("frac_cpu", input, "biuc")
    return _fraction(input)


__all__: list[Any] = ["ceil", "floor", "frac", "round_", "trunc"]
