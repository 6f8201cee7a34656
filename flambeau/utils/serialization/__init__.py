"""Settings of saving and loading. Source: torch.utils.serialization."""

from . import config as config
