"""Bits of numbers: the exclusive or of all of them, and the signs of imaginary parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value
from ..compiler.memory import empty

_SPAN = 1 << 16  # elements of a chunk
_SIGN = -(1 << 63)


@kernel
def exclusive_or(k: Builder, element: str) -> None:
    """``partial[chunk]``: all elements of a chunk, as float64 or int64, combined bit by bit."""
    x, partial, n = k.array(), k.array(), k.integer()
    lanes = k.lanes("i64")

    def chunk(c: Value) -> None:
        def some(i: Value, mask: Value | None, total: Value) -> Value:
            value = k.load(x, i, element, lanes, mask)
            return total ^ (k.bits(k.cast(value, "f64")) if value.is_float else k.cast(value, "i64"))

        nothing = k.const(0, "i64", lanes)
        total = k.vector_loop(c * _SPAN, k.least((c + 1) * _SPAN, n), lanes, some, carried=(nothing,), unroll=4)
        k.store(k.fold(total, lambda a, b: a ^ b), partial, c, "i64")

    k.for_chunks(chunk)


@native("hash_tensor")
def hash_tensor(input: np.ndarray, dim: Any, keepdim: bool, mode: int) -> np.ndarray | None:
    """Over all dimensions of row-major memory."""
    element = ELEMENTS.get(input.dtype)
    if element not in ("f32", "f64", "i8", "i16", "i32", "i64", "u8") or len(dim) != input.ndim or not input.size:
        return None
    if not input.flags.c_contiguous:
        return None
    partial = np.empty(-(-input.size // _SPAN), np.int64)
    exclusive_or(element)(partial.size, id(input), id(partial), input.size)
    total = np.bitwise_xor.reduce(partial, keepdims=True).view(np.uint64)
    return total.reshape((1,) * input.ndim if keepdim else ())


@kernel
def conjugate(k: Builder, is_wide: bool) -> None:
    """Words of 64 bits: each complex number, or for ``is_wide`` each second one, with its highest bit turned."""
    x, result, n = k.array(), k.array(), k.integer()
    lanes = k.lanes("i64")
    signs = (k.indices(lanes, "i64") & 1) << 63 if is_wide else k.const(_SIGN, "i64", lanes)

    def some(i: Value, mask: Value | None) -> None:
        k.store(k.load(x, i, "i64", lanes, mask) ^ signs, result, i, "i64", mask)

    k.for_chunks(lambda c: k.vector_loop(c * _SPAN, k.least((c + 1) * _SPAN, n), lanes, some, unroll=2))


@native("_conj")
def conj(input: np.ndarray) -> np.ndarray | None:
    if input.dtype not in (np.complex64, np.complex128) or not input.flags.c_contiguous or not input.size:
        return None
    result = empty(input.shape, input.dtype)
    words = input.nbytes // 8
    conjugate(input.dtype == np.complex128)(-(-words // _SPAN), id(input), id(result), words)
    return result
