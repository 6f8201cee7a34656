"""Profiles of what a program spends its time on. Source: torch.autograd.profiler."""

from __future__ import annotations

import contextlib
import uuid
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from ..core.late import from_above
from ..core.profiling import RANGE, Recorder, is_profiled, profiled, recording
from .profiler_trace import function_events, write_trace
from .profiler_util import EventList, FunctionEvent, FunctionEventAvg, MemRecordsAcc

__all__ = [
    "EnforceUnique", "EventList", "FunctionEvent", "KinetoStepTracker", "MemRecordsAcc", "emit_itt", "emit_nvtx", "load_nvprof",
    "parse_nvprof_trace", "profile", "record_function",
]  # fmt: skip


class record_function(contextlib.ContextDecorator):
    """Give a range of the program a name in the profile that is taken; also a decorator.

    Args:
        name: the label.
        args: more text beside it, in traces.
    Source: torch.profiler.record_function.
    Example:
        >>> with torch.autograd.profiler.profile() as prof, record_function("first layer"):
        ...     y = torch.ones(2) + 1
        >>> [event.name for event in prof.function_events]
        ['first layer', 'aten::ones', 'aten::add']
    """

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self._ranges: list[profiled] = []

    def __enter__(self) -> record_function:
        if not isinstance(self.name, str):
            raise RuntimeError(f"record_function: expected a name, a str, got {type(self.name).__name__}")
        if self.args is not None and not isinstance(self.args, str):
            raise RuntimeError(f"record_function: expected args, a str or None, got {type(self.args).__name__}")
        inside = profiled(self.name, RANGE, self.args)
        inside.__enter__()
        self._ranges.append(inside)
        return self

    def __exit__(self, *error: object) -> None:
        self._ranges.pop().__exit__(*error)

    def _recreate_cm(self) -> record_function:
        return type(self)(self.name, self.args)

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """End the range when a future has its result, rather than with the block.

        Args:
            fut: the future.
        Returns:
            One with the same result.
        """
        if not self._ranges:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        inside = self._ranges.pop()
        self._ranges.append(profiled(self.name))  # which was not entered, so that the block's end ends nothing

        def finish(done: Any) -> Any:
            inside.__exit__()
            return done.value()

        return fut.then(finish)


