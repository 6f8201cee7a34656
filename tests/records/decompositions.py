"""Records of decompositions of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from .linear_systems import DTYPES, SHAPES, each, regular
from .record import Error, Maker, Record, Sample, call

FLAT = Error(lambda m: call(m(3)), RuntimeError, "at least 2 dimensions")
UNKNOWN_MODE = Error(lambda m: call(m(3, 3), mode="full"), RuntimeError, "unrecognized mode")
INTEGERS = Error(lambda m: call(m(3, 3)), RuntimeError, "floating point", dtype="int64")
RECTANGULAR = Error(lambda m: call(m(2, 3)), RuntimeError, "square")


def symmetric(make: Maker, *shape: int) -> np.ndarray:
    """Hermitian matrices whose eigenvalues lie apart."""
    matrices = make(*shape, low=-0.2, high=0.2)
    return matrices + matrices.swapaxes(-1, -2).conj() + np.diag(np.arange(1.0, shape[-1] + 1)).astype(matrices.dtype)


def apart(make: Maker, *shape: int) -> np.ndarray:
    """Matrices whose singular values lie apart."""
    matrices = make(*shape, low=-0.2, high=0.2)
    return matrices + (np.eye(*shape[-2:]) * np.arange(1.0, shape[-1] + 1)).astype(matrices.dtype)


def _record(name: str, samples: Any, reference: Any = None, **options: Any) -> Record:
    options = {"dtypes": DTYPES, "expanded": False, **options}
    return Record(name, samples, reference, **options)


def _packed(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (packed, tau), _ = scipy.linalg.qr(A, mode="raw")
    return packed, tau


def _product(packed: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """All columns of the product of reflections, one after the other; ``tau`` is a row."""
    m = len(packed)
    result = np.eye(m, dtype=packed.dtype)
    for k, scale in enumerate(tau[0]):
        vector = np.concatenate([np.zeros(k), [1], packed[k + 1 :, k]]).astype(packed.dtype)
        result = result - scale * np.outer(result @ vector, vector.conj())
    return result


def _reflections(make: Maker) -> list[Sample]:
    return [call(make(3, 3), make(3)), call(make(2, 4, 3), make(2, 2))]


def _multiplied(packed: np.ndarray, tau: np.ndarray, other: np.ndarray, left: bool = True, transpose: bool = False) -> np.ndarray:
    def one(vectors: np.ndarray, factors: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        Q = _product(vectors, factors)
        Q = Q.conj().T if transpose else Q
        return Q @ matrix if left else matrix @ Q

    return each(one)(packed, tau[..., None, :], other)


SIGNS = "derivatives by the samples of PyTorch's database, whose losses do not depend on signs"

RECORDS = [
    *(
        Record(
            name,
            lambda m, options=options: [
                *(call(m(*shape), **option) for shape in SHAPES for option in options),
                call(m(4, 2)),
                call(m(2, 4)),
            ],
            reference=lambda A, mode="reduced", some=True: np.linalg.qr(A, mode=mode if some else "complete"),
            dtypes=DTYPES,
            errors=errors,
            gradient=False,
            expanded=False,
            notes="finite differences of orthonormal factors need well-conditioned matrices; the gradients are compared with PyTorch's",
        )
        for name, options, errors in (
            ("linalg.qr", ({"mode": "reduced"}, {"mode": "complete"}), (FLAT, UNKNOWN_MODE)),
            ("qr", ({}, {"some": False}), (FLAT,)),
        )
    ),
    _record(
        "geqrf",
        lambda m: [call(m(*shape)) for shape in (*SHAPES, (4, 3), (2, 3, 4))],
        each(_packed),
        errors=(FLAT,),
        gradient=False,
        notes="PyTorch has no derivative either",
    ),
    *(
        _record(
            name,
            _reflections,
            lambda A, tau: each(_product)(A, tau[..., None, :])[..., : A.shape[-1]],
            errors=(
                Error(lambda m: call(m(2, 3), m(2)), RuntimeError, "greater than or equal to input.shape"),
                Error(lambda m: call(m(3, 2), m(3)), RuntimeError, "tau.shape"),
            ),
        )
        for name in ("linalg.householder_product", "orgqr")
    ),
    _record(
        "ormqr",
        lambda m: [
            call(*_packed(m(4, 3)), m(4, 2)),
            call(*each(_packed)(regular(m, 2, 3, 3)), m(2, 2, 3), left=False, transpose=True),
        ],
        _multiplied,
        gradient=False,
        errors=(
            Error(lambda m: call(m(3, 2), m(2), m(4, 3)), RuntimeError, "must be equal to input.shape"),
            Error(lambda m: call(m(3, 2), m(1), m(4, 3), left=False), RuntimeError, r"equal to min\(other.shape\[-1\], input.shape\[-1\]"),
        ),
        notes="PyTorch's derivative is that of factors of a QR decomposition; compared with PyTorch's",
    ),
    _record(
        "linalg.eigvalsh",
        lambda m: [call(symmetric(m, 2, 3, 3)), call(symmetric(m, 3, 3), UPLO="U")],
        lambda A, UPLO="L": np.linalg.eigvalsh(A, UPLO),
        errors=(RECTANGULAR, Error(lambda m: call(m(2, 2), UPLO="x"), RuntimeError, "UPLO")),
        gradient=False,
        notes="the derivative is that of Hermitian matrices, which finite differences of single elements do not see",
    ),
    _record(
        "linalg.eigh",
        lambda m: [call(symmetric(m, 2, 3, 3)), call(symmetric(m, 3, 3), UPLO="U")],
        lambda A, UPLO="L": tuple(np.linalg.eigh(A, UPLO)),
        dtypes=("float32", "float64"),
        errors=(RECTANGULAR,),
        gradient=False,
        sign_free=True,
        notes=SIGNS,
    ),
    _record(
        "linalg.eigvals",
        lambda m: [call(symmetric(m, *shape)) for shape in SHAPES],
        np.linalg.eigvals,
        errors=(RECTANGULAR,),
        layout_free=False,
    ),
    _record(
        "linalg.eig",
        lambda m: [call(symmetric(m, *shape)) for shape in SHAPES],
        lambda A: tuple(np.linalg.eig(A)),
        dtypes=("float32", "float64"),
        errors=(RECTANGULAR,),
        gradient=False,
        layout_free=False,
        sign_free=True,
        notes=SIGNS,
    ),
    _record(
        "linalg.svdvals",
        lambda m: [call(apart(m, 2, 3, 3)), call(apart(m, 4, 3)), call(apart(m, 3, 4))],
        lambda A: np.linalg.svd(A, compute_uv=False),
        errors=(FLAT, INTEGERS),
    ),
    _record(
        "linalg.svd",
        lambda m: [call(apart(m, 2, 3, 3)), call(apart(m, 4, 3), full_matrices=False), call(apart(m, 3, 4))],
        lambda A, full_matrices=True: tuple(np.linalg.svd(A, full_matrices)),
        dtypes=("float32", "float64"),
        errors=(FLAT, INTEGERS, Error(lambda m: call(m(2, 2), driver="gesvd"), RuntimeError, "CUDA")),
        gradient=False,
        sign_free=True,
        notes=SIGNS,
    ),
    _record(
        "svd",
        lambda m: [call(apart(m, 2, 3, 3)), call(apart(m, 4, 3), some=False), call(apart(m, 3, 4))],
        lambda A, some=True: (lambda U, S, Vh: (U, S, Vh.swapaxes(-1, -2)))(*np.linalg.svd(A, not some)),
        dtypes=("float32", "float64"),
        errors=(FLAT,),
        gradient=False,
        sign_free=True,
        notes=SIGNS,
    ),
]
