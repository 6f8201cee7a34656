"""Notes for a profile: ranges of time with names, one within another, and the memory of results.

    run_backward ->  evaluate_function: MulBackward0     a range that the next node, or the end of the pass, closes
    node             |  MulBackward0                      apply
    call             |  |  aten::mul                      a call, around its run: below modes and transforms, above the tape
                     |  aten::sum                         what the engine does with the gradients

A profile is one entry in ``state.profiling``, and the thread's word ``thread.profile``; while there is none, nothing is looked at. It
changes no call: what fuses several calls to one asks ``state.is_intercepted``, which a profile does not answer.
"""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from .late import from_above
from .state import active, modes, profiling, thread

OPERATION, EVALUATION, NODE, RANGE = 0, 2, 1, 7  # what a range is: PyTorch's numbers of scopes, but for EVALUATION, which is shown as 0
_PACKAGE = str(Path(__file__).parent.parent)
_EVALUATES = "autograd::engine::evaluate_function: "


class Range:
    """A range of time with a name.

    Attributes:
        scope: OPERATION, NODE (of the tape), EVALUATION (of a node, by the engine) or RANGE (a program's own).
        start, end: in nanoseconds of ``time.perf_counter_ns``; ``end`` is 0 while it is open.
        thread: number of the thread, from 1 in the order in which the profile met them. forward_thread: of a node's call.
        sequence: what a call and its node have in common; -1 without a node.
        shapes, values: of the inputs, if they are asked for. flops: likewise.
        stack: the program's frames, the innermost first, if they are asked for.
        argument: more text of a program's own range.
    """

    __slots__ = ("argument", "end", "flops", "forward_thread", "name", "scope", "sequence", "shapes", "stack", "start", "thread", "values")

    def __init__(self, name: str, scope: int, number: int):
        self.name, self.scope, self.thread = name, scope, number
        self.end, self.sequence, self.forward_thread = 0, -1, 0
        self.shapes: list[Any] = []
        self.values: list[Any] = []
        self.stack: list[str] = []
        self.flops: int = 0
        self.argument: str | None = None
        self.start = perf_counter_ns()


class Recorder:
    """The ranges of a profile, in the order in which they began.

    Args:
        shapes, memory, stacks, flops: what is noted beside times.
    Attributes:
        ranges: all of them. memory: (nanoseconds, bytes, thread) of each result that was made (positive) or freed (negative).
    """

    def __init__(self, shapes: bool = False, memory: bool = False, stacks: bool = False, flops: bool = False):
        self.shapes, self.has_memory, self.stacks, self.flops = shapes, memory, stacks, flops
        self.ranges: list[Range] = []
        self.memory: list[tuple[int, int, int]] = []
        self.started = self.ended = 0
        self._open: dict[int, list[Range]] = {}  # by thread
        self._numbers: dict[int, int] = {}
        self._names: dict[Any, Any] = {}
        self._alive: dict[int, tuple[weakref.ref[Any], int]] = {}  # by id of an array: who tells of its end, and its bytes
        self._forward: dict[int, int] = {}  # number of the thread that made a node, by the node's place in time
        self._meanings: Any = None

    # -- ranges --------------------------------------------------------------------------------------------------------------
    def number(self) -> int:
        """This thread's number."""
        return self._numbers.setdefault(threading.get_ident(), len(self._numbers) + 1)

    def _stack(self) -> list[Range]:
        return self._open.setdefault(threading.get_ident(), [])

    def open(self, name: str, scope: int) -> Range:
        """Begin a range within those that are open in this thread."""
        opened = Range(name, scope, self.number())
        if self.stacks and scope in (OPERATION, RANGE):
            opened.stack = program_stack()
        self.ranges.append(opened)
        self._stack().append(opened)
        opened.start = perf_counter_ns()
        return opened

    def close(self, opened: Range) -> None:
        """End a range, and those within it that are still open."""
        now = perf_counter_ns()
        stack = self._stack()
        if opened not in stack:
            opened.end = opened.end or now
            return
        while True:
            last = stack.pop()
            last.end = now
            if last is opened:
                return

    def begin(self) -> None:
        """Start the clock."""
        self._meanings = from_above("aten.event_names")
        self._meanings.prepare()
        self.started = perf_counter_ns()

    def end(self) -> None:
        """Stop the clock; what is open ends now."""
        self.ended = perf_counter_ns()
        for stack in self._open.values():
            for opened in stack:
                opened.end = self.ended
            stack.clear()
        self._alive.clear()

    # -- calls -----------------------------------------------------------------------------------------------------------------
    def call(self, call: Any) -> Any:
        """Run a call, in the ranges of PyTorch's kernels that it is; a composite of Python's has none."""
        key = (call.op, call.form)
        names = self._names.get(key)
        if names is None:
            names = self._names[key] = self._meanings.names_of(*key)
        if not names:
            return call.perform()
        names = self._meanings.refined(call, names)
        stack = self._stack()
        if stack and stack[-1].name == names[0]:  # a composite and the one operation in it are one kernel in PyTorch
            names = names[1:]
            if not names:
                return self._within(stack[-1], call)
        inputs = [self._meanings.inputs_of(call, name) for name in names] if self.shapes else [([], [])] * len(names)
        work = self._meanings.flops_of(call) if self.flops else 0
        ranges = [self.open(name, OPERATION) for name in names]
        for opened, (shapes, values) in zip(ranges, inputs, strict=True):
            opened.shapes, opened.values = shapes, values
        ranges[-1].flops = work
        try:
            result = call.perform()
            self._note(result, ranges)
        finally:
            self.close(ranges[0])
        return result

    def _within(self, around: Range, call: Any) -> Any:
        """Run a call that is what the range around it says."""
        result = call.perform()
        self._note(result, [around])
        return result

    def _note(self, result: Any, ranges: list[Range]) -> None:
        """Note memory and history of what a call returned."""
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            node = getattr(tensor, "_node", None)
            if node is not None:
                node = getattr(node, "node", node)  # of one output among several
                self._forward.setdefault(node.seq, self.number())
                for opened in ranges:
                    opened.sequence = node.seq
            if self.has_memory and isinstance(array := getattr(tensor, "_array", None), np.ndarray):
                self.made(array)

    def made(self, array: np.ndarray) -> None:
        """Note an array's memory, if it is not known yet, and when it is freed."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        if id(array) in self._alive:
            return
        key, size, number = id(array), array.nbytes, self.number()

        def freed(_: Any) -> None:
            if self._alive.pop(key, None) is not None:
                self.memory.append((perf_counter_ns(), -size, self.number()))

        self._alive[key] = weakref.ref(array, freed), size
        self.memory.append((perf_counter_ns(), size, number))

    # -- backward passes ---------------------------------------------------------------------------------------------------------
    def node(self, node: Any, grad: Any, apply: Callable[[Any, Any], Any]) -> Any:
        """``apply(node, grad)``, within the range of what the engine does with the node, which stays open."""
        self.leave()
        number = self._forward.get(node.seq, 0)
        evaluated, applied = self.open(_EVALUATES + node.name(), EVALUATION), self.open(node.name(), NODE)
        for opened in (evaluated, applied):
            opened.sequence, opened.forward_thread = node.seq, number
        if self.shapes:
            grads = grad if isinstance(grad, (list, tuple)) else (grad,)
            applied.shapes = [[] if part is None else list(part._array.shape) for part in grads]
        try:
            grads = apply(node, grad)
            if self.has_memory:
                self._note(grads, [])
        finally:
            self.close(applied)
        return grads

    def leave(self) -> None:
        """End the range of the node that this pass evaluated last."""
        stack = self._stack()
        if stack and stack[-1].scope is EVALUATION:
            self.close(stack[-1])

    def accumulating(self, accumulate: Callable[..., None]) -> Callable[..., None]:
        """``accumulate(leaf, entry, record)`` within ranges."""
        name = "torch::autograd::AccumulateGrad"

        def accumulated(leaf: Any, entry: list[Any], record: bool) -> None:
            evaluated, applied = self.open(_EVALUATES + name, EVALUATION), self.open(name, NODE)
            if self.shapes:
                applied.shapes = [list(entry[1]._array.shape)]
            try:
                accumulate(leaf, entry, record)
                if self.has_memory:
                    self._note(leaf._grad, [])
            finally:
                self.close(evaluated)

        return accumulated


def program_stack() -> list[str]:
    """The frames of the program, the innermost first: ``file(line): function``; this package's own are left out."""
    frames = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith((_PACKAGE, "<flambeau")):
            frames.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return frames


