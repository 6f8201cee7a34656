"""The program's streams of random numbers: torch's, Python's and NumPy's, seeded, noted and put back together."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ....core.random.generator import Generator, default_generator, manual_seed
from ....core.tensor import Tensor, wrap

_LOW = 0xFFFFFFFF
# Of deterministic loaders: what else than batches has streams of its own, as a number that no batch has.
OF_SAMPLER, OF_DATASET = _LOW, _LOW - 1


def numpy_seed(base_seed: int, worker: int) -> list[int]:
    """The seed of NumPy's stream in a worker: four words, which for neighbouring workers have nothing in common."""
    return np.random.SeedSequence([worker, base_seed & _LOW, base_seed >> 32, 0]).generate_state(4).tolist()


def seed_worker(base_seed: int, worker: int) -> None:
    """Start the streams of a worker process."""
    random.seed(base_seed + worker)
    manual_seed(base_seed + worker)
    np.random.seed(numpy_seed(base_seed, worker))


def batch_seeds(base_seed: int, number: int) -> tuple[int, list[int]]:
    """Seeds of one batch, whoever makes it: for torch and Python, and for NumPy."""
    words = np.random.SeedSequence([number, base_seed & _LOW, base_seed >> 32, 1]).generate_state(6).tolist()
    return (words[4] << 32 | words[5]) & ((1 << 63) - 1), words[:4]


class OwnStreams:
    """The streams of a worker that is a thread.

    Args:
        rng: its generators, with the attributes of ``_RNG``.
    """

    def __init__(self, rng: Any) -> None:
        self._torch, self._python, self._numpy = rng.torch_generator, rng.random_generator, rng.numpy_generator

    def noted(self) -> tuple[Any, ...]:
        """Positions of the streams."""
        return self._torch.state_bytes(), self._python.getstate(), self._numpy.get_state()

    def put_back(self, state: tuple[Any, ...]) -> None:
        """Let the streams go on from where they were."""
        self._torch.load_state_bytes(state[0])
        self._python.setstate(state[1])
        self._numpy.set_state(state[2])

    def seed_batch(self, base_seed: int, number: int) -> None:
        """Start the streams of one batch."""
        seed, words = batch_seeds(base_seed, number)
        self._python.seed(seed)
        self._seed_torch(seed)
        self._numpy.seed(words)

    def _seed_torch(self, seed: int) -> None:
        self._torch.manual_seed(seed)


class ProgramStreams(OwnStreams):
    """The streams that everybody draws from: those of a worker process."""

    def __init__(self) -> None:
        self._torch, self._python, self._numpy = default_generator, random, np.random

    def _seed_torch(self, seed: int) -> None:
        manual_seed(seed)  # devices have streams, too


noted, put_back = ProgramStreams().noted, ProgramStreams().put_back


@contextmanager
def apart(state: tuple[Any, ...] | None = None) -> Iterator[None]:
    """Context after which the streams go on as if nothing had been drawn in it; in it they start from ``state`` if given."""
    before = noted()
    try:
        if state is not None:
            put_back(state)
        yield
    finally:
        put_back(before)


def plain(state: tuple[Any, ...]) -> dict[str, Any]:
    """A noted state made of tensors, lists and numbers, for files."""
    torch_state, (version, words, gauss), (name, key, position, has_gauss, cached) = state
    return {
        "torch": wrap(np.frombuffer(bytearray(torch_state.tobytes()), np.uint8)),  # its dtype may be a copy that pickle made
        "python": [version, list(words), gauss],
        "numpy": [name, key.tolist(), position, has_gauss, cached],
    }


def from_plain(state: dict[str, Any]) -> tuple[Any, ...]:
    """State from which :func:`plain` made this one."""
    version, words, gauss = state["python"]
    name, key, position, has_gauss, cached = state["numpy"]
    return np.array(state["torch"]), (version, tuple(words), gauss), (name, np.array(key, np.uint32), position, has_gauss, cached)


def _generator_state(generator: Any) -> Any:
    if isinstance(generator, Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        version, words, gauss = generator.getstate()
        return [version, list(words), gauss]
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    name, key, position, has_gauss, cached = generator.get_state()
    return [name, key.tolist(), position, has_gauss, cached]


def _set_generator_state(generator: Any, state: Any) -> None:
    if isinstance(generator, Generator):
        generator.set_state(state if isinstance(state, Tensor) else wrap(np.array(state, np.uint8)))
    elif isinstance(generator, random.Random):
        version, words, gauss = state
        generator.setstate((version, tuple(words), gauss))
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        name, key, position, has_gauss, cached = state
        generator.set_state((name, np.array(key, np.uint32), position, has_gauss, cached))


_GENERATORS = (Generator, random.Random, np.random.Generator, np.random.RandomState)


def generators_of(owner: Any) -> dict[str, Any]:
    """The states of the generators that are attributes of an object."""
    return {name: _generator_state(value) for name, value in _attributes(owner) if isinstance(value, _GENERATORS)}


def set_generators_of(owner: Any, states: dict[str, Any]) -> None:
    """Put back what :func:`generators_of` gave."""
    for name, value in _attributes(owner):
        if name in states and isinstance(value, _GENERATORS):
            _set_generator_state(value, states[name])


def _attributes(owner: Any) -> list[tuple[str, Any]]:
    return list(getattr(owner, "__dict__", {}).items())
