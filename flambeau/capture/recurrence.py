"""Recurrent layers taken apart: the products of input and weights become nodes of their own, as those of any other layer.

    _lstm_layer             ->  linear, _recurrent_steps
    _lstm_layer_backward    ->  [_lstm_cells,] _recurrent_steps_backward, matmul, mm

Passes see more then (``lookups``), values live shorter, gates and their gradients have the memory of the products, and cells are not kept
where they are many: they follow from the gates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels.compiler.language import FLOATS
from .graph import Graph, Node, Value
from .passes import without_dead
from .rewriting import Rewriting

__all__ = ["opened"]

FEW = 64  # rows of all steps: up to here layers have a way of their own for the input's products
KEPT = 1 << 18  # bytes: fewer are kept
_LAYERS = ("_lstm_layer", "_gru_layer", "_rnn_layer")


def opened(graph: Graph) -> Graph:
    """The graph with layers in parts, where they have many rows.

    Args:
        graph: it stays as it is.
    """
    names = {node.op.name for node in graph.nodes if node.kind == "op"}
    if names.isdisjoint(_LAYERS):
        return graph
    from ..ops import recurrent_steps  # noqa: F401  # declares the steps; few programs have them

    now = Rewriting(graph := graph.copy())
    needed = _needed(graph)
    for node in now:
        layer = _Layer(now, node) if node.kind == "op" and node.op.name.removesuffix("_backward") in _LAYERS else None
        if layer is None or not layer.fits():
            now.keep(node)
        elif node.op.name in _LAYERS:
            layer.forwards()
        elif layer.named("needs_input") or node.outs[0] not in needed:
            layer.backwards()
        else:
            now.keep(node)
    made = without_dead(now.finished())
    _keep_less(made)
    return made


def _needed(graph: Graph) -> set[Value]:
    return {value for node in graph.nodes for value in node.inputs()} | set(graph.outputs)


def _keep_less(graph: Graph) -> None:
    """Let steps whose cells nobody needs keep none."""
    needed = _needed(graph)
    for node in graph.nodes:
        if node.kind == "op" and node.op.name == "_recurrent_steps" and node.args[5].has_cell and node.outs[4] not in needed:
            node.args[8] = False
            node.outs[4].shape, node.outs[4].strides = (0,), np.empty(0, node.outs[4].dtype).strides


class _Layer:
    """A node of a layer, with its arguments by name."""

    def __init__(self, now: Rewriting, node: Node):
        self.now, self.node = now, node
        named = dict(zip(node.op.names, node.args, strict=False))
        self.named: Callable[[str], Any] = named.get
        self.input: Value = named["input"]
        self.cell, self.reverse = named["cell"], named["reverse"]
        self.h, self.c = named["h"], named.get("c")
        self.weight, self.weight_hh = named["weight_ih"], named["weight_hh"]
        shape = self.input.shape
        self.sizes = (shape[1],) * shape[0] if named["sizes"] is None else tuple(named["sizes"])
        self.total, self.hidden = sum(self.sizes), self.weight_hh.shape[1]
        self.wide = self.cell.gates * self.hidden

    def fits(self) -> bool:
        """Whether it is large, and of a usual kind."""
        states = (self.h,) if self.c is None else (self.h, self.c)
        return (
            self.total > FEW
            and self.named("weight_hr") is None
            and self.node.dtypes == (None, None)
            and self.input.dtype in FLOATS
            and all(value.dtype == self.input.dtype for value in self.node.inputs())
            and self.input.size == self.total * self.weight.shape[1]
            and all(len(value.shape) == 2 for value in (self.weight, self.weight_hh))
            and all(len(state.shape) == 2 or state.shape[0] == 1 for state in states)
            and self.weight_hh.shape[0] == self.wide
        )

    def op(self, name: str, args: list[Any], *shapes: tuple[int, ...]) -> list[Value]:
        return self.now.op(name, args, *shapes, dtype=self.input.dtype)

    def forwards(self) -> None:
        now, cell, states = self.now, self.cell, self.h.shape
        (products,) = self.op("linear", [now.rows(self.input), self.weight, self.named("bias_ih")], (self.total, self.wide))
        args = [products, self.h, self.c, self.weight_hh, self.named("bias_hh"), cell, self.sizes, self.reverse, True]
        has_more, rows, none = cell.has_cell or cell.has_part, (self.total, self.hidden), (0,)
        shapes = (products.shape if has_more else none, rows, states, states if cell.has_cell else none, rows if has_more else none)
        gates, output, last, cells, kept = self.op("_recurrent_steps", args, *shapes)
        made = [now.view(output, self.node.outs[0].shape), last]
        made += [cells, gates, kept] if cell.has_cell else [gates, kept] if cell.has_part else []
        now.replace(self.node.outs, made)

    def backwards(self) -> None:
        now, cell, node = self.now, self.cell, self.node
        gates, kept = self.named("gates"), self.named("candidates")
        if cell.has_cell:
            kept = self.named("cells")
            if kept.nbytes >= KEPT:
                (kept,) = self.op("_lstm_cells", [gates, self.c, cell, self.sizes, self.reverse], kept.shape)
        elif not cell.has_part:
            gates = kept = None
        grad, output = self.named("grad_output"), None if cell.has_cell else now.rows(self.named("output"))
        grads = [None if grad is None else now.rows(grad), self.named("grad_h"), self.named("grad_c")]
        args = [gates, kept, *grads, self.h, self.c, self.weight_hh, output, cell, self.sizes, self.reverse]
        states, wide = self.h.shape, (self.total, self.wide)
        shapes = (wide, states, states if cell.has_cell else (0,), self.weight_hh.shape, (self.wide,))
        d_products, *d_states, d_weight_hh, d_bias = self.op("_recurrent_steps_backward", args, *shapes)
        if cell.has_part:
            (d_bias_ih,) = self.op("_sum_to_size", [d_products, (self.wide,)], (self.wide,))
        else:
            d_bias_ih = now.copy(d_bias)
        (d_weight,) = self.op("mm", [now.turned(d_products), now.rows(self.input)], self.weight.shape)
        d_input = d_weight
        if self.named("needs_input"):
            (d_rows,) = self.op("matmul", [d_products, self.weight], (self.total, self.weight.shape[1]))
            d_input = now.view(d_rows, self.input.shape)
        made = [d_input, *d_states[: 1 + cell.has_cell], d_weight, d_weight_hh, d_bias_ih, d_bias]
        now.replace(node.outs[: len(made)], made)
