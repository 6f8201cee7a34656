"""Small kernels for tests: built for any class of processor that this machine runs, and called directly, without pool and cache."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from flambeau.kernels.compiler import image
from flambeau.kernels.compiler.build import source_of
from flambeau.kernels.compiler.language import ELEMENTS, Builder, Value
from flambeau.kernels.compiler.target import AVX2, AVX512, PLAIN, Target, host

RUNNABLE = [t for t in (AVX512, AVX2, PLAIN) if t.triple == host().triple and t.width <= host().width] or [host()]
DTYPES = {element: dtype for dtype, element in ELEMENTS.items()} | {"b1": np.dtype(bool)}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def build(generator: Callable[..., None], *specification: Any, target: Target) -> Callable[..., None]:
    """``run(first, last, *arguments)`` for a kernel written by ``generator``."""
    k = source_of(generator, specification, target)
    address = image.load(image.link(image.compile_object(k.text(), target), k.name))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
    pack = struct.Struct("=" + k.slots).pack

    def run(first: int, last: int, *arguments: Any) -> None:
        assert not call(pack(*arguments), first, last, id(np.ndarray))

    return run


def apply(function: Callable[..., Any], *arrays: np.ndarray, target: Target, lanes: int = 0, elements: Any = None) -> list[np.ndarray]:
    """What ``function(k, *values)`` makes of arrays of equal length, element by element; stored as ``elements`` where these are given."""
    made_elements: list[str] = []

    def kernel(k: Builder) -> None:
        sources, table, n = [k.array() for _ in arrays], k.array(), k.integer()
        memory = [ELEMENTS[array.dtype] for array in arrays]
        width = lanes or min(k.lanes(element) for element in memory)

        def step(i: Value, mask: Value | None) -> None:
            results = function(k, *[k.load(source, i, element, width, mask) for source, element in zip(sources, memory, strict=True)])
            made_elements[:] = elements or [ELEMENTS[DTYPES[result.element]] for result in results]
            for place, (value, element) in enumerate(zip(results, made_elements, strict=True)):
                k.store(k.splat(value, width), k.data_of(k.load(table, place, "i64")), i, element, mask)

        k.for_chunks(lambda _: k.vector_loop(0, n, width, step))

    run = build(kernel, target=target)
    outputs = [np.empty(arrays[0].size, DTYPES[element]) for element in made_elements]
    table = np.array([id(output) for output in outputs], np.int64)  # which lives until the kernel has run
    run(0, 1, *map(id, arrays), id(table), arrays[0].size)
    return outputs


def samples(element: str, count: int, seed: int = 0) -> np.ndarray:
    """Random numbers of an element type with its special values among them."""
    rng, dtype = np.random.default_rng(seed), DTYPES[element]
    if element in ("b8", "b1"):
        return rng.random(count) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        special = np.array([0, 1, limits.max, limits.min, limits.max - 1, limits.max // 2 + 1], dtype)
        plain = rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
    else:
        special = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.5, 65504.0], dtype)
        plain = (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).astype(dtype)
    return np.where(rng.random(count) < 0.3, rng.choice(special, count), plain)
