"""Settings of ``save`` and ``load``, which hold for the whole process. Source: torch.utils.serialization.config."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from ...serialization.options import load_options, save_options

__all__ = ["load", "patch", "save"]

load, save = load_options, save_options
_GROUPS = {"load": load, "save": save}


class patch(ContextDecorator):
    """Other settings inside a ``with`` block, or during a call of the function below this decorator.

    Args:
        arg1: name of a setting, such as ``"load.mmap"``, or a dict of names and values.
        arg2: the value, where ``arg1`` is one name.
        kwargs: further settings.

    Example:
        >>> from flambeau.utils.serialization import config
        >>> with config.patch("load.mmap", True):
        ...     config.load.mmap
        True

    Source: torch.utils.serialization.config.patch.
    """

    def __init__(self, arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> None:
        given = arg1 if isinstance(arg1, dict) else {} if arg1 is None else {arg1: arg2}
        self.changes = {**given, **kwargs}

    def __enter__(self) -> None:
        self._before = {name: self._get(name) for name in self.changes}
        self._set(self.changes)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._set(self._before)

    def _get(self, name: str) -> Any:
        group, _, setting = name.partition(".")
        if group not in _GROUPS or not hasattr(_GROUPS[group], setting):
            raise AttributeError(f"torch.utils.serialization.config.{name} does not exist")
        return getattr(_GROUPS[group], setting)

    def _set(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            group, _, setting = name.partition(".")
            setattr(_GROUPS[group], setting, value)
