"""Orthogonal polynomials of ``torch.special``, by their three-term recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.calls.annotations import Number, Tensor
from ..core.calls.registry import other_names, pointwise
from .arithmetic import order_of, reject

_options = {"namespace": "special", "promotion": "int_to_float", "inplace": False, "grad": None}
Step = Callable[[int, Any, Any, Any], Any]


def _by_recurrence(name: str, x: np.ndarray, n: np.ndarray, first: Any, step: Step) -> np.ndarray:
    """Polynomials of degree ``n`` (0 where negative): p0 = 1, p1 = ``first``, then ``step(k, x, p_k, p_{k-1})``."""
    reject(f"{name}_cpu", x, "c")
    wide = x.astype(np.float64, order=order_of(x))
    degree = np.trunc(n).astype(np.int64, order=order_of(n))
    values = _repeated(wide, degree, first(wide), step)
    return np.where(np.isnan(wide) & (degree >= 1), np.nan, values).astype(x.dtype)


def _repeated(x: Any, degree: Any, now: Any, step: Step) -> Any:
    """The values after as many steps as ``degree`` says, from 1 and ``now`` on."""
    if hasattr(x, "repeated"):  # what stands for an array while a kernel is made of an expression
        return x.repeated(degree, now, step)
    before = np.ones_like(x)
    values = np.where(degree == 0, before, np.where(degree == 1, now, 0.0))
    for k in range(1, int(degree.max()) if degree.size else 0):
        before, now = now, step(k, x, now, before)
        values = np.where(degree == k + 1, now, values)
    return values


def _chebyshev(k: int, x: Any, now: Any, before: Any) -> Any:
    return 2 * x * now - before


@pointwise(**_options, aten=None)
def chebyshev_polynomial_t(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev polynomial of the first kind, degree ``n``: ``T_n(cos x) = cos(n x)``.

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, 0 where negative, broadcastable; a tensor or a number.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.chebyshev_polynomial_t. Its three-term recurrence.
    Example:
        >>> torch.special.chebyshev_polynomial_t(torch.tensor([0.5, 2.0]), 2)  # 2 x^2 - 1
        tensor([-0.5000,  7.0000])
    """
    return _by_recurrence("chebyshev_polynomial_t", input, n, lambda x: x, _chebyshev)


