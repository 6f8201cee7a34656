"""``torch.cuda.amp``: older spellings of ``torch.amp`` for CUDA."""

from __future__ import annotations

import functools
from typing import Any

from .. import amp
from ..amp._by_device import classes, warn
from ..core.dtype import float16

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]

autocast, GradScaler = classes("cuda", float16)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """``torch.amp.custom_fwd(fwd, device_type='cuda')``; warns.

    Args:
        fwd: the ``forward`` of an ``autograd.Function``; a decorator is returned where it is None.
        cast_inputs: the dtype that floating-point CUDA tensors are cast to; None leaves them.
    Returns:
        The function that is to be ``forward``.
    Source: torch.cuda.amp.custom_fwd.
    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     forward = torch.cuda.amp.custom_fwd(lambda ctx, x: x * 2)
    """
    warn("cuda.amp.custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return functools.partial(amp.custom_fwd, device_type="cuda", cast_inputs=cast_inputs)(fwd)


def custom_bwd(bwd: Any) -> Any:
    """``torch.amp.custom_bwd(bwd, device_type='cuda')``; warns.

    Args:
        bwd: the ``backward`` of an ``autograd.Function``.
    Returns:
        The function that is to be ``backward``.
    Source: torch.cuda.amp.custom_bwd.
    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     backward = torch.cuda.amp.custom_bwd(lambda ctx, grad: grad * 2)
    """
    warn("cuda.amp.custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """Whether there is no CUDA device to scale gradients for.

    Returns:
        True on machines without one.
    Source: torch.cuda.amp.common.amp_definitely_not_available.
    Example:
        >>> torch.cuda.amp.amp_definitely_not_available() != torch.cuda.is_available()
        True
    """
    from . import is_available

    return not is_available()
