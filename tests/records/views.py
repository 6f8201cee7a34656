"""Records of views: other shapes, orders of dimensions, parts and strides over the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Error, Record, call

DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
RANGE = "Dimension out of range"


def _view(name: str, samples: Any, reference: Any = None, errors: tuple[Error, ...] = (), **options: Any) -> Record:
    options.setdefault("dtypes", DTYPES)
    return Record(name, samples, reference, errors=errors, is_view=True, **options)


def _reshape_samples(make: Any) -> list:
    return [
        call(make(3, 4), (2, 6)),
        call(make(3, 4), (-1,)),
        call(make(3, 4), (2, -1, 1, 3)),
        call(make(1, 1), ()),
        call(make(), (1, 1)),
        call(make(0, 3), (3, 0, 2)),
    ]


def _one_by_one(samples: Any) -> Any:
    """Samples whose last argument, a sequence, is given element by element as well."""

    def both(make: Any) -> list:
        calls = []
        for sample in samples(make):
            calls.append(sample)
            *first, last = sample.args
            if last:
                calls.append(call(*first, *last))
        return calls

    return both


_reshape_errors = (
    Error(lambda make: call(make(3, 4), (5, -1)), RuntimeError, "invalid for input of size"),
    Error(lambda make: call(make(3, 4), (-1, -1)), RuntimeError, "only one dimension can be inferred"),
    Error(lambda make: call(make(0, 3), (0, -1)), RuntimeError, "cannot reshape tensor of 0 elements"),
)


def _reshape(x: Any, *shape: Any) -> Any:
    return x.reshape(*shape) if shape != ((),) else x.reshape(())


def _flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if not x.ndim:
        return x.reshape(1)
    end = end_dim % x.ndim
    return x.reshape(*x.shape[:start_dim], -1, *x.shape[end + 1 :])


def _unflatten(x: Any, dim: int, sizes: Any) -> Any:
    return x.reshape(*x.shape[: dim % x.ndim], *sizes, *x.shape[dim % x.ndim + 1 :])


def _squeeze(x: Any, dim: Any = None) -> Any:
    if dim is None:
        return x.squeeze()
    dims = (dim,) if isinstance(dim, int) else dim
    return x.squeeze(tuple(d % x.ndim for d in dims if x.shape[d] == 1)) if x.ndim else x


def _expand(x: Any, *size: Any) -> Any:
    size = size[0] if isinstance(size[0], tuple) else size
    lead = len(size) - x.ndim
    return np.broadcast_to(x, [x.shape[i - lead] if n == -1 else n for i, n in enumerate(size)])


def _sum_to_size(x: Any, *size: Any) -> Any:
    size = size[0] if isinstance(size[0], tuple) else size
    lead = x.ndim - len(size)
    dims = tuple(range(lead)) + tuple(i for i in range(lead, x.ndim) if size[i - lead] == 1)
    return x.sum(axis=dims, keepdims=True).reshape(size)


def _part(x: Any, dim: int, key: Any) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (key,)]


def _narrow(x: Any, dim: int, start: int, length: int) -> Any:
    start = start % x.shape[dim] if start < 0 else start
    return _part(x, dim, slice(start, start + length))


def _split(x: Any, size: Any, dim: int = 0) -> Any:
    cuts = np.cumsum(size)[:-1] if isinstance(size, list) else range(size, x.shape[dim], size)
    return np.split(x, cuts, dim)


def _chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    return _split(x, max(-(-x.shape[dim] // chunks), 1), dim) if x.shape[dim] else [x] * chunks


def _strided(x: Any, size: Any, stride: Any, storage_offset: int = 0) -> Any:
    flat = x.reshape(-1)[storage_offset:]
    return np.lib.stride_tricks.as_strided(flat, size, [step * x.itemsize for step in stride])


def _unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    if not x.ndim:
        return np.broadcast_to(x, (size,))
    count = (x.shape[dimension] - size) // step + 1
    parts = [np.moveaxis(_part(x, dimension, slice(i * step, i * step + size)), dimension, -1) for i in range(count)]
    return np.stack(parts, dimension if dimension >= 0 else dimension + x.ndim)


def _at_least(number: int) -> Any:
    """NumPy's function of that name puts new dimensions at the same places."""
    return getattr(np, f"atleast_{number}d")


