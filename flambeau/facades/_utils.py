"""Functions that files, plain pickles and packages of PyTorch's call, under the name of PyTorch's module. Source: torch._utils."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..core.exceptions import ExceptionWrapper, KeyErrorMessage
from ..core.protocols.rebuild import (
    _rebuild_meta_tensor_no_storage,
    _rebuild_parameter,
    _rebuild_parameter_with_state,
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    _rebuild_wrapper_subclass,
)
from ..core.tensor import Tensor

__all__ = [
    "ExceptionWrapper", "KeyErrorMessage", "_element_size", "_flatten_dense_tensors", "_flatten_sparse_tensors", "_import_dotted_name",
    "_rebuild_meta_tensor_no_storage", "_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_tensor", "_rebuild_tensor_v2",
    "_rebuild_tensor_v3", "_rebuild_wrapper_subclass", "_reorder_tensors_as", "_take_tensors", "_unflatten_dense_tensors",
    "_get_available_device_type", "_get_device_module", "_unflatten_sparse_tensors", "classproperty", "is_compiling",
]  # fmt: skip


# -- many tensors in one --------------------------------------------------------------------------------------------------------------
def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of dense tensors of one dtype, one tensor after the other. Source: torch._utils._flatten_dense_tensors."""
    from ..ops import cat

    return cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of ``flat`` of the sizes of ``tensors``. Source: torch._utils._unflatten_dense_tensors."""
    parts, start = [], 0
    for tensor in tensors:
        parts.append(flat.narrow(0, start, tensor.numel()).view(tensor.shape) if tensor.numel() else flat.new_empty(tensor.shape))
        start += tensor.numel()
    return tuple(parts)


def _flatten_sparse_tensors(tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The indices of COO tensors in one tensor, and their values in another. Source: torch._utils._flatten_sparse_tensors."""
    indices, values = zip(*[(tensor._indices(), tensor._values()) for tensor in tensors], strict=True)
    return _flatten_dense_tensors(indices), _flatten_dense_tensors(values)


def _unflatten_sparse_tensors(flat: tuple[Tensor, Tensor], tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """COO tensors of the sizes of ``tensors`` over flattened indices and values. Source: torch._utils._unflatten_sparse_tensors."""
    indices = _unflatten_dense_tensors(flat[0], [tensor._indices() for tensor in tensors])
    values = _unflatten_dense_tensors(flat[1], [tensor._values() for tensor in tensors])
    from ..ops import resolve

    make = resolve("torch", "sparse_coo_tensor")
    return tuple([make(i, v, tensor.shape) for tensor, i, v in zip(tensors, indices, values, strict=True)])


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of the same type whose elements take at most ``size_limit`` bytes together; a larger one stands alone.

    Source: torch._utils._take_tensors.
    """
    waiting: dict[str, tuple[list[Tensor], int]] = {}
    for tensor in tensors:
        if tensor.is_sparse:
            size = sum(part.numel() * part.element_size() for part in (tensor._indices(), tensor._values()))
        else:
            size = tensor.numel() * tensor.element_size()
        group, total = waiting.get(tensor.type(), ([], 0))
        if group and total + size > size_limit:
            yield group
            group, total = [], 0
        waiting[tensor.type()] = [*group, tensor], total + size
    for group, _ in waiting.values():
        if group:
            yield group


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """``tensors``, which keep their order within each type, with the types in the order of ``ordered_tensors``.

    Source: torch._utils._reorder_tensors_as.
    """
    by_type: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    iterators = {kind: iter(group) for kind, group in by_type.items()}
    return tuple([next(iterators[tensor.type()]) for tensor in ordered_tensors])


# -- small helpers --------------------------------------------------------------------------------------------------------------------
def _import_dotted_name(name: str) -> Any:
    """The object called ``package.module.name``. Source: torch._utils._import_dotted_name."""
    first, *rest = name.split(".")
    return functools.reduce(getattr, rest, importlib.import_module(first))


def _element_size(dtype: Any) -> int:
    """Bytes of one element. Source: torch._utils._element_size."""
    return int(dtype.itemsize)


def _get_available_device_type() -> str | None:
    """The kind of accelerator that there is: ``"cuda"``, a registered one's name, or None.

    Source: torch._utils._get_available_device_type.
    """
    from .. import accelerator

    found = accelerator.current_accelerator(check_available=True)
    return None if found is None else found.type


def _get_device_module(device_type: str) -> Any:
    """The module of a kind of device. Source: torch._utils._get_device_module.

    Raises:
        RuntimeError: there is none.
    """
    module = getattr(importlib.import_module("..", __package__), device_type, None)
    if module is None:
        raise RuntimeError(f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'.")
    return module


def is_compiling() -> bool:
    """Whether the program is being compiled or exported. Source: torch._utils.is_compiling."""
    from ..compiler import is_compiling

    return is_compiling()


class classproperty:
    """A property of a class. Source: torch._utils.classproperty."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.func(owner)
