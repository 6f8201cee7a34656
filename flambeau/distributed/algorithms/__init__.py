"""Algorithms over groups of processes: uneven inputs, communication hooks, averages of models. Source: torch.distributed.algorithms."""

from __future__ import annotations

from typing import Any

from ...core import late as _late

_late.adopt(__name__)

__all__ = ["Join", "JoinHook", "Joinable"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import join

        return getattr(join, name)
    return _late.submodule(__name__, name, ("_checkpoint", "ddp_comm_hooks", "join", "model_averaging"))
