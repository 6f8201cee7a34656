"""Communication hooks for ``DistributedDataParallel``. Source: torch.distributed.algorithms.ddp_comm_hooks."""

from __future__ import annotations

import enum
from typing import Any

from ....core import late as _late
from . import debugging_hooks, default_hooks, post_localSGD_hook, powerSGD_hook, quantization_hooks

_late.adopt(__name__)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class _Registers:
    """Registers a hook: ``type.value(model=model, state=state)``."""

    def __init__(self, hook: Any, rank: int | None = None) -> None:
        self.hook, self.rank = hook, rank

    def __call__(self, model: Any, state: Any) -> None:
        if self.rank is not None:
            state = powerSGD_hook.PowerSGDState(process_group=state, matrix_approximation_rank=self.rank)
        model.register_comm_hook(state, self.hook)


class DDPCommHookType(enum.Enum):
    """Communication hooks by name; a value is a function that registers its hook.

    Source: torch.distributed.algorithms.ddp_comm_hooks.DDPCommHookType.
    Example:
        >>> from flambeau.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
        >>> DDPCommHookType.ALLREDUCE.name
        'ALLREDUCE'
    """

    ALLREDUCE = _Registers(default_hooks.allreduce_hook)
    FP16_COMPRESS = _Registers(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _Registers(default_hooks.bf16_compress_hook)
    QUANTIZE_PER_TENSOR = _Registers(quantization_hooks.quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = _Registers(quantization_hooks.quantization_perchannel_hook)
    POWER_SGD = _Registers(powerSGD_hook.powerSGD_hook, 1)
    POWER_SGD_RANK2 = _Registers(powerSGD_hook.powerSGD_hook, 2)
    BATCHED_POWER_SGD = _Registers(powerSGD_hook.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = _Registers(powerSGD_hook.batched_powerSGD_hook, 2)
    POST_LOCAL_SGD = _Registers(post_localSGD_hook.post_localSGD_hook)
    NOOP = _Registers(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register a hook by its name.

    Args:
        comm_hook_type: the name.
        model: a ``DistributedDataParallel``.
        state: of the hook; the process group, for PowerSGD's hooks too, for which a state is made.
    Source: torch.distributed.algorithms.ddp_comm_hooks.register_ddp_comm_hook.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> from flambeau.distributed.algorithms import ddp_comm_hooks
        >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        >>> ddp_comm_hooks.register_ddp_comm_hook(ddp_comm_hooks.DDPCommHookType.FP16_COMPRESS, model)
        >>> dist.destroy_process_group()
    """
    comm_hook_type.value(model=model, state=state)
