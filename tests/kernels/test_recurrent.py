"""Native recurrent layers against the reference kernels: whole sequences, forwards and backwards."""

from __future__ import annotations

import itertools
import math
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import recurrent as kernels, short_layers
from flambeau.ops import recurrent as references, recurrent_steps as parts
from tests.helpers.threads import in_threads

from .guard import guarded

CELLS = {"lstm": references.LSTM, "gru": references.GRU, "tanh": references.TANH, "relu": references.RELU}
CLOSE = {np.float32: 2e-5, np.float64: 1e-12}


@contextmanager
def _little(work):
    """Layers with more multiply-adds than ``work`` do not go the way of those with little to do; 0: none does."""
    before, short_layers.LITTLE = short_layers.LITTLE, work
    short_layers._plans.clear()
    try:
        yield
    finally:
        short_layers.LITTLE = before
        short_layers._plans.clear()


@pytest.fixture
def all_have_much_to_do():
    with _little(0):
        yield


def _pair(name, back=False):
    """The native kernel of a layer and its reference."""
    ending = "_layer_backward" if back else "_layer"
    mine = {"lstm": "lstm_layer", "gru": "layer" if not back else "gru_layer"}.get(name, "layer" if not back else "rnn_layer")
    mine = mine if not back else mine + "_backward"
    return getattr(kernels, mine), getattr(references, (name if name in ("lstm", "gru") else "rnn") + ending).kernel


def _drawn(rng, shape, dtype, end, layout="plain", scale=1.0):
    """Random numbers before or behind a forbidden page; ``moved`` with the last two dimensions exchanged, ``expanded`` with one row."""
    values = (scale * rng.standard_normal(shape)).astype(dtype)
    if layout == "moved":
        return guarded(values.swapaxes(-1, -2), end).swapaxes(-1, -2)
    if layout == "expanded":
        return np.broadcast_to(guarded(values[:1], end), shape)
    return guarded(values, end)


def _operands(name, sizes, features, hidden, biases, dtype, packed, layout="plain", end=True, seed=0):
    """Arguments of a layer up to the biases."""
    rng, gates = np.random.default_rng(seed), CELLS[name].gates
    if packed:
        x = _drawn(rng, (sum(sizes), features), dtype, end, layout if layout == "moved" else "plain")
    else:
        x = _drawn(rng, (len(sizes), sizes[0], features), dtype, end, "moved" if layout == "moved" else "plain")
    states = [_drawn(rng, (sizes[0], hidden), dtype, end, layout) for _ in range(1 + (name == "lstm"))]
    of_weights = "moved" if layout == "moved" else "plain"
    # scaled as layers initialise them: with larger ones, differences in the last place grow from step to step
    weights = [_drawn(rng, (gates * hidden, columns), dtype, end, of_weights, hidden**-0.5) for columns in (features, hidden)]
    return [x, *states, *weights, *[_drawn(rng, (gates * hidden,), dtype, end) if letter in biases else None for letter in "ih"]]


def _agree(results, wanted, tolerance):
    assert len(results) == len(wanted)
    for a, b in zip(results, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(b).max(initial=0))))


def _check(name, sizes, features, hidden, biases="ih", dtype=np.float64, packed=False, reverse=False, layout="plain", end=True, grads="oh"):
    """Results and gradients are the reference's, and nothing beyond the operands is touched."""
    operands = _operands(name, sizes, features, hidden, biases, dtype, packed, layout, end)
    attributes = (CELLS[name], tuple(sizes) if packed else None, reverse)
    projection = (None,) if name == "lstm" else ()
    kernel, reference = _pair(name)
    before = [None if operand is None else operand.copy() for operand in operands]
    results, wanted = (function(*operands, *projection, *attributes) for function in (kernel, reference))
    _agree(results, wanted, CLOSE[dtype])
    rng = np.random.default_rng(1)
    output, _, *rest = wanted
    count = 2 + (name == "lstm")
    arriving = [rng.standard_normal(array.shape).astype(dtype) for array in wanted[:count]]
    chosen = [_drawn(rng, g.shape, dtype, end) if letter in grads else None for g, letter in zip(arriving, "ohc", strict=False)]
    operands = operands[: -2 if biases is not None else None]
    saved = [guarded(array, end) for array in ([output, *rest[1:]] if name == "lstm" else [output, *rest])]
    arguments = [*chosen, *operands, *projection, *saved, *attributes, True]
    kernel, reference = _pair(name, back=True)
    _agree(*(function(*arguments) for function in (kernel, reference)), 20 * CLOSE[dtype])
    for operand, old in zip(operands, before, strict=False):
        assert np.array_equal(operand, old)  # nothing is written to


