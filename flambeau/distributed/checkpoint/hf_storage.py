"""Checkpoints in Hugging Face's form: safetensors files, and a list of the tensors and their files.

    one process saves all            model-00001-of-00002.safetensors, ..., model.safetensors.index.json
    each process saves its parts     shard-00001-model-00001-of-00001.safetensors, ...: the first number is the process

Where each part begins in its tensor stands in a note of its file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...core.dtype import dtype as DType
from ...core.shape import Size
from ...core.tensor import wrap
from ...facades.futures import Future
from ...serialization.safetensors import read_array, read_table, write_safetensors
from ._consolidate_hf_safetensors import (
    INDEX,
    SHARDING,
    SHARDS,
    begins_of,
    consolidate_safetensors_files,
    file_name,
    files_of,
    write_index,
)
from .filesystem import FileSystemReader, FileSystemWriter, _StorageInfo, written_whole
from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

_SHARDED = "sharded"  # folder of parts that are to be put together


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes checkpoints as safetensors files.

    Args:
        path: the folder, which is made if need be.
        fqn_to_index_mapping: the number of the file, from 1 on, that each tensor goes to, by name; all go to one file when None.
        thread_count: without effect.
        save_distributed: each process writes its parts, else the one that saves writes whole tensors.
        enable_consolidation: put the parts, which then lie in the folder ``sharded``, together to whole tensors.
        thread_count_consolidation: without effect.
    Raises:
        ValueError: something other than tensors is saved, or more than one part of a tensor by one process.
    Source: torch.distributed.checkpoint.HuggingFaceStorageWriter.
    Example:
        >>> import tempfile
        >>> dcp, folder = torch.distributed.checkpoint, tempfile.mkdtemp()
        >>> dcp.save({"x": torch.ones(2)}, storage_writer=dcp.HuggingFaceStorageWriter(folder), no_dist=True).state_dict_metadata["x"].size
        torch.Size([2])
        >>> torch.load(folder + "/model-00001-of-00001.safetensors")
        {'x': tensor([1., 1.])}
    """

    _metadata_name = INDEX

    def __init__(
        self, path: str | os.PathLike[str], fqn_to_index_mapping: Mapping[str, int] | None = None, thread_count: int = 1,
        save_distributed: bool = False, enable_consolidation: bool = False, thread_count_consolidation: int = 1
    ) -> None:  # fmt: skip
        super().__init__(path)
        self.fqn_to_index_mapping, self.save_distributed = fqn_to_index_mapping, save_distributed
        self.enable_consolidation, self.consolidated_output_path = enable_consolidation, str(path) if enable_consolidation else None
        if enable_consolidation:
            self.path /= _SHARDED

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        shards = range(1, len(plans) + 1) if self.save_distributed else [None] * len(plans)
        return [replace(plan, storage_data=shard) for plan, shard in zip(plans, shards, strict=True)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        files = self.fqn_to_index_mapping
        by_file: dict[int, list[WriteItem]] = {}
        for item in plan.items:
            by_file.setdefault(1 if files is None else files[item.index.fqn], []).append(item)
        results: list[WriteResult] = []
        for number, items in by_file.items():
            name = file_name(number, 1 if files is None else max(files.values()), plan.storage_data)
            results += self._write(name, items, planner)
        done: Future[Any] = Future()
        done.set_result(results)
        return done

    def _write(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        tensors: dict[str, Any] = {}
        begins: dict[str, Any] = {}
        for item in items:
            fqn = item.index.fqn
            if item.type is WriteItemType.BYTE_IO or item.tensor_data is None:
                raise ValueError(f"save: expected tensors for safetensors files, got something else as {fqn}")
            if fqn in tensors:
                raise ValueError(f"save: expected one part of {fqn} of each process for safetensors files, got several")
            tensors[fqn] = planner.resolve_data(item).detach().cpu()  # type: ignore[union-attr]
            begins[fqn] = {"saved_offsets": list(item.tensor_data.chunk.offsets)}
        arrays = {fqn: (tensor.dtype, tensor._array) for fqn, tensor in tensors.items()}
        notes = {SHARDING: json.dumps(begins), "DCP_VERSION": "1.0", "format": "pt"}
        written_whole(self.path / name, lambda file: write_safetensors(file, arrays, notes), self.sync_files)
        sizes = [arrays[item.index.fqn][1].nbytes for item in items]
        return [WriteResult(item.index, size, _StorageInfo(name, 0, size)) for item, size in zip(items, sizes, strict=True)]

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        if not self.save_distributed:
            written = [result for part in results for result in part]
            files = {result.index.fqn: result.storage_data.relative_path for result in written}
            write_index(self.path, files, sum(result.size_in_bytes for result in written))
            return
        self._remove_others({result.storage_data.relative_path for part in results for result in part}, SHARDS)
        if self.consolidated_output_path is not None:
            numbers = self.fqn_to_index_mapping or dict.fromkeys(metadata.state_dict_metadata, 1)
            consolidate_safetensors_files(str(self.path), self.consolidated_output_path, numbers)


@dataclass
class _HFStorageInfo:
    """The place of a part: its file, shape and dtype."""

    relative_path: str
    shape: Size
    dtype: DType


class HuggingFaceStorageReader(FileSystemReader):
    """Reads checkpoints of safetensors files, whole or in parts.

    Args:
        path: the folder.
        thread_count: without effect.
    Source: torch.distributed.checkpoint.HuggingFaceStorageReader.
    Example:
        >>> import tempfile
        >>> dcp, folder = torch.distributed.checkpoint, tempfile.mkdtemp()
        >>> saved = dcp.save({"x": torch.ones(2)}, storage_writer=dcp.HuggingFaceStorageWriter(folder), no_dist=True)
        >>> state = {"x": torch.zeros(2)}
        >>> dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(folder), no_dist=True)
        >>> state["x"]
        tensor([1., 1.])
    """

    def __init__(self, path: str | os.PathLike[str], thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = thread_count

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The tensors of all files of the folder.

        Raises:
            RuntimeError: a file is damaged.
            FileNotFoundError: there is no such folder.
        """
        found: dict[str, TensorStorageMetadata] = {}
        places: dict[MetadataIndex, Any] = {}
        for path in files_of(self.path):
            with open(path, "rb") as file:
                entries, notes = read_table(file)
            begins = begins_of(path, entries, notes)
            for fqn, entry in entries.items():
                begin, shape = Size(begins.get(fqn, (0,) * len(entry.shape))), Size(entry.shape)
                end = [first + size for first, size in zip(begin, shape, strict=True)]
                whole = found.setdefault(fqn, TensorStorageMetadata(TensorProperties(dtype=entry.dtype), Size(end), []))
                whole.size = Size(max(pair) for pair in zip(whole.size, end, strict=True))
                whole.chunks.append(ChunkStorageMetadata(begin, shape))
                places[MetadataIndex(fqn, begin)] = _HFStorageInfo(path.name, shape, entry.dtype)
        return Metadata(dict(found), storage_data=places, storage_meta=StorageMeta())

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        by_file: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                raise ValueError(f"load: expected tensors, which are all that safetensors files hold, got {item.dest_index.fqn}")
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, items in by_file.items():
            with open(self._inside(name), "rb") as file:
                entries, _ = read_table(file)
                for item in items:
                    fqn = item.storage_index.fqn
                    self._hand_over(wrap(read_array(file, fqn, entries[fqn])), item, planner)
        done: Future[Any] = Future()
        done.set_result(None)
        return done
