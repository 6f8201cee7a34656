"""Recurrent layers with little to do, as single steps and short sequences of small layers are: all of one way is one launch.

Forwards these are the input's products, with their bias, and the steps; backwards the steps, then the gradients of the weights and biases,
which are sums over the rows of all steps, and of the input. Weights are read as they lie, and nothing is shared out among threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..compiler.arguments import Array, Integer
from ..compiler.build import kernel
from ..compiler.expression import Program
from ..compiler.language import ELEMENTS, Builder, Value, as_tuple
from .recurrent_kernels import Backwards, Forwards, SlopeArguments, StepArguments, row_sums, whole_or_masked
from .recurrent_operands import fit, program_of, sizes_of, table_of

LITTLE = 1 << 20  # multiply-adds of one way: above this, launches for products and packed weights pay
LIGHT = 1 << 18  # numbers in the weights: more of them are read by several threads
WAYS = 4  # sums side by side, which do not wait for each other


class ShortArguments(StepArguments):
    input: Array
    weight_ih: Array
    bias_ih: Array
    table: Array  # see ``table_of``
    features: Integer  # of the input
    total: Integer  # rows of all steps
    steps: Integer
    batch: Integer
    hidden: Integer
    rows: Integer  # of the chunk: all
    parts: Integer  # 1


@kernel
def short_forwards(k: Builder, element: str, cell: Any, program: Program, has_bias: bool) -> None:
    """The input's products, which are written to ``products``, and all steps, in one chunk."""
    k.for_chunks(_ShortForwards(k, element, cell, program, has_bias, False, True).chunk)


class _ShortForwards(Forwards):
    """``Forwards`` behind the input's products."""

    record = ShortArguments
    without = ()

    def chunk(self, c: Value) -> None:
        self.k.loop(self.k.const(0, "i64"), self.a.total, self.products)
        super().chunk(c)

    def products(self, row: Value) -> None:
        """A row of the input times the weights, with their bias."""
        k, a, element, lanes = self.k, self.a, self.element, self.lanes
        line, width = k.at(a.input, row * a.features, element), a.hidden * self.gates

        def some(u: Value, mask: Value | None) -> None:
            sums = row_sums(k, element, line, a.weight_ih, u, width - 1, a.features)
            sums = sums + k.load(a.bias_ih, u, element, lanes, mask) if self.has_bias else sums
            k.store(sums, a.products, row * width + u, element, mask)

        k.vector_loop(0, width, lanes, some)


# -- backwards ------------------------------------------------------------------------------------------------------------------------
class ShortSlopeArguments(SlopeArguments):
    input: Array
    weight_ih: Array
    d_input: Array
    d_weight_ih: Array
    d_weight_hh: Array
    d_bias_ih: Array
    d_bias_hh: Array
    table: Array
    features: Integer
    total: Integer
    steps: Integer
    batch: Integer
    hidden: Integer
    rows: Integer


@kernel
def short_backwards(k: Builder, element: str, cell: Any, program: Program, has: tuple[bool, ...], needs_input: bool) -> None:
    """All steps, and the gradients that are sums over their rows, in one chunk."""
    k.for_chunks(_ShortBackwards(k, element, cell, program, has, needs_input).chunk)


