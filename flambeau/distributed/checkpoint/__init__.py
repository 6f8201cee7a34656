"""``torch.distributed.checkpoint``: checkpoints that many processes write and any number of processes read, in PyTorch's format.

state_dict_saver, state_dict_loader    ``save``, ``async_save``, ``load``
planner, default_planner               what each process writes and reads
storage, filesystem, hf_storage        where it lies
metadata                               what the checkpoint says of itself
state_dict                             states of models and optimizers, however they are divided
"""

from __future__ import annotations

from typing import Any

from ...core import late as _late
from .api import CheckpointException
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from .state_dict_loader import load, load_state_dict
from .state_dict_saver import async_save, save, save_state_dict
from .storage import StorageReader, StorageWriter

_late.adopt(__name__)

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader",
    "FileSystemWriter", "HuggingFaceStorageReader", "HuggingFaceStorageWriter", "LoadPlan", "LoadPlanner", "Metadata", "ReadItem",
    "SavePlan", "SavePlanner", "StorageReader", "StorageWriter", "TensorStorageMetadata", "WriteItem", "async_save", "load",
    "load_state_dict", "save", "save_state_dict",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return _late.submodule(__name__, name, ("format_utils", "state_dict", "stateful"))
