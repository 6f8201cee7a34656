"""Errors of process groups and of their stores."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """An error of a process group.

    Source: torch.distributed.DistError.
    Example:
        >>> issubclass(torch.distributed.DistError, RuntimeError)
        True
    """


class DistBackendError(DistError):
    """An error of a process group's back end.

    Source: torch.distributed.DistBackendError.
    Example:
        >>> issubclass(torch.distributed.DistBackendError, torch.distributed.DistError)
        True
    """


class DistNetworkError(DistError):
    """An error of the network.

    Source: torch.distributed.DistNetworkError.
    Example:
        >>> issubclass(torch.distributed.DistNetworkError, torch.distributed.DistError)
        True
    """


class DistStoreError(DistError):
    """An error of the store by which processes meet.

    Source: torch.distributed.DistStoreError.
    Example:
        >>> issubclass(torch.distributed.DistStoreError, torch.distributed.DistError)
        True
    """


class QueueEmptyError(DistStoreError):
    """Nothing is in the store's queue.

    Source: torch.distributed.QueueEmptyError.
    Example:
        >>> issubclass(torch.distributed.QueueEmptyError, torch.distributed.DistStoreError)
        True
    """
