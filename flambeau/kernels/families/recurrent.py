"""Recurrent layers as operations: which kernels (``recurrent_kernels.py``) run for arrays of which sizes, and the products around them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.native import native
from ...core.calls.registry import primitive
from ..compiler import target as targets
from ..compiler.language import ELEMENTS, FLOATS
from ..compiler.memory import empty
from ..compiler.pool import pool
from . import short_layers
from .blas import alone
from .copies import copy
from .gemm import SMALL, multiply, multiply_into
from .meeting import LINE
from .recurrent_kernels import COLUMNS, cells_again, pack_gates, pack_rows, recurrent_backwards, recurrent_forwards
from .recurrent_operands import fit, program_of, sizes_of, table_of
from .reduction import reduce
from .single_sequence import sequence_forwards
from .single_step import step_forwards
from .tile_registers import instructions

FEW = 8  # products with each weight: up to here weights are read as they lie
MANY = 16  # steps of one sequence: from here on its weights are laid out anew
NEAR = 3 << 19  # bytes of them at most: more do not stay in the second cache, and are waited for in any layout
ROWS = 16  # rows of a block at most: several tiles, so that weights are fetched from far once for all of them
SHARED = 1 << 16  # multiply-adds of a chunk, at least
HALVED = 1 << 19  # bytes: gradients at the gates' sums from here on are multiplied half by half
SUMMED = 1 << 13  # elements: below this NumPy sums rows
ELEMENT = 16  # multiply-adds that a gate's formula takes as long as
PART = 1 << 15  # multiply-adds of a part of one sequence's step
PARTS = 16  # at most


class _Plan(NamedTuple):
    """Function for arrays of certain sizes: copies the weights to another layout (``size`` elements) if that pays, and does the steps.

    ``room``: elements for what is multiplied by tiles.
    """

    size: int
    pack: Callable[..., None] | None
    steps: Callable[..., None]
    room: int = 0

    def more(self, weight: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays that steps by tiles need beside packed weights."""
        return {"plain": weight, "room": empty((self.room,), weight.dtype)} if self.room else {}


