"""Losses of class scores: likelihood, cross entropy, margins between classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays.kinds import kind_of
from ...core.calls.annotations import Tensor
from ...core.calls.casting import opmath
from ...core.calls.registry import Declare, composite, op, resolve
from ...core.state import grad_enabled, run_ignoring_fp, thread
from ...core.tape.ties import tied
from ...core.tensor import Tensor as TensorClass, wrap
from ..arithmetic import reject
from ..linalg.products import linear
from ..small import small_cross_entropy, small_cross_entropy_gradient
from .loss import reduced, reduction_of


def _of_classes(**options: Any) -> Declare:
    """Declare a loss of class scores, or its gradient."""
    return op(namespace="nn.functional", opmath="native", **options)


# -- checks ----------------------------------------------------------------------------------------------------------------------
def _check_classes(input: np.ndarray, target: np.ndarray, weight: Any, ignore_index: int) -> None:
    """Raise what is wrong with class scores ``(N, C, *)`` and class indices ``(N, *)``, or ``(C,)`` and a scalar.

    Raises:
        ValueError: no class dimension, or another batch size.
        RuntimeError: other shapes, a dtype, or a weight that does not fit.
        IndexError: an index that is no class.
    """
    if input.ndim < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {input.ndim})")
    if input.ndim == 1:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.ndim and target.size != 1:
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target.size}")
    else:
        if target.ndim == 0 or input.shape[0] != target.shape[0]:
            have = target.shape[0] if target.ndim else 1
            raise ValueError(f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({have}).")
        if input.ndim == 2 and target.ndim != 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dtype.kind == "b" or target.dtype not in (np.int64, np.uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {dtypes.of_array(target).legacy}")
    if input.ndim > 2 and target.shape != (input.shape[0], *input.shape[2:]):
        raise RuntimeError(f"Expected target size {[input.shape[0], *input.shape[2:]]}, got {list(target.shape)}")
    classes = input.shape[0 if input.ndim == 1 else 1]
    if weight is not None:
        if weight.shape != (classes,):
            raise RuntimeError(
                f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: "
                f"{list(weight.shape)}"
            )
        if weight.dtype != input.dtype:
            raise RuntimeError(
                f"expected scalar type {dtypes.of_array(input).legacy} but found {dtypes.of_array(weight).legacy}: weight of the classes"
            )
    if target.size and (target.min() < 0 or target.max() >= classes):
        wrong = (target < 0) | (target >= classes)
        wrong &= target != ignore_index
        if wrong.any():
            raise IndexError(f"Target {int(target[wrong].reshape(-1)[0])} is out of bounds.")


class _Picked:
    """Class indices made ready: where to read, and how much each sample counts.

    Attributes:
        index: indices with a class dimension of size 1, ignored ones being 0; ``shape``: of the unreduced result.
        factor: weight of each sample, 0 for ignored ones, or None where all are 1; ``total``: sum of the factors.
    """

    __slots__ = ("factor", "index", "shape", "total")

    def __init__(self, target: np.ndarray, weight: Any, ignore_index: int, kind: np.dtype):
        self.shape = target.shape
        target = target if target.ndim else target.reshape(1)
        if target.dtype != np.int64:
            target = target.astype(np.int64)
        ignored = target == ignore_index
        any_ignored = bool(ignored.any())
        if any_ignored:
            target = np.where(ignored, 0, target)
        self.index = target[:, None]
        self.factor = None
        self.total: Any = kind.type(target.size)
        if weight is not None or any_ignored:
            self.factor = np.ones(target.shape, kind) if weight is None else weight.take(target)
            if any_ignored:
                self.factor[ignored] = 0
            self.total = np.add.reduce(self.factor, axis=None)

    def reduce(self, losses: np.ndarray, reduction: str) -> np.ndarray:
        if self.factor is not None:
            losses = np.where(self.factor == 0, self.factor, losses * self.factor)  # an ignored NaN does not count
        if reduction == "none":
            return losses.reshape(self.shape)
        total = np.add.reduce(losses, axis=None)
        return np.divide(total, self.total) if reduction == "mean" else total

    def shares(self, grad: np.ndarray, reduction: str) -> np.ndarray:
        """Gradient of each sample's loss, with the class dimension."""
        if reduction == "mean":
            grad = np.divide(grad, self.total)
        elif reduction == "none":
            grad = grad.reshape(self.index[:, 0].shape)
        if self.factor is not None:
            grad = np.where(self.factor == 0, self.factor, grad * self.factor)
        return np.broadcast_to(grad, self.index[:, 0].shape)[:, None]


