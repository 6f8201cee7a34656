"""Attention with programs for its scores and its mask: states of tiles, layouts, memory; ``flexible_attention_kernels.py`` has the kernels.

The states of tiles follow from those of a mask's own blocks, which are of other sizes and may be the same for all batches or heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..compiler.arguments import fields_of
from ..compiler.language import ELEMENTS
from ..compiler.memory import empty
from ..compiler.pool import pool
from ..compiler.target import current
from .attention import Layout, Plan, _layout, _operands, _table, _vectors
from .attention_kernels import TILE, OfOperands
from .flexible_attention_kernels import Scored, attend_scored, room_of, scored_slopes
from .microkernel import Scratch

__all__ = ["Blocks", "ScoredCall"]


class Blocks(NamedTuple):
    """The blocks of a mask: ``states`` (B or 1, H or 1, rows, columns) of bytes, 0 for nothing, 1 for some, 2 for all, and their sizes."""

    states: np.ndarray
    sizes: tuple[int, int]

    def are_whole(self, rows: int, columns: int) -> bool:
        """Whether no tile of that size lies in several blocks."""
        return all(
            count == 1 or not size % tile for count, size, tile in zip(self.states.shape[-2:], self.sizes, (rows, columns), strict=True)
        )

    def of_tiles(self, shape: tuple[int, int], tile: tuple[int, int]) -> np.ndarray:
        """The states of tiles of a matrix: of several blocks together, some where they differ."""
        states = self.states
        for axis, (length, size, width) in enumerate(zip(shape, self.sizes, tile, strict=True), start=states.ndim - 2):
            spans = [(start // size, (min(start + width, length) - 1) // size + 1) for start in range(0, length, width)]
            parts = [np.take(states, range(first, last), axis) for first, last in spans]
            least, most = (np.stack([reduce(part, axis=axis) for part in parts], axis) for reduce in (np.min, np.max))
            states = np.where(least == most, least, 1).astype(np.uint8)
        return states


class ScoredCall(NamedTuple):
    """One call's programs and what they look into.

    Attributes:
        scored: for the kernels.
        captured: the arrays, in order.
        blocks: of the mask; None where all is looked at.
        heads: of queries.
    """

    scored: Scored
    captured: tuple[np.ndarray, ...]
    blocks: Blocks | None
    heads: int

    def words(self) -> np.ndarray:
        """Address, sizes and strides of each captured array, one after the other."""
        found: list[int] = []
        for array in self.captured:
            found += [array.ctypes.data, *array.shape, *[step // array.itemsize for step in array.strides]]
        return np.array(found, np.int64)


def tile_sizes(dtype: np.dtype, length: int, keys: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rows and columns of a tile, forward and backward."""
    return (_block(dtype, length), TILE), (TILE, _block(dtype, keys))


def _lanes(dtype: np.dtype) -> int:
    return current().width // dtype.itemsize


def _registers(dtype: np.dtype, count: int) -> int:
    return _vectors(count, _lanes(dtype), 4 if current().registers > 16 else 2)


def _block(dtype: np.dtype, count: int) -> int:
    return _lanes(dtype) * _registers(dtype, count)


