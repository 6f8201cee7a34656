"""Flattening of structures by a specification that generated code carries. Source: torch.fx._pytree."""

from __future__ import annotations

from typing import Any

from ..utils import _pytree as pytree

__all__ = ["tree_flatten_spec"]


def tree_flatten_spec(pytree_: Any, spec: Any) -> list[Any]:
    """The leaves of a structure that is as ``spec`` says: what stands at a leaf of it is one, whatever it is."""
    if isinstance(spec, pytree.LeafSpec):
        return [pytree_]
    if spec.type not in (tuple, list):
        return spec.flatten_up_to(pytree_)
    leaves: list[Any] = []
    for structure, part in zip(pytree_, spec.children_specs, strict=True):
        if isinstance(structure, list) and part.type is tuple:  # generated code lists the arguments
            structure = tuple(structure)
        leaves += [structure] if isinstance(part, pytree.LeafSpec) else part.flatten_up_to(structure)
    return leaves
