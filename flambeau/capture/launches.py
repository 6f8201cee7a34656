"""Launches of a native kernel: found by watching one call, believed only if they alone give the results.

A function of arrays (a native kernel's) is called with private copies of its operands. Each launch names arrays by ``id``; what they
show is one of these, by where it lies:

    operand     a part of an operand's memory, also as another view of it (``weight.T``)
    result      a part of what the function returned
    scratch     memory of the call's own, which launches write and read
    constant    memory of the call's own that no launch writes: a table of strides
    flag        zeros that are zeros again afterwards; in one or two of them kernels note what they cannot do: an index out of range, say

The launches are kept with such places instead of addresses. A second call, with other contents at other addresses, must launch the same.
Then results and scratch are filled with zeros, and once more with NaN, the launches run alone on the second contents, and have to give
the second call's results bit by bit. What fails (a kernel that also computes in NumPy, or decides by values) has no launches here.
Of a kernel that is registered as ``only_launches`` one call is enough, and its results are the program's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import late
from ..core.calls.interruption import pass_on
from ..core.state import run_ignoring_fp
from ..kernels.compiler.build import BY_ADDRESS
from ..kernels.compiler.pool import pool
from .memory import address_of, aligned, array_at, extent, root_of

CONSTANT = 1 << 16  # bytes: what is larger is no table
FLAG = 16  # bytes of flags


class Place(NamedTuple):
    """A place in memory: 'operand', 'result', 'scratch' or 'flag' ``number``, ``offset`` bytes from its beginning; or in a ``constant``."""

    kind: str
    number: int
    offset: int
    constant: np.ndarray | None = None


class Launch(NamedTuple):
    """One launch: eight-byte arguments in which those at ``headers`` stand for arrays, and the number of chunks."""

    address: int
    words: bytes
    headers: tuple[tuple[int, Place], ...]
    chunks: int


class Captured(NamedTuple):
    """The launches of a call.

    Attributes:
        results: shape, strides and dtype of each result, all of which have memory of their own.
        scratch, flags: bytes of each piece of scratch memory, and of flags.
    """

    launches: tuple[Launch, ...]
    results: tuple[tuple[tuple[int, ...], tuple[int, ...], np.dtype], ...]
    scratch: tuple[int, ...]
    flags: tuple[int, ...] = ()


class Refused(Exception):
    """A call's launches are not all that it does."""


class _Region:
    """A piece of memory that a call used."""

    __slots__ = ("array", "before", "index", "kind", "size", "start")

    def __init__(self, kind: str, index: int, array: np.ndarray, start: int, size: int):
        self.kind, self.index, self.array, self.start, self.size = kind, index, array, start, size
        self.before = b""

    def bytes(self) -> np.ndarray:
        return array_at(self.start, (self.size,), (1,), np.dtype(np.uint8), self.array)

    def poison(self, byte: int) -> None:
        """Fill it with ``byte``, truth values with 1 unless that is 0, and integers, which may be indices of scratch memory, with 0."""
        kind = self.array.dtype.kind
        self.bytes().fill(byte if kind in "fcV" else bool(byte) if kind == "b" else 0)


class _Seen(NamedTuple):
    address: int
    arguments: bytes
    arrays: tuple[int, ...]
    objects: tuple[np.ndarray, ...]
    chunks: int


