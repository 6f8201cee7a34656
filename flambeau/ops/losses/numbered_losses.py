"""Losses under their names at top level, which take the reduction as a number: 0 none, 1 the mean, 2 the sum.

Anything else is none, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from ...core.calls.annotations import Tensor
from ...core.calls.registry import composite
from . import loss, margin_loss


def _word(reduction: int) -> str:
    return {1: "mean", 2: "sum"}.get(reduction, "none")


@composite(method=False, autocast="float32")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """``nn.functional.binary_cross_entropy_with_logits`` with the reduction as a number.

    Args:
        input, target, weight, pos_weight: as there, of any shape.
        reduction: 0 none, 1 the mean, 2 the sum.
    Returns:
        ``input``'s shape for 0, otherwise 0-d.
    Raises:
        ValueError: ``input`` and ``target`` differ in shape.
    Source: torch.binary_cross_entropy_with_logits.
    Example:
        >>> torch.binary_cross_entropy_with_logits(torch.zeros(2), torch.tensor([0.0, 1.0]), reduction=0)  # log 2
        tensor([0.6931, 0.6931])
    """
    return loss.binary_cross_entropy_with_logits(input, target, weight, reduction=_word(reduction), pos_weight=pos_weight)


@composite(method=False, autocast="float32")
def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """``nn.functional.kl_div`` with the reduction as a number.

    Args:
        input, target, log_target: as there, of any shapes that broadcast.
        reduction: 0 none, 1 the mean over all elements, 2 the sum.
    Returns:
        The broadcast shape for 0, otherwise 0-d.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Source: torch.kl_div.
    Example:
        >>> torch.kl_div(torch.tensor([0.5, 0.5]).log(), torch.tensor([1.0, 0.0]), 2)  # log 2
        tensor(0.6931)
    """
    pointwise = loss.kl_div(input, target, reduction="none", log_target=log_target)
    return loss.reduced(pointwise, _word(reduction))


@composite(method=False, autocast="float32")
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """``nn.functional.poisson_nll_loss`` with the reduction as a number.

    Args:
        input, target, log_input, full, eps: as there; any shapes that broadcast.
        reduction: 0 none, 1 the mean, 2 the sum.
    Returns:
        The broadcast shape for 0, otherwise 0-d.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Source: torch.poisson_nll_loss.
    Example:
        >>> torch.poisson_nll_loss(torch.tensor([0.0]), torch.tensor([3.0]), True, False, 1e-8, 0)  # exp(0) - 3 * 0
        tensor([1.])
    """
    return loss.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_word(reduction))


@composite(method=False, autocast="float32")
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """``nn.functional.hinge_embedding_loss`` with the reduction as a number.

    Args:
        input, target, margin: as there; any shapes that broadcast.
        reduction: 0 none, 1 the mean, 2 the sum.
    Returns:
        The broadcast shape for 0, otherwise 0-d.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Source: torch.hinge_embedding_loss.
    Example:
        >>> torch.hinge_embedding_loss(torch.tensor([0.5, 0.25]), torch.tensor([1, -1]), 1.0, 2)  # 0.5 + (1 - 0.25)
        tensor(1.2500)
    """
    return margin_loss.hinge_embedding_loss(input, target, margin, reduction=_word(reduction))


@composite(method=False, autocast="float32")
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """``nn.functional.margin_ranking_loss`` with the reduction as a number.

    Args:
        input1, input2, target, margin: as there; shapes of equally many dimensions that broadcast.
        reduction: 0 none, 1 the mean, 2 the sum.
    Returns:
        The broadcast shape for 0, otherwise 0-d.
    Raises:
        RuntimeError: different numbers of dimensions.
    Source: torch.margin_ranking_loss.
    Example:
        >>> torch.margin_ranking_loss(torch.tensor([1.0, 4.0]), torch.tensor([3.0, 3.0]), torch.tensor([1.0, 1.0]), 0.0, 0)
        tensor([2., 0.])
    """
    return margin_loss.margin_ranking_loss(input1, input2, target, margin, reduction=_word(reduction))


@composite(method=False, autocast="float32")
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """``nn.functional.cosine_embedding_loss`` with the reduction as a number.

    Args:
        input1, input2: ``(N, D)`` or ``(D,)``.
        target, margin: as there.
        reduction: 0 none, 1 the mean, 2 the sum.
    Returns:
        ``target``'s shape for 0, otherwise 0-d.
    Raises:
        RuntimeError: inputs that have not one dimension more than ``target``.
    Source: torch.cosine_embedding_loss.
    Example:
        >>> torch.cosine_embedding_loss(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor(1))  # 1 - 0
        tensor(1.)
    """
    return margin_loss.cosine_embedding_loss(input1, input2, target, margin, reduction=_word(reduction))


@composite(method=False, autocast="float32")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Any:
    """``nn.functional.triplet_margin_loss`` with the reduction as a number.

    Args:
        anchor, positive, negative: ``(N, D)`` or ``(D,)``.
        margin, p, eps, swap: as there.
        reduction: 0 none, 1 the mean, 2 the sum.
    Returns:
        ``(N,)`` or 0-d for 0, otherwise 0-d.
    Raises:
        ValueError: ``margin`` not positive.
        RuntimeError: different numbers of dimensions.
    Source: torch.triplet_margin_loss.
    Example:
        >>> torch.triplet_margin_loss(torch.tensor([[0.0]]), torch.tensor([[2.0]]), torch.tensor([[2.5]]))  # 1 + 2 - 2.5
        tensor(0.5000)
    """
    return margin_loss.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_word(reduction))
