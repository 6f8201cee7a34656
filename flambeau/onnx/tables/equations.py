"""Rows of equations and factorisations, which ONNX has no nodes for: loops over the columns of matrices.

    solve, inv          elimination, with the largest element of each column as its pivot
    cholesky            columns of the factor one by one
    solve_triangular    substitution

A singular matrix, for which PyTorch raises an error, gives infinite elements or NaN. Eigenvalues, singular values and what is made of them
have no row.
"""

from __future__ import annotations

import math
from typing import Any

from ...core import dtype as dtypes
from ..builder import Builder, Value
from ..errors import SymbolicValueError, UnsupportedOperatorError
from . import ROWS, row
from .shapes import _END, sizes_of


# ---- matrices
def _turned(b: Builder, x: Value) -> Value:
    """Each matrix transposed."""
    return b.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _places(b: Builder, x: Value) -> Value:
    """The numbers of the rows of a square matrix."""
    count = x.size(-1)
    if count is not None:
        return b.ints(range(count))
    size = sizes_of(b, x, [x.rank - 1])[0]
    made: Value = b.op("Range", b.constant(0, dtypes.int64), size, b.constant(1, dtypes.int64), dtype=dtypes.int64, shape=(x.shape[-1],))
    return made


def _identity(b: Builder, x: Value) -> Value:
    """Identity matrices, as many as ``x`` has matrices."""
    places = _places(b, x)
    count = x.shape[-1]
    square = b.op("Equal", b.unsqueeze(places, [-1]), places, dtype=dtypes.bool_, shape=(count, count))
    return b.expand(b.cast(square, x.dtype), b.shape_of(x), x.shape)


def _beside(b: Builder, left: Value, right: Value) -> Value:
    """Matrices side by side, of batches that are broadcast."""
    if left.shape[:-2] == right.shape[:-2]:
        return b.op("Concat", left, right, axis=left.rank - 1, shape=(*left.shape[:-1], None))
    of_batches = []
    for x in (left, right):
        corner = b.slice(b.slice(x, x.rank - 1, 0, 1, shape=(*x.shape[:-1], 1)), x.rank - 2, 0, 1, shape=(*x.shape[:-2], 1, 1))
        of_batches.append(b.op("IsNaN", corner, dtype=dtypes.bool_))
    rank = max(left.rank, right.rank)
    both = b.op("Or", *of_batches, shape=[None] * (rank - 2) + [1, 1])
    batch = b.slice(b.op("Shape", both, dtype=dtypes.int64, shape=(rank,)), 0, 0, rank - 2, shape=(rank - 2,))
    parts = []
    for x in (left, right):
        sizes = b.op("Concat", batch, b.sizes(sizes_of(b, x, [x.rank - 2, x.rank - 1])), axis=0, shape=(rank,))
        parts.append(b.expand(x, sizes, [None] * (rank - 2) + list(x.shape[-2:])))
    return b.op("Concat", *parts, axis=rank - 1, shape=(*parts[0].shape[:-1], None))


def _is_empty(x: Value) -> bool:
    """Whether there is nothing to compute: onnxruntime's loops take at least one step."""
    return any(x.size(d) == 0 for d in range(x.rank))


