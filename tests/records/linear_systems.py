"""Records of systems of linear equations, and the matrices that records of factors and inverses share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from .record import Error, Maker, Record, Sample, call

SHAPES = ((3, 3), (2, 3, 3))
DTYPES = ("float32", "float64", "complex64")
ZEROS = np.zeros((2, 2), np.float32)
RECTANGULAR = Error(lambda m: call(m(2, 3)), RuntimeError, "square")


def regular(make: Maker, *shape: int) -> np.ndarray:
    """Matrices far from singular ones."""
    matrices = make(*shape, low=-0.5, high=0.5)
    return matrices + 2 * np.eye(shape[-1]).astype(matrices.dtype)


def positive(make: Maker, *shape: int) -> np.ndarray:
    """Hermitian positive-definite matrices."""
    matrices = make(*shape, low=-1, high=1)
    return matrices @ matrices.swapaxes(-1, -2).conj() + np.eye(shape[-1]).astype(matrices.dtype)


def each(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of matrices over a batch of them; named options are passed on."""

    def batched(*stacks: np.ndarray, **options: Any) -> Any:
        lead = np.broadcast_shapes(*[stack.shape[:-2] for stack in stacks])
        wide = [np.broadcast_to(stack, (*lead, *stack.shape[-2:])) for stack in stacks]
        results = [function(*[stack[index] for stack in wide], **options) for index in np.ndindex(*lead)]
        if isinstance(results[0], tuple):
            return tuple(np.stack(parts).reshape(*lead, *np.shape(parts[0])) for parts in zip(*results, strict=True))
        return np.stack(results).reshape(*lead, *np.shape(results[0]))

    return batched


def no_failures(A: np.ndarray) -> np.ndarray:
    return np.zeros(A.shape[:-2], np.int32)


def triangular(A: np.ndarray, B: np.ndarray, upper: bool, left: bool = True, unitriangular: bool = False) -> np.ndarray:
    def one(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
        if left:
            return scipy.linalg.solve_triangular(matrix, right, lower=not upper, unit_diagonal=unitriangular)
        return scipy.linalg.solve_triangular(matrix.T, right.T, lower=upper, unit_diagonal=unitriangular).T

    return each(one)(A, B)


def solved(A: np.ndarray, B: np.ndarray, left: bool = True) -> np.ndarray:
    if B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]):
        return np.linalg.solve(A, B[..., None])[..., 0]
    return np.linalg.solve(A, B) if left else np.linalg.solve(A.swapaxes(-1, -2), B.swapaxes(-1, -2)).swapaxes(-1, -2)


def systems(make: Maker) -> list[Sample]:
    return [
        *(call(regular(make, *shape), make(3, 2)) for shape in SHAPES),
        call(regular(make, 2, 3, 3), make(2, 3)),
        call(regular(make, 3, 3), make(3)),
        call(regular(make, 2, 3, 3), make(2, 2, 3), left=False),
    ]


def matrix_record(name: str, samples: Callable[[Maker], Any], reference: Callable[..., Any], **options: Any) -> Record:
    options = {"dtypes": DTYPES, "expanded": False, **options}
    return Record(name, samples, reference, **options)


RECORDS = [
    matrix_record("linalg.solve", systems, solved, errors=(Error(lambda m: call(m(2, 2), m(3, 2)), RuntimeError, "Incompatible shapes"),)),
    matrix_record("linalg.solve_ex", systems, lambda A, B, left=True: (solved(A, B, left), no_failures(A))),
    matrix_record(
        "linalg.solve_triangular",
        lambda m: [
            call(regular(m, 3, 3), m(2, 3, 2), upper=True),
            call(regular(m, 2, 3, 3), m(3, 2), upper=False, unitriangular=True),
            call(regular(m, 2, 3, 3), m(2, 3), upper=True, left=False),
            call(regular(m, 40, 3, 3), m(40, 3, 2), upper=False),
            call(regular(m, 40, 3, 3), m(40, 2, 3), upper=True, left=False),
        ],
        triangular,
        errors=(Error(lambda m: call(m(2, 2), m(3, 2), upper=True), RuntimeError, "Incompatible shapes"),),
    ),
    matrix_record(
        "triangular_solve",
        lambda m: [call(m(3, 2), regular(m, 3, 3)), call(m(3, 2), regular(m, 3, 3), upper=False, transpose=True)],
        lambda B, A, upper=True, transpose=False: (triangular(A.T if transpose else A, B, upper != transpose), A),
    ),
]
