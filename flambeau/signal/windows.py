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
    """The exponential window: ``exp(-|i - center| / tau)`` at point ``i``.

    Args:
        M: number of points.
        center: the place of the largest, in points; the middle when None.
        tau: how fast it falls, in points.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        ValueError: ``tau`` not positive, ``center`` for a symmetric window, a negative length, or another dtype.
    Source: torch.signal.windows.exponential.
    Example:
        >>> torch.signal.windows.exponential(5, tau=2.0)
        tensor([0.3679, 0.6065, 1.0000, 0.6065, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return _window("exponential", M, lambda i, n: np.exp(-np.abs(i - (n / 2 if center is None else center)) / tau), sym, **options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Half a wave of the sine: ``sin(pi (i + 1/2) / (n + 1))`` at point ``i``, ``n`` being the last one.

    Args:
        M: number of points.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.cosine.
    Example:
        >>> torch.signal.windows.cosine(4)
        tensor([0.3827, 0.9239, 0.9239, 0.3827])
    """
    return _window("cosine", M, lambda i, n: np.sin(math.pi * (i + 0.5) / (n + 1)), sym, **options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """The normal density's shape: ``exp(-((i - n / 2) / std)**2 / 2)`` at point ``i``, ``n`` being the last one.

    Args:
        M: number of points.
        std: standard deviation, in points.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        ValueError: ``std`` not positive, a negative length, or another dtype.
    Source: torch.signal.windows.gaussian.
    Example:
        >>> torch.signal.windows.gaussian(5, std=1.0)
        tensor([0.1353, 0.6065, 1.0000, 0.6065, 0.1353])
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window("gaussian", M, lambda i, n: np.exp(-(((i - n / 2) / std) ** 2) / 2), sym, **options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """Kaiser's window: ``I0(beta sqrt(1 - (2 i / n - 1)**2)) / I0(beta)``, I0 being the modified Bessel function of order 0.

    Args:
        M: number of points.
        beta: shape; a larger one is narrower, and 0 is a rectangle.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        ValueError: a negative ``beta`` or length, or another dtype.
    Source: torch.signal.windows.kaiser.
    Example:
        >>> torch.signal.windows.kaiser(5, beta=4.0)
        tensor([0.0885, 0.6334, 1.0000, 0.6334, 0.0885])
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _window("kaiser", M, lambda i, n: np.i0(beta * np.sqrt(np.maximum(1 - (2 * i / n - 1) ** 2, 0))) / np.i0(beta), sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Hamming's window: ``0.54 - 0.46 cos(2 pi i / n)``.

    Args:
        M: number of points.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.hamming.
    Example:
        >>> torch.signal.windows.hamming(5)
        tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Von Hann's window: ``0.5 - 0.5 cos(2 pi i / n)``.

    Args:
        M: number of points.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.hann.
    Example:
        >>> torch.signal.windows.hann(5), torch.signal.windows.hann(4, sym=False)
        (tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000]), tensor([0.0000, 0.5000, 1.0000, 0.5000]))
    """
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Blackman's window: ``0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n)``.

    Args:
        M: number of points.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.blackman.
    Example:
        >>> torch.signal.windows.blackman(6, sym=False)[1:]
        tensor([0.1300, 0.6300, 1.0000, 0.6300, 0.1300])
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Bartlett's window: a triangle, ``1 - |2 i / n - 1|``.

    Args:
        M: number of points.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.bartlett.
    Example:
        >>> torch.signal.windows.bartlett(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("bartlett", M, lambda i, n: 1 - np.abs(2 * i / n - 1), sym, **options)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """A sum of cosines: ``a[0] - a[1] cos(2 pi i / n) + a[2] cos(4 pi i / n) - ...``.

    Args:
        M: number of points.
        a: the coefficients; those of a window whose largest value is 1 add up to 1.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        TypeError: coefficients that are no list.
        ValueError: no coefficients, a negative length, or another dtype.
    Source: torch.signal.windows.general_cosine.
    Example:
        >>> torch.signal.windows.general_cosine(5, a=[0.5, 0.5])
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
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
    """A raised cosine: ``alpha - (1 - alpha) cos(2 pi i / n)``; Hamming's window at 0.54, von Hann's at 0.5.

    Args:
        M: number of points.
        alpha: the mean; the ends have the value ``2 alpha - 1``.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.general_hamming.
    Example:
        >>> torch.signal.windows.general_hamming(5, alpha=0.75)
        tensor([0.5000, 0.7500, 1.0000, 0.7500, 0.5000])
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Nuttall's window of the least side lobes: four terms of ``general_cosine``.

    Args:
        M: number of points.
        sym: symmetric (for filters), or False for periodic (for spectra).
        options: ``dtype``, ``device``, ``layout`` and ``requires_grad`` of the window.
    Returns: a tensor of shape ``(M,)``.
    Raises:
        ValueError: a negative length, or another dtype.
    Source: torch.signal.windows.nuttall.
    Example:
        >>> torch.signal.windows.nuttall(4, sym=False)
        tensor([3.6280e-04, 2.2698e-01, 1.0000e+00, 2.2698e-01])
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)
