"""``torch._dynamo.exc``: errors of the compiler's. Source: torch._dynamo.exc."""

from __future__ import annotations

from ...compiler.backends import BackendCompilerFailed, InvalidBackend
from ...compiler.compiled import FailOnRecompileLimitHit, TorchDynamoException, Unsupported

__all__ = [
    "BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError", "InvalidBackend", "TorchDynamoException",
    "TorchRuntimeError", "Unsupported", "UserError",
]  # fmt: skip


class InternalTorchDynamoError(TorchDynamoException):
    """An error inside of the compiler; never raised here. Source: torch._dynamo.exc.InternalTorchDynamoError."""


class TorchRuntimeError(TorchDynamoException):
    """An error of an operation while a program is traced; here operations raise their own. Source: torch._dynamo.exc.TorchRuntimeError."""


class UserError(TorchDynamoException):
    """A program that cannot be exported as it is asked for. Source: torch._dynamo.exc.UserError."""
