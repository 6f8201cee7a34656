"""Schedules of pipelines under PyTorch's names. Source: torch.distributed.pipelining.schedules."""

from __future__ import annotations

from ._steps import (
    PipelineScheduleMulti,
    PipelineScheduleSingle,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)
from .zero_bubble import ScheduleDualPipeV, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble

__all__ = [
    "PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "get_schedule_class",
]  # fmt: skip

_CLASSES = {
    "1F1B": Schedule1F1B,
    "Interleaved1F1B": ScheduleInterleaved1F1B,
    "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS,
    "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle,
    "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble,
    "DualPipeV": ScheduleDualPipeV,
}


def get_schedule_class(schedule_name: str) -> type:
    """A schedule by its name, in any case.

    Args:
        schedule_name: as the class, without ``Schedule``.
    Returns: the class.
    Raises:
        ValueError: there is none.
    Source: torch.distributed.pipelining.schedules.get_schedule_class.
    Example:
        >>> from flambeau.distributed.pipelining.schedules import get_schedule_class
        >>> get_schedule_class("1f1b").__name__
        'Schedule1F1B'
    """
    found = {name.lower(): kind for name, kind in _CLASSES.items()}.get(schedule_name.lower())
    if found is None:
        raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(_CLASSES)}")
    return found
