"""Losses that compare element by element: squared and absolute differences, cross entropies of probabilities, likelihoods."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ...autograd.grad_mode import no_grad
from ...core import dtype as dtypes
from ...core.arrays.kinds import kind_of, perhaps
from ...core.calls.annotations import Tensor
from ...core.calls.registry import Declare, composite, op, pointwise, resolve
from ...core.shape import broadcast_or_none
from ...core.state import grad_enabled
from ..activation import logsigmoid
from ..arithmetic import reject

REDUCTIONS = ("none", "mean", "sum")


def _slope(**options: Any) -> Declare:
    """Declare the gradient of a loss."""
    return pointwise(namespace="nn.functional", fast=True, **options)


def _reduced(**options: Any) -> Declare:
    """Declare a loss of two operands that broadcast."""
    return op(namespace="nn.functional", promotion="default", broadcasts=True, elementwise=False, fast=True, batch="reduced", **options)


def reduction_of(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The reduction to use, after the legacy arguments, which win where given.

    Raises:
        ValueError: none of 'none', 'mean' and 'sum'.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def legacy_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """Value of ``reduction`` for ``size_average`` and ``reduce``; warns that they are old."""
    kind = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{kind}' instead.", UserWarning, stacklevel=5)
    return kind


def reduced(loss: Any, reduction: str) -> Any:
    """A tensor of losses after the reduction."""
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def reduced_array(loss: np.ndarray, reduction: str) -> np.ndarray:
    """An array of losses after the reduction."""
    if reduction == "none":
        return loss
    total = np.add.reduce(loss, axis=None)
    return np.divide(total, loss.dtype.type(loss.size)) if reduction == "mean" else total


def share(grad: Any, count: int, reduction: str) -> Any:
    """The gradient that arrives at each of ``count`` losses."""
    return grad / count if reduction == "mean" else grad


def _numel(first: Any, second: Any) -> int:
    """Number of losses, by which their gradient is divided; 1 if there are none, and no gradient."""
    a, b = tuple(first.shape), tuple(second.shape)
    return max(math.prod(a if a == b else np.broadcast_shapes(a, b)), 1)


def broadcast_alike(input: Any, target: Any) -> Any:
    """Both in one shape, with a warning where they have not had it: a number in a tensor then promotes as one with dimensions."""
    if target._array.shape != input._array.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will likely lead to "
            "incorrect results due to broadcasting. Please ensure they have the same size.",
            UserWarning,
            stacklevel=4,
        )
    if input.dtype is target.dtype or (input._array.ndim and target._array.ndim):
        return input, target
    return resolve("torch", "broadcast_tensors")(input, target)


def _weighted(loss: Any, input: Any, weight: Any, reduction: str) -> Any:
    """Losses (not reduced yet) times ``weight``, with the mean over the weights.

    Raises:
        ValueError: a weight of another size.
    """
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction)


# -- differences -----------------------------------------------------------------------------------------------------------------
@_slope(
    name="_mse_loss_backward",
    grad={
        "input": lambda grad, grad_output, factor: grad * (grad_output * factor),
        "target": lambda grad, grad_output, factor: grad * (grad_output * -factor),
        "grad_output": lambda grad, input, target, factor: grad * (input - target) * factor,
    },
)
def squared_slope(input: Tensor, target: Tensor, grad_output: Tensor, factor: float) -> Tensor:
    """``(input - target) * grad_output * factor``."""
    return np.multiply(np.subtract(input, target), np.multiply(grad_output, factor))


def _mse_rule(grad: Any, input: Any, target: Any, reduction: str, needs: Any) -> Any:
    to_input = squared_slope(input, target, grad, 2 / _numel(input, target) if reduction == "mean" else 2.0)
    return to_input if needs[0] else None, -to_input if needs[1] else None


@_reduced(name="_mse_loss", grad={"input, target": _mse_rule})
def squared_loss(input: Tensor, target: Tensor, reduction: str) -> Tensor:
    """Squared differences, reduced."""
    reject("mse_cpu", input, "iubc")
    apart = np.subtract(input, target)
    return reduced_array(np.multiply(apart, apart), reduction)


@composite(namespace="nn.functional", autocast="float32")
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Mean of squared differences.

    Args:
        input, target: broadcastable; a warning where their shapes differ.
        size_average, reduce: old forms of ``reduction``.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
        weight: factor of each squared difference, of ``input``'s shape; the mean is then over the weights.
    Returns:
        A scalar, or without reduction the broadcast shape.
    Raises:
        ValueError: an unknown reduction, or a weight of another size.
        RuntimeError: shapes that do not broadcast.
        NotImplementedError: integers and bools.
    Gradient: ``2 (input - target) / n``.
    Source: torch.nn.functional.mse_loss.
    Example:
        >>> F.mse_loss(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
        tensor(5.)
        >>> F.mse_loss(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]), reduction="none")
        tensor([1., 9.])
    """
    if reduction != "mean" or size_average is not None or reduce is not None:
        reduction = reduction_of(reduction, size_average, reduce)
    if target._array.shape != input._array.shape:
        input, target = broadcast_alike(input, target)
    if weight is not None:
        return _weighted(squared_loss(input, target, "none"), input, weight, reduction)
    return squared_loss(input, target, reduction)


