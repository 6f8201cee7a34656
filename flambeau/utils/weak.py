"""Weak references to tensors and dictionaries of them, by identity: two tensors are never asked whether they are equal.

Source: torch.utils.weak.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any
from weakref import ref as WeakRef

from ..core.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that is equal to others of the same object, and whose hash is the object's identity.

    Args:
        key: the object.
        callback: called with the reference when the object goes.
    Source: torch.utils.weak.WeakIdRef.
    Example:
        >>> x = torch.ones(2)
        >>> WeakIdRef(x) == WeakIdRef(x), WeakIdRef(x) == WeakIdRef(torch.ones(2))
        (True, False)
    """

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:  # ``weakref.ref`` itself takes both when it is made
        self._id = id(key)

    def __call__(self) -> Any:
        return super().__call__()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        if mine is not None and isinstance(other, weakref.ref) and (theirs := other()) is not None:
            return mine is theirs
        return self is other


class _WeakHashRef(WeakIdRef):
    """A weak reference with the hash of the object, which outlives it, and equal to those of equal objects."""

    __slots__ = ()

    def __init__(self, key: Any, callback: Any = None) -> None:
        self._id = hash(key)

    def __eq__(self, other: object) -> bool:
        mine = self()
        if mine is not None and isinstance(other, weakref.ref) and (theirs := other()) is not None:
            return bool(mine == theirs)
        return self is other

    __hash__ = WeakIdRef.__hash__


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary whose keys are objects by identity; an entry goes with its key.

    Args:
        dict: what it begins with.
        ref_type: the class of the references, ``WeakIdRef`` or one like it.
    Source: torch.utils.weak.WeakIdKeyDictionary.
    Example:
        >>> x = torch.ones(2)
        >>> notes = WeakIdKeyDictionary({x: "weights"})
        >>> notes[x], torch.ones(2) in notes
        ('weights', False)
    """

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        entries = weakref.ref(self)

        def forget(reference: Any) -> None:
            mine = entries()
            if mine is not None:
                mine.data.pop(reference, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what cannot be referred to weakly
            return False

    def __len__(self) -> int:
        return sum(reference() is not None for reference in list(self.data))

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            if (key := reference()) is not None:
                yield key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[Any]:
        """The references."""
        return list(self.data)

    def popitem(self) -> tuple[Any, Any]:
        while True:
            reference, value = self.data.popitem()
            if (key := reference()) is not None:
                return key, value

    def copy(self) -> WeakIdKeyDictionary:
        return type(self)(self, ref_type=self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        from copy import deepcopy

        new = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            new[key] = deepcopy(value, memo)
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MutableMapping):
            return NotImplemented
        return {id(key): value for key, value in self.items()} == {id(key): value for key, value in other.items()}

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, MutableMapping):
            return NotImplemented
        new = self.copy()
        new.update(other)
        return new

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor: calling it gives the tensor, or None when there is none any more.

    Args:
        tensor: the tensor.
    Raises:
        AssertionError: no tensor.
    Source: torch.utils.weak.TensorWeakRef.
    Example:
        >>> x = torch.ones(2)
        >>> TensorWeakRef(x)() is x
        True
    """

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}")
        self.ref = WeakRef(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()
