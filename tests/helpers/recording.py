"""What PyTorch gave, kept in files: tests compare with it where PyTorch is not installed, and see that it is still so where it is.

An outcome is what a call returned or raised, tensors in it as ``Kept``: dtype, shape, strides and values.  It has a key: the digest of
a call's function and operands, or the name of a test with a number.  An outcome that is not there lets the test rest.

    python -m tests.programs.record_oracle       runs the tests that use it with PyTorch, and writes the files again

A file of ``tests/recorded`` is compressed: the keys and the outcomes' structure as JSON, then the values of all tensors, dtype by
dtype, their first bytes together, their second ones, and so on, which compresses better.
"""

from __future__ import annotations

import atexit
import builtins
import hashlib
import json
import lzma
import math
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from oracle import HAS_ORACLE, pytorch, rest

FOLDER = Path(__file__).resolve().parents[1] / "recorded"
RECORDS = os.environ.get("FLAMBEAU_RECORD") == "1"
# Elements of the largest tensor that is recorded: of calls of functions, of which there are many, and of programs.
LARGEST = {"operations": 400, "gradients": 400}
LARGEST_OF_PROGRAMS = 1024
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
# (relative, to the largest magnitude) tolerances between two processors' PyTorch, by dtype.
_PROCESSORS = {
    "float16": 2e-3,
    "bfloat16": 2e-2,
    "float32": 1e-5,
    "float64": 1e-10,
    "complex64": 1e-5,
    "complex128": 1e-10,
}


class Unrecordable(Exception):
    """An outcome with something that does not go to a file."""


class Name(str):
    """What a dtype, a layout or a device of PyTorch is called."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A tensor that PyTorch gave."""

    array: np.ndarray
    dtype: Name
    requires_grad: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def is_leaf(self) -> bool:
        return not self.requires_grad

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def numel(self) -> int:
        return self.array.size

    def dim(self) -> int:
        return self.array.ndim

    def numpy(self) -> np.ndarray:
        return self.array

    def tolist(self) -> Any:
        return self.array.tolist()

    def detach(self) -> Kept:
        return Kept(self.array, self.dtype)

    def resolve_conj(self) -> Kept:
        return self

    resolve_neg = resolve_conj


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype behind a PyTorch dtype's name."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


# -- to files and back ------------------------------------------------------------------------------------------------------------
def is_tensor(value: Any) -> bool:
    return hasattr(value, "requires_grad") and hasattr(value, "layout")


def array_of(tensor: Any) -> np.ndarray:
    """The values of a PyTorch tensor, strides and all."""
    torch = pytorch()
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        raise Unrecordable(f"a tensor of layout {tensor.layout} on {tensor.device}")
    tensor = tensor.detach().resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(numpy_dtype(name))
    if name.startswith("float8"):
        return tensor.view(torch.uint8).numpy().view(numpy_dtype(name))
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise Unrecordable(str(error)) from error


