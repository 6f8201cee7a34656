"""Questions about tensors and settings of the process: dtypes, result types, thread counts, finfo and iinfo."""

from __future__ import annotations

import itertools
import math
import numbers
from typing import Any

import ml_dtypes
import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.threads import Threads, set_threads
from ..core.calls.annotations import Tensor
from ..core.calls.promotion import common_dtype
from ..core.calls.registry import composite, method, other_names
from ..core.layout import memory_format, order_of_dims
from ..core.state import thread


@composite(method=False)
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating-point one; complex dtypes are none.

    Args:
        input: any shape and dtype.
    Returns:
        A Python bool.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.is_floating_point.
    Example:
        >>> torch.is_floating_point(torch.tensor(1.0)), torch.is_floating_point(torch.tensor([1, 2j]))
        (True, False)
    """
    return input.is_floating_point()


@composite(method=False)
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex.

    Args:
        input: any shape and dtype.
    Returns:
        A Python bool.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.is_complex.
    Example:
        >>> torch.is_complex(torch.tensor([1, 2j])), torch.is_complex(torch.tensor(1.0))
        (True, False)
    """
    return input.is_complex()


@composite(method=False)
def get_device(input: Tensor) -> int:
    """The index of the device on which the tensor is; -1 for the CPU.

    Args:
        input: any shape and dtype.
    Returns:
        A Python int.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.get_device.
    Example:
        >>> torch.get_device(torch.ones(2))
        -1
    """
    return input.get_device()


@composite(method=False)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape.

    Args:
        input, other: any shapes and dtypes.
    Returns:
        A Python bool.
    Raises:
        TypeError: an operand that is no tensor.
    Source: torch.is_same_size.
    Example:
        >>> torch.is_same_size(torch.ones(2, 1), torch.zeros(2, 1)), torch.is_same_size(torch.ones(2), torch.ones(2, 1))
        (True, False)
    """
    return input.shape == other.shape


@composite(method=False)
def is_conj(input: Tensor) -> bool:
    """Whether conjugation is pending: never here, where it is computed at once.

    Args:
        input: any shape and dtype.
    Returns:
        False.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.is_conj.
    Example:
        >>> torch.is_conj(torch.tensor([1 + 2j]))
        False
    """
    return input.is_conj()


@composite(method=False)
def is_neg(input: Tensor) -> bool:
    """Whether negation is pending: never here, where it is computed at once.

    Args:
        input: any shape and dtype.
    Returns:
        False.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.is_neg.
    Example:
        >>> torch.is_neg(-torch.ones(2))
        False
    """
    return input.is_neg()


@composite(method=False)
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative values: all but bool and the unsigned integers.

    Args:
        input: any shape and dtype.
    Returns:
        A Python bool.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.is_signed.
    Example:
        >>> torch.is_signed(torch.tensor([1.0])), torch.is_signed(torch.tensor([1], dtype=torch.uint8))
        (True, False)
    """
    return input.is_signed()


