"""Rows of losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import row
from .indexing import _wider
from .reductions import _reduce, vector_norm

_WORDS = ("none", "mean", "sum")


def _reduced(b: Builder, losses: Value, reduction: int) -> Value:
    return losses if not reduction else _reduce(b, ("ReduceMean", "ReduceSum")[reduction - 1], losses, None, False)


@row("mse_loss")
def _mse_loss(b: Builder, x: Value, target: Value, reduction: int = 1) -> Value:
    difference = b.op("Sub", x, target)
    return _reduced(b, b.op("Mul", difference, difference), reduction)


@row("l1_loss")
def _l1_loss(b: Builder, x: Value, target: Value, reduction: int = 1) -> Value:
    return _reduced(b, b.op("Abs", b.op("Sub", x, target)), reduction)


def _soft_cross_entropy(
    b: Builder, x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int, smoothing: float
) -> Value:
    """With probabilities, or with smoothed labels: the sum of products with the logarithms."""
    axis = 1 if x.rank > 1 else 0
    classes = x.size(axis)
    if weight is not None or classes is None or ignore_index >= 0:
        raise SymbolicValueError(
            "cross_entropy of this kind with weights, ignored classes or a symbolic number of them is not supported", x
        )
    if not target.dtype.is_floating_point:
        values = b.constant([0, 1], x.dtype)
        target = b.op("OneHot", target, b.ints([classes]), values, axis=axis, dtype=x.dtype, shape=x.shape)
    if smoothing:
        target = b.op("Mul", target, b.constant(1 - smoothing, x.dtype))
        target = b.op("Add", target, b.constant(smoothing / classes, x.dtype))
    products = b.op("Mul", b.op("LogSoftmax", x, axis=axis), target)
    shape = [size for d, size in enumerate(x.shape) if d != axis]
    losses = b.op("Neg", b.op("ReduceSum", products, b.ints([axis]), keepdims=0, shape=shape))
    return _reduced(b, losses, reduction)


@row("kl_div")
def _kl_div(b: Builder, x: Value, target: Value, reduction: int = 1, *, log_target: bool = False) -> Value:
    if log_target:
        losses = b.op("Mul", b.op("Exp", target), b.op("Sub", target, x))
    else:
        zero = b.constant(0, x.dtype)
        entropy = b.op(
            "Where", b.op("Equal", target, zero, dtype=dtypes.bool_), zero, b.op("Mul", target, b.op("Log", target)), dtype=x.dtype
        )
        losses = b.op("Sub", entropy, b.op("Mul", target, x))
    losses.shape = x.shape
    return _reduced(b, losses, reduction)


@row("soft_margin_loss")
def _soft_margin_loss(b: Builder, x: Value, target: Value, reduction: int = 1) -> Value:
    return _reduced(b, b.op("Softplus", b.op("Neg", b.op("Mul", x, b.cast(target, x.dtype)))), reduction)


def _of_nothing(b: Builder, target: Value, dtype: Any, reduction: int) -> Value | None:
    """The loss of a batch without examples, for which onnxruntime's kernels fail; None of another one."""
    if not target.rank or target.shape[0].__class__ is not int or target.shape[0]:
        return None
    return b.constant(float("nan") if reduction == 1 else 0.0 if reduction else np.zeros(b.shape), dtype)


def _class_loss(b: Builder, kind: str, x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int) -> Value:
    """A loss of ONNX's that has classes; of one example too, which ONNX has as a batch."""
    nothing = _of_nothing(b, target, x.dtype, reduction)
    if nothing is not None:
        return nothing
    is_one = x.rank == 1
    if is_one:
        x, target = b.unsqueeze(x, [0]), b.op("Reshape", target, b.ints([1]), shape=(1,))
    shape = (1,) if is_one and not reduction else b.shape
    found: Value = b.op(kind, x, target, weight, reduction=_WORDS[reduction], ignore_index=ignore_index, shape=shape)
    return b.squeeze(found, [0]) if is_one and not reduction else found


