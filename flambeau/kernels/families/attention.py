"""Attention and its gradients: which kernel of ``attention_kernels.py`` runs, on what layouts, into what memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.native import native
from ...core.layout import fused_gradient_strides, is_fused_attention, laid_out, preserved_strides
from ...core.shape import contiguous_strides, restrided
from ..compiler.arguments import fields_of
from ..compiler.language import ELEMENTS
from ..compiler.memory import empty
from ..compiler.pool import pool
from ..compiler.target import current
from .attention_kernels import TILE, Mask, OfOperands, attend, attention_slopes
from .microkernel import Scratch
from .rows import float_element, wide_dtype
from .single_query import DEEPEST, attend_single

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape, and strides in elements


class Plan(NamedTuple):
    """Execution plan for all calls with one layout of operands."""

    run: Callable[..., None]
    scratch: Scratch


_DEEPEST = 1024  # elements of a query: a score is one sum from the first to the last, whose rounding grows with their number
TOGETHER = 1 << 15  # multiply-adds of a chunk of matrices with one query


def _leads(shape: tuple[int, ...], strides: tuple[int, ...], lead: tuple[int, ...]) -> np.ndarray:
    """For each matrix of the broadcast leading dimensions, where an operand's begins; ``strides`` in elements."""
    own = (0,) * (len(lead) - len(shape) + 2) + tuple(s if n > 1 else 0 for s, n in zip(strides[:-2], shape[:-2], strict=True))
    total = np.zeros((), np.int64)
    for size, stride in zip(lead, own, strict=True):
        total = total[..., None] + np.arange(size) * stride
    return total.reshape(-1)


