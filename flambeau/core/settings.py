"""Switches of the process that several parts of the package show; ``torch.set_...`` and ``torch.backends`` set them."""

from __future__ import annotations


class Settings:
    """What was last asked for; see ``torch.set_float32_matmul_precision`` and ``torch.use_deterministic_algorithms``."""

    matmul_precision = "highest"
    deterministic = False
    warn_only = False


settings = Settings()
