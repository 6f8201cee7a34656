"""A recorded program cut where Python looked at values, as a tree.

A segment ends with a look; its children are what followed, by what was seen. A replay runs segments from the root on and follows what it
sees. Where it sees something new, it undoes what its segments did to memory from outside and to random generators, and the program runs
again as it is written, recorded: the tree gets a new branch. So every side effect of Python's happens once in calls that run Python, and
never in replays.

    segment 0: loss.backward() ... look: isfinite(norm)? --True--> segment 1: optimizer.step() ...
                                                          --False-> segment 2: nothing
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..capture.graph import Graph, Node, Value, before_writes, replaced, values_in
from ..capture.interpret import run_of
from ..capture.passes import simplified
from ..capture.recorder import Draw, Look, Restart, Step, seen
from ..core.random.generator import Generator, default_generator
from ..core.tensor import Tensor

__all__ = ["Segment", "graph_of", "match"]


_AS_THEY_ARE: Mapping[Value, Value] = MappingProxyType({})


class _Cutting:
    """Makes a graph of its own of some nodes of a recording; ``forms`` has values whose shapes some inputs have in their place."""

    def __init__(self, nodes: Sequence[Node], forms: Mapping[Value, Value]):
        self.forms = forms
        self.inputs: dict[Value, Value] = {}  # from values of the recording
        self.held: dict[Value, None] = {}
        self.now: dict[Value, Value] = {}  # the newest value of memory, by its first one
        self.own: dict[Value, Value] = {}
        self.nodes: list[Node] = []
        for node in nodes:
            self._add(node)

    def value(self, value: Value) -> Value:
        """A value of the recording in the new graph."""
        if value in self.own:
            return self.own[value]
        first = before_writes(value)
        if first is not value:
            self.own[value] = made = self.value(first)
            return made
        node = value.node
        if node is None and value.place == "held":
            self.held[value] = None
            self.own[value] = value
            return value
        if node is not None and node.kind == "view":  # of memory from before: once more, so that no two inputs show the same
            base, *rest = node.args
            made = Value(value.shape, value.strides, value.dtype, "view", name=value.name)
            self.nodes.append(Node("view", None, (self.value(base), *rest), (made,), note=node.note))
        else:
            form = self.forms.get(value, value)
            made = self.inputs[value] = Value(form.shape, form.strides, form.dtype, "input", name=value.name)
        self.own[value] = made
        return made

    def _add(self, node: Node) -> None:
        args = [replaced(arg, self.value) for arg in node.args]
        writes = tuple([self.value(value) for value in node.writes])
        outs = []
        for out in node.outs:
            made = self.own[out] = Value(out.shape, out.strides, out.dtype, out.place, None, out.array, out.name)
            outs.append(made)
            self.now[before_writes(out)] = made
        self.nodes.append(Node(node.kind, node.op, args, outs, node.dtypes, (), node.note, writes, node.random))

    def latest(self, value: Value) -> Value:
        """The value of its memory at the end."""
        return self.now.get(before_writes(value)) or self.value(value)

    def written(self) -> list[tuple[Value, Value]]:
        """Memory from outside that the nodes write to: as it was, as it is."""
        found: dict[Value, Value] = {}
        for node in self.nodes:
            for out in node.outs[len(node.outs) - len(node.overwritten) :] if node.overwritten else ():
                first = before_writes(out)
                if first.node is None:
                    found[first] = out
        return list(found.items())


def graph_of(
    nodes: Sequence[Node], outputs: Iterable[Value], first: Sequence[Value] = (), forms: Mapping[Value, Value] = _AS_THEY_ARE
) -> tuple[Graph, list[Value]]:
    """The graph of some nodes, and the values of the recording that are its inputs; those in ``first`` come first, needed or not."""
    cutting = _Cutting(nodes, forms)
    for value in first:
        cutting.value(value)
    results = [cutting.latest(value) for value in outputs]
    order = [*first, *[value for value in cutting.inputs if not any(value is each for each in first)]]
    graph = Graph(cutting.nodes, [cutting.inputs[value] for value in order], cutting.held, results, cutting.written())
    return graph, order


class Segment:
    """Nodes up to a look, or up to the program's end.

    Attributes:
        nodes: of the recording. look: what comes behind them; None at the end.
        children: segments by what the look saw. path: at the end, what makes the result.
        wanted: values that are needed behind this segment. refusals: see there; made with ``run``.
        forms: values of other shapes than those of the first recording, by the latter: what a look saw.
    """

    def __init__(self, nodes: Sequence[Node], look: Look | None, path: Any = None):
        self.nodes, self.look, self.path = list(nodes), look, path
        self.children: dict[Any, Segment] = {}
        self.forms: dict[Value, Value] = {}
        self.wanted: dict[Value, None] = dict.fromkeys(map(before_writes, look.values)) if look is not None else {}
        self.run: Callable[[Sequence[np.ndarray]], list[np.ndarray]] | None = None
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []  # what children need of it
        self.outputs_ready: list[Value] = []  # what ``run`` gives
        self.undo = Undo(self.nodes)
        self.refusals: Any = None

    def needs(self) -> dict[Value, None]:
        """Values from before that this segment and its children need; views of them stand for what they show."""
        needed: dict[Value, None] = {}
        made = {out for node in self.nodes for out in node.outs[: len(node.outs) - len(node.overwritten)]}
        for child in self.children.values():
            needed.update(child.needs())
        needed.update(self.wanted)
        self.outputs = [value for value in needed if value in made and value.node is not None]
        for node in self.nodes:
            needed.update(dict.fromkeys(map(before_writes, (*values_in(node.args), *node.writes))))
        return dict.fromkeys(value for each in needed if each not in made for value in _shown(each, made))

    def prepare(self, lower: Callable[[Graph], Any]) -> None:
        """Make ``run``."""
        outputs = list(dict.fromkeys([*self.outputs, *self.wanted]))
        graph, self.inputs = graph_of(self.nodes, outputs, forms=self.forms)
        self.outputs_ready = outputs
        varies = self.look is not None and self.look.how == "shapes"  # such results have no memory that could be planned
        self.run = run_of(simplified(graph)) if varies else lower(graph)


def _shown(value: Value, made: set[Value]) -> list[Value]:
    """The value that a view from an earlier segment derives from."""
    while value.node is not None and value.node.kind == "view" and value not in made:
        value = before_writes(value.node.args[0])
    return [value] if value not in made and (value.node is not None or value.place == "input") else []


class Undo:
    """Puts memory, gradients and random generators back to where they were before a segment ran."""

    def __init__(self, nodes: Sequence[Node]):
        self.steps = [node.op for node in nodes if isinstance(node.op, Step)]
        self.written: dict[Value, None] = {}
        self.streams: list[Generator] = []
        for node in nodes:
            for value in node.overwritten:
                first = before_writes(value)
                if first.node is None:
                    self.written[first] = None
            if node.random:
                self.streams += _streams(node.op)
        self.is_needed = bool(self.steps or self.written or self.streams)

    def save(self, have: dict[Value, np.ndarray]) -> list[Callable[[], Any]]:
        """Functions that put things back."""
        back: list[Callable[[], Any]] = []
        arrays = [value.array if value.place == "held" else have[value] for value in self.written]
        for step in self.steps:
            for param in step.params:
                back.append(_setter(param, getattr(param, "_grad", None)))
            for state in step.optimizer.state.values():
                arrays += [value._array for value in state.values() if isinstance(value, Tensor)]
        for array in arrays:
            if array is not None:
                back.append(_writer(array, array.copy("K")))
        for stream in {id(stream): stream for stream in self.streams}.values():
            back.append(_loader(stream, stream.state_bytes()))
        return back


def _setter(param: Tensor, grad: Any) -> Callable[[], Any]:
    return lambda: setattr(param, "_grad", grad)


def _writer(array: np.ndarray, copy: np.ndarray) -> Callable[[], Any]:
    return lambda: np.copyto(array, copy)


def _loader(stream: Generator, state: Any) -> Callable[[], Any]:
    return lambda: stream.load_state_bytes(state)


def _streams(function: Any) -> list[Generator]:
    """Generators that a 'call' draws from."""
    if isinstance(function, Restart):
        return [function.generator]
    if isinstance(owner := getattr(function, "__self__", None), Generator):
        return [owner]
    fill = function.fill if isinstance(function, Draw) else function
    cells = [cell.cell_contents for cell in getattr(fill, "__closure__", None) or ()]
    return [default_generator, *[each for each in cells if isinstance(each, Generator)]]


# -- a new branch ------------------------------------------------------------------------------------------------------------------
def match(new: Sequence[Node], old: Sequence[Node], mapping: dict[Value, Value]) -> bool:
    """Whether two recordings of the same part agree; ``mapping`` gets old values for new ones."""
    if len(new) != len(old):
        return False
    for one, other in zip(new, old, strict=True):
        if one.kind != other.kind or one.dtypes != other.dtypes or len(one.outs) != len(other.outs) or len(one.args) != len(other.args):
            return False
        if one.op is not other.op and (
            one.kind != "call" or type(one.op) is not type(other.op) or repr(one.op)[:20] != repr(other.op)[:20]
        ):
            return False
        if not all(_alike(a, b, mapping) for a, b in zip(one.args, other.args, strict=True)):
            return False
        mapping.update(zip(one.outs, other.outs, strict=True))
    return True


def _alike(a: Any, b: Any, mapping: dict[Value, Value]) -> bool:
    if a.__class__ is not b.__class__:
        return False
    if a.__class__ is Value:
        if a in mapping:
            return mapping[a] is b
        if a.fixed and b.fixed and np.array_equal(a.array, b.array, equal_nan=a.dtype.kind in "fc"):
            mapping[a] = b
            return True
        return a.place == "held" and a.array is b.array and mapping.setdefault(a, b) is b
    if a.__class__ is list or a.__class__ is tuple:
        return len(a) == len(b) and all(_alike(x, y, mapping) for x, y in zip(a, b, strict=True))
    if a.__class__ is np.ndarray:
        return np.array_equal(a, b)
    return a is b or bool(a == b) or (a != a and b != b)


def what_is_seen(look: Look, have: dict[Value, np.ndarray]) -> Any:
    """The key that a look gives now."""
    arrays = [have[before_writes(value)] if value.place != "held" or value.array is None else value.array for value in look.values]
    return seen(arrays, look.how)
