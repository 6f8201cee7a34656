"""Shortens the polynomials of ``kernels/mathematics/special.py`` for float32: ``python -m tools.single`` writes ``single.json`` beside it.

They are made of those for float64 in ``piecewise.json`` (``tools/piecewise.py``), of which float32 needs fewer terms.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from numpy.polynomial import chebyshev

from flambeau.kernels.mathematics.coefficients import Pieces, entries, pieces

TARGET = Path(__file__).resolve().parent.parent / "flambeau" / "kernels" / "mathematics" / "single.json"
COMMAND = "python -m tools.single"
ERFINV_NEAR, ERFINV_END = 5.0, 17.0  # of -log(1 - x**2), which is below 16 for float32


def tabulated(table: Pieces, x: float) -> float:
    """The tabulated function at a number."""
    piece, u = 0, x / table.low
    if u >= 1:
        doublings = math.floor(math.log2(u))
        part, u = divmod((u / 2**doublings - 1) * table.parts, 1)
        piece = 1 + doublings * table.parts + int(part)
    return math.fsum(row[piece] * (u - 0.5) ** j for j, row in enumerate(table.rows))


def erfinv_polynomial(is_far: bool) -> tuple[float, float, list[float]]:
    """erfinv(x) / x as a polynomial of degree 10 between two bounds, right to 2**-27, highest power first.

    It is one in -log(1 - x**2) or, ``is_far``, in its root, from -1 at the lower bound to 1 at the upper one.
    """
    low, high = (ERFINV_NEAR**0.5, ERFINV_END**0.5) if is_far else (0.0, ERFINV_NEAR)

    def value(u: float) -> float:
        w = (u + 1) / 2 * (high - low) + low
        return tabulated(pieces("ERFINV"), w * w if is_far else w)

    series = chebyshev.chebinterpolate(lambda nodes: [value(float(u)) for u in nodes], 10)
    return low, high, [float(c) for c in chebyshev.cheb2poly(series)[::-1]]


def series_of(table: Pieces) -> list[list[float]]:
    """Each piece's polynomial as a series of Chebyshev polynomials from -1 to 1."""
    return [chebyshev.poly2cheb([c * 0.5**j for j, c in enumerate(piece)]).tolist() for piece in zip(*table.rows, strict=True)]


def of_series(table: Pieces, high: float, series: Sequence[list[float]]) -> Pieces:
    terms = max(map(len, series))
    columns = [[float(c) * 2.0**j for j, c in enumerate(chebyshev.cheb2poly(piece))] for piece in series]
    return Pieces(table.low, high, table.parts, tuple(zip(*[column + [0.0] * (terms - len(column)) for column in columns], strict=True)))


def shortened(table: Pieces, high: float, terms: int) -> Pieces:
    """A table that ends earlier, with fewer terms."""
    count = 1 + table.parts * round(math.log2(high / table.low))
    return of_series(table, high, [piece[:terms] for piece in series_of(table)[:count]])


def single(table: Pieces) -> Pieces:
    """A table without the terms that are too small for float32: less than 2**-34 of the least value of their piece."""

    def needed(piece: list[float]) -> int:
        sizes = [abs(c) for c in piece]
        least = max(2 * sizes[0] - sum(sizes), sizes[0] / 64)
        return next(n for n in range(1, len(sizes) + 1) if sum(sizes[n:]) <= 2.0**-34 * least)

    series = series_of(table)
    terms = max(map(needed, series))
    return of_series(table, table.high, [piece[:terms] for piece in series])


def tables() -> dict[str, Pieces]:
    """All piecewise polynomials; ``ERFINV_SHORT`` has as much of erfinv as float32 arguments reach, to the digits that are kept."""
    made = {name: single(pieces(name)) for name in entries("piecewise.json")}
    return {**made, "ERFINV_SHORT": shortened(pieces("ERFINV"), 32.0, 8)}


def text() -> str:
    """The file's contents."""
    made = []
    for name, table in tables().items():
        bounds = f'  "low": {table.low!r}, "high": {table.high!r}, "parts": {table.parts}, "rows": ['
        made.append("\n".join([f'"{name}": {{', bounds, ",\n".join(f"    {json.dumps(row)}" for row in table.rows), "  ]", "}"]))
    for name, is_far in (("ERFINV_NEAR", False), ("ERFINV_FAR", True)):
        low, high, coefficients = erfinv_polynomial(is_far)
        made.append(f'"{name}": {{"low": {low!r}, "high": {high!r}, "coefficients": {coefficients!r}}}')
    return "{\n" + ",\n".join(made) + "\n}\n"


if __name__ == "__main__":
    TARGET.write_text(text())
