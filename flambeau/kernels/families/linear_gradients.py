"""The gradients of ``linear`` for all of its operands, planned once for operands that lie alike.

    grad (rows, out)  @ weight (out, in)   ->  of the input
    grad^T            @ input (rows, in)   ->  of the weight
    sum of grad's rows                     ->  of the bias

Rows in several dimensions lie one behind the other, so that kernels, which look at addresses only, take the arrays as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.arrays.native import native
from ...core.settings import settings
from ...core.shape import contiguous_strides
from ..compiler.language import ELEMENTS
from .gemm import allocating, launch_of
from .reduction import reduce

_Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides
_Gradients = tuple[np.ndarray | None, ...]


def _layout(array: np.ndarray | None) -> tuple[Any, ...] | None:
    return None if array is None else (array.dtype, array.shape, array.strides)


@native("gradients:nn.functional.linear")
def linear_gradients(needs: tuple[bool, ...], grad: np.ndarray, weight: np.ndarray | None, input: np.ndarray | None) -> _Gradients | None:
    plan = _plan(needs, grad.dtype, (grad.shape, grad.strides), _layout(weight), _layout(input), settings.matmul_precision)
    return None if plan is None else plan(grad, weight, input)


@lru_cache(maxsize=1024)
def _plan(
    needs: tuple[bool, ...], dtype: np.dtype, grad: _Layout, weight: Any, input: Any, _precision: str
) -> Callable[..., _Gradients] | None:
    """Function of the arrays; None for what the rules of the operands are to do."""
    (shape, strides), size = grad, dtype.itemsize
    rows, out = math.prod(shape[:-1]), shape[-1]
    if ELEMENTS.get(dtype) not in ("f32", "f64") or len(shape) < 2 or rows < 2 or strides != _row_major(shape, size):
        return None
    to_input = to_weight = None
    if needs[0]:
        if weight is None or weight[0] != dtype or len(weight[1]) != 2:
            return None
        launch = launch_of(dtype, ((rows, out), (out * size, size)), weight[1:])
        if launch is None:
            return None
        to_input = allocating(launch, (*shape[:-1], weight[1][1]), dtype)
    if needs[1]:
        if input is None or input[0] != dtype or len(input[1]) != len(shape) or input[2] != _row_major(input[1], size):
            return None
        width = input[1][-1]
        launch = launch_of(dtype, ((out, rows), (size, out * size)), ((rows, width), (width * size, size)))
        if launch is None:
            return None
        to_weight = allocating(launch, (out, width), dtype)
    to_bias = tuple(range(len(shape) - 1)) if needs[2] else None

    def run(grad: np.ndarray, weight: Any, input: Any) -> _Gradients:
        return (
            None if to_input is None else to_input(grad, weight, None),
            None if to_weight is None else to_weight(grad, input, None),
            None if to_bias is None else reduce("sum", grad, to_bias),
        )

    return run


def _row_major(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple([step * size for step in contiguous_strides(shape)])
