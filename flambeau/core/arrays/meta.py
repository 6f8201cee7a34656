"""The meta device: tensors without values, for shapes, strides and dtypes of results, and for models too large to be there.

x + y          broadcast, promotion, and PyTorch's rule for strides: no kernel runs
x.T, x[2:5]    the kernels of views, on the frames of ``MetaArray``
masked_fill    ``SHAPE_RULES``, where a kernel looks at values
softmax(x)     the reference kernel with ``np`` bound to ``meta_numpy.xp``, whose functions compute shapes and element types only
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..calls.casting import cast_operands
from ..calls.operation import KEEP, Op
from ..calls.tables import Rules
from ..device import device
from ..dtype import dtype
from ..shape import broadcast_shape
from .kinds import Kind, call_kernel, missing_values, register
from .meta_array import MetaArray, empty, empty_elementwise, empty_like, framed, view_at
from .meta_matrices import RULES as RULES_OF_MATRICES
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
        rule = SHAPE_RULES.of(op)
        if rule is not None:
            return rule(*values)
        if op.is_view or op.is_multi_view:
            return _framed_all(call_kernel(op.kernel, op, [value._frame if value.__class__ is MetaArray else value for value in values]))
        if op.elementwise and op.promotion != KEEP and result is not None and not op.is_multi_output:
            operands = [values[i] for i in op.positions if hasattr(values[i], "strides")]
            return empty_elementwise(broadcast_shape(*[operand.shape for operand in operands]), result.numpy, operands)
        arrays = [array[()] if array.__class__ is np.ndarray and not array.ndim else array for array in cast_operands(op, values, compute)]
        return call_kernel(self.bound(op.kernel), op, arrays)


def _framed_all(result: Any) -> Any:
    return framed(result) if result.__class__ is np.ndarray else type(result)([_framed_all(item) for item in result])


def _lead(query: Any, key: Any, value: Any) -> tuple[int, ...]:
    return broadcast_shape(query.shape[:-2], key.shape[:-2], value.shape[:-2])


def _attention_shapes(query: Any, key: Any, value: Any) -> tuple[MetaArray, MetaArray]:
    rows = (*_lead(query, key, value), query.shape[-2])
    return empty((*rows, value.shape[-1]), query.dtype), empty(rows, query.dtype)


def _first_few(input: Any, k: int, dim: int) -> tuple[MetaArray, MetaArray]:
    shape = tuple(k if d == dim % input.ndim else size for d, size in enumerate(input.shape)) if input.ndim else () if k else (0,)
    return empty(shape, input.dtype), empty(shape, np.int64)


def _one_along(input: Any, dim: int, keepdim: bool) -> tuple[MetaArray, MetaArray]:
    """An element along a dimension, and where it is."""
    kept = (1,) if keepdim and input.ndim else ()
    shape = (*input.shape[:dim], *kept, *input.shape[dim + 1 :]) if input.ndim else ()
    return empty(shape, input.dtype), empty(shape, np.int64)


def _windows(input: Any, size: Sequence[int]) -> tuple[MetaArray, MetaArray]:
    shape = (*input.shape[: input.ndim - len(size)], *size)
    return empty(shape, input.dtype), empty(shape, np.int64)


# Operations whose kernels look at values, although their results' shapes do not depend on them.
SHAPE_RULES = Rules("meta")
SHAPE_RULES.update(RULES_OF_MATRICES)
SHAPE_RULES.update(
    {
        "masked_fill": lambda input, mask, value: empty(broadcast_shape(input.shape, mask.shape), input.dtype),
        "masked_scatter": lambda input, mask, source: empty(broadcast_shape(input.shape, mask.shape), input.dtype),
        "_index_add": lambda input, *rest: empty_like(input, order="C"),
        "_index_backward": lambda grad, shape, *rest: empty(shape, grad.dtype),
        "_diagonal_backward": lambda grad, shape, *rest: empty(shape, grad.dtype),
        "_embedding_backward": lambda grad, indices, rows, *rest: empty((rows, grad.shape[-1]), grad.dtype),
        "nn.functional._attention": lambda query, key, value, *rest: _attention_shapes(query, key, value),
        "nn.functional._attention_backward": lambda grad, query, key, value, attn_mask, *rest: (
            *[empty((*_lead(query, key, value), *operand.shape[-2:]), operand.dtype) for operand in (query, key, value)],
            *([empty(attn_mask.shape, attn_mask.dtype)] if rest[5] else []),
        ),
        **{f"nn.functional._fractional_max_pool{rank}d": lambda input, samples, kernel, size: _windows(input, size) for rank in (2, 3)},
        "mode": lambda input, dim, keepdim: _one_along(input, dim, keepdim),
        "_index_put": lambda input, *rest: empty_like(input),
        "_zero_at": lambda input, *rest: empty_like(input),
        "masked_select": lambda *operands: missing_values("masked_select"),
        "topk": lambda input, k, dim, *rest: _first_few(input, k, dim),
        "histc": lambda input, bins, *rest: empty((bins,), input.dtype),
    }
)
_DRAWN: dict[str, Callable[..., MetaArray]] = {
    "multinomial": lambda generator, input, count, replacement: empty((*input.shape[:-1], count), np.int64),
    "poisson": lambda generator, rates: empty_like(rates),
    "binomial": lambda generator, count, prob: empty(np.broadcast_shapes(count.shape, prob.shape), count.dtype),
}
_META = device("meta")
meta = register(Meta())