def _check_steps(name, sizes, hidden, has_bias, dtype, reverse, end, grads):
    """The same of steps by themselves, whose cells follow from the gates bit by bit."""
    cell, rng = CELLS[name], np.random.default_rng(2)
    products = _drawn(rng, (sum(sizes), cell.gates * hidden), dtype, end)
    h, c = (_drawn(rng, (sizes[0], hidden), dtype, end) for _ in range(2))
    c = c if cell.has_cell else None
    weight = _drawn(rng, (cell.gates * hidden, hidden), dtype, end, scale=hidden**-0.5)
    bias = _drawn(rng, (cell.gates * hidden,), dtype, end) if has_bias else None
    rest = (cell, tuple(sizes), reverse)
    results, wanted = (f(products, h, c, weight, bias, *rest, True) for f in (kernels.recurrent_steps, parts.recurrent_steps.kernel))
    _agree(results, wanted, CLOSE[dtype])
    gates, output, *_, kept = results
    for one, other in zip(kernels.recurrent_steps(products, h, c, weight, bias, *rest, False)[:4], results, strict=False):
        assert np.array_equal(one, other)
    if cell.has_cell:
        assert np.array_equal(kernels.lstm_cells(guarded(gates, end), c, *rest), kept)
        _agree([parts.lstm_cells.kernel(gates, c, *rest)], [kept], CLOSE[dtype])
    shapes = {"o": output.shape, "h": h.shape, "c": h.shape}
    arriving = [_drawn(rng, shape, dtype, end) if letter in grads else None for letter, shape in shapes.items()]
    saved = [guarded(array, end) if cell.has_cell or cell.has_part else None for array in (gates, kept)]
    arguments = (*saved, *arriving, h, c, weight, None if cell.has_cell else output, *rest)
    made = [f(*arguments) for f in (kernels.recurrent_steps_backward, parts.recurrent_steps_backward.kernel)]
    _agree(*made, 20 * CLOSE[dtype])


@st.composite
def _sizes(draw):
    """Rows of each step, and whether they are packed."""
    if draw(st.booleans()):
        return [draw(st.integers(1, 20))] * draw(st.integers(1, 11)), False
    return sorted(draw(st.lists(st.integers(1, 20), min_size=1, max_size=9)), reverse=True), True


@given(
    name=st.sampled_from(list(CELLS)),
    sizes=_sizes(),
    features=st.integers(1, 20),
    hidden=st.one_of(st.integers(1, 17), st.sampled_from([31, 32, 33, 47, 48, 49, 65])),
    biases=st.sampled_from(["", "i", "h", "ih"]),
    dtype=st.sampled_from([np.float32, np.float64]),
    reverse=st.booleans(),
    layout=st.sampled_from(["plain", "moved", "expanded"]),
    end=st.booleans(),
    grads=st.sampled_from(["o", "h", "oh", "ohc", "c"]),
    little=st.sampled_from([0, 1 << 30]),
)
@example("lstm", ([1], False), 1, 1, "ih", np.float32, False, "plain", True, "ohc", 0)
@example("lstm", ([1], False), 1, 1, "ih", np.float32, False, "plain", True, "ohc", 1 << 30)
@settings(max_examples=120, deadline=None)
def test_values_and_gradients_are_those_of_the_reference(name, sizes, features, hidden, biases, dtype, reverse, layout, end, grads, little):
    with _little(little):
        _check(name, sizes[0], features, hidden, biases, dtype, sizes[1], reverse, layout, end, grads)
    _check_steps(name, sizes[0], hidden, "h" in biases, dtype, reverse, end, grads)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.usefixtures("all_have_much_to_do")
def test_every_height_of_a_tile(name):
    """All batches up to more than two tiles, for few products with each weight and for many."""
    for batch, steps in itertools.product(range(1, 20), (1, 3)):
        _check(name, [batch] * steps, 3, 18, dtype=np.float32, reverse=batch % 2 == 0)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("sizes", [[1], [1] * 4, [5, 5], [4, 2, 1]])
def test_states_may_have_a_dimension_of_one_layer(name, sizes):
    """Forwards and back, in kernels and references: all is the same but for that dimension."""
    count, projection = 1 + (name == "lstm"), (None,) if name == "lstm" else ()
    operands = _operands(name, sizes, 3, 7, "ih", np.float32, True)
    more = [operands[0], *[state[None] for state in operands[1 : 1 + count]], *operands[1 + count :]]
    attributes = (CELLS[name], tuple(sizes), False)
    for kernel, back in zip(_pair(name), _pair(name, back=True), strict=True):
        runs = []
        for passed in (operands, more):
            output, *rest = results = kernel(*passed, *projection, *attributes)
            saved = [output, *rest[count:]]
            slopes = back(*results[: 1 + count], *passed[:-2], *projection, *[array.copy() for array in saved], *attributes, True)
            assert all(array.shape == passed[1].shape for array in (*results[1 : 1 + count], *slopes[1 : 1 + count]))
            runs.append([*results, *slopes])
        for one, other in zip(*runs, strict=True):
            assert np.array_equal(one.ravel(), other.ravel())


