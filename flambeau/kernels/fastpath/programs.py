"""The form of element-wise operations that are several ufuncs, found by calling their kernels with stand-ins of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ...core.calls.wrapper_source import CHECKED
from ..compiler.language import Value
from . import records
from .code import Code
from .elementwise import Elementwise, put_large
from .interpreter import loop_of
from .records import DTYPES, Unfit

_BLOCK = 512  # elements that go through all steps at once; of a power of two, vectors end where they would end otherwise
_TEMPORARIES = 6
_ARGUMENT, _TEMPORARY, _CONSTANT, _RESULT = range(
    4
)  # where an operand of a step is: (which of these, number or address, bytes of an element)
_STEP = 3 + 3 * 4  # words of a step: loop, its data, number of operands with the result, and those
_COUNT = records.EXTRA  # number of tensors
_FLOATS = DTYPES[:2]


class _StandIn(NDArrayOperatorsMixin):
    """Stands for a small array, and notes what ufuncs are called with it."""

    ndim = 2

    def __init__(self, trace: _Trace, place: tuple[int, int], dtype: np.dtype):
        self.trace, self.place, self.dtype = trace, place, dtype
        self.size, self.shape = trace.size, (trace.size // 4, 4)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options or ufunc.nout != 1 or ufunc.nin > 2 or ufunc.signature is not None:
            raise Unfit(ufunc.__name__)
        return self.trace.call(ufunc, inputs)

    def __pow__(self, other: Any) -> Any:
        raise Unfit("pow")  # of arrays it is several functions

    __rpow__ = __ipow__ = __pow__

    def __bool__(self) -> bool:
        raise Unfit("a kernel that looks at values")


def _kind_of(operand: Any) -> Any:
    """An operand's dtype, or the class of a Python number: they decide about the loop."""
    if isinstance(operand, _StandIn):
        return operand.dtype
    return operand.__class__ if operand.__class__ in (int, float) else np.asarray(operand).dtype


