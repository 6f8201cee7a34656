"""Samples of PyTorch's own database of operations, kept in a file, so that they are tried where PyTorch is not installed.

``python -m tests.programs.record_oracle`` chooses them: small ones of each entry, of which both libraries give the same.  What PyTorch
gives of them is recorded as everything else (``recording.py``); arrays stand for tensors as in ``records``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from libraries import OURS, Library, flat, gradients, relevant_strides
from oracle import pytorch
from recording import FOLDER, Kept, Recording, Unrecordable, array_of, is_tensor

FEW, MOST = 8, 450  # elements of all operands together
PATH = FOLDER / "database.xz"
# By kind of test: dtypes, and how many samples.
KINDS = {"float": (("float32",), 3), "integral": (("int64", "bool"), 1), "complex": (("complex64",), 1), "gradient": (("float64",), 2)}


@dataclass(frozen=True, slots=True)
class Case:
    """A call from the database.

    Attributes:
        function: its name as ``Library.function`` has it. args, kwargs: with arrays for tensors.
        tolerance: relative and absolute.
        places: the results whose values are determined; None for all.
    """

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    gradient: bool
    tolerance: tuple[float, float]
    places: tuple[int, ...] | None


@functools.cache
def cases() -> Recording:
    return Recording.read(PATH)


def case(key: str) -> Case:
    return Case(*cases()[key])


def outcome(library: Library, case: Case) -> Any:
    """What a library gives."""
    function, args, kwargs = library.function(case.function), library.arguments(case.args), library.arguments(case.kwargs)
    library.seed()
    with np.errstate(all="ignore"):
        return gradients(library, function, args, kwargs) if case.gradient else library.attempt(function, *args, **kwargs)


def problem(ours: Any, theirs: Any, library: Library, case: Case) -> str:
    """Where two outcomes differ, in words."""
    (got, error), (want, expected) = ours, theirs
    if error is not None or expected is not None:
        return "" if error is not None and expected is not None else f"{error!r}, PyTorch has {expected!r}"
    got, want = flat(got), flat(want)
    if len(got) != len(want):
        return f"{len(got)} results, PyTorch has {len(want)}"
    for k, (mine, other) in enumerate(zip(got, want, strict=True)):
        if isinstance(other, (Kept, library.torch.Tensor)):
            facts, wanted = [(str(each.dtype), tuple(each.shape), relevant_strides(each)) for each in (mine, other)]
            if facts != wanted:
                return f"result {k}: {facts}, PyTorch has {wanted}"
            mine, other = OURS.array(mine), library.array(other)
        if isinstance(other, np.ndarray):
            if mine is None or (mine.shape, mine.dtype) != (other.shape, other.dtype):
                return f"gradient {k}: {mine}, PyTorch has {other}"
            determined = case.places is None or k in case.places
            if determined and not np.allclose(widest(mine), widest(other), *case.tolerance, equal_nan=True):
                return f"result {k}: {mine.tolist()}, PyTorch has {other.tolist()}"
        elif str(mine) != str(other):
            return f"result {k}: {mine!r}, PyTorch has {other!r}"
    return ""


def widest(array: np.ndarray) -> np.ndarray:
    kinds = {"c": np.complex128, "b": np.int64, "i": np.int64, "u": np.int64}
    return np.asarray(array).astype(kinds.get(array.dtype.kind, np.float64))


# -- choosing them ----------------------------------------------------------------------------------------------------------------
def plain(value: Any) -> Any:
    """An argument of the database with arrays for tensors."""
    if is_tensor(value):
        if value.is_conj() or value.is_neg():
            raise Unrecordable("a view that is conjugated or negated when it is read")
        return array_of(value)
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    if type(value).__name__ == "Size":
        return tuple(value)
    if type(value).__name__ == "dtype":
        return np.dtype(str(value).removeprefix("torch."))
    if value is None or type(value) in (bool, int, float, complex, str):
        return value
    raise Unrecordable(str(type(value)))


def elements(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.size
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return sum(map(elements, items))


def chosen() -> Iterator[tuple[str, Case]]:
    """Small calls of each entry, on which both libraries agree."""
    torch = pytorch()

    from conformance.columns import Comparison
    from conformance.comparing import LOOSE, TOLERANCE, VALUES_OF
    from conformance.database import ENTRIES, FUNCTIONS, is_written_for_tests

    theirs = Library(torch, True)
    for name in FUNCTIONS:
        entry = ENTRIES[name]
        if is_written_for_tests(entry.op) or (function := entry.name).startswith("_") or Comparison(name, 1).values is False:
            continue
        for kind, (dtypes, count) in KINDS.items():
            for dtype in dtypes:
                taken = 0
                for args, kwargs in arguments(Comparison(name, 12).samples(getattr(torch, dtype), kind == "gradient")):
                    tolerance = LOOSE.get(name, {}).get(dtype, TOLERANCE.get(dtype, (0, 0)))
                    made = Case(function, args, kwargs, kind == "gradient", tolerance, VALUES_OF.get(name))
                    if taken < count and agreed(made, theirs):
                        yield f"{name}-{kind}-{dtype}-{taken}", made
                        taken += 1


def arguments(samples: list[Any]) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Of samples that can be kept, those with few elements, but some, first."""
    found = []
    for sample in samples:
        try:
            found.append((plain((sample.input, *sample.args)), plain(sample.kwargs)))
        except Unrecordable:
            continue
    return sorted((each for each in found if elements(each) <= MOST), key=lambda each: (elements(each) < FEW, elements(each)))


def agreed(made: Case, theirs: Library) -> bool:
    """Whether a call succeeds in both libraries and they agree."""
    try:
        results = outcome(theirs, made)
        return results[1] is None and not problem(outcome(OURS, made), results, theirs, made)
    except (AttributeError, KeyError, TypeError, ValueError, NotImplementedError):
        return False


def record() -> None:
    recording = Recording(PATH)
    for key, made in chosen():
        try:
            recording.add(key, (made.function, made.args, made.kwargs, made.gradient, made.tolerance, made.places))
        except Unrecordable:
            continue
    recording.write()


if __name__ == "__main__":
    sys.exit(record())
