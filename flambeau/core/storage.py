"""Storages: the buffers that tensors and their views share, each with one version counter."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from mmap import mmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtype as dtypes
from .arrays.file_memory import file_bytes, file_of
from .arrays.kinds import (
    address,
    copied,
    copying,
    device_of,
    fill_array,
    host,
    is_pinned,
    kind_of,
    make_at,
    moved,
    on_device_of,
    pinned,
    pinning_kind,
    place_of,
    view_at,
)
from .arrays.shared_memory import SharedMemory, memory_of, process, shared_bytes
from .calls.interruption import pass_on
from .device import cpu
from .state import active, changes, thread, tick

if TYPE_CHECKING:
    from .tensor import Tensor


class ResultMemory(mmap):
    """Memory of one large result, lent by ``kernels/memory``: only the array whose base it is has it."""

    __slots__ = ()


def flat_bytes(array: np.ndarray) -> np.ndarray:
    """The memory from an array's first to its last element as 1-D uint8, without a copy."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    if array.size == 0:
        return make_at(device_of(array), np.empty, 0, np.uint8)
    extent = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)) + array.itemsize
    if array.__class__ is not np.ndarray:
        return view_at(array, (extent,), np.dtype(np.uint8), 0, (1,))
    return np.lib.stride_tricks.as_strided(array, (extent // array.itemsize,), (array.itemsize,)).view(np.uint8)


_new = object.__new__


def _is_gone(tensor: Any) -> bool:
    return tensor is None


class UntypedStorage:
    """A buffer of bytes, shared by a tensor and its views.

    A tensor makes its storage late: on its first view, in-place write or save for backward.  ``version`` counts in-place
    writes; ``changed`` is the clock reading of the last one, so that a tape node can tell with one comparison whether a tensor
    it saved was written to after the node was made.

    Args:
        size: number of bytes, or a sequence of byte values, or nothing for an empty storage.
    Source: torch.UntypedStorage.
    Example:
        >>> x = torch.zeros(2, 3)
        >>> x.untyped_storage().nbytes(), x[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        (24, True)
    """

    __slots__ = ("__weakref__", "_aliases", "_array", "_bytes", "_room", "changed", "uneven", "version")

    def __init__(self, size: Any = 0, *, device: Any = None):
        data = np.zeros(size, np.uint8) if isinstance(size, int) else np.array(list(size), np.uint8)
        self._adopt(moved(data, place_of(device, "UntypedStorage")))

    _array: np.ndarray
    _bytes: np.ndarray | None
    _aliases: Any  # weak references to the tensors that show its memory, a list that its twins have too; () until the first one
    _room: int
    uneven: bool  # whether a tensor that is no view may show it in another order than row by row, or has odd strides at sizes of 1
    version: int
    changed: int

    def _adopt(self, array: np.ndarray) -> UntypedStorage:
        self._array, self._bytes, self._aliases, self._room = array, None, (), 32
        self.version = self.changed = 0
        self.uneven = False
        return self

    @staticmethod
    def _of_array(array: np.ndarray) -> UntypedStorage:
        return _new(UntypedStorage)._adopt(array)

    @staticmethod
    def from_file(filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """A storage whose memory is a file.

        Args:
            filename: the file.
            shared: True writes changes to the file, which is made or grown where it is too short; otherwise it stays as it is.
            nbytes: how many bytes.
        Raises:
            RuntimeError: the file cannot be opened, or is too short.
        Source: torch.UntypedStorage.from_file.
        """
        return UntypedStorage._of_array(file_bytes(filename, shared, nbytes))

    @property
    def filename(self) -> str | None:
        """The file that writes reach; None where there is none."""
        return file_of(self._array)

    def untyped(self) -> UntypedStorage:
        """The storage itself; typed storages have the method too."""
        return self

    def _twin(self) -> UntypedStorage:
        """Another storage of the same memory, which counts writes by itself."""
        twin = UntypedStorage._of_array(self._array)
        twin._aliases, twin.uneven = self._aliases, self.uneven
        return twin

    def _add_alias(self, tensor: Tensor) -> None:
        """Remember a tensor that shares this storage, weakly; the list is pruned when it has doubled."""
        if self._aliases.__class__ is tuple:
            self._aliases = []
        self._aliases.append(weakref.ref(tensor))
        self._room -= 1
        if not self._room:
            self._prune()

    def _prune(self) -> list[weakref.ref[Tensor]]:
        """Forget aliases that have died; the aliases that are left."""
        self._forget(_is_gone)
        self._room = len(self._aliases) + 32
        return self._aliases

    def _forget(self, is_unwanted: Callable[[Any], bool]) -> None:
        """Take aliases from the list, one by one, so that those which other threads add meanwhile stay."""
        aliases = self._aliases
        for place in range(len(aliases) - 1, -1, -1):
            try:
                ref = aliases[place]
                if is_unwanted(ref()) and aliases[place] is ref:
                    del aliases[place]
            except IndexError as error:  # other threads have shortened it
                pass_on(error)

    def _showing(self) -> dict[int, Tensor]:
        """Every tensor that was given this storage or a twin, by its id; not what an exception left half made."""
        return {id(tensor): tensor for ref in self._aliases if (tensor := ref()) is not None and hasattr(tensor, "_requires_grad")}

    def _live_aliases(self) -> Iterator[Tensor]:
        """Every tensor that shares this storage, once."""
        return (tensor for tensor in self._showing().values() if tensor._storage is self)

    def _bump(self) -> None:
        if active and thread.recorder is not None:
            thread.recorder.bumped(self._array)
        self.version += 1
        self.changed = tick()

    @property
    def _flat(self) -> np.ndarray:
        if self._bytes is None:
            self._bytes = flat_bytes(self._array)
        return self._bytes

    def _grow(self, nbytes: int) -> None:
        """Replace the buffer by one of ``nbytes`` bytes, keep the common bytes, and move every live tensor over.

        Raises:
            RuntimeError: other processes may have the buffer.
        """
        if memory_of(self._array) is not None:
            raise RuntimeError("Trying to resize storage that is not resizable: other processes may have its memory")
        self._move(make_at(device_of(self._array), np.empty, nbytes, np.uint8))

    def _move(self, new: np.ndarray) -> None:
        """Take ``new`` for the buffer, copy the common bytes, and move every live tensor over."""
        old, buffer, nbytes = self._flat, self._array, new.nbytes
        common = min(old.nbytes, nbytes)
        with on_device_of(old):
            new[:common] = old[:common]
        start, moved_arrays, storages = address(old), [], [self]
        for tensor in self._showing().values():
            storage = tensor._storage
            if storage is None or storage._array is not buffer:
                continue  # it got other memory since
            storages.append(storage)
            array = tensor._array
            offset = address(array) - start
            reach = offset + sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)) + array.itemsize
            if not array.size:
                offset = min(max(offset, 0), nbytes)
            elif reach > nbytes:
                continue
            moved_arrays.append((tensor, view_at(new, array.shape, array.dtype, offset, array.strides)))
        changes.count += 1
        for tensor, array in moved_arrays:
            tensor._array = array
        for storage in storages:
            storage._array = storage._bytes = new

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return address(self._array) if self._array.size else 0

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._flat.nbytes

    size = nbytes

    def element_size(self) -> int:
        return 1

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __len__(self) -> int:
        return self._flat.nbytes

    def __getitem__(self, key: Any) -> Any:
        part = self._flat[key]
        return UntypedStorage._of_array(part) if isinstance(key, slice) else int(part)

    def __setitem__(self, key: Any, value: Any) -> None:
        with on_device_of(self._array):
            self._flat[key] = value
        self._bump()

    def __iter__(self) -> Iterator[int]:
        return iter(self._flat.tolist())

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self._flat[:1000].tolist()) if kind_of(self._array).has_values else "...\n"
        return f"{lines}[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    def tolist(self) -> list[int]:
        return self._flat.tolist()

    def fill_(self, value: int) -> UntypedStorage:
        fill_array(self._flat, value)
        self._bump()
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Take the bytes of another storage, on whatever device; ``non_blocking`` as for ``Tensor.to``."""
        with copying.without_waiting(non_blocking), on_device_of(self._array):
            self._flat[...] = moved(source._flat, self.device)
        self._bump()
        return self

    def clone(self) -> UntypedStorage:
        return UntypedStorage._of_array(copied(self._flat))

    def resize_(self, nbytes: int) -> UntypedStorage:
        """Change the size in bytes, keeping the common part."""
        if nbytes != self.nbytes():
            self._grow(nbytes)
        return self

    def cpu(self) -> UntypedStorage:
        return self._to(cpu)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """The storage on a CUDA device, the current one for None; itself where it lies there."""
        with copying.without_waiting(non_blocking):
            return self._to(place_of("cuda" if device is None else device, "cuda"))

    def _to(self, where: Any) -> UntypedStorage:
        """The storage on another device; itself where it lies there."""
        return self if self.device == where else UntypedStorage._of_array(moved(self._flat, where))

    @property
    def _host_bytes(self) -> np.ndarray:
        """The bytes in the host's memory; a copy unless they lie there."""
        kind = kind_of(self._array)
        return self._flat if kind is host else kind.to_host(self._flat)

    @property
    def device(self) -> Any:
        return device_of(self._array)

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def is_shared(self) -> bool:
        """Whether other processes can have this memory too: on CUDA always, on the CPU after ``share_memory_``."""
        return self.is_cuda or memory_of(self._array) is not None

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes to memory that other processes can have too, and every live tensor over them along; itself.

        Arrays that ``Tensor.numpy`` gave before stay where they are. Does nothing where ``is_shared``.

        Raises:
            RuntimeError: there is no room for them, or they lie neither on the CPU nor on CUDA.
            NotImplementedError: the system has no such memory.
        Source: torch.UntypedStorage.share_memory_.
        """
        if self.device.type not in ("cpu", "cuda"):
            raise RuntimeError("_share_fd_: only available on CPU")
        with process.lock:
            if not self.is_shared():
                self._move(shared_bytes(self.nbytes()))
                process.storages[self._shared_place()[1]] = self  # what comes back from other processes is this storage
        return self

    def _shared_place(self) -> tuple[SharedMemory, tuple[tuple[int, int], int, int]]:
        """The shared memory of this storage, and its key in this process: memory, first byte, number of bytes."""
        memory = memory_of(self._array)
        assert memory is not None
        return memory, (memory.identity, address(self._array) - memory.address, self.nbytes())

    @staticmethod
    def _over(memory: SharedMemory, start: int, nbytes: int) -> UntypedStorage:
        """The storage over a part of shared memory; the one that this process has already, if it has.

        Raises:
            RuntimeError: the part lies outside.
        """
        with process.lock:
            key = (memory.identity, start, nbytes)
            storage = process.storages.get(key)
            if storage is None:
                storage = process.storages[key] = UntypedStorage._of_array(memory.bytes_at(start, nbytes))
            return storage

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> UntypedStorage:
        """A storage of ``size`` bytes in shared memory."""
        return UntypedStorage(size, device=device).share_memory_()

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the storage lies in page-locked memory of the host."""
        return is_pinned(self._array)

    def pin_memory(self, device: Any = "cuda") -> UntypedStorage:
        """The storage in page-locked memory of the host; itself where it lies there.

        Raises:
            RuntimeError: there is no accelerator to pin it for.
            TypeError: it lies on a device.
        """
        if self.is_pinned():
            return self
        pinning_kind("Cannot access accelerator device when none is available.")
        if self.device != cpu:
            raise TypeError(f"cannot pin '{self.device}' memory; only CPU memory can be pinned")
        return UntypedStorage._of_array(pinned(self._flat))

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    def __copy__(self) -> UntypedStorage:
        return self.clone()


