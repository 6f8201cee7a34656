"""``torch.onnx.ops``: what the operators compute, and the nodes that they become. The numbers of attention are written out by hand."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim, export, load, save
from flambeau.onnx.ops import aten_decompositions, attention, rotary_embedding, symbolic, symbolic_multi_out


def heads(heads: int, length: int, size: int) -> Any:
    return torch.randn(2, heads, length, size)


def by_hand(q: Any, k: Any, v: Any, mask: Any, softcap: float) -> list[Any]:
    k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
    stages = [q @ k.mT / math.sqrt(q.shape[-1])]
    stages.append(stages[0] + mask)
    stages.append(softcap * (stages[1] / softcap).tanh() if softcap else stages[1])
    stages.append(stages[2].softmax(-1))
    return [stages[3] @ v, *stages]


@pytest.mark.parametrize("softcap", [0.0, 0.7])
def test_attention_is_its_stages(softcap: float) -> None:
    torch.manual_seed(0)
    q, k, v, mask = heads(4, 3, 8), heads(2, 5, 8), heads(2, 5, 6), torch.randn(3, 5)
    result, *stages = by_hand(q, k, v, mask, softcap)
    for mode, stage in enumerate(stages):
        found = attention(q, k, v, mask, softcap=softcap, qk_matmul_output_mode=mode)
        for a, b in zip(found, (result, k, v, stage), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, check_stride=False)
    flat = [each.transpose(1, 2).flatten(2) for each in (q, k, v)]
    of_flat = attention(*flat, mask, softcap=softcap, q_num_heads=4, kv_num_heads=2)[0]
    torch.testing.assert_close(of_flat, result.transpose(1, 2).flatten(2), rtol=1e-5, atol=1e-6, check_stride=False)


def test_rows_that_see_no_key_are_zero_in_the_plain_form_alone() -> None:
    x, mask = torch.ones(1, 2, 3, 4), torch.tensor([[True], [False], [True]]).expand(3, 3)
    assert torch.equal(attention(x, x, x, mask)[0], x * mask[:, :1])
    for options in ({"qk_matmul_output_mode": 1}, {"softmax_precision": 1}):
        assert torch.equal(attention(x, x, x, mask, **options)[0].isnan()[0, 0], ~mask[:, :1].expand(3, 4))


def test_attention_looks_at_the_past_and_not_ahead() -> None:
    torch.manual_seed(0)
    q, k, v, past_k, past_v = heads(2, 3, 4), heads(2, 3, 4), heads(2, 3, 4), heads(2, 2, 4), heads(2, 2, 4)
    whole_k, whole_v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    looks = torch.ones(3, 5, dtype=torch.bool).tril()
    found = attention(q, k, v, None, past_k, past_v, is_causal=True)
    masked = by_hand(q, whole_k, whole_v, torch.where(looks, 0.0, -math.inf), 0.0)
    for a, b in zip(found, (masked[0], whole_k, whole_v, masked[1]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, check_stride=False)
    torch.testing.assert_close(attention(q, k, v, looks, past_k, past_v)[0], found[0])


@pytest.mark.parametrize("interleaved", [False, True])
def test_pairs_are_turned(interleaved: bool) -> None:
    torch.manual_seed(0)
    x, angles = heads(3, 4, 6), torch.randn(9, 2)
    places = torch.tensor([[0, 1, 2, 3], [5, 6, 7, 8]])
    found = rotary_embedding(x, angles.cos(), angles.sin(), places, interleaved=interleaved, rotary_embedding_dim=4)
    pairs = x[..., :4].unflatten(-1, (2, 2)) if interleaved else x[..., :4].unflatten(-1, (2, 2)).mT
    turned = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones(2, 1, 4, 2), angles[places][:, None])
    back = torch.view_as_real(turned) if interleaved else torch.view_as_real(turned).mT
    torch.testing.assert_close(found, torch.cat([back.flatten(-2), x[..., 4:]], -1), rtol=1e-5, atol=1e-6)
    own = rotary_embedding(x, angles[places].cos(), angles[places].sin(), interleaved=interleaved, rotary_embedding_dim=4)
    torch.testing.assert_close(own, found)
    flat = x.transpose(1, 2).flatten(2)
    given = {"interleaved": interleaved, "rotary_embedding_dim": 4}
    again = rotary_embedding(flat, angles.cos(), angles.sin(), places, num_heads=3, **given)
    torch.testing.assert_close(again, found.transpose(1, 2).flatten(2))


def test_shapes_that_do_not_fit_are_errors() -> None:
    x, cache = heads(4, 3, 8), torch.ones(9, 4)
    flat = x.flatten(1, 2)
    places = torch.zeros(2, 3, dtype=torch.int64)
    for call in (
        lambda: attention(x, x, x, torch.ones(3, 3), is_causal=True),
        lambda: attention(x[:, :3], x[:, :2], x[:, :2]),
        lambda: attention(flat, flat, flat),
        lambda: attention(x[0, 0], x[0, 0], x[0, 0]),
        lambda: attention(x, x, x, softmax_precision=99),
        lambda: rotary_embedding(flat, cache, cache, places),
        lambda: rotary_embedding(x, cache, cache),
        lambda: rotary_embedding(x, cache[:, :2], cache[:, :2], places),
        lambda: rotary_embedding(x, cache, cache, places[:1]),
        lambda: rotary_embedding(x, cache[None, :3], cache[None, :3], places),
    ):
        with pytest.raises(RuntimeError):
            call()


def test_any_node_is_zeros_and_wrong_ones_are_errors() -> None:
    x = torch.ones(2)
    assert symbolic("mine::Op", [x, None], {"k": [1, 2]}, dtype=7, shape=[3]).tolist() == [0, 0, 0]
    for attribute in (object(), [], [1, "a"]):
        with pytest.raises(ValueError):
            symbolic("Op", [x], {"k": attribute}, dtype=torch.float32, shape=[1])
    with pytest.raises(RuntimeError, match="99 is invalid"):
        symbolic("Op", [x], dtype=99, shape=[1])
    with pytest.raises(RuntimeError, match="Number of shapes"):
        symbolic_multi_out("Op", [x], dtypes=[1, 1], shapes=[[1]])


class _Turned(nn.Module):
    def forward(self, q: Any, k: Any, mask: Any, cos: Any, sin: Any, places: Any) -> Any:
        return attention(rotary_embedding(q, cos, sin, places), k, k, mask)[:3]


def _inputs(batch: int, length: int) -> Any:
    tensors = [torch.randn(batch, n, length, 8) for n in (4, 2)]
    return *tensors, torch.randn(length, length), torch.randn(16, 4), torch.randn(16, 4), torch.arange(length).repeat(batch, 1)


def test_operators_are_nodes_of_models() -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    dims, both = {0: Dim.DYNAMIC, 2: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    program = torch.onnx.export(_Turned(), _inputs(2, 3), dynamic_shapes=(dims, dims, both, None, None, both), opset_version=23)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert [node.op_type for node in program.model_proto.graph.node] == ["RotaryEmbedding", "Attention"]
    for given in (_inputs(2, 3), _inputs(3, 5)):
        for a, b in zip(program(*given), _Turned()(*given), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, check_stride=False)
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="added in version 23"):
        torch.onnx.export(_Turned(), _inputs(2, 3), opset_version=18)
    divided = export(_Turned(), _inputs(2, 3)).run_decompositions(aten_decompositions())
    torch.testing.assert_close(divided.module()(*given[:0], *_inputs(2, 3))[0].shape, torch.Size([2, 4, 3, 8]))
    torch.onnx.export(divided, opset_version=18)


class _Nodes(nn.Module):
    def forward(self, x: Any) -> Any:
        attributes = {"k": 1, "f": 2.0, "s": "w", "l": [1, 2], "b": True, "sl": ["a", "b"]}
        made = symbolic("mine::Op", [x, None], attributes, dtype=torch.float32, shape=[x.shape[0], 3], version=4, metadata_props={"m": "n"})
        halves = symbolic_multi_out("Split", [x + 1], {"num_outputs": 2}, dtypes=(torch.float32, torch.float32), shapes=([1], [1]))
        return made, halves, symbolic("Relu", [x - 2], dtype=1, shape=x.shape)


def test_any_node_may_be_written() -> None:
    onnx = pytest.importorskip("onnx")
    model = torch.onnx.export(_Nodes(), (torch.ones(2),), dynamic_shapes=({0: Dim("n")},)).model_proto
    node = model.graph.node[0]
    found = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    assert found == {"k": 1, "f": 2.0, "s": b"w", "l": [1, 2], "b": 1, "sl": [b"a", b"b"]}
    assert node.domain == "mine" and {each.domain: each.version for each in model.opset_import}["mine"] == 4
    assert [(each.key, each.value) for each in node.metadata_props] == [("m", "n")]
    assert [each.op_type for each in model.graph.node if not each.domain] == ["Add", "Split", "Sub", "Relu"]
    program = export(_Nodes(), (torch.ones(2),))
    file = io.BytesIO()
    save(program, file)
    assert str(load(io.BytesIO(file.getvalue())).graph) == str(program.graph)
