"""The recorded program: values, nodes, and the graph of them.

A value is an array of the program, a node what makes it. Views are values of their own that say which part of which memory they show; a
write gives memory a new value, so that a graph is functional although the program was not:

    x += 1; y = x[0] * 2        %1 = add(x, 1)
                                %2 = write(%1 -> x of x)       the memory of x afterwards
                                %3 = view(%2, 0, (4,), (4,))
                                %4 = mul(%3, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

__all__ = ["KINDS", "VARYING", "Graph", "Node", "Value", "before_writes", "copied", "replaced", "values_in"]

VARYING = frozenset(("_nonzero", "masked_select"))  # operations whose results' shapes depend on values
KINDS = ("op", "view", "write", "group", "call")  # kinds of node


class Value:
    """An array of a graph.

    Attributes:
        node: what makes it; None for what is there before the first node.
        place: 'input' (a new array at each call), 'held' (the array of a parameter, a buffer or a constant), 'result', 'view'. Memory
            after a write has the place that it had before.
        shape, strides, dtype: NumPy's, strides in bytes.
        array: of a held value the array itself, whose contents may change between calls.
        sizes: marks of sizes that may differ between calls, one per dimension (None: fixed), or None where all are fixed.
        name: how the program calls it, for printing; may be empty.
        fixed: of a held value: its contents never change, it is a constant.
    """

    __slots__ = ("array", "dtype", "fixed", "name", "node", "place", "shape", "sizes", "strides")

    def __init__(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        place: str = "result",
        node: Node | None = None,
        array: np.ndarray | None = None,
        name: str = "",
    ):
        self.shape, self.strides, self.dtype, self.place, self.node, self.array, self.name = shape, strides, dtype, place, node, array, name
        self.sizes: tuple[Any, ...] | None = None
        self.fixed = False

    @classmethod
    def like(cls, array: np.ndarray, place: str = "result", node: Node | None = None, name: str = "") -> Value:
        """A value that looks like ``array``; a held one holds it."""
        return cls(array.shape, array.strides, array.dtype, place, node, array if place == "held" else None, name)

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape)) or "scalar"
        return f"<{self.place} {self.name or hex(id(self))}: {self.dtype.name} {sizes}>"


class Node:
    """One step of a graph.

    Attributes:
        kind: what it is and what its arguments are:
            'op': an operation of the registry; arguments in the signature's order, Values in place of tensors, also in lists.
            'view': (value, offset, shape, strides): other words for the memory of ``value``, in bytes.
            'write': (contents, part, whole): ``part`` (``whole``, or a view of it) gets the contents, which have its shape and dtype; the
                result is the memory of ``whole`` afterwards.
            'group': operations as one kernel; they are its ``members``, its arguments the Values that they need from outside.
            'call': what Python does (random numbers, steps of optimizers); it gives an array, or a tuple of several. It is not moved
                across writes and other calls, nor removed. The last results are the memories in ``writes`` afterwards, the others the
                arrays that it returns.
        op: the ``Op``, or the callable of a 'call': ``op(*args)`` gets arrays in place of Values.
        args: see above.
        dtypes: of an 'op' what ``promotion`` gave: the dtypes to compute in and of the result; None for the operands' own.
        outs: the Values that it makes.
        members: the nodes of a group, in order.
        writes: of a 'call' the Values whose memory it changes; they are among its arguments.
        random: whether a 'call' draws random numbers.
        note: what to print beside it: a view operation as it was called, a line of the program.
    """

    __slots__ = ("args", "dtypes", "kind", "members", "note", "op", "outs", "random", "writes")

    def __init__(
        self,
        kind: str,
        op: Any,
        args: Iterable[Any],
        outs: Iterable[Value] = (),
        dtypes: tuple[Any, Any] = (None, None),
        members: tuple[Node, ...] = (),
        note: str = "",
        writes: tuple[Value, ...] = (),
        random: bool = False,
    ):
        self.kind, self.op, self.args, self.outs, self.dtypes = kind, op, list(args), list(outs), dtypes
        self.members, self.note, self.writes, self.random = members, note, writes, random
        for out in self.outs:
            out.node = self

    def take(self, now: Callable[[Value], Value]) -> None:
        """Take the Values that ``now`` gives for its own as arguments."""
        self.args = [replaced(arg, now) for arg in self.args]
        self.writes = tuple(map(now, self.writes))

    def inputs(self) -> Iterator[Value]:
        """The Values among the arguments, in order; one that stands there twice comes twice."""
        return values_in(self.args)

    @property
    def overwritten(self) -> tuple[Value, ...]:
        """Values whose memory has other contents after this node."""
        return (self.args[2],) if self.kind == "write" else self.writes

    @property
    def is_pinned(self) -> bool:
        """Whether it must stay, whoever needs its results."""
        return self.kind == "call"

    @property
    def label(self) -> str:
        """A short name."""
        if self.kind == "group":
            return "+".join(member.label for member in self.members)
        if self.kind == "op":
            return str(self.op.name)
        if self.kind == "call":
            return getattr(self.op, "__name__", type(self.op).__name__)
        return self.kind

    def __repr__(self) -> str:
        return f"<{self.kind} {self.label}>"


class Graph:
    """Nodes in the order of the program, and what goes in and comes out.

    Attributes:
        nodes: in an order in which each comes after what it needs, and a write after everybody who reads the memory as it was.
        inputs: Values of place 'input'; ``run`` gets their arrays in this order.
        held: Values of place 'held'.
        outputs: the Values that ``run`` returns.
        writes: pairs (memory as it was, as it is at the end) of inputs and held Values that the program wrote to. A replay writes to the
            same memory; ``outputs`` need not name it.
    """

    __slots__ = ("held", "inputs", "nodes", "outputs", "writes")

    def __init__(
        self,
        nodes: Iterable[Node],
        inputs: Iterable[Value],
        held: Iterable[Value],
        outputs: Iterable[Value],
        writes: Iterable[tuple[Value, Value]] = (),
    ):
        self.nodes, self.inputs, self.held, self.outputs, self.writes = list(nodes), list(inputs), list(held), list(outputs), list(writes)

    def users(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, in order, each once."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs()):
                found.setdefault(value, []).append(node)
        return found

    def copy(self) -> Graph:
        """Other nodes and results, the same inputs and held values."""
        new: dict[Value, Value] = {}
        nodes = [copied(node, new) for node in self.nodes]
        outputs = [new.get(value, value) for value in self.outputs]
        return Graph(nodes, self.inputs, self.held, outputs, [(new.get(a, a), new.get(b, b)) for a, b in self.writes])

    def with_nodes(self, nodes: Iterable[Node], instead: Callable[[Value], Value] = lambda value: value) -> Graph:
        """The same program by other nodes; ``instead`` gives what stands for a value now."""
        writes = [(instead(a), instead(b)) for a, b in self.writes]
        return Graph(nodes, self.inputs, self.held, [instead(value) for value in self.outputs], writes)

    def names(self) -> dict[Value, str]:
        """Names of the values, as ``str`` shows them."""
        found: dict[Value, str] = {}
        for value in self.inputs:
            found[value] = value.name or f"x{len(found)}"
        for number, value in enumerate(self.held):
            found[value] = value.name or f"h{number}"
        taken: dict[str, Value] = {}
        for value, name in list(found.items()):
            if taken.setdefault(name, value) is not value:
                found[value] = f"{name}_{len(taken)}"
                taken[found[value]] = value
        count = 0
        for node in self.nodes:
            for out in node.outs:
                if out not in found:
                    found[out], count = f"%{count}", count + 1
        return found

    def __str__(self) -> str:
        names = self.names()
        lines = [f"graph({', '.join(_described(value, names) for value in self.inputs)})"]
        if self.held:
            lines.append("  held " + ", ".join(_described(value, names) for value in self.held))
        for node in self.nodes:
            lines += _lines(node, names)
        lines += [f"  {names.get(before, '?')} <- {names.get(after, '?')}" for before, after in self.writes]
        return "\n".join([*lines, f"  return {', '.join(names.get(value, '?') for value in self.outputs)}"])

    def __repr__(self) -> str:
        return f"<Graph of {len(self.nodes)} nodes, {len(self.inputs)} inputs, {len(self.held)} held, {len(self.outputs)} outputs>"


def values_in(args: Any) -> Iterator[Value]:
    """The Values in arguments, lists and tuples among them looked into."""
    for each in args:
        if each.__class__ is Value:
            yield each
        elif each.__class__ is list or each.__class__ is tuple:
            yield from values_in(each)


def before_writes(value: Value) -> Value:
    """The value that the memory of ``value`` had first; views are values of their own."""
    while value.node is not None:
        node = value.node
        place = node.outs.index(value) - len(node.outs) + len(node.overwritten)
        if place < 0 or not node.overwritten:
            return value
        value = node.overwritten[place]
    return value


def replaced(arg: Any, function: Callable[[Value], Any]) -> Any:
    """An argument with ``function`` applied to the Values in it."""
    if arg.__class__ is Value:
        return function(arg)
    if arg.__class__ is list or arg.__class__ is tuple:
        return type(arg)([replaced(each, function) for each in arg])
    return arg


def copied(node: Node, new: dict[Value, Value]) -> Node:
    """A node that does the same for the Values that ``new`` gives in place of its own; ``new`` gets its results."""
    members = tuple([copied(member, new) for member in node.members])
    outs = []
    for out in node.outs:
        if out not in new:
            other = new[out] = Value(out.shape, out.strides, out.dtype, out.place, None, out.array, out.name)
            other.sizes = out.sizes
        outs.append(new[out])

    def now(value: Value) -> Value:
        return new.get(value, value)

    args = [replaced(arg, now) for arg in node.args]
    return Node(node.kind, node.op, args, outs, node.dtypes, members, node.note, tuple(map(now, node.writes)), node.random)


def _described(value: Value, names: dict[Value, str]) -> str:
    return f"{names.get(value, '?')}: {value.dtype.name}[{', '.join(map(str, value.shape))}]"


def _written(arg: Any, names: dict[Value, str]) -> str:
    """An argument as ``str`` shows it."""
    if arg.__class__ is Value:
        return names.get(arg, "?")
    if arg.__class__ is list:
        return f"[{', '.join(_written(each, names) for each in arg)}]"
    if arg.__class__ is tuple:
        return f"({', '.join(_written(each, names) for each in arg)}{',' if len(arg) == 1 else ''})"
    text = repr(arg)
    return text if len(text) < 60 else f"<{type(arg).__name__}>"


def _lines(node: Node, names: dict[Value, str]) -> list[str]:
    outs = ", ".join(_described(out, names) for out in node.outs)
    args = [_written(arg, names) for arg in node.args]
    if node.kind == "write":
        line = f"write({args[0]} -> {args[1]} of {args[2]})"
    elif node.kind == "op":
        line = f"{node.label}({', '.join(args)})"
    else:
        line = f"{node.kind} {node.label}({', '.join(args)})" if node.kind != "view" else f"view({', '.join(args)})"
    lines = [f"  {outs} = {line}" + (f"    # {node.note}" if node.note else "")]
    for member in node.members:
        lines += ["    " + text.strip() for text in _lines(member, names)]
    return lines
