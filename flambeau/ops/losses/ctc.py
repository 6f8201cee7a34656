"""Connectionist temporal classification: how likely scores over time spell a sequence of labels.

The states of an alignment are the labels with a blank around each of them. From one time step to the next an alignment stays, moves on
by one state, or by two where the blank between two different labels is left out:

    labels    a b         states    - a - b -

``alpha[t, s]`` is the logarithm of the probability of all alignments that have reached state s at time t; ``beta`` is that of what is left
from there on. All samples and states take a time step together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays import native
from ...core.calls.annotations import Tensor
from ...core.calls.registry import composite, op
from ...core.tensor import Tensor as TensorClass
from ..sorting import complain_derivative
from .loss import REDUCTIONS, reduction_of

Lengths = tuple[int, ...]


# -- alignments --------------------------------------------------------------------------------------------------------------------
def _states(targets: np.ndarray, target_lengths: Lengths, blank: int) -> np.ndarray:
    """The states of each sample, ``(N, 2 * longest + 1)``; what lies behind the last one is never reached."""
    longest = max(target_lengths, default=0)
    labels = np.full((len(target_lengths), longest), blank)
    if targets.ndim == 2:
        inside = np.arange(longest) < np.array(target_lengths)[:, None]
        labels[inside] = targets[:, :longest][inside]
    else:
        start = 0
        for row, length in zip(labels, target_lengths, strict=True):
            row[:length] = targets[start : start + length]
            start += length
    states = np.full((len(target_lengths), 2 * longest + 1), blank)
    states[:, 1::2] = labels
    return states


def _log_sum(stay: np.ndarray, next_: np.ndarray, skip: np.ndarray) -> np.ndarray:
    """``log(exp(stay) + exp(next_) + exp(skip))``; minus infinity where all are."""
    highest = np.maximum(np.maximum(stay, next_), skip)
    base = np.where(np.isneginf(highest), 0, highest)
    total = np.exp(stay - base)
    total += np.exp(next_ - base)
    total += np.exp(skip - base)
    return np.log(total) + base


def _skips(states: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Terms for reaching each state from the one before the last: 0, or minus infinity if that is not allowed."""
    skips = np.zeros(states.shape, dtype)
    skips[:, 2:][states[:, 2:] == states[:, :-2]] = -np.inf
    return skips


def _ends(states: np.ndarray, target_lengths: Lengths) -> tuple[np.ndarray, np.ndarray]:
    """The two states in which an alignment may end: the last blank and the last label (the blank again where there is no label)."""
    last = 2 * np.array(target_lengths, np.int64)
    return last, np.maximum(last - 1, 0)


@op(
    name="_ctc_loss_backward",
    fast=True,
    grad={"grad_output, log_probs": lambda grad, needs: complain_derivative("aten::_ctc_loss_backward")},
    aten=None,
)
def ctc_loss_backward(
    grad_output: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    neg_log_likelihood: Tensor,
    log_alpha: Tensor,
    blank: int,
    zero_infinity: bool,
) -> Tensor:
    """``exp(log_probs)`` minus the share of alignments that show each class at each time, times ``grad_output``."""
    steps, batch, classes = log_probs.shape
    states = _states(targets, target_lengths, blank)
    emitted = np.take_along_axis(log_probs, np.broadcast_to(states, (steps, *states.shape)), 2)
    onward = np.zeros(states.shape, log_probs.dtype)
    onward[:, :-2] = _skips(states, log_probs.dtype)[:, 2:]
    samples, lengths = np.arange(batch), np.array(input_lengths)
    blanks, labels = _ends(states, target_lengths)
    # two states more than there are, which nothing reaches
    beta = np.full((batch, states.shape[1] + 2), -np.inf, log_probs.dtype)
    shares = np.full(emitted.shape, -np.inf, log_probs.dtype)
    for t in reversed(range(steps)):
        beta[:, :-2] = _log_sum(beta[:, :-2], beta[:, 1:-1], beta[:, 2:] + onward)
        ending = samples[lengths == t + 1]
        beta[ending, blanks[ending]] = beta[ending, labels[ending]] = 0
        np.add(np.swapaxes(log_alpha, 0, 1)[t], beta[:, :-2], out=shares[t])
        beta[:, :-2] += emitted[t]
    shares = np.exp(shares + neg_log_likelihood[:, None])
    places = (np.arange(steps * batch).reshape(steps, batch, 1) * classes + states).reshape(-1)
    by_class = np.bincount(places, weights=shares.reshape(-1), minlength=log_probs.size).reshape(log_probs.shape)
    gradient = np.exp(log_probs)
    gradient -= by_class.astype(gradient.dtype)
    gradient *= grad_output.reshape(-1, 1)
    impossible = np.isposinf(neg_log_likelihood)
    gradient[:, impossible] = 0 if zero_infinity else np.nan
    gradient[np.arange(steps)[:, None] >= lengths] = 0
    return gradient


