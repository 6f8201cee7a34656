"""Marks for NVIDIA's profilers, which need a CUDA device. Source: torch.cuda.nvtx."""

from __future__ import annotations

from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _missing(*args: Any, **kwargs: Any) -> Any:
    """Mark a place or a range in NVIDIA's profilers: not supported.

    Args:
        *args, **kwargs: what PyTorch takes.
    Returns:
        Nothing: it always raises.
    Raises:
        RuntimeError: always, as in a build of PyTorch without CUDA.
    Source: torch.cuda.nvtx.
    Example:
        >>> torch.cuda.nvtx.mark("here")
        Traceback (most recent call last):
        RuntimeError: NVTX functions not installed. Are you sure you have a CUDA build?
    """
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


mark = range = range_end = range_pop = range_push = range_start = _missing
