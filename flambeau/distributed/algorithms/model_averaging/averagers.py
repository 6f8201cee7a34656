"""Times at which models are averaged. Source: torch.distributed.algorithms.model_averaging.averagers."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from .... import distributed as dist
from . import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Base of averagers.

    Args:
        process_group: the processes; all when None.
    Attributes:
        step: number of calls of ``average_parameters``.
    Source: torch.distributed.algorithms.model_averaging.averagers.ModelAverager.
    Example:
        >>> issubclass(PeriodicModelAverager, ModelAverager)
        True
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, or an optimizer's groups, if it is time."""
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages every so many steps.

    Args:
        period: number of steps between two averages.
        warmup_steps: number of first steps without.
        process_group: the processes; all when None.
    Raises:
        ValueError: a period below 1, or a negative number of steps.
    Source: torch.distributed.algorithms.model_averaging.averagers.PeriodicModelAverager.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> averager = PeriodicModelAverager(period=4, warmup_steps=100)
        >>> averager.average_parameters(torch.nn.Linear(2, 1).parameters())
        >>> averager.step
        1
        >>> dist.destroy_process_group()
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging because the communication cost of all-reducing parameters will be no "
                "less than the cost of all-reducing gradients by DistributedDataParallel in the backward pass. Therefore, only "
                "DistributedDataParallel should be used for this case.",
                stacklevel=2,
            )
        self.warmup_steps, self.period = warmup_steps, period

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, or an optimizer's groups, if it is time; count the step."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
