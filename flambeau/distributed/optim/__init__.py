"""Optimizers over processes. Source: torch.distributed.optim."""

from __future__ import annotations

import importlib
from typing import Any

from ...core import late as _late
from ...facades import unsupported as _unsupported
from .apply_optimizer_in_backward import (
    _apply_optimizer_in_backward as _apply_optimizer_in_backward,
    _get_in_backward_optimizers as _get_in_backward_optimizers,
)
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .utils import (
    _FunctionalAdadelta as _FunctionalAdadelta,
    _FunctionalAdagrad as _FunctionalAdagrad,
    _FunctionalAdam as _FunctionalAdam,
    _FunctionalAdamax as _FunctionalAdamax,
    _FunctionalAdamW as _FunctionalAdamW,
    _FunctionalRMSprop as _FunctionalRMSprop,
    _FunctionalRprop as _FunctionalRprop,
    _FunctionalSGD as _FunctionalSGD,
    as_functional_optim,
)
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

_late.adopt(__name__)

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer", "as_functional_optim"]

globals().update(_unsupported.names("distributed.optim", "", "_NamedOptimizer"))


def __getattr__(name: str) -> Any:
    if name == "DistributedOptimizer":  # remote calls are loaded when they are used
        return importlib.import_module(f"{__name__}.optimizer").DistributedOptimizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "DistributedOptimizer"})
