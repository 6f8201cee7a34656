"""Operations on tensors of all processes. Source: horovod.torch.mpi_ops."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ... import distributed as dist, ops
from ...autograd.function import Function
from ...autograd.grad_mode import is_grad_enabled, no_grad
from ...core.dtype import int64
from ...core.tensor import Tensor
from . import adasum, world
from .compression import Compression

__all__ = [
    "Adasum", "Average", "Max", "Min", "Product", "Sum", "allgather", "allgather_async", "allreduce", "allreduce_", "allreduce_async",
    "allreduce_async_", "alltoall", "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_", "grouped_allreduce",
    "grouped_allreduce_", "poll", "reducescatter", "synchronize",
]  # fmt: skip

Average, Sum, Adasum, Min, Max, Product = range(6)
_OPERATIONS = {Average: "SUM", Sum: "SUM", Min: "MIN", Max: "MAX", Product: "PRODUCT"}


class _Handle:
    """An operation under way: the work, None where none is needed, and what makes the result of it."""

    def __init__(self, work: Any, result: Callable[[], Any]) -> None:
        self.work, self.result = work, result


def poll(handle: _Handle) -> bool:
    """Whether an operation is done, so that ``synchronize`` will not wait. Source: horovod.torch.poll."""
    return handle.work is None or handle.work.is_completed()


def synchronize(handle: _Handle) -> Any:
    """Wait for an operation; its result. Source: horovod.torch.synchronize."""
    if handle.work is not None:
        handle.work.wait()
    with no_grad():
        return handle.result()


def _chosen(op: int | None, average: bool | None) -> int:
    """The reduction that arguments of today and of old mean."""
    if average is not None:
        warnings.warn("Parameter `average` has been replaced with `op` and will be removed in v1.0", DeprecationWarning, stacklevel=3)
        if op is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        return Average if average else Sum
    op = Average if op is None else op
    if op not in _OPERATIONS and op != Adasum:
        raise ValueError(f"horovod: unknown op {op}")
    return op


def started_reduction(tensor: Tensor, op: int, before: float, after: float) -> tuple[Any, Callable[[], None]]:
    """Begin a reduction in place; the work, and what to do with the tensor when it is done."""
    size = world.size()
    if before != 1.0:
        tensor.mul_(before)
    if op == Adasum:
        return adasum.started(tensor, after)
    work = dist.all_reduce(tensor, getattr(dist.ReduceOp, _OPERATIONS[op]), async_op=True) if size > 1 else None
    factor = after / size if op == Average else after

    def finish() -> None:
        if factor != 1.0 and tensor.is_floating_point():
            tensor.mul_(factor)
        elif factor != 1.0:
            tensor.copy_((tensor * factor).trunc())

    return work, finish


def _allreduce_async(
    tensor: Tensor, target: Tensor | None, average: Any, op: Any, compression: Any, before: float, after: float
) -> _Handle:
    with no_grad():
        narrow, known = compression.compress(tensor.detach())
        sent = narrow.clone() if narrow.data_ptr() == tensor.data_ptr() else narrow
        work, finish = started_reduction(sent, _chosen(op, average), before, after)

    def result() -> Tensor:
        finish()
        wide = compression.decompress(sent, known)
        return wide if target is None else target.copy_(wide)

    return _Handle(work, result)


def allreduce_async(
    tensor: Tensor, average: bool | None = None, name: str | None = None, op: int | None = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, process_set: Any = None,
) -> _Handle:  # fmt: skip
    """Begin ``allreduce``; a handle for ``synchronize``. Source: horovod.torch.allreduce_async."""
    _all_processes(process_set)
    return _allreduce_async(tensor, None, average, op, Compression.none, prescale_factor, postscale_factor)


def allreduce_async_(
    tensor: Tensor, average: bool | None = None, name: str | None = None, op: int | None = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, process_set: Any = None,
) -> _Handle:  # fmt: skip
    """Begin ``allreduce_``; a handle for ``synchronize``. Source: horovod.torch.allreduce_async_."""
    _all_processes(process_set)
    return _allreduce_async(tensor, tensor.detach(), average, op, Compression.none, prescale_factor, postscale_factor)


def _all_processes(process_set: Any) -> None:
    if process_set is not None:
        raise NotImplementedError("horovod: process sets are not supported")


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: int, compression: Any, before: float, after: float) -> Tensor:
        ctx.arguments = op, compression, before, after
        return synchronize(_allreduce_async(tensor, None, None, op, compression, before, after))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        op, compression, before, after = ctx.arguments
        return synchronize(_allreduce_async(grad, None, None, op, compression, before, after)), None, None, None, None


def allreduce(
    tensor: Tensor, average: bool | None = None, name: str | None = None, compression: Any = Compression.none, op: int | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: Any = None,
) -> Tensor:  # fmt: skip
    """The mean, or another reduction, of a tensor of all processes.

    Args:
        tensor: of one shape on all ranks.
        average: old word for ``op``.
        name: for messages.
        compression: of what is sent.
        op: ``Average``, ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``; the mean when None.
        prescale_factor, postscale_factor: factors before and after the sum.
        process_set: not supported.
    Returns: a tensor of the same shape.
    Raises:
        NotImplementedError: a process set, or ``Adasum`` of processes whose number is no power of 2.
    Gradient: the same reduction of the gradients.
    Source: horovod.torch.allreduce.
    Example:
        >>> import flambeau.horovod as hvd
        >>> hvd.init()
        >>> hvd.allreduce(torch.tensor([2.0, 4.0]), name="pair")
        tensor([2., 4.])
    """
    _all_processes(process_set)
    return _Reduce.apply(tensor, _chosen(op, average), compression, prescale_factor, postscale_factor)


def allreduce_(
    tensor: Tensor, average: bool | None = None, name: str | None = None, op: int | None = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, process_set: Any = None,
) -> Tensor:  # fmt: skip
    """``allreduce`` in place. Source: horovod.torch.allreduce_."""
    synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))
    return tensor


def grouped_allreduce(
    tensors: Sequence[Tensor], average: bool | None = None, name: str | None = None, compression: Any = Compression.none,
    op: int | None = None,
) -> list[Tensor]:  # fmt: skip
    """``allreduce`` of several tensors. Source: horovod.torch.grouped_allreduce."""
    op = _chosen(op, average)
    return [allreduce(tensor, name=name, compression=compression, op=op) for tensor in tensors]


def grouped_allreduce_(
    tensors: Sequence[Tensor], average: bool | None = None, name: str | None = None, op: int | None = None
) -> list[Tensor]:
    """``allreduce_`` of several tensors. Source: horovod.torch.grouped_allreduce_."""
    op = _chosen(op, average)
    handles = [allreduce_async_(tensor, op=op) for tensor in tensors]
    for handle in handles:
        synchronize(handle)
    return list(tensors)


def allgather_async(tensor: Tensor, name: str | None = None, process_set: Any = None) -> _Handle:
    """Begin ``allgather``; a handle for ``synchronize``. Source: horovod.torch.allgather_async."""
    _all_processes(process_set)
    if world.size() == 1:
        return _Handle(None, tensor.detach().clone)
    sizes = [ops.zeros(1, dtype=int64) for _ in range(world.size())]
    dist.all_gather(sizes, ops.tensor([len(tensor)]))
    rows = [int(size.item()) for size in sizes]
    padded = ops.zeros((max(rows), *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)
    padded[: len(tensor)] = tensor.detach()
    parts = [ops.empty_like(padded) for _ in rows]
    work = dist.all_gather(parts, padded, async_op=True)
    return _Handle(work, lambda: ops.cat([part[:count] for part, count in zip(parts, rows)]))


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        ctx.rows = len(tensor)
        return synchronize(allgather_async(tensor))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        rows = synchronize(allgather_async(ops.tensor([ctx.rows]))).tolist()
        mean = synchronize(_allreduce_async(grad, None, None, Average, Compression.none, 1.0, 1.0))
        start = sum(rows[: world.rank()])
        return mean[start : start + ctx.rows]


def allgather(tensor: Tensor, name: str | None = None, process_set: Any = None) -> Tensor:
    """Tensors of all processes, one after the other along the first dimension, which may differ.

    Args:
        tensor: ``(n, *)``, with the other sizes alike on all ranks.
        name: for messages.
        process_set: not supported.
    Returns: ``(sum of n, *)``.
    Source: horovod.torch.allgather.
    Example:
        >>> import flambeau.horovod as hvd
        >>> hvd.init()
        >>> hvd.allgather(torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """
    _all_processes(process_set)
    return _Gather.apply(tensor)


def broadcast_async_(tensor: Tensor, root_rank: int, name: str | None = None, process_set: Any = None) -> _Handle:
    """Begin ``broadcast_``; a handle for ``synchronize``. Source: horovod.torch.broadcast_async_."""
    _all_processes(process_set)
    if not 0 <= root_rank < world.size():
        raise ValueError(f"broadcast: root_rank {root_rank} is no rank of {world.size()}")
    work = dist.broadcast(tensor.detach(), root_rank, async_op=True) if world.size() > 1 else None
    return _Handle(work, lambda: tensor)


def broadcast_async(tensor: Tensor, root_rank: int, name: str | None = None, process_set: Any = None) -> _Handle:
    """Begin ``broadcast``; a handle for ``synchronize``. Source: horovod.torch.broadcast_async."""
    return broadcast_async_(tensor.detach().clone(), root_rank, name, process_set)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root_rank: int) -> Tensor:
        ctx.root = root_rank
        return synchronize(broadcast_async(tensor, root_rank))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        mean = synchronize(_allreduce_async(grad, None, None, Average, Compression.none, 1.0, 1.0))
        return (mean if world.rank() == ctx.root else mean * 0), None


def broadcast(tensor: Tensor, root_rank: int, name: str | None = None, process_set: Any = None) -> Tensor:
    """A rank's tensor.

    Args:
        tensor: of one shape on all ranks.
        root_rank: whose it is.
        name: for messages.
        process_set: not supported.
    Returns: a tensor of the same shape.
    Source: horovod.torch.broadcast.
    Example:
        >>> import flambeau.horovod as hvd
        >>> hvd.init()
        >>> hvd.broadcast(torch.ones(2), root_rank=0)
        tensor([1., 1.])
    """
    _all_processes(process_set)
    return _Broadcast.apply(tensor, root_rank)


def broadcast_(tensor: Tensor, root_rank: int, name: str | None = None, process_set: Any = None) -> Tensor:
    """``broadcast`` in place. Source: horovod.torch.broadcast_."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def _refuse_gradient(name: str, tensor: Tensor) -> None:
    """Raise where a gradient would be expected, instead of leaving it out."""
    if is_grad_enabled() and tensor.requires_grad:
        raise NotImplementedError(f"horovod.{name}: gradients are not supported; give it a detached tensor")


def alltoall(tensor: Tensor, splits: Any = None, name: str | None = None, process_set: Any = None) -> Any:
    """Parts of this process's rows to the others, and theirs of them.

    Args:
        tensor: ``(n, *)``.
        splits: number of rows for each rank; equally many when None.
        name: for messages.
        process_set: not supported.
    Returns: what came, one after the other; with ``splits`` also the number of rows of each.
    Raises:
        NotImplementedError: a tensor that requires grad, or a process set. ValueError: rows that cannot be divided.
    Source: horovod.torch.alltoall.
    """
    _all_processes(process_set)
    _refuse_gradient("alltoall", tensor)
    count = world.size()
    if splits is None and len(tensor) % count:
        raise ValueError(f"alltoall: {len(tensor)} rows cannot be divided among {count} processes")
    sent = [len(tensor) // count] * count if splits is None else [int(each) for each in splits]
    if count == 1:
        got, received = tensor.detach().clone(), ops.tensor(sent)
    else:
        received = ops.zeros(count, dtype=int64)
        dist.all_to_all_single(received, ops.tensor(sent))
        rows = received.tolist()
        got = ops.empty((sum(rows), *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)
        dist.all_to_all_single(got, tensor.detach().contiguous(), rows, sent)
    return got if splits is None else (got, received)


def reducescatter(tensor: Tensor, name: str | None = None, op: int = Average, process_set: Any = None) -> Tensor:
    """This process's rows of the reduced tensor; the first ranks get one more where rows cannot be divided equally.

    Args:
        tensor: ``(n, *)``, of one shape on all ranks.
        name: for messages.
        op: as in ``allreduce``.
        process_set: not supported.
    Raises:
        NotImplementedError: a tensor that requires grad, or a process set.
    Source: horovod.torch.reducescatter.
    """
    _refuse_gradient("reducescatter", tensor)
    whole = synchronize(allreduce_async(tensor, op=op, process_set=process_set))
    rows, more = divmod(len(tensor), world.size())
    start = world.rank() * rows + min(world.rank(), more)
    return whole[start : start + rows + (world.rank() < more)].clone()


def barrier(process_set: Any = None) -> None:
    """Wait until all processes have come here. Source: horovod.torch.barrier."""
    _all_processes(process_set)
    if world.size() > 1:
        dist.barrier()
