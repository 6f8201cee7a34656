"""``torch.quasirandom``: points that fill the unit cube more evenly than random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..core.dtype import float32, float64, get_default_dtype, int64
from ..core.random.generator import Generator
from ..core.tensor import Tensor, wrap

__all__ = ["SobolEngine"]


class SobolEngine:
    """Sobol' sequences, plain or scrambled.

    Args:
        dimension: of the points, at least 1 and at most ``MAXDIM``.
        scramble: whether to scramble by a random lower triangular matrix for each dimension and a random shift.
        seed: of the scrambling; the default generator is used where there is none.
    Attributes:
        num_generated: how many points were drawn or skipped.
        sobolstate: the direction numbers, ``(dimension, MAXBIT)``, int64. shift, quasi: the first point and the last one, as integers.
    Raises:
        ValueError: a dimension that is out of range.
    Source: torch.quasirandom.SobolEngine. Joe and Kuo 2008, "Constructing Sobol sequences with better two-dimensional projections", whose
        direction numbers come with SciPy; Matousek 1998, "On the L2-discrepancy for anchored boxes".
    Example:
        >>> torch.quasirandom.SobolEngine(2).draw(4)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500],
                [0.2500, 0.7500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 0 < dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got {dimension}")
        from scipy.stats import qmc  # late: it takes longer to import than all of flambeau

        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        numbers = qmc.Sobol(dimension, scramble=False, bits=self.MAXBIT)._sv.astype(np.int64)
        self.sobolstate = wrap(numbers)
        self.shift = ops.zeros(dimension, dtype=int64) if not scramble else self._scrambled(numbers)
        self.reset()

    def _scrambled(self, numbers: np.ndarray) -> Tensor:
        """Multiply the bits of the direction numbers by random matrices, in place, and draw the shift."""
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        bits = 1 << np.arange(self.MAXBIT)
        shift = ops.randint(2, (self.dimension, self.MAXBIT), generator=generator).numpy() @ bits
        matrices = ops.randint(2, (self.dimension, self.MAXBIT, self.MAXBIT), generator=generator).tril().numpy()
        matrices[:, range(self.MAXBIT), range(self.MAXBIT)] = 1
        of_numbers = (numbers[:, None, :] & bits[::-1, None]) != 0  # highest bit first
        numbers[:] = ((matrices @ of_numbers % 2) * bits[::-1, None]).sum(1)
        return wrap(shift)

    def _step(self, count: int) -> np.ndarray:
        """The next ``count`` points after the first one, as integers ``(count, dimension)``; ``quasi`` becomes the last of them."""
        if count < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}, {self.dimension}]")
        places = np.arange(count, dtype=np.int64) + max(self.num_generated - 1, 0)
        lowest_zero = np.bitwise_count(places & ~(places + 1))
        steps = self.sobolstate.numpy().T[lowest_zero]
        points = np.bitwise_xor.accumulate(np.concatenate((self.quasi.numpy()[None], steps)), axis=0)
        self.quasi.copy_(wrap(points[-1]))
        return points[1:]

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``n`` points.

        Args:
            n: how many.
            out: where they go; it is resized.
            dtype: float32 or float64; the default dtype where there is none.
        Returns:
            ``(n, dimension)``, between 0 and 1.
        Raises:
            NotImplementedError: another dtype.
            RuntimeError: fewer than one point at the start.
        """
        dtype = get_default_dtype() if dtype is None else dtype
        if dtype not in (float32, float64):
            raise NotImplementedError(f"\"_sobol_engine_draw\" not implemented for '{dtype.legacy}'")
        first = self.num_generated == 0
        points = self._step(n - 1 if first else n)
        if first:
            points = np.concatenate((self.shift.numpy()[None], points))
        result = wrap(points).to(dtype) * 0.5**self.MAXBIT
        self.num_generated += n
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``2**m`` points, which are balanced where a power of 2 of them has been drawn then.

        Args:
            m: the exponent.
            out, dtype: as for ``draw``.
        Returns: ``(2**m, dimension)``.
        Raises:
            ValueError: the number of all points would be no power of 2.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2, got {self.num_generated}+2**{m}={total}; "
                "draw() draws any number of points"
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Starts again with the first point.

        Returns: itself.
        """
        self.quasi, self.num_generated = self.shift.clone(), 0
        self._first_point = (self.shift.to(float32) * 0.5**self.MAXBIT).reshape(1, -1)
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skips points.

        Args:
            n: how many.
        Returns: itself.
        """
        self._step(max(n - 1, 0) if self.num_generated == 0 else n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        options = [f"dimension={self.dimension}"]
        options += ["scramble=True"] if self.scramble else []
        options += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(options)})"