def _pieces_of_cube(make: Any) -> list:
    return [call(make(4, 4, 4), 2), call(make(4, 4, 4), [1, 3]), call(make(4, 4, 4), (2,)), call(make(4, 4, 4), [3, 1])]


SHAPES = [
    _view("reshape", _reshape_samples, _reshape, _reshape_errors),
    _view("Tensor.reshape", _one_by_one(_reshape_samples), _reshape, _reshape_errors),
    _view(
        "Tensor.view",
        _one_by_one(_reshape_samples),
        _reshape,
        (
            *_reshape_errors,
            Error(lambda make: call(make(4, 3).T, (12,)), RuntimeError, "view size is not compatible"),
            Error(lambda make: call(make(3, 4), 2.0), TypeError),
        ),
    ),
    _view("Tensor.view_as", lambda make: [call(make(3, 4), make(4, 3)), call(make(1), make())], lambda x, y: x.reshape(y.shape)),
    _view("Tensor.reshape_as", lambda make: [call(make(3, 4), make(4, 3)), call(make(1), make())], lambda x, y: x.reshape(y.shape)),
    _view(
        "flatten",
        lambda make: [call(make(2, 3, 4)), call(make(2, 3, 4), 1), call(make(2, 3, 4), 0, 1), call(make()), call(make(2, 3), 1, 1)],
        _flatten,
        (
            Error(lambda make: call(make(2, 3), 1, 0), RuntimeError, "start_dim cannot come after end_dim"),
            Error(lambda make: call(make(2, 3), 2), IndexError, RANGE),
        ),
    ),
    _view("ravel", lambda make: [call(make(2, 3)), call(make()), call(make(0, 3))], np.ravel),
    _view(
        "unflatten",
        lambda make: [call(make(3, 4), 1, (2, 2)), call(make(6, 2), 0, (2, -1)), call(make(2, 6), -1, (3, 2, 1))],
        _unflatten,
        (
            Error(lambda make: call(make(3, 4), 1, (3, 2)), RuntimeError, "don't multiply up to the size of dim"),
            Error(lambda make: call(make(3, 4), 2, (2, 2)), IndexError, RANGE),
            Error(lambda make: call(make(3, 4), 1, ()), RuntimeError, "must be non-empty"),
        ),
    ),
]

ORDERS = [
    _view(
        "transpose",
        lambda make: [call(make(3, 4), 0, 1), call(make(2, 3, 4), -1, 0), call(make(), 0, -1), call(make(2, 3), 1, 1)],
        lambda x, a, b: x.swapaxes(a, b) if x.ndim else x,
        (Error(lambda make: call(make(3, 4), 0, 2), IndexError, RANGE),),
    ),
    _view(
        "t",
        lambda make: [call(make(3, 4)), call(make(3)), call(make())],
        np.transpose,
        (Error(lambda make: call(make(2, 3, 4)), RuntimeError, "expects a tensor with <= 2 dimensions"),),
    ),
    _view(
        "permute",
        lambda make: [call(make(2, 3, 4), (2, 0, 1)), call(make(2, 3, 4), (-1, 1, 0)), call(make(), ())],
        np.transpose,
        (
            Error(lambda make: call(make(2, 3), (0, 0)), RuntimeError, "duplicate dims are not allowed"),
            Error(lambda make: call(make(2, 3), (0,)), RuntimeError, "number of dimensions"),
            Error(lambda make: call(make(2, 3), (0, 2)), IndexError, RANGE),
        ),
    ),
    _view("Tensor.permute", lambda make: [call(make(2, 3, 4), 2, 0, 1), call(make(2, 3, 4), (2, 0, 1))], lambda x, *d: x.transpose(*d)),
    _view(
        "movedim",
        lambda make: [call(make(2, 3, 4), 0, 2), call(make(2, 3, 4), (0, -1), (1, 0)), call(make(2, 3, 4), -1, 0)],
        np.moveaxis,
        (
            Error(lambda make: call(make(2, 3), (0, 1), (0,)), RuntimeError, "Invalid source or destination dims"),
            Error(lambda make: call(make(2, 3), (0, 0), (0, 1)), RuntimeError, "repeated dim"),
            Error(lambda make: call(make(2, 3), 0, 2), IndexError, RANGE),
        ),
    ),
    _view(
        "adjoint",
        lambda make: [call(make(3, 4)), call(make(2, 3, 4))],
        lambda x: x.swapaxes(-1, -2).conj(),
        (Error(lambda make: call(make(3)), RuntimeError),),
        notes="of complex tensors PyTorch returns a view with pending conjugation, flambeau a copy",
    ),
    _view(
        "squeeze",
        lambda make: [
            call(make(1, 3, 1)),
            call(make(1, 3, 1), 0),
            call(make(1, 3, 1), 1),
            call(make(1, 3, 1), (0, -1)),
            call(make(1, 3, 1), (1, 2)),
            call(make(), 0),
            call(make()),
        ],
        _squeeze,
        (
            Error(lambda make: call(make(1, 3), 2), IndexError, RANGE),
            Error(lambda make: call(make(1, 3), (0, 0)), RuntimeError, "appears multiple times"),
        ),
    ),
    _view(
        "unsqueeze",
        lambda make: [call(make(3, 4), 0), call(make(3, 4), 1), call(make(3, 4), -1), call(make(), 0), call(make(0, 3), 1)],
        np.expand_dims,
        (Error(lambda make: call(make(3), 2), IndexError, RANGE),),
    ),
]

