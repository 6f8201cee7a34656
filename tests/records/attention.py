"""Attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .record import FLOATS, Error, Record, call

Array = np.ndarray


def _operands(make: Any, *, lead: tuple[int, ...] = (2, 3), heads: tuple[int, ...] | None = None, width: int = 5) -> tuple[Array, ...]:
    return make(*lead, 4, 5), make(*(heads or lead), 6, 5), make(*(heads or lead), 6, width)


def _samples(make: Any) -> list:
    padding = np.ones((2, 1, 1, 6), bool)
    padding[1, ..., 3:] = False
    nothing = np.ones((4, 6), bool)
    nothing[2] = False  # a row that sees no key
    return [
        call(*_operands(make)),
        call(*_operands(make, width=3), is_causal=True),
        call(*_operands(make), padding),
        call(*_operands(make), nothing, scale=0.7),
        call(*_operands(make, lead=(2, 1), heads=(3,)), make(2, 1, 4, 6)),
        call(*_operands(make, lead=()), make(4, 1)),
        call(*_operands(make, lead=()), make(6)),
        call(*_operands(make, lead=(2, 6), heads=(2, 3)), make(6, 4, 6), enable_gqa=True),
        call(*_operands(make, lead=(2, 3), heads=(1, 1)), enable_gqa=True, is_causal=True),
        call(make(3, 4, 5), make(3, 6, 5), make(1, 6, 5), enable_gqa=True),
        call(make(2, 4, 5), make(2, 0, 5), make(2, 0, 5)),
        call(make(2, 7, 5), make(2, 3, 5), make(2, 3, 2), is_causal=True),
    ]


def _reference(query: Array, key: Array, value: Array, attn_mask: Any = None, **options: Any) -> Array:
    """By definition, with the matrix of all scores."""
    scale, is_causal = options.get("scale"), options.get("is_causal")
    if options.get("enable_gqa"):
        key, value = (np.repeat(array, query.shape[-3] // array.shape[-3], -3) for array in (key, value))
    scores = query @ key.swapaxes(-1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = np.tri(*scores.shape[-2:], dtype=bool)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    if not scores.size:
        return np.zeros((*scores.shape[:-1], value.shape[-1]), query.dtype)
    top = scores.max(-1, keepdims=True)
    exponentials = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / np.where(total, total, 1) @ value


def _heads(make: Any) -> list:
    def small(*shape: int) -> Array:
        """Weights as they are initialised, so that scores stay near 1 and gradients well conditioned."""
        return make(*shape, low=-0.5, high=0.5)

    def weights(*, separate: bool = False, bias: bool = True) -> tuple[Any, ...]:
        first = None if separate else small(12, 4)
        return first, make(12) if bias else None

    def last() -> tuple[Array, Array]:
        return small(4, 4), make(4)

    above = np.triu(np.ones((3, 5), bool), 2)
    padding = np.zeros((2, 5), bool)
    padding[1, 3:] = True
    own = {"use_separate_proj_weight": True, "q_proj_weight": small(4, 4), "k_proj_weight": small(4, 3), "v_proj_weight": small(4, 2)}
    return [
        call(make(3, 2, 4), make(5, 2, 4), make(5, 2, 4), 4, 2, *weights(), None, None, False, 0.0, *last()),
        call(make(3, 4), make(5, 4), make(5, 4), 4, 2, *weights(bias=False), None, None, False, 0.0, *last(), need_weights=False),
        call(
            *(make(3, 2, 4), make(5, 2, 4), make(5, 2, 4), 4, 2, *weights(), make(1, 1, 4), make(1, 1, 4), True, 0.3, *last()),
            training=False,
            attn_mask=above,
            key_padding_mask=padding,
            average_attn_weights=False,
        ),
        call(make(3, 2, 4), make(5, 2, 3), make(5, 2, 2), 4, 2, *weights(separate=True), None, None, False, 0.0, *last(), **own),
        call(
            *(make(3, 2, 4), make(5, 2, 4), make(5, 2, 4), 4, 2, *weights(), None, None, False, 0.0, *last()),
            static_k=make(4, 6, 2),
            static_v=make(4, 6, 2),
        ),
    ]


def _of_heads(query: Array, key: Array, value: Array, width: int, heads: int, *rest: Any, **options: Any) -> tuple[Any, Any]:
    """By definition, head by head and sequence by sequence."""
    weight, bias, bias_k, bias_v, zero, _, last_weight, last_bias = rest
    batched = query.ndim == 3
    query, key, value = (array if batched else array[:, None] for array in (query, key, value))
    length, batch = query.shape[:2]
    weights = np.split(weight, 3) if weight is not None else [options[f"{name}_proj_weight"] for name in "qkv"]
    biases = np.split(bias, 3) if bias is not None else (0, 0, 0)
    q, k, v = (array @ w.T + b for array, w, b in zip((query, key, value), weights, biases, strict=True))
    mask = np.zeros((batch, length, key.shape[0]))
    for given in (options.get("attn_mask"), options.get("key_padding_mask")):
        if given is not None:
            mask[np.broadcast_to(given if len(given) == length else given[:, None], mask.shape)] = -np.inf
    if bias_k is not None:
        k, v = (np.concatenate([a, np.repeat(b, batch, 1)]) for a, b in ((k, bias_k), (v, bias_v)))
    if zero:
        k, v = (np.concatenate([a, np.zeros_like(a[:1])]) for a in (k, v))
    if "static_k" in options:  # (batch * heads, positions, width of a head)
        k, v = (options[name].reshape(batch, heads, -1, width // heads).transpose(2, 0, 1, 3) for name in ("static_k", "static_v"))
    q, k, v = (a.reshape(a.shape[0], batch, heads, width // heads) for a in (q, k, v))
    scores = np.einsum("lnhe,snhe->nhls", q, k) / math.sqrt(width // heads)
    scores[..., : mask.shape[-1]] += mask[:, None] if mask.any() else 0
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    shares = exponentials / exponentials.sum(-1, keepdims=True)
    result = np.einsum("nhls,snhe->lnhe", shares, v).reshape(length, batch, width) @ last_weight.T + last_bias
    shares = shares.mean(1) if options.get("average_attn_weights", True) else shares
    shares = shares if batched else shares[0]
    return result if batched else result[:, 0], shares if options.get("need_weights", True) else None


RECORDS = [
    Record(
        "nn.functional.multi_head_attention_forward",
        _heads,
        _of_heads,
        dtypes=("float32", "float64"),
        errors=(
            Error(lambda make: call(make(2), *_heads(make)[0].args[1:]), AssertionError, "unbatched 2D or batched 3D"),
            Error(lambda make: call(*_heads(make)[0].args[:3], 6, *_heads(make)[0].args[4:]), AssertionError, "embedding dimension"),
            Error(lambda make: call(*_heads(make)[0].args, is_causal=True), RuntimeError, "Need attn_mask"),
        ),
        notes="training, dropout and masks are tested against PyTorch in tests/nn/test_transformer.py",
    ),
    Record(
        "nn.functional.scaled_dot_product_attention",
        _samples,
        _reference,
        dtypes=FLOATS,
        errors=(
            Error(lambda make: call(make(2, 3), make(2, 3), make(2, 3).astype("float64")), RuntimeError, "same dtype"),
            Error(lambda make: call(make(3), make(2, 3), make(2, 3)), RuntimeError, "at least 2 dimensional"),
            Error(lambda make: call(make(2, 3), make(2, 4), make(2, 3)), RuntimeError, "Expected size"),
            Error(lambda make: call(make(2, 3), make(2, 3), make(3, 3)), RuntimeError, "Expected size"),
            Error(lambda make: call(make(2, 2, 3), make(3, 2, 3), make(3, 2, 3)), RuntimeError, "must match the size"),
            Error(lambda make: call(make(2, 3), make(2, 3), make(2, 3), make(3, 2)), RuntimeError, "must match the size"),
            Error(lambda make: call(make(2, 3), make(2, 3), make(2, 3), make(1, 2, 2)), RuntimeError, "match the broadcast shape"),
            Error(lambda make: call(make(2, 3), make(2, 3), make(2, 3), make(2, 2).astype("float64")), RuntimeError, "attn_mask dtype"),
            Error(lambda make: call(make(2, 3), make(2, 3), make(2, 3), make(2, 2), is_causal=True), RuntimeError, "is_causal=True"),
            Error(lambda make: call(make(2, 3), make(2, 3), make(2, 3), dropout_p=1.5), RuntimeError, "between 0 and 1"),
            Error(lambda make: call(make(3, 2, 3), make(2, 2, 3), make(2, 2, 3), enable_gqa=True), RuntimeError, "must divide"),
            Error(lambda make: call(make(2, 3), make(2, 3), make(2, 3)), NotImplementedError, "not implemented", dtype="complex64"),
            Error(lambda make: call(make(2, 3), make(2, 3), make(2, 3)), RuntimeError, "expected scalar type", dtype="int64"),
        ),
        notes="dropout is tested against PyTorch's numbers in tests/nn/test_attention.py",
    ),
]
