"""Execution traces for programs, which name a file, start and stop. The trace itself: ``execution_trace``."""

from __future__ import annotations

import abc
import json
import os
import tempfile
import warnings
import weakref
from typing import Any

from ..core.late import from_above

_registered: weakref.WeakSet[ExecutionTraceObserver] = weakref.WeakSet()  # there is one in a process at a time


class _ITraceObserver(abc.ABC):
    """The interface that ``profile(execution_trace_observer=...)`` uses. Source: torch.profiler.profiler._ITraceObserver."""

    @abc.abstractmethod
    def start(self) -> None:
        """Begin to observe."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop observing."""

    @abc.abstractmethod
    def cleanup(self) -> None:
        """Finish what was observed."""


class ExecutionTraceObserver(_ITraceObserver):
    """Writes each operation that runs, in whatever thread, with its arguments and results to a file of JSON (Chakra's format).

    A process has one at a time. Nodes are those of what runs: where PyTorch calls further kernels within one, and one serves here, there
    is one node. Numbers have all their digits, and infinities are words, so that the file is JSON.

    Source: torch.profiler.ExecutionTraceObserver.
    Example:
        >>> import json, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "trace.json")
        >>> observer = torch.profiler.ExecutionTraceObserver().register_callback(path)
        >>> observer.start()
        >>> y = torch.ones(2, 3).sum()
        >>> observer.stop()
        >>> observer.unregister_callback()
        >>> nodes = json.load(open(path))["nodes"]
        >>> [(node["name"], node["inputs"]["shapes"][0], node["outputs"]["types"]) for node in nodes if node["name"] == "aten::sum"]
        [('aten::sum', [2, 3], ['Tensor(float)'])]
    """

    def __init__(self) -> None:
        self._trace: Any = None
        self._output_file_path: str | None = None
        self.extra_resources_collection = False
        self.resources_dir = ""

    def __del__(self) -> None:
        self.unregister_callback()

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """An observer that writes to a temporary file, if ``ENABLE_PYTORCH_EXECUTION_TRACE=1`` asks for one.

        Returns: the observer, registered, or None. With ``ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS=1`` it has a folder for more.
        Source: torch.profiler.ExecutionTraceObserver.build_execution_trace_obs_from_env.
        """
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        descriptor, path = tempfile.mkstemp(suffix=".et.json")
        os.close(descriptor)
        observer = ExecutionTraceObserver().register_callback(path)
        observer.set_extra_resource_collection(os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1")
        return observer

    def set_extra_resource_collection(self, val: bool) -> None:
        """Have a folder beside the file for what belongs to it; nothing is put there, since no kernels are generated as files.

        Source: torch.profiler.ExecutionTraceObserver.set_extra_resource_collection.
        """
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """Name the file; it is opened at once.

        Args:
            output_file_path: compressed if it ends in ``.gz``. What is registered already keeps its file.
        Returns: itself.
        Warns:
            UserWarning: another observer is registered, or the file cannot be opened; this one is not, then.
        Source: torch.profiler.ExecutionTraceObserver.register_callback.
        """
        if self._trace is not None:
            return self
        if _registered:
            warnings.warn("an execution trace is registered already: this observer writes nothing", UserWarning, stacklevel=2)
            return self
        self._output_file_path = output_file_path
        try:
            self._trace = from_above("profiler.execution_trace").ExecutionTrace(os.fspath(output_file_path))
        except OSError as error:
            warnings.warn(f"Failed to open output file: {output_file_path} ({error.strerror})", UserWarning, stacklevel=2)
        else:
            _registered.add(self)
        return self

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """The folder that belongs to a trace's file.

        Args:
            create_dir: make it.
        Returns: its path; None if it is not there.
        Source: torch.profiler.ExecutionTraceObserver.get_resources_dir_for_et_path.
        """
        folder = f"{os.path.splitext(trace_path)[0]}_resources"
        if create_dir:
            try:
                os.makedirs(folder, exist_ok=True)
            except OSError as error:
                warnings.warn(f"{folder} cannot be made: {error.strerror}", UserWarning, stacklevel=2)
        return folder if os.path.isdir(folder) else None

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """The folder that belongs to the file, where one was asked for. Source: torch.profiler.ExecutionTraceObserver.get_resources_dir."""
        if not self.extra_resources_collection or self._output_file_path is None:
            return None
        self.resources_dir = self.get_resources_dir_for_et_path(self._output_file_path, can_create) or ""
        return self.resources_dir or None

    def unregister_callback(self) -> None:
        """Stop, and finish the file. Source: torch.profiler.ExecutionTraceObserver.unregister_callback."""
        trace, self._trace = self._trace, None
        if trace is not None:
            _registered.discard(self)
            trace.finish()

    @property
    def is_registered(self) -> bool:
        """Whether it has a file. Source: torch.profiler.ExecutionTraceObserver.is_registered."""
        return self._trace is not None

    def is_running(self) -> bool:
        """Whether it writes. Source: torch.profiler.ExecutionTraceObserver.is_running."""
        return self._trace is not None and self._trace.is_running

    def start(self) -> None:
        """Write what runs from now on; nothing happens without a file. Source: torch.profiler.ExecutionTraceObserver.start."""
        if self._trace is not None and not self._trace.is_running:
            self._trace.start()
            self._record_pg_config()

    def stop(self) -> None:
        """Stop writing; it may be started again. Source: torch.profiler.ExecutionTraceObserver.stop."""
        if self._trace is not None:
            self._trace.stop()

    def cleanup(self) -> None:
        """Stop, and finish the file. Source: torch.profiler.ExecutionTraceObserver.cleanup."""
        self.unregister_callback()

    def get_output_file_path(self) -> str | None:
        """The file, finished or not; None before one was named. Source: torch.profiler.ExecutionTraceObserver.get_output_file_path."""
        return self._output_file_path

    def _record_pg_config(self) -> None:
        """Write which groups of processes there are."""
        distributed = from_above("distributed")
        if distributed.is_available() and distributed.is_initialized():
            ranks = distributed.get_process_group_ranks(distributed.group.WORLD)
            groups = [
                {
                    "pg_name": "0",
                    "pg_desc": "default_pg",
                    "backend_config": distributed.get_backend(),
                    "ranks": ranks,
                    "group_size": len(ranks),
                }
            ]
            with from_above("autograd.profiler").record_function("## process_group:init ##", json.dumps(groups)):
                pass