@row("cross_entropy_loss")
def _cross_entropy(
    b: Builder,
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Value:
    if target.dtype.is_floating_point or label_smoothing:
        return _soft_cross_entropy(b, x, target, weight, reduction, ignore_index, label_smoothing)
    return _class_loss(b, "SoftmaxCrossEntropyLoss", x, target, weight, reduction, ignore_index)


@row("nll_loss", "nll_loss_nd", "nll_loss2d")
def _nll_loss(b: Builder, x: Value, target: Value, weight: Value | None = None, reduction: int = 1, ignore_index: int = -100) -> Value:
    return _class_loss(b, "NegativeLogLikelihoodLoss", x, target, weight, reduction, ignore_index)


@row("binary_cross_entropy_with_logits")
def _bce_with_logits(
    b: Builder, x: Value, target: Value, weight: Value | None = None, pos_weight: Value | None = None, reduction: int = 1
) -> Value:
    if pos_weight is None:
        losses = b.op("Sub", b.op("Softplus", x), b.op("Mul", x, target), shape=x.shape)
    else:
        one = b.constant(1, x.dtype)
        factor = b.op("Add", one, b.op("Mul", b.op("Sub", pos_weight, one), target, shape=x.shape), shape=x.shape)
        rest = b.op("Mul", b.op("Sub", one, target, shape=x.shape), x)
        losses = b.op("Add", rest, b.op("Mul", factor, b.op("Softplus", b.op("Neg", x))))
    return _reduced(b, losses if weight is None else b.op("Mul", losses, weight), reduction)


@row("smooth_l1_loss")
def _smooth_l1_loss(b: Builder, x: Value, target: Value, reduction: int = 1, beta: float = 1.0) -> Value:
    distance = b.op("Abs", b.op("Sub", x, target))
    if beta == 0:
        return _reduced(b, distance, reduction)
    near = b.op("Mul", b.op("Mul", distance, distance), b.constant(0.5 / beta, x.dtype))
    far = b.op("Sub", distance, b.constant(0.5 * beta, x.dtype))
    is_near = b.op("Less", distance, b.constant(beta, x.dtype), dtype=dtypes.bool_)
    return _reduced(b, b.op("Where", is_near, near, far, dtype=x.dtype), reduction)


@row("huber_loss")
def _huber_loss(b: Builder, x: Value, target: Value, reduction: int = 1, delta: float = 1.0) -> Value:
    losses = _smooth_l1_loss(b, x, target, reduction, delta)
    return b.op("Mul", losses, b.constant(delta, x.dtype))


@row("binary_cross_entropy")
def _bce(b: Builder, x: Value, target: Value, weight: Value | None = None, reduction: int = 1) -> Value:
    least = b.constant(-100, x.dtype)
    one = b.constant(1, x.dtype)
    yes = b.op("Mul", target, b.op("Max", b.op("Log", x), least), shape=x.shape)
    no = b.op("Mul", b.op("Sub", one, target, shape=x.shape), b.op("Max", b.op("Log", b.op("Sub", one, x, shape=x.shape)), least))
    losses = b.op("Neg", b.op("Add", yes, no))
    return _reduced(b, losses if weight is None else b.op("Mul", losses, weight), reduction)


@row("triplet_margin_loss")
def _triplet_margin_loss(
    b: Builder,
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Value:
    def distance(x: Value, y: Value) -> Value:
        x, y = b.cast(x, b.dtype), b.cast(y, b.dtype)
        apart = b.op("Add", b.op("Sub", x, y, shape=_wider(x, y)), b.constant(eps, x.dtype))
        return vector_norm(b, apart, p, [-1], shape=apart.shape[:-1])

    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = b.op("Min", far, distance(positive, negative))
    losses = b.op("Relu", b.op("Add", b.op("Sub", near, far, shape=_wider(near, far)), b.constant(margin, b.dtype)))
    return _reduced(b, losses, reduction)


@row("multi_margin_loss")
def _multi_margin_loss(
    b: Builder, x: Value, target: Value, p: Any = 1, margin: Any = 1, weight: Value | None = None, reduction: int = 1
) -> Value:
    rows, target = (x, target) if x.rank == 2 else (_as_row(b, x), b.op("Reshape", target, b.ints([1]), shape=(1,)))
    classes = rows.size(1)
    if classes is None:
        raise SymbolicValueError("multi_margin_loss of a symbolic number of classes is not supported", x)
    column = b.unsqueeze(target, [1])
    right = b.op("GatherElements", rows, column, axis=1, shape=column.shape)
    over = b.op("Relu", b.op("Add", b.op("Sub", b.constant(margin, x.dtype), right, shape=right.shape), rows, shape=rows.shape))
    over = over if p == 1 else b.op("Mul", over, over)
    if weight is not None:
        over = b.op("Mul", over, b.op("Gather", weight, column, axis=0, shape=column.shape))
    is_right = b.op("Equal", column, b.ints(range(classes)), dtype=dtypes.bool_, shape=rows.shape)
    over = b.op("Where", is_right, b.constant(0, x.dtype), over, dtype=x.dtype)
    losses = b.op("Div", _reduce_rows(b, over), b.constant(classes, x.dtype))
    return _reduced(b, losses if x.rank == 2 or target.rank else b.squeeze(losses, [0]), reduction)


def _as_row(b: Builder, x: Value) -> Value:
    """A vector, or a number, as a matrix of one row."""
    return b.unsqueeze(x, [0] if x.rank else [0, 1])


def _reduce_rows(b: Builder, x: Value) -> Value:
    total: Value = b.op("ReduceSum", x, b.ints([1]), keepdims=0, shape=x.shape[:1])
    return total


@row("multilabel_margin_loss", "multilabel_margin_loss_forward")
def _multilabel_margin_loss(b: Builder, x: Value, target: Value, reduction: int = 1) -> Any:
    """Each class that is named before the first -1 against each that is not."""
    rows, named = (x, target) if x.rank == 2 else (_as_row(b, x), _as_row(b, target))
    classes = rows.size(1)
    if classes is None:
        raise SymbolicValueError("multilabel_margin_loss of a symbolic number of classes is not supported", x)
    zero, wide = b.constant(0, x.dtype), (rows.shape[0], classes, classes)
    ended = b.cast(b.op("Less", named, b.constant(0, dtypes.int64), dtype=dtypes.bool_), dtypes.int32)
    counts = b.op("Equal", b.op("CumSum", ended, b.constant(1, dtypes.int64)), b.constant(0, dtypes.int32), dtype=dtypes.bool_)
    same = b.op("Equal", b.unsqueeze(named, [2]), b.ints(range(classes)), dtype=dtypes.bool_, shape=wide)
    picked = b.cast(b.op("And", same, b.unsqueeze(counts, [2]), shape=wide), dtypes.int32)
    is_target = b.cast(b.op("ReduceMax", picked, b.ints([1]), keepdims=0, shape=rows.shape), dtypes.bool_)
    places = b.op("Max", named, b.constant(0, dtypes.int64))
    right = b.op("GatherElements", rows, places, axis=1)
    apart = b.op("Sub", b.unsqueeze(rows, [1]), b.unsqueeze(right, [2]), shape=wide)
    over = b.op("Relu", b.op("Add", apart, b.constant(1, x.dtype)))
    over = b.op("Where", b.unsqueeze(counts, [2]), over, zero, dtype=x.dtype)
    over = b.op("Where", b.unsqueeze(is_target, [1]), zero, over, dtype=x.dtype)
    total = b.op("ReduceSum", over, b.ints([1, 2]), keepdims=0, shape=rows.shape[:1])
    losses = b.op("Div", total, b.constant(classes, x.dtype))
    found = _reduced(b, losses if x.rank == 2 else b.squeeze(losses, [0]), reduction)
    return found if b.name == "multilabel_margin_loss" else [found, b.cast(is_target, x.dtype)]