@native.part("_ctc_alignments", work="len(log_probs) * states.size")
def _alignments(log_probs: np.ndarray, states: np.ndarray, skips: np.ndarray) -> np.ndarray:
    """``alpha``, ``(N, T, states)``."""
    steps, batch, _ = log_probs.shape
    emitted = np.take_along_axis(log_probs, np.broadcast_to(states, (steps, *states.shape)), 2)
    alphas = np.empty((batch, *emitted.shape[::2]), log_probs.dtype)
    # Two states before the first. Everything is in the second of them at first, from where the first blank and the first label are near.
    alpha = np.full((batch, states.shape[1] + 2), -np.inf, log_probs.dtype)
    alpha[:, 1] = 0
    for t in range(steps):
        alpha[:, 2:] = _log_sum(alpha[:, 2:], alpha[:, 1:-1], alpha[:, :-2] + skips)
        alpha[:, 1] = -np.inf
        alpha[:, 2:] += emitted[t]
        alphas[:, t] = alpha[:, 2:]
    return alphas


@op(
    name="_ctc_loss",
    multi_output=True,
    fast=True,
    grad={
        "log_probs": lambda grad, log_probs, targets, input_lengths, target_lengths, result0, result1, blank, zero_infinity: (
            ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, result0, result1, blank, zero_infinity)
        )
    },
    aten=None,
)
def _ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, zero_infinity: bool = False
) -> Tensor:
    """The loss of each sample, and ``alpha``, ``(N, T, states)``."""
    input_lengths, target_lengths = tuple(input_lengths), tuple(target_lengths)
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    _, batch, classes = log_probs.shape
    states = _states(targets, target_lengths, blank)
    if states.min() < 0 or states.max() >= classes:
        wrong = states[(states < 0) | (states >= classes)]
        raise RuntimeError(f"ctc_loss: expected labels from 0 to {classes - 1}, got {int(wrong[0])}")
    skips = _skips(states, log_probs.dtype)
    alphas = _alignments(log_probs, states, skips)
    samples, last = np.arange(batch), np.array(input_lengths) - 1
    at_blank, at_label = (alphas[samples, np.maximum(last, 0), end] for end in _ends(states, target_lengths))
    lengths = np.array(target_lengths)
    likelihood = np.where(lengths == 0, at_blank, np.logaddexp(at_blank, at_label))
    likelihood = np.where(last < 0, np.where(lengths == 0, 0, -np.inf), likelihood)
    return np.negative(likelihood).astype(log_probs.dtype, copy=False), alphas


# -- checks ------------------------------------------------------------------------------------------------------------------------
def _check(log_probs: Any, targets: Any, input_lengths: Lengths, target_lengths: Lengths, blank: int) -> None:
    """Raise what is wrong with the arguments, in PyTorch's words.

    Raises:
        RuntimeError: sizes or lengths that do not fit, or a blank that is no class.
        NotImplementedError: another dtype than float32 and float64.
    """
    within = "(while checking arguments for ctc_loss_allocate_outputs)"
    if log_probs.size == 0:
        raise RuntimeError("log_probs tensor must not be empty")
    if log_probs.ndim != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {log_probs.ndim}-dimensional tensor for argument #1 'log_probs' {within}"
        )
    if log_probs.dtype not in (np.float32, np.float64):
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{dtypes.of_array(log_probs).legacy}'")
    steps, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if len(lengths) != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
        if min(lengths) < 0:
            raise RuntimeError(f"Expected {name} to have value at least 0, but got value {min(lengths)} {within}")
    if targets.ndim not in (1, 2):
        raise RuntimeError(f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument #2 'targets' {within}")
    wanted = sum(target_lengths) if targets.ndim == 1 else batch
    if targets.shape[0] != wanted:
        raise RuntimeError(
            f"Expected tensor to have size {wanted} at dimension 0, but got size {targets.shape[0]} for argument #2 'targets' {within}"
        )
    if targets.ndim == 2 and targets.shape[1] < max(target_lengths):
        raise RuntimeError(
            f"Expected tensor to have size at least {max(target_lengths)} at dimension 1, but got size {targets.shape[1]} for argument #2 "
            f"'targets' {within}"
        )
    if max(input_lengths) > steps:
        raise RuntimeError(f"Expected input_lengths to have value at most {steps}, but got value {max(input_lengths)} {within}")


def _lengths(name: str, lengths: Any) -> Lengths:
    if not isinstance(lengths, TensorClass):
        return tuple(lengths)
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype is dtypes.bool_:
        raise RuntimeError(f"{name} must be integral")
    return tuple(lengths.reshape(-1).tolist())


def _loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, reduction: str, zero_infinity: bool) -> Any:
    for given in (input_lengths, target_lengths):
        if not isinstance(given, (TensorClass, list, tuple)) or isinstance(given, TensorClass) != isinstance(input_lengths, TensorClass):
            raise TypeError(
                "ctc_loss(): input_lengths and target_lengths must be two tensors or two sequences of ints, not "
                f"{type(input_lengths).__name__} and {type(target_lengths).__name__}"
            )
    batched = log_probs.dim() == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
    input_lengths, target_lengths = _lengths("input_lengths", input_lengths), _lengths("target_lengths", target_lengths)
    losses = _ctc_loss(log_probs, targets.to(dtypes.int64), input_lengths, target_lengths, blank, zero_infinity)[0]
    if zero_infinity:
        losses = losses.where(losses != float("inf"), losses.new_zeros(()))
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":  # the mean over the samples of the loss per label
        return (losses / losses.new_tensor([max(length, 1) for length in target_lengths])).mean()
    return losses if batched else losses.squeeze(0)


