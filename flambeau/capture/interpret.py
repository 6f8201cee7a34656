"""Running a graph node by node: the reference for every other way.

A graph becomes the text of a Python function with one line per node, without tensors, tape or dispatch. Names are dropped after their last
use, so that memory is free as early as in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import as_array, host
from ..core.calls.casting import cast_array
from ..core.calls.dispatch import compute, operands_of
from ..core.layout import laid_out
from ..core.state import run_ignoring_fp
from ..core.tensor import Tensor, wrap
from .graph import VARYING, Graph, Node, Value, before_writes, values_in
from .memory import view_of

__all__ = ["ShapeChanged", "function_of", "is_checked", "run_of"]


class ShapeChanged(RuntimeError):
    """A result has another shape than the graph says: it depends on values."""


def function_of(node: Node) -> Callable[..., Any]:
    """A function of an 'op' node's arguments, arrays in place of Values, that gives its result, or a tuple of them."""
    op, (wanted, result), outs = node.op, node.dtypes, node.outs
    narrow = result in dtypes.NARROW or wanted in dtypes.NARROW or dtypes.complex32 in (wanted, result)
    if narrow or any(value.dtype == dtypes.PAIR for value in (*values_in(node.args), *outs)) or is_checked(node):
        return _by_dispatch(node)
    forms = [(out.shape, out.strides, tuple([step // max(out.dtype.itemsize, 1) for step in out.strides]), out.dtype) for out in outs]
    casts, run_kernel = result if op.returns is None else None, host.run

    def settled(array: Any, form: tuple[Any, ...]) -> np.ndarray:
        shape, strides, steps, dtype = form
        if array.__class__ is not np.ndarray:
            array = as_array(array)
        if array.dtype is not dtype and array.dtype != dtype and (casts is not None or array.dtype.kind == dtype.kind):
            array = cast_array(array, dtypes.BY_NUM[dtype.num])
        if array.shape != shape:
            if op.name in VARYING:
                return array
            raise ShapeChanged(f"{op.name}: a result of shape {array.shape} where {shape} was recorded")
        return array if array.strides == strides else laid_out(array, steps)

    if len(forms) == 1 and not op.is_multi_output:
        form = forms[0]

        def single(*values: Any) -> np.ndarray:
            made = run_kernel(op, list(values), wanted, result)
            return settled(made[0] if made.__class__ is tuple or made.__class__ is list else made, form)

        return single

    def several(*values: Any) -> list[np.ndarray]:
        made = run_kernel(op, list(values), wanted, result)
        made = made if made.__class__ is tuple or made.__class__ is list else (made,)
        return [settled(array, form) for array, form in zip(made, forms, strict=True)]

    return several


def is_checked(node: Node) -> bool:
    """Whether operands have to be checked before each run: indices, which kernels take on trust."""
    return node.op.canonicalize is not None and ("index" in node.op.names or "indices" in node.op.names)


def _has_indices(node: Node) -> bool:
    """Whether an attribute has index arrays, which have to be checked and completed anew."""
    return "indices" in node.op.names and node.op.params[node.op.names.index("indices")].kind == "attr"


def _by_dispatch(node: Node) -> Callable[..., Any]:
    """The same by the path that eager calls take."""
    op, forms = node.op, [out.shape for out in node.outs]
    places, checks = set(op.positions), is_checked(node)
    at = op.names.index("indices") if _has_indices(node) else None

    def tensors(value: Any) -> Any:
        if value.__class__ is np.ndarray:
            return wrap(value)
        return type(value)([tensors(each) for each in value]) if value.__class__ in (list, tuple) else value

    def run(*values: Any) -> Any:
        given = [tensors(value) if i in places else value for i, value in enumerate(values)]
        if at is not None:
            given = _checked_indices(op, given, at)
        elif checks:
            given = list(op.canonicalize(*given))
        results, _ = compute(op, given, operands_of(op, given), host)
        for array, shape in zip(results, forms, strict=True):
            if array.shape != shape and op.name not in VARYING:
                raise ShapeChanged(f"{op.name}: a result of shape {array.shape} where {shape} was recorded")
        return results if len(forms) > 1 else results[0]

    return run


def _checked_indices(op: Any, given: list[Any], at: int) -> list[Any]:
    from ..ops.indexing import plain_indices

    target = given[0]._array.shape if op.name in ("_index", "_index_put", "_zero_at") else tuple(given[op.names.index("shape")])
    given[at] = plain_indices(given[at], target)
    return given


class _Writer:
    """Writes the function of a graph."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"ndarray": np.ndarray, "copyto": np.copyto, "view_of": view_of, "Tensor": Tensor}
        self.names: dict[Value, str] = {}
        self.last: dict[Value, int] = {}
        self.nodes = [member for node in graph.nodes for member in (node.members or (node,))]
        for i, node in enumerate(self.nodes):
            for value in node.inputs():
                self.last[before_writes(value)] = i
        self.stays = {before_writes(value) for value in graph.outputs}
        for value in graph.held:
            self.names[value] = self.constant(value.array)

    def constant(self, value: Any) -> str:
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def name(self, value: Value) -> str:
        if value not in self.names:
            self.names[value] = f"v{len(self.names)}"
        return self.names[value]

    def written(self, arg: Any) -> str:
        """An argument as the text of an expression."""
        if arg.__class__ is Value:
            return self.name(arg)
        if arg.__class__ is list:
            return f"[{', '.join(map(self.written, arg))}]"
        if arg.__class__ is tuple and any(True for _ in values_in(arg)):
            return f"({', '.join(map(self.written, arg))},)"
        return repr(arg) if arg is None or arg.__class__ in (bool, int) else self.constant(arg)

    def node(self, i: int, node: Node) -> None:
        if node.kind == "view":
            self.view(node)
        elif node.kind == "write":
            contents, part, whole = node.args
            if self.name(part) != self.name(contents):
                self.lines.append(f"copyto({self.name(part)}, {self.name(contents)})")
            self.names[node.outs[0]] = self.name(whole)
        else:
            fresh = node.outs[: len(node.outs) - len(node.writes)]
            function = self.constant(function_of(node) if node.kind == "op" else node.op)
            call = f"{function}({', '.join(map(self.written, node.args))})"
            several = len(fresh) > 1 or (node.kind == "op" and node.op.is_multi_output)
            targets = ", ".join(map(self.name, fresh)) + (", " if several and len(fresh) == 1 else "")
            self.lines.append(f"{targets} = {call}" if fresh else call)
            for old, new in zip(node.writes, node.outs[len(fresh) :], strict=True):
                self.names[new] = self.name(old)
        for value in dict.fromkeys(map(before_writes, node.inputs())):
            if self.last[value] == i and value.place == "result" and value not in self.stays:
                self.lines.append(f"{self.names[value]} = None")

    def view(self, node: Node) -> None:
        base, offset, shape, strides = node.args
        out = node.outs[0]
        dtype = self.constant(out.dtype)
        dense = base.node is None and base.array is not None and base.array.flags.c_contiguous
        reach = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + out.dtype.itemsize if out.size else 0
        if (dense or _is_contiguous(base)) and offset >= 0 and offset + reach <= base.nbytes and min(strides, default=0) >= 0:
            self.lines.append(f"{self.name(out)} = ndarray({shape}, {dtype}, {self.name(base)}, {offset}, {strides})")
        else:
            self.lines.append(f"{self.name(out)} = view_of({self.name(base)}, {offset}, {shape}, {strides}, {dtype})")

    def function(self) -> Callable[..., Any]:
        header = ", ".join(map(self.name, self.graph.inputs))
        for i, node in enumerate(self.nodes):
            self.node(i, node)
        self.lines.append(f"return [{', '.join(self.name(value) for value in self.graph.outputs)}]")
        text = f"def run({header}):\n    " + "\n    ".join(self.lines)
        exec(compile(text, "<replay of a graph>", "exec"), self.scope)
        made: Callable[..., Any] = self.scope["run"]
        return made


def _is_contiguous(value: Value) -> bool:
    expected = value.dtype.itemsize
    for length, step in zip(reversed(value.shape), reversed(value.strides), strict=True):
        if length != 1 and step != expected:
            return False
        expected *= length
    return value.size > 0


def run_of(graph: Graph) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """A function from the arrays of ``graph.inputs`` to those of ``graph.outputs``; it writes where the program wrote."""
    function = _Writer(graph).function()

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        made: list[np.ndarray] = run_ignoring_fp(function, *arrays)
        return made

    return run
