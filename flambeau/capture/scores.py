"""Programs of what a user's ``score_mod`` and ``mask_mod`` do to one score, for kernels of attention to contain.

The function is run once, on 0-d tensors, while a ``Recorder`` notes the kernels that run, those of its derivative too. Each note
becomes an instruction over numbered values: the operation's reference kernel is called with a ``Symbol``. Indexing an array that the
function knows from elsewhere becomes an instruction that looks into it.

    lambda score, b, h, q, kv: score + bias[h, q - kv + 7]

    2: input h   3: input q   4: input kv   5: subtract 3 4   6: constant 7   7: add 5 6   8: look into array 0 at (2, 7)   9: add 0 8

An index may be anything whose range follows from the numbers of batches, heads, queries and keys, and from the smallest and largest
element of arrays that are looked into, so that a kernel need not look for indices out of range. Whatever is not understood, or has more
than one element, leaves the whole call to tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays.kinds import call_kernel
from ..core.calls.casting import number_array
from ..core.calls.interruption import pass_on, source_files
from ..core.state import grad_enabled, thread, tick
from ..core.tensor import Tensor, wrap
from ..kernels.compiler.expression import Gather, Program, Symbol, Untraceable, Writer, needed
from ..kernels.compiler.language import ELEMENTS, register_element
from ..kernels.families.flexible_attention import Blocks, ScoredCall, flex_attention, flex_attention_backward, tile_sizes
from ..kernels.families.flexible_attention_kernels import Scored
from .graph import Node, Value
from .recorder import Recorder

__all__ = ["attend", "attend_backward", "scored_call"]

Range = tuple[int, int]
_COPIES = frozenset(("clone", "_to_copy"))  # operations whose result has their operand's values
_SAMPLE = 0.5  # a score
_LONGEST = 400  # instructions of programs together


class _OneScore(Recorder):
    """Records one run of a function; memory that was there before is captured."""

    def _survey(self) -> None:
        self._older, self._grads, self.before = {}, {}, []

    def _from_outside(self, root: np.ndarray) -> Value:
        value = Value.like(root, "held")
        self.held.append(value)
        self._keep.append(root)
        self._roots[id(root)], self._samples[value] = value, root
        return value

    def position(self, index: Tensor) -> Any:
        return index._array

    def _indices(self, indices: Any) -> list[Any]:
        return [each if each is None or each.__class__ is int else self.value(each) for each in indices]


class _Translation:
    """Programs of functions of one call, and the arrays that they look into.

    Args:
        sizes: numbers of batches, heads, queries and keys.
    """

    def __init__(self, sizes: Sequence[int]):
        self.limits: list[Range] = [(0, max(size - 1, 0)) for size in sizes]
        self.captured: list[np.ndarray] = []
        self.learned: dict[int, Tensor] = {}  # tensors from elsewhere that need gradients, by id
        self.places: dict[Any, int] = {}  # of captured arrays, by memory and layout

    # -- recording ---------------------------------------------------------------------------------------------------------------
    def begin(self, dtype: np.dtype | None) -> list[Symbol]:
        """The arguments of a program as symbols: the score of that dtype, if there is one, batch, head, query and key."""
        self.writer = Writer()
        dtypes = [*([] if dtype is None else [dtype]), *[np.dtype(np.int64)] * 4]
        symbols = [
            Symbol(self.writer, self.writer.add("input", register_element(ELEMENTS[kind]), i), kind) for i, kind in enumerate(dtypes)
        ]
        places = range(len(dtypes) - 4, len(dtypes))
        self.ranges: dict[int, Range | None] = dict(zip(places, self.limits, strict=True))
        return symbols

    def recorded(self, function: Callable[..., Any], dtype: np.dtype | None, wants_slope: bool) -> list[Symbol | None]:
        """Results of a function as symbols: its own, and the derivative with respect to the score; None for one that is 0."""
        symbols = self.begin(dtype)
        tensors = [wrap(np.array(min(limit[1], 1))) for limit in self.limits]
        if dtype is not None:
            tensors.insert(0, wrap(np.array(_SAMPLE, dtype)))
        tensors[0]._requires_grad = wants_slope
        began = tick()
        self.recorder = recorder = _OneScore([tensor._array for tensor in tensors])
        outer = thread.recorder
        with recorder:
            results: list[Any] = [function(*tensors)]
            if not isinstance(results[0], Tensor) or results[0].numel() != 1:
                raise Untraceable("the result is not one element")
            if wants_slope:
                results.append(_derivative(results[0], tensors[0]))
        thread.recorder = outer
        if recorder.failure is not None or recorder.looks:
            raise Untraceable(recorder.failure or "Python looks at values")
        for number, tensor in recorder.outside.items():
            if grad_enabled() and tensor.requires_grad and (tensor._node is None or tensor._node.seq < began):  # a newer one is a part
                self.learned[number] = tensor
        self.parts: dict[Value, tuple[np.ndarray, list[Symbol]]] = {}  # of captured arrays, by what they are indexed with
        self.bases: dict[Value, Value] = {}  # of views, what they show a part of
        self.symbols: dict[Value, Symbol] = dict(zip(recorder.inputs, symbols, strict=True))
        values = [None if result is None else recorder.value(result._array) for result in results]
        for node in recorder.nodes:
            self._note(node)
        if len(self.writer.instructions) > _LONGEST:
            raise Untraceable("a long program")
        return [None if value is None else self._symbol(value) for value in values]

    # -- translating -------------------------------------------------------------------------------------------------------------
    def _note(self, node: Node) -> None:
        if node.kind == "view":
            base = node.args[0]
            self.bases[node.outs[0]] = self.bases.get(base, base)
            if base in self.symbols and node.outs[0].size == 1 and base.dtype == node.outs[0].dtype:
                self.symbols[node.outs[0]] = self.symbols[base]
            elif base in self.symbols:
                raise Untraceable("a view of a score")
            return  # of what is captured: its array is another one
        if node.kind != "op" or len(node.outs) != 1:
            raise Untraceable(node.label)
        out, op = node.outs[0], node.op
        if op.name == "_index" and out.size != 1:
            self.parts[out] = self._indexed(*node.args[:2])
            return
        if out.size != 1:
            raise Untraceable(f"{node.label}: more than one element")
        if op.name == "_index":
            symbol = self.looked_up(*self._indexed(*node.args[:2]))
        elif op.name in _COPIES:
            symbol = self._symbol(node.args[0])
        elif op.elementwise or op.pointwise:
            symbol = self._called(node)
        else:
            raise Untraceable(node.label)
        self.symbols[out] = symbol if symbol.dtype == out.dtype else symbol.astype(out.dtype)

    def _called(self, node: Node) -> Symbol:
        """An operation's reference kernel on symbols."""
        compute = node.dtypes[0]
        values = list(node.args)
        for i in node.op.positions:
            if isinstance(values[i], Value):
                symbol = self._symbol(values[i])
                values[i] = symbol if compute is None else symbol.astype(compute.numpy)
            elif compute is not None and isinstance(values[i], (bool, int, float)):
                values[i] = number_array(values[i], compute)
        if any(isinstance(value, (Value, list)) for value in values):
            raise Untraceable(node.label)
        made = call_kernel(node.op.kernel, node.op, values)
        if not isinstance(made, Symbol):
            raise Untraceable(f"{node.label} does not depend on its operands")
        return made

    def _symbol(self, value: Value) -> Symbol:
        """The symbol of a value; one element that is captured is looked up, or a constant."""
        if value in self.symbols:
            return self.symbols[value]
        array = self.recorder.sample(value)
        if array.size != 1:
            raise Untraceable("more than one element")
        if self.bases.get(value, value).fixed:
            number = array.astype(array.dtype).item()
            made = Symbol(self.writer, self.writer.add("constant", _register(array.dtype), number, repr(number)), array.dtype)
        else:
            made = self.looked_up(array.reshape(()), [])
        self.symbols[value] = made
        return made

    def _indexed(self, source: Value, indices: list[Any]) -> tuple[np.ndarray, list[Symbol]]:
        """The array behind ``source[indices]`` and its first indices: ``bias[h][q]`` is ``bias[h, q]``."""
        if source in self.symbols or not all(isinstance(index, Value) for index in indices):
            raise Untraceable("an index into what is computed, or of later dimensions")
        array, first = self.parts.get(source) or (self.recorder.sample(source), [])
        return array, [*first, *[self._symbol(index) for index in indices]]

    def looked_up(self, array: np.ndarray, indices: list[Symbol]) -> Symbol:
        """The element of a captured array at these indices."""
        if len(indices) != array.ndim:
            raise Untraceable("an index of some dimensions")
        limits = []
        for index, size in zip(indices, array.shape, strict=True):
            low, high = self._range(index.number)
            if low < -size or high >= size:
                raise Untraceable("an index that may be out of range")
            limits.append(low < 0)
        if any(step % array.itemsize for step in array.strides):
            array = np.ascontiguousarray(array)
        key = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        number = self.places.setdefault(key, len(self.captured))
        if number == len(self.captured):
            self.captured.append(array)
        place = self.writer.add(Gather(number, any(limits)), _register(array.dtype), *[index.number for index in indices])
        self.ranges.setdefault(place, (int(array.min()), int(array.max())) if array.dtype.kind in "iub" else None)
        return Symbol(self.writer, place, array.dtype)

    # -- ranges ------------------------------------------------------------------------------------------------------------------
    def _range(self, number: int) -> Range:
        """The smallest and largest value of an instruction with integers."""
        if number not in self.ranges:
            name, _, *rest = self.writer.instructions[number]
            rule = _RANGES.get(name)
            if name == "constant":
                self.ranges[number] = (rest[0], rest[0]) if isinstance(rest[0], int) else None
            elif rule is None:
                self.ranges[number] = None
            else:
                self.ranges[number] = rule(*[self._range(i) for i in (rest[1:] if name == "where" else rest)])
        found = self.ranges[number]
        if found is None:
            raise Untraceable("an index whose range is not known")
        return found


