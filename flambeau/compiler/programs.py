"""Programs: recordings under one guard, and the one run that makes a recording.

``record`` runs a function as it is written, with a recorder on. The run is a real one, whatever becomes of the recording: its result is the
call's. From it a ``Program`` is made, which other calls that look alike replay.
"""

from __future__ import annotations

import inspect
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..capture.graph import Graph, Node, Value, before_writes
from ..capture.interpret import ShapeChanged, run_of
from ..capture.memory import root_of
from ..capture.passes import simplified
from ..capture.recorder import Recorder
from ..core import dtype as dtypes
from ..core.settings import settings
from ..core.state import changes, thread, tick
from ..core.tensor import Tensor
from .arguments import Arguments
from .backward import Backward, guard_of, history
from .filters import GuardFilterEntry, kept
from .refusals import Refusals
from .results import Ending, Refused
from .segments import Segment, graph_of, match, what_is_seen
from .surroundings import Place, Surroundings

__all__ = ["AS_WRITTEN", "MISSED", "REFUSED", "Path", "Program", "Recording", "lowered", "record"]

AS_WRITTEN = object()  # a call that raised has been undone, and is to run as the program is written
MISSED = object()  # a replay met a value that no recording has seen
REFUSED = object()  # a program turned out to be none for these sizes; nothing has happened
_MOST_BRANCHES = 16


def lowered(graph: Graph, backend: str = "inductor") -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """The quickest function for a graph: machine launches, or the reference where that cannot be or is asked for."""
    graph = simplified(graph)
    if backend != "inductor" or os.environ.get("FLAMBEAU_COMPILE") == "interpret":
        return run_of(graph)
    from ..capture.lowering import NotLowered, lower

    try:
        return lower(graph)
    except NotLowered:
        return run_of(graph)


class Recording:
    """One recorded run.

    Attributes:
        result: what the program returned.
        failure: why it cannot be replayed; None if it can.
        choose: function of guards that says which of them stay; None where all do.
    """

    choose: Callable[[list[GuardFilterEntry]], Sequence[bool]] | None = None

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        arguments: Arguments,
        prepare: Callable[[Recorder], Any] | None = None,
    ):
        self.function, self.arguments = function, arguments
        self.start = tick()
        self.state = thread.grad, dtypes.get_default_dtype(), settings.matmul_precision
        recorder = self.recorder = Recorder([tensor._array for tensor in arguments.tensors], arguments.names)
        recorder.entry = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
        if prepare is not None:
            prepare(recorder)
        older = {id(tensor) for tensor, *_ in recorder.before}
        around = self.surroundings = Surroundings(function, args, kwargs, older, recorder.closures)
        recorder.closures = []
        self.changes = changes.count
        with recorder, around:
            recorder.profile = sys.getprofile()
            self.result = function(*args, **kwargs)
        recorder.profile = None  # it knows the arguments
        self.failure = arguments.refusal or recorder.failure or around.changed()
        self.ending: Ending | None = None
        self.backward: Backward | None = None
        if self.failure is None:
            try:
                self._finish(args, kwargs)
            except Refused as reason:
                self.failure = str(reason)
            self.failure = (
                self.failure or recorder.failure or (around.changed() if self.backward is not None else None) or self._unwatched()
            )
        around.let_go()
        self.before, recorder.before = recorder.before, []

    def let_go(self) -> None:
        """Keep no tensor but those that the program needs."""
        self.before = []

    def _finish(self, args: Any, kwargs: Any) -> None:
        recorder, given, known = self.recorder, self.arguments.tensors, self.surroundings.tensors
        roots = {id(root_of(tensor._array)) for tensor in given}
        if any(tensor._array.__class__ is np.ndarray and id(root_of(tensor._array)) in roots for tensor in known.values()):
            raise Refused("an argument is reached in another way, too")
        outside = self.surroundings.kept
        self.ending = Ending(recorder, given, known, outside, self.result)
        self.end = len(recorder.nodes)
        if self.ending.roots:
            self.backward = Backward(recorder, self.ending.roots, given, known, self.start, self.surroundings)

    def _unwatched(self) -> str | None:
        """Reason not to replay: memory that was read and whose tensor was not found where guards look."""
        recorder = self.recorder
        known = {id(root_of(tensor._array)) for tensor in self.surroundings.tensors.values()}
        for value in recorder.held:
            if not value.fixed and id(value.array) not in known:
                return f"a tensor of shape {value.shape} is not found among arguments, globals, variables and modules"
        watched = {id(tensor) for tensor in (*self.arguments.tensors, *self.surroundings.tensors.values())}
        if any(id(leaf) not in watched for leaf in recorder.gradients.values()):
            return "the gradient of a tensor that is not watched"
        return None

    def segments(self) -> list[Segment]:
        """The nodes of the program, cut at its looks."""
        recorder, made, begin = self.recorder, [], 0
        for look in recorder.looks:
            made.append(Segment(recorder.nodes[begin : look.position], look))
            begin = look.position
        path = Path(self)
        last = Segment(recorder.nodes[begin : self.end], None, path)
        last.wanted = dict.fromkeys(map(before_writes, path.outputs))
        return [*made, last]