# ---- elimination
def solved(b: Builder, matrix: Value, right: Value) -> Value:
    """``matrix^-1 @ right`` by elimination, column by column."""
    if _is_empty(matrix) or _is_empty(right):
        return right
    places = _places(b, matrix)
    whole = _beside(b, matrix, right)
    rank, zero = whole.rank, b.constant(0, matrix.dtype)
    one_row = (*whole.shape[:-2], 1, whole.shape[-1])
    one_column, last = (*whole.shape[:-1], 1), b.ints([-1])

    def step(m: Value, j: Value) -> list[Value]:
        column = b.op("Gather", m, j, axis=rank - 1, shape=whole.shape[:-1])
        size = b.op("Where", b.op("Less", places, j, dtype=dtypes.bool_), b.constant(-1, m.dtype), b.op("Abs", column), dtype=m.dtype)
        pivot = b.op("ArgMax", size, axis=rank - 2, keepdims=1, dtype=dtypes.int64, shape=(*whole.shape[:-2], 1))
        is_pivot, is_next = (
            b.op("Unsqueeze", b.op("Equal", places, place, dtype=dtypes.bool_), last, shape=[None] * dims + [1])
            for place, dims in ((pivot, rank - 1), (j, 1))
        )
        chosen = b.op("Where", is_pivot, m, zero, dtype=m.dtype, shape=whole.shape)
        upper = b.op("ReduceSum", chosen, b.ints([rank - 2]), keepdims=1, shape=one_row)
        here = b.op("Unsqueeze", j, b.ints([0]), shape=(1,))
        lower = b.op("Gather", m, here, axis=rank - 2, shape=one_row)
        under = b.op("Where", is_next, upper, m, dtype=m.dtype, shape=whole.shape)
        swapped = b.op("Where", is_pivot, lower, under, dtype=m.dtype, shape=whole.shape)
        first = b.op("Div", upper, b.op("Gather", upper, here, axis=rank - 1, shape=(*whole.shape[:-2], 1, 1)), shape=one_row)
        factors = b.op("Gather", swapped, here, axis=rank - 1, shape=one_column)
        rest = b.op("Sub", swapped, b.op("Mul", factors, first, shape=whole.shape))
        return [b.op("Where", is_next, first, rest, dtype=m.dtype, shape=whole.shape)]

    done = b.scan(step, [whole], places, 0)[0]
    count = sizes_of(b, matrix, [matrix.rank - 1])[0]
    return b.slice(done, rank - 1, count, _END, shape=(*whole.shape[:-1], right.shape[-1]))


@row("linalg_inv", "inverse", "linalg_inv_ex")
def _inv(b: Builder, x: Value, *, check_errors: bool = False) -> Any:
    found = solved(b, x, _identity(b, x))
    found.shape = x.shape
    return found if b.name != "linalg_inv_ex" else [found, _no_info(b, 1)]


def _no_info(b: Builder, part: int) -> Value:
    """That there was no error, for each matrix."""
    shape = tuple(b.result[part].shape)
    if b.uses_part(part) and any(not isinstance(size, int) for size in shape):
        raise SymbolicValueError(f"the info of {b.name} is supported for known sizes", shape)
    sizes = [size if isinstance(size, int) else 1 for size in shape]
    return b.expand(b.constant(0, dtypes.int32), b.ints(sizes), shape)


