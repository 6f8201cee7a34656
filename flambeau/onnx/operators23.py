"""Operators of ONNX's in ``torch.ops.onnx`` and ``torch.ops.onnx_symbolic``: what they compute, and the nodes that they become.

torch.ops.onnx.Attention.opset23            computed here in parts, one node of a model
torch.ops.onnx_symbolic._symbolic           any node: zeros here
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core import dtype as dtypes
from ..core.calls.registry import resolve
from ..library import Library
from .builder import ELEMENT_TYPES, Builder, Value
from .errors import SymbolicValueError, UnsupportedOperatorError

FIRST_OPSET = 23
# Dtypes that ONNX numbers, beside those of ``builder``.
_NUMBERS = {
    **ELEMENT_TYPES, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20, "uint4": 21, "int4": 22,
    "float4_e2m1fn_x2": 23,
}  # fmt: skip
DTYPES = {number: dtypes.ALL[name] for name, number in _NUMBERS.items() if name in dtypes.ALL}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def _torch(name: str, *args: Any, **options: Any) -> Any:
    return resolve("torch", name)(*args, **options)


def _split_heads(x: Any, heads: int) -> Any:
    """``(batch, length, heads * size)`` as ``(batch, heads, length, size)``."""
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


# ---- rotary embeddings
def _angles(x: Any, cos_cache: Any, sin_cache: Any, position_ids: Any, half: int) -> tuple[Any, Any]:
    """Cosines and sines for each place: ``(batch, 1, length, half)``."""
    batch, length = x.shape[0], x.shape[2]
    shapes = f"Received cos_cache shape {cos_cache.shape}, sin_cache shape {sin_cache.shape}"
    if position_ids is None:
        _require(cos_cache.dim() == sin_cache.dim() == 3, f"cos_cache/sin_cache must be 3D when position_ids is not provided. {shapes}")
        found = cos_cache, sin_cache
    else:
        _require(cos_cache.dim() == sin_cache.dim() == 2, f"cos_cache/sin_cache must be 2D when position_ids is provided. {shapes}")
        _require(position_ids.dim() == 2, f"position_ids must be 2D when provided. Received shape {position_ids.shape}")
        for dim, (word, size) in enumerate((("first dim (batch)", batch), ("second dim (sequence)", length))):
            place = f"x.shape[{(0, -2)[dim]}]"
            _require(
                position_ids.shape[dim] == size, f"position_ids {word} must match {place} ({size}). Received {position_ids.shape[dim]}"
            )
        found = cos_cache[position_ids], sin_cache[position_ids]
    for word, each in zip(("cos", "sin"), found, strict=True):
        _require(
            each.shape[0] == batch and each.shape[1] == length,
            f"{word} has shape {each.shape} but expected (batch={batch}, seq={length}, ...)",
        )
        _require(each.shape[-1] == half, f"Last dimension of {word} cache ({each.shape[-1]}) should match rotary_embedding_dim/2 ({half}).")
    return found[0].unsqueeze(1), found[1].unsqueeze(1)


def _rotary_embedding(
    x: Any,
    cos_cache: Any,
    sin_cache: Any,
    position_ids: Any = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Any:
    shape = x.shape
    if x.dim() == 3:
        _require(num_heads != 0, f"num_heads must be provided for 3D inputs. Received input tensor with shape {shape}")
        x = _split_heads(x, num_heads)
    _require(x.dim() == 4, f"x should be a 4D tensor by now. Received shape {x.shape}")
    size = rotary_embedding_dim or x.shape[-1]
    cos, sin = _angles(x, cos_cache, sin_cache, position_ids, size // 2)
    turned, rest = x[..., :size], x[..., size:]
    first, second = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    parts = [cos * first - sin * second, sin * first + cos * second]
    made = _torch("stack", parts, -1).flatten(-2) if interleaved else _torch("cat", parts, -1)
    made = made if not rest.shape[-1] else _torch("cat", [made, rest], -1)
    return made.transpose(1, 2).reshape(shape) if len(shape) == 3 else made


# ---- attention
def _mask_of(scores: Any, attn_mask: Any, is_causal: bool) -> Any:
    """The summand of the scores; None where there is none."""
    if is_causal:
        _require(attn_mask is None, "Cannot use both is_causal and attn_mask")
        attn_mask = scores.new_ones(scores.shape[-2:], dtype=dtypes.bool_).tril()
    if attn_mask is None or attn_mask.dtype is not dtypes.bool_:
        return attn_mask
    return _torch("zeros_like", attn_mask, dtype=scores.dtype).masked_fill(~attn_mask, -math.inf)


def _scored(query: Any, key: Any, scale: float | None) -> Any:
    """Products of queries and keys, each scaled by the square root, so that neither overflows."""
    root = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    return (query * root) @ (key * root).transpose(-2, -1)


def _attention(
    Q: Any,
    K: Any,
    V: Any,
    attn_mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    is_flat = Q.dim() == 3
    if is_flat:
        _require(q_num_heads != 0 and kv_num_heads != 0, "q_num_heads and kv_num_heads must be provided for 3D inputs")
        Q, K, V = _split_heads(Q, q_num_heads), _split_heads(K, kv_num_heads), _split_heads(V, kv_num_heads)
    _require(Q.dim() == K.dim() == V.dim() == 4, "Q, K, and V should be 4D tensors by now")
    present_key = K.clone() if past_key is None else _torch("cat", [past_key, K], 2)
    present_value = V.clone() if past_value is None else _torch("cat", [past_value, V], 2)
    heads, of_keys = Q.shape[1], K.shape[1]
    _require(heads % of_keys == 0, f"q_num_heads ({heads}) must be divisible by kv_num_heads ({of_keys}) for GQA")
    key, value = (each.repeat_interleave(heads // of_keys, 1) if heads != of_keys else each for each in (present_key, present_value))
    stages = [_scored(Q, key, scale)]
    mask = _mask_of(stages[0], attn_mask, is_causal)
    stages.append(stages[-1] if mask is None else stages[-1] + mask)
    stages.append(softcap * _torch("tanh", stages[-1] / softcap) if softcap > 0 else stages[-1])
    precise = stages[-1] if softmax_precision is None else stages[-1].to(dtype_of(softmax_precision))
    # PyTorch's plain form is its own attention: rows of which no key is seen are 0 there, NaN in the other forms
    is_plain = softcap == 0 and qk_matmul_output_mode == 0 and softmax_precision is None
    stages.append((resolve("ops.aten", "_safe_softmax")(precise, -1) if is_plain else precise.softmax(-1)).to(stages[-1].dtype))
    result = stages[-1] @ value
    if is_flat:
        result = result.transpose(1, 2).flatten(2)
    shown = stages[qk_matmul_output_mode] if 0 <= qk_matmul_output_mode <= 3 else stages[0]
    return result, present_key, present_value, shown.clone()


def dtype_of(number: int) -> Any:
    """The dtype of a number of ONNX's.

    Raises:
        RuntimeError: none of a dtype.
    """
    if number not in DTYPES:
        raise RuntimeError(f"{number} is invalid as an ONNX data type. Valid values are {sorted(DTYPES)}")
    return DTYPES[number]


# ---- any node
def _symbolic(inputs: Any, op_type: str, onnx_dtype: int, *, shape: Any, **described: Any) -> Any:
    """Zeros. ``described``: what the node has."""
    device = next((each.device for each in inputs if each is not None), None)
    return _torch("zeros", list(shape), dtype=dtype_of(onnx_dtype), device=device)


def _symbolic_multi_out(inputs: Any, op_type: str, onnx_dtypes: Any, *, shapes: Any, **described: Any) -> Any:
    return [_symbolic(inputs, op_type, dtype, shape=shape) for dtype, shape in zip(onnx_dtypes, shapes, strict=True)]


_DESCRIBED = (
    "str[] attr_keys, str[] attr_types, int[][] attr_pos, int[] attr_ints, float[] attr_floats, str[] attr_strs, "
    'str[] metadata_props_keys, str[] metadata_props_values, str domain="", int? version=None'
)
_ONNX, _ANY = Library("onnx", "FRAGMENT"), Library("onnx_symbolic", "FRAGMENT")
_ONNX.define(
    "RotaryEmbedding.opset23(Tensor x, Tensor cos_cache, Tensor sin_cache, Tensor? position_ids=None, *, bool interleaved=False, "
    "SymInt num_heads=0, SymInt rotary_embedding_dim=0) -> Tensor"
)
_ONNX.define(
    "Attention.opset23(Tensor Q, Tensor K, Tensor V, Tensor? attn_mask=None, Tensor? past_key=None, Tensor? past_value=None, *, "
    "bool is_causal=False, SymInt kv_num_heads=0, SymInt q_num_heads=0, SymInt qk_matmul_output_mode=0, float? scale=None, "
    "float softcap=0., SymInt? softmax_precision=None) -> (Tensor, Tensor, Tensor, Tensor)"
)
_ANY.define(f"_symbolic(Tensor?[] inputs, str op_type, int onnx_dtype, *, SymInt[] shape, {_DESCRIBED}) -> Tensor")
_ANY.define(f"_symbolic_multi_out(Tensor?[] inputs, str op_type, int[] onnx_dtypes, *, SymInt[][] shapes, {_DESCRIBED}) -> Tensor[]")
for _library, _name, _compute in (
    (_ONNX, "RotaryEmbedding.opset23", _rotary_embedding),
    (_ONNX, "Attention.opset23", _attention),
    (_ANY, "_symbolic", _symbolic),
    (_ANY, "_symbolic_multi_out", _symbolic_multi_out),
):
    _library.impl(_name, _compute, "CompositeExplicitAutograd")
COMPUTED: dict[str, Callable[..., Any]] = {"RotaryEmbedding": _rotary_embedding, "Attention": _attention}


# ---- the nodes
def _check_opset(b: Builder) -> None:
    if b.opset < FIRST_OPSET:
        raise UnsupportedOperatorError(f"onnx::{b.name}", b.opset, FIRST_OPSET)


def _rotary_node(b: Builder, x: Value, cos: Value, sin: Value, positions: Value | None = None, **options: Any) -> Value:
    _check_opset(b)
    given: dict[str, Any] = {name: int(value) for name, value in options.items() if value}
    made: Value = b.op("RotaryEmbedding", x, cos, sin, positions, shape=b.shape, **given)
    return made


def _attention_node(b: Builder, *inputs: Any, **options: Any) -> list[Value]:
    _check_opset(b)
    places = ("Q", "K", "V", "attn_mask", "past_key", "past_value")
    values = [*inputs, *[options.pop(name, None) for name in places[len(inputs) :]]]
    given: dict[str, Any] = {name: int(value) if isinstance(value, bool) else value for name, value in options.items()}
    count = max([k + 1 for k in range(1, 4) if b.uses_part(k)], default=1)
    made = b.op("Attention", *values, count=count, **given)
    found = made if count > 1 else [made]
    for value, result in zip(found, b.result, strict=False):
        value.dtype, value.shape = result.dtype, tuple(result.shape)
    return [*found, *found[:1] * (4 - count)]


def _attributes(keys: Any, types: Any, places: Any, lists: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for key, kind, (start, end) in zip(keys, types, places, strict=True):
        values = list(lists[kind[0]][start:end])
        found[key] = values if len(kind) > 1 else values[0]
    return found


def _any_node(b: Builder, inputs: Any, op_type: str, dtype: Any, **options: Any) -> Any:
    lists = {kind: options[f"attr_{name}"] for kind, name in (("i", "ints"), ("f", "floats"), ("s", "strs"))}
    given = _attributes(options["attr_keys"], options["attr_types"], options["attr_pos"], lists)
    domain, version = options.get("domain", ""), options.get("version")
    if domain:
        b.domains.add(domain)
        given["domain"] = domain
        b.versions.setdefault(domain, version or 1)
    elif version is not None and version > b.opset:
        raise SymbolicValueError(f"{op_type} of operator set {version} is in no model of operator set {b.opset}", version)
    results = b.result if isinstance(b.result, (tuple, list)) else [b.result]
    made = b.op(op_type, *inputs, count=len(results), dtype=results[0].dtype, shape=results[0].shape, **given)
    for value, result in zip(made if len(results) > 1 else [made], results, strict=True):
        value.dtype, value.shape = result.dtype, tuple(result.shape)
    for key, value in zip(options["metadata_props_keys"], options["metadata_props_values"], strict=True):
        b.nodes[-1].metadata_props.add(key=key, value=value)
    return [made] if len(results) == 1 and b.result is results else made


NODES: dict[str, Callable[..., Any]] = {
    "onnx::RotaryEmbedding": _rotary_node,
    "onnx::Attention": _attention_node,
    "onnx_symbolic::_symbolic": _any_node,
    "onnx_symbolic::_symbolic_multi_out": _any_node,
}
