"""Launches of a native kernel: found by watching one call, believed only if they alone give the results.

A function of arrays (a native kernel's) is called with its operands. Each launch names arrays by ``id``; what they show is one of these, by
where it lies:

    operand     a part of an operand's memory, also as another view of it (``weight.T``)
    result      a part of what the function returned
    scratch     memory of the call's own, which launches write and read
    constant    memory of the call's own that no launch writes: a table of strides
    flag        zeros that are zeros again afterwards; in one or two of them kernels note what they cannot do: an index out of range, say

The launches are kept with such places instead of addresses. A second call, with other contents at other addresses, must launch the same.
Then the results and scratch of both are filled with zeros, and once more with NaN, the launches run alone, and have to give the results bit
by bit; and all scratch memory of floats is to be written by them.
What fails (a kernel that also computes in NumPy, or decides by values) has no launches here. The first call's results are the program's.
Of a kernel that is registered as ``only_launches`` one call is enough; if it used memory of its own, the launches run once more from NaN.
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

    def is_zero(self) -> bool:
        """Whether it was full of whole zeros before, and is again."""
        return self.array.dtype == np.int64 and not any(self.before) and not self.bytes().any()

    def poison(self, byte: int) -> None:
        """Fill it with ``byte``, truth values with 1 unless that is 0, and integers, which may be indices of scratch memory, with 0."""
        kind = self.array.dtype.kind
        self.bytes().fill(byte if kind in "fcV" else bool(byte) if kind == "b" else 0)

    def is_untouched(self) -> bool:
        """Whether it is scratch memory full of NaN as ``poison`` leaves it: no launch writes it, so that it is filled in another way."""
        return self.kind == "scratch" and self.array.dtype.kind in "fcV" and bool(self.size) and bool((self.bytes() == 0xFF).all())


class _Seen(NamedTuple):
    address: int
    arguments: bytes
    arrays: tuple[int, ...]
    objects: tuple[np.ndarray, ...]
    chunks: int


class _Call:
    """One watched call, and everything that it touched.

    Args:
        contents: function of an operand that gives the contents of its copy, which the call gets; None: it gets the operands themselves.
        former: an earlier call of the function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        contents: Callable[[np.ndarray], np.ndarray] | None = None,
        former: _Call | None = None,
    ):
        self.function, self._contents = function, contents
        self._of_former = set() if former is None else {id(region.array) for region in former.regions if region.kind == "own"}
        self._copies: dict[int, np.ndarray] = {}  # by id of the operand
        self.args = [self._own(arg) for arg in args]
        self.operands = list(self._copies.values())
        self.seen: list[_Seen] = []
        self.before: dict[int, bytes] = {}

    def _own(self, arg: Any) -> Any:
        if arg.__class__ is list or arg.__class__ is tuple:
            return type(arg)([self._own(each) for each in arg])
        if arg.__class__ is not np.ndarray:
            return arg
        if id(arg) not in self._copies:
            self._copies[id(arg)] = arg if self._contents is None else self._copied(arg, self._contents)
        return self._copies[id(arg)]

    @staticmethod
    def _copied(arg: np.ndarray, contents: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        block = aligned(extent(arg.shape, arg.strides, arg.itemsize))
        copy = array_at(address_of(block), arg.shape, arg.strides, arg.dtype, block)
        _once(copy)[...] = contents(_once(arg))
        return copy

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
            if id(root) not in self.before and (root.nbytes <= CONSTANT or id(root) in self._of_former) and root.flags.forc:
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

    def has_overlapping_operands(self) -> bool:
        """Whether operands show the same memory, so that an address does not tell which of them is meant."""
        operands = [region for region in self.regions if region.kind == "operand"]
        return any(_overlap(a, b) for i, a in enumerate(operands) for b in operands[:i])

    def settle(self, other: _Call) -> None:
        """Tell scratch from constants, which another call has, too, and from flags; in that call as well.

        Raises:
            Refused: memory that both calls have is written: it is somebody else's.
        """
        for mine, theirs in zip(self.regions, other.regions, strict=True):
            if mine.kind != "own":
                continue
            is_same = bool(theirs.before) and theirs.before == theirs.bytes().tobytes()
            if mine.array is not theirs.array:
                is_same = is_same and theirs.before == mine.before == mine.bytes().tobytes()
                mine.kind = "flag" if is_same and mine.is_zero() else "scratch"
            elif is_same:
                mine.kind = "flag" if mine.is_zero() else "constant"
            else:
                raise Refused
        self._count()
        for mine, theirs in zip(self.regions, other.regions, strict=True):
            theirs.kind, theirs.index = mine.kind, mine.index

    def settle_alone(self) -> bool:
        """Take all memory of its own for scratch, but for zeros that stayed zeros; whether there is any.

        Raises:
            Refused: there are other integers, which may be a table that others go by, too.
        """
        own = [region for region in self.regions if region.kind == "own"]
        for region in own:
            if region.array.dtype.kind in "iu" and not (region.before and region.is_zero()):
                raise Refused
            region.kind = "flag" if region.array.dtype == np.int64 else "scratch"
        self._count()
        return bool(own)

    def _count(self) -> None:
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


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _other(array: np.ndarray) -> np.ndarray:
    """Contents of the same kind that differ: rolled, floats smaller; of whole numbers that are all equal their neighbours."""
    if not array.size:
        return array
    flat, kind = array.reshape(-1), array.dtype.kind
    rolled = np.roll(flat, 1)
    if kind == "b":
        rolled = rolled if not np.array_equal(rolled, flat) else ~flat
    elif kind in "iu":
        rolled = rolled if not np.array_equal(rolled, flat) else flat - 1 if (flat > 0).all() else flat + 1
    else:
        smaller = rolled.astype(np.float32) if kind == "V" else rolled
        with np.errstate(all="ignore"):
            smaller *= 0.75
        smaller[smaller == 0] = 0.25
        rolled = smaller.astype(array.dtype, copy=False)
    return rolled.reshape(array.shape)


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


def _checked(function: Callable[..., Any], args: Sequence[Any], around: Callable[..., None]) -> tuple[Captured, list[np.ndarray]]:
    first = _Call(function, args)
    first.run()
    if first.has_overlapping_operands():
        first = _Call(function, args, _same)
        first.run()
    second = _Call(function, args, _other, first)
    second.run()
    if not _same_launches(first, second) or _layouts(first) != _layouts(second):
        raise Refused
    first.settle(second)
    for call in (first, second):  # both: a result of the contents of one may not depend on all that is read
        _replay(call, (0, 0xFF), around)  # two, since a kernel may make the right result of one: all of NaN are true
    for result in second.results:
        if result.dtype.kind not in "fcV" and result.size and not result.any():
            raise Refused  # as poisoned: nothing shows that it was computed
    return _found(first), first.results


def _replay(call: _Call, poisons: Sequence[int], around: Callable[..., None]) -> None:
    """Run a call's launches from poisoned memory.

    Raises:
        Refused: they do not give its results, or read memory that they do not write.
    """
    wanted = [_as_bytes(result) for result in call.results]
    for byte in poisons:
        around(call.replay, byte)
        if [_as_bytes(result) for result in call.results] != wanted:
            raise Refused
    if any(region.is_untouched() for region in call.regions):
        raise Refused


def _layouts(call: _Call) -> tuple[tuple[tuple[int, ...], tuple[int, ...], np.dtype], ...]:
    return tuple([(result.shape, result.strides, result.dtype) for result in call.results])


def _found(call: _Call) -> Captured:
    scratch, flags = (tuple([region.size for region in call.regions if region.kind == kind]) for kind in ("scratch", "flag"))
    return Captured(call.launches(), _layouts(call), scratch, flags)


def _seen_once(function: Callable[..., Any], args: Sequence[Any], around: Callable[..., None]) -> tuple[Captured, list[np.ndarray]]:
    """The launches and results of one call; they run once more from poisoned memory if it used memory of its own.

    Raises:
        Refused: that gives something else, or nothing that shows it.
    """
    call = _Call(function, args)
    call.run()
    if call.has_overlapping_operands():
        raise Refused
    if call.settle_alone():
        if not all(np.isfinite(result).all() for result in call.results):
            raise Refused
        _replay(call, (0xFF,), around)
    return _found(call), call.results


def seen_once(function: Callable[..., Any], args: Sequence[Any], around: Callable[..., None]) -> tuple[Captured, list[np.ndarray]] | None:
    """The launches of ``function(*args)``, whose kernel is registered as ``only_launches``, and its results; None where it also does more.

    Args:
        function, args, around: as in ``captured``.
    """
    try:
        found: tuple[Captured, list[np.ndarray]] = run_ignoring_fp(late.alone, _seen_once, function, args, around)
    except Exception as error:  # its operation's own way is right
        pass_on(error)
        return None
    return found


def captured(function: Callable[..., Any], args: Sequence[Any], around: Callable[..., None]) -> tuple[Captured, list[np.ndarray]] | None:
    """The launches of ``function(*args)``, and its results; None where they are not all that it does.

    Args:
        function: of arrays, lists of arrays and attributes; it leaves the arrays as they are.
        around: runs the launches later, as it does here: ``around(function, argument)``.
    """
    try:
        found: tuple[Captured, list[np.ndarray]] = run_ignoring_fp(late.alone, _checked, function, args, around)
    except Exception as error:  # a kernel that refuses other contents has its operation's own way
        pass_on(error)
        return None
    return found