def _layout(array: np.ndarray) -> Layout:
    size = array.itemsize
    return array.shape, tuple([stride // size for stride in array.strides])


def _vectors(count: int, lanes: int, most: int) -> int:
    """Registers of a block, so that few lanes of the last one are idle; narrow blocks read their operands more often."""
    return min((v for v in (4, 2, 1) if v <= most), key=lambda v: -(-count // (v * lanes)) * (v + 0.3))


def _table(layouts: tuple[Layout, ...], lead: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(np.stack([_leads(*layout, lead) for layout in layouts], 1))


@lru_cache(maxsize=256)
def _plan_forward(dtype: np.dtype, layouts: tuple[Layout, ...], mask: Mask | None, is_causal: bool, scale: float, threads: int) -> Plan:
    (_, by_query), (key_shape, by_key), (_, by_value), (out_shape, by_out), *masked = layouts
    lead, (length, out_depth), (keys, depth) = out_shape[:-2], out_shape[-2:], key_shape[-2:]
    target, element = current(), ELEMENTS[dtype]
    lanes = target.width // dtype.itemsize
    vectors = _vectors(length, lanes, 4 if target.registers > 16 else 2)
    blocks = -(-length // (lanes * vectors))
    size = (2 * TILE + sum(-(-d // lanes) * lanes for d in (depth, out_depth))) * lanes * vectors
    scratch = Scratch(size + 64, dtype)
    run = attend(element, vectors, is_causal, mask).bind(
        math.prod(lead) * blocks, table=_table(layouts, lead), pieces=scratch.pieces, size=size, blocks=blocks, length=length, keys=keys,
        depth=depth, out_depth=out_depth, by_query=by_query[-2], by_key=by_key[-2], by_value=by_value[-2], by_out=by_out[-2],
        by_mask=masked[0][1][-2] if masked else 0, scale=scale,
    )  # fmt: skip
    return Plan(run, scratch)


@lru_cache(maxsize=256)
def _plan_backward(dtype: np.dtype, layouts: tuple[Layout, ...], mask: Mask | None, is_causal: bool, scale: float, threads: int) -> Plan:
    key_shape, out_shape = layouts[2][0], layouts[0][0]
    lead, (length, out_depth), (keys, depth) = out_shape[:-2], out_shape[-2:], key_shape[-2:]
    target, element = current(), ELEMENTS[dtype]
    lanes = target.width // dtype.itemsize
    vectors = _vectors(keys, lanes, 4 if target.registers > 16 else 2)
    wide, wide_out = (-(-d // lanes) * lanes for d in (depth, out_depth))
    size = (2 * TILE + 3 * wide + 2 * wide_out) * lanes * vectors + -(-length // (lanes * vectors)) * lanes * vectors
    scratch = Scratch(size + 64, dtype)
    by = dict(zip(fields_of(OfOperands), [strides[-2] for _, strides in layouts], strict=False))
    run = attention_slopes(element, vectors, is_causal, mask).bind(
        math.prod(lead), table=_table(layouts, lead), pieces=scratch.pieces, size=size, length=length, keys=keys, depth=depth,
        out_depth=out_depth, by=OfOperands(**{"mask": 0, **by}), scale=scale,
    )  # fmt: skip
    return Plan(run, scratch)


def _mask_of(attn_mask: np.ndarray | None, keys: int, dtype: np.dtype) -> tuple[tuple[np.ndarray, ...], Mask | None] | None:
    """The mask, if there is one, with rows of neighbours, and its properties for a kernel; None where there is no kernel."""
    if attn_mask is None:
        return (), None
    if attn_mask.dtype not in (np.bool_, dtype) or not attn_mask.ndim or attn_mask.shape[-1] != keys:
        return None
    if attn_mask.ndim == 1:
        attn_mask = attn_mask[None]
    attn_mask = _with_rows(attn_mask)
    return (attn_mask,), Mask(ELEMENTS[attn_mask.dtype], attn_mask.shape[-2] == 1 or attn_mask.strides[-2] == 0)


def _with_rows(array: np.ndarray) -> np.ndarray:
    """The array, its last dimension of neighbours."""
    return array if array.strides[-1] == array.itemsize or array.shape[-1] == 1 else np.ascontiguousarray(array)


def _empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array with these strides in elements, or row-major where they would not leave rows of neighbours."""
    if strides[-1] != 1:
        return empty(shape, dtype)
    return restrided(empty((math.prod(shape),), dtype), shape, tuple([step * dtype.itemsize for step in strides]))


def _operands(*arrays: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """Operands with rows of neighbours; None where there is no kernel for them."""
    dtype = arrays[0].dtype
    if ELEMENTS.get(dtype) not in ("f32", "f64"):
        return None
    if any(array.dtype != dtype or not array.size or array.shape[-1] > _DEEPEST for array in arrays):
        return None
    return tuple([_with_rows(array) for array in arrays])


# -- one query -----------------------------------------------------------------------------------------------------------------
class _Single(NamedTuple):
    """Execution plan for one query a matrix: the launch, shapes of the output and of the sums of exponentials, and the sums' dtype.

    Attributes:
        strides: of the output, in bytes; None for one that is row-major.
    """

    run: Callable[..., None]
    shape: tuple[int, ...]
    sums: tuple[int, ...]
    dtype: type
    strides: tuple[int, ...] | None


_singles: dict[Any, _Single | None] = {}  # by layouts; a cache that grows by a key at each step has a new one each time


def _steps(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> list[int]:
    """From matrix to matrix of an operand along three leading dimensions, of which its own are the last, in elements."""
    own = [0] * (5 - len(shape)) + [step // size if n > 1 else 0 for n, step in zip(shape[:-2], strides, strict=False)]
    return own[-3:]


def _plan_single(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | None, is_causal: bool, scale: float, is_ordered: bool
) -> _Single | None:
    """None where there is no kernel; ``is_ordered``: whether the output has the order of the query's dimensions."""
    dtype, operands, (keys, depth), out_depth = query.dtype, (query, key, value), key.shape[-2:], value.shape[-1]
    element, size = float_element(dtype), dtype.itemsize
    if element is None or max(depth, out_depth) > DEEPEST or max(array.ndim for array in operands) > 5:
        return None
    if any(array.dtype != dtype or not array.size for array in operands):
        return None
    lead = query.shape[:-2]
    if not lead == key.shape[:-2] == value.shape[:-2]:
        lead = np.broadcast_shapes(*[array.shape[:-2] for array in operands])
    steps = [_steps(array.shape, array.strides, size) for array in operands]
    shape = (*lead, 1, out_depth)
    strides = preserved_strides(query) if is_ordered else contiguous_strides(shape)
    steps.append(_steps(shape, strides, 1))
    if mask is None:
        steps.append([0, 0, 0])
    elif mask.dtype not in (np.bool_, dtype) or mask.ndim > len(shape) or mask.shape[-2:] != (1, keys):
        return None
    else:
        steps.append(_steps(mask.shape, mask.strides, mask.itemsize))
    matrices, sizes = math.prod(lead), [1, 1, *lead][-2:]
    per_chunk = max(1, TOGETHER // (keys * (depth + out_depth)))
    # in the record's order: by names it takes three times as long, and a growing cache waits for it at each step
    run = attend_single(element, "" if mask is None else ELEMENTS[mask.dtype]).call(
        -(-matrices // per_chunk), matrices, *sizes, *itertools.chain(*zip(*steps, strict=True)), per_chunk,
        min(keys, 1) if is_causal else keys, depth, out_depth, key.strides[-2] // size, value.strides[-2] // size, scale,
    )  # fmt: skip
    is_dense = strides == contiguous_strides(shape)
    return _Single(run, shape, shape[:-1], wide_dtype(element), None if is_dense else tuple([step * size for step in strides]))


def _of_single(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | None, is_causal: bool, scale: float
) -> tuple[np.ndarray, np.ndarray] | None:
    dtype = query.dtype
    layouts: tuple[Any, ...] = (dtype, query.shape, query.strides, key.shape, key.strides, value.shape, value.strides, is_causal, scale)
    if mask is not None:
        mask = _with_rows(mask if mask.ndim > 1 else mask.reshape(1, -1))
        layouts += (mask.dtype, mask.shape, mask.strides)
    if key.dtype is not dtype or value.dtype is not dtype:
        return None
    try:
        plan = _singles[layouts]
    except KeyError:
        is_ordered = is_fused_attention(query, key, value)
        query, key, value = _with_rows(query), _with_rows(key), _with_rows(value)
        plan = _plan_single(query, key, value, mask, is_causal, float(scale), is_ordered)
        if (query.strides, key.strides, value.strides) == layouts[2:7:2]:  # these can be read as they lie
            if len(_singles) > 256:
                _singles.clear()
            _singles[layouts] = plan
    if plan is None:
        return None
    out, log_sums = np.empty(plan.shape, dtype), np.empty(plan.sums, plan.dtype)
    if plan.strides is not None:
        out = np.ndarray(plan.shape, dtype, out, 0, plan.strides)
    plan.run(query, key, value, out, log_sums, log_sums if mask is None else mask)
    return out, log_sums


class _Known(NamedTuple):
    """A call without a mask, whose operands are read as they lie: its plan, and shapes and strides (None: row-major) of its results."""

    plan: Plan
    results: tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...]

    def made(self, dtype: np.dtype) -> list[np.ndarray]:
        """New arrays for the results."""
        return [
            empty(shape, dtype) if strides is None else np.ndarray(shape, dtype, empty((math.prod(shape),), dtype), 0, strides)
            for shape, strides in self.results
        ]


_known: dict[Any, _Known] = {}  # by layouts; forward ones have three operands, backward ones five


def _known_as(arrays: tuple[np.ndarray, ...], attn_mask: np.ndarray | None, is_causal: bool, scale: float) -> Any:
    """The key of a call in ``_known``; None where it has none."""
    dtype = arrays[0].dtype
    if attn_mask is not None or any(array.dtype is not dtype for array in arrays):
        return None
    return dtype, *[(array.shape, array.strides) for array in arrays], is_causal, scale, pool.threads


def _remember(key: Any, given: tuple[np.ndarray, ...], operands: tuple[np.ndarray, ...], plan: Plan, *results: np.ndarray) -> None:
    """Keep what was found out about a call, if its operands can be read as they lie."""
    if key is None or not all(map(is_, given, operands)):
        return
    if len(_known) > 256:
        _known.clear()
    _known[key] = _Known(plan, tuple([(each.shape, None if _is_row_major(each) else each.strides) for each in results]))


def _is_row_major(array: np.ndarray) -> bool:
    """Whether strides are those of row-major memory, of dimensions of one element too."""
    return _layout(array)[1] == contiguous_strides(array.shape)


told: list[Callable[..., None]] = []  # of forward calls that are remembered; see ``tell``


def tell(note: Callable[..., None]) -> None:
    """Have ``note(arrays, is_causal, scale, plan)`` called for each forward call that is remembered from now on, the result among the
    arrays, with its operands' order of dimensions where these have four."""
    told[:] = [note]
    _known.clear()  # what is known is remembered again


@native("nn.functional._attention")
def attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    attn_mask: np.ndarray | None,
    is_causal: bool,
    scale: float,
    dropout: Any,
    is_fused: bool = True,
) -> tuple[np.ndarray, np.ndarray] | None:
    if dropout is not None or not is_fused:
        return None
    if query.shape[-2] == 1:
        return _of_single(query, key, value, attn_mask, is_causal, scale)
    given = query, key, value
    call = _known_as(given, attn_mask, is_causal, scale)
    if call is not None and (known := _known.get(call)) is not None:
        out, log_sums = known.made(query.dtype)
        flags, room = known.plan.scratch.take()
        known.plan.run(query=query, key=key, value=value, out=out, log_sums=log_sums, flags=flags, room=room)
        return out, log_sums
    operands, masked = _operands(*given), _mask_of(attn_mask, key.shape[-2], query.dtype)
    if operands is None or masked is None:
        return None
    lead = np.broadcast_shapes(*[operand.shape[:-2] for operand in operands])
    shape = (*lead, query.shape[-2], value.shape[-1])
    strides = preserved_strides(query) if is_fused_attention(query, key, value) else contiguous_strides(shape)
    out, log_sums, plan = _in_tiles(operands, masked, _empty(shape, strides, query.dtype), is_causal, scale)
    result = laid_out(out, strides)
    if result is out:
        _remember(call, given, operands, plan, out, log_sums)
        if told and call in _known:
            told[0]((*given, out), is_causal, float(scale), plan)
    return result, log_sums


def _in_tiles(
    operands: tuple[np.ndarray, ...], masked: tuple[tuple[np.ndarray, ...], Mask | None], out: np.ndarray, is_causal: bool, scale: float
) -> tuple[np.ndarray, np.ndarray, Plan]:
    """``out``, filled, the logarithms of sums, and the plan."""
    log_sums = empty(out.shape[:-1], out.dtype)
    arrays = dict(zip(("query", "key", "value", "out", "mask"), (*operands, out, *masked[0]), strict=False))
    plan = _plan_forward(out.dtype, tuple(map(_layout, arrays.values())), masked[1], is_causal, float(scale), pool.threads)
    flags, room = plan.scratch.take()
    plan.run(**arrays, log_sums=log_sums, flags=flags, room=room)
    return out, log_sums, plan


@native("nn.functional._attention_backward")
def attention_backward(
    grad_output: np.ndarray,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    attn_mask: np.ndarray | None,
    output: np.ndarray,
    log_sum: np.ndarray,
    is_causal: bool,
    scale: float,
    dropout: Any,
    to_mask: bool,
    is_fused: bool = True,
) -> tuple[np.ndarray, ...] | None:
    if dropout is not None or to_mask or not is_fused:
        return None
    given = grad_output, query, key, value, output
    call = _known_as(given, attn_mask, is_causal, scale)
    if call is not None and (known := _known.get(call)) is not None:
        gradients = known.made(query.dtype)
        flags, room = known.plan.scratch.take()
        arrays = dict(zip(fields_of(OfOperands), (*given, *gradients), strict=False))
        known.plan.run(**arrays, log_sums=np.ascontiguousarray(log_sum), flags=flags, room=room)
        return tuple(gradients)
    operands, masked = _operands(*given), _mask_of(attn_mask, key.shape[-2], query.dtype)
    if operands is None or masked is None:
        return None
    if query.shape[-2] == 1:  # ``single_query`` adds up in another order, and of large scores only the very same ones fit the sums
        log_sum = _in_tiles(operands[1:4], masked, empty(output.shape, output.dtype), is_causal, scale)[1]
    lead = output.shape[:-2]
    order = fused_gradient_strides if is_fused_attention(query, key, value) else contiguous_strides
    shapes = [(*lead, *operand.shape[-2:]) for operand in (query, key, value)]
    gradients = [_empty(shape, order(shape), query.dtype) for shape in shapes]
    arrays = dict(zip(fields_of(OfOperands), (*operands, *gradients, *masked[0]), strict=False))
    plan = _plan_backward(query.dtype, tuple(map(_layout, arrays.values())), masked[1], is_causal, float(scale), pool.threads)
    flags, room = plan.scratch.take()
    plan.run(**arrays, log_sums=np.ascontiguousarray(log_sum), flags=flags, room=room)
    if query.shape[-2] > 1:
        _remember(call, given, operands, plan, *gradients)
    return tuple(gradients)
