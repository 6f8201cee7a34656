"""Activation functions as layers. Most are fields and one line: the arguments, and the call of the functional form."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Parameter, Tensor
from . import functional as F, init as initialization
from ._layer import _Printed, layer
from .module import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish",
    "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign",
    "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


@layer("F.relu(input, self.inplace)")
class ReLU(_Printed):
    """``max(0, input)``, element by element.

    Args:
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.ReLU.
    Example:
        >>> nn.ReLU()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([0.0000, 0.5000, 2.0000])
    """

    inplace: bool = False


@layer("F.selu(input, self.inplace)")
class SELU(_Printed):
    """The self-normalising scaled ELU of Klambauer et al. 2017, element by element.

    Args:
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.SELU.
    Example:
        >>> nn.SELU()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-1.5202,  0.5254,  2.1014])
    """

    inplace: bool = False


@layer("F.silu(input, self.inplace)")
class SiLU(_Printed):
    """``input * sigmoid(input)``, element by element.

    Args:
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.SiLU.
    Example:
        >>> nn.SiLU()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.2384,  0.3112,  1.7616])
    """

    inplace: bool = False


@layer("F.mish(input, self.inplace)")
class Mish(_Printed):
    """``input * tanh(softplus(input))``, element by element.

    Args:
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Mish.
    Example:
        >>> nn.Mish()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.2525,  0.3752,  1.9440])
    """

    inplace: bool = False


@layer("F.hardsigmoid(input, self.inplace)")
class Hardsigmoid(Module):
    """``input / 6 + 1 / 2`` cut to ``[0, 1]``, element by element.

    Args:
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Hardsigmoid.
    Example:
        >>> nn.Hardsigmoid()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([0.1667, 0.5833, 0.8333])
    """

    inplace: bool = False


@layer("F.hardswish(input, self.inplace)")
class Hardswish(Module):
    """``input * hardsigmoid(input)``, element by element.

    Args:
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Hardswish.
    Example:
        >>> nn.Hardswish()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.3333,  0.2917,  1.6667])
    """

    inplace: bool = False


@layer("F.elu(input, self.alpha, self.inplace)")
class ELU(_Printed):
    """``input`` where positive, ``alpha * (exp(input) - 1)`` elsewhere, element by element.

    Args:
        alpha: as in the formula.
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.ELU.
    Example:
        >>> nn.ELU(alpha=0.5)(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.4323,  0.5000,  2.0000])
    """

    alpha: float = 1.0
    inplace: bool = False


@layer("F.celu(input, self.alpha, self.inplace)")
class CELU(_Printed):
    """``input`` where positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere, element by element.

    Args:
        alpha: as in the formula.
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.CELU.
    Example:
        >>> nn.CELU(alpha=2.0)(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-1.2642,  0.5000,  2.0000])
    """

    alpha: float = 1.0
    inplace: bool = False


@layer("F.leaky_relu(input, self.negative_slope, self.inplace)")
class LeakyReLU(_Printed):
    """``input`` where positive, ``negative_slope * input`` elsewhere, element by element.

    Args:
        negative_slope: as in the formula.
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.LeakyReLU.
    Example:
        >>> nn.LeakyReLU(0.1)(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.2000,  0.5000,  2.0000])
    """

    negative_slope: float = 1e-2
    inplace: bool = False


@layer("F.rrelu(input, self.lower, self.upper, self.training, self.inplace)")
class RReLU(_Printed):
    """Leaky ReLU whose slope is drawn from ``[lower, upper)`` in training, and their mean in evaluation, element by element.

    Args:
        lower, upper: range of the slope.
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.RReLU.
    Example:
        >>> nn.RReLU(0.1, 0.3).eval()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.4000,  0.5000,  2.0000])
    """

    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False


@layer("F.threshold(input, self.threshold, self.value, self.inplace)")
class Threshold(_Printed):
    """``input`` where above ``threshold``, ``value`` elsewhere, element by element.

    Args:
        threshold, value: as in the formula.
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Threshold.
    Example:
        >>> nn.Threshold(1.0, value=20.0)(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([20., 20.,  2.])
    """

    threshold: float
    value: float
    inplace: bool = False


@layer("F.softplus(input, self.beta, self.threshold)")
class Softplus(_Printed):
    """``log(1 + exp(beta * input)) / beta``, element by element.

    Args:
        beta: sharpness.
        threshold: ``input`` itself is returned where ``beta * input`` is above.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Softplus.
    Example:
        >>> nn.Softplus()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([0.1269, 0.9741, 2.1269])
    """

    beta: float = 1.0
    threshold: float = 20.0


class _Shrink(Module):
    """Prints the bare threshold."""

    def extra_repr(self) -> str:
        return str(self.lambd)


@layer("F.hardshrink(input, self.lambd)")
class Hardshrink(_Shrink):
    """``input`` where its absolute value is above ``lambd``, 0 elsewhere, element by element.

    Args:
        lambd: the threshold.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Hardshrink.
    Example:
        >>> nn.Hardshrink()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-2.,  0.,  2.])
    """

    lambd: float = 0.5


@layer("F.softshrink(input, self.lambd)")
class Softshrink(_Shrink):
    """``input`` moved towards 0 by ``lambd``, 0 where it is nearer, element by element.

    Args:
        lambd: the threshold.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Softshrink.
    Example:
        >>> nn.Softshrink()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-1.5000,  0.0000,  1.5000])
    """

    lambd: float = 0.5


@layer("ops.sigmoid(input)")
class Sigmoid(Module):
    """``1 / (1 + exp(-input))``, element by element.

    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Sigmoid.
    Example:
        >>> nn.Sigmoid()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([0.1192, 0.6225, 0.8808])
    """


@layer("ops.tanh(input)")
class Tanh(Module):
    """Hyperbolic tangent, element by element.

    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Tanh.
    Example:
        >>> nn.Tanh()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.9640,  0.4621,  0.9640])
    """


@layer("F.logsigmoid(input)")
class LogSigmoid(Module):
    """Logarithm of the sigmoid, element by element.

    Shape:
        ``(*)`` to the same.
    Source: torch.nn.LogSigmoid.
    Example:
        >>> nn.LogSigmoid()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-2.1269, -0.4741, -0.1269])
    """


@layer("F.softsign(input)")
class Softsign(Module):
    """``input / (1 + abs(input))``, element by element.

    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Softsign.
    Example:
        >>> nn.Softsign()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.6667,  0.3333,  0.6667])
    """


@layer("F.tanhshrink(input)")
class Tanhshrink(Module):
    """``input - tanh(input)``, element by element.

    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Tanhshrink.
    Example:
        >>> nn.Tanhshrink()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-1.0360,  0.0379,  1.0360])
    """


@layer("F.gelu(input, approximate=self.approximate)")
class GELU(Module):
    """``input`` times the normal distribution function of ``input``, element by element.

    Args:
        approximate: ``"none"``, or ``"tanh"`` for a formula with tanh.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.GELU; Hendrycks and Gimpel 2016.
    Example:
        >>> nn.GELU()(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """

    approximate: str = "none"

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Hardtanh(_Printed):
    """``input`` cut to ``[min_val, max_val]``, element by element.

    Args:
        min_val, max_val: the ends of the interval.
        inplace: write the result into the input.
        min_value, max_value: deprecated names of the first two.
    Shape:
        ``(*)`` to the same.
    Raises:
        AssertionError: ``max_val`` is not above ``min_val``.
    Source: torch.nn.Hardtanh.
    Example:
        >>> nn.Hardtanh(-2.0, 2.0)(torch.tensor([-3.0, 0.5, 3.0]))
        tensor([-2.0000,  0.5000,  2.0000])
    """

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        self.min_val = _renamed("min_value", "min_val", min_value, min_val)
        self.max_val = _renamed("max_value", "max_val", max_value, max_val)
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")  # PyTorch's type

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


def _renamed(old: str, new: str, old_value: float | None, value: float) -> float:
    """The value of an argument that has a deprecated name too."""
    if old_value is None:
        return value
    import warnings

    warnings.warn(f"keyword argument `{old}` is deprecated and rename to `{new}`", FutureWarning, stacklevel=3)
    return old_value


class ReLU6(Hardtanh):
    """``input`` cut to ``[0, 6]``, element by element.

    Args:
        inplace: write the result into the input.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.ReLU6.
    Example:
        >>> nn.ReLU6()(torch.tensor([-3.0, 3.0, 9.0]))
        tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu6(input, self.inplace)


class PReLU(_Printed):
    """``input`` where positive, ``weight * input`` elsewhere, with a learnable slope.

    Args:
        num_parameters: 1, or the number of channels (dimension 1) for a slope of each.
        init: first value of the slope.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(*)`` to the same; the channels are dimension 1.
    Attributes:
        weight: ``(num_parameters,)``, filled with ``init``.
    Source: torch.nn.PReLU; He et al. 2015.
    Example:
        >>> nn.PReLU()(torch.tensor([-4.0, 4.0]))
        tensor([-1.,  4.], grad_fn=<PreluKernelBackward0>)
        >>> nn.PReLU(num_parameters=3).weight
        Parameter containing:
        tensor([0.2500, 0.2500, 0.2500], requires_grad=True)
    """

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(ops.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slope to its first value."""
        initialization.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)


@layer("F.glu(input, self.dim)")
class GLU(_Printed):
    """The first half of the input times the sigmoid of the second half.

    Args:
        dim: dimension that is halved.
    Shape:
        ``(*, n, *)`` to ``(*, n / 2, *)``.
    Source: torch.nn.GLU. Dauphin et al. 2017.
    Example:
        >>> nn.GLU()(torch.tensor([[1.0, 2.0, 0.0, 0.0]]))
        tensor([[0.5000, 1.0000]])
    """

    dim: int = -1


class _AlongDim(_Printed):
    """A function along a dimension."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)  # very old files do not have it


@layer("F.softmax(input, self.dim, _stacklevel=5)")
class Softmax(_AlongDim):
    """``exp(input)`` divided by its sum along ``dim``.

    Args:
        dim: dimension along which the values are taken together. None guesses it, with a warning.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Softmax.
    Example:
        >>> nn.Softmax(dim=0)(torch.tensor([1.0, 2.0, 3.0]))
        tensor([0.0900, 0.2447, 0.6652])
    """

    dim: int | None = None


@layer("F.softmin(input, self.dim, _stacklevel=5)")
class Softmin(_AlongDim):
    """Softmax of ``-input``.

    Args:
        dim: dimension along which the values are taken together. None guesses it, with a warning.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.Softmin.
    Example:
        >>> nn.Softmin(dim=0)(torch.tensor([1.0, 2.0, 3.0]))
        tensor([0.6652, 0.2447, 0.0900])
    """

    dim: int | None = None


@layer("F.log_softmax(input, self.dim, _stacklevel=5)")
class LogSoftmax(_AlongDim):
    """Logarithm of the softmax.

    Args:
        dim: dimension along which the values are taken together. None guesses it, with a warning.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.LogSoftmax.
    Example:
        >>> nn.LogSoftmax(dim=0)(torch.tensor([1.0, 2.0, 3.0]))
        tensor([-2.4076, -1.4076, -0.4076])
    """

    dim: int | None = None


class Softmax2d(Module):
    """Softmax over the channels at each place.

    Shape:
        ``(N, C, H, W)`` or ``(C, H, W)`` to the same.
    Raises:
        ValueError: another number of dimensions.
    Source: torch.nn.Softmax2d.
    Example:
        >>> nn.Softmax2d()(torch.zeros(4, 2, 2))[:, 0, 0]
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)
