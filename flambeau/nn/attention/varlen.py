"""``torch.nn.attention.varlen``: attention over sequences of several lengths, packed one behind the other.

    cu_seq   0        3              8    10         the sequences' bounds
    query   [q q q | q q q q q | q q]                (T, heads, E)

Each sequence is a call of its own, without padding. PyTorch has kernels for GPUs only; here it is for every device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from ... import ops
from ...core import dtype as dtypes
from ...core.tensor import Tensor
from .. import functional as F
from .flex_attention import check_heads

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """Request for results of ``varlen_attn`` beside its first.

    Attributes:
        lse: the logarithms of sums of exponentials of scores.
    Source: torch.nn.attention.varlen.AuxRequest.
    Example:
        >>> torch.nn.attention.varlen.AuxRequest(lse=True)
        AuxRequest(lse=True)
    """

    lse: bool = False


def _pages(pool: Tensor, table: Tensor, count: int) -> Tensor:
    """The first ``count`` rows of the pages that a row of a table lists."""
    size = pool.size(1)
    listed = table[: -(-count // size)].to(dtypes.int64)
    return pool[listed].flatten(0, 1)[:count]


def _sequences(
    key: Tensor, value: Tensor, bounds: list[int], counts: list[int] | None, block_table: Tensor | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Keys and values of each sequence: ``(S, heads, E)``."""
    for i, (start, stop) in enumerate(itertools.pairwise(bounds)):
        if block_table is not None and counts is not None:
            yield _pages(key, block_table[i], counts[i]), _pages(value, block_table[i], counts[i])
        else:
            stop = stop if counts is None else start + counts[i]
            yield key[start:stop], value[start:stop]


def _window(length: int, keys: int, window: tuple[int, int], device: Any) -> Tensor | None:
    """A mask of the keys that each query sees, the last query the last key; None for all."""
    left, right = window
    if left < 0 and right < 0:
        return None
    distance = ops.arange(keys, device=device) - (ops.arange(length, device=device) + (keys - length)).unsqueeze(1)
    seen = ops.ones(length, keys, dtype=dtypes.bool_, device=device)
    if left >= 0:
        seen = seen & (distance >= -left)
    return seen & (distance <= right) if right >= 0 else seen


def _log_sums(query: Tensor, key: Tensor, seen: Tensor | None, scale: float) -> Tensor:
    """``(L, heads)``."""
    groups = query.size(0) // key.size(0)
    scores = query.float() @ key.repeat_interleave(groups, 0).float().mT * scale
    if seen is not None:
        scores = scores.masked_fill(seen.logical_not(), -math.inf)
    return scores.logsumexp(-1).t()


def _packed(parts: list[Tensor], bounds: list[int], zeros: Tensor) -> Tensor:
    """The sequences' parts one behind the other, and zeros in rows that belong to none."""
    return ops.cat([zeros[: bounds[0]], *parts, zeros[bounds[-1] :]])


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """Attention of each of several packed sequences.

    Args:
        query: ``(T, Hq, E)``.
        key, value: ``(S, Hkv, E)``, or with ``block_table`` pages ``(pages, rows, Hkv, E)``.
        cu_seq_q, cu_seq_k: ``(N + 1,)``, where sequences begin, and the end; ``cu_seq_k`` may be None with ``block_table``.
        max_q, max_k: the longest sequences, by which kernels of GPUs divide their work; nothing follows from them.
        return_aux: ``AuxRequest(lse=True)``: return the logarithms of sums, too.
        scale: factor of the scores; ``1 / sqrt(E)`` when None.
        window_size: how many keys to the left and to the right a query sees, -1 for all; the last query stands at the last key.
        enable_gqa: let heads of queries share those of keys and values.
        seqused_k: ``(N,)``, how many of a sequence's keys take part.
        block_table: ``(N, pages)``, the pages of each sequence; with ``seqused_k``.
        num_splits: how kernels of GPUs divide the keys; nothing follows from it.
    Returns:
        ``(T, Hq, E)``, zeros in rows before and behind all sequences; with ``return_aux`` also ``(T, Hq)``.
    Raises:
        ValueError: numbers of heads that differ, without ``enable_gqa``, or of sequences; ``block_table`` without ``seqused_k``; neither
            ``cu_seq_k`` nor ``block_table``; a ``window_size`` of other than two.
    Gradient: for query, key and value.
    Source: torch.nn.attention.varlen.varlen_attn.
    Example:
        >>> query = torch.ones(5, 2, 4)
        >>> bounds = torch.tensor([0, 2, 5], dtype=torch.int32)
        >>> value = torch.arange(5.0).reshape(5, 1, 1).expand(5, 2, 4)
        >>> torch.nn.attention.varlen.varlen_attn(query, query, value, bounds, bounds, 3, 3, window_size=(-1, 0))[:, 0, 0]
        tensor([0.0000, 0.5000, 2.0000, 2.5000, 3.0000])
    """
    check_heads(query.size(1), key.size(-2), enable_gqa)
    if block_table is not None and seqused_k is None:
        raise ValueError("varlen_attn: block_table needs seqused_k, the numbers of rows that are used")
    if block_table is None and cu_seq_k is None:
        raise ValueError("varlen_attn: expected cu_seq_k, where sequences of keys begin, or block_table, their pages")
    if len(window_size) != 2:
        raise ValueError(f"window_size must have length 2, got {len(window_size)}")
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    bounds = cu_seq_q.tolist()
    keys = cu_seq_k.tolist() if cu_seq_k is not None else bounds
    if len(keys) != len(bounds):
        raise ValueError(f"varlen_attn: expected as many sequences of keys as of queries ({len(bounds) - 1}), got {len(keys) - 1}")
    counts = None if seqused_k is None else seqused_k.tolist()
    outs, sums = [], []
    for (start, stop), (k, v) in zip(itertools.pairwise(bounds), _sequences(key, value, keys, counts, block_table), strict=True):
        q, k, v = (each.transpose(0, 1) for each in (query[start:stop], k, v))
        seen = _window(q.size(1), k.size(1), window_size, query.device)
        out = F.scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), seen, scale=scale, enable_gqa=enable_gqa)
        outs.append(out[0].transpose(0, 1))
        if return_aux is not None and return_aux.lse:
            sums.append(_log_sums(q, k, seen, scale))
    result = _packed(outs, bounds, query.new_zeros(*query.shape[:2], value.size(-1)))
    if return_aux is None or not return_aux.lse:
        return result
    return result, _packed(sums, bounds, query.new_zeros(query.shape[:2], dtype=dtypes.float32))


def varlen_attn_out(
    out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """``varlen_attn`` whose result is written into ``out``.

    Args:
        out: ``(T, Hq, E)``, for the result; without gradients.
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, return_aux, scale, window_size, enable_gqa, seqused_k, block_table, num_splits:
            see ``varlen_attn``.
    Returns: ``out``; with ``return_aux`` also ``(T, Hq)``.
    Source: torch.nn.attention.varlen.varlen_attn_out.
    Example:
        >>> query, bounds = torch.ones(2, 1, 4), torch.tensor([0, 2])
        >>> out = torch.empty(2, 1, 4)
        >>> torch.nn.attention.varlen.varlen_attn_out(out, query, query, query, bounds, bounds, 2, 2) is out
        True
    """
    made = varlen_attn(
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, return_aux=return_aux, scale=scale, window_size=window_size,
        enable_gqa=enable_gqa, seqused_k=seqused_k, block_table=block_table, num_splits=num_splits,
    )  # fmt: skip
    if isinstance(made, tuple):
        return out.copy_(made[0]), made[1]
    return out.copy_(made)
