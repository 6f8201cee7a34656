"""Losses under their names at top level, which take the reduction as a number: 0 none, 1 the mean, 2 the sum.

Anything else is none, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite
from . import loss, margin_loss


def _word(reduction: int) -> str:
    return {1: "mean", 2: "sum"}.get(reduction, "none")


@composite(method=False, autocast="float32")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """See :func:`torch.nn.functional.binary_cross_entropy_with_logits`. Source: torch.binary_cross_entropy_with_logits."""
    return loss.binary_cross_entropy_with_logits(input, target, weight, reduction=_word(reduction), pos_weight=pos_weight)


@composite(method=False, autocast="float32")
def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """See :func:`torch.nn.functional.kl_div`. Source: torch.kl_div."""
    pointwise = loss.kl_div(input, target, reduction="none", log_target=log_target)
    return loss.reduced(pointwise, _word(reduction))


@composite(method=False, autocast="float32")
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """See :func:`torch.nn.functional.poisson_nll_loss`. Source: torch.poisson_nll_loss."""
    return loss.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_word(reduction))


@composite(method=False, autocast="float32")
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """See :func:`torch.nn.functional.hinge_embedding_loss`. Source: torch.hinge_embedding_loss."""
    return margin_loss.hinge_embedding_loss(input, target, margin, reduction=_word(reduction))


@composite(method=False, autocast="float32")
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """See :func:`torch.nn.functional.margin_ranking_loss`. Source: torch.margin_ranking_loss."""
    return margin_loss.margin_ranking_loss(input1, input2, target, margin, reduction=_word(reduction))


@composite(method=False, autocast="float32")
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """See :func:`torch.nn.functional.cosine_embedding_loss`. Source: torch.cosine_embedding_loss."""
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
    """See :func:`torch.nn.functional.triplet_margin_loss`. Source: torch.triplet_margin_loss."""
    return margin_loss.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_word(reduction))
