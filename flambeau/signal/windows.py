"""Window functions for spectral analysis, symmetric unless told otherwise; those of the main namespace are periodic.

All take, by keyword: ``sym``, whether the window mirrors itself (else it is one period of a longer one, which joins smoothly to its
copies); ``dtype`` (float32 or float64), ``layout``, ``device`` and ``requires_grad`` as ``torch.zeros`` does.  They return ``(M)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..core.dtype import dtype as Dtype, float32, float64, get_default_dtype
from ..core.tensor import Tensor
from ..ops.creation import empty
from ..ops.from_data import tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser",
    "nuttall",
]  # fmt: skip


def _window(
    name: str,
    M: int,
    values: Callable[[np.ndarray, int], np.ndarray],
    sym: bool = True,
    dtype: Dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A window of ``M`` points: ``values(i, n)`` over i = 0 .. M - 1, n being the number of intervals.

    Raises:
        ValueError: a negative length, another dtype, or a layout that is not strided.
    """
    dtype = get_default_dtype() if dtype is None else dtype
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and repr(layout) != "torch.strided":
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (float32, float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if M == 0:
        return empty((0,), dtype=dtype, device=device, requires_grad=requires_grad)
    places = np.arange(M, dtype=np.float64)
    points = np.ones(1) if M == 1 else values(places, M - 1 if sym else M)
    return tensor(points, dtype=dtype, device=device, requires_grad=requires_grad)


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """``exp(-|i - center| / tau)``.

    Args:
        M: number of points; center: the place of the largest, by default the middle; tau: how fast it falls.
    Raises:
        ValueError: ``tau`` not positive, ``center`` for a symmetric window, a negative length, or another dtype.
    Source: torch.signal.windows.exponential.
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return _window("exponential", M, lambda i, n: np.exp(-np.abs(i - (n / 2 if center is None else center)) / tau), sym, **options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """``sin(pi (i + 1/2) / (n + 1))``: half a wave.

    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.cosine.
    """
    return _window("cosine", M, lambda i, n: np.sin(math.pi * (i + 0.5) / (n + 1)), sym, **options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """``exp(-((i - n / 2) / std)**2 / 2)``.

    Args:
        std: standard deviation, in points.
    Raises:
        ValueError: ``std`` not positive, a negative length, or another dtype.
    Source: torch.signal.windows.gaussian.
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window("gaussian", M, lambda i, n: np.exp(-(((i - n / 2) / std) ** 2) / 2), sym, **options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """``I0(beta sqrt(1 - (2 i / n - 1)**2)) / I0(beta)``, I0 being the modified Bessel function of order 0.

    Args:
        beta: shape; larger is narrower.
    Raises:
        ValueError: a negative ``beta`` or length, or another dtype.
    Source: torch.signal.windows.kaiser.
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _window("kaiser", M, lambda i, n: np.i0(beta * np.sqrt(np.maximum(1 - (2 * i / n - 1) ** 2, 0))) / np.i0(beta), sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Hamming's window: ``0.54 - 0.46 cos(2 pi i / n)``.

    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.hamming.
    """
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Von Hann's window: ``0.5 - 0.5 cos(2 pi i / n)``.

    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.hann.
    """
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Blackman's window: ``0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n)``.

    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.blackman.
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Bartlett's window: a triangle, ``1 - |2 i / n - 1|``.

    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.bartlett.
    """
    return _window("bartlett", M, lambda i, n: 1 - np.abs(2 * i / n - 1), sym, **options)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """``a[0] - a[1] cos(2 pi i / n) + a[2] cos(4 pi i / n) - ...``.

    Args:
        a: the coefficients.
    Raises:
        TypeError: coefficients that are no list. ValueError: no coefficients, a negative length, or another dtype.
    Source: torch.signal.windows.general_cosine.
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    factors = [-value if k % 2 else value for k, value in enumerate(a)]
    if not factors:
        raise ValueError("Coefficients cannot be empty")

    def values(i: np.ndarray, n: int) -> np.ndarray:
        return sum(value * np.cos(2 * math.pi * k * i / n) for k, value in enumerate(factors))

    return _window("general_cosine", M, values, sym, **options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """``alpha - (1 - alpha) cos(2 pi i / n)``.

    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.general_hamming.
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Nuttall's window of the least side lobes: four terms of ``general_cosine``.

    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.nuttall.
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)
