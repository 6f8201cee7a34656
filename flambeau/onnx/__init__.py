"""``torch.onnx``: whether something is being exported. Exporting is not supported yet."""

from __future__ import annotations

from ..core import late as _late
from ..facades import unsupported

_late.adopt(__name__)

__all__ = ["OnnxExporterError", "is_in_onnx_export"]


class OnnxExporterError(RuntimeError):
    """Something cannot be exported.

    Source: torch.onnx.OnnxExporterError.
    Example:
        >>> issubclass(torch.onnx.OnnxExporterError, RuntimeError)
        True
    """


def is_in_onnx_export() -> bool:
    """Whether a model is being exported.

    Returns: False.
    Source: torch.onnx.is_in_onnx_export.
    Example:
        >>> torch.onnx.is_in_onnx_export()
        False
    """
    return False


globals().update(
    unsupported.names("onnx", "export register_custom_op_symbolic unregister_custom_op_symbolic", "ONNXProgram ExportableModule")
)
