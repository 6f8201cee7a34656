"""cuDNN, which is not there; its switches are kept. Source: torch.backends.cudnn."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ._switches import flags_of, plain, precision, switch


def is_available() -> bool:
    """Whether cuDNN is there.

    Returns: False.
    Source: torch.backends.cudnn.is_available.
    Example:
        >>> torch.backends.cudnn.is_available()
        False
    """
    return False


def version() -> int | None:
    """Version of cuDNN.

    Returns: None, as it is not there.
    Source: torch.backends.cudnn.version.
    Example:
        >>> torch.backends.cudnn.version() is None
        True
    """
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN could compute with a tensor.

    Args:
        tensor: any tensor.
    Returns: False.
    Source: torch.backends.cudnn.is_acceptable.
    Example:
        >>> torch.backends.cudnn.is_acceptable(torch.ones(2))
        False
    """
    return False


class _Convolutions:
    """Switches of convolutions only."""

    fp32_precision = precision("tf32")


class _Recurrent:
    """Switches of recurrent layers only."""

    fp32_precision = precision("tf32")


class _Cudnn(ModuleType):
    enabled = switch("set_enabled_cudnn", True)
    benchmark = switch("set_benchmark_cudnn", False)
    deterministic = switch("set_deterministic_cudnn", False)
    allow_tf32 = switch("set_allow_tf32_cublas", True)
    benchmark_limit = plain(None)
    fp32_precision = precision("none")


conv, rnn = _Convolutions(), _Recurrent()
_module: Any = sys.modules[__name__]
_module.__class__ = _Cudnn
_DEFAULTS = {
    "enabled": False,
    "benchmark": False,
    "benchmark_limit": 10,
    "deterministic": False,
    "allow_tf32": True,
    "fp32_precision": "none",
}
flags = flags_of(_module, _DEFAULTS)
