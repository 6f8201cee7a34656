"""Events of a profile; their averages and tables. Source: torch.autograd.profiler_util."""

from __future__ import annotations

import bisect
import enum
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from .profiler_table import attribute_of, format_memory, format_time, format_time_share, table_of

__all__ = [
    "DeviceType", "EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel", "MemRecordsAcc",
    "StringTable",
]  # fmt: skip

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"
METRICS = ("self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total")


class DeviceType(enum.Enum):
    """Types of devices that events happen on.

    Source: torch.profiler.DeviceType.
    Example:
        >>> torch.profiler.DeviceType.CPU
        <DeviceType.CPU: 0>
    """

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


class Kernel(NamedTuple):
    """A kernel of a device that an event started.

    Args:
        name, device, duration: the attributes.
    Source: torch.autograd.profiler_util.Kernel.

    Attributes:
        name: of the kernel. device: number of the device. duration: microseconds.
    Example:
        >>> torch.autograd.profiler_util.Kernel("gemm", 0, 3).duration
        3
    """

    name: str
    device: int
    duration: float


class Interval:
    """A time from ``start`` to ``end``, in microseconds.

    Args:
        start, end: the attributes.
    Source: torch.autograd.profiler_util.Interval.
    Example:
        >>> torch.autograd.profiler_util.Interval(3, 7).elapsed_us()
        4
    """

    def __init__(self, start: float, end: float):
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Microseconds from start to end. Source: torch.autograd.profiler_util.Interval.elapsed_us."""
        return self.end - self.start


class StringTable(defaultdict[str, str]):
    """Names by themselves, as they are to be shown.

    Source: torch.autograd.profiler_util.StringTable.
    Example:
        >>> torch.autograd.profiler_util.StringTable()["aten::mm"]
        'aten::mm'
    """

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


class MemRecordsAcc:
    """Notes about memory, found by their times.

    Args:
        mem_records: pairs of a note with ``start_ns()``, and whatever belongs to it.
    Source: torch.autograd.profiler_util.MemRecordsAcc.
    Example:
        >>> list(torch.autograd.profiler_util.MemRecordsAcc([]).in_interval(0, 10))
        []
    """

    def __init__(self, mem_records: Sequence[Any]):
        self._records = sorted(mem_records, key=lambda record: record[0].start_ns())
        self._times = [record[0].start_ns() for record in self._records]

    def in_interval(self, start_us: float, end_us: float) -> Iterator[Any]:
        """Those between two times, in microseconds. Source: torch.autograd.profiler_util.MemRecordsAcc.in_interval."""
        first, last = bisect.bisect_left(self._times, start_us * 1000), bisect.bisect_right(self._times, end_us * 1000)
        return iter(self._records[first:last])


def _shown(name: str) -> Any:
    return property(lambda self: format_time(getattr(self, name)), doc=f"``{name}`` with a unit.")


class FormattedTimesMixin:
    """Times of an event as text, and averages over its calls.

    Source: torch.autograd.profiler_util.FormattedTimesMixin.
    Example:
        >>> make = torch.autograd.profiler_util.FunctionEvent
        >>> make(id=1, name="aten::mm", thread=1, start_us=0, end_us=5).cpu_time_str
        '5.000us'
    """

    cpu_time_total: Any
    device_time_total: Any
    count: int

    cpu_time_str = _shown("cpu_time")
    device_time_str = _shown("device_time")
    cpu_time_total_str = _shown("cpu_time_total")
    device_time_total_str = _shown("device_time_total")
    self_cpu_time_total_str = _shown("self_cpu_time_total")
    self_device_time_total_str = _shown("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        """Microseconds of a call, on average."""
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Microseconds of a call on a device, on average."""
        return 0.0 if self.count == 0 else 1.0 * self.device_time_total / self.count

    @property
    def cuda_time(self) -> float:
        """The older name of ``device_time``."""
        return self.device_time


