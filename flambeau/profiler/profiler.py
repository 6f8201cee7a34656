"""The names of ``torch.profiler`` under the name of the file where PyTorch has them."""

from __future__ import annotations

from typing import Any

from . import ProfilerAction, ProfilerActivity, kineto_available, record_function, schedule, supported_activities

__all__ = ["ProfilerAction", "ProfilerActivity", "kineto_available", "record_function", "schedule", "supported_activities"]


def __getattr__(name: str) -> Any:
    from .. import profiler

    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(profiler, name)


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Record every step."""
    return ProfilerAction.RECORD