class Path:
    """One way through a program, from its end.

    Attributes:
        outputs: Values that ``finish`` needs, and after them those that the backward pass needs.
        is_pure: whether the program can be run once more without another result.
        leaves, dropped, gone, gradients, steps, text, scope: see ``Ending``.
    """

    def __init__(self, recording: Recording):
        ending, recorder = recording.ending, recording.recorder
        assert ending is not None
        self.function, self.arguments = recording.function, recording.arguments
        self.backward = recording.backward
        self.count = len(ending.outputs)
        self.outputs: list[Value] = list(ending.outputs)
        self.leaves, self.dropped, self.gone, self.gradients = ending.leaves, ending.dropped, ending.gone, ending.gradients
        self.text, self.scope = ending.text, ending._scope
        self.is_pure = not recorder.first and not any(node.kind == "call" for node in recorder.nodes)
        self._nodes: list[Node] = recorder.nodes[recording.end :]
        self.saved: list[Value] = []
        self._run: Any = None
        self.watch: list[Any] = []
        if self.backward is not None:
            self._saves(recording, ending)
        self.finish, self.steps = ending.finish, ending.steps

    def _saves(self, recording: Recording, ending: Ending) -> None:
        backward, recorder = self.backward, recording.recorder
        assert backward is not None
        wanted = [value for value in backward.outputs if value is not None]
        graph, order = graph_of(self._nodes, wanted, backward.inputs)
        self.graph = graph
        self.saved = order[len(backward.inputs) :]
        self.outputs += self.saved
        given = {id(root_of(tensor._array)): i for i, tensor in enumerate(self.arguments.tensors)}
        known = {id(root_of(tensor._array)): tensor for tensor in recording.surroundings.tensors.values()}
        for value in (*self.saved, *graph.held):
            if value.fixed:
                continue
            root = id(root_of(recorder.sample(value)))
            if root in given or root in known:
                self.watch.append(given[root] if root in given else known[root])
            else:
                ending.watch(root)

    def mapped(self, mapping: dict[Value, Value]) -> None:
        """Take values of another recording for equal ones of this one."""
        self.outputs = [mapping.get(before_writes(value), before_writes(value)) for value in self.outputs]

    def prepare(self, lower: Callable[[Graph], Any]) -> None:
        """Make what runs the backward pass."""
        if self.backward is not None:
            self._run = lower(self.graph)
            self._nodes = []

    def run_backward(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        made: list[np.ndarray] = self._run(arrays)
        return made

    def target_tensors(self, given: Sequence[Tensor]) -> list[Tensor]:
        assert self.backward is not None
        return [given[target] if target.__class__ is int else target for target in self.backward.targets]

    def given(self, args: Any, kwargs: Any) -> Sequence[Tensor]:
        """Tensors among the arguments of a call that looks like the recorded one."""
        return self.arguments.check(args, kwargs) or ()

    def end(self, arrays: list[np.ndarray], given: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        """The result of a call."""
        if self.backward is None:
            return self.finish(arrays, given, None)
        guarded = [guard_of(given[each] if each.__class__ is int else each, "an argument or parameter") for each in self.watch]
        node = history(self, given, arrays[self.count :], guarded, args, kwargs)
        return self.finish(arrays, given, node)


class Program:
    """Recordings of calls that look alike.

    Attributes:
        recording: the first. failure: why calls run as they are written; None where they are replayed.
        branches: number of ways through it.
        run: function (tensors among the arguments, args, kwargs) -> the result of a call that fits, or ``MISSED``, in which case nothing
            has happened.
        direct: the same in machine code, guards and all; None where there is none, or not yet.
    """

    run: Callable[[Sequence[Tensor], Any, Any], Any]

    def __init__(self, recording: Recording, lower: Callable[[Graph], Any]):
        self.failure = recording.failure
        self.arguments = recording.arguments
        self.check = recording.arguments.check
        self.grad, self.default_dtype, self.precision = recording.state
        self.branches, self._lower = 1, lower
        self.misses = 0
        self.direct: Any = None
        self._replayed, self._wait = 0, 1
        self.graphs: list[Graph] = []
        self._guards(recording)
        if self.failure is None:
            self._made_of(recording)
        self.arguments.let_go()

    def _guards(self, recording: Recording) -> None:
        """Take over what has to be as it was; where calls run as they are written, nothing has to."""
        self._always: list[Place] = []
        self._sometimes: list[Place] = []
        self._tensors: list[Any] = []
        self._look, self._changes = _always_true, recording.changes
        if self.failure is not None:
            return
        self._always, self._sometimes = recording.surroundings.watched()
        tensors = list(recording.surroundings.tensors.values())
        if recording.choose is not None:
            stays = iter(kept(recording.choose, [*self._always, *self._sometimes], tensors))
            self._always = [place for place in self._always if next(stays)]
            self._sometimes = [place for place in self._sometimes if next(stays)]
            tensors = [tensor for tensor in tensors if next(stays)]
        self._look = _look_at(self._always)
        self._tensors = [(tensor, tensor._array, tensor._requires_grad, _hooks_of(tensor)) for tensor in tensors]
        recorder = recording.recorder
        self._inputs = [value for value in recorder.inputs if value not in recorder.gradients and value not in self._of_backward(recording)]
        self._gradients = dict(recorder.gradients)
        self._alone = self._has_writes(recording)

    def _made_of(self, recording: Recording) -> None:
        """Make the segments of a recording, and what runs them."""
        segments = recording.segments()
        self.root = segments[0]
        for before, after in itertools.pairwise(segments):
            assert before.look is not None
            before.children[before.look.key] = after
        self._prepare(self.arguments.tensors)

    @staticmethod
    def _of_backward(recording: Recording) -> list[Value]:
        return [] if recording.backward is None else recording.backward.inputs

    @staticmethod
    def _has_writes(recording: Recording) -> set[int] | None:
        """Ids of held memory where the program writes to memory from outside: then arguments may not show any of it."""
        if not any(before.node is None for before in recording.recorder.first.values()):
            return None
        return {id(value.array) for value in recording.recorder.held}

    # -- guards -----------------------------------------------------------------------------------------------------------------
    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The tensors among a call's arguments if the program is one for it; None otherwise."""
        if thread.grad is not self.grad or dtypes._default is not self.default_dtype or settings.matmul_precision != self.precision:
            return None
        given = self.check(args, kwargs)
        if given is None or self.failure is not None:
            return given
        if not self._look() or (changes.count != self._changes and not self._is_unchanged()):
            return None
        return given if self._are_gradients_alike(given) and (self._alone is None or not given or self._are_apart(given)) else None

    def _is_unchanged(self) -> bool:
        """Whether modules and tensors are what they were, though something changed since."""
        count = changes.count
        for tensor, array, mark, hooks in self._tensors:
            if tensor._array is not array or tensor._requires_grad is not mark or _hooks_of(tensor) != hooks:
                return False
        if not all(place.is_same() for place in self._sometimes):
            return False
        self._changes = count
        if self.direct is not None:
            self.direct.unchanged(count)
        return True

    def _are_apart(self, given: Sequence[Tensor]) -> bool:
        """Whether arguments share no memory with each other and with what the program holds, as it writes to some of it."""
        assert self._alone is not None
        roots = [id(array) if (array := tensor._array).base is None else id(root_of(array)) for tensor in given]
        return self._alone.isdisjoint(roots) and (len(roots) < 2 or len({*roots}) == len(roots))

    def reason(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Why the program is none for a call."""
        if thread.grad is not self.grad:
            return "grad mode differs"
        if dtypes.get_default_dtype() is not self.default_dtype:
            return "the default dtype differs"
        if settings.matmul_precision != self.precision:
            return "the precision of float32 products differs"
        if self.check(args, kwargs) is None:
            return "arguments differ in number, class, shape, dtype, strides, requires_grad or value"
        for place in (*self._always, *self._sometimes):
            if not place.is_same():
                return f"{place.owner} has changed"
        for tensor, array, mark, hooks in self._tensors:
            if tensor._array is not array or tensor._requires_grad is not mark:
                return "a tensor has other memory, or requires grad where it did not"
            if _hooks_of(tensor) != hooks:
                return "a tensor has other hooks"
        return "gradients are there, or are not there, where it was otherwise; or arguments share memory"

    # -- running ----------------------------------------------------------------------------------------------------------------
    def settle(self, made: Callable[[Program, int], Any]) -> None:
        """After a replay by Python: have machine code do the next ones. A table that was good for nothing is made anew, later and later.

        Args:
            made: function of a program and the number of its replays, see ``_machine``.
        """
        self._replayed += 1
        if self._replayed >= self._wait:
            self.direct = made(self, self._replayed)
            self._wait = max(2 * self._replayed, 32) if self.direct is not None else self._replayed + 16

    def _prepare(self, given: Sequence[Tensor]) -> None:
        """Make what runs the segments; ``given`` are the tensors among the arguments of the last recording."""
        self.direct = None
        self._leaves: list[Any] = []
        self._firsts: dict[Any, list[Value]] = {}
        places = {id(tensor): i for i, tensor in enumerate(given)}
        self._hooks: dict[int, tuple[Any, ...]] = {}
        self._each(self.root, places)
        if self._hooks:
            self.check = _with_hooks(self.check, self._hooks)
        self._are_gradients_alike = _gradients_of(self._leaves)
        self.root.needs()
        self._ready(self.root)
        self.run = self._along_branches if self.root.look is not None else self._directly()

    def _each(self, segment: Segment, places: dict[int, int]) -> None:
        if segment.path is not None:
            for leaf, form in segment.path.leaves:
                entry = (leaf if leaf.__class__ is int else places.get(id(leaf), leaf), form)
                if entry[0] is not leaf:
                    self._hooks[entry[0]] = _hooks_of(leaf)
                if not any(entry[0] is other for other, _ in self._leaves):
                    self._leaves.append(entry)
            segment.path.leaves = list(self._leaves)
        for child in segment.children.values():
            self._each(child, places)

    def _ready(self, segment: Segment) -> None:
        """Lower segments that are new, or of which more is wanted."""
        wanted = list(dict.fromkeys([*segment.outputs, *segment.wanted]))
        if segment.run is None or wanted != segment.outputs_ready:
            segment.prepare(self._noted)
        if segment.refusals is None:
            segment.refusals = Refusals(segment.nodes)
        if segment.path is not None and segment.path._run is None:
            segment.path.prepare(self._noted)
        for child in segment.children.values():
            self._ready(child)

    def _noted(self, graph: Graph) -> Any:
        self.graphs.append(graph)
        return self._lower(graph)

    def _directly(self, may_raise: bool = True) -> Callable[[Sequence[Tensor], Any, Any], Any]:
        """``run`` of a program without looks: one graph, whose arrays are put together in one expression.

        Args:
            may_raise: whether calls that raise are those of the program, which leave behind what it leaves.
        """
        segment, path = self.root, self.root.path
        scope: dict[str, Any] = {"segment": segment, "path": path, "ShapeChanged": ShapeChanged, "changed": self._changed}
        scope["AS_WRITTEN"] = AS_WRITTEN
        places = {value: f"given[{i}]._array" for i, value in enumerate(self._inputs)}
        for i, (value, leaf) in enumerate(self._gradients.items()):
            scope[f"leaf{i}"], places[value] = leaf, f"leaf{i}._grad._array"
        before, more = self._extra(scope)
        places.update(more)
        made = {value: f"made[{i}]" for i, value in enumerate(segment.outputs_ready)}
        arrays = ", ".join(places[value] for value in segment.inputs)
        ends = [made.get(before_writes(value)) or places[before_writes(value)] for value in path.outputs]
        in_order = ends == [f"made[{i}]" for i in range(len(ends))]
        lines = ["def run(given, args, kwargs):", *before]
        if path.dropped:
            scope["dropped"] = path.dropped
            lines += ["    for leaf in dropped:", "        leaf._grad = None"]
        raised, saving = self._raising(scope) if may_raise else ([], [])
        lines += [*saving, "    try:", f"        made = segment.run([{arrays}])", "    except ShapeChanged:", "        return changed()"]
        lines += [
            *raised,
            f"    return path.end({'made' if in_order else '[' + ', '.join(ends) + ']'}, given, args, kwargs)",
        ]
        exec("\n".join(lines), scope)
        run: Callable[[Sequence[Tensor], Any, Any], Any] = scope["run"]
        return run

    def _raising(self, scope: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Lines for a call that raises, and those before any call that save what it may change."""
        refusals, path = self.root.refusals, self.root.path
        if not refusals.are_there:
            return [], []
        if refusals.undo is None:
            return ["    except Exception:", "        return AS_WRITTEN"], []
        if not refusals.come_after(path.gradients):
            scope["gone"] = path.gone
            return ["    except Exception:", "        for leaf in gone:", "            leaf._grad = None", "        raise"], []
        scope.update(save=refusals.undo.save, have=self._have)
        return ["    except Exception:", "        for put in back:", "            put()", "        return AS_WRITTEN"], [
            "    back = save(have(given))"
        ]

    def _have(self, given: Sequence[Tensor]) -> dict[Value, Any]:
        """The arrays that a call begins with."""
        have: dict[Value, Any] = dict(zip(self._inputs, [tensor._array for tensor in given], strict=True))
        for value, leaf in self._gradients.items():
            grad: Any = getattr(leaf, "_grad", None)
            have[value] = None if grad is None else grad._array
        return have

    def _extra(self, scope: dict[str, Any]) -> tuple[list[str], dict[Value, str]]:
        """Lines before a run, and expressions for inputs that are no tensors' arrays."""
        return [], {}

    def _changed(self) -> Any:
        """A result had another shape than the one recorded."""
        if self.root.undo.is_needed:
            raise RuntimeError("a result of a compiled program has a shape that depends on values, and memory was written to already")
        self.misses += 1
        return MISSED

    def _along_branches(self, given: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        """The result of a call that fits, or ``MISSED``, in which case nothing has happened."""
        segment = self.root
        have = self._have(given)
        back: list[Any] = []
        while True:
            undo = segment.undo if segment.look is not None else segment.refusals.undo
            if undo is not None and undo.is_needed:
                back.append(undo.save(have))
            assert segment.run is not None
            try:
                made = segment.run([have[value] for value in segment.inputs])
            except ShapeChanged:
                if segment.look is None and segment.undo.is_needed:
                    raise
                return self._undone(back)
            except Exception:
                if not segment.refusals.are_there:
                    raise
                self._undone(back)
                return AS_WRITTEN
            have.update(zip(segment.outputs_ready, made, strict=True))
            if segment.look is None:
                path = segment.path
                return path.end([have[value] for value in self._first_values(path)], given, args, kwargs)
            child = segment.children.get(what_is_seen(segment.look, have))
            if child is None:
                return self._undone(back)
            segment = child

    def _first_values(self, path: Any) -> list[Value]:
        """The values whose memory the outputs of a path have, found once."""
        found = self._firsts.get(path)
        if found is None or len(found) != len(path.outputs):
            found = self._firsts[path] = [before_writes(value) for value in path.outputs]
        return found

    def _undone(self, back: list[Any]) -> Any:
        for functions in reversed(back):
            for function in functions:
                function()
        self.misses += 1
        return MISSED

    def add(self, recording: Recording) -> bool:
        """Take a recording that went another way; whether it could be joined to the others."""
        if recording.failure is not None or self.branches >= _MOST_BRANCHES:
            self.failure = recording.failure or f"more than {_MOST_BRANCHES} ways through it: values that Python looks at vary too much"
            return False
        recorder = recording.recorder
        own = self._of_backward(recording)
        inputs = [value for value in recorder.inputs if value not in recorder.gradients and value not in own]
        mapping: dict[Value, Value] = dict(zip(inputs, self._inputs, strict=True))
        by_leaf = {id(leaf): value for value, leaf in self._gradients.items()}
        for value, leaf in recorder.gradients.items():
            if id(leaf) in by_leaf:
                mapping[value] = by_leaf[id(leaf)]
            else:
                self._gradients[value] = leaf
        segments = recording.segments()
        here = self.root
        for position, segment in enumerate(segments):
            if (
                not match(segment.nodes, here.nodes, mapping)
                or segment.look is None
                or here.look is None
                or segment.look.how != here.look.how
            ):
                self.failure = "it does not go the same way twice, though it sees the same values"
                return False
            child = here.children.get(segment.look.key)
            if child is None:
                self._graft(here, segment.look.key, segments[position + 1 :], mapping)
                self._prepare(recording.arguments.tensors)
                recording.arguments.let_go()
                return True
            here = child
        return False

    def _graft(self, here: Segment, key: Any, rest: list[Segment], mapping: dict[Value, Value]) -> None:

        def now(value: Value) -> Value:
            return mapping.get(value, value)

        forms = {old: new for new, old in mapping.items() if new.shape != old.shape or new.strides != old.strides}
        for segment in rest:
            segment.forms = forms
            for node in segment.nodes:
                node.take(now)
            segment.wanted = dict.fromkeys(before_writes(now(value)) for value in segment.wanted)
            if segment.look is not None:
                segment.look.values = [now(value) for value in segment.look.values]
            if segment.path is not None:
                segment.path.mapped(mapping)
            here.children[key] = segment
            here, key = segment, segment.look.key if segment.look is not None else None
            segment.undo = type(segment.undo)(segment.nodes)
        self.branches += 1


def _hooks_of(tensor: Tensor) -> tuple[Any, ...]:
    """The hooks of a leaf, which run in backward passes."""
    members = tensor.__dict__
    return (*members.get("_backward_hooks", {}).values(), *members.get("_post_accumulate_grad_hooks", {}).values()) if members else ()


def _with_hooks(check: Callable[[Any, Any], Any], hooks: dict[int, tuple[Any, ...]]) -> Callable[[Any, Any], Any]:
    """``check`` of arguments, of which some have to have these hooks, too."""

    def checked(args: Any, kwargs: Any) -> Any:
        given = check(args, kwargs)
        return given if given is not None and all(_hooks_of(given[place]) == own for place, own in hooks.items()) else None

    return checked


def _look_at(places: list[Place]) -> Callable[[], bool]:
    """A function that tells whether places have what they had; comparisons by identity first."""
    scope: dict[str, Any] = {"places": places}
    conditions, slow = [], []
    for i, place in enumerate(places):
        if not place.text:
            slow.append(place)
            continue
        scope[f"it{i}"], scope[f"v{i}"] = place.it, place.saved[0]
        conditions.append(f"{place.text.format(it=f'it{i}')} is v{i}")
    scope["slow"], scope["quick"] = slow, [place for place in places if place.text]
    lines = ["def look():", "    try:", f"        same = {' and '.join(conditions) or 'True'}"]
    lines += [
        "    except (KeyError, ValueError):",
        "        return False",
        "    if not same and not all(place.is_same() for place in quick):",
    ]
    lines += ["        return False", "    return all(place.is_same() for place in slow)" if slow else "    return True"]
    exec("\n".join(lines), scope)
    made: Callable[[], bool] = scope["look"]
    return made


def _gradients_of(leaves: list[Any]) -> Callable[[Sequence[Tensor]], bool]:
    """A function that tells whether leaves (or arguments, by place) have gradients of the given forms, or none."""
    scope: dict[str, Any] = {"Tensor": Tensor}
    conditions = []
    for i, (leaf, form) in enumerate(leaves):
        scope[f"leaf{i}"], scope[f"form{i}"] = leaf, form
        owner = f"given[{leaf}]" if leaf.__class__ is int else f"leaf{i}"
        if form is None:
            conditions.append(f"{owner}._grad is None")
        else:
            text = f"(g := {owner}._grad).__class__ is Tensor and ((a := g._array).shape, a.strides, a.dtype) == form{i}"
            conditions.append(f"({text})")

    def slowly(given: Sequence[Tensor]) -> bool:
        for leaf, form in leaves:
            grad = getattr(given[leaf] if leaf.__class__ is int else leaf, "_grad", None)
            if grad is None or form is None:
                if grad is not form:
                    return False
            elif grad.__class__ is not Tensor or (grad._array.shape, grad._array.strides, grad._array.dtype) != form:
                return False
        return True

    scope["slowly"] = slowly
    body = " and ".join(conditions) or "True"
    lines = ["def alike(given):", "    try:", f"        return {body}", "    except AttributeError:  # a slot that nobody has set"]
    exec("\n".join([*lines, "        return slowly(given)"]), scope)
    made: Callable[[Sequence[Tensor]], bool] = scope["alike"]
    return made


def _always_true() -> bool:
    return True


def record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arguments: Arguments | None = None,
    prepare: Callable[[Recorder], Any] | None = None,
) -> Recording:
    """Run a function as it is written, recorded; ``prepare`` is called with the recorder before."""
    return Recording(function, args, kwargs, Arguments(args, kwargs) if arguments is None else arguments, prepare)
