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

from ..core.arrays.kinds import moved, on_device_of
from ..core.device import cpu
from ..core.dtype import uint8
from ..core.protocols.rebuild import UNREAD, shown
from ..core.storage import TypedStorage, UntypedStorage
from .archive import CHUNK, read_into
from .locations import Deserializer
from .pickling import SavedStorages, checked_storage_id, dump

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


class SourceChangeWarning(Warning):
    """The source of a saved module's class is not the one it was saved with. Sources are not compared here, so nothing issues it.

    Source: torch.serialization.SourceChangeWarning.
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
    storages = LegacyStorages(restore, file.seek(0, io.SEEK_END) - start)
    file.seek(start)
    result = read(file, storages.find)
    keys = read(file, no_storage)
    if not isinstance(keys, list):
        raise RuntimeError(f"load: expected the list of storages behind the object, got {type(keys).__name__}; corrupt file?")
    for key in keys:
        storages.fill(key, file)
    missing = set(storages.roots) - set(keys)
    if missing:
        raise RuntimeError(f"load: the file has no data for storage {min(missing)}; corrupt file?")
    storages.finish()
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
    """Storages by key. They exist before their bytes are read, for the bytes come last in the file.

    Args:
        restore: places a storage.
        room: how many bytes there can be in the rest of the file.
    """

    def __init__(self, restore: Deserializer, room: int) -> None:
        self._restore, self._room = restore, room
        self.roots: dict[str, tuple[UntypedStorage, int]] = {}
        self._views: dict[Any, UntypedStorage] = {}
        self._later: list[Callable[[], None]] = []

    def find(self, pid: Any) -> Any:
        """The object that a persistent id names: a storage, or a module's class saved with its source."""
        if isinstance(pid, tuple) and len(pid) == 4 and pid[0] in ("module", b"module"):
            return pid[1]
        kind, key, location, numel, view = checked_storage_id(pid, 6)
        element = uint8 if kind is UntypedStorage else kind.dtype
        if key not in self.roots:
            nbytes = numel * element.itemsize
            self._room -= nbytes
            if self._room < 0:
                raise RuntimeError(f"load: a storage of {nbytes} bytes cannot be in the rest of the file; corrupt file?")
            memory = UntypedStorage._of_array(np.empty(nbytes, np.uint8))
            self.roots[key] = (self._restore(memory, location), element.itemsize)
            UNREAD[self.roots[key][0]] = self._later
        root = self.roots[key][0]
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
            UNREAD[self._views[key]] = self._later
        return self._views[key]

    def fill(self, key: Any, file: IO[bytes]) -> None:
        """Read the bytes of a storage, which come next in the file."""
        if not isinstance(key, str) or key not in self.roots:
            raise RuntimeError(f"load: the file has data for storage {shown(key)}, which nothing in it uses; corrupt file?")
        storage, itemsize = self.roots[key]
        count = file.read(8)
        if len(count) < 8:
            raise EOFError(f"Ran out of input: the file ends before storage {key}")
        nbytes = struct.unpack("<q", count)[0] * itemsize
        if nbytes != storage.nbytes():
            raise RuntimeError(f"storage has wrong byte size: expected {storage.nbytes()} got {nbytes}")
        where = storage.device
        target = storage._flat if where == cpu else np.empty(nbytes, np.uint8)
        if read_into(file, target) != nbytes:
            raise EOFError(f"Ran out of input: the file ends inside storage {key} of {nbytes} bytes")
        if where != cpu:
            with on_device_of(storage._flat):
                storage._flat[...] = moved(target, where)

    def finish(self) -> None:
        """Do what had to wait for the bytes."""
        for storage in (*(root for root, _ in self.roots.values()), *self._views.values()):
            UNREAD.pop(storage, None)
        for resolve in self._later:
            resolve()
