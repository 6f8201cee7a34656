"""Switches of the process that several parts of the package show, and the errors of devices."""

from __future__ import annotations


class AcceleratorError(RuntimeError):
    """An error that an accelerator reports. Source: torch.AcceleratorError."""


class OutOfMemoryError(RuntimeError):
    """No memory left on an accelerator. Source: torch.OutOfMemoryError."""


class Settings:
    """What was last asked for by ``torch.set_...`` and ``torch.backends``."""

    matmul_precision = "highest"
    deterministic = False
    warn_only = False


settings = Settings()
