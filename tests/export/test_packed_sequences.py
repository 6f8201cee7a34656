"""Packed sequences in exported programs and ONNX models: layers of sequences of other lengths, numbers and steps than the example's."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils import rnn
from flambeau.utils._pytree import tree_leaves

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
DYNAMIC = torch.export.Dim.DYNAMIC


class Packed(nn.Module):
    def __init__(self, kind: str, is_sorted: bool, **options: Any):
        super().__init__()
        self.layers = getattr(nn, kind)(3, 4, **options)
        self.is_sorted, self.batch_first = is_sorted, options.get("batch_first", False)

    def forward(self, x, lengths, hx=None):
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=self.batch_first, enforce_sorted=self.is_sorted)
        output, last = self.layers(packed, hx)
        return rnn.pad_packed_sequence(output, batch_first=self.batch_first, padding_value=-1.0), last


class OfRows(nn.Module):
    """A layer of packed rows, padded to the length of the input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        packed = packed._replace(data=self.layer(packed.data).relu())
        return rnn.pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])


def agree(module: nn.Module, first: tuple[Any, ...], second: tuple[Any, ...], shapes: Any) -> None:
    exported = torch.export.export(module, first, dynamic_shapes=shapes)
    program = torch.onnx.export(module, first, dynamic_shapes=shapes)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for inputs in (first, second):
        wanted = tree_leaves(module(*inputs))
        for found in (tree_leaves(exported.module()(*inputs)), program(*inputs)):
            for a, b in zip(wanted, found, strict=True):
                torch.testing.assert_close(b.detach(), a.detach(), rtol=1e-4, atol=1e-5, check_stride=False)


SEVERAL = {"batch_first": True, "bidirectional": True, "num_layers": 2}


@pytest.mark.parametrize(
    ("kind", "options", "is_sorted"),
    [("LSTM", SEVERAL, False), ("LSTM", {}, True), ("GRU", SEVERAL, True), ("RNN", {}, False)],
)
def test_layers_of_packed_sequences(kind: str, options: dict[str, Any], is_sorted: bool) -> None:
    def inputs(steps: int, *lengths: int) -> tuple[Any, ...]:
        x = torch.randn(len(lengths), steps, 3)
        return x if options else x.transpose(0, 1), torch.tensor(sorted(lengths, reverse=True) if is_sorted else lengths)

    agree(Packed(kind, is_sorted, **options), inputs(5, 3, 5, 1), inputs(7, 2, 6), ({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC}))


def test_steps_that_do_not_change() -> None:
    def inputs(*lengths: int) -> tuple[Any, ...]:
        return torch.randn(len(lengths), 6, 3), torch.tensor(lengths)

    count = torch.export.Dim("count")
    agree(Packed("GRU", False, batch_first=True), inputs(3, 6, 1), inputs(2, 5), ({0: count}, {0: count}))


def test_first_states_and_rows() -> None:
    def inputs(steps: int, *lengths: int) -> tuple[Any, ...]:
        count = len(lengths)
        return torch.randn(count, steps, 3), torch.tensor(lengths), (torch.randn(1, count, 4), torch.randn(1, count, 4))

    shapes = ({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC}, ({1: DYNAMIC}, {1: DYNAMIC}))
    agree(Packed("LSTM", False, batch_first=True), inputs(5, 3, 5, 1), inputs(7, 2, 6), shapes)
    agree(OfRows(), inputs(5, 3, 5, 1)[:2], inputs(7, 2, 6)[:2], shapes[:2])