EXPANSIONS = [
    _view(
        "broadcast_to",
        lambda make: [call(make(3, 1), (2, 3, 4)), call(make(), (2, 3)), call(make(1, 3), (-1, 3))],
        _expand,
        (Error(lambda make: call(make(3), (4,)), RuntimeError, "must match the existing size"),),
    ),
    _view(
        "Tensor.expand",
        lambda make: [
            call(make(3, 1), 2, 3, 4),
            call(make(3, 1), (3, 4)),
            call(make(3, 1), -1, 4),
            call(make(), 2, 3),
            call(make(1), 0),
            call(make(3, 4), (3, 4)),
        ],
        _expand,
        (
            Error(lambda make: call(make(3), 4), RuntimeError, "must match the existing size"),
            Error(lambda make: call(make(3), -1, 3), RuntimeError, "isn't allowed in a leading"),
            Error(lambda make: call(make(3, 4), 4), RuntimeError, "must be greater or equal to the number of dimensions"),
        ),
    ),
    _view("Tensor.expand_as", lambda make: [call(make(3, 1), make(3, 4)), call(make(), make(2))], lambda x, y: np.broadcast_to(x, y.shape)),
    _view(
        "Tensor.sum_to_size",
        lambda make: [call(make(2, 3, 4), 3, 1), call(make(2, 3, 4), (1, 3, 1)), call(make(2, 3), (3,)), call(make(2, 3), 2, 3)],
        _sum_to_size,
        (Error(lambda make: call(make(2, 3), 2), RuntimeError, "is not expandable to size"),),
        dtypes=("float32", "float64", "bfloat16", "int64", "complex64"),
        notes="the tensor itself where nothing is summed",
    ),
]

