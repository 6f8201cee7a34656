"""Derivatives of every function of matrices, to second order: gradcheck and gradgradcheck in float64 and complex128.

A case is a function of matrices, which come plain, batched, in empty batches, and degenerate: singular, of deficient rank, with eigenvalues
or singular values that are equal.  Where no derivative exists, there is an error, or a value that is not finite, as in PyTorch.

    python -m tests.programs.decompositions              all cases; exit code 1 where one fails
    python -m tests.programs.decompositions --only eig   those whose names contain this
    python -m tests.programs.decompositions --pytorch    the same cases for PyTorch, where it is installed
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from oracle import pytorch

DTYPES = ("float64", "complex128")
FUNCTION = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A function and matrices at which it is differentiable.

    Attributes:
        function: of a library and tensors.
        kinds: of each of these, by the names of ``KINDS``.
        second: whether the second derivative exists there too.
        dtypes: where it is defined.
        empty: whether batches of no matrix have a derivative.
    """

    name: str
    function: FUNCTION
    kinds: tuple[str, ...]
    second: bool = True
    dtypes: tuple[str, ...] = DTYPES
    empty: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """A derivative that does not exist: backward of the sum of what ``function`` returns.

    Attributes:
        error: the exception and a part of its message; None where the derivative is not finite instead.
        order: the derivative that does not exist; those before it do.
    """

    name: str
    function: FUNCTION
    kinds: tuple[str, ...]
    error: tuple[type[Exception], str] | None = None
    order: int = 1
    dtypes: tuple[str, ...] = DTYPES