@composite(namespace="nn.functional", autocast="float32")
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Mean of absolute differences.

    Args:
        input, target: broadcastable; a warning where their shapes differ.
        size_average, reduce, reduction, weight: as for ``mse_loss``.
    Returns:
        A scalar, or without reduction the broadcast shape.
    Raises:
        ValueError: an unknown reduction, or a weight of another size.
        RuntimeError: shapes that do not broadcast.
    Gradient: ``sign(input - target) / n``.
    Source: torch.nn.functional.l1_loss.
    Example:
        >>> F.l1_loss(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
        tensor(2.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = broadcast_alike(input, target)
    loss = (input - target).abs()
    return reduced(loss, reduction) if weight is None else _weighted(loss, input, weight, reduction)


def _within(input: Any, target: Any, delta: float) -> Any:
    apart = input - target
    return (apart >= -delta) & (apart <= delta)


@_slope(
    name="_huber_loss_backward",
    grad={
        "input": lambda grad, input, target, grad_output, delta, factor: grad * (grad_output * factor) * _within(input, target, delta),
        "target": lambda grad, input, target, grad_output, delta, factor: grad * (grad_output * -factor) * _within(input, target, delta),
        "grad_output": lambda grad, input, target, delta, factor: grad * (input - target).clamp(-delta, delta) * factor,
    },
)
def bounded_slope(input: Tensor, target: Tensor, grad_output: Tensor, delta: float, factor: float) -> Tensor:
    """``input - target``, between ``-delta`` and ``delta``, times ``grad_output * factor``."""
    return np.multiply(np.minimum(np.maximum(np.subtract(input, target), -delta), delta), np.multiply(grad_output, factor))


def _huber_rule(grad: Any, input: Any, target: Any, reduction: str, delta: float, scale: float, needs: Any) -> Any:
    factor = scale / _numel(input, target) if reduction == "mean" else float(scale)
    to_input = bounded_slope(input, target, grad, float(delta), factor)
    return to_input if needs[0] else None, -to_input if needs[1] else None


def bounded_loss(input: Tensor, target: Tensor, reduction: str, delta: float, scale: float) -> Tensor:
    """Squared differences that go on linearly from ``delta`` on, times ``scale``, reduced."""
    """``scale * (apart**2 / 2)`` below ``delta``, ``scale * delta * (|apart| - delta / 2)`` from there on."""
    reject("huber_cpu", input, "iubc")
    apart = np.abs(np.subtract(input, target))
    low = np.minimum(apart, apart.dtype.type(delta))
    return reduced_array(low * (apart - low * apart.dtype.type(0.5)) * apart.dtype.type(scale), reduction)


_BOUNDED: dict[str, Any] = {
    name: _reduced(name="_" + name, grad={"input, target": _huber_rule})(bounded_loss) for name in ("huber_loss", "smooth_l1_loss")
}


@composite(namespace="nn.functional", autocast="float32")
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Squared differences ``d**2 / (2 beta)`` below ``beta``, absolute ones ``|d| - beta / 2`` from there on.

    Args:
        input, target: broadcastable; a warning where their shapes differ.
        size_average, reduce, reduction: as for ``mse_loss``.
        beta: where the one turns into the other; 0 gives ``l1_loss``.
    Returns:
        A scalar, or without reduction the broadcast shape.
    Raises:
        RuntimeError: a negative ``beta``, or shapes that do not broadcast.
        ValueError: an unknown reduction.
    Gradient: ``d / beta`` below ``beta``, ``sign(d)`` from there on; by n for the mean.
    Source: torch.nn.functional.smooth_l1_loss. Girshick 2015, "Fast R-CNN", equation 3.
    Example:
        >>> F.smooth_l1_loss(torch.tensor([0.5, 3.0]), torch.zeros(2), reduction="none")
        tensor([0.1250, 2.5000])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = broadcast_alike(input, target)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    if beta == 0:
        return reduced((input - target).abs(), reduction)
    return _BOUNDED["smooth_l1_loss"].wrapper(input, target, reduction, beta, 1 / beta)


@composite(namespace="nn.functional", autocast="float32")
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Squared differences ``d**2 / 2`` below ``delta``, ``delta (|d| - delta / 2)`` from there on.

    Args:
        input, target: broadcastable; a warning where their shapes differ.
        reduction, weight: as for ``mse_loss``.
        delta: where the one turns into the other; positive.
    Returns:
        A scalar, or without reduction the broadcast shape; ``input``'s dtype.
    Raises:
        RuntimeError: ``delta`` not positive; losses that ``input``'s dtype cannot hold.
        ValueError: an unknown reduction.
        NotImplementedError: integers and bools.
    Gradient: ``d`` below ``delta``, ``delta sign(d)`` from there on; by n for the mean.
    Source: torch.nn.functional.huber_loss. Huber 1964.
    Example:
        >>> F.huber_loss(torch.tensor([0.5, 3.0]), torch.zeros(2), reduction="none", delta=2.0)
        tensor([0.1250, 4.0000])
    """
    reduction = reduction_of(reduction)
    input, target = broadcast_alike(input, target)
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}")
    common = dtypes.promote_types(input.dtype, target.dtype)
    if not dtypes.can_cast(common, input.dtype):
        raise RuntimeError(f"result type {common.legacy} can't be cast to the desired output type {input.dtype.legacy}")
    wrapper = _BOUNDED["huber_loss"].wrapper
    if weight is not None:
        return _weighted(wrapper(input, target, "none", delta, 1.0), input, weight, reduction)
    result = wrapper(input, target, reduction, delta, 1.0)
    return result if result.dtype is input.dtype else result.to(input.dtype)


# -- binary cross entropy ----------------------------------------------------------------------------------------------------------
def _apart_from_zero(input: Any) -> Any:
    """``input (1 - input)`` as PyTorch keeps it from 0 in second derivatives."""
    return (input + 1e-12) * (1 - input + 1e-12)


def _bce_second(grad: Any, input: Any, target: Any, grad_output: Any) -> Any:
    spread = _apart_from_zero(input)
    return grad * grad_output * (input * input - 2 * input * target + target) / (spread * spread)


@_slope(
    name="_binary_cross_entropy_backward",
    grad={
        "input": _bce_second,
        "target": lambda grad, input, grad_output: -grad * grad_output / ((1 - input) * input).clamp_min(1e-12),
        "grad_output": lambda grad, input, target: grad * (input - target) / _apart_from_zero(input),
    },
)
def probability_slope(input: Tensor, target: Tensor, grad_output: Tensor) -> Tensor:
    """``(input - target) / (input (1 - input)) * grad_output``."""
    spread = np.maximum(np.multiply(np.subtract(1, input), input), 1e-12)
    return np.multiply(np.divide(np.subtract(input, target), spread), grad_output)


def _bce_rule(grad: Any, input: Any, target: Any, weight: Any, reduction: str, needs: Any) -> Any:
    grad = share(grad, input.numel(), reduction)
    if weight is not None:
        grad = grad * weight
    to_input = probability_slope(input, target, grad) if needs[0] else None
    to_target = ((1 - input).log() - input.log()) * grad if needs[1] else None
    return to_input, to_target


@op(
    name="_binary_cross_entropy", namespace="nn.functional", promotion="same", fast=True, batch="reduced", grad={"input, target": _bce_rule}
)
def probability_loss(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """``-target log(input) - (1 - target) log(1 - input)``, times ``weight``, reduced."""
    reject("binary_cross_entropy", input, "biuc")
    for name, array in (("input", input), ("target", target)):
        if array.size and kind_of(array).has_values and not (array.min() >= 0 and array.max() <= 1):  # nor NaN
            raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    floor = input.dtype.type(-100)  # log 0 would make the loss infinite and its gradient NaN
    loss = (target - 1) * np.maximum(np.log1p(-input), floor) - target * np.maximum(np.log(input), floor)
    return reduced_array(loss if weight is None else loss * weight, reduction)


@composite(namespace="nn.functional", autocast={"cpu": "float32", "cuda": "banned"})
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-target log(input) - (1 - target) log(1 - input)``, the logarithms being at least -100.

    Args:
        input: probabilities, any shape.
        target: of ``input``'s shape, between 0 and 1.
        weight: factors, broadcastable to ``input``.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns:
        A scalar in nats, or without reduction ``input``'s shape.
    Raises:
        ValueError: another target size, or an unknown reduction.
        RuntimeError: elements outside [0, 1], or another dtype.
    Gradient: ``(input - target) / (input (1 - input))``, the divisor being at least 1e-12; by n for the mean.
    Source: torch.nn.functional.binary_cross_entropy.
    Example:
        >>> F.binary_cross_entropy(torch.tensor([0.5, 0.0]), torch.tensor([1.0, 1.0]), reduction="none")
        tensor([  0.6931, 100.0000])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated. Please ensure "
            "they have the same size."
        )
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {target.dtype.legacy} but expected {input.dtype.legacy}: target of binary_cross_entropy")
    if weight is not None:
        weight = weight.expand(tuple(np.broadcast_shapes(tuple(weight.shape), tuple(input.shape))))
    return probability_loss(input, target, weight, reduction)


def _logit_second(grad: Any, input: Any, grad_output: Any) -> Any:
    p = input.sigmoid()
    return grad * grad_output * p * (1 - p)


@_slope(
    name="_binary_cross_entropy_with_logits_backward",
    grad={
        "input": _logit_second,
        "target": lambda grad, grad_output: -grad * grad_output,
        "grad_output": lambda grad, input, target: grad * (input.sigmoid() - target),
    },
)
def logit_slope(input: Tensor, target: Tensor, grad_output: Tensor) -> Tensor:
    """``(sigmoid(input) - target) * grad_output``."""
    return np.multiply(np.subtract(np.divide(1, np.add(1, np.exp(np.negative(input)))), target), grad_output)


def _bce_logits_rule(grad: Any, input: Any, target: Any, weight: Any, pos_weight: Any, reduction: str, needs: Any) -> Any:
    shape = tuple(np.broadcast_shapes(*[tuple(e.shape) for e in (input, target, weight, pos_weight) if e is not None]))
    grad = share(grad, math.prod(shape), reduction)
    if weight is not None:
        grad = grad * weight
    to_input = to_target = None
    if needs[0]:
        if pos_weight is None:
            to_input = logit_slope(input, target, grad)
        else:
            positive = pos_weight * target
            to_input = ((positive + 1 - target) * input.sigmoid() - positive) * grad
    if needs[1]:
        to_target = -input * grad
        if pos_weight is not None:
            to_target = to_target + (input.abs().neg().exp().log1p() + (-input).clamp_min(0)) * (pos_weight - 1) * grad
    return to_input, to_target


@_reduced(name="_binary_cross_entropy_with_logits", grad={"input, target": _bce_logits_rule})
def logit_loss(input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: str) -> Tensor:
    """Binary cross entropy of ``sigmoid(input)``, reduced."""
    reject("binary_cross_entropy_with_logits", input, "iub")
    # log(1 + exp(-x)) = log1p(exp(-|x|)) + max(-x, 0): exp never overflows
    tail = np.log1p(np.exp(-np.abs(input))) + np.maximum(-input, 0)
    if pos_weight is not None:
        tail = tail * ((pos_weight - 1) * target + 1)
    loss = (1 - target) * input + tail
    return reduced_array(loss if weight is None else loss * weight, reduction)


@composite(namespace="nn.functional", autocast="float32")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """``binary_cross_entropy`` of ``sigmoid(input)``, computed without overflow or loss of digits.

    Args:
        input: any shape, any real numbers, floating point.
        target: of ``input``'s shape, floating point or complex.
        weight: factors of the losses, broadcastable to ``input``.
        size_average, reduce, reduction: as for ``mse_loss``.
        pos_weight: factors of the positive part, broadcastable to ``input``.
    Returns:
        A scalar in nats, or without reduction ``input``'s shape; of ``target``'s dtype.
    Raises:
        ValueError: another target size, or an unknown reduction.
        RuntimeError: an integer target.
        NotImplementedError: an input that is not floating point.
    Gradient: ``(sigmoid(input) - target) / n``.
    Source: torch.nn.functional.binary_cross_entropy_with_logits.
    Example:
        >>> F.binary_cross_entropy_with_logits(torch.tensor([0.0, -1000.0]), torch.tensor([1.0, 1.0]), reduction="none")
        tensor([6.9315e-01, 1.0000e+03])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    if not input.is_floating_point():
        raise NotImplementedError(f"\"log_sigmoid_cpu\" not implemented for '{input.dtype.legacy}'")
    if target.is_complex():  # of no meaning as a probability, but defined
        log = logsigmoid(input)
        loss = (1 - target) * input - (log if pos_weight is None else log * ((pos_weight - 1) * target + 1))
        return reduced((loss if weight is None else loss * weight).to(target.dtype), reduction)
    if not target.is_floating_point():
        raise RuntimeError(f"result type {input.dtype.legacy} can't be cast to the desired output type {target.dtype.legacy}")
    loss = logit_loss(input, target, weight, pos_weight, reduction)
    return loss if loss.dtype is target.dtype else loss.to(target.dtype)


# -- likelihoods ---------------------------------------------------------------------------------------------------------------------
@composite(namespace="nn.functional", autocast="float32", in_library=True)
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``target (log(target) - input)``: the divergence of ``exp(input)`` from ``target``.

    Args:
        input: log-probabilities, any shape.
        target: probabilities, or their logarithms with ``log_target``; broadcastable.
        size_average, reduce: old forms of ``reduction``.
        reduction: ``'none'``, ``'mean'`` (over all elements), ``'batchmean'`` (the sum by the size of the first dimension) or ``'sum'``.
        log_target: whether ``target`` holds logarithms.
    Returns:
        A scalar in nats, or without reduction the broadcast shape.
    Raises:
        ValueError: an unknown reduction.
        RuntimeError: shapes that do not broadcast.
    Gradient: ``-target`` to ``input``, ``log(target) + 1 - input`` to ``target``; by n for the mean.
    Source: torch.nn.functional.kl_div. Kullback and Leibler 1951.
    Example:
        >>> even, sure = torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]])
        >>> F.kl_div(even.log(), sure, reduction="batchmean")  # log(2)
        tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    elif reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides only by the batch "
            "size, and aligns with the KL div math definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release.",
            UserWarning,
            stacklevel=3,
        )
    elif reduction != "batchmean":
        reduction = reduction_of(reduction)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        product = target * input  # first, so that gradients are added up in PyTorch's order
        loss = target.xlogy(target) - product
    if reduction == "batchmean":
        return loss.sum() / input.size(0) if input.dim() else loss.sum()
    return reduced(loss, reduction)


