"""Rows of recurrent layers: one node a layer and a direction pair, with the weights in ONNX's order of gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import ROWS

_ORDERS = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2], "RNN": [0]}  # input, output, forget, cell; update, reset, new


def _gates(b: Builder, weight: Value, kind: str) -> Value:
    """A weight with its gates in ONNX's order, and a first dimension for the direction."""
    order = _ORDERS[kind]
    hidden = weight.shape[0] // len(order)
    array = b.initializers.get(weight.name)
    if array is not None and b.folds:
        gates = np.split(array, len(order))
        return b.constant(np.concatenate([gates[k] for k in order])[None], weight.dtype)
    parts = [b.slice(weight, 0, k * hidden, (k + 1) * hidden, shape=(hidden, *weight.shape[1:])) for k in order]
    joined = parts[0] if len(parts) == 1 else b.op("Concat", *parts, axis=0, shape=weight.shape)
    return b.unsqueeze(joined, [0])


def _both(b: Builder, parts: list[Value]) -> Value:
    """The values of both directions as one."""
    arrays = [b.initializers.get(part.name) for part in parts]
    if b.folds and len(parts) > 1 and all(array is not None for array in arrays):
        return b.constant(np.concatenate(arrays), parts[0].dtype)
    return (
        parts[0] if len(parts) == 1 else b.op("Concat", *parts, axis=0, shape=(sum([part.shape[0] for part in parts]), *parts[0].shape[1:]))
    )


def _beside(b: Builder, x: Value, y: Value) -> Value:
    """Two biases as one."""
    if b.folds and x.name in b.initializers and y.name in b.initializers:
        return b.constant(np.concatenate([b.initializers[x.name], b.initializers[y.name]], 1), x.dtype)
    return b.op("Concat", x, y, axis=1, shape=(1, 2 * x.shape[1]))


def _layer(
    b: Builder, kind: str, x: Value, states: list[Value], weights: list[list[Value]], lengths: Value | None, options: dict[str, Any]
) -> list[Value]:
    """One layer in all its directions: the outputs as ``(length, batch, directions * hidden)``, and the last states."""
    directions = len(weights)
    hidden = weights[0][1].shape[1]
    inputs, recurrences = ([_gates(b, each[k], kind) for each in weights] for k in (0, 1))
    biases = None
    if len(weights[0]) > 2:
        biases = _both(b, [_beside(b, _gates(b, each[2], kind), _gates(b, each[3], kind)) for each in weights])
    length, batch = x.shape[:2]
    found = b.op(
        kind, x, _both(b, inputs), _both(b, recurrences), biases, lengths, *states, count=3 if kind == "LSTM" else 2, hidden_size=hidden,
        direction="bidirectional" if directions == 2 else "forward", **options,
    )  # fmt: skip
    found[0].shape = (length, directions, batch, hidden)
    for value in found[1:]:
        value.shape = (directions, batch, hidden)
    moved = b.transpose(found[0], [0, 2, 1, 3])
    flat = b.op("Reshape", moved, b.ints([0, 0, directions * hidden]), shape=(length, batch, directions * hidden))
    return [flat, *found[1:]]


def _recurrent(kind: str, options: dict[str, Any]) -> Callable[..., Any]:
    def translate(
        b: Builder,
        x: Value,
        hx: Any,
        parameters: list[Value],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
        lengths: Value | None = None,
    ) -> list[Value]:
        initial = list(hx) if kind == "LSTM" else [hx]
        count, directions = 4 if has_biases else 2, 2 if bidirectional else 1
        if len(parameters) != num_layers * directions * count:
            raise SymbolicValueError("recurrent layers with projections are not supported", kind)
        if x.rank == 2:
            raise SymbolicValueError("recurrent layers without a batch are not supported", x)
        y = b.transpose(x, [1, 0, 2]) if batch_first else x
        lasts: list[list[Value]] = []
        for layer in range(num_layers):
            first = layer * directions
            weights = [parameters[(first + d) * count : (first + d + 1) * count] for d in range(directions)]
            states = [_of_layer(b, state, first, directions, num_layers) for state in initial]
            y, *last = _layer(b, kind, y, states, weights, lengths, options)
            lasts.append(last)
            if dropout and train and layer < num_layers - 1:
                y = b.op("Dropout", y, b.constant(dropout, dtypes.float32), b.constant(True, dtypes.bool_))
        output = b.transpose(y, [1, 0, 2]) if batch_first else y
        return [output, *[_both(b, [last[k] for last in lasts]) for k in range(len(initial))]]

    return translate


def _of_layer(b: Builder, state: Value, first: int, directions: int, num_layers: int) -> Value:
    if num_layers == 1:
        return state
    return b.slice(state, 0, first, first + directions, shape=(directions, *state.shape[1:]))


ROWS["lstm.input"] = _recurrent("LSTM", {})
ROWS["gru.input"] = _recurrent("GRU", {"linear_before_reset": 1})
ROWS["rnn_tanh.input"] = _recurrent("RNN", {"activations": None})
ROWS["rnn_relu.input"] = _recurrent("RNN", {"activations": ["Relu"]})
