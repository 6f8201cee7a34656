"""Scaled dot product attention: ``softmax(query @ key.T * scale + mask) @ value`` without the matrix of all scores in memory.

The scores are made in strips of rows, at most ``_STRIP`` elements at a time, in the forward pass and once more in the derivative; what is
kept between the two is one number a row, the logarithm of the sum of its exponentials:

               S keys
             +--------+                        out rows = softmax(strip) @ value
    L rows   | strip  |  ~ _STRIP elements     log_sum  = max + log(sum(exp(strip - max)))
             +--------+                        backward: softmax(strip) = exp(strip - log_sum)
             |        |

A row whose keys are all masked gives zeros. Dropout draws row after row, as PyTorch does over the whole matrix; the derivative replays
the same stream from the generator's state. In float32 and float64, without dropout, and where a mask needs no gradient, native kernels
do the work in smaller tiles (``kernels/families/attention_kernels.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import kind_at
from ..core.calls.annotations import Tensor
from ..core.calls.casting import opmath
from ..core.calls.override import call_override
from ..core.calls.registry import composite, op, resolve
from ..core.device import device
from ..core.dtype import cpp_name
from ..core.layout import fused_gradient_strides, is_fused_attention, laid_out, preserved_strides
from ..core.random.generator import Generator, default_generator
from ..core.random.samplers import bernoulli_mask
from ..core.settings import settings
from ..core.shape import broadcast_shape
from ..core.state import thread
from .dropout import dropout as drop

_STRIP = 1 << 18  # elements of scores at a time: 1 MB of float32 stays in the second-level cache


class Dropout:
    """Scores that a call drops: the probability, and the state of the device's generator before the first draw."""

    __slots__ = ("last", "p", "state", "where")

    def __init__(self, p: float, state: np.ndarray, where: device):
        self.p, self.state, self.where = p, state, where
        self.last: Generator | None = None  # the stream that was asked for last

    def stream(self) -> Generator:
        """A generator that draws this call's numbers from the first on."""
        self.last = default_generator.for_device(self.where)
        self.last.load_state_bytes(self.state)
        return self.last


# -- strips --------------------------------------------------------------------------------------------------------------------
class _Matrices:
    """The last two dimensions of an operand, as one stack that is addressed by the flat index over the broadcast leading ones."""

    __slots__ = ("rows", "stack")

    def __init__(self, array: np.ndarray, lead: tuple[int, ...]):
        own = array.shape[:-2]
        self.stack = array.reshape(math.prod(own), *array.shape[-2:])
        self.rows = None if own == lead else np.broadcast_to(np.arange(math.prod(own)).reshape(own), lead).reshape(-1)

    def part(self, which: slice) -> np.ndarray:
        return self.stack[which] if self.rows is None else self.stack[self.rows[which]]


