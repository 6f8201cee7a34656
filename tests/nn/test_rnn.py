"""Recurrent layers and cells: values, gradients, random numbers, state and errors are PyTorch's."""

from __future__ import annotations

import copy
import io
import itertools
import pickle

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.autograd import gradcheck, gradgradcheck

MODES = ("LSTM", "GRU", "RNN")
VARIANTS = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"batch_first": True, "bias": False},
    {"num_layers": 3, "batch_first": True, "dropout": 0.4},
    {"num_layers": 2, "bidirectional": True, "dropout": 0.3, "bias": False},
]
CASES = [(mode, options) for mode in MODES for options in VARIANTS]
CASES += [("RNN", {"nonlinearity": "relu", "num_layers": 2}), ("LSTM", {"proj_size": 2}), ("LSTM", {"proj_size": 1, **VARIANTS[1]})]
IDS = [f"{mode}-{number}" for number, (mode, _) in enumerate(CASES)]
SEQUENCES = ("dense", "unbatched", "packed", "packed unsorted")


def _layer_and_input(torch, mode, options, sequences, dtype):
    """A layer, its input, and a first state: for both libraries the same numbers."""
    torch.manual_seed(3)
    layer = getattr(torch.nn, mode)(3, 4, **options, dtype=dtype)
    if mode == "RNN" and options.get("nonlinearity") == "relu":
        for weight in layer.parameters():  # so that nothing lies on the corner
            weight.data.abs_().add_(0.05)
    first = options.get("batch_first", False)
    x = torch.randn(*((5, 3) if sequences == "unbatched" else (2, 5, 3) if first else (5, 2, 3)), dtype=dtype).requires_grad_()
    batch = () if sequences == "unbatched" else (2,)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    h = torch.randn(count, *batch, options.get("proj_size", 0) or 4, dtype=dtype).requires_grad_()
    hx = (h, torch.randn(count, *batch, 4, dtype=dtype).requires_grad_()) if mode == "LSTM" else h
    sequence = x
    if sequences.startswith("packed"):
        lengths = [5, 3] if sequences == "packed" else [2, 4]
        sequence = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, first, enforce_sorted=sequences == "packed")
    return layer, sequence, hx, x


def _flat(value):
    if isinstance(value, (tuple, list)):
        return [tensor for part in value if part is not None for tensor in _flat(part)]
    return [value]


def _results(torch, mode, options, sequences, dtype, train, with_state):
    layer, sequence, hx, x = _layer_and_input(torch, mode, options, sequences, getattr(torch, dtype))
    layer.train(train)
    torch.manual_seed(5)
    out = _flat(layer(sequence, hx) if with_state else layer(sequence))
    floating = [tensor for tensor in out if tensor.is_floating_point()]
    loss = sum((tensor * torch.arange(tensor.numel(), dtype=tensor.dtype).reshape(tensor.shape).cos()).sum() for tensor in floating)
    loss.backward()
    leaves = [x, *layer.parameters(), *(_flat(hx) if with_state else ())]
    return [tensor.detach().numpy() for tensor in out] + [leaf.grad.numpy() for leaf in leaves]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("sequences", SEQUENCES)
@pytest.mark.parametrize(("mode", "options"), CASES, ids=IDS)
def test_values_and_gradients(of_pytorch, mode, options, sequences):
    for dtype, train, with_state in (("float64", True, True), ("float32", False, False)):
        got = _results(flambeau, mode, options, sequences, dtype, train, with_state)
        expected = of_pytorch(_results, mode, options, sequences, dtype, train, with_state)
        tolerance = 1e-9 if dtype == "float64" else 2e-5
        for mine, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
            assert mine.shape == theirs.shape and mine.dtype == theirs.dtype


