"""Messages between a loader and its workers: frames on a socket, and batches whose large arrays lie in shared memory.

Tensors are pickled as always, but their storages (and NumPy's arrays) leave the pickle as buffers: large ones go to a range of the
worker's :class:`Arena`, unless they lie there already.
"""

from __future__ import annotations

import array
import copyreg
import io
import pickle
import socket
import struct
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from ....core.arrays.kinds import host, kind_of
from ....core.protocols.rebuild import reduce_parameter, reduce_storage, reduce_tensor
from ....core.storage import UntypedStorage, flat_bytes
from ....core.tensor import Parameter, Tensor, share, storage_of
from .shared_memory import SMALLEST, Arena, Mappings, Range

_HEAD = struct.Struct("!QB")  # bytes that follow, descriptors that come along
_MOST_DESCRIPTORS = 8


class Reply(NamedTuple):
    """Message of a worker about one task."""

    epoch: int
    number: int
    ended: bool  # the worker's stream has no more data
    body: bytes | Range  # a pickle, or where it lies
    ranges: list[Range]  # of the buffers that the pickle names, in order
    state: bytes | None  # of the worker after the task, for ``state_dict``


# -- batches --------------------------------------------------------------------------------------------------------------
def _storage_from(buffer: Any) -> UntypedStorage:
    return UntypedStorage._of_array(np.frombuffer(buffer, np.uint8))


def _reduce_storage(storage: UntypedStorage) -> Any:
    if kind_of(storage._array) is not host:
        return reduce_storage(storage, 5)
    memory = storage._flat
    return _storage_from, (pickle.PickleBuffer(memory if memory.flags.writeable else memory.copy()),)


def _reduce_tensor(tensor: Tensor) -> Any:
    """A tensor with its storage, or without what it does not show where that is most of it (a row of the dataset)."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing process "
            "boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing (e.g., putting it on "
            "the queue)."
        )
    pickled = tensor
    if kind_of(tensor._array) is host and storage_of(tensor).nbytes() > max(SMALLEST, 2 * tensor._array.nbytes):
        shown = flat_bytes(tensor._array)
        if shown.nbytes > 2 * tensor._array.nbytes:
            pickled = _alone(np.ascontiguousarray(tensor._array), tensor)
        else:
            storage = UntypedStorage._of_array(shown)
            pickled = _alone(np.ndarray(tensor._array.shape, tensor._array.dtype, shown, 0, tensor._array.strides), tensor, storage)
    return reduce_parameter(pickled, 5) if isinstance(pickled, Parameter) else reduce_tensor(pickled, 5)


def _alone(array: np.ndarray, like: Tensor, storage: UntypedStorage | None = None) -> Tensor:
    tensor = share(array, storage or UntypedStorage._of_array(array))
    requires_grad = like.requires_grad
    if type(like) is Parameter:
        return Parameter(tensor, requires_grad)
    tensor.__dict__.update(like.__dict__)
    return tensor.requires_grad_(requires_grad)


_REDUCTIONS: dict[type, Any] = {UntypedStorage: _reduce_storage, Tensor: _reduce_tensor, Parameter: _reduce_tensor}


class _BatchPickler(pickle.Pickler):
    """A pickler of batches; what multiprocessing knows how to send (connections, queues, locks) can be in them, too."""

    def __init__(self, file: io.BytesIO, buffers: list[pickle.PickleBuffer]) -> None:
        def keep(buffer: pickle.PickleBuffer) -> bool:
            if buffer.raw().nbytes < SMALLEST:
                return True
            buffers.append(buffer)
            return False

        from multiprocessing.reduction import ForkingPickler  # late: most programs load in one process

        super().__init__(file, 5, buffer_callback=keep)
        known: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        self.dispatch_table = {**copyreg.dispatch_table, **known, **_REDUCTIONS}


def pack(box: list[Any], arena: Arena) -> tuple[bytes | Range, list[Range]]:
    """The only element of a list, which is taken out of it, as a pickle and the ranges of its large buffers.

    An array that was made in the arena goes as it is, provided that nothing in this process refers to it any more: what a consumer
    has must not change.
    """
    file = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    pickler = _BatchPickler(file, buffers)
    pickler.dump(box.pop())
    del pickler  # its memo refers to everything
    views: list[np.ndarray | None] = [np.frombuffer(buffer, np.uint8) for buffer in buffers]
    buffers.clear()
    leases = []
    for view in views:
        assert view is not None
        leases.append(arena.leased_at(view.ctypes.data, view.nbytes))
    view = None
    for at, lease in enumerate(leases):
        if lease is not None:
            views[at] = None
    ranges: list[Range] = []
    try:
        for at, lease in enumerate(leases):
            if lease is not None and (memory := lease[1]()) is None:
                arena.give_away(lease[0])
                ranges.append(lease[0])
            else:
                source = views[at] if lease is None else memory[: lease[0][2]]  # type: ignore[index]
                assert source is not None
                ranges.append(_copied(source, arena))
            memory = None
        body: bytes | Range = file.getvalue()
        if len(body) >= SMALLEST:
            body = _copied(np.frombuffer(body, np.uint8), arena)
    except BaseException:
        arena.release([at[:2] for at in ranges])
        raise
    return body, ranges


def _copied(source: np.ndarray, arena: Arena) -> Range:
    at = arena.take(source.nbytes)
    arena.bytes_of(at)[:] = source
    return at


def unpack(reply: Reply, mappings: Mappings) -> Any:
    """Object that was packed, over the same memory."""
    arrays = [mappings.array(at) for at in reply.ranges]
    body = reply.body
    return pickle.loads(body if isinstance(body, bytes) else mappings.array(body), buffers=arrays)


def discard(reply: Reply, mappings: Mappings) -> None:
    """Give back what was packed."""
    mappings.discard(reply.ranges if isinstance(reply.body, bytes) else [*reply.ranges, reply.body])


# -- frames ---------------------------------------------------------------------------------------------------------------
def send(sock: socket.socket, message: Any, descriptors: list[int]) -> None:
    """A message and descriptors that come along; waits until it is sent."""
    data = pickle.dumps(message, 5)
    for start in range(0, len(descriptors), _MOST_DESCRIPTORS):
        part = descriptors[start : start + _MOST_DESCRIPTORS]
        last = start + _MOST_DESCRIPTORS >= len(descriptors)
        socket.send_fds(sock, [_HEAD.pack(len(data) if last else 0, len(part))], part)
    if not descriptors:
        sock.sendall(_HEAD.pack(len(data), 0))
    sock.sendall(data)


class Receiver:
    """Messages out of a socket, which may come in pieces."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._bytes = bytearray()
        self._descriptors: deque[int] = deque()

    def read(self) -> bool:
        """Take what has come; False at the end of the stream."""
        size = array.array("i").itemsize * _MOST_DESCRIPTORS
        try:
            data, ancillary, _, _ = self._sock.recvmsg(1 << 18, socket.CMSG_SPACE(size))
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) // numbers.itemsize * numbers.itemsize])
                self._descriptors.extend(numbers)
        self._bytes += data
        return bool(data)

    def next(self) -> tuple[bytes, list[int]] | None:
        """The next message that is there as a whole, and its descriptors."""
        descriptors, start = 0, 0
        while len(self._bytes) >= start + _HEAD.size:
            length, count = _HEAD.unpack_from(self._bytes, start)
            start += _HEAD.size
            descriptors += count
            if length:
                if len(self._bytes) < start + length:
                    return None
                data = bytes(self._bytes[start : start + length])
                del self._bytes[: start + length]
                return data, [self._descriptors.popleft() for _ in range(descriptors)]
        return None
