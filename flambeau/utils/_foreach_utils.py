"""``torch.utils._foreach_utils``: what optimizers ask before they hand lists of tensors to the ``_foreach_`` functions."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor

__all__ = ["_device_has_foreach_support", "_group_tensors_by_device_and_dtype", "_has_foreach_support"]

_FOREACH_DEVICES = ("cuda", "xpu", "mtia", "privateuseone")
_FUSED_DEVICES = ("mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone")


def _get_foreach_kernels_supported_devices() -> list[str]:
    return list(_FOREACH_DEVICES)


def _get_fused_kernels_supported_devices() -> list[str]:
    return list(_FUSED_DEVICES)


def _device_has_foreach_support(device: Any) -> bool:
    """Whether the ``_foreach_`` functions take tensors of a device."""
    return device.type in (*_FOREACH_DEVICES, "cpu")


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    """Whether the ``_foreach_`` functions take these tensors."""
    return _device_has_foreach_support(device) and all(tensor is None or type(tensor) is Tensor for tensor in tensors)


def _group_tensors_by_device_and_dtype(tensorlistlist: list[list[Any]], with_indices: bool = False) -> dict[Any, Any]:
    """Parallel lists of tensors, parted by device and dtype of the tensors in the first list.

    Args:
        tensorlistlist: lists of one length; elements of all but the first may be None.
        with_indices: whether to tell the places of the tensors in their lists.
    Returns:
        For each pair of a device and a dtype a pair: the lists' parts, and their indices (an empty list unless ``with_indices``).
    Raises:
        RuntimeError: lists of several lengths, or None in the first.
    """
    if len({len(tensors) for tensors in tensorlistlist}) > 1:
        raise RuntimeError(f"tensors of one length are expected, got lists of {[len(tensors) for tensors in tensorlistlist]}")
    groups: dict[Any, Any] = {}
    for i, row in enumerate(zip(*tensorlistlist, strict=True)):
        if row[0] is None:
            raise RuntimeError("tensors of the first list are expected to be defined, got None")
        lists, indices = groups.setdefault((row[0].device, row[0].dtype), ([[] for _ in tensorlistlist], []))
        for part, tensor in zip(lists, row, strict=True):
            part.append(tensor)
        if with_indices:
            indices.append(i)
    return groups
