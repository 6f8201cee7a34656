"""Operands of recurrent layers: whether kernels take them, the rows of their steps, and the programs of cells."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..compiler.expression import Program, trace
from ..compiler.language import FLOATS


@lru_cache(maxsize=64)
def table_of(sizes: tuple[int, ...], reverse: bool) -> np.ndarray:
    """Of each step in the order of computation: where its rows begin and how many there are, and the same of the step before it."""
    counts = np.array(sizes, np.int64)
    steps = np.stack([np.cumsum(counts) - counts, counts], 1)
    if reverse:
        steps = steps[::-1]
    return np.ascontiguousarray(np.concatenate([steps, np.concatenate([np.zeros((1, 2), np.int64), steps[:-1]])], 1))


@lru_cache(maxsize=64)
def program_of(formula: Callable[..., Any], count: int, dtype: np.dtype) -> Program:
    return trace(formula, [None] * count, [dtype] * count)


def sizes_of(input: np.ndarray, sizes: tuple[int, ...] | None) -> tuple[int, ...]:
    return (input.shape[1],) * input.shape[0] if sizes is None else sizes


def fit(cell: Any, sizes: tuple[int, ...], states: tuple[np.ndarray, ...], input: np.ndarray, weight_ih: Any, weight_hh: Any) -> bool:
    """Whether shapes and dtypes of a layer's operands are those that its kernels take; the reference says what is wrong with others."""
    dtype, hidden = input.dtype, states[0].shape[-1]
    return (
        dtype in FLOATS
        and sum(sizes) * input.shape[-1] == input.size
        and weight_ih.dtype == weight_hh.dtype == dtype
        and weight_ih.shape == (cell.gates * hidden, input.shape[-1])
        and weight_hh.shape == (cell.gates * hidden, hidden)
        and all(state.dtype == dtype and state.shape in ((sizes[0], hidden), (1, sizes[0], hidden)) for state in states)
    )
