"""AdamW under its own module path."""

from .adam import AdamW

__all__ = ["AdamW"]
