"""One run of a program as a graph.

While a ``Recorder`` is on, this thread's calls take the slow path, and ``core.calls.dispatch.compute`` shows each kernel to it with its
arguments, after checks and promotion. Derivative rules and hooks are code over tensors, so a backward pass is recorded as it comes. What
does something else to arrays calls one of the methods ``wrote``, ``made``, ``constant``, ``draw`` and ``step``.

A value is known by memory: by the root of an array, and by which part of the root it shows. A write gives the root a new value, from which
live views derive anew.

    x          root -> value of x                     x[1:].add_(1):  view(x) -> add -> write -> new value of the root
    x[1:]      root, offset, shape, strides           afterwards x, and every view of it, means the new value

An array that is neither older than the recording nor the result of something recorded came from nowhere: code computed it that the
recorder did not see, and the graph would have it as a constant. The recording then fails, with a reason; the program goes on as if nothing
had been.
"""

from __future__ import annotations

import gc
import operator
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import chain, compress
from types import FunctionType
from typing import Any

import numpy as np

from ..core.calls import getters
from ..core.calls.dispatch import promotion
from ..core.calls.registry import primitive
from ..core.state import active, thread
from ..core.tensor import Tensor, wrap
from .flow import compared_with, is_only_returned
from .graph import VARYING, Graph, Node, Value
from .memory import address_of, root_of

__all__ = ["Look", "Recorder"]

_PACKAGE = __name__.partition(".")[0]
_SMALL = 64  # elements: more of them are no control flow
_TRUTH = frozenset(("__bool__",))
_NUMBERS = frozenset(("item", "tolist", "__int__", "__float__", "__index__", "__complex__", "__contains__"))


class Look:
    """A place where Python looks at values: the program behind it depends on what it saw.

    Attributes:
        position: number of nodes before it.
        values: what it looks at. how: 'bytes', 'truth', 'shapes', or a comparison and the number on its other side.
        key: what it saw. declared: whether it chooses a branch of ``torch.cond`` or ends a ``torch.while_loop``.
    """

    __slots__ = ("declared", "how", "key", "position", "values")

    def __init__(self, position: int, values: list[Value], how: Any, key: Any, declared: bool = False):
        self.position, self.values, self.how, self.key, self.declared = position, values, how, key, declared


def seen(arrays: Sequence[np.ndarray], how: Any) -> Any:
    """The key that a look at arrays gives."""
    if how == "shapes":
        return tuple([array.shape for array in arrays])
    if how.__class__ is tuple:
        return bool(how[0](arrays[0].item(), how[1]))
    return bool(arrays[0].any()) if how == "truth" else arrays[0].tobytes()


_call: Callable[[Callable[[], Any]], Any] = operator.call


def objects_of(classes: set[type]) -> list[Any]:
    """All objects of exactly these classes that the collector of circles knows.

    One call of C's finds them, in which no other thread runs: a tuple that another thread is making must have no second owner then.
    """
    everything: list[Any] = []
    found: list[Any] = []
    steps: tuple[Callable[[], Any], ...] = (
        partial(everything.extend, chain.from_iterable(map(gc.get_objects, (None,)))),
        partial(found.extend, compress(everything, map(classes.__contains__, map(type, everything)))),
        everything.clear,
    )
    deque(map(_call, steps), 0)
    return found


