"""From a graph to launches: ``lower(graph)`` is a function that runs it without Python between kernels.

The first call runs the graph node by node and makes the plan meanwhile, so that kernels are tried on arrays as the program has them; later
calls replay the plan. A node becomes, by the first that succeeds:

    element-wise nodes and groups    a kernel of their program (``elementwise``)
    groups behind a product          a kernel of both (``epilogues``)
    groups along rows                a kernel of passes over a row (``rowwise``)
    copies, joins, writes            strided copies
    losses, products, ...            launches that ``rules`` knows
    any other native kernel          the launches that it makes, watched and verified (``launches``)
    everything else                  a step that Python does, with the operation's own kernel

Where there are no kernels (``FLAMBEAU_KERNELS=numpy``, no llvmlite), every node is Python's step.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays import native
from ..core.state import run_ignoring_fp
from ..kernels.compiler.build import NoKernel
from ..kernels.compiler.pool import pool
from . import driver, epilogues, launches, overwriting, recorder, rowwise, rules, updates
from .driver import Launch, Place, Plan, Reference, Step
from .fusion import factors, fused
from .graph import Graph, Node, Value, replaced, values_in
from .interpret import function_of, is_checked
from .launches import Captured
from .lifetimes import delayed, hastened, most_bytes
from .lookups import looked_up
from .memory import address_of, array_at, extent
from .planning import Memory, crowding, place, rounded, write_over
from .recomputation import recomputed
from .recurrence import opened

__all__ = ["Lowered", "NotLowered", "lower"]


class NotLowered(Exception):
    """A graph has to be run node by node."""


def lower(graph: Graph, fuse: bool = True) -> Lowered:
    """A function that runs ``graph`` by launches.

    Args:
        graph: after its passes; it stays as it is.
        fuse: whether element-wise nodes become groups.
    Returns:
        ``run(arrays) -> arrays``: for arrays that lie as the inputs did, new arrays of the outputs. Memory from outside that the program
        wrote to is written again. Any number of calls may run at a time.
    Raises:
        NotLowered: kernels are switched off, or there is no compiler for them, so that nothing would be gained.
    """
    if not native.switch.on:
        raise NotLowered("kernels are switched off")
    try:
        pool.start()
    except NoKernel as error:
        raise NotLowered(str(error)) from None
    if not fuse:
        return Lowered(graph)
    groups = delayed(hastened(epilogues.finished(fused(looked_up(opened(graph))))))
    return Lowered(_arranged(groups), groups)


def _arranged(graph: Graph) -> Graph:
    """A graph that needs less memory for its values."""
    return delayed(recomputed(graph, rules.scratch_of))


class Lowered:
    """A graph's replay; see ``lower``.

    Attributes:
        graph: what it runs.
        plan: how it is run; None before the first call, or the second where that one showed what kernels need.
    """

    def __init__(self, graph: Graph, groups: Graph | None = None):
        self.graph = graph
        self.plan: Plan | None = None
        self._groups = groups  # the graph before it was arranged; None where it is not to be arranged anew
        self._in_place = None if groups is not None else frozenset[Node]()  # nodes whose kernels are to need no memory; None: not known
        self._run: Callable[..., list[np.ndarray]] = self._first

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._run(arrays)

    def _first(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        trial = _Trial(self.graph, arrays, self._in_place or frozenset())
        outputs = run_ignoring_fp(trial.run)
        if self._is_arranged_anew() or self._is_crowded(trial):
            return outputs
        self.plan = trial.plan(_again(weakref.ref(self)))
        self._run = self.plan.run
        return outputs

    def _is_crowded(self, trial: _Trial) -> bool:
        """Whether other kernels are wanted for the next call, for those of this one need too much memory."""
        if self._in_place is not None:
            return False
        self._in_place = trial.crowded()
        return bool(self._in_place)

    def _is_arranged_anew(self) -> bool:
        """Whether there is another graph for the next call: by now it is known how much memory kernels need for themselves."""
        groups, self._groups = self._groups, None
        if groups is None or not any(map(rules.scratch_of, self.graph.nodes)):
            return False
        needed = most_bytes(self.graph, rules.scratch_of)
        if needed == most_bytes(self.graph, lambda node: 0):
            return False  # that memory is there when little else is
        graph = _arranged(groups)
        if most_bytes(graph, rules.scratch_of) >= needed:
            return False
        self.graph = graph
        return True


def _again(lowered: weakref.ref[Lowered]) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """Function that runs a graph as for the first time; it does not keep the graph's own function alive."""

    def again(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        owner = lowered()
        assert owner is not None
        return owner._first(arrays)

    return again


def _listed(function: Callable[..., Any]) -> Callable[..., list[np.ndarray]]:
    """A function's result, or its results, as a list."""

    def run(*args: Any) -> list[np.ndarray]:
        made = function(*args)
        return list(made) if made.__class__ is tuple or made.__class__ is list else [made]

    return run


class _Trial:
    """One run of a graph node by node, during which its plan is made.

    Attributes:
        in_place: nodes whose kernels are to need no memory for themselves.
    """

    def __init__(self, graph: Graph, arrays: Sequence[np.ndarray], in_place: frozenset[Node] = frozenset()):
        self.graph, self.in_place = graph, in_place
        self.root: dict[Value, tuple[Value, int]] = {}  # whose memory a value shows, and how many bytes from its beginning
        self.memory: dict[Value, Memory] = {}  # by root
        self.arrays: dict[Value, np.ndarray] = dict(zip(graph.inputs, arrays, strict=True))
        self.steps: list[Any] = []
        self.blocks: list[Memory] = []
        self.may_write_over: list[tuple[Memory, Memory]] = []  # results and operands, as far as kernels are concerned
        self.spare: dict[Memory, Node] = {}  # scratch memory of nodes that there is another kernel for, which needs none
        self.flags: list[Memory] = []
        self.constants: dict[int, Memory] = {}
        self.updates: list[Any] = []
        self.places: list[Place] = []
        self.place_of: dict[Value, int] = {}
        self.fresh: list[Place] = []
        self._roots()
        self._memories()

    # -- memory -------------------------------------------------------------------------------------------------------------------------
    def _roots(self) -> None:
        for node in self.graph.nodes:
            if node.kind == "view":
                root, offset = self._root(node.args[0])
                self.root[node.outs[0]] = root, offset + node.args[1]
            elif node.kind == "write":
                self.root[node.outs[0]] = self._root(node.args[2])
            elif node.kind == "call" and node.writes:
                for out, written in zip(node.outs[-len(node.writes) :], node.writes, strict=True):
                    self.root[out] = self._root(written)

    def _root(self, value: Value) -> tuple[Value, int]:
        return self.root.get(value, (value, 0))

    def _memories(self) -> None:
        graph = self.graph
        for i, value in enumerate(graph.inputs):
            self.memory[value] = Memory("given", index=i)
        for value in graph.outputs:
            root, _ = self._root(value)
            if root.node is not None and root not in self.memory:
                self.memory[root] = Memory("given", index=len(graph.inputs) + len(self.fresh))
                self.fresh.append(Place(self.memory[root], 0, root.shape, root.strides, root.dtype))

    def where(self, value: Value) -> tuple[Memory, int]:
        """The memory of a value and its offset there."""
        root, offset = self._root(value)
        memory = self.memory.get(root)
        if memory is None:
            if root.node is None:
                memory = Memory("held", array=root.array)
            else:
                memory = Memory("arena", extent(root.shape, root.strides, root.dtype.itemsize))
                self.blocks.append(memory)
            self.memory[root] = memory
        return memory, offset

    def scratch(self, size: int) -> Memory:
        memory = Memory("arena", size)
        self.blocks.append(memory)
        return memory

    def flag(self, size: int) -> Memory:
        memory = Memory("flag", size)
        self.flags.append(memory)
        return memory

    def constant(self, array: np.ndarray) -> Memory:
        """The memory of a table that no launch writes."""
        return self.constants.setdefault(id(array), Memory("held", array=array))

    def addresses(self, entries: list[tuple[Memory, int]]) -> Memory:
        """A table in which kernels find arrays."""
        memory = Memory("table")
        memory.entries = entries
        return memory

    def place(self, memory: Memory, offset: int, like: np.ndarray) -> Reference:
        """The stand-in for an array of memory that no value has."""
        self.places.append(Place(memory, offset, like.shape, like.strides, like.dtype))
        return Reference(len(self.places) - 1)

    def reference(self, value: Value) -> Reference:
        """The stand-in for a value's array in a step of Python's."""
        if value not in self.place_of:
            memory, offset = self.where(value)
            self.place_of[value] = len(self.places)
            self.places.append(Place(memory, offset, value.shape, value.strides, value.dtype))
        return Reference(self.place_of[value])

    # -- running --------------------------------------------------------------------------------------------------------------------------
    def run(self) -> list[np.ndarray]:
        """Run all nodes; the outputs."""
        last: dict[Value, int] = {}
        for i, node in enumerate(self.graph.nodes):
            for value in node.inputs():
                last[value] = i
        kept = {*self.graph.outputs, *self.graph.inputs}
        for i, node in enumerate(self.graph.nodes):
            getattr(self, "_" + node.kind)(node)
            for value in dict.fromkeys(node.inputs()):
                if last[value] == i and value not in kept:
                    self.arrays.pop(value, None)
        return [self.array(value) for value in self.graph.outputs]

    def array(self, value: Any) -> Any:
        """The present array of a value; arguments that are none as they are."""
        if value.__class__ is list or value.__class__ is tuple:
            return type(value)([self.array(each) for each in value])
        if value.__class__ is not Value:
            return value
        array = self.arrays.get(value)
        if array is None:
            assert value.array is not None, value
            array = self.arrays[value] = value.array
        return array

    def new(self, value: Value) -> np.ndarray:
        """A new array for a result."""
        memory, _ = self.where(value)
        made = self.arrays[value] = driver.maker_of(Place(memory, 0, value.shape, value.strides, value.dtype))()
        return made

    def _view(self, node: Node) -> None:
        value, offset, shape, strides = node.args
        array, out = self.array(value), node.outs[0]
        self.arrays[out] = array_at(address_of(array) + offset, tuple(shape), tuple(strides), out.dtype, array)

    def _write(self, node: Node) -> None:
        contents, part, whole = node.args
        if not self._copies([(contents, part)], node):
            self._python(node, lambda source, target: _into(target, source), [contents, part], ())
        self.arrays[node.outs[0]] = self.array(whole)

    def _call(self, node: Node) -> None:
        count = len(node.outs) - len(node.writes)
        special = updates.rule_of(node)
        if special is None or not special(self, node):
            function = updates.quietly(node.op) if isinstance(node.op, recorder.Step) else _listed(node.op) if count else node.op
            self._python(node, function, node.args, node.outs[:count])
        for out, written in zip(node.outs[count:], node.writes, strict=True):
            self.arrays[out] = self.array(written)

    def _group(self, node: Node) -> None:
        inputs = list(dict.fromkeys(node.inputs()))
        frame = rowwise.group_frame(node.members)
        if not native.switch.on:
            done = False
        elif factors(node):
            done = epilogues.launched(self, node)
        elif frame is not None:
            done = rowwise.launched(self, node, frame)
        else:
            done = self.program(rules.program_of(node.members, inputs, tuple(node.outs)), inputs, node.outs, node)
        if not done:
            for member in node.members:
                self._op(member)

    def _op(self, node: Node) -> None:
        if native.switch.on and not is_checked(node) and rules.by_rule(self, node):
            return
        self._python(node, _listed(function_of(node)), node.args, node.outs)

    def _python(self, node: Node, function: Callable[..., Any], args: Sequence[Any], outs: Sequence[Value]) -> None:
        made = function(*[self.array(arg) for arg in args])
        if made is not None:
            for out, array in zip(outs, made, strict=True):
                np.copyto(self.new(out), array, "unsafe")
        self.add_step(function, args, outs, node)

    # -- launches ---------------------------------------------------------------------------------------------------------------------
    def launch(self, node: Node, address: int, words: bytes, headers: Sequence[tuple[int, Memory, int, np.ndarray]], chunks: int) -> None:
        """Run a launch now, and put it into the plan.

        Args:
            headers: places among the arguments, the memory that goes there, the offset in it, and an array that shows it now.
        """
        packed = np.frombuffer(words, np.int64).copy()
        for word, _, _, array in headers:
            packed[word] = id(array)
        step = self.planned(node, address, words, [header[:3] for header in headers], chunks)
        if driver.uses_blas(step):
            driver.alone(driver.pool.launch, address, packed.tobytes(), chunks)
        else:
            driver.pool.launch(address, packed.tobytes(), chunks)

    def planned(self, node: Node, address: int, words: bytes, headers: Sequence[tuple[int, Memory, int]], chunks: int) -> Launch:
        """Put a launch into the plan."""
        for _, memory, _ in headers:
            memory.use(len(self.steps))
        step = Launch(address, words, tuple(headers), chunks, node)
        self.steps.append(step)
        return step

    def program(self, program: Any, inputs: Sequence[Value], outputs: Sequence[Value], node: Node) -> bool:
        """Run the program of element-wise nodes; False where there is no kernel for how its arrays lie."""
        return program is not None and rules.run_program(self, program, inputs, outputs, node)

    def _copies(self, pairs: Sequence[tuple[Value, Value]], node: Node) -> bool:
        return native.switch.on and rules.copy_values(self, pairs, node)

    def captured(self, node: Node, found: Captured, made: Sequence[np.ndarray] | None = None) -> None:
        """Run the launches of a native kernel, or put them into the plan alone where its results are ``made``."""
        operands = list(dict.fromkeys(node.inputs()))
        for i, out in enumerate(node.outs):
            if made is None:
                self.new(out)
            else:
                self.where(out)
                self.arrays[out] = made[i]
        own = {"scratch": [(self.scratch(size), np.empty(size, np.uint8)) for size in found.scratch]}
        self.may_write_over += overwriting.of_scratch(self, node, [memory for memory, _ in own["scratch"]])
        if rules.may_be_in_place(node):
            self.spare.update((memory, node) for memory, _ in own["scratch"])
        own["flag"] = [(self.flag(size), np.zeros(size // 8, np.int64)) for size in found.flags]
        for launch in found.launches:
            headers = []
            for word, (kind, index, offset, constant) in launch.headers:
                if constant is not None:
                    memory, begin, array = self.constant(constant), 0, constant
                elif kind in own:
                    (memory, array), begin = own[kind][index], 0
                else:
                    value = operands[index] if kind == "operand" else node.outs[index]
                    (memory, begin), array = self.where(value), self.array(value)
                shown = array if not offset else array_at(address_of(array) + offset, (1,), (1,), np.dtype(np.uint8), array)
                headers.append((word, memory, begin + offset, shown))
            if made is None:
                self.launch(node, launch.address, launch.words, headers, launch.chunks)
            else:
                self.planned(node, launch.address, launch.words, [header[:3] for header in headers], launch.chunks)
        noted = [flag for flag, size in zip(own["flag"], found.flags, strict=True) if size <= launches.FLAG]
        if noted:
            self.retry(node, noted)

    def retry(self, node: Node, flags: Sequence[tuple[Memory, np.ndarray]]) -> None:
        """Have the operation's own way raise the error, or do what launches could not, where they set a flag."""
        function = _listed(function_of(node))

        def again(noted: list[np.ndarray], *args: Any) -> list[np.ndarray]:
            for flag in noted:
                flag.fill(0)
            return run_ignoring_fp(function, *args)

        if any(array.any() for _, array in flags):
            made = again([array for _, array in flags], *[self.array(arg) for arg in node.args])
            for out, array in zip(node.outs, made, strict=True):
                np.copyto(self.array(out), array, "unsafe")
        noted = tuple([self.place(memory, 0, array) for memory, array in flags])
        self.add_step(again, [list(noted), *node.args], node.outs, node, flags=noted, computes=False)
        for memory, _ in flags:
            memory.use(len(self.steps) - 1)

    def add_step(self, function: Any, args: Sequence[Any], outs: Sequence[Value], node: Node, **more: Any) -> None:
        """Put a step of Python's into the plan."""
        given = tuple([replaced(arg, self.reference) for arg in args])
        self.steps.append(Step(function, given, tuple([self.reference(out) for out in outs]), node, **more))
        for value in (*values_in(args), *outs):
            self.where(value)[0].use(len(self.steps) - 1)

    def crowded(self) -> frozenset[Node]:
        """The nodes whose kernels' own memory would be most of what is needed beyond values, and for which there are other kernels."""
        write_over(self.may_write_over)
        return crowding(self.blocks, self.spare)

    def plan(self, again: Callable[..., list[np.ndarray]]) -> Plan:
        """The plan of what ran; ``again`` is called where it no longer fits."""
        for value in self.graph.outputs:
            self.reference(value)
        outputs = [self.place_of[value] for value in self.graph.outputs]
        write_over(self.may_write_over)
        total = place([block for block in self.blocks if block.first >= 0])
        end = total
        for memory in self.flags:
            memory.offset, end = end, end + rounded(memory.size)
        sizes = total, end - total
        return Plan(self.steps, self.places, sizes, len(self.graph.inputs), self.fresh, outputs, self.updates, again)


def _into(target: np.ndarray, source: np.ndarray) -> None:
    np.copyto(target, source, "unsafe")
