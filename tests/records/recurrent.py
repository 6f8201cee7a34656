"""Records of recurrent networks and their single steps, against references that follow the definitions step by step.

Packed sequences are in ``tests/nn/test_rnn.py``: PyTorch reads the batch sizes past their strides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from .record import Error, Record, call

FLOATS = ("float32", "float64", "bfloat16")
_ROWS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_INPUT, _HIDDEN, _BATCH, _STEPS = 3, 2, 2, 3


def _parameters(make: Any, kind: str, layers: int, directions: int, biases: bool, projected: int = 0) -> list:
    rows, state, listed = _ROWS[kind] * _HIDDEN, projected or _HIDDEN, []
    for layer in range(layers):
        for _ in range(directions):
            listed += [make(rows, state * directions if layer else _INPUT), make(rows, state)]
            listed += [make(rows), make(rows)] if biases else []
            listed += [make(projected, _HIDDEN)] if projected else []
    return listed


def _states(make: Any, kind: str, count: int, projected: int = 0) -> Any:
    h = make(count, _BATCH, projected or _HIDDEN)
    return [h, make(count, _BATCH, _HIDDEN)] if kind == "lstm" else h


def _networks(kind: str) -> Any:
    def samples(make: Any) -> list:
        x = make(_STEPS, _BATCH, _INPUT)
        listed = [
            call(x, _states(make, kind, 1), _parameters(make, kind, 1, 1, True), True, 1, 0.0, False, False, False),
            call(x.swapaxes(0, 1).copy(), _states(make, kind, 4), _parameters(make, kind, 2, 2, False), False, 2, 0.0, True, True, True),
        ]
        if kind == "lstm":
            parameters = _parameters(make, kind, 1, 2, True, 1)
            listed.append(call(x, _states(make, kind, 2, 1), parameters, True, 1, 0.0, False, True, False))
        return listed

    return samples


def _step(kind: str, x: Any, states: Any, weights: Any) -> list:
    """The states after one step."""
    w_ih, w_hh, b_ih, b_hh, *projection = weights
    h = states[0]
    of_input, of_state = x @ w_ih.T + (0 if b_ih is None else b_ih), h @ w_hh.T + (0 if b_hh is None else b_hh)
    if kind == "lstm":
        i, f, g, o = np.split(of_input + of_state, 4, -1)
        c = expit(f) * states[1] + expit(i) * np.tanh(g)
        h = expit(o) * np.tanh(c)
        return [h @ projection[0].T if projection else h, c]
    if kind == "gru":
        (r, z, n), (hidden_r, hidden_z, hidden_n) = np.split(of_input, 3, -1), np.split(of_state, 3, -1)
        z = expit(z + hidden_z)
        return [(1 - z) * np.tanh(n + expit(r + hidden_r) * hidden_n) + z * h]
    return [np.tanh(of_input + of_state) if kind == "rnn_tanh" else np.maximum(of_input + of_state, 0)]


def _one_direction(kind: str, sequences: list, states: list, weights: Any, reverse: bool) -> tuple[list, list]:
    """Outputs of each sequence, one after the other, and their last states."""
    outputs, lasts = [], []
    for number, sequence in enumerate(sequences):
        state = [part[number : number + 1] for part in states]
        steps = []
        for x in sequence[::-1] if reverse else sequence:
            state = _step(kind, x[None], state, weights)
            steps.append(state[0][0])
        outputs.append(np.stack(steps[::-1] if reverse else steps))
        lasts.append(state)
    return outputs, [np.concatenate(parts) for parts in zip(*lasts)]


def _network(kind: str) -> Any:
    def reference(x: Any, hx: Any, params: Any, biases: Any, layers: int, _: Any, __: Any, bidirectional: Any, batch_first: Any) -> Any:
        sequences = list(x if batch_first else x.swapaxes(0, 1))
        states = hx if kind == "lstm" else [hx]
        projected = kind == "lstm" and hx[0].shape[2] != hx[1].shape[2]
        count = 2 + 2 * biases + projected
        groups = [params[k : k + count] for k in range(0, len(params), count)]
        groups = [g if biases else [*g[:2], None, None, *g[2:]] for g in groups]
        directions, lasts = 2 if bidirectional else 1, []
        for layer in range(layers):
            both = []
            for k in range(layer * directions, (layer + 1) * directions):
                outputs, last = _one_direction(kind, sequences, [part[k] for part in states], groups[k], k % directions == 1)
                both.append(outputs)
                lasts.append(last)
            sequences = [np.concatenate(pair, -1) for pair in zip(*both)]
        return np.stack(sequences, 0 if batch_first else 1), *[np.stack(parts) for parts in zip(*lasts)]

    return reference


def _cells(kind: str) -> Any:
    def samples(make: Any) -> list:
        x, h = make(_BATCH, _INPUT), make(_BATCH, _HIDDEN)
        hx = [h, make(_BATCH, _HIDDEN)] if kind == "lstm" else h
        weights = _parameters(make, kind, 1, 1, True)
        return [call(x, hx, *weights), call(x, hx, *weights[:2])]

    return samples


def _cell(kind: str) -> Any:
    def reference(x: Any, hx: Any, *weights: Any) -> Any:
        after = _step(kind, x, hx if kind == "lstm" else [hx], (*weights, *(None,) * (4 - len(weights))))
        return tuple(after) if kind == "lstm" else after[0]

    return reference


def _wrong(kind: str, **changes: Any) -> Any:
    """A call with one argument changed."""

    def sample(make: Any) -> Any:
        arguments = {
            "input": make(_STEPS, _BATCH, _INPUT),
            "hx": _states(make, kind, 1),
            "params": _parameters(make, kind, 1, 1, True),
            "has_biases": True,
        }
        arguments |= {name: change(make) for name, change in changes.items()}
        return call(*arguments.values(), 1, 0.0, False, False, False)

    return sample


def _network_errors(kind: str) -> tuple[Error, ...]:
    empty = Error(_wrong(kind, input=lambda make: make(0, _BATCH, _INPUT)), RuntimeError, "sequence length to be larger than 0")
    if kind == "lstm":  # the library that PyTorch uses for float32 does not check the other three
        return (empty, Error(_wrong(kind, hx=lambda make: [make(1, _BATCH, _HIDDEN)]), RuntimeError, "expects two hidden states"))
    return (
        empty,
        Error(_wrong(kind, has_biases=lambda make: False), RuntimeError),
        Error(_wrong(kind, input=lambda make: make(_STEPS, _BATCH, 5)), RuntimeError, "cannot be multiplied"),
        Error(_wrong(kind, input=lambda make: make(_STEPS, _BATCH, _INPUT, dtype="float64")), RuntimeError, "same dtype"),
    )


def _cell_errors(kind: str) -> tuple[Error, ...]:
    def sample(make: Any) -> Any:
        h = make(_BATCH, _HIDDEN)
        return call(make(_BATCH, 5), [h, h] if kind == "lstm" else h, *_parameters(make, kind, 1, 1, True))

    return (Error(sample, RuntimeError, "input has inconsistent input_size: got 5 expected 3"),)


_LSTM_CELL_ERRORS = (
    Error(lambda make: call(make(2, 3), [make(2, 2)], make(8, 3), make(8, 2)), RuntimeError, "lstm_cell expects two hidden states"),
)

RECORDS = [
    *(
        Record(
            kind,
            _networks(kind),
            _network(kind),
            FLOATS,
            _network_errors(kind),
        )
        for kind in _ROWS
    ),
    *(
        Record(
            f"{kind}_cell",
            _cells(kind),
            _cell(kind),
            FLOATS,
            _cell_errors(kind) + (_LSTM_CELL_ERRORS if kind == "lstm" else ()),
        )
        for kind in _ROWS
    ),
]
