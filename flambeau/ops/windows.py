"""Window functions for spectral analysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..core.arrays import native
from ..core.calls.casting import cast_array
from ..core.calls.creation import Creation
from ..core.calls.registry import factory
from ..core.state import as_constant
from ..core.tensor import wrap
from .ranges import progression


@native.part(None, work="x._array.size")
def _triangle(x: Any) -> Any:
    return 1 - (x - 1).abs()


@native.part(None, work="angle._array.size")
def _raised_cosine(angle: Any, alpha: float, beta: float) -> Any:
    return alpha - beta * angle.cos()


@native.part(None, work="angle._array.size")
def _blackman(angle: Any) -> Any:
    return 0.42 - 0.5 * angle.cos() + 0.08 * (2 * angle).cos()


def _window(new: Creation, length: Any, periodic: bool, step: float, values: Callable[..., Any], *numbers: float) -> Any:
    """A window of ``length`` points: ``values(step i / n, *numbers)`` over i = 0 .. length - 1, n being the number of intervals.

    Small ones are computed in float64, large ones by kernels in their own dtype, as PyTorch does.

    Raises:
        TypeError: a length that is no integer. RuntimeError: a negative length, or an integer dtype.
    """
    if isinstance(length, (bool, float)) or not hasattr(length, "__index__"):
        raise TypeError(f"{new.name}(): argument 'window_length' (position 1) must be int, not {type(length).__name__}")
    kind = new.dtype_or_default()
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{new.name} expects floating point dtypes, got: {kind}")
    if length < 0:
        raise RuntimeError(f"{new.name} requires non-negative window_length, got window_length={length}")
    if length <= 1:
        return cast_array(np.ones(length), kind)
    step /= length if periodic else length - 1
    if kind.is_complex:
        if new.where.type != "meta":
            raise NotImplementedError(f"\"arange_cpu\" not implemented for '{kind.legacy}'")
        return cast_array(values(wrap(np.arange(length, dtype=np.float64) * step), *numbers)._array, kind)
    with no_grad():  # large ones are one kernel, as long as nothing could be recorded
        return cast_array(values(wrap(as_constant(progression(kind.numpy, length, -0.0, step, None))), *numbers)._array, kind)


@factory()
def bartlett_window(new: Creation, window_length: int, periodic: bool = True) -> Any:
    """Bartlett's window: a triangle, ``1 - |2 i / n - 1|``.

    Args:
        window_length: number of points.
        periodic: leave out the last point of the symmetric window of one more, so that copies join smoothly.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``; a floating dtype.
    Returns:
        ``(window_length,)``.
    Raises:
        RuntimeError: a negative length or an integer dtype.
        TypeError: a length that is no integer.
    Source: torch.bartlett_window.
    Example:
        >>> torch.bartlett_window(4), torch.bartlett_window(5, periodic=False)
        (tensor([0.0000, 0.5000, 1.0000, 0.5000]), tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000]))
    """
    return _window(new, window_length, periodic, 2.0, _triangle)


@factory()
def blackman_window(new: Creation, window_length: int, periodic: bool = True) -> Any:
    """Blackman's window: ``0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n)``.

    Args:
        window_length: number of points.
        periodic, dtype, layout, device, pin_memory, requires_grad: as for ``torch.bartlett_window``.
    Returns:
        ``(window_length,)``.
    Raises:
        RuntimeError: a negative length or an integer dtype.
    Source: torch.blackman_window.
    Example:
        >>> torch.blackman_window(5, periodic=False)[1:4]
        tensor([0.3400, 1.0000, 0.3400])
    """

    return _window(new, window_length, periodic, 2 * np.pi, _blackman)


@factory()
def hamming_window(new: Creation, window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46) -> Any:
    """Hamming's window: ``alpha - beta cos(2 pi i / n)``.

    Args:
        window_length: number of points.
        periodic, dtype, layout, device, pin_memory, requires_grad: as for ``torch.bartlett_window``.
        alpha, beta: the two coefficients.
    Returns:
        ``(window_length,)``.
    Raises:
        RuntimeError: a negative length or an integer dtype.
    Source: torch.hamming_window.
    Example:
        >>> torch.hamming_window(5, periodic=False)
        tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return _window(new, window_length, periodic, 2 * np.pi, _raised_cosine, alpha, beta)


@factory()
def hann_window(new: Creation, window_length: int, periodic: bool = True) -> Any:
    """Von Hann's window: ``sin(pi i / n)**2``.

    Args:
        window_length: number of points.
        periodic, dtype, layout, device, pin_memory, requires_grad: as for ``torch.bartlett_window``.
    Returns:
        ``(window_length,)``.
    Raises:
        RuntimeError: a negative length or an integer dtype.
    Source: torch.hann_window.
    Example:
        >>> torch.hann_window(4), torch.hann_window(5, periodic=False)
        (tensor([0.0000, 0.5000, 1.0000, 0.5000]), tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000]))
    """
    return _window(new, window_length, periodic, 2 * np.pi, _raised_cosine, 0.5, 0.5)


@factory()
def kaiser_window(new: Creation, window_length: int, periodic: bool = True, beta: float = 12.0) -> Any:
    """Kaiser's window: ``I0(beta sqrt(1 - (2 i / n - 1)**2)) / I0(beta)``, I0 being the modified Bessel function of order 0.

    Args:
        window_length: number of points.
        periodic, dtype, layout, device, pin_memory, requires_grad: as for ``torch.bartlett_window``.
        beta: shape; larger is narrower.
    Returns:
        ``(window_length,)``.
    Raises:
        RuntimeError: a negative length or an integer dtype.
    Source: torch.kaiser_window.
    Example:
        >>> torch.kaiser_window(5, periodic=False, beta=0.0)  # beta 0 is a rectangle
        tensor([1., 1., 1., 1., 1.])
        >>> torch.kaiser_window(3, periodic=False)[1]
        tensor(1.)
    """

    def values(x: Any) -> Any:
        return (beta * (1 - (x - 1).square()).clamp(min=0).sqrt()).i0() / np.i0(beta).item()

    return _window(new, window_length, periodic, 2.0, values)
