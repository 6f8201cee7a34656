"""Data parallel modules without a wrapper. Source: torch.distributed._composable.replicate."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter_ns
from typing import Any

from ...nn import Module
from ...nn.parallel import DistributedDataParallel

__all__ = ["replicate"]


def replicate(module: Module, ignored_modules: Iterable[Module] | None = None, **kwargs: Any) -> Module:
    """Have a module's gradients be averaged over processes, as ``DistributedDataParallel`` does, in place.

    Args:
        module: the module.
        ignored_modules: those of its modules whose parameters stay as they are.
        kwargs: further arguments of ``DistributedDataParallel``.
    Returns: the module itself.
    Raises:
        RuntimeError: it is replicated already, or is a wrapper.
    Source: torch.distributed._composable.replicate.
    Example:
        >>> from flambeau.distributed._composable import replicate
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> layer = replicate(torch.nn.Linear(2, 1))
        >>> layer(torch.ones(1, 2)).sum().backward()
        >>> layer.bias.grad
        tensor([1.])
        >>> torch.distributed.destroy_process_group()
    """
    if isinstance(module, DistributedDataParallel) or "_replicated" in module.__dict__:
        raise RuntimeError("Cannot apply `replicate()` on a Module already managed by `DistributedDataParallel` or `replicate()`")
    if kwargs.get("mixed_precision") is not None:
        raise NotImplementedError("replicate: mixed_precision is not supported; use DistributedDataParallel")
    ignored = {id(parameter) for each in ignored_modules or () for parameter in each.parameters()}
    if ignored:
        names = [name for name, parameter in module.named_parameters() if id(parameter) in ignored]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)
    ddp = DistributedDataParallel(module, **kwargs)
    module.__dict__["_replicated"] = ddp

    def before(_: Module, args: Any, given: Any) -> Any:
        ddp.__dict__["_began"] = perf_counter_ns()
        return ddp._before_forward(args, given)

    module.register_forward_pre_hook(before, with_kwargs=True)
    module.register_forward_hook(lambda _, args, output: ddp._after_forward(output, ddp.__dict__["_began"]))
    return module
