"""Fake tensors: models built and run without values, on devices that need not be there. Source: torch._subclasses."""

from __future__ import annotations

from ..core import late as _late
from .fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode, UnsupportedFakeTensorException

__all__ = ["DynamicOutputShapeException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException"]
_late.adopt(__name__)
