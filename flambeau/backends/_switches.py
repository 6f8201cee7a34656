"""Attributes of modules that check what they are set to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PRECISIONS = ("none", "ieee", "tf32", "bf16")


def switch(setter: str, value: bool) -> Any:
    """A property that holds a bool; ``setter`` names it in the error."""
    current = value

    def read(self: Any) -> bool:
        return current

    def write(self: Any, new: bool) -> None:
        nonlocal current
        if not isinstance(new, bool):
            raise RuntimeError(f"{setter} expects a bool, but got {type(new).__name__}")
        current = new

    return property(read, write)


def precision(value: str) -> Any:
    """A property that holds one of the names of float32 precisions."""
    current = value

    def read(self: Any) -> str:
        return current

    def write(self: Any, new: str) -> None:
        nonlocal current
        if new not in _PRECISIONS:
            raise RuntimeError(f"Unknown precision: {new}; expected one of {', '.join(_PRECISIONS)}")
        current = new

    return property(read, write)


def plain(value: Any) -> Any:
    """A property that holds anything."""
    current = value

    def read(self: Any) -> Any:
        return current

    def write(self: Any, new: Any) -> None:
        nonlocal current
        current = new

    return property(read, write)


def flags_of(module: Any, defaults: dict[str, Any]) -> Callable[..., Any]:
    """A module's ``flags(...)``: a context with other values; what it is not told takes the default."""

    @contextmanager
    def flags(*args: Any, **kwargs: Any) -> Iterator[None]:
        if len(args) > len(defaults):
            raise TypeError(f"flags() takes {len(defaults)} positional arguments but {len(args)} were given")
        unknown = kwargs.keys() - defaults.keys()
        if unknown:
            raise TypeError(f"flags() got an unexpected keyword argument '{min(unknown)}'")
        new = {**defaults, **dict(zip(defaults, args, strict=False)), **kwargs}
        old = {name: getattr(module, name) for name in new}
        try:
            for name, value in new.items():
                setattr(module, name, value)
            yield
        finally:
            for name, value in old.items():
                setattr(module, name, value)

    return flags
