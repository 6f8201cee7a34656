"""Shuffling that pipes in random order share."""

from __future__ import annotations

import random
from typing import Any, Self

from ..sampler import random_seed
from .datapipe import IterDataPipe


class Shuffling(IterDataPipe[Any]):
    """Samples in an order that is drawn by a generator of its own, which each iteration seeds."""

    def __init__(self) -> None:
        super().__init__()
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Switch the shuffling on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """The seed of the next iteration; drawn from torch's generator otherwise."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Seed the order of the next iteration."""
        if self._enabled:
            self._rng.seed(random_seed() if self._seed is None else self._seed)
            self._seed = None
