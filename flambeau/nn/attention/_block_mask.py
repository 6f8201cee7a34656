"""Masks of attention by blocks: which blocks of queries and keys are looked at, made of a function of their numbers.

mask_mod          (b, h, q, kv) -> whether query q sees key kv
BlockMask         for each row of blocks: how many are looked at (kv_num_blocks), and which (kv_indices); those of which all is seen
                  apart (full_kv_...); the same by columns for gradients (q_..., full_q_...)
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ... import ops
from ...core import dtype as dtypes
from ...core.tensor import Tensor
from ...func import vmap
from ...ops.padding import pad

__all__ = ["BlockMask", "and_masks", "create_block_mask", "create_mask", "noop_mask", "or_masks"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_LARGE_SPARSE_BLOCK_SIZE = 1 << 30
_STRIP = 1 << 24  # elements of a mask that are made at a time
_NAMES = (
    "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices q_num_blocks q_indices full_q_num_blocks full_q_indices dq_write_order "
    "dq_write_order_full dq_kv_order"
).split()


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask that lets everything through.

    Args:
        batch, head, token_q, token_kv: 0-d integers.
    Returns: a 0-d True.
    Source: torch.nn.attention.flex_attention.noop_mask.
    Example:
        >>> nn.attention.flex_attention.noop_mask(*torch.zeros(4, dtype=torch.int64))
        tensor(True)
    """
    return batch.new_ones(size=(), dtype=dtypes.bool_, device=batch.device)


