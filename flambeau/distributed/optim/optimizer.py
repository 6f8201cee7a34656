"""Optimizers of parameters that lie with several workers. Source: torch.distributed.optim.optimizer."""

from __future__ import annotations

import threading
from typing import Any

from ...facades.futures import wait_all
from .. import autograd, rpc

__all__ = ["DistributedOptimizer"]


class _LocalOptimizer:
    """The part of a worker that owns parameters."""

    _stepping = threading.Lock()  # of several trainers that step at once: ``.grad`` is one trainer's at a time

    def __init__(self, optim_cls: type, params_rref: list[Any], *args: Any, **kwargs: Any) -> None:
        self.params = [rref.local_value() for rref in params_rref]
        self.optim = optim_cls(self.params, *args, **kwargs)

    def step(self, context_id: int) -> None:
        """A step by a context's gradients."""
        gradients = autograd.get_gradients(context_id)
        with self._stepping:
            before = [param.grad for param in self.params]
            for param in self.params:
                param.grad = gradients.get(param)
            try:
                self.optim.step()
            finally:
                for param, grad in zip(self.params, before, strict=True):
                    param.grad = grad


def _make(optim_cls: type, params_rref: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return rpc.RRef(_LocalOptimizer(optim_cls, params_rref, *args, **kwargs))


def _step(optim_rref: Any, context_id: int) -> None:
    optim_rref.local_value().step(context_id)


class DistributedOptimizer:
    """Steps on parameters where they are, by the gradients of a context of ``torch.distributed.autograd``.

    Args:
        optimizer_class: class of the optimizers that the owners of parameters make.
        params_rref: references to the parameters.
        args, kwargs: further arguments of the class.
    Source: torch.distributed.optim.DistributedOptimizer.
    Example:
        >>> import tempfile
        >>> rpc = torch.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> weight = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.distributed.optim.DistributedOptimizer(torch.optim.SGD, [rpc.RRef(weight)], lr=0.25)
        >>> with torch.distributed.autograd.context() as context_id:
        ...     torch.distributed.autograd.backward(context_id, [(2 * weight).sum()])
        ...     optimizer.step(context_id)
        >>> weight
        tensor([0.5000, 0.5000], requires_grad=True)
        >>> rpc.shutdown()
    """

    def __init__(self, optimizer_class: type, params_rref: list[Any], *args: Any, **kwargs: Any) -> None:
        by_owner: dict[Any, list[Any]] = {}
        for rref in params_rref:
            by_owner.setdefault(rref.owner(), []).append(rref)
        self.is_functional_optim = False
        made = [rpc.rpc_async(owner, _make, (optimizer_class, owned, args, kwargs)) for owner, owned in by_owner.items()]
        self.remote_optimizers = wait_all(made)

    def step(self, context_id: int) -> None:
        """A step on every owner, by the gradients that it has in a context.

        Args:
            context_id: the context's number.
        Raises:
            RuntimeError: no such context, or what an owner raised.
        """
        autograd._is_valid_context(context_id)
        wait_all([rpc.rpc_async(each.owner(), _step, (each, context_id)) for each in self.remote_optimizers])
