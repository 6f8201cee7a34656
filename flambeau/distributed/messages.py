"""Messages from one process to another. Source: torch.distributed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..core.tensor import Tensor
from . import watching
from .buffers import Incoming, check_tensor
from .collectives import all_gather_into_tensor, all_reduce, reduce_scatter_tensor, root_of
from .engine.lane import as_bytes
from .errors import DistBackendError
from .groups import GroupMember, get_global_rank, get_group_rank, is_member, resolved
from .process_group import ProcessGroup
from .work import CoalescedWork, MessageWork, Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]

Group = Any


def _peer(pg: ProcessGroup, rank: int | None, group_rank: int | None, name: str) -> int:
    peer = root_of(pg, rank, group_rank, name)
    if peer == pg._rank:
        which = "destination" if name == "dst" else "source"
        raise ValueError(f"Invalid {which} rank: {which} rank should not be the same as the rank of the current process.")
    return peer


def _ready(pg: ProcessGroup, tensor: Tensor, name: str) -> Any:
    """The lane for messages; errors where the group or the tensor cannot be used."""
    if pg._closed:
        raise pg._unusable()
    if pg._size == 1:
        raise DistBackendError(f"{name}: the group has no other rank")
    if not tensor.is_contiguous():
        raise RuntimeError(f"{name}: input tensor has to be contiguous")
    watcher = watching.current()
    if watcher is not None and watcher.error:
        raise DistBackendError(watcher.error)
    return pg.lane


def isend(tensor: Tensor, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None) -> Work | None:
    """Start to send a tensor, which must not be changed until it is sent.

    Args:
        tensor: contiguous, of any size.
        dst: the destination, by its rank among all.
        group: the group; that of all processes when None.
        tag: the receiver's must be the same.
        group_dst: the destination, by its place in the group.
    Returns: a ``Work``.
    Raises:
        ValueError: the destination is this process, or not in the group.
        RuntimeError: a tensor that is not contiguous.
    Source: torch.distributed.isend.
    Example:
        >>> def start(rank):  # on one of two processes
        ...     x = torch.ones(2)
        ...     return torch.distributed.isend(x, 1) if rank == 0 else torch.distributed.irecv(x, 0)
    """
    check_tensor(tensor, "tensor")
    if not is_member(group, "isend"):
        return None
    pg = resolved(group)
    peer = _peer(pg, dst, group_dst, "dst")
    lane = _ready(pg, tensor, "isend")
    from .buffers import contiguous

    array = contiguous(tensor)
    name = f"send to rank {pg.ranks[peer]}"
    return MessageWork(lane.communicator.Isend(as_bytes(array), peer, tag), lane, name, [tensor], array)


def irecv(tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0, group_src: int | None = None) -> Work | None:
    """Start to receive a tensor.

    Args:
        tensor: contiguous, with as many elements as are sent; overwritten.
        src: the source, by its rank among all; any when neither is given.
        group: the group; that of all processes when None.
        tag: the sender's must be the same.
        group_src: the source, by its place in the group.
    Returns: a ``Work``.
    Raises:
        ValueError: the source is this process, or not in the group.
        RuntimeError: a tensor that is not contiguous.
    Source: torch.distributed.irecv.
    Example:
        >>> def from_anyone():
        ...     return torch.distributed.irecv(torch.zeros(2))
    """
    check_tensor(tensor, "tensor")
    if not is_member(group, "irecv"):
        return None
    return _received(tensor, src, resolved(group), tag, group_src)


def _received(tensor: Tensor, src: int | None, pg: ProcessGroup, tag: int, group_src: int | None) -> MessageWork:
    lane = _ready(pg, tensor, "irecv")
    from_any = src is None and group_src is None
    peer = lane.MPI.ANY_SOURCE if from_any else _peer(pg, src, group_src, "src")
    incoming = Incoming([tensor], tensor._array.dtype)
    array = as_bytes(incoming.array)
    name = "recv from any rank" if from_any else f"recv from rank {pg.ranks[peer]}"

    def arrived(status: Any) -> None:
        count = status.Get_count(lane.MPI.BYTE)
        if count != array.nbytes:
            raise RuntimeError(f"{name}: expected a tensor of {array.nbytes} bytes, one of {count} bytes was sent")
        incoming.finish()

    return MessageWork(lane.communicator.Irecv(array, peer, tag), lane, name, [tensor], array, arrived)


def send(tensor: Tensor, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor, and wait until it may be changed.

    Args:
        tensor: contiguous, of any size.
        dst, group, tag, group_dst: as in ``isend``.
    Raises:
        DistBackendError: the destination did not take it within the group's timeout.
    Source: torch.distributed.send.
    Example:
        >>> def on_rank_0():
        ...     torch.distributed.send(torch.ones(2), dst=1)
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor.

    Args:
        tensor: contiguous, with as many elements as are sent; overwritten.
        src, group, tag, group_src: as in ``irecv``.
    Returns: the rank among all from which it came; -1 where this process is not in the group.
    Raises:
        DistBackendError: nothing came within the group's timeout.
    Source: torch.distributed.recv.
    Example:
        >>> def on_rank_1():
        ...     source = torch.distributed.recv(x := torch.zeros(2))
        ...     return source, x
    """
    check_tensor(tensor, "tensor")
    if not is_member(group, "recv"):
        return -1
    pg = resolved(group)
    work = _received(tensor, src, pg, tag, group_src)
    work.wait()
    return pg.ranks[work.source_rank()]


