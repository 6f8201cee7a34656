"""Specs of spread tensors, and the arithmetic of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.shape import contiguous_strides
from .placement_types import Placement, Shard, _StridedShard

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DTensorSpec:
    """A tensor's mesh and placements, and its shape, strides and dtype as a whole.

    Source: torch.distributed.tensor._dtensor_spec.DTensorSpec.
    """

    mesh: Any
    placements: tuple[Placement, ...]
    shape: Shape
    stride: Shape
    dtype: Any

    @property
    def device_mesh(self) -> Any:
        return self.mesh

    @property
    def key(self) -> Any:
        """All of it but the mesh, to look things up by."""
        return self.placements, self.shape, self.stride, self.dtype

    def placed(self, placements: Sequence[Placement]) -> DTensorSpec:
        """The same tensor with other placements."""
        return DTensorSpec(self.mesh, tuple(placements), self.shape, self.stride, self.dtype)


def spec_of(
    mesh: Any, placements: Sequence[Placement], shape: Sequence[int], dtype: Any, stride: Sequence[int] | None = None
) -> DTensorSpec:
    """A spec whose tensor lies row by row where no strides are given."""
    sizes = tuple([int(n) for n in shape])
    return DTensorSpec(mesh, tuple(placements), sizes, contiguous_strides(sizes) if stride is None else tuple(stride), dtype)


def order_of(placements: Sequence[Placement]) -> list[int]:
    """Dimensions of the mesh in the order in which they divide the tensor: those that divide what others have divided come last."""
    strided = [i for i, placement in enumerate(placements) if isinstance(placement, _StridedShard)]
    return [i for i in range(len(placements)) if i not in strided] + strided


def local_part(shape: Sequence[int], mesh: Any, placements: Sequence[Placement], coordinate: Sequence[int]) -> tuple[Shape, Shape]:
    """Shape of a process's part of a tensor, and where it begins in each dimension."""
    sizes, begins = list(shape), [0] * len(shape)
    for i in order_of(placements):
        placement = placements[i]
        if isinstance(placement, Shard):
            size, begin = Shard.local_shard_size_and_offset(sizes[placement.dim], mesh.size(i), coordinate[i])
            sizes[placement.dim] = size
            begins[placement.dim] += begin
    return tuple(sizes), tuple(begins)


def compute_local_shape_and_global_offset(global_shape: Sequence[int], mesh: Any, placements: Sequence[Placement]) -> tuple[Shape, Shape]:
    """Shape of this process's part of a tensor, and where it begins.

    Args:
        global_shape: shape of the whole.
        mesh: the processes.
        placements: one for each dimension of the mesh.
    Returns:
        Two tuples; both are of no elements where the process is not in the mesh.
    Source: torch.distributed.tensor._utils.compute_local_shape_and_global_offset.
    """
    coordinate = mesh.get_coordinate()
    return ((0,), ()) if coordinate is None else local_part(global_shape, mesh, placements, coordinate)


def global_shape_of(local: Sequence[int], mesh: Any, placements: Sequence[Placement]) -> Shape:
    """Shape of the whole if all parts have the shape of this one."""
    sizes = list(local)
    for i, placement in enumerate(placements):
        if isinstance(placement, Shard):
            sizes[placement.dim] *= mesh.size(i)
    return tuple(sizes)


def global_stride_of(shape: Shape, local: Any) -> Shape:
    """Strides of the whole whose dimensions follow each other in memory as those of a part."""
    order = sorted(range(len(shape)), key=lambda dim: (-local.stride(dim), dim)) if local.numel() else list(range(len(shape)))
    strides, step = [1] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)
