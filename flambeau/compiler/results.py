"""From the arrays that a replay gives back to what the program returned, and to what it left behind at tensors.

``Ending`` looks at the result of the recorded run once and writes a function that makes the like of it: tensors around new arrays, the
caller's own tensors where the program gave those back, gradients of leaves, marks at storages that were written to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..capture.graph import Value, before_writes
from ..capture.memory import root_of
from ..capture.recorder import Recorder, Step
from ..core.shape import Size
from ..core.state import INFERENCE
from ..core.tape.node import Node, Output, complain_freed, edge_of, new_node
from ..core.tensor import Tensor, new_storage, share, storage_of, wrap
from ..utils._pytree import tree_flatten, tree_unflatten
from .surroundings import PLAIN

__all__ = ["Ending", "FreedBackward", "Refused"]


_NOTHING = np.empty(0)
_LARGE = 1 << 18  # bytes of gradients


class Refused(Exception):
    """A result or a change that cannot be made again; the message says which."""


class FreedBackward(Node):
    """History of a result whose backward pass has run inside of the compiled program."""

    __slots__ = ()
    saved = None
    frees = True

    def apply(self, grad: Any) -> Any:
        complain_freed(self)

    def name(self) -> str:
        return "CompiledFunctionBackward"


def _freed(array: np.ndarray, given: Sequence[Tensor], leaves: tuple[Tensor, ...]) -> Node:
    """A node whose gradient would go to the arguments and to ``leaves``."""
    edges = (*[edge for tensor in given if (edge := edge_of(tensor)) is not None], *leaves)
    return new_node(FreedBackward, edges, None, None, array.shape, array.dtype)


class Ending:
    """The end of a recorded run.

    Attributes:
        outputs: the Values that the rest of the program's effects need.
        roots: places among the tensors that it returned with a history that can still be gone through, and those tensors.
        finish: function (arrays of ``outputs``, tensors among the arguments, history) -> the program's result. ``history`` gives the nodes
            of the tensors in ``roots`` (see ``backward``), or is None.
        leaves: leaves whose ``grad`` the program read or set, with what it was before: None, or (shape, strides, dtype).
        gone: leaves whose gradients the program drops before it does anything else. dropped: the same if these are large: new ones may take
            their memory.
        gradients: the Values of gradients that leaves get.
        steps: what ``finish`` does, each by a word and operands, and the text of the result; None where there is more to it.
    """

    def __init__(self, recorder: Recorder, given: Sequence[Tensor], known: dict[int, Tensor], kept: Callable[[Any], bool], result: Any):
        self._recorder, self._given, self._known, self._kept = recorder, list(given), known, kept
        self.outputs: list[Value] = []
        self.roots: list[Tensor] = []
        self.leaves: list[tuple[Tensor, Any]] = []
        self.gone: list[Tensor] = []
        self.dropped: list[Tensor] = []
        self.gradients: list[Value] = []
        self._lines: list[str] = []
        self.steps: list[tuple[Any, ...]] | None = []
        self._scope: dict[str, Any] = {"wrap": wrap, "share": share, "storage_of": storage_of, "Output": Output, "watch": _watch}
        self._made: dict[int, str] = {}  # variables of tensors of the result, by id
        self._watched: set[str] = set()
        self._storages: dict[int, str] = {}  # variables of the first tensor over some memory, by id of the root
        self._owners = {id(root_of(tensor._array)): (f"given[{i}]", tensor) for i, tensor in enumerate(self._given)}
        for tensor in known.values():
            if tensor._array.__class__ is np.ndarray:
                self._owners.setdefault(id(root_of(tensor._array)), (self._constant(tensor), tensor))
        self._gradients()
        self._drops()
        self.text = self._text(result)
        if len(self.roots) == 1:
            self._lines = [line.replace("Output(history, 0)", "history") for line in self._lines]
        self._bumps()
        self._lines.append(f"return {self.text}")
        self.finish = self._function()
        del self._recorder, self._known, self._kept, self._given

    # -- writing -----------------------------------------------------------------------------------------------------------------
    def _function(self) -> Callable[..., Any]:
        exec("def finish(outs, given, history):\n    " + "\n    ".join(self._lines), self._scope)
        made: Callable[..., Any] = self._scope["finish"]
        return made

    def watch(self, root: int) -> None:
        """The backward pass needs this memory, by its root's id: where it is a result's, a write to that before then is an error."""
        name = self._storages.get(root)
        if name is not None and name not in self._watched:
            self._watched.add(name)
            self.steps = None
            self._lines.insert(-1, f"watch(history, {name})")
            self.finish = self._function()

    def _does(self, *step: Any) -> None:
        """Note a step, or that there is one which has no word."""
        if not step:
            self.steps = None
        elif self.steps is not None:
            self.steps.append(step)

    def _constant(self, value: Any) -> str:
        name = f"k{len(self._scope)}"
        self._scope[name] = value
        return name

    def _output(self, array: np.ndarray) -> str:
        value = self._recorder.value(array)
        for i, other in enumerate(self.outputs):
            if other is value:
                return f"outs[{i}]"
        self.outputs.append(value)
        return f"outs[{len(self.outputs) - 1}]"

    # -- the result --------------------------------------------------------------------------------------------------------------
    def _text(self, value: Any) -> str:
        """An expression that makes the like of ``value``."""
        kind = value.__class__
        if isinstance(value, Tensor):
            return self._tensor(value)
        if kind is float and (text := self._flow(value)) is not None:
            return text
        if isinstance(value, PLAIN):
            return self._constant(value)
        if self._kept(value):
            return self._constant(value)
        if kind is tuple or kind is list:
            items = [self._text(item) for item in value]
            return f"[{', '.join(items)}]" if kind is list else f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if kind is dict:
            return "{" + ", ".join(f"{self._constant(key)}: {self._text(item)}" for key, item in value.items()) + "}"
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            fields = ", ".join(self._text(item) for item in value)
            return f"{self._constant(kind)}({fields})" if hasattr(kind, "_make") else f"{self._constant(kind)}([{fields}])"
        if kind is Size:  # of which ``tree_unflatten`` makes a tuple, as PyTorch's does
            return f"{self._constant(kind)}([{', '.join(self._text(item) for item in value)}])"
        leaves, spec = tree_flatten(value)
        if len(leaves) == 1 and leaves[0] is value:
            if isinstance(value, tuple) or kind.__module__.partition(".")[0] == __name__.partition(".")[0]:  # sizes, devices, layouts
                return self._constant(value)
            raise Refused(f"it returns an object of class {kind.__name__}")
        items = [self._text(leaf) for leaf in leaves]
        self._scope["tree_unflatten"] = tree_unflatten
        return f"tree_unflatten([{', '.join(items)}], {self._constant(spec)})"

    def _flow(self, number: float) -> str | None:
        """An expression for a number that was read from a tensor and is only returned."""
        for other, value in self._recorder.flows:
            if other is number:
                array = self._recorder.sample(value)
                if self._recorder.value(array) is not value:
                    raise Refused("it writes to a tensor whose value it returns")
                self._does()
                return f"wrap({self._output(array)}).item()"
        return None

    def _tensor(self, tensor: Tensor) -> str:
        for i, other in enumerate(self._given):
            if other is tensor:
                return f"given[{i}]"
        if id(tensor) in self._known:
            return self._constant(tensor)
        if id(tensor) in self._made:
            return self._made[id(tensor)]
        if tensor.__class__ is not Tensor or tensor._array.__class__ is not np.ndarray:
            raise Refused(f"it returns a {type(tensor).__name__} over {type(tensor._array).__name__}")
        name = self._made[id(tensor)] = f"t{len(self._made)}"
        self._lines.append(f"{name} = {self._new(tensor, name)}")
        self._history(tensor, name)
        return name

    def _new(self, tensor: Tensor, name: str) -> str:
        array, root = tensor._array, root_of(tensor._array)
        text = self._output(array)
        owner = self._owners.get(id(root))
        if owner is not None:
            if tensor._requires_grad not in (False, INFERENCE) or owner[1]._requires_grad not in (False, INFERENCE):
                raise Refused("it returns a view of a tensor from outside, of which one requires grad")
            self._does()
            return f"share({text}, storage_of({owner[0]}))"
        if id(root) in self._storages:
            self._does()
            return f"share({text}, storage_of({self._storages[id(root)]}))"
        self._storages[id(root)] = name
        self._does("tensor", name, self.outputs.index(self._recorder.value(array)))
        if array.ndim > 1 and not array.flags.c_contiguous:
            self._scope["note_order"] = _note_order
            self._does("order", name)
            return f"note_order(wrap({text}))"
        return f"wrap({text})"

    def _history(self, tensor: Tensor, name: str) -> None:
        mark = tensor._requires_grad
        if tensor._node is not None:
            if _is_freed(tensor._node):
                self._scope["freed"] = _freed
                self._scope["leaves"] = tuple([each for each in self._known.values() if each._requires_grad is True and each._node is None])
                self._lines += [f"{name}._node = freed({name}._array, given, leaves)", f"{name}._requires_grad = True"]
                self._does("freed", name)
            else:
                self._lines += [f"{name}._node = Output(history, {len(self.roots)})", f"{name}._requires_grad = True"]
                self.roots.append(tensor)
                self._does()
        elif mark is True:
            self._lines.append(f"{name}._requires_grad = True")
            self._does("requires", name)
        elif mark is not False and mark is not INFERENCE:
            raise Refused("it returns a view, made without grad mode, of a tensor that requires grad")

    # -- what it left behind -----------------------------------------------------------------------------------------------------
    def _gradients(self) -> None:
        recorder = self._recorder
        moved = {id(param) for node in recorder.nodes if isinstance(node.op, Step) for param in node.op.params}
        read = {id(leaf) for leaf in recorder.gradients.values()} | moved
        given = {id(tensor): i for i, tensor in enumerate(self._given)}
        order = {id(tensor): i for i, tensor in enumerate((*self._given, *self._known.values()))}
        for tensor, array, grad, node, mark in sorted(recorder.before, key=lambda entry: order.get(id(entry[0]), -1)):
            if tensor._array is not array:
                raise Refused("it gives a tensor other memory")
            if tensor._node is not node or tensor._requires_grad is not mark:
                raise Refused("it changes the history of a tensor from outside, or whether it requires grad")
            now = getattr(tensor, "_grad", None)
            if now is grad and id(tensor) not in read:
                continue
            if id(tensor) not in given and id(tensor) not in self._known:
                raise Refused("it changes the gradient of a tensor that is not watched")
            form = None if grad is None else (grad._array.shape, grad._array.strides, grad._array.dtype)
            self.leaves.append((tensor, form))
            if now is not grad or id(tensor) in moved:
                i = given.get(id(tensor))
                self._gradient(self._constant(tensor) if i is None else f"given[{i}]", now, tensor if i is None else i)

    def _drops(self) -> None:
        recorder = self._recorder
        kept = {id(leaf) for leaf in recorder.gradients.values()}
        found = [(tensor, grad) for tensor, _, grad, _, _ in recorder.before if id(tensor) in (recorder.dropped or ())]
        found = [(tensor, grad) for tensor, grad in found if id(tensor) in self._known and id(tensor) not in kept]
        self.gone = [tensor for tensor, _ in found]
        if sum(grad._array.nbytes for _, grad in found if grad._array.__class__ is np.ndarray) >= _LARGE:
            self.dropped = self.gone

    def _gradient(self, owner: str, now: Any, leaf: Any) -> None:
        if now is None:
            self._lines.append(f"{owner}._grad = None")
            self._does("gradient", leaf, None)
            return
        if id(now) in self._known:
            self._does()
            self._lines.append(f"{owner}._grad = {self._constant(now)}")
            return
        if now.__class__ is not Tensor or now._node is not None or now._requires_grad or now._array.__class__ is not np.ndarray:
            raise Refused("it leaves a gradient that has a history, or is sparse")
        self.gradients.append(self._recorder.value(now._array))
        name = self._made.setdefault(id(now), f"t{len(self._made)}")
        self._lines += [f"{name} = {self._new(now, name)}", f"{owner}._grad = {name}"]
        self._does("gradient", leaf, name)

    def _bumps(self) -> None:
        """Storages of tensors from outside that were written to change their versions; a step of an optimizer does that by itself."""
        nodes = self._recorder.nodes
        by_steps = {before_writes(value) for node in nodes if isinstance(node.op, Step) for value in node.writes}
        by_steps -= {before_writes(value) for node in nodes if not isinstance(node.op, Step) for value in node.overwritten}
        for after, before in self._recorder.first.items():
            if before.node is not None or before.place not in ("held", "input") or before in by_steps:
                continue
            if before in self._recorder.gradients:
                leaf = self._recorder.gradients[before]
                if root_of(self._recorder.sample(before)) is root_of(getattr(getattr(leaf, "_grad", None), "_array", _NOTHING)):
                    self._lines.append(f"storage_of({self._constant(leaf)}._grad)._bump()")
                    self._does("written", leaf, True)
                continue
            owner = self._owners.get(id(root_of(self._recorder.sample(after))))
            if owner is None:
                raise Refused("it writes to memory that is not watched")
            self._lines.append(f"storage_of({owner[0]})._bump()")
            self._does("written", next((i for i, each in enumerate(self._given) if each is owner[1]), owner[1]), False)


def _watch(history: Node, tensor: Tensor) -> None:
    assert history.saved is not None
    history.saved[1].append((new_storage(tensor), tensor.dtype.legacy, tuple(tensor._array.shape), "a result of the program"))


def _note_order(tensor: Tensor) -> Tensor:
    from ..core.tensor import note_order

    note_order(tensor)
    return tensor


def _is_freed(edge: Any) -> bool:
    """Whether a backward pass has gone through this history and dropped what it saved."""
    node = edge.node if edge.__class__ is Output else edge
    seen: set[int] = set()
    stack = [node]
    while stack:
        node = stack.pop()
        node = node.node if node.__class__ is Output else node
        if not isinstance(node, Node) or id(node) in seen:
            continue
        seen.add(id(node))
        if node.frees and node.saved is None:
            return True
        stack.extend(node.edges)
    return False
