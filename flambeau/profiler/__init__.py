"""``torch.profiler``: labels of ranges and schedules. Recording is not supported yet."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable

from ..autograd.profiler import record_function as record_function
from ..core import late as _late
from ..facades import unsupported

_late.adopt(__name__)

__all__ = ["ProfilerAction", "ProfilerActivity", "kineto_available", "record_function", "schedule", "supported_activities"]


class ProfilerActivity(enum.Enum):
    """What can be recorded. Source: torch.profiler.ProfilerActivity."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What to do at a step. Source: torch.profiler.ProfilerAction."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def kineto_available() -> bool:
    """Whether there is a recorder: not yet. Source: torch.profiler.kineto_available."""
    return False


def supported_activities() -> set[ProfilerActivity]:
    """What can be recorded: nothing yet. Source: torch.profiler.supported_activities."""
    return set()


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A function from a step's number to what to do: cycles of waiting, warming up and recording.

    Args:
        wait, warmup, active: how many steps of each a cycle has.
        repeat: how many cycles; without end when 0.
        skip_first: steps before the first cycle.
        skip_first_wait: when not 0, the first cycle does not wait.
    Raises:
        AssertionError: a negative number, or no step to record.
    Source: torch.profiler.schedule.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), active={active} (need > 0), "
            f"repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", UserWarning, stacklevel=2)

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        cycle = wait + warmup + active
        if repeat > 0 and step / cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


globals().update(unsupported.names("profiler", "tensorboard_trace_handler", "ExecutionTraceObserver _KinetoProfile profile"))
