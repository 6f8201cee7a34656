"""``torch.distributed.rpc``: calls in other processes, as in a build without them. Source: torch.distributed.rpc."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether functions can be called in other processes.

    Returns: False.
    Source: torch.distributed.rpc.is_available.
    Example:
        >>> torch.distributed.rpc.is_available()
        False
    """
    return False
