"""A communication hook without communication. Source: torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks."""

from __future__ import annotations

from typing import Any

from ....core.tensor import Tensor
from ....facades.futures import Future
from ...grad_bucket import GradBucket

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future[Tensor]:
    """Leave a bucket as it is: what training costs without communication. Ranks' parameters drift apart.

    Args:
        bucket: the gradients, in a vector ``(n,)``.
    Returns: a future of the same.
    Source: torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks.noop_hook.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> noop_hook(None, bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    done: Future[Tensor] = Future()
    done.set_result(bucket.buffer())
    return done
