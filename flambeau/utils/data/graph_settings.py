"""Settings of a loader in all pipes that a pipe is made of: shares, shuffling, seeds."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

from ...core.random.generator import Generator
from .datapipes.iter.sharding import SHARDING_PRIORITIES
from .graph import DataPipe, DataPipeGraph, traverse_dps
from .sampler import random_seed

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[DataPipe]:
    """The pipes of a graph, each once, those that come last first.

    Args:
        graph: from ``traverse_dps``.
    Returns: a list of pipes.
    Source: torch.utils.data.graph_settings.get_all_graph_pipes.
    Example:
        >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper("ab").map(str)
        >>> len(get_all_graph_pipes(torch.utils.data.graph.traverse_dps(pipe)))
        2
    """
    pipes: dict[int, DataPipe] = {}

    def collect(graph: DataPipeGraph) -> None:
        for key, (pipe, sources) in graph.items():
            if key not in pipes:
                pipes[key] = pipe
                collect(sources)

    collect(graph)
    return list(pipes.values())


def _has_method(pipe: Any, name: str) -> bool:
    return inspect.ismethod(getattr(pipe, name, None))


def apply_sharding(
    datapipe: DataPipe, num_of_instances: int, instance_id: int, sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT
) -> DataPipe:
    """Tell the pipes that divide their samples (``sharding_filter``) which part is theirs.

    Args:
        datapipe: the last pipe.
        num_of_instances: among how many the samples are divided.
        instance_id: which of them this is, from 0.
        sharding_group: the group that is meant.
    Returns: ``datapipe``.
    Raises:
        RuntimeError: one of them behind another one.
    Source: torch.utils.data.graph_settings.apply_sharding.
    Example:
        >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(4)).sharding_filter().map(str)
        >>> list(apply_sharding(pipe, 2, 0))
        ['0', '2']
    """

    def apply(graph: DataPipeGraph, before: Any) -> None:
        for pipe, sources in graph.values():
            divides = _has_method(pipe, "apply_sharding")
            if divides:
                if before is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and will cause data loss. "
                        f"Sharding already applied to {before} while trying to apply to {pipe}"
                    )
                few = len(inspect.signature(pipe.apply_sharding).parameters) < 3
                pipe.apply_sharding(*(num_of_instances, instance_id, sharding_group)[: 2 if few else 3])
            apply(sources, pipe if divides else before)

    apply(traverse_dps(datapipe), None)
    return datapipe


def _shufflers(pipes: list[DataPipe]) -> list[Any]:
    return [pipe for pipe in pipes if _has_method(pipe, "set_shuffle") and _has_method(pipe, "set_seed")]


def apply_shuffle_settings(datapipe: DataPipe, shuffle: bool | None = None) -> DataPipe:
    """Switch the shuffling of all pipes on or off, or leave it for None; a shuffling pipe is added where there is none.

    Args:
        datapipe: the last pipe.
        shuffle: on, off, or None.
    Returns: the last pipe, which may be a new one.
    Source: torch.utils.data.graph_settings.apply_shuffle_settings.
    Example:
        >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(4)).shuffle()
        >>> list(apply_shuffle_settings(pipe, False))
        [0, 1, 2, 3]
    """
    if shuffle is None:
        return datapipe
    shufflers = _shufflers(get_all_graph_pipes(traverse_dps(datapipe)))
    if not shufflers and shuffle:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. "
            "Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: DataPipe, rng: Generator) -> DataPipe:
    """Give each pipe that draws random numbers (with a method ``set_seed``) a seed.

    Args:
        datapipe: the last pipe.
        rng: a generator; one number is drawn for each such pipe.
    Returns: ``datapipe``.
    Source: torch.utils.data.graph_settings.apply_random_seed.
    Example:
        >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(4)).shuffle()
        >>> apply_random_seed(pipe, torch.Generator()) is pipe
        True
    """
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has_method(pipe, "set_seed"):
            pipe.set_seed(random_seed(rng))
    return datapipe


def apply_shuffle_seed(datapipe: DataPipe, rng: Generator) -> DataPipe:
    """The former name of :func:`apply_random_seed`.

    Args:
        datapipe, rng: as for ``apply_random_seed``.
    Returns: ``datapipe``.
    Source: torch.utils.data.graph_settings.apply_shuffle_seed.
    Example:
        >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(4)).shuffle()
        >>> apply_shuffle_seed(pipe, torch.Generator()) is pipe
        True
    """
    warnings.warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. Please use `apply_random_seed` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)


def seed_pipes(datapipe: DataPipe, seed: int) -> None:
    """Give all pipes the seeds of one pass, the same in all workers."""
    apply_random_seed(datapipe, Generator().manual_seed(seed))
