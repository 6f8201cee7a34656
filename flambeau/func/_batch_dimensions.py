"""Helpers of ``vmap``'s interpreter and its rules: dimensions of an example behind the batch, and the examples' numbers as an index."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..ops import ranges
from ._levels import NoValues


def dynamic(name: str) -> NoValues:
    """The error for an operation whose result's shape depends on values."""
    return NoValues(f"vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{name}.")


def behind(dim: Any, rank: int) -> Any:
    """A dimension, or several, of an example of ``rank`` dimensions, counted behind the batch; None where that is none."""
    if dim.__class__ is int:
        return dim % rank + 1 if -rank <= dim < rank else None
    if dim.__class__ is tuple or dim.__class__ is list:
        found = [behind(each, rank) for each in dim]
        return None if not found or None in found else found
    return None


def new_index(batch: Any, rank: int) -> Tensor:
    """The examples' numbers, as an index that broadcasts against index tensors of ``rank`` dimensions."""
    return ranges.arange(batch.size).reshape(batch.size, *(1,) * rank)
