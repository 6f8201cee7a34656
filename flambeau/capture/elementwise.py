"""Element-wise nodes as kernels: the program of a node, or of a group, and its launch over arrays that lie anyhow.

An operation's reference kernel, run on symbols, is its program (``kernels/compiler/expression``). Members of a group are run one after the
other on the same symbols, so that a group of any size is one kernel, which reads each input once and writes only what others need.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..core.calls.casting import cast_array, number_array
from ..core.calls.interruption import pass_on, source_files
from ..core.shape import contiguous_strides
from ..core.state import run_ignoring_fp
from ..kernels.compiler.build import NoKernel
from ..kernels.compiler.expression import Program, Untraceable, trace
from ..kernels.compiler.language import ELEMENTS, register_element
from ..kernels.compiler.pool import pool
from ..kernels.families import copies, pointwise
from .graph import Node, Value

_HALVES = ("f16", "bf16")
ACROSS = 1 << 12  # elements: from here on an operand that lies across the result is copied first, tile by tile


class Layout(NamedTuple):
    """Shape and strides (bytes) of an array, and its dtype."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


class Run(NamedTuple):
    """One launch: a machine function, its arguments with 0 in place of arrays, which arrays those are, and the number of chunks.

    Attributes:
        arrays: (place among the arguments, what lies there): indices of operands, or arrays of the launch's own.
    """

    address: int
    words: tuple[Any, ...]
    slots: str
    arrays: tuple[tuple[int, Any], ...]
    chunks: int


def layout_of(value: Value) -> Layout:
    return Layout(value.shape, value.strides, value.dtype)


def is_row_major(value: Value) -> bool:
    steps = [step * value.dtype.itemsize for step in contiguous_strides(value.shape)]
    return all(n == 1 or step == stride for n, step, stride in zip(value.shape, steps, value.strides, strict=True))


def computed(node: Node, values: Sequence[Any]) -> Any:
    """An element-wise operation on symbols and numbers: casts, the reference kernel, a cast of the result."""
    op, (compute, result) = node.op, node.dtypes
    arguments = list(values)
    if compute is not None:
        for i in op.positions:
            if isinstance(arguments[i], (bool, int, float)):
                arguments[i] = number_array(arguments[i], compute)
            elif arguments[i] is not None:
                arguments[i] = cast_array(arguments[i], compute)
    split = len(arguments) - len(op.keyword_names)
    made = op.kernel(*arguments[:split], **dict(zip(op.keyword_names, arguments[split:], strict=True)))
    return cast_array(made, result) if result is not None and made.dtype != result.numpy else made


def program_of(nodes: Sequence[Node], inputs: Sequence[Value], outputs: Sequence[Value]) -> Program:
    """The program of element-wise nodes, from ``inputs`` to ``outputs``.

    Raises:
        Untraceable: there is none.
    """

    def call(*symbols: Any) -> tuple[Any, ...]:
        have = dict(zip(inputs, symbols, strict=True))
        for node in nodes:
            made = computed(node, [have[arg].copy() if arg.__class__ is Value else arg for arg in node.args])
            if not hasattr(made, "writer") or made.dtype != node.outs[0].dtype:
                raise Untraceable("a result that the recording did not have")
            have[node.outs[0]] = made
        return tuple([have[value] for value in outputs])

    program: Program = run_ignoring_fp(trace, call, list(inputs), [value.dtype for value in inputs])
    if program.nonzero:
        raise Untraceable("a division whose divisors are looked at first")
    return program


_DIVISIONS = frozenset(("floor_divide", "remainder", "fmod", "_divide_rounded"))


def divides_integers(node: Node) -> bool:
    """Whether a node raises where a divisor is zero; kernels look for zeros before they run."""
    return node.kind == "op" and node.op.name in _DIVISIONS and any(value.dtype.kind in "iu" for value in node.inputs())


_known: dict[Any, bool] = {}


def has_program(node: Node) -> bool:
    """Whether a node is an element-wise operation that a kernel can do."""
    if node.kind != "op" or not node.op.elementwise or len(node.outs) != 1:
        return False
    if not all(arg.__class__ is Value or not _holds_values(arg) for arg in node.args):
        return False
    for value in (*node.inputs(), *node.outs):
        element = ELEMENTS.get(value.dtype)
        if element is None or element in _HALVES:
            return False
    try:
        key = (node.op, node.dtypes, *[arg.dtype if arg.__class__ is Value else pointwise.fixed(arg) for arg in node.args])
        return _known[key]
    except KeyError:
        found = _known[key] = _traces(node)
        return found
    except TypeError as error:  # an attribute that cannot be hashed
        pass_on(error)
        return _traces(node)


def _holds_values(arg: Any) -> bool:
    return arg.__class__ in (list, tuple) and any(each.__class__ is Value or _holds_values(each) for each in arg)


