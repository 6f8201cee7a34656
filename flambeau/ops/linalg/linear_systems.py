"""Systems of linear equations with square and with triangular matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays import lapack, native
from ...core.calls.annotations import Tensor
from ...core.calls.out import EXACT
from ...core.calls.registry import composite, op, other_names
from ...core.calls.return_types import named_result
from ...core.layout import contiguous_format
from ...core.shape import broadcast_shape
from .matrix_checks import (
    check_info,
    columns,
    no_failures,
    require_equation,
    require_fitting,
    require_floating,
    require_kernel,
    require_matrices,
    require_one_dtype,
    require_square,
    solution,
    warn_superseded,
)

_TRIANGULAR = named_result("triangular_solve", ("solution", "cloned_coefficient"))


# -- square matrices ----------------------------------------------------------------------------------------------------------------
def is_vector(A_shape: Any, B_shape: Any) -> bool:
    """Whether a right hand side is a vector, or a batch of them."""
    return len(B_shape) == 1 or (len(A_shape) - 1 == len(B_shape) and tuple(A_shape[:-1]) == tuple(B_shape))


def _canonicalize_solve(A: Any, B: Any, left: bool, check_errors: Any) -> tuple[Any, ...]:
    require_square("linalg.solve", A)
    require_floating("linalg.solve", A)
    require_one_dtype("linalg.solve", A, B)
    require_kernel("lu_cpu", A)
    vector = is_vector(A.shape, B.shape)
    if not vector:
        require_matrices("linalg.solve", B, "B")
    require_equation("linalg.solve", A, B.unsqueeze(-1) if vector else B, left)
    return (A, B, left, check_errors)


def _solve_gradients(grad: Any, A: Any, result: Any, B_shape: Any, left: bool) -> Any:
    vector = is_vector(A.shape, B_shape)
    if vector:
        grad, result = grad.unsqueeze(-1), result.unsqueeze(-1)
    grad_B = solve_ex(A.mH, grad, left=left)[0]
    grad_A = -(grad_B @ result.mH) if left else -(result.mH @ grad_B)
    return grad_A, grad_B.squeeze(-1) if vector else grad_B


@native.part("_solve", work="16 * A.size")
def solved(A: Any, B: Any) -> tuple[Any, Any]:
    """``X`` with ``A X = B``, batches broadcast, and the first zero on the diagonal of A's factor U, counted from 1 (0: none)."""
    try:
        operands = [A, B]
        if A.shape[:-2] != B.shape[:-2]:  # CuPy does not broadcast
            batch = broadcast_shape(A.shape[:-2], B.shape[:-2])
            operands = [np.broadcast_to(each, (*batch, *each.shape[-2:])) for each in operands]
        return np.linalg.solve(*operands), no_failures(A)
    except np.linalg.LinAlgError:
        factors, pivots, info = lapack.lu_factor(A)
        return lapack.lu_solve(factors, pivots, B, False), info


def _solve_shapes(new: Any, A: Any, B: Any, left: bool, check_errors: Any) -> Any:
    info = new(A.shape[:-2], np.int32)
    if B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]):
        shape = broadcast_shape(A.shape[:-1], B.shape)
        return new(shape, B.dtype, columns=left and len(shape) > 1), info
    return solution(new, A, B, left), info


@op(
    out=EXACT,
    namespace="linalg",
    returns=("result", "info"),
    promotion="same",
    canonicalize=_canonicalize_solve,
    node_name="LinalgSolveExBackward0",
    grad={"A, B": lambda grad, A, result, B_shape, left, needs: _solve_gradients(grad, A, result, B_shape, left)},
    aten=None,
    meta=_solve_shapes,
)
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: Any = False) -> Tensor:
    """X with ``A X = B`` for square A, and which matrices are singular.

    Args:
        A: ``(*, n, n)``, floating point or complex.
        B: ``(*, n, k)``, ``(n)`` or ``(*, n)``; batches are broadcast.
        left: solve ``X A = B`` when False, for B ``(*, k, n)``.
        check_errors: raise for a singular matrix, in the name of this operation or of another.
    Returns:
        ``result``, and ``info``, int32: the first zero on the diagonal of the factor U, counted from 1, or 0.
    Raises:
        RuntimeError: matrices that do not fit, or different dtypes.
        LinAlgError: a singular matrix and ``check_errors``.
    Gradient: ``A^-H grad`` for B, and ``-A^-H grad X^H`` for A.
    Source: torch.linalg.solve_ex.
    Example:
        >>> result, info = torch.linalg.solve_ex(torch.tensor([[1.0, 1.0], [0.0, 2.0]]), torch.tensor([3.0, 4.0]))
        >>> result, info, torch.linalg.solve_ex(torch.ones(2, 2), torch.ones(2)).info
        (tensor([1., 2.]), tensor(0, dtype=torch.int32), tensor(2, dtype=torch.int32))
    """
    vector = is_vector(A.shape, B.shape)
    right = B[..., None] if vector else B
    matrix = A if left else A.swapaxes(-1, -2)
    right = right if left else right.swapaxes(-1, -2)
    solution, info = solved(matrix, right)
    check_info(info, "torch.linalg.solve_ex", check_errors)
    if vector:
        solution = solution[..., 0]
        return (columns(solution) if left and solution.ndim > 1 else np.ascontiguousarray(solution)), info
    return columns(solution) if left else columns(solution).swapaxes(-1, -2), info


