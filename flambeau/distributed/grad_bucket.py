"""Buckets of gradients as communication hooks of ``DistributedDataParallel`` see them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.tensor import Tensor

__all__ = ["BuiltinCommHookType", "GradBucket"]


class BuiltinCommHookType(enum.Enum):
    """Hooks that ``DistributedDataParallel._register_builtin_comm_hook`` knows by name.

    Source: torch.distributed.BuiltinCommHookType.
    Example:
        >>> torch.distributed.BuiltinCommHookType.FP16_COMPRESS.name
        'FP16_COMPRESS'
    """

    ALLREDUCE = 1
    FP16_COMPRESS = 2


class GradBucket:
    """The gradients of some parameters, in one vector. ``DistributedDataParallel`` makes them for hooks.

    Args:
        index: place in the order of reductions.
        flat: the vector.
        places: views of it in the parameters' shapes.
        parameters: the parameters.
        is_last: whether it is the last of a pass.
    Source: torch.distributed.GradBucket.
    Example:
        >>> bucket = torch.distributed.GradBucket(0, torch.ones(2), [torch.ones(2)], [torch.zeros(2)], True)
        >>> bucket.buffer(), bucket.index(), bucket.is_last()
        (tensor([1., 1.]), 0, True)
    """

    def __init__(self, index: int, flat: Tensor, places: list[Tensor], parameters: list[Tensor], is_last: bool) -> None:
        self._index, self._flat, self._places, self._parameters, self._is_last = index, flat, places, parameters, is_last

    def index(self) -> int:
        """The place in the order of reductions; 0 for the gradients that come first. Source: torch.distributed.GradBucket.index."""
        return self._index

    def buffer(self) -> Tensor:
        """The vector, ``(n,)``. Source: torch.distributed.GradBucket.buffer."""
        return self._flat

    def set_buffer(self, buffer: Tensor) -> None:
        """Show another vector from now on. Source: torch.distributed.GradBucket.set_buffer."""
        self._flat = buffer

    def gradients(self) -> list[Tensor]:
        """Views of the vector, one for each parameter, of its shape. Source: torch.distributed.GradBucket.gradients."""
        return self._places

    def parameters(self) -> list[Tensor]:
        """The parameters. Source: torch.distributed.GradBucket.parameters."""
        return self._parameters

    def is_last(self) -> bool:
        """Whether the bucket is the last of this pass. Source: torch.distributed.GradBucket.is_last."""
        return self._is_last
