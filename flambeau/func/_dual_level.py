"""The level of ``torch.autograd.forward_ad``: a ``Dual`` whose tensors live on as plain ones when it ends."""

from __future__ import annotations

import weakref
from typing import Any

from ..core.protocols.printing import text_of
from ..core.tensor import Tensor, storage_of
from ._adoption import release
from ._dual import Dual, _strides, check_tangent
from ._levels import Wrapped
from ._reverse import wrapped_at


class DualLevel(Dual):
    """One ``dual_level`` that is open."""

    is_dual_level = shows_tape = True
    holds_in_inference = False

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}

    def _wrapped(self, inner: Any, tangent: Any, drop: int) -> Any:
        made = super()._wrapped(inner, tangent, drop)
        key, kept = id(made), self.made
        kept[key] = weakref.ref(made, lambda reference: kept.pop(key, None))
        return made

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        for reference in list(self.made.values()):
            value = reference()
            if value is not None and value.__class__ is Wrapped and value._owner is self:
                release(value)
        self.made.clear()

    def shown(self, value: Any) -> str:
        inner, tangent = value._inner, f"tangent={value._tangent!r}"
        return f"{inner!r}, {tangent}" if inner.__class__ is Wrapped else text_of(inner, None, tangent)

    def plain_ones(self, tensor: Any) -> list[Any]:
        inside = {
            id(value._inner) for reference in list(self.made.values()) if (value := reference()) is not None and value.__class__ is Wrapped
        }
        return [each for each in storage_of(tensor)._live_aliases() if id(each) not in inside]

    def dual(self, tensor: Any, tangent: Any) -> Any:
        """``make_dual``."""
        check_tangent(tensor, tangent)
        if self._found(tensor) is not None:
            raise RuntimeError(
                "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
            )
        if self._found(tangent) is not None:
            raise RuntimeError("Setting a forward grad that itself has a forward gradient at the same level0 is not supported.")
        if tangent._array.strides != tensor._array.strides and tangent._array.size > 1:
            tangent = tangent.new_empty_strided(tuple(tensor._array.shape), _strides(tensor)).copy_(tangent)
        return wrapped_at(self, tensor.view_as(tensor), tangent.view_as(tangent))

    def unpacked(self, tensor: Any) -> tuple[Any, Any]:
        """``unpack_dual``."""
        if self._found(tensor) is None:
            return tensor, None
        if self.has(tensor):
            return tensor._inner.view_as(tensor._inner), tensor._tangent
        parts = tensor._owner.rewrapped(tensor, lambda each: self.unpacked(each)[0])
        return parts, tensor._owner.rewrapped(tensor, lambda each: self.unpacked(each)[1])

    def _found(self, tensor: Any) -> Any:
        """The part of a tensor that is this level's; None where there is none."""
        while isinstance(tensor, Tensor) and tensor.__class__ is Wrapped:
            if tensor._owner is self:
                return tensor
            tensor = tensor._inner
        return None