def _corners(function: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """The range of a function of two numbers that is monotonic in each."""

    def found(a: Range, b: Range) -> Range:
        values = [function(x, y) for x in a for y in b]
        return min(values), max(values)

    return found


def _quotient(a: Range, b: Range) -> Range | None:
    return _corners(lambda x, y: x // y)(a, b) if b[0] > 0 else None


def _absolute(a: Range) -> Range:
    values = [abs(each) for each in a]
    return 0 if a[0] <= 0 <= a[1] else min(values), max(values)


_RANGES: dict[Any, Callable[..., Range | None]] = {
    "add": _corners(lambda x, y: x + y),
    "subtract": _corners(lambda x, y: x - y),
    "multiply": _corners(lambda x, y: x * y),
    "minimum": _corners(min),
    "maximum": _corners(max),
    "negative": lambda a: (-a[1], -a[0]),
    "absolute": _absolute,
    "cast": lambda a: a,
    "positive": lambda a: a,
    "where": lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
    "floor_divide": _quotient,
    "remainder": lambda a, b: (0, b[1] - 1) if b[0] > 0 else None,
}


def _register(dtype: np.dtype) -> str:
    element = ELEMENTS.get(dtype)
    if element is None or element in ("f16", "bf16"):
        raise Untraceable(f"no instructions for {dtype}")
    return register_element(element)


def _derivative(result: Tensor, score: Tensor) -> Tensor | None:
    """The derivative of a function's result; None where it does not depend on the score."""
    from ..autograd.api import grad

    return grad(result.reshape(()), score, allow_unused=True)[0] if result.requires_grad else None


# -- a call's programs -----------------------------------------------------------------------------------------------------------------
def _score_programs(
    translation: _Translation, score_mod: Callable[..., Any] | None, dtype: np.dtype, wants_slope: bool
) -> tuple[Program | None, Program | None]:
    """The programs of scores and of their derivative; None for those that change nothing."""
    if score_mod is None:
        return None, None
    result, *slopes = translation.recorded(score_mod, dtype, wants_slope)
    writer = translation.writer
    one = writer.add("constant", _register(dtype), 1.0, "1.0")
    none = writer.add("constant", _register(dtype), 0.0, "0.0")
    number = _of_dtype(result, dtype)
    found = [None if number == 0 else number]
    for slope in slopes:
        number = none if slope is None else _of_dtype(slope, dtype)
        found.append(None if number == one else number)
    programs = [None if each is None else needed(Program(tuple(writer.instructions), (each,))) for each in found]
    return programs[0], programs[1] if slopes else None


def _of_dtype(symbol: Any, dtype: np.dtype) -> int:
    return int(symbol.astype(dtype).number)


def _mask_program(translation: _Translation, mask_mod: Callable[..., Any] | None, blocks: Blocks | None) -> Program | None:
    """The program of what is seen; with ``blocks`` it looks into their states, too."""
    if mask_mod is None and blocks is None:
        return None
    if mask_mod is None:
        arguments, seen = translation.begin(None), None
    else:
        (seen,) = translation.recorded(mask_mod, None, False)
        arguments = [translation.symbols[value] for value in translation.recorder.inputs]
        seen = None if seen is None else seen.astype(np.bool_)
    if blocks is not None:
        batch, head, query, key = arguments
        shared = [np.multiply(place, int(size != 1)) for place, size in zip((batch, head), blocks.states.shape, strict=False)]
        places = [np.floor_divide(place, size) for place, size in zip((query, key), blocks.sizes, strict=True)]
        state = translation.looked_up(blocks.states, [*shared, *places])
        some = np.equal(state, 1) if seen is None else np.logical_and(np.equal(state, 1), seen)
        seen = np.logical_or(np.equal(state, 2), some)
    writer = translation.writer
    return needed(Program(tuple(writer.instructions), (seen.number,)))  # type: ignore[union-attr]


def scored_call(
    score_mod: Callable[..., Any] | None,
    mask_mod: Callable[..., Any] | None,
    states: np.ndarray | None,
    block_size: tuple[int, int],
    dtype: np.dtype,
    sizes: tuple[int, int, int, int],
    wants_slope: bool,
) -> tuple[ScoredCall, list[Tensor]] | None:
    """A call's programs, for the kernels, and the tensors from elsewhere that need gradients; None where tensors have to do it.

    Args:
        score_mod, mask_mod: the user's functions; None for none.
        states: of the mask's blocks; None where all is looked at. block_size: queries and keys of a block.
        dtype: of the scores. sizes: numbers of batches, heads, queries and keys.
        wants_slope: whether there will be a backward pass.
    """
    blocks = None if states is None else Blocks(states, block_size)
    translation = _Translation(sizes)
    outer = thread.recorder
    try:
        score, slope = _score_programs(translation, score_mod, dtype, wants_slope)
        tiles = tile_sizes(dtype, *sizes[2:])
        are_whole = blocks is None or all(blocks.are_whole(*tile) for tile in tiles)
        mask = _mask_program(translation, mask_mod, None if are_whole else blocks)
    except Exception as error:  # a function that a recorder or a Symbol does not understand, or the user's error: tensors will raise it
        pass_on(error, *source_files(score_mod, mask_mod))
        return None
    finally:
        thread.recorder = outer
    captured = tuple([(ELEMENTS[array.dtype], array.ndim) for array in translation.captured])
    scored = Scored(score, slope, mask, captured, blocks is not None)
    return ScoredCall(scored, tuple(translation.captured), blocks, sizes[1]), list(translation.learned.values())


# -- running ----------------------------------------------------------------------------------------------------------------------------
def attend(query: np.ndarray, key: np.ndarray, value: np.ndarray, call: ScoredCall, scale: float) -> Any:
    """The results of attention, and the logarithms of the sums; see ``_told``."""
    return _told(flex_attention, (query, key, value), call, scale)


def attend_backward(*arrays: np.ndarray, call: ScoredCall, scale: float) -> Any:
    """The gradients of query, key and value, from that of the result, these, the result and the logarithms; see ``_told``."""
    return _told(flex_attention_backward, arrays, call, scale)


def _told(kernel: Callable[..., Any], arrays: tuple[np.ndarray, ...], call: ScoredCall, scale: float) -> Any:
    """The results of a kernel, told to a recorder if there is one."""
    recorder = thread.recorder
    if recorder is None:
        return kernel(*arrays, call, scale)
    with recorder.paused():
        made = kernel(*arrays, call, scale)

    def again(*given: Any) -> Any:
        operands, captured = given[: len(arrays)], given[len(arrays) :]
        return kernel(*operands, call._replace(captured=tuple(captured)), scale)

    recorder.call(again, (*arrays, *call.captured), made)
    return made
