"""What operations are made of: shapes, dtypes, operands and how near results must be, all drawn from one seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from .layouts import Layout, random_layout

# Sizes of operands: below and above what makes wrappers ask for kernels (8192, 32768) and the kernels' own pieces and blocks.
SIZES = (60, 8191, 8192, 8193, 8200, 8448, 9000, 10_000, 12_288, 16_384, 17_000, 20_000, 32_767, 32_768, 32_769, 34_000, 66_000)
LARGE_SIZES = (131_072, 140_000, 200_000)
EDGES = (1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 511, 512, 513)

FLOATS = ("float32", "float32", "float32", "float64", "bfloat16", "float16")
WIDE = ("float32", "float32", "float32", "float64")
NUMBERS = (*FLOATS, "int64", "int32", "uint8", "int8", "int16")
UNITS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7, "complex64": 2.0**-23, "complex128": 2.0**-52}

_WHOLE = np.random.default_rng(1).integers(-3, 4, 1 << 21).astype(np.float64)
_REAL = np.random.default_rng(2).uniform(-2, 2, 1 << 21)
# What operands may hold: whole numbers, for which sums and products are exact; real ones where nothing is exact anyhow.
VALUES: dict[str, np.ndarray] = {
    "whole": _WHOLE,
    "signs": np.where(_WHOLE > 0, 1.0, -1.0),
    "real": _REAL,
    "positive": np.abs(_REAL) + 0.25,
    "chance": np.abs(_REAL) / 2.5 + 0.05,  # in [0.05, 0.85]
    "natural": np.abs(_WHOLE),
}


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of a program; ``values``: a name of ``VALUES``, or the number below which indices lie."""

    layout: Layout
    dtype: str
    values: str | int
    start: int  # where in the pool of values
    at_end: bool  # of its memory, that is
    needs_grad: bool = False
    is_leaf: bool = False  # whether the tensor itself, not its base, gets the gradient

    @property
    def places(self) -> int:
        """How many places of memory the tensor shows."""
        return math.prod(len(range(*cut.indices(n))) for cut, n in zip(self.layout.cuts, self.layout.full, strict=True))

    @property
    def repeats(self) -> int:
        """How many elements of the tensor are one place: so many terms its gradient is the sum of."""
        return max(1, math.prod(self.layout.shape) // self.places)

    def base(self) -> np.ndarray:
        """The flat memory."""
        size = self.layout.size
        if isinstance(self.values, int):
            return np.random.default_rng(self.start).integers(0, self.values, size).astype(self.dtype)
        values = VALUES[self.values][self.start : self.start + size]
        if self.dtype == "bool":
            return values > 0
        dtype = numpy_dtype(self.dtype)
        if dtype.kind == "c":
            return (values + 1j * VALUES[self.values][self.start + 1 : self.start + size + 1]).astype(dtype)
        return (np.abs(values) if dtype.kind == "u" else values).astype(dtype)


@dataclass(frozen=True, slots=True)
class Bound:
    """How far two results may be apart.

    Each of ``steps`` roundings of a number no larger than the result or ``scale`` may differ by one unit in the last place.  Errors of a
    sum of ``terms`` numbers no larger than ``scale`` add up as the square root of their number (Higham and Mary 2019): both sides may be
    six standard deviations off.  Halves are summed in float32.
    """

    steps: float = 0
    scale: float = 0
    terms: int = 0

    def of(self, want: np.ndarray, dtype: str) -> Any:
        unit = UNITS.get(dtype)
        if unit is None:
            return 0
        rounded = self.steps * unit * np.maximum(np.abs(want), self.scale) if self.steps else 0.0
        return rounded + 6 * math.sqrt(self.terms) * self.terms * self.scale * min(unit, UNITS["float32"])


@dataclass(slots=True)
class Program:
    """A call on operands.

    Attributes:
        text: how it reads.
        call: function (library, tensors) -> a tensor or a tuple of them.
        bound, grad_bound: of results and of gradients; where these differ, one for each operand that needs a gradient.
        own: how many of the last results only the reference kernels must agree about: PyTorch leaves open which of equals it names.
        inplace: whether the first operand's memory is a result.
        plain: whether PyTorch gets row-major copies, since it does not do this right, or at all, for every layout.
    """

    text: str
    operands: list[Operand]
    call: Callable[..., Any]
    bound: Bound = field(default_factory=Bound)
    grad_bound: Bound | tuple[Bound, ...] | None = None
    own: int = 0
    inplace: bool = False
    plain: bool = False

    def __str__(self) -> str:
        lines = [self.text]
        for operand in self.operands:
            shape = "x".join(map(str, operand.layout.shape)) or "0-d"
            grad = f", {'leaf' if operand.is_leaf else 'base'} needs grad" if operand.needs_grad else ""
            lines.append(f"    {operand.dtype} {shape} of {operand.values}{grad}: {operand.layout}")
        return "\n".join(lines)


class Draw:
    """The choices of one program."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.operands: list[Operand] = []

    def one_of(self, values: Sequence[Any]) -> Any:
        return self.rng.choice(values)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def shape(self, least: int = 1, most: int = 4, size: int = 0) -> tuple[int, ...]:
        """A shape of about ``size`` elements, one of ``SIZES`` where that is 0."""
        size = size or (self.one_of(LARGE_SIZES) if self.chance(0.02) else self.one_of(SIZES))
        ndim = self.rng.randint(least, most)
        shape, room = [1] * ndim, size
        long = self.rng.randrange(ndim)
        for i in range(ndim):
            if i != long:
                shape[i] = self.one_of([n for n in EDGES if n <= max(1, room)])
                room //= shape[i]
        shape[long] = max(1, -(-size // (math.prod(shape))))
        return tuple(shape)

    def dims(self, ndim: int) -> tuple[int, ...]:
        """Some dimensions, at least one."""
        return tuple(sorted(self.rng.sample(range(ndim), self.rng.randint(1, ndim))))

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to ``shape``; mostly the same."""
        if self.chance(0.5):
            return shape
        sizes = [1 if self.chance(0.4) else n for n in shape]
        return tuple(sizes[self.rng.randrange(len(shape)) :] if self.chance(0.4) else sizes)

    def operand(
        self, shape: tuple[int, ...], dtype: str, values: str | int = "whole", *, grad: bool = True, repeats: bool = True
    ) -> Operand:
        """One more operand; floats may need a gradient."""
        layout = random_layout(self.rng, shape, repeats)
        needs = grad and dtype in UNITS
        result = Operand(layout, dtype, values, self.rng.randrange(1 << 19), self.chance(0.5), needs, needs and self.chance(0.5))
        self.operands.append(result)
        return result
