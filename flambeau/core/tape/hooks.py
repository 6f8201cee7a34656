"""The handle that every hook registration returns, shared by tensors, modules and optimizers."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ..calls.interruption import pass_on
from ..state import changes

# Every living leaf that ever got a hook after accumulation, by its id; the engine looks for them in its graphs.
hooked_leaves: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class RemovableHandle:
    """Removes one hook from the dictionary it was registered in.

    The handle refers weakly to the dictionary where that is possible (``OrderedDict``), so that keeping it does not keep the hooks
    of a dead object alive; a plain ``dict`` is held.

    Args:
        hooks_dict: the dictionary of hooks, keyed by handle id.
        extra_dict: further dictionary, or list of them, keyed by the same id, to be cleaned up together.

    Example:
        >>> from collections import OrderedDict
        >>> hooks = OrderedDict()
        >>> with RemovableHandle(hooks) as handle:
        ...     hooks[handle.id] = print
        >>> len(hooks)
        0

    Source: torch.utils.hooks.RemovableHandle.
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = _reference(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        self.extra_dict_ref: tuple[Any, ...] = ()
        if isinstance(extra_dict, list):
            self.extra_dict_ref = tuple(_reference(extra) for extra in extra_dict)
        elif extra_dict is not None:
            self.extra_dict_ref = (_reference(extra_dict),)

    @classmethod
    def add(cls, hooks_dict: Any, hook: Any, prepend: bool = False, flags: Sequence[Any] = ()) -> RemovableHandle:
        """Put ``hook`` at the end of ``hooks_dict``, or at its beginning, and its id into each of ``flags``; return its handle."""
        handle = cls(hooks_dict, extra_dict=list(flags) or None)
        hooks_dict[handle.id] = hook
        changes.count += 1
        for flag in flags:
            flag[handle.id] = True
        if prepend:
            hooks_dict.move_to_end(handle.id, last=False)
        return handle

    def remove(self) -> None:
        """Remove the hook; doing it twice, or after the owner died, is harmless."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)
        changes.count += 1

    def __getstate__(self) -> tuple[Any, ...]:
        if self.extra_dict_ref:
            return self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref)
        return self.hooks_dict_ref(), self.id

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, *extra = state
        # A dead owner was pickled as None: point at a throw-away dictionary, so that remove() stays harmless.
        self.hooks_dict_ref = _reference(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(_reference(OrderedDict() if item is None else item) for item in (extra[0] if extra else ()))
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def _reference(hooks: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(hooks)
    except TypeError as error:  # a plain dict takes no weak references
        pass_on(error)
        return lambda: hooks