class _ShortBackwards(Backwards):
    """``Backwards`` with the weights as they lie, and the sums behind it."""

    record = ShortSlopeArguments
    without = ()

    def __init__(self, k: Builder, element: str, cell: Any, program: Program, has: tuple[bool, ...], needs_input: bool):
        super().__init__(k, element, cell, program, has)
        self.needs_input = needs_input

    def sizes(self) -> tuple[int, int]:
        return self.lanes, 1

    def multiply(self, source: Value, u: Value, height: Value) -> None:
        k, a = self.k, self.a
        length = a.hidden * self.gates

        def sums(mask: Value | None) -> None:
            k.store(self._over_rows(source, 1, a.weight, a.hidden, u, length, mask), self.sums, 0, self.element)

        whole_or_masked(k, u, a.hidden, self.lanes, sums)

    def _over_rows(self, factors: Value, pitch: Any, lines: Value, width: Value, u: Value, count: Value, mask: Value | None) -> Value:
        """The sum of ``count`` lines' elements from ``u`` on, each line times a factor; factors lie ``pitch`` apart, lines ``width``."""
        k, element, lanes = self.k, self.element, self.lanes

        def add(i: Value, total: Value) -> Value:
            line = k.load(lines, i * width + u, element, lanes, mask)
            return k.fma(k.splat(k.load(factors, i * pitch, element), lanes), line, total)

        def several(i: Value, *total: Value) -> list[Value]:
            return [add(i + way, each) for way, each in enumerate(total)]

        main, zero = count // WAYS * WAYS, k.const(0, element, lanes)
        total = as_tuple(k.loop(k.const(0, "i64"), main, several, step=WAYS, carried=[zero] * WAYS))
        return k.loop(main, count, add, carried=[(total[0] + total[1]) + (total[2] + total[3])])

    def chunk(self, c: Value) -> None:
        k, a = self.k, self.a
        super().chunk(c)
        self._weights(a.before, a.hidden, a.d_weight_hh)
        self._biases(a.d_bias_hh)
        if self.cell.has_part:  # the input's part of the last gate is not multiplied
            k.loop(k.const(0, "i64"), a.total, self._part)
        self._weights(a.input, a.features, a.d_weight_ih)
        self._biases(a.d_bias_ih)
        if self.needs_input:
            k.loop(k.const(0, "i64"), a.total, self._input)

    def _weights(self, lines: Value, width: Value, to: Value) -> None:
        """Gradients of weights that were multiplied with ``lines``."""
        k, a, element, wide = self.k, self.a, self.element, self.a.hidden * self.gates

        def row(j: Value) -> None:
            factors = k.at(a.d_products, j, element)

            def some(u: Value, mask: Value | None) -> None:
                k.store(self._over_rows(factors, wide, lines, width, u, a.total, mask), to, j * width + u, element, mask)

            k.vector_loop(0, width, self.lanes, some)

        k.loop(k.const(0, "i64"), wide, row)

    def _biases(self, to: Value) -> None:
        k, a, element, lanes, wide = self.k, self.a, self.element, self.lanes, self.a.hidden * self.gates

        def some(u: Value, mask: Value | None) -> None:
            def add(row: Value, total: Value) -> Value:
                return total + k.load(a.d_products, row * wide + u, element, lanes, mask)

            k.store(k.loop(k.const(0, "i64"), a.total, add, carried=[k.const(0, element, lanes)]), to, u, element, mask)

        k.vector_loop(0, wide, lanes, some)

    def _part(self, row: Value) -> None:
        """Put a row's gradient at the input's part of the last gate in the place of that of its sum."""
        k, a, element, lanes = self.k, self.a, self.element, self.lanes
        place = (row + 1) * (a.hidden * self.gates) - a.hidden

        def some(u: Value, mask: Value | None) -> None:
            k.store(k.load(a.d_part, row * a.hidden + u, element, lanes, mask), a.d_products, place + u, element, mask)

        k.vector_loop(0, a.hidden, lanes, some)

    def _input(self, row: Value) -> None:
        """The gradient of a row of the input."""
        k, a, wide = self.k, self.a, self.a.hidden * self.gates
        factors, to = k.at(a.d_products, row * wide, self.element), k.at(a.d_input, row * a.features, self.element)

        def some(u: Value, mask: Value | None) -> None:
            k.store(self._over_rows(factors, 1, a.weight_ih, a.features, u, wide, mask), to, u, self.element, mask)

        k.vector_loop(0, a.features, self.lanes, some)


# -- plans ------------------------------------------------------------------------------------------------------------------------------
class _Plan(NamedTuple):
    """One way of a layer: ``run`` takes arrays in the record's order; and the shapes of some of them."""

    run: Callable[..., None]
    output: tuple[int, ...]
    gates: tuple[int, int]
    kept: tuple[int, int]


_plans: dict[Any, _Plan | None] = {}  # by shapes and what else they depend on; None where a layer goes another way


def _remembered(key: Any, plan: _Plan | None) -> _Plan | None:
    if len(_plans) > 256:
        _plans.clear()
    _plans[key] = plan
    return plan


def _shapes(
    cell: Any, sizes: tuple[int, ...], input: np.ndarray, states: tuple[np.ndarray, ...], weight_ih: Any, weight_hh: Any
) -> tuple[int, ...] | None:
    """Sizes of a layer that goes this way, in the order of its records."""
    total, features, hidden = sum(sizes), input.shape[-1], states[0].shape[-1]
    weights = cell.gates * hidden * (features + hidden)
    if not fit(cell, sizes, states, input, weight_ih, weight_hh) or weights > LIGHT or not 0 < total * weights <= LITTLE:
        return None
    return features, total, len(sizes), sizes[0], hidden, sizes[0]


def _plan_forwards(
    cell: Any, sizes: tuple[int, ...], reverse: bool, input: np.ndarray, states: tuple[np.ndarray, ...], weights: tuple[np.ndarray, ...],
    biases: tuple[np.ndarray, ...],
) -> _Plan | None:  # fmt: skip
    shapes = _shapes(cell, sizes, input, states, *weights)
    if shapes is None or any(bias.shape != weights[0].shape[:1] for bias in biases):
        return None
    dtype, hidden, total = input.dtype, states[0].shape[-1], shapes[1]
    program = program_of(cell.forwards, cell.gates + cell.has_cell + 2 * cell.has_part, dtype)
    run = short_forwards(ELEMENTS[dtype], cell, program, bool(biases)).call(1, table_of(sizes, reverse), *shapes, 1)
    return _Plan(run, (*input.shape[:-1], hidden), (total, cell.gates * hidden), (total, hidden))


