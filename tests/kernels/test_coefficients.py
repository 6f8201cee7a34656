"""The polynomials of kernels against the functions that they stand for, and their data files against what a wheel takes along."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau.kernels.mathematics import coefficients

PACKAGE = Path(flambeau.__file__).parent
ROOT = PACKAGE.parent


def test_polynomials_are_as_exact_as_their_file_says() -> None:
    mpmath = pytest.importorskip("mpmath")
    tool = pytest.importorskip("tools.minimax")
    for name, fits in tool.FITS.items():
        for kind, fit in fits.items():
            entry = coefficients.entries("minimax.json")[name][kind]
            terms = [mpmath.mpf(tool.rounded(c, kind)) for c in coefficients.minimax(name, kind)]
            assert len(terms) == len(fit.powers), (name, kind)
            width = mpmath.mpf(fit.high) - fit.low
            points = [fit.low + width * i / 40 for i in range(41)]
            worst = max(abs(fit.weight(x) * (fit.function(x) - mpmath.polyval(terms[::-1], x))) for x in points if x)
            assert worst < 1.04 * 2 ** mpmath.mpf(entry["error"].removeprefix("2**")), (name, kind)  # as rounded there


def test_pieces_are_as_exact_as_their_file_says() -> None:
    mpmath = pytest.importorskip("mpmath")
    tool = pytest.importorskip("tools.piecewise")
    draw = random.Random(1)
    for name, fit in tool.FITS.items():
        table, intervals = coefficients.pieces(name), tool.pieces(fit.low, fit.high, fit.parts)
        assert (table.low, table.high, table.parts) == (fit.low, fit.high, fit.parts), name
        assert {len(row) for row in table.rows} == {len(intervals)}, name
        for i, (left, right) in enumerate(intervals):
            if i or fit.first:
                u = [draw.uniform(-0.5, 0.5) for _ in range(3)]
                values = [fit.function(left + (right - left) * (mpmath.mpf(at) + 0.5)) for at in u]
                terms = [mpmath.mpf(row[i]) for row in reversed(table.rows)]
                size = max(map(abs, [*values, terms[-1]]))
                worst = max(abs(value - mpmath.polyval(terms, at)) for at, value in zip(u, values, strict=True))
                assert worst < 2.0**-52 * size, (name, i)  # the series' error, and roundings of the coefficients


def test_shorter_pieces_are_made_of_the_longer_ones() -> None:
    tool = pytest.importorskip("tools.single")
    for name, table in tool.tables().items():
        stored = coefficients.pieces(name, single=True)
        assert (stored.low, stored.high, stored.parts) == (table.low, table.high, table.parts), name
        assert np.allclose(stored.rows, table.rows, rtol=1e-12, atol=0), name
    for name, is_far in (("ERFINV_NEAR", False), ("ERFINV_FAR", True)):
        low, high, terms = tool.erfinv_polynomial(is_far)
        assert list(coefficients.entries("single.json")[name].values()) == [low, high, pytest.approx(terms, rel=1e-10)], name


def test_a_wheel_has_every_data_file() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["flambeau"]
    taken = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    data = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert data <= taken, sorted(map(str, data - taken))
