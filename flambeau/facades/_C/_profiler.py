"""Names of profiles that PyTorch defines in C++. Source: torch._C._profiler."""

from __future__ import annotations

from ...profiler.profiler import ProfilerActivity, _ExperimentalConfig as _ExperimentalConfig

__all__ = ["ProfilerActivity"]