class profile:
    """Note all operations and nodes of backward passes that run in a block, with their times.

    Ranges are those of this thread; ``experimental_config=_ExperimentalConfig(profile_all_threads=True)`` has all threads'. Operations have
    the names of PyTorch's kernels; what is one kernel here and has no counterpart is ``flambeau::...``. Inside its range an operation runs
    as it does without a profile; around it calls cost a few microseconds more.

    Args:
        enabled: False: do nothing.
        use_cuda, use_device: times on a device are not measured: a warning, and the CPU's times alone.
        record_shapes: note the shapes of inputs, and values of those that are no tensors.
        with_flops: count the floating-point operations of products and convolutions.
        profile_memory: note the memory of results, when they are made and when they are freed; what a kernel has for itself is not seen.
        with_stack: note the program's frames of each operation.
        with_modules: note the modules of scripted models around each operation, which traces have (``Module Hierarchy``); others are not
            noted, as in PyTorch. Of a model from an archive it is the outermost.
        use_kineto: accepted: there is one way to record. use_cpu: True: there are no events of devices.
        experimental_config: an ``_ExperimentalConfig``.
        acc_events: keep the events of earlier blocks.
        custom_trace_id_callback: gives the name of a trace.
        post_processing_timeout_s: seconds that events may take to be made; they are always all made.
        activity_filters: None; others are not supported.
    Raises:
        RuntimeError: a block within a block of the same profile. AssertionError: without ``use_cpu``.
        ValueError: a negative ``post_processing_timeout_s``. NotImplementedError: ``activity_filters``.
    Source: torch.autograd.profiler.profile.
    Example:
        >>> with torch.autograd.profiler.profile(record_shapes=True) as prof:
        ...     y = torch.mm(torch.ones(2, 3), torch.ones(3, 4))
        >>> [(event.name, event.input_shapes) for event in prof.function_events][-1]
        ('aten::mm', [[2, 3], [3, 4]])
        >>> print(prof.key_averages().table(sort_by="cpu_time_total").splitlines()[1].split()[:3])
        ['Name', 'Self', 'CPU']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ):
        self.enabled = enabled
        if not enabled:
            return
        self.use_cuda = use_cuda
        if use_cuda:
            text = "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead."
            warnings.warn(text, FutureWarning, stacklevel=2)
        self.use_device = _device_to_use("cuda" if use_cuda else use_device)
        if not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        if not use_cpu:
            raise AssertionError("No activities specified for the profiler: use_cpu is False, and events of devices are not recorded")
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")
        if activity_filters:
            raise NotImplementedError("torch.autograd.profiler.profile: activity_filters is not supported")
        self.use_cpu, self.with_modules, self.acc_events = use_cpu, with_modules, acc_events
        self.record_shapes, self.with_flops, self.profile_memory = record_shapes or with_flops, with_flops, profile_memory
        self.with_stack, self.experimental_config = with_stack, experimental_config
        self.custom_trace_id_callback, self.trace_id = custom_trace_id_callback, ""
        self.entered = False
        self._recorder: Recorder | None = None
        self._recording: recording | None = None
        self._modules: Any = None
        self._function_events: EventList | None = None
        self._old_function_events: EventList | None = None

    def default_trace_id(self) -> str:
        """A new name for a trace."""
        return uuid.uuid4().hex.upper()

    def create_trace_id(self) -> str:
        """The name of the trace that begins."""
        return self.custom_trace_id_callback() if self.custom_trace_id_callback is not None else self.default_trace_id()

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._start_trace()
        return self

    def _start_trace(self) -> None:
        self.entered = True
        if self.acc_events and self._recorder is not None:
            self._old_function_events = self.function_events
        self._function_events, self.trace_id = None, self.create_trace_id()
        wanted = self.experimental_config
        overloads = bool(getattr(wanted, "capture_overload_names", False))
        self._recorder = Recorder(self.record_shapes, self.profile_memory, self.with_stack, self.with_flops, overloads)
        self._modules = from_above("jit._profiled").ModuleNames(self._recorder) if self.with_modules else None
        self._recording = recording(self._recorder, bool(getattr(wanted, "profile_all_threads", False)))
        self._recording.__enter__()

    def __exit__(self, *exc_info: object) -> None:
        if self.enabled and self._recording is not None:
            self._recording.__exit__()
            self._recording = None
            if self._modules is not None:
                self._modules.end()

    @property
    def function_events(self) -> EventList:
        """The events, those within others too, in the order in which they began.

        Raises:
            RuntimeError: a profile with ``trace_only``.
        """
        if getattr(self.experimental_config, "trace_only", False):
            raise RuntimeError("events() is not available when trace_only=True in ExperimentalConfig. Use export_chrome_trace() instead.")
        if self._function_events is None and self._recorder is not None and self._recorder.ended:
            events = function_events(self._recorder)
            if self._old_function_events is not None:
                events = [*self._old_function_events, *events]
                for event in events:
                    event.cpu_children, event.cpu_parent = [], None
            self._function_events = EventList(
                events, use_device=self.use_device, profile_memory=self.profile_memory, with_flops=self.with_flops
            )
            self._function_events._build_tree()
        if self._function_events is not None:
            return self._function_events
        return EventList()

    def _finished(self) -> EventList:
        if not self.enabled:
            raise AttributeError("a profile with enabled=False has no events")
        events = self.function_events
        events._tree_built = True
        return events

    def __repr__(self) -> str:
        if not self.enabled or self._recorder is None or not self._recorder.ended:
            return "<unfinished torch.autograd.profile>"
        return repr(self.function_events)

    def __str__(self) -> str:
        if not self.enabled or self._recorder is None or not self._recorder.ended:
            return "<unfinished torch.autograd.profile>"
        return self.function_events.table()

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The events as a table; see ``EventList.table``. Source: torch.autograd.profiler.profile.table."""
        widths = max_src_column_width, max_name_column_width, max_shapes_column_width
        return self._finished().table(sort_by, row_limit, *widths, header, top_level_events_only)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Averages of events of one name; see ``EventList.key_averages``. Source: torch.autograd.profiler.profile.key_averages."""
        return self._finished().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """All events as one. Source: torch.autograd.profiler.profile.total_average."""
        return self._finished().total_average()

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None, use_python_export: bool = False) -> None:
        """Write a trace, as Chrome's viewer (chrome://tracing), Perfetto and TensorBoard's plugin read it.

        Args:
            path: the file; compressed if it ends in ``.gz``.
            metadata: more entries of it.
            use_python_export: accepted: it is written by Python anyway.
        Raises:
            RuntimeError: nothing was recorded.
        Source: torch.autograd.profiler.profile.export_chrome_trace.
        """
        if self._recorder is None or not self._recorder.ended:
            raise RuntimeError("export_chrome_trace: nothing was recorded; leave the profile's block first")
        noted = {name: 1 for name in ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules") if getattr(self, name)}
        write_trace(self._recorder, path, self.trace_id, noted | (metadata or {}))

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with times for flame graphs; see ``EventList.export_stacks``.

        Args:
            path: the file. metric: what they are weighed by.
        Raises:
            AssertionError: a profile without ``with_stack``.
        Source: torch.autograd.profiler.profile.export_stacks.
        """
        if not self.enabled or not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self._finished().export_stacks(path, metric)

    def toggle_collection_dynamic(self, enabled: bool, activities: Any) -> None:
        """Pause, or go on: what begins meanwhile is not noted.

        Args:
            enabled: False: pause. activities: kinds of work; only that of the CPU is noted, others change nothing.
        Source: torch.autograd.profiler.profile.toggle_collection_dynamic.
        """
        if self._recorder is not None and any(getattr(activity, "name", None) == "CPU" for activity in activities):
            self._recorder.keeps = enabled

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        total: float = self._finished().self_cpu_time_total
        return total