def _take(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """``values`` ``(N, C, *)`` at one class each."""
    if values.ndim == 2:
        return values[np.arange(values.shape[0]), index[:, 0]]
    return np.take_along_axis(values, index, 1)[:, 0]


def _put(values: np.ndarray, index: np.ndarray, given: np.ndarray) -> None:
    if values.ndim == 2:
        values[np.arange(values.shape[0]), index[:, 0]] = given[:, 0]
    else:
        np.put_along_axis(values, index, given, 1)


# -- negative log likelihood -----------------------------------------------------------------------------------------------------
@_of_classes(
    name="_nll_loss_backward",
    work="prod(shape)",
    fast=True,
    grad={
        "grad_output": lambda grad, target, weight, reduction, ignore_index: likelihood_loss(grad, target, weight, reduction, ignore_index)
    },
)
def likelihood_backward(
    grad_output: Tensor, target: Tensor, weight: Tensor | None, shape: Any, reduction: str, ignore_index: int
) -> Tensor:
    """Minus each sample's share of ``grad_output`` at its class; zeros elsewhere."""
    grad = opmath(grad_output)
    picked = _Picked(target, opmath(weight), ignore_index, grad.dtype)
    gradient = np.zeros(shape, grad.dtype)
    _put(gradient if len(shape) > 1 else gradient[None], picked.index, -picked.shares(grad, reduction))
    return gradient.astype(grad_output.dtype, copy=False)


@_of_classes(
    name="_nll_loss",
    batch="rows",
    fast=True,
    grad={
        "input": lambda grad, target, weight, reduction, ignore_index, input_shape, node: tied(
            likelihood_backward(grad, target, weight, input_shape, reduction, ignore_index), node.edges[0]
        )
    },
)
def likelihood_loss(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int) -> Tensor:
    """Minus the score of each sample's class, reduced."""
    _check_classes(input, target, weight, ignore_index)
    reject("nll_loss_out_frame", input, "iubc")
    x = opmath(input)
    picked = _Picked(target, opmath(weight), ignore_index, x.dtype)
    loss = picked.reduce(-_take(x if input.ndim > 1 else x[None], picked.index), reduction)
    return loss if x is input else np.asarray(loss).astype(input.dtype)


@composite(namespace="nn.functional", autocast="float32")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus ``input`` at each sample's class: the negative log likelihood of log-probabilities.

    Args:
        input: ``(N, C, *)`` or ``(C,)``, usually from ``log_softmax``.
        target: int64 class indices ``(N, *)`` or ``()``.
        weight: ``(C,)`` factors; the mean is then over the weights.
        size_average, reduce: old forms of ``reduction``.
        ignore_index: a target that does not count.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
    Returns:
        A scalar, or without reduction ``target``'s shape; ``input``'s dtype.
    Raises:
        ValueError: batches that differ, a 0-d input, or an unknown reduction.
        RuntimeError: a target of another dtype.
        IndexError: a target that is no class.
    Gradient: ``-weight / n`` at each sample's class, 0 elsewhere.
    Source: torch.nn.functional.nll_loss.
    Example:
        >>> scores = torch.tensor([[-1.0, -0.5], [-3.0, -0.1]])
        >>> F.nll_loss(scores, torch.tensor([0, 1]), reduction="none")
        tensor([1.0000, 0.1000])
        >>> F.nll_loss(scores, torch.tensor([0, 1]), weight=torch.tensor([3.0, 1.0]))
        tensor(0.7750)
    """
    if reduction != "mean" or size_average is not None or reduce is not None:
        reduction = reduction_of(reduction, size_average, reduce)
    return likelihood_loss(input, target, weight, reduction, ignore_index)


# -- cross entropy -----------------------------------------------------------------------------------------------------------------
def _fast_cross_entropy(input: np.ndarray, target: np.ndarray, weight: Any, reduction: str, ignore_index: int) -> np.ndarray:
    if weight is None and reduction == "mean" and ignore_index < 0:
        loss = small_cross_entropy(input, target)
        if loss is not None:
            return loss
    return run_ignoring_fp(_cross_entropy, input, target, weight, reduction, ignore_index)


def _cross_entropy(input: np.ndarray, target: np.ndarray, weight: Any, reduction: str, ignore_index: int) -> np.ndarray:
    _check_classes(input, target, weight, ignore_index)
    reject("log_softmax_lastdim_kernel_impl", input, "iubc")
    x = opmath(input if input.ndim > 1 else input[None])
    picked = _Picked(target, opmath(weight), ignore_index, x.dtype)
    # x - max: exp overflows above 88.7 in float32
    below = np.subtract(x, np.maximum.reduce(x, axis=1, keepdims=True)) if x.size else x
    spread = np.log(np.add.reduce(np.exp(below), axis=1))
    loss = picked.reduce(np.subtract(spread, _take(below, picked.index)), reduction)
    return loss if x.dtype == input.dtype else np.asarray(loss).astype(input.dtype)


def _fast_cross_entropy_backward(
    grad_output: np.ndarray, input: np.ndarray, target: np.ndarray, weight: Any, reduction: str, ignore_index: int
) -> np.ndarray:
    if weight is None and reduction == "mean" and ignore_index < 0:
        quick = small_cross_entropy_gradient(grad_output, input, target)
        if quick is not None:
            return quick
    return run_ignoring_fp(_cross_entropy_backward, grad_output, input, target, weight, reduction, ignore_index)


def _cross_entropy_backward(
    grad_output: np.ndarray, input: np.ndarray, target: np.ndarray, weight: Any, reduction: str, ignore_index: int
) -> np.ndarray:
    x, grad = opmath(input if input.ndim > 1 else input[None]), opmath(grad_output)
    picked = _Picked(target, opmath(weight), ignore_index, x.dtype)
    shares = picked.shares(grad, reduction)
    gradient = np.empty(x.shape, x.dtype)
    if x.size:
        np.subtract(x, np.maximum.reduce(x, axis=1, keepdims=True), out=gradient)
    np.exp(gradient, out=gradient)
    gradient *= np.divide(shares, np.add.reduce(gradient, axis=1, keepdims=True))
    if gradient.ndim == 2:
        gradient[np.arange(gradient.shape[0]), picked.index[:, 0]] -= shares[:, 0]
    else:
        np.put_along_axis(gradient, picked.index, np.take_along_axis(gradient, picked.index, 1) - shares, 1)
    if picked.factor is not None:
        gradient[np.broadcast_to(picked.factor[:, None] == 0, gradient.shape)] = 0
    return gradient.reshape(input.shape).astype(input.dtype, copy=False)


@_of_classes(name="_cross_entropy_backward", work="input.size", fast=_fast_cross_entropy_backward, fp_safe=True, grad=None)
def cross_entropy_backward(
    grad_output: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int
) -> Tensor:
    """``softmax(input) - 1[class]``, times each sample's share of ``grad_output``."""
    return _cross_entropy_backward(grad_output, input, target, weight, reduction, ignore_index)


def _cross_entropy_rule(grad: Any, input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    if not grad_enabled():
        return cross_entropy_backward(grad, input, target, weight, reduction, ignore_index)
    dim = 0 if input.ndim == 1 else 1
    inner = likelihood_backward(grad, target, weight, tuple(input.shape), reduction, ignore_index)
    return inner - input.softmax(dim) * inner.sum(dim, keepdim=True)


@_of_classes(
    name="_cross_entropy",
    node_name="NllLossBackward0",
    batch="rows",
    fast=_fast_cross_entropy,
    fp_safe=True,
    grad={"input": _cross_entropy_rule},
)
def class_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int) -> Tensor:
    """Minus the log-probability of each sample's class under ``softmax(input)``, reduced; one node for both steps."""
    return _cross_entropy(input, target, weight, reduction, ignore_index)


# -- smoothed labels -----------------------------------------------------------------------------------------------------------------
def _by_class(weight: np.ndarray, ndim: int) -> np.ndarray:
    """Weights ``(C,)`` beside scores ``(N, C, *)``."""
    return weight.reshape(-1, *(1,) * (ndim - 2))


@_of_classes(name="_smoothed_cross_entropy_backward", work="input.size", grad=None)
def smoothed_backward(
    grad_output: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, label_smoothing: float
) -> Tensor:
    """The gradient of ``_smoothed_cross_entropy``: the softmax times the sum of all shares, minus each class's share."""
    x, grad, weight = opmath(input if input.ndim > 1 else input[None]), opmath(grad_output), opmath(weight)
    picked = _Picked(target, weight, ignore_index, x.dtype)
    own = picked.shares(grad, reduction) * (1 - label_smoothing)
    grad = np.broadcast_to(np.divide(grad, picked.total) if reduction == "mean" else grad, target.shape).reshape(picked.index.shape)
    shares = grad * (label_smoothing / x.shape[1]) * (np.ones((x.shape[1],) + (1,) * (x.ndim - 2), x.dtype) if weight is None else 1)
    if weight is not None:
        shares = shares * _by_class(weight, x.ndim)
    shares = np.broadcast_to(shares, x.shape).copy()
    np.put_along_axis(shares, picked.index, np.take_along_axis(shares, picked.index, 1) + own, 1)
    shares[np.broadcast_to((target == ignore_index).reshape(picked.index.shape), shares.shape)] = 0
    gradient = np.exp(x - np.maximum.reduce(x, axis=1, keepdims=True), out=np.empty(x.shape, x.dtype))
    gradient *= np.add.reduce(shares, axis=1, keepdims=True) / np.add.reduce(gradient, axis=1, keepdims=True)
    gradient -= shares
    return gradient.reshape(input.shape).astype(input.dtype, copy=False)


def _along(weight: Any, dim: int, input: Any) -> Any:
    """Weights ``(C,)`` beside scores whose classes lie along ``dim``."""
    return weight.reshape([-1 if d == dim else 1 for d in range(input.ndim)])


def _total_weight(target: Any, weight: Any, ignored: Any) -> Any:
    """Sum of the weights of the targets that count, or their number: a mean is over it."""
    return (~ignored).sum() if weight is None else weight[target.masked_fill(ignored, 0)].masked_fill(ignored, 0.0).sum()


def _smoothed_rule(grad: Any, input: Any, target: Any, weight: Any, reduction: str, ignore_index: int, label_smoothing: float) -> Any:
    if not grad_enabled():
        return smoothed_backward(grad, input, target, weight, reduction, ignore_index, label_smoothing)
    dim = 0 if input.ndim == 1 else 1
    ignored = target == ignore_index
    even = grad * (label_smoothing / max(input.size(dim), 1))
    if reduction == "mean":
        even = even / _total_weight(target, weight, ignored)
    even = even.expand(target.shape).masked_fill(ignored, 0.0).unsqueeze(dim).expand(input.shape)
    if weight is not None:
        even = even * _along(weight, dim, input)
    inner = likelihood_backward(grad * (1 - label_smoothing), target, weight, tuple(input.shape), reduction, ignore_index) - even
    return inner - input.softmax(dim) * inner.sum(dim, keepdim=True)


@_of_classes(name="_smoothed_cross_entropy", node_name="AddBackward0", fast=True, grad={"input": _smoothed_rule})
def smoothed_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, label_smoothing: float
) -> Tensor:
    """Cross entropy with a part ``label_smoothing`` of each label spread over all classes, reduced."""
    _check_classes(input, target, weight, ignore_index)
    reject("log_softmax_lastdim_kernel_impl", input, "iubc")
    x, weight = opmath(input if input.ndim > 1 else input[None]), opmath(weight)
    picked = _Picked(target, weight, ignore_index, x.dtype)
    scores = np.subtract(x, np.maximum.reduce(x, axis=1, keepdims=True)) if x.size else x
    scores = scores - np.log(np.add.reduce(np.exp(scores), axis=1, keepdims=True))
    likelihood = _Picked.reduce(picked, -_take(scores, picked.index), "none")
    even = -np.add.reduce(scores if weight is None else scores * _by_class(weight, x.ndim), axis=1)
    even = np.where(target.reshape(even.shape) == ignore_index, 0, even).reshape(likelihood.shape)
    losses = likelihood * (1 - label_smoothing) + even * (label_smoothing / max(x.shape[1], 1))
    if reduction != "none":
        losses = np.add.reduce(losses, axis=None)
        losses = np.divide(losses, picked.total) if reduction == "mean" else losses
    return np.asarray(losses).astype(input.dtype)


