"""Layouts of the shards of a group: rows of each parameter, or a slice of all parameters in a row.

rows    a: [a0 a1 | a2 .]  b: [b0 | b1]      each process has the same number of rows of each parameter, the last ones may lack some
flat    [a0 a1 a2 b0 | b1 . . .]             each process has the same number of elements of all
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from ... import ops
from ...core.dtype import promote_types
from ...core.tensor import Tensor
from ...nn import Parameter
from ..tensor import DTensor, Shard
from ..tensor._redistribute import chunk_size, padded


class Layout:
    """Arrangement of a group's shards.

    Attributes:
        leaf_count: how many leaves a process has.
    """

    leaf_count: int

    def leaves(self) -> list[Tensor]:
        """The shards that autograd and optimizers see."""
        raise NotImplementedError

    def pack_shards(self, dtype: Any) -> Tensor:
        """This process's elements in a row, as many as every other's."""
        raise NotImplementedError

    def unpack_whole(self, gathered: Tensor) -> list[Tensor]:
        """Whole parameters of ``(processes, elements)``."""
        raise NotImplementedError

    def pack_whole(self, tensors: Sequence[Tensor | None], dtype: Any) -> Tensor:
        """``(processes, elements)`` of whole tensors; without those that are None."""
        raise NotImplementedError

    def unpack_grads(self, own: Tensor, present: list[bool]) -> list[Tensor | None]:
        """Gradients of the leaves, of this process's elements."""
        raise NotImplementedError

    def reduced_entries(self, present: list[bool]) -> list[bool]:
        """The parameters that take part in a reduction, given those that have a gradient here."""
        return present

    def whole_dtype(self, index: int, dtype: Any) -> Any:
        """The dtype that a parameter has as a whole."""
        raise NotImplementedError


class Row:
    """One parameter that is divided by rows of dimension ``dim``.

    Args:
        shape: of what the group gathers; of a parameter that tensor parallelism divides, this process's part.
    """

    def __init__(self, shape: tuple[int, ...], dim: int, count: int, rank: int) -> None:
        self.shape, self.dim, self.count = shape, dim, count
        self.rows = chunk_size(shape[dim], count)
        self.own, self.begin = Shard.local_shard_size_and_offset(shape[dim], count, rank)
        self.moved = (shape[dim], *shape[:dim], *shape[dim + 1 :])  # the divided dimension first
        self.chunk = (self.rows, *self.moved[1:])
        self.elements = math.prod(self.chunk)

    def packed(self, shard: Tensor) -> Tensor:
        return padded(shard.movedim(self.dim, 0), 0, self.rows).reshape(-1)

    def whole(self, parts: Tensor) -> Tensor:
        """The parameter, of ``(processes, elements)``."""
        joined = parts.reshape(self.count * self.rows, *self.moved[1:])[: self.shape[self.dim]]
        return joined.movedim(0, self.dim).contiguous()

    def packed_whole(self, tensor: Tensor) -> Tensor:
        return padded(tensor.movedim(self.dim, 0), 0, self.count * self.rows).reshape(self.count, -1)

    def shard(self, own: Tensor) -> Tensor:
        """This process's rows of its elements."""
        return own.view(self.chunk)[: self.own].movedim(0, self.dim)


class RowLayout(Layout):
    """Each parameter is a ``DTensor`` that is divided by rows.

    Args:
        read: gives the shards, as the modules have them.
        rows: how each parameter is divided.
    """

    def __init__(self, read: Any, rows: list[Row]) -> None:
        self.read, self.rows, self.leaf_count = read, rows, len(rows)
        self.dtypes: list[Any] = []

    def leaves(self) -> list[Any]:
        shards: list[Any] = self.read()
        return shards

    def pack_shards(self, dtype: Any) -> Tensor:
        leaves = self.leaves()
        trained = {leaf.dtype for leaf in leaves if leaf.requires_grad}
        if len(trained) > 1:
            raise AssertionError(f"FSDP expects uniform original parameter dtype but got {trained}")
        shards = [leaf._local_tensor for leaf in leaves]
        self.dtypes = [dtype or shard.dtype for shard in shards]
        common = reduce(promote_types, self.dtypes)
        return ops.cat([row.packed(shard.to(common)) for row, shard in zip(self.rows, shards, strict=True)])

    def whole_dtype(self, index: int, dtype: Any) -> Any:
        return dtype or self.leaves()[index].dtype

    def unpack_whole(self, gathered: Tensor) -> list[Tensor]:
        parts = gathered.split([row.elements for row in self.rows], 1)
        return [row.whole(part).to(dtype) for row, part, dtype in zip(self.rows, parts, self.dtypes, strict=True)]

    def pack_whole(self, tensors: Sequence[Tensor | None], dtype: Any) -> Tensor:
        return ops.cat(
            [row.packed_whole(tensor.to(dtype)) for row, tensor in zip(self.rows, tensors, strict=True) if tensor is not None], 1
        )

    def unpack_grads(self, own: Tensor, present: list[bool]) -> list[Tensor | None]:
        grads: list[Tensor | None] = []
        begin = 0
        for row, leaf, there in zip(self.rows, self.leaves(), present, strict=True):
            if not there:
                grads.append(None)
                continue
            part = row.shard(own[begin : begin + row.elements])
            begin += row.elements
            # A copy: a view would keep the memory of all gradients of the group for the sake of one.
            grads.append(DTensor._around(part.to(leaf.dtype).clone(), leaf._spec))
        return grads