class _Scores:
    """The scores of one call, strip by strip."""

    def __init__(
        self,
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        attn_mask: np.ndarray | None,
        is_causal: bool,
        scale: float,
        dropout: Any,
    ):
        self.lead = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        self.count, self.length, self.width = math.prod(self.lead), query.shape[-2], key.shape[-2]
        self.queries, self.keys, self.values = (_Matrices(opmath(array), self.lead) for array in (query, key, value))
        self.mask = None if attn_mask is None else _Matrices(attn_mask.reshape((1,) * (2 - attn_mask.ndim) + attn_mask.shape), self.lead)
        self.is_causal, self.scale = is_causal, self.queries.stack.dtype.type(scale)
        self.dropout, self.stream = dropout, None if dropout is None else dropout.stream()

    def strips(self) -> Iterator[tuple[slice, slice, int]]:
        """Matrices, rows, and the number of columns that any of the rows looks at."""
        whole = self.length * self.width
        together = max(1, _STRIP // max(1, whole))
        rows = max(1, self.length if whole <= _STRIP else _STRIP // self.width)
        for first in range(0, self.count, together):
            for top in range(0, self.length, rows):
                bottom = min(top + rows, self.length)
                columns = min(bottom, self.width) if self.is_causal else self.width
                yield slice(first, min(first + together, self.count)), slice(top, bottom), columns

    def of(self, which: slice, rows: slice, columns: int) -> np.ndarray:
        """Scores of a strip, masked ones minus infinity."""
        query = np.multiply(self.queries.part(which)[:, rows], self.scale)
        scores = np.matmul(query, self.keys.part(which)[:, :columns].swapaxes(-1, -2))
        if self.mask is not None:
            mask = self._mask_of(which, rows, columns)
            if mask.dtype.kind == "b":
                np.copyto(scores, -np.inf, where=np.logical_not(mask))
            else:
                np.add(scores, mask.astype(scores.dtype, copy=False), out=scores)
        if self.is_causal:
            np.copyto(scores, -np.inf, where=np.arange(rows.start, rows.stop)[:, None] < np.arange(columns))
        return scores

    def _mask_of(self, which: slice, rows: slice, columns: int) -> np.ndarray:
        mask = self.mask
        assert mask is not None  # for the type checker
        across = slice(None) if mask.stack.shape[1] == 1 else rows
        along = slice(None) if mask.stack.shape[2] == 1 else slice(columns)
        stack = mask.stack[:, across, along]
        return stack[which] if mask.rows is None else stack[mask.rows[which]]

    def kept(self, which: slice, rows: slice, columns: int, kind: np.dtype) -> np.ndarray | None:
        """Factors of a strip under dropout, None without dropout; strips must be taken in order."""
        if self.stream is None:
            return None
        shape = (which.stop - which.start, rows.stop - rows.start, self.width)
        p = self.dropout.p
        mask = bernoulli_mask(self.stream, math.prod(shape), 1.0 - p).reshape(shape)[..., :columns]
        return np.multiply(np.asarray(mask), kind.type(1.0) / kind.type(1.0 - p))  # drawn on the host


# -- the operations ------------------------------------------------------------------------------------------------------------
def _probabilities(query: Any, key: Any, attn_mask: Any, is_causal: bool, scale: float) -> Any:
    """Softmax of the scores, whole, in tensors; zeros where all keys of a query are masked."""
    scores = query.matmul(key.mT) * scale
    if attn_mask is not None:
        masked = attn_mask.dtype is dtypes.bool_
        scores = scores.masked_fill(attn_mask.logical_not(), -math.inf) if masked else scores + attn_mask.to(scores.dtype)
    if is_causal:
        seen = scores.new_ones(scores.shape[-2:], dtype=dtypes.bool_).tril()
        scores = scores.masked_fill(seen.logical_not(), -math.inf)
    nothing = scores.eq(-math.inf).all(-1, keepdim=True)
    return scores.softmax(-1).masked_fill(nothing, 0.0)


def _differences(
    grads: Any, grad_output: Any, query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool, scale: float, dropout: Any, needs: Any
) -> tuple[Any, ...]:
    """The derivative of the derivative, over whole matrices: ``p`` are the probabilities, ``a`` those that dropout leaves."""
    to_query, to_key, to_value, to_mask = (*grads, None)[:4]
    p = _probabilities(query, key, attn_mask, is_causal, scale)
    lead = np.broadcast_shapes(p.shape[:-2], value.shape[:-2])
    kept = None
    if dropout is not None:
        shape = (*lead, *p.shape[-2:])
        kept = query.new_empty(shape).bernoulli_(1.0 - dropout.p, generator=dropout.stream()) / (1.0 - dropout.p)

    def dropped(matrix: Any) -> Any:
        return matrix if kept is None else matrix * kept

    def rows(matrix: Any) -> Any:
        return matrix.sum(-1, keepdim=True)

    a = dropped(p)
    of_p = dropped(grad_output.matmul(value.mT))
    inner = of_p - rows(p * of_p)
    of_scores = p * inner
    # What comes back to the gradient of the scores, and from there to p and to its own gradient.
    back = 0.0
    if to_query is not None:
        back = back + to_query.matmul(key.mT) * scale
    if to_key is not None:
        back = back + query.matmul(to_key.mT) * scale
    if to_mask is not None:
        back = back + to_mask.to(p.dtype)
    for_p: Any = None
    for_a: Any = None
    if not isinstance(back, float):
        total = rows(back * p)
        for_p = back * inner - total * of_p
        for_a = dropped(p * (back - total))
    for_grad = None if for_a is None else for_a.matmul(value)
    for_value = None if for_a is None else for_a.mT.matmul(grad_output)
    if to_value is not None:
        through_a = dropped(grad_output.matmul(to_value.mT))
        for_p = through_a if for_p is None else for_p + through_a
        direct = a.matmul(to_value)
        for_grad = direct if for_grad is None else for_grad + direct
    if for_p is None:
        return (None,) * 5
    for_scores = p * (for_p - rows(p * for_p))
    for_query, for_key = for_scores.matmul(key) * scale, for_scores.mT.matmul(query) * scale
    if to_key is not None:
        for_query = for_query + of_scores.matmul(to_key) * scale
    if to_query is not None:
        for_key = for_key + of_scores.mT.matmul(to_query) * scale
    return for_grad, for_query, for_key, for_value, for_scores if needs[4] else None


def _lead(query: Any, key: Any, value: Any) -> tuple[int, ...]:
    return broadcast_shape(query.shape[:-2], key.shape[:-2], value.shape[:-2])


def _attention_shapes(new: Any, query: Any, key: Any, value: Any, *rest: Any) -> Any:
    rows, (dropout, is_fused) = (*_lead(query, key, value), query.shape[-2]), rest[-2:]
    is_ordered = is_fused and dropout is None and is_fused_attention(query, key, value)
    return new.like(query) if is_ordered else new((*rows, value.shape[-1]), query.dtype), new(rows, query.dtype)


def _gradient_shapes(new: Any, grad: Any, query: Any, key: Any, value: Any, attn_mask: Any, *rest: Any) -> Any:
    lead, (dropout, to_mask, is_fused) = _lead(query, key, value), rest[-3:]
    if is_fused and dropout is None and is_fused_attention(query, key, value):  # heads lie inside of rows
        gradients = [new(operand.swapaxes(1, 2).shape, operand.dtype).swapaxes(1, 2) for operand in (query, key, value)]
    else:
        gradients = [new((*lead, *operand.shape[-2:]), operand.dtype) for operand in (query, key, value)]
    return (*gradients, *([new(attn_mask.shape, attn_mask.dtype)] if to_mask else []))


@op(
    name="_attention_backward",
    namespace="nn.functional",
    multi_output=True,
    opmath="native",
    work="grad_output.size * key.shape[-2]",
    fast=True,
    grad={"grad_output, query, key, value, attn_mask": _differences},
    meta=_gradient_shapes,
)
def attention_backward(
    grad_output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    output: Tensor,
    log_sum: Tensor,
    is_causal: bool,
    scale: float,
    dropout: Any,
    to_mask: bool,
    is_fused: bool = True,
) -> Tensor:
    """Gradients of ``_attention`` for query, key and value, in the broadcast shape, and for the mask if ``to_mask``."""
    scores = _Scores(query, key, value, attn_mask, is_causal, scale, dropout)
    grad, kind = opmath(grad_output), scores.queries.stack.dtype
    grads, log_sums = _Matrices(grad, scores.lead), log_sum.reshape(scores.count, scores.length, 1)
    # The sum over a row of probabilities times their gradients is that over the output's row times its gradient, but for its rounding.
    is_rounded = output.dtype != grad.dtype
    # Kernels add up the products of a score in another order, and of large scores only the very same ones fit their sums' logarithm.
    is_of_these = is_rounded and scores.length > 1  # for several queries of half precision there is no kernel
    totals = None if is_rounded else np.add.reduce(grad * output, axis=-1, keepdims=True).reshape(scores.count, scores.length, 1)
    of_query = np.zeros((scores.count, scores.length, query.shape[-1]), kind)
    of_key = np.zeros((scores.count, scores.width, key.shape[-1]), kind)
    of_value = np.zeros((scores.count, scores.width, value.shape[-1]), kind)
    of_mask = np.zeros(scores.mask.stack.shape, kind) if to_mask and scores.mask is not None else None
    for which, rows, columns in scores.strips():
        query_rows, grad_rows = scores.queries.part(which)[:, rows], grads.part(which)[:, rows]
        p = scores.of(which, rows, columns)
        if is_of_these:
            np.exp(np.subtract(p, log_sums[which, rows], out=p), out=p)
        else:
            np.divide(p, _exponentials(p)[1], out=p)
        of_p = np.matmul(grad_rows, scores.values.part(which)[:, :columns].swapaxes(-1, -2))
        kept = scores.kept(which, rows, columns, kind)
        if kept is not None:
            np.multiply(of_p, kept, out=of_p)
        a = p if kept is None else np.multiply(p, kept)
        of_value[which, :columns] += np.matmul(a.swapaxes(-1, -2), grad_rows)
        total = np.add.reduce(p * of_p, axis=-1, keepdims=True) if totals is None else totals[which, rows]
        np.subtract(of_p, total, out=of_p)
        of_scores = np.multiply(p, of_p, out=of_p)
        if of_mask is not None:
            _add_to_mask(of_mask, scores.mask, which, rows, of_scores)
        np.multiply(of_scores, scores.scale, out=of_scores)
        of_query[which, rows] = np.matmul(of_scores, scores.keys.part(which)[:, :columns])
        of_key[which, :columns] += np.matmul(of_scores.swapaxes(-1, -2), query_rows)
    gradients = [
        gradient.reshape(*scores.lead, *gradient.shape[-2:]).astype(operand.dtype, copy=False)
        for gradient, operand in ((of_query, query), (of_key, key), (of_value, value))
    ]
    if is_fused and dropout is None and is_fused_attention(query, key, value):
        gradients = [laid_out(gradient, fused_gradient_strides(gradient.shape)) for gradient in gradients]
    if of_mask is not None and attn_mask is not None:
        gradients.append(of_mask.reshape(attn_mask.shape).astype(attn_mask.dtype, copy=False))
    return tuple(gradients)


def _exponentials(scores: np.ndarray) -> tuple[np.ndarray, ...]:
    """Put exponentials in the place of scores, over that of the row's largest; these, sums or 1, and whether all keys are masked."""
    top = np.maximum.reduce(scores, axis=-1, keepdims=True)
    np.copyto(top, 0, where=top == -np.inf)
    np.exp(np.subtract(scores, top, out=scores), out=scores)
    total = np.add.reduce(scores, axis=-1, keepdims=True)
    empty = total == 0
    np.copyto(total, 1, where=empty)
    return top, total, empty


def _add_to_mask(total: np.ndarray, mask: Any, which: slice, rows: slice, of_scores: np.ndarray) -> None:
    """Add a strip's gradient to the elements of the mask that it came from."""
    if total.shape[1] == 1:
        of_scores, rows = np.add.reduce(of_scores, axis=1, keepdims=True), slice(None)
    columns = of_scores.shape[2]
    if total.shape[2] == 1:
        of_scores, columns = np.add.reduce(of_scores, axis=2, keepdims=True), 1
    if mask.rows is None:
        total[which, rows, :columns] += of_scores
        return
    for matrix, row in zip(of_scores, mask.rows[which].tolist(), strict=True):
        total[row, rows, :columns] += matrix


def _attention_rule(
    grad: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    result0: Any,
    result1: Any,
    is_causal: bool,
    scale: float,
    dropout: Any,
    is_fused: bool,
    needs: Any,
) -> tuple[Any, ...]:
    gradients = attention_backward(grad, query, key, value, attn_mask, result0, result1, is_causal, scale, dropout, needs[3], is_fused)
    return tuple([gradient if need else None for gradient, need in zip((*gradients, None)[:4], needs, strict=True)])


@op(
    name="_attention",
    namespace="nn.functional",
    node_name="ScaledDotProductFlashAttentionForCpuBackward0",
    multi_output=True,
    opmath="native",
    fast=True,
    work="64 * query.size * key.shape[-2]",
    grad={"query, key, value, attn_mask": _attention_rule},
    batch=2,
    draws="inside",
    meta=_attention_shapes,
)
def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool, scale: float, dropout: Any, is_fused: bool = True
) -> Tensor:
    """The result of attention, and for each row the logarithm of the sum of its exponentials: infinity where all keys are masked.

    ``is_fused``: whether a native kernel may do it, and results may be ordered in memory as PyTorch's fused kernel orders them.
    """
    scores = _Scores(query, key, value, attn_mask, is_causal, scale, dropout)
    kind = scores.queries.stack.dtype
    result = np.zeros((scores.count, scores.length, value.shape[-1]), kind)
    log_sum = np.full((scores.count, scores.length, 1), np.inf, kind)
    for which, rows, columns in scores.strips() if scores.width else ():
        p = scores.of(which, rows, columns)
        top, total, empty = _exponentials(p)
        np.add(top, np.log(total), out=top)
        np.copyto(top, np.inf, where=empty)
        kept = scores.kept(which, rows, columns, kind)
        if kept is not None:
            np.multiply(p, kept, out=p)
        result[which, rows] = np.divide(np.matmul(p, scores.values.part(which)[:, :columns]), total)
        log_sum[which, rows] = top
    output = result.reshape(*scores.lead, *result.shape[-2:]).astype(query.dtype, copy=False)
    if is_fused and dropout is None and is_fused_attention(query, key, value):
        output = laid_out(output, preserved_strides(query))
    return output, log_sum.reshape(*scores.lead, scores.length)


# -- the public function -------------------------------------------------------------------------------------------------------
def _check(query: Any, key: Any, value: Any, attn_mask: Any) -> None:
    """Complain about what PyTorch complains about before it looks at sizes."""
    kinds = [tensor.dtype for tensor in (query, key, value)]
    if not kinds[0] is kinds[1] is kinds[2]:
        query_kind, key_kind, value_kind = (cpp_name(kind) for kind in kinds)
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query_kind} key.dtype: {key_kind} and value.dtype: {value_kind} instead."
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if attn_mask is not None:
        kind = attn_mask.dtype
        if kind not in (dtypes.bool_, kinds[0], dtypes.float32):
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                f"{cpp_name(kind)} and  query.dtype: {cpp_name(kinds[0])} instead."
            )


