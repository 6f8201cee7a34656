"""Records of the copies of views."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Record, call

ALL = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")  # PyTorch has no complex derivatives of two of them


def _unfolded(a: np.ndarray, dim: int, size: int, step: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(a, size, dim)[(slice(None),) * dim + (slice(None, None, step),)]


def _cut(a: np.ndarray, size: int, dim: int = 0) -> list[np.ndarray]:
    return np.split(a, range(size, a.shape[dim], size), dim)


def _pieces(a: np.ndarray, sizes: Any, dim: int = 0) -> list[np.ndarray]:
    return np.split(a, np.cumsum(sizes)[:-1], dim)


def _chunks(a: np.ndarray, chunks: int, dim: int = 0) -> list[np.ndarray]:
    return _cut(a, -(-a.shape[dim] // chunks), dim)


def _strided(a: np.ndarray, size: Any, stride: Any, offset: int = 0) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(a.reshape(-1)[offset:], size, [a.itemsize * n for n in stride])


# Name, arguments behind a (3, 4), what NumPy makes of them.
ROWS: list[tuple[str, list[tuple[Any, ...]], Any]] = [
    ("alias_copy", [()], lambda a: a),
    ("detach_copy", [()], lambda a: a),
    ("diagonal_copy", [(), (1, 1, 0)], np.diagonal),
    ("expand_copy", [((2, 3, 4),), ((2, -1, 4),)], lambda a, size: np.broadcast_to(a, (2, 3, 4))),
    ("permute_copy", [((1, 0),)], np.transpose),
    ("select_copy", [(1, 2), (-2, -1)], lambda a, dim, index: a.take(index, dim)),
    ("slice_copy", [(), (1, 1, 3), (0, 0, 3, 2)], lambda a, dim=0, *part: a[(slice(None),) * dim + (slice(*part or (None,)),)]),
    ("split_copy", [(2,), (3, 1)], _cut),
    ("split_with_sizes_copy", [([1, 2],), ([1, 3], 1)], _pieces),
    ("squeeze_copy", [(), (0,)], lambda a, dim=None: a),
    ("t_copy", [()], np.transpose),
    ("transpose_copy", [(0, 1)], np.swapaxes),
    ("unbind_copy", [(), (1,)], lambda a, dim=0: list(np.moveaxis(a, dim, 0))),
    ("unfold_copy", [(1, 2, 1), (0, 3, 2)], _unfolded),
    ("unsqueeze_copy", [(0,), (-1,)], np.expand_dims),
    ("view_copy", [((4, 3),), ((2, -1),)], np.reshape),
    ("unsafe_split", [(2,), (3, 1)], _cut),
    ("unsafe_split_with_sizes", [([1, 2],), ([1, 3], 1)], _pieces),
    ("unsafe_chunk", [(2,), (3, 1)], _chunks),
]

RECORDS = [
    *(
        Record(
            name,
            lambda m, rows=rows: [call(m(3, 4), *row) for row in rows],
            reference,
            dtypes=tuple(dtype for dtype in ALL if dtype != "complex64" or name not in ("select_copy", "slice_copy")),
            gradient=name != "detach_copy",
            is_view=name.startswith("unsafe"),
        )
        for name, rows, reference in ROWS
    ),
    Record("as_strided_copy", lambda m: [call(m(3, 4), (2, 2), (1, 4)), call(m(12), (3, 2), (2, 1), 1)], _strided, layout_free=False),
    Record("view_as_real_copy", lambda m: [call(m(3, 2))], lambda a: np.stack([a.real, a.imag], -1), dtypes=("complex64",), gradient=False),
    Record(
        "view_as_complex_copy",
        lambda m: [call(m(3, 2))],
        lambda a: a[..., 0] + 1j * a[..., 1],
        dtypes=("float32", "float64"),
        layout_free=False,
        expanded=False,
        gradient=False,
        notes="there is no derivative",
    ),
]