@pytest.mark.parametrize("name", CELLS)
def test_layers_with_little_to_do_are_one_launch_each_way(name):
    """Whatever came before them: a layer of another dtype or layout of the same shapes, or one with something wrong."""
    projection, sizes = (None,) if name == "lstm" else (), (3, 2, 2)
    attributes = (CELLS[name], sizes, False)
    operands = _operands(name, sizes, 5, 11, "ih", np.float32, True)
    moved = _operands(name, sizes, 5, 11, "ih", np.float32, True, "moved")
    kernel, back = _pair(name)[0], _pair(name, back=True)[0]
    assert kernel(operands[0].astype(np.float64), *operands[1:], *projection, *attributes) is None
    wanted = kernel(*moved, *projection, *attributes)
    launches = []
    with pool.watched(lambda *launch: launches.append(launch)):
        results = kernel(*operands, *projection, *attributes)
        assert len(launches) == 1
        count = 1 + (name == "lstm")
        saved = [results[0], *results[1 + count :]]
        slopes = back(*results[: 1 + count], *operands[:-2], *projection, *saved, *attributes, True)
        assert len(launches) == 2
    _agree(results, _pair(name)[1](*operands, *projection, *attributes), CLOSE[np.float32])
    _agree(wanted, results, CLOSE[np.float32])
    without = back(*results[: 1 + count], *operands[:-2], *projection, *saved, *attributes, False)
    assert without[0].size == 0 and all(np.array_equal(one, other) for one, other in zip(without[1:], slopes[1:], strict=True))


@pytest.mark.parametrize("batch", [1, 5])
def test_gradients_go_through_nan_as_those_of_relu(batch):
    """As PyTorch has it: what relu gives for NaN is not 0."""
    operands = [each.requires_grad_() for each in (torch.randn(3, batch, 2), torch.randn(1, batch, 4))]
    weights = [torch.randn(4, 2), torch.randn(4, 4)]
    with torch.no_grad():
        operands[0][1] = math.nan
    output, _ = torch.rnn_relu(*operands, weights, False, 1, 0.0, False, False, False)
    state, steps = operands[1][0], []
    for row in operands[0]:
        state = (row @ weights[0].T + state @ weights[1].T).relu()
        steps.append(state)
    grads, wanted = (torch.autograd.grad(each.sum(), operands) for each in (output, torch.stack(steps)))
    assert wanted[0][1].isfinite().all() and wanted[0][1].all()
    for grad, other in zip(grads, wanted, strict=True):
        torch.testing.assert_close(grad, other)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.usefixtures("all_have_much_to_do")
def test_large_layers_are_divided(name):
    sizes_of_steps = ([40] * 5, [1], [1] * 6, [1] * 17, [1] * 16, [3, 2], [37, 30, 18, 17, 16, 1], [30])
    for sizes, hidden in zip(sizes_of_steps, (100, 300, 203, 203, 19, 260, 70, 131), strict=True):
        _check(name, sizes, 20, hidden, dtype=np.float64, packed=True)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.usefixtures("all_have_much_to_do")
def test_the_number_of_threads_does_not_change_a_bit(name):
    before, runs = pool.threads, []
    try:
        for count, sizes in itertools.product((1, 2, 3), ([50] * 7, [1], [1] * 30, [1] * 9, [50])):
            pool.set_threads(count)
            hidden = 260 if len(sizes) in (9, 30) else 96  # threads share the steps of 260
            operands = _operands(name, sizes, 60, hidden, "ih", np.float32, False)
            results = _pair(name)[0](*operands, *((None,) if name == "lstm" else ()), CELLS[name], None, False)
            saved = [results[0], *results[3 if name == "lstm" else 2 :]]
            grads = [results[0], None, *((None,) if name == "lstm" else ())]
            slopes = _pair(name, True)[0](
                *grads, *operands[:-2], *((None,) if name == "lstm" else ()), *saved, CELLS[name], None, False, True
            )
            runs.append([*results, *slopes])
    finally:
        pool.set_threads(before)
    for one, *others in zip(*(runs[start : start + 5] for start in (0, 5, 10)), strict=True):
        for arrays in zip(one, *others, strict=True):
            assert all(np.array_equal(arrays[0], array) for array in arrays[1:])


