"""Losses as layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from . import _reduction, functional as F
from .distance import PairwiseDistance
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss",
    "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
    "MultiMarginLoss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip

# Every loss documents these alike, so they are described once.
_COMMON = """
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``."""


def _doc(what: str, name: str, arguments: str, shape: str) -> str:
    """A loss's docstring; ``arguments`` are those besides the reduction."""
    return f"""{what}

    Args:{arguments}{_COMMON if "reduction:" not in arguments else ""}
    Shape:
        {shape} to ``()``, or to single losses with ``reduction="none"``.
    Source: torch.nn.{name}.
    """


_SAME = "Input and target ``(*)``"
_CLASSES = "Input ``(N, C)``, ``(C,)`` or ``(N, C, *)``, target class numbers ``(N,)``, ``()`` or ``(N, *)``"


class _Loss(Module):
    __constants__ = ["reduction"]
    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _reduction.resolve(reduction, size_average, reduce)


class _WeightedLoss(_Loss):
    """A loss with a buffer of weights."""

    weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


# -- distances between numbers ------------------------------------------------------------------------------------------------
class L1Loss(_Loss):
    __doc__ = _doc("Absolute difference.", "L1Loss", "", _SAME)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    __doc__ = _doc("Squared difference.", "MSELoss", "", _SAME)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    __doc__ = _doc(
        "Half the squared difference over ``beta`` where the difference is below ``beta``, else the difference minus ``beta / 2``.",
        "SmoothL1Loss",
        "\n        beta: where one form passes into the other.",
        _SAME,
    )

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    __doc__ = _doc(
        "Half the squared difference where the difference is below ``delta``, else ``delta * (difference - delta / 2)``.",
        "HuberLoss",
        '\n        reduction: ``"none"``, ``"mean"`` or ``"sum"``.\n        delta: where one form passes into the other.',
        _SAME,
    )
    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