# What elements of quantized tensors are in memory; the smaller ones lie several in a byte.
_INTEGERS = {dtypes.qint8: np.dtype(np.int8), dtypes.qint32: np.dtype(np.int32)}


def _element_of(dtype: dtypes.dtype) -> np.dtype[Any]:
    """NumPy's dtype for an element of a storage."""
    return _INTEGERS.get(dtype, np.dtype(np.uint8)) if dtype.numpy is None else dtype.numpy


class TypedStorage:
    """A storage read as elements of one dtype: the form in which files and old programs see it.

    Args:
        wrap_storage: the bytes.
        dtype: element type.
    Source: torch.TypedStorage.
    Example:
        >>> storage = torch.TypedStorage([1.0, 2.0], dtype=torch.float64)
        >>> len(storage), storage[1], storage.nbytes()
        (2, 2.0, 16)
    """

    def __init__(self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: dtypes.dtype | None = None, device: Any = None):
        self.dtype = dtype or dtypes.get_default_dtype()
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        elif args and not isinstance(args[0], int):
            values = np.array(args[0], _element_of(self.dtype))
            self._untyped_storage = UntypedStorage._of_array(moved(values, place_of(device, "TypedStorage")))
        else:
            self._untyped_storage = UntypedStorage((args[0] if args else 0) * self.dtype.itemsize, device=device)

    @property
    def _elements(self) -> np.ndarray:
        return self._untyped_storage._flat.view(_element_of(self.dtype))

    device = property(attrgetter("_untyped_storage.device"))
    is_cuda = property(attrgetter("_untyped_storage.is_cuda"))

    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def size(self) -> int:
        return len(self)

    def __len__(self) -> int:
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    def __getitem__(self, key: Any) -> Any:
        part = self._elements[key]
        if isinstance(key, slice):
            return TypedStorage(wrap_storage=UntypedStorage._of_array(part), dtype=self.dtype)
        return part.item()

    def __setitem__(self, key: Any, value: Any) -> None:
        with on_device_of(self._untyped_storage._array):
            self._elements[key] = value
        self._untyped_storage._bump()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._elements.tolist())

    def __repr__(self) -> str:
        has_values = kind_of(self._untyped_storage._array).has_values
        lines = "".join(f" {value}\n" for value in self._elements[:1000].tolist()) if has_values else "...\n"
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    def tolist(self) -> list[Any]:
        return self._elements.tolist()

    def fill_(self, value: Any) -> TypedStorage:
        self[:] = value
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        with copying.without_waiting(bool(non_blocking)), on_device_of(source._untyped_storage._array):
            self[:] = moved(source._elements.astype(self.dtype.numpy), self.device)
        return self

    def clone(self) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def resize_(self, size: int) -> TypedStorage:
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def cpu(self) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage.cpu(), dtype=self.dtype)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """The storage on a CUDA device, the current one for None."""
        return TypedStorage(wrap_storage=self._untyped_storage.cuda(device, non_blocking), dtype=self.dtype)

    def pin_memory(self, device: Any = "cuda") -> TypedStorage:
        """The storage in page-locked memory of the host."""
        return TypedStorage(wrap_storage=self._untyped_storage.pin_memory(device), dtype=self.dtype)

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the storage lies in page-locked memory of the host."""
        return self._untyped_storage.is_pinned(device)

    def is_shared(self) -> bool:
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Move the elements to memory that other processes can have too; itself. See ``UntypedStorage.share_memory_``."""
        self._untyped_storage.share_memory_()
        return self

    def pickle_storage_type(self) -> str:
        """The word PyTorch's files use for this element type: ``FloatStorage``."""
        return f"{self.dtype.legacy}Storage"

    def type(self) -> str:
        return f"torch.{self.pickle_storage_type()}"