@composite(namespace="nn.functional", autocast="float32", in_library=True)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of counts under Poisson distributions, without ``log(target!)``.

    Args:
        input: logarithms of the expected counts, or the expected counts.
        target: counts, broadcastable to ``input``'s shape.
        log_input: whether ``input`` holds logarithms.
        full: add Stirling's approximation of ``log(target!)`` where ``target > 1``.
        eps: added to expected counts before their logarithm.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns:
        A scalar, or without reduction the broadcast shape.
    Raises:
        ValueError: an unknown reduction.
        RuntimeError: shapes that do not broadcast.
    Gradient: ``exp(input) - target``, or ``1 - target / (input + eps)`` where ``input`` holds counts; by n for the mean.
    Source: torch.nn.functional.poisson_nll_loss.
    Example:
        >>> F.poisson_nll_loss(torch.tensor([0.0, 1.0]), torch.tensor([3.0, 3.0]), reduction="none")
        tensor([ 1.0000, -0.2817])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    product = target * (input if log_input else (input + eps).log())  # first, so that gradients are added up in PyTorch's order
    loss = (input.exp() if log_input else input) - product
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced(loss, reduction)


@composite(namespace="nn.functional")
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """Negative log likelihood of ``target`` under normal distributions: ``(log(var) + (input - target)**2 / var) / 2``.

    Args:
        input: expectations, any shape.
        target: observations, broadcastable to ``input``.
        var: variances: a number, ``input``'s shape, or that with a last dimension of 1 or without it.
        full: add the constant ``log(2 pi) / 2``.
        eps: least variance; no gradient goes through this bound.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
    Returns:
        A scalar, or without reduction ``input``'s shape.
    Raises:
        ValueError: negative variances, a size that does not fit, or an unknown reduction.
    Gradient: ``(input - target) / var``, and ``(1 - (input - target)**2 / var) / (2 var)`` to ``var``; by n for the mean.
    Source: torch.nn.functional.gaussian_nll_loss. Nix and Weigend 1994.
    Example:
        >>> F.gaussian_nll_loss(torch.tensor([0.0, 0.0]), torch.tensor([2.0, 2.0]), torch.tensor([1.0, 4.0]), reduction="none")
        tensor([2.0000, 1.1931])
    """
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * resolve("torch", "ones_like")(input)
    elif perhaps((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if tuple(input.size()[:-1]) == tuple(var.size()):
            var = var.unsqueeze(-1)
        elif var.dim() and not (tuple(input.size()[:-1]) == tuple(var.size()[:-1]) and var.size(-1) == 1):
            if len(var.shape) != len(input.shape) or broadcast_or_none(tuple(var.shape), tuple(input.shape)) is None:
                raise ValueError("var is of incorrect size")
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


@composite(namespace="nn.functional", autocast="float32")
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """``log(1 + exp(-target * input))`` for targets of 1 and -1.

    Args:
        input: any shape, floating point or complex.
        target: broadcast to it.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns:
        A scalar, or without reduction ``input``'s shape.
    Raises:
        RuntimeError: a target that has to be differentiated, or that is larger than ``input``; an integer ``input``, or one that is real
            where ``target`` is complex.
        ValueError: an unknown reduction.
    Gradient: ``-target * sigmoid(-target * input)``, by n for the mean.
    Source: torch.nn.functional.soft_margin_loss.
    Example:
        >>> F.soft_margin_loss(torch.tensor([0.0, 3.0, -3.0]), torch.tensor([1.0, 1.0, 1.0]), reduction="none")
        tensor([0.6931, 0.0486, 3.0486])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if target.requires_grad and grad_enabled():
        raise RuntimeError(
            "The function 'soft_margin_loss' is not differentiable with respect to argument 'target'. This input "
            "cannot have requires_grad True."
        )
    kind, exponent = input.dtype, -input * target
    if exponent.shape != input.shape:
        raise RuntimeError(f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(exponent.shape)}")
    if exponent.dtype.is_complex > kind.is_complex or not (kind.is_complex or kind.is_floating_point):
        raise RuntimeError(f"result type {exponent.dtype.legacy} can't be cast to the desired output type {kind.legacy}")
    if exponent.dtype is not kind:
        exponent = exponent.to(kind)
    return reduced(exponent.exp().log1p(), reduction)
