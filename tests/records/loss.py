"""Records of losses, embeddings and functional dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from .record import Error, Record, call

F = "nn.functional."
FLOATS = ("float32", "float64", "bfloat16")
_REDUCTIONS = ("mean", "sum", "none")


def _reduced(loss: Any, reduction: str) -> Any:
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _pairs(make: Any) -> list:
    return [call(make(3, 4), make(3, 4), reduction=reduction) for reduction in _REDUCTIONS]


def _pairwise(name: str, formula: Any, **options: Any) -> Record:
    """Record of a loss of two tensors of one shape."""
    return Record(
        F + name,
        _pairs,
        lambda x, y, reduction="mean": _reduced(formula(x, y), reduction),
        FLOATS,
        (Error(lambda make: call(make(2), make(2), reduction="half"), ValueError, "not a valid value"),),
        **options,
    )


def _targets(make: Any) -> list:
    scores, labels = make(4, 3), make.integers(4, high=3)
    images, pixels = make(2, 3, 2, 2), make.integers(2, 2, 2, high=3)
    ignored = np.where(np.arange(4) == 1, -100, labels)
    return [
        *[call(scores, labels, reduction=reduction) for reduction in _REDUCTIONS],
        call(scores, ignored),
        call(scores, labels, ignore_index=1, reduction="none"),
        call(images, pixels),
        call(scores[0], np.asarray(labels[0])),
    ]


def _likelihood(log: Any, labels: Any, reduction: str = "mean", ignore_index: int = -100) -> Any:
    log = log if log.ndim > 1 else log[None]
    labels = np.asarray(labels)
    flat = labels if labels.ndim else labels[None]
    kept = flat != ignore_index
    losses = -np.take_along_axis(log, np.where(kept, flat, 0)[:, None], 1)[:, 0] * kept
    if reduction == "none":
        return losses.reshape(labels.shape)
    return losses.sum() / kept.sum() if reduction == "mean" else losses.sum()


def _cross_entropy(x: Any, labels: Any, **options: Any) -> Any:
    return _likelihood(special.log_softmax(x, 1 if x.ndim > 1 else 0), labels, **options)


_CLASS_ERRORS = (
    Error(lambda make: call(make(4, 3), make.integers(3)), ValueError, "to match target batch_size"),
    Error(lambda make: call(make(4, 3), make.integers(4, low=5, high=6)), IndexError, "Target 5 is out of bounds"),
    Error(lambda make: call(make(4, 3), make.integers(4), make(4)), RuntimeError, "weight tensor should be defined"),
    Error(lambda make: call(make(4, 3), make.integers(4), reduction="half"), ValueError, "not a valid value"),
)


def _bce(x: Any, t: Any, weight: Any = None, reduction: str = "mean") -> Any:
    loss = -(t * np.maximum(np.log(x), -100) + (1 - t) * np.maximum(np.log1p(-x), -100))
    return _reduced(loss if weight is None else loss * weight, reduction)


def _bce_logits(x: Any, t: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = 1) -> Any:
    loss = -(pos_weight * t * special.log_expit(x) + (1 - t) * special.log_expit(-x))
    return _reduced(loss if weight is None else loss * weight, reduction)


def _probabilities(make: Any, *shape: int) -> np.ndarray:
    return make(*shape, low=0.1, high=0.9)


def _signs(make: Any, *shape: int) -> np.ndarray:
    return np.where(make.rng.uniform(size=shape) < 0.5, -1, 1)


def _labelled(make: Any) -> list:
    labels = np.array([[0, 2, -1], [1, -1, 0], [-1, 0, 1]])
    return [call(make(3, 3), labels, reduction=reduction) for reduction in _REDUCTIONS] + [call(make(3), labels[0])]


def _triplets(make: Any) -> list:
    parts = [make(3, 4) for _ in range(3)]
    return [*[call(*parts, reduction=reduction) for reduction in _REDUCTIONS], call(*parts, margin=2.5, swap=True)]


def _triplet(a: Any, p: Any, n: Any, margin: float = 1.0, swap: bool = False, reduction: str = "mean") -> Any:
    far = np.linalg.norm(a - n + 1e-6, axis=-1)
    far = np.minimum(far, np.linalg.norm(p - n + 1e-6, axis=-1)) if swap else far
    return _reduced(np.maximum(np.linalg.norm(a - p + 1e-6, axis=-1) - far + margin, 0), reduction)


def _margins(x: Any, t: Any, p: int = 1, margin: float = 1.0, reduction: str = "mean") -> Any:
    gaps = np.maximum(margin - np.take_along_axis(x, t[:, None], 1) + x, 0) ** p
    np.put_along_axis(gaps, t[:, None], 0, 1)
    return _reduced(gaps.sum(1) / x.shape[1], reduction)


def _gaussian(x: Any, t: Any, var: Any, full: bool = False, reduction: str = "mean") -> Any:
    var = np.maximum(var, 1e-6)
    return _reduced(0.5 * (np.log(var) + (x - t) ** 2 / var) + (0.5 * math.log(2 * math.pi) if full else 0), reduction)


def _cosine(a: Any, b: Any, t: Any, margin: float = 0, reduction: str = "mean") -> Any:
    cos = (a * b).sum(-1) / np.sqrt(((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12))  # PyTorch adds this
    return _reduced(np.where(t == 1, 1 - cos, np.maximum(cos - margin, 0)), reduction)


def _ranking(a: Any, b: Any, t: Any, margin: float = 0, reduction: str = "mean") -> Any:
    return _reduced(np.maximum(margin - t * (a - b), 0), reduction)


def _bags(make: Any) -> list:
    table, words = make(6, 3), np.array([0, 2, 2, 5, 1, 3])
    starts = np.array([0, 2, 2, 5])
    grid = words.reshape(2, 3)
    return [
        *[call(grid, table, mode=mode) for mode in ("sum", "mean", "max")],
        *[call(words, table, starts, mode=mode) for mode in ("sum", "mean", "max")],
        call(words, table, starts, mode="sum", per_sample_weights=make(6)),
        call(words, table, starts, mode="mean", padding_idx=2),
    ]


def _dropped(name: str, *shape: int) -> Record:
    return Record(
        F + name,
        lambda make: [call(make(*shape), 0.3, True), call(make(*shape), 1.0, True)],
        None,
        FLOATS,
        (Error(lambda make: call(make(*shape), 1.5), ValueError, "has to be between 0 and 1"),),
        random=True,
    )


RECORDS = [
    _pairwise("mse_loss", lambda x, y: (x - y) ** 2),
    _pairwise("l1_loss", lambda x, y: np.abs(x - y)),
    _pairwise("smooth_l1_loss", lambda x, y: np.where(np.abs(x - y) < 1, 0.5 * (x - y) ** 2, np.abs(x - y) - 0.5)),
    _pairwise("huber_loss", lambda x, y: np.where(np.abs(x - y) < 1, 0.5 * (x - y) ** 2, np.abs(x - y) - 0.5)),
    _pairwise("soft_margin_loss", lambda x, y: np.log1p(np.exp(-x * y)), gradient=False, notes="none for the target; op_db has the other"),
    _pairwise("poisson_nll_loss", lambda x, y: np.exp(x) - y * x),
    _pairwise("hinge_embedding_loss", lambda x, y: np.where(y == 1, 0, np.maximum(0, 1 - x)) + np.where(y == -1, 0, x)),
    Record(
        F + "binary_cross_entropy",
        lambda make: [
            *[call(_probabilities(make, 3, 4), _probabilities(make, 3, 4), reduction=reduction) for reduction in _REDUCTIONS],
        ],
        _bce,
        FLOATS,
        (
            Error(lambda make: call(_probabilities(make, 3), _probabilities(make, 2)), ValueError, "different to the input size"),
            Error(lambda make: call(make(3, low=2, high=3), _probabilities(make, 3)), RuntimeError, "between 0 and 1"),
        ),
    ),
    Record(
        F + "binary_cross_entropy_with_logits",
        lambda make: [
            *[call(make(3, 4), _probabilities(make, 3, 4), reduction=reduction) for reduction in _REDUCTIONS],
        ],
        _bce_logits,
        FLOATS,
        (Error(lambda make: call(make(3), make(2)), ValueError, "must be the same as input size"),),
        gradient=False,
        notes="weights cannot be differentiated; test_neural_operations checks the others",
    ),
    Record(
        F + "kl_div",
        lambda make: (
            [call(make(3, 4), make(3, 4, low=0.1), reduction=reduction) for reduction in ("batchmean", "sum", "none")]
            + [call(make(3, 4), make(3, 4), reduction="sum", log_target=True)]
        ),
        None,
        FLOATS,
        (Error(lambda make: call(make(2), make(2), reduction="half"), ValueError),),
    ),
    Record(
        F + "gaussian_nll_loss",
        lambda make: (
            [call(make(3, 4), make(3, 4), make(3, 4, low=0.5), reduction=reduction) for reduction in _REDUCTIONS]
            + [call(make(3, 4), make(3, 4), make(3, 1, low=0.5), True)]
        ),
        _gaussian,
        FLOATS,
        (Error(lambda make: call(make(2), make(2), -1.0), ValueError, "negative"),),
    ),
    Record(F + "nll_loss", _targets, _likelihood, FLOATS, _CLASS_ERRORS),
    Record(
        F + "linear_cross_entropy",
        lambda make: [
            *[call(make(5, 3), make(4, 3), make.integers(5, high=4), reduction=reduction) for reduction in _REDUCTIONS],
            call(make(5, 3), make(4, 2, 3), make.integers(5, 2, high=4), linear_bias=make(4, 2), ignore_index=1),
            call(make(3), make(4, 3), make.integers(high=4)),
        ],
        lambda x, weight, labels, *, linear_bias=0, **options: _cross_entropy(
            np.moveaxis(np.tensordot(weight, x, (-1, -1)), -1, 0) + linear_bias if x.ndim > 1 else weight @ x, labels, **options
        ),
        FLOATS,
        (
            Error(lambda make: call(make(5, 3), make(4, 2), make.integers(5)), RuntimeError, "expected equal input"),
            Error(lambda make: call(make(3), make(4, 2, 3), make.integers(2)), RuntimeError, "requires batched input"),
        ),
    ),
    Record(
        F + "cross_entropy",
        _targets,
        _cross_entropy,
        FLOATS,
        (*_CLASS_ERRORS, Error(lambda make: call(make(4, 3), make.integers(4), label_smoothing=2.0), RuntimeError, "between 0.0 and 1.0")),
    ),
    Record(
        F + "multi_margin_loss",
        lambda make: (
            [call(make(4, 3), make.integers(4, high=3), reduction=reduction) for reduction in _REDUCTIONS]
            + [call(make(4, 3), make.integers(4, high=3), 2, 0.5)]
        ),
        _margins,
        ("float32", "float64"),
        (
            Error(lambda make: call(make(4, 3), make.integers(4), 3), ValueError, "only p == 1"),
            Error(lambda make: call(make(4, 3), make.integers(4, low=3, high=4)), RuntimeError, "out of range"),
        ),
    ),
    Record(
        F + "multilabel_margin_loss",
        _labelled,
        None,
        ("float32", "float64"),
        (Error(lambda make: call(make(2, 3), make.integers(3)), RuntimeError, "inconsistent target size"),),
    ),
    Record(
        F + "multilabel_soft_margin_loss",
        lambda make: [call(make(3, 4), _probabilities(make, 3, 4), reduction=reduction) for reduction in _REDUCTIONS],
        lambda x, t, reduction="mean": _reduced(-(t * special.log_expit(x) + (1 - t) * special.log_expit(-x)).mean(-1), reduction),
        FLOATS,
        (),
    ),
    Record(
        F + "margin_ranking_loss",
        lambda make: [call(make(3, 4), make(3, 4), _signs(make, 3, 4), 0.3)],
        _ranking,
        FLOATS,
        (Error(lambda make: call(make(3, 4), make(4), make(3, 4)), RuntimeError, "same dimension"),),
    ),
    Record(
        F + "cosine_embedding_loss",
        lambda make: [call(make(3, 4), make(3, 4), _signs(make, 3), 0.1)],
        _cosine,
        FLOATS,
        (Error(lambda make: call(make(3, 4), make(3, 4), make(3, 4)), RuntimeError, "0D or 1D target"),),
    ),
    Record(
        F + "triplet_margin_loss",
        _triplets,
        _triplet,
        FLOATS,
        (Error(lambda make: call(make(3, 4), make(3, 4), make(4)), RuntimeError, "same number of dimensions"),),
    ),
    Record(F + "triplet_margin_with_distance_loss", lambda make: [call(make(3, 4), make(3, 4), make(3, 4), swap=True)], None, FLOATS, ()),
    Record(
        F + "embedding",
        lambda make: [call(make.integers(2, 3, high=5), make(5, 4)), call(make.integers(3, high=5), make(5, 4), 2)],
        lambda i, w, padding_idx=None: w[i],
        FLOATS,
        (
            Error(lambda make: call(make.integers(2, low=5, high=6), make(5, 4)), IndexError, "out of range"),
            Error(lambda make: call(make(2), make(5, 4)), RuntimeError, "scalar types"),
        ),
        gradient=False,
        notes="the padding row gets no gradient, which finite differences do not know; see test_neural_operations",
    ),
    Record(
        "embedding",
        lambda make: [call(make(5, 4), make.integers(2, 3, high=5))],
        lambda w, i: w[i],
        FLOATS,
        (Error(lambda make: call(make(5, 4), make.integers(2, low=5, high=6)), IndexError, "out of range"),),
    ),
    Record(
        "embedding_renorm_",
        lambda make: [call(make(5, 4, low=1), make.integers(3, high=5), 1.0, 2.0)],
        None,
        ("float32", "float64"),
        gradient=False,
        is_view=True,
    ),
    Record(
        F + "embedding_bag",
        _bags,
        None,
        ("float32", "float64"),
        (
            Error(lambda make: call(make.integers(3), make(5, 4)), ValueError, "offsets"),
            Error(lambda make: call(make.integers(3, 2), make(5, 4), mode="min"), ValueError, "mode has to be"),
        ),
        gradient=False,
        notes="the padding row gets no gradient; test_op_db has the others",
    ),
    Record(
        F + "one_hot",
        lambda make: [call(make.integers(2, 3, high=4)), call(make.integers(3, high=4), 6)],
        lambda i, n=-1: np.eye(i.max() + 1 if n < 0 else n, dtype=np.int64)[i],
        ("float32",),
        (
            Error(lambda make: call(make(3)), RuntimeError, "index tensor"),
            Error(lambda make: call(make.integers(3, low=3, high=4), 2), RuntimeError, "smaller than num_classes"),
        ),
        gradient=False,
    ),
    _dropped("dropout", 3, 4),
    _dropped("alpha_dropout", 3, 4),
    _dropped("feature_alpha_dropout", 3, 4, 2),
    _dropped("dropout1d", 3, 4, 2),
    _dropped("dropout2d", 3, 4, 2, 2),
    _dropped("dropout3d", 2, 4, 2, 2, 2),
]
