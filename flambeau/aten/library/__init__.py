"""Parts of ``torch.library``: calls of operations that programs define, their derivatives, and checks of them."""

from __future__ import annotations

from ...core import late as _late

_late.adopt(__name__)
