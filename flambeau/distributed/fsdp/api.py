"""Options of ``FullyShardedDataParallel``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ...nn import modules

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]  # fmt: skip


class ShardingStrategy(Enum):
    """Strategies: what is divided, and when whole parameters are given back.

    Source: torch.distributed.fsdp.ShardingStrategy.
    Example:
        >>> from flambeau.distributed.fsdp import ShardingStrategy
        >>> ShardingStrategy.FULL_SHARD
        <ShardingStrategy.FULL_SHARD: 1>
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """Times of gathering the next module's parameters in backward: without effect, as they are gathered when they are needed.

    Source: torch.distributed.fsdp.BackwardPrefetch.
    Example:
        >>> from flambeau.distributed.fsdp import BackwardPrefetch
        >>> BackwardPrefetch.BACKWARD_PRE
        <BackwardPrefetch.BACKWARD_PRE: 1>
    """

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """Kinds of ``state_dict`` of a sharded module: whole tensors, this process's slices, or spread tensors.

    Source: torch.distributed.fsdp.StateDictType.
    Example:
        >>> from flambeau.distributed.fsdp import StateDictType
        >>> StateDictType.SHARDED_STATE_DICT
        <StateDictType.SHARDED_STATE_DICT: 3>
    """

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass(frozen=True)
class MixedPrecision:
    """In which dtypes a sharded module computes.

    Args:
        param_dtype, reduce_dtype, buffer_dtype: of whole parameters, of gradients while they are reduced, of buffers.
        keep_low_precision_grads: not supported: gradients have their parameters' dtype.
        cast_forward_inputs, cast_root_forward_inputs: cast inputs to ``param_dtype``, of each module or of the root.
        _module_classes_to_ignore: modules that compute in their own dtype.
    Source: torch.distributed.fsdp.MixedPrecision.
    Example:
        >>> from flambeau.distributed.fsdp import MixedPrecision
        >>> MixedPrecision(param_dtype=torch.bfloat16).cast_root_forward_inputs
        True
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (modules.batchnorm._BatchNorm,)  # type: ignore[attr-defined]


@dataclass
class CPUOffload:
    """Whether shards lie on the CPU; they do here in any case.

    Args:
        offload_params: the same for either value.
    Source: torch.distributed.fsdp.CPUOffload.
    Example:
        >>> from flambeau.distributed.fsdp import CPUOffload
        >>> CPUOffload().offload_params
        False
    """

    offload_params: bool = False


_EXAMPLE = """
    Args:
        options: {options}.
    Source: torch.distributed.fsdp.{name}.
    Example:
        >>> from flambeau.distributed.fsdp import {name}
        >>> {name}()
        {shown}
    """


@dataclass
class StateDictConfig:
    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    pass


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    _use_dtensor: bool = False


for _class, _what in {
    StateDictConfig: "Options of a state_dict", FullStateDictConfig: "Options of a state_dict of whole tensors",
    LocalStateDictConfig: "Options of a state_dict of slices", ShardedStateDictConfig: "Options of a state_dict of spread tensors",
    OptimStateDictConfig: "Options of an optimizer's state", FullOptimStateDictConfig: "Options of an optimizer's state in whole tensors",
    LocalOptimStateDictConfig: "Options of an optimizer's state in slices",
    ShardedOptimStateDictConfig: "Options of an optimizer's state in spread tensors",
}.items():  # fmt: skip
    _options = "``offload_to_cpu``, without effect on the CPU"
    _options += "; ``rank0_only``, other processes get nothing" if hasattr(_class, "rank0_only") else ""
    _class.__doc__ = f"{_what}.\n{_EXAMPLE.format(name=_class.__name__, options=_options, shown=_class())}"


@dataclass
class StateDictSettings:
    """The kind of state_dict that a sharded module gives.

    Args:
        state_dict_type, state_dict_config, optim_state_dict_config: kind and options.
    Source: torch.distributed.fsdp.StateDictSettings.
    Example:
        >>> from flambeau.distributed.fsdp import FullOptimStateDictConfig, FullStateDictConfig, StateDictSettings, StateDictType
        >>> settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())
        >>> settings.state_dict_config.rank0_only
        False
    """

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