@composite(method=False, autocast={"cpu": "float32"})
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """:func:`torch.nn.functional.ctc_loss` with a number for the reduction.

    Args:
        log_probs: ``(T, N, C)`` or ``(T, C)``, log-probabilities of classes at each time.
        targets: ``(N, S)``, or all sequences one after the other.
        input_lengths, target_lengths: time steps and labels of each sample; a tensor or a sequence.
        blank: the class that stands for no label.
        reduction: 0 for none, 1 for the mean, 2 for the sum.
        zero_infinity: count samples without any alignment as zero, in the gradient too.
    Returns:
        A scalar in nats, or without reduction ``(N,)``.
    Raises:
        RuntimeError: sizes or lengths that do not fit.
    Gradient: that of ``nn.functional.ctc_loss``.
    Source: torch.ctc_loss.
    Example:
        >>> even = torch.zeros(2, 1, 2).log_softmax(-1)  # 3 of 4 paths show one label: -log(3 / 4)
        >>> torch.ctc_loss(even, torch.tensor([[1]]), [2], [1])
        tensor([0.2877])
    """
    return _loss(log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS[reduction], zero_infinity)


@composite(name="ctc_loss", namespace="nn.functional", autocast={"cpu": "float32"})
def functional_ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the logarithm of the probability of all alignments of ``targets`` with the scores: connectionist temporal classification.

    Args:
        log_probs: ``(T, N, C)`` or ``(T, C)``, log-probabilities of classes at each time.
        targets: ``(N, S)``, or all sequences one after the other, ``(sum of target_lengths,)``; classes other than ``blank``.
        input_lengths: how many time steps of each sample count, at most ``T``; a tensor or a sequence.
        target_lengths: how many labels each sample has; likewise.
        blank: the class that stands for no label.
        reduction: ``'none'``, ``'sum'``, or ``'mean'``: each loss divided by its number of labels, then the mean over the samples.
        zero_infinity: count samples without any alignment as zero, in the gradient too.
    Returns:
        A scalar, or without reduction ``(N,)``.
    Raises:
        ValueError: an unknown reduction.
        RuntimeError: sizes or lengths that do not fit, or a label that is no class.
    Gradient: ``exp(log_probs)`` minus the share of alignments that show each class: right for log-probabilities that come from
        ``log_softmax``. It cannot be differentiated again.
    Source: torch.nn.functional.ctc_loss. Graves et al. 2006.
    Example:
        >>> even = torch.zeros(2, 1, 2).log_softmax(-1)
        >>> F.ctc_loss(even, torch.tensor([[1]]), [2], [1])  # 3 of 4 paths: -log(3 / 4)
        tensor(0.2877)
        >>> F.ctc_loss(even, torch.tensor([[1, 1]]), [2], [2], reduction="none")  # needs a blank between
        tensor([inf])
    """
    return _loss(log_probs, targets, input_lengths, target_lengths, blank, reduction_of(reduction, None, None), zero_infinity)
