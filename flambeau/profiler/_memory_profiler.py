"""Purposes of the memory of a profile, moment by moment. Source: torch.profiler._memory_profiler.

recorder's flows   which operation read, wrote to and made what memory
categories         parameters and gradients are known; inputs lead to gradients and come from none; activations come from inputs;
                   what a backward pass makes and is no gradient is its detail
timeline           made, written to, freed: events with times
coalesced          bytes by category at each time, which is what files have
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..autograd.profiler_trace import write_json
from ..core.device import device as Device
from ..core.profiling import NODE, Flow, Recorder
from .memory_chart import page

__all__ = ["Action", "Category", "MemoryProfile", "MemoryProfileTimeline", "TensorKey"]


class Category(enum.Enum):
    """Purposes of memory.

    Source: torch.profiler._memory_profiler.Category.
    Example:
        >>> torch.profiler._memory_profiler.Category.GRADIENT.name
        'GRADIENT'
    """

    INPUT = 1
    TEMPORARY = 2
    ACTIVATION = 3
    GRADIENT = 4
    AUTOGRAD_DETAIL = 5
    PARAMETER = 6
    OPTIMIZER_STATE = 7


class Action(enum.Enum):
    """Events of memory.

    Source: torch.profiler._memory_profiler.Action.
    Example:
        >>> torch.profiler._memory_profiler.Action.CREATE
        <Action.CREATE: 2>
    """

    PREEXISTING = 1
    CREATE = 2
    INCREMENT_VERSION = 3
    DESTROY = 4


# The order in which files have the categories; memory that none fits comes last.
ORDER = (
    Category.PARAMETER, Category.OPTIMIZER_STATE, Category.INPUT, Category.TEMPORARY, Category.ACTIVATION, Category.GRADIENT,
    Category.AUTOGRAD_DETAIL, None,
)  # fmt: skip
_PLACES = {category: place for place, category in enumerate(ORDER)}


@dataclass(frozen=True, order=True)
class TensorKey:
    """Some memory: its number in the profile, and its device.

    Args:
        id, device: the attributes.
    Source: torch.profiler._memory_profiler.TensorKey.
    Example:
        >>> torch.profiler._memory_profiler.TensorKey(3, "cpu").id
        3
    """

    id: int
    device: Any

    def __repr__(self) -> str:
        return f"id={self.id}: ({self.device})"


Version = tuple[int, int]  # number of memory, and how often it was written to


@dataclass
class _Step:
    """An operation, or a node of the tape, with versions of the memory that it reads and leaves."""

    flow: Flow
    inputs: set[Version]
    outputs: set[Version]


class MemoryProfile:
    """Categories and events of a profile's memory.

    Args:
        result: the recorder of a profile with ``record_shapes``, ``profile_memory`` and ``with_stack``.
    Source: torch.profiler._memory_profiler.MemoryProfile.
    """

    def __init__(self, result: Recorder):
        self._recorder = result
        self._ends = {number: time for time, size, _, number in (*result.memory, *result.released) if size < 0}
        self._steps = list(_steps(result.flows))
        self._fixed: dict[int, Category] = {}  # by number, whatever the version
        self._found: dict[Version, Category] = {}
        self._set_fixed()
        self._set_inputs()
        self._set_activations()
        self._set_autograd_detail()

    def category(self, number: int, version: int) -> Category | None:
        """The purpose of memory, after it was written to ``version`` times; None where nothing tells."""
        return self._fixed.get(number) or self._found.get((number, version))

    @property
    def timeline(self) -> tuple[tuple[int, Action, tuple[TensorKey, int], int], ...]:
        """Events by time: nanoseconds of the day's clock (-1: before the profile), action, memory with its version, bytes.

        Source: torch.profiler._memory_profiler.MemoryProfile.timeline.
        """
        recorder, place = self._recorder, Device("cpu")
        sizes = dict(recorder.older)
        events: list[tuple[int, int, Action, int]] = []
        for time, size, _, number in recorder.memory:
            events.append((time, abs(size), Action.CREATE if size > 0 else Action.DESTROY, number))
            sizes[number] = abs(size)
        events += [(time, abs(size), Action.DESTROY, number) for time, size, _, number in recorder.released]
        for step in self._steps:
            events += [(step.flow.range.end, sizes.get(number, 0), Action.INCREMENT_VERSION, number) for number in step.flow.writes]
        events.sort(key=lambda event: event[0])
        found = [(-1, Action.PREEXISTING, (TensorKey(number, place), 0), size) for number, size in recorder.older.items()]
        versions: dict[int, int] = {}
        for time, size, action, number in events:
            version = versions.get(number, 0)
            found.append((time + recorder.offset, action, (TensorKey(number, place), version), size))
            if action is Action.INCREMENT_VERSION:
                versions[number] = version + 1
        return tuple(found)

    # -- categories -------------------------------------------------------------------------------------------------------------------
    def _set_fixed(self) -> None:
        """Set what is known by number: gradients, what an operation makes and frees itself, optimizers' state, parameters."""
        recorder = self._recorder
        learned = self._reached_from(recorder.gradients)
        parameters = recorder.parameters | {number for number in recorder.leaves if number in learned}
        self._fixed.update(dict.fromkeys(recorder.gradients, Category.GRADIENT))
        made = {number: time for time, size, _, number in recorder.memory if size > 0}
        for step in self._steps:
            if step.flow.range.scope is not NODE:
                for number in step.flow.made:
                    if number in self._ends and made.get(number, 0) <= self._ends[number] <= step.flow.range.end:
                        self._fixed.setdefault(number, Category.TEMPORARY)
        self._fixed.update(dict.fromkeys(recorder.states, Category.OPTIMIZER_STATE))
        self._fixed.update(dict.fromkeys(parameters, Category.PARAMETER))

    def _reached_from(self, numbers: set[int]) -> set[int]:
        """Memory that depends on some other, in whatever version: walked until nothing is added."""
        reached, before = set(numbers), -1
        while len(reached) > before:
            before = len(reached)
            for step in self._steps:
                if any(number in reached for number, _ in step.inputs):
                    reached.update(number for number, _ in step.outputs)
        return reached

    def _set_inputs(self) -> None:
        """Set what leads to a gradient or meets a parameter, and depends on neither."""
        leading: set[Version] = set()
        for step in reversed(self._steps):
            touched = step.inputs | step.outputs
            if any(self._fixed.get(each[0]) in (Category.GRADIENT, Category.PARAMETER) or each in leading for each in touched):
                leading |= touched
        for step in self._steps:
            if step.flow.is_backward:
                leading -= step.outputs
        known = {number for number, category in self._fixed.items() if category in (Category.GRADIENT, Category.PARAMETER)}
        learned = self._reached_from(known)
        self._found.update({each: Category.INPUT for each in leading if each[0] not in learned})

    def _set_activations(self) -> None:
        """Set what the forward pass makes of inputs and parameters."""
        sources = (Category.INPUT, Category.ACTIVATION)
        allowed = (*sources, Category.PARAMETER, Category.TEMPORARY)
        for step in self._steps:
            if step.flow.is_backward:
                continue
            categories = [self.category(*each) for each in step.inputs]
            if any(category in sources for category in categories) and all(category in allowed for category in categories):
                for each in step.outputs:
                    self._found.setdefault(each, Category.ACTIVATION)

    def _set_autograd_detail(self) -> None:
        """Set what backward passes make for themselves."""
        for step in self._steps:
            if step.flow.is_backward:
                for number, version in step.outputs:
                    if not version or self.category(number, version - 1) in (None, Category.AUTOGRAD_DETAIL):
                        self._found.setdefault((number, version), Category.AUTOGRAD_DETAIL)