class FunctionEvent(FormattedTimesMixin):
    """One range of a profile: a call of an operation, a node of a backward pass, or a range of the program's own.

    Args:
        id, name, thread, start_us, end_us: number, name, number of the thread, begin and end in microseconds.
        overload_name: of the operation. fwd_thread: of a node of the backward pass, the thread of the call that recorded it.
        input_shapes, concrete_inputs, kwinputs: shapes of inputs, and values of those that are no tensors.
        stack: the program's frames, the innermost first. scope: 0 a call, 1 a node, 7 a range of the program's own.
        cpu_memory_usage, device_memory_usage: bytes made less bytes freed meanwhile. sequence_nr: what a call and its node share.
        flops: floating-point operations. trace_name: in a trace; ``name`` where it is None.
        use_device, is_async, is_remote, node_id, device_type, device_index, device_resource_id, is_legacy: of devices and other processes.
        is_user_annotation, is_python_function, activity_type, metadata_json: what kind of range it is.
        flow_id, flow_type, flow_start, external_id, linked_correlation_id, extra_meta: of Kineto's traces.
        structured_input_shapes, structured_input_strides, input_dtypes, python_id, python_parent_id, python_module_id: likewise.
    Source: torch.autograd.profiler_util.FunctionEvent.
    Example:
        >>> event = torch.autograd.profiler_util.FunctionEvent(id=1, name="aten::mm", thread=1, start_us=0, end_us=5)
        >>> event.cpu_time, event.key
        (5.0, 'aten::mm')
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: Any = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: Any = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: Any = None,
        kwinputs: Any = None,
        is_user_annotation: bool = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        metadata_json: str | None = None,
        flow_id: int | None = None,
        flow_type: int | None = None,
        flow_start: bool | None = None,
        external_id: int = 0,
        linked_correlation_id: int = 0,
        extra_meta: dict[str, str] | None = None,
        structured_input_shapes: Any = None,
        structured_input_strides: Any = None,
        input_dtypes: Any = None,
        python_id: int = -1,
        python_parent_id: int = -1,
        python_module_id: int = -1,
    ):
        self.id, self.node_id, self.name, self.overload_name, self.trace_name = id, node_id, name, overload_name, trace_name
        self.time_range, self.thread, self.fwd_thread = Interval(start_us, end_us), thread, fwd_thread
        self._start_alone()
        self.input_shapes, self.concrete_inputs, self.kwinputs = input_shapes, concrete_inputs, kwinputs
        self.stack, self.scope, self.use_device = stack, scope, use_device
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.device_type, self.device_index = device_type, device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.is_async, self.is_remote, self.is_legacy, self.sequence_nr, self.flops = is_async, is_remote, is_legacy, sequence_nr, flops
        self.is_user_annotation, self.is_python_function, self.activity_type = is_user_annotation, is_python_function, activity_type
        self.metadata_json, self.event_metadata = metadata_json, extra_meta
        self.flow_id, self.flow_type, self.flow_start = flow_id, flow_type, flow_start
        self.external_id, self.linked_correlation_id = external_id, linked_correlation_id
        self.input_dtypes, self.structured_input_shapes = input_dtypes, structured_input_shapes
        self.structured_input_strides = structured_input_strides
        self.python_id, self.python_parent_id, self.python_module_id = python_id, python_parent_id, python_module_id

    def _start_alone(self) -> None:
        """Without other events above and below it yet, nor shares of their time."""
        self.count = 1
        self.kernels: list[Any] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.self_cpu_percent = self.total_cpu_percent = self.total_device_percent = -1

    @property
    def key(self) -> str:
        """The key of its average: the name."""
        return self.name

    def append_kernel(self, name: str, device: int, duration: int) -> None:
        """Add a kernel that it started. Source: torch.autograd.profiler_util.FunctionEvent.append_kernel."""
        if self.device_type is not DeviceType.CPU:
            raise AssertionError("Expected device_type to be CPU")
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add an event within this one. Source: torch.autograd.profiler_util.FunctionEvent.append_cpu_child."""
        if self.device_type is not DeviceType.CPU or not isinstance(child, FunctionEvent) or child.device_type is not DeviceType.CPU:
            raise AssertionError("Expected both events to be CPU events")
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the event that it is within. Source: torch.autograd.profiler_util.FunctionEvent.set_cpu_parent."""
        if self.device_type is not DeviceType.CPU or not isinstance(parent, FunctionEvent) or parent.device_type is not DeviceType.CPU:
            raise AssertionError("Expected both events to be CPU events")
        self.cpu_parent = parent

    def _own(self, name: str) -> Any:
        if self.is_async or self.device_type is not DeviceType.CPU:
            return 0
        return getattr(self, name) - sum(getattr(child, name) for child in self.cpu_children)

    @property
    def cpu_time_total(self) -> Any:
        """Microseconds, with the events within it."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> Any:
        """Microseconds without the events within it."""
        return self._own("cpu_time_total")

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes made less bytes freed, without the events within it."""
        return int(self._own("cpu_memory_usage"))

    @property
    def self_device_memory_usage(self) -> int:
        """Likewise on a device."""
        return int(self._own("device_memory_usage"))

    @property
    def device_time_total(self) -> Any:
        """Microseconds on a device: of its kernels and those of the events within it."""
        if self.is_async or not self.use_device:
            return 0
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        return sum(kernel.duration for kernel in self.kernels) + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> Any:
        """Microseconds of its own kernels."""
        if self.is_async or not self.use_device:
            return 0
        if self.device_type is DeviceType.CPU:
            return self.device_time_total - sum(child.device_time_total for child in self.cpu_children)
        return self.device_time_total

    cuda_time_total = property(attrgetter("device_time_total"), doc="The older name of ``device_time_total``.")
    self_cuda_time_total = property(attrgetter("self_device_time_total"), doc="The older name of ``self_device_time_total``.")
    self_cuda_memory_usage = property(attrgetter("self_device_memory_usage"), doc="The older name of ``self_device_memory_usage``.")

    def __repr__(self) -> str:
        device = self.use_device
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} device_type={self.device_type} "
            f"node_id={self.node_id} cpu_time={self.cpu_time_str} start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} {device}_time={self.device_time_str} name={self.name} "
            f"thread={self.thread} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage} is_async={self.is_async} is_remote={self.is_remote} "
            f"seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


_SUMMED = (
    "cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total", "cpu_memory_usage", "device_memory_usage",
    "self_cpu_memory_usage", "self_device_memory_usage", "count",
)  # fmt: skip


class FunctionEventAvg(FormattedTimesMixin):
    """Events of one name together: sums, and averages over the calls.

    Source: torch.autograd.profiler_util.FunctionEventAvg.
    Example:
        >>> make = torch.autograd.profiler_util.FunctionEvent
        >>> average = torch.autograd.profiler_util.FunctionEventAvg()
        >>> average += make(id=1, name="aten::mm", thread=1, start_us=0, end_us=5)
        >>> average += make(id=2, name="aten::mm", thread=1, start_us=5, end_us=8)
        >>> average.count, average.cpu_time
        (2, 4.0)
    """

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = self.node_id = 0
        self.is_async = self.is_remote = self.is_legacy = False
        self.is_user_annotation: Any = None
        self.use_device: str | None = None
        self.cpu_time_total = self.device_time_total = self.self_cpu_time_total = self.self_device_time_total = 0
        self.cpu_memory_usage = self.device_memory_usage = self.self_cpu_memory_usage = self.self_device_memory_usage = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: Any = None
        self.scope: int | None = None
        self.cpu_children: Any = None
        self.cpu_parent: Any = None
        self.device_type: Any = DeviceType.CPU
        self.flops: int = 0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event of the same name, or the average of others. Source: torch.autograd.profiler_util.FunctionEventAvg.add."""
        if self.key is None:
            for name in (
                "key node_id is_async is_remote cpu_parent cpu_children overload_name input_shapes stack scope device_type is_legacy "
                "use_device is_user_annotation"
            ).split():
                setattr(self, name, getattr(other, name))
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError("Expected other to be a FunctionEvent or FunctionEventAvg")
        if other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops = (self.flops or 0) + (other.flops or 0)
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f" self_{device}_time={self.self_device_time_total_str} {device}_time={self.device_time_str} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )


