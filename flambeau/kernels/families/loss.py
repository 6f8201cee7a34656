"""Losses: cross entropy and likelihood of classes over rows of scores, and sums of element-wise losses, each in one pass over memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...core.arrays.native import at_most, native
from ...core.state import run_ignoring_fp
from ..compiler.build import kernel
from ..compiler.language import SIZES, Builder, Value, register_element
from ..compiler.memory import empty
from ..mathematics.vectors import exp, log, log1p
from .rows import NOTHING, Place, Row, View, as_parameter, float_element, rows, run, wide_dtype
from .softmax import FEW, exponentials, few_rows

_F32, _F64, _INT64 = (np.dtype(element) for element in (np.float32, np.float64, np.int64))

_FEW = 2048  # samples below which the mean of likelihoods is NumPy's
_CHUNK = 1 << 15  # elements whose element-wise losses go into one sum


# -- classes ----------------------------------------------------------------------------------------------------------------------------
class _Class:
    """The class of each row: ``index``, 0 where it is ignored or wrong, and the row's ``factor``, 0 where ignored."""

    def __init__(self, row: Row, target: Value, weight: Value | None, ignore: Value):
        k = row.k
        label = row.take(target, "i64")
        inside = (label >= 0) & (label < row.n)
        self.ignored = label.eq(ignore)
        self.wrong = ~(inside | self.ignored)
        self.index = k.select(inside, label, 0)
        one = k.const(1, row.element, label.lanes)
        factor = one if weight is None else k.gather(weight, self.index, row.element, row.mask)
        self.factor = k.select(self.ignored, 0.0, factor)


def _flag(k: Builder, mask: Value, flags: Value, index: int) -> None:
    """Set a flag if any lane is true; several threads may write the same."""
    k.when(k.any(mask), lambda: k.store(k.const(1, "i64"), flags, index, "i64"))


def _rows(
    k: Builder, element: str, across: bool, scores: bool, read: Sequence[Value], written: Value | None, body: Callable[..., None]
) -> None:
    """``body`` for each row and what is read and written, or for rows of a few scores in panels of them."""
    numbers = [k.integer() for _ in range(4)]
    pointers = [*read, *([] if written is None else [written])]

    def each() -> None:
        rows(k, element, across, lambda row: body(row, *pointers), numbers=numbers)

    if across or not scores or element not in ("f32", "f64"):
        each()
    else:
        k.when((numbers[0] < FEW) & (numbers[0] > 1), lambda: few_rows(k, element, read, written, numbers, body), each)


@kernel
def class_losses(k: Builder, element: str, across: bool, scores: bool, weighted: bool, smooth: bool) -> None:
    """Each row's loss and factor: minus x[class], with ``scores`` after log-softmax, with ``smooth`` in part the mean over classes.

    Flag 0 is set where a class is out of range, flag 1 where one is ignored.
    """
    x, target, weights, losses, factors, flags = (k.array() for _ in range(6))
    ignore, part = k.integer(), k.number(register_element(element))

    def body(row: Row, x: Value) -> None:
        chosen = _Class(row, target, weights if weighted else None, ignore)
        _flag(k, chosen.wrong, flags, 0)
        _flag(k, chosen.ignored, flags, 1)
        top: Any = 0.0
        spread: Any = 0.0
        if scores:
            top, total = exponentials(row, x)
            spread = log(k, total)
        loss = (spread - (row.pick(x, chosen.index) - top)) * chosen.factor
        loss = k.select(chosen.factor.eq(0.0), 0.0, loss)  # an ignored NaN does not count
        if smooth:

            def term(at: Place) -> Value:
                apart = spread - (at.load(x) - top)
                return apart * at.along(weights) if weighted else apart

            even = k.select(chosen.ignored, 0.0, row.total(term) / row.count)
            loss = loss * (1.0 - part) + even * part  # both may be infinite
        row.put(loss, losses)
        row.put(chosen.factor, factors)

    _rows(k, element, across, scores, [x], None, body)