def _combined(start: Callable[[Tensor], Tensor], combine: Callable[[Any, Any], Any], mask_mods: tuple[Any, ...], name: str) -> Any:
    if not all(callable(mask) for mask in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def combined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = start(b)
        for mask in mask_mods:
            result = combine(result, mask(b, h, q_idx, kv_idx))
        return result

    combined.__name__ = name
    return combined


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """The mask of what all of several masks let through.

    Args:
        *mask_mods: functions of batch, head, query and key.
    Returns: such a function.
    Raises:
        RuntimeError: one is no function.
    Source: torch.nn.attention.flex_attention.and_masks.
    Example:
        >>> flex = nn.attention.flex_attention
        >>> window = flex.and_masks(lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: q - kv < 2)
        >>> flex.create_mask(window, 1, 1, 3, 3, "cpu")[0, 0].int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]], dtype=torch.int32)
    """
    return _combined(lambda b: b.new_ones((), dtype=dtypes.bool_), lambda a, b: a & b, mask_mods, "and_mask")


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """The mask of what any of several masks lets through.

    Args:
        *mask_mods: functions of batch, head, query and key.
    Returns: such a function.
    Raises:
        RuntimeError: one is no function.
    Source: torch.nn.attention.flex_attention.or_masks.
    Example:
        >>> flex = nn.attention.flex_attention
        >>> prefix = flex.or_masks(lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: kv < 2)
        >>> flex.create_mask(prefix, 1, 1, 3, 3, "cpu")[0, 0].int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    return _combined(lambda b: b.new_zeros((), dtype=dtypes.bool_), lambda a, b: a | b, mask_mods, "or_mask")


# -- functions over all places ---------------------------------------------------------------------------------------------------------
def over_places(function: Callable[..., Any], takes_score: bool) -> Callable[..., Any]:
    """A function of one place as one of all: of scores (B, H, Q, KV) if it takes one, and of the four dimensions' numbers."""
    own = (0,) if takes_score else ()
    for place in (3, 2, 1, 0):  # the innermost mapping is over keys, the outermost over batches
        function = vmap(function, in_dims=own + tuple([0 if i == place else None for i in range(4)]))
    return function


def is_score_mod(function: Callable[..., Any]) -> bool:
    """Whether a function takes five arguments, a score first; with four it is a mask.

    Raises:
        AssertionError: another number.
    """
    parameters = inspect.signature(function).parameters.values()
    count = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return count == 5


def _device_of(device: Any) -> Any:
    if device is not None:
        return device
    from ... import accelerator

    found = accelerator.current_accelerator(check_available=True)
    return "cpu" if found is None else found


def create_mask(mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """The mask of a function, element by element.

    Args:
        mod_fn: a ``mask_mod`` of batch, head, query and key, or a ``score_mod``, which lets through what it does not make minus infinity.
        B, H: numbers of batches and heads; 1 when None.
        Q_LEN, KV_LEN: numbers of queries and keys.
        device: where; the accelerator, if there is one, when None.
    Returns:
        ``(B, H, Q_LEN, KV_LEN)``, bool.
    Raises:
        AssertionError: a function of another number of arguments.
    Source: torch.nn.attention.flex_attention.create_mask.
    Example:
        >>> nn.attention.flex_attention.create_mask(lambda b, h, q, kv: q >= kv, 1, 1, 2, 3, "cpu")
        tensor([[[[ True, False, False],
                  [ True,  True, False]]]])
    """
    return _mask_rows(mod_fn, 1 if B is None else B, 1 if H is None else H, range(Q_LEN), KV_LEN, _device_of(device))


def _mask_rows(mod_fn: Callable[..., Any], B: int, H: int, rows: range, KV_LEN: int, device: Any) -> Tensor:
    places = [ops.arange(B, device=device), ops.arange(H, device=device), ops.arange(rows.start, rows.stop, device=device)]
    places.append(ops.arange(KV_LEN, device=device))
    if is_score_mod(mod_fn):
        scores = over_places(mod_fn, True)(ops.zeros(B, H, len(rows), KV_LEN, device=device), *places)
        return ops.isneginf(scores).logical_not()
    mask: Tensor = over_places(mod_fn, False)(*places)
    return mask


# -- rows of blocks --------------------------------------------------------------------------------------------------------------------
def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Of rows of zeros and ones: how many ones each has, and first their places, then those of the zeros."""
    dense = dense.to(dtypes.int32)
    order = dense.argsort(dim=-1, descending=True, stable=True)
    return dense.sum(dim=-1).to(dtypes.int32).contiguous(), order.to(dtypes.int32).contiguous()


def _dense(num_blocks: Tensor, indices: Tensor) -> Tensor:
    """The other way."""
    columns = ops.arange(indices.shape[-1], dtype=dtypes.int32, device=indices.device)
    listed = (columns < num_blocks.unsqueeze(-1)).to(dtypes.int32)
    return ops.zeros_like(indices).scatter_add(-1, indices.to(dtypes.int64), listed.to(indices.dtype)).clamp(max=1).to(dtypes.int32)


def _transposed(num_blocks: Tensor | None, indices: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The same blocks, listed by columns."""
    if num_blocks is None or indices is None:
        return None, None
    return _ordered(_dense(num_blocks, indices).transpose(-2, -1))


def _sliced_mask_mod_error(*args: Any, **kwargs: Any) -> Any:
    """``mask_mod`` of a part of a mask, whose rows have other numbers."""
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the mask_mod attribute is reset. You must set "
        "it from the original BlockMask's mask_mod: a part of a mask begins at other queries, of which the original function knows nothing."
    )


def _both(name: str, first: Any, second: Any) -> None:
    if (first is None) != (second is None):
        raise AssertionError(f"{name}_num_blocks and {name}_indices must be both provided or omitted")


class BlockMask:
    """A mask of an attention's scores by blocks: those that are looked at.

    Args:
        seq_lengths: numbers of queries and keys.
        kv_num_blocks: ``(B, H, rows)``, how many blocks each row of blocks has, of which only some elements are seen.
        kv_indices: ``(B, H, rows, columns)``, their numbers first.
        full_kv_num_blocks, full_kv_indices: the same of blocks that are seen whole; both or neither.
        q_num_blocks, q_indices, full_q_num_blocks, full_q_indices: the same by columns.
        BLOCK_SIZE: queries and keys of a block.
        mask_mod: says what is seen in blocks that are not whole.
        dq_write_order, dq_write_order_full, dq_kv_order, dq_kv_order_spt: kept for kernels of GPUs; nothing here follows from them.
    Raises:
        AssertionError: one of two tensors that belong together is missing. RuntimeError: ``kv_indices`` with less than two dimensions.
    Source: torch.nn.attention.flex_attention.BlockMask.
    Example:
        >>> mask = nn.attention.flex_attention.create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 6, 6, "cpu", BLOCK_SIZE=2)
        >>> for line in mask.to_string().splitlines():
        ...     print(line.rstrip())
        (0, 0)
        ██
        ████
        ██████
        >>> mask.kv_num_blocks, mask.full_kv_num_blocks
        (tensor([[[1, 1, 1]]], dtype=torch.int32), tensor([[[0, 1, 2]]], dtype=torch.int32))
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: Callable[..., Any] = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        for name, value in (("kv_num_blocks", kv_num_blocks), ("kv_indices", kv_indices)):
            if value is None:
                raise AssertionError(f"{name} must be provided")
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        _both("full_kv", full_kv_num_blocks, full_kv_indices)
        _both("full_q", full_q_num_blocks, full_q_indices)
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Callable[..., Any] | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Any = None,
    ) -> BlockMask:
        """A mask of its blocks row by row.

        Args:
            kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices: see the class.
            BLOCK_SIZE: one size, or queries and keys of a block.
            mask_mod: what is seen in blocks that are not whole; everything when None.
            seq_lengths: numbers of queries and keys; those of all blocks when None.
            compute_q_blocks: whether to list the blocks by columns, too.
            dq_write_order, dq_write_order_full, dq_kv_order: see the class.
        Raises:
            RuntimeError: ``kv_indices`` with less than two dimensions. AssertionError: one of ``full_kv_...`` is missing.
        Source: torch.nn.attention.flex_attention.BlockMask.from_kv_blocks.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        _both("full_kv", full_kv_num_blocks, full_kv_indices)
        sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else (BLOCK_SIZE[0], BLOCK_SIZE[1])
        q_blocks, full_q_blocks = (
            _transposed(*pair) if compute_q_blocks else (None, None)
            for pair in ((kv_num_blocks, kv_indices), (full_kv_num_blocks, full_kv_indices))
        )
        lengths = seq_lengths or (kv_indices.shape[-2] * sizes[0], kv_indices.shape[-1] * sizes[1])
        has_tensor = isinstance(dq_kv_order, Tensor)
        return cls(
            (lengths[0], lengths[1]), kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, q_blocks[0], q_blocks[1],
            full_q_blocks[0], full_q_blocks[1], BLOCK_SIZE=sizes, mask_mod=mask_mod or noop_mask, dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full, dq_kv_order=dq_kv_order if has_tensor else None,
            dq_kv_order_spt=None if has_tensor else dq_kv_order,
        )  # fmt: skip

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """All that the mask is made of, in the order of the class's arguments, ``mask_mod`` last; ``flatten``: pairs of sizes apart."""
        tensors = [getattr(self, name) for name in _NAMES]
        lengths, sizes = (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        return (*lengths, *tensors, self.dq_kv_order_spt, *sizes, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the mask: batches, heads, queries, keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Number of scores, looked at or not."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Percentage of the scores that are not computed; blocks that reach over the end count whole, so that it may be negative."""
        blocks = int(self.kv_num_blocks.sum()) + (0 if self.full_kv_num_blocks is None else int(self.full_kv_num_blocks.sum()))
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """``(B, H, rows, columns)`` of int32: 1 for blocks that are looked at."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return dense
        return dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def states(self) -> np.ndarray:
        """``(B, H, rows, columns)`` of bytes: 0 for blocks that are not looked at, 2 for those that are seen whole, 1 for others."""
        states = np.zeros(self.kv_indices.shape, np.uint8)
        for value, num_blocks, indices in zip((1, 2), self._by_rows()[::2], self._by_rows()[1::2], strict=True):
            if indices is not None:
                counts, columns = num_blocks.cpu().numpy(), indices.cpu().numpy()
                listed = np.arange(columns.shape[-1]) < counts[..., None]
                states[(*listed.nonzero()[:-1], columns[listed])] = value
        return states

    def to(self, device: Any) -> BlockMask:
        """The mask with its tensors on a device."""
        moved: dict[str, Any] = {name: None if (value := getattr(self, name)) is None else value.to(device) for name in _NAMES}
        return type(self)(
            self.seq_lengths, **moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod, dq_kv_order_spt=self.dq_kv_order_spt
        )

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads and rows of blocks, all dimensions kept; its ``mask_mod`` has to be set anew."""
        index = index if isinstance(index, tuple) else (index,)
        parts = tuple([slice(i, i + 1 or None) if isinstance(i, int) else i for i in index])[: self.kv_num_blocks.dim()]
        listed = [None if value is None else value[parts] for value in self._by_rows()]
        return self._with_rows(listed, _sliced_mask_mod_error, self.seq_lengths)

    def _by_rows(self) -> list[Any]:
        return [self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices]

    def _with_rows(self, listed: list[Any], mask_mod: Callable[..., Any], lengths: tuple[int, int]) -> BlockMask:
        """A mask of other blocks of the same sizes."""
        return self.from_kv_blocks(
            listed[0], listed[1], listed[2], listed[3], BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=mask_mod, seq_lengths=lengths,
            compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left corner of the mask."""
        rows, columns = (-(-length // size) for length, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE, strict=True))

        listed: list[Any] = []
        for num_blocks, indices in zip(self._by_rows()[::2], self._by_rows()[1::2], strict=True):
            listed += (None, None) if indices is None else _ordered(_dense(num_blocks, indices)[..., :rows, :columns])
        return self._with_rows(listed, self.mask_mod, (new_q_len, new_kv_len))

    # -- printing -----------------------------------------------------------------------------------------------------------------
    def to_string(self, grid_size: Any = (20, 20), limit: int = 4) -> str:
        """A drawing for each batch and head: dark where all blocks are looked at, light where some are.

        Args:
            grid_size: at most so many rows and columns of signs; -1: one for each block.
            limit: how many drawings.
        """
        dense = self.to_dense().cpu().numpy()
        lines: list[str] = []
        for number, place in enumerate(itertools.product(*map(range, dense.shape[:-2]))):
            if number == limit:
                lines += [
                    "...",
                    "To print out more, set BlockMask.to_string(limit=N)",
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or head",
                ]
                break
            lines += [str(place), *_drawn(dense[place], grid_size), ""]
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        lines = []
        for name in _NAMES[:8]:
            value = getattr(self, name)
            if value is not None:
                lines.append(f"{name}={value.shape}")
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%"]
        lines.append(f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}")
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def _drawn(dense: np.ndarray, grid_size: Any) -> Iterator[str]:
    rows, columns = dense.shape
    if grid_size == -1:
        grid_size = (rows, columns)
    high, wide = (-(-n // size) for n, size in zip(dense.shape, (grid_size,) * 2 if isinstance(grid_size, int) else grid_size, strict=True))
    for top in range(0, rows, high):
        parts = [dense[top : top + high, left : left + wide] for left in range(0, columns, wide)]
        yield "".join(["██" if part.all() else "░░" if part.any() else "  " for part in parts])


# -- made of a function ----------------------------------------------------------------------------------------------------------------
def create_block_mask(
    mask_mod: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The mask by blocks of a function.

    Args:
        mask_mod: says of a batch, a head, a query and a key, 0-d integers, whether the query sees the key.
        B, H: numbers of batches and heads; 1, which serves all, when None.
        Q_LEN, KV_LEN: numbers of queries and keys.
        device: where; the accelerator, if there is one, when None.
        BLOCK_SIZE: queries and keys of a block, or one size for both.
        _compile: as PyTorch's; makes no difference to the mask.
        separate_full_blocks: whether blocks that are seen whole are listed apart.
        compute_dq_write_order, dq_kv_order: for kernels of GPUs; the first must be False, the second then says nothing.
    Returns: a ``BlockMask`` of shape ``(B, H, Q_LEN, KV_LEN)``.
    Raises:
        AssertionError: ``mask_mod`` does not take four arguments. NotImplementedError: ``compute_dq_write_order``.
    Source: torch.nn.attention.flex_attention.create_block_mask.
    Example:
        >>> flex = nn.attention.flex_attention
        >>> mask = flex.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 512, 512, "cpu")
        >>> mask.shape, f"{mask.sparsity():.1f}%"
        ((1, 1, 512, 512), '37.5%')
        >>> query = torch.ones(2, 4, 512, 8)
        >>> flex.flex_attention(query, query, query, block_mask=mask).shape
        torch.Size([2, 4, 512, 8])
    """
    if is_score_mod(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    if compute_dq_write_order:
        raise NotImplementedError("create_block_mask: compute_dq_write_order, which a kernel of GPUs needs, is not supported")
    B, H, where = 1 if B is None else B, 1 if H is None else H, _device_of(device)
    sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else (BLOCK_SIZE[0], BLOCK_SIZE[1])
    columns = -(-KV_LEN // sizes[1])
    together = max(1, _STRIP // max(1, B * H * columns * sizes[0] * sizes[1])) * sizes[0]
    counts = []
    for start in range(0, max(Q_LEN, 1), together):
        rows = range(start, min(start + together, Q_LEN))
        mask = _mask_rows(mask_mod, B, H, rows, KV_LEN, where).expand(B, H, len(rows), KV_LEN)
        high = -(-len(rows) // sizes[0])
        above, beside = high * sizes[0] - len(rows), columns * sizes[1] - KV_LEN
        mask = pad(mask, (0, beside, 0, above)) if above or beside else mask
        counts.append(mask.reshape(B, H, high, sizes[0], columns, sizes[1]).sum(dim=(-3, -1)))
    seen = ops.cat(counts, 2)
    full = seen == sizes[0] * sizes[1]
    some = (seen > 0) & full.logical_not() if separate_full_blocks else seen > 0
    whole = _ordered(full) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(*_ordered(some), whole[0], whole[1], sizes, mask_mod, (Q_LEN, KV_LEN))


def _create_empty_block_mask(query: Tensor, key: Tensor) -> BlockMask:
    """The mask of one block, of which everything is seen."""
    one, none = (make(1, 1, 1, dtype=dtypes.int32, device=query.device) for make in (ops.ones, ops.zeros))
    return BlockMask.from_kv_blocks(one, none.unsqueeze(-1), BLOCK_SIZE=_LARGE_SPARSE_BLOCK_SIZE, seq_lengths=(1, 1))
