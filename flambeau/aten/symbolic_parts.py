"""Composites whose parts depend on sizes, for tensors whose sizes are symbolic: they are written with the sizes that programs see.

Elsewhere the sizes are those of the array, which is quicker, and which a tracer would take for constants.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.calls.registry import resolve
from ..core.calls.tables import Rules
from ..core.shape import wrap_dim
from .derivatives import call

PARTS = Rules("aten symbolic parts")


def _sizes(given: Any) -> list[Any]:
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else list(given)


def reshaped(input: Any, sizes: list[Any]) -> Any:
    return resolve("Tensor", "reshape")(input, sizes)


@PARTS("flatten")
def _flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    ndim = input.dim()
    if not ndim:
        return NotImplemented
    first, last = wrap_dim(start_dim, ndim), wrap_dim(end_dim, ndim)
    if first >= last:
        return input if first == last else NotImplemented
    sizes = list(input.shape)
    return reshaped(input, [*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :]])


@PARTS("unflatten")
def _unflatten(input: Any, dim: Any, sizes: Any) -> Any:
    if not isinstance(dim, int):
        return NotImplemented
    place = wrap_dim(dim, input.dim())
    have, parts = list(input.shape), list(sizes)
    if -1 in [size for size in parts if size.__class__ is int]:
        known = math.prod([size for size in parts if size.__class__ is not int or size != -1])
        parts = [have[place] // known if size.__class__ is int and size == -1 else size for size in parts]
    return call("view", input, [*have[:place], *parts, *have[place + 1 :]])


@PARTS("Tensor.expand")
def _expand(input: Any, sizes: Any, *rest: Any) -> Any:
    return call("expand", input, _sizes(sizes)) if sizes else NotImplemented


@PARTS("Tensor.expand_as")
def _expand_as(input: Any, other: Any) -> Any:
    return call("expand", input, list(other.shape))


@PARTS("Tensor.view_as")
def _view_as(input: Any, other: Any) -> Any:
    return call("view", input, list(other.shape))


@PARTS("Tensor.reshape_as")
def _reshape_as(input: Any, other: Any) -> Any:
    return reshaped(input, list(other.shape))


@PARTS("ravel")
def _ravel(input: Any) -> Any:
    return reshaped(input, [-1])


@PARTS("narrow")
def _narrow(input: Any, dim: int, start: Any, length: Any) -> Any:
    if not isinstance(start, int):
        return NotImplemented
    return call("slice.Tensor", input, dim, start, start + length)
