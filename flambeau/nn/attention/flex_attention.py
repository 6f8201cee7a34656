"""``torch.nn.attention.flex_attention``: attention with scores and masks given as functions of one score.

A call goes one of two ways. Where the functions can be written as programs, a native kernel runs them between its two products, on tiles
that the mask does not leave out, and no matrix of scores is in memory (``capture/scores.py``, ``kernels/families/flexible_attention.py``).
Otherwise they are mapped over all scores, rows of blocks at a time, with what lies between the first and last block that a row looks at;
keys and values of blocks that are left out between them are zeros there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np

from ... import ops
from ...autograd import enable_grad
from ...autograd.api import grad
from ...autograd.function import Function
from ...core import dtype as dtypes
from ...core.arrays.native import switch
from ...core.once import warn_once
from ...core.state import active, grad_enabled, is_intercepted, thread
from ...core.tensor import Parameter, Tensor, wrap
from ._block_mask import (
    _DEFAULT_SPARSE_BLOCK_SIZE as _DEFAULT_SPARSE_BLOCK_SIZE,
    _LARGE_SPARSE_BLOCK_SIZE as _LARGE_SPARSE_BLOCK_SIZE,
    BlockMask,
    _create_empty_block_mask as _create_empty_block_mask,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
    over_places,
)

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask", "flex_attention",
    "noop_mask", "or_masks",
]  # fmt: skip

_WHOLE = 1 << 22  # scores that are made at once, without a look at blocks


class AuxRequest(NamedTuple):
    """Request for results of ``flex_attention`` beside its first.

    Attributes:
        lse: the logarithms of sums of exponentials of scores. max_scores: the largest scores; kernels of GPUs have them.
    Source: torch.nn.attention.flex_attention.AuxRequest.
    Example:
        >>> nn.attention.flex_attention.AuxRequest(lse=True)
        AuxRequest(lse=True, max_scores=False)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Results of ``flex_attention`` beside its first; None where it was not asked for.

    Attributes:
        lse, max_scores: ``(B, H, L)``.
    Source: torch.nn.attention.flex_attention.AuxOutput.
    Example:
        >>> nn.attention.flex_attention.AuxOutput()
        AuxOutput(lse=None, max_scores=None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """Sizes and choices of kernels of GPUs; here, as in PyTorch on CPUs, nothing follows from them.

    Source: torch.nn.attention.flex_attention.FlexKernelOptions.
    Example:
        >>> nn.attention.flex_attention.FlexKernelOptions(BLOCK_M=64)
        {'BLOCK_M': 64}
    """

    num_warps: NotRequired[int]
    num_stages: NotRequired[int]
    BLOCK_M: NotRequired[int]
    BLOCK_N: NotRequired[int]
    BLOCK_M1: NotRequired[int]
    BLOCK_N1: NotRequired[int]
    BLOCK_M2: NotRequired[int]
    BLOCK_N2: NotRequired[int]
    PRESCALE_QK: NotRequired[bool]
    ROWS_GUARANTEED_SAFE: NotRequired[bool]
    BLOCKS_ARE_CONTIGUOUS: NotRequired[bool]
    WRITE_DQ: NotRequired[bool]
    FORCE_USE_FLEX_ATTENTION: NotRequired[bool]
    USE_TMA: NotRequired[bool]
    kpack: NotRequired[int]
    matrix_instr_nonkdim: NotRequired[int]
    waves_per_eu: NotRequired[int]
    BACKEND: NotRequired[str]


# -- the way of tensors ----------------------------------------------------------------------------------------------------------------
class _Call(NamedTuple):
    """One call: what is done to its scores."""

    score_mod: Callable[..., Any] | None
    block_mask: BlockMask | None
    states: np.ndarray | None  # of the mask's blocks, where it has more than one
    scale: float


def _rows(call: _Call, shape: tuple[int, ...]) -> list[tuple[range, range]]:
    """Queries to take together, and the keys between the first and last that any of them looks at."""
    batches, heads, length, keys = shape
    if batches * heads * length * keys <= _WHOLE and (call.states is None or call.states.all()):
        return [(range(length), range(keys))]
    if call.states is None or call.block_mask is None:
        high = max(1, _WHOLE // (batches * heads * keys))
        return [(range(first, min(first + high, length)), range(keys)) for first in range(0, length, high)]
    high, wide = call.block_mask.BLOCK_SIZE
    found = []
    for number, row in enumerate(call.states.any((0, 1))):
        listed = np.flatnonzero(row)
        span = range(int(listed[0]) * wide, min(int(listed[-1] + 1) * wide, keys)) if listed.size else range(0)
        found.append((range(number * high, min((number + 1) * high, length)), span))
    return found


def _looked_at(call: _Call, tensors: Iterable[Tensor], rows: range, columns: range) -> list[Tensor]:
    """Keys or values of these columns, zeros in blocks that these rows leave out: whatever is there does not count, NaN neither."""
    parts = [tensor[:, :, columns.start : columns.stop] for tensor in tensors]
    if call.states is None or call.block_mask is None:
        return parts
    high, wide = call.block_mask.BLOCK_SIZE
    row = rows.start // high
    states = call.states[:, :, row : row + 1, columns.start // wide : (columns.stop - 1) // wide + 1]
    if states.all():
        return parts
    left_out = ops.from_numpy((states == 0).repeat(min(wide, columns.stop), 3)[:, :, 0, : len(columns), None])
    return [part.masked_fill(left_out.to(part.device), 0.0) for part in parts]


def _seen(call: _Call, places: list[Tensor], rows: range, columns: range) -> Tensor | None:
    """A mask of the scores of these rows and columns that count; None where all do."""
    mask = call.block_mask
    if mask is None:
        return None
    seen = None if mask.mask_mod is noop_mask else over_places(mask.mask_mod, False)(*places)
    if call.states is None:
        return seen
    high, wide = mask.BLOCK_SIZE
    states = call.states[:, :, rows.start // high : (rows.stop - 1) // high + 1, columns.start // wide : (columns.stop - 1) // wide + 1]
    spread = states.repeat(min(high, rows.stop), 2).repeat(min(wide, columns.stop), 3)
    state = ops.from_numpy(np.ascontiguousarray(spread[:, :, : len(rows), : len(columns)])).to(places[0].device)
    whole, some = state == 2, state == 1
    return whole | (some if seen is None else some & seen)


def _attended(query: Tensor, key: Tensor, value: Tensor, call: _Call) -> tuple[Tensor, Tensor]:
    """The result, and the logarithms of sums of exponentials: minus infinity of a query that sees nothing."""
    shape = (query.size(0), query.size(1), query.size(2), key.size(2))
    parts = [_attended_rows(query, key, value, call, rows, columns) for rows, columns in _rows(call, shape)]
    if len(parts) == 1:
        return parts[0]
    outs, log_sums = zip(*parts, strict=True)
    return ops.cat(list(outs), 2), ops.cat(list(log_sums), 2)


def _attended_rows(query: Tensor, key: Tensor, value: Tensor, call: _Call, rows: range, columns: range) -> tuple[Tensor, Tensor]:
    """The same of some queries, which look at some keys."""
    dtype = dtypes.float64 if query.dtype is dtypes.float64 else dtypes.float32
    query, (key, value) = query[:, :, rows.start : rows.stop], _looked_at(call, (key, value), rows, columns)
    scores = query.matmul(key.mT).to(dtype) * call.scale
    batches, heads = scores.shape[:2]
    spans = [range(batches), range(heads), rows, columns]
    if not scores.numel():
        return query.matmul(key.mT).matmul(value), scores.new_full(scores.shape[:3], -math.inf)
    places = [ops.arange(span.start, span.stop, device=query.device) for span in spans]
    if call.score_mod is not None:
        scores = over_places(call.score_mod, True)(scores, *places)
    seen = _seen(call, places, rows, columns)
    if seen is not None:
        scores = ops.where(seen, scores, -math.inf)
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    log_sums = scores.masked_fill(nothing, 0.0).logsumexp(-1).masked_fill(nothing[..., 0], -math.inf)
    weights = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
    return weights.to(query.dtype).matmul(value.to(query.dtype)), log_sums


# -- the way of kernels ----------------------------------------------------------------------------------------------------------------
class _Fused(Function):
    """A call whose programs are known: ``call`` is for tensors, where derivatives of gradients are asked for, ``scored`` for kernels."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, call: _Call, scored: Any, *learned: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        arrays = [tensor._array for tensor in (query, key, value)]
        out, log_sums = _scores().attend(*arrays, scored, call.scale)
        result, sums = wrap(out), wrap(log_sums)
        ctx.save_for_backward(query, key, value, result, sums, *learned)
        ctx.call, ctx.scored = call, scored
        return result, sums

    @staticmethod
    def backward(ctx: Any, of_out: Any, of_sums: Any) -> Any:
        query, key, value, out, sums, *learned = ctx.saved_tensors
        if of_sums is not None or grad_enabled() or of_out is None:
            made = _by_tensors(ctx.call, (query, key, value), learned, of_out, of_sums)
            return (*made[:3], None, None, *made[3:])
        arrays = [tensor._array for tensor in (of_out, query, key, value, out, sums)]
        made = _scores().attend_backward(*arrays, call=ctx.scored, scale=ctx.call.scale)
        gradients = [_summed(wrap(array), tensor) for array, tensor in zip(made, (query, key, value), strict=True)]
        return (*gradients, None, None, *_of_learned(ctx.call, (query, key, value, out, sums, of_out), learned))


def _summed(gradient: Tensor, tensor: Tensor) -> Tensor:
    """A gradient in a shape that operands are broadcast to, for one of them."""
    return gradient.sum_to_size(tensor.shape) if gradient.shape != tensor.shape else gradient


def _of_learned(call: _Call, operands: tuple[Tensor, ...], learned: list[Tensor]) -> list[Any]:
    """Gradients of what ``score_mod`` uses, some rows of scores at a time: those of the scores are made again from the logarithms."""
    if not learned or call.score_mod is None:
        return [None] * len(learned)
    shaped = [*_expanded(operands[:3]), operands[3], operands[5]]
    query, key, value, out, of_out = (each.flatten(1, -3) if each.dim() == 5 else each for each in shaped)
    sums = operands[4]
    sums = sums.flatten(1, -2) if sums.dim() == 4 else sums
    totals: list[Any] = [None] * len(learned)
    deltas = (of_out * out).sum(-1)
    for rows, columns in _rows(call, (query.size(0), query.size(1), query.size(2), key.size(2))):
        if not columns:
            continue
        across = slice(rows.start, rows.stop)
        own_key, own_value = _looked_at(call, (key, value), rows, columns)
        spans = [range(query.size(0)), range(query.size(1)), rows, columns]
        places = [ops.arange(span.start, span.stop, device=query.device) for span in spans]
        scores = query[:, :, across].matmul(own_key.mT) * call.scale
        with enable_grad():
            changed = over_places(call.score_mod, True)(scores, *places).to(scores.dtype)
        seen = _seen(call, places, rows, columns)
        weights = (changed.detach() - sums[:, :, across].unsqueeze(-1)).exp()
        weights = weights if seen is None else weights.masked_fill(seen.logical_not(), 0.0)
        slopes = weights * (of_out[:, :, across].matmul(own_value.mT) - deltas[:, :, across].unsqueeze(-1))
        parts = grad([changed], learned, [slopes], allow_unused=True) if changed.requires_grad else ()
        for i, part in enumerate(parts):
            totals[i] = part if totals[i] is None or part is None else totals[i] + part
    return totals


def _by_tensors(call: _Call, operands: tuple[Tensor, ...], learned: list[Tensor], of_out: Any, of_sums: Any) -> tuple[Any, ...]:
    """Gradients that can be differentiated again, or that go through the logarithms, too."""
    again = grad_enabled()
    with enable_grad():  # tensors of its own for each operand: one may be two of them, or made of another
        given = tuple([tensor.view_as(tensor) if again else tensor.detach().requires_grad_() for tensor in operands])
        flat = [tensor.flatten(1, -3) if tensor.dim() == 5 else tensor for tensor in _expanded(given)]
        out, sums = _attended(flat[0], flat[1], flat[2], call)
        pairs = [(out, of_out), (sums, of_sums)]
        outputs, grads = zip(*[(each, of.reshape(each.shape)) for each, of in pairs if of is not None], strict=True)
        return grad(list(outputs), [*given, *learned], list(grads), create_graph=again, allow_unused=True)


def _expanded(operands: tuple[Tensor, ...]) -> list[Tensor]:
    lead = np.broadcast_shapes(*[tuple(tensor.shape[:-2]) for tensor in operands])
    return [tensor.expand(*lead, *tensor.shape[-2:]) for tensor in operands]


def _scores() -> Any:
    from ...capture import scores  # late: programs of scores bring the kernels' compiler

    return scores


def _scored(query: Tensor, key: Tensor, value: Tensor, call: _Call) -> Any:
    """The call's programs; None where tensors have to do it."""
    operands = (query, key, value)
    if not switch.on or query.dtype not in (dtypes.float32, dtypes.float64) or (active and is_intercepted() and thread.recorder is None):
        return None
    for tensor in operands:
        array = tensor._array
        if tensor.__class__ not in (Tensor, Parameter) or array.__class__ is not np.ndarray or tensor.dtype is not query.dtype:
            return None
        if not array.size or tensor._has_tangent:
            return None
    mask = call.block_mask
    mask_mod = None if mask is None or mask.mask_mod is noop_mask else mask.mask_mod
    block_size = (1, 1) if mask is None else (mask.BLOCK_SIZE[0], mask.BLOCK_SIZE[1])
    needs = grad_enabled() and any(tensor.requires_grad for tensor in operands)
    sizes = (query.size(0), query.size(1), query.size(2), key.size(2))
    return _scores().scored_call(call.score_mod, mask_mod, call.states, block_size, query._array.dtype, sizes, needs)


def _fused(query: Tensor, key: Tensor, value: Tensor, call: _Call) -> tuple[Tensor, Tensor] | None:
    """The result and the logarithms by kernels; None where there are none for it."""
    halves = query.dtype in dtypes.REDUCED and query.dtype is key.dtype is value.dtype
    wide = tuple([tensor.float() if halves else tensor for tensor in (query, key, value)])
    made = _scored(wide[0], wide[1], wide[2], call)
    if made is None:
        return None
    scored, learned = made
    heads, shared = query.size(1), key.size(1)
    if heads != shared:  # heads of queries that share keys
        wide = wide[0].unflatten(1, (shared, heads // shared)), wide[1].unsqueeze(2), wide[2].unsqueeze(2)
    out, sums = _Fused.apply(*wide, call, scored, *learned)
    out, sums = (out.flatten(1, 2), sums.flatten(1, 2)) if heads != shared else (out, sums)
    return out.to(query.dtype), ops.where(sums == math.inf, -math.inf, sums)


# -- checks ----------------------------------------------------------------------------------------------------------------------------
def check_heads(heads: int, shared: int, enable_gqa: bool) -> None:
    """Complain about numbers of heads, of queries and of keys, that do not fit."""
    if not enable_gqa and heads != shared:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={shared}. "
            "Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and heads % shared:
        raise ValueError(f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={shared}.")


def _check(query: Any, key: Any, value: Any, enable_gqa: bool) -> None:
    if not query.device.type == key.device.type == value.device.type:
        raise ValueError(
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{query.device}, key.device: {key.device}, and value.device: {value.device} instead."
        )
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    check_heads(query.size(-3), key.size(-3), enable_gqa)
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got E={query.size(-1)} and E={key.size(-1)}."
        )
    if key.shape[:-1] != value.shape[:-1]:
        count = math.prod(key.shape[:-2])
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{count}, {key.size(-2)}] but got: "
            f"[{math.prod(value.shape[:-2])}, {value.size(-2)}]: keys and values differ in batches, heads or number."
        )


def _check_batches(query: Any, key: Any, block_mask: Any) -> None:
    batches, shared = query.size(0), key.size(0)
    if batches == shared:
        return
    if block_mask is None:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but got block_mask=None, "
            f"Bq={batches}, and Bkv={shared}."
        )
    if block_mask.kv_num_blocks.size(0) != batches:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or block_mask and query to have the same batch size, "
            f"but got Bq={batches}, Bkv={shared}, B_block_mask={block_mask.kv_num_blocks.size(0)}."
        )


def _check_mask(block_mask: BlockMask, length: int, keys: int) -> None:
    rows, columns = block_mask.shape[-2:]
    start = f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={length} and kv_len={keys}. "
    if length > rows or keys > columns:
        raise ValueError(
            f"{start}As the block mask was created for a smaller length than you're using it for, you likely need to create a new block "
            "mask."
        )
    if length < rows or keys < columns:
        raise ValueError(
            f"{start}As the block mask was created for a larger length than you're using it for, you can either 1. create a new block mask "
            "with the correct length, or 2. 'adjust' the existing block mask to the correct length by calling block_mask._adjust(q_len, "
            "kv_len). This essentially 'crops' the block mask to the upper left corner, which does not work for all mask_mods!"
        )


def _states_of(block_mask: BlockMask | None, batches: int, heads: int) -> np.ndarray | None:
    """States of a mask's blocks; None for a mask of one block, as there is where none is given."""
    if block_mask is None or block_mask.BLOCK_SIZE[0] >= _LARGE_SPARSE_BLOCK_SIZE:
        return None
    return block_mask.states()[:batches, :heads]


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention whose scores a function changes, and whose mask is one by blocks.

    Args:
        query: ``(B, Hq, L, E)``.
        key: ``(B, Hkv, S, E)``.
        value: ``(B, Hkv, S, Ev)``.
        score_mod: of a score and the numbers of its batch, head, query and key, all 0-d tensors, the score that counts. It may use
            tensors from elsewhere, which get gradients, too.
        block_mask: of ``create_block_mask``; blocks that it leaves out are not computed.
        scale: factor of the scores before ``score_mod``; ``1 / sqrt(E)`` when None.
        enable_gqa: let heads of ``query`` share those of ``key`` and ``value``, whose number divides its own.
        return_lse: as ``return_aux=AuxRequest(lse=True)``, the logarithms as they are; deprecated.
        kernel_options: sizes for kernels of GPUs; nothing follows from them.
        return_aux: what to return beside.
    Returns:
        ``(B, Hq, L, Ev)``, zeros for a query that sees nothing; with ``return_aux`` an ``AuxOutput`` behind it, whose ``lse`` is
        ``(B, Hq, L)``, minus infinity for such a query.
    Raises:
        ValueError: shapes that do not fit, also those of the mask; both ``return_lse`` and ``return_aux``.
        NotImplementedError: operands without four dimensions; ``max_scores``.
    Gradient: for query, key, value and what ``score_mod`` uses.
    Source: torch.nn.attention.flex_attention.flex_attention. Dong et al. 2024.
    Example:
        >>> query, key, value = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), torch.eye(3).expand(1, 2, 3, 3)
        >>> nearest = lambda score, b, h, q, kv: score - (q - kv).abs() * (h + 1)
        >>> nn.attention.flex_attention.flex_attention(query, key, value, nearest)[0, :, 0]
        tensor([[0.6652, 0.2447, 0.0900],
                [0.8668, 0.1173, 0.0159]])
    """
    _check(query, key, value, enable_gqa)
    _check_batches(query, key, block_mask)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        text = "return_lse is deprecated and will be removed in v2.10. Please use return_aux=AuxRequest(lse=True) instead."
        warn_once("flex_attention", text, FutureWarning)
    if return_aux is not None and return_aux.max_scores:
        raise NotImplementedError("Returning max scores is not supported on CPU/MPS.")
    if block_mask is not None and block_mask.BLOCK_SIZE[0] < _LARGE_SPARSE_BLOCK_SIZE:
        _check_mask(block_mask, query.size(2), key.size(2))
    if block_mask is not None and not callable(block_mask.mask_mod):
        raise TypeError(f"{type(block_mask.mask_mod).__name__!r} object is not callable: the mask has no mask_mod")
    scale = 1.0 / math.sqrt(query.size(-1) or 1) if scale is None else scale
    call = _Call(score_mod, block_mask, _states_of(block_mask, query.size(0), query.size(1)), float(scale))
    made = _fused(query, key, value, call)
    if made is None:
        groups = query.size(1) // key.size(1)
        if groups > 1:
            key, value = (tensor.repeat_interleave(groups, 1) for tensor in (key, value))
        made = _attended(query, key, value, call)
    out, log_sums = _in_order_of(made[0], query), made[1]
    if return_lse:
        return out, log_sums
    return out if return_aux is None else (out, AuxOutput(log_sums if return_aux.lse else None))


def _in_order_of(out: Tensor, query: Tensor) -> Tensor:
    """The result with its dimensions in memory as those of the query."""
    steps = query.stride()
    order = sorted(range(4), key=lambda dim: (-steps[dim], dim))
    if out.permute(order).is_contiguous():
        return out
    return out.permute(order).contiguous().permute([order.index(dim) for dim in range(4)])
