"""Nested dictionaries and lists as one dictionary of dotted names, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from ...core.tensor import Tensor

Path = tuple[str | int, ...]


def _is_leaf(value: Any) -> bool:
    """Whether a value is stored as one: anything but a dictionary, and a list without tensors or dictionaries inside."""
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, (list, tuple)):
        return True
    return not any(isinstance(part, Tensor) or (isinstance(part, (Mapping, list, tuple)) and not _is_leaf(part)) for part in value)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Values with their places."""
    if path and _is_leaf(value):
        yield path, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from leaves(part, (*path, str(key)))
    else:
        for i, part in enumerate(value):
            yield from leaves(part, (*path, i))


def flatten(state_dict: Any) -> tuple[dict[str, Any], dict[str, Path]]:
    """Values by dotted names, and the places of the names.

    Raises:
        ValueError: two places have one name.
    """
    flat: dict[str, Any] = {}
    places: dict[str, Path] = {}
    for path, value in leaves(state_dict):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], places[name] = value, path
    return flat, places


def set_at(container: Any, path: Path, value: Any) -> None:
    """Put a value where its place is, into containers that are made as needed."""
    for key, following in pairwise(path):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(container, list):
            container.extend([None] * (int(key) + 1 - len(container)))
            if container[int(key)] is None:
                container[int(key)] = empty
            container = container[int(key)]
        else:
            found = _key_in(container, key)
            container = container[found] if found is not None else container.setdefault(key, empty)
    last = path[-1]
    if isinstance(container, list):
        container.extend([None] * (int(last) + 1 - len(container)))
        container[int(last)] = value
    else:
        found = _key_in(container, last)
        container[last if found is None else found] = value


def _key_in(container: Any, key: Any) -> Any:
    """The key of a dictionary that is written like this: numbers are keys of an optimizer's state."""
    if key in container:
        return key
    return next((other for other in container if str(other) == key), None) if isinstance(key, str) else None


def unflatten(flat: dict[str, Any], places: dict[str, Path]) -> dict[str, Any]:
    """Nested containers of values by dotted names."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        set_at(nested, places[name], value)
    return nested