def _smoothed(input: Any, target: Any, weight: Any, reduction: str, ignore_index: int, label_smoothing: float) -> Any:
    """Cross entropy with a part ``label_smoothing`` of each label spread over all classes."""
    dim = 0 if input.dim() == 1 else 1
    classes = input.size(dim)
    scores = input.log_softmax(dim)
    likelihood = likelihood_loss(scores, target, weight, reduction, ignore_index)
    even = -(scores if weight is None else scores * _along(weight, dim, input)).sum(dim)
    ignored = target == ignore_index
    even = even.masked_fill(ignored, 0.0)
    if reduction != "none":
        even = even.sum()
    if reduction == "mean":
        even = even / _total_weight(target, weight, ignored)
    return likelihood * (1 - label_smoothing) + even * (label_smoothing / classes)


def _of_probabilities(input: Any, target: Any, weight: Any, reduction: str, label_smoothing: float) -> Any:
    """Cross entropy of class probabilities ``target``, of ``input``'s shape."""
    if not target.is_floating_point():
        raise RuntimeError(f"Expected floating point type for target with class probabilities, got {target.dtype.legacy}")
    dim = 0 if input.dim() == 1 else 1
    classes = input.size(dim)
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(weight.shape)}"
        )
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    products = input.log_softmax(dim) * target
    if weight is not None:
        products = products * _along(weight, dim, input)
    if reduction == "none":
        return -products.sum(dim)
    total = -products.sum()
    return total / (input.numel() // max(classes, 1)) if reduction == "mean" else total


@composite(namespace="nn.functional", autocast={"cpu": "float32"}, in_library=True)
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of ``softmax(input)`` and the target: ``log_softmax`` and ``nll_loss`` in one step.

    Args:
        input: scores ``(N, C, *)`` or ``(C,)``.
        target: int64 class indices ``(N, *)`` or ``()``, or probabilities of ``input``'s shape.
        weight: ``(C,)`` factors; the mean is then over the weights of the targets.
        size_average, reduce: old forms of ``reduction``.
        ignore_index: a class index that does not count.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
        label_smoothing: part of each label that is spread over all classes, from 0 to 1.
    Returns:
        A scalar in nats, or without reduction ``(N, *)``; ``input``'s dtype.
    Raises:
        ValueError: batches that differ, or an unknown reduction.
        RuntimeError: weights, dtypes or a ``label_smoothing`` that do not fit.
        IndexError: a target that is no class.
        TypeError: an operand that is no tensor.
    Gradient: ``(softmax(input) - target) / n``.
    Source: torch.nn.functional.cross_entropy.
    Example:
        >>> F.cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3]))  # log(4)
        tensor(1.3863)
        >>> F.cross_entropy(torch.tensor([[9.0, 0.0], [0.0, 9.0]]), torch.tensor([0, 0]), reduction="none")
        tensor([1.2337e-04, 9.0001e+00])
    """
    if reduction != "mean" or size_average is not None or reduce is not None:
        reduction = reduction_of(reduction, size_average, reduce)
    for position, (name, tensor) in enumerate((("input", input), ("target", target)), 1):
        if not isinstance(tensor, TensorClass):
            raise TypeError(f"cross_entropy_loss(): argument '{name}' (position {position}) must be Tensor, not {type(tensor).__name__}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if target._array.shape == input._array.shape and (input._array.ndim or target._array.dtype.kind in "iu"):
        if target._array.dtype.kind in "iu" and input._array.ndim < 2:
            raise RuntimeError(f"Expected floating point type for target with class probabilities, got {target.dtype.legacy}")
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _of_probabilities(input, target, weight, reduction, label_smoothing)
    if label_smoothing > 0.0 and (weight is None or not weight.requires_grad):
        return smoothed_cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing)
    if label_smoothing > 0.0:  # whose share of the weights' own gradient comes from the parts
        return _smoothed(input, target, weight, reduction, ignore_index, label_smoothing)
    return class_cross_entropy(input, target, weight, reduction, ignore_index)


# -- margins between classes -------------------------------------------------------------------------------------------------------
@composite(namespace="nn.functional", autocast="float32")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin - input[class] + input[other])**p``, averaged over the classes.

    Args:
        input: ``(N, C)`` or ``(C,)``.
        target: int64 class indices ``(N,)`` or ``()``.
        p: 1 or 2.
        margin: how far the class should lead.
        weight: ``(C,)`` factors by the target's class.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns:
        A scalar, or without reduction ``target``'s shape.
    Raises:
        ValueError: another ``p``, or an unknown reduction.
        RuntimeError: shapes that do not fit, or a target that is no class.
    Gradient: ``p * gap**(p - 1) * weight / C`` to each class within the margin, minus the sum of these to the target's class.
    Source: torch.nn.functional.multi_margin_loss.
    Example:
        >>> F.multi_margin_loss(torch.tensor([0.5, 3.0, 0.0, 0.25]), torch.tensor(1))
        tensor(0.)
        >>> F.multi_margin_loss(torch.tensor([0.5, 3.0, 0.0, 0.25]), torch.tensor(0))
        tensor(1.1875)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    if input.dim() > 2 or (input.dim() and input.shape[-1] == 0):
        raise RuntimeError(f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}")
    if target.dtype is not dtypes.int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.legacy}: target of multi_margin_loss")
    scores = input if input.dim() == 2 else input.reshape(1, -1)
    labels = target if target.dim() == 1 else target.reshape(-1) if target.dim() == 0 else None
    n, classes = scores.shape
    if labels is None or labels.shape[0] != n:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target "
            f"size [{n}], but got {list(target.shape)}. Input has shape {list(input.shape)}."
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    labels_array = labels._array
    if labels_array.size and (labels_array.min() < 0 or labels_array.max() >= classes):
        raise RuntimeError("target out of range")
    column = labels.unsqueeze(1)
    gaps = (margin - scores.gather(1, column) + scores).clamp_min(0)
    if p == 2:
        gaps = gaps * gaps
    if weight is not None:
        gaps = gaps * weight[column]
    own = gaps.new_ones(gaps.shape).scatter(1, column, 0.0)
    losses = (gaps * own).sum(1) / classes
    if reduction == "none" and target.dim() == 0:
        return losses.squeeze(0)
    return reduced(losses, reduction)


@composite(namespace="nn.functional", autocast="float32")
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Sum of ``max(0, 1 - input[label] + input[other])`` over all pairs of a label and another class, by the number of classes.

    Args:
        input: ``(N, C)`` or ``(C,)``.
        target: int64, of ``input``'s shape: each row lists its labels and ends at the first -1.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns:
        A scalar, or without reduction ``(N,)``, for one sample 0-d.
    Raises:
        ValueError: an unknown reduction.
        RuntimeError: a target of another size or with classes that do not exist.
    Gradient: ``-1 / C`` to a label and ``1 / C`` to the other class for each pair whose term is above zero.
    Source: torch.nn.functional.multilabel_margin_loss.
    Example:
        >>> F.multilabel_margin_loss(torch.tensor([0.0, 2.0, 1.5, 0.0]), torch.tensor([1, -1, 0, 0]))
        tensor(0.1250)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if input.dim() > 2 or (input.dim() and input.shape[-1] == 0):
        raise RuntimeError(f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}")
    if tuple(target.shape) != tuple(input.shape):
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    scores = input.reshape(-1, input.shape[-1] if input.dim() else 1)
    labels = target._array.reshape(tuple(scores.shape))
    classes = labels.shape[1]
    if not kind_of(labels).has_values:
        return reduced(scores.sum(1).squeeze(0) if reduction == "none" and input.dim() < 2 else scores.sum(1), reduction)
    if labels.size and (labels.min() < -1 or labels.max() >= classes):
        raise RuntimeError(f"multilabel_margin_loss: expected class indices from -1 to {classes - 1}, target out of range")
    listed = np.logical_and.accumulate(labels >= 0, axis=1)
    is_label = np.zeros(labels.shape, np.bool_)
    rows = np.broadcast_to(np.arange(labels.shape[0])[:, None], labels.shape)
    is_label[rows[listed], labels[listed]] = True
    if thread.recorder is not None:
        thread.recorder.fail("multilabel_margin_loss looks at its labels")
    chosen = scores.gather(1, wrap(np.where(listed, labels, 0)))
    pairs = listed[:, :, None] & ~is_label[:, None, :]
    gaps = (1 - chosen.unsqueeze(2) + scores.unsqueeze(1)).clamp_min(0)
    losses = gaps.masked_fill(wrap(~pairs), 0.0).sum((1, 2)) / classes
    if reduction == "none" and input.dim() < 2:
        return losses.squeeze(0)
    return reduced(losses, reduction)


@composite(namespace="nn.functional")
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy of ``sigmoid(input)``, averaged over the classes.

    Args:
        input: ``(N, C)`` or ``(C,)``.
        target: zeros and ones, broadcastable.
        weight: factors of the classes.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns:
        A scalar, or without reduction ``(N,)``, for one sample 0-d.
    Raises:
        ValueError: an unknown reduction.
        RuntimeError: a target that does not broadcast.
    Gradient: ``weight * (sigmoid(input) - target) / C``, and by N for the mean.
    Source: torch.nn.functional.multilabel_soft_margin_loss.
    Example:
        >>> F.multilabel_soft_margin_loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.0]))  # log(2)
        tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    # log sigmoid(x) = min(x, 0) - log1p(exp(-|x|)); log sigmoid(-x) is that minus x
    positive = input.clamp_max(0) - input.abs().neg().exp().log1p()
    losses = -(target * positive + (1 - target) * (positive - input))
    if weight is not None:
        losses = losses * weight
    return reduced(losses.sum(-1) / input.size(-1), reduction)


@composite(namespace="nn.functional")
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    Args:
        input: ``(N, in_features)`` or ``(in_features,)``.
        linear_weight: ``(C, d1, ..., dK, in_features)``.
        target: int64 classes ``(N, d1, ..., dK)``, or probabilities ``(N, C, d1, ..., dK)``.
        linear_bias: ``(C, d1, ..., dK)`` or None.
        weight: of each class.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        ignore_index: class that does not count; -100 when None.
        label_smoothing: share of the target that is spread over all classes.
        options: a ``LinearCrossEntropyOptions``: how PyTorch cuts the batch to save memory. The loss is the same; here all scores are
            computed at once, whatever it says.
    Returns:
        A scalar, or without reduction ``(N, d1, ..., dK)``.
    Raises:
        RuntimeError: shapes that do not fit, or ``ignore_index`` with probabilities.
    Gradient: that of ``cross_entropy`` to the scores, through the product to ``input``, weight and bias.
    Source: torch.nn.functional.linear_cross_entropy.
    Example:
        >>> F.linear_cross_entropy(torch.ones(2, 3), torch.zeros(4, 3), torch.tensor([0, 3]))  # log(4)
        tensor(1.3863)
    """
    if not 1 <= input.ndim <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    width = input.shape[-1]
    if width != linear_weight.shape[-1]:
        raise RuntimeError(
            f"expected equal input and linear_weight last dimensions (in_features), got {width} and {linear_weight.shape[-1]}, respectively"
        )
    classes = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != classes:
        raise RuntimeError(f"expected linear_bias shape {classes}, got {tuple(linear_bias.shape)}")
    if len(classes) > 1 and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, (N, {width}), got "
            f"unbatched input with shape {tuple(input.shape)}"
        )
    scores_shape = (*input.shape[:-1], *classes)
    if tuple(target.shape) == scores_shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    scores = linear(input, linear_weight.flatten(0, -2), bias).reshape(scores_shape)
    return resolve("nn.functional", "cross_entropy")(
        scores,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
