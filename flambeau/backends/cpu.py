"""The processor. Source: torch.backends.cpu."""

from __future__ import annotations

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The widest vector instructions that NumPy uses on this processor.

    Returns: 'AVX512', 'AVX2', 'SVE256' or 'DEFAULT'.
    Source: torch.backends.cpu.get_cpu_capability.
    Example:
        >>> torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "SVE256", "DEFAULT")
        True
    """
    from numpy._core._multiarray_umath import __cpu_features__ as features

    names = {"AVX512_SKX": "AVX512", "AVX2": "AVX2", "SVE": "SVE256"}
    return next((name for feature, name in names.items() if features.get(feature)), "DEFAULT")
