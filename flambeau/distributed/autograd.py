"""``torch.distributed.autograd``: backward passes through several processes, as in a build without them."""

from __future__ import annotations

from ..facades import unsupported

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether backward passes go through other processes.

    Returns: False.
    Source: torch.distributed.autograd.is_available.
    Example:
        >>> torch.distributed.autograd.is_available()
        False
    """
    return False


globals().update(unsupported.names("distributed.autograd", "backward get_gradients", "context DistAutogradContext"))
