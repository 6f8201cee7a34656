"""OpenMP, which is not there: NumPy computes. Source: torch.backends.openmp."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether OpenMP computes.

    Returns: False.
    Source: torch.backends.openmp.is_available.
    Example:
        >>> torch.backends.openmp.is_available()
        False
    """
    return False
