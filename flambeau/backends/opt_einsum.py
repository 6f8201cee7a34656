"""opt_einsum, which is not used: ``einsum`` contracts from left to right. Source: torch.backends.opt_einsum."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def is_available() -> bool:
    """Whether opt_einsum is used.

    Returns: False.
    Source: torch.backends.opt_einsum.is_available.
    Example:
        >>> torch.backends.opt_einsum.is_available()
        False
    """
    return False


def get_opt_einsum() -> Any:
    """The package opt_einsum.

    Returns: None, as it is not used.
    Source: torch.backends.opt_einsum.get_opt_einsum.
    Example:
        >>> torch.backends.opt_einsum.get_opt_einsum() is None
        True
    """
    return None


class _OptEinsum(ModuleType):
    @property
    def enabled(self) -> bool:
        return False

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if value:
            raise ValueError("torch.backends.opt_einsum: opt_einsum is not used, so it cannot be enabled")

    @property
    def strategy(self) -> str | None:
        return None

    @strategy.setter
    def strategy(self, value: str | None) -> None:
        raise ValueError(f"torch.backends.opt_einsum: opt_einsum is not used, so it has no strategy; got {value!r}")


_module: Any = sys.modules[__name__]
_module.__class__ = _OptEinsum
