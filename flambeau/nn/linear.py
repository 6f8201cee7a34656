"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..autograd.grad_mode import no_grad
from ..core.tensor import Parameter, Tensor
from . import functional as F, init
from .lazy import LazyModuleMixin
from .module import Module
from .parameter import UninitializedParameter

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input unchanged: a placeholder for a layer that is left out.

    Args:
        *args, **kwargs: ignored, so that it can be made as the layer that it stands for.
    Shape:
        ``(*)`` to the same; the tensor itself, not a copy.
    Source: torch.nn.Identity.
    Example:
        >>> nn.Identity(16, bias=False)(torch.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """``input @ weight.T + bias`` over the last dimension.

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        bias: whether there is a bias.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(*, in_features)`` to ``(*, out_features)``.
    Attributes:
        weight: ``(out_features, in_features)``, uniform in ``±1 / sqrt(in_features)``.
        bias: ``(out_features,)``, the same; None without bias.
    Source: torch.nn.Linear.
    Example:
        >>> layer = nn.Linear(3, 2)
        >>> layer(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
        >>> layer.weight.shape, layer.bias.shape
        (torch.Size([2, 3]), torch.Size([2]))
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        # a = sqrt(5) gives the bound 1 / sqrt(in_features)
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """``Linear`` under the name that the last projection of attention has, so that it prints and pickles as in PyTorch.

    Source: torch.nn.modules.linear.NonDynamicallyQuantizableLinear.
    Example:
        >>> type(nn.MultiheadAttention(4, 2).out_proj).__name__
        'NonDynamicallyQuantizableLinear'
    """


class Bilinear(Module):
    """``input1 @ weight[k] @ input2 + bias[k]`` for each output feature ``k``.

    Args:
        in1_features, in2_features: sizes of the last dimensions of the two inputs.
        out_features: size of the last dimension of the output.
        bias: whether there is a bias.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(*, in1_features)`` and ``(*, in2_features)`` to ``(*, out_features)``; the leading dimensions are equal.
    Attributes:
        weight: ``(out_features, in1_features, in2_features)``, uniform in ``±1 / sqrt(in1_features)``.
        bias: ``(out_features,)``, the same; None without bias.
    Raises:
        ValueError: ``in1_features`` is not positive.
    Source: torch.nn.Bilinear.
    Example:
        >>> nn.Bilinear(3, 4, 2)(torch.ones(5, 3), torch.ones(5, 4)).shape
        torch.Size([5, 2])
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(ops.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A ``Linear`` whose ``in_features`` is the last size of its first input.

    Args:
        out_features: size of the last dimension of the output.
        bias: whether there is a bias.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(*, in_features)`` to ``(*, out_features)``.
    Attributes:
        weight, bias: without a shape until the first call, then those of ``Linear``.
    Source: torch.nn.LazyLinear.
    Example:
        >>> layer = nn.LazyLinear(2)
        >>> layer(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
        >>> layer
        Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new weights, once there are any."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take ``in_features`` from an input.

        Raises:
            AssertionError: a weight from a loaded state has another number of columns.
        """
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            features, columns = input.shape[-1], self.weight.shape[-1]
            if features != columns:
                raise AssertionError(  # PyTorch's type
                    f"The in_features inferred from input: {features} is not equal to in_features from self.weight: {columns}"
                )
            self.in_features = features
