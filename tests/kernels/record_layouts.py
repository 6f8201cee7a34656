"""The samples of operation records over many memory layouts, each operand between forbidden pages, by kernels and by reference.

    python -m tests.kernels.record_layouts reduction softmaxes    # record families; prints what is wrong, ``at NAME`` before each record
    python -m tests.kernels.record_layouts --reached              # which native kernels the records of all families reach

``FLAMBEAU_KERNELS_FROM=1`` must be set, so that small samples reach kernels.  Memory between a tensor's elements holds NaN, or numbers
that are no index, so that a kernel which takes a neighbour's place for an element's gives a wrong result where it does not crash.
"""

from __future__ import annotations

import importlib
import math
import os
import random
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.extend(str(Path(__file__).resolve().parents[1] / folder) for folder in ("", "helpers"))

import precision
import records
from layout_programs.layouts import Arena, Layout, random_layout, row_major
from libraries import OURS, arrays_in, assert_close, describe, differentiable_inputs, flat
from records.record import Maker, Pointwise, Record, Sample, call

import flambeau
from flambeau.core.arrays import native
from flambeau.core.tensor import Tensor
from flambeau.kernels import FAMILIES
from flambeau.kernels.families import pointwise

DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "uint8", "bool", "complex64")
# Where all elements are one, a spread is 0 or what rounding made of it, and neither quotients by it nor its root's slope mean anything.
# Equal rows or columns leave a factorisation to rounding, and the kernels compute in the matrix's own precision.
SINGULAR = {"std", "std_mean", "corrcoef", "pinverse", "nuclear_norm", "qr", "geqrf", "svd", "lu"} | {
    f"linalg.{name}" for name in ("qr", "svd", "svdvals", "cond", "matrix_norm", "pinv", "lu", "lu_factor", "lu_factor_ex")
}
ANY_SIGN = {"linalg.eig"}  # of eigenvectors: test_lapack multiplies them out
# Positions of operands that cannot require grad, of records that have no gradient for their sake.
FIXED = {"nn.functional.batch_norm": (1, 2)}
# What is looked for is an element that was read or written in a wrong place, so rounding by the largest element, or by 1, is none. Among
# equal elements, of which many layouts are made, spreads are what rounding left of 0, and norms multiply them by 1 / sqrt(eps). How exact
# kernels are is for test_operations.py to say.
MISREAD = {"float32": 1e-5, "complex64": 1e-5, "float64": 1e-14, "float16": 2.0**-11, "bfloat16": 2.0**-8}
MISREAD_BY_NORMS = MISREAD | {"float32": 3e-4, "float64": 1e-12}
NORMS = re.compile("(batch|group|instance|layer)_norm")
OPERANDS = 8  # between pages of their own; further ones lie anywhere
_arenas: list[Arena] = []


# -- layouts -------------------------------------------------------------------------------------------------------------------------------
def _expanded(shape: tuple[int, ...], dims: tuple[int, ...]) -> Layout:
    held = tuple(1 if d in dims else n for d, n in enumerate(shape))
    plain = row_major(held)
    return Layout(0, 0, plain.full, plain.cuts, plain.order, shape, (slice(None),) * len(shape))


def _cut(shape: tuple[int, ...], dim: int, step: int) -> Layout:
    """Every ``step``-th of a dimension, from the second on."""
    plain = row_major(shape)
    full = tuple(1 + n * step if d == dim else n for d, n in enumerate(shape))
    cuts = tuple(slice(1, 2 + (n - 1) * step, step) if d == dim else slice(None) for d, n in enumerate(shape))
    return Layout(0, 0, full, cuts, plain.order, shape, plain.trims)


def _transposed(shape: tuple[int, ...]) -> Layout:
    plain = row_major(shape[::-1])
    return Layout(0, 0, plain.full, plain.cuts, plain.order[::-1], shape, plain.trims)


def _shifted(shape: tuple[int, ...]) -> Layout:
    plain = row_major(shape)
    return Layout(1, 1, plain.full, plain.cuts, plain.order, plain.grown, plain.trims)


