"""Automatic differentiation: recording, the backward pass, and what users build with them."""

from __future__ import annotations

from typing import Any

from ..core import late as _late
from ..core.profiling import is_profiled as _profiler_enabled  # noqa: F401 - by PyTorch's name
from .anomaly import detect_anomaly, set_detect_anomaly
from .api import backward, grad
from .function import Function, NestedIOFunction
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .gradcheck import gradcheck, gradgradcheck
from .variable import Variable

__all__ = [
    "Function", "NestedIOFunction", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "functional", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("DeviceType", "ProfilerActivity", "kineto_available"):
        return getattr(_late.from_above("profiler"), name)
    return _late.submodule(__name__, name, ("forward_ad", "functional", "graph", "profiler", "profiler_util"))
