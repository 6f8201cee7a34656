"""Shapes as tensors. Source: torch.onnx.operators."""

from __future__ import annotations

from ..core.dtype import int64
from ..core.tensor import Tensor
from ..ops.from_data import tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """A tensor's sizes.

    Args:
        x: any shape.
    Returns:
        ``(x.ndim,)``, int64.
    Source: torch.onnx.operators.shape_as_tensor.
    Example:
        >>> from flambeau.onnx.operators import shape_as_tensor
        >>> shape_as_tensor(torch.ones(2, 3))
        tensor([2, 3])
    """
    return tensor(list(x.shape), dtype=int64)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """A tensor in the shape whose sizes another one has.

    Args:
        x: any shape.
        shape: ``(n,)``, whole numbers.
    Returns:
        A view of ``x`` where that is possible.
    Source: torch.onnx.operators.reshape_from_tensor_shape.
    Example:
        >>> from flambeau.onnx.operators import reshape_from_tensor_shape
        >>> reshape_from_tensor_shape(torch.arange(6), torch.tensor([2, 3])).shape
        torch.Size([2, 3])
    """
    return x.reshape(shape.tolist())
