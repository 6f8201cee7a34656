"""Records of inverses, determinants, triangular factors and systems of linear equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from .record import Error, Maker, Record, Sample, call

SHAPES = ((3, 3), (2, 3, 3))
DTYPES = ("float32", "float64", "complex64")
CLOSE = {"float32": (1e-3, 1e-4), "complex64": (1e-3, 1e-4)}
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


def factor(make: Maker, *shape: int) -> np.ndarray:
    return np.linalg.cholesky(positive(make, *shape))


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


def squares(make: Maker) -> list[Sample]:
    return [call(regular(make, *shape)) for shape in SHAPES]


def _packed(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    packed, swaps = scipy.linalg.lu_factor(A)
    return packed, (swaps + 1).astype(np.int32)


def _unpacked(LU: np.ndarray, pivots: np.ndarray) -> tuple[np.ndarray, ...]:
    """P, L and U; ``pivots`` is a row, so that it is batched as a matrix."""
    m, n = LU.shape
    order = np.arange(m)
    for k, swap in enumerate(pivots[0] - 1):
        order[[k, swap]] = order[[swap, k]]
    k = min(m, n)
    P = np.zeros((m, m), LU.dtype)
    P[order, np.arange(m)] = 1
    return P, np.tril(LU[:, :k], -1) + np.eye(m, k), np.triu(LU[:k])


def lu_solved(LU: np.ndarray, pivots: np.ndarray, B: np.ndarray, left: bool = True, adjoint: bool = False) -> np.ndarray:
    def one(packed: np.ndarray, swaps: np.ndarray, right: np.ndarray) -> np.ndarray:
        given = (packed, swaps[0] - 1)
        if left:
            return scipy.linalg.lu_solve(given, right, trans=2 if adjoint else 0)
        return scipy.linalg.lu_solve(given, right.conj().T, trans=0 if adjoint else 2).conj().T

    return each(one)(LU, pivots[..., None, :], B)


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


def with_factors(make: Maker) -> list[Sample]:
    single, many = (each(_packed)(regular(make, *shape)) for shape in SHAPES)
    return [
        call(*single, make(3, 2)),
        call(*many, make(2, 3, 2), adjoint=True),
        call(*many, make(2, 2, 3), left=False),
        call(*single, make(2, 3), left=False, adjoint=True),
    ]


def _cholesky(A: np.ndarray, upper: bool = False) -> np.ndarray:
    lower = np.linalg.cholesky(A)
    return lower.swapaxes(-1, -2).conj() if upper else lower


def _cholesky_ex(A: np.ndarray, upper: bool = False) -> tuple[np.ndarray, np.ndarray]:
    return _cholesky(A, upper), no_failures(A)


def _from_factor(L: np.ndarray, upper: bool = False) -> np.ndarray:
    adjoint = L.swapaxes(-1, -2).conj()
    return adjoint @ L if upper else L @ adjoint


def _record(name: str, samples: Callable[[Maker], Any], reference: Callable[..., Any], **options: Any) -> Record:
    options = {"dtypes": DTYPES, "tolerance": CLOSE, "expanded": False, **options}
    return Record(name, samples, reference, **options)


def _positives(make: Maker) -> list[Sample]:
    return [call(positive(make, 2, 3, 3)), call(positive(make, 3, 3), upper=True)]


def _ldl(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """LAPACK's factors of a definite matrix, where it swaps nothing."""
    L = np.linalg.cholesky(A)
    size = np.diagonal(L)
    return np.tril(L / size, -1) + np.diag(size**2), np.arange(1, len(A) + 1, dtype=np.int32)


