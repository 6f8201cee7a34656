"""Questions about tensors and settings of the process: dtypes, result types, thread counts, finfo and iinfo."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np

from ..core import dtype as dtypes
from ..core.arrays import native
from ..core.calls.annotations import Tensor
from ..core.calls.promotion import common_dtype
from ..core.calls.registry import composite, method, other_names
from ..core.layout import memory_format, order_of_dims


@composite(method=False)
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating-point one. Source: torch.is_floating_point."""
    return input.is_floating_point()


@composite(method=False)
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex. Source: torch.is_complex."""
    return input.is_complex()


@composite(method=False)
def get_device(input: Tensor) -> int:
    """The index of the device on which the tensor is; -1 for the CPU. Source: torch.get_device."""
    return input.get_device()


@composite(method=False)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape. Source: torch.is_same_size."""
    return input.shape == other.shape


@composite(method=False)
def is_conj(input: Tensor) -> bool:
    """Whether conjugation is pending: never here. Source: torch.is_conj."""
    return input.is_conj()


@composite(method=False)
def is_neg(input: Tensor) -> bool:
    """Whether negation is pending: never here. Source: torch.is_neg."""
    return input.is_neg()


@composite(method=False)
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative values. Source: torch.is_signed."""
    return input.is_signed()


@composite(method=False)
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode. Source: torch.is_inference."""
    return input.is_inference()


@composite()
def is_distributed(input: Tensor) -> bool:
    """Whether the tensor lies on several machines: False. Source: torch.is_distributed."""
    return False


@composite()
def is_nonzero(input: Tensor) -> bool:
    """Whether a one-element tensor is not zero.

    Raises:
        RuntimeError: not exactly one element.
    Source: torch.is_nonzero.
    """
    if input._array.size != 1:
        kind = "no values" if not input._array.size else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    return bool(input._array.item())


@composite(method=False)
def result_type(tensor: Any, other: Any) -> dtypes.dtype:
    """The dtype that an operation on both (tensors or numbers) computes in. Source: torch.result_type."""
    return common_dtype((tensor, other))


other_names("result_type", scalar="other", scalar1="tensor", scalar2="other")


_interop_threads = native.Threads.count


@composite(method=False)
def get_num_threads() -> int:
    """Number of threads used inside operations. Source: torch.get_num_threads."""
    return native.Threads.count


@composite(method=False)
def set_num_threads(int: int) -> None:
    """Set the number of threads used inside operations.

    It holds for the native kernels and for NumPy's BLAS where that is OpenBLAS. At the start it is the number of cores that the process
    may use, or ``OMP_NUM_THREADS``. Results do not depend on it.

    Raises:
        RuntimeError: a number below 1.
    Source: torch.set_num_threads.
    """
    if int < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    native.set_threads(int)


@composite(method=False)
def get_num_interop_threads() -> int:
    """Number of threads used between operations. Source: torch.get_num_interop_threads."""
    return _interop_threads


@composite(method=False)
def set_num_interop_threads(int: int) -> None:
    """Set the number of threads used between operations.

    Raises:
        RuntimeError: a number below 1.
    Source: torch.set_num_interop_threads.
    """
    global _interop_threads
    if int < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _interop_threads = int


@method()
def dim_order(input: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions in the order in which they lie in memory, the one with the largest stride first.

    Args:
        ambiguity_check: raise where there is more than one such order; or memory formats, of which exactly one must fit.
    Raises:
        RuntimeError: the order is not unique. TypeError: neither a bool nor memory formats.
    Source: torch.Tensor.dim_order.
    """
    formats = ambiguity_check if isinstance(ambiguity_check, (list, tuple)) else []
    if not isinstance(ambiguity_check, bool) and (not formats or not all(isinstance(form, memory_format) for form in formats)):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    strides = input.stride()
    if formats:
        unique = sum(input.is_contiguous(memory_format=form) for form in formats) == 1
    else:
        unique = not ambiguity_check or (1 not in input.shape and not any(a == b for a, b in itertools.pairwise(strides)))
    if not unique:
        raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given memory formats.")
    return tuple(order_of_dims(tuple(input.shape), [strides])[::-1])


@method()
def const_data_ptr(input: Tensor) -> int:
    """Address of the first element, for reading; 0 for an empty tensor. Source: torch.Tensor.const_data_ptr."""
    return input.data_ptr()


@method()
def reinforce(input: Tensor, reward: Any) -> Tensor:
    """Removed from PyTorch, too: raises RuntimeError. Source: torch.Tensor.reinforce."""
    raise RuntimeError("reinforce() was removed.\nUse torch.distributions instead: log_prob of the action, times the reward.")


class finfo:
    """Limits of a floating-point dtype.

    Args:
        type: a floating-point or complex dtype; the default dtype when missing.
    Attributes:
        bits, eps, max, min, tiny, smallest_normal, resolution, dtype.
    Raises:
        TypeError: a dtype of integers.
    Source: torch.finfo.
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: dtypes.dtype | None = None):
        given = dtypes.get_default_dtype() if type is None else type
        if not isinstance(given, dtypes.dtype) or given.category < dtypes.FLOATING:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{given}'")
        real = given.to_real()
        facts = ml_dtypes.finfo(real.numpy)
        self.dtype = real.name
        self.bits = real.itemsize * 8
        self.eps, self.max, self.min = float(facts.eps), float(facts.max), float(facts.min)
        self.tiny = self.smallest_normal = float(facts.smallest_normal)
        self.resolution = float(f"1e-{int(facts.nmant * math.log10(2))}")  # decimal digits that every number keeps

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:
    """Limits of an integer dtype.

    Args:
        type: an integer dtype.
    Attributes:
        bits, max, min, dtype.
    Raises:
        TypeError: another dtype.
    Source: torch.iinfo.
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: dtypes.dtype):
        if not isinstance(type, dtypes.dtype) or type.category != dtypes.INTEGER:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'")
        if type.numpy is None:
            raise NotImplementedError(f"\"dtype\" not implemented for '{type.legacy}'")
        facts = np.iinfo(type.numpy)
        self.dtype, self.bits, self.max, self.min = type.name, type.itemsize * 8, int(facts.max), int(facts.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)