@pointwise(**_options, aten=None)
def chebyshev_polynomial_u(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev polynomial of the second kind, degree ``n``: ``U_n(cos x) = sin((n + 1) x) / sin(x)``.

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.chebyshev_polynomial_u. Its three-term recurrence.
    Example:
        >>> torch.special.chebyshev_polynomial_u(torch.tensor([0.5, 2.0]), 2)  # 4 x^2 - 1
        tensor([ 0., 15.])
    """
    return _by_recurrence("chebyshev_polynomial_u", input, n, lambda x: 2 * x, _chebyshev)


@pointwise(**_options, aten=None)
def chebyshev_polynomial_v(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev polynomial of the third kind, degree ``n``: ``V_n(cos x) = cos((n + 1/2) x) / cos(x / 2)``.

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.chebyshev_polynomial_v. Its three-term recurrence.
    Example:
        >>> torch.special.chebyshev_polynomial_v(torch.tensor([0.5, 2.0]), 1)  # 2 x - 1
        tensor([0., 3.])
    """
    return _by_recurrence("chebyshev_polynomial_v", input, n, lambda x: 2 * x - 1, _chebyshev)


@pointwise(**_options, aten=None)
def chebyshev_polynomial_w(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev polynomial of the fourth kind, degree ``n``: ``W_n(cos x) = sin((n + 1/2) x) / sin(x / 2)``.

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.chebyshev_polynomial_w. Its three-term recurrence.
    Example:
        >>> torch.special.chebyshev_polynomial_w(torch.tensor([0.5, 2.0]), 1)  # 2 x + 1
        tensor([2., 5.])
    """
    return _by_recurrence("chebyshev_polynomial_w", input, n, lambda x: 2 * x + 1, _chebyshev)


def _shifted(k: int, x: Any, now: Any, before: Any) -> Any:
    return 2 * (2 * x - 1) * now - before


@pointwise(**_options, aten=None)
def shifted_chebyshev_polynomial_t(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """``chebyshev_polynomial_t`` at ``2 * input - 1``: the first kind, moved from [-1, 1] to [0, 1].

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.shifted_chebyshev_polynomial_t.
    Example:
        >>> torch.special.shifted_chebyshev_polynomial_t(torch.tensor([0.0, 0.5, 1.0]), 2)
        tensor([ 1., -1.,  1.])
    """
    return _by_recurrence("shifted_chebyshev_polynomial_t", input, n, lambda x: 2 * x - 1, _shifted)


@pointwise(**_options, aten=None)
def shifted_chebyshev_polynomial_u(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """``chebyshev_polynomial_u`` at ``2 * input - 1``: the second kind, moved from [-1, 1] to [0, 1].

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.shifted_chebyshev_polynomial_u.
    Example:
        >>> torch.special.shifted_chebyshev_polynomial_u(torch.tensor([0.0, 0.5, 1.0]), 2)
        tensor([ 3., -1.,  3.])
    """
    return _by_recurrence("shifted_chebyshev_polynomial_u", input, n, lambda x: 4 * x - 2, _shifted)


@pointwise(**_options, aten=None)
def shifted_chebyshev_polynomial_v(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """``chebyshev_polynomial_v`` at ``2 * input - 1``: the third kind, moved from [-1, 1] to [0, 1].

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.shifted_chebyshev_polynomial_v.
    Example:
        >>> torch.special.shifted_chebyshev_polynomial_v(torch.tensor([0.0, 0.5, 1.0]), 2)
        tensor([ 5., -1.,  1.])
    """
    return _by_recurrence("shifted_chebyshev_polynomial_v", input, n, lambda x: 4 * x - 3, _shifted)


@pointwise(**_options, aten=None)
def shifted_chebyshev_polynomial_w(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """``chebyshev_polynomial_w`` at ``2 * input - 1``: the fourth kind, moved from [-1, 1] to [0, 1].

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.shifted_chebyshev_polynomial_w.
    Example:
        >>> torch.special.shifted_chebyshev_polynomial_w(torch.tensor([0.0, 0.5, 1.0]), 2)
        tensor([ 1., -1.,  5.])
    """
    return _by_recurrence("shifted_chebyshev_polynomial_w", input, n, lambda x: 4 * x - 1, _shifted)


@pointwise(**_options, aten=None)
def hermite_polynomial_h(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Hermite polynomial of the physicists, degree ``n``: orthogonal with the weight ``exp(-x^2)``.

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.hermite_polynomial_h. Its three-term recurrence.
    Example:
        >>> torch.special.hermite_polynomial_h(torch.tensor([1.0, 2.0]), 2)  # 4 x^2 - 2
        tensor([ 2., 14.])
    """
    return _by_recurrence("hermite_polynomial_h", input, n, lambda x: 2 * x, lambda k, x, now, before: 2 * x * now - 2 * k * before)


@pointwise(**_options, aten=None)
def hermite_polynomial_he(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Hermite polynomial of the probabilists, degree ``n``: orthogonal with the weight ``exp(-x^2 / 2)``.

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.hermite_polynomial_he. Its three-term recurrence.
    Example:
        >>> torch.special.hermite_polynomial_he(torch.tensor([1.0, 2.0]), 2)  # x^2 - 1
        tensor([0., 3.])
    """
    return _by_recurrence("hermite_polynomial_he", input, n, lambda x: x, lambda k, x, now, before: x * now - k * before)


@pointwise(**_options, aten=None)
def laguerre_polynomial_l(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Laguerre polynomial of degree ``n``: orthogonal over [0, inf) with the weight ``exp(-x)``.

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.laguerre_polynomial_l. Its three-term recurrence.
    Example:
        >>> torch.special.laguerre_polynomial_l(torch.tensor([0.0, 2.0]), 2)  # x^2 / 2 - 2 x + 1
        tensor([ 1., -1.])
    """
    return _by_recurrence(
        "laguerre_polynomial_l", input, n, lambda x: 1 - x, lambda k, x, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1)
    )


@pointwise(**_options, aten=None)
def legendre_polynomial_p(input: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Legendre polynomial of degree ``n``: orthogonal over [-1, 1] with the weight 1.

    Args:
        input: real; a tensor of any shape, or a number.
        n: degree, broadcastable; a tensor or a number. The value is 0 where it is negative.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.legendre_polynomial_p. Its three-term recurrence.
    Example:
        >>> torch.special.legendre_polynomial_p(torch.tensor([0.0, 1.0, 2.0]), 2)  # (3 x^2 - 1) / 2
        tensor([-0.5000,  1.0000,  5.5000])
    """
    return _by_recurrence(
        "legendre_polynomial_p", input, n, lambda x: x, lambda k, x, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1)
    )


for _family in ("chebyshev_polynomial", "shifted_chebyshev_polynomial"):
    for _kind in "tuvw":
        other_names(f"{_family}_{_kind}", "special", x="input")
for _name in ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"):
    other_names(_name, "special", x="input")
