"""Checks of matrices: requirements on operands, and errors for a matrix without an inverse or factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ...core import dtype as dtypes
from ...core.calls.casting import cast_array
from ...core.calls.out import EXACT
from ...core.calls.registry import Declare, op, resolve
from ...core.once import warn_once
from ...core.shape import broadcast_shape


class LinAlgError(RuntimeError):
    """A factorisation or an inverse that does not exist.

    Source: torch.linalg.LinAlgError.
    Example:
        >>> try:
        ...     torch.linalg.inv(torch.zeros(2, 2))
        ... except torch.linalg.LinAlgError as error:
        ...     print(type(error).__name__)
        _LinAlgError
    """


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"  # as PyTorch shows it
LinAlgError.__module__ = "torch._C"


def require_matrices(operation: str, A: Any, word: str = "A") -> None:
    if A.ndim < 2:
        raise RuntimeError(f"{operation}: The input tensor {word} must have at least 2 dimensions.")


def require_square(operation: str, A: Any) -> None:
    require_matrices(operation, A)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"{operation}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")


def require_floating(operation: str, A: Any) -> None:
    if A.dtype.category < dtypes.FLOATING:
        raise RuntimeError(f"{operation}: Expected a floating point or complex tensor as input. Got {A.dtype.legacy}")


def require_numbers(operation: str, A: Any, kernel: str = "") -> None:
    """Floating point or complex numbers of at least 32 bits.

    Args:
        kernel: PyTorch's name of the kernel that has none for halves; without it they are refused by the operation.
    """
    require_floating(operation, A)
    if A.dtype.itemsize < 4:
        if kernel:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{A.dtype.legacy}'")
        raise RuntimeError(f"{operation}: Low precision dtypes not supported. Got {A.dtype.legacy}")


def matrix_op(**options: Any) -> Declare:
    """Declare an operation of ``torch.linalg`` on matrices, or on each in a batch."""
    return op(batch=2, namespace="linalg", promotion="same", **{"out": EXACT, **options})


def square_numbers(operation: str, kernel: str = "") -> Callable[..., tuple[Any, ...]]:
    """``canonicalize`` of an operation of square matrices: their checks, arguments as they are."""

    def canonicalize(A: Any, *rest: Any) -> tuple[Any, ...]:
        require_square(operation, A)
        require_numbers(operation, A, kernel)
        return (A, *rest)

    return canonicalize


def require_one_dtype(operation: str, A: Any, B: Any, words: tuple[str, str] = ("A", "B")) -> None:
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"{operation}: Expected {words[0]} and {words[1]} to have the same dtype, but found {words[0]} of type {A.dtype.legacy} and "
            f"{words[1]} of type {B.dtype.legacy} instead"
        )


def require_kernel(kernel: str, A: Any) -> None:
    """Floating point or complex numbers of at least 32 bits, said as PyTorch's kernels do."""
    if A.dtype.category < dtypes.FLOATING or A.dtype.itemsize < 4:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{A.dtype.legacy}'")


def require_equation(operation: str, A: Any, B: Any, left: bool) -> None:
    """Sizes that fit in ``A X = B``, or in ``X A = B``."""
    if A.shape[-2] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{operation}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    broadcast_shape(tuple(B.shape[:-2]), tuple(A.shape[:-2]))  # in the order that PyTorch's message names them


def require_fitting(operation: str, b: Any, A: Any) -> None:
    """Operands of one dtype and of sizes that fit in ``A X = b``, said as PyTorch's older functions do."""
    for word, operand in (("b", b), ("A", A)):
        if operand.ndim < 2:
            raise RuntimeError(f"{word} should have at least 2 dimensions, but has {operand.ndim} dimensions instead")
    if A.dtype is not b.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {b.dtype.legacy} and A of type {A.dtype.legacy} instead."
        )
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")
    if A.shape[-2] != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {operation}: each A matrix is {A.shape[-1]} by {A.shape[-1]} but each b matrix is "
            f"{b.shape[-2]} by {b.shape[-1]}"
        )


def columns(matrices: Any) -> Any:
    """The matrices with their columns contiguous, as LAPACK leaves them."""
    return np.ascontiguousarray(matrices.swapaxes(-1, -2)).swapaxes(-1, -2)


def identity(matrices: Any) -> Any:
    """The identity of the matrices' size and dtype."""
    return resolve("torch", "eye")(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)


def no_failures(A: Any) -> Any:
    """LAPACK's report on a batch of matrices of which none fails."""
    return np.zeros(A.shape[:-2], np.int32)


def precise(array: Any, kind: Any) -> Any:
    """``array`` in the dtype of the operand, where NumPy widened it."""
    return array if array.dtype == kind else cast_array(np.asarray(array), dtypes.of_array(np.empty(0, kind)))


# -- the meta device ----------------------------------------------------------------------------------------------------------------
def real_dtype(A: Any) -> Any:
    return A.dtype.type().real.dtype


def complex_dtype(A: Any) -> Any:
    return np.result_type(A.dtype, np.complex64)


def solution(new: Any, A: Any, B: Any, left: bool = True) -> Any:
    """A right hand side's shape with the batches of both; contiguous are columns, or rows where ``A`` stands on the right."""
    lead = broadcast_shape(A.shape[:-2], B.shape[:-2])
    return new((*lead, *B.shape[-2:]), np.result_type(A.dtype, B.dtype), columns=left)


# -- failures -----------------------------------------------------------------------------------------------------------------------
_FAILURES = {
    "inv": "The diagonal element {0} is zero, the inversion could not be completed because the input matrix is singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading minor of order {0} is "
    "not positive-definite).",
    "svd": "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular values (error "
    "code: {0}).",
    "eig": "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: "
    "{0}).",
    "lstsq": "The least squares solution could not be computed because the input matrix does not have full rank (error code: {0}).",
    "lu_factor": "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
    "ldl_factor": "D[{0},{0}] is zero and using it on ldl_solve would result in a division by zero. If you still want the factors, "
    "consider calling linalg.ldl_factor_ex(A)",
}


def check_info(info: Any, operation: str, check_errors: Any = True) -> None:
    """Complain about the first matrix of a batch for which LAPACK reports a failure.

    Args:
        check_errors: whether to look; or the name of the function that looks, in place of ``operation``.
    Raises:
        LinAlgError: there is one; a RuntimeError for factors that can be had in another way.
    """
    if not check_errors:
        return
    failed = np.flatnonzero(np.asarray(info))
    if len(failed):
        name = operation if check_errors is True else check_errors
        fail(name, int(np.asarray(info).reshape(-1)[failed[0]]), int(failed[0]) if np.ndim(info) else None)


def fail(operation: str, code: int, place: int | None) -> NoReturn:
    word = next(word for word in _FAILURES if word in operation)
    where = "" if place is None else f" (Batch element {place}):"
    error = RuntimeError if word in ("lu_factor", "ldl_factor") else LinAlgError
    raise error(f"{operation}:{where} {_FAILURES[word].format(code)}")


def not_differentiable(name: str) -> Any:
    """The rule of an operation whose derivative PyTorch has not."""

    def rule(grad: Any) -> NoReturn:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return rule


def warn_superseded(name: str, instead: str) -> None:
    """Say once that ``name`` has a successor, and how to write it."""
    new = instead.partition("(")[0]
    warn_once(name, f"torch.{name} is deprecated in favor of {new} and may be removed in a future release; it is written {instead} now.")
