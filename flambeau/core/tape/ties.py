"""Gradients that hang on an input without depending on it.

PyTorch's kernels for gradients of ``relu``, pooling, padding and some losses take the input itself, with a derivative of zeros. So a second
derivative through them is zeros where it would be None, and what asks for it finds a gradient.
"""

from __future__ import annotations

from typing import Any

from ..state import grad_enabled
from ..tensor import Tensor, share, storage_of
from .node import Node, Output, edge_of, new_node


class TiedBackward0(Node):
    """Gives the gradient on, and zeros to what it is tied to."""

    __slots__ = ()

    def apply(self, grad: Any) -> Any:
        return grad, grad.new_zeros(self.attrs)


def tied(gradient: Any, edge: Any) -> Any:
    """``gradient``, which also hangs on an edge of the node that computes it; itself where nothing is recorded."""
    if edge is None or gradient.__class__ is not Tensor or not grad_enabled():
        return gradient
    result = share(gradient._array, storage_of(gradient))
    shape = edge.node.shape[edge.index] if edge.__class__ is Output else edge.shape
    array = gradient._array
    result._node = new_node(TiedBackward0, (edge_of(gradient), edge), (), tuple(shape), array.shape, array.dtype)
    result._requires_grad = True
    return result