class EventList(list[Any]):
    """Events of a profile, or averages of them; printing it gives their table.

    Args:
        args: of ``list``. use_device, profile_memory, with_flops: which columns the table has.
    Source: torch.autograd.profiler_util.EventList.
    Example:
        >>> with torch.autograd.profiler.profile() as prof:
        ...     y = torch.ones(3, 3) @ torch.ones(3, 3)
        >>> averages = prof.key_averages()
        >>> sorted(event.key for event in averages), type(averages).__name__
        (['aten::matmul', 'aten::mm', 'aten::ones'], 'EventList')
    """

    def __init__(self, *args: Any, **kwargs: Any):
        self._use_device = kwargs.pop("use_device", None)
        self._profile_memory = kwargs.pop("profile_memory", False)
        self._with_flops = kwargs.pop("with_flops", False)
        super().__init__(*args, **kwargs)
        self._tree_built = False

    def _build_tree(self) -> None:
        """Find out which event is within which, by their times; nodes of backward passes take the stacks of their calls."""
        self._populate_cpu_children()
        self._set_backward_stacktraces()
        self._tree_built = True

    def _populate_cpu_children(self) -> None:
        plain = [event for event in self if not event.is_async and event.device_type is DeviceType.CPU]
        by_thread = sorted(plain, key=attrgetter("thread", "node_id"))
        for _, events in itertools.groupby(by_thread, key=attrgetter("thread", "node_id")):
            around: list[FunctionEvent] = []
            for event in sorted(events, key=lambda event: (event.time_range.start, -event.time_range.end)):
                while around and (event.time_range.start >= around[-1].time_range.end or event.time_range.end > around[-1].time_range.end):
                    around.pop()
                if around:
                    if event.cpu_parent is not None:
                        raise AssertionError(f"There is already a CPU parent event for {event.key}")
                    around[-1].append_cpu_child(event)
                    event.set_cpu_parent(around[-1])
                around.append(event)

    def _set_backward_stacktraces(self) -> None:
        forward: dict[Any, Any] = {}
        for event in self:
            if event.sequence_nr >= 0 and not _is_backward(event):
                forward.setdefault((event.sequence_nr, event.thread), event.stack)
        for event in self:
            if _is_backward(event):
                event.stack = forward.get((event.sequence_nr, event.fwd_thread), [])

    @property
    def self_cpu_time_total(self) -> Any:
        """Microseconds of all events without those within them."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as a table.

        Args:
            sort_by: attribute by which they are sorted, the largest first (``"self_cpu_time_total"``, ``"count"``, ...); None: as they are.
            row_limit: how many at most; all for -1.
            max_src_column_width, max_name_column_width, max_shapes_column_width: longer text is cut.
            header: a line above it.
            top_level_events_only: leave out events that are within others.
            time_unit: ``"s"``, ``"ms"`` or ``"us"`` for all times; None: for each what reads best.
        Returns:
            The text.
        Raises:
            AttributeError: no such attribute to sort by.
        Source: torch.autograd.profiler_util.EventList.table.
        """
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        options = (self._profile_memory, self._with_flops, top_level_events_only, time_unit)
        return table_of(self, sort_by, row_limit, header, widths, *options)

    def __str__(self) -> str:
        return self.table()

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Averages of the events that have one name.

        Args:
            group_by_input_shapes: only if they have the same shapes of inputs, too.
            group_by_stack_n: only if so many frames of their stacks are the same, too.
            group_by_overload_name: only if they are the same overload, too.
        Returns:
            An ``EventList`` of ``FunctionEventAvg``.
        Source: torch.autograd.profiler_util.EventList.key_averages.
        """
        if not self._tree_built:
            raise AssertionError("Expected tree to be built before calling key_averages")
        averages: dict[Any, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            key: list[Any] = [event.key, event.node_id, event.device_type, event.is_legacy, event.is_user_annotation]
            if group_by_overload_name:
                key.append(event.overload_name)
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n > 0:
                key += event.stack[:group_by_stack_n]
            averages[tuple(key)].add(event)
        found = EventList(averages.values(), use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops)
        for average in found:
            average.stack = (average.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
            if not group_by_overload_name:
                average.overload_name = ""
        return found

    def total_average(self) -> FunctionEventAvg:
        """All events as one, under the key ``"Total"``. Source: torch.autograd.profiler_util.EventList.total_average."""
        total = FunctionEventAvg()
        for event in self:
            total += event
            total.key = None
        total.key = "Total"
        return total

    def supported_export_stacks_metrics(self) -> list[str]:
        """Metrics that stacks may be weighed by. Source: torch.autograd.profiler_util.EventList.supported_export_stacks_metrics."""
        return list(METRICS)

    def export_stacks(self, path: str, metric: str) -> None:
        """Write stacks with times, as tools for flame graphs read them.

        Args:
            path: the file. metric: ``"self_cpu_time_total"``, or one of a device.
        Raises:
            ValueError: another metric.
        Source: torch.autograd.profiler_util.EventList.export_stacks.
        """
        if metric not in METRICS:
            raise ValueError(f"metric should be one of: {list(METRICS)}")
        name = attribute_of(metric)
        blanks = str.maketrans(" ;\t\n", "____")
        with Path(path).open("w", encoding="utf-8") as file:
            for event in self:
                if event.stack:
                    weight = int(getattr(event, name))
                    if weight > 0:
                        file.write(f"{';'.join(entry.translate(blanks) for entry in reversed(event.stack))} {weight}\n")

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as Chrome's trace viewer reads them.

        Args:
            path: the file.
        Source: torch.autograd.profiler_util.EventList.export_chrome_trace.
        """
        events = []
        for event in self:
            name, common = event.trace_name or event.name, {"tid": event.thread, "pid": "CPU functions"}
            begin = event.time_range.start
            events.append({"name": name, "ph": "X", "ts": begin, "dur": event.time_range.elapsed_us(), **common, "args": {}})
        Path(path).write_text(json.dumps(events), encoding="utf-8")


def _is_backward(event: Any) -> bool:
    return event.scope == 1


_format_time, _format_time_share, _format_memory = format_time, format_time_share, format_memory


def _filter_name(name: str) -> bool:
    """Whether an event is left out of what is shown: notes about memory and what a profiler does itself."""
    return name in (MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME, "profiler::_record_function_enter", "profiler::_record_function_exit")


def _rewrite_name(name: str, with_wildcard: bool = False) -> str:
    """The name under which events are averaged: steps of a profile are one."""
    return "ProfilerStep*" if with_wildcard and name.startswith("ProfilerStep#") else name
