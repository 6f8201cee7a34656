"""Plans: which parts a process writes, and which it reads."""

from __future__ import annotations

import io
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ...core.shape import Size
from ...core.tensor import Tensor
from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties

__all__ = ["BytesIOWriteData", "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner", "TensorWriteData",
           "WriteItem", "WriteItemType"]  # fmt: skip


class WriteItemType(Enum):
    """Kinds of what is written: a whole tensor, a part of one, or another object.

    Source: torch.distributed.checkpoint.planner.WriteItemType.
    Example:
        >>> from flambeau.distributed.checkpoint.planner import WriteItemType
        >>> WriteItemType.BYTE_IO.value
        3
    """

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """Kinds of what is read: a tensor, or another object.

    Source: torch.distributed.checkpoint.planner.LoadItemType.
    Example:
        >>> from flambeau.distributed.checkpoint.planner import LoadItemType
        >>> LoadItemType.TENSOR.value
        1
    """

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """Size of an object that is not a tensor.

    Args:
        nbytes: in bytes.
    Source: torch.distributed.checkpoint.planner.BytesIOWriteData.
    Example:
        >>> from flambeau.distributed.checkpoint.planner import BytesIOWriteData
        >>> BytesIOWriteData(3).nbytes
        3
    """

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A part of a tensor.

    Args:
        chunk: the part.
        properties, size: of the whole.
    Source: torch.distributed.checkpoint.planner.TensorWriteData.
    Example:
        >>> from flambeau.distributed.checkpoint.planner import TensorWriteData
        >>> TensorWriteData.__name__
        'TensorWriteData'
    """

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """Something to write.

    Args:
        index: which entry, and which part of it.
        type: what it is.
        bytes_io_data, tensor_data: its size.
    Source: torch.distributed.checkpoint.planner.WriteItem.
    Example:
        >>> from flambeau.distributed.checkpoint import WriteItem
        >>> WriteItem.__name__
        'WriteItem'
    """

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """Bytes of a part of a tensor; None of another object."""
        if self.tensor_data is None:
            return None
        size: int = self.tensor_data.properties.dtype.itemsize
        for n in self.tensor_data.chunk.sizes:
            size *= n
        return size


@dataclass(frozen=True)
class ReadItem:
    """Something to read.

    Args:
        type: what it is.
        dest_index, dest_offsets: where it goes: which part of which entry, and the place in that part.
        storage_index, storage_offsets: where it lies.
        lengths: how much of it.
    Source: torch.distributed.checkpoint.planner.ReadItem.
    Example:
        >>> from flambeau.distributed.checkpoint import ReadItem
        >>> ReadItem.__name__
        'ReadItem'
    """

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """The items that a process writes.

    Args:
        items: parts.
        storage_data, planner_data: of the writer and of the planner.
        usable: always.
    Source: torch.distributed.checkpoint.planner.SavePlan.
    Example:
        >>> from flambeau.distributed.checkpoint import SavePlan
        >>> SavePlan([]).items
        []
    """

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """The items that a process reads.

    Args:
        items: parts.
        storage_data, planner_data: of the reader and of the planner.
    Source: torch.distributed.checkpoint.planner.LoadPlan.
    Example:
        >>> from flambeau.distributed.checkpoint import LoadPlan
        >>> LoadPlan([]).items
        []
    """

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner:
    """Base of planners of ``save``: decides what is written. ``DefaultSavePlanner`` is one.

    Source: torch.distributed.checkpoint.planner.SavePlanner.
    Example:
        >>> from flambeau.distributed.checkpoint import DefaultSavePlanner, SavePlanner
        >>> issubclass(DefaultSavePlanner, SavePlanner)
        True
    """

    def set_up_planner(self, state_dict: Any, storage_meta: Any = None, is_coordinator: bool = False) -> None:
        """Take what is to be saved."""
        raise NotImplementedError

    def create_local_plan(self) -> SavePlan:
        """The items that this process could write."""
        raise NotImplementedError

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """The items that each process shall write, and a record of what the checkpoint then has."""
        raise NotImplementedError

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """The items that this process will write."""
        raise NotImplementedError

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The tensor, or the bytes, of an item."""
        raise NotImplementedError


class LoadPlanner:
    """Base of planners of ``load``: decides what is read, and where it goes. ``DefaultLoadPlanner`` is one.

    Source: torch.distributed.checkpoint.planner.LoadPlanner.
    Example:
        >>> from flambeau.distributed.checkpoint import DefaultLoadPlanner, LoadPlanner
        >>> issubclass(DefaultLoadPlanner, LoadPlanner)
        True
    """

    def set_up_planner(self, state_dict: Any, metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        """Take what is to be filled, and what there is."""
        raise NotImplementedError

    def create_local_plan(self) -> LoadPlan:
        """The items that this process needs."""
        raise NotImplementedError

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """The items that each process shall read."""
        raise NotImplementedError

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """The items that this process will read."""
        raise NotImplementedError

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take an object that was read."""
        raise NotImplementedError

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The memory that a part of a tensor goes to."""
        raise NotImplementedError

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """A part of a tensor has been written to where it goes."""
        raise NotImplementedError
