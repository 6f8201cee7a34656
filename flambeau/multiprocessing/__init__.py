"""Python's ``multiprocessing``, with tensors passed on by handle: sender and receiver have the same memory.

Everything of the standard module is here under its name. A tensor that is sent is moved to shared memory first, with all its views, and the
receiver gets its descriptor: nothing is copied, and each side sees what the other writes. No lock is taken by that.

Hogwild training is several processes that step optimizers of their own on parameters that they share, without a lock::

    def train(rank, model):
        torch.set_num_threads(1)  # the processes share the processor
        torch.manual_seed(rank)  # forked ones would draw the same numbers
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for inputs, targets in batches():
            optimizer.zero_grad()  # gradients are each process's own
            loss(model(inputs), targets).backward()
            optimizer.step()  # in place: all see it

    if __name__ == "__main__":
        model = Net().share_memory()
        mp.spawn(train, args=(model,), nprocs=4)

Source: torch.multiprocessing.
"""

# ruff: noqa: F401, F403 - PyTorch has these names here

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import *

from ..core import late as _late
from ..core.arrays.shared_memory import process as _process
from . import _atfork, reductions
from ._prctl import _get_thread_name, _prctl_pr_set_pdeathsig, _set_thread_name
from .context import default as _default
from .reductions import init_reductions
from .spawn import (
    ENV_VAR_PARALLEL_START,
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

_late.adopt(__name__)

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]
__all__ += multiprocessing.__all__

globals().update({name: getattr(_default, name) for name in ("get_context", "Pipe", "Pool", "Queue", "JoinableQueue", "SimpleQueue")})

_STRATEGIES = frozenset({"file_system"} if sys.platform in ("darwin", "win32") else {"file_descriptor", "file_system"})
_process.spares_descriptors = "file_descriptor" not in _STRATEGIES


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how memory of the CPU is shared from now on. Neither way leaves anything behind, whatever process dies.

    Args:
        new_strategy: "file_descriptor": each storage has memory of its own, for as long as a process has it, and needs a descriptor for
            it. "file_system": storages of up to a megabyte are pieces of larger memory, so that thousands of tensors need few descriptors;
            a piece's memory is given back with the last piece beside it. PyTorch gives memory names in /dev/shm for that.
    Raises:
        AssertionError: any other word.
    Source: torch.multiprocessing.set_sharing_strategy.
    Example:
        >>> before = torch.multiprocessing.get_sharing_strategy()
        >>> torch.multiprocessing.set_sharing_strategy("file_system")
        >>> torch.multiprocessing.set_sharing_strategy(before)
    """
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {set(_STRATEGIES)}")
    _process.spares_descriptors = new_strategy == "file_system"


def get_sharing_strategy() -> str:
    """Strategy to share the CPU's memory: "file_descriptor" or "file_system".

    Returns: a string.
    Source: torch.multiprocessing.get_sharing_strategy.
    Example:
        >>> torch.multiprocessing.get_sharing_strategy() in torch.multiprocessing.get_all_sharing_strategies()
        True
    """
    return "file_system" if _process.spares_descriptors else "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The words that ``set_sharing_strategy`` knows on this system.

    Returns: a set of strings.
    Source: torch.multiprocessing.get_all_sharing_strategies.
    Example:
        >>> sorted(torch.multiprocessing.get_all_sharing_strategies())
        ['file_descriptor', 'file_system']
    """
    return set(_STRATEGIES)
