"""Position of a loader in its dataset: what ``DataLoader.state_dict`` gives, and how a loader goes on from there."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import streams
from .fetch import own_state

_FORMAT = 1


@dataclass
class Progress:
    """Progress of one pass over a loader. The loader keeps it when the iterator is gone."""

    start: tuple[Any, ...]  # the program's streams before the pass
    samplers: list[dict[str, Any]]  # their generators and own states then
    seeded: bool  # whether the base seed was drawn in this pass
    base_seed: int = 0
    yielded: int = 0
    position: int = 0  # of the next batch in order; what failed counts here
    finished: bool = False
    ahead: set[int] = field(default_factory=set)  # batches that came before their turn
    next_worker: int = 0
    worker_starts: dict[int, bytes] = field(default_factory=dict)
    workers: dict[int, bytes] = field(default_factory=dict)  # by number: state after the last batch that was given out
    fetcher: Any = None  # of a pass without workers


def samplers_of(loader: Any) -> list[Any]:
    """The samplers of a loader, outermost first; what holds its generator comes last."""
    samplers: list[Any] = []
    sampler = loader._index_sampler
    while sampler is not None and all(sampler is not other for other in samplers):
        samplers.append(sampler)
        sampler = getattr(sampler, "sampler", None)
    return [*samplers, loader]


def noted_samplers(loader: Any) -> list[dict[str, Any]]:
    """The state of each sampler, and of the loader's generator."""
    states = []
    for owner in samplers_of(loader):
        state: dict[str, Any] = {"generators": streams.generators_of(owner)}
        if owner is not loader:
            state["state"] = own_state(owner)
            if isinstance(getattr(owner, "epoch", None), int):
                state["epoch"] = owner.epoch
        states.append(state)
    return states


def put_back_samplers(loader: Any, states: list[dict[str, Any]]) -> None:
    """Let the samplers go on from where they were.

    Raises:
        ValueError: the loader has other samplers.
    """
    owners = samplers_of(loader)
    if len(owners) != len(states):
        raise ValueError(
            f"load_state_dict: expected a loader with {len(states) - 1} nested samplers as the one that was saved, got {len(owners) - 1}"
        )
    for owner, state in zip(owners, states, strict=True):
        streams.set_generators_of(owner, state["generators"])
        if state.get("state") is not None:
            owner.load_state_dict(state["state"])
        if "epoch" in state:
            owner.epoch = state["epoch"]


def state_dict(loader: Any, progress: Progress | None) -> dict[str, Any]:
    """The state of a loader that is in the middle of a pass, or between two."""
    state: dict[str, Any] = {"_format": _FORMAT, "_num_workers": loader.num_workers, "_deterministic": loader.deterministic}
    if progress is None or progress.finished:
        keeps_workers = progress is not None and loader.persistent_workers
        resting = {number: rested(worker) for number, worker in progress.workers.items()} if progress and keeps_workers else {}
        return state | {
            "_num_yielded": 0,
            "_iterator_finished": progress is not None,
            "_samplers": noted_samplers(loader),
            "_seeded": loader.deterministic or not keeps_workers,
            "_base_seed": 0 if progress is None else progress.base_seed,
            "_workers": _worker_states(loader, resting),
            "_fetcher": None,
        }
    return state | {
        "_num_yielded": progress.yielded,
        "_position": progress.position,
        "_ahead": sorted(progress.ahead),
        "_iterator_finished": False,
        "_samplers": progress.samplers,
        "_start": streams.plain(progress.start),
        "_seeded": progress.seeded,
        "_base_seed": progress.base_seed,
        "_next_worker": progress.next_worker,
        "_workers": _worker_states(loader, progress.workers),
        "_fetcher": None if progress.fetcher is None else progress.fetcher.state(),
    }


def rested(pickled: bytes) -> bytes:
    """The state of a worker between two passes: its random numbers go on, the dataset starts again."""
    state = pickle.loads(pickled)
    return pickle.dumps({"start": state["now"], "now": None, "fetcher": None}, 5)


def _worker_states(loader: Any, workers: dict[int, bytes]) -> list[Any]:
    return [_plain_worker(workers.get(number)) for number in range(loader.num_workers)]


def _plain_worker(pickled: bytes | None) -> Any:
    if pickled is None:
        return None
    state = pickle.loads(pickled)
    return state | {name: None if state[name] is None else streams.plain(state[name]) for name in ("start", "now")}


def worker_state(state: Any) -> Any:
    """Part of a state of :func:`state_dict` from which a worker goes on."""
    if state is None:
        return None
    return state | {name: None if state[name] is None else streams.from_plain(state[name]) for name in ("start", "now")}


def fetcher_state(state: Any) -> Any:
    """The dataset's part of the state of a pass without workers, or with one: only these have one state."""
    if state is None or "_start" not in state:
        return None
    if len(state["_workers"]) == 1 and state["_workers"][0] is not None:
        return state["_workers"][0]["fetcher"]
    return state["_fetcher"]


def check_state(loader: Any, state: Any) -> None:
    """Whether a loader can go on from a state.

    Raises:
        TypeError: no dictionary.
        ValueError: a dictionary of something else, or of a loader with other workers.
    """
    if not isinstance(state, dict):
        raise TypeError(f"load_state_dict: expected a dict, got {type(state).__name__}")
    if state.get("_format") != _FORMAT:
        raise ValueError("load_state_dict: expected what DataLoader.state_dict gave, got a dict without its '_format'")
    if state["_deterministic"] != loader.deterministic:
        raise ValueError(
            f"load_state_dict: the state is of a loader with deterministic={state['_deterministic']}, this one has {loader.deterministic}"
        )
    if state["_num_workers"] != loader.num_workers and not loader.deterministic:
        raise ValueError(
            f"load_state_dict: the state is of a loader with num_workers={state['_num_workers']}, this one has {loader.num_workers}; "
            "only with deterministic=True does a pass not depend on that"
        )


def skip(indices: Iterator[Any], count: int) -> None:
    """Take what was taken before."""
    for _ in range(count):
        next(indices, None)
