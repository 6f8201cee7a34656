"""``torch.masked``: reductions and normalisations with masks. Tensors that carry a mask are not supported yet."""

from __future__ import annotations

from typing import Any

from .. import _unsupported
from ._functions import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


def is_masked_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor that carries a mask, which nothing is yet. Source: torch.masked.is_masked_tensor."""
    return False


globals().update(_unsupported.names("masked", "as_masked_tensor masked_tensor", "MaskedTensor"))
