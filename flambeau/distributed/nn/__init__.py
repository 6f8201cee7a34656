"""``torch.distributed.nn``: operations over processes that have derivatives."""

from __future__ import annotations

from ...core import late as _late
from . import functional as functional
from .functional import *  # noqa: F403

_late.adopt(__name__)
