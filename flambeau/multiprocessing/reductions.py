"""Pickling of tensors for other processes: a handle of the memory instead of the values.

``ForkingPickler``, by which ``multiprocessing`` pickles whatever it passes on, gets functions for tensors, storages and memory here. A
storage is moved to shared memory when it is first sent. All tensors over it in one pickle stay views of one another, and memory that a
process has already is not mapped again: a tensor that comes back is the same memory, and has the same version counter.

    tensor -> storage -> SharedMemory -> its descriptor, which goes
        beside the message               over our own queues and pipes (``connection``): sockets carry descriptors
        with the start of a process      arguments of a spawned one
        through ``resource_sharer``      everything else; the sender must live until the receiver has asked for it

Source: torch.multiprocessing.reductions.
"""

from __future__ import annotations

import threading
from multiprocessing import resource_sharer  # noqa: F401  # a child forked in the midst of a late import would have half of it
from multiprocessing.reduction import ForkingPickler
from typing import Any
from weakref import ref

import numpy as np

from ..core.arrays.kinds import kind_of, make_at, place_of
from ..core.arrays.shared_memory import SharedMemory, process
from ..core.dtype import dtype as DType
from ..core.protocols.rebuild import strided_view, warn_of_hooks
from ..core.shape import contiguous_strides, element_strides
from ..core.storage import TypedStorage, UntypedStorage
from ..core.tensor import Parameter, Tensor, share, storage_of
from ..facades import unsupported

__all__: list[str] = []


class _Passing(threading.local):
    """Memories that this thread passes on beside messages.

    Attributes:
        outgoing: memories in what is being pickled, where they go beside it.
        beside: memories that go beside the message that is sent next.
        received: memories that came beside the message that was received last.
        incoming: memories that came beside what is being unpickled.
    """

    outgoing: list[SharedMemory] | None = None
    beside: tuple[SharedMemory, ...] = ()
    received: tuple[SharedMemory, ...] = ()
    incoming: tuple[SharedMemory, ...] = ()


passing = _Passing()


# -- memory -----------------------------------------------------------------------------------------------------------------------
def reduce_memory(memory: SharedMemory) -> tuple[Any, ...]:
    """Its place among what goes beside the message, or a handle by which the receiver gets the descriptor."""
    outgoing = passing.outgoing
    if outgoing is None:
        from multiprocessing.reduction import DupFd  # late: Windows has none

        return rebuild_memory, (DupFd(memory.descriptor),)
    outgoing.append(memory)
    return memory_beside, (len(outgoing) - 1,)


def rebuild_memory(handle: Any) -> SharedMemory:
    """The memory behind a handle.

    Raises:
        OSError: the process that sent it is gone.
    """
    return SharedMemory.attach(handle.detach())


def memory_beside(index: int) -> SharedMemory:
    """A memory that came beside the message."""
    return passing.incoming[index]


# -- storages ---------------------------------------------------------------------------------------------------------------------
def reduce_storage(storage: UntypedStorage) -> tuple[Any, ...]:
    """Its memory, and where in it. Source: torch.multiprocessing.reductions.reduce_storage."""
    _check_device(storage._array)
    if not storage.nbytes():
        return rebuild_storage_empty, ()
    memory, key = storage.share_memory_()._shared_place()
    process.storages.setdefault(key, storage)
    return rebuild_storage, (memory, *key[1:])


def rebuild_storage(memory: SharedMemory, start: int, nbytes: int) -> UntypedStorage:
    """The storage over a part of a memory; the one that this process has already, if it has."""
    return UntypedStorage._over(memory, start, nbytes)


def rebuild_storage_empty() -> UntypedStorage:
    """A storage of no bytes."""
    return UntypedStorage(0)


def reduce_typed_storage(storage: TypedStorage) -> tuple[Any, ...]:
    """Its bytes' storage and its dtype."""
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def rebuild_typed_storage(storage: UntypedStorage, dtype: DType) -> TypedStorage:
    """A storage read as elements of ``dtype``."""
    return TypedStorage(wrap_storage=storage, dtype=dtype)


