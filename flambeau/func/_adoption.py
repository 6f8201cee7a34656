"""Tensors that become a level's where they stand, because values of the level are written into them; and what they were, when it ends."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from ..core.layout import strided
from ..core.tape.history import storage_extent
from ..core.tensor import Tensor, ViewMeta
from ._levels import Wrapped, core_of, note_view


def extent_of(sharing: Iterable[Any], name: str, what: str) -> tuple[list[Any], int, int]:
    """Tensors that share memory, and the elements of it from the first to behind the last that any of them shows.

    Raises:
        NotImplementedError: memory that is read as several dtypes.
    """
    tensors = list(sharing)
    if any(each.layout is not strided or each.dtype is not tensors[0].dtype for each in tensors):
        raise NotImplementedError(f"{name}: memory that is read as several dtypes cannot take a {what} in place")
    start = min(each.storage_offset() for each in tensors)
    return tensors, start, max(start, *[each.storage_offset() + storage_extent(each) for each in tensors])


def family_of(tensor: Any) -> list[tuple[Any, Any, Any]]:
    """The tensors of a level that share ``tensor``'s memory, each with what it is a view of, and the view; None for the first.

    Raises:
        NotImplementedError: some of the memory's tensors are not known.
    """
    root = tensor
    while "_viewed" in root.__dict__:
        root = root._viewed[0]
    family: list[tuple[Any, Any, Any]] = [(root, None, None)]
    for member, _, _ in family:  # grows meanwhile
        for reference in member.__dict__.get("_views", ()):
            each = reference()
            if each is not None and each.__class__ is Wrapped and each._owner is root._owner:
                family.append((each, member, each._viewed[1]))
    cores = {id(core_of(member)) for member, _, _ in family}
    core = core_of(root)
    if core._view_of is not None or (core._storage is not None and any(id(each) not in cores for each in core._storage._live_aliases())):
        raise NotImplementedError(
            "a tensor of an outer transform that shows another one's memory cannot be written in place here; write into a clone of it"
        )
    return family


def put_inside(member: Any, inside: dict[int, Any], parent: Any, view: Any) -> Any:
    """A tensor of a level that is what ``member`` is, which becomes a higher level's; its views are among ``inside``, by members."""
    inner = object.__new__(Wrapped)
    inner.__dict__.update(member.__dict__)
    inner._array = member._array
    for name in ("_viewed", "_views"):
        inner.__dict__.pop(name, None)
    if parent is not None:
        note_view(inner, inside[id(parent)], view)
    inside[id(member)] = inner
    return inner


def take(tensor: Any, owner: Any, inner: Any, tangent: Any = None) -> None:
    """Make a tensor one of ``owner``'s, around ``inner``."""
    tensor.__class__ = Wrapped
    tensor._inner, tensor._owner, tensor._tangent, tensor._is_repeated = inner, owner, tangent, False
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
    if inner.__class__ is not Wrapped:
        for name in ("_viewed", "_views"):
            value.__dict__.pop(name, None)
    if inner.__class__ is Wrapped:  # of a lower level: the two are the same from now on
        value.__class__ = Wrapped
        value.__dict__.update({name: each for name, each in inner.__dict__.items() if name not in ("_viewed", "_views")})
        value._array = inner._array
        adopted: Any = getattr(inner._owner, "adopted", ())
        if any(reference() is inner for reference, _ in adopted):
            adopted.append((weakref.ref(value), kind))
    else:
        swap(inner, value)
