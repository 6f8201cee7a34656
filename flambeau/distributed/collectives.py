"""Collectives: operations that all processes of a group do together. Source: torch.distributed."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ._reduce_op import ReduceOp
from .buffers import Incoming, check_same_dtype, check_tensor, check_tensors, contiguous, joined, print_of, put, written
from .groups import get_group_rank, is_member, resolved
from .process_group import ProcessGroup
from .work import CoalescedWork, Work

__all__ = [
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "gather", "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor",
    "scatter",
]  # fmt: skip

SUM = ReduceOp.SUM
Group = Any


def root_of(group: ProcessGroup, rank: int | None, group_rank: int | None, name: str) -> int:
    """The place in the group of a rank that is given among all (``name``) or in the group (``group_name``).

    Raises:
        ValueError: neither or both are given, or it is not in the group; RuntimeError where that is of all processes.
    """
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{name} and {name}")
    if rank is None and group_rank is None:
        raise ValueError(f"Must specify {name} or group_{name}")
    if group_rank is None:
        assert rank is not None
        group_rank = get_group_rank(group, rank)
        if not 0 <= group_rank < group._size:
            raise RuntimeError(f"expected {name} to be a rank of {group}, got {rank}")
        return group_rank
    if not 0 <= group_rank < group._size:
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return group_rank


# -- to all --------------------------------------------------------------------------------------------------------------
def all_reduce(tensor: Tensor, op: Any = SUM, group: Group = None, async_op: bool = False) -> Work | None:
    """Reduce tensors of all ranks, element by element; each gets the result, in place.

    Args:
        tensor: of the same shape and dtype on all ranks; overwritten.
        op: a ``ReduceOp``.
        group: the group; that of all processes when None.
        async_op: return at once.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        RuntimeError: the dtype has no such reduction.
        ValueError: a complex tensor with another reduction than a sum or an average.
    Source: torch.distributed.all_reduce. bfloat16 and float16 are reduced in float32.
    Example:
        >>> torch.distributed.all_reduce(x) if torch.distributed.is_initialized() else None
    """
    check_tensor(tensor, "tensor")
    if group is not None and not is_member(group, "all_reduce"):
        return None
    pg = resolved(group)
    array = tensor._array
    reduction = pg.reduction(op, array.dtype)
    if (
        async_op
        or reduction.wire is not None
        or reduction.before is not None
        or reduction.after is not None
        or not _is_plain(array)
        or pg.check is not None
    ):
        return pg.run("all_reduce", lambda lane: _reduced(lane, tensor, reduction), [tensor], async_op, print_of([tensor], op))
    mpi_op = reduction.op
    pg.run("all_reduce", lambda lane: lane.all_reduce(array, mpi_op), [tensor], False)
    written(tensor)
    return None


def _is_plain(array: Any) -> bool:
    return array.__class__ is np.ndarray and array.flags.c_contiguous


def _reduced(lane: Any, tensor: Tensor, reduction: Any, reduce: Callable[[np.ndarray], None] | None = None) -> None:
    array = contiguous(tensor)
    travelling = reduction.out(array)
    if reduce is None:
        lane.all_reduce(travelling, reduction.op)
    else:
        reduce(travelling)
    reduction.back(travelling, array)
    if array is not tensor._array:
        put(tensor, array)
    written(tensor)


def all_reduce_coalesced(tensors: Sequence[Tensor], op: Any = SUM, group: Group = None, async_op: bool = False) -> Work | None:
    """``all_reduce`` of several tensors as one operation.

    Args:
        tensors: a list of tensors of one dtype, with the same shapes on all ranks; overwritten.
        op, group, async_op: as in ``all_reduce``.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        RuntimeError: several dtypes.
    Source: torch.distributed.all_reduce_coalesced.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.all_reduce_coalesced([torch.ones(2), torch.zeros(3)])
        >>> torch.distributed.destroy_process_group()
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    check_tensors(tensors, "tensor")
    if not tensors:
        raise RuntimeError("all_reduce_coalesced: expected at least one tensor")
    if not is_member(group, "all_reduce_coalesced"):
        return None
    check_same_dtype("all_reduce_coalesced", "tensors", tensors, tensors[0])
    pg = resolved(group)
    reduction = pg.reduction(op, tensors[0]._array.dtype)

    def call(lane: Any) -> None:
        array = np.concatenate([contiguous(tensor).reshape(-1) for tensor in tensors])
        travelling = reduction.out(array)
        lane.all_reduce(travelling, reduction.op)
        reduction.back(travelling, array)
        at = 0
        for tensor in tensors:
            put(tensor, array[at : at + tensor._array.size])
            written(tensor)
            at += tensor._array.size

    return pg.run("all_reduce_coalesced", call, list(tensors), async_op, print_of(tensors, op))


