"""Finds the polynomials of ``flambeau/kernels/mathematics/vectors.py``: ``python -m tools.minimax`` writes ``minimax.json`` beside it.

With names of tables as arguments, these are printed instead. The whole takes a minute and needs mpmath.

Each fit is a polynomial in given powers that makes the largest weighted error smallest (Remez' exchange algorithm, in mpmath's
arithmetic).  Coefficients are rounded to their format one after the other, from the lowest power on, and those left are fitted anew to what
rounding changed, so that the printed table is nearly as good as the exact one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mpmath import mp, mpf

mp.dps = 45
TARGET = Path(__file__).resolve().parent.parent / "flambeau" / "kernels" / "mathematics" / "minimax.json"
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
    rounded_terms: list[float] = []
    powers = list(fit.powers)

    def rest(x: Any) -> Any:
        return fit.function(x) - mp.fsum(mpf(c) * x**p for c, p in zip(rounded_terms, fit.powers, strict=False))

    at_once = fit.low < 0 < fit.high and fit.weight(mpf(0))  # what is left would be fixed at zero, amid the interval
    while powers:
        coefficients, _ = remez(rest, fit.low, fit.high, powers, fit.weight)
        taken = len(powers) if at_once else 1
        rounded_terms += [rounded(c, fit.kind) for c in coefficients[:taken]]
        del powers[:taken]
    low, high = mpf(fit.low), mpf(fit.high)
    points = [low + (high - low) * i / 2000 for i in range(2001)]
    return rounded_terms, max(abs(fit.weight(x) * rest(x)) for x in points if x)


def near_zero(function: Function, limit: Function) -> Function:
    """``function``, and ``limit`` instead where it would divide zero by zero."""
    return lambda x: function(x) if abs(x) > mpf(10) ** -12 else limit(x)


LN2 = mp.log(2)
HALF = LN2 / 2 * mpf("1.0002")

FITS: dict[str, dict[str, Fit]] = {}  # by name and kind
MEANINGS: dict[str, str] = {}  # by name, in one line


def fit(
    name: str, meaning: str, counts: dict[str, int], function: Function, low: Any, high: Any, weight: Function = lambda x: mpf(1)
) -> None:
    """Ask for a polynomial with as many coefficients for each kind."""
    MEANINGS.setdefault(name, meaning)
    for kind, count in counts.items():
        FITS.setdefault(name, {})[kind] = Fit(kind, function, low, high, range(count), weight)


def odd(name: str, f32: int, f64: int, function: Function, limit: Any, high: Any) -> None:
    """Ask for P with function(x) = x + x**3 * P(x**2)."""

    def g(z: Any) -> Any:
        x = mp.sqrt(z)
        return (function(x) / x - 1) / z if z > mpf(10) ** -12 else mpf(limit)

    meaning = f"({name.lower()}(x) / x - 1) / x**2 as a function of x**2, for x up to {high}"
    fit(name, meaning, {"f32": f32, "f64": f64}, g, 0, mpf(high) ** 2, lambda z: abs(z / (1 + z * g(z))))


def series(term: Callable[[int], Any]) -> Function:
    """The power series with these coefficients."""
    coefficients = [term(i) for i in range(28)]
    return lambda x: mp.polyval(coefficients[::-1], x)


def atanh_ratio(z: Any) -> Any:
    """atanh(s) / s, z being s**2."""
    return mp.atanh(mp.sqrt(z)) / mp.sqrt(z) if z else mpf(1)


def erf_ratio(z: Any) -> Any:
    """erf(x) / x, z being x**2."""
    return mp.erf(mp.sqrt(z)) / mp.sqrt(z) if z > 0 else 2 / mp.sqrt(mp.pi)


def scaled_erfc(t: Any) -> Any:
    x = 2 * (1 + t) / (1 - t)
    return (x + 2) * mp.erfc(x) * mp.exp(x * x)


fit(
    "EXP",
    "(exp(r) - 1 - r) / r**2 for |r| up to log(2) / 2",
    {"f32": 5, "f64": 10},
    series(lambda i: 1 / mp.factorial(i + 2)),
    -HALF,
    HALF,
    lambda r: r * r * mp.exp(-r),
)
fit(
    "LOG",
    "float32: (log(1 + f) - f + f**2 / 2) / f**3 for f from -1/4 to 1/2; float64: (2 atanh(s) / s - 2) / s**2 as a function of s**2",
    {"f32": 9},
    near_zero(lambda x: (mp.log1p(x) - x + x * x / 2) / x**3, lambda x: mpf(1) / 3 - x / 4),
    -0.25,
    0.5,
    lambda f: abs(f**3 / mp.log1p(f)) if f else mpf(0),
)
# log(1 + f) = 2 atanh(s) with s = f / (2 + f), up to 1/5
FIFTH = mpf("0.0401")
fit("LOG", "", {"f64": 8}, near_zero(lambda z: (2 * atanh_ratio(z) - 2) / z, lambda z: mpf(2) / 3 + 2 * z / 5), 0, FIFTH, lambda z: z)
odd("SIN", 3, 6, mp.sin, -mpf(1) / 6, "0.8")
fit(
    "COS",
    "(cos(x) - 1 + x**2 / 2) / x**4 as a function of x**2, for x up to 0.8",
    {"f32": 3, "f64": 6},
    series(lambda i: mpf(-1) ** i / mp.factorial(2 * i + 4)),
    0,
    mpf("0.64"),
    lambda z: z * z,
)
odd("TAN", 7, 14, mp.tan, mpf(1) / 3, "0.79")
odd("ATAN", 9, 20, mp.atan, -mpf(1) / 3, "1")
odd("ASIN", 5, 13, mp.asin, mpf(1) / 6, "0.5")
odd("SINH", 4, 7, mp.sinh, mpf(1) / 6, "1")
odd("TANH", 5, 11, mp.tanh, -mpf(1) / 3, "0.55")
fit(
    "ERF",
    "erf(x) / x - 1 as a function of x**2, for x up to 1",
    {"f32": 7, "f64": 12},
    lambda z: erf_ratio(z) - 1,
    0,
    1,
    lambda z: 1 / erf_ratio(z),
)
# float32 takes the same steps for both parts of its range, with one set of coefficients or the other
fit(
    "ERF_NEAR",
    "erf(x) / x as a function of x**2 - 2, for x up to 2.06",
    {"f32": 10},
    lambda t: erf_ratio(t + 2),
    -2,
    mpf("2.06") ** 2 - 2,
    lambda t: 1 / erf_ratio(t + 2),
)
fit(
    "ERF_FAR",
    "float32: erf(3 + t) for 3 + t from 2.06 to 3.92; float64: -log(erfc(1 + x)), until erfc is nothing beside 1",
    {"f32": 10},
    lambda t: mp.erf(t + 3),
    mpf("-0.94"),
    mpf("0.92"),
)
fit(
    "ERF_FAR",
    "",
    {"f64": 18},
    lambda x: -mp.log(mp.erfc(x + 1)),
    0,
    5,
    lambda x: mp.erfc(x + 1) / mp.erf(x + 1),
)
fit(
    "ERFC",
    "erfc(x) * exp(x**2) * (x + 2) as a function of (x - 2) / (x + 2), from x = 1/2 on",
    {"f32": 12, "f64": 23},
    scaled_erfc,
    mpf("-0.6"),
    mpf(26) / 30,
)
fit(
    "POW",
    "(atanh(s) / s - 1 - z / 3) / z**2 as a function of z = s**2, for |s| up to 1/5",
    {"f64": 8},
    lambda z: (atanh_ratio(z) - 1 - z / 3) / z**2 if z > mpf(10) ** -10 else mpf(1) / 5 + z / 7,
    0,
    FIFTH,
    lambda z: z**2,
)
# powers of float32 are computed in float64, but no more exactly than they need to be
fit(
    "POW_LOG2",
    "log2((1 + s) / (1 - s)) / s as a function of s**2, for |s| up to 1/5",
    {"f64": 6},
    lambda z: 2 * atanh_ratio(z) / LN2,
    0,
    FIFTH,
)
fit(
    "POW_EXP2",
    "(2**r - 1) / r for |r| up to 1/2",
    {"f64": 7},
    lambda r: (mpf(2) ** r - 1) / r if r else LN2,
    mpf("-0.5001"),
    mpf("0.5001"),
    lambda r: abs(r) * mpf(2) ** -r,
)


def table(name: str) -> str:
    """A table as it stands in the file."""
    lines = [f'"meaning": {json.dumps(MEANINGS[name])}']
    for kind, wanted in FITS[name].items():
        coefficients, worst = solve(wanted)
        words = ", ".join(repr(c) if kind == "f64" else f"{c:.9g}" for c in coefficients)
        lines.append(f'"{kind}": {{"error": "2**{float(mp.log(worst, 2)):.1f}", "coefficients": [{words}]}}')
    return f'"{name}": {{\n  ' + ",\n  ".join(lines) + "\n}"


def main(names: Sequence[str]) -> None:
    if names:
        for name in names:
            print(table(name))
        return
    TARGET.write_text("{\n" + ",\n".join(table(name) for name in FITS) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
