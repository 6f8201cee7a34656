"""Cross entropy of the scores of a linear layer, as one loss."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

from ..core import dtype as dtypes
from ..core.tensor import Tensor
from . import functional as F
from .linear import Linear
from .loss import _WeightedLoss

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Options with which PyTorch cuts the batch to save memory. The loss is the same for all; here the scores are computed at once.

    Args:
        allow_retain_graph: whether a second backward pass is possible; here it always is.
        batch_chunk_size: rows at a time.
        chunking_method: ``"auto"``, ``"aspect_ratio"``, ``"aspect_ratio:N"`` or None: what chooses that number.
        acc_policy: ``"accurate"``, ``"balanced"``, ``"compact"`` or ``"auto"``: what is kept in ``acc_dtype``.
        acc_dtype: dtype to add up in.
    Raises:
        ValueError: an argument that is none of these.
    Source: torch.nn.LinearCrossEntropyOptions.
    Example:
        >>> nn.LinearCrossEntropyOptions(batch_chunk_size=256).acc_policy
        'auto'
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = str(self.chunking_method).partition(":")
            factor = factor if colon else "1"
            if name != "aspect_ratio" or not factor.isdigit() or int(factor) <= 0:
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, "
                f"got {self.acc_dtype!r}. Pass acc_dtype=None to let the op pick automatically."
            )


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer and the cross entropy of its results.

    Args:
        in_features: size of an input.
        num_classes: classes, ``C``.
        out_features: further dimensions of the targets, ``(d1, ..., dK)``.
        bias: whether the linear layer has a bias.
        reduction: ``"none"`` gives the single losses, ``"mean"`` their mean, ``"sum"`` their sum.
        weight: of each class.
        ignore_index: class that does not count; -100 when None.
        label_smoothing: share of the target that is spread over all classes.
        options: see ``LinearCrossEntropyOptions``.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(N, in_features)`` and classes ``(N, d1, ..., dK)``, or probabilities ``(N, C, d1, ..., dK)``, to a scalar, or to
        ``(N, d1, ..., dK)`` unreduced.
    Attributes:
        linear: the layer, to ``C * d1 * ... * dK`` features.
    Raises:
        RuntimeError: ``weight`` of another shape, ``label_smoothing`` outside [0, 1].
    Source: torch.nn.LinearCrossEntropyLoss.
    Example:
        >>> loss = nn.LinearCrossEntropyLoss(4, num_classes=10)
        >>> loss(torch.zeros(2, 4), torch.tensor([3, 7]))
        tensor(2.3026, grad_fn=<NllLossBackward0>)
        >>> loss.linear
        Linear(in_features=4, out_features=10, bias=False)
    """

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if label_smoothing < 0 or label_smoothing > 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, None, None, reduction)
        self.num_classes, self.out_features, self.ignore_index = num_classes, out_features, ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
