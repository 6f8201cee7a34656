"""Records of operations under the names of PyTorch's kernels, and of losses whose reduction is a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import loss
from .record import Error, Record, call
from .references import REFERENCES

F = "nn.functional."
FLOATS = ("float32", "float64", "bfloat16")


def _normed(x: Any, axes: tuple[int, ...], weight: Any, bias: Any, shape: Any, eps: float) -> tuple[Any, Any, Any]:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    scale = 1 / np.sqrt(variance + eps)
    result = (x - mean) * scale
    result = result if weight is None else result * weight.reshape(shape)
    return (result if bias is None else result + bias.reshape(shape)), mean, scale


def _layer(x: Any, sizes: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _normed(x, tuple(range(-len(sizes), 0)), weight, bias, sizes, eps)


def _group(x: Any, weight: Any, bias: Any, n: int, c: int, area: int, group: int, eps: float) -> Any:
    result, mean, scale = _normed(x.reshape(n, group, c // group, area), (2, 3), weight, bias, (1, group, c // group, 1), eps)
    return result.reshape(x.shape), mean.reshape(n, group), scale.reshape(n, group)


def _batch(x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float) -> Any:
    ones = (1, -1, *(1,) * (x.ndim - 2))
    if training:
        result, mean, scale = _normed(x, (0, *range(2, x.ndim)), weight, bias, ones, eps)
        return result, mean.reshape(-1), scale.reshape(-1)
    result = (x - mean.reshape(ones)) / np.sqrt(var.reshape(ones) + eps) * weight.reshape(ones) + bias.reshape(ones)
    return result, np.empty(0, x.dtype), np.empty(0, x.dtype)


def _bags(table: Any, indices: Any, offsets: Any, scale: bool = False, mode: int = 0, *rest: Any) -> Any:
    parts = np.split(np.arange(indices.size), offsets[1:])
    reduce = (lambda rows: rows.sum(0), lambda rows: rows.mean(0), lambda rows: rows.max(0))[mode]
    values = np.stack([reduce(table[indices[part]]) if part.size else np.zeros_like(table[0]) for part in parts])
    sizes = np.array([part.size for part in parts])
    bag = np.arange(len(parts)).repeat(sizes)
    if mode == 0:
        return values, bag if table.dtype == np.float64 else bag[:0], sizes * 0, sizes * 0
    if mode == 1:
        return values, bag, sizes, sizes
    rows = [indices[part][table[indices[part]].argmax(0)] if part.size else np.zeros(table.shape[1], np.int64) for part in parts]
    return values, bag, sizes, np.stack(rows)


def _bag_samples(make: Any) -> list:
    indices, offsets = np.array([1, 2, 2, 5, 0]), np.array([0, 2, 2, 3])
    return [call(make(6, 3), indices, offsets, False, mode) for mode in (0, 1, 2)]


def _chunks(tensors: Any, dim: int, count: int) -> Any:
    rows = []
    for x in tensors:
        dim %= x.ndim
        padded = np.pad(x, [(0, 0)] * dim + [(0, -x.shape[dim] % count)] + [(0, 0)] * (x.ndim - dim - 1))
        rows.append(padded.reshape(*x.shape[:dim], count, -1))
    return np.concatenate(rows, dim + 1)


def _sliced(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[(slice(None),) * dim + (slice(start, end, step),)]


def _convolved(x: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    x = np.pad(x, ((pad, pad), (0, 0), (0, 0)))
    width = weight.shape[0]
    return np.stack([np.einsum("wbi,wio->bo", x[t : t + width], weight) + bias for t in range(len(x) - width + 1)])


def _scattered(grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Any) -> Any:
    result = np.zeros((*x.shape[:-2], x.shape[-2] * x.shape[-1]), grad.dtype)
    for lead in np.ndindex(*x.shape[:-2]):
        np.add.at(result[lead], indices[lead].reshape(-1), grad[lead].reshape(-1))
    return result.reshape(x.shape)


def _numbered(name: str) -> Record:
    """The record of a loss at top level: the functional's first samples, with each reduction as a number."""
    model = next(record for record in loss.RECORDS if record.name == F + name)
    words = {"none": 0, "mean": 1, "sum": 2}

    def samples(make: Any) -> list:
        args = next(iter(model.samples(make))).args[:3]
        if name in ("kl_div", "hinge_embedding_loss", "binary_cross_entropy_with_logits"):
            args = args[:2]
        if name == "poisson_nll_loss":
            return [call(*args[:2], True, False, 1e-8, number) for number in words.values()]
        return [call(*args, reduction=number) for number in words.values()]

    def reference(*args: Any, reduction: int = 1) -> Any:
        if name == "poisson_nll_loss":
            args, reduction = args[:2], args[5]
        word = {number: word for word, number in words.items()}[reduction]
        return (model.reference or REFERENCES[F + name])(*args, reduction=word)

    return Record(name, samples, reference, FLOATS, gradient=model.gradient, notes=model.notes)


