"""Records of products, and of operations on matrices."""

from __future__ import annotations

import numpy as np

from .record import FLOATS, Error, Maker, Record, Sample, call

NUMBERS = ("float32", "float64", "bfloat16", "int64", "complex64")
SHAPES = (
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
)


def matmuls(make: Maker) -> list[Sample]:
    return [call(make(*a), make(*b)) for a, b in SHAPES]


def added(*shapes: tuple[int, ...]):
    """Samples of ``beta * input + alpha * product``."""

    def samples(make: Maker) -> list[Sample]:
        full = [make(*shape) for shape in shapes]
        holes = [np.full_like(full[0], np.nan) if full[0].dtype.kind == "f" else full[0], *full[1:]]
        return [call(*full), call(*full, beta=2, alpha=3), call(make(1), *full[1:]), call(*holes, beta=0)]

    return samples


def vectors(make: Maker) -> list[Sample]:
    return [call(make(3, 4), make(3, 4)), call(make(3, 4), make(4))]


def squares(make: Maker) -> list[Sample]:
    return [call(make(3, 3), n) for n in (0, 1, 2, 5)] + [call(make(2, 2, 2), 3)]


def mismatched(a: tuple[int, ...], b: tuple[int, ...], match: str = "") -> Error:
    return Error(lambda m: call(m(*a), m(*b)), RuntimeError, match)


def triangles(make: Maker) -> list[Sample]:
    return [call(make(3, 4)), call(make(4, 3), 1), call(make(2, 3, 3), -1), call(make(0, 3))]


def distances(make: Maker) -> list[Sample]:
    return [call(make(3, 4), make(2, 4), p) for p in (2.0, 1.0, 3.0)] + [call(make(2, 3, 4), make(2, 2, 4))]


def einsums(make: Maker) -> list[Sample]:
    return [
        call("ij,jk->ik", make(2, 3), make(3, 4)),
        call("ij,jk", make(2, 3), make(3, 4)),
        call("ii", make(3, 3)),
        call("ii->i", make(3, 3)),
        call("ij->ji", make(2, 3)),
        call("bij,bjk->bik", make(2, 2, 3), make(2, 3, 2)),
        call("...ij,...jk->...ik", make(2, 2, 3), make(3, 2)),
        call("i,j->ij", make(2), make(3)),
        call("ij,ij->", make(2, 3), make(2, 3)),
        call("bn,anm,bm->ba", make(2, 3), make(4, 3, 2), make(2, 2)),
        call(make(2, 3), [0, 1], make(3, 2), [1, 2], [0, 2]),
    ]


def grouped(make: Maker) -> list[Sample]:
    ends = np.array([3, 3, 8], np.int32)
    return [
        call(make(8, 4), make(3, 4, 4), offs=ends),
        call(make(3, 2, 4), make(4, 8), offs=ends),
        call(make(2, 8), make(8, 4), offs=ends),
        call(make(3, 2, 4), make(3, 4, 4)),
    ]


def _groups(a: np.ndarray, b: np.ndarray, ends: list[int]) -> np.ndarray:
    parts = [slice(*ends[k : k + 2]) for k in range(len(ends) - 1)]
    if a.ndim == b.ndim:
        return np.stack([a[:, part] @ b[part] for part in parts])
    if a.ndim == 2:
        return np.concatenate([a[part] @ b[k] for k, part in enumerate(parts)])
    return np.concatenate([a[k] @ b[:, part] for k, part in enumerate(parts)], 1)


