"""Dropout as ``torch.nn.functional`` has it: with defaults, argument checks and in-place forms, over the functions of ``dropout``."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite
from .dropout import (
    alpha_dropout,
    alpha_dropout_,
    dropout,
    dropout_,
    feature_alpha_dropout,
    feature_alpha_dropout_,
    feature_dropout,
    feature_dropout_,
)


def _check_p(p: Any) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _unusual(name: str, ndim: int, advice: str) -> None:
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an error in a future release. {advice}",
        UserWarning,
        stacklevel=4,
    )


@composite(name="dropout", namespace="nn.functional")
def functional_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability ``p`` and multiply the others by ``1 / (1 - p)``, in training.

    Args:
        input: any shape, floating point.
        p: probability of an element to be zeroed.
        training: whether to do anything.
        inplace: write into ``input``.
    Returns:
        ``input``'s shape; ``input`` itself where nothing is done.
    Raises:
        ValueError: ``p`` outside [0, 1].
        RuntimeError: integers.
    Gradient: ``grad / (1 - p)`` at the elements that stayed.
    Source: torch.nn.functional.dropout. Srivastava et al. 2014.
    Example:
        >>> F.dropout(torch.ones(20), p=0.75).unique()
        tensor([0., 4.])
        >>> F.dropout(torch.ones(2), p=0.75, training=False)
        tensor([1., 1.])
    """
    _check_p(p)
    return dropout_(input, p, training) if inplace else dropout(input, p, training)


@composite(name="alpha_dropout", namespace="nn.functional")
def functional_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of SELU's outputs.

    Args:
        input: any shape, floating point.
        p: probability of an element to get SELU's negative saturation value.
        training: whether to do anything.
        inplace: write into ``input``.
    Returns:
        ``input``'s shape; ``input`` itself where nothing is done.
    Raises:
        ValueError: ``p`` outside [0, 1].
    Gradient: ``grad`` times the scale at the elements that stayed.
    Source: torch.nn.functional.alpha_dropout. Klambauer et al. 2017.
    Example:
        >>> F.alpha_dropout(torch.zeros(100), p=0.5, training=True).unique()
        tensor([-0.7792,  0.7792])
    """
    _check_p(p)
    return alpha_dropout_(input, p, training) if inplace else alpha_dropout(input, p, training)


@composite(name="feature_alpha_dropout", namespace="nn.functional")
def functional_feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels.

    Args:
        input: ``(N, C, *)``, floating point.
        p, training, inplace: as for ``alpha_dropout``; ``p`` is the probability of a channel.
    Returns:
        ``input``'s shape; ``input`` itself where nothing is done.
    Raises:
        ValueError: ``p`` outside [0, 1].
        RuntimeError: fewer than 2 dimensions.
    Gradient: ``grad`` times the scale at the channels that stayed.
    Source: torch.nn.functional.feature_alpha_dropout.
    Example:
        >>> y = F.feature_alpha_dropout(torch.zeros(1, 100, 3), p=0.5, training=True)
        >>> bool((y == y[..., :1]).all()), y.unique()
        (True, tensor([-0.7792,  0.7792]))
    """
    _check_p(p)
    return feature_alpha_dropout_(input, p, training) if inplace else feature_alpha_dropout(input, p, training)


def _of_channels(input: Any, p: float, training: bool, inplace: bool, batched: bool) -> Any:
    """Channel dropout; an input without batch dimension gets one for it."""
    x = input if batched else input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = feature_dropout_(x, p, training) if inplace else feature_dropout(x, p, training)
    if batched:
        return result
    return result.squeeze_(0) if inplace else result.squeeze(0)


@composite(namespace="nn.functional")
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels with probability ``p`` and multiply the others by ``1 / (1 - p)``, in training.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``, floating point.
        p: probability of a channel to be zeroed.
        training: whether to do anything.
        inplace: write into ``input``.
    Returns:
        ``input``'s shape; ``input`` itself with ``inplace``.
    Raises:
        ValueError: ``p`` outside [0, 1].
        RuntimeError: another number of dimensions.
    Gradient: ``grad / (1 - p)`` at the channels that stayed.
    Source: torch.nn.functional.dropout1d. Tompson et al. 2015.
    Example:
        >>> y = F.dropout1d(torch.ones(20, 3))
        >>> bool((y == y[:, :1]).all()), y.unique()
        (True, tensor([0., 2.]))
    """
    _check_p(p)
    ndim = input.dim()
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that dropout1d exists to provide channel-wise dropout "
            "on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _of_channels(input, p, training, inplace, ndim == 3)


@composite(namespace="nn.functional")
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of images with probability ``p`` and multiply the others by ``1 / (1 - p)``, in training.

    Args:
        input: ``(N, C, H, W)``, floating point; three dimensions are taken as ``(N, C, L)``, with a warning.
        p: probability of a channel to be zeroed.
        training: whether to do anything.
        inplace: write into ``input``.
    Returns:
        ``input``'s shape; ``input`` itself with ``inplace``.
    Raises:
        ValueError: ``p`` outside [0, 1].
        RuntimeError: fewer than 2 dimensions.
    Gradient: ``grad / (1 - p)`` at the channels that stayed.
    Source: torch.nn.functional.dropout2d. Tompson et al. 2015.
    Example:
        >>> y = F.dropout2d(torch.ones(1, 20, 2, 2))
        >>> bool((y == y[..., :1, :1]).all()), y.unique()
        (True, tensor([0., 2.]))
    """
    _check_p(p)
    ndim = input.dim()
    if ndim not in (3, 4):
        _unusual(
            "dropout2d",
            ndim,
            "To retain the behavior and silence this warning, please use dropout instead. Note that dropout2d exists "
            "to provide channel-wise dropout on inputs with 2 spatial dimensions, a channel dimension, and an optional batch dimension "
            "(i.e. 3D or 4D inputs).",
        )
    elif ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - input is "
            "interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future release to interpret the "
            "input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please switch "
            "to using dropout1d instead.",
            UserWarning,
            stacklevel=3,
        )
    return _of_channels(input, p, training, inplace, True)


@composite(namespace="nn.functional")
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of volumes with probability ``p`` and multiply the others by ``1 / (1 - p)``, in training.

    Args:
        input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``, floating point.
        p: probability of a channel to be zeroed.
        training: whether to do anything.
        inplace: write into ``input``.
    Returns:
        ``input``'s shape; ``input`` itself with ``inplace``.
    Raises:
        ValueError: ``p`` outside [0, 1].
    Gradient: ``grad / (1 - p)`` at the channels that stayed.
    Source: torch.nn.functional.dropout3d. Tompson et al. 2015.
    Example:
        >>> y = F.dropout3d(torch.ones(20, 2, 2, 2))
        >>> bool((y == y[:, :1, :1, :1]).all()), y.unique()
        (True, tensor([0., 2.]))
    """
    _check_p(p)
    ndim = input.dim()
    if ndim not in (4, 5):
        _unusual(
            "dropout3d",
            ndim,
            "To retain the behavior and silence this warning, please use dropout instead. Note that dropout3d exists "
            "to provide channel-wise dropout on inputs with 3 spatial dimensions, a channel dimension, and an optional batch dimension "
            "(i.e. 4D or 5D inputs).",
        )
    return _of_channels(input, p, training, inplace, ndim == 5)
