"""Rows of packed sequences. Packed data are the rows of padded ones that a mask of steps and sequences has true, in order:

batch_sizes  2 2 1        mask  T T        data  a0 b0 a1 b1 a2        padded  a0 b0
                                T T                                            a1 b1
                                T F                                            a2  0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core import dtype as dtypes
from ..builder import Builder, Value
from . import ROWS, row
from .shapes import sizes_of


def _counted(b: Builder, count: Value) -> Value:
    """The numbers below a number."""
    made: Value = b.op("Range", b.constant(0, dtypes.int64), count, b.constant(1, dtypes.int64), dtype=dtypes.int64, shape=(None,))
    return made


def _places(b: Builder, mask: Value) -> Value:
    """The steps and the numbers of the sequences of packed rows, ``(rows, 2)``."""
    return b.transpose(b.op("NonZero", mask, dtype=dtypes.int64, shape=(2, None)), [1, 0])


def _number_of(b: Builder, mask: Value, axis: int) -> Value:
    made: Value = b.op("ReduceSum", b.cast(mask, dtypes.int64), b.ints([axis]), keepdims=0, shape=(None,))
    return made


def _mask_of(b: Builder, batch_sizes: Value) -> Value:
    """The sequences that each step has."""
    first = b.op("Gather", batch_sizes, b.constant(0, dtypes.int64), axis=0, shape=())
    made: Value = b.op("Less", _counted(b, first), b.unsqueeze(batch_sizes, [1]), dtype=dtypes.bool_, shape=(None, None))
    return made


def _spread(b: Builder, data: Value, mask: Value, filler: Any, steps: Any = None) -> Value:
    """Packed rows as ``(steps, sequences, *)``, with ``filler`` behind the shorter sequences."""
    size = b.op("Shape", mask, dtype=dtypes.int64, shape=(2,))
    if steps is not None:
        size = b.op("Concat", b.sizes([steps]), b.slice(size, 0, 1, 2, shape=(1,)), axis=0, shape=(2,))
    features = sizes_of(b, data, range(1, data.rank))
    sizes = b.op("Concat", size, b.sizes(features), axis=0, shape=(data.rank + 1,)) if features else size
    shape = (None, None, *data.shape[1:])
    made: Value = b.op("ScatterND", b.expand(b.constant(filler, data.dtype), sizes, shape), _places(b, mask), data, shape=shape)
    return made


@row("_pack_padded_sequence")
def _pack(b: Builder, x: Value, lengths: Value, batch_first: bool) -> list[Value]:
    y = b.transpose(x, [1, 0, *range(2, x.rank)]) if batch_first else x
    longest = b.op("ReduceMax", lengths, keepdims=0, shape=())
    mask = b.op("Less", b.unsqueeze(_counted(b, longest), [1]), lengths, dtype=dtypes.bool_, shape=(None, lengths.shape[0]))
    data = b.op("GatherND", y, _places(b, mask), shape=(None, *x.shape[2:]))
    return [data, _number_of(b, mask, 1)]


@row("_pad_packed_sequence")
def _pad(b: Builder, data: Value, batch_sizes: Value, batch_first: bool, padding_value: Any, total_length: Any) -> list[Value]:
    mask = _mask_of(b, batch_sizes)
    steps = total_length if isinstance(total_length, Value) or total_length > 0 else None
    padded = _spread(b, data, mask, padding_value, steps)
    padded = b.transpose(padded, [1, 0, *range(2, padded.rank)]) if batch_first else padded
    padded.shape = b.shape
    return [padded, _number_of(b, mask, 0)]


def _layers(name: str) -> Callable[..., Any]:
    def translate(b: Builder, data: Value, batch_sizes: Value, hx: Any, parameters: list[Value], *options: Any) -> list[Value]:
        """The layers of the padded sequences with their lengths, and the packed rows of what they return."""
        mask = _mask_of(b, batch_sizes)
        lengths = b.cast(_number_of(b, mask, 0), dtypes.int32)
        padded = _spread(b, data, mask, 0)
        output, *states = ROWS[f"{name}.input"](b, padded, hx, parameters, *options, False, lengths=lengths)
        return [b.op("GatherND", output, _places(b, mask), shape=b.shape), *states]

    return translate


for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    ROWS[f"{_name}.data"] = _layers(_name)
