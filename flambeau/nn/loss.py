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
    """Absolute difference.

    Args:
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input and target ``(*)`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.L1Loss.
    Example:
        >>> nn.L1Loss()(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
        tensor(2.)
        >>> nn.L1Loss(reduction="sum")(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
        tensor(4.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Squared difference.

    Args:
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input and target ``(*)`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.MSELoss.
    Example:
        >>> nn.MSELoss()(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
        tensor(5.)
        >>> nn.MSELoss(reduction="none")(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
        tensor([1., 9.])
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Half the squared difference over ``beta`` where the difference is below ``beta``, else the difference minus ``beta / 2``.

    Args:
        beta: where one form passes into the other.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input and target ``(*)`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.SmoothL1Loss.
    Example:
        >>> nn.SmoothL1Loss(beta=2.0, reduction="none")(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
        tensor([0.2500, 2.0000])
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared difference where the difference is below ``delta``, else ``delta * (difference - delta / 2)``.

    Args:
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        delta: where one form passes into the other.
    Shape:
        Input and target ``(*)`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        TypeError: ``delta`` is not a number.
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.HuberLoss.
    Example:
        >>> nn.HuberLoss(delta=2.0, reduction="none")(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
        tensor([0.5000, 4.0000])
    """

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
    """Minus the log-probability of the target class.

    Args:
        weight: of each class.
        ignore_index: target that does not count.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input ``(N, C)``, ``(C,)`` or ``(N, C, *)``, target class numbers ``(N,)``, ``()`` or ``(N, *)`` to ``()``, or to single losses with
        ``reduction="none"``.
    Attributes:
        weight: that of the constructor, a buffer; or None.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.NLLLoss.
    Example:
        >>> scores = torch.tensor([[-0.5, -1.0], [-3.0, -0.1]])
        >>> nn.NLLLoss()(scores, torch.tensor([0, 1]))
        tensor(0.3000)
        >>> nn.NLLLoss(weight=torch.tensor([1.0, 5.0]), reduction="none")(scores, torch.tensor([0, 1]))
        tensor([0.5000, 0.5000])
    """

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
    """``NLLLoss`` under its deprecated name, which needs no images.

    Args:
        weight, size_average, ignore_index, reduce, reduction: as in ``NLLLoss``.
    Shape:
        Input ``(N, C, *)``, target class numbers ``(N, *)`` to ``()``, or to ``(N, *)`` with ``reduction="none"``.
    Attributes:
        weight: that of the constructor, a buffer; or None.
    Source: torch.nn.NLLLoss2d.
    Example:
        >>> nn.NLLLoss2d()(torch.full((1, 2, 3, 3), -0.5), torch.zeros(1, 3, 3, dtype=torch.int64))
        tensor(0.5000)
    """

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
    """Minus the log-softmax of the target class, or its mean over target probabilities.

    Args:
        weight: of each class.
        ignore_index: target that does not count.
        label_smoothing: share of the target that is spread over all classes.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input ``(N, C)``, ``(C,)`` or ``(N, C, *)``, target class numbers ``(N,)``, ``()`` or ``(N, *)``, or target probabilities of the
        input's shape, to ``()``, or to single losses with ``reduction="none"``.
    Attributes:
        weight: that of the constructor, a buffer; or None.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.CrossEntropyLoss.
    Example:
        >>> scores = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        >>> nn.CrossEntropyLoss(reduction="none")(scores, torch.tensor([0, 2]))
        tensor([0.2395, 1.0986])
        >>> nn.CrossEntropyLoss(label_smoothing=0.1)(scores, torch.tensor([0, 2]))
        tensor(0.7357)
    """

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
    """Minus the logarithm of the Poisson probability of the target.

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: add Stirling's approximation of the term that does not depend on the input.
        eps: keeps the logarithm finite, without ``log_input``.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input and target ``(*)`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.PoissonNLLLoss.
    Example:
        >>> nn.PoissonNLLLoss(reduction="none")(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0]))
        tensor([ 1.0000, -0.2817])
    """

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
    """Minus the logarithm of the normal density of the target, of given mean (the input) and variance.

    Args:
        full: add the constant term.
        eps: least variance.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
    Shape:
        Input, target and variance ``(N, *)``, the variance also ``(N, *, 1)`` or a number, to ``()``, or to single losses with
        ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.GaussianNLLLoss.
    Example:
        >>> nn.GaussianNLLLoss()(torch.tensor([1.0, 2.0]), torch.tensor([1.5, 2.0]), torch.tensor([0.5, 1.0]))
        tensor(-0.0483)
    """

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence ``target * (log(target) - input)``; the input holds log-probabilities.

    Args:
        log_target: whether the target holds log-probabilities too.
        reduction: ``"none"``, ``"sum"``, ``"batchmean"`` (the sum over the batch size, the definition), or ``"mean"`` over all elements.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input and target ``(*)`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.KLDivLoss.
    Example:
        >>> guess, truth = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
        >>> nn.KLDivLoss(reduction="batchmean")(guess.log(), truth)
        tensor(0.1308)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", log_target: bool = False
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """Binary cross-entropy of probabilities. Logarithms are cut at -100.

    Args:
        weight: of each element of a batch.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input and target ``(*)`` to ``()``, or to single losses with ``reduction="none"``.
    Attributes:
        weight: that of the constructor, a buffer; or None.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.BCELoss.
    Example:
        >>> nn.BCELoss(reduction="none")(torch.tensor([0.9, 0.9]), torch.tensor([1.0, 0.0]))
        tensor([0.1054, 2.3026])
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of the sigmoid of the input, stable for large inputs.

    Args:
        weight: of each element of a batch.
        pos_weight: of the positive examples of each class.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input and target ``(*)`` to ``()``, or to single losses with ``reduction="none"``.
    Attributes:
        weight, pos_weight: those of the constructor, buffers; or None.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.BCEWithLogitsLoss.
    Example:
        >>> logits, target = torch.tensor([2.0, -1.0]), torch.tensor([1.0, 1.0])
        >>> nn.BCEWithLogitsLoss(reduction="none")(logits, target)
        tensor([0.1269, 1.3133])
        >>> nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))(logits, target)
        tensor(2.1603)
    """

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
    """The input where the target is 1, ``max(0, margin - input)`` where it is -1.

    Args:
        margin: as in the formula.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input and target ``(*)`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.HingeEmbeddingLoss.
    Example:
        >>> nn.HingeEmbeddingLoss(reduction="none")(torch.tensor([0.25, 0.25]), torch.tensor([1.0, -1.0]))
        tensor([0.2500, 0.7500])
    """

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))`` for targets 1 and -1.

    Args:
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input and target ``(*)`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.SoftMarginLoss.
    Example:
        >>> nn.SoftMarginLoss(reduction="none")(torch.tensor([2.0, 2.0]), torch.tensor([1.0, -1.0]))
        tensor([0.1269, 2.1269])
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """``1 - cos(input1, input2)`` where the target is 1, ``max(0, cos(input1, input2) - margin)`` where it is -1.

    Args:
        margin: as in the formula.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Inputs ``(N, D)`` or ``(D,)``, target ``(N,)`` or ``()``, to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.CosineEmbeddingLoss.
    Example:
        >>> first, second = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> nn.CosineEmbeddingLoss()(first, second, torch.tensor([1.0]))
        tensor(0.2929)
        >>> nn.CosineEmbeddingLoss(margin=0.5)(first, second, torch.tensor([-1.0]))
        tensor(0.2071)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """``max(0, -target * (input1 - input2) + margin)``: the first input should be larger where the target is 1.

    Args:
        margin: as in the formula.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Inputs and target ``(N,)`` or ``()`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.MarginRankingLoss.
    Example:
        >>> loss = nn.MarginRankingLoss(margin=0.5, reduction="none")
        >>> loss(torch.tensor([1.0, 1.0]), torch.tensor([0.75, 3.0]), torch.tensor([1.0, 1.0]))
        tensor([0.2500, 2.5000])
    """

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Mean over the other classes of ``max(0, margin - input[target] + input[class]) ** p``.

    Args:
        p: 1 or 2.
        margin: as in the formula.
        weight: of each class.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input ``(N, C)`` or ``(C,)``, target class numbers ``(N,)`` or ``()``, to ``()``, or to single losses with ``reduction="none"``.
    Attributes:
        weight: that of the constructor, a buffer; or None.
    Raises:
        ValueError: ``p`` neither 1 nor 2, or a ``weight`` that is not 1-d.
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.MultiMarginLoss.
    Example:
        >>> nn.MultiMarginLoss()(torch.tensor([[0.5, 0.25, 2.0]]), torch.tensor([0]))
        tensor(1.0833)
    """

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
    """Mean of ``max(0, 1 - (input[label] - input[class]))`` over the target's labels and all other classes.

    Args:
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input ``(N, C)`` or ``(C,)``, target labels, ended by -1, of the same shape to ``()``, or to single losses with
        ``reduction="none"``.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.MultiLabelMarginLoss.
    Example:
        >>> nn.MultiLabelMarginLoss()(torch.tensor([0.5, 0.25, 1.0]), torch.tensor([2, -1, 0]))
        tensor(0.2500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Mean over the classes of the binary cross-entropy of the sigmoid of the input.

    Args:
        weight: of each class.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Input and target ``(N, C)`` to ``()``, or to single losses with ``reduction="none"``.
    Attributes:
        weight: that of the constructor, a buffer; or None.
    Raises:
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.MultiLabelSoftMarginLoss.
    Example:
        >>> nn.MultiLabelSoftMarginLoss()(torch.tensor([[2.0, -2.0]]), torch.tensor([[1.0, 0.0]]))
        tensor(0.1269)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


def _require_positive_margin(name: str, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead")


class TripletMarginLoss(_Loss):
    """``max(0, distance(anchor, positive) - distance(anchor, negative) + margin)`` with the p-norm distance.

    Args:
        margin, p: as in the formula.
        eps: keeps the distance's derivative finite.
        swap: use the distance from positive to negative where it is smaller than that from anchor to negative.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        size_average, reduce: deprecated; see ``reduction``.
    Shape:
        Three inputs ``(N, D)`` or ``(D,)`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: ``margin`` is not above 0.
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.TripletMarginLoss.
    Example:
        >>> anchor, positive, negative = torch.tensor([[[0.0, 0.0]], [[3.0, 4.0]], [[0.0, 5.5]]])
        >>> nn.TripletMarginLoss()(anchor, positive, negative)
        tensor(0.5000)
    """

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
    """``max(0, distance(anchor, positive) - distance(anchor, negative) + margin)`` with a distance of one's own.

    Args:
        distance_function: of two batches; PairwiseDistance when None.
        margin: as in the formula.
        swap: use the distance from positive to negative where it is smaller than that from anchor to negative.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
    Shape:
        Three inputs ``(N, *)`` to ``()``, or to single losses with ``reduction="none"``.
    Raises:
        ValueError: ``margin`` is not above 0.
        ValueError: an unknown ``reduction``, at the call.
    Source: torch.nn.TripletMarginWithDistanceLoss.
    Example:
        >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().amax(-1))
        >>> loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 4.5]]))
        tensor(0.5000)
    """

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
    Example:
        >>> scores = torch.zeros(5, 1, 3).log_softmax(-1)
        >>> nn.CTCLoss()(scores, torch.tensor([[1, 2]]), input_lengths=[5], target_lengths=[2])
        tensor(0.9689)
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
