"""Placements of a tensor on one dimension of a mesh of processes: in parts, whole everywhere, or as terms of a reduction.

Parts are those of ``torch.chunk``: all but the last have ``ceil(size / processes)`` rows, the last ones may be smaller or empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """Base of the placements.

    Source: torch.distributed.tensor.placement_types.Placement.
    Example:
        >>> from flambeau.distributed.tensor import Placement, Shard
        >>> isinstance(Shard(0), Placement)
        True
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether the tensor lies in parts, of dimension ``dim`` if that is given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether every process has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether processes have terms of a reduction, of ``reduce_op`` if that is given."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has one part of dimension ``dim``.

    Args:
        dim: the dimension that is divided.
    Source: torch.distributed.tensor.placement_types.Shard.
    Example:
        >>> from flambeau.distributed.tensor import Shard
        >>> Shard(0), str(Shard(1)), Shard.local_shard_size_and_offset(5, 2, 1)
        (Shard(dim=0), 'S(1)', (2, 3))
    """

    dim: int

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Size and beginning of a process's part.

        Args:
            curr_local_size: size of the whole dimension.
            num_chunks: number of processes.
            rank: the process.
        Returns:
            Both as ints; an empty part begins at the end.
        """
        chunk = -(-curr_local_size // num_chunks)
        begin = min(curr_local_size, chunk * rank)
        return min(curr_local_size, begin + chunk) - begin, begin

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, repr=False)
class _StridedShard(Shard):
    """Parts of what a later dimension of the mesh has divided before: FSDP over parameters that are divided already.

    Args:
        dim: the dimension that is divided.
        split_factor: into how many parts the later dimensions of the mesh have divided it.
    Source: torch.distributed.tensor.placement_types._StridedShard.
    Example:
        >>> from flambeau.distributed.tensor.placement_types import _StridedShard
        >>> _StridedShard(0, split_factor=2)
        _StridedShard(dim=0, sf=2)
    """

    split_factor: int = 1

    def __init__(self, dim: int, *, split_factor: int) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has the whole tensor.

    Source: torch.distributed.tensor.placement_types.Replicate.
    Example:
        >>> from flambeau.distributed.tensor import Replicate
        >>> Replicate(), Replicate().is_replicate()
        (Replicate(), True)
    """

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each process has a term; the tensor is what ``reduce_op`` makes of all terms.

    Args:
        reduce_op: ``"sum"``, ``"avg"``, ``"product"``, ``"max"`` or ``"min"``.
    Source: torch.distributed.tensor.placement_types.Partial.
    Example:
        >>> from flambeau.distributed.tensor import Partial
        >>> Partial(), str(Partial("avg"))
        (Partial(sum), 'P(avg)')
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


@dataclass(frozen=True)
class _MaskPartial(Partial):
    """Rows of a table that is divided by rows: processes without a row have zeros in its place. Made by ``embedding`` alone.

    Source: torch.distributed.tensor.placement_types._MaskPartial.
    Example:
        >>> from flambeau.distributed.tensor.placement_types import _MaskPartial
        >>> _MaskPartial().is_partial("sum")
        True
    """

    def __repr__(self) -> str:
        return "MaskPartial()"


def normalized(placements: Any, ndim: int, tensor_ndim: int) -> tuple[Placement, ...]:
    """Placements for each dimension of a mesh, all replicated where None are given, with dimensions counted from the front.

    Raises:
        ValueError: another number than the mesh has dimensions.
        IndexError: a dimension that the tensor has not.
    """
    chosen = tuple([Replicate()] * ndim if placements is None else placements)
    if len(chosen) != ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: {len(chosen)}, ndim: {ndim}."
        )
    result: list[Placement] = []
    for placement in chosen:
        if isinstance(placement, Shard) and placement.dim < 0:
            placement = Shard(placement.dim + tensor_ndim)
        if isinstance(placement, Shard) and not 0 <= placement.dim < tensor_ndim:
            raise IndexError(f"{placement!r}: expected a dimension of a tensor with {tensor_ndim} dimensions")
        result.append(placement)
    return tuple(result)
