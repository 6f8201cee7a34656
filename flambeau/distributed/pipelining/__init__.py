"""``torch.distributed.pipelining``: models in stages, each on a process of its own, that batches go through in parts."""

from __future__ import annotations

from ...core import late as _late
from ...facades import unsupported
from .schedules import (  # type: ignore[attr-defined]
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
)
from .stage import PipelineStage

_late.adopt(__name__)

__all__ = [
    "PipelineStage", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS", "ScheduleZBVZeroBubble",
]  # fmt: skip

globals().update(unsupported.names("distributed.pipelining", "build_stage pipe_split pipeline", "Pipe SplitPoint"))
