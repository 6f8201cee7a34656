"""``torch.profiler``: what a program spends its time on, step by step, by a schedule. Source: torch.profiler.

The recorder is ``core.profiling``, its events and tables are ``autograd.profiler``'s.
"""

from __future__ import annotations

from typing import Any

from ..autograd.profiler import record_function
from ..autograd.profiler_util import DeviceType
from ..core import late as _late
from . import itt
from .profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    _ExperimentalConfig as _ExperimentalConfig,
    _KinetoProfile as _KinetoProfile,
    kineto_available,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

_late.adopt(__name__)

__all__ = [
    "DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity", "itt", "kineto_available", "profile", "record_function",
    "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return _late.submodule(__name__, name, ("_memory_profiler",))
