"""Models for videos: not supported."""

from __future__ import annotations

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise NotImplementedError(f"torchvision.models.video.{name} is not supported")