def _device_to_use(name: str | None) -> str | None:
    """None, after a warning where a device's times were asked for."""
    if name is None or name == "cpu":
        return None
    if name not in ("cuda", "xpu", "mtia", "hpu", "privateuseone"):
        warnings.warn(f"The {name} is not a valid device option.", UserWarning, stacklevel=3)
    elif name == "cuda" and from_above("cuda").is_available():
        warnings.warn("times on CUDA devices are not measured, only those of the CPU", UserWarning, stacklevel=3)
    else:
        warnings.warn(f"{name.upper()} is not available, disabling {name.upper()} profiling", UserWarning, stacklevel=3)
    return None


class _emitting:
    """A block whose operations are shown to a profiler of a vendor's."""

    message = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        self.enabled, self.record_shapes, self.entered = enabled, record_shapes, False

    def __enter__(self) -> Any:
        if self.enabled:
            raise self._error()
        return None

    def _error(self) -> Exception:
        return RuntimeError(self.message)

    def __exit__(self, *exc_info: object) -> None:
        return None


class emit_nvtx(_emitting):
    """Show operations to NVIDIA's profilers, which needs CUDA.

    Args:
        enabled: False: do nothing. record_shapes: add the shapes of inputs.
    Raises:
        AssertionError: when the block begins, as in a build of PyTorch without CUDA.
    Source: torch.autograd.profiler.emit_nvtx.
    Example:
        >>> with torch.autograd.profiler.emit_nvtx(enabled=False):
        ...     y = torch.ones(2)
    """

    def _error(self) -> Exception:
        return AssertionError("Torch not compiled with CUDA enabled: emit_nvtx needs NVIDIA's NVTX")


class emit_itt(_emitting):
    """Show operations to Intel's profilers, which needs their ITT.

    Args:
        enabled: False: do nothing. record_shapes: add the shapes of inputs.
    Raises:
        RuntimeError: when the block begins, as in a build of PyTorch without ITT.
    Source: torch.autograd.profiler.emit_itt.
    Example:
        >>> with torch.autograd.profiler.emit_itt(enabled=False):
        ...     y = torch.ones(2)
    """

    message = "ITT functions not installed. Are you sure you have a ITT build?"


def load_nvprof(path: str) -> NoReturn:
    """Not supported: the events of a file of NVIDIA's old profiler.

    Args:
        path: the file.
    Raises:
        NotImplementedError: always.
    Source: torch.autograd.profiler.load_nvprof.
    Example:
        >>> torch.autograd.profiler.load_nvprof("trace.prof")
        Traceback (most recent call last):
        NotImplementedError: load_nvprof: files of nvprof are written with CUDA only, which emit_nvtx needs
    """
    raise NotImplementedError("load_nvprof: files of nvprof are written with CUDA only, which emit_nvtx needs")


def parse_nvprof_trace(path: str) -> NoReturn:
    """Not supported; see ``load_nvprof``.

    Args:
        path: the file.
    Raises:
        NotImplementedError: always.
    Source: torch.autograd.profiler.parse_nvprof_trace.
    Example:
        >>> torch.autograd.profiler.parse_nvprof_trace("trace.prof")
        Traceback (most recent call last):
        NotImplementedError: load_nvprof: files of nvprof are written with CUDA only, which emit_nvtx needs
    """
    load_nvprof(path)


class EnforceUnique:
    """Refuses what was seen before.

    Source: torch.autograd.profiler.EnforceUnique.
    Example:
        >>> unique = torch.autograd.profiler.EnforceUnique()
        >>> unique.see("a", 1)
        >>> unique.see("a", 1)
        Traceback (most recent call last):
        RuntimeError: duplicate key: ('a', 1)
    """

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Note a key. Source: torch.autograd.profiler.EnforceUnique.see."""
        if key in self.seen:
            raise RuntimeError(f"duplicate key: {key}")
        self.seen.add(key)


class KinetoStepTracker:
    """Counts steps of a program that several counters tell of: the greatest of them.

    Source: torch.autograd.profiler.KinetoStepTracker.
    Example:
        >>> tracker = torch.autograd.profiler.KinetoStepTracker
        >>> tracker.init_step_count("reader")
        >>> tracker.increment_step("reader") == tracker.current_step()
        True
        >>> tracker.erase_step_count("reader")
        True
    """

    _current_step = 0
    _step_dict: dict[str, int] = {}

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Begin a counter. Source: torch.autograd.profiler.KinetoStepTracker.init_step_count."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forget a counter; whether there was one. Source: torch.autograd.profiler.KinetoStepTracker.erase_step_count."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count one step. Source: torch.autograd.profiler.KinetoStepTracker.increment_step."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The greatest of the counters. Source: torch.autograd.profiler.KinetoStepTracker.current_step."""
        return cls._current_step


def __getattr__(name: str) -> Any:
    if name == "_is_profiler_enabled":  # which programs read as a variable
        return is_profiled()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
