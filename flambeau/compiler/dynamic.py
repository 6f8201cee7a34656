"""Programs for many sizes: one template, and a plan for each of the sizes that came last.

    call -> generated guard (shapes with symbols, comparisons that Python made) -> sizes -> plan, or: bind the template, lower, run

A plan for new sizes is made from the template, without Python's part of the program. Its first run is one that can be taken back: where an
operation gives another shape than the template says, what was written is undone, and the caller records a program for these sizes alone.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ..capture.graph import Graph, Value, before_writes
from ..capture.interpret import ShapeChanged
from ..core.expressions import FUNCTIONS
from ..core.symbolic import Relation
from ..core.tensor import Tensor
from . import logs
from .arguments import Arguments, VariableSizes
from .dynamism import Wanted
from .programs import REFUSED, Path, Program, Recording
from .repeating import FAILURES, Kept, quietly
from .segments import Segment, graph_of
from .templates import Binding, Differs, Hole, Template, exact_parts
from .watching import recorder_with_watched_sizes
from .worlds import Sizes, arguments_in, other_sizes, recorder_with_sizes

__all__ = ["DynamicProgram", "generalized"]

_PLANS = 32  # for the sizes that came last
_REMEMBERED = 1024  # sizes that came once while there was no room
_LARGEST = 1 << 26  # elements of arguments in other worlds


class _End:
    """The parts of an ending that depend on sizes.

    Attributes:
        leaves: as ``Ending``'s, arguments by their places.
    """

    def __init__(self, template: Template, recordings: Sequence[Recording], told: Recording):
        endings = [recording.ending for recording in recordings]
        assert all(ending is not None for ending in endings)
        first: Any = endings[0]
        if any(ending._lines != first._lines for ending in endings):  # type: ignore[union-attr]
            raise Differs("it returns something else for different sizes")
        template.unify([ending.outputs for ending in endings])  # type: ignore[union-attr]
        self.first = first
        scopes = [ending._scope for ending in endings]  # type: ignore[union-attr]
        names = [name for name in first._scope if name not in ("__builtins__", "finish")]
        self._parts = {name: template.unify([scope[name] for scope in scopes]) for name in names}
        self._parts = exact_parts(template, self._parts, told.ending)
        self._varies = any(part.__class__ is Hole for part in self._parts.values())
        self.leaves = _leaves(recordings)

    def finish(self, binding: Binding) -> Callable[..., Any]:
        """The function that makes a call's result."""
        if not self._varies:
            made: Callable[..., Any] = self.first.finish
            return made
        ending = copy.copy(self.first)
        ending._scope = {name: binding.of(part) for name, part in self._parts.items()}
        made = ending._function()
        return made


def _leaves(recordings: Sequence[Recording]) -> list[Any]:
    """Leaves whose gradients count, arguments by their places."""
    lists = []
    for recording in recordings:
        places = {id(tensor): i for i, tensor in enumerate(recording.arguments.tensors)}
        assert recording.ending is not None
        lists.append([(places.get(id(leaf), leaf), form) for leaf, form in recording.ending.leaves])
    for others in lists[1:]:
        if len(others) != len(lists[0]) or any(a[0] is not b[0] and a[0] != b[0] for a, b in zip(others, lists[0], strict=True)):
            raise Differs("it leaves other gradients behind for different sizes")
        if any(a[1] != b[1] for a, b in zip(others, lists[0], strict=True)):
            raise Differs("there is a gradient whose size varies")
    return lists[0]


