"""Profiles by schedules: waiting, warming up, recording, and a handler for what was recorded. Source: torch.profiler.profiler."""

from __future__ import annotations

import enum
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..autograd import profiler as prof
from ..autograd.profiler_util import EventList
from ..core.late import from_above
from .observer import ExecutionTraceObserver, _ITraceObserver as _ITraceObserver

__all__ = [
    "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip

PROFILER_STEP_NAME = "ProfilerStep"


class ProfilerActivity(enum.Enum):
    """Kinds of work that a profiler records, by device.

    Source: torch.profiler.ProfilerActivity.
    Example:
        >>> torch.profiler.ProfilerActivity.CPU.name
        'CPU'
    """

    CPU = 0
    XPU = 1
    MTIA = 4
    CUDA = 2
    HPU = 3
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


class _ExperimentalConfig:
    """Further options of a profile.

    Args:
        profile_all_threads: note what all threads do. capture_overload_names: note which overload of a kernel a call is.
        verbose: accepted: a trace has whatever was noted. trace_only: there are no events, only traces.
        profiler_metrics, profiler_measure_per_kernel, enable_cuda_sync_events, disable_external_correlation, adjust_timestamps: of events
            of devices, which are not recorded.
        performance_events, adjust_profiler_step, record_python_gc_info, expose_kineto_event_metadata, custom_profiler_config: not
            supported.
    Raises:
        NotImplementedError: one of the last five is asked for.
    Source: torch._C._profiler._ExperimentalConfig.
    """

    def __init__(
        self,
        profiler_metrics: Sequence[str] = (),
        profiler_measure_per_kernel: bool = False,
        verbose: bool = False,
        performance_events: Sequence[str] = (),
        enable_cuda_sync_events: bool = False,
        adjust_profiler_step: bool = False,
        disable_external_correlation: bool = False,
        profile_all_threads: bool = False,
        capture_overload_names: bool = False,
        record_python_gc_info: bool = False,
        expose_kineto_event_metadata: bool = False,
        custom_profiler_config: str = "",
        adjust_timestamps: bool = False,
        trace_only: bool = False,
    ):
        asked = {
            "performance_events": performance_events,
            "adjust_profiler_step": adjust_profiler_step,
            "record_python_gc_info": record_python_gc_info,
            "expose_kineto_event_metadata": expose_kineto_event_metadata,
            "custom_profiler_config": custom_profiler_config,
        }
        for name, value in asked.items():
            if value:
                raise NotImplementedError(f"_ExperimentalConfig: {name} is not supported")
        self.profile_all_threads, self.capture_overload_names, self.trace_only = profile_all_threads, capture_overload_names, trace_only
        self.custom_profiler_config = custom_profiler_config


def kineto_available() -> bool:
    """Whether operations can be recorded: always.

    Returns: True.
    Source: torch.profiler.kineto_available.
    Example:
        >>> torch.profiler.kineto_available()
        True
    """
    return True


def supported_activities() -> set[ProfilerActivity]:
    """The kinds of work that can be recorded: that of the CPU.

    Returns: the set of it.
    Source: torch.profiler.supported_activities.
    Example:
        >>> torch.profiler.supported_activities()
        {<ProfilerActivity.CPU: 0>}
    """
    return {ProfilerActivity.CPU}


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


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Record every step."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """A function for ``on_trace_ready`` that writes each trace where TensorBoard's plugin looks for it.

    Args:
        dir_name: the folder, made if need be. worker_name: begins the files' names; host and process when None.
        use_gzip: compress them. use_python_export: accepted: they are written by Python anyway.
    Returns: the function.
    Raises:
        RuntimeError: the folder cannot be made, when the first trace is written.
    Source: torch.profiler.tensorboard_trace_handler.
    Example:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with torch.profiler.profile(on_trace_ready=torch.profiler.tensorboard_trace_handler(folder, "worker")):
        ...         y = torch.ones(2) + 1
        ...     [name.split(".")[0] + name[-14:] for name in os.listdir(folder)]
        ['worker.pt.trace.json']
    """

    def write(profiler: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        profiler.export_chrome_trace(os.path.join(dir_name, name))

    return write


class _KinetoProfile:
    """A profile that is started and stopped by hand; ``profile`` adds steps and schedules.

    Args:
        activities: kinds of work to record; that of the CPU is. None: all that can be.
        record_shapes, profile_memory, with_stack, with_flops, with_modules: see ``autograd.profiler.profile``.
        experimental_config: an ``_ExperimentalConfig``.
        execution_trace_observer: an ``ExecutionTraceObserver``, which writes while this records; None: one that the environment asks for.
        acc_events: keep the events of earlier cycles.
        custom_trace_id_callback: gives the name of a trace. post_processing_timeout_s: see ``autograd.profiler.profile``.
    Raises:
        AssertionError: no activity. NotImplementedError: an activity with names of events.
    Source: torch.profiler._KinetoProfile.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ):
        asked: list[Any] = list(supported_activities() if activities is None else activities)
        if any(isinstance(each, dict) for each in asked):
            raise NotImplementedError("torch.profiler.profile: events of an activity by their names are not supported; give it alone")
        for place, each in enumerate(asked):
            if each in asked[:place]:
                raise ValueError(f"Activity {each} specified more than once")
        self.activities = {each for each in asked if isinstance(each, ProfilerActivity)}
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        if execution_trace_observer is None:
            execution_trace_observer = ExecutionTraceObserver.build_execution_trace_obs_from_env()
        self.execution_trace_observer = execution_trace_observer
        self.record_shapes, self.with_flops, self.profile_memory = record_shapes, with_flops, profile_memory
        self.with_stack, self.with_modules, self.experimental_config = with_stack, with_modules, experimental_config
        self.acc_events, self.custom_trace_id_callback = acc_events, custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.profiler: prof.profile | None = None
        self.use_device = next((kind.name.lower() for kind in self.activities if kind is not ProfilerActivity.CPU), None)
        self.preset_metadata: dict[str, str] = {}
        self._metadata: dict[str, str] = {}

    def start(self) -> None:
        """Begin to record. Source: torch.profiler._KinetoProfile.start."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """End it. Source: torch.profiler._KinetoProfile.stop."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Load what recording needs. Source: torch.profiler._KinetoProfile.prepare_trace."""
        from_above("aten.event_names").prepare()

    def start_trace(self) -> None:
        """Begin a new trace. Source: torch.profiler._KinetoProfile.start_trace."""
        if self.profiler is not None:
            self.profiler.__exit__(None, None, None)  # if it was not stopped
        if self.profiler is None or not self.acc_events:
            self.profiler = prof.profile(
                use_cpu=ProfilerActivity.CPU in self.activities,
                use_kineto=True,
                use_device=self.use_device,
                record_shapes=self.record_shapes,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_modules=self.with_modules,
                experimental_config=self.experimental_config,
                acc_events=self.acc_events,
                custom_trace_id_callback=self.custom_trace_id_callback,
                post_processing_timeout_s=self.post_processing_timeout_s,
            )
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()
        self.profiler._start_trace()
        self._metadata = dict(self.preset_metadata)

    def stop_trace(self) -> None:
        """End the trace. Source: torch.profiler._KinetoProfile.stop_trace."""
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()
        self._profiler("stopping trace").__exit__(None, None, None)

    def _profiler(self, doing: str) -> prof.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {doing}")
        return self.profiler

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write the trace for Chrome's viewer; see ``autograd.profiler.profile``.

        Args:
            path: the file; compressed if it ends in ``.gz``. use_python_export: accepted: it is written by Python anyway.
        Source: torch.profiler._KinetoProfile.export_chrome_trace.
        """
        found = {name: json.loads(value) for name, value in self._metadata.items()}
        self._profiler("exporting chrome trace").export_chrome_trace(path, found)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with times for flame graphs. Source: torch.profiler._KinetoProfile.export_stacks."""
        self._profiler("exporting stacks").export_stacks(path, metric)

    def _memory_profile(self) -> Any:
        """Categories and events of the memory.

        Raises:
            ValueError: the profile has not noted all that they need.
        """
        missing = [name for name in ("record_shapes", "profile_memory", "with_stack") if not getattr(self, name)]
        if missing:
            raise ValueError(f"{', '.join(f'{name}=True' for name in missing)} required for memory profiling.")
        recorder = self._profiler("memory profiling")._recorder
        if recorder is None or not recorder.ended:
            raise AssertionError("Profiler must be stopped before memory profiling")
        return from_above("profiler._memory_profiler").MemoryProfile(recorder)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write how much memory parameters, gradients, activations, ... have over time.

        Results of operations are seen when they are made and when they are freed, and what is older when an operation reads it; what a
        kernel has for itself is not. Deprecated in PyTorch.

        Args:
            path: ends in ``.html`` (a chart; it needs no other library, PyTorch's needs matplotlib), ``.json`` or ``.json.gz`` (times and
                bytes by category), or ``.raw.json.gz`` (each event).
            device: its memory; None: the CPU's, or the first CUDA device's where there is one. Memory of CUDA devices is not noted.
        Warns:
            FutureWarning: always, as in PyTorch.
        Raises:
            ValueError: a profile without ``record_shapes``, ``profile_memory`` and ``with_stack``.
        Source: torch.profiler._KinetoProfile.export_memory_timeline.
        Example:
            >>> import json, os, tempfile, warnings
            >>> path = os.path.join(tempfile.mkdtemp(), "memory.json")
            >>> with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
            ...     y = torch.ones(256)
            >>> with warnings.catch_warnings():
            ...     warnings.simplefilter("ignore")
            ...     prof.export_memory_timeline(path, device="cpu")
            >>> times, sizes = json.load(open(path))
            >>> sizes[-1][-1]  # of no category, since nothing is learned
            1024
        """
        text = "`export_memory_timeline` is deprecated and will be removed in a future version of PyTorch"
        warnings.warn(text, FutureWarning, stacklevel=2)
        if device is None:
            device = "cuda:0" if from_above("cuda").is_available() else "cpu"
        timeline = from_above("profiler._memory_profiler").MemoryProfileTimeline(self._memory_profile())
        if path.endswith(".html"):
            timeline.export_memory_timeline_html(path, device)
        elif path.endswith("raw.json.gz"):
            timeline.export_memory_timeline_raw(path, device)
        else:
            timeline.export_memory_timeline(path, device)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Pause, or go on; see ``autograd.profiler.profile``. Nothing happens before the profile begins.

        Args:
            enable: False: pause. activities: kinds of work.
        Source: torch.profiler._KinetoProfile.toggle_collection_dynamic.
        """
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Averages of events of one name; see ``EventList.key_averages``. Source: torch.profiler._KinetoProfile.key_averages."""
        return self._profiler("getting key averages").key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def events(self) -> EventList:
        """All events. Source: torch.profiler._KinetoProfile.events."""
        return self._profiler("accessing events").function_events

    def add_metadata(self, key: str, value: str) -> None:
        """Add text to the trace. Source: torch.profiler._KinetoProfile.add_metadata."""
        self._metadata[key] = json.dumps(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value that is JSON to the trace. Source: torch.profiler._KinetoProfile.add_metadata_json."""
        self._metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Add a value that is JSON to each trace from now on. Source: torch.profiler._KinetoProfile.preset_metadata_json."""
        self.preset_metadata[key] = value

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Set what gives the names of traces. Source: torch.profiler._KinetoProfile.set_custom_trace_id_callback."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The name of the trace. Source: torch.profiler._KinetoProfile.get_trace_id."""
        return None if self.profiler is None else self.profiler.trace_id


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile(_KinetoProfile):
    """Record the operations of some steps of a program, and give what was recorded to a function.

    Args:
        activities: kinds of work to record; that of the CPU is. None: all that can be.
        schedule: from a step's number to the action; None: all is recorded.
        on_trace_ready: called with the profile when a cycle, or the block, ends.
        record_shapes, profile_memory, with_stack, with_flops, with_modules: see ``autograd.profiler.profile``.
        experimental_config: an ``_ExperimentalConfig``.
        execution_trace_observer: an ``ExecutionTraceObserver``, which writes while this records; None: one that the environment asks for.
        acc_events: keep the events of earlier cycles.
        use_cuda: an older word for CUDA among ``activities``.
        custom_trace_id_callback: gives the name of a trace. post_processing_timeout_s: see ``autograd.profiler.profile``.
    Attributes:
        step_num: the number of the step. current_action: what is done in it.
    Raises:
        AssertionError: no activity; that of the CPU is not among them, when recording begins.
        NotImplementedError: an activity with names of events. ValueError: a schedule of ``DEVICE_STOPPED``.
    Source: torch.profiler.profile.
    Example:
        >>> seen = []
        >>> steps = torch.profiler.schedule(wait=1, warmup=1, active=2)
        >>> with torch.profiler.profile(schedule=steps, on_trace_ready=lambda p: seen.append(len(p.events()))) as prof:
        ...     for _ in range(4):
        ...         y = torch.ones(2)
        ...         prof.step()
        >>> seen  # a range for each of the two steps, and the operation in it
        [4]
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ):
        kinds: Any = supported_activities() if activities is None else activities
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
            kinds = {*kinds, ProfilerActivity.CUDA} if use_cuda else {*kinds} - {ProfilerActivity.CUDA}
        super().__init__(
            activities=kinds,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.schedule = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self._scheduled()
        self.step_rec_fn: prof.record_function | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """Begin with the first step. Source: torch.profiler.profile.start."""
        self._go(ProfilerAction.NONE, self.current_action)
        self._open_step()

    def stop(self) -> None:
        """End it; what was recorded is ready. Source: torch.profiler.profile.stop."""
        self._close_step()
        self._go(self.current_action, None)

    def step(self) -> None:
        """Say that the next step begins. Source: torch.profiler.profile.step."""
        self._close_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self._scheduled()
        self._go(before, self.current_action)
        self._open_step()

    def _scheduled(self) -> ProfilerAction:
        action = self.schedule(self.step_num)
        if action is ProfilerAction.DEVICE_STOPPED:
            raise ValueError("ProfilerAction.DEVICE_STOPPED is set by the profiler itself and must not be returned by a schedule")
        return action

    def _open_step(self) -> None:
        if self.record_steps and self.current_action in _RECORDING:
            self.step_rec_fn = prof.record_function(f"{PROFILER_STEP_NAME}#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _close_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _go(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """Do what leads from one action to the next; ``after`` is None at the end."""
        starts = after in _RECORDING
        if before in _RECORDING:
            if before is ProfilerAction.RECORD and starts:
                return
            if before is ProfilerAction.RECORD and after is not None:
                warnings.warn(f"Incorrect schedule: RECORD followed by {after.name}", UserWarning, stacklevel=3)
            self.stop_trace()
            if before is ProfilerAction.RECORD_AND_SAVE or after is None:
                self._trace_ready()
        elif before is ProfilerAction.WARMUP and after is ProfilerAction.NONE:
            warnings.warn("Incorrect schedule: WARMUP followed by NONE", UserWarning, stacklevel=3)
        if after is ProfilerAction.WARMUP:
            self.prepare_trace()
        elif starts:
            self.start_trace()

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)
