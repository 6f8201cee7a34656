"""Names that packages import from ``torch._dynamo.eval_frame``."""

from __future__ import annotations

from ..compiler.eager import OptimizedModule
from . import is_dynamo_supported, is_inductor_supported

__all__ = ["OptimizedModule", "is_dynamo_supported", "is_inductor_supported"]
