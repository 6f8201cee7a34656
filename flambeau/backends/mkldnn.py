"""oneDNN, which is not there; its switches are kept. Source: torch.backends.mkldnn."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ._switches import flags_of, plain, precision, switch


def is_available() -> bool:
    """Whether oneDNN is there.

    Returns: False.
    Source: torch.backends.mkldnn.is_available.
    Example:
        >>> torch.backends.mkldnn.is_available()
        False
    """
    return False


class _Mkldnn(ModuleType):
    enabled = switch("set_enabled_mkldnn", True)
    deterministic = switch("set_deterministic_mkldnn", False)
    allow_tf32 = plain(None)
    fp32_precision = precision("none")


_module: Any = sys.modules[__name__]
_module.__class__ = _Mkldnn
flags = flags_of(_module, {"enabled": False, "deterministic": False, "allow_tf32": True, "fp32_precision": "none"})