def current() -> Recorder | None:
    """The recorder of this thread's profile; called while ``profiling`` is not empty."""
    found: Recorder | None = thread.profile if thread.profile is not None else modes.profile
    return found


def is_profiled() -> bool:
    """Whether a profile is taken of this thread."""
    return bool(profiling) and current() is not None


class profiled:
    """Inside this ``with`` block a range is open in the profile of this thread, where there is one.

    Args:
        name: of the range. scope: what it is. argument: more text.
    """

    __slots__ = ("_argument", "_name", "_range", "_recorder", "_scope")

    def __init__(self, name: str, scope: int = RANGE, argument: str | None = None):
        self._name, self._scope, self._argument = name, scope, argument
        self._recorder: Recorder | None = None
        self._range: Range | None = None

    def __enter__(self) -> None:
        self._recorder = current() if profiling else None
        if self._recorder is not None:
            self._range = self._recorder.open(self._name, self._scope)
            self._range.argument = self._argument

    def __exit__(self, *exc_info: object) -> None:
        if self._recorder is not None and self._range is not None:
            self._recorder.close(self._range)
            self._recorder = self._range = None


class recording:
    """Inside this ``with`` block ``recorder`` notes what this thread does, or all threads do; a profile around it waits."""

    def __init__(self, recorder: Recorder, all_threads: bool = False):
        self._recorder, self._all = recorder, all_threads
        self._outer: Any = None

    def __enter__(self) -> Recorder:
        self._recorder.begin()
        if self._all:
            self._outer, modes.profile = modes.profile, self._recorder
        else:
            if thread.profile is not None:
                warnings.warn("a profile is taken in this thread already: it notes nothing until this one ends", UserWarning, stacklevel=3)
            self._outer, thread.profile = thread.profile, self._recorder
            if self._outer is None:
                thread.modes += 1
        active[:0] = (None,)
        profiling[:0] = (None,)
        return self._recorder

    def __exit__(self, *exc_info: object) -> None:
        if self._all:
            modes.profile = self._outer
        else:
            thread.profile = self._outer
            if self._outer is None:
                thread.modes -= 1
        del active[-1:]
        del profiling[-1:]
        self._recorder.end()
