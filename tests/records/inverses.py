"""Records of inverses and determinants."""

from __future__ import annotations

import numpy as np

from .linear_systems import RECTANGULAR, SHAPES, ZEROS, matrix_record, no_failures, positive, regular
from .record import Error, Maker, Sample, call


def squares(make: Maker) -> list[Sample]:
    return [call(regular(make, *shape)) for shape in SHAPES]


RECORDS = [
    *(
        matrix_record(name, squares, np.linalg.inv, errors=(RECTANGULAR, Error(lambda m: call(ZEROS), RuntimeError, "singular")))
        for name in ("linalg.inv", "inverse")
    ),
    matrix_record("linalg.inv_ex", squares, lambda A: (np.linalg.inv(A), no_failures(A)), errors=(RECTANGULAR,)),
    *(matrix_record(name, squares, np.linalg.det, errors=(RECTANGULAR,)) for name in ("linalg.det", "det")),
    *(matrix_record(name, squares, lambda A: tuple(np.linalg.slogdet(A)), errors=(RECTANGULAR,)) for name in ("linalg.slogdet", "slogdet")),
    matrix_record(
        "logdet",
        lambda m: [call(positive(m, *shape)) for shape in SHAPES],
        lambda A: np.log(np.linalg.det(A)),
        errors=(RECTANGULAR,),
        notes="of positive-definite matrices; the logarithm of a negative determinant is NaN",
    ),
]
