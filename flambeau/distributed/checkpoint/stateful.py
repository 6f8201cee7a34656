"""Objects that give and take their own state."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """An object with ``state_dict`` and ``load_state_dict``: ``save`` and ``load`` call them.

    Source: torch.distributed.checkpoint.stateful.Stateful.
    Example:
        >>> from flambeau.distributed.checkpoint.stateful import Stateful
        >>> isinstance(nn.Linear(2, 2), Stateful)
        True
    """

    def state_dict(self) -> dict[str, Any]:
        """The state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state."""
        ...