RECORDS = (
    Record(
        "matmul",
        matmuls,
        lambda a, b: np.matmul(a, b),
        dtypes=NUMBERS,
        errors=(
            mismatched((2, 3), (2, 3), "cannot be multiplied"),
            mismatched((2, 3), (2,), "size mismatch"),
            mismatched((2,), (3,), "inconsistent tensor size"),
            mismatched((), (2,), "at least 1D"),
            Error(lambda m: call(m(2, 3), m(3, 2, dtype="float64")), RuntimeError, "same dtype"),
            Error(lambda m: call(m(2, 2), m(2, 2)), RuntimeError, "not implemented for 'Bool'", dtype="bool"),
        ),
    ),
    Record(
        "mm",
        lambda m: [call(m(2, 3), m(3, 4)), call(m(2, 0), m(0, 3))],
        lambda a, b: a @ b,
        dtypes=NUMBERS,
        errors=(mismatched((2, 3), (2, 3), "cannot be multiplied"), mismatched((2,), (2, 3), "matrix")),
    ),
    Record(
        "bmm",
        lambda m: [call(m(2, 2, 3), m(2, 3, 4)), call(m(0, 2, 3), m(0, 3, 2))],
        lambda a, b: a @ b,
        dtypes=NUMBERS,
        errors=(mismatched((1, 2, 3), (2, 3, 4), "Expected size"), mismatched((2, 3), (2, 3), "3D")),
    ),
    Record(
        "nn.functional.grouped_mm",
        grouped,
        lambda a, b, offs=None: np.matmul(a, b) if offs is None else _groups(a, b, [0, *offs.tolist()]),
        dtypes=("float32",),
        gradient=False,
        expanded=False,
        layout_free=False,
        errors=(
            Error(lambda m: call(m(8, 4), m(2, 4, 4)), RuntimeError, "Have to provide offsets"),
            Error(lambda m: call(m(8, 4), m(2, 4, 4), offs=np.array([3, 8])), RuntimeError, "int32"),
            Error(lambda m: call(m(8, 4), m(3, 4, 4), offs=np.array([3, 8], np.int32)), RuntimeError, "batch sizes"),
            Error(lambda m: call(m(8, 8), m(2, 4, 4), offs=np.array([3, 8], np.int32)), RuntimeError, "contraction"),
            Error(lambda m: call(m(2, 2, 4), m(3, 4, 4)), RuntimeError, "batched dimension"),
            Error(lambda m: call(m(2, 2, 3), m(2, 3, 4)), RuntimeError, "multiple of 16 bytes"),
            Error(lambda m: call(m(2, 2, 4), m(2, 4, 4)), RuntimeError, "Expected mat_a to be Float32", dtype="float64"),
        ),
        notes="float64, and rows that do not begin at multiples of 16 bytes, are refused",
    ),
    Record(
        "mv",
        lambda m: [call(m(2, 3), m(3))],
        lambda a, b: a @ b,
        dtypes=NUMBERS,
        errors=(mismatched((2, 3), (2,), "size mismatch"), mismatched((2,), (2,), "vector")),
    ),
    Record(
        "dot",
        lambda m: [call(m(4), m(4)), call(m(0), m(0))],
        lambda a, b: a @ b,
        dtypes=NUMBERS,
        errors=(mismatched((2,), (3,), "inconsistent"), mismatched((2, 2), (2,), "1D tensors expected")),
    ),
    Record("vdot", lambda m: [call(m(4), m(4))], lambda a, b: np.vdot(a, b), dtypes=NUMBERS),
    Record(
        "outer",
        lambda m: [call(m(3), m(4)), call(m(0), m(2))],
        lambda a, b: np.outer(a, b),
        errors=(mismatched((2, 2), (2,), "Expected 1-D argument self"),),
    ),
    Record(
        "inner",
        lambda m: [call(m(2, 3), m(4, 3)), call(m(3), m(3)), call(m(), m(2)), call(m(2, 2, 3), m(3))],
        dtypes=NUMBERS,
        errors=(mismatched((2, 3), (2,), "last dimension"),),
    ),
    Record(
        "addmm",
        added((2, 4), (2, 3), (3, 4)),
        dtypes=NUMBERS,
        errors=(
            Error(lambda m: call(m(2, 2), m(2, 3), m(2, 3)), RuntimeError, "cannot be multiplied"),
            Error(lambda m: call(m(2, 2), m(2, 3), m(3, 3)), RuntimeError, "expanded size"),
        ),
    ),
    Record("addmv", added((2,), (2, 3), (3,)), dtypes=NUMBERS),
    Record("addbmm", added((2, 4), (2, 2, 3), (2, 3, 4)), dtypes=("float32", "float64", "int64", "complex64")),
    Record("baddbmm", added((2, 2, 4), (2, 2, 3), (2, 3, 4)), dtypes=NUMBERS),
    Record("addr", added((2, 3), (2,), (3,)), dtypes=("float32", "float64", "int64", "complex64")),
    Record("chain_matmul", lambda m: [call(m(2, 3), m(3, 4), m(4, 2)), call(m(2, 3), m(3, 1))], dtypes=FLOATS),
    Record(
        "linalg.multi_dot",
        lambda m: [call([m(2, 3), m(3, 4), m(4, 2)]), call([m(3), m(3, 2), m(2)])],
        dtypes=FLOATS,
        errors=(Error(lambda m: call([m(2)]), RuntimeError, "at least 2 tensors"),),
    ),
    Record(
        "nn.functional.linear",
        lambda m: [
            call(m(2, 3), m(4, 3), m(4)),
            call(m(2, 3), m(4, 3)),
            call(m(3), m(4, 3), m(4)),
            call(m(5, 2, 3), m(4, 3), m(4)),
            call(m(2, 3), m(3)),
            call(m(0, 3), m(4, 3), m(4)),
        ],
        dtypes=(*FLOATS, "bfloat16", "complex64"),
        errors=(
            mismatched((2, 3), (4, 2), "cannot be multiplied"),
            Error(lambda m: call(m(2, 3), m(4, 3), m(5)), RuntimeError, "expanded size"),
        ),
    ),
    Record(
        "bilinear",
        lambda m: [call(m(4, 2), m(4, 3), m(5, 2, 3), m(5)), call(m(2), m(3), m(5, 2, 3))],
        dtypes=FLOATS,
    ),
    Record(
        "tensordot",
        lambda m: [call(m(2, 3, 4), m(3, 4, 2)), call(m(2, 3), m(3, 2), 1), call(m(2, 3), m(4, 2), ([0], [1])), call(m(2), m(3), 0)],
        dtypes=FLOATS,
        errors=(Error(lambda m: call(m(2, 3), m(2, 3), 1), RuntimeError, "contracted dimensions"),),
    ),
    Record(
        "einsum",
        einsums,
        dtypes=(*FLOATS, "complex64"),
        is_view=True,
        errors=(
            Error(lambda m: call("ij,jk->il", m(2, 3), m(3, 2)), RuntimeError, "does not appear"),
            Error(lambda m: call("ij", m(2)), RuntimeError, "number of subscripts"),
            Error(lambda m: call("ij,jk", m(2, 3), m(2, 3)), RuntimeError, "does not broadcast"),
        ),
    ),
    Record("cdist", distances, dtypes=FLOATS, errors=(mismatched((2, 3), (2, 2), "same number of columns"),)),
    Record("pdist", lambda m: [call(m(4, 3)), call(m(3, 2), 1.0), call(m(9, 2))], dtypes=FLOATS),
    Record("pairwise_distance", lambda m: [*vectors(m), call(m(3, 4), m(3, 4), 1.0, 1e-6, True)], dtypes=FLOATS),
    Record(
        "cosine_similarity",
        lambda m: [*vectors(m), call(m(2, 3), m(2, 3), 0), call(m(4), m(4), dim=0)],
        dtypes=FLOATS,
    ),
    Record("linalg.vecdot", lambda m: [*vectors(m), call(m(3, 4), m(3, 4), dim=0)], dtypes=(*FLOATS, "complex64")),
    # matrices
    Record("tril", triangles, lambda a, k=0: np.tril(a, k), errors=(Error(lambda m: call(m(3)), RuntimeError, "at least 2 dim"),)),
    Record("triu", triangles, lambda a, k=0: np.triu(a, k), errors=(Error(lambda m: call(m(3)), RuntimeError, "at least 2 dim"),)),
    Record("diag_embed", lambda m: [call(m(2, 3)), call(m(3), 1), call(m(2, 3), -1, 0, 2), call(m(2, 3), 0, 2, 1)]),
    Record(
        "diag",
        lambda m: [call(m(3)), call(m(3), 1), call(m(3, 4)), call(m(3, 4), -1)],
        errors=(Error(lambda m: call(m(1, 1, 1)), RuntimeError, "1D or 2D"),),
    ),
    Record("diagflat", lambda m: [call(m(3)), call(m(2, 2), 1)]),
    Record(
        "trace",
        lambda m: [call(m(3, 3)), call(m(2, 4))],
        lambda a: np.trace(a),
        dtypes=NUMBERS,
        errors=(Error(lambda m: call(m(3)), RuntimeError, "expected a matrix"),),
    ),
    Record("kron", lambda m: [call(m(2, 3), m(3, 2)), call(m(2), m(3)), call(m(), m(2))], lambda a, b: np.kron(a, b)),
    Record(
        "cross",
        lambda m: [call(m(2, 3), m(2, 3)), call(m(3, 2), m(3, 2)), call(m(3, 4), m(3, 4), 0)],
        dtypes=("float32", "float64", "int64", "complex64"),
        errors=(mismatched((2, 2), (2, 2), "size 3"),),
    ),
    Record(
        "linalg.cross",
        lambda m: [call(m(2, 3), m(2, 3)), call(m(3, 2), m(3, 1), dim=0)],
        dtypes=("float32", "float64", "int64", "complex64"),
        errors=(mismatched((2, 2), (2, 2), "length 3"),),
    ),
    Record(
        "matrix_power",
        squares,
        dtypes=FLOATS,
        gradient=True,
        errors=(Error(lambda m: call(m(2, 3), 2), RuntimeError, "square"),),
    ),
    Record("linalg.matrix_power", squares, dtypes=FLOATS),
    Record("vander", lambda m: [call(m(3)), call(m(3), 2), call(m(3), 4, True)], dtypes=("float64", "int64")),
    Record("linalg.vander", lambda m: [call(m(3)), call(m(2, 3), N=2)], dtypes=("float32", "float64", "int64")),
)
