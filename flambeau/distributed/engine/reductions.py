"""Reductions of arrays of each dtype, by MPI's operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from .._reduce_op import RedOpType, ReduceOp, supports_complex

__all__ = ["Reduction", "reduction"]

_T = RedOpType
_OPS = {
    _T.SUM: "SUM",
    _T.AVG: "SUM",
    _T.PREMUL_SUM: "SUM",
    _T.PRODUCT: "PROD",
    _T.MIN: "MIN",
    _T.MAX: "MAX",
    _T.BAND: "BAND",
    _T.BOR: "BOR",
    _T.BXOR: "BXOR",
}
_BOOL_OPS = {_T.SUM: "MAX", _T.PRODUCT: "MIN", _T.BAND: "MIN", _T.BOR: "MAX"}  # of bytes that are 0 or 1
_BITS = frozenset((_T.BAND, _T.BOR, _T.BXOR))
_PLAIN = frozenset(np.dtype(each).num for each in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16"))


class Reduction:
    """One reduction of arrays of one dtype.

    Attributes:
        op: MPI's operation.
        wire: the dtype in which values travel and are reduced; None for the arrays' own.
        before, after: what is done to the travelling array in place on each rank, or None.
    """

    __slots__ = ("after", "before", "op", "wire")

    def __init__(
        self,
        op: Any,
        wire: Any = None,
        before: Callable[[np.ndarray], None] | None = None,
        after: Callable[[np.ndarray], None] | None = None,
    ):
        self.op, self.wire, self.before, self.after = op, wire, before, after

    def out(self, array: np.ndarray) -> np.ndarray:
        """The array that travels for a contiguous array: the array itself, its bytes, or a copy."""
        if self.wire is None:
            sent = array
        elif array.dtype == np.bool_:
            sent = array.view(np.uint8)
        else:
            sent = array.astype(self.wire)
        if self.before is not None:
            self.before(sent)
        return sent

    def back(self, sent: np.ndarray, array: np.ndarray) -> None:
        """The result into the array."""
        if self.after is not None:
            self.after(sent)
        if sent.dtype != array.dtype and array.dtype != np.bool_:
            array[...] = sent.astype(array.dtype)


def reduction(MPI: Any, op: Any, dtype: np.dtype, size: int) -> Reduction:
    """The reduction of arrays of that dtype over ``size`` ranks.

    Raises:
        RuntimeError: the dtype has no such reduction.
    """
    kind = ReduceOp.kind_of(op)
    num = dtype.num
    name = _OPS[kind]
    real = dtypes.BY_NUM[num]
    if real.is_complex and not supports_complex(kind):
        raise ValueError(f"all_reduce does not support {kind} on complex tensors")
    if kind in _BITS and real.is_floating_point:
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with non-integral dtype")
    if kind is _T.AVG and not (real.is_floating_point or real.is_complex):
        raise RuntimeError(f"result type Float can't be cast to the desired output type {real.legacy.removesuffix('Tensor')}")
    wire: Any = None
    if real is dtypes.bool_:
        name, wire = _BOOL_OPS.get(kind, name), np.uint8
    elif real in dtypes.REDUCED:
        wire = np.float32
    elif num not in _PLAIN:
        raise RuntimeError("Invalid scalar type")
    before = after = None
    if kind is _T.AVG:

        def after(array: np.ndarray) -> None:
            parts = array.view(array.real.dtype)  # a complex division would round once more
            parts /= size

    elif kind is _T.PREMUL_SUM:
        factor = op.factor if not hasattr(op.factor, "numpy") else op.factor.numpy()

        def before(array: np.ndarray) -> None:
            np.multiply(array, factor, out=array, casting="unsafe")

    return Reduction(MPI and getattr(MPI, name), wire, before, after)
