"""NNPACK, which is not there: NumPy computes. Source: torch.backends.nnpack."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether NNPACK computes.

    Returns: False.
    Source: torch.backends.nnpack.is_available.
    Example:
        >>> torch.backends.nnpack.is_available()
        False
    """
    return False
