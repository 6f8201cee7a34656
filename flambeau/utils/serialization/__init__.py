"""Settings of saving and loading. Source: torch.utils.serialization."""

from ...core import late as _late
from . import config as config

_late.adopt(__name__)
