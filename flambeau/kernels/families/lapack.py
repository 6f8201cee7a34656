"""LAPACK over batches of matrices: the routines of NumPy's own library, called for one matrix after another by the pool's threads.

NumPy has functions for a part of them, which compute float32 in double precision, and SciPy's bindings are called from Python once per
matrix.  Here a generated loop calls any routine: Fortran takes every argument by its address, so that the loop needs only how far
each address moves from matrix to matrix (``_run``).  Matrices lie with their columns contiguous.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ...core.arrays.native import NoKernel, native
from ..compiler.build import kernel
from ..compiler.language import Builder, Value
from . import blocks, elimination, reflections, roots, small_matrices, small_solutions, substitution
from .blas import Library, alone, library

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_REAL = {"f": "f", "d": "d", "F": "f", "D": "d"}
CHUNK = 1 << 16  # operations that a chunk does, at least: some 20 us
CALL = 1 << 10  # and what a call costs beside them
CHUNKS = 64  # of a batch at most: each has room of its own to work in
HALVED = 1 << 21  # operations from which on the right hand sides of one system are solved in two halves
SEVERAL = 4  # right hand sides of one triangle from which on blocks are quicker than LAPACK
OWN = 512  # rows from which on one matrix is left to the library's own threads

Arrays = tuple[np.ndarray, ...]


@kernel
def for_each_matrix(k: Builder, count: int, words: int) -> None:
    """Call a routine with ``count`` addresses, ``words`` of them of words, for each matrix of the chunks.

    An address moves by ``step`` bytes from matrix to matrix, or by ``part`` bytes from chunk to chunk where it is room to work in.
    """
    routine, matrices, per = k.pointer(), k.integer(), k.integer()
    places = [(k.array(), k.integer(), k.integer()) for _ in range(count)]

    def chunk(c: Value) -> None:
        starts = [k.at(base, c * part, "i8") for base, _, part in places]

        def matrix(j: Value) -> None:
            passed = [f"ptr {k.at(start, j * step, 'i8').text}" for start, (_, step, _) in zip(starts, places, strict=True)]
            k.effect(f"call void {routine.text}({', '.join(passed + ['i64 1'] * words)})")  # Fortran's lengths of words come last

        k.loop(c * per, k.least((c + 1) * per, matrices), matrix)

    k.for_chunks(chunk)


class Room:
    """Memory to work in, and how long it is, which the routine requests: two arguments.  Of a given size: one."""

    def __init__(self, dtype: str, size: int = 0):
        self.dtype, self.size = dtype, size


@cache
def _routine(name: str) -> tuple[Library, int] | None:
    blas = library()
    address = None if blas is None else blas.routine(name)
    return None if blas is None or address is None else (blas, address)


@cache
def _constant(value: int | float | str, dtype: str) -> np.ndarray:
    return np.frombuffer(value.encode(), np.uint8) if isinstance(value, str) else np.array([value], dtype)


@lru_cache(maxsize=4096)
def _rooms(name: str, arguments: tuple[Any, ...], rooms: tuple[tuple[int, str], ...]) -> list[int]:
    """Sizes of the work arrays that the routine requests at these places."""
    asked = [np.zeros(1, dtype) for _, dtype in rooms]
    values: list[Any] = list(arguments)
    for (place, _), answer in zip(rooms, asked, strict=True):
        values[place : place + 2] = answer, -1
    _launch(name, 1, 1, [np.zeros(2, "d") if value is None else value for value in values], True)
    return [max(1, math.ceil(float(answer[0].real) * (1 + 1e-6))) for answer in asked]


def _run(name: str, count: int, cost: int, *arguments: Any) -> None:
    """Call a routine for ``count`` matrices.

    Args:
        cost: operations for each matrix, by which the batch is cut into chunks.
        arguments: as the routine has them: stacks of arrays, their number first, or 1 for what all share; numbers and words; ``Room``.
    """
    flat: list[Any] = []
    wanted: list[tuple[int, str]] = []
    for argument in arguments:
        flat.append(argument)
        if argument.__class__ is Room and not argument.size:
            wanted.append((len(flat) - 1, argument.dtype))
            flat.append(None)
    if wanted:
        plain = tuple([None if argument.__class__ is np.ndarray or argument.__class__ is Room else argument for argument in flat])
        for (place, dtype), size in zip(wanted, _rooms(name, plain, tuple(wanted)), strict=True):
            flat[place : place + 2] = Room(dtype, size), size
    per = 1 if count == 1 else max(1, CHUNK // (cost + CALL), -(-count // CHUNKS))
    _launch(name, count, per, flat, count > 1 or cost < OWN**3)


def _launch(name: str, count: int, per: int, arguments: list[Any], by_itself: bool) -> None:
    blas, address = _routine(name)  # type: ignore[misc]
    chunks, words, integer = -(-count // per), 0, blas.integer
    places: list[int] = []
    kept: list[np.ndarray] = []  # until the call returns
    for argument in arguments:
        step = part = 0
        given = argument.__class__
        if given is np.ndarray:
            array = argument
            if count > 1 and argument.shape[0] > 1:
                step = argument.strides[0]
        elif given is int:
            array = _constant(argument, integer)
        elif given is str:
            array = _constant(argument, "")
            words += 1
        else:
            array = np.empty((chunks, argument.size), argument.dtype)
            part = array.strides[0]
        kept.append(array)
        places += (id(array), step, part)
    call = for_each_matrix(len(arguments), words)
    if by_itself:
        alone(call, chunks, address, count, per, *places)
    else:
        call(chunks, address, count, per, *places)


def _letter(A: np.ndarray, *routines: str) -> str:
    """The routines' first letter for a dtype.

    Raises:
        NoKernel: there is nothing to compute, or the library has not all of them.
    """
    letter = _letter_of(A.dtype.char, routines) if A.size else ""
    if not letter:
        raise NoKernel(f"LAPACK: no {' and '.join(routines)} for {A.size} elements of {A.dtype}")
    return letter


@lru_cache(maxsize=256)
def _letter_of(char: str, routines: tuple[str, ...]) -> str:
    letter = _LETTERS.get(char, "")
    return letter if letter and all(_routine(letter + name) for name in routines) else ""


def _stack(matrices: np.ndarray, lead: tuple[int, ...] | None = None) -> np.ndarray:
    """A new array ``(count, n, m)`` of the transposed matrices, which LAPACK may overwrite; they are broadcast over ``lead``."""
    if lead is not None and matrices.shape[:-2] != lead:
        matrices = np.broadcast_to(matrices, (*lead, *matrices.shape[-2:]))
    result = np.empty((*matrices.shape[:-2], matrices.shape[-1], matrices.shape[-2]), matrices.dtype)
    result[...] = matrices.swapaxes(-1, -2)
    return result.reshape(-1, *result.shape[-2:])


def _matrices(stack: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
    return stack.reshape(*lead, *stack.shape[1:]).swapaxes(-1, -2)


def _parts(X: np.ndarray, cost: int) -> np.ndarray:
    """Right hand sides, of one large system in two halves, for two threads; by their size alone."""
    halves = len(X) == 1 and X.shape[1] % 2 == 0 and cost >= HALVED
    return X.reshape(2, X.shape[1] // 2, X.shape[2]) if halves else X


def _clear(letter: str, stack: np.ndarray, upper: bool) -> None:
    """Zeros beside one triangle of square matrices, in place."""
    n = stack.shape[-1] - 1
    if n:
        beside, zero = stack[:, 0, 1:] if upper else stack[:, 1:], np.zeros(1, stack.dtype)
        _run(letter + "laset", len(stack), n * n, "L" if upper else "U", n, n, zero, zero, beside, n + 1)


@lru_cache(maxsize=16)
def _triangle(n: int, m: int) -> np.ndarray:
    return np.tri(n, m, dtype=bool)


def _integers(*shape: int) -> np.ndarray:
    return np.zeros(shape, library().integer)  # type: ignore[union-attr]


def _failures(info: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
    return info.astype(np.int32).reshape(lead)


# -- systems of equations -------------------------------------------------------------------------------------------------------------
def _factored(A: np.ndarray, letter: str, lead: tuple[int, ...] | None = None) -> Arrays:
    """Packed LU factors of the transposed stack, pivots and failures."""
    result = small_matrices.factors(A) if lead is None else None
    if result is not None:
        return result
    (m, n), stack = A.shape[-2:], _stack(A, lead)
    count, short = len(stack), min(m, n)
    pivots, info = _integers(count, short), _integers(count)
    _run(letter + "getrf", count, m * n * short, m, n, stack, max(m, 1), pivots, info)
    return stack, pivots, info


def _own_factors(A: np.ndarray) -> Any:
    """Those by blocks; None for matrices that are LAPACK's, or that lanes of vectors have each (``small_matrices``)."""
    return None if small_matrices.are_many(A) else elimination.factors(A)


