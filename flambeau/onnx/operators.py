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
        shape: ``(n,)``, int64.
    Returns:
        A view of ``x`` where that is possible.
    Raises:
        TypeError: ``shape`` is no tensor.
        RuntimeError: it has another dtype than int64 or not one dimension, or ``x`` has no such shape.
    Source: torch.onnx.operators.reshape_from_tensor_shape.
    Example:
        >>> from flambeau.onnx.operators import reshape_from_tensor_shape
        >>> reshape_from_tensor_shape(torch.arange(6), torch.tensor([2, 3])).shape
        torch.Size([2, 3])
    """
    if not isinstance(shape, Tensor):
        raise TypeError(f"reshape_from_tensor_shape: expected shape to be a Tensor, got {type(shape).__name__}")
    if shape.ndim != 1 or shape.dtype is not int64:
        raise RuntimeError(
            f"reshape_from_tensor_shape: expected shape of shape (n,) and dtype int64, got {tuple(shape.shape)}, {shape.dtype}"
        )
    return x.reshape(shape.tolist())
