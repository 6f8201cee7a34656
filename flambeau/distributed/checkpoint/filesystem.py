"""Checkpoints in a folder: a file of each process, and ``.metadata``, which is there when all files are whole.

A checkpoint in the place of another one has files of other names, and the old ones are removed when its ``.metadata`` is there.

A file ``__RANK_NUMBER.distcp`` has the items behind each other, each as ``torch.save`` writes it. ``.metadata`` is a pickle of
``Metadata``; only the classes of that are made of it, and no code of a file ever runs.
"""

from __future__ import annotations

import io
import os
import pickle
import threading
import uuid
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from ... import serialization
from ...core.shape import Size
from ...facades.futures import Future
from ...serialization.names import DATA, _get_layout
from ...serialization.pickling import dump
from . import metadata as records
from .default_planner import copy_into
from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]

_METADATA, _SUFFIX, _VERSION = ".metadata", ".distcp", "1.0.0"


class SerializationFormat(Enum):
    """A way of writing tensors.

    Source: torch.distributed.checkpoint.filesystem.SerializationFormat.
    Example:
        >>> from flambeau.distributed.checkpoint.filesystem import SerializationFormat
        >>> SerializationFormat.TORCH_SAVE.value
        'torch_save'
    """

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


@dataclass
class _StorageInfo:
    """The place of an item: its file, its first byte, and its length in bytes."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value is not None}


# -- the file of metadata ----------------------------------------------------------------------------------------------------------
def _path(*parts: str) -> str:
    """A path of a file, as a text."""
    return str(Path(*parts))


_CLASSES: dict[str, type] = {
    **{f"torch.distributed.checkpoint.metadata.{name}": getattr(records, name) for name in records.__all__},
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING": records._MEM_FORMAT_ENCODING,
    "torch.distributed.checkpoint.filesystem._StorageInfo": _StorageInfo,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch.Size": Size, "torch.serialization._get_layout": _get_layout,
    **{f"{module}.{name}": _path for module in ("pathlib", "pathlib._local")
       for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")},
}  # fmt: skip
_PYTHON_UNPICKLER: Any = pickle._Unpickler


class _MetadataUnpickler(_PYTHON_UNPICKLER):
    """Makes records and data, and nothing else."""

    dispatch = dict(_PYTHON_UNPICKLER.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        for table in (_CLASSES, _FUNCTIONS):
            if full in table:
                return table[full]
        value = DATA.get(full)
        if value is None or callable(value):
            raise pickle.UnpicklingError(f"load: a checkpoint's metadata has no {full:.200}")
        return value

    def load_build(self) -> None:
        """Give an object that was made its fields, which are no attributes of a class."""
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) not in _CLASSES.values():
            raise pickle.UnpicklingError(f"load: expected fields of a record, got those of {type(target).__name__}")
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
            return
        names = getattr(type(target), "__dataclass_fields__", {})
        if type(state) is not dict or not all(name in names for name in state):
            raise pickle.UnpicklingError(f"load: {type(target).__name__} has other fields")
        target.__dict__.update(state)

    dispatch[pickle.BUILD[0]] = load_build


def read_metadata(file: Any) -> Metadata:
    """The metadata of a checkpoint.

    Raises:
        pickle.UnpicklingError: the file has something else.
    """
    loaded = _MetadataUnpickler(file).load()
    if not isinstance(loaded, Metadata):
        raise pickle.UnpicklingError(f"load: expected a checkpoint's metadata, got {type(loaded).__name__}")
    return loaded


def written_whole(path: Path, write: Callable[[Any], Any], sync: bool) -> None:
    """Write a file under another name, and give it its own when it is whole."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with open(temporary, "wb") as file:
            write(file)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# -- writing -----------------------------------------------------------------------------------------------------------------------