@pytest.mark.parametrize(("mode", "options"), CASES, ids=IDS)
def test_construction(same, mode, options):
    def program(torch):
        layer = getattr(torch.nn, mode)(3, 4, **options)
        members = {name: value for name, value in vars(layer).items() if name[0] != "_"}
        return [
            layer,
            layer.state_dict(),
            members,
            layer._flat_weights_names,
            layer._all_weights,
            [len(group) for group in layer.all_weights],
            layer.flatten_parameters(),
        ]

    same(program)


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_to_second_order(mode):
    options = {"bidirectional": True, **({"proj_size": 1} if mode == "LSTM" else {})}
    layer = getattr(nn, mode)(2, 2, **options, dtype=flambeau.float64)
    flambeau.manual_seed(0)
    x = flambeau.randn(4, 2, dtype=flambeau.float64).requires_grad_()
    sizes = flambeau.tensor([2, 1, 1])
    states = [flambeau.randn(2, 2, 1 if "proj_size" in options else 2, dtype=flambeau.float64).requires_grad_()]
    if mode == "LSTM":
        states.append(flambeau.randn(2, 2, 2, dtype=flambeau.float64).requires_grad_())
    weights = [weight.detach().clone().requires_grad_() for weight in layer.parameters()]

    def function(x, *rest):
        hx, parameters = rest[: len(states)], rest[len(states) :]
        run = {"LSTM": flambeau.lstm, "GRU": flambeau.gru, "RNN": flambeau.rnn_tanh}[mode]
        return run(x, sizes, hx if mode == "LSTM" else hx[0], parameters, True, 1, 0.0, False, True)

    inputs = (x, *states, *weights)
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs, fast_mode=True)  # a random projection of each


