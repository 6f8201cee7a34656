"""Averages in groups of several sizes. Source: torch.distributed.algorithms.model_averaging.hierarchical_model_averager."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from .... import distributed as dist
from . import averagers, utils

__all__ = ["HierarchicalModelAverager"]

logger = logging.getLogger(__name__)


class HierarchicalModelAverager(averagers.ModelAverager):
    """Averages in small groups often, in larger ones more rarely.

    Args:
        period_group_size_dict: by period, in steps, the size of the groups; both grow, and the last group is all processes.
        warmup_steps: number of first steps without.
        process_group: the processes; all when None.
    Raises:
        ValueError: an empty dictionary, sizes or periods that do not grow, or a largest group that is not all processes.
    Source: torch.distributed.algorithms.model_averaging.hierarchical_model_averager.HierarchicalModelAverager; Lin et al. 2018.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> HierarchicalModelAverager({4: 1}, warmup_steps=100).step
        0
        >>> dist.destroy_process_group()
    """

    def __init__(self, period_group_size_dict: Any = None, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        self._periods = list(period_group_size_dict)
        sizes, size = list(period_group_size_dict.values()), dist.get_world_size(self.process_group)
        if self._periods[0] <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if sizes[-1] != size:
            raise ValueError(
                f"The last value in arg ``period_process_group_dict`` {sizes[-1]} must be equal to the size of arg "
                f"``process_group`` {size}."
            )
        if sorted(set(self._periods)) != self._periods or sorted(set(sizes)) != sizes:
            raise ValueError("Periods and group sizes in arg ``period_group_size_dict`` must grow.")
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.period_process_group_dict: OrderedDict[int, Any] = OrderedDict()
        for period, each in zip(self._periods, sizes):
            is_all = each == size
            self.period_process_group_dict[period] = self.process_group if is_all else dist.new_subgroups(each, self.process_group)[0]
        self.warmup_steps = warmup_steps

    def _find_process_group(self) -> Any:
        """The largest group whose period divides the step; None if it is not time."""
        for period in reversed(self._periods):
            if self.step % period == 0:
                return self.period_process_group_dict[period]
        return None

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, or an optimizer's groups, in the group whose time it is; count the step."""
        if self.step >= self.warmup_steps:
            group = self._find_process_group()
            if group is not None:
                utils.average_parameters_or_parameter_groups(params, group)
        self.step += 1
