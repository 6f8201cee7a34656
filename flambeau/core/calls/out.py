"""``out=``: how results come into tensors that the caller gave.

Every operation that says ``out`` gets it from here, composites and factories too; what PyTorch requires of the tensors beyond the usual is
an ``Out`` in the operation's declaration.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtype as dtypes
from ..arrays.kinds import check_same_device
from ..shape import contiguous_strides, element_strides, is_dense, strided
from ..state import changes, grad_enabled, run_ignoring_fp, thread
from ..tape.history import check_overlap, check_writable
from ..tensor import Tensor, note_order, storage_of
from .casting import cast_array

if TYPE_CHECKING:
    from .operation import Op


def complain_cast(have: dtypes.dtype, want: dtypes.dtype) -> Exception:
    return RuntimeError(f"result type {have.legacy} can't be cast to the desired output type {want.legacy}")


def complain_other(have: dtypes.dtype, want: dtypes.dtype) -> Exception:
    return RuntimeError(f"Expected out tensor to have dtype {dtypes.cpp_name(have)}, but got {dtypes.cpp_name(want)} instead")


class Out:
    """Rules of an operation for ``out=`` that are not the usual ones.

    Attributes:
        fits: function (result's dtype, ``out``'s) -> whether one can be written into the other; the usual is ``can_cast``.
        complain: function of the same arguments -> the exception where it cannot.
        warns: whether resizing a tensor that has elements warns.
        apart: whether it may share no memory with an operand.
        dtype: the parameter that takes ``out``'s dtype where it is None.
        fills: whether a tensor of another shape with as many elements keeps its shape.
        several: the rule of a call with more than one result, where that is another.
        check: function of ``out`` and the result's shape that raises where ``out`` may not be resized.
    """

    __slots__ = ("apart", "check", "complain", "dtype", "fills", "fits", "several", "warns")

    def __init__(
        self,
        *,
        fits: Callable[[dtypes.dtype, dtypes.dtype], bool] = dtypes.can_cast,
        complain: Callable[[dtypes.dtype, dtypes.dtype], Exception] = complain_cast,
        warns: bool = True,
        apart: bool = False,
        dtype: str | None = None,
        fills: bool = False,
        several: Out | None = None,
        check: Callable[[Tensor, tuple[int, ...]], None] | None = None,
    ):
        self.fits, self.complain, self.warns, self.apart, self.dtype, self.fills = fits, complain, warns, apart, dtype, fills
        self.several, self.check = several, check


def same_dtype(have: dtypes.dtype, want: dtypes.dtype) -> bool:
    return have is want


USUAL, SILENT, APART = Out(), Out(warns=False), Out(apart=True)
LISTED = Out()  # a list of any length: the call returns nothing then
EXACT, EXACT_APART = (Out(fits=same_dtype, complain=complain_other, apart=apart) for apart in (False, True))


def with_dtype_of(op: Op, values: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
    """The arguments with ``out``'s dtype in place of one that is not given, for an operation that computes in it."""
    rule: Any = op.out
    if rule.__class__ is Out and rule.dtype is not None and isinstance(out, Tensor):
        place = op.names.index(rule.dtype)
        if values[place] is None:
            return (*values[:place], out.dtype, *values[place + 1 :])
    return values


def into_out(op: Any, tensors: list[Tensor], out: Any, operands: list[Any]) -> Any:
    """Write results into ``out`` (a tensor, or a tuple of them), resizing it where PyTorch does; the tensor, or a list of them.

    Raises:
        RuntimeError: a result that ``out``'s dtype cannot hold, or a call that would have to be recorded.
    """
    targets = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if len(targets) != len(tensors):
        raise TypeError(f"{op.name}(): expected {len(tensors)} tensors in 'out', got {len(targets)}")
    if grad_enabled() and any(isinstance(tensor, Tensor) and tensor._requires_grad for tensor in (*operands, *targets)):
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    rule = op.out if op.out.__class__ is Out else USUAL
    if len(tensors) > 1:
        rule = rule.several or rule
    for target, result in zip(targets, tensors, strict=True):
        if not isinstance(target, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(target).__name__}")
        write_result(target, result._array, rule, operands)
    return out if len(tensors) == 1 else list(targets)


def write_result(target: Tensor, array: np.ndarray, rule: Out = USUAL, operands: Sequence[Any] = ()) -> None:
    """Write one result into ``target``, which is resized if its shape differs, and lies in memory as the result does then."""
    check_writable(target, False)
    have, want = dtypes.of_array(array), target.dtype
    if not rule.fits(have, want):
        raise rule.complain(have, want)
    check_same_device(target._array, array)
    if rule.check is not None:
        rule.check(target, array.shape)
    if rule.fills and array.size == target._array.size:
        array = array.reshape(target._array.shape)
    resize_out(target, array.shape, None if array.flags.c_contiguous or not is_dense(array) else element_strides(array), rule.warns)
    if rule.apart:
        check_overlap(target, operands, same_allowed=False)
    cast = run_ignoring_fp(cast_array, array, want)
    target._array[...] = cast
    if thread.recorder is not None:
        thread.recorder.wrote(target._array, cast)
    storage_of(target)._bump()


def resize_out(target: Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, warns: bool = True) -> None:
    """Bring ``target`` to a result's shape, with a warning where it has elements."""
    if target._array.shape == shape:
        return
    if target._array.size and warns:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(target._array.shape)}, which does not match "
            f"the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch release outputs "
            "will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, "
            "to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=6,
        )
    resize(target, shape, strides)


def resize(tensor: Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
    """Give ``tensor`` another shape over its storage, which grows if it is too small."""
    strides = contiguous_strides(shape) if strides is None else strides
    storage = storage_of(tensor)
    changes.count += 1
    dtype = tensor._array.dtype
    offset = tensor.storage_offset() * dtype.itemsize
    reach = 0 if 0 in shape else 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    needed = offset + reach * dtype.itemsize
    if needed > storage.nbytes():
        storage._grow(needed)
    tensor._array = strided(storage._flat, shape, tuple(step * dtype.itemsize for step in strides), offset, dtype)
    note_order(tensor)
