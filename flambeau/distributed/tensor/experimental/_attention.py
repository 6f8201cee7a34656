"""Attention over sequences that lie in parts on several processes. Source: torch.distributed.tensor.experimental.context_parallel.

A process computes the rows of attention that belong to its part of the sequence. Under a causal mask rows at the end look at more than
rows at the beginning do. So of 2n pieces each of n processes has one from either end, and all have the same work:

    piece      0  1  2  3  4  5  6  7
    process    0  1  2  3  3  2  1  0
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .... import ops
from ....autograd.grad_mode import no_grad
from ....core.calls.function_modes import TorchFunctionMode
from ....core.dtype import bool_
from ....core.tensor import Tensor
from ....nn import functional as F
from ...nn import functional

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


class _RotateMethod(enum.Enum):
    ALL_TO_ALL = 1
    ALL_GATHER = 2


@dataclass
class _ContextParallelOptions:
    """Ways to divide sequences, and to exchange keys and values; programs may set ``enable_load_balance``."""

    convert_to_f32: bool = True
    enable_load_balance: bool = True
    rotate_method: _RotateMethod = _RotateMethod.ALL_GATHER


_cp_options = _ContextParallelOptions()


def set_rotate_method(rotate_method: str) -> None:
    """The way in which keys and values come to all processes.

    Args:
        rotate_method: ``"allgather"``.
    Raises:
        NotImplementedError: ``"alltoall"``, by which each process would have one part of them at a time.
    Source: torch.distributed.tensor.experimental._attention.set_rotate_method.
    Example:
        >>> from flambeau.distributed.tensor.experimental._attention import set_rotate_method
        >>> set_rotate_method("allgather")
    """
    if rotate_method != "allgather":
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
    _cp_options.rotate_method = _RotateMethod.ALL_GATHER


def _pieces_of(rank: int, size: int) -> list[int]:
    """The numbers of the pieces of a sequence that a process has."""
    return [rank, 2 * size - 1 - rank] if _cp_options.enable_load_balance else [rank]


def _pieces(size: int) -> int:
    return 2 * size if _cp_options.enable_load_balance else size


def _checked(tensors: Sequence[Tensor], dims: Sequence[int], size: int) -> None:
    for tensor, dim in zip(tensors, dims, strict=True):
        if tensor.shape[dim] % size:
            raise ValueError(f"context_parallel: expected a sequence of a multiple of {size} elements, got {tensor.shape[dim]}")


class _Attention(TorchFunctionMode):
    """Has ``scaled_dot_product_attention`` look at the keys and values of all processes."""

    def __init__(self, mesh: Any) -> None:
        super().__init__()
        self.group, self.rank, self.size = mesh.get_group(), mesh.get_local_rank(), mesh.size()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention and self.size > 1:
            return self.attention(*args, **kwargs)
        if func is F.multi_head_attention_forward and self.size > 1:
            body = inspect.unwrap(func)
            given = inspect.signature(body).bind(*args, **kwargs)
            given.apply_defaults()
            if given.arguments["need_weights"]:
                raise NotImplementedError("context_parallel: multi_head_attention_forward with need_weights is not supported")
            with self:  # which sees the attention within
                return body(*args, **kwargs)
        return func(*args, **kwargs)

    def attention(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
        **others: Any
    ) -> Tensor:  # fmt: skip
        """The rows of attention of this process's part."""
        if attn_mask is not None:
            raise NotImplementedError("context_parallel: scaled_dot_product_attention with attn_mask is not supported")
        if not is_causal:
            keys, values = (ops.cat(functional.all_gather(each.contiguous(), self.group), -2) for each in (key, value))
            return F.scaled_dot_product_attention(query, keys, values, None, dropout_p, **others)
        keys, values = (self._in_order(each) for each in (key, value))
        own = _pieces_of(self.rank, self.size)
        rows = []
        for piece, part in zip(own, query.chunk(len(own), -2), strict=True):
            length = part.shape[-2]
            end = (piece + 1) * length
            mask = ops.ones((length, end), dtype=bool_, device=part.device).tril(end - length)
            rows.append(F.scaled_dot_product_attention(part, keys[..., :end, :], values[..., :end, :], mask, dropout_p, **others))
        return ops.cat(rows, -2)

    def _in_order(self, part: Tensor) -> Tensor:
        """The whole sequence of which each process has a part."""
        return _joined(list(functional.all_gather(part.contiguous(), self.group)), -2)


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    """The sequence whose parts the processes have."""
    size = len(parts)
    pieces: dict[int, Tensor] = {}
    for rank, part in enumerate(parts):
        own = _pieces_of(rank, size)
        pieces.update(zip(own, part.chunk(len(own), dim), strict=True))
    return ops.cat([pieces[i] for i in range(len(pieces))], dim)


