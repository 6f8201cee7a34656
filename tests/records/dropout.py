"""Records of dropout: with the same seed the same elements are dropped as by PyTorch."""

from __future__ import annotations

from typing import Any

from .record import Error, Record, call

FLOATS = ("float32", "float64", "bfloat16")
_P = "has to be between 0 and 1"


def _samples(*shape: int) -> Any:
    return lambda make: [call(make(*shape), p, train) for p, train in ((0.3, True), (0.0, True), (1.0, True), (0.7, False))]


def _dropout(name: str, *shape: int) -> list[Record]:
    errors = (
        Error(lambda make: call(make(*shape), 1.5, True), RuntimeError, _P),
        Error(lambda make: call(make(*shape), -0.5, True), RuntimeError, _P),
    )
    same = "the tensor itself where nothing is dropped"
    return [
        Record(name, _samples(*shape), None, FLOATS, errors, random=True, is_view=True, notes=same),
        Record(
            name + "_",
            _samples(*shape),
            None,
            FLOATS,
            errors,
            gradient=False,
            random=True,
            is_view=True,
            notes="works on the tensor itself",
        ),
    ]


RECORDS = [
    *_dropout("dropout", 5, 6),
    *_dropout("alpha_dropout", 5, 6),
    *_dropout("feature_dropout", 3, 4, 2),
    *_dropout("feature_alpha_dropout", 3, 4, 2),
    Record(
        "native_dropout",
        lambda make: [call(make(5, 6), p, train) for p, train in ((0.3, True), (0.0, True), (0.7, False))],
        None,
        FLOATS,
        random=True,
    ),
]
