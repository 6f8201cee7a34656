"""Helpers for tests: comparing results within a dtype's tolerance, and making tensors to test with. Source: torch.testing."""

from __future__ import annotations

from ..core import late as _late
from ._comparison import assert_allclose, assert_close
from ._creation import make_tensor

_late.adopt(__name__)

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
