"""Devices of other processes. Source: torch.distributed.remote_device."""

from __future__ import annotations

import re

from ..core.device import device

__all__: list[str] = []

_WORKER, _RANK = re.compile(r"[\w.:-]+"), re.compile(r"rank:(\d+)")


def _is_device(text: str) -> bool:
    try:
        device(text)
    except RuntimeError:
        return False
    return True


class _remote_device:
    """A device of a worker, given by name or rank; of this process where neither is given.

    Args:
        remote_device: ``<worker>/<device>``, ``rank:<rank>/<device>``, ``<device>`` or a ``torch.device``. Without a device it is the CPU.
    Raises:
        ValueError: another form. TypeError: neither text nor a device.
    Source: torch.distributed._remote_device.
    Example:
        >>> from flambeau.distributed import _remote_device
        >>> _remote_device("trainer0/cpu").worker_name(), _remote_device("rank:1").rank()
        ('trainer0', 1)
    """

    def __init__(self, remote_device: str | device) -> None:
        self._worker_name: str | None = None
        self._rank: int | None = None
        if isinstance(remote_device, device):
            self._device = remote_device
        elif not isinstance(remote_device, str):
            raise TypeError(f"Invalid type for remote_device: {type(remote_device)}")
        else:
            self._parse(remote_device)

    def _parse(self, text: str) -> None:
        where, divided, on = text.partition("/")
        if not divided and _is_device(text):
            self._device = device(text)
            return
        rank = _RANK.fullmatch(where)
        is_name = _WORKER.fullmatch(where) is not None and ":" not in where
        if "/" in on or not (rank or is_name):
            raise ValueError(
                f"Could not parse remote_device: {text}. The valid format is '<workername>/<device>' or 'rank:<rank>/<device>' or "
                "'<device>'"
            )
        self._device = device(on if divided else "cpu")
        if rank:
            self._rank = int(rank[1])
        else:
            self._worker_name = where

    def worker_name(self) -> str | None:
        """The worker's name, where it is given by one."""
        return self._worker_name

    def rank(self) -> int | None:
        """The worker's rank, where it is given by one."""
        return self._rank

    def device(self) -> device:
        """The device there."""
        return self._device

    def __repr__(self) -> str:
        if self._worker_name is not None:
            return f"{self._worker_name}/{self._device}"
        return str(self._device) if self._rank is None else f"rank:{self._rank}/{self._device}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _remote_device) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._worker_name, self._rank, self._device))