def broadcast(
    tensor: Tensor, src: int | None = None, group: Group = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Give one rank's tensor to all.

    Args:
        tensor: of the same shape and dtype on all ranks; what is sent on the source, overwritten on the others.
        src: the source, by its rank among all.
        group: the group; that of all processes when None.
        async_op: return at once.
        group_src: the source, by its place in the group.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        ValueError: the source is not in the group.
    Source: torch.distributed.broadcast.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.broadcast(torch.ones(2), src=0)
        >>> torch.distributed.destroy_process_group()
    """
    check_tensor(tensor, "tensor")
    if not is_member(group, "broadcast"):
        return None
    pg = resolved(group)
    root = root_of(pg, src, group_src, "src")

    def call(lane: Any) -> None:
        array = contiguous(tensor)
        lane.broadcast(array, root)
        if pg._rank != root:
            if array is not tensor._array:
                put(tensor, array)
            written(tensor)

    return pg.run("broadcast", call, [tensor], async_op, print_of([tensor], root))


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False) -> Work | None:
    """Collect the tensors of all ranks on each.

    Args:
        tensor_list: one tensor for each rank, with as many elements as it sends; overwritten. Sizes may differ between ranks.
        tensor: what this rank sends.
        group: the group; that of all processes when None.
        async_op: return at once.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        RuntimeError: not as many tensors as ranks, another dtype, or this rank's own has another size.
    Source: torch.distributed.all_gather.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.all_gather(parts := [torch.zeros(2)], torch.ones(2))
        >>> torch.distributed.destroy_process_group()
        >>> parts
        [tensor([1., 1.])]
    """
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    if not is_member(group, "all_gather"):
        return None
    pg = resolved(group)
    _check_list("all_gather", "tensor_list", tensor_list, pg._size, tensor, tensor_list[pg._rank] if pg._rank < len(tensor_list) else None)
    counts = [each._array.nbytes for each in tensor_list]
    even = len(set(counts)) == 1

    def call(lane: Any) -> None:
        incoming = Incoming(tensor_list, tensor._array.dtype)
        if even:
            lane.all_gather(contiguous(tensor), incoming.array)
        else:
            lane.all_gather_uneven(contiguous(tensor), incoming.array, counts)
        incoming.finish()

    return pg.run("all_gather", call, list(tensor_list), async_op, print_of(tensor_list))


def _check_list(operation: str, name: str, tensors: Sequence[Tensor], size: int, like: Tensor, own: Tensor | None) -> None:
    if len(tensors) != size:
        raise RuntimeError(f"{operation}: invalid {name} (expected length {size}, got {len(tensors)})")
    check_same_dtype(operation, name, tensors, like)
    if own is not None and own._array.size != like._array.size:
        raise RuntimeError(
            f"{operation}: invalid tensor size of this rank in {name} (expected {tuple(like.shape)}, got {tuple(own.shape)})"
        )


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: Group = None, async_op: bool = False) -> Work | None:
    """Collect the tensors of all ranks in one on each.

    Args:
        output_tensor: as many elements as all inputs, concatenated or stacked; overwritten.
        input_tensor: what this rank sends, of the same size on all ranks.
        group: the group; that of all processes when None.
        async_op: return at once.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        RuntimeError: the sizes or dtypes do not fit.
    Source: torch.distributed.all_gather_into_tensor.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.all_gather_into_tensor(whole := torch.zeros(2), torch.ones(2))
        >>> torch.distributed.destroy_process_group()
        >>> whole
        tensor([1., 1.])
    """
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    if not is_member(group, "all_gather_into_tensor"):
        return None
    pg = resolved(group)
    _check_parts("all_gather_into_tensor", "output_tensor", output_tensor, "input_tensor", input_tensor, pg._size)

    def call(lane: Any) -> None:
        incoming = Incoming([output_tensor], output_tensor._array.dtype)
        lane.all_gather(contiguous(input_tensor), incoming.array)
        incoming.finish()

    return pg.run("all_gather_into_tensor", call, [output_tensor], async_op, print_of([input_tensor]))


def _check_parts(operation: str, whole_name: str, whole: Tensor, part_name: str, part: Tensor, size: int) -> None:
    if whole._array.dtype != part._array.dtype:
        raise RuntimeError(f"{operation}: {whole_name} and {part_name} must have the same dtype, got {whole.dtype} and {part.dtype}")
    if whole._array.size != size * part._array.size:
        raise RuntimeError(
            f"{operation}: {whole_name} must have {size} times as many elements as {part_name}, one part for each rank, "
            f"got {tuple(whole.shape)} and {tuple(part.shape)}"
        )


all_gather_single = all_gather_into_tensor


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Group = None, async_op: bool = False) -> Work | None:
    """``all_gather_into_tensor`` under its first name."""
    warnings.warn(
        "torch.distributed._all_gather_base is a private function and will be deprecated. Use all_gather_into_tensor",
        FutureWarning,
        stacklevel=2,
    )
    return all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]], input_tensor_list: list[Tensor], group: Group = None, async_op: bool = False
) -> Work | None:
    """``all_gather`` of several tensors as one operation.

    Args:
        output_tensor_lists: for each rank a list of tensors of the shapes of those in ``input_tensor_list``; overwritten.
        input_tensor_list: what this rank sends.
        group, async_op: as in ``all_gather``.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        ValueError: lists of different lengths.
    Source: torch.distributed.all_gather_coalesced.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.all_gather_coalesced([[torch.zeros(2), torch.zeros(3)]], [torch.ones(2), torch.ones(3)])
        >>> torch.distributed.destroy_process_group()
    """
    check_tensors(input_tensor_list, "input_tensor_list")
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for each in output_tensor_lists:
        check_tensors(each, "output_tensor_lists")
        if len(each) != len(input_tensor_list):
            raise ValueError(f"all_gather_coalesced: expected {len(input_tensor_list)} tensors for each rank, got {len(each)}")
    if not is_member(group, "all_gather_coalesced"):
        return None
    pg = resolved(group)
    works = [all_gather([each[i] for each in output_tensor_lists], tensor, pg, async_op) for i, tensor in enumerate(input_tensor_list)]
    return CoalescedWork([work for work in works if work is not None]) if async_op else None


# -- to one ---------------------------------------------------------------------------------------------------------------
def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = SUM, group: Group = None, async_op: bool = False, group_dst: int | None = None
) -> Work | None:
    """Reduce tensors of all ranks; one of them gets the result, in place.

    Args:
        tensor: of the same shape and dtype on all ranks; overwritten on the destination.
        dst: the destination, by its rank among all.
        op: a ``ReduceOp``.
        group: the group; that of all processes when None.
        async_op: return at once.
        group_dst: the destination, by its place in the group.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        RuntimeError: the dtype has no such reduction.
    Source: torch.distributed.reduce.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.reduce(torch.ones(2), dst=0)
        >>> torch.distributed.destroy_process_group()
    """
    check_tensor(tensor, "tensor")
    if not is_member(group, "reduce"):
        return None
    pg = resolved(group)
    root = root_of(pg, dst, group_dst, "dst")
    reduction = pg.reduction(op, tensor._array.dtype)

    def call(lane: Any) -> None:
        if pg._rank == root:
            _reduced(lane, tensor, reduction, lambda array: lane.reduce(array, reduction.op, root))
        else:
            array = contiguous(tensor)
            sent = reduction.out(array.copy() if reduction.before is not None else array)
            lane.reduce(sent, reduction.op, root)

    return pg.run("reduce", call, [tensor], async_op, print_of([tensor], op, root))


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Collect the tensors of all ranks on one.

    Args:
        tensor: what this rank sends, of any size.
        gather_list: on the destination, one tensor for each rank; overwritten.
        dst: the destination, by its rank among all; 0 when neither is given.
        group: the group; that of all processes when None.
        async_op: return at once.
        group_dst: the destination, by its place in the group.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        ValueError: ``gather_list`` missing on the destination, or there on another rank.
        RuntimeError: not as many tensors as ranks, or another dtype.
    Source: torch.distributed.gather.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.gather(torch.ones(2), [torch.zeros(2)], dst=0)
        >>> torch.distributed.destroy_process_group()
    """
    check_tensor(tensor, "tensor")
    if not is_member(group, "gather"):
        return None
    pg = resolved(group)
    root = root_of(pg, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    into: list[Tensor] = []
    if pg._rank == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        check_tensors(gather_list, "gather_list")
        _check_list("gather", "gather_list", gather_list, pg._size, tensor, gather_list[root] if root < len(gather_list) else None)
        into = gather_list
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")

    def call(lane: Any) -> None:
        if not into:
            lane.gather_uneven(contiguous(tensor), None, [], root)
            return
        incoming = Incoming(into, tensor._array.dtype)
        lane.gather_uneven(contiguous(tensor), incoming.array, [each._array.nbytes for each in into], root)
        incoming.finish()

    return pg.run("gather", call, into, async_op, print_of([], tensor.dtype, root))


# -- from one, or parts ------------------------------------------------------------------------------------------------------
def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each rank one tensor of a list that one of them has.

    Args:
        tensor: of any size; overwritten by this rank's.
        scatter_list: on the source, one tensor for each rank.
        src: the source, by its rank among all; 0 when neither is given.
        group: the group; that of all processes when None.
        async_op: return at once.
        group_src: the source, by its place in the group.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        ValueError: ``scatter_list`` missing on the source, or there on another rank.
        RuntimeError: not as many tensors as ranks, or another dtype.
    Source: torch.distributed.scatter.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.scatter(part := torch.zeros(2), [torch.ones(2)], src=0)
        >>> torch.distributed.destroy_process_group()
        >>> part
        tensor([1., 1.])
    """
    check_tensor(tensor, "tensor")
    if not is_member(group, "scatter"):
        return None
    pg = resolved(group)
    root = root_of(pg, 0 if src is None and group_src is None else src, group_src, "src")
    parts: list[Tensor] = []
    if pg._rank == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        check_tensors(scatter_list, "scatter_list")
        _check_list("scatter", "scatter_list", scatter_list, pg._size, tensor, scatter_list[root] if root < len(scatter_list) else None)
        parts = scatter_list
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")

    def call(lane: Any) -> None:
        incoming = Incoming([tensor], tensor._array.dtype)
        send = joined(parts) if parts else None
        lane.scatter_uneven(send, incoming.array, [each._array.nbytes for each in parts], root)
        incoming.finish()

    return pg.run("scatter", call, [tensor], async_op, print_of([], tensor.dtype, root))


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = SUM, group: Group = None, async_op: bool = False) -> Work | None:
    """Reduce lists of tensors of all ranks, and give each rank one of the results.

    Args:
        output: of any size; overwritten by this rank's.
        input_list: one tensor for each rank; sizes may differ between them.
        op: a ``ReduceOp``.
        group: the group; that of all processes when None.
        async_op: return at once.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        RuntimeError: not as many tensors as ranks, another dtype or size, or the dtype has no such reduction.
    Source: torch.distributed.reduce_scatter.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.reduce_scatter(part := torch.zeros(2), [torch.ones(2)])
        >>> torch.distributed.destroy_process_group()
        >>> part
        tensor([1., 1.])
    """
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    if not is_member(group, "reduce_scatter"):
        return None
    pg = resolved(group)
    _check_list("reduce_scatter", "input_list", input_list, pg._size, output, input_list[pg._rank] if pg._rank < len(input_list) else None)
    return _reduce_scatter(pg, "reduce_scatter", output, input_list, [each._array.size for each in input_list], op, async_op)


def reduce_scatter_tensor(output: Tensor, input: Tensor, op: Any = SUM, group: Group = None, async_op: bool = False) -> Work | None:
    """Reduce tensors of all ranks, and give each rank an equal part of the result.

    Args:
        output: overwritten by this rank's part.
        input: as many times ``output``'s elements as there are ranks, concatenated or stacked.
        op: a ``ReduceOp``.
        group: the group; that of all processes when None.
        async_op: return at once.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        RuntimeError: the sizes or dtypes do not fit, or the dtype has no such reduction.
    Source: torch.distributed.reduce_scatter_tensor.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.reduce_scatter_tensor(part := torch.zeros(2), torch.ones(2))
        >>> torch.distributed.destroy_process_group()
        >>> part
        tensor([1., 1.])
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    if not is_member(group, "reduce_scatter_tensor"):
        return None
    pg = resolved(group)
    _check_parts("reduce_scatter_tensor", "input", input, "output", output, pg._size)
    return _reduce_scatter(pg, "reduce_scatter_tensor", output, [input], [output._array.size] * pg._size, op, async_op)


reduce_scatter_single = reduce_scatter_tensor


def _reduce_scatter_base(output: Tensor, input: Tensor, op: Any = SUM, group: Group = None, async_op: bool = False) -> Work | None:
    """``reduce_scatter_tensor`` under its first name."""
    warnings.warn(
        "torch.distributed._reduce_scatter_base is a private function and will be deprecated. Use reduce_scatter_tensor",
        FutureWarning,
        stacklevel=2,
    )
    return reduce_scatter_tensor(output, input, op, group, async_op)


def _reduce_scatter(
    pg: ProcessGroup, name: str, output: Tensor, inputs: Sequence[Tensor], counts: list[int], op: Any, async_op: bool
) -> Work | None:
    reduction = pg.reduction(op, output._array.dtype)

    def call(lane: Any) -> None:
        send = joined(inputs)
        if reduction.before is not None and len(inputs) == 1 and reduction.wire is None:
            send = send.copy()  # which is multiplied in place
        travelling = reduction.out(send)
        incoming = Incoming([output], output._array.dtype)
        receive = incoming.array if reduction.wire is None else np.empty(counts[pg._rank], travelling.dtype)
        if len(set(counts)) == 1:
            lane.reduce_scatter(travelling, receive, reduction.op)
        else:
            lane.reduce_scatter_uneven(travelling, receive, counts, reduction.op)
        if reduction.wire is not None and output._array.dtype == np.bool_:
            incoming.array[...] = receive.view(np.bool_)
        else:
            reduction.back(receive, incoming.array)
        incoming.finish()

    return pg.run(name, call, [output], async_op, print_of(inputs, op))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Give each rank a part of the tensor, and get a part from each.

    Args:
        output: ``(n, *)``, the parts that come, one after the other along dimension 0; overwritten.
        input: ``(m, *)``, the parts that go, along dimension 0.
        output_split_sizes, input_split_sizes: the parts' sizes along dimension 0; equal ones when None.
        group: the group; that of all processes when None.
        async_op: return at once.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        RuntimeError: the sizes or dtypes do not fit.
    Source: torch.distributed.all_to_all_single.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.all_to_all_single(come := torch.zeros(2), torch.ones(2))
        >>> torch.distributed.destroy_process_group()
        >>> come
        tensor([1., 1.])
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    if not is_member(group, "all_to_all_single"):
        return None
    pg = resolved(group)
    check_same_dtype("all_to_all_single", "output", [output], input)
    sent = _part_bytes("input", input, input_split_sizes, pg._size)
    received = _part_bytes("output", output, output_split_sizes, pg._size)

    def call(lane: Any) -> None:
        incoming = Incoming([output], output._array.dtype)
        lane.all_to_all(contiguous(input), incoming.array, sent, received)
        incoming.finish()

    return pg.run("all_to_all_single", call, [output], async_op, print_of([], input.dtype))


def _part_bytes(name: str, tensor: Tensor, sizes: Sequence[int] | None, ranks: int) -> list[int]:
    """The parts' sizes in bytes."""
    shape = tensor._array.shape
    rows = shape[0] if shape else 1
    row = tensor._array.nbytes // rows if rows else 0
    if not sizes:
        if rows % ranks:
            raise RuntimeError(f"Tensor's dim 0 does not divide equally across group size: {name} has {rows} rows for {ranks} ranks")
        return [rows // ranks * row] * ranks
    if len(sizes) != ranks:
        raise RuntimeError(f"Number of tensor splits not equal to group size: {name} has {len(sizes)} for {ranks} ranks")
    if sum(sizes) != rows:
        raise RuntimeError(f"Split sizes doesn't match total dim 0 size: those of {name} sum to {sum(sizes)}, its size is {rows}")
    return [size * row for size in sizes]


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Group = None, async_op: bool = False
) -> Work | None:
    """Give each rank one tensor of a list, and get one from each.

    Args:
        output_tensor_list: what comes from each rank, of any size; overwritten.
        input_tensor_list: what goes to each rank; sizes may differ.
        group: the group; that of all processes when None.
        async_op: return at once.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        RuntimeError: not as many tensors as ranks, or several dtypes.
    Source: torch.distributed.all_to_all.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.all_to_all([torch.zeros(2)], [torch.ones(2)])
        >>> torch.distributed.destroy_process_group()
    """
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    if not is_member(group, "all_to_all"):
        return None
    pg = resolved(group)
    for name, tensors in (("output_tensor_list", output_tensor_list), ("input_tensor_list", input_tensor_list)):
        _check_list("all_to_all", name, tensors, pg._size, input_tensor_list[0] if input_tensor_list else tensors[0], None)

    def call(lane: Any) -> None:
        incoming = Incoming(output_tensor_list, output_tensor_list[0]._array.dtype)
        sent, received = ([each._array.nbytes for each in tensors] for tensors in (input_tensor_list, output_tensor_list))
        lane.all_to_all(joined(input_tensor_list), incoming.array, sent, received)
        incoming.finish()

    return pg.run("all_to_all", call, list(output_tensor_list), async_op, print_of([], input_tensor_list[0].dtype))


# -- meeting ---------------------------------------------------------------------------------------------------------------
def barrier(group: Group = None, async_op: bool = False, device_ids: Any = None, timeout: datetime.timedelta | None = None) -> Work | None:
    """Wait until all ranks have come here.

    Args:
        group: the group; that of all processes when None.
        async_op: return at once.
        device_ids: GPUs, for PyTorch's NCCL back end.
        timeout: how long to wait; the group's when None.
    Returns: a ``Work`` if ``async_op``, else None.
    Raises:
        DistBackendError: some rank did not come within the timeout.
    Source: torch.distributed.barrier.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> torch.distributed.barrier()
        >>> torch.distributed.destroy_process_group()
    """
    if not is_member(group, "barrier"):
        return None
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    seconds = None if timeout is None else timeout.total_seconds()
    return resolved(group).run("barrier", lambda lane: lane.barrier(seconds), [], async_op, timeout=seconds)
