from __future__ import annotations
import numpy as np
from ..core.annotations import Tensor
from ..core.registry import view, op

@op(fast=lambda a, dim, keepdim, dtype: np.add.reduce(a, axis=None) if dim is None else None, promotion="bool_to_long", grad={"input": lambda grad, input_shape: grad.expand(input_shape)})
def sum_(input: Tensor, dim=None, keepdim: bool=False, *, dtype=None) -> Tensor:
    return np.sum(input)

@op(grad=None, promotion='same', fast=True)
def matmul(input: Tensor, other: Tensor):
    return np.matmul(input, other)