_MASK = np.array([[True, False], [True, True]])
_PLACES = [np.array([[0], [2]]), np.array([[1, 5]])]


RECORDS = [
    Record(
        "native_layer_norm",
        lambda make: [call(make(2, 3, 4), (3, 4), make(3, 4), make(3, 4), 0.1), call(make(2, 4), (4,), None, None, 0.5)],
        _layer,
        FLOATS,
        (Error(lambda make: call(make(2, 4), (3,), None, None, 1e-5), RuntimeError, "normalized_shape"),),
    ),
    Record(
        "native_group_norm",
        lambda make: [call(make(2, 6, 4), make(6), make(6), 2, 6, 4, 3, 1e-5), call(make(2, 4), None, None, 2, 4, 1, 2, 0.5)],
        _group,
        FLOATS,
        (Error(lambda make: call(make(2, 6, 4), None, None, 2, 6, 4, 4, 1e-5), RuntimeError, "divisible by num_groups"),),
    ),
    Record(
        "native_batch_norm",
        lambda make: [
            call(make(4, 3, 2), make(3), make(3), make(3), make(3, low=0.5), True, 0.1, 1e-5),
            call(make(4, 3), make(3), make(3), make(3), make(3, low=0.5), False, 0.1, 1e-5),
        ],
        _batch,
        FLOATS,
        gradient=False,
        notes="the running moments change with each call; derivatives are those of nn.functional.batch_norm",
    ),
    Record(
        "batch_norm_update_stats",
        lambda make: [call(make(4, 3, 2), None, None, 0.1)],
        lambda x, *rest: (x.mean((0, 2)), x.var((0, 2))),
        FLOATS,
        gradient=False,
    ),
    Record(
        "embedding_bag",
        _bag_samples,
        _bags,
        FLOATS,
        (Error(lambda make: call(make(6, 3), np.array([1]), np.array([0]), False, 3), RuntimeError, "must be sum, mean, or max"),),
        gradient=False,
        layout_free=False,
        widened=False,
        notes="derivatives are those of nn.functional.embedding_bag; PyTorch leaves places out for some layouts only",
    ),
    Record(
        "hash_tensor",
        lambda make: [call(make(3, 4)), call(make(3, 4), 1), call(make(3, 4), (0, 1), keepdim=True)],
        lambda x, dim=(), *, keepdim=False: np.bitwise_xor.reduce(
            x.astype(np.int64 if x.dtype.kind in "biu" else np.float64).view(np.uint64), axis=dim or None, keepdims=keepdim
        ),
        ("float32", "float64", "bfloat16", "int64", "bool"),
        (
            Error(lambda make: call(make(3), mode=1), RuntimeError, "Unknown hash_tensor mode"),
            Error(lambda make: call(make(0)), RuntimeError, "reduction dim to be specified"),
            Error(lambda make: call(make(0, 2), 0), IndexError, "non-zero size"),
            Error(lambda make: call(make(3)), NotImplementedError, "xor_sum_cpu", dtype="complex64"),
        ),
        gradient=False,
    ),
    Record(
        "empty_permuted",
        lambda make: [call((0, 3), (1, 0))],
        lambda size, order: np.empty(size),
        ("float32",),
        (
            Error(lambda make: call((2, 3), (1,)), RuntimeError, "Number of dimensions"),
            Error(lambda make: call((2, 3), (0, 2)), RuntimeError, "out of range"),
            Error(lambda make: call((2, 3), (0, 0)), RuntimeError, "Duplicate dim"),
        ),
        gradient=False,
    ),
    Record(
        "conv_tbc",
        lambda make: [call(make(5, 2, 3), make(2, 3, 4), make(4), 1), call(make(3, 1, 2), make(3, 2, 1), make(1))],
        _convolved,
        ("float32", "float64"),
        (
            Error(lambda make: call(make(5, 2), make(2, 3, 4), make(4)), RuntimeError, "Input must have 3 dims"),
            Error(lambda make: call(make(5, 2, 2), make(2, 3, 4), make(4)), RuntimeError, "input channels"),
        ),
    ),
    Record(F + "conv_tbc", lambda make: [call(make(5, 2, 3), make(2, 3, 4), make(4), 1)], _convolved, ("float32",)),
    Record(
        "frobenius_norm",
        lambda make: [call(make(3, 4), 1), call(make(3, 4), (0, 1), True)],
        lambda x, dim, keepdim=False: np.sqrt(np.sum(np.abs(x) ** 2, axis=dim, keepdims=keepdim)),
        ("float32", "float64", "complex64"),
    ),
    Record(
        "nuclear_norm",
        lambda make: [call(make(3, 4)), call(make(2, 3, 3), (1, 2), True)],
        lambda x, dim=(0, 1), keepdim=False: np.linalg.norm(x, "nuc", axis=dim, keepdims=keepdim),
        ("float32", "float64", "complex64"),
        expanded=False,
    ),
    Record(
        "max_pool1d_with_indices",
        lambda make: [call(make(2, 3, 6), 2)],
        lambda x, kernel: (x.reshape(2, 3, 3, 2).max(-1), x.reshape(2, 3, 3, 2).argmax(-1) + 2 * np.arange(3)),
        FLOATS,
    ),
    Record(
        "ops.aten.max_pool2d_with_indices_backward",
        lambda make: [call(make(1, 2, 2, 2), make(1, 2, 3, 3), 2, 1, 0, 1, False, np.array([[[[0, 1], [4, 4]], [[0, 2], [8, 4]]]]))],
        _scattered,
        ("float32", "float64"),
    ),
    Record(
        "ops.aten.native_dropout_backward",
        lambda make: [call(make(2, 2), _MASK, 2.0)],
        lambda grad, mask, scale: grad * mask * scale,
        FLOATS,
    ),
    Record("ops.aten.slice", lambda make: [call(make(5, 4)), call(make(5, 4), 1, 1, -1, 2)], _sliced, is_view=True),
    Record(
        "slice_inverse",
        lambda make: [call(make(3, 4), make(2, 2), 0, 1, 3)],
        lambda x, src, *_: x.reshape(-1)[:4].reshape(2, 2),
        is_view=True,
        layout_free=False,
        gradient=False,
        notes="the derivative is as_strided's",
    ),
    Record("is_distributed", lambda make: [call(make(2))], lambda x: False, ("float32",), gradient=False),
    Record(
        "_unsafe_masked_index",
        lambda make: [call(make(3, 4), _MASK, _PLACES, 7)],
        lambda x, mask, places, fill: np.where(mask, x[[[0], [2]], [[1, 3]]], np.asarray(fill, x.dtype)),
    ),
    Record("_chunk_cat", lambda make: [call([make(2, 3), make(2, 4, 2)], 1, 2), call([make(5)], -1, 2)], _chunks, gradient=False),
    *map(
        _numbered,
        (
            "binary_cross_entropy_with_logits",
            "kl_div",
            "poisson_nll_loss",
            "hinge_embedding_loss",
            "margin_ranking_loss",
            "cosine_embedding_loss",
            "triplet_margin_loss",
        ),
    ),
    *[
        Record(
            f"Tensor.{name}",
            lambda make: [call(make(2))],
            unreferenced="must refuse its samples: there is no such device, or it was removed",
            dtypes=("float32",),
            rejects={"float32": (error, None)},
            gradient=False,
        )
        for name, error in (("xpu", AssertionError), ("ipu", RuntimeError), ("mtia", AssertionError))
    ],
    Record(
        "Tensor.reinforce",
        lambda make: [call(make(2), 1.0)],
        unreferenced="must refuse its samples: it was removed",
        dtypes=("float32",),
        rejects={"float32": (RuntimeError, None)},
        gradient=False,
    ),
    Record(
        "Tensor.dim_order",
        lambda make: [call(make(2, 3))],
        lambda x, **_: (0, 1),
        ("float32",),
        (
            Error(lambda make: call(make(2, 1), ambiguity_check=True), RuntimeError, "unique dim order"),
            Error(lambda make: call(make(2), ambiguity_check=3), TypeError, "must be a bool"),
        ),
        gradient=False,
        layout_free=False,
    ),
    Record("Tensor.const_data_ptr", lambda make: [call(make(0))], lambda x: 0, ("float32",), gradient=False),
    Record(
        "Tensor.resize_as",
        lambda make: [call(make(2, 3), make(3, 2))],
        lambda x, other: x.reshape(other.shape),
        ("float32",),
        is_view=True,
    ),
    Record(
        "Tensor.map2_",
        lambda make: [call(make(2), make(2), make(2), lambda a, b, c: a + b * c)],
        lambda x, y, z, f: x + y * z,
        ("float32", "float64"),
        gradient=False,
        is_view=True,
    ),
]