def _steps(flows: list[Flow]) -> Iterator[_Step]:
    versions: dict[int, int] = {}
    for flow in sorted(flows, key=lambda flow: flow.range.start):
        inputs = {(number, versions.get(number, 0)) for number in (*flow.reads, *flow.writes)}
        for number in flow.writes:
            versions[number] = versions.get(number, 0) + 1
        yield _Step(flow, inputs, {(number, versions.get(number, 0)) for number in (*flow.writes, *flow.made)})


class MemoryProfileTimeline:
    """A profile's memory as files.

    Args:
        memory_profile: a ``MemoryProfile``.
    Source: torch.profiler._memory_profiler.MemoryProfileTimeline.
    """

    def __init__(self, memory_profile: MemoryProfile):
        self.timeline = memory_profile.timeline
        self._category = memory_profile.category

    def _changes(self, device_str: str) -> Iterator[tuple[int, Action, int, int]]:
        """For each event of a device: nanoseconds, action, bytes (negative where they end), place of the category."""
        where = Device(device_str)
        for time, action, (key, version), size in self.timeline:
            if key.device != where:
                continue
            place = _PLACES[self._category(key.id, version)]
            if action is Action.INCREMENT_VERSION:
                yield time, action, -size, place
                yield time, action, size, _PLACES[self._category(key.id, version + 1)]
            else:
                yield time, action, -size if action is Action.DESTROY else size, place

    def _coalesce_timeline(self, device_str: str) -> tuple[list[int], list[list[int]]]:
        """Times in microseconds, and at each the bytes of each category, with a 0 in front, upon which charts are stacked."""
        times: list[int] = []
        sizes: list[list[int]] = []
        for nanoseconds, _, change, place in self._changes(device_str):
            time = nanoseconds if nanoseconds == -1 else nanoseconds // 1000
            if not times or time != times[-1]:
                times.append(time)
                sizes.append(list(sizes[-1]) if sizes else [0] * (len(ORDER) + 1))
            sizes[-1][place + 1] += change
        first = next((time for time in times if time >= 0), -1)
        return [first if time < 0 else time for time in times], sizes

    def export_memory_timeline(self, path: str, device_str: str) -> None:
        """Write times and sizes as JSON. Source: torch.profiler._memory_profiler.MemoryProfileTimeline.export_memory_timeline.

        Args:
            path: the file, compressed if it ends in ``.gz``. device_str: the device.
        """
        write_json(path, self._coalesce_timeline(device_str))

    def export_memory_timeline_raw(self, path: str, device_str: str) -> None:
        """Write each event: nanoseconds, number of the action, bytes, place of the category.

        Args:
            path: the file, compressed if it ends in ``.gz``. device_str: the device.
        Source: torch.profiler._memory_profiler.MemoryProfileTimeline.export_memory_timeline_raw.
        """
        write_json(path, [[time, action.value, change, place] for time, action, change, place in self._changes(device_str)])

    def export_memory_timeline_html(
        self, path: str, device_str: str, figsize: tuple[int, int] = (20, 12), title: str | None = None
    ) -> None:
        """Write a page with a chart of the categories over time; it is drawn as SVG and needs no other library (PyTorch's: matplotlib).

        Args:
            path: the file. device_str: the device. figsize: width and height, 50 pixels each. title: above the chart.
        Source: torch.profiler._memory_profiler.MemoryProfileTimeline.export_memory_timeline_html.
        """
        times, sizes = self._coalesce_timeline(device_str)
        names = [category.name if category is not None else "Unknown" for category in ORDER]
        pixels = 50 * figsize[0], 50 * figsize[1]
        Path(path).write_text(page(times, [row[1:] for row in sizes], names, title or f"Memory of {device_str}", pixels), encoding="utf-8")
