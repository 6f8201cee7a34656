"""From one placement to another, one dimension of the mesh after the other.

Where several dimensions of the mesh divide one dimension of the tensor, the later ones divide the parts of the earlier ones. So before an
earlier one changes, the later ones are made whole, and they divide again afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...autograd.function import Function
from ...core.tensor import Tensor
from ...nn import functional
from . import _collectives as collectives
from ._spec import DTensorSpec, order_of
from .placement_types import Partial, Placement, Replicate, Shard


def padded(tensor: Tensor, dim: int, size: int) -> Tensor:
    """``tensor`` with zeros behind it in a dimension."""
    lacking = size - tensor.shape[dim]
    return tensor if lacking == 0 else functional.pad(tensor, [0, 0] * (tensor.dim() - 1 - dim) + [0, lacking])


def chunk_size(size: int, count: int) -> int:
    """Rows of all parts but the last."""
    return -(-size // count)


class _Dimension:
    """One dimension of a mesh, and the size that the tensor has as a whole in its eyes."""

    def __init__(self, mesh: Any, index: int) -> None:
        self.count, self.rank, self.group = mesh.size(index), mesh.get_coordinate()[index], mesh.get_group(index)

    def own(self, tensor: Tensor, dim: int) -> Tensor:
        """This process's part of a whole."""
        size, begin = Shard.local_shard_size_and_offset(tensor.shape[dim], self.count, self.rank)
        return tensor.narrow(dim, begin, size).contiguous()

    def whole(self, tensor: Tensor, dim: int, size: int) -> Tensor:
        """All parts behind each other."""
        parts = collectives.all_gather(padded(tensor, dim, chunk_size(size, self.count)), self.group)
        joined = parts.flatten(0, 1) if dim == 0 else ops.cat(list(parts), dim)
        return joined if joined.shape[dim] == size else joined.narrow(dim, 0, size).contiguous()

    def reduced(self, tensor: Tensor, placement: Partial) -> Tensor:
        return collectives.all_reduce(tensor, placement.reduce_op, self.group)

    def reduced_part(self, tensor: Tensor, placement: Partial, dim: int) -> Tensor:
        """This process's part of the reduction."""
        size, step = tensor.shape[dim], chunk_size(tensor.shape[dim], self.count)
        parts = ops.stack(padded(tensor, dim, step * self.count).split(step, dim) if step else [tensor] * self.count)
        own, _ = Shard.local_shard_size_and_offset(size, self.count, self.rank)
        return collectives.reduce_scatter(parts, placement.reduce_op, self.group).narrow(dim, 0, own).contiguous()

    def exchanged(self, tensor: Tensor, dim: int, size: int, other: int) -> Tensor:
        """A part of dimension ``other`` instead of one of ``dim``, whose size as a whole is ``size``."""
        step = chunk_size(tensor.shape[other], self.count)
        if not step or not size:
            return self.own(self.whole(tensor, dim, size), other)
        own, _ = Shard.local_shard_size_and_offset(tensor.shape[other], self.count, self.rank)
        filled = padded(padded(tensor, dim, chunk_size(size, self.count)), other, step * self.count)
        parts = collectives.all_to_all(ops.stack(filled.split(step, other)), self.group)
        return ops.cat(list(parts), dim).narrow(dim, 0, size).narrow(other, 0, own).contiguous()

    def term(self, tensor: Tensor, placement: Partial) -> Tensor:
        """A term of the reduction that gives ``tensor``, which every process has."""
        if placement.reduce_op == "sum":
            return tensor / self.count if tensor.is_floating_point() or self.rank == 0 else ops.zeros_like(tensor)
        if placement.reduce_op == "product":
            raise NotImplementedError("Replicate to Partial('product') is not supported")
        return tensor

    def moved(self, tensor: Tensor, source: Placement, target: Placement, size: int) -> Tensor:
        """A process's tensor under another placement.

        Args:
            size: of the dimension that ``source`` divides, as a whole.
        """
        if isinstance(source, Shard):
            if isinstance(target, Shard):
                return self.exchanged(tensor, source.dim, size, target.dim)
            tensor, source = self.whole(tensor, source.dim, size), Replicate()
        if isinstance(source, Partial):
            if isinstance(target, Shard):
                return self.reduced_part(tensor, source, target.dim)
            tensor = self.reduced(tensor, source)
        if isinstance(target, Shard):
            return self.own(tensor, target.dim)
        return self.term(tensor, target) if isinstance(target, Partial) else tensor


def redistributed(local: Tensor, spec: DTensorSpec, target: Sequence[Placement]) -> Tensor:
    """A process's part of the tensor under other placements."""
    current, wanted = list(spec.placements), list(target)
    mesh = spec.mesh
    if mesh.get_coordinate() is None or current == wanted:
        return local

    def size_for(index: int) -> int:
        """The size that the dimension which ``current[index]`` divides has before that."""
        dim = current[index].dim  # type: ignore[attr-defined]
        size = spec.shape[dim]
        for i in order_of(current):
            if i == index:
                break
            if current[i].is_shard(dim):
                size, _ = Shard.local_shard_size_and_offset(size, mesh.size(i), mesh.get_coordinate()[i])
        return size

    def change(index: int, placement: Placement) -> None:
        nonlocal local
        source = current[index]
        if source != placement:
            size = size_for(index) if isinstance(source, Shard) else 0
            local = _Dimension(mesh, index).moved(local, source, placement, size)
            current[index] = placement

    for index in reversed(order_of(current)):
        if _is_in_the_way(current, wanted, index):
            change(index, Replicate())
    for index in order_of(wanted):
        change(index, wanted[index])
    return local


def _is_in_the_way(current: list[Placement], wanted: list[Placement], index: int) -> bool:
    """Whether dimension ``index`` of the mesh divides parts that will change."""
    own, order, later = current[index], order_of(current), order_of(wanted)
    if not isinstance(own, Shard):
        return False
    others = set(order[: order.index(index)]) | set(later[: later.index(index)])
    return any(current[i] != wanted[i] and (current[i].is_shard(own.dim) or wanted[i].is_shard(own.dim)) for i in others) or order != later


def backward_placements(before: Sequence[Placement]) -> tuple[Placement, ...]:
    """Placements of a gradient of a tensor with these: terms of a sum are summed."""
    return tuple([Replicate() if isinstance(placement, Partial) else placement for placement in before])


class Redistribute(Function):
    """``DTensor.redistribute`` on the tape: its gradient goes the way back."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, placements: tuple[Placement, ...], dtype: Any, backward_dtype: Any) -> Any:
        spec = tensor._spec
        ctx.before, ctx.dtype = spec, backward_dtype
        local = tensor._local_tensor
        local = local if dtype is None else local.to(dtype)
        result = redistributed(local, spec, placements)
        made = spec.placed(placements)
        if dtype is not None:
            made = DTensorSpec(made.mesh, made.placements, made.shape, made.stride, dtype)
        return type(tensor)._around(result.view(result.shape) if result is tensor._local_tensor else result, made)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        dtype = ctx.before.dtype if ctx.dtype is None else ctx.dtype
        local = grad._local_tensor.to(dtype)
        target = backward_placements(ctx.before.placements)
        # A whole gradient is not divided into terms: what the tensor's own terms came from takes the whole.
        local = redistributed(local, grad._spec, target).to(ctx.before.dtype)
        return type(grad)._around(local, ctx.before.placed(target)), None, None, None


__all__ = ["Redistribute", "backward_placements", "redistributed"]
