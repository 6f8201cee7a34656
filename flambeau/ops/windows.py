"""Window functions for spectral analysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.casting import cast_array
from ..core.registry import composite
from .creation import checked_place, dtype_of, finish


def _window(
    name: str,
    length: Any,
    periodic: bool,
    values: Callable[[np.ndarray, float], np.ndarray],
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: bool,
    requires_grad: bool,
) -> Any:
    """A window of ``length`` points: ``values(i, n)`` over i = 0 .. length - 1, n being the number of intervals.

    Raises:
        TypeError: a length that is no integer. RuntimeError: a negative length, or an integer dtype.
    """
    if isinstance(length, (bool, float)) or not hasattr(length, "__index__"):
        raise TypeError(f"{name}(): argument 'window_length' (position 1) must be int, not {type(length).__name__}")
    kind = dtypes.get_default_dtype() if dtype is None else dtype_of(dtype, name)
    if not kind.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    where = checked_place(name, device, layout, pin_memory)
    if length <= 1:
        array = np.ones(length)
    else:
        array = values(np.arange(length, dtype=np.float64), float(length if periodic else length - 1))
    return finish(cast_array(array, kind), None, requires_grad, name, where)


_ARGS = """
    Args:
        window_length: number of points.
        periodic: leave out the last point of the symmetric window of one more, so that copies join smoothly.{more}
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``; a floating dtype.
    Raises:
        RuntimeError: a negative length or an integer dtype.
    Source: torch.{name}.
    """


@composite(method=False)
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """Bartlett's window: a triangle, ``1 - |2 i / n - 1|``."""
    return _window(
        "bartlett_window", window_length, periodic, lambda i, n: 1 - np.abs(2 * i / n - 1), dtype, layout, device, pin_memory, requires_grad
    )


@composite(method=False)
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """Blackman's window: ``0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n)``."""

    def values(i: np.ndarray, n: float) -> np.ndarray:
        angle = 2 * np.pi * i / n
        return 0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle)

    return _window("blackman_window", window_length, periodic, values, dtype, layout, device, pin_memory, requires_grad)


@composite(method=False)
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """Hamming's window: ``alpha - beta cos(2 pi i / n)``."""
    return _window(
        "hamming_window",
        window_length,
        periodic,
        lambda i, n: alpha - beta * np.cos(2 * np.pi * i / n),
        dtype,
        layout,
        device,
        pin_memory,
        requires_grad,
    )


@composite(method=False)
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """Von Hann's window: ``sin(pi i / n)**2``."""
    return _window(
        "hann_window",
        window_length,
        periodic,
        lambda i, n: 0.5 - 0.5 * np.cos(2 * np.pi * i / n),
        dtype,
        layout,
        device,
        pin_memory,
        requires_grad,
    )


@composite(method=False)
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """Kaiser's window: ``I0(beta sqrt(1 - (2 i / n - 1)**2)) / I0(beta)``, I0 being the modified Bessel function of order 0."""

    def values(i: np.ndarray, n: float) -> np.ndarray:
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * i / n - 1) ** 2, 0))) / np.i0(beta)

    return _window("kaiser_window", window_length, periodic, values, dtype, layout, device, pin_memory, requires_grad)


for _function, _more in (
    (bartlett_window, ""),
    (blackman_window, ""),
    (hann_window, ""),
    (hamming_window, "\n        alpha, beta: the two coefficients."),
    (kaiser_window, "\n        beta: shape; larger is narrower."),
):
    _function.__doc__ = f"{_function.__doc__}\n{_ARGS.format(more=_more, name=_function.__name__)}"
