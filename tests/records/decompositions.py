"""Records of decompositions of matrices."""

from __future__ import annotations

import numpy as np

from .record import Error, Record, call

SHAPES = ((3, 3), (2, 3, 3))

RECORDS = [
    Record(
        "linalg.qr",
        lambda m: [*(call(m(*shape), mode=mode) for shape in SHAPES for mode in ("reduced", "complete")), call(m(4, 2))],
        reference=lambda A, mode="reduced": np.linalg.qr(A, mode=mode),
        dtypes=("float32", "float64", "complex64"),
        tolerance={"float32": (1e-4, 1e-5), "complex64": (1e-4, 1e-5)},
        errors=(
            Error(lambda m: call(m(3)), RuntimeError, "at least 2 dimensions"),
            Error(lambda m: call(m(3, 3), mode="full"), RuntimeError, "unrecognized mode"),
        ),
        gradient=False,
        expanded=False,
        notes="finite differences of orthonormal factors need well-conditioned matrices; the gradients are compared with PyTorch's",
    ),
    *(
        Record(
            name,
            lambda m: [call(m(*shape)) for shape in SHAPES],
            reference=np.linalg.inv,
            dtypes=("float32", "float64", "complex64"),
            tolerance={"float32": (1e-3, 1e-4), "complex64": (1e-3, 1e-4)},
            errors=(
                Error(lambda m: call(m(2, 3)), RuntimeError, "square"),
                Error(lambda m: call(np.zeros((2, 2), np.float32)), RuntimeError, "singular"),
            ),
        )
        for name in ("linalg.inv", "inverse")
    ),
]