# -- likelihoods --------------------------------------------------------------------------------------------------------------
class NLLLoss(_WeightedLoss):
    __doc__ = _doc(
        "Minus the log-probability of the target class.",
        "NLLLoss",
        "\n        weight: of each class.\n        ignore_index: target that does not count.",
        _CLASSES,
    )
    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """Deprecated name of ``NLLLoss``. Source: torch.nn.NLLLoss2d."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement.", FutureWarning, stacklevel=2
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    __doc__ = _doc(
        "Minus the log-softmax of the target class, or its mean over target probabilities.",
        "CrossEntropyLoss",
        "\n        weight: of each class.\n        ignore_index: target that does not count."
        "\n        label_smoothing: share of the target that is spread over all classes.",
        f"{_CLASSES}, or target probabilities of the input's shape,",
    )
    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class PoissonNLLLoss(_Loss):
    __doc__ = _doc(
        "Minus the logarithm of the Poisson probability of the target.",
        "PoissonNLLLoss",
        "\n        log_input: whether the input is the logarithm of the rate."
        "\n        full: add Stirling's approximation of the term that does not depend on the input."
        "\n        eps: keeps the logarithm finite, without ``log_input``.",
        _SAME,
    )
    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    __doc__ = _doc(
        "Minus the logarithm of the normal density of the target, of given mean (the input) and variance.",
        "GaussianNLLLoss",
        '\n        full: add the constant term.\n        eps: least variance.\n        reduction: ``"none"``, ``"mean"`` or ``"sum"``.',
        "Input, target and variance ``(N, *)``, the variance also ``(N, *, 1)`` or a number,",
    )
    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class KLDivLoss(_Loss):
    __doc__ = _doc(
        "Kullback-Leibler divergence ``target * (log(target) - input)``; the input holds log-probabilities.",
        "KLDivLoss",
        "\n        log_target: whether the target holds log-probabilities too."
        '\n        reduction: ``"none"``, ``"sum"``, ``"batchmean"`` (the sum over the batch size, the definition), or ``"mean"`` over all'
        " elements.\n        size_average, reduce: deprecated; see ``reduction``.",
        _SAME,
    )

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", log_target: bool = False
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    __doc__ = _doc(
        "Binary cross-entropy of probabilities. Logarithms are cut at -100.",
        "BCELoss",
        "\n        weight: of each element of a batch.",
        _SAME,
    )

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    __doc__ = _doc(
        "Binary cross-entropy of the sigmoid of the input, stable for large inputs.",
        "BCEWithLogitsLoss",
        "\n        weight: of each element of a batch.\n        pos_weight: of the positive examples of each class.",
        _SAME,
    )

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction)


# -- margins ------------------------------------------------------------------------------------------------------------------
class HingeEmbeddingLoss(_Loss):
    __doc__ = _doc(
        "The input where the target is 1, ``max(0, margin - input)`` where it is -1.",
        "HingeEmbeddingLoss",
        "\n        margin: as in the formula.",
        _SAME,
    )
    __constants__ = ["margin", "reduction"]

    def __init__(self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    __doc__ = _doc("``log(1 + exp(-target * input))`` for targets 1 and -1.", "SoftMarginLoss", "", _SAME)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    __doc__ = _doc(
        "``1 - cos(input1, input2)`` where the target is 1, ``max(0, cos(input1, input2) - margin)`` where it is -1.",
        "CosineEmbeddingLoss",
        "\n        margin: as in the formula.",
        "Inputs ``(N, D)`` or ``(D,)``, target ``(N,)`` or ``()``,",
    )
    __constants__ = ["margin", "reduction"]

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    __doc__ = _doc(
        "``max(0, -target * (input1 - input2) + margin)``: the first input should be larger where the target is 1.",
        "MarginRankingLoss",
        "\n        margin: as in the formula.",
        "Inputs and target ``(N,)`` or ``()``",
    )
    __constants__ = ["margin", "reduction"]

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    __doc__ = _doc(
        "Mean over the other classes of ``max(0, margin - input[target] + input[class]) ** p``.",
        "MultiMarginLoss",
        "\n        p: 1 or 2.\n        margin: as in the formula.\n        weight: of each class.",
        "Input ``(N, C)`` or ``(C,)``, target class numbers ``(N,)`` or ``()``,",
    )
    __constants__ = ["p", "margin", "reduction"]

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    __doc__ = _doc(
        "Mean of ``max(0, 1 - (input[label] - input[class]))`` over the target's labels and all other classes.",
        "MultiLabelMarginLoss",
        "",
        "Input ``(N, C)`` or ``(C,)``, target labels, ended by -1, of the same shape",
    )

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    __doc__ = _doc(
        "Mean over the classes of the binary cross-entropy of the sigmoid of the input.",
        "MultiLabelSoftMarginLoss",
        "\n        weight: of each class.",
        "Input and target ``(N, C)``",
    )

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


def _require_positive_margin(name: str, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead")


class TripletMarginLoss(_Loss):
    __doc__ = _doc(
        "``max(0, distance(anchor, positive) - distance(anchor, negative) + margin)`` with the p-norm distance.",
        "TripletMarginLoss",
        "\n        margin, p: as in the formula.\n        eps: keeps the distance's derivative finite."
        "\n        swap: use the distance from positive to negative where it is smaller than that from anchor to negative.",
        "Three inputs ``(N, D)`` or ``(D,)``",
    )
    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _require_positive_margin("TripletMarginLoss", margin)
        self.margin, self.p, self.eps = margin, p, eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps, swap=self.swap, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(_Loss):
    __doc__ = _doc(
        "``max(0, distance(anchor, positive) - distance(anchor, negative) + margin)`` with a distance of one's own.",
        "TripletMarginWithDistanceLoss",
        "\n        distance_function: of two batches; PairwiseDistance when None.\n        margin: as in the formula."
        "\n        swap: use the distance from positive to negative where it is smaller than that from anchor to negative."
        '\n        reduction: ``"none"``, ``"mean"`` or ``"sum"``.',
        "Three inputs ``(N, *)``",
    )
    __constants__ = ["margin", "swap", "reduction"]

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _require_positive_margin("TripletMarginWithDistanceLoss", margin)
        self.distance_function = distance_function if distance_function is not None else PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Minus the logarithm of the probability of all alignments of labels with scores over time.

    Args:
        blank: the class that stands for no label.
        reduction: ``"none"``, ``"sum"``, or ``"mean"``: each loss divided by its number of labels, then the mean over the samples.
        zero_infinity: count samples without any alignment as zero, in the gradient too.
    Shape:
        log-probabilities ``(T, N, C)`` or ``(T, C)``; targets ``(N, S)`` or one after the other, ``(sum of target_lengths,)``; two lengths
        per sample, tensors or tuples. The result is a scalar, or ``(N,)`` without reduction.
    Raises:
        RuntimeError: sizes or lengths that do not fit, or a label that is no class.
    Source: torch.nn.CTCLoss; Graves et al. 2006.
    """

    __constants__ = ["blank", "reduction"]
    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)
