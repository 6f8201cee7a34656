"""Type promotion: the dtype in which a call computes, and the dtype of its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtype as dtypes
from ..tensor import Tensor, wrap
from .casting import cast_array, is_number, number_array
from .operation import BOOL, BOOL_TO_LONG, COMPLEX_TO_FLOAT, INT_TO_FLOAT, KEEP, SAME, Op


def common_dtype(operands: Sequence[Any]) -> dtypes.dtype:
    """The dtype that tensors and numbers are promoted to together."""
    dimensioned: list[dtypes.dtype] = []
    zero_dim: list[dtypes.dtype] = []
    numbers: list[dtypes.dtype] = []
    for operand in operands:
        if isinstance(operand, Tensor):
            array = operand._array
            (dimensioned if array.ndim else zero_dim).append(dtypes.BY_NUM[array.dtype.num])
        else:
            numbers.append(dtypes.of_number(operand))
    return dtypes.result_dtype(dimensioned, zero_dim, numbers)


def promotion(op: Op, operands: list[Any]) -> tuple[dtypes.dtype | None, dtypes.dtype | None, dtypes.dtype | None]:
    """(dtype to compute in, dtype the kernel's result has to get, dtype before widening opmath)."""
    word = op.promotion
    if word == KEEP:
        return None, None, None
    if word == SAME:
        first = None
        for operand in operands:
            if isinstance(operand, Tensor):
                dtype = dtypes.BY_NUM[operand._array.dtype.num]
                if first is None:
                    first = dtype
                elif dtype is not first:
                    raise RuntimeError(f"{op.name}: expected operands of one dtype, but got {first} and {dtype}")
        if first in dtypes.NARROW and op.opmath == "float32":
            return dtypes.float32, first, first
        return None, None, None
    common = common_dtype(operands)
    if word == INT_TO_FLOAT and common.category < dtypes.FLOATING:
        common = dtypes.get_default_dtype()
    elif word == BOOL_TO_LONG and common is dtypes.bool_:
        common = dtypes.int64
    compute = dtypes.float32 if common in dtypes.NARROW and op.opmath == "float32" else common
    if common is dtypes.complex32:
        compute = dtypes.complex64
        if word == BOOL:
            return compute, dtypes.bool_, compute
    if word == BOOL:
        return common, dtypes.bool_, common
    if word == COMPLEX_TO_FLOAT and common.is_complex:
        return compute, common.to_real(), common
    return compute, common, common


def rounded(op: Op, values: Sequence[Any], compute: dtypes.dtype | None, common: dtypes.dtype | None) -> Sequence[Any]:
    """``values`` with operands of other dtypes brought to float16 or bfloat16, which is then widened to ``compute``: they round first."""
    if common not in dtypes.NARROW or compute is common:
        return values
    results = list(values)
    for i in op.positions:
        value = values[i]
        if op.exact_scalar and i == op.positions[-1] and (not isinstance(value, Tensor) or value._array.size == 1):
            continue
        if isinstance(value, Tensor):
            if value.dtype is not common:
                results[i] = wrap(cast_array(value._array, common))
        elif op.params[i].kind == "list":
            results[i] = [tensor if tensor.dtype is common else wrap(cast_array(tensor._array, common)) for tensor in value]
        elif is_number(value):
            results[i] = float(number_array(value, common))
    return results