@pytest.mark.parametrize("mode", MODES)
def test_part_of_the_gradients(oracle, mode):
    """Only some operands need a gradient, and only one result has one."""

    def run(torch, which, result):
        layer, x, hx, _ = _layer_and_input(torch, mode, {}, "dense", torch.float64)
        for name, parameter in layer.named_parameters():
            parameter.requires_grad_(name == which)
        out, state = layer(x.detach() if which != "x" else x, tuple(_flat(hx)) if mode == "LSTM" else hx)
        target = x if which == "x" else _flat(hx)[-1] if which == "state" else getattr(layer, which)
        chosen = out if result == "output" else _flat(state)[-1]
        (gradient,) = torch.autograd.grad(chosen.sin().sum(), [target])
        return gradient.numpy()

    for which, result in itertools.product(("x", "state", "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"), ("output", "state")):
        np.testing.assert_allclose(run(flambeau, which, result), run(oracle, which, result), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(same, oracle, name):
    def run(torch, batch, bias, **options):
        torch.manual_seed(0)
        cell = getattr(torch.nn, name)(3, 4, bias, **options, dtype=torch.float64)
        x = torch.randn(*batch, 3, dtype=torch.float64).requires_grad_()
        states = [torch.randn(*batch, 4, dtype=torch.float64).requires_grad_() for _ in range(1 + (name == "LSTMCell"))]
        hx = tuple(states) if name == "LSTMCell" else states[0]
        results = _flat(cell(x)) + _flat(cell(cell_input := x * 2, hx))
        loss = sum((tensor * (k + 1)).sin().sum() for k, tensor in enumerate(results))
        gradients = torch.autograd.grad(loss, [cell_input, *states, *cell.parameters()])
        return [tensor.detach().numpy() for tensor in [*results, *gradients]]

    variants = [{}, {"nonlinearity": "relu"}] if name == "RNNCell" else [{}]
    for batch, bias, options in itertools.product(((2,), ()), (True, False), variants):
        for mine, theirs in zip(run(flambeau, batch, bias, **options), run(oracle, batch, bias, **options), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)

    def program(torch):
        cells = [getattr(torch.nn, name)(3, 4, bias, **options) for bias in (True, False) for options in variants]
        return [cells, [cell.state_dict() for cell in cells]]

    same(program)


def test_wrong_arguments(same):
    def program(torch):
        changes = [{"dropout": 2}, {"dropout": True}, {"proj_size": 4}, {"proj_size": -1}, {"num_layers": 0}, {"hidden_size": 0}]
        changes += [{"hidden_size": 1.0}, {"batch_first": 1}, {"dropout": "a"}]
        changes += [{"input_size": 0}, {"input_size": "a"}, {"bias": 1}, {"input_size": 0, "num_layers": 0}]
        return [
            *[lambda change=change: torch.nn.LSTM(**{"input_size": 3, "hidden_size": 4, **change}) for change in changes],
            lambda: torch.nn.RNN(3, 4, proj_size=2),
            lambda: torch.nn.GRU(3, 4, proj_size=2),
            lambda: torch.nn.RNN(3, 4, nonlinearity="x"),
            lambda: torch.nn.RNN(3),
            lambda: torch.nn.RNNBase("XX", 3, 4),
            lambda: torch.nn.RNNBase("LSTM", 3, 4)(torch.zeros(1, 1, 3)),
            lambda: torch.nn.RNNCell(3, 4, nonlinearity="x")(torch.zeros(2, 3)),
        ]

    same(program)


@pytest.mark.parametrize("mode", MODES)
def test_wrong_inputs(same, mode):
    def program(torch):
        x = torch.zeros(5, 2, 3)
        pack = torch.nn.utils.rnn.pack_padded_sequence
        layer = getattr(torch.nn, mode)(3, 4, 2)
        cell = getattr(torch.nn, mode + "Cell")(3, 4)

        def hx(*shape, dtype=torch.float32):
            zeros = torch.zeros(*shape, dtype=dtype)
            return (zeros, zeros) if mode == "LSTM" else zeros

        wrong = [
            *[lambda shape=shape: layer(torch.zeros(shape)) for shape in ((5, 2, 4), (5, 4), (4,), (1, 1, 1, 4), (0, 2, 3))],
            *[lambda shape=shape: layer(x, hx(*shape)) for shape in ((1, 2, 4), (2, 3, 4), (2, 4))],
            *[lambda shape=shape: layer(x[:, 0], hx(*shape)) for shape in ((2, 2, 4), (2, 5))],
            lambda: layer(x.double()),
            lambda: layer(x.long()),
            *[lambda shape=shape: cell(torch.zeros(shape)) for shape in ((2, 4), (2, 2, 3), (4,))],
            *[lambda shape=shape: cell(torch.zeros(2, 3), hx(*shape)) for shape in ((3, 4), (2, 5), (4,), (1, 2, 4))],
            lambda: cell(torch.zeros(3), hx(2, 4)),
            lambda: cell(torch.zeros(2, 3), hx(2, 4, dtype=torch.float64)),
            lambda: layer(x[:, :0])[0].shape,
        ]
        if mode != "LSTM":  # in float32 PyTorch's library for LSTMs fails in its own words
            wrong += [lambda: layer(pack(x, [5, 3]), hx(2, 3, 4)), lambda: layer(pack(torch.zeros(5, 2, 4), [5, 3]))]
            wrong.append(lambda: layer(x, hx(2, 2, 4, dtype=torch.float64)))
        return wrong

    same(program)


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh"])
def test_functions_refuse_what_does_not_fit(name):
    rows = {"lstm": 8, "gru": 6, "rnn_tanh": 2}[name]
    x, h = flambeau.zeros(3, 2, 3), flambeau.zeros(1, 2, 2)
    weights = [flambeau.zeros(rows, 3), flambeau.zeros(rows, 2)]
    function, hx = getattr(flambeau, name), [h, h] if name == "lstm" else h

    def run(x=x, weights=weights, layers=1):
        return function(x, hx, weights, False, layers, 0.0, False, False, False)

    assert run()[0].shape == (3, 2, 2)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        run(flambeau.zeros(3, 2, 5))
    with pytest.raises(RuntimeError, match="same dtype"):
        run(x.double())
    with pytest.raises(IndexError, match="3 dimensions, got 2"):
        run(x[0])
    with pytest.raises(RuntimeError, match="first dim must be"):
        run(weights=[flambeau.zeros(rows + 2, 3), weights[1]])
    with pytest.raises(RuntimeError, match="expected 2 parameters for each of 2"):
        run(layers=2)
    with pytest.raises(RuntimeError, match="add up to the 6 rows"):
        function(x.reshape(6, 3), flambeau.tensor([2, 2]), hx, weights, False, 1, 0.0, False, False)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("name", ["bias", "bidirectional", "batch_first", "training", "num_layers", "dropout"])
@pytest.mark.parametrize("mode", MODES)
def test_options_that_were_changed_to_another_type_are_found_at_the_call(of_pytorch, mode, name, is_packed):
    def program(torch):
        outcomes = []
        for value in (2, 1, 0, True, "x", None, 0.5):
            layer = getattr(torch.nn, mode)(3, 2)
            setattr(layer, name, value)
            x = torch.ones(4, 2, 3)
            try:
                layer(torch.nn.utils.rnn.pack_sequence([x[:2, 0], x[:1, 0]]) if is_packed else x)
            except Exception as error:
                outcomes.append(type(error).__name__)
            else:
                outcomes.append("")
        return outcomes

    assert program(flambeau) == of_pytorch(program)


def test_batch_sizes_may_have_strides():
    layer = nn.GRU(3, 4)
    packed = nn.utils.rnn.pack_padded_sequence(flambeau.randn(3, 2, 3), [3, 1])
    strided = flambeau.stack([packed.batch_sizes, packed.batch_sizes], 1)[:, 0]
    assert flambeau.equal(layer(packed)[0].data, layer(packed._replace(batch_sizes=strided))[0].data)


def test_the_list_of_parameters_follows_the_parameters(same):
    def program(torch):
        layer = torch.nn.GRU(2, 2)
        x = torch.ones(3, 1, 2)
        names = layer._flat_weights_names

        def in_step(layer):
            return [a is getattr(layer, name) for a, name in zip(layer._flat_weights, names, strict=True)]

        outcome = [in_step(layer), in_step(copy.deepcopy(layer)), in_step(pickle.loads(pickle.dumps(layer)))]
        outcome.append(in_step(layer.double()))
        layer.float().weight_hh_l0 = torch.nn.Parameter(torch.zeros(6, 2))
        outcome += [in_step(layer), torch.allclose(layer(x)[0][2], layer(x)[0][2])]
        layer._parameters["weight_ih_l0"] = torch.nn.Parameter(torch.zeros(6, 2))  # as functional_call does
        layer.bias_ih_l0.data.zero_()
        layer.bias_hh_l0.data.zero_()
        return [*outcome, layer(x)[0].tolist(), in_step(layer)]

    same(program)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_state_survives_both_ways(oracle):
    """The state that each library saves is read by the other."""
    mine, theirs = nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2), oracle.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    file = io.BytesIO()
    oracle.save(theirs.state_dict(), file)
    file.seek(0)
    assert str(mine.load_state_dict(flambeau.load(file))) == "<All keys matched successfully>"
    x = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    expected = theirs(oracle.from_numpy(x))[0].detach().numpy()
    np.testing.assert_allclose(mine(flambeau.from_numpy(x))[0].detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    file = io.BytesIO()
    flambeau.save(mine.state_dict(), file)
    file.seek(0)
    other = oracle.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    other.load_state_dict(oracle.load(file))
    assert all(oracle.equal(a, b) for a, b in zip(other.parameters(), theirs.parameters(), strict=True))


def test_whole_modules_of_pytorch_are_read(oracle):
    """A pickled layer of PyTorch becomes a layer here, with its list of parameters in step."""
    x = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    layer, file = oracle.nn.LSTM(3, 4, 2, bidirectional=True), io.BytesIO()
    oracle.save(layer, file)
    file.seek(0)
    loaded = flambeau.load(file, weights_only=False)
    assert type(loaded) is nn.LSTM
    assert all(a is getattr(loaded, name) for a, name in zip(loaded._flat_weights, loaded._flat_weights_names, strict=True))
    expected = layer(oracle.from_numpy(x))[0].detach().numpy()
    np.testing.assert_allclose(loaded(flambeau.from_numpy(x))[0].detach().numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_many_steps(oracle, mode):
    """From nine steps on the weights of the state are laid out anew."""

    def run(torch):
        torch.manual_seed(0)
        layer = getattr(torch.nn, mode)(3, 5, bidirectional=True, dtype=torch.float64)
        x = torch.randn(20, 2, 3, dtype=torch.float64).requires_grad_()
        output = layer(x)[0]
        output.square().sum().backward()
        return [tensor.detach().numpy() for tensor in (output, x.grad, *(weight.grad for weight in layer.parameters()))]

    for mine, theirs in zip(run(flambeau), run(oracle), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("mode", MODES)
def test_on_the_meta_device(mode):
    layer = getattr(nn, mode)(300, 400, 2, bidirectional=True, device="meta")
    output, state = layer(flambeau.empty(7, 3, 300, device="meta"))
    assert (output.shape, output.is_meta, _flat(state)[0].shape) == ((7, 3, 800), True, (4, 3, 400))
    output.sum().backward()
    assert layer.weight_hh_l1.grad.shape == layer.weight_hh_l1.shape


def test_the_biases_have_gradients_of_their_own():
    for layer in (nn.LSTM(2, 3), nn.GRU(2, 3), nn.RNN(2, 3)):
        layer(flambeau.ones(2, 1, 2))[0].sum().backward()
        before = layer.bias_hh_l0.grad.clone()
        layer.bias_ih_l0.grad.zero_()
        assert flambeau.equal(layer.bias_hh_l0.grad, before)


def test_cells_of_another_dtype_promote(oracle):
    def run(torch):
        torch.manual_seed(0)
        layer, x, h = torch.nn.LSTMCell(3, 4), torch.randn(2, 3), torch.randn(2, 4).requires_grad_()
        h, c = layer(x, (h, torch.randn(2, 4).double()))
        (h.sum() + c.sum()).backward()
        assert h.dtype == c.dtype == torch.float64
        return [tensor.detach().numpy() for tensor in (h, c, layer.weight_hh.grad)]

    for mine, theirs in zip(run(flambeau), run(oracle), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="'hx' .position 2. must be tuple of Tensors, not Tensor"):
        nn.LSTMCell(3, 4)(flambeau.randn(2, 3), flambeau.randn(2, 2, 4))


def test_a_deleted_parameter_is_used_until_there_is_another():
    layer, x = nn.LSTM(3, 4), flambeau.randn(5, 1, 3)
    before = layer(x)[0]
    del layer.bias_ih_l0
    assert flambeau.equal(layer(x)[0], before)
    layer.bias_ih_l0 = nn.Parameter(flambeau.ones(16))
    assert not flambeau.equal(layer(x)[0], before)


def test_cells_of_a_single_step_do_not_depend_on_the_projection():
    layer = nn.LSTM(3, 4, proj_size=2)
    for steps in (1, 2):
        layer(flambeau.randn(steps, 1, 3))[1][1].sum().backward()
        assert (layer.weight_hr_l0.grad is None) == (steps == 1) and layer.weight_hh_l0.grad is not None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layers", [1, 2])
def test_batches_of_sequences_are_those_one_by_one(mode, layers):
    """Under ``vmap``: outputs, and gradients of inputs and weights, within and without."""
    layer, x = getattr(nn, mode)(3, 4, layers, dtype=flambeau.float64), flambeau.randn(3, 5, 2, 3, dtype=flambeau.float64)
    states = [flambeau.randn(3, layers, 2, 4, dtype=flambeau.float64) for _ in range(1 + (mode == "LSTM"))]
    weights = {name: weight.detach() for name, weight in layer.named_parameters()}

    def output(weights, x, *states):
        return flambeau.func.functional_call(layer, weights, (x, states if mode == "LSTM" else states[0]))[0]

    def loss(*operands):
        return output(*operands).pow(2).sum()

    apart = [(weights, x[i], *[state[i] for state in states]) for i in range(3)]
    dims = (None, *(0,) * (1 + len(states)))
    together = flambeau.func.vmap(output, dims)(weights, x, *states)
    flambeau.testing.assert_close(together, flambeau.stack([output(*operands) for operands in apart]))
    for which in (0, 1):
        slopes = flambeau.func.grad(loss, which)
        wanted = [slopes(*operands) for operands in apart]
        wanted = flambeau.utils._pytree.tree_map(lambda *parts: flambeau.stack(parts), *wanted)
        flambeau.testing.assert_close(flambeau.func.vmap(slopes, dims)(weights, x, *states), wanted)
    total = flambeau.func.grad(lambda weights: flambeau.func.vmap(loss, dims)(weights, x, *states).sum())(weights)
    for name, slope in total.items():
        flambeau.testing.assert_close(slope, sum(flambeau.func.grad(loss)(*operands)[name] for operands in apart))


def test_half_precision(oracle):
    def run(torch):
        layer, x, hx, _ = _layer_and_input(torch, "LSTM", {"num_layers": 2}, "dense", torch.bfloat16)
        return layer(x, hx)[0].float().detach().numpy()

    np.testing.assert_allclose(run(flambeau), run(oracle), rtol=0.05, atol=0.03)


def test_names_of_functions():
    from flambeau import _VF

    assert _VF.lstm is flambeau.lstm and _VF.gru_cell is flambeau.gru_cell
    assert flambeau._VF is _VF
    with pytest.raises(AttributeError):
        _VF.no_such_function  # noqa: B018
