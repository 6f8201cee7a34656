"""``Parameter`` and ``Buffer``: tensors that register themselves when assigned to a module's attribute."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Parameter, Tensor

__all__ = ["Buffer", "Parameter"]


class _BufferMeta(type(Tensor)):  # type: ignore[misc]
    """A buffer is an ordinary tensor with a mark, so that tensor subclasses can be buffers too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that registers itself as a buffer when assigned to a Module's attribute.

    Args:
        data: values; shared, not copied. An empty tensor when None.
        persistent: whether the module's ``state_dict`` holds it.
    Source: torch.nn.Buffer.
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        values = ops.empty(0) if data is None else data
        buffer = values.detach().requires_grad_(values.requires_grad)
        buffer._is_buffer = True
        buffer.persistent = persistent
        return buffer
