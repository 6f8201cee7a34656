"""Optimizers that exchange their steps, not gradients. Source: horovod.torch.DistributedOptimizer with ``op=Adasum``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...autograd.grad_mode import no_grad
from .operations import Adasum, _allreduce_async, synchronize

__all__ = ["Stepwise"]


class Stepwise:
    """Part of an optimizer that steps by its own gradients, and then by the Adasum of all processes' steps."""

    _compression: Any
    param_groups: list[dict[str, Any]]

    def _begin(self, compression: Any) -> None:
        self._compression = compression

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """A step, and the exchange of all parameters' steps: those without a gradient here may have one elsewhere."""
        params = [param for group in self.param_groups for param in group["params"] if param.requires_grad]
        before = [param.detach().clone() for param in params]
        result = super().step(closure)  # type: ignore[misc]
        with no_grad():
            steps = [param.detach() - start for param, start in zip(params, before, strict=True)]
            under_way = [_allreduce_async(step, None, None, Adasum, self._compression, 1.0, 1.0) for step in steps]
            for param, start, handle in zip(params, before, under_way, strict=True):
                param.copy_(start + synchronize(handle))
        return result

    def synchronize(self) -> None:
        """Nothing: what is exchanged are steps, after ``step``."""

    def skip_synchronize(self) -> NoReturn:
        """Raises ``AssertionError``: no step goes without its exchange."""
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")
