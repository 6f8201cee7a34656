"""Switches of the process that several parts of the package show, and the errors of devices."""

from __future__ import annotations


class AcceleratorError(RuntimeError):
    """An error that an accelerator reports.

    Source: torch.AcceleratorError.
    Example:
        >>> issubclass(torch.AcceleratorError, RuntimeError)
        True
    """


class OutOfMemoryError(RuntimeError):
    """No memory left on an accelerator.

    Source: torch.OutOfMemoryError.
    Example:
        >>> issubclass(torch.OutOfMemoryError, RuntimeError)
        True
    """


class Settings:
    """Settings of ``torch.set_...`` and ``torch.backends``.

    Attributes:
        attention: which implementations of attention may be used; see ``torch.nn.attention.sdpa_kernel``.
    """

    matmul_precision = "highest"
    deterministic = False
    warn_only = False
    warn_always = False

    def __init__(self) -> None:
        self.attention = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}


settings = Settings()
