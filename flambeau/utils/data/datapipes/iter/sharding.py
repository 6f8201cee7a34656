"""Streams that workers and processes divide among them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import length_of

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):
    """The groups that divide a stream: all at once, or processes of a group first and then each one's workers.

    Source: torch.utils.data.datapipes.iter.sharding.SHARDING_PRIORITIES.
    Example:
        >>> [group.name for group in SHARDING_PRIORITIES]
        ['DEFAULT', 'DISTRIBUTED', 'MULTIPROCESSING']
    """

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe[Any]):
    """Base class of pipes that a loader tells which part is theirs."""

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: SHARDING_PRIORITIES) -> None:
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every n-th sample, once a loader (or :meth:`apply_sharding`) has said which; all before.

    Args:
        source_datapipe: the samples.
        sharding_group_filter: heed only what is said for this group.
    Source: torch.utils.data.datapipes.iter.ShardingFilter.
    Example:
        >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).sharding_filter()
        >>> pipe.apply_sharding(2, 1)
        >>> list(pipe)
        [1, 3]
    """

    def __init__(self, source_datapipe: IterDataPipe[Any], sharding_group_filter: SHARDING_PRIORITIES | None = None) -> None:
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT
    ) -> None:
        """Keep the samples ``instance_id``, ``instance_id + num_of_instances``, ...

        Raises:
            ValueError: ``instance_id`` too large.
            RuntimeError: a group beside the default one.
        """
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        others = set(self.groups) - {sharding_group}
        if others and SHARDING_PRIORITIES.DEFAULT in (*others, sharding_group):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = num_of_instances, instance_id
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter in (None, group):
                count, number = self.groups[group]
                self.instance_id += self.num_of_instances * number
                self.num_of_instances *= count

    def __iter__(self) -> Iterator[Any]:
        for i, sample in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield sample

    def __len__(self) -> int:
        count, rest = divmod(length_of(self, self.source_datapipe), self.num_of_instances)
        return count + (self.instance_id < rest)
