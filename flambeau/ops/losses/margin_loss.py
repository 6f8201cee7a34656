"""Losses of pairs and triplets: rankings, embeddings, distances."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.calls.annotations import Tensor
from ...core.calls.registry import composite, resolve
from ..masks import where
from .loss import reduced, reduction_of


@composite(namespace="nn.functional", autocast="float32", in_library=True)
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin - target * (input1 - input2))``: which of two should be larger.

    Args:
        input1, input2, target: of equally many dimensions, broadcastable; a target is 1 (first is larger) or -1.
        margin: how much larger.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns:
        The broadcast shape for "none", otherwise 0-d; floating point.
    Raises:
        RuntimeError: different numbers of dimensions, or shapes that do not broadcast.
        ValueError: an unknown ``reduction``.
    Source: torch.nn.functional.margin_ranking_loss.
    Example:
        >>> first, second = torch.tensor([3.0, 1.0]), torch.tensor([2.0, 2.0])
        >>> F.margin_ranking_loss(first, second, torch.tensor([1.0, 1.0]), reduction="none")
        tensor([0., 1.])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.size()}, input2: "
            f"{input2.size()}, target: {target.size()} "
        )
    return reduced((-target * (input1 - input2) + float(margin)).clamp_min(0), reduction)


@composite(namespace="nn.functional", autocast="float32", in_library=True)
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1.

    Args:
        input: distances, any shape.
        target: 1 or -1, broadcastable.
        margin: least distance of different ones; of integers, without its fraction.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns:
        The broadcast shape for "none", otherwise 0-d; ``input``'s dtype.
    Raises:
        RuntimeError: shapes that do not broadcast.
        ValueError: an unknown ``reduction``.
    Source: torch.nn.functional.hinge_embedding_loss.
    Example:
        >>> F.hinge_embedding_loss(torch.tensor([0.3, 0.3, 2.0]), torch.tensor([1, -1, -1]), reduction="none")
        tensor([0.3000, 0.7000, 0.0000])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    margin = float(margin) if input.is_floating_point() else int(margin)
    apart = where(target != 1, (margin - input).clamp_min(0), 0)
    together = where(target != -1, input, 0)
    return reduced(apart + together, reduction)


@composite(namespace="nn.functional", autocast="float32", in_library=True)
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        input1, input2: ``(N, D)`` or ``(D,)``.
        target: 1 or -1, ``(N,)`` or ``()``.
        margin: greatest cosine of different ones.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns:
        ``target``'s shape for "none", otherwise 0-d; floating point.
    Raises:
        RuntimeError: a target of two or more dimensions, or inputs that have not one dimension more than it.
        ValueError: an unknown ``reduction``.
    Source: torch.nn.functional.cosine_embedding_loss.
    Example:
        >>> x, y = torch.tensor([[3.0, 4.0], [3.0, 4.0]]), torch.tensor([[4.0, 3.0], [4.0, 3.0]])
        >>> F.cosine_embedding_loss(x, y, torch.tensor([1, -1]), reduction="none")  # the cosine is 24 / 25
        tensor([0.0400, 0.9600])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if target.dim() not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    ndim = target.dim() + 1
    if input1.dim() != ndim or input2.dim() != ndim:
        expected = "1D target tensor expects 2D input tensors" if target.dim() else "0D target tensor expects 1D input tensors"
        raise RuntimeError(f"{expected}, but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}.")
    epsilon = 1e-12  # under the root, as PyTorch has it
    products = (input1 * input2).sum(-1)
    squares = ((input1 * input1).sum(-1) + epsilon) * ((input2 * input2).sum(-1) + epsilon)
    cosine = products / squares.sqrt()
    apart = (cosine - margin).clamp_min(0).masked_fill(target == 1, 0)
    together = (1 - cosine).masked_fill(target == -1, 0)
    return reduced(apart + together, reduction)


def _triplet_loss(
    distance: Callable[..., Any], anchor: Any, positive: Any, negative: Any, margin: float, swap: bool, reduction: str
) -> Any:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor "
            f"{anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    swapped = distance(positive, negative) if swap else None
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swapped is not None:
        far = far.minimum(swapped)
    return reduced((margin + near - far).clamp_min(0), reduction)


@composite(namespace="nn.functional", autocast="float32", in_library=True)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))``.

    Args:
        anchor, positive, negative: ``(N, D)`` or ``(D,)``.
        margin: how much farther the negative should be; positive.
        p, eps: of the distances, see ``pairwise_distance``.
        swap: take the distance of positive and negative where that is smaller than the anchor's.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns:
        ``(N,)`` or 0-d for "none", otherwise 0-d; floating point.
    Raises:
        ValueError: ``margin`` not positive, or an unknown reduction.
        RuntimeError: different numbers of dimensions.
    Source: torch.nn.functional.triplet_margin_loss. Balntas et al. 2016.
    Example:
        >>> anchor, positive, negative = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 4.5]])
        >>> F.triplet_margin_loss(anchor, positive, negative)  # 1 + 5 - 4.5
        tensor(1.5000)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    distance = partial(resolve("torch", "pairwise_distance"), p=p, eps=eps)
    return _triplet_loss(distance, anchor, positive, negative, margin, swap, reduction)


@composite(namespace="nn.functional")
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[..., Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``triplet_margin_loss`` with a distance of one's own.

    Args:
        anchor, positive, negative: of any shape that ``distance_function`` takes, with equally many dimensions.
        distance_function: of two tensors; the Euclidean ``pairwise_distance`` when None.
        margin, swap, reduction: as for ``triplet_margin_loss``.
    Returns:
        The distances' shape for "none", otherwise 0-d.
    Raises:
        ValueError: ``margin`` not positive, or an unknown reduction.
        RuntimeError: different numbers of dimensions.
    Source: torch.nn.functional.triplet_margin_with_distance_loss.
    Example:
        >>> def city(a, b):
        ...     return (a - b).abs().sum(-1)
        >>> anchor, positive, negative = torch.zeros(1, 2), torch.tensor([[1.0, 2.0]]), torch.tensor([[1.5, 1.0]])
        >>> F.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=city)  # 1 + 3 - 2.5
        tensor(1.5000)
    """
    reduction = reduction_of(reduction)
    distance = resolve("torch", "pairwise_distance") if distance_function is None else distance_function
    return _triplet_loss(distance, anchor, positive, negative, margin, swap, reduction)