@cache
def layouts_of(shape: tuple[int, ...]) -> list[Layout]:
    """Always as many, so that the operands of a sample are laid out alike."""
    if not math.prod(shape) or not shape:
        return [row_major(shape)] * COUNT
    last = len(shape) - 1
    mixed = [random_layout(random.Random(f"{shape} {k}"), shape) for k in range(3)]
    return [
        row_major(shape), _transposed(shape), _expanded(shape, (0,)), _expanded(shape, (last,)), _expanded(shape, (last // 2,)),
        _expanded(shape, tuple(range(last + 1))), _cut(shape, last, 2), _cut(shape, 0, 3), _shifted(shape), *mixed,
    ]  # fmt: skip


COUNT = 12


def _filler(dtype: np.dtype) -> Any:
    if dtype.kind in "fcV":
        return np.nan
    return True if dtype.kind == "b" else np.iinfo(dtype).max


def placed(array: np.ndarray, layout: Layout, arena: Arena | None, at_end: bool) -> Tensor:
    """A tensor with the array's values, where memory is shared the last ones of them."""
    values = np.full(layout.size, _filler(array.dtype), array.dtype)
    base = values if arena is None else arena.place(values, layout.shift, at_end)
    tensor = layout.of(flambeau.from_numpy(base))
    shown = tensor._array
    first = (shown.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // array.itemsize
    if shown.size:
        np.lib.stride_tricks.as_strided(base[first:], shown.shape, shown.strides)[...] = array
    return tensor


# -- runs ----------------------------------------------------------------------------------------------------------------------------------
def arguments(sample: Sample, number: int, at_end: bool) -> tuple[list[Any], dict[str, Any], Iterator[Arena | None]]:
    """The sample with tensors of layout ``number``, and the arenas that are left."""
    while len(_arenas) < OPERANDS:
        _arenas.append(Arena())
    arenas: Iterator[Any] = iter([*_arenas, *[None] * 64])

    def laid_out(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return placed(value, layouts_of(value.shape)[number], next(arenas), at_end)
        if isinstance(value, (list, tuple)):
            return type(value)([laid_out(item) for item in value])
        return OURS.arguments(value)

    return [laid_out(arg) for arg in sample.args], {key: laid_out(value) for key, value in sample.kwargs.items()}, arenas


def outcome(record: Record, sample: Sample, number: int, at_end: bool, cotangent: int | None) -> Any:
    """Results, or for a layout of the cotangents the gradients, as arrays; or the exception."""
    args, kwargs, arenas = arguments(sample, number, at_end)
    function = OURS.function(record.name)
    if record.random:
        flambeau.manual_seed(0)
    try:
        if cotangent is None:
            results = flat(function(*args, **kwargs))
            return [np.array(result._array) if isinstance(result, Tensor) else result for result in results]
        free = [arg for i, arg in enumerate(args) if i not in FIXED.get(record.name, ())]
        inputs = [tensor.requires_grad_() for tensor in differentiable_inputs([*free, kwargs])]
        outputs = [result for result in flat(function(*args, **kwargs)) if getattr(result, "requires_grad", False)]
        if not outputs:
            return []
        rng = np.random.default_rng(0)
        given = []
        for out in outputs:
            values = np.asarray(rng.integers(1, 4, out.shape)).astype(out._array.dtype)
            given.append(placed(values, layouts_of(values.shape)[cotangent], next(arenas), at_end))
        gradients = flambeau.autograd.grad(outputs, inputs, given, allow_unused=True)
        return [None if gradient is None else np.array(gradient._array) for gradient in gradients]
    except Exception as error:
        return error


def difference(record: Record, sample: Sample, number: int, at_end: bool, cotangent: int | None = None) -> str | None:
    """What the kernels do otherwise than the reference."""
    got = outcome(record, sample, number, at_end, cotangent)
    with native.disabled():
        want = outcome(record, sample, number, at_end, cotangent)
    where = f"{describe(record, sample)}, layout {number}{'' if cotangent is None else f', cotangents {cotangent}'}"
    if isinstance(got, Exception) or isinstance(want, Exception):
        return None if type(got) is type(want) else f"{where}: {got!r} instead of {want!r}"
    if len(got) != len(want):
        return f"{where}: {len(got)} results instead of {len(want)}"
    for a, b in zip(got, want, strict=True):
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            if type(a) is not type(b) or str(a) != str(b):
                return f"{where}: {a!r} instead of {b!r}"
            continue
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{where}: {a.dtype} {a.shape} instead of {b.dtype} {b.shape}"
        try:
            assert_close(a, b, record, where, gradient=cotangent is not None)
        except AssertionError as error:
            bounds = MISREAD_BY_NORMS if NORMS.search(record.name) else MISREAD
            if a.dtype.name not in bounds or precision.error(a, b, a.dtype.name, True, 1)[0] > bounds[a.dtype.name]:
                return str(error)
    return None


F = "nn.functional."
LARGER: dict[str, Callable[[Maker], list[Sample]]] = {  # for kernels that leave small operands to the reference
    "matmul": lambda make: [
        call(make(40, 100), make(100, 70)),
        call(make(3, 40, 50), make(50, 60)),
        call(make(3, 40, 50), make(3, 50, 60)),
    ],
    "mm": lambda make: [call(make(40, 100), make(100, 70))],
    "bmm": lambda make: [call(make(3, 40, 50), make(3, 50, 60))],
    F + "linear": lambda make: [call(make(40, 100), make(70, 100), make(70)), call(make(2, 40, 50), make(70, 50))],
    F + "conv1d": lambda make: [call(make(2, 4, 300), make(8, 4, 9), make(8), padding=4)],
    F + "conv2d": lambda make: [
        call(make(2, 4, 17, 19), make(6, 4, 3, 3), make(6), padding=1),
        call(make(1, 4, 18, 17), make(8, 2, 5, 5), stride=2, groups=2),
        call(make(2, 16, 24, 24), make(16, 1, 3, 3), groups=16, padding=1),
    ],
    F + "conv_transpose2d": lambda make: [call(make(2, 6, 15, 17), make(6, 4, 3, 3), make(4), stride=2, padding=1)],
    "stack": lambda make: [call([make(40, 70), make(40, 70), make(40, 70)], 1)],
    "cat": lambda make: [call([make(40, 70), make(40, 30)], 1), call([make(40, 70), make(9, 70)], 0)],
    "split": lambda make: [call(make(100, 90), 30, 1)],
    "index_copy": lambda make: [
        call(make(5, 40), 0, np.array([3, 0]), make(2, 40)),
        call(make(3, 9, 20), -2, np.array([8]), make(3, 1, 20)),
    ],
    "index_fill": lambda make: [call(make(5, 40), 0, np.array([3, 0]), 1), call(make(3, 9, 20), 1, np.array([8, 2]), make())],
    F + "cross_entropy": lambda make: [call(make(30, 17), make.integers(30, high=17), label_smoothing=0.2)],
    F + "batch_norm": lambda make: [
        call(make(5, 6, 9), make(6), make(6, low=0.5, high=2), make(6), make(6)),
        call(make(40, 6), None, None, make(6), make(6), training=True, eps=0.1),  # of equal elements the spread is rounding alone
    ],
    F + "group_norm": lambda make: [call(make(3, 8, 5, 7), 4, make(8), make(8)), call(make(3, 8, 50), 8)],
    F + "layer_norm": lambda make: [call(make(17, 33), (33,), make(33), make(33))],
}


def samples_of(record: Record, dtype: str) -> list[Sample]:
    """The record's samples and larger ones of the same kind, for which kernels have full registers."""
    make = Maker(dtype, record.name)
    samples = [*record.samples(make), *LARGER.get(record.name, lambda make: [])(make)]
    if isinstance(record.samples, Pointwise):
        arrays = record.samples.arrays(make, *[(7, 5, 19)] * record.samples.count)
        return [*samples, Sample(tuple(arrays), dict(record.samples.extra[0]))]
    for sample in [] if record.name in SINGULAR else list(samples):
        arrays = arrays_in(sample.args)
        if len(arrays) == 1 and arrays[0].ndim == 2 and sample.args[0] is arrays[0] and 0 < arrays[0].size <= 64:
            samples.append(Sample((np.tile(arrays[0], (9, 11)), *sample.args[1:]), sample.kwargs))
    return samples


# -- which kernels a call reaches ---------------------------------------------------------------------------------------------------------
reached: set[str] = set()


def watch() -> None:
    """Note every native kernel that gives a result."""
    for module in set(FAMILIES.values()):
        importlib.import_module(f"flambeau.kernels.{module}")
    for name in FAMILIES:
        native._registered[name] = _watched(name, native._registered[name])
    native._found.clear()
    generate = pointwise.Plan._generate
    pointwise.Plan._generate = lambda self: _watched("pointwise", generate(self))  # type: ignore[method-assign]


def _watched(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def run(*given: Any, **named: Any) -> Any:
        result = kernel(*given, **named)
        if result is not None:
            reached.add(name)
        return result

    return run


# -- the worker ---------------------------------------------------------------------------------------------------------------------------
def _records(family: str) -> list[Record]:
    return list(importlib.import_module(f"records.{family}").RECORDS)


def _has_gradient(record: Record) -> bool:
    return record.gradient or record.name in FIXED


EXHAUSTIVE = os.environ.get("FLAMBEAU_EXHAUSTIVE") == "1"
IN_TURN = 2  # dtypes of an element-wise record, and layouts of each of its calls
OF_OTHERS = 3  # layouts of each call of other records, and their dtypes


class Turns:
    """Some of many in turn; every record begins elsewhere, and always in the same place."""

    def __init__(self, name: str):
        self.at = zlib.crc32(name.encode())

    def some_of(self, choices: Sequence[Any], count: int) -> list[Any]:
        self.at += count
        return [choices[(self.at + k) % len(choices)] for k in range(min(count, len(choices)))]


def check(record: Record) -> Iterator[str]:
    """What is wrong with a record: for each dtype, where a kernel is reached, all layouts.

    Each record has some dtypes in turn, each call some layouts; fewer where kernels are made of expressions, which share the code that
    looks at layouts and dtypes.
    """
    if record.name in ANY_SIGN:
        return
    turns = Turns(record.name)
    dtypes = [candidate for candidate in record.dtypes if candidate in DTYPES]
    if not EXHAUSTIVE:
        dtypes = turns.some_of(dtypes, IN_TURN if isinstance(record.samples, Pointwise) else OF_OTHERS)
    for dtype in dtypes:
        for sample in samples_of(record, dtype):
            reached.clear()
            wrong = [difference(record, sample, 0, True), difference(record, sample, 0, True, 0) if _has_gradient(record) else None]
            if reached and record.layout_free:
                numbers: Sequence[int] = range(1, COUNT) if record.expanded and record.name not in SINGULAR else (1, 6, 7, 8)
                cotangents: Sequence[int] = (2, 3, 5, 8)
                if not EXHAUSTIVE:
                    made = reached == {"pointwise"}
                    numbers, cotangents = (
                        turns.some_of(numbers, IN_TURN if made else OF_OTHERS),
                        turns.some_of(cotangents, 1 if made else 2),
                    )
                wrong += [difference(record, sample, number, bool(number & 1)) for number in (0, *numbers)]
                if _has_gradient(record):
                    wrong += [difference(record, sample, number, not number & 1, (number * 5 + 2) % COUNT) for number in numbers]
                    wrong += [difference(record, sample, 0, False, number) for number in cotangents]
            yield from [message for message in wrong if message is not None]


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    watch()
    if arguments == ["--reached"]:
        names: set[str] = set()
        for family in records.FAMILIES:
            for record in _records(family):
                for dtype in [candidate for candidate in record.dtypes if candidate in DTYPES[:1]] or record.dtypes[:1]:
                    reached.clear()
                    for sample in samples_of(record, dtype):
                        outcome(record, sample, 0, True, None)
                        if _has_gradient(record):
                            outcome(record, sample, 0, True, 0)
                    names |= reached
        print("reached", *sorted(names))
        return
    for family in arguments:
        for record in _records(family):
            print("at", record.name, flush=True)
            for wrong in check(record):
                print(wrong, flush=True)
    print("at the end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
