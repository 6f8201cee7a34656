"""Recurrent networks: one layer and direction over a whole sequence is one operation.

The input's product with its weights is taken for all steps at once, so that only the state's product is left to the loop over time; and
so it is on the way back, where the loop gives the gradients at the gates, and the weights' gradients are products over all steps.

Sequences of several lengths come packed (``sequences.py``), the longest first: ``sizes`` says how many rows each step has. The state has a
row for every sequence, and a step changes the first ``sizes[t]`` rows. Forwards the others have reached their end and stay; in the reverse
direction they have not begun and still hold the first state. Padded sequences are the case in which all sizes are equal.

What one step computes behind the products is declared once (``Cell``), in words that arrays, tensors and symbols have: the loops here run
it on arrays, second derivatives on tensors, and of symbols ``kernels/families/recurrent_kernels.py`` makes the body of a native loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autograd.api import grad as gradients_of
from ..autograd.grad_mode import enable_grad
from ..core import dtype as dtypes
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite, documented, op
from ..core.state import grad_enabled
from .dropout import dropout as drop
from .joining import cat, stack
from .linalg.products import linear

Sizes = tuple[int, ...]
# Multiply-adds of the state's products, four of which are an element's work; and a step takes NumPy's calls longer than a kernel's start.
_WORK = "4 * prod(input.shape[:-1]) * (weight_hh.size + 2048)"


# -- cells -----------------------------------------------------------------------------------------------------------------------
class _OnArrays:
    """The words of cells over whatever has NumPy's functions."""

    tanh, where = np.tanh, np.where

    @staticmethod
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    @staticmethod
    def relu(x: Any) -> Any:
        return np.maximum(x, 0)


class _OnTensors:
    """The words of cells over tensors: operations that autograd can follow."""

    @staticmethod
    def tanh(x: Any) -> Any:
        return x.tanh()

    @staticmethod
    def sigmoid(x: Any) -> Any:
        return x.sigmoid()

    @staticmethod
    def relu(x: Any) -> Any:
        return x.relu()


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """Step of a cell behind the products, element by element.

    Attributes:
        gates: rows of the weights for each feature of the state.
        step: of words, the gates' sums of both products, and the cell (LSTM), or the state's part of the last gate, which its sum does not
            contain, and the state (GRU): the next state, the next cell (LSTM), and the gates.
        slope: of words, the gradient of the state (and of the cell), the gates, then cell and cell before (LSTM), the state's part of the
            last gate and the state before (GRU), or the state: the gradients at the gates' sums; and of the cell before (LSTM), or at the
            input's part of the last gate and, past the product, of the state before (GRU).
        state: of words, the gates and the cell: the state again (LSTM).
        carried: of the gates and the cell before: the cell again (LSTM).
        has_cell: whether a cell is carried beside the state.
        has_part: whether the last gate multiplies the state's product before it adds it.
    """

    gates: int
    step: Callable[..., tuple[Any, ...]]
    slope: Callable[..., tuple[Any, ...]]
    state: Callable[..., Any] | None = None
    carried: Callable[..., Any] | None = None
    has_cell: bool = False
    has_part: bool = False

    def forwards(self, *values: Any) -> tuple[Any, ...]:
        """``step`` on arrays, or on symbols."""
        return self.step(_OnArrays, *values)

    def backwards(self, *values: Any) -> tuple[Any, ...]:
        """``slope`` on arrays, or on symbols."""
        return self.slope(_OnArrays, *values)

    def backwards_with_state(self, *values: Any) -> tuple[Any, ...]:
        """The same, and the state (LSTM)."""
        assert self.state is not None
        return *self.backwards(*values), self.state(_OnArrays, *values[2 : 2 + self.gates + 1])


def _lstm_step(f: Any, i: Any, forget: Any, g: Any, o: Any, c: Any) -> tuple[Any, ...]:
    i, forget, g, o = f.sigmoid(i), f.sigmoid(forget), f.tanh(g), f.sigmoid(o)
    c = _lstm_cell(i, forget, g, o, c)
    return _lstm_state(f, i, forget, g, o, c), c, i, forget, g, o


def _lstm_cell(i: Any, forget: Any, g: Any, o: Any, before: Any) -> Any:
    return forget * before + i * g


def _lstm_state(f: Any, i: Any, forget: Any, g: Any, o: Any, c: Any) -> Any:
    return o * f.tanh(c)


def _lstm_slope(f: Any, d_h: Any, d_c: Any, i: Any, forget: Any, g: Any, o: Any, c: Any, before: Any) -> tuple[Any, ...]:
    tanh_c = f.tanh(c)
    d_c = d_c + d_h * (o * (1 - tanh_c * tanh_c))
    d_i, d_forget = d_c * (g * (i * (1 - i))), d_c * (before * (forget * (1 - forget)))
    return d_i, d_forget, d_c * (i * (1 - g * g)), d_h * (tanh_c * (o * (1 - o))), d_c * forget


def _gru_step(f: Any, r: Any, z: Any, n: Any, part: Any, h: Any) -> tuple[Any, ...]:
    r, z = f.sigmoid(r), f.sigmoid(z)
    n = f.tanh(n + r * part)
    return n + z * (h - n), r, z, n


