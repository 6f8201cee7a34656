"""Names of PyTorch's that a module has and that do nothing yet: calling one raises ``NotImplementedError`` with its name.

Packages import them for a check of types or for a path that they do not take. The compatibility table lists them.
"""

from __future__ import annotations

from typing import Any, NoReturn


def function(module: str, name: str, reason: str = "") -> Any:
    """A function that raises when it is called, with the reason, if it is not just that it is not there yet."""
    message = f"torch.{module}.{name} is not supported" + (f": {reason}" if reason else " yet")

    def unsupported(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(message)

    unsupported.__name__ = unsupported.__qualname__ = name
    unsupported.__module__ = f"torch.{module}"
    unsupported.__doc__ = f"Not supported: raises ``NotImplementedError``. Source: torch.{module}.{name}."
    unsupported.is_unsupported = True  # type: ignore[attr-defined]
    return unsupported


def kind(module: str, name: str, *bases: type) -> type:
    """A class of which nothing is an instance."""

    def __new__(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"torch.{module}.{cls.__name__} is not supported yet")

    doc = f"Not supported yet: making one raises ``NotImplementedError``. Source: torch.{module}.{name}."
    return type(name, bases, {"__new__": __new__, "__doc__": doc, "__module__": f"torch.{module}", "is_unsupported": True})


def names(module: str, functions: str = "", kinds: str = "") -> dict[str, Any]:
    """Unsupported names of a module, to be put into its namespace."""
    return {name: function(module, name) for name in functions.split()} | {name: kind(module, name) for name in kinds.split()}