def test_callers_at_once_share_one_sequence_each():
    """While one of them changes the number of threads; more threads than cores, so that some come late or never."""
    before = pool.threads
    operands = _operands("lstm", [1] * 40, 9, 260, "ih", np.float32, False)
    wanted = kernels.lstm_layer(*operands, None, references.LSTM, None, False)

    def work(number):
        for i in range(30):
            if not number:
                pool.set_threads(1 + i % 5)
            results = kernels.lstm_layer(*operands, None, references.LSTM, None, False)
            assert all(np.array_equal(one, other) for one, other in zip(results, wanted, strict=True))

    try:
        in_threads(3, work)
    finally:
        pool.set_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_projected_states_are_the_same_bits_on_any_number_of_threads(dtype):
    """As the reference has them; what does not fit is the reference's to refuse."""
    before, rng, runs = torch.get_num_threads(), np.random.default_rng(4), []
    shapes = ((9, 30, 200), (30, 37), (1, 30, 300), (1200, 200), (1200, 37), (1200,), (1200,), (37, 300))
    operands = [(rng.standard_normal(shape) / 20).astype(dtype) for shape in shapes]
    rest, kernel, back = (references.LSTM, None, True), *(_pair("lstm", back)[0] for back in (False, True))
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            output, *more = results = kernel(*operands, *rest)
            arguments = (*results[:3], *operands[:5], operands[7], output, *more[2:], *rest, True)
            runs.append([*results, *back(*arguments)])
    finally:
        torch.set_num_threads(before)
    for arrays in zip(*runs, strict=True):
        assert all(np.array_equal(arrays[0], array) for array in arrays[1:])
    forwards, backwards = (_pair("lstm", back)[1] for back in (False, True))
    _agree(results, forwards(*operands, *rest), CLOSE[dtype])
    _agree(back(*arguments), backwards(*arguments), 20 * CLOSE[dtype])
    for wrong in (*range(8),):
        assert kernel(*[array[..., 1:] if i == wrong else array for i, array in enumerate(operands)], *rest) is None


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(("batch", "hidden"), [(2, 21), (30, 21), (30, 64)])
@pytest.mark.parametrize("little", [0, 1 << 30])
def test_rows_do_not_meet(name, batch, hidden, little):
    """A NaN or an infinity stays in its row; large sums saturate as in the reference."""
    with _little(little):
        _check_rows(name, batch, hidden)


