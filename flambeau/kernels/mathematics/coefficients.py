"""Coefficients of polynomials, from the data files beside this module.

``python -m tools.minimax`` writes ``minimax.json``, those of ``vectors.py``, and ``python -m tools.piecewise`` writes ``piecewise.json``,
those of ``special.py``, of which ``python -m tools.single`` makes ``single.json``, the shorter ones for float32; none is edited by hand.
Each entry says what function it is made for, and its largest error.  What errors the functions have that are made of them is in
``max_ulp.json``.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

from ..data import text_beside


class Pieces(NamedTuple):
    """A function on [0, high): pieces [0, low) and ``parts`` an octave from there on.

    ``rows[j][i]`` is piece i's coefficient of the power j of its variable, which goes from -1/2 to 1/2.
    """

    low: float
    high: float
    parts: int
    rows: tuple[tuple[float, ...], ...]


@cache
def entries(file: str) -> dict[str, dict[str, Any]]:
    """The contents of a data file, by the tables' names."""
    return json.loads(text_beside(__file__, file))


@cache
def minimax(name: str, element: str) -> tuple[float, ...]:
    """Coefficients for float32 (``"f32"``) or float64 (``"f64"``), lowest power first."""
    return tuple(entries("minimax.json")[name][element]["coefficients"])


@cache
def pieces(name: str, single: bool = False) -> Pieces:
    """The table of a function, for results of float64 or (``single``) of float32."""
    entry = entries("single.json" if single else "piecewise.json")[name]
    return Pieces(entry["low"], entry["high"], entry["parts"], tuple(map(tuple, entry["rows"])))
