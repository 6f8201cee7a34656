"""The class of tensors under the name of PyTorch's module, as programs and plain pickles import it. Source: torch._tensor."""

from __future__ import annotations

from .core.protocols.rebuild import _rebuild_from_type_v2
from .core.tensor import Tensor

__all__ = ["Tensor", "_rebuild_from_type_v2"]
