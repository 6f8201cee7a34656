"""``torch.nested``: what is computed with a batch of sequences is what is computed with each of them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nested, nn

LENGTHS = (3, 1, 5, 0)
GENERATOR = np.random.default_rng(0)
SEQUENCES = [GENERATOR.standard_normal((n, 4)) for n in LENGTHS]
WEIGHT, FACTOR, MATRICES = (torch.tensor(GENERATOR.standard_normal(shape)) for shape in ((6, 4), (4,), (4, 4, 2)))


def tensors(sequences: Any = SEQUENCES, requires_grad: bool = False) -> list[Any]:
    return [torch.tensor(sequence).requires_grad_(requires_grad) for sequence in sequences]


def batch_of(sequences: Any = SEQUENCES, requires_grad: bool = True) -> Any:
    return nested.nested_tensor(tensors(sequences), layout=torch.jagged, requires_grad=requires_grad)


def attention(x: Any, is_causal: bool = False) -> Any:
    """Of two heads; ``(n, 4)`` or a batch of such."""
    dim = x.dim() - 2 if not x.is_nested else 1
    q, k, v = (part.unflatten(-1, (2, 2)).transpose(dim, dim + 1) for part in (x, x * 2, x + 1))
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal).transpose(dim, dim + 1).flatten(-2)


# What is done with the batch, and with each sequence (n, 4) to get the same. A sequence of its own comes with its place in the batch.
SAME = {
    "unary": lambda x: torch.exp(x).sigmoid() + F.gelu(x) - F.relu(-x),
    "numbers": lambda x: 2 - x / 3 + x**2,
    "two": lambda x: x * x.cos() + x.clamp(min=0),
    "broadcasting": lambda x: x * FACTOR,
    "where": lambda x: torch.where(x > 0, x, x * 2).masked_fill(x < -1, 3.0),
    "linear": lambda x: F.linear(x, WEIGHT, WEIGHT[:, 0]),
    "matmul": lambda x: x @ WEIGHT.T,
    "layer_norm": lambda x: F.layer_norm(x, (4,), FACTOR, FACTOR),
    "rms_norm": lambda x: F.rms_norm(x, (4,)),
    "softmax": lambda x: x.softmax(-1) + F.log_softmax(x, -1),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "max": lambda x: x.max(-1).values + x.amin(-1),
    "heads": lambda x: x.unflatten(-1, (2, 2)).flatten(-2),
    "parts": lambda x: torch.cat([*x.chunk(2, -1), x.narrow(-1, 1, 2), *x.split([1, 3], -1)], -1),
    "stack": lambda x: torch.stack([x, x * 2], -1),
    "ellipsis": lambda x: x[..., 1:3] * x[..., 0].unsqueeze(-1),
    "dtype": lambda x: x.float().to(torch.float64).clone().contiguous(),
    "attention": attention,
    "causal": lambda x: attention(x, is_causal=True),
}
DIFFERENT: dict[str, tuple[Callable[[Any], Any], Callable[[Any, int], Any]]] = {
    "sum of sequences": (lambda b: b.sum(1), lambda x, i: x.sum(0)),
    "mean of sequences": (lambda b: b[:3].mean(1) if not b.is_nested else b.mean(1), lambda x, i: x.mean(0)),
    "amax": (lambda b: b.amax(1), lambda x, i: x.amax(0)),
    "prod": (lambda b: b.prod(1, keepdim=True), lambda x, i: x.prod(0, keepdim=True)),
    "softmax of sequences": (lambda b: b.softmax(1), lambda x, i: x.softmax(0)),
    "norm of sequences": (lambda b: F.layer_norm(b, (b.shape[1], 4)), lambda x, i: F.layer_norm(x, x.shape)),
    "one per row": (lambda b: b * MATRICES[: len(b), :, :1].mT, lambda x, i: x * MATRICES[i, :, 0]),
    "padded operand": (lambda b: b + b.to_padded_tensor(0.0), lambda x, i: x + x),
    "bmm": (lambda b: b @ MATRICES[: len(b)], lambda x, i: x @ MATRICES[i]),
    "products": (lambda b: b.transpose(1, 2) @ b, lambda x, i: x.T @ x),
    "transposed": (lambda b: b.transpose(1, 2), lambda x, i: x.T),
    "permuted": (lambda b: b.unflatten(-1, (2, 2)).permute(0, 3, 1, 2), lambda x, i: x.unflatten(-1, (2, 2)).permute(2, 0, 1)),
    "viewed": (lambda b: b.view(len(b), -1, 2, 2), lambda x, i: x.view(-1, 2, 2)),
    "unsqueezed": (lambda b: b.unsqueeze(1).sum(-1), lambda x, i: x.unsqueeze(0).sum(-1)),
    "unbound": (lambda b: torch.stack([x.sum() for x in b]), lambda x, i: x.sum()),
    "padded": (lambda b: b.to_padded_tensor(7.0, (0, 6, 0)), lambda x, i: F.pad(x, (0, 0, 0, 6 - len(x)), value=7.0)),
}


@pytest.mark.parametrize("name", [*SAME, *DIFFERENT])
def test_a_batch_is_its_sequences(name: str) -> None:
    of_batch, of_sequence = (SAME[name], lambda x, i: SAME[name](x)) if name in SAME else DIFFERENT[name]
    has_empty = name not in ("max", "mean of sequences", "amax", "norm of sequences", "softmax of sequences", "attention", "causal")
    sequences = SEQUENCES if has_empty else SEQUENCES[:3]
    batch, parts = batch_of(sequences), tensors(sequences, requires_grad=True)
    result = of_batch(batch)
    expected = [of_sequence(part, i) for i, part in enumerate(parts)]
    found = list(result)
    assert len(found) == len(expected) and (result.is_nested or isinstance(result, torch.Tensor))
    torch.testing.assert_close([part.detach() for part in found], [part.detach() for part in expected])
    weights = [torch.arange(1.0, part.numel() + 1, dtype=torch.float64).reshape(part.shape) for part in expected]
    sum((part * weight).sum() for part, weight in zip(found, weights, strict=True)).backward()
    sum((part * weight).sum() for part, weight in zip(expected, weights, strict=True)).backward()
    assert batch.grad.is_nested and batch.grad.shape == batch.shape
    torch.testing.assert_close(list(batch.grad), [part.grad for part in parts])


# -- what it is ---------------------------------------------------------------------------------------------------------------------------
def test_sizes_and_printing() -> None:
    batch = nested.nested_tensor([torch.ones(3, 2), torch.ones(2, 2)], layout=torch.jagged)
    size = batch.shape[1]
    assert isinstance(size, torch.SymInt) and str(size)[0] == "j" and repr(batch.shape) == f"torch.Size([2, {size}, 2])"
    assert repr(batch) == f"NestedTensor(size=(2, {size}, 2), offsets=tensor([0, 3, 5]), contiguous=True)"
    assert (
        size == batch.size(1) == (batch * 2).shape[1] != nested.nested_tensor([torch.ones(3), torch.ones(2)], layout=torch.jagged).shape[1]
    )
    assert size > 1 and size >= 2 and size != 5 and str(size * 2) == f"2*{size}" and batch.stride() == (size * 2, 2, 1)
    with pytest.raises(ValueError, match="indeterminate"):
        assert size > 4
    assert (batch.layout, batch.is_nested, batch.dim(), len(batch), batch.numel()) == (torch.jagged, True, 3, 2, 10)
    assert batch.transpose(1, 2).shape == (2, 2, size) and not batch.transpose(1, 2).is_contiguous()
    again = pickle.loads(pickle.dumps(batch.requires_grad_()))
    assert again.shape[1] != size and again.requires_grad and torch.equal(again.values(), batch.values())
    assert torch.equal(copy.deepcopy(batch), batch)


def test_parts_of_a_packed_batch_are_shown_not_copied() -> None:
    values = torch.arange(12.0).reshape(6, 2).requires_grad_()
    batch = nested.nested_tensor_from_jagged(values, lengths=torch.tensor([2, 4]))
    assert batch.offsets().tolist() == [0, 2, 6] and batch.lengths() is None and batch.data_ptr() == values.data_ptr() and not batch.is_leaf
    holes = nested.nested_tensor_from_jagged(values, torch.tensor([0, 3, 6]), torch.tensor([2, 1]))
    assert [part.tolist() for part in holes] == [[[0, 1], [2, 3]], [[6, 7]]]
    assert holes.numel() == 6 and not holes.is_contiguous() and holes.contiguous().offsets().tolist() == [0, 2, 3]
    assert (holes * 2).unbind()[1].tolist() == [[12, 14]]
    (holes.contiguous().values() * 2).sum().backward()
    assert values.grad.tolist() == [[2, 2], [2, 2], [0, 0], [2, 2], [0, 0], [0, 0]]
    cache = torch.arange(12.0).reshape(2, 6)
    rows = nested.narrow(cache, 1, torch.tensor([0, 2]), torch.tensor([3, 1]), layout=torch.jagged)
    assert [part.tolist() for part in rows] == [[0, 1, 2], [8]] and rows.data_ptr() == cache.data_ptr()
    chosen = nested.masked_select(cache, cache % 3 == 0)
    assert [part.tolist() for part in chosen] == [[0, 3], [6, 9]]
    assert nested.nested_tensor_from_jagged(torch.ones(2, 6), torch.tensor([0, 2, 6]), jagged_dim=2).unbind()[1].shape == (2, 4)


def test_gradients_reach_what_the_batch_is_made_of() -> None:
    a, b = torch.arange(3.0, requires_grad=True), torch.arange(5.0, requires_grad=True)
    for layout in (torch.jagged, torch.strided):
        a.grad = b.grad = None
        batch = nested.as_nested_tensor([a, b], layout=layout)
        assert not batch.is_leaf
        batch.backward(nested.nested_tensor([torch.ones(3), torch.zeros(5)], layout=layout))
        assert a.grad.tolist() == [1] * 3 and b.grad.tolist() == [0] * 5
    batch = batch_of()
    (grad,) = torch.autograd.grad((batch * batch).values().sum(), batch)
    assert grad.is_nested and torch.equal(grad.values(), 2 * batch.values())
    seen: list[bool] = []
    batch.register_hook(lambda grad: seen.append(grad.is_nested))
    batch.sum().backward()
    assert seen == [True] and batch.is_leaf
    with torch.no_grad():
        assert batch.add_(1) is batch and batch.zero_().sum() == 0
    weight = torch.eye(5, 3, dtype=torch.float64, requires_grad=True)
    words = nested.nested_tensor([torch.tensor([0, 1, 4]), torch.tensor([1])], layout=torch.jagged)
    F.embedding(words, weight).sum().backward()
    assert weight.grad[:, 0].tolist() == [1, 2, 0, 0, 1]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda b: b + batch_of(), RuntimeError, "cannot call binary pointwise function add"),
        (lambda b: b + torch.ones(3, 4), RuntimeError, "cannot call binary pointwise"),
        (lambda b: b.sum(0), RuntimeError, "reducing along the batch dimension"),
        (lambda b: b.sum((1, 2)), RuntimeError, "ragged and non-batch"),
        (lambda b: b.softmax(0), RuntimeError, "across the batch dimension"),
        (lambda b: b.unbind(1), RuntimeError, "only supported for NestedTensor on dim=0"),
        (lambda b: b.transpose(0, 1), ValueError, "batch dimension"),
        (lambda b: b.view(-1), RuntimeError, "cannot view shape"),
        (lambda b: b.flatten(1), RuntimeError, "ragged dim"),
        (lambda b: b[:, 1:], RuntimeError, "ragged dim"),
        (lambda b: torch.cat([b, b]), RuntimeError, "dim=0"),
        (lambda b: b @ b, RuntimeError, "not supported between inputs"),
        (lambda b: F.scaled_dot_product_attention(b, b, torch.ones(4, 3, 4)), ValueError, "to be nested tensors"),
        (lambda b: F.scaled_dot_product_attention(b, b, b, torch.ones(3, 3)), ValueError, "Masks are not yet supported"),
        (lambda b: b.cumsum(1), NotImplementedError, "cumsum: not supported for nested tensors"),
        (lambda b: torch.ones(2, 2).to_padded_tensor(0.0), NotImplementedError, "expected a nested tensor"),
        (lambda b: b.numpy(), RuntimeError, "not supported for tensor subclasses"),
        (lambda b: nested.as_nested_tensor(b), RuntimeError, "Converting between nested tensor layouts"),
        (lambda b: nested.as_nested_tensor(1), TypeError, "Expected first argument"),
        (lambda b: nested.nested_tensor([], layout=torch.jagged), RuntimeError, "empty tensor list"),
        (lambda b: nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 2)], layout=torch.jagged), RuntimeError, "single ragged dim"),
        (lambda b: nested.nested_tensor([torch.ones(2)], layout=torch.sparse_coo), RuntimeError, "layout is unsupported"),
        (lambda b: nested.nested_tensor_from_jagged(torch.ones(3)), RuntimeError, "At least one of offsets or lengths"),
        (lambda b: nested.nested_tensor_from_jagged(torch.ones(3), torch.tensor([0, 3]), jagged_dim=0), ValueError, "jagged_dim >=1"),
        (lambda b: nested.narrow(torch.ones(2, 3), 0, 1, 1, layout=torch.jagged), RuntimeError, "only supports dim=1"),
    ],
)  # fmt: skip
def test_errors(call: Callable[[Any], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(batch_of())


# -- the strided layout -------------------------------------------------------------------------------------------------------------------
def test_matrices_and_sizes_of_one_in_the_strided_layout() -> None:
    """Products of matrices are those of each pair; a dimension goes only if no tensor has more than one element in it."""
    batch = nested.nested_tensor([torch.arange(6.0).reshape(2, 3), torch.ones(1, 3)])
    for product in (torch.bmm(batch, batch.transpose(1, 2)), batch @ batch.transpose(1, 2)):
        assert [part.tolist() for part in product.unbind()] == [[[5, 14], [14, 50]], [[3]]]
    assert [part.shape for part in batch.squeeze(1).unbind()] == [(2, 3), (1, 3)]
    assert [part.shape for part in batch.unsqueeze(1).squeeze(1).unbind()] == [(2, 3), (1, 3)]
    for wrong in (lambda: batch.squeeze(), lambda: batch.squeeze(0), lambda: torch.bmm(batch, batch.unsqueeze(1))):
        with pytest.raises(RuntimeError):
            wrong()


def test_strided_layout() -> None:
    parts = [torch.arange(6.0).reshape(3, 2), torch.arange(4.0).reshape(1, 4)]
    free = nested.nested_tensor(parts, requires_grad=True)
    assert free.is_nested and free.layout is torch.strided and free.dim() == 3 and free.size(0) == 2
    assert [part.shape for part in free.unbind()] == [(3, 2), (1, 4)] and torch.equal(free[1], parts[1])
    assert nested.to_padded_tensor(free, 9.0).shape == (2, 3, 4)
    assert repr(nested.nested_tensor([[1.0, 2.0], [3.0]])) == "nested_tensor([\n  tensor([1., 2.]),\n  tensor([3.])\n])"
    for call, error in [
        (lambda: free.shape, RuntimeError),
        (lambda: free.size(1), RuntimeError),
        (lambda: free + parts[0], RuntimeError),
        (lambda: free.sum(1), RuntimeError),
        (lambda: free.cumsum(1), NotImplementedError),
        (lambda: free.to_padded_tensor(0.0, (2, 1, 4)), RuntimeError),
        (lambda: nested.nested_tensor([parts[0], torch.ones(2)]), RuntimeError),
    ]:
        with pytest.raises(error):
            call()
    batch, own = nested.nested_tensor(tensors(), requires_grad=True), tensors(requires_grad=True)

    def network(x: Any) -> Any:
        hidden = F.linear(torch.relu(x * 2) - x, WEIGHT).softmax(-1)
        return hidden.transpose(-1, -2) @ hidden

    torch.testing.assert_close([x.detach() for x in network(batch)], [network(x).detach() for x in own])
    network(batch).to_padded_tensor(0.0)[:, 0].sum().backward()
    sum(network(x)[0].sum() for x in own).backward()
    torch.testing.assert_close(list(batch.grad), [x.grad for x in own])


# -- layers -------------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_a_transformer_of_nested_sequences(layout: Any) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True, dtype=torch.float64)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(4, dtype=torch.float64))
    parts = tensors(SEQUENCES[:3], requires_grad=True)
    batch = nested.nested_tensor(tensors(SEQUENCES[:3]), layout=layout, requires_grad=True)
    result, expected = encoder(batch), [encoder(part[None])[0] for part in parts]
    torch.testing.assert_close([x.detach() for x in result], [x.detach() for x in expected])
    result.to_padded_tensor(0.0).square().sum().backward()
    gradients = [parameter.grad for parameter in encoder.parameters()]
    encoder.zero_grad()
    sum(x.square().sum() for x in expected).backward()
    torch.testing.assert_close([*gradients, *batch.grad], [p.grad for p in encoder.parameters()] + [x.grad for x in parts])
    with pytest.raises(AssertionError, match="need_weights was True"):
        layer.self_attn(batch, batch, batch)


def test_the_encoder_leaves_padding_out() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dtype=torch.float64)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()
    batch = batch_of(SEQUENCES[:3], requires_grad=False)
    whole = batch.to_padded_tensor(0.0)
    padding = torch.arange(5)[None] >= batch.offsets().diff()[:, None]
    with torch.no_grad():
        torch.testing.assert_close(encoder(batch).to_padded_tensor(0.0), encoder(whole, src_key_padding_mask=padding))