class P2POp:
    """A message for ``batch_isend_irecv``.

    Args:
        op: ``isend`` or ``irecv``.
        tensor: what is sent or received.
        peer: the other process, by its rank among all.
        group: the group; that of all processes when None.
        tag: as in ``isend``.
        group_peer: the other process, by its place in the group.
    Raises:
        ValueError: another function, or no peer.
    Source: torch.distributed.P2POp.
    Example:
        >>> def ring(rank, size):
        ...     message = torch.distributed.P2POp(torch.distributed.isend, torch.ones(2), (rank + 1) % size)
        ...     answer = torch.distributed.P2POp(torch.distributed.irecv, torch.zeros(2), (rank - 1) % size)
        ...     return torch.distributed.batch_isend_irecv([message, answer])
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        _check_op(op)
        check_tensor(tensor, "tensor")
        if group is GroupMember.NON_GROUP_MEMBER:
            raise ValueError("Invalid process group specified")
        self.op, self.tensor, self.group, self.tag = op, tensor, resolved(group), tag
        if peer is not None and group_peer is not None:
            raise ValueError("Can't specify both group_peer and peer")
        if peer is None and group_peer is None:
            raise ValueError("Must specify peer or group_peer")
        self.group_peer = get_group_rank(self.group, peer) if group_peer is None else group_peer  # type: ignore[arg-type]
        self.peer = get_global_rank(self.group, self.group_peer)

    def __repr__(self) -> str:
        own = self.group.ranks[self.group.rank()]
        pair = (own, self.peer) if self.op is isend else (self.peer, own)
        what = f"{tuple(self.tensor.shape)}, {self.tensor.dtype}"
        return f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={pair[0]}, group_dst={pair[1]}, {what})"


def _check_op(op: Any) -> None:
    if op not in (isend, irecv):
        raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``.")


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several messages, so that their order does not matter.

    Args:
        p2p_op_list: the messages.
    Returns: a ``Work`` for each.
    Raises:
        ValueError: other objects, or messages of several groups.
        IndexError: no messages.
    Source: torch.distributed.batch_isend_irecv.
    Example:
        >>> def exchange(messages):
        ...     for work in torch.distributed.batch_isend_irecv(messages):
        ...         work.wait()
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    first = p2p_op_list[0].group
    if any(each.group is not first for each in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    works = [each.op(each.tensor, group=each.group, tag=each.tag, **_named(each)) for each in p2p_op_list]
    return [work for work in works if work is not None]


def _named(message: P2POp) -> dict[str, int]:
    return {"group_dst" if message.op is isend else "group_src": message.group_peer}


# -- several operations as one ---------------------------------------------------------------------------------------------
class _CoalescingManager:
    """Operations that are under way within ``_coalescing_manager``."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None = None) -> None:
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(group: Group = None, device: Any = None, async_ops: bool = False) -> Iterator[_CoalescingManager]:
    """Operations of one kind as one: each is done when it is called, or in the group's thread.

    Args:
        group: the group; that of all processes when None.
        device: for PyTorch's NCCL back end.
        async_ops: the operations are called with ``async_op=True``, and are done after ``wait``.
    """
    pg = resolved(group)
    manager = _CoalescingManager()
    plain = pg.run

    def run(name: str, call: Any, tensors: Any, async_op: bool, print_of: Any = None, timeout: float | None = None) -> Any:
        work = plain(name, call, tensors, async_op or async_ops, print_of, timeout)
        manager.append(work)
        return work

    pg.run = run  # type: ignore[method-assign]
    try:
        yield manager
    finally:
        del pg.run
    if not async_ops:
        manager.wait()


_COALESCED = (all_reduce, all_gather_into_tensor, reduce_scatter_tensor)  # what PyTorch's manager takes
_Coalesced = CoalescedWork