@native("_lu_factor")
def lu_factor(A: np.ndarray) -> Arrays:
    letter, lead, own = _letter(A, "getrf"), A.shape[:-2], _own_factors(A)
    if own is not None:
        rows, swaps, _, failures = own
        return _matrices(blocks.in_columns(rows, A.shape[-2]), lead), swaps.reshape(*lead, -1), _failures(failures, lead)
    stack, pivots, info = _factored(A, letter)
    return _matrices(stack, lead), pivots.astype(np.int32).reshape(*lead, -1), _failures(info, lead)


def _lead(A: np.ndarray, B: np.ndarray) -> tuple[int, ...]:
    return np.broadcast_shapes(A.shape[:-2], B.shape[:-2])


def _readable(matrices: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
    """A stack of the transposed matrices that LAPACK only reads: their own memory where it lies right."""
    if matrices.shape[:-2] == lead and matrices.swapaxes(-1, -2).flags.c_contiguous:
        return matrices.swapaxes(-1, -2).reshape(-1, matrices.shape[-1], matrices.shape[-2])
    return _stack(matrices, lead)


def _swaps(pivots: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
    wide = np.broadcast_to(pivots, (*lead, pivots.shape[-1]))
    return np.ascontiguousarray(wide, library().integer).reshape(-1, pivots.shape[-1])  # type: ignore[union-attr]


def _pivots_of(A: np.ndarray) -> np.ndarray:
    """The diagonal of A's factor U, its first element with the sign of the rows' permutation."""
    own, n = _own_factors(A), A.shape[-1]
    if own is None:
        matrices, pivots, _ = lu_factor(A)
    else:
        matrices, pivots = own[0].array[:, :n, :n].reshape(*A.shape[:-2], n, n), own[1].reshape(A.shape[:-1])
    diagonal = matrices.diagonal(0, -2, -1).copy()
    swapped = (pivots != _numbers(n)).sum(-1) % 2 == 1
    diagonal[..., 0] = np.where(swapped, -diagonal[..., 0], diagonal[..., 0])
    return diagonal


@lru_cache(maxsize=64)
def _numbers(n: int) -> np.ndarray:
    return np.arange(1, n + 1, dtype=np.int32)


@native("linalg.det")
def det(A: np.ndarray) -> np.ndarray:
    return np.multiply.reduce(_pivots_of(A), -1)


@native("linalg.slogdet")
def slogdet(A: np.ndarray) -> Arrays:
    diagonal = _pivots_of(A)
    return np.multiply.reduce(np.sign(diagonal), -1), np.log(np.abs(diagonal)).sum(-1)


@native("_inverse")
def inverse(A: np.ndarray) -> Arrays | None:
    own = elimination.factors(A)
    if own is None or own[3].any():
        return solve(A, np.eye(A.shape[-1], dtype=A.dtype))
    rows, pivots, order, _ = own
    lead = A.shape[:-2]
    return _matrices(substitution.solutions("inverse", rows, None, pivots, order), lead), np.zeros(lead, np.int32)


def _solved_by_triangles(word: str, A: np.ndarray, B: np.ndarray | None) -> np.ndarray | None:
    """Solutions as ``substitution.solutions`` has them, of as many systems as A has matrices; None where LAPACK is to solve them."""
    if B is not None and (A.dtype != B.dtype or A.shape[:-2] != B.shape[:-2]):
        return None
    small = small_solutions.solutions(word, A, B)
    if small is not None:
        return small
    rows = blocks.in_rows(A) if B is None or B.shape[-1] >= SEVERAL else None
    return None if rows is None else substitution.solutions(word, rows, B)


@native("_lu_solve")
def lu_solve(factors: np.ndarray, pivots: np.ndarray, B: np.ndarray, adjoint: bool) -> np.ndarray | None:
    letter, (n, columns) = _letter(B, "getrs"), B.shape[-2:]
    if not factors.size:
        return None
    lead = _lead(factors, B)
    rows = blocks.in_rows(factors) if factors.shape[:-2] == lead == B.shape[:-2] and columns >= SEVERAL else None
    if rows is not None:
        places = np.ascontiguousarray(pivots, np.int32).reshape(-1, n)
        return _matrices(substitution.solutions("transposed factors" if adjoint else "factors", rows, B, places), lead)
    swaps = _swaps(pivots, lead)
    X, cost = _stack(B, lead), 2 * n * n * columns
    halves = _parts(X, cost)
    each = (n, halves.shape[1], _readable(factors, lead), n, swaps, halves, n, _integers(1))
    _run(letter + "getrs", len(halves), cost, "C" if adjoint else "N", *each)
    return _matrices(X, lead)


@native("_solve")
def solve(A: np.ndarray, B: np.ndarray) -> Arrays | None:
    """``A X = B`` and the first zero on the diagonal of A's factor U, counted from 1."""
    letter, (n, columns) = _letter(B, "getrf", "getrs"), B.shape[-2:]
    if not A.size:
        return None
    lead = _lead(A, B)
    own = elimination.factors(A) if A.shape[:-2] == B.shape[:-2] and A.dtype == B.dtype else None
    if own is not None and not own[3].any():
        rows, pivots, order, _ = own
        return _matrices(substitution.solutions("factors", rows, B, pivots, order), lead), np.zeros(lead, np.int32)
    factors, pivots, info = _factored(A, letter)
    if A.shape[:-2] != lead:
        steps = np.broadcast_to(np.arange(len(factors)).reshape(A.shape[:-2]), lead).reshape(-1)
        factors, pivots = factors[steps], pivots[steps]
    X, cost = _stack(B, lead), 2 * n * n * columns
    halves = _parts(X, cost)
    _run(letter + "getrs", len(halves), cost, "N", n, halves.shape[1], factors, n, pivots, halves, n, _integers(1))
    return _matrices(X, lead), _failures(info, A.shape[:-2])


@native("_solve_triangular")
def solve_triangular(A: np.ndarray, B: np.ndarray, upper: bool, left: bool, unitriangular: bool) -> np.ndarray | None:
    letter, (m, n) = _letter(B, "trsm"), B.shape[-2:]
    if A.dtype != B.dtype:
        return None
    lead, size = _lead(A, B), A.shape[-1]
    word = f"{'' if left else 'rows of '}{'unit ' if unitriangular else ''}{'upper' if upper is left else 'lower'}"
    own = _solved_by_triangles(word, A, B) if left else _solved_by_triangles(word, A.swapaxes(-1, -2), B.swapaxes(-1, -2))
    if own is not None:
        return _matrices(own, lead)
    by_rows = A.shape[:-2] == lead and A.flags.c_contiguous  # read as its transpose
    given = A.reshape(-1, size, size) if by_rows else _readable(A, lead)
    words = ("L" if left else "R", "U" if upper != by_rows else "L", "T" if by_rows else "N", "U" if unitriangular else "N")
    X, cost = _stack(B, lead), size * m * n
    halves = _parts(X, cost) if left else X
    _run(letter + "trsm", len(halves), cost, *words, m, halves.shape[1], np.ones(1, B.dtype), given, size, halves, m)
    return _matrices(X, lead)


# -- symmetric matrices ---------------------------------------------------------------------------------------------------------------
@native("_cholesky")
def cholesky(A: np.ndarray, upper: bool) -> Arrays:
    letter, n = _letter(A, "potrf", "laset"), A.shape[-1]
    lead, own = A.shape[:-2], small_matrices.roots(A, upper)
    if own is None:
        own = roots.roots(A, upper)
    if own is not None:
        return _matrices(own, lead), np.zeros(lead, np.int32)
    stack = _stack(A)
    info = _integers(len(stack))
    _run(letter + "potrf", len(stack), n**3 // 3, "U" if upper else "L", n, stack, n, info)
    _clear(letter, stack, upper)
    return _matrices(stack, lead), _failures(info, lead)


@native("_cholesky_solve")
def cholesky_solve(factor: np.ndarray, B: np.ndarray, upper: bool) -> np.ndarray | None:
    letter, (n, columns) = _letter(B, "potrs"), B.shape[-2:]
    if factor.dtype != B.dtype:
        return None
    lead, own = _lead(factor, B), _solved_by_triangles("upper root" if upper else "lower root", factor, B)
    if own is not None:
        return _matrices(own, lead)
    X, cost = _stack(B, lead), 2 * n * n * columns
    halves = _parts(X, cost)
    each = (n, halves.shape[1], _readable(factor, lead), n, halves, n, _integers(1))
    _run(letter + "potrs", len(halves), cost, "U" if upper else "L", *each)
    return _matrices(X, lead)


@native("_cholesky_inverse")
def cholesky_inverse(factor: np.ndarray, upper: bool) -> np.ndarray:
    letter, n = _letter(factor, "potri"), factor.shape[-1]
    own = _solved_by_triangles(f"inverse of {'upper' if upper else 'lower'} root", factor, None)
    if own is not None:
        return _matrices(own, factor.shape[:-2])
    stack = _stack(factor)
    _run(letter + "potri", len(stack), n**3, "U" if upper else "L", n, stack, n, _integers(1))
    mask, other = _triangle(n, n), stack.swapaxes(-1, -2).conj()
    return _matrices(np.where(mask, stack, other) if upper else np.where(mask.T, stack, other), factor.shape[:-2])


@native("_ldl_factor")
def ldl_factor(A: np.ndarray, hermitian: bool) -> Arrays:
    routine, n = "hetrf" if hermitian and A.dtype.kind == "c" else "sytrf", A.shape[-1]
    letter = _letter(A, routine, "laset")
    stack, lead = _stack(A), A.shape[:-2]
    pivots, info = _integers(len(stack), n), _integers(len(stack))
    _run(letter + routine, len(stack), n**3 // 3, "L", n, stack, n, pivots, Room(A.dtype.char), info)
    _clear(letter, stack, False)
    return _matrices(stack, lead), pivots.astype(np.int32).reshape(*lead, n), _failures(info, lead)


@native("_ldl_solve")
def ldl_solve(factors: np.ndarray, pivots: np.ndarray, B: np.ndarray, hermitian: bool) -> np.ndarray | None:
    routine, (n, columns) = "hetrs" if hermitian and B.dtype.kind == "c" else "sytrs", B.shape[-2:]
    letter = _letter(B, routine)
    if factors.dtype != B.dtype:
        return None
    lead = _lead(factors, B)
    swaps = _swaps(pivots, lead)
    X = _stack(B, lead)
    _run(letter + routine, len(X), 2 * n * n * columns, "L", n, columns, _readable(factors, lead), n, swaps, X, n, _integers(1))
    return _matrices(X, lead)


@native("_eigh")
def eigh(A: np.ndarray, UPLO: str, vectors: bool) -> Any:
    """Eigenvalues, and the eigenvectors where they are wanted; NaN where the iteration does not converge."""
    is_complex, n = A.dtype.kind == "c", A.shape[-1]
    routine = "heevd" if is_complex else "syevd"
    letter = _letter(A, routine)
    stack, real, lead = _stack(A), _REAL[A.dtype.char], A.shape[:-2]
    values, info = np.empty((len(stack), n), real), _integers(len(stack))
    rooms = [Room(A.dtype.char), *([Room(real)] if is_complex else []), Room(library().integer)]  # type: ignore[union-attr]
    _run(letter + routine, len(stack), (9 if vectors else 2) * n**3, "V" if vectors else "N", UPLO, n, stack, n, values, *rooms, info)
    values[info != 0] = np.nan
    values = values.reshape(*lead, n)
    return (values, _matrices(stack, lead)) if vectors else values


# -- QR -------------------------------------------------------------------------------------------------------------------------------
@native("geqrf")
def geqrf(A: np.ndarray) -> Arrays:
    letter, (m, n), lead, small = _letter(A, "geqrf"), A.shape[-2:], A.shape[:-2], small_solutions.reflections(A)
    if small is not None:
        return _matrices(small[0], lead), small[1].reshape(*lead, -1)
    own = reflections.factors(A)
    if own is not None:
        return _matrices(blocks.in_columns(own.rows, m), lead), own.tau.reshape(*lead, -1)
    stack, short = _stack(A), min(m, n)
    tau = np.empty((len(stack), short), A.dtype)
    _run(letter + "geqrf", len(stack), 2 * m * n * short, m, n, stack, m, tau, Room(A.dtype.char), _integers(1))
    return _matrices(stack, A.shape[:-2]), tau.reshape(*A.shape[:-2], short)


@native("_orgqr")
def orgqr(A: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The first columns, as many as A has, of the product of the reflections."""
    routine, (m, n), count = "ungqr" if A.dtype.kind == "c" else "orgqr", A.shape[-2:], tau.shape[-1]
    letter, product = _letter(A, routine), small_solutions.product(A, tau, n)
    own = reflections.given(A, tau) if product is None else None
    if own is not None:
        product = reflections.product(own, None, n)
    if product is not None:
        return _matrices(product, A.shape[:-2])
    stack, factors = _stack(A), np.ascontiguousarray(tau).reshape(-1, count) if count else np.zeros(1, A.dtype)
    _run(letter + routine, len(stack), 2 * m * n * n, m, n, count, stack, m, factors, Room(A.dtype.char), _integers(1))
    return _matrices(stack, A.shape[:-2])


@native("_ormqr")
def ormqr(A: np.ndarray, tau: np.ndarray, C: np.ndarray, left: bool, adjoint: bool) -> np.ndarray | None:
    """``Q C`` or ``C Q``, or with ``Q^H``."""
    is_complex, (m, n), count = A.dtype.kind == "c", C.shape[-2:], tau.shape[-1]
    routine = "unmqr" if is_complex else "ormqr"
    letter = _letter(C, routine)
    if not count:
        return None
    lead, rows, own = C.shape[:-2], A.shape[-2], reflections.given(A[..., :count], tau) if A.shape[:-2] == C.shape[:-2] else None
    if own is not None and left:
        return _matrices(reflections.product(own, C, n, adjoint), lead)
    if own is not None:  # C Q is the transposed Q^T C^T
        return _matrices(reflections.product(own, C.swapaxes(-1, -2), m, not adjoint, True), lead)
    result, words = _stack(C), ("L" if left else "R", ("C" if is_complex else "T") if adjoint else "N")
    vectors, factors = _readable(A, lead), np.ascontiguousarray(tau).reshape(-1, count)
    cost = 4 * m * n * count
    _run(letter + routine, len(result), cost, *words, m, n, count, vectors, rows, factors, result, m, Room(A.dtype.char), _integers(1))
    return _matrices(result, lead)


@native("linalg.qr")
def qr(A: np.ndarray, mode: str) -> Arrays:
    m, n = A.shape[-2:]
    size = m if mode == "complete" else min(m, n)
    own = None if small_solutions.are_many(A) else reflections.factors(A)
    if own is not None:
        R = _matrices(blocks.in_columns(own.rows, size, True), A.shape[:-2])
        return (np.empty((0,), A.dtype) if mode == "r" else _matrices(reflections.product(own, None, size), A.shape[:-2])), R
    packed, tau = geqrf(A)
    R = np.where(_triangle(n, size), packed.swapaxes(-1, -2)[..., :size], 0).swapaxes(-1, -2)
    if mode == "r":
        return np.empty((0,), A.dtype), R
    if size > n:
        vectors = np.zeros((*A.shape[:-2], size, m), A.dtype).swapaxes(-1, -2)
        vectors[..., :n] = packed
    else:
        vectors = packed[..., :size]
    return orgqr(vectors, tau), R


# -- singular values and eigenvalues ----------------------------------------------------------------------------------------------------
@native("_svd")
def svd(A: np.ndarray, full_matrices: bool, vectors: bool) -> Any:
    """U, S and Vh, or S alone; S is NaN where the iteration does not converge."""
    letter, (m, n) = _letter(A, "gesdd"), A.shape[-2:]
    stack, real, short, lead = _stack(A), _REAL[A.dtype.char], min(m, n), A.shape[:-2]
    count, char = len(stack), A.dtype.char
    rows, columns = (m, n) if full_matrices else (short, short)
    U = np.empty((count, rows, m) if vectors else (1,), char)
    Vh = np.empty((count, n, columns) if vectors else (1,), char)
    values, info = np.empty((count, short), real), _integers(count)
    more = [Room(real, max(1, short * max(5 * short + 7, 2 * max(m, n) + 2 * short + 1)))] if A.dtype.kind == "c" else []
    integers = Room(library().integer, 8 * short)  # type: ignore[union-attr]
    word, cost = ("A" if full_matrices else "S") if vectors else "N", (20 if vectors else 4) * m * n * short
    _run(letter + "gesdd", count, cost, word, m, n, stack, m, values, U, m, Vh, columns, Room(char), *more, integers, info)
    values[info != 0] = np.nan
    values = values.reshape(*lead, short)
    return (_matrices(U, lead), values, _matrices(Vh, lead)) if vectors else values


@native("_eig")
def eig(A: np.ndarray, vectors: bool) -> Any:
    """Eigenvalues, and the eigenvectors where they are wanted, complex; None where an iteration does not converge."""
    letter, n = _letter(A, "geev"), A.shape[-1]
    stack, real, char, lead = _stack(A), _REAL[A.dtype.char], A.dtype.char, A.shape[:-2]
    count, info = len(stack), _integers(len(stack))
    right, word = np.empty((count, n, n) if vectors else (1,), char), "V" if vectors else "N"
    values = [np.empty((count, n), char) for _ in range(1 if A.dtype.kind == "c" else 2)]
    more = [Room(real, 2 * n)] if A.dtype.kind == "c" else []
    unused = np.empty(1, char)
    _run(letter + "geev", count, 25 * n**3, "N", word, n, stack, n, *values, unused, 1, right, n, Room(char), *more, info)
    if info.any():
        return None
    if A.dtype.kind == "c":
        eigenvalues = values[0].reshape(*lead, n)
        return (eigenvalues, _matrices(right, lead)) if vectors else eigenvalues
    eigenvalues = (values[0] + np.array(1j, np.dtype(char.upper())) * values[1]).reshape(*lead, n)
    return (eigenvalues, _matrices(_joined(right, values[1]), lead)) if vectors else eigenvalues


def _joined(right: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Complex vectors: of a pair of conjugated eigenvalues LAPACK returns real and imaginary part in the places of the two."""
    first = imaginary > 0
    result = right.astype(right.dtype.char.upper())
    batch, place = np.nonzero(first)
    real, other = right[batch, place], right[batch, place + 1]
    result[batch, place] = real + np.array(1j, result.dtype) * other
    result[batch, place + 1] = result[batch, place].conj()
    return result


@native("_gelsy")
def gelsy(A: np.ndarray, X: np.ndarray, rcond: float) -> Arrays | None:
    """Solutions of least norm in the first rows of the right hand sides' place, and ranks."""
    letter, (m, n), columns = _letter(A, "gelsy"), A.shape[-2:], X.shape[-1]
    if not X.size:
        return None
    own = _of_full_rank(A, X, rcond)
    if own is not None:
        return own
    lead, real = X.shape[:-2], _REAL[A.dtype.char]
    stack, right = _stack(A, lead), _stack(X)
    count, more = len(stack), [Room(real, 2 * n)] if A.dtype.kind == "c" else []
    order, rank, room = _integers(count, n), _integers(count), Room(A.dtype.char)
    limit, cost = np.array([rcond], real), 4 * m * n * min(m, n)
    _run(letter + "gelsy", count, cost, m, n, columns, stack, m, right, right.shape[-1], order, limit, rank, room, *more, _integers(1))
    return _matrices(right, lead), rank.astype(np.int64).reshape(lead)


def _of_full_rank(A: np.ndarray, X: np.ndarray, rcond: float) -> Arrays | None:
    """``gelsy`` where no singular value can be near ``rcond`` times the largest: then no column need come before others."""
    m, n = A.shape[-2:]
    own = reflections.factors(A) if m >= n and A.shape[:-2] == X.shape[:-2] else None
    if own is None:
        return None
    R = own.rows
    with np.errstate(all="ignore"):
        inverse = substitution.solutions("inverse of upper", R, None)
        condition = np.sqrt(np.square(A).sum((-2, -1)).reshape(-1) * np.square(inverse).sum((-2, -1)))  # at least the condition number
    if not (condition * rcond < 0.5).all():
        return None
    turned = reflections.product(own, X[..., :m, :], X.shape[-1], True)
    solution = substitution.solutions("upper", R, turned[:, :, :n].swapaxes(-1, -2))
    if m > n:
        turned[:, :, :n] = solution
        solution = turned
    return _matrices(solution, X.shape[:-2]), np.full(X.shape[:-2], n, np.int64)
