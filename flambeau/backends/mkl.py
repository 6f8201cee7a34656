"""Intel's Math Kernel Library, which is not there: NumPy computes. Source: torch.backends.mkl."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether Intel's Math Kernel Library computes.

    Returns: False.
    Source: torch.backends.mkl.is_available.
    Example:
        >>> torch.backends.mkl.is_available()
        False
    """
    return False
