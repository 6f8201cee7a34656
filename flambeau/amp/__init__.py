"""``torch.amp``: mixed precision. Regions in which operations choose their dtype, and scaling of losses."""

from ..core import late as _late
from . import autocast_mode as autocast_mode, grad_scaler as grad_scaler
from .autocast_mode import (
    _enter_autocast as _enter_autocast,
    _exit_autocast as _exit_autocast,
    autocast,
    custom_bwd,
    custom_fwd,
    is_autocast_available,
)
from .grad_scaler import GradScaler

_late.adopt(__name__)

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
