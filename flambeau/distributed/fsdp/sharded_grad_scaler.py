"""``ShardedGradScaler``: scaling of losses where each process has a part of the gradients."""

from __future__ import annotations

from typing import Any

from ... import distributed as dist, ops
from ...amp.grad_scaler import GradScaler
from ...core.dtype import float32
from ..tensor import _collectives as collectives

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A ``GradScaler`` that skips a step on all processes if a gradient of one of them is not finite.

    Args:
        device, init_scale, backoff_factor, growth_factor, growth_interval, enabled: as for ``torch.amp.GradScaler``.
        process_group: the processes that have the parts; all when None.
    Raises:
        ValueError: something else than a tensor or an iterable of them is scaled.
    Source: torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler.
    Example:
        >>> from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
        >>> ShardedGradScaler("cpu", init_scale=8.0).scale(torch.ones(1))
        tensor([8.])
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5, growth_factor: float = 2.0,
        growth_interval: int = 2000, enabled: bool = True, process_group: Any = None
    ) -> None:  # fmt: skip
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def _unscale(self, optimizer: Any, factor: float, allow_float16: bool) -> None:
        # Shards may be float16, and a process without gradients takes part: the others wait for it.
        super()._unscale(optimizer, factor, allow_float16=True)
        found = self._found_inf_per_device(optimizer)
        own = ops.full((), float(self._overflowed(optimizer)), dtype=float32)
        both = ops.stack([own, ops.full((), float(len(found) > 0), dtype=float32)])
        group = dist.group.WORLD if self.process_group is None else self.process_group
        overflowed, is_known = collectives.all_reduce(both, "max", group).tolist()
        if is_known:
            devices = list(found) or [own.device]
            found.update({device: ops.full((), overflowed, dtype=float32, device=device) for device in devices})
