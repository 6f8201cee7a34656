"""Nested dictionaries and lists as one dictionary of dotted names, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from ...core.tensor import Tensor

Path = tuple[str | int, ...]
_HOLES = 1 << 16  # places of a list that have no name: empty containers inside of it


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
    """Put a value where ``flatten`` found its place."""
    for key in path[:-1]:
        container = container[_key_in(container, key)]
    container[_key_in(container, path[-1])] = value


def _key_in(container: Any, key: Any) -> Any:
    """The key of a container that is written like this: numbers are keys of an optimizer's state."""
    if not isinstance(container, Mapping):
        return int(key)
    if key in container or not isinstance(key, str):
        return key
    if key.isdecimal() and str(int(key)) == key and int(key) in container:
        return int(key)
    return next((other for other in container if str(other) == key), key)


def unflatten(flat: dict[str, Any], places: dict[str, Path]) -> dict[str, Any]:
    """Nested containers of values by dotted names.

    Raises:
        ValueError: a place in a list lies far behind all that the names could fill.
    """
    nested: dict[str, Any] = {}
    most = len(places) + _HOLES
    for name, value in flat.items():
        container: Any = nested
        for key, following in pairwise(places[name]):
            container = _made(container, key, [] if isinstance(following, int) else {}, most)
        last = places[name][-1]
        if isinstance(container, list):
            _make_room(container, int(last), most)
            container[int(last)] = value
        else:
            container[last] = value
    return nested


def _made(container: Any, key: Any, empty: Any, most: int) -> Any:
    """The container at a key, which is ``empty`` if there is none."""
    if not isinstance(container, list):
        return container.setdefault(key, empty)
    _make_room(container, int(key), most)
    if container[int(key)] is None:
        container[int(key)] = empty
    return container[int(key)]


def _make_room(container: list[Any], index: int, most: int) -> None:
    if not 0 <= index < most:
        raise ValueError(f"the checkpoint has a value at place {index} of a list, but no more than {most} places")
    container.extend([None] * (index + 1 - len(container)))
