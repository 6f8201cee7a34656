"""Collectives that return new tensors. Source: torch.distributed._functional_collectives.

PyTorch's start in the background and wait when the result is used. Here they are done when they return, and ``wait_tensor`` has nothing to
wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.tensor import Tensor
from ..ops.joining import cat
from . import collectives, groups
from ._reduce_op import ReduceOp
from .device_mesh import DeviceMesh
from .nn import functional
from .process_group import ProcessGroup

__all__ = [
    "AsyncCollectiveTensor", "all_gather_into_tensor_coalesced", "all_gather_single", "all_gather_single_autograd", "all_gather_tensor",
    "all_gather_tensor_autograd", "all_reduce", "all_reduce_coalesced", "all_to_all_single", "all_to_all_single_autograd", "broadcast",
    "permute_tensor", "reduce_scatter_single", "reduce_scatter_single_autograd", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced", "wait_tensor",
]  # fmt: skip


class AsyncCollectiveTensor(Tensor):
    """PyTorch's results that are not there yet: nothing is one. Source: torch.distributed._functional_collectives."""


def _resolve_group(group: Any, tag: str = "") -> ProcessGroup:
    """The group that is given by itself, its name, its ranks, a mesh of one dimension, or a mesh and a dimension.

    Raises:
        ValueError: no such group, or a mesh of several dimensions.
    """
    if isinstance(group, ProcessGroup) or group is None:
        return groups.resolved(group)
    if isinstance(group, str):
        return groups._resolve_process_group(group)
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    return _of_ranks(group)


def _of_ranks(ranks: Any) -> ProcessGroup:
    lists = ranks if ranks and isinstance(ranks[0], list | tuple) else [ranks]
    own = groups.get_rank()
    wanted = next((list(each) for each in lists if own in each), None)
    found = next((each for each in groups.state.named.values() if each.ranks == wanted), None)
    if found is None:
        raise ValueError(f"no process group of the ranks {wanted}: make it with new_group first")
    return found


def _resolve_group_name(group: Any, tag: str = "") -> str:
    return _resolve_group(group, tag).group_name


_OPS = {
    "sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX,
    "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR,
}  # fmt: skip


def _op(name: Any) -> Any:
    if isinstance(name, ReduceOp):
        return name
    if name.lower() not in _OPS:
        raise ValueError(f"Unknown reduction {name!r}: expected one of {', '.join(_OPS)}")
    return _OPS[name.lower()]


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: it is there.

    Args:
        tensor: a result.
    Source: torch.distributed._functional_collectives.wait_tensor.
    """
    return tensor


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """One rank's tensor on all.

    Args:
        self: of the same size on all ranks.
        src: the source, by its rank among all.
        group: a group, its name or ranks, or a mesh.
    Returns: a new tensor.
    Source: torch.distributed._functional_collectives.broadcast.
    """
    return functional.broadcast(self, src, _resolve_group(group, tag))


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The tensors of all ranks reduced.

    Args:
        self: of the same size on all ranks.
        reduceOp: ``"sum"``, ``"avg"``, ``"max"`` and so on.
        group: a group, its name or ranks, or a mesh.
    Returns: a new tensor.
    Gradient: reduced in the same way.
    Source: torch.distributed._functional_collectives.all_reduce.
    """
    return functional.all_reduce(self, _op(reduceOp), _resolve_group(group, tag))


