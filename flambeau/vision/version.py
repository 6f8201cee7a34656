"""Facts of a build under the name ``torchvision.version``: there is none to compile."""

from __future__ import annotations

from ..version import vision

__version__ = vision
git_version: str | None = None
cuda: str | None = None