@kernel
def class_slopes(k: Builder, element: str, across: bool, scores: bool, weighted: bool, smooth: bool, single: bool) -> None:
    """The gradient of ``class_losses`` for x; ``single``: one gradient for all rows."""
    x, target, weights, grads, result = (k.array() for _ in range(5))
    ignore, part, all_weights = k.integer(), *(k.number(register_element(element)) for _ in range(2))
    keeps = scores and SIZES[element] >= 4

    def body(row: Row, x: Value, result: Value) -> None:
        chosen = _Class(row, target, weights if weighted else None, ignore)
        grad = k.load(grads, 0, row.element) if single else row.take(grads)
        share, even = grad * chosen.factor, k.const(0, row.element)
        nothing = chosen.factor.eq(0.0)
        if smooth:
            share, even, nothing = share * (1.0 - part), grad * (part / row.count), chosen.ignored
        if scores:
            top, total = exponentials(row, x, result if keeps else None)
            scale = (share + even * all_weights) / total if smooth else share / total
        index = k.cast(chosen.index, "i32")

        def step(at: Place) -> None:
            slope: Any = 0.0
            if scores:
                slope = (at.load(result) if keeps else exp(k, at.load(x) - top)) * scale
            slope = slope - k.select(at.numbers().eq(index), share, 0.0)
            if smooth:
                slope = slope - (even * at.along(weights) if weighted else even)
            at.store(k.select(nothing, 0.0, slope), result)

        row.map(step)

    _rows(k, element, across, scores, [x], result, body)


@kernel
def mean_of_classes(k: Builder, element: str, grouped: str) -> None:
    """Sum or mean of rows' losses as ``class_losses`` gives them; ``wrong`` becomes how many classes are out of range."""
    losses, factors, target, result, wrong, n, classes, ignore = (*(k.array() for _ in range(5)), *(k.integer() for _ in range(3)))
    wide, lanes = register_element(element), k.lanes(register_element(element))
    none, zero = k.const(0, wide, lanes), k.const(0, "i64", lanes)

    def step(i: Value, mask: Value | None, total: Value, count: Value, outside: Value) -> tuple[Value, ...]:
        label = k.load(target, i, "i64", lanes, mask)
        is_wrong = ~(((label >= 0) & (label < k.splat(classes, lanes))) | label.eq(k.splat(ignore, lanes)))
        total = total + k.load(losses, i, wide, lanes, mask)
        return total, count + k.load(factors, i, wide, lanes, mask), outside + k.select(is_wrong, k.like(1, label), k.like(0, label))

    def chunk(_: Value) -> None:
        total, count, outside = k.vector_loop(0, n, lanes, step, carried=[none, none, zero])
        total = k.sum(total)
        k.store(k.cast(total / k.sum(count) if grouped == "mean" else total, element), result, 0, element)
        k.store(k.sum(outside), wrong, 0, "i64")

    k.for_chunks(chunk)


@kernel
def share_of_class(k: Builder, element: str, weighted: bool) -> None:
    """The gradient of a mean of rows' losses, divided among the rows that are not ignored."""
    grad, target, weights, result, n, classes, ignore = (*(k.array() for _ in range(4)), *(k.integer() for _ in range(3)))
    wide, lanes = register_element(element), k.lanes(register_element(element))

    def step(i: Value, mask: Value | None, count: Value) -> Value:
        label = k.load(target, i, "i64", lanes, mask, other=0)
        inside = (label >= 0) & (label < k.splat(classes, lanes))
        factor = k.gather(weights, k.select(inside, label, 0), wide, mask) if weighted else k.const(1, wide, lanes)
        factor = factor if mask is None else k.select(mask, factor, 0.0)
        return count + k.select(label.eq(k.splat(ignore, lanes)), 0.0, factor)

    def chunk(_: Value) -> None:
        count = k.vector_loop(0, n, lanes, step, carried=[k.const(0, wide, lanes)])
        k.store(k.cast(k.load(grad, 0, element), wide) / k.sum(count), result, 0, wide)

    k.for_chunks(chunk)


def _seen(input: np.ndarray, target: np.ndarray, weight: Any) -> tuple[str, View] | None:
    """Element type and view; None for what the reference does, or complains about."""
    element = float_element(input.dtype)
    shape = input.shape
    if element is None or len(shape) < 2 or target.dtype != _INT64 or target.shape != (shape[0], *shape[2:]):
        return None
    classes = shape[1]
    if weight is not None and (weight.shape != (classes,) or weight.dtype != input.dtype):
        return None
    return element, (shape[0], classes, math.prod(shape[2:]))


def _losses(
    scores: bool, input: np.ndarray, target: np.ndarray, weight: Any, reduction: str, ignore_index: int, label_smoothing: float = 0.0
) -> np.ndarray | None:
    seen = _seen(input, target, weight)
    if seen is None:
        return None
    element, view = seen
    x = input
    if not x.flags.c_contiguous:
        moved = np.moveaxis(input, 1, -1)
        if moved.flags.c_contiguous:
            x, view = moved, (target.size, view[1], 1)
        else:
            x = np.ascontiguousarray(input)
    wide = _F64 if element == "f64" else _F32
    losses, factors, flags = empty(target.shape, wide), empty(target.shape, wide), np.zeros(2, _INT64)
    get = class_losses(element, view[2] > 1, scores, weight is not None, label_smoothing > 0)
    arrays = x, np.ascontiguousarray(target), as_parameter(weight, element), losses, factors, flags
    few = 0 if scores else 1 + target.size // 16384  # chunks, where one element of each row is read
    run(get, element, view, *arrays, int(ignore_index), float(label_smoothing), chunks=few)
    if flags[0]:
        return None
    if reduction != "none":
        losses = np.add.reduce(losses, axis=None)
        if reduction == "mean" and (flags[1] or weight is not None):
            losses = run_ignoring_fp(np.divide, losses, np.add.reduce(factors, axis=None))  # 0 / 0 where all are ignored
        elif reduction == "mean":
            losses = losses / wide.type(target.size)
    if losses.dtype is input.dtype:
        return losses if reduction == "none" else np.asarray(losses)
    return np.asarray(losses).astype(input.dtype)


