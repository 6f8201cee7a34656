"""Records of connectionist temporal classification, against the sum over every alignment.

Targets one after the other are in ``tests/nn/test_ctc.py``: PyTorch reads them past their strides.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .record import Error, Record, call

F = "nn.functional."
_NOTE = "the derivative is right behind log_softmax only; tests/nn/test_ctc.py checks it there, and against PyTorch"


def _spelled(path: tuple[int, ...], blank: int) -> list[int]:
    """The labels that an alignment shows: repetitions and blanks left out."""
    return [label for label, _ in itertools.groupby(path) if label != blank]


def _probability(scores: Any, labels: Any, blank: int) -> float:
    paths = itertools.product(range(scores.shape[1]), repeat=scores.shape[0])
    return sum(np.exp(sum(scores[t, k] for t, k in enumerate(path))) for path in paths if _spelled(path, blank) == list(labels))


def _losses(scores: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, zero_infinity: bool = False) -> Any:
    sizes = np.asarray(target_lengths).reshape(-1)
    lengths = np.asarray(input_lengths).reshape(-1)
    targets = targets if targets.ndim == 2 else targets[None]
    with np.errstate(divide="ignore"):
        losses = -np.log(
            [_probability(scores[:length, n], targets[n][:size], blank) for n, (length, size) in enumerate(zip(lengths, sizes))]
        )
    return np.where(np.isinf(losses), 0, losses) if zero_infinity else losses


def _loss(scores: Any, targets: Any, *lengths: Any, blank: int = 0, reduction: Any = "mean", zero_infinity: bool = False) -> Any:
    batched = scores.ndim == 3
    losses = _losses(scores if batched else scores[:, None], targets, *lengths, blank, zero_infinity)
    if reduction in ("mean", 1):
        return (losses / np.maximum(np.asarray(lengths[1]).reshape(-1), 1)).mean()
    return losses.sum() if reduction in ("sum", 2) else losses if batched else losses[0]


def _samples(words: tuple[Any, ...]) -> Any:
    def samples(make: Any) -> list:
        raw = make(4, 3, 3).astype(np.float64)
        scores = (raw - np.log(np.exp(raw).sum(2, keepdims=True))).astype(make(1).dtype)
        targets = np.array([[1, 2, 1], [2, 2, 0], [1, 0, 0]])
        return [
            *[call(scores, targets, [4, 4, 3], [2, 2, 1], reduction=word) for word in words],
            call(scores, targets, np.array([4, 4, 3]), np.array([2, 2, 1]), reduction=words[1]),
            call(scores, targets - 1, [4, 3, 2], [0, 1, 1], blank=2, reduction=words[2]),
            call(scores, targets, [2, 2, 1], [3, 2, 1], reduction=words[0]),  # too short: infinite
            call(scores, targets, [2, 2, 1], [3, 2, 1], reduction=words[1], zero_infinity=True),
            call(scores[:, 0].copy(), np.array([1, 2]), [4], [2], reduction=words[1]),
            call(scores[:, 0].copy(), np.array([1, 2]), np.array(4), np.array(2), reduction=words[0]),
        ]

    return samples


def _wrong(scores: tuple[int, ...] = (4, 2, 3), targets: Any = ((1, 2), (2, 1)), lengths: Any = ([4, 4], [2, 2]), **options: Any) -> Any:
    return lambda make: call(make(*scores), np.array(targets), *lengths, **options)


_ERRORS = (
    Error(_wrong(blank=3), RuntimeError, "blank must be in label range"),
    Error(_wrong(lengths=([4], [2, 2])), RuntimeError, "input_lengths must be of size batch_size"),
    Error(_wrong(lengths=([4, 4], [2])), RuntimeError, "target_lengths must be of size batch_size"),
    Error(_wrong(lengths=([5, 4], [2, 2])), RuntimeError, "input_lengths to have value at most 4, but got value 5"),
    Error(_wrong(lengths=([-1, 4], [2, 2])), RuntimeError, "at least 0"),
    Error(_wrong(lengths=([4, 4], [3, 2])), RuntimeError, "size at least 3 at dimension 1"),
    Error(_wrong(targets=(1, 2, 2)), RuntimeError, "size 4 at dimension 0, but got size 3"),
    Error(_wrong(targets=((1, 2),)), RuntimeError, "size 2 at dimension 0, but got size 1"),
    Error(_wrong(targets=(((1, 2),),)), RuntimeError, "Expected 1 to 2 dimensions"),
    Error(_wrong(scores=(4, 0, 3), targets=(), lengths=((), ())), RuntimeError, "must not be empty"),
    Error(_wrong(lengths=(4, 2)), TypeError),
    Error(_wrong(lengths=(np.array([4.0, 4.0]), np.array([2, 2]))), RuntimeError, "must be integral"),
    Error(_wrong(), NotImplementedError, "not implemented for 'Half'", dtype="float16"),
)

RECORDS = [
    Record(
        F + "ctc_loss",
        _samples(("none", "mean", "sum")),
        _loss,
        ("float32", "float64"),
        (*_ERRORS, Error(_wrong(reduction="half"), ValueError, "not a valid value")),
        gradient=False,
        notes=_NOTE,
    ),
    Record("ctc_loss", _samples((0, 1, 2)), _loss, ("float32", "float64"), _ERRORS, gradient=False, notes=_NOTE),
]