# -- tensors ----------------------------------------------------------------------------------------------------------------------
def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """Class, storage and geometry; attributes, hooks and gradient stay behind.

    Raises:
        RuntimeError: a tensor that was computed from others and requires grad.
        NotImplementedError: a tensor of a device other than the CPU and meta.
    Source: torch.multiprocessing.reductions.reduce_tensor.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing process "
            "boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing (e.g., putting it on "
            "the queue)."
        )
    warn_of_hooks(tensor)
    shape, offset = tuple(tensor._array.shape), tensor.storage_offset()
    if not kind_of(tensor._array).has_values:
        nbytes = storage_of(tensor).nbytes()
        return rebuild_meta_tensor, (type(tensor), shape, tensor.stride(), offset, tensor.dtype, nbytes, tensor.requires_grad)
    strides = element_strides(tensor._array) if tensor._array.size else contiguous_strides(shape)
    storage = TypedStorage(wrap_storage=storage_of(tensor), dtype=tensor.dtype)
    return rebuild_tensor, (type(tensor), storage, (offset, shape, strides, tensor.requires_grad))


def rebuild_tensor(cls: type, storage: TypedStorage, metadata: tuple[int, tuple[int, ...], tuple[int, ...], bool]) -> Tensor:
    """The tensor in a storage.

    Args:
        metadata: offset, shape and strides in elements, and whether it requires grad.
    Source: torch.multiprocessing.reductions.rebuild_tensor.
    """
    offset, shape, strides, requires_grad = metadata
    untyped = storage._untyped_storage
    return _of_class(cls, share(strided_view(untyped, offset, shape, strides, storage.dtype), untyped), requires_grad)


def rebuild_meta_tensor(
    tensor_cls: type,
    tensor_size: tuple[int, ...],
    tensor_stride: tuple[int, ...],
    tensor_offset: int,
    dtype: DType,
    storage_size_bytes: int,
    requires_grad: bool,
) -> Tensor:
    """A tensor without values, in a storage of its own. Source: torch.multiprocessing.reductions.rebuild_meta_tensor."""
    storage = UntypedStorage._of_array(make_at(place_of("meta"), np.empty, storage_size_bytes, np.uint8))
    return _of_class(tensor_cls, share(strided_view(storage, tensor_offset, tensor_size, tensor_stride, dtype), storage), requires_grad)


def _of_class(cls: type, tensor: Tensor, requires_grad: bool) -> Tensor:
    return Parameter(tensor, requires_grad) if cls is Parameter else tensor.requires_grad_(requires_grad)


def _check_device(array: Any) -> None:
    kind = kind_of(array)
    if kind.name != "cpu":
        raise NotImplementedError(
            f"torch.multiprocessing: expected a tensor of the CPU, got one on device '{kind.device_of(array)}', which cannot be sent to "
            "other processes yet; send tensor.cpu()"
        )


class StorageWeakRef:
    """A weak reference to a storage; equal for the same storage.

    Args:
        storage: the storage, typed or not.
    Attributes:
        cdata: a number that identifies the storage for as long as it lives.
    Source: torch.multiprocessing.reductions.StorageWeakRef.
    """

    __slots__ = ("_ref", "cdata")

    def __init__(self, storage: UntypedStorage | TypedStorage):
        untyped = storage._untyped_storage if isinstance(storage, TypedStorage) else storage
        self._ref, self.cdata = ref(untyped), id(untyped)

    def expired(self) -> bool:
        """Whether the storage is gone."""
        return self._ref() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, StorageWeakRef) and self.cdata == other.cdata)


globals().update(unsupported.names("multiprocessing.reductions", "rebuild_cuda_tensor rebuild_event reduce_event"))


def init_reductions() -> None:
    """Have ``multiprocessing`` pass tensors on by handle. Source: torch.multiprocessing.reductions.init_reductions."""
    for cls in (Tensor, Parameter):
        ForkingPickler.register(cls, reduce_tensor)
    ForkingPickler.register(UntypedStorage, reduce_storage)
    ForkingPickler.register(TypedStorage, reduce_typed_storage)
    ForkingPickler.register(SharedMemory, reduce_memory)


init_reductions()