class _Back:
    """The parts of a recorded backward pass that depend on sizes."""

    def __init__(self, template: Template, recordings: Sequence[Recording]):
        backwards: list[Any] = [recording.backward for recording in recordings]
        self.first = backwards[0]
        if any((each is None) is not (self.first is None) for each in backwards):
            raise Differs("there is a backward pass for some sizes only")
        if self.first is None:
            return
        if any(not _same_targets(each.targets, self.first.targets) for each in backwards):
            raise Differs("gradients go elsewhere for different sizes")
        template.unify([each.inputs for each in backwards])
        template.unify([each.outputs for each in backwards])
        self.forms = template.unify([each.forms for each in backwards])
        self.strides = template.unify([each.strides for each in backwards])

    def bound(self, binding: Binding) -> Any:
        if self.first is None:
            return None
        made = copy.copy(self.first)
        made.inputs = [binding.value(value) for value in self.first.inputs]
        made.outputs = [None if value is None else binding.value(value) for value in self.first.outputs]
        made.forms, made.strides = binding.of(self.forms), binding.of(self.strides)
        return made


def _same_targets(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(x is y or (x.__class__ is int and x == y) for x, y in zip(a, b, strict=True))


class _Plan(Program):
    """The program for certain sizes: no guards, one segment."""

    def __init__(self, owner: DynamicProgram, binding: Binding):
        self.failure, self._lower, self.graphs, self.misses, self.direct = None, owner._lower, [], 0, None
        self.arguments = owner.arguments
        self._inputs = [binding.value(value) for value in owner._inputs]
        self._gradients = {binding.value(value): leaf for value, leaf in owner._gradients.items()}
        path = owner.path_for(binding)
        self.root = Segment(binding.nodes[: owner.end], None, path)
        self.root.wanted = dict.fromkeys(map(before_writes, path.outputs))
        self._prepare(())

    def _changed(self) -> Any:
        raise ShapeChanged("a result has a shape that does not follow from sizes")


class DynamicProgram(Program):
    """A program for many sizes.

    Args:
        recordings: of the call itself, and those in other worlds. told: the one with symbolic sizes. arguments: what has to fit.
        wanted, template: the symbols, and the graph.
        lower: see ``Program``. conditions: on the symbols.
    Attributes:
        plans: by sizes, the last used last. bound: how many were made.
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        told: Recording,
        arguments: Arguments,
        wanted: Wanted,
        template: Template,
        lower: Callable[[Graph], Any],
        conditions: Sequence[str] = (),
    ):
        recording = recordings[0]
        self.template, self.names = template, list(wanted.sizes)
        self._end, self._back = _End(template, recordings, told), _Back(template, recordings)
        self._path = Path(recording)
        self.end = recording.end
        self.plans: OrderedDict[tuple[int, ...], _Plan] = OrderedDict()
        self.bound = 0
        self._refused: set[tuple[int, ...]] = set()
        self._came: set[tuple[int, ...]] = set()
        super().__init__(recording, lower)
        self.arguments = arguments
        self.check = arguments.check
        self._path.arguments = arguments
        self._read = _reader(wanted)
        self.condition = " and ".join([*(f"{name} >= 2" for name in wanted.sizes), *conditions])

    def _made_of(self, recording: Recording) -> None:
        from .programs import _gradients_of

        self._leaves = self._end.leaves
        self._are_gradients_alike = _gradients_of(self._leaves)
        self.run = self._run

    def path_for(self, binding: Binding) -> Path:
        """The end of the program, and its backward pass."""
        path = copy.copy(self._path)
        path.finish, path.leaves = self._end.finish(binding), list(self._end.leaves)
        path.outputs = [binding.value(value) for value in self._path.outputs]
        path.saved = [binding.value(value) for value in self._path.saved]
        path.backward = self._back.bound(binding)
        if path.backward is not None:
            wanted = [value for value in path.backward.outputs if value is not None]
            path.graph, order = graph_of(binding.nodes[self.end :], wanted, path.backward.inputs)
            if order[len(path.backward.inputs) :] != path.saved:
                raise Differs("the backward pass needs other values")
        return path

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = super().fits(args, kwargs)
        return None if given is None or (self._refused and self._read(given) in self._refused) else given

    def _run(self, given: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        sizes = self._read(given)
        plan = self.plans.get(sizes)
        if plan is None:
            return self._first(sizes, given, args, kwargs) if self._has_room(sizes) else self._path.function(*args, **kwargs)
        try:
            self.plans.move_to_end(sizes)
        except KeyError:  # another thread has just dropped it
            pass
        return plan.run(given, args, kwargs)

    def _has_room(self, sizes: tuple[int, ...]) -> bool:
        """Whether sizes get a plan: if there are many of them, those that have come before. Others run as the program is written."""
        if len(self.plans) < _PLANS or sizes in self._came:
            return True
        if len(self._came) >= _REMEMBERED:
            self._came.clear()
        self._came.add(sizes)
        return False

    def _first(self, sizes: tuple[int, ...], given: Sequence[Tensor], args: Any, kwargs: Any) -> Any:
        """Make a plan and run it; ``REFUSED`` if there is none for these sizes."""
        back: list[Callable[[], Any]] = []
        try:
            binding = Binding(self.template, dict(zip(self.names, sizes, strict=True)))
            binding.check()
            plan = _Plan(self, binding)
            if plan.root.undo.is_needed:
                back = plan.root.undo.save(plan._have(given))
            result = plan._directly(may_raise=False)(given, args, kwargs)
        except (Differs, *FAILURES) as error:  # of whatever kind: the program, as it is written, raises those that are its own
            for function in back:
                function()
            self._refused.add(sizes)
            logs.note("dynamic", f"sizes {dict(zip(self.names, sizes, strict=True))} have a program of their own: {error}")
            return REFUSED
        self.bound += 1
        self.plans[sizes] = plan
        self.graphs = plan.graphs
        while len(self.plans) > _PLANS:
            self.plans.popitem(last=False)
        return result


def _reader(wanted: Wanted) -> Callable[[Sequence[Tensor]], tuple[int, ...]]:
    """Function that reads the values of the symbols off the arguments."""
    places = {name: place for place, name in reversed(wanted.symbols.items())}
    parts = [f"given[{places[name][0]}]._array.shape[{places[name][1]}]" for name in wanted.sizes]
    made: Callable[[Sequence[Tensor]], tuple[int, ...]] = eval(f"lambda given: ({', '.join(parts)},)")
    return made


# -- making one ------------------------------------------------------------------------------------------------------------------------
def generalized(recording: Recording, args: Any, kwargs: Any, wanted: Wanted, lower: Callable[[Graph], Any]) -> DynamicProgram:
    """The program of a recorded run for many sizes.

    Raises:
        Differs: there is none: it is not the same program for other sizes.
        ConstraintViolationError: the same, where sizes were marked with ``mark_dynamic``.
    """
    if recording.recorder.looks:
        raise Differs("Python looks at values")
    attempt = _Attempt(recording, args, kwargs, lower)
    reason: Exception = Differs("")
    choices = wanted.alternatives()
    tries = [("around", symbols) for symbols in choices]
    tries += [(how, symbols) for symbols in reversed(choices) for how in ("above", "below", "multiples")]
    for how, symbols in tries:
        try:
            return attempt.program(symbols, how)
        except Differs as error:
            reason = error
    wanted.violated(set(wanted.sizes))
    raise reason


class _Attempt:
    """Making a program for many sizes of a recorded run."""

    def __init__(self, recording: Recording, args: Any, kwargs: Any, lower: Callable[[Graph], Any]):
        self.recording, self.args, self.kwargs, self.lower = recording, args, kwargs, lower

    def program(self, wanted: Wanted, how: str) -> DynamicProgram:
        """The program, from what the run does in worlds of other sizes.

        Raises:
            Differs: it is another one there. ConstraintViolationError: see ``Wanted.violated``.
        """
        recording = self.recording
        with quietly(), Kept(recording) as kept:
            asked = Sizes(wanted, [wanted.sizes] * 2)
            self._ask(wanted, kept, asked, None, is_watched=True)
            self._refuse(wanted, asked)
            worlds = other_sizes(wanted, 2 if len(wanted.sizes) == 1 else 3, how, asked.allows)
            _bounded(recording.arguments.tensors, wanted, worlds)
            others = [self._again(wanted, world, kept) for world in worlds]
            env = Sizes(wanted, [wanted.sizes, *worlds])
            template = Template(env, [recording.recorder, *[other.recorder for other in others]])
            told = self._ask(wanted, kept, env, template)
            template.told(told.recorder)
            self._ask(wanted, kept, env, template, is_watched=True)
        self._refuse(wanted, env)
        sizes = _variable(env, wanted, template, recording.arguments.tensors)
        arguments = Arguments(self.args, self.kwargs, (), sizes)
        arguments.names = recording.arguments.names
        made = DynamicProgram([recording, *others], told, arguments, wanted, template, self.lower, sizes.conditions)
        arguments.let_go()
        return made

    @staticmethod
    def _refuse(wanted: Wanted, env: Sizes) -> None:
        """Complain of sizes that the program allows one number for."""
        wanted.violated(env.fixed)
        if env.fixed:
            raise Differs(f"{', '.join(sorted(env.fixed))} can be {[wanted.sizes[name] for name in sorted(env.fixed)]} only")

    def _again(self, wanted: Wanted, world: Any, kept: Kept, prepare: Any = None) -> Recording:
        """The program once more, in another world."""
        try:
            args, kwargs = arguments_in(world, wanted, self.recording.arguments, self.args, self.kwargs)
        except FAILURES as error:
            raise Differs(f"it raises {type(error).__name__} at other sizes ({error})") from None
        return kept.once_more(args, kwargs, None, prepare, "at other sizes")

    def _ask(self, wanted: Wanted, kept: Kept, env: Sizes, template: Template | None, is_watched: bool = False) -> Recording:
        """Run the program with symbolic sizes, to learn what it assumes of them; without a template those of arguments are known only."""
        inputs = {} if template is not None else dict(enumerate(wanted.shapes(self.recording.arguments.tensors)))

        def shape_of(recorder: Any, value: Value) -> Any:
            if template is not None:
                return template.shape_of(recorder, value)
            return inputs.get(recorder.inputs.index(value)) if value in recorder.inputs else None

        asking = (recorder_with_watched_sizes if is_watched else recorder_with_sizes)(env, shape_of)
        with asking:
            told = self._again(wanted, wanted.sizes, kept, asking.prepare)
        if len(told.recorder.nodes) != len(self.recording.recorder.nodes):
            raise Differs("it goes another way when it asks for sizes")
        return told


def _bounded(given: Sequence[Tensor], wanted: Wanted, worlds: Sequence[dict[str, int]]) -> None:
    total = 0
    for i, tensor in enumerate(given):
        for world in worlds:
            count = 1
            for dim, size in enumerate(tensor._array.shape):
                count *= world[wanted.symbols[i, dim]] if (i, dim) in wanted.symbols else size
            total = max(total, count)
    if total > _LARGEST:
        raise Differs("its arguments are too large to be tried at other sizes")


def _variable(env: Sizes, wanted: Wanted, template: Template, given: Sequence[Tensor]) -> VariableSizes:
    """The knowledge of sizes that the guard of arguments needs."""
    sizes = VariableSizes(wanted.symbols)
    for i, value in enumerate(template.recorder.inputs[: len(given)]):
        columns = zip(*template.strides_of(value), strict=True)
        sizes.strides[i] = "(" + "".join(f"{template.expression(column)}, " for column in columns) + ")"
    names = {name for name in FUNCTIONS if name[0].isalpha()}
    sizes.scope = {name: FUNCTIONS[name] for name in names}
    sizes.conditions = wanted.bounds() + [text_of(relation if truth else relation.negated) for relation, truth in env.guards]
    return sizes


def text_of(relation: Relation) -> str:
    """A comparison as an expression of Python's."""
    if relation.name == "not":
        return f"not ({text_of(relation.args[0])})"
    parts = [f"({text_of(arg)})" if isinstance(arg, Relation) else f"({arg})" for arg in relation.args]
    return f" {relation.name} ".join(parts)
