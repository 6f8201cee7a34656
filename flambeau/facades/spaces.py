"""Spaces of actions for reinforcement learning, with Gym's interface.

Source: gymnasium.spaces.Discrete, of which this is a minimal form.
"""

from __future__ import annotations

import operator
from typing import Any

from ..core.random.generator import Generator
from ..core.tensor import Tensor
from ..ops import randint

__all__ = ["Discrete"]


class Discrete:
    """The whole numbers from ``start`` to ``start + n - 1``.

    Args:
        n: how many. seed: of the space's own generator; from the system's entropy when None. start: the first one.
    Attributes:
        n, start: as given. shape: ``()``.
    Raises:
        ValueError: ``n`` below 1.
    Example:
        >>> space = Discrete(5)
        >>> space.seed(5)
        [5]
        >>> space.sample() in space, space.contains(5)
        (True, False)
    """

    shape: tuple[int, ...] = ()

    def __init__(self, n: int, seed: int | None = None, start: int = 0):
        self.n, self.start = operator.index(n), operator.index(start)
        if self.n < 1:
            raise ValueError(f"Discrete: expected at least one number, got n={n}")
        self._generator = Generator()
        self.seed(seed)

    def seed(self, seed: int | None = None) -> list[int]:
        """Seed the generator of the space, and no other; the same seed gives the same samples.

        Args:
            seed: from the system's entropy when None.
        Returns:
            The seed, in a list as Gym has it.
        """
        if seed is None:
            return [self._generator.seed()]
        self._generator.manual_seed(seed)
        return [seed]

    def sample(self) -> int:
        """One of the numbers, each as likely as the others."""
        return int(randint(self.start, self.start + self.n, (), generator=self._generator))

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is one of the numbers: a Python integer, or an array or tensor of one integer."""
        if isinstance(x, Tensor):
            if x.dim() or x.is_floating_point() or x.is_complex():
                return False
            x = x.item()
        try:
            number = operator.index(x)
        except TypeError:
            return False
        return self.start <= number < self.start + self.n

    __contains__ = contains

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Discrete) and (self.n, self.start) == (other.n, other.start)

    def __hash__(self) -> int:
        return hash((self.n, self.start))

    def __repr__(self) -> str:
        return f"Discrete({self.n}, start={self.start})" if self.start else f"Discrete({self.n})"
