"""The error of a checkpoint that some process could not write or read."""

from __future__ import annotations

from typing import Any

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """Processes that failed, each with its exception.

    Args:
        msg: what was done.
        failures: exceptions by rank.
    Source: torch.distributed.checkpoint.CheckpointException.
    Example:
        >>> from flambeau.distributed.checkpoint import CheckpointException
        >>> CheckpointException("save", {1: OSError("disk full")}).failures
        {1: OSError('disk full')}
    """

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Any]:
        return self._failures

    def __str__(self) -> str:
        lines = [f"CheckpointException ranks:{self._failures.keys()}" if self._failures else str(self.args[0])]
        lines += [f"Traceback (most recent call last): (RANK {rank})\n{error}" for rank, error in self._failures.items()]
        return "\n".join(lines)