def _unpacked_ldl(LD: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    L = np.tril(LD, -1) + np.eye(len(LD))
    return L @ np.diag(np.diagonal(LD)) @ L.T


HERMITIAN = "the derivative is that of Hermitian matrices, which finite differences of single elements do not see; compared with PyTorch's"
NOT_POSITIVE = Error(lambda m: call(-np.eye(2, dtype=np.float32)), RuntimeError, "leading minor of order 1 is not positive-definite")

RECORDS = [
    *(
        _record(name, squares, np.linalg.inv, errors=(RECTANGULAR, Error(lambda m: call(ZEROS), RuntimeError, "singular")))
        for name in ("linalg.inv", "inverse")
    ),
    _record("linalg.inv_ex", squares, lambda A: (np.linalg.inv(A), no_failures(A)), errors=(RECTANGULAR,)),
    *(_record(name, squares, np.linalg.det, errors=(RECTANGULAR,)) for name in ("linalg.det", "det")),
    *(_record(name, squares, lambda A: tuple(np.linalg.slogdet(A)), errors=(RECTANGULAR,)) for name in ("linalg.slogdet", "slogdet")),
    _record(
        "logdet",
        lambda m: [call(positive(m, *shape)) for shape in SHAPES],
        lambda A: np.log(np.linalg.det(A)),
        errors=(RECTANGULAR,),
        notes="of positive-definite matrices; the logarithm of a negative determinant is NaN",
    ),
    *(
        _record(
            name,
            _positives,
            _cholesky_ex if name.endswith("_ex") else _cholesky,
            errors=(RECTANGULAR, *(() if name.endswith("_ex") else (NOT_POSITIVE,))),
            gradient=False,
            layout_free=False,
            notes=HERMITIAN,
        )
        for name in ("linalg.cholesky", "linalg.cholesky_ex", "cholesky")
    ),
    _record(
        "cholesky_solve",
        lambda m: [call(m(3, 2), factor(m, 2, 3, 3)), call(m(3, 2), _cholesky(positive(m, 3, 3), True), upper=True)],
        lambda B, L, upper=False: np.linalg.solve(_from_factor(L, upper), B),
        errors=(Error(lambda m: call(m(4, 1), m(3, 3)), RuntimeError, "Incompatible matrix sizes"),),
        gradient=False,
        notes="as PyTorch, the derivative of the factor is not cut to its triangle; compared with PyTorch's",
    ),
    _record(
        "cholesky_inverse",
        lambda m: [call(factor(m, 2, 3, 3)), call(_cholesky(positive(m, 3, 3), True), upper=True)],
        lambda L, upper=False: np.linalg.inv(_from_factor(L, upper)),
        errors=(RECTANGULAR, Error(lambda m: call(ZEROS), RuntimeError, "diagonal element 1 is zero")),
        gradient=False,
        notes="as PyTorch, the derivative of the factor is not cut to its triangle; compared with PyTorch's",
    ),
    *(
        _record(
            name,
            lambda m: [call(m(*shape)) for shape in (*SHAPES, (4, 3), (2, 3, 4))],
            (lambda A: (*each(_packed)(A), no_failures(A))) if name.endswith("_ex") else each(_packed),
            errors=(Error(lambda m: call(m(3)), RuntimeError, "2 or more dimensions"),),
        )
        for name in ("linalg.lu_factor", "linalg.lu_factor_ex", "lu")
    ),
    _record(
        "linalg.lu",
        lambda m: [call(m(*shape)) for shape in (*SHAPES, (4, 3), (2, 3, 4))],
        each(scipy.linalg.lu),
        errors=(Error(lambda m: call(m(3, 3), pivot=False), RuntimeError, "without pivoting"),),
    ),
    _record(
        "lu_unpack",
        lambda m: [call(*each(_packed)(m(*shape))) for shape in (*SHAPES, (4, 3), (2, 3, 4))],
        lambda LU, pivots: each(_unpacked)(LU, pivots[..., None, :]),
        errors=(Error(lambda m: call(m(2, 2), np.array([3, 3], np.int32)), RuntimeError, "between 1 and"),),
    ),
    _record(
        "linalg.lu_solve",
        with_factors,
        lu_solved,
        errors=(Error(lambda m: call(m(2, 2), np.array([1, 2]), m(2, 1)), RuntimeError, "torch.int32"),),
    ),
    _record(
        "lu_solve",
        lambda m: [call(m(3, 2), *each(_packed)(regular(m, 3, 3)))],
        lambda B, LU, pivots: lu_solved(LU, pivots, B),
    ),
    *(
        Record(
            name,
            lambda m: [call(positive(m, *shape)) for shape in SHAPES],
            unreferenced="the factors are not unique: `linalg.ldl_solve` uses them, and PyTorch's are the same",
            dtypes=DTYPES,
            tolerance=CLOSE,
            errors=(RECTANGULAR,),
            gradient=False,
            expanded=False,
            notes="PyTorch has no derivative either",
        )
        for name in ("linalg.ldl_factor", "linalg.ldl_factor_ex")
    ),
    _record(
        "linalg.ldl_solve",
        lambda m: [call(*_ldl(positive(m, 3, 3)), m(2, 3, 2))],
        lambda LD, pivots, B: np.linalg.solve(_unpacked_ldl(LD, pivots), B),
        errors=(Error(lambda m: call(m(2, 2), m(2), m(2, 1)), RuntimeError, "integers"),),
        gradient=False,
        notes="PyTorch has no derivative either",
    ),
    _record("linalg.solve", systems, solved, errors=(Error(lambda m: call(m(2, 2), m(3, 2)), RuntimeError, "Incompatible shapes"),)),
    _record("linalg.solve_ex", systems, lambda A, B, left=True: (solved(A, B, left), no_failures(A))),
    _record(
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
    _record(
        "triangular_solve",
        lambda m: [call(m(3, 2), regular(m, 3, 3)), call(m(3, 2), regular(m, 3, 3), upper=False, transpose=True)],
        lambda B, A, upper=True, transpose=False: (triangular(A.T if transpose else A, B, upper != transpose), A),
    ),
]
