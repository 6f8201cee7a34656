"""``torch.distributed.pipelining``: models in stages, each on a process of its own, that batches go through in parts."""

from __future__ import annotations

import importlib
from typing import Any

from ...core import late as _late
from .schedules import (
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

_SPLITTING = frozenset("Pipe SplitPoint build_stage pipe_split pipeline".split())  # which loads ``export``

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "SplitPoint", "build_stage", "pipe_split", "pipeline",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _SPLITTING:
        return getattr(importlib.import_module("._IR", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SPLITTING})
