"""One record per operation: what the generated tests need to know of it.

    Record("add", pointwise(2, scalars=(2,)), np.add)
    Record("nn.functional.relu", pointwise(1), lambda x: np.maximum(x, 0))
    Record("cumsum", lambda make: [call(make(3, 4), 1), call(make(), 0)], np.cumsum)

Samples hold NumPy arrays where the operation takes tensors; ``test_operations`` turns them into tensors of flambeau and of real
PyTorch.  A maker gives arrays of the dtype under test, from a stream that is fixed per operation.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

HALVES = ("float16", "bfloat16")
FLOATS = ("float32", "float64")
INTS = ("uint8", "int8", "int16", "int32", "int64")
BOOL = ("bool",)
COMPLEX = ("complex64", "complex128")
REAL = (*FLOATS, *HALVES, *INTS, *BOOL)
ALL = (*REAL, *COMPLEX)
KIN = {"float64": "float32", "complex128": "complex64", "float16": "bfloat16"}


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype behind a PyTorch dtype's name."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


class Maker:
    """Deterministic arrays of one dtype; called with a shape.

    Args:
        dtype: name of the dtype of arrays made without one.
        seed: names the stream, usually the operation's name.
    """

    def __init__(self, dtype: str, seed: str):
        self.dtype = dtype
        self.rng = np.random.default_rng(zlib.crc32(seed.encode()))

    def __call__(self, *shape: int, low: float = -2, high: float = 2, dtype: str | None = None, away: float = 0) -> np.ndarray:
        """Uniform values in [low, high); none nearer to zero than ``away``. Integers get the whole numbers in the range."""
        target = numpy_dtype(dtype or self.dtype)
        values = self.rng.uniform(low, high, shape)
        if target.kind == "b":
            return np.asarray(self.rng.uniform(-1, 1, shape) > 0)
        if target.kind in "ui":
            values = np.floor(np.clip(values, 0, None) if target.kind == "u" else values)
            values = np.where(values == 0, 1, values) if away else values
            return np.asarray(values).astype(target)
        if away:
            values = np.where(np.abs(values) < away, np.where(values < 0, -away, away) + values, values)
        if target.kind == "c":
            values = values + 1j * self.rng.uniform(low, high, shape)
        return np.asarray(values).astype(target)

    def integers(self, *shape: int, low: int = 0, high: int = 2, dtype: str = "int64") -> np.ndarray:
        """Whole numbers in [low, high), for indices."""
        return np.asarray(self.rng.integers(low, high, shape)).astype(numpy_dtype(dtype))


@dataclass(frozen=True, slots=True)
class Sample:
    """Arguments of one call; arrays stand for tensors."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call(*args: Any, **kwargs: Any) -> Sample:
    """The arguments as they would be passed to the operation."""
    return Sample(args, kwargs)


@dataclass(frozen=True, slots=True)
class Error:
    """A call that must fail: arguments from a maker, the exception's type, and part of its message (a regular expression)."""

    samples: Callable[[Maker], Sample]
    type: type[Exception]
    match: str | None = None
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Record:
    """What is tested of one operation.

    Attributes:
        name: public name with its namespace, such as 'nn.functional.relu'; methods are 'Tensor.name'.
        samples: function of a maker giving the calls to test.
        reference: the same calls on NumPy arrays; ``references.py`` has those that take more than an expression.
        unreferenced: why there is no reference, and what is tested instead.
        rejects: by dtype, the exception that samples must raise, and their numbers (None for all); ``rejections.py`` has the table.
        dtypes: dtypes to try; where PyTorch rejects one, flambeau must do so too.
        errors: calls that must fail.
        gradient: whether there is a derivative to check; off too where it is piecewise in a way that finite differences cannot see.
        elementwise: whether 0-d, empty and non-finite inputs can be derived from the samples' number of tensors.
        specials: whether non-finite and extreme values must agree as well.
        signed_zeros: whether the sign of a zero among the special results must agree too.
        is_view: whether results share memory with the first operand.
        widened: whether the reference is asked in float64; off where it looks at the operands' dtype.
        expanded: whether inputs that repeat one row make sense (they are singular as matrices).
        layout_free: whether values do not depend on the inputs' order in memory (they do for ``as_strided``).
        sign_free: whether results are unique up to signs or phases: their sizes are compared.
        random: whether the operation draws from the generator, which is then seeded before each call.
        notes: why a flag is set.
    """

    name: str
    samples: Callable[[Maker], Iterable[Sample]]
    reference: Callable[..., Any] | None = None
    unreferenced: str = field(default="", kw_only=True)
    rejects: dict[str, tuple[type[Exception], tuple[int, ...] | None]] = field(default_factory=dict, kw_only=True)
    dtypes: tuple[str, ...] = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
    errors: tuple[Error, ...] = ()
    gradient: bool = True
    elementwise: bool = False
    specials: bool = True
    signed_zeros: bool = True
    is_view: bool = False
    widened: bool = True
    expanded: bool = True
    layout_free: bool = True
    sign_free: bool = False
    random: bool = False
    notes: str = ""

    def rejection(self, dtype: str, number: int) -> type[Exception] | None:
        """What the sample of this number must raise for a dtype; None where it must not."""
        named = dtype if dtype in self.rejects or dtype in self.dtypes else KIN.get(dtype, dtype)
        error, samples = self.rejects.get(named, (None, ()))
        return error if samples is None or number in samples else None

    def with_kin(self) -> tuple[str, ...]:
        """The dtypes, and of each the one of another precision that is treated alike."""
        kin = {of: other for other, of in KIN.items()}
        return tuple(dict.fromkeys(other for dtype in self.dtypes for other in (dtype, kin.get(dtype, dtype))))


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Samples of an element-wise operation over ``count`` tensors: equal shapes, broadcasting, numbers, extra arguments."""

    count: int
    low: float = -2
    high: float = 2
    away: float = 0
    scalars: tuple[Any, ...] = ()
    extra: tuple[dict[str, Any], ...] = ({},)

    def arrays(self, make: Maker, *shapes: tuple[int, ...]) -> list[np.ndarray]:
        return [make(*shape, low=self.low, high=self.high, away=self.away) for shape in shapes]

    def __call__(self, make: Maker) -> list[Sample]:
        samples = [Sample(tuple(self.arrays(make, *[(3, 4)] * self.count)), dict(extra)) for extra in self.extra]
        if self.count > 1:
            shapes = [(2, 1, 4), (3, 1), (4,)][: self.count]
            samples.append(Sample(tuple(self.arrays(make, *shapes)), dict(self.extra[0])))
        for number in self.scalars:
            samples.append(Sample((*self.arrays(make, *[(3, 4)] * (self.count - 1)), number), dict(self.extra[0])))
        return samples


def pointwise(
    name: str,
    count: int = 1,
    reference: Callable[..., Any] | None = None,
    *,
    low: float = -2,
    high: float = 2,
    away: float = 0,
    scalars: tuple[Any, ...] = (),
    extra: tuple[dict[str, Any], ...] = ({},),
    **options: Any,
) -> Record:
    """The record of an element-wise operation over ``count`` tensors with values in [low, high)."""
    return Record(name, Pointwise(count, low, high, away, scalars, extra), reference, elementwise=True, **options)
