"""Parts of tensors: what a process has of one, to be written or filled."""

from __future__ import annotations

from typing import Any

from ...core.shape import Size
from ...core.tensor import Tensor
from ..tensor import DTensor
from ..tensor._spec import compute_local_shape_and_global_offset
from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from .planner import TensorWriteData, WriteItem, WriteItemType


def chunks(tensor: Any) -> list[ChunkStorageMetadata]:
    """The parts that this process has."""
    if not isinstance(tensor, DTensor):
        return [ChunkStorageMetadata(Size([0] * tensor.dim()), Size(tensor.shape))]
    spec = tensor._spec
    if spec.mesh.get_coordinate() is None:
        return []
    if any(placement.is_partial() for placement in spec.placements):
        raise NotImplementedError("checkpoint: a DTensor with Partial placements cannot be saved or loaded; redistribute it first")
    shape, begin = compute_local_shape_and_global_offset(spec.shape, spec.mesh, spec.placements)
    return [ChunkStorageMetadata(Size(begin), Size(shape))]


def local_of(tensor: Any) -> Tensor:
    """This process's values."""
    local: Tensor = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
    return local.detach()


def write_items(fqn: str, tensor: Any) -> list[WriteItem]:
    """The items that this process could write of a tensor."""
    kind = WriteItemType.SHARD if isinstance(tensor, DTensor) else WriteItemType.TENSOR
    properties = TensorProperties(tensor.dtype, tensor.layout, bool(tensor.requires_grad))
    return [
        WriteItem(MetadataIndex(fqn, chunk.offsets), kind, tensor_data=TensorWriteData(chunk, properties, Size(tensor.shape)))
        for chunk in chunks(tensor)
    ]