@contextmanager
def context_parallel(
    mesh: Any, *, buffers: Sequence[Tensor] | None = None, buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:  # fmt: skip
    """A ``with`` block in which sequences are divided among processes, and attention looks at all of them.

    Args:
        mesh: the processes, a mesh of one dimension.
        buffers: tensors that become this process's part of them inside of the block: inputs, targets, tables by position.
        buffer_seq_dims: of each, the dimension of the sequence.
        no_restore_buffers: those that stay a part after the block.
    Returns: a context manager.
    Raises:
        ValueError: other numbers of dimensions than of tensors, tensors that are not among the buffers, or a length that cannot be divided.
        NotImplementedError: attention with a mask of the caller's, or whose weights are wanted.
    Source: torch.distributed.tensor.experimental.context_parallel; Liu et al. 2023, ring attention.
    Example:
        >>> from flambeau.distributed.tensor.experimental import context_parallel
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> x = torch.arange(4)
        >>> with context_parallel(torch.distributed.init_device_mesh("cpu", (1,)), buffers=[x], buffer_seq_dims=[0]):
        ...     x.shape
        torch.Size([4])
        >>> torch.distributed.destroy_process_group()
    """
    given, dims, kept = list(buffers or ()), list(buffer_seq_dims or ()), no_restore_buffers or set()
    if len(given) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    ids = {id(buffer) for buffer in given}
    if any(id(buffer) not in ids for buffer in kept):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    mode = _Attention(mesh)
    count = _pieces(mode.size)
    if mode.size > 1:
        _checked(given, dims, count)
    restored = []
    with no_grad():
        for buffer, dim in zip(given, dims, strict=True) if mode.size > 1 else ():
            if id(buffer) not in {id(each) for each in kept}:
                restored.append((buffer, buffer.data))
            pieces = buffer.detach().chunk(count, dim)
            buffer.data = ops.cat([pieces[i] for i in _pieces_of(mode.rank, mode.size)], dim)
    try:
        with mode:
            yield
    finally:
        for buffer, whole in restored:
            buffer.data = whole


def context_parallel_unshard(mesh: Any, buffers: Sequence[Tensor], seq_dims: Sequence[int], load_balancer: Any = None) -> list[Tensor]:
    """The sequences whose parts the processes have.

    Args:
        mesh: the processes.
        buffers: this process's parts.
        seq_dims: of each, the dimension of the sequence.
        load_balancer: not supported.
    Returns: a list of whole tensors, without gradients.
    Raises:
        NotImplementedError: ``load_balancer``.
    Source: torch.distributed.tensor.experimental._attention.context_parallel_unshard.
    Example:
        >>> from flambeau.distributed.tensor.experimental._attention import context_parallel_unshard
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> context_parallel_unshard(torch.distributed.init_device_mesh("cpu", (1,)), [torch.arange(4)], [0])
        [tensor([0, 1, 2, 3])]
        >>> torch.distributed.destroy_process_group()
    """
    if load_balancer is not None:
        raise NotImplementedError("context_parallel_unshard: load_balancer is not supported")
    if mesh.size() == 1:
        return [buffer.detach() for buffer in buffers]
    with no_grad():
        group = mesh.get_group()
        return [
            _joined(list(functional.all_gather(buffer.detach().contiguous(), group)), dim)
            for buffer, dim in zip(buffers, seq_dims, strict=True)
        ]
