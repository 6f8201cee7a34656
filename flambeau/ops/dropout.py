"""Dropout: functions that zero elements, or whole channels, at random in training."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite
from ..core.random import samplers
from ..core.random.generator import default_generator
from ..core.state import modes, run_ignoring_fp, thread
from ..core.tensor import Tensor as TensorType, wrap
from .creation import array_like

_SELU_SATURATION = 1.7580993408473766  # scale * alpha of SELU: minus the value that alpha dropout puts in


def _check_p(p: Any) -> float:
    p = float(p)
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    return p


def _noise(input: Any, feature: bool, kind: Any) -> np.ndarray:
    """Empty array for the mask of elements to keep, in ``input``'s memory order; for feature dropout one element a channel."""
    array = input._array
    of = dtypes.of_array(array)
    if of.is_complex:
        raise NotImplementedError(f"\"bernoulli_scalar_cpu_\" not implemented for '{of.legacy}'")
    if of.category < dtypes.FLOATING:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {of.legacy}")
    if feature:
        if array.ndim < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        return np.empty(array.shape[:2] + (1,) * (array.ndim - 2), kind)
    return array_like(array, np.dtype(kind))


def _as_input(noise: np.ndarray, input: Any, feature: bool) -> np.ndarray:
    """Feature noise in all dimensions, where a product with it would not have the input's strides."""
    if not feature or input._array.flags.c_contiguous:
        return noise
    spread = array_like(input._array, noise.dtype)
    spread[...] = noise
    return spread


def _rounded(value: Any, of: np.dtype) -> Any:
    """A number as PyTorch's kernels hold it: float32 for the reduced types."""
    return np.float32(value) if of.itemsize == 2 else of.type(value)


def _draw(array: np.ndarray, *chance: float) -> None:
    """Fill an array from the default generator: as ``samplers.fill_bernoulli`` says."""
    samplers.fill_bernoulli(default_generator, array, *chance)
    if thread.recorder is not None:
        thread.recorder.draw(lambda other: samplers.fill_bernoulli(default_generator, other, *chance), array)


def _choose(mask: np.ndarray, kept: Any, dropped: Any, of: np.dtype) -> Any:
    if thread.recorder is not None:
        return (
            wrap(mask)
            .new_full(mask.shape, float(of.type(dropped)), dtype=dtypes.BY_NUM[of.num])
            .masked_fill(wrap(mask), float(of.type(kept)))
        )
    result = np.empty_like(mask, of)
    result[...] = float(of.type(dropped))  # a device knows Python's numbers, and not all of NumPy's
    np.copyto(result, float(of.type(kept)), where=mask)
    return wrap(result)


@lru_cache(maxsize=256)
def kept_scale(p: float, of: np.dtype) -> float:
    """Factor of elements that are kept."""
    return float(run_ignoring_fp(np.divide, _rounded(1.0, of), _rounded(1.0 - p, of)))


def alpha_terms(p: float, of: np.dtype) -> tuple[float, Any, Any]:
    """Alpha dropout's factor of elements that stay, what is added to them, and what those become that go."""
    a = 1.0 / math.sqrt((_SELU_SATURATION * _SELU_SATURATION * p + 1) * (1 - p))
    # dropped elements become -(saturation * a) + offset; each step is rounded to the dtype, and a summand too
    lowered, offset = of.type(-_rounded(_SELU_SATURATION * a, of)), of.type(_SELU_SATURATION * a * p)
    return a, offset, _rounded(lowered, of) + _rounded(offset, of)


def _dropped(input: Any, p: Any, train: bool, feature: bool, alpha: bool, inplace: bool) -> Any:
    if not isinstance(input, TensorType):
        name = f"{'feature_' if feature else ''}{'alpha_' if alpha else ''}dropout{'_' if inplace else ''}"
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    p = _check_p(p)
    if p == 0 or not train or input._array.size == 0:
        return input
    kind: Any = type(input)
    multiply = kind.mul_ if inplace else kind.mul
    of = input._array.dtype
    if p == 1:
        return multiply(input, input.new_zeros(()))
    if thread.levels and (made := modes.transforms.dropped(input, p, feature, alpha, inplace)) is not NotImplemented:
        return made
    if not alpha:
        noise = _noise(input, feature, of)
        _draw(noise, 1.0 - p, kept_scale(p, of))
        return multiply(input, wrap(_as_input(noise, input, feature)))
    mask = _noise(input, feature, np.bool_)
    _draw(mask, 1.0 - p)
    mask = _as_input(mask, input, feature)
    a, offset, dropped = alpha_terms(p, of)
    noise, shift = _choose(mask, a, 0.0, of), _choose(mask, offset, dropped, of)
    kept = multiply(input, noise)
    return kept.add_(shift) if inplace else kept.add(shift)