PARTS = [
    _view(
        "select",
        lambda make: [call(make(3, 4), 0, 1), call(make(3, 4), 1, -1), call(make(2, 3, 4), -2, 2)],
        lambda x, dim, index: _part(x, dim, index),
        (
            Error(lambda make: call(make(3), 0, 3), IndexError, "index 3 out of range"),
            Error(lambda make: call(make(3), 1, 0), IndexError, RANGE),
            Error(lambda make: call(make(), 0, 0), IndexError, "cannot be applied to a 0-dim tensor"),
        ),
    ),
    _view(
        "narrow",
        lambda make: [call(make(4, 5), 0, 1, 2), call(make(4, 5), -1, -3, 2), call(make(4), 0, 4, 0)],
        _narrow,
        (
            Error(lambda make: call(make(4), 0, 2, 3), RuntimeError, "exceeds dimension size"),
            Error(lambda make: call(make(4), 0, 0, -1), RuntimeError, "non-negative"),
            Error(lambda make: call(make(4), 0, 5, 0), IndexError),
            Error(lambda make: call(make(), 0, 0, 1), RuntimeError, "0-dim"),
        ),
    ),
    _view("Tensor.narrow", lambda make: [call(make(4, 5), 1, 1, 2), call(make(4), 0, np.array(1), 2)], _narrow),
    Record(
        "narrow_copy",
        lambda make: [call(make(4, 5), 0, 1, 2), call(make(4, 5), 1, 3, 2)],
        _narrow,
        DTYPES,
        (Error(lambda make: call(make(4), 0, 2, 3), RuntimeError),),
    ),
    _view(
        "split",
        lambda make: [
            call(make(5, 4), 2),
            call(make(5, 4), [1, 3], 1),
            call(make(5, 4), 4, -1),
            call(make(5), [0, 5]),
            call(make(0, 2), 0),
        ],
        lambda x, size, dim=0: _split(x, size, dim) if size else [x],
        (
            Error(lambda make: call(make(5), [2, 2]), RuntimeError, "sum exactly to 5"),
            Error(lambda make: call(make(5), [-1, 6]), RuntimeError, "non-negative"),
            Error(lambda make: call(make(5), -1), RuntimeError, "non-negative"),
            Error(lambda make: call(make(5), 0), RuntimeError, "split_size can only be 0"),
            Error(lambda make: call(make(), 1), RuntimeError, "at least a 1-dimensional tensor"),
            Error(lambda make: call(make(5), 1, 1), IndexError, RANGE),
        ),
    ),
    _view("Tensor.split", lambda make: [call(make(5, 4), 2), call(make(5, 4), [1, 3], 1), call(make(5, 4), [1, 3], dim=-1)], _split),
    _view(
        "split_with_sizes",
        lambda make: [call(make(5, 4), [2, 3]), call(make(5, 4), [1, 1, 2], -1)],
        _split,
        (Error(lambda make: call(make(5), [1]), RuntimeError, "sum exactly"),),
    ),
    _view(
        "chunk",
        lambda make: [call(make(5, 4), 2), call(make(5, 4), 3, 1), call(make(5, 4), 9), call(make(0, 4), 3)],
        _chunk,
        (
            Error(lambda make: call(make(5), 0), RuntimeError, "greater than 0"),
            Error(lambda make: call(make(), 1), RuntimeError, "at least a 1-dimensional tensor"),
        ),
    ),
    _view(
        "tensor_split",
        lambda make: [
            call(make(7, 4), 3),
            call(make(7, 4), (2, 5)),
            call(make(7, 4), [3, 1], 1),
            call(make(7), (-3, 9)),
            call(make(2), 4),
            call(make(7), np.array([2, 5])),
            call(make(7), np.array(3)),
        ],
        lambda x, cuts, dim=0: np.array_split(x, cuts.tolist() if isinstance(cuts, np.ndarray) else cuts, dim),
        (
            Error(lambda make: call(make(4), 0), RuntimeError, "must be larger than 0"),
            Error(lambda make: call(make(), 1), RuntimeError, "at least a 1-dimensional tensor"),
        ),
    ),
    _view(
        "hsplit",
        lambda make: [*_pieces_of_cube(make), call(make(4), 2)],
        np.hsplit,
        (
            Error(lambda make: call(make(2, 5), 2), RuntimeError, "not divisible"),
            Error(lambda make: call(make(), 1), RuntimeError, "at least 1 dimension"),
        ),
    ),
    _view(
        "vsplit",
        _pieces_of_cube,
        np.vsplit,
        (Error(lambda make: call(make(3), 1), RuntimeError, "at least 2 dimension"),),
    ),
    _view(
        "dsplit",
        _pieces_of_cube,
        np.dsplit,
        (Error(lambda make: call(make(3, 2), 1), RuntimeError, "at least 3 dimension"),),
    ),
    _view(
        "unbind",
        lambda make: [call(make(3, 4)), call(make(3, 4), 1), call(make(2, 3, 4), -2), call(make(3))],
        lambda x, dim=0: list(np.moveaxis(x, dim, 0)) if x.ndim > 1 else [np.array(item) for item in x],
        (
            Error(lambda make: call(make()), IndexError, "tensor has no dimensions"),
            Error(lambda make: call(make(3), 1), IndexError, RANGE),
        ),
    ),
]

