"""What a worker process of a loader knows about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Which worker of a loader this process is.

    Attributes:
        id: number of the worker, from 0.
        num_workers: how many there are.
        seed: of this worker's random numbers.
        dataset: this worker's copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """What this process is to a loader.

    Returns:
        In a worker process its number, the number of workers, its seed and its dataset; None in the main process.
    Source: torch.utils.data.get_worker_info.
    """
    return _worker_info
