"""Apple's Metal Performance Shaders, which are not there. Source: torch.backends.mps."""

from __future__ import annotations

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_built() -> bool:
    """Whether the package was built with MPS: False. Source: torch.backends.mps.is_built."""
    return False


def is_available() -> bool:
    """Whether an MPS device can be used: False. Source: torch.backends.mps.is_available."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether the system is a macOS of at least this version.

    Source: torch.backends.mps.is_macos_or_newer.
    """
    import platform

    release = platform.mac_ver()[0]
    return bool(release) and tuple(int(part) for part in release.split(".")[:2]) >= (major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """``is_macos_or_newer(13, minor)``. Source: torch.backends.mps.is_macos13_or_newer."""
    return is_macos_or_newer(13, minor)