def _traces(node: Node) -> bool:
    try:
        program_of([node], list(dict.fromkeys(node.inputs())), node.outs)
    except Exception as error:  # a symbol is no array: whatever goes wrong, the operation's own way is right
        pass_on(error, *source_files(node.op.kernel))
        return False
    return bool(node.outs[0].node is not None)


# -- launches -------------------------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=1024)
def runs_of(program: Program, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]) -> tuple[Run, ...] | None:
    """Launches of a program over arrays that lie so; None where rows of the results are not contiguous.

    Arrays are numbered, inputs first; further numbers are scratch for inputs that are copied first (see ``scratch_of``).
    """
    shape = outputs[0].shape
    if not outputs[0].size:
        return ()
    given = list(inputs)
    numbers = list(range(len(inputs)))
    before: list[Run] = []
    for i, copied in enumerate(scratch_of(inputs, outputs)):
        if copied is not None:
            numbers[i] = len(inputs) + len(outputs) + len(before)
            run = copy_run(given[i], copied, i, numbers[i])
            if run is None:
                return None
            before.append(run)
            given[i] = copied
    numbers += range(len(inputs), len(inputs) + len(outputs))
    last = _run(program, shape, given, list(outputs), numbers)
    return None if last is None else (*before, last)


@lru_cache(maxsize=1024)
def scratch_of(inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]) -> tuple[Layout | None, ...]:
    """For each input, the layout in which it is copied first; None where it is read as it lies."""
    shape, strides = outputs[0].shape, outputs[0].strides
    found: list[Layout | None] = []
    for layout in inputs:
        steps = [s for n, s in zip(shape, strides, strict=True) if n > 1]
        own = [s for n, s in zip(layout.shape, layout.strides, strict=True) if n > 1] if layout.shape == shape else []
        lies_across = bool(own) and own[steps.index(min(steps))] != layout.dtype.itemsize and 0 not in own
        if layout.size < ACROSS or not lies_across:
            found.append(None)
            continue
        size = outputs[0].dtype.itemsize
        found.append(Layout(shape, tuple([s // size * layout.dtype.itemsize for s in strides]), layout.dtype))
    return tuple(found)


def wide_strides(layout: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array that is broadcast to ``shape``."""
    missing = len(shape) - len(layout.shape)
    steps = [0 if n == 1 else s for n, s in zip(layout.shape, layout.strides, strict=True)]
    return (*[0] * missing, *steps)


def _run(program: Program, shape: tuple[int, ...], inputs: list[Layout], outputs: list[Layout], numbers: list[int]) -> Run | None:
    layouts = [*inputs, *outputs]
    elements = [ELEMENTS[layout.dtype] for layout in layouts]
    found = pointwise.merged_strides(
        shape, tuple([wide_strides(layout, shape) for layout in layouts]), tuple([layout.dtype.itemsize for layout in layouts]), len(inputs)
    )
    if found is None:
        return None
    length, depth, steps, geometry = found
    words = ["c" if i >= len(inputs) and length == 1 else pointwise.step_word(step) for i, step in enumerate(steps)]
    if any(word != "c" for word in words[len(inputs) :]):
        return None
    is_flat = not depth and all(word == "c" for word in words)
    operands = tuple([(element, register_element(element), word) for element, word in zip(elements, words, strict=True)])
    reads, writes = operands[: len(inputs)], operands[len(inputs) :]
    size, total = pointwise.chunk_size(program), outputs[0].size
    try:
        kernel = (pointwise.flat if is_flat else pointwise.rows)(program, reads, writes)
    except (NoKernel, Untraceable):
        return None
    arrays: list[tuple[int, Any]] = list(enumerate(numbers))
    if is_flat:
        size = pointwise.stretch(total, size, pool.threads)
        more: tuple[int, ...] = (total, size)
        chunks = -(-total // size)
    else:
        units, per_chunk = total // length * -(-length // size), max(1, size // length)
        arrays.append((len(numbers), geometry))
        more, chunks = (0, depth, length, units, per_chunk), -(-units // per_chunk)
    return Run(kernel.address, (*[0] * len(numbers), *more), kernel.slots, tuple(arrays), chunks)


def copy_run(source: Layout, target: Layout, source_number: int, target_number: int) -> Run | None:
    """The launch that copies an array, broadcast, to another of its dtype; None where there is no kernel for the layouts."""
    size = target.dtype.itemsize
    if source.dtype != target.dtype or size not in (1, 2, 4, 8, 16) or not target.size:
        return None
    steps = [s for n, s in zip(target.shape, target.strides, strict=True) if n > 1]
    if 0 in steps:
        return None
    try:
        kernel, chunks, table = copies.plan(target.shape, wide_strides(source, target.shape), target.strides, size)
    except NoKernel:
        return None
    return Run(kernel.address, (0, 0, 0), kernel.slots, ((0, source_number), (1, target_number), (2, table)), chunks)
