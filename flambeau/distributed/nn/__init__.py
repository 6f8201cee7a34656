"""``torch.distributed.nn``: operations over processes that have derivatives, and modules of other processes."""

from __future__ import annotations

import importlib
from typing import Any

from ...core import late as _late
from . import functional as functional
from .functional import *  # noqa: F403

_late.adopt(__name__)


def __getattr__(name: str) -> Any:
    if name == "RemoteModule":  # remote calls are loaded when they are used
        return importlib.import_module(f"{__name__}.api.remote_module").RemoteModule
    if name == "api":
        return importlib.import_module(f"{__name__}.api")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "RemoteModule"})
