"""``load``: each process reads what it has room for, whatever processes wrote it."""

from __future__ import annotations

import os
from typing import Any

from ._steps import Steps
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .planner import LoadPlan, LoadPlanner
from .state_dict_saver import is_alone
from .stateful import Stateful
from .storage import StorageReader

__all__ = ["load", "load_state_dict"]


def _reader(storage_reader: StorageReader | None, checkpoint_id: Any) -> StorageReader:
    if storage_reader is None:
        if checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specified if storage_reader is None.")
        if not FileSystemReader.validate_checkpoint_id(checkpoint_id):
            raise NotImplementedError(f"load: {checkpoint_id} is not a folder; other places need a storage_reader")
        return FileSystemReader(checkpoint_id)
    storage_reader.reset(checkpoint_id)
    return storage_reader


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None, process_group: Any = None, no_dist: bool = False
) -> None:  # fmt: skip
    """Fill a state with a checkpoint's values.

    Tensors are written in place, and of a ``DTensor`` this process's part, from whatever parts there are. Other values are
    replaced; they are data, as ``torch.load(weights_only=True)`` reads it, and no code of a file runs.

    Args:
        state_dict: names and values to be filled, nested; what has ``load_state_dict`` gets its state by that.
        checkpoint_id: the folder.
        storage_reader: where from instead.
        planner: what; a ``DefaultLoadPlanner`` when None.
        process_group: the processes; all when None.
        no_dist: this process by itself.
    Raises:
        CheckpointException: a process failed: an entry that the checkpoint has not, or of another size, or a damaged file.
        RuntimeError: neither ``checkpoint_id`` nor ``storage_reader``.
    Source: torch.distributed.checkpoint.load.
    Example:
        >>> from flambeau.distributed import checkpoint
        >>> checkpoint.load({})
        Traceback (most recent call last):
        RuntimeError: `checkpoint_id` must be specified if storage_reader is None.
    """
    reader = _reader(storage_reader, checkpoint_id)
    steps = Steps(process_group, is_alone(no_dist, "load"))
    parts = {name: value.state_dict() if isinstance(value, Stateful) else value for name, value in sorted(state_dict.items())}
    _load(parts, reader, steps, planner or DefaultLoadPlanner())
    for name, value in parts.items():
        if isinstance(state_dict[name], Stateful):
            state_dict[name].load_state_dict(value)
        else:
            state_dict[name] = value
    return None


def _load(state_dict: dict[str, Any], reader: StorageReader, steps: Steps, planner: LoadPlanner) -> None:
    metadata = steps.broadcast("read metadata", reader.read_metadata)

    def local_plan() -> LoadPlan:
        planner.set_up_planner(state_dict, metadata, steps.is_coordinator)
        reader.set_up_storage_reader(metadata, steps.is_coordinator)
        return reader.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(planner.create_global_plan(plans))

    plan = steps.reduce_scatter("plan", local_plan, global_plan)
    steps.all_gather("read", lambda: reader.read_data(planner.finish_plan(plan), planner).wait())


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None, *, checkpoint_id: Any = None, storage_reader: StorageReader | None = None, process_group: Any = None
) -> dict[str, Any]:  # fmt: skip
    """A checkpoint's values in whole tensors.

    Args:
        keys: names, or beginnings of names up to a dot; all when None.
        checkpoint_id, storage_reader, process_group: as for :func:`load`.
    """
    chosen = {keys} if isinstance(keys, str) else keys
    result: dict[str, Any] = {}
    steps = Steps(process_group, is_alone(False, "load"))
    _load(result, _reader(storage_reader, checkpoint_id), steps, _EmptyStateDictLoadPlanner(chosen))
    return result


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: StorageReader, process_group: Any = None, coordinator_rank: int = 0, no_dist: bool = False,
    planner: LoadPlanner | None = None
) -> None:  # fmt: skip
    """:func:`load` in PyTorch's first versions.

    Args:
        state_dict, storage_reader, process_group, no_dist, planner: as for :func:`load`.
        coordinator_rank: 0.
    Raises:
        NotImplementedError: another ``coordinator_rank``.
    Source: torch.distributed.checkpoint.load_state_dict.
    Example:
        >>> from flambeau.distributed import checkpoint
        >>> checkpoint.load_state_dict.__name__
        'load_state_dict'
    """
    if coordinator_rank:
        raise NotImplementedError("load_state_dict: coordinator_rank must be 0")
    load(state_dict, storage_reader=storage_reader, process_group=process_group, no_dist=no_dist, planner=planner)
