"""Steps of recurrent layers by themselves, behind products of the input that are there already.

Compiled programs are made of them in place of whole layers (``capture/recurrence.py``), so that the input's products are operations like
any other. Rows are elements of sequences: ``total`` of them, those of a step together; ``sizes`` says how many each step has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.calls.annotations import Tensor
from ..core.calls.registry import op, primitive
from .recurrent import _columns, _matrix, _steps

_WORK = "4 * {} * weight_hh.size"  # as of layers


@op(name="_recurrent_steps", multi_output=True, work=_WORK.format("len(products)"), grad=None)
def recurrent_steps(
    products: Tensor,
    h: Tensor,
    c: Tensor | None,
    weight_hh: Tensor,
    bias_hh: Tensor | None,
    cell: Any,
    sizes: Any,
    reverse: bool,
    keeps: bool,
) -> Tensor:
    """The steps of one layer and direction.

    Args:
        products: ``(total, gates * hidden)``, of input and weights, with their bias.
        h: ``(N, hidden)`` or ``(1, N, hidden)``, first states; and ``c``, first cells, of an LSTM.
        cell: what a step computes (``Cell``).
        sizes: rows of each step.
        reverse: from the last step to the first.
        keeps: whether an LSTM's cells are kept for the way back.
    Returns:
        All gates, all states, the last states and cells, and what is kept beside the gates: cells (LSTM) or parts of the last gate (GRU).
        What a cell does not have is empty.
    """
    nothing = np.empty(0, products.dtype)
    if cell.has_cell:
        made = primitive("_lstm_layer").kernel(products, h, c, None, weight_hh, None, bias_hh, None, cell, sizes, reverse)
        output, last, cells, gates, kept = made
        return gates, output, last, cells, kept if keeps else nothing
    if cell.has_part:
        output, last, gates, kept = primitive("_gru_layer").kernel(products, h, None, weight_hh, None, bias_hh, cell, sizes, reverse)
        return gates, output, last, nothing, kept
    output, last = primitive("_rnn_layer").kernel(products, h, None, weight_hh, None, bias_hh, cell, sizes, reverse)
    return nothing, output, last, nothing.copy(), nothing.copy()


@op(name="_recurrent_steps_backward", multi_output=True, work=_WORK.format("sum(sizes)"), grad=None)
def recurrent_steps_backward(
    gates: Tensor | None,
    kept: Tensor | None,
    grad_output: Tensor | None,
    grad_h: Tensor | None,
    grad_c: Tensor | None,
    h: Tensor,
    c: Tensor | None,
    weight_hh: Tensor,
    output: Tensor | None,
    cell: Any,
    sizes: Any,
    reverse: bool,
) -> Tensor:
    """Gradients of ``_recurrent_steps`` for products, first states and cells, weight and bias; ``output`` is not needed of an LSTM."""
    total = sum(sizes)
    input, back = np.empty((total, 0), h.dtype), (cell, sizes, reverse, True)
    if cell.has_cell:
        output = _columns(gates, 4)[3] * np.tanh(kept)
        of_lstm = primitive("_lstm_layer_backward").kernel
        made = of_lstm(grad_output, grad_h, grad_c, input, h, c, None, weight_hh, None, output, gates, kept, *back)
        d_products, d_h, d_c, _, d_weight, _, d_bias, _ = made
        return d_products, d_h, d_c, d_weight, d_bias
    if cell.has_part:
        made = primitive("_gru_layer_backward").kernel(grad_output, grad_h, input, h, None, weight_hh, output, gates, kept, *back)
    else:
        made = primitive("_rnn_layer_backward").kernel(grad_output, grad_h, input, h, None, weight_hh, output, *back)
    d_products, d_h, _, d_weight, _, d_bias = made
    return d_products, d_h, np.empty(0, h.dtype), d_weight, d_bias


@op(name="_lstm_cells", grad=None)
def lstm_cells(gates: Tensor, c: Tensor, cell: Any, sizes: Any, reverse: bool) -> Tensor:
    """An LSTM's cells from its gates and first cells, for the way back."""
    cells = np.empty((len(gates), c.shape[-1]), gates.dtype)
    running = _matrix(c).copy()
    for state, gate, row in _steps(sizes, reverse, (running,), gates, cells):
        row[...] = state[...] = cell.carried(*_columns(gate, cell.gates), state)
    return cells
