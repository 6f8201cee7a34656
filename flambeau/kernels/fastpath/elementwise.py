"""Element-wise operations that are one ufunc: NumPy's loop, or for many elements the kernel that Python has had made, on the pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.kinds import host
from ..compiler.language import SIZES, Value
from ..compiler.memory import SMALL
from ..compiler.pool import LIMIT as THREADS
from ..families import pointwise
from . import records
from .code import Code
from .forms import Pointwise, common_end, number_cell
from .launching import Launching, put_pool
from .records import DTYPES, F32, F64, I64

# In the record: from how many elements on a kernel does it, the pool, and where the kernel for float32 will be, and how many elements
# its smallest chunks have.
_FROM, _POOL, _KERNEL = (records.EXTRA + 8 + k for k in range(3))
_NEVER = 1 << 62
_STEP = 1024  # elements: chunks are multiples
_kernels: dict[Any, np.ndarray] = {}  # by operation


class Elementwise(Pointwise, Launching):
    """A form of operations that have kernels for many elements."""

    def is_large(self, n: Value) -> Value:
        return n >= self.word(_FROM)

    def in_memory(self, arrays: Sequence[Value]) -> Value:
        """Arrays behind one another in memory."""
        table = self.scratch(len(arrays), "ptr")
        for place, array in enumerate(arrays):
            self.store(array, table, place, "ptr")
        return table

    def launch_large(self, a: Value, arrays: Value, count: Value, n: Value, bits: Value) -> None:
        """Answer with what the kernel makes of ``count`` row-major arrays of the size of ``a``, as ``pointwise.Plan`` launches it."""
        dtype, known = self.object(DTYPES[F32]), self.word(_KERNEL, element="ptr")
        kernel, least = self.load(known, 0, "ptr"), self.load(known, 1, "i64")
        self.require(self.exists(kernel) & self.same(self.dtype(a), dtype) & (n < SMALL // SIZES["f32"]))
        direct = self.require_launches(_POOL)
        threads = self.load(direct[1], THREADS, "i64")
        size = self.most(((n + threads - 1) // threads + (_STEP - 1)) & -_STEP, least)
        r = self.own(self.new_array(dtype, self.ndim(a), self.dims(a)))
        block = self.scratch(6, "i64")
        self.loop(0, count, lambda i: self.store(self.load(arrays, i, "ptr"), block, i, "ptr"))
        self.store(r, block, count, "ptr")
        self.store(n, block, count + 1, "i64")
        self.store(size, block, count + 2, "i64")
        self.launch_block(direct, kernel, block, (n + size - 1) // size)
        self.answer_new(self.disown(r), bits)


def unary(code: Code) -> str:
    """Element-wise operations of one tensor."""
    k = Elementwise(code, "unary")
    x, bits = k.enter(1)
    a = k.array_of(x)
    _, loop, data, result = k.loop_for(k.dtype(a))
    n, no_short = k.measured(a)
    k.require_usual_strides([x], no_short)
    k.case(k.is_large(n), lambda: k.launch_large(a, k.in_memory([a]), k.i64(1), n, bits))
    k.require(n < k.word(records.LIMIT))
    r = k.new_array(result, k.ndim(a), k.dims(a))
    k.run(loop, data, n, [(k.data(a), k.item_size(k.dtype(a))), (k.data(r), k.item_size(result))])
    k.answer_new(r, bits)
    return k.finish()


def binary(code: Code) -> str:
    """Element-wise operations of two tensors, the second of which may be the end of the first's shape, or of a tensor and a number."""
    k = Elementwise(code, "binary")
    x, bits = k.enter(2)
    y, a = k.argument(1), k.array_of(x)
    n, no_short = k.measured(a)

    def tensors() -> None:
        b = k.array_of(y)
        k.require(k.same(k.dtype(a), k.dtype(b)))
        _, loop, data, result = k.loop_for(k.dtype(a))
        inner = common_end(k, a, b)
        k.require_usual_strides([x, y], no_short)
        k.case(inner.eq(n) & k.is_large(n), lambda: k.launch_large(a, k.in_memory([a, b]), k.i64(2), n, bits))
        k.require(n < k.word(records.LIMIT))
        r = k.new_array(result, k.ndim(a), k.dims(a))
        size, result_size = k.item_size(k.dtype(a)), k.item_size(result)
        pa, pb, pr = k.data(a), k.data(b), k.data(r)

        def all_at_once() -> None:
            step = k.pick(inner.eq(1), k.i64(0), size)
            k.run(loop, data, n, [(pa, size), (pb, step), (pr, result_size)])

        def row(i: Value) -> None:
            k.run(loop, data, inner, [(k.at(pa, i * size, "i8"), size), (pb, size), (k.at(pr, i * result_size, "i8"), result_size)])

        k.when(inner.eq(n) | inner.eq(1), all_at_once, lambda: k.loop(0, n, row, step=inner))
        k.answer_new(r, bits)

    k.case(k.is_plain(y), tensors)
    k.require((n < k.word(records.LIMIT)) & k.word(records.NUMBERS).ne(0))
    place, loop, data, result = k.loop_for(k.dtype(a), (F32, F64, I64))
    cell = number_cell(k, y, place)
    k.require_usual_strides([x], no_short)
    r = k.new_array(result, k.ndim(a), k.dims(a))
    k.run(loop, data, n, [(k.data(a), k.item_size(k.dtype(a))), (cell, k.i64(0)), (k.data(r), k.item_size(result))])
    k.answer_new(r, bits)
    return k.finish()


def put_large(record: records.Record, op: Any) -> None:
    """Tell from how many elements on a kernel does the operation, and which, as soon as Python has had it made."""
    choice = host.choice_for(op)
    record.put(_FROM, _NEVER if choice is None else choice.threshold)
    put_pool(record, _POOL)
    known = _kernels.setdefault(op, np.zeros(2, np.uint64))
    record.put(_KERNEL, known.ctypes.data)
    pointwise.tell(op, _note)


def _note(op: Any, looks: tuple[Any, ...], address: int, least: int) -> None:
    """Let machine code launch a kernel for operands of these looks (see ``pointwise``), if they are all of float32, and the rest usual."""
    params = [p for p in op.params if len(looks) == len(op.params) or p.kind != "attr"]
    usual = [look == (pointwise.fixed(p.default) if p.kind == "attr" else DTYPES[F32]) for look, p in zip(looks, params, strict=True)]
    if all(usual):
        _kernels[op][1] = least
        _kernels[op][0] = address


def of_pointwise(op: Any) -> tuple[records.Record, int]:
    """The record of an element-wise operation that is one ufunc, and the number of its operands.

    Raises:
        Unfit: it is none of this form.
    """
    record, operands = records.of_pointwise(op)
    put_large(record, op)
    return record, operands
