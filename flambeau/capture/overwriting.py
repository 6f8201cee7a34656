"""Results that kernels may write over operands.

An element-wise kernel reads all operands of a few elements before it writes these elements of its results; a kernel of rows reads all of a
row before it writes any of it, and then again each element before it writes that one. So a result may have the memory of an operand that
lies as it does, as far as the kernel is concerned; ``planning.write_over`` looks whether somebody else needs the operand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..kernels.index import memory_use
from .elementwise import is_row_major
from .graph import Node, Value

if TYPE_CHECKING:
    from ..kernels.families.row_programs import Pass
    from .lowering import _Trial as Trial
    from .planning import Memory

__all__ = ["of_passes", "of_program", "of_rows", "of_scratch", "spared"]

_WHOLE = 64  # elements: kernels that take the end of a row twice do not where its length is a multiple of this
_MAY_OVERLAP = frozenset(("nn.functional._batch_norm", "nn.functional._normalized_backward"))


def of_program(trial: Trial, inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterator[tuple[Memory, Memory]]:
    """Pairs (memory of a result, memory of an operand) of an element-wise program."""
    for out in outputs:
        for value in inputs:
            if _lies_alike(trial, value, out, inputs):
                yield trial.where(out)[0], trial.where(value)[0]


def of_rows(trial: Trial, node: Node) -> Iterator[tuple[Memory, Memory]]:
    """The same of an operation whose kernel works on rows; nothing of any other."""
    count = memory_use(node.op.key).overwrites
    if not count or (node.op.key in _MAY_OVERLAP and not _has_whole_rows(node)):
        return
    inputs = list(node.inputs())
    for value in inputs[:count]:
        if _lies_alike(trial, value, node.outs[0], inputs):
            yield trial.where(node.outs[0])[0], trial.where(value)[0]


def of_passes(trial: Trial, passes: Sequence[Pass], inputs: Sequence[Value], outputs: Sequence[Value]) -> Iterator[tuple[Memory, Memory]]:
    """The same of passes over rows: a result may lie over an operand that no pass reads after the one that writes the result."""
    read = {place: number for number, each in enumerate(passes) for place in each.sources}
    written = {place: number for number, each in enumerate(passes) for place in each.targets}
    for i, out in enumerate(outputs):
        for j, value in enumerate(inputs):
            after = written.get(("result", i), -1)
            if read.get(("operand", j), 0) <= after and _lies_alike(trial, value, out, inputs):
                yield trial.where(out)[0], trial.where(value)[0]


def of_scratch(trial: Trial, node: Node, scratch: Iterable[Memory]) -> Iterator[tuple[Memory, Memory]]:
    """Pairs (scratch memory, memory of an operand) of an operation whose kernel needs it in place of the operand."""
    for operand in _given_up(node):
        memory, offset = trial.where(operand)
        if not offset and is_row_major(operand) and sum(trial.where(value)[0] is memory for value in node.inputs()) == 1:
            yield from ((each, memory) for each in scratch if each.size == operand.nbytes)


def spared(node: Node, scratch: Sequence[int]) -> int:
    """Bytes of an operation's scratch that ``of_scratch`` has over operands."""
    return sum(operand.nbytes for operand in _given_up(node) if operand.nbytes in scratch)


def _given_up(node: Node) -> list[Value]:
    """The operands over which a kernel may have scratch memory."""
    operands = [node.args[node.op.names.index(name)] for name in memory_use(node.op.key).scratch]
    return [operand for operand in operands if operand is not None]


def _has_whole_rows(node: Node) -> bool:
    view = node.args[node.op.names.index("view")]
    return len(view) == 2 or view[-1] % _WHOLE == 0


def _lies_alike(trial: Trial, value: Value, out: Value, inputs: Sequence[Value]) -> bool:
    """Whether an operand lies as a result does, and no other operand shows its memory in another way."""

    def layout(each: Value) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
        return trial.where(each)[1], each.shape, each.strides, each.dtype.itemsize

    memory, wanted = trial.where(value)[0], layout(out)
    return all(layout(each) == wanted for each in inputs if trial.where(each)[0] is memory)
