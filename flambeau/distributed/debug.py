"""``TORCH_DISTRIBUTED_DEBUG``: what each rank is about to do is compared before it does it. Source: torch.distributed.DebugLevel."""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .process_group import ProcessGroup

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]

_ROOM = 512  # bytes for a fingerprint


class DebugLevel(enum.IntEnum):
    """Levels of checking: with ``DETAIL``, shapes and dtypes before each collective.

    Source: torch.distributed.DebugLevel.
    Example:
        >>> torch.distributed.DebugLevel.DETAIL > torch.distributed.DebugLevel.OFF
        True
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """The level of checking: by ``TORCH_DISTRIBUTED_DEBUG`` at first.

    Returns: a ``DebugLevel``.
    Source: torch.distributed.get_debug_level.
    Example:
        >>> torch.distributed.get_debug_level() in torch.distributed.DebugLevel
        True
    """
    if _level is None:
        set_debug_level_from_env()
    assert _level is not None
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Say how much is checked, in groups that are made from now on.

    Args:
        level: a ``DebugLevel``.
    Source: torch.distributed.set_debug_level.
    Example:
        >>> level = torch.distributed.get_debug_level()
        >>> torch.distributed.set_debug_level(torch.distributed.DebugLevel.DETAIL)
        >>> torch.distributed.set_debug_level(level)
    """
    global _level
    _level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Take the level from the variable ``TORCH_DISTRIBUTED_DEBUG``.

    Raises:
        RuntimeError: a value that is none.
    Source: torch.distributed.set_debug_level_from_env.
    Example:
        >>> torch.distributed.set_debug_level_from_env()
    """
    global _level
    told = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if told not in DebugLevel.__members__:
        raise RuntimeError(f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, got {told}")
    _level = DebugLevel[told]


def equip(group: ProcessGroup) -> None:
    """Have a group compare fingerprints if that is asked for."""
    if get_debug_level() is DebugLevel.DETAIL and group.size() > 1:
        group.check = compare


def compare(group: ProcessGroup, lane: Any, name: str, told: str) -> None:
    """Compare what the ranks are about to do.

    Raises:
        RuntimeError: it is not the same; the message has each rank's.
    """
    own = f"{name} {told}".encode()[:_ROOM]
    send = np.zeros(_ROOM, np.uint8)
    send[: len(own)] = np.frombuffer(own, np.uint8)
    receive = np.empty((group.size(), _ROOM), np.uint8)
    lane.doing = f"{name}, comparing what the ranks are about to do"
    lane.all_gather(send, receive)
    lane.doing = name
    if (receive == send).all():
        return
    lines = [f"rank {rank}: {bytes(row).rstrip(bytes(1)).decode(errors='replace')}" for rank, row in zip(group.ranks, receive, strict=True)]
    raise RuntimeError(
        f"Detected mismatch between collectives on ranks of group {group.group_name!r}. Rank {group.ranks[group.rank()]} is running "
        f"{name} {told}; "
        "the ranks are running\n  " + "\n  ".join(lines)
    )