class Recorder:
    """Records what happens to arrays in its ``with`` block, in this thread.

    Args:
        inputs: arrays that are new at each call.
        names: what the program calls them.

    Attributes:
        nodes, inputs, held, looks: what was recorded.
        failure: why the recording is no good; None while it is.
        outside: the tensors that were there before and that the program used, by id.
        closures: the functions with variables of other functions that were there before.
        profile: the function with which ``sys.setprofile`` watches the program; kernels and steps of the library's own run without it.
    """

    def __init__(self, inputs: Sequence[np.ndarray] = (), names: Sequence[str] = ()):
        self.nodes: list[Node] = []
        self.inputs: list[Value] = []
        self.held: list[Value] = []
        self.looks: list[Look] = []
        self.failure: str | None = None
        self.outside: dict[int, Tensor] = {}
        self.gradients: dict[Value, Tensor] = {}  # inputs that are gradients of leaves, which are the tensors
        self.dropped: set[int] | None = None  # ids of tensors whose gradients are gone before the first operation
        self.first: dict[Value, Value] = {}  # memory that was written to: what it was at the beginning
        self._roots: dict[int, Value] = {}  # by id of the root
        self._samples: dict[Value, np.ndarray] = {}
        self._views: dict[Any, Value] = {}
        self._keep: list[Any] = []  # what has an id here lives
        self.entry: Any = None  # code of the function that is recorded
        self.profile: Any = None
        self.plain_values: Any = None  # function of arguments that gives kernels plain numbers, where there are others
        self.plain_arguments: Any = None  # the same of all that operations are called with
        self.sizes: Any = None  # function (tensor, name, arguments) that answers questions for sizes by symbolic ones
        self.makers: dict[Value, tuple[Any, tuple[Any, ...]]] = {}  # of constants: the factory and its arguments
        self.views: list[tuple[Any, list[Any], list[Value]]] = []  # calls of view operations: arguments, results
        self.flows: list[tuple[float, Value]] = []  # numbers that it only returns
        self.branching = False  # whether a value is asked for by torch.cond or torch.while_loop
        self._asking = 0
        self._told: set[int] = set()  # ids of roots whose write was told and is yet to be counted
        self._at = ""
        self._paused = 0
        self._closed: dict[int, str] = {}  # ids of roots that may not be read, and why
        self._survey()
        for i, array in enumerate(inputs):
            self.input(array, names[i] if i < len(names) else "")

    # -- on and off -------------------------------------------------------------------------------------------------------------
    def __enter__(self) -> Recorder:
        self._around = thread.observers
        getters.enter_recording()
        thread.observers, thread.recorder = (*thread.observers, self.observe), self
        thread.modes += 1
        active[:0] = (None,)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Record no more; doing it twice is harmless, so that whoever catches an interrupt may do it again."""
        if thread.recorder is self:
            thread.recorder, thread.observers = None, self._around
            thread.modes -= 1
            del active[-1]
            getters.leave_recording()

    def fail(self, reason: str) -> None:
        """The recording is no good; the first reason counts."""
        if self.failure is None:
            self.failure = reason

    def _survey(self) -> None:
        """Note all tensors that are there before, and whose gradients they are; and functions, as there is one look at all objects."""
        self._older: dict[int, Tensor] = {}
        self._grads: dict[int, Tensor] = {}
        self.before: list[tuple[Tensor, Any, Any, Any, Any]] = []
        self.closures: list[FunctionType] = []
        classes = {*_with_subclasses(Tensor), FunctionType}
        for each in objects_of(classes):
            if each.__class__ is FunctionType:
                if each.__closure__ is not None:
                    self.closures.append(each)
                continue
            array = getattr(each, "_array", None)
            if array.__class__ is not np.ndarray:
                continue
            grad = getattr(each, "_grad", None)
            root = root_of(array)
            self._older.setdefault(id(root), each)
            self._keep.append(root)
            if isinstance(grad, Tensor) and each._node is None and grad._array.__class__ is np.ndarray:
                self._grads[id(root_of(grad._array))] = each
            self.before.append((each, array, grad, each._node, each._requires_grad))

    # -- values -----------------------------------------------------------------------------------------------------------------
    def input(self, array: np.ndarray, name: str = "") -> Value:
        """Make ``array`` an input. Two inputs may not show the same memory."""
        root = root_of(array)
        if id(root) in self._roots:
            self.fail("two arguments show the same memory")
            return self._roots[id(root)]
        value = Value.like(array, "input", name=name)
        self.inputs.append(value)
        self._keep += [root, array]
        self._roots[id(root)], self._samples[value] = value, array
        return value

    def number(self, array: np.ndarray, name: str) -> Value:
        """A new input for a number, whose array is ``array`` in this run; it is none of the ``inputs``."""
        value = Value.like(array, "input", name=name)
        self._keep.append(array)
        self._roots[id(array)], self._samples[value] = value, array
        return value

    def _from_outside(self, root: np.ndarray) -> Value:
        """The value of memory that was there before, or of memory that came from nowhere."""
        leaf = self._grads.get(id(root))
        if leaf is not None:
            value = self.input(root, "grad")
            self.gradients[value] = leaf
            return value
        owner = self._older.get(id(root))
        if owner is None:
            self.fail(f"an array of shape {root.shape} came from nowhere{self._at}: code made it that the recorder does not see")
        value = Value.like(root, "held")
        self.held.append(value)
        self._keep.append(root)
        self._roots[id(root)], self._samples[value] = value, root
        return value

    def bumped(self, array: np.ndarray) -> None:
        """The storage over ``array`` counts a write, which ``wrote`` or ``call`` must have told."""
        if self._paused or self.failure is not None or array.__class__ is not np.ndarray:
            return
        root = id(root_of(array))
        if root in self._told:
            self._told.discard(root)
        else:
            self.fail("a write that the recorder does not see")

    def unwritten(self, array: np.ndarray) -> None:
        """The next write that is counted for ``array`` is none."""
        self._keep.append(array)
        self._told.add(id(root_of(array)))

    def value(self, array: np.ndarray, note: str = "") -> Value:
        """The value that ``array`` shows, or a view of one."""
        self._keep.append(array)
        root = root_of(array)
        if id(root) in self._closed:
            self.fail(self._closed[id(root)])
        value = self._roots.get(id(root))
        if value is None:
            value = self._from_outside(root)
        whole = self._samples[value]
        offset = address_of(array) - address_of(whole) if array.size and whole.size else 0
        if not offset and array.shape == whole.shape and array.strides == whole.strides and array.dtype == whole.dtype:
            return value
        key = (value, offset, array.shape, array.strides, array.dtype)
        if key not in self._views:
            made = Value.like(array, "view")
            self.nodes.append(Node("view", None, (value, offset, array.shape, array.strides), (made,), note=note))
            self._views[key], self._samples[made] = made, array
        return self._views[key]

    def found(self, array: np.ndarray) -> Value | None:
        """The value that ``array`` shows, if it is known; nothing is noted."""
        value = self._roots.get(id(root_of(array)))
        if value is None:
            return None
        whole = self._samples[value]
        offset = address_of(array) - address_of(whole) if array.size and whole.size else 0
        if not offset and array.shape == whole.shape and array.strides == whole.strides and array.dtype == whole.dtype:
            return value
        return self._views.get((value, offset, array.shape, array.strides, array.dtype))

    def known(self, array: np.ndarray) -> bool:
        """Whether the memory of ``array`` has a value."""
        return id(root_of(array)) in self._roots

    def sample(self, value: Value) -> np.ndarray:
        """The array that ``value`` was while recording; what it holds may have changed since."""
        return self._samples[value]

    def result(self, array: np.ndarray) -> Value:
        """A new value for an array that a node makes."""
        root = root_of(array)
        value = Value.like(array)
        self._keep += [root, array]
        self._roots[id(root)], self._samples[value] = value, array
        return value

    def argument(self, each: Any) -> Any:
        """An argument of a call as nodes have it."""
        if isinstance(each, Tensor):
            return self._tensor(each)
        kind = each.__class__
        if kind is list or kind is tuple:
            return kind([self.argument(item) for item in each])
        if isinstance(each, list) and type(each).__name__ == "Indices":
            return self._indices(each)
        if kind is np.ndarray:
            return self.value(each)
        return each.item() if isinstance(each, np.generic) and each.dtype.isbuiltin == 1 and each.dtype.kind in "biufc" else each

    def _tensor(self, tensor: Tensor) -> Value:
        array = tensor._array
        if array.__class__ is not np.ndarray:
            self.fail(f"a tensor of {array.__class__.__name__}, which lies elsewhere or is sparse")
            return Value((), (), np.dtype(np.float32))
        value = self.value(array)
        if not self.known(array) or value.place == "held" or value.place == "view":
            self.outside.setdefault(id(tensor), tensor)
        return value

    def _indices(self, indices: Any) -> list[Any]:
        """Index arrays per dimension, which an operation has as an attribute."""
        made: list[Any] = []
        for array in indices:
            if array is None or array.__class__ is int:
                made.append(array)
            elif self.known(array) or id(root_of(array)) in self._older:
                made.append(self.value(array))
            else:
                self.fail("an index that follows from a mask: how many elements it takes depends on values")
                made.append(None)
        return made

    # -- what happens -----------------------------------------------------------------------------------------------------------
    def observe(self, op: Any, values: Sequence[Any], run: Callable[[], Any]) -> Any:
        """A kernel runs; see ``core.state.observing``."""
        if self._paused or self.failure is not None:
            return run()
        if self.profile is None or not _is_of_library(op.kernel):
            return self._noted(op, values, run)
        sys.setprofile(None)  # each call and return of Python's would cost as much again
        try:
            return self._noted(op, values, run)
        finally:
            sys.setprofile(self.profile)

    def _noted(self, op: Any, values: Sequence[Any], run: Callable[[], Any]) -> Any:
        if self.dropped is None:
            self.dropped = {id(each) for each, _, grad, _, _ in self.before if grad is not None and getattr(each, "_grad", None) is None}
        self._at = f", to {op.name}"
        args = [each if name == "plan" else self.argument(each) for name, each in zip(op.names, values, strict=True)]
        self._at = ""
        results, is_tuple = run()
        note = f"{op.name}" if op.is_view else ""
        fresh = [not self.known(array) for array in results]
        if not any(fresh):
            shown = [self.value(array, note) for array in results]
            if op.is_view:
                self.views.append((op, args, shown))
            return results, is_tuple
        operands = [values[i] for i in op.positions]
        operands = [each for some in operands for each in (some if isinstance(some, list | tuple) else [some]) if each is not None]
        outs = [self.result(array) if new else Value.like(array) for array, new in zip(results, fresh, strict=True)]
        node = Node("op", op, args, outs, promotion(op, operands)[:2])
        self.nodes.append(node)
        if op.name in VARYING:
            self._look(outs, results, "shapes")
        return results, is_tuple

    def wrote(self, target: np.ndarray, source: np.ndarray) -> None:
        """``target`` got the contents of ``source``, an array of its shape and dtype."""
        if self._paused or self.failure is not None:
            return
        if target.__class__ is not np.ndarray or source.__class__ is not np.ndarray:
            self.fail("a write to a tensor that lies elsewhere")
            return
        contents, root = self.value(source), root_of(target)
        if source.shape != target.shape or source.dtype != target.dtype:
            self.fail("a write that casts or broadcasts")
            return
        part = self.value(target)
        self._changed(root, lambda whole: ("write", None, (contents, part, whole)))

    def _changed(self, root: np.ndarray, node_of: Callable[[Value], tuple[str, Any, tuple[Any, ...]]]) -> None:
        """The memory of ``root`` has other contents after a node."""
        whole = self._roots[id(root)]
        after = Value(whole.shape, whole.strides, whole.dtype, whole.place, None, whole.array, whole.name)
        self.nodes.append(Node(*node_of(whole), (after,)))
        self._renamed(root, whole, after)

    def _renamed(self, root: np.ndarray, before: Value, after: Value) -> None:
        self._samples[after] = self._samples[before]
        self._roots[id(root)] = after
        self._told.add(id(root))
        self.first[after] = self.first.pop(before, before)

    def constant(self, array: np.ndarray, maker: Any = None) -> None:
        """``array`` is new, and its contents follow from Python values that do not come from tensors.

        Args:
            maker: a factory and its arguments, where one made it.
        """
        if self._paused or self.failure is not None or array.__class__ is not np.ndarray or self.known(array):
            return
        root = root_of(array)
        copy = root.copy("K")
        held = Value.like(copy, "held", name="constant")
        held.fixed = True
        if maker is not None:
            self.makers[held] = maker
        self.held.append(held)
        self._samples[held] = copy
        self.nodes.append(Node("op", primitive("clone"), (held, None), (self.result(root),)))

    def made(self, factory: Any, values: Sequence[Any], made: Any) -> None:
        """A factory made an array or a tensor."""
        array = made._array if isinstance(made, Tensor) else made
        if self._paused or self.failure is not None or array.__class__ is not np.ndarray or self.known(array):
            return
        followed = factory.model
        for i, value in enumerate(values):
            if i != followed and _has_arrays(value):
                self.fail(f"{factory.name}() of arrays or tensors")
        if followed is not None and factory.names[followed] == "data" and _has_arrays(values[followed]):
            if not isinstance(values[followed], Tensor) and _has_arrays(values[followed]):
                self.fail(f"{factory.name}() of an array")
        if id(root_of(array)) not in self._older:
            self.constant(array, (factory, tuple(values)))

    def call(
        self, function: Callable[..., Any], args: Sequence[Any], results: Sequence[np.ndarray] = (), random: bool = False, writes: Any = ()
    ) -> None:
        """Python code that is no operation ran: ``function(*args)`` would give ``results`` again.

        Args:
            args: arrays, tensors and other values.
            results: new arrays.
            random: whether it draws random numbers.
            writes: arrays among ``args`` whose memory it changed.
        """
        if self._paused or self.failure is not None:
            return
        given = [self.argument(each) for each in args]
        roots = {id(root_of(array)): root_of(array) for array in writes}
        wholes = []
        for array in writes:
            self.value(array)
        for root in roots.values():
            wholes.append(self._roots[id(root)])
        there = set(map(id, given))
        given += [whole for whole in wholes if id(whole) not in there]
        outs = [self.result(array) for array in results]
        after = [Value(old.shape, old.strides, old.dtype, old.place, None, old.array, old.name) for old in wholes]
        self.nodes.append(Node("call", function, given, [*outs, *after], writes=tuple(wholes), random=random))
        for root, old, new in zip(roots.values(), wholes, after, strict=True):
            self._renamed(root, old, new)
            self._told.discard(id(root))  # it was counted in the call

    def computed(self, function: Callable[..., Any], operands: Sequence[Any], made: Sequence[np.ndarray], varies: bool) -> None:
        """See ``core.state.computed``."""
        if self._paused or self.failure is not None:
            return
        if len({id(root_of(array)) for array in made}) != len(made) or any(map(self.known, made)):
            self.fail("results of NumPy that share memory")
            return
        self.call(function if len(made) > 1 else lambda *given: _only(function(*given)), operands, made)
        if varies:
            self._look([self.value(array) for array in made], made, "shapes")

    def draw(self, fill: Callable[..., Any], array: np.ndarray, *operands: Any) -> None:
        """``fill(array, *operands)`` has filled a new array with random numbers."""
        if self._paused or self.failure is not None:
            return
        for cell in getattr(fill, "__closure__", None) or ():
            if _has_arrays(cell.cell_contents):
                self.fail("random numbers whose distribution depends on tensors")
        self.call(Draw(fill, array), operands, (array,), random=True)

    def drew_into(self, fill: Callable[[np.ndarray], Any], target: np.ndarray) -> None:
        """``fill`` has filled memory that was there with random numbers."""
        if self._paused or self.failure is not None:
            return
        array = target.copy()
        self.draw(fill, array)
        self.wrote(target, array)

    def step(self, run: Callable[..., Any], optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An optimizer makes a step: ``run(optimizer, *args, **kwargs)``."""
        if args or any(value is not None for value in kwargs.values()):
            self.fail("a step of an optimizer with a closure")
        params = [param for group in optimizer.param_groups for param in group["params"]]
        grads = [getattr(param, "_grad", None) for param in params]  # a slot that nobody may have set
        plain = all(grad is None or (grad.__class__ is Tensor and grad._array.__class__ is np.ndarray) for grad in grads)
        if not plain or any(param._array.__class__ is not np.ndarray for param in params):
            self.fail("a step of an optimizer whose parameters or gradients lie elsewhere or are sparse")
        with self.paused(), _Aside(self):
            result = run(optimizer, *args, **kwargs)
        moved = [param for param, grad in zip(params, grads, strict=True) if grad is not None]
        given = [grad for grad in grads if grad is not None]
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                if isinstance(value, Tensor) and value._array.__class__ is np.ndarray:
                    if self.known(value._array):
                        self.fail("the state of an optimizer is used outside of it")
                    self.close(value._array, "the state of an optimizer is used outside of it")
        for param in moved:
            self.outside.setdefault(id(param), param)
        self.call(Step(optimizer, params, moved), [*given, *moved], writes=[param._array for param in moved])
        return result

    def restarted(self, generator: Any, seed: int) -> None:
        """A generator starts at a seed."""
        self.call(Restart(generator, seed), (), random=True)

    def close(self, array: np.ndarray, reason: str) -> None:
        """From here on reading this memory is a failure."""
        root = root_of(array)
        self._keep.append(root)
        self._closed[id(root)] = reason

    @property
    def is_paused(self) -> bool:
        return bool(self._paused)

    def paused(self) -> Paused:
        """A block in which nothing is recorded; what it does is told by ``call``."""
        return Paused(self)

    # -- looking ----------------------------------------------------------------------------------------------------------------
    def _look(self, values: list[Value], arrays: Sequence[np.ndarray], how: Any) -> None:
        self.looks.append(Look(len(self.nodes), values, how, seen(arrays, how), self.branching))

    def position(self, index: Tensor) -> Any:
        """Number in a key for an index without dimensions; the program looks at it."""
        return index.item()

    def asked(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method of a tensor that shows values to Python is called."""
        if self._paused or self._asking or self.failure is not None or not args or not isinstance(args[0], Tensor):
            return method(*args, **kwargs)
        array = args[0]._array
        if array.__class__ is np.ndarray:
            if name == "item" and array.size == 1 and array.dtype.kind == "f" and self._is_only_returned(sys._getframe(3)):
                number = method(*args)
                self.flows.append((number, self._tensor(args[0])))
                return number
            compared = compared_with(sys._getframe(3)) if name == "item" and array.size == 1 and array.dtype.kind in "fiu" else None
            if compared is not None:
                self._look([self._tensor(args[0])], [array], compared)
            elif name in _TRUTH and array.size == 1:
                self._look([self._tensor(args[0])], [array], "truth")
            elif name in _NUMBERS and array.size <= _SMALL:
                self._look([self._tensor(args[0])], [array], "bytes")
            else:
                self.fail(f"Tensor.{name}() shows values to Python")
        self._asking += 1
        try:
            return method(*args, **kwargs)
        finally:
            self._asking -= 1

    def _is_only_returned(self, frame: Any) -> bool:
        return frame.f_code is self.entry and is_only_returned(frame)

    # -- the result -------------------------------------------------------------------------------------------------------------
    def graph(self, outputs: Sequence[Value]) -> Graph:
        """All that was recorded."""
        writes = [(before, after) for after, before in self.first.items() if before.node is None]
        return Graph(self.nodes, self.inputs, self.held, outputs, writes)


class Paused:
    """See :meth:`Recorder.paused`."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Recorder):
        self._recorder = recorder

    def __enter__(self) -> None:
        self._recorder._paused += 1

    def __exit__(self, *exc_info: object) -> None:
        self._recorder._paused -= 1


class _Aside:
    """A block in which a paused recorder is no mode, so that calls are as quick as they are without it."""

    __slots__ = ("_observers", "_recorder")

    def __init__(self, recorder: Recorder):
        self._recorder = recorder

    def __enter__(self) -> None:
        self._observers, thread.observers = thread.observers, self._recorder._around
        thread.recorder = None
        thread.modes -= 1
        del active[-1]

    def __exit__(self, *exc_info: object) -> None:
        active[:0] = (None,)
        thread.modes += 1
        thread.observers, thread.recorder = self._observers, self._recorder


class Step:
    """A step of an optimizer: what a 'call' of one runs, with the gradients' arrays first.

    Attributes:
        optimizer: the optimizer; its options are read at each step.
        params: all of its parameters. moved: those that have gradients.
    """

    __slots__ = ("moved", "optimizer", "params", "rest")

    def __init__(self, optimizer: Any, params: list[Tensor], moved: list[Tensor]):
        self.optimizer, self.params, self.moved = optimizer, params, moved
        chosen = {id(param) for param in moved}
        self.rest = [param for param in params if id(param) not in chosen]

    def __call__(self, *arrays: np.ndarray) -> tuple[()]:
        for param, grad in zip(self.moved, arrays):
            param._grad = wrap(grad)
        for param in self.rest:
            param._grad = None
        self.optimizer.step()
        return ()

    def __repr__(self) -> str:
        return f"step of {type(self.optimizer).__name__}"


class Restart:
    """A seed that is set: what a 'call' of it runs."""

    __slots__ = ("generator", "seed")

    def __init__(self, generator: Any, seed: int):
        self.generator, self.seed = generator, seed

    def __call__(self) -> tuple[()]:
        self.generator._restart(self.seed)
        return ()

    def __repr__(self) -> str:
        return f"manual_seed({self.seed})"


class Draw:
    """A new array of random numbers: what a 'call' that draws runs.

    Args:
        fill: fills an array; it has the generator.
        like: an array of the shape, strides and dtype.
    """

    __slots__ = ("dtype", "fill", "order", "shape")

    def __init__(self, fill: Callable[[np.ndarray], Any], like: np.ndarray):
        self.fill, self.shape, self.dtype = fill, like.shape, like.dtype
        self.order = sorted(range(like.ndim), key=lambda dim: (-like.strides[dim], dim)) if not like.flags.c_contiguous else None

    def __call__(self, *operands: Any) -> np.ndarray:
        if self.order is None:
            array = np.empty(self.shape, self.dtype)
        else:
            array = np.empty([self.shape[dim] for dim in self.order], self.dtype).transpose(np.argsort(self.order))
        self.fill(array, *operands)
        return array

    def __repr__(self) -> str:
        return f"draw {self.dtype.name}{list(self.shape)}"


def _with_subclasses(cls: type) -> set[type]:
    """A class and all that are derived from it."""
    found, pending = set(), [cls]
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += type.__subclasses__(one)
    return found


@lru_cache(maxsize=1024)
def _is_of_library(kernel: Any) -> bool:
    """Whether a kernel is one of the library's, or of NumPy's: no code of a program runs in it."""
    return str(getattr(kernel, "__module__", None) or "numpy").partition(".")[0] in (_PACKAGE, "numpy")


def _only(made: Any) -> np.ndarray:
    return made[0] if made.__class__ is tuple else made


def _has_arrays(value: Any) -> bool:
    """Whether there is an array or a tensor in ``value``."""
    if isinstance(value, Tensor | np.ndarray):
        return True
    return isinstance(value, list | tuple) and any(_has_arrays(item) for item in value)