@lru_cache(maxsize=1024)
def _rows_of_block(batch: int, work: int) -> int:
    """Rows of a chunk, by sizes alone: of two or more where there is enough ``work`` in multiply-adds."""
    chunks = 1
    if batch > 1 and work >= 2 * SHARED:
        chunks = 2
        while -(-batch // chunks) > ROWS:
            chunks *= 2
    return -(-batch // chunks)


def _product(a: np.ndarray, b: np.ndarray, least: int) -> np.ndarray:
    result = multiply(a, b, None, least)
    return np.dot(a, b) if result is None else result


def _sum_of_rows(array: np.ndarray, least: int) -> np.ndarray:
    total: np.ndarray | None = reduce("sum", array, 0) if array.size >= min(SUMMED, least) else None
    return np.add.reduce(array, axis=0) if total is None else total


def _copied(source: np.ndarray, target: np.ndarray, least: int) -> None:
    """Copy some features: by NumPy but where all work is to be launches."""
    if least:
        target[...] = source
    else:
        copy(source, target)


def _rows(array: np.ndarray) -> np.ndarray:
    """The elements of all sequences below each other, row-major."""
    return np.ascontiguousarray(array.reshape(-1, array.shape[-1]))


def _products(rows: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, least: int) -> np.ndarray:
    """``rows @ weight.T + bias``."""
    products = multiply(rows, weight.T, bias, least) if len(rows) * weight.size >= least else None
    if products is None:
        products = np.dot(rows, weight.T)
        if bias is not None:
            products += bias
    return products


def _by_tiles() -> Any:
    """The module of steps in tile registers; None where the processor has none."""
    if instructions() != "tiles":
        return None
    from . import recurrent_tiles

    return recurrent_tiles


@lru_cache(maxsize=1024)
def _forwards_plan(
    cell: Any, dtype: np.dtype, has_bias: bool, batch: int, count: int, total: int, hidden: int, keeps: bool, threads: int
) -> _Plan:
    element, gates = ELEMENTS[dtype], cell.gates
    program = program_of(cell.forwards, gates + cell.has_cell + 2 * cell.has_part, dtype)
    tiles = _by_tiles()
    if tiles is not None and tiles.fits(cell, dtype, batch, hidden):
        rows = tiles.rows_of_chunk(batch, threads)
        chunks = -(-batch // rows)
        packed = tiles.packed_weights(hidden, gates, True, chunks)
        run = tiles.tiled_forwards(cell, program, has_bias, keeps)
        steps = run.bind(chunks, steps=count, batch=batch, hidden=hidden, rows=rows, parts=1, notes=packed.notes)
        return _Plan(packed.size, packed.pack, steps, packed.room)
    blocks, work = -(-hidden // (targets.current().width // dtype.itemsize)), gates * hidden * hidden * total
    few = total <= FEW
    rows, parts = (batch if few else _rows_of_block(batch, work)), 1
    if few and count == 1:
        parts = max(1, min(blocks, work // SHARED, 16))
    run = recurrent_forwards(element, cell, program, has_bias, not few, keeps)
    steps = run.bind(-(-batch // rows) * parts, steps=count, batch=batch, hidden=hidden, rows=rows, parts=parts)
    size = 0 if few else _packed_size(dtype, hidden, gates)
    return _Plan(size, None if few else pack_gates(element, gates).call(blocks * gates, hidden, hidden), steps)


def _packed_size(dtype: np.dtype, hidden: int, gates: int) -> int:
    """Elements for what ``pack_gates`` writes."""
    lanes = targets.current().width // dtype.itemsize
    return -(-hidden // lanes) * lanes * hidden * gates + 64 // dtype.itemsize


class _SequencePlan(NamedTuple):
    """Steps of one sequence, with so many words for the threads that share them."""

    words: int
    steps: Callable[..., None]
    size: int  # of weights that are laid out anew
    pack: Callable[..., None] | None


@lru_cache(maxsize=1024)
def _sequence_plan(
    cell: Any, dtype: np.dtype, has_bias: bool, count: int, hidden: int, reverse: bool, keeps: bool, is_shared: bool
) -> _SequencePlan:
    blocks = -(-hidden // (targets.current().width // dtype.itemsize))
    work = cell.gates * hidden * hidden
    parts = min(blocks, PARTS, max(work // PART & ~1, 2)) if is_shared and work >= PART else 1
    pitch = -(-count // LINE) * LINE
    program = program_of(cell.forwards, cell.gates + cell.has_cell + 2 * cell.has_part, dtype)
    size = _packed_size(dtype, hidden, cell.gates)
    packed = count >= MANY and size * dtype.itemsize <= NEAR
    run = sequence_forwards(ELEMENTS[dtype], cell, program, has_bias, keeps, parts > 1, packed)
    steps = run.bind(parts, steps=count, hidden=hidden, reverse=int(reverse), parts=parts, pitch=pitch)
    pack = pack_gates(ELEMENTS[dtype], cell.gates).call(blocks * cell.gates, hidden, hidden) if packed else None
    return _SequencePlan(parts * pitch if parts > 1 else 0, steps, size, pack)


@lru_cache(maxsize=1024)
def _step_plan(cell: Any, dtype: np.dtype, batch: int, hidden: int, keeps: bool) -> Callable[..., None]:
    """One step of so many rows, whose products are there."""
    rows = _rows_of_block(batch, ELEMENT * cell.gates * hidden * batch)
    program = program_of(cell.forwards, cell.gates + cell.has_cell + 2 * cell.has_part, dtype)
    step = step_forwards(ELEMENTS[dtype], cell, program, keeps)
    run: Callable[..., None] = step.bind(-(-batch // rows), batch=batch, hidden=hidden, rows=rows)
    return run


class _Made(NamedTuple):
    """Results of the steps of a layer; ``cells`` are the last ones, or the last states where there are none."""

    output: np.ndarray
    last: np.ndarray
    cells: np.ndarray
    kept: np.ndarray


def _run_forwards(
    cell: Any, products: np.ndarray, gates: np.ndarray, states: tuple[np.ndarray, ...], weight_hh: Any, bias_hh: Any,
    sizes: tuple[int, ...], reverse: bool, least: int, keeps: bool = True, is_shared: bool = False,
) -> _Made:  # fmt: skip
    """The steps behind the input's products, row by row; ``gates`` may be the same array.

    Args:
        is_shared: whether threads may share the steps of a single sequence, for which there are words in memory of this call's own.
    """
    dtype, hidden = products.dtype, states[0].shape[-1]
    weight = weight_hh = np.ascontiguousarray(weight_hh)
    output = empty((len(products), hidden), dtype)
    kept = empty(output.shape, dtype) if cell.has_part or (cell.has_cell and keeps) else output
    first, first_cells = np.ascontiguousarray(states[0]), np.ascontiguousarray(states[-1])
    last = empty(first.shape, dtype)
    cells = empty(first.shape, dtype) if cell.has_cell else last
    if len(sizes) == 1 and sizes[0] > FEW:
        _step_plan(cell, dtype, sizes[0], hidden, keeps)(
            products=products, sums=_products(_rows(first), weight_hh, bias_hh, least), gates=gates, kept=kept, output=output, last=last,
            first=first, cells=cells, first_cells=first_cells,
        )  # fmt: skip
        return _Made(output, last, cells, kept)
    has_bias, bias = bias_hh is not None, first if bias_hh is None else np.ascontiguousarray(bias_hh)
    if sizes[0] == 1 and (is_shared or len(sizes) > 1):
        has_others = is_shared and pool.threads > 1  # a thread by itself is quicker without parts; sums are the same
        alone = _sequence_plan(cell, dtype, has_bias, len(sizes), hidden, reverse, keeps, has_others)
        if alone.pack is not None:
            alone.pack(weight_hh, weight := empty((alone.size,), dtype))
        alone.steps(
            products=products, gates=gates, kept=kept, output=output, last=last, first=first, cells=cells, first_cells=first_cells,
            weight=weight, bias=bias, words=np.zeros(alone.words, np.int64) if alone.words else first,
        )  # fmt: skip
        return _Made(output, last, cells, kept)
    plan = _forwards_plan(cell, dtype, has_bias, sizes[0], len(sizes), len(products), hidden, keeps, pool.threads)
    if plan.pack is not None:
        plan.pack(weight_hh, weight := empty((plan.size,), dtype))
    plan.steps(
        products=products, gates=gates, kept=kept, output=output, last=last, first=first, cells=cells, first_cells=first_cells,
        weight=weight, bias=bias, table=table_of(sizes, reverse), **plan.more(weight_hh),
    )  # fmt: skip
    return _Made(output, last, cells, kept)


def _forwards(
    cell: Any, input: np.ndarray, states: tuple[np.ndarray, ...], weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, sizes: Any,
    reverse: bool, least: int,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    """Output, last states, gates and what is kept beside them."""
    if least:
        results = short_layers.forwards(cell, input, states, weight_ih, weight_hh, bias_ih, bias_hh, sizes, reverse)
        if results is not None:
            return results
    sizes, dtype = sizes_of(input, sizes), input.dtype
    if not fit(cell, sizes, states, input, weight_ih, weight_hh):
        return None
    for bias in (bias_ih, bias_hh):
        if bias is not None and (bias.dtype != dtype or bias.shape != weight_hh.shape[:1]):
            return None
    products = _products(_rows(input), weight_ih, bias_ih, least)
    made = _run_forwards(cell, products, products, states, weight_hh, bias_hh, sizes, reverse, least, is_shared=least > 0)
    output = made.output.reshape(*input.shape[:-1], -1)
    if cell.has_cell:
        return output, made.last, made.cells, products, made.kept
    return (output, made.last, products, made.kept) if cell.has_part else (output, made.last)


@native("_lstm_layer")
def lstm_layer(
    input: Any,
    h: Any,
    c: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    weight_hr: Any,
    cell: Any,
    sizes: Any,
    reverse: bool,
    least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:
    if weight_hr is not None:
        return _projected(cell, input, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, sizes, reverse, least)
    return _forwards(cell, input, (h, c), weight_ih, weight_hh, bias_ih, bias_hh, sizes, reverse, least)


@native("_gru_layer", "_rnn_layer")
def layer(
    input: Any, h: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, cell: Any, sizes: Any, reverse: bool,
    least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    return _forwards(cell, input, (h,), weight_ih, weight_hh, bias_ih, bias_hh, sizes, reverse, least)


gru_layer = rnn_layer = layer


@lru_cache(maxsize=1024)
def _backwards_plan(
    cell: Any, dtype: np.dtype, has: tuple[bool, ...], batch: int, count: int, total: int, hidden: int, threads: int
) -> _Plan:
    element, gates = ELEMENTS[dtype], cell.gates
    has_more = cell.has_cell or cell.has_part
    formula = cell.backwards_with_state if cell.has_cell else cell.backwards
    program = program_of(formula, 1 + cell.has_cell + (gates + 2 if has_more else 1), dtype)
    tiles = _by_tiles()
    if tiles is not None and tiles.fits(cell, dtype, batch, hidden):
        rows = tiles.rows_of_chunk(batch, threads)
        chunks = -(-batch // rows)
        packed = tiles.packed_weights(hidden, gates, False, chunks)
        run = tiles.tiled_backwards(cell, program, has)
        steps = run.bind(chunks, steps=count, batch=batch, hidden=hidden, rows=rows, notes=packed.notes)
        return _Plan(packed.size, packed.pack, steps, packed.room)
    wide = COLUMNS * (targets.current().width // dtype.itemsize)
    blocks, length, work = -(-hidden // wide), gates * hidden, gates * hidden * hidden * total
    run = recurrent_backwards(element, cell, program, has)
    rows = _rows_of_block(batch, work)
    steps = run.bind(-(-batch // rows), steps=count, batch=batch, hidden=hidden, rows=rows)
    return _Plan(blocks * wide * length, pack_rows(element).call(blocks, hidden, length), steps)


class _Gradients(NamedTuple):
    """At the gates' sums, at the part of the last one, and of the first states; and the states before each row."""

    products: np.ndarray
    part: np.ndarray
    first: list[np.ndarray]
    before: np.ndarray


def _run_backwards(
    cell: Any, grads: tuple[np.ndarray | None, ...], states: tuple[np.ndarray, ...], weight_hh: Any, output: Any,
    saved: tuple[np.ndarray, ...], sizes: tuple[int, ...], reverse: bool, room: np.ndarray | None = None,
) -> _Gradients:  # fmt: skip
    """The steps back, row by row.

    Args:
        output: not read where ``saved`` are gates and cells.
        room: where weights may be laid out anew.
    """
    dtype, (batch, hidden), total = states[0].dtype, states[0].shape[-2:], sum(sizes)
    plan = _backwards_plan(cell, dtype, tuple([grad is not None for grad in grads]), batch, len(sizes), total, hidden, pool.threads)
    packed = empty((plan.size,), dtype) if room is None or room.size < plan.size else room
    weight_hh = np.ascontiguousarray(weight_hh)
    if plan.pack is not None:
        plan.pack(weight_hh, packed)
    first = np.ascontiguousarray(states[0])
    arrived, *of_last = [first if grad is None else np.ascontiguousarray(grad) for grad in grads]
    started = [empty(first.shape, dtype) for _ in of_last]
    d_products, states_before = empty((total, len(weight_hh)), dtype), empty((total, hidden), dtype)
    d_part = empty((total, hidden), dtype) if cell.has_part else d_products
    products, kept = [np.ascontiguousarray(array) for array in saved] if saved else (output, output)
    before, first_before = (kept, np.ascontiguousarray(states[1])) if cell.has_cell else (output, first)
    plan.steps(
        grad=arrived, products=products, kept=kept, states=before, first=first_before, output=before if output is None else output,
        first_state=first, before=states_before, d_last=of_last[0], d_last_cell=of_last[-1], d_products=d_products, d_part=d_part,
        d_state=started[0], d_cell=started[-1], weight=packed, table=table_of(sizes, reverse), **plan.more(weight_hh),
    )  # fmt: skip
    return _Gradients(d_products, d_part, started, states_before)


def _backwards(
    cell: Any,
    grads: tuple[np.ndarray | None, ...],
    input: np.ndarray,
    states: tuple[np.ndarray, ...],
    weight_ih: Any,
    weight_hh: Any,
    output: np.ndarray | None,
    saved: tuple[np.ndarray, ...],
    sizes: Any,
    reverse: bool,
    needs_input: bool,
    least: int,
) -> tuple[np.ndarray, ...] | None:
    """Gradients of input, first states, weights and biases; ``grads`` of output and last states, ``saved`` gates and what is kept."""
    if least:
        results = short_layers.backwards(
            cell, grads, input, states, weight_ih, weight_hh, output, saved, sizes, reverse, needs_input
        )  # fmt: skip
        if results is not None:
            return results
    sizes, dtype, hidden = sizes_of(input, sizes), input.dtype, states[0].shape[-1]
    if not fit(cell, sizes, states, input, weight_ih, weight_hh) or any(grad is not None and grad.dtype != dtype for grad in grads):
        return None
    made = _run_backwards(cell, grads, states, weight_hh, None if output is None else _rows(output), saved, sizes, reverse)
    d_products = made.products
    d_weight_hh, d_bias_hh = _product(d_products.T, made.before, least), _sum_of_rows(d_products, least)
    d_bias_ih = empty(d_bias_hh.shape, dtype)
    _copied(d_bias_hh, d_bias_ih, least)
    if cell.has_part:  # the input's part of the last gate is not multiplied
        _copied(made.part, d_products[:, -hidden:], least)
        _copied(_sum_of_rows(made.part, least), d_bias_ih[-hidden:], least)
    d_input = _product(d_products, weight_ih, least).reshape(input.shape) if needs_input else empty((0, len(weight_hh)), dtype)
    return d_input, *made.first, _product(d_products.T, _rows(input), least), d_weight_hh, d_bias_ih, d_bias_hh


@native("_lstm_layer_backward", scratch=("gates", "cells"))  # gradients at the gates' sums, and states before rows
def lstm_layer_backward(
    grad_output: Any, grad_h: Any, grad_c: Any, input: Any, h: Any, c: Any, weight_ih: Any, weight_hh: Any, weight_hr: Any, output: Any,
    gates: Any, cells: Any, cell: Any, sizes: Any, reverse: bool, needs_input: bool, least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    grads = (grad_output, grad_h, grad_c)
    if weight_hr is not None:
        saved = (output, gates, cells)
        return _projected_back(cell, grads, input, h, c, weight_ih, weight_hh, weight_hr, saved, sizes, reverse, needs_input, least)
    results = _backwards(cell, grads, input, (h, c), weight_ih, weight_hh, None, (gates, cells), sizes, reverse, needs_input, least)
    return None if results is None else (*results, np.empty(0, results[-1].dtype))


@native("_gru_layer_backward", scratch=("gates",))
def gru_layer_backward(
    grad_output: Any, grad_h: Any, input: Any, h: Any, weight_ih: Any, weight_hh: Any, output: Any, gates: Any, parts: Any, cell: Any,
    sizes: Any, reverse: bool, needs_input: bool, least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    grads = (grad_output, grad_h)
    return _backwards(cell, grads, input, (h,), weight_ih, weight_hh, output, (gates, parts), sizes, reverse, needs_input, least)


@native("_rnn_layer_backward")
def rnn_layer_backward(
    grad_output: Any, grad_h: Any, input: Any, h: Any, weight_ih: Any, weight_hh: Any, output: Any, cell: Any, sizes: Any, reverse: bool,
    needs_input: bool, least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    return _backwards(cell, (grad_output, grad_h), input, (h,), weight_ih, weight_hh, output, (), sizes, reverse, needs_input, least)


# -- projected states -------------------------------------------------------------------------------------------------------------------
def _is_projected(cell: Any, sizes: Any, input: np.ndarray, h: Any, c: Any, weight_ih: Any, weight_hh: Any, weight_hr: Any) -> bool:
    """Whether shapes and dtypes are those of a layer; the reference says what is wrong with others."""
    dtype, wide = input.dtype, cell.gates * c.shape[-1]
    return (
        dtype in FLOATS
        and sum(sizes) * input.shape[-1] == input.size > 0
        and all(array.dtype == dtype for array in (h, c, weight_ih, weight_hh, weight_hr))
        and weight_ih.shape == (wide, input.shape[-1])
        and weight_hh.shape == (wide, h.shape[-1])
        and weight_hr.shape == (h.shape[-1], c.shape[-1])
        and all(state.ndim > 1 and state.size == sizes[0] * state.shape[-1] for state in (h, c))
    )


def _on_one_thread(name: str, *arguments: Any) -> Any:
    """The results of an operation's reference, whose products have the same bits then whatever the number of threads."""
    results: list[Any] = []
    alone(lambda: results.append(primitive(name).kernel(*arguments)))
    return results[0]


def _projected(
    cell: Any, input: Any, h: Any, c: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, weight_hr: Any, sizes: Any,
    reverse: bool, least: int,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    """The reference's steps behind the input's products."""
    sizes = sizes_of(input, sizes)
    if not least or not _is_projected(cell, sizes, input, h, c, weight_ih, weight_hh, weight_hr):
        return None
    if any(bias is not None and (bias.dtype != input.dtype or bias.shape != weight_hh.shape[:1]) for bias in (bias_ih, bias_hh)):
        return None
    products = _products(_rows(input), weight_ih, bias_ih, least)
    output, *rest = _on_one_thread(
        "_lstm_layer", products, h, c, None, weight_hh, None, bias_hh, weight_hr, cell, sizes, reverse
    )  # fmt: skip
    return output.reshape(*input.shape[:-1], -1), *rest


def _projected_back(
    cell: Any, grads: tuple[np.ndarray | None, ...], input: Any, h: Any, c: Any, weight_ih: Any, weight_hh: Any, weight_hr: Any,
    saved: tuple[np.ndarray, ...], sizes: Any, reverse: bool, needs_input: bool, least: int,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    sizes = sizes_of(input, sizes)
    if not least or not _is_projected(cell, sizes, input, h, c, weight_ih, weight_hh, weight_hr):
        return None
    nothing = np.empty((sum(sizes), 0), input.dtype)
    d_products, d_h, d_c, _, *rest = _on_one_thread(
        "_lstm_layer_backward", *grads, nothing, h, c, None, weight_hh, weight_hr, *saved, cell, sizes, reverse, True
    )
    d_input = _product(d_products, weight_ih, least).reshape(input.shape) if needs_input else d_products[:0]
    return d_input, d_h, d_c, _product(d_products.T, _rows(input), least), *rest


# -- steps by themselves ----------------------------------------------------------------------------------------------------------------
def _are(dtype: np.dtype, *arrays: Any) -> bool:
    return dtype in FLOATS and all(array is None or array.dtype == dtype for array in arrays)


@native("_recurrent_steps", overwrites=1)
def recurrent_steps(
    products: Any, h: Any, c: Any, weight_hh: Any, bias_hh: Any, cell: Any, sizes: Any, reverse: bool, keeps: bool, least: int = SMALL
) -> tuple[np.ndarray, ...] | None:
    if not _are(products.dtype, h, c, weight_hh, bias_hh):
        return None
    dtype, nothing = products.dtype, empty((0,), products.dtype)
    gates = empty(products.shape, dtype) if cell.has_cell or cell.has_part else nothing
    states = (h, c) if cell.has_cell else (h,)
    made = _run_forwards(cell, np.ascontiguousarray(products), gates, states, weight_hh, bias_hh, sizes, reverse, least, keeps)
    kept = made.kept if cell.has_part or (cell.has_cell and keeps) else empty((0,), dtype)
    return gates, made.output, made.last, made.cells if cell.has_cell else empty((0,), dtype), kept


@native("_recurrent_steps_backward", overwrites=1, scratch=("kept",))  # states before rows over cells
def recurrent_steps_backward(
    gates: Any, kept: Any, grad_output: Any, grad_h: Any, grad_c: Any, h: Any, c: Any, weight_hh: Any, output: Any, cell: Any, sizes: Any,
    reverse: bool, least: int = SMALL,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    if not _are(h.dtype, gates, kept, grad_output, grad_h, grad_c, h, c, weight_hh, output):
        return None
    states, grads = ((h, c), (grad_output, grad_h, grad_c)) if cell.has_cell else ((h,), (grad_output, grad_h))
    saved = (gates, kept) if cell.has_cell or cell.has_part else ()
    room = empty(weight_hh.shape, h.dtype)  # free until the weights' gradient comes
    made = _run_backwards(cell, grads, states, weight_hh, output, saved, sizes, reverse, room)
    half = len(room) // 2 if made.products.nbytes >= HALVED else len(room)
    for rows in (slice(half), slice(half, None)):  # half the memory for what the product packs
        if len(room[rows]):
            multiply_into(made.products.T[rows], made.before, room[rows], least)
    d_bias_hh = _sum_of_rows(made.products, least)
    if cell.has_part:
        _copied(made.part, made.products[:, -h.shape[-1] :], least)
    d_c = made.first[1] if cell.has_cell else empty((0,), h.dtype)
    return made.products, made.first[0], d_c, room, d_bias_hh


@native("_lstm_cells")
def lstm_cells(gates: Any, c: Any, cell: Any, sizes: Any, reverse: bool) -> np.ndarray | None:
    if not _are(gates.dtype, c):
        return None
    batch, hidden = c.shape[-2:]
    rows = _rows_of_block(batch, gates.size)
    program = program_of(cell.carried, cell.gates + 1, gates.dtype)
    kept = empty((len(gates), hidden), gates.dtype)
    again = cells_again(ELEMENTS[gates.dtype], cell, program).call(-(-batch // rows), len(sizes), batch, hidden, rows)
    again(np.ascontiguousarray(gates), np.ascontiguousarray(c), kept, table_of(sizes, reverse))
    return kept
