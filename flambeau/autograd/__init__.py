"""Automatic differentiation: recording, the backward pass, and what users build with them."""

from __future__ import annotations

from .anomaly import detect_anomaly, set_detect_anomaly
from .api import backward, grad
from .function import Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
