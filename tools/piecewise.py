"""Finds the polynomials of ``kernels/mathematics/special.py``: ``python -m tools.piecewise`` writes ``piecewise.json`` beside it.

With names of tables as arguments, these are printed instead. The whole takes some minutes and needs mpmath.

A function is cut into pieces that halve towards zero: [0, low) first, then ``parts`` equal ones an octave up to ``high``.  Each has a
polynomial in its own variable, -1/2 to 1/2 from end to end, which a kernel finds without rounding in the bits of its argument.  The
polynomials are the first terms of Chebyshev series, which are within a small factor of the best; all of a table have as many, as few as
keep what is left out below ``GOAL`` of the piece's largest value.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mpmath import mp, mpf

mp.dps = 40
TARGET = Path(__file__).resolve().parent.parent / "flambeau" / "kernels" / "mathematics" / "piecewise.json"
GOAL = mpf(2) ** -55
TERMS = 26  # of the series that are made first
Function = Callable[[Any], Any]


class Fit(NamedTuple):
    meaning: str
    function: Function
    low: float
    high: float
    parts: int
    first: bool  # whether [0, low) is fitted too; where not, nobody asks for it


def series(f: Function, left: Any, right: Any) -> tuple[list[Any], Any]:
    """The Chebyshev series of ``f`` between two points, and its largest value there."""
    angles = [mp.pi * (2 * i + 1) / (2 * TERMS) for i in range(TERMS)]
    values = [f((left + right) / 2 + mp.cos(angle) * (right - left) / 2) for angle in angles]
    terms = [2 * mp.fsum(v * mp.cos(j * angle) for v, angle in zip(values, angles, strict=True)) / TERMS for j in range(TERMS)]
    return [terms[0] / 2, *terms[1:]], max(abs(v) for v in values)


def powers(terms: Sequence[Any]) -> list[Any]:
    """Coefficients, in a variable from -1/2 to 1/2, of a Chebyshev series from -1 to 1."""
    total = [mpf(0)] * len(terms)
    before, now = [mpf(1)], [mpf(0), mpf(1)]  # of the Chebyshev polynomials, lowest power first
    for c in terms:
        for i, b in enumerate(before):
            total[i] += c * b * 2**i
        following = [mpf(0), *(2 * n for n in now)]
        for i, b in enumerate(before):
            following[i] -= b
        before, now = now, following
    return total


def pieces(low: float, high: float, parts: int) -> list[tuple[Any, Any]]:
    bounds, left = [(mpf(0), mpf(low))], mpf(low)
    while left < high:
        bounds += [(left + left * i / parts, left + left * (i + 1) / parts) for i in range(parts)]
        left *= 2
    return bounds


def solve(fit: Fit) -> tuple[list[list[float]], Any]:
    """Rows of coefficients by power, and the largest relative error."""
    intervals = pieces(fit.low, fit.high, fit.parts)
    all_terms = [series(fit.function, *interval) for interval in intervals[not fit.first :]]

    def left_out(count: int) -> Any:
        return max(mp.fsum(map(abs, terms[count:])) / largest for terms, largest in all_terms)

    count = next(n for n in range(5, TERMS) if left_out(n) < GOAL)
    columns = [powers(terms[:count]) for terms, _ in all_terms]
    if not fit.first:
        columns.insert(0, [mpf(0)] * count)
    return [[float(c) for c in row] for row in zip(*columns, strict=True)], left_out(count)


FITS: dict[str, Fit] = {}


def fit(name: str, meaning: str, function: Function, low: float, high: float, parts: int, first: bool = True) -> None:
    FITS[name] = Fit(meaning, function, low, high, parts, first)


# -- error function -----------------------------------------------------------------------------------------------------------------------
def inverse_erf_ratio(w: Any) -> Any:
    """erfinv(x) / x with w = -log(1 - x**2)."""
    if w < mpf(10) ** -12:
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    if w < 20:
        return mp.erfinv(x) / x
    # Newton's iteration for log(erfc(y)), where x is 1 in any usual precision: erfc(y) = 1 - x
    with mp.workdps(60):
        tail = mp.exp(-w) / (1 + mp.sqrt(-mp.expm1(-w)))
        y = mp.sqrt(w - mp.log(mp.sqrt(mp.pi * w)))
        for _ in range(8):
            y += (mp.log(mp.erfc(y)) - mp.log(tail)) * mp.erfc(y) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        return y / x


fit("ERFCX", "erfc(x) * exp(x**2)", lambda x: mp.erfc(x) * mp.exp(x * x), 0.25, 64, 2)
fit("ERFINV", "erfinv(x) / x as a function of -log(1 - x**2)", inverse_erf_ratio, 0.5, 1024, 2)

# -- gamma function -----------------------------------------------------------------------------------------------------------------------
ROOT_OF_DIGAMMA = mp.findroot(mp.digamma, mpf("1.4616"))


def log_gamma_ratio(x: Any) -> Any:
    product = (x - 1) * (x - 2)
    if abs(product) > mpf(10) ** -15:
        return mp.loggamma(x) / product
    return mp.euler if x < 1.5 else 1 - mp.euler


def digamma_ratio(x: Any) -> Any:
    return mp.digamma(x) / (x - ROOT_OF_DIGAMMA) if abs(x - ROOT_OF_DIGAMMA) > mpf(10) ** -15 else mp.polygamma(1, x)


def stirling(z: Any) -> Any:
    x = 8 / mp.sqrt(z)
    return (mp.loggamma(x) - (x - mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def digamma_tail(z: Any) -> Any:
    x = 8 / mp.sqrt(z)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x


fit("LOG_GAMMA", "log(gamma(x)) / ((x - 1) * (x - 2))", log_gamma_ratio, 0.5, 8, 4, first=False)
fit("STIRLING", "x * (log(gamma(x)) - (x - 1/2) * log(x) + x - log(2 * pi) / 2) as a function of (8 / x)**2", stirling, 0.5, 1, 1)
fit("DIGAMMA", "digamma(x) / (x - its root)", digamma_ratio, 0.5, 8, 4, first=False)
fit("DIGAMMA_TAIL", "x**2 * (log(x) - 1 / (2 * x) - digamma(x)) as a function of (8 / x)**2", digamma_tail, 0.5, 1, 1)


# -- Bessel functions ---------------------------------------------------------------------------------------------------------------------
def waves(order: int) -> tuple[Function, Function]:
    """P and Q of 8 / x, with J = sqrt(2 / (pi * x)) * (P cos(t) - Q sin(t)) and Y = the same of (P sin(t) + Q cos(t)).

    The angle t is x - (order + 1/2) * pi / 2.
    """

    def both(z: Any) -> tuple[Any, Any]:
        x = 8 / z
        t, root = x - (order + mpf(1) / 2) * mp.pi / 2, mp.sqrt(mp.pi * x / 2)
        j, y = mp.besselj(order, x) * root, mp.bessely(order, x) * root
        return j * mp.cos(t) + y * mp.sin(t), y * mp.cos(t) - j * mp.sin(t)

    return lambda z: both(z)[0], lambda z: both(z)[1] / z


def scaled_root(function: Function, by: int) -> Function:
    """sqrt(x) * function(x) with x = by / z"""
    return lambda z: mp.sqrt(by / z) * function(by / z)


def scaled_third_kind(order: int, x: Any) -> Any:
    return mp.exp(x) * mp.besselk(order, x)


for order in (0, 1):
    p, q = waves(order)
    fit(f"WAVE_P{order}", f"P of order {order} as a function of 8 / x", p, 0.25, 1, 2)
    fit(f"WAVE_Q{order}", f"Q of order {order} over 8 / x, as a function of 8 / x", q, 0.25, 1, 2)
fit("J0", "j0(x)", lambda x: mp.besselj(0, x), 0.5, 8, 4)
fit("J1", "j1(x) / x", lambda x: mp.besselj(1, x) / x, 0.5, 8, 4)
fit("Y0", "y0(x) - 2 / pi * log(x) * j0(x)", lambda x: mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x), 0.5, 8, 4)
fit(
    "Y1",
    "(y1(x) - 2 / pi * (log(x) * j1(x) - 1 / x)) / x",
    lambda x: (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x,
    0.5,
    8,
    4,
)
fit("I0E", "exp(-x) * i0(x)", lambda x: mp.exp(-x) * mp.besseli(0, x), 0.5, 8, 2)
fit("I1E", "exp(-x) * i1(x) / x", lambda x: mp.exp(-x) * mp.besseli(1, x) / x, 0.5, 8, 2)
fit("I0E_TAIL", "sqrt(x) * exp(-x) * i0(x) as a function of 8 / x", scaled_root(lambda x: mp.exp(-x) * mp.besseli(0, x), 8), 0.25, 1, 2)
fit("I1E_TAIL", "sqrt(x) * exp(-x) * i1(x) as a function of 8 / x", scaled_root(lambda x: mp.exp(-x) * mp.besseli(1, x), 8), 0.25, 1, 2)
fit(
    "K0_NEAR",
    "k0(x) + log(x) * i0(x) as a function of x**2",
    lambda z: (lambda x: mp.besselk(0, x) + mp.log(x) * mp.besseli(0, x))(mp.sqrt(z)),
    0.0625,
    0.0625,
    1,
)
fit(
    "K1_NEAR",
    "(k1(x) - 1 / x - log(x) * i1(x)) / x as a function of x**2",
    lambda z: (lambda x: (mp.besselk(1, x) - 1 / x - mp.log(x) * mp.besseli(1, x)) / x)(mp.sqrt(z)),
    0.0625,
    0.0625,
    1,
)
fit("I0_NEAR", "i0(x) as a function of x**2", lambda z: mp.besseli(0, mp.sqrt(z)), 0.0625, 0.0625, 1)
fit("I1_NEAR", "i1(x) / x as a function of x**2", lambda z: mp.besseli(1, mp.sqrt(z)) / mp.sqrt(z), 0.0625, 0.0625, 1)
for order in (0, 1):
    scaled_k = partial(scaled_third_kind, order)
    fit(f"K{order}E", f"exp(x) * k{order}(x)", scaled_k, 0.25, 8, 4, first=False)
    fit(f"K{order}E_TAIL", f"sqrt(x) * exp(x) * k{order}(x) as a function of 8 / x", scaled_root(scaled_k, 8), 0.5, 1, 1)


# -- Airy's function ----------------------------------------------------------------------------------------------------------------------
def airy_waves(z: Any) -> tuple[Any, Any]:
    """P and Q with Ai(-x) = (P cos(t) + Q sin(t)) / (sqrt(pi) * x**(1/4)), t = 2/3 * x**(3/2) - pi / 4, of z = (8 / x)**(3/2)."""
    x = 8 / z ** (mpf(2) / 3)
    t, root = 2 * x ** (mpf(3) / 2) / 3 - mp.pi / 4, mp.sqrt(mp.pi) * x ** (mpf(1) / 4)
    a, b = mp.airyai(-x) * root, mp.airybi(-x) * root
    return a * mp.cos(t) - b * mp.sin(t), a * mp.sin(t) + b * mp.cos(t)


def airy_decay(x: Any) -> Any:
    return mp.airyai(x) * mp.exp(2 * x ** (mpf(3) / 2) / 3)


fit("AIRY_NEAR", "Ai(x) for x from 0 to 1", mp.airyai, 0.5, 1, 1)
fit("AIRY_DECAY", "Ai(x) * exp(2/3 * x**(3/2))", airy_decay, 1, 8, 2, first=False)
fit(
    "AIRY_TAIL",
    "x**(1/4) * Ai(x) * exp(2/3 * x**(3/2)) as a function of (8 / x)**(3/2)",
    lambda z: (lambda x: x ** (mpf(1) / 4) * airy_decay(x))(8 / z ** (mpf(2) / 3)),
    0.5,
    1,
    1,
)
fit("AIRY_BELOW", "Ai(-x)", lambda x: mp.airyai(-x), 0.5, 8, 4)
fit("AIRY_P", "the cosine's factor in Ai(-x) * sqrt(pi) * x**(1/4), as a function of (8 / x)**(3/2)", lambda z: airy_waves(z)[0], 0.5, 1, 1)
fit("AIRY_Q", "the sine's, over (8 / x)**(3/2)", lambda z: airy_waves(z)[1] / z, 0.5, 1, 1)


def table(name: str) -> str:
    """A table as it stands in the file."""
    wanted = FITS[name]
    rows, worst = solve(wanted)
    head = f'"meaning": {json.dumps(wanted.meaning)}, "error": "2**{float(mp.log(worst, 2)):.1f}",'
    bounds = f'"low": {float(wanted.low)!r}, "high": {float(wanted.high)!r}, "parts": {wanted.parts}, "rows": ['
    return "\n".join([f'"{name}": {{', f"  {head}", f"  {bounds}", ",\n".join(f"    {row!r}" for row in rows), "  ]", "}"])


def main(names: Sequence[str]) -> None:
    if names:
        for name in names:
            print(table(name), flush=True)
        return
    TARGET.write_text("{\n" + ",\n".join(table(name) for name in FITS) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