def _check_kinds(kind: Any, attn_mask: Any, is_causal: bool) -> None:
    """Complain about what PyTorch complains about before it chooses a kernel."""
    if attn_mask is not None and is_causal:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if kind.is_complex:
        raise NotImplementedError(f"\"softmax_lastdim_kernel_impl\" not implemented for '{kind.legacy}'")
    if not kind.is_floating_point:
        raise RuntimeError(f"expected scalar type Float but found {kind.legacy}")


def _is_usual(query: Any, key: Any, value: Any) -> bool:
    """Whether operands fit without broadcasting, keys and values alike, and there is something to compute; nothing is said of them then."""
    kind, of_query, of_key = query.dtype, tuple(query.shape), tuple(key.shape)
    return (
        kind is key.dtype
        and kind is value.dtype
        and kind.is_floating_point
        and len(of_query) > 1
        and of_key == value.shape
        and of_query[:-2] == of_key[:-2]
        and of_query[-1] == of_key[-1]
        and 0 not in of_query
        and 0 not in of_key
    )


def _check_shapes(query: Any, key: Any, value: Any, attn_mask: Any) -> None:
    for factor, expected, size in ((key, query.shape[-1], key.shape[-1]), (value, key.shape[-2], value.shape[-2])):
        if size != expected:
            count = math.prod(factor.shape[:-2])
            raise RuntimeError(
                f"Expected size for first two dimensions of batch2 tensor to be: [{count}, {expected}] but got: [{count}, {size}]."
            )
    lead = broadcast_shape(*[tuple(tensor.shape[:-2]) for tensor in (query, key, value)])
    if attn_mask is None:
        return
    scores = (*lead, query.shape[-2], key.shape[-2])
    for back in range(1, min(len(scores), attn_mask.ndim) + 1):
        if attn_mask.shape[-back] not in (1, scores[-back]):
            raise RuntimeError(
                f"The size of tensor a ({scores[-back]}) must match the size of tensor b ({attn_mask.shape[-back]}) at non-singleton "
                f"dimension {max(len(scores), attn_mask.ndim) - back}"
            )
    if attn_mask.ndim > len(scores):
        wider = [*attn_mask.shape[: attn_mask.ndim - len(scores)], *scores]
        raise RuntimeError(f"output with shape {list(scores)} doesn't match the broadcast shape {wider}")


