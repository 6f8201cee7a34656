"""The planners that ``save`` and ``load`` use by themselves."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ... import serialization
from ...autograd.grad_mode import no_grad
from ...core.shape import Size
from ...core.tensor import Tensor
from . import _nested
from ._dtensor import chunks, local_of, write_items
from .api import CheckpointException
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata
from .planner import (
    BytesIOWriteData,
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


class DefaultSavePlanner(SavePlanner):
    """Plans ``save``: nested containers are flattened, and what several processes have is written by one.

    Args:
        flatten_state_dict: give each tensor inside of nested containers a name of its own.
        flatten_sharded_tensors: without effect.
        dedup_replicated_tensors: without effect; copies are written once.
        dedup_save_to_lowest_rank: copies are written by the first process that has them, instead of the one that has least to write.
        enable_plan_caching: without effect.
    Source: torch.distributed.checkpoint.DefaultSavePlanner.
    Example:
        >>> from flambeau.distributed.checkpoint import DefaultSavePlanner
        >>> planner = DefaultSavePlanner()
        >>> planner.set_up_planner({"model": {"weight": torch.ones(2)}})
        >>> [item.index.fqn for item in planner.create_local_plan().items]
        ['model.weight']
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False, enable_plan_caching: bool = False
    ) -> None:  # fmt: skip
        self.flatten_state_dict, self.dedup_save_to_lowest_rank = flatten_state_dict, dedup_save_to_lowest_rank
        self.mappings: dict[str, Any] = {}

    def set_up_planner(self, state_dict: Any, storage_meta: Any = None, is_coordinator: bool = False) -> None:
        if self.flatten_state_dict:
            state_dict, self.mappings = _nested.flatten(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        items: list[WriteItem] = []
        for name, value in self.state_dict.items():
            if isinstance(value, Tensor):
                items += write_items(name, value)
            else:
                items.append(WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO, bytes_io_data=BytesIOWriteData(0)))
        self.plan = SavePlan(items, planner_data=self.mappings if self.flatten_state_dict else None)
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans = without_copies(all_plans, self.dedup_save_to_lowest_rank)
        plans, metadata = numbered(plans)
        if self.flatten_state_dict:
            mappings: dict[str, Any] = {}
            for plan in plans:
                mappings.update(plan.planner_data or {})
            metadata.planner_data = mappings
        check(metadata)
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        value = self.state_dict[write_item.index.fqn]
        if isinstance(value, Tensor):
            return local_of(value)
        file = io.BytesIO()
        serialization.save(value, file)
        file.seek(0)
        return file


def without_copies(plans: list[SavePlan], to_first: bool) -> list[SavePlan]:
    """Have each part written by one process: by the first one, or the one that has the fewest bytes to write."""
    owners: dict[MetadataIndex, list[int]] = {}
    sizes: dict[MetadataIndex, int] = {}
    for i, plan in enumerate(plans):
        for item in plan.items:
            owners.setdefault(item.index, []).append(i)
            sizes[item.index] = item.tensor_storage_size() or 1
    loads = [0] * len(plans)
    chosen: dict[MetadataIndex, int] = {}
    for index, candidates in sorted(owners.items(), key=lambda entry: len(entry[1])):
        chosen[index] = candidates[0] if to_first else min(candidates, key=loads.__getitem__)
        loads[chosen[index]] += sizes[index]
    return [replace(plan, items=[item for item in plan.items if chosen[item.index] == i]) for i, plan in enumerate(plans)]


def numbered(plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
    """Plans whose items know which part of their tensor they are, and what the checkpoint has."""
    entries: dict[str, Any] = {}
    result = []
    for plan in plans:
        items = []
        for item in plan.items:
            if item.tensor_data is None:
                entries[item.index.fqn] = BytesStorageMetadata()
                items.append(item)
                continue
            data = item.tensor_data
            entry = entries.setdefault(item.index.fqn, TensorStorageMetadata(data.properties, data.size, []))
            items.append(replace(item, index=MetadataIndex(item.index.fqn, item.index.offset, len(entry.chunks))))
            entry.chunks.append(data.chunk)
        result.append(replace(plan, items=items))
    return result, Metadata(entries)


def check(metadata: Metadata) -> None:
    """Whether the parts of each tensor have as many elements as the whole, and lie inside of it.

    Raises:
        ValueError: they do not.
    """
    for name, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, BytesStorageMetadata):
            continue
        inside = all(
            begin + size <= whole
            for chunk in entry.chunks
            for begin, size, whole in zip(chunk.offsets, chunk.sizes, entry.size, strict=True)
        )
        if not inside or sum(math.prod(chunk.sizes) for chunk in entry.chunks) != math.prod(entry.size):
            raise ValueError(f"Failed to validate global plan: the parts of {name} do not make up its size {tuple(entry.size)}")


