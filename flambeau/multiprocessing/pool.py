"""Pools of processes whose arguments and results carry memory. Source: torch.multiprocessing.pool."""

from __future__ import annotations

import multiprocessing.pool
from typing import Any

from .context import of_method

__all__ = ["Pool"]


class Pool(multiprocessing.pool.Pool):
    """A pool of processes.

    Args:
        processes: how many; as many as there are processors when None.
        initializer, initargs: what each of them calls first.
        maxtasksperchild: after how many tasks a process is replaced.
        context: a context of this package; that of the start method that is set when None.
    Source: multiprocessing.Pool.
    Example:
        >>> with torch.multiprocessing.get_context("fork").Pool(1) as pool:
        ...     pool.map(abs, [-1, 2])
        [1, 2]
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Any = None,
        initargs: Any = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
    ):
        super().__init__(processes, initializer, initargs, maxtasksperchild, context or of_method())
