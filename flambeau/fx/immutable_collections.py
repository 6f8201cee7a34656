"""Lists and dicts among a node's arguments, which refuse writes: the nodes in them list their users.

Source: torch.fx.immutable_collections.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]


def _refused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"'{type(self).__name__}' object does not support mutation. If you are attempting to modify the kwargs or args of a torch.fx.Node "
        "object,\ninstead create a new copy of it and assign the copy to the node:\n\n    new_args = ...  # copy and mutate args\n"
        "    node.args = new_args\n"
    )


class immutable_list(list):
    """A list that refuses writes with TypeError. Source: torch.fx.immutable_collections.immutable_list.

    Args:
        iterable: its elements.
    Example:
        >>> torch.fx.immutable_collections.immutable_list([1, 2])
        [1, 2]
    """

    append = clear = extend = insert = pop = remove = reverse = sort = _refused
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refused

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (list(self),)


class immutable_dict(dict):
    """A dict that refuses writes with TypeError. Source: torch.fx.immutable_collections.immutable_dict.

    Args:
        mapping: its entries.
    Example:
        >>> torch.fx.immutable_collections.immutable_dict(a=1)
        {'a': 1}
    """

    clear = pop = popitem = setdefault = update = _refused
    __delitem__ = __ior__ = __setitem__ = _refused

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (dict(self),)


_pytree.register_pytree_node(immutable_list, lambda x: (list(x), None), lambda values, _: immutable_list(values))
_pytree.register_pytree_node(
    immutable_dict, lambda x: (list(x.values()), list(x)), lambda values, keys: immutable_dict(zip(keys, values, strict=True))
)