@row("linalg_solve", "linalg_solve_ex")
def _solve(b: Builder, A: Value, B: Value, *, left: bool = True, check_errors: bool = False) -> Any:
    result = b.result[0] if isinstance(b.result, (tuple, list)) else b.result
    is_vector = B.rank == 1 or (B.rank == A.rank - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    right = b.unsqueeze(B, [-1]) if is_vector else B
    found = solved(b, A, right) if left else _turned(b, solved(b, _turned(b, A), _turned(b, right)))
    if is_vector:
        found = b.squeeze(found, [found.rank - 1])
    found.shape = tuple(result.shape)
    return found if b.name == "linalg_solve" else [found, _no_info(b, 1)]


def _squared(b: Builder, x: Value, count: int) -> Value:
    """A tensor as a square matrix, with ``count`` rows."""
    made: Value = b.op("Reshape", x, b.ints([count, count]), shape=(count, count))
    return made


@row("linalg_tensorinv")
def _tensorinv(b: Builder, x: Value, ind: int = 2) -> Value:
    matrix = _squared(b, x, _known(x.shape[:ind]))
    return b.reshape(solved(b, matrix, _identity(b, matrix)), list(b.shape))


@row("linalg_tensorsolve")
def _tensorsolve(b: Builder, A: Value, B: Value, dims: Any = None) -> Value:
    if dims is not None:
        last = [d % A.rank for d in dims]
        A = b.transpose(A, [*[d for d in range(A.rank) if d not in last], *last])
    count = _known(B.shape)
    right = b.op("Reshape", B, b.ints([count, 1]), shape=(count, 1))
    return b.reshape(solved(b, _squared(b, A, count), right), list(b.shape))


def _known(sizes: Any) -> int:
    if any(not isinstance(size, int) for size in sizes):
        raise SymbolicValueError("tensors of symbolic sizes as matrices are not supported", sizes)
    return math.prod(sizes)


# ---- Cholesky
def _in_order(b: Builder, columns: Value, x: Value) -> Value:
    """Columns that a loop noted, ``(n, *, n)``, as matrices."""
    made: Value = b.op("Transpose", columns, perm=[*range(1, x.rank), 0], shape=x.shape)
    return made


def _lower_factor(b: Builder, x: Value) -> Value:
    if _is_empty(x):
        return x
    places = _places(b, x)
    rank, zero = x.rank, b.constant(0, x.dtype)

    def step(m: Value, j: Value) -> list[Value]:
        here = b.op("Unsqueeze", j, b.ints([0]), shape=(1,))
        column = b.op("Gather", m, here, axis=rank - 1, shape=(*x.shape[:-1], 1))
        root = b.op("Sqrt", b.op("Gather", column, here, axis=rank - 2, shape=(*x.shape[:-2], 1, 1)))
        above = b.op("Unsqueeze", b.op("Less", places, j, dtype=dtypes.bool_), b.ints([-1]), shape=(None, 1))
        column = b.op("Where", above, zero, b.op("Div", column, root), dtype=x.dtype, shape=(*x.shape[:-1], 1))
        product = b.op("MatMul", column, b.op("Transpose", column, perm=[*range(rank - 2), rank - 1, rank - 2]), shape=x.shape)
        return [b.op("Sub", m, product), b.op("Squeeze", column, b.ints([rank - 1]), shape=x.shape[:-1])]

    return _in_order(b, b.scan(step, [x], places, 0)[1], x)


@row("linalg_cholesky", "cholesky", "linalg_cholesky_ex")
def _cholesky(b: Builder, x: Value, upper: bool = False, *, check_errors: bool = False) -> Any:
    found = _turned(b, _lower_factor(b, _turned(b, x))) if upper else _lower_factor(b, x)
    return found if b.name != "linalg_cholesky_ex" else [found, _no_info(b, 1)]


# ---- triangles
def _substituted(b: Builder, matrix: Value, right: Value, upper: bool, is_unit: bool) -> Value:
    """The solution with a triangular matrix: from the first row on, or from the last one."""
    if _is_empty(matrix) or _is_empty(right):
        return right
    places = _places(b, matrix)
    order = b.op("Slice", places, b.ints([-1]), b.ints([-_END]), b.ints([0]), b.ints([-1])) if upper else places
    if matrix.shape[:-2] != right.shape[:-2]:
        raise SymbolicValueError("triangular systems of batches that are broadcast are not supported", (matrix, right))
    rank, shape = right.rank, right.shape

    def step(rest: Value, j: Value) -> list[Value]:
        here = b.op("Unsqueeze", j, b.ints([0]), shape=(1,))
        line = b.op("Gather", rest, here, axis=rank - 2, shape=(*shape[:-2], 1, shape[-1]))
        column = b.op("Gather", matrix, here, axis=rank - 1, shape=(*matrix.shape[:-1], 1))
        if not is_unit:
            line = b.op("Div", line, b.op("Gather", column, here, axis=rank - 2, shape=(*shape[:-2], 1, 1)), shape=line.shape)
        left = b.op("Sub", rest, b.op("Mul", column, line, shape=shape))
        return [left, b.op("Squeeze", line, b.ints([rank - 2]), shape=(*shape[:-2], shape[-1]))]

    rows = b.scan(step, [right], order, 0)[1]
    found = b.op("Transpose", rows, perm=[*range(1, rank - 1), 0, rank - 1], shape=shape)
    if not upper:
        return found
    return b.op("Slice", found, b.ints([-1]), b.ints([-_END]), b.ints([rank - 2]), b.ints([-1]), shape=shape)


@row("linalg_solve_triangular")
def _solve_triangular(b: Builder, A: Value, B: Value, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Value:
    if left:
        return _substituted(b, A, B, upper, unitriangular)
    return _turned(b, _substituted(b, _turned(b, A), _turned(b, B), not upper, unitriangular))


@row("triangular_solve")
def _triangular_solve(
    b: Builder, right: Value, A: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> list[Value]:
    matrix = _turned(b, A) if transpose else A
    return [_substituted(b, matrix, right, upper is not transpose, unitriangular), A]


@row("cholesky_solve")
def _cholesky_solve(b: Builder, right: Value, L: Value, upper: bool = False) -> Value:
    lower, turned = (_turned(b, L), L) if upper else (L, _turned(b, L))
    return _substituted(b, turned, _substituted(b, lower, right, False, False), True, False)


@row("cholesky_inverse")
def _cholesky_inverse(b: Builder, L: Value, upper: bool = False) -> Value:
    return _cholesky_solve(b, _identity(b, L), L, upper)


# ---- powers, determinants and norms
@row("linalg_matrix_power", "matrix_power")
def _matrix_power(b: Builder, x: Value, n: int) -> Value:
    if n == 0:
        return _identity(b, x)
    base = x if n > 0 else solved(b, x, _identity(b, x))
    found = base
    for bit in f"{abs(n):b}"[1:]:
        found = b.op("MatMul", found, found, shape=x.shape)
        found = b.op("MatMul", found, base, shape=x.shape) if bit == "1" else found
    return found


@row("linalg_slogdet", "slogdet")
def _slogdet(b: Builder, x: Value) -> list[Value]:
    """By the determinant, which overflows where a matrix has many large elements."""
    found = b.op("Det", x, shape=x.shape[:-2])
    return [b.op("Sign", found), b.op("Log", b.op("Abs", found))]


@row("linalg_matrix_norm")
def _matrix_norm(b: Builder, x: Value, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Value:
    x = b.cast(x, b.dtype)
    rows, columns = (d % x.rank for d in dim)
    if ord == "fro":
        made: Value = b.op("ReduceL2", x, b.ints([rows, columns]), keepdims=int(keepdim), shape=b.shape)
        return made
    if ord == "nuc" or abs(ord) == 2:
        raise SymbolicValueError(f"linalg.matrix_norm of order {ord} is not supported: ONNX has no singular values of matrices", x)
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    kept = [1 if d == inner else size for d, size in enumerate(x.shape)]
    sums = b.op("ReduceL1", x, b.ints([inner]), keepdims=1, shape=kept)
    most = b.op("ReduceMax" if ord > 0 else "ReduceMin", sums, b.ints([outer]), keepdims=1)
    most.shape = [1 if d == outer else size for d, size in enumerate(kept)]
    return most if keepdim else b.squeeze(most, sorted((rows, columns)))


# ---- what is not made
_MADE_OF = {
    "singular values": "linalg_svd linalg_svdvals svd _linalg_svd linalg_pinv pinverse linalg_cond linalg_matrix_rank "
    "linalg_lstsq nuclear_norm",
    "eigenvalues": "linalg_eigh linalg_eigvalsh _linalg_eigh",
    "reflections": "linalg_qr qr geqrf linalg_householder_product orgqr ormqr",
    "factors": "linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve lu_unpack lu_solve linalg_ldl_factor linalg_ldl_factor_ex "
    "linalg_ldl_solve",
}


def _refuse(what: str) -> Any:
    def translate(b: Builder, *args: Any, **options: Any) -> Any:
        raise UnsupportedOperatorError(f"aten::{b.name}", b.opset, None, f"ONNX has no {what} of matrices")

    return translate


for _what, _names in _MADE_OF.items():
    for _name in _names.split():
        ROWS[_name] = _refuse(_what)
