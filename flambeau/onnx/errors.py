"""Errors of models that cannot be exported. Source: torch.onnx.errors."""

from __future__ import annotations

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError"]


class OnnxExporterWarning(UserWarning):
    """Something is exported otherwise than it was asked for. Source: torch.onnx.errors.OnnxExporterWarning.

    Example:
        >>> issubclass(torch.onnx.errors.OnnxExporterWarning, UserWarning)
        True
    """


class OnnxExporterError(RuntimeError):
    """Something cannot be exported.

    Source: torch.onnx.OnnxExporterError.
    Example:
        >>> issubclass(torch.onnx.OnnxExporterError, RuntimeError)
        True
    """


class UnsupportedOperatorError(OnnxExporterError):
    """An operation has no row in the table. Source: torch.onnx.errors.UnsupportedOperatorError.

    Args:
        name: of the operation: ``aten::add``. version: of the operator set. supported_version: the first that has it, where there is one.
        reason: why it has no row.
    Example:
        >>> print(torch.onnx.errors.UnsupportedOperatorError("aten::svd", 18, None))
        Exporting the operator 'aten::svd' to ONNX opset version 18 is not supported.
    """

    def __init__(self, name: str, version: int, supported_version: int | None, reason: str = ""):
        advice = (
            ""
            if supported_version is None
            else f" Support for this operator was added in version {supported_version}, try exporting with it."
        )
        super().__init__(
            f"Exporting the operator '{name}' to ONNX opset version {version} is not supported{reason and f': {reason}'}.{advice}"
        )


class SymbolicValueError(OnnxExporterError):
    """A value is not what an operation can be exported with. Source: torch.onnx.errors.SymbolicValueError.

    Args:
        msg: what is wrong. value: the value.
    Example:
        >>> print(torch.onnx.errors.SymbolicValueError("no counterpart", 3))
        no counterpart  [Caused by the value '3']
    """

    def __init__(self, msg: str, value: object):
        super().__init__(f"{msg}  [Caused by the value '{value}']")
