"""Attention of several heads and the Transformer: weights, results, gradients, masks, messages and files are PyTorch's."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn

MASKS = {
    "none": {},
    "padding": {"padding": "bool"},
    "padding numbers": {"padding": "float"},
    "positions": {"positions": "bool"},
    "causal numbers": {"positions": "causal"},
    "positions of heads": {"positions": "heads"},
    "both": {"padding": "float", "positions": "causal"},
}
ATTENTIONS = {
    "plain": {},
    "without bias": {"bias": False},
    "positions more": {"add_bias_kv": True, "add_zero_attn": True},
    "other sizes": {"kdim": 3, "vdim": 5, "batch_first": True},
    "other sizes and biases": {"kdim": 3, "add_bias_kv": True, "bias": False},
    "dropout": {"dropout": 0.4, "batch_first": True},
}
LAYERS = {
    "plain": {},
    "norm first": {"norm_first": True, "activation": "gelu"},
    "batch first": {"batch_first": True, "bias": False, "layer_norm_eps": 1e-3},
    "module as activation": {"batch_first": True, "activation": "module"},
}


def _close(got, expected, rtol=1e-4, atol=2e-6):
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert str(mine.dtype) == str(theirs.dtype)
            np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=atol)


def _run(program, of_pytorch, **tolerance):
    def seeded(torch):
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program(torch)

    _close(seeded(flambeau), of_pytorch(seeded), **tolerance)


def _masks(torch, padding=None, positions=None, *, batch=2, heads=2, length=4, width=3):
    """Keyword arguments: the padding and the mask of positions."""
    given = {}
    if padding is not None:
        left_out = torch.tensor([[False] * width, [False] * (width - 1) + [True]])
        given["key_padding_mask"] = left_out if padding == "bool" else torch.zeros(batch, width).masked_fill(left_out, -float("inf"))
    if positions == "heads":
        given["attn_mask"] = torch.linspace(-1, 1, batch * heads * length * width).reshape(batch * heads, length, width)
    elif positions is not None:
        above = torch.ones(length, width).triu(1).bool()
        given["attn_mask"] = above if positions == "bool" else torch.zeros(length, width).masked_fill(above, -float("inf"))
    return given


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_pytorchs(of_pytorch, name, masks, need_weights):
    options = ATTENTIONS[name]

    def program(torch):
        layer = torch.nn.MultiheadAttention(4, 2, **options)
        shapes = (4, 2, 4), (3, 2, layer.kdim), (3, 2, layer.vdim)
        operands = [torch.randn(shape).requires_grad_() for shape in shapes]
        if layer.batch_first:
            operands = [operand.detach().transpose(0, 1).contiguous().requires_grad_() for operand in operands]
        result, weights = layer(*operands, need_weights=need_weights, average_attn_weights=False, **_masks(torch, **MASKS[masks]))
        loss = result.sin().sum() + (weights.cos().sum() if need_weights else 0.0)
        loss.backward()
        grads = [tensor.grad for tensor in (*operands, *layer.parameters())]
        layer.eval()
        with torch.no_grad():
            evaluated = layer(*operands, need_weights=need_weights, **_masks(torch, **MASKS[masks]))
        return [*layer.state_dict().values(), result, weights, *grads, *evaluated, torch.rand(2)]

    _run(program, of_pytorch)


@pytest.mark.parametrize("training", [True, False])
def test_attention_of_a_sequence_to_itself(of_pytorch, training):
    def program(torch):
        layer = torch.nn.MultiheadAttention(4, 2, dropout=0.2, batch_first=True).train(training)
        outcomes = []
        for shape in ((2, 3, 4), (3, 4)):
            operand = torch.randn(shape, requires_grad=True)
            causal = torch.nn.Transformer.generate_square_subsequent_mask(3)
            for kwargs in ({}, {"need_weights": False}, {"attn_mask": causal, "is_causal": True, "need_weights": False}):
                result, weights = layer(operand, operand, operand, **kwargs)
                result.sum().backward()
                outcomes += [result, weights, operand.grad, layer.in_proj_weight.grad]
                with torch.no_grad():
                    outcomes += layer(operand, operand, operand, **kwargs)
        return outcomes

    _run(program, of_pytorch)


def test_merged_masks(of_pytorch):
    def program(torch):
        layer = torch.nn.MultiheadAttention(4, 2)
        query, positions, padding = torch.ones(2, 3, 4), torch.linspace(0, 1, 9).reshape(3, 3), torch.linspace(0, 1, 6).reshape(2, 3)
        of_heads = torch.linspace(0, 1, 36).reshape(4, 3, 3)
        calls = ((None, None), (positions, None), (None, padding), (positions, padding), (of_heads, padding))
        merged = [layer.merge_masks(*masks, query) for masks in calls]
        assert [kind for _, kind in merged] == [None, 2, 1, 2, 2]
        return [mask for mask, _ in merged]

    _run(program, of_pytorch)


def test_static_key_and_value(of_pytorch):
    def program(torch):
        static = torch.randn(4, 5, 2)
        layer = torch.nn.MultiheadAttention(4, 2)
        operand = torch.randn(3, 2, 4)
        fixed = (operand, operand, operand, 4, 2, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0)
        weights = layer.out_proj.weight, layer.out_proj.bias
        return torch.nn.functional.multi_head_attention_forward(*fixed, *weights, static_k=static, static_v=static)

    _run(program, of_pytorch)


@pytest.mark.filterwarnings("ignore")
def test_messages_of_attention(same):
    def program(torch):
        make = torch.nn.MultiheadAttention
        layer, operand = make(4, 2), torch.ones(3, 2, 4)
        flat, zeros = operand[0], torch.zeros
        given = {"operand": operand, "flat": flat}

        def attend(*args, **kwargs):
            return layer(*(given.get(arg, arg) if isinstance(arg, str) else arg for arg in args), **kwargs)

        return [
            lambda: make(5, 2),
            lambda: make(0, 2),
            lambda: make(4, -2),
            lambda: attend(flat[0], operand, operand),
            lambda: attend(operand, flat, flat),
            lambda: attend(flat, operand, operand),
            lambda: attend(operand, operand, operand[:2]),
            lambda: attend(operand[..., :3], operand, operand),
            lambda: attend(operand, operand, operand, zeros(3, 2).bool()),
            lambda: attend(operand, operand, operand, zeros(2, 2).bool()),
            lambda: attend(operand, operand, operand, zeros(2, 3).int()),
            lambda: attend(operand, operand, operand, zeros(3).bool()),
            lambda: attend(flat, flat, flat, zeros(2, 3).bool()),
            lambda: attend(operand, operand, operand, attn_mask=zeros(3, 2).bool()),
            lambda: attend(operand, operand, operand, attn_mask=zeros(2, 3, 3).bool()),
            lambda: attend(operand, operand, operand, attn_mask=zeros(3).bool()),
            lambda: attend(flat, flat, flat, attn_mask=zeros(3, 2, 2).bool()),
            lambda: attend(operand, operand, operand, attn_mask=zeros(3, 3).int()),
            lambda: attend(operand, operand, operand, is_causal=True),
        ]

    same(program)


def test_masks_of_different_dtypes_warn():
    layer, operand = nn.MultiheadAttention(4, 2), flambeau.ones(3, 2, 4)
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask"):
        layer(operand, operand, operand, flambeau.zeros(2, 3).bool(), attn_mask=flambeau.zeros(3, 3))


def _activation(torch, options):
    return {**options, "activation": torch.nn.GELU()} if options.get("activation") == "module" else options


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("name", LAYERS)
def test_encoder_is_pytorchs(of_pytorch, name, masks):
    def program(torch):
        layer = torch.nn.TransformerEncoderLayer(4, 2, 8, 0.1, **_activation(torch, LAYERS[name]))
        stack = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(4))
        shape = (2, 3, 4) if layer.self_attn.batch_first else (3, 2, 4)
        source = torch.randn(shape, requires_grad=True)
        given = _masks(torch, **MASKS[masks], length=3)
        padding, positions = given.get("key_padding_mask"), given.get("attn_mask")
        outcomes = [*stack.state_dict().values()]
        for training in (True, False):
            result = stack.train(training)(source, positions, padding)
            result.sin().sum().backward()
            outcomes += [result, source.grad, *[parameter.grad for parameter in stack.parameters()]]
        if masks != "positions of heads":  # PyTorch's fused layer takes the numbers of such a mask for bools
            with torch.no_grad():
                outcomes += [stack(source, positions, padding), stack.layers[0](source, positions, padding)]
        return [*outcomes, torch.rand(2)]

    _run(program, of_pytorch, atol=2e-5)


@pytest.mark.parametrize("left_out", [[[0, 0, 0], [0, 1, 1]], [[0, 0, 0], [1, 0, 0]], [[0, 0, 1], [0, 1, 0]]])
@pytest.mark.parametrize("options", [{}, {"mask_check": False}, {"enable_nested_tensor": False}])
def test_padding_is_zero_where_pytorch_leaves_it_out(of_pytorch, left_out, options):
    if options.get("mask_check") is False and left_out[1][0] + left_out[1][1] - left_out[1][2] == 1:
        pytest.skip("the caller says that padding is at the end, and it is not")

    def program(torch):
        layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        stack = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(4), **options).eval()
        source, padding = torch.randn(2, 3, 4), torch.tensor(left_out).bool()
        with torch.no_grad():
            results = [stack(source, src_key_padding_mask=padding)]
        stack.requires_grad_(False)
        return [*results, stack(source, src_key_padding_mask=padding), stack.requires_grad_()(source, src_key_padding_mask=padding)]

    _run(program, of_pytorch, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_transformer_is_pytorchs(of_pytorch, name):
    def program(torch):
        model = torch.nn.Transformer(4, 2, 2, 2, 8, 0.1, **_activation(torch, LAYERS[name]))
        source, target = (torch.randn((2, n, 4) if model.batch_first else (n, 2, 4)).requires_grad_() for n in (3, 5))
        causal = model.generate_square_subsequent_mask(5)
        padding = torch.tensor([[False, False, False], [False, False, True]])
        outcomes = [*model.state_dict().values()]
        for training in (True, False):
            model.train(training)
            for kwargs in (
                {},
                {"tgt_mask": causal},
                {"tgt_mask": causal, "tgt_is_causal": True},
                {"src_key_padding_mask": padding, "memory_key_padding_mask": padding},
            ):
                result = model(source, target, **kwargs)
                result.sin().sum().backward()
                outcomes += [result, source.grad, target.grad]
        outcomes += [parameter.grad for parameter in model.parameters()]
        with torch.no_grad():
            outcomes += [model(source, target, tgt_mask=causal)]
        if not model.batch_first:
            outcomes += [model(source[:, 0], target[:, 0])]
        return [*outcomes, torch.rand(2)]

    _run(program, of_pytorch, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_messages_and_attributes_of_the_transformer(same):
    def program(torch):
        of = torch.nn
        model = of.Transformer(4, 2, 1, 1, 8)
        x = torch.ones(3, 2, 4)
        return [
            repr(model),
            {key: value for key, value in vars(model).items() if key[0] != "_"},
            {key: value for key, value in vars(model.encoder).items() if key[0] != "_"},
            [
                model.encoder.layers[0].activation_relu_or_gelu,
                of.TransformerEncoderLayer(4, 2, activation=of.GELU()).activation_relu_or_gelu,
            ],
            list(model.state_dict()),
            model.generate_square_subsequent_mask(3, dtype=torch.float64),
            lambda: of.TransformerEncoderLayer(4, 2, activation="tanh"),
            lambda: model(x, x[:, :1]),
            lambda: model(x, x[..., :2]),
            lambda: model.encoder(torch.ones(4, 4, 4, 4)),
            of.Transformer(4, 2, custom_encoder=of.Identity(), custom_decoder=of.Identity()),
        ]

    same(program)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "batch_first was not True"),
        ({"batch_first": True, "norm_first": True}, "norm_first was True"),
        ({"batch_first": True, "bias": False}, "passed bias=False"),
        ({"batch_first": True, "activation": flambeau.tanh}, "activation_relu_or_gelu was not True"),
    ],
)
def test_why_padding_is_not_left_out(options, reason):
    with pytest.warns(UserWarning, match=reason):
        assert not nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, **options), 1).use_nested_tensor


def _model(torch, activation="relu"):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nn.Transformer(4, 2, 1, 1, 8, activation=activation).eval()


def _result(torch, model):
    x = torch.linspace(-1, 1, 24).reshape(3, 2, 4)
    return [model(x, x.flip(0))]


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_whole_transformers_of_pytorch_are_read(oracle, activation):
    file = io.BytesIO()
    model = _model(oracle, activation)
    oracle.save(model, file)
    file.seek(0)
    _close(_result(flambeau, flambeau.load(file, weights_only=False)), _result(oracle, model))


def test_states_are_read_both_ways(oracle):
    for writer, reader in ((flambeau, oracle), (oracle, flambeau)):
        model, other, file = _model(writer), _model(reader), io.BytesIO()
        writer.save(model.state_dict(), file)
        file.seek(0)
        for parameter in other.parameters():
            parameter.data.zero_()
        other.load_state_dict(reader.load(file))
        _close(_result(reader, other), _result(writer, model))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformers_survive_pickling_and_copying(activation):
    model, file = _model(flambeau, activation), io.BytesIO()
    flambeau.save(model, file)
    file.seek(0)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), flambeau.load(file, weights_only=False)):
        assert repr(twin) == repr(model)
        _close(_result(flambeau, twin), _result(flambeau, model), rtol=0, atol=0)
