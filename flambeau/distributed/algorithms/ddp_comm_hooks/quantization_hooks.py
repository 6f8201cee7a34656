"""Communication hooks that send 8 bits for a number. Source: torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks."""

from __future__ import annotations

from typing import Any

from .... import ops
from ....core.dtype import uint8
from ....core.tensor import Tensor
from ....facades.futures import Future
from ...grad_bucket import GradBucket
from ._deferred import Deferred, group_of

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]

_LEVELS = 255


def _averaged(process_group: Any, rows: Tensor) -> Deferred:
    """A future of the mean of ``(r, n)`` over the ranks, each row sent as 8 bits a number with a scale and a least value."""
    from .... import distributed as dist

    group = group_of(process_group)
    low, high = rows.amin(1, keepdim=True).clamp(max=0), rows.amax(1, keepdim=True).clamp(min=0)
    scale = ((high - low) / _LEVELS).clamp(min=1e-38)
    coded = ((rows - low) / scale).round().clamp(0, _LEVELS).to(uint8)
    size = dist.get_world_size(group)
    scales = [ops.empty_like(scale) for _ in range(2 * size)]
    codes = [ops.empty_like(coded) for _ in range(size)]
    works = [
        dist.all_gather(scales[:size], scale, group=group, async_op=True),
        dist.all_gather(scales[size:], low, group=group, async_op=True),
        dist.all_gather(codes, coded, group=group, async_op=True),
    ]

    def finish() -> Tensor:
        for work in works:
            work.wait()
        total = ops.zeros_like(rows)
        for code, step, least in zip(codes, scales[:size], scales[size:]):
            total += code.to(rows.dtype) * step + least
        return total / size

    return Deferred(finish)


def quantization_pertensor_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket whose numbers are rounded to 256 levels between its least and its largest.

    Args:
        process_group: the processes; all when None.
        bucket: the gradients, in a vector ``(n,)``.
    Returns: a future of the averages.
    Source: torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks.quantization_pertensor_hook.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> quantization_pertensor_hook(None, bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    buffer = bucket.buffer()
    return _averaged(process_group, buffer.reshape(1, -1)).then(lambda done: done.value().reshape(buffer.shape))


def quantization_perchannel_hook(process_group: Any, bucket: GradBucket, bucket_size: int = 512) -> Future[Tensor]:
    """Average a bucket whose numbers are rounded to 256 levels, of each run of them by itself.

    Args:
        process_group: the processes; all when None.
        bucket: the gradients, in a vector ``(n,)``.
        bucket_size: numbers in a run.
    Returns: a future of the averages.
    Source: torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks.quantization_perchannel_hook.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> quantization_perchannel_hook(None, bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    buffer = bucket.buffer()
    count = buffer.numel()
    rows = ops.zeros((-(-count // bucket_size), bucket_size), dtype=buffer.dtype, device=buffer.device)
    rows.reshape(-1)[:count] = buffer
    return _averaged(process_group, rows).then(lambda done: done.value().reshape(-1)[:count])
