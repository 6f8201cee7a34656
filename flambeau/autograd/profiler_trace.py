"""Notes of a recorder as events, and as a trace for Chrome's viewer."""

from __future__ import annotations

import bisect
import gzip
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.late import from_above
from ..core.profiling import EVALUATION, NODE, OPERATION, RANGE, SCRIPT, Range, Recorder
from .profiler_util import FunctionEvent, _rewrite_name

_CATEGORIES = {OPERATION: "cpu_op", EVALUATION: "cpu_op", NODE: "cpu_op", SCRIPT: "cpu_op", RANGE: "user_annotation"}


def function_events(recorder: Recorder) -> list[FunctionEvent]:
    """A recorder's ranges as events, with times in microseconds from its start."""
    memory = _Memory(recorder)
    facts_of = from_above("aten.event_arguments").facts_of
    return [_event(number, opened, recorder, memory, facts_of(opened.inputs)) for number, opened in enumerate(recorder.ranges, 1)]


def _event(number: int, opened: Range, recorder: Recorder, memory: _Memory, facts: Any) -> FunctionEvent:
    return FunctionEvent(
        id=number,
        name=_rewrite_name(opened.name, with_wildcard=True),
        trace_name=opened.name,
        overload_name=opened.overload,
        thread=opened.thread,
        start_us=(opened.start - recorder.started) / 1000,
        end_us=(opened.end - recorder.started) / 1000,
        fwd_thread=opened.forward_thread,
        input_shapes=[[] if shape and isinstance(shape[0], list) else shape for shape in facts.shapes],
        structured_input_shapes=facts.shapes,
        structured_input_strides=facts.strides,
        input_dtypes=facts.dtypes,
        external_id=number,
        concrete_inputs=facts.values,
        kwinputs={},
        stack=opened.stack,
        scope=0 if opened.scope is EVALUATION else opened.scope,
        cpu_memory_usage=memory.within(opened),
        sequence_nr=opened.sequence,
        flops=opened.flops,
        is_user_annotation=opened.scope is RANGE,
        activity_type=_CATEGORIES[opened.scope],
    )


class _Memory:
    """Sums of what was made and freed, by thread and time."""

    def __init__(self, recorder: Recorder):
        self._times: dict[int, list[int]] = {}
        self._sums: dict[int, list[int]] = {}
        for time, size, thread, _ in sorted(recorder.memory):
            self._times.setdefault(thread, []).append(time)
            sums = self._sums.setdefault(thread, [0])
            sums.append(sums[-1] + size)

    def within(self, opened: Range) -> int:
        """Bytes made less bytes freed in a range."""
        times = self._times.get(opened.thread)
        if times is None:
            return 0
        sums = self._sums[opened.thread]
        return sums[bisect.bisect_right(times, opened.end)] - sums[bisect.bisect_left(times, opened.start)]


# -- traces -------------------------------------------------------------------------------------------------------------------------------
def write_trace(recorder: Recorder, path: str, trace_id: str, metadata: dict[str, Any]) -> None:
    """Write a trace in Chrome's format.

    Args:
        metadata: entries beside the events.
    """
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "trace_id": trace_id,
        **metadata,
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": recorder.offset,  # added to an event's time, it is that of the day
        "traceEvents": list(_entries(recorder)),
        "traceName": str(path),
    }
    write_json(path, trace)


def write_json(path: str, value: Any) -> None:
    """Write a value as JSON, compressed if the file's name ends in ``.gz``."""
    text = json.dumps(value)
    if str(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        Path(path).write_text(text, encoding="utf-8")


def _entries(recorder: Recorder) -> Iterator[dict[str, Any]]:
    process = os.getpid()
    names = {"process_name": {"name": "python"}, "process_labels": {"labels": "CPU"}, "process_sort_index": {"sort_index": process}}
    for name, given in names.items():
        yield {"ph": "M", "name": name, "ts": recorder.started / 1000, "pid": process, "tid": 0, "args": given}
    for thread in sorted({opened.thread for opened in recorder.ranges}):
        label = {"name": f"thread {thread} ({threading.main_thread().name if thread == 1 else 'python'})"}
        yield {"ph": "M", "name": "thread_name", "ts": recorder.started / 1000, "pid": process, "tid": thread, "args": label}
    forward: dict[int, Range] = {}
    for number, opened in enumerate(recorder.ranges, 1):
        yield _range_entry(opened, number, process)
        if opened.sequence < 0:
            continue
        if opened.scope is OPERATION:
            forward[opened.sequence] = opened  # the innermost of those that share it
        elif opened.scope is NODE and opened.sequence in forward:
            yield from _arrow(forward[opened.sequence], opened, process)
    total = 0
    for time, size, thread, _ in sorted(recorder.memory):
        total += size
        given = {"Total Allocated": total, "Bytes": size, "Device Type": 0, "Device Id": -1}
        yield {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": process,
            "tid": thread,
            "ts": time / 1000,
            "args": given,
        }
    end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": recorder.ended / 1000}
    yield end


def _range_entry(opened: Range, number: int, process: int) -> dict[str, Any]:
    details: dict[str, Any] = {"External id": number, "Record function id": 0, "Ev Idx": number - 1}
    if opened.sequence >= 0:
        details |= {"Sequence number": opened.sequence, "Fwd thread id": opened.forward_thread}
    if opened.inputs:
        facts = from_above("aten.event_arguments").facts_of(opened.inputs)
        details |= {"Input Dims": facts.shapes, "Input Strides": facts.strides, "Input type": facts.dtypes}
        details["Concrete Inputs"] = ["" if value is None else str(value) for value in facts.values]
    if opened.stack:
        details["Call stack"] = ";".join(opened.stack)
    if opened.modules:
        details["Module Hierarchy"] = opened.modules
    if opened.argument is not None:
        details["args"] = opened.argument
    entry = {"ph": "X", "cat": _CATEGORIES[opened.scope], "name": opened.name, "pid": process, "tid": opened.thread}
    return {**entry, "ts": opened.start / 1000, "dur": (opened.end - opened.start) / 1000, "args": details}


def _arrow(call: Range, node: Range, process: int) -> Iterator[dict[str, Any]]:
    """From a call to its node in the backward pass."""
    common = {"cat": "fwdbwd", "name": "fwdbwd", "id": call.sequence, "pid": process}
    yield {"ph": "s", **common, "tid": call.thread, "ts": call.start / 1000}
    yield {"ph": "f", **common, "tid": node.thread, "ts": node.start / 1000, "bp": "e"}