def _gru_slope(f: Any, d_h: Any, r: Any, z: Any, n: Any, part: Any, before: Any) -> tuple[Any, ...]:
    d_n = d_h * ((1 - z) * (1 - n * n))
    return d_n * (part * (r * (1 - r))), d_h * ((before - n) * (z * (1 - z))), d_n * r, d_n, d_h * z


LSTM = Cell(4, _lstm_step, _lstm_slope, _lstm_state, _lstm_cell, has_cell=True)
GRU = Cell(3, _gru_step, _gru_slope, has_part=True)
TANH = Cell(1, lambda f, x: (f.tanh(x),), lambda f, d_h, h: (d_h * (1 - h * h),))
RELU = Cell(1, lambda f, x: (f.relu(x),), lambda f, d_h, h: (f.where(h <= 0, 0, d_h),))  # NaN lets gradients through, as in relu


# -- steps -----------------------------------------------------------------------------------------------------------------------
def _sizes_of(input: Any, sizes: Sizes | None) -> Sizes:
    """Rows of each step; of an input ``(T, N, features)`` where nothing else is said."""
    return (input.shape[1],) * input.shape[0] if sizes is None else sizes


def _steps(sizes: Sizes, backwards: bool, states: Sequence[np.ndarray], *arrays: np.ndarray) -> Iterator[Any]:
    """For each step the rows of ``states`` that it changes, and its rows of each array."""
    if sizes[0] == sizes[-1]:
        running = [[state[: sizes[0]]] * len(sizes) for state in states]
        parts = [list(array.reshape(len(sizes), sizes[0], *array.shape[1:])) for array in arrays]
    else:
        stops = np.cumsum(sizes).tolist()
        running = [[state[:size] for size in sizes] for state in states]
        parts = [[array[stop - size : stop] for size, stop in zip(sizes, stops, strict=True)] for array in arrays]
    steps = list(zip(*running, *parts, strict=True))
    return reversed(steps) if backwards else iter(steps)