class FileSystemWriter(StorageWriter):
    """Writes checkpoints into a folder.

    Args:
        path: the folder, which is made if need be.
        single_file_per_rank: one file of each process, instead of one of each item.
        sync_files: have the system write files before they are renamed.
        thread_count, per_thread_copy_ahead, cache_staged_state_dict: without effect.
        overwrite: replace a checkpoint that is there.
        _extensions: not supported.
        serialization_format: how tensors are written; as ``torch.save`` writes them.
    Raises:
        NotImplementedError: extensions, or another format.
    Source: torch.distributed.checkpoint.FileSystemWriter.
    Example:
        >>> from flambeau.distributed.checkpoint import FileSystemWriter
        >>> FileSystemWriter("checkpoint").sync_files
        True
    """

    _metadata_name = _METADATA

    def __init__(
        self, path: str | os.PathLike[str], single_file_per_rank: bool = True, sync_files: bool = True, thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000, cache_staged_state_dict: bool = False, overwrite: bool = True, _extensions: Any = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE
    ) -> None:  # fmt: skip
        if _extensions:
            raise NotImplementedError("FileSystemWriter: extensions are not supported")
        if serialization_format is not SerializationFormat.TORCH_SAVE:
            raise NotImplementedError(f"FileSystemWriter: {serialization_format} is not supported")
        self.path, self.single_file_per_rank, self.sync_files, self.overwrite = Path(path), single_file_per_rank, sync_files, overwrite
        self.save_id = str(uuid.uuid4())

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Prepare for writing."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / self._metadata_name).exists() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and {self.overwrite=}.")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        # Beside files of another checkpoint names are new ones, so that it stays whole until this one is.
        mark = f"{self.save_id[:8]}_" if any(self.path.glob(f"*{_SUFFIX}")) else ""
        return [replace(plan, storage_data=f"__{i}_{mark}") for i, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        groups = [list(plan.items)] if self.single_file_per_rank else [[item] for item in plan.items]
        results: list[WriteResult] = []
        for number, items in enumerate(groups):
            if items:
                name = f"{plan.storage_data}{number}{_SUFFIX}"
                items.sort(key=lambda item: item.type is not WriteItemType.BYTE_IO)
                written: list[WriteResult] = []
                written_whole(self.path / name, lambda file, items=items, name=name, written=written: written.extend(  # type: ignore[misc]
                    _write_items(file, items, planner, name)), self.sync_files)  # fmt: skip
                results += written
        done: Future[Any] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {result.index: result.storage_data for part in results for result in part}
        metadata.storage_meta, metadata.version = self.storage_meta(), _VERSION
        written_whole(self.path / _METADATA, lambda file: dump(metadata, file, pickle, 4, lambda _: None), self.sync_files)
        # Of the checkpoint before, and of such as were not finished:
        self._remove_others({info.relative_path for info in metadata.storage_data.values()}, f"__*{_SUFFIX}*", f"{_METADATA}.*.tmp")

    def _remove_others(self, named: Set[str], *patterns: str) -> None:
        """Remove files of these patterns that are none of this checkpoint's."""
        for pattern in patterns:
            for file in self.path.glob(pattern):
                if file.name not in named:
                    with suppress(OSError):
                        file.unlink()

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=str(self.path), save_id=self.save_id)

    @property
    def checkpoint_id(self) -> Any:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return isinstance(checkpoint_id, os.PathLike) or "://" not in checkpoint_id


def _write_items(file: Any, items: list[WriteItem], planner: SavePlanner, name: str) -> list[WriteResult]:
    """Write items behind each other."""
    results = []
    for item in items:
        begin = file.tell()
        data = planner.resolve_data(item)
        if isinstance(data, io.BytesIO):
            file.write(data.getbuffer())
        else:
            # A copy, as a view would be written with all of its memory; to a file of its own, as archives count from their begin.
            part = io.BytesIO()
            serialization.save(data.detach().clone(), part)
            file.write(part.getbuffer())
        length = file.tell() - begin
        results.append(WriteResult(item.index, length, _StorageInfo(name, begin, length)))
    return results


# -- reading -----------------------------------------------------------------------------------------------------------------------
class FileSystemReader(StorageReader):
    """Reads checkpoints from a folder.

    Args:
        path: the folder.
        _extension_registry: not supported.
    Raises:
        NotImplementedError: an ``_extension_registry``.
    Source: torch.distributed.checkpoint.FileSystemReader.
    Example:
        >>> from flambeau.distributed.checkpoint import FileSystemReader
        >>> FileSystemReader("checkpoint").validate_checkpoint_id("s3://bucket")
        False
    """

    def __init__(self, path: str | os.PathLike[str], _extension_registry: Any = None) -> None:
        if _extension_registry is not None:
            raise NotImplementedError("FileSystemReader: extensions are not supported")
        self.path = Path(path)
        self.storage_data: dict[MetadataIndex, _StorageInfo] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self.storage_data = {}
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with open(self.path / _METADATA, "rb") as file:
            return read_metadata(file)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        by_file: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, items in by_file.items():
            with open(self._inside(name), "rb") as file:
                for item in items:
                    self._read(file, item, planner)
        done: Future[Any] = Future()
        done.set_result(None)
        return done

    def _inside(self, name: str) -> Path:
        """A file of the folder.

        Raises:
            ValueError: it lies elsewhere.
        """
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ValueError(f"load: expected a file of the checkpoint's folder, got {name}")
        return self.path / name

    def _read(self, file: Any, item: ReadItem, planner: LoadPlanner) -> None:
        info = self.storage_data[item.storage_index]
        if getattr(info, "transform_descriptors", None):
            raise NotImplementedError(f"load: {item.storage_index.fqn} was transformed by extensions, which are not supported")
        file.seek(info.offset)
        data = io.BytesIO(file.read(info.length))
        if item.type is LoadItemType.BYTE_IO:
            planner.load_bytes(item, data)
            return
        self._hand_over(serialization.load(data, map_location="cpu", weights_only=True), item, planner)

    def _hand_over(self, tensor: Any, item: ReadItem, planner: LoadPlanner) -> None:
        """Give a planner the part of a stored tensor that it asked for."""
        for dim, (begin, size) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
            tensor = tensor.narrow(dim, begin, size)
        target = planner.resolve_tensor(item)
        if target.shape != tensor.shape:
            raise AssertionError(f"req {item.storage_index} mismatch sizes {target.shape} vs {tensor.shape}")
        copy_into(target, tensor)
        planner.commit_tensor(item, target)

    @property
    def checkpoint_id(self) -> Any:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return isinstance(checkpoint_id, os.PathLike) or "://" not in checkpoint_id
