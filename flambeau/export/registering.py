"""Data classes as inputs and results of exported programs. Source: torch.export.register_dataclass."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..utils import _pytree as pytree


def register_dataclass(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Have exported programs take and return objects of a data class, whose fields are its parts.

    Args:
        cls: the class. serialized_type_name: its name in files; files with it cannot be read by a program that has not registered it.
    Raises:
        AssertionError: no data class.
    Source: torch.export.register_dataclass.
    Example:
        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class Pair:
        ...     a: torch.Tensor
        ...     b: torch.Tensor
        >>> torch.export.register_dataclass(Pair)
        >>> torch.utils._pytree.tree_leaves(Pair(1, 2))
        [1, 2]
    """
    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    names = [field.name for field in dataclasses.fields(cls)]
    pytree.register_pytree_node(
        cls,
        lambda obj: ([getattr(obj, name) for name in names], None),
        lambda values, context: cls(**dict(zip(names, values, strict=True))),
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=lambda obj: ([(pytree.GetAttrKey(name), getattr(obj, name)) for name in names], None),
    )
