"""Records of special functions and orthogonal polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from .record import Error, Record, call, pointwise

REAL = ("float32", "float64", "int64", "bool", "complex64")
HALVES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
PLAIN: dict[str, Any] = {"specials": False, "notes": "SciPy's limits at infinity and overflow differ from PyTorch's"}


def _bessel(name: str, reference: Any, low: float = 0.5) -> Record:
    return pointwise(f"special.{name}", 1, reference, low=low, high=4, dtypes=REAL, gradient=False, **PLAIN)


def _polynomial(name: str, reference: Any, *, low: float = -0.9) -> Record:
    def samples(make: Any) -> list:
        degrees = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [1, 0, 8, 2]])
        return [call(make(3, 4, low=low, high=0.9), degrees), call(make(3, low=low, high=0.9), 3), call(2.0, degrees[0])]

    return Record(f"special.{name}", samples, reference, REAL, gradient=False)


def _chebyshev(first: Any) -> Any:
    def value(x: Any, n: Any) -> Any:
        x, n = np.broadcast_arrays(np.asarray(x, float), n)
        result = np.empty(x.shape)
        for index in np.ndindex(x.shape):
            before, now = 1.0, first(x[index])
            for _ in range(int(n[index])):
                before, now = now, 2 * x[index] * now - before
            result[index] = before
        return result

    return value


def _shifted(function: Any) -> Any:
    return lambda x, n: function(2 * np.asarray(x, float) - 1, n)


_T, _U = _chebyshev(lambda x: x), _chebyshev(lambda x: 2 * x)
_V, _W = _chebyshev(lambda x: 2 * x - 1), _chebyshev(lambda x: 2 * x + 1)

RECORDS = [
    pointwise("erf", 1, special.erf, dtypes=HALVES),
    pointwise("erfc", 1, special.erfc, dtypes=HALVES),
    pointwise("erfinv", 1, special.erfinv, low=-0.8, high=0.8, dtypes=HALVES),
    pointwise("special.erfcx", 1, special.erfcx, dtypes=REAL, **PLAIN),
    pointwise("special.ndtr", 1, special.ndtr, dtypes=HALVES, specials=False, notes="as erf"),
    pointwise("special.ndtri", 1, special.ndtri, low=0.1, high=0.9, dtypes=REAL, **PLAIN),
    pointwise("special.log_ndtr", 1, special.log_ndtr, dtypes=REAL, **PLAIN),
    pointwise("special.entr", 1, special.entr, low=0.2, dtypes=HALVES),
    pointwise("sinc", 1, np.sinc, away=0.2, dtypes=HALVES, specials=False, notes="sin of 1e38"),
    Record(
        "special.logsumexp",
        lambda make: [call(make(3, 4), 1), call(make(3, 4), (0, 1), keepdim=True)],
        lambda x, dim, keepdim=False: special.logsumexp(x, dim, keepdims=keepdim),
        ("float32", "float64"),
    ),
    pointwise("lgamma", 1, special.gammaln, low=0.5, high=4, dtypes=HALVES),
    pointwise("digamma", 1, special.psi, low=0.5, high=4, dtypes=HALVES, **PLAIN),
    Record(
        "polygamma",
        lambda make: [call(n, make(3, 4, low=0.5, high=4)) for n in range(4)],
        special.polygamma,
        HALVES,
        (Error(lambda make: call(-1, make(2)), RuntimeError, "negative n"),),
    ),
    Record(
        "mvlgamma",
        lambda make: [call(make(3, 4, low=3, high=6), p) for p in (1, 3)],
        special.multigammaln,
        ("float32", "float64", "int64"),
        (Error(lambda make: call(make(2), 0), RuntimeError, "greater than or equal to 1"),),
    ),
    pointwise("igamma", 2, special.gammainc, low=0.5, high=4, dtypes=("float32", "float64", "int64"), gradient=False, **PLAIN),
    pointwise("igammac", 2, special.gammaincc, low=0.5, high=4, dtypes=("float32", "float64", "int64"), gradient=False, **PLAIN),
    pointwise("special.zeta", 2, special.zeta, low=1.5, high=4, scalars=(2.0,), dtypes=REAL, gradient=False, **PLAIN),
    pointwise("i0", 1, special.i0, dtypes=HALVES, **PLAIN),
    pointwise("special.i0e", 1, special.i0e, dtypes=HALVES, **PLAIN),
    pointwise("special.i1", 1, special.i1, away=0.2, dtypes=HALVES, **PLAIN),
    pointwise("special.i1e", 1, special.i1e, away=0.2, dtypes=HALVES, **PLAIN),
    _bessel("bessel_j0", special.j0),
    _bessel("bessel_j1", special.j1),
    _bessel("bessel_y0", special.y0),
    _bessel("bessel_y1", special.y1),
    _bessel("modified_bessel_i0", special.i0),
    _bessel("modified_bessel_i1", special.i1),
    _bessel("modified_bessel_k0", special.k0),
    _bessel("modified_bessel_k1", special.k1),
    _bessel("scaled_modified_bessel_k0", special.k0e),
    _bessel("scaled_modified_bessel_k1", special.k1e),
    _bessel("spherical_bessel_j0", lambda a: np.sinc(a / np.pi)),
    _bessel("airy_ai", lambda a: special.airy(a)[0], low=-2),
    _polynomial("chebyshev_polynomial_t", _T),
    _polynomial("chebyshev_polynomial_u", _U),
    _polynomial("chebyshev_polynomial_v", _V),
    _polynomial("chebyshev_polynomial_w", _W),
    _polynomial("shifted_chebyshev_polynomial_t", _shifted(_T), low=0.1),
    _polynomial("shifted_chebyshev_polynomial_u", _shifted(_U), low=0.1),
    _polynomial("shifted_chebyshev_polynomial_v", _shifted(_V), low=0.1),
    _polynomial("shifted_chebyshev_polynomial_w", _shifted(_W), low=0.1),
    _polynomial("hermite_polynomial_h", lambda x, n: special.eval_hermite(n, np.asarray(x, float))),
    _polynomial("hermite_polynomial_he", lambda x, n: special.eval_hermitenorm(n, np.asarray(x, float))),
    _polynomial("laguerre_polynomial_l", lambda x, n: special.eval_laguerre(n, np.asarray(x, float))),
    _polynomial("legendre_polynomial_p", lambda x, n: special.eval_legendre(n, np.asarray(x, float))),
]
