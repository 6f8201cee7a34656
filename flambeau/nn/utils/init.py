"""Modules whose parameters are not initialised."""

from __future__ import annotations

import inspect
from typing import Any

from ..module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module made on the meta device and moved to its own without values: its initialisation costs nothing.

    Args:
        module_cls: a class of modules that take ``device``, and whose ``__init__`` does nothing but make and initialise parameters.
        *args, **kwargs: for ``module_cls``; among them ``device``, where the module is created; the CPU by default.
    Returns:
        The module, whose parameters hold whatever was in memory.
    Raises:
        RuntimeError: ``module_cls`` is no class of modules, or takes no ``device``.
    Source: torch.nn.utils.skip_init.
    Example:
        >>> nn.utils.skip_init(nn.Linear, 5, 1)
        Linear(in_features=5, out_features=1, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    place = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=place)