def all_reduce_coalesced(self: Sequence[Tensor], reduceOp: str, group: Any, tag: str = "") -> list[Tensor]:
    """``all_reduce`` of several tensors.

    Args:
        self: the tensors.
        reduceOp, group: as in ``all_reduce``.
    Returns: a list of new tensors.
    Source: torch.distributed._functional_collectives.all_reduce_coalesced.
    """
    return [all_reduce(each, reduceOp, group, tag) for each in self]


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all ranks, concatenated.

    Args:
        self: of the same size on all ranks.
        gather_dim: along which dimension.
        group: a group, its name or ranks, or a mesh.
    Returns: a new tensor.
    Gradient: the sum of all ranks' of this rank's part.
    Source: torch.distributed._functional_collectives.all_gather_tensor.
    """
    return cat(functional.all_gather(self, _resolve_group(group, tag)), gather_dim)


def all_gather_into_tensor_coalesced(self: Sequence[Tensor], group: Any, tag: str = "") -> list[Tensor]:
    """``all_gather_tensor`` of several tensors along dimension 0.

    Args:
        self: the tensors.
        group: as in ``all_gather_tensor``.
    Returns: a list of new tensors.
    Source: torch.distributed._functional_collectives.all_gather_into_tensor_coalesced.
    """
    return [all_gather_tensor(each, 0, group, tag) for each in self]


def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all ranks reduced, an equal part on each.

    Args:
        self: of the same size on all ranks.
        reduceOp: as in ``all_reduce``.
        scatter_dim: the dimension that is divided.
        group: a group, its name or ranks, or a mesh.
    Returns: a new tensor.
    Gradient: those of all parts, concatenated; of an average divided by the number of ranks.
    Raises:
        AssertionError: the dimension cannot be divided so.
    Source: torch.distributed._functional_collectives.reduce_scatter_tensor.
    """
    pg = _resolve_group(group, tag)
    if self.shape[scatter_dim] % pg.size():
        raise AssertionError(f"input dimension {scatter_dim} ({self.shape[scatter_dim]} must be a multiple of group_size {pg.size()})")
    parts = self.chunk(pg.size(), scatter_dim)
    return functional.reduce_scatter(parts[0], list(parts), _op(reduceOp), pg)


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Tensor]:
    """``reduce_scatter_tensor`` of several tensors.

    Args:
        inputs: the tensors.
        scatter_dim: the dimension for each.
        reduceOp, group: as in ``reduce_scatter_tensor``.
    Returns: a list of new tensors.
    Source: torch.distributed._functional_collectives.reduce_scatter_tensor_coalesced.
    """
    return [reduce_scatter_tensor(each, reduceOp, dim, group, tag) for each, dim in zip(inputs, scatter_dim, strict=True)]


def all_to_all_single(self: Tensor, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = "") -> Tensor:
    """Parts of the tensor to each rank, and a part from each.

    Args:
        self: parts along dimension 0.
        output_split_sizes, input_split_sizes: the parts' sizes; equal ones when None.
        group: a group, its name or ranks, or a mesh.
    Returns: a new tensor.
    Gradient: goes back to where the parts came from.
    Source: torch.distributed._functional_collectives.all_to_all_single.
    """
    pg = _resolve_group(group, tag)
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    like = self.new_empty((rows, *self.shape[1:]))
    return functional.all_to_all_single(like, self, output_split_sizes, input_split_sizes, pg)


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Tensor:
    """The tensor of the rank whose destination this is.

    Args:
        self: of the same size on all ranks.
        src_dst: for each place in the group the place to which its tensor goes: a permutation.
        group: a group, its name or ranks, or a mesh.
    Returns: a new tensor.
    Source: torch.distributed._functional_collectives.permute_tensor.
    """
    pg = _resolve_group(group, tag)
    size, rank = self.numel(), pg.rank()
    sent = [size if place == src_dst[rank] else 0 for place in range(pg.size())]
    received = [size if src_dst[place] == rank else 0 for place in range(pg.size())]
    return all_to_all_single(self.contiguous().view(-1), received, sent, pg).view(self.shape)


all_gather_single = all_gather_tensor_autograd = all_gather_single_autograd = all_gather_tensor
reduce_scatter_single = reduce_scatter_tensor_autograd = reduce_scatter_single_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
all_gather_single_coalesced, reduce_scatter_single_coalesced = all_gather_into_tensor_coalesced, reduce_scatter_tensor_coalesced


def all_gather_tensor_inplace(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False, tag: str = "", gather_dim: int = 0
) -> Tensor:
    """``all_gather_tensor`` into a tensor."""
    if async_op:
        raise AssertionError("Can't remap async version of inplace op to functional collective")
    return output_tensor.copy_(all_gather_tensor(input_tensor, gather_dim, group, tag))


def all_reduce_inplace(tensor: Tensor, op: str = "sum", group: Any = None, async_op: bool = False, tag: str = "") -> Tensor:
    """``all_reduce`` in place."""
    if async_op:
        raise AssertionError("Can't remap async version of inplace op to functional collective")
    collectives.all_reduce(tensor, _op(op), _resolve_group(group, tag))
    return tensor
