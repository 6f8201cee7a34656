"""Calls as PyTorch's dispatcher is called with them, with all rules about them: what tracers import."""

from __future__ import annotations

from . import whole_layers, whole_shapes  # noqa: F401  # they fill ``WHOLE``
from .whole import Done as Done, as_whole as as_whole, function_as_whole as function_as_whole
