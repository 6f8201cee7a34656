"""Products of tables in place of those of looked-up rows, and recurrent layers in parts: the same results, with less work and memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from capture.test_lowering import arrays_of, needs_kernels, poison, recorded, same

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.capture import recurrence
from flambeau.capture.graph import Graph
from flambeau.capture.interpret import run_of
from flambeau.capture.lookups import looked_up
from flambeau.capture.lowering import lower
from flambeau.capture.recurrence import opened

WORDS, WIDTH, TOKENS = 30, 48, (9, 40)


def labels(graph: Graph) -> list[str]:
    return [node.label for node in graph.nodes if node.kind != "view"]


def rows_of_products(graph: Graph) -> set[int]:
    """Lengths of the sides of matrices that a graph multiplies or makes by it."""
    products = [node for node in graph.nodes if node.label in ("linear", "mm", "matmul")]
    return {size for node in products for value in (*node.inputs(), *node.outs) for size in value.shape}


def close(have: Any, wanted: Any) -> None:
    for a, b in zip(have, wanted, strict=True):
        assert a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(b).max(initial=0))))


def changed(function: Any, *inputs: Any, parameters: Any = ()) -> Graph:
    """The graph after both rewrites, which gives what it gave before, as it is and lowered."""
    graph = recorded(function, inputs, parameters)
    made, arrays = looked_up(opened(graph)), arrays_of(*inputs)
    wanted = run_of(graph)(arrays)
    close(run_of(made)(arrays), wanted)
    run = lower(graph)
    first = run(arrays)
    close(first, wanted)
    for _ in range(2):
        poison(run)
        same(run(arrays), first, exact=True)
    return made


def model(**options: Any) -> tuple[nn.Embedding, nn.Linear]:
    return nn.Embedding(WORDS, WIDTH, **options), nn.Linear(WIDTH, 64)


# -- products of tables -------------------------------------------------------------------------------------------------------------------
@needs_kernels
def test_a_linear_layer_over_words_multiplies_the_table() -> None:
    table, layer = model()
    tokens = torch.randint(0, WORDS, TOKENS)
    made = changed(lambda i: torch.tanh(layer(table(i))), tokens, parameters=[*table.parameters(), *layer.parameters()])
    assert rows_of_products(made) == {WORDS, WIDTH, 64}
    assert labels(made).count("_embedding_backward") == 1  # both gradients take the same sums


@needs_kernels
def test_words_that_are_left_out_have_sums_of_their_own() -> None:
    table, layer = model(padding_idx=3)
    tokens = torch.randint(0, WORDS, TOKENS)
    made = changed(lambda i: torch.tanh(layer(table(i))), tokens, parameters=[table.weight, *layer.parameters()])
    assert rows_of_products(made) == {WORDS, WIDTH, 64} and labels(made).count("_embedding_backward") == 2


@needs_kernels
@pytest.mark.parametrize("shape", [(360,), TOKENS])
def test_a_product_with_words_on_the_left(shape: tuple[int, ...]) -> None:
    table, weight = nn.Embedding(WORDS, WIDTH), torch.randn(WIDTH, 64, requires_grad=True)
    made = changed(lambda i: torch.tanh(table(i) @ weight), torch.randint(0, WORDS, shape), parameters=[table.weight, weight])
    assert rows_of_products(made) == {WORDS, WIDTH, 64}


@needs_kernels
@pytest.mark.parametrize("words", [400, 300])
def test_large_tables_are_looked_up_first(words: int) -> None:
    table, layer = nn.Embedding(words, WIDTH), nn.Linear(WIDTH, 64)
    graph = recorded(lambda i: layer(table(i)), [torch.randint(0, words, TOKENS)], [table.weight, layer.weight])
    assert labels(looked_up(graph)) == labels(graph)


@needs_kernels
def test_a_table_that_is_written_to_between_is_looked_up_first() -> None:
    table, layer = model()

    def function(i: Any) -> Any:
        with torch.no_grad():
            rows = table(i)
            table.weight.mul_(0.5)
            return layer(rows)

    tokens = torch.randint(0, WORDS, TOKENS)
    graph = recorded(function, [tokens], before=False)
    assert labels(looked_up(graph)) == labels(graph)


@needs_kernels
def test_rows_that_others_need_stay() -> None:
    table, layer = model()

    def function(i: Any) -> Any:
        rows = table(i)
        return layer(rows).sum(-1) * rows.square().sum(-1)

    changed(function, torch.randint(0, WORDS, TOKENS), parameters=[table.weight, *layer.parameters()])


# -- recurrent layers in parts ------------------------------------------------------------------------------------------------------------
@needs_kernels
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "bias": False}, {"num_layers": 2, "batch_first": True}], ids=str)
def test_layers_in_parts(kind: str, options: dict[str, Any]) -> None:
    layer = getattr(nn, kind)(WIDTH, 20, **options)
    x = torch.randn(9, 12, WIDTH, requires_grad=True)
    made = changed(lambda x: torch.tanh(layer(x)[0]), x, parameters=[x, *layer.parameters()])
    count = len(layer.all_weights)
    assert labels(made).count("_recurrent_steps") == labels(made).count("_recurrent_steps_backward") == count
    assert not any(label.endswith(("_layer", "_layer_backward")) for label in labels(made))


@needs_kernels
def test_last_states_and_sequences_of_several_lengths() -> None:
    layer = nn.LSTM(WIDTH, 70)
    x = nn.utils.rnn.pack_padded_sequence(torch.randn(40, 16, WIDTH), torch.tensor([40] * 4 + [31] * 10 + [3, 1]))

    def function(data: Any) -> Any:
        output, (h, c) = layer(nn.utils.rnn.PackedSequence(data, x.batch_sizes))
        return output.data, h * c

    def scalar(data: Any) -> Any:
        data, states = function(data)
        return data.tanh().sum() + states.sum()

    changed(function, x.data)
    made = changed(scalar, x.data, parameters=list(layer.parameters()))
    assert ("_lstm_cells" in labels(made)) == (x.data.shape[0] * 70 * 4 >= 1 << 18)


@needs_kernels
def test_a_language_model_needs_no_cells_and_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence, "KEPT", 1 << 18)
    table, layer, head = nn.Embedding(WORDS, WIDTH), nn.LSTM(WIDTH, 64), nn.Linear(64, WORDS)
    tokens = torch.randint(0, WORDS, (64, 16))

    def function(i: Any) -> Any:
        return F.cross_entropy(head(layer(table(i))[0].view(-1, 64)), i.view(-1))

    parameters = [*table.parameters(), *layer.parameters(), *head.parameters()]
    made = changed(function, tokens, parameters=parameters)
    assert "_lstm_cells" in labels(made)
    assert not any(value.shape == (*TOKENS, WIDTH) for node in made.nodes for value in node.outs)
    gates, cells = 64 * 16 * 4 * 64 * 4, 64 * 16 * 64 * 4
    run = lower(recorded(function, [tokens], parameters))
    for _ in range(3):
        run(arrays_of(tokens))
    assert run.plan.arena_bytes < gates + 3.5 * cells  # gates and their gradients in one place


@needs_kernels
def test_few_rows_stay_a_layer() -> None:
    layer = nn.LSTM(WIDTH, 20)
    graph = recorded(lambda x: layer(x)[0], [torch.randn(8, 8, WIDTH)])
    assert labels(opened(graph)) == labels(graph)


@needs_kernels
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_table_is_multiplied_where_the_batch_comes_first(kind: str) -> None:
    table, layer = nn.Embedding(WORDS, WIDTH), getattr(nn, kind)(WIDTH, 40, batch_first=True)
    parameters = [*table.parameters(), *layer.parameters()]
    made = changed(lambda i: torch.tanh(layer(table(i))[0]), torch.randint(0, WORDS, TOKENS), parameters=parameters)
    assert rows_of_products(made) == {WORDS, WIDTH, layer.weight_ih_l0.shape[0]}
    assert labels(made).count("_embedding_backward") == 1


@needs_kernels
def test_a_row_that_is_looked_up_very_often_is_not_summed_one_after_the_other() -> None:
    layer = nn.Linear(WIDTH, 64)
    for words, is_changed in ((20, True), (19, False)):
        table = nn.Embedding(words, WIDTH)
        tokens = torch.randint(0, words, (2, 2500))
        made = changed(lambda i, table=table: layer(table(i)), tokens, parameters=[*table.parameters(), *layer.parameters()])
        assert (words in rows_of_products(made)) is is_changed
