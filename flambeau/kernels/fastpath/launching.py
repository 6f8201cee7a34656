"""Forms of calls whose arithmetic is a kernel of the pool's: the kernel that the Python wrapper launches, without Python around it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ...core import state
from ...core.arrays.kinds import host
from ...core.arrays.native import NoKernel, Switch, switch
from ...core.calls.registry import primitive
from ..compiler import memory
from ..compiler.language import SIZES, Value
from ..compiler.pool import pool
from . import records
from .code import Code
from .forms import Form
from .records import DTYPES, F32

_MOST_DIMS = 16
# In ``records.EXTRA``: where the pool says how to launch, and a kernel.
POOL, KERNEL = records.EXTRA, records.EXTRA + 1


class Launching(Form):
    """A form that launches kernels."""

    def require_launches(self, place: int = POOL) -> tuple[Value, Value]:
        """The pool's launch and its record, by the address at a place of the record; go on if there are any, and kernels are on."""
        self.require(self.same(self.slot(self.object(switch), Switch, "on"), self.object(True)))
        direct = self.word(place, element="ptr")
        launch, record = (self.load(direct, k, "ptr") for k in (0, 1))
        self.require(self.exists(launch))
        return launch, record

    def launch(self, direct: tuple[Value, Value], kernel: Value, arguments: Sequence[Value], chunks: Value) -> None:
        """Run a kernel."""
        block = self.scratch(len(arguments), "i64")
        for place, value in enumerate(arguments):
            self.store(value, block, place, value.element)
        self.launch_block(direct, kernel, block, chunks)

    def launch_block(self, direct: tuple[Value, Value], kernel: Value, block: Value, chunks: Value) -> None:
        """The same with packed arguments. A single chunk runs here: it takes no longer than to let other threads run meanwhile."""

        def alone() -> None:
            self.call_c(kernel, "i64", block, self.i64(0), chunks, self.object(np.ndarray))

        self.when(chunks.eq(1), alone, lambda: self.call_c(direct[0], None, direct[1], kernel, block, chunks))


def put_pool(record: records.Record, place: int = POOL) -> None:
    """Tell where the pool says how machine code launches."""
    record.kept.append(pool.direct)
    record.put(place, ctypes.addressof(pool.direct))


def address_of(kernel: Any, *specification: Any) -> int:
    """Address of a kernel; 0 where it cannot be had, or kernels are off."""
    with suppress(NoKernel):
        if not switch.on:
            return 0
        address: int = kernel(*specification).address
        return address
    return 0


# -- layer norm ---------------------------------------------------------------------------------------------------------------------------
def layer_norm(code: Code) -> str:
    """``layer_norm(x, normalized_shape, weight, bias, eps)`` over rows of float32, not recorded."""
    from ..families.rows import CHUNK

    k = Launching(code, "layer_norm")
    x, bits = k.enter(5)
    sizes, eps = k.argument(1), k.argument(4)
    k.require(k.is_empty(state.autocasting) & bits.eq(0) & k.is_exactly(sizes, tuple) & k.is_exactly(eps, float))
    a, element = k.array_of(x), k.object(DTYPES[F32])
    ndim, dims = k.ndim(a), k.dims(a)
    k.require((ndim > 0) & k.field(sizes, 16, "i64").eq(1) & k.same(k.dtype(a), element))
    width = k.load(dims, ndim - 1, "i64")
    k.require(k.integer_of(k.field(sizes, k.interpreter.tuple_items)).eq(width))
    n, _ = k.measured(a)
    k.require((n >= k.word(records.LIMIT)) & (n < memory.SMALL // SIZES["f32"]))

    def parameter(place: int) -> Value:
        tensor = k.argument(place)
        k.require(k.is_plain(tensor))
        array = k.array_of(tensor)
        k.require(k.ndim(array).eq(1) & k.same(k.dtype(array), element))
        k.require(k.load(k.dims(array), 0, "i64").eq(width))
        return array

    w, b = parameter(2), parameter(3)
    direct, kernel, number = k.require_launches(), k.word(KERNEL, element="ptr"), k.field(eps, 16, "f64")
    count, per = n // width, k.i64(CHUNK) // (width * SIZES["f32"]) + 1
    length = k.scratch(1, "i64")
    k.store(count * 2, length, 0, "i64")
    r = k.own(k.new_array(element, ndim, dims))
    moments = k.own(k.new_array(element, k.i64(1), length))  # which nobody wants
    k.launch(direct, kernel, [a, w, b, r, moments, moments, number, width, k.i64(1), count, per], (count + per - 1) // per)
    k.drop(moments)
    k.answer_new(k.disown(r), bits)
    return k.finish()


def of_layer_norm(op: Any) -> records.Record:
    """The record of ``layer_norm``.

    Raises:
        Unfit: its kernel cannot be had.
    """
    from ..families.normalization import layer_rows

    return of_kernel(primitive("_layer_norm", "nn.functional"), (0, 2, 3), address_of(layer_rows, "f32", True, True, True))


def of_kernel(op: Any, operands: Sequence[int], kernel: int) -> records.Record:
    """The record of calls that launch the kernel of an operation where none of the ``operands``, places of arguments, is to be recorded.

    Raises:
        Unfit: the kernel cannot be had.
    """
    record, choice = records.Record(), host.choice_for(op)
    if choice is None or not kernel:
        raise records.Unfit(op.name)
    for at in (records.EDGES, records.SEEN):
        record.put(at, len(operands))
    for k, place in enumerate(operands):
        record.put(records.EDGES + 1 + k, place)
    record.put(records.LIMIT, choice.threshold)
    record.put(KERNEL, kernel)
    put_pool(record)
    return record
