"""``torch.distributed.nn``: operations over processes that have derivatives. None is supported yet."""

from __future__ import annotations

from . import functional as functional
from .functional import *  # noqa: F403
