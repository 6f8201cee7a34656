"""Activation functions as layers. Most are one line: the arguments, and the call of the functional form."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Parameter, Tensor
from . import functional as F, init as initialization
from ._layer import layer
from .module import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish",
    "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign",
    "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _Activation(Module):
    """Prints its arguments; ``inplace`` only if it is set."""

    def extra_repr(self) -> str:
        shown = [f"{name}={getattr(self, name)}" for name in self.__constants__ if name != "inplace"]
        if getattr(self, "inplace", False):
            shown.append("inplace=True")
        return ", ".join(shown)


class _Shrink(_Activation):
    """Prints the bare threshold."""

    def extra_repr(self) -> str:
        return str(self.lambd)


_EXAMPLES = {
    "ReLU": """
        >>> nn.ReLU()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([0.0000, 0.5000, 2.0000])
    """,
    "SELU": """
        >>> nn.SELU()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-1.5202,  0.5254,  2.1014])
    """,
    "SiLU": """
        >>> nn.SiLU()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.2384,  0.3112,  1.7616])
    """,
    "Mish": """
        >>> nn.Mish()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.2525,  0.3752,  1.9440])
    """,
    "Hardsigmoid": """
        >>> nn.Hardsigmoid()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([0.1667, 0.5833, 0.8333])
    """,
    "Hardswish": """
        >>> nn.Hardswish()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.3333,  0.2917,  1.6667])
    """,
    "ELU": """
        >>> nn.ELU(alpha=0.5)(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.4323,  0.5000,  2.0000])
    """,
    "CELU": """
        >>> nn.CELU(alpha=2.0)(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-1.2642,  0.5000,  2.0000])
    """,
    "LeakyReLU": """
        >>> nn.LeakyReLU(0.1)(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.2000,  0.5000,  2.0000])
    """,
    "Softplus": """
        >>> nn.Softplus()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([0.1269, 0.9741, 2.1269])
    """,
    "Hardshrink": """
        >>> nn.Hardshrink()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-2.,  0.,  2.])
    """,
    "Softshrink": """
        >>> nn.Softshrink()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-1.5000,  0.0000,  1.5000])
    """,
    "Sigmoid": """
        >>> nn.Sigmoid()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([0.1192, 0.6225, 0.8808])
    """,
    "Tanh": """
        >>> nn.Tanh()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.9640,  0.4621,  0.9640])
    """,
    "LogSigmoid": """
        >>> nn.LogSigmoid()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-2.1269, -0.4741, -0.1269])
    """,
    "Softsign": """
        >>> nn.Softsign()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.6667,  0.3333,  0.6667])
    """,
    "Tanhshrink": """
        >>> nn.Tanhshrink()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-1.0360,  0.0379,  1.0360])
    """,
    "RReLU": """
        >>> nn.RReLU(0.1, 0.3).eval()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-0.4000,  0.5000,  2.0000])
    """,
    "Threshold": """
        >>> nn.Threshold(1.0, value=20.0)(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([20., 20.,  2.])
    """,
    "Softmax": """
        >>> nn.Softmax(dim=0)(torch.tensor([1.0, 2.0, 3.0]))
        tensor([0.0900, 0.2447, 0.6652])
    """,
    "Softmin": """
        >>> nn.Softmin(dim=0)(torch.tensor([1.0, 2.0, 3.0]))
        tensor([0.6652, 0.2447, 0.0900])
    """,
    "LogSoftmax": """
        >>> nn.LogSoftmax(dim=0)(torch.tensor([1.0, 2.0, 3.0]))
        tensor([-2.4076, -1.4076, -0.4076])
    """,
}


def _doc(formula: str, name: str, arguments: str = "") -> str:
    args = f"\n    Args:{arguments}" if arguments else ""
    return f"""{formula}, element by element.
{args}
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.{name}.
    Example:{_EXAMPLES[name]}"""


_INPLACE = "\n        inplace: write the result into the input."
_INPLACE_ARGUMENT = "inplace: bool = False"

ReLU = layer("ReLU", _INPLACE_ARGUMENT, "F.relu(input, self.inplace)", _doc("``max(0, input)``", "ReLU", _INPLACE), base=_Activation)
SELU = layer(
    "SELU",
    _INPLACE_ARGUMENT,
    "F.selu(input, self.inplace)",
    _doc("The self-normalising scaled ELU of Klambauer et al. 2017", "SELU", _INPLACE),
    base=_Activation,
)
SiLU = layer(
    "SiLU", _INPLACE_ARGUMENT, "F.silu(input, self.inplace)", _doc("``input * sigmoid(input)``", "SiLU", _INPLACE), base=_Activation
)
Mish = layer(
    "Mish", _INPLACE_ARGUMENT, "F.mish(input, self.inplace)", _doc("``input * tanh(softplus(input))``", "Mish", _INPLACE), base=_Activation
)
Hardsigmoid = layer(
    "Hardsigmoid",
    _INPLACE_ARGUMENT,
    "F.hardsigmoid(input, self.inplace)",
    _doc("``input / 6 + 1 / 2`` cut to ``[0, 1]``", "Hardsigmoid", _INPLACE),
)
Hardswish = layer(
    "Hardswish", _INPLACE_ARGUMENT, "F.hardswish(input, self.inplace)", _doc("``input * hardsigmoid(input)``", "Hardswish", _INPLACE)
)
ELU = layer(
    "ELU",
    f"alpha: float = 1.0, {_INPLACE_ARGUMENT}",
    "F.elu(input, self.alpha, self.inplace)",
    _doc("``input`` where positive, ``alpha * (exp(input) - 1)`` elsewhere", "ELU", f"\n        alpha: as in the formula.{_INPLACE}"),
    base=_Activation,
)
CELU = layer(
    "CELU",
    f"alpha: float = 1.0, {_INPLACE_ARGUMENT}",
    "F.celu(input, self.alpha, self.inplace)",
    _doc(
        "``input`` where positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere", "CELU", f"\n        alpha: as in the formula.{_INPLACE}"
    ),
    base=_Activation,
)
LeakyReLU = layer(
    "LeakyReLU",
    f"negative_slope: float = 1e-2, {_INPLACE_ARGUMENT}",
    "F.leaky_relu(input, self.negative_slope, self.inplace)",
    _doc(
        "``input`` where positive, ``negative_slope * input`` elsewhere",
        "LeakyReLU",
        f"\n        negative_slope: as in the formula.{_INPLACE}",
    ),
    base=_Activation,
)
RReLU = layer(
    "RReLU",
    f"lower: float = 1.0 / 8, upper: float = 1.0 / 3, {_INPLACE_ARGUMENT}",
    "F.rrelu(input, self.lower, self.upper, self.training, self.inplace)",
    _doc(
        "Leaky ReLU whose slope is drawn from ``[lower, upper)`` in training, and their mean in evaluation",
        "RReLU",
        f"\n        lower, upper: range of the slope.{_INPLACE}",
    ),
    base=_Activation,
)
Threshold = layer(
    "Threshold",
    f"threshold: float, value: float, {_INPLACE_ARGUMENT}",
    "F.threshold(input, self.threshold, self.value, self.inplace)",
    _doc(
        "``input`` where above ``threshold``, ``value`` elsewhere", "Threshold", f"\n        threshold, value: as in the formula.{_INPLACE}"
    ),
    base=_Activation,
)
Softplus = layer(
    "Softplus",
    "beta: float = 1.0, threshold: float = 20.0",
    "F.softplus(input, self.beta, self.threshold)",
    _doc(
        "``log(1 + exp(beta * input)) / beta``",
        "Softplus",
        "\n        beta: sharpness.\n        threshold: ``input`` itself is returned where ``beta * input`` is above.",
    ),
    base=_Activation,
)
Hardshrink = layer(
    "Hardshrink",
    "lambd: float = 0.5",
    "F.hardshrink(input, self.lambd)",
    _doc("``input`` where its absolute value is above ``lambd``, 0 elsewhere", "Hardshrink", "\n        lambd: the threshold."),
    base=_Shrink,
)
Softshrink = layer(
    "Softshrink",
    "lambd: float = 0.5",
    "F.softshrink(input, self.lambd)",
    _doc("``input`` moved towards 0 by ``lambd``, 0 where it is nearer", "Softshrink", "\n        lambd: the threshold."),
    base=_Shrink,
)
Sigmoid = layer("Sigmoid", "", "ops.sigmoid(input)", _doc("``1 / (1 + exp(-input))``", "Sigmoid"))
Tanh = layer("Tanh", "", "ops.tanh(input)", _doc("Hyperbolic tangent", "Tanh"))
LogSigmoid = layer("LogSigmoid", "", "F.logsigmoid(input)", _doc("Logarithm of the sigmoid", "LogSigmoid"))
Softsign = layer("Softsign", "", "F.softsign(input)", _doc("``input / (1 + abs(input))``", "Softsign"))
Tanhshrink = layer("Tanhshrink", "", "F.tanhshrink(input)", _doc("``input - tanh(input)``", "Tanhshrink"))


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

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Hardtanh(_Activation):
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


class PReLU(_Activation):
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


def _softmax_doc(formula: str, name: str) -> str:
    return f"""{formula}

    Args:
        dim: dimension along which the values are taken together. None guesses it, with a warning.
    Shape:
        ``(*)`` to the same.
    Source: torch.nn.{name}.
    Example:{_EXAMPLES[name]}"""


class _AlongDim(_Activation):
    """A function along a dimension."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)  # very old files do not have it


GLU = layer(
    "GLU",
    "dim: int = -1",
    "F.glu(input, self.dim)",
    """The first half of the input times the sigmoid of the second half.

    Args:
        dim: dimension that is halved.
    Shape:
        ``(*, n, *)`` to ``(*, n / 2, *)``.
    Source: torch.nn.GLU. Dauphin et al. 2017.
    Example:
        >>> nn.GLU()(torch.tensor([[1.0, 2.0, 0.0, 0.0]]))
        tensor([[0.5000, 1.0000]])
    """,
    base=_Activation,
)
Softmax = layer(
    "Softmax",
    "dim: int | None = None",
    "F.softmax(input, self.dim, _stacklevel=5)",
    _softmax_doc("``exp(input)`` divided by its sum along ``dim``.", "Softmax"),
    base=_AlongDim,
)
Softmin = layer(
    "Softmin",
    "dim: int | None = None",
    "F.softmin(input, self.dim, _stacklevel=5)",
    _softmax_doc("Softmax of ``-input``.", "Softmin"),
    base=_AlongDim,
)
LogSoftmax = layer(
    "LogSoftmax",
    "dim: int | None = None",
    "F.log_softmax(input, self.dim, _stacklevel=5)",
    _softmax_doc("Logarithm of the softmax.", "LogSoftmax"),
    base=_AlongDim,
)


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
