"""Finds the polynomials of ``flambeau/backends/llvm/vectors.py``: ``python -m tools.minimax [name ...]`` prints tables of coefficients.

Each fit is a polynomial in given powers that makes the largest weighted error smallest (Remez' exchange algorithm, in mpmath's
arithmetic).  Coefficients are rounded to their format one after the other, from the lowest power on, and those left are fitted anew to what
rounding changed, so that the printed table is nearly as good as the exact one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import mp, mpf

mp.dps = 45
Function = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Fit:
    """``function`` on ``low`` to ``high`` by coefficients of ``powers``; the error is multiplied by ``weight`` before it is compared."""

    kind: str
    function: Function
    low: Any
    high: Any
    powers: Sequence[int]
    weight: Function


def remez(f: Function, low: Any, high: Any, powers: Sequence[int], weight: Function, rounds: int = 25) -> tuple[list[Any], Any]:
    """Coefficients of the powers and the largest weighted error."""
    n = len(powers)
    low, high = mpf(low), mpf(high)
    size = 24 * (n + 1)
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / size) for i in range(size + 1)]
    weights = [weight(x) for x in grid]
    floor = max(weights) / 10**9  # where the weight is zero any value will do
    values = [(f(x), w, [x**p for p in powers]) for x, w in zip(grid, weights, strict=True) if w > floor]
    picked = [int(len(values) * (i + 0.5) / (n + 1)) for i in range(n + 1)]
    best: tuple[list[Any], Any] = ([], mp.inf)
    for _ in range(rounds):
        rows = [[values[i][1] * b for b in values[i][2]] + [(-1) ** j] for j, i in enumerate(picked)]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([values[i][1] * values[i][0] for i in picked]))
        coefficients = [solved[j] for j in range(n)]
        errors = [w * (value - mp.fdot(coefficients, basis)) for value, w, basis in values]
        worst = max(abs(e) for e in errors)
        if worst < best[1]:
            best = (coefficients, worst)
        if worst <= abs(solved[n]) * (1 + mpf(1) / 1000):
            break
        # one extremum of every run of errors of equal sign; superfluous ones go from the end with the smaller error
        runs: list[int] = []
        for i, e in enumerate(errors):
            if runs and (errors[runs[-1]] > 0) == (e > 0):
                runs[-1] = max(runs[-1], i, key=lambda j: abs(errors[j]))
            else:
                runs.append(i)
        while len(runs) > n + 1:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
        if len(runs) < n + 1:
            break
        picked = runs
    return best


def rounded(value: Any, kind: str) -> float:
    return float(np.float32(float(value))) if kind == "f32" else float(value)


def solve(fit: Fit) -> tuple[list[float], Any]:
    """Rounded coefficients, and the largest weighted error with them."""
    found: list[float] = []
    powers = list(fit.powers)

    def rest(x: Any) -> Any:
        return fit.function(x) - mp.fsum(mpf(c) * x**p for c, p in zip(found, fit.powers, strict=False))

    at_once = fit.low < 0 < fit.high and fit.weight(mpf(0))  # what is left would be fixed at zero, amid the interval
    while powers:
        coefficients, _ = remez(rest, fit.low, fit.high, powers, fit.weight)
        taken = len(powers) if at_once else 1
        found += [rounded(c, fit.kind) for c in coefficients[:taken]]
        del powers[:taken]
    low, high = mpf(fit.low), mpf(fit.high)
    points = [low + (high - low) * i / 2000 for i in range(2001)]
    return found, max(abs(fit.weight(x) * rest(x)) for x in points if x)


def near_zero(function: Function, limit: Function) -> Function:
    """``function``, and ``limit`` instead where it would divide zero by zero."""
    return lambda x: function(x) if abs(x) > mpf(10) ** -12 else limit(x)


LN2 = mp.log(2)
HALF = LN2 / 2 * mpf("1.0002")

FITS: dict[str, Fit] = {}


def both(name: str, f32: int | Sequence[int], f64: int | Sequence[int], function: Function, low: Any, high: Any, weight: Function) -> None:
    """The same fit for both formats, with as many coefficients (or these powers)."""
    for kind, powers in (("f32", f32), ("f64", f64)):
        FITS[f"{name}_{kind}"] = Fit(kind, function, low, high, range(powers) if isinstance(powers, int) else powers, weight)


def exp_rest(x: Any) -> Any:
    return mp.fsum(x**i / mp.factorial(i + 2) for i in range(28))


def log_rest(x: Any) -> Any:
    """(log(1 + x) - x + x**2 / 2) / x**3"""
    return (mp.log1p(x) - x + x * x / 2) / x**3 if abs(x) > mpf(10) ** -6 else mpf(1) / 3 - x / 4 + x * x / 5


both("EXP", 5, 10, exp_rest, -HALF, HALF, lambda r: r * r * mp.exp(-r))
FITS["LOG_f32"] = Fit("f32", log_rest, -0.25, 0.5, range(9), lambda f: abs(f**3 / mp.log1p(f)) if f else mpf(0))
# log(1 + f) = 2 atanh(s) with s = f / (2 + f), up to 1/5: 2 atanh(s) = 2 s + s * z * P(z) with z = s**2
FITS["LOG_f64"] = Fit(
    "f64",
    near_zero(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, lambda z: mpf(2) / 3 + 2 * z / 5),
    0,
    mpf("0.0401"),
    range(8),
    lambda z: z,
)


def of_square(function: Function, limit: Any) -> Function:
    """(function(x) / x - 1) / x**2 as a function of x**2."""

    def g(z: Any) -> Any:
        x = mp.sqrt(z)
        return (function(x) / x - 1) / z if z > mpf(10) ** -12 else mpf(limit)

    return g


def odd(name: str, f32: int, f64: int, function: Function, limit: Any, high: Any) -> None:
    """x + x**3 * P(x**2) for an odd function."""
    g = of_square(function, limit)
    both(name, f32, f64, g, 0, mpf(high) ** 2, lambda z: abs(z / (1 + z * g(z))))


odd("SIN", 3, 6, mp.sin, -mpf(1) / 6, "0.8")
both("COS", 3, 6, lambda z: mp.fsum((-z) ** i / mp.factorial(2 * i + 4) for i in range(20)), 0, mpf("0.64"), lambda z: z * z)
odd("TAN", 7, 14, mp.tan, mpf(1) / 3, "0.79")
odd("ATAN", 9, 20, mp.atan, -mpf(1) / 3, 1)
odd("ASIN", 5, 13, mp.asin, mpf(1) / 6, "0.5")
# erf(x) = x + x * P(x**2) up to 1; beyond 1 - exp(-Q(x - 1))
both(
    "ERF",
    7,
    12,
    lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1 if z > mpf(10) ** -30 else 2 / mp.sqrt(mp.pi) - 1,
    0,
    1,
    lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)) if z else mpf(1),
)
for kind, count, end in (("f32", 9, 4), ("f64", 18, 6)):
    FITS[f"ERF_FAR_{kind}"] = Fit(
        kind, lambda x: -mp.log(mp.erfc(x + 1)), 0, end - 1, range(count), lambda x: mp.erfc(x + 1) / mp.erf(x + 1)
    )
# erfc(x) = exp(-x**2) * P(t) / (x + 2) with t = (x - 2) / (x + 2), from 1/2 on
FITS["ERFC_f64"] = Fit(
    "f64",
    lambda t: (2 * (1 + t) / (1 - t) + 2) * mp.erfc(2 * (1 + t) / (1 - t)) * mp.exp((2 * (1 + t) / (1 - t)) ** 2),
    mpf("-0.6"),
    mpf(26) / 30,
    range(23),
    lambda t: mpf(1),
)

# atanh(s) = s + s * z / 3 + s * z**2 * P(z); for powers of float32 log2(m) = s * P(z) and 2**r = 1 + r * P(r), computed in float64
FITS["POW_f64"] = Fit(
    "f64",
    lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1 - z / 3) / z**2 if z > mpf(10) ** -10 else mpf(1) / 5 + z / 7,
    0,
    mpf("0.0401"),
    range(8),
    lambda z: z**2,
)
FITS["POW_LOG2_f64"] = Fit(
    "f64",
    lambda z: 2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) / LN2 if z else 2 / LN2,
    0,
    mpf("0.0401"),
    range(6),
    lambda z: mpf(1),
)
FITS["POW_EXP2_f64"] = Fit(
    "f64", lambda r: (mpf(2) ** r - 1) / r if r else LN2, mpf("-0.5001"), mpf("0.5001"), range(7), lambda r: abs(r) * mpf(2) ** -r
)


def main(names: Sequence[str]) -> None:
    for name, fit in FITS.items():
        if not names or any(name.startswith(n) for n in names):
            coefficients, worst = solve(fit)
            print(f"{name}: largest error 2**{float(mp.log(worst, 2)):.2f}")
            print("    (" + ", ".join(repr(c) if fit.kind == "f64" else f"{c:.9g}" for c in coefficients) + ")", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
