"""Products of matrices with what is done to each of their elements, as groups: the product itself needs no memory.

    p = matmul(g, w)           one kernel: sums of a few columns stay on its stack, and go on to the formula,
    d = p where h > 0          whose result may lie over h

So the gradient of a layer's input takes the place of the layer's saved output. Such a group's first member is the product.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..core.shape import contiguous_strides
from ..kernels.compiler.build import NoKernel
from ..kernels.compiler.language import ELEMENTS, FLOATS, register_element
from ..kernels.families import gemm, products
from ..kernels.families.finished_products import WAYS, Operand, plan
from . import overwriting, rules
from .elementwise import has_program, is_row_major, layout_of, wide_strides
from .fusion import PRODUCTS, factors, ordered
from .graph import Graph, Node, Value
from .lifetimes import Lifetimes
from .passes import root_of

if TYPE_CHECKING:
    from .lowering import _Trial as Trial

__all__ = ["finished", "launched"]


def finished(graph: Graph) -> Graph:
    """The graph with products in groups with what needs them, where nobody else does.

    Args:
        graph: after fusion; it stays as it is.
    """
    graph = graph.copy()
    users, outputs = graph.users(), set(graph.outputs)
    moves = _Moves(graph)
    joined: dict[Node, Node] = {}
    gone: set[Node] = set()
    for node in graph.nodes:
        readers = users.get(node.outs[0], ()) if _is_product(node) and node.outs[0] not in outputs else ()
        if len(readers) != 1 or readers[0] in joined or not _goes_with(node, readers[0]) or not moves.may_wait(node, readers[0]):
            continue
        (user,) = readers
        args = dict.fromkeys([*node.inputs(), *[value for value in user.inputs() if value is not node.outs[0]]])
        joined[user] = Node("group", None, args, user.outs, members=(node, *(user.members or (user,))))
        gone.add(node)
    if not joined:
        return graph
    return ordered(graph.with_nodes([joined.get(node, node) for node in graph.nodes if node not in gone]))


class _Moves:
    """Nodes that may run later than they do."""

    def __init__(self, graph: Graph):
        self.number = {node: i for i, node in enumerate(graph.nodes)}
        self.lives = Lifetimes(graph, graph.nodes)
        self.writes: dict[Value, list[int]] = {}
        for i, node in enumerate(graph.nodes):
            for value in node.overwritten:
                self.writes.setdefault(root_of(value), []).append(i)

    def may_wait(self, node: Node, until: Node) -> bool:
        """Whether a node's operands are still there when another one runs, and need no more memory till then than its result would."""
        first, last = self.number[node], self.number[until]
        for value in node.inputs():
            if any(first < write < last for write in self.writes.get(root_of(value), ())):
                return False
        dying = [self.lives.bytes_of[root] for root in self.lives.read(node) if self.lives.uses[root][-1] < last]
        return sum(dying) <= node.outs[0].nbytes or last == first + 1


def _is_product(node: Node) -> bool:
    """Whether a node is a product of matrices that the kernel takes."""
    if node.kind != "op" or node.op.key not in PRODUCTS or node.dtypes != (None, None):
        return False
    (left, right), out = node.args, node.outs[0]
    if len(left.shape) < 2 or len(right.shape) != 2 or not (len(left.shape) == 2 or is_row_major(left)):
        return False
    same = out.dtype in FLOATS and left.dtype == right.dtype == out.dtype
    return same and is_row_major(out) and out.size > 0 and min(_sizes(node)) > 1 and _matrices(node) is not None


def _sizes(node: Node) -> tuple[int, int, int]:
    """Rows and columns of a product, and the terms of each sum."""
    left, right = node.args
    return math.prod(left.shape[:-1]), right.shape[1], right.shape[0]


def _matrices(node: Node) -> tuple[products.Matrix, products.Matrix] | None:
    """The layouts of the factors; None where another kernel computes such a product."""
    (left, right), sizes = node.args, _sizes(node)
    size = left.dtype.itemsize
    strides = left.strides if len(left.shape) == 2 else (left.shape[-1] * size, size)
    a = products.layout((sizes[0], sizes[2]), strides, size)
    b = products.layout(right.shape, right.strides, size)
    if a is None or b is None or not products.is_straight(a, b, sizes):
        return None
    if gemm.is_for_library(sizes, a.by_rows) or gemm.is_split(left.dtype, sizes, finishes=True):
        return None
    return a, b


def _goes_with(node: Node, user: Node) -> bool:
    """Whether another node computes each element from that of the product, and from operands that lie along it."""
    members, out = user.members or (user,), node.outs[0]
    if any(member.kind != "op" or not has_program(member) for member in members) or factors(user):
        return False
    if any(each.shape != out.shape or not is_row_major(each) for each in user.outs):
        return False
    return all(_way(value, out) is not None for value in user.inputs())


def _way(value: Value, out: Value) -> str | None:
    """The word for how an operand steps through the rows and columns of a row-major result; None where there is none."""
    *lead, columns = out.shape
    strides, size = wide_strides(layout_of(value), out.shape), value.dtype.itemsize
    if len(strides) != len(out.shape) or strides[-1] not in (0, size):
        return None
    by_column = strides[-1] == size
    wanted = [step * (columns if by_column else 1) * size for step in contiguous_strides(tuple(lead))]
    steps = [(stride, step) for length, stride, step in zip(lead, strides, wanted, strict=False) if length > 1]
    if not any(stride for stride, _ in steps):
        return WAYS[False, by_column]
    return WAYS[True, by_column] if all(stride == step for stride, step in steps) else None


# -- launches -------------------------------------------------------------------------------------------------------------------------
def launched(trial: Trial, node: Node) -> bool:
    """Run a group that begins with a product as one launch; False where nothing was done."""
    product, *rest = node.members
    sums, made = product.outs[0], {out for member in rest for out in member.outs}
    others = [value for value in dict.fromkeys(_inputs(rest)) if value is not sums and value not in made]
    program, matrices = rules.program_of(rest, [sums, *others], node.outs), _matrices(product)
    if program is None or matrices is None:
        return False
    operands = []
    for value in others:
        element, way = ELEMENTS[value.dtype], _way(value, sums)
        assert way is not None
        operands.append(Operand(element, register_element(element), way))
    results = tuple([ELEMENTS[out.dtype] for out in node.outs])
    try:
        found = plan(ELEMENTS[sums.dtype], *matrices, _sizes(product), program, tuple(operands), results)
    except NoKernel:
        return False
    if found is None:
        return False
    kernel, chunks, numbers = found
    arrays = [(*trial.where(value), trial.array(value)) for value in (*product.args, *others)]
    arrays += [(*trial.where(out), trial.new(out)) for out in node.outs]
    rules.launch_kernel(trial, node, kernel, chunks, arrays, *numbers)
    read = {trial.where(value)[0] for value in factors(node)}
    trial.may_write_over += [pair for pair in overwriting.of_program(trial, others, node.outs) if pair[1] not in read]
    return True


def _inputs(nodes: Iterable[Node]) -> Iterable[Value]:
    return (value for node in nodes for value in node.inputs())
