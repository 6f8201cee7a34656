"""Datasets, models, transforms and utilities for images: ``torchvision``'s names.

Nothing here is imported with ``import flambeau``, and each subpackage is imported when it is first used. Images are read and
written by Pillow (``pip install flambeau[vision]``).
"""

from __future__ import annotations

from typing import Any

from ..core import late as _late
from .version import __version__ as __version__

_late.adopt(__name__)

_SUBMODULES = ("datasets", "io", "models", "ops", "transforms", "tv_tensors", "utils")


def get_image_backend() -> str:
    """The library that reads images: Pillow.

    Returns:
        ``'PIL'``.
    Source: torchvision.get_image_backend.
    Example:
        >>> get_image_backend()
        'PIL'
    """
    return "PIL"


def set_image_backend(backend: str) -> None:
    """Choose the library that reads images; there is one.

    Args:
        backend: ``'PIL'``.
    Raises:
        ValueError: unknown library.
        NotImplementedError: accimage.
    Source: torchvision.set_image_backend.
    Example:
        >>> set_image_backend('PIL')
    """
    if backend not in ("PIL", "accimage"):
        raise ValueError(f"Invalid backend '{backend}'. Options are 'PIL' and 'accimage'")
    if backend == "accimage":
        raise NotImplementedError("set_image_backend: images are read by Pillow alone, not by accimage")


def get_video_backend() -> str:
    """The library that reads videos: PyAV.

    Returns:
        ``'pyav'``.
    Source: torchvision.get_video_backend.
    Example:
        >>> get_video_backend()
        'pyav'
    """
    return "pyav"


def set_video_backend(backend: str) -> None:
    """Choose the library that reads videos; there is one.

    Args:
        backend: ``'pyav'``.
    Raises:
        NotImplementedError: another one.
    Source: torchvision.set_video_backend.
    Example:
        >>> set_video_backend('pyav')
    """
    if backend != "pyav":
        raise NotImplementedError(f"set_video_backend: only 'pyav' is supported, got {backend!r}")


def _is_tracing() -> bool:
    """Whether operations are being traced: False. Source: torchvision._is_tracing."""
    return False


def disable_beta_transforms_warning() -> None:
    """There is no such warning any more. Source: torchvision.disable_beta_transforms_warning.

    Example:
        >>> disable_beta_transforms_warning()
    """


def __getattr__(name: str) -> Any:
    return _late.submodule(__name__, name, _SUBMODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
