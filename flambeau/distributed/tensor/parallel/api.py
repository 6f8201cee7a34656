"""``parallelize_module``: a plan that says how each submodule is divided."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch
from typing import Any

from ....nn import Module
from .._api import _mesh_of
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module, device_mesh: Any = None, parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None, *,
    src_data_rank: int | None = 0
) -> Module:  # fmt: skip
    """Divide a module, or submodules of it, among processes.

    Args:
        module: changed in place.
        device_mesh: a row of processes; all of them when None.
        parallelize_plan: a style, or styles by names of submodules, in which ``*`` and ``?`` stand for parts of a name between dots.
        src_data_rank: the process whose values count; with None each takes its own.
    Returns:
        ``module``.
    Raises:
        TypeError: a plan of another type.
        ValueError: a mesh of more than one dimension.
    Source: torch.distributed.tensor.parallel.parallelize_module.
    Example:
        >>> from flambeau.distributed.tensor.parallel import parallelize_module
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     parallelize_module(nn.ReLU(), "a mesh")
        ReLU()
    """
    mesh = _mesh_of(device_mesh)
    if parallelize_plan is None:
        warnings.warn("No parallelize_plan is provided and auto-parallel is not supported, the module is left as it is.", stacklevel=2)
        return module
    if mesh.ndim != 1:
        raise ValueError(f"Tensor Parallel only accepts a 1D DeviceMesh, but found {mesh.ndim}D! Pass one of its dimensions, mesh['tp']")
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(f"Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, {type(parallelize_plan)} found!")
    for path, style in parallelize_plan.items():
        found = _named(module, path.split(".") if path else [])
        if not found:
            warnings.warn(f"Parallelize plan key '{path}' could not be resolved: no submodule matches it.", stacklevel=2)
        for part in found:
            parallelize_module(part, mesh, style, src_data_rank=src_data_rank)
    return module


def _named(module: Module, pattern: list[str]) -> list[Module]:
    """Submodules whose names fit, part by part."""
    if not pattern:
        return [module]
    return [found for name, child in module.named_children() if fnmatch(name, pattern[0]) for found in _named(child, pattern[1:])]