def _check_rows(name, batch, hidden):
    operands = _operands(name, [batch] * 6, 5, hidden, "ih", np.float32, False)
    clean = _pair(name)[0](*operands, *((None,) if name == "lstm" else ()), CELLS[name], None, False)[0]
    operands[0][2, 1] = [np.nan, np.inf, -np.inf, 1e30, -1e30]
    spoilt = _pair(name)[0](*operands, *((None,) if name == "lstm" else ()), CELLS[name], None, False)[0]
    others = np.arange(batch) != 1
    assert np.array_equal(spoilt[:, others], clean[:, others]) and np.isnan(spoilt[2:, 1]).all()
    operands[0][2, 1] = [1e4, -1e4, 3e4, 90, -90]
    with np.errstate(over="ignore"):
        results, wanted = (f(*operands, *((None,) if name == "lstm" else ()), CELLS[name], None, False)[0] for f in _pair(name))
    np.testing.assert_allclose(results, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


def test_what_is_left_to_the_reference():
    x, h, c, w_ih, w_hh, b_ih, b_hh = operands = _operands("lstm", [3] * 4, 5, 8, "ih", np.float32, False)
    rest = (references.LSTM, None, False)
    assert kernels.lstm_layer(*operands, None, *rest) is not None
    for others in (
        (x.astype(np.float16), h, c, w_ih, w_hh, b_ih, b_hh),
        (x, h.astype(np.float64), c, w_ih, w_hh, b_ih, b_hh),
        (x, h, c, w_ih[:-1], w_hh, b_ih, b_hh),
        (x, h, c, w_ih, w_hh[:, :-1], b_ih, b_hh),
        (x, h[:2], c, w_ih, w_hh, b_ih, b_hh),
        (x, h, c, w_ih, w_hh, b_ih[:-1], b_hh),
        (x, h, c, w_ih, w_hh, b_ih, b_hh.astype(np.float64)),
    ):
        assert kernels.lstm_layer(*others, None, *rest) is None


@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN"])
def test_layers_of_networks_reach_the_kernels(mode, monkeypatch):
    """Dropout between layers, both directions, packed sequences: as without kernels, and each layer asked a kernel."""
    calls = []
    for name in ("_forwards", "_backwards"):
        whole = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *a, whole=whole, name=name: calls.append(name) or whole(*a))
    layer = getattr(torch.nn, mode)(10, 40, 2, bidirectional=True, dropout=0.5)
    lengths = torch.tensor([9, 2, 5])

    def run():
        torch.manual_seed(3)
        x = torch.randn(9, 3, 10, requires_grad=True)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        output, _ = torch.nn.utils.rnn.pad_packed_sequence(layer(packed)[0])
        dense, _ = layer(x)
        loss = (output * dense.cos()).sum()
        return [output.detach(), dense.detach(), *torch.autograd.grad(loss, [x, *layer.parameters()])]

    results = run()
    assert sorted(calls) == ["_backwards"] * 8 + ["_forwards"] * 8
    with native.disabled():
        wanted = run()
    for a, b in zip(results, wanted, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN"])
def test_second_derivatives_are_those_without_kernels(mode):
    layer = getattr(torch.nn, mode)(6, 24, dtype=torch.float64)
    x = torch.randn(7, 4, 6, dtype=torch.float64, requires_grad=True)

    def run():
        (first,) = torch.autograd.grad(layer(x)[0].sin().sum(), x, create_graph=True)
        return [first.detach(), *torch.autograd.grad(first.square().sum(), [x, *layer.parameters()], allow_unused=True)]

    results = run()
    with native.disabled():
        wanted = run()
    for a, b in zip(results, wanted, strict=True):
        assert (a is None and b is None) or torch.allclose(a, b, rtol=1e-9, atol=1e-11)


# -- states multiplied in tile registers, where the processor has them ----------------------------------------------------------------
TILED = [[16] * 3, [5, 5, 4, 1], [37, 20, 16, 2], [4]]


@pytest.mark.parametrize("name", ["lstm", "gru"])
@pytest.mark.parametrize(("sizes", "hidden"), list(zip(TILED, (64, 80, 96, 128), strict=True)))
@pytest.mark.usefixtures("all_have_much_to_do")
def test_tiles_of_any_height_and_width(name, sizes, hidden):
    for reverse, grads, biases in ((False, "oh", "ih"), (True, "ohc", "i")):
        _check(name, sizes, 3, hidden, biases, np.float32, True, reverse, "plain", reverse, grads)
        _check_steps(name, sizes, hidden, bool(biases), np.float32, reverse, not reverse, grads)


@pytest.mark.parametrize("name", ["lstm", "gru"])
@pytest.mark.parametrize("value", [3e9, 1e30, np.inf, np.nan])
@pytest.mark.parametrize("place", ["state", "weight"])
@pytest.mark.usefixtures("all_have_much_to_do")
def test_what_has_no_parts_is_multiplied_as_it_is(name, value, place):
    sizes, hidden = (8, 8, 8), 64
    x, *states, weight_ih, weight_hh, b, c = _operands(name, sizes, 5, hidden, "ih", np.float32, False)
    (states[0] if place == "state" else weight_hh)[3, 5] = value
    arguments = [x, *states, weight_ih, weight_hh, b, c, *([None] if name == "lstm" else []), CELLS[name], None, False]
    with np.errstate(all="ignore"):
        results, wanted = (function(*arguments) for function in _pair(name))
    for a, b in zip(results, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["lstm", "gru"])
@pytest.mark.parametrize("value", [3e9, np.inf])
def test_large_gradients_are_multiplied_as_they_are(name, value):
    rng, cell, sizes, hidden = np.random.default_rng(3), CELLS[name], (6,) * 4, 64
    wide = cell.gates * hidden
    products, weight, h, c = (rng.standard_normal(shape).astype("f") for shape in ((24, wide), (wide, hidden), (6, hidden), (6, hidden)))
    c = c if cell.has_cell else None
    gates, output, *_, kept = parts.recurrent_steps.kernel(products, h, c, weight, None, cell, sizes, False, True)
    grad = rng.standard_normal(output.shape).astype("f")
    grad[13, 7] = value
    arguments = gates, kept, grad, None, None, h, c, weight, None if cell.has_cell else output, cell, sizes, False
    with np.errstate(all="ignore"):
        results, wanted = (f(*arguments) for f in (kernels.recurrent_steps_backward, parts.recurrent_steps_backward.kernel))
    for a, b in zip(results, wanted, strict=True):
        finite = np.isfinite(b)
        assert np.array_equal(np.isfinite(a), finite)
        np.testing.assert_allclose(a[finite], b[finite], rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(b[finite]).max(initial=0))))
