"""Options of ``fully_shard``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CPUOffloadPolicy", "DataParallelMeshDims", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a module computes and its gradients are reduced.

    Args:
        param_dtype: of the whole parameters in forward and backward; that of the shards when None.
        reduce_dtype: of the gradients while they are reduced; ``param_dtype`` when None.
        output_dtype: to which floating-point outputs are cast; not cast when None.
        cast_forward_inputs: cast floating-point inputs to ``param_dtype``.
    Source: torch.distributed.fsdp.MixedPrecisionPolicy.
    Example:
        >>> from flambeau.distributed.fsdp import MixedPrecisionPolicy
        >>> MixedPrecisionPolicy(param_dtype=torch.bfloat16).cast_forward_inputs
        True
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Shards stay on the device.

    Source: torch.distributed.fsdp.OffloadPolicy.
    Example:
        >>> from flambeau.distributed.fsdp import OffloadPolicy
        >>> OffloadPolicy()
        OffloadPolicy()
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Shards lie on the CPU, as they do here in any case.

    Args:
        pin_memory: without effect on the CPU.
    Source: torch.distributed.fsdp.CPUOffloadPolicy.
    Example:
        >>> from flambeau.distributed.fsdp import CPUOffloadPolicy
        >>> CPUOffloadPolicy()
        CPUOffloadPolicy(pin_memory=True)
    """

    pin_memory: bool = True


@dataclass(frozen=True)
class DataParallelMeshDims:
    """Names of the dimensions of a mesh over which parameters are divided and copied.

    Args:
        shard: the dimension over which parameters are divided.
        replicate: the dimension along which they are the same.
    Source: torch.distributed.fsdp.DataParallelMeshDims.
    Example:
        >>> from flambeau.distributed.fsdp import DataParallelMeshDims
        >>> DataParallelMeshDims(shard="dp").shard
        'dp'
    """

    shard: Any = None
    replicate: Any = None