@lru_cache(maxsize=256)
def _plan_forward(dtype: np.dtype, layouts: tuple[Layout, ...], scored: Scored, heads: int, tiles: int, scale: float, threads: int) -> Plan:
    (_, by_query), (key_shape, by_key), (_, by_value), (out_shape, by_out), *_ = layouts
    lead, (length, out_depth), (keys, depth) = out_shape[:-2], out_shape[-2:], key_shape[-2:]
    vectors, lanes = _registers(dtype, length), _lanes(dtype)
    blocks = -(-length // (lanes * vectors))
    size = room_of(depth, out_depth, length, lanes, vectors)[0]
    scratch = Scratch(size + 64, dtype)
    run = attend_scored(ELEMENTS[dtype], vectors, scored).bind(
        math.prod(lead) * blocks, table=_table(layouts, lead), pieces=scratch.pieces, size=size, blocks=blocks, length=length, keys=keys,
        depth=depth, out_depth=out_depth, by_query=by_query[-2], by_key=by_key[-2], by_value=by_value[-2], by_out=by_out[-2],
        scale=scale, heads=heads, tiles=tiles,
    )  # fmt: skip
    return Plan(run, scratch)


@lru_cache(maxsize=256)
def _plan_backward(
    dtype: np.dtype, layouts: tuple[Layout, ...], scored: Scored, heads: int, tiles: int, scale: float, threads: int
) -> Plan:
    key_shape, out_shape = layouts[2][0], layouts[0][0]
    lead, (length, out_depth), (keys, depth) = out_shape[:-2], out_shape[-2:], key_shape[-2:]
    vectors, lanes = _registers(dtype, keys), _lanes(dtype)
    size = room_of(depth, out_depth, length, lanes, vectors)[1]
    scratch = Scratch(size + 64, dtype)
    by = dict(zip(fields_of(OfOperands), [strides[-2] for _, strides in layouts], strict=False))
    run = scored_slopes(ELEMENTS[dtype], vectors, scored).bind(
        math.prod(lead), table=_table(layouts, lead), pieces=scratch.pieces, size=size, length=length, keys=keys, depth=depth,
        out_depth=out_depth, by=OfOperands(**{"mask": 0, **by}), scale=scale, heads=heads, tiles=tiles,
    )  # fmt: skip
    return Plan(run, scratch)


def _states(call: ScoredCall, lead: tuple[int, ...], shape: tuple[int, int], tile: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """The table of states, its heads as ``lead`` has them; empty where there is none."""
    if call.blocks is None:
        return ()
    states = call.blocks.of_tiles(shape, tile)
    if len(lead) == 3 and states.shape[1] != 1:  # heads that share keys: groups of them
        states = states.reshape(states.shape[0], *lead[1:], *states.shape[-2:])
    elif len(lead) == 3:
        states = states[:, None]
    return (np.ascontiguousarray(states),)


def _in_order_of(query: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A new array whose dimensions are in memory as those of the query, its rows of neighbours."""
    steps = query.strides
    order = sorted(range(query.ndim - 1), key=lambda dim: (-steps[dim], dim)) if len(shape) == query.ndim else range(len(shape) - 1)
    order = [*order, len(shape) - 1]
    return empty(tuple([shape[dim] for dim in order]), query.dtype).transpose([order.index(dim) for dim in range(len(shape))])


def _extra(call: ScoredCall, states: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return ({"states": states[0]} if states else {}) | ({"captured": call.words()} if call.captured else {})


def flex_attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, call: ScoredCall, scale: float
) -> tuple[np.ndarray, np.ndarray] | None:
    operands = _operands(query, key, value)
    if operands is None:
        return None
    lead = np.broadcast_shapes(*[operand.shape[:-2] for operand in operands])
    length, keys, dtype = query.shape[-2], key.shape[-2], query.dtype
    out = _in_order_of(query, (*lead, length, value.shape[-1]))
    log_sums = empty(out.shape[:-1], dtype)
    states = _states(call, lead, (length, keys), tile_sizes(dtype, length, keys)[0])
    arrays = dict(zip(("query", "key", "value", "out"), (*operands, out), strict=True))
    layouts = tuple(map(_layout, (*arrays.values(), *states)))
    tiles = states[0].shape[-1] if states else 0
    plan = _plan_forward(dtype, layouts, call.scored, call.heads, tiles, float(scale), pool.threads)
    flags, room = plan.scratch.take()
    plan.run(**arrays, **_extra(call, states), log_sums=log_sums, flags=flags, room=room)
    return out, log_sums


def flex_attention_backward(
    grad: np.ndarray,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    output: np.ndarray,
    log_sums: np.ndarray,
    call: ScoredCall,
    scale: float,
) -> tuple[np.ndarray, ...] | None:
    operands = _operands(grad, query, key, value, output)
    if operands is None:
        return None
    lead = output.shape[:-2]
    length, keys, dtype = query.shape[-2], key.shape[-2], query.dtype
    shapes = [(*lead, *operand.shape[-2:]) for operand in (query, key, value)]
    gradients = tuple([empty(shape, dtype) for shape in shapes])
    states = _states(call, lead, (length, keys), tile_sizes(dtype, length, keys)[1])
    arrays: dict[str, Any] = dict(zip(fields_of(OfOperands), (*operands, *gradients), strict=False))
    layouts = tuple(map(_layout, (*arrays.values(), *states)))
    tiles = states[0].shape[-1] if states else 0
    plan = _plan_backward(dtype, layouts, call.scored, call.heads, tiles, float(scale), pool.threads)
    flags, room = plan.scratch.take()
    plan.run(**arrays, **_extra(call, states), log_sums=np.ascontiguousarray(log_sums), flags=flags, room=room)
    return gradients