def kept(value: Any) -> Any:
    """``value`` with ``Kept`` in place of PyTorch's tensors, and names in place of its other objects."""
    if value is None or type(value) in (bool, int, float, complex, str, Kept, Name, np.ndarray) or isinstance(value, Exception):
        return value
    if is_tensor(value):
        return Kept(array_of(value), Name(value.dtype), value.requires_grad)
    if isinstance(value, type) and issubclass(value, Exception):
        return value if getattr(builtins, value.__name__, None) is value else Name(value.__qualname__)
    if isinstance(value, dict):
        return {key: kept(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return ([] if isinstance(value, list) else ()).__class__(kept(item) for item in value)
    if type(value).__module__ == "torch":  # dtypes, layouts, memory formats, devices
        return Name(value)
    if isinstance(value, np.generic):
        return np.asarray(value)
    raise Unrecordable(f"{type(value)}")


def expected_type(error: Exception) -> type[Exception]:
    """A built-in type of exceptions that tells programs the same."""
    return next(kind for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind)


Arrays = dict[str, list[np.ndarray]]


def encode(value: Any, arrays: Arrays) -> Any:
    """A kept value as JSON; arrays are added to ``arrays``."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, complex):
        return ["c", value.real, value.imag]
    if isinstance(value, np.dtype):
        return ["d", value.name]
    if isinstance(value, type):
        return ["e", value.__name__]
    if isinstance(value, Name):
        return ["n", str(value)]
    if isinstance(value, Exception):
        return ["!", expected_type(value).__name__, _ADDRESS.sub("0x", str(value).split("\n")[0])[:120]]
    if isinstance(value, dict):
        return ["{", *[[encode(key, arrays), encode(item, arrays)] for key, item in value.items()]]
    if isinstance(value, (list, tuple)):
        return ["[" if isinstance(value, list) else "(", *[encode(item, arrays) for item in value]]
    array = value.array if isinstance(value, Kept) else value
    arrays[array.dtype.name].append(np.array(array, order="C").reshape(-1))
    steps = [step // array.itemsize for step in array.strides]
    strides = 0 if steps == [math.prod(array.shape[k + 1 :]) for k in range(array.ndim)] else steps
    if isinstance(value, Kept):
        return ["t", array.dtype.name, list(array.shape), strides, int(value.requires_grad)]
    return ["a", array.dtype.name, list(array.shape), strides]


def decode(form: Any, take: Callable[[str, int], np.ndarray]) -> Any:
    """What was encoded; ``take`` gives so many elements of a dtype."""
    if not isinstance(form, list):
        return form
    kind, *parts = form
    if kind == "c":
        return complex(*parts)
    if kind == "d":
        return numpy_dtype(parts[0])
    if kind == "e":
        return getattr(builtins, parts[0])
    if kind == "n":
        return Name(parts[0])
    if kind == "!":
        return getattr(builtins, parts[0])(parts[1])
    if kind == "{":
        return {decode(key, take): decode(item, take) for key, item in parts}
    if kind in "[(":
        items = [decode(item, take) for item in parts]
        return items if kind == "[" else tuple(items)
    dtype, shape, strides = parts[:3]
    array = strided(take(dtype, int(np.prod(shape))).reshape(shape), strides)
    return Kept(array, Name(f"torch.{dtype}"), bool(parts[3])) if kind == "t" else array


def strided(values: np.ndarray, strides: Any) -> np.ndarray:
    """The values with these strides, in elements; 0 for row-major ones."""
    if not strides:
        return values.copy()
    extent = 1 + sum((n - 1) * step for n, step in zip(values.shape, strides, strict=True)) if values.size else 0
    steps = [step * values.itemsize for step in strides]
    result = np.lib.stride_tricks.as_strided(np.zeros(max(extent, 1), values.dtype), values.shape, steps)
    result[...] = values
    return result


def sizes(form: Any) -> Iterator[tuple[str, int]]:
    """Dtype and number of elements of every array in an encoded value, in order."""
    if isinstance(form, list):
        if form[0] in ("t", "a"):
            yield form[1], int(np.prod(form[2]))
        else:
            for item in form[1:]:
                yield from sizes(item) if form[0] != "{" else (size for part in item for size in sizes(part))


@dataclass
class Recording:
    """The outcomes of one area, by key."""

    path: Path
    forms: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    places: dict[str, dict[str, int]] = field(default_factory=dict)  # where a key's values begin
    fresh: dict[str, tuple[Any, Arrays]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Recording:
        recording = cls(path)
        if not path.exists():
            return recording
        head, _, body = lzma.decompress(path.read_bytes()).partition(b"\n")
        recording.forms, lengths = json.loads(head)
        for name, length in lengths.items():
            dtype = numpy_dtype(name)
            planes, body = np.frombuffer(body[: length * dtype.itemsize], np.uint8), body[length * dtype.itemsize :]
            recording.arrays[name] = np.ascontiguousarray(planes.reshape(dtype.itemsize, length).T).view(dtype).reshape(-1)
        begin = dict.fromkeys(lengths, 0)
        for key, form in recording.forms.items():
            recording.places[key] = {}
            for name, length in sizes(form):
                recording.places[key].setdefault(name, begin[name])
                begin[name] += length
        return recording

    def __getitem__(self, key: str) -> Any:
        at = dict(self.places[key])

        def take(name: str, count: int) -> np.ndarray:
            at[name] = at.get(name, 0) + count
            return self.arrays[name][at[name] - count : at[name]] if count else np.empty(0, numpy_dtype(name))

        return decode(self.forms[key], take)

    def add(self, key: str, outcome: Any) -> None:
        arrays: Arrays = defaultdict(list)
        form, largest = encode(outcome, arrays), LARGEST.get(self.path.stem, LARGEST_OF_PROGRAMS)
        if any(array.size > largest for several in arrays.values() for array in several):
            raise Unrecordable("a large tensor")
        self.fresh[key] = form, arrays

    def write(self) -> None:
        """Write what is new, and what was read and is not new."""
        for key in [key for key in self.forms if key not in self.fresh]:
            self.add(key, self[key])
        together: Arrays = defaultdict(list)
        for _, arrays in self.fresh.values():
            for name, several in arrays.items():
                together[name] += several
        joined = {name: np.concatenate(several) for name, several in together.items()}
        head = json.dumps(
            [{key: form for key, (form, _) in self.fresh.items()}, {name: array.size for name, array in joined.items()}],
            separators=(",", ":"),
        )
        body = b"".join(array.view(np.uint8).reshape(array.size, array.itemsize).T.tobytes() for array in joined.values())
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_bytes(lzma.compress(head.encode() + b"\n" + body, preset=9 | lzma.PRESET_EXTREME))
        print(f"{self.path.name}: {len(self.fresh)} outcomes, {self.path.stat().st_size:,} bytes", file=sys.stderr)


@cache
def recording(area: str) -> Recording:
    result = Recording.read(FOLDER / f"{area}.xz")
    if RECORDS:
        atexit.register(result.write)
    return result


# -- outcomes ---------------------------------------------------------------------------------------------------------------------
def outcome(area: str, key: str, compute: Callable[[], Any], *, exact: bool = True) -> Any:
    """What PyTorch gives: computed where it is installed, and compared with what is recorded; else what is recorded, or the test rests.

    Args:
        exact: whether values are determined, up to rounding; of eigenvectors, say, they are not.
    """
    found = recording(area)
    if not HAS_ORACLE:
        if key not in found.forms:
            if isinstance(sys.exception(), AssertionError):
                raise LookupError(f"not recorded: {key}")  # while a difference is looked at
            rest()
        return found[key]
    result = compute()
    if RECORDS:
        try:
            if key not in found.fresh:
                found.add(key, kept(result))
        except Unrecordable:
            pass
    elif key in found.forms:
        problem = difference(kept(result), found[key], exact)
        assert not problem, f"what is recorded of PyTorch is not what it gives, {problem}: python -m tests.programs.record_oracle"
    return result


def difference(live: Any, recorded: Any, exact: bool) -> str:
    """Where what PyTorch gives is not what is recorded, in words."""
    if isinstance(live, (list, tuple)) and isinstance(recorded, (list, tuple)):
        if len(live) != len(recorded):
            return f"{len(live)} results in place of {len(recorded)}"
        return next(filter(None, (difference(a, b, exact) for a, b in zip(live, recorded, strict=True))), "")
    if isinstance(live, dict) and isinstance(recorded, dict):
        return difference([*live, *live.values()], [*recorded, *recorded.values()], exact)
    if isinstance(live, Kept) and isinstance(recorded, Kept):
        if (live.dtype, live.shape) != (recorded.dtype, recorded.shape):
            return f"{live.dtype}{list(live.shape)} in place of {recorded.dtype}{list(recorded.shape)}"
        return difference(live.array, recorded.array, exact)
    if isinstance(live, np.ndarray) and isinstance(recorded, np.ndarray):
        return "" if not exact or alike(live, recorded) else f"{live.tolist()} in place of {recorded.tolist()}"
    if isinstance(live, Exception):
        return "" if expected_type(live) is type(recorded) else f"{live!r} in place of {recorded!r}"
    same = live == recorded or live != live or (isinstance(live, float) and np.isclose(live, recorded, rtol=1e-5))
    return "" if same else f"{live!r} in place of {recorded!r}"


def alike(live: np.ndarray, recorded: np.ndarray) -> bool:
    if live.shape != recorded.shape or live.dtype != recorded.dtype:
        return False
    if live.dtype.name not in _PROCESSORS:
        return bool((live == recorded).all())
    wide = np.complex128 if live.dtype.kind == "c" else np.float64
    live, recorded, tolerance = live.astype(wide), recorded.astype(wide), _PROCESSORS[live.dtype.name]
    with np.errstate(all="ignore"):
        finite = np.abs(recorded[np.isfinite(recorded)])
        return bool(np.isclose(live, recorded, rtol=tolerance, atol=tolerance * min(finite.max(initial=0), 1e30), equal_nan=True).all())


def digest(*parts: Any) -> str:
    """The key of a call: of its function's name and its operands, tensors of PyTorch or the arrays that stand for them."""
    state = hashlib.blake2b(digest_size=6)
    for piece in _pieces(parts):
        state.update(piece)
    return state.hexdigest()


def _pieces(value: Any) -> Iterator[bytes]:
    if is_tensor(value):
        try:
            value = array_of(value)
        except Unrecordable:
            value = repr(value)
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.name}{value.shape}{[s for n, s in zip(value.shape, value.strides, strict=True) if n > 1]}".encode()
        yield np.array(value, order="C").tobytes()
    elif isinstance(value, (list, tuple)):
        yield b"["
        for item in value:
            yield from _pieces(item)
        yield b"]"
    elif isinstance(value, dict):
        yield from _pieces(sorted(value.items()))
    else:
        yield _ADDRESS.sub("0x", str(value).removeprefix("torch.")).encode() + b","


@dataclass(frozen=True, slots=True)
class Function:
    """A function of PyTorch by name; ``live`` where it is installed."""

    name: str
    live: Callable[..., Any] | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self.live or rest)(*args, **kwargs)
