"""Records of taking and putting elements along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Error, Record, call

DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
NUMBERS = ("float32", "float64", "int64")
IDX = "out of bounds|out of range"


def _index(make: Any, *shape: int, high: int = 3, dtype: str = "int64") -> np.ndarray:
    return make.integers(*shape, high=high, dtype=dtype)


def _distinct(make: Any, *shape: int, high: int, dim: int) -> np.ndarray:
    """Indices that do not repeat along ``dim``, so that the order of writes does not matter."""
    rows = np.array([make.rng.permutation(high)[: shape[dim]] for _ in range(int(np.prod(shape)) // shape[dim])])
    return np.ascontiguousarray(np.moveaxis(rows.reshape(*(n for d, n in enumerate(shape) if d != dim), shape[dim]), -1, dim))


def _places(index: np.ndarray, dim: int) -> tuple[np.ndarray, ...]:
    """For every element of ``index`` its position in the tensor that it points into."""
    places = list(np.indices(index.shape))
    places[dim] = index
    return tuple(places)


def _gather(x: Any, dim: int, index: Any) -> Any:
    if not index.size:
        return np.zeros(index.shape, x.dtype)
    return x.reshape(1)[index] if not x.ndim else np.atleast_1d(x)[_places(np.atleast_1d(index), dim)].reshape(index.shape)


def _with(update: Any) -> Any:
    """Reference of an operation that copies its input and updates the copy."""

    def reference(x: Any, *args: Any, **kwargs: Any) -> Any:
        result = np.array(x)
        update(np.atleast_1d(result) if not result.ndim else result, *args, **kwargs)
        return result

    return reference


def _scatter(target: Any, dim: int, index: Any, src: Any = None, value: Any = None, reduce: str | None = None) -> None:
    index = np.atleast_1d(index)
    source = value if src is None else src
    if isinstance(source, np.ndarray):
        source = np.atleast_1d(source)[tuple(slice(n) for n in index.shape)]
    if not index.size:
        return
    if reduce is None:
        target[_places(index, dim)] = source
    else:
        (np.add if reduce == "add" else np.multiply).at(target, _places(index, dim), source)


def _scatter_add(target: Any, dim: int, index: Any, src: Any) -> None:
    _scatter(target, dim, index, src, reduce="add")


_UFUNC = {"sum": np.add, "prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}


def _reduce_at(target: Any, places: Any, values: Any, reduce: str, include_self: bool) -> None:
    """Combine one value after the other, by the definition."""
    seen: dict[Any, list[Any]] = {}
    for at in np.ndindex(values.shape):
        seen.setdefault(tuple(int(p[at]) for p in places), []).append(values[at])
    for at, terms in seen.items():
        terms = [target[at], *terms] if include_self else terms
        total = _UFUNC[reduce].reduce(np.array(terms))
        target[at] = total if reduce != "mean" else total / len(terms) if target.dtype.kind == "f" else total // len(terms)


def _scatter_reduce(target: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> None:
    index, src = np.atleast_1d(index), np.atleast_1d(src)
    _reduce_at(target, _places(index, dim), src[tuple(slice(n) for n in index.shape)], reduce, include_self)


def _rows(dim: int, index: Any, target: Any) -> Any:
    return (slice(None),) * (dim % target.ndim) + (np.atleast_1d(index),)


def _index_add(target: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> None:
    np.add.at(target, _rows(dim, index, target), np.asarray(alpha).astype(source.dtype) * source)


def _index_copy(target: Any, dim: int, index: Any, source: Any) -> None:
    target[_rows(dim, index, target)] = source


def _index_reduce(target: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> None:
    places = list(np.indices(source.shape))
    places[dim] = np.asarray(index)[places[dim]]
    _reduce_at(target, places, source, reduce, include_self)


def _put(target: Any, index: Any, source: Any, accumulate: bool = False) -> None:
    if accumulate:
        np.add.at(target.reshape(-1), index.reshape(-1), source.reshape(-1))
    else:
        np.put(target, index, source)


def _select_scatter(target: Any, src: Any, dim: int, index: int) -> None:
    target[(slice(None),) * (dim % target.ndim) + (index,)] = src


def _slice_scatter(target: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> None:
    target[(slice(None),) * (dim % target.ndim) + (slice(start, end, step),)] = src


def _diagonal_scatter(target: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> None:
    diagonal = np.diagonal(target, offset, dim1, dim2)
    diagonal.setflags(write=True)
    diagonal[...] = src


def _as_strided_scatter(target: Any, src: Any, size: Any, stride: Any, storage_offset: int = 0) -> None:
    flat = target.reshape(-1)[storage_offset:]
    np.lib.stride_tricks.as_strided(flat, size, [step * target.itemsize for step in stride])[...] = src


def _take_along(x: Any, indices: Any, dim: Any = None) -> Any:
    if dim is None:
        return x.reshape(-1)[indices.reshape(-1)]
    shape = [n if d == dim % x.ndim else 0 for d, n in enumerate(x.shape)]
    common = np.broadcast_shapes(*([1 if d == dim % x.ndim else n for d, n in enumerate(a.shape)] for a in (x, indices)))
    wide = np.broadcast_to(x, [a or b for a, b in zip(shape, common, strict=True)])
    index = np.broadcast_to(indices, [indices.shape[d] if d == dim % x.ndim else n for d, n in enumerate(common)])
    return np.take_along_axis(wide, index, dim)


def _out_of_range(name: str) -> Error:
    return Error(lambda make: call(make(3, 4), 0, np.array([[3]]), make(1, 1)), RuntimeError, IDX)


def _scatter_calls(make: Any) -> list:
    return [
        call(make(3, 4), 0, _distinct(make, 2, 4, high=3, dim=0), make(2, 4)),
        call(make(3, 4), 1, _distinct(make, 2, 3, high=4, dim=1), make(2, 3)),
        call(make(3, 4), -1, np.zeros((0, 4), np.int64), make(0, 4)),
        call(make(5), 0, _distinct(make, 3, high=5, dim=0), make(3)),
        call(make(), 0, np.array(0), make()),
    ]


def _add_calls(make: Any) -> list:
    return [
        call(make(3, 4), 0, _index(make, 5, 4), make(5, 4)),
        call(make(3, 4), 1, _index(make, 2, 6, high=4), make(2, 6)),
        call(make(), 0, np.array(0), make()),
    ]


def _reduce_calls(*reductions: str) -> Any:
    def calls(make: Any) -> list:
        samples = [
            call(make(3, 4, away=0.1), 0, _index(make, 5, 4), make(5, 4, away=0.1), reduce, include_self=own)
            for reduce in reductions
            for own in (True, False)
        ]
        return [*samples, call(make(4, away=0.1), 0, np.array([0, 2, 0]), make(3, away=0.1), reductions[0])]

    return calls


def _row_calls(make: Any) -> list:
    return [
        call(make(4, 3), 0, np.array([2, 0]), make(2, 3)),
        call(make(2, 4), -1, np.array([3, 1, 0]), make(2, 3)),
        call(make(4), 0, np.array([1]), make(1)),
    ]


def _index_add_calls(make: Any) -> list:
    return [
        *_row_calls(make),
        call(make(4, 3), 0, np.array([2, 2, 0]), make(3, 3), alpha=2),
        call(make(4), 0, np.zeros(0, np.int64), make(0)),
        call(make(4), 0, np.array([1, 3], np.int32), make(2)),
    ]


def _index_reduce_calls(make: Any) -> list:
    samples = [
        call(make(3, 4, away=0.1), 0, np.array([0, 2, 0, 0]), make(4, 4, away=0.1), reduce, include_self=own)
        for reduce in ("prod", "mean", "amax", "amin")
        for own in (True, False)
    ]
    return [*samples, call(make(3, 4, away=0.1), 1, np.array([1, 3]), make(3, 2, away=0.1), "prod")]


_ROW_ERRORS = (
    Error(lambda make: call(make(4, 3), 0, np.array([4]), make(1, 3)), IndexError, IDX),
    Error(lambda make: call(make(4, 3), 2, np.array([0]), make(1, 3)), IndexError, "Dimension out of range"),
    Error(lambda make: call(make(4, 3), 0, np.array([[0]]), make(1, 3)), IndexError, "vector"),
)
_PRODUCTS = {"gradient": (1e-3, 1e-4), "float32": (1e-5, 1e-5), "bfloat16": (5e-2, 5e-2)}
# PyTorch's derivatives of these four refuse complex numbers, and that of as_strided_scatter is wrong: float64 is checked by differences
_PART_DTYPES = ("float64", "bfloat16", "int64", "bool", "complex128")

RECORDS = [
    Record(
        "gather",
        lambda make: [
            call(make(3, 4), 0, _index(make, 2, 4)),
            call(make(3, 4), 1, _index(make, 3, 6, high=4)),
            call(make(3, 4), -1, _index(make, 2, 1, high=4)),
            call(make(5), 0, _index(make, 7, high=5)),
            call(make(), 0, np.array(0)),
            call(make(3, 4), 0, np.zeros((0, 4), np.int64)),
            call(make(3), 0, _index(make, 2, dtype="int32")),
        ],
        lambda x, dim, index: _gather(x, dim % max(x.ndim, 1), index),
        DTYPES,
        (
            Error(lambda make: call(make(3, 4), 0, np.array([[3]])), RuntimeError, IDX),
            Error(lambda make: call(make(3, 4), 0, np.array([[-1]])), RuntimeError, IDX),
            Error(lambda make: call(make(3, 4), 0, np.array([0])), RuntimeError, "same number of dimensions"),
            Error(lambda make: call(make(3, 4), 0, np.zeros((2, 5), np.int64)), RuntimeError, "Size does not match at dimension 1"),
            Error(lambda make: call(make(3, 4), 2, np.array([[0]])), IndexError, "Dimension out of range"),
            Error(lambda make: call(make(3), 0, make(2)), RuntimeError, "int64"),
        ),
    ),
    Record(
        "take_along_dim",
        lambda make: [
            call(make(3, 4), _index(make, 2, 4), 0),
            call(make(3, 4), _index(make, 3, 1, high=4), 1),
            call(make(1, 4), _index(make, 3, 2, high=4), 1),
            call(make(5), _index(make, 7, high=5)),
        ],
        _take_along,
        DTYPES,
        (
            Error(lambda make: call(make(3, 4), np.array([0]), 0), RuntimeError, "same number of dimensions"),
            Error(lambda make: call(make(3), make(3), 0), RuntimeError, "dtype of indices should be Long"),
        ),
    ),
    Record(
        "scatter",
        lambda make: [
            *_scatter_calls(make),
            call(make(3, 4), 0, _index(make, 2, 4), 1),
            call(make(3, 4), 1, _index(make, 2, 3, high=4), value=1),
        ],
        _with(_scatter),
        DTYPES,
        (
            _out_of_range("scatter"),
            Error(lambda make: call(make(3), 0, np.array([0]), make(1, dtype="int64")), RuntimeError, "equal to src.dtype"),
            Error(lambda make: call(make(3), 0, np.array([0]), make(1), reduce="sum"), RuntimeError, "add or multiply"),
            Error(lambda make: call(make(3), 0, np.array([0, 1]), make(1)), RuntimeError, "to be no larger"),
        ),
    ),
    Record(
        "Tensor.scatter_",
        lambda make: [
            *_scatter_calls(make),
            call(make(3, 4), 1, _distinct(make, 2, 2, high=4, dim=1), make(3, 3)),
            call(make(3, 4), 0, _index(make, 2, 4), value=1),
            call(make(3, 4), 0, _index(make, 3, 4), make(3, 4), reduce="add"),
            call(make(3, 4), 0, _index(make, 3, 4), 2, reduce="multiply"),
        ],
        _with(_scatter),
        DTYPES,
        (_out_of_range("scatter_"),),
        gradient=False,
        is_view=True,
        notes="PyTorch has derivatives neither of reduce= nor of an index smaller than the source",
    ),
    Record("scatter_add", _add_calls, _with(_scatter_add), DTYPES, (_out_of_range("scatter_add"),)),
    Record(
        "scatter_reduce",
        _reduce_calls("sum", "mean", "amax", "amin", "prod"),
        _with(_scatter_reduce),
        (*NUMBERS, "bfloat16"),
        (
            Error(lambda make: call(make(3), 0, np.array([0]), make(1), "add"), RuntimeError, "reduce argument must be either"),
            Error(lambda make: call(make(3), 0, np.array([3]), make(1), "sum"), RuntimeError, IDX),
        ),
        _PRODUCTS,
    ),
    Record(
        "Tensor.scatter_reduce_",
        _reduce_calls("sum", "amax", "prod"),
        _with(_scatter_reduce),
        NUMBERS,
        (Error(lambda make: call(make(3), 0, np.array([3]), make(1), "sum"), RuntimeError, IDX),),
        gradient=False,
        is_view=True,
    ),
    Record(
        "index_select",
        lambda make: [
            call(make(3, 4), 0, np.array([2, 0, 0, 1])),
            call(make(3, 4), -1, np.array([1, 3], np.int32)),
            call(make(3), 0, np.array(1)),
            call(make(), 0, np.array([0])),
            call(make(3, 4), 0, np.zeros(0, np.int64)),
        ],
        lambda x, dim, index: x.take(np.atleast_1d(index), dim) if x.ndim else x,
        DTYPES,
        (
            Error(lambda make: call(make(3), 0, np.array([3])), IndexError, IDX),
            Error(lambda make: call(make(3), 0, np.array([[0]])), IndexError, "vector"),
            Error(lambda make: call(make(3), 1, np.array([0])), IndexError, "Dimension out of range"),
            Error(lambda make: call(make(3), 0, make(3)), RuntimeError, "int32/int64"),
        ),
    ),
    Record(
        "index_add",
        _index_add_calls,
        _with(_index_add),
        DTYPES,
        (
            Error(lambda make: call(make(4, 3), 0, np.array([0]), make(1, 2)), RuntimeError),
            Error(lambda make: call(make(4), 0, np.array([0]), make(1, dtype="int64")), RuntimeError, "same dtype|same scalar type"),
            Error(lambda make: call(make(4), 0, np.array([4]), make(1)), IndexError, IDX),
        ),
    ),
    Record("Tensor.index_add_", _index_add_calls, _with(_index_add), DTYPES, gradient=False, is_view=True),
    Record("index_copy", _row_calls, _with(_index_copy), DTYPES, _ROW_ERRORS),
    Record(
        "index_fill",
        lambda make: [
            call(make(4, 3), 0, np.array([2, 0]), 1),
            call(make(4, 3), -1, np.array([1]), make()),
            call(make(4), 0, np.array([1, 1]), 0),
            call(make(), 0, np.array([0]), 1),
        ],
        _with(lambda target, dim, index, value: _index_copy(target, dim, index, np.asarray(value).astype(target.dtype))),
        DTYPES,
        (
            Error(lambda make: call(make(4, 3), 0, np.array([4]), 1), IndexError, IDX),
            Error(lambda make: call(make(4, 3), 0, np.array([0]), make(3)), RuntimeError, "0-dimension"),
        ),
    ),
    Record(
        "index_reduce",
        _index_reduce_calls,
        _with(_index_reduce),
        (*NUMBERS, "bfloat16"),
        (
            Error(lambda make: call(make(3), 0, np.array([0]), make(1), "sum"), RuntimeError, "Expected reduce to be one of"),
            Error(lambda make: call(make(3), 0, np.array([3]), make(1), "prod"), IndexError, IDX),
        ),
        _PRODUCTS,
    ),
    Record("Tensor.index_reduce_", _index_reduce_calls, _with(_index_reduce), NUMBERS, gradient=False, is_view=True),
    Record(
        "take",
        lambda make: [
            call(make(3, 4), _index(make, 2, 3, high=12)),
            call(make(3, 4), np.array([-1, 0, -12])),
            call(make(), np.array([0, -1])),
            call(make(3), np.array(2)),
            call(make(3), np.zeros(0, np.int64)),
        ],
        lambda x, index: x.reshape(-1)[index],
        DTYPES,
        (
            Error(lambda make: call(make(3), np.array([3])), IndexError, "out of range"),
            Error(lambda make: call(make(0), np.array([0])), IndexError, "empty tensor"),
            Error(lambda make: call(make(3), np.array([0], np.int32)), RuntimeError, "long tensor"),
        ),
    ),
    Record(
        "put",
        lambda make: [
            call(make(3, 4), np.array([1, 5, -1]), make(3)),
            call(make(3, 4), np.array([[1, 5], [0, 7]]), make(4)),
            call(make(3, 4), np.array([1, 5, 1]), make(3), True),
            call(make(), np.array([0]), make(1)),
        ],
        _with(_put),
        DTYPES,
        (
            Error(lambda make: call(make(3), np.array([3]), make(1)), IndexError, "out of range"),
            Error(lambda make: call(make(3), np.array([0]), make(2)), IndexError, "same number of elements"),
        ),
    ),
    Record(
        "select_scatter",
        lambda make: [call(make(3, 4), make(4), 0, 1), call(make(3, 4), make(3), -1, -2)],
        _with(_select_scatter),
        _PART_DTYPES,
        (
            Error(lambda make: call(make(3, 4), make(3), 0, 0), RuntimeError, "size equal to the slice"),
            Error(lambda make: call(make(3, 4), make(4), 0, 3), IndexError, "out of range"),
        ),
    ),
    Record(
        "slice_scatter",
        lambda make: [
            call(make(5, 2), make(2, 2), 0, 1, 3),
            call(make(2, 5), make(2, 2), 1, 0, 4, 2),
            call(make(3), make(3)),
            call(make(5), make(2), 0, -2, 99),
        ],
        _with(_slice_scatter),
        _PART_DTYPES,
        (Error(lambda make: call(make(5), make(2), 0, 1, 4), RuntimeError, "size equal to the slice"),),
    ),
    Record(
        "diagonal_scatter",
        lambda make: [call(make(3, 4), make(3)), call(make(3, 4), make(2), -1), call(make(2, 3, 4), make(3, 2), 1, 0, 2)],
        _with(_diagonal_scatter),
        _PART_DTYPES,
        (Error(lambda make: call(make(3, 3), make(2)), RuntimeError, "size equal to the slice"),),
    ),
    Record(
        "as_strided_scatter",
        lambda make: [call(make(3, 4), make(2, 2), (2, 2), (5, 1)), call(make(12), make(3), (3,), (4,), 2)],
        _with(_as_strided_scatter),
        _PART_DTYPES,
        (Error(lambda make: call(make(3, 4), make(3), (2,), (1,)), RuntimeError, "size equal to the slice"),),
        layout_free=False,
        notes="as_strided addresses memory, not elements",
    ),
]
