"""Records of pooling, un-pooling and normalization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .record import Error, Record, call

F = "nn.functional."
FLOATS = ("float32", "float64", "bfloat16")  # the first two where PyTorch has no bfloat16 kernel, or chooses windows in it
REAL = (*FLOATS, "int64")


def _distinct(make: Any, *shape: int) -> np.ndarray:
    """Numbers that are all different, so that each window has one maximum."""
    count = int(np.prod(shape))
    return (make.rng.permutation(count).reshape(shape) - count // 2).astype(make(1).dtype)


def _windows(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, rank: int, value: Any) -> Any:
    """Windows as a last dimension, by their definition."""
    kernel = np.broadcast_to(kernel, rank)
    stride = kernel if stride is None or stride == () else np.broadcast_to(stride, rank)
    padding, dilation = np.broadcast_to(padding, rank), np.broadcast_to(dilation, rank)
    sizes = []
    for n, k, s, p, d in zip(x.shape[-rank:], kernel, stride, padding, dilation):
        span = n + 2 * p - d * (k - 1) - 1
        count = -(-span // s) + 1 if ceil_mode else span // s + 1
        sizes.append(count - 1 if ceil_mode and (count - 1) * s >= n + p else count)
    far = int(np.max(kernel * dilation)) + int(np.max(stride))
    x = np.pad(x, [(0, 0)] * (x.ndim - rank) + [(p, p + far) for p in padding], constant_values=value)
    result = np.empty((*x.shape[:-rank], *sizes, int(np.prod(kernel))), x.dtype)
    for at in np.ndindex(*sizes):
        part = x[(..., *[slice(i * s, i * s + d * (k - 1) + 1, d) for i, s, d, k in zip(at, stride, dilation, kernel)])]
        result[(..., *at, slice(None))] = part.reshape(*x.shape[:-rank], int(np.prod(kernel)))
    return result


def _max(rank: int) -> Callable[..., Any]:
    def reference(x: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return _windows(x, kernel, stride, padding, dilation, ceil_mode, rank, least).max(-1)

    return reference


def _mean(rank: int) -> Callable[..., Any]:
    def reference(x: Any, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, divisor_override: Any = None) -> Any:
        columns = _windows(x, kernel, stride, padding, 1, ceil_mode, rank, 0)
        total = columns.sum(-1) / (divisor_override or columns.shape[-1])
        return total if x.dtype.kind == "f" else np.trunc(total).astype(x.dtype)

    return reference


def _max_samples(rank: int) -> Callable[[Any], list]:
    size = (7, 6, 5)[:rank]
    return lambda make: [
        call(_distinct(make, 2, 3, *size), 2),
        call(_distinct(make, 2, 3, *size), 3, 2, 1),
        call(_distinct(make, 3, *size), 2, 1, 0, 2),
        call(_distinct(make, 2, 3, *size), (2,) * rank, ceil_mode=True),
        call(_distinct(make, 0, 3, *size), 2),
    ]


def _indexed_samples(rank: int) -> Callable[[Any], list]:
    size = (7, 6, 5)[:rank]
    return lambda make: [call(_distinct(make, 2, 3, *size), 2), call(_distinct(make, 3, *size), 3, 2, 1, ceil_mode=True)]


def _mean_samples(rank: int) -> Callable[[Any], list]:
    size = (7, 6, 5)[:rank]
    return lambda make: [
        call(make(2, 3, *size), 2),
        call(make(2, 3, *size), 3, 2, 1),
        call(make(3, *size), 3, 1),
        call(make(0, 3, *size), 2),
    ]


def _pool_errors(rank: int) -> tuple[Error, ...]:
    size = (4,) * rank
    return (
        Error(lambda make: call(make(2, 3, *size), 9), RuntimeError),
        Error(lambda make: call(make(2, 3, *size), 2, padding=2), RuntimeError),
        Error(lambda make: call(make(2, 3, *size), 0), RuntimeError),
    )


def _bins(x: Any, sizes: Any, rank: int, reduce: Any) -> Any:
    sizes = [n if s is None else s for s, n in zip(sizes if isinstance(sizes, (tuple, list)) else (sizes,) * rank, x.shape[-rank:])]
    for axis, count in enumerate(sizes, x.ndim - rank):
        n = x.shape[axis]
        parts = [reduce(x.take(range(k * n // count, -(-(k + 1) * n // count)), axis), axis) for k in range(count)]
        x = np.stack(parts, axis)
    return x


def _adaptive_samples(rank: int) -> Callable[[Any], list]:
    size = (7, 6, 5)[:rank] if rank < 3 else (5, 4, 3)  # finite differences take two calls an element
    sizes = [3, 1, (5,) * rank] if rank == 1 else [3, 1, (5, None, 2)[:rank]]
    return lambda make: [call(_distinct(make, 2, 3, *size), output_size) for output_size in sizes] + [call(_distinct(make, 3, *size), 2)]


def _unpool_samples(rank: int) -> Callable[[Any], list]:
    size = (3, 2, 2)[:rank]

    def samples(make: Any) -> list:
        count, area = int(np.prod(size)), int(np.prod([2 * n for n in size]))
        places = np.stack([make.rng.permutation(area)[:count] for _ in range(6)]).reshape(2, 3, *size)
        return [
            call(make(2, 3, *size), places, 2),
            call(make(3, *size), places[0], 2, 2),
            call(make(2, 3, *size), places, 2, output_size=[2 * n + 1 for n in size]),
        ]

    return samples


def _fractional_samples(rank: int) -> Callable[[Any], list]:
    size = (7, 6, 8)[:rank]
    return lambda make: [
        call(_distinct(make, 2, 3, *size), 2, output_size=3),
        call(_distinct(make, 2, 3, *size), 2, output_ratio=(0.6,) * rank),
    ]


# -- normalization ------------------------------------------------------------------------------------------------------------
def _standard(x: Any, axes: Any, eps: float = 1e-5) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    shape = (-1, *(1,) * (x.ndim - 2))
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def _batch_norm(
    x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5
) -> Any:
    if training:
        return _affine(_standard(x, (0, *range(2, x.ndim)), eps), weight, bias)
    shape = (-1, *(1,) * (x.ndim - 2))
    return _affine((x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + eps), weight, bias)


def _batch_samples(make: Any) -> list:
    moments = (make(3), make(3, low=0.5, high=2))
    return [
        call(make(4, 3, 5), *moments, make(3), make(3)),
        call(make(4, 3, 5), *moments, make(3), make(3), True),
        call(make(4, 3, 2, 3), None, None, make(3), None, True, 0.3, 1e-3),
        call(make(6, 3), None, None, training=True),
        call(make(2, 3, 2, 2, 2), *moments),
    ]


def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    result = _standard(x, tuple(range(-len(shape), 0)), eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def _group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return _affine(_standard(x.reshape(x.shape[0], groups, -1), 2, eps).reshape(x.shape), weight, bias)


def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    eps = np.finfo(x.dtype).eps if eps is None else eps
    result = x / np.sqrt((x * x).mean(tuple(range(-len(shape), 0)), keepdims=True) + eps)
    return result if weight is None else result * weight


def _instance_norm(x: Any, mean: Any = None, var: Any = None, weight: Any = None, bias: Any = None) -> Any:
    return _affine(_standard(x, tuple(range(2, x.ndim))), weight, bias)


def _response(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    squares = np.pad(x * x, [(0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (x.ndim - 2)])
    sums = sum(squares[:, at : at + x.shape[1]] for at in range(size))
    return x / (k + alpha * sums / size) ** beta


def _layer_samples(make: Any) -> list:
    return [
        call(make(2, 3, 4), (4,), make(4), make(4)),
        call(make(2, 3, 4), [3, 4], make(3, 4), None, 1e-3),
        call(make(5), (5,)),
        call(make(0, 4), (4,)),
    ]


_LAYER_ERRORS = (
    Error(lambda make: call(make(2, 3), (4,)), RuntimeError, "Given normalized_shape"),
    Error(lambda make: call(make(2, 3), ()), RuntimeError, "at least 1-dimensional"),
    Error(lambda make: call(make(2, 3), 3), TypeError),
    Error(lambda make: call(make(2, 3), (3,), make(2)), RuntimeError, "weight"),
)
_GROUP_ERRORS = (
    Error(lambda make: call(make(2, 3, 2), 2), RuntimeError, "divisible by num_groups"),
    Error(lambda make: call(make(2, 4, 2), 2, make(3)), RuntimeError, "Expected weight"),
)


def _flags(samples: Any, reorder: Any) -> Any:
    """Samples of ``torch.batch_norm`` and the like, whose arguments are all positional and in another order."""
    return lambda make: [call(*reorder(*sample.args)) for sample in samples(make)]


def _group_samples(make: Any) -> list:
    return [call(make(2, 6, 3), 3, make(6), make(6)), call(make(2, 4, 2, 2), 2), call(make(2, 4), 1, make(4), None, 1e-3)]


RECORDS = [
    *[
        record
        for rank in (1, 2, 3)
        for record in (
            Record(F + f"max_pool{rank}d", _max_samples(rank), _max(rank), FLOATS if rank == 1 else REAL, _pool_errors(rank)),
            Record(f"max_pool{rank}d", _max_samples(rank), _max(rank), FLOATS if rank == 1 else REAL, _pool_errors(rank)),
            Record(F + f"max_pool{rank}d_with_indices", _indexed_samples(rank), None, FLOATS),
            Record(F + f"avg_pool{rank}d", _mean_samples(rank), _mean(rank), FLOATS[:2], _pool_errors(rank)),
            Record(
                F + f"adaptive_avg_pool{rank}d",
                _adaptive_samples(rank),
                lambda x, s, r=rank: _bins(x, s, r, lambda y, a: y.mean(a)),
                FLOATS,
                (),
            ),
            Record(
                F + f"adaptive_max_pool{rank}d", _adaptive_samples(rank), lambda x, s, r=rank: _bins(x, s, r, lambda y, a: y.max(a)), FLOATS
            ),
            Record(F + f"adaptive_max_pool{rank}d_with_indices", _adaptive_samples(rank), None, FLOATS),
            Record(
                F + f"lp_pool{rank}d",
                lambda make, r=rank: [call(make(2, 3, *(5,) * r, low=0.5), 2, 2), call(make(3, *(5,) * r, low=0.5), 3.0, 3, 1)],
                lambda x, p, k, s=None, r=rank: (_windows(x, k, s, 0, 1, False, r, 0) ** p).sum(-1) ** (1 / p),
                FLOATS[:2],
                (),
            ),
            Record(F + f"max_unpool{rank}d", _unpool_samples(rank), None, FLOATS),
        )
    ],
    Record("avg_pool1d", _mean_samples(1), _mean(1), FLOATS, _pool_errors(1)),
    Record("adaptive_avg_pool1d", _adaptive_samples(1), lambda x, s: _bins(x, s, 1, lambda y, a: y.mean(a)), FLOATS, ()),
    Record("adaptive_max_pool1d", _adaptive_samples(1), None, FLOATS),
    *[
        Record(F + f"fractional_max_pool{rank}d{word}", _fractional_samples(rank), None, FLOATS[:2], random=True)
        for rank in (2, 3)
        for word in ("", "_with_indices")
    ],
    Record(
        F + "batch_norm",
        _batch_samples,
        _batch_norm,
        FLOATS,
        (
            Error(lambda make: call(make(2, 3, 2), None, None), RuntimeError, "must be defined in evaluation mode"),
            Error(lambda make: call(make(1, 3), None, None, training=True), ValueError, "more than 1 value per channel"),
            Error(lambda make: call(make(2, 3), make(4), make(4)), RuntimeError, "should contain 3 elements not 4"),
            Error(lambda make: call(make(2, 3), make(3), None, training=True), ValueError, "both be None"),
        ),
        gradient=False,
        notes="the running moments cannot be differentiated; test_neural_operations checks the others",
    ),
    Record(
        "batch_norm",
        _flags(_batch_samples, lambda x, m, v, w=None, b=None, t=True, a=0.1, e=1e-5: (x, w, b, m, v, t, a, e, False)),
        None,
        FLOATS,
        (),
        gradient=False,
        notes="as for nn.functional.batch_norm",
    ),
    Record(
        F + "instance_norm",
        lambda make: [call(make(2, 3, 4), None, None, make(3), make(3)), call(make(2, 3, 2, 3))],
        _instance_norm,
        FLOATS,
        (
            Error(lambda make: call(make(2, 3, 1)), ValueError, "more than 1 spatial element"),
            Error(lambda make: call(make(2, 3, 4), use_input_stats=False), RuntimeError, "to be defined"),
        ),
    ),
    Record("instance_norm", lambda make: [call(make(2, 3, 4), make(3), make(3), None, None, True, 0.1, 1e-5, False)], None, FLOATS, ()),
    *[Record(space + "layer_norm", _layer_samples, _layer_norm, FLOATS, _LAYER_ERRORS) for space in ("", F)],
    *[Record(space + "group_norm", _group_samples, _group_norm, FLOATS, _GROUP_ERRORS) for space in ("", F)],
    *[
        Record(
            space + "rms_norm",
            lambda make: [call(make(2, 3, 4), (4,), make(4)), call(make(2, 3, 4), [3, 4], None, 1e-3)],
            _rms_norm,
            FLOATS,
            (
                Error(lambda make: call(make(2, 3), (4,)), RuntimeError, "Given normalized_shape"),
                Error(lambda make: call(make(3), (2, 3)), ValueError, "at least 2 dimensions"),
            ),
        )
        for space in ("", F)
    ],
    Record(
        F + "local_response_norm",
        lambda make: [call(make(1, 5, 1), 2), call(make(1, 5, 1, 1), 3, 0.5, 0.6, 2.0)],
        _response,
        FLOATS[:2],
        (Error(lambda make: call(make(2, 3), 2), ValueError, "3D or higher"),),
    ),
    Record(
        F + "normalize",
        lambda make: [call(make(2, 3)), call(make(4, 3), 3.0, 0), call(make(2, 3), 1.0, -1, 1e-3)],
        lambda x, p=2.0, dim=1, eps=1e-12: x / np.maximum((np.abs(x) ** p).sum(dim, keepdims=True) ** (1 / p), eps),
        FLOATS,
        (),
    ),
]
