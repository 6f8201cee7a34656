"""Communication hooks that average buckets as they are, or in a narrower dtype.

Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.dtype import bfloat16, dtype as DType, float16
from ....core.tensor import Tensor
from ....facades.futures import Future
from ...grad_bucket import GradBucket
from ._deferred import group_of, mean_of

__all__ = ["allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper"]

Hook = Callable[[Any, GradBucket], Future[Tensor]]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket, as DDP does without a hook.

    Args:
        process_group: the processes; all when None.
        bucket: the gradients, in a vector ``(n,)``.
    Returns: a future of the averages.
    Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.allreduce_hook.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> allreduce_hook(None, bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    return mean_of(group_of(process_group), bucket.buffer())


def _compressed(process_group: Any, bucket: GradBucket, dtype: DType) -> Future[Tensor]:
    buffer = bucket.buffer()

    def widen(done: Future[Tensor]) -> Tensor:
        return buffer.copy_(done.value())

    return mean_of(group_of(process_group), buffer.to(dtype)).then(widen)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket in float16, which halves what is sent.

    Args:
        process_group: the processes; all when None.
        bucket: the gradients, in a vector ``(n,)``.
    Returns: a future of the averages, of the bucket's dtype.
    Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> fp16_compress_hook(None, bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    return _compressed(process_group, bucket, float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket in bfloat16, which halves what is sent and keeps float32's range.

    Args:
        process_group: the processes; all when None.
        bucket: the gradients, in a vector ``(n,)``.
    Returns: a future of the averages, of the bucket's dtype.
    Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> bf16_compress_hook(None, bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    return _compressed(process_group, bucket, bfloat16)


def _wrapper(hook: Hook, dtype: DType) -> Hook:
    def compressing(state: Any, bucket: GradBucket) -> Future[Tensor]:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))

        def widen(done: Future[Tensor]) -> Tensor:
            value = done.value()
            return buffer.copy_(value[0] if isinstance(value, list) else value)

        return hook(state, bucket).then(widen)

    return compressing


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives another one the bucket in float16.

    Args:
        hook: the other one.
    Returns: a hook.
    Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_wrapper.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> fp16_compress_wrapper(allreduce_hook)(None, bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    return _wrapper(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives another one the bucket in bfloat16.

    Args:
        hook: the other one.
    Returns: a hook.
    Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_wrapper.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> bf16_compress_wrapper(allreduce_hook)(None, bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    return _wrapper(hook, bfloat16)
