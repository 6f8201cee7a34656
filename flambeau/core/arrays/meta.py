"""The meta device: tensors without values, for shapes, strides and dtypes of results, and for models too large to be there.

x + y          broadcast, promotion, and PyTorch's rule for strides: no kernel runs
x.T, x[2:5]    the kernels of views, on the frames of ``MetaArray``
masked_fill    the declaration's word ``meta``, where a kernel looks at values
softmax(x)     the reference kernel with ``np`` bound to ``meta_numpy.xp``, whose functions compute shapes and element types only
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..calls.casting import cast_operands
from ..calls.operation import KEEP, Op
from ..device import device
from ..dtype import dtype
from ..shape import broadcast_shape
from .kinds import Kind, call_kernel, register
from .meta_array import MetaArray, empty, empty_elementwise, empty_like, framed, view_at
from .meta_numpy import xp


class Meta(Kind):
    """Arrays without values; see this module's docstring."""

    name, array_class, xp, has_values = "meta", MetaArray, xp, False

    def device_of(self, array: Any) -> device:
        return _META

    def placed(self, where: device) -> device:
        return _META

    def address(self, array: Any) -> int:
        return array._frame.__array_interface__["data"][0]

    def to_host(self, array: Any) -> np.ndarray:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    def from_host(self, array: np.ndarray, where: device) -> MetaArray:
        return empty_like(array)

    def view_at(self, base: Any, shape: Sequence[int], kind: np.dtype, offset: int, strides: Sequence[int]) -> MetaArray:
        return view_at(base, shape, kind, offset, strides)

    def on_host(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Replacement for a function of random numbers: nothing is drawn."""
        return _DRAWN.get(function.__name__, lambda *args, **kwargs: None)

    def run(self, op: Op, values: list[Any], compute: dtype | None, result: dtype | None) -> Any:
        """Element-wise operations and views need no kernel's work; for the rest the reference kernel is run over ``meta_numpy``."""
        if op.meta is not None:
            return op.meta(_New(), *values)
        if op.is_view or op.is_multi_view:
            return _framed_all(call_kernel(op.kernel, op, [value._frame if value.__class__ is MetaArray else value for value in values]))
        if op.elementwise and op.promotion != KEEP and result is not None and not op.is_multi_output:
            operands = [values[i] for i in op.positions if hasattr(values[i], "strides")]
            return empty_elementwise(broadcast_shape(*[operand.shape for operand in operands]), result.numpy, operands)
        arrays = [array[()] if array.__class__ is np.ndarray and not array.ndim else array for array in cast_operands(op, values, compute)]
        return call_kernel(self.bound(op.kernel), op, arrays)


def _framed_all(result: Any) -> Any:
    return framed(result) if result.__class__ is np.ndarray else type(result)([_framed_all(item) for item in result])


class _New:
    """Maker of the results of an operation whose declaration says them."""

    like = staticmethod(empty_like)

    def __call__(self, shape: Sequence[int], kind: Any, columns: bool = False) -> MetaArray:
        return empty((*shape[:-2], shape[-1], shape[-2]), kind).swapaxes(-1, -2) if columns else empty(tuple(shape), kind)


_DRAWN: dict[str, Callable[..., MetaArray]] = {
    "multinomial": lambda generator, input, count, replacement: empty((*input.shape[:-1], count), np.int64),
    "poisson": lambda generator, rates: empty_like(rates),
    "binomial": lambda generator, count, prob: empty(np.broadcast_shapes(count.shape, prob.shape), count.dtype),
}
_META = device("meta")
meta = register(Meta())
