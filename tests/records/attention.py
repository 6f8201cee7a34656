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


RECORDS = [
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
        tolerance={"bfloat16": (3e-2, 3e-2)},
        notes="dropout is tested against PyTorch's numbers in tests/nn/test_attention.py",
    ),
]
