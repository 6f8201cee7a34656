"""Whether anything is compiled."""

from __future__ import annotations

__all__ = ["is_dynamo_supported", "is_inductor_supported"]


def is_dynamo_supported() -> bool:
    """Whether anything is compiled: False. Source: torch._dynamo.is_dynamo_supported."""
    return False


def is_inductor_supported() -> bool:
    """Whether anything is compiled: False. Source: torch._dynamo.is_inductor_supported."""
    return False
