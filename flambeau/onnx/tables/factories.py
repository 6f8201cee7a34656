"""Rows of operations that make tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.checks import SymInt
from ..builder import ELEMENT_TYPES, Builder, Value
from . import ROWS, row


def filled(b: Builder, value: Any, sizes: Value) -> Value:
    """A tensor of one number."""
    if isinstance(value, Value):
        return b.expand(b.cast(value, b.dtype), sizes)
    if not any(isinstance(size, SymInt) for size in b.shape) and int(np.prod(b.shape, dtype=np.int64)) <= 16:
        return b.constant(np.full(b.shape, value), b.dtype)
    return b.expand(b.constant(value, b.dtype), sizes)


def _of_sizes(value: Any) -> Callable[..., Any]:
    return lambda b, sizes, *rest, **options: filled(b, value, b.sizes(sizes))


def _like(value: Any) -> Callable[..., Any]:
    return lambda b, x, **options: filled(b, value, b.shape_of(x))


def _new(value: Any) -> Callable[..., Any]:
    return lambda b, x, sizes, **options: filled(b, value, b.sizes(sizes))


for _name, _value in {"zeros": 0, "ones": 1, "empty": 0}.items():
    ROWS[_name], ROWS[f"{_name}_like"], ROWS[f"new_{_name}"] = _of_sizes(_value), _like(_value), _new(_value)


@row("full")
def _full(b: Builder, sizes: Any, value: Any, **options: Any) -> Value:
    return filled(b, value, b.sizes(sizes))


@row("full_like")
def _full_like(b: Builder, x: Value, value: Any, **options: Any) -> Value:
    return filled(b, value, b.shape_of(x))


@row("new_full")
def _new_full(b: Builder, x: Value, sizes: Any, value: Any, **options: Any) -> Value:
    return filled(b, value, b.sizes(sizes))


@row("scalar_tensor")
def _scalar_tensor(b: Builder, value: Any, **options: Any) -> Value:
    return b.as_value(value, b.dtype)


@row("arange")
def _arange(b: Builder, *bounds: Any, **options: Any) -> Value:
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1) if len(bounds) == 2 else bounds
    parts = [b.as_value(bound, b.dtype) for bound in (start, end, step)]
    return b.op("Range", *parts, dtype=b.dtype, shape=b.shape)


@row("eye")
def _eye(b: Builder, n: Any, m: Any = None, **options: Any) -> Value:
    kind = dtypes.int64 if b.dtype is dtypes.bool_ else b.dtype
    zeros = b.expand(b.constant(0, kind), b.sizes([n, n if m is None else m]))
    return b.cast(b.op("EyeLike", zeros), b.dtype)


@row("linspace")
def _linspace(b: Builder, start: Any, end: Any, steps: int, **options: Any) -> Value:
    if not isinstance(start, Value) and not isinstance(end, Value):
        return b.constant(np.linspace(start, end, steps), b.dtype)
    exact = b.dtype if b.dtype.is_floating_point else dtypes.float64
    first, last = b.as_value(start, exact), b.as_value(end, exact)
    shares = np.linspace(0, 1, steps)
    parts = [b.op("Mul", each, b.constant(share, exact), shape=b.shape) for each, share in ((first, 1 - shares), (last, shares))]
    return b.cast(b.op("Add", *parts), b.dtype)


# ---- random numbers
def _random(kind: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def of_sizes(b: Builder, sizes: Any, **options: Any) -> Value:
        return like(b, b.expand(b.constant(0, b.dtype), b.sizes(sizes)))

    def like(b: Builder, x: Value, **options: Any) -> Value:
        made: Value = b.op(kind, x, dtype=b.dtype, dtype_=ELEMENT_TYPES[b.dtype.name])
        return made

    return of_sizes, like


ROWS["randn"], ROWS["randn_like"] = _random("RandomNormalLike")
ROWS["rand"], ROWS["rand_like"] = _random("RandomUniformLike")
ROWS["bernoulli"] = lambda b, x, **options: b.op("Bernoulli", x)


# ---- sizes
@row("sym_size")
def _sym_size(b: Builder, x: Value, dim: int) -> Value:
    axis = dim % x.rank
    return b.squeeze(b.op("Shape", x, start=axis, end=axis + 1, dtype=dtypes.int64, shape=(1,)), [0])
