"""Whether programs are compiled."""

from __future__ import annotations

__all__ = ["is_dynamo_supported", "is_inductor_supported"]


def is_dynamo_supported() -> bool:
    """Whether programs are compiled: True. Source: torch._dynamo.is_dynamo_supported."""
    return True


def is_inductor_supported() -> bool:
    """Whether programs are compiled: True. Source: torch._dynamo.is_inductor_supported."""
    return True
