"""Marks for NVIDIA's profilers, which need a CUDA device. Source: torch.cuda.nvtx."""

from __future__ import annotations

from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _missing(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


mark = range = range_end = range_pop = range_push = range_start = _missing