@composite(method=False)
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode.

    Args:
        input: any shape and dtype.
    Returns:
        A Python bool.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.is_inference.
    Example:
        >>> with torch.inference_mode():
        ...     x = torch.ones(2)
        >>> torch.is_inference(x), torch.is_inference(torch.ones(2))
        (True, False)
    """
    return input.is_inference()


@composite()
def is_distributed(input: Tensor) -> bool:
    """Whether the tensor lies on several machines.

    Args:
        input: any shape and dtype.
    Returns:
        False.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Source: torch.is_distributed.
    Example:
        >>> torch.is_distributed(torch.ones(2))
        False
    """
    return False


@composite()
def is_nonzero(input: Tensor) -> bool:
    """Whether a one-element tensor is not zero.

    Args:
        input: one element, of any number of dimensions and dtype.
    Returns:
        A Python bool.
    Raises:
        RuntimeError: not exactly one element.
    Source: torch.is_nonzero.
    Example:
        >>> torch.is_nonzero(torch.tensor([[0.5]])), torch.is_nonzero(torch.tensor(False))
        (True, False)
    """
    if input._array.size != 1:
        kind = "no values" if not input._array.size else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    return bool(input._array.item()) if thread.recorder is None else bool(input)


@composite(method=False)
def result_type(tensor: Any, other: Any) -> dtypes.dtype:
    """The dtype that an operation on both operands computes in.

    Args:
        tensor, other: tensors of any shapes, or numbers.
    Returns:
        A ``torch.dtype``. A number or 0-d tensor counts only where it is of a wider kind: a float beside integers.
    Raises:
        TypeError: an operand that is neither tensor nor number.
    Source: torch.result_type.
    Example:
        >>> torch.result_type(torch.tensor([1], dtype=torch.int8), 1000), torch.result_type(torch.tensor([1]), 0.5)
        (torch.int8, torch.float32)
    """
    return common_dtype((tensor, other))


other_names("result_type", scalar="other", scalar1="tensor", scalar2="other")


_interop_threads = Threads.count


def _check_count(name: str, count: Any) -> None:
    if not isinstance(count, numbers.Integral) or isinstance(count, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(count).__name__}")
    if count < 1:
        raise RuntimeError(f"{name} expects a positive integer")


@composite(method=False)
def get_num_threads() -> int:
    """Number of threads used inside operations.

    Returns:
        The number of threads, a Python int of at least 1.
    Raises:
        TypeError: any argument.
    Source: torch.get_num_threads.
    Example:
        >>> torch.get_num_threads() >= 1
        True
    """
    return Threads.count


@composite(method=False)
def set_num_threads(int: int) -> None:
    """Set the number of threads used inside operations.

    It holds for the native kernels and for NumPy's BLAS where that is OpenBLAS. At the start it is the number of cores that the process
    may use, or ``OMP_NUM_THREADS``. Results do not depend on it.

    Args:
        int: number of threads, at least 1.
    Returns:
        None.
    Raises:
        RuntimeError: no int, or one below 1.
    Source: torch.set_num_threads.
    Example:
        >>> before = torch.get_num_threads()
        >>> torch.set_num_threads(1)
        >>> torch.get_num_threads()
        1
        >>> torch.set_num_threads(before)
    """
    _check_count("set_num_threads", int)
    set_threads(int)


@composite(method=False)
def get_num_interop_threads() -> int:
    """Number of threads used between operations.

    Returns:
        The number that ``set_num_interop_threads`` set last, a Python int; nothing else depends on it.
    Raises:
        TypeError: any argument.
    Source: torch.get_num_interop_threads.
    Example:
        >>> torch.get_num_interop_threads() >= 1
        True
    """
    return _interop_threads


@composite(method=False)
def set_num_interop_threads(int: int) -> None:
    """Set the number of threads used between operations.

    Args:
        int: number of threads, at least 1.
    Returns:
        None.
    Raises:
        RuntimeError: no int, or one below 1.
    Source: torch.set_num_interop_threads.
    Example:
        >>> torch.set_num_interop_threads(torch.get_num_interop_threads())
    """
    global _interop_threads
    _check_count("set_num_interop_threads", int)
    _interop_threads = int


@method()
def dim_order(input: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions in the order in which they lie in memory, the one with the largest stride first.

    Args:
        input: any shape and dtype.
        ambiguity_check: raise where there is more than one such order; or memory formats, of which exactly one must fit.
    Returns:
        A tuple of ints, a permutation of the dimensions.
    Raises:
        RuntimeError: the order is not unique.
        TypeError: neither a bool nor memory formats.
    Source: torch.Tensor.dim_order.
    Example:
        >>> x = torch.ones(2, 3, 4, 5)
        >>> x.dim_order(), x.to(memory_format=torch.channels_last).dim_order()
        ((0, 1, 2, 3), (0, 2, 3, 1))
    """
    formats = ambiguity_check if isinstance(ambiguity_check, (list, tuple)) else []
    if not isinstance(ambiguity_check, bool) and (not formats or not all(isinstance(form, memory_format) for form in formats)):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    strides = input.stride()
    if formats:
        unique = sum(input.is_contiguous(memory_format=form) for form in formats) == 1
    else:
        told = 1 not in input.shape and not any(a == b or not a or not b for a, b in itertools.pairwise(strides))
        unique = told or not ambiguity_check
    if not unique:
        raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given memory formats.")
    return tuple(order_of_dims(tuple(input.shape), [strides])[::-1])


@method()
def const_data_ptr(input: Tensor) -> int:
    """Address of the first element, for reading.

    Args:
        input: any shape and dtype.
    Returns:
        A Python int, in bytes; 0 for an empty tensor.
    Raises:
        RuntimeError: a tensor without a storage, such as a sparse one.
    Source: torch.Tensor.const_data_ptr.
    Example:
        >>> x = torch.tensor([1, 2])
        >>> x.const_data_ptr() == x.data_ptr()
        True
    """
    return input.data_ptr()


@method()
def reinforce(input: Tensor, reward: Any) -> Tensor:
    """Removed from PyTorch, too.

    Args:
        input: any shape.
        reward: not looked at.
    Returns:
        Nothing.
    Raises:
        RuntimeError: always.
    Source: torch.Tensor.reinforce.
    Example:
        >>> torch.ones(2).reinforce(1.0)
        Traceback (most recent call last):
        RuntimeError: reinforce() was removed.
        Use torch.distributions instead.
        Its loss is minus log_prob of the action, times the reward.
    """
    raise RuntimeError(
        "reinforce() was removed.\nUse torch.distributions instead.\nIts loss is minus log_prob of the action, times the reward."
    )


# Dtypes that Python's types are asked for by.
_OF_PYTHON = {float: dtypes.float64, complex: dtypes.complex128, int: dtypes.int64, bool: dtypes.bool_}


class finfo:
    """Limits of a floating-point dtype.

    Args:
        type: a floating-point or complex dtype, or Python's type for it; the default dtype when missing.
    Attributes:
        bits, eps, max, min, tiny, smallest_normal, resolution, dtype.
    Raises:
        TypeError: a dtype of integers.
    Source: torch.finfo.
    Example:
        >>> torch.finfo(torch.float16).max, torch.finfo(torch.float32).eps
        (65504.0, 1.1920928955078125e-07)
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: Any = None):
        given: Any = dtypes.get_default_dtype() if type is None else _OF_PYTHON.get(type, type)
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
        type: an integer dtype, or ``int``.
    Attributes:
        bits, max, min, dtype.
    Raises:
        TypeError: another dtype.
    Source: torch.iinfo.
    Example:
        >>> torch.iinfo(torch.int8).min, torch.iinfo(torch.int8).max
        (-128, 127)
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: Any):
        type = _OF_PYTHON.get(type, type)
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
