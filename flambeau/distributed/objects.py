"""Collectives of Python objects, which are pickled. Source: torch.distributed.

Only what the processes of the group send is unpickled: they have proved to the store that they know the job's secret.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from . import collectives
from .groups import is_member, resolved
from .messages import recv, send
from .process_group import ProcessGroup

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list", "scatter_object_list", "send_object_list",
]  # fmt: skip

Group = Any


def _packed(value: Any) -> np.ndarray:
    buffer = io.BytesIO()
    pickle.Pickler(buffer).dump(value)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def _unpacked(data: np.ndarray) -> Any:
    return pickle.loads(data.tobytes())


def _sizes(lane: Any, data: np.ndarray, size: int) -> np.ndarray:
    sizes = np.empty(size, np.int64)
    lane.all_gather(np.array([data.size], np.int64), sizes)
    return sizes


def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None:
    """Collect the objects of all ranks on each.

    Args:
        object_list: as many entries as ranks; overwritten.
        obj: this rank's, which can be pickled.
        group: the group; that of all processes when None.
    Raises:
        ValueError: another number of entries.
    Source: torch.distributed.all_gather_object.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.all_gather_object(found := [None], {"loss": 0.5})
        >>> torch.distributed.destroy_process_group()
        >>> found
        [{'loss': 0.5}]
    """
    if not is_member(group, "all_gather_object"):
        return
    pg = resolved(group)
    _check_length("object_list", object_list, pg)

    def call(lane: Any) -> None:
        data = _packed(obj)
        sizes = _sizes(lane, data, pg.size())
        every = np.empty(int(sizes.sum()), np.uint8)
        lane.all_gather_uneven(data, every, sizes.tolist())
        _fill(object_list, every, sizes)

    pg.run("all_gather_object", call, [], False)


def _check_length(name: str, objects: Any, pg: ProcessGroup) -> None:
    if len(objects) != pg.size():
        raise ValueError(f"{name}: expected one entry for each of {pg.size()} ranks, got {len(objects)}")


def _fill(objects: list[Any], every: np.ndarray, sizes: np.ndarray) -> None:
    ends = np.cumsum(sizes)
    for i, (end, size) in enumerate(zip(ends.tolist(), sizes.tolist(), strict=True)):
        objects[i] = _unpacked(every[end - size : end])


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Group = None, group_dst: int | None = None
) -> None:
    """Collect the objects of all ranks on one.

    Args:
        obj: this rank's, which can be pickled.
        object_gather_list: on the destination, as many entries as ranks; overwritten.
        dst: the destination, by its rank among all; 0 when neither is given.
        group: the group; that of all processes when None.
        group_dst: the destination, by its place in the group.
    Raises:
        ValueError: ``object_gather_list`` missing on the destination, or there on another rank.
    Source: torch.distributed.gather_object.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.gather_object({"loss": 0.5}, found := [None], dst=0)
        >>> torch.distributed.destroy_process_group()
        >>> found
        [{'loss': 0.5}]
    """
    if not is_member(group, "gather_object"):
        return
    pg = resolved(group)
    root = collectives.root_of(pg, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    if pg.rank() == root:
        if not object_gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        _check_length("object_gather_list", object_gather_list, pg)
    elif object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")

    def call(lane: Any) -> None:
        data = _packed(obj)
        sizes = _sizes(lane, data, pg.size())
        if pg.rank() != root:
            lane.gather_uneven(data, None, [], root)
            return
        every = np.empty(int(sizes.sum()), np.uint8)
        lane.gather_uneven(data, every, sizes.tolist(), root)
        assert object_gather_list is not None
        _fill(object_gather_list, every, sizes)

    pg.run("gather_object", call, [], False)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Group = None, device: Any = None, group_src: int | None = None
) -> None:
    """Give one rank's objects to all.

    Args:
        object_list: the objects on the source, as many entries on the others; overwritten there.
        src: the source, by its rank among all; 0 when neither is given.
        group: the group; that of all processes when None.
        device: where PyTorch puts the bytes.
        group_src: the source, by its place in the group.
    Source: torch.distributed.broadcast_object_list.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.broadcast_object_list(["settings", 3], src=0)
        >>> torch.distributed.destroy_process_group()
    """
    if not is_member(group, "broadcast_object_list"):
        return
    pg = resolved(group)
    root = collectives.root_of(pg, 0 if src is None and group_src is None else src, group_src, "src")

    def call(lane: Any) -> None:
        data = _packed(list(object_list)) if pg.rank() == root else np.empty(0, np.uint8)
        size = np.array([data.size], np.int64)
        lane.broadcast(size, root)
        if pg.rank() != root:
            data = np.empty(int(size[0]), np.uint8)
        lane.broadcast(data, root)
        if pg.rank() != root:
            _replace(object_list, _unpacked(data), "broadcast_object_list")

    pg.run("broadcast_object_list", call, [], False)


def _replace(objects: list[Any], found: list[Any], operation: str) -> None:
    if len(found) != len(objects):
        raise RuntimeError(f"{operation}: the source has {len(found)} objects, this rank expected {len(objects)}")
    objects[:] = found


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Give each rank one object of a list that one of them has.

    Args:
        scatter_object_output_list: its first entry is overwritten by this rank's object.
        scatter_object_input_list: on the source, one object for each rank.
        src: the source, by its rank among all; 0 when neither is given.
        group: the group; that of all processes when None.
        group_src: the source, by its place in the group.
    Raises:
        ValueError: an empty output list, or not as many objects as ranks.
    Source: torch.distributed.scatter_object_list.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.scatter_object_list(own := [None], ["part"], src=0)
        >>> torch.distributed.destroy_process_group()
        >>> own
        ['part']
    """
    if not is_member(group, "scatter_object_list"):
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    pg = resolved(group)
    root = collectives.root_of(pg, 0 if src is None and group_src is None else src, group_src, "src")
    if pg.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        _check_length("scatter_object_input_list", scatter_object_input_list, pg)

    def call(lane: Any) -> None:
        sizes = np.empty(pg.size(), np.int64)
        every = None
        if pg.rank() == root:
            assert scatter_object_input_list is not None
            parts = [_packed(each) for each in scatter_object_input_list]
            sizes[:] = [part.size for part in parts]
            every = np.concatenate(parts)
        lane.broadcast(sizes, root)
        own = np.empty(int(sizes[pg.rank()]), np.uint8)
        lane.scatter_uneven(every, own, sizes.tolist(), root)
        scatter_object_output_list[0] = _unpacked(own)

    pg.run("scatter_object_list", call, [], False)


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Group = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to one process.

    Args:
        object_list: the objects, which can be pickled.
        dst: the destination, by its rank among all.
        group: the group; that of all processes when None.
        device: where PyTorch puts the bytes.
        group_dst: the destination, by its place in the group.
        use_batch: the sizes and the objects go as ``batch_isend_irecv`` in PyTorch; no difference here.
    Source: torch.distributed.send_object_list.
    Example:
        >>> def on_rank_0():
        ...     torch.distributed.send_object_list(["a", 1], dst=1)
    """
    if not is_member(group, "send_object_list"):
        return
    data = _packed(list(object_list))
    send(wrap(np.array([data.size], np.int64)), dst, group, group_dst=group_dst)
    send(wrap(data), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects from one process.

    Args:
        object_list: as many entries as objects are sent; overwritten.
        src: the source, by its rank among all; any when neither is given.
        group: the group; that of all processes when None.
        device: where PyTorch puts the bytes.
        group_src: the source, by its place in the group.
        use_batch: as in ``send_object_list``.
    Returns: the rank from which they came; -1 where this process is not in the group.
    Source: torch.distributed.recv_object_list.
    Example:
        >>> def on_rank_1():
        ...     torch.distributed.recv_object_list(objects := [None, None], src=0)
        ...     return objects
    """
    if not is_member(group, "recv_object_list"):
        return -1
    size = wrap(np.empty(1, np.int64))
    source = recv(size, src, group, group_src=group_src)
    data: Tensor = wrap(np.empty(int(size._array[0]), np.uint8))
    recv(data, source, group)
    _replace(object_list, _unpacked(data._array), "recv_object_list")
    return source