# -- matrices ---------------------------------------------------------------------------------------------------------------------------
def _normal(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    values = rng.standard_normal(shape)
    return values + 1j * rng.standard_normal(shape) if dtype == "complex128" else values


def _with_values(values: tuple[float, ...]) -> Callable[..., np.ndarray]:
    """A Hermitian matrix with these eigenvalues."""

    def make(rng: np.random.Generator, dtype: str, *lead: int) -> np.ndarray:
        Q = np.linalg.qr(_normal(rng, dtype, *lead, len(values), len(values)))[0]
        return (Q * np.array(values)) @ Q.swapaxes(-1, -2).conj()

    return make


def _apart(m: int, n: int, values: tuple[float, ...] | None = None) -> Callable[..., np.ndarray]:
    """A matrix with these singular values, or with some that are far apart."""

    def make(rng: np.random.Generator, dtype: str, *lead: int) -> np.ndarray:
        U, _, V = np.linalg.svd(_normal(rng, dtype, *lead, m, n), False)
        return (U * np.array(values or (3.0, 2.0, 1.2, 0.7)[: min(m, n)])) @ V

    return make


def _plain(*shape: int) -> Callable[..., np.ndarray]:
    return lambda rng, dtype, *lead: _normal(rng, dtype, *lead, *shape)


KINDS: dict[str, Callable[..., np.ndarray]] = {
    "square": _apart(3, 3),
    "other square": _apart(3, 3),
    "tall": _apart(4, 3),
    "wide": _apart(3, 4),
    "right": _plain(3, 2),
    "tall right": _plain(4, 2),
    "left": _plain(2, 3),
    "vector": _plain(3),
    "one": _apart(1, 1),
    "positive": _with_values((2.0,)),
    "none": lambda rng, dtype, *lead: np.zeros((*lead, 0, 0), dtype),
    "small": _apart(2, 2),
    "definite": _with_values((1.0, 2.0, 4.0)),
    "equal singular values": _apart(3, 3, (2.0, 2.0, 1.0)),
    "equal eigenvalues": _with_values((1.0, 2.0, 2.0)),
    "rank 2": _apart(3, 3, (2.0, 1.0, 0.0)),
    "rank 1": _apart(3, 3, (2.0, 0.0, 0.0)),
    "zero": lambda rng, dtype, *lead: np.zeros((*lead, 3, 3), dtype),
    "tall of rank 2": _apart(4, 3, (2.0, 1.0, 0.0)),
    "column": _plain(4, 1),
    "row": _plain(1, 3),
    "defective": lambda rng, dtype, *lead: np.broadcast_to(np.eye(3, k=1, dtype=dtype) + np.eye(3), (*lead, 3, 3)).copy(),
    "four axes": lambda rng, dtype, *lead: _apart(4, 4)(rng, dtype).reshape(2, 2, 4),
    "vectors and factors": _plain(4, 3),
    "factors": _plain(3),
}


# -- cases ------------------------------------------------------------------------------------------------------------------------------
def _hermitian(A: Any) -> Any:
    return (A + A.mH) / 2


def _eigh(t: Any, A: Any) -> Any:
    values, vectors = t.linalg.eigh(_hermitian(A))
    return values, vectors.abs()  # signs and phases are free


def _eig(t: Any, A: Any) -> Any:
    values, vectors = t.linalg.eig(A)
    order = values.detach().abs().argsort(-1)
    return values.take_along_dim(order, -1), vectors.abs().take_along_dim(order.unsqueeze(-2).expand(vectors.shape), -1)


def _svd(t: Any, A: Any, full: bool = False) -> Any:
    U, S, Vh = t.linalg.svd(A, full_matrices=full)
    k = S.shape[-1]
    return U[..., :k] @ Vh[..., :k, :], S


def _positive(A: Any) -> Any:
    return A @ A.mH


def _near_one(t: Any, A: Any) -> Any:
    return A / 5 + 2 * t.eye(A.shape[-1], dtype=A.dtype)


def _spectrum(t: Any, A: Any) -> Any:
    """A function of the eigenvalues that does not depend on their order: differentiable where some are equal."""
    return (t.linalg.eigvalsh(_hermitian(A)) ** 2).sum(-1)


def _ldl_solve(t: Any, A: Any, B: Any) -> Any:
    return t.linalg.ldl_solve(*t.linalg.ldl_factor(A), B)


def _lobpcg(t: Any, A: Any) -> Any:
    start = t.eye(A.shape[-1], dtype=A.dtype)[:, :1].expand(*A.shape[:-1], 1)
    values, vectors = t.lobpcg(A, X=start, tol=1e-13, niter=40)
    return values, vectors.abs()


def _forms(name: str, function: FUNCTION, kinds: tuple[str, ...], **more: Any) -> list[Case]:
    return [Case(f"{name} of {kind}", function, (kind,), **more) for kind in kinds]


_SQUARE = ("square", "one", "none")
_ANY = ("square", "tall", "wide", "one")
CASES: tuple[Case, ...] = (
    *_forms("cholesky", lambda t, A: t.linalg.cholesky(_hermitian(A)), ("definite", "positive")),
    *_forms("cholesky, upper", lambda t, A: t.linalg.cholesky_ex(_hermitian(A), upper=True)[0], ("definite",)),
    Case("cholesky_solve", lambda t, B, L: t.cholesky_solve(B, _near_one(t, L).tril()), ("right", "square")),
    *_forms("cholesky_inverse", lambda t, L: t.cholesky_inverse(_near_one(t, L).triu(), upper=True), ("square",)),
    *_forms("qr", lambda t, A: tuple(t.linalg.qr(A)), ("square", "tall", "wide", "one")),
    *_forms("qr, complete", lambda t, A: tuple(t.linalg.qr(A, mode="complete")), ("square", "wide")),
    *_forms("lu_factor", lambda t, A: t.linalg.lu_factor(A)[0], _ANY),
    *_forms("lu", lambda t, A: tuple(t.linalg.lu(A))[1:], ("square", "tall", "wide")),
    Case("lu_solve", lambda t, A, B: t.linalg.lu_solve(*t.linalg.lu_factor(A), B), ("square", "right")),
    Case("lu_solve, adjoint", lambda t, A, B: t.linalg.lu_solve(*t.linalg.lu_factor(A), B, left=False, adjoint=True), ("square", "left")),
    *_forms("svd", _svd, (*_ANY, "none")),
    *_forms("svd, full", lambda t, A: _svd(t, A, True), ("square", "tall", "wide")),
    *_forms("svdvals", lambda t, A: t.linalg.svdvals(A), (*_ANY, "none")),
    *_forms("sum of svdvals", lambda t, A: t.linalg.svdvals(A).sum(-1), ("equal singular values",), second=False),
    *_forms("nuclear norm", lambda t, A: t.linalg.matrix_norm(A, "nuc"), ("square", "tall")),
    *_forms("spectral norm", lambda t, A: t.linalg.matrix_norm(A, 2), ("square", "wide")),
    *_forms("cond", lambda t, A: t.linalg.cond(A), ("square",), empty=False),
    *_forms("eigh", _eigh, (*_SQUARE, "definite")),
    *_forms("eigvalsh", lambda t, A: t.linalg.eigvalsh(_hermitian(A)), _SQUARE),
    *_forms("squares of eigvalsh", _spectrum, ("equal eigenvalues", "zero"), second=False),
    *_forms("eig", _eig, ("square", "one", "none")),
    *_forms("eigvals", lambda t, A: t.linalg.eigvals(A).pow(3).sum(-1), ("square",)),
    *_forms("lobpcg", lambda t, A: _lobpcg(t, _hermitian(A)), ("definite",), dtypes=("float64",)),
    *_forms("det", lambda t, A: t.linalg.det(A), (*_SQUARE, "equal singular values", "rank 2")),
    *_forms("det", lambda t, A: t.linalg.det(A), ("rank 1", "zero"), second=False),
    *_forms("slogdet", lambda t, A: t.linalg.slogdet(A)[1], ("square", "one")),
    *_forms("slogdet, sign", lambda t, A: t.linalg.slogdet(A)[0], ("square",), dtypes=("complex128",)),
    *_forms("logdet", lambda t, A: t.logdet(_positive(A)), ("square",)),
    *_forms("inv", lambda t, A: t.linalg.inv(A), (*_SQUARE, "equal singular values")),
    *_forms("inv_ex", lambda t, A: t.linalg.inv_ex(A)[0], ("square",)),
    *_forms("pinv", lambda t, A: t.linalg.pinv(A), _ANY),
    *_forms("pinv, hermitian", lambda t, A: t.linalg.pinv(_hermitian(A), hermitian=True), ("definite", "equal eigenvalues")),
    Case("pinv of rank 1", lambda t, a, b: t.linalg.pinv(a @ b), ("column", "row")),
    Case("solve", lambda t, A, B: t.linalg.solve(A, B), ("square", "right")),
    Case("solve from the right", lambda t, A, B: t.linalg.solve(A, B, left=False), ("square", "left")),
    Case("solve_ex of a vector", lambda t, A, B: t.linalg.solve_ex(A, B)[0], ("square", "vector")),
    Case("solve_triangular", lambda t, A, B: t.linalg.solve_triangular(_near_one(t, A), B, upper=True), ("square", "right")),
    Case(
        "solve_triangular from the right",
        lambda t, A, B: t.linalg.solve_triangular(A, B, upper=False, left=False, unitriangular=True),
        ("square", "left"),
    ),
    Case("lstsq", lambda t, A, B: t.linalg.lstsq(A, B)[0], ("tall", "tall right")),
    Case("lstsq of a wide matrix", lambda t, A, B: t.linalg.lstsq(A, B)[0], ("wide", "right")),
    *_forms("matrix_exp", lambda t, A: t.linalg.matrix_exp(A), (*_SQUARE, "zero", "defective", "rank 1")),
    *_forms("matrix_power", lambda t, A: t.linalg.matrix_power(A, -2), ("square",)),
    Case("householder_product", lambda t, A, tau: t.linalg.householder_product(A, tau), ("vectors and factors", "factors")),
    Case("ormqr", lambda t, A, tau, C: t.ormqr(A, tau, C, transpose=True), ("vectors and factors", "factors", "tall right")),
    Case(
        "multi_dot",
        lambda t, *ABC: t.linalg.multi_dot([A.reshape(-1, A.shape[-1])[-3:] for A in ABC]),
        ("square", "other square"),
        empty=False,
    ),
)


def _phase(t: Any, A: Any, place: int) -> Any:
    """Complex vectors themselves: multiplied by a number of size 1 they would serve as well."""
    part = t.linalg.svd(A)[place] if place != 1 else t.linalg.eigh(_hermitian(A))[1]
    return part.real + part.imag


REFUSALS: tuple[Refusal, ...] = (
    Refusal("qr, complete, tall", lambda t, A: t.linalg.qr(A, mode="complete")[1], ("tall",), (RuntimeError, "nrows > ncols")),
    Refusal("qr, mode r", lambda t, A: t.linalg.qr(A, mode="r")[1], ("square",), (RuntimeError, "mode='r'")),
    Refusal("qr of deficient rank", lambda t, A: t.linalg.qr(A)[0], ("zero",)),
    Refusal("geqrf", lambda t, A: t.geqrf(A)[0], ("square",), (RuntimeError, "geqrf")),
    Refusal("ldl_factor", lambda t, A: t.linalg.ldl_factor(_hermitian(A))[0], ("square",), (RuntimeError, "ldl_factor")),
    Refusal("ldl_solve", _ldl_solve, ("definite", "right"), (RuntimeError, "ldl_")),
    Refusal("eigh, phase", lambda t, A: _phase(t, A, 1), ("square",), (RuntimeError, "ill-defined"), dtypes=("complex128",)),
    Refusal(
        "eig, phase",
        lambda t, A: (lambda V: V.real + V.imag)(t.linalg.eig(A)[1]),
        ("square",),
        (RuntimeError, "ill-defined"),
        dtypes=("complex128",),
    ),
    Refusal("svd, phase of U", lambda t, A: _phase(t, A, 0), ("square",), (RuntimeError, "ill-defined"), dtypes=("complex128",)),
    Refusal("svd, phase of Vh", lambda t, A: _phase(t, A, 2), ("square",), (RuntimeError, "ill-defined"), dtypes=("complex128",)),
    Refusal("eigh, equal eigenvalues", lambda t, A: _eigh(t, A)[1], ("zero",)),
    Refusal("eigvalsh, equal eigenvalues", _spectrum, ("zero",), order=2),
    Refusal("svd, equal singular values", lambda t, A: _svd(t, A)[0], ("zero",)),
    Refusal("eig of a defective matrix", lambda t, A: t.linalg.eig(A)[1].abs(), ("defective",)),
    Refusal("slogdet of a singular matrix", lambda t, A: t.linalg.slogdet(A)[1], ("zero",)),
    Refusal("inv of a singular matrix", lambda t, A: t.linalg.inv(A), ("zero",), (RuntimeError, "singular")),
    Refusal("cholesky of a singular matrix", lambda t, A: t.linalg.cholesky(A), ("zero",), (RuntimeError, "not positive-definite")),
    Refusal(
        "lobpcg with B",
        lambda t, A: t.lobpcg(_hermitian(A), 1, t.eye(3, dtype=A.dtype).expand(A.shape))[0],
        ("definite",),
        (ValueError, "B != I"),
        dtypes=("float64",),
    ),
)


# -- checks -----------------------------------------------------------------------------------------------------------------------------
def tensors(library: Any, kinds: tuple[str, ...], dtype: str, lead: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(len(kinds[0]))
    return [library.tensor(KINDS[kind](rng, dtype, *lead), requires_grad=True) for kind in kinds]


def check(library: Any, case: Case, dtype: str, lead: tuple[int, ...] = (), fast: bool = False) -> str:
    """What is wrong with a case; empty where nothing is."""
    given = tensors(library, case.kinds, dtype, lead)
    options = {"fast_mode": fast, "check_undefined_grad": not fast, "check_batched_grad": False}
    try:
        library.autograd.gradcheck(lambda *operands: case.function(library, *operands), given, **options)
        if case.second:
            options = {"fast_mode": fast, "check_undefined_grad": not fast, "atol": 1e-4}
            library.autograd.gradgradcheck(lambda *operands: case.function(library, *operands), given, **options)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return ""


def _sum(result: Any) -> Any:
    return sum((part.abs() if part.is_complex() else part).sum() for part in (result if isinstance(result, tuple) else (result,)))


def check_refusal(library: Any, refusal: Refusal, dtype: str, lead: tuple[int, ...] = ()) -> str:
    """What is wrong with a derivative that does not exist; empty where it is refused, or not finite."""
    given = tensors(library, refusal.kinds, dtype, lead)
    try:
        value, grads = _sum(refusal.function(library, *given)), []
        for order in range(1, refusal.order + 1):
            grads = list(library.autograd.grad(value, given, create_graph=order < refusal.order, allow_unused=True))
            if order < refusal.order and not all(bool(grad.isfinite().all()) for grad in grads):
                return f"derivative {order} is not finite"
            value = _sum(tuple(grads))
    except Exception as error:
        if refusal.error is None or not isinstance(error, refusal.error[0]) or refusal.error[1] not in str(error):
            return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return ""
    if refusal.error is not None:
        return f"accepted, not {refusal.error[0].__name__}"
    return "a finite derivative" if all(bool(grad.isfinite().all()) for grad in grads) else ""


def outcomes(library: Any, only: str = "") -> Iterator[tuple[str, str]]:
    """Every check with what is wrong."""
    for case in CASES:
        for dtype in case.dtypes if only in case.name else ():
            for lead in ((), (2,), (0,)):
                if lead != (0,) or (library.__name__ == "flambeau" and case.empty):  # PyTorch's gradcheck refuses tensors without elements
                    yield f"{case.name}, {dtype}, batch {lead}", check(library, case, dtype, lead)
    for refusal in REFUSALS:
        for dtype in refusal.dtypes if only in refusal.name else ():
            for lead in ((), (2,)):
                yield f"no derivative: {refusal.name}, {dtype}, batch {lead}", check_refusal(library, refusal, dtype, lead)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.decompositions", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--pytorch", action="store_true", help="check PyTorch")
    options = parser.parse_args(arguments)
    if options.pytorch:
        library = pytorch()
    else:
        import flambeau as library  # type: ignore[no-redef]
    warnings.simplefilter("ignore")
    start, count, failures = time.perf_counter(), 0, 0
    for name, problem in outcomes(library, options.only):
        count, failures = count + 1, failures + bool(problem)
        if problem:
            print(f"{name}: {problem}", flush=True)
    print(f"{count} checks, {failures} failed, {time.perf_counter() - start:.0f} s")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