def _with_shared_heads(query: Any, key: Any, value: Any, attn_mask: Any) -> tuple[Any, ...]:
    """The operands so that heads of ``query`` are broadcast against those of ``key`` and ``value``, and whether the result has a
    dimension more: the heads that share one.

    Raises:
        RuntimeError: numbers of heads that do not divide.
    """
    heads, of_key, of_value = query.size(-3), key.size(-3), value.size(-3)
    if not of_key or not of_value or heads % of_key or heads % of_value:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in query")
    if heads == of_key == of_value:
        return query, key, value, attn_mask, False
    if of_key != of_value:
        key, value = (tensor.repeat_interleave(heads // tensor.size(-3), -3) for tensor in (key, value))
        return query, key, value, attn_mask, False
    groups = (of_key, heads // of_key)
    if attn_mask is not None and attn_mask.ndim > 2:
        attn_mask = attn_mask.unsqueeze(-3) if attn_mask.size(-3) == 1 else attn_mask.unflatten(-3, groups)
    return query.unflatten(-3, groups), key.unsqueeze(-3), value.unsqueeze(-3), attn_mask, True


@composite(namespace="nn.functional", autocast="narrow", in_library=True, compiled=True)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value`` over the last two dimensions; the matrix of scores is never in memory whole.

    Args:
        query: ``(*, L, E)``, floating point.
        key: ``(*, S, E)``; leading dimensions are broadcast.
        value: ``(*, S, Ev)``.
        attn_mask: broadcast to ``(*, L, S)``: added to the scores, or of bools, which say what takes part.
        dropout_p: probability of a weight to be zeroed, whatever mode a module is in; the others are multiplied by ``1 / (1 - p)``.
        is_causal: let row ``i`` see keys ``0`` to ``i`` only; without ``attn_mask``.
        scale: factor of the scores; ``1 / sqrt(E)`` when None.
        enable_gqa: let heads (dimension -3) of ``query`` share those of ``key`` and ``value``, whose numbers divide its own.
    Returns:
        ``(*, L, Ev)``; zeros in a row whose keys are all masked. Without queries or values, zeros of the query's leading dimensions.
    Raises:
        RuntimeError: dtypes or shapes that do not fit, ``attn_mask`` together with ``is_causal``, ``dropout_p`` above 1, no
            implementation allowed by ``torch.nn.attention.sdpa_kernel``.
    Gradient: recomputed from the scores' strips; for ``attn_mask`` too, where it is added.
    Source: torch.nn.functional.scaled_dot_product_attention. Vaswani et al. 2017; Dao et al. 2022 for the recomputation.
    Example:
        >>> query, key = torch.zeros(2, 4), torch.ones(2, 4)
        >>> F.scaled_dot_product_attention(query, key, torch.tensor([[2.0], [4.0]]), is_causal=True)
        tensor([[2.],
                [3.]])
    """
    if attn_mask is not None and attn_mask.__class__ is not query.__class__:  # perhaps a ``CausalBias``
        args = query, key, value, attn_mask, dropout_p, is_causal
        function = resolve("nn.functional", "scaled_dot_product_attention")
        result = call_override(function, (attn_mask,), args, {"scale": scale, "enable_gqa": enable_gqa})
        if result is not NotImplemented:
            return result
    grouped = False
    if attn_mask is not None or enable_gqa or not _is_usual(query, key, value):
        _check(query, key, value, attn_mask)
        if not query.size(-2) or not value.numel():
            zero = (query.sum() + key.sum() + value.sum()) * 0  # records all three and carries a NaN on, as PyTorch's do
            return query.new_zeros((*query.shape[:-1], value.size(-1))) + zero
        _check_kinds(query.dtype, attn_mask, is_causal)
        if enable_gqa:
            query, key, value, attn_mask, grouped = _with_shared_heads(query, key, value, attn_mask)
        _check_shapes(query, key, value, attn_mask)
    width = query.shape[-1]
    if scale is None:
        scale = 1.0 / math.sqrt(width) if width else 1.0
    if not settings.attention["math"] and not settings.attention["flash"]:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the math kernel and "
            "the fused kernels."
        )
    if dropout_p > 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")
    if dropout_p == 1.0:
        value, dropout_p = value * 0.0, 0.0
    if dropout_p > 0.0:
        result = _with_dropout(dropout_p, query, key, value, attn_mask, is_causal, scale)
    else:
        result = attention(query, key, value, attn_mask, is_causal, scale, None, settings.attention["flash"])[0]
    return result.flatten(-4, -3) if grouped else result


def _with_dropout(p: float, *args: Any) -> Any:
    """The call with numbers from the default generator of its device, which stands behind them afterwards."""
    if thread.recorder is not None:
        return _with_dropped_weights(p, *args)
    where = args[0].device
    kind = kind_at(where)
    with nullcontext() if kind is None else kind.drawing(where), default_generator._lock:  # a fake tensor claims any device
        dropout = Dropout(float(p), default_generator.state_bytes(), where)
        result = attention(*args, dropout)[0]
        if dropout.last is not None:
            default_generator.load_state_bytes(dropout.last.state_bytes())
            dropout.last = None
    return result


def _with_dropped_weights(p: float, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    """The same, operation by operation: a recorder cannot keep the place of a generator, and the numbers are those of its stream too."""
    scores = (query @ key.transpose(-2, -1)) * scale
    if is_causal:
        mask = query.new_ones((query.size(-2), key.size(-2)), dtype=dtypes.bool_).tril()
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -math.inf) if mask.dtype is dtypes.bool_ else scores + mask
    return drop(scores.softmax(-1), p, True) @ value
