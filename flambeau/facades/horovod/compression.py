"""Narrower dtypes for what is sent. Source: horovod.torch.compression."""

from __future__ import annotations

from typing import Any

from ...core.dtype import bfloat16, dtype as DType, float16
from ...core.tensor import Tensor

__all__ = ["Compression", "Compressor"]


class Compressor:
    """Base of compressions: two static methods. Source: horovod.torch.compression.Compressor."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """The tensor to send, and what ``decompress`` has to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        """The tensor that came, as it was."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are. Source: horovod.torch.Compression.none."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        return tensor


def _narrowing(dtype: DType, name: str) -> type[Compressor]:
    class Narrowing(Compressor):
        @staticmethod
        def compress(tensor: Tensor) -> tuple[Tensor, Any]:
            return (tensor.to(dtype), tensor.dtype) if tensor.is_floating_point() else (tensor, None)

        @staticmethod
        def decompress(tensor: Tensor, ctx: Any) -> Tensor:
            return tensor if ctx is None else tensor.to(ctx)

    Narrowing.__name__ = Narrowing.__qualname__ = name
    Narrowing.__doc__ = f"Sends floating point tensors in {dtype}. Source: horovod.torch.Compression."
    return Narrowing


class Compression:
    """Compressions of what is sent: ``none``, ``fp16``, ``bf16``.

    Source: horovod.torch.Compression.
    Example:
        >>> import flambeau.horovod as hvd
        >>> narrow, known = hvd.Compression.fp16.compress(torch.ones(2))
        >>> narrow.dtype, hvd.Compression.fp16.decompress(narrow, known).dtype
        (torch.float16, torch.float32)
    """

    none = NoneCompressor
    fp16 = _narrowing(float16, "FP16Compressor")
    bf16 = _narrowing(bfloat16, "BF16Compressor")
