"""Notes for a profile: ranges of time with names, one within another, and the memory of results.

    run_backward ->  evaluate_function: MulBackward0     a range that the next node, or the end of the pass, closes
    node             |  MulBackward0                      apply
    call             |  |  aten::mul                      a call, around its run: below modes and transforms, above the tape
                     |  aten::sum                         what the engine does with the gradients

A profile is one entry in ``state.profiling``, and the thread's word ``thread.profile``; while there is none, nothing is looked at. It
changes no call: inside its range a primitive is called as without a profile, fast path and all, and what fuses several calls to one asks
``state.is_intercepted``, which a profile does not answer.

An execution trace (``ExecutionTraceObserver``) is told of the ranges of all threads, with arguments and results. There is one at a time; it
listens to whatever recorder a thread has, and has one of its own that keeps nothing, below all others, for threads without a profile.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter_ns, time_ns
from typing import Any

import numpy as np

from .late import from_above
from .state import active, autocasting, crowded, interposed, interpreters, modes, profiling, thread
from .tensor import Parameter, Tensor

OPERATION, NODE, SCRIPT, RANGE = 0, 1, 2, 7  # what a range is: PyTorch's numbers of scopes
EVALUATION = -1  # which is shown as 0
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_EVALUATES = "autograd::engine::evaluate_function: "


class Range:
    """A range of time with a name.

    Attributes:
        scope: OPERATION, NODE (of the tape), EVALUATION (of a node, by the engine), SCRIPT (of TorchScript) or RANGE (a program's own).
        start, end: in nanoseconds of ``time.perf_counter_ns``; ``end`` is 0 while it is open.
        thread: number of the thread: 1 for the main one, others in the order in which profiles met them. forward_thread: of a node's call.
        sequence: what a call and its node have in common; -1 without a node.
        inputs: as ``aten.event_arguments.seen`` notes them, if they are asked for. flops: likewise.
        stack: the program's frames, the innermost first, if they are asked for. modules: the scripted ones around it, likewise.
        overload: name of the kernel's overload, if it is asked for. argument: more text of a program's own range.
    """

    __slots__ = (
        "argument", "end", "flops", "forward_thread", "inputs", "modules", "name", "overload", "scope", "sequence", "stack", "start",
        "thread",
    )  # fmt: skip

    def __init__(self, name: str, scope: int, number: int):
        self.name, self.scope, self.thread = name, scope, number
        self.end, self.sequence, self.forward_thread = 0, -1, 0
        self.inputs: list[Any] = []
        self.stack: list[str] = []
        self.flops: int = 0
        self.overload = self.modules = ""
        self.argument: str | None = None
        self.start = perf_counter_ns()


_thread_numbers: dict[int | None, int] = {
    threading.main_thread().ident: 1
}  # by what Python knows them by; one table for all profiles, which a trace may hear together
_new_number = threading.Lock()


def _number_of_thread(ident: int) -> int:
    with _new_number:
        return _thread_numbers.setdefault(ident, len(_thread_numbers) + 1)


class _Thread:
    """A thread's number, the ranges that are open in it, and how many of them were when each backward pass that runs began."""

    __slots__ = ("number", "passes", "stack")

    def __init__(self, number: int):
        self.number = number
        self.stack: list[Range] = []
        self.passes: list[int] = []


class Flow:
    """The memory that an operation, or a node of the tape, read, wrote to and made; by numbers.

    Attributes:
        range: of the outermost operation. is_backward: within a node of the tape.
    """

    __slots__ = ("is_backward", "made", "range", "reads", "writes")

    def __init__(self, opened: Range, is_backward: bool):
        self.range, self.is_backward = opened, is_backward
        self.reads: dict[int, None] = {}
        self.writes: dict[int, None] = {}
        self.made: dict[int, None] = {}


class Recorder:
    """The ranges of a profile, in the order in which they began.

    Args:
        shapes, memory, stacks, flops: what is noted beside times. The first three together: also which operation read what memory.
        overloads: note which overload of a kernel a call is.
        listens: nothing is noted here; an execution trace is told.
    Attributes:
        keeps: whether ranges are noted that begin now. ranges: all of them.
        memory: (nanoseconds, bytes, thread, number of the memory) of each result that was made (positive) or freed (negative).
        flows: of operations. older: number and bytes of memory that was there before. released: its end, like ``memory``.
        parameters, gradients, states, leaves: numbers of memory that has these; leaves are those that got gradients.
    """

    def __init__(
        self,
        shapes: bool = False,
        memory: bool = False,
        stacks: bool = False,
        flops: bool = False,
        overloads: bool = False,
        listens: bool = False,
    ):
        self.shapes, self.has_memory, self.stacks, self.flops, self.overloads = shapes, memory, stacks, flops, overloads
        self.listens, self.keeps = listens, not listens
        self.follows, self._looks = shapes and memory and stacks, shapes or overloads
        self.ranges: list[Range] = []
        self.memory: list[tuple[int, int, int, int]] = []
        self.flows: list[Flow] = []
        self.older: dict[int, int] = {}
        self.released: list[tuple[int, int, int, int]] = []
        self.parameters: set[int] = set()
        self.gradients: set[int] = set()
        self.states: set[int] = set()
        self.leaves: set[int] = set()
        self.started = self.ended = 0
        self.offset = 0  # nanoseconds from the clock of ranges to the time of day
        self._threads: dict[int, _Thread] = {}
        self._names: dict[Any, Any] = {}  # by operation and form: names, and how it is called without a profile
        self._alive: dict[int, tuple[weakref.ref[Any], int]] = {}  # by id of an array: who tells of its end, and its number
        self._numbers = itertools.count()
        self.modules: Callable[[], str] | None = None  # tells the scripted modules that run in this thread
        self._flowing: dict[int, Flow] = {}  # by thread, of its outermost operation
        self.around: Recorder | None = None  # whose place it takes
        self._forward: dict[int, int] = {}  # number of the thread that made a node, by the node's place in time
        self._meanings: Any = None

    # -- ranges --------------------------------------------------------------------------------------------------------------
    def here(self) -> _Thread:
        """This thread, as the profile knows it."""
        ident = threading.get_ident()
        found = self._threads.get(ident)
        return self._threads.setdefault(ident, _Thread(_number_of_thread(ident))) if found is None else found

    def open(self, name: str, scope: int, here: _Thread | None = None) -> Range:
        """Begin a range within those that are open in this thread."""
        if here is None:
            here = self.here()
        opened = Range(name, scope, here.number)
        if self.stacks and scope in (OPERATION, RANGE):
            opened.stack = program_stack()
        if self.modules is not None:
            opened.modules = self.modules()
        if self.keeps:
            self.ranges.append(opened)
        here.stack.append(opened)
        if _trace is not None:
            _trace.opened(opened)
        opened.start = perf_counter_ns()
        return opened

    def close(self, opened: Range, here: _Thread | None = None) -> None:
        """End a range, and those within it that are still open."""
        now = perf_counter_ns()
        stack = (self.here() if here is None else here).stack
        if opened not in stack:
            opened.end = opened.end or now
            return
        while True:
            last = stack.pop()
            last.end = now
            if _trace is not None:
                _trace.closed(last)
            if last is opened:
                return

    def begin(self) -> None:
        """Start the clock."""
        self._meanings = from_above("aten.event_names")
        self._meanings.prepare()
        self.started = perf_counter_ns()
        self.offset = time_ns() - self.started

    def end(self) -> None:
        """Stop the clock; what is open ends now."""
        self.ended = perf_counter_ns()
        for each in self._threads.values():
            while each.stack:
                each.stack[-1].end = self.ended
                opened = each.stack.pop()
                if _trace is not None:
                    _trace.closed(opened)
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
        arguments = [self._meanings.arguments_of(call, name) for name in names] if self._looks or _trace is not None else []
        seen = [self._meanings.seen(values) for _, values in arguments] if self.shapes else []
        ranges = [self.open(name, OPERATION, here) for name in names]
        for opened, inputs in zip(ranges, seen, strict=False):
            opened.inputs = inputs
        for opened, (schema, values) in zip(ranges, arguments, strict=False):
            opened.overload = schema.overload_name if self.overloads and schema is not None else ""
            if _trace is not None:
                _trace.reads(opened, schema, values)
        flow = self._reads(call, ranges[0], here, arguments) if self.follows else None
        try:
            result = self._performed(call, usual)
            if _trace is not None:
                self._remember(result, ranges, here)
                for opened in reversed(ranges):
                    _trace.returns(opened, result)
        finally:
            self.close(ranges[0], here)
            if flow is not None and flow.range is ranges[0]:
                del self._flowing[here.number]
        self._note(result, ranges, here)
        if flow is not None:
            self._makes(flow, result)
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
        self._remember(result, ranges, here)
        if self.has_memory and self.keeps:
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(array := getattr(tensor, "_array", None), np.ndarray):
                    self._made(array, (ranges[-1].end if ranges else 0) or perf_counter_ns(), here)

    def _remember(self, result: Any, ranges: list[Range], here: _Thread) -> None:
        """Note the node of what a call returned."""
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            node = getattr(tensor, "_node", None)
            if node is not None:
                node = getattr(node, "node", node)  # of one output among several
                self._forward.setdefault(node.seq, here.number)
                for opened in ranges:
                    opened.sequence = node.seq

    # -- memory ------------------------------------------------------------------------------------------------------------------
    def _made(self, array: np.ndarray, time: int, here: _Thread) -> None:
        """Note an array's memory, if it is not known yet, and when it is freed."""
        number, size, is_new = self._number_of(array, self.memory)
        if is_new:
            self.memory.append((time, size, here.number, number))

    def _number_of(self, array: np.ndarray, ends: list[tuple[int, int, int, int]]) -> tuple[int, int, bool]:
        """The number of an array's memory, its bytes, and whether it is met first; ``ends`` will have the end, then."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        key, size = id(array), array.nbytes
        found = self._alive.get(key)
        if found is not None:
            return found[1], size, False
        number = next(self._numbers)

        def freed(_: Any) -> None:
            if self._alive.pop(key, None) is not None:
                ends.append((perf_counter_ns(), -size, self.here().number, number))

        self._alive[key] = weakref.ref(array, freed), number
        return number, size, True

    def _memory_of(self, tensor: Any) -> int | None:
        """The number of a tensor's memory, which is older than the profile where it is met first."""
        array = getattr(tensor, "_array", None)
        if not isinstance(array, np.ndarray):
            return None
        number, size, is_new = self._number_of(array, self.released)
        if is_new:
            self.older[number] = size
        return number

    def _reads(self, call: Any, opened: Range, here: _Thread, arguments: list[Any]) -> Flow:
        """Note what a call reads and writes to, in the outermost call's flow."""
        flow = self._flowing.get(here.number)
        if flow is None:
            within = any(each.scope is NODE or each.scope is EVALUATION for each in here.stack)
            flow = self._flowing[here.number] = Flow(opened, within)
            self.flows.append(flow)
        numbers = {}
        for operand in call.operands:
            if isinstance(operand, Tensor) and (number := self._memory_of(operand)) is not None:
                numbers[id(operand)] = number
                if operand.__class__ is Parameter:
                    self.parameters.add(number)
                if number not in flow.made:
                    flow.reads[number] = None
        schema, values = arguments[-1]
        for argument, value in zip(schema.arguments if schema is not None else (), values, strict=False):
            if argument.is_write and (number := self._memory_of(value)) is not None:
                flow.writes[number] = None
        return flow

    def _receives(self, opened: Range, grads: Sequence[Any], here: _Thread) -> Flow:
        """Note what a node is given; the gradient that a pass begins with is met here first."""
        flow = Flow(opened, True)
        self.flows.append(flow)
        self._note(grads, [], here)
        flow.reads.update(dict.fromkeys(number for grad in grads if (number := self._memory_of(grad)) is not None))
        return flow

    def _makes(self, flow: Flow, result: Any) -> None:
        """Note what memory a call's results have."""
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            number = self._memory_of(tensor)
            if number is not None and number not in flow.reads and number not in flow.writes:
                flow.made[number] = None

    def stepped(self, optimizer: Any) -> None:
        """Note which memory an optimizer's parameters, gradients and state have."""
        if not self.follows:
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                state = optimizer.state.get(parameter, {})
                values = state.values() if isinstance(state, dict) else ()
                for kind, found in ((self.parameters, [parameter]), (self.gradients, [parameter._grad]), (self.states, values)):
                    kind.update(number for each in found if (number := self._memory_of(each)) is not None)

    # -- backward passes ---------------------------------------------------------------------------------------------------------
    def node(self, node: Any, grad: Any, apply: Callable[[Any, Any], Any]) -> Any:
        """``apply(node, grad)``, within the range of what the engine does with the node, which stays open."""
        here = self.here()
        evaluated = self.evaluate(node)
        applied = self.open(node.name(), NODE, here)
        applied.sequence, applied.forward_thread = node.seq, evaluated.forward_thread
        given = grad if isinstance(grad, (list, tuple)) else (grad,)
        self.given(applied, given)
        flow = self._receives(applied, given, here) if self.follows else None
        try:
            grads = apply(node, grad)
            if self.has_memory:
                self._note(grads, [], here)
            if flow is not None:
                self._makes(flow, grads)
        finally:
            self.close(applied, here)
        return grads

    def evaluate(self, node: Any) -> Range:
        """The range of what the engine does with a node; the one before ends. A node's hooks come before its derivative rule."""
        here = self.here()
        begun = here.passes[-1] if here.passes else 0
        if len(here.stack) > begun and here.stack[-1].scope is EVALUATION and here.stack[-1].sequence == node.seq:
            return here.stack[-1]
        self.leave()
        evaluated = self.open(_EVALUATES + node.name(), EVALUATION, here)
        evaluated.sequence, evaluated.forward_thread = node.seq, self._forward.get(node.seq, 0)
        return evaluated

    def given(self, opened: Range, values: Sequence[Any]) -> None:
        """Note what a range is given that is no call of an operation."""
        if self.shapes:
            opened.inputs = self._meanings.seen(values)
        if _trace is not None:
            schema = self._meanings.schema_of(opened.name, values) if opened.scope is OPERATION else None
            _trace.reads(opened, schema, values)

    def leave(self) -> None:
        """End the range of the node that this pass evaluated last."""
        here = self.here()
        if here.stack and here.stack[-1].scope is EVALUATION and len(here.stack) > (here.passes[-1] if here.passes else 0):
            self.close(here.stack[-1], here)

    def accumulating(self, accumulate: Callable[..., None]) -> Callable[..., None]:
        """``accumulate(leaf, entry, record)`` within ranges."""
        name = "torch::autograd::AccumulateGrad"

        def accumulated(leaf: Any, entry: list[Any], record: bool) -> None:
            self.leave()
            evaluated, applied = self.open(_EVALUATES + name, EVALUATION), self.open(name, NODE)
            self.given(applied, entry[1:2])
            try:
                accumulate(leaf, entry, record)
                if self.has_memory:
                    self._note(leaf._grad, [], self.here())
                if self.follows:
                    self._is_gradient(leaf)
            finally:
                self.close(evaluated)

        return accumulated

    def passing(self) -> None:
        """Begin a backward pass, perhaps in a hook of another one; ``passed`` ends it."""
        here = self.here()
        here.passes.append(len(here.stack))

    def passed(self) -> None:
        """End a backward pass."""
        here = self.here()
        if here.passes:
            here.passes.pop()

    def _is_gradient(self, leaf: Any) -> None:
        """Note the memory of a leaf and of its gradient."""
        gradient, parameter = self._memory_of(leaf._grad), self._memory_of(leaf)
        if gradient is not None:
            self.gradients.add(gradient)
        if parameter is not None:
            (self.parameters if leaf.__class__ is Parameter else self.leaves).add(parameter)


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


def is_in_script() -> bool:
    """Whether a range of TorchScript is open in the profile of this thread; called while ``profiling`` is not empty."""
    recorder = current()
    return recorder is not None and any(opened.scope is SCRIPT for opened in recorder.here().stack)


class profiled:
    """Inside this ``with`` block a range is open in the profile of this thread, where there is one.

    Args:
        name: of the range. scope: what it is. argument: more text.
        values: what a kernel of this name is given, in the order of its schema.
    """

    __slots__ = ("_argument", "_name", "_range", "_recorder", "_scope", "_values")

    def __init__(self, name: str, scope: int = RANGE, argument: str | None = None, values: Sequence[Any] = ()):
        self._name, self._scope, self._argument, self._values = name, scope, argument, values
        self._recorder: Recorder | None = None
        self._range: Range | None = None

    def __enter__(self) -> profiled:
        self._recorder = current() if profiling else None
        if self._recorder is not None:
            self._range = self._recorder.open(self._name, self._scope)
            self._range.argument = self._argument
            if self._values:
                self._recorder.given(self._range, self._values)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._recorder is not None and self._range is not None:
            self._recorder.close(self._range)
            self._recorder = self._range = None

    def stepped(self, optimizer: Any) -> None:
        """Say that the range was a step of an optimizer."""
        if self._recorder is not None:
            self._recorder.stepped(optimizer)

    def gives(self, result: Any) -> Any:
        """``result``, which an execution trace is told."""
        if _trace is not None and self._range is not None:
            _trace.returns(self._range, result)
        return result


def item(tensor: Any) -> Any:
    """The number in a tensor of one element, read in the ranges that PyTorch has for it."""
    outer, inner = [profiled(name, OPERATION, values=(tensor,)) for name in ("aten::item", "aten::_local_scalar_dense")]
    with outer, inner:
        return outer.gives(inner.gives(tensor._array.item()))


modes.item = item
_trace: Any = None  # the execution trace that is told of all ranges; see ``tracing``


class recording:
    """Inside this ``with`` block ``recorder`` notes what this thread does, or all threads do; a profile around it waits."""

    def __init__(self, recorder: Recorder, all_threads: bool = False):
        self._recorder, self._place = recorder, modes if all_threads else thread

    def __enter__(self) -> Recorder:
        self._recorder.begin()
        around = self._place.profile
        if around is not None and not around.listens and not self._recorder.listens:
            text = "a profile is taken in this thread already: it notes nothing until this one ends"
            warnings.warn(text, UserWarning, stacklevel=3)
        elif around is None and self._place is thread:
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


class tracing:
    """Between ``start`` and ``stop`` an execution trace is told of the ranges of all threads, profiled or not.

    Args:
        trace: has ``opened(range)``, ``reads(range, schema, values)``, ``returns(range, result)`` and ``closed(range)``.
    """

    def __init__(self, trace: Any):
        self._trace = trace
        self._recording = recording(Recorder(listens=True), all_threads=True)

    def start(self) -> None:
        """Begin to tell; the recorder for threads without a profile goes below one of all threads."""
        global _trace
        outer = modes.profile
        self._recording.__enter__()
        if outer is not None:
            mine = modes.profile
            modes.profile = outer
            while outer.around is not None:
                outer = outer.around
            mine.around, outer.around = None, mine
        _trace = self._trace

    def stop(self) -> None:
        """End it."""
        global _trace
        self._recording.__exit__()
        _trace = None


def _forget() -> None:
    """No profile is taken of a forked child."""
    global _trace, _new_number
    _trace, _new_number = None, threading.Lock()
    if not profiling:
        return
    if thread.profile is not None:
        thread.modes -= 1
    thread.profile = modes.profile = None
    del active[-len(profiling) :]
    profiling.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
