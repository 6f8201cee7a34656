"""Products of groups of matrices whose sizes differ along one dimension: what a mixture of experts computes."""

from __future__ import annotations

import itertools
from typing import Any

from ...core import dtype as dtypes
from ...core.calls.annotations import Tensor
from ...core.calls.registry import composite
from ...core.shape import element_strides
from ..joining import cat, stack
from .products import bmm, mm

_DTYPES = (dtypes.float32, dtypes.bfloat16, dtypes.float16)
_ALIGNMENT = 16  # bytes that rows, or columns, must be multiples of


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def _check_strides(matrices: Any) -> None:
    """Whether rows or columns lie together in memory, and begin at multiples of 16 bytes.

    Raises:
        RuntimeError: they do not.
    """
    shape, strides = tuple(matrices.shape), element_strides(matrices._array)
    for along, across in ((-2, -1), (-1, -2)):
        if strides[along] == 1 and strides[across] >= max(1, shape[along]):
            _require(strides[across] * matrices.dtype.itemsize % _ALIGNMENT == 0, "strides should be multiple of 16 bytes")
            return
    raise RuntimeError(f"Invalid strides/sizes, got {list(strides)} for strides and {list(shape)} for sizes")


def _check(mat_a: Any, mat_b: Any, offs: Any, bias: Any, out_dtype: Any) -> None:
    for name, matrices in (("mat_a", mat_a), ("mat_b", mat_b)):
        found = matrices.dtype.legacy
        _require(matrices.dtype in _DTYPES, f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {found}")
    for name, matrices in (("mat_a", mat_a), ("mat_b", mat_b)):
        _require(matrices.ndim in (2, 3), f"{name} has to be 2 or 3d")
    both_batched = mat_a.ndim == mat_b.ndim == 3
    _require((offs is None) == both_batched, "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    _require(mat_a.shape[-1] == mat_b.shape[-2], "contraction dimension of mat_a and mat_b must match")
    if offs is not None:
        _require(offs.ndim == 1, "offs has to be 1D")
        _require(offs.dtype is dtypes.int32, "Offsets have to be int32")
    for matrices in (mat_a, mat_b):
        _check_strides(matrices)
    _require(bias is None, "Bias not supported yet")
    _require(out_dtype is None or out_dtype is mat_a.dtype, "Grouped gemm output dtype must match `mat_a` dtype")
    if both_batched:
        _require(mat_a.shape[0] == mat_b.shape[0], "batched dimension has to match")
    for matrices in (mat_a, mat_b):
        _require(offs is None or matrices.ndim == 2 or matrices.shape[0] == offs.shape[0], "matrix batch sizes have to match")
    _require(
        mat_a.dtype is mat_b.dtype, f"expected m1 and m2 to have the same dtype, but got: {mat_a.dtype.legacy} != {mat_b.dtype.legacy}"
    )


@composite(namespace="nn.functional", method=False)
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None) -> Tensor:
    """Matrix products group by group, where the groups lie one after the other along a dimension of the 2-d operands.

    Args:
        mat_a, mat_b: float32, bfloat16 or float16; rows or columns begin at multiples of 16 bytes.
            ``(rows, k)`` and ``(groups, k, n)``: each group of rows times its matrix.
            ``(groups, m, k)`` and ``(k, columns)``: each matrix times its group of columns.
            ``(m, k)`` and ``(k, n)``: groups of what is summed over. ``(groups, m, k)`` and ``(groups, k, n)``: pairwise.
        offs: ``(groups,)``, int32: where each group ends; None for two 3-d operands.
        bias: None.
        out_dtype: the operands' dtype, or None.
    Returns:
        ``(rows, n)``, ``(m, columns)``, or ``(groups, m, n)``; zeros behind the last group, where PyTorch leaves what was there.
    Raises:
        RuntimeError: shapes, strides, dtypes or offsets that do not fit.
    Gradient: as of ``mm``, group by group.
    Source: torch.nn.functional.grouped_mm.
    Example:
        >>> rows = torch.ones(3, 4)
        >>> experts = torch.stack([torch.eye(4), 10 * torch.eye(4)])
        >>> F.grouped_mm(rows, experts, offs=torch.tensor([1, 3], dtype=torch.int32))
        tensor([[ 1.,  1.,  1.,  1.],
                [10., 10., 10., 10.],
                [10., 10., 10., 10.]])
    """
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return bmm(mat_a, mat_b)
    bounds = list(itertools.pairwise([0, *offs.tolist()]))
    if mat_a.ndim == mat_b.ndim:
        return stack([mm(mat_a[:, start:stop], mat_b[start:stop]) for start, stop in bounds])
    by_rows = mat_a.ndim == 2
    products = [
        mm(mat_a[start:stop], mat_b[k]) if by_rows else mm(mat_a[k], mat_b[:, start:stop]) for k, (start, stop) in enumerate(bounds)
    ]
    dim = 0 if by_rows else 1
    rest = (mat_a if by_rows else mat_b).shape[dim] - sum(product.shape[dim] for product in products)
    if rest > 0:
        shape = (rest, mat_b.shape[-1]) if by_rows else (mat_a.shape[-2], rest)
        products.append(mat_a.new_zeros(shape))
    return cat(products, dim)
