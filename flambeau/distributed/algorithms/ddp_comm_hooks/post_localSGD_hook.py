"""A hook for averaging gradients in small groups, and models among all.

Source: torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook.
"""

from __future__ import annotations

from typing import Any

from ....core.tensor import Tensor
from ....facades.futures import Future
from ...grad_bucket import GradBucket
from ._deferred import group_of, mean_of

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """Groups and times of :func:`post_localSGD_hook`.

    Args:
        process_group: whose mean is taken in the first iterations; all processes when None.
        subgroup: whose mean is taken afterwards; the processes of this machine when None.
        start_localSGD_iter: number of first iterations.
        post_local_gradient_allreduce: False for no exchange of gradients after the first iterations.
    Source: torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook.PostLocalSGDState.
    Example:
        >>> PostLocalSGDState(None, None, start_localSGD_iter=100).iter
        0
    """

    def __init__(self, process_group: Any, subgroup: Any, start_localSGD_iter: int, post_local_gradient_allreduce: bool = True) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter, self.post_local_gradient_allreduce = start_localSGD_iter, post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket among all processes in the first iterations, and in a small group afterwards; an averager of models does the rest.

    Args:
        state: the groups.
        bucket: the gradients, in a vector ``(n,)``.
    Returns: a future of the averages.
    Source: torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook.post_localSGD_hook; Lin et al. 2018.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> post_localSGD_hook(PostLocalSGDState(None, None, 100), bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    buffer, is_first = bucket.buffer(), state.iter < state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if is_first:
        return mean_of(group_of(state.process_group), buffer)
    if not state.post_local_gradient_allreduce:
        done: Future[Tensor] = Future()
        done.set_result(buffer)
        return done
    if state.subgroup is None:
        from .... import distributed

        state.subgroup, _ = distributed.new_subgroups()
    return mean_of(state.subgroup, buffer)
