"""Records of what a checkpoint has: the objects in its file ``.metadata``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...core.dtype import get_default_dtype
from ...core.layout import channels_last, contiguous_format, preserve_format, strided
from ...core.shape import Size
from ...core.tensor import Tensor

__all__ = ["BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
           "TensorStorageMetadata"]  # fmt: skip


class _MEM_FORMAT_ENCODING(Enum):
    """A memory format in a file."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {
    contiguous_format: _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT, channels_last: _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST,
    preserve_format: _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT,
}  # fmt: skip


@dataclass
class ChunkStorageMetadata:
    """One part of a tensor: where it begins, and its sizes.

    Args:
        offsets, sizes: one number for each dimension.
    Source: torch.distributed.checkpoint.metadata.ChunkStorageMetadata.
    Example:
        >>> from flambeau.distributed.checkpoint import ChunkStorageMetadata
        >>> ChunkStorageMetadata(torch.Size([2]), torch.Size([3])).sizes
        torch.Size([3])
    """

    offsets: Size
    sizes: Size


@dataclass
class TensorProperties:
    """Properties of a stored tensor.

    Args:
        dtype, layout, requires_grad, memory_format, pin_memory: as of the tensor.
    Source: torch.distributed.checkpoint.metadata.TensorProperties.
    Example:
        >>> from flambeau.distributed.checkpoint.metadata import TensorProperties
        >>> TensorProperties.create_from_tensor(torch.ones(2)).dtype
        torch.float32
    """

    dtype: Any = field(default_factory=get_default_dtype)
    layout: Any = strided
    requires_grad: bool = False
    memory_format: Any = contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> Any:
        return self.dtype, self.layout, self.requires_grad, _FORMATS[self.memory_format], self.pin_memory

    def __setstate__(self, state: Any) -> None:
        self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory = state
        self.memory_format = {word: value for value, word in _FORMATS.items()}[encoded]

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """The properties of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint.

    Args:
        properties, size: of the whole.
        chunks: its parts.
    Source: torch.distributed.checkpoint.metadata.TensorStorageMetadata.
    Example:
        >>> from flambeau.distributed.checkpoint import TensorStorageMetadata
        >>> TensorStorageMetadata.__name__
        'TensorStorageMetadata'
    """

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An object of a checkpoint that is not a tensor.

    Source: torch.distributed.checkpoint.metadata.BytesStorageMetadata.
    Example:
        >>> from flambeau.distributed.checkpoint import BytesStorageMetadata
        >>> BytesStorageMetadata()
        BytesStorageMetadata()
    """


@dataclass
class StorageMeta:
    """A checkpoint's place and names.

    Args:
        checkpoint_id, save_id, load_id: names.
        modules: modules that files need.
    Source: torch.distributed.checkpoint.metadata.StorageMeta.
    Example:
        >>> from flambeau.distributed.checkpoint.metadata import StorageMeta
        >>> StorageMeta("here").checkpoint_id
        'here'
    """

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """All of a checkpoint.

    Args:
        state_dict_metadata: by name, what is stored.
        planner_data: by name, where in nested containers it was.
        storage_data: by ``MetadataIndex``, where it lies.
        storage_meta: where the checkpoint lies.
        version: of the format.
    Source: torch.distributed.checkpoint.metadata.Metadata.
    Example:
        >>> from flambeau.distributed.checkpoint import Metadata
        >>> Metadata({}).storage_data is None
        True
    """

    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """One part of one entry.

    Args:
        fqn: the entry's name.
        offset: where the part begins; None of what is not a tensor.
        index: a hint which of the parts it is, that does not count in comparisons.
    Source: torch.distributed.checkpoint.metadata.MetadataIndex.
    Example:
        >>> from flambeau.distributed.checkpoint.metadata import MetadataIndex
        >>> MetadataIndex("weight", [0], 1) == MetadataIndex("weight", [0])
        True
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "offset", None if offset is None else Size(offset))