@composite(method=False, draws="mask")
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero each element with probability ``p`` and multiply the others by ``1 / (1 - p)``, in training.

    Args:
        input: any shape, floating point.
        p: probability of an element to be zeroed.
        train: whether to do anything.
    Returns:
        ``input``'s shape and dtype; ``input`` itself where nothing is done.
    Raises:
        RuntimeError: ``p`` outside [0, 1], or integers.
    Gradient: ``grad / (1 - p)`` at the elements that stayed.
    Source: torch.dropout. Srivastava et al. 2014.
    Example:
        >>> torch.dropout(torch.ones(8), 0.5, True).unique()
        tensor([0., 2.])
        >>> torch.dropout(torch.ones(2), 1.0, True), torch.dropout(torch.ones(2), 1.0, False)
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    return _dropped(input, p, train, feature=False, alpha=False, inplace=False)


@composite(method=False, name="dropout_")
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`torch.dropout` that writes its result into ``input``.

    Args:
        input: any shape, floating point.
        p: probability of an element to be zeroed.
        train: whether to do anything.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: ``p`` outside [0, 1], or a leaf that requires a gradient.
    Gradient: ``grad / (1 - p)`` at the elements that stayed.
    Source: torch.dropout_.
    Example:
        >>> x = torch.ones(2)
        >>> torch.dropout_(x, 1.0, True) is x, x
        (True, tensor([0., 0.]))
    """
    return _dropped(input, p, train, feature=False, alpha=False, inplace=True)


@composite(method=False, draws="inside")
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero whole channels with probability ``p`` and multiply the others by ``1 / (1 - p)``, in training.

    Args:
        input: ``(N, C, *)``, floating point.
        p: probability of a channel to be zeroed.
        train: whether to do anything.
    Returns:
        ``input``'s shape and dtype; ``input`` itself where nothing is done.
    Raises:
        RuntimeError: ``p`` outside [0, 1], or fewer than 2 dimensions.
    Gradient: ``grad / (1 - p)`` at the channels that stayed.
    Source: torch.feature_dropout. Tompson et al. 2015.
    Example:
        >>> y = torch.feature_dropout(torch.ones(1, 4, 3), 0.5, True)
        >>> bool((y == y[..., :1]).all()), y.unique()
        (True, tensor([0., 2.]))
    """
    return _dropped(input, p, train, feature=True, alpha=False, inplace=False)


@composite(method=False, name="feature_dropout_")
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`torch.feature_dropout` that writes its result into ``input``.

    Args:
        input: ``(N, C, *)``, floating point.
        p: probability of a channel to be zeroed.
        train: whether to do anything.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: ``p`` outside [0, 1], fewer than 2 dimensions, or a leaf that requires a gradient.
    Gradient: ``grad / (1 - p)`` at the channels that stayed.
    Source: torch.feature_dropout_.
    Example:
        >>> x = torch.ones(1, 2, 2)
        >>> torch.feature_dropout_(x, 1.0, True) is x, x.sum()
        (True, tensor(0.))
    """
    return _dropped(input, p, train, feature=True, alpha=False, inplace=True)


@composite(method=False, draws="mask")
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout that keeps mean and variance: dropped elements get SELU's negative saturation value, then all are scaled and moved.

    Args:
        input: any shape, floating point.
        p: probability of an element to be dropped.
        train: whether to do anything.
    Returns:
        ``input``'s shape and dtype; ``input`` itself where nothing is done.
    Raises:
        RuntimeError: ``p`` outside [0, 1].
    Gradient: ``grad`` times the scale at the elements that stayed.
    Source: torch.alpha_dropout. Klambauer et al. 2017.
    Example:
        >>> y = torch.alpha_dropout(torch.zeros(100), 0.5, True)
        >>> y.unique()
        tensor([-0.7792,  0.7792])
    """
    return _dropped(input, p, train, feature=False, alpha=True, inplace=False)


@composite(method=False, name="alpha_dropout_")
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`torch.alpha_dropout` that writes its result into ``input``.

    Args:
        input: any shape, floating point.
        p: probability of an element to be dropped.
        train: whether to do anything.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: ``p`` outside [0, 1], or a leaf that requires a gradient.
    Gradient: ``grad`` times the scale at the elements that stayed.
    Source: torch.alpha_dropout_.
    Example:
        >>> x = torch.zeros(100)
        >>> torch.alpha_dropout_(x, 0.5, True) is x, x.unique()
        (True, tensor([-0.7792,  0.7792]))
    """
    return _dropped(input, p, train, feature=False, alpha=True, inplace=True)


@composite(method=False, draws="inside")
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`torch.alpha_dropout` of whole channels.

    Args:
        input: ``(N, C, *)``, floating point.
        p: probability of a channel to be dropped.
        train: whether to do anything.
    Returns:
        ``input``'s shape and dtype; ``input`` itself where nothing is done.
    Raises:
        RuntimeError: ``p`` outside [0, 1], or fewer than 2 dimensions.
    Gradient: ``grad`` times the scale at the channels that stayed.
    Source: torch.feature_alpha_dropout.
    Example:
        >>> y = torch.feature_alpha_dropout(torch.zeros(1, 100, 3), 0.5, True)
        >>> bool((y == y[..., :1]).all()), y.unique()
        (True, tensor([-0.7792,  0.7792]))
    """
    return _dropped(input, p, train, feature=True, alpha=True, inplace=False)