@composite(namespace="linalg", method=False, out=EXACT, autocast={"cpu": "float32"})
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Any:
    """X with ``A X = B`` for square A.

    Args:
        A: ``(*, n, n)``, floating point or complex.
        B: ``(*, n, k)``, ``(n)`` or ``(*, n)``; batches are broadcast.
        left: solve ``X A = B`` when False, for B ``(*, k, n)``.
    Returns:
        A new tensor of B's shape, broadcast with A's batch.
    Raises:
        RuntimeError: matrices that do not fit, or different dtypes.
        LinAlgError: a singular matrix.
    Gradient: ``A^-H grad`` for B, and ``-A^-H grad X^H`` for A.
    Source: torch.linalg.solve.
    Example:
        >>> torch.linalg.solve(torch.tensor([[1.0, 1.0], [0.0, 2.0]]), torch.tensor([3.0, 4.0]))
        tensor([1., 2.])
    """
    return solve_ex(A, B, left=left, check_errors="torch.linalg.solve")[0]


# -- triangular matrices ------------------------------------------------------------------------------------------------------------
def _canonicalize_triangular(A: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> tuple[Any, ...]:
    require_square("linalg.solve_triangular", A)
    require_matrices("linalg.solve_triangular", B, "B")
    require_equation("linalg.solve_triangular", A, B, left)
    require_kernel("triangular_solve_cpu", A)
    require_kernel("triangular_solve_cpu", B)
    return (A, B, upper, left, unitriangular)


def _triangular_gradients(grad: Any, A: Any, result: Any, upper: bool, left: bool, unitriangular: bool, needs: Any) -> Any:
    grad_B = solve_triangular(A.mH, grad, upper=not upper, left=left, unitriangular=unitriangular)
    if not needs[0]:
        return None, grad_B
    grad_A = -(grad_B @ result.mH) if left else -(result.mH @ grad_B)
    return grad_A.triu(int(unitriangular)) if upper else grad_A.tril(-int(unitriangular)), grad_B


@op(
    out=EXACT,
    batch=2,
    namespace="linalg",
    promotion="default",
    canonicalize=_canonicalize_triangular,
    node_name="LinalgSolveTriangularBackward0",
    grad={"A, B": _triangular_gradients},
    meta=lambda new, A, B, upper, left, unitriangular: solution(new, A, B),
)
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with ``A X = B`` for triangular A.

    Args:
        A: ``(*, n, n)``, floating point or complex; the other triangle is not read.
        B: ``(*, n, k)``; batches are broadcast.
        upper: which triangle A is.
        left: solve ``X A = B`` when False, for B ``(*, k, n)``.
        unitriangular: A's diagonal is ones and is not read.
    Returns:
        A new tensor of B's shape, broadcast with A's batch.
    Raises:
        RuntimeError: matrices that do not fit.
        NotImplementedError: another dtype.
    Gradient: ``A^-H grad`` for B, and for A the triangle of ``-A^-H grad X^H``.
    Source: torch.linalg.solve_triangular.
    Example:
        >>> A = torch.tensor([[1.0, 1.0], [777.0, 2.0]])
        >>> torch.linalg.solve_triangular(A, torch.tensor([[3.0], [4.0]]), upper=True)
        tensor([[1.],
                [2.]])
    """
    return lapack.solve_triangular(A, B, upper, left, unitriangular)


@composite(out=EXACT, autocast={"cpu": "float32"})
def triangular_solve(input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """``A X = B`` for triangular A. Deprecated: ``torch.linalg.solve_triangular`` takes B last.

    Args:
        input: B, ``(*, n, k)``.
        A: ``(*, n, n)``.
        upper: which triangle A is.
        transpose: solve with ``A^T``.
        unitriangular: A's diagonal is ones and is not read.
    Returns:
        The solution, ``(*, n, k)``, and a copy of A.
    Raises:
        RuntimeError: matrices that do not fit.
    Gradient: that of ``torch.linalg.solve_triangular``.
    Source: torch.triangular_solve.
    Example:
        >>> A = torch.tensor([[1.0, 1.0], [0.0, 2.0]])
        >>> torch.triangular_solve(torch.tensor([[3.0], [4.0]]), A)[0]
        tensor([[1.],
                [2.]])
    """
    warn_superseded("triangular_solve", "torch.linalg.solve_triangular(A, B, upper=upper)")
    return triangular_solution(input, A, upper, transpose, unitriangular)


def triangular_solution(input: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    """Solution and copy of ``A`` as ``triangular_solve`` returns them, for each of its names."""
    for word, operand in (("b", input), ("A", A)):
        if operand.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {word} to have at least 2 dimensions, but it has {operand.ndim} dimensions instead"
            )
    require_fitting("triangular_solve", input, A)
    lead = broadcast_shape(tuple(input.shape[:-2]), tuple(A.shape[:-2]))
    solution = solve_triangular(A.mT if transpose else A, input, upper=upper != transpose, unitriangular=unitriangular)
    turned = A.mT if tuple(A.shape[:-2]) == tuple(lead) else A.mT.expand(*lead, *A.shape[-2:])
    return _TRIANGULAR((solution, turned.clone(memory_format=contiguous_format).mT))


other_names("solve_triangular", "linalg", input="A")
