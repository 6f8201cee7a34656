"""Averages of parameters over processes. Source: torch.distributed.algorithms.model_averaging.utils."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .... import distributed as dist, ops
from ....autograd.grad_mode import no_grad
from ....core.tensor import Tensor

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterable[Tensor], process_group: Any = None) -> None:
    """Replace parameters by their means over a group, all of a dtype and device in one exchange.

    Args:
        params: the parameters, ``(*)``, in one order on all ranks.
        process_group: the processes; all when None.
    Source: torch.distributed.algorithms.model_averaging.utils.average_parameters.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> average_parameters(torch.nn.Linear(2, 1).parameters())
        >>> dist.destroy_process_group()
    """
    group = dist.group.WORLD if process_group is None else process_group
    if dist.get_rank(group) < 0:
        return
    by_kind: dict[Any, list[Tensor]] = {}
    for param in params:
        by_kind.setdefault((param.dtype, param.device), []).append(param)
    size = dist.get_world_size(group)
    with no_grad():
        for tensors in by_kind.values():
            flat = ops.cat([tensor.detach().reshape(-1) for tensor in tensors]) / size
            dist.all_reduce(flat, group=group)
            for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
                tensor.copy_(part.reshape(tensor.shape))


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """Those parameters, of parameters or groups of them, that have a gradient.

    Args:
        params: parameters ``(*)``, or an optimizer's groups.
    Returns: a list of them.
    Raises:
        NotImplementedError: something else among ``params``.
    Source: torch.distributed.algorithms.model_averaging.utils.get_params_to_average.
    Example:
        >>> get_params_to_average(torch.nn.Linear(2, 1).parameters())
        []
    """

    def each() -> Iterator[Tensor]:
        for param in params:
            if isinstance(param, Tensor):
                yield param
            elif isinstance(param, dict):
                yield from param["params"]
            else:
                raise NotImplementedError(f"Parameter input of type {type(param)} is not supported")

    return [param for param in each() if param.grad is not None]


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Replace those parameters that have a gradient by their means over a group.

    Args:
        params: parameters, or an optimizer's groups.
        process_group: the processes.
    Source: torch.distributed.algorithms.model_averaging.utils.average_parameters_or_parameter_groups.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> average_parameters_or_parameter_groups(torch.nn.Linear(2, 1).parameters(), None)
        >>> dist.destroy_process_group()
    """
    average_parameters(get_params_to_average(params), process_group)
