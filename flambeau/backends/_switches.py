"""Attributes of modules that check what they are set to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PRECISIONS = ("none", "ieee", "tf32", "bf16")


def _held(value: Any, check: Callable[[Any], None]) -> Any:
    """A property that holds what ``check`` lets pass."""
    current = value

    def read(self: Any) -> Any:
        return current

    def write(self: Any, new: Any) -> None:
        nonlocal current
        check(new)
        current = new

    return property(read, write)


def switch(setter: str, value: bool) -> Any:
    """A property that holds a bool; ``setter`` names it in the error."""

    def check(new: Any) -> None:
        if not isinstance(new, bool):
            raise RuntimeError(f"{setter} expects a bool, but got {type(new).__name__}")

    return _held(value, check)


def precision(value: str) -> Any:
    """A property that holds one of the names of float32 precisions."""

    def check(new: Any) -> None:
        if new not in _PRECISIONS:
            raise RuntimeError(f"Unknown precision: {new}; expected one of {', '.join(_PRECISIONS)}")

    return _held(value, check)


def plain(value: Any) -> Any:
    """A property that holds anything."""
    return _held(value, lambda new: None)


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