def _slopes(
    scores: bool,
    grad_output: np.ndarray,
    input: np.ndarray,
    target: np.ndarray,
    weight: Any,
    reduction: str,
    ignore_index: int,
    label_smoothing: float = 0.0,
) -> np.ndarray | None:
    seen = _seen(input, target, weight)
    if seen is None or grad_output.dtype != input.dtype:
        return None
    result = empty(input.shape, input.dtype)
    _run_slopes(*seen, scores, np.ascontiguousarray(input), result, grad_output, target, weight, reduction, ignore_index, label_smoothing)
    return result


def _run_slopes(
    element: str,
    view: View,
    scores: bool,
    x: np.ndarray,
    result: np.ndarray,
    grads: np.ndarray,
    target: np.ndarray,
    weight: Any,
    reduction: str,
    ignore_index: int,
    smoothing: float,
) -> None:
    """Run ``class_slopes`` into ``result``."""
    wide = wide_dtype(element)
    weights, grads = as_parameter(weight, element), np.ascontiguousarray(grads, wide)
    if reduction == "mean":
        counted = target != ignore_index
        total = np.count_nonzero(counted) if weight is None else np.add.reduce(weights.take(target, mode="clip"), where=counted, axis=None)
        grads = np.divide(grads, wide(total)).astype(wide)
    get = class_slopes(element, view[2] > 1, scores, weight is not None, smoothing > 0, reduction != "none")
    all_weights = view[1] if weight is None else np.add.reduce(weights)
    arrays = x, np.ascontiguousarray(target), weights, grads, result
    run(get, element, view, *arrays, int(ignore_index), float(smoothing), float(all_weights))


cross_entropy = native("nn.functional._cross_entropy")(partial(_losses, True))
cross_entropy_backward = native("nn.functional._cross_entropy_backward", overwrites=2)(partial(_slopes, True))
smoothed_cross_entropy = native("nn.functional._smoothed_cross_entropy")(partial(_losses, True))
smoothed_cross_entropy_backward = native("nn.functional._smoothed_cross_entropy_backward")(partial(_slopes, True))


@lru_cache(maxsize=16)
def _numbers(count: int) -> np.ndarray:
    return np.arange(count)