class FlatLayout(Layout):
    """All parameters in a row, of which each process has a slice. A leaf is the slice, or each parameter's piece of it.

    Args:
        shapes: of the whole parameters.
        pieces: whether each parameter's piece is a leaf of its own (``use_orig_params``).
        trainable: whether each parameter requires grad, which a leaf takes over.
    """

    def __init__(self, tensors: Sequence[Tensor], count: int, rank: int, pieces: bool) -> None:
        self.shapes = [tuple(tensor.shape) for tensor in tensors]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.total = sum(self.sizes)
        self.count, self.rank, self.elements = count, rank, max(chunk_size(self.total, count), 1)
        self.pieces = pieces
        self.flat: Any = None
        begin, self.spans = 0, []
        for size in self.sizes:
            first = min(max(begin - rank * self.elements, 0), self.elements)
            last = min(max(begin + size - rank * self.elements, 0), self.elements)
            self.spans.append((first, max(first, last)))
            begin += size
        self.leaf_count = len(self.sizes) if pieces else 1
        self.own: list[Any] = []
        own = self.flattened(list(tensors), tensors[0].dtype)[rank].clone()
        self.adopt(own, [tensor.requires_grad for tensor in tensors])

    def adopt(self, own: Tensor, trainable: list[bool]) -> None:
        """Take ``own`` as this process's slice."""
        if self.pieces:
            self.flat = own
            self.own = [Parameter(own[first:last], needs) for (first, last), needs in zip(self.spans, trainable, strict=True)]
        else:
            self.flat = Parameter(own, any(trainable))
            self.own = [self.flat]

    def leaves(self) -> list[Tensor]:
        return self.own

    def whole_dtype(self, index: int, dtype: Any) -> Any:
        return dtype or self.own[0].dtype

    def flattened(self, tensors: Sequence[Tensor], dtype: Any) -> Tensor:
        """``(processes, elements)`` of whole tensors, with zeros behind them."""
        joined = ops.cat([tensor.detach().reshape(-1).to(dtype) for tensor in tensors])
        return padded(joined, 0, self.count * self.elements).view(self.count, self.elements)

    def joined(self, pieces: Sequence[Tensor]) -> Tensor:
        """This process's slice of pieces, or of the slice itself."""
        return padded(ops.cat([piece.detach().reshape(-1) for piece in pieces]), 0, self.elements)

    def pack_shards(self, dtype: Any) -> Tensor:
        own = self.joined(self.own)
        return own if dtype is None else own.to(dtype)

    def unpack_whole(self, gathered: Tensor) -> list[Tensor]:
        parts = gathered.reshape(-1)[: self.total].split(self.sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def pack_whole(self, tensors: Sequence[Tensor | None], dtype: Any) -> Tensor:
        return self.flattened([tensor for tensor in tensors if tensor is not None], dtype)

    def reduced_entries(self, present: list[bool]) -> list[bool]:
        return [any(present)] * len(present)

    def unpack_grads(self, own: Tensor, present: list[bool]) -> list[Tensor | None]:
        grad = own.to(self.own[0].dtype)
        if not self.pieces:
            return [grad]
        return [grad[first:last].clone() if leaf.requires_grad else None for (first, last), leaf in zip(self.spans, self.own, strict=True)]
