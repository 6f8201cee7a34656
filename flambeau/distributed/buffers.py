"""Tensors as the contiguous arrays that are sent, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import layout
from ..core.arrays.kinds import kind_of
from ..core.tensor import Tensor

__all__ = ["Incoming", "check_tensor", "check_tensors", "contiguous", "written"]


def check_tensor(value: Any, name: str) -> None:
    """TypeError unless the argument is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got {type(value)} instead."
        )


def check_tensors(values: Any, name: str) -> None:
    """TypeError unless the argument is a list of tensors."""
    if not isinstance(values, list | tuple):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got {type(values)} "
            "instead."
        )
    if not all(isinstance(each, Tensor) for each in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} with elements of type {[type(each) for each in values]}."
        )


def contiguous(tensor: Tensor) -> np.ndarray:
    """The values as a contiguous array of the host: the tensor's own where it is one."""
    array = tensor._array
    if array.__class__ is not np.ndarray:
        if tensor.layout is not layout.strided:
            raise NotImplementedError(f"collectives of tensors with layout {tensor.layout} are not supported: make them dense first")
        array = kind_of(array).to_host(array)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def written(tensor: Tensor) -> None:
    """Count a write to the tensor's memory."""
    if tensor._storage is not None:
        tensor._storage._bump()


def put(tensor: Tensor, array: np.ndarray) -> None:
    """Values of a contiguous array into a tensor of as many elements."""
    target = tensor._array
    shaped = array.reshape(target.shape)
    if target.__class__ is np.ndarray:
        target[...] = shaped
    else:
        target[...] = kind_of(target).from_host(shaped, tensor.device)


class Incoming:
    """Contiguous memory for what comes into tensors, one after the other.

    Args:
        tensors: what is written.
        dtype: the elements'.
    Attributes:
        array: flat; the first tensor's own memory where it is the only one and contiguous.
    """

    __slots__ = ("array", "direct", "tensors")

    def __init__(self, tensors: Sequence[Tensor], dtype: np.dtype) -> None:
        self.tensors = tensors
        only = tensors[0]._array if len(tensors) == 1 else None
        self.direct = only.__class__ is np.ndarray and only is not None and only.flags.c_contiguous
        if only is not None and self.direct:
            self.array = only.reshape(-1)
        else:
            self.array = np.empty(sum(tensor._array.size for tensor in tensors), dtype)

    def finish(self) -> None:
        """Put into the tensors what has come."""
        at = 0
        for tensor in self.tensors:
            if not self.direct:
                size = tensor._array.size
                put(tensor, self.array[at : at + size])
                at += size
            written(tensor)


def joined(tensors: Sequence[Tensor]) -> np.ndarray:
    """The values of several tensors, one after the other."""
    if len(tensors) == 1:
        return contiguous(tensors[0]).reshape(-1)
    return np.concatenate([contiguous(tensor).reshape(-1) for tensor in tensors])


def check_same_dtype(operation: str, name: str, tensors: Sequence[Tensor], like: Tensor) -> None:
    """RuntimeError unless all have one dtype."""
    for i, tensor in enumerate(tensors):
        if tensor._array.dtype != like._array.dtype:
            raise RuntimeError(f"{operation}: expected {name} of dtype {like.dtype} as the other tensors, got {tensor.dtype} at index {i}")


def print_of(tensors: Sequence[Tensor], *others: Any) -> Callable[[], str]:
    """Words that must be the same on all ranks, made when it is asked for."""
    return lambda: " ".join([", ".join(f"{list(tensor.shape)} {str(tensor.dtype)[6:]}" for tensor in tensors), *map(str, others)]).strip()