def _mean_of_few(input: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """The mean for so few samples that NumPy has them before a kernel starts; None where a target is no class."""
    count = target.size
    # negative targets are large without their sign
    if not count or input.dtype not in (_F32, _F64) or np.maximum.reduce(target.view(np.uint64)) >= input.shape[1]:
        return None
    return np.asarray(np.add.reduce(input[_numbers(count), target]) / input.dtype.type(-count))


@native("nn.functional._nll_loss")
def nll_loss(input: np.ndarray, target: np.ndarray, weight: Any, reduction: str, ignore_index: int) -> np.ndarray | None:
    if target.size < at_most(_FEW) and weight is None and reduction == "mean" and ignore_index < 0:
        if input.ndim == 2 and target.ndim == 1 and target.dtype == _INT64 and target.size == len(input):
            result = _mean_of_few(input, target)
            if result is not None:
                return result
    return _losses(False, input, target, weight, reduction, ignore_index)


@native("nn.functional._nll_loss_backward")
def nll_loss_backward(
    grad_output: np.ndarray, target: np.ndarray, weight: Any, shape: Any, reduction: str, ignore_index: int
) -> np.ndarray | None:
    element = float_element(grad_output.dtype)
    if element is None or len(shape) < 2 or target.dtype != np.int64 or (weight is not None and weight.dtype != grad_output.dtype):
        return None
    result = empty(shape, grad_output.dtype)
    view = shape[0], shape[1], math.prod(shape[2:])
    _run_slopes(element, view, False, NOTHING, result, grad_output, target, weight, reduction, ignore_index, 0.0)
    return result


# -- element by element --------------------------------------------------------------------------------------------------------------------
def _squared(k: Builder, x: Value, t: Value, *numbers: Value) -> Value:
    return (x - t) * (x - t)


def _bounded(k: Builder, x: Value, t: Value, delta: Value, factor: Value) -> Value:
    """Huber's loss: squared up to ``delta``, then linear."""
    apart = k.abs(x - t)
    low = k.minimum(k.splat(delta, x.lanes), apart)
    return low * (apart - low * 0.5) * factor


def _of_probability(k: Builder, x: Value, t: Value, *numbers: Value) -> Value:
    """Logarithms are at least -100, so that the loss of a wrong certainty is finite; NaN outside [0, 1]."""
    loss = (t - 1.0) * k.maximum(log1p(k, -x), -100.0) - t * k.maximum(log(k, x), -100.0)
    return k.select((x >= 0.0) & (x <= 1.0) & (t >= 0.0) & (t <= 1.0), loss, math.nan)


def _of_logit(k: Builder, x: Value, t: Value, *numbers: Value) -> Value:
    return (1.0 - t) * x + log1p(k, exp(k, -k.abs(x))) + k.most(-x, 0.0)


_LOSSES: dict[str, Callable[..., Value]] = {"squared": _squared, "bounded": _bounded, "probability": _of_probability, "logit": _of_logit}


@kernel
def plain_losses(k: Builder, element: str, loss: str, summed: bool) -> None:
    """Each element's loss, or each chunk's sum of losses as float64."""
    x, t, result, n = k.array(), k.array(), k.array(), k.integer()
    numbers = k.number(register_element(element)), k.number(register_element(element))

    def value(at: Place) -> Value:
        return _LOSSES[loss](k, at.load(x), at.load(t), *numbers)

    def chunk(c: Value) -> None:
        start = c * _CHUNK
        row = Row(k, element, False, start, k.least(n - start, _CHUNK), n, c)
        if summed:
            row.put(k.cast(row.total(value), "f64"), result, "f64")
        else:
            row.map(lambda at: at.store(value(at), result))

    k.for_chunks(chunk)


@kernel
def total_of_losses(k: Builder, element: str, grouped: str) -> None:
    """Sum or mean of chunks' sums, as ``plain_losses`` gives them."""
    sums, result, chunks, n = k.array(), k.array(), k.integer(), k.integer()

    def chunk(_: Value) -> None:
        total = k.loop(0, chunks, lambda i, total: total + k.load(sums, i, "f64"), carried=(k.const(0.0, "f64"),))
        k.store(k.cast(total / k.cast(n, "f64") if grouped == "mean" else total, element), result, 0, element)

    k.for_chunks(chunk)


def _total(loss: str, input: np.ndarray, target: np.ndarray, reduction: str, *numbers: float) -> np.ndarray | None:
    """The reduced loss; None where operands are not alike."""
    element = float_element(input.dtype)
    if element is None or target.dtype != input.dtype or target.shape != input.shape:
        return None
    if not (input.flags.c_contiguous and target.flags.c_contiguous):
        if reduction == "none":
            return None  # whose memory layout the reference knows
        input, target = np.ascontiguousarray(input), np.ascontiguousarray(target)
    chunks = -(-input.size // _CHUNK)
    losses = empty(input.shape, input.dtype) if reduction == "none" else np.empty(chunks, np.float64)
    get = plain_losses(element, loss, reduction != "none")
    get(chunks, id(input), id(target), id(losses), input.size, *(numbers or (0.0, 0.0)))
    if reduction == "none":
        return losses
    if element in ("f32", "f64"):
        made = np.empty((), input.dtype)
        total_of_losses(element, reduction)(1, id(losses), id(made), chunks, input.size)
        return made
    total = np.add.reduce(losses)
    return np.asarray(total / input.size if reduction == "mean" else total).astype(input.dtype)


@native("nn.functional._mse_loss")
def mse_loss(input: np.ndarray, target: np.ndarray, reduction: str) -> np.ndarray | None:
    return _total("squared", input, target, reduction)


@native("nn.functional._huber_loss", "nn.functional._smooth_l1_loss")
def huber_loss(input: np.ndarray, target: np.ndarray, reduction: str, delta: float, scale: float) -> np.ndarray | None:
    return _total("bounded", input, target, reduction, float(delta), float(scale))


@native("nn.functional._binary_cross_entropy")
def binary_cross_entropy(input: np.ndarray, target: np.ndarray, weight: Any, reduction: str) -> np.ndarray | None:
    result = _total("probability", input, target, reduction) if weight is None else None
    return None if result is None or np.isnan(result).any() else result  # the reference tells a NaN from an element outside [0, 1]


@native("nn.functional._binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    input: np.ndarray, target: np.ndarray, weight: Any, pos_weight: Any, reduction: str
) -> np.ndarray | None:
    return _total("logit", input, target, reduction) if weight is None and pos_weight is None else None
