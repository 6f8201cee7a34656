"""Notes for a profile: ranges of time with names, one within another, and the memory of results.

    run_backward ->  evaluate_function: MulBackward0     a range that the next node, or the end of the pass, closes
    node             |  MulBackward0                      apply
    call             |  |  aten::mul                      a call, around its run: below modes and transforms, above the tape
                     |  aten::sum                         what the engine does with the gradients

A profile is one entry in ``state.profiling``, and the thread's word ``thread.profile``; while there is none, nothing is looked at. It
changes no call: inside its range a primitive is called as without a profile, fast path and all, and what fuses several calls to one asks
``state.is_intercepted``, which a profile does not answer.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np

from .late import from_above
from .state import active, autocasting, crowded, interposed, interpreters, modes, profiling, thread
from .tensor import Parameter, Tensor

OPERATION, EVALUATION, NODE, RANGE = 0, 2, 1, 7  # what a range is: PyTorch's numbers of scopes, but for EVALUATION, which is shown as 0
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
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


class _Thread:
    """A thread's number, and the ranges that are open in it."""

    __slots__ = ("number", "stack")

    def __init__(self, number: int):
        self.number = number
        self.stack: list[Range] = []


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
        self._threads: dict[int, _Thread] = {}
        self._names: dict[Any, Any] = {}  # by operation and form: names, and how it is called without a profile
        self._alive: dict[int, tuple[weakref.ref[Any], int]] = {}  # by id of an array: who tells of its end, and its bytes
        self.around: Recorder | None = None  # whose place it takes
        self._forward: dict[int, int] = {}  # number of the thread that made a node, by the node's place in time
        self._meanings: Any = None

    # -- ranges --------------------------------------------------------------------------------------------------------------
    def here(self) -> _Thread:
        """This thread, as the profile knows it."""
        ident = threading.get_ident()
        found = self._threads.get(ident)
        return self._threads.setdefault(ident, _Thread(len(self._threads) + 1)) if found is None else found

    def open(self, name: str, scope: int, here: _Thread | None = None) -> Range:
        """Begin a range within those that are open in this thread."""
        if here is None:
            here = self.here()
        opened = Range(name, scope, here.number)
        if self.stacks and scope in (OPERATION, RANGE):
            opened.stack = program_stack()
        self.ranges.append(opened)
        here.stack.append(opened)
        opened.start = perf_counter_ns()
        return opened

    def close(self, opened: Range, here: _Thread | None = None) -> None:
        """End a range, and those within it that are still open."""
        now = perf_counter_ns()
        stack = (self.here() if here is None else here).stack
        if stack and stack[-1] is opened:
            stack.pop()
            opened.end = now
            return
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
        for each in self._threads.values():
            for opened in each.stack:
                opened.end = self.ended
            each.stack.clear()
        self._alive.clear()

    # -- calls -----------------------------------------------------------------------------------------------------------------
    def call(self, call: Any) -> Any:
        """Run a call, in the ranges of PyTorch's kernels that it is; a composite of Python's has none."""
        key = (call.op, call.form)
        known = self._names.get(key)
        if known is None:
            known = self._names[key] = self._meanings.names_of(*key), self._meanings.chosen_by(call.op), self._meanings.usual_of(*key)
        names, choose, usual = known
        if not names:
            return call.perform()
        if choose is not None:
            names = choose(*call.values)
        here = self.here()
        if here.stack and here.stack[-1].name == names[0]:  # a composite and the one operation in it are one kernel in PyTorch
            names = names[1:]
            if not names:
                result = self._performed(call, usual)
                self._note(result, here.stack[-1:], here)
                return result
        inputs: Any = [self._meanings.inputs_of(call, name) for name in names] if self.shapes else ()
        ranges = [self.open(name, OPERATION, here) for name in names]
        for opened, (shapes, values) in zip(ranges, inputs, strict=False):
            opened.shapes, opened.values = shapes, values
        try:
            result = self._performed(call, usual)
        finally:
            self.close(ranges[0], here)
        self._note(result, ranges, here)
        if self.flops:
            ranges[-1].flops = self._meanings.flops_of(call)
        return result

    def _performed(self, call: Any, usual: Any) -> Any:
        """The call's result, by the way that it has without a profile where nothing else looks at it."""
        if usual is None or thread.modes != 1 or thread.profile is not self or call.out is not None or not _is_alone(call.operands):
            return call.perform()
        function, split, names = usual
        values = call.values
        try:
            thread.profile, thread.modes = False, 0
            result = function(*values[:split], **dict(zip(names, values[split:], strict=True)))
            return result
        finally:
            thread.profile, thread.modes = self, 1

    def _note(self, result: Any, ranges: list[Range], here: _Thread) -> None:
        """Note memory and history of what a call returned."""
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            node = getattr(tensor, "_node", None)
            if node is not None:
                node = getattr(node, "node", node)  # of one output among several
                self._forward.setdefault(node.seq, here.number)
                for opened in ranges:
                    opened.sequence = node.seq
            if self.has_memory and isinstance(array := getattr(tensor, "_array", None), np.ndarray):
                self._made(array, ranges[-1].end if ranges else perf_counter_ns(), here)

    def _made(self, array: np.ndarray, time: int, here: _Thread) -> None:
        """Note an array's memory, if it is not known yet, and when it is freed."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        if id(array) in self._alive:
            return
        key, size = id(array), array.nbytes

        def freed(_: Any) -> None:
            if self._alive.pop(key, None) is not None:
                self.memory.append((perf_counter_ns(), -size, self.here().number))

        self._alive[key] = weakref.ref(array, freed), size
        self.memory.append((time, size, here.number))

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
                self._note(grads, [], self.here())
        finally:
            self.close(applied)
        return grads

    def leave(self) -> None:
        """End the range of the node that this pass evaluated last."""
        here = self.here()
        if here.stack and here.stack[-1].scope is EVALUATION:
            self.close(here.stack[-1], here)

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
                    self._note(leaf._grad, [], self.here())
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
    found: Any = thread.profile
    return (modes.profile if found is None else found) or None


_PLAIN = frozenset((Tensor, Parameter, int, float, bool, complex))


def _is_alone(operands: list[Any]) -> bool:
    """Whether a call with these operands goes the usual way but for the profile."""
    if crowded or autocasting or interposed or interpreters or modes.on_record is not None:
        return False
    return all(operand.__class__ in _PLAIN for operand in operands)


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


def item(array: Any) -> Any:
    """The number in an array of one element, read in the ranges that PyTorch has for it."""
    with profiled("aten::item", OPERATION), profiled("aten::_local_scalar_dense", OPERATION):
        return array.item()


modes.item = item


class recording:
    """Inside this ``with`` block ``recorder`` notes what this thread does, or all threads do; a profile around it waits."""

    def __init__(self, recorder: Recorder, all_threads: bool = False):
        self._recorder, self._place = recorder, modes if all_threads else thread

    def __enter__(self) -> Recorder:
        self._recorder.begin()
        around = self._place.profile
        if around is not None:
            text = "a profile is taken in this thread already: it notes nothing until this one ends"
            warnings.warn(text, UserWarning, stacklevel=3)
        elif self._place is thread:
            thread.modes += 1
        self._recorder.around, self._place.profile = around, self._recorder
        active[:0] = (None,)
        profiling[:0] = (None,)
        return self._recorder

    def __exit__(self, *exc_info: object) -> None:
        self._recorder.end()
        mine, inner = self._recorder, self._place.profile
        if inner is mine:
            self._place.profile = mine.around
        else:  # the one around ends first, or this is a child of a fork
            while inner is not None and inner.around is not mine:
                inner = inner.around
            if inner is None:
                return
            inner.around = mine.around
        if self._place is thread and thread.profile is None:
            thread.modes -= 1
        del active[-1:]
        del profiling[-1:]


def _forget() -> None:
    """No profile is taken of a forked child."""
    if not profiling:
        return
    if thread.profile is not None:
        thread.modes -= 1
    thread.profile = modes.profile = None
    del active[-len(profiling) :]
    profiling.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
