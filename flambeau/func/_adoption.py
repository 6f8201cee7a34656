"""Tensors that become a level's where they stand, because values of the level are written into them; and what they were, when it ends."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from ..core.layout import strided
from ..core.shape import element_strides
from ..core.tensor import Tensor, ViewMeta
from ._levels import Wrapped


def extent_of(sharing: Iterable[Any], name: str, what: str) -> tuple[list[Any], int, int]:
    """Tensors that share memory, and the elements of it from the first to behind the last that any of them shows.

    Raises:
        NotImplementedError: memory that is read as several dtypes.
    """
    tensors = list(sharing)
    if any(each.layout is not strided or each.dtype is not tensors[0].dtype for each in tensors):
        raise NotImplementedError(f"{name}: memory that is read as several dtypes cannot take a {what} in place")
    start = min(each.storage_offset() for each in tensors)
    return tensors, start, max(start, *[each.storage_offset() + _extent(each) for each in tensors])


def _extent(tensor: Tensor) -> int:
    array = tensor._array
    return 1 + sum((n - 1) * step for n, step in zip(array.shape, element_strides(array), strict=True)) if array.size else 0


def take(tensor: Any, owner: Any, inner: Any, tangent: Any = None) -> None:
    """Make a tensor one of ``owner``'s, around ``inner``."""
    tensor.__class__ = Wrapped
    tensor._inner, tensor._owner, tensor._tangent = inner, owner, tangent
    tensor._array = (owner.wrap(inner) if tangent is None else owner.wrap(inner, tangent))._array


_SLOTS = ("_array", "_storage", "_node", "_view_of", "_requires_grad")


def swap(old: Tensor, new: Tensor) -> None:
    """Have ``new`` be what ``old`` is: array, history, and the place among those that share its memory."""
    for slot in _SLOTS:
        setattr(new, slot, getattr(old, slot))
    new._grad = getattr(old, "_grad", None)
    storage = new._storage
    if storage is None:
        return
    if storage._aliases:
        storage._forget(lambda tensor: tensor is old)
    for each in storage._live_aliases():
        base = each._view_of
        if base is old:
            each._view_of = new
        elif base.__class__ is ViewMeta and base.root is old:
            each._view_of = ViewMeta(new, base.creation_meta)
    storage._add_alias(new)


def release(value: Any, kind: type = Tensor) -> None:
    """Make a tensor of a level the plain tensor that it shows, without its tangent."""
    inner = value._inner
    for name in ("_inner", "_tangent", "_owner", "_is_repeated"):
        value.__dict__.pop(name, None)
    value.__class__ = kind
    if inner.__class__ is Wrapped:  # of a lower level: the two are the same from now on
        value.__class__ = Wrapped
        value.__dict__.update(inner.__dict__)
        value._array = inner._array
        adopted = getattr(inner._owner, "adopted", ())
        if any(reference() is inner for reference, _ in adopted):
            adopted.append((weakref.ref(value), kind))
    else:
        swap(inner, value)