@composite(method=False, name="feature_alpha_dropout_")
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`torch.feature_alpha_dropout` that writes its result into ``input``.

    Args:
        input: ``(N, C, *)``, floating point.
        p: probability of a channel to be dropped.
        train: whether to do anything.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: ``p`` outside [0, 1], fewer than 2 dimensions, or a leaf that requires a gradient.
    Gradient: ``grad`` times the scale at the channels that stayed.
    Source: torch.feature_alpha_dropout_.
    Example:
        >>> x = torch.zeros(1, 100, 3)
        >>> torch.feature_alpha_dropout_(x, 0.5, True) is x, x.unique()
        (True, tensor([-0.7792,  0.7792]))
    """
    return _dropped(input, p, train, feature=True, alpha=True, inplace=True)


@composite(method=False, draws="mask")
def native_dropout(input: Tensor, p: float, train: bool | None) -> Any:
    """Dropout that also returns which elements stayed.

    Args:
        input: any shape, floating point.
        p: probability of an element to be zeroed.
        train: whether to do anything; also when None.
    Returns:
        The result, and a bool tensor of ``input``'s shape.
    Raises:
        RuntimeError: ``p`` outside [0, 1].
    Gradient: ``grad / (1 - p)`` at the elements that stayed.
    Source: torch.native_dropout.
    Example:
        >>> y, stays = torch.native_dropout(torch.ones(8), 0.5, True)
        >>> torch.equal(y, stays * 2.0), torch.native_dropout(torch.ones(1), 0.5, False)
        (True, (tensor([1.]), tensor([True])))
    """
    array = input._array
    if array.size == 0:
        return input.clone(), wrap(np.empty_like(array))
    mask = array_like(array, np.dtype(np.bool_))
    stays = wrap(mask)
    if train is False:
        mask.fill(True)
        return input.clone(), stays
    keep = 1.0 - _check_p(p)
    _draw(mask, keep)
    return input.mul(stays).mul(0.0 if keep == 0 else 1.0 / keep), stays


# -- as ``torch.nn.functional`` has them: with defaults, checks of arguments and in-place forms -----------------------------------------
def _require_probability(p: Any) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _warn_unusual(rank: int, ndim: int) -> None:
    name = f"dropout{rank}d"
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an error in a future release. To retain the "
        f"behavior and silence this warning, please use dropout instead. Note that {name} exists to provide channel-wise dropout on inputs "
        f"with {rank} spatial dimensions, a channel dimension, and an optional batch dimension (i.e. {rank + 1}D or {rank + 2}D inputs).",
        UserWarning,
        stacklevel=4,
    )


@composite(name="dropout", namespace="nn.functional", draws="mask")
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
    _require_probability(p)
    return dropout_(input, p, training) if inplace else dropout(input, p, training)


@composite(name="alpha_dropout", namespace="nn.functional", draws="mask")
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
    _require_probability(p)
    return alpha_dropout_(input, p, training) if inplace else alpha_dropout(input, p, training)


@composite(name="feature_alpha_dropout", namespace="nn.functional", draws="inside")
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
    _require_probability(p)
    return feature_alpha_dropout_(input, p, training) if inplace else feature_alpha_dropout(input, p, training)


def _of_channels(input: Any, p: float, training: bool, inplace: bool, batched: bool) -> Any:
    """Channel dropout; an input without batch dimension gets one for it."""
    x = input if batched else input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = feature_dropout_(x, p, training) if inplace else feature_dropout(x, p, training)
    if batched:
        return result
    return result.squeeze_(0) if inplace else result.squeeze(0)


@composite(namespace="nn.functional", draws="inside")
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
    _require_probability(p)
    ndim = input.dim()
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that dropout1d exists to provide channel-wise dropout "
            "on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _of_channels(input, p, training, inplace, ndim == 3)


@composite(namespace="nn.functional", draws="inside")
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
    _require_probability(p)
    ndim = input.dim()
    if ndim not in (3, 4):
        _warn_unusual(2, ndim)
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


@composite(namespace="nn.functional", draws="inside")
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
    _require_probability(p)
    ndim = input.dim()
    if ndim not in (4, 5):
        _warn_unusual(3, ndim)
    return _of_channels(input, p, training, inplace, ndim == 5)
