"""A backward pass in two halves: gradients of inputs, which an earlier stage waits for, and gradients of weights, which nobody does.

The first half leaves out the edges that lead to weights alone, and keeps what arrives at the nodes that have some; the second goes over
those edges and no others. So nothing is computed twice.

    loss ... MulBackward ------> AddmmBackward ------> TanhBackward ...  input      first half
                                  \\       \\
                                  bias     TBackward --> weight                       second half
"""

from __future__ import annotations

import operator
from typing import Any

from ...autograd.engine import run_backward, seed_gradient
from ...core.tape.node import Node, Output, edge_of
from ...core.tensor import Tensor, wrap

__all__ = ["Halves"]


def _node_of(edge: Any) -> Any:
    return edge.node if edge.__class__ is Output else edge


def _nodes_below(edges: list[Any]) -> list[Node]:
    """The nodes that these edges lead to, the oldest first."""
    found: dict[int, Node] = {}
    stack = list(edges)
    while stack:
        node = _node_of(stack.pop())
        if isinstance(node, Node) and id(node) not in found:
            found[id(node)] = node
            stack.extend(node.edges)
    return sorted(found.values(), key=operator.attrgetter("seq"))


class Halves:
    """Computes the gradients of inputs now, and those of weights later.

    Args:
        roots, grads: what the pass begins with.
        inputs: leaves whose ``.grad`` is wanted first.
    """

    def __init__(self, roots: list[Tensor], grads: list[Any], inputs: list[Tensor]) -> None:
        self._roots = roots
        self._grads: list[Any] = [seed_gradient(root, grad) for root, grad in zip(roots, grads, strict=True)]
        if not inputs:
            return
        wanted = {id(leaf) for leaf in inputs}
        leading: set[int] = set()  # ids of the nodes that lead to inputs
        apart: list[tuple[Node, tuple[Any, ...]]] = []  # nodes that have other edges, too, and all of their edges
        for node in _nodes_below([edge_of(root) for root in roots]):
            leads = [id(_node_of(edge)) in leading or id(edge) in wanted for edge in node.edges]
            if any(leads):
                leading.add(id(node))
            if any(leads) and not all(leads[i] or edge is None for i, edge in enumerate(node.edges)):
                apart.append((node, tuple(None if lead else edge for edge, lead in zip(node.edges, leads, strict=True))))
                node.edges = tuple(edge if lead else None for edge, lead in zip(node.edges, leads, strict=True))
        self._first(leading, apart)

    def _first(self, leading: set[int], apart: list[tuple[Node, tuple[Any, ...]]]) -> None:
        """The gradients of inputs; roots and gradients are those of the second half then."""
        arrived: dict[int, tuple[Any, ...]] = {}
        handles = [node.register_prehook(lambda grads, node=node: arrived.update({id(node): grads})) for node, _ in apart]
        pairs = list(zip(self._roots, self._grads, strict=True))
        now = [pair for pair in pairs if id(_node_of(edge_of(pair[0]))) in leading]
        later = [pair for pair in pairs if id(_node_of(edge_of(pair[0]))) not in leading]
        run_backward([root for root, _ in now], [grad for _, grad in now], True, False)
        for handle in handles:
            handle.remove()
        for node, edges in apart:
            node.edges = edges
            for index, grad in enumerate(arrived.get(id(node), ())):
                if grad is not None:
                    later.append((_standing_for(node, index, grad), grad))
        self._roots, self._grads = [root for root, _ in later], [grad for _, grad in later]

    def weights(self) -> None:
        """The gradients of weights, added to ``.grad``."""
        if self._roots:
            run_backward(self._roots, self._grads, False, False)


def _standing_for(node: Node, index: int, grad: Tensor) -> Tensor:
    """A tensor with a node's output as its history."""
    made = wrap(grad._array)
    made._requires_grad, made._node = True, Output(node, index) if node.is_multi_output else node
    return made
