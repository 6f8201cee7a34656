"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, group_values, set_group_value
from .plateau import ReduceLROnPlateau


class _CompositeScheduler(LRScheduler):
    """Base class of composite schedules: the checks of their parts, and saving these with them."""

    _schedulers: Sequence[LRScheduler]

    def _check_parts(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
        name = type(self).__name__
        for idx, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {idx} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(f"{name} does not support `ReduceLROnPlateau` scheduler, whose step takes a metric; index {idx} is one.")
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler {type(scheduler).__name__} "
                    f"at index {idx} has {scheduler.optimizer}, which is different from {type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, as a dict, with the state of each part."""
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that :meth:`state_dict` returned.

        Args:
            state_dict: the saved state, from a schedule of the same parts.
        """
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_CompositeScheduler):
    """One schedule after the other: ``schedulers[i]`` runs until the step ``milestones[i]``.

    Args:
        optimizer: whose rates are scheduled.
        schedulers: the schedules, all of this optimizer.
        milestones: step numbers at which the next schedule takes over, one fewer than schedules.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Raises:
        ValueError: no schedule, a wrong number of milestones, another optimizer's schedule, or a ReduceLROnPlateau.
        TypeError: a part without an optimizer.
    Source: torch.optim.lr_scheduler.SequentialLR.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> parts = [torch.optim.lr_scheduler.ConstantLR(optimizer, 0.1, 2), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]
        >>> scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])
        >>> print([(optimizer.step(), scheduler.step(), scheduler.get_last_lr()[0])[-1] for _ in range(4)])
        [0.1, 1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1) -> None:
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check_parts(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone points, "
                f"but got {len(schedulers)} schedulers and {len(milestones)} milestones"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each part wrote its first rates when it was made, on top of those before it: undo them, and let the first part alone start.
        for group in optimizer.param_groups:
            set_group_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take back the step that each part, or part of a part, did when it was made.

        Args:
            sched: where to start; this schedule when None.
        """
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for part in scheduler._schedulers:
                self.recursive_undo(part)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go to the next rates; at a milestone the next schedule starts from its beginning."""
        self.last_epoch += 1
        idx = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[idx]
        if idx > 0 and self._milestones[idx - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_CompositeScheduler):
    """All schedules at once: each step is one step of every part.

    Args:
        schedulers: the schedules, all of one optimizer.
        optimizer: their optimizer; the first schedule's when None.
    Raises:
        ValueError: no schedule, another optimizer's schedule, or a ReduceLROnPlateau.
        TypeError: a part without an optimizer.
    Source: torch.optim.lr_scheduler.ChainedScheduler.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> parts = [torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5, 2), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]
        >>> scheduler = torch.optim.lr_scheduler.ChainedScheduler(parts)
        >>> print([(optimizer.step(), scheduler.step(), scheduler.get_last_lr()[0])[-1] for _ in range(4)])
        [0.25, 0.25, 0.125, 0.0625]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        self._check_parts(schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = group_values(optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Step every part."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = group_values(self.optimizer, "lr")
