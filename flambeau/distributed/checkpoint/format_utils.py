"""Checkpoints from and to files of ``torch.save``."""

from __future__ import annotations

import os
from typing import Any

from ... import serialization
from ._steps import Steps
from .default_planner import _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .state_dict_loader import _load
from .state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]) -> None:
    """Write a checkpoint's values, in whole tensors, as ``torch.save`` does. For one process.

    Args:
        dcp_checkpoint_dir: the checkpoint's folder.
        torch_save_path: the file to be written.
    Source: torch.distributed.checkpoint.format_utils.dcp_to_torch_save.
    Example:
        >>> import os, tempfile
        >>> from flambeau.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save({"a": torch.ones(2)}, os.path.join(folder, "file.pt"))
        ...     torch_save_to_dcp(os.path.join(folder, "file.pt"), os.path.join(folder, "checkpoint"))
        ...     dcp_to_torch_save(os.path.join(folder, "checkpoint"), os.path.join(folder, "again.pt"))
        ...     torch.load(os.path.join(folder, "again.pt"))
        {'a': tensor([1., 1.])}
    """
    state: dict[str, Any] = {}
    _load(state, FileSystemReader(dcp_checkpoint_dir), Steps(None, True), _EmptyStateDictLoadPlanner())
    serialization.save(state, torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]) -> None:
    """Write what a file of ``torch.save`` has as a checkpoint. For one process; the file is read as data.

    Args:
        torch_save_path: the file.
        dcp_checkpoint_dir: the checkpoint's folder.
    Source: torch.distributed.checkpoint.format_utils.torch_save_to_dcp.
    Example:
        >>> from flambeau.distributed.checkpoint.format_utils import torch_save_to_dcp
        >>> torch_save_to_dcp("missing.pt", "checkpoint")
        Traceback (most recent call last):
        FileNotFoundError: [Errno 2] No such file or directory: 'missing.pt'
    """
    save(serialization.load(torch_save_path, weights_only=True), checkpoint_id=dcp_checkpoint_dir, no_dist=True)
