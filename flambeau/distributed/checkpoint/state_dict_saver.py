"""``save``: all processes write what they have into one checkpoint."""

from __future__ import annotations

import copy
import os
import threading
import warnings
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ... import distributed as dist
from ...core.tensor import Tensor
from ...utils._pytree import tree_map
from ..tensor import DTensor
from ._steps import Steps
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .metadata import Metadata
from .planner import SavePlan, SavePlanner
from .stateful import Stateful
from .storage import StorageWriter

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """Writers that work while the program goes on.

    Source: torch.distributed.checkpoint.state_dict_saver.AsyncCheckpointerType.
    Example:
        >>> from flambeau.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
        >>> AsyncCheckpointerType.THREAD
        <AsyncCheckpointerType.THREAD: 'thread'>
    """

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Result of ``async_save`` with a stager.

    Args:
        staging_completion: done when the state has been copied.
        upload_completion: done when it has been written.
    Source: torch.distributed.checkpoint.state_dict_saver.AsyncSaveResponse.
    Example:
        >>> from flambeau.distributed.checkpoint.state_dict_saver import AsyncSaveResponse
        >>> AsyncSaveResponse(None, None).upload_completion is None
        True
    """

    staging_completion: Any
    upload_completion: Any


def is_alone(no_dist: bool, function: str) -> bool:
    """Whether this process does it by itself."""
    if no_dist or (dist.is_available() and dist.is_initialized()):
        return no_dist
    warnings.warn(
        f"torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to {function} in a single process.",
        stacklevel=3,
    )
    return True


def stateful_parts(state_dict: dict[str, Any]) -> dict[str, Any]:
    """The states of what gives its own; everything else as it is."""
    return {name: value.state_dict() if isinstance(value, Stateful) else value for name, value in state_dict.items()}


def _writer(storage_writer: StorageWriter | None, checkpoint_id: Any) -> StorageWriter:
    if storage_writer is None:
        if checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specified if storage_writer is None.")
        if not FileSystemWriter.validate_checkpoint_id(checkpoint_id):
            raise NotImplementedError(f"save: {checkpoint_id} is not a folder; other places need a storage_writer")
        return FileSystemWriter(checkpoint_id)
    storage_writer.reset(checkpoint_id)
    return storage_writer


def save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None, process_group: Any = None, no_dist: bool = False, use_collectives: bool = True
) -> Metadata:  # fmt: skip
    """Write a checkpoint that PyTorch reads as well, and that any number of processes can load.

    Each process calls it with the same names. Of a ``DTensor`` each writes its part, and copies are written once. The file that
    says what the checkpoint has is written last, so that a checkpoint that was not finished is none.

    Args:
        state_dict: names and values, nested; what has ``state_dict`` is asked for its state.
        checkpoint_id: the folder.
        storage_writer: where to instead.
        planner: what; a ``DefaultSavePlanner`` when None.
        process_group: the processes; all when None.
        no_dist: this process by itself.
        use_collectives: always.
    Returns:
        What the checkpoint has.
    Raises:
        CheckpointException: a process failed.
        RuntimeError: neither ``checkpoint_id`` nor ``storage_writer``.
    Source: torch.distributed.checkpoint.save.
    Example:
        >>> import tempfile, warnings
        >>> from flambeau.distributed import checkpoint
        >>> state = {"weight": torch.ones(2)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = checkpoint.save(state, checkpoint_id=folder, no_dist=True)
        ...     state["weight"].zero_()
        ...     checkpoint.load(state, checkpoint_id=folder, no_dist=True)
        tensor([0., 0.])
        >>> state
        {'weight': tensor([1., 1.])}
    """
    if not use_collectives:
        raise NotImplementedError("save: use_collectives=False is not supported")
    steps = Steps(process_group, is_alone(no_dist, "save"))
    return _save(stateful_parts(state_dict), _writer(storage_writer, checkpoint_id), steps, planner or DefaultSavePlanner())


def _save(state_dict: dict[str, Any], writer: StorageWriter, steps: Steps, planner: SavePlanner) -> Metadata:
    made: list[Metadata] = []

    def local_plan() -> SavePlan:
        planner.set_up_planner(state_dict, storage_meta=writer.storage_meta(), is_coordinator=steps.is_coordinator)
        writer.set_up_storage_writer(steps.is_coordinator)
        return writer.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans: list[SavePlan]) -> list[SavePlan]:
        plans, metadata = planner.create_global_plan(plans)
        made.append(metadata)
        return writer.prepare_global_plan(plans)

    plan = steps.reduce_scatter("plan", local_plan, global_plan)

    def finish(results: list[Any]) -> Metadata:
        writer.finish(made[0], results)
        return made[0]

    result: Metadata = steps.all_reduce("write", lambda: writer.write_data(planner.finish_plan(plan), planner).wait(), finish)
    return result


def _copied(value: Any) -> Any:
    """A copy that later steps do not change."""
    if isinstance(value, DTensor):
        return DTensor._around(value._local_tensor.detach().clone(), value._spec)
    return value.detach().cpu().clone() if isinstance(value, Tensor) else copy.deepcopy(value)


def async_save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None, process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD, async_stager: Any = None, no_dist: bool = False,
    use_collectives: bool = True
) -> Any:  # fmt: skip
    """Copy the state, and write it in a thread while the program goes on.

    The thread meets those of the other processes: pass a ``process_group`` of its own if the program goes on with collectives.

    Args:
        state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist, use_collectives: as for :func:`save`.
        async_checkpointer_type: a thread.
        async_stager: not supported.
    Returns:
        A future of the checkpoint's metadata.
    Raises:
        NotImplementedError: a process instead of a thread, or a stager.
    Source: torch.distributed.checkpoint.async_save.
    Example:
        >>> import tempfile
        >>> from flambeau.distributed import checkpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     list(checkpoint.async_save({"a": torch.ones(2)}, checkpoint_id=folder, no_dist=True).result().state_dict_metadata)
        ['a']
    """
    if async_checkpointer_type is not AsyncCheckpointerType.THREAD:
        raise NotImplementedError("async_save: AsyncCheckpointerType.PROCESS is not supported")
    if async_stager is not None or not use_collectives:
        raise NotImplementedError("async_save: async_stager and use_collectives=False are not supported")
    copied = tree_map(_copied, stateful_parts(state_dict))
    steps = Steps(process_group, is_alone(no_dist, "save"))
    writer = _writer(storage_writer, checkpoint_id)
    done: Future[Metadata] = Future()

    def run() -> None:
        try:
            done.set_result(_save(copied, writer, steps, planner or DefaultSavePlanner()))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="checkpoint").start()
    return done


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: StorageWriter, process_group: Any = None, coordinator_rank: int = 0, no_dist: bool = False,
    planner: SavePlanner | None = None
) -> Metadata:  # fmt: skip
    """:func:`save` in PyTorch's first versions.

    Args:
        state_dict, storage_writer, process_group, no_dist, planner: as for :func:`save`.
        coordinator_rank: 0.
    Returns: the checkpoint's ``Metadata``.
    Raises:
        NotImplementedError: another ``coordinator_rank``.
    Source: torch.distributed.checkpoint.save_state_dict.
    Example:
        >>> from flambeau.distributed import checkpoint
        >>> checkpoint.save_state_dict.__name__
        'save_state_dict'
    """
    if coordinator_rank:
        raise NotImplementedError("save_state_dict: coordinator_rank must be 0")
    return save(state_dict, storage_writer=storage_writer, process_group=process_group, no_dist=no_dist, planner=planner)