class _Call:
    """One watched call, and everything that it touched."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], is_private: bool = True):
        self.operands: list[np.ndarray] = []
        self._given: list[np.ndarray] = []
        if is_private:
            self.args = [self._private(arg) for arg in args]
        else:
            self.args = list(args)
            self.operands = list({id(arg): arg for arg in args if arg.__class__ is np.ndarray}.values())
        self.function = function
        self.seen: list[_Seen] = []
        self.before: dict[int, bytes] = {}

    def _private(self, arg: Any) -> Any:
        if arg.__class__ is list or arg.__class__ is tuple:
            return type(arg)([self._private(each) for each in arg])
        if arg.__class__ is not np.ndarray:
            return arg
        for mine, given in zip(self.operands, self._given, strict=True):
            if given is arg:
                return mine
        size = extent(arg.shape, arg.strides, arg.itemsize)
        block = aligned(size)
        copy = array_at(address_of(block), arg.shape, arg.strides, arg.dtype, block)
        _once(copy)[...] = _once(arg)
        self.operands.append(copy)
        self._given.append(arg)
        return copy

    def perturb(self) -> None:
        """Give all operands other contents of the same kind, whole numbers within the range that they have where that is possible."""
        for array in self.operands:
            if array.size:
                view = _once(array)
                view[...] = _other(np.roll(view.reshape(-1), 1), view.reshape(-1)).reshape(view.shape)

    def take(self, other: _Call) -> None:
        """Let the operands have the contents that they have in another call."""
        for mine, theirs in zip(self.operands, other.operands, strict=True):
            _once(mine)[...] = _once(theirs)

    def run(self) -> None:
        """Do the call.

        Raises:
            Refused: it declines, launches nothing, or launches what is not understood.
        """
        with pool.watched(self._saw):
            made = self.function(*self.args)
        self.results = list(made) if made.__class__ in (tuple, list) else [made]
        if not self.seen or not all(result.__class__ is np.ndarray for result in self.results):
            raise Refused
        self._find_regions()

    def _saw(self, address: int, arguments: bytes, chunks: int) -> None:
        kernel = BY_ADDRESS.get(address)
        if kernel is None or kernel.arrays is None:
            raise Refused
        ids = np.frombuffer(arguments, np.int64)
        objects = tuple([ctypes.cast(int(ids[i]), ctypes.py_object).value for i in kernel.arrays])
        for each in objects:
            root = root_of(each)
            if id(root) not in self.before and root.nbytes <= CONSTANT and root.flags.forc:
                self.before[id(root)] = root.tobytes("A")
        self.seen.append(_Seen(address, arguments, kernel.arrays, objects, chunks))

    def _find_regions(self) -> None:
        self.regions: list[_Region] = []
        for i, array in enumerate(self.operands):
            self.regions.append(_Region("operand", i, array, address_of(array), extent(array.shape, array.strides, array.itemsize)))
        for i, result in enumerate(self.results):
            size = extent(result.shape, result.strides, result.itemsize)
            region = _Region("result", i, result, address_of(result), size)
            if any(_overlap(region, other) for other in self.regions):
                raise Refused  # a view of an operand, or of another result
            self.regions.append(region)
        for seen in self.seen:
            for array in seen.objects:
                if self._region_of(array) is None:
                    root = root_of(array)
                    region = _Region("own", len(self.regions), root, address_of(root), extent(root.shape, root.strides, root.itemsize))
                    region.before = self.before.get(id(root), b"")
                    if any(_overlap(region, other) for other in self.regions):
                        raise Refused
                    self.regions.append(region)

    def _region_of(self, array: np.ndarray) -> _Region | None:
        start = address_of(array)
        for region in self.regions:
            if region.start <= start < region.start + max(region.size, 1):
                return region
        return None

    def place_of(self, array: np.ndarray) -> tuple[_Region, int]:
        region = self._region_of(array)
        if region is None:
            raise Refused
        return region, address_of(array) - region.start

    def settle(self, other: _Call) -> None:
        """Tell scratch from constants, which are the same arrays in another call, and from flags."""
        for mine, theirs in zip(self.regions, other.regions, strict=True):
            if mine.kind == "own":
                is_same = bool(mine.before) and mine.before == mine.bytes().tobytes() == theirs.before
                is_flag = is_same and mine.array.dtype == np.int64 and not any(mine.before)
                mine.kind = "constant" if is_same and mine.array is theirs.array else "flag" if is_flag else "scratch"
        for kind in ("scratch", "flag"):
            for i, region in enumerate([region for region in self.regions if region.kind == kind]):
                region.index = i

    def launches(self) -> tuple[Launch, ...]:
        made = []
        for seen in self.seen:
            headers = []
            words = np.frombuffer(seen.arguments, np.int64).copy()
            for word, array in zip(seen.arrays, seen.objects, strict=True):
                region, offset = self.place_of(array)
                place = Place(region.kind, region.index, offset, region.array if region.kind == "constant" else None)
                headers.append((word, place))
                words[word] = 0
            made.append(Launch(seen.address, words.tobytes(), tuple(headers), seen.chunks))
        return tuple(made)

    def replay(self, byte: int) -> None:
        for region in self.regions:
            if region.kind in ("result", "scratch"):
                region.poison(byte)
        for seen in self.seen:
            pool.launch(seen.address, seen.arguments, seen.chunks)


def _once(array: np.ndarray) -> np.ndarray:
    """An array without the dimensions along which it only repeats."""
    return array[tuple([slice(0, 1) if stride == 0 else slice(None) for stride in array.strides])]


def _other(rolled: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """Contents that differ from ``flat``: rolled, floats smaller; where all are equal, their neighbours."""
    kind = rolled.dtype.kind
    if kind in "iu":
        return rolled if not np.array_equal(rolled, flat) else flat - 1 if (flat > 0).all() else flat + 1
    if kind == "b":
        return rolled if not np.array_equal(rolled, flat) else ~flat
    with np.errstate(all="ignore"):
        smaller = (rolled.astype(np.float32) if kind == "V" else rolled) * 0.75
        return np.where(smaller == 0, smaller + 0.25, smaller).astype(flat.dtype)


def _overlap(a: _Region, b: _Region) -> bool:
    return bool(a.size and b.size) and a.start < b.start + b.size and b.start < a.start + a.size


def _same_launches(a: _Call, b: _Call) -> bool:
    """Whether two calls launched the same, but for where their arrays lie."""
    if len(a.seen) != len(b.seen) or len(a.regions) != len(b.regions):
        return False
    for one, two in zip(a.seen, b.seen, strict=True):
        if one.address != two.address or one.chunks != two.chunks:
            return False
        words = np.frombuffer(one.arguments, np.int64) == np.frombuffer(two.arguments, np.int64)
        words[list(one.arrays)] = True
        if not words.all():
            return False
        for mine, theirs in zip(one.objects, two.objects, strict=True):
            (region, offset), (other, other_offset) = a.place_of(mine), b.place_of(theirs)
            if a.regions.index(region) != b.regions.index(other) or offset != other_offset:
                return False
    return True


def _as_bytes(array: np.ndarray) -> bytes:
    return array.tobytes("A")


def _checked(function: Callable[..., Any], args: Sequence[Any], around: Callable[..., None]) -> Captured:
    first = _Call(function, args)
    first.run()
    second = _Call(function, args)
    second.perturb()
    second.run()
    if not _same_launches(first, second):
        raise Refused
    first.settle(second)
    launches = first.launches()
    first.take(second)
    for byte in (0, 0xFF):  # two, since a kernel may make the right result of one: all of NaN are true
        around(first.replay, byte)
        if any(a.strides != b.strides or _as_bytes(a) != _as_bytes(b) for a, b in zip(first.results, second.results, strict=True)):
            raise Refused
    for mine in first.results:
        if mine.dtype.kind not in "fcV" and mine.size and not mine.any():
            raise Refused  # as poisoned: nothing shows that it was computed
    results = tuple([(result.shape, result.strides, result.dtype) for result in first.results])
    scratch, flags = (tuple([region.size for region in first.regions if region.kind == kind]) for kind in ("scratch", "flag"))
    return Captured(launches, results, scratch, flags)


def _seen_once(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Captured, list[np.ndarray]]:
    """The launches and results of one call, of which nothing has to be verified.

    Raises:
        Refused: it uses other memory than that of operands and results.
    """
    call = _Call(function, args, is_private=False)
    call.run()
    if any(region.kind == "own" for region in call.regions):
        raise Refused
    operands = [region for region in call.regions if region.kind == "operand"]
    if any(_overlap(a, b) for i, a in enumerate(operands) for b in operands[:i]):
        raise Refused
    results = tuple([(result.shape, result.strides, result.dtype) for result in call.results])
    return Captured(call.launches(), results, ()), call.results


def seen_once(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Captured, list[np.ndarray]] | None:
    """The launches of ``function(*args)``, whose kernel is registered as ``only_launches``, and its results; None where it also does more.

    Args:
        function, args: as in ``captured``, but that it gets the arrays themselves; no list of arrays.
    """
    try:
        found: tuple[Captured, list[np.ndarray]] = run_ignoring_fp(late.alone, _seen_once, function, args)
    except Exception as error:  # its operation's own way is right
        pass_on(error)
        return None
    return found


def captured(function: Callable[..., Any], args: Sequence[Any], around: Callable[..., None]) -> Captured | None:
    """The launches of ``function(*args)``; None where they are not all that it does.

    Args:
        function: of arrays, lists of arrays and attributes; it gets copies of the arrays.
        around: runs the launches later, as it does here: ``around(function, argument)``.
    """
    try:
        found: Captured = run_ignoring_fp(late.alone, _checked, function, args, around)
    except Exception as error:  # a kernel that refuses other contents has its operation's own way
        pass_on(error)
        return None
    return found
