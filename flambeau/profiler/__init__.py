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
    """Kinds of work that a profiler records, by device.

    Source: torch.profiler.ProfilerActivity.
    Example:
        >>> torch.profiler.ProfilerActivity.CPU.name
        'CPU'
    """

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """The action of a profiler at a step.

    Source: torch.profiler.ProfilerAction.
    Example:
        >>> [action.name for action in torch.profiler.ProfilerAction]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'DEVICE_STOPPED']
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def kineto_available() -> bool:
    """Whether there is a recorder: not yet.

    Returns: False.
    Source: torch.profiler.kineto_available.
    Example:
        >>> torch.profiler.kineto_available()
        False
    """
    return False


def supported_activities() -> set[ProfilerActivity]:
    """The kinds of work that can be recorded: none yet.

    Returns: an empty set.
    Source: torch.profiler.supported_activities.
    Example:
        >>> torch.profiler.supported_activities()
        set()
    """
    return set()


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A function from a step's number to the profiler's action: cycles of waiting, warming up and recording.

    Args:
        wait: steps of each cycle in which nothing is done.
        warmup: steps after them that are recorded and thrown away.
        active: steps after them that are recorded.
        repeat: how many cycles; without end when 0.
        skip_first: steps before the first cycle.
        skip_first_wait: when not 0, the first cycle does not wait.
    Returns: the function.
    Raises:
        AssertionError: a negative number, or no step to record.
    Source: torch.profiler.schedule.
    Example:
        >>> action = torch.profiler.schedule(wait=1, warmup=1, active=2)
        >>> [action(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
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
