"""``torch.nn.init``: filling weights. The same seed gives the same numbers as in PyTorch.

Every function fills ``tensor`` in place, outside the graph, and returns it. ``generator`` is the source of random numbers; the default
generator when None.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

from .. import ops
from ..autograd.grad_mode import no_grad
from ..core.tensor import Tensor

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_", "kaiming_uniform",
    "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform",
    "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip

_GAINS = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"), 1),
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a layer's weights grow so that the nonlinearity after it keeps the variance.

    Args:
        nonlinearity: a function's name, as in ``nn.functional``.
        param: the negative slope of ``leaky_relu``; 0.01 when None.
    Returns:
        The factor, a float: 1 for linear layers and ``sigmoid``, 5 / 3 for ``tanh``, ``sqrt(2)`` for ``relu``, 3 / 4 for ``selu``,
        ``sqrt(2 / (1 + param**2))`` for ``leaky_relu``.
    Raises:
        ValueError: an unknown name, or a slope that is not a number.
    Source: torch.nn.init.calculate_gain; He et al. 2015 for the rectifiers.
    Example:
        >>> nn.init.calculate_gain("leaky_relu", 0.2)
        1.3867504905630728
    """
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


# -- fixed distributions ------------------------------------------------------------------------------------------------------
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers drawn uniformly from ``[a, b)``.

    Args:
        tensor: any shape, floating point; filled in place.
        a, b: the ends of the interval, ``a`` not above ``b``.
        generator: source of random numbers; the default generator when None.
    Returns:
        ``tensor`` itself.
    Raises:
        RuntimeError: ``a`` is above ``b``.
    Source: torch.nn.init.uniform_.
    Example:
        >>> nn.init.uniform_(torch.empty(100), 2.0, 3.0).floor().unique()
        tensor([2.])
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers drawn from a normal distribution.

    Args:
        tensor: any shape, floating point or complex; filled in place.
        mean, std: of the distribution.
        generator: source of random numbers; the default generator when None.
    Returns:
        ``tensor`` itself.
    Raises:
        RuntimeError: ``std`` is negative.
    Source: torch.nn.init.normal_.
    Example:
        >>> nn.init.normal_(torch.empty(2, 3), mean=5.0, std=0.0)
        tensor([[5., 5., 5.],
                [5., 5., 5.]])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None) -> Tensor:
    """Fill with normal numbers from ``[a, b]``.

    Numbers are drawn again until they fit: from the normal distribution where at least 0.3 of it lies in the interval, otherwise from
    the uniform one, of which each is kept with a probability that follows the normal density.

    Args:
        tensor: any shape, floating point; filled in place.
        mean, std: of the normal distribution before it is cut.
        a, b: the ends of the interval, in absolute numbers.
        generator: source of random numbers.
    Returns:
        ``tensor`` itself.
    Source: torch.nn.init.trunc_normal_.
    Example:
        >>> nn.init.trunc_normal_(torch.empty(1000), std=5.0).abs().max() <= 2
        tensor(True)
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.", stacklevel=2
        )
    with no_grad():
        if _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std) > 0.3:
            _draw_normal_inside(tensor, mean, std, a, b, generator)
        else:
            _draw_uniform_under_density(tensor, mean, std, a, b, generator)
    return tensor


def _draw_normal_inside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()  # as the dtype rounds them
    tensor.normal_(mean, std, generator=generator)
    while (outside := (tensor < low) | (tensor > high)).any():
        again = ops.empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(ops.where(outside, again, tensor))


def _draw_uniform_under_density(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    log_peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def rejected(drawn: Tensor) -> Tensor:
        log_density = drawn.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        return ops.empty_like(drawn).uniform_(generator=generator).log_() > log_density

    pending = rejected(tensor.uniform_(a, b, generator=generator))
    while pending.any():
        again = ops.empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(ops.where(pending, again, tensor))
        pending = pending & rejected(again)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number.

    Args:
        tensor: any shape and dtype; filled in place.
        val: the number.
    Returns:
        ``tensor`` itself.
    Source: torch.nn.init.constant_.
    Example:
        >>> nn.init.constant_(torch.empty(3), 0.3)
        tensor([0.3000, 0.3000, 0.3000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    Args:
        tensor: any shape and dtype; filled in place.
    Returns:
        ``tensor`` itself.
    Source: torch.nn.init.ones_.
    Example:
        >>> nn.init.ones_(torch.empty(3))
        tensor([1., 1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Args:
        tensor: any shape and dtype; filled in place.
    Returns:
        ``tensor`` itself.
    Source: torch.nn.init.zeros_.
    Example:
        >>> nn.init.zeros_(nn.Parameter(torch.empty(3)))
        Parameter containing:
        tensor([0., 0., 0.], requires_grad=True)
    """
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity, with which a linear layer keeps as many of its inputs as it can.

    Args:
        tensor: ``(m, n)``, filled in place.
    Returns:
        ``tensor`` itself.
    Raises:
        ValueError: not two dimensions.
    Source: torch.nn.init.eye_.
    Example:
        >>> nn.init.eye_(torch.empty(2, 3))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.zero_().diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make a convolution's weight keep its input: a one in the middle of each kernel from a channel to itself.

    Args:
        tensor: ``(out, in, *kernel)`` with 1 to 3 kernel dimensions.
        groups: the convolution's groups, each of which keeps as many channels as it can.
    Returns:
        ``tensor`` itself.
    Raises:
        ValueError: another number of dimensions, or ``out`` not a multiple of ``groups``.
    Source: torch.nn.init.dirac_.
    Example:
        >>> weight = nn.init.dirac_(torch.empty(2, 2, 3))
        >>> weight[0], nn.functional.conv1d(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), weight, padding=1)
        (tensor([[0., 1., 0.],
                [0., 0., 0.]]), tensor([[1., 2.],
                [3., 4.]]))
    """
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.size(0) // groups
    middle = tuple(length // 2 for length in tensor.size()[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.size(1))):
                tensor[(group * per_group + channel, channel, *middle)] = 1
    return tensor


# -- distributions that depend on the shape -----------------------------------------------------------------------------------
def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """The number of inputs that an output of the layer depends on, and the number of outputs that an input reaches."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    out_features, in_features, *kernel = tensor.shape
    return in_features * math.prod(kernel), out_features * math.prod(kernel)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill uniformly from ``(-bound, bound)`` with ``bound = gain * sqrt(6 / (fan_in + fan_out))``.

    Args:
        tensor: ``(out, in, *kernel)``, at least two dimensions; filled in place. ``fan_in`` is ``in`` times the kernel's elements,
            ``fan_out`` is ``out`` times them.
        gain: factor for the function after the layer, see ``calculate_gain``.
        generator: source of random numbers; the default generator when None.
    Returns:
        ``tensor`` itself.
    Raises:
        ValueError: fewer than two dimensions.
    Source: torch.nn.init.xavier_uniform_; Glorot and Bengio 2010.
    Example:
        >>> nn.init.xavier_uniform_(torch.empty(3, 3)).abs().max() < 1
        tensor(True)
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal numbers of mean 0 and ``std = gain * sqrt(2 / (fan_in + fan_out))``.

    Args:
        tensor: ``(out, in, *kernel)``, at least two dimensions; filled in place. ``fan_in`` is ``in`` times the kernel's elements,
            ``fan_out`` is ``out`` times them.
        gain: factor for the function after the layer, see ``calculate_gain``.
        generator: source of random numbers; the default generator when None.
    Returns:
        ``tensor`` itself.
    Raises:
        ValueError: fewer than two dimensions.
    Source: torch.nn.init.xavier_normal_; Glorot and Bengio 2010.
    Example:
        >>> nn.init.xavier_normal_(torch.empty(100, 100)).std().mul(10).round()
        tensor(1.)
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Tensor:
    """Fill uniformly from ``(-bound, bound)`` with ``bound = gain * sqrt(3 / fan)``.

    Args:
        tensor: ``(out, in, *kernel)``, at least two dimensions; filled in place.
        a: negative slope of the rectifier after the layer (``leaky_relu`` only).
        mode: ``"fan_in"`` keeps the variance in the forward pass, ``"fan_out"`` in the backward pass.
        nonlinearity: name of the function after the layer, see ``calculate_gain``.
        generator: source of random numbers; the default generator when None.
    Returns:
        ``tensor`` itself.
    Raises:
        ValueError: fewer than two dimensions, an unknown ``mode`` or an unknown ``nonlinearity``.
    Source: torch.nn.init.kaiming_uniform_; He et al. 2015.
    Example:
        >>> nn.init.kaiming_uniform_(torch.empty(4, 6), nonlinearity="relu").abs().max() < 1
        tensor(True)
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Tensor:
    """Fill with normal numbers of mean 0 and ``std = gain / sqrt(fan)``.

    Args:
        tensor: ``(out, in, *kernel)``, at least two dimensions; filled in place.
        a: negative slope of the rectifier after the layer (``leaky_relu`` only).
        mode: ``"fan_in"`` keeps the variance in the forward pass, ``"fan_out"`` in the backward pass.
        nonlinearity: name of the function after the layer, see ``calculate_gain``.
        generator: source of random numbers; the default generator when None.
    Returns:
        ``tensor`` itself.
    Raises:
        ValueError: fewer than two dimensions, an unknown ``mode`` or an unknown ``nonlinearity``.
    Source: torch.nn.init.kaiming_normal_; He et al. 2015.
    Example:
        >>> nn.init.kaiming_normal_(torch.empty(100, 200), nonlinearity="relu").std().mul(10).round()
        tensor(1.)
    """
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _is_empty(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with an orthogonal matrix (orthonormal rows or columns, whichever are fewer) times ``gain``.

    Args:
        tensor: at least two dimensions; all but the first are taken together.
        gain: factor.
        generator: source of random numbers.
    Returns:
        ``tensor`` itself.
    Raises:
        ValueError: fewer than two dimensions.
    Source: torch.nn.init.orthogonal_; Saxe et al. 2013. Signs as in Mezzadri 2007.
    Example:
        >>> weight = nn.init.orthogonal_(torch.empty(2, 5))
        >>> (weight @ weight.T).round().abs()
        tensor([[1., 0.],
                [0., 1.]])
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with no_grad():
        matrix = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        if rows < columns:
            matrix = matrix.t()
        q, r = ops.resolve("linalg", "qr")(matrix)
        q = q * ops.diag(r, 0).sign()  # the sign makes the distribution uniform over orthogonal matrices
        if rows < columns:
            q = q.t()
        tensor.view_as(q).copy_(q)
        return tensor.mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal numbers, then set a part of each column to zero.

    Args:
        tensor: two dimensions.
        sparsity: the part of each column that becomes zero.
        std: of the normal numbers.
        generator: source of random numbers.
    Returns:
        ``tensor`` itself.
    Raises:
        ValueError: not two dimensions.
    Source: torch.nn.init.sparse_; Martens 2010.
    Example:
        >>> (nn.init.sparse_(torch.empty(10, 3), sparsity=0.7) == 0).sum(dim=0)
        tensor([7, 7, 7])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[ops.randperm(rows)[:zeros], column] = 0
    return tensor


# -- the names without underscore ---------------------------------------------------------------------------------------------
_DEPRECATED_DOC = """``{new}`` under its deprecated name.

    Args:
        As of ``{new}``: a tensor of a shape that it takes, which is filled in place.
    Returns:
        The tensor itself.
    Raises:
        The errors of ``{new}``; a FutureWarning always.
    Source: torch.nn.init.{old}.
    Example:
        >>> weight = torch.empty({shape})
        >>> nn.init.{old}(weight{more}) is weight
        True
    """


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``function`` under its old name, with a warning."""
    new = function.__name__
    old = new[:-1]

    @functools.wraps(function)
    def deprecated_init(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    deprecated_init.__name__ = deprecated_init.__qualname__ = old
    deprecated_init.__doc__ = _DEPRECATED_DOC.format(
        old=old, new=new, shape="4, 6, 3" if old == "dirac" else "4, 6", more={"constant": ", 0.5", "sparse": ", sparsity=0.5"}.get(old, "")
    )
    return deprecated_init


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
