"""An optimizer that averages models after its steps. Source: torch.distributed.optim.post_localSGD_optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...optim.optimizer import Optimizer
from ..algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps as another optimizer does, then averages the parameters over processes whenever an averager says so.

    Args:
        optim: the other optimizer.
        averager: when, and over which processes.
    Source: torch.distributed.optim.PostLocalSGDOptimizer; Lin et al. 2018.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> inner = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)
        >>> optimizer = dist.optim.PostLocalSGDOptimizer(inner, PeriodicModelAverager(period=4, warmup_steps=100))
        >>> optimizer.step()
        >>> optimizer.state_dict()["step"]
        1
        >>> dist.destroy_process_group()
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """State of the other optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The other optimizer's state, with the averager's step as ``step``."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state over; the averager begins again where it has no ``step``."""
        self.optim.load_state_dict({name: value for name, value in state_dict.items() if name != "step"})
        self.param_groups = self.optim.param_groups
        if "step" not in state_dict:
            warnings.warn("Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.", stacklevel=2)
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the other optimizer, and an average if it is time."""
        result = self.optim.step(closure) if closure is not None else self.optim.step()
        self.averager.average_parameters(params=self.param_groups)
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.optim.add_param_group(param_group)
