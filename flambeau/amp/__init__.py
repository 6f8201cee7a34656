"""``torch.amp``: scaling of losses, and autocast as far as it is off. Computing in narrower dtypes by itself is not supported yet."""

from ..core import late as _late
from . import autocast_mode as autocast_mode
from . import grad_scaler as grad_scaler
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

_late.adopt(__name__)

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