def forwards(
    cell: Any, input: np.ndarray, states: tuple[np.ndarray, ...], weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, sizes: Any,
    reverse: bool,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    """Output, last states, gates and what is kept beside them; None where there is much to do, or something is unusual or wrong."""
    if (bias_ih is None) != (bias_hh is None):
        return None
    dtype, h, c = input.dtype, states[0], states[-1]
    has_bias, first_bias, second_bias = (False, h, h) if bias_ih is None else (True, bias_ih, bias_hh)
    for array in (input, h, c, weight_ih, weight_hh, first_bias, second_bias):
        if array.dtype is not dtype or not array.flags.c_contiguous:
            return None
    key = (
        *(cell, dtype, has_bias, input.shape, h.shape, c.shape, weight_ih.shape, weight_hh.shape, first_bias.shape, second_bias.shape),
        *(sizes, reverse),
    )
    try:
        plan = _plans[key]
    except KeyError:
        biases = (bias_ih, bias_hh) if has_bias else ()
        plan = _plan_forwards(cell, sizes_of(input, sizes), reverse, input, states, (weight_ih, weight_hh), biases)
        _remembered(key, plan)
    if plan is None:
        return None
    output, gates, last = np.empty(plan.output, dtype), np.empty(plan.gates, dtype), np.empty(h.shape, dtype)
    kept = np.empty(plan.kept, dtype) if cell.has_cell or cell.has_part else output
    cells = np.empty(h.shape, dtype) if cell.has_cell else last
    plan.run(gates, gates, kept, output, last, h, cells, c, weight_hh, second_bias, input, weight_ih, first_bias)
    if cell.has_cell:
        return output, last, cells, gates, kept
    return (output, last, gates, kept) if cell.has_part else (output, last)


def _plan_backwards(
    cell: Any, sizes: tuple[int, ...], reverse: bool, input: np.ndarray, states: tuple[np.ndarray, ...], weights: tuple[np.ndarray, ...],
    has: tuple[bool, ...], needs_input: bool,
) -> _Plan | None:  # fmt: skip
    shapes = _shapes(cell, sizes, input, states, *weights)
    if shapes is None:
        return None
    dtype, hidden, total, has_more = input.dtype, states[0].shape[-1], shapes[1], cell.has_cell or cell.has_part
    formula = cell.backwards_with_state if cell.has_cell else cell.backwards
    program = program_of(formula, 1 + cell.has_cell + (cell.gates + 2 if has_more else 1), dtype)
    run = short_backwards(ELEMENTS[dtype], cell, program, has, needs_input).call(1, table_of(sizes, reverse), *shapes)
    return _Plan(run, input.shape if needs_input else (0, cell.gates * hidden), (total, cell.gates * hidden), (total, hidden))


def backwards(
    cell: Any, grads: tuple[np.ndarray | None, ...], input: np.ndarray, states: tuple[np.ndarray, ...], weight_ih: Any, weight_hh: Any,
    output: np.ndarray | None, saved: tuple[np.ndarray, ...], sizes: Any, reverse: bool, needs_input: bool,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    """Gradients of input, first states, weights and biases; None as for ``forwards``.

    Args:
        grads: of output and last states. output: not read where ``saved`` are gates and cells.
    """
    dtype, h, c = input.dtype, states[0], states[-1]
    grad, *of_last = [h if grad is None else np.ascontiguousarray(grad) for grad in grads]
    gates, kept = saved or (output, output)
    first = c if cell.has_cell else h
    output = kept if output is None else output
    for array in (grad, *of_last, input, h, first, weight_ih, weight_hh, gates, kept, output):
        if array is None or array.dtype is not dtype or not array.flags.c_contiguous:
            return None
    has = tuple([grad is not None for grad in grads])
    key = (cell, dtype, has, input.shape, h.shape, c.shape, weight_ih.shape, weight_hh.shape, sizes, reverse, needs_input)
    try:
        plan = _plans[key]
    except KeyError:
        own = sizes_of(input, sizes)
        plan = _remembered(key, _plan_backwards(cell, own, reverse, input, states, (weight_ih, weight_hh), has, needs_input))
    if plan is None:
        return None
    d_products, before = np.empty(plan.gates, dtype), np.empty(plan.kept, dtype)
    d_part = np.empty(plan.kept, dtype) if cell.has_part else d_products
    d_input, d_weight_ih, d_weight_hh = np.empty(plan.output, dtype), np.empty(weight_ih.shape, dtype), np.empty(weight_hh.shape, dtype)
    d_bias_ih, d_bias_hh = np.empty(weight_hh.shape[:1], dtype), np.empty(weight_hh.shape[:1], dtype)
    started = [np.empty(h.shape, dtype) for _ in of_last]
    plan.run(
        *(grad, gates, kept, kept if cell.has_cell else output, first, output, h, before, of_last[0], of_last[-1], d_products, d_part),
        *(started[0], started[-1], weight_hh, input, weight_ih, d_input, d_weight_ih, d_weight_hh, d_bias_ih, d_bias_hh),
    )
    return d_input, *started, d_weight_ih, d_weight_hh, d_bias_ih, d_bias_hh
