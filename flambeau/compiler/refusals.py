"""Calls that raise in the middle, such as by an index out of range: they leave behind what the program as it is written leaves.

If nothing has happened before (no write, no random draw), the program runs again as it is written, and raises by itself. Otherwise memory
and generators are right, since nothing moves across an operation that may raise (``capture.fusion.predecessors``). But gradients that
tensors get are put there at the end of a replay: where some come before such an operation, each call saves what it is about to change,
so that a call that raises can be undone and runs again as it is written, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..capture.fusion import may_refuse
from ..capture.graph import Node, Value, before_writes
from ..capture.passes import root_of
from .segments import Undo

__all__ = ["Refusals"]


class Refusals:
    """The nodes that may raise, of those of a recording that run in a row.

    Attributes:
        are_there: whether there are any.
        undo: what has to be saved so that a call can be undone from any of them on; None where nothing has happened before.
    """

    def __init__(self, nodes: Sequence[Node]):
        checked: list[tuple[set[Value], tuple[int, ...]]] = []
        last, self._nodes = -1, nodes
        for i, node in enumerate(nodes):
            whole = {root_of(value) for value in node.inputs() if value.dtype.kind in "iu"}
            if may_refuse(node) and not any(_is_gradient(node, whole, *each) for each in checked):
                last = i
            if node.kind == "op" and (first := next(node.inputs(), None)) is not None:
                checked.append((whole | {out for out in node.outs if out.dtype.kind in "iu"}, first.shape))
        self.are_there, self._before = last >= 0, last
        undo = Undo(nodes[: last + 1])
        self.undo = undo if undo.is_needed else None

    def come_after(self, values: Iterable[Value]) -> bool:
        """Whether one of the values is there before the last of them."""
        maker = {out: i for i, node in enumerate(self._nodes) for out in node.outs}
        return any(maker.get(root_of(before_writes(value)), self._before) < self._before for value in values)


def _is_gradient(node: Node, indices: set[Value], checked: set[Value], shape: tuple[int, ...]) -> bool:
    """Whether a node makes a gradient by indices that an operation over an operand of this shape has looked at, or has found itself."""
    return bool(indices) and indices <= checked and node.outs[0].shape == shape
