"""The sampler that gives each process of a group its own part of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from ... import ops
from ...core.random.generator import Generator
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th index from ``rank`` on, so that the processes of a group see disjoint samples.

    All ranks get equally many: the first indices are repeated at the end, or with ``drop_last`` the last ones left out.

    Args:
        dataset: the dataset, of the same length everywhere.
        num_replicas: number of processes; that of the process group when None.
        rank: number of this process; that in the process group when None.
        shuffle: in random order, another one after each :meth:`set_epoch`.
        seed: of the order, the same everywhere.
        drop_last: leave out samples instead of repeating some.
    Raises:
        ValueError: ``rank`` not below ``num_replicas``.
        RuntimeError: ``num_replicas`` or ``rank`` missing without the distributed package, ValueError without a process group.
    Source: torch.utils.data.distributed.DistributedSampler.
    Example:
        >>> [list(DistributedSampler(range(5), num_replicas=2, rank=rank, shuffle=False)) for rank in (0, 1)]
        [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from ... import distributed  # late: most programs are one process

            if not distributed.is_available():
                raise RuntimeError("Requires distributed package to be available")
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch = 0
        self.drop_last, self.shuffle, self.seed = drop_last, shuffle, seed
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = ops.randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        repeats = math.ceil(self.total_size / count) if count else 0
        return iter((indices * repeats)[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Shuffle in another way from the next iteration on.

        Args:
            epoch: added to the seed; the same on all ranks.
        Source: torch.utils.data.distributed.DistributedSampler.set_epoch.
        Example:
            >>> sampler = DistributedSampler(range(100), num_replicas=2, rank=0)
            >>> first = list(sampler)
            >>> sampler.set_epoch(1)
            >>> list(sampler) == first
            False
        """
        self.epoch = epoch