class _Trace:
    """Ufuncs that a kernel calls, for operands of one dtype and size."""

    def __init__(self, dtype: np.dtype, count: int, size: int):
        self.size = size
        self.operands = [_StandIn(self, (_ARGUMENT, k), dtype) for k in range(count)]
        self.steps: list[tuple[tuple[int, int], list[tuple[int, Any, np.dtype]], np.dtype]] = []
        self.constants: list[np.ndarray] = []

    def call(self, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> _StandIn:
        """Note a step.

        Raises:
            Unfit: there is no loop for operands as they are.
        """
        given = [_kind_of(each) for each in inputs]
        try:
            *inner, result = ufunc.resolve_dtypes((*given, None))
        except TypeError:
            raise Unfit(ufunc.__name__) from None
        loop = loop_of(ufunc, f"{''.join(each.char for each in inner)}->{result.char}")
        if loop is None or result not in DTYPES:
            raise Unfit(ufunc.__name__)
        places = []
        for each, dtype in zip(inputs, inner, strict=True):
            if not isinstance(each, _StandIn):
                if np.ndim(each) or dtype not in DTYPES:
                    raise Unfit(ufunc.__name__)
                self.constants.append(np.full((), each, dtype))
                places.append((_CONSTANT, self.constants[-1].ctypes.data, dtype))
            elif each.dtype != dtype:
                raise Unfit(ufunc.__name__)
            else:
                places.append((*each.place, dtype))
        made = _StandIn(self, (_TEMPORARY, len(self.steps)), result)
        self.steps.append((loop, places, result))
        return made

    def run(self, op: Any, attrs: list[Any]) -> np.dtype | None:
        """Let the operation's kernel run; the result's dtype, or None where it is more than ufuncs."""
        try:
            made = op.fast(*self.operands, *attrs)
        except Exception:  # whatever a kernel wants of an array that a stand-in has not
            return None
        is_last = isinstance(made, _StandIn) and made.place == (_TEMPORARY, len(self.steps) - 1)
        return made.dtype if is_last and (made.dtype == self.operands[0].dtype or op.promotion not in CHECKED) else None

    def facts(self) -> Any:
        """Its steps and constants, to be compared."""
        steps = [(loop, [place for place in places if place[0] != _CONSTANT], result) for loop, places, result in self.steps]
        return steps, [constant.tobytes() for constant in self.constants]

    def words(self) -> np.ndarray:
        """The steps, the last of which makes the result, as machine code reads them.

        Raises:
            Unfit: there are more values at a time than places for them.
        """
        last_use = {place[1]: k for k, (_, places, _) in enumerate(self.steps) for place in places if place[0] == _TEMPORARY}
        free: list[int] = list(range(_TEMPORARIES))
        where: dict[int, int] = {}
        words = np.zeros(1 + _STEP * len(self.steps), np.uint64)
        words[0] = len(self.steps)
        for k, (loop, places, result) in enumerate(self.steps):
            own = []
            for kind, number, dtype in places:
                own.append((kind, where[number] if kind == _TEMPORARY else number, dtype.itemsize))
            if k == len(self.steps) - 1:
                own.append((_RESULT, 0, result.itemsize))
            elif not free:
                raise Unfit("too many values")
            else:
                where[k] = free.pop(0)
                own.append((_TEMPORARY, where[k], result.itemsize))
            at = 1 + _STEP * k
            words[at : at + 3] = (*loop, len(own))
            for j, triple in enumerate(own):
                words[at + 3 + 3 * j : at + 6 + 3 * j] = triple
            free += sorted({where[number] for kind, number, _ in places if kind == _TEMPORARY and last_use[number] == k})
        return words


def program(code: Code) -> str:
    """An element-wise operation of up to three tensors of one shape."""
    k = Elementwise(code, "program")
    count = k.word(_COUNT)
    k.require_count(count)
    x = k.argument(0)
    k.require(k.is_plain(x))
    k.require_no_mode()
    bits, a = k.needed(), k.array_of(x)
    _, steps, _, result = k.loop_for(k.dtype(a), (0, 1))
    n, no_short = k.measured(a)
    k.require_usual_strides([x], no_short)
    arrays, data, ndim = k.scratch(3, "ptr"), k.scratch(3, "ptr"), k.ndim(a)
    k.store(a, arrays, 0, "ptr")
    k.store(k.data(a), data, 0, "ptr")

    def other(i: Value) -> None:
        y = k.argument(i)
        k.require(k.is_plain(y))
        b = k.array_of(y)
        k.require(k.same(k.dtype(b), k.dtype(a)) & k.same_sizes(b, a, k.dims))
        k.require_usual_strides([y], no_short)
        k.store(b, arrays, i, "ptr")
        k.store(k.data(b), data, i, "ptr")

    k.loop(1, count, other)
    k.case(k.is_large(n), lambda: k.launch_large(a, arrays, count, n, bits))
    k.require(n < k.word(records.LIMIT))
    r = k.new_array(result, ndim, k.dims(a))
    at, room = k.data(r), k.scratch(_TEMPORARIES * _BLOCK, "i64")
    places, strides, length = k.scratch(3, "ptr"), k.scratch(3, "i64"), k.scratch(1, "i64")

    def block(begin: Value) -> None:
        left = n - begin
        k.store(k.pick(left < _BLOCK, left, k.i64(_BLOCK)), length, 0, "i64")

        def step(s: Value) -> None:
            words = k.at(steps, s * _STEP + 1, "i64")

            def operand(j: Value) -> None:
                kind, number, size = (k.load(words, j * 3 + 3 + field, "i64") for field in range(3))

                def argument() -> Value:
                    return k.at(k.load(data, number, "ptr"), begin * size, "i8")

                def constant() -> Value:
                    return k.load(words, j * 3 + 4, "ptr")

                def temporary() -> Value:
                    return k.at(room, number * _BLOCK, "i64")

                def elsewhere() -> Value:
                    return k.when(kind.eq(_TEMPORARY), temporary, lambda: k.at(at, begin * size, "i8"))

                here = k.when(kind.eq(_ARGUMENT), argument, lambda: k.when(kind.eq(_CONSTANT), constant, elsewhere))
                k.store(here, places, j, "ptr")
                k.store(k.pick(kind.eq(_CONSTANT), k.i64(0), size), strides, j, "i64")

            k.loop(0, k.load(words, 2, "i64"), operand)
            k.call_c(k.load(words, 0, "ptr"), None, places, length, strides, k.load(words, 1, "ptr"))

        k.loop(0, k.load(steps, 0, "i64"), step)

    k.loop(0, n, block, step=_BLOCK)
    k.answer_new(r, bits)
    return k.finish()


def of_programs(op: Any) -> records.Record:
    """The record of an element-wise operation whose fast kernel calls ufuncs alone, all but the operands being at their defaults.

    Raises:
        Unfit: it is none of this form.
    """
    operands = [p.name for p in op.params if p.kind != "attr"]
    attrs = [p.default for p in op.params if p.kind == "attr"]
    kinds = {p.kind for p in op.params}
    if (
        not op.elementwise
        or not callable(op.fast)
        or len(operands) > 3
        or not kinds <= {"tensor", "number", "attr"}
        or "cpu" in op.autocast
    ):
        raise Unfit(op.name)
    record = records.Record()
    record.put_limit(op)
    limits = []
    for dtype in _FLOATS:
        trace = _Trace(dtype, len(operands), 16)
        made = trace.run(op, attrs)
        if made is None:
            continue
        limits.append(_limit_of(op, attrs, trace, int(record.words[records.LIMIT])))
        place, words = records.LOOPS + 3 * DTYPES.index(dtype), trace.words()
        record.kept += [words, *trace.constants]
        record.put(place, words.ctypes.data)
        record.keep(place + 2, DTYPES[DTYPES.index(made)])
    if not limits:
        raise Unfit(op.name)
    record.put(_COUNT, len(operands))
    put_large(record, op)
    record.put(records.LIMIT, min(limits))
    record.put_history(op, {name: k for k, name in enumerate(operands)})
    return record


def _limit_of(op: Any, attrs: list[Any], trace: _Trace, most: int) -> int:
    """Up to how many elements the kernel takes the same steps."""
    first = trace.operands[0]
    for size in (most, 4096, 1024):
        if not 20 < size <= most:
            continue
        other = _Trace(first.dtype, len(trace.operands), size - 4)
        if other.run(op, attrs) is not None and other.facts() == trace.facts():
            return size - 4
    return min(most, 17)