STRIDES = [
    _view(
        "as_strided",
        lambda make: [
            call(make(3, 4), (2, 2), (5, 1)),
            call(make(3, 4), (2, 3), (1, 2), 3),
            call(make(3, 4), (3, 3), (0, 1)),
            call(make(3, 4), (4, 3), (1, 1)),
            call(make(12), (2,), (7,), 2),
            call(make(3, 4), (), (), 5),
        ],
        _strided,
        (
            Error(lambda make: call(make(3, 4), (3, 5), (4, 1)), RuntimeError, "out of bounds for storage"),
            Error(lambda make: call(make(3, 4), (2,), (-1,)), RuntimeError, "Negative strides"),
            Error(lambda make: call(make(3, 4), (2,), (1, 1)), RuntimeError, "mismatch in length"),
        ),
    ),
    _view(
        "as_strided_",
        lambda make: [call(make(3, 4), (2, 2), (5, 1)), call(make(3, 4), (2, 3), (1, 2), 3)],
        _strided,
        (Error(lambda make: call(make(3, 4), (3, 5), (4, 1)), RuntimeError, "out of bounds for storage"),),
        gradient=False,
        notes="works on the tensor itself",
    ),
    _view(
        "Tensor.unfold",
        lambda make: [call(make(7), 0, 3, 2), call(make(3, 5), 1, 2, 1), call(make(5, 3), -2, 5, 1), call(make(), 0, 1, 1)],
        _unfold,
        (
            Error(lambda make: call(make(3), 0, 4, 1), RuntimeError, "maximum size for tensor"),
            Error(lambda make: call(make(3), 0, 2, 0), RuntimeError, "must be > 0"),
            Error(lambda make: call(make(3), 1, 2, 1), IndexError, RANGE),
        ),
    ),
    _view(
        "diagonal",
        lambda make: [
            call(make(3, 4)),
            call(make(3, 4), 1),
            call(make(3, 4), -2),
            call(make(3, 4), 4),
            call(make(2, 3, 4), 1, 2, 0),
            call(make(2, 3, 4), 0, -1, -2),
        ],
        np.diagonal,
        (
            Error(lambda make: call(make(3, 3), 0, 1, -1), RuntimeError, "diagonal dimensions cannot be identical"),
            Error(lambda make: call(make(3)), IndexError, RANGE),
        ),
    ),
    _view(
        "view_as_real",
        lambda make: [call(make(3, 4)), call(make())],
        lambda x: np.stack([x.real, x.imag], -1),
        (Error(lambda make: call(make(3)), RuntimeError, "only supported for complex tensors"),),
        dtypes=("complex64", "complex128", "float32"),
    ),
    _view(
        "view_as_complex",
        lambda make: [call(make(3, 2)), call(make(2)), call(make(2, 3, 2))],
        lambda x: x[..., 0] + 1j * x[..., 1],
        (
            Error(lambda make: call(make(3, 3)), RuntimeError, "last dimension of size 2"),
            Error(lambda make: call(make(2, 3).T), RuntimeError, "last dimension with stride 1"),
            Error(lambda make: call(make(2, 2)), RuntimeError, "only supported for", "int64"),
        ),
        dtypes=("float32", "float64"),
    ),
    *(
        _view(
            f"atleast_{number}d",
            lambda make: [
                call(make()),
                call(make(3)),
                call(make(3, 4)),
                call(make(2, 3, 4)),
                call((make(), make(2))),
                call(make(), make(2)),
            ],
            lambda *x, number=number: _at_least(number)(*(x[0] if isinstance(x[0], tuple) else x)),
        )
        for number in (1, 2, 3)
    ),
]

RECORDS = [*SHAPES, *ORDERS, *EXPANSIONS, *PARTS, *STRIDES]
