"""The format from before PyTorch 1.6: five pickles in a row, and behind them the bytes of the storages.

magic number | protocol version | facts about the machine | the object | keys of the storages | count, bytes | count, bytes | ...
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from ..core.dtype import dtype, uint8
from ..core.protocols.rebuild import shown
from ..core.storage import TypedStorage, UntypedStorage
from .archive import CHUNK, read_into
from .locations import Deserializer
from .pickling import SavedStorages, checked_storage_id, dump
from .scanning import storage_ids

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


class SourceChangeWarning(Warning):
    """Warning that the source of a saved module's class has changed. Sources are not compared here, so nothing issues it.

    Source: torch.serialization.SourceChangeWarning.
    Example:
        >>> issubclass(SourceChangeWarning, Warning)
        True
    """


def save_legacy(obj: object, file: IO[bytes], pickle_module: Any, protocol: int) -> None:
    """Write the old format."""
    storages = SavedStorages()

    def identify(value: Any) -> Any:
        pid = storages.identify(value)
        return None if pid is None else (*pid, None)  # the None says that the storage is no view of another

    sizes = {name: struct.calcsize(f"={code}") for name, code in (("short", "h"), ("int", "i"), ("long", "l"))}
    machine = {"protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little", "type_sizes": sizes}
    for header in (MAGIC_NUMBER, PROTOCOL_VERSION, machine):
        pickle_module.dump(header, file, protocol=protocol)
    dump(obj, file, pickle_module, protocol, identify)
    keys = sorted(storages.found)
    pickle_module.dump(keys, file, protocol=protocol)
    for key in keys:
        storage, element = storages.found[key]
        file.write(struct.pack("<q", storage.nbytes() // element.itemsize))
        view = storage._host_bytes.data
        for start in range(0, len(view), CHUNK):
            file.write(view[start : start + CHUNK])


def load_legacy(file: IO[bytes], read: Callable[..., Any], restore: Deserializer, weights_only: bool) -> Any:
    """Read the old format.

    Args:
        file: positioned at the magic number.
        read: reads the next pickle, given the file and a function for persistent ids.
        restore: places a storage.
        weights_only: whether the file may hold data only.
    Raises:
        RuntimeError: not such a file, or one that is cut off.
    """
    _refuse_tar(file, weights_only)

    def no_storage(pid: Any) -> Any:
        raise pickle.UnpicklingError(f"load: expected no storage before the object, got {shown(pid)}")

    if read(file, no_storage) != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = read(file, no_storage)
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {shown(version)}")
    read(file, no_storage)
    start = file.tell()
    end = file.seek(0, io.SEEK_END)
    file.seek(start)
    mentioned = storage_ids(file, end)
    keys = read(file, no_storage)
    if not isinstance(keys, list):
        raise RuntimeError(f"load: expected the list of storages behind the object, got {type(keys).__name__}; corrupt file?")
    storages = LegacyStorages(mentioned, restore, end - start)
    storages.read(keys, file)
    behind = file.tell()
    file.seek(start)
    result = read(file, storages.find)
    file.seek(behind)
    return result


def _refuse_tar(file: IO[bytes], weights_only: bool) -> None:
    """The format before this one was a tar archive."""
    start = file.tell()
    head = file.read(263)
    file.seek(start)
    if head[257:262] != b"ustar":
        return
    if weights_only:
        raise RuntimeError("Cannot use ``weights_only=True`` with files saved in the legacy .tar format.")
    raise NotImplementedError("load: the .tar format from before PyTorch 0.1.10 is not supported; load and save the file with PyTorch")


class LegacyStorages:
    """The storages of a file by key, which are read before the object that they belong to is made.

    Args:
        mentioned: the persistent ids in the object's pickle.
        restore: places a storage.
        room: how many bytes there can be in the rest of the file.
    """

    def __init__(self, mentioned: list[tuple[Any, ...]], restore: Deserializer, room: int) -> None:
        self._restore = restore
        self._mentioned: dict[str, tuple[dtype, str, int]] = {}
        self._read: dict[str, UntypedStorage] = {}
        self._views: dict[Any, UntypedStorage] = {}
        for pid in mentioned:
            if pid[:1] != ("storage",):
                continue
            kind, key, location, numel, _ = checked_storage_id(pid, 6)
            if key not in self._mentioned:
                element = _element_of(kind)
                self._mentioned[key] = element, location, numel * element.itemsize
                room -= numel * element.itemsize
                if room < 0:
                    raise RuntimeError(
                        f"load: a storage of {numel * element.itemsize} bytes cannot be in the rest of the file; corrupt file?"
                    )

    def read(self, keys: list[Any], file: IO[bytes]) -> None:
        """Read the bytes of all storages, which come next in the file."""
        read = {}
        for key in keys:
            if not isinstance(key, str) or key not in self._mentioned:
                raise RuntimeError(f"load: the file has data for storage {shown(key)}, which nothing in it uses; corrupt file?")
            element, _, wanted = self._mentioned[key]
            count = file.read(8)
            if len(count) < 8:
                raise EOFError(f"Ran out of input: the file ends before storage {key}")
            nbytes = struct.unpack("<q", count)[0] * element.itemsize
            if nbytes != wanted:
                raise RuntimeError(f"storage has wrong byte size: expected {wanted} got {nbytes}")
            data = np.empty(nbytes, np.uint8)
            if read_into(file, data) != nbytes:
                raise EOFError(f"Ran out of input: the file ends inside storage {key} of {nbytes} bytes")
            read[key] = data
        for key, (_, location, _) in self._mentioned.items():
            if key not in read:
                raise RuntimeError(f"load: the file has no data for storage {key}; corrupt file?")
            self._read[key] = self._restore(UntypedStorage._of_array(read.pop(key)), location)

    def find(self, pid: Any) -> Any:
        """The object that a persistent id names: a storage, or a module's class saved with its source."""
        if isinstance(pid, tuple) and len(pid) == 4 and pid[0] in ("module", b"module"):
            return pid[1]
        kind, key, _, _, view = checked_storage_id(pid, 6)
        if key not in self._read:
            raise RuntimeError(f"load: the id of storage {shown(key)} is put together in a way that no saved object's is; corrupt file?")
        element, root = _element_of(kind), self._read[key]
        if view is not None:
            root = self._view(root, view, element.itemsize)
        return TypedStorage(wrap_storage=root, dtype=element)

    def _view(self, root: UntypedStorage, view: Any, itemsize: int) -> UntypedStorage:
        """A part of a storage, which very old files treat as a storage of its own."""
        is_view = type(view) is tuple and len(view) == 3 and type(view[0]) in (str, bytes, int)
        if not is_view or not all(type(number) is int and number >= 0 for number in view[1:]):
            raise RuntimeError(f"load: expected (key, offset, size) of a view of a storage, got {shown(view)}")
        key, offset, size = view
        if (offset + size) * itemsize > root.nbytes():
            raise RuntimeError(f"load: expected a view inside a storage of {root.nbytes()} bytes, got {size} elements at {offset}")
        if key not in self._views:
            self._views[key] = UntypedStorage._of_array(root._flat[offset * itemsize : (offset + size) * itemsize])
        return self._views[key]


def _element_of(kind: Any) -> dtype:
    return uint8 if kind is UntypedStorage else kind.dtype
