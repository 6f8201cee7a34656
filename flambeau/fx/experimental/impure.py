"""The nodes of a graph of kernels that have to stay, although nothing uses what they return."""

from __future__ import annotations

from typing import Any

from ...aten.overloads import OpOverload
from ...aten.tags import Tag
from ..node import Node

_CHECKS = frozenset(("aten::_assert_scalar", "aten::_assert_tensor_metadata", "aten::_assert_async.msg", "aten::_assert_async"))


def is_impure(node: Node) -> bool:
    """Whether a node writes to an argument, draws numbers, checks something, returns nothing, is an input, the output or no kernel's."""
    if node.op in ("placeholder", "output", "call_module"):
        return True
    target: Any = node.target
    if isinstance(target, OpOverload):
        if target.name() in _CHECKS or target._schema.is_mutable:
            return True
        return Tag.nondeterministic_seeded in target.tags or not target._schema.returns
    return bool(getattr(target, "is_higher_order", False))
