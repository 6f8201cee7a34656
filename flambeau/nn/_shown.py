"""Arguments that layers print only where they are unusual."""

from __future__ import annotations

from typing import Any


def unusual(module: Any, **usual: Any) -> list[str]:
    """``name=value`` of each attribute that is not as usual: another object than None, True or False, unequal to other values."""

    def differs(value: Any, default: Any) -> bool:
        return value is not default if default is None or isinstance(default, bool) else value != default

    return [f"{name}={getattr(module, name)}" for name, default in usual.items() if differs(getattr(module, name), default)]