class DefaultLoadPlanner(LoadPlanner):
    """Plans ``load``: what this process has of each tensor is filled in place, other objects are replaced.

    Args:
        flatten_state_dict: give each tensor inside of nested containers a name of its own, as ``save`` did.
        flatten_sharded_tensors: without effect.
        allow_partial_load: leave what the checkpoint does not have as it is.
    Source: torch.distributed.checkpoint.DefaultLoadPlanner.
    Example:
        >>> from flambeau.distributed.checkpoint import DefaultLoadPlanner
        >>> DefaultLoadPlanner().allow_partial_load
        False
    """

    def __init__(self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False) -> None:
        self.flatten_state_dict, self.allow_partial_load = flatten_state_dict, allow_partial_load
        self.mappings: dict[str, Any] = {}

    def set_up_planner(self, state_dict: Any, metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        self.original_state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator
        if self.flatten_state_dict:
            state_dict, self.mappings = _nested.flatten(state_dict)
        self.state_dict = state_dict

    def create_local_plan(self) -> LoadPlan:
        if self.metadata is None:
            raise AssertionError("DefaultLoadPlanner: set_up_planner must be called with the checkpoint's metadata first")
        items: list[ReadItem] = []
        for name, value in self.state_dict.items():
            entry = self.metadata.state_dict_metadata.get(name)
            if entry is None:
                if self.allow_partial_load:
                    continue
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            items += read_items(name, value, entry)
        return LoadPlan(items)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name = read_item.dest_index.fqn
        loaded = serialization.load(value, weights_only=True)
        if self.flatten_state_dict:
            _nested.set_at(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.original_state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        target = local_of(self.state_dict[read_item.dest_index.fqn])
        for dim, (begin, size) in enumerate(zip(read_item.dest_offsets, read_item.lengths, strict=True)):
            target = target.narrow(dim, begin, size)
        return target

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Nothing: the tensor was filled in place."""


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Plans loading all of a checkpoint into an empty dictionary, as whole tensors.

    Args:
        keys: names to load, or beginnings of names; all when None.
    """

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.keys = keys

    def set_up_planner(self, state_dict: Any, metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        from ... import ops

        if metadata is None:
            raise AssertionError("_EmptyStateDictLoadPlanner: the checkpoint's metadata is needed")
        flat: dict[str, Any] = {}
        for name, entry in metadata.state_dict_metadata.items():
            if self.keys is not None and not any(name == key or name.startswith(f"{key}.") for key in self.keys):
                continue
            is_tensor = isinstance(entry, TensorStorageMetadata)
            flat[name] = ops.empty(tuple(entry.size), dtype=entry.properties.dtype) if is_tensor else None
        places = metadata.planner_data or {name: (name,) for name in flat}
        state_dict.update(_nested.unflatten(flat, places))
        self.original_state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator
        self.state_dict, self.mappings = flat, places
        self.flatten_state_dict = True


def read_items(name: str, value: Any, entry: Any) -> Iterator[ReadItem]:
    """Items to be read to fill an entry: the overlaps of its parts with those of the checkpoint.

    Raises:
        CheckpointException: the entry is a tensor here and something else there, or its parts leave some of it out.
        ValueError: it is of another size.
    """
    if isinstance(entry, BytesStorageMetadata):
        if isinstance(value, Tensor):
            raise CheckpointException(f"load: {name} is a tensor, but not in the checkpoint", {})
        none = Size([0])
        yield ReadItem(LoadItemType.BYTE_IO, MetadataIndex(name), none, MetadataIndex(name), none, none)
        return
    if not isinstance(value, Tensor):
        raise CheckpointException(f"load: {name} is a tensor in the checkpoint, got {type(value).__name__}", {})
    if tuple(value.shape) != tuple(entry.size):
        raise ValueError(f"Size mismatch between saved {entry.size} and current: {value.shape} for {name}")
    for target in chunks(value):
        items = [item for i, source in enumerate(entry.chunks) for item in _overlap(name, target, source, i)]
        if not make_up(target.sizes, [ChunkStorageMetadata(item.dest_offsets, item.lengths) for item in items]):
            raise CheckpointException(f"load: the checkpoint's parts of {name} do not make up its size {tuple(entry.size)}", {})
        yield from items


def make_up(sizes: Sequence[int], parts: list[ChunkStorageMetadata]) -> bool:
    """Whether each element of a tensor of these sizes lies in one of its parts, and in one alone."""
    parts = [part for part in parts if all(part.sizes)]
    return sum(math.prod(part.sizes) for part in parts) == math.prod(sizes) and not _meet(parts)


def _meet(parts: list[ChunkStorageMetadata]) -> bool:
    """Whether two parts have the same element. In the dimension that has the most parts, few others lie beside one."""
    if len(parts) < 2:
        return False
    dims = range(len(parts[0].sizes))
    along = max(dims, key=lambda dim: len({part.offsets[dim] for part in parts}))
    parts = sorted(parts, key=lambda part: part.offsets[along])
    for i, one in enumerate(parts):
        for other in parts[i + 1 :]:
            if other.offsets[along] >= one.offsets[along] + one.sizes[along]:
                break
            if all(_intersect(one, other, dim) for dim in dims):
                return True
    return False


def _intersect(one: ChunkStorageMetadata, other: ChunkStorageMetadata, dim: int) -> bool:
    begin, other_begin = one.offsets[dim], other.offsets[dim]
    return begin < other_begin + other.sizes[dim] and other_begin < begin + one.sizes[dim]


def _overlap(name: str, target: ChunkStorageMetadata, source: ChunkStorageMetadata, number: int) -> Iterator[ReadItem]:
    to, start, lengths = [], [], []
    for begin, size, other, other_size in zip(target.offsets, target.sizes, source.offsets, source.sizes, strict=True):
        first, last = max(begin, other), min(begin + size, other + other_size)
        if last <= first:
            return
        to.append(first - begin)
        start.append(first - other)
        lengths.append(last - first)
    yield ReadItem(
        LoadItemType.TENSOR, MetadataIndex(name, target.offsets), Size(to), MetadataIndex(name, source.offsets, number), Size(start),
        Size(lengths),
    )  # fmt: skip


def copy_into(target: Tensor, source: Tensor) -> None:
    """Fill a tensor without recording."""
    with no_grad():
        target.copy_(source)
