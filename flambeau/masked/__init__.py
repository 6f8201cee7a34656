"""``torch.masked``: reductions and normalisations with masks, and tensors that carry a mask."""

from __future__ import annotations

from ..core import late as _late
from . import _functions, _ops as _ops
from ._functions import *  # noqa: F403
from ._tensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

_late.adopt(__name__)

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
__all__ += _functions.__all__