def _before(sizes: Sizes, reverse: bool, states: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The state that each row of ``states`` came from."""
    first = _matrix(first)
    if sizes[0] == sizes[-1]:
        batch = sizes[0]
        return np.concatenate([states[batch:], first] if reverse else [first, states[: states.shape[0] - batch]])
    rows = [part for (part,) in _steps(sizes, False, (), states)]
    pieces = []
    for step, size in enumerate(sizes):
        if reverse:
            running = sizes[step + 1] if step + 1 < len(sizes) else 0
            pieces += [rows[step + 1], first[running:size]] if running else [first[:size]]
        else:
            pieces.append(rows[step - 1][:size] if step else first[:size])
    return np.concatenate(pieces)


def _rows(array: np.ndarray) -> np.ndarray:
    """The elements of all sequences below each other."""
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def _products(input: np.ndarray, weight: np.ndarray | None, *biases: np.ndarray | None) -> np.ndarray:
    """``input @ weight.T`` plus biases for all steps at once, a row for each element of each sequence; a copy of these without weight."""
    product = _rows(input).copy() if weight is None else np.dot(_rows(input), weight.T)
    for bias in biases:
        if bias is not None:
            product += bias
    return product


def _transposed(weight: np.ndarray, sizes: Sizes) -> np.ndarray:
    """``weight.T`` for a product at each step: laid out anew for many, as BLAS takes half as long for few rows then."""
    return weight.T.copy() if len(sizes) > 8 else weight.T


def _columns(gates: np.ndarray, count: int) -> list[np.ndarray]:
    """The gates side by side in ``gates``, as views."""
    hidden = gates.shape[1] // count
    return [gates[:, k * hidden : (k + 1) * hidden] for k in range(count)]


def _check(gates: int, input: Any, h: Any, hidden: int, weight_ih: Any, weight_hh: Any, *others: Any) -> None:
    """Raise what is wrong with the operands of one layer.

    Raises:
        RuntimeError: dtypes differ, or shapes do not fit.
        NotImplementedError: a dtype that is not floating point.
    """
    if input.dtype.kind not in "fV":
        raise NotImplementedError(f"\"recurrent layer\" not implemented for '{dtypes.of_array(input).legacy}'")
    for x, weight in ((input, weight_ih), (h, weight_hh), *((input, other) for other in others)):
        if weight is not None and x.dtype != weight.dtype:
            names = " and ".join(dtypes.of_array(array).legacy for array in (x, weight))
            raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {names}")
    for x, weight in ((input, weight_ih), (h, weight_hh)):
        if weight is not None and x.shape[-1] != weight.shape[1]:
            rows, features = _rows(x).shape
            raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{features} and {weight.shape[1]}x{weight.shape[0]})")
    for name, weight in (("weight_ih", weight_ih), ("weight_hh", weight_hh)):
        if weight is not None and weight.shape[0] != gates * hidden:
            raise RuntimeError(f"{name} first dim must be {gates} * hidden_size = {gates * hidden}, but got {weight.shape[0]}")


def _to_input(d_gates: np.ndarray, input: np.ndarray, weight: np.ndarray | None, needed: bool) -> np.ndarray:
    """The input's gradient, that of its products without weight; nothing if it is not needed."""
    if weight is None:
        return d_gates
    return np.dot(d_gates, weight).reshape(input.shape) if needed else d_gates[:0]


def _to_parameters(d_gates: np.ndarray, input: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, ...]:
    """The gradients of the two weights and biases, where both products meet the same sums."""
    d_bias = np.add.reduce(d_gates, axis=0)
    return np.dot(d_gates.T, _rows(input)), np.dot(d_gates.T, before), d_bias, d_bias.copy()


def _matrix(state: np.ndarray) -> np.ndarray:
    """A state ``(N, hidden)`` or ``(1, N, hidden)`` as ``(N, hidden)``."""
    return state.reshape(state.shape[-2:])


def _start(grad: np.ndarray | None, like: np.ndarray) -> np.ndarray:
    return np.zeros(like.shape[-2:], like.dtype) if grad is None else _matrix(grad).copy()


# -- derivatives again -------------------------------------------------------------------------------------------------------------
def _linear(x: Any, weight: Any, bias: Any) -> Any:
    product = x @ weight.t()
    return product if bias is None else product + bias


def _again(cell: Cell, operands: Sequence[Any], sizes: Sizes | None, reverse: bool) -> tuple[Any, ...]:
    """A layer in operations of the tape, step by step: the output, and the last states."""
    input, *firsts = operands[: 3 if cell.has_cell else 2]
    states = [first if first.dim() == 2 else first.squeeze(0) for first in firsts]
    weight_ih, weight_hh, bias_ih, bias_hh, *projection = operands[1 + len(states) :]
    sizes = _sizes_of(input, sizes)
    rows = input.reshape(sum(sizes), input.shape[-1]).split(sizes)
    outputs: list[Any] = [None] * len(sizes)
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        before = [state[: sizes[t]] for state in states]
        of_input, of_state = _linear(rows[t], weight_ih, bias_ih), _linear(before[0], weight_hh, bias_hh)
        if cell.has_part:
            (*inputs, last), (*hidden, part) = of_input.chunk(cell.gates, 1), of_state.chunk(cell.gates, 1)
            values = (*[a + b for a, b in zip(inputs, hidden, strict=True)], last, part, before[0])
        else:
            values = (*(of_input + of_state).chunk(cell.gates, 1), *before[1:])
        changed = list(cell.step(_OnTensors, *values)[: len(states)])
        if projection and projection[0] is not None:
            changed[0] = changed[0] @ projection[0].t()
        outputs[t] = changed[0]
        states = [cat([new, old[sizes[t] :]]) if sizes[t] < old.shape[0] else new for new, old in zip(changed, states, strict=True)]
    lasts = [state if first.dim() == 2 else state.unsqueeze(0) for state, first in zip(states, firsts, strict=True)]
    return cat(outputs).reshape(*input.shape[:-1], states[0].shape[1]), *lasts


def _recorded(
    cell: Cell, operands: Sequence[Any], grads: Sequence[Any], sizes: Sizes | None, reverse: bool, needs: Sequence[bool]
) -> tuple[Any, ...]:
    """Gradients that can be differentiated: the layer again, step by step, and the tape's derivative of that."""
    with enable_grad():
        # Aliases: a gradient at an operand must not pass through it to another one that it was computed from.
        aliases = [operand if operand is None else operand.view_as(operand) for operand in operands]
        results = _again(cell, aliases, sizes, reverse)
    arrived = [(result, grad) for result, grad in zip(results, grads) if grad is not None]
    wanted = [alias for alias, need in zip(aliases, needs, strict=True) if need]
    given = gradients_of([result for result, _ in arrived], wanted, [grad for _, grad in arrived], create_graph=True, allow_unused=True)
    gradients = iter(given)
    return tuple([next(gradients) if need else None for need in needs])


def _only_needed(gradients: Sequence[Any], needs: Sequence[bool]) -> tuple[Any, ...]:
    return tuple([gradient if need else None for gradient, need in zip(gradients, needs, strict=True)])


# -- tanh and relu -----------------------------------------------------------------------------------------------------------------
@op(name="_rnn_layer_backward", multi_output=True, fast=True, work=_WORK, grad=None)
def rnn_layer_backward(
    grad_output: Tensor | None,
    grad_h: Tensor | None,
    input: Tensor,
    h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    output: Tensor,
    cell: Any,
    sizes: Any,
    reverse: bool,
    needs_input: bool,
) -> Tensor:
    """Gradients of ``_rnn_layer`` for its six operands."""
    sizes = _sizes_of(input, sizes)
    output = _rows(output)
    d_gates = np.empty_like(output)
    arrived = np.zeros_like(output) if grad_output is None else grad_output.reshape(output.shape)
    d_h = _start(grad_h, h)
    for running, gate, state, arrives in _steps(sizes, not reverse, (d_h,), d_gates, output, arrived):
        running += arrives
        (gate[...],) = cell.backwards(running, state)
        np.dot(gate, weight_hh, out=running)
    of_parameters = _to_parameters(d_gates, input, _before(sizes, reverse, output, h))
    return _to_input(d_gates, input, weight_ih, needs_input), d_h.reshape(h.shape), *of_parameters


def _rnn_rule(
    grads: Any,
    input: Any,
    h: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    result: Any,
    cell: Any,
    sizes: Any,
    reverse: bool,
    needs: Any,
) -> Any:
    if grad_enabled():
        return _recorded(cell, (input, h, weight_ih, weight_hh, bias_ih, bias_hh), grads, sizes, reverse, needs)
    gradients = rnn_layer_backward(*grads, input, h, weight_ih, weight_hh, result, cell, sizes, reverse, needs[0])
    return _only_needed(gradients, needs)


@op(name="_rnn_layer", multi_output=True, fast=True, work=_WORK, grad={"input, h, weight_ih, weight_hh, bias_ih, bias_hh": _rnn_rule})
def rnn_layer(
    input: Tensor,
    h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    cell: Any,
    sizes: Any,
    reverse: bool,
) -> Tensor:
    """One layer and direction of ``h = act(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)``.

    Args:
        input: ``(T, N, features)``; or packed, ``(total, features)``, with ``sizes``.
        h: ``(N, hidden)`` or ``(1, N, hidden)``.
        cell: what a step computes (``Cell``).
        sizes: rows of each step.
        reverse: from the last step to the first.
    Returns:
        All states in the input's order, and the last ones, in the shape of ``h``.
    """
    _check(1, input, h, h.shape[-1], weight_ih, weight_hh, bias_ih, bias_hh)
    gates = _products(input, weight_ih, bias_ih, bias_hh)
    sizes = _sizes_of(input, sizes)
    state, recurrent = _matrix(h).copy(), _transposed(weight_hh, sizes)
    for running, products, gate in _steps(sizes, reverse, (state, np.empty_like(state)), gates):
        np.dot(running, recurrent, out=products)
        gate += products
        (gate[...],) = cell.forwards(gate)
        running[...] = gate
    return gates.reshape(*input.shape[:-1], h.shape[-1]), state.reshape(h.shape)


# -- LSTM --------------------------------------------------------------------------------------------------------------------------
@op(name="_lstm_layer_backward", multi_output=True, fast=True, work=_WORK, grad=None)
def lstm_layer_backward(
    grad_output: Tensor | None,
    grad_h: Tensor | None,
    grad_c: Tensor | None,
    input: Tensor,
    h: Tensor,
    c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    weight_hr: Tensor | None,
    output: Tensor,
    gates: Tensor,
    cells: Tensor,
    cell: Any,
    sizes: Any,
    reverse: bool,
    needs_input: bool,
) -> Tensor:
    """Gradients of ``_lstm_layer`` for its eight operands, from the gates and cells of the way forwards."""
    sizes = _sizes_of(input, sizes)
    output = _rows(output)
    i, f, g, o = _columns(gates, 4)
    d_gates = np.empty_like(gates)
    arrived = np.zeros_like(output) if grad_output is None else grad_output.reshape(output.shape)
    projected = arrived if weight_hr is None else np.empty(arrived.shape, arrived.dtype)  # gradients behind the projection
    d_h, d_c = _start(grad_h, h), _start(grad_c, c)
    states = (d_h, d_c, d_h if weight_hr is None else np.empty(d_c.shape, c.dtype))  # the last one before the projection
    gradients = (arrived, projected, d_gates, *_columns(d_gates, 4))
    saved = (i, f, g, o, cells, _before(sizes, reverse, cells, c))
    for running_h, running_c, hidden, arrives, behind, gate, d_i, d_f, d_g, d_o, *step in _steps(
        sizes, not reverse, states, *gradients, *saved
    ):
        running_h += arrives
        if weight_hr is not None:
            behind[...] = running_h
            np.dot(running_h, weight_hr, out=hidden)
        d_i[...], d_f[...], d_g[...], d_o[...], running_c[...] = cell.backwards(hidden, running_c, *step)
        np.dot(gate, weight_hh, out=running_h)
    of_parameters = _to_parameters(d_gates, input, _before(sizes, reverse, output, h))
    of_projection = np.empty(0, of_parameters[2].dtype) if weight_hr is None else np.dot(projected.T, o * np.tanh(cells))
    d_states = d_h.reshape(h.shape), d_c.reshape(c.shape)
    return _to_input(d_gates, input, weight_ih, needs_input), *d_states, *of_parameters, of_projection


def _lstm_rule(
    grads: Any,
    input: Any,
    h: Any,
    c: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    weight_hr: Any,
    result: Any,
    result3: Any,
    result4: Any,
    cell: Any,
    sizes: Any,
    reverse: bool,
    needs: Any,
) -> Any:
    if grads[0] is grads[1] is None and len(_sizes_of(input, sizes)) == 1:  # the cells of a single step are not projected
        needs = (*needs[:-1], False)
    if grad_enabled():
        return _recorded(cell, (input, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr), grads[:3], sizes, reverse, needs)
    gradients = lstm_layer_backward(
        *grads[:3], input, h, c, weight_ih, weight_hh, weight_hr, result, result3, result4, cell, sizes, reverse, needs[0]
    )
    return _only_needed(gradients, needs)


@op(
    name="_lstm_layer",
    multi_output=True,
    fast=True,
    work=_WORK,
    grad={"input, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr": _lstm_rule},
)
def lstm_layer(
    input: Tensor,
    h: Tensor,
    c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    weight_hr: Tensor | None,
    cell: Any,
    sizes: Any,
    reverse: bool,
) -> Tensor:
    """One layer and direction of an LSTM; ``weight_hr`` projects the hidden state. Arguments as for ``_rnn_layer``.

    Returns:
        All hidden states in the input's order, the last hidden states and cells; for the way back all gates and all cells.
    """
    _check(4, input, h, c.shape[-1], weight_ih, weight_hh, c, bias_ih, bias_hh, weight_hr)
    gates = _products(input, weight_ih, bias_ih, bias_hh)
    cells = np.empty((gates.shape[0], c.shape[-1]), gates.dtype)
    output = np.empty((gates.shape[0], h.shape[-1]), gates.dtype)
    sizes = _sizes_of(input, sizes)
    last_h, last_c, recurrent = _matrix(h).copy(), _matrix(c).copy(), _transposed(weight_hh, sizes)
    states = (last_h, last_c, np.empty((len(last_h), gates.shape[1]), gates.dtype))
    results = (gates, *_columns(gates, 4), cells, output)
    for running_h, running_c, products, gate, i, f, g, o, after, out in _steps(sizes, reverse, states, *results):
        np.dot(running_h, recurrent, out=products)
        products += gate
        hidden, after[...], i[...], f[...], g[...], o[...] = cell.forwards(*_columns(products, 4), running_c)
        running_c[...] = after
        if weight_hr is None:
            out[...] = hidden
        else:
            np.dot(hidden, weight_hr.T, out=out)
        running_h[...] = out
    return output.reshape(*input.shape[:-1], h.shape[-1]), last_h.reshape(h.shape), last_c.reshape(c.shape), gates, cells


# -- GRU ---------------------------------------------------------------------------------------------------------------------------
@op(name="_gru_layer_backward", multi_output=True, fast=True, work=_WORK, grad=None)
def gru_layer_backward(
    grad_output: Tensor | None,
    grad_h: Tensor | None,
    input: Tensor,
    h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    output: Tensor,
    gates: Tensor,
    candidates: Tensor,
    cell: Any,
    sizes: Any,
    reverse: bool,
    needs_input: bool,
) -> Tensor:
    """Gradients of ``_gru_layer`` for its six operands, from the gates of the way forwards."""
    sizes = _sizes_of(input, sizes)
    output = _rows(output)
    r, z, n = _columns(gates, 3)
    before = _before(sizes, reverse, output, h)
    d_hidden, of_input = np.empty_like(gates), np.empty_like(output)
    arrived = np.zeros_like(output) if grad_output is None else grad_output.reshape(output.shape)
    d_h = _start(grad_h, h)
    by_gate = _columns(d_hidden, 3)
    states, gradients = (d_h, np.empty_like(d_h)), (arrived, d_hidden, *by_gate, of_input)
    saved = (r, z, n, candidates, before)
    for running, room, arrives, gate, d_r, d_z, d_n, d_part, *step in _steps(sizes, not reverse, states, *gradients, *saved):
        running += arrives
        d_r[...], d_z[...], d_n[...], d_part[...], running[...] = cell.backwards(running, *step)
        np.dot(gate, weight_hh, out=room)
        running += room
    d_bias_hh = np.add.reduce(d_hidden, axis=0)
    d_weight_hh = np.dot(d_hidden.T, before)
    by_gate[2][...] = of_input  # the input's part of the candidate is not multiplied by the reset gate
    return (
        _to_input(d_hidden, input, weight_ih, needs_input),
        d_h.reshape(h.shape),
        np.dot(d_hidden.T, _rows(input)),
        d_weight_hh,
        np.add.reduce(d_hidden, axis=0),
        d_bias_hh,
    )


def _gru_rule(
    grads: Any,
    input: Any,
    h: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    result: Any,
    result2: Any,
    result3: Any,
    cell: Any,
    sizes: Any,
    reverse: bool,
    needs: Any,
) -> Any:
    if grad_enabled():
        return _recorded(cell, (input, h, weight_ih, weight_hh, bias_ih, bias_hh), grads[:2], sizes, reverse, needs)
    gradients = gru_layer_backward(*grads[:2], input, h, weight_ih, weight_hh, result, result2, result3, cell, sizes, reverse, needs[0])
    return _only_needed(gradients, needs)


@op(name="_gru_layer", multi_output=True, fast=True, work=_WORK, grad={"input, h, weight_ih, weight_hh, bias_ih, bias_hh": _gru_rule})
def gru_layer(
    input: Tensor,
    h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    cell: Any,
    sizes: Any,
    reverse: bool,
) -> Tensor:
    """One layer and direction of a GRU. Arguments as for ``_rnn_layer``.

    Returns:
        All states in the input's order, and the last ones; for the way back all gates, and the state's part of each candidate.
    """
    _check(3, input, h, h.shape[-1], weight_ih, weight_hh, bias_ih, bias_hh)
    gates = _products(input, weight_ih, bias_ih)
    hidden = h.shape[-1]
    candidates, output = np.empty((gates.shape[0], hidden), gates.dtype), np.empty((gates.shape[0], hidden), gates.dtype)
    sizes = _sizes_of(input, sizes)
    state, recurrent = _matrix(h).copy(), _transposed(weight_hh, sizes)
    product = np.empty((len(state), gates.shape[1]), gates.dtype)
    states = (state, product, product[:, : 2 * hidden], product[:, 2 * hidden :])
    results = (gates[:, : 2 * hidden], *_columns(gates, 3), candidates, output)
    for running, products, of_two, part, two, r, z, n, candidate, out in _steps(sizes, reverse, states, *results):
        np.dot(running, recurrent, out=products)
        if bias_hh is not None:
            products += bias_hh
        of_two += two
        candidate[...] = part
        out[...], r[...], z[...], n[...] = cell.forwards(*_columns(of_two, 2), n, part, running)
        running[...] = out
    return output.reshape(*input.shape[:-1], hidden), state.reshape(h.shape), gates, candidates


# -- layers and directions -----------------------------------------------------------------------------------------------------------


def _layers(
    name: str,
    cell: Cell,
    input: Any,
    hx: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """The output and the last states."""
    sizes = None
    if isinstance(has_biases, (list, tuple)):  # the other form: (data, batch_sizes, hx, params, has_biases, ...)
        batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional = (
            *(hx, params, has_biases, num_layers),
            *(dropout, train, bidirectional, batch_first),
        )
        sizes, batch_first = tuple(batch_sizes.tolist()), False
        if sum(sizes) != input.shape[0] or any(after > size or after < 1 for size, after in itertools.pairwise(sizes)):
            raise RuntimeError(
                f"{name}: expected batch sizes that do not increase and add up to the {input.shape[0]} rows of the data, got {list(sizes)}"
            )
    is_usual = has_biases.__class__ is train.__class__ is bidirectional.__class__ is batch_first.__class__ is bool
    if not (is_usual and num_layers.__class__ is int and dropout.__class__ is float):
        _check_options(name, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    if isinstance(hx, (list, tuple)) != cell.has_cell or (cell.has_cell and len(hx) != 2):
        raise RuntimeError("lstm expects two hidden states" if cell.has_cell else f"{name} expects one hidden state, a tensor")
    states, directions = hx if cell.has_cell else (hx,), 2 if bidirectional else 1
    shapes, dims = [state.shape for state in states], 3 if sizes is None else 2
    if input.dim() != dims or any(len(shape) != 3 for shape in shapes):
        dim = input.dim() if input.dim() != dims else next(len(shape) for shape in shapes if len(shape) != 3)
        raise IndexError(f"{name}: expected input of {dims} and states of 3 dimensions, got {dim}")
    parameters = _grouped(name, params, num_layers * directions, has_biases, cell.has_cell and shapes[0][2] != shapes[1][2])
    x = input.transpose(0, 1) if batch_first else input
    if x.shape[0] == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    _check_states(name, x.shape[1] if sizes is None else sizes[0], shapes, num_layers * directions)
    if len(parameters) == 1 and all(shape[0] == 1 for shape in shapes):  # states are passed on as they are
        output, *final = _layer(cell, x, states, parameters[0], sizes, False)
        return (output.transpose(0, 1) if batch_first else output), *final
    lasts = []
    for number in range(num_layers):
        outputs = []
        for k in range(number * directions, (number + 1) * directions):
            output, *after = _layer(cell, x, [state[k] for state in states], parameters[k], sizes, k % directions == 1)
            outputs.append(output)
            lasts.append(after)
        x = outputs[0] if directions == 1 else cat(outputs, -1)
        if dropout and train and number < num_layers - 1:
            x = drop(x, dropout, True)
    final = [stack(after) for after in zip(*lasts, strict=True)]
    return (x.transpose(0, 1) if batch_first else x), *final


def _check_states(name: str, batch: int, shapes: Sequence[tuple[int, ...]], layers: int) -> None:
    """Raise what is wrong with first states of so many layers and directions."""
    for count, rows, _ in shapes:
        if rows != batch:
            raise RuntimeError(f"The size of tensor a ({rows}) must match the size of tensor b ({batch}) at non-singleton dimension 0")
        if count < layers:
            raise RuntimeError(f"{name}: expected first states of {layers} layers and directions, got {count}")


def _check_options(name: str, *options: Any) -> None:
    for (option, kinds), value in zip(_OPTIONS.items(), options, strict=True):
        if not isinstance(value, kinds) or (value.__class__ is bool and bool not in kinds):
            raise TypeError(f"{name}(): argument '{option}' must be {kinds[0].__name__}, not {type(value).__name__}")


_FLAG = (bool, np.bool_)
_OPTIONS: dict[str, tuple[type, ...]] = {
    "has_biases": _FLAG,
    "num_layers": (int, np.integer),
    "dropout": (float, int, np.number, bool),
    "train": _FLAG,
    "bidirectional": _FLAG,
    "batch_first": _FLAG,
}


def _grouped(name: str, params: Any, groups: int, has_biases: bool, projected: bool) -> list[tuple[Any, ...]]:
    """Parameters by layer and direction: two weights, two biases or None, the projection or None."""
    count = 2 + 2 * bool(has_biases) + projected
    if len(params) != count * groups:
        raise RuntimeError(f"{name}: expected {count} parameters for each of {groups} layers and directions, got {len(params)}")
    listed = []
    for start in range(0, len(params), count):
        group = list(params[start : start + count])
        projection = group.pop() if projected else None
        listed.append((*group, *(() if has_biases else (None, None)), projection))
    return listed


def _layer(cell: Cell, x: Any, states: Sequence[Any], parameters: Sequence[Any], sizes: Sizes | None, reverse: bool) -> Any:
    """One layer in one direction: its output, and its last states."""
    if cell.has_cell:
        return lstm_layer(x, *states, *parameters, cell, sizes, reverse)[:3]
    layer = gru_layer if cell.has_part else rnn_layer
    return layer(x, *states, *parameters[:4], cell, sizes, reverse)[:2]


@composite(method=False, autocast={"cpu": "state", "cuda": "narrow"})
def lstm(
    input: Tensor,
    hx: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """A long short-term memory: layers that carry a hidden state and a cell from step to step.

    A packed sequence is passed as ``(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)``.

    Args:
        input: ``(T, N, features)``, or ``(N, T, features)`` with ``batch_first``.
        hx: two tensors, first hidden states and cells, ``(layers * directions, N, hidden)`` each.
        params: of each layer and direction ``weight_ih`` ``(4 * hidden, features)``, ``weight_hh``, with ``has_biases`` the two biases, and
            ``weight_hr`` where hidden states are smaller than cells.
        has_biases: whether there are biases.
        num_layers, bidirectional: how many layers, and whether each runs in both directions.
        dropout, train: probability of an element between layers to be zeroed, in training.
        batch_first: whether the batch is the first dimension of input and output.
    Returns:
        The last layer's output ``(T, N, directions * hidden)``, the last hidden states and the last cells, both in ``hx``'s shapes.
    Raises:
        RuntimeError: shapes or dtypes that do not fit.
        TypeError: an option of another type.
    Source: torch.lstm. Hochreiter and Schmidhuber 1997; the forget gate: Gers et al. 2000.
    Example:
        >>> states = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
        >>> weights = torch.randn(16, 3), torch.randn(16, 4), torch.zeros(16), torch.zeros(16)
        >>> output, h, c = torch.lstm(torch.randn(5, 2, 3), states, weights, True, 1, 0.0, False, False, False)
        >>> output.shape, torch.equal(output[-1], h[0])
        (torch.Size([5, 2, 4]), True)
    """
    return _layers("lstm", LSTM, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def _of_one_state(name: str, cell: Cell, **words: str) -> Any:
    """Declare a recurrent function whose layers carry one state; ``words`` are those of its documentation."""

    @composite(name=name, method=False, autocast={"cpu": "state" if name == "gru" else "narrow", "cuda": "narrow"})
    @documented(name=name, **words)
    def function(
        input: Tensor,
        hx: Tensor,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        """{summary}

        A packed sequence is passed as for ``lstm``.

        Args:
            input: ``(T, N, features)``, or ``(N, T, features)`` with ``batch_first``.
            hx: first states, ``(layers * directions, N, hidden)``.
            params: of each layer and direction ``weight_ih`` ``({gates}hidden, features)``, ``weight_hh`` and, with ``has_biases``, two
                biases.
            has_biases, num_layers, dropout, train, bidirectional, batch_first: as for ``lstm``.
        Returns:
            The last layer's output, ``(T, N, directions * hidden)``, and the last states, in ``hx``'s shape.
        Raises:
            RuntimeError: shapes or dtypes that do not fit.
            TypeError: an option of another type.
        Source: torch.{name}. {source}.
        Example:
            >>> weights = {weight}, {weight}
            >>> output, h = torch.{name}(torch.{steps}(3, 1, 1), torch.{first}(1, 1, 1), weights, False, 1, 0.0, False, False, False)
            >>> output.flatten()
            {printed}
        """
        return _layers(name, cell, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)

    return function


gru = _of_one_state(
    "gru",
    GRU,
    summary="Gated recurrent units: layers that carry one state, which a reset and an update gate keep or replace.",
    source="Cho et al. 2014, with the reset gate behind the state's product",
    gates="3 * ",
    weight="torch.zeros(3, 1)",
    steps="zeros",
    first="ones",
    printed="tensor([0.5000, 0.2500, 0.1250])",
)
_STEP = "Layers of ``h = {}(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)``."
_PLAIN = {"gates": "", "weight": "torch.ones(1, 1)", "steps": "ones", "first": "zeros"}
rnn_tanh = _of_one_state(
    "rnn_tanh", TANH, summary=_STEP.format("tanh"), source="Elman 1990", printed="tensor([0.7616, 0.9427, 0.9597])", **_PLAIN
)
rnn_relu = _of_one_state(
    "rnn_relu",
    RELU,
    summary=_STEP.format("relu"),
    source="Elman 1990, with another nonlinearity",
    printed="tensor([1., 2., 3.])",
    **_PLAIN,
)


# -- single steps ------------------------------------------------------------------------------------------------------------------
def _check_step(gates: int, input: Any, states: Any, w_ih: Any, w_hh: Any) -> None:
    """Raises:
    RuntimeError: operands of one step do not fit.
    """
    given, weights = input.shape, (w_ih.shape, w_hh.shape)
    hidden = weights[1][1]
    if given[1] != weights[0][1]:
        raise RuntimeError(f"input has inconsistent input_size: got {given[1]} expected {weights[0][1]}")
    for name, shape in zip(("weight_ih", "weight_hh"), weights, strict=True):
        if shape[0] != gates * hidden:
            raise RuntimeError(f"{name} first dim must be {gates} * hidden_size = {gates * hidden}, but got {shape[0]}")
    for number, state in enumerate(states):
        shape = state.shape
        if given[0] != shape[0]:
            raise RuntimeError(f"Input batch size {given[0]} doesn't match hidden{number} batch size {shape[0]}")
        if shape[1] != hidden:
            raise RuntimeError(f"hidden{number} has inconsistent hidden_size: got {shape[1]}, expected {hidden}")


def _one_step(cell: Cell, input: Any, states: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    """The states after one step."""
    _check_step(cell.gates, input, states, w_ih, w_hh)
    return _layer(cell, input, states, (w_ih, w_hh, b_ih, b_hh, None), (input.shape[0],), False)[1:]


def _sum_of_one_step(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    """Both products of a plain cell, which is no more than them: two linear maps are quicker than a layer of one step."""
    _check_step(1, input, (hx,), w_ih, w_hh)
    return linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh)


@composite(method=False, autocast={"cpu": "state", "cuda": "narrow"})
def lstm_cell(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Any:
    """One step of an LSTM.

    Args:
        input: ``(N, features)``.
        hx: hidden state and cell, ``(N, hidden)`` each.
        w_ih, w_hh: ``(4 * hidden, features)`` and ``(4 * hidden, hidden)``: input, forget, cell and output gate.
        b_ih, b_hh: ``(4 * hidden,)``.
    Returns:
        The next hidden state and cell, ``(N, hidden)`` each.
    Raises:
        RuntimeError: shapes or dtypes that do not fit.
        TypeError: ``hx`` is a tensor.
    Source: torch.lstm_cell.
    Example:
        >>> h, c = torch.lstm_cell(torch.zeros(1, 1), (torch.zeros(1, 1), torch.ones(1, 1)), torch.zeros(4, 1), torch.zeros(4, 1))
        >>> c  # the forget gate is at one half
        tensor([[0.5000]])
    """
    if not isinstance(hx, (list, tuple)):
        raise TypeError(f"lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not {type(hx).__name__}")
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    if hx[0].dtype == input.dtype != hx[1].dtype:  # sums are as the input is, and promote with the cell
        return _again(LSTM, (input, *hx, w_ih, w_hh, b_ih, b_hh), (input.shape[0],), False)[1:]
    return _one_step(LSTM, input, hx, w_ih, w_hh, b_ih, b_hh)


@composite(method=False, autocast={"cpu": "state", "cuda": "narrow"})
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """One step of gated recurrent units.

    Args:
        input: ``(N, features)``.
        hx: the state, ``(N, hidden)``.
        w_ih, w_hh: ``(3 * hidden, features)`` and ``(3 * hidden, hidden)``: reset, update and new gate.
        b_ih, b_hh: ``(3 * hidden,)``.
    Returns:
        The next state, ``(N, hidden)``.
    Raises:
        RuntimeError: shapes or dtypes that do not fit.
    Source: torch.gru_cell.
    Example:
        >>> torch.gru_cell(torch.zeros(1, 1), torch.tensor([[4.0]]), torch.zeros(3, 1), torch.zeros(3, 1))  # half of the state stays
        tensor([[2.]])
    """
    return _one_step(GRU, input, [hx], w_ih, w_hh, b_ih, b_hh)[0]


@composite(method=False, autocast="narrow")
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """One step of a recurrent layer: ``tanh(w_ih @ input + b_ih + w_hh @ hx + b_hh)``.

    Args:
        input: ``(N, features)``.
        hx: the state, ``(N, hidden)``.
        w_ih, w_hh: ``(hidden, features)`` and ``(hidden, hidden)``.
        b_ih, b_hh: ``(hidden,)``.
    Returns:
        The next state, ``(N, hidden)``.
    Raises:
        RuntimeError: shapes or dtypes that do not fit.
    Source: torch.rnn_tanh_cell.
    Example:
        >>> torch.rnn_tanh_cell(torch.tensor([[2.0]]), torch.tensor([[-2.0]]), torch.ones(1, 1), torch.ones(1, 1))  # tanh(2 - 2)
        tensor([[0.]])
    """
    return _sum_of_one_step(input, hx, w_ih, w_hh, b_ih, b_hh).tanh()


@composite(method=False, autocast="narrow")
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """One step of a recurrent layer: ``relu(w_ih @ input + b_ih + w_hh @ hx + b_hh)``.

    Args:
        input: ``(N, features)``.
        hx: the state, ``(N, hidden)``.
        w_ih, w_hh: ``(hidden, features)`` and ``(hidden, hidden)``.
        b_ih, b_hh: ``(hidden,)``.
    Returns:
        The next state, ``(N, hidden)``.
    Raises:
        RuntimeError: shapes or dtypes that do not fit.
    Source: torch.rnn_relu_cell.
    Example:
        >>> torch.rnn_relu_cell(torch.tensor([[2.0]]), torch.tensor([[5.0]]), torch.ones(1, 1), torch.ones(1, 1))
        tensor([[7.]])
    """
    return _sum_of_one_step(input, hx, w_ih, w_hh, b_ih, b_hh).relu()
