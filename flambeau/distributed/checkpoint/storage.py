"""The interface to places of checkpoints, which ``save`` and ``load`` use."""

from __future__ import annotations

import os
from typing import Any

from .metadata import Metadata, StorageMeta
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


class StorageWriter:
    """Base of writers. ``FileSystemWriter`` is one.

    Source: torch.distributed.checkpoint.StorageWriter.
    Example:
        >>> from flambeau.distributed.checkpoint import FileSystemWriter, StorageWriter
        >>> issubclass(FileSystemWriter, StorageWriter)
        True
    """

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a checkpoint, of another name if one is given."""
        raise NotImplementedError

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Prepare for writing."""
        raise NotImplementedError

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """A process's plan, with data of the writer's."""
        raise NotImplementedError

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """All plans, with data of the writer's."""
        raise NotImplementedError

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        """Write what a plan says. Returns a future of a list of ``WriteResult``."""
        raise NotImplementedError

    def finish(self, metadata: Metadata, results: list[list[Any]]) -> None:
        """Write what the checkpoint has."""
        raise NotImplementedError

    def storage_meta(self) -> StorageMeta | None:
        """The checkpoint's place and names."""
        return None

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether a name is one of this writer's."""
        raise NotImplementedError


class StorageReader:
    """Base of readers. ``FileSystemReader`` is one.

    Source: torch.distributed.checkpoint.StorageReader.
    Example:
        >>> from flambeau.distributed.checkpoint import FileSystemReader, StorageReader
        >>> issubclass(FileSystemReader, StorageReader)
        True
    """

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin to read a checkpoint, of another name if one is given."""
        raise NotImplementedError

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """A record of what the checkpoint has."""
        raise NotImplementedError

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Prepare for reading."""
        raise NotImplementedError

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """A process's plan, with data of the reader's."""
        raise NotImplementedError

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """All plans, with data of the reader's."""
        raise NotImplementedError

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        """Read what a plan says. Returns a future."""
        raise NotImplementedError

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether a name is one of this reader's."""
        raise NotImplementedError


class WriteResult:
    """The place that an item was written to.

    Args:
        index: the item.
        size_in_bytes: how much.
        storage_data: where.
    Source: torch.distributed.checkpoint.storage.WriteResult.
    Example:
        >>> from flambeau.distributed.checkpoint.storage import WriteResult
        >>> WriteResult("item", 3, None).size_in_bytes
        3
    """

    def __init__(self, index: Any, size_in_bytes: int, storage_data: Any) -> None:
        self.index, self.size_in_bytes, self.storage_data = index, size_in_bytes, storage_data
