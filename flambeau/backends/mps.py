"""Apple's Metal Performance Shaders, which are not there. Source: torch.backends.mps."""

from __future__ import annotations

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_built() -> bool:
    """Whether the package was built with MPS.

    Returns: False.
    Source: torch.backends.mps.is_built.
    Example:
        >>> torch.backends.mps.is_built()
        False
    """
    return False


def is_available() -> bool:
    """Whether an MPS device can be used.

    Returns: False.
    Source: torch.backends.mps.is_available.
    Example:
        >>> torch.backends.mps.is_available()
        False
    """
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether the system is a macOS of at least this version.

    Args:
        major, minor: the version.
    Returns: a bool.
    Source: torch.backends.mps.is_macos_or_newer.
    Example:
        >>> torch.backends.mps.is_macos_or_newer(99, 0)
        False
    """
    import platform

    release = platform.mac_ver()[0]
    return bool(release) and tuple(int(part) for part in release.split(".")[:2]) >= (major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether the system is macOS 13 or newer: ``is_macos_or_newer(13, minor)``.

    Args:
        minor: the least minor version of macOS 13.
    Returns: a bool.
    Source: torch.backends.mps.is_macos13_or_newer.
    Example:
        >>> torch.backends.mps.is_macos13_or_newer() == torch.backends.mps.is_macos_or_newer(13, 0)
        True
    """
    return is_macos_or_newer(13, minor)
