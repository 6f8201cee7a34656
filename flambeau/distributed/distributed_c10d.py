"""``torch.distributed.distributed_c10d``: names of ``torch.distributed`` under the module where PyTorch has them."""

from __future__ import annotations

import importlib
from typing import Any

from .groups import default_group, default_pg_timeout as default_pg_timeout, state

_PACKAGE: Any = importlib.import_module(__package__ or "")
_get_default_group = default_group


def _get_default_store() -> Any:
    """The store of the group of all processes."""
    return default_group().get_group_store()


def _get_default_timeout(backend: Any = None) -> Any:
    """The time that an operation may take where nothing else is said."""
    return default_pg_timeout


def _get_pg_default_device(group: Any = None) -> Any:
    """The device of the group's tensors."""
    from ..core.device import device

    return device("cpu")


def _get_group_size(group: Any) -> int:
    """The number of processes in the group."""
    return _PACKAGE.get_world_size(group)


def _get_object_coll_device(group: Any = None) -> str:
    """The device to which pickled objects are copied."""
    return "cpu"


class _World:
    """PyTorch's record of the groups, as far as programs read it. Source: torch.distributed.distributed_c10d._world."""

    @property
    def default_pg(self) -> Any:
        return state.default

    @property
    def pg_map(self) -> dict[Any, Any]:
        return {group: (group.backend, group.get_group_store()) for group in state.named.values()}

    @property
    def pg_names(self) -> dict[Any, str]:
        return {group: name for name, group in state.named.items()}

    @property
    def pg_group_ranks(self) -> dict[Any, dict[int, int]]:
        return {group: dict(group._place) for group in state.named.values()}

    @property
    def group_count(self) -> int:
        return state.made


_world = _World()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_PACKAGE, name)
